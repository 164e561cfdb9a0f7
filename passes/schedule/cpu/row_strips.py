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
from tvtf.passes.schedule.cpu.substage import load_part, part_buffer, part_of, redirected
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.triangle import has_triangle, is_zero, shortened

MIN_ROWS, MAX_ROWS, MIN_STRIPS = 32, 128, 4
MAX_VERSIONS = 4
EmitAll = Callable[[Sequence[Stage], Kernel], Stmt]


@dataclass(frozen=True)
class Strips:
    """Stages with one value per row (`members`), sums over rows (`sums`), both in order, and the stages `after` them.

    `rows` holds each member's axis of rows.
    """

    members: tuple[Stage, ...]
    rows: tuple[Axis, ...]
    sums: tuple[Stage, ...]
    after: tuple[Stage, ...]

    @property
    def extent(self) -> int:
        return int(self.rows[0].extent)

    def is_sum(self, stage: Stage) -> bool:
        return any(stage is total for total in self.sums)

    @property
    def has_triangle(self) -> bool:
        return has_triangle(self.members, [axis.var for axis in self.rows])


def strips_of(stages: Sequence[Stage], target: CpuTarget) -> Strips | None:
    """Returns the strips of a block's stages if cutting it pays: some value is too large, or there is a triangle."""
    strips = _as_strips(stages)
    if strips is None or not strips.sums or strips.extent < 2 * MIN_ROWS:
        return None
    return strips if strips.has_triangle or _largest(strips) > target.level2_bytes // 2 else None


def _largest(strips: Strips) -> int:
    row_stages = [stage for stage in strips.members if not strips.is_sum(stage)]
    return max(prod(axis.size or 0 for axis in stage.spatial) * stage.item_bytes for stage in row_stages)


def _as_strips(stages: Sequence[Stage]) -> Strips | None:
    """Sorts a block's stages into stages of single rows, sums over rows, and later ones; None if they mix."""
    if not stages or any(axis.size is None for stage in stages for axis in stage.axes) or not stages[0].spatial:
        return None
    single: list[Stage] = []
    sums: list[Stage] = []
    after: list[Stage] = []
    rows: dict[int, Axis] = {}
    for number, stage in enumerate(stages):
        row = _row_axis(stage, [other.buffer for other in single], stages[0].spatial[0].size)
        if row is None or _reads_any(stage, [*sums, *after]):
            if _reads_any(stage, single):
                return None
            after.append(stage)
            continue
        rows[number] = row
        (sums if any(row is axis for axis in stage.reduce) else single).append(stage)
    return Strips(tuple(stages[number] for number in rows), tuple(rows.values()), tuple(sums), tuple(after))


def _reads_any(stage: Stage, stages: Sequence[Stage]) -> bool:
    return any(access.reads_of(stage, other.buffer) for other in stages)


def _row_axis(stage: Stage, buffers: Sequence[Var], extent: int | None) -> Axis | None:
    """Returns the axis of a stage that matches the rows of other results; its first axis if it reads none."""
    read = [load for load in stage.loads if any(load.source.same_as(buffer) for buffer in buffers)]
    first = {load.indices[0] for load in read}
    axis = stage.spatial[0] if stage.spatial and not read else None
    if len(first) == 1:
        axis = next((a for a in (*stage.spatial[:1], *stage.reduce) if a.var.same_as(next(iter(first)))), None)
    if axis is None or axis.size != extent:
        return None
    if any(axis is a for a in stage.reduce):
        # The strips' sums are added to the total.
        return axis if isinstance(stage.value, tirx.Add) and stage.init is not None and is_zero(stage.init) else None
    return axis


