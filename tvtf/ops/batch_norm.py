"""Moments and the normalisations that are compositions: batch, group, instance, local response, l2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive, table
from tvtf.core.shape import Dim, TensorType, agree_dim, same_shape, show_shape, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, as_dtype, bfloat16, float16, float32, int64
from tvtf.ops.cast import defaulted
from tvtf.ops.dims import scalar_of
from tvtf.ops.operands import attributes
from tvtf.ops.reduce import shared
from tvtf.ops.rules import (
    bind,
    canonical_axes,
    draw,
    kernel,
    number,
    reduction,
    require_dtype,
    require_same_dtype,
    stretch,
)
from tvtf.ops.softmax import wide
from tvtf.ops.windows import is_channels_first

HALF = ("float16", "bfloat16")
SMALLEST_EPSILON = 1.001e-5
"""cuDNN's smallest epsilon, which TensorFlow's fused_batch_norm applies on every device."""


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype is as_dtype(dtype) else table["cast"](x, dtype)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool = True) -> Tensor:
    return bind.reduce_mean(x, axis=axes, keepdims=keepdims)


def _without(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return bind.reshape(x, shape=tuple(d for i, d in enumerate(x._type.shape) if i not in axes))


def _variance_type(x: TensorType, mean: TensorType, *, axis: tuple[int, ...]) -> TensorType:
    require_same_dtype((x, mean), ("x", "mean"))
    result = reduction(FLOATING)(x, axis=axis, keepdims=True)
    if not same_shape(result.shape, mean.shape):
        raise ArgumentError(f"mean must have shape {show_shape(result.shape)}, but got {show_shape(mean.shape)}")
    return result


def _variance_vjp(ct: Tensor, y: Tensor, x: Tensor, mean: Tensor, *, axis: tuple[int, ...]) -> tuple[Any, None]:
    share = bind.multiply(shared(ct, x, axis), number(2, x))
    return bind.multiply(bind.subtract(x, mean), share), None


def _variance_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, axis: tuple[int, ...]) -> Tensor:
    both = (stretch(size, x, b) for x, b in zip(inputs, batched))
    return bind.variance_about(*both, axis=tuple(a + 1 for a in axis))


def _variance_onnx(emitter: Any, inputs: Any, outputs: Any, types: Any, *, axis: tuple[int, ...]) -> None:
    difference, square = emitter.temp(), emitter.temp()
    emitter.node("Sub", inputs, [difference])
    emitter.node("Mul", [difference, difference], [square])
    emitter.reduce("ReduceMean", [square], outputs, axis, True)


def _variance_samples() -> list[Sample]:
    cases = (((3,), (0,), (1,)), ((2, 3, 4), (1,), (2, 1, 4)), ((2, 3, 4), (0, 2), (1, 3, 1)))
    samples = [Sample((draw(i, s), draw(i + 9, m)), {"axis": a}, FLOATING, gradient=(0,)) for i, (s, a, m) in
            enumerate(cases)]  # fmt: skip
    symbolic = (("n", None), ("n", None))
    last = Sample((draw(6, (2, 3)), draw(7, (2, 1))), {"axis": (1,)}, FLOATING, gradient=(0,), symbolic=symbolic)
    return [*samples, last]


@primitive(
    type=_variance_type,
    numpy=lambda x, mean, *, axis: np.square(wide(x) - wide(mean)).mean(axis, keepdims=True),
    lower=kernel("reduce.variance_about"),
    vjp=_variance_vjp,
    batch=_variance_batch,
    onnx=_variance_onnx,
    samples=_variance_samples,
)
def variance_about(x: Tensor, mean: Tensor, axis: tuple[int, ...]) -> Any:
    """Returns the mean squared distance of ``x`` from its ``mean`` over axes, which keep size 1.

    The mean gets no gradient: the variance is smallest there, so its derivative by the mean is zero.

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/moments
    """
    return (x, mean), {"axis": axis}


@export("nn.moments")
def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Computes mean and variance over axes.

    Args:
      x: tensor of numbers; 16-bit floats compute in float32, integers truncate.
      axes: ints.
      shift: accepted as in TensorFlow, not used.
      keepdims: keep reduced axes with size 1.

    Returns:
      Two tensors of x's dtype.

    >>> import tvtf as tf
    >>> [m.numpy().tolist() for m in tf.nn.moments(tf.constant([1., 3.]), [0])]
    [2.0, 1.0]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/moments
    """
    x = convert_to_tensor(x)
    over = canonical_axes(axes, x.ndim)
    wide = _cast(x, "float32") if x.dtype.name in HALF else x
    mean = _mean(wide, over)
    variance = _variance(wide, mean, over)
    if not keepdims:
        mean, variance = _without(mean, over), _without(variance, over)
    return _cast(mean, x.dtype), _cast(variance, x.dtype)


