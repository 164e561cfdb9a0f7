"""Composite tensors (ragged, sparse, extension types) and their type specs: TensorFlow's protocol.

A :class:`CompositeTensor` has a :class:`TypeSpec`, which converts a value to components (tensors or composite tensors) and
back. Functions, branches, loops, tapes and ``tf.nest`` with ``expand_composites=True`` work on the components; all other
code sees one value.

Source: https://www.tensorflow.org/api_docs/python/tf/TypeSpec
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape
from tvtf.dtypes import DType


@export("TypeSpec")
class TypeSpec(abc.ABC):
    """The type of a composite tensor: its static properties, and the conversion to components and back.

    A subclass defines ``value_type``, ``_component_specs``, ``_to_components``, ``_from_components`` and ``_serialize``.
    Equality, hash, repr and compatibility are derived from the result of ``_serialize``.

    >>> import tvtf as tf
    >>> wide, narrow = tf.IndexedSlicesSpec([None, 3]), tf.IndexedSlicesSpec([2, 3])
    >>> wide.is_compatible_with(narrow), narrow.most_specific_compatible_type(wide) == wide
    (True, True)

    Source: https://www.tensorflow.org/api_docs/python/tf/TypeSpec
    """

    is_leaf = False
    """Whether its values are plain tensors, without components."""

    @property
    @abc.abstractmethod
    def value_type(self) -> type:
        """The class of the values."""

    @property
    @abc.abstractmethod
    def _component_specs(self) -> Any:
        """The nest of the components' specs."""

    @abc.abstractmethod
    def _to_components(self, value: Any) -> Any:
        """Converts a value to its nest of components."""

    @abc.abstractmethod
    def _from_components(self, components: Any) -> Any:
        """Converts a nest of components to a value."""

    @abc.abstractmethod
    def _serialize(self) -> tuple[Any, ...]:
        """Returns the constructor's arguments: a nest of shapes, dtypes, specs and plain values."""

    def _component_names(self) -> Sequence[str]:
        """Returns the components' names in the order of their flat list; empty if they have numbers only."""
        return ()

    @classmethod
    def _deserialize(cls, serialization: tuple[Any, ...]) -> TypeSpec:
        return cls(*serialization)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Returns whether a value can have this type, or values of another spec can. Unknown dims match any size."""
        other = getattr(spec_or_value, "_type_spec", spec_or_value)
        return type(other) is type(self) and _are_compatible(self._serialize(), other._serialize())

    def is_subtype_of(self, other: Any) -> bool:
        """Returns whether every value of this type is a value of ``other``."""
        return type(other) is type(self) and _is_within(self._serialize(), other._serialize())

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TypeSpec | None:
        """Returns the most specific type that includes the values of this type and of all ``others``.

        Returns None if there is no such type.
        """
        common: TypeSpec = self
        for other in others:
            if type(other) is not type(common):
                return None
            try:
                common = common._deserialize(_common_supertype(common._serialize(), other._serialize()))
            except _NoCommonType:
                return None
        return common

    def most_specific_compatible_type(self, other: TypeSpec) -> TypeSpec:
        """Returns the most specific type that includes the values of both types.

        Raises:
          ValueError: no type includes the values of both types.
        """
        common = self.most_specific_common_supertype([other])
        if common is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return common

    # Subclasses in other libraries call these by TensorFlow's private names, to compare parts of their specs.

    @staticmethod
    def __is_compatible(a: Any, b: Any) -> bool:
        return _are_compatible(a, b)

    @staticmethod
    def __make_cmp_key(value: Any) -> Any:
        return _hashable(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _hashable(self._serialize()) == _hashable(other._serialize())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), _hashable(self._serialize())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._serialize()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._serialize()!r}"


class ShapedSpec(TypeSpec):
    """The base class of type specs that have a shape and a dtype."""

    _shape: TensorShape
    _dtype: DType

    @property
    def shape(self) -> TensorShape:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._dtype


class BatchableTypeSpec(TypeSpec):
    """A type whose values can be batched. The type stacks values itself, or encodes them as values of other types."""

    @abc.abstractmethod
    def _batch(self, batch_size: int | None) -> TypeSpec:
        """Returns the type of a batch of values."""

    @abc.abstractmethod
    def _unbatch(self) -> TypeSpec:
        """Returns the type of a value's rows."""

    def _encoding_specs(self) -> Any:
        """Returns the nest of type specs of encoded values; this spec itself if it implements ``_stacked`` and ``_rows``."""
        return self

    def _encode(self, value: Any, minimum_rank: int) -> Any:
        """Encodes a value as a nest of values of the types in ``_encoding_specs``."""
        return value

    def _decode(self, encoded: Any) -> Any:
        """Decodes a nest of values, as :meth:`_encode` returns it, to a value of this type."""
        return encoded

    def _stacked(self, values: Sequence[Any]) -> Any:
        """Stacks eager values to a batch."""
        raise NotImplementedError(f"{type(self).__name__}._stacked")

    def _rows(self, value: Any) -> list[Any]:
        """Returns the rows of an eager value."""
        raise NotImplementedError(f"{type(self).__name__}._rows")

    def _size(self, value: Any) -> Any:
        """Returns the number of rows of a value as an int64 scalar."""
        raise NotImplementedError(f"{type(self).__name__}._size")

    def _row(self, value: Any, index: Any) -> Any:
        """Returns the row at an index, an int64 scalar that the program may compute."""
        raise NotImplementedError(f"{type(self).__name__}._row")


