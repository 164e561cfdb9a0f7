"""Helpers of TE kernels: int64 extents, reduction axes, padding, accumulation dtypes, casts, flat buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir, te, tirx
from tvm.script.ir_builder import tirx as T

from tvtf.core.shape import simplify_dim

# An int or a TIR expression of shape variables.
Extent = Any
HALF_TYPES = ("float16", "bfloat16")
INDEPENDENT = {"tvtf.independent": True}
"""Annotation of a loop whose steps may run in parallel in any enclosing loops: no two touch the same element."""
COPY = "tvtf.copy"
"""Annotation of a loop that copies an operand to a result; it is dropped where both share memory."""


def long(value: Extent) -> ir.Expr:
    """Converts an extent or index to int64, Relax's index dtype."""
    return tirx.IntImm("int64", int(value)) if isinstance(value, (int, tirx.IntImm)) else value


_FLOATING = {tirx.Mul: tirx.Mul, tirx.Add: tirx.Add, tirx.Sub: tirx.Sub, tirx.Max: tirx.Max, tirx.Min: tirx.Min}


def floating(size: ir.Expr) -> ir.Expr:
    """Rewrites an int64 expression of a size to the same expression in float64.

    In float64 the product of large sizes doesn't wrap around.
    """
    float_operation = _FLOATING.get(type(size))  # for sums, products and others with operands a and b
    if float_operation is not None:
        return float_operation(floating(size.a), floating(size.b))
    if isinstance(size, tirx.IntImm):
        return tirx.FloatImm("float64", float(size.value))
    if isinstance(size, tirx.FloorDiv) and isinstance(size.b, tirx.IntImm):
        return tirx.floor(tirx.Div(floating(size.a), floating(size.b)))
    if isinstance(size, tirx.Cast):  # a cast between integer dtypes
        return floating(size.value)
    return tirx.Cast("float64", size)


def reduce_axis(extent: Extent, name: str) -> tirx.IterVar:
    """Returns a reduction axis over [0, extent)."""
    return te.reduce_axis((long(0), long(extent)), name)


FEW_UNKNOWN = 3
"""Limit of nested quotients of symbolic dims.

TVM lowers a floor division to an expression that contains its operands three times.
"""


def has_few_unknown(shape: Sequence[Extent]) -> bool:
    """Returns whether a shape has at most FEW_UNKNOWN symbolic dims.

    TVM's code for nested floor divisions grows exponentially with the number of symbolic dims.
    """
    return sum(not isinstance(dim, (int, tirx.IntImm)) for dim in shape) <= FEW_UNKNOWN


def unravelled(flat: ir.Expr, shape: Sequence[Extent]) -> list[ir.Expr]:
    """Splits a flat (row-major) index into the indices along the axes of ``shape``.

    Truncated divisions compile to one instruction each. For non-negative numbers they equal floor divisions.
    """
    remainders = []
    for extent in reversed(shape[1:]):
        remainders.append(tirx.truncmod(flat, long(extent)))
        flat = tirx.truncdiv(flat, long(extent))
    return [flat, *reversed(remainders)]


def flat_buffer(buffer: tirx.Buffer) -> Any:
    """Returns a view of a buffer for reads and writes at flat (row-major) indices."""
    return FlatProxy(buffer) if has_few_unknown(buffer.shape) else _FlatView(buffer)


