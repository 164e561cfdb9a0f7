"""LU factorization with partial pivoting, and solves and inverses from its factors."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError, incompatible_shapes
from tvtf.core.primitive import export, table
from tvtf.core.shape import TensorType, agree_dim, broadcast_shapes, show_shape, simplify_dim, size_of
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, int32, int64
from tvtf.ops.dims import dim_min, scalar_of
from tvtf.ops.grids import invert_permutation
from tvtf.ops.indexing import gather
from tvtf.ops.lapack import (
    adjoint,
    below_diagonal,
    block,
    diagonal_matrix,
    each,
    lapack_primitive,
    less,
    only_diagonal,
    product,
    require_matrices,
    require_square,
    samples_of,
    upper_part,
)
from tvtf.ops.operands import attributes, one_of, operand
from tvtf.ops.rules import bind, ones_like, zeros_like

NOT_INVERTIBLE = "Input is not invertible."


def _lu_types(x: TensorType) -> tuple[TensorType, TensorType]:
    """Returns the types of an LU decomposition: the factors in one matrix, and the row permutation as int32."""
    require_matrices(x, "")
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise unknown_size(ValueError(f"lu needs matrices of known size, but got {show_shape(x.shape)}"))
    return x, TensorType(x.shape[:-1], int32)


def _lu_array(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if 0 in x.shape:
        return x, np.broadcast_to(np.arange(x.shape[-2], dtype=np.int32), x.shape[:-1])
    return each(_lu_of_matrix, x)


def _lu_of_matrix(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the LU decomposition of one matrix by SciPy.

    Returns both factors in one matrix, and the order of the rows. A singular matrix raises TensorFlow's error.
    """
    import scipy.linalg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        factors, pivots = scipy.linalg.lu_factor(x, check_finite=False)
    if not np.all(np.diagonal(factors)):
        raise ArgumentError(NOT_INVERTIBLE)
    order = np.arange(len(x), dtype=np.int32)
    for row, pivot in enumerate(pivots):  # LAPACK's pivots are swaps of two rows, one after the other
        order[[row, pivot]] = order[[pivot, row]]
    return factors, order


def _unit_lower(x: Tensor) -> Tensor:
    """Returns the factor L, whose diagonal is one."""
    return bind.add(below_diagonal(x), only_diagonal(ones_like(x)))


def _lu_vjp(cotangent: Any, y: Any, x: Tensor) -> Tensor | None:
    """Returns the cotangent of an LU decomposition's matrix, with rows in their original order.

    The leading square of the factors has a formula of its own. The columns right of the square, and the rows below it,
    have another one.
    """
    cotangent_factors, _ = cotangent
    if cotangent_factors is None:  # the factors are not used
        return None
    rows, columns = x._type.shape[-2:]
    factors, order = y
    size = dim_min(rows, columns)
    leading_factors, cotangent_leading = factors[..., :size, :size], cotangent_factors[..., :size, :size]
    lower = _unit_lower(leading_factors)
    upper = upper_part(leading_factors)
    cotangent_right, cotangent_below = cotangent_factors[..., :size, size:], cotangent_factors[..., size:, :size]
    right = bind.matrix_triangular_solve(adjoint(lower), cotangent_right, lower=False)
    below = adjoint(bind.matrix_triangular_solve(upper, adjoint(cotangent_below), lower=False))
    cotangent_lower = less(cotangent_leading, product(right, adjoint(factors[..., :size, size:])))
    cotangent_upper = less(cotangent_leading, product(adjoint(factors[..., size:, :size]), below))
    lower_product = product(adjoint(lower), cotangent_lower)
    upper_product = product(cotangent_upper, adjoint(upper))
    combined = bind.add(below_diagonal(lower_product), upper_part(upper_product))
    solved = bind.matrix_triangular_solve(adjoint(lower), combined, lower=False)
    square = adjoint(bind.matrix_triangular_solve(upper, adjoint(solved), lower=False))
    corner = zeros_like(factors[..., size:, size:])
    inverse_order = bind.argsort(order, descending=False)
    return gather(block(square, right, below, corner), inverse_order, batch_dims=x.ndim - 2)


@lapack_primitive(
    tf_name="Lu",
    type=_lu_types,
    numpy=_lu_array,
    vjp=_lu_vjp,
    samples=lambda: samples_of((3, 3), (2, 2, 2), (2, 3), (4, 2)),
)
def lu_factors(x: Tensor) -> Any:
    """Returns L and U of each matrix with permuted rows, in one matrix, and the permutation."""
    return (x,), {}


class Lu(NamedTuple):
    """The result of `tf.linalg.lu`."""

    lu: Tensor
    p: Tensor


@export("linalg.lu")
@attributes(output_idx_type=one_of(int32, int64))
def lu(input: Any, output_idx_type: Any = int32, name: str | None = None) -> Lu:
    """Returns the LU factors of each matrix with its rows in the order ``p``.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., m, m).
      output_idx_type: int32 or int64, of ``p``.

    Returns:
      A named tuple of ``lu``, shape (..., m, m), which holds U in its upper triangle and below it L, whose diagonal is one; and
      ``p``, shape (..., m).

    Raises:
      InvalidArgumentError: a matrix is singular, or (ValueError while tracing) not square.

    >>> import tvtf as tf
    >>> lu, p = tf.linalg.lu([[1., 2.], [4., 4.]])
    >>> lu.numpy(), p.numpy()
    (array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32), array([1, 0], dtype=int32))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/lu
    """
    x = convert_to_tensor(input)
    if x.ndim > 1:
        require_square(x._type)
    factors, order = bind.lu_factors(x)
    index_dtype = as_dtype(output_idx_type)
    return Lu(factors, order if index_dtype is int32 else table["cast"](order, index_dtype))


