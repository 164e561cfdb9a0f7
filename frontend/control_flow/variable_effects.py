"""Variables inside a trace: reads are values, assignments are new values in program order.

After a call of Python they are read and written in place, as that Python does it (``reload``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvtf.core.primitive import hooks
from tvtf.core.tensor import SymbolicTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable

if TYPE_CHECKING:
    from tvtf.ir.trace import Trace


def traced_assign(variable: Any, value: Tensor, read_value: bool) -> Any:
    """Emits an assignment to a Variable in the active trace. Later reads in the trace return ``value``.

    Gradient tapes don't record the assignment, because gradients don't flow through assignments.

    Returns:
      what ``Variable.assign`` returns: the new value if ``read_value`` is true.
    """
    trace = state.trace
    tapes = state.tapes
    state.tapes = []
    try:
        if trace.root.python.barriers and not variable.is_argument:
            _assign_in_place(variable, trace.own(value), trace)
        else:
            current = trace.read_variable(variable)
            # In a branch or loop body: the Variable's parameter, where the value is stored if something fails later.
            memory = () if trace.parent is None else (trace.root.memory_of(variable),)
            trace.assign_variable(variable, bind.assign(current, value, *memory))
    finally:
        state.tapes = tapes
    return trace.assigned_value(variable, read_value)


def _assign_in_place(variable: Variable, value: SymbolicTensor, trace: Trace) -> None:
    """Assigns a Variable in a program that has called the user's Python, which reads the Variable's memory.

    If this trace has called Python itself, the value is stored in the memory at once. Otherwise the trace is a branch
    or a loop body without calls of Python, and the value is stored after the branch or loop.
    """
    if trace.is_after_python:
        hooks.variables.store(variable, value, trace)
    trace.assign_variable(variable, with_gradient_of(variable, value, trace), trace.is_after_python)


def with_gradient_of(variable: Variable, value: Tensor, trace: Trace) -> SymbolicTensor:
    """Returns ``value`` as a read of the Variable: cotangents of the result flow to the Variable, not to ``value``."""
    # The primitive's gradient goes to its first operand.
    return trace.own(bind.reloaded(trace.own(trace.root.value_at_entry(variable)), value))
