"""Tensors made of tensors, and the types that take them apart and put them together: TensorFlow's protocol.

A :class:`CompositeTensor` names its :class:`TypeSpec`; that turns a value into components (tensors, or composites again) and
components into a value. ``tf.nest`` with ``expand_composites=True``, the arguments and results of functions, branches, loops
and tapes see the components; everybody else sees one value.

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
    """The type of a composite tensor: what is fixed about it, and how it is made of components.

    A subclass defines ``value_type``, ``_component_specs``, ``_to_components``, ``_from_components`` and ``_serialize``; equality,
    hash, repr and compatibility follow from what ``_serialize`` gives.

    >>> import tvtf as tf
    >>> wide, narrow = tf.IndexedSlicesSpec([None, 3]), tf.IndexedSlicesSpec([2, 3])
    >>> wide.is_compatible_with(narrow), narrow.most_specific_compatible_type(wide) == wide
    (True, True)

    Source: https://www.tensorflow.org/api_docs/python/tf/TypeSpec
    """

    is_leaf = False
    """Whether its values are plain tensors, which nothing takes apart."""

    @property
    @abc.abstractmethod
    def value_type(self) -> type:
        """The class of the values."""

    @property
    @abc.abstractmethod
    def _component_specs(self) -> Any:
        """A nest of specs: those of the components."""

    @abc.abstractmethod
    def _to_components(self, value: Any) -> Any:
        """The value as a nest of components."""

    @abc.abstractmethod
    def _from_components(self, components: Any) -> Any:
        """The value that a nest of components makes."""

    @abc.abstractmethod
    def _serialize(self) -> tuple[Any, ...]:
        """The arguments that make this spec: a nest of shapes, dtypes, specs and plain values."""

    def _component_names(self) -> Sequence[str]:
        """What people call the components, in the order of their flat list; none where they have numbers only."""
        return ()

    @classmethod
    def _deserialize(cls, serialization: tuple[Any, ...]) -> TypeSpec:
        return cls(*serialization)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or one of another spec, could have this type: unknown dims fit anything."""
        other = getattr(spec_or_value, "_type_spec", spec_or_value)
        return type(other) is type(self) and _compatible(self._serialize(), other._serialize())

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every value of this type is one of ``other``."""
        return type(other) is type(self) and _is_within(self._serialize(), other._serialize())

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TypeSpec | None:
        """The narrowest type that covers this one and all of ``others``; None where there is none."""
        found: TypeSpec = self
        for other in others:
            if type(other) is not type(found):
                return None
            try:
                found = found._deserialize(_joined(found._serialize(), other._serialize()))
            except _NoCommonType:
                return None
        return found

    def most_specific_compatible_type(self, other: TypeSpec) -> TypeSpec:
        """The narrowest type that covers both.

        Raises:
          ValueError: there is none.
        """
        found = self.most_specific_common_supertype([other])
        if found is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return found

    # By the names under which types of other libraries, which compare parts of theirs, find them.

    @staticmethod
    def __is_compatible(a: Any, b: Any) -> bool:
        return _compatible(a, b)

    @staticmethod
    def __make_cmp_key(value: Any) -> Any:
        return _key(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _key(self._serialize()) == _key(other._serialize())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), _key(self._serialize())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._serialize()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._serialize()!r}"


class BatchableTypeSpec(TypeSpec):
    """A type whose values can be the elements of a batch: put together as they are, or as values of other types."""

    @abc.abstractmethod
    def _batch(self, batch_size: int | None) -> TypeSpec:
        """The type of a batch of values."""

    @abc.abstractmethod
    def _unbatch(self) -> TypeSpec:
        """The type of the rows of a value."""

    def _encoding_specs(self) -> Any:
        """A nest of the types that values are put together as; this one where it knows how itself."""
        return self

    def _encode(self, value: Any, minimum_rank: int) -> Any:
        """A value as a nest of values of those types."""
        return value

    def _decode(self, encoded: Any) -> Any:
        """The value that such a nest is."""
        return encoded

    def _stacked(self, values: Sequence[Any]) -> Any:
        """Eager values as one batch."""
        raise NotImplementedError(f"{type(self).__name__}._stacked")

    def _rows(self, value: Any) -> list[Any]:
        """The rows of an eager value."""
        raise NotImplementedError(f"{type(self).__name__}._rows")

    def _size(self, value: Any) -> Any:
        """How many rows a value has, as a scalar of int64."""
        raise NotImplementedError(f"{type(self).__name__}._size")

    def _row(self, value: Any, index: Any) -> Any:
        """The row of a value at an index, a scalar of int64 that the program may compute."""
        raise NotImplementedError(f"{type(self).__name__}._row")


registered: dict[str, type[TypeSpec]] = {}
"""Types by the name that saved functions call them."""


def register(name: str, kind: type[TypeSpec]) -> None:
    """Names a type, so that a saved function that takes or gives its values can be loaded."""
    registered[name] = kind


@export("__internal__.CompositeTensor")
class CompositeTensor(abc.ABC):
    """A value made of tensors, which its ``_type_spec`` takes apart and puts together.

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
    """Whether its type is that of what it meets in a branch or loop."""

    @property
    @abc.abstractmethod
    def _type_spec(self) -> TypeSpec:
        """The value's type."""

    def _gradient_components(self) -> Any:
        """The nest of tensors that a gradient of, or by, this value is one of.

        Raises:
          ValueError: the class has no gradients.
        """
        raise ValueError(f"Type {type(self).__name__} is not supported as a gradient source or gradient target.")

    def _with_gradient(self, gradients: Any) -> Any:
        """The gradient by this value, made of those by :meth:`_gradient_components`."""
        raise NotImplementedError(f"{type(self).__name__}._with_gradient")


