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
    substitute,
    variables,
    with_simplified_indices,
)
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

TASKS_PER_CORE = 3
# Share of the level-2 cache that a band's stages may take.
MAX_SHARE_OF_LEVEL2 = 0.75
# Rows computed for two bands, as a share of a stage's rows.
MAX_RECOMPUTED_ROWS = 0.5
Emit = Callable[[Sequence[Stage], Kernel, CpuTarget], Stmt]


@dataclass(frozen=True)
class Rows:
    """The rows of a stage in a band: `height` rows, from row `start` on in the first band.

    Where the last stage's rows of a band begin `n` rows later, those of this stage begin `n * step` rows later. `step`
    is the product of the strides between the two stages.
    """

    start: int
    step: int
    height: int

    def union(self, other: Rows) -> Rows:
        """Returns the smallest range of rows that contains both ranges."""
        start = min(self.start, other.start)
        return Rows(start, self.step, max(self.start + self.height, other.start + other.height) - start)

    def first(self, origin: ir.Expr) -> ir.Expr:
        """Returns this stage's first row in a band; `origin` is the last stage's first row in the band."""
        return emit.simplified(origin * self.step + self.start)


@dataclass(frozen=True)
class Bands:
    """A chain of stages over images `[n, row, ...]` that is computed band by band of rows.

    `rows` are those of each stage in a band, `count` the number of bands per image.
    """

    stages: tuple[Stage, ...]
    rows: tuple[Rows, ...]
    count: int

    @property
    def last_origin(self) -> int:
        """The first row of the last band, which may recompute some rows of the band before."""
        return int(self.stages[-1].spatial[1].extent) - self.rows[-1].height

    def origin(self, band: ir.Expr) -> ir.Expr:
        """Returns the first row of the last stage in the band with a given index."""
        height = self.rows[-1].height
        if self.last_origin % height == 0:
            return emit.simplified(band * height)
        # The bands don't divide the rows: the last one starts earlier, and overlaps the one before.
        return emit.simplified(tirx.min(band * height, index(self.last_origin)))


def bands_of(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget) -> Bands | None:
    """Splits a chain of convolutions into bands: blocks of an image's rows that pass through the whole chain at a time.

    The bands are the highest that fit the cache and occupy all cores. Returns None if the stages aren't a chain of two
    or more convolutions, or if too many rows would be computed twice.

    Args:
        stages: the stages (loop nests) of the kernel, after inlining.
        kernel: the kernel.
        target: the CPU.
    """
    chain = [stage for stage in stages if isinstance(stage, Stage)]
    has_opaque_nests = len(chain) < len(stages)
    if has_opaque_nests or sum(map(is_convolution, chain)) < 2 or not _are_images(chain, kernel):
        return None
    image_axis, row_axis = chain[-1].spatial[:2]
    image_count, row_count = int(image_axis.extent), int(row_axis.extent)
    heights = {emit.ceil_div(row_count, band_count) for band_count in range(1, row_count + 1)}
    # Rows at the edge of two bands are computed for both. The highest bands that fit have the fewest such rows.
    for height in sorted(heights, reverse=True):
        rows = _rows_of_stages(chain, height, kernel)
        if rows is None:
            return None
        bands = Bands(tuple(chain), rows, count=emit.ceil_div(row_count, height))
        fits_cache = _band_bytes(bands, kernel) <= MAX_SHARE_OF_LEVEL2 * target.level2_bytes
        if fits_cache and occupies_all_cores(image_count * bands.count, target):
            return bands if _share_of_recomputed_rows(bands) <= MAX_RECOMPUTED_ROWS else None
    return None


def occupies_all_cores(tasks: int, target: CpuTarget) -> bool:
    """Returns whether tasks keep all cores busy until nearly the end."""
    return tasks >= TASKS_PER_CORE * target.cores or (tasks > 0 and tasks % target.cores == 0)


def is_convolution(stage: Stage) -> bool:
    """Returns whether a stage is a contraction, such as a convolution: a reduction that reuses its operands."""
    return bool(stage.reduce) and has_reused_operand(stage)


