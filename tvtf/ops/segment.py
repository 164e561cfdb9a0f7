"""Segment reductions composed of the unsorted ones: segment_*, unsorted_segment_mean and _sqrt_n."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, agree_dim
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import NUMERIC, int32, int64
from tvtf.ops.rules import bind, not_among, number, require_dtype, size_argument, static_dims


def _ones(x: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    """Returns ones of a shape, in the dtype of ``x``."""
    return bind.broadcast_to(EagerTensor(np.ones((), x.dtype.np)), shape=shape)


def _row_counts(data: Tensor, ids: Tensor, num_segments: Dim) -> Tensor:
    """Returns each segment's number of rows, at least one, in a shape that broadcasts with its sums."""
    rows = bind.unsorted_segment_sum(_ones(data, ids._type.shape), ids, num_segments=num_segments)
    at_least_one = bind.maximum(rows, EagerTensor(np.ones((), data.dtype.np)))
    return bind.reshape(at_least_one, shape=(num_segments, *(1,) * (data.ndim - ids.ndim)))


def _operands(data: Any, segment_ids: Any, num_segments: Any) -> tuple[Tensor, Tensor, Dim]:
    """Converts the arguments of an unsorted segment reduction to two tensors and the number of segments."""
    count = size_argument(num_segments, "num_segments", of_any_dtype=True)
    return convert_to_tensor(data), convert_to_tensor(segment_ids), count


