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
"""The most elements of any tensor in a folded subgraph: NumPy computes as many in less than a millisecond."""

MOST_STEPS = 200
"""The longest chain of calls back to constants: the search is recursive."""


FOLDED = frozenset(
    ("identity", "cast", "stack", "concat", "broadcast_to", "reshape", "equal", "not_equal", "stop_gradient")
)
"""The primitives that ``tf.get_static_value`` folds: TensorFlow's, and ``reshape``, which ``tf.fill`` is built on here."""


def folded(tensor: Any) -> np.ndarray | None:
    """Returns the constant value of a tensor as ``tf.get_static_value`` finds it, or None.

    Only the primitives in ``FOLDED`` are evaluated.
    """
    known = static_value(tensor)
    if known is not None or not isinstance(tensor, SymbolicTensor):
        return known
    return ComputedConstants(tensor._trace, FOLDED).value(tensor._var)


class ComputedConstants:
    """The constant values of one trace's Relax variables, each evaluated once; None for a variable that isn't constant.

    ``ops`` are the names of the primitives that are evaluated; None means all.
    """

    def __init__(self, trace: Any, ops: frozenset[str] | None = None) -> None:
        self.trace, self.ops = trace, ops
        self.calls: dict[Any, Any] = {}  # the expression that each variable is bound to
        self.recorded = 0  # how many of the trace's bindings are in `calls`
        self.values: dict[Any, np.ndarray | None] = {}

    def value(self, var: Any, depth: int = 0) -> np.ndarray | None:
        """Returns the value of a Relax constant, or of a variable that depends on constants only; else None.

        ``depth`` counts the recursive calls.
        """
        if isinstance(var, ir.Constant):
            return np.array(var.value.numpy(), dialect.from_relax_type(var.ty).dtype.np)
        # A `feed_dict` may replace the variable's value.
        if var in self.trace.fed or depth > MOST_STEPS:
            return None
        if var not in self.values:
            self.values[var] = self._evaluate(var, depth + 1)
        return self.values[var]

    def _evaluate(self, var: Any, depth: int) -> np.ndarray | None:
        """Evaluates a Relax variable: runs the call bound to it or, for a parameter, evaluates the captured tensor.

        Returns None if the value isn't constant or has too many elements.
        """
        call = self._bound_expression(var)
        if call is not None:
            return self._run_call(call, depth) if dialect.is_dialect(call) else None
        outer: Any = next((outer for outer, inner in self.trace.captures.values() if inner._var.same_as(var)), None)
        if isinstance(outer, SymbolicTensor):  # captured from an enclosing trace, whose calls are evaluated
            outside = outer._trace.computed_constants if self.ops is None else ComputedConstants(outer._trace, self.ops)
            known = static_value(outer)
            return known if known is not None else outside.value(outer._var, depth)
        # A resource has no constant value, and a batched tensor has one for each element of the batch.
        is_value = isinstance(outer, EagerTensor) and not outer.has_identity and not outer.is_batched
        return outer.eager_array() if is_value and math.prod(outer._type.shape) <= MOST_ELEMENTS else None

    def _bound_expression(self, var: Any) -> Any:
        """Returns the expression that a variable is bound to; None for a parameter."""
        bindings = self.trace.bindings
        # Only bindings that the trace appended since the last search; all of them if the trace has dropped bindings.
        for binding in bindings[self.recorded if self.recorded <= len(bindings) else 0 :]:
            self.calls[binding.var] = binding.value
        self.recorded = len(bindings)
        return self.calls.get(var)

    def _run_call(self, call: Any, depth: int) -> np.ndarray | None:
        """Runs a primitive's call eagerly on its constant inputs and returns the result.

        Returns None if an input isn't constant or a tensor is large. The same holds for primitives that have side effects or
        run on the host.
        """
        decoded = dialect.read(call)
        prim = decoded.primitive
        if not prim.pure or prim.host:
            return None
        if self.ops is not None and prim.name not in self.ops:
            return None
        if _has_expression(tuple(decoded.attrs.values())) or not all(_is_small(x.ty) for x in (*decoded.inputs, call)):
            return None
        values = [self.value(x, depth) for x in decoded.inputs]
        inputs = [EagerTensor(x) for x in values if x is not None]
        if len(inputs) < len(values):  # some input isn't constant
            return None
        try:
            return prim.run(inputs, decoded.attrs).eager_array()  # type: ignore[no-any-return]
        except (ValueError, OpError):  # the program raises the error, if it runs the op at all
            return None


def _is_small(ty: Any) -> bool:
    """Returns whether a Relax type is a tensor of static shape with at most ``MOST_ELEMENTS`` elements."""
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return False
    dims = dialect.from_relax_type(ty).shape
    return is_static_shape(dims) and math.prod(dims) <= MOST_ELEMENTS


def _has_expression(attribute: Any) -> bool:
    """Returns whether an attribute is, or contains, a subgraph or a symbolic dim."""
    return (
        isinstance(attribute, ir.Expr) or isinstance(attribute, (tuple, list)) and any(map(_has_expression, attribute))
    )
