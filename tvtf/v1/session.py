"""Runs a graph's fetches: the needed part is cut out of the graph, compiled, and cached for later runs of the same fetches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from itertools import compress
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from tvtf.core import nest
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import as_tuple, public_names
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import cached_property
from tvtf.dtypes import string
from tvtf.errors import FailedPreconditionError, InvalidArgumentError
from tvtf.frontend.function.deferred_call import Call, calls
from tvtf.frontend.function.executor import GraphFunction
from tvtf.frontend.function.sized_instance import SizedInstance
from tvtf.frontend.host.host_rank import Assignments, PythonCall, RankEvaluation, recording_effects
from tvtf.ir.dialect import bindings_of, is_dialect, read, write
from tvtf.ir.graph import Graph as Function
from tvtf.ir.interpreter import CONTROL, Evaluation, Subfunction, evaluate
from tvtf.ir.trace import Trace, trace_graph
from tvtf.passes.analysis.dead_code import defining_vars, defining_vars_of
from tvtf.state.variable import Variable
from tvtf.v1.composites import fetched
from tvtf.v1.default_session import defaults
from tvtf.v1.graph import Effect, Graph, get_default_graph
from tvtf.v1.unset_variables import MSG_UNSET, graph_with_unset


class _PrunedGraph:
    """The part of a graph that some fetches and feeds need, as a compiled function of the feeds and variables.

    ``effects`` are its assignments, ``feeds`` and ``captures`` its inputs, and ``missing`` the placeholders that it
    needs and that are not fed.
    """

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[SymbolicTensor],
        effects: Sequence[Effect],
        fed: Mapping[relax.Var, SymbolicTensor],
    ) -> None:
        """Selects the part of a graph that is needed to compute the fetched ``tensors`` and to run ``effects``.

        ``fed`` maps IR variables to the tensors whose values are fed. Nothing that computes these is needed.
        """
        trace = graph.trace
        self.graph, self.tensors, self.fed = graph, tensors, fed
        self._effects_to_run: set[Effect] = set()
        self.needed = self._reachable([tensor._var for tensor in tensors], effects)
        self.effects = [
            effect for effect in trace.effects if effect in self._effects_to_run and effect.variable is not None
        ]
        self._params_of_constants = {var: _param_for(t) for var, t in fed.items() if isinstance(var, ir.Constant)}
        self.feeds = [t for var, t in fed.items() if var in self.needed or var in self._params_of_constants]
        self.captures = [
            (outer, inner)
            for outer, inner in trace.captures.values()
            if inner._var in self.needed and inner._var not in fed
        ]
        self.missing = [
            placeholder for var, placeholder in graph.placeholders.items() if var in self.needed and var not in fed
        ]
        self._by_ranks: dict[tuple[int, ...], GraphFunction] = {}
        self._without_values: dict[tuple[Any, ...], GraphFunction] = {}

    def _reachable(self, fetched: Sequence[relax.Var], effects: Sequence[Effect]) -> set[relax.Var]:
        """Returns the bindings on which fetches and effects depend: by uses, control dependencies and symbolic dims.

        A fed tensor needs nothing that would compute it. The effects on the way are added to those that run.
        """
        trace = self.graph.trace
        values = {binding.var: binding.value for binding in trace.bindings}
        inputs = trace.all_params
        makers = defining_vars((input_._var for input_ in inputs), trace.bindings)
        effect_of = {effect.var: effect for effect in trace.effects}
        needed: set[relax.Var] = set()
        stack = [*fetched, *self._run(effects)]
        while stack := stack or self._inputs_of_sizes(needed, inputs, values):
            var = stack.pop()
            if var in needed:
                continue
            needed.add(var)
            if var in self.fed:
                continue
            if var in effect_of:
                self._effects_to_run.add(effect_of[var])
            stack += self._run([*trace.depends.get(var, ()), *trace.implied.get(var, ())])
            if var in values:
                operands = relax.analysis.free_vars(values[var])
                stack += [*operands, *defining_vars_of(makers, var.ty, values[var])]
        return needed

    def _inputs_of_sizes(
        self, needed: AbstractSet[relax.Var], inputs: Sequence[SymbolicTensor], values: Mapping[relax.Var, Any]
    ) -> list[relax.Var]:
        """Returns inputs that are needed only for their sizes: ``tf.zeros(tf.shape(x))`` uses no element of ``x``.

        Several tensors have the same symbolic dim if results of ops are fed. Of these, an input with a value comes first, and
        a placeholder that isn't fed last.

        Args:
          needed: the tensors that are needed already. Their dims are known.
          inputs: the graph's inputs, fed or not.
          values: the expressions that compute the other tensors.
        """
        unfed = self.graph.placeholders.keys() - self.fed.keys()
        sized: dict[tirx.Var, list[relax.Var]] = {dim: [] for x in inputs for dim in _symbolic_dims(x)}
        with_value = [x for x in inputs if x._var not in unfed]
        without_value = [x for x in inputs if x._var in unfed]
        for tensor in [*with_value, *self.fed.values(), *without_value]:
            for dim in sized.keys() & _symbolic_dims(tensor):
                sized[dim].append(tensor._var)
        unknown = {dim: tensors[0] for dim, tensors in sized.items() if needed.isdisjoint(tensors)}
        users: list[Any] = []
        for var in needed:
            if var in values and var not in self.fed:
                users += [var.ty, values[var]]
        return defining_vars_of(unknown, *users)

    def _run(self, effects: Sequence[Effect]) -> list[relax.Var]:
        """Adds effects to those that run, and returns their bindings."""
        self._effects_to_run.update(effects)
        return [effect.var for effect in effects]

    @cached_property
    def function(self) -> GraphFunction:
        """Returns the function that computes the fetched tensors and the variables' new values, in this order.

        Its parameters are the fed and the captured tensors.
        """
        graph_trace = self.graph.trace
        trace = Trace("run")
        trace.params = [self._params_of_constants.get(tensor._var, tensor) for tensor in self.feeds]
        trace.captures = {id(outer): (outer, inner) for outer, inner in self.captures}
        trace.bindings = list(self._bindings())
        trace.subgraphs = graph_trace.subgraphs
        trace.assumptions = graph_trace.assumptions
        trace.holds_texts = graph_trace.holds_texts
        trace.speculated_equalities = graph_trace.speculated_equalities
        side_effects = [effect for effect in graph_trace.effects if effect.variable is None]
        trace.pure = not any(effect.var in self.needed for effect in side_effects)
        new_values = [effect.value for effect in self.effects if effect.value is not None]
        fetched = [self._params_of_constants.get(tensor._var, tensor) for tensor in self.tensors]
        return GraphFunction(Function(trace, [*fetched, *new_values]))

    def _bindings(self) -> Iterator[relax.VarBinding]:
        """Yields the bindings (computed values) that a run needs, in program order.

        An update such as ``assign_add`` uses the variable's value at run time. If a previous assignment is needed, too,
        its value replaces the update's first input.
        """
        effect_of_update = {effect.update: effect for effect in self.effects if effect.update is not None}
        effect_of_assignment = {effect.var: effect for effect in self.effects}
        latest_values: dict[int, relax.Var] = {}  # by the id of a tf.Variable
        for binding in self.graph.trace.bindings:
            if binding.var not in self.needed or binding.var in self.fed:
                continue
            value = binding.value
            updating = effect_of_update.get(binding.var)
            if updating is not None and id(updating.variable) in latest_values:
                value = _with_first_input(latest_values[id(updating.variable)], value)
            yield relax.VarBinding(binding.var, self._with_fed_constants(value))
            assigning = effect_of_assignment.get(binding.var)
            if assigning is not None:
                latest_values[id(assigning.variable)] = binding.var

    def _with_fed_constants(self, value: Any) -> Any:
        """Returns an expression with the parameters of fed constants in place of the constants."""
        if not self._params_of_constants or not is_dialect(value):
            return value
        bound = read(value)
        inputs = [self._params_of_constants[x]._var if x in self._params_of_constants else x for x in bound.inputs]
        return write(bound.primitive, inputs, bound.attrs, value.ty, value.span)

    @cached_property
    def read_at_once(self) -> set[relax.Var]:
        """The tensors whose values are used whichever branches the run takes."""
        used = (var for binding in self._bindings() if not _is_control(binding.value) for var in _read(binding.value))
        return {*used, *(tensor._var for tensor in self.tensors)}

    @cached_property
    def read(self) -> set[relax.Var]:
        """The tensors whose values are used; a variable that is only assigned to is not among them."""
        read_by_ops = (var for binding in self._bindings() for var in _read(binding.value))
        fetched_vars = (tensor._var for tensor in self.tensors)
        assigned_vars = (effect.value._var for effect in self.effects if effect.value is not None)
        return {*read_by_ops, *fetched_vars, *assigned_vars}

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Computes the fetched tensors and the variables' new values from the values of the feeds and captured tensors.

        If feeds or variables have unknown ranks, one function is compiled for each combination of ranks.
        """
        if self.calls_python_of_any_rank:
            return self._run_uncompiled(inputs)
        if not any(isinstance(param._type.shape, AnyShape) for param in self.function.graph.all_params):
            return self.function.run(inputs)
        specialized = self._specialized(inputs)
        own_captures = [outer for outer, _ in specialized.graph.captures]
        return specialized.run([*inputs, *own_captures])

    def run_without_values(self, inputs: Sequence[Any], unset: Mapping[int, str]) -> tuple[Sequence[Any], list[bool]]:
        """Runs the graph like ``run`` does, although some variables have no value.

        Args:
          inputs: the inputs of ``run``, with any tensor in place of a missing value.
          unset: the names of the variables without a value, by the position of the input.

        Returns:
          the results of ``run``, and whether each of the variables' new values was assigned.

        Raises:
          FailedPreconditionError: the run reads one of the variables.
        """
        types = [param._type for param in self.function.graph.all_params]
        if any(isinstance(each.shape, AnyShape) for each in types):
            types = [x._type for x in inputs]
        key = (*types, *unset)
        if key not in self._without_values:
            module = self.function.graph.module()
            graph = graph_with_unset(module, types, unset, len(self.tensors))
            self._without_values[key] = GraphFunction(graph)
        checked = self._without_values[key]
        outputs = checked.run([*inputs, *(outer for outer, _ in checked.graph.captures)])
        count = len(outputs) - len(self.effects)
        return outputs[:count], [bool(flag) for flag in outputs[count:]]

    @cached_property
    def calls_python_of_any_rank(self) -> bool:
        """Whether a call runs Python that determines its result's rank, or was deferred until sizes are known."""
        functions = {var.name_hint: function for var, function in self.function.graph.reachable().items()}
        return any(
            _is_python(binding.value) or _needs_sizes(binding.value)
            for binding in _with_inner(self._bindings(), functions)
        )

    def _run_uncompiled(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Same as ``run``, without compiling: for graphs whose Python functions return tensors of unknown rank."""
        with recording_effects(Assignments([])):
            return as_tuple(evaluate(self.function.graph.module(), "main", inputs, _EagerEvaluation))

    def _specialized(self, inputs: Sequence[Any]) -> GraphFunction:
        """Returns the function for inputs of these ranks. The function is traced on the first call with them."""
        ranks = tuple(input_.ndim for input_ in inputs)
        if ranks not in self._by_ranks:
            module = self.function.graph.module()
            types = [x._type for x in inputs]
            graph = trace_graph("run", lambda *arguments: evaluate(module, "main", arguments, SizedInstance), types)
            self._by_ranks[ranks] = GraphFunction(graph)
        return self._by_ranks[ranks]


def _param_for(constant: SymbolicTensor) -> SymbolicTensor:
    """Returns a parameter that replaces a constant of a graph in a run that feeds it."""
    return SymbolicTensor(relax.Var("fed", constant._var.ty), constant._type, constant._trace)


def _symbolic_dims(tensor: SymbolicTensor) -> list[tirx.Var]:
    """Returns the dims of a tensor that are symbols, and so are known wherever the tensor is."""
    shape = tensor._type.shape
    return [] if isinstance(shape, AnyShape) else [dim for dim in shape if isinstance(dim, tirx.Var)]


def _with_inner(bindings: Iterable[Any], functions: Mapping[str, Any]) -> Iterator[Any]:
    """Yields bindings and those of the ``functions``, by name, that they call: branches, loops' bodies."""
    for binding in bindings:
        yield binding
        for value in read(binding.value).attrs.values() if is_dialect(binding.value) else ():
            if isinstance(value, ir.GlobalVar):
                yield from _with_inner(bindings_of(functions[value.name_hint].body), functions)
        for leaf in getattr(_deferred(binding.value), "leaves", ()):
            if isinstance(leaf, Subfunction):  # a branch of a cond that was deferred
                inner = {var.name_hint: function for var, function in leaf.mod.functions.items()}
                yield from _with_inner(bindings_of(inner[leaf.name].body), inner)


def _deferred(call: Any) -> Call | None:
    """Returns the deferred call that a call runs, or None if it isn't deferred."""
    return calls.get(read(call).attrs.get("key", -1)) if is_dialect(call) else None


def _is_control(call: Any) -> bool:
    """Returns whether a call is a cond or a loop."""
    return is_dialect(call) and read(call).primitive.name in CONTROL


def _read(call: Any) -> list[relax.Var]:
    """Returns the variables that a call reads; an assignment reads only the new value."""
    if is_dialect(call) and (bound := read(call)).primitive.name == "assign":
        return [var for each in bound.inputs[1:] for var in relax.analysis.free_vars(each)]
    return list(relax.analysis.free_vars(call))


def _is_python(call: Any) -> bool:
    """Returns whether a call runs a Python function that determines the rank of its result."""
    return isinstance(_deferred(call), PythonCall)


def _needs_sizes(call: Any) -> bool:
    """Returns whether a call was deferred until sizes are known, which the program itself may compute."""
    deferred = _deferred(call)
    return deferred is not None and deferred.needs_sizes


class _EagerEvaluation(RankEvaluation):
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
        """Opens a session that runs ``graph``, by default the current one; variables have no values yet.

        ``target`` and ``config`` are TensorFlow's and unused.
        """
        self.graph = get_default_graph() if graph is None else graph
        self._values: dict[int, EagerTensor] = {}
        """The variables' values, by the variables' ``id``."""
        self._addresses: dict[int, int] = {}
        """The addresses of the values' memory, which take a microsecond each to ask for."""
        self._pruned_graphs: dict[Any, _PrunedGraph] = {}
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
            fed_tensors = {tensor._var: tensor for tensor, _ in fed}
            fed_values = {tensor._var: value for tensor, value in fed}
            return self._run(fetches, fed_tensors, fed_values)
        finally:
            defaults.running.pop()
            state.trace, state.tapes = outer, tapes

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """Returns a function of the values of ``feed_list`` that runs ``fetches``."""
        keys = list(feed_list or ())
        return lambda *values: self.run(fetches, dict(zip(keys, values)))

    def _make_callable_from_options(self, callable_options: Any) -> Callable[..., list[Any]]:
        """Returns a function of the values of feeds that runs fetches and targets. Keras 2 runs its models by it.

        ``callable_options`` is a ``CallableOptions`` message: the names of the feeds, of the fetched tensors and of the ops
        to run, and pairs of a computed tensor and the placeholder to which its value is fed.
        """
        feeds, fetches = list(callable_options.feed), list(callable_options.fetch)
        targets = list(callable_options.target)
        sources = [pair.from_tensor for pair in callable_options.tensor_connection]
        placeholders = [pair.to_tensor for pair in callable_options.tensor_connection]

        def run(*values: Any, run_metadata: Any = None) -> list[Any]:
            """Runs the fetches and targets, and returns the values of the fetches."""
            connected_values = self.run(sources)
            fed = dict(zip(feeds, values)) | dict(zip(placeholders, connected_values))
            results = self.run([*fetches, *targets], fed)
            return results[: len(fetches)]  # type: ignore[no-any-return]

        return run

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> dict[Any, Any]:
        """Returns the handle of a partial run, which collects what is fed."""
        return {}

    def partial_run(self, handle: dict[Any, Any], fetches: Any, feed_dict: Any = None) -> Any:
        """Same as ``run``, with all values fed in earlier partial runs."""
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
        self._addresses[id(variable)] = _address(self._values[id(variable)])

    @property
    def graph_def(self) -> Any:
        return self.graph.as_graph_def()

    @property
    def sess_str(self) -> str:
        return ""

    def _run(self, fetches: Any, fed: dict[relax.Var, SymbolicTensor], values: dict[relax.Var, Any]) -> Any:
        """Runs the part of the graph that the fetches need, and stores the new values of variables in this session.

        ``fed`` has the fed tensors and ``values`` their values, both by the tensors' variables in the IR.
        """
        if fetches is None:
            raise TypeError('Argument `fetch` = None has invalid type "NoneType". Cannot be None')
        flat_fetches = [self._fetch(fetch) for fetch in nest.flatten(fetches, expand_composites=True)]
        pruned_graph = self._pruned_graph(flat_fetches, fed)
        inputs = [_fed_value(tensor, values[tensor._var]) for tensor in pruned_graph.feeds]
        inputs += [self._value_of(outer, inner, pruned_graph) for outer, inner in pruned_graph.captures]
        unset = self._without_value(pruned_graph)
        if unset:
            all_outputs, are_assigned = pruned_graph.run_without_values(inputs, unset)
        else:
            all_outputs = pruned_graph.run(inputs)
            are_assigned = [True] * len(pruned_graph.effects)
        # The outputs are the fetched tensors, then the new values of variables.
        outputs = iter(all_outputs)
        results = [next(outputs).numpy() if isinstance(fetch, Tensor) else None for fetch in flat_fetches]
        assigned = [id(effect.variable) for effect in compress(pruned_graph.effects, are_assigned)]
        new_values = list(compress(outputs, are_assigned))
        self._store(assigned, new_values, inputs)
        return _pack_results(fetches, iter(results))

    def _store(self, keys: Sequence[int], values: Sequence[EagerTensor], inputs: Sequence[Tensor]) -> None:
        """Stores new values of variables, each in memory of its own.

        Compiled code may overwrite the memory of a variable. A value is copied if its memory is used otherwise: two results
        of the code may be the same constant, and a result may be one of its ``inputs``.
        """
        address_of_value = {id(self._values[key]): address for key, address in self._addresses.items()}
        overwritten = {self._addresses.pop(key, 0) for key in keys}
        read = {address_of_value.get(id(x)) or _address(x) for x in inputs}
        in_use = (read - overwritten).union(self._addresses.values())
        for key, value in zip(keys, values):
            address = _address(value)
            if address in in_use:
                value = EagerTensor(value.eager_array().copy())
                address = _address(value)
            self._values[key], self._addresses[key] = value, address
            in_use.add(address)

    def _fetch(self, fetch: Any) -> Any:
        """Converts an argument of ``Session.run`` to the tensor or op to fetch.

        The argument is a tensor, an op, a variable or a name. The texts of the errors are TensorFlow's.

        Raises:
          TypeError: the argument is something else.
          ValueError: the session's graph doesn't contain it.
        """
        element = self._named(fetch)
        if isinstance(element, Variable):
            # The read gets no name in the graph: fetching must not change the names of ops that are added later.
            with self.graph.trace.without_op_names():
                return self.graph.trace.read_variable(element)
        if isinstance(element, EagerTensor):
            return self.graph.trace.own(element)
        if not isinstance(element, (SymbolicTensor, Operation)):
            type_name = type(fetch).__name__
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{type_name}" must be a string or Tensor. (Can not convert a '
                f"{type_name} into a Tensor or Operation.)"
            )
        is_in_graph = element.graph is self.graph if isinstance(element, Operation) else self.graph.trace.owns(element)
        if not is_in_graph:
            kind = "Operation" if isinstance(element, Operation) else "Tensor"
            raise ValueError(
                f"Argument `fetch` = {element} cannot be interpreted as a Tensor. ({kind} {element} is not an element of this "
                "graph.)"
            )
        return element

    def _named(self, fetch: Any) -> Any:
        """Returns the tensor or op of the graph that has the name ``fetch``.

        A fetch that is not a string is returned unchanged.
        """
        if not isinstance(fetch, (str, bytes)):
            return fetch
        name = fetch.decode() if isinstance(fetch, bytes) else fetch
        try:
            return self.graph.as_graph_element(name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"Argument `fetch` = {name} cannot be interpreted as a Tensor. ({error})") from None

    def _pruned_graph(self, flat_fetches: Sequence[Any], fed: dict[relax.Var, SymbolicTensor]) -> _PrunedGraph:
        """Returns the part of the graph that is needed to compute the fetches from the feeds.

        The part is cached for later runs with equal arguments.

        Raises:
          InvalidArgumentError: the part needs a placeholder that is not fed.
        """
        fetch_keys = tuple(id(fetch) if isinstance(fetch, Operation) else fetch._var for fetch in flat_fetches)
        key = fetch_keys, frozenset(fed)
        if key not in self._pruned_graphs:
            tensors = [fetch for fetch in flat_fetches if isinstance(fetch, SymbolicTensor)]
            effects = [effect for fetch in flat_fetches for effect in self.graph.trace.effects_of(fetch)]
            self._pruned_graphs[key] = _PrunedGraph(self.graph, tensors, effects, fed)
        pruned_graph = self._pruned_graphs[key]
        for placeholder in pruned_graph.missing:
            raise _not_fed(placeholder)
        return pruned_graph

    def _value_of(self, captured: Any, symbol: SymbolicTensor, pruned_graph: _PrunedGraph) -> Any:
        """Returns the value of a captured tensor: the session's value of a variable, or a constant.

        If the variable has no value, any value stands for it, unless the run reads ``symbol``, the variable in the graph.
        Only what conds and loops read isn't known before the run.
        """
        if not isinstance(captured, Variable):
            return captured
        value = self._values.get(id(captured))
        if value is None and id(captured) in self.graph.variables:
            may_take_branch = not pruned_graph.calls_python_of_any_rank
            read = pruned_graph.read_at_once if may_take_branch else pruned_graph.read
            if symbol._var in read:
                raise FailedPreconditionError(None, None, MSG_UNSET.format(name=_name(captured)))
        return EagerTensor(np.array(captured.numpy())) if value is None else value

    def _without_value(self, pruned_graph: _PrunedGraph) -> dict[int, str]:
        """Returns the names of variables without a value that conds or loops of a run use, by their positions in its inputs."""
        return {
            len(pruned_graph.feeds) + i: _name(outer)
            for i, (outer, inner) in enumerate(pruned_graph.captures)
            if inner._var in pruned_graph.read and isinstance(outer, Variable) and not self.has_value(outer)
        }

    def _fed_pairs(self, key: Any, value: Any) -> list[tuple[SymbolicTensor, Any]]:
        """Returns pairs of a fed tensor and its value, for one entry of ``feed_dict``.

        The entry's key is a tensor, the name of a tensor, a composite tensor, or a tuple of keys, nested as ``value``
        is.
        """
        if isinstance(key, tuple):  # a structure; lists and dicts can't be keys
            keys = nest.flatten(key)
            parts = nest.flatten(value)
            if len(keys) != len(parts):
                raise ValueError(
                    f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(parts)} elements. "
                    f"Key: {keys}, value: {parts}."
                )
            pairs = []
            for part_key, part_value in zip(keys, parts):
                pairs += self._fed_pairs(part_key, part_value)
            return pairs
        if not nest.is_composite(key):
            return [(self._fed(key), value)]
        tensors = nest.flatten(key, expand_composites=True)
        # Components that are constants, such as a static dense shape, can't be fed.
        return [
            (tensor, component)
            for tensor, component in zip(tensors, _components(value))
            if isinstance(tensor, SymbolicTensor)
        ]

    def _fed(self, key: Any) -> SymbolicTensor:
        """Returns the tensor for a key of ``feed_dict``, which is a tensor, a variable or a name.

        Raises:
          TypeError: the key is no tensor of this graph.
          ValueError: the tensor is a constant whose value determined how the graph was built.
        """
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
        if self.graph.trace.determines_graph(tensor):
            raise ValueError(
                f"Tensor {tensor.name} may not be fed: shapes, attributes or branches of the graph were determined by its "
                "value. Build the graph with tf.compat.v1.placeholder_with_default in its place."
            )
        return tensor


