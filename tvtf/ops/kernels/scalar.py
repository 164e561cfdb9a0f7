"""Elementwise kernels: broadcasting, and the functions on TIR scalars that ``lower`` rules are written in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx
from tvm.ir import Call, TensorLoad
from tvm.target import Target

from tvtf.core.shape import broadcast_shapes, simplify_dim
from tvtf.ops.kernels import circular, double_power, errors, fastmath, special
from tvtf.ops.kernels.approx import named, names_values
from tvtf.ops.kernels.remainder import remainder_single
from tvtf.ops.kernels.special import digamma, lgamma, ndtri, trigamma

__all__ = ["digamma", "lgamma", "ndtri", "trigamma"]

_HALF = ("float16", "bfloat16")


def dims(tensor: te.Tensor) -> tuple[Any, ...]:
    """Returns a TE tensor's shape as tvtf's dims."""
    return tuple(map(simplify_dim, tensor.shape[:]))


def broadcast_index(tensor: te.Tensor, index: Sequence[Any], result_shape: Sequence[Any]) -> tuple[Any, ...]:
    """Converts an index of a broadcast result of shape ``result_shape`` to the index of the operand ``tensor``.

    The index along a broadcast axis of size 1 is 0. An axis of size 1 that isn't broadcast keeps its index, by which
    FuseOps recognizes an elementwise kernel.
    """
    shape = dims(tensor)
    new_axis_count = len(index) - len(shape)  # broadcasting adds axes in front
    operand_index = list(index[new_axis_count:])
    for axis, (dim, result_dim) in enumerate(zip(shape, result_shape[new_axis_count:])):
        is_one = isinstance(dim, int) and dim == 1
        is_result_one = isinstance(result_dim, int) and result_dim == 1
        if is_one and not is_result_one:
            operand_index[axis] = 0
    return tuple(operand_index)


def elementwise(expression: Callable[..., Any], tensors: Sequence[te.Tensor], attrs: dict[str, Any]) -> te.Tensor:
    """Computes ``expression(functions, *elements, **attrs)`` for each element of broadcast tensors.

    ``functions`` is this module, whose functions the expression calls. 16-bit floats are computed in float32.
    """
    shape: tuple[Any, ...] = ()
    for tensor in tensors:
        combined = broadcast_shapes(shape, dims(tensor))
        shape = shape if combined is None else combined
    half_dtype = next((each.dtype for each in tensors if each.dtype in _HALF), None)

    def compute(*index: Any) -> Any:
        values = [widen(each(*broadcast_index(each, index, shape))) for each in tensors]
        result = expression(sys.modules[__name__], *values, **attrs)
        return result.astype(half_dtype) if half_dtype and dtype_of(result) == "float32" else result

    return te.compute(shape, compute, name="elementwise")


def dtype_of(value: Any) -> str:
    """Returns the name of an expression's dtype."""
    return str(value.ty.dtype)


def widen(value: Any) -> Any:
    """Casts a 16-bit float to float32, in which it is computed."""
    return value.astype("float32") if dtype_of(value) in _HALF else value


def const(value: Any, like: Any) -> Any:
    """Returns a constant of the dtype of the expression ``like``."""
    return tirx.const(value, dtype_of(like))


def times(x: Any, factor: float) -> Any:
    """Multiplies ``x`` by a constant.

    TVM simplifies a product with 0 to 0, which is wrong for NaN and infinities. So 0 * x is written as -x * -0.0, where
    -0.0 is a constant given by its bits.
    """
    if factor or not is_float(x):
        return x * const(factor, x)
    bits = int("".join(character for character in dtype_of(x) if character.isdigit()))
    return (const(-0.0, x) - x) * tirx.reinterpret(dtype_of(x), tirx.const(-(2 ** (bits - 1)), f"int{bits}"))


def is_value(x: Any, value: float) -> Any:
    """Returns the expression ``x == value``.

    Python's ``==`` gives a deferred comparison, which is not an expression.
    """
    return tirx.EQ(x, const(value, x))


def is_float(x: Any) -> bool:
    """Returns whether an expression's dtype is floating."""
    return dtype_of(x).startswith(("float", "bfloat"))


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Returns one of two values by a condition.

    A loaded bool is compared with 0, because TVM fails to negate a loaded bool.

    Args:
      condition: the condition.
      if_true, if_false: the values.
    """
    if isinstance(condition, (Call, TensorLoad)):
        condition = tirx.NE(condition.astype("int8"), tirx.const(0, "int8"))
    return tirx.Select(condition, if_true, if_false)


def isnan(x: Any) -> Any:
    """Returns whether a number is NaN; not by ``x != x``, which TVM's simplifier folds to false."""
    return tirx.isnan(x)


def maximum(x: Any, y: Any) -> Any:
    """Returns the larger value, NaN where either is NaN as in NumPy and TensorFlow."""
    return tirx.Select(x <= y, y, _unless_nan(x, y))


def minimum(x: Any, y: Any) -> Any:
    """Returns the smaller value, NaN where either is NaN as in NumPy and TensorFlow."""
    return tirx.Select(x >= y, y, _unless_nan(x, y))


