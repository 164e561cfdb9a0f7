"""Gradients of ``cond`` and ``while``.

A branch is run again and swept. A loop is given stacks where it stands: of what each iteration starts from, as far as
the way back needs that, and of what its costly primitives give. The way back is a loop over these, whose body runs the
cheap rest of the iteration again and sweeps it. Both are made of primitives, so that they have gradients themselves.
Source: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx

from tvtf import dialect
from tvtf.context import state
from tvtf.emit import Trace, tracing
from tvtf.frontend.lift import Inner, lift
from tvtf.frontend.reads import Rows, Shared
from tvtf.frontend.vectorize import by_element, is_mapped
from tvtf.interpret import Evaluation
from tvtf.ops.control import call
from tvtf.ops.control import cond as cond_primitive
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind, number, zeros_like
from tvtf.ops.stack import new_stack, stack_of
from tvtf.passes.autodiff import Record, Recorder, sweep
from tvtf.shape import TensorType, same_shape, size_of
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor


def differentiable(x: Tensor) -> bool:
    return x._type.dtype.is_differentiable


class Replay:
    """A function run again on tensors, and recorded."""

    def __init__(self, function: Any, inputs: Sequence[Tensor], saved: dict[int, Tensor] | None = None) -> None:
        trace = state.trace
        self.inputs = list(inputs) if trace is None else [trace.own(x).alias() for x in inputs]
        recorder = Recorder()
        for x in self.inputs:
            if differentiable(x):
                recorder.watch(x)
        tapes, state.tapes = state.tapes, [*state.tapes, recorder]
        try:
            self.walk = walk(function, self.inputs, saved)
            self.outputs = self.walk.run()
        finally:
            state.tapes = tapes
        self.records: list[Record] = recorder.records

    def sweep(self, cts: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
        """Cotangents of ``sources`` for those of the outputs, None where there is none."""
        found = sweep(self.records, [(y, ct) for y, ct in zip(self.outputs, cts) if ct is not None], sources)
        return [as_dense(ct) for ct in found]


class _Walk:
    """A run of a function that keeps what costly primitives give, by their place, or takes it from where it is saved."""

    saved: dict[int, Tensor] | None = None  # as for the functions within
    place = 0

    def start(self, saved: dict[int, Tensor]) -> Any:
        self.saved, self.costly = saved, dict[int, Any]()
        return self

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        self.place += 1
        if self.saved is None:
            return super().bind(prim, inputs, attrs)  # type: ignore[misc]
        found = self.saved.get(self.place)
        if found is None:
            found = super().bind(prim, inputs, attrs)  # type: ignore[misc]
        else:
            for tape in state.tapes:
                tape.record(prim, inputs, found, attrs)
        if prim.heavy or prim.name in COSTLY:
            self.costly[self.place] = found
        return found


COSTLY = ("matmul", "contract", "recompute", "effect_recompute")


@cache
def _walking(kind: Any) -> Any:
    return kind if issubclass(kind, _Walk) else type("Walk", (_Walk, kind), {})


def walk(function: Any, inputs: Sequence[Tensor], saved: dict[int, Tensor] | None = None) -> Any:
    """The run of a function attribute on tensors, about to start."""
    inside = hasattr(function, "all_params")
    mod, name = (function.module(), "main") if inside else (function.mod, function.name)
    return _walking(Evaluation if inside else function.kind)(mod, mod[name], inputs).start(saved or {})


# -- cond


def cond_vjp(
    cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> Any:
    """The same branch run again and swept, by a cond over the same predicate."""
    if state.trace is None:
        chosen = Replay(then_branch if pred.eager_array() else else_branch, captured)
        return (None, *chosen.sweep(cts, chosen.inputs))
    if is_mapped(cts):
        attrs = {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}
        return by_element(lambda *given: cond_vjp(given, outputs, pred, *captured, **attrs), cts)

    def swept(function: Any) -> Any:
        replay = Replay(function, captured)
        return tuple(replay.sweep(list(map(_of_size, cts, replay.outputs)), replay.inputs))

    return _both_swept(cts, outputs, pred, *captured, then_branch=then_branch, else_branch=else_branch)


def _both_swept(
    cts: Any, outputs: Any, pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: Any = (),
    shared: Shared | None = None,
) -> Any:  # fmt: skip
    """The cotangents by a cond; what its branches read of ``shared`` tensors goes to the rows of these."""
    sides = [_Side(f, cts, captured, shared) for f in (then_branch, else_branch)]
    if not all(side.rows_fit(captured) for side in sides):
        sides = [_Side(f, cts, captured, None) for f in (then_branch, else_branch)]
    used = [i for i in range(len(captured)) if any(side.found[i] is not None for side in sides)]
    dense = [[_or_zeros(side.inner, side.found[i], captured[i]) for i in used] for side in sides]
    parts = [[*own, *(x for other in sides for x in side.rows_of(other))] for side, own in zip(sides, dense)]
    lifted = lift([side.inner for side in sides])
    graphs = [side.inner.trace.finish(r) for side, r in zip(sides, parts)]
    results = iter(cond_primitive.bind(pred, *lifted, then_branch=graphs[0], else_branch=graphs[1]) if parts[0] else ())
    found = {i: next(results) for i in used}
    for side in sides:
        for rows in side.rows:
            shared.rows.append(replace(rows, places=next(results), values=next(results)))  # type: ignore[union-attr]
    return (None, *(found.get(i) for i in range(len(captured))))


class _Side:
    """The way back through one branch."""

    def __init__(self, function: Any, cts: Any, captured: Sequence[Tensor], shared: Shared | None) -> None:
        self.rows: list[Rows] = []

        def swept() -> list[Any]:
            replay = Replay(function, captured)
            own = Shared.within(shared, captured, replay.inputs)
            replay.records = own.taken(replay.records, _both_swept)
            found = replay.sweep(list(map(_of_size, cts, replay.outputs)), replay.inputs)
            self.rows = [
                replace(r, places=state.trace.own(r.places), values=state.trace.own(r.values)) for r in own.rows
            ]
            return found

        self.inner = Inner("cond_grad", swept)
        self.found = self.inner.structure

    def rows_fit(self, captured: Sequence[Tensor]) -> bool:
        """Whether the other branch knows the shapes of these rows."""
        known = {d for x in captured for d in x._type.shape}
        return all(isinstance(d, int) or d in known for r in self.rows for d in r.values._type.shape)

    def rows_of(self, side: _Side) -> list[Tensor]:
        """The rows that a branch gives, as results of this one: none of them, where it is the other."""
        if side is self:
            return [x for r in self.rows for x in (r.places, r.values)]
        with tracing(self.inner.trace):
            nowhere = [bind.broadcast_to(EagerTensor(np.array(-1)), shape=r.places._type.shape) for r in side.rows]
            zeros = [bind.broadcast_to(number(0, r.values), shape=r.values._type.shape) for r in side.rows]
            return [self.inner.trace.own(x) for pair in zip(nowhere, zeros) for x in pair]


def _of_size(ct: Any, like: Tensor) -> Any:
    """A cotangent of the result of either branch as one of this branch's result."""
    if ct is None or same_shape(ct._type.shape, like._type.shape):
        return ct
    return bind.ensure_shape(state.trace.own(ct), shape=like._type.shape)


