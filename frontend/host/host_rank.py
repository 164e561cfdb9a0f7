"""Python whose results have ranks that only calling it tells, in traced functions.

Such a function has instances, one for each combination of ranks that was seen. A call whose Python gives other ranks is run
anew: first interpreted, which tells the ranks, then by an instance for them. What Python did is not done again, and
Variables go back to what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from tvtf.frontend.control_flow.cond_while import one_of
from tvtf.frontend.function.deferred_call import Call, bare, calls, new_key, waiting
from tvtf.ir.dialect import example_shape
from tvtf.ir.interpreter import CONTROL, Instance, evaluate
from tvtf.ops import host
from tvtf.state.variable import Variable


class PythonCall(Call):
    """A call of Python whose results' ranks are not all known; its first input tells which function it is of."""

    def __init__(self, specs: Sequence[TensorSpec], differentiable: bool) -> None:
        super().__init__(host.call, None, [], [])
        self.specs = specs
        self.differentiable = differentiable
        self.key = new_key(self)
        self.types = [TensorType(_dims(s), s.dtype) for s in specs]

    def key_here(self, key: int) -> int:
        again = PythonCall(self.specs, self.differentiable)
        state.trace.root.waiting[again.key] = again
        return again.key

    def __call__(self, inputs: Sequence[Any], kind: Any = None) -> tuple[Tensor, ...]:
        if state.trace is None:
            return self._now([x.eager_array() for x in inputs])
        root = state.trace.root
        ranks = root.ranks.get(self.key) if root.example is None else _ranks(self.specs, RANKS[root.example])
        if ranks is None:
            return self.bound(inputs)
        types = [TensorType(_dims(s, rank), s.dtype) for s, rank in zip(self.specs, ranks)]
        return host.call_by(inputs[0], inputs[1:], types, self.differentiable)  # type: ignore[no-any-return]

    def bound(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Waits in the active trace, which becomes one of unknown rank."""
        root = state.trace.root
        if root.waiting is None:
            root.waiting = {}
        return as_tuple(waiting.bind(*inputs, key=self.key))

    def _now(self, arrays: Sequence[np.ndarray]) -> tuple[Tensor, ...]:
        effects = state.effects
        results = host.run(arrays[0], arrays[1:], host.recorded if self.differentiable else host.plain)[:-1]
        if effects is not None:
            effects.ranks.setdefault(self.key, set()).add(tuple(r.ndim for r in results))
        return tuple(map(EagerTensor, results))

    def vjp(self, ct: Any, y: Any, inputs: Sequence[Any]) -> Any:  # type: ignore[override]
        attrs = {"differentiable": self.differentiable, "backward": False}
        return table["call_python"].vjp(as_tuple(ct), (*as_tuple(y), convert_to_tensor(0, int64)), *inputs, **attrs)  # type: ignore[misc]


def _dims(spec: TensorSpec, rank: int | None = None) -> Any:
    if spec.shape.rank is not None:
        return tuple(host.unknown_dim() if d is None else d for d in spec.shape)
    return example_shape("found") if rank is None else tuple(host.unknown_dim() for _ in range(rank))


class Learning(Instance):
    """Runs a function on eager tensors; when Python is called, Variables hold what was assigned to them before."""

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        call: Assignments = state.effects
        if prim is waiting and not isinstance(waits := calls[attrs["key"]], PythonCall):
            prim = table["cond"] if waits.function is one_of else getattr(waits.function, "__self__", prim)
            if prim.name not in CONTROL:
                return bare(waits(inputs, Learning))
            given, attrs = waits.arguments(inputs, Learning)
            inputs = list(given)
        if prim.name in ("waiting", "call_python"):
            call.write()
        if prim.host and not prim.pure:
            found = tuple(map(EagerTensor, host.run_kernel(prim, attrs, [x.eager_array() for x in inputs])))
            return found if len(found) > 1 else found[0]
        if prim.name in CONTROL:  # whose types need the ranks
            outputs = tuple(map(EagerTensor, prim.numpy(*(x.eager_array() for x in inputs), **attrs)))
            for tape in state.tapes:
                tape.record(prim, inputs, outputs, attrs)
            return outputs
        result = super().bind(prim, inputs, attrs)
        if prim.name == "assign":
            call.assigned(inputs[0], result, *inputs[2:])
        return result


class Assignments(host.Effects):
    """What a call did, and what it assigned: to whose value an array belongs is known by its identity."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        super().__init__()
        self.variables = list(variables)
        self.before = self._held()
        self.after: list[list[np.ndarray]] = []  # what they held after each call of Python
        self.owners: dict[int, tuple[Variable, np.ndarray]] = {}
        self.pending: dict[int, tuple[Variable, Tensor]] = {}

    def _held(self) -> list[np.ndarray]:
        """What the Variables hold, in memory that is theirs no more when they are assigned."""
        return [v._array for v in self.variables]

    def _hold(self, values: Sequence[np.ndarray]) -> None:
        for variable, value in zip(self.variables, values):
            if variable._memory is not value:
                variable.store_beside(value)

    def next(self, run: Callable[[], Any]) -> tuple[np.ndarray, ...]:
        """What Python gave, and assigned."""
        is_new, place = self.place == len(self.results), self.place
        found = super().next(run)
        if is_new:
            self.after.append(self._held())
        else:
            self._hold(self.after[place])
        return found

    def undo(self) -> None:
        """Back to where the call began."""
        self._hold(self.before)
        self.pending.clear()
        self.again()

    def reads(self, captured: Sequence[Any], values: Sequence[Tensor]) -> None:
        self.owners = {id(x._array): (v, x._array) for v, x in zip(captured, values) if isinstance(v, Variable)}  # type: ignore[attr-defined]

    def assigned(self, old: Tensor, new: Tensor, memory: Tensor | None = None) -> None:
        variable, _ = self.owners[id((old if memory is None else memory).eager_array())]
        self.owners[id(new.eager_array())] = variable, new.eager_array()
        self.pending[id(variable)] = variable, new

    def write(self) -> None:
        for variable, value in self.pending.values():
            variable.assign(value)
        self.pending.clear()


class Instances:
    """The instances of a function by the ranks that its Python gave."""

    def __init__(self, concrete: Any) -> None:
        self.concrete = concrete
        calls = concrete.graph.root.waiting or {}
        self.specs = {key: call.specs for key, call in calls.items() if isinstance(call, PythonCall)}
        self.ranks: dict[int, tuple[int, ...]] = {}

    def run(self, tensors: Sequence[Any], variables: Sequence[Variable], how: Callable[..., Any]) -> Any:
        """``how`` an instance is called, with the one for the ranks that Python gives now."""
        concrete = self.concrete
        used = [concrete.bound(c, variables) for c in concrete.captures if isinstance(c, Variable)]
        with remembered(Assignments(used)) as call:
            if self.ranks:
                try:
                    return how(self._instance(tensors), tensors, variables)
                except host.OtherRanks:
                    call.undo()
            with _unseen():
                self._interpreted(call, tensors, variables)
            call.undo()
            if any(len(ranks) > 1 for ranks in call.ranks.values()):  # no code is for several
                return concrete.results.assemble_values(*self._interpreted(call, tensors, variables), variables)
            self.ranks |= {key: rank for key, (rank,) in call.ranks.items()}
            return how(self._instance(tensors), tensors, variables)

    def _interpreted(self, call: Assignments, tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        concrete = self.concrete
        captured = concrete._captured_values(variables)
        call.reads([concrete.bound(c, variables) for c in concrete.captures], captured)
        return evaluate(concrete.module(), "main", [*tensors, *captured], Learning), tensors, captured

    def _instance(self, tensors: Sequence[Any]) -> Any:
        """The instance; for Python that was not called yet, with ranks that it may give."""
        left = [key for key in self.specs if key not in self.ranks]
        for rank in sorted(RANKS) if left else RANKS[:1]:
            try:
                return self.concrete.instance(
                    tensors, self.ranks | {key: _ranks(self.specs[key], rank) for key in left}
                )
            except InvalidArgumentError as error:
                refused = error
        raise refused


def _ranks(specs: Sequence[TensorSpec], rank: int) -> tuple[int, ...]:
    return tuple(rank if s.shape.rank is None else s.shape.rank for s in specs)


@contextmanager
def _unseen() -> Iterator[None]:
    """Unseen by tapes."""
    tapes, state.tapes = state.tapes, []
    try:
        yield
    finally:
        state.tapes = tapes


@contextmanager
def remembered(call: Assignments) -> Iterator[Assignments]:
    """What Python does inside is remembered."""
    outer, state.effects = state.effects, call
    try:
        yield call
    finally:
        state.effects = outer
