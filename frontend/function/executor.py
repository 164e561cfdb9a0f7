"""Calls compiled code, by the shortest path from tensors to tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tvm_ffi
from tvm import ir

from tvtf.core.dlpack_view import handle_of, tensor_of, variable_handle
from tvtf.core.shape import TensorType, fresh_dim
from tvtf.core.string_handles import string_table
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import debug_settings, state
from tvtf.core.tvm_import import import_whole
from tvtf.core.variable_lock import cached_property, join
from tvtf.dtypes import string
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.control_flow.closure_conversion import define_dims
from tvtf.frontend.control_flow.cond_grad import with_shape_of_result
from tvtf.frontend.control_flow.effects_once import EffectReplay
from tvtf.frontend.control_flow.rematerialize import WithoutAssignments, dims_in, evaluation_of, is_computable_from
from tvtf.frontend.control_flow.vectorized_map import is_mapped
from tvtf.frontend.function.runtime_errors import is_of_other_sizes, raised_by
from tvtf.frontend.function.traced_program import TracedProgram, resolve_capture
from tvtf.frontend.host.leading_python import LeadingCall, leading_call, without_leading
from tvtf.ir.graph import Graph
from tvtf.ir.interpreter import evaluate
from tvtf.ir.trace import Trace, trace_graph, tracing
from tvtf.ops.host import register_host_functions, released_for_python
from tvtf.ops.indexed_slices import IndexedSlices, rows_of
from tvtf.ops.rules import bind
from tvtf.passes.analysis.causal_mask import TRIANGLES, triangle_attribute
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep
from tvtf.passes.entry_points import PREPARE
from tvtf.passes.graph.runtime_checks import writes_variables_early
from tvtf.passes.user_passes import user_passes
from tvtf.runtime import finalize
from tvtf.runtime.cache import Compilation, cached
from tvtf.runtime.executable import Executable, GpuExecutable
from tvtf.runtime.function_digest import digest_of
from tvtf.runtime.target import GPU, device_kind, target_of
from tvtf.state.random_streams import call_again, hold
from tvtf.state.variable import Variable, alias_counter

if TYPE_CHECKING:
    from pathlib import Path


def executable_for(mod: ir.IRModule) -> Executable:
    """Returns the executable of a module. Compiles the module only if the cache lacks the executable."""
    register_host_functions()
    target = target_of(state.device)

    def build(path: Path) -> None:
        # Imported here because the import takes 50 ms. A call that finds its code in the cache saves them.
        pipeline = import_whole("tvtf.passes.pipeline")
        pipeline.compile_module(mod, target, path)

    if target.kind.name == "llvm":
        return cached(Compilation(mod, target, *_options()), build, Executable)
    _, number = device_kind(state.device or GPU)
    compilation = Compilation(mod, target, *_options(), f"{GPU}:{number}")
    return cached(compilation, build, lambda path: GpuExecutable(path, number), device=number)


def _options() -> list[str]:
    """Returns the parts of the cache key in addition to module and target: user passes and debug settings."""
    names = [name for name, _ in user_passes]
    options = [*names, digest_of(run for _, run in user_passes)]
    if debug_settings.verify or debug_settings.dump:  # they change the pipeline
        options.append(f"{debug_settings.verify} {debug_settings.dump}")
    return options


class GraphFunction:
    """A graph as a function of its inputs and captures: compiled when called eagerly, inlined in a trace.

    To a tape it is one primitive, whose vjp is the backward graph, compiled too. ``hidden`` are the outputs that no
    tape sees: Variables' new values. ``written`` are the inputs that are these Variables' memory, if the code writes it.

    ``speculative``: unknown sizes that meet in elementwise ops are assumed to be equal, so that broadcasting costs
    nothing; :attr:`_for_any_sizes` is the code for calls in which they differ.
    """

    def __init__(
        self, graph: Graph, hidden: Collection[int] = (), written: Collection[int] = (), speculative: bool = True
    ) -> None:
        """Creates a differentiable function of a graph, which is compiled at the first call.

        Args:
          graph: the graph.
          hidden: the indices of outputs that gradient tapes don't see, such as new values of Variables.
          written: the indices of inputs whose memory the code writes.
          speculative: whether the code may assume that certain unknown sizes are equal.
        """
        self.graph = graph
        self.written = written if written and writes_variables_early(graph.module()) else ()
        self.speculative = speculative
        self.speculated_sizes = graph.speculated_sizes() if speculative else []
        self.seeded = [
            i
            for i, tensor_type in enumerate(graph.output_types)
            if tensor_type.dtype.is_differentiable and i not in hidden
        ]
        self.tf_name = graph.name
        self._executables: dict[str | None, Executable] = {}
        self._backward: Backward | None = None
        self._forward_backward: dict[tuple[int, ...], ForwardBackward | None] = {}

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Runs the graph: inlined in a trace or vectorized map, recorded if a tape watches an input, else compiled."""
        if state.trace is not None or is_mapped(inputs):
            # Inlines the graph: its primitives are bound again, in the active trace or under vectorized_map.
            return evaluate(self.graph.module(), "main", inputs)
        _check_inferred_sizes(self.graph, inputs)
        if not state.tapes:
            return self.run(inputs)
        watched = tuple(i for i, x in enumerate(inputs) if any(tape.watches(x) for tape in state.tapes))
        return self._call_watched(inputs, watched) if watched else self.run(inputs)

    def _call_watched(self, inputs: Sequence[Tensor], watched: tuple[int, ...]) -> tuple[Tensor, ...]:
        """Runs the forward code, and records the call and its residuals on the active gradient tapes.

        Args:
          inputs: the arguments of the graph.
          watched: the indices of the inputs that a tape watches.
        """
        code = self._forward_backward_for(watched)
        # The code overwrites the memory of `written` inputs, but the tapes need the values from before the call.
        arguments = [_memory_before_call(x) if i in self.written else x for i, x in enumerate(inputs)]
        outputs: tuple[Tensor, ...]
        recorded: GraphFunction | Residuals
        if code is None:
            # An op has no gradient: the tapes record the graph itself, which reports the missing gradient when asked.
            outputs = self.run(arguments)
            recorded = self
        else:
            outputs, recorded = code.run(arguments, inputs)
        for tape in state.tapes:
            tape.record(recorded, inputs, outputs, {})
        return outputs

    def _forward_backward_for(self, watched: tuple[int, ...]) -> ForwardBackward | None:
        """Returns the forward and backward code for gradients with respect to the watched inputs.

        Returns None if an op has no gradient. The tape reports the missing gradient only when a gradient is requested.
        """
        if watched not in self._forward_backward:
            try:
                self._forward_backward[watched] = ForwardBackward(self, watched)
            except LookupError:
                self._forward_backward[watched] = None
        return self._forward_backward[watched]

    def run(self, inputs: Sequence[Any]) -> tuple[EagerTensor, ...]:
        """Runs the compiled code on eager tensors, without recording on gradient tapes."""
        if self.graph.holds_texts:
            with string_table():  # strings are passed to compiled code as indices in this table
                return self._run(inputs)
        return self._run(inputs)

    def _run(self, inputs: Sequence[Any]) -> tuple[EagerTensor, ...]:
        """Runs the compiled code on eager tensors.

        The code assumes that certain unknown sizes are equal. If they differ, code for any sizes runs instead.
        """
        handles = list(map(handle_of, inputs))
        if not _have_sizes(handles, self.speculated_sizes):
            return self._for_any_sizes._run(inputs)
        run = self._executable().function()
        try:
            return tuple(map(tensor_of, run(*handles)))
        except Exception as error:  # TVM raises many types; `raised_by` translates each
            if self.speculative and self.graph.speculated_equalities and is_of_other_sizes(error):
                return self._for_any_sizes._run(inputs)
            raise raised_by(self.graph.name, error, self._module) from error

    @cached_property
    def _for_any_sizes(self) -> GraphFunction:
        """The same function compiled without the assumption that unknown sizes are equal."""
        return GraphFunction(self.graph, speculative=False)

    def _executable(self) -> Executable:
        """Returns the executable for the device in use, compiled at the first request."""
        executable = self._executables.get(state.device)
        if executable is None:
            executable = self._executables[state.device] = executable_for(self._module())
        return executable

    def _module(self) -> ir.IRModule:
        return self.graph.speculative_module() if self.speculative else self.graph.module()

    def vjp(self, cotangents: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *inputs: Tensor) -> list[Any]:
        """Returns the cotangents of the inputs for given cotangents of the outputs (the vector-Jacobian product)."""
        if self._backward is None:
            self._backward = Backward(self)
        return self._backward(inputs, cotangents)


