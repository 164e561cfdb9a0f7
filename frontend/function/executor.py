"""Calling compiled code: the shortest way from tensors to tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from tvm import ir

from tvtf.core.dlpack_view import handle_of, tensor_of, variable_handle
from tvtf.core.shape import TensorType, fresh_dim
from tvtf.core.string_handles import kept
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import dials, state
from tvtf.core.variable_lock import cached_property, join
from tvtf.dtypes import string
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.control_flow.closure_conversion import define_dims
from tvtf.frontend.control_flow.cond_grad import of_size
from tvtf.frontend.control_flow.effects_once import Once
from tvtf.frontend.control_flow.rematerialize import dims_in, is_given
from tvtf.frontend.control_flow.vectorized_map import is_mapped
from tvtf.frontend.function.runtime_errors import is_of_other_sizes, raised_by
from tvtf.frontend.host.leading_python import LeadingCall, leading_call, without_leading
from tvtf.ir.interpreter import evaluate
from tvtf.ir.trace import Graph, Trace, trace_graph, tracing
from tvtf.ops.host import released_for_python, tell_machine
from tvtf.ops.indexed_slices import IndexedSlices, rows_of
from tvtf.ops.rules import bind
from tvtf.passes import pipeline
from tvtf.passes.analysis.causal_mask import TRIANGLES, described
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep
from tvtf.passes.memory.hoist_constants import PREPARE
from tvtf.passes.pipeline import compile_module
from tvtf.runtime import finalize
from tvtf.runtime.cache import cached, key_of
from tvtf.runtime.executable import Executable, GpuExecutable
from tvtf.runtime.origin import digest_of
from tvtf.runtime.target import GPU, device_kind, target_of
from tvtf.state.variable import Variable, sightings


def executable_for(mod: Any) -> Executable:
    """The compiled module, from the cache where it is there."""
    tell_machine()
    target = target_of(state.device)
    build = partial(compile_module, mod, target)
    if target.kind.name == "llvm":
        return cached(key_of(mod, target, *_options()), build, Executable)
    _, number = device_kind(state.device or GPU)
    key = key_of(mod, target, *_options(), f"{GPU}:{number}")
    return cached(key, build, lambda path: GpuExecutable(path, number), device=number)


def _options() -> list[str]:
    """What else the compiled code depends on: passes that users added; under the dials, that they were at work."""
    names = [name for name, _ in pipeline.user_passes]
    watching = [f"{dials.verify} {dials.dump}"] if dials.verify or dials.dump else []
    return [*names, digest_of(run for _, run in pipeline.user_passes), *watching]


class GraphFunction:
    """A graph as a function of all its inputs, captures included: compiled when called eagerly, inlined in a trace.

    To a tape it is one primitive, whose vjp is the backward graph, compiled too. ``hidden`` are the outputs that no tape
    sees: Variables' new values; ``written`` the inputs that are these Variables' memory.
    """

    def __init__(
        self, graph: Graph, hidden: Collection[int] = (), written: Collection[int] = (), hopeful: bool = True
    ) -> None:
        self.graph = graph
        self.written = () if graph.pure else written
        self.hopeful = hopeful
        self.fixed = graph.hoped_sizes() if hopeful else []
        self.seeded = [i for i, t in enumerate(graph.output_types) if t.dtype.is_differentiable and i not in hidden]
        self.tf_name = graph.name
        self._executables: dict[str | None, Executable] = {}
        self._backward: Backward | None = None
        self._pairs: dict[tuple[int, ...], Pair | None] = {}

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        if state.trace is not None or is_mapped(inputs):
            return evaluate(self.graph.module(), "main", inputs)
        _check_told(self.graph, inputs)
        watched = tuple(i for i, x in enumerate(inputs) if any(tape.watches(x) for tape in state.tapes))
        return self._call_watched(inputs, watched) if watched else self.run(inputs)

    def _call_watched(self, inputs: Sequence[Tensor], watched: tuple[int, ...]) -> tuple[Tensor, ...]:
        pair = self._pair(watched)
        given = [_as_it_is(x) if i in self.written else x for i, x in enumerate(inputs)]
        outputs, call = (self.run(given), self) if pair is None else pair.run(given, inputs)
        for tape in state.tapes:
            tape.record(call, inputs, outputs, {})
        return outputs

    def _pair(self, watched: tuple[int, ...]) -> Pair | None:
        """None where an op has no gradient, which a tape says only when it is asked for one."""
        if watched not in self._pairs:
            try:
                self._pairs[watched] = Pair(self, watched)
            except LookupError:
                self._pairs[watched] = None
        return self._pairs[watched]

    def run(self, inputs: Sequence[Any]) -> tuple[EagerTensor, ...]:
        """On eager tensors, unseen by tapes."""
        if self.graph.holds_texts:
            with kept():
                return self._run(inputs)
        return self._run(inputs)

    def _run(self, inputs: Sequence[Any]) -> tuple[EagerTensor, ...]:
        handles = list(map(handle_of, inputs))
        if not _fit(handles, self.fixed):
            return self._for_any_sizes._run(inputs)
        run = self._executable().function()
        try:
            return tuple(map(tensor_of, run(*handles)))
        except Exception as error:  # TVM raises many types; each is told in tvtf's words
            if self.hopeful and self.graph.hopes and is_of_other_sizes(error):
                return self._for_any_sizes._run(inputs)
            raise raised_by(self.graph.name, error) from error

    @cached_property
    def _for_any_sizes(self) -> GraphFunction:
        return GraphFunction(self.graph, hopeful=False)

    def _executable(self) -> Executable:
        """The code for the device in use."""
        found = self._executables.get(state.device)
        if found is None:
            found = self._executables[state.device] = executable_for(
                self.graph.hopeful() if self.hopeful else self.graph.module()
            )
        return found

    def vjp(self, cts: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *inputs: Tensor) -> list[Any]:
        if self._backward is None:
            self._backward = Backward(self)
        return self._backward(inputs, cts)


class Pair:
    """A function's code as TensorFlow's tapes run it: a forward graph that also gives what the backward graph needs of it.

    Both are for gradients by the inputs that were ``watched`` when it was called. What the function's effects gave is kept
    for derivatives of higher order.
    """

    def __init__(self, function: GraphFunction, watched: tuple[int, ...]) -> None:
        self.function = function
        self.graph = function.graph
        self.seeded = function.seeded
        with tracing(Trace(self.graph.name)) as forward:
            params = [forward.add_param(p._type, p._var.name) for p in self.graph.all_params]
            recorder = _watching([params[i] for i in watched])
            once = Once(self.graph)
            outputs, given = _recorded(recorder, lambda: once.keeping(params))
            with tracing(Trace(f"{self.graph.name}_backward", forward)) as backward:
                seeds = [(outputs[i], _cotangent(backward, outputs[i], params)) for i in self.seeded]
                found = sweep(recorder.records, seeds, [params[i] for i in watched])
                self.gradients = Gradients(watched, found)
        way_back = backward.finish(self.gradients.tensors)
        define_dims(backward)
        self.used = len(backward.captures)
        self._settle(forward, outputs, [*(outer for outer, _ in backward.captures.values()), *given])
        self.backward = GraphFunction(Graph(backward, way_back.outputs))
        self.pure = function if self.graph.pure else self._pure(once, [x._type for x in given])

    def _pure(self, once: Once, given: Sequence[TensorType]) -> GraphFunction:
        """The function without effects, given what these gave."""
        types = [p._type for p in self.graph.all_params]
        count = len(types)
        graph = trace_graph(self.graph.name, lambda *xs: once.given(xs[:count], xs[count:]), [*types, *given])
        pure = GraphFunction(graph)
        pure.seeded = self.seeded
        return pure

    def _settle(self, forward: Trace, outputs: Sequence[Any], kept: Sequence[Any]) -> None:
        """Where the backward graph's values come from: constants, inputs, and results, some given for it alone."""
        results = list(outputs)
        self.sources: list[tuple[str, Any]] = []
        inputs = [*forward.params, *(inner for _, inner in forward.captures.values())]
        place = {p._var: i for i, p in enumerate(inputs)}
        for value in kept:
            if isinstance(value._var, ir.Constant):
                self.sources.append(("value", EagerTensor(np.array(value._var.value.numpy()))))
            elif value._var in place:
                self.sources.append(("input", place[value._var]))
            else:
                self.sources.append(("result", len(results)))
                results.append(value)
        self.constants = [outer for outer, _ in forward.captures.values()]
        self.count = len(outputs)
        self.forward = GraphFunction(forward.finish(results))

    def run(self, given: Sequence[Any], inputs: Sequence[Any]) -> tuple[tuple[Tensor, ...], Kept]:
        """The function's outputs on what is ``given``, and what a tape records of the call on ``inputs``."""
        results = self.forward.run([*given, *self.constants])
        inputs = [*inputs, *self.constants]
        pick: dict[str, Callable[[Any], Any]] = {
            "value": lambda v: v, "input": inputs.__getitem__, "result": results.__getitem__,
        }  # fmt: skip
        return results[: self.count], Kept(self, [pick[kind](which) for kind, which in self.sources])


