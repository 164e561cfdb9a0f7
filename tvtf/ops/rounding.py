"""Elementwise rounding, without a gradient as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.primitive import Primitive, export
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import FLOATING
from tvtf.ops.elementwise import tensor_of, unary_op


def _rounding(
    ufunc: np.ufunc, lower: Callable[..., Any], **columns: Any
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Declares an elementwise rounding op by its NumPy function; its gradient is None, as in TensorFlow."""
    return unary_op(
        domain=FLOATING, numpy=ufunc, lower=lower, vjp=lambda cotangent, y, x: None, gradient=False, **columns
    )


@_rounding(
    np.floor,
    lambda t, x: t.floor(x),
    onnx="Floor",
    public=("floor", "math.floor"),
    shows=("tf.floor([1.7, -1.2]).numpy()", "array([ 1., -2.], dtype=float32)"),
)
def floor(x: Any, name: str | None = None) -> Any:
    """Returns the largest whole number that is not larger, elementwise."""
    return tensor_of(x)


@_rounding(
    np.ceil,
    lambda t, x: t.ceil(x),
    onnx="Ceil",
    public=("math.ceil",),
    shows=("tf.math.ceil([1.2, -1.7]).numpy()", "array([ 2., -1.], dtype=float32)"),
)
def ceil(x: Any, name: str | None = None) -> Any:
    """Returns the smallest whole number that is not smaller, elementwise."""
    return tensor_of(x)


@_rounding(
    np.rint,
    lambda t, x: t.nearbyint(x),
    onnx="Round",
    public=("math.rint",),
    shows=("tf.math.rint([0.5, 1.5, -1.7]).numpy()", "array([ 0.,  2., -2.], dtype=float32)"),
)
def rint(x: Any, name: str | None = None) -> Any:
    """Returns the nearest whole number, elementwise; a half goes to the even one."""
    return tensor_of(x)


@export("round", "math.round")
def round(x: Any, name: str | None = None) -> Any:
    """Rounds to the nearest whole number, elementwise. A half is rounded to the even number. Integers are unchanged.

    Args:
      x: floating or integer tensor of shape (...).

    Returns:
      A tensor of the same shape and dtype.

    >>> import tvtf as tf
    >>> tf.round([0.5, 1.5, 2.5]).numpy()
    array([0., 2., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/round
    """
    x = convert_to_tensor(x)
    return x if x.dtype.is_integer else rint.bind(x)
