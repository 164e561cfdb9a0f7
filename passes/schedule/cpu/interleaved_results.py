"""Results that interleave sums of several phases, as gradients of strided convolutions do: stores each sum in place.

A stage that selects among contractions by its index modulo a stride becomes the epilogue of each, so that no sum is
copied. On one core, the input gradient of a 4x4 convolution with stride 2 on 16x16x128 takes 2,344 us by phase, 4,627
all together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import (
    Kernel,
    Opaque,
    Stage,
    conjuncts,
    is_choice,
    reads,
    substitute,
    variables,
)

MAX_STRIDE = 8


@dataclass(frozen=True)
class Phase:
    """One contraction and its epilogue; results lie at `first + place * step` of the whole along each axis."""

    sums: Stage
    ending: Stage
    first: tuple[int, ...]
    step: tuple[int, ...]

    def places(self, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        return [at * by + start for at, by, start in zip(indices, self.step, self.first, strict=True)]


@dataclass(frozen=True)
class Phases:
    """All phases of a result, which replace `chosen` among a kernel's stages."""

    chosen: Stage
    parts: tuple[Phase, ...]

    def put_into(self, stages: Sequence[Stage | Opaque]) -> list[Stage | Opaque]:
        endings = {part.sums.buffer: part.ending for part in self.parts}
        left = [stage for stage in stages if stage is not self.chosen]
        pairs = [(stage, endings.get(stage.buffer)) if isinstance(stage, Stage) else (stage, None) for stage in left]
        return [each for pair in pairs for each in pair if each is not None]

    def stored(self, body: Stmt) -> Stmt:
        """Redirects the endings' stores to the whole.

        So each phase's sums are stored once, without a pass that chooses among them.
        """
        known = {part.ending.buffer: part for part in self.parts}

        def store(node: BufferStore) -> BufferStore:
            part = known.get(node.buffer)
            return node if part is None else BufferStore(self.chosen.buffer, node.value, part.places(node.indices))

        return structural_map(body, (BufferStore, store))


def phases_of(stages: Sequence[Stage | Opaque], kernel: Kernel) -> Phases | None:
    """Returns the last stage as a choice among contractions, if it is their only reader and they cover all of it."""
    chosen = stages[-1] if stages else None
    if not isinstance(chosen, Stage) or chosen.reduce or any(axis.size is None for axis in chosen.spatial):
        return None
    sums = {stage.buffer: stage for stage in stages if isinstance(stage, Stage) and stage.reduce}
    choice = _choice_of(chosen.value) if len(sums) > 1 else None
    options = [] if choice is None else _options(choice)
    if len(options) < 2 or not all(load.source in sums and kernel.is_local(load.source) for _test, load in options):
        return None
    if len({load.source for _test, load in options}) < len(options) or kernel.is_local(chosen.buffer):
        return None
    if any(reads(s, load.source) for s in stages if s is not chosen for _, load in options if not _makes(s, load)):
        return None
    parts = [_phase(chosen, choice, test, load, sums[load.source]) for test, load in options]
    # Each load has points of its own, so that they cover the whole if their numbers add up to it.
    total_points = prod(axis.size or 0 for axis in chosen.spatial)
    valid = [part for part in parts if part is not None]
    points = sum(access.points(part.sums.spatial) or 0 for part in valid)
    return Phases(chosen, tuple(valid)) if len(valid) == len(parts) and points == total_points else None


def _makes(stage: Stage | Opaque, load: TensorLoad) -> bool:
    return isinstance(stage, Stage) and stage.buffer.same_as(load.source)


def _choice_of(value: ir.Expr) -> ir.Expr | None:
    """Returns the outermost `if_then_else` in a value if there is exactly one, up to equality."""
    choices: list[ir.Expr] = []
    structural_walk(value, (ir.Call, lambda call: choices.append(call) if is_choice(call) else None))
    outer = [call for call in choices if sum(_has(other, call) for other in choices) == 1]
    return outer[0] if len({str(call) for call in outer}) == 1 else None


def _has(outer: ir.Expr, inner: ir.Expr) -> bool:
    calls: list[ir.Expr] = []
    structural_walk(outer, (ir.Call, calls.append))
    return any(each.same_as(inner) for each in calls)


def _options(choice: ir.Expr) -> list[tuple[ir.Expr, TensorLoad]]:
    """Returns the test and load of each option of a chain of choices; empty if it isn't loads down to a number."""
    options: list[tuple[ir.Expr, TensorLoad]] = []
    while is_choice(choice):
        test, load, choice = choice.args
        if not isinstance(load, TensorLoad):
            return []
        options.append((test, load))
    return options if isinstance(choice, tirx.FloatImm) else []


def _phase(chosen: Stage, choice: ir.Expr, test: ir.Expr, load: TensorLoad, sums: Stage) -> Phase | None:
    """Returns the part of a result that one test selects, or None if it isn't regular."""
    if len(load.indices) != len(chosen.spatial):
        return None
    tests, firsts_and_steps = conjuncts(test), []
    for axis, place in zip(chosen.spatial, load.indices, strict=True):
        axis_tests = [atom for atom in tests if axis.var in variables(atom)]
        first_and_step = _first_and_step(axis.var, place, axis_tests)
        if first_and_step is None:
            return None
        firsts_and_steps.append(first_and_step)
    first, step = zip(*firsts_and_steps, strict=True)
    own_axes = [replace(axis, var=Var(axis.var.name, "int64")) for axis in sums.spatial]
    moved = [axis.var * by + start for axis, by, start in zip(own_axes, step, first, strict=True)]
    at = dict(zip((axis.var for axis in chosen.spatial), moved, strict=True))
    analyzer = sym.Analyzer()
    for axis, whole, by, start in zip(own_axes, chosen.spatial, step, first, strict=True):
        analyzer.bind(axis.var, ir.Range(index(0), axis.extent))
        if start < 0 or start + (int(axis.extent) - 1) * by >= int(whole.extent):
            return None
    if not analyzer.can_prove(substitute(test, at)):
        return None
    if not all(analyzer.can_prove_equal(substitute(p, at), a.var) for p, a in zip(load.indices, own_axes)):
        return None
    here = emit.load(sums.buffer, [axis.var for axis in own_axes])
    value = structural_map(chosen.value, (ir.Call, lambda call: load if _is_same(call, choice) else call))
    value = substitute(value, at)
    value = structural_map(value, (TensorLoad, lambda each: here if each.source.same_as(load.source) else each))
    buffer = emit.scratch([axis.extent for axis in own_axes], chosen.dtype, "phase")
    return Phase(sums, Stage(buffer, tuple(own_axes), (), None, value), tuple(first), tuple(step))


def _is_same(call: ir.Expr, choice: ir.Expr) -> bool:
    return is_choice(call) and tvm_ffi.structural_equal(call, choice)


def _first_and_step(var: Var, place: ir.Expr, tests: list[ir.Expr]) -> tuple[int, int] | None:
    """Returns an axis's first index that passes its tests and the distance to the next, found by trying; else None."""
    if not variables(place) <= {var} or any(variables(test) != {var} for test in tests):
        return None
    analyzer = sym.Analyzer()

    def at(value: ir.Expr, number: int) -> int | None:
        return emit.static(analyzer.simplify(substitute(value, {var: index(number)})))

    # Tests of strided gradients contain remainders, which TVM's analyzer can't solve for the variable.
    passing = [n for n in range(3 * MAX_STRIDE) if all(at(test, n) for test in tests)]
    places = [at(place, n) for n in passing]
    return next(((first, passing[k + 1] - first) for k, first in enumerate(passing[:-1]) if places[k] == 0), None)
