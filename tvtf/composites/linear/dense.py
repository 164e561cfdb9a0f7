"""Operators that store their matrix: full and lower triangular ones."""

from __future__ import annotations

from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    as_parameter,
    broadcast_batches,
    dims_of,
    magnitude,
    matmul,
    maybe_adjoint,
    product,
    require_rank,
    total,
)
from tvtf.composites.linear.diagonal import SINGULAR, LinearOperatorDiag, assert_no_zeros
from tvtf.composites.linear.operator import LinearOperator
from tvtf.core.primitive import export
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import complex64, complex128, float16, float32, float64
from tvtf.ops.lapack import diagonal, lower_part
from tvtf.ops.rules import bind


@export("linalg.LinearOperatorFullMatrix")
class LinearOperatorFullMatrix(LinearOperator):
    """The operator of given matrices.

    Args:
      matrix: floating or complex tensor of shape (..., m, n).
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      TypeError: the dtype is not floating or complex.
      ValueError: the tensor has fewer than two dims.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorFullMatrix([[2., 1.], [0., 4.]])
    >>> operator.solvevec([3., 4.]).numpy()
    array([1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorFullMatrix
    """

    _matrix_ranks = {"matrix": 2}

    def __init__(
        self,
        matrix: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        """Creates an operator from a batch of matrices, after checks of their dtype and rank."""
        self._matrix = as_parameter(matrix)
        allowed = [float16, float32, float64, complex64, complex128]
        if self._matrix.dtype not in allowed:
            raise TypeError(f"Argument `matrix` must have dtype in {allowed}. Received: {self._matrix.dtype}.")
        require_rank(self._matrix, 2, f"Argument `matrix` must have at least 2 dimensions. Received: {self._matrix}.")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(self._matrix.dtype, None, *known, name)

    @property
    def matrix(self) -> Any:
        return self._matrix

    def _dims(self) -> tuple[Dim, ...]:
        return dims_of(self._matrix)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return matmul(self.matrix, x, adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._dense_solve(rhs, adjoint, adjoint_arg)

    def _to_dense(self) -> Tensor:
        return self.matrix  # type: ignore[no-any-return]


@export("linalg.LinearOperatorLowerTriangular")
class LinearOperatorLowerTriangular(LinearOperator):
    """The operator of the lower triangles of given matrices; elements above the diagonal are not read.

    Args:
      tril: floating or complex tensor of shape (..., n, n).
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      ValueError: the tensor has fewer than two dims, or ``is_square`` is False.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorLowerTriangular([[2., 9.], [1., 4.]])
    >>> operator.to_dense().numpy(), operator.determinant().numpy()
    (array([[2., 0.],
           [1., 4.]], dtype=float32), np.float32(8.0))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorLowerTriangular
    """

    _matrix_ranks = {"tril": 2}

    def __init__(
        self,
        tril: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        """Creates an operator from the lower triangles of square matrices."""
        message = "Only square lower triangular operators supported at this time."
        is_square = hints.always(is_square, True, message)
        self._tril = as_parameter(tril)
        require_rank(self._tril, 2, f"Argument tril must have at least 2 dimensions.  Found: {self._tril!s}")
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(self._tril.dtype, None, *known, name)

    @property
    def tril(self) -> Any:
        return self._tril

    def _dims(self) -> tuple[Dim, ...]:
        return dims_of(self._tril)

    def _diag_part(self) -> Tensor:
        return diagonal(convert_to_tensor(self.tril))

    def _linop_matmul(self, right: LinearOperator) -> LinearOperator:
        if not isinstance(right, LinearOperatorDiag):
            return super()._linop_matmul(right)
        known = hints.of_commuting(right, self) | {"is_positive_definite": None}
        return LinearOperatorLowerTriangular(self.to_dense() * convert_to_tensor(right.diag)[..., None, :], **known)

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._diag_part(), SINGULAR)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return matmul(self.to_dense(), x, adjoint, adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        lower, rhs = broadcast_batches(self.to_dense(), maybe_adjoint(rhs, adjoint_arg))
        return bind.matrix_triangular_solve(maybe_adjoint(lower, adjoint), rhs, lower=not adjoint)  # type: ignore[no-any-return]

    def _determinant(self) -> Tensor:
        return product(self._diag_part())

    def _log_abs_determinant(self) -> Tensor:
        return total(bind.log(magnitude(self._diag_part())))

    def _to_dense(self) -> Tensor:
        return lower_part(convert_to_tensor(self.tril))

    def _eigvals(self) -> Tensor:
        return self._diag_part()
