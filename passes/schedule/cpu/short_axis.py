"""Stages whose short last axis selects among results of shared work: computes all places at once, for vectors of rows.

A block of random numbers is such a stage: one computation gives four words. Written place by place, it would run four
times. With this, uniform random numbers are 8 times as fast.
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
"""Operations from which on sharing them pays."""
TESTS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def shares_work(stage: Stage) -> bool:
    """Returns whether a stage selects by its short last axis among results of one long computation."""
    if stage.reduce or len(stage.spatial) != 2 or stage.spatial[-1].size not in LENGTHS:
        return False
    last = stage.spatial[-1].var
    same_reads = all(access.load_stride(load, last) == 0 for load in stage.loads)
    return same_reads and access.operations(stage.value) >= SHARED_OPERATIONS and last in _tested(stage.value)


def _tested(value: ir.Expr) -> set[Var]:
    tests: list[ir.Expr] = []
    structural_walk(value, (TESTS, tests.append))
    return set().union(*(access.free_variables(test) for test in tests))


def emit_short(stages: Sequence[Stage], target: CpuTarget, parallel: bool) -> Stmt:
    """Writes whole vectors along the first axis, then the remainder as one vector.

    Shared work is then done once for each row, not once for each of its places.
    """
    first = stages[0].spatial[0]
    lanes = min(target.lanes(stage.item_bytes) for stage in stages)
    whole_vectors = emit.simplified(tirx.floordiv(first.extent, index(lanes)))
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    main = emit.loop(whole_vectors, lambda number: _vectors(stages, number * lanes, lanes), kind)
    rest = emit.simplified(first.extent - whole_vectors * lanes)
    remaining = emit.static(rest)
    parts = [None if emit.static(whole_vectors) == 0 else main]
    if remaining is None:
        parts.append(emit.loop(rest, lambda number: _vectors(stages, whole_vectors * lanes + number, 1)))
    elif remaining:
        parts.append(_vectors(stages, emit.simplified(whole_vectors * lanes), remaining))
    return emit.sequence(parts)


def _vectors(stages: Sequence[Stage], start: ir.Expr, lanes: int) -> Stmt:
    return emit.sequence([part for stage in stages for part in _places(stage, start, lanes)])


def _places(stage: Stage, start: ir.Expr, lanes: int) -> list[Stmt]:
    """Computes every place of `lanes` points into registers, then stores them interleaved, in memory order."""
    first, last = stage.spatial
    length = int(last.extent)
    computed_places = emit.scratch([length * lanes], stage.dtype, "places", "local")

    values = [_chosen(stage.value, last, place) for place in range(length)]

    def at(lane: ir.Expr) -> Stmt:
        stores = [emit.store(computed_places, value, [lane + place * lanes]) for place, value in enumerate(values)]
        # Substituted as one statement, so that the stores go on sharing `Let` variables.
        return substitute(emit.sequence(stores), {first.var: start + lane})

    computed = emit.vectorized(lanes, at)
    return [
        emit.allocate(computed_places),
        computed,
        *_interleaved(stage.buffer, computed_places, start, length, lanes),
    ]


def _interleaved(buffer: Var, computed_places: Var, start: ir.Expr, length: int, lanes: int) -> list[Stmt]:
    """Stores vectors of single places interleaved, by shuffles.

    A vector holds one place of several rows, but in memory the places of a row are neighbours.
    """
    if lanes == 1:
        return [
            emit.store(buffer, emit.load(computed_places, [index(place)]), [start, index(place)])
            for place in range(length)
        ]
    rows = [emit.load(computed_places, [_ramp(place * lanes, lanes)]) for place in range(length)]

    def stored(part: int) -> Stmt:
        items = range(part * lanes, (part + 1) * lanes)
        order = [tirx.IntImm("int32", item % length * lanes + item // length) for item in items]
        return emit.store(buffer, tirx.Shuffle(rows, order), [start, _ramp(part * lanes, lanes)])

    return [stored(part) for part in range(length)]


def _ramp(start: int, lanes: int) -> ir.Expr:
    return tirx.Ramp(index(start), index(1), lanes)


def _chosen(value: ir.Expr, axis: Axis, place: int) -> ir.Expr:
    """Returns the value at a place of an axis, with the selections that depend on the place resolved.

    Work that all places share is then the same expression for each, and LLVM computes it once.
    """
    analyzer = sym.Analyzer()

    def decided(test: ir.Expr) -> ir.Expr:
        if axis.var not in access.free_variables(test):
            return test
        return analyzer.simplify(substitute(test, {axis.var: index(place)}))

    def resolved(choice: tirx.Select) -> ir.Expr:
        if not isinstance(choice.condition, tirx.IntImm):
            return choice
        return choice.true_value if int(choice.condition) else choice.false_value

    tested = structural_map(value, (TESTS, decided))
    chosen = structural_map(tested, (tirx.Select, resolved))
    return structural_map(chosen, (Var, lambda var: index(place) if var.same_as(axis.var) else var))
