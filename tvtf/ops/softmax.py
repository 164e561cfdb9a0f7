"""Softmax and log-softmax along any axis, and their gradients as primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, float64
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import (
    batch_elementwise,
    bind,
    draw,
    kernel,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_int,
    stretch,
)


def upcast(x: np.ndarray) -> np.ndarray:
    """Converts an array to the dtype that kernels compute in: 16-bit floats to float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def _type(x: TensorType, *, axis: int) -> TensorType:
    """Checks the logits ``x`` and the axis of a softmax, and returns the result's type: that of the logits."""
    require_dtype(x, FLOATING, "logits")
    if not x.shape:
        raise ArgumentError("logits must be at least 1-dimensional, but got a scalar", ValueError)
    if not 0 <= axis < len(x.shape):
        rank = len(x.shape)
        raise ArgumentError(
            f"`dim` must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions in the input. "
            f"Received: dim={axis}"
        )
    return x


def _grad_type(cotangent: TensorType, y: TensorType, *, axis: int) -> TensorType:
    """Checks that the cotangent has the type of the result ``y``, which the gradient has, too."""
    require_same_dtype((cotangent, y), ("gradients", "softmax"))
    require_shape(cotangent, y.shape, "gradients")
    return y


def softmax_array(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Computes softmax along an axis by NumPy; 16-bit floats in float32."""
    exponentials = np.exp(less_max(x, axis))
    return exponentials / exponentials.sum(axis, keepdims=True)


def less_max(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the maximum along ``axis``, so that no exponential overflows."""
    x = upcast(x)
    return x - x.max(axis, keepdims=True, initial=-np.inf)


def log_softmax_array(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Computes the logarithm of softmax along an axis by NumPy; 16-bit floats in float32."""
    moved = less_max(x, axis)
    return moved - np.log(np.exp(moved).sum(axis, keepdims=True))


def row_sum(x: Tensor, axis: int) -> Tensor:
    """Sums along ``axis``, with size 1 in it."""
    return bind.reduce_sum(x, axis=(axis,), keepdims=True)


def _grad_of_softmax_grad(c: Tensor, g: Tensor, cotangent: Tensor, y: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``softmax_grad``'s inputs, for second derivatives."""
    total = row_sum(bind.multiply(cotangent, y), axis)
    weighted = row_sum(bind.multiply(c, y), axis)
    y_cotangent = bind.subtract(bind.multiply(c, bind.subtract(cotangent, total)), bind.multiply(cotangent, weighted))
    return bind.softmax_grad(c, y, axis=axis), y_cotangent


def _grad_of_log_softmax_grad(
    c: Tensor, g: Tensor, cotangent: Tensor, y: Tensor, *, axis: int
) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``log_softmax_grad``'s inputs, for second derivatives.

    Args:
      c: the cotangent of the result ``g``.
      g: the result of ``log_softmax_grad``.
      cotangent, y: its inputs: the cotangent of log-softmax, and the result of log-softmax.
      axis: the axis of log-softmax.
    """
    # ``g`` isn't needed here, but all gradient rules receive it
    probabilities = bind.exp(y)
    weighted_c = bind.multiply(c, probabilities)
    cotangent_cotangent = bind.subtract(c, row_sum(weighted_c, axis))
    y_cotangent = bind.negative(bind.multiply(weighted_c, row_sum(cotangent, axis)))
    return cotangent_cotangent, y_cotangent


def _samples() -> list[Sample]:
    """Returns test samples of softmax: several axes, empty and symbolic sizes, large and infinite logits."""
    # The shape and the axis.
    cases = (((5,), 0), ((2, 3), 1), ((2, 3, 4), 1), ((3, 1), 1), ((0, 4), 1))
    samples = []
    for seed, (shape, axis) in enumerate(cases):
        samples.append(Sample((draw(seed, shape),), {"axis": axis}, FLOATING))
    symbolic_dims = (("n", None),)
    samples.append(Sample((draw(9, (2, 3)),), {"axis": 1}, FLOATING, symbolic=symbolic_dims))
    return [*samples, _large_logits_sample(), _non_finite_sample()]


def _large_logits_sample() -> Sample:
    """Returns a test sample of logits whose exponentials overflow or vanish."""
    return Sample(
        (lambda dtype: np.array([[1e4, -1e4, 1e4], [-1e4, 0, 1]], dtype.np),), {"axis": 1}, FLOATING, gradient=False
    )


def _non_finite_sample() -> Sample:
    """Returns a test sample of rows with infinities or NaN; none has a numeric gradient."""
    rows = [[-np.inf, 0, 1], [np.nan, 0, 1], [-np.inf] * 3, [np.inf, 0, 1]]
    return Sample((lambda dtype: np.array(rows, dtype.np),), {"axis": 1}, FLOATING, gradient=False)


def _grad_samples() -> list[Sample]:
    """Returns test samples of a cotangent and a result of softmax or log-softmax."""
    cases = (((5,), 0), ((2, 3), 1), ((2, 3, 4), 1), ((0, 4), 1))
    return [
        Sample((draw(seed, shape), draw(seed + 20, shape, -1, 0)), {"axis": axis}, FLOATING)
        for seed, (shape, axis) in enumerate(cases)
    ]


def batch_rows(name: str) -> Any:
    """Returns the batch rule of the op ``name``, which has an ``axis`` and inputs of the result's shape."""

    def rule(size: Any, inputs: Any, batched: Any, *, axis: int) -> Any:
        return batch_elementwise(name)(size, _stretched(size, inputs, batched), [True] * len(inputs), axis=axis + 1)

    return rule


def _stretched(size: Any, inputs: Any, batched: Any) -> list[Tensor]:
    """Returns all inputs with a batch axis, along which those without one are repeated."""
    return [stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)]


def _front(logits: Any, axis: Any) -> Any:
    """Converts the arguments of softmax; a negative axis counts from the end."""
    x = convert_to_tensor(logits)
    index = -1 if axis is None else static_int(axis, "axis")
    return (x,), {"axis": index + x.ndim if -x.ndim <= index < 0 else index}


@primitive(
    type=_type,
    numpy=lambda x, *, axis: softmax_array(x, axis),
    lower=kernel("softmax.softmax"),
    vjp=lambda cotangent, y, x, *, axis: bind.softmax_grad(cotangent, y, axis=axis),
    batch=batch_rows("softmax"),
    onnx=lambda emitter, inputs, outputs, types, *, axis: emitter.node("Softmax", inputs, outputs, axis=axis),
    samples=_samples,
    public=("nn.softmax", "math.softmax"),
)
def softmax(logits: Any, axis: Any = -1, name: str | None = None) -> Any:
    """Computes ``exp(logits) / reduce_sum(exp(logits), axis)`` without overflow.

    Args:
      logits: floating tensor, shape (...), rank at least 1.
      axis: the axis along which the results sum to 1.

    Returns:
      A tensor of the same dtype and shape. Rows with NaN or +inf, and rows of -inf only, are NaN.

    Raises:
      InvalidArgumentError: ``axis`` is out of range.

    >>> import tvtf as tf
    >>> tf.nn.softmax([1., 1.]).numpy()
    array([0.5, 0.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/softmax
    """
    return _front(logits, axis)


def _grad_op(name: str, **columns: Any) -> Any:
    """Declares the gradient op of a softmax, which takes the cotangent and the result ``y``."""
    return primitive(
        type=_grad_type, lower=kernel(f"softmax.{name}"), batch=batch_rows(name), samples=_grad_samples, **columns
    )


@_grad_op(
    "softmax_grad",
    numpy=lambda cotangent, y, *, axis: (
        upcast(y) * (upcast(cotangent) - np.sum(upcast(cotangent) * upcast(y), axis, keepdims=True))
    ),
    vjp=_grad_of_softmax_grad,
    onnx=lambda emitter, inputs, outputs, types, *, axis: _softmax_grad_onnx(emitter, inputs, outputs, axis),
)
def softmax_grad(cotangent: Tensor, y: Tensor, axis: int) -> Any:
    """Returns the cotangent of softmax's input from that of its result: ``y * (cotangent - sum(cotangent * y))``."""
    return (cotangent, y), {"axis": axis}


def _log_softmax_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: int) -> None:
    """Emits ONNX's LogSoftmax. For float64, 0 times Softmax is added to get NaN for rows with NaN or infinity.

    The LogSoftmax of onnxruntime 1.31 returns numbers for such rows, but its Softmax returns NaN.
    """
    (logits_type,), _ = types
    if logits_type.dtype is not float64:
        return emitter.node("LogSoftmax", inputs, outputs, axis=axis)
    log_softmax = emitter.computed("LogSoftmax", inputs, axis=axis)
    softmax = emitter.computed("Softmax", inputs, axis=axis)
    zero_or_nan = emitter.computed("Mul", [softmax, emitter.const(np.array(0.0))])
    emitter.node("Add", [log_softmax, zero_or_nan], outputs)


