"""Register tiles: results held in vector registers while all terms of the reduction stream by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Clip, Stage, replace_loads, substitute

Point = dict[Var, ir.Expr]
# Each unrolled place is a copy of a tile's step.
MAX_PLACES_WRITTEN_OUT = 8


@dataclass(frozen=True)
class Range:
    """The part of a reduction axis that a tile sums over: a loop, or unrolled where that decides tests."""

    axis: Axis
    start: ir.Expr
    extent: ir.Expr
    is_written_out: bool = False

    @staticmethod
    def whole(axis: Axis) -> Range:
        return Range(axis, index(0), axis.extent)


@dataclass(frozen=True)
class Tile:
    """A tile's position (`base`, per spatial axis) and its extents along the tiled axes."""

    base: Point
    sizes: Mapping[Var, int]

    def offsets(self, order: Sequence[Var]) -> list[int]:
        return [self.sizes[var] for var in order]


@dataclass(frozen=True)
class Accumulators:
    """A local buffer of `rows` times `vectors` vector registers."""

    buffer: Var
    rows: int
    vectors: int
    lanes: int

    @staticmethod
    def of(stage: Stage, rows: int, vectors: int, lanes: int) -> Accumulators:
        buffer = emit.scratch([rows * vectors * lanes], stage.dtype, "accumulator", "local")
        return Accumulators(buffer, rows, vectors, lanes)

    def place(self, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> ir.Expr:
        return (row * self.vectors + vector) * self.lanes + lane

    def row_strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the distances of neighbouring rows along each of the tile's axes, which have these sizes."""
        return tuple(prod(sizes[at + 1 :]) * self.vectors * self.lanes for at in range(len(sizes)))

    def load(self, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> ir.Expr:
        return emit.load(self.buffer, [self.place(row, vector, lane)])

    def store(self, value: ir.Expr, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> Stmt:
        return emit.store(self.buffer, value, [self.place(row, vector, lane)])


@dataclass(frozen=True)
class Finish:
    """The epilogue of a finished value: its stores, `moved` along some axes."""

    stage: Stage
    stores: tuple[Stage, ...]
    moved: Point = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """The operations of one point's epilogue."""
        return sum(access.operations(stage.value) for stage in self.stores if stage is not self.stage)

    def at(self, result: ir.Expr, point: Point) -> Stmt:
        point = {**point, **{var: point[var] + by for var, by in self.moved.items()}}
        return emit.sequence([_store(stage, self.stage, result, point) for stage in self.stores])


def _store(stage: Stage, source: Stage, result: ir.Expr, point: Point) -> Stmt:
    value = substitute(stage.value, point) if stage is not source else result
    value = replace_loads(value, source.buffer, lambda _indices: result)
    return emit.store(stage.buffer, value, [point[axis.var] for axis in stage.spatial])


def row_point(tile: Tile, order: Sequence[Var], offsets: Sequence[ir.Expr]) -> Point:
    """Returns the point of one row of a tile."""
    moved = {var: tile.base[var] + offset for var, offset in zip(order, offsets, strict=True)}
    return {**tile.base, **moved}


def row_number(sizes: Sequence[int], offsets: Sequence[ir.Expr]) -> ir.Expr:
    """Returns the accumulator row of a point in the tile."""
    number: ir.Expr = index(0)
    for size, offset in zip(sizes, offsets, strict=True):
        number = number * size + offset
    return number


def update_value(stage: Stage, old: ir.Expr, point: Point) -> ir.Expr:
    """Returns the reduction's update at a point, with the old value read from elsewhere."""
    value = substitute(stage.value, point)
    if stage.clips:  # for a single term, its index and the result's cancel, and TVM 0.27 would divide by zero
        value = structural_map(
            value, (TensorLoad, lambda load: emit.load(load.source, [*map(emit.simplified, load.indices)]))
        )
    return replace_loads(value, stage.buffer, lambda _indices: old)


def over_ranges(ranges: Sequence[Range], body: Callable[[Point], Stmt]) -> Stmt:
    """Writes loops over parts of reduction axes.

    An unrolled axis makes tests of its places constants.
    """
    if not ranges:
        return body({})
    part, *rest = ranges
    if static(part.extent) == 0:
        return emit.sequence([])
    kind = tirx.ForKind.UNROLLED if part.is_written_out else tirx.ForKind.SERIAL

    def step(offset: ir.Expr) -> Stmt:
        return over_ranges(rest, lambda point: body({part.axis.var: part.start + offset, **point}))

    return emit.loop(part.extent, step, kind)


def over_edges(
    ranges: Sequence[Range],
    edges: Sequence[Clip],
    body: Callable[[Point, Sequence[Clip]], Stmt],
    tested: Sequence[Clip] = (),
) -> Stmt:
    """Writes loops as `over_ranges`; the body also gets the clips to test at a point, at an image's borders."""
    if not ranges:
        return body({}, tested)
    part, *rest = ranges
    edge = next((edge for edge in edges if edge.term.var.same_as(part.axis.var)), None)

    def along(part: Range, tested: Sequence[Clip]) -> Stmt:
        return over_ranges([part], lambda place: at(place, tested))

    def at(place: Point, tested: Sequence[Clip]) -> Stmt:
        return over_edges(rest, edges, lambda point, all_tested: body({**place, **point}, all_tested), tested)

    def either(place: Point) -> Stmt:
        is_inside = tirx.all(place[part.axis.var] >= first, place[part.axis.var] < stop)
        return emit.sequence([emit.when(is_inside, at(place, tested), at(place, outside))])

    if edge is None:
        return along(part, tested)
    (first, stop), outside = edge.inner, [*tested, edge]
    if rest or static(part.start) != 0 or static(part.extent) != part.axis.size:
        return over_ranges([part], either)
    size = int(part.extent)
    is_short = first + size - stop <= MAX_PLACES_WRITTEN_OUT
    return emit.sequence(
        [
            along(Range(part.axis, index(0), index(first), is_short), outside),
            along(Range(part.axis, index(first), index(stop - first)), tested),
            along(Range(part.axis, index(stop), index(size - stop), is_short), outside),
        ]
    )


def clipped(part: Range, clips: Sequence[Clip], base: Point, sizes: Mapping[Var, int]) -> Range:
    """Restricts a range to the terms that count for a tile.

    The others would only add zeros of the border.
    """
    for clip in clips:
        if part.axis.var.same_as(clip.term.var) and clip.result.var in base:
            start, stop = clip.bounds(base[clip.result.var], sizes.get(clip.result.var, 1))
            first = tirx.max(part.start, start)
            extent = tirx.max(tirx.min(part.start + part.extent, stop) - first, index(0))
            part = replace(part, start=emit.simplified(first), extent=emit.simplified(extent))
    return part


def row_tile(
    stage: Stage, tile: Tile, lanes: int, vectors: int, ranges: Sequence[Range], combine: Combine, finish: Finish
) -> Stmt:
    """Writes a tile whose vectors run along the last reduction axis; lanes are combined at the end, pairwise."""
    order = list(tile.sizes)
    sizes = tile.offsets(order)
    accumulators = Accumulators.of(stage, prod(sizes), vectors, lanes)

    def rows(body: Callable[[ir.Expr, Point], Stmt]) -> Stmt:
        return emit.unrolled_nest(
            sizes, lambda offsets: body(row_number(sizes, offsets), row_point(tile, order, offsets))
        )

    def fill(row: ir.Expr, _point: Point) -> Stmt:
        return emit.unrolled(
            vectors,
            lambda number: emit.vectorized(lanes, lambda lane: accumulators.store(stage.init, row, number, lane)),
        )

    def step(row: ir.Expr, number: ir.Expr | int, lane: ir.Expr | int, point: Point) -> Stmt:
        return accumulators.store(update_value(stage, accumulators.load(row, number, lane), point), row, number, lane)

    def terms(places: Point) -> Stmt:
        """Adds the terms of the innermost reduction axis to the tile's accumulators."""
        return _along_reduction(
            ranges[-1],
            lanes,
            vectors,
            lambda number, lane, place, count: rows(
                lambda row, point: emit.vectorized(
                    count, lambda at: step(row, number, lane + at, {**point, **places, ranges[-1].axis.var: place + at})
                )
            ),
        )

    last = rows(lambda row, point: _combined(accumulators, row, combine, lambda result: finish.at(result, point)))
    return emit.sequence([emit.allocate(accumulators.buffer), rows(fill), over_ranges(ranges[:-1], terms), last])


LaneBody = Callable[[ir.Expr, ir.Expr, ir.Expr, int], Stmt]


def _along_reduction(part: Range, lanes: int, vectors: int, body: LaneBody) -> Stmt:
    """Writes groups of `vectors` vectors, then single vectors, then the remainder.

    Several vectors at once hide the latency of an addition, which the next one to the same sum waits for.
    """
    group = lanes * vectors
    extent = emit.as_expr(part.extent)
    groups = emit.simplified(tirx.floordiv(extent, index(group)))
    singles = emit.simplified(tirx.floordiv(extent - groups * group, index(lanes)))
    after_groups = emit.simplified(part.start + groups * group)
    after_singles = emit.simplified(after_groups + singles * lanes)
    rest = emit.simplified(extent - groups * group - singles * lanes)
    zero = index(0)
    return emit.sequence(
        [
            _repeat(
                groups,
                lambda number_of_group: emit.unrolled(
                    vectors,
                    lambda number: body(number, zero, part.start + number_of_group * group + number * lanes, lanes),
                ),
            ),
            _repeat(singles, lambda number_of_group: body(zero, zero, after_groups + number_of_group * lanes, lanes)),
            _leftover(rest, after_singles, body),
        ]
    )


def _repeat(count: ir.Expr, body: Callable[[ir.Expr], Stmt]) -> Stmt | None:
    return None if static(count) == 0 else emit.loop(count, body)


def _leftover(rest: ir.Expr, start: ir.Expr, body: LaneBody) -> Stmt | None:
    known = static(rest)
    if known == 0:
        return None
    if known is not None:
        return emit.sequence([body(index(0), index(0), start + first, lanes) for first, lanes in _powers(known)])
    return emit.loop(rest, lambda turn: body(index(0), index(0), start + turn, 1))


def _powers(extent: int) -> list[tuple[int, int]]:
    """Cuts [0, extent) into vectors of powers of two lanes: LLVM splits others."""
    parts: list[tuple[int, int]] = []
    while extent:
        lanes = 1 << (extent.bit_length() - 1)
        parts.append((sum(size for _first, size in parts), lanes))
        extent -= lanes
    return parts


def _combined(accumulators: Accumulators, row: ir.Expr, combine: Combine, body: Callable[[ir.Expr], Stmt]) -> Stmt:
    """Combines the lanes of a row's vectors by halves, then runs the body on the result.

    Each step is a vector operation.
    """
    parts: list[Stmt | None] = []
    width = accumulators.vectors * accumulators.lanes
    while width > 1:
        half = width // 2
        parts.append(_onto_lower_half(accumulators, row, combine, half))
        width = half
    return emit.sequence([*parts, body(accumulators.load(row, 0, 0))])


def _onto_lower_half(accumulators: Accumulators, row: ir.Expr, combine: Combine, half: int) -> Stmt:
    def lane_of(lane: ir.Expr) -> Stmt:
        return accumulators.store(
            combine(accumulators.load(row, 0, lane), accumulators.load(row, 0, lane + half)), row, 0, lane
        )

    return emit.vectorized(half, lane_of)
