"""Elementwise rounding, without a gradient as in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import FLOATING
from tvtf.ops.elementwise import tensor_of, unary_op


@unary_op(
    domain=FLOATING,
    numpy=np.floor,
    lower=lambda t, x: t.floor(x),
    vjp=lambda ct, y, x: None,
    onnx="Floor",
    gradient=False,
    public=("floor", "math.floor"),
)
def floor(x: Any, name: str | None = None) -> Any:
    """Returns the largest whole number that is not larger, elementwise.

    >>> import tvtf as tf
    >>> tf.floor([1.7, -1.2]).numpy()
    array([ 1., -2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/floor
    """
    return tensor_of(x)


@unary_op(
    domain=FLOATING,
    numpy=np.ceil,
    lower=lambda t, x: t.ceil(x),
    vjp=lambda ct, y, x: None,
    onnx="Ceil",
    gradient=False,
    public=("math.ceil",),
)
def ceil(x: Any, name: str | None = None) -> Any:
    """Returns the smallest whole number that is not smaller, elementwise.

    >>> import tvtf as tf
    >>> tf.math.ceil([1.2, -1.7]).numpy()
    array([ 2., -1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/ceil
    """
    return tensor_of(x)


@unary_op(
    domain=FLOATING,
    tf_name="Rint",
    numpy=np.rint,
    lower=lambda t, x: t.nearbyint(x),
    vjp=lambda ct, y, x: None,
    onnx="Round",
    gradient=False,
    public=("math.rint",),
)
def rint(x: Any, name: str | None = None) -> Any:
    """Returns the nearest whole number, elementwise; a half goes to the even one.

    >>> import tvtf as tf
    >>> tf.math.rint([0.5, 1.5, -1.7]).numpy()
    array([ 0.,  2., -2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/rint
    """
    return tensor_of(x)


@export("round", "math.round")
def round(x: Any, name: str | None = None) -> Any:
    """Returns the nearest whole number, elementwise; a half goes to the even one, and integers stay.

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