class ForwardBackward:
    """A function's code under tapes: a forward graph that also returns the residuals that the backward graph needs.

    Both are specialized for gradients with respect to the ``watched`` inputs. Results of the function's effects are
    kept for higher-order derivatives, which must not run the effects again.
    """

    def __init__(self, function: GraphFunction, watched: tuple[int, ...]) -> None:
        """Traces the forward and the backward graph for gradients with respect to the inputs at indices ``watched``."""
        self.function = function
        self.graph = function.graph
        self.seeded = function.seeded
        with tracing(Trace(self.graph.name)) as forward:
            params = [
                forward.add_param(param_type, param._var.name)
                for param_type, param in zip(self.graph.param_types, self.graph.all_params)
            ]
            watched_params = [params[i] for i in watched]
            recorder = _watching(watched_params)
            replay = EffectReplay(self.graph)
            outputs, effect_results = _recorded(recorder, lambda: replay.run_with_effects(params))
            with tracing(Trace(f"{self.graph.name}_backward", forward)) as backward:
                seeds = [(outputs[i], _add_cotangent_param(backward, outputs[i], params)) for i in self.seeded]
                self.gradients = Gradients(watched, sweep(recorder.records, seeds, watched_params))
        backward_outputs = backward.finish(self.gradients.tensors).outputs
        define_dims(backward)
        # What the backward trace captures of the forward trace are the residuals.
        residuals = [outer for outer, _ in backward.captures.values()]
        self.used = len(residuals)
        self._locate_residuals(forward, outputs, [*residuals, *effect_results])
        self.backward = GraphFunction(Graph(backward, backward_outputs))
        self.pure = function if self.graph.pure else self._pure(replay, [result._type for result in effect_results])

    def _pure(self, replay: EffectReplay, effect_types: Sequence[TensorType]) -> GraphFunction:
        """Returns the function without its side effects. The effects' results become additional inputs.

        Higher-order derivatives call this function any number of times, but effects must happen once.

        Args:
          replay: runs the graph with the effects, or with their recorded results.
          effect_types: the types of the effects' results.
        """
        param_types = self.graph.param_types
        param_count = len(param_types)

        def without_effects(*params_and_effect_results: Tensor) -> Sequence[Tensor]:
            params = params_and_effect_results[:param_count]
            return replay.run_without_effects(params, params_and_effect_results[param_count:])

        pure = GraphFunction(trace_graph(self.graph.name, without_effects, [*param_types, *effect_types]))
        pure.seeded = self.seeded
        return pure

    def _locate_residuals(self, forward: Trace, outputs: Sequence[Any], residuals: Sequence[Any]) -> None:
        """Determines the source of each residual, and builds ``self.forward``, the function that computes the residuals.

        A residual (a forward value that the backward graph needs) is a constant, an input or a result of the forward
        graph. ``self.sources`` has one (kind, payload) per residual: ``("value", tensor)``, ``("input", index)`` or
        ``("result", index)``.
        """
        results = list(outputs)
        self.sources: list[tuple[str, Any]] = []
        inputs = forward.all_params
        positions = {input_._var: i for i, input_ in enumerate(inputs)}
        for value in residuals:
            if isinstance(value._var, ir.Constant):
                array = np.array(value._var.value.numpy())
                self.sources.append(("value", EagerTensor(array)))
            elif value._var in positions:
                self.sources.append(("input", positions[value._var]))
            else:
                # The forward graph returns the residual as an additional result.
                self.sources.append(("result", len(results)))
                results.append(value)
        self.constants = [outer for outer, _ in forward.captures.values()]  # passed in addition to the inputs
        self.count = len(outputs)  # without the residuals
        self.forward = GraphFunction(forward.finish(results))

    def run(self, arguments: Sequence[Any], inputs: Sequence[Any]) -> tuple[tuple[Tensor, ...], Residuals]:
        """Runs the forward code, and returns the function's outputs, and the residuals for the tapes to record.

        Args:
          arguments: the arguments of the code, whose memory the code may overwrite.
          inputs: the same arguments with the values from before the call.
        """
        results = self.forward.run([*arguments, *self.constants])
        inputs = [*inputs, *self.constants]
        residuals = []
        for kind, source in self.sources:
            if kind == "input":
                residuals.append(inputs[source])
            elif kind == "result":
                residuals.append(results[source])
            else:  # a constant
                residuals.append(source)
        # The results after the first `count` are residuals only.
        return results[: self.count], Residuals(self, residuals)


