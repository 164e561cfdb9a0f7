"""Gradients of ``cond`` and ``while``.

A branch is run again and swept. A loop is run again with a stack of what each iteration starts from, as far as the way
back needs that; the way back is a loop over these, whose body runs the iteration again and sweeps it. Both are made of
primitives, so that they have gradients themselves. Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvtf.context import state
from tvtf.emit import Trace, tracing
from tvtf.frontend.lift import Inner, lift
from tvtf.ops.control import call
from tvtf.ops.control import cond as cond_primitive
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.rules import bind, zeros_like
from tvtf.ops.stack import new_stack, stack_of
from tvtf.passes.autodiff import Record, Recorder, sweep
from tvtf.tensor import Tensor, convert_to_tensor


def differentiable(x: Tensor) -> bool:
    return x._type.dtype.is_differentiable


class Replay:
    """A function run again on tensors, and recorded."""

    def __init__(self, function: Any, inputs: Sequence[Tensor]) -> None:
        trace = state.trace
        self.inputs = list(inputs) if trace is None else [trace.own(x).alias() for x in inputs]
        recorder = Recorder()
        for x in self.inputs:
            if differentiable(x):
                recorder.watch(x)
        tapes, state.tapes = state.tapes, [*state.tapes, recorder]
        try:
            self.outputs = call(function, self.inputs)
        finally:
            state.tapes = tapes
        self.records: list[Record] = recorder.records

    def sweep(self, cts: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
        """Cotangents of ``sources`` for those of the outputs, None where there is none."""
        pairs = [(y, ct) for y, ct in zip(self.outputs, cts) if ct is not None and differentiable(y)]
        return sweep(self.records, [y for y, _ in pairs], [ct for _, ct in pairs], sources)


# -- cond


def cond_vjp(cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any) -> Any:
    """The same branch run again and swept, by a cond over the same predicate."""
    if state.trace is None:
        chosen = Replay(then_branch if pred.eager_array() else else_branch, captured)
        return (None, *chosen.sweep(cts, chosen.inputs))

    def swept(function: Any) -> Any:
        replay = Replay(function, captured)
        return tuple(replay.sweep(cts, replay.inputs))

    branches = [Inner("cond_grad", lambda f=f: swept(f)) for f in (then_branch, else_branch)]
    used = [i for i in range(len(captured)) if any(b.structure[i] is not None for b in branches)]
    results = [[_or_zeros(b, b.structure[i], captured[i]) for i in used] for b in branches]
    shared = lift(branches)
    graphs = [b.trace.finish(r) for b, r in zip(branches, results)]
    found = dict(
        zip(used, cond_primitive.bind(pred, *shared, then_branch=graphs[0], else_branch=graphs[1]) if used else ())
    )
    return (None, *(found.get(i) for i in range(len(captured))))


def _or_zeros(inner: Inner, ct: Any, like: Tensor) -> Tensor:
    if ct is not None:
        return ct
    with tracing(inner.trace):
        return inner.trace.own(zeros_like(like))


# -- while


def while_vjp(cts: Any, outputs: Any, *inputs: Tensor, condition: Any, body: Any, carried: int, bound: Any) -> Any:
    """The loop once more with stacks, then a loop back over them."""
    loop = _Loop(inputs, condition, body, carried, bound)
    return loop.backward(cts)


class _Loop:
    """A ``while`` to be differentiated, in the active trace."""

    def __init__(self, inputs: Sequence[Tensor], condition: Any, body: Any, carried: int, bound: Any) -> None:
        self.condition, self.body = condition, body
        self.start, self.invariants = list(inputs[:carried]), list(inputs[carried:])
        self.bound = bound
        self.active = [i for i, x in enumerate(self.start) if differentiable(x)]

    def backward(self, cts: Any) -> list[Any]:
        plan = _Step(self)
        count, stacks = self.stacked(plan.needed)
        entry = [cts[i] for i in self.active]
        sums = [plan.sum_start(k) for k in plan.summed]
        way_back = Inner("while_grad", lambda i, *rest: self.step_back(plan, stacks, i, rest), [
            count._type, *(ct._type for ct in entry), *(s._type for s in sums)
        ])  # fmt: skip
        more = Inner("while_grad_cond", lambda i, *_: bind.less(_int(0), i), [p._type for p in way_back.params])
        shared = lift([more, way_back])
        carried = 1 + len(entry) + len(sums)
        found = while_primitive.bind(
            count,
            *entry,
            *sums,
            *shared,
            condition=more.graph(),
            body=way_back.graph(),
            carried=carried,
            bound=self.bound,
        )
        return self.gathered(plan, found[1 : 1 + len(entry)], found[1 + len(entry) :])

    def gathered(self, plan: _Step, cts: Sequence[Tensor], sums: Sequence[Tensor]) -> list[Any]:
        by_start, by_invariant = dict(zip(self.active, cts)), dict(zip(plan.summed, sums))
        starts = [by_start.get(i) for i in range(len(self.start))]
        return [*starts, *(by_invariant.get(k) for k in range(len(self.invariants)))]

    def step_back(self, plan: _Step, stacks: dict[int, Tensor], i: Tensor, rest: Sequence[Tensor]) -> Any:
        """One iteration of the loop back: the iteration's start from the stacks, then its sweep."""
        cts, sums = rest[: len(self.active)], rest[len(self.active) :]
        index = bind.subtract(i, _int(1))
        values = [bind.stack_read(stacks[j], index) if j in stacks else zeros_like(x) for j, x in enumerate(self.start)]
        new_cts, new_sums = plan.run(values, cts, sums)
        return [index, *new_cts, *new_sums]

    def stacked(self, needed: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """The number of iterations, and by carried value the stack of what each iteration starts from."""
        types = [self.start[j]._type for j in needed]
        if not needed or self.bound is not None:
            return self.run_counted(needed, [new_stack(self.bound, t) for t in types])
        count, _ = self.run_counted([], [])
        return self.run_counted(needed, [stack_of(count, t) for t in types])

    def run_counted(self, needed: Sequence[int], stacks: Sequence[Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
        size = len(self.start)

        def more(count: Tensor, *rest: Tensor) -> Any:
            return call(self.condition, [*rest[:size], *self.invariants])[0]

        def step(count: Tensor, *rest: Tensor) -> Any:
            written = [bind.stack_write(s, count, rest[j]) for s, j in zip(rest[size:], needed)]
            return [bind.add(count, _int(1)), *call(self.body, [*rest[:size], *self.invariants]), *written]

        start = [state.trace.own(x) for x in (_int(0), *self.start, *stacks)]
        types = [x._type for x in start]
        inners = [Inner("while_again_cond", more, types), Inner("while_again", step, types)]
        shared = lift(inners)
        test, again = (inner.graph() for inner in inners)
        found = while_primitive.bind(*start, *shared, condition=test, body=again, carried=len(start), bound=self.bound)
        return found[0], dict(zip(needed, found[1 + size :]))


class _Step:
    """The sweep of one iteration: which of its inputs it needs, and which invariants it gives a cotangent."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.summed = list(range(len(loop.invariants)))
        self.read: set[int] = set()
        with tracing(Trace("while_plan", state.trace)) as aside:
            values = [aside.add_param(x._type) for x in loop.start]
            cts = [aside.add_param(loop.start[i]._type) for i in loop.active]
            new_cts, found, reads = self.swept(values, cts)
        self.read = {k for k, _, _ in reads}
        self.summed = [k for k in self.summed if found[k] is not None or k in self.read]
        results = [*new_cts, *(ct for ct in found if ct is not None), *(x for _, *pair in reads for x in pair)]
        used = _used(aside, results)
        self.needed = [j for j, v in enumerate(values) if v._var in used]

    def sum_start(self, k: int) -> Tensor:
        """Where the cotangents of an invariant are summed: a stack where it is read slice by slice."""
        x = self.loop.invariants[k]
        if k in self.read:
            return new_stack(x._type.shape[0], x._type._replace(shape=x._type.shape[1:]))
        return state.trace.own(zeros_like(x))

    def swept(self, values: Sequence[Tensor], cts: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """New cotangents of the carried values, those of the invariants, and of slices read from invariants."""
        loop = self.loop
        replay = Replay(loop.body, [*values, *loop.invariants])
        carried, invariants = replay.inputs[: len(values)], replay.inputs[len(values) :]
        position = {id(x): k for k, x in enumerate(invariants)}
        reads = [r for r in replay.records if r.primitive.name == "stack_read" and id(r.inputs[0]) in position]
        replay.records = [r for r in replay.records if not any(r is read for read in reads)]
        seeds = dict(zip(loop.active, cts))
        sources = [*(carried[i] for i in loop.active), *invariants, *(r.outputs for r in reads)]
        found = replay.sweep([seeds.get(i) for i in range(len(values))], sources)
        first, last = len(loop.active), len(loop.active) + len(invariants)
        new_cts = [zeros_like(carried[i]) if ct is None else ct for i, ct in zip(loop.active, found[:first])]
        slices = [(position[id(r.inputs[0])], r.inputs[1], ct) for r, ct in zip(reads, found[last:]) if ct is not None]
        return new_cts, found[first:last], slices

    def run(
        self, values: Sequence[Tensor], cts: Sequence[Tensor], sums: Sequence[Tensor]
    ) -> tuple[list[Any], list[Any]]:
        new_cts, found, slices = self.swept(values, cts)
        totals = dict(zip(self.summed, sums))
        for k, index, ct in slices:
            totals[k] = bind.stack_add(totals[k], index, ct)
        for k in self.summed:
            if found[k] is not None:
                totals[k] = bind.add(totals[k], found[k])
        return new_cts, [totals[k] for k in self.summed]


def _used(trace: Trace, results: Sequence[Any]) -> set[Any]:
    """The variables that the results depend on, within the trace."""
    used = {trace.own(r)._var for r in results if isinstance(trace.own(r)._var, relax.Var)}
    for binding in reversed(trace.bindings):
        if binding.var in used:
            used.update(relax.analysis.free_vars(binding.value))
    return used


def _int(value: int) -> Tensor:
    return convert_to_tensor(value)
