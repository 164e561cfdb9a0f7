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


def _by_kind(of_bools: str, of_integers: str) -> Operator:
    """Returns ``&``, ``|`` or ``^``: logical on bools, bitwise on integers."""

    def operate(x: Any, y: Any) -> Any:
        name = of_bools if convert_to_tensor(x).dtype.is_bool else of_integers
        return _function(name)(x, y)

    return operate


def _function(name: str) -> Callable[..., Any]:
    return table[name] if name in table else getattr(compare, name)


def _named(name: str) -> Operator:
    """Returns the primitive of that name, looked up at each call: a module imported later may declare it."""
    return lambda x, y: table[name](x, y)


@defer_unknown_rank
def equals(x: Any, y: Any) -> Any:
    """Computes ``x == y``: elementwise; False for None and for shapes that don't broadcast.

    In a TensorFlow 1 graph it compares by identity.
    """
    return x is y if _is_in_graph() else _matching(compare.equal, x, y, False)


@defer_unknown_rank
def differs(x: Any, y: Any) -> Any:
    """Computes ``x != y``: elementwise; True for None and for shapes that don't broadcast.

    In a TensorFlow 1 graph it compares by identity.
    """
    return x is not y if _is_in_graph() else _matching(compare.not_equal, x, y, True)


def _is_in_graph() -> bool:
    """Returns whether the active trace, or one around it, is a graph of TensorFlow 1, whose tensors compare by identity."""
    trace = state.trace
    while trace is not None and not trace.has_keys:
        trace = trace.parent or trace.caller
    return trace is not None


def _matching(op: Callable[..., Any], x: Any, y: Any, otherwise: bool) -> Any:
    """Compares elementwise; returns ``otherwise`` for None and for shapes that don't broadcast."""
    if y is None:
        return otherwise
    if isinstance(y, CompositeTensor) and type(y).__eq__ is not object.__eq__:
        return NotImplemented  # Python then calls y's own comparison
    x = convert_to_tensor(x)
    y = like(y, x.dtype)
    if broadcast_shapes(x._type.shape, y._type.shape, may_be_same) is None:
        return convert_to_tensor(otherwise)
    return op(x, y)


def _reflected(operate: Operator) -> Operator:
    """Returns ``__radd__`` and its like: the other operand comes first, converted to the tensor's dtype."""

    def run(x: Any, y: Any) -> Any:
        x = convert_to_tensor(x)
        return operate(like(y, x.dtype), x)

    return run


def _swapped(operate: Operator) -> Operator:
    return lambda x, y: operate(y, x)


def _invert(x: Any) -> Any:
    """Computes ``~x``: logical for bools, bitwise for integers."""
    x = convert_to_tensor(x)
    return table["logical_not" if x.dtype.is_bool else "invert"](x)


def _yielding(operate: Operator, reflected: str) -> Operator:
    """Makes an operator return NotImplemented for an operand that it rejects and that has a method ``__r...__`` of its own."""

    def run(x: Any, y: Any) -> Any:
        try:
            return operate(x, y)
        except (TypeError, ValueError):
            if is_tensor(y) or isinstance(y, np.generic | np.ndarray) or not hasattr(type(y), reflected):
                raise
            result = getattr(type(y), reflected)(y, x)
            if result is NotImplemented:
                raise
            return result

    return run


# -- the fast path

_NUMPY_ERRORS = (ValueError, RuntimeError, OverflowError, MemoryError)
"""What NumPy raises for shapes that don't broadcast, nested quiet contexts, ints and results that don't fit.

The complete operator then computes the result or raises TensorFlow's error.
"""


def _holds(dtype: np.dtype, value: int) -> bool:
    """Returns whether NumPy converts an int to this dtype.

    It compares larger ints exactly, where TensorFlow wraps them around.
    """
    return dtype.kind == "f" or (
        dtype.kind == "i" and (-128 <= value <= 127 or value.bit_length() < 8 * dtype.itemsize)
    )


def _quick(ufunc: np.ufunc, kinds: str, complete: Operator) -> Operator:
    """Returns ``complete`` with a fast path: one NumPy call where nothing is traced, recorded or converted."""

    def operate(x: Any, y: Any) -> Any:
        if state.trace is None and not state.tapes:
            a = x._array
            kind = a.dtype.kind
            if type(y) is EagerTensor:
                b = y._array
                direct = a.dtype is b.dtype and kind in kinds
            else:
                b = y
                direct = kind in kinds and (kind == "f" if type(y) is float else type(y) is int and _holds(a.dtype, y))
            if direct:
                try:
                    result = state.quiet.run(ufunc, a, b)
                except _NUMPY_ERRORS:
                    return complete(x, y)
                return EagerTensor(result if type(result) is np.ndarray else np.asarray(result))
        return complete(x, y)

    return operate