def _memory_before_call(x: Any) -> Tensor:
    """Returns a tensor on a Variable's memory for a call to write, and gives ``x`` a copy of the value.

    The compiled code writes the Variable's memory before it calls Python, or runs a loop that may fail. The tensor ``x``
    was read from the Variable, so the value of ``x`` must not change.
    """
    memory = EagerTensor(x._array)
    x._array = x._array.copy()
    return memory


class Residuals:
    """One recorded call with the values that its backward graph needs."""

    def __init__(self, pair: ForwardBackward, values: list[Any]) -> None:
        self.pair = pair
        self.values = values
        self.tf_name = pair.function.tf_name

    def vjp(self, output_cotangents: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *inputs: Tensor) -> list[Any]:
        """Returns the cotangents of the inputs, computed from the recorded residuals.

        Under tapes or in a trace, the cotangents are computed from the inputs. The residuals depend on the inputs, so a
        higher-order derivative through recorded residuals would miss that dependence.

        Args:
          output_cotangents: the cotangents of the outputs.
          outputs: unused; every ``vjp`` gets them.
        """
        # The recorded values after the first `used` are results of effects.
        residuals, effect_results = self.values[: self.pair.used], self.values[self.pair.used :]
        if state.tapes or state.trace is not None:
            return self.pair.pure.vjp(output_cotangents, outputs, *inputs, *effect_results)[: len(inputs)]
        if not self.pair.gradients.connected:  # no input has a gradient
            return [None] * len(inputs)
        cotangents = self.pair.backward(*(output_cotangents[i] for i in self.pair.seeded), *residuals)
        return self.pair.gradients.of(inputs, cotangents)


