"""Arguments as TensorFlow's ops convert them: tensors of a dtype that the op fixes, sizes given as scalars, attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorShape, is_dim, show_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype, int32, int64, type_name
from tvtf.ops.rules import attribute_bool, attribute_int, attribute_text, not_among, require_dtype, static_int

P = ParamSpec("P")
R = TypeVar("R")


def operand(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """An op's input ``index``, whose dtype the op fixes: Python and NumPy values become it, tensors must have it.

    Raises:
      ArgumentError: a tensor of another dtype.
    """
    if not is_tensor(value):
        return of_fixed_dtype(value, dtype)
    found = convert_to_tensor(value)
    if found.dtype is not dtype:
        raise ArgumentError(
            f"cannot compute {{op}} as input #{index}(zero-based) was expected to be a {type_name(dtype)} tensor but is a "
            f"{type_name(found.dtype)} tensor",
            TypeError,
            f"Input #{index} of '{{op}}' Op has type {found.dtype.name} that does not match expected type of {dtype.name}.",
        )
    return found


def of_fixed_dtype(value: Any, dtype: DType) -> Tensor:
    """A Python or NumPy value as an input whose dtype the op fixes.

    Raises:
      ValueError: no tensor can be made of it; eagerly, also where one of another dtype can.
      TypeError: one of another dtype can be made of it, while tracing.
    """
    try:
        return convert_to_tensor(value, dtype)
    except ValueError as error:
        if state.trace is None:
            raise
        found = convert_to_tensor(value).dtype
        raise TypeError(
            f"Input has type {found.name} that does not match expected type of {dtype.name}: {error}"
        ) from None


def converted(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """As :func:`operand`, for inputs that TensorFlow's functions convert themselves before they call the op.

    Raises:
      ValueError: a tensor of another dtype, eagerly.
    """
    return convert_to_tensor(value, dtype) if state.trace is None else operand(value, dtype, index)


def scalar_int(value: Any, what: str, dtype: DType = int32) -> int:
    """An int known now, from what converts to a scalar of ``dtype``.

    Raises:
      TypeError: a Python value that is no integer.
      ValueError: a tensor of another dtype.
      ArgumentError: no scalar.
    """
    found = converted(value, dtype)
    if found.ndim:
        raise ArgumentError(f"{what} must be 0-D, got shape {show_shape(found._type.shape)}")
    return static_int(found, what)


def integers(value: Any, what: str) -> Any:
    """``value``, of which a tensor of integers can be made.

    Raises:
      ValueError: no tensor can be made of it.
      ArgumentError: they are no integers.
    """
    if _is_known(value) and not (type(value) in (list, tuple) and all(type(v) is int for v in value)):
        found = convert_to_tensor(value, dtype_hint=int32)
        if not found.dtype.is_integer:
            require_dtype(found._type, (int32, int64), what)
    return value


def _is_known(value: Any) -> bool:
    """Whether the program computes none of it."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_known, value))
    return not (isinstance(value, (SymbolicTensor, TensorShape)) or is_dim(value))


Converter = Callable[[Any, str], Any]


def at_least(least: int) -> Converter:
    """How an int is converted that has a least value."""
    return lambda value, what: attribute_int(value, what, least)


positive = at_least(1)


def one_of(*allowed: DType) -> Converter:
    """How a dtype is converted, of some or of any."""
    return lambda value, what: attribute_dtype(value, what, allowed)


def attribute_float(value: Any, what: str) -> float:
    """A float that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: it is no number.
    """
    if not isinstance(value, (Real, np.integer, np.floating)):
        raise TypeError(f"Expected float for argument '{what}' not {value!r}.")
    return float(value)


def attribute_dtype(value: Any, what: str, allowed: Sequence[DType] = ()) -> DType:
    """A dtype that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: it names none.
      ArgumentError: it is none of those ``allowed``.
    """
    try:
        found = as_dtype(value)
    except TypeError:
        raise TypeError(f"Expected DataType for argument '{what}' not {value!r}.") from None
    if allowed and found not in allowed:
        raise not_among(found, allowed, what, what)
    return found


KINDS: dict[type, Converter] = {
    bool: attribute_bool,
    int: at_least(-(2**31)),
    float: attribute_float,
    str: attribute_text,
}


class Attributes:
    """Arguments of a public function that TensorFlow keeps as attributes of its op; None is the default, where there is one."""

    def __init__(self, function: Callable[..., Any], kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        parameters = list(inspect.signature(function).parameters.values())
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.places = [(place, p.name) for place, p in enumerate(parameters) if p.name in kinds]
        self.first = self.places[0][0]

    def __call__(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments converted."""
        if len(args) > self.first:
            args = list(args)
            for place, name in self.places:
                if place < len(args):
                    args[place] = self._converted(name, args[place])
        found = self.kinds.keys() & kwargs.keys() if kwargs else ()
        return args, kwargs | {name: self._converted(name, kwargs[name]) for name in found} if found else kwargs

    def _converted(self, name: str, value: Any) -> Any:
        if value is None and name in self.defaults:
            return self.defaults[name]
        kind = self.kinds[name]
        return KINDS.get(kind, kind)(value, name)


def attributes(**kinds: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks arguments that are attributes of TensorFlow's op: by their type, or by ``(value, name) -> value``.

    Primitives and exported functions convert them when they are called.

    >>> from tvtf.core.primitive import refusing
    >>> @refusing
    ... @attributes(num_bits=int)
    ... def bits(num_bits=8):
    ...     return num_bits
    >>> bits(None), bits(4.5)
    (8, 4)
    >>> bits("2")
    Traceback (most recent call last):
    TypeError: Expected int for argument 'num_bits' not '2'.
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        marked = getattr(function, "attributes", None)
        function.attributes = Attributes(function, kinds | (marked.kinds if marked else {}))  # type: ignore[attr-defined]
        return function

    return mark


def word_of(*allowed: str) -> Converter:
    """How a string is converted that is one of some."""
    return lambda value, what: attribute_text(value, what, allowed)


def told(name: str, kind: Converter) -> Converter:
    """How an argument is converted that TensorFlow's op calls otherwise than its public function."""
    return lambda value, _: kind(value, name)


def flag(name: str) -> Converter:
    """A bool that TensorFlow's op calls otherwise."""
    return told(name, attribute_bool)


def operands(*values: Any) -> list[Tensor]:
    """Inputs of one dtype, as TensorFlow's ops match them: Python values become what the first tensor among them is.

    While tracing they become what the first value is, tensor or not.
    """
    first = values[0] if state.trace else next((value for value in values if is_tensor(value)), values[0])
    kind = convert_to_tensor(first).dtype
    return [_matched(value, kind) for value in values]


def _matched(value: Any, kind: DType) -> Tensor:
    if is_tensor(value):
        return convert_to_tensor(value)
    return convert_to_tensor(value, dtype_hint=kind) if isinstance(value, ARRAYS) else convert_to_tensor(value, kind)


ARRAYS = (np.ndarray, np.generic)
