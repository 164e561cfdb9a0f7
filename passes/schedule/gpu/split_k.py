"""Splits products with few tiles and long sums along a summed axis; a second kernel adds the parts' results (split-K).

A tile is the work of one block: without this, the gradient of a convolution's filter would keep five of a GPU's hundred
multiprocessors busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads, substitute
from tvtf.passes.schedule.gpu.contraction import emit_contraction
from tvtf.passes.schedule.gpu.product import Contraction, as_contraction
from tvtf.passes.schedule.gpu.reduction import emit_kernel
from tvtf.passes.schedule.gpu.target import GpuTarget
from tvtf.passes.schedule.gpu.tiles import BLOCKS_THAT_FILL, blocks_of, tile_for

MIN_STEPS = 6
"""Minimum number of tiles of terms per part: fewer aren't worth the start of a block and the store of its results."""
MIN_PARTS = 4
"""Minimum number of parts that is worth a second kernel."""


def emit_product(
    product: Contraction, stores: Sequence[Stage], needed: set[Var], local: Sequence[Var], target: GpuTarget
) -> Stmt:
    """Emits a matrix product, and the elementwise stages that follow it, as one GPU kernel or as two (split-K).

    Each block computes one tile, so a product with few tiles would leave most of a GPU idle. Such a product is split
    along a summed axis, and a second kernel adds the results of the parts.

    Args:
        product: the matrix product.
        stores: the product's stage and the elementwise stages, in order.
        needed: the buffers to store.
        local: buffers that only this function uses.
        target: the GPU.
    """
    split = _split_stage(product, target)
    parts = as_contraction(split) if split is not None else None
    if split is None or parts is None:
        return emit_contraction(product, stores, needed, local, target)
    sum_of_parts = _sum_of_parts(product.stage, split)
    final_stores = [sum_of_parts if other is product.stage else other for other in stores]
    compute_parts = emit_contraction(parts, [split], {split.buffer}, local, target)
    add_parts = emit_kernel(sum_of_parts, final_stores, needed, target)
    return emit.sequence([emit.allocate(split.buffer), compute_parts, add_parts])


def _split_stage(product: Contraction, target: GpuTarget) -> Stage | None:
    """Returns the stage (loop nest) that computes a matrix product separately for equal parts of a summed axis.

    Returns None if there are enough blocks without a split, or if there is no axis to split.
    """
    stage = product.stage
    split_axis = next((axis for axis in stage.reduce if axis.size != 1), None)
    if split_axis is None:
        return None
    part_count = _part_count(product, split_axis, target)
    if part_count == 1:
        return None
    terms_per_part = int(split_axis.extent) // part_count
    part = Axis(Var("part", "int64"), emit.index(part_count))
    term = Axis(Var("term", "int64"), emit.index(terms_per_part))
    # The index of the part is a new first axis; each part has its own results.
    spatial = (part, *stage.spatial)
    reduce = tuple(term if axis is split_axis else axis for axis in stage.reduce)
    partials = emit.scratch([axis.extent for axis in spatial], stage.dtype, "partials")
    partial_sum = emit.load(partials, [axis.var for axis in spatial])
    value = substitute(stage.value, {split_axis.var: part.var * terms_per_part + term.var})
    value = replace_loads(value, stage.buffer, lambda _: partial_sum)
    return Stage(partials, spatial, reduce, stage.init, value)


def _part_count(product: Contraction, axis: Axis, target: GpuTarget) -> int:
    """Returns the number of equal parts to split a summed axis of a matrix product into; 1 if it isn't worth a split.

    The number is the largest divisor of the axis's size that keeps both limits: each part sums at least `MIN_STEPS`
    tiles of terms for each result, and all parts together have at most twice as many thread blocks as fill the GPU.

    Args:
        product: the matrix product.
        axis: the summed axis to split; the product may have others.
        target: the GPU.
    """
    tile = tile_for(product, target)
    blocks = blocks_of(product, target)
    terms = emit.static(product.terms)
    # The number of parts is chosen while compiling, so all sizes must be static.
    if blocks is None or terms is None or axis.size is None:
        return 1
    # With so many blocks, the second limit allows fewer than `MIN_PARTS` parts.
    if 2 * blocks > BLOCKS_THAT_FILL:
        return 1
    max_parts = min(2 * BLOCKS_THAT_FILL // blocks, terms // (tile.terms * MIN_STEPS))
    # A part of full tiles needs no bounds check. With several summed axes, a tile has terms of all of them, and doesn't
    # end where this axis ends.
    is_only_axis = axis.size == terms
    multiple = tile.terms if is_only_axis else 1
    for part_count in range(max_parts, MIN_PARTS - 1, -1):
        if axis.size % (part_count * multiple) == 0:
            return part_count
    return 1


def _sum_of_parts(stage: Stage, parts: Stage) -> Stage:
    """Returns the stage that computes a product's results as the sums of its parts' results."""
    part = Axis(Var("part", "int64"), parts.spatial[0].extent)
    spatial = [axis.var for axis in stage.spatial]
    value = emit.load(stage.buffer, spatial) + emit.load(parts.buffer, [part.var, *spatial])
    return replace(stage, reduce=(part,), value=value)
