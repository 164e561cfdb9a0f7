"""Runs effects once, whatever gradients are taken: their results become further results of the control flow.

Printing, queues and Python that a branch or loop calls must not run again when its gradient recomputes the branch or
the iteration. Under tapes, a ``cond`` or ``while`` whose functions have effects with results is therefore bound with
these as extra results. The tapes record a ``cond`` or ``while`` without effects instead, which takes them as
operands. Gradients of whole functions do the same (:class:`EffectReplay`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tvm import ir

from tvtf.core.primitive import as_tuple, table
from tvtf.core.shape import TensorType, fresh_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.cond_while import _merged_shapes
from tvtf.frontend.control_flow.loop_stack import stacks_for
from tvtf.frontend.control_flow.rematerialize import (
    WithoutEffects,
    dims_in,
    has_effect_results,
    is_computable_from,
    record_on_tapes,
    used_by,
    walk,
    zeros_for,
    zeros_of,
)
from tvtf.ir import dialect
from tvtf.ir.interpreter import CONTROL
from tvtf.ir.trace import Graph, Trace, trace_graph, tracing
from tvtf.ops.control import call, own_dims, varying_dims, while_
from tvtf.ops.rules import bind

Bound = tuple[Sequence[Tensor], Sequence[Tensor]]
"""The results, and the results of effects."""


def bound_once(prim: Any, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Binds control flow with effects; the tapes record its counterpart without them."""
    return tuple(_FLOWS[prim.name.removeprefix("effect_")](attrs).bound(inputs)[0])


def calls_effect_results(function: Any) -> bool:
    """Returns whether a function attribute has effects with results, in nested functions too."""
    if hasattr(function, "all_params"):
        return not function.pure and _calls_effect_results(function.function, function.reachable())
    return _calls_effect_results(function.mod[function.name], function.mod.functions)


def _calls_effect_results(function: Any, functions: Any) -> bool:
    calls = (dialect.read(b.value) for block in function.body.blocks for b in block.bindings if _is_impure(b.value))
    return any(
        has_effect_results(call.primitive, call.attrs) or _nested_effect_results(call, functions) for call in calls
    )


def _is_impure(value: Any) -> bool:
    return dialect.is_dialect(value) and not table[value.op.name.removeprefix("tvtf.")].pure


def _nested_effect_results(call: Any, functions: Any) -> bool:
    names = [f for f in call.attrs.values() if isinstance(f, ir.GlobalVar)] if call.primitive.name in CONTROL else []
    return any(_calls_effect_results(functions[name], functions) for name in names)


class _Effect(NamedTuple):
    """An effect with ``size`` results, as a tuple or as one; whether any of them is needed."""

    size: int
    is_tuple: bool
    is_needed: bool


class EffectReplay:
    """A function with effects that have results.

    It runs once with its effects, which keeps their results, and from then on without them, given these results.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.parts: list[Any] = []

    def run_with_effects(self, inputs: Sequence[Tensor]) -> Bound:
        """Runs it with its effects, in a trace; returns its outputs and the needed results of the effects."""
        run = walk(self.function, inputs, _RecordEffects)
        run.effects = effects = list[tuple[Any, Sequence[Tensor]]]()
        outputs = [state.trace.own(x) for x in run.run()]
        used = used_by(state.trace, outputs)
        self.parts = [_effect_record(part, values, used) for part, values in effects]
        effect_results = [x for part, (_, values) in zip(self.parts, effects) if _is_needed(part) for x in values]
        return outputs, [state.trace.own(x) for x in effect_results]

    def run_without_effects(self, inputs: Sequence[Tensor], effect_results: Sequence[Tensor]) -> Sequence[Tensor]:
        """Runs it without its effects, which are given their results."""
        run = walk(self.function, inputs, _ReplayEffects)
        run.parts, run.remaining = iter(self.parts), iter(effect_results)
        return run.run()  # type: ignore[no-any-return]


def _effect_record(part: Any, values: Sequence[Tensor], used: set[Any]) -> Any:
    """Returns the description of an effect, now that it is known whether its results are used."""
    if part is None or isinstance(part, bool):
        return _Effect(len(values), bool(part), any(x._var in used for x in values))  # type: ignore[attr-defined]
    return part


def _is_needed(part: Any) -> bool:
    return not isinstance(part, _Effect) or part.is_needed


class _RecordEffects:
    """An evaluation that notes the results of effects, in order."""

    effects: list[tuple[Any, Sequence[Tensor]]] | None = None  # None in nested functions

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Notes the effects that have results; control flow is bound with its effects' results."""
        if self.effects is None:
            return super().bind(prim, inputs, attrs)  # type: ignore[misc]
        if is_flow(prim, attrs):
            flow = _FLOWS[prim.name.removeprefix("effect_")](attrs)
            outputs, effect_results = flow.bound(inputs)
            self.effects.append((flow, effect_results))
            return tuple(outputs)
        result = super().bind(prim, inputs, attrs)  # type: ignore[misc]
        if has_effect_results(prim, attrs):
            self.effects.append((type(result) is tuple, as_tuple(result)))
        return result