class FlatProxy:
    """TVM's proxy of a buffer for flat indices, with expressions passed to it in tuples.

    The proxy tries to iterate over an index. For an expression TVM then raises an error, and the first error of a process
    takes 0.7 s: it records a stack trace, for which the debug information of TVM's libraries is read.
    """

    def __init__(self, buffer: tirx.Buffer) -> None:
        self._proxy = T.buffer_proxy(buffer)
        self.dtype = buffer.dtype

    def __getitem__(self, index: Any) -> ir.Expr:
        return self._proxy[(index,) if isinstance(index, ir.Expr) else index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._proxy[(index,) if isinstance(index, ir.Expr) else index] = value


class _FlatView:
    """A view of a buffer that splits flat indices itself, by truncated divisions.

    TVM's proxy would nest a floor division for each dim.
    """

    def __init__(self, buffer: tirx.Buffer) -> None:
        self.buffer, self.dtype = buffer, buffer.dtype

    def __getitem__(self, index: Any) -> ir.Expr:
        return tirx.BufferLoad(self.buffer, unravelled(long(index), self.buffer.shape))

    def __setitem__(self, index: Any, value: Any) -> None:
        T.buffer_store(self.buffer, value, unravelled(long(index), self.buffer.shape))


def compute(shape: Sequence[Extent], element_at: Callable[..., ir.Expr], name: str) -> te.Tensor:
    """Calls `te.compute` with int64 extents, and so int64 indices."""
    return te.compute(tuple(map(_canonical, shape)), element_at, name=name)


def _canonical(extent: Extent) -> ir.Expr:
    """Converts an extent to int64, and a symbolic one to the canonical form that dims in types have.

    For example, the pass FuseTIR treats ``a + b + c`` and ``a + (b + c)`` as different dims.
    """
    return long(extent if isinstance(extent, (int, tirx.IntImm)) else simplify_dim(extent))


def accumulator_dtype(dtype: str) -> str:
    """Returns the dtype in which sums of a dtype are accumulated: float32 for 16-bit floats."""
    return "float32" if dtype in HALF_TYPES else dtype


def as_dtype(value: ir.Expr, dtype: str) -> ir.Expr:
    """Casts an expression unless it has the dtype."""
    return value if str(value.ty.dtype) == dtype else value.astype(dtype)


def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """Casts a tensor unless it has the dtype."""
    if str(x.dtype) == dtype:
        return x
    return compute(x.shape, lambda *index: x(*index).astype(dtype), "cast")


def padded(
    x: te.Tensor, padding: Sequence[tuple[int, Extent]], value: float | int = 0, first_axis: int = 1
) -> te.Tensor:
    """Pads a tensor with a constant; negative padding crops.

    Args:
        x: the tensor.
        padding: counts (before, after) for the axes starting at `first_axis`; those after may be symbolic.
        value: the constant.
        first_axis: the first axis to pad.
    """
    if all(isinstance(high, int) and low == high == 0 for low, high in padding):
        return x
    befores = _for_all_axes(x, [low for low, _high in padding], first_axis)
    afters = _for_all_axes(x, [high for _low, high in padding], first_axis)
    shape = [long(extent) + low + high for extent, low, high in zip(x.shape, befores, afters, strict=True)]
    outside = tirx.const(value, str(x.dtype))

    def element_at(*result_index: ir.Expr) -> ir.Expr:
        """Reads the element of ``x`` at an index of the result, or the constant outside of ``x``."""
        source = [index - low for index, low in zip(result_index, befores, strict=True)]
        conditions = [source[axis] >= 0 for axis, low in enumerate(befores) if low > 0]
        for axis, high in enumerate(afters):
            if not isinstance(high, int) or high > 0:
                conditions.append(source[axis] < x.shape[axis])
        return tirx.if_then_else(tirx.all(*conditions), x(*source), outside) if conditions else x(*source)

    return compute(shape, element_at, "padded")


def _for_all_axes(x: te.Tensor, values: list[Extent], first_axis: int) -> list[Extent]:
    """Extends per-axis values for the axes starting at `first_axis` to all axes of `x`, with 0 for the other axes."""
    by_axis: list[Extent] = [0] * first_axis + values
    return by_axis + [0] * (len(x.shape) - len(by_axis))


def constant_extents(extents: Sequence[Extent]) -> list[int]:
    """Returns extents as Python ints; they must be static."""
    return [int(extent) for extent in extents]
