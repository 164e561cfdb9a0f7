"""Python's operators for tensors and Variables, with a fast path for eager operands of one dtype.

TensorFlow's ``+`` and ``/`` pass an operand of another dtype on, and the op rejects it; the other operators convert it
to the tensor's dtype, or raise that it can't be converted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.composite import CompositeTensor
from tvtf.core.primitive import defer_unknown_rank, table
from tvtf.core.shape import broadcast_shapes, may_be_same
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.ops import compare
from tvtf.ops import math as arithmetic
from tvtf.ops.elementwise import like
from tvtf.state.variable import Variable

Operator = Callable[[Any, Any], Any]

# -- the complete operators


def _logical_or_bitwise(logical_name: str, bitwise_name: str) -> Operator:
    """Returns the operator ``&``, ``|`` or ``^``.

    The operator calls the op ``logical_name`` for bools, and the op ``bitwise_name`` for integers.
    """

    def operate(x: Any, y: Any) -> Any:
        name = logical_name if convert_to_tensor(x).dtype.is_bool else bitwise_name
        return _op_named(name)(x, y)

    return operate


def _op_named(name: str) -> Callable[..., Any]:
    """Returns a primitive, or a comparison that is a plain function, by its name."""
    return table[name] if name in table else getattr(compare, name)


def _late_bound(name: str) -> Operator:
    """Returns a function that calls the primitive ``name``, looked up at each call.

    A module that is imported later may declare the primitive.
    """
    return lambda x, y: table[name](x, y)


@defer_unknown_rank
def equals(x: Any, y: Any) -> Any:
    """Computes ``x == y`` elementwise. Returns False for None and for shapes that don't broadcast.

    In a TensorFlow 1 graph it compares by identity.
    """
    return x is y if _is_in_graph() else _compare_or_default(compare.equal, x, y, False)


@defer_unknown_rank
def differs(x: Any, y: Any) -> Any:
    """Computes ``x != y`` elementwise. Returns True for None and for shapes that don't broadcast.

    In a TensorFlow 1 graph it compares by identity.
    """
    return x is not y if _is_in_graph() else _compare_or_default(compare.not_equal, x, y, True)


def _is_in_graph() -> bool:
    """Returns whether the active trace, or one around it, is a graph of TensorFlow 1, whose tensors compare by identity."""
    trace = state.trace
    while trace is not None and not trace.has_keys:
        trace = trace.parent or trace.caller
    return trace is not None


def _compare_or_default(op: Callable[..., Any], x: Any, y: Any, default: bool) -> Any:
    """Computes ``==`` or ``!=`` elementwise by ``op``.

    A comparison with None, or of shapes that don't broadcast, returns ``default``.
    """
    if y is None:
        return default
    if isinstance(y, CompositeTensor) and type(y).__eq__ is not object.__eq__:
        return NotImplemented  # Python then calls y's own comparison
    x = convert_to_tensor(x)
    y = like(y, x.dtype)
    if broadcast_shapes(x._type.shape, y._type.shape, may_be_same) is None:
        return convert_to_tensor(default)
    return op(x, y)


def _reflected(operate: Operator) -> Operator:
    """Returns a reflected operator, such as ``__radd__``, which calls ``operate(y, x)`` instead of ``operate(x, y)``.

    The other operand ``y`` is converted to the dtype of ``x``.
    """

    def reflected(x: Any, y: Any) -> Any:
        x = convert_to_tensor(x)
        return operate(like(y, x.dtype), x)

    return reflected


def _swapped(operate: Operator) -> Operator:
    """Returns an operator with its operands exchanged."""
    return lambda x, y: operate(y, x)


def _invert(x: Any) -> Any:
    """Computes ``~x``: logical for bools, bitwise for integers."""
    x = convert_to_tensor(x)
    return table["logical_not" if x.dtype.is_bool else "invert"](x)


def _deferring_to_right(operate: Operator, reflected: str) -> Operator:
    """Returns an operator that tries the right operand's method ``reflected`` (``__r...__``) if ``operate`` fails.

    The error of ``operate`` is raised if that method returns NotImplemented, or if the right operand is a tensor or has
    a type of NumPy.
    """

    def operate_or_defer(x: Any, y: Any) -> Any:
        """Applies the operator. After an error, tries the reflected method of the right operand, as Python would."""
        try:
            return operate(x, y)
        except (TypeError, ValueError):
            # Tensors and NumPy's types are operands that ``operate`` itself handles: its error is final.
            if is_tensor(y) or isinstance(y, np.generic | np.ndarray) or not hasattr(type(y), reflected):
                raise
            reflected_method = getattr(type(y), reflected)
            result = reflected_method(y, x)
            if result is NotImplemented:
                raise
            return result

    return operate_or_defer


# -- the fast path

_NUMPY_ERRORS = (ValueError, RuntimeError, OverflowError, MemoryError)
"""What NumPy raises for shapes that don't broadcast, nested quiet contexts, ints and results that don't fit.

