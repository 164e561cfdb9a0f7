"""Graphs of TensorFlow 1: an open trace in which an assignment, or a print, is an op that runs when it is fetched."""

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
from tvtf.core.deferred_shape import UnknownRank
from tvtf.core.graph_operation import Operation as AnyOperation
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import TensorType, as_shape, fresh_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.tensorboard_protos import proto
from tvtf.core.thread_state import state
from tvtf.frontend.function.deferred_call import argument_shape
from tvtf.frontend.function.polymorphic_function import unknown_rank
from tvtf.ir.dialect import read
from tvtf.ir.trace import Graph as FinishedTrace
from tvtf.ir.trace import Trace
from tvtf.ops.rules import bind, ones_like
from tvtf.passes.autodiff.reverse_mode import Recorder, sweep
from tvtf.state.module import current_scope
from tvtf.state.seeds import seeds
from tvtf.state.variable import ReadVariable, Variable

_numbers = itertools.count()


class Effect:
    """What running an op does besides giving values: an assignment, or a call with an effect of its own.

    ``var`` is computed for it. ``update`` is the call that makes the new value of the old one, where an assignment has one:
    what it reads is what the variable holds when it runs.
    """

    def __init__(
        self,
        var: relax.Var,
        variable: Variable | None = None,
        value: SymbolicTensor | None = None,
        update: relax.Var | None = None,
    ) -> None:
        self.var, self.variable, self.value, self.update = var, variable, value, update
        self.number = next(_numbers)


