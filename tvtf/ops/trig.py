"""Circular and hyperbolic functions, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.ops.elementwise import chain, tensor_of, unary_op
from tvtf.ops.rules import bind, number


@unary_op(
    numpy=np.sin,
    lower=lambda t, x: t.sin(x),
    vjp=chain(lambda y, x: bind.cos(x)),
    onnx="Sin",
    public=("sin", "math.sin"),
)
def sin(x: Any, name: str | None = None) -> Any:
    """Sine of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.sin(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/sin
    """
    return tensor_of(x)


@unary_op(
    numpy=np.cos,
    lower=lambda t, x: t.cos(x),
    vjp=chain(lambda y, x: bind.negative(bind.sin(x))),
    onnx="Cos",
    public=("cos", "math.cos"),
)
def cos(x: Any, name: str | None = None) -> Any:
    """Cosine of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.cos(0.).numpy()
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cos
    """
    return tensor_of(x)


@unary_op(
    numpy=np.tanh,
    lower=lambda t, x: t.tanh(x),
    vjp=chain(lambda y, x: bind.subtract(number(1, y), bind.square(y))),
    onnx="Tanh",
    public=("tanh", "math.tanh", "nn.tanh"),
)
def tanh(x: Any, name: str | None = None) -> Any:
    """Hyperbolic tangent of ``x``, elementwise; exact near 0.

    >>> import tvtf as tf
    >>> tf.tanh([0., 1e-10]).numpy()
    array([0.e+00, 1.e-10], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/tanh
    """
    return tensor_of(x)