def _as_it_is(x: Any) -> Tensor:
    """A Variable's memory, which the call writes before it calls Python; what was read of it stays what it was."""
    memory = EagerTensor(x._array)
    x._array = x._array.copy()
    return memory


class Kept:
    """One call that a tape recorded, with the values that its backward graph needs."""

    def __init__(self, pair: Pair, values: list[Any]) -> None:
        self.pair = pair
        self.values = values
        self.tf_name = pair.function.tf_name

    def vjp(self, cts: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *inputs: Tensor) -> list[Any]:
        """Under tapes, for derivatives of higher order, as a function of the inputs: what was kept depends on them."""
        kept, given = self.values[: self.pair.used], self.values[self.pair.used :]
        if state.tapes or state.trace is not None:
            return self.pair.pure.vjp(cts, outputs, *inputs, *given)[: len(inputs)]
        if not self.pair.gradients.connected:
            return [None] * len(inputs)
        found = self.pair.backward(*(cts[i] for i in self.pair.seeded), *kept)
        return self.pair.gradients.of(inputs, found)


def _watching(params: Sequence[Any]) -> Recorder:
    recorder = Recorder()
    for p in params:
        if p._type.dtype.is_differentiable:
            recorder.watch(p)
    return recorder


def _cotangent(trace: Trace, like: Tensor, params: Sequence[Tensor]) -> Tensor:
    """A parameter for the cotangent of a result; dims that the function computes are its own until it is compared to that."""
    given = dims_in(p._type for p in params)
    own = tuple(d if is_given(d, given) else fresh_dim(trace.unique("size")) for d in like._type.shape)
    return of_size(trace.add_param(like._type._replace(shape=own), "ct"), like)  # type: ignore[no-any-return]


