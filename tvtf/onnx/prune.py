"""Leaves out what no output depends on: nodes and initializers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto


def live_nodes(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that the outputs need, in order; every op that we emit is free of effects."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed.update(_read(node))
            kept.append(node)
    return kept[::-1]


def live_initializers(initializers: Sequence[TensorProto], nodes: Sequence[NodeProto]) -> list[TensorProto]:
    """The initializers that the nodes read."""
    needed = {name for node in nodes for name in _read(node)}
    return [tensor for tensor in initializers if tensor.name in needed]


def _read(node: NodeProto) -> Iterator[str]:
    """The values a node reads, those of the graphs inside it too."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from _read_by_graph(attribute.g)


def _read_by_graph(graph: GraphProto) -> Iterator[str]:
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from _read(node)
