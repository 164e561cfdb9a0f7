"""Fake quantization: rounds numbers to the steps of a quantized range, for quantization-aware training."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import Sample, export
from tvtf.core.shape import TensorType, agree_shape, brackets, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import attributes, operand
from tvtf.ops.rules import (
    batch_elementwise,
    bind,
    broadcast_types,
    number,
    require_dtype,
    require_rank,
    unbroadcast,
)


def _nudged(low: Any, high: Any, bits: int, narrow: bool) -> tuple[Any, Any, Any]:
    """Moves the range of a quantization so that a step represents zero exactly.

    Returns the new low end, the new high end and the step size. ``narrow`` leaves out the lowest integer.

    Source: tensorflow/core/kernels/fake_quant_ops_functor.h
    """
    first = np.float32(1 if narrow else 0)  # the integers that stand for the ends of the range
    last = np.float32((1 << bits) - 1)
    step = (high - low) / (last - first)
    with np.errstate(all="ignore"):
        exact_zero_point = first - low / step
        zero_point = np.clip(np.floor(exact_zero_point + np.float32(0.5)), first, last)
    return (first - zero_point) * step, (last - zero_point) * step, step


def _array(x: np.ndarray, low: np.ndarray, high: np.ndarray, bits: int, narrow: bool) -> np.ndarray:
    """Computes fake quantization: quantizes ``x`` and dequantizes it, with the roundings in TensorFlow's order.

    The empty range, with both ends 0, gives zeros.

    Args:
      x: the numbers to quantize.
      low, high: the range of numbers that can be represented.
      bits: the number of bits of a quantized number.
      narrow: whether the lowest quantized number is 1 instead of 0.
    """
    nudged_low, nudged_high, step = _nudged(low, high, bits, narrow)
    half = np.float32(0.5)
    with np.errstate(all="ignore"):
        inverse_step = np.float32(1) / step
        zero_point = np.floor(-nudged_low * inverse_step + half)
        clipped = np.clip(x, nudged_low, nudged_high)
        quantized = np.floor((clipped - nudged_low) * inverse_step - zero_point + half)
        return np.where((low == 0) & (high == 0), np.float32(0), quantized * step).astype(np.float32)


def _require_bits(bits: int) -> None:
    if not 2 <= bits <= 16:
        raise ArgumentValueError(f"num_bits must be between 2 and 16, inclusive, but got {bits}")


def _type(x: TensorType, low: TensorType, high: TensorType, bits: int, narrow: bool) -> TensorType:
    for t, name in ((x, "inputs"), (low, "min"), (high, "max")):
        require_dtype(t, (float32,), name)
    _require_bits(bits)
    return TensorType(broadcast_types(x, low, high), float32)


def _edges_array(low: np.ndarray, high: np.ndarray, bits: int, narrow: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ends of the nudged range. An empty range counts as unbounded, as in TensorFlow's gradient."""
    nudged_low, nudged_high, _ = _nudged(low, high, bits, narrow)
    is_empty = (low == 0) & (high == 0)
    first = np.where(is_empty, -np.float32(np.inf), nudged_low)
    last = np.where(is_empty, np.float32(np.inf), nudged_high)
    return first.astype(np.float32), last.astype(np.float32)


def _edges_type(low: TensorType, high: TensorType, bits: int, narrow: bool) -> tuple[TensorType, TensorType]:
    return low, high


_SAMPLE = Sample(
    (np.array([-1.0], np.float32), np.array([2.0], np.float32)), {"bits": 8, "narrow": False}, gradient=False
)


@host_primitive(
    type=_edges_type,
    numpy=_edges_array,
    vjp=lambda cotangent, y, *inputs, **_: (None, None),
    batch=batch_elementwise("fake_quant_edges"),
    samples=lambda: [_SAMPLE],
)
def fake_quant_edges(low: Tensor, high: Tensor, bits: int, narrow: bool) -> Any:
    """Returns the smallest and the largest number of the quantized range."""
    return (low, high), {"bits": bits, "narrow": narrow}


