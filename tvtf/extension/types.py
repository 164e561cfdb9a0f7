"""Extension types: classes of a user's own whose annotated fields are tensors, nests of them, and plain values.

Source: https://www.tensorflow.org/guide/extension_type
"""

from __future__ import annotations

import abc
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvtf import nest
from tvtf.batches import is_batchable, leading, without_leading
from tvtf.composite import BatchableTypeSpec, CompositeTensor, TypeSpec, register
from tvtf.extension.fields import REQUIRED, Field, ImmutableDict, Stage, convert_all, field, is_reserved
from tvtf.ops.rules import bind
from tvtf.primitive import export, teach
from tvtf.shape import TensorShape, agree_shape
from tvtf.spec import TensorSpec
from tvtf.tensor import Tensor, convert_to_tensor

CONSTRUCTING = "_tf_extension_type_in_constructor"
_OF_FRAMEWORK = "_tf_extension_type_do_not_transform_this_class"


def made(kind: type, values: Mapping[str, Any]) -> Any:
    """An object of ``kind`` with those attributes; no constructor runs."""
    found: Any = object.__new__(kind)
    found.__dict__.update(values)
    return found


class ExtensionTypeMetaclass(abc.ABCMeta):
    """Gives a class with annotated fields its constructor and its spec."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        if not namespace.get(_OF_FRAMEWORK, False):
            _check_declared(cls)
            _add_constructor(cls, Stage.VALUE)
            _add_spec(cls)
        super().__init__(name, bases, namespace)


class _Immutable:
    """Fields that only a custom constructor sets."""

    _told = ""

    def __setattr__(self, name: str, value: Any) -> None:
        self._require_constructing(name)
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        self._require_constructing(name)
        del self.__dict__[name]

    def _require_constructing(self, name: str) -> None:
        if CONSTRUCTING not in self.__dict__ or name not in {f.name for f in self._tf_extension_type_fields()}:
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of {self._told}.")

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        raise NotImplementedError

    def __validate__(self) -> None:
        """Checks the fields; a class may define it."""


@export("experimental.ExtensionType")
class ExtensionType(_Immutable, CompositeTensor, metaclass=ExtensionTypeMetaclass):
    """Base of classes whose values are made of annotated fields, which functions, control flow and datasets take.

    A subclass annotates its fields: ``int``, ``float``, ``str``, ``bool``, ``None``, ``tf.Tensor``, ``tf.TensorShape``,
    ``tf.DType``, extension types and other tensors made of tensors, ``tuple[...]``, ``Mapping[...]`` and unions of these. It
    gets a constructor that checks and converts them, ``__repr__``, ``__eq__``, and a nested ``Spec``; values don't change.

    Raises:
      TypeError: when made, a value does not fit its field; when declared, an annotation is not supported.
      ValueError: when declared, a field has a reserved name or no annotation.
      AttributeError: an attribute is set or deleted.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> @tf.function
    ... def twice(x):
    ...     return Masked(x.values * 2, x.mask)
    >>> twice(Masked([1, 2], [True, False])).values.numpy()
    array([2, 4], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/ExtensionType
    """

    _tf_extension_type_do_not_transform_this_class = True
    _told = "ExtensionType"
    if typing.TYPE_CHECKING:
        Spec: Any
        _tf_extension_type_cached_fields: tuple[Field, ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self) is ExtensionType:
            raise AssertionError(
                "Cannot create an instance of ExtensionType because ExtensionType is an abstract base class."
            )

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        if "_tf_extension_type_cached_fields" not in cls.__dict__:
            hints, are_all_known = _annotations(cls)
            found = tuple(field(name, hint, getattr(cls, name, REQUIRED)) for name, hint in hints.items())
            if not are_all_known:
                return found
            cls._tf_extension_type_cached_fields = found
        return cls._tf_extension_type_cached_fields

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({listed(as_dict(self))})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __eq__(self, other: object) -> Any:
        if type(self) is not type(other) or self._type_spec != other._type_spec:  # type: ignore[attr-defined]
            return False
        pairs = zip(nest.flatten(self, expand_composites=True), nest.flatten(other, expand_composites=True))
        return bind.reduce_all(bind.stack(*(_all_equal(*pair) for pair in pairs), axis=0), axis=(0,), keepdims=False)

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return bind.logical_not(equal) if isinstance(equal, Tensor) else not equal

    __hash__ = None  # type: ignore[assignment]

    @property
    def _type_spec(self) -> Any:
        if "_tf_extension_type_cached_type_spec" not in self.__dict__:
            self.__dict__["_tf_extension_type_cached_type_spec"] = self.Spec.from_value(self)
        return self.__dict__["_tf_extension_type_cached_type_spec"]

    _is_tensor_like = False


def _all_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether two tensors have one shape and equal elements."""
    if not agree_shape(a._type.shape, b._type.shape):
        return convert_to_tensor(False)
    same = bind.equal(a, b)
    return bind.reduce_all(same, axis=tuple(range(same.ndim)), keepdims=False)


def listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _annotations(cls: type) -> tuple[dict[str, Any], bool]:
    """Names with annotations, those of base classes first, and whether all of them are known by now."""
    try:
        return typing.get_type_hints(cls), True
    except (NameError, AttributeError):
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            found.update(base.__dict__.get("__annotations__", {}))
        return found, False


@export("experimental.extension_type.as_dict")
def as_dict(value: ExtensionType) -> dict[str, Any]:
    """The fields of ``value`` by name, as they are.

    >>> import tvtf as tf
    >>> class Toy(tf.experimental.ExtensionType):
    ...     name: str
    ...     count: int = 1
    >>> tf.experimental.extension_type.as_dict(Toy("ball"))
    {'name': 'ball', 'count': 1}

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/extension_type/as_dict
    """
    return {f.name: getattr(value, f.name) for f in value._tf_extension_type_fields()}


def each_component(path: str) -> None:
    """Has a public function of one tensor take a value, and do what it does with each tensor in it."""

    def handler(function: Any, *args: Any, **kwargs: Any) -> Any:
        value, *_ = (*args, *kwargs.values())
        return nest.map_structure(function, value, expand_composites=True)

    teach(path, lambda value: isinstance(value, ExtensionType), handler)


@export("experimental.ExtensionTypeSpec")
class ExtensionTypeSpec(_Immutable, TypeSpec):
    """Base of the specs of extension types, ``MyType.Spec``: the fields, with specs in place of tensors.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> spec = Masked.Spec(values=tf.TensorSpec([None]), mask=tf.TensorSpec([None], tf.bool))
    >>> isinstance(spec, tf.experimental.ExtensionTypeSpec), spec.mask.dtype
    (True, tf.bool)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/ExtensionTypeSpec
    """

    _told = "ExtensionTypeSpec"
    value_type: Any

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        return cls.value_type._tf_extension_type_fields()  # type: ignore[no-any-return]

    def _fields(self) -> dict[str, Any]:
        return {f.name: self.__dict__[f.name] for f in self._tf_extension_type_fields()}

    def _serialize(self) -> tuple[Any, ...]:
        return tuple((name, _with_mappings(value, dict)) for name, value in self._fields().items())

    @classmethod
    def _deserialize(cls, serialization: tuple[Any, ...]) -> Any:
        return made(cls, dict(_with_mappings(serialization, ImmutableDict)))

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """The spec of a value."""
        return of_fields(cls, as_dict(value))

    @property
    def _component_specs(self) -> tuple[TypeSpec, ...]:
        return tuple(leaf for leaf in nest.flatten(tuple(self._fields().values())) if isinstance(leaf, TypeSpec))

    def _to_components(self, value: Any) -> tuple[Any, ...]:
        leaves = nest.flatten(tuple(value.__dict__[name] for name in self._fields()))
        return tuple(leaf for leaf in leaves if isinstance(leaf, (Tensor, CompositeTensor)))

    def _from_components(self, components: Any) -> Any:
        fields, left = self._fields(), iter(components)
        specs = tuple(fields.values())
        flat = [next(left) if isinstance(leaf, TypeSpec) else leaf for leaf in nest.flatten(specs)]
        if list(left):
            raise ValueError(
                "Cannot build an ExtensionType instance from components because more components are provided than the "
                "number expected by the type spec."
            )
        return made(self.value_type, dict(zip(fields, nest.pack_sequence_as(specs, flat))))

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.value_type, self._serialize())

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({listed(dict(self._serialize()))})"


