"""Attention and similar chains: contractions that feed each other within a block of rows that stays in the cache.

Stages that need each other's values only within one block of rows run block by block; within a block they are scheduled
like a kernel of their own on one core. Values that only the block needs (scores, probabilities) are never stored
completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import tvm_ffi
from tvm import ir
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import static
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.row_strips import block_versions, emit_strips, strips_of
from tvtf.passes.schedule.cpu.substage import block_buffer, redirected_to_whole, restricted_stage
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.triangle import has_masked_columns, without_masked_columns
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand, operands_of

MIN_ROWS, MAX_ROWS = 32, 128
TASKS_PER_CORE = 2
Emit = Callable[[Sequence[Stage], Kernel, CpuTarget], Stmt]


@dataclass(frozen=True)
class Blocks:
    """A run of stages, such as attention, that is computed block by block of its rows.

    The first `depth` axes are the row axes; `order` holds each result's axes in memory order.
    """

    stages: tuple[Stage, ...]
    order: tuple[tuple[Axis, ...], ...]
    depth: int

    @property
    def rows(self) -> tuple[Axis, ...]:
        """The row axes."""
        return self.stages[0].spatial[: self.depth]

    @property
    def has_blocks_of_rows(self) -> bool:
        """Whether the last row axis is split into blocks, since its rows share an operand; else each row is a block."""
        return any(_rows_share_operand(stage, self.depth) for stage in self.stages)


def blocks_at(stages: Sequence[Stage | Opaque], start: int) -> Blocks | None:
    """Finds the longest sequence of stages, starting at `start`, that can be computed block by block of rows.

    A stage is one loop nest of a kernel. The first one must be a contraction, as in attention. Returns None if there is
    no such sequence.
    """
    first = stages[start]
    if not isinstance(first, Stage) or not has_reused_operand(first):
        return None
    # The longest sequence is tried first. The shortest has two contractions and a stage between them.
    for stop in range(len(stages), start + 2, -1):
        blocks = _as_row_blocks(stages[start:stop])
        if blocks is not None:
            return blocks
    return None


def _as_row_blocks(stages: Sequence[Stage | Opaque]) -> Blocks | None:
    """Describes a sequence of stages (loop nests) as row blocks, with as many leading row axes as possible.

    Along row axes, no stage reads a result of another row. Blocks of rows can then be computed one by one. Returns None
    if there are no such axes.
    """
    parsed = [stage for stage in stages if isinstance(stage, Stage)]
    has_opaque_nests = len(parsed) < len(stages)  # these have no axes to split
    reduction_count = sum(bool(stage.reduce) for stage in parsed)
    # Blocks of rows are for reductions that read the results of other reductions.
    if has_opaque_nests or reduction_count < 2:
        return None
    results = [stage.buffer for stage in parsed]
    with_rows_first = [_rows_first(stage, results) for stage in parsed]
    first = with_rows_first[0]
    depth = min(len(stage.spatial) for stage in parsed)
    while depth and not all(_stays_in_row(stage, first, results, depth) for stage in with_rows_first):
        depth -= 1
    if not depth:
        return None
    blocks = Blocks(tuple(with_rows_first), tuple(stage.spatial for stage in parsed), depth)
    return blocks if _has_static_sizes(blocks) else None


def _rows_first(stage: Stage, buffers: Sequence[Var]) -> Stage:
    """Reorders the axes of an elementwise stage (loop nest) like the dims of the result that the stage reads.

    For example, the axes of the transpose ``out[i, j] = x[j, i]`` become ``(j, i)``. The row axes then come first, as in
    the other stages. A reduction is returned unchanged, and so is a stage that doesn't permute a result.

    Args:
        stage: the stage.
        buffers: the results of all stages.
    """
    if stage.reduce:
        return stage
    for load in stage.loads:
        if len(load.indices) != len(stage.spatial) or not _is_among(load.source, buffers):
            continue
        reordered: list[Axis] = []
        for index in load.indices:
            reordered += [axis for axis in stage.spatial if _is_axis(index, axis)]
        is_permutation = len(reordered) == len(load.indices) and len(set(reordered)) == len(reordered)
        if is_permutation:
            return replace(stage, spatial=tuple(reordered))
    return stage


def _stays_in_row(stage: Stage, first: Stage, buffers: Sequence[Var], depth: int) -> bool:
    """Returns whether a stage (loop nest) has the rows of the first stage, and reads other results only in its own row.

    Blocks of rows are then independent, and can be computed one after another.

    Args:
        stage: the stage.
        first: the first stage.
        buffers: the results of all stages.
        depth: the number of row axes, which come first.
    """
    row_axes = stage.spatial[:depth]
    for axis, axis_of_first in zip(row_axes, first.spatial, strict=False):
        if static(emit.simplified(axis.extent - axis_of_first.extent)) != 0:
            return False
    for load in stage.loads:
        if _is_among(load.source, buffers):
            row_indices = load.indices[:depth]
            if not all(_is_axis(index, axis) for index, axis in zip(row_indices, row_axes, strict=True)):
                return False
    return True


def _is_among(buffer: Var, buffers: Sequence[Var]) -> bool:
    """Returns whether a buffer is one of some buffers."""
    return any(buffer.same_as(other) for other in buffers)


def _is_axis(index: ir.Expr, axis: Axis) -> bool:
    """Returns whether an index is an axis's variable."""
    return tvm_ffi.structural_equal(index, axis.var)


