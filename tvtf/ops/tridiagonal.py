"""Linear systems, products and eigenvalues of tridiagonal and banded matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, public_names
from tvtf.core.shape import TensorType, agree_dim, brackets
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, float64
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.lapack import (
    COMPLEX_MATRICES,
    MATRICES,
    REAL_MATRICES,
    adjoint,
    each,
    lapack_primitive,
    matrix,
    require_matrices,
    require_same_batches,
    unequal,
    with_lapack_error,
)
from tvtf.ops.linalg import conjugate
from tvtf.ops.operands import attributes, operand, operands
from tvtf.ops.rules import bind, require_dtype, require_same_dtype, zeros_like

# -- tridiagonal


def _solve_type(diagonals: TensorType, rhs: TensorType) -> TensorType:
    """Checks the operands of a tridiagonal solve or product, and returns the type of the result: the type of ``rhs``.

    ``diagonals`` has three rows of length n. The right-hand sides ``rhs`` have n rows.
    """
    require_same_dtype((diagonals, rhs), ("diagonals", "rhs"))
    require_matrices(diagonals, name="diagonals", allowed=MATRICES)
    require_matrices(rhs, " 1", name="rhs")
    require_same_batches(diagonals, rhs)
    *_, diagonal_count, length = diagonals.shape
    rhs_length = rhs.shape[-2]
    if diagonal_count != 3:
        raise ArgumentError(f"Expected 3 diagonals got {diagonal_count}", ValueError)
    if not agree_dim(length, rhs_length):
        message = f"The length of diagonals and right-hand sides should be equal, got {length} and {rhs_length}"
        raise ArgumentError(message, ValueError, unequal(length, rhs_length, diagonals, rhs))
    return rhs


def _solve_banded(diagonals: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solves tridiagonal systems by SciPy. The outer diagonals are rolled by one for SciPy.

    TensorFlow stores an element of a diagonal at the index of its matrix row, SciPy at the index of its matrix column.
    """
    import scipy.linalg

    if 0 in rhs.shape:
        return rhs.copy()

    def solve_one(three_rows: np.ndarray, b: np.ndarray) -> np.ndarray:
        upper, main, lower = three_rows
        aligned = np.stack([np.roll(upper, 1), main, np.roll(lower, -1)])
        return scipy.linalg.solve_banded((1, 1), aligned, b, check_finite=False)

    message = "The first element of diagonal is zero or the matrix is singular."
    return with_lapack_error(message, each, solve_one, diagonals, rhs)


