"""Local buffers on the stack, where LLVM turns them into registers."""

from __future__ import annotations

from tvm import IRModule, tirx
from tvm.tirx import AllocBuffer, PrimFunc

from tvtf.core.tvm_visitor import structural_map

KEPT_AS_IT_IS = {"disable_lower_builtin": tirx.IntImm("int32", 1)}
"""What LowerTVMBuiltin leaves to LLVM. It puts small buffers of scope "global" on the stack by itself, but takes all of
scope "local" from the heap, each time they are made (lower_tvm_builtin.cc of TVM 0.27)."""
MOST_BYTES = 4096
"""Twice all vector registers of a core: the results of a tile, however high, and those that an epilogue keeps."""


def with_local_stack(mod: IRModule) -> IRModule:
    """The module with each local buffer of a known, moderate size marked for the stack."""
    functions = {name: _marked(func) if isinstance(func, PrimFunc) else func for name, func in mod.functions_items()}
    return IRModule(functions, attrs=mod.attrs)


def _marked(func: PrimFunc) -> PrimFunc:
    return func.with_body(structural_map(func.body, (AllocBuffer, _on_stack)))


def _on_stack(stmt: AllocBuffer) -> AllocBuffer:
    ty = stmt.buffer.ty
    size = ty.dtype.dtype.itemsize
    for extent in ty.shape:
        if not isinstance(extent, tirx.IntImm):
            return stmt
        size *= int(extent)
    return AllocBuffer(stmt.buffer, KEPT_AS_IT_IS) if ty.storage_scope == "local" and 0 < size <= MOST_BYTES else stmt
