"""Layer normalisation over trailing axes, and its gradient, as primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import (
    bind,
    draw,
    kernel,
    number,
    ones_like,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_int,
    static_value,
    stretch,
    zeros_like,
)
from tvtf.ops.softmax import upcast


def _type(x: TensorType, scale: TensorType, offset: TensorType, *, first: int, epsilon: float) -> TensorType:
    """Checks the inputs of layer_norm, and returns the type of the result: the type of ``x``.

    Args:
      x: the type of the input.
      scale, offset: types of the dtype of ``x``, and of the shape of its axes starting at ``first``.
      first: the first normalized axis. All axes after it are normalized, too.
      epsilon: a small number that is added to the variance.
    """
    # ``epsilon`` isn't needed here, but all rules of the op receive it
    require_dtype(x, FLOATING, "x")
    require_same_dtype((x, scale, offset), ("x", "scale", "offset"))
    for value, name in ((scale, "scale"), (offset, "offset")):
        require_shape(value, x.shape[first:], name)
    return x


def _grad_type(g: TensorType, x: TensorType, *, first: int, epsilon: float) -> TensorType:
    """Checks that the cotangent has the type of ``x``, which the result has, too."""
    require_same_dtype((g, x), ("g", "x"))
    require_shape(g, x.shape, "g")
    return x


def _axes(x: Any, first: int) -> tuple[int, ...]:
    """Returns the normalised axes of ``x``: those starting at ``first``."""
    return tuple(range(first, x.ndim))


def _standardised(x: np.ndarray, first: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Standardises each row (a row: the elements along the axes starting at ``first``) to mean 0 and deviation 1.

    Also returns the inverse of each row's standard deviation.
    """
    axes = _axes(x, first)
    x = upcast(x)
    centered = x - x.mean(axes, keepdims=True)
    variance = np.square(centered).mean(axes, keepdims=True)
    inverse_deviation = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    return centered * inverse_deviation, inverse_deviation


def _grad_array(g: np.ndarray, x: np.ndarray, *, first: int, epsilon: float) -> np.ndarray:
    """Computes ``layer_norm_grad``: ``g`` without its mean and its part along the standardised row, scaled."""
    standard, inverse_deviation = _standardised(x, first, epsilon)
    g, axes = upcast(g), _axes(x, first)
    projection = (g * standard).mean(axes, keepdims=True)
    return inverse_deviation * (g - g.mean(axes, keepdims=True) - standard * projection)


def _vjp(
    cotangent: Tensor, y: Tensor, x: Tensor, scale: Tensor, offset: Tensor, *, first: int, epsilon: float
) -> tuple[Any, ...]:
    """Returns the cotangents of layer_norm's inputs ``x``, ``scale`` and ``offset``.

    The primitive ``layer_norm_grad`` computes the cotangent of ``x``.

    Args:
      cotangent: the cotangent of the result.
      y: the result.
      x, scale, offset: the inputs.
      first: the first normalized axis. All axes after it are normalized, too.
      epsilon: a small number that is added to the variance.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    standardised = bind.layer_norm(x, ones_like(scale), zeros_like(offset), first=first, epsilon=epsilon)
    x_cotangent = bind.layer_norm_grad(bind.multiply(cotangent, scale), x, first=first, epsilon=epsilon)
    batch_axes = tuple(range(first))  # along which scale and offset are shared
    scale_cotangent = _sum_over(bind.multiply(cotangent, standardised), batch_axes)
    offset_cotangent = _sum_over(cotangent, batch_axes)
    return x_cotangent, scale_cotangent, offset_cotangent


def _sum_over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Sums ``x`` over ``axes``; over none it returns ``x`` itself."""
    return bind.reduce_sum(x, axis=axes, keepdims=False) if axes else x


def _mean(x: Tensor, first: int) -> Tensor:
    """Returns the mean of each row, the axes starting at ``first``, with size 1 in them."""
    return bind.reduce_mean(x, axis=_axes(x, first), keepdims=True)


