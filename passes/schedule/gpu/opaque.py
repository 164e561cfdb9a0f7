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
    """Emits GPU kernels for a loop nest that isn't understood as stages, one kernel for each outermost loop."""
    declarations, loops = _declarations_and_loops(body)
    return emit.sequence([_emit_kernel(loop, declarations, target) for loop in loops])


def _declarations_and_loops(body: Stmt) -> tuple[list[Stmt], list[Stmt]]:
    """Splits a loop nest into its outermost buffer declarations and its outermost loops.

    If the nest contains anything else, the complete nest is returned as the only loop.
    """
    # A loop of one iteration around the others is dropped.
    if isinstance(body, For) and emit.static(body.extent) == 1:
        return _declarations_and_loops(substitute(body.body, {body.loop_var: body.min}))
    statements = list(body.seq) if isinstance(body, SeqStmt) else [body]
    declarations = [stmt for stmt in statements if isinstance(stmt, DECLARATIONS)]
    loops = [stmt for stmt in statements if isinstance(stmt, For)]
    if len(declarations) + len(loops) < len(statements):
        return [], [body]
    return declarations, loops


def _emit_kernel(body: Stmt, declarations: list[Stmt], target: GpuTarget) -> Stmt:
    """Emits a GPU kernel for one loop nest, with a thread for each iteration of the outermost independent loops.

    Each thread runs the remaining loops serially.

    Args:
      body: the loop nest.
      declarations: declarations of buffers, which each thread needs before the loops.
      target: the GPU.
    """
    loops: list[For] = []
    while isinstance(body, For) and _is_independent(body):
        loops.append(body)
        body = body.body
    # Serial loops around an independent one can run in each thread, if all stores are in the independent one.
    inner = _only_writer(body)
    if inner is not None:
        loops.append(inner)
        body = _without(body, inner)
    extents = [loop.extent for loop in loops]
    serial_body = _serial(emit.sequence([*declarations, body]))

    def emit_element(flat_index: ir.Expr) -> Stmt:
        """Emits one thread: the iteration of the independent loops at a row-major (flat) index."""
        indices = emit.unflatten(flat_index, extents)
        values = {loop.loop_var: loop.min + index for loop, index in zip(loops, indices, strict=True)}
        return substitute(serial_body, values)

    return threads_over(target, emit.volume(extents), emit_element)


def _is_independent(loop: For) -> bool:
    """Returns whether the iterations of a loop don't depend on each other."""
    return loop.kind == ForKind.PARALLEL or any(name in loop.annotations for name in INDEPENDENT)


def _only_writer(body: Stmt) -> For | None:
    """Returns an independent loop inside a loop nest that contains all stores of the nest, or None.

    The loop's extent mustn't depend on variables that are bound in the nest.
    """
    loops: list[For] = []
    structural_walk(body, (For, loops.append))
    bound_vars = _bound_within(body)
    store_count = _store_count(body)
    for loop in loops:
        has_fixed_extent = not bound_vars & variables(loop.extent)
        if _is_independent(loop) and has_fixed_extent and _store_count(loop) == store_count:
            return loop
    return None


def _store_count(body: Stmt) -> int:
    """Returns the number of stores in a statement."""
    stores: list[tirx.BufferStore] = []
    structural_walk(body, (tirx.BufferStore, stores.append))
    return len(stores)


def _bound_within(body: Stmt) -> set[Var]:
    """Returns the variables that loops and statements in a nest bind."""
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
