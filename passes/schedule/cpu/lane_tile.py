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
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Clip, Stage, is_choice, substitute, variables
from tvtf.passes.schedule.cpu.tile import (
    Accumulators,
    Epilogue,
    Range,
    Tile,
    accumulator_row,
    indices_of_row,
    loop_over_edges,
    loop_over_ranges,
    update_value,
)

# Hardware prefetching ends at 4 KiB pages, and comes too late where each line is used for few cycles. Without this, a
# matrix of 48 MiB arrives at 23 GB/s instead of 47 (plain sums of it reach 50).
PREFETCH_DISTANCE_BYTES = 8192
# Minimum number of operations of an epilogue that is a loop over rows; an exponential is about twenty.
MIN_OPERATIONS_OF_COSTLY_EPILOGUE = 16
# Arguments of llvm.prefetch: read, keep in all caches, data.
READ_INTO_EVERY_CACHE = (0, 3, 1)

Span = tuple[int, int]
"""The first lane of a vector, and its number of lanes."""
VectorBody = Callable[[ir.Expr, ir.Expr, ir.Expr, AxisIndices], Stmt]
"""Emits one vector, given the row, the vector's index in the row, the lane, and the index along each axis that these stand for."""


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

    def emit_tile(
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
            return self._epilogue_on_stored_sums(start, epilogue)
        allocation = emit.allocate(self.accumulators.buffer)
        prologue = self._initialize(start)
        return emit.sequence([allocation, prologue, self._sums(ranges, streamed), self._store_results(epilogue)])

    def _epilogue_on_stored_sums(self, start: Stage | None, epilogue: Epilogue) -> Stmt:
        """Emits only the epilogue, on the partial results of `start`, or on the initial value."""

        def finish_result(_row: ir.Expr, _vector: ir.Expr, _lane: ir.Expr, axis_indices: AxisIndices) -> Stmt:
            return epilogue.emit_stores(self._initial_value(start, axis_indices), axis_indices)

        return self._for_each_vector(finish_result, self.stored_spans, is_loop=True)

    def with_epilogue(self, sums: Stmt, epilogue: Epilogue) -> Stmt:
        """Emits a subroutine call that stores a tile's sums in the accumulators' buffer, then the epilogue on them.

        The rows of the epilogue are a loop, which takes less time to compile than unrolled rows. This is possible since
        the sums are in memory: only registers need constant indices.

        Args:
            sums: the call of the subroutine.
            epilogue: the stages to run on each result.
        """
        finish_results = self._for_each_vector(self._finish_sum(epilogue), self.stored_spans, is_loop=True)
        return emit.sequence([emit.allocate(self.accumulators.buffer), sums, finish_results])

    def _finish_sum(self, epilogue: Epilogue) -> VectorBody:
        """Returns a function that emits the epilogue on one vector of accumulators."""

        def finish(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, axis_indices: AxisIndices) -> Stmt:
            return epilogue.emit_stores(self.accumulators.load(row, vector, lane), axis_indices)

        return finish

    def _for_each_vector(
        self,
        body: VectorBody,
        spans: list[Span],
        is_loop: bool = False,
        row_condition: Callable[[AxisIndices], ir.Expr | bool] = lambda _axis_indices: True,
    ) -> Stmt:
        """Emits `body` for every vector of the register tile.

        By default rows and vectors are unrolled: with constant indices, LLVM keeps the accumulators in registers.

        Args:
            body: emits one vector.
            spans: the first lane and the number of lanes of each vector of a row.
            is_loop: whether rows and vectors are loops, which take less time to compile.
            row_condition: returns the condition on which a row is computed, given the row's index along each axis.
        """
        loop_over_vectors, nest_over_rows = (emit.loop, emit.nest) if is_loop else (emit.unrolled, emit.unrolled_nest)

        def emit_row(offsets: list[ir.Expr]) -> Stmt:
            row = accumulator_row(self.sizes, offsets)
            row_indices = indices_of_row(self.tile, self.order, offsets)
            vectors = self._vectors_of_row(body, spans, row, row_indices, loop_over_vectors)
            return emit.sequence([emit.when(row_condition(row_indices), vectors)])

        return nest_over_rows(self.sizes, emit_row)

    def _vectors_of_row(
        self,
        body: VectorBody,
        spans: list[Span],
        row: ir.Expr,
        row_indices: AxisIndices,
        loop_over_vectors: Callable[..., Stmt],
    ) -> Stmt:
        """Emits `body` for every vector of one row of the register tile.

        Args:
            body: emits one vector.
            spans: the first lane and the number of lanes of each vector.
            row: the row of accumulators.
            row_indices: the index along each axis but that of the vectors.
            loop_over_vectors: emits the loop over full vectors, unrolled or not.
        """

        def emit_lane(vector: ir.Expr, lane: ir.Expr) -> Stmt:
            """Emits one lane of a vector."""
            column = self.tile.base[self.vector.var] + vector * self.lanes + lane
            return body(row, vector, lane, {**row_indices, self.vector.var: column})

        return _vector_loop(spans, emit_lane, loop_over_vectors)

    def _initialize(self, start: Stage | None) -> Stmt:
        """Emits stores of the initial values, or of the partial results of `start`, to all accumulators."""

        def store(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, axis_indices: AxisIndices) -> Stmt:
            return self.accumulators.store(self._initial_value(start, axis_indices), row, vector, lane)

        return self._for_each_vector(store, self.summed_spans)

    def _initial_value(self, start: Stage | None, axis_indices: AxisIndices) -> ir.Expr:
        """Returns the reduction's initial value, or the partial result that the stage `start` holds."""
        return self.stage.init if start is None else _partial_result(start, axis_indices)

    def _sums(self, ranges: Sequence[Range], streamed: TensorLoad | None) -> Stmt:
        """Emits the loops over the terms of the reduction, which add to the accumulators."""
        if self.stage.broadcast_axis is not None:
            return self._broadcast_sums(ranges, self.stage.broadcast_axis)
        return loop_over_edges(ranges, self.stage.edges, partial(self._add_terms, streamed))

    def _add_terms(self, streamed: TensorLoad | None, term_indices: AxisIndices, checked: Sequence[Clip] = ()) -> Stmt:
        """Emits the addition of one term to every result of the register tile.

        Each loaded vector and broadcast element is used for many results, which is what a register tile is for.

        Args:
            streamed: the operand to prefetch, if any.
            term_indices: the index of the term along each reduction axis.
            checked: the edges of an image whose bounds are checked: nothing is added for terms outside of the image.
        """

        def add_term(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, axis_indices: AxisIndices) -> Stmt:
            value = update_value(
                self.stage, self.accumulators.load(row, vector, lane), {**axis_indices, **term_indices}
            )
            return self.accumulators.store(value, row, vector, lane)

        def is_inside_image(axis_indices: AxisIndices) -> ir.Expr | bool:
            return tirx.all(*(edge.includes({**axis_indices, **term_indices}) for edge in checked)) if checked else True

        prefetches = []
        if streamed is not None:
            first_indices = {**self.tile.base, **term_indices}
            vectors = range(self.accumulators.vectors)
            prefetches = [_prefetch(streamed, first_indices, vector * self.lanes) for vector in vectors]
        additions = self._for_each_vector(add_term, self.summed_spans, row_condition=is_inside_image)
        return emit.sequence([*prefetches, additions])

    def _broadcast_sums(self, ranges: Sequence[Range], broadcast_axis: Axis) -> Stmt:
        """Emits the sums of a grouped convolution, where one input channel is a factor of several neighbouring results.

        A shuffle broadcasts the channel's element to the lanes of these results. The innermost loop runs over the last
        of the other axes of terms, whose iterations all use one shuffled vector.

        Args:
            ranges: the terms to sum along each axis.
            broadcast_axis: the axis of the input channels of a group.
        """
        other_ranges = [range_ for range_ in ranges if range_.axis is not broadcast_axis]
        # There are none if the window has a single element.
        outer_ranges, innermost_ranges = other_ranges[:-1], other_ranges[-1:]
        channel_count = int(broadcast_axis.extent)

        def add_terms_of_channel(outer_indices: AxisIndices, channel: int) -> Stmt:
            """Emits the sum over the innermost axis of terms, for one input channel of each group."""
            channel_index = {broadcast_axis.var: index(channel)}

            def add_term(innermost_index: AxisIndices) -> Stmt:
                """Emits the addition of one term to all rows of the tile."""
                term_indices = {**outer_indices, **channel_index, **innermost_index}
                add_to_row = partial(self._broadcast_row, term_indices, channel)
                return emit.unrolled_nest(self.sizes, add_to_row)

            return loop_over_ranges(innermost_ranges, add_term)

        def add_terms(outer_indices: AxisIndices) -> Stmt:
            """Emits the sums over all channels at one index of the outer axes."""
            return emit.sequence([add_terms_of_channel(outer_indices, channel) for channel in range(channel_count)])

        return loop_over_ranges(outer_ranges, add_terms)

    def _broadcast_row(self, term_indices: AxisIndices, channel: int, offsets: list[ir.Expr]) -> Stmt:
        """Emits the addition of one term of a grouped convolution to one row of the register tile.

        The element of each group's input channel is broadcast to the group's results.

        Args:
            term_indices: the index along each axis of terms.
            channel: the input channel.
            offsets: the row's index along each row axis of the tile.
        """
        axis_indices = {**indices_of_row(self.tile, self.order, offsets), **term_indices}
        row = accumulator_row(self.sizes, offsets)
        first_result = axis_indices[self.vector.var]
        additions: list[Stmt | None] = []
        for vector, (first_lane, lane_count) in enumerate(self.stored_spans):
            vector_indices = {**axis_indices, self.vector.var: first_result + first_lane}
            offset = self.accumulators.offset(row, vector, 0)
            additions.append(
                _broadcast_vector(self.stage, self.accumulators, vector_indices, channel, offset, lane_count)
            )
        return emit.sequence(additions)

    def _store_results(self, epilogue: Epilogue) -> Stmt:
        """Emits the epilogue (the stages that finish and store results) on the accumulators.

        A costly epilogue runs row by row in a loop. Others are unrolled, and read the accumulators from registers.
        """
        if epilogue.operations >= MIN_OPERATIONS_OF_COSTLY_EPILOGUE:
            return self._epilogue_row_by_row(epilogue)
        return self._for_each_vector(self._finish_sum(epilogue), self.stored_spans)

    def _epilogue_row_by_row(self, epilogue: Epilogue) -> Stmt:
        """Emits a costly epilogue as a loop over rows, on a copy of the accumulators in memory.

        An unrolled costly epilogue would need too many registers besides the accumulators. A loop can't index
        registers, so these are copied to memory first.
        """
        accumulators = self.accumulators
        copy_buffer = emit.scratch(accumulators.buffer.ty.shape, epilogue.stage.dtype, "kept", "local")
        copied = replace(accumulators, buffer=copy_buffer)

        def copy(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, _axis_indices: AxisIndices) -> Stmt:
            """Emits the copy of one accumulator to memory."""
            return copied.store(accumulators.load(row, vector, lane), row, vector, lane)

        def finish(row: ir.Expr, vector: ir.Expr, lane: ir.Expr, axis_indices: AxisIndices) -> Stmt:
            """Emits the epilogue on one copied accumulator."""
            return epilogue.emit_stores(copied.load(row, vector, lane), axis_indices)

        copy_all = self._for_each_vector(copy, self.stored_spans)
        finish_all = self._for_each_vector(finish, self.stored_spans, is_loop=True)
        return emit.sequence([emit.allocate(copy_buffer), copy_all, finish_all])


def _broadcast_vector(
    stage: Stage, accumulators: Accumulators, axis_indices: AxisIndices, channel: int, first_offset: ir.Expr, count: int
) -> Stmt:
    """Emits the addition of one term to one vector of accumulators, with one input element per group broadcast to its lanes.

    At an image's border, nothing is added outside of the image.
    """
    product, is_inside = stage.value.b, True
    if is_choice(product):
        # The product is `if_then_else(is_inside, product, 0)`.
        is_inside, product = substitute(product.args[0], axis_indices), product.args[1]
    group_size = int(stage.broadcast_axis.extent) if stage.broadcast_axis else 1
    # All lanes of a group take the element of one input channel: with groups of 2 and channel 1, `[1, 1, 3, 3, ...]`.
    broadcast_lanes = [tirx.IntImm("int32", lane // group_size * group_size + channel) for lane in range(count)]

    def read(load: TensorLoad) -> ir.Expr:
        """Loads an operand for all lanes. An element that neighbouring lanes share is shuffled to them."""
        *outer, last = (emit.simplified(substitute(at, axis_indices)) for at in load.indices)
        neighbours = emit.load(load.source, [*outer, tirx.Ramp(last, index(1), count)])
        has_element_per_lane = stage.broadcast_axis is None or stage.broadcast_axis.var in variables(load)
        return neighbours if has_element_per_lane else tirx.Shuffle([neighbours], broadcast_lanes)

    accumulator_index = [tirx.Ramp(emit.simplified(first_offset), index(1), count)]
    summed = emit.store(
        accumulators.buffer,
        emit.load(accumulators.buffer, accumulator_index) + read(product.a) * read(product.b),
        accumulator_index,
    )
    return emit.sequence([emit.when(is_inside, summed)])


def _prefetch(load: TensorLoad, axis_indices: AxisIndices, offset: int) -> Stmt:
    """Emits a prefetch of the vector that lies a fixed distance after the vector of an operand in an iteration."""
    *outer, last = substitute(load, axis_indices).indices
    ahead = PREFETCH_DISTANCE_BYTES // (load.ty.dtype.bits // 8) + offset
    address = tirx.address_of(tirx.BufferLoad(load.source, [*outer, last + ahead]))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, *READ_INTO_EVERY_CACHE))


def _partial_result(start: Stage, axis_indices: AxisIndices) -> ir.Expr:
    """Returns the load of the partial result that a stage stored in an iteration."""
    return emit.load(start.buffer, [axis_indices[axis.var] for axis in start.spatial])


def _vector_loop(
    spans: list[Span], emit_lane: Callable[[ir.Expr, ir.Expr], Stmt], loop_over_vectors: Callable[..., Stmt]
) -> Stmt:
    """Emits all vectors of a row: full vectors in a loop, then the last one if it is shorter.

    Args:
        spans: the first lane and the number of lanes of each vector. Only the last vector may be shorter.
        emit_lane: emits one lane, given the index of the vector and the lane.
        loop_over_vectors: emits the loop over full vectors, unrolled or not.
    """
    lane_counts = [count for _first_lane, count in spans]
    lanes, last_lanes = lane_counts[0], lane_counts[-1]
    full_count = lane_counts.count(lanes)

    def emit_full_vector(vector: ir.Expr) -> Stmt:
        return emit.vectorized(lanes, lambda lane: emit_lane(vector, lane))

    full_vectors = loop_over_vectors(full_count, emit_full_vector)
    if full_count == len(spans):
        return full_vectors
    last_vector = emit.vectorized(last_lanes, lambda lane: emit_lane(index(full_count), lane))
    return emit.sequence([full_vectors, last_vector])
