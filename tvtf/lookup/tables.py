"""Defines tables from keys to values, which eager and traced programs read and write.

A table is a Python dict; compiled programs look keys up through a call of Python.
Source: https://www.tensorflow.org/api_docs/python/tf/lookup
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvtf.core.composite import CompositeTensor, is_sparse
from tvtf.core.primitive import export, name_method_errors
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, to_array
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype, int64, string
from tvtf.errors import FailedPreconditionError, InvalidArgumentError
from tvtf.lookup.initializers import Initializer
from tvtf.ops import host
from tvtf.ops.cast import cast
from tvtf.ops.rules import bind
from tvtf.ops.strings.hashing import to_hash_bucket_fast
from tvtf.ops.strings.numbers import as_string
from tvtf.ops.strings.rules import mapped
from tvtf.state.autotrackable import AutoTrackable, TensorSpecs


@name_method_errors
class _Table(AutoTrackable):
    """The base of tables: a dict from keys, as Python values, to rows. A row is the value of a key."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str | None) -> None:
        self._key_dtype, self._value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
        self._name = name or f"{type(self).__name__}_{uuid.uuid4()}"
        self._entries: Any = _Entries()

    @property
    def key_dtype(self) -> DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        return self._value_dtype

    @property
    def default_value(self) -> Tensor:
        return self._default_value

    @property
    def name(self) -> str:
        return self._name

    def __getitem__(self, keys: Any) -> Tensor:
        return self._look_up_or_default(keys, self._default_value)

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of keys, an int64 scalar."""
        entries = self._entries
        return self._call_on_arrays(lambda: (np.array(len(entries.rows), np.int64),), [], [TensorType((), int64)])[0]

    def _look_up_or_default(self, keys: Any, default: Tensor) -> Tensor:
        """Returns the value of each key, and the default for a missing key.

        The keys in a ragged or sparse tensor give a tensor of the same structure.

        Raises:
          TypeError: the dtype of the keys is not the table's key dtype.
        """
        if keys.dtype is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype!s}, received: {keys.dtype!s}")
        if isinstance(keys, CompositeTensor):
            return _look_up_composite(keys, lambda values: self._look_up_or_default(values, default))
        keys = convert_to_tensor(keys)
        value_shape = self._default_value.shape

        def find(key_array: np.ndarray, defaults: np.ndarray) -> tuple[np.ndarray]:
            return (self._find(key_array, defaults, len(value_shape)),)

        result_type = TensorType((*keys._dims, *value_shape), self._value_dtype)
        (found,) = self._call_on_arrays(find, [keys, default], [result_type])
        return found

    def _find(self, keys: np.ndarray, defaults: np.ndarray, value_rank: int) -> np.ndarray:
        """Looks up an array of keys; a subclass may check the keys first. See `_Entries.find`."""
        return self._entries.find(keys, defaults, value_rank)

    def _call_on_arrays(self, function: Callable[..., Any], inputs: list[Tensor], types: list[TensorType]) -> list[Any]:
        """Calls a NumPy function on tensors: directly if eager, as a host callback if traced.

        Eager inputs of a traced call are constants of the callback. So strings among them never reach compiled code,
        which has no type for strings.

        Args:
          types: the types of the results.
        """
        if state.trace is None:
            return [EagerTensor(np.asarray(result)) for result in function(*(x.eager_array() for x in inputs))]
        constants = {i: x.eager_array() for i, x in enumerate(inputs) if isinstance(x, EagerTensor)}
        symbolic = [x for i, x in enumerate(inputs) if i not in constants]

        def call_with_constants(*arrays: np.ndarray) -> Any:
            """Calls ``function`` with the constants, and with the arrays of the other inputs in their order."""
            remaining = iter(arrays)
            all_arrays = [constants[i] if i in constants else next(remaining) for i in range(len(inputs))]
            return function(*all_arrays)

        host_function = host.HostFunction(call_with_constants, is_nonblocking=True)
        return list(host.call(host_function, symbolic, types))


def _look_up_composite(keys: Any, look_up: Callable[[Any], Any]) -> Any:
    """Looks up the keys in a ragged or sparse tensor, and returns a tensor of the same structure with their values.

    ``look_up`` returns the values of a dense tensor of keys.
    """
    if is_sparse(keys):
        return type(keys)(keys.indices, look_up(keys.values), keys.dense_shape)
    return keys.with_flat_values(look_up(keys.flat_values))


class _Entries:
    """The rows of a table by key, in insertion order."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def find(self, keys: np.ndarray, default: np.ndarray, value_rank: int) -> np.ndarray:
        """Returns the rows (values) of keys. A missing key has the default.

        ``value_rank`` is the rank of a value. If ``default`` has a higher rank, it has a default row for each key.
        """
        if not default.ndim:
            # Scalars are looked up one by one, without an array of rows.
            get = self.rows.get
            default_item = default.item()
            return mapped(lambda key: get(key, default_item), keys, default.dtype)
        flat_keys = keys.ravel().tolist()
        defaults = default.reshape((-1, *default.shape[default.ndim - value_rank :]))
        has_default_per_key = len(defaults) == len(flat_keys) and default.ndim > value_rank
        result = np.empty((len(flat_keys), *defaults.shape[1:]), default.dtype)
        for i, key in enumerate(flat_keys):
            stored = self.rows.get(key)
            if stored is None:
                stored = defaults[i if has_default_per_key else 0]
            result[i] = stored
        return result.reshape((*keys.shape, *defaults.shape[1:]))

    def insert(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Stores the value of each key, in place of the key's old value; ``values`` has a row for each key."""
        self.rows |= zip(keys.ravel().tolist(), values.reshape((keys.size, *values.shape[keys.ndim :])))

    def remove(self, keys: np.ndarray) -> None:
        """Removes keys with their values; missing keys are ignored."""
        for key in keys.ravel().tolist():
            self.rows.pop(key, None)

    def arrays(
        self, key_dtype: DType, value_dtype: DType, value_shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns all keys as a vector, and their values as an array of shape ``(len(keys), *value_shape)``.

        Args:
          key_dtype, value_dtype: the dtypes of the keys and the values.
          value_shape: the shape of one value.
        """
        keys = to_array(list(self.rows), key_dtype)
        values = np.empty((len(self.rows), *value_shape), value_dtype.np)
        for i, row in enumerate(self.rows.values()):
            values[i] = row
        return keys, values


class TableRead(host.HostFunction):
    """A lookup in entries that never change, so that a saved model can store it."""

    __slots__ = ("keys", "values", "default")

    def __init__(self, keys: np.ndarray, values: np.ndarray, default: np.ndarray) -> None:
        entries = _Entries()
        entries.rows = dict(zip(keys.ravel().tolist(), values.ravel().tolist()))
        super().__init__(lambda key_array: (entries.find(key_array, default, 0),), is_nonblocking=True)
        self.keys, self.values, self.default = keys, values, default


@export("lookup.StaticHashTable")
class StaticHashTable(_Table):
    """A table that is filled once and never changes.

    Args:
      initializer: a :class:`KeyValueTensorInitializer` or :class:`TextFileInitializer`.
      default_value: the value of missing keys.
      name: the table's name.

    >>> import tvtf as tf
    >>> pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([1, 2]))
    >>> tf.lookup.StaticHashTable(pairs, default_value=-1).lookup(tf.constant(["b", "z"])).numpy()
    array([ 2, -1], dtype=int32)

    Raises:
      FailedPreconditionError: a key has two values.

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/StaticHashTable
    """

    def __init__(
        self,
        initializer: Initializer,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        """Creates a table with the keys and values of an initializer; ``experimental_is_anonymous`` has no effect."""
        super().__init__(initializer.key_dtype, initializer.value_dtype, default_value, name)
        initializer.initialize(self)

    def _look_up_or_default(self, keys: Any, default: Tensor) -> Tensor:
        """Returns the value of each key, and the default for a missing key.

        A trace gets a constant copy of the table, which a saved model can store. This requires a dense tensor of keys,
        and a scalar default that is known.
        """
        is_scalar = isinstance(default, EagerTensor) and not default.ndim
        if (
            state.trace is None
            or isinstance(keys, CompositeTensor)
            or keys.dtype is not self._key_dtype
            or not is_scalar
        ):
            return super()._look_up_or_default(keys, default)
        keys = convert_to_tensor(keys)
        # The table never changes after its creation, so the trace can hold its contents.
        table_keys, table_values = self._entries.arrays(self._key_dtype, self._value_dtype, ())
        read = TableRead(table_keys, table_values, default.eager_array())
        (found,) = host.call(read, [keys], [TensorType(keys._dims, self._value_dtype)])
        return found

    def fill(self, initializer: Initializer) -> None:
        """Adds the keys and values of an initializer to the table.

        Raises:
          FailedPreconditionError: the table has a different value for a key already.
        """
        keys, values = initializer.pairs()
        for key, value in zip(keys.ravel().tolist(), values.ravel().tolist()):
            stored = self._entries.rows.setdefault(key, value)
            if stored != value:
                raise FailedPreconditionError(
                    None,
                    "LookupTableImportV2",
                    f"HashTable has different value for same key. Key {_decoded(key)} has {_decoded(stored)} and trying to add "
                    f"value {_decoded(value)} [Op:LookupTableImportV2] name: {getattr(initializer, 'filename', '')}",
                )

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of keys, an int64 scalar, which is constant."""
        return convert_to_tensor(len(self._entries.rows), int64)

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Returns the value of each key; missing keys have the default.

        Args:
          keys: a tensor of the key dtype; the values of ragged and sparse tensors are looked up.

        Returns:
          A tensor of shape ``keys.shape + default_value.shape``.

        Raises:
          TypeError: the dtype of the keys is not the table's key dtype.
        """
        return self._look_up_or_default(keys, self._default_value)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Returns all keys and their values, in any order."""
        keys, values = self._entries.arrays(self._key_dtype, self._value_dtype, ())
        return EagerTensor(keys), EagerTensor(values)


def _decoded(value: Any) -> Any:
    """Returns bytes as text, for error texts; other values unchanged."""
    return value.decode() if isinstance(value, bytes) else value


@export("lookup.experimental.MutableHashTable")
class MutableHashTable(_Table):
    """A table that can be changed; checkpoints store its contents.

    Args:
      key_dtype, value_dtype: the dtypes of keys and values.
      default_value: the value of missing keys: a scalar or vector.

    >>> import tvtf as tf
    >>> table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default_value=-1)
    >>> table.insert(tf.constant(["a"]), tf.constant([7], tf.int64))
    >>> table.lookup(tf.constant(["a", "b"])).numpy()
    array([ 7, -1])

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/experimental/MutableHashTable
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        """Creates an empty table; ``checkpoint`` says whether checkpoints store the table's contents."""
        super().__init__(key_dtype, value_dtype, default_value, name)
        self._is_saved = checkpoint

    def lookup(self, keys: Any, dynamic_default_values: Any = None, name: str | None = None) -> Tensor:
        """Returns the value of each key; missing keys have the default, or the value in ``dynamic_default_values``."""
        default = self._default_value if dynamic_default_values is None else convert_to_tensor(dynamic_default_values)
        return self._look_up_or_default(convert_to_tensor(keys, self._key_dtype), default)

    def insert(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Inserts keys with values, replacing old values.

        Raises:
          ValueError: the dtype of the keys or values is not the table's.
          InvalidArgumentError: the shape of the values is not that of the keys, followed by a value's.
        """
        new_keys = self._converted("keys", keys, self._key_dtype)
        new_values = self._converted("values", values, self._value_dtype)
        expected = [*new_keys.shape, *self._default_value.shape]
        if not new_values.shape.is_compatible_with(expected):
            expected_text, actual_text = [f"[{','.join(map(str, shape))}]" for shape in (expected, new_values.shape)]
            raise InvalidArgumentError(
                None,
                "LookupTableInsertV2",
                f"Expected shape {expected_text} for value, got {actual_text} [Op:LookupTableInsertV2] name: ",
            )
        self._run_change(self._insert, new_keys, new_values)

    def remove(self, keys: Any, name: str | None = None) -> None:
        """Removes keys; missing ones are ignored."""
        if getattr(keys, "dtype", self._key_dtype) is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype!s}, received: {keys.dtype!s}")
        self._run_change(self._remove, self._converted("keys", keys, self._key_dtype))

    def _insert(self, keys: np.ndarray, values: np.ndarray) -> None:
        self._entries.insert(keys, values)

    def _remove(self, keys: np.ndarray) -> None:
        self._entries.remove(keys)

    def _run_change(self, change: Callable[..., None], *inputs: Tensor) -> None:
        """Calls ``change``, which changes the table's entries, on the arrays of the inputs.

        While tracing, the call becomes part of the program, and changes the table whenever the program runs.
        """

        def change_entries(*arrays: np.ndarray) -> tuple[np.ndarray]:
            change(*arrays)
            return (np.zeros((), np.int64),)  # a result that nothing uses

        self._call_on_arrays(change_entries, list(inputs), [TensorType((), int64)])

    @staticmethod
    def _converted(argument: str, value: Any, dtype: DType) -> Tensor:
        """Converts an argument to a tensor of a dtype; a ValueError names the argument."""
        try:
            return convert_to_tensor(value, dtype)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from None

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Returns all keys and their values, in any order."""
        keys, values = self._arrays()
        return EagerTensor(keys), EagerTensor(values)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self._entries.arrays(self._key_dtype, self._value_dtype, tuple(self._default_value.shape))

    # -- checkpoints (see tvtf.track)

    _value_suffixes = ("-keys", "-values")

    def _serialize_to_tensors(self) -> dict[str, np.ndarray]:
        if not self._is_saved:
            return {}
        keys, values = self._arrays()
        return {"table-keys": keys, "table-values": values}

    def _tensor_specs(self) -> TensorSpecs:
        if not self._is_saved:
            return {}
        return {"table-keys": (None, self._key_dtype.np), "table-values": (None, self._value_dtype.np)}

    def _restore_from_tensors(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._entries.rows = {}
        self._entries.insert(tensors["table-keys"], tensors["table-values"])


def _vocabulary_key_dtype(table_dtype: DType, lookup_dtype: Any) -> DType:
    """Returns the dtype of the keys passed to ``lookup``: ``lookup_dtype``, or the table's key dtype if it is None.

    Raises:
      TypeError: the table's keys are neither int64 nor strings, or one of the two dtypes is an integer and the other not.
    """
    key_dtype = table_dtype if lookup_dtype is None else as_dtype(lookup_dtype)
    expected = ""
    if table_dtype not in (int64, string):
        expected = f"one of ({int64!r}, {string!r}), but got {table_dtype!s}."
    elif not key_dtype.is_integer and key_dtype is not string:
        expected = f"integer or string, got {key_dtype!s}"
    elif table_dtype.is_integer != key_dtype.is_integer:
        expected = f"{'integer' if key_dtype.is_integer else 'non-integer'} but got {table_dtype!s}."
    if expected:
        raise TypeError(f"Invalid `key_dtype`, expected {expected}")
    return key_dtype


@export("lookup.StaticVocabularyTable")
class StaticVocabularyTable(AutoTrackable):
    """A table of ids; missing keys are hashed to one of ``num_oov_buckets`` ids after the others.

    Args:
      initializer: the keys and int64 ids; None hashes all keys.
      num_oov_buckets: the number of ids for missing keys.
      lookup_key_dtype: the dtype of looked-up keys, if it is not the initializer's: integers of another size. Without an
        initializer keys are strings.

    >>> import tvtf as tf
    >>> pairs = tf.lookup.KeyValueTensorInitializer(["x", "y"], tf.constant([0, 1], tf.int64))
    >>> tf.lookup.StaticVocabularyTable(pairs, 3).lookup(tf.constant(["y", "zz", "hello"])).numpy()
    array([1, 3, 3])

    Raises:
      TypeError: the ids are not int64, or one of ``lookup_key_dtype`` and the initializer's keys is integer, one not.
      ValueError: the number of buckets is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/StaticVocabularyTable
    """

    def __init__(
        self,
        initializer: Initializer | None,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        """Creates a vocabulary from keys with int64 ids; without an initializer all keys are hashed to buckets."""
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        if initializer is not None and initializer.value_dtype is not int64:
            raise TypeError(f"Invalid `value_dtype`, expected {int64!s} but got {initializer.value_dtype!s}.")
        self._table = None if initializer is None else StaticHashTable(initializer, -1, name)
        self._key_dtype = string
        if initializer is not None:
            self._key_dtype = _vocabulary_key_dtype(initializer.key_dtype, lookup_key_dtype)
        self._buckets = num_oov_buckets

    @property
    def name(self) -> str | None:
        return None if self._table is None else self._table.name

    @property
    def key_dtype(self) -> DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        return int64

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of ids."""
        buckets = convert_to_tensor(self._buckets, int64)
        return buckets if self._table is None else self._table.size() + buckets

    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Returns the id of each key, an int64 tensor of the keys' shape.

        A key that isn't in the table gets the id of a bucket, by its hash. These ids follow those of the table.
        """
        if keys.dtype is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype!s}, received: {keys.dtype!s}")
        if isinstance(keys, CompositeTensor):
            return _look_up_composite(keys, self.lookup)
        buckets = to_hash_bucket_fast(keys if self._key_dtype is string else as_string(keys), self._buckets)
        if self._table is None:
            return buckets
        ids = self._table.lookup(cast(keys, self._table.key_dtype))  # -1 for a missing key
        return bind.select(ids < 0, buckets + self._table.size(), ids)

    def __getitem__(self, keys: Any) -> Tensor:
        return self.lookup(keys)