def _variance(x: Tensor, mean: Tensor, axes: tuple[int, ...]) -> Tensor:
    if x.dtype in FLOATING:
        return bind.variance_about(x, mean, axis=axes)
    return _mean(bind.squared_difference(x, bind.stop_gradient(mean)), axes)


@export("nn.weighted_moments")
def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Computes mean and variance over axes, each value counted ``frequency_weights`` times (a tensor that broadcasts with x).

    >>> import tvtf as tf
    >>> [float(m) for m in tf.nn.weighted_moments(tf.constant([1., 3.]), [0], tf.constant([3., 1.]))]
    [1.5, 0.75]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/weighted_moments
    """
    x = convert_to_tensor(x)
    over = canonical_axes(axes, x.ndim)
    wide = _cast(x, "float32") if x.dtype.name in HALF else x
    weights = _cast(convert_to_tensor(frequency_weights), wide.dtype)
    spread = bind.add(weights, bind.broadcast_to(number(0, wide), shape=wide._type.shape))
    total = bind.reduce_sum(spread, axis=over, keepdims=True)
    mean = bind.divide_no_nan(bind.reduce_sum(bind.multiply(spread, wide), axis=over, keepdims=True), total)
    squares = bind.square(bind.subtract(wide, mean))
    variance = bind.divide_no_nan(bind.reduce_sum(bind.multiply(spread, squares), axis=over, keepdims=True), total)
    if not keepdims:
        mean, variance = _without(mean, over), _without(variance, over)
    return _cast(mean, x.dtype), _cast(variance, x.dtype)


@export("nn.batch_normalization")
def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Tensor:
    """Computes ``(x - mean) / sqrt(variance + epsilon) * scale + offset``.

    Args:
      x: floating tensor.
      mean, variance: tensors that broadcast with x.
      offset, scale: tensors that broadcast with x, or None.
      variance_epsilon: a small number.

    Returns:
      A tensor of x's dtype and the broadcast shape.

    >>> import tvtf as tf
    >>> tf.nn.batch_normalization(tf.constant([1., 3.]), 2., 1., None, None, 0.).numpy()
    array([-1.,  1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/batch_normalization
    """
    x = convert_to_tensor(x)
    variance = convert_to_tensor(variance, dtype_hint=x.dtype)
    mean = convert_to_tensor(mean, dtype_hint=x.dtype)
    inverse = bind.rsqrt(bind.add(variance, _like(variance_epsilon, variance)))
    if scale is not None:
        inverse = bind.multiply(inverse, _like(scale, inverse))
    shift = bind.negative(bind.multiply(mean, inverse))
    if offset is not None:
        shift = bind.add(_like(offset, shift), shift)
    return bind.add(bind.multiply(x, _cast(inverse, x.dtype)), _cast(shift, x.dtype))


def _like(value: Any, like: Tensor) -> Tensor:
    return convert_to_tensor(value, dtype_hint=like.dtype)


@export("compat.v1.nn.fused_batch_norm")
def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalises images per channel over the batch, with running statistics.

    Args:
      x: floating tensor of four or five dims, channels where ``data_format`` says.
      scale, offset: vectors of one value per channel, float32 where x is a 16-bit float.
      mean, variance: running statistics: what inference uses; averaged into those of the batch while training.
      epsilon: added to the variance; at least 1.001e-5, as TensorFlow has it.
      data_format: "NHWC", "NCHW", "NDHWC" or "NCDHW".
      is_training: use the batch's own statistics.
      exponential_avg_factor: the weight of the batch in the statistics that come back.

    Returns:
      The normalised tensor, the mean, and the variance (of the batch: unbiased).

    Raises:
      ValueError: without mean and variance in inference.

    >>> import tvtf as tf
    >>> x = tf.constant([[[[1.]], [[3.]]]])
    >>> [t.numpy().ravel().tolist() for t in tf.compat.v1.nn.fused_batch_norm(x, [1.], [0.], epsilon=1e-4)][1:]
    [[2.0], [2.0]]

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/nn/fused_batch_norm
    """
    x = convert_to_tensor(x)
    first = _fused_format(x, data_format)
    wide = _cast(x, "float32") if x.dtype.name in HALF else x
    channel = 1 if first else x.ndim - 1
    scale, offset = (_channels(v, wide, channel, name) for v, name in ((scale, "scale"), (offset, "offset")))
    least = max(float(epsilon), SMALLEST_EPSILON)
    if not is_training:
        return _inference(x, wide, scale, offset, mean, variance, least, channel)
    axes = tuple(i for i in range(x.ndim) if i != channel)
    batch_mean, batch_variance = moments(wide, axes, keepdims=True)
    y = batch_normalization(wide, batch_mean, batch_variance, offset, scale, least)
    unbiased = bind.multiply(batch_variance, _unbiasing(wide, axes))
    running_mean, running_variance = (
        _averaged(new, old, exponential_avg_factor, axes) for new, old in ((batch_mean, mean), (unbiased, variance))
    )
    return _cast(y, x.dtype), running_mean, running_variance


def _fused_format(x: Tensor, data_format: str) -> bool:
    """Checks rank and dtype of fused_batch_norm's input; returns whether channels come first."""
    if x.ndim not in (4, 5):
        raise ArgumentError(f"x must be 4 or 5-dimensional, but got shape {show_shape(x._type.shape)}").for_op(
            "FusedBatchNormV3"
        )
    try:
        require_dtype(x._type, FLOATING, "x")
    except ArgumentError as error:
        raise error.for_op("FusedBatchNormV3") from None
    return is_channels_first(data_format, x.ndim - 2, "FusedBatchNormV3")


def _channels(value: Any, x: Tensor, channel: int, name: str) -> Tensor:
    """Reshapes a vector of one value per channel to broadcast with x."""
    vector = _cast(convert_to_tensor(value), x.dtype)
    if vector.ndim != 1 or not agree_dim(vector._type.shape[0], x._type.shape[channel]):
        raise ArgumentError(
            f"{name} must have shape ({x._type.shape[channel]},): one value per channel, but got "
            f"{show_shape(vector._type.shape)}"
        ).for_op("FusedBatchNormV3")
    return bind.reshape(vector, shape=tuple(x._type.shape[channel] if i == channel else 1 for i in range(x.ndim)))


def _inference(
    x: Tensor, wide: Tensor, scale: Tensor, offset: Tensor, mean: Any, variance: Any, epsilon: float, channel: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalizes by the running statistics, which are returned unchanged."""
    if mean is None or variance is None:
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False. Received: "
            f"mean={mean}, variance={variance}"
        )
    center, spread = (_channels(v, wide, channel, n) for v, n in ((mean, "mean"), (variance, "variance")))
    y = batch_normalization(wide, center, spread, offset, scale, epsilon)
    return _cast(y, x.dtype), convert_to_tensor(mean), convert_to_tensor(variance)


def _unbiasing(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Returns Bessel's correction ``n / (n - 1)`` for n values per channel."""
    count = size_of(x._type.shape[a] for a in axes)
    if isinstance(count, int):
        return number(count / max(1, count - 1), x)
    total = bind.reduce_sum(bind.broadcast_to(number(1, x), shape=tuple(x._type.shape[a] for a in axes)),
                            axis=tuple(range(len(axes))), keepdims=False)  # fmt: skip
    return bind.divide(total, bind.maximum(bind.subtract(total, number(1, x)), number(1, x)))


def _averaged(new: Tensor, old: Any, factor: float, axes: tuple[int, ...]) -> Tensor:
    flat = _without(new, axes)
    if old is None or factor == 1.0:
        return flat
    before = bind.multiply(_cast(convert_to_tensor(old), flat.dtype), number(1 - factor, flat))
    return bind.add(before, bind.multiply(flat, number(factor, flat)))


def group_norm(x: Any, scale: Any, offset: Any, groups: int, epsilon: float = 1e-3) -> Tensor:
    """Applies group normalisation to ``x`` (batch, ..., channels): each item's channels standardised in ``groups`` groups.

    ``scale`` and ``offset`` hold one value per channel or are None; as many groups as channels
    is instance normalisation.

    Source: https://arxiv.org/abs/1803.08494 (Wu, He, Group Normalization, 2018)
    """
    x = convert_to_tensor(x)
    shape = x._type.shape
    depth = shape[-1]
    if not isinstance(depth, int) or depth % groups:
        raise ValueError(f"group_norm: channels must be a multiple of groups={groups}, but there are {depth}")
    grouped = bind.reshape(x, shape=(*shape[:-1], groups, depth // groups))
    axes = (*range(1, x.ndim - 1), x.ndim)
    mean, variance = moments(grouped, axes, keepdims=True)
    standard = bind.reshape(batch_normalization(grouped, mean, variance, None, None, epsilon), shape=shape)
    scaled = standard if scale is None else bind.multiply(standard, _like(scale, standard))
    return scaled if offset is None else bind.add(scaled, _like(offset, scaled))


@export("nn.local_response_normalization", "nn.lrn")
@attributes(depth_radius=int, bias=float, alpha=float, beta=float)
def local_response_normalization(
    input: Any, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, name: str | None = None
) -> Tensor:
    """Computes ``input / (bias + alpha * sum of squares over neighbouring channels) ** beta``.

    Args:
      input: floating tensor of shape (batch, height, width, channels).
      depth_radius: how many channels to each side count.
      bias, alpha, beta: floats.

    Returns:
      A tensor of the same dtype and shape.

    >>> import tvtf as tf
    >>> tf.nn.local_response_normalization(tf.constant([[[[3., 4.]]]]), bias=0).numpy().ravel()
    array([0.6, 0.8], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/local_response_normalization
    """
    x = defaulted(input, (float16, bfloat16, float32), float32)
    if x.ndim != 4:
        raise ArgumentError(
            "in must be 4-dimensional", ValueError, f"Shape must be rank 4 but is rank {x.ndim} for {{op}}"
        ).for_op("LRN")
    power = bind.pow(
        bind.add(number(bias, x), bind.multiply(number(alpha, x), _neighbour_squares(x, int(depth_radius)))),
        number(beta, x),
    )
    return bind.divide(x, power)


def _neighbour_squares(x: Tensor, radius: int) -> Tensor:
    """Sums squares over windows of channels, as average pooling times each window's number of channels."""
    shape, depth = x._type.shape, x._type.shape[-1]
    rows = bind.reshape(bind.square(x), shape=(size_of(shape[:-1]), depth, 1))
    reach = (2 * radius + 1,)
    means = bind.avg_pool(rows, window=reach, strides=(1,), padding=((radius, radius),))
    at = bind.range(size=depth, start=0, delta=1, dtype=int64)
    last, reach_each_way, zero = scalar_of(depth - 1), number(radius, at), number(0, at)
    above = bind.minimum(bind.add(at, reach_each_way), last)
    below = bind.maximum(bind.subtract(at, reach_each_way), zero)
    counts = bind.add(bind.subtract(above, below), number(1, at))
    return bind.multiply(bind.reshape(means, shape=shape), bind.cast(counts, dtype=x.dtype))


@export("math.l2_normalize", "nn.l2_normalize", "linalg.l2_normalize")
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """Computes ``x / sqrt(max(sum(x ** 2), epsilon))``, the sum over ``axis`` (all axes where it is None).

    Args:
      x: floating or complex tensor.
      axis: int or ints, or None; ``dim`` is its old name.
      epsilon: least value of the sum.

    Returns:
      A tensor of x's dtype and shape.

    >>> import tvtf as tf
    >>> tf.math.l2_normalize([3., 4.]).numpy()
    array([0.6, 0.8], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/l2_normalize
    """
    x = convert_to_tensor(x)
    over = canonical_axes(dim if axis is None else axis, x.ndim)
    squares = bind.square(bind.complex_abs(x) if x.dtype.is_complex else x)
    total = bind.reduce_sum(squares, axis=over, keepdims=True)
    least = convert_to_tensor(epsilon, total.dtype)
    return bind.multiply(x, _cast(bind.rsqrt(bind.maximum(total, least)), x.dtype))
