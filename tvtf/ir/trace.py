"""Tracing: runs Python on symbolic tensors and records what it does as Relax bindings.

A :class:`Trace` collects the bindings of one function while the user's Python runs. :meth:`Trace.finish` turns it into a
:class:`Graph`: a closed Relax function and the list of its captures. Branches and loop bodies are traces whose parent is the
enclosing trace. In them a tensor of an outer trace becomes a capture; Variables are parameters of the outermost trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import numpy as np
from tvm import ir, relax, tirx

from tvtf.core.allocation_check import require_countable
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import Primitive, as_tuple, hooks, table
from tvtf.core.shape import TensorShape, TensorType, same_dim, solve_for_symbol, substitute_dim
from tvtf.core.specialization import Level, Specialization, Unspecialized
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.core.thread_state import precision, state
from tvtf.core.variable_lock import cached_property
from tvtf.dtypes import DType, int32, string
from tvtf.errors import InaccessibleTensorError, OpError
from tvtf.ir import dialect
from tvtf.ir.computed_constants import ComputedConstants
from tvtf.ir.dialect import example_shape, filled_in
from tvtf.ir.dim_equations import is_among, solved_equations, symbols_of, with_dims, with_readable_dims
from tvtf.ir.graph_def import graph_def
from tvtf.ir.python_calls import PythonCalls
from tvtf.ir.traced_operations import TracedOperations
from tvtf.ir.user_lines import user_span

COMPUTE = "tvtf.compute"
"""The attribute of ``main`` that names the 16-bit type in which it computes products (mixed precision)."""

GRADIENT_FUNCTIONS = ("backward",)
"""Function attributes that only the gradient runs: their side effects do not make the primitive's call impure."""

CONTROL_FLOW = ("cond", "while")
"""Primitives whose functions all take the call's last operands, among them what they capture."""

EMBEDDED_ELEMENTS = 16
"""Eager tensors up to this size become constants of the IR; larger ones become parameters, to keep data out of the IR."""


