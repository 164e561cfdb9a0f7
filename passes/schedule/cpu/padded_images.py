"""Padded convolutions: each image's padded copy is made where it is used, whole or by bands, and stays in the cache.

A 3x3 convolution of 4x224x224x3 with stride 2 takes 210 us instead of 430 with one copy of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.band_copy import BAND_AXES, call_band_copy
from tvtf.passes.schedule.cpu.border_clips import with_clips
from tvtf.passes.schedule.cpu.cache_conflicts import padded_extents
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.kernel import (
    Axis,
    Kernel,
    Opaque,
    Stage,
    reads,
    replace_loads,
    substitute,
    variables,
    with_value,
)
from tvtf.passes.schedule.cpu.merged_loops import on_same_axes
from tvtf.passes.schedule.cpu.pack import pack_operands
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import PlannedReduction, emit_tasks
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import Plan, plan_reduction
from tvtf.passes.schedule.cpu.vector_axis import operands_of, vector_operand_bytes

ENOUGH_TASKS_PER_CORE = 4
# Depthwise convolutions keep one padded copy of up to this many level-2 caches, which outer caches hold: bands were
# slower.
OUTER_CACHES_IN_LEVEL2_SIZES = 16
# Rows at the edges of bands are copied twice; bands with more copies per row aren't considered.
MAX_COPIES_PER_ROW = 2
MAX_BAND_IN_LEVEL2_SIZES = 2


@dataclass(frozen=True)
class Band:
    """`rows` rows of results, which read `height` rows of the padded source; the next band starts `step` rows later."""

    rows: int
    height: int
    step: int


@dataclass(frozen=True)
class Images:
    """A padded copy (`source`) and the contraction that is its only reader, with its epilogue in `fused_stages`.

    The copy is made band by band of each image, just before the contraction reads it.
    """

    source: Stage
    fused_stages: tuple[Stage, ...]
    band: Band

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.source, *self.fused_stages)


def as_images(
    source: Stage,
    fused_stages: Sequence[Stage],
    later_stages: Sequence[Stage | Opaque],
    kernel: Kernel,
    target: CpuTarget,
) -> Images | None:
    """Returns a contraction and its padded copy as a form that pads band by band of each image, or None.

    A band's copy stays in the cache until the contraction reads it. No other stage may read the copy.

    Args:
        source: the stage that makes the padded copy.
        fused_stages: the contraction and its epilogue.
        later_stages: the stages after these.
        kernel: the kernel that the stages belong to.
        target: the CPU.
    """
    contraction = fused_stages[0]
    is_read_elsewhere = any(reads(other, source.buffer) for other in later_stages)
    if source.reduce or not contraction.reduce or not kernel.is_local(source.buffer) or is_read_elsewhere:
        return None
    if any(access.reads_of(stage, source.buffer) for stage in fused_stages[1:]):
        return None
    source_loads = access.reads_of(contraction, source.buffer)
    if (
        not source_loads
        or not _have_same_images(source, contraction)
        or not all(_is_own_image(read.indices[0], contraction) for read in source_loads)
    ):
        return None
    band = _choose_band(source, contraction, target)
    if band is None:
        return None
    images = Images(source, tuple(fused_stages), band)
    stage, copy = _stage_of_image(images, target)
    plan = _plan_without_image(stage, copy, target)
    return images if plan and vector_operand_bytes(stage, plan.vector) <= target.level2_bytes else None


def _have_same_images(source: Stage, contraction: Stage) -> bool:
    """Returns whether a copy and a contraction have the same number of images, their first axis."""
    if len(source.spatial) < 2 or len(contraction.spatial) < 2:
        return False
    return emit.static(emit.simplified(source.spatial[0].extent - contraction.spatial[0].extent)) == 0


def _is_own_image(image_index: ir.Expr, contraction: Stage) -> bool:
    """Returns whether an index is the contraction's own image."""
    return tvm_ffi.structural_equal(image_index, contraction.spatial[0].var)


def _choose_band(source: Stage, contraction: Stage, target: CpuTarget) -> Band | None:
    """Returns the largest band of rows whose padded copy fits the cache, with enough bands for all cores, or None.

    The filter must be the same for all bands of an image.
    """
    row_items = access.iteration_count(source.spatial[2:])
    images = source.spatial[0].size
    image_rows = contraction.spatial[1].size
    if row_items is None or source.spatial[1].size is None or image_rows is None:
        return None
    other_operands = [term for term in operands_of(contraction) if not term.source.same_as(source.buffer)]
    # The other operand must be the same for all bands of an image.
    if any(
        contraction.spatial[1].var in variables(access.flat_offset(term.source, list(term.indices)))
        for term in other_operands
    ):
        return None
    bands = list(_candidate_bands(source, contraction))
    allowed = bands if _is_worth_bands(source, contraction, target) else bands[:1]

    def fits_and_suffices(band: Band) -> bool:
        occupies_cores = images is None or images * image_rows // band.rows >= ENOUGH_TASKS_PER_CORE * target.cores
        return occupies_cores and band.height * row_items * source.item_bytes <= target.level2_bytes // 2

    best = next(filter(fits_and_suffices, allowed), None)
    fitting = [
        band
        for band in bands
        if band.height * row_items * source.item_bytes <= MAX_BAND_IN_LEVEL2_SIZES * target.level2_bytes
    ]
    return choice("band", best, lambda: [None, *fitting], lambda band: f"{band.rows} rows" if band else "none")


