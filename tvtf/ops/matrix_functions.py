"""Functions of matrices: exponential, logarithm, square root; pseudoinverse, rank, least squares."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.primitive import export, table
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, int32
from tvtf.ops.lapack import (
    COMPLEX_MATRICES,
    adjoint,
    as_dtype_of,
    block,
    diagonal_matrix,
    each,
    lapack_primitive,
    product,
    require_matrices,
    require_square,
    samples_of,
    scaled_columns,
    square_type,
)
from tvtf.ops.rules import bind, number, zeros_like
from tvtf.ops.solve import cholesky_solve


def _through_block(name: str) -> Callable[..., Tensor]:
    """Returns the vjp of an analytic matrix function: its derivative is a block of its value at ``[[x, dx], [0, x]]``.

    Source: https://epubs.siam.org/doi/book/10.1137/1.9780898717778, 3.2
    """

    def vjp(ct: Tensor, y: Tensor, x: Tensor) -> Tensor:
        size = x._type.shape[-1]
        value = getattr(bind, name)(block(adjoint(x), ct, zeros_like(x), adjoint(x)))
        return value[..., :size, size:]  # type: ignore[index]

    return vjp


def _real_part(x: np.ndarray) -> np.ndarray:
    """Returns the real part, or NaN if the imaginary part is more than rounding.

    SciPy before 1.16 returns complex square roots of most real matrices.
    """
    if not np.iscomplexobj(x) or np.abs(x.imag).max() <= 1e4 * np.finfo(x.dtype).eps * np.abs(x.real).max():
        return x.real
    return np.full_like(x.real, np.nan)


def _by_scipy(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a kernel that applies a function of scipy.linalg to each matrix.

    A complex result of a real one is NaN.
    """

    def of_one(x: np.ndarray) -> np.ndarray:
        import scipy.linalg

        if not np.isfinite(x).all():  # SciPy raises for such a matrix, TensorFlow does not
            return np.full_like(x, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # logm warns in single precision
            result = np.asarray(getattr(scipy.linalg, name)(x))
        return result.astype(x.dtype) if np.iscomplexobj(x) else _real_part(result).astype(x.dtype)

    return lambda x: x.copy() if 0 in x.shape else each(of_one, x)


@lapack_primitive(
    type=square_type,
    numpy=_by_scipy("expm"),
    vjp=_through_block("matrix_exponential"),
    samples=lambda: samples_of((2, 2), (2, 3, 3), (0, 2, 2)),
    public=("linalg.expm",),
)
def matrix_exponential(input: Any, name: str | None = None) -> Any:
    """Returns the exponential of each matrix.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., n, n).

    Returns:
      A tensor of the same shape and dtype.

    Raises:
      InvalidArgumentError: a matrix is not square.

    >>> import tvtf as tf
    >>> tf.linalg.expm([[0., 1.], [0., 0.]]).numpy()
    array([[1., 1.],
           [0., 1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/expm
    """
    return (convert_to_tensor(input),), {}


def _complex_square(x: TensorType) -> TensorType:
    require_matrices(x, domain=COMPLEX_MATRICES)
    require_square(x)
    return x


@lapack_primitive(
    type=_complex_square,
    numpy=_by_scipy("logm"),
    vjp=_through_block("matrix_logarithm"),
    samples=lambda: samples_of((2, 2), (2, 3, 3))[1::2],
    public=("linalg.logm",),
)
def matrix_logarithm(input: Any, name: str | None = None) -> Any:
    """Returns the principal logarithm of each matrix.

    Args:
      input: complex64 or complex128 tensor of shape (..., n, n).

    Returns:
      A tensor of the same shape and dtype.

    Raises:
      InvalidArgumentError: a matrix is not square, or not complex.

    >>> import tvtf as tf
    >>> tf.linalg.logm(tf.constant([[1., 0.], [0., 1.]], tf.complex64)).numpy()
    array([[0.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/logm
    """
    return (convert_to_tensor(input),), {}


@lapack_primitive(
    type=square_type,
    numpy=_by_scipy("sqrtm"),
    vjp=_through_block("matrix_square_root"),
    samples=lambda: samples_of((2, 2), (2, 3, 3), (0, 2, 2)),
    public=("linalg.sqrtm", "matrix_square_root"),
)
def matrix_square_root(input: Any, name: str | None = None) -> Any:
    """Returns the principal square root of each matrix: its product with itself is the matrix.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., n, n).

    Returns:
      A tensor of the same shape and dtype; NaN where a real matrix has no real root.

    Raises:
      InvalidArgumentError: a matrix is not square.

    >>> import tvtf as tf
    >>> tf.linalg.sqrtm([[4., 0.], [0., 9.]]).numpy()
    array([[2., 0.],
           [0., 3.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/sqrtm
    """
    return (convert_to_tensor(input),), {}


# -- by singular values


def _floating_matrix(a: Any) -> Tensor:
    x = convert_to_tensor(a)
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {x.dtype.name}).")
    if x.ndim < 2:
        raise ValueError(f"Input `a` must have at least 2 dimensions (saw: {x.ndim}).")
    return x


