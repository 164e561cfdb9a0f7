"""Elementwise division with rounding, remainders, and products and quotients that are 0 where a factor is 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import FLOATING_AND_COMPLEX, REAL, as_dtype, float32
from tvtf.ops.cast import defaulted
from tvtf.ops.elementwise import binary_op, conj, log1p_nodes, nodes, operands
from tvtf.ops.math import as_quotient
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import operands_of_list
from tvtf.ops.rules import bind, full_like, number, unbroadcast, zeros_like

MSG_DIVISION = "Integer division by zero"


def _guard(x: Tensor, y: Tensor) -> list[tuple[Tensor, str]]:
    """Returns the condition that no integer divisor is 0, with the error message, for a check at run time.

    The op's NumPy kernel raises an error with the same message.
    """
    # ``x`` isn't needed here, but all rules of the op receive it
    if not y._type.dtype.is_integer:
        return []
    is_nonzero = bind.not_equal(y, number(0, y))
    all_axes = tuple(range(len(y._type.shape)))
    all_nonzero = bind.reduce_all(is_nonzero, axis=all_axes, keepdims=False)
    return [(all_nonzero, MSG_DIVISION)]


def _numpy_by_dtype(integers: Callable[..., Any], floats: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the NumPy kernel of a division: it calls ``integers`` or ``floats``, depending on the operands' dtype.

    An integer divisor of 0 raises an error. 16-bit floats are computed in float32.
    """

    def run(x: np.ndarray, y: np.ndarray) -> Any:
        """Divides NumPy arrays: integers with a check for zero divisors, 16-bit floats in float32."""
        if x.dtype.kind in "iu":
            if x.size and not y.all():
                raise ArgumentError(MSG_DIVISION)
            return integers(x, y)
        compute_dtype = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return floats(x.astype(compute_dtype), y.astype(compute_dtype))

    return run


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x - np.fmod(x, y)) // y).astype(x.dtype)


def _floored_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    remainder = np.fmod(x, y)  # has the sign of x
    return np.where((remainder != 0) & ((y < 0) != (remainder < 0)), remainder + y, remainder)


def _known_quotient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a rule that evaluates a division while tracing, if both operands are known then.

    The rule returns None for an unknown operand, and for a divisor of 0, which fails at run time.
    """

    def value(x: Any, y: Any) -> Any:
        if x.known is None or y.known is None:
            return None
        has_zero_divisor = any(isinstance(divisor, int) and divisor == 0 for divisor in y.known.flat)
        return None if has_zero_divisor else function(x.known, y.known)

    return value


_REMAINDER = ("Mod", 0, 1, {"fmod": 1})
_SIGN_DIFFERS = ("And", ("Not", ("Equal", _REMAINDER, 0.0)), ("Xor", ("Less", 1, 0.0), ("Less", _REMAINDER, 0.0)))

_DIVIDES_BY_MINUS_1 = ("Equal", 1, -1.0)
_SAFE_DIVISOR = ("Where", _DIVIDES_BY_MINUS_1, 1.0, 1)
"""The smallest integer divided by -1 ends the process in onnxruntime; it is 0 - x, which wraps around."""
_SIGNED_QUOTIENT = ("Where", _DIVIDES_BY_MINUS_1, ("Sub", 0.0, 0), ("Div", 0, _SAFE_DIVISOR))
_SIGNED_REMAINDER = ("Mod", 0, _SAFE_DIVISOR, {"fmod": 1})
_IS_ONE_TOO_LARGE = (
    "And",
    ("Not", ("Equal", _SIGNED_REMAINDER, 0.0)),
    ("Xor", ("Less", 1, 0.0), ("Less", _SIGNED_REMAINDER, 0.0)),
)
"""Whether a quotient rounded towards 0 is one more than the one rounded down."""
_SIGNED_FLOORED_QUOTIENT = ("Sub", _SIGNED_QUOTIENT, ("Where", _IS_ONE_TOO_LARGE, 1.0, 0.0))


def _onnx_by_dtype(signed: tuple[Any, ...], unsigned: tuple[Any, ...], floats: tuple[Any, ...]) -> Callable[..., None]:
    """Returns the ONNX rule of a division, which emits different nodes for signed and unsigned integers and for floats.

    Each is a tree of nodes, such as ``("Floor", ("Div", 0, 1))`` for inputs 0 and 1.
    """
    write_signed, write_unsigned, write_floats = map(nodes, (signed, unsigned, floats))

    def emit(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
        (x_type, _), _ = types
        if not x_type.dtype.is_integer:
            write = write_floats
        else:
            write = write_unsigned if x_type.dtype.is_unsigned else write_signed
        write(emitter, inputs, outputs, types)

    return emit


_integer_op = partial(binary_op, domain=REAL, guard=_guard, samples=(1.0, 4.0), gradient=False)
"""Declares a quotient or remainder of integers or floats; a 0 among integer divisors raises."""


def _remainder_vjp(quotient: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Returns the vjp of the remainder that a quotient leaves."""
    return lambda cotangent, z, x, y: (
        unbroadcast(cotangent, x),
        unbroadcast(bind.negative(bind.multiply(cotangent, quotient(x, y))), y),
    )


