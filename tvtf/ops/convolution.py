"""TensorFlow's convolutions: their arguments brought into the form of the ``conv`` primitives."""

from __future__ import annotations

from typing import Any

from tvtf.ops.conv import group_count
from tvtf.ops.rules import bind
from tvtf.ops.windows import Padding, channels_first, channels_last, is_channels_first, paddings, spatial_steps
from tvtf.primitive import export
from tvtf.refusal import Refused
from tvtf.shape import show_shape
from tvtf.tensor import Tensor, convert_to_tensor


def _checked_operands(x: Any, w: Any, rank: int, op: str) -> tuple[Tensor, Tensor]:
    x = convert_to_tensor(x)
    w = convert_to_tensor(w, dtype_hint=x.dtype)
    for value, name in ((x, "input"), (w, "filter")):
        if value.ndim != rank + 2:
            raise Refused(
                f"{name} must be {rank + 2}-dimensional, but got shape {show_shape(value._type.shape)}",
                ValueError,
                f"Shape must be rank {rank + 2} but is rank {value.ndim} for {{op}}: {name} has shape "
                f"{show_shape(value._type.shape)}",
            ).told_by(op)
    return x, w


def convolve(
    x: Any, w: Any, strides: Any, padding: Any, data_format: str | None, dilations: Any, rank: int, op: str
) -> Tensor:
    """A convolution of ``rank`` spatial axes in either data format, as TensorFlow's op ``op``."""
    first = is_channels_first(data_format, rank, op)
    x, w = _checked_operands(x, w, rank, op)
    x = channels_last(x) if first else x
    attrs = _window_attrs(x._type.shape[1:-1], w, strides, padding, dilations, first, op)
    try:
        groups = group_count(x._type.shape[-1], w._type.shape[-2])
    except Refused as refusal:
        raise refusal.told_by(op) from None
    y = bind.conv(x, w, groups=groups, **attrs)
    return channels_first(y) if first else y


def _window_attrs(
    sizes: Any, w: Tensor, strides: Any, padding: Any, dilations: Any, first: bool, op: str
) -> dict[str, Any]:
    rank, window = len(sizes), w._type.shape[:-2]
    steps = spatial_steps(strides, rank, first, "strides", op)
    holes = spatial_steps(dilations, rank, first, "dilations", op)
    pads: Padding = paddings(padding, sizes, window, steps, holes, first, op)
    return {"strides": steps, "padding": pads, "dilations": holes}


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
    """2-D convolution (correlation) of images with filters.

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
      InvalidArgumentError: (ValueError while tracing) when shapes or arguments don't fit.

    >>> import tvtf as tf
    >>> tf.nn.conv2d(tf.constant(1., shape=(1, 3, 3, 1)), tf.constant(1., shape=(2, 2, 1, 1)), 1, "VALID").numpy().ravel()
    array([4., 4., 4., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/conv2d
    """
    return convolve(input, filters, strides, padding, data_format, dilations, 2, "Conv2D")
