"""Constant folding while tracing: evaluates tensors that depend only on constants, where they are needed as sizes.

TensorFlow's shape functions evaluate such subgraphs, too, and programs rely on the static shapes that result.
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
"""The most elements of any tensor in a folded subgraph: NumPy computes that many in less than a millisecond."""

MOST_STEPS = 200
"""The longest chain of calls back to constants: the search is recursive."""


FOLDED = frozenset(
    ("identity", "cast", "stack", "concat", "broadcast_to", "reshape", "equal", "not_equal", "stop_gradient")
)
"""The primitives that ``tf.get_static_value`` folds: TensorFlow's, and ``reshape``, which ``tf.fill`` is built on here."""


def folded(tensor: Any) -> np.ndarray | None:
    """Returns the value of a tensor that ``tf.get_static_value`` finds, or None."""
    known = static_value(tensor)
    if known is not None or not isinstance(tensor, SymbolicTensor):
        return known
    return ComputedConstants(tensor._trace, FOLDED).value(tensor._var)


class ComputedConstants:
    """The constant values of one trace's Relax variables, each evaluated once; None for a variable that isn't constant.

    ``ops`` limits the primitives that are folded.
    """

    def __init__(self, trace: Any, ops: frozenset[str] | None = None) -> None:
        self.trace, self.ops = trace, ops
        self.calls: dict[Any, Any] = {}
        self.seen = 0  # how many of the trace's bindings are in `calls`
        self.values: dict[Any, np.ndarray | None] = {}

    def value(self, var: Any, depth: int = 0) -> np.ndarray | None:
        """Returns the constant value of a Relax variable or constant; None if a variable's value isn't constant.

        ``depth`` counts the recursive calls.
        """
        if isinstance(var, ir.Constant):
            return np.array(var.value.numpy(), dialect.from_relax_type(var.ty).dtype.np)
        if var in self.trace.fed or depth > MOST_STEPS:
            return None
        if var not in self.values:
            self.values[var] = self._computed(var, depth + 1)
        return self.values[var]

    def _computed(self, var: Any, depth: int) -> np.ndarray | None:
        """Evaluates a Relax variable: runs the call that it is bound to, or evaluates the outer tensor that it captures.

        Returns None for a value that isn't constant, or has too many elements.
        """
        call = self._call_of(var)
        if call is not None:
            return self._run_call(call, depth) if dialect.is_dialect(call) else None
        outer: Any = next((outer for outer, inner in self.trace.captures.values() if inner._var.same_as(var)), None)
        if isinstance(outer, SymbolicTensor):
            outside = outer._trace.computed_constants if self.ops is None else ComputedConstants(outer._trace, self.ops)
            known = static_value(outer)
            return known if known is not None else outside.value(outer._var, depth)
        is_value = isinstance(outer, EagerTensor) and not outer.has_identity and not outer.is_batched
        return outer.eager_array() if is_value and math.prod(outer._type.shape) <= MOST_ELEMENTS else None

    def _call_of(self, var: Any) -> Any:
        """Returns the expression that a variable is bound to; None for a parameter."""
        bindings = self.trace.bindings
        for binding in bindings[self.seen if self.seen <= len(bindings) else 0 :]:
            self.calls[binding.var] = binding.value
        self.seen = len(bindings)
        return self.calls.get(var)

    def _run_call(self, call: Any, depth: int) -> np.ndarray | None:
        """Runs a primitive's call eagerly on its constant inputs.

        Returns None if an input isn't constant or a tensor is large, or for a primitive with side effects or on the host.
        """
        bound = dialect.read(call)
        if not bound.primitive.pure or bound.primitive.host:
            return None
        if self.ops is not None and bound.primitive.name not in self.ops:
            return None
        if _has_expression(tuple(bound.attrs.values())) or not all(_is_small(x.ty) for x in (*bound.inputs, call)):
            return None
        values = [self.value(x, depth) for x in bound.inputs]
        inputs = [EagerTensor(x) for x in values if x is not None]
        if len(inputs) < len(values):
            return None
        try:
            return bound.primitive.run(inputs, bound.attrs).eager_array()  # type: ignore[no-any-return]
        except (ValueError, OpError):  # the op raises the error when the program runs, if it does
            return None


def _is_small(ty: Any) -> bool:
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return False
    dims = dialect.from_relax_type(ty).shape
    return is_static_shape(dims) and math.prod(dims) <= MOST_ELEMENTS


def _has_expression(attribute: Any) -> bool:
    """Returns whether an attribute is, or contains, a subgraph or a symbolic dim."""
    return (
        isinstance(attribute, ir.Expr) or isinstance(attribute, (tuple, list)) and any(map(_has_expression, attribute))
    )
