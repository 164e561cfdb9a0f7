"""NumPy's functions that create arrays from a shape, a range or a diagonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.arrays.convert import (
    array,
    dtype_of,
    float_dtype,
    numpy_like,
    range_as_list,
    requested_dtype,
    result_dtype,
    tf,
    to_common_dtype,
    to_tensor,
)
from tvtf.core.tensor import Tensor
from tvtf.ops.rules import is_computed


@numpy_like("zeros", "empty", shows="[2, 3]")
def zeros(shape: Any, dtype: Any = float) -> Tensor:
    return tf.zeros(range_as_list(shape), requested_dtype(dtype) or float_dtype())


@numpy_like("ones", shows="[2, 3]")
def ones(shape: Any, dtype: Any = float) -> Tensor:
    return tf.ones(range_as_list(shape), requested_dtype(dtype) or float_dtype())


@numpy_like("zeros_like", "empty_like", shows="[1, 2]")
def zeros_like(a: Any, dtype: Any = None) -> Tensor:
    return tf.zeros_like(a, dtype_of(a, dtype))


@numpy_like("ones_like", shows="[1, 2]")
def ones_like(a: Any, dtype: Any = None) -> Tensor:
    return tf.ones_like(a, dtype_of(a, dtype))


@numpy_like("full", shows="[2, 3], 7")
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    return tf.broadcast_to(to_tensor(fill_value, requested_dtype(dtype)), array(shape, "int32", ndmin=1))


@numpy_like("broadcast_to", shows="[1, 2], [3, 2]")
def broadcast_to(array: Any, shape: Any) -> Tensor:
    return full(shape, array)


@numpy_like("full_like", shows="[1, 2], 7")
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Tensor:
    """Returns a tensor of the shape and, by default, the dtype of ``a``, filled with ``fill_value``.

    Args:
      a: the tensor whose shape the result has.
      fill_value: the value of all elements.
      dtype: the dtype; None for that of ``a``.
      order, subok, shape: NumPy's arguments, which must have their defaults.
    """
    if order != "K":
        raise ValueError("Non-standard orders are not supported.")
    if not subok:
        raise ValueError("subok being False is not supported.")
    if shape:
        raise ValueError("Overriding the shape is not supported.")
    a = to_tensor(a)
    fill = to_tensor(fill_value, requested_dtype(dtype) or a.dtype)
    return tf.broadcast_to(fill, tf.shape(a))


@numpy_like("eye", shows="2, 3, 1")
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Tensor:  # noqa: N803
    rows, columns = int(N), int(M or N)
    if 0 in (rows, columns):
        return tf.zeros([rows, columns], requested_dtype(dtype) or tf.float32)
    on_diagonal = tf.equal(tf.range(columns) - tf.range(rows)[:, None], int(k))
    return tf.cast(on_diagonal, requested_dtype(dtype) or tf.float32)


@numpy_like("identity", shows="2")
def identity(n: int, dtype: Any = float) -> Tensor:
    return eye(n, n, dtype=dtype)


@numpy_like("arange", shows="1, 7, 2")
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Returns the numbers from ``start`` up to, but without, ``stop``."""
    if not step:
        raise ValueError("step must be non-zero.")
    given = (start, step) if stop is None else (start, step, stop)
    dtype = requested_dtype(dtype) or result_dtype(*given)
    first_number, end = (0, start) if stop is None else (start, stop)
    is_empty = (step > 0 and first_number > end) or (step < 0 and first_number < end)
    if is_empty:  # which tf.range rejects
        return array([], dtype)
    return tf.cast(tf.range(first_number, end, step), dtype)


def _endpoint_dtype(start: Any, stop: Any, dtype: Any) -> Any:
    """Returns the dtype in which numbers between two ends are computed.

    As in NumPy 2, it is the inexact dtype of the ends, whatever dtype is requested.
    """
    return result_dtype([start * 1.0, stop * 1.0]) if dtype else None