class Graph:
    """A finished trace: a Relax function, its captures, and the graphs it calls."""

    def __init__(self, trace: Trace, outputs: Sequence[SymbolicTensor]) -> None:
        """Builds the Relax function of a finished trace. The function returns ``outputs`` as a tuple."""
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

    def capturing(self, captured: Sequence[Any]) -> Graph:
        """Returns the graph with a parameter for each object in ``captured``, in this order, and for no other capture."""
        for outer in captured:
            self._trace.capture(outer, outer._type, "captured")
        self._trace.captures = {id(outer): self._trace.captures[id(outer)] for outer in captured}
        return self._trace.finish(self.outputs)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Converts the graph to a GraphDef message, for TensorBoard and other readers. Each primitive becomes a node.

        TensorFlow's parameters ``from_version`` and ``add_shapes`` have no effect.

        Raises:
          ImportError: the ``tensorboard`` extra is not installed.
        """
        return graph_def([self])

    @property
    def inputs(self) -> list[SymbolicTensor]:
        """The parameters: arguments, then captures."""
        return self.all_params

    def get_operations(self) -> list[Operation]:
        """Returns the graph's ops as TensorFlow lists them: a placeholder for each parameter, then the calls in order."""
        tensors: dict[Any, Any] = {p._var: p for p in self.all_params}
        operations = [Operation.of(p._var.name, "Placeholder", self, [], [p]) for p in self.all_params]
        producers: dict[Any, Operation] = {}
        for binding in self._trace.bindings:
            var, value = binding.var, binding.value
            tensor = None  # for a tuple of results, or a result of unknown rank
            if _has_dims(var):
                tensor = SymbolicTensor(var, dialect.from_relax_type(var.ty), self._trace)
            tensors[var] = tensor
            if isinstance(value, relax.TupleGetItem):  # one of several outputs of an op that is listed already
                producers[value.tuple_value].outputs.append(tensor)
            elif dialect.is_dialect(value):
                call = dialect.read(value)
                inputs = [tensors[x] for x in call.inputs if x in tensors]
                # The outputs of a tuple are added at their TupleGetItem bindings, which follow.
                outputs = [] if isinstance(var.ty, relax.TupleType) else [tensor]
                producers[var] = Operation.of(var.name, call.primitive.tf_name, self, inputs, outputs)
                operations.append(producers[var])
        return operations

    def get_operation_by_name(self, name: str) -> Operation:
        """Returns the graph's op with the given name.

        Raises:
          KeyError: no op of the graph has this name.
        """
        for operation in self.get_operations():
            if operation.name == name:
                return operation
        raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")

    def module(self) -> ir.IRModule:
        """Returns the IRModule with this function as ``main`` and all functions that it reaches."""
        return self._module(self.function)

    def speculative_module(self) -> ir.IRModule:
        """Returns :meth:`module` specialized for arguments with equal dims wherever different dims would broadcast."""
        return self._module(with_dims(self.function, self.speculated_equalities))

    @cached_property
    def speculated_equalities(self) -> dict[tirx.Var, Any]:
        """Values of the parameters' symbolic dims under which no broadcast repeats an operand along an axis.

        Tracing recorded pairs of dims that broadcast unless they are equal. These pairs are solved as equations. For
        example, the pair ``(n, m)`` can give ``{n: m}``.
        """
        if not self.root.speculated_equalities:
            return {}
        symbols: list[tirx.Var] = []
        for param in self.all_params:
            shape = param._type.shape
            if not isinstance(shape, AnyShape):
                symbols += [dim for dim in shape if isinstance(dim, tirx.Var)]
        known_dim = self.root.known_dim
        equations = [(known_dim(left), known_dim(right)) for left, right in self.root.speculated_equalities]
        return solved_equations(equations, symbols)

    def speculated_sizes(self) -> list[tuple[int, int, int]]:
        """Returns ``(parameter, axis, size)`` for each symbolic dim with a number in :attr:`speculated_equalities`.

        ``parameter`` is the index of a parameter. The caller must check that the argument has this size along the axis:
        compiled code does not compare an argument's size with a number.
        """
        sizes = []
        for i, param in enumerate(self.all_params):
            shape = param._type.shape
            if isinstance(shape, AnyShape):  # of unknown rank
                continue
            for axis, dim in enumerate(shape):
                size = self.speculated_equalities.get(dim) if isinstance(dim, tirx.Var) else None
                if isinstance(size, int):
                    sizes.append((i, axis, size))
        return sizes

    @cached_property
    def inferred_sizes(self) -> list[tuple[int, int, int]]:
        """``(parameter, axis, size)`` for each symbolic dim that must equal a number, as tracing found.

        ``parameter`` is the index of a parameter. The caller must check that the argument has this size along the axis:
        compiled code does not compare an argument's size with a number.
        """
        sizes = []
        for i, param in enumerate(self.all_params):
            shape = param._var.ty.shape
            if shape is None:  # of unknown rank
                continue
            for axis, dim in enumerate(shape.values):
                size = self.root.known_dim(dim) if isinstance(dim, tirx.Var) else None
                if isinstance(size, int):
                    sizes.append((i, axis, size))
        return sizes

    def entry(
        self,
        donations: Sequence[tuple[int, int]] = (),
        constants: Sequence[int] = (),
        known: Mapping[str, Any] | None = None,
        speculative: bool = True,
    ) -> ir.IRModule:
        """Returns the IRModule to compile.

        The IRModule differs from :meth:`module` in attributes of ``main`` and in the result. A single result is returned
        without a tuple, because such a function is faster to call.

        Args:
          donations: pairs of an output's and a parameter's index; the output may reuse the parameter's memory.
          constants: indices of the parameters that are the same tensors in every call.
          known: more attributes of ``main``.
          speculative: whether to specialize for equal dims, as :meth:`speculative_module` does.
        """
        single = len(self.outputs) == 1 and isinstance(self.outputs[0]._var, relax.Var)
        attrs = {"tvtf.donate": [list(pair) for pair in donations], "tvtf.constants": list(constants)}
        return self.with_attributes(
            {**attrs, **(known or {})}, bare=single, dims=self.speculated_equalities if speculative else {}
        )

    def with_attributes(self, attrs: Mapping[str, Any], bare: bool, dims: Mapping[Any, Any] = {}) -> ir.IRModule:
        """Returns the IRModule of this graph with attributes added to ``main``.

        Args:
          attrs: the attributes by name.
          bare: whether ``main`` returns its only result without a tuple.
          dims: dims or numbers that replace symbolic dims.
        """
        function = with_dims(self._build([self.outputs[0]._var]) if bare else self.function, dims)
        for name, value in attrs.items():
            function = function.with_attr(str(name), value)
        return self._module(function)

    def _module(self, function: relax.Function) -> ir.IRModule:
        """Returns an IRModule with ``function`` as ``main`` and with all functions that the graph calls."""
        if self.compute is not None:
            function = function.with_attr(COMPUTE, self.compute)
        return ir.IRModule({relax.GlobalVar("main"): function.with_attr("global_symbol", "main")} | self.reachable())

    def _build(self, bindings_and_result: list[Any]) -> relax.Function:
        """Returns the trace as a closed Relax function.

        Args:
          bindings_and_result: bindings to append to the trace's, and at last the expression that the function returns.
        """
        *bindings, value = bindings_and_result
        body = relax.SeqExpr([relax.BindingBlock([*self._trace.bindings, *bindings])], value)
        _set_type(body, value.ty)
        params = [p._var for p in self.all_params]
        function = relax.Function(params, body, ret_ty=value.ty, is_pure=self.pure)
        if self.root.specialization.needs_shapes:  # each trace for one call's shapes infers the equal dims itself
            return function
        return with_dims(function, self._trace.root.assumptions)

    def reachable(self) -> dict[ir.GlobalVar, relax.Function]:
        """Returns the functions that this one calls, directly or through others."""
        functions = {}
        for var, graph in self.subgraphs.items():
            functions[var] = graph.function
            functions |= graph.reachable()
        return functions


