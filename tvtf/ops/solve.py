"""Inverses, determinants and systems of linear equations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export
from tvtf.core.shape import TensorType, agree_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import bfloat16, float16
from tvtf.ops.elementwise import conj
from tvtf.ops.lapack import (
    COMPLEX_MATRICES,
    MATRICES,
    REAL_MATRICES,
    adjoint,
    column,
    diagonal,
    each,
    lapack_primitive,
    less,
    lower_part,
    matrix,
    only_diagonal,
    product,
    products,
    require_matrices,
    require_same_batches,
    require_square,
    samples_of,
    scaled,
    singled,
    square_type,
    unequal,
    upper_part,
    with_lapack_error,
)
from tvtf.ops.linalg import lifted
from tvtf.ops.operands import attributes, operands
from tvtf.ops.rules import bind, broadcast_types, require_same_dtype, unbroadcast, zeros_like

NOT_INVERTIBLE = "Input is not invertible."
SINGULAR = "Input matrix is not invertible."

# -- inverse and determinant


def _inverse_type(x: TensorType) -> TensorType:
    """Returns the type of matrix_inverse's result, which is that of ``x``, after checking for square matrices."""
    require_matrices(x, domain=(*MATRICES, float16))
    require_square(x)
    return x


@lapack_primitive(
    type=_inverse_type,
    numpy=lambda x: with_lapack_error(NOT_INVERTIBLE, np.linalg.inv, singled(x)),
    vjp=lambda cotangent, y, x: bind.negative(products(adjoint(y), cotangent, adjoint(y))),
    samples=lambda: samples_of((2, 2), (2, 3, 3), (0, 2, 2)),
    public=("linalg.inv",),
)
@attributes(adjoint=bool)
def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """Returns the inverse of each matrix.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., n, n).
      adjoint: invert the conjugate transpose instead.

    Returns:
      A tensor of the same shape and dtype.

    Raises:
      InvalidArgumentError: a matrix is singular or not square.

    >>> import tvtf as tf
    >>> tf.linalg.inv([[1., 0.], [2., 4.]]).numpy()
    array([[ 1.  ,  0.  ],
           [-0.5 ,  0.25]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/inv
    """
    return (_adjoint_if(adjoint, convert_to_tensor(input)),), {}


def _adjoint_if(flag: bool, x: Tensor) -> Tensor:
    """Returns the conjugate transposes of matrices if ``flag`` is true, else the matrices."""
    return adjoint(x) if flag else x


def _scalar_type(x: TensorType) -> TensorType:
    """Returns the type of a result with one scalar for each matrix, after checking that ``x`` has square matrices."""
    square_type(x)
    return TensorType(x.shape[:-2], x.dtype)


def _inverse_adjoint(x: Tensor) -> Tensor:
    """Returns the inverse of each matrix's conjugate transpose."""
    return bind.matrix_inverse(adjoint(x))


@lapack_primitive(
    type=_scalar_type,
    numpy=np.linalg.det,
    vjp=lambda cotangent, y, x: bind.multiply(column(bind.multiply(cotangent, conj(y))), _inverse_adjoint(x)),
    samples=lambda: samples_of((2, 2), (2, 3, 3), (0, 2, 2), (1, 0, 0)),
    public=("linalg.det",),
)
def matrix_determinant(input: Any, name: str | None = None) -> Any:
    """Returns the determinant of each matrix.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., n, n).

    Returns:
      A tensor of shape (...). Its gradient needs the inverse.

    Raises:
      InvalidArgumentError: a matrix is not square.

    >>> import tvtf as tf
    >>> tf.linalg.det([[1., 2.], [3., 4.]]).numpy()
    np.float32(-2.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/det
    """
    return (convert_to_tensor(input),), {}


def _log_vjp(cotangent: Any, y: Any, x: Tensor) -> Tensor:
    """Returns the cotangent of slogdet's input ``x`` from the cotangents of the sign and the logarithm.

    The real part of ``tr(x^-1 dx)`` is the change of the logarithm. Its imaginary part is the rotation of the sign.
    """
    sign, log = y
    sign_cotangent, log_cotangent = cotangent
    sign_cotangent = zeros_like(sign) if sign_cotangent is None else sign_cotangent
    log_cotangent = zeros_like(log) if log_cotangent is None else log_cotangent
    if x.dtype.is_complex:
        rotation_cotangent = bind.imag(bind.multiply(sign_cotangent, bind.conj(sign)))
        trace_cotangent = bind.complex(bind.real(log_cotangent), rotation_cotangent)
    else:  # the sign of a real determinant doesn't change
        trace_cotangent = log_cotangent
    return bind.multiply(column(trace_cotangent), _inverse_adjoint(x))


