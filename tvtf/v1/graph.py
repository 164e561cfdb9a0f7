"""TensorFlow 1's graphs: open traces, in which an assignment or a print is an op that runs when it is fetched."""

from __future__ import annotations

import itertools
import re
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from tvm import relax

from tvtf.core import nest
from tvtf.core.graph_operation import Operation as AnyOperation
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import TensorType, as_shape, fresh_dim
from tvtf.core.specialization import Specialization, UnknownRank
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.tensorboard_protos import proto
from tvtf.core.thread_state import state
from tvtf.frontend.function.deferred_call import argument_shape
from tvtf.frontend.function.granularity import rank_error
from tvtf.ir.dialect import is_dialect, operands, read
from tvtf.ir.graph import Graph as FinishedTrace
from tvtf.ir.trace import Trace
from tvtf.ops.rules import bind, ones_like
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep
from tvtf.state.module import current_scope
from tvtf.state.seeds import seeds
from tvtf.state.variable import ReadVariable, Variable
from tvtf.v1.default_session import current
from tvtf.v1.graph_variable import variable_of_graph

_numbers = itertools.count()


class Effect:
    """A side effect of an op: an assignment, or a call with an effect.

    ``var`` is the binding that is computed for it. ``update`` is the call that computes an assignment's new value from
    the variable's current value, if there is one: it reads the value at the time when it runs.
    """

    def __init__(
        self,
        var: relax.Var,
        variable: Variable | None = None,
        value: SymbolicTensor | None = None,
        update: relax.Var | None = None,
    ) -> None:
        """Creates an effect that computes the binding ``var``.

        Args:
          variable: the assigned variable, or None for an effect that is not an assignment.
          value: the assigned tensor.
          update: the call that computes ``value`` from the variable's current value, if there is one.
        """
        self.var, self.variable, self.value, self.update = var, variable, value, update
        self.number = next(_numbers)  # in program order


