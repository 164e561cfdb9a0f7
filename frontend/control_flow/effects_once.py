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
    evaluation_of,
    has_effect_results,
    is_computable_from,
    record_on_tapes,
    variables_used_by,
    zeros_for,
    zeros_of,
)
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ir.graph import Graph
from tvtf.ir.interpreter import CONTROL
from tvtf.ir.trace import Trace, temporary_trace, trace_graph, tracing
from tvtf.ops.control import call, own_dims, varying_dims, while_
from tvtf.ops.rules import bind

Bound = tuple[Sequence[Tensor], Sequence[Tensor]]
"""The results, and the results of effects."""


def bound_once(prim: Any, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Emits a cond or while that has side effects, and returns the results.

    A cond or while without the effects is recorded on the gradient tapes. A gradient may run the recorded one again,
    but the effects must happen once.
    """
    return tuple(_FLOWS[prim.name.removeprefix("effect_")](attrs).bind_with_effects(inputs)[0])


def calls_effect_results(function: Any) -> bool:
    """Returns whether a branch or loop function has a side effect with results, such as a call of Python.

    Functions that the branch or loop function calls are searched, too.
    """
    if hasattr(function, "all_params"):  # a graph; other functions belong to a Relax module
        return not function.pure and _calls_effect_results(function.function, function.reachable())
    return _calls_effect_results(function.mod[function.name], function.mod.functions)


def _calls_effect_results(function: Any, functions: Any) -> bool:
    """Returns whether a Relax function, or a function that it calls, has a side effect with results.

    ``functions`` are the Relax functions by global variable.
    """
    for binding in bindings_of(function.body):
        if not _is_impure(binding.value):
            continue
        call = dialect.read(binding.value)
        if has_effect_results(call.primitive, call.attrs) or _nested_effect_results(call, functions):
            return True
    return False


def _is_impure(value: Any) -> bool:
    """Returns whether a Relax expression is the call of a primitive with side effects."""
    return dialect.is_dialect(value) and not table[value.op.name.removeprefix("tvtf.")].pure


def _nested_effect_results(call: Any, functions: Any) -> bool:
    """Returns whether a branch or loop function of a cond or while has a side effect with results."""
    # The functions of a cond or while are attributes, which are global variables.
    attrs = call.attrs.values() if call.primitive.name in CONTROL else ()
    names = [value for value in attrs if isinstance(value, ir.GlobalVar)]
    return any(_calls_effect_results(functions[name], functions) for name in names)


class _Effect(NamedTuple):
    """A side effect that ran: the number of its results, whether they are a tuple, and whether any is needed."""

    size: int
    is_tuple: bool
    is_needed: bool


class EffectReplay:
    """A function with side effects that have results, such as calls of Python.

    The function runs once with its effects, and the results of the effects are recorded. Later runs use the recorded
    results instead of the effects.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.effect_records: list[Any] = []

    def run_with_effects(self, inputs: Sequence[Tensor]) -> Bound:
        """Runs the function with its side effects, and records the effects in ``self.effect_records``.

        Returns:
          the function's outputs, and the results of the effects on which the outputs depend.
        """
        interpreter = evaluation_of(self.function, inputs, _RecordEffects)
        effects: list[tuple[Any, Sequence[Tensor]]] = []
        interpreter.effects = effects  # to be filled by the run
        outputs = [state.trace.own(x) for x in interpreter.run()]
        used = variables_used_by(state.trace, outputs)
        self.effect_records = []
        effect_results: list[Tensor] = []
        for record, values in effects:
            record = _effect_record(record, values, used)
            self.effect_records.append(record)
            if _is_needed(record):
                effect_results += [state.trace.own(value) for value in values]
        return outputs, effect_results

    def run_without_effects(self, inputs: Sequence[Tensor], effect_results: Sequence[Tensor]) -> Sequence[Tensor]:
        """Runs the function with ``effect_results`` in place of its side effects, and returns the outputs.

        ``effect_results`` are the results that ``run_with_effects`` returned.
        """
        run = evaluation_of(self.function, inputs, _ReplayEffects)
        run.effect_records, run.remaining = iter(self.effect_records), iter(effect_results)
        return run.run()  # type: ignore[no-any-return]


def _effect_record(record: Any, values: Sequence[Tensor], used: set[Any]) -> Any:
    """Completes the record of a side effect with the number of results, and whether they are needed.

    Args:
      record: for a primitive, whether it returned a tuple; for control flow, a record that is already complete.
      values: the results of the effect.
      used: the variables on which the function's outputs depend.
    """
    if record is None or isinstance(record, bool):
        return _Effect(len(values), bool(record), any(value._var in used for value in values))  # type: ignore[attr-defined]
    return record


def _is_needed(record: Any) -> bool:
    """Returns whether the results of a recorded effect are needed. Results of control flow always are."""
    return not isinstance(record, _Effect) or record.is_needed


class _RecordEffects:
    """An evaluation of a function that records the results of side effects, in program order."""

    effects: list[tuple[Any, Sequence[Tensor]]] | None = None  # None in nested functions

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Evaluates a primitive, and returns the results. If the primitive has side effects, the results are recorded.

        A cond or while with effects is recorded with the results of all effects in its functions.
        """
        if self.effects is None:  # in a nested function
            return super().bind(prim, inputs, attrs)  # type: ignore[misc]
        if is_flow_with_effects(prim, attrs):
            flow = _FLOWS[prim.name.removeprefix("effect_")](attrs)
            outputs, effect_results = flow.bind_with_effects(inputs)
            self.effects.append((flow, effect_results))
            return tuple(outputs)
        result = super().bind(prim, inputs, attrs)  # type: ignore[misc]
        if has_effect_results(prim, attrs):
            self.effects.append((type(result) is tuple, as_tuple(result)))
        return result


class _ReplayEffects(WithoutEffects):
    """An evaluation of a function with recorded results in place of its side effects."""

    effect_records: Iterator[Any] | None = None  # None in nested functions
    remaining: Iterator[Tensor]

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Evaluates a primitive, and returns the results.

        For a side effect, the recorded results are returned instead.
        """
        if self.effect_records is None:
            return super().bind(prim, inputs, attrs)
        is_effect = has_effect_results(prim, attrs) or is_flow_with_effects(prim, attrs)
        if not is_effect:
            return super().bind(prim, inputs, attrs)
        record = next(self.effect_records)
        if not isinstance(record, _Effect):
            nested_results = [next(self.remaining) for _ in range(record.count)]
            return record.run_without_effects(inputs, nested_results)
        if not record.is_needed:  # nothing reads its results, so that they weren't passed in
            return zeros_for(prim, inputs, attrs)
        values = tuple(next(self.remaining) for _ in range(record.size))
        if prim.name == "call_python" and attrs["differentiable"]:
            shapes = tuple(value._type.shape for value in values[:-1])  # the last value is the id of the recorded call
            return bind.recall_python(*inputs, *values, **attrs | {"shapes": shapes})
        return values if record.is_tuple else values[0]


def is_flow_with_effects(prim: Any, attrs: dict[str, Any]) -> bool:
    """Returns whether a primitive is a cond or while whose functions have effects with results."""
    return prim.name in CONTROL and any(calls_effect_results(value) for value in attrs.values() if _is_function(value))


def _is_function(value: Any) -> bool:
    """Returns whether an attribute of a primitive is a function: a graph, or a function of a Relax module."""
    return isinstance(value, Graph) or hasattr(value, "mod")


class _CondWithEffects:
    """A cond with side effects. A branch returns zeros in place of the results of the other branch's effects."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.branches = [EffectReplay(attrs["then_branch"]), EffectReplay(attrs["else_branch"])]
        self.shapes = attrs.get("shapes", ())

    def bind_with_effects(self, inputs: Sequence[Tensor]) -> Bound:
        """Emits the cond with its side effects.

        The branches of a cond must return the same types. Each branch therefore returns its outputs, the results of its
        effects, and zeros in place of the results of the other branch's effects.

        Returns:
          the outputs of the cond, and the results of the effects of both branches.
        """
        types = [x._type for x in inputs[1:]]  # the first input is the condition
        then_trace, else_trace = Trace("branch", state.trace), Trace("branch", state.trace)
        then_trace.is_in_branch = else_trace.is_in_branch = True
        then_outputs, then_effects = _traced_with_effects(then_trace, self.branches[0], types)
        else_outputs, else_effects = _traced_with_effects(else_trace, self.branches[1], types)
        self.counts = [len(then_effects), len(else_effects)]
        self.count = sum(self.counts)
        input_dims = dims_in(types)
        then_zeros = _zeros_in(then_trace, else_effects, input_dims)
        else_zeros = _zeros_in(else_trace, then_effects, input_dims)
        attrs = {
            "then_branch": then_trace.finish([*then_outputs, *then_effects, *then_zeros]),
            "else_branch": else_trace.finish([*else_outputs, *else_zeros, *else_effects]),
            "shapes": self._shapes_with_effects(then_outputs, [*then_effects, *else_effects], input_dims),
        }
        results = state.trace.emit(table["cond"], inputs, attrs)
        outputs, effects = results[: len(then_outputs)], results[len(then_outputs) :]
        if is_watched(inputs):
            operands = [*inputs, *effects]
            record_on_tapes(table["cond"], tuple(operands), outputs, self.without_effects(operands, self.shapes))
        return outputs, effects

    def _shapes_with_effects(self, outputs: Sequence[Tensor], effects: Sequence[Tensor], input_dims: Any) -> Any:
        """Returns the attribute ``shapes`` of the cond with side effects: () if no size depends on the branch.

        Args:
          outputs: the outputs of a branch.
          effects: the results of the effects of both branches.
          input_dims: the symbolic dims of the inputs, from which sizes can be computed.
        """
        effect_shapes = [_with_new_dims(x._type.shape, input_dims) for x in effects]
        effect_sizes_vary = any(shape != x._type.shape for shape, x in zip(effect_shapes, effects))
        if not self.shapes and not effect_sizes_vary:
            return ()
        output_shapes = self.shapes or [output._type.shape for output in outputs]
        return (*output_shapes, *effect_shapes)

    def run_without_effects(self, inputs: Sequence[Tensor], effect_results: Sequence[Tensor]) -> Any:
        """Emits the cond with ``effect_results`` in place of its side effects, and returns its results."""
        return bind.cond(*inputs, *effect_results, **self.without_effects([*inputs, *effect_results], ()))

    def without_effects(self, inputs: Sequence[Tensor], shapes: Any) -> dict[str, Any]:
        """Traces the branches without their side effects, and returns the attributes of a cond over these traces.

        Args:
          inputs: the inputs of the cond, followed by the results of the effects, which its branches read.
          shapes: the shapes of the results if the branches differ in a size, else ().
        """
        types = [x._type for x in inputs[1:]]  # the first input is the condition
        then_replay, else_replay = self.branches
        # The operands are the captures, then the results of the first branch's effects, then of the second's. A branch
        # is passed all of them, and reads the captures and the results of its own effects.
        then_start = len(types) - self.count
        else_start = len(types) - self.counts[1]

        def then_branch(*operands: Tensor) -> Sequence[Tensor]:
            return then_replay.run_without_effects(operands[:then_start], operands[then_start:else_start])

        def else_branch(*operands: Tensor) -> Sequence[Tensor]:
            return else_replay.run_without_effects(operands[:then_start], operands[else_start:])

        then_graph = trace_graph("branch", then_branch, types, state.trace, is_branch=True)
        else_graph = trace_graph("branch", else_branch, types, state.trace, is_branch=True)
        shapes = shapes or _merged_shapes(then_graph.output_types, else_graph.output_types)
        return {"then_branch": then_graph, "else_branch": else_graph, "shapes": shapes}


def _traced_with_effects(trace: Trace, function: EffectReplay, types: Sequence[TensorType]) -> Bound:
    """Runs a function with its side effects in ``trace``, on new parameters of the given types.

    Returns the outputs of the function, and the results of its effects.
    """
    with tracing(trace):
        return function.run_with_effects([trace.add_param(tensor_type) for tensor_type in types])


def _zeros_in(trace: Trace, tensors: Sequence[Tensor], known_dims: Any) -> list[Tensor]:
    """Emits zeros of the types of ``tensors``, which belong to another trace, in ``trace``."""
    with tracing(trace):
        return [trace.own(zeros_of(tensor._type, known_dims)) for tensor in tensors]


def _with_new_dims(shape: Any, known: Any) -> Any:
    """Returns a shape in which dims that can't be computed from the ``known`` symbolic dims are new symbolic dims."""
    return tuple(dim if is_computable_from(dim, known) else fresh_dim(state.trace.root.unique("size")) for dim in shape)


def is_watched(inputs: Sequence[Tensor]) -> bool:
    """Returns whether an active gradient tape watches any of the tensors."""
    return any(tape.watches(x) for tape in state.tapes for x in inputs)


class _WhileWithEffects:
    """A while loop with side effects. It counts its iterations, and saves the results of the effects on stacks."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.condition = attrs["condition"]
        self.body = EffectReplay(attrs["body"])
        self.carried_count = attrs["carried"]
        self.bound = attrs.get("bound")
        self.shapes = attrs.get("shapes", ())
        self.arrays = attrs.get("arrays", ())

    def bind_with_effects(self, inputs: Sequence[Tensor]) -> Bound:
        """Emits the loop with its side effects. Each iteration saves the results of the effects on stacks.

        The loop variables are a counter, the original loop variables, and the stacks.

        Returns:
          the outputs of the original loop, and a list of the number of iterations and the stacks.
        """
        loop_vars, invariants = inputs[: self.carried_count], inputs[self.carried_count :]
        self.stacks = stacks = self._stacks_of_effects(loop_vars, invariants)
        entry = [convert_to_tensor(0), *loop_vars, *stacks.start]
        shapes, arrays = self._attributes_with_counter(stacks, [x._type for x in loop_vars])
        carried_types = self._with_varying_dims([x._type for x in entry], shapes)
        types = [*carried_types, *(x._type for x in invariants)]
        end_of_stacks = self.carried_count + len(stacks.start)

        def split(values: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
            """Splits what follows the counter into the inputs of the original loop, and the stacks."""
            original_inputs = [*values[: self.carried_count], *values[end_of_stacks:]]
            return original_inputs, values[self.carried_count : end_of_stacks]

        def condition(count: Tensor, *values: Tensor) -> Any:
            original_inputs, _ = split(values)
            return call(self.condition, original_inputs)

        def body(count: Tensor, *values: Tensor) -> Any:
            original_inputs, filled_stacks = split(values)
            outputs, effect_results = self.body.run_with_effects(original_inputs)
            written = stacks.written(filled_stacks, count, effect_results)
            return (bind.add(count, convert_to_tensor(1)), *outputs, *written)

        attrs = {
            "condition": trace_graph("while_cond", condition, types, state.trace),
            "body": trace_graph("while_body", body, types, state.trace, is_branch=True),
            "carried": len(entry), "bound": self.bound, "shapes": shapes, "arrays": arrays,
        }  # fmt: skip
        count, *results = state.trace.emit(table["while"], [*entry, *invariants], attrs)
        outputs = results[: self.carried_count]
        effects = [count, *results[self.carried_count :]]
        self.count = len(effects)
        if is_watched(inputs):
            operands, attrs = self.without_effects(inputs, effects)
            record_on_tapes(table["while"], operands, (count, *outputs), attrs)
        return outputs, effects

    def _stacks_of_effects(self, loop_vars: Sequence[Tensor], invariants: Sequence[Tensor]) -> Any:
        """Returns the stacks for the results of the effects, whose types a traced iteration shows.

        Args:
          loop_vars: the initial values of the loop variables.
          invariants: the tensors that the loop only reads.
        """
        types = [x._type for x in loop_vars]
        invariant_types = [x._type for x in invariants]
        with tracing(temporary_trace()) as abstract:
            param_types = self._with_varying_dims(types, self.shapes) + invariant_types
            _, effect_results = self.body.run_with_effects([abstract.add_param(each) for each in param_types])
        known_dims = dims_in([*types, *invariant_types])
        return stacks_for([result._type for result in effect_results], known_dims, self.bound)

    def _attributes_with_counter(self, stacks: Any, start: Sequence[TensorType]) -> tuple[Any, Any]:
        """Returns the attributes ``shapes`` and ``arrays`` of the loop with a counter and stacks.

        The loop variables are the counter, the original loop variables, and the stacks.

        Args:
          stacks: the stacks for the results of the effects.
          start: the types of the original loop variables.
        """
        shapes = self.shapes
        if stacks.vary and not shapes:
            shapes = tuple(tensor_type.shape for tensor_type in start)
        if shapes:
            counter_shape = ()
            shapes = (counter_shape, *shapes, *stacks.shapes())
        first_stack = 1 + self.carried_count
        # An iteration adds 1 row to a growing stack, at the index in the counter, which is loop variable 0.
        stack_arrays = tuple((first_stack + index, 1, (0,)) for index in stacks.growing)
        return shapes, self._arrays_after_counter() + stack_arrays

    def _with_varying_dims(self, types: Sequence[TensorType], shapes: Any) -> list[TensorType]:
        """Returns types of loop variables with a new symbolic dim for each size that differs between iterations."""
        return [
            tensor_type._replace(shape=own_dims(tensor_type, varying_dims(tensor_type, shapes, i)))
            for i, tensor_type in enumerate(types)
        ]

    def run_without_effects(self, inputs: Sequence[Tensor], effect_results: Sequence[Tensor]) -> Any:
        """Emits the loop without its side effects, and returns its results.

        The counter, its first result, is dropped.
        """
        inputs, attrs = self.without_effects(inputs, effect_results)
        return while_.bind(*inputs, **attrs)[1:]

    def without_effects(
        self, inputs: Sequence[Tensor], effects: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Traces the loop without its side effects, and returns the operands and attributes of the ``while``.

        The operands are a counter, the inputs, and ``effects``: the number of iterations, and stacks with the results
        of the effects. Each iteration reads its results from the stacks.
        """
        operands = [convert_to_tensor(0), *inputs, *effects]
        input_count = len(inputs)
        shapes = ((), *self.shapes) if self.shapes else ()
        carried = self._with_varying_dims([operand._type for operand in operands[: 1 + self.carried_count]], shapes)
        types = [*carried, *(operand._type for operand in operands[1 + self.carried_count :])]

        def condition(i: Tensor, *values: Tensor) -> Any:
            iteration_count = values[input_count]
            return bind.less(i, iteration_count)

        def body(i: Tensor, *values: Tensor) -> Any:
            """Runs one iteration without its effects, with their recorded results read from the stacks."""
            original_inputs, stacks = values[:input_count], values[input_count + 1 :]
            results = self.body.run_without_effects(original_inputs, self.stacks.read(stacks, i))
            return (bind.add(i, convert_to_tensor(1)), *results)

        return operands, {
            "condition": trace_graph("while_cond", condition, types, state.trace),
            "body": trace_graph("while_body", body, types, state.trace, is_branch=True),
            "carried": 1 + self.carried_count, "bound": self.bound, "shapes": shapes,
            "arrays": self._arrays_after_counter(),
        }  # fmt: skip

    def _arrays_after_counter(self) -> tuple[Any, ...]:
        """Returns the attribute ``arrays`` with all positions larger by 1, since a counter comes first."""
        return tuple(
            (1 + index, rows_per_iteration, tuple(1 + counter for counter in counters))
            for index, rows_per_iteration, counters in self.arrays
        )


_FLOWS: dict[str, Any] = {"cond": _CondWithEffects, "while": _WhileWithEffects}
