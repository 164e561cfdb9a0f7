"""One trace of a function: calls it, and compiles it at its first call."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from tvtf.core import function_types, nest
from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorShape, TensorType, fresh_dim
from tvtf.core.specialization import Level, Specialization, UnknownSize
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import cached_property
from tvtf.frontend.autograph.errors import ATTRIBUTE, to_user_error
from tvtf.frontend.control_flow.closure_conversion import capture_dims
from tvtf.frontend.control_flow.vectorized_map import is_mapped
from tvtf.frontend.function import executor
from tvtf.frontend.function.bind_arguments import bind_call, described, require_unmodified
from tvtf.frontend.function.deferred_call import argument_shape
from tvtf.frontend.function.host_plan import Plan, planned
from tvtf.frontend.function.inline_call import inlined
from tvtf.frontend.function.runtime_errors import runtime_error
from tvtf.frontend.function.signature import Arguments, Leaf
from tvtf.frontend.function.traced_program import Results, TraceableFunction, resolve_capture, stand_ins
from tvtf.frontend.host.host_rank import Instances
from tvtf.ir.graph import Graph
from tvtf.ir.interpreter import Instance, evaluate
from tvtf.ir.listing import Listing
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.host import AssignmentsForbidden, HostFunction
from tvtf.passes.autodiff.reverse_mode import Recorder
from tvtf.state.random_streams import (
    FunctionStreams,
    hold,
    running_function,
    streams_of,
    streams_of_instances,
    traced_with,
)
from tvtf.state.variable import Variable

if TYPE_CHECKING:
    from tvtf.frontend.tuning.profile import Profile
    from tvtf.ir.drawing import Drawing

MSG_VARIABLES = (
    "tf.function only supports singleton tf.Variables created on the first call. Make sure the tf.Variable is only created "
    "once or created outside tf.function. See https://www.tensorflow.org/guide/function#creating_tfvariables for more "
    "information."
)
observers: list[Callable[[ConcreteFunction], Any]] = []
"""Callbacks that are called with every function that was traced."""


def _recorded_graph(sources: Sequence[Any]) -> Hashable:
    """Returns which of TensorFlow's graphs of a function a call runs: None if no tape of the user's records the call.

    TensorFlow makes other graphs for calls that a tape records, that a persistent one or several record, and that an
    accumulator of tangents records. The random ops of each have states of their own.
    """
    tapes = [
        tape for tape in state.tapes if hasattr(tape, "records_uses_of") and any(map(tape.records_uses_of, sources))
    ]
    if not tapes:
        return None
    is_of_higher_order = len(tapes) > 1 or getattr(tapes[0], "persistent", False)
    has_tangents = not all(isinstance(tape, Recorder) for tape in tapes)
    return "recorded", is_of_higher_order, has_tangents


class ConcreteFunction(function_types.ConcreteFunction):
    """A traced function with fixed argument types; callable on tensors.

    If the ranks of the arguments are unknown, there is an instance per rank, made by replaying the trace, not the
    Python.
    """

    def __init__(self, name: str, arguments: Arguments, graph: Graph, results: Results) -> None:
        """Stores a finished trace. It is compiled at the first call, because many traces are only inlined in others."""
        self.name = name
        self.arguments = arguments
        self.graph = graph
        self.results = results
        self.captures = [outer for outer, _ in graph.captures]
        self.scope = graph.scope
        self.variables = [capture for capture in self.captures if isinstance(capture, Variable)]
        self.streams = streams_of(self.variables)
        """The random streams of its ops."""
        self._signature = inspect.Signature()
        self.python: Callable[[], Callable[..., Any] | None] = lambda: None
        """Returns the Python function that was traced while it lives: the trace must not keep it, nor what it refers to."""
        self._compiled: executor.Compiled | None = None
        self._plan: Plan | None = None
        self._pure: executor.GraphFunction | None = None
        self._variables_of_unknown_shape = [
            variable for variable in self.variables if not variable.shape.is_fully_defined()
        ]
        self._instances: dict[Any, ConcreteFunction] = {}
        self.specialization = graph.root.specialization
        self._has_instance_per_shape = self.specialization.needs_shapes
        """Whether each shape has an instance of its own, not only each rank."""
        self._python_instances = Instances(self)

    @classmethod
    def trace(cls, function: TraceableFunction, arguments: Arguments) -> ConcreteFunction:
        """Traces the Python function for the given arguments: runs it on symbolic tensors.

        If the first trace created Variables, the function is traced a second time, as in TensorFlow. Later calls then
        use the Variables and don't create them.
        """

        def run(tensors: list[SymbolicTensor], variables: list[Variable]) -> Any:
            """Calls the converted function on symbolic arguments, and checks that it didn't modify its arguments."""
            args, kwargs = arguments.rebuild(tensors, variables)
            state.trace.call_args = arguments.tensors
            before = nest.map_structure(lambda leaf: leaf, (args, kwargs))
            result = function.converted()(*args, **kwargs)
            require_unmodified(function.python_function, function.signature.python, before, (args, kwargs))
            return result

        with variables_allowed(function) as creation:
            specialization = specialization_for(arguments, arguments.tensors)
            specialization.assumes_scalars = function.granularity.assumes_scalars
            concrete = cls.of(function.name, arguments, run, function.signature.python, specialization)
        if creation.created:
            function.log.count_second_trace()
            return cls.trace(function, arguments)
        with suppress(TypeError):  # some callables don't support weak references
            concrete.python = weakref.ref(function.python_function)
        for observer in observers:
            observer(concrete)
        return concrete

    @classmethod
    def of(
        cls,
        name: str,
        arguments: Arguments,
        run: Callable[[Any, Any], Any],
        signature: inspect.Signature,
        specialization: Specialization,
    ) -> ConcreteFunction:
        """Traces ``run`` and returns the trace as a concrete function.

        Args:
          name: the name of the function.
          arguments: the arguments to trace for.
          run: a function of two lists, the tensors and the Variables among the arguments.
          signature: the signature of the Python function.
          specialization: how far ranks and sizes are fixed in the trace.
        """
        trace = Trace(name, caller=state.trace, specialization=specialization)
        variables = stand_ins(arguments.variables)
        try:
            with tracing(trace), _name_scopes_of_its_own():
                params = [
                    trace.add_param(param_type, param_name)
                    for param_type, param_name in zip(param_types(arguments), arguments.names)
                ]
                results = Results(trace, run(params, variables))
            if trace.caller is not None:
                capture_dims(trace)
        except UnknownSize as needed:
            # The caller traces the function again, for known ranks or sizes.
            if specialization.is_refinable:
                raise
            raise _user_error(needed, name) from None
        finally:
            for variable in variables:
                variable.is_traced = False
        concrete = cls(name, arguments, trace.finish(results.computed), results)
        concrete._signature = signature
        return concrete

    @property
    def _has_deferred_calls(self) -> bool:
        """Whether calls of ops are deferred, because they need unknown ranks or sizes. Only instances can be compiled then."""
        return self.specialization.deferred is not None

    # -- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the trace with the Python function's arguments. Arguments that were Python values in tracing may be omitted."""
        return self.call_flat(*bind_call(self, args, kwargs))

    def call_flat(self, tensors: Sequence[Tensor], variables: Sequence[Variable] = ()) -> Any:
        """Calls the trace on flattened arguments.

        Args:
          tensors: the tensor arguments, in the order of the argument specs.
          variables: the Variable arguments.
        """
        if state.trace is not None:
            with state.trace.together():
                return self.inline(tensors, variables)
        if is_mapped(tensors):
            return self.inline(tensors, variables)
        call = self._call_recorded if state.tapes else self.call
        python_calls = self.graph.root.python
        # Python called by the program must not assign Variables that the program uses afterwards (`PythonCalls`).
        if python_calls.any or python_calls.barriers:
            with AssignmentsForbidden(self._used_after_python, variables):
                return call(tensors, variables)  # type: ignore[arg-type]  # outside of traces and maps they are eager
        return call(tensors, variables)  # type: ignore[arg-type]

    @property
    def calls_python(self) -> bool:
        """Whether the compiled code calls Python, which may assign the Variables that the code uses."""
        return bool(self.graph.root.python.any)

    @cached_property
    def _used_after_python(self) -> list[Variable]:
        """The Variables that the compiled code uses after it calls Python.

        The called Python must not assign them. The code keeps the Variables' values in memory of its own, so an
        assignment would be lost silently.
        """
        python = self.graph.root.python
        if python.in_control_flow:
            # In a loop, every use of a Variable follows the call of an earlier iteration.
            return self.variables
        updated = [variable for variable, _ in self.results.updates] if python.any else []
        return [*updated, *python.used_later.values()]

    def call(self, tensors: Sequence[EagerTensor], variables: Sequence[Variable] = ()) -> Any:
        """Calls the trace on eager tensors, outside of gradient tapes and other traces."""
        if self._compiled is None and self._python_instances.specs:
            # Python calls return tensors of unknown rank: run, and make an instance for the ranks found.
            return self._python_instances.run(tensors, variables, ConcreteFunction.call)
        return (self._plan or self._compiled or self.instance(tensors)._runner())(tensors, variables)

    def _runner(self) -> Plan | executor.Compiled:
        """Returns the callable that runs the trace: a plan of NumPy kernels if possible, else compiled code."""
        self._require_scope()
        return self.plan() or self.code()

    def plan(self) -> Plan | None:
        """Returns a plan that runs the trace with NumPy kernels, or None if the trace has to be compiled."""
        if not (self._plan or self._compiled or self._python_instances.specs or self._has_deferred_calls):
            self._plan = planned(self)
        return self._plan

    def code(self) -> executor.Compiled:
        """Returns the compiled code of the trace, compiled at the first request.

        Raises:
          ValueError: an argument has an unknown rank, or an unknown size that an op needs.
        """
        self._require_scope()
        self.require_known_ranks()
        if self._compiled is None:
            self._compiled = executor.Compiled(self)
        return self._compiled

    def require_known_ranks(self) -> None:
        """Raises ValueError if the trace can't be compiled, because it lacks ranks or sizes that only a call shows."""
        if self._python_instances.specs:
            raise ValueError(
                f"{self.name} calls Python that returns tensors of unknown rank; it is compiled when a call has shown it: pass "
                "tf.py_function a TensorSpec with the dims as its Tout, None for unknown ones"
            )
        if not self._has_deferred_calls:
            return
        if self._has_instance_per_shape:
            raise ValueError(
                f"{self.name} has ops that need sizes which its arguments leave unknown; code is compiled for known ones: "
                "give tensors, or specs with all their dims"
            )
        raise ValueError(
            f"{self.name} was traced for arguments of unknown rank; code is compiled for a known one: give tensors, or "
            "specs with their dims, None for unknown ones"
        )

    def captured_among(self, variables: Sequence[Variable]) -> list[Variable]:
        """Returns those of some Variables that the trace captures itself, beside what its arguments stand for.

        A trace that assigns nothing sees one value of each, so that it needs none.
        """
        if not self.assigns_variables and not self.graph.root.python.any:
            return []
        return [variable for variable in variables if id(variable) in self._captured_ids]

    @cached_property
    def _captured_ids(self) -> set[int]:
        """The `id`s of the captures, which the trace keeps alive."""
        return set(map(id, self.captures))

    def loses_gradients_of(self, tapes: Sequence[Any]) -> bool:
        """Returns whether a gradient tape watches a tensor that is a constant in the code, and would get no gradient.

        Tracing embeds small eager tensors as constants if no tape watches them. A tape may start to watch them later.
        """
        embedded = self.graph.root.embedded.values()
        return any(tape.watches(tensor) for tape in tapes for tensor in embedded)

    def _require_scope(self) -> None:
        """Raises InaccessibleTensorError if the function captured tensors of an enclosing trace.

        Such a function can be called in the enclosing trace only, where calls are inlined and never reach this check.
        """
        if self.scope is not None:
            captured = next(capture for capture in self.captures if isinstance(capture, SymbolicTensor))
            raise captured.out_of_scope(
                f"by {self.name!r}, which captured it and can be called in {self.scope.name!r} alone"
            )

    def _call_recorded(self, tensors: Sequence[Tensor], variables: Sequence[Variable]) -> Any:
        """Calls the trace under gradient tapes.

        The values of captured Variables are read first and passed as inputs, so that the tapes record the reads.
        """
        self._require_scope()
        if self._python_instances.specs:
            return self._python_instances.run(tensors, variables, ConcreteFunction._call_recorded)
        if self._has_deferred_calls:
            return self.instance(tensors)._call_recorded(tensors, variables)
        if self.streams:
            sources = [*tensors, *(resolve_capture(capture, variables) for capture in self.captures)]
            hold(self.streams, self, _recorded_graph(sources))
        if self._pure is None:
            self._pure = executor.GraphFunction(self.graph, self.results.hidden, self.results.written)
        if self._pure.written:  # no tensor that the program read before may share the memory
            for written in (*(variable for variable, _ in self.results.updates), *self.results.flushed):
                resolve_capture(written, variables).own_memory()
        captured = self._captured_values(variables)
        computed = self._pure(*tensors, *captured)
        return self.results.assemble_values(computed, tensors, captured, variables)

    def _captured_values(self, variables: Sequence[Variable]) -> list[Any]:
        """Returns the values of the captures in a call. Variables are read, which gradient tapes see."""
        outer = [resolve_capture(capture, variables) for capture in self.captures]
        return [each._as_tensor() if isinstance(each, Variable) else each for each in outer]

    def inline(self, tensors: Sequence[Tensor], variables: Sequence[Variable]) -> Any:
        """Inlines the function: binds its primitives again in the active trace, or under ``vectorized_map``.

        The enclosing program is then optimized as a whole, and gradients flow through the function's ops. Its random ops
        have streams of their own there, which start where the function's do, as TensorFlow's copies of the ops.

        Args:
          tensors: the tensor arguments, in the order of the argument specs.
          variables: the Variable arguments.
        """
        running = running_function() if self.streams and state.trace is not None else None
        if running is None:
            return self._replay(tensors, variables)
        own_streams = {id(stream.variable): running.inlined_stream(stream).variable for stream in self.streams}
        return self._replay(tensors, variables, own_streams)

    def _replay(
        self,
        tensors: Sequence[Tensor],
        variables: Sequence[Variable],
        replacements: Mapping[int, Variable] | None = None,
    ) -> Any:
        """Binds the function's primitives again, and returns its result; see `inline`.

        Args:
          tensors: the tensor arguments, in the order of the argument specs.
          variables: the Variable arguments.
          replacements: the Variables that replace captured ones, by the identity of the captured ones.
        """
        trace = state.trace
        if trace is None:  # under vectorized_map
            captured = self._captured_values(variables)
            computed = evaluate(self.graph.module(), "main", [*tensors, *captured], Instance)
            return self.results.assemble_values(computed, tensors, captured, variables)
        python_calls = self.graph.root.python
        trace.root.embedded |= self.graph.root.embedded
        trace.root.python.join(python_calls, trace.parent is not None)
        if python_calls.barriers:
            trace.flush_assignments()  # the function's Python reads Variables from their memory
        captures = [resolve_capture(capture, variables) for capture in self.captures]
        if replacements:
            captures = [replacements.get(id(capture), capture) for capture in captures]
        values = [capture._as_tensor() if isinstance(capture, Variable) else capture for capture in captures]
        binding_count = len(trace.bindings)
        computed = inlined(self.graph.module(), tensors, captures, values)
        kind = "StatefulPartitionedCall" if captures or variables else "PartitionedCall"
        trace.note_call(kind, [*tensors, *captures], computed, binding_count)
        if python_calls.barriers:
            trace.root.python.barriers += 1
        return self.results.assemble_values(computed, tensors, values, variables, replacements)

    def instance(
        self, tensors: Sequence[Tensor], ranks: Mapping[int, tuple[int, ...]] | None = None
    ) -> ConcreteFunction:
        """Returns the function to compile for these tensors: this function, or an instance of it.

        The result is this function if the needed ranks and sizes are known. Otherwise the function is traced again for
        the ranks or shapes of the tensors. Such a trace is an instance, and is cached by these ranks or shapes.

        Args:
          tensors: the arguments of a call.
          ranks: the ranks of tensors that the program gets from Python functions, such as ``tf.py_function``, by call.
        """
        has_unknown_python_ranks = self._python_instances.specs and ranks is None
        if not self._has_deferred_calls or has_unknown_python_ranks:
            return self
        ranks = {} if ranks is None else ranks
        # A captured Variable whose static shape is incomplete may also have another shape in each call.
        variables = self._variables_of_unknown_shape
        if self._has_instance_per_shape:
            shapes_or_ranks = [
                *(tuple(tensor.shape) for tensor in tensors),
                *(variable._type.shape for variable in variables),
            ]
        else:
            shapes_or_ranks = [*(tensor.ndim for tensor in tensors), *(variable.ndim for variable in variables)]
        key = (*shapes_or_ranks, *sorted(ranks.items()))
        instance = self._instances.get(key)
        if instance is None:
            instance = self._instances[key] = self._instantiated(tensors, ranks)
        return instance

    def _instantiated(self, tensors: Sequence[Tensor], ranks: Mapping[int, tuple[int, ...]]) -> ConcreteFunction:
        """Traces an instance of the function for the ranks of the tensors, or for their shapes if ops need sizes.

        Args:
          tensors: the arguments of a call.
          ranks: the ranks of tensors that the program gets from Python functions, by call.
        """
        try:
            if not self._has_instance_per_shape:
                of_ranks = self.arguments.of_ranks(tensors)
                # If the ranks are not enough, an instance for the sizes is traced below.
                with suppress(UnknownSize):
                    return self._instance_for(of_ranks, Level.RANKS, ranks, tensors)
            of_sizes = self.arguments.of_sizes(tensors)
            instance = self._instance_for(of_sizes, Level.SHAPES, ranks, tensors)
            self._has_instance_per_shape = True  # later calls don't try the ranks alone
            return instance
        except (TypeError, ValueError) as error:
            raise runtime_error(self.name, error) from error

    def _instance_for(
        self, arguments: Arguments, level: Level, ranks: Mapping[int, tuple[int, ...]], tensors: Sequence[Tensor]
    ) -> ConcreteFunction:
        """Traces the function again for more specific arguments, by inlining the first trace.

        Args:
          arguments: the arguments, with the ranks or shapes that calls have.
          level: whether ranks or shapes are known.
          ranks: the ranks of the tensors that calls of Python return.
          tensors: the tensors among the arguments of a call.
        """

        def replay(tensors: Sequence[Tensor], variables: Sequence[Variable]) -> Any:
            traced_with(self._streams_of_instances)
            return self._replay(tensors, variables)

        specialization = specialization_for(arguments, tensors, level, ranks)
        return ConcreteFunction.of(self.name, arguments, replay, self._signature, specialization)

    @cached_property
    def _streams_of_instances(self) -> FunctionStreams:
        """The random streams of deferred ops."""
        return streams_of_instances(self.graph.root)

    @property
    def assigns_variables(self) -> bool:
        """Whether a call assigns Variables, itself or where it calls Python."""
        return bool(self.results.updates or self.graph.root.python.flushed)

    @property
    def returns_arguments(self) -> bool:
        """Whether a call returns its tensor arguments in their order, and has neither captures nor effects."""
        if self.captures or self.specialization.deferred or not self.graph.pure:
            return False
        return self.results.arguments(self.graph.identities()) == [*range(len(self.graph.params))]

    @property
    def may_draw(self) -> bool:
        """Whether calls may draw random numbers; which ops are deferred isn't known."""
        return bool(self.streams) or self._has_deferred_calls

    # -- inspection

    def add_to_graph(self, g: Any = None, overwrite: bool = False) -> None:
        """Does nothing: a graph holds the code of the functions that are called in it."""

    def add_gradient_functions_to_graph(self, g: Any = None) -> None:
        """Does nothing: gradients are made when they are requested."""

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature()}"

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.function_type} at 0x{id(self):X}>"

    @property
    def function_type(self) -> FunctionType:
        """The types of its arguments and results, printed as ``(x: TensorSpec(...)) -> TensorSpec(...)``."""
        return FunctionType(self)

    @property
    def inference_fn(self) -> Callable[..., Any]:
        """The function on tensors alone, in the order of :attr:`inputs`; captures are filled in."""
        return lambda *tensors: self.call_flat([convert_to_tensor(tensor) for tensor in tensors])

    @property
    def captured_inputs(self) -> list[Any]:
        """The outside tensors and Variables that it uses."""
        return [capture for capture in self.captures if not isinstance(capture, HostFunction)]

    def module(self) -> Any:
        return self.graph.module()

    def ir(self, after: str | None = None) -> Listing:
        """Returns the function's IR for printing: as it was traced, or ``after`` a phase of the compiler.

        See :meth:`Function.ir`.

        >>> import tvtf as tf
        >>> double = tf.function(lambda x: x + x).get_concrete_function(tf.TensorSpec([None]))
        >>> [line.code for line in double.ir().lines][1:]
        ['  add = add(x, x)', '  return add']

        Raises:
          ValueError: no compiler phase has that name.
        """
        from tvtf.frontend.function.inspection import lowered_ir, traced_ir

        return traced_ir(self, self.python()) if after is None else lowered_ir(self, self.python(), after)

    def draw(self, profile: Profile | None = None, after: str = "in-place") -> Drawing:
        """Draws the function's kernels as a graph, with the measured times of a ``profile`` if one is passed.

        See :meth:`Function.draw`.

        >>> import tvtf as tf
        >>> double = tf.function(lambda x: x + x).get_concrete_function(tf.TensorSpec([8]))
        >>> double.draw()
        <Drawing of <lambda>: 3 boxes; .save(path) writes it as SVG>

        Raises:
          ValueError: no compiler phase has that name, or calls have no results any more after it.
        """
        from tvtf.frontend.function.inspection import draw, kernel_seconds

        return draw(self, self.python(), kernel_seconds(profile), after)

    @property
    def inputs(self) -> list[SymbolicTensor]:
        return self.graph.all_params

    @property
    def outputs(self) -> list[Any]:
        return [leaf for leaf in nest.flatten(self.results.traced, expand_composites=True) if isinstance(leaf, Tensor)]

    @property
    def structured_input_signature(self) -> Any:
        return self.arguments.described(named_spec)

    @property
    def structured_outputs(self) -> Any:
        """The traced results in the structure that the function returns."""
        return self.results.traced

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results, in the structure that the function returns."""
        return nest.map_structure(lambda x: TensorShape(None if x is None else x.shape), self.results.traced)

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results, in the structure that the function returns."""
        return nest.map_structure(lambda x: None if x is None else x.dtype, self.results.traced)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.trainable)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Returns the types of the parameters, the result and the captures as text, in TensorFlow's format."""
        inputs = [f"  {line}" for line in self._described_inputs()]
        captures = [f"  {id(capture)}: {_described(capture)}" for capture in self.captured_inputs]
        lines = ["Input Parameters:", *(inputs or ["  None"])]
        lines += ["Output Type:", f"  {_text(self.function_type.output)}"]
        lines += ["Captures:", *(captures or ["  None"])]
        return "\n".join(lines)

    def _described_inputs(self) -> list[str]:
        """Returns a line for each argument: its name, its kind as ``inspect.Parameter`` names it, and its type."""
        args, kwargs = self.arguments.described(Leaf.typed_text)
        positional = [
            f"{name} ({kind}): {_text(value)}" for (name, kind), value in zip(self._positional_parameters(), args)
        ]
        return positional + [f"{key} (KEYWORD_ONLY): {_text(value)}" for key, value in kwargs.items()]

    def _positional_parameters(self) -> Iterator[tuple[str, str]]:
        """Yields (name, kind) of each positional parameter; endlessly if the signature has ``*args``.

        So zip it with the arguments. Parameters before ``*args`` are positional-only, as they are in TensorFlow. The
        arguments in ``*args`` are named ``args_0``, ``args_1`` and so on.
        """
        parameters = list(self._signature.parameters.values())
        variadic_name = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                yield parameter.name, parameter.kind.name if variadic_name is None else "POSITIONAL_ONLY"
        if variadic_name is not None:
            for i in count():
                yield f"{variadic_name}_{i}", "POSITIONAL_ONLY"