def _vjp(
    cotangent: Tensor, y: Tensor, x: Tensor, low: Tensor, high: Tensor, bits: int, narrow: bool
) -> tuple[Tensor, ...]:
    """Returns the cotangents of ``x``, ``low`` and ``high`` of fake quantization.

    A number inside the range passes its cotangent on to ``x``. A clipped number passes it on to the end of the range to
    which it was clipped.

    Args:
      cotangent: the cotangent of the result.
      y: the result.
      x, low, high: the inputs: the numbers to quantize and the range.
      bits: the number of bits of a quantized number.
      narrow: whether the lowest quantized number is 1 instead of 0.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    first, last = bind.fake_quant_edges(low, high, bits=bits, narrow=narrow)
    zero = number(0, cotangent)
    is_below = bind.less(x, first)
    is_above = bind.greater(x, last)
    is_clipped = bind.logical_or(is_below, is_above)
    x_cotangent = bind.select(is_clipped, zero, cotangent)
    low_cotangent = bind.select(is_below, cotangent, zero)
    high_cotangent = bind.select(is_above, cotangent, zero)
    return x_cotangent, unbroadcast(low_cotangent, low), unbroadcast(high_cotangent, high)


@host_primitive(
    tf_name="FakeQuantWithMinMaxVars",
    type=_type,
    numpy=_array,
    vjp=_vjp,
    batch=batch_elementwise("fake_quant"),
    samples=lambda: [
        Sample(
            tuple(np.array(bound, np.float32) for bound in ([[-2.0, 0.3], [0.9, 5.0]], low, high)),
            {"bits": bits, "narrow": narrow},
            gradient=False,
        )
        for low, high, bits, narrow in ((-1.0, 2.0, 8, False), ([-1.0, 0.0], [1.0, 3.0], 4, True), (0.0, 0.0, 8, False))
    ],
)
def fake_quant(x: Tensor, low: Tensor, high: Tensor, bits: int, narrow: bool) -> Any:
    """Rounds ``x`` to the steps of a range, elementwise, with broadcasting."""
    return (x, low, high), {"bits": bits, "narrow": narrow}


@export("quantization.fake_quant_with_min_max_args")
@attributes(min=float, max=float, num_bits=int, narrow_range=bool)
def fake_quant_with_min_max_args(
    inputs: Any, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Rounds a float32 tensor to ``2**num_bits`` steps in a range.

    Its gradient passes where that range lies.

    Args:
      inputs: float32 tensor.
      min, max: the range, which is moved so that zero is a step.
      num_bits: 2 to 16.
      narrow_range: leave the lowest step out.

    Raises:
      InvalidArgumentError: the number of bits or the dtype is not supported, or the range is empty.

    >>> import tvtf as tf
    >>> tf.quantization.fake_quant_with_min_max_args([-9., 0.5, 9.], 0., 3., num_bits=2).numpy()
    array([0., 1., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/fake_quant_with_min_max_args
    """
    if not min < max:
        raise ArgumentValueError(f"min has to be smaller than max, was: {min:g} >= {max:g}").for_op(
            "FakeQuantWithMinMaxArgs"
        )
    limits = (convert_to_tensor(bound, float32) for bound in (min, max))
    return bind.fake_quant(operand(inputs, float32), *limits, bits=num_bits, narrow=narrow_range)


