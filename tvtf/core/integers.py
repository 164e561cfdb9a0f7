"""Integer arithmetic that Python has no function for."""

from __future__ import annotations


def ceil_div(value: int, divisor: int) -> int:
    """Returns ``value / divisor`` rounded up.

    >>> ceil_div(7, 2)
    4
    """
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    """Returns the least multiple of ``multiple`` that isn't less than ``value``.

    >>> round_up(7, 4)
    8
    """
    return ceil_div(value, multiple) * multiple
