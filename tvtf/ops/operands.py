"""Argument conversion as TensorFlow's ops do it: tensors of a fixed dtype, sizes given as scalars, attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorShape, show_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import DType, as_dtype, int32, int64, type_name
from tvtf.ops.rules import attribute_bool, attribute_int, attribute_text, not_among, require_dtype, static_int

P = ParamSpec("P")
R = TypeVar("R")


def operand(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """Converts an op's input ``index`` whose dtype the op fixes: Python and NumPy values are cast, tensors must match.

    Raises:
      ArgumentError: a tensor of another dtype.
    """
    if not is_tensor(value):
        return of_fixed_dtype(value, dtype)
    result = convert_to_tensor(value)
    if result.dtype is not dtype:
        raise ArgumentError(
            f"cannot compute {{op}} as input #{index}(zero-based) was expected to be a {type_name(dtype)} tensor but is a "
            f"{type_name(result.dtype)} tensor",
            TypeError,
            f"Input #{index} of '{{op}}' Op has type {result.dtype.name} that does not match expected type of {dtype.name}.",
        )
    return result


def of_fixed_dtype(value: Any, dtype: DType) -> Tensor:
    """Converts a Python or NumPy value to a tensor of the dtype that the op fixes.

    Raises:
      ValueError: it can't be converted to a tensor, or, eagerly, not to one of this dtype.
      TypeError: while tracing, it can be converted to a tensor but not to one of this dtype.
    """
    try:
        return convert_to_tensor(value, dtype)
    except ValueError as error:
        if state.trace is None:
            raise
        result = convert_to_tensor(value).dtype
        raise TypeError(
            f"Input has type {result.name} that does not match expected type of {dtype.name}: {error}"
        ) from None


def converted(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """Converts an input as :func:`operand` does, where TensorFlow's Python function converts it before it calls the op.

    Raises:
      ValueError: a tensor of another dtype, eagerly.
    """
    return convert_to_tensor(value, dtype) if state.trace is None else operand(value, dtype, index)


def scalar_int(value: Any, what: str, dtype: DType = int32) -> int:
    """Returns an int that must be known now, from a value that converts to a scalar of ``dtype``.

    Raises:
      TypeError: a Python value that is not an integer.
      ValueError: a tensor of another dtype.
      ArgumentError: not a scalar.
    """
    result = converted(value, dtype)
    if result.ndim:
        raise ArgumentError(f"{what} must be 0-D, got shape {show_shape(result._type.shape)}")
    return static_int(result, what)


def integers(value: Any, what: str) -> Any:
    """Checks that ``value`` converts to a tensor of integers and returns it unconverted.

    Raises:
      ValueError: it can't be converted to a tensor.
      ArgumentError: its elements are not integers.
    """
    if _is_known(value) and not (type(value) in (list, tuple) and all(type(v) is int for v in value)):
        result = convert_to_tensor(value, dtype_hint=int32)
        if not result.dtype.is_integer:
            require_dtype(result._type, (int32, int64), what)
    return value


def _is_known(value: Any) -> bool:
    """Returns whether a value contains nothing that the program computes."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_known, value))
    return not (isinstance(value, (SymbolicTensor, TensorShape)) or is_dim(value))


Converter = Callable[[Any, str], Any]


def at_least(least: int) -> Converter:
    """Returns a converter of an int attribute with a smallest allowed value."""
    return lambda value, what: attribute_int(value, what, least)


positive = at_least(1)


def one_of(*allowed: DType) -> Converter:
    """Returns a converter of a dtype attribute, one of ``allowed`` or any."""
    return lambda value, what: attribute_dtype(value, what, allowed)


def attribute_float(value: Any, what: str) -> float:
    """Returns a float that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: it is not a number.
    """
    if not isinstance(value, (Real, np.integer, np.floating)):
        raise TypeError(f"Expected float for argument '{what}' not {value!r}.")
    return float(value)


def attribute_dtype(value: Any, what: str, allowed: Sequence[DType] = ()) -> DType:
    """Returns a dtype that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: it doesn't name a dtype.
      ArgumentError: it is not in ``allowed``.
    """
    try:
        result = as_dtype(value)
    except TypeError:
        raise TypeError(f"Expected DataType for argument '{what}' not {value!r}.") from None
    if allowed and result not in allowed:
        raise not_among(result, allowed, what, what)
    return result


KINDS: dict[type, Converter] = {
    bool: attribute_bool,
    int: at_least(-(2**31)),
    float: attribute_float,
    str: attribute_text,
}


class Attributes:
    """The arguments of a public function that are attributes of TensorFlow's op.

    None stands for their default, if any.
    """

    def __init__(self, function: Callable[..., Any], kinds: dict[str, Any]) -> None:
        self.kinds = kinds
        parameters = list(inspect.signature(function).parameters.values())
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.places = [(place, p.name) for place, p in enumerate(parameters) if p.name in kinds]
        self.first = self.places[0][0]

    def __call__(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Returns the arguments with the attributes among them converted."""
        if len(args) > self.first:
            args = list(args)
            for place, name in self.places:
                if place < len(args):
                    args[place] = self._converted(name, args[place])
        passed = self.kinds.keys() & kwargs.keys() if kwargs else ()
        return args, kwargs | {name: self._converted(name, kwargs[name]) for name in passed} if passed else kwargs

    def _converted(self, name: str, value: Any) -> Any:
        if value is None and name in self.defaults:
            return self.defaults[name]
        kind = self.kinds[name]
        return KINDS.get(kind, kind)(value, name)


def attributes(**kinds: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks arguments that are attributes of TensorFlow's op: by their type, or by ``(value, name) -> value``.

    Primitives and exported functions convert them when they are called.

    >>> from tvtf.core.primitive import name_errors
    >>> @name_errors
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
    """Returns a converter of a string attribute, one of ``allowed``."""
    return lambda value, what: attribute_text(value, what, allowed)


def named(name: str, kind: Converter) -> Converter:
    """Returns a converter whose errors call the argument ``name``, as TensorFlow's op does, not its public function."""
    return lambda value, _: kind(value, name)


def flag(name: str) -> Converter:
    """Returns a converter of a bool that TensorFlow's op calls ``name``."""
    return named(name, attribute_bool)


def operands(*values: Any) -> list[Tensor]:
    """Converts inputs of one dtype as TensorFlow's ops do: Python values take the dtype of the first tensor among them.

    While tracing they take the dtype of the first value, tensor or not.
    """
    first = values[0] if state.trace else next((value for value in values if is_tensor(value)), values[0])
    kind = convert_to_tensor(first).dtype
    return [_matched(value, kind) for value in values]


def _matched(value: Any, kind: DType) -> Tensor:
    if is_tensor(value):
        return convert_to_tensor(value)
    return convert_to_tensor(value, dtype_hint=kind) if isinstance(value, ARRAYS) else convert_to_tensor(value, kind)


ARRAYS = (np.ndarray, np.generic)