def _or_zeros(inner: Inner, ct: Any, like: Tensor) -> Tensor:
    if ct is not None:
        return ct
    with tracing(inner.trace):
        return inner.trace.own(zeros_like(like))


# -- while


MSG_VARYING = (
    "a loop whose variables change their shapes ({shapes}) has no gradient in compiled code: what each iteration starts "
    "from would have to be kept. Give its variables one shape, e.g. write rows of a tf.TensorArray, or run it eagerly"
)


def while_vjp(
    cts: Any, outputs: Any, *inputs: Tensor, condition: Any, body: Any, carried: int, bound: Any, shapes: Any = ()
) -> Any:
    """The loop with stacks, then a loop back over them."""
    if state.trace is None or is_mapped(cts):
        attrs = {"condition": condition, "body": body, "carried": carried, "bound": bound, "shapes": shapes}
        return by_element(lambda *given: while_vjp(given, outputs, *inputs, **attrs), cts)
    if shapes:
        raise NotImplementedError(MSG_VARYING.format(shapes=", ".join(str(o.shape) for o in outputs)))
    loop = _Loop(inputs, condition, body, carried, bound)
    return loop.backward(cts, outputs)


class _Loop:
    """A ``while`` to be differentiated, in the active trace."""

    def __init__(self, inputs: Sequence[Tensor], condition: Any, body: Any, carried: int, bound: Any) -> None:
        self.condition, self.body = condition, body
        self.start, self.invariants = list(inputs[:carried]), list(inputs[carried:])
        self.bound = bound
        self.active = [i for i, x in enumerate(self.start) if differentiable(x)]

    def backward(self, cts: Any, outputs: Sequence[Any]) -> list[Any]:
        plan = _Step(self)
        count, stacks = self.forward(plan, outputs)
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
        shaped = [bind.reshape(x, shape=self.invariants[k]._type.shape) for k, x in zip(plan.summed, sums)]
        by_start, by_invariant = dict(zip(self.active, cts)), dict(zip(plan.summed, shaped))
        starts = [by_start.get(i) for i in range(len(self.start))]
        return [*starts, *(by_invariant.get(k) for k in range(len(self.invariants)))]

    def step_back(self, plan: _Step, stacks: Sequence[Tensor], i: Tensor, rest: Sequence[Tensor]) -> Any:
        """One iteration of the loop back: the iteration's start from the stacks, then its sweep."""
        cts, sums = rest[: len(self.active)], rest[len(self.active) :]
        index = bind.subtract(i, _int(1))
        read = [bind.stack_read(s, index) for s in stacks]
        starts, saved = dict(zip(plan.needed, read)), dict(zip(plan.saved, read[len(plan.needed) :]))
        values = [starts[j] if j in starts else zeros_like(x) for j, x in enumerate(self.start)]
        new_cts, new_sums = plan.run(values, cts, sums, saved)
        return [index, *new_cts, *new_sums]

    def forward(self, plan: _Step, outputs: Sequence[Any]) -> tuple[Tensor, Sequence[Tensor]]:
        """The number of iterations and the stacks, by the loop itself where the active trace has it, else by another."""
        bindings = state.trace.bindings
        position, first = _position(bindings, outputs), len(bindings)
        count, found, stacks = self.stacked(plan)
        if position is not None:
            values = relax.Tuple([state.trace.own(x)._var for x in found])
            instead = relax.VarBinding(bindings[position].var, values)
            bindings[position:] = [*bindings[first:], instead, *bindings[position + 1 : first]]
        return count, stacks

    def stacked(self, plan: _Step) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]:
        """The number of iterations, the values after the last, and the stacks."""
        types = [self.start[j]._type for j in plan.needed] + list(plan.saved.values())
        if not types or self.bound is not None:
            return self.run_counted(plan, [new_stack(self.bound, t) for t in types])
        count, *_ = self.run_counted(plan, [])
        return self.run_counted(plan, [stack_of(count, t) for t in types])

    def run_counted(self, plan: _Step, stacks: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]:
        size = len(self.start)

        def more(count: Tensor, *rest: Tensor) -> Any:
            return call(self.condition, [*rest[:size], *self.invariants])[0]

        def step(count: Tensor, *rest: Tensor) -> Any:
            run = walk(self.body, [*rest[:size], *self.invariants])
            values = run.run()
            kept = [*(rest[j] for j in plan.needed), *(run.costly[place] for place in plan.saved)]
            written = [bind.stack_write(s, count, x) for s, x in zip(rest[size:], kept)]
            return [bind.add(count, _int(1)), *values, *written]

        start = [state.trace.own(x) for x in (_int(0), *self.start, *stacks)]
        types = [x._type for x in start]
        inners = [Inner("while_again_cond", more, types), Inner("while_again", step, types)]
        shared = lift(inners)
        test, again = (inner.graph() for inner in inners)
        found = while_primitive.bind(*start, *shared, condition=test, body=again, carried=len(start), bound=self.bound)
        return found[0], found[1 : 1 + size], found[1 + size :]