class _NoCommonType(Exception):
    """Two serializations that nothing covers."""


def _compatible(a: Any, b: Any) -> bool:
    if isinstance(a, TypeSpec):
        return a.is_compatible_with(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, (TensorShape, DType)):
        return a.is_compatible_with(b)
    return _agree(a, b, _compatible)


def _is_within(a: Any, b: Any) -> bool:
    if isinstance(a, (TypeSpec, TensorShape)):
        return a.is_subtype_of(b)
    return type(a) is type(b) and _agree(a, b, _is_within)


def _agree(a: Any, b: Any, check: Callable[[Any, Any], bool]) -> bool:
    """Whether two of one type agree: part by part where they are containers."""
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(check(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(check, a, b))
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def _joined(a: Any, b: Any) -> Any:
    """What covers two serializations."""
    if isinstance(a, (TypeSpec, TensorShape)):
        found = a.most_specific_common_supertype([b])
        if found is None:
            raise _NoCommonType
        return found
    if isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) == len(b):
        parts = list(map(_joined, a, b))
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return {k: _joined(a[k], b[k]) for k in a}
    if not _is_within(a, b):
        raise _NoCommonType
    return a


def _key(value: Any) -> Any:
    """A serialization as something hashable."""
    if isinstance(value, Mapping):
        return tuple((k, _key(value[k])) for k in sorted(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def is_ragged(value: Any) -> bool:
    """Whether it is a ragged tensor; nothing is where their room was never imported.

    >>> is_ragged([[1], [2, 3]])
    False
    """
    return _is_of("tvtf.composites.ragged.tensor", "RaggedTensor", value)


def is_sparse(value: Any) -> bool:
    """Whether it is a sparse tensor.

    >>> is_sparse([[0, 1]])
    False
    """
    return _is_of("tvtf.composites.sparse.tensor", "SparseTensor", value)


def _is_of(module: str, kind: str, value: Any) -> bool:
    found = sys.modules.get(module)
    return found is not None and isinstance(value, getattr(found, kind))
