"""The filter's gradient of convolutions with windows of 3 by 3 by Winograd's method: a quarter of the products.

What a tile of results' gradients adds to a filter is a convolution with windows of 4 by 4 that has 3 by 3 results. Its
transforms are those of the convolution turned over. Inputs and gradients of all tiles are transformed, or of as many as
the caches hold; each of a tile's places is a matrix product over tiles, and sums are transformed once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from . import emit
from .box import on_same_axes
from .combiner import combiner, is_zero
from .emit import index
from .kernel import Axis, Kernel, Opaque, Stage
from .plan import plan_reduction
from .target import CpuTarget
from .tasks import Work, run_tasks
from .tile import Finish, Range
from .toom import GRADIENT, WINDOW, Matrix, transformed_square
from .ways import terms_of
from .winograd import Operands, feeds_only, is_same
from .winograd_cuts import FilterCut, Shape, best_filter_cut
from .work import is_parallel


@dataclass(frozen=True)
class WinogradFilter:
    """A filter's gradient with its epilogue, and the stage (a padded copy) that alone makes its input."""

    source: Stage | None
    rest: tuple[Stage, ...]
    operands: Operands
    shape: Shape
    cut: FilterCut

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.rest if self.source is None else (self.source, *self.rest)


def as_winograd_filter(
    source: Stage | None, rest: Sequence[Stage], others: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget
) -> WinogradFilter | None:
    """The filter's gradient as Winograd's, where it is one and that is faster; `source` melts in if only it reads it."""
    operands = _operands(rest[0])
    shape = None if operands is None else _shape(rest[0])
    cut = None if shape is None else best_filter_cut(shape, target)
    if operands is None or shape is None or cut is None:
        return None
    if source is not None and not feeds_only(source, rest, others, operands, kernel):
        source = None
    return WinogradFilter(source, tuple(rest), operands, shape, cut)


def _operands(stage: Stage) -> Operands | None:
    """The input at `[n, y + ky, x + kx, c]` and the gradient at `[n, y, x, k]`; None for any other stage."""
    if len(stage.spatial) != 4 or len(stage.reduce) != 3 or stage.dtype != "float32" or not is_zero(stage.init):
        return None
    item, terms = stage.value, terms_of(stage)
    if not isinstance(item, tirx.Add) or not isinstance(item.b, tirx.Mul) or len(terms) != 2:
        return None
    if not all(isinstance(factor, TensorLoad) for factor in (item.b.a, item.b.b)):
        return None
    tap_down, tap_right, channel, result = (axis.var for axis in stage.spatial)
    image, down, right = (axis.var for axis in stage.reduce)
    for source, gradient in (terms, reversed(terms)):
        wanted = [image, down + tap_down, right + tap_right, channel]
        if _reads(source, wanted) and _reads(gradient, [image, down, right, result]):
            return Operands(source, gradient)
    return None


def _reads(load: TensorLoad, places: Sequence[ir.Expr]) -> bool:
    return len(load.indices) == len(places) and all(map(is_same, load.indices, places))


def _shape(stage: Stage) -> Shape | None:
    sizes = [axis.size for axis in (*stage.reduce, *stage.spatial[2:])]
    known = [size for size in sizes if size is not None]
    is_window = all(axis.size == WINDOW for axis in stage.spatial[:2])
    return Shape(*known) if is_window and len(known) == len(sizes) else None


def emit_winograd_filter(group: WinogradFilter, needed: set[Var], target: CpuTarget) -> Stmt:
    """Chunk by chunk of tiles: transform both operands, then add their products to the sums."""
    group = replace(group, rest=tuple(on_same_axes(group.rest)))
    writer = _Writer(group, [stage for stage in group.rest if stage.buffer in needed], target)
    return is_parallel(group.stages, target, writer.write)


@dataclass(frozen=True)
class _Side:
    """One operand: how an item is read, and its transformed tiles `[block, place, tile and channel]`."""

    item: Callable[[list[ir.Expr]], ir.Expr]
    matrices: tuple[Matrix, ...]
    channels: int
    block: int
    buffer: Var

    @property
    def reach(self) -> int:
        """Rows and columns that a tile reads."""
        return len(self.matrices[0][0])


