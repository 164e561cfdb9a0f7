"""Checks that a result is not too large, before it is computed."""

from __future__ import annotations

from math import prod

import numpy as np

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import TensorType, brackets, is_static_shape
from tvtf.errors import InvalidArgumentError, ResourceExhaustedError

_LARGE = 1 << 28
"""The number of bytes below which a result is not checked."""
_TEXT = 24
"""The bytes of an empty string in TensorFlow's memory."""


MOST = 1 << 58
"""A number of bytes that no machine has. The compiler can count even the bits of a smaller tensor in an int64."""


def require_countable(result: TensorType, op: str) -> None:
    """Checks that the compiler can compute with the size of a traced op's result, and raises otherwise.

    ``op`` is the op's name, for the error message.

    Raises:
      InvalidArgumentError: the number of elements exceeds an int64.
      ResourceExhaustedError: the tensor has too many bytes.
    """
    # A size that isn't static is checked at run time, when it is known.
    if not isinstance(result.shape, AnyShape) and is_static_shape(result.shape):
        count = prod(result.shape)  # type: ignore[arg-type]
        if count >= 1 << 63:  # more than an int64 holds
            raise _uncountable(result, op)
        if count * result.dtype.size >= MOST:
            raise _too_large(result, op)


def require_room(result: TensorType, op: str) -> None:
    """Checks that the memory for an eager op's result can be allocated: allocates it, and releases it again.

    ``op`` is the op's name, for the error message.

    Raises:
      InvalidArgumentError: the number of elements exceeds an int64.
      ResourceExhaustedError: the allocation fails.
    """
    if not is_static_shape(result.shape):
        return
    count = prod(result.shape)  # type: ignore[arg-type]
    size = count * (_TEXT if result.dtype.name == "string" else result.dtype.size)
    if size < _LARGE:  # small results aren't checked, as the check costs time
        return
    if count >= 1 << 63:  # more than an int64 holds
        raise _uncountable(result, op)
    try:
        np.empty(size, np.uint8)
    except (MemoryError, ValueError):  # ValueError: NumPy can't address this many bytes
        raise _too_large(result, op) from None


def _uncountable(result: TensorType, op: str) -> Exception:
    """Returns TensorFlow's error for a result whose number of elements exceeds an int64."""
    return InvalidArgumentError(
        None, op, f"Encountered overflow when multiplying {brackets(result.shape)} [Op:{op}] name: "
    )


def _too_large(result: TensorType, op: str) -> Exception:
    """Returns TensorFlow's out-of-memory error for a result, whose dtype has its name in C++ in the message."""
    type_name = {"float32": "float", "float64": "double", "float16": "half"}.get(result.dtype.name, result.dtype.name)
    text = f"{op}: OOM when allocating tensor with shape{brackets(result.shape)} and type {type_name} [Op:{op}] name: "
    return ResourceExhaustedError(None, op, text)