def _position(bindings: Sequence[Any], outputs: Sequence[Any]) -> int | None:
    """Where the loop with these outputs is bound."""
    places = {b.var: i for i, b in enumerate(bindings)}
    item = places.get(outputs[0]._var)
    taken = None if item is None else bindings[item].value
    place = places.get(taken.tuple_value) if isinstance(taken, relax.TupleGetItem) else None
    return place if place is not None and dialect.is_dialect(bindings[place].value) else None


class _Step:
    """The sweep of one iteration: which of its inputs it needs, and which invariants it gives a cotangent."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.needed: list[int] = []
        self.saved: dict[int, TensorType] = {}
        self.saved = self.planned()
        self.planned()

    def planned(self) -> dict[int, TensorType]:
        """Decides what is read and summed; the types of what costly primitives give that the way back uses, by place."""
        loop = self.loop
        self.summed, self.depths = list(range(len(loop.invariants))), dict[int, int]()
        with tracing(Trace("while_plan", state.trace)) as aside:
            values = [aside.add_param(x._type) for x in loop.start]
            cts = [aside.add_param(loop.start[i]._type) for i in loop.active]
            saved = {place: aside.add_param(t) for place, t in self.saved.items()}
            new_cts, found, rows, costly = self.swept(values, cts, saved)
        for part in rows:
            self.depths[part.key] = max(part.depth, self.depths.get(part.key, 0))
        self.summed = [k for k in self.summed if found[k] is not None or k in self.depths]
        given = [x for part in rows for x in (part.places, part.values)]
        results = [*new_cts, *(ct for ct in found if ct is not None), *given]
        used = _used(aside, results)
        self.needed = [j for j, v in enumerate(values) if v._var in used]
        return {place: x._type for place, x in costly.items() if self._is_kept(x, used)}

    def _is_kept(self, x: Any, used: set[Any]) -> bool:
        """Whether the way back uses a value, of a size that is known before the loop."""
        known = {d for t in (*self.loop.start, *self.loop.invariants) for d in t._type.shape}
        return isinstance(x, Tensor) and x._var in used and all(isinstance(d, int) or d in known for d in x._type.shape)

    def sum_start(self, k: int) -> Tensor:
        """Where the cotangents of an invariant are summed: by rows where it is read."""
        x = self.loop.invariants[k]
        if k in self.depths:
            shape, depth = x._type.shape, self.depths[k]
            return new_stack(size_of(shape[:depth]), x._type._replace(shape=shape[depth:]))
        return state.trace.own(zeros_like(x))

    def swept(
        self, values: Sequence[Tensor], cts: Sequence[Any], saved: dict[int, Tensor]
    ) -> tuple[list[Any], list[Any], list[Rows], dict[int, Any]]:
        """New cotangents of the carried values, those of the invariants, of rows read from these; what was costly."""
        loop = self.loop
        replay = Replay(loop.body, [*values, *loop.invariants], saved)
        carried, invariants = replay.inputs[: len(values)], replay.inputs[len(values) :]
        shared = Shared({id(x): (k, x._type.shape) for k, x in enumerate(invariants)})
        replay.records = shared.taken(replay.records, _both_swept)
        seeds = dict(zip(loop.active, cts))
        sources = [*(carried[i] for i in loop.active), *invariants]
        found = replay.sweep([seeds.get(i) for i in range(len(values))], sources)
        last = len(loop.active)
        new_cts = [zeros_like(carried[i]) if ct is None else ct for i, ct in zip(loop.active, found[:last])]
        return new_cts, found[last:], shared.rows, replay.walk.costly

    def run(
        self, values: Sequence[Tensor], cts: Sequence[Tensor], sums: Sequence[Tensor], saved: dict[int, Tensor]
    ) -> tuple[list[Any], list[Any]]:
        new_cts, found, rows, _ = self.swept(values, cts, saved)
        totals = dict(zip(self.summed, sums))
        for part in rows:
            part = part.deeper(self.loop.invariants[part.key]._type.shape, self.depths[part.key])
            totals[part.key] = bind.stack_add_rows(totals[part.key], part.places, part.values)
        for k in self.summed:
            if found[k] is not None:
                totals[k] = bind.add(totals[k], bind.reshape(found[k], shape=totals[k]._type.shape))
        return new_cts, [totals[k] for k in self.summed]


def _used(trace: Trace, results: Sequence[Any]) -> set[Any]:
    """The variables that the results depend on, within the trace; a dim depends on what first has it."""
    used = {trace.own(r)._var for r in results if isinstance(trace.own(r)._var, relax.Var)}
    tellers: dict[Any, Any] = {}
    for binding in trace.bindings:
        for dim in _dims(binding.var.ty):
            tellers.setdefault(dim, binding.var)
    for binding in reversed(trace.bindings):
        if binding.var in used:
            used.update(relax.analysis.free_vars(binding.value))
            used.update(tellers[dim] for dim in (*_dims(binding.var.ty), *_dims(binding.value)) if dim in tellers)
    return used


def _dims(part: Any) -> list[Any]:
    """The symbolic dims that a type or an expression names."""
    found: list[Any] = []
    tvm_ffi.structural_walk(part, (tirx.Var, found.append))
    return [var for var in found if isinstance(var.ty, ir.PrimType)]


def _int(value: int) -> Tensor:
    return convert_to_tensor(value)
