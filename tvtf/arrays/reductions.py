"""NumPy's sums, means, extremes and cumulative sums, in NumPy's dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.arrays.convert import (
    float_dtype,
    int_dtype,
    is_inexact,
    numpy_like,
    requested_dtype,
    result_dtype,
    tf,
    to_inexact,
    to_tensor,
)
from tvtf.core.tensor import Tensor

Reduction = Callable[..., Tensor]
A_MATRIX = "[[1, 2], [3, 4]]"


def _widened_integers(x: Tensor) -> Tensor:
    """Casts bools and narrow integers to the width of Python's ``int``, as NumPy does before a sum.

    Otherwise sums of narrow integers would overflow early.
    """
    wide_int = int_dtype()
    if x.dtype.is_bool:
        return tf.cast(x, wide_int)
    is_narrow = x.dtype.is_integer and x.dtype.size < wide_int.size
    if not is_narrow:
        return x
    return tf.cast(x, f"u{wide_int.name}" if x.dtype.is_unsigned else wide_int)


def _make_sum(name: str, reduce: Reduction, of_bools: Reduction) -> Reduction:
    """Makes NumPy's ``sum`` or ``prod`` from TensorFlow's ``reduce``. Results of dtype bool come from ``of_bools``."""

    def total(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool | None = None) -> Tensor:
        """Applies the reduction after NumPy's conversion of the dtype: narrow integers are widened."""
        dtype = requested_dtype(dtype)
        a = to_tensor(a, dtype)
        if dtype is None:
            a = _widened_integers(a)
        reduction = of_bools if dtype is tf.bool else reduce
        return reduction(a, axis=axis, keepdims=bool(keepdims))

    return numpy_like(name, shows=A_MATRIX)(total)


def _make_extreme(name: str, short_name: str, reduce: Reduction, of_bools: Reduction) -> Reduction:
    """Creates NumPy's ``amax`` and ``max``, or ``amin`` and ``min``, from TensorFlow's ``reduce``.

    Tensors of dtype bool are reduced by ``of_bools``. Only the function ``name`` has NumPy's argument ``out``.
    """

    def extreme(a: Any, axis: Any = None, out: Any = None, keepdims: bool | None = None) -> Tensor:
        if out is not None:
            raise ValueError("Setting out is not supported.")
        a = to_tensor(a)
        reduction = of_bools if a.dtype.is_bool else reduce
        return reduction(a, axis=axis, keepdims=bool(keepdims))

    def extreme_without_out(a: Any, axis: Any = None, keepdims: bool | None = None) -> Tensor:
        return extreme(a, axis, keepdims=keepdims)

    numpy_like(short_name, shows=A_MATRIX)(extreme_without_out)
    return numpy_like(name, shows=A_MATRIX)(extreme)


def _make_logical(name: str, reduce: Reduction) -> None:
    """Makes ``all`` or ``any``."""

    def reduced(a: Any, axis: Any = None, keepdims: bool | None = None) -> Tensor:
        return reduce(to_tensor(a, tf.bool), axis=axis, keepdims=bool(keepdims))

    numpy_like(name, shows="[[True, False], [True, True]], 1")(reduced)


total = _make_sum("sum", tf.reduce_sum, tf.reduce_any)
product = _make_sum("prod", tf.reduce_prod, tf.reduce_all)
amax = _make_extreme("amax", "max", tf.reduce_max, tf.reduce_any)
amin = _make_extreme("amin", "min", tf.reduce_min, tf.reduce_all)
_make_logical("all", tf.reduce_all)
_make_logical("any", tf.reduce_any)


@numpy_like("mean", shows=A_MATRIX)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool | None = None) -> Tensor:
    if out is not None:
        raise ValueError("Setting out is not supported.")
    dtype = requested_dtype(dtype)
    return tf.reduce_mean(to_tensor(a, dtype) if dtype else to_inexact(a), axis=axis, keepdims=bool(keepdims))


@numpy_like("std", shows=A_MATRIX)
def std(a: Any, axis: Any = None, keepdims: bool | None = None) -> Tensor:
    return tf.math.reduce_std(to_inexact(a), axis=axis, keepdims=bool(keepdims))


@numpy_like("var", shows=A_MATRIX)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool | None = None
) -> Tensor:
    """Returns the variance along axes.

    Args:
      a: an array-like.
      axis: an int, a tuple of ints, or None for all axes.
      dtype: the dtype of the computation and the result; by default that of ``a``, or float for integers.
      out: must be None.
      ddof: "delta degrees of freedom": the divisor is the number of elements minus ``ddof``.
      keepdims: whether the axes are kept with size 1.
    """
    if out is not None:
        raise ValueError("Setting out is not supported.")
    x = to_tensor(a, result_dtype(a, dtype)) if dtype else to_inexact(a)
    variance = tf.math.reduce_variance(x, axis=axis, keepdims=bool(keepdims))
    if ddof:  # TensorFlow divides by the number of elements.
        count = tf.size(x) if axis is None else tf.reduce_prod(tf.gather(tf.shape(x), axis))
        divisor = count - ddof
        variance = variance * tf.cast(count, variance.dtype) / tf.cast(divisor, variance.dtype)
    return tf.cast(variance, requested_dtype(dtype)) if dtype else variance