class _ReplayEffects(WithoutEffects):
    """An evaluation without effects that takes their results from ``remaining``."""

    parts: Iterator[Any] | None = None  # None in nested functions
    remaining: Iterator[Tensor]

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Replaces effects by their results, and control flow by its counterpart without effects."""
        if self.parts is None or not (has_effect_results(prim, attrs) or is_flow(prim, attrs)):
            return super().bind(prim, inputs, attrs)
        part = next(self.parts)
        if not isinstance(part, _Effect):
            return part.run_without_effects(inputs, [next(self.remaining) for _ in range(part.count)])
        # Nothing reads it, so that it wasn't passed in.
        if not part.is_needed:
            return zeros_for(prim, inputs, attrs)
        values = tuple(next(self.remaining) for _ in range(part.size))
        if prim.name == "call_python" and attrs["differentiable"]:
            shapes = tuple(x._type.shape for x in values[:-1])
            return bind.recall_python(*inputs, *values, **attrs | {"shapes": shapes})
        return values if part.is_tuple else values[0]


def is_flow(prim: Any, attrs: dict[str, Any]) -> bool:
    """Returns whether a primitive is control flow with effects that have results."""
    return prim.name in CONTROL and any(calls_effect_results(f) for f in attrs.values() if _is_function(f))


def _is_function(value: Any) -> bool:
    return isinstance(value, Graph) or hasattr(value, "mod")


class _Cond:
    """A cond with effects; a branch returns zeros for the results of the other branch's effects."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.branches = [EffectReplay(attrs["then_branch"]), EffectReplay(attrs["else_branch"])]
        self.shapes = attrs.get("shapes", ())

    def bound(self, inputs: Sequence[Tensor]) -> Bound:
        """Binds the cond with the effects' results as extra results."""
        types = [x._type for x in inputs[1:]]
        traces = [Trace("branch", state.trace) for _ in self.branches]
        traced = [_traced_with_effects(trace, function, types) for trace, function in zip(traces, self.branches)]
        effect_types = [[x._type for x in own] for _, own in traced]
        self.counts, self.count = [len(k) for k in effect_types], len(effect_types[0]) + len(effect_types[1])
        known, outputs = dims_in(types), traced[0][0]
        graphs = []
        for i, (trace, (values, own)) in enumerate(zip(traces, traced)):
            with tracing(trace):
                # Both branches return the effects' results of both: zeros for those of the other branch.
                others = [trace.own(zeros_of(t, known)) for t in effect_types[1 - i]]
            graphs.append(trace.finish([*values, *([*own, *others] if i == 0 else [*others, *own])]))
        outside = [_with_own(t.shape, known) for t in (*effect_types[0], *effect_types[1])]
        shapes = (*(self.shapes or [x._type.shape for x in outputs]), *outside)
        varies = bool(self.shapes) or any(s != t.shape for s, t in zip(outside, (*effect_types[0], *effect_types[1])))
        attrs = {"then_branch": graphs[0], "else_branch": graphs[1], "shapes": shapes if varies else ()}
        results = state.trace.emit(table["cond"], inputs, attrs)
        outputs, effects = results[: len(outputs)], results[len(outputs) :]
        if is_watched(inputs):
            record_on_tapes(table["cond"], (*inputs, *effects), outputs, self.pure([*inputs, *effects], self.shapes))
        return outputs, effects

    def run_without_effects(self, inputs: Sequence[Tensor], effect_results: Sequence[Tensor]) -> Any:
        return bind.cond(*inputs, *effect_results, **self.pure([*inputs, *effect_results], ()))

    def pure(self, inputs: Sequence[Tensor], shapes: Any) -> dict[str, Any]:
        """Returns the attributes of the cond without effects, over the inputs and then the effects' results."""
        types = [x._type for x in inputs[1:]]
        size, middle = len(types) - self.count, len(types) - self.counts[1]
        graphs = [
            trace_graph(
                "branch",
                lambda *xs: self.branches[0].run_without_effects(xs[:size], xs[size:middle]),
                types,
                state.trace,
            ),
            trace_graph(
                "branch", lambda *xs: self.branches[1].run_without_effects(xs[:size], xs[middle:]), types, state.trace
            ),
        ]
        shapes = shapes or _merged_shapes(*(graph.output_types for graph in graphs))
        return {"then_branch": graphs[0], "else_branch": graphs[1], "shapes": shapes}


def _traced_with_effects(trace: Trace, function: EffectReplay, types: Sequence[TensorType]) -> Bound:
    """Runs a function with its effects in ``trace``."""
    with tracing(trace):
        return function.run_with_effects([trace.add_param(t) for t in types])


