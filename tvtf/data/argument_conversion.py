"""Sizes, counts and flags of pipelines, as TensorFlow converts them."""

from __future__ import annotations

from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import bool as bool_dtype
from tvtf.dtypes import int64
from tvtf.ops.rules import static_int, static_value


def number(value: Any, what: str = "count") -> int:
    """An integer argument: a Python number or a scalar tensor of int64.

    Raises:
      ArgumentError: it is no scalar.
    """
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    found = convert_to_tensor(value, int64, name=what)
    if found.ndim:
        raise ArgumentError(f"{what} must be a scalar").told_by("Dataset")
    return static_int(found, what)


def flag(value: Any, what: str = "drop_remainder") -> bool:
    """A bool argument, or a scalar tensor of bool."""
    if type(value) is bool:
        return value
    return bool(static_value(convert_to_tensor(value, bool_dtype, name=what), what))
