"""TensorFlow's pooling functions, which convert their arguments for the pooling primitives."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import REAL, bfloat16, float16, float32
from tvtf.ops.cast import defaulted
from tvtf.ops.rules import bind, number, require_dtype
from tvtf.ops.windows import channels_first, channels_last, is_channels_first, paddings, result_sizes, spatial_steps


def pooled(
    primitive: str, value: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, rank: int, op: str
) -> Tensor:
    """Computes a pooling op of TensorFlow by the primitive named ``primitive``, which needs the channels last.

    ``rank`` is the number of spatial axes. ``op`` is the name of TensorFlow's op in errors.
    """
    has_channels_first = is_channels_first(data_format, rank, op)
    if op == "MaxPool" and rank == 2 and isinstance(value, np.ndarray):
        # TensorFlow's max_pool2d converts NumPy arrays of other dtypes to float32, in traces only those that it hasn't
        x = defaulted(value, (float32,), float32, REAL)
    else:
        x = convert_to_tensor(value)
    if op == "MaxPool3D":
        require_dtype(x._type, (float16, bfloat16, float32), "input")
    if x.ndim != rank + 2:
        raise ArgumentError(
            f"Input must be {rank + 2}-dimensional, but got shape {show_shape(x._type.shape)}",
            ValueError,
            f"Shape must be rank {rank + 2} but is rank {x.ndim} for {{op}} with input {show_shape(x._type.shape)}",
        ).for_op(op)
    x = channels_last(x) if has_channels_first else x
    window = spatial_steps(ksize, rank, has_channels_first, "ksize", op)
    stride_sizes = spatial_steps(strides, rank, has_channels_first, "strides", op)
    pads = paddings(padding, x._type.shape[1:-1], window, stride_sizes, (1,) * rank, has_channels_first, op)
    result = getattr(bind, primitive)(x, window=window, strides=stride_sizes, padding=pads)
    return channels_first(result) if has_channels_first else result


@export("nn.max_pool2d")
def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Returns the largest value in each window of images.

    Args:
      input: real tensor of shape (batch, height, width, channels), or (batch, channels, height, width) for "NCHW".
      ksize: window size, int or list of 1, 2 or 4 ints.
      strides: steps of the window, as ksize.
      padding: "SAME", "VALID", or a list of four pairs. Padding is never the largest value, NaN always is.
      data_format: "NHWC" or "NCHW".

    Returns:
      A tensor of the same dtype and layout. If values are equal, the first one receives the gradient.

    Raises:
      InvalidArgumentError: (ValueError while tracing) shapes or arguments don't fit.

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
    """Returns the mean of each window of floating images, without padding. Arguments are those of :func:`max_pool2d`.

    >>> import tvtf as tf
    >>> tf.nn.avg_pool2d(tf.constant([[[[1.], [4.]], [[3.], [2.]]]]), 2, 2, "VALID").numpy().ravel()
    array([2.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/avg_pool2d
    """
    return pooled("avg_pool", input, ksize, strides, padding, data_format, 2, "AvgPool")


def _spatial_rank(value: Tensor) -> int:
    """Returns the number of spatial axes, from the input's rank."""
    if value.ndim not in (3, 4, 5):
        raise ValueError(
            f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={value.shape} of rank {value.ndim}."
        )
    return value.ndim - 2


def _tf_op_name(prefix: str, rank: int) -> str:
    """Returns the name of TensorFlow's pooling op: ``prefix`` is "Max" or "Avg", and 3-D ops are named apart."""
    return f"{prefix}Pool{'3D' if rank == 3 else ''}"


@export("nn.max_pool")
def max_pool(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Returns the largest value in each window over 1, 2 or 3 spatial axes, by the input's rank; see :func:`max_pool2d`.

    Raises:
      ValueError: the input's rank is not 3, 4 or 5.

    >>> import tvtf as tf
    >>> tf.nn.max_pool(tf.constant([[[1.], [3.], [2.]]]), 2, 1, "VALID").numpy().ravel()
    array([3., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/max_pool
    """
    x = convert_to_tensor(input)
    rank = _spatial_rank(x)
    return pooled(
        "max_pool", input if rank == 2 else x, ksize, strides, padding, data_format, rank, _tf_op_name("Max", rank)
    )


@export("nn.avg_pool")
def avg_pool(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Returns the mean of each window over 1, 2 or 3 spatial axes, by the input's rank; see :func:`avg_pool2d`.

    Raises:
      ValueError: the input's rank is not 3, 4 or 5.

    >>> import tvtf as tf
    >>> tf.nn.avg_pool(tf.constant([[[1.], [3.], [2.]]]), 2, 1, "VALID").numpy().ravel()
    array([2. , 2.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/avg_pool
    """
    x = convert_to_tensor(input)
    rank = _spatial_rank(x)
    return pooled("avg_pool", x, ksize, strides, padding, data_format, rank, _tf_op_name("Avg", rank))


@export("nn.max_pool1d")
def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Returns the largest value in each window along the width axis. The arguments are those of :func:`max_pool2d`.

    The input has shape (batch, width, channels), or (batch, channels, width) for "NCW".

    >>> import tvtf as tf
    >>> tf.nn.max_pool1d(tf.constant([[[1.], [3.], [2.]]]), 2, 1, "VALID").numpy().ravel()
    array([3., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/max_pool1d
    """
    return pooled("max_pool", input, ksize, strides, padding, data_format, 1, "MaxPool")


@export("nn.avg_pool1d")
def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Returns the mean of each window along the width axis. The arguments are those of :func:`avg_pool2d`.

    The input has shape (batch, width, channels), or (batch, channels, width) for "NCW".

    >>> import tvtf as tf
    >>> tf.nn.avg_pool1d(tf.constant([[[1.], [3.], [2.]]]), 2, 1, "VALID").numpy().ravel()
    array([2. , 2.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/avg_pool1d
    """
    return pooled("avg_pool", input, ksize, strides, padding, data_format, 1, "AvgPool")


@export("nn.max_pool3d")
def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Returns the largest value in each 3-D window. The arguments are those of :func:`max_pool2d`.

    The input has shape (batch, depth, height, width, channels), or has the channels second for "NCDHW".

    >>> import tvtf as tf
    >>> tf.nn.max_pool3d(tf.constant(2., shape=(1, 2, 2, 2, 1)), 2, 2, "VALID").numpy().ravel()
    array([2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/max_pool3d
    """
    return pooled("max_pool", input, ksize, strides, padding, data_format, 3, "MaxPool3D")


@export("nn.avg_pool3d")
def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Returns the mean of each 3-D window. The arguments are those of :func:`avg_pool2d`.

    The input has shape (batch, depth, height, width, channels), or has the channels second for "NCDHW".

    >>> import tvtf as tf
    >>> tf.nn.avg_pool3d(tf.constant(2., shape=(1, 2, 2, 2, 1)), 2, 2, "VALID").numpy().ravel()
    array([2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/avg_pool3d
    """
    return pooled("avg_pool", input, ksize, strides, padding, data_format, 3, "AvgPool3D")


@export("nn.pool")
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes max or average pooling of 1, 2 or 3 spatial axes.

    Args:
      input: tensor of shape (batch, *spatial, channels), or channels second for a format that begins "NC".
      window_shape: ints, one per spatial axis.
      pooling_type: "MAX" or "AVG".
      strides: ints, default 1; not together with dilations above 1.
      padding: "SAME", "VALID" or pairs per axis.
      data_format: None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW".
      dilations: distance of the window's elements, default 1; above 1 only with "VALID".

    Raises:
      ValueError: the pooling type is not supported, or dilations above 1 are combined with strides or padding.

    >>> import tvtf as tf
    >>> tf.nn.pool(tf.constant([[[1.], [3.], [2.]]]), [2], "MAX").numpy().ravel()
    array([3., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/pool
    """
    x = convert_to_tensor(input)
    rank = _spatial_rank(x)
    has_channels_first = data_format is not None and data_format.startswith("NC")
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"{rank}-D {pooling_type} pooling is not supported.")
    stride_sizes = spatial_steps(strides, rank, has_channels_first, "strides", "Pool")
    dilation_sizes = spatial_steps(dilations, rank, has_channels_first, "dilations", "Pool")
    if max(dilation_sizes) == 1:
        op = _tf_op_name(pooling_type.capitalize(), rank)
        return pooled(f"{pooling_type.lower()}_pool", x, window_shape, stride_sizes, padding, data_format, rank, op)
    if max(stride_sizes) > 1:
        raise ValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
            f"Received: strides={list(stride_sizes)} and dilation_rate={list(dilation_sizes)}"
        )
    if padding != "VALID":
        raise ValueError(
            "pooling with 'SAME' padding is not implemented for `dilation_rate` > 1. "
            f"Received: padding={padding} and dilation_rate={list(dilation_sizes)}"
        )
    window = spatial_steps(window_shape, rank, has_channels_first, "ksize", "Pool")
    result = _dilated_pool(channels_last(x) if has_channels_first else x, pooling_type, window, dilation_sizes)
    return channels_first(result) if has_channels_first else result


def _dilated_pool(x: Tensor, pooling_type: str, window: tuple[int, ...], dilations: tuple[int, ...]) -> Tensor:
    """Computes max or average pooling with dilated windows and strides of 1.

    For each tap (a tap: a position in the window), a shifted view of ``x`` has the elements of all windows at the tap.
    The result is the maximum or mean of these views.

    Args:
      x: input of shape (batch, spatial axes, channels).
      pooling_type: "MAX" or "AVG".
      window: the windows' size along each spatial axis.
      dilations: the distance between the values of a window along each spatial axis.
    """
    rank = len(dilations)
    strides = (1,) * rank
    no_padding = ((0, 0),) * rank
    counts = result_sizes(x._type.shape[1:-1], window, strides, no_padding, dilations)
    views = []
    for tap in itertools.product(*map(range, window)):
        slices = [slice(None)]  # of the batch axis
        for tap_index, dilation, count in zip(tap, dilations, counts):
            start = tap_index * dilation
            slices.append(slice(start, start + count))
        views.append(x[tuple(slices)])  # type: ignore[index]
    if pooling_type == "MAX":
        return reduce(bind.maximum, views)
    total = reduce(bind.add, views)
    return bind.multiply(total, number(1 / len(views), total))
