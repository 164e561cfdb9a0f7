"""Aligns parameter buffers to their elements only, so that kernels accept any contiguous array."""

from __future__ import annotations

from tvm import ir, tirx, transform
from tvm.tirx import PrimFunc, Var, decl_buffer
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.codegen.divisors import divisible


def item_aligned(func: PrimFunc) -> PrimFunc:
    """Returns `func` with every parameter buffer aligned to its own element instead of TVM's 64 bytes.

    LLVM then accesses parameters by unaligned vector moves, which cost nothing on aligned memory. So a NumPy array at
    any address that its dtype allows is passed without a copy and can't crash the process. Buffers that the kernel
    allocates keep TVM's alignment. Shapes, dtypes, strides and the schedule are unchanged.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def double(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        ...     for i in range(4):
        ...         with T.sblock("double"):
        ...             v = T.axis.spatial(4, i)
        ...             b[v] = a[v] + a[v]
        >>> [int(param.ty.data_alignment) for param in item_aligned(double).params]
        [4, 4]

    Source: alignment of TIR buffers is `data_alignment` of `tvm.tirx.decl_buffer` (apache-tvm 0.27).
    """
    aligned = {param: _item_aligned_buffer(param) for param in func.params if is_buffer_var(param)}
    body = structural_map(func.body, (Var, lambda var: aligned.get(var, var)))
    params = [aligned.get(param, param) for param in func.params]
    return PrimFunc(params, body, func.ret_type, func.attrs, func.span)


@tirx.transform.prim_func_pass(opt_level=0, name="ItemAlign")
def ItemAlign(func: PrimFunc, _mod: ir.IRModule, _context: transform.PassContext) -> PrimFunc:
    """Applies `item_aligned` to every PrimFunc of a module.

    Memory of other libraries, which callers pass, is often aligned to its elements only.
    """
    return item_aligned(func)


def _item_aligned_buffer(buffer: Var) -> Var:
    """Returns a copy of a parameter's buffer that is aligned to the size of an element, instead of to TVM's 64 bytes.

    Divisions in the buffer's shape are guarded: a division by zero would end the process.
    """
    buffer_type = buffer.ty
    item_bits = buffer_type.dtype.dtype.bits * buffer_type.dtype.dtype.lanes
    return decl_buffer(
        [divisible(dim) for dim in buffer_type.shape],
        buffer_type.dtype,
        buffer.name,
        strides=buffer_type.strides,
        elem_offset=buffer_type.elem_offset,
        scope=buffer_type.storage_scope,
        data_alignment=max(1, item_bits // 8),
        offset_factor=buffer_type.offset_factor,
        layout=buffer_type.layout,
    )
