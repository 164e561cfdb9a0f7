"""RowPartition: the partition of a sequence of values into rows, one ragged dim without the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvtf.composites.ragged.kernels import counted, ranges
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorShape, as_shape, simplify_dim
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import DType, as_dtype, int32, int64
from tvtf.ops.assert_values import assert_equal, assert_less_equal, assert_non_negative
from tvtf.ops.cast import cast
from tvtf.ops.dims import scalar_of
from tvtf.ops.host import unknown_dim
from tvtf.ops.rules import bind, zeros_like
from tvtf.ops.scan import cumsum
from tvtf.ops.sort import searchsorted
from tvtf.ops.value_checks import all_hold, ascending, required

SPLITS_DTYPES = (int32, int64)


def as_partition(value: Any, name: str, dtype: Any = None, hint: Any = None) -> Tensor:
    """Converts the argument ``name``, such as row splits, row lengths or row ids, to an int32 or int64 tensor.

    Raises:
      ValueError: the tensor's dtype is neither int32 nor int64.
    """
    # The hint, the dtype of other row splits, doesn't apply to arrays.
    if dtype is None and isinstance(value, np.ndarray):
        hint = None
    tensor = convert_to_tensor(value, None if dtype is None else as_dtype(dtype), dtype_hint=as_dtype(hint or int64))
    if tensor.dtype not in SPLITS_DTYPES:
        raise ValueError(f"{name} must have dtype int32 or int64")
    return tensor


def _require_bool(validate: Any) -> None:
    if not isinstance(validate, bool):
        raise TypeError("validate must have type bool")


def assert_if_false(holds: Any, check: Callable[..., Any], *arguments: Any, message: Any) -> None:
    """Calls ``check``, one of TensorFlow's assertions, if ``holds`` is false: it then raises TensorFlow's error text."""
    if not holds:
        check(*arguments, message=message)


def _zero(like: Tensor) -> Tensor:
    return EagerTensor(np.zeros(1, like.dtype.np))


def splits_of_lengths(lengths: Tensor) -> Tensor:
    """Converts row lengths to row splits."""
    return bind.concat(_zero(lengths), cumsum(lengths), axis=0)  # type: ignore[no-any-return]


def _as_vector(value: Any, name: str, dtype: Any, dtype_hint: Any, validate: bool) -> Tensor:
    """Converts a vector that describes a partition (row lengths, ids, ...) to a tensor, and checks ``validate``."""
    _require_bool(validate)
    vector = as_partition(value, name, dtype, dtype_hint)
    vector.shape.assert_has_rank(1)
    return vector


@export("experimental.RowPartition")
class RowPartition(CompositeTensor):
    """A partition of a sequence of values into rows; created by ``from_row_splits`` and others.

    >>> import tvtf as tf
    >>> rows = tf.experimental.RowPartition.from_row_lengths([4, 0, 3])
    >>> rows, rows.nrows().numpy(), rows.value_rowids().numpy().tolist()
    (tf.RowPartition(row_splits=[0 4 4 7]), np.int64(3), [0, 0, 0, 0, 2, 2, 2])

    Raises:
      InvalidArgumentError: the arguments don't describe a valid partition, and ``validate`` is True.

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/RowPartition
    """

    def __init__(self, row_splits: Tensor, uniform: Dim | None = None, nvals: Dim | None = None) -> None:
        self._row_splits = row_splits
        self._uniform = uniform
        self._nvals = nvals

    # -- construction

    @classmethod
    def from_row_splits(
        cls, row_splits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Creates a partition whose row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``.

        Args:
          row_splits: vector of the bounds of all rows, from 0 to the number of values.
          validate: whether the splits are checked.
          dtype, dtype_hint: the required and the preferred dtype of the row splits.
        """
        _require_bool(validate)
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError("row_splits tensor may not be empty.")
        splits = as_partition(row_splits, "row_splits", dtype, dtype_hint)
        splits.shape.assert_has_rank(1)
        if validate:
            if splits.shape[0] == 0:
                raise ValueError("row_splits tensor may not be empty.")
            splits = required(splits, _check_splits, _are_splits, f"{_SPLITS}zero, monotonic")
        return cls(splits)

    @classmethod
    def from_row_lengths(
        cls, row_lengths: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Creates a partition whose row ``i`` has the next ``row_lengths[i]`` values.

        Args:
          row_lengths: vector of the number of values in each row.
          validate: whether the lengths are checked.
          dtype, dtype_hint: the required and the preferred dtype of the row splits.
        """
        lengths = _as_vector(row_lengths, "row_lengths", dtype, dtype_hint, validate)
        if validate:
            lengths = required(lengths, _check_lengths, _are_nonnegative, _LENGTHS)
        return cls(splits_of_lengths(lengths))

    @classmethod
    def from_row_starts(
        cls, row_starts: Any, nvals: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Creates a partition whose row ``i`` starts at value ``row_starts[i]``; there are ``nvals`` values.

        Args:
          row_starts: vector of the position of each row's first value.
          nvals: the number of values.
          validate: whether the starts are checked.
          dtype, dtype_hint: the required and the preferred dtype of the row splits.
        """
        starts = _as_vector(row_starts, "row_starts", dtype, dtype_hint, validate)
        value_count = cast(convert_to_tensor(nvals), starts.dtype)
        if validate:
            starts = required(starts, _check_starts, _are_starts, _STARTS, value_count)
        last_split = bind.reshape(value_count, shape=(1,))
        splits = bind.concat(starts, last_split, axis=0)
        return cls(splits, nvals=_static_int(value_count))

    @classmethod
    def from_row_limits(
        cls, row_limits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Creates a partition whose row ``i`` ends before value ``row_limits[i]``.

        Args:
          row_limits: vector of the position after each row's last value.
          validate: whether the limits are checked.
          dtype, dtype_hint: the required and the preferred dtype of the row splits.
        """
        limits = _as_vector(row_limits, "row_limits", dtype, dtype_hint, validate)
        if validate:
            limits = required(limits, _check_limits, _are_limits, _LIMITS)
        return cls(bind.concat(_zero(limits), limits, axis=0))

    @classmethod
    def from_value_rowids(
        cls, value_rowids: Any, nrows: Any = None, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Creates a row partition that puts value ``i`` into row ``value_rowids[i]``; row ids must not decrease.

        Args:
          value_rowids: vector of the row of each value.
          nrows: the number of rows; None for the last row id plus one.
          validate: whether the row ids are checked.
          dtype, dtype_hint: the required and the preferred dtype of the row splits.
        """
        ids = _as_vector(value_rowids, "value_rowids", dtype, dtype_hint, validate)
        row_count = _row_count_of_ids(ids) if nrows is None else cast(convert_to_tensor(nrows), ids.dtype)
        if validate:
            ids = required(ids, _check_ids, _are_ids, _IDS, row_count)
        row_numbers = counted(row_count, ids.dtype)
        splits = searchsorted(ids, row_numbers, out_type=ids.dtype)
        return cls(splits, nvals=ids._type.shape[0])

    @classmethod
    def from_uniform_row_length(
        cls,
        uniform_row_length: Any,
        nvals: Any = None,
        nrows: Any = None,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
    ) -> RowPartition:
        """Creates a partition in which every row has ``uniform_row_length`` values."""
        _require_bool(validate)
        if nrows is None and nvals is None:
            raise ValueError("Either (or both) of nvals and nrows must be specified")
        length = as_partition(uniform_row_length, "uniform_row_length", dtype, dtype_hint)
        length.shape.assert_has_rank(0)
        static_length, value_count = (
            _static_int(length),
            None if nvals is None else cast(convert_to_tensor(nvals), length.dtype),
        )
        if static_length is None:
            raise ValueError("uniform_row_length must be known while a function is traced: pass a Python number")
        if nrows is not None:
            rows = cast(convert_to_tensor(nrows), length.dtype)
        else:
            rows = value_count // length if static_length else zeros_like(length)  # type: ignore[operator]
        _require_product(
            static_length, _static_int(rows), None if value_count is None else _static_int(value_count), validate
        )
        if validate and value_count is not None and None in (_static_int(rows), _static_int(value_count)):
            check = partial(_require_product, static_length, validate=validate)
            rows = required(
                rows,
                check,
                lambda row_count, values_total: bind.equal(row_count * length, values_total),
                _PRODUCT,
                value_count,
            )
        static_rows = _static_int(rows)
        if static_rows is not None:
            splits: Tensor = EagerTensor(
                np.arange(static_rows + 1, dtype=length.dtype.np) * length.dtype.np.type(static_length)
            )
        else:
            splits = counted(rows, length.dtype) * length
        return cls(splits, static_length, None if static_rows is None else static_rows * static_length)

    @classmethod
    def of_dims(cls, nrows: Dim, length: Dim, dtype: DType) -> RowPartition:
        """Creates a uniform row partition: ``nrows`` rows of ``length`` values each; both may be symbolic dims."""
        if isinstance(nrows, int) and isinstance(length, int):
            split_array = np.arange(nrows + 1, dtype=dtype.np) * dtype.np.type(length)
            return cls(EagerTensor(split_array), length, nrows * length)
        row_numbers = cast(bind.range(size=simplify_dim(nrows + 1), start=0, delta=1, dtype=int64), dtype)
        return cls(row_numbers * cast(scalar_of(length), dtype), length)

    def of_values(self, count: Tensor) -> RowPartition:
        """Returns this partition, checked to have ``count`` values."""
        splits = required(self._row_splits, _check_count, lambda s, n: bind.equal(s[-1:], n), _VALUES, count)
        return self if splits is self._row_splits else RowPartition(splits, self._uniform, self._nvals)

    # -- properties

    @property
    def dtype(self) -> DType:
        return self._row_splits.dtype

    @property
    def static_nrows(self) -> int | None:
        count = self._row_splits.shape[0]
        return None if count is None else count - 1

    @property
    def static_nvals(self) -> int | None:
        return self._nvals if isinstance(self._nvals, int) else None

    @property
    def static_uniform_row_length(self) -> int | None:
        return self._uniform if isinstance(self._uniform, int) else None

    @property
    def nrows_dim(self) -> Dim:
        """The number of rows as a dim."""
        return simplify_dim(self._row_splits._type.shape[0] - 1)

    @property
    def nvals_dim(self) -> Dim:
        """The number of values as a dim, an int or symbolic."""
        if self._nvals is None:
            value_count = static_value(self.nvals())
            if value_count is not None:
                self._nvals = int(value_count)
            elif self.is_uniform():
                self._nvals = simplify_dim(self.nrows_dim * self._uniform)
            else:
                # The row ids have as many elements as there are values, and a symbolic dim of their own.
                return self.value_rowids()._type.shape[0]
        return self._nvals

    @property
    def uniform_dim(self) -> Dim | None:
        """The number of values in every row as a dim; None if it is not known to be uniform."""
        return self._uniform

    def is_uniform(self) -> bool:
        """Returns whether all rows are known to have one length."""
        return self._uniform is not None

    def row_splits(self) -> Tensor:
        """Returns the index of each row's first value, and the number of values at the end."""
        return self._row_splits

    def nrows(self) -> Tensor:
        """Returns the number of rows."""
        return cast(scalar_of(self.nrows_dim), self.dtype)

    def nvals(self) -> Tensor:
        """Returns the number of values."""
        return self._row_splits[-1]

    def row_starts(self) -> Tensor:
        """Returns the index of each row's first value."""
        return self._row_splits[:-1]

    def row_limits(self) -> Tensor:
        """Returns the index after each row's last value."""
        return self._row_splits[1:]

    def row_lengths(self) -> Tensor:
        """Returns the number of values in each row."""
        return self.row_limits() - self.row_starts()

    def uniform_row_length(self) -> Tensor | None:
        """Returns the number of values in every row, or None if it is not known to be uniform."""
        return None if self._uniform is None else cast(scalar_of(self._uniform), self.dtype)

    def value_rowids(self) -> Tensor:
        """Returns the row id of each value."""
        count = unknown_dim() if self._nvals is None else self._nvals
        return bind.ragged_row_ids(self._row_splits, count=count)  # type: ignore[no-any-return]

    def offsets_in_rows(self) -> Tensor:
        """Returns the index of each value in its row."""
        lengths = self.row_lengths()
        _, offsets = ranges(zeros_like(lengths), lengths)
        return offsets

    def with_dtype(self, dtype: Any) -> RowPartition:
        """Returns a copy of the row partition with row splits of another dtype, int32 or int64."""
        new_dtype = as_dtype(dtype)
        if new_dtype not in SPLITS_DTYPES:
            raise ValueError("dtype must be int32 or int64")
        if new_dtype is self.dtype:
            return self
        return RowPartition(cast(self._row_splits, new_dtype), self._uniform, self._nvals)

    def __repr__(self) -> str:
        if self._uniform is not None:
            return f"tf.RowPartition(nrows={self.nrows()}, uniform_row_length={self.uniform_row_length()})"
        return f"tf.RowPartition(row_splits={self._row_splits})"

    @property
    def _type_spec(self) -> RowPartitionSpec:
        return RowPartitionSpec(self.static_nrows, self.static_nvals, self.static_uniform_row_length, self.dtype)


def _static_int(scalar: Tensor) -> int | None:
    result = static_value(scalar)
    return None if result is None else int(result)


_SPLITS = "Arguments to from_row_splits do not form a valid RaggedTensor:"
_LENGTHS = "Arguments to from_row_lengths do not form a valid RowPartition"
_STARTS = "Arguments to from_row_starts do not form a valid RaggedTensor"
_LIMITS = "Arguments to from_row_limits do not form a valid RaggedTensor"
_IDS = "Arguments to from_value_rowids do not form a valid RowPartition"
_VALUES = "Arguments to _from_row_partition do not form a valid RaggedTensor"
_PRODUCT = "uniform_row_length times nrows must equal nvals"


def _check_splits(array: np.ndarray) -> None:
    first = EagerTensor(array[0])
    assert_if_false(array[0] == 0, assert_equal, first, zeros_like(first), message=_SPLITS + "zero")
    _check_ascending(array, _SPLITS + "monotonic")


def _are_splits(splits: Tensor) -> Tensor:
    return _both(ascending(splits), bind.equal(splits[:1], _zero(splits)))


def _check_lengths(array: np.ndarray) -> None:
    assert_if_false((array >= 0).all(), assert_non_negative, EagerTensor(array), message=_LENGTHS)


def _are_nonnegative(x: Tensor) -> Tensor:
    return bind.greater_equal(x, zeros_like(x))  # type: ignore[no-any-return]


def _check_starts(array: np.ndarray, value_count: np.ndarray) -> None:
    """Raises TensorFlow's error unless row starts ascend from 0, and are at most the number of values.

    Args:
      array: the row starts.
      value_count: the number of values.
    """
    if array.size:
        starts = EagerTensor(array)
        assert_if_false(array[0] == 0, assert_equal, starts[:1], zeros_like(starts[0]), message=_STARTS)
        _check_ascending(array, _STARTS)
        assert_if_false(
            array[-1] <= value_count, assert_less_equal, starts[-1:], EagerTensor(value_count), message=_STARTS
        )


def _are_starts(starts: Tensor, value_count: Tensor) -> Tensor:
    bounds_hold = _both(bind.equal(starts[:1], _zero(starts)), bind.less_equal(starts[-1:], value_count))
    return _both(ascending(starts), bounds_hold)


def _check_limits(array: np.ndarray) -> None:
    assert_if_false((array[:1] >= 0).all(), assert_non_negative, EagerTensor(array[:1]), message=_LIMITS)
    _check_ascending(array, _LIMITS)


def _are_limits(limits: Tensor) -> Tensor:
    return _both(ascending(limits), _are_nonnegative(limits[:1]))


def _are_ids(ids: Tensor, row_count: Tensor) -> Tensor:
    bounds_hold = _both(_are_nonnegative(ids[:1]), bind.less(ids[-1:], row_count))
    return _both(_both(ascending(ids), bounds_hold), _are_nonnegative(row_count))


def _both(a: Tensor, b: Tensor) -> Tensor:
    return bind.logical_and(all_hold(a), all_hold(b))  # type: ignore[no-any-return]


def _check_count(splits: np.ndarray, count: np.ndarray) -> None:
    assert_if_false(splits[-1] == count, assert_equal, EagerTensor(splits[-1]), EagerTensor(count), message=_VALUES)


def _check_ascending(array: np.ndarray, message: str) -> None:
    """Raises TensorFlow's error, with ``message`` as its text, if an element is less than the one before."""
    differences = np.diff(array)
    assert_if_false((differences >= 0).all(), assert_non_negative, EagerTensor(differences), message=message)


def _row_count_of_ids(ids: Tensor) -> Tensor:
    """Returns the number of rows that sorted ids imply: the last id plus 1, or 0 without ids."""
    return cumsum(bind.concat(_zero(ids) - 1, ids, axis=0)[-1:])[0] + 1


def _check_ids(array: np.ndarray, row_count: np.ndarray) -> None:
    """Checks the row ids of a partition, one for each value: they don't decrease, and are in [0, row_count).

    The order of the checks and their texts are those of TensorFlow's ``RowPartition.from_value_rowids``.

    Raises:
      ValueError: the number of rows is negative, or the last id isn't less than it.
      InvalidArgumentError: the first id is negative, or an id is less than the one before.
    """
    row_ids = array
    nrows = int(row_count)
    if nrows < 0:
        raise ValueError(f"Expected nrows >= 0; got {nrows}")
    # Of ids in order, the first is the least and the last the greatest.
    if row_ids.size and row_ids[-1] >= nrows:
        raise ValueError(f"Expected nrows >= value_rowids[-1] + 1; got nrows={nrows}, value_rowids[-1]={row_ids[-1]}")
    first_id = row_ids[:1]  # empty if there are no ids
    assert_if_false((first_id >= 0).all(), assert_non_negative, EagerTensor(first_id), message=_IDS)
    _check_ascending(row_ids, _IDS)


def _require_product(length: int, nrows: int | None, nvals: int | None, validate: bool) -> None:
    if length < 0 and validate:
        raise ValueError("uniform_row_length must be >= 0.")
    if validate and None not in (nrows, nvals) and nrows * length != nvals:  # type: ignore[operator]
        raise ValueError(f"uniform_row_length={length} times nrows={nrows} must equal nvals={nvals}")


class RowPartitionSpec(TypeSpec):
    """The type of a :class:`RowPartition`; unknown counts are None."""

    def __init__(
        self, nrows: Any = None, nvals: Any = None, uniform_row_length: Any = None, dtype: Any = int64
    ) -> None:
        self.nrows, self.nvals, self.uniform_row_length = nrows, nvals, uniform_row_length
        self.dtype = as_dtype(dtype)
        if self.dtype not in SPLITS_DTYPES:
            raise ValueError("dtype must be tf.int32 or tf.int64")

    @property
    def value_type(self) -> type:
        return RowPartition

    @property
    def _component_specs(self) -> TensorSpec:
        return TensorSpec([None if self.nrows is None else self.nrows + 1], self.dtype)

    def _to_components(self, value: RowPartition) -> Tensor:
        return value.row_splits()

    def _from_components(self, components: Tensor) -> RowPartition:
        return RowPartition(components, self.uniform_row_length, self.nvals)

    def _serialize(self) -> tuple[Any, ...]:
        """Returns the counts as shapes of one dim, so that unknown ones are compatible with any."""
        return TensorShape([self.nrows]), TensorShape([self.nvals]), TensorShape([self.uniform_row_length]), self.dtype

    @classmethod
    def _deserialize(cls, serialization: tuple[Any, ...]) -> RowPartitionSpec:
        *counts, dtype = serialization
        nrows, nvals, length = (as_shape(count)[0] for count in counts)
        return cls(nrows, nvals, length, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowPartitionSpec, (self.nrows, self.nvals, self.uniform_row_length, self.dtype)

    def __repr__(self) -> str:
        counts = f"nrows={self.nrows}, nvals={self.nvals}, uniform_row_length={self.uniform_row_length}"
        return f"RowPartitionSpec({counts}, dtype={self.dtype!r})"
