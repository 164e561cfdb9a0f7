"""Tracing: symbolic tensors in, Relax bindings out.

A :class:`Trace` collects the bindings of one function while the user's Python runs; :meth:`Trace.finish` makes it a
:class:`Graph`, a closed Relax function with its captures. Branches and loop bodies are traces whose parent is the trace
around them: a tensor of an outer trace becomes a capture, a Variable is read from the outermost one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from tvtf.core.allocation_check import require_countable
from tvtf.core.deferred_shape import RANKS, AnyShape, UnknownRank, UnknownSizes
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import Primitive, as_tuple, hooks, table
from tvtf.core.shape import TensorShape, TensorType, fresh_dim, same_dim, solved, substitute_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.core.thread_state import precision, state
from tvtf.core.variable_lock import cached_property
from tvtf.dtypes import DType, int32, string
from tvtf.errors import InaccessibleTensorError, OpError
from tvtf.ir import dialect
from tvtf.ir.computed_constants import ComputedConstants

COMPUTE = "tvtf.compute"
"""The attribute of ``main`` that names the 16-bit type it computes products in."""

LATER = ("backward",)
"""Function attributes that whoever takes a gradient runs, not the primitive: its effects are none of these."""

EMBEDDED_ELEMENTS = 16
"""Eager tensors up to this size become constants of the IR; larger ones are passed in, so that the IR stays free of data."""


def _own_folders() -> tuple[str, ...]:
    """Where tvtf's own code lies: its frames are not the user's."""
    rooms = ("tvtf", "tvtf.passes", "tvtf.frontend", "malt")
    specs = [importlib.util.find_spec(room) for room in rooms]
    return tuple(os.path.dirname(spec.origin) + os.sep for spec in specs if spec and spec.origin)


_OWN_FOLDERS = _own_folders()


class Graph:
    """A finished trace: a Relax function, what it captured, and the graphs it calls."""

    def __init__(self, trace: Trace, outputs: Sequence[SymbolicTensor]) -> None:
        self.name = trace.name
        self.root = trace.root
        self.scope = trace.scope
        self.params = trace.params
        self.captures = list(trace.captures.values())
        self.outputs = tuple(outputs)
        self.subgraphs = dict(trace.subgraphs)
        self.pure = trace.pure
        self.holds_texts = trace.root.holds_texts
        self.compute = precision.compute
        self._trace = trace
        self.function = self._build(_tuple_result(self.outputs))

    @property
    def all_params(self) -> list[SymbolicTensor]:
        return self.params + [inner for _, inner in self.captures]

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(t._type for t in self.outputs)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The primitives as the nodes of a GraphDef message, for TensorBoard and others that read it.

        Raises:
          ImportError: without the ``tensorboard`` extra.
        """
        nodes: Any = importlib.import_module("tvtf.summary.nodes")  # a room above: imported when it is asked for
        return nodes.graph_def([self])

    @property
    def inputs(self) -> list[SymbolicTensor]:
        """The parameters: arguments, and what comes from outside."""
        return self.all_params

    def get_operations(self) -> list[Operation]:
        """The ops, in order: a placeholder for each parameter, then the primitives, in TensorFlow's names."""
        tensors: dict[Any, Any] = {p._var: p for p in self.all_params}
        made = [Operation.of(p._var.name, "Placeholder", self, [], [p]) for p in self.all_params]
        owners: dict[Any, Operation] = {}
        for binding in self._trace.bindings:
            var, value = binding.var, binding.value
            tensors[var] = tensor = (
                SymbolicTensor(var, dialect.from_relax_type(var.ty), self._trace) if _has_dims(var) else None
            )
            if isinstance(value, relax.TupleGetItem):
                owners[value.tuple_value].outputs.append(tensor)
            elif dialect.is_dialect(value):
                bound = dialect.read(value)
                given = [tensors[x] for x in bound.inputs if x in tensors]
                outputs = [] if isinstance(var.ty, relax.TupleType) else [tensor]
                owners[var] = Operation.of(var.name, bound.primitive.tf_name, self, given, outputs)
                made.append(owners[var])
        return made

    def get_operation_by_name(self, name: str) -> Operation:
        """The op of this name.

        Raises:
          KeyError: there is none.
        """
        for operation in self.get_operations():
            if operation.name == name:
                return operation
        raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")

    def module(self) -> ir.IRModule:
        """The IRModule with this function as ``main`` and every function it reaches."""
        return self._module(self.function)

    def hopeful(self) -> ir.IRModule:
        """:meth:`module` for arguments whose dims are equal where those that differ would broadcast."""
        return self._module(_with_dims(self.function, self.hopes))

    @cached_property
    def hopes(self) -> dict[tirx.Var, Any]:
        """What unknown dims of the parameters are where no axis is repeated for others."""
        if not self.root.hopes:
            return {}
        own = [d for p in self.all_params if not isinstance(p._type.shape, AnyShape) for d in p._type.shape]
        symbols = [d for d in own if isinstance(d, tirx.Var)]
        return _unified([tuple(map(self.root.known_dim, pair)) for pair in self.root.hopes], symbols)

    def hoped_sizes(self) -> list[tuple[int, int, int]]:
        """The sizes among :attr:`hopes`, by parameter and axis: nobody checks these by themselves."""
        shapes = [() if isinstance(p._type.shape, AnyShape) else p._type.shape for p in self.all_params]
        places = [(i, axis, d) for i, shape in enumerate(shapes) for axis, d in enumerate(shape)]
        known = [(i, axis, self.hopes.get(d)) for i, axis, d in places if isinstance(d, tirx.Var)]
        return [(i, axis, size) for i, axis, size in known if isinstance(size, int)]

    @cached_property
    def told_sizes(self) -> list[tuple[int, int, int]]:
        """What tracing told of unknown dims of the parameters, by parameter and axis: code trusts its caller on sizes."""
        shapes = [() if p._var.ty.shape is None else p._var.ty.shape.values for p in self.all_params]
        places = [(i, axis, d) for i, shape in enumerate(shapes) for axis, d in enumerate(shape)]
        known = [(i, axis, self.root.known_dim(d)) for i, axis, d in places if isinstance(d, tirx.Var)]
        return [(i, axis, size) for i, axis, size in known if isinstance(size, int)]

    def entry(
        self,
        donations: Sequence[tuple[int, int]] = (),
        constants: Sequence[int] = (),
        known: Mapping[str, Any] | None = None,
        hopeful: bool = True,
    ) -> ir.IRModule:
        """The module to compile: as :meth:`module`, but one result comes bare, which is quicker to call.

        ``donations`` pair an output with the parameter whose memory it may take; ``constants`` are the parameters that
        are the same tensors in every call, ``known`` more attributes, of what is known of them; ``hopeful`` as in
        :meth:`hopeful`.
        """
        single = len(self.outputs) == 1 and isinstance(self.outputs[0]._var, relax.Var)
        attrs = {"tvtf.donate": [list(pair) for pair in donations], "tvtf.constants": list(constants)}
        return self.with_attributes({**attrs, **(known or {})}, bare=single, dims=self.hopes if hopeful else {})

    def with_attributes(self, attrs: Mapping[str, Any], bare: bool, dims: Mapping[Any, Any] = {}) -> ir.IRModule:
        """The module with attributes on ``main``; ``bare`` for its one result instead of a tuple of it."""
        function = _with_dims(self._build([self.outputs[0]._var]) if bare else self.function, dims)
        for name, value in attrs.items():
            function = function.with_attr(str(name), value)
        return self._module(function)

    def _module(self, function: relax.Function) -> ir.IRModule:
        if self.compute is not None:
            function = function.with_attr(COMPUTE, self.compute)
        return ir.IRModule({relax.GlobalVar("main"): function.with_attr("global_symbol", "main")} | self.reachable())

    def _build(self, result: list[Any]) -> relax.Function:
        """The function whose last binding, or only result, is ``result``."""
        *bindings, value = result
        body = relax.SeqExpr([relax.BindingBlock([*self._trace.bindings, *bindings])], value)
        _set_type(body, value.ty)
        params = [p._var for p in self.all_params]
        function = relax.Function(params, body, ret_ty=value.ty, is_pure=self.pure)
        if self.root.shapes_apart:  # its instances find out anew which dims are equal
            return function
        return _with_dims(function, self._trace.root.assumptions)

    def reachable(self) -> dict[ir.GlobalVar, relax.Function]:
        found = {}
        for var, graph in self.subgraphs.items():
            found[var] = graph.function
            found |= graph.reachable()
        return found


