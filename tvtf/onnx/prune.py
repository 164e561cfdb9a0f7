"""Removes nodes and initializers that no output depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto


def live_nodes(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """Returns the nodes of an ONNX graph on which the outputs depend, in their order.

    Other nodes can be removed, because no ONNX node has side effects.
    """
    needed = set(outputs)
    live = []
    for node in reversed(nodes):  # a value's readers come after its node
        if not needed.isdisjoint(node.output):
            needed.update(_read(node))
            live.append(node)
    return live[::-1]


def live_initializers(initializers: Sequence[TensorProto], nodes: Sequence[NodeProto]) -> list[TensorProto]:
    """Returns the initializers (constants of a model) that at least one of the nodes reads."""
    needed = {name for node in nodes for name in _read(node)}
    return [tensor for tensor in initializers if tensor.name in needed]


def _read(node: NodeProto) -> Iterator[str]:
    """Yields the values that a node reads, including those that its inner graphs read."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from _read_by_graph(attribute.g)


def _read_by_graph(graph: GraphProto) -> Iterator[str]:
    """Yields the values that a subgraph reads or returns; some may be values of the graphs around it."""
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from _read(node)
