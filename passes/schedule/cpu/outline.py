"""Outlines loops of kernels into subroutines, where a kernel calls subroutines anyway.

What is left around the tiles of a product, such as clearing sums or the elementwise stages that follow it, differs
among kernels in little but sizes. As a subroutine with its sizes and strides as numbers it is compiled once for all of
them, and a kernel that only calls subroutines needs no optimization.
"""

from __future__ import annotations

from collections.abc import Collection

from tvm import ir
from tvm.tirx import For, ForKind, IfThenElse, SeqStmt, Stmt, Var

from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.product_tile import product_tile_of
from tvtf.passes.schedule.cpu.region import Pairs, Part, Region, estimated_cycles, extent_of

MIN_CYCLES = 64
"""Minimum cycles of called loops, at 16 elements a cycle: a call then costs nothing measurable. With a minimum of 16 cycles, a
U-Net's steps take 2 % longer."""
CYCLES_BESIDE_A_CALL = 2000
"""Cycles of other work per execution of loops with which a call of the loops costs nothing, however short they are."""
MIN_PARTS, MAX_PARTS = 8, 64
"""Minimum and maximum numbers of calls that replace a parallel loop: enough for many cores."""


def with_called_loops(body: Stmt, overlapping: Pairs = ()) -> Stmt:
    """Returns a kernel's body with loops as calls of subroutines, if it calls subroutines already.

    ``overlapping`` has the pairs of arrays that may be the same memory.
    """
    return (
        _Outliner(overlapping, subroutine.passed_buffers(body)).statement(body) if subroutine.has_calls(body) else body
    )


class _Outliner:
    """Replaces the outermost loops that can be subroutines by calls of them."""

    def __init__(self, overlapping: Pairs, in_memory: Collection[Var]) -> None:
        self.overlapping, self.in_memory = overlapping, in_memory

    def statement(self, stmt: Stmt, nearby_cycles: float = 0) -> Stmt:
        """Returns a statement with calls for the loops in it.

        ``nearby_cycles`` is the work that the statements around it do, for each time that the statement runs.
        """
        if isinstance(stmt, SeqStmt):
            nearby_cycles = max(nearby_cycles, estimated_cycles(stmt))
            return emit.sequence([self.statement(part, nearby_cycles) for part in stmt.seq])
        if isinstance(stmt, IfThenElse):
            other = None if stmt.else_case is None else self.statement(stmt.else_case, nearby_cycles)
            return IfThenElse(stmt.condition, self.statement(stmt.then_case, nearby_cycles), other)
        if not isinstance(stmt, For):
            return stmt
        call = self._parts(stmt) if stmt.kind == ForKind.PARALLEL else self._call(stmt, nearby_cycles)
        if call is not None:
            return call
        body = self.statement(stmt.body, nearby_cycles / extent_of(stmt))
        return For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations)

    def _call(self, stmt: Stmt, nearby_cycles: float) -> Stmt | None:
        """Returns the call of a subroutine for loops, or None if they can't be a subroutine, or do too little work."""
        region = Region(stmt, self.in_memory)
        if region.cycles is None or not region.stores:
            return None
        is_worthwhile = max(region.cycles, nearby_cycles) >= CYCLES_BESIDE_A_CALL
        if region.calls:
            # Tiles of products have many sizes: loops around them would be many subroutines.
            is_worthwhile = is_worthwhile and all(product_tile_of(call) is None for call, _ in region.calls)
        else:
            is_worthwhile = is_worthwhile or region.cycles >= MIN_CYCLES
        return region.call(self.overlapping) if is_worthwhile and region.can_be_called() else None

    def _parts(self, loop: For) -> Stmt | None:
        """Returns a parallel loop of calls, each for a part of a parallel elementwise loop, or None if there can't be one."""
        region, extent = Region(loop, self.in_memory), emit.static(loop.extent)
        if region.cycles is None or extent is None or region.calls:
            return None
        count = min(MAX_PARTS, extent, int(region.cycles / MIN_CYCLES))
        if count < MIN_PARTS or not region.can_be_called():
            return None

        def part(part_index: ir.Expr) -> Stmt:
            return region.call(self.overlapping, Part(*emit.balanced_part(emit.index(extent), part_index, count)))

        return emit.loop(count, part, ForKind.PARALLEL, "task")