def specialization_for(
    arguments: Arguments,
    tensors: Sequence[Tensor | None] = (None,),
    level: Level = Level.SPECS,
    python_ranks: Mapping[int, tuple[int, ...]] | None = None,
) -> Specialization:
    """Returns the specialization of a trace: which ranks and sizes are fixed, and whether a finer trace is possible.

    A finer trace is possible in three cases: the trace fixes ranks only, the tensors have sizes that the specs leave
    unknown, or the enclosing trace may supply missing sizes.

    Args:
      arguments: the arguments to trace for.
      tensors: the tensors of the call, None for arguments given as specs.
      level: whether the trace is for specs, for ranks or for shapes.
      python_ranks: the ranks of the tensors that calls of Python return.
    """
    is_enclosing_refinable = state.trace is not None and state.trace.specialization.may_know_more
    is_refinable = level is Level.RANKS or is_enclosing_refinable or arguments.are_refined_by(tensors)
    return Specialization(level, is_refinable, arguments.are_of_sizes, python_ranks)


def _user_error(needed: UnknownSize, name: str) -> Exception:
    """Returns the error to raise for a size that tracing needs and nothing supplies.

    The message names the function ``name`` and shows the lines of the user's code.
    """
    error = needed.error
    if isinstance(error, ArgumentError):
        error = error.graph(error.traced.replace("{op}", name))
    metadata = getattr(needed, ATTRIBUTE, None)
    if metadata is not None:
        error.ag_error_metadata = metadata._replace(message=f"{type(error).__name__}: {error}")  # type: ignore[attr-defined]
    return to_user_error(error.with_traceback(needed.__traceback__))


