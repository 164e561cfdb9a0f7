"""Values that a program computes from constants alone, where they are needed while it is traced: as sizes.

TensorFlow's shape functions evaluate such subgraphs, too, so that programs find static shapes there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import ir, relax

from tvtf.core.shape import is_static_shape
from tvtf.core.tensor import EagerTensor, SymbolicTensor, static_value
from tvtf.errors import OpError
from tvtf.ir import dialect

MOST_ELEMENTS = 1 << 16
"""Of each tensor on the way: NumPy computes them in less than a millisecond."""

MOST_STEPS = 200
"""How far the constants may be: the search is recursive."""


FOLDED = frozenset(
    ("identity", "cast", "stack", "concat", "broadcast_to", "reshape", "equal", "not_equal", "stop_gradient")
)
"""What TensorFlow folds, too, when it is asked for a value (it knows no reshaped ones, of which ``tf.fill`` makes use here)."""


def folded(tensor: Any) -> np.ndarray | None:
    """The value that ``tf.get_static_value`` tells of a tensor; else None."""
    found = static_value(tensor)
    if found is not None or not isinstance(tensor, SymbolicTensor):
        return found
    return ComputedConstants(tensor._trace, FOLDED).value(tensor._var)


class ComputedConstants:
    """The values of one trace's variables, each computed once; None for those that depend on more than constants.

    With ``ops`` also for those that other primitives compute.
    """

    def __init__(self, trace: Any, ops: frozenset[str] | None = None) -> None:
        self.trace, self.ops = trace, ops
        self.calls: dict[Any, Any] = {}
        self.seen = 0
        self.values: dict[Any, np.ndarray | None] = {}

    def value(self, var: Any, depth: int = 0) -> np.ndarray | None:
        """The value of a variable, or of a constant of the IR."""
        if isinstance(var, ir.Constant):
            return np.array(var.value.numpy(), dialect.from_relax_type(var.ty).dtype.np)
        if var in self.trace.fed or depth > MOST_STEPS:
            return None
        if var not in self.values:
            self.values[var] = self._computed(var, depth + 1)
        return self.values[var]

    def _computed(self, var: Any, depth: int) -> np.ndarray | None:
        call = self._call_of(var)
        if call is not None:
            return self._result(call, depth) if dialect.is_dialect(call) else None
        outer: Any = next((outer for outer, inner in self.trace.captures.values() if inner._var.same_as(var)), None)
        if isinstance(outer, SymbolicTensor):
            around = outer._trace.computed_constants if self.ops is None else ComputedConstants(outer._trace, self.ops)
            known = static_value(outer)
            return known if known is not None else around.value(outer._var, depth)
        is_value = isinstance(outer, EagerTensor) and not outer.has_identity and not outer.is_batched
        return outer.eager_array() if is_value and math.prod(outer._type.shape) <= MOST_ELEMENTS else None

    def _call_of(self, var: Any) -> Any:
        """What a variable is bound to; None for a parameter."""
        bindings = self.trace.bindings
        for binding in bindings[self.seen if self.seen <= len(bindings) else 0 :]:
            self.calls[binding.var] = binding.value
        self.seen = len(bindings)
        return self.calls.get(var)

    def _result(self, call: Any, depth: int) -> np.ndarray | None:
        bound = dialect.read(call)
        if not bound.primitive.pure or bound.primitive.host:
            return None
        if self.ops is not None and bound.primitive.name not in self.ops:
            return None
        if _has_expression(tuple(bound.attrs.values())) or not all(_is_small(x.ty) for x in (*bound.inputs, call)):
            return None
        found = [self.value(x, depth) for x in bound.inputs]
        inputs = [EagerTensor(x) for x in found if x is not None]
        if len(inputs) < len(found):
            return None
        try:
            return bound.primitive.run(inputs, bound.attrs).eager_array()  # type: ignore[no-any-return]
        except (ValueError, OpError):  # what it refuses, it refuses when it runs
            return None


def _is_small(ty: Any) -> bool:
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return False
    dims = dialect.from_relax_type(ty).shape
    return is_static_shape(dims) and math.prod(dims) <= MOST_ELEMENTS


def _has_expression(attribute: Any) -> bool:
    """Whether an attribute is, or holds, a subgraph or a dim that is unknown."""
    return (
        isinstance(attribute, ir.Expr) or isinstance(attribute, (tuple, list)) and any(map(_has_expression, attribute))
    )
