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
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
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
from tvtf.ops.softmax import upcast
from tvtf.ops.windows import is_channels_first

HALF = ("float16", "bfloat16")
SMALLEST_EPSILON = 1.001e-5
"""cuDNN's smallest epsilon, which TensorFlow's fused_batch_norm applies on every device."""


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype is as_dtype(dtype) else table["cast"](x, dtype)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool = True) -> Tensor:
    return bind.reduce_mean(x, axis=axes, keepdims=keepdims)


def _squeezed(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return bind.reshape(x, shape=tuple(dim for i, dim in enumerate(x._type.shape) if i not in axes))


def _variance_type(x: TensorType, mean: TensorType, *, axis: tuple[int, ...]) -> TensorType:
    """Returns the type of the variance over ``axis``, which is that of ``mean``, after checking the operands."""
    require_same_dtype((x, mean), ("x", "mean"))
    result = reduction(FLOATING)(x, axis=axis, keepdims=True)
    if not same_shape(result.shape, mean.shape):
        raise ArgumentError(f"mean must have shape {show_shape(result.shape)}, but got {show_shape(mean.shape)}")
    return result


def _variance_vjp(cotangent: Tensor, y: Tensor, x: Tensor, mean: Tensor, *, axis: tuple[int, ...]) -> tuple[Any, None]:
    share = bind.multiply(shared(cotangent, x, axis), number(2, x))
    return bind.multiply(bind.subtract(x, mean), share), None


def _variance_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, axis: tuple[int, ...]) -> Tensor:
    stretched = (stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched))
    return bind.variance_about(*stretched, axis=tuple(each + 1 for each in axis))


def _variance_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: tuple[int, ...]
) -> None:
    """Emits ONNX nodes for the mean square of the differences from given means."""
    difference = emitter.computed("Sub", inputs)
    square = emitter.computed("Mul", [difference, difference])
    emitter.reduce("ReduceMean", [square], outputs, axis, True)


def _variance_samples() -> list[Sample]:
    """Returns samples of the variance primitive over various axes, the last with symbolic dims."""
    # The shape, the axes and the shape of the mean.
    cases = (((3,), (0,), (1,)), ((2, 3, 4), (1,), (2, 1, 4)), ((2, 3, 4), (0, 2), (1, 3, 1)))
    samples = []
    for seed, (shape, axis, mean_shape) in enumerate(cases):
        operands = draw(seed, shape), draw(seed + 9, mean_shape)
        samples.append(Sample(operands, {"axis": axis}, FLOATING, gradient=(0,)))
    operands = draw(6, (2, 3)), draw(7, (2, 1))
    symbolic_dims = (("n", None), ("n", None))
    samples.append(Sample(operands, {"axis": (1,)}, FLOATING, gradient=(0,), symbolic=symbolic_dims))
    return samples


