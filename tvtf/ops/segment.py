"""Segments composed from the unsorted reductions: segment_*, means, bincount."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import as_dtype, int32
from tvtf.ops.arrange import flattened
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, number, size_argument, static_dims, static_int
from tvtf.primitive import export
from tvtf.refusal import Refused
from tvtf.shape import Dim
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor


def _ones(x: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    return bind.broadcast_to(EagerTensor(np.ones((), x.dtype.np)), shape=shape)


def _counts(data: Tensor, ids: Tensor, num_segments: Dim) -> Tensor:
    """The number of rows of each segment, in a shape that divides its sums; at least one."""
    rows = bind.unsorted_segment_sum(_ones(data, ids._type.shape), ids, num_segments=num_segments)
    some = bind.maximum(rows, EagerTensor(np.ones((), data.dtype.np)))
    return bind.reshape(some, shape=(num_segments, *(1,) * (data.ndim - ids.ndim)))


def _operands(data: Any, segment_ids: Any, num_segments: Any) -> tuple[Tensor, Tensor, Dim]:
    count = size_argument(num_segments, "num_segments", of_any_dtype=True)
    return convert_to_tensor(data), convert_to_tensor(segment_ids), count


@export("math.unsorted_segment_mean")
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The mean of the slices of ``data`` that have the same id; zero where there are none.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_mean([1., 2., 3.], [0, 1, 0], 2).numpy()
    array([2., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_mean
    """
    x, ids, count = _operands(data, segment_ids, num_segments)
    return bind.divide(bind.unsorted_segment_sum(x, ids, num_segments=count), _counts(x, ids, count))