def _are_images(stages: Sequence[Stage], kernel: Kernel) -> bool:
    """Returns whether all stages (loop nests) compute images of static size from results of the same image.

    The bands of one image are then independent of other images. Only the last stage may store to memory.
    """
    # The axes of an image are image, row, column and channel; a scalar has none.
    if any(len(stage.spatial) != 4 for stage in stages):
        return False
    image_count = stages[0].spatial[0].size
    for stage in stages:
        if any(axis.size is None for axis in stage.axes):
            return False
        image = stage.spatial[0]
        if image.size != image_count or (stage.reduce and not is_convolution(stage)):
            return False
        for load in stage.loads:
            if kernel.is_local(load.source) and not tvm_ffi.structural_equal(load.indices[0], image.var):
                return False
    *intermediate_stages, last = stages
    return all(kernel.is_local(stage.buffer) for stage in intermediate_stages) and not kernel.is_local(last.buffer)


def _rows_of_stages(stages: Sequence[Stage], height: int, kernel: Kernel) -> tuple[Rows, ...] | None:
    """Returns the rows that each stage (loop nest) must compute for a band (block) of `height` rows of the last stage.

    The stages are visited from last to first, since readers determine the rows of a result. Returns None if a stage
    reads rows in an irregular pattern.

    Args:
        stages: the stages, in order.
        height: the number of rows of the last stage in a band.
        kernel: the kernel.
    """
    needed_rows: dict[Var, Rows] = {stages[-1].buffer: Rows(start=0, step=1, height=height)}
    for stage in reversed(stages):
        rows_of_stage = needed_rows.get(stage.buffer)
        if rows_of_stage is None:
            return None
        for load in stage.loads:
            source = load.source
            if source.same_as(stage.buffer) or not kernel.is_local(source):
                continue
            read_rows = _rows_read_by(load.indices[1], stage, rows_of_stage)
            if read_rows is None:
                return None
            other_rows = needed_rows.get(source, read_rows)
            # With readers of different strides, the rows of a band wouldn't be contiguous.
            if other_rows.step != read_rows.step:
                return None
            needed_rows[source] = other_rows.union(read_rows)
    return tuple(needed_rows[stage.buffer] for stage in stages)


def _rows_read_by(row_index: ir.Expr, stage: Stage, band_rows: Rows) -> Rows | None:
    """Returns the rows of an operand that a stage (loop nest) reads to compute `band_rows` of its own result.

    `row_index` is the operand's row in the stage's load. It must have the form `row * stride + tap + offset`: only then
    are the rows one range. Returns None for others.
    """
    row, window_axes = stage.spatial[1].var, stage.reduce
    if not variables(row_index) <= {row, *(axis.var for axis in window_axes)}:
        return None
    stride_expr = access.stride(row_index, row)
    stride = None if stride_expr is None else static(stride_expr)
    # The first and the last row that result row 0 reads.
    first_taps = {axis.var: index(0) for axis in window_axes}
    last_taps = {axis.var: axis.extent - 1 for axis in window_axes}
    first_read = _static_value(row_index, {row: index(0), **first_taps})
    last_read = _static_value(row_index, {row: index(0), **last_taps})
    if stride is None or first_read is None or last_read is None:
        return None
    if stride < 1 or last_read < first_read:
        return None
    rows_per_result = last_read - first_read + 1
    return Rows(
        start=band_rows.start * stride + first_read,
        step=band_rows.step * stride,
        height=(band_rows.height - 1) * stride + rows_per_result,
    )


def _static_value(value: ir.Expr, values: dict[Var, ir.Expr]) -> int | None:
    """Returns an index's value for given values of its variables, or None if it isn't static."""
    return static(emit.simplified(substitute(value, values)))


def _band_bytes(bands: Bands, kernel: Kernel) -> int:
    """Returns the bytes of the intermediate results of one band (a block of an image's rows).

    A contraction needs no bytes if the next stage is its epilogue, which runs on values in registers.

    Args:
        bands: the stages, in bands of rows.
        kernel: the kernel, which has the intermediate results.
    """
    total = 0
    next_stages = (*bands.stages[1:], None)
    for stage, rows, next_stage in zip(bands.stages, bands.rows, next_stages, strict=True):
        if not kernel.is_local(stage.buffer):
            continue
        stays_in_registers = next_stage is not None and _is_epilogue(next_stage, stage, bands.stages)
        if not stays_in_registers:
            total += _row_bytes(stage) * rows.height
    return total


