"""Long sums of products whose results exceed every cache: each chunk of results is summed over all terms in steps.

The choice `panels` and the names in this file call these chunks panels. Packing for each tap of a filter's gradient
read its input again and again; on one core, gradients of 3x3 filters dilated by 12 take 10.0 ms this way instead of
24.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import ir
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.conv_bands import occupies_all_cores
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, by_axis, replace_loads
from tvtf.passes.schedule.cpu.reduction_steps import Steps, reads_again, steps_of_panel
from tvtf.passes.schedule.cpu.tasks import PlannedReduction, emit_tiles, tiled_sizes
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

# Share of the level-2 cache for the sums; what a step reads takes the rest.
LEVEL2_DIVISOR = 4


@dataclass(frozen=True)
class Panels:
    """The number of chunks along each axis of a sum's results, and the steps over the terms of a chunk."""

    chunk_counts: dict[Var, int]
    steps: Steps


def panels_of(planned: PlannedReduction) -> Panels | None:
    """Plans cache blocking of a long sum of products: chunks of its results, and steps (blocks of terms) for each chunk.

    A step is added to all results of a chunk before the next step begins, so that its operands stay in the cache.
    Returns None unless the reduction's register tiles read the same operands repeatedly, and these operands exceed the
    cache.
    """
    stage, target = planned.stage, planned.target
    tile_sizes = tiled_sizes(planned)
    result_count = access.iteration_count(stage.spatial)
    if planned.plan.along_terms or result_count is None or not has_reused_operand(stage):
        return None
    untiled_axes = [axis for axis in stage.spatial if axis.var not in tile_sizes]
    if not reads_again(stage, untiled_axes):
        return None
    chunk_counts = _chunk_counts(planned, result_count * stage.item_bytes)
    chunk_sizes: dict[Var, int] = {}
    for axis in stage.spatial:
        chunk_sizes[axis.var] = emit.ceil_div(axis.size or 1, chunk_counts.get(axis.var, 1))
    steps = steps_of_panel(stage, target, chunk_sizes)
    default = None  # no panels
    if steps is not None and occupies_all_cores(prod(chunk_counts.values()), target):
        default = Panels(chunk_counts, steps)
    # Tuning may choose not to use panels.
    return choice("panels", default, lambda: [None], lambda panels: "no" if panels is None else "yes")


def _chunk_counts(planned: PlannedReduction, result_bytes: int) -> dict[Var, int]:
    """Returns the number of chunks to split a reduction's results into, along each axis of its register tiles.

    The axis along which chunks are longest is split further until the sums of a chunk fit the cache, and there are
    enough chunks for all cores.

    Args:
        planned: the reduction and its plan.
        result_bytes: the size of all results.
    """
    tile_sizes = tiled_sizes(planned)
    axes = [axis for axis in planned.stage.spatial if axis.var in tile_sizes]
    chunk_counts = {axis.var: 1 for axis in axes}
    max_chunk_bytes = planned.target.level2_bytes // LEVEL2_DIVISOR

    def tiles_per_chunk(axis: Axis) -> int:
        """Returns the number of register tiles of a chunk along an axis."""
        return (axis.size or 1) // tile_sizes[axis.var] // chunk_counts[axis.var]

    def are_small_and_many() -> bool:
        """Returns whether a chunk fits the cache, and there are enough chunks for all cores."""
        total = prod(chunk_counts.values())
        return result_bytes <= max_chunk_bytes * total and occupies_all_cores(total, planned.target)

    while not are_small_and_many():
        longest_axis = max(axes, key=lambda axis: tiles_per_chunk(axis) * tile_sizes[axis.var])
        # A chunk has at least one tile.
        if tiles_per_chunk(longest_axis) < 2:
            break
        chunk_counts[longest_axis.var] += 1
    return chunk_counts


def emit_panels(planned: PlannedReduction, panels: Panels, parallel: bool) -> Stmt:
    """Emits a reduction chunk by chunk of its results.

    A chunk is summed in memory, step by step. Then the epilogue runs on it.

    Args:
        planned: the reduction and its plan.
        panels: the numbers of chunks and the steps.
        parallel: whether the chunks are parallel tasks.
    """
    tiled = [axis for axis in planned.stage.spatial if axis.var in panels.chunk_counts]
    has_no_epilogue = planned.stores == (planned.stage,)
    sums_stage = planned.stage if has_no_epilogue else _sums_in_memory(planned.stage)
    initialized = replace(planned, stage=sums_stage, stores=(sums_stage,))
    continued = replace(initialized, start=sums_stage)
    finished = None if has_no_epilogue else replace(planned, start=sums_stage)

    def emit_chunk(chunk_indices: list[ir.Expr]) -> Stmt:
        """Emits one chunk of results: the initial values, the steps (blocks of terms) to sum, then the epilogue."""
        chunk = by_axis(tiled, chunk_indices)

        def sum_step(step: ir.Expr) -> Stmt:
            """Emits the addition of one step's terms to all sums of the chunk."""
            return _emit_tiles_of_chunk(continued, panels, chunk, panels.steps.ranges(step))

        sum_steps = emit.loop(panels.steps.count, sum_step)
        epilogue = None if finished is None else _emit_tiles_of_chunk(finished, panels, chunk, None)
        initial_values = _emit_tiles_of_chunk(initialized, panels, chunk, None)
        return emit.sequence([initial_values, sum_steps, epilogue])

    chunk_extents = [index(panels.chunk_counts[axis.var]) for axis in tiled]
    nest = emit.fused_loops(chunk_extents, emit_chunk, parallel)
    return nest if has_no_epilogue else emit.sequence([emit.allocate(sums_stage.buffer), nest])


def _emit_tiles_of_chunk(
    planned: PlannedReduction, panels: Panels, chunk: AxisIndices, ranges: Sequence[Range] | None
) -> Stmt:
    """Emits the register tiles of one chunk, at all indices of the axes that aren't split into chunks.

    Args:
        planned: the reduction, with the stages to run on each sum.
        panels: the chunks and steps of the reduction.
        chunk: the chunk's index along each axis that is split.
        ranges: the terms to sum; None emits only the stages on the sums.
    """
    tiled = [axis for axis in planned.stage.spatial if axis.var in panels.chunk_counts]
    untiled = [axis for axis in planned.stage.spatial if axis.var not in panels.chunk_counts]

    def tiles_at(indices: list[ir.Expr]) -> Stmt:
        """Emits the tiles at one index of each axis that isn't split."""
        return emit_tiles(planned, ranges, tiled, panels.chunk_counts, chunk, by_axis(untiled, indices))

    return emit.nest([axis.extent for axis in untiled], tiles_at)


def _sums_in_memory(stage: Stage) -> Stage:
    """Returns the reduction with a scratch buffer for its sums in place of its result buffer."""
    buffer = emit.scratch([axis.extent for axis in stage.spatial], stage.dtype, "sums")
    value = replace_loads(stage.value, stage.buffer, lambda indices: emit.load(buffer, indices))
    return replace(stage, buffer=buffer, value=value)