def _is_worth_bands(source: Stage, contraction: Stage, target: CpuTarget) -> bool:
    """Returns whether padding an image band by band is profitable, rather than in one copy.

    A depthwise convolution reads an image only once. Then one copy of the image, in an outer cache, costs less than
    copies of bands.

    Args:
        source: the padded copy that the contraction reads.
        contraction: the contraction.
        target: the CPU.
    """
    first_load, *_others = access.reads_of(contraction, source.buffer)
    is_reused = any(access.load_stride(first_load, axis.var) == 0 for axis in contraction.spatial if axis.size != 1)
    item_count = access.iteration_count(source.spatial)
    if is_reused or item_count is None:
        return True
    return item_count * source.item_bytes > OUTER_CACHES_IN_LEVEL2_SIZES * target.level2_bytes


def _candidate_bands(source: Stage, contraction: Stage) -> Iterator[Band]:
    """Yields the ways to split the results of an image into equal bands of rows, the largest bands first.

    The first is a single band. There are others only if each row of results reads the padded copy at a constant
    distance from the previous row, as in a convolution. Bands that would copy too many rows twice are left out.

    Args:
        source: the padded copy.
        contraction: the contraction that reads it.
    """
    row_axis = contraction.spatial[1]
    result_rows = row_axis.size or 1
    yield Band(rows=result_rows, height=source.spatial[1].size or 1, step=0)
    first_load, *other_loads = access.reads_of(contraction, source.buffer)
    row_index = first_load.indices[1]
    stride = access.stride(row_index, row_axis.var)
    rows_per_result = None if stride is None else emit.static(stride)
    if other_loads or rows_per_result is None or not _moves_with_rows(first_load, contraction):
        return
    last_taps = {axis.var: axis.extent - 1 for axis in contraction.reduce}
    last_row_read = emit.static(emit.simplified(substitute(row_index, {**last_taps, row_axis.var: emit.index(0)})))
    if last_row_read is None:
        return
    for rows in range(result_rows - 1, 0, -1):
        # A band reads from the first tap of its first row to the last tap of its last row.
        height = (rows - 1) * rows_per_result + last_row_read + 1
        step = rows * rows_per_result
        if result_rows % rows == 0 and height <= MAX_COPIES_PER_ROW * step:
            yield Band(rows, height, step)


def _moves_with_rows(read: TensorLoad, contraction: Stage) -> bool:
    """Returns whether a result at row ``y`` reads rows from ``y * stride`` on, by the second index of the load only."""
    row_var, row_index = contraction.spatial[1].var, read.indices[1]
    allowed_vars = {row_var, *(axis.var for axis in contraction.reduce)}
    start = substitute(row_index, {var: emit.index(0) for var in allowed_vars})
    is_in_other_index = any(row_var in variables(other) for other in [read.indices[0], *read.indices[2:]])
    return variables(row_index) <= allowed_vars and not is_in_other_index and emit.static(emit.simplified(start)) == 0


def _stage_of_image(images: Images, target: CpuTarget) -> tuple[Stage, Var]:
    """Returns the contraction for one band of one image, and the scratch buffer for the band's padded copy."""
    contraction = with_clips(images.fused_stages[0], [images.source], target)
    source = images.source
    extents = [emit.index(images.band.height), *(axis.extent for axis in source.spatial[2:])]
    copy = emit.scratch(padded_extents(extents, source.item_bytes), source.dtype, "image")
    value = replace_loads(contraction.value, source.buffer, lambda indices: emit.load(copy, indices[1:]))
    return merged_reduction(replace(contraction, value=value, spatial=_single_image(contraction, images.band))), copy


def _single_image(stage: Stage, band: Band) -> tuple[Axis, ...]:
    """Returns a stage's axes with one image, and the rows of one band."""
    image, row, *other_axes = stage.spatial
    return (Axis(image.var, emit.index(1)), Axis(row.var, emit.index(band.rows)), *other_axes)


