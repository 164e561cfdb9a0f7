"""Constant folding while tracing: evaluates tensors that depend only on constants, where they are needed as sizes.

TensorFlow's shape functions evaluate such subgraphs, too, and programs rely on the static shapes that result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from tvtf.core import nest
from tvtf.core.primitive import as_tuple
from tvtf.core.shape import substitute_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, static_value
from tvtf.errors import OpError
from tvtf.ir import dialect
from tvtf.ir.dim_equations import symbols_of

MAX_ELEMENTS = 1 << 16
"""The maximum number of elements of a tensor in a folded subgraph: NumPy computes as many in less than a millisecond."""

MAX_STEPS = 200
"""The maximum length of a chain of calls back to constants, as the search is recursive."""


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

    ``ops`` are the names of the primitives that are evaluated. A variable that needs another one isn't constant. None
    stands for all primitives; each trace keeps one such object, so that its values are found once.

    In all methods, ``depth`` is the number of recursive calls that led from the wanted value to this one.
    """

    def __init__(self, trace: Any, ops: frozenset[str] | None = None) -> None:
        self.trace, self.ops = trace, ops
        self.calls: dict[Any, Any] = {}  # the expression that each variable is bound to
        self.carriers: dict[Any, Any] = {}  # the first variable whose shape has each symbolic dim as an element
        self.recorded = 0  # how many of the trace's bindings are in `calls`
        self.recorded_params = 0  # and how many of its parameters are in `carriers`
        self.values: dict[Any, Any] = {}

    def value(self, var: Any, depth: int = 0) -> Any:
        """Returns the value of a Relax constant, or of a variable that depends on constants only, or None.

        The value is an array, or a tuple of arrays. The search ends where ``depth`` exceeds ``MAX_STEPS``.
        """
        if depth == 0:
            self._note_use(var)
        if isinstance(var, ir.Constant):
            return np.array(var.value.numpy(), dialect.from_relax_type(var.ty).dtype.np)
        # A `feed_dict` may replace the variable's value.
        if var in self.trace.fed or depth > MAX_STEPS:
            return None
        if var not in self.values:
            self.values[var] = self._evaluate(var, depth + 1)
        return self.values[var]

    def _note_use(self, var: Any) -> None:
        """Records that the program uses the value of a variable, if it is constant, while it is traced."""
        if self.trace.static_uses is not None and self.value(var, 1) is not None:
            self.trace.note_static_use(var)

    def _evaluate(self, var: Any, depth: int) -> Any:
        """Evaluates a Relax variable: runs the call bound to it or, for a parameter, evaluates the captured tensor.

        Returns None if the value isn't constant or has too many elements.

        Args:
          var: the variable.
          depth: the number of recursive calls that led here.
        """
        expression = self._bound_expression(var)
        if expression is None:
            return self._evaluate_captured(var, depth)
        if isinstance(expression, relax.TupleGetItem):
            results = self.value(expression.tuple_value, depth)
            return None if results is None else results[expression.index]
        return self._run_call(var, expression, depth) if dialect.is_dialect(expression) else None

    def _evaluate_captured(self, var: Any, depth: int) -> Any:
        """Evaluates the tensor that a parameter of the trace captures from outside the traced function.

        Returns None for a parameter that is an argument, and if the tensor isn't constant or has too many elements.

        Args:
          var: the parameter.
          depth: the number of recursive calls that led here.
        """
        captures = self.trace.captures.values()
        captured: Any = next((tensor for tensor, param in captures if param._var.same_as(var)), None)
        if isinstance(captured, SymbolicTensor):
            known_value = static_value(captured)
            if known_value is not None:
                return known_value
            # The enclosing trace has the calls that compute the tensor. The object that it keeps evaluates all ops.
            trace = captured._trace
            constants = trace.computed_constants if self.ops is None else ComputedConstants(trace, self.ops)
            return constants.value(captured._var, depth)
        if not isinstance(captured, EagerTensor):
            return None
        # A handle of a resource has no constant value, and a batched tensor has one for each element of the batch.
        if captured.has_identity or captured.is_batched:
            return None
        if math.prod(captured._type.shape) > MAX_ELEMENTS:
            return None
        return captured.eager_array()

    def _bound_expression(self, var: Any) -> Any:
        """Returns the expression that a variable is bound to, or None for a parameter."""
        self._record_bindings()
        return self.calls.get(var)

    def _record_bindings(self) -> None:
        """Records the bindings that the trace appended since the last search; all of them if it has dropped bindings."""
        for param in self.trace.params[self.recorded_params :]:
            self._record_dims(param._var)
        self.recorded_params = len(self.trace.params)
        bindings = self.trace.bindings
        has_dropped_bindings = self.recorded > len(bindings)
        new_bindings = bindings if has_dropped_bindings else bindings[self.recorded :]
        for binding in new_bindings:
            self.calls[binding.var] = binding.value
            self._record_dims(binding.var)
        self.recorded = len(bindings)

    def _record_dims(self, var: Any) -> None:
        """Records the symbolic dims that no earlier variable has."""
        for dim in _dims(var.ty):
            if isinstance(dim, tirx.Var):
                self.carriers.setdefault(dim, var)

    def _run_call(self, var: Any, call: Any, depth: int) -> Any:
        """Runs a primitive's call eagerly on its constant inputs and returns the result, the value of ``var``.

        Returns None if an input isn't constant or a tensor is large. The same holds for primitives that have side effects.
        """
        decoded = dialect.read(call)
        prim = decoded.primitive
        if not prim.pure or (self.ops is not None and prim.name not in self.ops):
            return None
        if not all(_is_small(x.ty) for x in (*decoded.inputs, call)) or not self._stays_small(var, call.ty, depth):
            return None
        attrs = {name: self._attribute(value, var, depth) for name, value in decoded.attrs.items()}
        if any(value is _UNKNOWN for value in attrs.values()):
            return None
        # Only NumPy's functions find dims of their results in the values; a kernel takes all its dims as given.
        if not prim.host and any(map(_is_dim, nest.flatten(list(attrs.values())))):
            return None
        values = [self.value(x, depth) for x in decoded.inputs]
        inputs = [EagerTensor(x) for x in values if x is not None]
        if len(inputs) < len(values):  # some input isn't constant
            return None
        try:
            results = prim.run(inputs, attrs)
        except (ValueError, OpError):  # the program raises the error, if it runs the op at all
            return None
        arrays = tuple(each.eager_array() for each in as_tuple(results))
        if any(each.size > MAX_ELEMENTS for each in arrays):
            return None
        return arrays if isinstance(results, tuple) else arrays[0]

    def _stays_small(self, var: Any, ty: Any, depth: int) -> bool:
        """Returns whether a call's result, the value of ``var``, has few elements, as far as its sizes are known beforehand."""
        sizes = [[self._attribute(dim, var, depth) for dim in _dims(each)] for each in _tensors(ty)]
        return all(math.prod(size for size in each if isinstance(size, int)) <= MAX_ELEMENTS for each in sizes)

    def _attribute(self, value: Any, var: Any, depth: int) -> Any:
        """Returns an attribute of the call that computes ``var``, with symbolic dims replaced by constants.

        A dim that only the call itself determines, as the number of a mask's true elements, remains. ``_UNKNOWN`` stands for
        a subgraph and for dims that aren't constant.
        """
        if isinstance(value, tuple):
            elements = tuple(self._attribute(element, var, depth) for element in value)
            is_unknown = any(element is _UNKNOWN for element in elements)
            return _UNKNOWN if is_unknown else elements
        if isinstance(value, ir.GlobalVar):
            return _UNKNOWN
        if not isinstance(value, ir.Expr):
            return value
        dims = {}
        for symbol in symbols_of(value):
            dims[symbol] = self._dim(symbol, var, depth)
            if dims[symbol] is None:
                return _UNKNOWN
        return substitute_dim(value, dims)

    def size(self, dim: Any) -> Any:
        """Returns the constant value of a dim, or the dim itself if it isn't constant.

        From now on, the trace assumes the symbols in the dim to be equal to their constants. Other tensors keep the symbols.
        """
        if isinstance(dim, int):
            return dim
        self._record_bindings()
        constants = {symbol: self._dim(symbol, None, 0) for symbol in symbols_of(dim)}
        if any(constant is None for constant in constants.values()):
            return dim
        root = self.trace.root
        for symbol, constant in constants.items():
            if symbol not in root.assumptions:
                root.assume_equal(symbol, constant)
        return substitute_dim(dim, constants)

    def _dim(self, dim: Any, var: Any, depth: int) -> Any:
        """Returns the constant value of a symbolic dim, read from the shape of a constant tensor that has the dim.

        Returns the dim itself if ``var`` is the first to have it, and None if the dim isn't constant.
        """
        outer = self._of_outer(dim)
        if outer is not None:
            return outer._dim(dim, None, depth)
        carrier = self.carriers.get(dim)
        if carrier is None:
            return None
        if carrier.same_as(var):
            return dim
        value = self.value(carrier, depth)
        if value is None:
            return None
        sizes: list[int] = []
        for array in as_tuple(value):
            sizes += array.shape
        return next(size for size, carrier_dim in zip(sizes, _dims(carrier.ty)) if dim.same_as(carrier_dim))

    def _of_outer(self, dim: Any) -> ComputedConstants | None:
        """Returns the constants of the innermost enclosing trace that has a symbolic dim, or None if there is none."""
        trace = self.trace.parent or self.trace.caller
        if trace is None:
            return None
        outer: ComputedConstants = trace.computed_constants
        outer._record_bindings()
        return outer if dim in outer.carriers else outer._of_outer(dim)


_UNKNOWN = object()
"""Stands for an attribute that isn't constant."""


def _is_dim(value: Any) -> bool:
    return isinstance(value, ir.Expr)


def _tensors(ty: Any) -> list[Any]:
    """Returns the types of the tensors of a value of a Relax type."""
    return list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]


def _has_rank(ty: Any) -> bool:
    return isinstance(ty, relax.TensorType) and ty.shape is not None


def _dims(ty: Any) -> list[Any]:
    """Returns the dims of a tensor's Relax type, or of the types in a tuple; those of unknown rank have none."""
    return [dim for each in _tensors(ty) if _has_rank(each) for dim in dialect.from_relax_type(each).shape]


def _is_small(ty: Any) -> bool:
    """Returns whether each tensor of a Relax type has at most ``MAX_ELEMENTS`` elements, as far as static dims show it.

    Only small tensors, such as shapes and axes, are computed while tracing. Symbolic dims are ignored. A type of unknown
    rank isn't small.
    """
    for tensor_type in _tensors(ty):
        if not _has_rank(tensor_type):
            return False
        static_dims = [dim for dim in _dims(tensor_type) if isinstance(dim, int)]
        if math.prod(static_dims) > MAX_ELEMENTS:
            return False
    return True
