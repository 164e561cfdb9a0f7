"""The vocabulary of branchless approximations: names, constants, polynomials, bits of a float32 or float64.

Each function takes and gives scalar TIR expressions for use inside `te.compute`. All become vector instructions: LLVM
calls the C library once per lane for `exp` and its like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from typing import Any

from tvm import ir, runtime, tirx

Function = Callable[[ir.Expr], ir.Expr]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format; `least` and `most` bound the arguments at which exp is 0 or overflows."""

    dtype: str
    integer: str
    mantissa_bits: int
    bias: int
    smallest_normal: float
    least: float
    most: float
    large: float

    @property
    def sign_bit(self) -> int:
        return self.mantissa_bits + self.bias.bit_length() + 1

    @property
    def shifter(self) -> float:
        """Added to a number, it leaves the nearest integer in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa_bits


SINGLE = Format("float32", "int32", 23, 127, 2.0**-126, -104.0, 89.0, 1e9)
DOUBLE = Format("float64", "int64", 52, 1023, 2.0**-1022, -746.0, 710.0, 1e17)


def format_of(x: ir.Expr) -> Format:
    return DOUBLE if dtype_of(x) == "float64" else SINGLE


def elementary(function: Function) -> Function:
    """Let a function of float32 or float64 take half types, too: they are computed in float32."""

    @wraps(function)
    def typed(x: Any) -> ir.Expr:
        x = runtime.convert(x)
        dtype = dtype_of(x)
        wide = x if dtype in ("float32", "float64") else x.astype("float32")
        result = let(wide, function)
        return result if wide is x else result.astype(dtype)

    return typed


def through_double(function: Function) -> Function:
    """A function of float64 for an argument of any floating type, rounded once at the end."""

    @wraps(function)
    def typed(x: Any) -> ir.Expr:
        x = runtime.convert(x)
        return let(x.astype("float64"), function).astype(dtype_of(x))

    return typed


def dtype_of(x: ir.Expr) -> str:
    """The element type of a TIR expression, by name."""
    return str(x.ty.dtype)


def like(value: float, x: ir.Expr) -> Any:
    """A constant of the type of `x`."""
    return tirx.const(value, dtype_of(x))


def let(value: ir.Expr, body: Function) -> ir.Expr:
    """`body` of a value that is computed once."""
    if isinstance(value, (tirx.Var, tirx.FloatImm, tirx.IntImm)):
        return body(value)
    name = tirx.Var("t", dtype_of(value))
    return tirx.Let(name, value, body(name))


def polynomial(x: ir.Expr, coefficients: Sequence[float]) -> ir.Expr:
    """By Horner's rule, the highest power first."""
    first, *rest = coefficients
    return reduce(lambda total, c: total * x + like(c, x), rest, like(first, x))


def at_most(x: ir.Expr, limit: float) -> ir.Expr:
    """The smaller one; NaN stays."""
    return tirx.Select(like(limit, x) < x, like(limit, x), x)


def at_least(x: ir.Expr, limit: float) -> ir.Expr:
    """The larger one; NaN stays."""
    return tirx.Select(x < like(limit, x), like(limit, x), x)


def with_sign(size: ir.Expr, sign: ir.Expr) -> ir.Expr:
    """A size that is not negative with the sign of another number, of -0 also."""
    form = format_of(size)
    top = tirx.const(-(2**form.sign_bit), form.integer)
    return tirx.reinterpret(form.dtype, bits(size) | (bits(sign) & top))


def odd(x: ir.Expr, positive: Function) -> ir.Expr:
    """An odd function from its values for arguments that are not negative."""
    return let(tirx.abs(x), lambda size: with_sign(positive(size), x))


def bits(x: ir.Expr) -> ir.Expr:
    return tirx.reinterpret(format_of(x).integer, x)


def integer(value: int, form: Format) -> Any:
    return tirx.const(value, form.integer)


def shifted(x: ir.Expr, offset: int, body: Function) -> ir.Expr:
    """`body` of the bits of n + offset + the format's shifter, n the nearest integer to x.

    As bits, for TVM's simplifier takes (x + c) - c for x.
    """
    return let(bits(x + like(format_of(x).shifter + offset, x)), body)


def whole(shifted_bits: ir.Expr, form: Format, offset: int) -> ir.Expr:
    """The n of `shifted`, as a float."""
    return tirx.reinterpret(form.dtype, shifted_bits) - tirx.const(form.shifter + offset, form.dtype)


def power_of_two(shifted_bits: ir.Expr, form: Format) -> ir.Expr:
    """2**n for a normal result, where `offset` was the format's bias."""
    return tirx.reinterpret(form.dtype, shifted_bits << integer(form.mantissa_bits, form))


def rounded(x: ir.Expr) -> ir.Expr:
    """x, hidden from TVM's simplifier, which would undo its rounding."""
    return tirx.reinterpret(dtype_of(x), bits(x))


def unless_tiny(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    """`value`, but x itself where that is a denormal number or a zero of either sign."""
    return tirx.Select(tirx.abs(x) < like(format_of(x).smallest_normal, x), x, value)


def unless(is_rare: Function, x: ir.Expr, common: Function, rare: Function) -> ir.Expr:
    """`common(x)`, but `rare(x)` for the few numbers that it isn't good for.

    Schedules compute whole vectors by `common` as long as none of their elements is rare, and those others one by one.
    """
    # The test repeats x, for it stands alone before the vector; TVM's code generation gives both one name.
    return tirx.if_then_else(tirx.likely(tirx.Not(is_rare(x))), let(x, common), rare(x))


def below_infinity(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    """`value`, but x itself where that is infinite or NaN."""
    # `x == x` would be folded to true by TVM's simplifier.
    return tirx.Select(x < like(float("inf"), x), value, x)
