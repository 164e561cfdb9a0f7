"""Windows without reuse (depthwise convolutions, pools, their gradients): reads straight from the image.

Border values come from a padded copy, which is never made, or are left out by a condition in the reduction. Rows of a
window outside the image are left out of the sum. Along the last axis of windows, tiles over the edge have static
positions, so that their bounds checks are decided while compiling. A padded copy of a depthwise convolution's input
took longer than its sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import combiner, is_zero, reduced_term
from tvtf.passes.schedule.cpu.elementwise import COMPARISONS
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import (
    Axis,
    AxisIndices,
    Kernel,
    Opaque,
    Stage,
    by_axis,
    has_calls,
    is_choice,
    reads,
    replace_loads,
    substitute,
    variables,
    with_value,
)
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.merged_loops import on_same_axes
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.reduction import without_unit_axes
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import emit_tiles_along_axis
from tvtf.passes.schedule.cpu.tile import Epilogue, Range, Tile
from tvtf.passes.schedule.cpu.vector_axis import operands_of

MAX_UNROLLED_TERMS = 512
# With more results in registers LLVM loads terms long before their use, and spills them; tiles of 28 results did.
REGISTER_DIVISOR = 2
# Each selected term takes a mask, too, and AVX-512 has seven. Where a term is selected by another operand, tiles along
# channels (full cache lines) take two thirds of the time of tiles along windows.
REGISTER_DIVISOR_OF_SELECTIONS = 8
# Tuning tries register tiles of these heights and numbers of vectors besides the default.
TRIED_HEIGHTS = (1, 2, 4, 6, 7, 8, 10, 12, 14, 16, 28)
TRIED_VECTORS = (1, 2, 3, 4)


@dataclass(frozen=True)
class SlidingAxis:
    """A result axis along which a window slides: at `position`, `tap` reads index `position * stride + tap * dilation`.

    Indices in [low, high) lie inside the source, others in its border. Without `tap`, the window has one tap.
    """

    position: Axis
    tap: Axis | None
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def taps(self) -> int:
        """The number of taps of the window along this axis (the kernel size)."""
        return 1 if self.tap is None else self.tap.size or 1

    def inner(self) -> tuple[int, int]:
        """Returns the range (first, stop) of window positions at which all taps read inside the source."""
        size = self.position.size or 0
        reach = (self.taps - 1) * self.dilation
        first = emit.ceil_div(self.low, self.stride)
        return min(size, max(0, first)), max(0, min(size, (self.high - 1 - reach) // self.stride + 1))

    @property
    def reaches_no_border(self) -> bool:
        """Whether all taps read inside the source at all window positions."""
        return self.inner() == (0, self.position.size)

    def range(self, position: ir.Expr) -> Range:
        """Returns the range of window taps that read inside the source, for the window at `position`.

        A loop over this range needs no bounds checks. Both ends are clamped to the window.
        """
        if self.tap is None:
            raise ValueError("SlidingAxis.range: expected an axis with taps")
        if self.reaches_no_border:
            return Range.whole(self.tap)
        first = emit.ceil_div(self.low - position * self.stride, self.dilation)
        stop = emit.ceil_div(self.high - position * self.stride, self.dilation)
        start = tirx.min(tirx.max(first, index(0)), index(self.taps))
        extent = tirx.max(tirx.min(stop, index(self.taps)) - start, index(0))
        return Range(self.tap, emit.simplified(start), emit.simplified(extent))


@dataclass(frozen=True)
class Windows:
    """A reduction over sliding windows, such as a pool or depthwise convolution, with its epilogue in `fused_stages`.

    `source` is the padded copy (never made) that only it reads, if any; `bare` is the reduction as it reads away from
    the border, straight from the image.
    """

    source: Stage | None
    fused_stages: tuple[Stage, ...]
    bare: Stage
    sliding_axes: tuple[SlidingAxis, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.fused_stages if self.source is None else (self.source, *self.fused_stages)


# -- recognition


def as_windows(
    source: Stage | None,
    fused_stages: Sequence[Stage],
    later_stages: Sequence[Stage | Opaque],
    kernel: Kernel,
    target: CpuTarget,
) -> Windows | None:
    """Describes a reduction over sliding windows, such as a pool, together with the stages that finish each result.

    Returns None for another reduction. The loops skip taps in the padding, so that the padded copy isn't needed.

    Args:
        source: the padded copy that the reduction may read. No other stage may read it.
        fused_stages: the reduction and its epilogue.
        later_stages: the stages after these.
        kernel: the kernel that the stages belong to.
        target: the CPU.
    """
    windows = windows_of(None, fused_stages[0], target)
    if windows is None and source is not None and kernel.is_local(source.buffer):
        is_read_elsewhere = any(reads(other, source.buffer) for other in (*fused_stages[1:], *later_stages))
        windows = None if is_read_elsewhere else windows_of(source, fused_stages[0], target)
    return None if windows is None else replace(windows, fused_stages=(*windows.fused_stages, *fused_stages[1:]))


def windows_at(stages: Sequence[Stage | Opaque], position: int, target: CpuTarget) -> int:
    """Returns how many stages, starting at a position, form a reduction over sliding windows, such as a pool.

    Args:
        stages: the stages (loop nests) of the kernel.
        position: the position of the first stage.
        target: the CPU.

    Returns:
        1 if the stage at `position` is such a reduction; 2 if it is the padded copy of an image, and the next stage is
        a reduction over windows of this copy; 0 if no such reduction begins here.
    """
    first = stages[position]
    if not isinstance(first, Stage):
        return 0
    if windows_of(None, first, target) is not None:
        return 1
    second = stages[position + 1] if position + 1 < len(stages) else None
    return 2 if isinstance(second, Stage) and windows_of(first, second, target) is not None else 0


def windows_of(source: Stage | None, reduction: Stage, target: CpuTarget) -> Windows | None:
    """Describes a reduction as sliding windows if each term is read for one result only; else returns None.

    For terms that several results read, a register tile is faster.

    Args:
        source: the padded copy that the reduction reads, if there is one. It then contains the bounds checks.
        reduction: the reduction.
        target: the CPU.
    """
    windowed = without_unit_axes(reduction)
    # The result axes are the image, one or more axes along which windows slide, and the channel.
    if not windowed.reduce or len(windowed.spatial) < 3:
        return None
    bounds_and_bare_reduction = _without_own_bounds(windowed) if source is None else _without_copy(source, windowed)
    if bounds_and_bare_reduction is None:
        return None
    bounds, bare = bounds_and_bare_reduction
    sliding_axes = _sliding_axes(bounds, windowed)
    if not sliding_axes:
        return None
    windows = Windows(source, (windowed,), bare, sliding_axes)
    has_tile = _choose_tile(windows, target) is not None
    return windows if has_tile else None


def _without_own_bounds(reduction: Stage) -> tuple[list[ir.Expr], Stage] | None:
    """Splits a reduction that skips the terms beyond a border into its bounds checks and the reduction without them.

    A reduction without bounds checks is accepted only if its results have smaller elements than its operands, since
    other schedules are slow for it. Returns None for other reductions.
    """
    term = reduced_term(reduction)
    if term is None or combiner(reduction) is None:
        return None
    if any(_is_reused(load, reduction) for load in operands_of(reduction)):
        return None
    # The term of a reduction with bounds checks is `if_then_else(is_inside, value, init)`.
    if is_choice(term) and tvm_ffi.structural_equal(term.args[2], reduction.init):
        is_inside, value, _init = term.args
        bounds = _conjunction(is_inside)
        if bounds is None:
            return None
        return bounds, with_value(reduction, _replace_equal(reduction.value, term, value))
    return ([], reduction) if _is_narrower(reduction) and _has_windows(reduction) else None


def _is_narrower(reduction: Stage) -> bool:
    """Returns whether results have smaller elements than operands.

    Other plans would load a vector of an operand for each, shorter, vector of results.
    """
    return reduction.item_bytes < max(map(_item_bytes, reduction.loads))


def _has_windows(reduction: Stage) -> bool:
    """Returns whether each reduction axis is a tap of a sliding window: some index is a sum such as `row + tap`."""
    position_vars = {axis.var for axis in reduction.spatial[1:-1]}
    # The variables in all indices that depend on the position of a window.
    window_vars: set[Var] = set()
    for load in operands_of(reduction):
        for index_value in load.indices:
            index_vars = variables(index_value)
            if index_vars & position_vars:
                window_vars |= index_vars
    return all(axis.var in window_vars for axis in reduction.reduce)


def _without_copy(source: Stage, reduction: Stage) -> tuple[list[ir.Expr], Stage] | None:
    """Returns the bounds checks of a padded copy, and the reduction reading the image itself instead of the copy.

    The copy is then not needed. Its value must be ``if_then_else(is_inside, image, border)`` with a border that changes
    no result, and the reduction must read each of its elements for one result, by a single load. Otherwise returns
    None.
    """
    loads_of_copy = access.reads_of(reduction, source.buffer)
    if source.reduce or not loads_of_copy or not is_choice(source.value):
        return None
    load = loads_of_copy[0]
    is_same_index = all(tvm_ffi.structural_equal(load, other) for other in loads_of_copy)
    if not is_same_index or _is_reused(load, reduction):
        return None
    is_inside, image, border = source.value.args
    # If the image were an expression instead of a load, it would be computed again for each window.
    if not _is_neutral(border, reduction) or not isinstance(image, TensorLoad):
        return None
    is_inside_at_load = with_value(source, is_inside).at(list(load.indices))
    bounds = _conjunction(is_inside_at_load)
    if bounds is None:
        return None
    without_border = with_value(source, image)
    return bounds, with_value(reduction, replace_loads(reduction.value, source.buffer, without_border.at))


def _is_reused(load: TensorLoad, reduction: Stage) -> bool:
    """Returns whether several results of a reduction read the same element by a load."""
    return any(axis.size != 1 and access.load_stride(load, axis.var) == 0 for axis in reduction.spatial)


def _is_neutral(border_value: ir.Expr, reduction: Stage) -> bool:
    """Returns whether border values change no result: the least value for a maximum, zeros for a sum or a factor."""
    term = reduced_term(reduction)
    if combiner(reduction) is None or not tvm_ffi.structural_equal(border_value, reduction.init):
        return False
    is_product = isinstance(reduction.value, tirx.Add) and isinstance(term, tirx.Mul) and is_zero(reduction.init)
    return isinstance(term, TensorLoad) or is_product


def _conjunction(condition: ir.Expr) -> list[ir.Expr] | None:
    """Splits a condition at its `and`s into comparisons; returns None if it contains anything else."""
    if isinstance(condition, tirx.And):
        left, right = _conjunction(condition.a), _conjunction(condition.b)
        return None if left is None or right is None else left + right
    return [condition] if isinstance(condition, COMPARISONS) else None


def _replace_equal(value: ir.Expr, old: ir.Expr, new: ir.Expr) -> ir.Expr:
    """Replaces all expressions structurally equal to `old` in a value by `new`."""
    return structural_map(value, (ir.Expr, lambda node: new if tvm_ffi.structural_equal(node, old) else node))


def _sliding_axes(bounds: Sequence[ir.Expr], reduction: Stage) -> tuple[SlidingAxis, ...]:
    """Describes how windows slide along each of their axes: their stride, dilation and bounds.

    Windows slide along all result axes but the first and the last. The result is empty if a size isn't static, if two
    axes have the same taps, or if a comparison in `bounds` isn't a bound of one axis.
    """
    position_axes = reduction.spatial[1:-1]
    if any(axis.size is None for axis in (*position_axes, reduction.spatial[-1], *reduction.reduce)):
        return ()
    sliding_axes: list[SlidingAxis] = []
    used_bounds = 0
    for position in position_axes:
        bounds_of_axis = [bound for bound in bounds if position.var in variables(bound)]
        used_bounds += len(bounds_of_axis)
        sliding_axis = _sliding_axis(position, bounds_of_axis, reduction.reduce)
        if sliding_axis is None:
            return ()
        sliding_axes.append(sliding_axis)
    tap_vars = [axis.tap.var for axis in sliding_axes if axis.tap is not None]
    has_distinct_taps = len(set(tap_vars)) == len(tap_vars)
    return tuple(sliding_axes) if used_bounds == len(bounds) and has_distinct_taps else ()


def _sliding_axis(position: Axis, comparisons: Sequence[ir.Expr], reduction_axes: Sequence[Axis]) -> SlidingAxis | None:
    """Derives the stride, dilation and bounds of a sliding window along one axis from the axis's bounds checks.

    The comparisons must bound `position * stride + tap * dilation`. Returns None if one has another form.
    """
    used_vars = {var for comparison in comparisons for var in variables(comparison)}
    tap_axes = [axis for axis in reduction_axes if axis.var in used_vars]
    if len(tap_axes) > 1 or not used_vars <= {position.var, *(axis.var for axis in tap_axes)}:
        return None
    tap = tap_axes[0] if tap_axes else None
    bounds: list[_Bound] = []
    for comparison in comparisons:
        bound = _parsed_bound(comparison, position, tap)
        if bound is None:
            return None
        bounds.append(bound)
    # All comparisons must be about the same index.
    strides_and_dilations = {(bound.stride, bound.dilation) for bound in bounds}
    if len(strides_and_dilations) > 1:
        return None
    stride, dilation = strides_and_dilations.pop() if strides_and_dilations else (1, 1)
    position_count = position.size or 1
    tap_count = (tap.size or 1) if tap else 1
    last_index = (position_count - 1) * stride + (tap_count - 1) * dilation
    low = max([0, *(bound.low for bound in bounds if bound.low is not None)])
    high = min([last_index + 1, *(bound.high for bound in bounds if bound.high is not None)])
    sliding_axis = SlidingAxis(position, tap, stride, dilation, low, high)
    return sliding_axis if tap or sliding_axis.reaches_no_border else None


class _Bound(NamedTuple):
    """One side of ``low <= position * stride + tap * dilation < high``; the other side is None."""

    stride: int
    dilation: int
    low: int | None = None
    high: int | None = None


def _parsed_bound(comparison: ir.Expr, position: Axis, tap: Axis | None) -> _Bound | None:
    """Parses a comparison that bounds the index ``position * stride + tap * dilation`` on one side.

    Returns None unless the comparison is linear in both variables with constant factors of the same sign. With others,
    the indices inside aren't an interval.

    Args:
        comparison: the comparison.
        position: the axis of the window's position.
        tap: the axis of the position in the window; None for a window of one element.
    """
    is_greater = isinstance(comparison, (tirx.GE, tirx.GT))
    larger, smaller = (comparison.a, comparison.b) if is_greater else (comparison.b, comparison.a)
    is_strict = isinstance(comparison, (tirx.GT, tirx.LT))
    # The comparison holds where this isn't negative: among integers, `a > b` is `a - b - 1 >= 0`.
    surplus = emit.simplified(larger - smaller - int(is_strict))
    axes = [position] if tap is None else [position, tap]
    factors = []
    for axis in axes:
        factor = access.stride(surplus, axis.var)
        factors.append(0 if factor is None else emit.static(factor) or 0)
    zeros = {axis.var: index(0) for axis in axes}
    constant = emit.static(emit.simplified(substitute(surplus, zeros)))
    if constant is None:
        return None
    stride = abs(factors[0])
    dilation = abs(factors[-1])
    if min(factors) > 0:  # `position * stride + tap * dilation + constant >= 0`
        return _Bound(stride, dilation, low=-constant)
    if max(factors) < 0:  # `constant >= position * stride + tap * dilation`
        return _Bound(stride, dilation, high=constant + 1)
    return None


@dataclass(frozen=True)
class _TileShape:
    """A register tile of windows: `height` results along the last axis of windows, `vectors` vectors of channels."""

    vector: Axis
    lanes: int
    vectors: int
    height: int

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


def _choose_tile(windows: Windows, target: CpuTarget) -> _TileShape | None:
    """Returns the register tile of windows, or None if channels fill no half vector or the code would be too long.

    Its height is a number of windows along a row, its width a number of vectors of channels. A tile takes a part of the
    registers: each result needs another one for its term, and a mask if the term is selected.
    """
    stage, sliding_axis = windows.bare, windows.sliding_axes[-1]
    channel = stage.spatial[-1]
    lanes = target.lanes(max(stage.item_bytes, *map(_item_bytes, stage.loads)))
    window_count = sliding_axis.position.size or 1
    channel_count = channel.size or 1
    if 2 * channel_count < lanes or not all(access.is_contiguous(term, channel.var) for term in operands_of(stage)):
        return None
    max_vectors = emit.ceil_div(channel_count, lanes)
    max_results, max_along_channels = _max_results(stage, sliding_axis.taps, target)
    # Tiles of equal height, as few as the registers allow.
    max_height = max_results // min(max_vectors, max_along_channels)
    default_height = emit.ceil_div(window_count, emit.ceil_div(window_count, max_height))
    default_shape = default_height, min(max_vectors, max(1, max_results // default_height))
    tried_shapes = [
        (height, vectors)
        for vectors in TRIED_VECTORS
        for height in TRIED_HEIGHTS
        if height <= window_count and vectors <= max_vectors and height * vectors < target.vector_registers
    ]
    height, vectors = choice("tile", default_shape, lambda: tried_shapes, lambda tile: f"{tile[0]} x {tile[1]}")
    unrolled_terms = sliding_axis.taps * height * vectors
    return _TileShape(channel, lanes, vectors, height) if unrolled_terms <= MAX_UNROLLED_TERMS else None


def _max_results(stage: Stage, taps: int, target: CpuTarget) -> tuple[int, int]:
    """Returns the maximum number of result vectors in a register tile of windows, and the maximum along channels.

    Args:
        stage: the reduction.
        taps: the number of taps along the last axis along which the window slides.
        target: the CPU.
    """
    registers = target.vector_registers
    if stage.broadcast_axis is not None:
        # Registers also hold all operands, both as they are loaded and shuffled.
        return max(1, (registers - 2 * taps) // 3), 1
    selects_terms = has_calls(stage.value)
    if not selects_terms:
        return registers // REGISTER_DIVISOR, 1
    max_results = registers // REGISTER_DIVISOR_OF_SELECTIONS
    has_factors = len(operands_of(stage)) > 1
    max_along_channels = max_results if has_factors else max(1, max_results // 2)
    return max_results, max_along_channels


def _item_bytes(load: TensorLoad) -> int:
    """Returns the size in bytes of the elements that a load reads."""
    return max(1, load.ty.dtype.bits // 8)


def _with_edge_checks(windows: Windows) -> Stage:
    """Returns the reduction with bounds checks along the last axis of windows, if windows reach the border there.

    A term beyond the border is replaced by the reduction's initial value, which changes no result. Along other axes, no
    checks are needed, since loops run only over taps that are inside.
    """
    sliding_axis, bare = windows.sliding_axes[-1], windows.bare
    term = reduced_term(bare)
    if sliding_axis.reaches_no_border or term is None:
        return bare
    tap_offset = sliding_axis.tap.var * sliding_axis.dilation if sliding_axis.tap else 0
    source_index = sliding_axis.position.var * sliding_axis.stride + tap_offset
    is_inside = tirx.all(source_index >= sliding_axis.low, source_index < sliding_axis.high)
    term_or_init = tirx.if_then_else(is_inside, term, bare.init)
    return with_value(bare, _replace_equal(bare.value, term, term_or_init))


# -- writing


def emit_windows(windows: Windows, stored_buffers: set[Var], target: CpuTarget) -> Stmt:
    """Emits a reduction over sliding windows (such as a pool) and its epilogue, as a parallel loop over rows of results.

    Args:
        windows: the reduction and its epilogue.
        stored_buffers: the results that must be stored in memory.
        target: the CPU.
    """
    fused_stages = tuple(on_same_axes(windows.fused_stages))
    windows = replace(windows, fused_stages=fused_stages)
    stored_stages = [stage for stage in fused_stages if stage.buffer in stored_buffers]
    tile = _choose_tile(windows, target)
    if tile is None:
        raise ValueError("emit_windows: expected windows that as_windows accepted")
    emitter = _WindowEmitter(windows, stored_stages, tile)
    # The last two axes, the windows of a row and the channels, are tiled within a row.
    row_extents = [axis.extent for axis in fused_stages[0].spatial[:-2]]

    def emit_rows(parallel: bool) -> Stmt:
        """Emits the loops over all rows of results."""
        return emit.fused_loops(row_extents, emitter.emit_row, parallel)

    return emit_parallel_or_serial(fused_stages, target, emit_rows)


class _WindowEmitter:
    """Emits the tiles of one row of results of windows: unrolled over the row's edges, in a loop between them."""

    def __init__(self, windows: Windows, stores: list[Stage], tile: _TileShape) -> None:
        self.windows, self.tile = windows, tile
        self.reduction, self.sliding_axis = windows.fused_stages[0], windows.sliding_axes[-1]
        self.bare = windows.bare
        self.with_edge_checks = _with_edge_checks(windows)
        self.epilogue = Epilogue(self.reduction, tuple(stores))

    def emit_row(self, indices: list[ir.Expr]) -> Stmt:
        """Emits one row of results of the sliding windows, at the given indices of the outer axes.

        Loops over the taps of outer axes cover only the taps inside the image.
        """
        outer_axes = self.reduction.spatial[:-2]
        base = by_axis(outer_axes, indices)
        sliding_axes_by_tap = {
            sliding_axis.tap.var: sliding_axis
            for sliding_axis in self.windows.sliding_axes
            if sliding_axis.tap is not None
        }
        tap_in_row = self.sliding_axis.tap
        ranges: list[Range] = []
        for axis in self.reduction.reduce:
            if tap_in_row is not None and axis.var.same_as(tap_in_row.var):
                continue  # each register tile has its own loop over the taps along the row
            sliding_axis = sliding_axes_by_tap.get(axis.var)
            if sliding_axis is None:
                ranges.append(Range.whole(axis))
            else:
                ranges.append(sliding_axis.range(base[sliding_axis.position.var]))
        return emit.sequence(list(self._tiles_of_row(base, ranges)))

    def _tiles_of_row(self, base: AxisIndices, ranges: list[Range]) -> Iterator[Stmt]:
        """Yields the register tiles along a row of results: over its first edge, inside in a loop, over its last edge.

        Only tiles over an edge check the bounds. `base` holds the row's outer indices. `ranges` are the taps of the
        other axes.
        """
        size = self.sliding_axis.position.size or 1
        height = self.tile.height
        low, high = self.sliding_axis.inner()
        start = min(size, emit.round_up(low, height))
        for first_position in range(0, start, height):
            yield self._tiles_along_channels(
                base, ranges, index(first_position), min(height, size - first_position), True
            )
        whole_tiles = max(0, high - start) // height
        if whole_tiles:
            loop_start = start
            yield emit.loop(
                whole_tiles,
                lambda tile: self._tiles_along_channels(base, ranges, tile * height + loop_start, height, False),
            )
        start += whole_tiles * height
        # The remaining results are split into tiles of about equal height.
        while start < size:
            remaining_tiles = emit.ceil_div(size - start, height)
            height = emit.ceil_div(size - start, remaining_tiles)
            yield self._tiles_along_channels(base, ranges, index(start), height, start + height > high)
            start += height

    def _tiles_along_channels(
        self, base: AxisIndices, ranges: list[Range], start: ir.Expr, height: int, is_edge: bool
    ) -> Stmt:
        """Emits register tiles side by side along the channels; the last tile is narrower if channels remain.

        Args:
            base: the values of the outer axes.
            ranges: the taps of the other axes.
            start: the first window of the row.
            height: the number of windows along the row.
            is_edge: whether a window may reach the border, so that bounds are checked.
        """
        channel, width = self.tile.vector, self.tile.width
        channels = channel.size or 1
        widths = [width, channels % width] if channels >= width else [channels]
        base = {**base, self.sliding_axis.position.var: emit.simplified(start)}
        emit_tile = partial(self._tile, base, ranges, height, is_edge)
        # The channels aren't split into blocks: block 0 is the only one.
        return emit_tiles_along_axis(channel, widths, 1, index(0), emit_tile)

    def _tile(
        self, base: AxisIndices, ranges: list[Range], height: int, is_edge: bool, start: ir.Expr, width: int
    ) -> Stmt:
        """Emits one register tile of a reduction over sliding windows.

        Args:
            base: the values of the outer axes, and the first window position.
            ranges: the taps of the outer axes.
            height: the number of windows along the row.
            is_edge: whether a window may reach the border: then the bounds are checked.
            start: the first channel.
            width: the number of channels.
        """
        channel, position, tap = self.tile.vector, self.sliding_axis.position, self.sliding_axis.tap
        # In unrolled loops, bounds checks at static positions are evaluated at compile time.
        is_unrolled = is_edge or self.reduction.broadcast_axis is not None
        taps = [] if tap is None else [replace(Range.whole(tap), is_unrolled=is_unrolled)]
        tile = Tile({**base, channel.var: start}, {position.var: height, channel.var: width})
        stage = self.with_edge_checks if is_edge else self.bare
        return ColumnTile(stage, tile, channel, self.tile.lanes).emit_tile([*ranges, *taps], None, self.epilogue)
