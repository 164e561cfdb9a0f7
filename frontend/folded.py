"""Values that are known while tracing: of constants, and of what is put together from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import ir

from tvtf import dialect
from tvtf.shape import is_static_shape
from tvtf.tensor import EagerTensor, SymbolicTensor, static_value

FOLDED = ("identity", "cast", "stack", "concat", "broadcast_to", "reshape", "equal", "not_equal", "stop_gradient")
"""What TensorFlow folds, too, when it is asked for a value (it knows no reshaped ones, of which ``tf.fill`` makes use here)."""


def folded(tensor: Any) -> np.ndarray | None:
    """The value of a tensor as far as constants tell it; else None."""
    found = static_value(tensor)
    if found is not None or not isinstance(tensor, SymbolicTensor):
        return found
    return _Constants(tensor._trace).value(tensor._var)


class _Constants:
    """The values of variables of a trace."""

    def __init__(self, trace: Any) -> None:
        self.bound = {binding.var: binding.value for binding in trace.bindings}
        self.fed = trace.fed
        self.captured = {inner._var: outer for outer, inner in trace.captures.values()}

    def value(self, var: Any) -> np.ndarray | None:
        if isinstance(var, ir.Constant):
            return np.array(var.value.numpy(), dialect.from_relax_type(var.ty).dtype.np)
        if var in self.fed:
            return None
        outer = self.captured.get(var)
        if outer is not None:
            return folded(outer) if isinstance(outer, (SymbolicTensor, EagerTensor)) and not is_own(outer) else None
        value = self.bound.get(var)
        return self._result(value) if value is not None and dialect.is_dialect(value) else None

    def _result(self, call: Any) -> np.ndarray | None:
        bound = dialect.read(call)
        if bound.primitive.name not in FOLDED or not is_static_shape(bound.attrs.get("shape", ())):
            return None
        inputs = [self.value(x) for x in bound.inputs]
        if any(x is None for x in inputs):
            return None
        return np.asarray(bound.primitive.numpy(*inputs, **bound.attrs))


def is_own(tensor: Any) -> bool:
    """Whether a tensor means more than its value, as Variables' do."""
    return isinstance(tensor, EagerTensor) and tensor.has_identity
