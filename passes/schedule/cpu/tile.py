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
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Clip, Stage, replace_loads, substitute

# Each unrolled step is a copy of a tile's code.
MAX_UNROLLED_STEPS = 8


@dataclass(frozen=True)
class Range:
    """The part of a reduction axis that a tile sums over: a loop, or unrolled to make its bounds checks constant."""

    axis: Axis
    start: ir.Expr
    extent: ir.Expr
    is_unrolled: bool = False

    @staticmethod
    def whole(axis: Axis) -> Range:
        """Returns the range of all terms along a reduction axis."""
        return Range(axis, index(0), axis.extent)


@dataclass(frozen=True)
class Tile:
    """A register tile: the indices of its first result (`base`) and its extents along the tiled axes."""

    base: AxisIndices
    sizes: Mapping[Var, int]

    def sizes_along(self, axes: Sequence[Var]) -> list[int]:
        """Returns the tile's extents along the given axes."""
        return [self.sizes[var] for var in axes]


@dataclass(frozen=True)
class Accumulators:
    """A local buffer of `rows` times `vectors` vectors of partial results, which LLVM keeps in registers."""

    buffer: Var
    rows: int
    vectors: int
    lanes: int

    @staticmethod
    def of(stage: Stage, rows: int, vectors: int, lanes: int) -> Accumulators:
        """Returns accumulators for a reduction, in a new local buffer."""
        buffer = emit.scratch([rows * vectors * lanes], stage.dtype, "accumulator", "local")
        return Accumulators(buffer, rows, vectors, lanes)

    def offset(self, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> ir.Expr:
        """Returns the index of an element in the flat buffer."""
        return (row * self.vectors + vector) * self.lanes + lane

    def row_strides(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the strides of accumulator rows along each tiled axis; `sizes` are the tile's extents."""
        return tuple(prod(sizes[axis + 1 :]) * self.vectors * self.lanes for axis in range(len(sizes)))

    def load(self, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> ir.Expr:
        """Returns the load of one lane of a vector of accumulators."""
        return emit.load(self.buffer, [self.offset(row, vector, lane)])

    def store(self, value: ir.Expr, row: ir.Expr, vector: ir.Expr | int, lane: ir.Expr | int) -> Stmt:
        """Returns the store of a value into one lane of a vector of accumulators."""
        return emit.store(self.buffer, value, [self.offset(row, vector, lane)])


@dataclass(frozen=True)
class Epilogue:
    """What is done with each finished result of a reduction: the elementwise stages on it, and their stores.

    Indices of results are shifted by `shifts` along some axes before they are stored.
    """

    stage: Stage
    stores: tuple[Stage, ...]
    shifts: AxisIndices = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """The number of arithmetic operations per result."""
        return sum(access.operations(stage.value) for stage in self.stores if stage is not self.stage)

    def emit_stores(self, result: ir.Expr, axis_indices: AxisIndices) -> Stmt:
        """Returns the stores of all epilogue stages for a finished result."""
        axis_indices = {**axis_indices, **{var: axis_indices[var] + offset for var, offset in self.shifts.items()}}
        return emit.sequence([_store_stage(stage, self.stage, result, axis_indices) for stage in self.stores])


def _store_stage(stage: Stage, reduction: Stage, result: ir.Expr, axis_indices: AxisIndices) -> Stmt:
    """Returns the store of an epilogue stage in an iteration; `result` replaces loads from the reduction's buffer."""
    value = substitute(stage.value, axis_indices) if stage is not reduction else result
    value = replace_loads(value, reduction.buffer, lambda _indices: result)
    return emit.store(stage.buffer, value, [axis_indices[axis.var] for axis in stage.spatial])


def indices_of_row(tile: Tile, row_axes: Sequence[Var], offsets: Sequence[ir.Expr]) -> AxisIndices:
    """Returns the index along each axis of one row of a register tile.

    `offsets` are the row's distances from the tile's first row, along `row_axes`.
    """
    coordinates = {var: tile.base[var] + offset for var, offset in zip(row_axes, offsets, strict=True)}
    return {**tile.base, **coordinates}


def accumulator_row(sizes: Sequence[int], offsets: Sequence[ir.Expr]) -> ir.Expr:
    """Returns the row-major (flat) index of a row of accumulators, from its offsets along each tiled axis."""
    row: ir.Expr = index(0)
    for size, offset in zip(sizes, offsets, strict=True):
        row = row * size + offset
    return row


def update_value(stage: Stage, old: ir.Expr, axis_indices: AxisIndices) -> ir.Expr:
    """Returns the new value of a reduction after one term, such as `old + a[i] * b[i]` for a dot product.

    Args:
        stage: the reduction.
        old: the old value, which replaces its load.
        axis_indices: the index along each axis.
    """

    def with_simplified_index(load: TensorLoad) -> TensorLoad:
        """Simplifies the indices of a load."""
        return emit.load(load.source, [*map(emit.simplified, load.indices)])

    value = substitute(stage.value, axis_indices)
    # If a clip leaves a single term, the index of the term depends on that of the result. In a load's index, both may
    # cancel out. TVM 0.27 divides by zero in such an index, unless it is simplified first.
    if stage.clips:
        value = structural_map(value, (TensorLoad, with_simplified_index))
    return replace_loads(value, stage.buffer, lambda _indices: old)


def loop_over_ranges(ranges: Sequence[Range], body: Callable[[AxisIndices], Stmt]) -> Stmt:
    """Emits a loop nest over ranges of reduction axes; some loops are unrolled.

    In each copy of an unrolled body, the axis is a constant, so that bounds checks on it are simplified.

    Args:
        ranges: the ranges, outermost first.
        body: emits the innermost statement, given the index along each axis.
    """
    if not ranges:
        return body({})
    outermost, *inner_ranges = ranges
    if static(outermost.extent) == 0:
        return emit.sequence([])

    def inner_loops(offset: ir.Expr) -> Stmt:
        """Emits the inner loops for one index of the outermost range."""
        outer_index = {outermost.axis.var: outermost.start + offset}
        return loop_over_ranges(inner_ranges, lambda inner_indices: body({**outer_index, **inner_indices}))

    kind = tirx.ForKind.UNROLLED if outermost.is_unrolled else tirx.ForKind.SERIAL
    return emit.loop(outermost.extent, inner_loops, kind)


def loop_over_edges(
    ranges: Sequence[Range],
    edges: Sequence[Clip],
    body: Callable[[AxisIndices, Sequence[Clip]], Stmt],
    checked: Sequence[Clip] = (),
) -> Stmt:
    """Emits nested loops over ranges of reduction axes, with bounds checks only near an image's edges.

    Args:
        ranges: the ranges, outermost first.
        edges: the edges of the image, each a bounds check of one result axis and one reduction axis.
        body: emits the innermost statement, given the axes' values and the edges to check.
        checked: the edges that must be checked already, because of an outer axis.
    """
    if not ranges:
        return body({}, checked)
    range_, *inner_ranges = ranges
    edge = next((edge for edge in edges if edge.term.var.same_as(range_.axis.var)), None)

    def loop(range_: Range, checked: Sequence[Clip]) -> Stmt:
        return loop_over_ranges([range_], lambda values: with_inner_loops(values, checked))

    def with_inner_loops(values: AxisIndices, checked: Sequence[Clip]) -> Stmt:

        def inner_body(axis_indices: AxisIndices, all_checked: Sequence[Clip]) -> Stmt:
            return body({**values, **axis_indices}, all_checked)

        return loop_over_edges(inner_ranges, edges, inner_body, checked)

    def inside_or_checked(values: AxisIndices) -> Stmt:
        is_inside = tirx.all(values[range_.axis.var] >= first, values[range_.axis.var] < stop)
        return emit.sequence(
            [emit.when(is_inside, with_inner_loops(values, checked), with_inner_loops(values, outside))]
        )

    if edge is None:
        return loop(range_, checked)
    (first, stop), outside = edge.inner, [*checked, edge]
    if inner_ranges or static(range_.start) != 0 or static(range_.extent) != range_.axis.size:
        return loop_over_ranges([range_], inside_or_checked)
    size = int(range_.extent)
    is_short = first + size - stop <= MAX_UNROLLED_STEPS
    return emit.sequence(
        [
            loop(Range(range_.axis, index(0), index(first), is_short), outside),
            loop(Range(range_.axis, index(first), index(stop - first)), checked),
            loop(Range(range_.axis, index(stop), index(size - stop), is_short), outside),
        ]
    )


def clip_range(range_: Range, clips: Sequence[Clip], base: AxisIndices, sizes: Mapping[Var, int]) -> Range:
    """Restricts a range of terms to the terms that are nonzero for some result of a tile.

    The other terms would only add zeros of the border.

    Args:
        range_: the terms along one reduction axis.
        clips: the bounds outside of which terms are zero.
        base: the indices of the tile's first result.
        sizes: the tile's extents; 1 along other axes.
    """
    for clip in clips:
        result_var = clip.result.var
        if range_.axis.var.same_as(clip.term.var) and result_var in base:
            start, stop = clip.bounds(base[result_var], sizes.get(result_var, 1))
            first = tirx.max(range_.start, start)
            extent = tirx.max(tirx.min(range_.start + range_.extent, stop) - first, index(0))
            range_ = replace(range_, start=emit.simplified(first), extent=emit.simplified(extent))
    return range_


def emit_row_tile(
    stage: Stage, tile: Tile, lanes: int, vectors: int, ranges: Sequence[Range], combine: Combine, epilogue: Epilogue
) -> Stmt:
    """Emits a register tile whose vectors run along the last reduction axis, as for dot products.

    Each result has a row of accumulators. At the end their lanes are combined by halves, and the epilogue runs.

    Args:
        stage: the reduction.
        tile: the indices of the tile's first result, and its extents.
        lanes: the elements of a vector.
        vectors: the vectors of accumulators of a result.
        ranges: the terms to sum; the vectors run along the last range.
        combine: combines two partial results.
        epilogue: the stages to run on each result.
    """
    row_axes = list(tile.sizes)
    sizes = tile.sizes_along(row_axes)
    accumulators = Accumulators.of(stage, prod(sizes), vectors, lanes)

    def for_each_row(body: Callable[[ir.Expr, AxisIndices], Stmt]) -> Stmt:
        """Emits `body(row, result_indices)` for each result of the tile: its row of accumulators and its indices."""

        def emit_row(offsets: list[ir.Expr]) -> Stmt:
            return body(accumulator_row(sizes, offsets), indices_of_row(tile, row_axes, offsets))

        return emit.unrolled_nest(sizes, emit_row)

    def initialize(row: ir.Expr, _result_indices: AxisIndices) -> Stmt:
        def initialize_vector(vector: ir.Expr) -> Stmt:
            return emit.vectorized(lanes, lambda lane: accumulators.store(stage.init, row, vector, lane))

        return emit.unrolled(vectors, initialize_vector)

    def sum_innermost(outer_indices: AxisIndices) -> Stmt:
        """Emits the loop over the innermost reduction axis, whose terms are contiguous: vectors run along it."""
        term_var = ranges[-1].axis.var

        def add_vector(vector: ir.Expr, first_lane: ir.Expr, first_term: ir.Expr, term_count: int) -> Stmt:
            """Emits the addition of consecutive terms to as many lanes of each row of accumulators.

            Args:
                vector: the index of the vector of accumulators.
                first_lane: the first lane to which a term is added.
                first_term: the index of the first term.
                term_count: the number of terms and lanes.
            """

            def add_to_row(row: ir.Expr, result_indices: AxisIndices) -> Stmt:
                """Emits the addition of the terms to one row of accumulators."""

                def add_term(offset: ir.Expr) -> Stmt:
                    lane = first_lane + offset
                    axis_indices = {**result_indices, **outer_indices, term_var: first_term + offset}
                    updated = update_value(stage, accumulators.load(row, vector, lane), axis_indices)
                    return accumulators.store(updated, row, vector, lane)

                return emit.vectorized(term_count, add_term)

            return for_each_row(add_to_row)

        return _in_vector_groups(ranges[-1], lanes, vectors, add_vector)

    def finish_row(row: ir.Expr, result_indices: AxisIndices) -> Stmt:
        def store_result(result: ir.Expr) -> Stmt:
            return epilogue.emit_stores(result, result_indices)

        return _combine_lanes(accumulators, row, combine, store_result)

    finish = for_each_row(finish_row)
    allocation = emit.allocate(accumulators.buffer)
    prologue = for_each_row(initialize)
    return emit.sequence([allocation, prologue, loop_over_ranges(ranges[:-1], sum_innermost), finish])


LaneBody = Callable[[ir.Expr, ir.Expr, ir.Expr, int], Stmt]
"""Emits the addition of consecutive terms to as many lanes of the accumulators, which are vectors.

The arguments are the vector and the lane of the first accumulator, the first term, and the number of terms.
"""


def _in_vector_groups(range_: Range, lanes: int, vectors: int, body: LaneBody) -> Stmt:
    """Emits a loop over a reduction axis: groups of vectors, then single vectors, then the remaining terms.

    An addition waits for the previous one to the same sum. The vectors of a group belong to different sums, which hides
    this latency.

    Args:
        range_: the terms.
        lanes: the elements of a vector.
        vectors: the vectors of a group, as many as there are vectors of accumulators.
        body: emits the addition of some terms to accumulators.
    """
    group_size = lanes * vectors
    extent = emit.as_expr(range_.extent)
    group_count = emit.simplified(tirx.floordiv(extent, index(group_size)))
    single_vectors = emit.simplified(tirx.floordiv(extent - group_count * group_size, index(lanes)))
    after_groups = emit.simplified(range_.start + group_count * group_size)
    after_singles = emit.simplified(after_groups + single_vectors * lanes)
    remaining = emit.simplified(extent - group_count * group_size - single_vectors * lanes)
    zero = index(0)
    return emit.sequence(
        [
            _loop_unless_empty(
                group_count,
                lambda group: emit.unrolled(
                    vectors,
                    lambda vector: body(vector, zero, range_.start + group * group_size + vector * lanes, lanes),
                ),
            ),
            _loop_unless_empty(single_vectors, lambda vector: body(zero, zero, after_groups + vector * lanes, lanes)),
            _remaining_terms(remaining, after_singles, body),
        ]
    )


def _loop_unless_empty(count: ir.Expr, body: Callable[[ir.Expr], Stmt]) -> Stmt | None:
    """Returns a loop, or None if its extent is known to be 0."""
    return None if static(count) == 0 else emit.loop(count, body)


def _remaining_terms(remaining: ir.Expr, start: ir.Expr, body: LaneBody) -> Stmt | None:
    """Emits the terms after the last full vector: in shorter vectors if their number is static, else one by one.

    They are added to the first lanes of the first vector of accumulators. Returns None if there are none.

    Args:
        remaining: the number of terms.
        start: the index of the first one.
        body: emits the addition of consecutive terms to consecutive lanes of a vector.
    """
    first_vector = first_lane = index(0)
    count = static(remaining)
    if count == 0:
        return None
    if count is None:
        return emit.loop(remaining, lambda term: body(first_vector, first_lane, start + term, 1))
    spans = _power_of_two_spans(count)
    return emit.sequence([body(first_vector, first_lane, start + offset, lanes) for offset, lanes in spans])


def _power_of_two_spans(extent: int) -> list[tuple[int, int]]:
    """Splits [0, extent) into vectors (start, lanes) whose lanes are powers of two. LLVM would split other vectors.

    For example, 7 gives ``[(0, 4), (4, 2), (6, 1)]``.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    while start < extent:
        lanes = emit.power_of_two_floor(extent - start)
        spans.append((start, lanes))
        start += lanes
    return spans


def _combine_lanes(accumulators: Accumulators, row: ir.Expr, combine: Combine, body: Callable[[ir.Expr], Stmt]) -> Stmt:
    """Emits a horizontal reduction of a row of accumulators to one result, then `body` on this result.

    Halves of the row are combined as vectors until one lane is left.

    Args:
        accumulators: the accumulators of a register tile.
        row: the row.
        combine: combines two partial results.
        body: emits the statement that uses the result.
    """
    statements: list[Stmt | None] = []
    remaining_lanes = accumulators.vectors * accumulators.lanes
    while remaining_lanes > 1:
        remaining_lanes //= 2
        statements.append(_combine_halves(accumulators, row, combine, remaining_lanes))
    result = accumulators.load(row, 0, 0)
    return emit.sequence([*statements, body(result)])


def _combine_halves(accumulators: Accumulators, row: ir.Expr, combine: Combine, half: int) -> Stmt:
    """Emits the combination of the two halves of a row of accumulators, lane by lane, into the lower half.

    Args:
        accumulators: the accumulators. Lanes are counted over all vectors of a row, starting at vector 0.
        row: the row.
        combine: combines two partial results.
        half: the number of lanes in a half.
    """

    def combine_lane(lane: ir.Expr) -> Stmt:
        """Emits the combination of one lane of each half."""
        lower, upper = accumulators.load(row, 0, lane), accumulators.load(row, 0, lane + half)
        return accumulators.store(combine(lower, upper), row, 0, lane)

    return emit.vectorized(half, combine_lane)
