"""Long reductions to few results: sums slices of the outermost reduction axis in parallel, then sums the slices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads, substitute
from tvtf.passes.schedule.cpu.reduction_steps import Steps, steps_of
from tvtf.passes.schedule.cpu.tasks import TASKS_PER_CORE, UNKNOWN_SIZE, PlannedReduction, emit_tasks, tiled_sizes
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import is_long_sum
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand, operands_of

ENOUGH_TILES_PER_CORE = 8
MAX_SLICES_IN_ONE_VALUE = 16
"""Maximum number of slices whose partial results are added in one expression."""


def slices_of(planned: PlannedReduction, parallel: bool) -> int:
    """Returns the number of slices (parts of a sum's terms) that tasks sum in parallel; 0 for none.

    Slices are profitable for a long sum, unless its results occupy all cores and its operands are read once or are
    cached.

    Args:
        planned: the reduction and its plan.
        parallel: whether the sum may run in parallel. Otherwise the result is at most 1: a single slice is summed in
            steps whose operands stay in the cache.
    """
    stage, target = planned.stage, planned.target
    if planned.combine is None or planned.plan.packed or access.iteration_count(stage.spatial) is None:
        return 0
    steps = steps_of(stage, target)
    if not parallel:
        return int(steps is not None and is_long_sum(stage, target))
    # Slices are parts of the outermost reduction axis, or of the steps if there are some.
    parts = stage.reduce[0].size if steps is None else emit.static(steps.count)
    max_slices = parts or UNKNOWN_SIZE
    default = 0 if parts == 1 else min(_default_slices(planned), max_slices)
    # Tuning also tries these counts.
    tried_counts = [target.cores * tasks_per_core for tasks_per_core in (1, 2, TASKS_PER_CORE, 4 * TASKS_PER_CORE)]
    return choice("slices", default, lambda: [0, *(count for count in tried_counts if count <= max_slices)])


def _default_slices(planned: PlannedReduction) -> int:
    """Returns the number of slices of a sum unless tuning chooses another; 0 if slicing isn't profitable."""
    occupied = _tile_count(planned) >= ENOUGH_TILES_PER_CORE * planned.target.cores
    if not is_long_sum(planned.stage, planned.target) or (occupied and _is_read_once_or_cached(planned)):
        return 0
    return TASKS_PER_CORE * planned.target.cores


def _is_read_once_or_cached(planned: PlannedReduction) -> bool:
    """Returns whether all tiles read the operands cheaply: each row is read once, or the operands fit the cache."""
    is_read_once = planned.plan.along_terms and not has_reused_operand(planned.stage)
    return is_read_once or _operand_bytes(planned) <= planned.target.level2_bytes // 2


def _operand_bytes(planned: PlannedReduction) -> int:
    """Returns the size in bytes of all operands of a reduction. Symbolic extents count as 512."""
    extents = [
        [emit.static(extent) or UNKNOWN_SIZE for extent in term.source.ty.shape] for term in operands_of(planned.stage)
    ]
    return sum(prod(shape) for shape in extents) * planned.stage.item_bytes


def _tile_count(planned: PlannedReduction) -> int:
    """Returns the number of register tiles that cover a reduction's results."""
    sizes = tiled_sizes(planned)
    return prod(emit.ceil_div(axis.size or UNKNOWN_SIZE, sizes.get(axis.var, 1)) for axis in planned.stage.spatial)


def emit_slices(planned: PlannedReduction, combine: Combine, slices: int) -> tuple[Stmt, PlannedReduction]:
    """Returns the statement that sums all slices into partial results, and the reduction that combines these.

    With few results, parallel tasks for results would leave cores idle. Tasks for slices of the terms occupy all cores.

    Args:
        planned: the reduction and its plan.
        combine: combines two partial results.
        slices: the number of slices of the terms.
    """
    slice_axis = Axis(Var("slice", "int64"), index(slices))
    partials = _partial_stage(planned.stage, slice_axis)

    def sum_slice(slice_index: ir.Expr) -> Stmt:
        """Emits the sum of one slice of the terms."""
        return _sum_slice(planned, partials, slice_axis, slice_index, slices)

    sum_slices = emit.loop(slices, sum_slice, tirx.ForKind.PARALLEL, "slice")
    combining = _combining_reduction(planned, combine, partials, slice_axis)
    return emit.sequence([emit.allocate(partials.buffer), sum_slices]), combining


def emit_few_partials(combining: PlannedReduction) -> Stmt | None:
    """Emits the sum of few slices' partial results as an elementwise nest, and what follows the sum as another one.

    Both are loops that most kernels have in common, so `outline` makes them calls of compiled subroutines. As a register
    tile with an epilogue, LLVM takes 25 ms for them. Returns None if there are more slices, or fewer results than two
    vectors.

    Args:
        combining: the reduction that combines the partial results, from `emit_slices`.
    """
    stage, (slice_axis,), target = combining.stage, combining.stage.reduce, combining.target
    slices = slice_axis.size
    results = access.iteration_count(stage.spatial)
    if combining.combine is None or slices is None or slices > MAX_SLICES_IN_ONE_VALUE:
        return None
    if len(access.reads_of(stage, stage.buffer)) != 1:
        return None  # a maximum that keeps NaN uses its operand twice: the value would double with each slice
    if results is None or results < 2 * target.lanes(stage.item_bytes):
        return None
    # Each partial result began with the reduction's initial value.
    value, *others = (_partial_of(stage, slice_axis, number) for number in range(slices))
    for partial_value in others:
        value = combining.combine(value, partial_value)
    if any(store is stage for store in combining.stores):
        sums, allocation = stage.buffer, []
    else:
        sums = emit.scratch([axis.extent for axis in stage.spatial], stage.dtype, "sums")
        allocation = [emit.allocate(sums)]
    sum_stage = Stage(sums, stage.spatial, (), None, value)
    finishing = [
        replace(store, value=replace_loads(store.value, stage.buffer, partial(emit.load, sums)))
        for store in combining.stores
        if store is not stage
    ]
    nests = [emit_elementwise(stages, target) for stages in ([sum_stage], finishing) if stages]
    return emit.sequence([*allocation, *nests])


def _partial_of(combining: Stage, slice_axis: Axis, number: int) -> ir.Expr:
    """Returns the partial result of a slice that a stage combines, at the stage's own indices."""
    partial_load = next(load for load in combining.loads if not load.source.same_as(combining.buffer))
    return substitute(partial_load, {slice_axis.var: index(number)})


def _partial_stage(stage: Stage, slice_axis: Axis) -> Stage:
    """Returns the reduction with a scratch buffer for its partial results, one for each slice and result."""
    buffer = emit.scratch([slice_axis.extent, *(axis.extent for axis in stage.spatial)], stage.dtype, "partial")
    partial_value = emit.load(buffer, [slice_axis.var, *(axis.var for axis in stage.spatial)])
    value = replace_loads(stage.value, stage.buffer, lambda _indices: partial_value)
    return replace(stage, buffer=buffer, spatial=(slice_axis, *stage.spatial), value=value)


def _combining_reduction(
    planned: PlannedReduction, combine: Combine, partials: Stage, slice_axis: Axis
) -> PlannedReduction:
    """Builds the reduction that combines the partial results of all slices to final results.

    A slice is a part of the terms that one task sums. The stages that follow the original reduction (its epilogue) run
    on the final results.

    Args:
        planned: the reduction and its plan.
        combine: combines two partial results.
        partials: the stage of the partial results.
        slice_axis: the axis of the slices.
    """
    stage = planned.stage
    result_indices = [axis.var for axis in stage.spatial]
    old_result = emit.load(stage.buffer, result_indices)
    partial_result = emit.load(partials.buffer, [slice_axis.var, *result_indices])
    # Clips and edges skip terms. The partial results don't contain these terms, so that the new reduction needs none.
    combining = replace(stage, reduce=(slice_axis,), value=combine(old_result, partial_result), clips=(), edges=())
    stores = tuple(combining if store is stage else store for store in planned.stores)
    return replace(planned, stage=combining, stores=stores)


def _sum_slice(planned: PlannedReduction, partials: Stage, slice_axis: Axis, slice_index: ir.Expr, slices: int) -> Stmt:
    """Emits the sum of one slice (a part of a sum's terms) into the slice's partial results.

    Vectors along terms sum the slice at once. Vectors along results sum it in steps or blocks whose operands stay in a
    cache.

    Args:
        planned: the reduction and its plan.
        partials: the stage whose results are the partial results of all slices.
        slice_axis: the first axis of `partials`, which counts slices.
        slice_index: the index of this slice.
        slices: the number of slices.
    """
    summing = replace(planned, stage=partials, stores=(partials,))
    outer_axis = planned.stage.reduce[0]

    def terms_of_slice() -> Range:
        start, extent = emit.balanced_part(outer_axis.extent, slice_index, slices)
        return Range(outer_axis, start, extent)

    if planned.plan.along_terms:
        return _sum_range(summing, slice_axis, slice_index, terms_of_slice())
    adding = replace(summing, start=partials)  # adds to the partial results
    steps = steps_of(planned.stage, planned.target)
    if steps is not None:
        sum_terms = _sum_by_steps(adding, slice_axis, slice_index, steps, slices)
    elif _tile_count(planned) == 1:  # a single tile reads each element once, and needs no blocks
        sum_terms = _sum_range(adding, slice_axis, slice_index, terms_of_slice())
    else:
        sum_terms = _sum_by_blocks(adding, slice_axis, slice_index, terms_of_slice())
    return emit.sequence([_initialize(partials, slice_index), sum_terms])


def _sum_by_steps(planned: PlannedReduction, slice_axis: Axis, slice_index: ir.Expr, steps: Steps, slices: int) -> Stmt:
    """Emits a loop over the steps of one slice (the part of a sum's terms that one task sums).

    A step is a block of terms whose operands stay in the cache. Each step adds to the slice's partial results.

    Args:
        planned: the reduction, which adds to the partial results.
        slice_axis: the axis that counts slices.
        slice_index: the index of this slice.
        steps: the steps of all slices.
        slices: the number of slices.
    """
    first_step, count = emit.balanced_part(steps.count, slice_index, slices)

    def sum_step(step: ir.Expr) -> Stmt:
        """Emits the addition of one step's terms to the partial results."""
        return emit_tasks(planned, steps.ranges(first_step + step), False, {slice_axis.var: slice_index})

    return emit.loop(count, sum_step)


def _sum_by_blocks(planned: PlannedReduction, slice_axis: Axis, slice_index: ir.Expr, range_: Range) -> Stmt:
    """Emits the sum of one slice (the part of a sum's terms that one task sums), block by block of terms.

    The operands of a block fit the level-1 cache.

    Args:
        planned: the reduction and its plan.
        slice_axis: the axis of the slices.
        slice_index: the index of the slice.
        range_: the terms of the slice.
    """
    block_size = _terms_per_block(planned)
    block_count = range_.extent
    if block_size != 1:
        block_count = tirx.floordiv(range_.extent + (block_size - 1), index(block_size))
    are_equal_blocks = (emit.static(range_.extent) or 1) % block_size == 0

    def sum_block(block: ir.Expr) -> Stmt:
        """Emits the sum of one block of terms."""
        offset = block * block_size
        extent = index(block_size)
        if not are_equal_blocks:  # the last block may be shorter
            extent = tirx.min(extent, range_.extent - offset)
        return _sum_range(planned, slice_axis, slice_index, Range(range_.axis, range_.start + offset, extent))

    return emit.loop(block_count, sum_block)


def _sum_range(planned: PlannedReduction, slice_axis: Axis, slice_index: ir.Expr, range_: Range) -> Stmt:
    """Emits the sum of one slice's terms in a range of the outermost reduction axis."""
    inner_ranges = [Range.whole(axis) for axis in planned.stage.reduce[1:]]
    return emit_tasks(planned, [range_, *inner_ranges], False, {slice_axis.var: slice_index})


def _terms_per_block(planned: PlannedReduction) -> int:
    """Returns how many terms of the outermost reduction axis have operands that fit the level-1 cache."""
    inner_terms = prod(axis.size or UNKNOWN_SIZE for axis in planned.stage.reduce[1:])
    tile_points = sum(tiled_sizes(planned).values())
    return max(1, planned.target.level1_bytes // (inner_terms * tile_points * planned.stage.item_bytes))


def _initialize(partials: Stage, slice_index: ir.Expr) -> Stmt:
    """Emits stores of the reduction's initial value to the partial results of one slice.

    The sums of the slice's blocks or steps are added to them later.

    Args:
        partials: the stage of the partial results.
        slice_index: the index of the slice.
    """
    extents = [axis.extent for axis in partials.spatial[1:]]

    def fill_row(outer_indices: list[ir.Expr]) -> Stmt:
        """Emits stores of the initial value along the last axis."""

        def fill_item(last_index: ir.Expr) -> Stmt:
            # A reduction without result axes has one result, whose only index in the buffer is that of the slice.
            indices = [slice_index, *outer_indices, last_index] if extents else [slice_index]
            return emit.store(partials.buffer, partials.init, indices)

        return emit.loop(int(extents[-1]) if extents else 1, fill_item)

    return emit.nest(extents[:-1], fill_row)
