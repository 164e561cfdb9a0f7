"""Elementwise kernels over TIR scalars: broadcasting, and the functions that ``lower`` rules compute with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx

from tvtf.shape import broadcast_shapes, simplify_dim

_HALF = ("float16", "bfloat16")


def dims(tensor: te.Tensor) -> tuple[Any, ...]:
    """A TE tensor's shape as tvtf's dims."""
    return tuple(map(simplify_dim, tensor.shape))


def broadcast_index(tensor: te.Tensor, index: Sequence[Any]) -> tuple[Any, ...]:
    """Where an element of the broadcast result lies in ``tensor``."""
    shape = dims(tensor)
    tail = index[len(index) - len(shape) :]
    return tuple(0 if isinstance(d, int) and d == 1 else i for d, i in zip(shape, tail))


def elementwise(expression: Callable[..., Any], tensors: Sequence[te.Tensor], attrs: dict[str, Any]) -> te.Tensor:
    """``expression`` of this module's functions over broadcast tensors; 16-bit floats compute in float32."""
    import sys

    shape: tuple[Any, ...] = ()
    for tensor in tensors:
        wider = broadcast_shapes(shape, dims(tensor))
        shape = shape if wider is None else wider
    narrow = next((t.dtype for t in tensors if t.dtype in _HALF), None)

    def compute(*index: Any) -> Any:
        values = [widen(t(*broadcast_index(t, index))) for t in tensors]
        result = expression(sys.modules[__name__], *values, **attrs)
        return result.astype(narrow) if narrow and dtype_of(result) == "float32" else result

    return te.compute(shape, compute, name="elementwise")


def dtype_of(value: Any) -> str:
    """The element type of a TIR expression, by name."""
    return str(value.ty.dtype)


def widen(value: Any) -> Any:
    return value.astype("float32") if dtype_of(value) in _HALF else value


def const(value: Any, like: Any) -> Any:
    return tirx.const(value, dtype_of(like))


def is_float(x: Any) -> bool:
    return dtype_of(x).startswith(("float", "bfloat"))


def select(condition: Any, yes: Any, no: Any) -> Any:
    return tirx.Select(condition, yes, no)


def isnan(x: Any) -> Any:
    return x != x


def maximum(x: Any, y: Any) -> Any:
    """The larger value; NaN where either is NaN, as NumPy and TensorFlow have it."""
    larger = tirx.Select(x > y, x, y)
    return tirx.Select(isnan(x), x, larger) if is_float(x) else larger


def minimum(x: Any, y: Any) -> Any:
    smaller = tirx.Select(x < y, x, y)
    return tirx.Select(isnan(x), x, smaller) if is_float(x) else smaller


sin, cos, tan = tirx.sin, tirx.cos, tirx.tan
exp, log, sqrt, rsqrt = tirx.exp, tirx.log, tirx.sqrt, tirx.rsqrt
floor, ceil, nearbyint, abs = tirx.floor, tirx.ceil, tirx.nearbyint, tirx.abs  # noqa: A001 - TIR's names


def tanh(x: Any) -> Any:
    return tirx.tanh(x)
