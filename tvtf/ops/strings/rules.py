"""Rules shared by string ops: argument conversion, type rules, elementwise kernels, declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import DType, string
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import of_fixed_dtype
from tvtf.ops.rules import require_dtype


def text(value: Any) -> Tensor:
    """Converts an argument of a string op to a tensor; Python and NumPy values must be strings."""
    return convert_to_tensor(value) if is_tensor(value) else of_fixed_dtype(value, string)


def mapped(function: Callable[[Any], Any], array: np.ndarray, dtype: Any = object) -> np.ndarray:
    """Applies ``function`` to each element of an array; the results make an array of ``dtype``."""
    result = np.empty(array.shape, dtype)
    result.reshape(-1)[:] = [function(each) for each in array.ravel().tolist()]
    return result


def like_text(x: TensorType, *_: TensorType, **__: Any) -> TensorType:
    """Checks the strings of an elementwise op from strings to strings; the result has their type."""
    require_dtype(x, (string,), "input")
    return TensorType(x.shape, string)


def from_text(dtype: DType) -> Callable[..., TensorType]:
    """Returns the type rule of elementwise ops whose input is strings and whose result has the dtype ``dtype``."""

    def rule(x: TensorType, *_: TensorType, **__: Any) -> TensorType:  # further inputs and attributes don't matter
        require_dtype(x, (string,), "input")
        return TensorType(x.shape, dtype)

    return rule


def each_text(function: Callable[..., Any], dtype: Any = object) -> Callable[..., np.ndarray]:
    """Returns a NumPy kernel that applies ``function(bytes, **attributes)`` to each string."""
    return lambda array, **attrs: mapped(lambda value: function(value, **attrs), array, dtype)


def text_op(**columns: Any) -> Callable[..., Any]:
    """Declares a string op: a host primitive without a gradient, as in TensorFlow."""
    return host_primitive(vjp=_no_gradient, **columns)


def _no_gradient(cotangent: Any, y: Any, *inputs: Any, **_: Any) -> tuple[None, ...]:
    """Returns None as the cotangent of every input."""
    return (None,) * len(inputs)
