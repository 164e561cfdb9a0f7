"""Fake quantization with straight-through gradients, and gradients of depthwise convolutions as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.argument_error import ArgumentValueError
from tvtf.core.primitive import export, public_names
from tvtf.core.tensor import Tensor, convert_to_tensor, static_value
from tvtf.dtypes import FLOATING, float32, int32
from tvtf.frontend.gradient.custom_gradient import custom_gradient
from tvtf.frontend.gradient.tape import GradientTape
from tvtf.ops.cast import cast
from tvtf.ops.compare import where
from tvtf.ops.conv_api import depthwise_conv2d
from tvtf.ops.create import zeros
from tvtf.ops.operands import attributes, operand, operands, word_of
from tvtf.ops.rules import bind, require_dtype, require_same_dtype


def _limits(x: Tensor, low: Any, high: Any, range_given: bool, axis: int) -> tuple[Tensor, Tensor]:
    """Returns the lower and the upper limit of the range to quantize, in shapes that broadcast to ``x``.

    If a range is given, the limits are ``low`` and ``high``. Otherwise they are the smallest and the largest number of
    each slice of ``x`` along ``axis``. A negative ``axis`` means one range for all numbers.
    """
    if not range_given:
        reduced_axes = tuple(i for i in range(x.ndim) if i != axis)  # all axes if `axis` is negative
        low = bind.reduce_min(x, axis=reduced_axes, keepdims=True)
        high = bind.reduce_max(x, axis=reduced_axes, keepdims=True)
        return low, high
    broadcastable = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    return bind.reshape(low, shape=broadcastable), bind.reshape(high, shape=broadcastable)


def _rounded_to_steps(
    x: Tensor, low: Tensor, high: Tensor, signed: bool, num_bits: int, narrow: bool, clips: bool, half_up: bool
) -> Tensor:
    """Quantizes numbers and converts them back: rounds them to multiples of a step size.

    The step is the smallest for which integers of ``num_bits`` bits cover the range from ``low`` to ``high``.

    Args:
      x: the numbers.
      low, high: the range.
      signed: whether the integers have a sign.
      num_bits: the number of bits of the integers.
      narrow: whether the smallest integer is left unused.
      clips: whether numbers beyond the range become the outermost multiples.
      half_up: whether to round halves up, else to even.

    Source: tensorflow/core/kernels/quantize_and_dequantize_op.h
    """
    max_integer = 2 ** (num_bits - 1) - 1 if signed else 2**num_bits - 1
    min_integer = 0
    if signed:
        min_integer = -max_integer if narrow else -max_integer - 1
    # A limit that is zero, or has another sign than its integer, doesn't bound the scale.
    max_float = float(x.dtype.max)
    scale_for_low = where(min_integer * low > 0, min_integer / low, max_float)
    scale_for_high = where(max_integer * high > 0, max_integer / high, max_float)
    is_bound_by_low = scale_for_low < scale_for_high
    scale = where(is_bound_by_low, scale_for_low, scale_for_high)
    step = where(is_bound_by_low, low / min_integer if min_integer else low, high / max_integer)
    if clips:
        x = bind.maximum(x, where(is_bound_by_low, low, min_integer * step))
        x = bind.minimum(x, where(is_bound_by_low, max_integer * step, high))
    scaled = x * scale
    rounded = bind.floor(scaled + 0.5) if half_up else public_names()["round"](scaled)
    return rounded * step  # type: ignore[no-any-return]


def _check_range(low: Any, high: Any) -> None:
    """Raises an error if both limits are known while tracing and the lower limit is above the upper limit."""
    least = static_value(convert_to_tensor(low, dtype_hint=float32))
    most = static_value(convert_to_tensor(high, dtype_hint=float32))
    if least is not None and most is not None and not (least <= most).all():
        raise ArgumentValueError(f"Invalid range: input_min {least} > input_max {most}")


def _quantized(
    input: Any,
    low: Any,
    high: Any,
    signed: bool,
    num_bits: int,
    range_given: bool,
    round_mode: str,
    narrow: bool,
    axis: int | None,
    passes_all: bool,
) -> Tensor:
    """Quantizes numbers to integers of ``num_bits`` bits and back, with a straight-through gradient.

    If ``passes_all`` is true, the gradient passes through for all numbers, else only for numbers in the range. The
    other arguments are those of :func:`quantize_and_dequantize_v2`.
    """
    x, low, high = operands(input, low, high)
    require_same_dtype([tensor._type for tensor in (x, low, high)], ("input", "input_min", "input_max"))
    if not 0 < num_bits < (62 if signed else 63):
        raise ArgumentValueError(f"num_bits is out of range: {num_bits} with signed_input_ {int(signed)}")
    if range_given:
        _check_range(low, high)
    slice_axis = -1 if axis is None else axis % x.ndim

    @custom_gradient
    def compute(x: Tensor) -> tuple[Tensor, Any]:
        """Rounds to the quantized values, and returns them and the gradient function."""
        limits = _limits(x, low, high, range_given, slice_axis)
        rounded = _rounded_to_steps(x, *limits, signed, num_bits, narrow, range_given, round_mode == "HALF_UP")

        def gradient(cotangent: Tensor) -> Tensor:
            """Returns the cotangent of ``x``: the result's for numbers in the range, 0 for others unless ``passes_all``."""
            if passes_all:
                return cotangent
            range_min, range_max = _limits(x, low, high, True, slice_axis)
            within = public_names()["logical_and"](x >= range_min, x <= range_max)
            return cotangent * cast(within, cotangent.dtype)  # type: ignore[no-any-return]

        return rounded, gradient

    return compute(x)  # type: ignore[no-any-return]


