"""Axes along which operands repeat rows or elements periodically: walked period by period, without divisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, sym, tirx
from tvm.tirx import FloorDiv, FloorMod, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Stage, substitute, variables, with_value
from tvtf.passes.schedule.cpu.loop_box import Loop, Point, stores_at

Vectors = Callable[[Callable[[ir.Expr], Stmt], ir.Expr, int], Stmt]


@dataclass(frozen=True)
class Periods:
    """An axis as `count` periods of `length` places; stages read by the period's `number` and the `place` in it."""

    stages: tuple[Stage, ...]
    axis: Var
    count: int
    length: int
    number: Var
    place: Var

    def at(self, number: ir.Expr, place: ir.Expr) -> Point:
        return {self.axis: number * self.length + place, self.number: number, self.place: place}


def periods_of(stages: Sequence[Stage], inner: Loop) -> Periods | None:
    """Returns the periods of the innermost loop, if it is one axis and all operands have the same period."""
    axis = inner.axes[0]
    if len(inner.axes) != 1 or axis.size is None:
        return None
    lengths = {length for stage in stages for length in _lengths(stage.value, axis.var, axis.size)}
    length = lengths.pop() if len(lengths) == 1 else None
    if not length or axis.size % length:
        return None
    count = axis.size // length
    number, place = Var("number", "int64"), Var("place", "int64")
    ranges = {number: count, place: length}
    values = [_simplified(substitute(s.value, {axis.var: number * length + place}), ranges) for s in stages]
    rewritten = tuple(with_value(stage, value) for stage, value in zip(stages, values, strict=True))
    # A period within a period would leave divisions in the loop.
    if any(_lengths(value, var, size) for value in values for var, size in ranges.items()):
        return None
    return Periods(rewritten, axis.var, count, length, number, place)


def _lengths(value: ir.Expr, var: Var, size: int) -> set[int | None]:
    """Returns the constants that a variable is divided by; None is among them if it is divided in another way."""
    if not _divisions(value, var):
        return set()
    left = _divisions(_simplified(value, {var: size}), var)
    return {emit.static(division.b) if division.a.same_as(var) else None for division in left}


def _divisions(value: ir.Expr, var: Var) -> list[FloorDiv | FloorMod]:
    divisions: list[FloorDiv | FloorMod] = []
    structural_walk(value, ((FloorDiv, FloorMod), divisions.append))
    return [division for division in divisions if var in variables(division)]


def _simplified(value: ir.Expr, sizes: dict[Var, int]) -> ir.Expr:
    """Returns a value with its divisions simplified, given the sizes of some variables."""
    analyzer = sym.Analyzer()
    for var, size in sizes.items():
        analyzer.bind(var, ir.Range(index(0), index(size)))

    def plain(node: FloorDiv | FloorMod) -> ir.Expr:
        return analyzer.simplify(node)

    return structural_map(value, ((FloorDiv, FloorMod), plain))


def emit_periods(periods: Periods, point: Point, lanes: int, chunks: int, chunk: ir.Expr, vectors: Vectors) -> Stmt:
    """Writes the periods of one chunk: vectors along places, or places of several periods if one is short."""
    step = -(-periods.count // chunks)
    first = chunk * step
    chunk_periods = step if chunks == 1 else tirx.max(tirx.min(index(step), index(periods.count) - first), index(0))
    if _is_repeated(periods, lanes):
        whole_vectors = tirx.floordiv(chunk_periods, index(lanes)) if chunks != 1 else index(chunk_periods // lanes)
        blocks = emit.loop(whole_vectors, lambda block: _repeated(periods, point, first + block * lanes, lanes))
        left = emit.loop(
            chunk_periods - whole_vectors * lanes,
            lambda n: _period(periods, point, first + whole_vectors * lanes + n, lanes, vectors),
        )
        return emit.sequence([blocks, left])
    return emit.loop(chunk_periods, lambda number: _period(periods, point, first + number, lanes, vectors))


def _period(periods: Periods, point: Point, number: ir.Expr, lanes: int, vectors: Vectors) -> Stmt:
    def at(place: ir.Expr) -> Stmt:
        return stores_at(list(periods.stages), {**point, **periods.at(number, place)})

    return vectors(at, index(periods.length), lanes)


def _is_repeated(periods: Periods, lanes: int) -> bool:
    """Returns whether all places of a short period have the same value: one vector of values then gives several of results."""
    (stage, *more) = periods.stages
    fills = periods.length < lanes and lanes % periods.length == 0
    is_last = bool(stage.spatial) and stage.spatial[-1].var.same_as(periods.axis)
    return fills and not more and is_last and stage.dtype != "bool" and periods.place not in variables(stage.value)


def _repeated(periods: Periods, point: Point, first: ir.Expr, lanes: int) -> Stmt:
    """Writes several short periods: one vector of values, spread over the results by shuffles."""
    (stage,) = periods.stages
    values = emit.scratch([lanes], stage.dtype, "values", "local")

    def value(lane: ir.Expr) -> Stmt:
        return emit.store(values, substitute(stage.value, {**point, periods.number: first + lane}), [lane])

    def stored(part: int) -> Stmt:
        """Stores one vector, in which each value is repeated for the length of a period."""
        order = [tirx.IntImm("int32", (part * lanes + lane) // periods.length) for lane in range(lanes)]
        start = (first * periods.length + part * lanes) if part else first * periods.length
        *outer, _last = stage.spatial
        at = [*(point[axis.var] for axis in outer), tirx.Ramp(start, index(1), lanes)]
        return emit.store(
            stage.buffer, tirx.Shuffle([emit.load(values, [tirx.Ramp(index(0), index(1), lanes)])], order), at
        )

    return emit.sequence([emit.allocate(values), emit.vectorized(lanes, value), *map(stored, range(periods.length))])
