"""Long reductions to few results: sums slices of the outermost reduction axis in parallel, then sums the slices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads
from tvtf.passes.schedule.cpu.reduction_steps import Steps, steps_of
from tvtf.passes.schedule.cpu.tasks import TASKS_PER_CORE, UNKNOWN_SIZE, Work, run_tasks, tiled_sizes
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import is_long_sum
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand, terms_of

TILES_PER_CORE_THAT_SUFFICE = 8


def slices_of(work: Work, parallel: bool) -> int:
    """Returns how many slices to cut the terms into, along the outermost axis or the steps that a cache holds.

    0 if partial results wouldn't stay in the cache, or if the results alone occupy the cores and each pass over the
    operands finds them in the cache.
    """
    if work.combine is None or work.plan.packed or access.points(work.stage.spatial) is None:
        return 0
    steps = steps_of(work.stage, work.target)
    if not parallel:
        return int(steps is not None and is_long_sum(work.stage, work.target))
    most = work.stage.reduce[0].size if steps is None else emit.static(steps.count)
    counts = [work.target.cores * tasks for tasks in (1, 2, TASKS_PER_CORE, 4 * TASKS_PER_CORE)]
    usual = min(_slices(work), most or UNKNOWN_SIZE) if most != 1 else 0
    return choice("slices", usual, lambda: [0, *(c for c in counts if c <= (most or UNKNOWN_SIZE))])


def _slices(work: Work) -> int:
    occupied = _tile_count(work) >= TILES_PER_CORE_THAT_SUFFICE * work.target.cores
    if not is_long_sum(work.stage, work.target) or (occupied and _is_read_once_or_cached(work)):
        return 0
    return TASKS_PER_CORE * work.target.cores


def _is_read_once_or_cached(work: Work) -> bool:
    """Returns whether repeated passes over the operands cost nothing: rows are read once, front to end, or are in the cache."""
    is_read_once = work.plan.along_rows and not has_reused_operand(work.stage)
    return is_read_once or _operand_bytes(work) <= work.target.level2_bytes // 2


def _operand_bytes(work: Work) -> int:
    extents = [
        [emit.static(extent) or UNKNOWN_SIZE for extent in term.source.ty.shape] for term in terms_of(work.stage)
    ]
    return sum(prod(shape) for shape in extents) * work.stage.item_bytes


def _tile_count(work: Work) -> int:
    sizes = tiled_sizes(work)
    return prod(-(-(axis.size or UNKNOWN_SIZE) // sizes.get(axis.var, 1)) for axis in work.stage.spatial)


def run_slices(work: Work, combine: Combine, slices: int) -> tuple[Stmt, Work]:
    """Returns the statement that fills the partial results, and the reduction that combines them.

    Few results keep few cores busy; slices of their terms keep all of them busy.
    """
    split = Axis(Var("slice", "int64"), index(slices))
    partials = _partial_stage(work.stage, split)
    run = emit.loop(
        slices, lambda number: _slice(work, partials, split, number, slices), tirx.ForKind.PARALLEL, "slice"
    )
    return emit.sequence([emit.allocate(partials.buffer), run]), _final(work, combine, partials, split)


def _partial_stage(stage: Stage, split: Axis) -> Stage:
    buffer = emit.scratch([split.extent, *(axis.extent for axis in stage.spatial)], stage.dtype, "partial")
    partial_value = emit.load(buffer, [split.var, *(axis.var for axis in stage.spatial)])
    value = replace_loads(stage.value, stage.buffer, lambda _indices: partial_value)
    return replace(stage, buffer=buffer, spatial=(split, *stage.spatial), value=value)


def _final(work: Work, combine: Combine, partials: Stage, split: Axis) -> Work:
    stage = work.stage
    places = [axis.var for axis in stage.spatial]
    value = combine(emit.load(stage.buffer, places), emit.load(partials.buffer, [split.var, *places]))
    final = replace(stage, reduce=(split,), value=value, clips=(), edges=())
    return replace(work, stage=final, stores=tuple(final if store is stage else store for store in work.stores))


def _slice(work: Work, partials: Stage, split: Axis, number: ir.Expr, slices: int) -> Stmt:
    """Writes one slice: along rows directly, else step by step onto its partial results."""
    inner, outer = replace(work, stage=partials, stores=(partials,)), work.stage.reduce[0]
    if work.plan.along_rows:
        return _run(inner, split, number, Range(outer, *emit.share(outer.extent, number, slices)))
    inner, steps = replace(inner, start=partials), steps_of(work.stage, work.target)
    if steps is None:
        part = Range(outer, *emit.share(outer.extent, number, slices))
        # A single tile reads each item once.
        run = (_run if _tile_count(work) == 1 else _in_blocks)(inner, split, number, part)
    else:
        run = _stepped(inner, split, number, steps, slices)
    return emit.sequence([_fill(partials, number), run])


def _stepped(work: Work, split: Axis, number: ir.Expr, steps: Steps, slices: int) -> Stmt:
    first, count = emit.share(steps.count, number, slices)

    def one(step: ir.Expr) -> Stmt:
        return run_tasks(work, steps.ranges(first + step), False, {split.var: number})

    return emit.loop(count, one)


def _in_blocks(work: Work, split: Axis, number: ir.Expr, part: Range) -> Stmt:
    """Sums a slice in blocks of terms that the level-1 cache holds."""
    block = _block_steps(work)
    count = part.extent if block == 1 else tirx.floordiv(part.extent + (block - 1), index(block))
    is_even = (emit.static(part.extent) or 1) % block == 0

    def one(number_of_block: ir.Expr) -> Stmt:
        offset = number_of_block * block
        extent = index(block) if is_even else tirx.min(index(block), part.extent - offset)
        return _run(work, split, number, Range(part.axis, part.start + offset, extent))

    return emit.loop(count, one)


def _run(work: Work, split: Axis, number: ir.Expr, part: Range) -> Stmt:
    rest = [Range.whole(axis) for axis in work.stage.reduce[1:]]
    return run_tasks(work, [part, *rest], False, {split.var: number})


def _block_steps(work: Work) -> int:
    """Returns how many steps of the outermost reduction axis have operands that fit the level-1 cache."""
    inner = prod(axis.size or UNKNOWN_SIZE for axis in work.stage.reduce[1:])
    wide = sum(tiled_sizes(work).values())
    return max(1, work.target.level1_bytes // (inner * wide * work.stage.item_bytes))


def _fill(partials: Stage, number: ir.Expr) -> Stmt:
    """Sets the partial results of one slice to the initial value.

    Slices are summed by steps, each of which continues from the sums so far.
    """
    extents = [axis.extent for axis in partials.spatial[1:]]

    def row(places: list[ir.Expr]) -> Stmt:
        size = int(extents[-1]) if extents else 1
        return emit.loop(
            size,
            lambda last: emit.store(partials.buffer, partials.init, [number, *places, last][: len(partials.spatial)]),
        )

    return emit.nest(extents[:-1], row)