registered: dict[str, type[TypeSpec]] = {}
"""Type specs by the names that saved models use for them."""


def register(name: str, kind: type[TypeSpec]) -> None:
    """Registers a class of type specs under the name that saved models use for it.

    Saved functions with arguments or results of this type can then be loaded.
    """
    registered[name] = kind


def registered_name(kind: type[TypeSpec]) -> str | None:
    """Returns the name under which a class of type specs is registered, or None if it isn't."""
    return next((name for name, registered_class in registered.items() if registered_class is kind), None)


@export("__internal__.CompositeTensor")
class CompositeTensor(abc.ABC):
    """A value composed of tensors; its ``_type_spec`` converts it to these components and back.

    >>> import tvtf as tf
    >>> rows = tf.IndexedSlices(tf.constant([5.]), tf.constant([1]))
    >>> isinstance(rows, tf.__internal__.CompositeTensor)
    True
    >>> [t.numpy().tolist() for t in tf.nest.flatten(rows, expand_composites=True)]
    [[5.0], [1]]

    Source: https://www.tensorflow.org/api_docs/python/tf/__internal__/CompositeTensor
    """

    is_batched = False
    _is_tensor_like = False
    """Whether ``tf.is_tensor`` holds."""
    _is_untyped = False
    """Whether a branch or loop takes the type from the value of the other branch or iteration."""

    @property
    @abc.abstractmethod
    def _type_spec(self) -> TypeSpec:
        """The value's type."""

    def _convert_variables_to_tensors(self) -> Any:
        """Returns the composite with its Variables replaced by tensors of their values: itself, unless a class overrides it."""
        return self

    def _gradient_components(self) -> Any:
        """Returns the nest of tensors in this value that stand for it as the source or target of a gradient.

        Raises:
          ValueError: the class has no gradients.
        """
        raise ValueError(f"Type {type(self).__name__} is not supported as a gradient source or gradient target.")

    def _with_gradient(self, gradients: Any) -> Any:
        """Returns the gradient with respect to this value, from the gradients of :meth:`_gradient_components`."""
        raise NotImplementedError(f"{type(self).__name__}._with_gradient")


class _NoCommonType(Exception):
    """Raised where two serialized specs have no common supertype."""


def _are_compatible(a: Any, b: Any) -> bool:
    """Returns whether two parts of serialized type specs are compatible.

    Two specs or shapes are compatible if one value can have both. So unknown dims match any size. Other parts must be equal.
    """
    if isinstance(a, TypeSpec):
        return a.is_compatible_with(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, (TensorShape, DType)):
        return a.is_compatible_with(b)
    return _contents_match(a, b, _are_compatible)


def _is_within(a: Any, b: Any) -> bool:
    """Returns whether part ``a`` of a serialized type spec is a subtype of, or equal to, part ``b`` of another one."""
    if isinstance(a, (TypeSpec, TensorShape)):
        return a.is_subtype_of(b)
    return type(a) is type(b) and _contents_match(a, b, _is_within)


def _contents_match(a: Any, b: Any, check: Callable[[Any, Any], bool]) -> bool:
    """Returns whether two values of the same type match: ``check`` compares elements of containers, ``==`` other values."""
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(check(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(check, a, b))
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def _common_supertype(a: Any, b: Any) -> Any:
    """Returns the serialized form of the most specific common supertype of two serialized type specs.

    Shapes and specs in it are common supertypes, too. All other parts must be equal.

    Raises:
      _NoCommonType: the specs have no common supertype.
    """
    if isinstance(a, (TypeSpec, TensorShape)):
        common = a.most_specific_common_supertype([b])
        if common is None:
            raise _NoCommonType
        return common
    if isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) == len(b):
        parts = list(map(_common_supertype, a, b))
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)  # a named tuple has `_fields`
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return {key: _common_supertype(a[key], b[key]) for key in a}
    if not _is_within(a, b):  # other parts, such as dtypes
        raise _NoCommonType
    return a


def _hashable(value: Any) -> Any:
    """Converts a serialized type spec, or a part of it, to a hashable value: containers become tuples, arrays bytes."""
    if isinstance(value, Mapping):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def is_ragged(value: Any) -> bool:
    """Returns whether a value is a ragged tensor, without importing their module: before the import there are none.

    >>> is_ragged([[1], [2, 3]])
    False
    """
    return _is_of("tvtf.composites.ragged.tensor", "RaggedTensor", value)


def is_sparse(value: Any) -> bool:
    """Returns whether a value is a sparse tensor, without importing their module.

    >>> is_sparse([[0, 1]])
    False
    """
    return _is_of("tvtf.composites.sparse.tensor", "SparseTensor", value)


def _is_of(module: str, class_name: str, value: Any) -> bool:
    """Returns whether a value is an instance of a class, given by its module and name. Doesn't import the module."""
    imported = sys.modules.get(module)
    return imported is not None and isinstance(value, getattr(imported, class_name))
