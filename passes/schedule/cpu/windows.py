"""Windows without reuse (depthwise convolutions, pools, their gradients): reads straight from the image.

Border values come from a padded copy, which is never made, or are left out by a test in the reduction. Rows of a window
outside the image are left out of the sum. Along the last axis of places, tiles over the edge are at static places, so
that their tests are decided while compiling. A padded copy of a depthwise convolution's input took longer than its
sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import combiner, is_zero, reduced_item
from tvtf.passes.schedule.cpu.elementwise import COMPARISONS
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import (
    Axis,
    Kernel,
    Opaque,
    Stage,
    has_calls,
    is_choice,
    reads,
    replace_loads,
    substitute,
    variables,
    with_value,
)
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.loop_box import on_same_axes
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.reduction import without_units
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import along_axis
from tvtf.passes.schedule.cpu.tile import Finish, Point, Range, Tile
from tvtf.passes.schedule.cpu.vector_axis import terms_of

MAX_STEPS_WRITTEN_OUT = 512
# With more results in registers LLVM loads terms long before their use, and spills them; tiles of 28 results did.
PARTS_OF_REGISTERS = 2
# Each selected term takes a mask, too, and AVX-512 has seven. Where a term is selected by another operand, tiles along
# channels (whole lines of memory) take two thirds of the time of tiles along places.
PARTS_OF_REGISTERS_TO_CHOOSE = 8


@dataclass(frozen=True)
class Slide:
    """One axis of places: a tap reads at `place * step + tap * dilation` of a source that is inside for [low, high)."""

    place: Axis
    tap: Axis | None
    step: int
    dilation: int
    low: int
    high: int

    @property
    def taps(self) -> int:
        return 1 if self.tap is None else self.tap.size or 1

    def inner(self) -> tuple[int, int]:
        """Returns the range of places whose taps all read inside."""
        size, reach = self.place.size or 0, (self.taps - 1) * self.dilation
        first = -(-self.low // self.step)
        return min(size, max(0, first)), max(0, min(size, (self.high - 1 - reach) // self.step + 1))

    @property
    def reaches_no_border(self) -> bool:
        return self.inner() == (0, self.place.size)

    def range(self, place: ir.Expr) -> Range:
        """Returns the taps that read inside at a place.

        Loops over these taps need no test for the border.
        """
        if self.tap is None:
            raise ValueError("Slide.range: expected an axis of places with taps")
        if self.reaches_no_border:
            return Range.whole(self.tap)
        first = _ceil_div(self.low - place * self.step, self.dilation)
        stop = _ceil_div(self.high - place * self.step, self.dilation)
        start = tirx.min(tirx.max(first, index(0)), index(self.taps))
        extent = tirx.max(tirx.min(stop, index(self.taps)) - start, index(0))
        return Range(self.tap, emit.simplified(start), emit.simplified(extent))


def _ceil_div(value: ir.Expr, by: int) -> ir.Expr:
    return value if by == 1 else tirx.floordiv(value + (by - 1), index(by))


@dataclass(frozen=True)
class Windows:
    """A reduction over windows with its epilogue, and the padded copy (never made) that only it reads, if any.

    `bare` is the reduction as it reads away from the border.
    """

    source: Stage | None
    rest: tuple[Stage, ...]
    bare: Stage
    slides: tuple[Slide, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.rest if self.source is None else (self.source, *self.rest)


# -- recognition


def as_windows(
    source: Stage | None, rest: Sequence[Stage], later: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget
) -> Windows | None:
    """Returns windows that test for the border themselves, or read a padded copy that nothing else reads."""
    windows = windows_of(None, rest[0], target)
    if windows is None and source is not None and kernel.is_local(source.buffer):
        is_read_elsewhere = any(reads(other, source.buffer) for other in (*rest[1:], *later))
        windows = None if is_read_elsewhere else windows_of(source, rest[0], target)
    return None if windows is None else replace(windows, rest=(*windows.rest, *rest[1:]))


def windows_at(stages: Sequence[Stage | Opaque], position: int, target: CpuTarget) -> int:
    """Returns how many stages at a position form windows: two with a padded copy, one without, or none."""
    first, then = [*stages[position : position + 2], None, None][:2]
    if not isinstance(first, Stage):
        return 0
    if windows_of(None, first, target) is not None:
        return 1
    return 2 if isinstance(then, Stage) and windows_of(first, then, target) is not None else 0


def windows_of(source: Stage | None, reduction: Stage, target: CpuTarget) -> Windows | None:
    """Returns the windows of a reduction whose terms are each read for one result, and zeroed only by the border.

    Terms that several results read are better kept in the registers of a tile.
    """
    first = without_units(reduction)
    if not first.reduce or len(first.spatial) < 3:
        return None
    tests_and_bare = _with_own_test(first) if source is None else _with_copy(source, first)
    if tests_and_bare is None:
        return None
    tests, bare = tests_and_bare
    windows = Windows(source, (first,), bare, _slides(tests, first))
    return windows if windows.slides and _tile(windows, target) is not None else None


def _with_own_test(first: Stage) -> tuple[list[ir.Expr], Stage] | None:
    """Returns the tests of a reduction that leaves some terms out, and the reduction without them."""
    item = reduced_item(first)
    if item is None or combiner(first) is None or any(_is_read_again(load, first) for load in terms_of(first)):
        return None
    if is_choice(item) and tvm_ffi.structural_equal(item.args[2], first.init):
        tests = _bounds(item.args[0])
        return None if tests is None else (tests, with_value(first, _replaced(first.value, item, item.args[1])))
    return ([], first) if _is_narrower(first) and _has_windows(first) else None


def _is_narrower(first: Stage) -> bool:
    """Returns whether results have smaller items than operands: other plans would load a vector per vector of results."""
    return first.item_bytes < max(map(_item_bytes, first.loads))


def _has_windows(first: Stage) -> bool:
    """Returns whether each axis of terms moves along an axis of places."""
    moving = [variables(place) for load in terms_of(first) for place in load.indices]
    places = {axis.var for axis in first.spatial[1:-1]}
    return all(any(axis.var in used and used & places for used in moving) for axis in first.reduce)


def _with_copy(source: Stage, first: Stage) -> tuple[list[ir.Expr], Stage] | None:
    """Returns the tests of a padded copy for each term, and the reduction reading the copy's source.

    The windows then read the image itself, and the copy is never made.
    """
    source_loads = access.reads_of(first, source.buffer)
    if (
        source.reduce
        or not source_loads
        or not all(tvm_ffi.structural_equal(source_loads[0], each) for each in source_loads)
    ):
        return None
    if (
        _is_read_again(source_loads[0], first)
        or not is_choice(source.value)
        or not _is_neutral(source.value.args[2], first)
    ):
        return None
    if not isinstance(source.value.args[1], TensorLoad):
        return None
    tests = _bounds(with_value(source, source.value.args[0]).at(list(source_loads[0].indices)))
    bare = with_value(source, source.value.args[1])
    return None if tests is None else (tests, with_value(first, replace_loads(first.value, source.buffer, bare.at)))


def _is_read_again(load: TensorLoad, first: Stage) -> bool:
    return any(axis.size != 1 and access.load_stride(load, axis.var) == 0 for axis in first.spatial)


def _is_neutral(border: ir.Expr, first: Stage) -> bool:
    """Returns whether border terms change no result: the least value of a maximum, zeros of a sum or of a factor."""
    item = reduced_item(first)
    if combiner(first) is None or not tvm_ffi.structural_equal(border, first.init):
        return False
    is_product = isinstance(first.value, tirx.Add) and isinstance(item, tirx.Mul) and is_zero(first.init)
    return isinstance(item, TensorLoad) or is_product


def _bounds(test: ir.Expr) -> list[ir.Expr] | None:
    """Returns the comparisons of a conjunction, or None if a test has another form."""
    if isinstance(test, tirx.And):
        parts = _bounds(test.a), _bounds(test.b)
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    return [test] if isinstance(test, COMPARISONS) else None


def _replaced(value: ir.Expr, old: ir.Expr, new: ir.Expr) -> ir.Expr:
    return structural_map(value, (ir.Expr, lambda node: new if tvm_ffi.structural_equal(node, old) else node))


def _slides(tests: Sequence[ir.Expr], first: Stage) -> tuple[Slide, ...]:
    """Returns how reads move along each axis of places; empty if sizes aren't static or tests have another form."""
    places = first.spatial[1:-1]
    if any(axis.size is None for axis in (*places, first.spatial[-1], *first.reduce)):
        return ()
    axis_tests = [[test for test in tests if place.var in variables(test)] for place in places]
    candidates = [_slide(place, about, first.reduce) for place, about in zip(places, axis_tests, strict=True)]
    slides = tuple(slide for slide in candidates if slide is not None)
    taps = [slide.tap.var for slide in slides if slide.tap is not None]
    is_all = len(slides) == len(candidates) and sum(map(len, axis_tests)) == len(tests)
    return slides if is_all and len(set(taps)) == len(taps) else ()