@primitive(
    type=_type,
    numpy=lambda x, *, axis: log_softmax_array(x, axis),
    lower=kernel("softmax.log_softmax"),
    vjp=lambda cotangent, y, x, *, axis: bind.log_softmax_grad(cotangent, y, axis=axis),
    batch=batch_rows("log_softmax"),
    onnx=_log_softmax_nodes,
    samples=_samples,
    public=("nn.log_softmax", "math.log_softmax"),
)
def log_softmax(logits: Any, axis: Any = -1, name: str | None = None) -> Any:
    """Computes ``logits - log(reduce_sum(exp(logits), axis))`` without overflow.

    Args:
      logits: floating tensor, shape (...), rank at least 1.
      axis: the axis to normalise along.

    Returns:
      A tensor of the same dtype and shape.

    >>> import tvtf as tf
    >>> tf.nn.log_softmax([0., 0.]).numpy()
    array([-0.6931472, -0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/log_softmax
    """
    return _front(logits, axis)


@_grad_op(
    "log_softmax_grad",
    numpy=lambda cotangent, y, *, axis: (
        upcast(cotangent) - np.exp(upcast(y)) * np.sum(upcast(cotangent), axis, keepdims=True)
    ),
    vjp=_grad_of_log_softmax_grad,
    onnx=lambda emitter, inputs, outputs, types, *, axis: _log_softmax_grad_onnx(emitter, inputs, outputs, axis),
)
def log_softmax_grad(cotangent: Tensor, y: Tensor, axis: int) -> Any:
    """Returns the cotangent of log_softmax's input from that of its result: ``cotangent - exp(y) * sum(cotangent)``."""
    return (cotangent, y), {"axis": axis}


def _softmax_grad_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, axis: int) -> None:
    """Emits ONNX nodes for softmax's gradient ``y * (cotangent - sum(cotangent * y))``, where ``y`` is the softmax."""
    cotangent, y = inputs
    product = emitter.computed("Mul", [cotangent, y])
    total = emitter.reduced("ReduceSum", [product], (axis,), True)
    difference = emitter.computed("Sub", [cotangent, total])
    emitter.node("Mul", [y, difference], outputs)


def _log_softmax_grad_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, axis: int) -> None:
    """Emits ONNX nodes for log_softmax's gradient: ``cotangent - exp(y) * sum(cotangent)`` for the result ``y``."""
    cotangent, y = inputs
    total = emitter.reduced("ReduceSum", [cotangent], (axis,), True)
    probabilities = emitter.computed("Exp", [y])
    product = emitter.computed("Mul", [probabilities, total])
    emitter.node("Sub", [cotangent, product], outputs)