def named_spec(leaf: Leaf) -> Any:
    """Returns an argument leaf as signatures show it: a spec with a name for a tensor, or the Python value."""
    if leaf.is_dataset:
        return leaf.value.argument_spec()
    spec = leaf.spec
    if spec is None:
        return leaf.value
    return spec if spec.name else TensorSpec(spec.shape, spec.dtype, leaf.name)


class FunctionType:
    """The types of a concrete function's arguments and results, as TensorFlow prints them.

    Source: https://www.tensorflow.org/api_docs/python/tf/types/experimental/FunctionType
    """

    def __init__(self, concrete: ConcreteFunction) -> None:
        self._concrete = concrete

    def __str__(self) -> str:
        return f"({described(self._concrete)}) -> {self.output}"

    def __repr__(self) -> str:
        return self._concrete.pretty_printed_signature()

    @property
    def output(self) -> Any:
        """The types of the results, in their structure."""
        return nest.map_structure(_described, self._concrete.results.traced)


class _Text(str):
    """A description that prints bare inside containers."""

    def __repr__(self) -> str:
        return str(self)


def _text(value: Any) -> str:
    """Formats a nest of descriptions as TensorFlow prints an argument's type.

    For example, a list of two specs gives ``List[TensorSpec(...), TensorSpec(...)]``.
    """
    if nest.is_record(value) and nest.metadata_of(value) is not None:
        components = tuple(_Text(_text(part)) for part in nest.parts_of(value))
        return f"CustomNestTraceType [metadata={nest.metadata_of(value)!r}, components={components!r}]"
    if isinstance(value, Mapping):
        return _text_of_named_parts("Dict", value.items())
    if hasattr(value, "_fields"):  # a named tuple
        return _text_of_named_parts(type(value).__name__, zip(value._fields, value))
    if nest.is_record(value):  # a dataclass or a class made by `attrs`
        return _text_of_named_parts(type(value).__name__, nest.named_parts(value))
    if isinstance(value, (list, tuple)):
        type_name = "List" if isinstance(value, list) else "Tuple"
        return f"{type_name}[{', '.join(map(_text, value))}]"
    return str(value)


