"""Chains of convolutions: a band of rows passes through all of them without leaving the level-2 cache.

The rows of the last result in a band determine, stage by stage, the rows needed of each earlier stage; rows at the
edges of bands are computed twice. Within a band, stages are scheduled like a kernel of their own on one core.

Measured for a depthwise network's inference: 15 ms for 32 images instead of 32 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import (
    Kernel,
    Opaque,
    Stage,
    is_choice,
    loads,
    reads,
    replace_loads,
    simplified_places,
    substitute,
    variables,
)
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

TASKS_PER_CORE = 3
# Share of the level-2 cache that a band's stages may take.
SHARE_OF_LEVEL2 = 0.75
# Rows computed for two bands, as a share of a stage's rows.
MAX_SHARED_ROWS = 0.5
Emit = Callable[[Sequence[Stage], Kernel, CpuTarget], Stmt]


@dataclass(frozen=True)
class Rows:
    """The rows of a stage in a band: `height` rows from `start` on, and `step` for each row of the last stage."""

    start: int
    step: int
    height: int

    def joined(self, other: Rows) -> Rows:
        start = min(self.start, other.start)
        return Rows(start, self.step, max(self.start + self.height, other.start + other.height) - start)

    def first(self, origin: ir.Expr) -> ir.Expr:
        return emit.simplified(origin * self.step + self.start)


@dataclass(frozen=True)
class Bands:
    """Stages over images `[n, row, ...]`, the rows of each in a band, and the number of bands per image."""

    stages: tuple[Stage, ...]
    rows: tuple[Rows, ...]
    count: int

    @property
    def last_origin(self) -> int:
        """The first row of the last band, which may recompute some rows of the band before."""
        return int(self.stages[-1].spatial[1].extent) - self.rows[-1].height

    def origin(self, number: ir.Expr) -> ir.Expr:
        height = self.rows[-1].height
        even = self.last_origin % height == 0
        return emit.simplified(number * height if even else tirx.min(number * height, index(self.last_origin)))


def bands_of(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget) -> Bands | None:
    """Returns the best cut of two or more convolutions into bands.

    None if the stages aren't a chain of convolutions, or bands don't pay.
    """
    plain = [stage for stage in stages if isinstance(stage, Stage)]
    if len(plain) < len(stages) or sum(map(is_convolution, plain)) < 2 or not _are_images(plain, kernel):
        return None
    extent, images = int(plain[-1].spatial[1].extent), int(plain[-1].spatial[0].extent)
    # The highest bands that fit share the fewest rows.
    for height in sorted({-(-extent // count) for count in range(1, extent + 1)}, reverse=True):
        rows = _rows_of(plain, height, kernel)
        if rows is None:
            return None
        bands = Bands(tuple(plain), rows, -(-extent // height))
        fits = _bytes_of(bands, kernel) <= SHARE_OF_LEVEL2 * target.level2_bytes
        if fits and occupies(images * bands.count, target):
            return bands if _shared_rows(bands) <= MAX_SHARED_ROWS else None
    return None


def occupies(tasks: int, target: CpuTarget) -> bool:
    """Returns whether tasks keep all cores busy until nearly the end."""
    return tasks >= TASKS_PER_CORE * target.cores or (tasks > 0 and tasks % target.cores == 0)


def is_convolution(stage: Stage) -> bool:
    return bool(stage.reduce) and has_reused_operand(stage)


def _are_images(stages: Sequence[Stage], kernel: Kernel) -> bool:
    """Returns whether all stages are over images and rows of static size, and read local results of the same image only.

    Then the bands of one image don't depend on those of another.
    """
    for stage in stages:
        if len(stage.spatial) != 4 or any(axis.size is None for axis in stage.axes):
            return False
        if stage.spatial[0].size != stages[0].spatial[0].size or (stage.reduce and not is_convolution(stage)):
            return False
        local_loads = [load for load in stage.loads if kernel.is_local(load.source)]
        if not all(tvm_ffi.structural_equal(load.indices[0], stage.spatial[0].var) for load in local_loads):
            return False
    # Only the last stage's results are stored to memory.
    inner = [stage.buffer for stage in stages if kernel.is_local(stage.buffer)]
    return len(inner) == len(stages) - 1 and not kernel.is_local(stages[-1].buffer)


def _rows_of(stages: Sequence[Stage], height: int, kernel: Kernel) -> tuple[Rows, ...] | None:
    """Returns the rows of each stage that a band of `height` rows of the last stage needs; None if irregular."""
    needed: dict[Var, Rows] = {stages[-1].buffer: Rows(0, 1, height)}
    for stage in reversed(stages):
        band_rows = needed.get(stage.buffer)
        if band_rows is None:
            return None
        for load in stage.loads:
            if kernel.is_local(load.source) and not load.source.same_as(stage.buffer):
                read = _rows_read(load.indices[1], stage, band_rows)
                known = needed.get(load.source)
                # Readers of different strides need rows that move apart from band to band.
                if read is None or (known is not None and known.step != read.step):
                    return None
                needed[load.source] = read if known is None else known.joined(read)
    return tuple(needed[stage.buffer] for stage in stages)


def _rows_read(place: ir.Expr, stage: Stage, rows: Rows) -> Rows | None:
    """Returns the rows that some rows of a stage read: those at `row * step + window + offset`.

    Only an index of this form reads one range of rows for a range of results.
    """
    row = stage.spatial[1].var
    window = {axis.var: axis for axis in stage.reduce}
    if not variables(place) <= {row, *window}:
        return None
    step = access.stride(place, row)
    by = None if step is None else static(step)
    low = _at(place, {row: index(0), **{var: index(0) for var in window}})
    high = _at(place, {row: index(0), **{var: axis.extent - 1 for var, axis in window.items()}})
    if by is None or low is None or high is None or by < 1 or high < low:
        return None
    return Rows(rows.start * by + low, rows.step * by, (rows.height - 1) * by + high - low + 1)


def _at(place: ir.Expr, values: dict[Var, ir.Expr]) -> int | None:
    return static(emit.simplified(substitute(place, values)))


def _bytes_of(bands: Bands, kernel: Kernel) -> int:
    """Returns the bytes of a band in memory; contractions that the next stage finishes in registers take none."""
    total = 0
    for stage, rows, after in zip(bands.stages, bands.rows, (*bands.stages[1:], None)):
        if kernel.is_local(stage.buffer) and not (after is not None and _finishes(after, stage, bands.stages)):
            total += _row_bytes(stage) * rows.height
    return total


def _finishes(after: Stage, stage: Stage, stages: Sequence[Stage]) -> bool:
    if not stage.reduce or after.reduce:
        return False
    return _same_box(stage, after) or _border(stage, after, stages) is not None


def _same_box(stage: Stage, other: Stage) -> bool:
    return [axis.size for axis in stage.spatial] == [axis.size for axis in other.spatial]


def _row_bytes(stage: Stage) -> int:
    return prod(axis.size or 1 for axis in stage.spatial[2:]) * stage.item_bytes


def _shared_rows(bands: Bands) -> float:
    mean_height = (bands.last_origin + bands.rows[-1].height) / bands.count
    return max(rows.height / (rows.step * mean_height) - 1 for rows in bands.rows)


def emit_bands(bands: Bands, kernel: Kernel, target: CpuTarget, emit_all: Emit) -> Stmt:
    """Writes a parallel loop over bands; `emit_all` writes one band."""
    images = bands.stages[0].spatial[0].extent

    def band(places: list[ir.Expr]) -> Stmt:
        # Bands are the parallel tasks; nothing inside of one is parallel.
        return _band(bands, places[0], places[1], replace(target, cores=1), emit_all)

    return is_parallel(bands.stages, target, lambda parallel: emit.fused([images, bands.count], band, parallel))


def _band(bands: Bands, image: ir.Expr, number: ir.Expr, target: CpuTarget, emit_all: Emit) -> Stmt:
    """Writes one band: all stages on its rows, with results stored to their part of the whole."""
    pairs = list(zip(bands.stages, bands.rows, strict=True))
    buffers = {stage.buffer: _band_buffer(stage, rows) for stage, rows in pairs}
    origin = bands.origin(number)
    starts = {stage.buffer: rows.first(origin) for stage, rows in pairs}
    stages = [_in_band(stage, rows, image, bands.last_origin, buffers, starts) for stage, rows in pairs]
    last = bands.stages[-1]
    # A copy with a border isn't copied: the stage before stores into its middle.
    borders = [border for pair in zip(stages, stages[1:]) if (border := _border(*pair, stages)) is not None]
    inner = {border.copy.buffer: border for border in borders}
    stages = [inner[stage.buffer].filling if stage.buffer in inner else stage for stage in stages]
    local = [buffers[stage.buffer] for stage in bands.stages[:-1] if buffers[stage.buffer] not in inner]
    body = emit_all(stages, Kernel(tuple(stages), tuple(local)), target)
    for border in borders:
        body = emit.sequence([emit.allocate(border.copy.buffer), border.empty(target), border.filled(body)])
    return _stored_to_whole(body, buffers[last.buffer], last.buffer, image, starts[last.buffer])


@dataclass(frozen=True)
class Border:
    """A copy of a contraction's results with `left` border columns before them; `filling` writes the inner part."""

    copy: Stage
    filling: Stage
    left: int

    def empty(self, target: CpuTarget) -> Stmt:
        """Returns the loops that fill the border columns."""
        row, column, channel = self.copy.spatial
        width = int(self.filling.spatial[1].extent)
        columns = [*range(self.left), *range(self.left + width, int(column.extent))]
        otherwise = self.copy.value.args[2]

        def fill(places: list[ir.Expr]) -> Stmt:
            return emit.sequence([
                emit.vectorized(lanes, lambda lane, at=at, first=first: emit.store(  # type: ignore[misc]
                    self.copy.buffer, otherwise, [places[0], index(at), lane + first]))
                for at in columns for first, lanes in emit.vector_spans(int(channel.extent), target.lanes(4))
            ])  # fmt: skip

        return emit.nest([row.extent], fill)

    def filled(self, body: Stmt) -> Stmt:
        """Returns the statement with stores of the inner part redirected to the copy."""

        def store(node: BufferStore) -> BufferStore:
            if not node.buffer.same_as(self.filling.buffer):
                return node
            row, column, channel = node.indices
            return BufferStore(self.copy.buffer, node.value, [row, column + self.left, channel])

        return structural_map(body, (BufferStore, store))