class Operation(AnyOperation):
    """An op of a graph: running it performs its effects and computes its outputs.

    Source: https://www.tensorflow.org/api_docs/python/tf/Operation
    """

    def __init__(
        self,
        kind: str,
        name: str | None,
        graph: Graph,
        effects: Sequence[Effect] = (),
        outputs: Sequence[Any] = (),
        inputs: Sequence[Any] = (),
        is_unique: bool = False,
    ) -> None:
        """Adds an op of type ``kind`` to the graph.

        The name is made unique, unless the caller knows that it ``is_unique``. When the op runs, ``effects`` run, and
        the effects that the current control dependencies require.
        """
        self.type, self.graph = kind, graph
        self.name = name if name and is_unique else graph.unique_name(name or kind)
        self._effects = (*graph.trace.required, *effects)
        self.outputs, self.inputs = list(outputs), list(inputs)
        self.control_inputs: list[Any] = []
        self._control_outputs: list[Any] = []
        """Empty as ``control_inputs``: the order of effects holds without edges. Keras 2 reads both names."""
        self.device = ""
        graph.add(self)

    @property
    def effects(self) -> Sequence[Effect]:
        """The effects that must run for this op."""
        return [*self._effects, *(effect for output in self.outputs for effect in self.graph.trace.required_by(output))]

    @property
    def values(self) -> Any:
        return lambda: tuple(self.outputs)

    def get_attr(self, name: str) -> Any:
        """Returns the attribute ``dtype``, ``T`` or ``shape`` of the op's first output.

        Raises:
          ValueError: the op has no attribute of this name.
        """
        property_name = {"dtype": "dtype", "T": "dtype", "shape": "shape"}.get(name)
        if property_name is None or not self.outputs:
            raise ValueError(f"Operation {self.name!r} has no attr named {name!r}.")
        return getattr(self.outputs[0], property_name)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs the op in a session, by default the current one."""
        (session or current("Cannot execute operation using `run()`")).run(self, feed_dict)


class _Records(Recorder):
    """A recorder of everything in the graph, because gradients are requested while it is built."""

    watch_accessed_variables = True

    def watches(self, source: Any) -> bool:
        """Records no constants: no gradients of a graph are taken with respect to them."""
        return not isinstance(source, EagerTensor)

    def record(self, prim: Any, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
        self.active.update((id(x), x) for x in inputs)
        super().record(prim, inputs, outputs, attrs)

    def read(self, variable: Variable, tensor: Tensor) -> None:
        self.record(ReadVariable, (variable,), tensor, {})


class GraphTrace(Trace):
    """A trace in which only dependent ops see an assignment."""

    has_keys = True
    builds_function = False

    def __init__(self, graph: Graph) -> None:
        """Creates the trace of a TensorFlow 1 graph. The trace stays open: ops are added to it at any time."""
        super().__init__("graph", specialization=Specialization(runs_eagerly=True))
        self.is_in_branch = True  # a run leaves out what isn't fetched
        self.static_uses = set()
        self.graph = graph
        self.effects: list[Effect] = []
        """All effects, in program order."""
        self.depends: dict[relax.Var, list[Effect]] = {}
        """For each binding, the effects that must run before it."""
        self.implied: dict[relax.Var, list[Effect]] = {}
        """For each binding or capture, the effects that run together with it."""
        self._assigned_before: dict[relax.Var, dict[int, Effect]] = {}
        """For each binding, the last assignment of each Variable that runs before or together with it."""
        self._required: list[Effect] = []
        self._visible: list[dict[int, SymbolicTensor]] = []
        self._own_assignments: dict[int, SymbolicTensor] | None = None
        self._updates: set[relax.Var] = set()
        self.names: dict[Any, str] = {}
        """The names of tensors, by their variables in the IR."""
        self.is_inside_op = False
        """Whether what is computed now is the inside of one op, which is named as a whole (`without_op_names`)."""
        self._pending: list[Effect] = []
        """The effects that must run before the op whose branch or body is being traced."""

    def make_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Creates the graph's variable for ``tf.Variable``; its initializer assigns the initial value."""
        return variable_of_graph(self.graph, *args, **kwargs)

    # -- names

    def named_call(self, function: Any, args: Any, kwargs: Any, default_name: str, kind: str) -> Any:
        """Calls a public function in the graph, and groups everything that it computes as one op of type ``kind``.

        The function's results become the op's outputs.
        """
        if self.is_inside_op:
            return function(*args, **kwargs)
        with self.without_op_names():  # the ops inside the function are no ops of the graph
            result = function(*args, **kwargs)
        self.name_results(result, kwargs.get("name") or default_name, kind, (args, kwargs))
        return result

    @contextmanager
    def without_op_names(self) -> Iterator[None]:
        """Hides the ops of a ``with`` block: they are not listed in the graph, and their tensors get no names.

        The block implements one op of TensorFlow. The code around it lists this op by :meth:`name_results`, so that the graph
        has the same ops and names as in TensorFlow.
        """
        outer, self.is_inside_op = self.is_inside_op, True
        try:
            yield
        finally:
            self.is_inside_op = outer

    def name_results(self, result: Any, name: str, kind: str, arguments: Any = ()) -> None:
        """Adds an op of type ``kind`` whose outputs, named after it, are the unnamed tensors of ``result``."""
        leaves = nest.flatten(result, expand_composites=True)
        tensors = [
            leaf
            for leaf in leaves
            if isinstance(leaf, SymbolicTensor) and leaf._trace is self and leaf._var not in self.names
        ]
        if tensors:
            inputs = [leaf for leaf in _leaves(arguments) if isinstance(leaf, SymbolicTensor)]
            Operation(kind, name, self.graph, outputs=tensors, inputs=inputs)

    def known_value(self, tensor: SymbolicTensor) -> Any:
        """Returns the value of a constant tensor as an eager tensor, or None if the value depends on the run."""
        # An eager tensor that the graph uses is captured under another variable.
        for outer, inner in self.captures.values():
            if inner._var.same_as(tensor._var):
                return outer if isinstance(outer, EagerTensor) else None
        static = static_value(tensor)
        return None if static is None else EagerTensor(np.array(static))

    def determines_graph(self, tensor: SymbolicTensor) -> bool:
        """Returns whether the graph was built for the constant value of a tensor, or of a tensor computed from it."""
        uses = self.static_uses or set()
        is_constant = tensor._known is not None or self.computed_constants.value(tensor._var, 1) is not None
        if not uses or not is_constant:
            return False
        dependent = {tensor._var}
        for binding in self.bindings:
            # The sizes of a tensor are not its value.
            is_of_sizes = is_dialect(binding.value) and read(binding.value).primitive.name == "shape"
            if not is_of_sizes and not dependent.isdisjoint(operands(binding.value)):
                dependent.add(binding.var)
        return not dependent.isdisjoint(uses)

    def stand_for(self, tensor: SymbolicTensor, result: SymbolicTensor) -> None:
        if tensor._var in self.names:
            self.names[result._var] = self.names[tensor._var]
        super().stand_for(tensor, result)

    def name_of(self, tensor: SymbolicTensor) -> str:
        return self.names.get(tensor._var) or f"{getattr(tensor._var, 'name', 'Const')}:0"

    def operation_of(self, tensor: SymbolicTensor) -> AnyOperation:
        """Returns the op that computes a tensor, creating one if the tensor has no name."""
        if tensor._var not in self.names:
            Operation("Identity", getattr(tensor._var, "name", "Const"), self.graph, outputs=[tensor])
        return self.graph.operations[self.names[tensor._var].partition(":")[0]]

    def _operation_binding(self, binding: relax.VarBinding) -> AnyOperation | None:
        """Returns the op of the graph that has a binding's value as an output, or that runs the binding's effect, or None."""
        name = self.names.get(binding.var)
        if name is not None:
            return self.graph.operations[name.partition(":")[0]]
        effects = (
            operation
            for operation in self.graph.operations.values()
            if any(effect.var.same_as(binding.var) for effect in operation._effects)
        )
        return next(effects, None)

    def evaluate(self, tensor: SymbolicTensor, feed_dict: Any, session: Any) -> Any:
        return (session or current("Cannot evaluate tensor using `eval()`")).run(tensor, feed_dict)

    def emit(self, prim: Any, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Emits a primitive and, unless the caller names the results, makes them the outputs of an op of the graph."""
        result = super().emit(prim, inputs, attrs)
        if not self.is_inside_op:
            callee = _callee_of(self, prim, attrs)
            self.name_results(result, _operator_name(callee), getattr(callee, "tf_name", prim.tf_name), inputs)
        return result

    def own_constant(self, tensor: Any, name: str | None = None) -> Tensor:
        constant = super().own_constant(tensor)
        if not self.is_inside_op:
            self.name_results(constant, name or "Const", "Const")
        return constant

    # -- bindings

    def _bind(self, call: relax.Call, types: Any, name: str) -> Any:
        """Adds a call to the trace, and records its control dependencies: effects that must run before the call.

        Also records the last assignments to Variables that the call sees.
        """
        first_new = len(self.bindings)
        result = super()._bind(call, types, name)
        for binding in self.bindings[first_new:]:
            required = [*self._required, *self._pending]
            self.depends[binding.var] = required
            used = [*relax.analysis.free_vars(binding.value), *(effect.var for effect in required)]
            self._assigned_before[binding.var] = self._last_assigned(used)
        self._pending = []
        if self._has_effects(read(call)):
            self.effects.append(Effect(self.bindings[first_new].var))
        return result

    def require_equal(self, a: Any, b: Any) -> bool:
        """Compares two dims where the op that is bound next runs: a run may leave out this op, or others that need it."""
        first_effect = len(self.effects)
        pending = self._pending
        self._pending = []
        with self.without_op_names():
            are_equal = super().require_equal(a, b)
        self._pending = [*pending, *self.effects[first_effect:]]
        self.compared_dims = []
        return are_equal

    def _has_effects(self, bound: Any) -> bool:
        """Returns whether a call has side effects; a deferred call has those of its function."""
        deferred = (self.specialization.deferred or {}).get(bound.attrs.get("key", -1))
        return not bound.primitive.pure if deferred is None else deferred.has_effects

    def updates(self, value: SymbolicTensor) -> None:
        self._updates.add(value._var)

    def assign_variable(self, variable: Any, value: SymbolicTensor, is_stored: bool = False) -> None:
        """Records the assignment of ``value`` to a variable as an effect. The effect runs when the op is fetched."""
        new = self.own(value)
        _, source = self.bindings[-1].value.args  # the operands of the assignment, which was just bound
        update = source if source in self._updates else None
        effect = Effect(new._var, variable, new, update)
        self.effects.append(effect)
        self._note_assignment(new._var, effect)
        if self._own_assignments is not None:
            self._own_assignments[id(variable)] = new

    def assigned_value(self, variable: Any, read_value: bool) -> Any:
        """Returns the result of the last assignment: the new value with ``read_value``, otherwise the op that assigns.

        Other reads see the new value only if they depend on the assignment.
        """
        effect = self.effects[-1]
        if not read_value:
            return Operation("AssignVariableOp", None, self.graph, [effect])
        with self._seeing([effect]):
            return variable._as_tensor()

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """Returns the variable's value before the run, or the new value where its assignment is visible."""
        pending = {id(effect.variable): effect.value for effect in self._pending if effect.value is not None}
        for values_by_id in reversed([*self._visible, pending]):  # the innermost block first
            if id(variable) in values_by_id:
                return values_by_id[id(variable)].alias()
        return super().read_variable(variable)

    def read_before(self, variable: Any, value: SymbolicTensor) -> SymbolicTensor:
        return self.read_variable(variable)

    def _last_assigned(self, variables: Iterable[relax.Var]) -> dict[int, Effect]:
        """Returns the last assignment to each tf.Variable among those that run before the bindings ``variables``.

        The result maps the id of a tf.Variable to the assignment.
        """
        latest: dict[int, Effect] = {}
        for var in variables:
            for variable_id, effect in self._assigned_before.get(var, {}).items():
                other = latest.get(variable_id)
                if other is None or other.number < effect.number:  # effects are numbered in program order
                    latest[variable_id] = effect
        return latest

    def _note_assignment(self, var: relax.Var, effect: Effect) -> None:
        self._assigned_before[var] = {**self._assigned_before.get(var, {}), id(effect.variable): effect}

    def seeing_assignments_before(self, tensors: Iterable[Any]) -> AbstractContextManager[Any]:
        return self._seeing(list(self._last_assigned(getattr(tensor, "_var", None) for tensor in tensors).values()))

    @property
    def required(self) -> Sequence[Effect]:
        """The effects that run before everything that is created now."""
        return self._required

    def waits_for(self, control_inputs: Sequence[Any]) -> None:
        """Makes the ops of a traced branch or body, and the op that it belongs to, run after these."""
        self._pending += [effect for x in control_inputs for effect in self._required_outside(x)]

    def _required_outside(self, value: Any) -> Sequence[Effect]:
        inner = isinstance(value, SymbolicTensor) and value._trace is not self
        return () if inner else self.required_by(value)

    def _capture_symbol(self, tensor: SymbolicTensor) -> SymbolicTensor:
        first = next(iter(self.graph.tensors.values()), None)
        raise ValueError(f"{tensor} must be from the same graph as {'the others' if first is None else first}.")

    @contextmanager
    def after(self, control_inputs: Sequence[Any]) -> Iterator[None]:
        """Adds control dependencies: ops in the ``with`` block run after ``control_inputs``.

        The ops see the values that the control inputs assign to variables.
        """
        outer_required = self._required
        effects: list[Effect] = []
        for control_input in control_inputs:
            effects += self.required_by(control_input)
        self._required = [*outer_required, *effects]
        earlier_assignments = self._last_assigned(effect.var for effect in effects).values()
        try:
            with self._seeing([*earlier_assignments, *effects]):
                yield
        finally:
            self._required = outer_required

    @contextmanager
    def _seeing(self, effects: Sequence[Effect]) -> Iterator[dict[int, SymbolicTensor]]:
        """Makes reads of Variables in the ``with`` block return the values that the assignments in ``effects`` assign.

        Yields the assigned values by the Variables' ids.
        """
        self._visible.append({id(effect.variable): effect.value for effect in effects if effect.value is not None})
        try:
            yield self._visible[-1]
        finally:
            self._visible.pop()

    @contextmanager
    def together(self, *values: Any) -> Iterator[None]:
        """Groups the effects of the ``with`` block: all of them run, or none.

        They run if any tensor of the block or of ``values`` is computed.
        """
        first_binding, first_effect = len(self.bindings), len(self.effects)
        yield
        new_effects = self.effects[first_effect:]
        new_vars = [binding.var for binding in self.bindings[first_binding:]]
        for var in [*(value._var for value in values), *new_vars]:
            self.implied[var] = [*self.implied.get(var, ()), *new_effects]
            for effect in new_effects:
                if effect.variable is not None:
                    self._note_assignment(var, effect)

    @contextmanager
    def one_operation(self) -> Iterator[list[Effect]]:
        """Collects the effects of the ``with`` block for a single op. Reads in the block see the block's assignments.

        Yields a list that is filled when the block ends.
        """
        first_effect = len(self.effects)
        outer_assignments = self._own_assignments
        collected: list[Effect] = []
        try:
            with self._seeing(()) as self._own_assignments:
                yield collected
        finally:
            self._own_assignments = outer_assignments
        collected += self.effects[first_effect:]

    def operation(self, kind: str, name: str | None, inputs: Any) -> Operation:
        return Operation(
            kind, name, self.graph, [effect for x in nest.flatten(inputs) for effect in self.required_by(x)]
        )

    def doing(self, kind: str, name: str | None, work: Callable[[], Any]) -> Operation:
        with self.without_op_names(), self.one_operation() as effects:
            work()
        return Operation(kind, name, self.graph, effects)

    def effects_of(self, value: Any) -> Sequence[Effect]:
        """Returns the effects of running a tensor or an op, besides computing it."""
        if isinstance(value, AnyOperation):
            return getattr(value, "effects", ())
        return [*(effect for effect in self.effects if effect.var == value._var), *self.implied.get(value._var, ())]

    def required_by(self, value: Any) -> Sequence[Effect]:
        """Returns the effects that must run before an op with a control dependency on a tensor or op.

        For a tensor without effects, this is only the computation of the tensor.
        """
        if isinstance(value, (Variable, EagerTensor)) or value is None:
            return ()
        effects = self.effects_of(value)
        return effects if effects or isinstance(value, AnyOperation) else [Effect(value._var)]


def _leaves(value: Any) -> list[Any]:
    """Returns the values in nested lists, tuples and dicts; unlike ``nest.flatten`` it does not sort keys."""
    if isinstance(value, dict):
        return [x for each in (*value, *value.values()) for x in _leaves(each)]
    return [x for each in value for x in _leaves(each)] if isinstance(value, (list, tuple)) else [value]


_OPERATORS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "truediv": "truediv",
    "pow": "pow",
    "floordiv": "floordiv",
    "floormod": "mod",
    "matmul": "matmul",
    "strided_slice": "strided_slice",
    "getitem": "strided_slice",
    "slice": "strided_slice",
}


