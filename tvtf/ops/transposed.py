"""Transposed convolutions: the gradient of a convolution by its input, as ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, show_shape
from tvtf.core.tensor import Tensor
from tvtf.ops.conv import group_count
from tvtf.ops.operands import operands
from tvtf.ops.rules import bind, static_dims
from tvtf.ops.windows import channels_first, channels_last, is_channels_first, paddings, spatial_steps


def _checked(x: Any, filters: Any, rank: int, op: str) -> tuple[Tensor, Tensor]:
    """Converts the input and the filter of a transposed convolution to tensors, and checks their ranks.

    Both have ``rank`` spatial axes and two others. ``op`` is the name of TensorFlow's op in errors.
    """
    filters, x = operands(filters, x)  # in the order of the op that TensorFlow calls
    for tensor, name in ((x, "input"), (filters, "filter")):
        if tensor.ndim != rank + 2:
            raise ArgumentError(
                f"{name} must be {rank + 2}-dimensional, but got {show_shape(tensor._type.shape)}"
            ).for_op(op)
    return x, filters


def _result_shape(
    shape: tuple[Dim, ...], x: Tensor, filters: Tensor, has_channels_first: bool, op: str
) -> tuple[Dim, ...]:
    """Returns the shape of a transposed convolution's result, with channels last.

    Args:
      shape: the argument ``output_shape``. If it has spatial sizes only, batch and channels are inferred.
      x, filters: the input, with channels last, and the filter.
      has_channels_first: whether ``shape`` has the channels before the spatial axes.
      op: the name of TensorFlow's op in errors.
    """
    rank = x.ndim - 2
    if len(shape) == rank:
        return (x._type.shape[0], *shape, filters._type.shape[-2])
    if len(shape) != rank + 2:
        raise ValueError(f"{op}: output_shape must have {rank} or {rank + 2} dims, but got {show_shape(shape)}")
    if not has_channels_first:
        return tuple(shape)
    batch, channels, *spatial_sizes = shape
    return (batch, *spatial_sizes, channels)


def _sizes(output_shape: Any) -> tuple[Any, ...]:
    """Returns the dims of the argument ``output_shape``. As an attribute of int32, it may be a NumPy array of floats."""
    is_floating = isinstance(output_shape, np.ndarray) and output_shape.dtype.kind == "f"
    return static_dims(output_shape.astype(np.int32) if is_floating else output_shape, "output_shape")


def transposed(
    x: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
    rank: int,
) -> Tensor:
    """Computes a transposed convolution over ``rank`` spatial axes in either data format."""
    op = f"Conv{rank}DTranspose"
    has_channels_first = is_channels_first(data_format, rank, op)
    x, filters = _checked(x, filters, rank, op)
    x = channels_last(x) if has_channels_first else x
    shape = _result_shape(_sizes(output_shape), x, filters, has_channels_first, op)
    stride_sizes = spatial_steps(strides, rank, has_channels_first, "strides", op)
    dilation_sizes = spatial_steps(dilations, rank, has_channels_first, "dilations", op)
    padding_pairs = paddings(
        padding, shape[1:-1], filters._type.shape[:-2], stride_sizes, dilation_sizes, has_channels_first, op
    )
    try:
        groups = group_count(shape[-1], filters._type.shape[-2])
    except ArgumentError as error:
        raise error.for_op(op) from None
    result = bind.conv_input_grad(
        x, filters, shape=shape, strides=stride_sizes, padding=padding_pairs, dilations=dilation_sizes, groups=groups
    )
    return channels_first(result) if has_channels_first else result


@export("nn.conv2d_transpose")
def conv2d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns the transpose of :func:`conv2d`, also called deconvolution: each value adds a scaled filter to the result.

    Args:
      input: floating tensor of shape (batch, height, width, channels), or channels second for "NCHW".
      filters: tensor of the same dtype, shape (height, width, results, channels).
      output_shape: the result's shape, or its height and width.
      strides: distance of the filters in the result, int or list of 1, 2 or 4 ints.
      padding: "SAME", "VALID" or pairs per axis: what the convolution from the result to the input would use.
      data_format: "NHWC" or "NCHW".
      dilations: distance of the filter's taps, as strides.

    Returns:
      A tensor of ``output_shape`` and the input's dtype.

    Raises:
      InvalidArgumentError: (ValueError while tracing) a convolution of ``output_shape`` does not give the input's
        shape.

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 1, 1, 1)), tf.constant([[[[1.]], [[2.]]], [[[3.]], [[4.]]]])
    >>> tf.nn.conv2d_transpose(x, w, [1, 2, 2, 1], 2).numpy().ravel()
    array([1., 2., 3., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv2d_transpose
    """
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, 2)


@export("nn.conv1d_transpose")
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns the transpose of 1-D convolution: filters of shape (width, results, channels); see :func:`conv2d_transpose`.

    >>> import tvtf as tf
    >>> tf.nn.conv1d_transpose(tf.constant([[[1.]]]), tf.constant([[[1.]], [[2.]]]), [1, 2, 1], 2).numpy().ravel()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv1d_transpose
    """
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, 1)


@export("nn.conv3d_transpose")
def conv3d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns the transpose of 3-D convolution: filters (depth, height, width, results, channels);
    see :func:`conv2d_transpose`.

    >>> import tvtf as tf
    >>> x, w = tf.constant(2., shape=(1, 1, 1, 1, 1)), tf.constant(1., shape=(1, 1, 2, 1, 1))
    >>> tf.nn.conv3d_transpose(x, w, [1, 1, 1, 2, 1], [1, 1, 2]).numpy().ravel()
    array([2., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv3d_transpose
    """
    return transposed(input, filters, output_shape, strides, padding, data_format, dilations, 3)


@export("nn.conv_transpose")
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns the transposed convolution of 1, 2 or 3 spatial axes, by the length of ``output_shape``.

    Raises:
      ValueError: the number of dims in ``output_shape`` is not 3, 4 or 5.

    >>> import tvtf as tf
    >>> tf.nn.conv_transpose(tf.constant([[[1.]]]), tf.constant([[[1.]], [[2.]]]), [1, 2, 1], 2).numpy().ravel()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv_transpose
    """
    shape = _sizes(output_shape)
    if len(shape) not in (3, 4, 5):
        raise ValueError(
            f"`output_shape` must be of length 3, 4 or 5. Received: output_shape={output_shape} of length {len(shape)}."
        )
    return transposed(input, filters, shape, strides, padding, data_format, dilations, len(shape) - 2)


@export("nn.atrous_conv2d_transpose")
def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: Any, name: str | None = None
) -> Tensor:
    """Returns the transpose of :func:`atrous_conv2d`: filters of shape (height, width, results, channels), taps ``rate`` apart.

    >>> import tvtf as tf
    >>> x, w = tf.constant(1., shape=(1, 1, 1, 1)), tf.constant(1., shape=(1, 2, 1, 1))
    >>> tf.nn.atrous_conv2d_transpose(x, w, [1, 1, 3, 1], 2, "VALID").numpy().ravel()
    array([1., 0., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/atrous_conv2d_transpose
    """
    return transposed(value, filters, output_shape, 1, padding, "NHWC", rate, 2)
