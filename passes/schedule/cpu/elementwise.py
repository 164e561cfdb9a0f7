"""Elementwise nests: one pass over memory, parallel outside, vectors inside; odd sizes take little longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, sym, tirx
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.band_copy import copied_images
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Stage, is_choice, simplified_places, substitute
from tvtf.passes.schedule.cpu.loop_box import Loop, Point, merged_loops, on_same_axes, stores_at
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel, is_small_box
from tvtf.passes.schedule.cpu.periods import emit_periods, periods_of
from tvtf.passes.schedule.cpu.short_axis import emit_short, shares_work
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.transposed_reads import emit_transposed, transposed_operands

TASKS_PER_CORE = 16
COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def emit_elementwise(
    stages: Sequence[Stage], target: CpuTarget, parallel: bool | None = None, fixed: Point | None = None
) -> Stmt:
    """Writes stages that share one box of points as a single nest; `fixed` holds the values of some axes.

    For a part of a kernel the caller decides whether it is `parallel`: even a small part runs many times.
    """
    aligned, fixed = on_same_axes(stages), fixed or {}
    loops = merged_loops(aligned, fixed)
    if parallel is None:
        little = is_small_box(aligned[0].spatial)
        return is_parallel(aligned, target, lambda choice: _emit(aligned, loops, target, choice, fixed, little))
    return _emit(aligned, loops, target, parallel, fixed)


def _emit(
    stages: list[Stage], loops: list[Loop], target: CpuTarget, parallel: bool, fixed: Point, little: bool = False
) -> Stmt:
    """Writes a nest in its best form: short axes, transposed tiles, periods, or plain vectors."""
    if not loops:
        return stores_at(stages, fixed)
    if not fixed and all(map(shares_work, stages)):
        return emit_short(stages, target, parallel)
    transposed = None if little else transposed_operands(stages, loops)
    if transposed is not None:
        return emit_transposed(stages, transposed, target, parallel, fixed)
    if not fixed and len(stages) == 1 and (copied := copied_images(stages[0], target, parallel)) is not None:
        return copied
    outer, inner = loops[:-1], loops[-1]
    lanes = target.lanes(min(stage.item_bytes for stage in stages))
    chunks = _inner_chunks(outer, inner, lanes, target) if parallel else 1

    periods = periods_of(stages, inner)

    def task(places: list[ir.Expr]) -> Stmt:
        """Computes one chunk, or one set of outer indices, of the stages."""
        point = dict(fixed)
        for outer_loop, place in zip(outer, places, strict=False):
            point.update(outer_loop.point(place))
        chunk = places[-1] if chunks != 1 else index(0)
        if periods is not None:
            return emit_periods(periods, point, lanes, chunks, chunk, vectors)
        return _inner(stages, inner, point, lanes, chunks, chunk)

    extents = [outer_loop.extent for outer_loop in outer] + ([chunks] if chunks != 1 else [])
    return emit.fused(extents, task, parallel, TASKS_PER_CORE * target.cores)


def _inner_chunks(outer: list[Loop], inner: Loop, lanes: int, target: CpuTarget) -> int:
    """Returns how many chunks to cut the innermost loop into so that every core has work.

    Rows are tasks already where there are enough of them.
    """
    enough_tasks = 4 * target.cores
    rows = static(emit.volume([outer_loop.extent for outer_loop in outer]))
    if rows is None or rows >= enough_tasks:
        return 1
    extent = static(inner.extent)
    # A chunk has at least four vectors.
    return enough_tasks if extent is None else max(1, min(enough_tasks, extent // (4 * lanes)))


def _inner(stages: list[Stage], inner: Loop, point: Point, lanes: int, chunks: int, chunk: ir.Expr) -> Stmt:
    pieces = _segments(stages, inner) if chunks == 1 else None
    if pieces is None:
        return vectors(
            lambda place: stores_at(stages, {**point, **inner.point(place)}), inner.extent, lanes, chunks, chunk
        )
    return emit.sequence([_segment(piece, inner, point, lanes) for piece in pieces])


def vectors(
    body: Callable[[ir.Expr], Stmt], extent: ir.Expr, lanes: int, chunks: int = 1, chunk: ir.Expr | int = 0
) -> Stmt:
    """Writes whole vectors (those of one chunk), then the remainder (in the last chunk)."""
    size = static(extent)
    vector_count = size // lanes if size is not None else emit.simplified(tirx.floordiv(extent, index(lanes)))
    step = _ceil_div(vector_count, chunks)
    start = chunk * step
    count = step if chunks == 1 else tirx.max(tirx.min(emit.as_expr(step), vector_count - start), index(0))
    main = (
        None
        if vector_count == 0
        else emit.loop(count, lambda number: emit.vectorized(lanes, lambda lane: body((start + number) * lanes + lane)))
    )
    rest = _leftover(body, extent, vector_count, lanes)
    # The last chunk's task takes the remainder, too.
    last = True if chunks == 1 else chunk == chunks - 1
    return emit.sequence([main, None if rest is None else emit.when(last, rest)])


def _ceil_div(value: int | ir.Expr, parts: int) -> int | ir.Expr:
    if isinstance(value, int):
        return -(-value // parts)
    return value if parts == 1 else tirx.floordiv(value + (parts - 1), index(parts))


def _leftover(body: Callable[[ir.Expr], Stmt], extent: ir.Expr, vector_count: int | ir.Expr, lanes: int) -> Stmt | None:
    size = static(extent)
    if size is None:
        return emit.loop(extent - vector_count * lanes, lambda place: body(vector_count * lanes + place))
    rest = size % lanes
    return None if rest == 0 else emit.vectorized(rest, lambda lane: body(index(size - rest) + lane))


@dataclass(frozen=True)
class Segment:
    """A part of the innermost loop on which every bounds test has one outcome."""

    start: int
    stop: int
    stages: tuple[Stage, ...]


def _segment(piece: Segment, inner: Loop, point: Point, lanes: int) -> Stmt:
    def body(place: ir.Expr) -> Stmt:
        return stores_at(list(piece.stages), {**point, **inner.point(place + piece.start)})

    return vectors(body, index(piece.stop - piece.start), lanes)


def _segments(stages: list[Stage], inner: Loop) -> list[Segment] | None:
    """Cuts the innermost loop where its bounds tests change, so that vectors contain no tests; None if it can't."""
    if len(inner.axes) != 1 or inner.axes[0].size is None:
        return None
    var, size = inner.axes[0].var, inner.axes[0].size
    tests = [test for stage in stages for test in comparisons(stage.value) if var in access.free_variables(test)]
    bounds = [bound for bound in (bound_of(test, var) for test in tests) if bound is not None]
    if not bounds or len(bounds) < len(tests):
        return None
    cuts = sorted({0, size, *(min(size, max(0, cut)) for cut in bounds)})
    return [_cut(stages, var, start, stop) for start, stop in zip(cuts, cuts[1:], strict=False)]


