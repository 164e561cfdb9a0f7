"""TE kernels of the array family: index arithmetic only."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi

from tvtf.ops.kernels.scalar import broadcast_index, dims


def reshape(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    return topi.reshape(x, shape)


def broadcast_to(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    return te.compute(shape, lambda *i: x(*broadcast_index(x, i)), name="broadcast")


def shape(x: te.Tensor) -> te.Tensor:
    extents = dims(x)

    def compute(i: Any) -> Any:
        value = tirx.const(0, "int32")
        for axis, extent in enumerate(extents):
            value = tirx.Select(i == axis, tirx.Cast("int32", extent) if not isinstance(extent, int) else extent, value)
        return value

    return te.compute((len(extents),), compute, name="shape")