def _is_epilogue(next_stage: Stage, stage: Stage, stages: Sequence[Stage]) -> bool:
    """Returns whether a stage can run on a contraction's results while they are in registers."""
    if not stage.reduce or next_stage.reduce:
        return False
    return _have_same_extents(stage, next_stage) or _as_border_copy(stage, next_stage, stages) is not None


def _have_same_extents(stage: Stage, other: Stage) -> bool:
    """Returns whether two stages have the same extents along all axes."""
    return [axis.size for axis in stage.spatial] == [axis.size for axis in other.spatial]


def _row_bytes(stage: Stage) -> int:
    """Returns the bytes of one row of a stage's results."""
    return prod(axis.size or 1 for axis in stage.spatial[2:]) * stage.item_bytes


def _share_of_recomputed_rows(bands: Bands) -> float:
    """Returns the largest share of any stage's rows that two neighbouring bands both compute."""
    mean_height = (bands.last_origin + bands.rows[-1].height) / bands.count
    return max(rows.height / (rows.step * mean_height) - 1 for rows in bands.rows)


def emit_bands(bands: Bands, target: CpuTarget, emit_all: Emit) -> Stmt:
    """Emits a parallel loop over bands (blocks of an image's rows) of a chain of convolutions.

    A band passes through all stages while its data is in the level-2 cache.

    Args:
        bands: the stages, and their rows in a band.
        target: the CPU.
        emit_all: emits the stages of one band.
    """
    image_count = bands.stages[0].spatial[0].extent
    # The bands are the parallel tasks, so the loops in a band are serial.
    single_core = replace(target, cores=1)

    def emit_band(indices: list[ir.Expr]) -> Stmt:
        """Emits all stages for one band of one image."""
        image, band_index = indices
        return _emit_band(bands, image, band_index, single_core, emit_all)

    def emit_loops(parallel: bool) -> Stmt:
        """Emits the loop over all bands of all images."""
        return emit.fused_loops([image_count, bands.count], emit_band, parallel)

    return emit_parallel_or_serial(bands.stages, target, emit_loops)


def _emit_band(bands: Bands, image: ir.Expr, band_index: ir.Expr, target: CpuTarget, emit_all: Emit) -> Stmt:
    """Emits one band (a block of an image's rows): runs all stages of a chain of convolutions on these rows.

    The last stage stores its rows into the whole result. The other stages use buffers of the size of the band.
    """
    stages_and_rows = list(zip(bands.stages, bands.rows, strict=True))
    buffers = {stage.buffer: _band_buffer(stage, rows) for stage, rows in stages_and_rows}
    origin = bands.origin(band_index)
    first_rows = {stage.buffer: rows.first(origin) for stage, rows in stages_and_rows}
    stages = [
        _stage_in_band(stage, rows, image, bands.last_origin, buffers, first_rows) for stage, rows in stages_and_rows
    ]
    # Results aren't copied to a padded copy: the contraction before stores into its middle.
    borders: dict[Var, Border] = {}
    for stage, next_stage in zip(stages, stages[1:]):
        border = _as_border_copy(stage, next_stage, stages)
        if border is not None:
            borders[next_stage.buffer] = border
    stages = [borders[stage.buffer].inner if stage.buffer in borders else stage for stage in stages]
    *intermediate_stages, last = bands.stages
    band_buffers = [buffers[stage.buffer] for stage in intermediate_stages]
    local_buffers = tuple(buffer for buffer in band_buffers if buffer not in borders)
    body = emit_all(stages, Kernel(tuple(stages), local_buffers), target)
    for border in borders.values():
        body = emit.sequence([emit.allocate(border.copy.buffer), border.fill_border(target), border.store_inside(body)])
    return _redirect_to_whole_result(body, buffers[last.buffer], last.buffer, image, first_rows[last.buffer])


