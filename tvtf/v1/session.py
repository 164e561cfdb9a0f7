"""Running what a graph's fetches need: cut out of the graph, compiled, and kept for the next run of the same fetches."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from tvm import relax

from tvtf.core import nest
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import as_tuple, public_names
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import cached_property
from tvtf.dtypes import string
from tvtf.errors import FailedPreconditionError, InvalidArgumentError
from tvtf.frontend.function.deferred_call import calls
from tvtf.frontend.function.executor import GraphFunction
from tvtf.frontend.host.host_rank import Assignments, Learning, PythonCall, remembered
from tvtf.ir.dialect import is_dialect, read, write
from tvtf.ir.interpreter import Evaluation, Instance, evaluate
from tvtf.ir.trace import Graph as Function
from tvtf.ir.trace import Trace, trace_graph
from tvtf.passes.analysis.dead_code import makers_for, makers_of_dims
from tvtf.state.variable import Variable
from tvtf.v1.composites import fetched
from tvtf.v1.graph import Effect, Graph, get_default_graph


class _Defaults(threading.local):
    """The thread's default sessions, the innermost last."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.running: list[Session] = []


_defaults = _Defaults()


def get_default_session() -> Session | None:
    """The session whose ``with`` is around; None where there is none."""
    return _defaults.sessions[-1] if _defaults.sessions else None


def current(cannot: str) -> Session:
    """The session whose ``with`` is around.

    Raises:
      ValueError: there is none; it ``cannot``.
    """
    found = get_default_session()
    if found is None:
        how, colon = ("eval", "") if "eval" in cannot else ("run", ":")
        raise ValueError(
            f"{cannot}: No default session is registered. Use `with sess.as_default(){colon}` or pass an explicit session to "
            f"`{how}(session=sess)`"
        )
    return found


def running() -> Session:
    """The session that runs in this thread."""
    return _defaults.running[-1]


