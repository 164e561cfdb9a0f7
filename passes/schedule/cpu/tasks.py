"""Distributes register tiles over tasks: each thread's chunk of results, in an order that keeps operands in caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.combiner import Combine
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, by_axis
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.product_tile import call_product_tile
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile import Epilogue, Range, Tile, clip_range, emit_row_tile
from tvtf.passes.schedule.cpu.tile_plan import Plan
from tvtf.passes.schedule.cpu.vector_axis import operands_of, vector_operand_bytes

TASKS_PER_CORE = 4
UNKNOWN_SIZE = 512
MAX_ELEMENTS_OF_SMALL_PANEL = 4096
"""Maximum elements of a panel (a tile's columns by all terms) that needs no blocks: half of a 32 kB level-1 cache in float32."""


@dataclass(frozen=True)
class PlannedReduction:
    """A reduction with its epilogue, and the plan by which it is tiled.

    Attributes:
        stage: the reduction.
        stores: the stages of its epilogue, which store results.
        plan: the tiles, their order and the operands to pack.
        combine: how partial results are combined, or None if they can't be.
        target: the processor.
        start: the stage whose partial results the sums are added to; None if sums begin with the initial value.
        shifts: the distances by which results are shifted along some axes, by the axis's variable.
    """

    stage: Stage
    stores: tuple[Stage, ...]
    plan: Plan
    combine: Combine | None
    target: CpuTarget
    start: Stage | None = None
    shifts: AxisIndices = field(default_factory=dict)

    @property
    def epilogue(self) -> Epilogue:
        """The stages to run on each finished result."""
        return Epilogue(self.stage, self.stores, self.shifts)


def tiled_sizes(planned: PlannedReduction) -> dict[Var, int]:
    """Returns the register tile's extent along each tiled result axis, with the vector axis last."""
    if planned.plan.along_terms:
        return planned.plan.sizes
    return {**planned.plan.sizes, planned.plan.vector.var: planned.plan.width}


def emit_tasks(
    planned: PlannedReduction, ranges: Sequence[Range], parallel: bool, fixed: AxisIndices | None = None
) -> Stmt:
    """Emits a planned reduction as tasks. Each task computes one block of register tiles.

    Args:
        planned: the reduction and its plan.
        ranges: the part of each reduction axis to sum.
        parallel: whether the tasks are parallel.
        fixed: the values of some result axes, over which the caller loops.
    """
    fixed = fixed or {}
    tile_sizes = tiled_sizes(planned)
    untiled = [axis for axis in planned.stage.spatial if axis.var not in tile_sizes and axis.var not in fixed]
    tiled = [axis for axis in planned.stage.spatial if axis.var in tile_sizes]
    # The vector axis comes first here: it is the outermost loop over the tiles of a block.
    tiled.sort(key=lambda axis: not axis.var.same_as(planned.plan.vector.var))
    task_axes, loop_axes = _split_untiled(untiled, planned.target) if parallel else (untiled, [])
    # With a large filter, cores process all images with one panel before the next, not the complete filter for each image.
    # So that the panel stays in the cache, the loop over blocks is outside of that over images (an untiled axis).
    keeps_panel = not fixed and vector_operand_bytes(planned.stage, planned.plan.vector) > planned.target.level2_bytes
    if parallel or keeps_panel:
        block_counts = _block_counts(planned, tiled, task_axes)
    else:
        block_counts = {axis.var: 1 for axis in tiled}
    if parallel and task_axes and prod(block_counts.values()) > 1:
        keeps_panel = choice("panels outside", keeps_panel, lambda: (False, True))
    # Among the blocks, the index along the vector axis changes fastest.
    block_axes = sorted(tiled, key=lambda axis: axis.var.same_as(planned.plan.vector.var))
    outer_axes = [*block_axes, *task_axes] if keeps_panel else [*task_axes, *block_axes]

    def emit_task(outer_indices: list[ir.Expr]) -> Stmt:
        """Emits one parallel task: all register tiles of one block of results, for all indices of the inner loops."""
        index_of = by_axis(outer_axes, outer_indices)
        block_indices = {axis.var: index_of[axis.var] for axis in block_axes}
        task_indices = {axis.var: index_of[axis.var] for axis in task_axes}

        def emit_tiles_at(loop_indices: list[ir.Expr]) -> Stmt:
            """Emits the block's tiles at one index of each inner loop."""
            base = {**fixed, **task_indices, **by_axis(loop_axes, loop_indices)}
            return emit_tiles(planned, ranges, tiled, block_counts, block_indices, base)

        return emit.nest([axis.extent for axis in loop_axes], emit_tiles_at)

    extents = {axis.var: axis.extent for axis in task_axes}
    extents |= {axis.var: index(block_counts[axis.var]) for axis in block_axes}
    return emit.fused_loops([extents[axis.var] for axis in outer_axes], emit_task, parallel)


def _split_untiled(axes: list[Axis], target: CpuTarget) -> tuple[list[Axis], list[Axis]]:
    """Splits the untiled result axes into axes of parallel tasks, and axes that a task loops over.

    If there are enough tasks, loops inside of the tasks take less time than further tasks.
    """
    enough_tasks = 4 * TASKS_PER_CORE * target.cores
    task_count = 1
    for position, axis in enumerate(axes):
        if task_count >= enough_tasks:
            return axes[:position], axes[position:]
        task_count *= axis.size or 1
    return axes, []


def _block_counts(planned: PlannedReduction, tiled: list[Axis], task_axes: list[Axis]) -> dict[Var, int]:
    """Returns the number of blocks to split each tiled axis of a reduction into.

    The operands of a block (several register tiles) should fit the cache. There are more blocks if some cores would
    otherwise have no task.

    Args:
        planned: the reduction and its plan.
        tiled: the axes to split into blocks.
        task_axes: other axes whose indices are tasks.
    """
    tile_sizes = tiled_sizes(planned)
    tasks_per_core = choice("tasks a core", TASKS_PER_CORE, lambda: (1, 2, 8, 16))
    wanted_tasks = tasks_per_core * planned.target.cores
    block_counts = {axis.var: _blocks_for_cache(planned, axis, tile_sizes[axis.var]) for axis in tiled}
    tasks = prod(axis.size or 1 for axis in task_axes) * prod(block_counts.values())
    for axis in tiled:
        missing_factor = emit.ceil_div(wanted_tasks, tasks)
        if missing_factor <= 1:
            break
        old_count = block_counts[axis.var]
        # A block has at least one tile.
        most_blocks = max(1, (axis.size or UNKNOWN_SIZE) // tile_sizes[axis.var])
        new_count = max(old_count, min(missing_factor * old_count, most_blocks))
        tasks = tasks * new_count // old_count
        block_counts[axis.var] = new_count
    return block_counts


def _blocks_for_cache(planned: PlannedReduction, axis: Axis, tile_size: int) -> int:
    """Returns the number of blocks to split a tiled axis of a reduction into, so that a block's operands fit a cache.

    Along the vector axis, a block is one panel of the packed operand, as wide as a register tile. The axis isn't split
    if its size is symbolic, or if panels are so small that several fit the level-1 cache. Along other axes, a block has
    as many register tiles as possible if their operand must fit a share of the level-2 cache.

    Args:
        planned: the reduction and its plan.
        axis: the tiled axis.
        tile_size: the extent of a register tile along the axis.
    """
    tile_count = max(1, (axis.size or UNKNOWN_SIZE) // tile_size)
    # The elements of the operand that a tile reads: all terms of its results.
    elements_per_tile = tile_size * terms_per_result(planned)
    if axis.var.same_as(planned.plan.vector.var):
        is_large_panel = elements_per_tile > MAX_ELEMENTS_OF_SMALL_PANEL
        return tile_count if axis.size is not None and is_large_panel else 1
    # The other operand and the results need a part of the cache, too. Tuning tries other shares.
    share_of_level2 = choice("share of level 2", 0.5, lambda: (0.125, 0.25, 1.0, 4.0))
    bytes_per_tile = elements_per_tile * planned.stage.item_bytes
    tiles_per_block = max(1, int(planned.target.level2_bytes * share_of_level2) // max(1, bytes_per_tile))
    return emit.ceil_div(tile_count, tiles_per_block)


def terms_per_result(planned: PlannedReduction) -> int:
    """Returns the number of terms of one result. Symbolic extents count as 512."""
    return prod(axis.size or UNKNOWN_SIZE for axis in planned.stage.reduce)


def emit_tiles(
    planned: PlannedReduction,
    ranges: Sequence[Range] | None,
    tiled: list[Axis],
    block_counts: dict[Var, int],
    block_indices: dict[Var, ir.Expr],
    base: AxisIndices,
    sizes: dict[Var, int] | None = None,
) -> Stmt:
    """Emits the register tiles of one block of results, by recursion over the tiled axes.

    Args:
        planned: the reduction and its plan.
        ranges: the terms to sum; None emits only the epilogue.
        tiled: the axes that are still to be tiled.
        block_counts: the number of blocks along each tiled axis.
        block_indices: the index of this block along each tiled axis.
        base: the indices of the tile's first result along the axes before.
        sizes: the tile's extents along the axes before.
    """
    sizes = sizes or {}
    if not tiled:
        return _emit_tile(planned, ranges, Tile(base, sizes))
    axis, inner_axes = tiled[0], tiled[1:]

    def emit_tile_at(start: ir.Expr, size: int) -> Stmt:
        """Emits the register tiles along the remaining axes, for a tile's start and size along this axis."""
        return emit_tiles(
            planned,
            ranges,
            inner_axes,
            block_counts,
            block_indices,
            {**base, axis.var: start},
            {**sizes, axis.var: size},
        )

    return emit_tiles_along_axis(
        axis, _tile_extents(planned, axis), block_counts[axis.var], block_indices[axis.var], emit_tile_at
    )


def _tile_extents(planned: PlannedReduction, axis: Axis) -> list[int]:
    """Returns the tile extents along an axis, largest first; each is used until it exceeds the remaining results."""
    size = tiled_sizes(planned)[axis.var]
    if axis.size is not None:
        return [size, axis.size % size] if axis.size >= size else [axis.size]
    extents = [size, planned.plan.lanes, 1] if axis.var.same_as(planned.plan.vector.var) else [size, 1]
    return sorted(set(extents), reverse=True)


def emit_tiles_along_axis(
    axis: Axis, sizes: list[int], block_count: int, block_index: ir.Expr, emit_tile: Callable[[ir.Expr, int], Stmt]
) -> Stmt:
    """Emits the tiles of one block along one axis: full tiles in a loop, then smaller ones in the last block.

    Args:
        axis: the axis.
        sizes: the tile extents, used one after another until no results remain.
        block_count: the number of blocks along the axis, with equal numbers of tiles.
        block_index: the index of this block.
        emit_tile: emits one tile, given its start and extent.
    """
    full_size, *smaller_sizes = sizes
    tile_count = emit.simplified(tirx.floordiv(axis.extent, index(full_size)))
    first_tile, tiles_in_block = emit.balanced_part(tile_count, block_index, block_count)

    def emit_full_tile(tile: ir.Expr) -> Stmt:
        return emit_tile((first_tile + tile) * full_size, full_size)

    full_tiles = _loop_over_tiles(tiles_in_block, emit_full_tile)
    statements: list[Stmt | None] = [] if static(tile_count) == 0 else [full_tiles]
    smaller_tiles = _remainder_tiles(axis, smaller_sizes, emit.simplified(tile_count * full_size), emit_tile)
    if smaller_tiles is not None:
        is_last_block = True if block_count == 1 else block_index == block_count - 1
        statements.append(emit.when(is_last_block, smaller_tiles))
    return emit.sequence(statements)


def _loop_over_tiles(count: ir.Expr, emit_tile: Callable[[ir.Expr], Stmt]) -> Stmt:
    """Emits a loop over full tiles; two tiles are emitted without a loop, unless they call a subroutine.

    LLVM would unroll a loop over two tiles, and then keep the accumulators of both in memory instead of registers. In a
    subroutine call they are in memory anyway, and the loop is less code.

    Args:
        count: the number of tiles.
        emit_tile: emits the tile of an index.
    """
    if static(count) != 2:
        return emit.loop(count, emit_tile)
    first = emit_tile(index(0))
    if subroutine.has_calls(first):
        return emit.loop(count, emit_tile)
    return emit.sequence([first, emit_tile(index(1))])


def _loop_over_smaller_tiles(
    start: ir.Expr, size: int, count: ir.Expr, emit_tile: Callable[[ir.Expr, int], Stmt]
) -> Stmt:
    """Emits a loop over `count` tiles of a given size, starting at a given index."""
    return emit.loop(count, lambda tile: emit_tile(start + tile * size, size))


def _remainder_tiles(
    axis: Axis, sizes: list[int], start: ir.Expr, emit_tile: Callable[[ir.Expr, int], Stmt]
) -> Stmt | None:
    """Emits the results after the last full tile in smaller tiles, none of which extends beyond the end of the axis.

    Args:
        axis: the tiled axis.
        sizes: the tile extents, largest first. A size is 0 if full tiles cover the axis.
        start: the first result after the full tiles.
        emit_tile: emits one tile, given its start and extent.

    Returns:
        The tiles, or None if no results remain.
    """
    loops: list[Stmt | None] = []
    for size in sizes:
        if size == 0:
            continue
        tile_count = emit.simplified(tirx.floordiv(axis.extent - start, index(size)))
        if static(tile_count) != 0:
            loops.append(_loop_over_smaller_tiles(start, size, tile_count, emit_tile))
        start = emit.simplified(start + tile_count * size)
    return emit.sequence(loops) if any(loops) else None


def _emit_tile(planned: PlannedReduction, ranges: Sequence[Range] | None, tile: Tile) -> Stmt:
    """Emits one register tile (results held in vector registers) of a reduction, with vectors along the planned axis.

    Where possible, the tile of a matrix product is a call of a subroutine, which other kernels share.

    Args:
        planned: the reduction and its plan.
        ranges: the terms to sum; None emits only the epilogue, on sums that are in memory.
        tile: the indices of the tile's first result, and its extents.
    """
    plan, start, epilogue = planned.plan, planned.start, planned.epilogue
    if ranges is not None and planned.combine is not None and plan.along_terms:
        # The axis of the vectors comes last, since it becomes the innermost loop.
        ordered = sorted(ranges, key=lambda range_: range_.axis.var.same_as(plan.vector.var))
        return emit_row_tile(planned.stage, tile, plan.lanes, plan.vectors, ordered, planned.combine, epilogue)
    column = ColumnTile(planned.stage, tile, plan.vector, plan.lanes, plan.padded)
    if ranges is None:
        return column.emit_tile(None, start, epilogue)
    shifted_indices = {var: tile.base[var] + distance for var, distance in planned.shifts.items()}
    base_in_image = {**tile.base, **shifted_indices}
    clipped_ranges = [clip_range(range_, planned.stage.clips, base_in_image, tile.sizes) for range_ in ranges]
    streamed = _streamed_operand(planned, ranges)
    call = call_product_tile(column, clipped_ranges, start, epilogue, is_streamed=streamed is not None)
    return call or column.emit_tile(clipped_ranges, start, epilogue, streamed)


def _streamed_operand(planned: PlannedReduction, ranges: Sequence[Range]) -> TensorLoad | None:
    """Returns the operand to prefetch: the only one that vectors are loaded from, if it exceeds the cache; else None.

    Tiles must read the operand in memory order. Otherwise it isn't known which elements are needed next.

    Args:
        planned: the reduction and its plan.
        ranges: the ranges of the loops over terms, from outer to inner.
    """
    stage, vector_axis = planned.stage, planned.plan.vector
    vector_operands = [term for term in operands_of(stage) if access.load_stride(term, vector_axis.var) != 0]
    if len(vector_operands) != 1 or vector_operand_bytes(stage, vector_axis) <= planned.target.level2_bytes:
        return None
    (operand,) = vector_operands
    innermost_axis = ranges[-1].axis
    # In memory, the vectors of a term directly follow those of the previous term.
    is_in_memory_order = access.load_stride(operand, innermost_axis.var) == planned.plan.width
    return operand if is_in_memory_order and stage.dtype in ("float32", "float64") else None