def _solve_perturbed_batch(diagonals: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solves each tridiagonal system, or one close to it if it is singular."""
    return rhs.copy() if 0 in rhs.shape else each(_solve_perturbed, diagonals, rhs)


def _solve_perturbed(bands: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solves a tridiagonal system for the right-hand sides ``b``, or a system close to it if it is singular.

    ``bands`` are the upper, main and lower diagonal as rows.

    Source: LAPACK's xLAGTF and xLAGTS
    """
    upper, main, lower = bands
    count = len(main)
    x = b.copy()
    factor = np.zeros((count, 3), bands.dtype)  # the diagonal, and two above it
    factor[0, :2] = main[0], upper[0] if count > 1 else 0
    scale = np.abs(factor[0]).sum()
    for i in range(1, count):  # Gaussian elimination, with rows exchanged for the larger scaled pivot
        row = np.array([lower[i], main[i], upper[i] if i < count - 1 else 0], bands.dtype)
        previous = factor[i - 1].copy()
        row_size = np.abs(row).sum()
        if row[0] == 0:
            scale, factor[i, :2] = row_size, row[1:]
        elif previous[0] != 0 and np.abs(row[0]) / row_size <= np.abs(previous[0]) / scale:
            multiple = row[0] / previous[0]
            scale, factor[i, :2] = row_size, (row[1] - multiple * previous[1], row[2])
            x[i] -= multiple * x[i - 1]
        else:
            multiple = previous[0] / row[0]
            factor[i - 1] = row
            factor[i, :2] = previous[1] - multiple * row[1], -multiple * row[2]
            x[i - 1], x[i] = x[i].copy(), x[i - 1] - multiple * x[i]
    # Back substitution, in which pivots near zero are perturbed.
    smallest_pivot = np.finfo(bands.dtype).eps * np.abs(factor).max()
    for i in reversed(range(count)):
        for offset in (1, 2):
            if i + offset < count:
                x[i] -= factor[i, offset] * x[i + offset]
        x[i] = _divided_by_pivot(x[i], factor[i, 0], smallest_pivot)
    return x


def _divided_by_pivot(row: np.ndarray, pivot: Any, perturbation: Any) -> np.ndarray:
    """Divides a row of a linear system by its pivot, the element of the main diagonal.

    ``perturbation`` is added to a pivot near 0, and doubled, until the quotient doesn't overflow.
    """
    tiny = np.finfo(row.dtype).tiny  # the smallest normal number
    largest = np.abs(row).max(initial=0)
    perturbation = np.copysign(max(abs(perturbation), tiny), pivot.real)
    while abs(pivot) < 1:
        is_denormal = abs(pivot) < tiny
        if is_denormal and pivot != 0 and largest * tiny <= abs(pivot):
            # The quotient is finite, but 1 / pivot might overflow: scale both.
            return row / tiny / (pivot / tiny)  # type: ignore[no-any-return]
        if not is_denormal and largest <= abs(pivot) / tiny:
            break
        pivot = pivot + perturbation
        perturbation = perturbation * 2
    return row * (1 / pivot)  # type: ignore[no-any-return]


@host_primitive(
    tf_name="TridiagonalSolve",
    type=_solve_type,
    numpy=_solve_perturbed_batch,
    vjp=lambda cotangent, y, diagonals, rhs: _solve_gradient(bind.perturbed_system, cotangent, y, diagonals),
    why_not={"batch": "maps compute it element by element"},
)
def perturbed_system(diagonals: Tensor, rhs: Tensor) -> Any:
    """Solves tridiagonal systems that may be singular."""
    return (diagonals, rhs), {}


def _next_rows(x: Tensor) -> Tensor:
    """Returns for each row of ``x`` the next one, and zeros for the last."""
    return bind.concat(x[..., 1:, :], zeros_like(x[..., :1, :]), axis=x.ndim - 2)  # type: ignore[index]


def _previous_rows(x: Tensor) -> Tensor:
    """Returns for each row of ``x`` the one before, and zeros for the first."""
    return bind.concat(zeros_like(x[..., :1, :]), x[..., :-1, :], axis=x.ndim - 2)  # type: ignore[index]


def _columns(diagonals: Tensor) -> list[Tensor]:
    """Returns the upper, main and lower diagonal, the rows of ``diagonals``, as matrices of one column each."""
    return [_as_column(diagonals[..., i : i + 1, :]) for i in range(3)]  # type: ignore[index]


def _as_column(row: Tensor) -> Tensor:
    """Reshapes matrices of one row to matrices of one column."""
    *batch, one, size = row._type.shape
    return bind.reshape(row, shape=(*batch, size, one))


def _rows(columns: list[Tensor]) -> Tensor:
    """Joins three columns to the rows of one tensor: the inverse of :func:`_columns`."""
    *batch, size, one = columns[0]._type.shape
    rows = [bind.reshape(column, shape=(*batch, one, size)) for column in columns]
    return bind.concat(*rows, axis=rows[0].ndim - 2)


def _transposed(diagonals: Tensor) -> Tensor:
    """Returns the diagonals of the conjugate transposes of tridiagonal matrices."""
    upper, main, lower = _columns(conjugate(diagonals))
    return _rows([_next_rows(lower), main, _previous_rows(upper)])


def _row_inner_products(a: Tensor, b: Tensor) -> Tensor:
    """Returns the inner product of each row of ``a`` with the conjugate of the same row of ``b``, as a column."""
    return bind.reduce_sum(bind.multiply(a, conjugate(b)), axis=(a.ndim - 1,), keepdims=True)


def _solve_gradient(solve: Any, cotangent: Tensor, y: Tensor, diagonals: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of the diagonals and of the right-hand sides of a tridiagonal solve.

    The cotangent of the right-hand sides is a solve with the transposed matrix. The inner products of this cotangent
    with the rows of the solution ``y``, negated, are the cotangent of the diagonals.
    """
    rhs_cotangent = solve(_transposed(diagonals), cotangent)
    upper = _row_inner_products(rhs_cotangent, _next_rows(y))
    main = _row_inner_products(rhs_cotangent, y)
    lower = _row_inner_products(rhs_cotangent, _previous_rows(y))
    return bind.negative(_rows([upper, main, lower])), rhs_cotangent


@lapack_primitive(
    tf_name="TridiagonalSolve",
    type=_solve_type,
    numpy=_solve_banded,
    vjp=lambda cotangent, y, diagonals, rhs: _solve_gradient(bind.tridiagonal_system, cotangent, y, diagonals),
    samples=lambda: [
        Sample((_dominant_diagonals(i, *batch), matrix(i, *batch, 4, 2)), {}, dtypes)
        for i, batch in enumerate(((), (2,)))
        for dtypes in (REAL_MATRICES, COMPLEX_MATRICES)
    ],
)
def tridiagonal_system(diagonals: Tensor, rhs: Tensor) -> Any:
    """Solves systems whose upper, main and lower diagonals are the rows of ``diagonals``."""
    return (diagonals, rhs), {}


def _dominant_diagonals(seed: int, *batch: int) -> Any:
    """Returns a function that draws the three diagonals of tridiagonal matrices for test samples.

    The main diagonal is dominant, so that the matrices are far from singular.
    """

    def draw(dtype: Any) -> np.ndarray:
        elements = np.abs(matrix(seed, *batch, 4, 4)(dtype))
        diagonals = elements[..., :3, :] % 1  # three diagonals of four elements below 1
        main_diagonal_offset = np.array([[0], [3], [0]])
        return (diagonals + main_diagonal_offset).astype(dtype.np)

    return draw


def _compact_diagonals(diagonals: Any, format: str, dtype: Any = None) -> Tensor:
    """Converts the three diagonals of a tridiagonal matrix to the rows of one tensor.

    ``format`` is "compact" (already rows), "sequence" (a list of three vectors) or "matrix".
    """
    if format == "compact":
        return convert_to_tensor(diagonals, dtype)
    if format == "sequence":
        if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
            raise ValueError("Expected diagonals to be a sequence of length 3.")
        upper, main, lower = (convert_to_tensor(diagonal, dtype) for diagonal in diagonals)
        # The outer diagonals are shorter by one.
        rows = [_padded_diagonal(upper, main, 1), main, _padded_diagonal(lower, main, 0)]
        return public_names()["stack"](rows, axis=-2)
    if format != "matrix":
        raise ValueError(f"Unrecognized diagonals_format: {format}")
    return _diagonals_of_matrix(convert_to_tensor(diagonals, dtype))


def _padded_diagonal(outer: Tensor, main: Tensor, end: int) -> Tensor:
    """Pads an outer diagonal of n - 1 elements to n with a zero, after it if ``end`` is true, else in front."""
    if outer.shape[-1] == main.shape[-1]:
        return outer
    zero = zeros_like(main[..., :1])  # type: ignore[index]
    return bind.concat(*((outer, zero) if end else (zero, outer)), axis=main.ndim - 1)


def _diagonals_of_matrix(x: Tensor) -> Tensor:
    """Returns the three middle diagonals of square matrices as the rows of one tensor, the upper diagonal first."""
    size = x.shape[-1]
    if x.ndim < 2 or size != x.shape[-2]:
        raise ValueError(f"Expected last two dimensions of diagonals to be equal, but got shape {x.shape}")
    diag_part = public_names()["linalg.diag_part"]
    if size == 1:  # the outer diagonals don't exist
        rows = [zeros_like(diag_part(x)), diag_part(x), zeros_like(diag_part(x))]
        return public_names()["stack"](rows, axis=-2)
    return _compact_diagonals([diag_part(x, k=1), diag_part(x), diag_part(x, k=-1)], "sequence")


@export("linalg.tridiagonal_solve")
@attributes(partial_pivoting=bool, perturb_singular=bool)
def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Returns the solution of tridiagonal systems of equations.

    Args:
      diagonals: with the format "compact" a tensor of shape (..., 3, n) of the upper, main and lower diagonal, of which the last
        element of the upper and the first of the lower are not read; with "sequence" three tensors, of n or n - 1 elements in the
        outer ones; with "matrix" a tensor of shape (..., n, n). float32, float64, complex64 or complex128.
      rhs: tensor of the same dtype, shape (..., n) or (..., n, k).
      diagonals_format: "compact", "sequence" or "matrix".
      transpose_rhs, conjugate_rhs: how ``rhs`` is taken, and the result given.
      partial_pivoting: accepted: rows are exchanged where that is needed.
      perturb_singular: solve systems near those that are singular.

    Returns:
      A tensor of the shape of ``rhs``.

    Raises:
      InvalidArgumentError: a matrix is singular, or the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.linalg.tridiagonal_solve([[1., 0.], [2., 2.], [0., 0.]], [4., 2.]).numpy()
    array([1.5, 1. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/tridiagonal_solve
    """
    if perturb_singular and not partial_pivoting:
        raise ValueError("partial_pivoting must be True if perturb_singular is.")
    solve = bind.perturbed_system if perturb_singular else bind.tridiagonal_system
    b = convert_to_tensor(rhs)
    bands = _compact_diagonals(diagonals, diagonals_format, b.dtype)
    is_vector = b.ndim == bands.ndim - 1
    if is_vector:
        b = bind.reshape(b, shape=(*b._type.shape, 1))
    b = _conjugate_transpose(b, transpose_rhs and not is_vector, conjugate_rhs)
    x = _conjugate_transpose(solve(bands, b), transpose_rhs and not is_vector, conjugate_rhs)
    return bind.reshape(x, shape=x._type.shape[:-1]) if is_vector else x


def _conjugate_transpose(x: Tensor, transpose: bool, conjugated: bool) -> Tensor:
    """Transposes and conjugates matrices as the flags say."""
    if transpose:
        x = conjugate(adjoint(x))
    return conjugate(x) if conjugated else x


@export("linalg.tridiagonal_matmul")
def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """Returns the product of tridiagonal matrices with matrices of shape (..., n, k); see `tf.linalg.tridiagonal_solve`.

    >>> import tvtf as tf
    >>> tf.linalg.tridiagonal_matmul([[1., 0.], [2., 2.], [0., 0.]], [[1.5], [1.]]).numpy()
    array([[4.],
           [2.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/tridiagonal_matmul
    """
    bands = _compact_diagonals(diagonals, diagonals_format)
    try:
        b = operand(rhs, bands.dtype, 3)
        _solve_type(bands._type, b._type)
    except ArgumentError as error:
        raise error.for_op("TridiagonalMatMul") from None
    upper, main, lower = _columns(bands)
    outer_products = bind.add(bind.multiply(upper, _next_rows(b)), bind.multiply(lower, _previous_rows(b)))
    return bind.add(bind.multiply(main, b), outer_products)


# -- banded and triangular


@export("linalg.banded_triangular_solve")
@attributes(lower=bool, adjoint=bool)
def banded_triangular_solve(
    bands: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Returns the solution of triangular systems with few diagonals.

    Args:
      bands: float32, float64, complex64 or complex128 tensor of shape (..., k, n): diagonals as rows, the main one first where
        ``lower`` holds and last else; in a lower diagonal the first elements are not read, in an upper one the last.
      rhs: tensor of the same dtype, shape (..., n, m).
      lower: whether the diagonals lie below the main one.
      adjoint: solve with the conjugate transpose.

    Returns:
      A tensor of shape (..., n, m).

    Raises:
      InvalidArgumentError: a main diagonal holds a zero, or the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.linalg.banded_triangular_solve([[2., 2.], [0., 1.]], [[2.], [5.]]).numpy()
    array([[1.],
           [2.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/banded_triangular_solve
    """
    x, right = operands(bands, rhs)
    count, size = x._type.shape[-2:]
    if not isinstance(count, int) or not isinstance(size, int):
        raise unknown_size(
            ValueError(f"banded_triangular_solve needs diagonals of known number and length, but got shape {x.shape}")
        )
    if count > size:
        raise ArgumentError(f"The number of bands is {count}, and the matrices have {size} rows").for_op(
            "BandedTriangularSolve"
        )
    return public_names()["linalg.triangular_solve"](
        _dense_matrix(x, count, size, lower), right, lower=lower, adjoint=adjoint
    )


def _dense_matrix(bands: Tensor, count: int, size: int, lower: bool) -> Tensor:
    """Builds triangular matrices from ``count`` diagonals, as the sum of one ``size`` x ``size`` matrix per diagonal.

    ``lower`` tells whether the diagonals lie below the main diagonal or above it. Diagonal i is i away from it.
    """
    diag = public_names()["linalg.diag"]
    matrices = []
    for i in range(count):
        if lower:
            matrices.append(diag(bands[..., i, i:], k=-i))  # type: ignore[index]
        else:
            matrices.append(diag(bands[..., count - 1 - i, : size - i], k=i))  # type: ignore[index]
    total, *others = matrices
    for matrix_of_diagonal in others:
        total = bind.add(total, matrix_of_diagonal)
    return total


# -- eigenvalues of symmetric tridiagonal matrices


def _eigen_types(
    alpha: TensorType, beta: TensorType, select: str, limits: Any, count: Any
) -> tuple[TensorType, TensorType]:
    """Checks the diagonals of a tridiagonal matrix, and returns the types of ``count`` eigenvalues and eigenvectors.

    Args:
      alpha, beta: the types of the main diagonal and of the outer one: floating vectors.
      select, limits: which eigenvalues are computed.
      count: the number of eigenvalues.
    """
    # ``select`` and ``limits`` aren't needed here, but all rules of the op receive them
    require_same_dtype((alpha, beta), ("alpha", "beta"))
    require_dtype(alpha, (float32, float64), "alpha")
    if len(alpha.shape) != 1 or len(beta.shape) != 1:
        raise ArgumentError(
            f"alpha and beta must be vectors, but got shapes {brackets(alpha.shape)} and {brackets(beta.shape)}"
        )
    return TensorType((count,), alpha.dtype), TensorType((alpha.shape[0], count), alpha.dtype)


def _eigen_array(
    alpha: np.ndarray, beta: np.ndarray, select: str, limits: Any, count: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the selected eigenvalues and eigenvectors of a symmetric tridiagonal matrix by SciPy.

    Args:
      alpha, beta: the main diagonal and the outer diagonal.
      select, limits: which eigenvalues, as ``scipy.linalg.eigh_tridiagonal`` takes them.
      count: the number of eigenvalues, which only the type rule needs.
    """
    import scipy.linalg

    if not len(alpha):  # SciPy rejects an empty matrix
        return alpha, np.zeros((0, 0), alpha.dtype)
    result = scipy.linalg.eigh_tridiagonal(alpha, beta, select=select, select_range=limits)
    return tuple(array.astype(alpha.dtype) for array in result)  # type: ignore[return-value]


@host_primitive(
    tf_name="EighTridiagonal", type=_eigen_types, numpy=_eigen_array, why_not={"vjp": "TensorFlow has none"}
)
def tridiagonal_eig(alpha: Tensor, beta: Tensor, select: str, limits: Any, count: Any) -> Any:
    """Returns the selected ``count`` eigenvalues and their vectors."""
    return (alpha, beta), {"select": select, "limits": limits, "count": count}


@export("linalg.eigh_tridiagonal")
def eigh_tridiagonal(
    alpha: Any,
    beta: Any,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: Any = None,
    name: str | None = None,
) -> Any:
    """Returns the eigenvalues of a symmetric tridiagonal matrix in ascending order, and optionally its eigenvectors.

    Args:
      alpha: float32 or float64 tensor of shape (n,), the main diagonal.
      beta: tensor of the same dtype, shape (n - 1,), the diagonal next to it.
      eigvals_only: give the eigenvalues alone.
      select: "a" for all, "i" for those whose indices are in ``select_range``, "v" for those whose values are.
      select_range: two numbers, both included for "i"; the first excluded for "v".
      tol: accepted; eigenvalues come to full precision.

    Returns:
      A tensor of shape (k,); without ``eigvals_only`` also the vectors as columns, shape (n, k). They have no gradient.

    Raises:
      ValueError: ``select`` is not "a", "i" or "v", or ``select_range`` is missing for "i" or "v".

    >>> import tvtf as tf
    >>> tf.linalg.eigh_tridiagonal([2., 2.], [1.]).numpy()
    array([1., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/eigh_tridiagonal
    """
    if select not in ("a", "i", "v"):
        raise ValueError(f"'select must have a value in {{'a', 'i', 'v'}}. Received: {select!r}")
    if select != "a" and select_range is None:
        raise ValueError(f"select_range must be given where select is {select!r}")
    main, off_diagonal = convert_to_tensor(alpha), convert_to_tensor(beta)
    if main.dtype is not off_diagonal.dtype:
        raise ValueError(
            f"'alpha' and 'beta' must have the same type. Received: {main.dtype.name}, {off_diagonal.dtype.name}"
        )
    limits = None if select == "a" else tuple(select_range)
    count = main._type.shape[0] if select == "a" else limits[1] - limits[0] + 1 if select == "i" else unknown_dim()  # type: ignore[index]
    values, vectors = bind.tridiagonal_eig(main, off_diagonal, select=select, limits=limits, count=count)
    return values if eigvals_only else (values, vectors)