def _grad_vjp(c: Tensor, y: Tensor, g: Tensor, x: Tensor, *, first: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``layer_norm_grad``'s inputs ``g`` and ``x``, for second derivatives.

    The op is linear in g, and symmetric. Let < > be row means, s the standardised x, r the inverse deviation of x,
    p = <c s> and q = <g s>. Then x gets ``layer_norm_grad(-r (q c + p g)) - r^2 s (<c g> - <c> <g> - p q)``.

    Args:
      c: the cotangent of the result.
      y: the result; not used.
      g: the cotangent that ``layer_norm_grad`` takes.
      x: the input of ``layer_norm``.
      first: the first of the normalised axes.
      epsilon: a small number that is added to the variance.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    centered = bind.subtract(x, _mean(x, first))
    variance = _mean(bind.square(centered), first)
    r = bind.rsqrt(bind.add(variance, number(epsilon, x)))
    s = bind.multiply(centered, r)
    p = _mean(bind.multiply(c, s), first)
    q = _mean(bind.multiply(g, s), first)
    # The first term of the docstring's difference.
    weighted_sum = bind.add(bind.multiply(q, c), bind.multiply(p, g))
    first_argument = bind.negative(bind.multiply(r, weighted_sum))
    first_term = bind.layer_norm_grad(first_argument, x, first=first, epsilon=epsilon)
    # Its second term.
    covariance = bind.subtract(_mean(bind.multiply(c, g), first), bind.multiply(_mean(c, first), _mean(g, first)))
    bracket = bind.subtract(covariance, bind.multiply(p, q))
    second_term = bind.multiply(bind.multiply(bind.square(r), s), bracket)
    g_cotangent = bind.layer_norm_grad(c, x, first=first, epsilon=epsilon)
    return g_cotangent, bind.subtract(first_term, second_term)


def _batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, first: int, epsilon: float) -> Tensor:
    """Maps ``layer_norm`` over a leading batch axis of ``size`` items: the normalised axes begin one later.

    The primitive accepts one scale and one offset for all rows. Scales or offsets that differ by item are applied
    afterwards.

    Args:
      size: the number of items.
      inputs: ``x``, the scale and the offset.
      batched: for each input, whether its first axis is that of the items.
      first: the first of the normalised axes.
      epsilon: a small number that is added to the variance.
    """
    x, scale, offset = inputs
    x_batched, scale_batched, offset_batched = batched
    if not scale_batched and not offset_batched:
        return bind.layer_norm(x, scale, offset, first=first + 1, epsilon=epsilon)
    x = stretch(size, x, x_batched)
    row_shape = x._type.shape[first + 1 :]
    ones = bind.broadcast_to(number(1, x), shape=row_shape)
    zeros = bind.broadcast_to(number(0, x), shape=row_shape)
    standardised = bind.layer_norm(x, ones, zeros, first=first + 1, epsilon=epsilon)
    item_dims = (size, *(1,) * first)  # broadcast with all rows of an item
    if scale_batched:
        scale = bind.reshape(scale, shape=(*item_dims, *scale._type.shape[1:]))
    if offset_batched:
        offset = bind.reshape(offset, shape=(*item_dims, *offset._type.shape[1:]))
    return bind.add(bind.multiply(standardised, scale), offset)


def _grad_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, first: int, epsilon: float) -> Tensor:
    """Computes the gradient for a batch, whose normalised axes begin one later."""
    batched_inputs = (stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched))
    return bind.layer_norm_grad(*batched_inputs, first=first + 1, epsilon=epsilon)


def _onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, first: int, epsilon: float) -> None:
    emitter.node("LayerNormalization", inputs, outputs, axis=first, epsilon=epsilon)


def _grad_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, first: int, epsilon: float
) -> None:
    """Emits ONNX nodes for ``layer_norm_grad``, the gradient of layer normalization without scale and offset.

    With the standardised input s and the cotangent g: (g - mean(g) - s * mean(g * s)) / deviation. Means are taken over
    the axes starting at ``first``.
    """
    (_, x_type), _ = types
    dtype = x_type.dtype.np
    axes = tuple(range(first, len(x_type.shape)))

    def node(op: str, *names: str) -> str:
        return emitter.computed(op, list(names))

    def mean(name: str) -> str:
        return emitter.reduced("ReduceMean", [name], axes, True)

    g, x = inputs
    centered = node("Sub", x, mean(x))
    variance = mean(node("Mul", centered, centered))
    positive_variance = node("Add", variance, emitter.const(np.array(epsilon, dtype)))
    deviation = node("Sqrt", positive_variance)
    standardised = node("Div", centered, deviation)
    mean_product = mean(node("Mul", g, standardised))
    projection = node("Mul", standardised, mean_product)
    centered_g = node("Sub", g, mean(g))
    numerator = node("Sub", centered_g, projection)
    emitter.node("Div", [numerator, deviation], outputs)


