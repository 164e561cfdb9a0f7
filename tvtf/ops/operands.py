"""Argument conversion as TensorFlow's ops do it: tensors of a fixed dtype, sizes given as scalars, attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tvtf.core.argument_error import ArgumentError, of_any_size
from tvtf.core.shape import TensorShape, show_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import DType, as_dtype, int32, int64, type_name
from tvtf.ops.rules import attribute_bool, attribute_int, attribute_text, not_among, require_dtype, static_int

P = ParamSpec("P")
R = TypeVar("R")


def operand(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """Converts an input of an op to a tensor of ``dtype``, the only dtype that the op accepts.

    Python and NumPy values are cast. ``index`` is the index of the input in errors.

    Raises:
      ArgumentError: the input is a tensor whose dtype is not ``dtype``.
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
    """Converts a Python or NumPy value to a tensor of ``dtype``, the only dtype that the op accepts.

    Raises:
      ValueError: the value can't be converted to a tensor, or, eagerly, not to this dtype.
      TypeError: while tracing, the value can be converted to a tensor, but not to this dtype.
    """
    try:
        return convert_to_tensor(value, dtype)
    except ValueError as error:
        if state.trace is None:
            raise
        own_dtype = convert_to_tensor(value).dtype
        message = f"Input has type {own_dtype.name} that does not match expected type of {dtype.name}: {error}"
        raise TypeError(message) from None


