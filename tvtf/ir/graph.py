"""Graphs: finished traces, each a closed Relax function with the list of what it captures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import ir, relax, tirx

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.shape import TensorType, substitute_dim
from tvtf.core.tensor import SymbolicTensor, Tensor
from tvtf.core.thread_state import precision
from tvtf.core.variable_lock import cached_property
from tvtf.ir import dialect
from tvtf.ir.dim_equations import solved_equations, with_dims
from tvtf.ir.graph_def import graph_def
from tvtf.ir.traced_dims import TracedDims
from tvtf.ir.traced_variables import TracedVariables

COMPUTE = "tvtf.compute"
"""The attribute of ``main`` that names the 16-bit type in which it computes products (mixed precision)."""


class GraphBuilder(TracedVariables, TracedDims):
    """The part of a trace that a graph is built from."""

    parent: GraphBuilder | None
    root: GraphBuilder
    subgraphs: dict[ir.GlobalVar, Graph]
    """The graphs that the trace calls, by the names of their functions."""
    pure: bool
    """Whether nothing in the trace has side effects."""
    inner: Callable[[str], GraphBuilder]

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """Returns the traced function as a closed graph."""
        return Graph(self, [self.own(output) for output in outputs])


class Graph:
    """A finished trace: a Relax function, its captures, and the graphs it calls."""

    def __init__(self, trace: GraphBuilder, outputs: Sequence[SymbolicTensor]) -> None:
        """Builds the Relax function of a finished trace. The function returns ``outputs`` as a tuple."""
        self.name = trace.name
        self.root = trace.root
        self.scope = trace.scope
        self.params = trace.params
        self.captures = list(trace.captures.values())
        self.outputs = tuple(outputs)
        self.subgraphs = dict(trace.subgraphs)
        self.pure = trace.pure
        self.holds_texts = trace.root.holds_texts  # whether a tensor of the program is a string tensor
        self.compute = precision.compute  # the 16-bit dtype in which products are computed, or None
        self._trace = trace
        self.function = self._build(_tuple_result(self.outputs))

    @property
    def all_params(self) -> list[SymbolicTensor]:
        return self.params + [inner for _, inner in self.captures]

    @property
    def param_types(self) -> list[TensorType]:
        """The types of :attr:`all_params` in the Relax function, which has the dims that tracing inferred."""
        types = [param._type for param in self.all_params]
        return [
            tensor_type if isinstance(tensor_type.shape, AnyShape) else dialect.from_relax_type(param.ty)
            for tensor_type, param in zip(types, self.function.params)
        ]

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(output._type for output in self.outputs)

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
        tensors: dict[Any, Any] = {param._var: param for param in self.all_params}
        operations = [Operation.of(param._var.name, "Placeholder", self, [], [param]) for param in self.all_params]
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

    def identities(self) -> dict[relax.Var, relax.Var]:
        """Returns, for each result of `tf.identity`, the value that it equals, which isn't one of them."""
        origins: dict[relax.Var, relax.Var] = {}
        for binding in self._trace.bindings:
            if dialect.is_dialect(binding.value):
                call = dialect.read(binding.value)
                if call.primitive.name == "identity":
                    (source,) = call.inputs
                    origins[binding.var] = origins.get(source, source)
        return origins

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
        example, the pair ``(n, m)`` can give ``{n: m}``. There are no values if they contradict each other or an op of
        the function, as after broadcasts of a dim to 3 and to 4.
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
        equalities = solved_equations(equations, symbols)
        if any(_differ(*(substitute_dim(dim, equalities) for dim in equation)) for equation in equations):
            return {}
        try:
            with_dims(self.function, equalities)
        except Exception:  # TVM raises many types when it infers the types of the function's ops again
            return {}
        return equalities

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
        attrs = {
            "tvtf.donate": [list(pair) for pair in donations],
            "tvtf.constants": list(constants),
            **(known or {}),
        }
        has_single_result = len(self.outputs) == 1 and isinstance(self.outputs[0]._var, relax.Var)
        dims = self.speculated_equalities if speculative else {}
        return self.with_attributes(attrs, bare=has_single_result, dims=dims)

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
          bindings_and_result: bindings to append to the trace's, followed by the expression that the function returns.
        """
        *bindings, value = bindings_and_result
        body = relax.SeqExpr([relax.BindingBlock([*self._trace.bindings, *bindings])], value)
        set_type(body, value.ty)
        params = [param._var for param in self.all_params]
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


def _differ(left: Any, right: Any) -> bool:
    """Returns whether two dims are different numbers."""
    return isinstance(left, int) and isinstance(right, int) and left != right


def _has_dims(var: relax.Var) -> bool:
    return isinstance(var.ty, relax.TensorType) and var.ty.shape is not None


def _tuple_result(outputs: Sequence[SymbolicTensor]) -> list[Any]:
    """Returns a binding of the tuple of all outputs, and the variable that the tuple is bound to."""
    result = relax.Tuple([output._var for output in outputs])
    var = relax.Var("outputs", result.ty)
    return [relax.VarBinding(var, result), var]


def set_type(expr: Any, ty: Any) -> None:
    """Sets the type of a Relax expression that was made without one."""
    from tvm.relax import _ffi_api

    _ffi_api.UpdateType(expr, ty)
