"""TensorFlow's pooling functions: their arguments brought into the form of the pooling primitives."""

from __future__ import annotations

from typing import Any

from tvtf.ops.rules import bind
from tvtf.ops.windows import channels_first, channels_last, is_channels_first, paddings, spatial_steps
from tvtf.primitive import export
from tvtf.refusal import Refused
from tvtf.shape import show_shape
from tvtf.tensor import Tensor, convert_to_tensor


def pooled(
    primitive: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, rank: int, op: str
) -> Tensor:
    """Pooling over ``rank`` spatial axes in either data format, as TensorFlow's op ``op``."""
    first = is_channels_first(data_format, rank, op)
    x = convert_to_tensor(value)
    if x.ndim != rank + 2:
        raise Refused(
            f"Input must be {rank + 2}-dimensional, but got shape {show_shape(x._type.shape)}",
            ValueError,
            f"Shape must be rank {rank + 2} but is rank {x.ndim} for {{op}} with input shape {show_shape(x._type.shape)}",
        ).told_by(op)
    x = channels_last(x) if first else x
    window = spatial_steps(ksize, rank, first, "ksize", op)
    hops = spatial_steps(strides, rank, first, "strides", op)
    pads = paddings(padding, x._type.shape[1:-1], window, hops, (1,) * rank, first, op)
    y = getattr(bind, primitive)(x, window=window, strides=hops, padding=pads)
    return channels_first(y) if first else y


@export("nn.max_pool2d")
def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The largest value in each window of images.

    Args:
      input: real tensor of shape (batch, height, width, channels), or (batch, channels, height, width) for "NCHW".
      ksize: window size, int or list of 1, 2 or 4 ints.
      strides: steps of the window, as ksize.
      padding: "SAME", "VALID", or a list of four pairs; padding never wins, NaN always does.
      data_format: "NHWC" or "NCHW".

    Returns:
      A tensor of the same dtype and layout. Of equal values the first gets the gradient.

    Raises:
      InvalidArgumentError: (ValueError while tracing) when shapes or arguments don't fit.

    >>> import tvtf as tf
    >>> tf.nn.max_pool2d(tf.constant([[[[1.], [4.]], [[3.], [2.]]]]), 2, 2, "VALID").numpy().ravel()
    array([4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/max_pool2d
    """
    return pooled("max_pool", input, ksize, strides, padding, data_format, 2, "MaxPool")


@export("nn.avg_pool2d")
def avg_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The mean of each window of images, padding left out; arguments as :func:`max_pool2d`, floating dtypes.

    >>> import tvtf as tf
    >>> tf.nn.avg_pool2d(tf.constant([[[[1.], [4.]], [[3.], [2.]]]]), 2, 2, "VALID").numpy().ravel()
    array([2.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/avg_pool2d
    """
    return pooled("avg_pool", input, ksize, strides, padding, data_format, 2, "AvgPool")
