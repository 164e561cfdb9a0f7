"""Calling compiled code: the shortest way from tensors to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvtf.context import dials, state
from tvtf.dtypes import string
from tvtf.emit import Graph, Trace, tracing
from tvtf.frontend.failure import raised_by
from tvtf.frontend.vectorize import is_mapped
from tvtf.interpret import evaluate
from tvtf.locks import join
from tvtf.memory import handle_of, tensor_of, variable_handle
from tvtf.ops.host import tell_machine
from tvtf.ops.indexed_slices import IndexedSlices, rows_of
from tvtf.ops.rules import bind
from tvtf.passes import pipeline
from tvtf.passes.autodiff import Recorder, sweep
from tvtf.passes.hoist import PREPARE
from tvtf.passes.pipeline import compile_module
from tvtf.runtime.cache import cached, key_of
from tvtf.runtime.executable import Executable, GpuExecutable
from tvtf.runtime.origin import digest_of
from tvtf.runtime.target import target_of
from tvtf.tensor import EagerTensor, Tensor
from tvtf.texts import kept
from tvtf.variable import Variable


def executable_for(mod: Any) -> Executable:
    """The compiled module, from the cache where it is there."""
    tell_machine()
    target = target_of(state.device)
    load = Executable if target.kind.name == "llvm" else GpuExecutable
    return cached(key_of(mod, target, *_options()), lambda path: compile_module(mod, target, path), load)


def _options() -> list[str]:
    """What else the compiled code depends on: passes that users added; under the dials, that they were at work."""
    names = [name for name, _ in pipeline.user_passes]
    watching = [f"{dials.verify} {dials.dump}"] if dials.verify or dials.dump else []
    return [*names, digest_of(run for _, run in pipeline.user_passes), *watching]


class GraphFunction:
    """A graph as a function of all its inputs, captures included: compiled when called eagerly, inlined in a trace.

    To a tape it is one primitive, whose vjp is the backward graph, compiled too.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tf_name = graph.name
        self._executables: dict[str | None, Executable] = {}
        self._backward: Backward | None = None

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        if state.trace is not None or is_mapped(inputs):
            return evaluate(self.graph.module(), "main", inputs)
        outputs = self._run(inputs)
        for tape in state.tapes:
            tape.record(self, inputs, outputs, {})
        return outputs

    def _run(self, inputs: Sequence[Any]) -> tuple[EagerTensor, ...]:
        if self.graph.holds_texts:
            with kept():
                return self._run_kept(inputs)
        return self._run_kept(inputs)

    def _run_kept(self, inputs: Sequence[Any]) -> tuple[EagerTensor, ...]:
        run = self._executable().function()
        try:
            return tuple(map(tensor_of, run(*map(handle_of, inputs))))
        except Exception as error:  # TVM raises many types; each is told in tvtf's words
            raise raised_by(self.graph.name, error) from error

    def _executable(self) -> Executable:
        """The code for the device in use."""
        found = self._executables.get(state.device)
        if found is None:
            found = self._executables[state.device] = executable_for(self.graph.module())
        return found

    def vjp(self, cts: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *inputs: Tensor) -> list[Any]:
        if self._backward is None:
            self._backward = Backward(self.graph)
        return self._backward(inputs, cts)


class Backward:
    """The backward graph of a graph: inputs and cotangents in, the inputs' cotangents out; the forward is run anew."""

    def __init__(self, graph: Graph) -> None:
        self.seeded = [i for i, t in enumerate(graph.output_types) if t.dtype.is_differentiable]
        with tracing(Trace(f"{graph.name}_backward")) as trace:
            params = [trace.add_param(p._type, p._var.name) for p in graph.all_params]
            cts = [trace.add_param(graph.output_types[i], "ct") for i in self.seeded]
            found = self._sweep(graph, params, cts)
            self.connected = [i for i, ct in enumerate(found) if ct is not None]
            self.rows = {i for i in self.connected if isinstance(found[i], IndexedSlices)}
            outputs = [x for i in self.connected for x in _computed(found[i])]
        self.function = GraphFunction(trace.finish(outputs))

    def _sweep(self, graph: Graph, params: list[Any], cts: list[Any]) -> list[Any]:
        recorder = Recorder()
        for p in params:
            if p._type.dtype.is_differentiable:
                recorder.watch(p)
        state.tapes = [recorder]
        outputs = evaluate(graph.module(), "main", params)
        state.tapes = []
        return sweep(recorder.records, [outputs[i] for i in self.seeded], cts, params)

    def __call__(self, inputs: Sequence[Tensor], cts: Sequence[Tensor]) -> list[Any]:
        gradients: list[Any] = [None] * len(inputs)
        if self.connected:
            found = iter(self.function(*inputs, *(cts[i] for i in self.seeded)))
            for i in self.connected:
                gradients[i] = rows_of(inputs[i], next(found), next(found)) if i in self.rows else next(found)
        return gradients


def _computed(ct: Any) -> list[Any]:
    """A cotangent as tensors that code can return; the shape of what rows are of is known outside."""
    return [ct.values, bind.identity(state.trace.own(ct.indices))] if isinstance(ct, IndexedSlices) else [ct]


class Code(NamedTuple):
    """A concrete function's code for one device, and its last arguments; no code where nothing is computed."""

    executable: Executable | None
    prepared: list[Any]


