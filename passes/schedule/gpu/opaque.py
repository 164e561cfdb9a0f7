"""Loop nests that aren't read as stages: one thread per iteration of independent loops, one thread for the rest."""

from __future__ import annotations

from tvm import ir, tirx
from tvm.tirx import For, ForKind, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.ops.kernels.common import INDEPENDENT
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import substitute, variables
from tvtf.passes.schedule.gpu.block import threads_over
from tvtf.passes.schedule.gpu.target import GpuTarget

DECLARATIONS = (tirx.AllocBuffer, tirx.DeclBuffer)


def emit_opaque(body: Stmt, target: GpuTarget) -> Stmt:
    """Writes a nest as kernels, one for each outermost loop."""
    declared, loops = _at_top(body)
    return emit.sequence([_kernel(loop, declared, target) for loop in loops])


def _at_top(body: Stmt) -> tuple[list[Stmt], list[Stmt]]:
    """Splits a nest into its outermost buffer declarations and loops; returns it whole if it contains anything else."""
    if isinstance(body, For) and emit.static(body.extent) == 1:
        return _at_top(substitute(body.body, {body.loop_var: body.min}))
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    declared = [part for part in parts if isinstance(part, DECLARATIONS)]
    loops = [part for part in parts if isinstance(part, For)]
    return (declared, loops) if len(declared) + len(loops) == len(parts) else ([], [body])


def _kernel(body: Stmt, declared: list[Stmt], target: GpuTarget) -> Stmt:
    """Writes one loop nest as a kernel with a thread for each point of its outermost independent loops."""
    loops: list[For] = []
    while isinstance(body, For) and _is_independent(body):
        loops.append(body)
        body = body.body
    # A serial loop around it can run in each thread: every store is in the independent loop.
    inner = _only_writer(body)
    if inner is not None:
        loops.append(inner)
        body = _without(body, inner)
    extents = [loop.extent for loop in loops]
    serial_body = _serial(emit.sequence([*declared, body]))

    def work(place: ir.Expr) -> Stmt:
        places = emit.unflatten(place, extents)
        values = {loop.loop_var: loop.min + at for loop, at in zip(loops, places, strict=True)}
        return substitute(serial_body, values)

    return threads_over(target, emit.volume(extents), work)


def _is_independent(loop: For) -> bool:
    return loop.kind == ForKind.PARALLEL or any(name in loop.annotations for name in INDEPENDENT)


def _only_writer(body: Stmt) -> For | None:
    """Returns an independent loop inside a nest that contains all of its stores, or None."""
    loops: list[For] = []
    structural_walk(body, (For, loops.append))
    known = [loop for loop in loops if _is_independent(loop) and not _bound_within(body) & variables(loop.extent)]
    return next((loop for loop in known if _stores(loop) == _stores(body)), None)


def _stores(body: Stmt) -> int:
    stores: list[tirx.BufferStore] = []
    structural_walk(body, (tirx.BufferStore, stores.append))
    return len(stores)


def _bound_within(body: Stmt) -> set[Var]:
    bound: set[Var] = set()
    structural_walk(body, (For, lambda loop: bound.add(loop.loop_var)))
    structural_walk(body, (tirx.Bind, lambda bind: bound.add(bind.var)))
    return bound


def _without(body: Stmt, inner: For) -> Stmt:
    """Returns the nest with a loop replaced by one iteration of it."""
    return structural_map(body, (For, lambda loop: loop.body if loop.loop_var.same_as(inner.loop_var) else loop))


def _serial(body: Stmt) -> Stmt:
    """Returns the statement with parallel loops made serial."""
    return structural_map(
        body, (For, lambda loop: For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, loop.body))
    )
