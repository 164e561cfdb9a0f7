"""Elementwise nests: one pass over memory, parallel outside, vectors inside; odd sizes take little longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, sym, tirx
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.band_copy import emit_image_copies
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import AxisIndices, Stage, is_choice, substitute, with_simplified_indices
from tvtf.passes.schedule.cpu.merged_loops import Loop, merged_loops, on_same_axes, stores_at
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial, is_small_box
from tvtf.passes.schedule.cpu.periods import emit_periods, periods_of
from tvtf.passes.schedule.cpu.short_axis import emit_short, shares_work
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.transposed_reads import emit_transposed, transposed_operands

TASKS_PER_CORE = 16
MIN_TASKS_PER_CORE = 4
"""Minimum number of rows per core with which each row is a task; fewer rows are split."""
COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def emit_elementwise(
    stages: Sequence[Stage], target: CpuTarget, parallel: bool | None = None, fixed: AxisIndices | None = None
) -> Stmt:
    """Emits elementwise stages of equal extents as a single loop nest.

    A later stage then reads the result of an earlier one while it is in a register or in the cache.

    Args:
        stages: the stages.
        target: the CPU.
        parallel: whether the nest is parallel. With None, this depends on the size of the nest.
        fixed: the values of axes that have no loop in this nest.
    """
    aligned_stages, fixed = on_same_axes(stages), fixed or {}
    loops = merged_loops(aligned_stages, fixed)
    if parallel is not None:
        return _emit_nest(aligned_stages, loops, target, parallel, fixed)
    is_small = is_small_box(aligned_stages[0].spatial)

    def emit_nest(is_parallel_nest: bool) -> Stmt:
        """Emits the loop nest, parallel or serial."""
        return _emit_nest(aligned_stages, loops, target, is_parallel_nest, fixed, is_small)

    return emit_parallel_or_serial(aligned_stages, target, emit_nest)


def _emit_nest(
    stages: list[Stage],
    loops: list[Loop],
    target: CpuTarget,
    parallel: bool,
    fixed: AxisIndices,
    is_small: bool = False,
) -> Stmt:
    """Emits an elementwise nest in the best form for its accesses.

    The forms are vectors of rows for short axes, tiles transposed in registers, image copies, periods, or plain
    vectors. `fixed` holds the values of axes that aren't loops.
    """
    if not loops:
        return stores_at(stages, fixed)
    if not fixed and all(map(shares_work, stages)):
        return emit_short(stages, target, parallel)
    transposed = None if is_small else transposed_operands(stages, loops)
    if transposed is not None:
        return emit_transposed(stages, transposed, target, parallel, fixed)
    if not fixed and len(stages) == 1 and (copies := emit_image_copies(stages[0], target, parallel)) is not None:
        return copies
    outer_loops, innermost = loops[:-1], loops[-1]
    lanes = target.lanes(min(stage.item_bytes for stage in stages))
    chunks = _chunks_of_innermost(outer_loops, innermost, lanes, target) if parallel else 1

    periods = periods_of(stages, innermost)

    def emit_task(indices: list[ir.Expr]) -> Stmt:
        """Emits one parallel task: a chunk of the innermost loop, at the given indices of the outer loops.

        With several chunks, the last index is the chunk's.
        """
        axis_indices = dict(fixed)
        for outer_loop, loop_index in zip(outer_loops, indices, strict=False):
            axis_indices.update(outer_loop.axis_indices(loop_index))
        # With a single chunk, there is no loop over chunks.
        chunk = indices[-1] if chunks != 1 else index(0)
        if periods is not None:
            return emit_periods(periods, axis_indices, lanes, chunks, chunk, emit_vectors)
        return _innermost_loop(stages, innermost, axis_indices, lanes, chunks, chunk)

    extents = [outer_loop.extent for outer_loop in outer_loops] + ([chunks] if chunks != 1 else [])
    return emit.fused_loops(extents, emit_task, parallel, TASKS_PER_CORE * target.cores)


def _chunks_of_innermost(outer_loops: list[Loop], innermost: Loop, lanes: int, target: CpuTarget) -> int:
    """Returns the number of chunks to split the innermost loop into, as parallel tasks for all cores.

    One chunk is enough if there are enough rows: each row is then a task.

    Args:
        outer_loops: the loops around the innermost one.
        innermost: the innermost loop.
        lanes: the number of elements of a vector.
        target: the processor.
    """
    enough_tasks = MIN_TASKS_PER_CORE * target.cores
    # Each iteration of the outer loops computes a row, which has at least one task.
    rows = static(emit.volume([outer_loop.extent for outer_loop in outer_loops]))
    if rows is None or rows >= enough_tasks:
        return 1
    extent = static(innermost.extent)
    if extent is None:
        return enough_tasks
    min_chunk_size = 4 * lanes  # four vectors
    return max(1, min(enough_tasks, extent // min_chunk_size))


def _innermost_loop(
    stages: list[Stage], innermost: Loop, axis_indices: AxisIndices, lanes: int, chunks: int, chunk: ir.Expr
) -> Stmt:
    """Emits the innermost loop in vectors: in segments without bounds checks if possible, else as one loop.

    Args:
        stages: the stages of the nest.
        innermost: the loop.
        axis_indices: the values of the outer axes.
        lanes: the elements of a vector.
        chunks: the number of chunks that the loop is split into, one per task.
        chunk: the index of this task's chunk.
    """
    segments = _segments_between_bounds(stages, innermost) if chunks == 1 else None
    if segments is not None:
        return emit.sequence([_emit_segment(segment, innermost, axis_indices, lanes) for segment in segments])

    def emit_element(element: ir.Expr) -> Stmt:
        """Emits all stages at one index of the loop."""
        return stores_at(stages, {**axis_indices, **innermost.axis_indices(element)})

    return emit_vectors(emit_element, innermost.extent, lanes, chunks, chunk)


def emit_vectors(
    emit_element: Callable[[ir.Expr], Stmt], extent: ir.Expr, lanes: int, chunks: int = 1, chunk: ir.Expr | int = 0
) -> Stmt:
    """Emits a loop of `emit_element` over [0, extent) in vectors, or over one chunk of this range.

    Args:
        emit_element: emits one element, given its index.
        extent: the number of elements.
        lanes: the elements of a vector.
        chunks: the number of chunks that the full vectors are split into. The last chunk also has the remaining
            elements.
        chunk: the index of the chunk to emit.
    """
    static_size = static(extent)
    vector_count: int | ir.Expr
    if static_size is None:
        vector_count = emit.simplified(tirx.floordiv(extent, index(lanes)))
    else:
        vector_count = static_size // lanes
    vectors_per_chunk = emit.ceil_div(vector_count, chunks)
    first_vector = chunk * vectors_per_chunk
    vectors_of_chunk = vectors_per_chunk
    are_equal_chunks = isinstance(vector_count, int) and vector_count % chunks == 0
    if not are_equal_chunks:  # the last chunks have fewer vectors, or none
        remaining_vectors = vector_count - first_vector
        vectors_of_chunk = tirx.max(tirx.min(emit.as_expr(vectors_per_chunk), remaining_vectors), index(0))

    def emit_vector(vector: ir.Expr) -> Stmt:
        return emit.vectorized(lanes, lambda lane: emit_element((first_vector + vector) * lanes + lane))

    statements: list[Stmt | None] = []
    if vector_count != 0:
        statements.append(emit.loop(vectors_of_chunk, emit_vector))
    remainder = _remaining_elements(emit_element, extent, vector_count, lanes)
    if remainder is not None:
        # The last chunk's task takes the remainder, too.
        is_last_chunk = True if chunks == 1 else chunk == chunks - 1
        statements.append(emit.when(is_last_chunk, remainder))
    return emit.sequence(statements)


def _remaining_elements(
    emit_element: Callable[[ir.Expr], Stmt], extent: ir.Expr, vector_count: int | ir.Expr, lanes: int
) -> Stmt | None:
    """Emits the elements after the last full vector: as a short vector if their number is static, else one by one.

    Returns None if there are no such elements, as for a symbolic extent ``4 * n`` with 4 lanes.

    Args:
        emit_element: emits the computation of the element at an index.
        extent: the number of elements.
        vector_count: the number of full vectors.
        lanes: the number of elements of a vector.
    """
    size = static(extent)
    if size is not None:
        remaining = size % lanes
        if remaining == 0:
            return None
        first = index(size - remaining)
        return emit.vectorized(remaining, lambda lane: emit_element(first + lane))
    count = emit.simplified(extent - vector_count * lanes)
    if static(count) == 0:
        return None
    return emit.loop(count, lambda element: emit_element(vector_count * lanes + element))


@dataclass(frozen=True)
class Segment:
    """A part of the innermost loop on which every bounds check has one outcome."""

    start: int
    stop: int
    stages: tuple[Stage, ...]


def _emit_segment(segment: Segment, innermost: Loop, axis_indices: AxisIndices, lanes: int) -> Stmt:
    """Emits one segment of the innermost loop, in vectors."""

    def emit_element(element: ir.Expr) -> Stmt:
        return stores_at(list(segment.stages), {**axis_indices, **innermost.axis_indices(element + segment.start)})

    return emit_vectors(emit_element, index(segment.stop - segment.start), lanes)


def _segments_between_bounds(stages: list[Stage], innermost: Loop) -> list[Segment] | None:
    """Splits the innermost loop where its bounds checks change, so that no vector needs one.

    Returns None if there are no checks, or if one of them isn't a bound of the loop's axis.
    """
    if len(innermost.axes) != 1 or innermost.axes[0].size is None:
        return None
    var, size = innermost.axes[0].var, innermost.axes[0].size
    boundaries = {0, size}
    checks = [check for stage in stages for check in comparisons(stage.value) if var in access.free_variables(check)]
    if not checks:
        return None
    for check in checks:
        bound = bound_of(check, var)
        if bound is None:
            return None
        boundaries.add(min(size, max(0, bound)))
    starts = sorted(boundaries)
    return [_segment_between(stages, var, start, stop) for start, stop in zip(starts, starts[1:], strict=False)]


def _segment_between(stages: list[Stage], var: Var, start: int, stop: int) -> Segment:
    """Returns the part of a loop between two bounds, with each bounds check replaced by its outcome there."""
    stages_without_checks = [
        Stage(stage.buffer, stage.spatial, stage.reduce, stage.init, _with_decided_checks(stage.value, var, start))
        for stage in stages
    ]
    return Segment(start, stop, tuple(stages_without_checks))


def comparisons(value: ir.Expr) -> list[ir.Expr]:
    """Returns all order comparisons in an expression."""
    found: list[ir.Expr] = []
    structural_walk(value, (COMPARISONS, found.append))
    return found


def bound_of(comparison: ir.Expr, var: Var) -> int | None:
    """Returns the smallest value of `var` at which the outcome of a comparison changes.

    Returns None unless the sides of the comparison differ by ``var + constant`` or ``constant - var``. For example,
    ``var < 3`` and ``var >= 3`` change at 3, ``var <= 3`` at 4.
    """
    coefficients = sym.detect_linear_equation(comparison.a - comparison.b, [var])
    if len(coefficients) != 2:
        return None
    slope = static(emit.simplified(coefficients[0]))
    offset = static(emit.simplified(coefficients[1]))
    if slope not in (1, -1) or offset is None:
        return None
    zero_at = -offset if slope == 1 else offset
    # At `zero_at`, both sides are equal. With slope 1, `<` and `>=` change there, and `<=` and `>` one later. With
    # slope -1, it is the other way round.
    flips_after_zero = isinstance(comparison, (tirx.LE, tirx.GT)) == (slope == 1)
    return zero_at + 1 if flips_after_zero else zero_at


def _with_decided_checks(value: ir.Expr, var: Var, start: int) -> ir.Expr:
    """Replaces the comparisons of `var` in a value by their outcomes at `var == start`, and drops untaken branches.

    The loop is split into segments wherever an outcome changes. So the outcomes hold for the entire segment that begins
    at `start`.
    """
    analyzer = sym.Analyzer()

    def outcome_of(comparison: ir.Expr) -> ir.Expr:
        """Returns a comparison's outcome as far as it is known; comparisons without `var` are returned unchanged."""
        if var not in access.free_variables(comparison):
            return comparison
        return analyzer.simplify(substitute(comparison, {var: index(start)}))

    def follow_decided_branches(call: ir.Expr) -> ir.Expr:
        """Returns the taken branch of a choice whose condition is known, without visiting the other branch."""
        while is_choice(call) and isinstance(call.args[0], COMPARISONS):
            condition, value_if_true, value_if_false = call.args
            outcome = static(outcome_of(condition))
            if outcome is None:
                break
            call = value_if_true if outcome else value_if_false
        return call

    resolved = structural_map(value, (ir.Call, follow_decided_branches), order="pre")
    return with_simplified_indices(structural_map(resolved, (COMPARISONS, outcome_of)), analyzer)