def _unified(pairs: Iterable[Sequence[Any]], own: Sequence[tirx.Var]) -> dict[tirx.Var, Any]:
    """Values of the symbols of ``own`` that make the dims of each pair equal; pairs that none can are left."""
    found: dict[tirx.Var, Any] = {}
    for pair in pairs:
        a, b = (substitute_dim(d, found) for d in pair)
        ways = [(s, d) for s, d in ((b, a), (a, b)) if isinstance(s, tirx.Var) and not _mentions(d, s)]
        if ways:
            symbol, dim = min(ways, key=lambda way: _is_among(way[0], own))
            found = {s: substitute_dim(d, {symbol: dim}) for s, d in found.items()} | {symbol: dim}
    return {s: d for s, d in found.items() if _is_among(s, own) and all(_is_among(v, own) for v in _symbols(d))}


def _is_among(symbol: tirx.Var, symbols: Sequence[tirx.Var]) -> bool:
    return any(symbol.same_as(s) for s in symbols)


def _symbols(dim: Any) -> Sequence[tirx.Var]:
    return [] if isinstance(dim, int) else list(tirx.analysis.undefined_vars(dim))


def _with_dims(function: relax.Function, assumed: Mapping[tirx.Var, Any]) -> relax.Function:
    """The function under the equalities of those dims that it uses.

    TVM renames the dims of parameters only; those that the function computes get a parameter for as long as that takes.
    """
    free = list(relax.analysis.free_symbolic_vars(function))
    found = [*relax.analysis.defined_symbolic_vars(function), *free]
    own = {symbol: value for symbol, value in assumed.items() if any(symbol.same_as(v) for v in found)}
    if not own:
        return function
    dims = relax.Var("dims", relax.TensorType([*own, *free], "int64"))
    wide = relax.Function([*function.params, dims], function.body, function.ret_ty, is_pure=function.is_pure)
    bound = wide.bind_symbolic_vars(own)
    return relax.Function(bound.params[:-1], bound.body, bound.ret_ty, is_pure=bound.is_pure)


