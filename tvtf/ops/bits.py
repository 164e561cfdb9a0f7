"""Operations on the bits of integers, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.dtypes import INTEGER, DType, as_dtype
from tvtf.ops.elementwise import binary_op, operands, tensor_of, unary_op
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes


def _unsigned(dtype: DType) -> DType:
    return dtype if dtype.is_unsigned else as_dtype(f"u{dtype.name}")


def _bitwise(numpy: Callable[..., Any], lower: Callable[..., Any], onnx: Any, shows: tuple[str, str]) -> Any:
    """Returns a decorator that declares an elementwise bitwise op of two integer tensors, public in ``tf.bitwise``.

    Args:
      numpy: The kernel on arrays.
      lower: Builds the compiled expression of two scalars.
      onnx: The ONNX rule.
      shows: The docstring's example: a call and its result.
    """

    def declare(front: Callable[..., Any]) -> Any:
        public = (f"bitwise.{front.__name__}",)
        return binary_op(domain=INTEGER, numpy=numpy, lower=lower, onnx=onnx, public=public, shows=shows)(front)

    return declare


@_bitwise(
    np.bitwise_and, lambda t, x, y: x & y, "BitwiseAnd", shows=("tf.bitwise.bitwise_and(6, 3).numpy()", "np.int32(2)")
)
def bitwise_and(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the bits that both integers have, elementwise, with broadcasting."""
    return operands(x, y), {}


@_bitwise(
    np.bitwise_or, lambda t, x, y: x | y, "BitwiseOr", shows=("tf.bitwise.bitwise_or(6, 3).numpy()", "np.int32(7)")
)
def bitwise_or(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the bits that one of the integers has, elementwise, with broadcasting."""
    return operands(x, y), {}


@_bitwise(
    np.bitwise_xor, lambda t, x, y: x ^ y, "BitwiseXor", shows=("tf.bitwise.bitwise_xor(6, 3).numpy()", "np.int32(5)")
)
def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the bits that exactly one of the integers has, elementwise, with broadcasting."""
    return operands(x, y), {}


@unary_op(
    domain=INTEGER,
    numpy=np.invert,
    lower=lambda t, x: ~x,
    onnx="BitwiseNot",
    public=("bitwise.invert",),
    shows=("tf.bitwise.invert(5).numpy()", "np.int32(-6)"),
)
def invert(x: Any, name: str | None = None) -> Any:
    """Inverts all bits, elementwise."""
    return tensor_of(x)


def _within_width(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a NumPy kernel for a shift, with counts clamped to [0, bits), as in TensorFlow's kernels."""
    return lambda x, y: function(x, np.clip(y, 0, 8 * x.dtype.itemsize - 1).astype(x.dtype))


def _shift(emitter: NodeEmitter, direction: str, x: str, y: str, dtype: DType) -> str:
    """Emits ONNX's BitShift of ``x`` by ``y`` and returns the name of its result, which is cast back to ``dtype``.

    ONNX shifts unsigned integers only. Counts are clamped, because ONNX doesn't define shifts by more than the width.
    """
    zero = emitter.const(np.array(0, dtype.np))
    last_bit = emitter.const(np.array(8 * dtype.size - 1, dtype.np))
    nonnegative_count = emitter.computed("Max", [y, zero])
    count = emitter.computed("Min", [nonnegative_count, last_bit])
    unsigned = _unsigned(dtype)
    operands = [emitter.cast(x, unsigned), emitter.cast(count, unsigned)]
    shifted = emitter.computed("BitShift", operands, direction=direction)
    return emitter.cast(shifted, dtype)


def _left_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    x, y = inputs
    emitter.node("Identity", [_shift(emitter, "LEFT", x, y, types[0][0].dtype)], outputs)


def _right_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes for an arithmetic right shift.

    Of a negative number the complement is shifted and complemented again: ones enter at the left.
    """
    x, y = inputs
    (x_type, _), _ = types
    dtype = x_type.dtype
    shifted = _shift(emitter, "RIGHT", x, y, dtype)
    if dtype.is_unsigned:  # no number is negative
        emitter.node("Identity", [shifted], outputs)
        return
    complement = emitter.computed("BitwiseNot", [x])
    shifted_complement = _shift(emitter, "RIGHT", complement, y, dtype)
    shifted_negative = emitter.computed("BitwiseNot", [shifted_complement])
    is_negative = emitter.computed("Less", [x, emitter.const(np.array(0, dtype.np))])
    emitter.node("Where", [is_negative, shifted_negative, shifted], outputs)


@_bitwise(
    _within_width(np.left_shift),
    lambda t, x, y: x << t.shift_count(y),
    _left_onnx,
    shows=("tf.bitwise.left_shift(3, 2).numpy()", "np.int32(12)"),
)
def left_shift(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the bits of ``x`` moved up by ``y`` positions, elementwise, with broadcasting; ``y`` is clamped to [0, bits)."""
    return operands(x, y), {}


@_bitwise(
    _within_width(np.right_shift),
    lambda t, x, y: x >> t.shift_count(y),
    _right_onnx,
    shows=("tf.bitwise.right_shift(-8, 1).numpy()", "np.int32(-4)"),
)
def right_shift(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the bits of ``x`` moved down by ``y`` positions, elementwise, with broadcasting; ``y`` is clamped to [0, bits).

    The sign stays.
    """
    return operands(x, y), {}