def _has_static_sizes(blocks: Blocks) -> bool:
    """Returns whether row blocks have static sizes wherever the generated code needs constants.

    The buffers of a block need static sizes within a row. Blocks of several rows also need a static number of rows.
    Otherwise each stage must have an axis within the row.
    """
    inner_axes = [axis for stage in blocks.stages for axis in (*stage.spatial[blocks.depth :], *stage.reduce)]
    if any(axis.size is None for axis in inner_axes):
        return False
    if blocks.has_blocks_of_rows:
        return blocks.rows[-1].size is not None
    return all(len(stage.spatial) > blocks.depth for stage in blocks.stages)


def _rows_share_operand(stage: Stage, depth: int) -> bool:
    """Returns whether a stage is a contraction whose rows along the last row axis read the same operand."""
    last_row_axis = stage.spatial[depth - 1]
    return has_reused_operand(stage) and any(
        access.load_stride(term, last_row_axis.var) == 0 for term in operands_of(stage)
    )


def emit_blocks(blocks: Blocks, kernel: Kernel, stored_buffers: set[Var], target: CpuTarget, emit_all: Emit) -> Stmt:
    """Emits a parallel loop over blocks of rows. All stages run on one block while its data is in the cache.

    Values that only one block needs, such as attention's scores, are never stored completely. `emit_all` emits the
    stages of one block.
    """

    def emit_block(blocks: Blocks, row_indices: list[ir.Expr], rows: int | None) -> Stmt:
        # Blocks are the parallel tasks; nothing inside of one is parallel.
        return _emit_block(blocks, kernel, stored_buffers, replace(target, cores=1), emit_all, row_indices, rows)

    def emit_loops(parallel: bool) -> Stmt:
        """Emits the loop over blocks of rows. A block has several rows if rows share an operand, else one row.

        The rows of a block load the shared operand once.
        """
        extents = [axis.extent for axis in blocks.rows]
        if not blocks.has_blocks_of_rows:
            return emit.fused_loops(extents, lambda row_indices: emit_block(blocks, row_indices, None), parallel)
        rows_per_block, block_count = _rows_and_count_of_blocks(blocks, target)
        versions = list(_versions_of_blocks(blocks, rows_per_block, stored_buffers))
        return emit.fused_loops(
            [*extents[:-1], block_count],
            lambda row_indices: _select_block_version(versions, row_indices, rows_per_block, emit_block),
            parallel,
        )

    return emit_parallel_or_serial(blocks.stages, target, emit_loops)


class BlockVersion(NamedTuple):
    """One version of the code for a block: for the blocks before index `stop_block` that no earlier version serves.

    Each of these blocks has `row_count` rows, and the axis extents in `blocks`.
    """

    blocks: Blocks
    stop_block: int
    row_count: int


def _versions_of_blocks(blocks: Blocks, rows_per_block: int, stored_buffers: set[Var]) -> Iterator[BlockVersion]:
    """Yields the versions of code for a block of rows: for full blocks, then for a shorter last block.

    With a causal mask there are several versions for full blocks, since later blocks need more columns.

    Args:
        blocks: the stages, in blocks of rows.
        rows_per_block: the number of rows of a full block.
        stored_buffers: the buffers that the kernel stores.
    """
    row_vars = [stage.spatial[blocks.depth - 1].var for stage in blocks.stages]
    unstored = [stage.buffer for stage in blocks.stages if stage.buffer not in stored_buffers]
    is_masked = has_masked_columns(blocks.stages, row_vars)
    for _first, stop, version_rows in block_versions(int(blocks.rows[-1].extent), rows_per_block, is_masked):
        last_row = (stop - 1) * rows_per_block + version_rows - 1
        stages = tuple(without_masked_columns(blocks.stages, row_vars, last_row, unstored))
        yield BlockVersion(replace(blocks, stages=stages), stop, version_rows)


