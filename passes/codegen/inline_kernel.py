"""Inlines the statements of a kernel into another, on that kernel's buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import IRModule, ir, s_tir, tirx, transform
from tvm.tirx import AllocBuffer, For, ForKind, PrimFunc, Stmt, Var
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.codegen.stack_buffers import MAX_BYTES
from tvtf.passes.schedule.cpu import emit

STACK_BYTES = 1024
"""Maximum bytes of a buffer that TVM puts on the stack; a larger one is allocated by a call, each time its kernel runs."""


def inlined_body(func: PrimFunc, operands: Sequence[ir.Expr]) -> tuple[Stmt, list[Var]]:
    """Returns a kernel's body for inlining in another kernel, and the large buffers that the body works in.

    The caller must allocate the large buffers.

    Args:
      func: the kernel.
      operands: the buffers, or expressions for scalars, that replace the kernel's parameters.
    """
    func = s_tir.renew_defs(without_blocks(func))
    replacements: dict[Any, ir.Expr] = {}
    for param, operand in zip(func.params, operands, strict=True):
        replacements[param] = operand
        if is_buffer_var(param):
            _bind_dims(replacements, param.ty.shape, operand.ty.shape)
    large_buffers: list[Var] = []
    allocated_by_threads = _allocations_in_parallel_loops(func.body)

    def resized_allocation(stmt: AllocBuffer) -> Stmt:
        """Replaces an allocation by one with the operands' dims; a large buffer is allocated by the caller instead."""
        resized = _resized(stmt.buffer, replacements)
        replacements[stmt.buffer] = resized
        if stmt in allocated_by_threads or not is_large(resized):
            return tirx.AllocBuffer(resized)
        large_buffers.append(resized)
        return tirx.Evaluate(tirx.IntImm("int32", 0))  # an empty statement

    body = structural_map(func.body, (AllocBuffer, resized_allocation))
    body = structural_map(body, (Var, lambda var: replacements.get(var, var)))
    return structural_map(body, (tirx.Let, _with_fresh_var)), large_buffers


def _with_fresh_var(let: tirx.Let) -> tirx.Let:
    """Renames the variable of a `Let`: LLVM's code generator maps each variable to one value in the entire kernel."""
    new_var = Var(let.var.name, let.var.ty)
    return tirx.Let(
        new_var, let.value, structural_map(let.body, (Var, lambda var: new_var if var.same_as(let.var) else var))
    )


def without_blocks(func: PrimFunc) -> PrimFunc:
    """Lowers the blocks (TensorIR's SBlock) of a kernel to loops and statements.

    A kernel that is inlined into the kernel of a loop must not contain blocks.
    """
    s_tir_passes = s_tir.transform
    lowering = transform.Sequential(
        [
            s_tir_passes.LowerInitBlock(),
            s_tir_passes.PlanAndUpdateBufferAllocationLocation(),
            s_tir_passes.ConvertBlocksToOpaque(),
            s_tir_passes.LowerMatchBuffer(),
            s_tir_passes.LowerOpaqueBlock(),
        ]
    )
    return lowering(IRModule({"kernel": func.with_attr("s_tir", True)}))["kernel"]


def is_large(buffer: Var) -> bool:
    """Returns whether a buffer is, or may be, too large for the stack."""
    size = emit.static(emit.volume(list(buffer.ty.shape)))
    limit = MAX_BYTES if buffer.ty.storage_scope == "local" else STACK_BYTES
    return size is None or size * buffer.ty.dtype.dtype.itemsize > limit


def _bind_dims(replacements: dict[Any, ir.Expr], dims: Sequence[ir.Expr], actual_dims: Sequence[ir.Expr]) -> None:
    """Adds each symbolic dim of a parameter, with the operand's dim that replaces it, to ``replacements``."""
    for dim, actual in zip(dims, actual_dims, strict=True):
        if isinstance(dim, Var):
            replacements.setdefault(dim, actual)


def _allocations_in_parallel_loops(body: Stmt) -> list[AllocBuffer]:
    """Returns the allocations inside the parallel loops of a kernel, where each thread allocates a buffer of its own.

    A buffer of the caller would be shared by all threads.
    """
    allocations: list[AllocBuffer] = []

    def add_allocations(loop: For) -> None:
        """Adds the allocations inside of a loop, if the loop is parallel."""
        if loop.kind == ForKind.PARALLEL:
            structural_walk(loop.body, (AllocBuffer, allocations.append))

    structural_walk(body, (For, add_allocations))
    return allocations


def _resized(buffer: Var, replacements: dict[Any, ir.Expr]) -> Var:
    """Returns a copy of a buffer that the inlined kernel allocates, with its symbolic dims replaced."""
    shape = [structural_map(dim, (Var, lambda var: replacements.get(var, var))) for dim in buffer.ty.shape]
    buffer_type = buffer.ty
    return tirx.decl_buffer(shape, buffer_type.dtype, buffer.name, scope=buffer_type.storage_scope)
