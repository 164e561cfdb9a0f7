"""Windows that reuse nothing they read (depthwise convolutions, pools): straight from the image, without a padded copy.

Rows of a window that lie outside the image are left out of the sum. Along the last axis of places, tiles that reach
over the edge lie at known places, so that what each of their terms reads is decided while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.structure import structural_walk

from ..choices import choice
from . import access, emit
from .bands import is_choice
from .box import on_same_axes
from .combiner import combiner, is_zero, reduced_item
from .elementwise import bound_of, comparisons
from .emit import index
from .kernel import Axis, Kernel, Opaque, Stage, has_calls, reads, replace_loads, substitute, variables, with_value
from .reduction import without_units
from .target import CpuTarget
from .tasks import along_axis
from .tile import Finish, Point, Range, Tile, column_tile
from .ways import terms_of
from .work import is_parallel

MOST_STEPS_WRITTEN_OUT = 512
# With more results in registers LLVM loads terms long before it needs them, and has to keep them in memory.
PARTS_OF_REGISTERS = 2
# Each term that is chosen or not takes a mask, too, of which AVX-512 has seven.
PARTS_OF_REGISTERS_TO_CHOOSE = 8


@dataclass(frozen=True)
class Slide:
    """One axis of places: a tap reads at `place * step + tap * dilation` of a source that is real in [low, high)."""

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
        """The places all of whose taps read what is real: from the first one on, up to another."""
        size, reach = self.place.size or 0, (self.taps - 1) * self.dilation
        first = -(-self.low // self.step)
        return min(size, max(0, first)), max(0, min(size, (self.high - 1 - reach) // self.step + 1))

    @property
    def reaches_no_border(self) -> bool:
        return self.inner() == (0, self.place.size)

    def range(self, place: ir.Expr) -> Range | None:
        """The taps that read what is real at a place."""
        if self.tap is None or self.reaches_no_border:
            return None if self.tap is None else Range.whole(self.tap)
        first = _ceil_div(self.low - place * self.step, self.dilation)
        stop = _ceil_div(self.high - place * self.step, self.dilation)
        start = tirx.min(tirx.max(first, index(0)), index(self.taps))
        extent = tirx.max(tirx.min(stop, index(self.taps)) - start, index(0))
        return Range(self.tap, emit.simplified(start), emit.simplified(extent))


def _ceil_div(value: ir.Expr, by: int) -> ir.Expr:
    return value if by == 1 else tirx.floordiv(value + (by - 1), index(by))


@dataclass(frozen=True)
class Windows:
    """A padded copy that is never made, the reduction that alone reads it, and that one's epilogue."""

    source: Stage
    rest: tuple[Stage, ...]
    slides: tuple[Slide, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.source, *self.rest)


# -- recognition


def as_windows(
    source: Stage, rest: Sequence[Stage], others: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget
) -> Windows | None:
    """The two together, where nobody else reads the copy."""
    if not kernel.is_local(source.buffer) or any(reads(other, source.buffer) for other in (*rest[1:], *others)):
        return None
    found = windows_of(source, rest[0], target)
    return None if found is None else replace(found, rest=(*found.rest, *rest[1:]))


def windows_of(source: Stage, reduction: Stage, target: CpuTarget) -> Windows | None:
    """The two, where each term is read for one result alone and nothing but the border changes none."""
    first = without_units(reduction)
    own = access.reads_of(first, source.buffer)
    if source.reduce or not first.reduce or not own or not all(tvm_ffi.structural_equal(own[0], each) for each in own):
        return None
    if any(axis.size != 1 and access.load_stride(own[0], axis.var) == 0 for axis in first.spatial):
        return None
    if not is_choice(source.value) or not _is_neutral(source.value.args[2], first):
        return None
    slides = _slides(source, first, own[0])
    if not slides or not isinstance(source.value.args[1], TensorLoad):
        return None
    windows = Windows(source, (first,), slides)
    return windows if _tile(windows, target) is not None else None


def _is_neutral(border: ir.Expr, first: Stage) -> bool:
    """Whether terms of the border change no result: a maximum's least value, zeros of a sum or as factors of its terms."""
    item = reduced_item(first)
    if combiner(first) is None or not tvm_ffi.structural_equal(border, first.init):
        return False
    is_product = isinstance(first.value, tirx.Add) and isinstance(item, tirx.Mul) and is_zero(first.init)
    return isinstance(item, TensorLoad) or is_product


def _slides(source: Stage, first: Stage, read: TensorLoad) -> tuple[Slide, ...]:
    """How the read moves along each axis of places; nothing where it isn't `[n, *places, channel]` of known sizes."""
    if len(first.spatial) < 3 or len(read.indices) != len(first.spatial):
        return ()
    image, *places, channel = first.spatial
    is_own = [emit.static(emit.simplified(at - axis.var)) == 0 for at, axis in zip(read.indices, first.spatial)]
    inside = inside_of(source)
    if not (is_own[0] and is_own[-1]) or inside is None or any(axis.size is None for axis in (*places, channel)):
        return ()
    pairs = zip(places, read.indices[1:-1], source.spatial[1:-1], strict=True)
    found = [_slide(place, at, first, *inside[axis.var]) for place, at, axis in pairs]
    slides = tuple(slide for slide in found if slide is not None)
    taps = [slide.tap.var for slide in slides if slide.tap is not None]
    rest = [axis for axis in first.reduce if axis.size != 1 and axis.var not in taps]
    return slides if len(slides) == len(found) and len(set(taps)) == len(taps) and not rest else ()


