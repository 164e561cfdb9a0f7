"""Stages whose short last axis selects among results of shared work: computes all positions at once, for vectors of rows.

A block of random numbers is such a stage: one computation gives four words. Emitted position by position, it would run
four times. With this, uniform random numbers are 8 times as fast.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, sym, tirx
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute
from tvtf.passes.schedule.cpu.target import CpuTarget

LENGTHS = (2, 4)
SHARED_OPERATIONS = 64
"""Minimum number of operations that are worth sharing."""
TESTS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def shares_work(stage: Stage) -> bool:
    """Returns whether a stage's short last axis selects among the results of one long computation.

    For example, one block of random bits gives four words. If each element were computed separately, the computation
    would run four times.
    """
    # The axes of such a stage are the row and the short axis.
    if stage.reduce or len(stage.spatial) != 2 or stage.spatial[-1].size not in LENGTHS:
        return False
    position = stage.spatial[-1].var
    has_same_operands = all(access.load_stride(load, position) == 0 for load in stage.loads)
    if not has_same_operands or access.operations(stage.value) < SHARED_OPERATIONS:
        return False
    return position in _variables_in_tests(stage.value)


def _variables_in_tests(value: ir.Expr) -> set[Var]:
    """Returns the variables that the comparisons in a value use other than in the indices of loads."""
    tests: list[ir.Expr] = []
    structural_walk(value, (TESTS, tests.append))
    return set().union(*(access.free_variables(test) for test in tests))


def emit_short(stages: Sequence[Stage], target: CpuTarget, parallel: bool) -> Stmt:
    """Emits elementwise stages with a short last axis in vectors whose lanes are rows.

    The work that the elements of a row share is done once per row. Full vectors run in a loop, the remaining rows
    after it.
    """
    row_axis = stages[0].spatial[0]
    lanes = min(target.lanes(stage.item_bytes) for stage in stages)
    full_vectors = emit.simplified(tirx.floordiv(row_axis.extent, index(lanes)))
    remaining_rows = emit.simplified(row_axis.extent - full_vectors * lanes)
    statements: list[Stmt | None] = []

    def emit_vector(vector: ir.Expr) -> Stmt:
        return _compute_vectors(stages, vector * lanes, lanes)

    def emit_remaining_row(row: ir.Expr) -> Stmt:
        return _compute_vectors(stages, full_vectors * lanes + row, 1)

    if emit.static(full_vectors) != 0:
        kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
        statements.append(emit.loop(full_vectors, emit_vector, kind))
    static_remaining = emit.static(remaining_rows)
    if static_remaining is None:  # an unknown number of rows is a loop over single rows
        statements.append(emit.loop(remaining_rows, emit_remaining_row))
    elif static_remaining:
        statements.append(_compute_vectors(stages, emit.simplified(full_vectors * lanes), static_remaining))
    return emit.sequence(statements)


def _compute_vectors(stages: Sequence[Stage], start: ir.Expr, lanes: int) -> Stmt:
    """Emits all stages for `lanes` rows starting at `start`."""
    return emit.sequence([part for stage in stages for part in _compute_positions(stage, start, lanes)])


def _compute_positions(stage: Stage, start: ir.Expr, lanes: int) -> list[Stmt]:
    """Returns statements that compute some rows of a stage with a short last axis, and store them.

    For each position along the short axis, one vector of all rows is computed into registers. In memory the positions
    of a row are contiguous, so the vectors are interleaved.

    Args:
        stage: the stage.
        start: the first row.
        lanes: the number of rows.
    """
    row_axis, short_axis = stage.spatial
    length = int(short_axis.extent)
    registers = emit.scratch([length * lanes], stage.dtype, "places", "local")
    values = [_value_at(stage.value, short_axis, position) for position in range(length)]

    def compute_lane(lane: ir.Expr) -> Stmt:
        """Emits the values of one row at all positions along the short axis."""
        stores = [emit.store(registers, value, [lane + position * lanes]) for position, value in enumerate(values)]
        # A single substitution for all stores, so that they still share `Let` variables.
        return substitute(emit.sequence(stores), {row_axis.var: start + lane})

    computation = emit.vectorized(lanes, compute_lane)
    stores = _store_interleaved(stage.buffer, registers, start, length, lanes)
    return [emit.allocate(registers), computation, *stores]


def _store_interleaved(buffer: Var, registers: Var, start: ir.Expr, length: int, lanes: int) -> list[Stmt]:
    """Returns statements that store vectors of positions, interleaved by shuffles.

    A vector holds one position of several rows, but in memory the positions of a row are contiguous.

    Args:
        buffer: the result, of rows and a short axis.
        registers: the vectors, one for each position along the short axis.
        start: the first row.
        length: the extent of the short axis.
        lanes: the number of rows.
    """
    # A single row needs no shuffle.
    if lanes == 1:
        return [
            emit.store(buffer, emit.load(registers, [index(position)]), [start, index(position)])
            for position in range(length)
        ]
    position_vectors = [emit.load(registers, [_ramp(position * lanes, lanes)]) for position in range(length)]

    def store_part(part: int) -> Stmt:
        elements = range(part * lanes, (part + 1) * lanes)
        shuffle_indices = [tirx.IntImm("int32", element % length * lanes + element // length) for element in elements]
        return emit.store(buffer, tirx.Shuffle(position_vectors, shuffle_indices), [start, _ramp(part * lanes, lanes)])

    return [store_part(part) for part in range(length)]


def _ramp(start: int, lanes: int) -> ir.Expr:
    """Returns the indices of `lanes` neighbouring elements starting at `start`."""
    return tirx.Ramp(index(start), index(1), lanes)


def _value_at(value: ir.Expr, axis: Axis, position: int) -> ir.Expr:
    """Returns a value at one index of an axis, where the conditions on the axis are replaced by their outcomes.

    Computations that don't depend on the index are then equal expressions for all indices, and LLVM computes them once.

    Args:
        value: the value.
        axis: the axis.
        position: the index.
    """
    analyzer = sym.Analyzer()

    def decide(test: ir.Expr) -> ir.Expr:
        """Returns a test's outcome at the index; tests without the axis are returned unchanged."""
        if axis.var not in access.free_variables(test):
            return test
        return analyzer.simplify(substitute(test, {axis.var: index(position)}))

    def select(choice: tirx.Select) -> ir.Expr:
        """Returns the value that a decided choice selects."""
        if not isinstance(choice.condition, tirx.IntImm):
            return choice
        return choice.true_value if int(choice.condition) else choice.false_value

    tested = structural_map(value, (TESTS, decide))
    chosen = structural_map(tested, (tirx.Select, select))
    return structural_map(chosen, (Var, lambda var: index(position) if var.same_as(axis.var) else var))