def of_fields(kind: Any, fields: Mapping[str, Any]) -> Any:
    """A spec of a value with those fields."""
    return made(kind, {name: nest.map_structure(_spec_if_tensor, part) for name, part in fields.items()})


def _again(value_type: Any, serialization: tuple[Any, ...]) -> Any:
    return value_type.Spec._deserialize(serialization)


def _spec_if_tensor(leaf: Any) -> Any:
    return TensorSpec(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else getattr(leaf, "_type_spec", leaf)


def _with_mappings(value: Any, kind: type) -> Any:
    """``value`` with every mapping in it of ``kind``."""
    if isinstance(value, (dict, ImmutableDict)):
        return kind((k, _with_mappings(v, kind)) for k, v in value.items())
    return tuple(_with_mappings(each, kind) for each in value) if isinstance(value, tuple) else value


# -- batches


@export("experimental.ExtensionTypeBatchEncoder")
class ExtensionTypeBatchEncoder:
    """How values of an extension type are put into a batch: as tensors that are stacked, each by itself.

    That is right where every field may get a leading axis; a class for which it isn't overrides the methods here and names an
    instance as its ``__batch_encoder__``.

    >>> import tvtf as tf
    >>> class Vehicle(tf.experimental.BatchableExtensionType):
    ...     __batch_encoder__ = tf.experimental.ExtensionTypeBatchEncoder()
    ...     speed: tf.Tensor
    >>> tf.data.Dataset.from_tensor_slices(Vehicle([120, 150])).element_spec
    Vehicle.Spec(speed=TensorSpec(shape=(), dtype=tf.int32, name=None))

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/ExtensionTypeBatchEncoder
    """

    def batch(self, spec: Any, batch_size: int | None) -> Any:
        """The spec of ``batch_size`` values of ``spec``."""

        def wider(part: Any) -> Any:
            if isinstance(part, TensorShape):
                return TensorShape([batch_size]).concatenate(part)
            return leading(part, batch_size) if is_batchable(part) else part

        return _changed(spec, wider)

    def unbatch(self, spec: Any) -> Any:
        """The spec of a row."""

        def narrower(part: Any) -> Any:
            if isinstance(part, TensorShape):
                return part[1:]
            return without_leading(part) if is_batchable(part) else part

        return _changed(spec, narrower)

    def encode(self, spec: Any, value: Any, minimum_rank: int = 0) -> Any:
        """A nest of tensors that can be stacked, or taken apart into rows."""
        return spec._to_components(value)

    def decode(self, spec: Any, encoded_value: Any) -> Any:
        """The value that ``encode`` made such a nest of, or one of rows, or of several stacked."""
        return spec._from_components(encoded_value)

    def encoding_specs(self, spec: Any) -> Any:
        """The specs of what ``encode`` gives."""
        return spec._component_specs


def _changed(spec: Any, change: Callable[[Any], Any]) -> Any:
    return made(type(spec), {name: nest.map_structure(change, part) for name, part in spec._fields().items()})


class BatchableExtensionTypeSpec(ExtensionTypeSpec, BatchableTypeSpec):
    """Base of the specs of extension types that can be elements of a batch."""

    __batch_encoder__: Any = ExtensionTypeBatchEncoder()

    def _batch(self, batch_size: int | None) -> Any:
        return self.__batch_encoder__.batch(self, batch_size)

    def _unbatch(self) -> Any:
        return self.__batch_encoder__.unbatch(self)

    def _encoding_specs(self) -> Any:
        return self.__batch_encoder__.encoding_specs(self)

    def _encode(self, value: Any, minimum_rank: int) -> Any:
        return self.__batch_encoder__.encode(self, value, minimum_rank)

    def _decode(self, encoded: Any) -> Any:
        return self.__batch_encoder__.decode(self, encoded)


@export("experimental.BatchableExtensionType")
class BatchableExtensionType(ExtensionType):
    """An extension type whose values can be elements of a batch: in ``tf.data`` and ``tf.map_fn``.

    >>> import tvtf as tf
    >>> class Vehicle(tf.experimental.BatchableExtensionType):
    ...     top_speed: tf.Tensor
    ...     mpg: tf.Tensor
    >>> batch = Vehicle([120, 150, 80], [30, 40, 12])
    >>> tf.map_fn(lambda v: v.top_speed * v.mpg, batch, fn_output_signature=tf.int32).numpy()
    array([3600, 6000,  960], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/BatchableExtensionType
    """

    _tf_extension_type_do_not_transform_this_class = True


# -- what declaring a class does


def _check_declared(cls: Any) -> None:
    annotations = cls.__dict__.get("__annotations__", {})
    invalid = f"The field annotations for {cls.__name__} are invalid. Field"
    for name, value in cls.__dict__.items():
        if name == "Spec":
            _check_spec(cls, value)
        elif is_reserved(name):
            raise ValueError(f"{invalid} '{name}' is reserved.")
    for name in annotations:
        if is_reserved(name):
            raise ValueError(f"{invalid} '{name}' is reserved.")
    for name, value in cls.__dict__.items():
        if name not in annotations and not _is_no_field(name, value):
            raise ValueError(f"{invalid} {name} is missing a type annotation.")


def _is_no_field(name: str, value: Any) -> bool:
    if name.startswith("_abc_") or (name.startswith("__") and name.endswith("__")):
        return True
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


def _check_spec(cls: Any, given: Any) -> None:
    if not isinstance(given, type):
        raise ValueError(f"{cls.__qualname__}.Spec must be a nested class; got {given}.")
    if given.__bases__ not in ((TypeSpec,), (object,)):
        raise ValueError(f"{cls.__qualname__}.Spec must be directly subclassed from tf.TypeSpec.")


def _add_constructor(cls: Any, stage: Stage) -> None:
    """Has ``cls``'s constructor, its own or one by its fields, convert and check them."""
    cls.__init__ = (_own_constructor if "__init__" in cls.__dict__ else _constructor)(cls, stage)


def _own_constructor(cls: Any, stage: Stage) -> Callable[..., None]:
    own = cls.__init__

    @functools.wraps(own)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        self.__dict__[CONSTRUCTING] = True
        own(self, *args, **kwargs)
        del self.__dict__[CONSTRUCTING]
        _finish(self, stage)

    return construct


def _constructor(cls: Any, stage: Stage) -> Callable[..., None]:
    parameters = _parameters(cls._tf_extension_type_fields(), stage)
    signature = inspect.Signature(parameters, return_annotation=cls.__name__)

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self.__dict__.update(bound.arguments)
        _finish(self, stage)

    construct.__name__ = "__init__"
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    construct.__signature__ = inspect.Signature([own, *parameters], return_annotation=cls)  # type: ignore[attr-defined]
    return construct


def _finish(self: Any, stage: Stage) -> None:
    convert_all(self._tf_extension_type_fields(), self.__dict__, stage)
    self.__validate__()


def _parameters(fields: Sequence[Field], stage: Stage) -> list[inspect.Parameter]:
    """A parameter for each field; from the first without a default behind one with a default on, by name only."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    had_default, found = False, []
    for each in fields:
        default = inspect.Parameter.empty if stage is Stage.SPEC or each.default is REQUIRED else each.default
        had_default |= default is not inspect.Parameter.empty
        if had_default and default is inspect.Parameter.empty:
            kind = inspect.Parameter.KEYWORD_ONLY
        annotation = inspect.Parameter.empty if stage is Stage.SPEC else each.annotation
        found.append(inspect.Parameter(each.name, kind, default=default, annotation=annotation))
    return found


def _add_spec(cls: Any) -> None:
    name = f"{cls.__qualname__}.Spec"
    own = {"value_type": cls, "__module__": cls.__module__, **_customized(cls, name)}
    is_batchable = issubclass(cls, BatchableExtensionType)
    if is_batchable and hasattr(cls, "__batch_encoder__"):
        own.setdefault("__batch_encoder__", cls.__batch_encoder__)
    if not is_batchable and (hasattr(cls, "__batch_encoder__") or "__batch_encoder__" in own):
        raise ValueError("__batch_encoder__ should only be defined for BatchableExtensionType classes.")
    base = BatchableExtensionTypeSpec if is_batchable else ExtensionTypeSpec
    spec: Any = abc.ABCMeta(f"{cls.__name__}.Spec", (base,), own)
    spec.__qualname__ = name
    _add_constructor(spec, Stage.SPEC)
    cls.Spec = spec
    if "__name__" in cls.__dict__:
        register(f"{cls.__dict__['__name__']}.Spec", spec)


def _customized(cls: Any, name: str) -> dict[str, Any]:
    """What a nested class ``Spec`` of the user's defines."""
    fields = {f.name for f in cls._tf_extension_type_fields()}
    found = dict(vars(cls.__dict__["Spec"])) if "Spec" in cls.__dict__ else {}
    for each in found:
        if is_reserved(each):
            raise ValueError(f"TypeSpec {name} uses reserved name '{each}'.")
        if each in fields:
            raise ValueError(f"TypeSpec {name} defines a variable '{each}' which shadows a field in {cls.__qualname__}")
    return {k: v for k, v in found.items() if k not in ("__module__", "__dict__", "__weakref__")}


del annotations  # doctest would run the examples with this module's future: their annotations would be strings