class _Writer:
    """The parts of one gradient's code."""

    def __init__(self, group: WinogradFilter, stores: list[Stage], target: CpuTarget) -> None:
        self.group, self.stores, self.target, self.lanes = group, stores, target, target.lanes(4)
        self.cut, self.shape = group.cut, group.shape
        self.down, self.right = self.cut.tiles(self.shape.height), self.cut.tiles(self.shape.width)
        self.tiles = self.cut.rows * self.right
        self.input = self._side(group.operands.image, group.source, GRADIENT.inputs, self.cut.channels)
        self.gradient = self._side(group.operands.filter, None, GRADIENT.filters, self.cut.results)
        own = [GRADIENT.products, self.cut.channels, self.cut.results]
        blocks = [-(-side.channels // side.block) for side in (self.input, self.gradient)]
        self.blocks, self.is_local = blocks, self.cut.is_local
        self.sums = emit.scratch([*([1, 1] if self.is_local else blocks), *own], "float32", "sums")

    def _side(self, load: TensorLoad, source: Stage | None, matrices: tuple[Matrix, ...], block: int) -> _Side:
        extents = [int(extent) for extent in load.source.ty.shape]
        reach, size = len(matrices[0][0]), GRADIENT.size

        def item(place: list[ir.Expr]) -> ir.Expr:
            """Zero where the last tiles reach beyond the images."""
            value = emit.load(load.source, place) if source is None else source.at(place)
            most = [(tiles - 1) * size + reach for tiles in (self.down, self.right)]
            tests = [at < extent for at, extent, end in zip(place[1:3], extents[1:3], most) if extent < end]
            return tirx.if_then_else(tirx.all(*tests), value, tirx.const(0, "float32")) if tests else value

        # A vector more a place: places of a tile don't all lie in one set of the cache.
        rows = self.tiles * block + self.lanes
        buffer = emit.scratch([-(-extents[-1] // block), GRADIENT.products, rows], "float32", "transformed")
        return _Side(item, matrices, extents[-1], block, buffer)

    def write(self, parallel: bool) -> Stmt:
        chunks = self.shape.images * self.down // self.cut.rows
        sides = [self.input, self.gradient]
        return emit.sequence([
            *(emit.allocate(side.buffer) for side in sides),
            *([] if self.is_local else [emit.allocate(self.sums), self._zeros(parallel)]),
            emit.loop(chunks, lambda chunk: self._chunk(chunk, parallel)),
            None if self.is_local else emit.fused(self.blocks, lambda places: self._results(*places, *places), parallel),
        ])  # fmt: skip

    def _zeros(self, parallel: bool) -> Stmt:
        def row(places: list[ir.Expr]) -> Stmt:
            zero = tirx.const(0, "float32")
            return self._vectors(self.cut.results, lambda at: emit.store(self.sums, zero, [*places, at]))

        return emit.fused([*self.blocks, GRADIENT.products, self.cut.channels], row, parallel)

    def _vectors(self, extent: int, body: Callable[[ir.Expr], Stmt]) -> Stmt:
        def part(start: int, lanes: int) -> Stmt:
            return emit.vectorized(lanes, lambda lane: body(lane + start))

        return emit.sequence([part(*chunk) for chunk in emit.lane_chunks(extent, self.lanes)])

    def _chunk(self, chunk: ir.Expr, parallel: bool) -> Stmt:
        def rows(side: _Side) -> Stmt:
            return emit.fused([self.cut.rows], lambda places: self._row(side, chunk, places[0]), parallel)

        transformed = [rows(side) for side in (self.input, self.gradient)]
        if self.is_local:
            return emit.sequence([*transformed, emit.fused(self.blocks, lambda at: self._panel(*at), parallel)])
        each = emit.fused([*self.blocks, GRADIENT.products], lambda at: self._products(at[:2], at[:2], at[2]), parallel)
        return emit.sequence([*transformed, each])

    def _row(self, side: _Side, chunk: ir.Expr, row: ir.Expr) -> Stmt:
        """Copy what a row of tiles reads, zeros around it, and transform it."""
        number = chunk * self.cut.rows + row
        image, top = tirx.floordiv(number, index(self.down)), tirx.floormod(number, index(self.down)) * GRADIENT.size
        width = (self.right - 1) * GRADIENT.size + side.reach
        band = emit.scratch([side.reach, width, side.channels], "float32", "band")

        def copied(places: list[ir.Expr]) -> Stmt:
            down, right = places
            start = [emit.simplified(image), emit.simplified(top + down), right]
            return self._vectors(side.channels, lambda at: emit.store(band, side.item([*start, at]), [down, right, at]))

        copy = emit.nest([side.reach, width], copied)
        whole, rest = divmod(side.channels, self.lanes)

        def tile(places: list[ir.Expr]) -> Stmt:
            full = emit.loop(whole, lambda number: self._square(side, band, row, places[0], number, self.lanes))
            last = self._square(side, band, row, places[0], index(whole), rest) if rest else None
            return emit.sequence([full, last])

        return emit.sequence([emit.allocate(band), copy, emit.nest([self.right], tile)])

    def _square(self, side: _Side, band: Var, row: ir.Expr, tile: ir.Expr, number: ir.Expr, lanes: int) -> Stmt:
        """A vector of channels of one tile."""
        start, width = number * self.lanes, index(side.block)
        block, first = tirx.floordiv(start, width), tirx.floormod(start, width)
        at = (row * self.right + tile) * side.block + first
        return transformed_square(
            side.matrices,
            lambda down, right, lane: emit.load(band, [index(down), tile * GRADIENT.size + right, start + lane]),
            lambda down, right, lane, item: emit.store(
                side.buffer, item, [block, index(down * GRADIENT.side + right), at + lane]
            ),
            lanes,
            "float32",
        )

    def _panel(self, block: ir.Expr, part: ir.Expr) -> Stmt:
        """All products of some channels and results at once: their sums stay in the second-level cache."""
        zero = [index(0), index(0)]
        products = emit.loop(GRADIENT.products, lambda place: self._products([block, part], zero, place))
        return emit.sequence([emit.allocate(self.sums), products, self._results(block, part, *zero)])

    def _products(self, blocks: list[ir.Expr], held: list[ir.Expr], place: ir.Expr) -> Stmt:
        """The matrix product of one place: channels by tiles times tiles by results."""
        sizes = [1, 1, 1, self.cut.channels, self.cut.results, self.tiles]
        *outer, channel, result, tile = (Axis(Var("at", "int64"), index(size)) for size in sizes)
        block, part = blocks
        left = emit.load(self.input.buffer, [block, place, tile.var * self.cut.channels + channel.var])
        right = emit.load(self.gradient.buffer, [part, place, tile.var * self.cut.results + result.var])
        spatial = (*outer, channel, result)
        own = emit.load(self.sums, [axis.var for axis in spatial])
        stage = Stage(self.sums, spatial, (tile,), tirx.const(0, "float32"), own + left * right)
        plan = plan_reduction(stage, self.target)
        if plan is None:
            raise ValueError("emit_winograd_filter: expected a plan for the matrix product of a panel")
        plan = replace(plan, packed=(), padded=False)
        work = Work(stage, (stage,), plan, combiner(stage), self.target, None if self.is_local else stage)
        fixed = dict(zip((axis.var for axis in outer), [*held, place], strict=True))
        return run_tasks(work, [Range.whole(tile)], False, fixed)

    def _results(self, block: ir.Expr, part: ir.Expr, held: ir.Expr, held_part: ir.Expr) -> Stmt:
        """The sums of some channels and results, turned into the filter's gradient, and the epilogue on it."""
        channels = tirx.min(index(self.cut.channels), self.shape.channels - block * self.cut.channels)
        left = self.shape.results - part * self.cut.results
        vectors = tirx.min(index(self.cut.results // self.lanes), tirx.floordiv(left, index(self.lanes)))
        rest = self.shape.results % self.lanes

        def row(channel: ir.Expr) -> Stmt:
            def square(start: ir.Expr, lanes: int) -> Stmt:
                return self._result([block, part], [held, held_part], channel, start, lanes)

            full = emit.loop(emit.simplified(vectors), lambda number: square(number * self.lanes, self.lanes))
            last = emit.when(left < self.cut.results, square(vectors * self.lanes, rest)) if rest else None
            return emit.sequence([full, last])

        return emit.loop(emit.simplified(channels), row)

    def _result(self, blocks: list[ir.Expr], held: list[ir.Expr], channel: ir.Expr, start: ir.Expr, lanes: int) -> Stmt:
        first = self.group.rest[0]
        finish = Finish(first, tuple(self.stores))

        def read(down: int, right: int, lane: ir.Expr) -> ir.Expr:
            place = index(down * GRADIENT.side + right)
            return emit.load(self.sums, [*held, place, channel, start + lane])

        def write(down: int, right: int, lane: ir.Expr, item: ir.Expr) -> Stmt:
            at = [blocks[0] * self.cut.channels + channel, blocks[1] * self.cut.results + start + lane]
            point = [index(down), index(right), *at]
            return finish.at(item, dict(zip((axis.var for axis in first.spatial), point, strict=True)))

        return transformed_square(GRADIENT.results, read, write, lanes, "float32")