def _samples() -> list[Sample]:
    cases = (((2, 5), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((4,), 0))
    samples = [_sample(seed, shape, first) for seed, (shape, first) in enumerate(cases)]
    return [*samples, _sample(9, (2, 5), 1, symbolic=(("n", None), (None,), (None,)))]


def _sample(seed: int, shape: Any, first: int, **options: Any) -> Sample:
    """Returns a sample of layer normalisation over the axes starting at ``first``, with scale and offset."""
    inputs = (draw(seed, shape), draw(seed + 20, shape[first:]), draw(seed + 40, shape[first:]))
    return Sample(inputs, {"first": first, "epsilon": 2.0**-10}, FLOATING, **options)


def _grad_samples() -> list[Sample]:
    """Returns test samples of ``layer_norm_grad``: a cotangent and an input."""
    cases = (((2, 5), 1), ((2, 3, 4), 1), ((4,), 0))
    return [
        Sample((draw(seed, shape), draw(seed + 20, shape)), {"first": first, "epsilon": 2.0**-10}, FLOATING)
        for seed, (shape, first) in enumerate(cases)
    ]


@primitive(
    type=_type,
    numpy=lambda x, scale, offset, *, first, epsilon: (
        _standardised(x, first, epsilon)[0] * upcast(scale) + upcast(offset)
    ),
    lower=kernel("norm.layer_norm"),
    vjp=_vjp,
    batch=_batch,
    onnx=_onnx,
    samples=_samples,
    public=("nn.layer_norm",),
)
def layer_norm(x: Any, scale: Any, offset: Any, axis: Any = -1, epsilon: float = 1e-3, name: str | None = None) -> Any:
    """Normalises rows to mean 0 and variance 1, times ``scale``, plus ``offset``; tvtf's own, to do so in one kernel.

    Args:
      x: floating tensor.
      scale: tensor of x's dtype and of the shape of the normalised axes.
      offset: as scale.
      axis: the first of the normalised axes (the others follow it), or all of them as a list of trailing axes.
      epsilon: what is added to the variance.

    Returns:
      A tensor of x's dtype and shape; 16-bit floats compute in float32.

    Raises:
      ValueError: the axes in ``axis`` are not the last ones.
      InvalidArgumentError: (ValueError while tracing) the shape of ``scale`` or ``offset`` is not that of the
        normalised axes.

    >>> import tvtf as tf
    >>> tf.nn.layer_norm([[1., 3.]], [1., 1.], [0., 0.], epsilon=0.).numpy()
    array([[-1.,  1.]], dtype=float32)

    Source: https://arxiv.org/abs/1607.06450 (Ba, Kiros, Hinton, Layer Normalization, 2016)
    """
    x = convert_to_tensor(x)
    inputs = (x, convert_to_tensor(scale, dtype_hint=x.dtype), convert_to_tensor(offset, dtype_hint=x.dtype))
    return inputs, {"first": _first_axis(axis, x.ndim), "epsilon": float(epsilon)}


def _first_axis(axis: Any, rank: int) -> int:
    """Checks that the axes to normalise are the last axes, and returns the first of them.

    For example, ``[1, 2]`` and rank 3 give 1.
    """
    value = static_value(axis, "axis")
    if not isinstance(value, (list, tuple)):
        return static_int(value, "axis") % rank
    axes = sorted(axis % rank for axis in value)
    last_axes = list(range(rank - len(axes), rank))
    if not axes or axes != last_axes:
        raise ValueError(
            f"layer_norm: axis must be the last axes of rank {rank}, but got {list(value)}: transpose first"
        )
    return axes[0]


@primitive(
    type=_grad_type,
    numpy=_grad_array,
    lower=kernel("norm.layer_norm_grad"),
    vjp=_grad_vjp,
    batch=_grad_batch,
    onnx=_grad_onnx,
    samples=_grad_samples,
)
def layer_norm_grad(g: Tensor, x: Tensor, first: int, epsilon: float) -> Any:
    """Returns the cotangent of standardisation's input ``x`` from that of its result."""
    return (g, x), {"first": first, "epsilon": epsilon}


def row_size(x: Tensor, axes: Sequence[int]) -> int:
    """Returns the number of elements along ``axes``, whose dims must be known while tracing."""
    return math.prod(static_int(x._type.shape[axis], "dim") for axis in axes)
