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


def _block_vjp(name: str) -> Callable[..., Tensor]:
    """Returns the rule for the vector-Jacobian product of the analytic matrix function ``name``.

    For the block matrix ``[[x, dx], [0, x]]``, the upper right block of the function's result is the function's
    derivative at x in the direction dx. The cotangent of x is the derivative at the adjoint of x, in the direction of
    ``cotangent``.

    Source: https://epubs.siam.org/doi/book/10.1137/1.9780898717778, 3.2
    """

    def vjp(cotangent: Tensor, y: Tensor, x: Tensor) -> Tensor:
        size = x._type.shape[-1]
        matrix_function = getattr(bind, name)
        block_matrix = block(adjoint(x), cotangent, zeros_like(x), adjoint(x))
        return matrix_function(block_matrix)[..., :size, size:]  # type: ignore[no-any-return]

    return vjp


def _real_part(x: np.ndarray) -> np.ndarray:
    """Returns the real part of a matrix, or NaN if its imaginary part is larger than rounding errors.

    SciPy before 1.16 returns complex square roots of most real matrices.
    """
    if not np.iscomplexobj(x):
        return x.real
    rounding_error = 1e4 * np.finfo(x.dtype).eps * np.abs(x.real).max()
    if np.abs(x.imag).max() <= rounding_error:
        return x.real
    return np.full_like(x.real, np.nan)


def _scipy_kernel(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a NumPy kernel that applies the function ``name`` of scipy.linalg to each matrix of a batch.

    If a real matrix has a complex result, the kernel returns NaN.
    """

    def of_matrix(x: np.ndarray) -> np.ndarray:
        """Applies SciPy's matrix function ``name`` to one matrix. A complex result for a real matrix becomes NaN."""
        import scipy.linalg

        if not np.isfinite(x).all():  # SciPy raises for such a matrix, TensorFlow does not
            return np.full_like(x, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # logm warns in single precision
            result = np.asarray(getattr(scipy.linalg, name)(x))
        if not np.iscomplexobj(x):
            result = _real_part(result)
        return result.astype(x.dtype)

    return lambda x: x.copy() if 0 in x.shape else each(of_matrix, x)


@lapack_primitive(
    type=square_type,
    numpy=_scipy_kernel("expm"),
    vjp=_block_vjp("matrix_exponential"),
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
    """Returns the type of a matrix function's result, which is the input's: complex square matrices."""
    require_matrices(x, domain=COMPLEX_MATRICES)
    require_square(x)
    return x


@lapack_primitive(
    type=_complex_square,
    numpy=_scipy_kernel("logm"),
    vjp=_block_vjp("matrix_logarithm"),
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
    numpy=_scipy_kernel("sqrtm"),
    vjp=_block_vjp("matrix_square_root"),
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
    """Converts an argument to a tensor of floating or complex matrices.

    Raises TensorFlow's error for another dtype or a rank below 2.
    """
    x = convert_to_tensor(a)
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {x.dtype.name}).")
    if x.ndim < 2:
        raise ValueError(f"Input `a` must have at least 2 dimensions (saw: {x.ndim}).")
    return x


def _largest_singular_value(singular_values: Tensor) -> Tensor:
    """Returns the largest singular value of each matrix, with size 1 in the last axis."""
    return bind.reduce_max(singular_values, axis=(singular_values.ndim - 1,), keepdims=True)


def _threshold(singular_values: Tensor, x: Tensor, factor: float, bound: Any) -> Tensor:
    """Returns the bound up to which singular values of the matrices ``x`` count as zero.

    If ``bound`` is None, this is ``factor * epsilon * max(rows, columns) * (largest singular value)`` for each matrix.
    """
    if bound is not None:
        return convert_to_tensor(bound, singular_values.dtype)
    rows, columns = x._type.shape[-2:]
    epsilon = np.finfo(singular_values.dtype.np).eps  # type: ignore[type-var]
    relative_bound = factor * max(rows, columns) * epsilon  # type: ignore[operator]
    largest = _largest_singular_value(singular_values)
    return bind.multiply(largest, number(relative_bound, singular_values))


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
        relative_cutoff = convert_to_tensor(rcond, s.dtype)
        if relative_cutoff.ndim:
            relative_cutoff = relative_cutoff[..., None]
        cutoff = bind.multiply(_largest_singular_value(s), relative_cutoff)
    # As divisors, singular values up to the cutoff are replaced by infinity, so that their reciprocals are 0.
    infinite = number(np.inf, s)
    divisors = bind.select(bind.greater(s, cutoff), s, bind.broadcast_to(infinite, shape=s._type.shape))
    reciprocals = as_dtype_of(bind.divide(number(1, s), divisors), u)
    return product(scaled_columns(v, reciprocals), adjoint(u))


@export("linalg.matrix_rank")
def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Returns the number of singular values of each matrix that exceed ``tol``, an int32 tensor of shape (...).

    Args:
      a: float32, float64, complex64 or complex128 tensor of shape (..., m, n).
      tol: by default, max(m, n) times the dtype's epsilon times the largest singular value.

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
      fast: by the normal equations, which needs full rank; otherwise by singular values.

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
    # Normal equations: a' a x = a' b for as many equations as unknowns or more, else x = a' z with a a' z = b.
    if rows >= columns:  # type: ignore[operator]
        gram = _regularized(product(adjoint(a), a), l2_regularizer)
        return cholesky_solve(bind.cholesky(gram), product(adjoint(a), b))
    gram = _regularized(product(a, adjoint(a)), l2_regularizer)
    return product(adjoint(a), cholesky_solve(bind.cholesky(gram), b))


def _regularized(gram: Tensor, amount: float) -> Tensor:
    """Adds ``amount`` times the identity to a matrix of inner products, as L2 regularization of least squares does."""
    if not amount:
        return gram
    multiples = bind.broadcast_to(convert_to_tensor(amount, gram.dtype), shape=gram._type.shape[:-1])
    return bind.add(gram, diagonal_matrix(multiples))