def _unless_nan(x: Any, y: Any) -> Any:
    """Returns ``y`` if ``y`` is NaN, else ``x``; by a comparison, because ``isnan`` isn't vectorized."""
    if not is_float(y) or isinstance(y, tirx.FloatImm):
        return x
    return tirx.Select(y <= tirx.infinity(dtype_of(y)), x, y)


def rounded_first(x: Any) -> Any:
    """Returns ``x`` behind an arithmetic fence of LLVM, which keeps a product from being fused with a following sum.

    So the product is rounded to its dtype first. Code for GPUs has no fence: there both may still be rounded only once.

    Source: https://llvm.org/docs/LangRef.html#llvm-arithmetic-fence-intrinsic
    """
    target = Target.current(allow_none=True)
    if target is None or target.kind.name != "llvm":
        return x
    return tirx.call_llvm_pure_intrin(dtype_of(x), "llvm.arithmetic.fence", x)


exp, expm1, log, log1p = fastmath.exp, fastmath.expm1, fastmath.log, fastmath.log1p
tanh, sinh, cosh, sigmoid = fastmath.tanh, fastmath.sinh, fastmath.cosh, fastmath.sigmoid
asinh, acosh, atanh = fastmath.asinh, fastmath.acosh, fastmath.atanh
sin, cos, tan = circular.sin_of_any, circular.cos_of_any, circular.tan_of_any
asin, acos, atan, atan2 = circular.asin, circular.acos, circular.atan, circular.atan2
erf, erfc, sqrt = errors.erf, errors.erfc, tirx.sqrt
floor, ceil, nearbyint, trunc = tirx.floor, tirx.ceil, tirx.nearbyint, tirx.trunc


def libm(name: str, *values: Any) -> Any:
    """Calls a function of the C library: ``name`` in float64, ``namef`` in float32."""
    dtype = dtype_of(values[0])
    return tirx.call_pure_extern(dtype, name if dtype == "float64" else f"{name}f", *values)


def erfinv(x: Any) -> Any:
    return special.erfinv(x) if dtype_of(x) == "float64" else errors.erfinv_single(x)


def power(x: Any, y: Any) -> Any:
    return double_power.power(x, y) if dtype_of(x) == "float64" else errors.power_single(x, y)


def negative(x: Any) -> Any:
    """Returns -x. Unsigned integers wrap around.

    They are negated as signed integers, because TVM tells LLVM that an unsigned subtraction never wraps.
    """
    if is_float(x):
        return -x
    signed = dtype_of(x).removeprefix("u")
    bits = x.astype(signed)
    return (const(0, bits) - bits).astype(dtype_of(x))


def magnitude(x: Any) -> Any:
    """Returns |x|; the smallest integer stays, as in NumPy."""
    return tirx.abs(x) if is_float(x) else select(x < const(0, x), const(0, x) - x, x)


def sign(x: Any) -> Any:
    """Returns -1, 0 or 1, and NaN for NaN."""
    one, zero = const(1, x), const(0, x)
    result = select(x > zero, one, select(x < zero, zero - one, zero))
    return select(isnan(x), x, result) if is_float(x) else result


# -- division: integers by 0 and the smallest one by -1 would end the process


def _safe_divisor(x: Any, y: Any) -> Any:
    """Returns the divisor ``y``, but 1 if the integer division by ``y`` would trap: for 0 and -1."""
    traps = is_value(y, 0)
    if dtype_of(y).startswith("int"):
        traps = tirx.Or(traps, is_value(y, -1))
    return tirx.Select(traps, const(1, y), y)


def _quotient(x: Any, y: Any) -> Any:
    """Returns the integer quotient x / y, rounded towards 0.

    If ``y`` is 0, the value is arbitrary, because a guard has failed before.
    """
    quotient = tirx.truncdiv(x, _safe_divisor(x, y))
    is_signed = dtype_of(y).startswith("int")
    if not is_signed:
        return quotient
    # x / -1 is computed as 0 - x, which wraps around for the smallest integer
    return tirx.Select(is_value(y, -1), const(0, x) - x, quotient)


def truncate_divide(x: Any, y: Any) -> Any:
    """Returns the quotient x / y, rounded towards zero."""
    return tirx.trunc(x / y) if is_float(x) else _quotient(x, y)


def truncate_remainder(x: Any, y: Any) -> Any:
    """Returns the remainder of a division rounded towards zero, which has the sign of ``x``."""
    if dtype_of(x) == "float64":
        return libm("fmod", x, y)
    return remainder_single(x, y) if is_float(x) else tirx.truncmod(x, _safe_divisor(x, y))


def floor_divide(x: Any, y: Any) -> Any:
    """Returns the quotient x / y, rounded down (towards -infinity)."""
    if is_float(x):
        return tirx.floor(x / y)
    if dtype_of(x).startswith("u"):  # rounding towards zero is rounding down
        return _quotient(x, y)
    # The quotient rounded towards zero is one too large if the remainder's sign is not the divisor's.
    is_one_too_large = _has_other_sign(truncate_remainder(x, y), y)
    return _quotient(x, y) - tirx.Select(is_one_too_large, const(1, x), const(0, x))