QUANTIZER = attributes(signed_input=bool, num_bits=int, range_given=bool, narrow_range=bool)
"""Converts the quantizers' arguments that are attributes in TensorFlow."""


@export("quantization.quantize_and_dequantize_v2")
@QUANTIZER
@attributes(round_mode=word_of("HALF_TO_EVEN", "HALF_UP"))
def quantize_and_dequantize_v2(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Quantizes numbers to integers of few bits and back.

    Args:
      input: floating tensor.
      input_min, input_max: the range; scalars, or vectors of one for each slice along ``axis``.
      signed_input: whether the integers have a sign.
      num_bits: how many bits they have.
      range_given: whether to use the given range; otherwise it is the range of the numbers.
      round_mode: "HALF_TO_EVEN" or "HALF_UP".
      narrow_range: whether the least integer is left unused.
      axis: the axis of slices with a range of their own.

    Returns:
      A tensor like ``input``; its gradient is passed through where the numbers lie in the given range.

    >>> import tvtf as tf
    >>> tf.quantization.quantize_and_dequantize_v2([1.2, -2.5, 9.], -3., 3., num_bits=3, range_given=True).numpy()
    array([ 1., -2.,  3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/quantize_and_dequantize_v2
    """
    options = (signed_input, num_bits, range_given, round_mode, narrow_range, axis)
    return _quantized(input, input_min, input_max, *options, passes_all=False)


@export("quantization.quantize_and_dequantize")
@QUANTIZER
@attributes(round_mode=word_of("HALF_TO_EVEN", "HALF_UP"))
def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Quantizes numbers to integers of few bits and back, with the gradient of the identity.

    The arguments are those of `tf.quantization.quantize_and_dequantize_v2`, whose gradient is 0 outside of the range.

    >>> import tvtf as tf
    >>> tf.quantization.quantize_and_dequantize([1., 2., 3.], 0., 0., num_bits=3).numpy()
    array([1., 2., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/quantize_and_dequantize
    """
    options = (signed_input, num_bits, range_given, round_mode, narrow_range, axis)
    return _quantized(input, input_min, input_max, *options, passes_all=True)


# -- gradients of depthwise convolutions


def _depthwise_conv_gradient(
    images: Tensor,
    filters: Tensor,
    operand_index: int,
    cotangent: Any,
    strides: Any,
    padding: Any,
    format: Any,
    rates: Any,
) -> Tensor:
    """Computes the gradient of a depthwise convolution with respect to its images or its filter.

    Args:
      images, filters: the operands. Of the one to differentiate by, only the shape matters.
      operand_index: 0 for the gradient of the images, 1 for that of the filter.
      cotangent: the cotangent of the convolution's result.
      strides, padding, format, rates: the arguments of the convolution.
    """
    operand = (images, filters)[operand_index]
    dilations = None if rates is None else _pair(rates, format)
    with GradientTape() as tape:
        tape.watch(operand)
        y = depthwise_conv2d(images, filters, strides, padding, format, dilations)
    y_cotangent = convert_to_tensor(cotangent, y.dtype)
    return tape.gradient(y, operand, output_gradients=y_cotangent)  # type: ignore[no-any-return]


def _pair(rates: Sequence[int], format: Any) -> list[int]:
    """Returns the dilations of height and width. Four dilations are one for each axis of the data format."""
    return list(rates[2:] if str(format).startswith("NC") else rates[1:3]) if len(rates) == 4 else list(rates)


def _floating(value: Any) -> Tensor:
    """Converts a value to a tensor, and checks that it has a floating-point dtype."""
    tensor = convert_to_tensor(value)
    require_dtype(tensor._type, FLOATING, "input")
    return tensor


@export("nn.depthwise_conv2d_backprop_input")
def depthwise_conv2d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Computes the gradient of `tf.nn.depthwise_conv2d` by its images.

    ``input_sizes`` is the shape of the images, ``out_backprop`` the gradient by the convolution's result. The other
    arguments are those of the convolution.

    >>> import tvtf as tf
    >>> ct, w = tf.ones([1, 1, 1, 1]), tf.reshape([1., 2., 3., 4.], [2, 2, 1, 1])
    >>> tf.nn.depthwise_conv2d_backprop_input([1, 2, 2, 1], w, ct, [1, 1, 1, 1], "VALID").numpy().ravel()
    array([1., 2., 3., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/depthwise_conv2d_backprop_input
    """
    w = _floating(filter)
    sizes = operand(input_sizes, int32, 0)
    # The images themselves don't matter for the gradient: zeros have their shape.
    return _depthwise_conv_gradient(
        zeros(sizes, w.dtype), w, 0, operand(out_backprop, w.dtype, 2), strides, padding, data_format, dilations
    )


@export("nn.depthwise_conv2d_backprop_filter")
def depthwise_conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Computes the gradient of `tf.nn.depthwise_conv2d` by its filter.

    ``filter_sizes`` is the shape of the filter, ``out_backprop`` the gradient by the convolution's result. The other
    arguments are those of the convolution.

    >>> import tvtf as tf
    >>> ct, x = tf.ones([1, 1, 1, 1]), tf.reshape([1., 2., 3., 4.], [1, 2, 2, 1])
    >>> tf.nn.depthwise_conv2d_backprop_filter(x, [2, 2, 1, 1], ct, [1, 1, 1, 1], "VALID").numpy().ravel()
    array([1., 2., 3., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/depthwise_conv2d_backprop_filter
    """
    x = _floating(input)
    sizes = operand(filter_sizes, int32, 1)
    # The filter itself doesn't matter for the gradient: zeros have its shape.
    return _depthwise_conv_gradient(
        x, zeros(sizes, x.dtype), 1, operand(out_backprop, x.dtype, 2), strides, padding, data_format, dilations
    )
