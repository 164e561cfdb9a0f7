"""Runs a graph's fetches: the needed part is cut out of the graph, compiled, and cached for later runs of the same fetches."""

from __future__ import annotations

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
from tvtf.v1.default_session import defaults
from tvtf.v1.graph import Effect, Graph, get_default_graph


class _Part:
    """The part of a graph needed for some fetches and feeds, as a compiled function of feeds and variables."""

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[SymbolicTensor],
        effects: Sequence[Effect],
        fed: Mapping[relax.Var, SymbolicTensor],
    ) -> None:
        trace = graph.trace
        self.graph, self.tensors, self.fed = graph, tensors, fed
        self._ran: set[Effect] = set()
        self.needed = self._reachable([t._var for t in tensors], effects)
        self.effects = [e for e in trace.effects if e in self._ran and e.variable is not None]
        self.feeds = [t for v, t in fed.items() if v in self.needed]
        self.captures = [(outer, inner) for outer, inner in trace.captures.values() if inner._var in self.needed]
        self.missing = [p for v, p in graph.placeholders.items() if v in self.needed and v not in fed]
        self._by_ranks: dict[tuple[int, ...], GraphFunction] = {}

    def _reachable(self, fetched: Sequence[relax.Var], effects: Sequence[Effect]) -> set[relax.Var]:
        """Returns the bindings that are reachable backwards over uses, control dependencies and effects."""
        trace = self.graph.trace
        values = {b.var: b.value for b in trace.bindings}
        inputs = [*trace.params, *(inner for _, inner in trace.captures.values())]
        makers = makers_of_dims((p._var for p in inputs), trace.bindings)
        assigned = {e.var: e for e in trace.effects}
        needed: set[relax.Var] = set()
        stack = [*fetched, *self._run(effects)]
        while stack:
            var = stack.pop()
            if var in needed:
                continue
            needed.add(var)
            if var not in self.fed:
                self._ran.update([assigned[var]] if var in assigned else [])
                stack += self._run([*trace.depends.get(var, ()), *trace.implied.get(var, ())])
                stack += (
                    [*relax.analysis.free_vars(values[var]), *makers_for(makers, var.ty, values[var])]
                    if var in values
                    else []
                )
        return needed

    def _run(self, effects: Sequence[Effect]) -> list[relax.Var]:
        """Adds effects to those that run, and returns their bindings."""
        self._ran.update(effects)
        return [e.var for e in effects]

    @cached_property
    def function(self) -> GraphFunction:
        """The part as a function: the needed bindings of the graph, with feeds as parameters."""
        graph_trace = self.graph.trace
        part = Trace("run")
        part.params = self.feeds
        part.captures = {id(outer): (outer, inner) for outer, inner in self.captures}
        part.bindings = list(self._bindings())
        part.subgraphs, part.assumptions, part.holds_texts = (
            graph_trace.subgraphs,
            graph_trace.assumptions,
            graph_trace.holds_texts,
        )
        part.speculated_equalities = graph_trace.speculated_equalities
        part.pure = not any(e.var in self.needed for e in graph_trace.effects if e.variable is None)
        return GraphFunction(Function(part, [*self.tensors, *(e.value for e in self.effects if e.value is not None)]))

    def _bindings(self) -> Iterator[relax.VarBinding]:
        """Yields the needed bindings in program order; an update reads the value of the previous assignment."""
        updates = {e.update: e for e in self.effects if e.update is not None}
        assigned = {e.var: e for e in self.effects}
        latest: dict[int, relax.Var] = {}
        for binding in self.graph.trace.bindings:
            if binding.var not in self.needed or binding.var in self.fed:
                continue
            effect = updates.get(binding.var)
            previous = None if effect is None else latest.get(id(effect.variable))
            yield (
                binding
                if previous is None
                else relax.VarBinding(binding.var, _with_first_input(previous, binding.value))
            )
            if binding.var in assigned:
                latest[id(assigned[binding.var].variable)] = binding.var

    @cached_property
    def read(self) -> set[relax.Var]:
        """The tensors whose values are used; a variable that is only assigned to is not among them."""
        used = (v for b in self._bindings() for v in _read(b.value))
        return {*used, *(t._var for t in self.tensors), *(e.value._var for e in self.effects if e.value is not None)}

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs the part; inputs of unknown rank have one function for each combination of ranks."""
        if self._calls_python_of_any_rank:
            return self._interpreted(inputs)
        if not any(isinstance(t._type.shape, AnyShape) for t in self.feeds):
            return self.function.run(inputs)
        specialized = self._specialized(inputs)
        return specialized.run([*inputs, *(outer for outer, _ in specialized.graph.captures)])

    @cached_property
    def _calls_python_of_any_rank(self) -> bool:
        return any(_is_python(b.value) for b in self._bindings())

    def _interpreted(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs the part without compiling, if Python functions return tensors of unknown rank."""
        with remembered(Assignments([])):
            return as_tuple(evaluate(self.function.graph.module(), "main", inputs, _Interpreting))

    def _specialized(self, inputs: Sequence[Any]) -> GraphFunction:
        """Returns the function for the ranks of these inputs."""
        ranks = tuple(t.ndim for t in inputs)
        if ranks not in self._by_ranks:
            module = self.function.graph.module()
            types = [x._type for x in inputs]
            graph = trace_graph("run", lambda *arguments: evaluate(module, "main", arguments, Instance), types)
            self._by_ranks[ranks] = GraphFunction(graph)
        return self._by_ranks[ranks]


