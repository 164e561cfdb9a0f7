"""Elementwise arithmetic and functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import FLOATING_AND_COMPLEX, NUMERIC
from tvtf.ops.rules import batch_elementwise, bind, binary, binary_samples, promote, scalar, unary, unary_samples, unbroadcast
from tvtf.primitive import primitive
from tvtf.tensor import convert_to_tensor


@primitive(
    tf_name="AddV2",
    type=binary(NUMERIC),
    numpy=np.add,
    lower=scalar(lambda t, x, y: x + y),
    vjp=lambda ct, z, x, y: (unbroadcast(ct, x), unbroadcast(ct, y)),
    batch=batch_elementwise("add"),
    onnx="Add",
    value=lambda x, y: None if x.known is None or y.known is None else x.known + y.known,
    samples=binary_samples(NUMERIC),
    public=("add", "math.add"),
)
def add(x: Any, y: Any, name: str | None = None) -> Any:
    """``x + y`` elementwise, with broadcasting.

    Args:
      x: tensor of a numeric dtype, shape (...).
      y: tensor of the same dtype, of a shape that broadcasts with x's.

    Returns:
      A tensor of that dtype and the broadcast shape.

    >>> import tvtf as tf
    >>> tf.add([1, 2], 3)
    <tf.Tensor: shape=(2,), dtype=int32, numpy=array([4, 5], dtype=int32)>

    Source: https://www.tensorflow.org/api_docs/python/tf/math/add
    """
    return promote(x, y), {}


@primitive(
    tf_name="Mul",
    type=binary(NUMERIC),
    numpy=np.multiply,
    lower=scalar(lambda t, x, y: x * y),
    vjp=lambda ct, z, x, y: (unbroadcast(bind.multiply(ct, y), x), unbroadcast(bind.multiply(ct, x), y)),
    batch=batch_elementwise("multiply"),
    onnx="Mul",
    value=lambda x, y: None if x.known is None or y.known is None else x.known * y.known,
    samples=binary_samples(NUMERIC),
    public=("multiply", "math.multiply"),
)
def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """``x * y`` elementwise, with broadcasting.

    >>> import tvtf as tf
    >>> tf.multiply([1., 2.], 3.).numpy()
    array([3., 6.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/multiply
    """
    return promote(x, y), {}


@primitive(
    type=unary(FLOATING_AND_COMPLEX),
    numpy=np.sin,
    lower=scalar(lambda t, x: t.sin(x)),
    vjp=lambda ct, y, x: bind.multiply(ct, bind.cos(x)),
    batch=batch_elementwise("sin"),
    onnx="Sin",
    samples=unary_samples(FLOATING_AND_COMPLEX),
    public=("sin", "math.sin"),
)
def sin(x: Any, name: str | None = None) -> Any:
    """Sine of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.sin(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/sin
    """
    return (convert_to_tensor(x),), {}


@primitive(
    type=unary(FLOATING_AND_COMPLEX),
    numpy=np.cos,
    lower=scalar(lambda t, x: t.cos(x)),
    vjp=lambda ct, y, x: bind.negative(bind.multiply(ct, bind.sin(x))),
    batch=batch_elementwise("cos"),
    onnx="Cos",
    samples=unary_samples(FLOATING_AND_COMPLEX),
    public=("cos", "math.cos"),
)
def cos(x: Any, name: str | None = None) -> Any:
    """Cosine of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.cos(0.).numpy()
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cos
    """
    return (convert_to_tensor(x),), {}


@primitive(
    tf_name="Neg",
    type=unary(NUMERIC),
    numpy=np.negative,
    lower=scalar(lambda t, x: t.const(0, x) - x if not t.is_float(x) else -x),
    vjp=lambda ct, y, x: bind.negative(ct),
    batch=batch_elementwise("negative"),
    onnx="Neg",
    samples=unary_samples(NUMERIC),
    public=("negative", "math.negative"),
)
def negative(x: Any, name: str | None = None) -> Any:
    """``-x`` elementwise; unsigned integers wrap around.

    >>> import tvtf as tf
    >>> tf.negative([1, -2]).numpy()
    array([-1,  2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/negative
    """
    return (convert_to_tensor(x),), {}



