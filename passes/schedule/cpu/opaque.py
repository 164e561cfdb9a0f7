"""Loop nests that aren't read as stages: run as written, but long outer loops of independent iterations in parallel."""

from __future__ import annotations

from tvm import ir, tirx
from tvm.tirx import For, ForKind, SeqStmt, Stmt

from tvtf.ops.kernels.common import INDEPENDENT
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import substitute
from tvtf.passes.schedule.cpu.target import CpuTarget

ITERATIONS_PER_TASK = 1 << 14
"""Number of iterations of a parallel task."""


def emit_opaque(body: Stmt, target: CpuTarget) -> Stmt:
    """Emits an opaque loop nest (one that isn't parsed into stages) unchanged, except for long independent outer loops.

    These loops are split over all cores.
    """
    if target.cores == 1:
        return body
    if isinstance(body, SeqStmt):
        return emit.sequence([emit_opaque(part, target) for part in body.seq])
    if not isinstance(body, For) or body.kind != ForKind.SERIAL:
        return body
    # Around the loops that can be split there may be loops of a single iteration.
    if emit.static(body.extent) == 1:
        return For(body.loop_var, body.min, body.extent, body.kind, emit_opaque(body.body, target))
    has_independent_iterations = any(name in body.annotations for name in INDEPENDENT)
    if has_independent_iterations and _is_worth_splitting(body):
        return _split_into_tasks(body)
    return body


def _is_worth_splitting(loop: For) -> bool:
    """Returns whether a loop has a static number of iterations that is enough for two tasks."""
    iterations = emit.static(loop.extent)
    return iterations is not None and iterations >= 2 * ITERATIONS_PER_TASK


def _split_into_tasks(loop: For) -> Stmt:
    """Splits a loop into parallel tasks of a fixed number of iterations.

    To start a task for each iteration would take longer than the iteration.
    """

    def emit_task(task: ir.Expr) -> Stmt:
        """Emits the iterations of one task; the last task may have fewer."""
        first_iteration = task * ITERATIONS_PER_TASK
        count = tirx.min(loop.extent - first_iteration, index(ITERATIONS_PER_TASK))

        def emit_iteration(offset: ir.Expr) -> Stmt:
            return substitute(loop.body, {loop.loop_var: loop.min + first_iteration + offset})

        return emit.loop(count, emit_iteration)

    task_count = emit.simplified(emit.ceil_div(loop.extent, ITERATIONS_PER_TASK))
    return emit.loop(task_count, emit_task, ForKind.PARALLEL, "task")
