"""``tf.experimental.Optional``: an element that may not be there, as iterators give at their end."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from tvtf.context import state
from tvtf.data.base import OwnedIterator
from tvtf.data.structure import Element, spec_of, tensors_of
from tvtf.errors import InvalidArgumentError
from tvtf.primitive import export
from tvtf.tensor import EagerTensor, Tensor


@export("OptionalSpec")
class OptionalSpec:
    """What an optional holds, where it holds something.

    >>> import tvtf as tf
    >>> tf.OptionalSpec(tf.TensorSpec([], tf.int32))
    OptionalSpec(TensorSpec(shape=(), dtype=tf.int32, name=None),)

    Source: https://www.tensorflow.org/api_docs/python/tf/OptionalSpec
    """

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    @property
    def value_type(self) -> type:
        return Optional

    @staticmethod
    def from_value(value: Optional) -> OptionalSpec:
        """The spec of an optional."""
        return OptionalSpec(value.element_spec)

    def is_compatible_with(self, value: Any) -> bool:
        return isinstance(value, Optional) and value.element_spec == self.element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionalSpec) and other.element_spec == self.element_spec

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"OptionalSpec({self.element_spec!r},)"


@export("experimental.Optional", "data.experimental.Optional")
class Optional(abc.ABC):
    """An element, or none; functions that are traced take and give its parts instead.

    >>> import tvtf as tf
    >>> made = tf.experimental.Optional.from_value(3)
    >>> bool(made.has_value()), int(made.get_value())
    (True, 3)
    >>> bool(tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32)).has_value())
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/Optional
    """

    @staticmethod
    def from_value(value: Any) -> Optional:
        """One that holds ``value``, a nest of tensors."""
        element = tensors_of(value)
        return _Optional(spec_of(element), [element])

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """One that holds nothing."""
        return _Optional(element_spec, [])

    @abc.abstractmethod
    def has_value(self, name: str | None = None) -> Tensor:
        """Whether it holds something: a bool scalar."""

    @abc.abstractmethod
    def get_value(self, name: str | None = None) -> Element:
        """What it holds.

        Raises:
          InvalidArgumentError: nothing.
        """

    @property
    @abc.abstractmethod
    def element_spec(self) -> Any:
        """The specs of what it holds, or would hold."""


class _Optional(Optional):
    def __init__(self, spec: Any, held: list[Element]) -> None:
        self._spec, self._held = spec, held

    def has_value(self, name: str | None = None) -> Tensor:
        return EagerTensor(np.array(bool(self._held)))

    def get_value(self, name: str | None = None) -> Element:
        if not self._held:
            raise InvalidArgumentError(
                None, "OptionalGetValue", "The given optional does not have a value. [Op:OptionalGetValue] name: "
            )
        return self._held[0]

    @property
    def element_spec(self) -> Any:
        return self._spec


def get_next_as_optional(self: OwnedIterator) -> Optional:
    """The next element, or nothing at the end.

    Raises:
      NotImplementedError: while tracing; a ``for`` loop over the iterator is compiled.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Iterator#get_next_as_optional
    """
    if state.trace is not None:
        raise NotImplementedError(
            "compiled code has no optionals: loop over the dataset or iterator in the tf.function, or take optionals outside"
        )
    found = next(self, _END)
    return Optional.empty(self.element_spec) if found is _END else _Optional(self.element_spec, [found])


@export("data.experimental.get_next_as_optional")
def next_as_optional(iterator: OwnedIterator) -> Optional:
    """As ``iterator.get_next_as_optional()``.

    >>> import tvtf as tf
    >>> bool(tf.data.experimental.get_next_as_optional(iter(tf.data.Dataset.range(1))).has_value())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/get_next_as_optional
    """
    return get_next_as_optional(iterator)


_END = object()
OwnedIterator.get_next_as_optional = get_next_as_optional  # type: ignore[attr-defined]
