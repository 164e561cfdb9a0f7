"""Functions that call Python whose results have ranks that only the call determines.

Such a function has an instance per combination of ranks seen so far. If Python returns other ranks, the call is
repeated: first interpreted, to learn the ranks, then by an instance for them. Python is not called again but its
recorded results are reused, and Variables are reset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.core.deferred_shape import RANKS
from tvtf.core.primitive import Primitive, as_tuple, table
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import int64
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.control_flow.cond_while import deferred_cond
from tvtf.frontend.function.deferred_call import Call, bare, calls, new_key, waiting
from tvtf.frontend.function.traced_program import resolve_capture
from tvtf.ir.dialect import example_shape
from tvtf.ir.interpreter import CONTROL, Instance, evaluate
from tvtf.ops import host
from tvtf.state.variable import Variable


class PythonCall(Call):
    """A deferred call of Python with results of unknown rank. The first input of the call identifies the function."""

    def __init__(self, specs: Sequence[TensorSpec], differentiable: bool) -> None:
        super().__init__(host.call, None, [], [])
        self.specs = specs
        self.differentiable = differentiable
        self.key = new_key(self)
        self.types = [TensorType(_dims(spec), spec.dtype) for spec in specs]

    def key_here(self, key: int) -> int:
        """Adds a copy of this call to the deferred calls of the active trace, and returns the copy's key."""
        copy = PythonCall(self.specs, self.differentiable)
        state.trace.specialization.start_deferring()[copy.key] = copy
        return copy.key

    def __call__(self, inputs: Sequence[Any], evaluation_class: Any = None) -> tuple[Tensor, ...]:
        """Calls Python, or emits a call of Python in the active trace.

        In a trace, the results have the ranks that the trace assumes. If it assumes none, the call stays deferred.
        """
        if state.trace is None:
            return self._call_now(inputs)
        specialization = state.trace.specialization
        if specialization.example is None:
            ranks = specialization.python_ranks.get(self.key)
        else:  # all unknown ranks in an example are the same
            ranks = _ranks(self.specs, RANKS[specialization.example])
        if ranks is None:
            return self.bound(inputs)
        types = [TensorType(_dims(spec, rank), spec.dtype) for spec, rank in zip(self.specs, ranks)]
        return host.call_by(inputs[0], inputs[1:], types, self.differentiable)  # type: ignore[no-any-return]

    def bound(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Emits the deferred call in the active trace. The trace then has tensors of unknown rank."""
        state.trace.specialization.start_deferring()
        return as_tuple(waiting.bind(*inputs, key=self.key))

    def _call_now(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Calls Python, and records the ranks of its results. The first input identifies the function.

        A branch that runs again for its gradient gets the results that Python returned for the same arguments before.
        """
        key, *arrays = [x.eager_array() for x in inputs]
        effects = state.effects
        results = effects.known_results(key, arrays) if isinstance(effects, Assignments) else None
        if results is None:
            results = host.run(key, arrays, host.run_and_record if self.differentiable else host.run_plain)
        *outputs, record_number = map(EagerTensor, results)
        if effects is not None:
            effects.ranks.setdefault(self.key, set()).add(tuple(output._array.ndim for output in outputs))
        if isinstance(effects, Assignments):
            effects.calls.append((key, arrays, results))
        attrs = {"differentiable": self.differentiable, "backward": False}
        for tape in state.tapes:
            tape.record(table["call_python"], tuple(inputs), (*outputs, record_number), attrs)
        return tuple(outputs)

    def vjp(self, cotangent: Any, y: Any, inputs: Sequence[Any]) -> Any:  # type: ignore[override]
        """Returns the cotangents of the inputs, by the vjp of ``call_python``, whose last result numbers the call."""
        attrs = {"differentiable": self.differentiable, "backward": False}
        call_number = convert_to_tensor(0, int64)
        cotangents = as_tuple(cotangent)
        results = (*as_tuple(y), call_number)
        return table["call_python"].vjp(cotangents, results, *inputs, **attrs)  # type: ignore[misc]


def _dims(spec: TensorSpec, rank: int | None = None) -> Any:
    """Returns the shape of a result of Python: new symbolic dims for unknown sizes.

    If the spec has no rank, the shape has ``rank`` dims, or is a shape of unknown rank.
    """
    if spec.shape.rank is not None:
        return tuple(host.unknown_dim() if size is None else size for size in spec.shape)
    if rank is None:
        return example_shape("found")
    return tuple(host.unknown_dim() for _ in range(rank))


class RankEvaluation(Instance):
    """Interprets a function on eager tensors, to find the ranks of what Python returns.

    Assignments of Variables are written before Python is called, because Python may read the Variables.
    """

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Runs a primitive on eager tensors, and returns the results.

        Assignments of Variables are collected, and written before Python is called.
        """
        assignments: Assignments = state.effects
        # Deferred calls other than those of Python can be made now, as all ranks are known.
        is_deferred = prim is waiting
        if is_deferred and not isinstance(deferred := calls[attrs["key"]], PythonCall):
            prim = table["cond"] if deferred.function is deferred_cond else getattr(deferred.function, "__self__", prim)
            if prim.name not in CONTROL:
                return bare(deferred(inputs, RankEvaluation))
            operands, attrs = deferred.arguments(inputs, RankEvaluation)
            inputs = list(operands)
        if prim.name in ("waiting", "call_python"):
            assignments.write()
        if prim.host and not prim.pure:
            results = tuple(map(EagerTensor, host.run_kernel(prim, attrs, [x.eager_array() for x in inputs])))
            return results if len(results) > 1 else results[0]
        if prim.name in CONTROL:  # by the NumPy kernel: `super().bind` would need the result types, and so the ranks
            outputs = tuple(map(EagerTensor, prim.numpy(*(x.eager_array() for x in inputs), **attrs)))
            for tape in state.tapes:
                tape.record(prim, inputs, outputs, attrs)
            return bare(outputs) if is_deferred else outputs
        result = super().bind(prim, inputs, attrs)
        if prim.name == "assign":
            assignments.assigned(inputs[0], result, *inputs[2:])
        return result


class Assignments(host.Effects):
    """The effects of a call of a compiled function: results of Python, and assignments of Variables.

    A Variable is found by the identity of an array that is its value (``owners``).
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        super().__init__()
        self.variables = list(variables)
        self.before = self._arrays()
        self.after: dict[Hashable, list[list[np.ndarray]]] = defaultdict(list)
        """The Variables' arrays after each call of Python, by what was called."""
        self.owners: dict[int, tuple[Variable, np.ndarray]] = {}
        self.pending: dict[int, tuple[Variable, Tensor]] = {}
        self.calls: list[tuple[np.ndarray, list[np.ndarray], Sequence[np.ndarray]]] = []
        """The calls of Python in this run: the function, the arguments, and the results."""

    def known_results(self, key: np.ndarray, arrays: list[np.ndarray]) -> Sequence[np.ndarray] | None:
        """Returns what the latest call of a Python function with these arguments returned, if a part of the program is rerun."""
        if not self.is_rerun:
            return None
        for known_key, known_arrays, results in reversed(self.calls):
            if known_key == key and host.are_same(known_arrays, arrays):
                return results
        return None

    def _arrays(self) -> list[np.ndarray]:
        """Returns the arrays that hold the Variables' values.

        Later assignments don't change them: they use new memory.
        """
        return [variable._array for variable in self.variables]

    def _restore(self, values: Sequence[np.ndarray]) -> None:
        """Sets the Variables to these values."""
        for variable, value in zip(self.variables, values):
            if variable._memory is not value:
                variable.store_in_new_memory(value)

    def next(self, called: Hashable, run: Callable[[], Any]) -> tuple[np.ndarray, ...]:
        """Returns the results of the next call of ``called``: recorded results, or those of ``run``, which calls Python.

        With recorded results, the Variables get the values that they had after the recorded call.
        """
        position = self.positions[called]
        is_new = position == len(self.results[called])
        results = super().next(called, run)
        if is_new:
            self.after[called].append(self._arrays())
        else:
            self._restore(self.after[called][position])
        return results

    def undo(self) -> None:
        """Resets the Variables to their values before the call, to run the function again with the recorded results."""
        self._restore(self.before)
        self.pending.clear()
        self.calls.clear()
        self.again()

    def reads(self, captured: Sequence[Any], values: Sequence[Tensor]) -> None:
        """Records which of the captured tensors' values are the values of Variables."""
        self.owners = {
            id(value._array): (variable, value._array)  # type: ignore[attr-defined]
            for variable, value in zip(captured, values)
            if isinstance(variable, Variable)
        }

    def assigned(self, old: Tensor, new: Tensor, memory: Tensor | None = None) -> None:
        """Records an assignment to a Variable, to be written before Python is called.

        Args:
          old: the Variable's value before the assignment, from which the Variable is found.
          new: the assigned value.
          memory: in a branch or loop body, the Variable's value at its start, to find the Variable instead.
        """
        known_value = old if memory is None else memory
        variable, _ = self.owners[id(known_value.eager_array())]
        new_array = new.eager_array()
        self.owners[id(new_array)] = variable, new_array
        self.pending[id(variable)] = variable, new

    def write(self) -> None:
        """Writes the recorded assignments to the Variables."""
        for variable, value in self.pending.values():
            variable.assign(value)
        self.pending.clear()


class Instances:
    """The instances of a function: versions compiled for the ranks of the results that Python returned."""

    def __init__(self, concrete: Any) -> None:
        self.concrete = concrete
        calls = concrete.specialization.deferred or {}
        self.specs = {key: call.specs for key, call in calls.items() if isinstance(call, PythonCall)}
        self.ranks: dict[int, tuple[int, ...]] = {}

    def run(self, tensors: Sequence[Any], variables: Sequence[Variable], run_instance: Callable[..., Any]) -> Any:
        """Runs the function on ``tensors``, as the version for the ranks that Python returns in this call.

        If Python returns other ranks than in earlier calls, the function is interpreted to find the ranks, and its
        effects are undone. The version for these ranks then runs with the recorded results of Python, which isn't
        called again. ``run_instance`` runs a version.
        """
        concrete = self.concrete
        used_variables = [
            resolve_capture(capture, variables) for capture in concrete.captures if isinstance(capture, Variable)
        ]
        with recording_effects(Assignments(used_variables)) as effects:
            if self.ranks:
                try:
                    return run_instance(self._instance(tensors), tensors, variables)
                except host.OtherRanks:
                    effects.undo()
            with _without_recording():
                self._interpreted(effects, tensors, variables)
            effects.undo()
            # The same call in the program returned several ranks, as in a loop: no compiled instance fits.
            if any(len(ranks) > 1 for ranks in effects.ranks.values()):
                return concrete.results.assemble_values(*self._interpreted(effects, tensors, variables), variables)
            self.ranks |= {key: rank for key, (rank,) in effects.ranks.items()}
            return run_instance(self._instance(tensors), tensors, variables)

    def _interpreted(self, call: Assignments, tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        """Interprets the function, and records its effects and the ranks of Python's results in ``call``.

        Returns the results, the arguments, and the values of the captured tensors and Variables.
        """
        concrete = self.concrete
        captured = concrete._captured_values(variables)
        call.reads([resolve_capture(capture, variables) for capture in concrete.captures], captured)
        return evaluate(concrete.module(), "main", [*tensors, *captured], RankEvaluation), tensors, captured

    def _instance(self, tensors: Sequence[Any]) -> Any:
        """Returns the version of the function for the known ranks of Python's results.

        For calls of Python that have not happened yet, possible ranks are tried until the function can be traced.
        """
        unknown_keys = [key for key in self.specs if key not in self.ranks]
        if not unknown_keys:
            return self.concrete.instance(tensors, self.ranks)
        for rank in sorted(RANKS):
            assumed_ranks = {key: _ranks(self.specs[key], rank) for key in unknown_keys}
            try:
                return self.concrete.instance(tensors, self.ranks | assumed_ranks)
            except InvalidArgumentError as error:  # the program's ops don't accept this rank
                last_error = error
        raise last_error


def _ranks(specs: Sequence[TensorSpec], rank: int) -> tuple[int, ...]:
    """Returns the ranks of the results of Python, with ``rank`` for each unknown rank."""
    return tuple(rank if spec.shape.rank is None else spec.shape.rank for spec in specs)


@contextmanager
def _without_recording() -> Iterator[None]:
    """Suspends recording on gradient tapes in a ``with`` block."""
    tapes = state.tapes
    state.tapes = []
    try:
        yield
    finally:
        state.tapes = tapes


@contextmanager
def recording_effects(call: Assignments) -> Iterator[Assignments]:
    """Records the effects of calls of Python in a ``with`` block in ``call``."""
    outer = state.effects
    state.effects = call
    try:
        yield call
    finally:
        state.effects = outer
