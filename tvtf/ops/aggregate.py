"""Statistics composed of reductions: log-sum-exp, variance, norms, counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, FLOATING_AND_COMPLEX, as_dtype, int64
from tvtf.dtypes import bool as boolean
from tvtf.ops.math import abs as magnitude
from tvtf.ops.rules import bind, canonical_axes, reduced_shape, require_dtype


def _number(value: float, like: Tensor) -> Tensor:
    return EagerTensor(np.asarray(value, like.dtype.np))


def _require_floating(x: Tensor, op: str) -> None:
    try:
        require_dtype(x._type, FLOATING, "input_tensor")
    except ArgumentError as error:
        raise error.for_op(op) from None


@export("reduce_logsumexp", "math.reduce_logsumexp")
def reduce_logsumexp(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Computes ``log(sum(exp(x)))`` over axes, without overflow: the largest element is subtracted first.

    Args:
      input_tensor: floating tensor.
      axis: int or ints in [-rank, rank), or None for all.
      keepdims: keep reduced axes with size 1.

    >>> import tvtf as tf
    >>> tf.reduce_logsumexp([1000., 1000.]).numpy()
    np.float32(1000.6932)

    Raises:
      InvalidArgumentError: (TypeError while tracing) the dtype is not floating.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_logsumexp
    """
    x = convert_to_tensor(input_tensor)
    _require_floating(x, "IsFinite")  # the op of TensorFlow's composition that rejects integers
    axes = canonical_axes(axis, x.ndim)
    largest = bind.stop_gradient(bind.reduce_max(x, axis=axes, keepdims=True))
    # inf - inf would be NaN
    shift = bind.select(bind.is_finite(largest), largest, _number(0, x))
    total = bind.reduce_sum(bind.exp(bind.subtract(x, shift)), axis=axes, keepdims=True)
    result = bind.add(bind.log(total), shift)
    return result if keepdims else bind.reshape(result, shape=reduced_shape(x._type.shape, axes, False))


@export("math.reduce_variance")
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Computes the variance over axes: the mean squared distance from the mean. It is real for complex tensors.

    Args:
      input_tensor: floating or complex tensor.
      axis: int or ints in [-rank, rank), or None for all.
      keepdims: keep reduced axes with size 1.

    >>> import tvtf as tf
    >>> tf.math.reduce_variance([1., 2., 3.]).numpy()
    np.float32(0.6666667)

    Raises:
      TypeError: the tensor has integers.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_variance
    """
    x = convert_to_tensor(input_tensor)
    if not x.dtype.is_differentiable:
        raise TypeError(f"Input must be either real or complex. Received integer type {x.dtype!s}.")
    axes = canonical_axes(axis, x.ndim)
    distance = bind.subtract(x, bind.reduce_mean(x, axis=axes, keepdims=True))
    return bind.reduce_mean(_squared(distance), axis=axes, keepdims=bool(keepdims))


def _squared(x: Tensor) -> Tensor:
    """Returns the real tensor ``|x| ** 2``."""
    return bind.square(magnitude(x) if x.dtype.is_complex else x)


@export("math.reduce_std")
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Computes the standard deviation over axes: the square root of :func:`reduce_variance`.

    >>> import tvtf as tf
    >>> tf.math.reduce_std([1., 3.]).numpy()
    np.float32(1.0)

    Raises:
      TypeError: the tensor has integers.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_std
    """
    return bind.sqrt(reduce_variance(input_tensor, axis, keepdims))


