"""Defines `FuncGraph`, a graph that is never run. It is a separate file because it imports the compiler.

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
    """A graph for inferring the shapes and dtypes of a function's results; it is never run.

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
        """Returns a context in which ops are added to this graph."""
        return tracing(self.trace)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute that the graph of every ``tf.function`` has, such as names, collections and ops.

        The `FunctionGraph` with these attributes is created on the first use.
        """
        if name.startswith("__") or "trace" not in vars(self):  # without a trace, __init__ has not run yet
            raise AttributeError(name)
        if "_as_graph" not in vars(self):
            self._as_graph = import_module("tvtf.v1.graph").FunctionGraph(self.trace)
        return getattr(self._as_graph, name)

    def placeholder(self, dtype: DType, shape: Any, name: str | None) -> SymbolicTensor:
        """Adds a parameter to the graph, for ``tf.compat.v1.placeholder``, and returns its symbolic tensor.

        Unknown sizes become symbolic dims.
        """
        shape, name = as_shape(shape), name or "Placeholder"
        if shape.rank is None:
            return self.trace.add_param(TensorType(argument_shape(name, None), dtype), name)
        dims = (fresh_dim(f"{name}_{axis}") if size is None else size for axis, size in enumerate(shape))
        return self.trace.add_param(TensorType(tuple(dims), dtype), name)


class _Scratch(Trace):
    """The trace of a graph that is never run."""

    graph: FuncGraph

    def encloses(self, tensor: SymbolicTensor) -> bool:
        """Returns whether this graph may use a tensor: of any graph but those inside this one, as TensorFlow's FuncGraph.

        Keras 2 infers each layer's results in a graph of its own, and what the layers pass on may hold tensors of that
        graph: the parameters of TensorFlow Probability's distributions do.
        """
        return tensor._trace is self or not any(trace is self for trace in tensor._trace.enclosing())


_install()
