"""Diagonal operators."""

from __future__ import annotations

from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    as_parameter,
    column,
    conjugate_if,
    dims_of,
    imaginary,
    magnitude,
    max_min_ratio,
    maybe_adjoint,
    product,
    real,
    require_rank,
    to_dtype,
    total,
    zeros,
)
from tvtf.composites.linear.operator import LinearOperator, checked, public
from tvtf.core.primitive import export
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.lapack import diagonal_matrix
from tvtf.ops.matrix_diag import diag_part, set_diag
from tvtf.ops.rules import bind

SINGULAR = "Singular operator:  Diagonal contained zero values."


def added_to_diagonal(x: Tensor, diag: Tensor) -> Tensor:
    """Adds to the main diagonal of ``x``, whose shape is also that of the result."""
    return set_diag(x, diag_part(x) + diag)


def assert_no_zeros(x: Any, message: str) -> Any:
    sizes = magnitude(x)
    return checked("less", zeros((), sizes.dtype), sizes, message=message)


def assert_real(x: Any, message: str) -> Any:
    tensor = convert_to_tensor(x)
    if tensor.dtype.is_complex:
        return checked("equal", zeros((), real(tensor).dtype), imaginary(tensor), message=message)
    return None


@export("linalg.LinearOperatorDiag")
class LinearOperatorDiag(LinearOperator):
    """Diagonal matrices with given main diagonals.

    Args:
      diag: floating or complex tensor of shape (..., n).
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      ValueError: ``diag`` is a scalar, or a hint contradicts the form.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorDiag([1., -1.])
    >>> operator.matvec([3., 4.]).numpy(), operator.solvevec([3., 4.]).numpy()
    (array([ 3., -4.], dtype=float32), array([ 3., -4.], dtype=float32))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorDiag
    """

    _matrix_ranks = {"diag": 1}

    def __init__(
        self,
        diag: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        """Creates an operator from its diagonals; real diagonals imply that it is self-adjoint."""
        self._diag = as_parameter(diag)
        require_rank(self._diag, 1, f"Argument diag must have at least 1 dimension.  Found: {self._diag!s}")
        text = "A real diagonal operator is always self adjoint."
        is_self_adjoint = hints.implied(not self._diag.dtype.is_complex, is_self_adjoint, text)
        is_square = hints.always(is_square, True, "Only square diagonal operators currently supported.")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(self._diag.dtype, None, *known, name)

    @property
    def diag(self) -> Any:
        return self._diag

    def _dims(self) -> tuple[Dim, ...]:
        dims = dims_of(self._diag)
        return (*dims, dims[-1])

    def _linop_adjoint(self) -> LinearOperator:
        return LinearOperatorDiag(conjugate_if(self.diag, True), **hints.of(self))

    def _linop_inverse(self) -> LinearOperator:
        return LinearOperatorDiag(1.0 / self.diag, **hints.of(self))

    def _linop_cholesky(self) -> LinearOperator:
        return LinearOperatorDiag(bind.sqrt(convert_to_tensor(self.diag)), **hints.every(True))

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        return self._combine_diagonals(right, lambda own, other: own * other) or super()._linop_matmul(right)

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        return self._combine_diagonals(right, lambda own, other: other / own) or super()._linop_solve(right)

    def _combine_diagonals(self, right: LinearOperator, operation: Any) -> LinearOperator | None:
        """Multiplies the diagonal operator by ``right``, or solves, by the elementwise ``operation``.

        Returns None unless ``right`` is a diagonal, scaled identity or lower triangular operator.
        """
        known = hints.of_commuting(self, right)
        if isinstance(right, LinearOperatorDiag):
            return LinearOperatorDiag(operation(self.diag, right.diag), **known)
        if isinstance(right, public("LinearOperatorScaledIdentity")):
            return LinearOperatorDiag(operation(self.diag, column(right.multiplier)), **known)  # type: ignore[attr-defined]
        if isinstance(right, public("LinearOperatorLowerTriangular")):
            lower = operation(column(self.diag), right.to_dense())
            return type(right)(lower, **known | {"is_positive_definite": None})  # type: ignore[no-any-return,arg-type]
        return None

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self.diag, SINGULAR)

    def _assert_positive_definite(self) -> Any:
        text = "Real diagonal operator had non-positive diagonal entries, thus was not positive definite."
        if self.dtype.is_complex:
            text = "Diagonal operator had diagonal entries with non-positive real part, thus was not positive definite."
        return checked("positive", real(self.diag), message=text)

    def _assert_self_adjoint(self) -> Any:
        text = "This diagonal operator contained non-zero imaginary values.   Thus it was not self-adjoint."
        return assert_real(self.diag, text)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return column(conjugate_if(self.diag, adjoint)) * maybe_adjoint(x, adjoint_arg)

    def _matvec(self, x: Any, adjoint: bool = False) -> Tensor:
        return conjugate_if(self.diag, adjoint) * x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return maybe_adjoint(rhs, adjoint_arg) / column(conjugate_if(self.diag, adjoint))

    def _determinant(self) -> Tensor:
        return product(convert_to_tensor(self.diag))

    def _log_abs_determinant(self) -> Tensor:
        return to_dtype(total(bind.log(magnitude(self.diag))), self.dtype)

    def _to_dense(self) -> Tensor:
        return diagonal_matrix(convert_to_tensor(self.diag))

    def _diag_part(self) -> Tensor:
        return self.diag  # type: ignore[no-any-return]

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return added_to_diagonal(x, convert_to_tensor(self.diag))

    def _eigvals(self) -> Tensor:
        return convert_to_tensor(self.diag)

    def _cond(self) -> Tensor:
        return max_min_ratio(magnitude(self.diag))