@primitive(
    type=_variance_type,
    numpy=lambda x, mean, *, axis: np.square(upcast(x) - upcast(mean)).mean(axis, keepdims=True),
    lower=kernel("reduce.variance_about"),
    vjp=_variance_vjp,
    batch=_variance_batch,
    onnx=_variance_onnx,
    samples=_variance_samples,
)
def variance_about(x: Tensor, mean: Tensor, axis: tuple[int, ...]) -> Any:
    """Computes the mean of ``(x - mean) ** 2`` over axes, which keep size 1.

    ``mean`` has no gradient: the derivative by the mean is zero, because the variance is smallest about the mean.

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
    reduced = canonical_axes(axes, x.ndim)
    widened = _cast(x, "float32") if x.dtype.name in HALF else x
    mean = _mean(widened, reduced)
    variance = _variance(widened, mean, reduced)
    if not keepdims:
        mean, variance = _squeezed(mean, reduced), _squeezed(variance, reduced)
    return _cast(mean, x.dtype), _cast(variance, x.dtype)


def _variance(x: Tensor, mean: Tensor, axes: tuple[int, ...]) -> Tensor:
    if x.dtype in FLOATING:
        return bind.variance_about(x, mean, axis=axes)
    return _mean(bind.squared_difference(x, bind.stop_gradient(mean)), axes)


@export("nn.weighted_moments")
def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Computes the weighted mean and variance over axes. ``frequency_weights`` broadcasts with ``x``.

    Args:
      x: floating tensor.
      axes: the axes to reduce.
      frequency_weights: tensor of how often each element counts.
      keepdims: whether to keep the reduced axes, with size 1.

    Returns:
      The mean and the variance, in the dtype of ``x``; 16-bit floats are summed in float32.

    >>> import tvtf as tf
    >>> [float(m) for m in tf.nn.weighted_moments(tf.constant([1., 3.]), [0], tf.constant([3., 1.]))]
    [1.5, 0.75]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/weighted_moments
    """
    x = convert_to_tensor(x)
    reduced = canonical_axes(axes, x.ndim)
    widened = _cast(x, "float32") if x.dtype.name in HALF else x
    weights = _cast(convert_to_tensor(frequency_weights), widened.dtype)
    weights = bind.add(weights, bind.broadcast_to(number(0, widened), shape=widened._type.shape))  # to x's shape
    total = bind.reduce_sum(weights, axis=reduced, keepdims=True)
    mean = bind.divide_no_nan(bind.reduce_sum(bind.multiply(weights, widened), axis=reduced, keepdims=True), total)
    squares = bind.square(bind.subtract(widened, mean))
    variance = bind.divide_no_nan(bind.reduce_sum(bind.multiply(weights, squares), axis=reduced, keepdims=True), total)
    if not keepdims:
        mean, variance = _squeezed(mean, reduced), _squeezed(variance, reduced)
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
      ValueError: ``is_training`` is False, and the mean or the variance is missing.

    >>> import tvtf as tf
    >>> x = tf.constant([[[[1.]], [[3.]]]])
    >>> [t.numpy().ravel().tolist() for t in tf.compat.v1.nn.fused_batch_norm(x, [1.], [0.], epsilon=1e-4)][1:]
    [[2.0], [2.0]]

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/nn/fused_batch_norm
    """
    x = convert_to_tensor(x)
    channel_axis = 1 if _is_fused_input_channels_first(x, data_format) else x.ndim - 1
    widened = _cast(x, "float32") if x.dtype.name in HALF else x
    scale = _per_channel(scale, widened, channel_axis, "scale")
    offset = _per_channel(offset, widened, channel_axis, "offset")
    clamped_epsilon = max(float(epsilon), SMALLEST_EPSILON)
    if not is_training:
        return _inference(x, widened, scale, offset, mean, variance, clamped_epsilon, channel_axis)
    axes = tuple(i for i in range(x.ndim) if i != channel_axis)
    batch_mean, batch_variance = moments(widened, axes, keepdims=True)
    y = batch_normalization(widened, batch_mean, batch_variance, offset, scale, clamped_epsilon)
    unbiased = bind.multiply(batch_variance, _bessel_correction(widened, axes))
    running_mean, running_variance = (
        _moving_average(new, old, exponential_avg_factor, axes)
        for new, old in ((batch_mean, mean), (unbiased, variance))
    )
    return _cast(y, x.dtype), running_mean, running_variance


def _is_fused_input_channels_first(x: Tensor, data_format: str) -> bool:
    """Returns whether ``data_format`` of fused_batch_norm has the channels first, after checking the input ``x``.

    ``x`` must have rank 4 or 5 and a floating dtype.
    """
    op = "FusedBatchNormV3"
    if x.ndim not in (4, 5):
        raise ArgumentError(f"x must be 4 or 5-dimensional, but got shape {show_shape(x._type.shape)}").for_op(op)
    try:
        require_dtype(x._type, FLOATING, "x")
    except ArgumentError as error:
        raise error.for_op(op) from None
    return is_channels_first(data_format, x.ndim - 2, op)


def _per_channel(value: Any, x: Tensor, channel_axis: int, name: str) -> Tensor:
    """Checks the length of a vector with one value per channel, and reshapes the vector to broadcast with ``x``.

    For example, 3 channels in the last axis of a rank-4 ``x`` give the shape ``(1, 1, 1, 3)``.
    """
    vector = _cast(convert_to_tensor(value), x.dtype)
    channels = x._type.shape[channel_axis]
    if vector.ndim != 1 or not agree_dim(vector._type.shape[0], channels):
        raise ArgumentError(
            f"{name} must have shape ({channels},): one value per channel, but got {show_shape(vector._type.shape)}"
        ).for_op("FusedBatchNormV3")
    shape: list[Dim] = [1] * x.ndim
    shape[channel_axis] = channels
    return bind.reshape(vector, shape=tuple(shape))


def _inference(
    x: Tensor,
    widened: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Any,
    variance: Any,
    epsilon: float,
    channel_axis: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalizes by the running mean and variance, as fused_batch_norm does in inference.

    Returns the normalized ``x``, and the two statistics unchanged.

    Args:
      x: the input.
      widened: the input, cast to float32 if it has 16-bit floats.
      scale, offset: the factor and the summand of each channel, applied after the normalization.
      mean, variance: the running statistics of each channel.
      epsilon: a small number that is added to the variance.
      channel_axis: the axis of the channels.
    """
    if mean is None or variance is None:
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False. Received: "
            f"mean={mean}, variance={variance}"
        )
    running_mean = _per_channel(mean, widened, channel_axis, "mean")
    running_variance = _per_channel(variance, widened, channel_axis, "variance")
    y = batch_normalization(widened, running_mean, running_variance, offset, scale, epsilon)
    return _cast(y, x.dtype), convert_to_tensor(mean), convert_to_tensor(variance)


