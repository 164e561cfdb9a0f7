"""Counts of values: confusion_matrix, histograms, zero_fraction; and is_non_decreasing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, float32, float64, int32, int64
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.concat_split import stack
from tvtf.ops.indexing import in_range
from tvtf.ops.operands import attributes, one_of, operand, operands, scalar_int
from tvtf.ops.rules import bind, number, ones_like, size_argument
from tvtf.ops.scatter import scatter_nd
from tvtf.ops.value_checks import required


@export("math.confusion_matrix")
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    weights: Any = None,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Returns how often each label (row) was predicted as each class (column).

    Args:
      labels: numeric tensor of shape (n,); a last axis of size one too many is dropped, as of ``predictions``.
      predictions: numeric tensor of shape (n,).
      num_classes: how many classes there are; default: one more than the largest value, which must be eager.
      weights: numeric tensor of shape (n,) of what each prediction counts.
      dtype: of the result.

    Returns:
      A tensor of shape (num_classes, num_classes).

    Raises:
      InvalidArgumentError: a value is negative, or not below ``num_classes``.
      TypeError: while tracing, ``num_classes`` is missing.

    >>> import tvtf as tf
    >>> tf.math.confusion_matrix([1, 0, 1], [1, 1, 1]).numpy()
    array([[0, 1],
           [0, 2]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/confusion_matrix
    """
    rows, columns = _same_rank(convert_to_tensor(labels), convert_to_tensor(predictions))
    rows, columns = _classes(rows, "labels"), _classes(columns, "predictions")
    size = _class_count(rows, columns) if num_classes is None else size_argument(num_classes, "num_classes")
    rows = _checked(rows, lambda x: x < size, lambda x: in_range(x, size), "`labels` out of bound")
    columns = _checked(columns, lambda x: x < size, lambda x: in_range(x, size), "`predictions` out of bound")
    counts = cast(ones_like(columns) if weights is None else convert_to_tensor(weights), as_dtype(dtype))
    return scatter_nd(stack([rows, columns], axis=1), counts, [size, size])