def _recorded(recorder: Recorder, run: Callable[[], Any]) -> Any:
    """What a run in the active trace gives, seen by the recorder."""
    state.tapes = [recorder]
    try:
        return run()
    finally:
        state.tapes = []


class Backward:
    """The backward graph of a graph: inputs and cotangents in, the inputs' cotangents out; the forward is run anew."""

    def __init__(self, function: GraphFunction) -> None:
        graph, self.seeded = function.graph, function.seeded
        with tracing(Trace(f"{graph.name}_backward")) as trace:
            params = [trace.add_param(p._type, p._var.name) for p in graph.all_params]
            recorder = _watching(params)
            outputs = _recorded(recorder, lambda: evaluate(graph.module(), "main", params))
            seeds = [(outputs[i], _cotangent(trace, outputs[i], params)) for i in self.seeded]
            found = sweep(recorder.records, seeds, params)
            self.gradients = Gradients(range(len(params)), found)
        self.function = GraphFunction(trace.finish(self.gradients.tensors))

    def __call__(self, inputs: Sequence[Tensor], cts: Sequence[Tensor]) -> list[Any]:
        if not self.gradients.connected:
            return [None] * len(inputs)
        return self.gradients.of(inputs, self.function(*inputs, *(cts[i] for i in self.seeded)))


class Gradients:
    """The cotangents that a sweep found for some inputs: the ``tensors`` that code returns for them, and back."""

    def __init__(self, places: Sequence[int], found: Sequence[Any]) -> None:
        found_at = {i: ct for i, ct in zip(places, found) if ct is not None}
        self.connected = list(found_at)
        self.rows = {i for i, ct in found_at.items() if isinstance(ct, IndexedSlices)}
        self.tensors = [x for ct in found_at.values() for x in _computed(ct)]

    def of(self, inputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Any]:
        """One for each input, None for those without."""
        gradients: list[Any] = [None] * len(inputs)
        given = iter(tensors)
        for i in self.connected:
            gradients[i] = rows_of(inputs[i], next(given), next(given)) if i in self.rows else next(given)
        return gradients


def _computed(ct: Any) -> list[Any]:
    """A cotangent as tensors that code can return; the shape of what rows are of is known outside."""
    return [ct.values, bind.identity(state.trace.own(ct.indices))] if isinstance(ct, IndexedSlices) else [ct]


def _fit(handles: Sequence[Any], sizes: Sequence[tuple[int, int, int]]) -> bool:
    """Whether arguments have the sizes that their code is for, by their position and the axis."""
    return all(handles[place].shape[axis] == size for place, axis, size in sizes)


