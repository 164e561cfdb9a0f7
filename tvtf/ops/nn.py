"""bias_add."""

from __future__ import annotations

from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets
from tvtf.core.tensor import Tensor
from tvtf.dtypes import NUMERIC
from tvtf.ops.operands import operands
from tvtf.ops.rules import bind, draw, require_dtype, require_same_dtype, scalar, stretch


def _bias_type(x: TensorType, bias: TensorType) -> TensorType:
    """Checks a numeric tensor and a bias vector of its dtype, as long as its last axis."""
    require_same_dtype((x, bias), ("value", "bias"))
    require_dtype(x, NUMERIC, "value")
    check_bias(x, bias, len(x.shape) - 1)
    return x


def check_bias(x: TensorType, bias: TensorType, axis: int) -> None:
    """Checks that a bias is a vector as long as the axis ``axis`` of ``x``, which has the channels.

    The errors are TensorFlow's for eager calls and for graphs.
    """
    shapes = f"{brackets(x.shape)}, {brackets(bias.shape)}"
    if len(x.shape) < 2:
        raise ArgumentError(
            f"Input tensor must be at least 2D: {brackets(x.shape)}",
            ValueError,
            f"Shape must be at least rank 2 but is rank {len(x.shape)} for {{op}} with input shapes: {shapes}.",
        )
    if len(bias.shape) != 1:
        raise ArgumentError(
            f"Biases must be 1D: {brackets(bias.shape)}",
            ValueError,
            f"Shape must be rank 1 but is rank {len(bias.shape)} for {{op}} with input shapes: {shapes}.",
        )
    if not agree_dim(x.shape[axis], bias.shape[0]):
        axis_text = "last" if axis == len(x.shape) - 1 else "channel"
        raise ArgumentError(
            f"Must provide as many biases as the {axis_text} dimension of the input tensor: "
            f"{brackets(bias.shape)} vs. {brackets(x.shape)}", ValueError,
            f"Dimensions must be equal, but are {x.shape[axis]} and {bias.shape[0]} for {{op}} with input shapes: "
            f"{shapes}.",
        )  # fmt: skip


def _bias_vjp(cotangent: Tensor, y: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``x`` and of the bias, which is summed over all axes but the channels."""
    return cotangent, bind.reduce_sum(cotangent, axis=tuple(range(cotangent.ndim - 1)), keepdims=False)


def _bias_batch(size: Dim, inputs: Any, batched: Any) -> Tensor:
    """Maps ``bias_add`` over a leading batch axis of ``size`` items (the batch rule for ``vectorized_map``).

    The primitive accepts one bias only. If each item has its own bias, the biases are added elementwise.
    """
    x, bias = inputs
    x_batched, bias_batched = batched
    if not bias_batched:
        return bind.bias_add(x, bias)
    x = stretch(size, x, x_batched)
    _, channels = bias._type.shape
    aligned_bias = bind.reshape(bias, shape=(size, *(1,) * (x.ndim - 2), channels))
    return bind.add(x, aligned_bias)


@primitive(
    name="bias_add",
    type=_bias_type,
    numpy=lambda x, bias: x + bias,
    lower=scalar(lambda t, x, bias: x + bias),
    vjp=_bias_vjp,
    batch=_bias_batch,
    onnx="Add",
    samples=lambda: [
        Sample((draw(0, (2, 3)), draw(1, (3,))), {}, NUMERIC, symbolic=(("n", None), (None,))),
        Sample((draw(2, (2, 2, 1, 4)), draw(3, (4,))), {}, NUMERIC),
        Sample((draw(4, (0, 3)), draw(5, (3,))), {}, NUMERIC),
    ],
)
def _bias_add(value: Tensor, bias: Tensor) -> Any:
    """Adds ``bias`` (channels,) to ``value`` (..., channels)."""
    return (value, bias), {}


@export("nn.bias_add")
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Adds a vector along the channels.

    Args:
      value: numeric tensor of rank at least 2.
      bias: vector of the same dtype, as long as the channel axis.
      data_format: "N...C" (default) or "NC...": where the channels are.

    Returns:
      A tensor of value's dtype and shape.

    Raises:
      ValueError: the data format is not supported.
      InvalidArgumentError: (ValueError while tracing) the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.nn.bias_add([[1, 2]], [10, 20]).numpy()
    array([[11, 22]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/bias_add
    """
    if data_format is not None and not data_format.startswith(("NC", "N")):
        raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: data_format={data_format}")
    x, bias_tensor = operands(value, bias)
    if data_format is None or not data_format.startswith("NC"):
        return bind.bias_add(x, bias_tensor)
    return _bias_add_channels_first(x, bias_tensor)


def _bias_add_channels_first(x: Tensor, bias: Tensor) -> Tensor:
    """Adds a bias along the second axis of ``x``, which has the channels in data formats such as "NCHW"."""
    try:
        require_same_dtype((x._type, bias._type), ("value", "bias"))
        check_bias(x._type, bias._type, 1)
    except ArgumentError as error:
        raise error.for_op("BiasAdd") from None
    (channels,) = bias._type.shape
    spatial_rank = x.ndim - 2
    aligned_bias = bind.reshape(bias, shape=(channels, *(1,) * spatial_rank))
    return bind.add(x, aligned_bias)