@dataclass(frozen=True)
class Border:
    """A stage that copies a contraction's results and adds border columns, of which `left` come before the results.

    `copy` is this stage, `inner` the same stage without the border.
    """

    copy: Stage
    inner: Stage
    left: int

    def fill_border(self, target: CpuTarget) -> Stmt:
        """Emits loops that store the border value (zero for a convolution) in the columns left and right of the results."""
        row, column, channel = self.copy.spatial
        first_column_after = self.left + int(self.inner.spatial[1].extent)
        border_columns = [*range(self.left), *range(first_column_after, int(column.extent))]
        _is_inside, _result, border_value = self.copy.value.args  # the arguments of an `if_then_else`
        channel_spans = emit.vector_spans(int(channel.extent), target.lanes(4))

        def fill_vector(row_index: ir.Expr, border_column: int, first_channel: int, lanes: int) -> Stmt:
            """Emits the store of the border value to consecutive channels of one border column.

            Args:
                row_index: the row.
                border_column: the column.
                first_channel: the first of the channels.
                lanes: the number of channels.
            """

            def fill_lane(lane: ir.Expr) -> Stmt:
                indices = [row_index, index(border_column), lane + first_channel]
                return emit.store(self.copy.buffer, border_value, indices)

            return emit.vectorized(lanes, fill_lane)

        def fill_row(indices: list[ir.Expr]) -> Stmt:
            """Emits the stores of the border value to all border columns of a row."""
            (row_index,) = indices
            vectors: list[Stmt | None] = []
            for border_column in border_columns:
                vectors += [fill_vector(row_index, border_column, first, lanes) for first, lanes in channel_spans]
            return emit.sequence(vectors)

        return emit.nest([row.extent], fill_row)

    def store_inside(self, body: Stmt) -> Stmt:
        """Redirects a contraction's stores to the copy with a border, at columns shifted by the width of the left border.

        Then the results need neither a separate buffer nor a copy.
        """

        def redirect(store: BufferStore) -> BufferStore:
            """Redirects a store of a result; returns other stores unchanged."""
            if not store.buffer.same_as(self.inner.buffer):
                return store
            row, column, channel = store.indices
            return BufferStore(self.copy.buffer, store.value, [row, column + self.left, channel])

        return structural_map(body, (BufferStore, redirect))


def _as_border_copy(stage: Stage, copy: Stage, stages: Sequence[Stage]) -> Border | None:
    """Returns a description of `copy`, if it copies a contraction's results with a border around them; else None.

    The contraction `stage` can then store straight into the copy. So nothing else may read the results.
    """
    result_loads = access.reads_of(copy, stage.buffer)
    if not stage.reduce or copy.reduce or not result_loads:
        return None
    # The copy must have the form `if_then_else(is_inside, result, border_value)`, where the border value reads no data.
    if not is_choice(copy.value) or loads(copy.value.args[2]):
        return None
    if any(reads(other, stage.buffer) for other in stages if other is not stage and other is not copy):
        return None
    *_, row, column, channel = copy.spatial
    column_shifts: set[int | None] = set()
    for load in result_loads:
        *_, row_index, column_index, channel_index = load.indices
        has_constant_row_shift = static(emit.simplified(row_index - row.var)) is not None
        if not has_constant_row_shift or not tvm_ffi.structural_equal(channel_index, channel.var):
            return None
        column_shifts.add(static(emit.simplified(column.var - column_index)))
    if len(column_shifts) != 1:
        return None
    (left,) = column_shifts
    # A negative shift would crop the results.
    if left is None or left < 0:
        return None
    return Border(copy, _inner_copy(stage, copy, left), left)


