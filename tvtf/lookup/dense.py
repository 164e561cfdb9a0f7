"""Defines ``DenseHashTable``, a hash table with open addressing, whose buckets are stored in checkpoints.

Source: tensorflow/core/kernels/lookup_table_op.cc (hashes, probing and growth of MutableDenseHashTable).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor
from tvtf.errors import InvalidArgumentError, UnimplementedError
from tvtf.lookup.tables import MutableHashTable

MAX_LOAD = 0.8
"""The fraction of used buckets above which their number is doubled."""


@export("lookup.experimental.DenseHashTable")
class DenseHashTable(MutableHashTable):
    """A table of buckets; two reserved keys mark empty buckets and those whose key was removed.

    Args:
      key_dtype, value_dtype: the dtypes of keys and values.
      default_value: the value of missing keys.
      empty_key, deleted_key: reserved keys, which no entry has.
      initial_num_buckets: a power of two, 2 ** 17 by default.

    >>> import tvtf as tf
    >>> table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-1)
    >>> table.insert(tf.constant([5], tf.int64), tf.constant([7], tf.int64))
    >>> table.lookup(tf.constant([5, 6], tf.int64)).numpy()
    array([ 7, -1])

    Raises:
      InvalidArgumentError: a reserved key is used.

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/experimental/DenseHashTable
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        """Creates an empty table, by default with 2**17 buckets, as in TensorFlow."""
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)
        self._empty = convert_to_tensor(empty_key, self.key_dtype).eager_array().item()
        self._deleted = convert_to_tensor(deleted_key, self.key_dtype).eager_array().item()
        self._buckets = initial_num_buckets or 2**17
        if self._empty == self._deleted:
            raise ArgumentError("Empty and deleted keys cannot be equal").for_op("MutableDenseHashTableV2")

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Inserts keys with values, as :meth:`insert` does."""
        self.insert(keys, values, name)

    def erase(self, keys: Any, name: str | None = None) -> None:
        """Removes keys, as :meth:`remove` does."""
        self.remove(keys, name)

    def _find(self, keys: np.ndarray, defaults: np.ndarray, value_rank: int) -> np.ndarray:
        self._check_not_reserved(keys, "LookupTableFindV2")
        return super()._find(keys, defaults, value_rank)

    def _insert(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Inserts keys with values, and doubles the number of buckets while more than ``MAX_LOAD`` of them are used."""
        self._check_not_reserved(keys, "LookupTableInsertV2")
        super()._insert(keys, values)
        while len(self._entries.rows) > self._buckets * MAX_LOAD:
            self._buckets *= 2

    def _remove(self, keys: np.ndarray) -> None:
        self._check_not_reserved(keys, "LookupTableRemoveV2")
        super()._remove(keys)

    def _check_not_reserved(self, keys: np.ndarray, op: str) -> None:
        """Checks that no key is one of the two reserved keys, which mark empty buckets and those of removed keys.

        Raises:
          InvalidArgumentError: a key is reserved; the text names TensorFlow's op ``op``.
        """
        for reserved, argument in ((self._empty, "empty_key"), (self._deleted, "deleted_key")):
            if reserved in keys.ravel().tolist():
                raise InvalidArgumentError(
                    None, op, f"Using the {argument} as a table key is not allowed [Op:{op}] name: "
                )

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the keys and values by bucket of the hash table, as TensorFlow's checkpoints store them.

        The keys have shape (buckets, 1), the values (buckets, elements of a value). An empty bucket has the empty key.
        """
        keys, values = super()._arrays()
        if keys.dtype == object:
            raise UnimplementedError(
                None, "LookupTableExportV2", "the buckets of a DenseHashTable are laid out for integer keys only"
            )
        key_buckets = np.full((self._buckets, 1), self._empty, keys.dtype)
        value_buckets = np.zeros((self._buckets, max(1, values[:1].size)), values.dtype)
        for key, row in zip(keys.tolist(), values):
            bucket = self._empty_bucket_for(key, key_buckets)
            key_buckets[bucket], value_buckets[bucket] = key, row
        return key_buckets, value_buckets

    def _empty_bucket_for(self, key: int, buckets: np.ndarray) -> int:
        """Returns the first empty bucket for a key, by open addressing with quadratic probing.

        The distances between the buckets that are tried grow by one.
        """
        bucket, probes = key & (self._buckets - 1), 0  # an integer key is its own hash
        while buckets[bucket, 0] != self._empty:
            probes += 1
            bucket = (bucket + probes) & (self._buckets - 1)
        return bucket

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Restores the entries from a checkpoint's buckets, without empty buckets and those of removed keys."""
        keys, values = tensors["table-keys"][:, 0], tensors["table-values"]
        is_used = (keys != self._empty) & (keys != self._deleted)
        self._buckets = len(keys)
        self._entries.rows = {}
        rows = values[is_used].reshape((-1, *self.default_value.shape))
        self._entries.insert(keys[is_used], rows)