def _same_rank(labels: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Removes the last axis of labels or predictions if it has size 1 and the other tensor has one axis less.

    Returns labels and predictions.
    """
    rank_difference = predictions.ndim - labels.ndim
    if rank_difference == 1 and predictions.shape[-1] == 1:
        predictions = bind.reshape(predictions, shape=predictions._type.shape[:-1])
    if rank_difference == -1 and labels.shape[-1] == 1:
        labels = bind.reshape(labels, shape=labels._type.shape[:-1])
    return labels, predictions


def _classes(x: Tensor, what: str) -> Tensor:
    """Converts class numbers to int64 and checks that none is negative."""
    x = cast(x, int64)
    message = f"`{what}` contains negative values"
    return _checked(x, lambda array: array >= 0, lambda x: bind.greater_equal(x, number(0, x)), message)


def _checked(x: Tensor, holds: Any, holds_at_run_time: Any, message: str) -> Tensor:
    """Checks the values of ``x``, and returns ``x``. A failure raises an error with ``message``.

    ``holds`` tests known values, an array. ``holds_at_run_time`` tests values that the program computes, a tensor.
    """

    def check(array: np.ndarray) -> None:
        if not np.all(holds(array)):
            raise InvalidArgumentError(None, None, f"{message}: {array}")

    return required(x, check, holds_at_run_time, message)


def _class_count(rows: Tensor, columns: Tensor) -> Dim:
    """Returns one more than the largest class number among labels and predictions."""
    maxima = [bind.reduce_max(x, axis=tuple(range(x.ndim)), keepdims=False) for x in (rows, columns)]
    # The maximum of no elements is the lowest number.
    last_class = bind.maximum(bind.maximum(*maxima), number(-1, rows))
    return size_argument(bind.add(last_class, number(1, rows)), "num_classes")


@export("histogram_fixed_width_bins")
def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Returns for each value the index of its interval, of ``nbins`` of equal width; outside, it is the nearest one's.

    Args:
      values: numeric tensor of any shape.
      value_range: two numbers, the lower and the upper limit.
      nbins: how many intervals.
      dtype: accepted as in TensorFlow; the result is int32.

    Returns:
      An int32 tensor of the shape of ``values``.

    >>> import tvtf as tf
    >>> tf.histogram_fixed_width_bins([-1., 0., 1.5, 2., 5., 15.], [0., 5.], nbins=5).numpy()
    array([0, 0, 1, 2, 4, 4], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/histogram_fixed_width_bins
    """
    x = convert_to_tensor(values)
    limits = convert_to_tensor(value_range)
    count = scalar_int(nbins, "nbins")
    if count <= 0:
        raise InvalidArgumentError(None, None, f"nbins {count} must > 0")
    if x.dtype.is_integer:
        x, limits = cast(x, float64), cast(limits, float64)
    fraction = bind.divide(bind.subtract(x, limits[0]), bind.subtract(limits[1], limits[0]))
    bins = bind.floor(bind.multiply(number(count, fraction), fraction))
    return cast(bind.minimum(bind.maximum(bins, number(0, bins)), number(count - 1, bins)), int32)


@export("histogram_fixed_width")
@attributes(dtype=one_of(int32, int64))
def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Counts the values in each of ``nbins`` intervals of equal width; see `tf.histogram_fixed_width_bins`.

    >>> import tvtf as tf
    >>> tf.histogram_fixed_width([-1., 0., 1.5, 2., 5., 15.], [0., 5.], nbins=5).numpy()
    array([2, 1, 1, 0, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/histogram_fixed_width
    """
    x, _ = operands(values, value_range)
    limits = _checked_limits(operand(value_range, x.dtype, 1))
    bins = _flat(histogram_fixed_width_bins(x, limits, nbins))
    count_dtype: DType = as_dtype(dtype)
    ones = cast(ones_like(bins), count_dtype)
    return bind.unsorted_segment_sum(ones, bins, num_segments=scalar_int(nbins, "nbins"))


def _checked_limits(limits: Tensor) -> Tensor:
    if limits._dims != (2,):
        raise ArgumentError("value_range should be a vector of 2 elements.")
    return required(limits, _check_order, lambda x: bind.less(x[0], x[1]), _RANGE)


_RANGE = "value_range should satisfy value_range[0] < value_range[1]"


def _check_order(limits: np.ndarray) -> None:
    if not limits[0] < limits[1]:
        raise ArgumentValueError(f"{_RANGE}, but got '{limits.tolist()}'")


def _flat(x: Tensor) -> Tensor:
    return bind.reshape(x, shape=(size_of(x._type.shape),))


@export("math.zero_fraction", "nn.zero_fraction")
def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """Returns the fraction of elements that are zero, a float32 scalar; NaN for an empty tensor.

    >>> import tvtf as tf
    >>> tf.math.zero_fraction([0, 1, 0, 3]).numpy()
    np.float32(0.5)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/zero_fraction
    """
    x = convert_to_tensor(value)
    zeros = cast(bind.equal(x, number(0, x)), float32)
    return bind.reduce_mean(zeros, axis=tuple(range(x.ndim)), keepdims=False)


def _neighbours(x: Any) -> tuple[Any, Any]:
    """Returns all elements but the first, and all but the last, in row-major order."""
    flat: Any = _flat(convert_to_tensor(x))
    return flat[1:], flat[:-1]


def _all(x: Tensor) -> Tensor:
    return bind.reduce_all(x, axis=(0,), keepdims=False)


@export("math.is_non_decreasing")
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Returns whether no element is less than the one before it, in row-major order.

    >>> import tvtf as tf
    >>> tf.math.is_non_decreasing([1., 1., 2.]).numpy()
    np.True_

    Source: https://www.tensorflow.org/api_docs/python/tf/math/is_non_decreasing
    """
    return _all(bind.greater_equal(*_neighbours(x)))


@export("math.is_strictly_increasing")
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Returns whether each element is greater than the one before it, in row-major order.

    >>> import tvtf as tf
    >>> tf.math.is_strictly_increasing([1., 1., 2.]).numpy()
    np.False_

    Source: https://www.tensorflow.org/api_docs/python/tf/math/is_strictly_increasing
    """
    return _all(bind.greater(*_neighbours(x)))
