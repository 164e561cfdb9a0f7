"""Blocks with too many rows for the cache: runs strip by strip, accumulating sums over all rows.

Attention's gradient has this form: scores and values derived from them exist for one strip of queries at a time, and
the cotangents of keys and values grow from strip to strip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Stage, replace_loads, substitute
from tvtf.passes.schedule.cpu.substage import block_buffer, load_from_block, redirected_to_whole, restricted_stage
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.triangle import has_masked_columns, is_zero, without_masked_columns

MIN_ROWS, MAX_ROWS, MIN_STRIPS = 32, 128, 4
MAX_VERSIONS = 4
EmitAll = Callable[[Sequence[Stage], Kernel], Stmt]


@dataclass(frozen=True)
class Strips:
    """A block's stages for strips of its rows.

    `members` have one value per row, or sum over rows; `rows` holds their axes of rows. `sums` are the members that sum
    over rows. The stages in `after` need complete sums.
    """

    members: tuple[Stage, ...]
    rows: tuple[Axis, ...]
    sums: tuple[Stage, ...]
    after: tuple[Stage, ...]

    @property
    def extent(self) -> int:
        """The number of rows."""
        return int(self.rows[0].extent)

    def is_sum(self, stage: Stage) -> bool:
        """Returns whether a member sums over rows."""
        return any(stage is total for total in self.sums)

    @property
    def has_masked_columns(self) -> bool:
        """Whether a causal mask leaves out columns in some strips."""
        return has_masked_columns(self.members, [axis.var for axis in self.rows])


def strips_of(stages: Sequence[Stage], target: CpuTarget) -> Strips | None:
    """Splits the rows of a block's stages into strips that run one after another, or returns None if it isn't profitable.

    It is profitable if a value exceeds the cache, or a causal mask zeroes columns. For example, attention's gradient
    then needs memory only for the scores of one strip.
    """
    strips = _sort_into_strips(stages)
    if strips is None or not strips.sums or strips.extent < 2 * MIN_ROWS:
        return None
    is_worthwhile = strips.has_masked_columns or _largest_bytes(strips) > target.level2_bytes // 2
    return strips if is_worthwhile else None


def _largest_bytes(strips: Strips) -> int:
    """Returns the size in bytes of the largest result that has an axis of rows."""
    row_stages = [stage for stage in strips.members if not strips.is_sum(stage)]
    return max(prod(axis.size or 0 for axis in stage.spatial) * stage.item_bytes for stage in row_stages)


def _sort_into_strips(stages: Sequence[Stage]) -> Strips | None:
    """Sorts a block's stages (loop nests) into those of single rows, sums over rows, and stages that need complete sums.

    Stages of the first two kinds can run strip by strip of rows. Returns None if a stage needs both single rows and
    complete sums: it can run neither in a strip nor after all strips.
    """
    if not stages or any(axis.size is None for stage in stages for axis in stage.axes) or not stages[0].spatial:
        return None
    row_count = stages[0].spatial[0].size
    stages_in_strips: list[Stage] = []
    row_axes: list[Axis] = []
    stages_per_row: list[Stage] = []
    sums_over_rows: list[Stage] = []
    stages_after_sums: list[Stage] = []
    for stage in stages:
        row_axis = _row_axis(stage, [other.buffer for other in stages_per_row], row_count)
        if row_axis is None or _reads_any(stage, [*sums_over_rows, *stages_after_sums]):
            if _reads_any(stage, stages_per_row):
                return None
            stages_after_sums.append(stage)
            continue
        stages_in_strips.append(stage)
        row_axes.append(row_axis)
        is_sum_over_rows = any(row_axis is axis for axis in stage.reduce)
        same_kind = sums_over_rows if is_sum_over_rows else stages_per_row
        same_kind.append(stage)
    return Strips(tuple(stages_in_strips), tuple(row_axes), tuple(sums_over_rows), tuple(stages_after_sums))


def _reads_any(stage: Stage, stages: Sequence[Stage]) -> bool:
    """Returns whether a stage reads the result of any of some stages."""
    return any(access.reads_of(stage, other.buffer) for other in stages)


def _row_axis(stage: Stage, buffers: Sequence[Var], extent: int | None) -> Axis | None:
    """Returns the axis of a stage (loop nest) that counts the rows: the first index of all loads from some buffers.

    Without such loads, this is the first result axis. Returns None if the loads have different first indices, if the
    axis has another extent, or if the stage reduces over rows other than by a sum from 0.

    Args:
        stage: the stage.
        buffers: the buffers that have rows.
        extent: the number of rows.
    """
    loads_of_rows = [load for load in stage.loads if any(load.source.same_as(buffer) for buffer in buffers)]
    row_indices = {load.indices[0] for load in loads_of_rows}
    candidates = stage.spatial[:1]
    if row_indices:
        row_index, *other_indices = row_indices
        if other_indices:
            return None
        candidates = tuple(axis for axis in (*candidates, *stage.reduce) if axis.var.same_as(row_index))
    if not candidates or candidates[0].size != extent:
        return None
    row_axis = candidates[0]
    # Strips add to the results of a reduction over rows. This gives the right result only for sums from 0.
    is_reduced = any(row_axis is axis for axis in stage.reduce)
    is_sum_from_zero = isinstance(stage.value, tirx.Add) and stage.init is not None and is_zero(stage.init)
    return None if is_reduced and not is_sum_from_zero else row_axis


def emit_strips(strips: Strips, kernel: Kernel, emit_all: EmitAll) -> Stmt:
    """Emits a block of stages in strips (groups of rows that run one after another).

    First the sums over rows are set to zero. Then all strips add to the sums. Stages that need complete sums come last.

    Args:
        strips: the stages, in strips of rows.
        kernel: the kernel.
        emit_all: emits stages of a kernel.
    """
    allocations = [emit.allocate(stage.buffer) for stage in strips.sums if kernel.is_local(stage.buffer)]
    rows_per_strip = min(MAX_ROWS, max(MIN_ROWS, emit.ceil_div(strips.extent, MIN_STRIPS)))
    versions = block_versions(strips.extent, rows_per_strip, strips.has_masked_columns)
    add_strips = [_emit_strips(strips, kernel, rows_per_strip, emit_all, *version) for version in versions]
    stages_after = [emit_all(strips.after, kernel)] if strips.after else []
    clear_sums: list[Stmt] = []
    for stage in strips.sums:
        clearing_stage = replace(stage, reduce=(), init=None, value=tirx.const(0, stage.dtype))
        clear_sums.append(emit_all([clearing_stage], Kernel((clearing_stage,), ())))
    return emit.sequence([*allocations, *clear_sums, *add_strips, *stages_after])


def block_versions(extent: int, block_size: int, has_masked_columns: bool) -> list[tuple[int, int, int]]:
    """Splits an axis into blocks, and returns the versions of code for them, as (first block, stop, rows per block).

    Full blocks have one version, and a shorter last block has another. With a causal mask, full blocks have several
    versions, since later blocks need more columns. For example, 70 rows in blocks of 32 give
    ``[(0, 2, 32), (2, 3, 6)]``.

    Args:
        extent: the number of rows.
        block_size: the number of rows of a full block.
        has_masked_columns: whether a causal mask lets later blocks need more columns.
    """
    full_blocks, remaining_rows = divmod(extent, block_size)
    version_count = min(full_blocks, MAX_VERSIONS if has_masked_columns else 1)
    stops = [emit.ceil_div(full_blocks * version, version_count) for version in range(1, version_count + 1)]
    versions = [(first, stop, block_size) for first, stop in zip([0, *stops], stops, strict=False)]
    if remaining_rows:
        versions.append((full_blocks, full_blocks + 1, remaining_rows))
    return versions


def _emit_strips(
    strips: Strips, kernel: Kernel, rows_per_strip: int, emit_all: EmitAll, first: int, stop: int, rows: int
) -> Stmt:
    """Emits a loop over the strips (groups of rows) [`first`, `stop`), of `rows` rows each.

    The strips share one version of code. For a causal mask, it has the columns that the last row needs.

    Args:
        strips: the stages, sorted by how they use rows.
        kernel: the kernel that the stages belong to.
        rows_per_strip: the rows of a full strip.
        emit_all: emits the stages of one strip.
        first: the index of the first strip.
        stop: the index after the last strip.
        rows: the rows of each of these strips.
    """
    last_row = (stop - 1) * rows_per_strip + rows - 1

    def emit_strip(strip: ir.Expr) -> Stmt:
        """Emits one strip, given its index after the first strip."""
        first_row = emit.simplified((strip + first) * rows_per_strip)
        return _emit_strip(strips, kernel, emit_all, first_row, rows, last_row)

    return emit.loop(stop - first, emit_strip)


def _emit_strip(strips: Strips, kernel: Kernel, emit_all: EmitAll, start: ir.Expr, rows: int, last_row: int) -> Stmt:
    """Emits one strip: all stages on its rows, with its sums added to the totals.

    `start` is the strip's first row; `last_row` bounds the columns that a causal mask leaves.
    """
    stored_results = _stored_results(strips, kernel)
    unstored = [stage.buffer for stage in strips.members if stage.buffer not in stored_results]
    sum_buffers = [stage.buffer for stage in strips.sums]
    members = without_masked_columns(
        strips.members, [axis.var for axis in strips.rows], last_row, unstored, sum_buffers
    )
    strip_buffers = {stage.buffer: block_buffer(stage, 1, rows) for stage in members if stage.buffer not in sum_buffers}
    stages: list[Stage] = []
    for stage, row in zip(members, strips.rows, strict=True):
        if stage.buffer in strip_buffers:
            stages.append(restricted_stage(stage, strip_buffers, 1, [start], rows))
        else:
            stages += _strip_sum_and_update(stage, row.var, strip_buffers, start, rows)
    # The strip's kernel allocates what it writes, except for sums and results that are stored completely.
    stored = [*sum_buffers, *(strip_buffers[result] for result in stored_results)]
    written = [stage.buffer for stage in stages]
    local = tuple(buffer for buffer in written if not any(buffer.same_as(other) for other in stored))
    body = emit_all(stages, Kernel(tuple(stages), local))
    for stage in members:
        if stage.buffer in stored_results:
            body = redirected_to_whole(body, strip_buffers[stage.buffer], stage, stage.spatial, [start], rows)
    return body


def _stored_results(strips: Strips, kernel: Kernel) -> set[Var]:
    """Returns the results of single rows that are stored in memory, for other stages or the kernel's output."""
    return {stage.buffer for stage in strips.members if not (strips.is_sum(stage) or kernel.is_local(stage.buffer))}


