"""Circulant operators, given by their spectrum, and Toeplitz operators, which are parts of circulant ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    as_parameter,
    broadcast,
    column,
    conjugate_if,
    dims_of,
    imaginary,
    magnitude,
    max_min_ratio,
    maybe_adjoint,
    numbers,
    ones,
    product,
    real,
    require_rank,
    shape_tensor,
    to_dtype,
    total,
)
from tvtf.composites.linear.diagonal import assert_no_zeros, assert_real
from tvtf.composites.linear.operator import LinearOperator, checked
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import Dim, simplify_dim, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, complex64, complex128, float64
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.lapack import swapped
from tvtf.ops.rules import bind, zeros_like


def _to_complex(x: Any) -> Tensor:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_complex:
        return tensor
    return cast(tensor, complex128 if tensor.dtype is float64 else complex64)  # type: ignore[no-any-return]


def _fourier_transform(x: Tensor, depth: int, inverse: bool = False) -> Tensor:
    return bind.fourier(x, axes=tuple(range(-depth, 0)), inverse=inverse, norm="backward")  # type: ignore[no-any-return]


class _Circulant(LinearOperator):
    """The base class of circulant operators with one or more levels of blocks."""

    _matrix_ranks = {"spectrum": 1}
    _depth = 1

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = complex64,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = True,
        name: str | None = None,
    ) -> None:
        """Creates a circulant operator from its spectrum; a real spectrum implies that it is self-adjoint."""
        self._spectrum = as_parameter(spectrum)
        if len(dims_of(self._spectrum)) < self._depth:
            message = f"Argument `spectrum` must have at least {self._depth} dimensions. Received: {self._spectrum}."
            raise ValueError(message)
        message = (
            "A real spectrum always corresponds to a self-adjoint operator. Expected argument `is_self_adjoint` to be True "
            f"when `spectrum.dtype.is_complex` = True. Received: {is_self_adjoint}."
        )
        is_self_adjoint = hints.implied(not self._spectrum.dtype.is_complex, is_self_adjoint, message)
        message = f"A [[nested] block] circulant operator is always square. Expected argument `is_square` to be True. Received: {is_square}."
        is_square = hints.always(is_square, True, message)
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(as_dtype(input_output_dtype), None, *known, name or type(self).__name__)

    @property
    def spectrum(self) -> Any:
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The number of levels of blocks."""
        return self._depth

    @property
    def block_shape(self) -> Any:
        """The number of blocks on each level."""
        return self.spectrum.shape[-self._depth :]

    def block_shape_tensor(self) -> Tensor:
        """Returns `block_shape` as a vector."""
        return shape_tensor(self._block_dims())

    def _block_dims(self) -> tuple[Dim, ...]:
        return dims_of(self.spectrum)[-self._depth :]

    def _dims(self) -> tuple[Dim, ...]:
        size = size_of(self._block_dims())
        return (*dims_of(self.spectrum)[: -self._depth], size, size)

    def _like(self, spectrum: Any, **known: Any) -> LinearOperator:
        return type(self)(spectrum, **known)

    def _linop_adjoint(self) -> LinearOperator:
        return self._like(conjugate_if(self.spectrum, True), **hints.of(self))

    def _linop_inverse(self) -> LinearOperator:
        return self._like(1.0 / self.spectrum, input_output_dtype=self.dtype, **hints.of(self))

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        if type(right) is not type(self):
            return super()._linop_matmul(right)
        return self._like(self.spectrum * right.spectrum, **hints.of_commuting(self, right))  # type: ignore[attr-defined]

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        if type(right) is not type(self):
            return super()._linop_solve(right)
        return self._like(right.spectrum / self.spectrum, **hints.of_commuting(self, right))  # type: ignore[attr-defined]

    def convolution_kernel(self, name: str = "convolution_kernel") -> Tensor:
        """Returns the first column in the form of blocks: the inverse Fourier transform of the spectrum."""
        return to_dtype(_fourier_transform(_to_complex(self.spectrum), self._depth, inverse=True), self.dtype)

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Any:
        """Checks at run time that the spectrum's convolution kernel is real."""
        part = magnitude(imaginary(self.convolution_kernel()))
        epsilon = float(np.finfo(part.dtype.np).eps)
        limit = to_dtype(self.domain_dimension_tensor(), part.dtype) * epsilon
        return checked("less", part, limit, message="Spectrum was not Hermitian")

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self.spectrum, "Singular operator:  Spectrum contained zero values.")

    def _assert_positive_definite(self) -> Any:
        message = "Not positive definite:  Real part of spectrum was not all positive."
        return checked("positive", real(self.spectrum), message=message)

    def _assert_self_adjoint(self) -> Any:
        message = "Not self-adjoint:  The spectrum contained non-zero imaginary part."
        return assert_real(self.spectrum, message)

    def _apply_in_frequency_domain(
        self, x: Tensor, adjoint: bool, function: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Multiplies ``x`` by a circulant operator, or solves, by Fourier transforms of the columns of ``x``.

        ``function(spectrum of the columns, spectrum of the operator)`` multiplies or divides: a product with a circulant
        matrix is a product of spectra. The result is transformed back.
        """
        depth = self._depth
        blocks = self._block_dims()
        spectrum = conjugate_if(_to_complex(self.spectrum), adjoint)
        spectrum_batch = dims_of(spectrum)[:-depth]
        operator_spectrum = bind.reshape(spectrum, shape=(*spectrum_batch, 1, *blocks))  # the same for all columns
        *batch, size, column_count = dims_of(x)
        columns = bind.reshape(swapped(cast(x, spectrum.dtype)), shape=(*batch, column_count, *blocks))
        new_spectrum = function(_fourier_transform(columns, depth), operator_spectrum)
        result = _fourier_transform(new_spectrum, depth, inverse=True)
        flat = bind.reshape(result, shape=(*dims_of(result)[:-depth], size))
        return to_dtype(swapped(flat), self.dtype)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._apply_in_frequency_domain(maybe_adjoint(x, adjoint_arg), adjoint, bind.multiply)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._apply_in_frequency_domain(maybe_adjoint(rhs, adjoint_arg), adjoint, bind.divide)

    def _flat_spectrum(self) -> Tensor:
        spectrum = convert_to_tensor(self.spectrum)
        return bind.reshape(spectrum, shape=self._dims()[:-1])  # type: ignore[no-any-return]

    def _eigvals(self) -> Tensor:
        return self._flat_spectrum()

    def _cond(self) -> Tensor:
        return max_min_ratio(magnitude(self._flat_spectrum()))

    def _determinant(self) -> Tensor:
        return to_dtype(product(self._flat_spectrum()), self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return to_dtype(total(bind.log(magnitude(self._flat_spectrum()))), self.dtype)

    def _trace(self) -> Tensor:
        flat = real(self._flat_spectrum()) if self.is_self_adjoint else self._flat_spectrum()
        return to_dtype(total(flat), self.dtype)

    def _diag_part(self) -> Tensor:
        size = to_dtype(self.domain_dimension_tensor(), self.dtype)
        return column(self.trace() / size) * ones(self._dims()[-1:], self.dtype)


@export("linalg.LinearOperatorCirculant")
class LinearOperatorCirculant(_Circulant):
    """Circulant matrices, whose products are circular convolutions with the inverse Fourier transform of ``spectrum``.

    Args:
      spectrum: floating or complex tensor of shape (..., n): the eigenvalues.
      input_output_dtype: the dtype of the operands.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorCirculant([6., 4., 4.], tf.float32)
    >>> operator.matvec([1., 1., 1.]).numpy(), operator.determinant().numpy()
    (array([6., 6., 6.], dtype=float32), np.float32(96.0))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorCirculant
    """


@export("linalg.LinearOperatorCirculant2D")
class LinearOperatorCirculant2D(_Circulant):
    """Block circulant matrices with circulant blocks; the spectrum has shape (..., blocks, block size).

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorCirculant2D([[2., 2.], [2., 2.]], tf.float32)
    >>> operator.trace().numpy(), operator.block_shape
    (np.float32(8.0), TensorShape([2, 2]))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorCirculant2D
    """

    _matrix_ranks = {"spectrum": 2}
    _depth = 2


@export("linalg.LinearOperatorCirculant3D")
class LinearOperatorCirculant3D(_Circulant):
    """Circulant matrices with three levels of blocks; the spectrum has shape (..., n0, n1, n2).

    >>> import tvtf as tf
    >>> tf.linalg.LinearOperatorCirculant3D(tf.ones([2, 2, 2])).shape
    TensorShape([8, 8])

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorCirculant3D
    """

    _matrix_ranks = {"spectrum": 3}
    _depth = 3


@export("linalg.LinearOperatorToeplitz")
class LinearOperatorToeplitz(LinearOperator):
    """Matrices that are constant along their diagonals; products use the Fourier transform.

    Args:
      col: floating or complex tensor of shape (..., n): the first column.
      row: the first row, in the same form; its first element is not used.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      ValueError: an argument is a scalar, or their lengths differ.

    >>> import tvtf as tf
    >>> tf.linalg.LinearOperatorToeplitz([1., 2., 3.], [1., -4., -9.]).to_dense().numpy()
    array([[ 1., -4., -9.],
           [ 2.,  1., -4.],
           [ 3.,  2.,  1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorToeplitz
    """

    _matrix_ranks = {"col": 1, "row": 1}

    def __init__(
        self,
        col: Any,
        row: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        """Creates a Toeplitz operator from its first column and its first row.

        Raises:
          ValueError: the column or row is a scalar, both have different sizes, or ``is_square`` is False.
        """
        self._row, self._col = as_parameter(row), as_parameter(col)
        for argument, parameter in (("row", self._row), ("col", self._col)):
            require_rank(parameter, 1, f"Argument {argument} must have at least 1 dimension.  Found: {parameter}")
        sizes = {self._row.shape[-1], self._col.shape[-1]} - {None}
        if len(sizes) > 1:
            raise ValueError("Expected square matrix, got row and col with mismatched dimensions.")
        is_square = hints.always(is_square, True, "Only square Toeplitz operators currently supported.")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(self._row.dtype, None, *known, name)

    @property
    def col(self) -> Any:
        return self._col

    @property
    def row(self) -> Any:
        return self._row

    def _dims(self) -> tuple[Dim, ...]:
        dims = broadcast(dims_of(self.row), dims_of(self.col))
        return (*dims, dims[-1])

    def _broadcast_col_and_row(self) -> tuple[Tensor, Tensor]:
        shape = self._dims()[:-1]
        return tuple(bind.broadcast_to(convert_to_tensor(x), shape=shape) for x in (self.col, self.row))  # type: ignore[return-value]

    def _assert_self_adjoint(self) -> Any:
        message = "row and col are not the same, and so this operator is not self-adjoint."
        return checked("equal", self.row, self.col, message=message)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        """Multiplies the Toeplitz matrix by ``x``, by a product with a circulant matrix of twice the size.

        The circulant matrix has the Toeplitz matrix as its upper left block. Its first column is ``col``, a zero, and
        ``row`` reversed without the first element. ``x`` is padded with zeros.

        Args:
          x: the matrix of shape (..., domain, k).
          adjoint: whether to multiply by the operator's conjugate transpose.
          adjoint_arg: whether to multiply the conjugate transpose of ``x``.
        """
        # Both have the same batch dims, as in TensorFlow.
        col = convert_to_tensor(self.col)
        row = convert_to_tensor(self.row)
        x = maybe_adjoint(x, adjoint_arg)
        reversed_row = public_names()["reverse"](row[..., 1:], axis=[-1])  # type: ignore[index]
        kernel = bind.concat(col, zeros_like(col[..., :1]), reversed_row, axis=col.ndim - 1)  # type: ignore[index]
        spectrum = _fourier_transform(_to_complex(kernel), 1)
        circulant = LinearOperatorCirculant(spectrum, self.dtype)
        padded = bind.concat(x, zeros_like(x), axis=x.ndim - 2)
        return circulant.matmul(padded, adjoint=adjoint)[..., : self._dims()[-1], :]  # type: ignore[no-any-return]

    def _trace(self) -> Tensor:
        return to_dtype(self.domain_dimension_tensor(), self.dtype) * self.col[..., 0]  # type: ignore[no-any-return]

    def _diag_part(self) -> Tensor:
        return self.col[..., :1] * ones(self._dims()[-1:], self.dtype)  # type: ignore[no-any-return]

    def _to_dense(self) -> Tensor:
        """Returns the dense Toeplitz matrices: each element is gathered from the vector of the diagonals' values."""
        col, row = self._broadcast_col_and_row()
        size = self._dims()[-1]
        reversed_col = public_names()["reverse"](col, axis=[-1])
        elements = bind.concat(reversed_col, row[..., 1:], axis=col.ndim - 1)  # type: ignore[index]
        # The element at (i, j) lies on diagonal j - i, whose value is at position size - 1 + j - i.
        positions = numbers(size)[None, :] + numbers(size, simplify_dim(size - 1), -1)[:, None]  # type: ignore[index]
        return gather(elements, positions, axis=-1)