def _border(stage: Stage, after: Stage, stages: Sequence[Stage]) -> Border | None:
    """Returns the second stage as a bordered copy of the first one's results, if it is one and their only reader.

    The first stage can then store into the copy itself.
    """
    value, source_loads = after.value, access.reads_of(after, stage.buffer)
    if not stage.reduce or after.reduce or not source_loads or not is_choice(value) or loads(value.args[2]):
        return None
    if any(reads(other, stage.buffer) for other in stages if other is not stage and other is not after):
        return None
    *_, row, column, channel = after.spatial
    moved = [static(emit.simplified(column.var - load.indices[-2])) for load in source_loads]
    is_own = all(tvm_ffi.structural_equal(load.indices[-1], channel.var) for load in source_loads)
    same_row = all(static(emit.simplified(load.indices[-3] - row.var)) is not None for load in source_loads)
    if not (is_own and same_row) or len(set(moved)) != 1 or moved[0] is None or moved[0] < 0:
        return None
    return Border(after, _filling(stage, after, moved[0]), moved[0])


def _filling(stage: Stage, copy: Stage, left: int) -> Stage:
    """Returns the copy restricted to the places of the results."""
    *outer, row, column, channel = (replace(axis, var=Var(axis.var.name, "int64")) for axis in stage.spatial)
    old = dict(zip((axis.var for axis in copy.spatial), (axis.var for axis in (*outer, row, column, channel))))
    old[copy.spatial[-2].var] = column.var + left
    analyzer = sym.Analyzer()
    # Within these bounds the test for the border is always true, and folds away.
    analyzer.bind(column.var, ir.Range(index(0), column.extent))
    value = simplified_places(substitute(copy.value, old), analyzer)
    buffer = emit.scratch([axis.extent for axis in stage.spatial], copy.dtype, "filling")
    return Stage(buffer, (*outer, row, column, channel), (), None, value)


