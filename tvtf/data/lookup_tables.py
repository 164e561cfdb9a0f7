"""Fills lookup tables from a dataset of keys and values.

Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/table_from_dataset
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.primitive import export, public_names
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import int_argument
from tvtf.data.base import Dataset
from tvtf.data.element_order import Take
from tvtf.dtypes import string
from tvtf.lookup.initializers import Initializer
from tvtf.lookup.tables import StaticHashTable, StaticVocabularyTable


@export("data.experimental.DatasetInitializer")
class DatasetInitializer(Initializer):
    """The keys and values of a lookup table, from a dataset of pairs of scalars.

    Raises:
      ValueError: the dataset's elements are not pairs of scalars.

    >>> import tvtf as tf
    >>> pairs = tf.data.Dataset.range(3).map(lambda x: (x, tf.strings.as_string(x * 2)))
    >>> table = tf.lookup.StaticHashTable(tf.data.experimental.DatasetInitializer(pairs), "")
    >>> table.lookup(tf.constant([0, 2], tf.int64)).numpy()
    array([b'0', b'4'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/DatasetInitializer
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        key, value = _key_and_value_specs(dataset.element_spec)
        self.key_dtype, self.value_dtype = key.dtype, value.dtype

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        keys, values = zip(*self.dataset.new_elements())
        return _vector(keys, self.key_dtype), _vector(values, self.value_dtype)


def _vector(column: Any, dtype: Any) -> np.ndarray:
    return np.array([each.eager_array()[()] for each in column], dtype.np)


def _key_and_value_specs(spec: Any) -> Any:
    """Returns the specs of the keys and values of a dataset.

    Raises ValueError unless its elements are pairs of scalars.
    """
    prefix = (
        "Datasets used to initialize lookup tables must produce elements in the form (key, value), where the keys and values "
        "are scalar tensors. However, the given dataset produces "
    )
    if not isinstance(spec, tuple) or len(spec) != 2:
        count = len(spec) if nest.is_nested(spec) else 1
        raise ValueError(
            f"{prefix}{count} components instead of two (key, value) components. Full dataset element spec: {spec}."
        )
    for component, component_spec in zip(("key", "value"), spec):
        if not isinstance(component_spec, TensorSpec):
            raise ValueError(f"{prefix}non-Tensor {component}s of type {type(component_spec)}.")
        if component_spec.shape.rank not in (None, 0):
            raise ValueError(f"{prefix}non-scalar {component} Tensors of rank {component_spec.shape.rank}.")
    return spec


@export("data.experimental.table_from_dataset")
def table_from_dataset(
    dataset: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: Any = None,
    default_value: Any = None,
    hasher_spec: Any = None,
    key_dtype: Any = string,
    name: str | None = None,
) -> Any:
    """Returns a lookup table of the keys and values of a dataset.

    Args:
      num_oov_buckets: the number of ids after the last value that missing keys are hashed to; int64 values only.
      vocab_size: the number of elements.
      default_value: the value of missing keys if there are no buckets.

    Raises:
      ValueError: ``num_oov_buckets`` is negative, ``vocab_size`` is not positive, or values that are not numbers have no
        default.
      TypeError: keys are neither integers nor strings.

    >>> import tvtf as tf
    >>> pairs = tf.data.Dataset.range(3).map(lambda x: (x, tf.strings.as_string(x * 2)))
    >>> table = tf.data.experimental.table_from_dataset(pairs, default_value="n/a", key_dtype=tf.int64)
    >>> table.lookup(tf.constant([0, 9], tf.int64)).numpy()
    array([b'0', b'n/a'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/table_from_dataset
    """
    _, value = _key_and_value_specs(dataset.element_spec)
    if default_value is None and not (value.dtype.is_integer or value.dtype.is_floating):
        raise ValueError(
            "`default_value` must be specified when creating a table from a dataset that produces values of type "
            f"{value.dtype}."
        )
    _check_arguments(num_oov_buckets, vocab_size, key_dtype)
    if vocab_size is not None:
        dataset = public_names()["data.experimental.assert_cardinality"](int_argument(vocab_size))(
            Take(dataset, int_argument(vocab_size))
        )
    initializer = DatasetInitializer(dataset)
    if num_oov_buckets:
        return StaticVocabularyTable(initializer, num_oov_buckets, key_dtype, name)
    return StaticHashTable(initializer, -1 if default_value is None else default_value, name)


def _check_arguments(num_oov_buckets: int, vocab_size: Any, key_dtype: Any) -> None:
    """Checks the arguments of `table_from_dataset`.

    Args:
      num_oov_buckets: the number of indices for keys that aren't in the table.
      vocab_size: the number of keys, or None.
      key_dtype: the dtype of the keys.
    """
    if num_oov_buckets < 0:
        raise ValueError(f"`num_oov_buckets` must be greater than or equal to 0, got {num_oov_buckets}.")
    if isinstance(vocab_size, int) and vocab_size < 1:
        raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")
    if not key_dtype.is_integer and key_dtype is not string:
        raise TypeError(f"`key_dtype` must be either an integer or string type, but got {key_dtype}")


@export("data.experimental.index_table_from_dataset")
def index_table_from_dataset(
    dataset: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: Any = None,
    default_value: Any = -1,
    hasher_spec: Any = None,
    key_dtype: Any = string,
    name: str | None = None,
) -> Any:
    """Returns a lookup table from the keys of a dataset to their positions in it; see ``table_from_dataset``.

    >>> import tvtf as tf
    >>> keys = tf.data.Dataset.from_tensor_slices(["a", "b", "c"])
    >>> table = tf.data.experimental.index_table_from_dataset(keys, num_oov_buckets=1)
    >>> table.lookup(tf.constant(["c", "a", "z"])).numpy()
    array([2, 0, 3])

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/index_table_from_dataset
    """
    pairs = dataset.enumerate().map(lambda position, key: (key, position))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype, name)
