"""Defines ``tf.experimental.Optional``: an element that may be missing, as at the end of an iterator."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.data.base import OwnedIterator
from tvtf.data.structure import Element, packer, spec_of, tensors_of
from tvtf.data.traced_iteration import next_or
from tvtf.dtypes import bool as bool_
from tvtf.dtypes import string
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.host.python_call import traced


@export("OptionalSpec")
class OptionalSpec(TypeSpec):
    """The type of an optional: the spec of its element, or None if that is not known.

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
        """Returns the spec of an optional."""
        return OptionalSpec(value.element_spec)

    @property
    def _component_specs(self) -> Any:
        return TensorSpec([], bool_), self._element_component(self.element_spec)

    def _to_components(self, value: Any) -> Any:
        return value._present, self._element_component(value._element)

    def _element_component(self, element: Any) -> Any:
        """Returns the element as a component; an optional of unknown type has none."""
        return () if self.element_spec is None else element

    def _from_components(self, components: Any) -> Optional:
        kind = _Untyped if self.element_spec is None else _Optional
        return kind(self.element_spec, *components)

    def _serialize(self) -> tuple[Any, ...]:
        return (self.element_spec,)


@export("experimental.Optional", "data.experimental.Optional")
class Optional(CompositeTensor):
    """An optional element: a bool tensor for whether there is one, and the element or a placeholder of its type.

    >>> import tvtf as tf
    >>> three = tf.experimental.Optional.from_value(3)
    >>> bool(three.has_value()), int(three.get_value())
    (True, 3)
    >>> bool(tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32)).has_value())
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/Optional
    """

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Returns an optional with the element ``value``, a nest of tensors."""
        element = tensors_of(value)
        return _Optional(spec_of(element), convert_to_tensor(True), element)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Returns an optional without an element.

        If ``element_spec`` is None, ``tf.cond`` and ``tf.while_loop`` take it from the corresponding optional of the
        other branch or iterations.
        """
        if element_spec is None:
            return _Untyped(None, convert_to_tensor(False), None)
        return _Optional(element_spec, convert_to_tensor(False), packer(element_spec)(blanks(element_spec)))

    @abc.abstractmethod
    def has_value(self, name: str | None = None) -> Tensor:
        """Returns a bool scalar: whether there is an element."""

    @abc.abstractmethod
    def get_value(self, name: str | None = None) -> Element:
        """Returns the element.

        Raises:
          InvalidArgumentError: there is no element.
        """

    @property
    @abc.abstractmethod
    def element_spec(self) -> Any:
        """The spec of the element, present or not."""

    @property
    def _type_spec(self) -> OptionalSpec:
        return OptionalSpec(self.element_spec)


class _Optional(Optional):
    """An optional that holds its element as tensors, and whether it is present as a bool tensor."""

    def __init__(self, spec: Any, present: Tensor, element: Element) -> None:
        self._element_spec, self._present, self._element = spec, present, element

    def has_value(self, name: str | None = None) -> Tensor:
        return self._present

    def get_value(self, name: str | None = None) -> Element:
        """Returns the element; a missing one raises an error now or, while tracing, in each run."""
        if isinstance(self._present, EagerTensor):
            _require(self._present.eager_array(), " [Op:OptionalGetValue] name: ")
        else:
            traced(_require, [self._present], [])
        return self._element

    @property
    def element_spec(self) -> Any:
        return self._element_spec


class _Untyped(_Optional):
    """An empty optional whose element spec is not known yet; Keras sets it later."""

    _is_untyped = True

    @property
    def _type_spec(self) -> OptionalSpec:
        return OptionalSpec(None)

    def _typed_as(self, other: Optional) -> Optional:
        return Optional.empty(other.element_spec)


def _require(present: np.ndarray, suffix: str = "") -> tuple[()]:
    """Raises an error if there is no element."""
    if not present:
        raise InvalidArgumentError(None, "OptionalGetValue", f"The given optional does not have a value.{suffix}")
    return ()


def blanks(element_spec: Any) -> list[np.ndarray]:
    """Returns placeholder arrays for an element; unknown dims become 0."""
    return [array for spec in nest.flatten(element_spec) for array in _blanks(spec)]


def _blanks(spec: Any) -> list[np.ndarray]:
    if isinstance(spec, TensorSpec):
        return [_blank(spec)]
    return spec._blanks() if hasattr(spec, "_blanks") else blanks(getattr(spec, "_component_specs", ()))


def _blank(spec: TensorSpec) -> np.ndarray:
    """Returns zeros or empty strings in the shape of a spec, with unknown dims as 0."""
    dims = [0] if spec.shape.rank is None else [dim or 0 for dim in spec.shape.as_list()]
    return np.full(dims, b"", object) if spec.dtype is string else np.zeros(dims, spec.dtype.np)


def get_next_as_optional(self: OwnedIterator) -> Optional:
    """Returns an optional with the iterator's next element; it is empty at the end of the iteration.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Iterator#get_next_as_optional
    """
    spec = self.element_spec
    if state.trace is not None:
        return _Optional(spec, *next_or(self, blanks(spec)))
    element = next(self, _END)
    return Optional.empty(spec) if element is _END else _Optional(spec, convert_to_tensor(True), element)


@export("data.experimental.get_next_as_optional")
def next_as_optional(iterator: OwnedIterator) -> Optional:
    """Same as ``iterator.get_next_as_optional()``.

    >>> import tvtf as tf
    >>> bool(tf.data.experimental.get_next_as_optional(iter(tf.data.Dataset.range(1))).has_value())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/get_next_as_optional
    """
    return get_next_as_optional(iterator)


_END = object()
OwnedIterator.get_next_as_optional = get_next_as_optional  # type: ignore[attr-defined]
