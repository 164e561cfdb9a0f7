"""The register tile: a block of results held in vector registers while all terms of the reduction stream by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.structure import structural_map

from . import access, emit
from .combiner import Combine
from .emit import index, static
from .kernel import Axis, Clip, Stage, is_choice, replace_loads, substitute, variables

Point = dict[Var, ir.Expr]
# What processors fetch by themselves ends with a page of 4 KiB, and comes too late where each line is used for few
# cycles: without this, a matrix of 48 MiB arrives at 23 GB/s instead of 47 (of 50 that plain sums of it reach).
BYTES_AHEAD = 8192
# An exponential is about twenty operations.
OPERATIONS_OF_A_DEAR_END = 16
# Each is a copy of a tile's step.
MOST_PLACES_WRITTEN_OUT = 8
# Arguments of llvm.prefetch: to read, to keep in all caches, data.
READ_INTO_EVERY_CACHE = (0, 3, 1)


@dataclass(frozen=True)
class Range:
    """The part of a reduction axis a tile sums over, as a loop or, where that decides tests, written out."""

    axis: Axis
    start: ir.Expr
    extent: ir.Expr
    is_written_out: bool = False

    @staticmethod
    def whole(axis: Axis) -> Range:
        return Range(axis, index(0), axis.extent)


@dataclass(frozen=True)
class Tile:
    """Where a tile lies (`base`, per spatial axis) and how many points it covers along each tiled axis."""

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

    def load(self, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> ir.Expr:
        return emit.load(self.buffer, [self.place(row, vector, lane)])

    def store(self, value: ir.Expr, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> Stmt:
        return emit.store(self.buffer, value, [self.place(row, vector, lane)])


@dataclass(frozen=True)
class Finish:
    """What to do with the finished value of each point: the stores of the epilogue, `moved` along some axes."""

    stage: Stage
    stores: tuple[Stage, ...]
    moved: Point = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """Of one point's epilogue."""
        return sum(access.operations(stage.value) for stage in self.stores if stage is not self.stage)

    def at(self, result: ir.Expr, point: Point) -> Stmt:
        point = {**point, **{var: point[var] + by for var, by in self.moved.items()}}
        return emit.sequence([_store(stage, self.stage, result, point) for stage in self.stores])


def _store(stage: Stage, source: Stage, result: ir.Expr, point: Point) -> Stmt:
    value = substitute(stage.value, point) if stage is not source else result
    value = replace_loads(value, source.buffer, lambda _indices: result)
    return emit.store(stage.buffer, value, [point[axis.var] for axis in stage.spatial])


def row_point(tile: Tile, order: Sequence[Var], offsets: Sequence[ir.Expr]) -> Point:
    """The point of one row of a tile."""
    moved = {var: tile.base[var] + offset for var, offset in zip(order, offsets, strict=True)}
    return {**tile.base, **moved}


def row_number(sizes: Sequence[int], offsets: Sequence[ir.Expr]) -> ir.Expr:
    """The accumulator row of a point in the tile."""
    number: ir.Expr = index(0)
    for size, offset in zip(sizes, offsets, strict=True):
        number = number * size + offset
    return number


def update_value(stage: Stage, old: ir.Expr, point: Point) -> ir.Expr:
    """The reduction's update at a point, with its old value held elsewhere."""
    value = substitute(stage.value, point)
    if stage.clips:  # of a single term left, its place and the result's cancel, where TVM 0.27 divides by zero
        value = structural_map(
            value, (TensorLoad, lambda load: emit.load(load.source, [*map(emit.simplified, load.indices)]))
        )
    return replace_loads(value, stage.buffer, lambda _indices: old)


