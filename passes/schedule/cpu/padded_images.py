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
from tvtf.passes.schedule.cpu.band_copy import BAND_AXES, called_copy
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
from tvtf.passes.schedule.cpu.loop_box import on_same_axes
from tvtf.passes.schedule.cpu.pack import packed
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import Work, run_tasks
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import Plan, plan_reduction
from tvtf.passes.schedule.cpu.vector_axis import terms_of, vector_operand_bytes

TASKS_THAT_SUFFICE = 4
# Depthwise convolutions keep one padded copy of up to this many level-2 caches, which outer caches hold: bands were
# slower.
LEVELS2_OF_OTHER_CACHES = 16
# Rows at the edges of bands are copied twice; bands with more copies per row aren't considered.
MAX_COPIES_OF_A_ROW = 2
MAX_LEVELS2_OF_A_BAND = 2


@dataclass(frozen=True)
class Band:
    """`rows` rows of results, which read `height` rows of the source; the next band starts `step` rows later."""

    rows: int
    height: int
    step: int


@dataclass(frozen=True)
class Images:
    """An elementwise stage (the padded copy), the contraction that is its only reader, and that one's epilogue."""

    source: Stage
    rest: tuple[Stage, ...]
    band: Band

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.source, *self.rest)


def as_images(
    source: Stage, rest: Sequence[Stage], later: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget
) -> Images | None:
    """Returns copy and contraction together, if images need only their own part of the source and are enough."""
    first = rest[0]
    read_elsewhere = any(reads(other, source.buffer) for other in later)
    if source.reduce or not first.reduce or not kernel.is_local(source.buffer) or read_elsewhere:
        return None
    if any(access.reads_of(stage, source.buffer) for stage in rest[1:]):
        return None
    source_loads = access.reads_of(first, source.buffer)
    if (
        not source_loads
        or not _same_images(source, first)
        or not all(_own_image(read.indices[0], first) for read in source_loads)
    ):
        return None
    band = _band(source, first, target)
    if band is None:
        return None
    images = Images(source, tuple(rest), band)
    stage, copy = _stage_of_image(images, target)
    plan = _plan(stage, copy, target)
    return images if plan and vector_operand_bytes(stage, plan.vector) <= target.level2_bytes else None


def _same_images(source: Stage, first: Stage) -> bool:
    if len(source.spatial) < 2 or len(first.spatial) < 2:
        return False
    return emit.static(emit.simplified(source.spatial[0].extent - first.spatial[0].extent)) == 0


def _own_image(place: ir.Expr, first: Stage) -> bool:
    return tvm_ffi.structural_equal(place, first.spatial[0].var)


def _band(source: Stage, first: Stage, target: CpuTarget) -> Band | None:
    """Returns the largest band (or a whole image) whose copy fits the cache and that gives each core enough tasks."""
    row, count = access.points(source.spatial[2:]), source.spatial[0].size
    image_rows = first.spatial[1].size
    if row is None or source.spatial[1].size is None or image_rows is None:
        return None
    rest = [term for term in terms_of(first) if not term.source.same_as(source.buffer)]
    # The other operand must be the same for all bands of an image.
    if any(first.spatial[1].var in variables(access.flat_offset(term.source, list(term.indices))) for term in rest):
        return None
    cuts = list(_bands(source, first))
    usual = cuts if _is_worth_bands(source, first, target) else cuts[:1]

    def is_good(band: Band) -> bool:
        enough = count is None or count * image_rows // band.rows >= TASKS_THAT_SUFFICE * target.cores
        return enough and band.height * row * source.item_bytes <= target.level2_bytes // 2

    best = next(filter(is_good, usual), None)
    near = [
        band for band in cuts if band.height * row * source.item_bytes <= MAX_LEVELS2_OF_A_BAND * target.level2_bytes
    ]
    return choice("band", best, lambda: [None, *near], lambda band: f"{band.rows} rows" if band else "none")


def _is_worth_bands(source: Stage, first: Stage, target: CpuTarget) -> bool:
    """Returns whether bands pay. Depthwise results read an image once, so band copies cost more than one in outer caches."""
    (read, *_others) = access.reads_of(first, source.buffer)
    is_used_again = any(access.load_stride(read, axis.var) == 0 for axis in first.spatial if axis.size != 1)
    size = access.points(source.spatial)
    return is_used_again or size is None or size * source.item_bytes > LEVELS2_OF_OTHER_CACHES * target.level2_bytes


def _bands(source: Stage, first: Stage) -> Iterator[Band]:
    """Yields all cuts of an image into equal bands, from one band on."""
    down, one_band = first.spatial[1], Band(first.spatial[1].size or 1, source.spatial[1].size or 1, 0)
    yield one_band
    source_loads = access.reads_of(first, source.buffer)
    place = source_loads[0].indices[1]
    step = access.stride(place, down.var)
    by = None if step is None else emit.static(step)
    if len(source_loads) != 1 or by is None or not _moves_with_rows(source_loads[0], first):
        return
    last = {axis.var: axis.extent - 1 for axis in first.reduce}
    reach = emit.static(emit.simplified(substitute(place, {**last, down.var: emit.index(0)})))
    for rows in range(one_band.rows - 1, 0, -1):
        height = (rows - 1) * by + (reach or 0) + 1
        if reach is not None and one_band.rows % rows == 0 and height <= MAX_COPIES_OF_A_ROW * rows * by:
            yield Band(rows, height, rows * by)


