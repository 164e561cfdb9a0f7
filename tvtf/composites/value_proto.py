"""Protocol buffers of Python values, specs and nests of them, in the format of TensorFlow's ``StructuredValue``.

Source: ``tensorflow/core/protobuf/struct.proto``, ``tensorflow/python/saved_model/nested_structure_coder.py``
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tvtf.api.namespaces import import_late
from tvtf.api.namespaces import install as _install
from tvtf.core import nest
from tvtf.core.composite import TypeSpec, registered, registered_name
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import BoundedTensorSpec, TensorSpec
from tvtf.dtypes import DType, as_dtype
from tvtf.fileio.protobuf import declare
from tvtf.ops.strings import tensor_proto

_MESSAGES: Final = declare(
    "tvtf.core.struct",
    {
        **tensor_proto.DECLARATIONS,
        "NoneValue": (),
        "ListValue": ("1 StructuredValue* values",),
        "TupleValue": ("1 StructuredValue* values",),
        "DictValue": ("1 map:StructuredValue fields",),
        "PairValue": ("1 string key", "2 StructuredValue value"),
        "NamedTupleValue": ("1 string name", "2 PairValue* values"),
        "TensorSpecProto": ("1 string name", "2 TensorShapeProto shape", "3 int32 dtype"),
        "TypeSpecProto": (
            *("1 int32 type_spec_class", "2 StructuredValue type_state", "3 string type_spec_class_name"),
            "4 int32 num_flat_components",
        ),
        "BoundedTensorSpecProto": (
            *("1 string name", "2 TensorShapeProto shape", "3 int32 dtype"),
            *("4 TensorProto minimum", "5 TensorProto maximum"),
        ),
        "StructuredValue": (
            *("1 NoneValue none_value kind", "11 double float64_value kind", "12 sint64 int64_value kind"),
            *("13 string string_value kind", "14 bool bool_value kind", "31 TensorShapeProto tensor_shape_value kind"),
            *("32 int32 tensor_dtype_value kind", "33 TensorSpecProto tensor_spec_value kind"),
            *("34 TypeSpecProto type_spec_value kind",),
            *("35 BoundedTensorSpecProto bounded_tensor_spec_value kind", "51 ListValue list_value kind"),
            *("52 TupleValue tuple_value kind", "53 DictValue dict_value kind"),
            *("54 NamedTupleValue named_tuple_value kind", "55 TensorProto tensor_value kind"),
            "56 TensorProto numpy_value kind",
        ),
    },
)
StructuredValue: Final = _MESSAGES["StructuredValue"]
_REGISTERED, _EXTENSION = 12, 13
_BUILT_IN: Final = {
    1: "SparseTensorSpec",
    2: "IndexedSlicesSpec",
    3: "RaggedTensorSpec",
    5: "data.DatasetSpec",
    7: "OptionalSpec",
}
"""The public names of type specs by TensorFlow's enum ``TypeSpecClass``, which has two numbers for registered ones, too."""


class NotEncodableError(Exception):
    """Raised for a value that a ``StructuredValue`` can't hold, such as an object of a user's class."""


@export("__internal__.saved_model.encode_structure", waits=False)
def encode_structure(nested_structure: Any) -> Any:
    """Encodes a nest of plain values, shapes, dtypes, type specs and eager tensors as a ``StructuredValue`` message.

    Raises:
      NotEncodableError: a value is of another type, or a type spec's class is not registered.

    >>> import tvtf as tf
    >>> message = tf.__internal__.saved_model.encode_structure((tf.TensorSpec([None, 3]), {"name": "x"}))
    >>> tf.__internal__.saved_model.decode_proto(message)
    (TensorSpec(shape=(None, 3), dtype=tf.float32, name=None), {'name': 'x'})

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/saved_model/nested_structure_coder.py
    """
    for value_type, encode in _ENCODERS.items():
        if isinstance(nested_structure, value_type):
            return StructuredValue(**encode(nested_structure))
    raise _not_encodable(nested_structure)


@export("__internal__.saved_model.decode_proto", waits=False)
def decode_proto(proto: Any) -> Any:
    """Decodes a ``StructuredValue`` message, as ``encode_structure`` returns it, to the nest of values.

    A namedtuple is one of a new class with the same name and fields.

    Raises:
      ValueError: the message is empty, or the class of a type spec is not registered.

    >>> import tvtf as tf
    >>> message = tf.__internal__.saved_model.encode_structure([tf.int32, None, 2.5])
    >>> tf.__internal__.saved_model.decode_proto(message)
    [tf.int32, None, 2.5]

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/saved_model/nested_structure_coder.py
    """
    kind = proto.WhichOneof("kind")
    if kind not in _DECODERS:
        raise ValueError(f"a StructuredValue with the field {kind!r} can't be decoded")
    return _DECODERS[kind](getattr(proto, kind))


def _not_encodable(value: Any) -> NotEncodableError:
    return NotEncodableError(f"No encoder for object {value} of type {type(value)}.")


def _encoded_tuple(value: tuple[Any, ...]) -> dict[str, Any]:
    """Encodes a tuple, or a namedtuple with the names of its class and fields."""
    values = [encode_structure(each) for each in value]
    if not hasattr(value, "_fields"):
        return {"tuple_value": {"values": values}}
    pairs = [{"key": key, "value": each} for key, each in zip(value._fields, values)]
    return {"named_tuple_value": {"name": type(value).__name__, "values": pairs}}


