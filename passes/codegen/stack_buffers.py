"""Puts local buffers on the stack, where LLVM turns them into registers."""

from __future__ import annotations

from tvm import IRModule, tirx
from tvm.tirx import AllocBuffer, PrimFunc

from tvtf.core.tvm_visitor import structural_map

STACK_ALLOCATION = {"disable_lower_builtin": tirx.IntImm("int32", 1)}
"""Makes LowerTVMBuiltin leave an allocation to LLVM. That pass puts small buffers of scope "global" on the stack by
itself, but allocates all of scope "local" on the heap, each time they are made (lower_tvm_builtin.cc of TVM 0.27)."""
MAX_BYTES = 4096
"""Twice all vector registers of a core: room for a tile of any height, and for the results that an epilogue keeps.

On the heap, each tile takes 60 ns to allocate: a product of 18x18x18 takes 126 ns instead of 79.
"""


def with_local_stack(mod: IRModule) -> IRModule:
    """Marks each local buffer of static, moderate size for the stack."""
    functions = {
        name: _with_marked_allocations(func) if isinstance(func, PrimFunc) else func
        for name, func in mod.functions_items()
    }
    return IRModule(functions, attrs=mod.attrs)


def _with_marked_allocations(func: PrimFunc) -> PrimFunc:
    return func.with_body(structural_map(func.body, (AllocBuffer, _on_stack)))


def _on_stack(stmt: AllocBuffer) -> AllocBuffer:
    """Marks the allocation of a local buffer of static size, up to `MAX_BYTES`, for the stack.

    LLVM turns such a buffer into registers. Other allocations are returned unchanged.
    """
    buffer_type = stmt.buffer.ty
    size = buffer_type.dtype.dtype.itemsize
    for extent in buffer_type.shape:
        if not isinstance(extent, tirx.IntImm):
            return stmt
        size *= int(extent)
    fits_stack = buffer_type.storage_scope == "local" and 0 < size <= MAX_BYTES
    return AllocBuffer(stmt.buffer, STACK_ALLOCATION) if fits_stack else stmt