@numpy_like("ptp", shows="[3, 1, 7]")
def ptp(a: Any, axis: Any = None, keepdims: bool | None = None) -> Tensor:
    return amax(a, axis, keepdims=keepdims) - amin(a, axis, keepdims=keepdims)


def _make_cumulative(name: str, accumulate: Reduction) -> None:
    """Creates NumPy's ``cumsum`` or ``cumprod``, which flatten the tensor unless an axis is passed."""

    def totals(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        a = to_tensor(a, requested_dtype(dtype))
        if dtype is None and a.dtype.is_integer:  # As in a sum, narrow integers would overflow early.
            a = tf.cast(a, np.promote_types(a.dtype.as_numpy_dtype, int))
        if axis is None:
            a, axis = tf.reshape(a, [-1]), 0
        return accumulate(a, axis)

    numpy_like(name, shows="[1, 2, 3]")(totals)


_make_cumulative("cumsum", tf.cumsum)
_make_cumulative("cumprod", tf.math.cumprod)


def _make_nan_reduction(name: str, reduce: Reduction, neutral_element: int) -> Reduction:
    """Creates NumPy's ``nansum`` or ``nanprod``: they replace NaN by the neutral element of ``reduce``, then reduce."""

    def reduced(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
        a = to_tensor(a)
        if is_inexact(a):  # only these dtypes have NaN
            a = tf.where(tf.math.is_nan(a), tf.constant(neutral_element, a.dtype), a)
        return reduce(a, axis, dtype, keepdims)

    return numpy_like(name, shows="[1., np.nan, 3.]")(reduced)


nansum = _make_nan_reduction("nansum", total, 0)
_make_nan_reduction("nanprod", product, 1)


@numpy_like("nanmean", shows="[1., np.nan, 3.]")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool | None = None) -> Tensor:
    a = to_tensor(a)
    if not is_inexact(a):
        return mean(a, axis, dtype, keepdims=keepdims)
    dtype = requested_dtype(dtype) or a.dtype
    return nansum(a, axis, dtype, keepdims) / total(~tf.math.is_nan(a), axis, dtype, keepdims)


@numpy_like("count_nonzero", shows="[0, 3, 4]")
def count_nonzero(a: Any, axis: Any = None) -> Tensor:
    return tf.math.count_nonzero(to_tensor(a), axis)


@numpy_like("average", shows="[1., 2., 3.], weights=[3., 1., 0.]")
def average(a: Any, axis: int | None = None, weights: Any = None, returned: bool = False) -> Any:
    """Returns the mean along an axis, weighted if there are ``weights``; with ``returned`` also their sum."""
    if axis is not None and not isinstance(axis, int):
        raise ValueError(f"Argument `axis` must be an integer. Received axis={axis} (of type {type(axis)})")
    a = to_tensor(a)
    if weights is None:
        if not is_inexact(a):
            a = tf.cast(a, result_dtype(a.dtype, float_dtype()))
        mean_value = tf.reduce_mean(a, axis=axis)
        count = tf.size(a) if axis is None else tf.shape(a)[axis]
        weight_sum = tf.cast(count, a.dtype)  # each weight is 1
    else:
        mean_value, weight_sum = _weighted_mean(a, axis, weights)
    if not returned:
        return mean_value
    return mean_value, tf.broadcast_to(weight_sum, tf.shape(mean_value))


def _weighted_mean(a: Tensor, axis: int | None, weights: Any) -> tuple[Tensor, Tensor]:
    """Computes the weighted mean along an axis (None: of all elements). Returns the mean and the sum of the weights.

    The weights have the shape of ``a``, or are a vector along ``axis``.
    """
    if is_inexact(a):
        dtype = result_dtype(a.dtype, weights)
    else:
        dtype = result_dtype(a.dtype, weights, float_dtype())
    a = to_tensor(a, dtype)
    weights = to_tensor(weights, dtype)
    if axis is not None and weights.ndim != a.ndim:  # a weight for each index along the axis
        tf.debugging.Assert(weights.ndim == 1, [weights.ndim])
        weight_sum = tf.reduce_sum(weights)
        weighted_sum = tf.tensordot(a, weights, [[axis], [0]])
    else:
        have_same_shape = tf.reduce_all(tf.equal(tf.shape(a), tf.shape(weights)))
        tf.debugging.Assert(have_same_shape, [tf.shape(a), tf.shape(weights)])
        weight_sum = tf.reduce_sum(weights, axis=axis)
        weighted_sum = tf.reduce_sum(a * weights, axis=axis)
    return weighted_sum / weight_sum, weight_sum
