"""Products of few tiles and long sums, cut along a summed axis: each part is a product, and a second kernel adds their results.

A tile is the work of one block: without this, the gradient of a convolution's filter would keep five of a GPU's hundred
multiprocessors busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads, substitute
from tvtf.passes.schedule.gpu.contraction import BLOCKS_THAT_FILL, blocks_of, emit_contraction, tile_for
from tvtf.passes.schedule.gpu.product import Contraction, as_contraction
from tvtf.passes.schedule.gpu.reduction import emit_kernel
from tvtf.passes.schedule.gpu.target import GpuTarget

FEWEST_STEPS = 6
"""Tiles of terms that are worth a block's start and a place for its results."""
FEWEST_PARTS = 4
"""That are worth a second kernel."""


def emit_product(
    product: Contraction, stores: Sequence[Stage], needed: set[Var], local: Sequence[Var], target: GpuTarget
) -> Stmt:
    """Write a product and the stages that finish its results as a kernel; two, where there are too few tiles."""
    cut = _cut(product, target)
    parts = as_contraction(cut) if cut is not None else None
    if cut is None or parts is None:
        return emit_contraction(product, stores, needed, local, target)
    last = _added(product.stage, cut)
    stores = [last if other is product.stage else other for other in stores]
    return emit.sequence(
        [
            emit.allocate(cut.buffer),
            emit_contraction(parts, [cut], {cut.buffer}, local, target),
            emit_kernel(last, stores, needed, target),
        ]
    )


def _cut(product: Contraction, target: GpuTarget) -> Stage | None:
    """The product's parts, numbered by a new first axis; None where there are blocks enough, or a sum can't be cut."""
    stage = product.stage
    axis = next((axis for axis in stage.reduce if axis.size != 1), None)
    count = 1 if axis is None else _count(product, axis, target)
    if axis is None or count == 1:
        return None
    length = int(axis.extent) // count
    part, inner = Axis(Var("part", "int64"), emit.index(count)), Axis(Var("term", "int64"), emit.index(length))
    partial = emit.scratch([part.extent, *(a.extent for a in stage.spatial)], stage.dtype, "partials")
    value = substitute(stage.value, {axis.var: part.var * length + inner.var})
    places = [part.var, *(a.var for a in stage.spatial)]
    value = replace_loads(value, stage.buffer, lambda _: emit.load(partial, places))
    terms = tuple(inner if other is axis else other for other in stage.reduce)
    return Stage(partial, (part, *stage.spatial), terms, stage.init, value)


def _count(product: Contraction, axis: Axis, target: GpuTarget) -> int:
    """The most parts of one length that are all worth it."""
    tile, blocks, terms = tile_for(product, target), blocks_of(product, target), emit.static(product.terms)
    if blocks is None or terms is None or axis.size is None or 2 * blocks > BLOCKS_THAT_FILL:
        return 1
    most = min(2 * BLOCKS_THAT_FILL // blocks, terms // (tile.terms * FEWEST_STEPS))
    whole = tile.terms if axis.size == terms else 1
    return next((n for n in range(most, FEWEST_PARTS - 1, -1) if axis.size % (n * whole) == 0), 1)


def _added(stage: Stage, parts: Stage) -> Stage:
    """The stage as a sum of what its parts give."""
    number = Axis(Var("part", "int64"), parts.spatial[0].extent)
    here = [axis.var for axis in stage.spatial]
    value = emit.load(stage.buffer, here) + emit.load(parts.buffer, [number.var, *here])
    return replace(stage, reduce=(number,), value=value)
