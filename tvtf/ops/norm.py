"""Layer normalisation over trailing axes, and its gradient, as primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING
from tvtf.ops.rules import (
    bind,
    draw,
    kernel,
    number,
    ones_like,
    require_dtype,
    require_same_dtype,
    static_int,
    static_value,
    stretch,
    zeros_like,
)
from tvtf.ops.softmax import wide


def _type(x: TensorType, scale: TensorType, offset: TensorType, *, first: int, epsilon: float) -> TensorType:
    """Checks that scale and offset have the dtype of ``x`` and the shape of its axes from ``first`` on."""
    require_dtype(x, FLOATING, "x")
    require_same_dtype((x, scale, offset), ("x", "scale", "offset"))
    for value, name in ((scale, "scale"), (offset, "offset")):
        if len(value.shape) != len(x.shape) - first or not all(map(agree_dim, value.shape, x.shape[first:])):
            raise ArgumentError(
                f"{name} must have shape {show_shape(x.shape[first:])}, but got {show_shape(value.shape)}"
            )
    return x


def _grad_type(g: TensorType, x: TensorType, *, first: int, epsilon: float) -> TensorType:
    require_same_dtype((g, x), ("g", "x"))
    return x


def _axes(x: Any, first: int) -> tuple[int, ...]:
    return tuple(range(first, x.ndim))


def _standard_array(x: np.ndarray, first: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Standardises rows; also returns one over their deviation."""
    x, axes = wide(x), _axes(x, first)
    centered = x - x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(centered).mean(axes, keepdims=True) + x.dtype.type(epsilon))
    return centered * inverse, inverse


def _grad_array(g: np.ndarray, x: np.ndarray, *, first: int, epsilon: float) -> np.ndarray:
    standard, inverse = _standard_array(x, first, epsilon)
    g, axes = wide(g), _axes(x, first)
    dot = (g * standard).mean(axes, keepdims=True)
    return inverse * (g - g.mean(axes, keepdims=True) - standard * dot)


def _vjp(
    ct: Tensor, y: Tensor, x: Tensor, scale: Tensor, offset: Tensor, *, first: int, epsilon: float
) -> tuple[Any, ...]:
    """Returns the cotangents of x, scale and offset; x's by the primitive ``layer_norm_grad``."""
    rows = tuple(range(first))
    standard = bind.layer_norm(x, ones_like(scale), zeros_like(offset), first=first, epsilon=epsilon)
    to_x = bind.layer_norm_grad(bind.multiply(ct, scale), x, first=first, epsilon=epsilon)
    return to_x, _summed(bind.multiply(ct, standard), rows), _summed(ct, rows)