def _text_of_named_parts(type_name: str, named_parts: Iterable[tuple[Any, Any]]) -> str:
    """Formats a structure with named parts, such as ``Dict[['a', TensorSpec(...)]]``."""
    part_texts = [f"[{name!r}, {_text(part)}]" for name, part in named_parts]
    return f"{type_name}[{', '.join(part_texts)}]"


def _described(value: Any) -> Any:
    """Returns the text of a tensor's or composite's spec, or of another value, which prints without quotes in containers."""
    if isinstance(value, (Tensor, Variable)):
        return _Text(TensorSpec(value.shape, value.dtype))
    return _Text(nest.spec_of(value) if nest.is_composite(value) else value)


def param_types(arguments: Arguments) -> list[TensorType]:
    """Returns the types of a trace's parameters.

    Each unknown dim becomes a symbolic dim. Dims with the same name in their specs share a symbolic dim.
    """
    named: dict[str, Any] = {}
    leaves = [(leaf, leaf.spec) for leaf in arguments.leaves if leaf.spec is not None]
    return [TensorType(_dims(leaf, spec, named), spec.dtype) for leaf, spec in leaves]


def _dims(leaf: Leaf, spec: TensorSpec, named: dict[str, Any]) -> Any:
    """Returns the shape of the parameter for an argument leaf; ``named`` maps names to symbolic dims made so far."""
    if spec.dim_names is None:  # of unknown rank
        return argument_shape(leaf.name, leaf.tensor)
    return tuple(
        _dim(dim, name, f"{leaf.name}_{i}", named) for i, (dim, name) in enumerate(zip(spec.shape, spec.dim_names))
    )


