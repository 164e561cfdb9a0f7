"""Arguments as TensorFlow's ops convert them: tensors of a dtype that the op fixes, sizes given as scalars, attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tvtf.context import state
from tvtf.dtypes import DType, int32, int64, type_name
from tvtf.ops.rules import attribute_bool, attribute_int, attribute_text, require_dtype, static_int
from tvtf.refusal import Refused
from tvtf.shape import TensorShape, is_dim, show_shape
from tvtf.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor

P = ParamSpec("P")
R = TypeVar("R")


def operand(value: Any, dtype: DType, index: int = 0) -> Tensor:
    """An op's input ``index``, whose dtype the op fixes: Python and NumPy values become it, tensors must have it.

    Raises:
      Refused: a tensor of another dtype.
    """
    if not is_tensor(value):
        return convert_to_tensor(value, dtype)
    found = convert_to_tensor(value)
    if found.dtype is not dtype:
        raise Refused(
            f"cannot compute {{op}} as input #{index}(zero-based) was expected to be a {type_name(dtype)} tensor but is a "
            f"{type_name(found.dtype)} tensor",
            TypeError,
            f"Input #{index} of '{{op}}' Op has type {found.dtype.name} that does not match expected type of {dtype.name}.",
        )
    return found


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
      Refused: no scalar.
    """
    found = converted(value, dtype)
    if found.ndim:
        raise Refused(f"{what} must be 0-D, got shape {show_shape(found._type.shape)}")
    return static_int(found, what)


def integers(value: Any, what: str) -> Any:
    """``value``, of which a tensor of integers can be made.

    Raises:
      ValueError: no tensor can be made of it.
      Refused: they are no integers.
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


def positive(value: Any, what: str) -> int:
    """An attribute of at least one."""
    return attribute_int(value, what, 1)


def attribute_float(value: Any, what: str) -> float:
    """A float that TensorFlow keeps as an attribute of the op.

    Raises:
      TypeError: it is no number.
    """
    if isinstance(value, (str, bytes, list, tuple)) or is_tensor(value) or not hasattr(value, "__float__"):
        raise TypeError(f"Expected float for argument '{what}' not {value!r}.")
    return float(value)


KINDS: dict[type, Callable[[Any, str], Any]] = {
    bool: attribute_bool,
    int: attribute_int,
    float: attribute_float,
    str: attribute_text,
}


def attributes(**kinds: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Converts arguments that are attributes of TensorFlow's op: by their type, or by ``(value, name) -> value``.

    >>> @attributes(num_bits=int)
    ... def bits(num_bits=8):
    ...     return num_bits
    >>> bits("2")
    Traceback (most recent call last):
    TypeError: Expected int for argument 'num_bits' not '2'.
    """

    def convert(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        converters = {name: KINDS.get(kind, kind) for name, kind in kinds.items()}

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            for name in converters.keys() & bound.arguments.keys():
                bound.arguments[name] = converters[name](bound.arguments[name], name)
            return function(*bound.args, **bound.kwargs)

        return run

    return convert


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
