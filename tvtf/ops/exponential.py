"""Exponentials, logarithms, roots and the logistic function, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor
from tvtf.ops.elementwise import (
    chain,
    chain_of_root,
    expm1_nodes,
    log1p_nodes,
    nodes,
    scaled,
    shifted,
    tensor_of,
    unary_op,
    widened,
)
from tvtf.ops.rules import bind, number


@unary_op(
    numpy=np.exp,
    lower=lambda t, x: t.exp(x),
    vjp=chain(lambda y, x: y),
    onnx="Exp",
    public=("exp", "math.exp"),
    shows=("tf.exp(0.).numpy()", "np.float32(1.0)"),
)
def exp(x: Any, name: str | None = None) -> Any:
    """Computes e to the power ``x``, elementwise."""
    return tensor_of(x)


@unary_op(
    numpy=np.log,
    lower=lambda t, x: t.log(x),
    vjp=chain(lambda y, x: bind.reciprocal(x)),
    onnx="Log",
    samples=(0.1, 4.0),
    public=("log", "math.log"),
    shows=("tf.math.log([1., 0.]).numpy()", "array([  0., -inf], dtype=float32)"),
)
def log(x: Any, name: str | None = None) -> Any:
    """Computes the natural logarithm, elementwise; NaN below 0, -inf at 0."""
    return tensor_of(x)


@unary_op(
    numpy=np.sqrt,
    lower=lambda t, x: t.sqrt(x),
    vjp=chain_of_root(lambda y, x: bind.divide(number(0.5, y), y)),
    onnx="Sqrt",
    samples=(0.1, 4.0),
    public=("sqrt", "math.sqrt"),
    shows=("tf.sqrt([4., 9.]).numpy()", "array([2., 3.], dtype=float32)"),
)
def sqrt(x: Any, name: str | None = None) -> Any:
    """Computes the square root, elementwise; NaN below 0."""
    return tensor_of(x)


@unary_op(
    numpy=widened(lambda x: np.reciprocal(np.sqrt(x))),
    lower=lambda t, x: t.const(1, x) / t.sqrt(x),
    vjp=chain_of_root(lambda y, x: scaled(bind.multiply(y, bind.square(y)), -0.5)),
    onnx=nodes(("Reciprocal", ("Sqrt", 0))),
    samples=(0.1, 4.0),
    public=("math.rsqrt",),
    shows=("tf.math.rsqrt([4., 0.]).numpy()", "array([0.5, inf], dtype=float32)"),
)
def rsqrt(x: Any, name: str | None = None) -> Any:
    """Computes ``1 / sqrt(x)``, elementwise."""
    return tensor_of(x)


@unary_op(
    numpy=np.reciprocal,
    lower=lambda t, x: t.const(1, x) / x,
    vjp=chain_of_root(lambda y, x: bind.negative(bind.square(y))),
    onnx="Reciprocal",
    samples=(0.5, 3.0),
    public=("math.reciprocal",),
    shows=("tf.math.reciprocal([2., 0.]).numpy()", "array([0.5, inf], dtype=float32)"),
)
def reciprocal(x: Any, name: str | None = None) -> Any:
    """Computes ``1 / x``, elementwise."""
    return tensor_of(x)


def _logistic(x: np.ndarray) -> np.ndarray:
    """Computes the logistic function. To avoid overflow, exp is computed of negative numbers only."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@unary_op(
    numpy=widened(_logistic),
    lower=lambda t, x: t.sigmoid(x),
    vjp=chain(lambda y, x: bind.multiply(y, bind.subtract(number(1, y), y))),
    onnx="Sigmoid",
    public=("sigmoid", "math.sigmoid", "nn.sigmoid"),
    shows=("tf.sigmoid([0., -200., 200.]).numpy()", "array([0.5, 0. , 1. ], dtype=float32)"),
)
def sigmoid(x: Any, name: str | None = None) -> Any:
    """Computes ``1 / (1 + exp(-x))``, elementwise, without overflow."""
    return tensor_of(x)


@unary_op(
    numpy=np.expm1,
    lower=lambda t, x: t.expm1(x),
    vjp=chain(lambda y, x: shifted(y, 1)),
    onnx=nodes(expm1_nodes(0)),
    public=("math.expm1",),
    shows=("tf.math.expm1(1e-10).numpy()", "np.float32(1e-10)"),
)
def expm1(x: Any, name: str | None = None) -> Any:
    """Computes ``exp(x) - 1``, elementwise; exact near 0."""
    return tensor_of(x)


@unary_op(
    numpy=np.log1p,
    lower=lambda t, x: t.log1p(x),
    vjp=chain(lambda y, x: bind.reciprocal(shifted(x, 1))),
    onnx=nodes(log1p_nodes(0)),
    samples=(-0.8, 3.0),
    public=("math.log1p",),
    shows=("tf.math.log1p(1e-10).numpy()", "np.float32(1e-10)"),
)
def log1p(x: Any, name: str | None = None) -> Any:
    """Computes ``log(1 + x)``, elementwise; exact near 0."""
    return tensor_of(x)


@export("math.log_sigmoid")
def log_sigmoid(x: Any, name: str | None = None) -> Any:
    """Computes ``log(sigmoid(x))``, elementwise, without overflow.

    Args:
      x: floating tensor of shape (...).

    Returns:
      A tensor of the same shape and dtype.

    >>> import tvtf as tf
    >>> tf.math.log_sigmoid([0., -100.]).numpy()
    array([  -0.6931472, -100.       ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/log_sigmoid
    """
    return bind.negative(bind.softplus(bind.negative(convert_to_tensor(x))))