def _watching(params: Sequence[Any]) -> Recorder:
    """Returns a new gradient recorder that watches the parameters of differentiable (real or complex) dtype."""
    recorder = Recorder()
    for param in params:
        if param._type.dtype.is_differentiable:
            recorder.watch(param)
    return recorder


def _add_cotangent_param(trace: Trace, output: Tensor, params: Sequence[Tensor]) -> Tensor:
    """Adds a parameter for the cotangent of ``output`` to a backward trace, and returns the parameter.

    The parameter has the shape of the output. A dim that can't be computed from the dims of ``params``, the inputs, is
    replaced by a new symbol: the forward function computes it, so the backward trace can't express it.
    """
    known_dims = dims_in(param._type for param in params)
    shape = []
    for dim in output._type.shape:
        shape.append(dim if is_computable_from(dim, known_dims) else fresh_dim(trace.unique("size")))
    cotangent = trace.add_param(output._type._replace(shape=tuple(shape)), "ct")
    return with_shape_of_result(cotangent, output)  # type: ignore[no-any-return]


def _recorded(recorder: Recorder, run: Callable[[], Any]) -> Any:
    """Calls ``run`` with the recorder as the only gradient tape, and returns the result of ``run``."""
    state.tapes = [recorder]
    try:
        return run()
    finally:
        state.tapes = []


class Backward:
    """The backward graph of a graph: inputs and cotangents in, the inputs' cotangents out.

    It runs the forward computation again.
    """

    def __init__(self, function: GraphFunction) -> None:
        """Traces the backward graph, which computes the forward values again from the inputs."""
        graph = function.graph
        self.seeded = function.seeded
        with tracing(Trace(f"{graph.name}_backward")) as trace:
            params = [
                trace.add_param(param_type, param._var.name)
                for param_type, param in zip(graph.param_types, graph.all_params)
            ]
            recorder = _watching(params)
            outputs = _recorded(recorder, evaluation_of(graph, params, WithoutAssignments).run)
            seeds = [(outputs[i], _add_cotangent_param(trace, outputs[i], params)) for i in self.seeded]
            cotangents = sweep(recorder.records, seeds, params)
            self.gradients = Gradients(range(len(params)), cotangents)
        self.function = GraphFunction(trace.finish(self.gradients.tensors))

    def __call__(self, inputs: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Any]:
        """Returns a cotangent for each input, or None, given the cotangents of the outputs."""
        if not self.gradients.connected:  # no input has a gradient
            return [None] * len(inputs)
        return self.gradients.of(inputs, self.function(*inputs, *(cotangents[i] for i in self.seeded)))