def _largest(x: Tensor) -> Tensor:
    return bind.reduce_max(x, axis=(x.ndim - 1,), keepdims=True)


def _threshold(s: Tensor, x: Tensor, factor: float, bound: Any) -> Tensor:
    """Returns for each matrix the bound up to which singular values count as zero.

    It is ``bound``, or else ``factor`` times epsilon times the largest dim and singular value.
    """
    if bound is not None:
        return convert_to_tensor(bound, s.dtype)
    rows, columns = x._type.shape[-2:]
    return bind.multiply(_largest(s), number(factor * max(rows, columns) * np.finfo(s.dtype.np).eps, s))  # type: ignore[type-var, operator]


@export("linalg.pinv")
def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Returns the Moore-Penrose pseudoinverse of each matrix, shape (..., m, n) to (..., n, m).

    Args:
      a: float32, float64, complex64 or complex128 tensor.
      rcond: singular values up to that share of the largest are taken as zero; ten times max(m, n) times the dtype's epsilon
        where not given.

    >>> import tvtf as tf
    >>> tf.linalg.pinv([[2., 0.], [0., 0.]]).numpy()
    array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/pinv
    """
    x = _floating_matrix(a)
    s, u, v = bind.svd_factors(x, full_matrices=False)
    if rcond is None:
        cutoff = _threshold(s, x, 10.0, None)
    else:
        share = convert_to_tensor(rcond, s.dtype)
        cutoff = bind.multiply(_largest(s), share[..., None] if share.ndim else share)  # type: ignore[index]
    infinite = number(np.inf, s)
    divisors = bind.select(bind.greater(s, cutoff), s, bind.broadcast_to(infinite, shape=s._type.shape))
    inverse = as_dtype_of(bind.divide(number(1, s), divisors), u)
    return product(scaled_columns(v, inverse), adjoint(u))


@export("linalg.matrix_rank")
def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Returns how many singular values of each matrix exceed ``tol``, an int32 tensor of shape (...).

    Args:
      a: float32, float64, complex64 or complex128 tensor of shape (..., m, n).
      tol: max(m, n) times the dtype's epsilon times the largest singular value where not given.

    >>> import tvtf as tf
    >>> tf.linalg.matrix_rank([[1., 2.], [2., 4.]]).numpy()
    np.int32(1)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/matrix_rank
    """
    x = _floating_matrix(convert_to_tensor(a, dtype_hint=float32))
    s = bind.singular_values(x)
    above = bind.greater(s, _threshold(s, x, 1.0, tol))
    return bind.reduce_sum(table["cast"](above, int32), axis=(s.ndim - 1,), keepdims=False)


# -- least squares


@export("linalg.lstsq")
def lstsq(matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None) -> Tensor:
    """Returns the least squares solution of ``matrix @ x = rhs``; where many solve it, the shortest.

    Args:
      matrix: float32, float64, complex64 or complex128 tensor of shape (..., m, n).
      rhs: tensor of the same dtype, shape (..., m, k).
      l2_regularizer: a multiple of the squared length of x that is added to what is minimized.
      fast: by the normal equations, which needs full rank; else by singular values.

    Returns:
      A tensor of shape (..., n, k).

    >>> import tvtf as tf
    >>> tf.linalg.lstsq([[1., 0.], [0., 1.], [0., 0.]], [[1.], [2.], [3.]]).numpy()
    array([[1.],
           [2.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/lstsq
    """
    a = convert_to_tensor(matrix)
    b = convert_to_tensor(rhs, a.dtype)
    if not fast:
        return product(pinv(a, rcond=np.finfo(a.dtype.real_dtype.np).eps), b)
    rows, columns = a._type.shape[-2:]
    if rows >= columns:  # type: ignore[operator]
        gram = _regularized(product(adjoint(a), a), l2_regularizer)
        return cholesky_solve(bind.cholesky(gram), product(adjoint(a), b))
    gram = _regularized(product(a, adjoint(a)), l2_regularizer)
    return product(adjoint(a), cholesky_solve(bind.cholesky(gram), b))


def _regularized(gram: Tensor, amount: float) -> Tensor:
    if not amount:
        return gram
    added = bind.broadcast_to(convert_to_tensor(amount, gram.dtype), shape=gram._type.shape[:-1])
    return bind.add(gram, diagonal_matrix(added))
