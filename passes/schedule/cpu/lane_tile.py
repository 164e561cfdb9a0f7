"""Register tiles whose vectors run along a result axis: each lane is a result of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.variable_lock import cached_property
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Clip, Stage, is_choice, substitute, variables
from tvtf.passes.schedule.cpu.tile import (
    Accumulators,
    Finish,
    Point,
    Range,
    Tile,
    over_edges,
    over_ranges,
    row_number,
    row_point,
    update_value,
)

# Hardware prefetching ends at 4 KiB pages, and comes too late where each line is used for few cycles. Without this, a
# matrix of 48 MiB arrives at 23 GB/s instead of 47 (plain sums of it reach 50).
BYTES_AHEAD = 8192
# Operations of an epilogue from which on it is a loop over rows; an exponential is about twenty.
OPERATIONS_OF_COSTLY_EPILOGUE = 16
# Arguments of llvm.prefetch: read, keep in all caches, data.
READ_INTO_EVERY_CACHE = (0, 3, 1)

Span = tuple[int, int]
"""The first lane of a vector, and its number of lanes."""
Body = Callable[[ir.Expr, ir.Expr, ir.Expr, Point], Stmt]
"""Writes one vector: given the row, the vector's number in it, the lane, and the point that these stand for."""


@dataclass(frozen=True)
class ColumnTile:
    """Rows x vectors of results, summed in one pass over the terms.

    If operands are `padded`, the last vector of a row is summed with that many lanes, and only its results are stored.
    """

    stage: Stage
    tile: Tile
    vector: Axis
    lanes: int
    padded: int = 0

    @cached_property
    def order(self) -> list[Var]:
        return [var for var in self.tile.sizes if not var.same_as(self.vector.var)]

    @cached_property
    def sizes(self) -> list[int]:
        return self.tile.offsets(self.order)

    @cached_property
    def stored(self) -> list[Span]:
        return emit.vector_spans(self.tile.sizes[self.vector.var], self.lanes)

    @cached_property
    def summed(self) -> list[Span]:
        if not self.padded:
            return self.stored
        return [(first, self.lanes if count == self.lanes else self.padded) for first, count in self.stored]

    @cached_property
    def accumulators(self) -> Accumulators:
        lanes = self.lanes if self.padded else min(self.lanes, self.tile.sizes[self.vector.var])
        return Accumulators.of(self.stage, prod(self.sizes), len(self.stored), lanes)

    def write(
        self, ranges: Sequence[Range] | None, start: Stage | None, finish: Finish, streamed: TensorLoad | None = None
    ) -> Stmt:
        """Writes the tile.

        Args:
            ranges: the terms to sum; None sums nothing, for which loops do: there is nothing to keep in registers.
            start: the stage that holds partial results to continue from; without it, the reduction's init.
            finish: the epilogue.
            streamed: an operand to prefetch.
        """
        if ranges is None:
            return self._each(
                lambda row, number, lane, point: finish.at(self._first_value(start, point), point),
                self.stored,
                over_rows=emit.nest,
            )
        sums = self._sums(ranges, streamed)
        return emit.sequence([emit.allocate(self.accumulators.buffer), self._first(start), sums, self._last(finish)])

    def ended(self, sums: Stmt, finish: Finish) -> Stmt:
        """Writes the epilogue on sums that a statement leaves in the accumulators.

        A subroutine leaves them in memory, so that there are no registers to keep, and rows can be a loop.
        """
        accumulators = self.accumulators
        last = self._each(
            lambda row, number, lane, point: finish.at(accumulators.load(row, number, lane), point),
            self.stored,
            over_rows=emit.nest,
        )
        return emit.sequence([emit.allocate(accumulators.buffer), sums, last])

    def _each(
        self,
        body: Body,
        spans: list[Span],
        over_rows: Callable[..., Stmt] = emit.unrolled_nest,
        counts: Callable[[Point], ir.Expr | bool] = lambda _point: True,
    ) -> Stmt:
        """Writes something for every vector, of those rows that count.

        Rows are unrolled, so that the accumulators' indices are constants and LLVM keeps them in registers.
        """

        def row(offsets: list[ir.Expr]) -> Stmt:
            point, number = row_point(self.tile, self.order, offsets), row_number(self.sizes, offsets)
            return emit.sequence([emit.when(counts(point), self._vectors(body, spans, number, point))])

        return over_rows(self.sizes, row)

    def _vectors(self, body: Body, spans: list[Span], row: ir.Expr, point: Point) -> Stmt:
        def vector(number: ir.Expr, lane: ir.Expr) -> Stmt:
            place = self.tile.base[self.vector.var] + number * self.lanes + lane
            return body(row, number, lane, {**point, self.vector.var: place})

        return _along(spans, vector)

    def _first(self, start: Stage | None) -> Stmt:
        def store(row: ir.Expr, number: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
            return self.accumulators.store(self._first_value(start, point), row, number, lane)

        return self._each(store, self.summed)

    def _first_value(self, start: Stage | None, point: Point) -> ir.Expr:
        return self.stage.init if start is None else _partial(start, point)

    def _sums(self, ranges: Sequence[Range], streamed: TensorLoad | None) -> Stmt:
        if self.stage.spread is not None:
            return self._spread_sums(ranges, self.stage.spread)
        return over_edges(ranges, self.stage.edges, partial(self._step, streamed))

    def _step(self, streamed: TensorLoad | None, places: Point, tested: Sequence[Clip] = ()) -> Stmt:
        """Writes one term of every result; if edges are `tested`, only where the term counts."""

        def add(row: ir.Expr, number: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
            value = update_value(self.stage, self.accumulators.load(row, number, lane), {**point, **places})
            return self.accumulators.store(value, row, number, lane)

        def counts(point: Point) -> ir.Expr | bool:
            return tirx.all(*(edge.counts({**point, **places}) for edge in tested)) if tested else True

        ahead = range(self.accumulators.vectors) if streamed is not None else ()
        fetched = [_fetched(streamed, {**self.tile.base, **places}, number * self.lanes) for number in ahead]
        return emit.sequence([*fetched, self._each(add, self.summed, counts=counts)])

    def _spread_sums(self, ranges: Sequence[Range], spread: Axis) -> Stmt:
        """Sums where the `spread` operand gives each item to all of its neighbours.

        Each shuffle of a vector is used for all terms of the last range before the next shuffle is made.
        """
        left = [part for part in ranges if part.axis is not spread]

        def numbered(outer: Point, number: int) -> Stmt:
            return over_ranges(left[-1:], lambda last: rows({**outer, **last, spread.var: index(number)}, number))

        def rows(places: Point, number: int) -> Stmt:
            return emit.unrolled_nest(self.sizes, lambda at: self._spread_row(places, number, at))

        numbers = range(int(spread.extent))
        return over_ranges(left[:-1], lambda outer: emit.sequence([numbered(outer, number) for number in numbers]))

    def _spread_row(self, places: Point, number: int, offsets: list[ir.Expr]) -> Stmt:
        """Writes the spread sums of one row."""
        point, row = {**row_point(self.tile, self.order, offsets), **places}, row_number(self.sizes, offsets)
        start = point[self.vector.var]
        vectors = [
            _spread_sum(
                self.stage,
                self.accumulators,
                {**point, self.vector.var: start + first},
                number,
                self.accumulators.place(row, vector, 0),
                count,
            )
            for vector, (first, count) in enumerate(self.stored)
        ]
        return emit.sequence(vectors)

    def _last(self, finish: Finish) -> Stmt:
        if finish.operations >= OPERATIONS_OF_COSTLY_EPILOGUE:
            return self._ended_row_by_row(finish)
        accumulators = self.accumulators
        return self._each(
            lambda row, number, lane, point: finish.at(accumulators.load(row, number, lane), point), self.stored
        )

    def _ended_row_by_row(self, finish: Finish) -> Stmt:
        """Writes an expensive epilogue as a loop over rows: unrolled, it would need registers that hold results."""
        accumulators = self.accumulators
        saved = replace(
            accumulators, buffer=emit.scratch(accumulators.buffer.ty.shape, finish.stage.dtype, "kept", "local")
        )

        def save(row: ir.Expr, number: ir.Expr, lane: ir.Expr, _point: Point) -> Stmt:
            return saved.store(accumulators.load(row, number, lane), row, number, lane)

        def finish_saved(row: ir.Expr, number: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
            return finish.at(saved.load(row, number, lane), point)

        ended = self._each(finish_saved, self.stored, over_rows=emit.nest)
        return emit.sequence([emit.allocate(saved.buffer), self._each(save, self.stored), ended])


def _spread_sum(
    stage: Stage, accumulators: Accumulators, point: Point, number: int, place: ir.Expr, count: int
) -> Stmt:
    """Writes one vector of sums; at an image's border, only where the term counts."""
    item, counts, size = stage.value.b, True, int(stage.spread.extent) if stage.spread else 1
    if is_choice(item):
        counts, item = substitute(item.args[0], point), item.args[1]
    order = [tirx.IntImm("int32", lane // size * size + number) for lane in range(count)]

    def read(load: TensorLoad) -> ir.Expr:
        """Loads an operand for all lanes; one that is shared between neighbouring lanes is shuffled to them."""
        *outer, last = (emit.simplified(substitute(at, point)) for at in load.indices)
        neighbours = emit.load(load.source, [*outer, tirx.Ramp(last, index(1), count)])
        return (
            neighbours
            if stage.spread is None or stage.spread.var in variables(load)
            else tirx.Shuffle([neighbours], order)
        )

    here = [tirx.Ramp(emit.simplified(place), index(1), count)]
    summed = emit.store(accumulators.buffer, emit.load(accumulators.buffer, here) + read(item.a) * read(item.b), here)
    return emit.sequence([emit.when(counts, summed)])


def _fetched(load: TensorLoad, point: Point, offset: int) -> Stmt:
    """Prefetches a vector that is read some steps later."""
    *outer, last = substitute(load, point).indices
    ahead = BYTES_AHEAD // (load.ty.dtype.bits // 8) + offset
    place = tirx.address_of(tirx.BufferLoad(load.source, [*outer, last + ahead]))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", place, *READ_INTO_EVERY_CACHE))


def _partial(start: Stage, point: Point) -> ir.Expr:
    return emit.load(start.buffer, [point[axis.var] for axis in start.spatial])


def _along(spans: list[tuple[int, int]], body: Callable[[ir.Expr, ir.Expr], Stmt]) -> Stmt:
    """Writes all vectors of a row: the whole ones, then a shorter last one."""
    lanes = spans[0][1]
    whole_vectors = sum(1 for _start, count in spans if count == lanes)
    main = emit.unrolled(whole_vectors, lambda number: emit.vectorized(lanes, lambda lane: body(number, lane)))
    if whole_vectors == len(spans):
        return main
    rest = emit.vectorized(spans[-1][1], lambda lane: body(index(whole_vectors), lane))
    return emit.sequence([main, rest])
