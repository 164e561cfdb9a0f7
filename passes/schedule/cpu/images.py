"""Convolutions with borders: each image's padded copy is made where it is used, and stays in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir
from tvm.tirx import Stmt, Var

from . import access, emit
from .box import on_same_axes
from .combiner import combiner
from .elementwise import emit_elementwise
from .kernel import Axis, Kernel, Opaque, Stage, loads, reads, replace_loads, substitute, variables, with_value
from .pack import packed
from .plan import Plan, plan_reduction, vector_operand_bytes
from .reduction import merged_reduction
from .target import CpuTarget
from .tasks import Work, run_tasks
from .tile import Range
from .work import is_parallel

IMAGES_A_CORE = 4


@dataclass(frozen=True)
class Images:
    """An elementwise stage (the padded copy), the contraction that alone reads it, and that one's epilogue."""

    source: Stage
    rest: tuple[Stage, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.source, *self.rest)


def as_images(
    source: Stage, rest: Sequence[Stage], others: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget
) -> Images | None:
    """The two together, where each image needs only its own part of the source and there are images enough."""
    first = rest[0]
    read_elsewhere = any(reads(other, source.buffer) for other in others)
    if source.reduce or not first.reduce or not kernel.is_local(source.buffer) or read_elsewhere:
        return None
    if any(access.reads_of(stage, source.buffer) for stage in rest[1:]):
        return None
    own = access.reads_of(first, source.buffer)
    if not own or not _same_images(source, first) or not all(_own_image(read.indices[0], first) for read in own):
        return None
    images = Images(source, tuple(rest))
    if not _fits(source, target):
        return None
    stage = _stage_of_image(images)
    plan = _plan(stage, target)
    return images if plan and vector_operand_bytes(stage, plan.vector) <= target.level2_bytes else None


def _same_images(source: Stage, first: Stage) -> bool:
    if len(source.spatial) < 2 or len(first.spatial) < 2:
        return False
    return emit.static(emit.simplified(source.spatial[0].extent - first.spatial[0].extent)) == 0


def _own_image(place: ir.Expr, first: Stage) -> bool:
    return tvm_ffi.structural_equal(place, first.spatial[0].var)


def _fits(source: Stage, target: CpuTarget) -> bool:
    image, count = access.points(source.spatial[1:]), source.spatial[0].size
    enough = count is None or count >= IMAGES_A_CORE * target.cores
    return enough and image is not None and image * source.item_bytes <= target.level2_bytes // 2


def _stage_of_image(images: Images) -> Stage:
    """The contraction for one image, reading a copy without the image axis."""
    first, source = images.rest[0], images.source
    copy = emit.scratch([axis.extent for axis in source.spatial[1:]], source.dtype, "image")
    value = replace_loads(first.value, source.buffer, lambda indices: emit.load(copy, indices[1:]))
    return merged_reduction(replace(first, value=value, spatial=_single_image(first)))


def _single_image(stage: Stage) -> tuple[Axis, ...]:
    return (Axis(stage.spatial[0].var, emit.index(1)), *stage.spatial[1:])


def _plan(stage: Stage, target: CpuTarget) -> Plan | None:
    """The plan for one image; what it packs must be the same for all images."""
    plan, image = plan_reduction(stage, target), stage.spatial[0].var
    if plan is None or (plan.along_rows and combiner(stage) is None):
        return None
    copies = [load.source for load in loads(stage.value) if load.source.name == "image"]
    for packing in plan.packed:
        if image in variables(access.flat_offset(packing.load.source, list(packing.load.indices))):
            return None
        if any(packing.load.source.same_as(copy) for copy in copies):
            return None
    return plan


def emit_images(images: Images, needed: set[Var], target: CpuTarget) -> Stmt:
    """Pack the filter once, then one parallel loop over the images."""
    aligned = on_same_axes(images.rest)
    images = Images(images.source, tuple(aligned))
    stores = [other for other in aligned if other.buffer in needed]
    return is_parallel(images.stages, target, lambda parallel: _run(images, stores, target, parallel))


def _run(images: Images, stores: Sequence[Stage], target: CpuTarget, parallel: bool) -> Stmt:
    stage = _stage_of_image(images)
    copy = next(load.source for load in loads(stage.value) if load.source.name == "image")
    plan = _plan(stage, target)
    if plan is None:
        raise ValueError("emit_images: expected images that as_images accepted")
    inner, packing = packed(stage, plan, target, parallel)
    finished = tuple(_finished(other, images.rest[0], inner) for other in stores)
    work = Work(inner, finished, replace(plan, packed=()), combiner(inner), target)
    count = images.source.spatial[0].extent
    nest = emit.fused([count], lambda places: _image(images, work, copy, places[0], target), parallel)
    return emit.sequence([*packing, nest])


def _finished(store: Stage, first: Stage, inner: Stage) -> Stage:
    return inner if store is first else replace(store, spatial=_single_image(store))


def _image(images: Images, work: Work, copy: Var, number: ir.Expr, target: CpuTarget) -> Stmt:
    source = images.source
    value = substitute(source.value, {source.spatial[0].var: number})
    fill = replace(with_value(source, value), buffer=copy, spatial=source.spatial[1:])
    ranges = [Range.whole(axis) for axis in work.stage.reduce]
    return emit.sequence([
        emit.allocate(copy),
        emit_elementwise([fill], target, False),
        run_tasks(work, ranges, False, {work.stage.spatial[0].var: number}),
    ])  # fmt: skip
