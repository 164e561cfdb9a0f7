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
    """Binds a call that reads the Variable's memory when the program reaches this place; returns the value."""
    with tracing(trace):
        function = HostFunction(lambda: (variable._array,), is_brief=True, of_variable=True)
        (value,) = bound_call(function, [], [TensorSpec(variable.shape, variable.dtype)])
        return with_gradient_of(variable, value, trace)


def store(variable: Variable, value: Tensor, trace: Trace) -> None:
    """Binds a call that writes the value to the Variable's memory when the program reaches this place."""

    def write(array: np.ndarray) -> tuple[()]:
        variable.store_beside(array)
        return ()

    with tracing(trace):
        bound_call(HostFunction(write, is_brief=True, of_variable=True), [value], [])