def _dim(size: int | None, name: str | None, default: str, named: dict[str, Any]) -> Any:
    """Returns a known size, or the symbolic dim called ``name`` or ``default``, added to ``named`` if it is new."""
    if size is not None:
        return size
    symbol = name or default
    if symbol not in named:
        named[symbol] = fresh_dim(symbol)
    return named[symbol]


@contextmanager
def _name_scopes_of_its_own() -> Iterator[None]:
    """A context in which names begin anew: a function isn't within the name scopes of its first call."""
    outer, state.name_scopes = state.name_scopes, []
    try:
        yield
    finally:
        state.name_scopes = outer


class variables_allowed:
    """A context in which a function may create Variables, if this is its first trace.

    It holds in ``tf.init_scope``, too: Variables that are created there count as the function's, as in TensorFlow.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.created = False

    def __enter__(self) -> variables_allowed:
        self.outer = state.variables_allowed
        state.variables_allowed = self
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        state.variables_allowed = self.outer
        if kind is None:  # a trace that failed doesn't count as the first
            self.function._variables_made = True

    def note_creation(self) -> None:
        """Notes that a Variable is created: the function is traced again afterwards.

        Raises:
          ValueError: this is not the function's first trace.
        """
        if self.function._variables_made:
            raise ValueError(MSG_VARIABLES)
        self.created = True