def _slide(place: Axis, tests: Sequence[ir.Expr], terms: Sequence[Axis]) -> Slide | None:
    """Returns the range of places that pass all tests on `place * step + tap * dilation`; None for other tests."""
    used = {var for test in tests for var in variables(test)}
    taps = [axis for axis in terms if axis.var in used]
    if len(taps) > 1 or not used <= {place.var, *(axis.var for axis in taps)}:
        return None
    tap = taps[0] if taps else None
    limits = [_limit(test, place, tap) for test in tests]
    strides = {limit[:2] for limit in limits if limit is not None}
    if None in limits or len(strides) > 1:
        return None
    step, dilation = strides.pop() if strides else (1, 1)
    last = ((place.size or 1) - 1) * step + ((tap.size or 1) - 1 if tap else 0) * dilation
    low = max([0, *(limit[2] for limit in limits if limit and limit[2] is not None)])
    high = min([last + 1, *(limit[3] for limit in limits if limit and limit[3] is not None)])
    slide = Slide(place, tap, step, dilation, low, high)
    return slide if tap or slide.reaches_no_border else None


def _limit(test: ir.Expr, place: Axis, tap: Axis | None) -> tuple[int, int, int | None, int | None] | None:
    """Returns a test as (step, dilation, low, high) of `low <= place * step + tap * dilation < high`.

    None if it is not linear in both with known factors of the same sign, so that positions inside are no interval.
    """
    left, right = (test.a, test.b) if isinstance(test, (tirx.GE, tirx.GT)) else (test.b, test.a)
    value = emit.simplified(left - right - (1 if isinstance(test, (tirx.GT, tirx.LT)) else 0))
    axes = [place] if tap is None else [place, tap]
    steps = [access.stride(value, axis.var) for axis in axes]
    known = [0 if step is None else emit.static(step) or 0 for step in steps]
    first = emit.static(emit.simplified(substitute(value, {axis.var: index(0) for axis in axes})))
    if first is None or not (min(known) > 0 or max(known) < 0):
        return None
    step, dilation = abs(known[0]), abs(known[-1])
    return (step, dilation, -first, None) if known[0] > 0 else (step, dilation, None, first + 1)


