"""The graphs of branches and loop bodies inside a TensorFlow 1 graph, and ``get_default_graph``, which returns them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from tvtf.core.thread_state import state
from tvtf.ir.trace import Trace, tracing
from tvtf.v1.graph import Graph, GraphTrace, graph_of


class BodyGraph:
    """The graph of a branch or loop body: its ops are its own, while names, collections and variables are the outer graph's.

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/func_graph.py
    """

    building_function = True

    def __init__(self, trace: Trace) -> None:
        vars(self).update(_body=trace, name=trace.name)

    @property
    def outer_graph(self) -> Any:
        """The graph that has the conditional or the loop as an op."""
        return _graph_of(self._body.parent)

    @contextmanager
    def as_default(self) -> Iterator[BodyGraph]:
        """Adds ops to this branch or body in the ``with`` block, also where a branch inside it is being traced."""
        with nullcontext() if state.trace is self._body else tracing(self._body):
            yield self

    def get_operations(self) -> list[Any]:
        """Returns the ops of this branch or body, without those of the outer graph."""
        return self._body.operations()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if "_body" not in vars(self):  # __init__ has not run yet
            raise AttributeError(name)
        return getattr(self._body.root.graph, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._body.root.graph, name, value)


Graph.register(BodyGraph)


def get_default_graph() -> Any:
    """Returns the graph to which ops are added, or else the process's default graph.

    In a branch or a loop body that is being traced, it is the graph of this branch or body. Making it the default graph
    again, as Keras 2's layers do, then adds no op to the graph around it.
    """
    return _graph_of(state.trace)


def _graph_of(trace: Any) -> Any:
    """Returns the graph of a trace: one of its own for a branch or loop body inside a TensorFlow 1 graph."""
    if trace is None or trace is trace.root or not isinstance(trace.root, GraphTrace):
        return graph_of(trace)
    if not hasattr(trace, "graph"):
        trace.graph = BodyGraph(trace)
    return trace.graph