class Compiled:
    """A concrete function's code with everything a call needs at hand; Variables that it updates are donated."""

    def __init__(self, concrete: Any) -> None:
        graph, results = concrete.graph, concrete.results
        self.name = concrete.name
        self.graph = graph
        self.results = results
        self.captures: list[Any] = concrete.captures
        self.updates: list[tuple[Variable, int]] = results.updates
        self.count = len(results.computed)
        self.single = self.count == 1
        self.only_computes = not self.updates and all(kind == "computed" for kind, _ in results.leaves)
        self.holds_texts: bool = graph.holds_texts
        self.simple = (
            not graph.holds_texts and results.is_bare and self.single and not self.updates and not self.captures
        )
        self.bound = concrete.bound
        self.lock = join([v.lock for v in concrete.variables])
        self.in_place: dict[str | None, set[int]] = {}
        self._codes: dict[str | None, Code] = {}
        self.code()

    def module(self) -> Any:
        """What is compiled: the traced function, with what is donated."""
        first = len(self.graph.params)
        constants = [first + i for i, capture in enumerate(self.captures) if is_constant(capture)]
        return self.graph.entry(self._donations(self.graph), constants)

    def _donations(self, graph: Graph) -> list[tuple[int, int]]:
        first = len(graph.params)
        place = {id(outer): first + i for i, (outer, _) in enumerate(graph.captures)}
        return [(index, place[id(variable)]) for variable, index in self.updates]

    def __call__(self, tensors: Sequence[Any], variables: Sequence[Variable] = ()) -> Any:
        if self.simple:
            return tensor_of(self._execute([t._handle or handle_of(t) for t in tensors]))
        if self.holds_texts:
            with kept():
                return self._call_locked(tensors, variables)
        return self._call_locked(tensors, variables)

    def _call_locked(self, tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        if variables:
            return self._call_bound(tensors, variables)
        with self.lock:
            return self._call(tensors, self.captures, self.updates)

    def _call_bound(self, tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        """With Variables among the arguments."""
        captures = [self.bound(c, variables) for c in self.captures]
        updates = [(self.bound(v, variables), index) for v, index in self.updates]
        with join([c.lock for c in captures if isinstance(c, Variable)]):
            return self._call(tensors, captures, updates)

    def _call(self, tensors: Sequence[Any], captures: list[Any], updates: list[tuple[Variable, int]]) -> Any:
        for variable, _ in updates:
            variable.own_memory()
        handles = [t._handle or handle_of(t) for t in tensors]
        handles += [c._handle or (variable_handle(c) if isinstance(c, Variable) else handle_of(c)) for c in captures]
        handles += (self._codes.get(state.device) or self.code()).prepared
        outputs = self._execute(handles)
        if self.only_computes:
            return self._computed(outputs)
        return self._finish(tensors, captures, updates, [outputs] if self.single else outputs)

    def code(self) -> Code:
        """The code for the device in use, compiled when first asked for, with what its constants give once for all calls."""
        found = self._codes.get(state.device)
        if found is None:
            executable = executable_for(self.module()) if self.count or not self.graph.pure else None
            constants = [handle_of(c) for c in self.captures if is_constant(c)]
            prepared = list(executable.function(PREPARE)(*constants)) if constants and executable else []
            found = self._codes[state.device] = Code(executable, prepared)
        return found

    def _execute(self, handles: list[Any]) -> Any:
        executable = (self._codes.get(state.device) or self.code()).executable
        if executable is None:
            return ()
        run = executable.function()
        try:
            return run(*handles)
        except Exception as error:  # TVM raises many types; each is told in tvtf's words
            raise raised_by(self.name, error) from error

    def _computed(self, outputs: Any) -> Any:
        """Results that are all computed, each once or more often."""
        made = [tensor_of(outputs)] if self.single else [tensor_of(outputs[i]) for i in range(self.count)]
        return self.results.packed([made[index] for _, index in self.results.leaves])

    def _finish(
        self, tensors: Sequence[Any], captures: list[Any], updates: list[tuple[Variable, int]], outputs: Any
    ) -> Any:
        self._take(updates, outputs)
        updated = {index: variable for variable, index in updates}
        params = [*tensors, *captures]

        def computed(index: int) -> EagerTensor:
            variable = updated.get(index)
            return tensor_of(outputs[index]) if variable is None else EagerTensor(variable._array)

        return self.results.assemble(
            {"computed": computed, "param": lambda i: current(params[i]), "value": lambda v: v}
        )

    def _take(self, updates: list[tuple[Variable, int]], outputs: Any) -> None:
        """Gives the Variables their new values; those that were donated have them already.

        Where nothing branches, what is donated is the same in every call on a device.
        """
        known = self.in_place.get(state.device)
        if known is not None:
            updates = [(variable, index) for variable, index in updates if index not in known]
        taken = {index for variable, index in updates if variable.take(outputs[index])}
        if known is None and not self.graph.subgraphs:
            self.in_place[state.device] = {index for _, index in updates} - taken


def is_constant(capture: Any) -> bool:
    """Whether a capture is the same in every call; strings are other numbers in each."""
    return isinstance(capture, EagerTensor) and capture.dtype is not string


def current(param: Any) -> EagerTensor:
    """A parameter that the function returns as it is: a Variable's is its value now."""
    return EagerTensor(param._array) if isinstance(param, Variable) else param
