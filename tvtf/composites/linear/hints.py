"""Hints about operators (non-singular, self-adjoint, ...): those that users give, and inferences from them."""

from __future__ import annotations

from typing import Any

NAMES = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")

Hint = bool | None
Known = dict[str, Any]
"""Hints by name, as operators take them."""


def always(given: Hint, holds: bool, message: str) -> bool:
    """Returns a hint that is true by the operator's form.

    Raises:
      ValueError: the user's hint contradicts it.
    """
    if given is (not holds):
        raise ValueError(message)
    return holds


def implied(by: bool, given: Hint, message: str) -> Hint:
    """Returns a hint that is true if ``by`` is true; else the user's hint."""
    return always(given, True, message) if by else given


def agreed(operator: Any, name: str, given: Hint, message: str) -> Hint:
    """Returns the hint that an operator shares with one derived from it.

    Raises:
      ValueError: they contradict each other.
    """
    own = getattr(operator, name)
    if own is not None and given is not None and own is not given:
        raise ValueError(message)
    return own if given is None else given


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
    """Returns the hints of the product of two operators that commute."""
    both = [(x.is_self_adjoint, x.is_positive_definite and x.is_self_adjoint) for x in (a, b)]
    (one, one_definite), (other, other_definite) = both
    return {
        "is_non_singular": non_singular(a, b),
        "is_self_adjoint": None if None in (one, other) or not (one or other) else bool(one and other),
        "is_positive_definite": True if one_definite and other_definite else None,
        "is_square": True,
    }


def every(value: bool) -> Known:
    return dict.fromkeys(NAMES, value)


def of(operator: Any) -> Known:
    """Returns an operator's hints as arguments of another operator that shares them."""
    return {name: getattr(operator, name) for name in NAMES[:3]} | {"is_square": True}