def _name(variable: Any) -> str:
    return str(variable.name).removesuffix(":0")


def _address(tensor: Tensor) -> int:
    return tensor.eager_array().ctypes.data


def _components(value: Any) -> list[Any]:
    """Returns the arrays of a composite value, or of TensorFlow 1's counterpart."""
    if nest.is_composite(value):
        return nest.flatten(value, expand_composites=True)
    return list(value.components() if hasattr(value, "components") else value)


def _pack_results(fetches: Any, values: Iterator[Any]) -> Any:
    """Packs the values of fetched tensors, in the order of ``nest.flatten``, into the structure of ``fetches``.

    Composite tensors become TensorFlow 1's values, such as ``SparseTensorValue``.
    """
    if nest.is_composite(fetches):
        return fetched(fetches, [next(values) for _ in nest.flatten(fetches, expand_composites=True)])
    container: Any = type(fetches)
    if isinstance(fetches, Mapping):
        results = {key: _pack_results(fetches[key], values) for key in sorted(fetches)}  # nest.flatten sorts keys
        pairs = [(key, results[key]) for key in fetches]
        return container(fetches.default_factory, pairs) if isinstance(fetches, defaultdict) else container(pairs)
    is_named_tuple = isinstance(fetches, tuple) and hasattr(fetches, "_fields")
    if is_named_tuple or nest.is_record(fetches):
        return nest.with_parts(fetches, [_pack_results(part, values) for part in nest.parts_of(fetches)])
    if isinstance(fetches, (list, tuple)):
        return container(_pack_results(fetch, values) for fetch in fetches)
    return next(values)


def _not_fed(placeholder: SymbolicTensor) -> InvalidArgumentError:
    """Returns the error for a placeholder that is needed and not fed."""
    name, dims = placeholder._var.name, placeholder.shape
    shape = "" if dims.rank is None else f" and shape [{','.join('?' if dim is None else str(dim) for dim in dims)}]"
    message = f"You must feed a value for placeholder tensor '{name}' with dtype {placeholder.dtype.name}{shape}"
    return InvalidArgumentError(None, name, message)


def _fed_value(fed: SymbolicTensor, value: Any) -> Tensor:
    """Converts a value from ``feed_dict`` to the dtype and shape of the tensor ``fed``.

    Raises:
      TypeError: the value is a tensor of a graph.
      ValueError: the value's shape does not match.
    """
    if isinstance(value, SymbolicTensor):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
            f"numpy ndarrays, or TensorHandles. For reference, the tensor object was {value} which was passed to the argument "
            f"`feed_dict` with key {fed}."
        )
    if not isinstance(value, Tensor) and fed.dtype is not string:
        value = np.asarray(value, fed.dtype.np)
    tensor = convert_to_tensor(value, fed.dtype)
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
