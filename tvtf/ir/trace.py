"""Tracing: runs Python on symbolic tensors and records what it does as Relax bindings.

A :class:`Trace` collects the bindings of one function while the user's Python runs. :meth:`Trace.finish` turns it into a
:class:`~tvtf.ir.graph.Graph`: a closed Relax function and the list of its captures. Branches and loop bodies are traces
whose parent is the enclosing trace. In them a tensor of an outer trace becomes a capture; Variables are parameters of the
outermost trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from tvm import ir, relax

from tvtf.core.allocation_check import require_countable
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import Primitive, as_tuple, hooks, table
from tvtf.core.shape import TensorType
from tvtf.core.specialization import Specialization, Unspecialized
from tvtf.core.tensor import SymbolicTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import cached_property
from tvtf.ir import dialect
from tvtf.ir.computed_constants import ComputedConstants
from tvtf.ir.graph import Graph, GraphBuilder, set_type
from tvtf.ir.python_calls import PythonCalls
from tvtf.ir.static_results import infer_claimed_shapes, with_known_elements
from tvtf.ir.traced_functions import traced_functions, tracing
from tvtf.ir.user_lines import user_span

GRADIENT_FUNCTIONS = ("backward",)
"""Function attributes that only the gradient runs: their side effects do not make the primitive's call impure."""


