"""JSON encoding of Python values, specs and nests of them, for the arguments and results of saved functions.

Every value is a dict of one entry whose key names its kind: ``{"tuple": [{"value": 1}, {"spec": ...}]}``.
"""

from __future__ import annotations

import base64
import inspect
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from tvtf import dtypes
from tvtf.api.namespaces import all_names
from tvtf.composites.extension.anonymous import AnonymousExtensionTypeSpec
from tvtf.core.composite import TypeSpec, registered, registered_name
from tvtf.core.shape import TensorShape
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import DType
from tvtf.fileio.saved_module_error import SavedModuleError

PLAIN_TYPES = (bool, int, float, str)


class NotPlain(ValueError):
    """A value that can't be encoded, such as an object of a user's class."""


def encode(value: Any, leaf: Callable[[Any], Any] = lambda _: None) -> Any:
    """Encodes a nest of values as JSON: each as a dict of one entry, whose key names the kind of value.

    ``leaf`` may encode further kinds of values, and returns None for others.

    Raises:
      NotPlain: a value is not a plain value, a spec, or a container of them.

    >>> encode((1, {"x": None}))
    {'tuple': [{'value': 1}, {'dict': [['x', {'value': None}]]}]}
    """
    encoded_leaf = leaf(value)
    if encoded_leaf is not None:
        return encoded_leaf
    if value is None or isinstance(value, PLAIN_TYPES):
        return {"value": value}
    for value_type, encode_value in _ENCODERS.items():
        if isinstance(value, value_type):
            return encode_value(value, leaf)
    raise NotPlain(f"{value!r} of type {type(value).__name__}")


def _encode_tuple(value: Any, leaf: Any) -> Any:
    """Encodes a tuple, or a namedtuple with the names of its class and fields."""
    items = [encode(each, leaf) for each in value]
    if hasattr(value, "_fields"):
        return {"named": [type(value).__name__, list(value._fields), items]}
    return {"tuple": items}


def _encode_dict(value: Any, leaf: Any) -> Any:
    """Encodes a mapping as a list of (key, encoded value). Raises NotPlain for a key that is not a plain value."""
    for key in value:
        if not isinstance(key, PLAIN_TYPES):
            raise NotPlain(f"the key {key!r} of type {type(key).__name__}")
    kind = "ordered" if isinstance(value, OrderedDict) else "dict"
    return {kind: [[key, encode(each, leaf)] for key, each in value.items()]}


def _encode_spec(spec: TensorSpec, leaf: Any) -> Any:
    """Encodes a TensorSpec as dtype, dims and name; a dim with a name is encoded by the name."""
    dims: list[Any] | None = None
    if spec.shape.rank is not None:
        dims = [dim_name or size for size, dim_name in zip(spec.shape, spec.dim_names or ())]
    return {"spec": [spec.dtype.name, dims, spec.name]}


def _name_of(spec_class: type[TypeSpec]) -> str:
    """Returns the name by which files refer to a type spec's class: its registered name, or its public name.

    Raises NotPlain for a class that has neither.
    """
    name = registered_name(spec_class)
    if name is None and all_names().get(spec_class.__name__) is not spec_class:
        raise NotPlain(f"a value of the type {spec_class.__qualname__}, whose class has no `__name__` to find it by")
    return name or spec_class.__name__


_ENCODERS: dict[type, Callable[[Any, Any], Any]] = {
    bytes: lambda v, _: {"bytes": base64.b64encode(v).decode()},
    complex: lambda v, _: {"complex": [v.real, v.imag]},
    DType: lambda v, _: {"dtype": v.name},
    TensorShape: lambda v, _: {"shape": None if v.rank is None else list(v)},
    TensorSpec: _encode_spec,
    TypeSpec: lambda v, _: {"type": [_name_of(type(v)), encode(v._serialize())]},
    tuple: _encode_tuple,
    list: lambda v, leaf: {"list": [encode(each, leaf) for each in v]},
    Mapping: _encode_dict,
}


def decode(data: Any, leaf: Callable[[str, Any], Any] | None = None) -> Any:
    """Decodes what `encode` returned; ``leaf(kind, content)`` decodes further kinds.

    Raises:
      SavedModuleError: the data is invalid.

    >>> decode(encode((1, {"x": TensorShape([2, None])})))
    (1, {'x': TensorShape([2, None])})
    """
    if not isinstance(data, dict) or len(data) != 1:
        raise SavedModuleError(f"{data!r:.80} is not a value")
    ((kind, content),) = data.items()
    if kind in _DECODERS:
        try:
            return _DECODERS[kind](content, leaf)
        except (TypeError, ValueError, KeyError, AttributeError) as cause:
            raise SavedModuleError(f"{data!r:.80} is not a value: {cause}") from cause
    if leaf is None:
        raise SavedModuleError(f"{kind!r} is not a kind of value")
    return leaf(kind, content)