@export("linalg.lu_reconstruct")
def lu_reconstruct(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Returns the matrices that `tf.linalg.lu` factorized, shapes (..., n, n) and (..., n) to (..., n, n).

    >>> import tvtf as tf
    >>> tf.linalg.lu_reconstruct(*tf.linalg.lu([[1., 2.], [4., 4.]])).numpy()
    array([[1., 2.],
           [4., 4.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/lu_reconstruct
    """
    factors, order = _factors(lower_upper, perm, square=True)
    lower = _unit_lower(factors)
    upper = upper_part(factors)
    return gather(product(lower, upper), _inverse_orders(order), batch_dims=factors.ndim - 2)


def _inverse_orders(order: Tensor) -> Tensor:
    """Inverts each permutation of a batch, and raises InvalidArgumentError if one has an element twice.

    Permutation number i of n elements is shifted by i * n. Together, the shifted permutations are one permutation,
    which a single op inverts and checks.
    """
    if order.ndim == 1:
        return invert_permutation(order)
    shape = order._type.shape
    *batch_dims, size = shape
    count = size_of(batch_dims)
    permutation_numbers = bind.range(size=count, start=0, delta=1, dtype=order.dtype)
    permutation_numbers = bind.reshape(permutation_numbers, shape=(*batch_dims, 1))
    starts = bind.multiply(permutation_numbers, table["cast"](scalar_of(size), order.dtype))
    combined = bind.reshape(bind.add(order, starts), shape=(simplify_dim(count * size),))
    inverse = bind.reshape(invert_permutation(combined), shape=shape)
    return bind.subtract(inverse, starts)  # type: ignore[no-any-return]


def _factors(lower_upper: Any, perm: Any, square: bool = False) -> tuple[Tensor, Tensor]:
    """Checks that the shapes of LU factors and their permutation match, and converts both to tensors.

    Args:
      lower_upper: the factors L and U in one matrix, for a batch of matrices.
      perm: the order of the rows of each matrix.
      square: whether the matrices must be square.
    """
    factors = convert_to_tensor(lower_upper)
    order = convert_to_tensor(perm)
    if factors.ndim < 2:
        raise ValueError("Input `lower_upper` must have at least 2 dimensions.")
    if factors.ndim != order.ndim + 1:
        raise ValueError("`rank(lower_upper)` must equal `rank(perm) + 1`")
    if square and not agree_dim(*factors._type.shape[-2:]):
        raise incompatible_shapes(ValueError("`lower_upper` must be square."))
    if not agree_dim(factors._type.shape[-2], order._type.shape[-1]):
        message = f"Tensor's shape {order.shape} is not compatible with supplied shape {factors.shape[:-1]}."
        raise ArgumentError(message, ValueError)
    return factors, order


@export("linalg.lu_solve")
def lu_solve(lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Solves ``A @ x = rhs`` for x from the LU factors of A.

    Args:
      lower_upper, perm: the results of `tf.linalg.lu` for square matrices, shapes (..., n, n) and (..., n).
      rhs: tensor of the same dtype, shape (..., n, k).

    Returns:
      A tensor of shape (..., n, k).

    >>> import tvtf as tf
    >>> tf.linalg.lu_solve(*tf.linalg.lu([[1., 2.], [4., 4.]]), rhs=[[3.], [8.]]).numpy()
    array([[1.],
           [1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/lu_solve
    """
    factors, order = _factors(lower_upper, perm, square=True)
    right = operand(rhs, factors.dtype, 1)
    if right.ndim < 2:
        raise ValueError("Input `rhs` must have at least 2 dimensions.")
    if not agree_dim(factors._type.shape[-1], right._type.shape[-2]):
        raise incompatible_shapes(ValueError("`lower_upper.shape[-1]` must equal `rhs.shape[-1]`."))
    batch = broadcast_shapes(factors._type.shape[:-2], right._type.shape[:-2])
    if batch is None:
        raise incompatible_shapes(ValueError(f"Shapes {factors.shape[:-2]} and {right.shape[:-2]} don't broadcast."))
    right = bind.broadcast_to(right, shape=(*batch, *right._type.shape[-2:]))
    order = bind.broadcast_to(order, shape=(*batch, order._type.shape[-1]))
    ordered = gather(right, order, batch_dims=len(batch), axis=-2)
    solution_of_lower = bind.matrix_triangular_solve(_unit_lower(factors), ordered, lower=True)
    return bind.matrix_triangular_solve(factors, solution_of_lower, lower=False)


@export("linalg.lu_matrix_inverse")
def lu_matrix_inverse(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Inverts the square matrices that `tf.linalg.lu` factorized, shapes (..., n, n) and (..., n) to (..., n, n).

    >>> import tvtf as tf
    >>> tf.linalg.lu_matrix_inverse(*tf.linalg.lu([[0., 2.], [4., 0.]])).numpy()
    array([[0.  , 0.25],
           [0.5 , 0.  ]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/lu_matrix_inverse
    """
    factors, perm = _factors(lower_upper, perm, square=True)
    ones = bind.broadcast_to(convert_to_tensor(1, factors.dtype), shape=factors._type.shape[:-1])
    identity = diagonal_matrix(ones)
    return lu_solve(factors, perm, identity)
