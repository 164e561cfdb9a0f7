"""Running what a graph's fetches need: cut out of the graph, compiled, and kept for the next run of the same fetches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from tvtf import nest
from tvtf.context import state
from tvtf.emit import Graph as Function
from tvtf.emit import Trace
from tvtf.errors import FailedPreconditionError, InvalidArgumentError
from tvtf.frontend.compiled import GraphFunction
from tvtf.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.v1.graph import Effect, Graph, Operation
from tvtf.variable import Variable

_sessions: list[Session] = []


def current() -> Session:
    """The session whose ``with`` is around.

    Raises:
      ValueError: there is none.
    """
    if not _sessions:
        raise ValueError("Cannot evaluate: No default session is registered. Use `with sess.as_default()`.")
    return _sessions[-1]


class _Part:
    """What one set of fetches and feeds needs of a graph, as a compiled function of feeds and variables."""

    def __init__(
        self, graph: Graph, tensors: Sequence[SymbolicTensor], effects: Sequence[Effect], fed: Iterable[relax.Var]
    ) -> None:
        self.graph, self.fed = graph, set(fed)
        self.effects = [e for e in effects if e.variable is not None]
        wanted = [t._var for t in tensors] + [e.value._var for e in self.effects if e.value is not None]
        self.needed = self._needed(wanted + [e.binding for e in effects if e.binding is not None])
        trace = graph.trace
        self.feeds = [v for v in self.fed if v in self.needed]
        self.captures = [(outer, inner) for outer, inner in trace.captures.values() if inner._var in self.needed]
        self.missing = [p for v, p in graph.placeholders.items() if v in self.needed and v not in self.fed]
        self.function = None if self.missing else GraphFunction(self._cut(tensors))
        self.count = len(tensors)

    def _needed(self, wanted: Sequence[relax.Var]) -> set[relax.Var]:
        """Back over what each binding uses, and the effects that it was made to come after."""
        made = {b.var: b.value for b in self.graph.trace.bindings}
        found: set[relax.Var] = set()
        waiting = list(wanted)
        while waiting:
            var = waiting.pop()
            if var in found or not isinstance(var, relax.Var):
                continue
            found.add(var)
            if var not in self.fed and var in made:
                waiting.extend(relax.analysis.free_vars(made[var]))
                waiting.extend(v for e in self.graph.trace.depends.get(var, ()) for v in self._vars(e))
        return found

    def _vars(self, effect: Effect) -> list[relax.Var]:
        if effect.variable is not None and effect not in self.effects:
            self.effects.append(effect)
        return [v for v in (effect.binding, getattr(effect.value, "_var", None)) if v is not None]

    def _cut(self, tensors: Sequence[SymbolicTensor]) -> Function:
        whole = self.graph.trace
        part = Trace("run")
        part.params = [_symbol(v, whole) for v in self.feeds]
        part.captures = {id(outer): (outer, inner) for outer, inner in self.captures}
        part.bindings = [b for b in whole.bindings if b.var in self.needed and b.var not in self.fed]
        part.subgraphs, part.assumptions, part.holds_texts = whole.subgraphs, whole.assumptions, whole.holds_texts
        part.pure = not any(e.binding in self.needed for e in whole.effects if e.binding is not None)
        values = [e.value for e in self.effects if e.value is not None]
        return Function(part, [*tensors, *values])


def _symbol(var: relax.Var, trace: Trace | None) -> SymbolicTensor:
    from tvtf import dialect

    return SymbolicTensor(var, dialect.from_relax_type(var.ty), trace)


class Session:
    """Runs a graph; each session has the variables' values for itself.

    Args:
      graph: the graph, by default the one that ops are added to.
      target, config: accepted.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/Session
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        from tvtf.v1.names import get_default_graph

        self.graph = get_default_graph() if graph is None else graph
        self._values: dict[int, EagerTensor] = {}
        self._parts: dict[Any, _Part] = {}
        self._closed = False

    def __enter__(self) -> Session:
        _sessions.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _sessions.remove(self)
        self.close()

    as_default = __enter__

    def close(self) -> None:
        """It can't run anything after this."""
        self._closed = True

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """The values of ``fetches``, a nest of tensors, ops, variables and names, in its form.

        Args:
          feed_dict: values by placeholder, or by any tensor, which is not computed then.

        Returns:
          NumPy values; None for an op.

        Raises:
          InvalidArgumentError: a placeholder that is needed is not fed.
          FailedPreconditionError: a variable that is needed is not initialized.
          ValueError: a value does not fit.
          TypeError: a fetch is nothing of the graph.
          RuntimeError: the session is closed.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        outer, state.trace = state.trace, None
        try:
            return self._run(fetches, {self._fed(k): v for k, v in (feed_dict or {}).items()})
        finally:
            state.trace = outer

    def _run(self, fetches: Any, feeds: dict[Any, Any]) -> Any:
        flat = [self._fetch(f) for f in nest.flatten(fetches)]
        tensors = [f for f in flat if isinstance(f, SymbolicTensor)]
        part = self._part(flat, tensors, feeds)
        found = iter(self._computed(part, feeds))
        values = [next(found).numpy() if isinstance(f, Tensor) else None for f in flat]
        for effect, value in zip(part.effects, found):
            self._values[id(effect.variable)] = value
        return nest.pack_sequence_as(fetches, values) if nest.is_nested(fetches) else values[0]

    def _fetch(self, fetch: Any) -> Any:
        found = self.graph.named(fetch) if isinstance(fetch, str) else fetch
        if isinstance(found, Variable):
            with self.graph.as_default():
                return self.graph.trace.read_variable(found)
        if not isinstance(found, (SymbolicTensor, Operation)):
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)}, must be a string or Tensor.")
        return found

    def _part(self, flat: Sequence[Any], tensors: Sequence[SymbolicTensor], feeds: dict[Any, Any]) -> _Part:
        key = tuple(id(f) if isinstance(f, Operation) else f._var for f in flat), frozenset(feeds)
        if key not in self._parts:
            trace = self.graph.trace
            effects = [e for f in flat for e in trace.effects_of(f)]
            self._parts[key] = _Part(self.graph, tensors, effects, feeds)
        part = self._parts[key]
        for placeholder in part.missing:
            name = placeholder._var.name
            shape = ",".join("?" if d is None else str(d) for d in placeholder.shape)
            raise InvalidArgumentError(
                None,
                name,
                f"You must feed a value for placeholder tensor '{name}' with dtype {placeholder.dtype.name} and shape [{shape}]",
            )
        return part

    def _computed(self, part: _Part, feeds: dict[Any, Any]) -> tuple[EagerTensor, ...]:
        given = [_value(var, feeds[var]) for var in part.feeds]
        captured = [self._value_of(outer) for outer, _ in part.captures]
        assert part.function is not None  # noqa: S101 - what was missing is refused before
        return part.function.run([*given, *captured])

    def _value_of(self, captured: Any) -> Any:
        if not isinstance(captured, Variable):
            return captured
        value = self._values.get(id(captured))
        if value is None and any(v is captured for v, _ in self.graph.variables):
            raise FailedPreconditionError(
                None, None, f"Attempting to use uninitialized value {captured.name.removesuffix(':0')}"
            )
        return EagerTensor(np.array(captured.numpy())) if value is None else value

    def _fed(self, key: Any) -> relax.Var:
        tensor = self.graph.named(key) if isinstance(key, str) else key
        if not isinstance(tensor, SymbolicTensor) or not self.graph.trace.owns(tensor):
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {key!r} is no tensor of this graph.")
        return tensor._var


def _value(var: relax.Var, given: Any) -> EagerTensor:
    """A fed value: an array, a Python value or an eager tensor.

    Raises:
      ValueError: its shape does not fit.
    """
    from tvtf import dialect

    wanted = dialect.from_relax_type(var.ty)
    tensor = convert_to_tensor(
        np.asarray(given, wanted.dtype.np)
        if not isinstance(given, Tensor) and wanted.dtype.name != "string"
        else given,
        wanted.dtype,
    )
    fits = len(tensor.shape) == len(wanted.shape) and all(
        isinstance(w, tirx.Var) or n == w for n, w in zip(tensor.shape, wanted.shape)
    )
    if not fits:
        raise ValueError(
            f"Cannot feed value of shape {tensor.shape} for Tensor {var.name}:0, which has shape {_symbol(var, None).shape}"
        )
    return tensor  # type: ignore[return-value]
