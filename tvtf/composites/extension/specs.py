"""Specs of extension types: their fields with specs in place of tensors; and the encoding of values for batching."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvtf.composites.extension.fields import Field, ImmutableDict
from tvtf.core import nest
from tvtf.core.composite import BatchableTypeSpec, CompositeTensor, TypeSpec
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.ir.batching import is_batchable, leading, without_leading

CONSTRUCTING = "_tf_extension_type_in_constructor"


def create_without_init(object_class: type, values: Mapping[str, Any]) -> Any:
    """Creates an object of a class with given attributes, without calling its constructor."""
    created: Any = object.__new__(object_class)
    created.__dict__.update(values)
    return created


class Immutable:
    """The base class with immutable fields, which only a custom constructor may set."""

    _kind_name = ""

    def __setattr__(self, name: str, value: Any) -> None:
        self._require_constructing(name)
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        self._require_constructing(name)
        del self.__dict__[name]

    def _require_constructing(self, name: str) -> None:
        if CONSTRUCTING not in self.__dict__ or name not in {field.name for field in self._tf_extension_type_fields()}:
            raise AttributeError(
                f"Cannot mutate attribute `{name}` outside the custom constructor of {self._kind_name}."
            )

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        raise NotImplementedError

    def __validate__(self) -> None:
        """Checks the fields; a subclass may override it."""


def listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


@export("experimental.extension_type.as_dict")
def as_dict(value: Any) -> dict[str, Any]:
    """Returns the fields of ``value`` by name, without conversion.

    >>> import tvtf as tf
    >>> class Toy(tf.experimental.ExtensionType):
    ...     name: str
    ...     count: int = 1
    >>> tf.experimental.extension_type.as_dict(Toy("ball"))
    {'name': 'ball', 'count': 1}

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/extension_type/as_dict
    """
    return {field.name: getattr(value, field.name) for field in value._tf_extension_type_fields()}


@export("experimental.ExtensionTypeSpec")
class ExtensionTypeSpec(Immutable, TypeSpec):
    """The base class of extension types' specs, ``MyType.Spec``: the fields with specs in place of tensors.

    >>> import tvtf as tf
    >>> class Masked(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    >>> spec = Masked.Spec(values=tf.TensorSpec([None]), mask=tf.TensorSpec([None], tf.bool))
    >>> isinstance(spec, tf.experimental.ExtensionTypeSpec), spec.mask.dtype
    (True, tf.bool)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/ExtensionTypeSpec
    """

    _kind_name = "ExtensionTypeSpec"
    value_type: Any

    @classmethod
    def _tf_extension_type_fields(cls) -> Sequence[Field]:
        return cls.value_type._tf_extension_type_fields()  # type: ignore[no-any-return]

    def _fields(self) -> dict[str, Any]:
        return {field.name: self.__dict__[field.name] for field in self._tf_extension_type_fields()}

    def _serialize(self) -> tuple[Any, ...]:
        return tuple((name, _convert_mappings(value, dict)) for name, value in self._fields().items())

    @classmethod
    def _deserialize(cls, serialization: tuple[Any, ...]) -> Any:
        return create_without_init(cls, dict(_convert_mappings(serialization, ImmutableDict)))

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """Returns the spec of a value."""
        return of_fields(cls, as_dict(value))

    @property
    def _component_specs(self) -> tuple[TypeSpec, ...]:
        return tuple(leaf for leaf in nest.flatten(tuple(self._fields().values())) if isinstance(leaf, TypeSpec))

    def _component_names(self) -> tuple[str, ...]:
        are_tensors = all(isinstance(spec, TensorSpec) for spec in self._component_specs)
        names = tuple(name for name, spec in self._fields().items() if isinstance(spec, TypeSpec))
        return names if are_tensors and len(names) == len(self._component_specs) else ()

    def _to_components(self, value: Any) -> tuple[Any, ...]:
        leaves = nest.flatten(tuple(value.__dict__[name] for name in self._fields()))
        return tuple(leaf for leaf in leaves if isinstance(leaf, (Tensor, CompositeTensor)))

    def _from_components(self, components: Any) -> Any:
        """Builds an extension type's value from its component tensors: they replace the specs among the fields."""
        fields = self._fields()
        field_specs = tuple(fields.values())
        remaining = iter(components)
        leaves = [next(remaining) if isinstance(leaf, TypeSpec) else leaf for leaf in nest.flatten(field_specs)]
        if list(remaining):
            raise ValueError(
                "Cannot build an ExtensionType instance from components because more components are provided than the "
                "number expected by the type spec."
            )
        values = nest.pack_sequence_as(field_specs, leaves)
        return create_without_init(self.value_type, dict(zip(fields, values)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.value_type, self._serialize())

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({listed(dict(self._serialize()))})"


def of_fields(spec_class: Any, fields: Mapping[str, Any]) -> Any:
    """Returns the spec of an extension type's value from its fields, by replacing all tensors in them by their specs."""
    return create_without_init(
        spec_class, {name: nest.map_structure(_spec_if_tensor, value) for name, value in fields.items()}
    )


def _again(value_type: Any, serialization: tuple[Any, ...]) -> Any:
    return value_type.Spec._deserialize(serialization)


def _spec_if_tensor(leaf: Any) -> Any:
    return TensorSpec(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else getattr(leaf, "_type_spec", leaf)


def _convert_mappings(value: Any, mapping_class: type) -> Any:
    """Returns a nest of dicts and tuples with all mappings in it converted to ``mapping_class``."""
    if isinstance(value, (dict, ImmutableDict)):
        return mapping_class((key, _convert_mappings(v, mapping_class)) for key, v in value.items())
    return tuple(_convert_mappings(item, mapping_class) for item in value) if isinstance(value, tuple) else value


# -- batches


@export("experimental.ExtensionTypeBatchEncoder")
class ExtensionTypeBatchEncoder:
    """The encoding of an extension type's values for batching; by default each tensor is stacked separately.

    That requires that every field may have a leading axis. Another class overrides these methods and sets an instance as its
    ``__batch_encoder__``.

    >>> import tvtf as tf
    >>> class Vehicle(tf.experimental.BatchableExtensionType):
    ...     __batch_encoder__ = tf.experimental.ExtensionTypeBatchEncoder()
    ...     speed: tf.Tensor
    >>> tf.data.Dataset.from_tensor_slices(Vehicle([120, 150])).element_spec
    Vehicle.Spec(speed=TensorSpec(shape=(), dtype=tf.int32, name=None))

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/ExtensionTypeBatchEncoder
    """

    def batch(self, spec: Any, batch_size: int | None) -> Any:
        """Returns the spec of a batch of ``batch_size`` values of ``spec``; None means an unknown size."""

        def add_batch_dim(part: Any) -> Any:
            """Adds the batch dim to a shape or a batchable field; other fields are the same in all values."""
            if isinstance(part, TensorShape):
                return TensorShape([batch_size]).concatenate(part)
            return leading(part, batch_size) if is_batchable(part) else part

        return _map_spec(spec, add_batch_dim)

    def unbatch(self, spec: Any) -> Any:
        """Returns the spec of one value of a batch: removes the batch dim."""

        def remove_batch_dim(part: Any) -> Any:
            if isinstance(part, TensorShape):
                return part[1:]
            return without_leading(part) if is_batchable(part) else part

        return _map_spec(spec, remove_batch_dim)

    def encode(self, spec: Any, value: Any, minimum_rank: int = 0) -> Any:
        """Encodes a value as a nest of tensors that can be stacked, or split into rows."""
        return spec._to_components(value)

    def decode(self, spec: Any, encoded_value: Any) -> Any:
        """Decodes a nest that ``encode`` returned, or its rows, or a stack of several nests, to a value."""
        return spec._from_components(encoded_value)

    def encoding_specs(self, spec: Any) -> Any:
        """Returns the specs of the result of ``encode``."""
        return spec._component_specs


def _map_spec(spec: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a copy of a spec with ``change`` applied to each leaf of its fields."""
    return create_without_init(
        type(spec), {name: nest.map_structure(change, part) for name, part in spec._fields().items()}
    )


class BatchableExtensionTypeSpec(ExtensionTypeSpec, BatchableTypeSpec):
    """The base class of the specs of batchable extension types."""

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


del annotations  # else doctest runs the examples with this module's __future__ import, which makes annotations strings
