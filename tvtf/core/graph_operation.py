"""``tf.Operation``: the result of tracing an op that has no results."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import export
from tvtf.core.thread_state import state


@export("Operation")
class Operation:
    """A traced op. One without results can be passed to ``tf.control_dependencies``, as tensors can.

    Compiled programs keep the order in which they were written, so control dependencies have no effect there.

    >>> import tvtf as tf
    >>> found = []
    >>> _ = tf.function(lambda: found.append(tf.no_op()) or 0)()
    >>> found
    [<tf.Operation 'NoOp' type=NoOp>]

    Source: https://www.tensorflow.org/api_docs/python/tf/Operation
    """

    def __init__(self, kind: str, name: str | None = None) -> None:
        self.type = kind
        self.name: str = state.trace.root.unique(name or kind)
        self.graph: Any = state.trace
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    @classmethod
    def of(cls, name: str, kind: str, graph: Any, inputs: list[Any], outputs: list[Any]) -> Operation:
        """Returns an Operation for an op that was traced before, with its inputs and outputs.

        Args:
          name: the op's name.
          kind: the op's type, such as "MatMul".
          graph: the trace or graph that has the op.
          inputs: the op's operands.
          outputs: the op's results.
        """
        operation = cls.__new__(cls)  # `__init__` would make a new name
        operation.name, operation.type, operation.graph = name, kind, graph
        operation.inputs, operation.outputs = inputs, outputs
        return operation

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


def done(kind: str, name: str | None = None, *inputs: Any) -> Operation | None:
    """Returns what an op without results returns: None eagerly, an :class:`Operation` in a trace.

    The operation is done after its ``inputs``. ``kind`` is the op's type, such as "NoOp".
    """
    return None if state.trace is None else state.trace.operation(kind, name, inputs)  # type: ignore[no-any-return]
