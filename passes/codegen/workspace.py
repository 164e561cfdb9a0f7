"""Checks that kernels' workspaces can be allocated before TVM allocates them.

TVM's allocator throws where memory is exhausted, through code that can't be unwound: the process would end.
"""

from __future__ import annotations

import re
from typing import Any

from tvm import IRModule, ir, sym, tirx
from tvm.tirx import AllocBuffer, AssertStmt, FloatImm, IfThenElse, IntImm, PrimFunc, SeqStmt, Stmt

from tvtf.core.tvm_visitor import structural_map
from tvtf.ops.kernels.common import floating
from tvtf.passes.analysis.side_effects import FAILURE
from tvtf.passes.codegen.packed_entry import PREFIX
from tvtf.passes.codegen.stack_buffers import STACK_ALLOCATION
from tvtf.passes.memory.clamp_allocation import MAX_BYTES

LARGE = 1 << 28
"""Minimum size in bytes of an allocation that is checked: if a smaller one fails, any next allocation would fail, too."""
_ALIGNMENT = 64


def with_checked_workspace(mod: IRModule) -> IRModule:
    """Makes lowered kernels raise ResourceExhaustedError where their workspace can't be allocated."""
    functions = {
        name: _with_checked_allocations(func) if isinstance(func, PrimFunc) else func
        for name, func in mod.functions_items()
    }
    return IRModule(functions, attrs=mod.attrs)


def _with_checked_allocations(func: PrimFunc) -> PrimFunc:
    """Returns a kernel that raises an error with the kernel's name if its workspace can't be allocated."""
    symbol = func.attrs["global_symbol"] if func.attrs and "global_symbol" in func.attrs else "kernel"
    name = str(symbol).removeprefix(PREFIX)
    body = structural_map(func.body, (SeqStmt, lambda seq: _with_checks(seq, name)))
    return func.with_body(body) if not body.same_as(func.body) else func


def _with_checks(seq: SeqStmt, name: str) -> SeqStmt:
    """Returns a sequence with a check before each allocation that may be large."""
    statements = seq.seq[:]
    checks = [_allocation_check(stmt, name) if isinstance(stmt, AllocBuffer) else None for stmt in statements]
    if not any(checks):
        return seq
    return SeqStmt([part for check, stmt in zip(checks, statements) for part in (check, stmt) if part is not None])


def _allocation_check(stmt: AllocBuffer, name: str) -> Stmt | None:
    """Builds the statement that checks at run time whether a buffer can be allocated.

    Returns None if the buffer is known to be small.

    Args:
      stmt: the allocation of the buffer.
      name: the kernel's name, for the text of the error.
    """
    buffer_type = stmt.buffer.ty
    element_type = buffer_type.dtype.dtype
    bytes_per_element = (element_type.bits * element_type.lanes + 7) // 8
    size: Any = IntImm("int64", bytes_per_element)
    for extent in buffer_type.shape:
        wide_extent = extent if str(extent.ty.dtype) == "int64" else tirx.Cast("int64", extent)
        size = size * wide_extent
    if sym.Analyzer().const_int_bound(size).max_value < LARGE:
        return None
    # The size is compared in floating point, since it may overflow an integer.
    size_as_float = floating(size)
    failure = f"{name}: OOM when allocating a workspace of {_readable(size)} bytes"
    is_large = size_as_float >= FloatImm("float64", float(LARGE))
    return IfThenElse(is_large, SeqStmt(_trial_allocation(size, size_as_float, failure)), None)


def _trial_allocation(size: Any, size_as_float: Any, failure: str) -> list[Stmt]:
    """Returns statements that try to allocate ``size`` bytes and free them again, and that raise an error on failure.

    They call ``posix_memalign``, since LLVM would remove a pair of calls of ``malloc`` and ``free``.

    Args:
      size: the number of bytes, which may have overflowed.
      size_as_float: the same number in floating point, which doesn't overflow.
      failure: the text of the error.
    """
    pointer = tirx.decl_buffer((1,), "int64", "place")
    allocated = tirx.BufferLoad(pointer, [IntImm("int32", 0)])
    address_of_pointer = tirx.address_of(allocated)
    status = tirx.call_extern("int32", "posix_memalign", address_of_pointer, IntImm("int64", _ALIGNMENT), size)
    fits_address_space = size_as_float < FloatImm("float64", float(MAX_BYTES))
    succeeded = tirx.EQ(status, IntImm("int32", 0))
    return [
        _fails_unless(fits_address_space, failure),
        AllocBuffer(pointer, STACK_ALLOCATION),
        _fails_unless(succeeded, failure),
        tirx.Evaluate(tirx.call_extern("int32", "free", allocated)),
    ]


def _fails_unless(condition: Any, failure: str) -> AssertStmt:
    """Returns the statement that raises ResourceExhaustedError unless a condition holds."""
    text = FAILURE.format(kind="ResourceExhaustedError", message=failure)
    return AssertStmt(condition, ir.StringImm("RuntimeError"), [ir.StringImm(text)])


def _readable(size: Any) -> str:
    """Returns a size as text without the types of its constants."""
    return re.sub(r"T\.int64\((\d+)\)", r"\1", str(size))