def _slide(place: Axis, at: ir.Expr, first: Stage, low: int, high: int) -> Slide | None:
    moving = [axis for axis in first.reduce if axis.var in variables(at) and axis.size != 1]
    if len(moving) > 1 or not variables(at) <= {place.var, *(axis.var for axis in first.reduce)}:
        return None
    tap = moving[0] if moving else None
    start = substitute(at, {place.var: index(0), **{axis.var: index(0) for axis in first.reduce}})
    steps = [access.stride(at, axis.var) for axis in (place, *moving)]
    known = [None if step is None else emit.static(step) for step in steps]
    if emit.static(emit.simplified(start)) != 0 or any(step is None or step < 1 for step in known):
        return None
    step, dilation = (known[0] or 1), (known[1] or 1) if moving else 1
    slide = Slide(place, tap, step, dilation, low, high)
    return slide if moving or slide.reaches_no_border else None


def inside_of(source: Stage) -> dict[Var, tuple[int, int]] | None:
    """Where each axis of a padded copy is no border; None where its test is of another kind."""
    test = source.value.args[0]
    tests = comparisons(test)
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
        holds = bool(emit.static(emit.simplified(substitute(each, {var: index(cut)}))))
        inside[var] = (max(low, cut), high) if holds else (low, min(high, cut))
    return inside


def _nodes(test: ir.Expr) -> list[ir.Expr]:
    found: list[ir.Expr] = []
    structural_walk(test, (ir.Expr, found.append))
    return found


@dataclass(frozen=True)
class _Shape:
    """A register tile: `height` results along the last axis of places, `vectors` of channels."""

    vector: Axis
    lanes: int
    vectors: int
    height: int

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


def _tile(windows: Windows, target: CpuTarget) -> _Shape | None:
    """Tiles of some of the registers: each result needs a term of its own in another, and a mask where terms are chosen."""
    stage, last = _bare(windows), windows.slides[-1].place
    channel, lanes = stage.spatial[-1], target.lanes(stage.item_bytes)
    size, along = last.size or 1, channel.size or 1
    if 2 * along < lanes or not all(access.is_contiguous(term, channel.var) for term in terms_of(stage)):
        return None
    vectors = -(-along // lanes)
    most = target.vector_registers // (PARTS_OF_REGISTERS_TO_CHOOSE if has_calls(stage.value) else PARTS_OF_REGISTERS)
    height = -(-size // -(-size // most))
    usual = height, min(vectors, max(1, most // height))
    heights = [h for h in (2, 4, 6, 7, 8, 10, 12, 14, 16, 28) if h <= size]
    options = [(h, v) for v in (1, 2, 3, 4) if v <= vectors for h in heights if h * v < target.vector_registers]
    height, vectors = choice("tile", usual, lambda: options, lambda tile: f"{tile[0]} x {tile[1]}")
    is_short = windows.slides[-1].taps * height * vectors <= MOST_STEPS_WRITTEN_OUT
    return _Shape(channel, lanes, vectors, height) if is_short else None


def _bare(windows: Windows) -> Stage:
    """The reduction as it reads where nothing is border."""
    source = with_value(windows.source, windows.source.value.args[1])
    return _reading(windows, source.at)


def _at_edges(windows: Windows) -> Stage:
    """The reduction as it reads where only the last axis of places may reach the border."""
    last, place = windows.slides[-1], windows.source.spatial[-2].var
    tests = [place >= last.low, place < last.high]
    _test, value, border = windows.source.value.args
    return _reading(windows, with_value(windows.source, tirx.if_then_else(tirx.all(*tests), value, border)).at)


def _reading(windows: Windows, read: Callable[[list[ir.Expr]], ir.Expr]) -> Stage:
    first = windows.rest[0]
    return with_value(first, replace_loads(first.value, windows.source.buffer, read))


# -- writing


def emit_windows(windows: Windows, needed: set[Var], target: CpuTarget) -> Stmt:
    """A parallel loop over rows of results."""
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
    """The tiles of one row of results: over its edges written out, between them in a loop."""

    def __init__(self, windows: Windows, stores: list[Stage], tile: _Shape) -> None:
        self.windows, self.tile = windows, tile
        self.first, self.last = windows.rest[0], windows.slides[-1]
        self.bare, self.edge = _bare(windows), _at_edges(windows)
        self.finish = Finish(self.first, tuple(stores))

    def row(self, places: list[ir.Expr]) -> Stmt:
        axes = self.first.spatial[:-2]
        base = {axis.var: place for axis, place in zip(axes, places, strict=True)}
        outer = [slide.range(base[slide.place.var]) for slide in self.windows.slides[:-1]]
        ranges = [part for part in outer if part is not None]
        return emit.sequence(list(self._pieces(base, ranges)))

    def _pieces(self, base: Point, ranges: list[Range]) -> Iterator[Stmt]:
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
        """Tiles side by side along the channels."""
        channel, width = self.tile.vector, self.tile.width
        size = channel.size or 1
        cascade = [width, size % width] if size >= width else [size]
        base = {**base, self.last.place.var: emit.simplified(start)}
        return along_axis(channel, cascade, 1, index(0), partial(self._tile, base, ranges, height, is_edge))

    def _tile(self, base: Point, ranges: list[Range], height: int, is_edge: bool, start: ir.Expr, width: int) -> Stmt:
        channel, place, tap = self.tile.vector, self.last.place, self.last.tap
        along = [] if tap is None else [replace(Range.whole(tap), is_written_out=is_edge)]
        tile = Tile({**base, channel.var: start}, {place.var: height, channel.var: width})
        stage = self.edge if is_edge else self.bare
        return column_tile(stage, tile, channel, self.tile.lanes, [*ranges, *along], None, self.finish)
