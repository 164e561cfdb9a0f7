"""Defines the types of datasets and iterators, as arguments of functions and as elements of datasets."""

from __future__ import annotations

from typing import Any

from tvtf.core.composite import TypeSpec
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape


class NumberedSpec(TypeSpec):
    """The type of objects that traced functions take as numbers; they have no component tensors."""

    is_leaf = True
    value_type: type = object  # type: ignore[assignment]
    """The class of values, set by `base`, which defines it."""

    def __init__(self, element_spec: Any) -> None:
        self._element_spec = element_spec

    @property
    def _component_specs(self) -> Any:
        return self

    def _to_components(self, value: Any) -> Any:
        return value

    def _from_components(self, components: Any) -> Any:
        return components

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """Returns the spec of a value."""
        return value.argument_spec()


@export("data.DatasetSpec")
class DatasetSpec(NumberedSpec):
    """The type of datasets with a given element spec.

    >>> import tvtf as tf
    >>> tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))
    DatasetSpec(TensorSpec(shape=(), dtype=tf.int64, name=None), TensorShape([]))

    Source: https://www.tensorflow.org/api_docs/python/tf/data/DatasetSpec
    """

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        super().__init__(element_spec)
        self._shape = TensorShape(dataset_shape)

    @property
    def element_spec(self) -> Any:
        return self._element_spec

    def _serialize(self) -> tuple[Any, ...]:
        return self._element_spec, self._shape


@export("data.IteratorSpec")
class IteratorSpec(NumberedSpec):
    """The type of dataset iterators with a given element spec.

    >>> import tvtf as tf
    >>> spec = tf.data.IteratorSpec(tf.TensorSpec([], tf.int64))
    >>> @tf.function(input_signature=[spec])
    ... def sum_of_two(iterator):
    ...     return next(iterator) + next(iterator)
    >>> sum_of_two(iter(tf.data.Dataset.range(3, 9))).numpy()
    np.int64(7)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/IteratorSpec
    """

    def _serialize(self) -> tuple[Any, ...]:
        return (self._element_spec,)
