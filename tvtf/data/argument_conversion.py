"""Converts the sizes, counts and flags of input pipelines as TensorFlow does."""

from __future__ import annotations

from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import bool as bool_dtype
from tvtf.dtypes import int64
from tvtf.ops.rules import static_int, static_value


def int_argument(value: Any, name: str = "count") -> int:
    """Converts an integer argument, a Python number or a scalar int64 tensor, to an int; ``name`` is its name in errors.

    Raises:
      ArgumentError: the argument is not a scalar.
    """
    if type(value) is int and -(2**63) <= value < 2**63:  # an int64 already: no tensor is needed
        return value
    tensor = convert_to_tensor(value, int64, name=name)
    if tensor.ndim:
        raise ArgumentError(f"{name} must be a scalar").for_op("Dataset")
    return static_int(tensor, name)


def bool_argument(value: Any, what: str = "drop_remainder") -> bool:
    """Returns a bool argument, given as a Python bool or as a scalar bool tensor."""
    if type(value) is bool:
        return value
    return bool(static_value(convert_to_tensor(value, bool_dtype, name=what), what))
