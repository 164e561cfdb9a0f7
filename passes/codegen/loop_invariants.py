"""Loop-invariant code motion: finds statements that fill buffers from data no iteration changes (packed weights)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx import AllocBuffer, BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.schedule.cpu import subroutine

PLAIN = (tirx.For, tirx.SeqStmt, tirx.IfThenElse, BufferStore, AllocBuffer)


def split_invariants(iteration: Stmt, places: Sequence[Var]) -> tuple[list[Stmt], list[Stmt]]:
    """Splits the statements of an iteration into those that may run once before the loop, and the others.

    The former fill buffers that the iteration allocates, or ``places`` that only it uses, from buffers that it doesn't
    write.
    """
    statements = _flat(iteration)
    fills = [s for s in statements if not isinstance(s, AllocBuffer)]
    owned = {*places, *(s.buffer for s in statements if isinstance(s, AllocBuffer))}
    bound = {s.var for s in statements if isinstance(s, tirx.Bind)}
    early = {s for s in fills if _is_plain(s) and _written(s) <= owned and not _mentioned(s) & bound}
    while True:
        late = set().union(*(_may_write(s) for s in fills if s not in early))
        stable = {s for s in early if not (_mentioned(s) & late)}
        if stable == early:
            break
        early = stable
    filled = set().union(*map(_written, early))
    early |= {s for s in statements if isinstance(s, AllocBuffer) and s.buffer in filled}
    return [s for s in statements if s in early], [s for s in statements if s not in early]


def _flat(stmt: Stmt) -> list[Stmt]:
    return [inner for part in stmt.seq for inner in _flat(part)] if isinstance(stmt, tirx.SeqStmt) else [stmt]


def _is_plain(stmt: Stmt) -> bool:
    """Returns whether a statement consists of loops, branches, stores, allocations and calls of subroutines only."""
    statements: list[Stmt] = []
    structural_walk(stmt, (Stmt, statements.append))
    return all(
        isinstance(inner, PLAIN) or (isinstance(inner, tirx.Evaluate) and subroutine.is_call(inner.value))
        for inner in statements
    )


def _may_write(stmt: Stmt) -> set[Var]:
    """Returns the buffers that a statement may write; a call may write to any of its arguments."""
    return _written(stmt) if _is_plain(stmt) else _mentioned(stmt)


def _written(stmt: Stmt) -> set[Var]:
    allocated: set[Var] = set()
    structural_walk(stmt, (AllocBuffer, lambda node: allocated.add(node.buffer)))
    return subroutine.written(stmt) - allocated


def _mentioned(stmt: Stmt) -> set[Var]:
    mentioned: set[Var] = set()
    structural_walk(stmt, (ir.Var, mentioned.add))
    return mentioned