def over_ranges(ranges: Sequence[Range], body: Callable[[Point], Stmt]) -> Stmt:
    """Serial loops over parts of reduction axes."""
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
    asked: Sequence[Clip] = (),
) -> Stmt:
    """The same loops, whose body is told what it must ask at a point: in an image's borders, whether a term counts."""
    if not ranges:
        return body({}, asked)
    part, *rest = ranges
    edge = next((edge for edge in edges if edge.term.var.same_as(part.axis.var)), None)

    def along(part: Range, asked: Sequence[Clip]) -> Stmt:
        return over_ranges([part], lambda place: at(place, asked))

    def at(place: Point, asked: Sequence[Clip]) -> Stmt:
        return over_edges(rest, edges, lambda point, all_asked: body({**place, **point}, all_asked), asked)

    def either(place: Point) -> Stmt:
        is_inside = tirx.all(place[part.axis.var] >= first, place[part.axis.var] < stop)
        return emit.sequence([emit.when(is_inside, at(place, asked), at(place, outside))])

    if edge is None:
        return along(part, asked)
    (first, stop), outside = edge.inner, [*asked, edge]
    if rest or static(part.start) != 0 or static(part.extent) != part.axis.size:
        return over_ranges([part], either)
    size = int(part.extent)
    is_short = first + size - stop <= MOST_PLACES_WRITTEN_OUT
    return emit.sequence(
        [
            along(Range(part.axis, index(0), index(first), is_short), outside),
            along(Range(part.axis, index(first), index(stop - first)), asked),
            along(Range(part.axis, index(stop), index(size - stop), is_short), outside),
        ]
    )


def clipped(part: Range, clips: Sequence[Clip], base: Point, sizes: Mapping[Var, int]) -> Range:
    """What a tile sums over of a range."""
    for clip in clips:
        if part.axis.var.same_as(clip.term.var) and clip.result.var in base:
            start, stop = clip.bounds(base[clip.result.var], sizes.get(clip.result.var, 1))
            first = tirx.max(part.start, start)
            extent = tirx.max(tirx.min(part.start + part.extent, stop) - first, index(0))
            part = replace(part, start=emit.simplified(first), extent=emit.simplified(extent))
    return part


