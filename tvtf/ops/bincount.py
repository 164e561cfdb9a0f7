"""``tf.math.bincount``: counts of numbers, in the whole tensor or row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, agree_shape, brackets, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, float32, float64, int32, int64
from tvtf.ops.cast import cast_tensor
from tvtf.ops.concat_split import flattened
from tvtf.ops.dims import scalar_of
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind, number, require_dtype, static_dims, static_int


@export("math.bincount")
@attributes(binary_output=bool)
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
    """Counts how often each number occurs, or sums its weights, in the whole tensor or in each row.

    Args:
      arr: tensor, ragged tensor or SparseTensor of integers, not negative; others are cast to int32.
      weights: of the same kind and shape.
      minlength: the minimum number of counts.
      maxlength: the maximum number of counts: larger numbers are left out.
      dtype: of the counts, where there are no weights.
      axis: None or 0 for the whole tensor, -1 for each row of a matrix.
      binary_output: 1 for whatever occurs.

    >>> import tvtf as tf
    >>> tf.math.bincount([1, 1, 3]).numpy()
    array([0, 2, 0, 1], dtype=int32)

    Raises:
      InvalidArgumentError: a number is negative.
      ValueError: ``axis`` is not None, 0 or -1, or weights are passed together with ``binary_output``.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/bincount
    """
    numbers = convert_to_tensor(arr)
    options = {"minlength": minlength, "maxlength": maxlength, "dtype": dtype, "binary_output": binary_output}
    if axis == -1 and numbers.ndim > 2:
        raise ArgumentError(f"Shape must be at most rank 2 but is rank {numbers.ndim}").for_op("DenseBincount")
    terms = None if weights is None else convert_to_tensor(weights)
    if axis != -1 or numbers.ndim < 2:
        terms = terms if terms is None or axis == -1 else flattened(terms)
        flat = flattened(numbers)
        return counts(flat, _weights_of(numbers if axis == -1 else flat, terms), None, None, axis, **options)
    row_count, width = numbers._type.shape
    row_numbers = bind.reshape(bind.range(size=row_count, start=0, delta=1, dtype=int64), shape=(row_count, 1))
    rows = flattened(bind.broadcast_to(row_numbers, shape=(row_count, width)))
    return counts(flattened(numbers), _weights_of(numbers, terms), rows, row_count, axis, **options)


def _weights_of(numbers: Tensor, weights: Tensor | None) -> Tensor | None:
    """Returns the weights as a vector, after checking that there is one for each number.

    Empty weights count each number once, in the weights' dtype.
    """
    if weights is None:
        return None
    if weights.shape.num_elements() == 0:
        count = size_of(numbers._type.shape)
        return bind.broadcast_to(number(1, weights), shape=(count,))  # type: ignore[no-any-return]
    if not agree_shape(numbers._type.shape, weights._type.shape):
        raise ArgumentError(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights "
            f"equal to 1. Received {brackets(weights.shape)}"
        ).for_op("DenseBincount")
    return flattened(weights)


def counts(
    values: Tensor,
    weights: Tensor | None,
    rows: Tensor | None,
    row_count: Dim | None,
    axis: int | None,
    *,
    minlength: Any,
    maxlength: Any,
    dtype: Any,
    binary_output: bool,
) -> Tensor:
    """Counts how often each number occurs in a vector, or in each row of a matrix flattened to a vector.

    ``rows`` has each element's row, or is None for a vector; the other arguments are those of :func:`bincount`.
    """
    if weights is not None and binary_output:
        raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
    if axis not in (None, 0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
    numbers = values if values.dtype.is_integer else cast_tensor(values, int32)
    require_dtype(numbers._type, (int32, int64), "input")
    if weights is None:
        weights = bind.broadcast_to(EagerTensor(np.ones((), as_dtype(dtype).np)), shape=numbers._type.shape)
    require_dtype(weights._type, (int32, int64, float32, float64), "weights")
    length = _bin_count(numbers, minlength, maxlength)
    total = bind.reshape(weights, shape=numbers._type.shape)
    if rows is None:
        ids = _ids_in_range(numbers, numbers, length)
        total = bind.unsorted_segment_sum(total, ids, num_segments=length)
    else:
        numbers64 = cast_tensor(numbers, int64)
        flat_bins = bind.add(bind.multiply(rows, cast_tensor(scalar_of(length), int64)), numbers64)
        ids = _ids_in_range(numbers64, flat_bins, length)
        total = bind.unsorted_segment_sum(total, ids, num_segments=row_count * length)
        total = bind.reshape(total, shape=(row_count, length))
    return bind.minimum(total, number(1, total)) if binary_output else total  # type: ignore[no-any-return]


def _ids_in_range(numbers: Tensor, ids: Tensor, length: Dim) -> Tensor:
    """Returns ``ids`` where the number has one of ``length`` bins, else -1, which segment sums skip."""
    bound = cast_tensor(scalar_of(length), numbers.dtype)
    return bind.select(bind.less(numbers, bound), ids, number(-1, ids))  # type: ignore[no-any-return]


def _bin_count(numbers: Tensor, minlength: Any, maxlength: Any) -> Dim:
    """Returns the number of bins of bincount: the largest number plus one, clamped to ``[minlength, maxlength]``.

    If a tensor is computed at run time, the number of bins is, too.
    """
    low = None if minlength is None else convert_to_tensor(minlength, numbers.dtype)
    high = None if maxlength is None else convert_to_tensor(maxlength, numbers.dtype)
    if not all(x is None or isinstance(x, EagerTensor) for x in (numbers, low, high)):
        return _computed_bin_count(numbers, low, high)
    array = numbers.eager_array()
    if array.size and array.min() < 0:
        raise ArgumentError("Input arr must be non-negative!").for_op("DenseBincount")
    bin_count = int(array.max()) + 1 if array.size else 0
    if low is not None:
        bin_count = max(bin_count, static_int(low, "minlength"))
    if high is not None:
        bin_count = min(bin_count, static_int(high, "maxlength"))
    return bin_count


def _computed_bin_count(numbers: Tensor, low: Tensor | None, high: Tensor | None) -> Dim:
    """Returns the number of bins of bincount, if the numbers or the bounds are computed at run time.

    It is a symbolic dim. The program checks that no number is negative.

    Args:
      numbers: the numbers to count.
      low, high: the least and the largest number of bins, or None.
    """
    # Without the -1, the maximum of no numbers would be the lowest of the dtype.
    extended = bind.concat(number([-1], numbers), flattened(numbers), axis=0)
    largest = bind.reduce_max(extended, axis=(0,), keepdims=False)
    bin_count = bind.add(largest, number(1, numbers))
    at_least_minus_one = bind.maximum(flattened(numbers), number(-1, numbers))
    smallest = bind.reduce_min(at_least_minus_one, axis=(0,), keepdims=False)
    all_valid = bind.greater_equal(smallest, number(0, smallest))
    bin_count = bind.initialized(bin_count, all_valid, message="Input arr must be non-negative!")
    if low is not None:
        bin_count = bind.maximum(bin_count, low)
    if high is not None:
        bin_count = bind.minimum(bin_count, high)
    if isinstance(low, EagerTensor) and isinstance(high, EagerTensor) and int(low) >= int(high):
        return int(high)  # known while tracing, though the numbers aren't
    return static_dims(bin_count, "bincount")[0]