def _encoded_shape(shape: TensorShape) -> Any:
    """Encodes a shape as a ``TensorShapeProto``, in which -1 is an unknown size."""
    if shape.rank is None:
        return {"unknown_rank": True}
    return {"dim": [{"size": -1 if size is None else size} for size in shape]}


def _encoded_array(array: np.ndarray) -> Any:
    return _MESSAGES["TensorProto"].FromString(tensor_proto.written(array))


def _encoded_bounded_spec(spec: BoundedTensorSpec) -> dict[str, Any]:
    """Encodes a spec with bounds as a ``BoundedTensorSpecProto``."""
    return {
        "name": spec.name,
        "shape": _encoded_shape(spec.shape),
        "dtype": spec.dtype.as_datatype_enum,
        "minimum": _encoded_array(spec.minimum),
        "maximum": _encoded_array(spec.maximum),
    }


def _encoded_type_spec(spec: TypeSpec) -> dict[str, Any]:
    """Encodes the spec of a composite tensor as the name of its class and its serialization.

    Raises:
      NotEncodableError: the class is not registered.
    """
    spec_class = type(spec)
    number = next((number for number, path in _BUILT_IN.items() if public_names().get(path) is spec_class), None)
    name = spec_class.__name__ if number else registered_name(spec_class)
    if name is None:
        raise _not_encodable(spec)
    is_extension = hasattr(spec, "_tf_extension_type_fields")
    fields = {
        "type_spec_class": number or (_EXTENSION if is_extension else _REGISTERED),
        "type_state": encode_structure(spec._serialize()),
        "type_spec_class_name": name,
        "num_flat_components": len(nest.flatten(spec._component_specs, expand_composites=True)),
    }
    return {"type_spec_value": fields}


_ENCODERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    type(None): lambda v: {"none_value": {}},
    bool: lambda v: {"bool_value": v},  # a bool is an int, too
    int: lambda v: {"int64_value": v},
    float: lambda v: {"float64_value": v},
    str: lambda v: {"string_value": v},
    list: lambda v: {"list_value": {"values": [encode_structure(each) for each in v]}},
    tuple: _encoded_tuple,
    Mapping: lambda v: {"dict_value": {"fields": {key: encode_structure(each) for key, each in v.items()}}},
    TensorShape: lambda v: {"tensor_shape_value": _encoded_shape(v)},
    DType: lambda v: {"tensor_dtype_value": v.as_datatype_enum},
    BoundedTensorSpec: lambda v: {"bounded_tensor_spec_value": _encoded_bounded_spec(v)},  # a TensorSpec, too
    TensorSpec: lambda v: {
        "tensor_spec_value": {"name": v.name, "shape": _encoded_shape(v.shape), "dtype": v.dtype.as_datatype_enum}
    },
    TypeSpec: _encoded_type_spec,
    EagerTensor: lambda v: {"tensor_value": _encoded_array(v.numpy())},
    np.ndarray: lambda v: {"numpy_value": _encoded_array(v)},
}


def _shape(proto: Any) -> TensorShape:
    return TensorShape(None if proto.unknown_rank else [None if dim.size == -1 else dim.size for dim in proto.dim])


def _named_tuple(proto: Any) -> Any:
    fields = [pair.key for pair in proto.values]
    values = [decode_proto(pair.value) for pair in proto.values]
    return namedtuple(proto.name, fields)(*values)  # noqa: PYI024


def _type_spec(proto: Any) -> TypeSpec:
    """Decodes the spec of a composite tensor.

    Raises:
      ValueError: the class is not registered.
    """
    path = _BUILT_IN.get(proto.type_spec_class)
    if path is not None and path not in public_names():
        import_late(path)
    spec_class: Any = public_names().get(path or "") or registered.get(proto.type_spec_class_name)
    if spec_class is None:
        raise ValueError(
            f"The type '{proto.type_spec_class_name}' has not been registered. It must be registered before you load this "
            "object (typically by importing its module)."
        )
    return spec_class._deserialize(decode_proto(proto.type_state))  # type: ignore[no-any-return]


def _array(proto: Any) -> np.ndarray:
    return tensor_proto.read(proto.SerializeToString(), as_dtype(proto.dtype))


_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "none_value": lambda _: None,
    **dict.fromkeys(("bool_value", "int64_value", "float64_value", "string_value"), lambda v: v),
    "list_value": lambda v: [decode_proto(each) for each in v.values],
    "tuple_value": lambda v: tuple(decode_proto(each) for each in v.values),
    "named_tuple_value": _named_tuple,
    "dict_value": lambda v: {key: decode_proto(each) for key, each in v.fields.items()},
    "tensor_shape_value": _shape,
    "tensor_dtype_value": as_dtype,
    "tensor_spec_value": lambda v: TensorSpec(_shape(v.shape), as_dtype(v.dtype), v.name or None),
    "type_spec_value": _type_spec,
    "bounded_tensor_spec_value": lambda v: BoundedTensorSpec(
        _shape(v.shape), as_dtype(v.dtype), _array(v.minimum), _array(v.maximum), v.name or None
    ),
    "tensor_value": lambda v: convert_to_tensor(_array(v)),
    "numpy_value": _array,
}

_install()
