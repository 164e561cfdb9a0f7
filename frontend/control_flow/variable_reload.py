"""Reads and writes of Variables by compiled code around its calls of Python, which may read and write them too."""

from __future__ import annotations

import numpy as np

from tvtf.core.tensor import SymbolicTensor, Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.frontend.control_flow.variable_effects import with_gradient_of
from tvtf.frontend.host.python_call import bound_call
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.host import HostFunction
from tvtf.state.variable import Variable


def reload(variable: Variable, trace: Trace) -> SymbolicTensor:
    """Emits a call that reads a Variable's memory when the compiled program runs, and returns the value read.

    Python that the program called before may have assigned the Variable.

    Args:
      variable: the Variable.
      trace: the trace of the compiled program.
    """
    with tracing(trace):
        function = HostFunction(lambda: (variable._array,), is_nonblocking=True, of_variable=True)
        (value,) = bound_call(function, [], [TensorSpec(variable.shape, variable.dtype)])
        return with_gradient_of(variable, value, trace)


def store(variable: Variable, value: Tensor, trace: Trace) -> None:
    """Emits a call that writes ``value`` to a Variable's memory when the compiled program runs.

    Python that the program calls afterwards then reads this value.

    Args:
      variable: the Variable.
      value: the value to write.
      trace: the trace of the compiled program.
    """

    def write(array: np.ndarray) -> tuple[()]:
        """Copies the array to the Variable's memory. The empty tuple means that the call has no results."""
        variable.store_in_new_memory(array)
        return ()

    with tracing(trace):
        bound_call(HostFunction(write, is_nonblocking=True, of_variable=True), [value], [])
