"""TensorFlow's convolution functions, which convert their arguments for the ``conv`` primitives."""

from __future__ import annotations

from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import agree_dim, agree_shape, is_static_shape, show_shape, size_of
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.conv import group_count
from tvtf.ops.operands import operands
from tvtf.ops.rules import attribute_ints, bind
from tvtf.ops.windows import channels_first, channels_last, is_channels_first, paddings, spatial_steps


def _rank_error(value: Tensor, name: str, rank: int, op: str) -> BaseException:
    """Returns TensorFlow's error for an argument ``name`` that doesn't have the rank which ``op`` needs."""
    shape = show_shape(value._type.shape)
    return ArgumentError(
        f"{name} must be {rank}-dimensional, but got shape {shape}",
        graph=ValueError,
        traced=f"Shape must be rank {rank} but is rank {value.ndim} for {{op}}: {name} has shape {shape}",
    ).for_op(op)


def _checked_operands(x: Any, w: Any, rank: int, op: str) -> tuple[Tensor, Tensor]:
    """Converts a convolution's input and filter to tensors of the same dtype, and checks their ranks.

    The input may have more than one batch axis.

    Args:
      x: the input.
      w: the filter.
      rank: the number of spatial axes.
      op: the name of the op in error messages.
    """
    x, w = operands(x, w)
    if x.ndim < rank + 2:
        raise _rank_error(x, "input", rank + 2, op)
    if w.ndim != rank + 2:
        raise _rank_error(w, "filter", rank + 2, op)
    return x, w


def convolve(
    x: Any, w: Any, strides: Any, padding: Any, data_format: str | None, dilations: Any, rank: int, op: str
) -> Tensor:
    """Computes a convolution from TensorFlow's arguments, in either data format.

    Several leading batch axes are merged and split again.

    Args:
      x: the input, with one or more batch axes.
      w: the filter of shape (spatial axes, channels per group, result channels).
      strides, padding, dilations: TensorFlow's arguments, such as 2, "SAME" or a list of pairs, and ``[1, 2]``.
      data_format: such as "NHWC" or "NCHW"; None for the channels last.
      rank: the number of spatial axes.
      op: the name of TensorFlow's op in errors.
    """
    x, w = _checked_operands(x, w, rank, op)
    has_channels_first = is_channels_first(data_format, rank, op)
    batch_rank = x.ndim - rank - 1
    if batch_rank == 1:
        return _convolve_one_batch_axis(x, w, strides, padding, has_channels_first, dilations, op)
    batch = x._type.shape[:batch_rank]
    image_dims = x._type.shape[batch_rank:]
    merged = bind.reshape(x, shape=(size_of(batch), *image_dims))
    y = _convolve_one_batch_axis(merged, w, strides, padding, has_channels_first, dilations, op)
    return bind.reshape(y, shape=(*batch, *y._type.shape[1:]))


def _convolve_one_batch_axis(
    x: Tensor, w: Tensor, strides: Any, padding: Any, has_channels_first: bool, dilations: Any, op: str
) -> Tensor:
    """Convolves an input that has a single batch axis.

    An input with channels first is transposed to channels last, and the result is transposed back.

    Args:
      x: the input.
      w: the filter.
      strides, padding, dilations: TensorFlow's arguments.
      has_channels_first: whether the channels come before the spatial axes.
      op: the name of the op in error messages.
    """
    if has_channels_first:
        x = channels_last(x)
    spatial_sizes = x._type.shape[1:-1]
    attrs = _window_attrs(spatial_sizes, w, strides, padding, dilations, has_channels_first, op)
    y = bind.conv(x, w, groups=_groups(x, w, op), **attrs)
    return channels_first(y) if has_channels_first else y


def _groups(x: Tensor, w: Tensor, op: str) -> int:
    try:
        return group_count(x._type.shape[-1], w._type.shape[-2])
    except ArgumentError as error:
        raise error.for_op(op) from None


