"""Activation functions, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import REAL
from tvtf.ops.elementwise import tensor_of, unary_op
from tvtf.ops.rules import bind, number


@unary_op(
    domain=REAL,
    numpy=lambda x: np.maximum(x, x.dtype.type(0)),
    lower=lambda t, x: t.maximum(x, t.const(0, x)),
    vjp=lambda ct, y, x: bind.select(bind.greater(y, number(0, y)), ct, number(0, ct)),
    onnx="Relu",
    public=("nn.relu",),
)
def relu(features: Any, name: str | None = None) -> Any:
    """``max(features, 0)``, elementwise; NaN stays NaN. The gradient at 0 is 0.

    Args:
      features: real tensor of shape (...).

    Returns:
      A tensor of the same shape and dtype.

    >>> import tvtf as tf
    >>> tf.nn.relu([-1., 2.]).numpy()
    array([0., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/relu
    """
    return tensor_of(features)
