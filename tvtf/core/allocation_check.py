"""Whether a result can be had: asked before anything is computed for it."""

from __future__ import annotations

from math import prod

import numpy as np

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import TensorType, brackets, is_static_shape
from tvtf.errors import InvalidArgumentError, ResourceExhaustedError

_LARGE = 1 << 28
"""Bytes below which it isn't asked."""
_TEXT = 24
"""Bytes of a string that is empty, as TensorFlow keeps it."""


MOST = 1 << 58
"""Bytes that no machine gives; the compiler counts bits in 64 of them."""


def require_countable(result: TensorType, op: str) -> None:
    """Refuses a tensor of a function that no machine has room for, before the compiler counts its bytes.

    Raises:
      InvalidArgumentError: more elements than can be counted.
      ResourceExhaustedError: too many bytes.
    """
    if not isinstance(result.shape, AnyShape) and is_static_shape(result.shape):
        count = prod(result.shape)  # type: ignore[arg-type]
        if count >= 1 << 63:
            raise _uncountable(result, op)
        if count * result.dtype.size >= MOST:
            raise _too_large(result, op)


def require_room(result: TensorType, op: str) -> None:
    """Asks for the memory of a result, and gives it back.

    Raises:
      InvalidArgumentError: more elements than can be counted.
      ResourceExhaustedError: the memory can't be had.
    """
    if not is_static_shape(result.shape):
        return
    count = prod(result.shape)  # type: ignore[arg-type]
    size = count * (_TEXT if result.dtype.name == "string" else result.dtype.size)
    if size < _LARGE:
        return
    if count >= 1 << 63:
        raise _uncountable(result, op)
    try:
        np.empty(size, np.uint8)
    except (MemoryError, ValueError):
        raise _too_large(result, op) from None


def _uncountable(result: TensorType, op: str) -> Exception:
    return InvalidArgumentError(
        None, op, f"Encountered overflow when multiplying {brackets(result.shape)} [Op:{op}] name: "
    )


def _too_large(result: TensorType, op: str) -> Exception:
    kind = {"float32": "float", "float64": "double", "float16": "half"}.get(result.dtype.name, result.dtype.name)
    told = f"{op}: OOM when allocating tensor with shape{brackets(result.shape)} and type {kind} [Op:{op}] name: "
    return ResourceExhaustedError(None, op, told)