@_integer_op(
    tf_name="FloorDiv",
    numpy=_numpy_by_dtype(np.floor_divide, lambda x, y: np.floor(x / y)),
    lower=lambda t, x, y: t.floor_divide(x, y),
    vjp=lambda cotangent, z, x, y: (None, None),
    onnx=_onnx_by_dtype(_SIGNED_FLOORED_QUOTIENT, ("Div", 0, 1), ("Floor", ("Div", 0, 1))),
    value=_known_quotient(lambda x, y: x // y),
    public=("math.floordiv", "floordiv"),
    shows=("tf.math.floordiv([7, -7], 2).numpy()", "array([ 3, -4], dtype=int32)"),
)
def floordiv(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``floor(x / y)`` elementwise, with broadcasting.

    Args:
      x: real tensor of shape (...).
      y: tensor of the same dtype, of a shape that broadcasts with x's.

    Returns:
      A tensor of that dtype and the broadcast shape, which has no gradient.

    Raises:
      InvalidArgumentError: an integer is divided by 0.
    """
    return operands(x, y), {}


@_integer_op(
    tf_name="FloorMod",
    numpy=_numpy_by_dtype(np.remainder, _floored_remainder),
    lower=lambda t, x, y: t.floor_remainder(x, y),
    vjp=_remainder_vjp(lambda x, y: bind.floordiv(x, y)),
    onnx=_onnx_by_dtype(
        ("Mod", 0, _SAFE_DIVISOR), ("Mod", 0, 1), ("Where", _SIGN_DIFFERS, ("Add", _REMAINDER, 1), _REMAINDER)
    ),
    value=_known_quotient(lambda x, y: x % y),
    public=("math.floormod", "floormod", "math.mod", "mod"),
    shows=("tf.math.floormod([7, -7], 4).numpy()", "array([3, 1], dtype=int32)"),
)
def floormod(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the remainder of the floored division, elementwise, with broadcasting: it has the sign of ``y``.

    Raises:
      InvalidArgumentError: an integer is divided by 0.
    """
    return operands(x, y), {}


@_integer_op(
    tf_name="TruncateDiv",
    numpy=_numpy_by_dtype(_truncated, lambda x, y: np.trunc(x / y)),
    lower=lambda t, x, y: t.truncate_divide(x, y),
    vjp=lambda cotangent, z, x, y: (None, None),
    onnx=_onnx_by_dtype(
        _SIGNED_QUOTIENT, ("Div", 0, 1), ("Mul", ("Sign", ("Div", 0, 1)), ("Floor", ("Abs", ("Div", 0, 1))))
    ),
    public=("truncatediv",),
    shows=("tf.truncatediv([7, -7], 2).numpy()", "array([ 3, -3], dtype=int32)"),
)
def truncatediv(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x / y`` rounded towards 0, elementwise, with broadcasting.

    Raises:
      InvalidArgumentError: an integer is divided by 0.
    """
    return operands(x, y), {}


@_integer_op(
    tf_name="TruncateMod",
    numpy=_numpy_by_dtype(np.fmod, np.fmod),
    lower=lambda t, x, y: t.truncate_remainder(x, y),
    vjp=_remainder_vjp(lambda x, y: bind.truncatediv(x, y)),
    onnx=_onnx_by_dtype(_SIGNED_REMAINDER, _REMAINDER, _REMAINDER),
    public=("truncatemod",),
    shows=("tf.truncatemod([7, -7], 4).numpy()", "array([ 3, -3], dtype=int32)"),
)
def truncatemod(x: Any, y: Any, name: str | None = None) -> Any:
    """Returns the remainder of the division rounded towards 0, elementwise, with broadcasting: it has the sign of ``x``.

    Raises:
      InvalidArgumentError: an integer is divided by 0.
    """
    return operands(x, y), {}


# -- 0 where a factor is


def _is_zero(x: Tensor) -> Tensor:
    return bind.equal(x, number(0, x))


def _divide_no_nan_vjp(cotangent: Tensor, z: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    by_x = bind.divide_no_nan(cotangent, conj(y))
    return unbroadcast(by_x, x), unbroadcast(bind.negative(bind.multiply(by_x, conj(z))), y)


@binary_op(
    tf_name="DivNoNan",
    name="divide_no_nan",
    domain=FLOATING_AND_COMPLEX,
    numpy=lambda x, y: np.where(y == 0, np.zeros((), x.dtype), np.divide(x, y)),
    lower=lambda t, x, y: t.select(t.is_value(y, 0), t.const(0, x), x / y),
    vjp=_divide_no_nan_vjp,
    onnx=nodes(("Where", ("Equal", 1, 0.0), 0.0, ("Div", 0, 1))),
    samples=(0.5, 3.0),
)
def float_divide_no_nan(x: Any, y: Any) -> Any:
    """Computes :func:`divide_no_nan` of floating or complex operands."""
    return operands(x, y), {}


@export("math.divide_no_nan")
def divide_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x / y``, but 0 where ``y`` is 0, elementwise, with broadcasting.

    Args:
      x: numeric tensor of shape (...).
      y: tensor of the same dtype, of a shape that broadcasts with x's.

    Returns:
      A tensor of the broadcast shape and that dtype. For integers it has the dtype of their quotient.

    >>> import tvtf as tf
    >>> tf.math.divide_no_nan([3., 3.], [2., 0.]).numpy()
    array([1.5, 0. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/divide_no_nan
    """
    x, y = operands_of_list((x, y))
    if x.dtype.is_integer and y.dtype.is_integer:
        x, y = as_quotient(x), as_quotient(y)
    return float_divide_no_nan.bind(x, y)


@binary_op(
    tf_name="MulNoNan",
    domain=FLOATING_AND_COMPLEX,
    numpy=lambda x, y: np.where(y == 0, np.zeros((), x.dtype), np.multiply(x, y)),
    lower=lambda t, x, y: t.select(t.is_value(y, 0), t.const(0, x), x * y),
    vjp=lambda cotangent, z, x, y: (
        unbroadcast(bind.multiply_no_nan(cotangent, conj(y)), x),
        unbroadcast(bind.multiply_no_nan(conj(x), cotangent), y),
    ),
    onnx=nodes(("Where", ("Equal", 1, 0.0), 0.0, ("Mul", 0, 1))),
    public=("math.multiply_no_nan",),
    shows=('tf.math.multiply_no_nan([float("inf"), 2.], [0., 3.]).numpy()', "array([0., 6.], dtype=float32)"),
)
def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x * y`` elementwise, with broadcasting; 0 where ``y`` is 0, even if ``x`` is infinite or NaN."""
    x = convert_to_tensor(x)
    return (x, convert_to_tensor(y, x.dtype)), {}


def _unless_zero(x: Tensor, value: Tensor) -> Tensor:
    """Returns ``value`` where ``x`` is not 0, else 0."""
    zero = full_like(value, 0)
    return bind.select(_is_zero(x), zero, value)


def _zero_with_x(
    numpy: Callable[..., Any],
    lower: Callable[..., Any],
    by_x: Callable[[Tensor], Tensor],
    by_y: Callable[[Tensor, Tensor], Tensor],
    onnx: Any,
    samples: tuple[float, float] = (0.5, 3.0),
    *,
    shows: tuple[str, str],
) -> Any:
    """Returns a decorator that declares a product of ``x`` and a function of ``y``, which is 0 wherever ``x`` is 0.

    That holds even where the function isn't finite. Its derivatives are ``by_x(y)`` and ``by_y(x, y)``; ``onnx`` is the
    tree of nodes of the product.
    """

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        computed = np.float32 if x.dtype.itemsize == 2 else x.dtype
        return np.where(x == 0, np.zeros((), computed), numpy(x.astype(computed), y.astype(computed)))

    def vjp(cotangent: Tensor, z: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        cotangent_of_x = bind.multiply(cotangent, conj(_unless_zero(x, by_x(y))))
        return unbroadcast(cotangent_of_x, x), unbroadcast(bind.multiply(cotangent, conj(by_y(x, y))), y)

    def declare(front: Callable[..., Any]) -> Any:
        """Declares the elementwise op with the public function ``front``: ``lower(x, y)``, or 0 where ``x`` is 0."""

        def lower_unless_zero(t: Any, x: Any, y: Any) -> Any:
            return t.select(t.is_value(x, 0), t.const(0, x), lower(t, x, y))

        return binary_op(
            domain=FLOATING_AND_COMPLEX,
            numpy=run,
            lower=lower_unless_zero,
            vjp=vjp,
            onnx=nodes(("Where", ("Equal", 0, 0.0), 0.0, onnx)),
            samples=samples,
            public=(f"math.{front.__name__}",),
            shows=shows,
        )(front)

    return declare


@_zero_with_x(
    np.divide,
    lambda t, x, y: x / y,
    by_x=lambda y: bind.reciprocal(y),
    by_y=lambda x, y: bind.negative(bind.xdivy(x, bind.square(y))),
    onnx=("Div", 0, 1),
    shows=("tf.math.xdivy([0., 3.], [0., 2.]).numpy()", "array([0. , 1.5], dtype=float32)"),
)
def xdivy(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x / y`` elementwise, with broadcasting; 0 where ``x`` is 0."""
    return operands(x, y), {}


@_zero_with_x(
    lambda x, y: x * np.log(y),
    lambda t, x, y: x * t.log(y),
    by_x=lambda y: bind.log(y),
    by_y=lambda x, y: bind.xdivy(x, y),
    onnx=("Mul", 0, ("Log", 1)),
    shows=("tf.math.xlogy([0., 3.], [0., 1.]).numpy()", "array([0., 0.], dtype=float32)"),
)
def xlogy(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x * log(y)`` elementwise, with broadcasting; 0 where ``x`` is 0."""
    return operands(x, y), {}


@_zero_with_x(
    lambda x, y: x * np.log1p(y),
    lambda t, x, y: x * t.log1p(y),
    by_x=lambda y: bind.log1p(y),
    by_y=lambda x, y: bind.xdivy(x, bind.add(y, number(1, y))),
    onnx=("Mul", 0, log1p_nodes(1)),
    samples=(-0.5, 3.0),
    shows=("tf.math.xlog1py([0., 3.], [-1., 0.]).numpy()", "array([0., 0.], dtype=float32)"),
)
def xlog1py(x: Any, y: Any, name: str | None = None) -> Any:
    """Computes ``x * log(1 + y)`` elementwise, with broadcasting; 0 where ``x`` is 0."""
    return operands(x, y), {}


@binary_op(
    domain=(as_dtype("float32"), as_dtype("float64")),
    tf_name="NextAfter",
    numpy=np.nextafter,
    lower=lambda t, x, y: t.libm("nextafter", x, y),
    vjp=lambda cotangent, z, x1, x2: (unbroadcast(cotangent, x1), zeros_like(x2)),
    onnx=None,
    gradient=False,
    why_not={"onnx": "ONNX has no operator that reads or sets the bits of a float"},
    public=("math.nextafter",),
    shows=("tf.math.nextafter(1., 2.).numpy()", "np.float32(1.0000001)"),
)
def nextafter(x1: Any, x2: Any, name: str | None = None) -> Any:
    """Returns the next floating number after ``x1`` on the way to ``x2``, elementwise, with broadcasting."""
    first = x1 if state.trace is None and is_tensor(x2) else defaulted(x1, (float32,), float32)
    return operands(first, x2), {}
