"""Orthogonal and spectral decompositions: QR, singular values, eigenvalues."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import complex64, complex128, float16, float32
from tvtf.ops.elementwise import conj
from tvtf.ops.lapack import (
    MATRICES,
    adjoint,
    as_dtype_of,
    below_diagonal,
    diagonal,
    diagonal_matrix,
    lapack_primitive,
    less,
    lower_part,
    only_diagonal,
    or_zeros,
    product,
    products,
    require_matrices,
    samples_of,
    scaled,
    scaled_columns,
    singled,
    square_type,
    upper_part,
    with_lapack_error,
)
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind, number, ones_like, optional_flag

# -- QR


def _are_equal(a: Dim, b: Dim) -> bool:
    """Returns whether two dims are equal, also if they are symbolic."""
    return a is b or a == b


def _smaller_dim(rows: Dim, columns: Dim) -> Dim:
    """Returns the smaller of two dims, which must be known unless they are equal."""
    if isinstance(rows, int) and isinstance(columns, int):
        return min(rows, columns)
    if _are_equal(rows, columns):
        return rows
    raise unknown_size(ValueError("the decomposition needs matrices of known size to tell its results'"))


def _qr_types(x: TensorType, full_matrices: bool) -> tuple[TensorType, TensorType]:
    """Returns the types of q and r of a QR decomposition."""
    require_matrices(x, domain=(*MATRICES, float16))
    *batch, rows, columns = x.shape
    size = rows if full_matrices else _smaller_dim(rows, columns)
    return TensorType((*batch, rows, size), x.dtype), TensorType((*batch, size, columns), x.dtype)


def _times_inverse_adjoint(x: Tensor, r: Tensor) -> Tensor:
    """Returns ``x @ inv(adjoint(r))`` for an upper triangular ``r``."""
    return adjoint(bind.matrix_triangular_solve(r, adjoint(x), lower=False))


def _tall_qr_grad(q: Tensor, r: Tensor, q_cotangent: Tensor, r_cotangent: Tensor) -> Tensor:
    """Returns the cotangent of a QR decomposition's input for matrices with at least as many rows as columns.

    ``q_cotangent`` and ``r_cotangent`` are the cotangents of q and r.

    Source: https://arxiv.org/abs/2009.10071
    """
    projected_q_cotangent = product(adjoint(q), q_cotangent)
    projected_r_cotangent = product(r, adjoint(r_cotangent))
    # The part of the cotangent within the column space of q, and the part outside it.
    q_skew = less(projected_q_cotangent, adjoint(projected_q_cotangent))
    r_skew = less(projected_r_cotangent, adjoint(projected_r_cotangent))
    lower_skew = lower_part(bind.add(q_skew, r_skew))
    within_columns = product(q, bind.add(r_cotangent, _times_inverse_adjoint(lower_skew, r)))
    q_cotangent_outside = less(q_cotangent, product(q, projected_q_cotangent))
    outside_columns = _times_inverse_adjoint(q_cotangent_outside, r)
    x_cotangent = bind.add(within_columns, outside_columns)
    if not q.dtype.is_complex:
        return x_cotangent
    phases = only_diagonal(less(projected_r_cotangent, adjoint(projected_q_cotangent)))
    zeros = bind.real(scaled(phases, 0))
    imaginary_part = less(phases, bind.complex(bind.real(phases), zeros))
    correction = _times_inverse_adjoint(product(q, adjoint(imaginary_part)), r)
    return bind.add(x_cotangent, correction)


def _qr_vjp(cotangent: Any, y: Any, x: Tensor, full_matrices: bool) -> Tensor:
    """Returns the cotangent of a QR decomposition's input.

    For wide matrices it is computed from their left square part, as in TensorFlow.
    """
    q, r = y
    q_cotangent, r_cotangent = cotangent
    q_cotangent = or_zeros(q_cotangent, q)
    r_cotangent = upper_part(or_zeros(r_cotangent, r))
    rows, columns = x._type.shape[-2:]
    if _are_equal(rows, columns):
        return _tall_qr_grad(q, r, q_cotangent, r_cotangent)
    if rows > columns:
        if full_matrices:
            raise NotImplementedError(
                "QrGrad not implemented when nrows > ncols and full_matrices is true. "
                f"Received r.shape={r.shape} with nrows={rows}and ncols={columns}."
            )
        return _tall_qr_grad(q, r, q_cotangent, r_cotangent)
    # x is [square, right], and its QR decomposition is that of the square part: r = [r of the square part, q^H right]
    right, right_r_cotangent = x[..., :, rows:], r_cotangent[..., :, rows:]
    square_r, square_r_cotangent = r[..., :, :rows], r_cotangent[..., :, :rows]
    square_q_cotangent = bind.add(q_cotangent, product(right, adjoint(right_r_cotangent)))
    square_cotangent = _tall_qr_grad(q, square_r, square_q_cotangent, square_r_cotangent)
    right_cotangent = product(q, right_r_cotangent)
    return bind.concat(square_cotangent, right_cotangent, axis=x.ndim - 1)


@lapack_primitive(
    tf_name="Qr",
    type=_qr_types,
    numpy=lambda x, full_matrices: tuple(np.linalg.qr(singled(x), "complete" if full_matrices else "reduced")),
    vjp=_qr_vjp,
    samples=lambda: [
        *samples_of((3, 3), (2, 4, 2), (2, 3), full_matrices=False),
        *samples_of((2, 2), (2, 3), full_matrices=True),
        *samples_of((4, 2), full_matrices=True, gradient=False),
    ],
)
def qr_factors(x: Tensor, full_matrices: bool) -> Any:
    """Factors ``x`` into orthonormal columns and an upper triangle."""
    return (x,), {"full_matrices": full_matrices}


class Qr(NamedTuple):
    """The result of `tf.linalg.qr`."""

    q: Tensor
    r: Tensor


@export("linalg.qr")
@attributes(full_matrices=bool)
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Qr:
    """Returns the QR decomposition of each matrix: ``input = q @ r``, with orthonormal columns in q and an upper triangular r.

    Args:
      input: float32, float64, complex64 or complex128 tensor of shape (..., m, n).
      full_matrices: give all m columns of q instead of min(m, n).

    Returns:
      A named tuple of ``q``, shape (..., m, k), and ``r``, shape (..., k, n).

    >>> import tvtf as tf
    >>> q, r = tf.linalg.qr([[0., 1.], [4., 2.]])
    >>> r.numpy()
    array([[-4., -2.],
           [ 0., -1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/qr
    """
    return Qr(*bind.qr_factors(convert_to_tensor(input), full_matrices=full_matrices))


# -- singular values


def _svd_types(x: TensorType, full_matrices: bool) -> tuple[TensorType, TensorType, TensorType]:
    """Returns the types of a singular value decomposition's results.

    They are the singular values, the left and the right singular vectors. Singular values are real.
    """
    require_matrices(x)
    *batch, rows, columns = x.shape
    count = _smaller_dim(rows, columns)  # of singular values
    left_count, right_count = (rows, columns) if full_matrices else (count, count)
    values = TensorType((*batch, count), x.dtype.real_dtype)
    left_vectors = TensorType((*batch, rows, left_count), x.dtype)
    right_vectors = TensorType((*batch, columns, right_count), x.dtype)
    return values, left_vectors, right_vectors


def _svd_array(x: np.ndarray, full_matrices: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns singular values, left and right singular vectors as columns."""
    u, s, vh = _svd_or_nan(x, lambda x: np.linalg.svd(x, full_matrices=full_matrices))
    return s, u, np.conj(np.swapaxes(vh, -1, -2))


def _svd_or_nan(x: np.ndarray, decompose: Any) -> list[np.ndarray]:
    """Computes an SVD by ``decompose``. Matrices with NaN or infinities give NaN, as in TensorFlow.

    LAPACK gets zeros in place of such matrices, because it may never return for them.
    """
    is_finite = np.isfinite(x).all((-2, -1), keepdims=True)
    finite_x = np.where(is_finite, x, x.dtype.type(0))
    results = []
    for factor in with_lapack_error("Singular values did not converge.", decompose, finite_x):
        is_valid = is_finite if factor.ndim == x.ndim else is_finite[..., 0]  # singular values have one axis less
        results.append(np.where(is_valid, factor, factor.dtype.type(np.nan)))
    return results


def _reciprocal_differences(values: Tensor) -> Tensor:
    """Returns the matrix with ``1 / (values[j] - values[i])`` at (i, j) and zeros on its diagonal."""
    *batch, size = values._type.shape
    differences = less(bind.reshape(values, shape=(*batch, 1, size)), bind.reshape(values, shape=(*batch, size, 1)))
    # Ones are added on the diagonal before the reciprocal is taken, and removed after it.
    on_diagonal = only_diagonal(ones_like(differences))
    return bind.multiply(_reciprocal(bind.add(differences, on_diagonal)), less(number(1, differences), on_diagonal))


def _reciprocal(x: Tensor) -> Tensor:
    """Returns ``1 / x``, but a small number where x is close to zero, as in TensorFlow."""
    return bind.divide(x, bind.add(bind.multiply(x, x), number(1e-20, x)))


def _svd_vjp(cotangent: Any, y: Any, x: Tensor, full_matrices: bool) -> Tensor:
    """Returns the cotangent of an SVD's input.

    For matrices with more rows than columns it is computed from the SVD of the adjoint.
    """
    s, u, v = y
    s_cotangent, u_cotangent, v_cotangent = (
        or_zeros(output_cotangent, output) for output_cotangent, output in zip(cotangent, y)
    )
    rows, columns = x._type.shape[-2:]
    if _are_equal(rows, columns):
        return _wide_svd_grad(s, u, v, s_cotangent, u_cotangent, v_cotangent)
    if full_matrices and abs(rows - columns) > 1:
        raise NotImplementedError(
            "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True. "
            f"Received: m={rows} and n={columns} from op input={x} with shape={x.shape}."
        )
    if rows > columns:
        return adjoint(_wide_svd_grad(s, v, u, s_cotangent, v_cotangent, u_cotangent))
    return _wide_svd_grad(s, u, v, s_cotangent, u_cotangent, v_cotangent)


def _wide_svd_grad(
    s: Tensor, u: Tensor, v: Tensor, s_cotangent: Tensor, u_cotangent: Tensor, v_cotangent: Tensor
) -> Tensor:
    """Returns the cotangent of an SVD's input, of at most as many rows as columns.

    ``s_cotangent``, ``u_cotangent`` and ``v_cotangent`` are those of the singular values, and left and right vectors.

    Source: https://j-towns.github.io/papers/svd-derivative.pdf
    """
    values = as_dtype_of(s, u)
    size, (width, v_columns) = u._type.shape[-1], v._type.shape[-2:]
    first_v, first_v_cotangent = (
        (v, v_cotangent) if _are_equal(v_columns, size) else (v[..., :, :size], v_cotangent[..., :, :size])
    )
    quotients = as_dtype_of(_reciprocal_differences(bind.multiply(s, s)), u)
    projected_u_cotangent = bind.multiply(quotients, product(adjoint(u), u_cotangent))
    projected_v_cotangent = product(adjoint(first_v), first_v_cotangent)
    scaled_v_cotangent = bind.multiply(quotients, projected_v_cotangent)
    from_u = scaled_columns(bind.add(projected_u_cotangent, adjoint(projected_u_cotangent)), values)
    from_v = adjoint(scaled_columns(bind.add(scaled_v_cotangent, adjoint(scaled_v_cotangent)), values))
    middle = bind.add(diagonal_matrix(as_dtype_of(s_cotangent, u)), bind.add(from_u, from_v))
    reciprocals = as_dtype_of(_reciprocal(s), u)
    if u.dtype.is_complex:
        phases = only_diagonal(projected_v_cotangent)
        middle = bind.add(middle, scaled(adjoint(scaled_columns(less(phases, adjoint(phases)), reciprocals)), 0.5))
    grad = products(u, middle, adjoint(first_v))
    if _are_equal(size, width):
        return grad
    # What of v's cotangent is orthogonal to the first columns of v.
    outside_cotangent = less(
        adjoint(first_v_cotangent), products(adjoint(first_v_cotangent), first_v, adjoint(first_v))
    )
    if not _are_equal(v_columns, size):
        other_v, other_v_cotangent = v[..., :, size:], v_cotangent[..., :, size:]
        outside_cotangent = less(outside_cotangent, products(adjoint(first_v), other_v_cotangent, adjoint(other_v)))
    return bind.add(grad, product(scaled_columns(u, reciprocals), outside_cotangent))


@lapack_primitive(
    tf_name="Svd",
    type=_svd_types,
    numpy=_svd_array,
    vjp=_svd_vjp,
    samples=lambda: [
        *samples_of((3, 3), (2, 3, 2), (2, 4), full_matrices=False),
        *samples_of((2, 2), (2, 3), full_matrices=True),
        *samples_of((4, 2), full_matrices=True, gradient=False),
    ],
)
def svd_factors(x: Tensor, full_matrices: bool) -> Any:
    """Returns singular values in falling order, left and right singular vectors."""
    return (x,), {"full_matrices": full_matrices}


def _values_type(x: TensorType) -> TensorType:
    """Returns the type of the singular values, which are real."""
    require_matrices(x)
    return TensorType((*x.shape[:-2], _smaller_dim(*x.shape[-2:])), x.dtype.real_dtype)


def _values_vjp(cotangent: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Returns the matrices' cotangent from that of their singular values: ``u @ diag(cotangent) @ adjoint(v)``."""
    _, u, v = bind.svd_factors(x, full_matrices=False)
    return product(scaled_columns(u, as_dtype_of(cotangent, u)), adjoint(v))


@lapack_primitive(
    tf_name="Svd",
    type=_values_type,
    numpy=lambda x: _svd_or_nan(x, lambda x: (np.linalg.svd(x, compute_uv=False),))[0],
    vjp=_values_vjp,
    samples=lambda: samples_of((3, 3), (2, 3, 2), (2, 4)),
)
def singular_values(x: Tensor) -> Any:
    """Returns singular values in falling order."""
    return (x,), {}


@export("linalg.svd")
@attributes(full_matrices=bool)
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Returns the singular value decomposition of each matrix: ``tensor = u @ diag(s) @ adjoint(v)``.

    Args:
      tensor: float32, float64, complex64 or complex128 tensor of shape (..., m, n).
      full_matrices: give all m columns of u and n of v, instead of k = min(m, n).
      compute_uv: give the singular vectors, too.

    Returns:
      ``s`` of shape (..., k) in falling order, real; with ``compute_uv`` the tuple ``s, u, v``, shapes (..., m, k) and (..., n, k).
      The sign of each pair of vectors is LAPACK's, which may not be TensorFlow's.

    >>> import tvtf as tf
    >>> tf.linalg.svd([[0., 2.], [1., 0.]], compute_uv=False).numpy()
    array([2., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/svd
    """
    x = convert_to_tensor(tensor)
    if not optional_flag(compute_uv, "compute_uv"):
        return bind.singular_values(x)
    return bind.svd_factors(x, full_matrices=full_matrices)


# -- eigenvalues of Hermitian matrices


def _eigh_types(x: TensorType) -> tuple[TensorType, TensorType]:
    """Returns the types of eigenvalues, of the matrices' dtype, and of eigenvectors."""
    square_type(x)
    return TensorType(x.shape[:-1], x.dtype), x


def _eigh_array(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes eigenvalues and eigenvectors of Hermitian matrices, with TensorFlow's errors."""
    message = "Self-adjoint eigen decomposition was not successful."
    if not np.isfinite(np.tril(x)).all():  # LAPACK may never return for such a matrix
        raise ArgumentError(f"{message} The input might not be valid.")
    values, vectors = with_lapack_error(message, np.linalg.eigh, x)
    return values.astype(x.dtype), vectors


def _eigh_vjp(cotangents: Any, y: Any, x: Tensor) -> Tensor:
    """Returns the cotangent of eigh's input, folded into the lower triangle as in TensorFlow."""
    values, vectors = y
    values_cotangent, vectors_cotangent = (or_zeros(cotangent, output) for cotangent, output in zip(cotangents, y))
    rotation = bind.multiply(_reciprocal_differences(values), product(adjoint(vectors), vectors_cotangent))
    eigenbasis_cotangent = bind.add(diagonal_matrix(values_cotangent), rotation)
    return _folded_to_lower(products(vectors, eigenbasis_cotangent, adjoint(vectors)))


def _folded_to_lower(x: Tensor) -> Tensor:
    """Adds the upper triangle's conjugate to the lower triangle; of Hermitian matrices eigh reads only that."""
    symmetric = bind.add(x, adjoint(x))
    return bind.add(below_diagonal(symmetric), scaled(only_diagonal(symmetric), 0.5))


@lapack_primitive(
    type=_eigh_types,
    numpy=_eigh_array,
    vjp=_eigh_vjp,
    samples=lambda: samples_of((3, 3), (2, 2, 2)),
    tf_name="SelfAdjointEigV2",
)
def self_adjoint_eig(x: Tensor) -> Any:
    """Returns eigenvalues in ascending order and eigenvectors."""
    return (x,), {}


@export("linalg.eigh")
def eigh(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Returns eigenvalues and eigenvectors of Hermitian matrices: ``tensor @ v = v @ diag(e)``.

    Args:
      tensor: float32, float64, complex64 or complex128 tensor of shape (..., n, n), of which the lower triangle is read.

    Returns:
      ``e`` of shape (..., n) in ascending order, in the dtype of ``tensor``, and ``v`` of shape (..., n, n), vectors in columns.
      Their sign is LAPACK's, which may not be TensorFlow's. The gradient lies in the lower triangle.

    >>> import tvtf as tf
    >>> e, v = tf.linalg.eigh([[2., 0.], [0., 1.]])
    >>> e.numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/eigh
    """
    return bind.self_adjoint_eig(convert_to_tensor(tensor))


@export("linalg.eigvalsh")
def eigvalsh(tensor: Any, name: str | None = None) -> Tensor:
    """Returns the eigenvalues of Hermitian matrices in ascending order, shape (..., n, n) to (..., n); see `tf.linalg.eigh`.

    >>> import tvtf as tf
    >>> tf.linalg.eigvalsh([[2., 0.], [0., 1.]]).numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/eigvalsh
    """
    eigenvalues, _ = bind.self_adjoint_eig(convert_to_tensor(tensor))
    return eigenvalues


# -- eigenvalues


def _eig_types(x: TensorType) -> tuple[TensorType, TensorType]:
    """Returns the types of eigenvalues and eigenvectors, which are complex."""
    square_type(x)
    complex_dtype = complex64 if x.dtype in (float32, complex64) else complex128
    return TensorType(x.shape[:-1], complex_dtype), TensorType(x.shape, complex_dtype)


def _eig_array(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes eigenvalues and eigenvectors of square matrices, with TensorFlow's error."""
    return tuple(with_lapack_error("Eigen decomposition was not successful.", np.linalg.eig, x))


def _eig_vjp(cotangent: Any, y: Any, x: Tensor) -> Tensor:
    """Returns the cotangent of eig's input from the cotangents of the eigenvalues and eigenvectors.

    Source: https://arxiv.org/abs/1701.00392, eq. 4.77
    """
    values, vectors = y
    values_cotangent, vectors_cotangent = cotangent
    middle = diagonal_matrix(or_zeros(values_cotangent, values))
    if vectors_cotangent is not None:
        projected = product(adjoint(vectors), vectors_cotangent)
        lengths = bind.real(diagonal(projected))
        complex_lengths = bind.complex(lengths, scaled(lengths, 0))
        # Eigenvectors have length one: changes along them have no effect.
        along_vectors = scaled_columns(product(adjoint(vectors), vectors), complex_lengths)
        coefficients = conj(_reciprocal_differences(values))
        middle = bind.add(middle, bind.multiply(coefficients, less(projected, along_vectors)))
    x_cotangent = bind.matrix_solve(adjoint(vectors), product(middle, adjoint(vectors)))
    return as_dtype_of(x_cotangent, x)


@lapack_primitive(
    type=_eig_types,
    numpy=_eig_array,
    vjp=_eig_vjp,
    samples=lambda: samples_of((3, 3), (2, 2, 2), gradient=False),
    tf_name="Eig",
)
def general_eig(x: Tensor) -> Any:
    """Returns eigenvalues and eigenvectors."""
    return (x,), {}


@export("linalg.eig", "eig")
def eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Returns eigenvalues and eigenvectors of square matrices: ``tensor @ v = v @ diag(e)``.

    Args:
      tensor: float32, float64, complex64 or complex128 tensor of shape (..., n, n).

    Returns:
      ``e`` of shape (..., n) and ``v`` of shape (..., n, n), vectors of length one in columns, both complex. Their order and
      phase are LAPACK's, which may not be TensorFlow's.

    >>> import tvtf as tf
    >>> e, v = tf.linalg.eig([[0., 1.], [-1., 0.]])
    >>> e.numpy()
    array([0.+1.j, 0.-1.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/eig
    """
    return bind.general_eig(convert_to_tensor(tensor))


@export("linalg.eigvals", "eigvals")
def eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Returns the eigenvalues of square matrices, shape (..., n, n) to a complex tensor of shape (..., n); see `tf.linalg.eig`.

    >>> import tvtf as tf
    >>> tf.linalg.eigvals([[0., 1.], [-1., 0.]]).numpy()
    array([0.+1.j, 0.-1.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/eigvals
    """
    eigenvalues, _ = bind.general_eig(convert_to_tensor(tensor))
    return eigenvalues
