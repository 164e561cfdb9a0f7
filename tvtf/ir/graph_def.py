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
    """Converts traced functions to TensorFlow's GraphDef message; of several, each one's nodes are in a scope of its name.

    ``functions`` are concrete functions or their graphs.

    Raises:
      ImportError: without the ``tensorboard`` extra.
    """
    graphs = [getattr(f, "graph", f) for f in functions]
    message = proto("compat.proto.graph_pb2").GraphDef()
    message.versions.producer = 1
    for graph in graphs:
        _Nodes(message, f"{graph.name}/" if len(graphs) > 1 else "").add(graph)
    return message


class _Nodes:
    """Adds a graph's nodes to a GraphDef; ``names`` maps Relax variables to node outputs."""

    def __init__(self, message: Any, prefix: str) -> None:
        self.message = message
        self.prefix = prefix
        self.names: dict[relax.Var, str] = {}

    def add(self, graph: TracedGraph, inputs: Sequence[str] = ()) -> None:
        for param, name in zip(graph.params, inputs or [""] * len(graph.params)):
            self.names[param._var] = name or self._node(param._var.name, "Placeholder", (), param._type)
        for outer, inner in graph.captures:
            self.names[inner._var] = self._captured(outer, inner)
        for binding in graph._trace.bindings:
            self._bound(graph, binding)

    def _captured(self, outer: Any, inner: Any) -> str:
        if isinstance(outer, Variable):
            return self._node(outer.name.removesuffix(":0"), "ReadVariableOp", (), inner._type)
        return self._node(inner._var.name, "Placeholder", (), inner._type)

    def _bound(self, graph: TracedGraph, binding: Any) -> None:
        value, scope = binding.value, graph._trace.scopes.get(binding.var, "")
        if isinstance(value, relax.TupleGetItem):
            self.names[binding.var] = f"{self.names[value.tuple_value]}:{value.index}"
        elif isinstance(value, relax.Call) and dialect.is_dialect(value):
            self.names[binding.var] = self._call(graph, scope + binding.var.name, dialect.read(value), value.ty)

    def _call(self, graph: TracedGraph, name: str, call: Any, ty: Any) -> str:
        inputs = [self._input(x, f"{name}/input_{i}") for i, x in enumerate(call.inputs)]
        for key, value in call.attrs.items():
            if isinstance(value, ir.GlobalVar):
                _Nodes(self.message, f"{self.prefix}{name}/{key}/").add(_subgraph(graph, value))
        tensors = [_tensor_type(t) for t in (ty.fields if isinstance(ty, relax.TupleType) else [ty])]
        return self._node(name, call.primitive.tf_name, inputs, *tensors)

    def _input(self, value: Any, name: str) -> str:
        if isinstance(value, relax.Var):
            return self.names[value]
        return self._node(name, "Const", (), dialect.from_relax_type(value.ty))

    def _node(self, name: str, op: str, inputs: Sequence[str], *outputs: TensorType) -> str:
        """Adds a node to the GraphDef message, with the shapes and dtype of its outputs as attributes; returns its name."""
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
    """Returns a function of the trace by the name that a call uses for it."""
    return next(inner for known, inner in graph.subgraphs.items() if known.name_hint == var.name_hint)