class Operation(AnyOperation):
    """An op of a graph: running it does its effects, and computes what it gives.

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
    ) -> None:
        self.type, self.name, self.graph = kind, graph.unique_name(name or kind), graph
        self._effects = (*graph.trace.required, *effects)
        self.outputs, self.inputs = list(outputs), list(inputs)
        self.control_inputs: list[Any] = []
        self.device = ""
        graph.add(self)

    @property
    def effects(self) -> Sequence[Effect]:
        """What has to run for it."""
        return [*self._effects, *(e for t in self.outputs for e in self.graph.trace.required_by(t))]

    @property
    def values(self) -> Any:
        return lambda: tuple(self.outputs)

    def get_attr(self, name: str) -> Any:
        """``dtype``, ``T`` or ``shape`` of what it gives.

        Raises:
          ValueError: it has no attribute of this name.
        """
        found = {"dtype": "dtype", "T": "dtype", "shape": "shape"}.get(name)
        if found is None or not self.outputs:
            raise ValueError(f"Operation {self.name!r} has no attr named {name!r}.")
        return getattr(self.outputs[0], found)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """In the session given, or the default one."""
        from tvtf.v1.session import current

        (session or current("Cannot execute operation using `run()`")).run(self, feed_dict)


class _Records(Recorder):
    """Everything the graph does: gradients are asked for when it is built."""

    watch_accessed_variables = True

    def watches(self, source: Any) -> bool:
        """No constants: nobody asks a graph for gradients by these."""
        return not isinstance(source, EagerTensor)

    def record(self, prim: Any, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
        self.active.update((id(x), x) for x in inputs)
        super().record(prim, inputs, outputs, attrs)

    def read(self, variable: Variable, tensor: Tensor) -> None:
        self.record(ReadVariable, (variable,), tensor, {})


class GraphTrace(Trace):
    """A trace whose assignments are seen only by what depends on them."""

    has_keys = True

    def __init__(self, graph: Graph) -> None:
        super().__init__("graph")
        self.graph = graph
        self.effects: list[Effect] = []
        """All of them, in the order of the program."""
        self.depends: dict[relax.Var, list[Effect]] = {}
        """By binding, what has to run before it."""
        self.implied: dict[relax.Var, list[Effect]] = {}
        """By binding or capture, what runs with it."""
        self._assigned_before: dict[relax.Var, dict[int, Effect]] = {}
        """By binding, the last assignment of each Variable that runs before it or with it."""
        self._required: list[Effect] = []
        self._seen: list[dict[int, SymbolicTensor]] = []
        self._own: dict[int, SymbolicTensor] | None = None
        self._updates: set[relax.Var] = set()
        self.names: dict[Any, str] = {}
        """Of tensors, by what they are in the IR."""
        self.is_naming = False
        self._pending: list[Effect] = []
        """What the op whose branch or body is being traced has to wait for."""

    def make_variable(self, *args: Any, **kwargs: Any) -> Any:
        """What ``tf.Variable`` makes in a graph: a Variable of it, which its initializer gives the value."""
        from tvtf.v1.variables import variable_of_graph  # it is built on graphs

        return variable_of_graph(*args, **kwargs)

    # -- names

    def named_call(self, function: Any, args: Any, kwargs: Any, default: str, kind: str) -> Any:
        """A call of a public function, whose results are outputs of one op of the graph."""
        if self.is_naming:
            return function(*args, **kwargs)
        with self.unnamed():
            result = function(*args, **kwargs)
            if kwargs.get("name") and isinstance(result, EagerTensor) and all(result is not x for x in _leaves(args)):
                result = self.own_constant(result)
        self.name_results(result, kwargs.get("name") or default, kind, (args, kwargs))
        return result

    @contextmanager
    def unnamed(self) -> Iterator[None]:
        """What is made inside gets no names of its own."""
        outer, self.is_naming = self.is_naming, True
        try:
            yield
        finally:
            self.is_naming = outer

    def name_results(self, result: Any, name: str, kind: str, given: Any = ()) -> None:
        """Makes the tensors that ``result`` has, if they are new, outputs of a new op."""
        leaves = nest.flatten(result, expand_composites=True)
        tensors = [t for t in leaves if isinstance(t, SymbolicTensor) and t._trace is self and t._var not in self.names]
        if tensors:
            inputs = [t for t in _leaves(given) if isinstance(t, SymbolicTensor)]
            Operation(kind, name, self.graph, outputs=tensors, inputs=inputs)

    def known_value(self, tensor: SymbolicTensor) -> Any:
        """The value of a constant as an eager tensor; None where running tells it."""
        for outer, inner in self.captures.values():
            if inner._var.same_as(tensor._var):
                return outer if isinstance(outer, EagerTensor) else None
        found = static_value(tensor)
        return None if found is None else EagerTensor(np.array(found))

    def name_of(self, tensor: SymbolicTensor) -> str:
        return self.names.get(tensor._var) or f"{getattr(tensor._var, 'name', 'Const')}:0"

    def operation_of(self, tensor: SymbolicTensor) -> AnyOperation:
        """The op that gives a tensor; made where it has no name yet."""
        if tensor._var not in self.names:
            Operation("Identity", getattr(tensor._var, "name", "Const"), self.graph, outputs=[tensor])
        return self.graph.operations[self.names[tensor._var].partition(":")[0]]

    def evaluate(self, tensor: SymbolicTensor, feed_dict: Any, session: Any) -> Any:
        from tvtf.v1.session import current

        return (session or current("Cannot evaluate tensor using `eval()`")).run(tensor, feed_dict)

    def emit(self, prim: Any, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = super().emit(prim, inputs, attrs)
        if not self.is_naming:
            done = _waiting_for(self, prim, attrs)
            self.name_results(result, _operator_name(done), getattr(done, "tf_name", prim.tf_name), inputs)
        return result

    def own_constant(self, tensor: Any, name: str | None = None) -> Tensor:
        made = super().own_constant(tensor)
        if not self.is_naming:
            self.name_results(made, name or "Const", "Const")
        return made

    # -- bindings

    def _bind(self, call: relax.Call, types: Any, name: str) -> Any:
        first = len(self.bindings)
        result = super()._bind(call, types, name)
        for binding in self.bindings[first:]:
            self.depends[binding.var] = [*self._required, *self._pending]
            used = [*relax.analysis.free_vars(binding.value), *(e.var for e in self.depends[binding.var])]
            self._assigned_before[binding.var] = self._last_assigned(used)
        self._pending = []
        if self._has_effects(read(call)):
            self.effects.append(Effect(self.bindings[first].var))
        return result

    def _has_effects(self, bound: Any) -> bool:
        """Whether a call does more than compute; one that waits for a rank does what its function does."""
        waiting = (self.root.waiting or {}).get(bound.attrs.get("key", -1))
        return not bound.primitive.pure if waiting is None else waiting.has_effects

    def updates(self, value: SymbolicTensor) -> None:
        self._updates.add(value._var)

    def assign_variable(self, variable: Any, value: SymbolicTensor, is_stored: bool = False) -> None:
        new, (_, source) = self.own(value), self.bindings[-1].value.args
        self.effects.append(Effect(new._var, variable, new, source if source in self._updates else None))
        self._note_assignment(new._var, self.effects[-1])
        if self._own is not None:
            self._own[id(variable)] = new

    def assigned_value(self, variable: Any, read_value: bool) -> Any:
        """The new value, which no other read sees; or the op that assigns it."""
        effect = self.effects[-1]
        if not read_value:
            return Operation("AssignVariableOp", None, self.graph, [effect])
        with self._seeing([effect]):
            return variable._as_tensor()

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """What it held before the run, or the new value where that is seen."""
        pending = {id(e.variable): e.value for e in self._pending if e.value is not None}
        for seen in reversed([*self._seen, pending]):
            if id(variable) in seen:
                return seen[id(variable)].alias()
        return super().read_variable(variable)

    def read_before(self, variable: Any, value: SymbolicTensor) -> SymbolicTensor:
        return self.read_variable(variable)

    def _last_assigned(self, variables: Iterable[relax.Var]) -> dict[int, Effect]:
        found: dict[int, Effect] = {}
        for var in variables:
            for key, effect in self._assigned_before.get(var, {}).items():
                known = found.get(key)
                found[key] = effect if known is None or known.number < effect.number else known
        return found

    def _note_assignment(self, var: relax.Var, effect: Effect) -> None:
        self._assigned_before[var] = {**self._assigned_before.get(var, {}), id(effect.variable): effect}

    def seeing_assignments_before(self, tensors: Iterable[Any]) -> AbstractContextManager[Any]:
        return self._seeing(list(self._last_assigned(getattr(t, "_var", None) for t in tensors).values()))

    @property
    def required(self) -> Sequence[Effect]:
        """What runs before all that is made now."""
        return self._required

    def waits_for(self, control_inputs: Sequence[Any]) -> None:
        """What is traced in a branch or body runs after these, and so does the op that it is of."""
        self._pending += [e for x in control_inputs for e in self._required_outside(x)]

    def _required_outside(self, value: Any) -> Sequence[Effect]:
        inner = isinstance(value, SymbolicTensor) and value._trace is not self
        return () if inner else self.required_by(value)

    def _capture_symbol(self, tensor: SymbolicTensor) -> SymbolicTensor:
        first = next(iter(self.graph.tensors.values()), None)
        raise ValueError(f"{tensor} must be from the same graph as {'the others' if first is None else first}.")

    @contextmanager
    def after(self, control_inputs: Sequence[Any]) -> Iterator[None]:
        """What is made inside runs after these, and sees their assignments."""
        outer, effects = self._required, [e for x in control_inputs for e in self.required_by(x)]
        self._required = [*outer, *effects]
        try:
            with self._seeing([*self._last_assigned(e.var for e in effects).values(), *effects]):
                yield
        finally:
            self._required = outer

    @contextmanager
    def _seeing(self, effects: Sequence[Effect]) -> Iterator[dict[int, SymbolicTensor]]:
        self._seen.append({id(e.variable): e.value for e in effects if e.value is not None})
        try:
            yield self._seen[-1]
        finally:
            self._seen.pop()

    @contextmanager
    def together(self, *values: Any) -> Iterator[None]:
        """What is written inside is one op: its effects run with any of its values, or of ``values``."""
        first, made = len(self.bindings), len(self.effects)
        yield
        for var in [*(v._var for v in values), *(b.var for b in self.bindings[first:])]:
            self.implied[var] = [*self.implied.get(var, ()), *self.effects[made:]]
            for effect in self.effects[made:]:
                if effect.variable is not None:
                    self._note_assignment(var, effect)

    @contextmanager
    def one_operation(self) -> Iterator[list[Effect]]:
        """Collects the effects of what is written inside, which sees its own assignments."""
        first, found, outer = len(self.effects), list[Effect](), self._own
        try:
            with self._seeing(()) as self._own:
                yield found
        finally:
            self._own = outer
        found += self.effects[first:]

    def operation(self, kind: str, name: str | None, inputs: Any) -> Operation:
        return Operation(kind, name, self.graph, [e for x in nest.flatten(inputs) for e in self.required_by(x)])

    def doing(self, kind: str, name: str | None, work: Callable[[], Any]) -> Operation:
        with self.unnamed(), self.one_operation() as effects:
            work()
        return Operation(kind, name, self.graph, effects)

    def effects_of(self, value: Any) -> Sequence[Effect]:
        """What running a tensor or an op does besides computing it."""
        if isinstance(value, AnyOperation):
            return getattr(value, "effects", ())
        return [*(e for e in self.effects if e.var == value._var), *self.implied.get(value._var, ())]

    def required_by(self, value: Any) -> Sequence[Effect]:
        """What has to run before what depends on a tensor or op: a tensor without effects is computed."""
        if isinstance(value, (Variable, EagerTensor)) or value is None:
            return ()
        found = self.effects_of(value)
        return found if found or isinstance(value, AnyOperation) else [Effect(value._var)]


def _leaves(value: Any) -> list[Any]:
    """What lies in lists, tuples and dicts, whose keys need have no order."""
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
    """What TensorFlow calls the op of an operator."""
    own = str(getattr(prim, "name", None) or getattr(prim, "__name__", ""))
    found = _OPERATORS.get(own) or getattr(prim, "tf_name", None) or own
    return str(found).removesuffix("V2")


def _waiting_for(trace: Trace, prim: Any, attrs: dict[str, Any]) -> Any:
    """The function whose call waits for a rank, where ``prim`` is such a call."""
    function = getattr((trace.root.waiting or {}).get(attrs.get("key", -1)), "function", prim)
    return getattr(function, "__self__", function)


@export("Graph")
class Graph(metaclass=ABCMeta):  # noqa: B024 - for its register()
    """A graph to be run in a ``Session``; that of a function is ``fn.get_concrete_function(...).graph``.

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
        self.trace = GraphTrace(self)
        self.records = _Records()
        self.placeholders: dict[relax.Var, SymbolicTensor] = {}
        self.variables: dict[int, tuple[Variable, SymbolicTensor]] = {}
        """By identity, each with its initial value."""
        self.tensors: dict[str, Any] = {}
        self.operations: dict[str, Operation] = {}
        self.collections: dict[Any, list[Any]] = {}
        self.variable_scope: Any = None
        """The scope in force, where one is."""
        self.scope_counts: dict[str, int] = {}
        self.seed: int | None = None
        self.finalized = False
        self.building_function = False
        self._used: dict[str, int] = {}
        self._scopes: list[str] = []

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Ops inside are added to the graph."""
        outer, tapes, scopes = state.trace, state.tapes, state.name_scopes
        if state.trace is not self.trace:
            state.name_scopes = self._scopes
        is_in_force = any(tape is self.records for tape in tapes)
        state.trace, state.tapes = self.trace, tapes if is_in_force else [self.records]
        try:
            yield self
        except UnknownRank as needed:
            raise unknown_rank(needed) from needed
        finally:
            state.trace, state.tapes, state.name_scopes = outer, tapes, scopes

    # -- names

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """``name`` in the name scope in force, with a number where it is taken."""
        whole = "/".join([*state.name_scopes, name])
        key = whole.lower()
        count = self._used.get(key, 0)
        if mark_as_used:
            self._used[key] = count + 1
        if not count:
            return whole
        while f"{key}_{count}" in self._used:
            count += 1
        if mark_as_used:
            self._used[f"{key}_{count}"] = 1
        return f"{whole}_{count}"

    def add(self, operation: Operation) -> None:
        """Raises RuntimeError where nothing may be added any more."""
        if self.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        self.operations[operation.name] = operation
        for index, tensor in enumerate(operation.outputs):
            self.tensors[f"{operation.name}:{index}"] = tensor
            self.trace.names[tensor._var] = f"{operation.name}:{index}"

    def scope_of(self, name: str | None) -> list[str]:
        """The scopes in force inside that of this name.

        Raises:
          ValueError: TensorFlow's names of ops can't begin so.
        """
        _check_scope(name or "", inner=bool(state.name_scopes))
        if not name:
            return []
        return (name.rstrip("/") if name.endswith("/") else self.unique_name(name)).split("/")

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefixes the names of the ops inside; one that was entered before gets a number, unless ``name`` ends in a slash."""
        outer, state.name_scopes = state.name_scopes, self.scope_of(name)
        try:
            yield current_scope()
        finally:
            state.name_scopes = outer

    def get_operations(self) -> list[Operation]:
        """The ops, in the order in which they were added."""
        return list(self.operations.values())

    def _get_control_flow_context(self) -> None:
        """None, as where control flow is functions, which libraries look for."""
        return

    def get_operation_by_name(self, name: str) -> Operation:
        """Raises KeyError where there is none of this name."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)  # type: ignore[no-any-return]

    def get_tensor_by_name(self, name: str) -> Any:
        """Raises KeyError where there is none of this name; ValueError where it is no tensor's."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """A tensor or op of the graph by its name; what is one already as it is.

        Raises:
          KeyError: there is none of this name; ValueError: a name of another form, or of another kind.
        """
        if not isinstance(obj, str):
            return obj
        if ":" in obj:
            return self._tensor_named(obj, allow_tensor)
        if not allow_operation:
            told = (
                "refers to an Operation, not a Tensor"
                if obj in self.operations
                else "looks like an (invalid) Operation name"
            )
            raise ValueError(f'The name {obj!r} {told}. Tensor names must be of the form "<op_name>:<output_index>".')
        if obj not in self.operations:
            raise KeyError(f"The name {obj!r} refers to an Operation not in the graph.")
        return self.operations[obj]

    def _tensor_named(self, name: str, allowed: bool) -> Any:
        if not allowed:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not an Operation.")
        found = {v.name: v for v, _ in self.variables.values()} | self.tensors
        if name in found:
            return found[name]
        op = name.partition(":")[0]
        if op in self.operations:
            count = len(self.operations[op].outputs)
            told = f"The operation, {op!r}, exists but only has {count} outputs."
        else:
            told = f"The operation, {op!r}, does not exist in the graph."
        raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. {told}")

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """A GraphDef message with the names, types and inputs of the ops.

        Raises:
          ImportError: without the ``tensorboard`` extra.
        """
        made = proto("compat.proto.graph_pb2").GraphDef()
        for operation in self.operations.values():
            inputs = [t.name.removesuffix(":0") for t in operation.inputs]
            made.node.add(name=operation.name, op=operation.type, input=inputs, device=operation.device)
        return made

    @property
    def version(self) -> int:
        return len(self.operations)

    def finalize(self) -> None:
        """Nothing can be added after it."""
        self.finalized = True

    def is_feedable(self, tensor: Any) -> bool:
        return isinstance(self.as_graph_element(tensor), SymbolicTensor)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        return True

    @contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """As ``tf.device``."""
        with public_names()["device"](device_name_or_function):
            yield

    def control_dependencies(self, control_inputs: Any) -> Any:
        """As ``tf.control_dependencies``."""
        return public_names()["control_dependencies"](control_inputs)

    def become(self, other: Graph) -> None:
        """Takes over all that another graph has.

        Raises:
          NotImplementedError: it has ops of its own.
        """
        if self.operations:
            raise NotImplementedError("import a graph before ops are added to the one that takes it")
        scopes = state.name_scopes
        vars(self).update(vars(other))
        if state.trace is not None:
            state.trace, state.tapes, state.name_scopes = self.trace, [self.records], scopes

    # -- collections

    def add_to_collection(self, name: Any, value: Any) -> None:
        self.collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The collection itself."""
        return self.collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of a collection; of those whose names match ``scope`` as a pattern from their start, where that is given."""
        found = list(self.collections.get(name, ()))
        return found if scope is None else [v for v in found if hasattr(v, "name") and re.match(scope, v.name)]

    def get_all_collection_keys(self) -> list[Any]:
        return [name for name in self.collections if isinstance(name, str)]

    def clear_collection(self, name: Any) -> None:
        self.collections.pop(name, None)

    def get_name_scope(self) -> str:
        """The name scope in force, without its last slash."""
        return current_scope().removesuffix("/")

    def placeholder(self, dtype: Any, shape: Any, name: str | None) -> SymbolicTensor:
        chosen = name or "Placeholder"
        made = self.trace.add_param(TensorType(_dims(as_shape(shape), chosen), dtype), chosen)
        self.placeholders[made._var] = made
        Operation("Placeholder", chosen, self, outputs=[made])
        return made

    def initializer(self, variables: Sequence[Variable], name: str) -> Operation:
        """The op that gives variables their initial values."""
        with self.as_default(), self.trace.one_operation() as effects:
            for variable in variables:
                new = bind.identity(self.variables[id(variable)][1])
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
        with self.trace.unnamed():
            seeds = [ones_like(y) for y in ys] if grad_ys is None else [convert_to_tensor(g) for g in grad_ys]
            found = sweep(self._records_without(stop), zip(ys, seeds), xs)
        self.trace.name_results(found, name, "Gradients", ys)
        return found

    def _records_without(self, stop: Sequence[Any]) -> tuple[Any, ...]:
        """The records, but for those that make what is taken to be constant."""
        cut = {id(t) for t in stop}
        return tuple(r for r in self.records.records if not cut or not _gives(r, cut))


def _gives(record: Any, cut: Any) -> bool:
    """Whether one of the tensors cut off comes of this record."""
    return any(id(t) in cut for t in nest.flatten(record[2]))


def _dims(shape: Any, name: str) -> Any:
    """Unknown dims are symbols; of an unknown rank are examples."""
    if shape.rank is None:
        return argument_shape(name, None)
    return tuple(fresh_dim(f"{name}_{i}") if d is None else d for i, d in enumerate(shape))


def current_graph() -> Graph:
    """The graph that ops are added to.

    Raises:
      RuntimeError: ops are run eagerly.
    """
    graph = getattr(state.trace and state.trace.root, "graph", None)
    if graph is None:
        raise RuntimeError("The op is not compatible with eager execution: build it in `with graph.as_default():`.")
    return graph  # type: ignore[no-any-return]


Graph.register(FinishedTrace)


class _Default:
    """The graph for all programs."""

    graph = Graph()


class FunctionGraph(Graph):
    """What a function that is traced has of a graph: names, collections, a seed. Its ops are those of its trace."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.name, self.building_function, self.seed = trace.name, True, seeds.seed
        self.outer_graph, self._traced = _graph_of(trace.parent), trace

    def get_operations(self) -> list[Any]:
        return self._traced.operations()

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        yield self