def _strip_sum_and_update(
    stage: Stage, row: Var, strip_buffers: dict[Var, Var], start: ir.Expr, rows: int
) -> list[Stage]:
    """Splits a sum over all rows into two stages: the sum over a strip of rows, and its addition to the total.

    As a separate stage, the sum over a strip is planned like any other reduction.

    Args:
        stage: the sum over all rows.
        row: the variable of its axis of rows.
        strip_buffers: the buffers for results of this strip only.
        start: the first row of the strip.
        rows: the number of rows of the strip.
    """
    row_axis = Axis(Var("row", "int64"), index(rows))
    result_extents = [axis.extent for axis in stage.spatial]
    strip_sum = emit.scratch(result_extents, stage.dtype, "sum")
    value = replace_loads(stage.value, stage.buffer, lambda indices: emit.load(strip_sum, indices))
    for old, new in strip_buffers.items():
        value = replace_loads(value, old, partial(load_from_block, new, [row_axis.var], 1))
    reduce = tuple(row_axis if old_axis.var.same_as(row) else old_axis for old_axis in stage.reduce)
    value = substitute(value, {row: start + row_axis.var})
    sum_of_strip = Stage(strip_sum, stage.spatial, reduce, stage.init, value)

    total_axes = tuple(replace(axis, var=Var(axis.var.name, "int64")) for axis in stage.spatial)
    indices = [axis.var for axis in total_axes]
    total = emit.load(stage.buffer, indices) + emit.load(strip_sum, indices)
    return [sum_of_strip, Stage(stage.buffer, total_axes, (), None, total)]