The complete operator then computes the result or raises TensorFlow's error.
"""


def _fits_dtype(dtype: np.dtype, value: int) -> bool:
    """Returns whether NumPy converts an int to ``dtype`` without an error.

    Dtypes other than floats and signed integers give False. A larger int must not go to NumPy: its comparisons are
    exact, while TensorFlow wraps the int around.
    """
    if dtype.kind == "f":
        return True
    if dtype.kind != "i":
        return False
    # Small ints, which fit every signed dtype, are the usual case.
    return -128 <= value <= 127 or value.bit_length() < 8 * dtype.itemsize


def _with_fast_path(ufunc: np.ufunc, kinds: str, complete: Operator) -> Operator:
    """Returns the operator ``complete`` with a fast path: one NumPy call if nothing is traced or converted.

    ``kinds`` are the dtype kinds (NumPy's letters) that the fast path serves.
    """

    def operate(x: Any, y: Any) -> Any:
        """Calls NumPy if ``y`` is an eager tensor of the dtype of ``x``, or a Python number that fits this dtype.

        Other operands go to ``complete``, as do all while a trace or a gradient tape is active.
        """
        if state.trace is None and not state.tapes:
            left = x._array
            dtype = left.dtype
            right = y
            if type(y) is EagerTensor:
                right = y._array
                fits_dtype = dtype is right.dtype
            elif type(y) is float:
                fits_dtype = dtype.kind == "f"
            else:
                fits_dtype = type(y) is int and _fits_dtype(dtype, y)
            if fits_dtype and dtype.kind in kinds:
                try:
                    result = state.quiet.run(ufunc, left, right)
                except _NUMPY_ERRORS:
                    return complete(x, y)
                # NumPy returns a scalar, not an array, for operands of rank 0
                return EagerTensor(result if type(result) is np.ndarray else np.asarray(result))
        return complete(x, y)

    return operate


def _with_fast_reflected_path(ufunc: np.ufunc, kinds: str, complete: Operator) -> Operator:
    """Returns a reflected operator with a fast path by NumPy, for a Python number on the left.

    ``complete`` handles all other cases. ``kinds`` are the dtype kinds (NumPy's letters) that the fast path serves.
    """

    def operate(x: Any, y: Any) -> Any:
        """Computes ``y`` operator ``x``. Calls NumPy if ``y`` is a Python number that fits the dtype of ``x``.

        Other operands go to ``complete``, as do all while a trace or a gradient tape is active.
        """
        right = x._array
        dtype = right.dtype
        if type(y) is float:
            fits_dtype = dtype.kind == "f"
        else:
            fits_dtype = type(y) is int and _fits_dtype(dtype, y)
        if fits_dtype and dtype.kind in kinds and state.trace is None and not state.tapes:
            try:
                return EagerTensor(np.asarray(state.quiet.run(ufunc, y, right)))
            except _NUMPY_ERRORS:
                return complete(x, y)
        return complete(x, y)

    return operate


def _with_fast_unary_path(ufunc: np.ufunc, kinds: str, complete: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a unary operator with a fast path by NumPy for eager tensors.

    ``complete`` handles all other cases. ``kinds`` are the dtype kinds (NumPy's letters) that the fast path serves.
    """

    def operate(x: Any) -> Any:
        if x._array.dtype.kind in kinds and state.trace is None and not state.tapes:
            return EagerTensor(np.asarray(ufunc(x._array)))
        return complete(x)

    return operate


def _divide(x: Any, y: Any) -> Any:
    """Divides as Python 2's ``__div__``, which TensorFlow still has: integers are rounded down."""
    dtype = convert_to_tensor(x).dtype
    return (arithmetic.divide if dtype.is_floating or dtype.is_complex else table["floordiv"])(x, y)


ARITHMETIC: dict[str, Operator] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "div": _divide,
    "truediv": arithmetic.divide,
    "floordiv": _late_bound("floordiv"),
    "mod": _late_bound("floormod"),
    "pow": arithmetic.pow,
    "matmul": _late_bound("matmul"),
    "and": _logical_or_bitwise("logical_and", "bitwise_and"),
    "or": _logical_or_bitwise("logical_or", "bitwise_or"),
    "xor": _logical_or_bitwise("logical_xor", "bitwise_xor"),
}
COMPARISONS: dict[str, Operator] = {
    "lt": compare.less,
    "le": compare.less_equal,
    "gt": compare.greater,
    "ge": compare.greater_equal,
    "eq": equals,
    "ne": differs,
}
UNARY: dict[str, Callable[[Any], Any]] = {"neg": arithmetic.negative, "abs": arithmetic.abs, "invert": _invert}
QUICK: dict[str, tuple[np.ufunc, str]] = {
    "add": (np.add, "fiuc"),
    "sub": (np.subtract, "fiuc"),
    "mul": (np.multiply, "fiuc"),
    "truediv": (np.divide, "fc"),
    "pow": (np.power, "f"),
    "lt": (np.less, "fiu"),
    "le": (np.less_equal, "fiu"),
    "gt": (np.greater, "fiu"),
    "ge": (np.greater_equal, "fiu"),
    "eq": (np.equal, "fiucb"),
    "ne": (np.not_equal, "fiucb"),
}

QUICK_UNARY: dict[str, tuple[np.ufunc, str]] = {"neg": (np.negative, "fic"), "abs": (np.absolute, "fi")}


def _as_method(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """Wraps a callable object as a function of one or two operands: Python binds only functions to instances."""
    return (lambda self: function(self)) if arity == 1 else (lambda self, other: function(self, other))


def install(promoting: Callable[[Operator], Operator] | None = None) -> None:
    """Sets the operators, such as ``__add__``, of the classes Tensor and Variable, and of EagerTensor with a fast path.

    ``promoting`` wraps an operator so that it promotes the dtypes of its operands. Without it, the other operand is
    converted to the tensor's dtype.
    """
    for name, operate in ARITHMETIC.items():
        complete = promoting(operate) if promoting else operate
        reflected = _swapped(complete) if promoting else _reflected(operate)
        _attach(f"__{name}__", _deferring_to_right(complete, f"__r{name}__"))
        _attach(f"__r{name}__", reflected)
    for name, comparison in COMPARISONS.items():
        _attach(f"__{name}__", _as_method(promoting(comparison) if promoting else comparison, 2))
    for name, function in UNARY.items():
        _attach(f"__{name}__", _as_method(function, 1))
    for name, (ufunc, kinds) in QUICK.items():
        method = f"__{name}__"
        setattr(EagerTensor, method, _with_fast_path(ufunc, kinds, getattr(Tensor, method)))
        if name in ARITHMETIC:
            method = f"__r{name}__"
            setattr(EagerTensor, method, _with_fast_reflected_path(ufunc, kinds, getattr(Tensor, method)))
    for name, (ufunc, kinds) in QUICK_UNARY.items():
        method = f"__{name}__"
        setattr(EagerTensor, method, _with_fast_unary_path(ufunc, kinds, getattr(Tensor, method)))
    EagerTensor.__hash__ = Tensor.__hash__  # type: ignore[method-assign]


class Equality:
    """A switch that makes ``==`` compare tensors by identity, as in TensorFlow 1."""

    def __init__(self) -> None:
        self._compared: dict[Any, Any] = {}

    @property
    def by_identity(self) -> bool:
        return bool(self._compared)

    @by_identity.setter
    def by_identity(self, enabled: bool) -> None:
        """Makes ``==`` of tensors and Variables compare their identity if ``enabled``, else their elements."""
        if enabled == self.by_identity:
            return
        classes = (Tensor, EagerTensor, Variable)
        if enabled:  # keep the methods, to restore them later
            self._compared = {}
            for tensor_class in classes:
                for name in ("__eq__", "__ne__", "__hash__"):
                    self._compared[tensor_class, name] = vars(tensor_class).get(name)
                tensor_class.__eq__ = _is  # type: ignore[method-assign,assignment]
                tensor_class.__ne__ = _is_not  # type: ignore[method-assign,assignment]
            Variable.__hash__ = object.__hash__  # type: ignore[method-assign]
        else:
            for (tensor_class, name), method in self._compared.items():
                setattr(tensor_class, name, method)
            self._compared = {}


def _is(self: Any, other: Any) -> bool:
    """Compares by identity: ``==`` of tensors in TensorFlow 1."""
    return self is other


def _is_not(self: Any, other: Any) -> bool:
    """Compares by identity: ``!=`` of tensors in TensorFlow 1."""
    return self is not other


equality = Equality()


def _attach(name: str, method: Callable[..., Any]) -> None:
    """Sets a method of Tensor and Variable."""
    method.__name__ = name
    for kind in (Tensor, Variable):
        setattr(kind, name, method)


install()
Tensor.OVERLOADABLE_OPERATORS = {  # type: ignore[attr-defined]
    "__getitem__",
    *(f"__{name}__" for name in (*ARITHMETIC, *COMPARISONS, *UNARY)),
    *(f"__r{name}__" for name in ARITHMETIC),
}
