"""`FuncGraph`: a graph in which nothing is run. It imports the compiler, so it is a room of its own.

Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/func_graph.py
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from tvtf.api.namespaces import install as _install
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, as_shape, fresh_dim
from tvtf.core.tensor import SymbolicTensor
from tvtf.core.thread_state import state
from tvtf.dtypes import DType
from tvtf.frontend.function.deferred_call import argument_shape
from tvtf.ir.trace import Trace, tracing


@export("__internal__.FuncGraph", waits=False)
class FuncGraph:
    """A graph to find out in which shapes and dtypes a function gives what: nothing in it is run.

    >>> import tvtf as tf
    >>> with tf.__internal__.FuncGraph("scratch").as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [None, 3])
    ...     y = tf.reduce_sum(x, 1)
    >>> y.shape
    TensorShape([None])

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/func_graph.py
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.trace = _Scratch(name, caller=state.trace)
        self.trace.graph = self

    def as_default(self) -> AbstractContextManager[Any]:
        """Builds what is called inside in this graph."""
        return tracing(self.trace)

    def __getattr__(self, name: str) -> Any:
        """Names, collections, ops: what the graph of any function has."""
        if name.startswith("__") or "trace" not in vars(self):
            raise AttributeError(name)
        if "_as_graph" not in vars(self):
            self._as_graph = import_module("tvtf.v1.graph").FunctionGraph(self.trace)
        return getattr(self._as_graph, name)

    def placeholder(self, dtype: DType, shape: Any, name: str | None) -> SymbolicTensor:
        """What ``tf.compat.v1.placeholder`` gives inside."""
        shape, name = as_shape(shape), name or "Placeholder"
        if shape.rank is None:
            return self.trace.add_param(TensorType(argument_shape(name, None), dtype), name)
        dims = (fresh_dim(f"{name}_{axis}") if size is None else size for axis, size in enumerate(shape))
        return self.trace.add_param(TensorType(tuple(dims), dtype), name)


class _Scratch(Trace):
    """A trace that nobody runs."""

    graph: FuncGraph


_install()