@lapack_primitive(
    type=lambda x: (_scalar_type(x), _scalar_type(x)),
    numpy=lambda x: tuple(part.astype(x.dtype) for part in np.linalg.slogdet(x)),
    vjp=_log_vjp,
    samples=lambda: samples_of((2, 2), (2, 3, 3)),
)
def log_matrix_determinant(x: Tensor) -> Any:
    """Returns the sign of each determinant and the logarithm of its magnitude."""
    return (x,), {}


class LogMatrixDeterminant(NamedTuple):
    """The result of `tf.linalg.slogdet`."""

    sign: Tensor
    log_abs_determinant: Tensor


@export("linalg.slogdet")
def slogdet(input: Any, name: str | None = None) -> LogMatrixDeterminant:
    """Returns the sign of each determinant and the logarithm of its magnitude, where the determinant itself may overflow.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., n, n).

    Returns:
      A named tuple of ``sign`` and ``log_abs_determinant``, of shape (...).

    >>> import tvtf as tf
    >>> sign, log = tf.linalg.slogdet([[1., 2.], [3., 4.]])
    >>> sign.numpy(), log.numpy()
    (np.float32(-1.0), np.float32(0.6931472))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/slogdet
    """
    return LogMatrixDeterminant(*bind.log_matrix_determinant(convert_to_tensor(input)))


@export("linalg.logdet")
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Returns the logarithm of the determinant of each Hermitian positive definite matrix, shape (..., n, n) to (...).

    >>> import tvtf as tf
    >>> tf.linalg.logdet([[4., 0.], [0., 9.]]).numpy()
    np.float32(3.583519)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/logdet
    """
    factor = diagonal(bind.cholesky(convert_to_tensor(matrix)))
    real = bind.real(factor) if factor.dtype.is_complex else factor
    return scaled(bind.reduce_sum(bind.log(real), axis=(real.ndim - 1,), keepdims=False), 2.0)


# -- linear equations


def _solve_type(a: TensorType, b: TensorType) -> TensorType:
    """Checks the operands of matrix_solve, and returns the type of the result: the type of the right-hand sides ``b``.

    The matrices ``a`` must be square. Both operands must have the same dtype and batch dims.
    """
    require_same_dtype((a, b), ("matrix", "rhs"))
    require_matrices(a, name="matrix")
    require_matrices(b, " 1", name="rhs")
    require_square(a, "First input (lhs) must be a square matrix.")
    _require_fitting(a, b)
    require_same_batches(a, b)
    return b


def _require_fitting(a: TensorType, b: TensorType) -> None:
    """Checks that right-hand sides ``b`` have as many rows as the matrices ``a`` have columns."""
    if not agree_dim(a.shape[-1], b.shape[-2]):
        raise ArgumentError(
            "Input matrix and rhs are incompatible.", ValueError, unequal(a.shape[-1], b.shape[-2], a, b)
        )


def _solve_vjp(cotangent: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of matrix and right-hand side of ``a @ y = b``: one solve with the adjoint matrix."""
    b_cotangent = bind.matrix_solve(adjoint(a), cotangent)
    return bind.negative(product(b_cotangent, adjoint(y))), b_cotangent


def _pairs(*shapes: tuple[Any, Any], **attrs: Any) -> list[Sample]:
    """Returns test samples of matrices and right-hand sides of the given pairs of shapes, real and complex."""
    return [
        Sample((matrix(seed, *matrix_shape), matrix(seed + 9, *rhs_shape)), attrs, dtypes)
        for seed, (matrix_shape, rhs_shape) in enumerate(shapes)
        for dtypes in (REAL_MATRICES, COMPLEX_MATRICES)
    ]