@export("math.reduce_euclidean_norm")
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Computes ``sqrt(sum(x * conj(x)))`` over axes. Squares of integers wrap around, and the root is rounded down.

    >>> import tvtf as tf
    >>> tf.math.reduce_euclidean_norm([3., 4.]).numpy()
    np.float32(5.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_euclidean_norm
    """
    x = convert_to_tensor(input_tensor)
    return _root_of_squares(x, canonical_axes(axis, x.ndim), bool(keepdims))


def _root_of_squares(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Returns the root of summed squares in the dtype of ``x``. Squares of integers wrap around as in TensorFlow."""
    squares = bind.multiply(x, bind.conj(x) if x.dtype.is_complex else x)
    total = bind.reduce_sum(squares, axis=axes, keepdims=keepdims)
    if not x.dtype.is_integer:
        return bind.sqrt(total)  # type: ignore[no-any-return]
    return bind.cast(bind.sqrt(bind.cast(total, dtype=as_dtype("float64"))), dtype=x.dtype)  # type: ignore[no-any-return]


@export("math.count_nonzero")
def count_nonzero(
    input: Any, axis: Any = None, keepdims: bool | None = None, dtype: Any = int64, name: str | None = None
) -> Tensor:
    """Counts the elements that are not zero (not empty, for strings), over axes.

    >>> import tvtf as tf
    >>> tf.math.count_nonzero([[1, 0], [2, 3]], axis=1).numpy()
    array([1, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/count_nonzero
    """
    x = convert_to_tensor(input)
    zero = np.array(b"", object) if x.dtype.name == "string" else np.zeros((), x.dtype.np)
    is_nonzero = x if x.dtype is boolean else bind.not_equal(x, EagerTensor(zero))
    axes = canonical_axes(axis, x.ndim)
    total = bind.reduce_sum(bind.cast(is_nonzero, dtype=int64), axis=axes, keepdims=bool(keepdims))
    return bind.cast(total, dtype=as_dtype(dtype))


@export("norm", "linalg.norm")
def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """Returns the norm of vectors (``axis`` an int, or None for all elements as one) or matrices (``axis`` two ints).

    Args:
      tensor: floating or complex tensor.
      ord: "euclidean", 1, 2, inf or a positive number for vectors; "euclidean", "fro", 1, 2 or inf for matrices.
      axis: int, two ints or None.
      keepdims: keep reduced axes with size 1.

    >>> import tvtf as tf
    >>> tf.norm([3., 4.]).numpy()
    np.float32(5.0)

    Raises:
      ValueError: ``ord`` is not a norm, or ``axis`` has more than two axes.

    Source: https://www.tensorflow.org/api_docs/python/tf/norm
    """
    x = convert_to_tensor(tensor)
    is_matrix = isinstance(axis, (list, tuple))
    if is_matrix and len(axis) != 2:
        raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
    if is_matrix:
        return _matrix_norm(x, ord, canonical_axes(axis, x.ndim), tuple(each % x.ndim for each in axis), bool(keepdims))
    if not (ord in ("euclidean", np.inf) or (isinstance(ord, (int, float)) and ord > 0)):
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
    return _vector_norm(x, ord, canonical_axes(axis, x.ndim), bool(keepdims))


def _vector_norm(x: Tensor, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Computes the vector norm ``sum(|x| ** ord) ** (1 / ord)`` over ``axes``.

    The orders 1, 2 and infinity have cheaper formulas.
    """
    if ord in ("euclidean", "fro", 2):
        require_dtype(x._type, FLOATING_AND_COMPLEX)
        return _root_of_squares(x, axes, keepdims)
    magnitudes = magnitude(x)
    if ord == 1:
        return bind.reduce_sum(magnitudes, axis=axes, keepdims=keepdims)
    if ord == np.inf:
        return bind.reduce_max(magnitudes, axis=axes, keepdims=keepdims)
    powers = bind.pow(magnitudes, _number(ord, magnitudes))
    total = bind.reduce_sum(powers, axis=axes, keepdims=keepdims)
    return bind.pow(total, _number(1 / ord, magnitudes))


def _spectral_norm(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Returns the largest singular value of each matrix in two axes."""
    order = (*(i for i in range(x.ndim) if i not in axes), *axes)
    values = bind.singular_values(bind.transpose(x, perm=order))
    largest = bind.reduce_max(values, axis=(values.ndim - 1,), keepdims=False)
    return bind.reshape(largest, shape=reduced_shape(x._type.shape, axes, keepdims))


def _matrix_norm(x: Tensor, ord: Any, axes: tuple[int, ...], ordered_axes: tuple[int, int], keepdims: bool) -> Tensor:
    """Computes the norm of the matrices that lie in two axes of ``x``.

    Args:
      x: floating or complex tensor.
      ord: "euclidean", "fro", 1, 2 or infinity.
      axes: the sorted pair of axes.
      ordered_axes: the row axis and the column axis, which the norms 1 and infinity distinguish.
      keepdims: whether both axes are kept with size 1.
    """
    if ord in ("euclidean", "fro"):
        return _vector_norm(x, "euclidean", axes, keepdims)
    if ord == 2:
        return _spectral_norm(x, axes, keepdims)
    if ord not in (1, np.inf):
        raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}")
    row_axis, column_axis = ordered_axes
    # The largest sum of a column for 1, of a row for infinity.
    summed_axis, other_axis = (row_axis, column_axis) if ord == 1 else (column_axis, row_axis)
    sums = bind.reduce_sum(magnitude(x), axis=(summed_axis,), keepdims=True)
    largest = bind.reduce_max(sums, axis=(other_axis,), keepdims=True)
    if keepdims:
        return largest
    return bind.reshape(largest, shape=reduced_shape(x._type.shape, axes, False))