@dataclass(frozen=True)
class _Shape:
    """A register tile: `height` results along the last axis of places, `vectors` vectors of channels."""

    vector: Axis
    lanes: int
    vectors: int
    height: int

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


def _tile(windows: Windows, target: CpuTarget) -> _Shape | None:
    """Chooses a tile of some of the registers: each result needs one for its term, too, and a mask if selected."""
    stage, last = windows.bare, windows.slides[-1].place
    channel, lanes = stage.spatial[-1], target.lanes(max(stage.item_bytes, *map(_item_bytes, stage.loads)))
    size, along = last.size or 1, channel.size or 1
    if 2 * along < lanes or not all(access.is_contiguous(term, channel.var) for term in terms_of(stage)):
        return None
    vectors = -(-along // lanes)
    most, beside = _most_results(stage, windows.slides[-1].taps, target)
    height = -(-size // -(-size // (most // min(vectors, beside))))
    usual = height, min(vectors, max(1, most // height))
    heights = [h for h in (1, 2, 4, 6, 7, 8, 10, 12, 14, 16, 28) if h <= size]
    options = [(h, v) for v in (1, 2, 3, 4) if v <= vectors for h in heights if h * v < target.vector_registers]
    height, vectors = choice("tile", usual, lambda: options, lambda tile: f"{tile[0]} x {tile[1]}")
    is_short = windows.slides[-1].taps * height * vectors <= MAX_STEPS_WRITTEN_OUT
    return _Shape(channel, lanes, vectors, height) if is_short else None


def _most_results(stage: Stage, taps: int, target: CpuTarget) -> tuple[int, int]:
    """Returns the vectors of results of a tile, and how many of them are side by side along the channels."""
    if stage.spread is not None:  # registers also hold all operands, plain and shuffled
        return max(1, (target.vector_registers - 2 * taps) // 3), 1
    if not has_calls(stage.value):
        return target.vector_registers // PARTS_OF_REGISTERS, 1
    most = target.vector_registers // PARTS_OF_REGISTERS_TO_CHOOSE
    return most, most if len(terms_of(stage)) > 1 else max(1, most // 2)


def _item_bytes(load: TensorLoad) -> int:
    return max(1, load.ty.dtype.bits // 8)


def _at_edges(windows: Windows) -> Stage:
    """Returns the reduction where only the last axis of places may reach the border.

    Along other axes, loops run only over taps that are inside.
    """
    last, bare = windows.slides[-1], windows.bare
    item = reduced_item(bare)
    if last.reaches_no_border or item is None:
        return bare
    at = last.place.var * last.step + (last.tap.var * last.dilation if last.tap else 0)
    counts = tirx.if_then_else(tirx.all(at >= last.low, at < last.high), item, bare.init)
    return with_value(bare, _replaced(bare.value, item, counts))


# -- writing


def emit_windows(windows: Windows, needed: set[Var], target: CpuTarget) -> Stmt:
    """Writes a parallel loop over rows of results."""
    aligned = on_same_axes(windows.rest)
    windows = replace(windows, rest=tuple(aligned))
    stores = [stage for stage in aligned if stage.buffer in needed]
    tile = _tile(windows, target)
    if tile is None:
        raise ValueError("emit_windows: expected windows that as_windows accepted")
    writer = _Writer(windows, stores, tile)
    extents = [axis.extent for axis in windows.rest[0].spatial[:-2]]
    return is_parallel(windows.rest, target, lambda parallel: emit.fused(extents, writer.row, parallel))


class _Writer:
    """Writes the tiles of one row of results: unrolled over its edges, in a loop between them."""

    def __init__(self, windows: Windows, stores: list[Stage], tile: _Shape) -> None:
        self.windows, self.tile = windows, tile
        self.first, self.last = windows.rest[0], windows.slides[-1]
        self.bare, self.edge = windows.bare, _at_edges(windows)
        self.finish = Finish(self.first, tuple(stores))

    def row(self, places: list[ir.Expr]) -> Stmt:
        """Writes one row of results."""
        axes = self.first.spatial[:-2]
        base = {axis.var: place for axis, place in zip(axes, places, strict=True)}
        known = {slide.tap.var: slide for slide in self.windows.slides if slide.tap is not None}
        ranges = [
            known[axis.var].range(base[known[axis.var].place.var]) if axis.var in known else Range.whole(axis)
            for axis in self.first.reduce
            if self.last.tap is None or not axis.var.same_as(self.last.tap.var)
        ]
        return emit.sequence(list(self._pieces(base, ranges)))

    def _pieces(self, base: Point, ranges: list[Range]) -> Iterator[Stmt]:
        """Yields the tiles along a row: over its first edge, inside in a loop, then over its last edge.

        Only tiles over an edge contain tests.
        """
        size, height = self.last.place.size or 1, self.tile.height
        low, high = self.last.inner()
        start = min(size, -(-low // height) * height)
        for first in range(0, start, height):
            yield self._panels(base, ranges, index(first), min(height, size - first), True)
        count = max(0, high - start) // height
        if count:
            at = start
            yield emit.loop(count, lambda tile: self._panels(base, ranges, tile * height + at, height, False))
        start += count * height
        while start < size:
            pieces = -(-(size - start) // height)
            height = -(-(size - start) // pieces)
            yield self._panels(base, ranges, index(start), height, start + height > high)
            start += height

    def _panels(self, base: Point, ranges: list[Range], start: ir.Expr, height: int, is_edge: bool) -> Stmt:
        """Writes tiles side by side along the channels."""
        channel, width = self.tile.vector, self.tile.width
        size = channel.size or 1
        cascade = [width, size % width] if size >= width else [size]
        base = {**base, self.last.place.var: emit.simplified(start)}
        return along_axis(channel, cascade, 1, index(0), partial(self._tile, base, ranges, height, is_edge))

    def _tile(self, base: Point, ranges: list[Range], height: int, is_edge: bool, start: ir.Expr, width: int) -> Stmt:
        channel, place, tap = self.tile.vector, self.last.place, self.last.tap
        is_written_out = is_edge or self.first.spread is not None
        along = [] if tap is None else [replace(Range.whole(tap), is_written_out=is_written_out)]
        tile = Tile({**base, channel.var: start}, {place.var: height, channel.var: width})
        stage = self.edge if is_edge else self.bare
        return ColumnTile(stage, tile, channel, self.tile.lanes).write([*ranges, *along], None, self.finish)