@lapack_primitive(
    type=_solve_type,
    numpy=lambda a, b: with_lapack_error(SINGULAR, np.linalg.solve, a, b),
    vjp=_solve_vjp,
    samples=lambda: _pairs(((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((0, 2, 2), (0, 2, 1))),
    public=("linalg.solve",),
)
@attributes(adjoint=bool)
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """Returns the solution x of ``matrix @ x = rhs``.

    Args:
      matrix: float32, float64, complex64 or complex128 tensor of shape (..., n, n).
      rhs: tensor of the same dtype and batch, shape (..., n, k).
      adjoint: solve with the conjugate transpose of ``matrix``.

    Returns:
      A tensor of the shape of ``rhs``.

    Raises:
      InvalidArgumentError: a matrix is singular or not square, or the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.linalg.solve([[2., 0.], [0., 4.]], [[2.], [2.]]).numpy()
    array([[1. ],
           [0.5]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/solve
    """
    a, b = operands(matrix, rhs)
    return (_adjoint_if(adjoint, a), b), {}


def _triangular_type(a: TensorType, b: TensorType, lower: bool) -> TensorType:
    """Checks matrices and right-hand sides of matrix_triangular_solve, and returns the type of the result.

    The batch dims of both broadcast.
    """
    # ``lower`` isn't needed here, but all rules of the op receive it
    require_same_dtype((a, b), ("matrix", "rhs"))
    allowed = (*MATRICES, float16, bfloat16)
    require_matrices(a, name="matrix", allowed=allowed)
    require_matrices(b, " 1", name="rhs", allowed=allowed)
    rows, columns = a.shape[-2:]
    require_square(a, f"In[0] matrices in the last dimensions must be square ({columns} =/= {rows})")
    _require_fitting(a, b)
    batch = broadcast_types(TensorType(a.shape[:-2], a.dtype), TensorType(b.shape[:-2], b.dtype))
    return TensorType((*batch, *b.shape[-2:]), b.dtype)


def _triangular_array(a: np.ndarray, b: np.ndarray, lower: bool) -> np.ndarray:
    """Solves triangular systems by BLAS, after checking that no diagonal has a zero.

    BLAS expects matrices stored by columns. It gets transposes, which are views, and solves x' a' = b'.
    (`scipy.linalg.solve_triangular` takes 17 us for two numbers, this 1.3, and one and a half times as long for
    160 x 160.)
    """
    from scipy.linalg import get_blas_funcs

    if not np.all(np.diagonal(a, axis1=-2, axis2=-1)):
        raise ArgumentError(SINGULAR)
    if 0 in a.shape or 0 in b.shape:
        batch_shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*batch_shape, *b.shape[-2:]), b.dtype)
    if b.shape[-1] == 1:  # BLAS has a function of its own for one right-hand side
        (solve_vector,) = get_blas_funcs(("trsv",), (a, b))
        return each(lambda x, y: solve_vector(x.T, y[:, 0], lower=not lower, trans=1)[:, None], a, b)
    (solve_matrix,) = get_blas_funcs(("trsm",), (a, b))
    return each(lambda x, y: solve_matrix(1.0, x.T, y.T, side=1, lower=not lower).T, a, b)


def _triangular_vjp(cotangent: Tensor, y: Tensor, a: Tensor, b: Tensor, lower: bool) -> tuple[Tensor, Tensor]:
    """Returns the gradients of a triangular solve; the matrix's lies in its triangle."""
    b_cotangent = bind.matrix_triangular_solve(adjoint(a), cotangent, lower=not lower)
    a_cotangent = bind.negative(product(b_cotangent, adjoint(y)))
    return unbroadcast(lower_part(a_cotangent) if lower else upper_part(a_cotangent), a), unbroadcast(b_cotangent, b)


def _triangular_batch(size: Any, inputs: Any, batched: Any, lower: bool) -> Tensor:
    """Solves the systems of a batch. Operands get the same rank after the batch axis, for batches broadcast."""
    rank = max(x.ndim - is_batched for x, is_batched in zip(inputs, batched))
    a, b = (lifted(x, rank) if is_batched else x for x, is_batched in zip(inputs, batched))
    return bind.matrix_triangular_solve(a, b, lower=lower)