def _check_told(graph: Graph, arguments: Sequence[Any]) -> None:
    """Refuses arguments of other sizes than tracing told of them."""
    for place, axis, size in graph.told_sizes:
        if arguments[place].shape[axis] != size:
            var = graph.all_params[place]._var
            shape = ", ".join(str(graph.root.known_dim(d)) for d in var.ty.shape.values)
            raise InvalidArgumentError(
                None,
                graph.name,
                f"{graph.name}: Incompatible shapes: {var.name!r} has size {arguments[place].shape[axis]} in dim {axis}, but the "
                f"program needs the shape [{shape}]",
            )


class Code(NamedTuple):
    """A concrete function's code for one device, its last arguments, and the outputs it gives; no code where nothing is computed."""

    executable: Executable | None
    prepared: list[Any]
    given: list[int]


def donations(graph: Graph, updates: Sequence[tuple[Variable, int]]) -> list[tuple[int, int]]:
    """Outputs that are Variables' new values, with the parameters whose memory they take."""
    first = len(graph.params)
    place = {id(outer): first + i for i, (outer, _) in enumerate(graph.captures)}
    return [(index, place[id(variable)]) for variable, index in updates]


def entry_module(concrete: Any, leading: LeadingCall | None, hopeful: bool) -> Any:
    """The module of a traced function as it is compiled, with what is donated and known of its parameters."""
    graph = concrete.graph
    first = len(graph.params)
    constants = {first + i: capture for i, capture in enumerate(concrete.captures) if is_constant(capture)}
    known = {TRIANGLES: described(constants)}
    entry = graph.entry(donations(graph, concrete.results.updates), list(constants), known, hopeful)
    return without_leading(entry, leading)


class OtherSizes(Exception):
    """Raised where code for equal sizes is called with others, before it does anything."""