def _operator_name(prim: Any) -> str:
    """Returns TensorFlow's name of an operator's op."""
    callee_name = str(getattr(prim, "name", None) or getattr(prim, "__name__", ""))
    op_name = _OPERATORS.get(callee_name) or getattr(prim, "tf_name", None) or callee_name
    return str(op_name).removesuffix("V2")


def _callee_of(trace: Trace, prim: Any, attrs: dict[str, Any]) -> Any:
    """Returns the function of a deferred call; another primitive itself."""
    function = getattr((trace.specialization.deferred or {}).get(attrs.get("key", -1)), "function", prim)
    return getattr(function, "__self__", function)


@export("Graph")
class Graph(metaclass=ABCMeta):  # noqa: B024 - for its register()
    """A graph to run in a ``Session``; a function's graph is ``fn.get_concrete_function(...).graph``.

    >>> import tvtf as tf
    >>> graph = tf.Graph()
    >>> with graph.as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [2])
    ...     y = x * 2.0
    >>> with tf.compat.v1.Session(graph=graph) as session:
    ...     print(session.run(y, {x: [1.0, 2.0]}))
    [2. 4.]

    Source: https://www.tensorflow.org/api_docs/python/tf/Graph
    """

    def __init__(self) -> None:
        """Creates an empty graph."""
        self.trace = GraphTrace(self)
        self.records = _Records()
        self.placeholders: dict[relax.Var, SymbolicTensor] = {}
        self.variables: dict[int, tuple[Variable, SymbolicTensor]] = {}
        """The variables by identity, each with its initial value."""
        self.tensors: dict[str, Any] = {}
        self.operations: dict[str, Operation] = {}
        self.collections: dict[Any, list[Any]] = {}
        self.variable_scope: Any = None
        """The current variable scope, if there is one."""
        self.scope_counts: dict[str, int] = {}
        self.seed: int | None = None
        self.finalized = False
        self.building_function = False
        self._used: dict[str, int] = {}
        self._scopes: list[str] = []

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Makes this graph the default graph in the ``with`` block: ops are added to it, and it records gradients."""
        outer_trace, outer_tapes, outer_scopes = state.trace, state.tapes, state.name_scopes
        if state.trace is not self.trace:
            state.name_scopes = self._scopes
        # Inside a block of the same graph, the active tapes record already.
        is_recording = any(tape is self.records for tape in outer_tapes)
        state.trace = self.trace
        state.tapes = outer_tapes if is_recording else [self.records]
        try:
            yield self
        except UnknownRank as error:
            raise rank_error(error) from error
        finally:
            state.trace, state.tapes, state.name_scopes = outer_trace, outer_tapes, outer_scopes

    # -- names

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Returns a full name that no op has: ``name`` with the current name scope as prefix, such as ``scope/name``.

        A number is added if that name is in use: ``scope/name_1``.
        """
        full_name = "/".join([*state.name_scopes, name])
        key = full_name.lower()  # names that differ in case only count as equal
        count = self._used.get(key, 0)
        if mark_as_used:
            self._used[key] = count + 1
        if not count:
            return full_name
        while f"{key}_{count}" in self._used:
            count += 1
        if mark_as_used:
            self._used[f"{key}_{count}"] = 1
        return f"{full_name}_{count}"

    def add(self, operation: Operation) -> None:
        """Adds an op to the graph, and names its outputs, such as ``add:0`` and ``add:1``.

        Raises RuntimeError if the graph is finalized.
        """
        if self.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        self.operations[operation.name] = operation
        for index, tensor in enumerate(operation.outputs):
            self.tensors[f"{operation.name}:{index}"] = tensor
            self.trace.names[tensor._var] = f"{operation.name}:{index}"

    def scope_of(self, name: str | None) -> list[str]:
        """Returns the nested name scopes, outermost first, that ``name_scope(name)`` enters.

        Without a name, the list is empty. A name that ends in a slash is a full name. Neither the current
        scope nor a number is added to a full name.

        Raises:
          ValueError: the name is not valid for a scope.
        """
        _check_scope(name or "", inner=bool(state.name_scopes))
        if not name:
            return []
        full_name = name.rstrip("/") if name.endswith("/") else self.unique_name(name)
        return full_name.split("/")

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefixes the names of ops in the ``with`` block. A repeated name has a number appended, unless it ends in a slash."""
        outer_scopes, state.name_scopes = state.name_scopes, self.scope_of(name)
        try:
            yield current_scope()
        finally:
            state.name_scopes = outer_scopes

    def get_operations(self) -> list[Operation]:
        """Returns the ops in the order in which they were added."""
        return list(self.operations.values())

    def _get_control_flow_context(self) -> None:
        """Returns None, as TensorFlow does for functional control flow; libraries call this method."""
        return

    def get_operation_by_name(self, name: str) -> Operation:
        """Returns an op. Raises KeyError if there is none of this name."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)  # type: ignore[no-any-return]

    def get_tensor_by_name(self, name: str) -> Any:
        """Returns a tensor. Raises KeyError if there is none of this name, ValueError if it is not a tensor's name."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """Returns the tensor or op that has the name ``obj``. An object that is not a string is returned unchanged.

        Raises:
          KeyError: the graph has no such name.
          ValueError: the name is that of a tensor or op, which ``allow_tensor`` or ``allow_operation`` forbids.
        """
        if not isinstance(obj, str):
            return obj
        if ":" in obj:  # tensors are named "<op>:<output index>"
            return self._tensor_by_name(obj, allow_tensor)
        operation = self.operations.get(obj)
        if not allow_operation:
            reason = "looks like an (invalid) Operation name"
            if operation is not None:
                reason = "refers to an Operation, not a Tensor"
            raise ValueError(f'The name {obj!r} {reason}. Tensor names must be of the form "<op_name>:<output_index>".')
        if operation is None:
            raise KeyError(f"The name {obj!r} refers to an Operation not in the graph.")
        return operation

    def _tensor_by_name(self, name: str, allow_tensor: bool) -> Any:
        """Returns the tensor or variable that has a name of the form "<op>:<output index>".

        Raises:
          KeyError: the graph has no such tensor.
          ValueError: tensors are not allowed.
        """
        if not allow_tensor:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not an Operation.")
        by_name = {variable.name: variable for variable, _ in self.variables.values()} | self.tensors
        if name in by_name:
            return by_name[name]
        op = name.partition(":")[0]
        if op in self.operations:
            count = len(self.operations[op].outputs)
            reason = f"The operation, {op!r}, exists but only has {count} outputs."
        else:
            reason = f"The operation, {op!r}, does not exist in the graph."
        raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. {reason}")

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Returns a GraphDef message with the names, types and inputs of the ops.

        Raises:
          ImportError: the ``tensorboard`` extra is not installed.
        """
        graph_def = proto("compat.proto.graph_pb2").GraphDef()
        for operation in self.operations.values():
            inputs = [input_.name.removesuffix(":0") for input_ in operation.inputs]  # GraphDef omits the index 0
            graph_def.node.add(name=operation.name, op=operation.type, input=inputs, device=operation.device)
        return graph_def

    @property
    def version(self) -> int:
        return len(self.operations)

    def finalize(self) -> None:
        """Makes the graph read-only."""
        self.finalized = True

    def is_feedable(self, tensor: Any) -> bool:
        element = self.as_graph_element(tensor)
        return isinstance(element, SymbolicTensor) and not self.trace.determines_graph(element)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        return True

    @contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Same as ``tf.device``."""
        with public_names()["device"](device_name_or_function):
            yield

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Same as ``tf.control_dependencies``."""
        return public_names()["control_dependencies"](control_inputs)

    def become(self, other: Graph) -> None:
        """Makes this graph, which must be empty, share the content of another graph.

        Raises:
          NotImplementedError: this graph already has ops.
        """
        if self.operations:
            raise NotImplementedError("import a graph before ops are added to the one that takes it")
        outer_scopes = state.name_scopes
        vars(self).update(vars(other))
        if state.trace is not None:  # add further ops to the trace that this graph has now
            state.trace = self.trace
            state.tapes = [self.records]
            state.name_scopes = outer_scopes

    # -- collections

    def add_to_collection(self, name: Any, value: Any) -> None:
        self.collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Returns the collection itself."""
        return self.collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Returns a copy of a collection; with ``scope``, of the values whose names start with this pattern."""
        values = list(self.collections.get(name, ()))
        if scope is None:
            return values
        return [value for value in values if hasattr(value, "name") and re.match(scope, value.name)]

    def get_all_collection_keys(self) -> list[Any]:
        return [name for name in self.collections if isinstance(name, str)]

    def clear_collection(self, name: Any) -> None:
        self.collections.pop(name, None)

    def get_name_scope(self) -> str:
        """Returns the current name scope, without its last slash."""
        return current_scope().removesuffix("/")

    def placeholder(self, dtype: Any, shape: Any, name: str | None) -> SymbolicTensor:
        """Adds a placeholder op, and returns its output. Each run of the graph feeds a value for the output.

        Dims that are None are unknown.
        """
        base_name = name or "Placeholder"
        tensor = self.trace.add_param(TensorType(_dims(as_shape(shape), base_name), dtype), base_name)
        self.placeholders[tensor._var] = tensor
        Operation("Placeholder", base_name, self, outputs=[tensor])
        return tensor

    def add_variable(self, variable: Variable, initial_value: SymbolicTensor, name: str) -> None:
        """Adds a variable, and an op of its name, which must be unique."""
        Operation("VarHandleOp", name, self, is_unique=True)
        self.variables[id(variable)] = variable, initial_value

    def initializer(self, variables: Sequence[Variable], name: str) -> Operation:
        """Creates an op that assigns to each of the variables its initial value."""
        with self.as_default(), self.trace.one_operation() as effects:
            for variable in variables:
                _, initial_value = self.variables[id(variable)]
                new = bind.identity(initial_value)
                self.trace.effects.append(Effect(new._var, variable, new))
        return Operation("NoOp", name, self, effects)

    def gradients(
        self,
        ys: Sequence[Tensor],
        xs: Sequence[Any],
        grad_ys: Sequence[Any] | None,
        name: str,
        stop: Sequence[Any] = (),
    ) -> list[Any]:
        """Returns the gradients of the sum of ``ys`` with respect to each of ``xs``, as the outputs of one op.

        ``grad_ys`` are the gradients of ``ys``, by default ones. No gradient flows through the tensors in ``stop``.
        """
        with self.trace.without_op_names():
            if grad_ys is None:
                seeds = [ones_like(y) for y in ys]
            else:
                seeds = [convert_to_tensor(gradient) for gradient in grad_ys]
            gradients = sweep(self._records_without(stop), zip(ys, seeds), xs)
        self.trace.name_results(gradients, name, "Gradients", ys)
        return gradients

    def _records_without(self, stop: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the records, without those that compute the tensors in ``stop``."""
        stop_ids = {id(tensor) for tensor in stop}
        return tuple(record for record in self.records.records if not stop_ids or not _computes(record, stop_ids))


def _computes(record: Any, tensor_ids: Any) -> bool:
    """Returns whether a recorded op computes one of the tensors with these ids."""
    _, _, outputs, *_ = record
    return any(id(tensor) in tensor_ids for tensor in nest.flatten(outputs))


def _dims(shape: Any, name: str) -> Any:
    """Returns the dims of a placeholder: symbolic if unknown; for an unknown rank, example dims."""
    if shape.rank is None:
        return argument_shape(name, None)
    return tuple(fresh_dim(f"{name}_{i}") if dim is None else dim for i, dim in enumerate(shape))


def current_graph() -> Graph:
    """Returns the graph to which this thread adds ops.

    Raises:
      RuntimeError: the thread builds no graph, so ops run eagerly.
    """
    graph = getattr(state.trace and state.trace.root, "graph", None)
    if graph is None:
        raise RuntimeError("The op is not compatible with eager execution: build it in `with graph.as_default():`.")
    return graph  # type: ignore[no-any-return]


Graph.register(FinishedTrace)


class _Default:
    """The process's default graph."""

    graph = Graph()


class FunctionGraph(Graph):
    """The names, collections and seed of a traced function's graph; its ops are those of its trace."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.name, self.building_function, self.seed = trace.name, True, seeds.seed
        self.outer_graph = graph_of(trace.parent)
        self._traced = trace

    def get_operations(self) -> list[Any]:
        return self._traced.operations()

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        yield self


def _check_scope(name: str, inner: bool) -> None:
    """Raises ValueError for a name that TensorFlow does not allow as a scope."""
    pattern = r"^[A-Za-z0-9_.\\/>-]*$" if inner else r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$"
    if name and not re.match(pattern, name):
        kind = "scope name" if inner else "root scope name"
        raise ValueError(f"'{name}' is not a valid {kind}. A {kind} has to match the following pattern: {pattern}")


def get_default_graph() -> Graph:
    """Returns the graph to which ops are added, or else the process's default graph."""
    return graph_of(state.trace)


def graph_of(trace: Any) -> Any:
    """Returns the ``Graph`` to which a trace belongs. Without a trace, returns the default graph of the process.

    The graph of a ``tf.function``'s trace is created on the first call.
    """
    if trace is None:
        return _Default.graph
    if isinstance(trace.root, GraphTrace):
        return trace.root.graph
    if not hasattr(trace, "graph"):
        trace.graph = FunctionGraph(trace)
    return trace.graph


def reset_default_graph() -> None:
    """Replaces the process's default graph by a new one.

    Raises:
      AssertionError: called inside ``with graph.as_default():``.
    """
    builds_default_graph = state.trace is _Default.graph.trace
    if state.trace is not None and not builds_default_graph:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _Default.graph = Graph()
    if builds_default_graph:
        build_by_default()


def build_by_default() -> None:
    """Adds this thread's ops to the process's default graph from now on, unless another graph is entered."""
    graph = _Default.graph
    state.trace = graph.trace
    state.tapes = [graph.records]
    state.name_scopes = []