class Gradients:
    """The cotangents that a reverse-mode sweep returned: flattened to tensors that code can return, and packed again."""

    def __init__(self, indices: Sequence[int], cotangents: Sequence[Any]) -> None:
        """Flattens ``cotangents``; ``indices`` are the positions of their inputs among all inputs."""
        found_at = {i: cotangent for i, cotangent in zip(indices, cotangents) if cotangent is not None}
        self.connected = list(found_at)
        self.rows = {i for i, cotangent in found_at.items() if isinstance(cotangent, IndexedSlices)}
        self.tensors = [x for cotangent in found_at.values() for x in _cotangent_tensors(cotangent)]

    def of(self, inputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Any]:
        """Packs the tensors that the backward code returned into a gradient per input, None for inputs without one.

        A gradient of some rows (``IndexedSlices``) takes two tensors: its values and its indices.
        """
        gradients: list[Any] = [None] * len(inputs)
        remaining = iter(tensors)
        for i in self.connected:
            if i in self.rows:
                values = next(remaining)
                indices = next(remaining)
                gradients[i] = rows_of(inputs[i], values, indices)
            else:
                gradients[i] = next(remaining)
        return gradients


def _cotangent_tensors(cotangent: Any) -> list[Any]:
    """Returns a cotangent as a list of tensors that compiled code can return.

    An ``IndexedSlices`` becomes its values and indices. Its dense shape is the shape of the input.
    """
    if not isinstance(cotangent, IndexedSlices):
        return [cotangent]
    indices = state.trace.own(cotangent.indices)
    return [cotangent.values, bind.identity(indices)]


def _have_sizes(handles: Sequence[Any], sizes: Sequence[tuple[int, int, int]]) -> bool:
    """Returns whether the arguments have the sizes that the code was compiled for.

    Args:
      handles: memory handles of the arguments.
      sizes: triples of an argument's position, an axis, and the size of that axis.
    """
    return all(handles[position].shape[axis] == size for position, axis, size in sizes)


def _check_inferred_sizes(graph: Graph, arguments: Sequence[Any]) -> None:
    """Checks that arguments have the sizes that tracing inferred, and raises InvalidArgumentError if one has another size.

    Compiled code takes an inferred size for granted and doesn't check the argument.
    """
    for position, axis, inferred_size in graph.inferred_sizes:
        size = arguments[position].shape[axis]
        if size != inferred_size:
            var = graph.all_params[position]._var
            shape = ", ".join(str(graph.root.known_dim(dim)) for dim in var.ty.shape.values)
            raise InvalidArgumentError(
                None,
                graph.name,
                f"{graph.name}: Incompatible shapes: {var.name!r} has size {size} in dim {axis}, but the "
                f"program needs the shape [{shape}]",
            )


class Code(NamedTuple):
    """A concrete function's code for one device.

    ``prepared`` are its last arguments, computed once from constants; ``outputs`` the indices of the outputs that it
    returns. There is no executable if nothing is computed.
    """

    executable: Executable | None
    prepared: list[Any]
    outputs: list[int]


def donations(graph: Graph, updates: Sequence[tuple[Variable, int]]) -> list[tuple[int, int]]:
    """Returns pairs of an output and a parameter for buffer donation: the output may reuse the parameter's memory.

    The output is the new value of a Variable, and the parameter is the old value of the Variable.

    Args:
      graph: the graph of the function, whose captures include the Variables.
      updates: pairs of a Variable and the index of the output that is the Variable's new value.
    """
    first = len(graph.params)  # the parameters for captures follow those for arguments
    position = {id(outer): first + i for i, (outer, _) in enumerate(graph.captures)}
    return [(index, position[id(variable)]) for variable, index in updates]


def entry_module(concrete: TracedProgram, leading: LeadingCall | None, speculative: bool) -> ir.IRModule:
    """Returns the Relax module to compile for a traced function.

    The module states which buffers are donated, which parameters are constant, and which constants are causal masks.

    Args:
      concrete: the traced function.
      leading: a call of Python that runs before the code, whose results become parameters; None if there is none.
      speculative: whether the code may assume that unknown sizes are equal.
    """
    graph = concrete.graph
    first = len(graph.params)  # the parameters for captures follow those for arguments
    constants = {first + i: capture for i, capture in enumerate(concrete.captures) if is_constant(capture)}
    facts = {TRIANGLES: triangle_attribute(constants)}
    entry = graph.entry(donations(graph, concrete.results.updates), list(constants), facts, speculative)
    return without_leading(entry, leading)