class PythonCalls:
    """The calls of Python in a program, as Variables see them.

    A call of the user's own (``tf.py_function``) is a barrier: what was assigned before is written to the Variables, and they
    are read again after it. Others, as those of datasets, are none: a Variable that is used after one may not be assigned by
    it.
    """

    def __init__(self) -> None:
        self.barriers = 0
        self.settled: dict[int, Any] = {}  # Variables that were written at a barrier
        self.any = False  # whether one is no barrier
        self.in_control_flow = False  # all that is used in a loop is used after the call of an iteration before
        self.used_later: dict[int, Any] = {}

    @property
    def is_called(self) -> bool:
        return self.any or self.barriers > 0

    def add(self, in_control_flow: bool) -> None:
        self.any = True
        self.in_control_flow |= in_control_flow

    def note(self, variable: Any) -> None:
        if self.any:
            self.used_later[id(variable)] = variable

    def join(self, inner: PythonCalls, in_control_flow: bool) -> None:
        """Takes over those of a function that is called here."""
        self.settled |= inner.settled
        if inner.any:
            self.add(inner.in_control_flow or in_control_flow)
            self.used_later.update(inner.used_later)


class Trace:
    """One function being traced; see the module's docstring."""

    has_keys = False
    """Whether its tensors are keys of dictionaries, by identity."""
    make_variable: Any = None
    """What makes the Variables of a graph; elsewhere they are made eagerly."""

    def __init__(self, name: str, parent: Trace | None = None, caller: Trace | None = None) -> None:
        self.name = name
        self.parent = parent
        self.caller = caller  # of a function that is traced in another trace: that one
        self.functions: dict[Any, dict[Any, Any]] = {}  # traces of functions that capture tensors of this one
        self.root: Trace = parent.root if parent else self
        self.params: list[SymbolicTensor] = []
        self.captures: dict[int, tuple[Any, SymbolicTensor]] = {}
        self.variables: dict[int, tuple[Any, SymbolicTensor]] = {}
        self.bindings: list[relax.VarBinding] = []
        self.tensors: dict[relax.Var, SymbolicTensor] = {}  # by variable, for gradients of what was traced
        self.began = self.root.python.barriers if parent else 0
        self.known_at: dict[int, int] = {}  # how many barriers there were when a Variable was last read or assigned
        self.stored: set[int] = set()  # the Variables that hold what they were last assigned here
        self.memories: dict[int, SymbolicTensor] = {}
        self.constants: dict[int, tuple[Any, SymbolicTensor]] = {}
        self.subgraphs: dict[ir.GlobalVar, Graph] = {}
        self.pure: bool = True
        self.dim_examples: dict[Any, Any] = {}
        """By the symbol of a size that depends on ranks that are not known: what it is in examples of them."""
        self.fed: set[Any] = set()
        """What a graph's run may be given other values for: they are not known, whatever it has else."""
        self.holds_texts: bool = False
        self.given: Sequence[Any] = ()  # the arguments of the call that it is traced for
        outside = parent or caller
        self.tapes_around: list[Any] = [*(outside.tapes_around if outside else ()), *state.tapes]
        self.embedded: dict[int, Any] = {}  # of a root: the eager tensors that became constants of the IR
        self.element: tuple[SymbolicTensor, Any] | None = None  # which one a map traces it for, and of how many
        self.span: Any = None
        self.assumptions: dict[tirx.Var, Any] = {}
        self.hopes: list[tuple[Any, Any]] = []  # dims that broadcast, if they are not equal
        self.common: list[tuple[list[Any], Any]] = []  # dims that met, and what they broadcast to
        self.told: dict[relax.Var, Any] = {}  # what the elements of integer tensors are as dims, where that was asked
        self.calls_tell = False  # whether sizes that it needs may be had by a trace for each shape
        self.may_wait = False  # whether calls that need sizes may wait for them
        self.shapes_apart = False  # whether one does
        self.has_sizes = False  # whether it is the instance of a function for the shapes of a call
        self.is_for_shapes = False  # whether it is for those of a call, of arguments whose sizes are unknown
        self.has_ranks = False  # whether it is the instance of a function of any rank
        self.ranks: Mapping[int, tuple[int, ...]] = {}  # of what Python gave, by the calls that wait for them
        self.example: int | None = None  # which of the ranks that are tried, where it is for an example
        self.waiting: dict[int, Any] | None = None  # the calls that wait for a rank, where the function is of any
        self.scopes: dict[relax.Var, str] = {}
        self.python: PythonCalls = PythonCalls()  # of the outermost trace
        self.array_writes: list[Any] = []  # the indices at which arrays of dynamic size were written, in order
        self.final_rows: set[Any] = set()  # the dims of arrays that have all the rows that their loop writes
        self.room_for: Any = None  # of a loop's body: the set of what arrays have room for, if not for all it counts
        self._names = {"main": 0}

    # -- inputs

    def add_param(self, tensor_type: TensorType, name: str = "arg") -> SymbolicTensor:
        param = self._symbol(tensor_type, name)
        self.params.append(param)
        return param

    def _symbol(self, tensor_type: TensorType, name: str) -> SymbolicTensor:
        self._note(tensor_type)
        if isinstance(tensor_type.shape, AnyShape) and self.root.waiting is None:
            self.root.waiting = {}
        var = relax.Var(self.unique(name), dialect.to_relax_type(tensor_type))
        return self._tensor(var, tensor_type)

    def _tensor(self, var: relax.Var, tensor_type: TensorType) -> SymbolicTensor:
        tensor = self.tensors[var] = SymbolicTensor(var, tensor_type, self)
        return tensor

    def _note(self, tensor_type: TensorType) -> None:
        self.root.holds_texts |= tensor_type.dtype is string

    def unique(self, name: str) -> str:
        count = self._names[name] = self._names.get(name, -1) + 1
        return self.unique(f"{name}_{count}") if count else name

    def name_of(self, tensor: SymbolicTensor) -> str:
        return f"{getattr(tensor._var, 'name', 'Const')}:0"

    def operation_of(self, tensor: SymbolicTensor) -> Operation:
        """The op that gives a tensor."""
        name = self.name_of(tensor).removesuffix(":0")
        made = {b.var: b.value for b in self.bindings}.get(tensor._var)
        known = made is not None and dialect.is_dialect(made)
        return Operation.of(name, dialect.read(made).primitive.tf_name if known else "Placeholder", self, [], [tensor])

    def evaluate(self, tensor: SymbolicTensor, feed_dict: Any, session: Any) -> Any:
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    @cached_property
    def computed_constants(self) -> ComputedConstants:
        return ComputedConstants(self)

    def owns(self, tensor: SymbolicTensor) -> bool:
        return tensor._trace is self

    def own(self, tensor: Tensor) -> SymbolicTensor:
        """``tensor`` as one of this trace: itself, a constant, or a capture."""
        if not isinstance(tensor, SymbolicTensor):
            watched = tensor.is_batched or any(tape.watches(tensor) for tape in self.tapes_around)
            return self.capture(tensor, tensor._type, "watched") if watched else self._constant(tensor)
        return tensor if tensor._trace is self else self._capture_symbol(tensor)

    def _capture_symbol(self, tensor: SymbolicTensor) -> SymbolicTensor:
        if not self.encloses(tensor):
            raise InaccessibleTensorError(
                f"{tensor!r} is out of scope and cannot be used here. Use return values, explicit Python locals or "
                f"TensorFlow collections to access it. It was defined while tracing {tensor._trace.name!r} and is used "
                f"in {self.name!r}."
            )
        inner = self.capture(tensor, tensor._type, "captured")
        inner.known, inner.claimed = tensor.known, tensor.claimed
        return inner

    def encloses(self, tensor: SymbolicTensor) -> bool:
        return any(tensor._trace is trace for trace in self.enclosing())

    def enclosing(self) -> Iterator[Trace]:
        """The traces whose tensors can be used in this one, itself first: those that it is a part of, or is called in."""
        trace: Trace | None = self
        while trace is not None:
            yield trace
            trace = trace.parent or trace.caller

    @property
    def scope(self) -> Trace | None:
        """The innermost trace whose tensors it captures: it can't be used outside that one."""
        owners = [outer._trace for outer, _ in self.captures.values() if isinstance(outer, SymbolicTensor)]
        return next((trace for trace in self.enclosing() if any(trace is owner for owner in owners)), None)

    def capture(self, outer: Any, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """The parameter that stands for something outside: an outer tensor, an eager tensor or a Variable."""
        known = self.captures.get(id(outer))
        if known is None:
            known = self.captures[id(outer)] = (outer, self._symbol(tensor_type, name))
        return known[1]

    def _constant(self, tensor: Tensor) -> SymbolicTensor:
        array = tensor.eager_array()
        if isinstance(tensor, EagerTensor) and (array.size > EMBEDDED_ELEMENTS or not _is_plain(tensor)):
            return self.pass_in(tensor)
        known = self.constants.get(id(tensor))
        if known is None:
            known = self.constants[id(tensor)] = (tensor, self.embed(tensor))
            self.root.embedded[id(tensor)] = tensor
        return known[1]

    def own_constant(self, tensor: EagerTensor, name: str | None = None) -> Tensor:
        """A constant made while tracing: symbolic, as in TensorFlow, where the compiler has its type."""
        return self._constant(tensor)

    def pass_in(self, tensor: EagerTensor) -> SymbolicTensor:
        """An eager tensor as a parameter of the outermost trace: the IR holds neither its value nor its identity."""
        if self.parent is None:
            return self.capture(tensor, tensor._type, "constant")
        return self.capture(self.parent.pass_in(tensor), tensor._type, "constant")

    def embed(self, tensor: Tensor) -> SymbolicTensor:
        """A constant of the IR; a complex one is made of two."""
        dialect.to_relax_type(tensor._type)
        array = tensor.eager_array()
        if tensor.dtype.is_complex:
            return self.emit(table["complex"], [EagerTensor(array.real.copy()), EagerTensor(array.imag.copy())], {})
        constant = relax.const(np.ascontiguousarray(array).reshape(array.shape), tensor.dtype.name)
        symbol = SymbolicTensor(constant, tensor._type, self)
        symbol.known = array.astype(object) if tensor.dtype.is_integer else None
        return symbol

    # -- unknown dims that turned out to be equal

    def known_dim(self, dim: Any) -> Any:
        """``dim`` under the equalities assumed so far."""
        return substitute_dim(dim, self.assumptions)

    def assume_equal(self, a: Any, b: Any) -> bool:
        """Lets an unknown be what makes two dims equal: one of them, or what stands plainly in dims of the arguments."""
        a, b = self.known_dim(a), self.known_dim(b)
        shapes = [t._type.shape for t in self.params if not isinstance(t._type.shape, AnyShape)]
        given = {symbol for shape in shapes for dim in shape for symbol in _symbols(dim)}
        for symbol, value in ((b, a), (a, b)):
            # A call tells a symbol where it first stands plainly: the arguments' are told before those that running tells.
            is_told = symbol not in given or isinstance(value, tirx.Var) or given.issuperset(_symbols(value))
            if isinstance(symbol, tirx.Var) and not _mentions(value, symbol) and is_told:
                self._assume(symbol, value)
                return True
        found = solved(a, b) if given.issuperset([*_symbols(a), *_symbols(b)]) else None
        if found is not None:
            self._assume(*found)
        return found is not None

    def _assume(self, symbol: tirx.Var, value: Any) -> None:
        earlier = {k: substitute_dim(v, {symbol: value}) for k, v in self.assumptions.items()}
        self.assumptions = earlier | {symbol: value}

    # -- unknown dims that broadcast, where one is 1

    def common_dim(self, dims: Sequence[Any]) -> Any:
        """What dims that met before broadcast to; None for others."""
        met = self._that_met(dims)
        for trace in self._around():
            for known, dim in trace.common:
                if len(known) == len(met) and all(_is_dim_among(d, known) for d in met):
                    return dim
        return None

    def meets(self, dims: Sequence[Any], dim: Any) -> None:
        """Notes what dims broadcast to."""
        self.common.append((self._that_met(dims), dim))

    def _that_met(self, dims: Sequence[Any]) -> list[Any]:
        """The dims, with those that met instead of what they broadcast to."""
        found: list[Any] = []
        for dim in dims:
            met = next((known for t in self._around() for known, wide in t.common if same_dim(wide, dim)), [dim])
            found += [d for d in met if not _is_dim_among(d, found)]
        return found

    def _around(self) -> Iterator[Trace]:
        trace: Trace | None = self
        while trace is not None:
            yield trace
            trace = trace.parent

    # -- variables: parameters of the outermost trace, threaded through the inner ones

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """The variable's value at this point of the program, as a tensor of its own."""
        self.root.python.note(variable)
        return self._value_of(variable).alias()

    def _value_of(self, variable: Any) -> SymbolicTensor:
        known = self.variables.get(id(variable))
        if known is None or self._is_stale(variable):
            return self._read_now(variable)
        return known[1]

    def _is_stale(self, variable: Any) -> bool:
        """Whether Python may have assigned it since it was last read or assigned here."""
        return self.known_at[id(variable)] < self.root.python.barriers and not variable.is_argument

    def _read_now(self, variable: Any) -> SymbolicTensor:
        is_reloaded = self.root.python.barriers > self.began and not variable.is_argument
        if is_reloaded:
            self.settle()
        value = hooks.reload(variable, self) if is_reloaded else self._first_read(variable)
        self._remember(variable, value, is_reloaded)
        return value

    def _remember(self, variable: Any, value: SymbolicTensor, is_stored: bool) -> None:
        self.variables[id(variable)] = (variable, value)
        self.known_at[id(variable)] = self.root.python.barriers
        (self.stored.add if is_stored else self.stored.discard)(id(variable))

    def _first_read(self, variable: Any) -> SymbolicTensor:
        return self.value_at_entry(variable) if self.parent is None else self.own(self.parent._value_of(variable))

    def value_at_entry(self, variable: Any) -> SymbolicTensor:
        """What a variable holds when the outermost function is called."""
        name = variable._shared_name.rpartition("/")[2] or "variable"
        return self.root.capture(variable, self._type_of(variable, name), name)

    def value_before(self, variable: Any) -> SymbolicTensor:
        """What a variable holds here, for control flow that is bound next: Python that it calls is still to come."""
        known = self.variables.get(id(variable))
        return self._value_of(variable) if known is None else known[1]

    def read_before(self, variable: Any, value: SymbolicTensor) -> SymbolicTensor:
        """A reading for that control flow of ``value``, which the variable holds here."""
        return value.alias()

    def take_variables(self, other: Trace, values: Sequence[SymbolicTensor]) -> None:
        """What Variables hold at the end of ``other``, whose calls were bound here again, in the order of its Variables."""
        for (variable, _), value in zip(other.variables.values(), values):
            self.variables[id(variable)] = (variable, value)
        self.known_at, self.stored, self.began = dict(other.known_at), set(other.stored), other.began

    # -- variables around calls of Python

    def settle(self) -> None:
        """Writes what was assigned so far to the Variables, where Python sees it."""
        for variable, value in self.assigned():
            if not variable.is_argument:
                hooks.store(variable, value, self)
                self.root.python.settled[id(variable)] = variable
                self.stored.add(id(variable))

    @property
    def is_after_python(self) -> bool:
        """Whether Python was called since this trace began: Variables are read and written where they are."""
        return self.root.python.barriers > self.began

    def _type_of(self, variable: Any, name: str) -> TensorType:
        """A Variable's type: dims that assignments may change are unknown, and so is the rank, but where ranks are given."""
        declared, (shape, dtype) = variable.shape, variable._type
        if self.root.has_sizes:
            return variable._type  # type: ignore[no-any-return]
        if declared.rank is not None:
            return TensorType(_filled_in(name, declared), dtype)
        if self.root.has_ranks:
            return TensorType(_filled_in(name, [None] * len(shape)), dtype)
        return TensorType(example_shape(name, len(shape)), dtype)

    def memory_of(self, variable: Any) -> SymbolicTensor:
        """The parameter of the outermost trace that stands for the variable: apart from its value, which loops carry."""
        if id(variable) not in self.memories:
            self.memories[id(variable)] = self._first_read(variable).alias()
        return self.memories[id(variable)]

    def assign_variable(self, variable: Any, value: SymbolicTensor, is_stored: bool = False) -> None:
        self._remember(variable, self.own(value), is_stored)

    def updates(self, value: SymbolicTensor) -> None:
        """``value``, which is assigned next, was made of what the variable holds."""

    def assigned_value(self, variable: Any, read_value: bool) -> Any:
        """What an assignment just bound gives."""
        return variable._as_tensor() if read_value else None

    def assigned(self) -> list[tuple[Any, SymbolicTensor]]:
        """The variables whose value here is neither the one that came in nor the one they hold, with their new values."""
        incoming = {id(x) for x in [*self.params, *(inner for _, inner in self.captures.values())]}
        known = self.variables.values()
        return [(v, value) for v, value in known if id(value) not in incoming and id(v) not in self.stored]

    # -- order: a program keeps the one in which it was written; graphs of TensorFlow 1 have to be told

    def after(self, control_inputs: Sequence[Any]) -> AbstractContextManager[None]:
        """What is written inside runs after these."""
        self.root.waits_for(control_inputs)
        return nullcontext()

    def seeing_assignments_before(self, tensors: Iterable[Any]) -> AbstractContextManager[Any]:
        """Variables that are read inside hold what was assigned before these were computed, where the order has to be told."""
        return nullcontext()

    def waits_for(self, control_inputs: Sequence[Any]) -> None:
        """Where the order of the program is not kept: has the op whose branch is traced wait for what is outside."""

    def together(self, *values: SymbolicTensor) -> AbstractContextManager[None]:
        """What is written inside, and what uses ``values``, runs as a whole or not at all."""
        return nullcontext()

    def operation(self, kind: str, name: str | None, inputs: Sequence[Any]) -> Operation:
        """What stands for ``inputs`` being done."""
        return Operation(kind, name)

    def doing(self, kind: str, name: str | None, work: Callable[[], Any]) -> Operation:
        """What stands for ``work``, which binds calls that have effects and give nothing."""
        work()
        return Operation(kind, name)

    # -- bindings

    def emit(self, prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Binds a primitive's call and returns its symbolic result(s); where it needs a rank that isn't known, the call waits."""
        try:
            return self._emit(prim, inputs, attrs)
        except (UnknownRank, UnknownSizes) as needed:
            return hooks.wait(prim.bind, tuple(inputs), attrs, needed, recorded=False)

    def _emit(self, prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        own = [self.own(x) for x in inputs]
        graphs: dict[str, Graph] = {}
        for name in filter(lambda name: _is_function(attrs[name]), attrs):
            graphs[name] = self._graph_of(prim, name, own, attrs | graphs)
        types = prim.typed(*(x._type for x in own), **(attrs | graphs))
        for each in [types] if type(types) is TensorType else types:
            require_countable(each, prim.tf_name)
        written = attrs | {k: self._graph_var(g) for k, g in graphs.items()}
        if not all(g.pure for name, g in graphs.items() if name not in LATER):
            prim = table[f"effect_{prim.name.removeprefix('effect_')}"]
        call = dialect.write(prim, [x._var for x in own], written, dialect.to_relax_types(types), self._span())
        self.pure = self.pure and prim.pure
        result = _with_value(prim, own, attrs, self._bind(call, types, prim.name))
        if any(x.claimed is not None for x in own):
            self._claim(prim, own, attrs | graphs, as_tuple(result))
        return result

    def _claim(
        self, prim: Primitive[Any], inputs: Sequence[SymbolicTensor], attrs: dict[str, Any], results: Sequence[Any]
    ) -> None:
        """Has results show the shapes that follow from those which ``set_shape`` claimed of inputs."""
        root = self.root
        sizes = {d: size for x in inputs if x.claimed for d, size in zip(x._type.shape, x.claimed) if size is not None}
        symbols = {d: size for d, size in sizes.items() if isinstance(d, tirx.Var)}
        assumed = root.assumptions, list(root.hopes), list(self.common)
        try:
            shown = prim.typed(
                *(x.shown_type for x in inputs), **{k: _with_sizes(v, symbols) for k, v in attrs.items()}
            )
        except (TypeError, ValueError, OpError, UnknownRank, UnknownSizes):
            return  # what is claimed does not fit: what is so holds
        finally:
            root.assumptions, root.hopes, self.common = assumed
        for each, result in zip([shown] if type(shown) is TensorType else shown, results):
            shape = TensorShape(each.shape)
            if (
                isinstance(result, SymbolicTensor)
                and shape.rank is not None
                and shape.as_list() != result.shape.as_list()
            ):
                result.claimed = shape

    def _bind(self, call: relax.Call, types: Any, name: str) -> Any:
        var = relax.Var(self.unique(name), call.ty)
        self.bindings.append(relax.VarBinding(var, call))
        if state.name_scopes:
            self.scopes[var] = "".join(f"{scope}/" for scope in state.name_scopes)
        if type(types) is TensorType:
            self._note(types)
            return self._tensor(var, types)
        return tuple(self._item(var, i, t, name) for i, t in enumerate(types))

    def _span(self) -> ir.Span | None:
        """The line of what is bound: while passes run, that of what they rewrite, if any."""
        return self.span or (None if state.compiling else user_span())

    def _item(self, tuple_var: relax.Var, index: int, tensor_type: TensorType, name: str) -> SymbolicTensor:
        item = self._symbol(tensor_type, f"{name}_{index}")
        self.bindings.append(relax.VarBinding(item._var, relax.TupleGetItem(tuple_var, index)))
        return item

    def _graph_of(
        self, prim: Primitive[Any], name: str, inputs: Sequence[SymbolicTensor], attrs: dict[str, Any]
    ) -> Graph:
        """A function attribute as a graph of this trace; it is applied to the last inputs where ``operands`` says no other."""
        function = attrs[name]
        if isinstance(function, Graph):
            return function
        params = function.mod[function.name].params
        given = [x._type for x in inputs]
        types = prim.operands(name, given, attrs) if prim.operands else given[len(given) - len(params) :]
        with tracing(Trace(function.name, self)) as inner:
            outputs = function(*[inner.add_param(t, p.name) for t, p in zip(types, params)])
        return inner.finish(outputs)

    def _graph_var(self, graph: Graph) -> ir.GlobalVar:
        for var, known in self.subgraphs.items():
            if known is graph:
                return var
        if graph.root is not self.root:
            graph = graph_copier(graph, self)
        var = relax.GlobalVar(self.root.unique(graph.name))
        _set_type(var, graph.function.ty)
        self.subgraphs[var] = graph
        return var

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        return Graph(self, [self.own(t) for t in outputs])


def _filled_in(name: str, dims: Iterable[int | None]) -> tuple[Any, ...]:
    """A shape with new symbols for its unknown dims."""
    return tuple(fresh_dim(f"{name}_{i}") if d is None else d for i, d in enumerate(dims))


def example_shape(name: str, rank: int = RANKS[0]) -> AnyShape:
    """The shape of what may have any rank; the first example is of the given one."""
    apart = rank - RANKS[0]
    ranks = (rank, RANKS[1] + apart, *RANKS[2:])
    return AnyShape(lambda index: _filled_in(name, [None] * ranks[index]))


def _with_sizes(value: Any, sizes: Mapping[tirx.Var, int]) -> Any:
    """An attribute with symbols replaced in its dims."""
    if type(value) is tuple:
        return tuple(_with_sizes(part, sizes) for part in value)
    return substitute_dim(value, sizes) if isinstance(value, ir.Expr) else value


def _has_dims(var: relax.Var) -> bool:
    return isinstance(var.ty, relax.TensorType) and var.ty.shape is not None


def _is_plain(tensor: EagerTensor) -> bool:
    """Whether the IR can hold it: it has no strings, and is nobody in particular."""
    return not tensor.has_identity and tensor.dtype is not string


def _is_function(value: Any) -> bool:
    """Whether an attribute is a graph, or a function of a module that is evaluated."""
    return isinstance(value, Graph) or hasattr(value, "mod")


def graph_copier(graph: Graph, trace: Trace) -> Graph:
    """Re-emits a graph of another trace under ``trace``; its captures are none by then (they were lifted to inputs)."""
    from tvtf.ir.interpreter import evaluate

    with tracing(Trace(graph.name, trace)) as inner:
        params = [inner.add_param(p._type, p._var.name) for p in graph.all_params]
        outputs = evaluate(graph.module(), "main", params)
    return inner.finish(outputs)


@contextmanager
def tracing(trace: Trace) -> Any:
    """Makes ``trace`` the thread's active one; tapes around it don't see inside."""
    outer, tapes = state.trace, state.tapes
    state.trace, state.tapes = trace, list(state.observers)
    try:
        yield trace
    finally:
        state.trace, state.tapes = outer, tapes


def trace_graph(
    name: str, function: Callable[..., Any], types: Sequence[TensorType], parent: Trace | None = None
) -> Graph:
    """The graph of ``function`` over tensors of the given types."""
    with tracing(Trace(name, parent)) as trace:
        params = [trace.add_param(t) for t in types]
        outputs = as_tuple(function(*params))
    return trace.finish(outputs)


user_lines: dict[str, dict[int, tuple[str, int]]] = {}
"""By file of generated code, the user's file and line that each of its lines stands for; AutoGraph fills it."""


def is_own_code(path: str) -> bool:
    """Whether a file is tvtf's, or of a tool it runs user code through."""
    return path.startswith(_OWN_FOLDERS)


@contextmanager
def compiling() -> Iterator[None]:
    """Ops that passes add for themselves have no line: the user's frame is then only where code was first needed."""
    outer, state.compiling = state.compiling, True
    try:
        yield
    finally:
        state.compiling = outer


def user_span() -> ir.Span:
    """The user's file and line: the innermost frame that is not tvtf's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FOLDERS):
        frame = frame.f_back
    path, line = _user_line(frame.f_code.co_filename, frame.f_lineno)
    return ir.Span(_source_name(path), line, line, 0, 0)


def _user_line(path: str, line: int) -> tuple[str, int]:
    """Where the user wrote a line of generated code; the nearest line before it where it stands for none itself."""
    lines = user_lines.get(path)
    if lines is None:
        return path, line
    before = [n for n in lines if n <= line]
    return lines[max(before)] if before else (path, line)


_sources: dict[str, ir.SourceName] = {}


def _source_name(path: str) -> ir.SourceName:
    known = _sources.get(path)
    if known is None:
        known = _sources[path] = ir.SourceName(path)
    return known


def _is_dim_among(dim: Any, dims: Iterable[Any]) -> bool:
    return any(same_dim(dim, d) for d in dims)


def _mentions(dim: Any, symbol: tirx.Var) -> bool:
    return not isinstance(dim, int) and any(symbol.same_as(v) for v in tirx.analysis.undefined_vars(dim))


def _tuple_result(outputs: Sequence[SymbolicTensor]) -> list[Any]:
    result = relax.Tuple([t._var for t in outputs])
    var = relax.Var("outputs", result.ty)
    return [relax.VarBinding(var, result), var]


def _set_type(expr: Any, ty: Any) -> None:
    from tvm.relax import _ffi_api

    _ffi_api.UpdateType(expr, ty)


def _with_value(prim: Primitive[Any], inputs: Sequence[SymbolicTensor], attrs: dict[str, Any], result: Any) -> Any:
    """Keeps what is known of integer values computed from shapes (see the ``value`` column)."""
    if prim.value is not None:
        result.known = _as_dtype(prim.value(*inputs, **attrs), result._type.dtype)
    return result


def _as_dtype(known: Any, dtype: DType) -> np.ndarray | None:
    """Known values as Python's integers and dims, as the dtype holds them."""
    if known is None:
        return None
    if isinstance(known, np.ndarray) and known.dtype == dtype.np:
        return known.astype(object)
    return _in_range(np.asarray(known, object), dtype)


def _in_range(known: np.ndarray, dtype: DType) -> np.ndarray | None:
    """Known values as the dtype holds them: integers wrap around; dims of a narrow dtype may, and are then not known."""
    if dtype.size < int32.size and not all(isinstance(d, int) for d in known.flat):
        return None
    least, count = int(dtype.min), 1 << (8 * dtype.size)
    if all(not isinstance(d, int) or 0 <= d - least < count for d in known.flat):
        return known
    wrapped = [(d - least) % count + least if isinstance(d, int) else d for d in known.flat]
    return np.array([*wrapped, None], object)[:-1].reshape(known.shape)