@names_values
def floor_remainder(x: Any, y: Any) -> Any:
    """Returns the remainder of a division rounded down, which has the sign of ``y``."""
    if dtype_of(x).startswith("u"):
        return truncate_remainder(x, y)
    remainder = named(truncate_remainder(x, y))
    return tirx.Select(_has_other_sign(remainder, y), remainder + y, remainder)


def _has_other_sign(remainder: Any, y: Any) -> Any:
    """Returns whether a nonzero remainder and the divisor ``y`` have different signs."""
    zero = const(0, remainder)
    return tirx.Or(tirx.And(remainder < zero, y > zero), tirx.And(remainder > zero, y < zero))


def shift_count(y: Any) -> Any:
    """Clamps ``y`` to [0, bits), outside which LLVM leaves a shift undefined."""
    bits = int("".join(c for c in dtype_of(y) if c.isdigit()))
    return minimum(maximum(y, const(0, y)), const(bits - 1, y))


# -- bools are compared as bytes: TVM has no comparison of bools


def _comparable(x: Any) -> Any:
    """Casts a bool to int8, for TVM has no comparison of bools."""
    return x.astype("int8") if dtype_of(x) == "bool" else x


def equal(x: Any, y: Any) -> Any:
    return tirx.EQ(_comparable(x), _comparable(y))


def not_equal(x: Any, y: Any) -> Any:
    """Compares two values of any dtype; NaN differs from everything, unlike in TVM's comparison."""
    differ = tirx.NE(_comparable(x), _comparable(y))
    return tirx.Or(differ, tirx.Or(isnan(x), isnan(y))) if is_float(x) else differ


def both(x: Any, y: Any) -> Any:
    return tirx.And(x, y)


def either(x: Any, y: Any) -> Any:
    return tirx.Or(x, y)


def negated(x: Any) -> Any:
    return tirx.Not(x)


def isinf(x: Any) -> Any:
    return is_value(magnitude(x), float("inf"))


def isfinite(x: Any) -> Any:
    return magnitude(x) < tirx.const(float("inf"), dtype_of(x))


# -- casts


def cast(tensor: te.Tensor, *, dtype: str) -> te.Tensor:
    """Casts a tensor, with a result defined for every value; see ``tvtf.ops.cast``."""
    return te.compute(dims(tensor), lambda *index: cast_scalar(tensor(*index), dtype), name="cast")


def cast_scalar(x: Any, dtype: str) -> Any:
    """Converts a scalar expression to a dtype as TensorFlow's cast.

    To bool, nonzero values become True. To integers, floats are truncated.
    """
    source = dtype_of(x)
    if source == dtype:
        return x
    if dtype == "bool":
        return not_equal(widen(x), const(0, widen(x)))
    if is_float(x) and "int" in dtype:
        return float_to_integer(widen(x), dtype)
    if dtype == "bfloat16":
        return (x if source == "float32" else x.astype("float32")).astype(dtype)
    return widen(x).astype(dtype)


def float_to_integer(x: Any, dtype: str) -> Any:
    """Converts a float to an integer dtype, via int32 for narrow dtypes and int64 for others.

    A number out of the range of int32 or int64 becomes the smallest int32 or int64 before the cast to ``dtype``.
    """
    if dtype == "uint64":
        return _to_uint64(x)
    intermediate_dtype = "int32" if dtype in ("int8", "uint8", "int16", "uint16", "int32") else "int64"
    return _truncated_or_smallest(x, intermediate_dtype).astype(dtype)


def _truncated_or_smallest(x: Any, integer: str) -> Any:
    """Truncates a float to the signed integer dtype ``integer``, such as "int32".

    NaN and numbers out of range become the dtype's smallest number.
    """
    bit_count = int(integer.removeprefix("int"))
    smallest = -(2 ** (bit_count - 1))
    truncated = tirx.trunc(x)
    lower_end, upper_end = (tirx.const(end, dtype_of(x)) for end in (float(smallest), -float(smallest)))
    fits = tirx.And(truncated >= lower_end, truncated < upper_end)
    # The inner selection keeps the conversion, whose result is undefined out of range, from seeing such a number.
    converted = tirx.Select(fits, truncated, const(0, x)).astype(integer)
    return tirx.Select(fits, converted, tirx.const(smallest, integer))


def _to_uint64(x: Any) -> Any:
    """Converts a float to uint64 via int64.

    For a number of at least 2**63, the number minus 2**63 is converted, and the high bit is added to the integer.
    """
    two_to_63 = tirx.const(2.0**63, dtype_of(x))
    two_to_64 = tirx.const(2.0**64, dtype_of(x))
    is_high = tirx.And(x >= two_to_63, x < two_to_64)
    high_bit = tirx.const(1, "uint64") << tirx.const(63, "uint64")
    lower_bits = tirx.Select(is_high, x - two_to_63, const(0, x)).astype("int64").astype("uint64")
    converted_directly = _truncated_or_smallest(x, "int64").astype("uint64")
    return tirx.Select(is_high, lower_bits + high_bit, converted_directly)