def _read(call: Any) -> list[relax.Var]:
    """Returns the variables that a call reads; an assignment reads only the new value."""
    if is_dialect(call) and (bound := read(call)).primitive.name == "assign":
        return [v for each in bound.inputs[1:] for v in relax.analysis.free_vars(each)]
    return list(relax.analysis.free_vars(call))


def _is_python(call: Any) -> bool:
    """Returns whether a call runs a Python function that determines the rank of its result."""
    if not is_dialect(call):
        return False
    return isinstance(calls.get(read(call).attrs.get("key", -1)), PythonCall)


class _Interpreting(Learning):
    """Evaluates a graph on eager tensors; assignments return their value."""

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        return (
            Evaluation.bind(self, prim, inputs, attrs) if prim.name == "assign" else super().bind(prim, inputs, attrs)
        )


def _with_first_input(value: relax.Var, call: relax.Call) -> relax.Call:
    """Returns the call with another first input."""
    bound = read(call)
    return write(bound.primitive, [value, *bound.inputs[1:]], bound.attrs, call.ty, call.span)


class Session:
    """Runs a graph; each session has its own values of the variables.

    As a context manager it makes itself and its graph the default ones, and closes the session at the end.

    Args:
      graph: the graph; by default the one to which ops are added.
      target, config: accepted without effect.

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
        """Makes this the default session in the ``with`` block, without closing it at the end."""
        defaults.sessions.append(self)
        try:
            yield self
        finally:
            defaults.sessions.remove(self)

    def close(self) -> None:
        """Closes the session, which can't run anything afterwards."""
        self._closed = True

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Returns the values of ``fetches``, a nest of tensors, ops, variables and names, in the same structure.

        Assignments of a variable are performed in program order.

        Args:
          feed_dict: values by placeholder, or by any other tensor, which is then not computed.

        Returns:
          NumPy values; None for an op.

        Raises:
          InvalidArgumentError: a needed placeholder is not fed.
          FailedPreconditionError: a needed variable is not initialized.
          ValueError: the shape of a fed value does not match.
          TypeError: a fetch is not a part of the graph.
          RuntimeError: the session is closed.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        outer, tapes = state.trace, state.tapes
        state.trace, state.tapes = None, []
        defaults.running.append(self)
        try:
            fed = [pair for key, value in (feed_dict or {}).items() for pair in self._fed_pairs(key, value)]
            return self._run(fetches, {t._var: t for t, _ in fed}, {t._var: value for t, value in fed})
        finally:
            defaults.running.pop()
            state.trace, state.tapes = outer, tapes

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """Returns a function of the values of ``feed_list`` that runs ``fetches``."""
        keys = list(feed_list or ())
        return lambda *values: self.run(fetches, dict(zip(keys, values)))

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> dict[Any, Any]:
        """Returns the handle of a partial run, which collects what is fed."""
        return {}

    def partial_run(self, handle: dict[Any, Any], fetches: Any, feed_dict: Any = None) -> Any:
        """Works as ``run``, with all values fed in earlier partial runs."""
        handle.update(feed_dict or {})
        return self.run(fetches, handle)

    def list_devices(self) -> list[Any]:
        return list(public_names()["config.list_logical_devices"]())

    def has_value(self, variable: Any) -> bool:
        return id(variable) in self._values or id(variable) not in self.graph.variables

    def set_value(self, variable: Any, value: Any) -> None:
        """Sets a variable's value in this session.

        Raises:
          ValueError: the shape does not match.
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
        """Runs the part that computes the fetches, and stores the new values of variables."""
        if fetches is None:
            raise TypeError('Argument `fetch` = None has invalid type "NoneType". Cannot be None')
        flat = [self._fetch(f) for f in nest.flatten(fetches, expand_composites=True)]
        part = self._part(flat, fed)
        inputs = [_value(t, values[t._var]) for t in part.feeds] + [
            self._value_of(outer, inner._var in part.read) for outer, inner in part.captures
        ]
        outputs = iter(part.run(inputs))
        results = [next(outputs).numpy() if isinstance(f, Tensor) else None for f in flat]
        for effect, value in zip(part.effects, outputs):
            self._values[id(effect.variable)] = value
        return _packed(fetches, iter(results))

    def _fetch(self, fetch: Any) -> Any:
        """Returns the tensor or op of a fetch, after checking that it belongs to the graph."""
        element = self._named(fetch)
        if isinstance(element, Variable):
            with self.graph.trace.unnamed():
                return self.graph.trace.read_variable(element)
        if isinstance(element, EagerTensor):
            return self.graph.trace.own(element)
        if not isinstance(element, (SymbolicTensor, Operation)):
            kind = type(fetch).__name__
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{kind}" must be a string or Tensor. (Can not convert a {kind} '
                "into a Tensor or Operation.)"
            )
        owned = element.graph is self.graph if isinstance(element, Operation) else self.graph.trace.owns(element)
        if not owned:
            kind = "an Operation" if isinstance(element, Operation) else "a Tensor"
            raise ValueError(
                f"Argument `fetch` = {element} cannot be interpreted as a Tensor. ({kind[2:].strip()} {element} is not an element "
                "of this graph.)"
            )
        return element

    def _named(self, fetch: Any) -> Any:
        """Returns the graph's element of a name; other fetches unchanged."""
        if not isinstance(fetch, (str, bytes)):
            return fetch
        name = fetch.decode() if isinstance(fetch, bytes) else fetch
        try:
            return self.graph.as_graph_element(name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"Argument `fetch` = {name} cannot be interpreted as a Tensor. ({error})") from None

    def _part(self, flat: Sequence[Any], fed: dict[relax.Var, SymbolicTensor]) -> _Part:
        """Returns the part for fetches and feeds, cached by their identities."""
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
        """Returns a captured tensor, or a variable's value in this session."""
        if not isinstance(captured, Variable):
            return captured
        value = self._values.get(id(captured))
        if value is None and is_read and id(captured) in self.graph.variables:
            raise FailedPreconditionError(
                None, None, f"Attempting to use uninitialized value {captured.name.removesuffix(':0')}"
            )
        return EagerTensor(np.array(captured.numpy())) if value is None else value

    def _fed_pairs(self, key: Any, value: Any) -> list[tuple[SymbolicTensor, Any]]:
        """Returns the tensors of a key with their values."""
        if isinstance(key, tuple):  # a structure; lists and dicts can't be keys
            tensors, parts = nest.flatten(key), nest.flatten(value)
            if len(tensors) != len(parts):
                raise ValueError(
                    f"Could not flatten dictionary. Key had {len(tensors)} elements, but value had {len(parts)} elements. "
                    f"Key: {tensors}, value: {parts}."
                )
            return [pair for each, part in zip(tensors, parts) for pair in self._fed_pairs(each, part)]
        if not nest.is_composite(key):
            return [(self._fed(key), value)]
        parts = list(nest.flatten(key, expand_composites=True))
        return [(t, v) for t, v in zip(parts, _components(value)) if isinstance(t, SymbolicTensor)]

    def _fed(self, key: Any) -> SymbolicTensor:
        """Returns the tensor of a key of ``feed_dict``."""
        prefix = "Cannot interpret feed_dict key as Tensor: "
        try:
            tensor = self.graph.as_graph_element(key)
        except (KeyError, ValueError) as error:
            raise TypeError(prefix + str(error.args[0])) from None
        if isinstance(tensor, Variable):
            tensor = self._fetch(tensor)
        if not isinstance(tensor, SymbolicTensor):
            raise TypeError(f"{prefix}Can not convert a {type(key).__name__} into a Tensor.")
        if not self.graph.trace.owns(tensor):
            raise TypeError(f"{prefix}Tensor {tensor} is not an element of this graph.")
        return tensor