@numpy_like("linspace", shows="0., 1., 5")
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = float,
    axis: int = 0,
) -> Any:
    """Returns ``num`` evenly spaced numbers from ``start`` to ``stop``; with ``retstep`` also their distance."""
    dtype = _endpoint_dtype(start, stop, dtype)
    start = to_tensor(start, dtype)
    stop = to_tensor(stop, dtype)
    if num < 0:
        raise ValueError(f"Argument `num` (number of samples) must be a non-negative integer. Received: num={num}")
    interval_count = num - 1 if endpoint else num
    spacing = (stop - start) / interval_count if interval_count > 0 else tf.constant(np.nan)
    last_sample = stop
    if not endpoint and num >= 2:  # `tf.linspace` always includes its end.
        last_sample = tf.cast(stop, spacing.dtype) - spacing
    samples = tf.linspace(tf.cast(start, last_sample.dtype), last_sample, num, axis=axis)
    if dtype:
        samples = tf.cast(samples, dtype)
    return (samples, spacing) if retstep else samples


@numpy_like("logspace", shows="0., 1., 5")
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None, axis: int = 0
) -> Tensor:
    dtype = _endpoint_dtype(start, stop, float)
    powers = linspace(start, stop, num, endpoint, dtype=dtype, axis=axis)
    return tf.cast(tf.cast(base, powers.dtype) ** powers, dtype)


