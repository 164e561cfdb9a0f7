"""Graphs of TensorFlow 1: an open trace in which an assignment, or a print, is an op that runs when it is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import relax

from tvtf import nest
from tvtf.anyrank import UnknownRank
from tvtf.context import state
from tvtf.dialect import read
from tvtf.emit import Trace
from tvtf.frontend.function import unknown_rank
from tvtf.frontend.waiting import argument_shape
from tvtf.module import current_scope, name_scope
from tvtf.operation import Operation as AnyOperation
from tvtf.ops.rules import bind, ones_like
from tvtf.passes.autodiff import Recorder, sweep
from tvtf.primitive import export
from tvtf.shape import TensorType, as_shape, fresh_dim
from tvtf.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.variable import ReadVariable, Variable


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


class Operation(AnyOperation):
    """An op without a value: running it does its effects.

    Source: https://www.tensorflow.org/api_docs/python/tf/Operation
    """

    def __init__(self, kind: str, name: str | None, graph: Graph, effects: Sequence[Effect]) -> None:
        self.type, self.name, self.graph = kind, graph.trace.unique(name or kind), graph
        self.effects, self.outputs = tuple(effects), []

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """In the session given, or the default one."""
        from tvtf.v1.session import current

        (session or current()).run(self, feed_dict)


class _Records(Recorder):
    """Everything the graph does: gradients are asked for when it is built."""

    watch_accessed_variables = True

    def watches(self, source: Any) -> bool:
        return True

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
        self._required: list[Effect] = []
        self._seen: list[dict[int, SymbolicTensor]] = []
        self._own: dict[int, SymbolicTensor] | None = None
        self._updates: set[relax.Var] = set()

    def _bind(self, call: relax.Call, types: Any, name: str) -> Any:
        first = len(self.bindings)
        result = super()._bind(call, types, name)
        for binding in self.bindings[first:]:
            self.depends[binding.var] = list(self._required)
        if not read(call).primitive.pure:
            self.effects.append(Effect(self.bindings[first].var))
        return result

    def updates(self, value: SymbolicTensor) -> None:
        self._updates.add(value._var)

    def assign_variable(self, variable: Any, value: SymbolicTensor) -> None:
        new, (_, source) = self.own(value), self.bindings[-1].value.args
        self.effects.append(Effect(new._var, variable, new, source if source in self._updates else None))
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
        for seen in reversed(self._seen):
            if id(variable) in seen:
                return seen[id(variable)].alias()
        return super().read_variable(variable)

    @contextmanager
    def after(self, control_inputs: Sequence[Any]) -> Iterator[None]:
        """What is made inside runs after these, and sees their assignments."""
        outer, effects = self._required, [e for x in control_inputs for e in self.required_by(x)]
        self._required = [*outer, *effects]
        try:
            with self._seeing(effects):
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

    def effects_of(self, value: Any) -> Sequence[Effect]:
        """What running a tensor or an op does besides computing it."""
        if isinstance(value, AnyOperation):
            return getattr(value, "effects", ())
        return [*(e for e in self.effects if e.var == value._var), *self.implied.get(value._var, ())]

    def required_by(self, value: Any) -> Sequence[Effect]:
        """What has to run before what depends on a tensor or op: a tensor without effects is computed."""
        if isinstance(value, Variable) or value is None:
            return ()
        found = self.effects_of(value)
        return found if found or isinstance(value, AnyOperation) else [Effect(value._var)]


@export("Graph")
class Graph:
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

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Ops inside are added to the graph."""
        outer, tapes = state.trace, state.tapes
        state.trace, state.tapes = self.trace, [self.records]
        try:
            yield self
        except UnknownRank as needed:
            raise unknown_rank(needed) from needed
        finally:
            state.trace, state.tapes = outer, tapes

    def name_scope(self, name: str | None) -> Any:
        """As ``tf.name_scope``."""
        return name_scope(name or "")

    def get_name_scope(self) -> str:
        """The name scope in force, without its last slash."""
        return current_scope().removesuffix("/")

    def placeholder(self, dtype: Any, shape: Any, name: str | None) -> SymbolicTensor:
        chosen = name or "Placeholder"
        made = self.trace.add_param(TensorType(_dims(as_shape(shape), chosen), dtype), chosen)
        self.placeholders[made._var] = made
        self.tensors[made.name] = made
        return made

    def initializer(self, variables: Sequence[Variable], name: str) -> Operation:
        """The op that gives variables their initial values."""
        with self.as_default(), self.trace.one_operation() as effects:
            for variable in variables:
                new = bind.identity(self.variables[id(variable)][1])
                self.trace.effects.append(Effect(new._var, variable, new))
        return Operation("NoOp", name, self, effects)

    def named(self, name: str) -> Any:
        """A placeholder or variable by its name."""
        found = {v.name: v for v, _ in self.variables.values()} | self.tensors
        if name not in found:
            raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The graph has {sorted(found)}.")
        return found[name]

    get_tensor_by_name = named

    def gradients(self, ys: Sequence[Tensor], xs: Sequence[Any], grad_ys: Sequence[Any] | None) -> list[Any]:
        seeds = [ones_like(y) for y in ys] if grad_ys is None else [convert_to_tensor(g) for g in grad_ys]
        return sweep(tuple(self.records.records), zip(ys, seeds), xs)


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
    trace = state.trace and state.trace.root
    if not isinstance(trace, GraphTrace):
        raise RuntimeError("The op is not compatible with eager execution: build it in `with graph.as_default():`.")
    return trace.graph


_default = Graph()


def get_default_graph() -> Graph:
    """The graph that ops are added to, or one for all programs."""
    return _default if state.trace is None else current_graph()
