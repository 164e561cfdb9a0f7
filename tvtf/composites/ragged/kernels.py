"""Primitives for ragged tensors: concatenated ranges, row ids of values, and padding to a dense tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.allocation_check import require_room
from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorType, agree_dim, simplify_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.dtypes import INTEGER, DType, as_dtype, int64
from tvtf.ops.array import shape as shape_of
from tvtf.ops.create import arange
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.rules import bind, ones_like, require_dtype, zeros_like
from tvtf.ops.sort import searchsorted


def _range_types(starts: TensorType, limits: TensorType, deltas: TensorType, count: Any) -> tuple[TensorType, ...]:
    rows = starts.shape[0]
    if not all(agree_dim(rows, other.shape[0]) for other in (limits, deltas)):
        raise ArgumentError("starts, limits, and deltas must have the same shape")
    return TensorType((rows + 1,), int64), TensorType((count,), starts.dtype)


def _ranges(starts: np.ndarray, limits: np.ndarray, deltas: np.ndarray, count: Any) -> tuple[np.ndarray, np.ndarray]:
    """Computes a ragged tensor of ranges, one row for each start, limit and delta.

    Args:
      starts, limits, deltas: the first number of each row, the end before which it stops, and its step.
      count: not used: only the result type needs this symbolic dim.

    Returns:
      the row splits and the values.
    """
    if (deltas == 0).any():
        raise ArgumentError("Requires delta != 0")
    if not all(np.isfinite(array).all() for array in (starts, limits, deltas)):
        raise ArgumentError("Requires ((limit - start) / delta) <= 9223372036854775807")
    dtype = starts.dtype
    total = 0
    for start, limit, delta in zip(starts.tolist(), limits.tolist(), deltas.tolist()):
        row_length = -((start - limit) // delta)  # the quotient rounded up
        total += max(0, int(row_length))
    # NumPy returns an empty array for 2**63 elements or more.
    require_room(TensorType((total,), as_dtype(dtype)), "RaggedRange")
    rows = [np.arange(start, limit, delta, dtype=dtype) for start, limit, delta in zip(starts, limits, deltas)]
    splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    values = np.concatenate([*rows, np.empty(0, dtype)])
    return splits, values.astype(dtype)


@host_primitive(tf_name="RaggedRange", type=_range_types, numpy=_ranges)
def ragged_ranges(starts: Tensor, limits: Tensor, deltas: Tensor, count: Any) -> Any:
    """Returns the row splits and the concatenated values of one range per row."""
    return (starts, limits, deltas), {"count": count}


def _numbers(splits: np.ndarray, count: Any) -> np.ndarray:
    return np.repeat(np.arange(len(splits) - 1, dtype=splits.dtype), np.diff(splits))


@host_primitive(type=lambda splits, count: TensorType((count,), splits.dtype), numpy=_numbers)
def ragged_row_ids(splits: Tensor, count: Any) -> Any:
    """Returns the row id of each value, from the row splits; ``count`` is the number of values."""
    return (splits,), {"count": count}


def ranges(starts: Tensor, limits: Tensor, deltas: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the row splits, and the concatenated values, of one range per row; the default step is 1."""
    steps = ones_like(starts) if deltas is None else deltas
    result = bind.ragged_ranges(starts, limits, steps, count=unknown_dim())
    return result  # type: ignore[no-any-return]


def _dense_type(values: TensorType, splits: TensorType, default: TensorType, width: Any) -> TensorType:
    require_dtype(splits, INTEGER, "row_splits")
    return TensorType((simplify_dim(splits.shape[0] - 1), width, *values.shape[1:]), values.dtype)


def _dense(values: np.ndarray, splits: np.ndarray, default: np.ndarray, width: Any) -> np.ndarray:
    """Copies ragged rows into a dense matrix; short rows are padded with ``default``, and long rows are cut.

    The matrix has ``width`` columns. If ``width`` is a symbolic dim, it is as wide as the longest row.
    """
    lengths = np.diff(splits)
    column_count = width if isinstance(width, int) else int(lengths.max(initial=0))
    dense = np.empty((len(lengths), column_count, *values.shape[1:]), values.dtype)
    dense[:] = default
    for row, (start, length) in enumerate(zip(splits.tolist(), lengths.tolist())):
        count = min(length, column_count)
        dense[row, :count] = values[start : start + count]
    return dense


def _dense_vjp(cotangent: Tensor, y: Tensor, values: Tensor, splits: Tensor, default: Tensor, width: Any) -> Any:
    """Computes the gradients of padding ragged rows to a dense tensor: ``cotangent`` at each value's row and column.

    A value that was cut off gets zeros. The row splits and the default have no gradient (None).
    """
    rows = row_ids(splits, values)
    row_starts = bind.gather(splits, rows, axis=0, batch_dims=0)
    columns = bind.subtract(bind.cast(positions(values), dtype=splits.dtype), row_starts)
    is_inside = bind.less(columns, bind.cast(dim(cotangent, 1), dtype=columns.dtype))
    valid_columns = bind.select(is_inside, columns, zeros_like(columns))
    cotangents = bind.gather_nd(cotangent, bind.stack(rows, valid_columns, axis=1))
    (value_count,) = is_inside._type.shape
    inner_ones = (1,) * (values.ndim - 1)
    mask = bind.reshape(is_inside, shape=(value_count, *inner_ones))
    return bind.select(mask, cotangents, zeros_like(cotangents)), None, None


@host_primitive(tf_name="RaggedTensorToTensor", type=_dense_type, numpy=_dense, vjp=_dense_vjp)
def ragged_dense(values: Tensor, splits: Tensor, default: Tensor, width: Any) -> Any:
    """Pads rows of different lengths with a default value to a dense tensor of ``width`` columns."""
    return (values, splits, default), {"width": width}


def positive_axis(axis: Any, rank: int, argument: str = "axis") -> int:
    """Converts a possibly negative axis to a non-negative one.

    Args:
      axis: the axis.
      rank: the rank of the tensor.
      argument: the argument's name in error messages.

    Raises:
      TypeError: the axis is not an int. ValueError: the axis is out of bounds.
    """
    if not isinstance(axis, int):
        raise TypeError(f"{argument} must be an int; got {type(axis).__name__}")
    if not -rank <= axis < rank:
        raise ValueError(f"{argument}={axis} out of bounds: expected {-rank}<={argument}<{rank}")
    return axis % rank


def dim(x: Tensor, axis: int) -> Tensor:
    """Returns the size of an axis as an int64 scalar."""
    return shape_of(x, int64)[axis]


def positions(values: Tensor) -> Tensor:
    """Returns the indices along the first axis, 0, 1, ..., as int64."""
    return arange(dim(values, 0))


def counted(last: Tensor, dtype: DType) -> Tensor:
    """Returns 0, 1, ..., ``last``."""
    first = EagerTensor(np.zeros(1, dtype.np))
    limit = bind.reshape(bind.cast(last, dtype=dtype), shape=(1,)) + first.eager_array().dtype.type(1)
    _, numbers = ranges(first, limit)
    return numbers


def row_ids(splits: Tensor, values: Tensor) -> Tensor:
    """Returns the row id of each value."""
    places = bind.cast(positions(values), dtype=splits.dtype)
    return bind.subtract(searchsorted(splits, places, side="right", out_type=splits.dtype), ones_like(places))
