"""Clamps the sizes of huge allocations: TVM counts them in bits, so larger ones would wrap around to small ones."""

from __future__ import annotations

from typing import Any

from tvm import ir, relax, tirx, transform
from tvm.tirx import FloatImm, IntImm, PrimFunc, Select

from tvtf.core.tvm_visitor import structural_map
from tvtf.ops.kernels.common import floating

MAX_BYTES = 1 << 58
"""More bytes than any machine has: requesting them fails as any request for too much memory does."""


def clamped_size(size: Any) -> Any:
    """Returns the expression ``min(size, MAX_BYTES)`` for a number of bytes that may overflow an integer.

    The comparison is in floating point, which doesn't overflow.

    Example:
        >>> from tvm import tirx
        >>> clamped_size(tirx.const(1 << 62, "int64"))
        T.int64(288230376151711744)
        >>> n = tirx.Var("n", "int64")
        >>> clamped_size(n * n)  # doctest: +ELLIPSIS
        T.Select(T.Cast("float64", n) * T.Cast("float64", n) < T.float64(2...), n * n, T.int64(288230376151711744))
    """
    if isinstance(size, IntImm):
        return tirx.const(size.value if 0 <= size.value < MAX_BYTES else MAX_BYTES, "int64")
    return Select(floating(size) < FloatImm("float64", float(MAX_BYTES)), size, tirx.const(MAX_BYTES, "int64"))


def _with_clamped_size(call: Any) -> Any:
    """Clamps the size in a call that allocates a storage, or returns any other call unchanged.

    TVM counts a size in bits, so a larger one would wrap around to a small one.
    """
    if not isinstance(call.op, ir.Op) or call.op.name != "relax.memory.alloc_storage":
        return call
    shape, *other_arguments = call.args
    (size,) = shape.values
    clamped_shape = relax.ShapeExpr([clamped_size(size)])
    return relax.Call(call.op, [clamped_shape, *other_arguments], call.attrs, span=call.span, ret_ty=call.ty)


@transform.module_pass(opt_level=0, name="ClampAllocations")
def ClampAllocations(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Applies `clamped_size` to every allocation of a module's functions.

    TVM counts sizes in bits, so that larger ones would wrap around to small ones.
    """
    result = mod.clone()
    for name, func in mod.functions.items():
        if not isinstance(func, PrimFunc):
            result.update_func(name, structural_map(func, (relax.Call, _with_clamped_size)))
    return result
