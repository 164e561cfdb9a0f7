"""Leaves out terms of a convolution that read its zero border, unless a result of the same tile needs them."""

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
from tvtf.passes.schedule.cpu.kernel import Axis, Clip, Stage, is_choice, substitute, variables
from tvtf.passes.schedule.cpu.reduction import can_merge
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import row_sizes

# Share of all terms below which clipping isn't worth loops of extents known only at run time.
MIN_SAVED_SHARE = 0.04
# LLVM unrolls loops over fewer terms of static extents.
MIN_TERMS = 128
# Below this, the clipped axis's loop is merged with the next one, and would be very short by itself.
MIN_INNER_TERMS = 16


def with_clips(stage: Stage, sources: Sequence[Stage], target: CpuTarget) -> Stage:
    """Adds clips to a convolution: ranges of terms that leave out the products with the zero border.

    Clips that would save too few terms are left out.

    Args:
        stage: the convolution.
        sources: the stages that may add a zero border to an operand.
        target: the CPU.
    """
    if not _is_sum_of_products(stage):
        return stage
    clips = [clip for source in sources for clip in _clips_of_borders(stage, source) if clip is not None]
    tile_sizes = row_sizes(stage, target)
    worthwhile = [clip for clip in clips if _is_worthwhile(clip, stage, tile_sizes)]
    return replace(stage, clips=tuple(worthwhile))


def all_clips(stage: Stage, source: Stage) -> tuple[Clip, ...]:
    """Returns the clips that leave out every term that reads the zero border of the padded copy `source`.

    The tuple is empty if a border can't be expressed as a clip.
    """
    clips = _clips_of_borders(stage, source) if _is_sum_of_products(stage) else []
    known = [clip for clip in clips if clip is not None]
    return tuple(known) if len(known) == len(clips) else ()


def _is_sum_of_products(stage: Stage) -> bool:
    """Returns whether a stage adds up products, starting from 0."""
    return isinstance(stage.value, tirx.Add) and isinstance(stage.value.b, tirx.Mul) and is_zero(stage.init)


def _clips_of_borders(stage: Stage, source: Stage) -> list[Clip | None]:
    """Returns a clip (a range of nonzero terms) for each axis along which a padded copy has a zero border.

    The clip is None for an axis whose border can't be expressed as a range of terms. The list is empty if the stage
    doesn't read a zero-padded copy exactly once.

    Args:
        stage: the convolution.
        source: the stage that makes the padded copy.
    """
    copy_loads = access.reads_of(stage, source.buffer)
    # A padded copy has the value `if_then_else(is_inside, image, 0)`.
    if len(copy_loads) != 1 or not is_choice(source.value) or not is_zero(source.value.args[2]):
        return []
    inside = inside_ranges(source)
    if inside is None:
        return []
    clips: list[Clip | None] = []
    for copy_index, axis in zip(copy_loads[0].indices, source.spatial, strict=True):
        low, high = inside[axis.var]
        has_border = (low, high) != (0, axis.size or 0)
        if has_border:
            clips.append(_clip_of_index(copy_index, stage, low, high))
    return clips


def inside_ranges(source: Stage) -> dict[Var, tuple[int, int]] | None:
    """Returns the range (first, stop) of each axis of a padded copy that lies inside the border.

    Returns None if the copy's condition isn't a conjunction of bounds on single axes.
    """
    # The copy's value is `if_then_else(condition, image, border)`.
    condition, _image, _border = source.value.args
    # Only a conjunction of bounds is a range.
    if any(isinstance(node, (tirx.Or, tirx.Not)) for node in _subexpressions(condition)):
        return None
    inside = {axis.var: (0, axis.size or 0) for axis in source.spatial}
    for comparison in comparisons(condition):
        used_vars = variables(comparison)
        if len(used_vars) != 1:
            return None
        (var,) = used_vars
        bound = bound_of(comparison, var) if var in inside else None
        if bound is None:
            return None
        low, high = inside[var]
        # The outcome of the comparison changes at the bound. If it holds there, the bound is the first index inside,
        # otherwise the first index after the range.
        outcome_at_bound = emit.simplified(substitute(comparison, {var: index(bound)}))
        holds_at_bound = bool(emit.static(outcome_at_bound))
        inside[var] = (max(low, bound), high) if holds_at_bound else (low, min(high, bound))
    return inside


def _subexpressions(value: ir.Expr) -> list[ir.Expr]:
    """Returns all expressions that an expression contains."""
    nodes: list[ir.Expr] = []
    structural_walk(value, (ir.Expr, nodes.append))
    return nodes


def _clip_of_index(image_index: ir.Expr, stage: Stage, low: int, high: int) -> Clip | None:
    """Derives a clip (a range of nonzero terms) from an index such as `row + tap`; returns None for another index.

    The index must depend on one result axis and one reduction axis, and grow with both. The terms inside are then one
    range, which moves with the result.

    Args:
        image_index: an index of the image that the stage reads.
        stage: the convolution.
        low, high: the first index inside the image, and the first one after it.
    """
    used_vars = variables(image_index)
    result_axes = [axis for axis in stage.spatial if axis.var in used_vars]
    term_axes = [axis for axis in stage.reduce if axis.var in used_vars]
    if len(result_axes) != 1 or len(term_axes) != 1 or len(used_vars) != 2:
        return None
    result, term = result_axes[0], term_axes[0]
    if not result.size or not term.size:
        return None
    by_result = _static_stride(image_index, result)
    by_term = _static_stride(image_index, term)
    zeros = {var: index(0) for var in used_vars}
    constant = static(emit.simplified(substitute(image_index, zeros)))
    if by_result < 1 or by_term < 1 or constant is None:
        return None
    # The index is `result * by_result + term * by_term + constant`.
    return Clip(result, term, by_result, by_term, low - constant, high - constant)


def _static_stride(expr: ir.Expr, axis: Axis) -> int:
    """Returns by how much an expression grows from one index of an axis to the next, or 0 if that isn't constant."""
    stride = access.stride(expr, axis.var)
    return 0 if stride is None else static(stride) or 0


def _is_worthwhile(clip: Clip, stage: Stage, tile_sizes: Mapping[Var, int]) -> bool:
    """Returns whether a clip (a range of nonzero terms) of a convolution makes it faster.

    The clip must save enough terms. It isn't profitable if the clipped axis would otherwise be merged with a short next
    axis, or unrolled.

    Args:
        clip: the clip.
        stage: the convolution.
        tile_sizes: the results of a register tile along each axis. They share a clip.
    """
    position = next(position for position, axis in enumerate(stage.reduce) if axis is clip.term)
    inner_axes = stage.reduce[position + 1 :]
    if inner_axes and can_merge(stage, clip.term, inner_axes[0]):
        is_short = (inner_axes[0].size or 0) < MIN_INNER_TERMS
        if is_short:
            return False  # a single loop over both axes is faster
    term_count = access.iteration_count(stage.reduce)
    if term_count is not None and term_count < MIN_TERMS:
        return False  # the sum is unrolled, so that there is no loop to shorten
    results_per_tile = tile_sizes.get(clip.result.var, 1)
    return clip.saved_share(results_per_tile) >= MIN_SAVED_SHARE