def _inner_copy(stage: Stage, copy: Stage, left: int) -> Stage:
    """Restricts a copy with a border to its inner part, which copies the results of a stage without bounds checks.

    Args:
        stage: the stage whose results are copied. The inner part has its axes.
        copy: the copy with a border.
        left: the width of the left border.
    """
    axes = tuple(replace(axis, var=Var(axis.var.name, "int64")) for axis in stage.spatial)
    column, column_of_copy = axes[-2], copy.spatial[-2]
    new_indices: dict[Var, ir.Expr] = {old.var: new.var for old, new in zip(copy.spatial, axes)}
    new_indices[column_of_copy.var] = column.var + left
    analyzer = sym.Analyzer()
    # Within these bounds, the condition that selects between result and border is always true, and is simplified.
    analyzer.bind(column.var, ir.Range(index(0), column.extent))
    value = with_simplified_indices(substitute(copy.value, new_indices), analyzer)
    buffer = emit.scratch([axis.extent for axis in stage.spatial], copy.dtype, "filling")
    return Stage(buffer, axes, (), None, value)


def _band_buffer(stage: Stage, rows: Rows) -> Var:
    """Returns a scratch buffer for one band of a stage's results."""
    return emit.scratch([rows.height, *(axis.extent for axis in stage.spatial[2:])], stage.dtype, "band")


def _stage_in_band(
    stage: Stage, rows: Rows, image: ir.Expr, last_origin: int, buffers: dict[Var, Var], first_rows: dict[Var, ir.Expr]
) -> Stage:
    """Restricts a stage (loop nest) to the rows of one band (a block of an image's rows).

    The stage then reads and writes `buffers`, which hold only the band. The rows of a band may reach beyond the image.
    Such rows repeat the image's first or last row, and aren't used.

    Args:
        stage: the stage, on whole images.
        rows: the rows that the stage computes for a band.
        image: the index of the image.
        last_origin: where the last band begins, as a row of the last stage.
        buffers: the buffer for a band of each result.
        first_rows: the first row of each result's band, as an index in the image.
    """
    image_axis, row, *inner_axes = stage.spatial
    own_buffer = buffers[stage.buffer]
    row_count = int(row.extent)
    band_row = replace(row, var=Var("row", "int64"), extent=index(rows.height))
    row_in_image = first_rows[stage.buffer] + band_row.var
    if rows.start < 0:
        row_in_image = tirx.max(row_in_image, index(0))
    if rows.start + last_origin * rows.step + rows.height > row_count:
        row_in_image = tirx.min(row_in_image, index(row_count - 1))
    value = substitute(stage.value, {image_axis.var: image, row.var: row_in_image})
    for result, band_buffer in buffers.items():
        value = replace_loads(value, result, partial(_load_from_band, band_buffer, first_rows[result]))
    # A reduction's old value is in its own row of the band.
    if stage.reduce:
        value = replace_loads(value, own_buffer, lambda indices: emit.load(own_buffer, [band_row.var, *indices[1:]]))
    return Stage(own_buffer, (band_row, *inner_axes), stage.reduce, stage.init, value)


def _load_from_band(band_buffer: Var, first_row: ir.Expr, indices: list[ir.Expr]) -> ir.Expr:
    """Returns the load from a band's buffer that replaces a load from the whole result."""
    return emit.load(band_buffer, [emit.simplified(indices[1] - first_row), *indices[2:]])


def _redirect_to_whole_result(body: Stmt, band_buffer: Var, buffer: Var, image: ir.Expr, first_row: ir.Expr) -> Stmt:
    """Redirects the loads and stores of a band's buffer to the band's rows of the whole result.

    A band is a block of an image's rows. The last stage of a chain of convolutions is emitted like the others, on a
    buffer for the band. After the redirection this buffer isn't needed.

    Args:
        body: the statements of the band.
        band_buffer: the buffer for the band.
        buffer: the whole result.
        image: the index of the image.
        first_row: the band's first row in the image.
    """

    def indices_in_whole(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        return [image, first_row + indices[0], *indices[1:]]

    def redirect_store(store: BufferStore) -> BufferStore:
        if not store.buffer.same_as(band_buffer):
            return store
        return BufferStore(buffer, store.value, indices_in_whole(store.indices))

    def redirect_load(load: TensorLoad) -> ir.Expr:
        if not load.source.same_as(band_buffer):
            return load
        return tirx.BufferLoad(buffer, indices_in_whole(load.indices))

    with_stores = structural_map(body, (BufferStore, redirect_store))
    return structural_map(with_stores, (TensorLoad, redirect_load))