class Trace(GraphBuilder):
    """A function being traced; see the module's docstring.

    Its base classes hold what it knows of its inputs (`TracedInputs`), Variables and dims.
    """

    parent: Trace | None
    caller: Trace | None
    root: Trace
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
        self.name, self.parent, self.caller = name, parent, caller
        self.root = parent.root if parent else self
        self.specialization = parent.specialization if parent else specialization or Specialization()
        self._names = {"main": 0}
        # The program.
        self.bindings, self.tensors, self.results_of_calls = [], {}, {}
        self.subgraphs = {}
        self.functions = {}
        self.pure, self.holds_texts = True, False
        self.is_in_branch = parent.is_in_branch if parent else False
        self.is_part_of_parent: bool = False  # whether its ops are the parent's in TensorFlow: no graph of their own
        self.span: Any = None
        self.scopes: dict[relax.Var, str] = {}
        self.python = PythonCalls()  # of the outermost trace
        # Inputs and Variables.
        self.params, self.captures, self.constants = [], {}, {}
        self.embedded = {}
        self.call_args: Sequence[Any] = ()  # the arguments of the call that it is traced for
        outside = parent or caller
        self.tapes_around = [*(outside.tapes_around if outside else ()), *state.tapes]
        self.variables, self.reads, self.memories = {}, {}, {}
        self.barriers_at_start = self.root.python.barriers if parent else 0
        self.barriers_at_access, self.stored = {}, set()
        # Of a TensorFlow 1 graph.
        self.fed: set[Any] = set()
        """The variables that a ``feed_dict`` may replace: no constant value of them is known."""
        self.static_uses = outside.static_uses if outside else None
        # Dims and sizes.
        self.assumptions, self.speculated_equalities, self.broadcasts = {}, [], []
        self.compared_dims = []
        self.known_elements: dict[relax.Var, Any] = {}  # the elements of integer tensors as dims, where needed as sizes
        # Maps and loops.
        self.element: tuple[SymbolicTensor, Any] | None = None
        """Under a map: the element's index, and the number of elements."""
        self.array_writes: list[Any] = []  # the indices at which arrays of dynamic size were written, in order
        self.final_rows: set[Any] = set()  # sizes of arrays that already have all the rows that their loop writes
        self.reserved_indices: Any = None  # in a loop body: the indices that arrays have rows for; None: all it counts

    def evaluate(self, tensor: SymbolicTensor, feed_dict: Any, session: Any) -> Any:
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    @cached_property
    def computed_constants(self) -> ComputedConstants:
        return ComputedConstants(self)

    def inner(self, name: str) -> Trace:
        """Returns a new trace inside this one, for a branch or a loop's body."""
        return Trace(name, self)

    def with_parents(self) -> Iterator[Trace]:
        """Yields this trace and its parents, innermost first."""
        trace: Trace | None = self
        while trace is not None:
            yield trace
            trace = trace.parent

    def enclosing(self) -> Iterator[Trace]:
        """Yields this trace, then the parents and callers whose tensors it can use, innermost first."""
        trace: Trace | None = self
        while trace is not None:
            yield trace
            trace = trace.parent or trace.caller

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

        Args:
          prim: the primitive.
          inputs: its inputs.
          attrs: its attributes.
        """
        operands = [self.own(x) for x in inputs]
        graphs, captured = traced_functions(self, prim, operands, attrs)
        operands += captured
        types = prim.typed(*(operand._type for operand in operands), **(attrs | graphs))
        for result_type in [types] if type(types) is TensorType else types:
            require_countable(result_type, prim.tf_name)
        encoded_attrs = attrs | {name: self._graph_var(graph) for name, graph in graphs.items()}
        # A call whose functions have side effects calls the impure `effect_` primitive, which no pass drops.
        if any(not graph.pure for name, graph in graphs.items() if name not in GRADIENT_FUNCTIONS):
            prim = table[f"effect_{prim.name.removeprefix('effect_')}"]
        operand_vars = [operand._var for operand in operands]
        call = dialect.write(prim, operand_vars, encoded_attrs, dialect.to_relax_types(types), self._span())
        self.pure = self.pure and prim.pure
        bound = self._bind(call, types, prim.name)
        result = with_known_elements(prim, operands, attrs, bound)
        if any(operand.claimed is not None for operand in operands):  # the user called `set_shape` on an operand
            infer_claimed_shapes(prim, operands, attrs | graphs, as_tuple(result))
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
        return self._bind(copy, types, prim.name)

    def _bind(self, call: relax.Call, types: Any, name: str) -> Any:
        """Binds a Relax call to a new variable of this trace. Returns the result as a tensor, or a tuple of all results."""
        if name == "dims_equal":
            self.compared_dims.append(dialect.read(call).attrs["dims"])
        var = relax.Var(self.unique(name), call.ty)
        self.bindings.append(relax.VarBinding(var, call))
        if state.name_scopes:
            self.scopes[var] = "".join(f"{scope}/" for scope in state.name_scopes)
        if type(types) is TensorType:
            self._record_strings(types)
            return self._tensor(var, types)
        return tuple(self._bind_item(var, i, tensor_type, name) for i, tensor_type in enumerate(types))

    def _span(self) -> ir.Span | None:
        """Returns the line of the user's program for the call that is bound next.

        While a pass runs, this is the line of the binding that the pass rewrites, or None.
        """
        return self.span or (None if state.compiling else user_span())

    def _bind_item(self, tuple_var: relax.Var, index: int, tensor_type: TensorType, name: str) -> SymbolicTensor:
        """Binds an item of a tuple to a new variable, and returns the item as a tensor."""
        item = self._new_tensor(tensor_type, f"{name}_{index}")
        self.bindings.append(relax.VarBinding(item._var, relax.TupleGetItem(tuple_var, index)))
        return item

    def _graph_var(self, graph: Graph) -> ir.GlobalVar:
        """Returns the GlobalVar by which calls in this trace refer to a subgraph; adds the subgraph on its first use."""
        for var, subgraph in self.subgraphs.items():
            if subgraph is graph:
                return var
        # A graph of another program is copied, with the functions that it calls.
        if graph.root is not self.root:
            graph = Trace.copy_graph(graph, self)
        var = relax.GlobalVar(self.root.unique(graph.name))
        set_type(var, graph.function.ty)
        self.subgraphs[var] = graph
        return var


def temporary_trace(name: str = "aside") -> Trace:
    """Returns a trace inside the active one that is no part of the program: for it no sizes are assumed to be equal."""
    trace = Trace(name, state.trace)
    trace.is_in_branch = True
    return trace


def trace_graph(
    name: str,
    function: Callable[..., Any],
    types: Sequence[TensorType],
    parent: Trace | None = None,
    is_branch: bool = False,
) -> Graph:
    """Traces ``function`` on symbolic tensors of the given types and returns the graph.

    ``parent`` is the enclosing trace, whose tensors the function may capture. ``is_branch``: whether the function may
    not run when ``parent`` does.
    """
    with tracing(Trace(name, parent)) as trace:
        trace.is_in_branch |= is_branch
        params = [trace.add_param(type_) for type_ in types]
        outputs = as_tuple(function(*params))
    return trace.finish(outputs)