def _window_attrs(
    sizes: Any, w: Tensor, strides: Any, padding: Any, dilations: Any, has_channels_first: bool, op: str
) -> dict[str, Any]:
    """Converts TensorFlow's strides, padding and dilations to attributes of ``conv``: an item for each spatial axis.

    Args:
      sizes: the spatial sizes of the input.
      w: the filter.
      strides, padding, dilations: TensorFlow's arguments, which may have an item for every axis.
      has_channels_first: which of such items is that of the channels: the second or the last.
      op: the name of TensorFlow's op in errors.
    """
    rank = len(sizes)
    window = w._type.shape[:-2]
    strides = spatial_steps(strides, rank, has_channels_first, "strides", op)
    dilations = spatial_steps(dilations, rank, has_channels_first, "dilations", op)
    pads = paddings(padding, sizes, window, strides, dilations, has_channels_first, op)
    return {"strides": strides, "padding": pads, "dilations": dilations}


@export("nn.conv1d")
def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes the 1-D convolution of (batch, width, channels) with filters (width, channels / groups, results).

    >>> import tvtf as tf
    >>> tf.nn.conv1d(tf.constant([[[1.], [2.], [3.]]]), tf.constant([[[1.]], [[1.]]]), 1, "VALID").numpy().ravel()
    array([3., 5.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv1d
    """
    return convolve(input, filters, stride, padding, data_format or "NWC", dilations, 1, "Conv1D")


@export("nn.conv2d")
def conv2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes the 2-D convolution (correlation) of images with filters.

    Args:
      input: tensor of shape (batch, height, width, channels), or (batch, channels, height, width) for "NCHW".
      filters: tensor of the same dtype, shape (height, width, channels / groups, results); the number of groups follows
        from the channels.
      strides: int or list of 1, 2 or 4 ints.
      padding: "SAME", "VALID", or a list of four pairs of zeros before and after each axis.
      data_format: "NHWC" or "NCHW".
      dilations: distance of the filter's taps, as strides.

    Returns:
      A tensor of the same dtype and layout with ``results`` channels. 16-bit floats are summed in float32.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the shapes or the arguments don't fit.

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 3, 3, 1)), tf.constant(1., shape=(2, 2, 1, 1))
    >>> tf.nn.conv2d(x, w, 1, "VALID").numpy().ravel()
    array([4., 4., 4., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv2d
    """
    return convolve(input, filters, strides, padding, data_format, dilations, 2, "Conv2D")


@export("nn.conv3d")
def conv3d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes the 3-D convolution of (batch, depth, height, width, channels), filters (depth, height, width, channels, results).

    Arguments as :func:`conv2d`, with three spatial axes and the formats "NDHWC" and "NCDHW".

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 2, 2, 2, 1)), tf.constant(1., shape=(2, 2, 2, 1, 1))
    >>> tf.nn.conv3d(x, w, [1] * 5, "VALID").numpy().ravel()
    array([8.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv3d
    """
    return convolve(input, filters, strides, padding, data_format or "NDHWC", dilations, 3, "Conv3D")


@export("nn.convolution")
def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes a convolution of as many spatial axes as the filters have: 1, 2 or 3; see :func:`conv2d`.

    Args:
      input: tensor of shape (batch, *spatial, channels), or (batch, channels, *spatial) for a format that begins "NC".
      filters: shape (*window, channels / groups, results).
      strides: ints per spatial axis, default 1; not together with dilations above 1.
      padding: "SAME", "VALID" or pairs per axis.
      data_format: None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW".
      dilations: ints per spatial axis, default 1.

    Raises:
      ValueError: strides and dilations are both above 1, or the filters' rank is not 3, 4 or 5.

    >>> import tvtf as tf
    >>> tf.nn.convolution(tf.constant([[[1.], [2.]]]), tf.constant([[[3.]]])).numpy().ravel()
    array([3., 6.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/convolution
    """
    w = convert_to_tensor(filters)
    rank = w.ndim - 2
    if rank not in (1, 2, 3):
        raise ValueError(f"`num_spatial_dims` must be 1, 2, or 3. Received: num_spatial_dims={rank}.")
    has_channels_first = data_format is not None and data_format.startswith("NC")
    strides = spatial_steps(strides, rank, has_channels_first, "strides", "Convolution")
    dilations = spatial_steps(dilations, rank, has_channels_first, "dilations", "Convolution")
    if max(strides) > 1 and max(dilations) > 1:
        raise ValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
            f"Received: strides={list(strides)} and dilation_rate={list(dilations)}"
        )
    return convolve(input, w, strides, padding, data_format, dilations, rank, f"Conv{rank}D")


@export("nn.atrous_conv2d")
def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Tensor:
    """Computes the dilated convolution: :func:`conv2d` with stride 1 and dilation ``rate``.

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 3, 3, 1)), tf.constant(1., shape=(2, 2, 1, 1))
    >>> tf.nn.atrous_conv2d(x, w, 2, "VALID").numpy().ravel()
    array([4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/atrous_conv2d
    """
    return convolve(value, filters, 1, padding, "NHWC", rate, 2, "Conv2D")


@export("nn.depthwise_conv2d")
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolves each channel with its own filters.

    Args:
      input: floating tensor of shape (batch, height, width, channels), or channels second for "NCHW".
      filter: shape (height, width, channels, multiplier).
      strides: list of four ints, as for :func:`conv2d`.
      padding: as for :func:`conv2d`.
      data_format: "NHWC" (default) or "NCHW".
      dilations: int or ints per spatial axis.

    Returns:
      A tensor with ``channels * multiplier`` channels.

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 2, 2, 2)), tf.constant(1., shape=(2, 2, 2, 1))
    >>> tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID").numpy().ravel()
    array([4., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/depthwise_conv2d
    """
    op = "DepthwiseConv2dNative"
    has_channels_first = is_channels_first(data_format, 2, op)
    _check_depthwise(strides, has_channels_first)
    x, w = _checked_operands(input, filter, 2, op)
    *window, channels, multiplier = w._type.shape
    depth = x._type.shape[1 if has_channels_first else -1]
    if not agree_dim(depth, channels):
        raise ArgumentError(
            f"input depth must be evenly divisible by filter depth: {depth} vs {channels}",
            graph=ValueError,
            traced=f"Dimensions must be equal, but are {depth} and {channels} for {{op}}: the channels of input and filter",
        ).for_op(op)
    grouped_filter = bind.reshape(w, shape=(*window, 1, channels * multiplier))  # of as many groups as channels
    return _convolve_one_batch_axis(x, grouped_filter, strides, padding, has_channels_first, dilations, op)


def _check_depthwise(strides: Any, has_channels_first: bool) -> None:
    """Checks that there are four strides, of which those of batch and channels are 1."""
    sizes = attribute_ints(strides, "strides", "depthwise_conv2d_native")
    if len(sizes) != 4:
        raise ArgumentError("Sliding window strides field must specify 4 dimensions")
    if sizes[0] != 1 or sizes[1 if has_channels_first else 3] != 1:
        raise ArgumentError("Current implementation does not yet support strides in the batch and depth dimensions.")


@export("nn.separable_conv2d")
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes :func:`depthwise_conv2d`, then a convolution that combines the channels of each position.

    ``depthwise_filter`` has shape (height, width, channels, multiplier), ``pointwise_filter``
    (1, 1, channels * multiplier, results); the other arguments are those of :func:`depthwise_conv2d`.

    Raises:
      ValueError: the window of the pointwise filter is not 1 by 1.

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 2, 2, 2)), tf.constant(1., shape=(2, 2, 2, 1))
    >>> tf.nn.separable_conv2d(x, w, tf.constant(1., shape=(1, 1, 2, 1)), [1] * 4, "VALID").numpy().ravel()
    array([8.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/separable_conv2d
    """
    mixing = convert_to_tensor(pointwise_filter)
    if mixing.ndim == 4 and not is_static_shape(mixing._type.shape):
        raise unknown_size(
            ValueError(f"separable_conv2d: pointwise_filter must have a known shape, but got {mixing.shape}")
        )
    if mixing.ndim != 4 or not agree_shape(mixing._type.shape[:2], (1, 1)):
        raise ValueError(
            f"separable_conv2d: pointwise_filter must have shape (1, 1, channels, results), but got {mixing.shape}"
        )
    y = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(y, mixing, 1, "VALID", data_format or "NHWC")
