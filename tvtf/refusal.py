"""How a type rule refuses its arguments: one exception inside, TensorFlow's types outside."""

from __future__ import annotations

from tvtf.context import state
from tvtf.errors import InvalidArgumentError


class Refused(Exception):
    """Raised by type rules; the primitive adds its name and picks the type.

    TensorFlow raises InvalidArgumentError eagerly where it raises ``graph`` (ValueError for shapes, TypeError for dtypes)
    while tracing.
    """

    def __init__(self, message: str, graph: type[Exception] = ValueError, traced: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.graph = graph
        self.traced = traced or message

    def told_by(self, op: str) -> Exception:
        if state.trace is None:
            return InvalidArgumentError(None, op, f"{self.message.replace('{op}', op)} [Op:{op}] name: ")
        return self.graph(self.traced.replace("{op}", op) if "{op}" in self.traced else f"{op}: {self.traced}")
