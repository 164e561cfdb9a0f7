"""Loop-invariant code motion: finds statements that fill buffers from data no iteration changes (packed weights)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx import AllocBuffer, BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.schedule.cpu import subroutine

PLAIN = (tirx.For, tirx.SeqStmt, tirx.IfThenElse, BufferStore, AllocBuffer)


def split_invariants(iteration: Stmt, own_buffers: Sequence[Var]) -> tuple[list[Stmt], list[Stmt]]:
    """Splits a loop body into loop-invariant statements, which may run once before the loop, and all others.

    An invariant statement reads nothing that the body changes. It fills buffers that the body allocates, or
    ``own_buffers``, which only the body uses.
    """
    statements = _flat_statements(iteration)
    allocations = [stmt for stmt in statements if isinstance(stmt, AllocBuffer)]
    others = [stmt for stmt in statements if not isinstance(stmt, AllocBuffer)]
    writable = {*own_buffers, *(stmt.buffer for stmt in allocations)}
    bound_vars = {stmt.var for stmt in statements if isinstance(stmt, tirx.Bind)}

    def may_be_invariant(stmt: Stmt) -> bool:
        return _is_plain(stmt) and _written_buffers(stmt) <= writable and not _used_variables(stmt) & bound_vars

    invariant = set(filter(may_be_invariant, others))
    # A statement that reads what a varying statement writes is varying, too. Repeat until nothing changes.
    while True:
        written_by_varying = set().union(*(_may_write(stmt) for stmt in others if stmt not in invariant))
        still_invariant = {stmt for stmt in invariant if not (_used_variables(stmt) & written_by_varying)}
        if still_invariant == invariant:
            break
        invariant = still_invariant
    # The buffers that invariant statements fill are allocated before the loop, too.
    filled = set().union(*map(_written_buffers, invariant))
    invariant |= {stmt for stmt in allocations if stmt.buffer in filled}
    return [stmt for stmt in statements if stmt in invariant], [stmt for stmt in statements if stmt not in invariant]


def _flat_statements(stmt: Stmt) -> list[Stmt]:
    """Returns the statements of nested sequences as one list."""
    if not isinstance(stmt, tirx.SeqStmt):
        return [stmt]
    return [inner for part in stmt.seq for inner in _flat_statements(part)]


def _is_plain(stmt: Stmt) -> bool:
    """Returns whether a statement consists of loops, branches, stores, allocations and calls of subroutines only.

    Only such statements are moved out of a loop.
    """

    def is_plain_node(inner: Stmt) -> bool:
        """Returns whether a single statement is of an allowed kind, without the statements in it."""
        calls_subroutine = isinstance(inner, tirx.Evaluate) and subroutine.is_call(inner.value)
        return isinstance(inner, PLAIN) or calls_subroutine

    inner_statements: list[Stmt] = []
    structural_walk(stmt, (Stmt, inner_statements.append))
    return all(map(is_plain_node, inner_statements))


def _may_write(stmt: Stmt) -> set[Var]:
    """Returns the buffers that a statement may write; a call may write to any of its arguments."""
    return _written_buffers(stmt) if _is_plain(stmt) else _used_variables(stmt)


def _written_buffers(stmt: Stmt) -> set[Var]:
    """Returns the buffers that a statement writes, but for those that it allocates itself."""
    allocated: set[Var] = set()
    structural_walk(stmt, (AllocBuffer, lambda node: allocated.add(node.buffer)))
    return subroutine.written_buffers(stmt) - allocated


def _used_variables(stmt: Stmt) -> set[Var]:
    variables: set[Var] = set()
    structural_walk(stmt, (ir.Var, variables.add))
    return variables
