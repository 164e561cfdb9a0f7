"""Converts traced functions to GraphDef messages: one node per primitive, in the name scopes of the trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from tvm import ir, relax

from tvtf.core.shape import TensorShape, TensorType
from tvtf.core.tensorboard_protos import proto
from tvtf.dtypes import as_dtype
from tvtf.ir import dialect
from tvtf.ir.dialect import example_shape
from tvtf.state.variable import Variable


class TracedGraph(Protocol):
    """The attributes of `tvtf.ir.trace.Graph` that are read here; that module imports this one."""

    name: str
    params: Sequence[Any]
    captures: Sequence[tuple[Any, Any]]
    subgraphs: Mapping[ir.GlobalVar, Any]
    _trace: Any


def graph_def(functions: Iterable[Any]) -> Any:
    """Converts traced functions to one GraphDef message of TensorFlow.

    ``functions`` are concrete functions or their graphs. If there are several, the nodes of each function are in a name
    scope of the function's name.

    Raises:
      ImportError: the ``tensorboard`` extra is not installed.
    """
    graphs = [getattr(function, "graph", function) for function in functions]
    message = proto("compat.proto.graph_pb2").GraphDef()
    message.versions.producer = 1
    for graph in graphs:
        name_prefix = f"{graph.name}/" if len(graphs) > 1 else ""
        _Nodes(message, name_prefix).add(graph)
    return message


class _Nodes:
    """Adds a graph's nodes to a GraphDef. ``names`` maps Relax variables to the names of node outputs."""

    def __init__(self, message: Any, prefix: str) -> None:
        self.message = message
        self.prefix = prefix
        self.names: dict[relax.Var, str] = {}

    def add(self, graph: TracedGraph) -> None:
        """Adds a node for each parameter, capture and call of a graph."""
        for param in graph.params:
            self.names[param._var] = self._add_node(param._var.name, "Placeholder", (), param._type)
        for outer, inner in graph.captures:
            self.names[inner._var] = self._add_capture(outer, inner)
        for binding in graph._trace.bindings:
            self._add_binding(graph, binding)

    def _add_capture(self, outer: Any, inner: Any) -> str:
        if isinstance(outer, Variable):
            return self._add_node(outer.name.removesuffix(":0"), "ReadVariableOp", (), inner._type)
        return self._add_node(inner._var.name, "Placeholder", (), inner._type)

    def _add_binding(self, graph: TracedGraph, binding: Any) -> None:
        """Adds a node for a binding of a primitive's call; an item of a tuple is an output of the call's node."""
        value = binding.value
        scope = graph._trace.scopes.get(binding.var, "")
        if isinstance(value, relax.TupleGetItem):
            self.names[binding.var] = f"{self.names[value.tuple_value]}:{value.index}"
        elif isinstance(value, relax.Call) and dialect.is_dialect(value):
            self.names[binding.var] = self._add_call(graph, scope + binding.var.name, dialect.read(value), value.ty)

    def _add_call(self, graph: TracedGraph, name: str, call: Any, ty: Any) -> str:
        """Adds a node ``name`` for a decoded call of a primitive, and the nodes of its subgraphs. Returns the node's name.

        ``ty`` is the Relax type of the call's results.
        """
        inputs = [self._add_operand(x, f"{name}/input_{i}") for i, x in enumerate(call.inputs)]
        for key, value in call.attrs.items():
            if isinstance(value, ir.GlobalVar):  # a branch or a loop's body
                _Nodes(self.message, f"{self.prefix}{name}/{key}/").add(_subgraph(graph, value))
        result_types = ty.fields if isinstance(ty, relax.TupleType) else [ty]
        return self._add_node(name, call.primitive.tf_name, inputs, *map(_tensor_type, result_types))

    def _add_operand(self, value: Any, name: str) -> str:
        if isinstance(value, relax.Var):
            return self.names[value]
        return self._add_node(name, "Const", (), dialect.from_relax_type(value.ty))

    def _add_node(self, name: str, op: str, inputs: Sequence[str], *outputs: TensorType) -> str:
        """Adds a node to the GraphDef message and returns the node's name.

        The types of the node's ``outputs`` become its attributes ``_output_shapes`` and ``dtype``.
        """
        node = self.message.node.add(name=self.prefix + name, op=op, input=list(inputs))
        shapes = proto("compat.proto.attr_value_pb2").AttrValue()
        for output in outputs:
            shapes.list.shape.append(TensorShape(output.shape).as_proto())
        node.attr["_output_shapes"].CopyFrom(shapes)
        if outputs:
            node.attr["dtype"].type = outputs[0].dtype.as_datatype_enum
        return node.name


def _tensor_type(ty: Any) -> TensorType:
    """Returns the TensorType of a Relax type whose dims or rank may be unknown."""
    if ty.shape is not None:
        return dialect.from_relax_type(ty)
    return dialect.of_unknown_dims(ty) if ty.ndim >= 0 else TensorType(example_shape("any"), as_dtype(str(ty.dtype)))


def _subgraph(graph: TracedGraph, var: ir.GlobalVar) -> TracedGraph:
    """Returns the subgraph of ``graph`` that a call refers to by the GlobalVar ``var``."""
    return next(inner for known, inner in graph.subgraphs.items() if known.name_hint == var.name_hint)