class OtherSizes(Exception):
    """Raised when code for speculated equal sizes is called with others; it has done nothing yet."""


class Compiled:
    """A concrete function's code with everything that a call needs at hand; Variables that it updates are donated.

    Attributes are resolved once, because this is the hot path of every call.
    """

    def __init__(self, concrete: TracedProgram, speculative: bool = True) -> None:
        """Compiles a concrete function for the device in use, or loads its code from the cache.

        ``speculated_sizes`` and ``inferred_sizes`` are the sizes that each call must check: (input, axis, size).
        ``updates`` pairs each Variable that the code updates with the index of the output that is the new value.
        ``flushed`` are the Variables that the code writes before it calls Python. ``updates_in_new_memory`` has, for
        each device, the positions of updates whose new value isn't in the Variable's donated memory.

        Args:
          concrete: the traced function.
          speculative: whether the code may assume that unknown sizes are equal; see :class:`GraphFunction`.
        """
        graph, results = concrete.graph, concrete.results
        self.concrete = concrete
        self.speculative = speculative and bool(graph.speculated_equalities)
        self.speculated_sizes = graph.speculated_sizes() if self.speculative else []
        self.inferred_sizes = graph.inferred_sizes
        self.name = concrete.name
        self.graph = graph
        self.results = results
        self.captures: list[Any] = concrete.captures
        self.updates: list[tuple[Variable, int]] = results.updates
        self.streams = concrete.streams
        self.output_count = len(results.computed)
        self.has_single_output = self.output_count == 1
        self.only_computes = not self.updates and all(kind == "computed" for kind, _ in results.leaves)
        self.holds_texts: bool = graph.holds_texts
        self.takes_shortest_path = (
            not graph.holds_texts
            and results.is_single_tensor
            and self.has_single_output
            and not self.updates
            and not self.captures
        )
        self.flushed: list[Variable] = results.flushed
        self.leading = leading_call(graph, self.captures)
        self.calls_python: bool = graph.root.python.is_called and not (self.leading and self.leading.is_only_call)
        self.lock: Any = (
            join([variable.lock for variable in concrete.variables]) if concrete.variables else nullcontext()
        )
        self.updated = {index: variable for variable, index in self.updates}
        self.alias_counter = -1
        self.updates_in_new_memory: dict[str | None, list[int]] = {}
        self._codes: dict[str | None, Code] = {}
        self.code()

    def module(self) -> ir.IRModule:
        """Returns the Relax module that is compiled, with its buffer donations."""
        return entry_module(self.concrete, self.leading, self.speculative)

    def __call__(
        self,
        tensors: Sequence[EagerTensor],
        variables: Sequence[Variable] = (),
        leading_results: Sequence[Any] | None = None,
    ) -> Any:
        """Calls the code and returns the function's result.

        If the arguments contradict the speculated equal sizes, code for any sizes runs instead.

        Args:
          tensors: the tensor arguments.
          variables: the Variable arguments.
          leading_results: the results of the Python call that runs before the code; None if it didn't run yet.
        """
        if leading_results is None:
            leading_results = () if self.leading is None else self.leading.run([*tensors, *self.captures])
        try:
            if self.takes_shortest_path:  # one computed result, no Variables, captures or strings: the shortest path
                return tensor_of(self._execute([tensor._handle or handle_of(tensor) for tensor in tensors]))
            if self.holds_texts:
                with string_table():  # strings are passed to compiled code as indices in this table
                    return self._call_locked(leading_results, tensors, variables)
            return self._call_locked(leading_results, tensors, variables)
        except OtherSizes:
            if self.streams:
                call_again(self.concrete)
            return self._for_any_sizes(tensors, variables, leading_results)

    @cached_property
    def _for_any_sizes(self) -> Compiled:
        """The same function compiled without the assumption that unknown sizes are equal."""
        return Compiled(self.concrete, speculative=False)

    def _call_locked(
        self, leading_results: Sequence[Any], tensors: Sequence[EagerTensor], variables: Sequence[Variable]
    ) -> Any:
        """Calls the code while holding the locks of the Variables that the code uses.

        The code overwrites the donated memory of Variables. No other thread may read or write a Variable until the
        Variable has its new value.

        Args:
          leading_results: the results of the Python call that runs before the code.
          tensors: the tensor arguments.
          variables: the Variable arguments.
        """
        if variables:
            return self._call_bound(leading_results, tensors, variables)
        with self.lock:
            if self.calls_python:
                return self._call_around_python(leading_results, self.lock, tensors, self.captures, self.updates)
            return self._call(leading_results, tensors, self.captures, self.updates)

    def _call_bound(
        self, leading_results: Sequence[Any], tensors: Sequence[EagerTensor], variables: Sequence[Variable]
    ) -> Any:
        """Calls the code of a function that has Variables among its arguments.

        Each call may pass other Variables, so their locks and updates are looked up in each call.

        Args:
          leading_results: the results of the Python call that runs before the code.
          tensors: the tensor arguments.
          variables: the Variable arguments.
        """
        # Tracing captured a stand-in for each Variable argument: `resolve_capture` returns the Variable of this call.
        captures = [resolve_capture(capture, variables) for capture in self.captures]
        updates = [(resolve_capture(variable, variables), index) for variable, index in self.updates]
        with join([capture.lock for capture in captures if isinstance(capture, Variable)]) as lock:
            if self.calls_python:
                return self._call_around_python(leading_results, lock, tensors, captures, updates)
            return self._call(leading_results, tensors, captures, updates)

    def _call_around_python(
        self,
        leading_results: Sequence[Any],
        lock: Any,
        tensors: Sequence[EagerTensor],
        captures: list[Any],
        updates: list[tuple[Variable, int]],
    ) -> Any:
        """Calls compiled code that calls Python, and releases the Variables' ``lock`` while Python runs.

        Python may wait for another thread that uses a Variable. With the lock held, both would wait forever.
        Python may also assign a Variable whose memory the compiled code still reads.
        """
        if updates:
            # The code writes new values into the Variables' memory. No thread may see that memory: keep the lock.
            return self._call(leading_results, tensors, captures, updates)
        for variable in self.flushed:
            # The code writes these Variables before it calls Python: no tensor may share their memory.
            if variable._seen:
                variable.own_memory()
        # While these references live, an assignment gives a Variable new memory instead of overwriting the old.
        references = [capture._show() for capture in captures if isinstance(capture, Variable)]
        with released_for_python(lock):
            result = self._call(leading_results, tensors, captures, updates)
        del references
        return result

    def _call(
        self,
        leading_results: Sequence[Any],
        tensors: Sequence[EagerTensor],
        captures: list[Any],
        updates: list[tuple[Variable, int]],
    ) -> Any:
        """Runs the code on tensors and captures, with the memory of updated Variables donated.

        Variables are examined only if a counter shows that a Variable was read since the last call. This, and fewer
        results of the code, made a step of 20 narrow layers under Adam take 50 us instead of 71.
        """
        if self.streams:
            hold(self.streams, self.concrete)
        if updates and state.depth:
            for variable, _ in updates:
                variable.require_assignable()
        if self.alias_counter != alias_counter.count or updates is not self.updates:
            self._own_memory(updates)
        handles = [tensor._handle or handle_of(tensor) for tensor in tensors]
        handles += [
            capture._handle or (variable_handle(capture) if isinstance(capture, Variable) else handle_of(capture))
            for capture in captures
        ]
        handles += leading_results
        code = self._codes.get(state.device) or self.code()
        handles += code.prepared
        outputs = self._execute(handles)
        if self.only_computes:
            return self._pack_outputs(outputs)
        by_index = dict(zip(code.outputs, [outputs] if self.has_single_output else _items(outputs, len(code.outputs))))
        return self._assign_and_pack(tensors, captures, updates, by_index)

    def _own_memory(self, updates: list[tuple[Variable, int]]) -> None:
        """Gives each updated Variable memory of its own if a tensor may share the present memory.

        The code is about to overwrite the memory. Reads in other threads would mix old and new values: of 100,000
        floats, a third to a half of the reads did.
        """
        count = alias_counter.count
        for variable, _ in updates:
            if variable._seen:
                variable.own_memory()
        self.alias_counter = count

    def code(self) -> Code:
        """Returns the code for the device in use, compiled at the first request.

        Values that depend on constants alone (such as packed operands) are computed once, for all calls.
        """
        code = self._codes.get(state.device)
        if code is None:
            code = self._codes[state.device] = self._new_code()
        return code

    def _new_code(self) -> Code:
        """Compiles the function for the device in use, or finds its code in the cache."""
        needs_code = self.output_count or not self.graph.pure
        if not needs_code:  # neither computed results nor side effects
            return Code(None, [], [])
        executable = executable_for(self.module())
        constants = [handle_of(capture) for capture in self.captures if is_constant(capture)]
        prepared = list(executable.function(PREPARE)(*constants)) if constants else []
        return Code(executable, prepared, executable.outputs(self.output_count))

    def forget(self) -> None:
        """Drops the compiled code. The next call compiles it again, with the tuning records found by then."""
        self._codes = {}

    def _execute(self, handles: list[Any]) -> Any:
        """Runs the code on memory handles and returns what the code returns.

        Raises:
          OtherSizes: the arguments don't have the sizes that the code assumes.
        """
        executable = (self._codes.get(state.device) or self.code()).executable
        if executable is None:
            return ()
        if self.inferred_sizes:
            _check_inferred_sizes(self.graph, handles)
        if self.speculated_sizes and not _have_sizes(handles, self.speculated_sizes):
            raise OtherSizes
        run = executable.function()
        try:
            return run(*handles)
        except Exception as error:  # TVM raises many types; `raised_by` translates each
            if self.speculative and is_of_other_sizes(error):
                raise OtherSizes from error
            raise raised_by(self.name, error, self.module) from error

    def _pack_outputs(self, outputs: Any) -> Any:
        """Packs the code's outputs into the function's result; used if every part of the result is an output."""
        tensors = [tensor_of(x) for x in ([outputs] if self.has_single_output else _items(outputs, self.output_count))]
        return self.results.packed([tensors[index] for _, index in self.results.leaves])

    def _assign_and_pack(
        self,
        tensors: Sequence[EagerTensor],
        captures: list[Any],
        updates: list[tuple[Variable, int]],
        outputs: dict[int, Any],
    ) -> Any:
        """Assigns the Variables' new values, and packs the function's result.

        Args:
          tensors: the tensor arguments of the call.
          captures: the captured tensors and Variables.
          updates: pairs of a Variable and the index of its new value.
          outputs: the outputs of the code by their indices.
        """
        self._assign_updates(updates, outputs)
        updated = self.updated if updates is self.updates else {index: variable for variable, index in updates}

        def resolve_leaf(kind: str, source: Any) -> Any:
            """Returns the value of a leaf of the result; :class:`Results` lists the kinds of ``leaves``."""
            if kind == "value":
                return source
            if kind == "param":
                return current([*tensors, *captures][source])
            # The output that is a Variable's new value is the Variable's memory by now.
            variable = updated.get(source)
            return tensor_of(outputs[source]) if variable is None else EagerTensor(variable._array)

        return self.results.packed([resolve_leaf(kind, source) for kind, source in self.results.leaves])

    def _assign_updates(self, updates: list[tuple[Variable, int]], outputs: dict[int, Any]) -> None:
        """Gives each Variable its new value if the code wrote the value to new memory.

        Most new values were written to the Variable's old memory (donation): there is nothing to do for them. A program
        without branches donates the same Variables in every call on a device, so the positions of the other updates are
        cached.
        """
        cached = self.updates_in_new_memory.get(state.device)
        if cached is None:
            candidates = [i for i, (_, output_index) in enumerate(updates) if output_index in outputs]
        else:
            candidates = cached
        in_new_memory = []
        for i in candidates:
            variable, output_index = updates[i]
            if variable.take(outputs[output_index]):  # false if the output is the Variable's own memory
                in_new_memory.append(i)
        if cached is None and not self.graph.subgraphs:
            self.updates_in_new_memory[state.device] = in_new_memory


_item = tvm_ffi.get_global_func("ffi.ArrayGetItem")


def _items(outputs: Any, count: int) -> Sequence[Any]:
    """Returns the ``count`` outputs of compiled code, a TVM array, as a list; on a GPU they are a list already.

    The array's own ``[]`` takes 0.55 us an item, the function that it calls 0.2 us.
    """
    return outputs if isinstance(outputs, list) else [_item(outputs, i) for i in range(count)]


def is_constant(capture: Any) -> bool:
    """Returns whether the code gets the same value for a capture in every call.

    A string tensor has new handles in each call, so it is not constant.
    """
    return isinstance(capture, EagerTensor) and capture.dtype is not string


def current(param: Any) -> EagerTensor:
    """Converts a parameter that the function returns to a tensor: for a Variable, a tensor of its present value."""
    return EagerTensor(param._array) if isinstance(param, Variable) else param


finalize.entered_by(Trace, "__init__")
