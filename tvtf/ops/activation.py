"""Activation functions, elementwise."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, REAL, as_dtype
from tvtf.ops.elementwise import like, log1p_nodes, nodes, scaled, shifted, tensor_of, unary_op, widened
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import batch_elementwise, binary, bind, draw, number, scalar, static_value, zeros_like


def _relu_grad_array(cotangent: np.ndarray, y: np.ndarray, *, slope: float | None, most: float | None) -> np.ndarray:
    is_linear = y > 0 if most is None else (y > 0) & (y < most)
    dtype = cotangent.dtype.type
    elsewhere = dtype(0) if slope is None else cotangent * dtype(slope)
    return np.where(is_linear, cotangent, elsewhere)


def _relu_grad_kernel(t: Any, cotangent: Any, y: Any, *, slope: float | None, most: float | None) -> Any:
    """Selects the cotangent where ``0 < y < most``, else ``slope`` times it; None stands for slope 0 or no bound."""
    outside = t.const(0, cotangent) if slope is None else t.times(cotangent, slope)
    within = cotangent if most is None else t.select(y < t.const(most, y), cotangent, outside)
    return t.select(y > t.const(0, y), within, outside)


def _relu_grad_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, slope: float | None, most: float | None
) -> None:
    """Emits ONNX nodes that select the cotangent where ReLU's result rises, and a scaled or zero one elsewhere."""
    above: tuple[Any, ...] = ("Greater", 1, 0.0)
    rising = above if most is None else ("And", above, ("Less", 1, float(most)))
    nodes(("Where", rising, 0, 0.0 if slope is None else ("Mul", 0, slope)))(emitter, inputs, outputs, types)


@primitive(
    type=binary(REAL),
    numpy=widened(_relu_grad_array),
    lower=scalar(_relu_grad_kernel),
    vjp=lambda cotangent, dx, g, y, **attrs: (bind.relu_grad(cotangent, y, **attrs), partial(zeros_like, y)),
    batch=batch_elementwise("relu_grad"),
    onnx=_relu_grad_onnx,
    samples=lambda: [
        Sample((draw(1, s), draw(2, s, -2.0, 8.0)), {"slope": slope, "most": most}, FLOATING)
        for s, slope, most in (((3,), None, None), ((2, 4), None, 6), ((), 0.3, None), ((0, 2), 0.3, None))
    ],
)
def relu_grad(cotangent: Tensor, y: Tensor, slope: float | None, most: float | None) -> Any:
    """Returns a rectifier's gradient: ``cotangent`` where ``y`` is between 0 and ``most``, else ``slope`` times it.

    It is an op rather than a select on flags so that it has a gradient by ``y``: as in TensorFlow, a rectifier's second
    derivative is zeros, not None.
    """
    return (cotangent, y), {"slope": slope, "most": most}


@unary_op(
    domain=REAL,
    numpy=lambda x: np.maximum(x, x.dtype.type(0)),
    lower=lambda t, x: t.maximum(x, t.const(0, x)),
    vjp=lambda cotangent, y, x: bind.relu_grad(cotangent, y, slope=None, most=None),
    onnx=lambda emitter, inputs, outputs, types: emitter.node(
        "Identity" if types[0][0].dtype.is_unsigned else "Relu", inputs, outputs
    ),
    heavy="repeated",
    public=("nn.relu",),
    shows=("tf.nn.relu([-1., 2.]).numpy()", "array([0., 2.], dtype=float32)"),
)
def relu(features: Any, name: str | None = None) -> Any:
    """Computes ``max(features, 0)``, elementwise. NaN stays NaN. The gradient at 0 is 0.

    Args:
      features: real tensor of shape (...).

    Returns:
      A tensor of the same shape and dtype.
    """
    return tensor_of(features)