def _moves_with_rows(read: TensorLoad, first: Stage) -> bool:
    """Returns whether a result's rows start at its own row times the stride, and depend on nothing else but the window."""
    down, place = first.spatial[1].var, read.indices[1]
    known = {down, *(axis.var for axis in first.reduce)}
    start = substitute(place, {var: emit.index(0) for var in known})
    elsewhere = any(down in variables(other) for other in [read.indices[0], *read.indices[2:]])
    return variables(place) <= known and not elsewhere and emit.static(emit.simplified(start)) == 0


def _stage_of_image(images: Images, target: CpuTarget) -> tuple[Stage, Var]:
    """Returns the contraction for one image, reading a copy without the image axis, and that copy."""
    first, source = with_clips(images.rest[0], [images.source], target), images.source
    extents = [emit.index(images.band.height), *(axis.extent for axis in source.spatial[2:])]
    copy = emit.scratch(padded_extents(extents, source.item_bytes), source.dtype, "image")
    value = replace_loads(first.value, source.buffer, lambda indices: emit.load(copy, indices[1:]))
    return merged_reduction(replace(first, value=value, spatial=_single_image(first, images.band))), copy


def _single_image(stage: Stage, band: Band) -> tuple[Axis, ...]:
    image, down, *rest = stage.spatial
    return (Axis(image.var, emit.index(1)), Axis(down.var, emit.index(band.rows)), *rest)


def _plan(stage: Stage, copy: Var, target: CpuTarget) -> Plan | None:
    """Returns the plan for one image; None if it packs an operand that differs between images."""
    plan, image = plan_reduction(stage, target), stage.spatial[0].var
    if plan is None or (plan.along_rows and combiner(stage) is None):
        return None
    # Operands are packed once, in front of the loop over images, where the copy isn't filled yet.
    for packing in plan.packed:
        if image in variables(access.flat_offset(packing.load.source, list(packing.load.indices))):
            return None
        if packing.load.source.same_as(copy):
            return None
    return plan


def emit_images(images: Images, needed: set[Var], target: CpuTarget) -> Stmt:
    """Packs the filter once, then writes one parallel loop over the images."""
    aligned = on_same_axes(images.rest)
    images = replace(images, rest=tuple(aligned))
    stores = [other for other in aligned if other.buffer in needed]
    return is_parallel(images.stages, target, lambda parallel: _run(images, stores, target, parallel))


def _run(images: Images, stores: Sequence[Stage], target: CpuTarget, parallel: bool) -> Stmt:
    """Writes the packing, then the loop over images and bands."""
    stage, copy = _stage_of_image(images, target)
    plan = _plan(stage, copy, target)
    if plan is None:
        raise ValueError("emit_images: expected images that as_images accepted")
    inner, packing = packed(stage, plan, target, parallel)
    finished = tuple(_finished(other, images, inner) for other in stores)
    work = Work(inner, finished, replace(plan, packed=()), combiner(inner), target)
    count = images.source.spatial[0].extent
    bands = int(images.rest[0].spatial[1].extent) // images.band.rows
    nest = emit.fused([count, bands], lambda places: _image(images, work, copy, places[0], places[1], target), parallel)
    return emit.sequence([*packing, nest])


def _finished(store: Stage, images: Images, inner: Stage) -> Stage:
    return inner if store is images.rest[0] else replace(store, spatial=_single_image(store, images.band))


def _image(images: Images, work: Work, copy: Var, number: ir.Expr, band: ir.Expr, target: CpuTarget) -> Stmt:
    """Writes one band of one image: fill the padded copy, then run the contraction on it."""
    source, row, down = images.source, Var("row", "int64"), images.rest[0].spatial[1].var
    image, place = (axis.var for axis in source.spatial[:2])
    value = substitute(source.value, {image: number, place: row + band * images.band.step})
    spatial = (Axis(row, emit.index(images.band.height)), *source.spatial[2:])
    fill = replace(with_value(source, value), buffer=copy, spatial=spatial)
    ranges = [Range.whole(axis) for axis in work.stage.reduce]
    work = replace(work, moved={down: band * images.band.rows})
    return emit.sequence([
        emit.allocate(copy),
        _filled(fill, target),
        run_tasks(work, ranges, False, {work.stage.spatial[0].var: number}),
    ])  # fmt: skip


def _filled(fill: Stage, target: CpuTarget) -> Stmt:
    """Fills a padded copy: by a call if it is a band of rows, columns and channels."""
    extents = [axis.size for axis in fill.spatial]
    known = [extent for extent in extents if extent is not None]
    called = None
    if len(known) == len(extents) == BAND_AXES:
        called = called_copy(lambda at: emit.load(fill.buffer, at), fill.at, known, target.lanes(4))
    return called or emit_elementwise([fill], target, False)