class Trace(TracedOperations):
    """A function being traced; see the module's docstring."""

    copy_graph: ClassVar[Callable[[Graph, Trace], Graph]]
    """Re-emits a graph of another trace in this one. Set by `interpreter`, which imports this module."""
    has_keys = False
    """Whether tensors are hashable by identity, as keys of a ``feed_dict``: only those of TensorFlow 1's graphs are."""
    builds_function = True
    """Whether this is the trace of a function, as all are but TensorFlow 1's graphs."""
    make_variable: Any = None
    """Creates the Variables of a TensorFlow 1 graph; in other traces they are created eagerly."""

    def __init__(
        self,
        name: str,
        parent: Trace | None = None,
        caller: Trace | None = None,
        specialization: Specialization | None = None,
    ) -> None:
        self.name = name
        self.parent = parent
        self.caller = caller  # the trace that calls this function, where the function may capture its tensors
        self.functions: dict[Any, dict[Any, Any]] = {}  # traces of functions that capture tensors of this trace
        self.root: Trace = parent.root if parent else self
        self.specialization: Specialization = parent.specialization if parent else specialization or Specialization()
        self.params: list[SymbolicTensor] = []
        self.captures: dict[int, tuple[Any, SymbolicTensor]] = {}
        self.variables: dict[int, tuple[Any, SymbolicTensor]] = {}
        self.bindings = []
        self.tensors = {}
        self.barriers_at_start = self.root.python.barriers if parent else 0
        self.barriers_at_access: dict[int, int] = {}  # the number of barriers at a Variable's last read or assignment
        self.stored: set[int] = set()  # the Variables whose memory already holds the value last assigned here
        self.memories: dict[int, SymbolicTensor] = {}
        self.constants: dict[int, tuple[Any, SymbolicTensor]] = {}
        self.subgraphs: dict[ir.GlobalVar, Graph] = {}
        self.pure: bool = True
        self.is_in_branch: bool = parent.is_in_branch if parent else False  # whether a call may leave its code out
        self.fed: set[Any] = set()
        """The variables that a ``feed_dict`` may replace: no constant value of them is known."""
        self.static_uses: set[Any] | None = parent.static_uses if parent else caller.static_uses if caller else None
        """In a TensorFlow 1 graph: the variables and constants whose values determined its shapes, attributes or ops."""
        self.holds_texts: bool = False
        self.call_args: Sequence[Any] = ()  # the arguments of the call that it is traced for
        outside = parent or caller
        self.tapes_around: list[Any] = [*(outside.tapes_around if outside else ()), *state.tapes]
        self.embedded: dict[int, Any] = {}  # of a root: the eager tensors that became constants of the IR
        # Under a map: the element's index, and the number of elements.
        self.element: tuple[SymbolicTensor, Any] | None = None
        self.is_part_of_parent: bool = False  # whether its ops are the parent's in TensorFlow: no graph of their own
        self.span: Any = None
        self.assumptions: dict[tirx.Var, Any] = {}  # equalities of dims that compiled code checks
        self.compared_dims: list[tuple[Any, Any]] = []  # pairs of dims that the program has compared at this point
        self.speculated_equalities: list[tuple[Any, Any]] = []  # pairs of dims that broadcast where they are not equal
        self.broadcasts: list[tuple[list[Any], Any]] = []  # dims of one axis of operands, and the dim they broadcast to
        self.known_elements: dict[relax.Var, Any] = {}  # the elements of integer tensors as dims, where needed as sizes
        self.scopes: dict[relax.Var, str] = {}
        self.python: PythonCalls = PythonCalls()  # of the outermost trace
        self.array_writes: list[Any] = []  # the indices at which arrays of dynamic size were written, in order
        self.final_rows: set[Any] = set()  # sizes of arrays that already have all the rows that their loop writes
        self.reserved_indices: Any = None  # in a loop body: the indices that arrays have rows for; None: all it counts
        self._names = {"main": 0}

    # -- inputs

    def add_param(self, tensor_type: TensorType, name: str = "arg") -> SymbolicTensor:
        param = self._new_tensor(tensor_type, name)
        self.params.append(param)
        return param

    def _new_tensor(self, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """Creates a symbolic tensor with a new Relax variable; a type of unknown rank starts the deferral of calls."""
        self._record_strings(tensor_type)
        if isinstance(tensor_type.shape, AnyShape):
            self.specialization.start_deferring()
        var = relax.Var(self.unique(name), dialect.to_relax_type(tensor_type))
        return self._tensor(var, tensor_type)

    def _tensor(self, var: relax.Var, tensor_type: TensorType) -> SymbolicTensor:
        tensor = self.tensors[var] = SymbolicTensor(var, tensor_type, self)
        return tensor

    def _record_strings(self, tensor_type: TensorType) -> None:
        self.root.holds_texts |= tensor_type.dtype is string

    def unique(self, name: str) -> str:
        """Returns a variable name that this trace has not used: ``name``, or ``name`` with a number appended."""
        use_count = self._names[name] = self._names.get(name, -1) + 1
        # The numbered name may be in use, too.
        return self.unique(f"{name}_{use_count}") if use_count else name

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
        """Returns the symbolic tensor that stands for ``tensor`` in this trace.

        A tensor of this trace is returned unchanged. An enclosing trace's tensor becomes a capture (a parameter), and an
        eager tensor a constant.
        """
        if not isinstance(tensor, SymbolicTensor):
            # Outer tapes and vectorized maps can follow a captured tensor, but not a constant.
            watched = tensor.is_batched or any(tape.watches(tensor) for tape in self.tapes_around)
            return self.capture(tensor, tensor._type, "watched") if watched else self._constant(tensor)
        return tensor if tensor._trace is self else self._capture_symbol(tensor)

    def _capture_symbol(self, tensor: SymbolicTensor) -> SymbolicTensor:
        """Returns the parameter that stands for an enclosing trace's tensor in this trace.

        Raises:
          InaccessibleTensorError: the tensor belongs to a trace that does not enclose this one.
        """
        if not self.encloses(tensor):
            raise InaccessibleTensorError(
                f"{tensor!r} is out of scope and cannot be used here. Use return values, explicit Python locals or "
                f"TensorFlow collections to access it. It was defined while tracing {tensor._trace.name!r} and is used "
                f"in {self.name!r}."
            )
        inner = self.capture(tensor, tensor._type, "captured")
        inner.known, inner.claimed = tensor._known, tensor.claimed
        return inner

    def note_static_use(self, var: Any) -> None:
        """Records in a TensorFlow 1 graph that the value of ``var``, known while tracing, is used: it can't be fed anymore.

        In a trace inside the graph, the captured tensors from which the value is computed are recorded, too.
        """
        if self.static_uses is None:
            return
        self.static_uses.add(var)
        captured = [(outer, inner._var) for outer, inner in self.captures.values() if isinstance(outer, SymbolicTensor)]
        if not captured or isinstance(var, ir.Constant):
            return
        sources = {var}
        for binding in reversed(self.bindings):
            if binding.var in sources:
                sources.update(relax.analysis.free_vars(binding.value))
        for outer, inner_var in captured:
            if inner_var in sources:
                outer._trace.note_static_use(outer._var)

    def encloses(self, tensor: SymbolicTensor) -> bool:
        return any(tensor._trace is trace for trace in self.enclosing())

    def enclosing(self) -> Iterator[Trace]:
        """Yields this trace, then the parents and callers whose tensors it can use, innermost first."""
        trace: Trace | None = self
        while trace is not None:
            yield trace
            trace = trace.parent or trace.caller

    @property
    def scope(self) -> Trace | None:
        """The innermost enclosing trace whose tensors this trace captures; None if this trace captures none.

        The traced function can't be called outside of that trace.
        """
        owners = [outer._trace for outer, _ in self.captures.values() if isinstance(outer, SymbolicTensor)]
        return next((trace for trace in self.enclosing() if any(trace is owner for owner in owners)), None)

    def capture(self, outer: Any, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """Returns the parameter of this trace that stands for ``outer``; the first call adds the parameter.

        Args:
          outer: a tensor of an enclosing trace, an eager tensor, or a Variable.
          tensor_type: the parameter's type.
          name: the parameter's name.
        """
        captured = self.captures.get(id(outer))
        if captured is None:  # the pair keeps `outer` alive: only ids of living objects are unique
            captured = self.captures[id(outer)] = (outer, self._new_tensor(tensor_type, name))
        _, param = captured
        return param

    def _constant(self, tensor: Tensor) -> SymbolicTensor:
        """Converts an eager tensor to a symbolic tensor of this trace.

        A small tensor becomes a constant of the IR. A large tensor, a resource or a string tensor becomes a parameter.
        """
        array = tensor.eager_array()
        if isinstance(tensor, EagerTensor) and (array.size > EMBEDDED_ELEMENTS or not _is_embeddable(tensor)):
            return self.pass_in(tensor)
        entry = self.constants.get(id(tensor))
        if entry is None:  # the entry keeps the tensor alive: only ids of living objects are unique
            entry = self.constants[id(tensor)] = (tensor, self.embed(tensor))
            self.root.embedded[id(tensor)] = tensor
        _, symbol = entry
        return symbol

    def own_constant(self, tensor: EagerTensor, name: str | None = None) -> Tensor:
        """Returns a ``tf.constant`` of the traced program as a symbolic tensor, as in TensorFlow."""
        return self.own(tensor)

    def own_operands(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a primitive's operands as tapes record them: for eager ones, the tensors that stand for them."""
        return tuple([self._record_as_identity(x, self.own(x)) if type(x) is EagerTensor else x for x in operands])

    def own_result(self, result: Any) -> Any:
        """Returns the result of a public function called in this trace: for an eager tensor, the symbol that stands for it.

        That is the same symbolic tensor each time, as in TensorFlow.
        """
        return self._record_as_identity(result, self.own_constant(result)) if type(result) is EagerTensor else result

    def _record_as_identity(self, tensor: EagerTensor, symbol: Tensor) -> Tensor:
        """Returns ``symbol``, which stands for ``tensor``; tapes that watch ``tensor`` record it as the tensor's identity."""
        for tape in state.tapes:
            if tape.watches(tensor) and not tape.watches(symbol):
                tape.record(table["identity"], (tensor,), symbol, {})
        return symbol

    def pass_in(self, tensor: EagerTensor) -> SymbolicTensor:
        """Returns the parameter that stands for an eager tensor, whose value stays out of the IR.

        The outermost trace captures the tensor. Each inner trace captures the parameter of its parent.
        """
        if self.parent is None:
            return self.capture(tensor, tensor._type, "constant")
        return self.capture(self.parent.pass_in(tensor), tensor._type, "constant")

    def embed(self, tensor: Tensor) -> SymbolicTensor:
        """Converts an eager tensor to a constant of the IR.

        A complex tensor is composed of two constants, its real and imaginary parts, as Relax has no complex type.
        """
        dialect.to_relax_type(tensor._type)  # raises TypeError for a dtype that can't be compiled
        array = tensor.eager_array()
        if tensor.dtype.is_complex:
            return self.emit(table["complex"], [EagerTensor(array.real.copy()), EagerTensor(array.imag.copy())], {})
        # `reshape`: `ascontiguousarray` makes a vector of a scalar.
        constant = relax.const(np.ascontiguousarray(array).reshape(array.shape), tensor.dtype.name)
        symbol = SymbolicTensor(constant, tensor._type, self)
        symbol.known = array.astype(object) if tensor.dtype.is_integer else None
        return symbol

    # -- equalities of symbolic dims

    def known_dim(self, dim: Any) -> Any:
        """Returns ``dim`` with its symbols replaced by the dims that they are assumed to equal so far."""
        return substitute_dim(dim, self.assumptions)

    def require_equal(self, a: Any, b: Any) -> bool:
        """Makes two symbolic dims equal, such as those of the operands of a product; returns whether they can be.

        Dims of arguments are assumed to be equal. A dim that the program computes is compared at run time, where the
        trace now stands. An assumption would be checked where the dim is computed, and not at all if nothing else needs
        what computes it. In a branch all dims are compared: the branch may not be taken.
        """
        a, b = self.root.known_dim(a), self.root.known_dim(b)
        if not (self.root.computes(a) or self.root.computes(b) or self.is_in_branch):
            return self.root.assume_equal(a, b)
        compared = [pair for trace in self._parents() for pair in trace.compared_dims]
        if not any(_is_dim_among(a, pair) and _is_dim_among(b, pair) for pair in compared):
            hooks.compare_dims(a, b)
        return True

    def computes(self, dim: Any) -> bool:
        """Returns whether the program computes a dim, instead of reading it from the shapes of the arguments."""
        return not self._argument_symbols().issuperset(symbols_of(dim))

    def _argument_symbols(self) -> set[tirx.Var]:
        shapes = [t._type.shape for t in self.params if not isinstance(t._type.shape, AnyShape)]
        return {symbol for shape in shapes for dim in shape for symbol in symbols_of(dim)}

    def assume_equal(self, a: Any, b: Any) -> bool:
        """Assumes that two symbolic dims are equal, such as those of the operands of an addition.

        The equation is solved for one symbol, which the rest of the trace replaces by its value: after ``n == m + 1``,
        ``n`` is ``m + 1``. The compiled function checks the assumption at each call. The symbol is one of the two dims;
        if neither dim is a symbol, it is one with the factor 1 or -1 in the equation, as ``m`` in ``2 * n + m == 10``.

        Returns:
          Whether the equation could be solved. If not, nothing is assumed.
        """
        a, b = self.known_dim(a), self.known_dim(b)
        argument_symbols = self._argument_symbols()
        for symbol, value in ((b, a), (a, b)):
            if not isinstance(symbol, tirx.Var) or is_among(symbol, symbols_of(value)):  # `n == n + 1` has no solution
                continue
            # At run time the arguments' symbols are bound first. So the value of one of them must not contain a symbol
            # that the program computes, which is bound later. Of two symbols, either can stand for both.
            is_bound_in_time = (
                symbol not in argument_symbols
                or isinstance(value, tirx.Var)
                or argument_symbols.issuperset(symbols_of(value))
            )
            if is_bound_in_time:
                self._assume(symbol, value)
                return True
        # The general solution may be for any of the symbols, so all of them must be bound at the start.
        has_only_argument_symbols = argument_symbols.issuperset([*symbols_of(a), *symbols_of(b)])
        solution = solve_for_symbol(a, b) if has_only_argument_symbols else None
        if solution is not None:
            self._assume(*solution)
        return solution is not None

    def _assume(self, symbol: tirx.Var, value: Any) -> None:
        """Records that a symbol equals ``value``, and puts ``value`` into the earlier assumptions."""
        earlier = {other: substitute_dim(dim, {symbol: value}) for other, dim in self.assumptions.items()}
        self.assumptions = earlier | {symbol: value}

    # -- broadcasting of symbolic dims, any of which may be 1 at run time

    def common_dim(self, dims: Sequence[Any]) -> Any:
        """Returns the result of an earlier broadcast of the same dims, or None if there was no such broadcast.

        Reusing this dim avoids computing it again. ``dims`` are the operands' dims along one axis.
        """
        operands = self._operand_dims(dims)
        for trace in self._parents():
            for earlier_operands, result in trace.broadcasts:
                if len(earlier_operands) == len(operands) and all(_is_dim_among(d, earlier_operands) for d in operands):
                    return result
        return None

    def note_broadcast(self, dims: Sequence[Any], dim: Any) -> None:
        """Records that operands with the sizes ``dims`` along an axis broadcast to the size ``dim``."""
        self.broadcasts.append((self._operand_dims(dims), dim))

    def _operand_dims(self, dims: Sequence[Any]) -> list[Any]:
        """Returns the distinct dims among ``dims``.

        A dim that an earlier broadcast resulted in is replaced by the operands of that broadcast.
        """
        broadcasts: list[Any] = []
        for trace in self._parents():
            broadcasts += trace.broadcasts
        distinct: list[Any] = []
        for dim in dims:
            operand_dims = [dim]
            for broadcast_dims, result in broadcasts:
                if same_dim(result, dim):
                    operand_dims = broadcast_dims
                    break
            distinct += [operand_dim for operand_dim in operand_dims if not _is_dim_among(operand_dim, distinct)]
        return distinct

    def _parents(self) -> Iterator[Trace]:
        """Yields this trace and its parents, innermost first."""
        trace: Trace | None = self
        while trace is not None:
            yield trace
            trace = trace.parent

    # -- Variables: parameters of the outermost trace, passed on to the inner ones

    def read_variable(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value at this point of the program, as a new tensor for tapes to watch."""
        self.root.python.record_use(variable)
        return self._value_of(variable).alias()

    def _value_of(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value at this point of the program; reads the Variable if the value isn't known."""
        known = self.variables.get(id(variable))
        if known is None or self._is_stale(variable):
            return self._read_now(variable)
        return known[1]

    def _is_stale(self, variable: Any) -> bool:
        """Returns whether called Python may have assigned the Variable since this trace last read or assigned it."""
        return self.barriers_at_access[id(variable)] < self.root.python.barriers and not variable.is_argument

    def _read_now(self, variable: Any) -> SymbolicTensor:
        """Reads a Variable and records the value as the Variable's known value in this trace.

        If this trace has called Python, which may have assigned the Variable, the value is loaded from the Variable's
        memory. Otherwise the value is taken from the enclosing trace, or is a parameter of the outermost function.
        """
        is_reloaded = self.root.python.barriers > self.barriers_at_start and not variable.is_argument
        if is_reloaded:
            self.flush_assignments()
        value = hooks.variables.reload(variable, self) if is_reloaded else self._first_read(variable)
        self._record_value(variable, value, is_reloaded)
        return value

    def _record_value(self, variable: Any, value: SymbolicTensor, is_stored: bool) -> None:
        """Records a Variable's value in this trace. ``is_stored``: the Variable's memory already holds the value."""
        self.variables[id(variable)] = (variable, value)
        self.barriers_at_access[id(variable)] = self.root.python.barriers
        (self.stored.add if is_stored else self.stored.discard)(id(variable))

    def _first_read(self, variable: Any) -> SymbolicTensor:
        return self.value_at_entry(variable) if self.parent is None else self.own(self.parent._value_of(variable))

    def value_at_entry(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value at the start of the outermost function: a parameter of that function."""
        # The last part of a name in scopes, "dense/kernel".
        name = variable._shared_name.rpartition("/")[2] or "variable"
        return self.root.capture(variable, self._type_of(variable, name), name)

    def value_before(self, variable: Any) -> SymbolicTensor:
        """Returns the Variable's value as an input of the control-flow op that is bound next.

        The barriers (calls of Python) inside this op are counted already but run later. So the known value isn't stale.
        """
        known = self.variables.get(id(variable))
        return self._value_of(variable) if known is None else known[1]

    def read_before(self, variable: Any, value: SymbolicTensor) -> SymbolicTensor:
        """Returns ``value``, the Variable's value here, as a new tensor for the inputs of a control-flow op.

        A TensorFlow 1 graph reads ``variable`` again instead.
        """
        return value.alias()

    def take_variables(self, other: Trace, values: Sequence[SymbolicTensor]) -> None:
        """Copies what the trace ``other`` recorded of its Variables, after its bindings were emitted again in this trace.

        ``values`` are the Variables' values in this trace, in the order of ``other.variables``.
        """
        for (variable, _), value in zip(other.variables.values(), values):
            self.variables[id(variable)] = (variable, value)
        self.barriers_at_access, self.stored = dict(other.barriers_at_access), set(other.stored)
        self.barriers_at_start = other.barriers_at_start

    # -- Variables around calls of Python

    def flush_assignments(self) -> None:
        """Emits stores of all assigned values to the Variables' memory, where a call of Python that follows reads them."""
        for variable, value in self.assigned():
            if not variable.is_argument:
                hooks.variables.store(variable, value, self)
                self.root.python.flushed[id(variable)] = variable
                self.stored.add(id(variable))

    @property
    def is_after_python(self) -> bool:
        """Whether this trace has called the user's Python. If so, Variables are read from their memory."""
        return self.root.python.barriers > self.barriers_at_start

    def _type_of(self, variable: Any, name: str) -> TensorType:
        """Returns the type of the parameter that holds a Variable's value.

        Assignments may change dims, or the rank, that the Variable's declaration leaves open. So these are unknown in the
        type, unless the function is traced for the shapes or the ranks of one call. ``name`` is the prefix of the names of
        new symbolic dims.
        """
        declared, (present_shape, dtype) = variable.shape, variable._type
        level = self.specialization.level
        if level is Level.SHAPES:  # traced for the shapes of one call
            return variable._type  # type: ignore[no-any-return]
        if declared.rank is not None:
            return TensorType(filled_in(name, declared), dtype)
        if level is Level.RANKS:  # traced for the ranks of one call
            return TensorType(filled_in(name, [None] * len(present_shape)), dtype)
        return TensorType(example_shape(name, len(present_shape)), dtype)  # of unknown rank

    def memory_of(self, variable: Any) -> SymbolicTensor:
        """Returns a tensor that stands for the Variable's memory, as the destination of assignments.

        The tensor's value need not be the Variable's present value.
        """
        if id(variable) not in self.memories:
            self.memories[id(variable)] = self._first_read(variable).alias()
        return self.memories[id(variable)]

    def assign_variable(self, variable: Any, value: SymbolicTensor, is_stored: bool = False) -> None:
        self._record_value(variable, self.own(value), is_stored)

    def updates(self, value: SymbolicTensor) -> None:
        """Records that ``value``, the next value assigned, was computed from the Variable's value (``assign_add``)."""

    def assigned_value(self, variable: Any, read_value: bool) -> Any:
        """Returns the result of the assignment that was just bound: the new value if ``read_value``, else the operation."""
        return variable._as_tensor() if read_value else self.operation("AssignVariableOp", None, ())

    def assigned(self) -> list[tuple[Any, SymbolicTensor]]:
        """Returns the Variables to write back at the end of the trace, each paired with its last assigned value.

        A Variable is left out if its value is still a parameter, or if its memory already holds the value.
        """
        captured_params = [inner for _, inner in self.captures.values()]
        param_ids = set(map(id, (*self.params, *captured_params)))
        assigned = []
        for variable, last_value in self.variables.values():
            is_new = id(last_value) not in param_ids
            if is_new and id(variable) not in self.stored:
                assigned.append((variable, last_value))
        return assigned

    # -- order of execution: here a program runs in the order in which it was written, so these do almost nothing. In a
    # -- TensorFlow 1 graph only control dependencies order ops: v1/graph.py overrides these methods.

    def after(self, control_inputs: Sequence[Any]) -> AbstractContextManager[None]:
        """Opens the scope of ``tf.control_dependencies``: ops in the scope run after ``control_inputs``."""
        self.root.waits_for(control_inputs)
        return nullcontext()

    def seeing_assignments_before(self, tensors: Iterable[Any]) -> AbstractContextManager[Any]:
        """Opens a scope in which Variables are read as they were when ``tensors`` were computed."""
        return nullcontext()

    def waits_for(self, control_inputs: Sequence[Any]) -> None:
        """Adds control inputs to the control-flow op whose branch is being traced."""

    def together(self, *values: SymbolicTensor) -> AbstractContextManager[None]:
        """Opens a scope whose ops run all or none; they also run if ``values`` are used."""
        return nullcontext()

    def operation(self, kind: str, name: str | None, inputs: Sequence[Any]) -> Operation:
        """Returns an Operation that is done when ``inputs`` are, which holds here without control dependencies."""
        return Operation(kind, name)

    def doing(self, kind: str, name: str | None, work: Callable[[], Any]) -> Operation:
        """Calls ``work``, which binds calls with side effects and without results, and returns an Operation for them."""
        work()
        return Operation(kind, name)

    # -- bindings

    def emit(self, prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Binds a primitive's call and returns its symbolic result(s); a call that needs an unknown rank is deferred."""
        try:
            return self._emit(prim, inputs, attrs)
        except Unspecialized as needed:
            return hooks.defer_call(prim.bind, tuple(inputs), attrs, needed, recorded=False)

    def _emit(self, prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Appends a call of a primitive to the trace and returns the call's symbolic result or results.

        Attributes that are functions, such as a loop's body, are traced to graphs first. The Relax call refers to these
        graphs by GlobalVars.
        """
        operands = [self.own(x) for x in inputs]
        graphs: dict[str, Graph] = {}
        for name in filter(lambda name: _is_function(attrs[name]), attrs):
            graphs[name] = self._graph_of(prim, name, operands, attrs | graphs)
        if (captured := self._captured_by(graphs, attrs)) and prim.name.removeprefix("effect_") in CONTROL_FLOW:
            graphs = {name: graph.capturing(captured) for name, graph in graphs.items()}
            operands += map(self.own, captured)
        types = prim.typed(*(x._type for x in operands), **(attrs | graphs))
        for result_type in [types] if type(types) is TensorType else types:
            require_countable(result_type, prim.tf_name)
        encoded_attrs = attrs | {name: self._graph_var(graph) for name, graph in graphs.items()}
        # A call whose functions have side effects calls the impure `effect_` primitive, which no pass drops.
        if not all(g.pure for name, g in graphs.items() if name not in GRADIENT_FUNCTIONS):
            prim = table[f"effect_{prim.name.removeprefix('effect_')}"]
        operand_vars, relax_types = [x._var for x in operands], dialect.to_relax_types(types)
        call = dialect.write(prim, operand_vars, encoded_attrs, relax_types, self._span())
        self.pure = self.pure and prim.pure
        if prim.name == "dims_equal":
            self.compared_dims.append(attrs["dims"])
        result = _with_value(prim, operands, attrs, self._bind(call, types, prim.name))
        if any(x.claimed is not None for x in operands):  # the user called `set_shape` on an operand
            self._infer_claimed_shapes(prim, operands, attrs | graphs, as_tuple(result))
        return result

    def copy_call(self, call: relax.Call, prim: Primitive[Any], args: Sequence[Any], types: Any) -> Any:
        """Appends a copy of another function's call to this trace and returns the symbolic result or results.

        No types are inferred. The results have no statically known elements, and no shapes from ``set_shape``.

        Args:
          call: the Relax call to copy.
          prim: the primitive that is called.
          args: the operands in this trace; their static types equal those of the call's operands.
          types: the static type or types of the results.
        """
        copy = relax.Call(call.op, args, attrs=call.attrs, span=self._span(), ret_ty=call.ty)
        self.pure = self.pure and prim.pure
        if prim.name == "dims_equal":
            self.compared_dims.append(dialect.read(copy).attrs["dims"])
        return self._bind(copy, types, prim.name)

    def _infer_claimed_shapes(
        self, prim: Primitive[Any], inputs: Sequence[SymbolicTensor], attrs: dict[str, Any], results: Sequence[Any]
    ) -> None:
        """Derives the shapes of a call's results from the shapes that ``set_shape`` claimed for the inputs.

        The primitive's type rule runs again on the claimed shapes. It makes no dims equal, as compiled code does not check
        claimed sizes.
        """
        sizes = {d: size for x in inputs if x.claimed for d, size in zip(x._type.shape, x.claimed) if size is not None}
        symbols = {d: size for d, size in sizes.items() if isinstance(d, tirx.Var)}
        before, state.infers_type = state.infers_type, True
        try:
            types = prim.typed(
                *(x.shown_type for x in inputs),
                **{name: _with_sizes(value, symbols) for name, value in attrs.items()},
            )
        except (TypeError, ValueError, OpError, Unspecialized):
            return  # the claimed shapes are wrong: the results keep the inferred ones
        finally:
            state.infers_type = before
        for claimed_type, result in zip([types] if type(types) is TensorType else types, results):
            shape = TensorShape(claimed_type.shape)
            if (
                isinstance(result, SymbolicTensor)
                and shape.rank is not None
                and shape.as_list() != result.shape.as_list()
            ):
                result.claimed = shape

    def _bind(self, call: relax.Call, types: Any, name: str) -> Any:
        """Binds a Relax call to a new variable of this trace; returns the result as a tensor, or a tuple of all results."""
        var = relax.Var(self.unique(name), call.ty)
        self.bindings.append(relax.VarBinding(var, call))
        if state.name_scopes:
            self.scopes[var] = "".join(f"{scope}/" for scope in state.name_scopes)
        if type(types) is TensorType:
            self._record_strings(types)
            return self._tensor(var, types)
        return tuple(self._bind_item(var, i, t, name) for i, t in enumerate(types))

    def _span(self) -> ir.Span | None:
        """Returns the line of the user's program for the call that is bound next.

        While a pass runs, this is the line of the binding that the pass rewrites, or None.
        """
        return self.span or (None if state.compiling else user_span())

    def _bind_item(self, tuple_var: relax.Var, index: int, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """Binds an item of a tuple to a new variable; returns the item as a tensor."""
        item = self._new_tensor(tensor_type, f"{name}_{index}")
        self.bindings.append(relax.VarBinding(item._var, relax.TupleGetItem(tuple_var, index)))
        return item

    def _graph_of(
        self, prim: Primitive[Any], name: str, inputs: Sequence[SymbolicTensor], attrs: dict[str, Any]
    ) -> Graph:
        """Traces a function attribute of a call, such as a loop's body, and returns the graph.

        The function's parameters have the types of the call's last inputs, unless the primitive has a rule ``operands``.

        Args:
          prim: the primitive that is called.
          name: the name of the attribute that holds the function.
          inputs: the operands of the call.
          attrs: the call's attributes; functions traced already are replaced by their graphs.
        """
        function = attrs[name]
        if isinstance(function, Graph):
            return function
        params = function.mod[function.name].params
        input_types = [x._type for x in inputs]
        # For example, a condition is an input of `cond`, but no argument of a branch: the first inputs are left out.
        types = prim.operands(name, input_types, attrs) if prim.operands else input_types[len(inputs) - len(params) :]
        with tracing(Trace(function.name, self)) as function_trace:
            function_trace.is_in_branch |= prim.name.removeprefix("effect_") == "cond"
            outputs = function(
                *[function_trace.add_param(t, p.name) for t, p in zip(with_readable_dims(types), params)]
            )
        return function_trace.finish(outputs)

    def _captured_by(self, graphs: Mapping[str, Graph], attrs: Mapping[str, Any]) -> list[Any]:
        """Returns what functions of a call capture from this trace while they are traced again, each once.

        The call's operands hold what was captured when the functions were first traced. Tracing them again may capture
        more: a deferred call in a loop's body may become a call of Python, which is a parameter of the program.
        """
        traced_again = (graph for name, graph in graphs.items() if graph is not attrs[name])
        return list({id(outer): outer for graph in traced_again for outer, _ in graph.captures}.values())

    def _graph_var(self, graph: Graph) -> ir.GlobalVar:
        """Returns the GlobalVar by which calls in this trace refer to a subgraph; adds the subgraph on its first use."""
        for var, subgraph in self.subgraphs.items():
            if subgraph is graph:
                return var
        # A graph of another program is copied, with the functions that it calls.
        if graph.root is not self.root:
            graph = Trace.copy_graph(graph, self)
        var = relax.GlobalVar(self.root.unique(graph.name))
        _set_type(var, graph.function.ty)
        self.subgraphs[var] = graph
        return var

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """Returns the traced function as a closed graph."""
        return Graph(self, [self.own(t) for t in outputs])


def _with_sizes(value: Any, sizes: Mapping[tirx.Var, int]) -> Any:
    """Returns a primitive's attribute with symbolic dims in it replaced by ``sizes``."""
    if type(value) is tuple:
        return tuple(_with_sizes(part, sizes) for part in value)
    return substitute_dim(value, sizes) if isinstance(value, ir.Expr) else value


def _has_dims(var: relax.Var) -> bool:
    return isinstance(var.ty, relax.TensorType) and var.ty.shape is not None


def _is_embeddable(tensor: EagerTensor) -> bool:
    """Returns whether a tensor can be a constant of the IR: it is neither a resource nor a string tensor."""
    return not tensor.has_identity and tensor.dtype is not string


def _is_function(value: Any) -> bool:
    """Returns whether an attribute is a subgraph: a Graph, or an interpreter's Subfunction."""
    return isinstance(value, Graph) or hasattr(value, "mod")


@contextmanager
def tracing(trace: Trace) -> Any:
    """Makes ``trace`` the thread's active trace in a ``with`` block. Tapes outside don't record the ops inside."""
    outer_trace, outer_tapes = state.trace, state.tapes
    # Observers are called for traced ops, too.
    state.trace, state.tapes = trace, list(state.observers)
    try:
        yield trace
    finally:
        state.trace, state.tapes = outer_trace, outer_tapes


def trace_graph(
    name: str, function: Callable[..., Any], types: Sequence[TensorType], parent: Trace | None = None
) -> Graph:
    """Traces ``function`` on symbolic tensors of the given types and returns the graph.

    ``parent`` is the enclosing trace, whose tensors the function may capture.
    """
    with tracing(Trace(name, parent)) as trace:
        params = [trace.add_param(t) for t in types]
        outputs = as_tuple(function(*params))
    return trace.finish(outputs)


def _is_dim_among(dim: Any, dims: Iterable[Any]) -> bool:
    return any(same_dim(dim, d) for d in dims)


def _tuple_result(outputs: Sequence[SymbolicTensor]) -> list[Any]:
    """Returns a binding of the tuple of all outputs, and the variable that the tuple is bound to."""
    result = relax.Tuple([t._var for t in outputs])
    var = relax.Var("outputs", result.ty)
    return [relax.VarBinding(var, result), var]


def _set_type(expr: Any, ty: Any) -> None:
    """Sets the type of a Relax expression that was made without one."""
    from tvm.relax import _ffi_api

    _ffi_api.UpdateType(expr, ty)


def _with_value(prim: Primitive[Any], inputs: Sequence[SymbolicTensor], attrs: dict[str, Any], result: Any) -> Any:
    """Returns a call's result; attaches its elements if the primitive's ``value`` rule finds them while tracing.

    For example, the elements of ``tf.shape(x)`` are known as dims.
    """
    if prim.value is not None:
        trace = result._trace
        outer_uses, trace.static_uses = trace.static_uses, None  # the elements pass on; nothing is decided by them
        try:
            result.known = _as_dtype(prim.value(*inputs, **attrs), result._type.dtype)
        finally:
            trace.static_uses = outer_uses
    return result


def _as_dtype(known: Any, dtype: DType) -> np.ndarray | None:
    """Converts statically known elements to an object array of ints and symbolic dims in the range of ``dtype``.

    Returns None if the elements aren't known.
    """
    if known is None:
        return None
    if isinstance(known, np.ndarray) and known.dtype == dtype.np:  # these are in the range already
        return known.astype(object)
    return _in_range(np.asarray(known, object), dtype)


def _in_range(known: np.ndarray, dtype: DType) -> np.ndarray | None:
    """Wraps statically known elements around to the range of an integer dtype.

    For example, 300 becomes 44 as uint8. Returns None for a symbolic dim with a dtype narrower than int32, because only
    at run time it is known whether the dim wraps around.

    Args:
      known: an object array of ints and symbolic dims.
      dtype: the integer dtype.
    """
    if dtype.size < int32.size and not all(isinstance(d, int) for d in known.flat):
        return None
    minimum, value_count = int(dtype.min), 1 << (8 * dtype.size)
    if all(not isinstance(d, int) or 0 <= d - minimum < value_count for d in known.flat):
        return known
    wrapped = [(d - minimum) % value_count + minimum if isinstance(d, int) else d for d in known.flat]
    # With None among them, NumPy makes an array of the objects without looking into them.
    return np.array([*wrapped, None], object)[:-1].reshape(known.shape)
