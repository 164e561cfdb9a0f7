"""What a trace gives for an op without results: its place in the program, and nothing to compute with."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import export
from tvtf.core.thread_state import state


@export("Operation")
class Operation:
    """A traced op that has no results; ``tf.control_dependencies`` takes it, as it takes tensors.

    Compiled programs keep the order in which they were written, so nothing more is made of it.

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
        """One that is there already, with the tensors that it takes and gives."""
        made = cls.__new__(cls)
        made.name, made.type, made.graph, made.inputs, made.outputs = name, kind, graph, inputs, outputs
        return made

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


def done(kind: str, name: str | None = None, *inputs: Any) -> Operation | None:
    """What an op without results returns: nothing eagerly, while tracing an :class:`Operation`, done with ``inputs``."""
    return None if state.trace is None else state.trace.operation(kind, name, inputs)  # type: ignore[no-any-return]