def emit_strips(strips: Strips, kernel: Kernel, emit_all: EmitAll) -> Stmt:
    """Writes zeros to the sums, then strip after strip, then the stages that need whole sums."""
    zeros = [replace(stage, reduce=(), init=None, value=tirx.const(0, stage.dtype)) for stage in strips.sums]
    allocations = [emit.allocate(stage.buffer) for stage in strips.sums if kernel.is_local(stage.buffer)]
    size = min(MAX_ROWS, max(MIN_ROWS, -(-strips.extent // MIN_STRIPS)))
    body = [_strips(strips, kernel, size, emit_all, *each) for each in rounds(strips.extent, size, strips.has_triangle)]
    rest = [emit_all(strips.after, kernel)] if strips.after else []
    return emit.sequence([*allocations, *(emit_all([stage], Kernel((stage,), ())) for stage in zeros), *body, *rest])


def rounds(extent: int, size: int, has_triangle: bool) -> list[tuple[int, int, int]]:
    """Returns the versions in which an axis's blocks are written: first block, end, and rows per block of each."""
    whole_blocks, rest = divmod(extent, size)
    versions = min(whole_blocks, MAX_VERSIONS) if has_triangle else min(whole_blocks, 1)
    stops = [-(-whole_blocks * version // versions) for version in range(1, versions + 1)]
    versions_of_blocks = [(first, stop, size) for first, stop in zip([0, *stops], stops, strict=False)]
    return [*versions_of_blocks, (whole_blocks, whole_blocks + 1, rest)] if rest else versions_of_blocks


def _strips(strips: Strips, kernel: Kernel, size: int, emit_all: EmitAll, first: int, stop: int, rows: int) -> Stmt:
    """Writes strips `first` to `stop`; only the number of rows distinguishes the last from the others."""
    last = (stop - 1) * size + rows - 1
    return emit.loop(
        stop - first,
        lambda number: _strip(strips, kernel, emit_all, emit.simplified((number + first) * size), rows, last),
    )


def _strip(strips: Strips, kernel: Kernel, emit_all: EmitAll, start: ir.Expr, rows: int, last: int) -> Stmt:
    """Writes one strip of rows, and adds its sums to the totals."""
    needed = _needed(strips, kernel)
    local = [stage.buffer for stage in strips.members if stage.buffer not in needed]
    added = [stage.buffer for stage in strips.sums]
    members = shortened(strips.members, [axis.var for axis in strips.rows], last, local, added)
    known = {stage.buffer: part_buffer(stage, 1, rows) for stage in members if stage.buffer not in added}
    stages: list[Stage] = []
    for stage, row in zip(members, strips.rows, strict=True):
        if stage.buffer in known:
            stages.append(part_of(stage, known, 1, [start], rows))
        else:
            stages += _added(stage, row.var, known, start, rows)
    strip_buffers = [stage.buffer for stage in stages if not any(stage.buffer.same_as(buffer) for buffer in added)]
    body = emit_all(
        stages, Kernel(tuple(stages), tuple(b for b in strip_buffers if not any(b.same_as(known[n]) for n in needed)))
    )
    for stage in members:
        if stage.buffer in needed:
            body = redirected(body, known[stage.buffer], stage, stage.spatial, 1, [start], rows)
    return body


def _needed(strips: Strips, kernel: Kernel) -> set[Var]:
    """Returns the results of single rows that other stages need."""
    return {stage.buffer for stage in strips.members if not (strips.is_sum(stage) or kernel.is_local(stage.buffer))}


def _added(stage: Stage, row: Var, known: dict[Var, Var], start: ir.Expr, rows: int) -> list[Stage]:
    """Returns the sum over a strip's rows, and the update of the total with it.

    The update is a stage of its own, so that the strip's sum is planned as any other reduction.
    """
    axis = Axis(Var("row", "int64"), index(rows))
    part = emit.scratch([a.extent for a in stage.spatial], stage.dtype, "sum")
    value = replace_loads(stage.value, stage.buffer, lambda indices: emit.load(part, indices))
    for old, new in known.items():
        value = replace_loads(value, old, partial(load_part, new, [axis.var], 1))
    reduce = tuple(axis if a.var.same_as(row) else a for a in stage.reduce)
    value = substitute(value, {row: start + axis.var})
    new_axes = tuple(replace(a, var=Var(a.var.name, "int64")) for a in stage.spatial)
    places = [a.var for a in new_axes]
    total = emit.load(stage.buffer, places) + emit.load(part, places)
    return [Stage(part, stage.spatial, reduce, stage.init, value), Stage(stage.buffer, new_axes, (), None, total)]