@lapack_primitive(
    type=_triangular_type,
    numpy=_triangular_array,
    vjp=_triangular_vjp,
    batch=_triangular_batch,
    broadcasts="batches",
    samples=lambda: [
        *_pairs(((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((2, 2), (3, 2, 1)), ((0, 2, 2), (0, 2, 1)), lower=True),
        *_pairs(((3, 3), (3, 2)), ((3, 1, 2, 2), (2, 2, 1)), lower=False),
    ],
    public=("linalg.triangular_solve",),
)
@attributes(lower=bool, adjoint=bool)
def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """Returns the solution x of ``matrix @ x = rhs`` for triangular matrices; the other triangle is not read.

    Args:
      matrix: float32, float64, complex64 or complex128 tensor of shape (..., n, n).
      rhs: tensor of the same dtype, shape (..., n, k); batches broadcast.
      lower: whether the lower triangle counts; otherwise the upper one.
      adjoint: solve with the conjugate transpose of ``matrix``.

    Returns:
      A tensor of shape (..., n, k).

    Raises:
      InvalidArgumentError: a matrix has a zero on its diagonal or is not square, or the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.linalg.triangular_solve([[2., 9.], [1., 1.]], [[2.], [3.]]).numpy()
    array([[1.],
           [2.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/triangular_solve
    """
    a, b = operands(matrix, rhs)
    return (_adjoint_if(adjoint, a), b), {"lower": lower != adjoint}


# -- Cholesky


def _cholesky_array(x: np.ndarray) -> np.ndarray:
    """Computes Cholesky decompositions by LAPACK. A matrix that isn't positive definite gives NaN, as in TensorFlow.

    LAPACK expects matrices stored by columns. It gets the transpose, which is a view, and returns the transposed
    factor.
    """
    from scipy.linalg import get_lapack_funcs

    if 0 in x.shape:
        return x.copy()
    (potrf,) = get_lapack_funcs(("potrf",), (x,))

    def factor(matrix: np.ndarray) -> np.ndarray:
        transposed, failed = potrf(matrix.T, lower=False, clean=True)
        return np.tril(np.full_like(matrix, np.nan)) if failed else transposed.T

    return each(factor, x)


def _cholesky_vjp(cotangent: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Returns the cotangent of a Cholesky decomposition's input. It is symmetric, as in TensorFlow.

    Source: https://arxiv.org/abs/1602.07527
    """
    # y^-H phi(y^H cotangent) y^-1, made symmetric; phi keeps the lower triangle and half of the diagonal
    y_adjoint = adjoint(y)
    inner = product(y_adjoint, cotangent)
    phi = less(lower_part(inner), scaled(only_diagonal(inner), 0.5))
    solved_on_left = bind.matrix_triangular_solve(y_adjoint, phi, lower=False)
    solved_on_right = adjoint(bind.matrix_triangular_solve(y_adjoint, adjoint(solved_on_left), lower=False))
    return scaled(bind.add(solved_on_right, adjoint(solved_on_right)), 0.5)


@lapack_primitive(
    type=square_type,
    numpy=_cholesky_array,
    vjp=_cholesky_vjp,
    samples=lambda: [
        Sample((matrix(i, *shape, definite=True),), {}, dtypes, gradient=False)
        for i, shape in enumerate(((3, 3), (2, 2, 2)))
        for dtypes in (REAL_MATRICES, COMPLEX_MATRICES)
    ],
    public=("linalg.cholesky",),
)
def cholesky(input: Any, name: str | None = None) -> Any:
    """Returns the lower triangular factor L of each Hermitian positive definite matrix ``L @ adjoint(L)``.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., n, n), of which the lower triangle is read.

    Returns:
      A tensor of the same shape and dtype; NaN where a matrix is not positive definite. Its gradient is symmetric.

    Raises:
      InvalidArgumentError: a matrix is not square.

    >>> import tvtf as tf
    >>> tf.linalg.cholesky([[4., 2.], [2., 2.]]).numpy()
    array([[2., 0.],
           [1., 1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/cholesky
    """
    return (convert_to_tensor(input),), {}


@export("linalg.cholesky_solve")
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Returns the solution x of ``A @ x = rhs`` from the Cholesky factor of A.

    Args:
      chol: the result of `tf.linalg.cholesky`, shape (..., n, n).
      rhs: tensor of the same dtype, shape (..., n, k).

    Returns:
      A tensor of shape (..., n, k).

    >>> import tvtf as tf
    >>> tf.linalg.cholesky_solve([[2., 0.], [0., 3.]], [[4.], [9.]]).numpy()
    array([[1.],
           [1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/cholesky_solve
    """
    factor, right_side = operands(chol, rhs)
    half = bind.matrix_triangular_solve(factor, right_side, lower=True)
    return bind.matrix_triangular_solve(adjoint(factor), half, lower=False)