def column_tile(
    stage: Stage,
    tile: Tile,
    vector: Axis,
    lanes: int,
    ranges: Sequence[Range] | None,
    start: Stage | None,
    finish: Finish,
    padded: int = 0,
    streamed: TensorLoad | None = None,
) -> Stmt:
    """A tile whose vectors run along a result axis: rows x vectors of results, one pass over the reduced terms.

    `start` is the stage that holds partial results to go on from; without it the tile starts at the reduction's init.
    Without `ranges` nothing is added to that.
    Of `padded` operands a last vector is summed with so many lanes and only stored in part. What `streamed` will read soon is
    fetched beforehand.
    """
    width = tile.sizes[vector.var]
    order = [var for var in tile.sizes if not var.same_as(vector.var)]
    sizes = tile.offsets(order)
    stored = emit.lane_chunks(width, lanes)
    summed = [(first, lanes if count == lanes else padded) for first, count in stored] if padded else stored
    held = Accumulators.of(stage, max(1, _product(sizes)), len(stored), lanes if padded else min(lanes, width))

    def each(
        body: Callable[[ir.Expr, ir.Expr, ir.Expr, Point], Stmt],
        chunks: list[tuple[int, int]] = summed,
        over_rows: Callable[..., Stmt] = emit.unrolled_nest,
        counts: Callable[[Point], ir.Expr | bool] = lambda _point: True,
    ) -> Stmt:
        def row(offsets: list[ir.Expr]) -> Stmt:
            point = row_point(tile, order, offsets)
            all_vectors = _along(
                chunks,
                lambda number, lane: body(
                    row_number(sizes, offsets),
                    number,
                    lane,
                    {**point, vector.var: tile.base[vector.var] + number * lanes + lane},
                ),
            )
            return emit.sequence([emit.when(counts(point), all_vectors)])

        return over_rows(sizes, row)

    def first(row: ir.Expr, number: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
        value = stage.init if start is None else _partial(start, point)
        return held.store(value, row, number, lane)

    def step(places: Point, asked: Sequence[Clip] = ()) -> Stmt:
        sums = each(
            lambda row, number, lane, point: held.store(
                update_value(stage, held.load(row, number, lane), {**point, **places}), row, number, lane
            ),
            counts=lambda point: tirx.all(*(edge.counts({**point, **places}) for edge in asked)) if asked else True,
        )
        if streamed is None:
            return sums
        return emit.sequence(
            [_fetched(streamed, {**tile.base, **places}, number * lanes) for number in range(held.vectors)] + [sums]
        )

    if finish.operations < OPERATIONS_OF_A_DEAR_END:
        last = each(lambda row, number, lane, point: finish.at(held.load(row, number, lane), point), stored)
    else:
        last = _ended_row_by_row(held, finish, each, stored)

    def sums(ranges: Sequence[Range]) -> Stmt:
        if stage.spread is None:
            return over_edges(ranges, stage.edges, step)
        return spread_sums(stage, held, stored, sizes, lambda at: row_point(tile, order, at), vector, ranges)

    return emit.sequence([emit.allocate(held.buffer), each(first), None if ranges is None else sums(ranges), last])


def spread_sums(
    stage: Stage,
    held: Accumulators,
    chunks: list[tuple[int, int]],
    sizes: Sequence[int],
    point_at: Callable[[Sequence[ir.Expr]], Point],
    vector: Axis,
    ranges: Sequence[Range],
) -> Stmt:
    """The sums of a tile whose `spread` operand gives each item to all of its neighbours.

    All terms of the last range are summed with what one shuffle makes of each vector, before the next shuffle.
    """
    spread = stage.spread
    if spread is None:
        raise ValueError("spread_sums: expected a stage with a spread operand")
    left = [part for part in ranges if part.axis is not spread]

    def row(places: Point, number: int, offsets: list[ir.Expr]) -> Stmt:
        point = {**point_at(offsets), **places, spread.var: index(number)}
        return emit.sequence([
            _spread_sum(stage, held, {**point, vector.var: point[vector.var] + first}, number,
                        held.place(row_number(sizes, offsets), chunk, 0), count)
            for chunk, (first, count) in enumerate(chunks)
        ])  # fmt: skip

    def numbered(outer: Point, number: int) -> Stmt:
        return over_ranges(
            left[-1:], lambda last: emit.unrolled_nest(sizes, lambda at: row({**outer, **last}, number, at))
        )

    return over_ranges(
        left[:-1], lambda outer: emit.sequence([numbered(outer, number) for number in range(int(spread.extent))])
    )


def _spread_sum(stage: Stage, held: Accumulators, point: Point, number: int, place: ir.Expr, count: int) -> Stmt:
    """One vector of sums; in an image's border only where the term counts."""
    item, counts, size = stage.value.b, True, int(stage.spread.extent) if stage.spread else 1
    if is_choice(item):
        counts, item = substitute(item.args[0], point), item.args[1]
    order = [tirx.IntImm("int32", lane // size * size + number) for lane in range(count)]

    def read(load: TensorLoad) -> ir.Expr:
        *outer, last = (emit.simplified(substitute(at, point)) for at in load.indices)
        whole = emit.load(load.source, [*outer, tirx.Ramp(last, index(1), count)])
        return whole if stage.spread is None or stage.spread.var in variables(load) else tirx.Shuffle([whole], order)

    here = [tirx.Ramp(emit.simplified(place), index(1), count)]
    summed = emit.store(held.buffer, emit.load(held.buffer, here) + read(item.a) * read(item.b), here)
    return emit.sequence([emit.when(counts, summed)])


def _ended_row_by_row(
    held: Accumulators, finish: Finish, each: Callable[..., Stmt], chunks: list[tuple[int, int]]
) -> Stmt:
    """A dear epilogue as a loop over the rows: written out for each, it takes the registers that still hold results."""
    kept = replace(held, buffer=emit.scratch(held.buffer.ty.shape, finish.stage.dtype, "kept", "local"))
    keep = each(lambda row, number, lane, _point: kept.store(held.load(row, number, lane), row, number, lane), chunks)
    ended = each(
        lambda row, number, lane, point: finish.at(kept.load(row, number, lane), point), chunks, over_rows=emit.nest
    )
    return emit.sequence([emit.allocate(kept.buffer), keep, ended])


def _fetched(load: TensorLoad, point: Point, offset: int) -> Stmt:
    """Tell the memory of a vector that will be read some steps later."""
    *outer, last = substitute(load, point).indices
    ahead = BYTES_AHEAD // (load.ty.dtype.bits // 8) + offset
    place = tirx.address_of(tirx.BufferLoad(load.source, [*outer, last + ahead]))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", place, *READ_INTO_EVERY_CACHE))


def _partial(start: Stage, point: Point) -> ir.Expr:
    return emit.load(start.buffer, [point[axis.var] for axis in start.spatial])


def _along(chunks: list[tuple[int, int]], body: Callable[[ir.Expr, ir.Expr], Stmt]) -> Stmt:
    """All vectors of a row: the whole ones, then a shorter last one."""
    lanes = chunks[0][1]
    whole = sum(1 for _start, count in chunks if count == lanes)
    main = emit.unrolled(whole, lambda number: emit.vectorized(lanes, lambda lane: body(number, lane)))
    if whole == len(chunks):
        return main
    rest = emit.vectorized(chunks[-1][1], lambda lane: body(index(whole), lane))
    return emit.sequence([main, rest])


def row_tile(
    stage: Stage, tile: Tile, lanes: int, vectors: int, ranges: Sequence[Range], combine: Combine, finish: Finish
) -> Stmt:
    """A tile whose vectors run along the last reduction axis; lanes are combined at the end, pairwise."""
    order = list(tile.sizes)
    sizes = tile.offsets(order)
    held = Accumulators.of(stage, max(1, _product(sizes)), vectors, lanes)

    def rows(body: Callable[[ir.Expr, Point], Stmt]) -> Stmt:
        return emit.unrolled_nest(
            sizes, lambda offsets: body(row_number(sizes, offsets), row_point(tile, order, offsets))
        )

    def fill(row: ir.Expr, _point: Point) -> Stmt:
        return emit.unrolled(
            vectors, lambda number: emit.vectorized(lanes, lambda lane: held.store(stage.init, row, number, lane))
        )

    def step(row: ir.Expr, number: ir.Expr | int, lane: ir.Expr | int, point: Point) -> Stmt:
        return held.store(update_value(stage, held.load(row, number, lane), point), row, number, lane)

    def terms(places: Point) -> Stmt:
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

    last = rows(lambda row, point: _combined(held, row, combine, lambda result: finish.at(result, point)))
    return emit.sequence([emit.allocate(held.buffer), rows(fill), over_ranges(ranges[:-1], terms), last])


LaneBody = Callable[[ir.Expr, ir.Expr, ir.Expr, int], Stmt]


def _along_reduction(part: Range, lanes: int, vectors: int, body: LaneBody) -> Stmt:
    """Blocks of `vectors` vectors, then single vectors, then what is left over."""
    block = lanes * vectors
    extent = emit.as_expr(part.extent)
    blocks = emit.simplified(tirx.floordiv(extent, index(block)))
    singles = emit.simplified(tirx.floordiv(extent - blocks * block, index(lanes)))
    after_blocks = emit.simplified(part.start + blocks * block)
    after_singles = emit.simplified(after_blocks + singles * lanes)
    rest = emit.simplified(extent - blocks * block - singles * lanes)
    zero = index(0)
    return emit.sequence(
        [
            _repeat(
                blocks,
                lambda turn: emit.unrolled(
                    vectors, lambda number: body(number, zero, part.start + turn * block + number * lanes, lanes)
                ),
            ),
            _repeat(singles, lambda turn: body(zero, zero, after_blocks + turn * lanes, lanes)),
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
    """Cut [0, extent) into vectors of powers of two lanes: LLVM takes others apart."""
    parts: list[tuple[int, int]] = []
    while extent:
        lanes = 1 << (extent.bit_length() - 1)
        parts.append((sum(size for _first, size in parts), lanes))
        extent -= lanes
    return parts


def _combined(held: Accumulators, row: ir.Expr, combine: Combine, body: Callable[[ir.Expr], Stmt]) -> Stmt:
    parts: list[Stmt | None] = []
    width = held.vectors * held.lanes
    while width > 1:
        half = width // 2
        parts.append(_onto_lower_half(held, row, combine, half))
        width = half
    return emit.sequence([*parts, body(held.load(row, 0, 0))])


def _onto_lower_half(held: Accumulators, row: ir.Expr, combine: Combine, half: int) -> Stmt:
    def lane_of(lane: ir.Expr) -> Stmt:
        return held.store(combine(held.load(row, 0, lane), held.load(row, 0, lane + half)), row, 0, lane)

    return emit.vectorized(half, lane_of)


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total