def _plan_without_image(stage: Stage, copy: Var, target: CpuTarget) -> Plan | None:
    """Plans the contraction of one band (some rows) of one image, which reads the padded copy.

    Returns None if the plan packs an operand that differs between images.

    Args:
        stage: the contraction.
        copy: the buffer of the padded copy.
        target: the CPU.
    """
    plan = plan_reduction(stage, target)
    image = stage.spatial[0].var
    if plan is None or (plan.along_terms and combiner(stage) is None):
        return None
    # Operands are packed once, before the loop over images. There, the copy isn't filled yet.
    for packing in plan.packed:
        load = packing.load
        depends_on_image = image in variables(access.flat_offset(load.source, list(load.indices)))
        if depends_on_image or load.source.same_as(copy):
            return None
    return plan


def emit_images(images: Images, stored_buffers: set[Var], target: CpuTarget) -> Stmt:
    """Emits a contraction on padded images: packs its filter once, then loops over images and bands in parallel.

    Args:
        images: the contraction, and the padded copy of images.
        stored_buffers: the results that must be stored in memory.
        target: the CPU.
    """
    fused_stages = tuple(on_same_axes(images.fused_stages))
    images = replace(images, fused_stages=fused_stages)
    stored_stages = [stage for stage in fused_stages if stage.buffer in stored_buffers]

    def emit_nest(parallel: bool) -> Stmt:
        """Emits the complete loop nest, parallel or serial."""
        return _emit_images(images, stored_stages, target, parallel)

    return emit_parallel_or_serial(images.stages, target, emit_nest)


def _emit_images(images: Images, stores: Sequence[Stage], target: CpuTarget, parallel: bool) -> Stmt:
    """Emits the packing of the filter, then the loop over images and their bands (blocks of rows).

    Args:
        images: the contraction, and the padded copy of images.
        stores: the stages whose results are stored.
        target: the CPU.
        parallel: whether the loop is parallel.
    """
    stage, copy = _stage_of_image(images, target)
    plan = _plan_without_image(stage, copy, target)
    if plan is None:
        raise ValueError("emit_images: expected images that as_images accepted")
    contraction, packing = pack_operands(stage, plan, target, parallel)
    epilogue_stages = tuple(_on_single_image(store, images, contraction) for store in stores)
    # The plan's operands are packed already.
    planned = PlannedReduction(contraction, epilogue_stages, replace(plan, packed=()), combiner(contraction), target)

    def emit_band(indices: list[ir.Expr]) -> Stmt:
        """Emits one band of one image."""
        image_index, band = indices
        return _emit_band(images, planned, copy, image_index, band, target)

    image_count = images.source.spatial[0].extent
    band_count = int(images.fused_stages[0].spatial[1].extent) // images.band.rows
    return emit.sequence([*packing, emit.fused_loops([image_count, band_count], emit_band, parallel)])


def _on_single_image(store: Stage, images: Images, contraction: Stage) -> Stage:
    """Returns an epilogue stage restricted to one band; the contraction stands for itself."""
    return contraction if store is images.fused_stages[0] else replace(store, spatial=_single_image(store, images.band))


def _emit_band(
    images: Images, planned: PlannedReduction, copy: Var, image_index: ir.Expr, band: ir.Expr, target: CpuTarget
) -> Stmt:
    """Emits one band (some rows) of one image: fills the band's padded copy, then runs the convolution on the copy.

    Args:
        images: the convolution and the padded copy that it reads.
        planned: the convolution of one image, and its plan.
        copy: the buffer for the padded rows.
        image_index: the index of the image.
        band: the index of the band.
        target: the CPU.
    """
    source = images.source
    source_image, source_row, *inner_axes = source.spatial
    row_in_band = Var("row", "int64")
    padded_row = row_in_band + band * images.band.step
    value = substitute(source.value, {source_image.var: image_index, source_row.var: padded_row})
    band_axes = (Axis(row_in_band, emit.index(images.band.height)), *inner_axes)
    fill_stage = replace(with_value(source, value), buffer=copy, spatial=band_axes)
    ranges = [Range.whole(axis) for axis in planned.stage.reduce]
    result_row = images.fused_stages[0].spatial[1].var
    shifted = replace(planned, shifts={result_row: band * images.band.rows})
    fixed = {planned.stage.spatial[0].var: image_index}
    filled_copy = _fill_copy(fill_stage, target)
    return emit.sequence([emit.allocate(copy), filled_copy, emit_tasks(shifted, ranges, False, fixed)])


def _fill_copy(fill_stage: Stage, target: CpuTarget) -> Stmt:
    """Emits the padded copy of a band (some rows of an image), as a subroutine call if possible, else as loops.

    The subroutine copies bands of static size with rows, columns and channels. A call is less code to compile than
    loops with bounds checks.
    """
    extents = [axis.size for axis in fill_stage.spatial]
    static_extents = [extent for extent in extents if extent is not None]
    call = None
    if len(static_extents) == len(extents) == BAND_AXES:
        call = call_band_copy(
            lambda at: emit.load(fill_stage.buffer, at), fill_stage.at, static_extents, target.lanes(4)
        )
    return call or emit_elementwise([fill_stage], target, False)