def _components(value: Any) -> list[Any]:
    """Returns the arrays of a composite value, or of TensorFlow 1's counterpart."""
    if nest.is_composite(value):
        return nest.flatten(value, expand_composites=True)
    return list(value.components() if hasattr(value, "components") else value)


def _packed(fetches: Any, values: Iterator[Any]) -> Any:
    """Packs values in the structure of the fetches; composite tensors become TensorFlow 1's values."""
    if nest.is_composite(fetches):
        return fetched(fetches, [next(values) for _ in nest.flatten(fetches, expand_composites=True)])
    if isinstance(fetches, Mapping):
        container: Any = type(fetches)
        items = {k: _packed(fetches[k], values) for k in sorted(fetches)}
        pairs = [(k, items[k]) for k in fetches]
        return container(fetches.default_factory, pairs) if isinstance(fetches, defaultdict) else container(pairs)
    if nest.is_record(fetches) or isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
        return nest.with_parts(fetches, [_packed(v, values) for v in nest.parts_of(fetches)])
    if isinstance(fetches, (list, tuple)):
        return type(fetches)(_packed(v, values) for v in fetches)
    return next(values)


def _not_fed(placeholder: SymbolicTensor) -> InvalidArgumentError:
    """Returns the error for a placeholder that is needed and not fed."""
    name, dims = placeholder._var.name, placeholder.shape
    shape = "" if dims.rank is None else f" and shape [{','.join('?' if d is None else str(d) for d in dims)}]"
    message = f"You must feed a value for placeholder tensor '{name}' with dtype {placeholder.dtype.name}{shape}"
    return InvalidArgumentError(None, name, message)


def _value(fed: SymbolicTensor, given: Any) -> Tensor:
    """Converts a fed value to a tensor.

    Raises:
      ValueError: its shape does not match.
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
    """A session that is the default one from its creation until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._enter(graph)

    def close(self) -> None:
        self._entered.close()
        super().close()
