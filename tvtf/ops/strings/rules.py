"""What ops on strings share: conversion, types, and kernels that go from element to element."""

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
    """An argument of a string op as a tensor."""
    return convert_to_tensor(value) if is_tensor(value) else of_fixed_dtype(value, string)


def mapped(function: Callable[[Any], Any], array: np.ndarray, dtype: Any = object) -> np.ndarray:
    """``function`` of each element."""
    found = np.empty(array.shape, dtype)
    found.reshape(-1)[:] = [function(each) for each in array.ravel().tolist()]
    return found


def like_text(x: TensorType, *_: TensorType, **__: Any) -> TensorType:
    """The type rule of what gives a string for each string."""
    require_dtype(x, (string,), "input")
    return TensorType(x.shape, string)


def from_text(dtype: DType) -> Callable[..., TensorType]:
    """The type rule of what gives a ``dtype`` for each string."""

    def rule(x: TensorType, *_: TensorType, **__: Any) -> TensorType:
        require_dtype(x, (string,), "input")
        return TensorType(x.shape, dtype)

    return rule


def each_text(function: Callable[..., Any], dtype: Any = object) -> Callable[..., np.ndarray]:
    """The kernel that applies ``function(bytes, **attributes)`` to each element."""
    return lambda array, **attrs: mapped(lambda value: function(value, **attrs), array, dtype)


def text_op(**columns: Any) -> Callable[..., Any]:
    """Declares a string op: computed on the host, without a gradient, as in TensorFlow."""
    return host_primitive(vjp=_no_gradient, **columns)


def _no_gradient(ct: Any, y: Any, *inputs: Any, **_: Any) -> tuple[None, ...]:
    return (None,) * len(inputs)