def _cut(stages: list[Stage], var: Var, start: int, stop: int) -> Segment:
    decided = [
        Stage(stage.buffer, stage.spatial, stage.reduce, stage.init, _decided(stage.value, var, start))
        for stage in stages
    ]
    return Segment(start, stop, tuple(decided))


def comparisons(value: ir.Expr) -> list[ir.Expr]:
    """Returns all order comparisons in an expression."""
    tests: list[ir.Expr] = []
    structural_walk(value, (COMPARISONS, tests.append))
    return tests


def bound_of(test: ir.Expr, var: Var) -> int | None:
    """Returns the smallest value of `var` at which a test's outcome changes, or None."""
    coefficients = sym.detect_linear_equation(test.a - test.b, [var])
    if len(coefficients) != 2:
        return None
    slope, offset = static(emit.simplified(coefficients[0])), static(emit.simplified(coefficients[1]))
    if slope not in (1, -1) or offset is None:
        return None
    zero_at = -offset if slope == 1 else offset
    # With slope 1, `<=` and `>` change just after the zero, `<` and `>=` at it; with slope -1 it is the other way
    # round.
    flips_after_zero = isinstance(test, (tirx.LE, tirx.GT)) == (slope == 1)
    return zero_at + 1 if flips_after_zero else zero_at


def _decided(value: ir.Expr, var: Var, start: int) -> ir.Expr:
    """Returns a value with the tests of `var` replaced by their outcomes at `start`."""
    analyzer = sym.Analyzer()

    def decide(test: ir.Expr) -> ir.Expr:
        if var not in access.free_variables(test):
            return test
        return analyzer.simplify(substitute(test, {var: index(start)}))

    def take(call: ir.Expr) -> ir.Expr:
        """Follows decided choices to the branch taken, without visiting the others, which may be many."""
        while is_choice(call) and isinstance(call.args[0], COMPARISONS):
            answer = static(decide(call.args[0]))
            if answer is None:
                break
            call = call.args[1] if answer else call.args[2]
        return call

    resolved = structural_map(value, (ir.Call, take), order="pre")
    return simplified_places(structural_map(resolved, (COMPARISONS, decide)), analyzer)
