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
    Epilogue,
    Point,
    Range,
    Tile,
    accumulator_row,
    over_edges,
    over_ranges,
    row_point,
    update_value,
)

# Hardware prefetching ends at 4 KiB pages, and comes too late where each line is used for few cycles. Without this, a
# matrix of 48 MiB arrives at 23 GB/s instead of 47 (plain sums of it reach 50).
BYTES_AHEAD = 8192
# Minimum number of operations of an epilogue that is a loop over rows; an exponential is about twenty.
OPERATIONS_OF_COSTLY_EPILOGUE = 16
# Arguments of llvm.prefetch: read, keep in all caches, data.
READ_INTO_EVERY_CACHE = (0, 3, 1)

Span = tuple[int, int]
"""The first lane of a vector, and its number of lanes."""
VectorBody = Callable[[ir.Expr, ir.Expr, ir.Expr, Point], Stmt]
"""Emits one vector, given the row, the vector's index in the row, the lane, and the point that these stand for."""


@dataclass(frozen=True)
class ColumnTile:
    """A register tile whose vectors run along a result axis: rows of vectors of results, summed in one pass.

    If operands are padded, `padded` is the number of lanes in which a row's last vector is summed. Only its results are
    stored.
    """

    stage: Stage
    tile: Tile
    vector: Axis
    lanes: int
    padded: int = 0

    @cached_property
    def order(self) -> list[Var]:
        """The tiled axes other than that of the vectors: the rows of the tile."""
        return [var for var in self.tile.sizes if not var.same_as(self.vector.var)]

    @cached_property
    def sizes(self) -> list[int]:
        """The tile's extents along its row axes."""
        return self.tile.sizes_along(self.order)

    @cached_property
    def stored_spans(self) -> list[Span]:
        """The vectors of a row of results, as (first lane, lanes)."""
        return emit.vector_spans(self.tile.sizes[self.vector.var], self.lanes)

    @cached_property
    def summed_spans(self) -> list[Span]:
        """The vectors of a row in which sums are computed: with the padding of operands in the last one."""
        if not self.padded:
            return self.stored_spans
        return [(first, self.lanes if count == self.lanes else self.padded) for first, count in self.stored_spans]

    @cached_property
    def accumulators(self) -> Accumulators:
        """The vector registers for the tile's sums, as a local buffer."""
        lanes = self.lanes if self.padded else min(self.lanes, self.tile.sizes[self.vector.var])
        return Accumulators.of(self.stage, prod(self.sizes), len(self.stored_spans), lanes)

    def write(
        self,
        ranges: Sequence[Range] | None,
        start: Stage | None,
        epilogue: Epilogue,
        streamed: TensorLoad | None = None,
    ) -> Stmt:
        """Emits the tile: initial values, the sums over the terms, and the epilogue with its stores.

        Args:
            ranges: the terms to sum; None emits only the epilogue, as loops, since no registers hold sums.
            start: the stage that holds partial results to continue from; without it, the reduction's init.
            epilogue: the stages to run on each result.
            streamed: an operand to prefetch.
        """
        if ranges is None:
            return self._for_each_vector(
                lambda row, vector, lane, point: epilogue.write(self._initial_value(start, point), point),
                self.stored_spans,
                is_loop=True,
            )
        sums = self._sums(ranges, streamed)
        return emit.sequence(
            [emit.allocate(self.accumulators.buffer), self._initialize(start), sums, self._store_results(epilogue)]
        )

    def with_epilogue(self, sums: Stmt, epilogue: Epilogue) -> Stmt:
        """Emits the epilogue on sums that the statement `sums` leaves in the accumulators' buffer.

        `sums` is a subroutine call, which leaves them in memory. No registers are kept, so rows can be a loop.
        """
        accumulators = self.accumulators
        last = self._for_each_vector(
            lambda row, vector, lane, point: epilogue.write(accumulators.load(row, vector, lane), point),
            self.stored_spans,
            is_loop=True,
        )
        return emit.sequence([emit.allocate(accumulators.buffer), sums, last])

    def _for_each_vector(
        self,
        body: VectorBody,
        spans: list[Span],
        is_loop: bool = False,
        counts: Callable[[Point], ir.Expr | bool] = lambda _point: True,
    ) -> Stmt:
        """Emits `body` for every vector of the tile.

        By default rows and vectors are unrolled: with constant indices, LLVM keeps the accumulators in registers.

        Args:
            body: emits one vector.
            spans: the first lane and the number of lanes of each vector of a row.
            is_loop: whether rows and vectors are loops, which take less time to compile.
            counts: returns the condition on which a row is included.
        """

        def write_row(offsets: list[ir.Expr]) -> Stmt:
            point, row = row_point(self.tile, self.order, offsets), accumulator_row(self.sizes, offsets)
            vectors = self._vectors_of_row(body, spans, row, point, emit.loop if is_loop else emit.unrolled)
            return emit.sequence([emit.when(counts(point), vectors)])

        return (emit.nest if is_loop else emit.unrolled_nest)(self.sizes, write_row)

    def _vectors_of_row(
        self, body: VectorBody, spans: list[Span], row: ir.Expr, point: Point, over_vectors: Callable[..., Stmt]
    ) -> Stmt:
        """Emits `body` for every vector of one row of the register tile.

        `spans` are the first lane and the number of lanes of each vector. `point` holds the values of the other axes.
        """

        def emit_vector(vector: ir.Expr, lane: ir.Expr) -> Stmt:
            coordinate = self.tile.base[self.vector.var] + vector * self.lanes + lane
            return body(row, vector, lane, {**point, self.vector.var: coordinate})

        return _vector_loop(spans, emit_vector, over_vectors)

    def _initialize(self, start: Stage | None) -> Stmt:
        """Emits stores of the initial values, or of the partial results of `start`, to all accumulators."""

        def store(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
            return self.accumulators.store(self._initial_value(start, point), row, vector, lane)

        return self._for_each_vector(store, self.summed_spans)

    def _initial_value(self, start: Stage | None, point: Point) -> ir.Expr:
        """Returns the reduction's initial value, or the partial result that the stage `start` holds."""
        return self.stage.init if start is None else _partial_result(start, point)

    def _sums(self, ranges: Sequence[Range], streamed: TensorLoad | None) -> Stmt:
        """Emits the loops over the terms of the reduction, which add to the accumulators."""
        if self.stage.broadcast_axis is not None:
            return self._broadcast_sums(ranges, self.stage.broadcast_axis)
        return over_edges(ranges, self.stage.edges, partial(self._add_terms, streamed))

    def _add_terms(self, streamed: TensorLoad | None, terms_point: Point, checked: Sequence[Clip] = ()) -> Stmt:
        """Emits the addition of one term to every result of the tile.

        `checked` are the edges of an image whose bounds are checked: beyond them, nothing is added.
        """

        def add(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
            value = update_value(self.stage, self.accumulators.load(row, vector, lane), {**point, **terms_point})
            return self.accumulators.store(value, row, vector, lane)

        def counts(point: Point) -> ir.Expr | bool:
            return tirx.all(*(edge.includes({**point, **terms_point}) for edge in checked)) if checked else True

        prefetched_vectors = range(self.accumulators.vectors) if streamed is not None else ()
        prefetches = [
            _prefetch(streamed, {**self.tile.base, **terms_point}, vector * self.lanes) for vector in prefetched_vectors
        ]
        return emit.sequence([*prefetches, self._for_each_vector(add, self.summed_spans, counts=counts)])

    def _broadcast_sums(self, ranges: Sequence[Range], broadcast_axis: Axis) -> Stmt:
        """Emits the sums of a grouped convolution, where one input element is a factor of several neighbouring results.

        A shuffle broadcasts the element to the lanes of these results. All terms of the last range use the shuffled
        vector, before the next shuffle.
        """
        other_ranges = [part for part in ranges if part.axis is not broadcast_axis]

        def terms_with_shuffle(outer_point: Point, item: int) -> Stmt:
            return over_ranges(
                other_ranges[-1:],
                lambda last_point: add_to_rows({**outer_point, **last_point, broadcast_axis.var: index(item)}, item),
            )

        def add_to_rows(terms_point: Point, item: int) -> Stmt:
            return emit.unrolled_nest(self.sizes, lambda offsets: self._broadcast_row(terms_point, item, offsets))

        items = range(int(broadcast_axis.extent))
        return over_ranges(
            other_ranges[:-1],
            lambda outer_point: emit.sequence([terms_with_shuffle(outer_point, item) for item in items]),
        )

    def _broadcast_row(self, terms_point: Point, item: int, offsets: list[ir.Expr]) -> Stmt:
        """Emits the addition of one term of a grouped convolution to one row of the register tile.

        The input element at index `item` of each group is broadcast to the group's results. `offsets` locate the row.
        """
        point, row = {**row_point(self.tile, self.order, offsets), **terms_point}, accumulator_row(self.sizes, offsets)
        start = point[self.vector.var]
        vectors = [
            _broadcast_vector(
                self.stage,
                self.accumulators,
                {**point, self.vector.var: start + first},
                item,
                self.accumulators.offset(row, vector, 0),
                count,
            )
            for vector, (first, count) in enumerate(self.stored_spans)
        ]
        return emit.sequence(vectors)

    def _store_results(self, epilogue: Epilogue) -> Stmt:
        """Emits the epilogue (the stages that finish and store results) on the accumulators.

        A costly epilogue runs row by row in a loop. Others are unrolled.
        """
        if epilogue.operations >= OPERATIONS_OF_COSTLY_EPILOGUE:
            return self._epilogue_row_by_row(epilogue)
        accumulators = self.accumulators
        return self._for_each_vector(
            lambda row, vector, lane, point: epilogue.write(accumulators.load(row, vector, lane), point),
            self.stored_spans,
        )

    def _epilogue_row_by_row(self, epilogue: Epilogue) -> Stmt:
        """Emits a costly epilogue as a loop over rows, on a copy of the accumulators.

        Unrolled, the epilogue would need the registers that hold results.
        """
        accumulators = self.accumulators
        saved = replace(
            accumulators, buffer=emit.scratch(accumulators.buffer.ty.shape, epilogue.stage.dtype, "kept", "local")
        )

        def save(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, _point: Point) -> Stmt:
            return saved.store(accumulators.load(row, vector, lane), row, vector, lane)

        def epilogue_of_saved(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, point: Point) -> Stmt:
            return epilogue.write(saved.load(row, vector, lane), point)

        with_epilogue = self._for_each_vector(epilogue_of_saved, self.stored_spans, is_loop=True)
        return emit.sequence(
            [emit.allocate(saved.buffer), self._for_each_vector(save, self.stored_spans), with_epilogue]
        )


def _broadcast_vector(
    stage: Stage, accumulators: Accumulators, point: Point, item: int, first_offset: ir.Expr, count: int
) -> Stmt:
    """Emits the addition of one term to one vector of accumulators, with one input element per group broadcast to its lanes.

    At an image's border, nothing is added outside of the image.
    """
    product, is_inside, group_size = (
        stage.value.b,
        True,
        int(stage.broadcast_axis.extent) if stage.broadcast_axis else 1,
    )
    if is_choice(product):
        is_inside, product = substitute(product.args[0], point), product.args[1]
    order = [tirx.IntImm("int32", lane // group_size * group_size + item) for lane in range(count)]

    def read(load: TensorLoad) -> ir.Expr:
        """Loads an operand for all lanes. An element that neighbouring lanes share is shuffled to them."""
        *outer, last = (emit.simplified(substitute(at, point)) for at in load.indices)
        neighbours = emit.load(load.source, [*outer, tirx.Ramp(last, index(1), count)])
        return (
            neighbours
            if stage.broadcast_axis is None or stage.broadcast_axis.var in variables(load)
            else tirx.Shuffle([neighbours], order)
        )

    accumulator_index = [tirx.Ramp(emit.simplified(first_offset), index(1), count)]
    summed = emit.store(
        accumulators.buffer,
        emit.load(accumulators.buffer, accumulator_index) + read(product.a) * read(product.b),
        accumulator_index,
    )
    return emit.sequence([emit.when(is_inside, summed)])


def _prefetch(load: TensorLoad, point: Point, offset: int) -> Stmt:
    """Emits a prefetch of the vector that lies a fixed distance after the vector at a point of an operand."""
    *outer, last = substitute(load, point).indices
    ahead = BYTES_AHEAD // (load.ty.dtype.bits // 8) + offset
    address = tirx.address_of(tirx.BufferLoad(load.source, [*outer, last + ahead]))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, *READ_INTO_EVERY_CACHE))


def _partial_result(start: Stage, point: Point) -> ir.Expr:
    """Returns the load of the partial result that a stage stored at a point."""
    return emit.load(start.buffer, [point[axis.var] for axis in start.spatial])


def _vector_loop(
    spans: list[tuple[int, int]], body: Callable[[ir.Expr, ir.Expr], Stmt], over_vectors: Callable[..., Stmt]
) -> Stmt:
    """Emits `body(vector, lane)` for all vectors of a row: full ones in a loop, then a shorter last one."""
    # Only the last of the spans (first lane, lanes) may be shorter.
    lanes = spans[0][1]
    whole_vectors = sum(1 for _start, count in spans if count == lanes)
    whole = over_vectors(whole_vectors, lambda vector: emit.vectorized(lanes, lambda lane: body(vector, lane)))
    if whole_vectors == len(spans):
        return whole
    last = emit.vectorized(spans[-1][1], lambda lane: body(index(whole_vectors), lane))
    return emit.sequence([whole, last])