def _bessel_correction(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Returns the factor ``n / (n - 1)`` that makes a variance over the ``n`` elements in ``axes`` unbiased.

    The factor of a single element is 1.
    """
    dims = tuple(x._type.shape[axis] for axis in axes)
    static_count = size_of(dims)
    if isinstance(static_count, int):
        return number(static_count / max(1, static_count - 1), x)
    # A count unknown while tracing is computed at run time, as a sum of ones.
    one = number(1, x)
    ones = bind.broadcast_to(one, shape=dims)
    count = bind.reduce_sum(ones, axis=tuple(range(len(dims))), keepdims=False)
    return bind.divide(count, bind.maximum(bind.subtract(count, one), one))


def _moving_average(new: Tensor, old: Any, factor: float, axes: tuple[int, ...]) -> Tensor:
    """Returns a running statistic after a batch, ``old * (1 - factor) + new * factor``, without ``axes`` of size 1."""
    vector = _squeezed(new, axes)
    if old is None or factor == 1.0:
        return vector
    weighted_old = bind.multiply(_cast(convert_to_tensor(old), vector.dtype), number(1 - factor, vector))
    return bind.add(weighted_old, bind.multiply(vector, number(factor, vector)))


def group_norm(x: Any, scale: Any, offset: Any, groups: int, epsilon: float = 1e-3) -> Tensor:
    """Applies group normalisation to ``x`` (batch, ..., channels): standardises each item's channels group by group.

    With as many groups as channels, this is instance normalisation.

    Args:
      x: tensor of shape (batch, ..., channels).
      scale, offset: one value per channel, or None.
      groups: the number of groups, which divides the number of channels.
      epsilon: a small number that is added to the variance.

    Source: https://arxiv.org/abs/1803.08494 (Wu, He, Group Normalization, 2018)
    """
    x = convert_to_tensor(x)
    shape = x._type.shape
    depth = shape[-1]
    if not isinstance(depth, int) or depth % groups:
        raise ValueError(f"group_norm: channels must be a multiple of groups={groups}, but there are {depth}")
    grouped = bind.reshape(x, shape=(*shape[:-1], groups, depth // groups))
    axes = (*range(1, x.ndim - 1), x.ndim)  # all but the batch and the axis of the groups
    mean, variance = moments(grouped, axes, keepdims=True)
    normalized_groups = batch_normalization(grouped, mean, variance, None, None, epsilon)
    y = bind.reshape(normalized_groups, shape=shape)
    if scale is not None:
        y = bind.multiply(y, _like(scale, y))
    if offset is not None:
        y = bind.add(y, _like(offset, y))
    return y


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
    """Sums, for local response normalization, the squares of each channel and its neighbours within ``radius``.

    Average pooling along the channels gives the mean of each window. The mean is multiplied by the number of channels
    in the window, which is smaller at the ends.
    """
    *other_dims, depth = x._type.shape
    # Pooling sees the channels as a spatial axis, and one channel.
    squares = bind.reshape(bind.square(x), shape=(size_of(other_dims), depth, 1))
    window = (2 * radius + 1,)
    means = bind.avg_pool(squares, window=window, strides=(1,), padding=((radius, radius),))
    channel = bind.range(size=depth, start=0, delta=1, dtype=int64)
    radius_tensor = number(radius, channel)
    last_neighbour = bind.minimum(bind.add(channel, radius_tensor), scalar_of(depth - 1))
    first_neighbour = bind.maximum(bind.subtract(channel, radius_tensor), number(0, channel))
    counts = bind.add(bind.subtract(last_neighbour, first_neighbour), number(1, channel))
    return bind.multiply(bind.reshape(means, shape=(*other_dims, depth)), bind.cast(counts, dtype=x.dtype))


@export("math.l2_normalize", "nn.l2_normalize", "linalg.l2_normalize")
def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """Computes ``x / sqrt(max(sum(x ** 2), epsilon))``. The sum is over ``axis``, or over all axes if it is None.

    Args:
      x: floating or complex tensor.
      axis: int or ints, or None; ``dim`` is its old name.
      epsilon: the smallest value of the sum.

    Returns:
      A tensor of x's dtype and shape.

    >>> import tvtf as tf
    >>> tf.math.l2_normalize([3., 4.]).numpy()
    array([0.6, 0.8], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/l2_normalize
    """
    x = convert_to_tensor(x)
    axes = canonical_axes(dim if axis is None else axis, x.ndim)
    squares = bind.square(bind.complex_abs(x) if x.dtype.is_complex else x)
    squared_norm = bind.reduce_sum(squares, axis=axes, keepdims=True)
    smallest = convert_to_tensor(epsilon, squared_norm.dtype)
    return bind.multiply(x, _cast(bind.rsqrt(bind.maximum(squared_norm, smallest)), x.dtype))
