"""Graphs of TensorFlow 1: an open trace in which an assignment, or a print, is an op that runs when it is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tvm import relax

from tvtf.context import state
from tvtf.emit import Trace
from tvtf.ops.rules import ones_like
from tvtf.passes.autodiff import Recorder, sweep
from tvtf.primitive import Primitive
from tvtf.shape import TensorType, as_shape, fresh_dim
from tvtf.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.variable import ReadVariable, Variable


class Effect(NamedTuple):
    """What running an op does: an assignment, or a call with an effect of its own (``binding``)."""

    variable: Variable | None
    value: SymbolicTensor | None
    binding: relax.Var | None


class Operation:
    """An op without a value: running it does its effects.

    Source: https://www.tensorflow.org/api_docs/python/tf/Operation
    """

    def __init__(self, name: str, effects: Sequence[Effect], graph: Graph) -> None:
        self.name, self.effects, self.graph = name, tuple(effects), graph

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """In the session given, or the default one."""
        from tvtf.v1.session import current

        (session or current()).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type=NoOp>"


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

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.effects: list[Effect] = []
        self.depends: dict[relax.Var, list[Effect]] = {}
        self.controls: list[list[Effect]] = []
        self.seen: list[dict[int, SymbolicTensor]] = []
        self._made: tuple[Variable, SymbolicTensor] | None = None

    def emit(self, prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        first = len(self.bindings)
        result = super().emit(prim, inputs, attrs)
        required = [effect for controls in self.controls for effect in controls]
        for binding in self.bindings[first:]:
            self.depends[binding.var] = list(required)
        if self.bindings[first].value is not None and not _is_pure(self.bindings[first].value, prim):
            self.effects.append(Effect(None, None, self.bindings[first].var))
        return result

    def assign_variable(self, variable: Any, value: SymbolicTensor) -> None:
        new = self.own(value)
        self.effects.append(Effect(variable, new, None))
        if self.seen:
            self.seen[-1][id(variable)] = new
        self._made = (variable, new)

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """What ``assign`` returns is the new value; other reads see it only where they depend on it."""
        made, self._made = self._made, None
        if made is not None and made[0] is variable:
            return made[1]
        for seen in reversed(self.seen):
            if id(variable) in seen:
                return seen[id(variable)].alias()
        return super().read_variable(variable)

    @contextmanager
    def depending_on(self, effects: Sequence[Effect]) -> Iterator[None]:
        """What is made inside runs after the effects, and sees their assignments."""
        self.controls.append(list(effects))
        self.seen.append({id(e.variable): e.value for e in effects if e.variable is not None and e.value is not None})
        try:
            yield
        finally:
            self.controls.pop()
            self.seen.pop()

    @contextmanager
    def one_operation(self) -> Iterator[list[Effect]]:
        """Collects the effects of what is written inside, which sees its own assignments."""
        first, found = len(self.effects), list[Effect]()
        self.seen.append({})
        try:
            yield found
        finally:
            self.seen.pop()
            self._made = None
            found += self.effects[first:]

    def effects_of(self, value: Any) -> list[Effect]:
        """What running a tensor or an op does besides computing it."""
        if isinstance(value, Operation):
            return list(value.effects)
        var = getattr(value, "_var", None)
        return [e for e in self.effects if var is not None and var in (e.binding, getattr(e.value, "_var", None))]


def _is_pure(value: Any, prim: Primitive[Any]) -> bool:
    return prim.pure and not value.op.name.startswith("tvtf.effect_")


class Graph:
    """A graph to be run in a ``Session``.

    >>> import tvtf as tf
    >>> graph = tf.compat.v1.Graph()
    >>> with graph.as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [2])
    ...     y = x * 2.0
    >>> with tf.compat.v1.Session(graph=graph) as session:
    ...     print(session.run(y, {x: [1.0, 2.0]}))
    [2. 4.]

    Source: https://www.tensorflow.org/api_docs/python/tf/Graph
    """

    def __init__(self) -> None:
        self.trace = GraphTrace("graph")
        self.trace.graph = self  # type: ignore[attr-defined]
        self.records = _Records()
        self.placeholders: dict[relax.Var, SymbolicTensor] = {}
        self.variables: list[tuple[Variable, SymbolicTensor]] = []
        self.tensors: dict[str, Any] = {}
        self.finalized = False

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Ops inside are added to the graph."""
        outer, tapes = state.trace, state.tapes
        state.trace, state.tapes = self.trace, [self.records]
        try:
            yield self
        finally:
            state.trace, state.tapes = outer, tapes

    def placeholder(self, dtype: Any, shape: Any, name: str | None) -> SymbolicTensor:
        dims = as_shape(shape)
        if dims.rank is None:
            raise ValueError("give the placeholder's shape, [] for a scalar and None for a dim that is not known")
        chosen = name or "Placeholder"
        known = tuple(fresh_dim(f"{chosen}_{i}") if d is None else d for i, d in enumerate(dims))
        made = self.trace.add_param(TensorType(known, dtype), chosen)
        self.placeholders[made._var] = made
        self.tensors[made.name] = made
        return made

    def named(self, name: str) -> Any:
        """A placeholder or variable by its name."""
        found = {v.name: v for v, _ in self.variables} | self.tensors
        if name not in found:
            raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The graph has {sorted(found)}.")
        return found[name]

    get_tensor_by_name = named

    def gradients(self, ys: Sequence[Tensor], xs: Sequence[Any], grad_ys: Sequence[Any] | None) -> list[Any]:
        seeds = [ones_like(y) for y in ys] if grad_ys is None else [convert_to_tensor(g) for g in grad_ys]
        return sweep(tuple(self.records.records), ys, seeds, xs)


def current_graph() -> Graph:
    """The graph that ops are added to.

    Raises:
      RuntimeError: ops are run eagerly.
    """
    graph = getattr(state.trace and state.trace.root, "graph", None)
    if graph is None:
        raise RuntimeError("The op is not compatible with eager execution: build it in `with graph.as_default():`.")
    return graph  # type: ignore[no-any-return]