@unary_op(
    domain=REAL,
    numpy=lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6)),
    lower=lambda t, x: t.minimum(t.maximum(x, t.const(0, x)), t.const(6, x)),
    vjp=lambda cotangent, y, x: bind.relu_grad(cotangent, y, slope=None, most=6),
    onnx=nodes(("Min", ("Max", 0, 0.0), 6.0)),
    samples=(-3.0, 9.0),
    public=("nn.relu6",),
    shows=("tf.nn.relu6([-1., 2., 9.]).numpy()", "array([0., 2., 6.], dtype=float32)"),
)
def relu6(features: Any, name: str | None = None) -> Any:
    """Computes ``min(max(features, 0), 6)``, elementwise; the gradient at 0 and at 6 is 0."""
    return tensor_of(features)


@unary_op(
    domain=FLOATING,
    numpy=widened(lambda x, *, alpha: np.where(x > 0, x, x * x.dtype.type(alpha))),
    lower=lambda t, x, *, alpha: t.select(x > t.const(0, x), x, t.times(x, alpha)),
    vjp=lambda cotangent, y, x, *, alpha: bind.relu_grad(cotangent, x, slope=alpha, most=None),
    batch=lambda size, inputs, batched, *, alpha: bind.leaky_relu(inputs[0], alpha=alpha),
    onnx=lambda emitter, inputs, outputs, types, *, alpha: emitter.node("LeakyRelu", inputs, outputs, alpha=alpha),
    samples=lambda: [
        Sample((draw(i, shape),), {"alpha": 0.3}, FLOATING) for i, shape in enumerate(((3,), (), (2, 4), (0, 2)))
    ],
    public=("nn.leaky_relu",),
    shows=("tf.nn.leaky_relu([-1., 2.]).numpy()", "array([-0.2,  2. ], dtype=float32)"),
)
def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Any:
    """Computes ``features`` for positive elements, else ``alpha * features``, elementwise.

    Args:
      features: floating tensor of shape (...). Integers become float32.
      alpha: the slope below 0, which is also the derivative at 0.

    Returns:
      A tensor of the same shape.
    """
    x = convert_to_tensor(features)
    floating = bind.cast(x, dtype=as_dtype("float32")) if x.dtype.is_integer else x
    return (floating,), {"alpha": float(static_value(alpha, "alpha"))}


