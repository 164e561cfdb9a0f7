"""Reductions of every kind (sums, maxima, matrix products, convolutions) with their epilogues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import tvm_ffi
from tvm import tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, substitute
from tvtf.passes.schedule.cpu.pack import pack_operands, transpose_operand
from tvtf.passes.schedule.cpu.panels import emit_panels, panels_of
from tvtf.passes.schedule.cpu.parallel_threshold import (
    MIN_PARALLEL_CYCLES,
    MIN_PARALLEL_CYCLES_OF_TILES,
    emit_parallel_or_serial,
)
from tvtf.passes.schedule.cpu.split_reduction import emit_few_partials, emit_slices, slices_of
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import PlannedReduction, emit_tasks
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import plan_reduction
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand, operands_of


def emit_reduction(
    stage: Stage,
    stores: Sequence[Stage],
    target: CpuTarget,
    parallel: bool | None = None,
    fixed: AxisIndices | None = None,
    sums_slices: bool = False,
) -> Stmt | None:
    """Emits a reduction and its epilogue, the stages that finish each result; returns None if no plan fits.

    Args:
        stage: the reduction.
        stores: the elementwise epilogue stages, and the reduction itself if its result is needed in memory.
        target: the CPU.
        parallel: whether the nest is parallel; None decides by its size.
        fixed: the values of some result axes.
        sums_slices: whether this sums the partial results of slices, and mustn't be sliced again.
    """
    merged = merged_reduction(stage)
    stores = tuple(merged if store is stage else store for store in stores)
    plan = plan_reduction(merged, target)
    combine = combiner(merged)
    if plan is None or (plan.along_terms and combine is None):
        return None
    if fixed:
        plan = replace(plan, packed=(), padded=0)
    stage, copy = transpose_operand(merged, plan, target)
    planned = PlannedReduction(
        stage, tuple(stage if store is merged else store for store in stores), plan, combine, target
    )
    emit_nest = partial(_emit_planned, planned, fixed=fixed, can_be_sliced=not sums_slices)
    if parallel is not None:
        return emit.sequence([*copy, emit_nest(parallel)])
    threshold = MIN_PARALLEL_CYCLES_OF_TILES if has_reused_operand(merged) else MIN_PARALLEL_CYCLES
    return emit.sequence([*copy, emit_parallel_or_serial([stage, *stores], target, emit_nest, threshold)])


def _emit_planned(planned: PlannedReduction, parallel: bool, fixed: AxisIndices | None, can_be_sliced: bool) -> Stmt:
    """Emits a planned reduction in the first of three forms that is profitable.

    The forms: slices of the terms that cores sum in parallel, chunks of results whose terms are summed in steps, and
    parallel tasks of register tiles.

    Args:
        planned: the reduction and its plan.
        parallel: whether the nest is parallel.
        fixed: the values of some result axes, for a part of another nest, which isn't split again.
        can_be_sliced: whether the first two forms are allowed. The sum of slices isn't split again.
    """
    can_be_split = not fixed and can_be_sliced
    slices = slices_of(planned, parallel) if can_be_split else 0
    if slices and planned.combine is not None:
        sum_slices, combining = emit_slices(planned, planned.combine, slices)
        combine_slices = emit_few_partials(combining)
        if combine_slices is None:
            combine_slices = emit_reduction(combining.stage, combining.stores, planned.target, sums_slices=True)
        return emit.sequence([sum_slices, combine_slices])
    panels = panels_of(planned) if can_be_split else None
    if panels is not None:
        unpacked_plan = replace(planned.plan, packed=(), padded=0)
        return emit_panels(replace(planned, plan=unpacked_plan), panels, parallel)
    stage, packing = pack_operands(planned.stage, planned.plan, planned.target, parallel)
    stores = tuple(stage if store is planned.stage else store for store in planned.stores)
    on_packed_operands = replace(planned, stage=stage, stores=stores)
    tasks = emit_tasks(on_packed_operands, [Range.whole(axis) for axis in stage.reduce], parallel, fixed)
    return emit.sequence([*packing, tasks])


def merged_reduction(stage: Stage) -> Stage:
    """Merges neighbouring reduction axes if all operands are accessed in memory as along a single axis.

    Axes of extent 1 are removed. For example, a sum over all elements of a matrix becomes one loop. Fewer and longer
    loops have more full vectors, and less overhead.
    """
    stage = without_unit_axes(stage)
    for outer, inner in zip(stage.reduce, stage.reduce[1:], strict=False):
        if can_merge(stage, outer, inner):
            return merged_reduction(_with_merged_axes(stage, outer, inner))
    return stage


def without_unit_axes(stage: Stage) -> Stage:
    """Returns a reduction without its axes of extent 1, unless no axis would be left."""
    wide_axes = tuple(axis for axis in stage.reduce if axis.size != 1)
    units = {axis.var: emit.index(0) for axis in stage.reduce if axis.size == 1}
    return replace(stage, reduce=wide_axes, value=substitute(stage.value, units)) if wide_axes and units else stage


def can_merge(stage: Stage, outer: Axis, inner: Axis) -> bool:
    """Returns whether two neighbouring reduction axes can be merged into one.

    All operands must be accessed in memory as along a single axis. Axes with bounds checks at an image's border can't
    be merged.

    Args:
        stage: the reduction.
        outer, inner: the two axes.
    """
    clipped = {clip.term.var for clip in (*stage.clips, *stage.edges)}
    if {outer.var, inner.var} & (access.free_variables(stage.value) | clipped):
        return False
    operand_offsets = [access.flat_offset(term.source, list(term.indices)) for term in operands_of(stage)]
    return all(access.moves_as_one_axis(offset, outer, inner) for offset in operand_offsets)


def _with_merged_axes(stage: Stage, outer: Axis, inner: Axis) -> Stage:
    """Replaces two neighbouring axes of a reduction by one axis over the product of their extents.

    In indices, the quotient and the remainder of the merged index by the inner extent replace the old variables. They
    are simplified to the merged index in the offsets of operands, since `can_merge` holds.

    Args:
        stage: the reduction.
        outer: the outer axis.
        inner: the next axis, which is merged with it.
    """
    merged = Axis(Var("k", "int64"), emit.volume([outer.extent, inner.extent]))
    merged_indices = {
        outer.var: tirx.floordiv(merged.var, inner.extent),
        inner.var: tirx.floormod(merged.var, inner.extent),
    }
    reduce = tuple(merged if axis is outer else axis for axis in stage.reduce if axis is not inner)
    return replace(stage, reduce=reduce, value=substitute(stage.value, merged_indices))


def reads_elementwise(stage: Stage, source: Stage) -> bool:
    """Returns whether an elementwise stage reads another stage's results only at the indices that it stores to.

    The stage can then use the results while they are in registers.
    """
    source_loads = access.reads_of(stage, source.buffer)
    for load in source_loads:
        if len(load.indices) != len(stage.spatial):
            return False
        if not all(map(_is_own_index, load.indices, stage.spatial)):
            return False
    return bool(source_loads)


def _is_own_index(read_index: tirx.Var, axis: Axis) -> bool:
    """Returns whether an index is a stage's own axis. For an axis of extent 1, a constant is one, too."""
    is_only_index = axis.size == 1 and isinstance(read_index, tirx.IntImm)
    return is_only_index or tvm_ffi.structural_equal(read_index, axis.var)
