"""Loop nests that aren't read as stages: run as written, but long outer loops of independent iterations in parallel."""

from __future__ import annotations

from tvm import ir, tirx
from tvm.tirx import For, ForKind, SeqStmt, Stmt

from tvtf.ops.kernels.common import INDEPENDENT
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import substitute
from tvtf.passes.schedule.cpu.target import CpuTarget

STEPS_OF_A_TASK = 1 << 14
"""Iterations that one chunk takes."""


def emit_opaque(body: Stmt, target: CpuTarget) -> Stmt:
    """Returns the nest with its outermost long, independent loops split over all cores."""
    if target.cores == 1:
        return body
    if isinstance(body, SeqStmt):
        return emit.sequence([emit_opaque(part, target) for part in body.seq])
    if not isinstance(body, For) or body.kind != ForKind.SERIAL:
        return body
    # The loops that can be split are inside of one that runs once.
    if emit.static(body.extent) == 1:
        return For(body.loop_var, body.min, body.extent, body.kind, emit_opaque(body.body, target))
    return _in_tasks(body) if _is_long(body) and any(name in body.annotations for name in INDEPENDENT) else body


def _is_long(loop: For) -> bool:
    steps = emit.static(loop.extent)
    return steps is not None and steps >= 2 * STEPS_OF_A_TASK


def _in_tasks(loop: For) -> Stmt:
    """Splits a loop into chunks of a fixed number of iterations.

    A task of that size is worth the start of a thread, however long the loop is.
    """

    def task(number: ir.Expr) -> Stmt:
        first = number * STEPS_OF_A_TASK
        count = tirx.min(loop.extent - first, index(STEPS_OF_A_TASK))
        return emit.loop(count, lambda step: substitute(loop.body, {loop.loop_var: loop.min + first + step}))

    tasks = emit.simplified(tirx.floordiv(loop.extent + (STEPS_OF_A_TASK - 1), index(STEPS_OF_A_TASK)))
    return emit.loop(tasks, task, ForKind.PARALLEL, "task")
