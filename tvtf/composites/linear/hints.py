"""Hints about operators (non-singular, self-adjoint, ...): those that users give, and inferences from them."""

from __future__ import annotations

from typing import Any

NAMES = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")

Hint = bool | None
Known = dict[str, Any]
"""Hints by name, as operators take them."""


def always(user_hint: Hint, fact: bool, message: str) -> bool:
    """Returns ``fact``, the value of a hint that the operator's form determines, after checking the user's hint.

    Raises:
      ValueError: the user's hint contradicts the fact; ``message`` is the error's text.
    """
    if user_hint is (not fact):
        raise ValueError(message)
    return fact


def implied(is_implied: bool, user_hint: Hint, message: str) -> Hint:
    """Returns True if other properties imply the hint, and the user's hint otherwise.

    Raises:
      ValueError: the user's hint is False, but the hint is implied.
    """
    return always(user_hint, True, message) if is_implied else user_hint


def agreed(operator: Any, name: str, user_hint: Hint, message: str) -> Hint:
    """Returns a hint of an operator's adjoint or inverse: the user's hint, else the same hint of ``operator``.

    Both must agree, because the adjoint or inverse has the property ``name`` if and only if the operator has it.

    Raises:
      ValueError: the two hints contradict each other.
    """
    operator_hint = getattr(operator, name)
    if operator_hint is not None and user_hint is not None and operator_hint is not user_hint:
        raise ValueError(message)
    return operator_hint if user_hint is None else user_hint


def non_singular(a: Any, b: Any) -> Hint:
    """Returns whether the product of two operators is non-singular, as far as their hints say."""
    if a.is_non_singular is False or b.is_non_singular is False:
        return False
    return a.is_non_singular and b.is_non_singular  # type: ignore[no-any-return]


def square(a: Any, b: Any) -> Hint:
    """Returns whether the product of two operators is square, as far as their hints say."""
    if a.is_square and b.is_square:
        return True
    if a.is_square is False and b.is_square is False:
        return a.range_dimension == b.domain_dimension
    return None if None in (a.is_square, b.is_square) else False


def of_product(a: Any, b: Any) -> Known:
    """Returns the hints of the product of two operators."""
    is_square = square(a, b)
    if is_square is False:
        return every(False)
    return {"is_non_singular": non_singular(a, b) if is_square else None, "is_square": is_square}


def of_commuting(a: Any, b: Any) -> Known:
    """Infers the hints of the product of two operators that commute, such as diagonal ones, from the operators' hints.

    The product of commuting self-adjoint operators is self-adjoint, and positive definite if both are.
    """
    are_self_adjoint = (a.is_self_adjoint, b.is_self_adjoint)
    are_positive_definite = a.is_positive_definite and b.is_positive_definite
    if None in are_self_adjoint or not any(are_self_adjoint):
        # The product of two operators that are both not self-adjoint may be self-adjoint.
        is_self_adjoint = None
    else:
        is_self_adjoint = all(are_self_adjoint)
    return {
        "is_non_singular": non_singular(a, b),
        "is_self_adjoint": is_self_adjoint,
        "is_positive_definite": True if all(are_self_adjoint) and are_positive_definite else None,
        "is_square": True,
    }


def every(value: bool) -> Known:
    return dict.fromkeys(NAMES, value)


def of(operator: Any) -> Known:
    """Returns an operator's hints as arguments of another operator that shares them."""
    return {name: getattr(operator, name) for name in NAMES[:3]} | {"is_square": True}