@unary_op(
    domain=FLOATING,
    numpy=widened(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
    lower=lambda t, x: t.select(x < t.const(0, x), t.expm1(t.minimum(x, t.const(0, x))), x),
    vjp=lambda cotangent, y, x: bind.select(
        bind.less(y, number(0, y)), bind.multiply(cotangent, shifted(y, 1)), cotangent
    ),
    onnx="Elu",
    public=("nn.elu",),
)
def elu(features: Any, name: str | None = None) -> Any:
    """Computes ``exp(features) - 1`` for negative elements, else ``features``, elementwise.

    >>> import tvtf as tf
    >>> tf.nn.elu([-1., 2.]).numpy()
    array([-0.63212055,  2.        ], dtype=float32)

    Source: https://arxiv.org/abs/1511.07289
    """
    return tensor_of(features)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _selu(x: np.ndarray) -> np.ndarray:
    scale, slope = x.dtype.type(SELU_SCALE), x.dtype.type(SELU_SCALE * SELU_ALPHA)
    return np.where(x < 0, slope * np.expm1(np.minimum(x, 0)), scale * x)


def _selu_lower(t: Any, x: Any) -> Any:
    below = t.const(SELU_SCALE * SELU_ALPHA, x) * t.expm1(t.minimum(x, t.const(0, x)))
    return t.select(x < t.const(0, x), below, t.const(SELU_SCALE, x) * x)


@unary_op(
    domain=FLOATING,
    numpy=widened(_selu),
    lower=_selu_lower,
    vjp=lambda cotangent, y, x: bind.select(
        bind.less(y, number(0, y)),
        bind.multiply(cotangent, shifted(y, SELU_SCALE * SELU_ALPHA)),
        scaled(cotangent, SELU_SCALE),
    ),
    onnx=lambda emitter, inputs, outputs, types: emitter.node(
        "Selu", inputs, outputs, alpha=SELU_ALPHA, gamma=SELU_SCALE
    ),
    public=("nn.selu",),
)
def selu(features: Any, name: str | None = None) -> Any:
    """Computes ``scale * elu(features, alpha)``, elementwise. The constants keep activations at mean 0 and variance 1.

    >>> import tvtf as tf
    >>> tf.nn.selu([0., 1.]).numpy()
    array([0.      , 1.050701], dtype=float32)

    Source: https://arxiv.org/abs/1706.02515
    """
    return tensor_of(features)


@unary_op(
    domain=FLOATING,
    numpy=widened(lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    lower=lambda t, x: t.maximum(x, t.const(0, x)) + t.log1p(t.exp(-t.magnitude(x))),
    vjp=lambda cotangent, y, x: bind.multiply(cotangent, bind.sigmoid(x)),
    onnx=nodes(("Add", ("Max", 0, 0.0), log1p_nodes(("Exp", ("Neg", ("Abs", 0)))))),
    public=("nn.softplus", "math.softplus"),
    shows=("tf.nn.softplus([0., 100.]).numpy()", "array([  0.6931472, 100.       ], dtype=float32)"),
)
def softplus(features: Any, name: str | None = None) -> Any:
    """Computes ``log(exp(features) + 1)``, elementwise, without overflow."""
    return tensor_of(features)


@unary_op(
    domain=FLOATING,
    numpy=widened(lambda x: x / (np.abs(x) + 1)),
    lower=lambda t, x: x / (t.magnitude(x) + t.const(1, x)),
    vjp=lambda cotangent, y, x: bind.divide(cotangent, bind.square(shifted(bind.abs(x), 1))),
    onnx=nodes(("Div", 0, ("Add", ("Abs", 0), 1.0))),
    public=("nn.softsign", "math.softsign"),
)
def softsign(features: Any, name: str | None = None) -> Any:
    """Computes ``features / (|features| + 1)``, elementwise.

    >>> import tvtf as tf
    >>> tf.nn.softsign([-1., 3.]).numpy()
    array([-0.5 ,  0.75], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/softsign
    """
    return tensor_of(features)


@export("nn.silu", "nn.swish")
def silu(features: Any, beta: Any = 1.0) -> Any:
    """Computes ``features * sigmoid(beta * features)``, elementwise.

    Args:
      features: floating tensor of shape (...).
      beta: a number or tensor of the same dtype.

    Returns:
      A tensor of the same shape and dtype.

    >>> import tvtf as tf
    >>> tf.nn.silu([0., 1.]).numpy()
    array([0.       , 0.7310586], dtype=float32)

    Source: https://arxiv.org/abs/1710.05941
    """
    x = convert_to_tensor(features)
    factor = like(beta, x.dtype)
    is_one = isinstance(beta, (int, float)) and beta == 1  # the default needs no multiplication
    scaled_x = x if is_one else bind.multiply(factor, x)
    return bind.multiply(x, bind.sigmoid(scaled_x))


@export("nn.gelu")
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """Computes ``x * P(X <= x)`` for a standard normal X, elementwise.

    Args:
      features: floating tensor of shape (...).
      approximate: whether to approximate the normal distribution by the paper's formula with tanh.

    Returns:
      A tensor of the same shape and dtype.

    Raises:
      ValueError: ``features`` is not floating.

    >>> import tvtf as tf
    >>> tf.nn.gelu([0., 1.]).numpy()
    array([0.       , 0.8413447], dtype=float32)

    Source: https://arxiv.org/abs/1606.08415
    """
    x = convert_to_tensor(features)
    if not x.dtype.is_floating:
        raise ValueError(f"`features.dtype` must be a floating point tensor. Received:features.dtype={x.dtype!r}")
    half = scaled(x, 0.5)
    erf = _gelu_tanh(x) if approximate else bind.erf(scaled(x, np.sqrt(0.5)))
    return bind.multiply(half, shifted(erf, 1))  # P(X <= x) = (1 + erf(x / sqrt(2))) / 2


def _gelu_tanh(x: Tensor) -> Tensor:
    """Approximates ``erf(x / sqrt(2))`` by a hyperbolic tangent, as the paper on GELU does."""
    cubic = bind.multiply(x, shifted(scaled(bind.square(x), 0.044715), 1))
    return bind.tanh(scaled(cubic, np.sqrt(2 / np.pi)))