class Compiled:
    """A concrete function's code with everything a call needs at hand; Variables that it updates are donated."""

    def __init__(self, concrete: Any, hopeful: bool = True) -> None:
        graph, results = concrete.graph, concrete.results
        self.concrete = concrete
        self.hopeful = hopeful and bool(graph.hopes)
        self.fixed = graph.hoped_sizes() if self.hopeful else []
        self.told = graph.told_sizes
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
        self.settled: list[Variable] = results.settled
        self.leading = leading_call(graph, self.captures)
        self.calls_python: bool = graph.root.python.is_called and not (self.leading and self.leading.is_only)
        self.bound = concrete.bound
        self.lock: Any = join([v.lock for v in concrete.variables]) if concrete.variables else nullcontext()
        self.updated = {index: variable for variable, index in self.updates}
        self.sightings = -1
        self.moving: dict[str | None, list[int]] = {}
        self._codes: dict[str | None, Code] = {}
        self.code()

    def module(self) -> Any:
        """What is compiled: the traced function, with what is donated."""
        return entry_module(self.concrete, self.leading, self.hopeful)

    def __call__(self, tensors: Sequence[Any], variables: Sequence[Variable] = ()) -> Any:
        if self.leading is None:
            return self._call_led((), tensors, variables)
        return self._call_led(self.leading.run([*tensors, *self.captures]), tensors, variables)

    def _call_led(self, led: Sequence[Any], tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        """A call with ``led``, the results of the leading call of Python."""
        try:
            if self.simple:
                return tensor_of(self._execute([t._handle or handle_of(t) for t in tensors]))
            if self.holds_texts:
                with kept():
                    return self._call_locked(led, tensors, variables)
            return self._call_locked(led, tensors, variables)
        except OtherSizes:
            return self._for_any_sizes._call_led(led, tensors, variables)

    @cached_property
    def _for_any_sizes(self) -> Compiled:
        return Compiled(self.concrete, hopeful=False)

    def _call_locked(self, led: Sequence[Any], tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        if variables:
            return self._call_bound(led, tensors, variables)
        with self.lock:
            if self.calls_python:
                return self._call_around_python(led, self.lock, tensors, self.captures, self.updates)
            return self._call(led, tensors, self.captures, self.updates)

    def _call_bound(self, led: Sequence[Any], tensors: Sequence[Any], variables: Sequence[Variable]) -> Any:
        """With Variables among the arguments."""
        captures = [self.bound(c, variables) for c in self.captures]
        updates = [(self.bound(v, variables), index) for v, index in self.updates]
        with join([c.lock for c in captures if isinstance(c, Variable)]) as lock:
            if self.calls_python:
                return self._call_around_python(led, lock, tensors, captures, updates)
            return self._call(led, tensors, captures, updates)

    def _call_around_python(
        self, led: Sequence[Any], lock: Any, tensors: Sequence[Any], captures: list[Any], updates: Any
    ) -> Any:
        """With Python on the way, which may wait for threads that use the Variables, and assign these.

        The code goes on with the memory that it was given: that is held here, so that an assignment takes another. Where the
        code writes into it at the end, nobody else may see it before, so the lock is kept.
        """
        if updates:
            return self._call(led, tensors, captures, updates)
        for variable in self.settled:
            if variable._seen:
                variable.own_memory()
        held = [c._show() for c in captures if isinstance(c, Variable)]
        with released_for_python(lock):
            result = self._call(led, tensors, captures, updates)
        del held
        return result

    def _call(
        self, led: Sequence[Any], tensors: Sequence[Any], captures: list[Any], updates: list[tuple[Variable, int]]
    ) -> Any:
        if updates and state.depth:
            for variable, _ in updates:
                variable.require_assignable()
        if self.sightings != sightings.count or updates is not self.updates:
            self._own_memory(updates)
        handles = [t._handle or handle_of(t) for t in tensors]
        handles += [c._handle or (variable_handle(c) if isinstance(c, Variable) else handle_of(c)) for c in captures]
        handles += led
        code = self._codes.get(state.device) or self.code()
        handles += code.prepared
        outputs = self._execute(handles)
        if self.only_computes:
            return self._computed(outputs)
        given = dict(zip(code.given, [outputs] if self.single else outputs))
        return self._finish(tensors, captures, updates, given)

    def _own_memory(self, updates: list[tuple[Variable, int]]) -> None:
        """Leaves memory that somebody else may see to them, before it is written."""
        count = sightings.count
        for variable, _ in updates:
            if variable._seen:
                variable.own_memory()
        self.sightings = count

    def code(self) -> Code:
        """The code for the device in use, compiled when first asked for, with what its constants give once for all calls."""
        found = self._codes.get(state.device)
        if found is None:
            executable = executable_for(self.module()) if self.count or not self.graph.pure else None
            constants = [handle_of(c) for c in self.captures if is_constant(c)]
            prepared = list(executable.function(PREPARE)(*constants)) if constants and executable else []
            given = executable.outputs(self.count) if executable else []
            found = self._codes[state.device] = Code(executable, prepared, given)
        return found

    def forget(self) -> None:
        """Has the code made anew when it is next asked for: there may be better records of tuning."""
        self._codes = {}

    def _execute(self, handles: list[Any]) -> Any:
        executable = (self._codes.get(state.device) or self.code()).executable
        if executable is None:
            return ()
        if self.told:
            _check_told(self.graph, handles)
        if self.fixed and not _fit(handles, self.fixed):
            raise OtherSizes
        run = executable.function()
        try:
            return run(*handles)
        except Exception as error:  # TVM raises many types; each is told in tvtf's words
            if self.hopeful and is_of_other_sizes(error):
                raise OtherSizes from error
            raise raised_by(self.name, error) from error

    def _computed(self, outputs: Any) -> Any:
        """Results that are all computed, each once or more often."""
        made = [tensor_of(outputs)] if self.single else [tensor_of(outputs[i]) for i in range(self.count)]
        return self.results.packed([made[index] for _, index in self.results.leaves])

    def _finish(
        self, tensors: Sequence[Any], captures: list[Any], updates: list[tuple[Variable, int]], outputs: dict[int, Any]
    ) -> Any:
        self._take(updates, outputs)
        updated = self.updated if updates is self.updates else {index: variable for variable, index in updates}

        def computed(index: int) -> EagerTensor:
            variable = updated.get(index)
            return tensor_of(outputs[index]) if variable is None else EagerTensor(variable._array)

        return self.results.assemble(
            {"computed": computed, "param": lambda i: current([*tensors, *captures][i]), "value": lambda v: v}
        )

    def _take(self, updates: list[tuple[Variable, int]], outputs: dict[int, Any]) -> None:
        """Gives the Variables their new values; those that were donated have them already.

        Where nothing branches, what is donated is the same in every call on a device.
        """
        known = self.moving.get(state.device)
        moving = [place for place, (_, index) in enumerate(updates) if index in outputs] if known is None else known
        moved = [place for place in moving if updates[place][0].take(outputs[updates[place][1]])]
        if known is None and not self.graph.subgraphs:
            self.moving[state.device] = moved


def is_constant(capture: Any) -> bool:
    """Whether a capture is the same in every call; strings are other numbers in each."""
    return isinstance(capture, EagerTensor) and capture.dtype is not string


def current(param: Any) -> EagerTensor:
    """A parameter that the function returns as it is: a Variable's is its value now."""
    return EagerTensor(param._array) if isinstance(param, Variable) else param


finalize.entered_by(Trace, "__init__")