def convert_input(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """Converts an input to a tensor of ``dtype``, as TensorFlow's Python functions do before they call an op.

    While tracing, it does the same as :func:`operand`. The errors then have ``index``, the index of the op's input.

    Raises:
      ValueError: eagerly, the input is a tensor whose dtype is not ``dtype``.
    """
    return convert_to_tensor(value, dtype) if state.trace is None else operand(value, dtype, index)


def scalar_int(value: Any, name: str, dtype: DType = int32) -> int:
    """Converts a scalar argument to an int; its value must be known while tracing.

    ``name`` is the argument's name, and ``dtype`` the dtype that TensorFlow's op requires.

    Raises:
      TypeError: the value is a Python value that is not an integer.
      ValueError: the value is a tensor whose dtype is not ``dtype``.
      ArgumentError: the value is not a scalar.
    """
    result = convert_input(value, dtype)
    if result.ndim:
        raise ArgumentError(f"{name} must be 0-D, got shape {show_shape(result._type.shape)}")
    return static_int(result, name)


def integers(value: Any, name: str) -> Any:
    """Checks that the argument ``name`` converts to a tensor of integers, and returns it unconverted.

    Raises:
      ValueError: the argument can't be converted to a tensor.
      ArgumentError: the argument's elements are not integers.
    """
    if not _is_known(value):  # symbolic values are checked where they are used
        return value
    if type(value) in (list, tuple) and all(type(each) is int for each in value):  # the usual case
        return value
    is_array = state.trace is not None and isinstance(value, (np.ndarray, np.generic))
    keeps_dtype = is_array and value.dtype.kind == "f"  # TensorFlow's graphs don't cast an array of floats
    tensor = convert_to_tensor(value, dtype_hint=None if keeps_dtype else int32)
    if not tensor.dtype.is_integer:
        require_dtype(tensor._type, (int32, int64), name)  # raises TensorFlow's error
    return value


def integer_tensor(value: Any, name: str) -> Tensor:
    """Converts the argument ``name``, numbers that TensorFlow casts to int32 or int64, to a tensor of integers.

    Raises:
      TypeError: the dtype is not an integer dtype.
    """
    result = convert_to_tensor(value, dtype_hint=int32)
    if not result.dtype.is_integer:
        shown = f"Received `tensor` = {result} of dtype: {result.dtype!s}"
        raise of_any_size(TypeError(f"Argument `tensor` (name: {name}) must be of type integer. {shown}"))
    return result


def _is_known(value: Any) -> bool:
    """Returns whether a value contains nothing that the program computes."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_known, value))
    return not (isinstance(value, (SymbolicTensor, TensorShape)) or is_dim(value))


Converter = Callable[[Any, str], Any]


def at_least(least: int) -> Converter:
    """Returns a converter of an int attribute, which rejects values below ``least``."""
    return lambda value, name: attribute_int(value, name, least)


positive = at_least(1)


def one_of(*allowed: DType) -> Converter:
    """Returns a converter of a dtype attribute, which rejects dtypes not in ``allowed``; without any it accepts all."""
    return lambda value, name: attribute_dtype(value, name, allowed)


def attribute_float(value: Any, name: str) -> float:
    """Returns the argument ``name``, a float that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: the argument is not a number.
    """
    if not isinstance(value, (Real, np.integer, np.floating)):
        raise TypeError(f"Expected float for argument '{name}' not {value!r}.")
    return float(value)


def attribute_dtype(value: Any, name: str, allowed: Sequence[DType] = ()) -> DType:
    """Returns the argument ``name``, a dtype that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: the argument doesn't name a dtype.
      ArgumentError: the dtype is not in ``allowed``.
    """
    try:
        result = as_dtype(value)
    except TypeError:
        raise TypeError(f"Expected DataType for argument '{name}' not {value!r}.") from None
    if allowed and result not in allowed:
        raise not_among(result, allowed, name, name)
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
        """Notes the defaults of a function's parameters, and the positions of those that are attributes."""
        self.kinds = kinds
        parameters = list(inspect.signature(function).parameters.values())
        self.defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        }
        self.positions = [
            (position, parameter.name) for position, parameter in enumerate(parameters) if parameter.name in kinds
        ]
        self.first = self.positions[0][0]

    def __call__(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Converts those arguments of a call that are attributes of TensorFlow's op.

        Returns the positional and the keyword arguments.
        """
        if len(args) > self.first:  # an attribute is among the positional arguments
            args = list(args)
            for position, name in self.positions:
                if position < len(args):
                    args[position] = self._converted(name, args[position])
        if not kwargs:
            return args, kwargs
        attribute_names = self.kinds.keys() & kwargs.keys()
        converted = {name: self._converted(name, kwargs[name]) for name in attribute_names}
        return args, kwargs | converted

    def _converted(self, name: str, value: Any) -> Any:
        """Converts the value of the attribute ``name`` to the declared kind.

        None becomes the default, if there is any.
        """
        if value is None and name in self.defaults:  # TensorFlow's ops take None for an attribute's default
            return self.defaults[name]
        kind = self.kinds[name]  # a Python type, which stands for its converter, or a converter
        convert = KINDS.get(kind, kind)
        return convert(value, name)


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
        previous = getattr(function, "attributes", None)
        function.attributes = Attributes(function, kinds | (previous.kinds if previous else {}))  # type: ignore[attr-defined]
        return function

    return mark


def word_of(*allowed: str) -> Converter:
    """Returns a converter of a string attribute, which rejects strings other than ``allowed``."""
    return lambda value, name: attribute_text(value, name, allowed)


def named(name: str, kind: Converter) -> Converter:
    """Returns a converter like ``kind`` whose errors call the argument ``name``, as TensorFlow's op does.

    The public function may have another name for the argument.
    """
    return lambda value, _: kind(value, name)


def flag(name: str) -> Converter:
    """Returns a converter of a bool attribute that TensorFlow's op calls ``name``."""
    return named(name, attribute_bool)


def operands(*values: Any) -> list[Tensor]:
    """Converts inputs that must have one dtype to tensors. Python values get the dtype of the first tensor among them.

    While tracing, they get the dtype of the first value, tensor or not, as in TensorFlow's graphs.
    """
    dtype_source = values[0]
    if not state.trace:
        dtype_source = next((value for value in values if is_tensor(value)), dtype_source)
    dtype = convert_to_tensor(dtype_source).dtype
    return [_as_operand(value, dtype) for value in values]


def operands_of_list(values: Iterable[Any]) -> list[Tensor]:
    """Converts the operands of an op that takes a list of them, or one of either order, to tensors of one dtype.

    Other values get the dtype of the first tensor among them, also while tracing; without one, that of the first value.
    """
    values = list(values)
    dtype_sources = [value for value in values if is_tensor(value)] or values
    return [_as_operand(value, convert_to_tensor(dtype_sources[0]).dtype) for value in values]


def _as_operand(value: Any, dtype: DType) -> Tensor:
    """Converts a value to a tensor: tensors keep their dtype, NumPy arrays may, and Python values take ``dtype``."""
    if is_tensor(value):
        return convert_to_tensor(value)
    return convert_to_tensor(value, dtype_hint=dtype) if isinstance(value, ARRAYS) else convert_to_tensor(value, dtype)


ARRAYS = (np.ndarray, np.generic)
