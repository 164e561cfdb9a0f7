"""Low-rank updates of operators; products and solutions cost about as much as the base operator's."""

from __future__ import annotations

from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import (
    as_parameter,
    broadcast,
    broadcast_batches,
    conjugate_if,
    dims_of,
    magnitude,
    matmul,
    maybe_adjoint,
    to_dtype,
    total,
)
from tvtf.composites.linear.diagonal import LinearOperatorDiag
from tvtf.composites.linear.identity import LinearOperatorIdentity
from tvtf.composites.linear.operator import LinearOperator
from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.log import logger
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, agree_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.lapack import diagonal
from tvtf.ops.rules import bind
from tvtf.ops.solve import cholesky_solve


@export("linalg.LinearOperatorLowRankUpdate")
class LinearOperatorLowRankUpdate(LinearOperator):
    """``L + U D V^H`` for an operator L, thin matrices U and V, and a diagonal one D.

    Args:
      base_operator: L, of shape (..., m, n).
      u: floating or complex tensor of shape (..., m, k).
      diag_update: tensor of shape (..., k), the diagonal of D; None for ones.
      v: tensor of shape (..., n, k); default: ``u``.
      is_diag_update_positive: a hint that all elements of D are positive.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: hints about the matrices.

    Raises:
      ValueError: the shapes don't fit, or a hint contradicts what follows from the operator's form.

    >>> import tvtf as tf
    >>> base = tf.linalg.LinearOperatorDiag([1., 2.], is_positive_definite=True)
    >>> operator = tf.linalg.LinearOperatorLowRankUpdate(base, [[1.], [1.]])
    >>> operator.to_dense().numpy(), operator.solvevec([3., 4.]).numpy().round(5)
    (array([[2., 1.],
           [1., 3.]], dtype=float32), array([1., 1.], dtype=float32))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorLowRankUpdate
    """

    _matrix_ranks = {"base_operator": 0, "u": 2, "diag_update": 1, "v": 2}

    def __init__(
        self,
        base_operator: Any,
        u: Any,
        diag_update: Any = None,
        v: Any = None,
        is_diag_update_positive: hints.Hint = None,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        dtype, base = base_operator.dtype, base_operator
        if diag_update is not None and is_diag_update_positive and dtype.is_complex:
            logger.warning(
                "Note: setting is_diag_update_positive with a complex dtype means that diagonal is real and positive."
            )
        if diag_update is None:
            message = "Default diagonal is the identity, which is positive.  However, user set 'is_diag_update_positive' to False."
            is_diag_update_positive = hints.always(is_diag_update_positive, True, message)
        is_symmetric = bool(base.is_self_adjoint) and v is None
        message = (
            "A = L + UDU^H, with L self-adjoint and D real diagonal.  Since UDU^H is self-adjoint, this must be a "
            "self-adjoint operator."
        )
        is_self_adjoint = hints.implied(is_symmetric and not dtype.is_complex, is_self_adjoint, message)
        self._use_cholesky = bool(base.is_positive_definite and is_symmetric and is_diag_update_positive)
        if self._use_cholesky:
            if False in (is_positive_definite, is_self_adjoint, is_non_singular):
                raise ValueError("Arguments imply this is self-adjoint positive-definite operator.")
            is_positive_definite = is_self_adjoint = True
        self._base_operator = base
        self._u = as_parameter(u)
        self._v = self._u if v is None else as_parameter(v)
        self._diag_update = as_parameter(diag_update)
        self._is_diag_update_positive = is_diag_update_positive
        super().__init__(dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)
        self._diag_operator = self._make_diag_operator()
        self._check_shapes()

    def _make_diag_operator(self) -> LinearOperator:
        if self._diag_update is None:
            return LinearOperatorIdentity(dims_of(self.u)[-1], dtype=self.dtype)
        return LinearOperatorDiag(self._diag_update, is_positive_definite=self._is_diag_update_positive)

    def _check_shapes(self) -> None:
        """Checks that the dims of L, U, D and V fit together."""
        size, rank = broadcast(dims_of(self.u)[-2:], dims_of(self.v)[-2:])
        pairs = [(self.base_operator._dims()[-1], size), (rank, self.diag_operator._dims()[-1])]
        for expected, actual in pairs:
            if not agree_dim(expected, actual):
                raise incompatible_shapes(ValueError(f"Dimensions {expected} and {actual} are not compatible"))
        self._dims()

    @property
    def base_operator(self) -> Any:
        return self._base_operator

    @property
    def u(self) -> Any:
        return self._u

    @property
    def v(self) -> Any:
        return self._v

    @property
    def diag_update(self) -> Any:
        return self._diag_update

    @property
    def is_diag_update_positive(self) -> hints.Hint:
        return self._is_diag_update_positive

    @property
    def diag_operator(self) -> Any:
        """D as an operator."""
        return self._diag_operator

    def _dims(self) -> tuple[Dim, ...]:
        base = self.base_operator._dims()
        others = (self.diag_operator._dims()[:-2], dims_of(self.u)[:-2], dims_of(self.v)[:-2])
        return (*broadcast(base[:-2], *others), *base[-2:])

    def _assert_self_adjoint(self) -> Any:
        if self.u is self.v and self.diag_update is None:
            return self.base_operator.assert_self_adjoint()
        return super()._assert_self_adjoint()

    def _left_and_right(self, adjoint: bool = False) -> tuple[Any, Any]:
        return (self.v, self.u) if adjoint else (self.u, self.v)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        left_factor, right_factor = self._left_and_right(adjoint)
        x = maybe_adjoint(x, adjoint_arg)
        projection = self.diag_operator.matmul(matmul(right_factor, x, adjoint_a=True), adjoint=adjoint)
        return self.base_operator.matmul(x, adjoint=adjoint) + matmul(left_factor, projection)  # type: ignore[no-any-return]

    def _capacitance(self) -> Tensor:
        """Returns ``D^-1 + V^H L^-1 U``, a matrix of the size of the update's rank (Woodbury's identity)."""
        inner = matmul(self.v, self.base_operator.solve(self.u), adjoint_a=True)
        return self.diag_operator.inverse().add_to_tensor(inner)  # type: ignore[no-any-return]

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        """Solves a system with a low-rank update by the Woodbury identity.

        The base operator's system is solved twice, and a small system of the update's rank (the capacitance) once.

        Args:
          rhs: the right-hand sides, of shape (..., domain, k).
          adjoint: whether to solve with the operator's conjugate transpose.
          adjoint_arg: whether to solve for the conjugate transpose of ``rhs``.
        """
        base = self.base_operator
        if base.is_non_singular is False:
            raise ValueError("Solve not implemented unless this is a perturbation of a non-singular LinearOperator.")
        left_factor, right_factor = self._left_and_right(adjoint)
        base_solution = base.solve(maybe_adjoint(rhs, adjoint_arg), adjoint=adjoint)
        projection = matmul(right_factor, base_solution, adjoint_a=True)
        capacitance, projection = broadcast_batches(maybe_adjoint(self._capacitance(), adjoint), projection)
        if self._use_cholesky:
            update_solution = cholesky_solve(bind.cholesky(capacitance), projection)
        else:
            update_solution = bind.matrix_solve(capacitance, projection)
        correction = base.solve(matmul(left_factor, update_solution), adjoint=adjoint)
        return base_solution - correction  # type: ignore[no-any-return]

    def _determinant(self) -> Tensor:
        if self.is_positive_definite:
            return bind.exp(self.log_abs_determinant())  # type: ignore[no-any-return]
        capacitance = bind.matrix_determinant(self._capacitance())
        return capacitance * self.diag_operator.determinant() * self.base_operator.determinant()  # type: ignore[no-any-return]

    def _log_abs_determinant(self) -> Tensor:
        """Returns log |det| by the matrix determinant lemma: from the determinants of L, D and the k x k capacitance."""
        capacitance = self._capacitance()
        if self._use_cholesky:
            factor_diagonal = diagonal(bind.cholesky(capacitance))
            log_capacitance = 2 * total(bind.log(factor_diagonal))
        else:
            determinant = bind.matrix_determinant(capacitance)
            log_capacitance = to_dtype(bind.log(magnitude(determinant)), self.dtype)
        log_diagonal = self.diag_operator.log_abs_determinant()
        log_base = self.base_operator.log_abs_determinant()
        return log_capacitance + log_diagonal + log_base  # type: ignore[no-any-return]

    def _diag_part(self) -> Tensor:
        result = self.u * conjugate_if(self.v, True)
        if self.diag_update is not None:
            result = result * convert_to_tensor(self.diag_update)[..., None, :]  # type: ignore[index]
        return total(result) + self.base_operator.diag_part()  # type: ignore[no-any-return]