def _summed(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return bind.reduce_sum(x, axis=axes, keepdims=False) if axes else x


def _mean(x: Tensor, first: int) -> Tensor:
    return bind.reduce_mean(x, axis=_axes(x, first), keepdims=True)


def _grad_vjp(c: Tensor, y: Tensor, g: Tensor, x: Tensor, *, first: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``layer_norm_grad``'s inputs, for second derivatives.

    The map is symmetric in g. With < > for row means, s the standardised x, r one over its deviation, p = <c s> and
    q = <g s>, x gets ``layer_norm_grad(-r (q c + p g)) - r^2 s (<c g> - <c> <g> - p q)``.
    """
    centered = bind.subtract(x, _mean(x, first))
    variance = _mean(bind.square(centered), first)
    r = bind.rsqrt(bind.add(variance, number(epsilon, x)))
    s = bind.multiply(centered, r)
    p, q = _mean(bind.multiply(c, s), first), _mean(bind.multiply(g, s), first)
    through = bind.negative(bind.multiply(r, bind.add(bind.multiply(q, c), bind.multiply(p, g))))
    covariance = bind.subtract(_mean(bind.multiply(c, g), first), bind.multiply(_mean(c, first), _mean(g, first)))
    direct = bind.multiply(bind.multiply(bind.square(r), s), bind.subtract(covariance, bind.multiply(p, q)))
    to_x = bind.subtract(bind.layer_norm_grad(through, x, first=first, epsilon=epsilon), direct)
    return bind.layer_norm_grad(c, x, first=first, epsilon=epsilon), to_x


def _batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, first: int, epsilon: float) -> Tensor:
    """Normalises one axis later. A batched scale or offset is applied afterwards, since rows share the primitive's."""
    x, scale, offset = inputs
    if not any(batched[1:]):
        return bind.layer_norm(x, scale, offset, first=first + 1, epsilon=epsilon)
    x = stretch(size, x, batched[0])
    unit = scale if not batched[1] else bind.reshape(scale, shape=(size, *(1,) * first, *scale._type.shape[1:]))
    shift = offset if not batched[2] else bind.reshape(offset, shape=(size, *(1,) * first, *offset._type.shape[1:]))
    one = bind.broadcast_to(number(1, x), shape=x._type.shape[first + 1 :])
    none = bind.broadcast_to(number(0, x), shape=x._type.shape[first + 1 :])
    standard = bind.layer_norm(x, one, none, first=first + 1, epsilon=epsilon)
    return bind.add(bind.multiply(standard, unit), shift)


def _grad_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, first: int, epsilon: float) -> Tensor:
    both = (stretch(size, x, b) for x, b in zip(inputs, batched))
    return bind.layer_norm_grad(*both, first=first + 1, epsilon=epsilon)


def _onnx(emitter: Any, inputs: Any, outputs: Any, types: Any, *, first: int, epsilon: float) -> None:
    emitter.node("LayerNormalization", inputs, outputs, axis=first, epsilon=epsilon)


def _grad_onnx(emitter: Any, inputs: Any, outputs: Any, types: Any, *, first: int, epsilon: float) -> None:
    """Writes the gradient as ONNX nodes, by the formula of the kernel ``layer_norm_grad``."""
    dtype, axes = types[0][1].dtype.np, tuple(range(first, len(types[0][1].shape)))

    def node(op: str, *names: str) -> str:
        result = emitter.temp()
        emitter.node(op, list(names), [result])
        return result

    def mean(name: str) -> str:
        result = emitter.temp()
        emitter.reduce("ReduceMean", [name], [result], axes, True)
        return result

    g, x = inputs
    centered = node("Sub", x, mean(x))
    deviation = node(
        "Sqrt", node("Add", mean(node("Mul", centered, centered)), emitter.const(np.array(epsilon, dtype)))
    )
    standard = node("Div", centered, deviation)
    along = node("Mul", standard, mean(node("Mul", g, standard)))
    emitter.node("Div", [node("Sub", node("Sub", g, mean(g)), along), deviation], outputs)


def _samples() -> list[Sample]:
    cases = (((2, 5), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((4,), 0))
    samples = [_sample(i, s, first) for i, (s, first) in enumerate(cases)]
    return [*samples, _sample(9, (2, 5), 1, symbolic=(("n", None), (None,), (None,)))]


def _sample(i: int, shape: Any, first: int, **options: Any) -> Sample:
    inputs = (draw(i, shape), draw(i + 20, shape[first:]), draw(i + 40, shape[first:]))
    return Sample(inputs, {"first": first, "epsilon": 2.0**-10}, FLOATING, **options)


def _grad_samples() -> list[Sample]:
    cases = (((2, 5), 1), ((2, 3, 4), 1), ((4,), 0))
    return [
        Sample((draw(i, s), draw(i + 20, s)), {"first": first, "epsilon": 2.0**-10}, FLOATING)
        for i, (s, first) in enumerate(cases)
    ]


@primitive(
    type=_type,
    numpy=lambda x, scale, offset, *, first, epsilon: (
        _standard_array(x, first, epsilon)[0] * wide(scale) + wide(offset)
    ),
    lower=kernel("norm.layer_norm"),
    vjp=_vjp,
    batch=_batch,
    onnx=_onnx,
    samples=_samples,
    public=("nn.layer_norm",),
)
def layer_norm(x: Any, scale: Any, offset: Any, axis: Any = -1, epsilon: float = 1e-3, name: str | None = None) -> Any:
    """Rows with mean 0 and variance 1, then ``* scale + offset``; tvtf's own, for layer normalisation in one kernel.

    Args:
      x: floating tensor.
      scale: tensor of x's dtype and of the shape of the normalised axes.
      offset: as scale.
      axis: the first of the normalised axes (the others follow it), or all of them as a list of trailing axes.
      epsilon: what is added to the variance.

    Returns:
      A tensor of x's dtype and shape; 16-bit floats compute in float32.

    Raises:
      ValueError: when ``axis`` lists other axes than the last ones.
      InvalidArgumentError: (ValueError while tracing) when scale or offset have another shape.

    >>> import tvtf as tf
    >>> tf.nn.layer_norm([[1., 3.]], [1., 1.], [0., 0.], epsilon=0.).numpy()
    array([[-1.,  1.]], dtype=float32)

    Source: https://arxiv.org/abs/1607.06450 (Ba, Kiros, Hinton, Layer Normalization, 2016)
    """
    x = convert_to_tensor(x)
    inputs = (x, convert_to_tensor(scale, dtype_hint=x.dtype), convert_to_tensor(offset, dtype_hint=x.dtype))
    return inputs, {"first": _first_axis(axis, x.ndim), "epsilon": float(epsilon)}


def _first_axis(axis: Any, rank: int) -> int:
    """Returns the first of the axes to normalise, which must be the last axes."""
    value = static_value(axis, "axis")
    if not isinstance(value, (list, tuple)):
        return static_int(value, "axis") % rank
    axes = sorted(a % rank for a in value)
    if axes != list(range(rank - len(axes), rank)) or not axes:
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
    """Returns the number of elements along axes, which must be known."""
    return math.prod(static_int(x._type.shape[a], "dim") for a in axes)
