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
from tvtf.passes.schedule.cpu.product_tile import (
    CYCLES_OF_A_SHORT_CALL,
    MAX_CYCLES_OF_SHORT_CALLS,
    MAX_SHARE_OF_SHORT_CALLS,
    product_tile_of,
)
from tvtf.passes.schedule.cpu.region import Pairs, Part, Region, estimated_cycles, extent_of

MIN_CYCLES = 64
"""Minimum cycles of called loops, at 16 elements a cycle: a call then costs nothing measurable. With a minimum of 16 cycles, a
U-Net's steps take 2 % longer."""
MIN_CYCLES_BESIDE_CALL = 2000
"""Cycles of other work per execution of loops with which a call of the loops costs nothing, however short they are."""
MIN_PARTS, MAX_PARTS = 8, 64
"""Minimum and maximum numbers of calls that replace a parallel loop: enough for many cores."""


def with_called_loops(body: Stmt, overlapping: Pairs = ()) -> Stmt:
    """Outlines the loops of a kernel's body into subroutines, if the kernel calls subroutines already.

    Such a kernel then consists of calls only, which LLVM compiles quickly. Other kernels are returned unchanged.

    Args:
        body: the kernel's body.
        overlapping: the pairs of arrays that may be the same memory.
    """
    if not subroutine.has_calls(body):
        return body
    return _Outliner(overlapping, subroutine.passed_buffers(body), estimated_cycles(body)).outlined(body)


class _Outliner:
    """Replaces the outermost loops that can be subroutines by calls of them."""

    def __init__(self, overlapping: Pairs, in_memory: Collection[Var], cycles: float) -> None:
        """Prepares the outlining of a kernel's loops.

        Args:
            overlapping: the pairs of arrays that may be the same memory.
            in_memory: the kernel's local arrays that LLVM can't hold in registers.
            cycles: the estimated cycles of the kernel.
        """
        self.overlapping, self.in_memory = overlapping, in_memory
        self.cycles_left_for_calls = max(MAX_CYCLES_OF_SHORT_CALLS, cycles * MAX_SHARE_OF_SHORT_CALLS)

    def outlined(self, stmt: Stmt, nearby_cycles: float = 0, times: int = 1) -> Stmt:
        """Returns a statement with its outermost loops outlined: calls of subroutines replace them where possible.

        Args:
            stmt: the statement.
            nearby_cycles: the estimated cycles of the statements around it, per execution of the statement. If there
                are many, the cost of a call is only a small share.
            times: how many times the kernel executes the statement.
        """
        if isinstance(stmt, SeqStmt):
            nearby_cycles = max(nearby_cycles, estimated_cycles(stmt))
            return emit.sequence([self.outlined(part, nearby_cycles, times) for part in stmt.seq])
        if isinstance(stmt, IfThenElse):
            else_case = None if stmt.else_case is None else self.outlined(stmt.else_case, nearby_cycles, times)
            return IfThenElse(stmt.condition, self.outlined(stmt.then_case, nearby_cycles, times), else_case)
        if not isinstance(stmt, For):
            return stmt
        is_parallel = stmt.kind == ForKind.PARALLEL
        replacement = self._outline_parallel(stmt) if is_parallel else self._outline(stmt, nearby_cycles, times)
        if replacement is not None:
            return replacement
        body = self.outlined(stmt.body, nearby_cycles / extent_of(stmt), times * extent_of(stmt))
        return For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations)

    def _outline(self, loop: For, nearby_cycles: float, times: int) -> Stmt | None:
        """Outlines a loop into a subroutine, and returns the call, or None if that is impossible or not worthwhile.

        A call costs nothing measurable compared with enough work: the loop's own, that of statements nearby, or, if it
        isn't executed often, that of the kernel.

        Args:
            loop: the loop.
            nearby_cycles: the work of the statements around the loop, per execution of it.
            times: how many times the kernel executes the loop.
        """
        region = Region(loop, self.in_memory)
        if region.cycles is None or not region.stores:
            return None
        is_worthwhile = max(region.cycles, nearby_cycles) >= MIN_CYCLES_BESIDE_CALL
        cycles_of_calls = 0
        if region.calls:
            # Product tiles have many sizes: each would make another subroutine of the loops around it.
            is_worthwhile = is_worthwhile and all(product_tile_of(call) is None for call, _loops in region.calls)
        elif not is_worthwhile and region.cycles < MIN_CYCLES:
            cycles_of_calls = times * CYCLES_OF_A_SHORT_CALL
            is_worthwhile = cycles_of_calls <= self.cycles_left_for_calls
        else:
            is_worthwhile = True
        if not is_worthwhile or not region.can_be_called:
            return None
        self.cycles_left_for_calls -= cycles_of_calls
        return region.call(self.overlapping)

    def _outline_parallel(self, loop: For) -> Stmt | None:
        """Outlines a parallel elementwise loop into a subroutine that runs a part of the loop.

        Returns a parallel loop with a call for each part, or None if the loop can't be outlined, or has less work than
        `MIN_PARTS` calls are worth.
        """
        region = Region(loop, self.in_memory)
        extent = emit.static(loop.extent)
        if region.cycles is None or extent is None or region.calls:
            return None
        part_count = min(MAX_PARTS, extent, int(region.cycles / MIN_CYCLES))
        if part_count < MIN_PARTS or not region.can_be_called:
            return None

        def call_for_part(part_index: ir.Expr) -> Stmt:
            """Emits the call that runs one part of the loop."""
            start, size = emit.balanced_part(emit.index(extent), part_index, part_count)
            return region.call(self.overlapping, Part(start, size))

        return emit.loop(part_count, call_for_part, ForKind.PARALLEL, "task")