def _check_scope(name: str, inner: bool) -> None:
    """Raises ValueError where TensorFlow's names of ops can't begin so."""
    pattern = r"^[A-Za-z0-9_.\\/>-]*$" if inner else r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$"
    if name and not re.match(pattern, name):
        kind = "scope name" if inner else "root scope name"
        raise ValueError(f"'{name}' is not a valid {kind}. A {kind} has to match the following pattern: {pattern}")


def get_default_graph() -> Graph:
    """The graph that ops are added to, or one for all programs."""
    return _graph_of(state.trace)


def _graph_of(trace: Any) -> Any:
    if trace is None:
        return _Default.graph
    if isinstance(trace.root, GraphTrace):
        return trace.root.graph
    if not hasattr(trace, "graph"):
        trace.graph = FunctionGraph(trace)
    return trace.graph


def reset_default_graph() -> None:
    """A new graph for all programs.

    Raises:
      AssertionError: inside ``with graph.as_default():``.
    """
    by_default = state.trace is _Default.graph.trace
    if state.trace is not None and not by_default:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _Default.graph = Graph()
    if by_default:
        build_by_default()


def build_by_default() -> None:
    """From now on ops of this thread are added to the graph for all programs, where nothing says otherwise."""
    graph = _Default.graph
    state.trace, state.tapes, state.name_scopes = graph.trace, [graph.records], []