def _with_own(shape: Any, known: Any) -> Any:
    """Returns a shape with new symbols for the dims that are not computable from those given."""
    return tuple(d if is_computable_from(d, known) else fresh_dim(state.trace.root.unique("size")) for d in shape)


def is_watched(inputs: Sequence[Tensor]) -> bool:
    """Returns whether a tape watches any of these tensors."""
    return any(tape.watches(x) for tape in state.tapes for x in inputs)


class _While:
    """A while with effects: it counts its iterations and stacks the results of the effects of each."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.condition, self.replayed, self.size = attrs["condition"], EffectReplay(attrs["body"]), attrs["carried"]
        self.most, self.shapes, self.arrays = attrs.get("bound"), attrs.get("shapes", ()), attrs.get("arrays", ())

    def bound(self, inputs: Sequence[Tensor]) -> Bound:
        """Binds the loop with a counter and stacks of the effects' results."""
        start, invariants = inputs[: self.size], inputs[self.size :]
        types, fixed = self._own([x._type for x in start], self.shapes), [x._type for x in invariants]
        with tracing(Trace("aside", state.trace)) as abstract:
            _, effect_results = self.replayed.run_with_effects([abstract.add_param(t) for t in (*types, *fixed)])
        self.stacks = stacks = stacks_for(
            [x._type for x in effect_results], dims_in(x._type for x in inputs), self.most
        )
        first = [convert_to_tensor(0), *start, *stacks.start]
        shapes, arrays = self._counted(stacks, [x._type for x in start])
        types, size = self._own([x._type for x in first], shapes), len(first)

        def condition(count: Tensor, *rest: Tensor) -> Any:
            return call(self.condition, [*rest[: self.size], *rest[size - 1 :]])

        def body(count: Tensor, *rest: Tensor) -> Any:
            outputs, effect_results = self.replayed.run_with_effects([*rest[: self.size], *rest[size - 1 :]])
            written = stacks.written(rest[self.size : size - 1], count, effect_results)
            return (bind.add(count, convert_to_tensor(1)), *outputs, *written)

        attrs = {
            "condition": trace_graph("while_cond", condition, [*types, *fixed], state.trace),
            "body": trace_graph("while_body", body, [*types, *fixed], state.trace),
            "carried": size, "bound": self.most, "shapes": shapes, "arrays": arrays,
        }  # fmt: skip
        count, *results = state.trace.emit(table["while"], [*first, *invariants], attrs)
        outputs, effects = results[: self.size], [count, *results[self.size :]]
        self.count = len(effects)
        if is_watched(inputs):
            operands, attrs = self.pure(inputs, effects)
            record_on_tapes(table["while"], operands, (count, *outputs), attrs)
        return outputs, effects

    def _counted(self, stacks: Any, start: Sequence[TensorType]) -> tuple[Any, Any]:
        """Returns shapes and arrays for the loop with a counter in front and stacks at the end."""
        shapes = self.shapes or (tuple(t.shape for t in start) if stacks.vary else ())
        arrays = tuple((1 + i, step, tuple(1 + c for c in counters)) for i, step, counters in self.arrays)
        arrays += tuple((1 + self.size + i, 1, (0,)) for i in stacks.growing)
        return ((), *shapes, *stacks.shapes()) if shapes else (), arrays

    def _own(self, types: Sequence[TensorType], shapes: Any) -> list[TensorType]:
        return [t._replace(shape=own_dims(t, varying_dims(t, shapes, i))) for i, t in enumerate(types)]

    def run_without_effects(self, inputs: Sequence[Tensor], effect_results: Sequence[Tensor]) -> Any:
        inputs, attrs = self.pure(inputs, effect_results)
        return while_.bind(*inputs, **attrs)[1:]

    def pure(self, inputs: Sequence[Tensor], effects: Sequence[Tensor]) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Returns operands and attributes of the loop without effects, which takes their results and the trip count."""
        values, last = [convert_to_tensor(0), *inputs, *effects], len(inputs)
        shapes = ((), *self.shapes) if self.shapes else ()
        carried = self._own([x._type for x in values[: 1 + self.size]], shapes)
        types = [*carried, *(x._type for x in values[1 + self.size :])]

        def body(i: Tensor, *rest: Tensor) -> Any:
            effect_results = self.stacks.read(rest[last + 1 :], i)
            return (bind.add(i, convert_to_tensor(1)), *self.replayed.run_without_effects(rest[:last], effect_results))

        return values, {
            "condition": trace_graph("while_cond", lambda i, *rest: bind.less(i, rest[last]), types, state.trace),
            "body": trace_graph("while_body", body, types, state.trace),
            "carried": 1 + self.size, "bound": self.most, "shapes": shapes,
            "arrays": tuple((1 + i, step, tuple(1 + c for c in counters)) for i, step, counters in self.arrays),
        }  # fmt: skip


_FLOWS: dict[str, Any] = {"cond": _Cond, "while": _While}