def _band_buffer(stage: Stage, rows: Rows) -> Var:
    return emit.scratch([rows.height, *(axis.extent for axis in stage.spatial[2:])], stage.dtype, "band")


def _in_band(
    stage: Stage, rows: Rows, image: ir.Expr, last_origin: int, buffers: dict[Var, Var], starts: dict[Var, ir.Expr]
) -> Stage:
    """Returns a stage for the rows of a band; rows outside the image, which aren't used, repeat its first or last."""
    row = stage.spatial[1]
    band_row = replace(row, var=Var("row", "int64"), extent=index(rows.height))
    place = starts[stage.buffer] + band_row.var
    extent = int(row.extent)
    if rows.start < 0:
        place = tirx.max(place, index(0))
    if rows.start + last_origin * rows.step + rows.height > extent:
        place = tirx.min(place, index(extent - 1))
    value = substitute(stage.value, {stage.spatial[0].var: image, row.var: place})
    for old, new in buffers.items():
        value = replace_loads(value, old, partial(_load, new, starts[old]))
    if stage.reduce:
        value = replace_loads(
            value, buffers[stage.buffer], lambda at: emit.load(buffers[stage.buffer], [band_row.var, *at[1:]])
        )
    return Stage(buffers[stage.buffer], (band_row, *stage.spatial[2:]), stage.reduce, stage.init, value)


def _load(band_buffer: Var, start: ir.Expr, at: list[ir.Expr]) -> ir.Expr:
    return emit.load(band_buffer, [emit.simplified(at[1] - start), *at[2:]])


def _stored_to_whole(body: Stmt, band_buffer: Var, buffer: Var, image: ir.Expr, start: ir.Expr) -> Stmt:
    """Redirects a band's loads and stores of its results to the whole result.

    The last stage is written like the others, on a buffer of the band's rows, though it needs none of its own.
    """

    def indices_in_whole(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        return [image, start + indices[0], *indices[1:]]

    def store(node: BufferStore) -> BufferStore:
        return (
            BufferStore(buffer, node.value, indices_in_whole(node.indices))
            if node.buffer.same_as(band_buffer)
            else node
        )

    def load(node: TensorLoad) -> ir.Expr:
        return tirx.BufferLoad(buffer, indices_in_whole(node.indices)) if node.source.same_as(band_buffer) else node

    return structural_map(structural_map(body, (BufferStore, store)), (TensorLoad, load))