@export("math.unsorted_segment_mean")
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Computes the mean of the slices of ``data`` that have the same id. It is zero for an id without slices.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_mean([1., 2., 3.], [0, 1, 0], 2).numpy()
    array([2., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_mean
    """
    x, ids, count = _operands(data, segment_ids, num_segments)
    return bind.unsorted_segment_sum(x, ids, num_segments=count) / _row_counts(x, ids, count)  # type: ignore[no-any-return]


@export("math.unsorted_segment_sqrt_n")
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Computes the sum of the slices with the same id, divided by the square root of their number.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_sqrt_n([1., 2., 3., 4.], [0, 0, 0, 0], 1).numpy()
    array([5.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_sqrt_n
    """
    x, ids, count = _operands(data, segment_ids, num_segments)
    return bind.divide(bind.unsorted_segment_sum(x, ids, num_segments=count), bind.sqrt(_row_counts(x, ids, count)))


def require_ids(ids: Tensor, attribute: str = "Tindices", parameter: str = "segment_ids") -> None:
    """Checks the dtype of segment ids. TensorFlow checks the dtype before any shape.

    Args:
      ids: the segment ids.
      attribute: the op's attribute for their dtype, for the error message.
      parameter: the op's parameter, for the error message.

    Raises:
      ArgumentError: the dtype is neither int32 nor int64.
    """
    if ids.dtype not in _IDS:
        raise not_among(ids.dtype, _IDS, attribute, parameter)


_IDS = (int32, int64)


def _sorted_operands(data: Any, segment_ids: Any, op: str) -> tuple[Tensor, Tensor, Dim]:
    """Checks the operands of a sorted segment reduction, and converts them to tensors.

    Args:
      data: numeric tensor with a row for each id.
      segment_ids: ascending int32 or int64 vector.
      op: the name of TensorFlow's op in errors.

    Returns:
      The data, the ids, and the number of segments, which is the last id plus one.
    """
    x, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    require_dtype(x._type, NUMERIC, "data")
    require_ids(ids)
    if not isinstance(ids, EagerTensor):
        return x, *_sorted_at_run_time(ids)
    array = ids.eager_array()
    if array.ndim != 1 or not agree_dim(x._type.shape[0], len(array)):
        raise ArgumentError("segment_ids should be the same size as dimension 0 of input.").for_op(op)
    if (np.diff(array) < 0).any():
        raise ArgumentError("segment ids are not increasing").for_op(op)
    if not len(array):
        return x, ids, 0
    first, last = array[0], array[-1]
    if first < 0:
        range_text = f"Segment id {first} out of range [0, {last + 1})"
        message = f"{range_text}, possibly because 'segment_ids' input is not sorted."
        raise ArgumentError(message).for_op(op)
    return x, ids, int(last) + 1


def ascending_at_run_time(ids: Tensor) -> Tensor:
    """Returns segment ids that are computed at run time; the program checks that they ascend and none is negative."""
    are_ascending = bind.reduce_all(bind.greater_equal(ids[1:], ids[:-1]), axis=(0,), keepdims=False)
    are_not_negative = bind.reduce_all(bind.greater_equal(ids, number(0, ids)), axis=(0,), keepdims=False)
    are_valid = bind.logical_and(are_ascending, are_not_negative)
    message = "segment ids must be >= 0 and are not increasing otherwise"
    return bind.initialized(ids, are_valid, message=message)  # type: ignore[no-any-return]


def _sorted_at_run_time(ids: Tensor) -> tuple[Tensor, Dim]:
    """Returns ascending segment ids that are computed at run time, and the number of segments."""
    checked = ascending_at_run_time(ids)
    # With -1 in front, the largest id plus one is 0 where there are no ids.
    extended_ids = bind.concat(number([-1], ids), checked, axis=0)
    largest_id = bind.reduce_max(extended_ids, axis=(0,), keepdims=False)
    (count,) = static_dims(bind.add(largest_id, number(1, ids)), "segment_ids")
    return checked, count


def _zero_where_empty(reduced: Tensor, ids: Tensor, count: Dim) -> Tensor:
    """Replaces the results of empty segments by zeros, as TensorFlow's sorted reductions do."""
    ones = bind.broadcast_to(EagerTensor(np.array(1, np.int32)), shape=ids._type.shape)
    rows = bind.unsorted_segment_sum(ones, ids, num_segments=count)
    has_rows = bind.greater(rows, EagerTensor(np.array(0, np.int32)))
    lifted = bind.reshape(has_rows, shape=(count, *(1,) * (reduced.ndim - 1)))
    return bind.select(lifted, reduced, EagerTensor(np.zeros((), reduced.dtype.np)))


@export("math.segment_sum")
def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Computes the sum of the rows of ``data`` that have the same id. The ids must ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_sum([1, 2, 3], [0, 0, 1]).numpy()
    array([3, 3], dtype=int32)

    Raises:
      InvalidArgumentError: the ids don't ascend.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_sum
    """
    x, ids, count = _sorted_operands(data, segment_ids, "SegmentSum")
    return bind.unsorted_segment_sum(x, ids, num_segments=count)


@export("math.segment_prod")
def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Computes the product of the rows of ``data`` that have the same id. The ids must ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_prod([1, 2, 3], [0, 0, 1]).numpy()
    array([2, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_prod
    """
    x, ids, count = _sorted_operands(data, segment_ids, "SegmentProd")
    return bind.unsorted_segment_prod(x, ids, num_segments=count)


@export("math.segment_max")
def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Computes the elementwise maximum of the rows of ``data`` that have the same id, or zero for no rows.

    The ids must ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_max([1, 2, 3], [0, 0, 2]).numpy()
    array([2, 0, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_max
    """
    x, ids, count = _sorted_operands(data, segment_ids, "SegmentMax")
    return _zero_where_empty(bind.unsorted_segment_max(x, ids, num_segments=count), ids, count)


@export("math.segment_min")
def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Computes the elementwise minimum of the rows of ``data`` that have the same id, or zero for no rows.

    The ids must ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_min([1, 2, 3], [0, 0, 2]).numpy()
    array([1, 0, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_min
    """
    x, ids, count = _sorted_operands(data, segment_ids, "SegmentMin")
    return _zero_where_empty(bind.unsorted_segment_min(x, ids, num_segments=count), ids, count)


@export("math.segment_mean")
def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """Computes the mean of the rows of ``data`` that have the same id, or zero for no rows. The ids must ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_mean([1., 2., 3.], [0, 0, 1]).numpy()
    array([1.5, 3. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_mean
    """
    x, ids, count = _sorted_operands(data, segment_ids, "SegmentMean")
    divide = bind.truncatediv if x.dtype.is_integer else bind.divide
    total = bind.unsorted_segment_sum(x, ids, num_segments=count)
    return divide(total, _row_counts(x, ids, count))  # type: ignore[no-any-return]