def _decode_plain(content: Any, leaf: Any) -> Any:
    if content is not None and not isinstance(content, PLAIN_TYPES):
        raise TypeError(f"{content!r:.40} is not plain")
    return content


def _decode_named(content: Any, leaf: Any) -> Any:
    name, fields, items = content
    return namedtuple(name, fields)(*(decode(each, leaf) for each in items))  # noqa: PYI024


def _decode_spec(content: Any, leaf: Any) -> Any:
    """Decodes a TensorSpec from dtype, dims and name. Raises ValueError for a negative dim."""
    dtype, dims, name = content
    if dims is not None and any(isinstance(dim, int) and dim < 0 for dim in dims):
        raise ValueError(f"dims {dims}")
    return TensorSpec(dims, dtypes.as_dtype(dtype), name)


def _decode_type(content: Any, leaf: Any) -> Any:
    """Decodes the spec of a composite tensor from the name of its class and its serialization."""
    name, serialization = content
    spec_class = registered.get(name) or all_names().get(name) or _anonymous(name)
    if not isinstance(spec_class, type) or not issubclass(spec_class, TypeSpec):
        raise ValueError(f"{name!r} is not a type of tensors")
    return spec_class._deserialize(decode(serialization, leaf))


def _anonymous(name: str) -> Any:
    """Returns AnonymousExtensionTypeSpec for the spec name of an undeclared extension type, or None for other names."""
    if not name.endswith(".Spec"):
        return None
    warnings.warn(
        f"The type '{name}' has not been registered. Falling back to using AnonymousExtensionTypeSpec instead.",
        stacklevel=2,
    )
    return AnonymousExtensionTypeSpec


_DECODERS: dict[str, Callable[[Any, Any], Any]] = {
    "value": _decode_plain,
    "bytes": lambda v, _: base64.b64decode(v, validate=True),
    "complex": lambda v, _: complex(*v),
    "dtype": lambda v, _: dtypes.as_dtype(v),
    "shape": lambda v, _: TensorShape(v),
    "spec": _decode_spec,
    "type": _decode_type,
    "tuple": lambda v, leaf: tuple(decode(each, leaf) for each in v),
    "list": lambda v, leaf: [decode(each, leaf) for each in v],
    "dict": lambda v, leaf: {key: decode(each, leaf) for key, each in v},
    "ordered": lambda v, leaf: OrderedDict((key, decode(each, leaf)) for key, each in v),
    "named": _decode_named,
}


# -- Python signatures


class CapturedDefault:
    """The placeholder of a default argument whose value could not be saved."""

    def __repr__(self) -> str:
        return "<captured_default_value>"


def encode_signature(signature: inspect.Signature) -> Any:
    """Encodes a signature: name, kind and default of each parameter."""
    return [
        [parameter.name, parameter.kind.name, _encode_default(parameter.default)]
        for parameter in signature.parameters.values()
    ]


def _encode_default(default: Any) -> Any:
    """Encodes a parameter's default: None without one, and "captured" for a value that can't be encoded."""
    if default is inspect.Parameter.empty:
        return None
    try:
        return encode(default)
    except NotPlain:
        return {"captured": None}


def decode_signature(data: Any) -> inspect.Signature:
    """Decodes a Python signature from the JSON data that `encode_signature` returned.

    Raises:
      SavedModuleError: the data is invalid.
    """
    try:
        return inspect.Signature([_decode_parameter(*each) for each in data])
    except (TypeError, ValueError, AttributeError) as cause:
        raise SavedModuleError(f"{data!r:.80} is not a signature: {cause}") from cause


def _decode_parameter(name: str, kind: str, default: Any) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else decode(default, lambda *_: CapturedDefault())
    kinds = {parameter_kind.name: parameter_kind for parameter_kind in inspect._ParameterKind}
    return inspect.Parameter(name, kinds[kind] if kind in kinds else _raise_unknown_kind(kind), default=value)


def _raise_unknown_kind(kind: str) -> Any:
    raise ValueError(f"{kind!r} is not a kind of parameter")
