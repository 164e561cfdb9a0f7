"""Variables inside a trace: reads are values, assignments are new values in program order."""

from __future__ import annotations

from typing import Any

from tvtf.context import state
from tvtf.ops.rules import bind
from tvtf.tensor import Tensor


def traced_assign(variable: Any, value: Tensor, read_value: bool) -> Any:
    """Binds the assignment; later reads in this trace see its value. Gradients don't flow through it."""
    tapes, state.tapes = state.tapes, []
    try:
        current = state.trace.read_variable(variable)
        memory = () if state.trace.parent is None else (state.trace.root.memory_of(variable),)
        state.trace.assign_variable(variable, bind.assign(current, value, *memory))
    finally:
        state.tapes = tapes
    return state.trace.assigned_value(variable, read_value)