def _quick_reflected(ufunc: np.ufunc, kinds: str, complete: Operator) -> Operator:
    """Returns the fast path of :func:`_quick` for a Python number on the left."""

    def operate(x: Any, y: Any) -> Any:
        dtype = x._array.dtype
        kind = dtype.kind
        direct = kind in kinds and (kind == "f" if type(y) is float else type(y) is int and _holds(dtype, y))
        if direct and state.trace is None and not state.tapes:
            try:
                return EagerTensor(np.asarray(state.quiet.run(ufunc, y, x._array)))
            except _NUMPY_ERRORS:
                return complete(x, y)
        return complete(x, y)

    return operate


def _quick_unary(ufunc: np.ufunc, kinds: str, complete: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns ``complete`` with the fast path of :func:`_quick`, for one operand."""

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
    "floordiv": _named("floordiv"),
    "mod": _named("floormod"),
    "pow": arithmetic.pow,
    "matmul": _named("matmul"),
    "and": _by_kind("logical_and", "bitwise_and"),
    "or": _by_kind("logical_or", "bitwise_or"),
    "xor": _by_kind("logical_xor", "bitwise_xor"),
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
    """Wraps a primitive as a plain function: a callable object isn't bound to the instance it is looked up on."""
    return (lambda self: function(self)) if arity == 1 else (lambda self, other: function(self, other))


def install(promoting: Callable[[Operator], Operator] | None = None) -> None:
    """Sets the operators of Tensor and Variable, and EagerTensor's with the fast path.

    ``promoting`` wraps an operator so that it promotes its operands; without it the other operand takes the tensor's
    dtype.
    """
    for name, operate in ARITHMETIC.items():
        complete = promoting(operate) if promoting else operate
        _attach(f"__{name}__", _yielding(complete, f"__r{name}__"))
        _attach(f"__r{name}__", _swapped(complete) if promoting else _reflected(operate))
    for name, compared in COMPARISONS.items():
        _attach(f"__{name}__", _as_method(promoting(compared) if promoting else compared, 2))
    for name, function in UNARY.items():
        _attach(f"__{name}__", _as_method(function, 1))
    for name, (ufunc, kinds) in QUICK.items():
        setattr(EagerTensor, f"__{name}__", _quick(ufunc, kinds, getattr(Tensor, f"__{name}__")))
        if name in ARITHMETIC:
            complete = getattr(Tensor, f"__r{name}__")
            setattr(EagerTensor, f"__r{name}__", _quick_reflected(ufunc, kinds, complete))
    for name, (ufunc, kinds) in QUICK_UNARY.items():
        setattr(EagerTensor, f"__{name}__", _quick_unary(ufunc, kinds, getattr(Tensor, f"__{name}__")))
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
        """Makes ``==`` of tensors and Variables compare identity, or elements again."""
        if enabled == self.by_identity:
            return
        kinds = (Tensor, EagerTensor, Variable)
        if enabled:
            self._compared = {(k, n): vars(k).get(n) for k in kinds for n in ("__eq__", "__ne__", "__hash__")}
            for kind in kinds:
                kind.__eq__ = _is  # type: ignore[method-assign,assignment]
                kind.__ne__ = _is_not  # type: ignore[method-assign,assignment]
            Variable.__hash__ = object.__hash__  # type: ignore[method-assign]
        else:
            for (kind, name), method in self._compared.items():
                setattr(kind, name, method)
            self._compared = {}


def _is(self: Any, other: Any) -> bool:
    return self is other


def _is_not(self: Any, other: Any) -> bool:
    return self is not other


equality = Equality()


def _attach(name: str, method: Callable[..., Any]) -> None:
    method.__name__ = name
    for kind in (Tensor, Variable):
        setattr(kind, name, method)


install()
Tensor.OVERLOADABLE_OPERATORS = {  # type: ignore[attr-defined]
    "__getitem__",
    *(f"__{name}__" for name in (*ARITHMETIC, *COMPARISONS, *UNARY)),
    *(f"__r{name}__" for name in ARITHMETIC),
}