def _select_block_version(
    versions: Sequence[BlockVersion], row_indices: list[ir.Expr], rows_per_block: int, emit_block: Callable[..., Stmt]
) -> Stmt:
    """Emits an if/else chain on the block index that selects a block's code version.

    With a causal mask, later blocks need more columns, so they have versions with larger static extents.

    Args:
      versions: the versions, in the order of the blocks that they serve.
      row_indices: the indices of the outer row axes, then of the block.
      rows_per_block: the number of rows of a full block.
      emit_block: emits a block, given its version's stages, its first row and its number of rows.
    """
    *outer_indices, block = row_indices
    first_row = [*outer_indices, block * rows_per_block]
    version, *later_versions = versions
    first_block = emit_block(version.blocks, first_row, version.row_count)
    if not later_versions:
        return first_block
    later_block = _select_block_version(later_versions, row_indices, rows_per_block, emit_block)
    # `when` returns None only without an alternative.
    return emit.when(block < version.stop_block, first_block, later_block) or first_block


def _rows_and_count_of_blocks(blocks: Blocks, target: CpuTarget) -> tuple[int, int]:
    """Returns the number of rows per block of attention, and the number of blocks.

    In each stage, the rows of a block take up to an eighth of the level-2 cache, which must hold the results of several
    stages. A block has at least `MIN_ROWS` rows, which share the operand that a contraction reads. It has just these if
    larger blocks are too few to occupy all cores.
    """
    row_count = int(blocks.rows[-1].extent)
    row_bytes = max(_row_bytes(stage, blocks.depth) for stage in blocks.stages)
    rows_that_fit = target.level2_bytes // 8 // row_bytes
    max_rows = min(MAX_ROWS, max(MIN_ROWS, rows_that_fit), row_count)
    outer_rows = static(emit.volume([axis.extent for axis in blocks.rows[:-1]])) or 1
    task_count = outer_rows * emit.ceil_div(row_count, max_rows)
    if task_count < TASKS_PER_CORE * target.cores:
        max_rows = min(max_rows, MIN_ROWS)
    # The rows are distributed evenly, so that the last block isn't much shorter.
    min_blocks = emit.ceil_div(row_count, max_rows)
    rows_per_block = emit.ceil_div(row_count, min_blocks)
    return rows_per_block, emit.ceil_div(row_count, rows_per_block)


def _row_bytes(stage: Stage, depth: int) -> int:
    """Returns the bytes of one row of a stage's result."""
    return prod(axis.size or 1 for axis in stage.spatial[depth:]) * stage.item_bytes


def _emit_block(
    blocks: Blocks,
    kernel: Kernel,
    stored_buffers: set[Var],
    target: CpuTarget,
    emit_all: Emit,
    row_indices: list[ir.Expr],
    rows: int | None,
) -> Stmt:
    """Emits all stages for one block of rows, on scratch buffers for the block's part of each result.

    `row_indices` are those of the block's first row. `rows` is the number of rows; None for a block of one row
    of the row axes. A block that exceeds the cache is computed in strips of its remaining rows.
    """
    buffers = [block_buffer(stage, blocks.depth, rows) for stage in blocks.stages]
    block_buffers = {stage.buffer: buffer for stage, buffer in zip(blocks.stages, buffers, strict=True)}
    stages = [restricted_stage(stage, block_buffers, blocks.depth, row_indices, rows) for stage in blocks.stages]
    block_kernel = Kernel(tuple(stages), tuple(new for old, new in block_buffers.items() if old not in stored_buffers))
    # Blocks of several rows fit the cache already.
    strips = strips_of(stages, target) if rows is None else None

    def emit_stages(stages: Sequence[Stage], kernel: Kernel) -> Stmt:
        return emit_all(stages, kernel, target)

    nest = emit_stages(stages, block_kernel) if strips is None else emit_strips(strips, block_kernel, emit_stages)
    for stage, result_axes in zip(blocks.stages, blocks.order, strict=True):
        if stage.buffer in stored_buffers:
            nest = redirected_to_whole(nest, block_buffers[stage.buffer], stage, result_axes, row_indices, rows)
    return nest