class _Part:
    """What one set of fetches and feeds needs of a graph, as a compiled function of feeds and variables."""

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[SymbolicTensor],
        effects: Sequence[Effect],
        fed: Mapping[relax.Var, SymbolicTensor],
    ) -> None:
        trace = graph.trace
        self.graph, self.tensors, self.fed = graph, tensors, fed
        self.ran: set[Effect] = set()
        self.needed = self._needed([t._var for t in tensors], effects)
        self.effects = [e for e in trace.effects if e in self.ran and e.variable is not None]
        self.feeds = [t for v, t in fed.items() if v in self.needed]
        self.captures = [(outer, inner) for outer, inner in trace.captures.values() if inner._var in self.needed]
        self.missing = [p for v, p in graph.placeholders.items() if v in self.needed and v not in fed]
        self._of_ranks: dict[tuple[int, ...], GraphFunction] = {}

    def _needed(self, wanted: Sequence[relax.Var], effects: Sequence[Effect]) -> set[relax.Var]:
        """Back over what each binding uses, what it was made to come after, and what runs with it."""
        trace = self.graph.trace
        made = {b.var: b.value for b in trace.bindings}
        given = [*trace.params, *(inner for _, inner in trace.captures.values())]
        makers = makers_of_dims((p._var for p in given), trace.bindings)
        assigned = {e.var: e for e in trace.effects}
        found: set[relax.Var] = set()
        waiting = [*wanted, *self._run(effects)]
        while waiting:
            var = waiting.pop()
            if var in found:
                continue
            found.add(var)
            if var not in self.fed:
                self.ran.update([assigned[var]] if var in assigned else [])
                waiting += self._run([*trace.depends.get(var, ()), *trace.implied.get(var, ())])
                waiting += (
                    [*relax.analysis.free_vars(made[var]), *makers_for(makers, var.ty, made[var])]
                    if var in made
                    else []
                )
        return found

    def _run(self, effects: Sequence[Effect]) -> list[relax.Var]:
        self.ran.update(effects)
        return [e.var for e in effects]

    @cached_property
    def function(self) -> GraphFunction:
        whole = self.graph.trace
        part = Trace("run")
        part.params = self.feeds
        part.captures = {id(outer): (outer, inner) for outer, inner in self.captures}
        part.bindings = list(self._bindings())
        part.subgraphs, part.assumptions, part.holds_texts = whole.subgraphs, whole.assumptions, whole.holds_texts
        part.speculated_equalities = whole.speculated_equalities
        part.pure = not any(e.var in self.needed for e in whole.effects if e.variable is None)
        return GraphFunction(Function(part, [*self.tensors, *(e.value for e in self.effects if e.value is not None)]))

    def _bindings(self) -> Iterator[relax.VarBinding]:
        """In the order of the program, in which each update goes on from the assignment before it."""
        updates = {e.update: e for e in self.effects if e.update is not None}
        assigned = {e.var: e for e in self.effects}
        latest: dict[int, relax.Var] = {}
        for binding in self.graph.trace.bindings:
            if binding.var not in self.needed or binding.var in self.fed:
                continue
            effect = updates.get(binding.var)
            before = None if effect is None else latest.get(id(effect.variable))
            yield binding if before is None else relax.VarBinding(binding.var, _of(before, binding.value))
            if binding.var in assigned:
                latest[id(assigned[binding.var].variable)] = binding.var

    @cached_property
    def read(self) -> set[relax.Var]:
        """The tensors whose values count: not what is merely assigned to."""
        used = (v for b in self._bindings() for v in _read(b.value))
        return {*used, *(t._var for t in self.tensors), *(e.value._var for e in self.effects if e.value is not None)}

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """By the function for these inputs: where ranks are unknown, one for each."""
        if self._calls_python_of_any_rank:
            return self._interpreted(inputs)
        if not any(isinstance(t._type.shape, AnyShape) for t in self.feeds):
            return self.function.run(inputs)
        made = self._of(inputs)
        return made.run([*inputs, *(outer for outer, _ in made.graph.captures)])

    @cached_property
    def _calls_python_of_any_rank(self) -> bool:
        return any(_is_python(b.value) for b in self._bindings())

    def _interpreted(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Without compiled code: only running tells the ranks of what Python gives."""
        with remembered(Assignments([])):
            return as_tuple(evaluate(self.function.graph.module(), "main", inputs, _Interpreting))

    def _of(self, inputs: Sequence[Any]) -> GraphFunction:
        ranks = tuple(t.ndim for t in inputs)
        if ranks not in self._of_ranks:
            module = self.function.graph.module()
            types = [x._type for x in inputs]
            made = trace_graph("run", lambda *given: evaluate(module, "main", given, Instance), types)
            self._of_ranks[ranks] = GraphFunction(made)
        return self._of_ranks[ranks]


def _read(call: Any) -> list[relax.Var]:
    """What a call computes with: an assignment does so with the new value alone."""
    if is_dialect(call) and (bound := read(call)).primitive.name == "assign":
        return [v for each in bound.inputs[1:] for v in relax.analysis.free_vars(each)]
    return list(relax.analysis.free_vars(call))


def _is_python(call: Any) -> bool:
    """Whether it calls Python that tells the rank of what it gives."""
    if not is_dialect(call):
        return False
    return isinstance(calls.get(read(call).attrs.get("key", -1)), PythonCall)


class _Interpreting(Learning):
    """Runs a graph on eager tensors; what is assigned is a result."""

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        return (
            Evaluation.bind(self, prim, inputs, attrs) if prim.name == "assign" else super().bind(prim, inputs, attrs)
        )


def _of(value: relax.Var, call: relax.Call) -> relax.Call:
    """The call with another first input."""
    bound = read(call)
    return write(bound.primitive, [value, *bound.inputs[1:]], bound.attrs, call.ty, call.span)


class Session:
    """Runs a graph; each session has the variables' values for itself.

    As a context manager it and its graph are the default ones inside, and it is closed after.

    Args:
      graph: the graph, by default the one that ops are added to.
      target, config: accepted.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/Session
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        self.graph = get_default_graph() if graph is None else graph
        self._values: dict[int, EagerTensor] = {}
        self._parts: dict[Any, _Part] = {}
        self._closed = False
        self._entered = ExitStack()

    def __enter__(self) -> Session:
        self._enter(self.graph)
        return self

    def _enter(self, graph: Graph | None) -> None:
        if graph is not None:
            self._entered.enter_context(graph.as_default())
        self._entered.enter_context(self.as_default())

    def __exit__(self, *_: object) -> None:
        self._entered.close()
        self.close()

    @contextmanager
    def as_default(self) -> Iterator[Session]:
        """Inside it is the session of ``Operation.run``; it stays open."""
        _defaults.sessions.append(self)
        try:
            yield self
        finally:
            _defaults.sessions.remove(self)

    def close(self) -> None:
        """It can't run anything after this."""
        self._closed = True

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """The values of ``fetches``, a nest of tensors, ops, variables and names, in its form.

        What assigns one variable takes place in the order in which it was written.

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
        outer, tapes = state.trace, state.tapes
        state.trace, state.tapes = None, []
        _defaults.running.append(self)
        try:
            fed = [pair for key, value in (feed_dict or {}).items() for pair in self._fed_pairs(key, value)]
            return self._run(fetches, {t._var: t for t, _ in fed}, {t._var: value for t, value in fed})
        finally:
            _defaults.running.pop()
            state.trace, state.tapes = outer, tapes

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """A function of the values of ``feed_list`` that runs ``fetches``."""
        keys = list(feed_list or ())
        return lambda *values: self.run(fetches, dict(zip(keys, values)))

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> dict[Any, Any]:
        """What ``partial_run`` has been fed so far."""
        return {}

    def partial_run(self, handle: dict[Any, Any], fetches: Any, feed_dict: Any = None) -> Any:
        """As ``run``, with what it was fed before."""
        handle.update(feed_dict or {})
        return self.run(fetches, handle)

    def list_devices(self) -> list[Any]:
        return list(public_names()["config.list_logical_devices"]())

    def has_value(self, variable: Any) -> bool:
        return id(variable) in self._values or id(variable) not in self.graph.variables

    def set_value(self, variable: Any, value: Any) -> None:
        """Gives a variable a value in this session.

        Raises:
          ValueError: it is of another shape.
        """
        array = np.array(value, variable.dtype.np)
        if not variable.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"Cannot feed value of shape {array.shape} for Tensor {variable.name}, which has shape {variable.shape}"
            )
        self._values[id(variable)] = EagerTensor(array)

    @property
    def graph_def(self) -> Any:
        return self.graph.as_graph_def()

    @property
    def sess_str(self) -> str:
        return ""

    def _run(self, fetches: Any, fed: dict[relax.Var, SymbolicTensor], values: dict[relax.Var, Any]) -> Any:
        if fetches is None:
            raise TypeError('Argument `fetch` = None has invalid type "NoneType". Cannot be None')
        flat = [self._fetch(f) for f in nest.flatten(fetches, expand_composites=True)]
        part = self._part(flat, fed)
        inputs = [_value(t, values[t._var]) for t in part.feeds] + [
            self._value_of(outer, inner._var in part.read) for outer, inner in part.captures
        ]
        found = iter(part.run(inputs))
        results = [next(found).numpy() if isinstance(f, Tensor) else None for f in flat]
        for effect, value in zip(part.effects, found):
            self._values[id(effect.variable)] = value
        return _packed(fetches, iter(results))

    def _fetch(self, fetch: Any) -> Any:
        found = self._named(fetch)
        if isinstance(found, Variable):
            with self.graph.trace.unnamed():
                return self.graph.trace.read_variable(found)
        if isinstance(found, EagerTensor):
            return self.graph.trace.own(found)
        if not isinstance(found, (SymbolicTensor, Operation)):
            kind = type(fetch).__name__
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{kind}" must be a string or Tensor. (Can not convert a {kind} '
                "into a Tensor or Operation.)"
            )
        owned = found.graph is self.graph if isinstance(found, Operation) else self.graph.trace.owns(found)
        if not owned:
            kind = "an Operation" if isinstance(found, Operation) else "a Tensor"
            raise ValueError(
                f"Argument `fetch` = {found} cannot be interpreted as a Tensor. ({kind[2:].strip()} {found} is not an element "
                "of this graph.)"
            )
        return found

    def _named(self, fetch: Any) -> Any:
        if not isinstance(fetch, (str, bytes)):
            return fetch
        name = fetch.decode() if isinstance(fetch, bytes) else fetch
        try:
            return self.graph.as_graph_element(name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"Argument `fetch` = {name} cannot be interpreted as a Tensor. ({error})") from None

    def _part(self, flat: Sequence[Any], fed: dict[relax.Var, SymbolicTensor]) -> _Part:
        key = tuple(id(f) if isinstance(f, Operation) else f._var for f in flat), frozenset(fed)
        if key not in self._parts:
            tensors = [f for f in flat if isinstance(f, SymbolicTensor)]
            effects = [e for f in flat for e in self.graph.trace.effects_of(f)]
            self._parts[key] = _Part(self.graph, tensors, effects, fed)
        part = self._parts[key]
        for placeholder in part.missing:
            raise _not_fed(placeholder)
        return part

    def _value_of(self, captured: Any, is_read: bool) -> Any:
        if not isinstance(captured, Variable):
            return captured
        value = self._values.get(id(captured))
        if value is None and is_read and id(captured) in self.graph.variables:
            raise FailedPreconditionError(
                None, None, f"Attempting to use uninitialized value {captured.name.removesuffix(':0')}"
            )
        return EagerTensor(np.array(captured.numpy())) if value is None else value

    def _fed_pairs(self, key: Any, value: Any) -> list[tuple[SymbolicTensor, Any]]:
        """The tensors of what is fed, each with its value."""
        if isinstance(key, tuple):  # a structure: of those, tuples alone can be keys
            tensors, given = nest.flatten(key), nest.flatten(value)
            if len(tensors) != len(given):
                raise ValueError(
                    f"Could not flatten dictionary. Key had {len(tensors)} elements, but value had {len(given)} elements. "
                    f"Key: {tensors}, value: {given}."
                )
            return [pair for each, own in zip(tensors, given) for pair in self._fed_pairs(each, own)]
        if not nest.is_composite(key):
            return [(self._fed(key), value)]
        parts = list(nest.flatten(key, expand_composites=True))
        return [(t, v) for t, v in zip(parts, _components(value)) if isinstance(t, SymbolicTensor)]

    def _fed(self, key: Any) -> SymbolicTensor:
        told = "Cannot interpret feed_dict key as Tensor: "
        try:
            tensor = self.graph.as_graph_element(key)
        except (KeyError, ValueError) as error:
            raise TypeError(told + str(error.args[0])) from None
        if isinstance(tensor, Variable):
            tensor = self._fetch(tensor)
        if not isinstance(tensor, SymbolicTensor):
            raise TypeError(f"{told}Can not convert a {type(key).__name__} into a Tensor.")
        if not self.graph.trace.owns(tensor):
            raise TypeError(f"{told}Tensor {tensor} is not an element of this graph.")
        return tensor


def _components(value: Any) -> list[Any]:
    """The arrays of a value made of tensors, or of what TensorFlow 1 had for it."""
    if nest.is_composite(value):
        return nest.flatten(value, expand_composites=True)
    return list(value.components() if hasattr(value, "components") else value)


def _packed(fetches: Any, values: Iterator[Any]) -> Any:
    """The values in the structure of what was fetched; tensors made of tensors as TensorFlow 1 gave them."""
    if nest.is_composite(fetches):
        return fetched(fetches, [next(values) for _ in nest.flatten(fetches, expand_composites=True)])
    if isinstance(fetches, Mapping):
        made: Any = type(fetches)
        found = {k: _packed(fetches[k], values) for k in sorted(fetches)}
        pairs = [(k, found[k]) for k in fetches]
        return made(fetches.default_factory, pairs) if isinstance(fetches, defaultdict) else made(pairs)
    if nest.is_record(fetches) or isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
        return nest.with_parts(fetches, [_packed(v, values) for v in nest.parts_of(fetches)])
    if isinstance(fetches, (list, tuple)):
        return type(fetches)(_packed(v, values) for v in fetches)
    return next(values)


def _not_fed(placeholder: SymbolicTensor) -> InvalidArgumentError:
    name, dims = placeholder._var.name, placeholder.shape
    shape = "" if dims.rank is None else f" and shape [{','.join('?' if d is None else str(d) for d in dims)}]"
    told = f"You must feed a value for placeholder tensor '{name}' with dtype {placeholder.dtype.name}{shape}"
    return InvalidArgumentError(None, name, told)


def _value(fed: SymbolicTensor, given: Any) -> Tensor:
    """A fed value: an array, a Python value or an eager tensor.

    Raises:
      ValueError: its shape does not fit.
    """
    if isinstance(given, SymbolicTensor):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
            f"numpy ndarrays, or TensorHandles. For reference, the tensor object was {given} which was passed to the argument "
            f"`feed_dict` with key {fed}."
        )
    plain = not isinstance(given, Tensor) and fed.dtype is not string
    tensor = convert_to_tensor(np.asarray(given, fed.dtype.np) if plain else given, fed.dtype)
    if not fed.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            f"Cannot feed value of shape {tensor.shape} for Tensor {fed.name}, which has shape {fed.shape}"
        )
    return tensor


class InteractiveSession(Session):
    """A session that is the default one, and its graph with it, from when it is made until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._enter(graph)

    def close(self) -> None:
        self._entered.close()
        super().close()