@numpy_like("geomspace", shows="1., 8., 4")
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    """Returns numbers from ``start`` to ``stop`` with a constant ratio between neighbours.

    Args:
      start, stop: the first and the last number.
      num: how many numbers are returned.
      endpoint: whether ``stop`` is the last number; otherwise it would be the next one.
      dtype: the dtype of the result; None to infer it.
      axis: the axis of the result along which the numbers run.
    """
    final_dtype = tf.as_dtype(dtype) if dtype else result_dtype(start, stop, float(num), float_dtype())
    compute_dtype = tf.as_dtype(np.promote_types(final_dtype.as_numpy_dtype, np.float32))
    start = to_tensor(start, compute_dtype)
    stop = to_tensor(stop, compute_dtype)
    # 0 for a positive end, 1 for zero, 2 for a negative one.
    start_negativity = 1 - tf.sign(tf.math.real(start))
    stop_negativity = 1 - tf.sign(tf.math.real(stop))
    # -1 where both ends are negative, so that the logarithms are of positive numbers; 0 where one end is 0 and the other
    # negative, as TensorFlow's.
    sign = 1 - tf.cast(start_negativity * stop_negativity // 2, compute_dtype)
    log_of_ten = tf.cast(np.log(10), compute_dtype)
    start_exponent = tf.math.log(sign * start) / log_of_ten
    stop_exponent = tf.math.log(sign * stop) / log_of_ten
    samples = sign * logspace(start_exponent, stop_exponent, num, endpoint=endpoint)
    if axis != 0:
        samples = tf.experimental.numpy.moveaxis(samples, 0, axis)
    return tf.cast(samples, final_dtype)


@numpy_like("diag_indices", shows="3")
def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    for name, value in (("n", n), ("ndim", ndim)):
        if value < 0:
            raise ValueError(f"{name} argument to diag_indices must be nonnegative, got {value}")
    return (tf.range(n),) * ndim


@numpy_like("diag", shows="[1, 2], 1")
def diag(v: Any, k: int = 0) -> Tensor:
    v = to_tensor(v)
    v.shape.with_rank_at_most(2)
    if v.ndim == 1:
        return tf.linalg.diag(v, k=k)
    tf.debugging.Assert(v.ndim > 0, [v.ndim])
    return diagonal(v, k)


@numpy_like("diagflat", shows="[[1, 2], [3, 4]]")
def diagflat(v: Any, k: int = 0) -> Tensor:
    return diag(tf.reshape(to_tensor(v), [-1]), k)


@numpy_like("diagonal", shows="[[1, 2], [3, 4]], 1")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    a = tf.experimental.numpy.moveaxis(to_tensor(a), (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    if offset <= -rows or offset >= columns:
        return tf.zeros(tf.concat([tf.shape(a)[:-2], [0]], 0), a.dtype)
    return tf.linalg.diag_part(a, k=offset)


@numpy_like("tri", shows="3, 4, 1")
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:  # noqa: N803
    columns = N if M is None else M
    return tf.cast(tf.range(columns) - tf.range(N)[:, None] <= k, requested_dtype(dtype) or float_dtype())


def _make_triangle(name: str, is_lower: bool) -> Callable[..., Tensor]:
    """Creates ``tril`` (keeps the lower triangle) or ``triu`` (keeps the upper); ``name`` appears in error messages."""

    def triangle(m: Any, k: int = 0) -> Tensor:
        """Returns the matrices with zeros above, or below, the ``k``-th diagonal."""
        m = to_tensor(m)
        if m.ndim < 2:
            raise ValueError(f"Argument to {name} must have rank at least 2")
        rows, columns = m.shape[-2:].as_list()
        if rows is None or columns is None:
            raise ValueError("Currently, the last two dimensions of the input array need to be known.")
        zero = tf.zeros([], m.dtype)
        # `tri` has ones up to the k-th diagonal, and on it. Both `tril` and `triu` keep that diagonal.
        if is_lower:
            return tf.where(tri(rows, columns, k=k, dtype=bool), m, zero)
        is_below = tri(rows, columns, k=k - 1, dtype=bool)
        return tf.where(is_below, zero, m)

    return triangle


numpy_like("tril", shows="[[1, 2], [3, 4]]")(_make_triangle("tril", True))
numpy_like("triu", shows="[[1, 2], [3, 4]]")(_make_triangle("triu", False))


@numpy_like("vander", shows="[1, 2, 3], 3")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """Returns the Vandermonde matrix of a vector: row ``i`` has the powers of element ``i``.

    Args:
      x: the vector.
      N: the number of powers; None for the size of ``x``.
      increasing: whether the powers ascend.
    """
    x = to_tensor(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    size = x.shape[0] if N is None else N
    if not is_computed(size) and int(size) < 0:
        raise ValueError("N must be nonnegative")
    powers = tf.range(size) if increasing else tf.range(size - 1, -1, -1)
    return x[:, None] ** tf.cast(powers, x.dtype)


@numpy_like("meshgrid", shows="[1, 2], [3, 4, 5]")
def meshgrid(*xi: Any, **kwargs: Any) -> list[Tensor]:
    if kwargs.get("sparse", False):
        raise ValueError("Function `meshgrid` does not support returning sparse arrays yet. Received: sparse=True")
    if not kwargs.get("copy", True):
        raise ValueError("Function `meshgrid` only supports copy=True. Received: copy=False")
    return tf.meshgrid(*map(to_tensor, xi), indexing=kwargs.get("indexing", "xy"))


@numpy_like("ix_")
def ix_(*args: Any) -> list[Tensor]:
    """Returns the indices of a grid, one tensor per axis.

    >>> import tvtf as tf
    >>> [index.shape for index in tf.experimental.numpy.ix_([0, 1], [2, 3, 4])]
    [TensorShape([2, 1]), TensorShape([1, 3])]

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/ix_
    """
    return [_indices_of_axis(to_tensor(arg), i, len(args)) for i, arg in enumerate(args)]


def _indices_of_axis(a: Tensor, axis: int, rank: int) -> Tensor:
    """Reshapes the indices of one axis of a grid, as for ``np.ix_``, to broadcast with the indices of the other axes.

    A mask stands for the positions at which the mask is true.
    """
    if a.ndim != 1:
        raise ValueError(f"Arguments must be 1-d, got arg {axis} of rank {a.ndim}")
    if not (a.dtype.is_bool or a.dtype.is_integer):
        raise ValueError(f"Only integer and bool dtypes are supported, got {a.dtype}")
    indices = tf.where(a)[:, 0] if a.dtype.is_bool else a
    shape = [1] * rank
    shape[axis] = -1
    return tf.reshape(indices, shape)


@numpy_like("concatenate", shows="[[1, 2], [3.5]]")
def concatenate(arys: Any, axis: int = 0) -> Tensor:
    arys = list(arys) if isinstance(arys, (list, tuple)) else [arys]
    if not arys:
        raise ValueError(f"Need at least one array to concatenate. Received empty input: arys={arys}")
    return tf.concat(to_common_dtype(*arys), axis)
