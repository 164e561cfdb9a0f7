"""TE kernels of reductions; 16-bit floats accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te

from tvtf.ops.kernels.scalar import dims, widen


def reduce(x: te.Tensor, axis: tuple[int, ...], keepdims: bool, combine: Callable[..., Any]) -> te.Tensor:
    """``combine`` (``te.sum``, ...) over the axes; the element itself where there are none."""
    extents = dims(x)
    kept = [d for i, d in enumerate(extents) if i not in axis]
    shape = [1 if i in axis else d for i, d in enumerate(extents)] if keepdims else kept
    if not axis:
        return te.compute(shape, lambda *i: x(*i), name="reduce")
    inner = {a: te.reduce_axis((0, extents[a]), f"k{a}") for a in axis}

    def source(index: tuple[Any, ...]) -> Any:
        outer = iter(index)
        if keepdims:
            return widen(x(*(inner[i] if i in axis else o for i, o in enumerate(index))))
        return widen(x(*(inner[i] if i in axis else next(outer) for i in range(len(extents)))))

    total = te.compute(shape, lambda *i: combine(source(i), axis=list(inner.values())), name="reduce")
    return narrowed(total, x.dtype)


def narrowed(tensor: te.Tensor, dtype: str) -> te.Tensor:
    if str(tensor.dtype) == str(dtype):
        return tensor
    return te.compute(tensor.shape, lambda *i: tensor(*i).astype(dtype), name="narrow")


def sum(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return reduce(x, axis, keepdims, te.sum)



