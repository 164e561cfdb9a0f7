"""Leaves out terms of a convolution that read its zero border: a tile sums over what is inside for any result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm import ir, tirx
from tvm.tirx import Var

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.elementwise import bound_of, comparisons
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Clip, Stage, is_choice, substitute, variables
from tvtf.passes.schedule.cpu.reduction import walk_as_one
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import row_sizes

# Share of all terms below which clipping isn't worth loops of extents known only at run time.
MIN_SAVED = 0.04
# LLVM unrolls loops over fewer terms of static extents.
MIN_TERMS = 128
# Below this, the clipped axis's loop is merged with the next one, and would be very short by itself.
MIN_INNER_TERMS = 16


def with_clips(stage: Stage, sources: Sequence[Stage], target: CpuTarget) -> Stage:
    """Returns the stage with the clips that a zero border added by one of `sources` makes, where they pay."""
    if not _is_sum_of_products(stage):
        return stage
    clips = [clip for source in sources for clip in _clips(stage, source) if clip is not None]
    tile = row_sizes(stage, target)
    return replace(stage, clips=tuple(clip for clip in clips if _pays(clip, stage, tile)))


def clips_of(stage: Stage, source: Stage) -> tuple[Clip, ...]:
    """Returns the clips for all terms that a source's border makes zero; none if one isn't of the known form."""
    clips = _clips(stage, source) if _is_sum_of_products(stage) else []
    known = [clip for clip in clips if clip is not None]
    return tuple(known) if len(known) == len(clips) else ()


def _is_sum_of_products(stage: Stage) -> bool:
    return isinstance(stage.value, tirx.Add) and isinstance(stage.value.b, tirx.Mul) and is_zero(stage.init)


def _clips(stage: Stage, source: Stage) -> list[Clip | None]:
    """Returns the clip for each border of a source, None for one that isn't of the known form."""
    source_loads = access.reads_of(stage, source.buffer)
    if len(source_loads) != 1 or not is_choice(source.value) or not is_zero(source.value.args[2]):
        return []
    inside = inside_of(source)
    if inside is None:
        return []
    places = zip(source_loads[0].indices, source.spatial, strict=True)
    return [_clip(place, stage, *inside[axis.var]) for place, axis in places if inside[axis.var] != (0, axis.size or 0)]


def inside_of(source: Stage) -> dict[Var, tuple[int, int]] | None:
    """Returns the range of each axis of a padded copy that isn't border; None if its test has another form."""
    test = source.value.args[0]
    tests = comparisons(test)
    # Only a conjunction of bounds is a range.
    if any(isinstance(node, (tirx.Or, tirx.Not)) for node in _nodes(test)):
        return None
    inside = {axis.var: (0, axis.size or 0) for axis in source.spatial}
    for each in tests:
        used = variables(each)
        (var,) = used if len(used) == 1 else (None,)
        cut = None if var is None or var not in inside else bound_of(each, var)
        if cut is None:
            return None
        low, high = inside[var]
        # The test changes at the cut, and holds either from there on or up to there.
        holds = bool(emit.static(emit.simplified(substitute(each, {var: index(cut)}))))
        inside[var] = (max(low, cut), high) if holds else (low, min(high, cut))
    return inside


def _nodes(test: ir.Expr) -> list[ir.Expr]:
    nodes: list[ir.Expr] = []
    structural_walk(test, (ir.Expr, nodes.append))
    return nodes


def _clip(place: ir.Expr, stage: Stage, low: int, high: int) -> Clip | None:
    """Returns the clip for an index that depends on one result axis and one term axis, else None.

    An index that grows with both has its terms inside in one range for each result, which moves with the result.
    """
    used = variables(place)
    results = [axis for axis in stage.spatial if axis.var in used]
    terms = [axis for axis in stage.reduce if axis.var in used]
    if len(results) != 1 or len(terms) != 1 or len(used) != 2 or not (results[0].size and terms[0].size):
        return None
    steps = [access.stride(place, axis.var) for axis in (results[0], terms[0])]
    by = [0 if step is None else static(step) or 0 for step in steps]
    first = static(emit.simplified(substitute(place, {var: index(0) for var in used})))
    if min(by) < 1 or first is None:
        return None
    return Clip(results[0], terms[0], by[0], by[1], low - first, high - first)


def _pays(clip: Clip, stage: Stage, tile: Mapping[Var, int]) -> bool:
    """Returns whether a clip saves enough terms, and its axis stays a loop of its own."""
    position = next(n for n, axis in enumerate(stage.reduce) if axis is clip.term)
    inner, count = stage.reduce[position + 1 :], access.points(stage.reduce)
    is_merged = bool(inner) and walk_as_one(stage, clip.term, inner[0]) and (inner[0].size or 0) < MIN_INNER_TERMS
    is_written_out = count is not None and count < MIN_TERMS
    return not is_merged and not is_written_out and clip.saved(tile.get(clip.result.var, 1)) >= MIN_SAVED
