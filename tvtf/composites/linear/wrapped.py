"""The adjoint and the inverse of operators without a special form for them."""

from __future__ import annotations

from typing import Any

from tvtf.composites.linear import hints
from tvtf.composites.linear.algebra import adjoint as adjoint_of
from tvtf.composites.linear.algebra import conjugate_if
from tvtf.composites.linear.operator import LinearOperator
from tvtf.core.primitive import export
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor

_WORDS = {
    "is_non_singular": "non-singular",
    "is_self_adjoint": "self-adjoint",
    "is_positive_definite": "positive-definite",
    "is_square": "square",
}


class _DerivedOperator(LinearOperator):
    """The base class of operators derived from one operator, whose hints they share."""

    _matrix_ranks = {"operator": 0}
    _relation = ""
    _suffix = ""

    def __init__(self, operator: Any, known: dict[str, hints.Hint], name: str | None) -> None:
        """Creates an operator derived from another operator, from which it takes each hint that the user didn't give."""
        self._operator = operator
        agreed: hints.Known = {}
        for hint, property_text in _WORDS.items():
            message = f"An operator is {property_text} if and only if its {self._relation} is {property_text}."
            agreed[hint] = hints.agreed(operator, hint, known[hint], message)
        super().__init__(operator.dtype, None, **agreed, name=name or operator.name + self._suffix)

    @property
    def operator(self) -> Any:
        return self._operator

    def _assert_non_singular(self) -> Any:
        return self.operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self.operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self.operator.assert_self_adjoint()

    def _cond(self) -> Tensor:
        return self.operator.cond()  # type: ignore[no-any-return]


@export("linalg.LinearOperatorAdjoint")
class LinearOperatorAdjoint(_DerivedOperator):
    """The conjugate transpose of an operator.

    Args:
      operator: a `LinearOperator`.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: default: the operator's.

    Raises:
      ValueError: a hint contradicts the operator's.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorFullMatrix([[1 - 1j, 3.], [0., 1. + 1j]])
    >>> tf.linalg.LinearOperatorAdjoint(operator).to_dense().numpy()
    array([[1.+1.j, 0.-0.j],
           [3.-0.j, 1.-1.j]])

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorAdjoint
    """

    _relation, _suffix = "adjoint", "_adjoint"

    def __init__(
        self,
        operator: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str | None = None,
    ) -> None:
        """Creates the adjoint of an operator, with the same hints."""
        known = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(operator, dict(zip(hints.NAMES, known)), name)

    def _dims(self) -> tuple[Dim, ...]:
        *batch, rows, columns = self.operator._dims()
        return (*batch, columns, rows)

    def _linop_adjoint(self) -> LinearOperator:
        return self.operator  # type: ignore[no-any-return]

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)  # type: ignore[no-any-return]

    def _matvec(self, x: Any, adjoint: bool = False) -> Tensor:
        return self.operator.matvec(x, adjoint=not adjoint)  # type: ignore[no-any-return]

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)  # type: ignore[no-any-return]

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Tensor:
        return self.operator.solvevec(rhs, adjoint=not adjoint)  # type: ignore[no-any-return]

    def _conjugated(self, number: Tensor) -> Tensor:
        return conjugate_if(number, not self.is_self_adjoint)

    def _determinant(self) -> Tensor:
        return self._conjugated(self.operator.determinant())

    def _log_abs_determinant(self) -> Tensor:
        return self.operator.log_abs_determinant()  # type: ignore[no-any-return]

    def _trace(self) -> Tensor:
        return self._conjugated(self.operator.trace())

    def _to_dense(self) -> Tensor:
        dense = convert_to_tensor(self.operator.to_dense())
        return dense if self.is_self_adjoint else adjoint_of(dense)

    def _eigvals(self) -> Tensor:
        return conjugate_if(self.operator.eigvals(), not self.operator.is_self_adjoint)


@export("linalg.LinearOperatorInversion")
class LinearOperatorInversion(_DerivedOperator):
    """The inverse of an operator.

    Args:
      operator: a `LinearOperator`.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: default: the operator's.

    Raises:
      ValueError: a hint contradicts the operator's, or the operator is hinted to be singular or not square.

    >>> import tvtf as tf
    >>> operator = tf.linalg.LinearOperatorFullMatrix([[2., 0.], [0., 4.]])
    >>> tf.linalg.LinearOperatorInversion(operator).matvec([2., 2.]).numpy()
    array([1. , 0.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/LinearOperatorInversion
    """

    _relation, _suffix = "inverse", "_inv"

    def __init__(
        self,
        operator: Any,
        is_non_singular: hints.Hint = None,
        is_self_adjoint: hints.Hint = None,
        is_positive_definite: hints.Hint = None,
        is_square: hints.Hint = None,
        name: str | None = None,
    ) -> None:
        """Creates the inverse of an operator. Raises ValueError if a hint says that it is singular or not square."""
        known = dict(zip(hints.NAMES, (is_non_singular, is_self_adjoint, is_positive_definite, is_square)))
        for hint in ("is_non_singular", "is_square"):
            operator_hint = getattr(operator, hint)
            if operator_hint is False or known[hint] is False:
                raise ValueError(
                    f"Argument `{hint}` or argument `operator` must have supplied hint `{hint}` equal to `True` or "
                    f"`None`. Found `operator.{hint}`: {operator_hint}, `{hint}`: {known[hint]}."
                )
        super().__init__(operator, known, name)

    def _dims(self) -> tuple[Dim, ...]:
        return self.operator._dims()  # type: ignore[no-any-return]

    def _linop_inverse(self) -> LinearOperator:
        return self.operator  # type: ignore[no-any-return]

    def _linop_solve(self, right: LinearOperator) -> LinearOperator:
        return self.operator.matmul(right)  # type: ignore[no-any-return]

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)  # type: ignore[no-any-return]

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)  # type: ignore[no-any-return]

    def _determinant(self) -> Tensor:
        return 1.0 / self.operator.determinant()  # type: ignore[no-any-return]

    def _log_abs_determinant(self) -> Tensor:
        return -self.operator.log_abs_determinant()  # type: ignore[no-any-return]

    def _eigvals(self) -> Tensor:
        return 1.0 / self.operator.eigvals()  # type: ignore[no-any-return]
