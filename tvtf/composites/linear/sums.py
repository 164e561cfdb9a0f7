"""Sums of operators, in the most specific form that can represent them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tvtf.composites.linear.algebra import ones
from tvtf.composites.linear.dense import LinearOperatorFullMatrix, LinearOperatorLowerTriangular
from tvtf.composites.linear.diagonal import LinearOperatorDiag
from tvtf.composites.linear.identity import LinearOperatorIdentity, LinearOperatorScaledIdentity
from tvtf.composites.linear.operator import LinearOperator

_FORMS = (
    (LinearOperatorIdentity, LinearOperatorScaledIdentity),
    (LinearOperatorDiag,),
    (LinearOperatorLowerTriangular,),
    (LinearOperatorFullMatrix,),
)
"""From the narrowest to the widest."""


def has_special_sum(operator: LinearOperator) -> bool:
    """Returns whether an operator's sums can be represented in one of the special forms."""
    return any(isinstance(operator, form) for form in _FORMS)


def sum_of(operators: Sequence[LinearOperator]) -> LinearOperator:
    return reduce(_add_operators, operators)


def _add_operators(a: LinearOperator, b: LinearOperator) -> LinearOperator:
    """Adds two linear operators in the most special form that can represent both.

    The forms are, in this order: scaled identity, diagonal, lower triangular and full matrix.
    """
    hints_and_name: dict[str, Any] = {
        "is_self_adjoint": a.is_self_adjoint and b.is_self_adjoint,
        "is_positive_definite": a.is_positive_definite and b.is_positive_definite,
        "name": f"Add/{a.name}__{b.name}/",
    }
    form_of_a = next(i for i, form in enumerate(_FORMS) if isinstance(a, form))
    form_of_b = next(i for i, form in enumerate(_FORMS) if isinstance(b, form))
    general_form = max(form_of_a, form_of_b)
    if general_form == 0:
        return LinearOperatorScaledIdentity(a._dims()[-2], _multiplier(a) + _multiplier(b), **hints_and_name)
    if general_form == 1:
        return LinearOperatorDiag(a.diag_part() + b.diag_part(), **hints_and_name)
    operator_class = LinearOperatorLowerTriangular if general_form == 2 else LinearOperatorFullMatrix
    return operator_class(a.add_to_tensor(b.to_dense()), **hints_and_name)


def _multiplier(operator: Any) -> Any:
    if isinstance(operator, LinearOperatorScaledIdentity):
        return operator.multiplier
    return ones(operator._dims()[:-2], operator.dtype)
