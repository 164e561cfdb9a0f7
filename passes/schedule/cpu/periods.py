"""Axes along which operands repeat periodically: nested loops over periods and within a period, without divisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, sym, tirx
from tvm.tirx import FloorDiv, FloorMod, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import AxisIndices, Stage, substitute, variables, with_value
from tvtf.passes.schedule.cpu.merged_loops import Loop, stores_at

VectorLoop = Callable[[Callable[[ir.Expr], Stmt], ir.Expr, int], Stmt]


@dataclass(frozen=True)
class Periods:
    """An axis along which operands repeat with a period of `length`, as `count` periods.

    `stages` are rewritten: their indices use the index of the `period` and the `offset` in it, instead of dividing the
    axis by `length`.
    """

    stages: tuple[Stage, ...]
    axis: Var
    count: int
    length: int
    period: Var
    offset: Var

    def at(self, period: ir.Expr, offset: ir.Expr) -> AxisIndices:
        """Returns the values of the axis, the period and the offset, for one element of the axis."""
        return {self.axis: period * self.length + offset, self.period: period, self.offset: offset}


def periods_of(stages: Sequence[Stage], innermost: Loop) -> Periods | None:
    """Splits the innermost loop of stages into loops over periods and within one, without divisions, or returns None.

    The loop must be a single axis. All divisions of its variable in indices must be by the same constant, the length of
    a period.
    """
    axis = innermost.axes[0]
    if len(innermost.axes) != 1 or axis.size is None:
        return None
    divisors = {divisor for stage in stages for divisor in _divisors(stage.value, axis.var, axis.size)}
    length = divisors.pop() if len(divisors) == 1 else None
    if not length or axis.size % length:
        return None
    count = axis.size // length
    period, offset = Var("number", "int64"), Var("place", "int64")
    sizes = {period: count, offset: length}
    position = {axis.var: period * length + offset}
    rewritten: list[Stage] = []
    for stage in stages:
        value = _with_simplified_divisions(substitute(stage.value, position), sizes)
        # Operands with several different periods would leave divisions in the loops.
        if any(_divisors(value, var, size) for var, size in sizes.items()):
            return None
        rewritten.append(with_value(stage, value))
    return Periods(tuple(rewritten), axis.var, count, length, period, offset)


def _divisors(value: ir.Expr, var: Var, size: int) -> set[int | None]:
    """Returns the constants by which a value's indices divide a variable.

    The set contains None for a division of another form, such as the division of a sum.

    Args:
        value: the value.
        var: the variable.
        size: the number of values of the variable, which starts at 0.
    """
    if not _divisions_of(value, var):
        return set()
    remaining = _divisions_of(_with_simplified_divisions(value, {var: size}), var)
    return {emit.static(division.b) if division.a.same_as(var) else None for division in remaining}


def _divisions_of(value: ir.Expr, var: Var) -> list[FloorDiv | FloorMod]:
    """Returns the floor divisions and remainders in a value that contain a variable."""
    divisions: list[FloorDiv | FloorMod] = []
    structural_walk(value, ((FloorDiv, FloorMod), divisions.append))
    return [division for division in divisions if var in variables(division)]


def _with_simplified_divisions(value: ir.Expr, sizes: dict[Var, int]) -> ir.Expr:
    """Simplifies the floor divisions and remainders in a value, given the range [0, size) of some variables.

    For example, ``(4 * i + j) // 4`` is ``i`` if ``j`` is in [0, 4).
    """
    analyzer = sym.Analyzer()
    for var, size in sizes.items():
        analyzer.bind(var, ir.Range(index(0), index(size)))

    def simplify(node: FloorDiv | FloorMod) -> ir.Expr:
        return analyzer.simplify(node)

    return structural_map(value, ((FloorDiv, FloorMod), simplify))


def emit_periods(
    periods: Periods, axis_indices: AxisIndices, lanes: int, chunks: int, chunk: ir.Expr, emit_vectors: VectorLoop
) -> Stmt:
    """Emits one chunk of the periods of an axis, with vectors along the offsets in a period.

    If all values of a short period are equal, several periods are computed in one vector.

    Args:
        periods: the axis, and the stages on it.
        axis_indices: the values of the outer axes.
        lanes: the elements of a vector.
        chunks: the number of chunks that the periods are split into.
        chunk: the index of the chunk to emit.
        emit_vectors: emits a loop in vectors (`elementwise.emit_vectors`, whose module imports this one).
    """
    periods_per_chunk = emit.ceil_div(periods.count, chunks)
    first_period = chunk * periods_per_chunk
    chunk_periods: int | ir.Expr = periods_per_chunk
    if chunks != 1:  # the last chunks may have fewer periods, or none
        remaining_periods = index(periods.count) - first_period
        chunk_periods = tirx.max(tirx.min(index(periods_per_chunk), remaining_periods), index(0))

    def emit_period(period: ir.Expr) -> Stmt:
        return _emit_period(periods, axis_indices, period, lanes, emit_vectors)

    if not _repeats_values(periods, lanes):
        return emit.loop(chunk_periods, lambda period: emit_period(first_period + period))
    full_vectors = tirx.floordiv(chunk_periods, index(lanes)) if chunks != 1 else index(chunk_periods // lanes)
    in_vectors = emit.loop(
        full_vectors, lambda vector: _emit_repeated(periods, axis_indices, first_period + vector * lanes, lanes)
    )
    one_by_one = emit.loop(
        chunk_periods - full_vectors * lanes, lambda period: emit_period(first_period + full_vectors * lanes + period)
    )
    return emit.sequence([in_vectors, one_by_one])


def _emit_period(
    periods: Periods, axis_indices: AxisIndices, period: ir.Expr, lanes: int, emit_vectors: VectorLoop
) -> Stmt:
    """Emits one period (a repeated part of a row), in vectors along its offsets.

    Args:
        periods: the stages, and how their row is divided.
        axis_indices: the indices along all other axes.
        period: the number of the period.
        lanes: the number of elements of a vector.
        emit_vectors: emits a loop over vectors.
    """

    def store_offset(offset: ir.Expr) -> Stmt:
        """Emits all stages at one offset in the period."""
        return stores_at(list(periods.stages), {**axis_indices, **periods.at(period, offset)})

    return emit_vectors(store_offset, index(periods.length), lanes)


def _repeats_values(periods: Periods, lanes: int) -> bool:
    """Returns whether all elements of each period, which is short, have the same value.

    One vector of values then gives several vectors of results, by shuffles. A period must divide a vector exactly.

    Args:
        periods: the stages, and the length of a period.
        lanes: the number of elements of a vector.
    """
    stage, *other_stages = periods.stages
    if other_stages or stage.dtype == "bool":
        return False
    fills_vectors = periods.length < lanes and lanes % periods.length == 0
    is_last_axis = bool(stage.spatial) and stage.spatial[-1].var.same_as(periods.axis)
    has_equal_elements = periods.offset not in variables(stage.value)
    return fills_vectors and is_last_axis and has_equal_elements


def _emit_repeated(periods: Periods, axis_indices: AxisIndices, first_period: ir.Expr, lanes: int) -> Stmt:
    """Emits as many short periods as a vector has lanes, at once.

    All elements of a period are equal. One vector has a value for each period. Shuffles repeat the values in the
    vectors of results.
    """
    (stage,) = periods.stages
    *outer_axes, _last_axis = stage.spatial
    outer_indices = [axis_indices[axis.var] for axis in outer_axes]
    values = emit.scratch([lanes], stage.dtype, "values", "local")

    def store_value(lane: ir.Expr) -> Stmt:
        return emit.store(
            values, substitute(stage.value, {**axis_indices, periods.period: first_period + lane}), [lane]
        )

    def store_vector(part: int) -> Stmt:
        """Emits the store of the vector `part` of the results, in which each value is repeated within its period.

        For example, with 4 lanes and a period of 2, the first vector has the values ``[0, 0, 1, 1]``.
        """
        value_of_lane = [tirx.IntImm("int32", (part * lanes + lane) // periods.length) for lane in range(lanes)]
        vector_of_values = emit.load(values, [tirx.Ramp(index(0), index(1), lanes)])
        repeated_values = tirx.Shuffle([vector_of_values], value_of_lane)
        start = (first_period * periods.length + part * lanes) if part else first_period * periods.length
        return emit.store(stage.buffer, repeated_values, [*outer_indices, tirx.Ramp(start, index(1), lanes)])

    return emit.sequence(
        [emit.allocate(values), emit.vectorized(lanes, store_value), *map(store_vector, range(periods.length))]
    )