@export("quantization.fake_quant_with_min_max_vars")
@attributes(num_bits=int, narrow_range=bool)
def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Same as :func:`fake_quant_with_min_max_args`, with float32 scalar tensors for the range, which get gradients.

    >>> import tvtf as tf
    >>> tf.quantization.fake_quant_with_min_max_vars([-9., 0.5, 9.], 0., 3., num_bits=2).numpy()
    array([0., 1., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/fake_quant_with_min_max_vars
    """
    limits = [operand(bound, float32, i) for i, bound in enumerate((min, max), 1)]
    for limit, what in zip(limits, ("min", "max")):
        require_rank(limit._type, 0, what)
    return bind.fake_quant(operand(inputs, float32), *limits, bits=num_bits, narrow=narrow_range)


@export("quantization.fake_quant_with_min_max_vars_per_channel")
@attributes(num_bits=int, narrow_range=bool)
def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Same as :func:`fake_quant_with_min_max_vars`, with a range for each element of the last axis.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the number of ranges differs from the size of the last axis.

    >>> import tvtf as tf
    >>> tf.quantization.fake_quant_with_min_max_vars_per_channel([[0.4, 0.4]], [0., 0.], [3., 6.], num_bits=2).numpy()
    array([[0., 0.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/fake_quant_with_min_max_vars_per_channel
    """
    x = convert_to_tensor(inputs)
    low, high = operand(min, float32, 1), operand(max, float32, 2)
    for limit in (low, high):
        if limit.ndim != 1 or not x.ndim or limit.shape[0] != x.shape[-1]:
            raise ArgumentError(
                f"min and max must be vectors of the inputs' last dim, but got {brackets(limit.shape)} with {brackets(x.shape)}"
            ).for_op("FakeQuantWithMinMaxVarsPerChannel")
    return bind.fake_quant(x, low, high, bits=num_bits, narrow=narrow_range)


# -- their gradients, as functions


class FakeQuantWithMinMaxVarsGradient(NamedTuple):
    """The result of `tf.quantization.fake_quant_with_min_max_vars_gradient`."""

    backprops_wrt_input: Tensor
    backprop_wrt_min: Tensor
    backprop_wrt_max: Tensor


class FakeQuantWithMinMaxVarsPerChannelGradient(NamedTuple):
    """The result of `tf.quantization.fake_quant_with_min_max_vars_per_channel_gradient`."""

    backprops_wrt_input: Tensor
    backprop_wrt_min: Tensor
    backprop_wrt_max: Tensor


def _gradients(cotangent: Any, x: Any, low: Any, high: Any, bits: int, narrow: bool) -> tuple[Tensor, ...]:
    """Checks the operands of a gradient op, and returns the cotangents of ``x``, ``low`` and ``high``.

    Args:
      cotangent: the cotangent of the result.
      x: the numbers to quantize, of the same shape.
      low, high: the range of numbers that can be represented.
      bits: the number of bits of a quantized number, from 2 to 16.
      narrow: whether the lowest quantized number is 1 instead of 0.
    """
    _require_bits(bits)
    cotangent = operand(cotangent, float32, 0)
    x = operand(x, float32, 1)
    low = operand(low, float32, 2)
    high = operand(high, float32, 3)
    if not agree_shape(cotangent._type.shape, x._type.shape):
        shapes = f"{show_shape(cotangent._type.shape)} and {show_shape(x._type.shape)}"
        raise ArgumentError(f"gradients and inputs must have one shape, but have {shapes}")
    return _vjp(cotangent, x, x, low, high, bits=bits, narrow=narrow)


@export("quantization.fake_quant_with_min_max_args_gradient")
@attributes(min=float, max=float, num_bits=int, narrow_range=bool)
def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns the gradient of :func:`fake_quant_with_min_max_args`: ``gradients`` where ``inputs`` lie in the range, else zero.

    >>> import tvtf as tf
    >>> tf.quantization.fake_quant_with_min_max_args_gradient([1., 1.], [0., 9.]).numpy()
    array([1., 0.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/fake_quant_with_min_max_args_gradient
    """
    input_gradient, _, _ = _gradients(gradients, inputs, min, max, num_bits, narrow_range)
    return input_gradient


@export("quantization.fake_quant_with_min_max_vars_gradient")
@attributes(num_bits=int, narrow_range=bool)
def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> FakeQuantWithMinMaxVarsGradient:
    """Returns the gradients of :func:`fake_quant_with_min_max_vars` by its inputs and the two ends of the range.

    >>> import tvtf as tf
    >>> [g.numpy().tolist() for g in tf.quantization.fake_quant_with_min_max_vars_gradient([1., 1.], [0., 9.], -6., 6.)]
    [[1.0, 0.0], 0.0, 1.0]

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/fake_quant_with_min_max_vars_gradient
    """
    return FakeQuantWithMinMaxVarsGradient(*_gradients(gradients, inputs, min, max, num_bits, narrow_range))


@export("quantization.fake_quant_with_min_max_vars_per_channel_gradient")
@attributes(num_bits=int, narrow_range=bool)
def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> FakeQuantWithMinMaxVarsPerChannelGradient:
    """Returns the gradients of :func:`fake_quant_with_min_max_vars_per_channel` by its inputs and the ends of the ranges.

    >>> import tvtf as tf
    >>> found = tf.quantization.fake_quant_with_min_max_vars_per_channel_gradient([[1., 1.]], [[0., 9.]], [-6., -6.], [6., 6.])
    >>> [g.numpy().tolist() for g in found]
    [[[1.0, 0.0]], [0.0, 0.0], [0.0, 1.0]]

    Source: https://www.tensorflow.org/api_docs/python/tf/quantization/fake_quant_with_min_max_vars_per_channel_gradient
    """
    result = _gradients(gradients, inputs, min, max, num_bits, narrow_range)
    return FakeQuantWithMinMaxVarsPerChannelGradient(*result)