@export("math.unsorted_segment_sqrt_n")
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The sum of the slices with the same id divided by the square root of their number.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_sqrt_n([1., 2., 3., 4.], [0, 0, 0, 0], 1).numpy()
    array([5.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_sqrt_n
    """
    x, ids, count = _operands(data, segment_ids, num_segments)
    return bind.divide(bind.unsorted_segment_sum(x, ids, num_segments=count), bind.sqrt(_counts(x, ids, count)))


def _sorted(data: Any, segment_ids: Any, op: str) -> tuple[Tensor, Tensor, Dim]:
    """The operands of a sorted reduction, checked; the last id tells the number of segments."""
    x, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    if not isinstance(ids, EagerTensor):
        return x, *_sorted_when_run(ids)
    array = ids.eager_array()
    if array.ndim != 1 or len(array) != x.shape[0]:
        raise Refused("segment_ids should be the same size as dimension 0 of input.").told_by(op)
    if (np.diff(array) < 0).any():
        raise Refused("segment ids are not increasing").told_by(op)
    if len(array) and array[0] < 0:
        seen = f"Segment id {array[0]} out of range [0, {array[-1] + 1})"
        message = f"{seen}, possibly because 'segment_ids' input is not sorted."
        raise Refused(message).told_by(op)
    return x, ids, int(array[-1]) + 1 if len(array) else 0


def _sorted_when_run(ids: Tensor) -> tuple[Tensor, Dim]:
    """Ids that the program computes, checked when it runs, and the number of segments."""
    ascending = bind.greater_equal(ids[1:], ids[:-1])
    places = bind.greater_equal(ids, number(0, ids))
    sorted_ = bind.logical_and(*(bind.reduce_all(x, axis=(0,), keepdims=False) for x in (ascending, places)))
    checked = bind.initialized(ids, sorted_, message="segment ids must be >= 0 and are not increasing otherwise")
    last = bind.concat(number([-1], ids), checked, axis=0)
    (count,) = static_dims(bind.add(bind.reduce_max(last, axis=(0,), keepdims=False), number(1, ids)), "segment_ids")
    return checked, count


def _zero_where_empty(found: Tensor, ids: Tensor, count: Dim) -> Tensor:
    ones = bind.broadcast_to(EagerTensor(np.array(1, np.int32)), shape=ids._type.shape)
    rows = bind.unsorted_segment_sum(ones, ids, num_segments=count)
    some = bind.greater(rows, EagerTensor(np.array(0, np.int32)))
    lifted = bind.reshape(some, shape=(count, *(1,) * (found.ndim - 1)))
    return bind.select(lifted, found, EagerTensor(np.zeros((), found.dtype.np)))


@export("math.segment_sum")
def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The sum of the rows of ``data`` that have the same id; the ids ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_sum([1, 2, 3], [0, 0, 1]).numpy()
    array([3, 3], dtype=int32)

    Raises:
      InvalidArgumentError: for ids that don't ascend.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_sum
    """
    x, ids, count = _sorted(data, segment_ids, "SegmentSum")
    return bind.unsorted_segment_sum(x, ids, num_segments=count)


@export("math.segment_prod")
def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The product of the rows of ``data`` that have the same id; the ids ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_prod([1, 2, 3], [0, 0, 1]).numpy()
    array([2, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_prod
    """
    x, ids, count = _sorted(data, segment_ids, "SegmentProd")
    return bind.unsorted_segment_prod(x, ids, num_segments=count)


@export("math.segment_max")
def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The largest of the rows of ``data`` that have the same id, zero where there are none; the ids ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_max([1, 2, 3], [0, 0, 2]).numpy()
    array([2, 0, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_max
    """
    x, ids, count = _sorted(data, segment_ids, "SegmentMax")
    return _zero_where_empty(bind.unsorted_segment_max(x, ids, num_segments=count), ids, count)


@export("math.segment_min")
def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The smallest of the rows of ``data`` that have the same id, zero where there are none; the ids ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_min([1, 2, 3], [0, 0, 2]).numpy()
    array([1, 0, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_min
    """
    x, ids, count = _sorted(data, segment_ids, "SegmentMin")
    return _zero_where_empty(bind.unsorted_segment_min(x, ids, num_segments=count), ids, count)


@export("math.segment_mean")
def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The mean of the rows of ``data`` that have the same id, zero where there are none; the ids ascend.

    >>> import tvtf as tf
    >>> tf.math.segment_mean([1., 2., 3.], [0, 0, 1]).numpy()
    array([1.5, 3. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/segment_mean
    """
    x, ids, count = _sorted(data, segment_ids, "SegmentMean")
    return unsorted_segment_mean(x, ids, count)


@export("math.bincount")
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = int32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Tensor:
    """How often each number occurs (or the sum of its weights), in the whole tensor or in each row.

    Args:
      arr: tensor of integers, not negative.
      weights: tensor of the same shape.
      minlength: at least so many counts.
      maxlength: at most so many: larger numbers are left out.
      dtype: of the counts, where there are no weights.
      axis: None or 0 for the whole tensor, -1 for each row of a matrix.
      binary_output: 1 for whatever occurs.

    >>> import tvtf as tf
    >>> tf.math.bincount([1, 1, 3]).numpy()
    array([0, 2, 0, 1], dtype=int32)

    Raises:
      InvalidArgumentError: for a negative number.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/bincount
    """
    numbers = convert_to_tensor(arr)
    length = _bins(numbers, minlength, maxlength)
    if axis == -1 and numbers.ndim == 2:
        return _rowwise(numbers, weights, length, as_dtype(dtype), binary_output)
    kept = flattened(numbers)
    return _counted(kept, weights, length, as_dtype(dtype), binary_output)


def _bins(numbers: Tensor, minlength: Any, maxlength: Any) -> Dim:
    low, high = (None if v is None else static_int(v, "length") for v in (minlength, maxlength))
    if low is not None and low == high:
        return low
    if not isinstance(numbers, EagerTensor):
        return _computed_bins(numbers, low, high)
    array = numbers.eager_array()
    if array.size and array.min() < 0:
        raise Refused("Input arr must be non-negative!").told_by("DenseBincount")
    found = max(int(array.max()) + 1 if array.size else 0, low or 0)
    return found if high is None else min(found, high)


def _computed_bins(numbers: Tensor, low: int | None, high: int | None) -> Dim:
    """One more than the largest number that the program computes, within the bounds; a negative number is refused."""
    flat = bind.concat(number([-1], numbers), flattened(numbers), axis=0)
    found = bind.add(bind.reduce_max(flat, axis=(0,), keepdims=False), number(1, numbers))
    least = bind.reduce_min(bind.maximum(flattened(numbers), number(-1, numbers)), axis=(0,), keepdims=False)
    found = bind.initialized(
        found, bind.greater_equal(least, number(0, least)), message="Input arr must be non-negative!"
    )
    if low is not None:
        found = bind.maximum(found, number(low, found))
    if high is not None:
        found = bind.minimum(found, number(high, found))
    return static_dims(found, "bincount")[0]


def _counted(numbers: Tensor, weights: Any, length: Dim, dtype: Any, binary: bool) -> Tensor:
    """Counts of a vector; numbers past the last bin are left out as negative ids are."""
    bound = bind.cast(scalar_of(length), dtype=numbers.dtype)
    ids = bind.select(bind.less(numbers, bound), numbers, EagerTensor(np.array(-1, numbers.dtype.np)))
    if weights is None or binary:
        terms = bind.broadcast_to(EagerTensor(np.ones((), dtype.np)), shape=numbers._type.shape)
    else:
        terms = bind.reshape(convert_to_tensor(weights), shape=numbers._type.shape)
    total = bind.unsorted_segment_sum(terms, ids, num_segments=length)
    return bind.minimum(total, EagerTensor(np.ones((), dtype.np))) if binary else total


def _rowwise(numbers: Tensor, weights: Any, length: Dim, dtype: Any, binary: bool) -> Tensor:
    rows = bind.split(numbers, sizes=(1,) * numbers.shape[0], axis=0)
    shares = (
        [None] * len(rows)
        if weights is None
        else bind.split(convert_to_tensor(weights), sizes=(1,) * len(rows), axis=0)
    )
    flat = (flattened(row) for row in rows)
    return bind.stack(*(_counted(r, w, length, dtype, binary) for r, w in zip(flat, shares)), axis=0)
