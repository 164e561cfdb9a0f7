"""Building blocks of branchless approximations: let-bindings, constants, polynomials, bits of a float32 or float64.

Each function takes and returns scalar TIR expressions for use inside `te.compute`. All vectorize; for `exp` and its like
LLVM would call the C library once per lane.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from typing import Any

from tvm import ir, runtime, tirx

Function = Callable[[ir.Expr], ir.Expr]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: float32 or float64.

    At `least` and below exp is 0, at `most` and above it overflows. `integer` is the integer dtype of the same size.
    """

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
        """Returns the index of the sign bit, counted from the lowest bit."""
        return self.mantissa_bits + self.bias.bit_length() + 1

    @property
    def shifter(self) -> float:
        """Returns a constant that, added to a number, leaves the nearest integer in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa_bits


SINGLE = Format("float32", "int32", 23, 127, 2.0**-126, -104.0, 89.0, 1e9)
DOUBLE = Format("float64", "int64", 52, 1023, 2.0**-1022, -746.0, 710.0, 1e17)


def format_of(x: ir.Expr) -> Format:
    """Returns the format in which an expression is computed: float64, or float32 for all other dtypes."""
    return DOUBLE if dtype_of(x) == "float64" else SINGLE


def elementary(function: Function) -> Function:
    """Extends a function of a float32 or float64 expression to all floating dtypes.

    16-bit floats are computed in float32, and the result is rounded. The argument is a variable. The function may use
    `named`.
    """

    @wraps(function)
    def of_any_dtype(x: Any) -> ir.Expr:
        """Applies ``function`` in float32 to narrower floats, and casts the result back."""
        x = runtime.convert(x)
        dtype = dtype_of(x)
        widened = x if dtype in ("float32", "float64") else x.astype("float32")
        result = let(widened, function)
        return result if widened is x else result.astype(dtype)

    return of_any_dtype


def through_double(function: Function) -> Function:
    """Extends a function of a float64 expression to all floating dtypes.

    The argument is converted to float64. The result is rounded once, at the end.
    """

    @wraps(function)
    def of_any_dtype(x: Any) -> ir.Expr:
        x = runtime.convert(x)
        return let(x.astype("float64"), function).astype(dtype_of(x))

    return of_any_dtype


def dtype_of(x: ir.Expr) -> str:
    """Returns the name of an expression's dtype."""
    return str(x.ty.dtype)


def like(value: float, x: ir.Expr) -> Any:
    """Returns a constant of the dtype of `x`."""
    return tirx.const(value, dtype_of(x))


class _NamedValues(threading.local):
    """The values that this thread's functions with `names_values` have named; those of the innermost function are last."""

    def __init__(self) -> None:
        self.of_functions: list[list[tuple[tirx.Var, ir.Expr]]] = []


_named = _NamedValues()


def named(value: ir.Expr) -> ir.Expr:
    """Binds an expression to a new variable, and returns the variable, so that the expression is computed only once.

    The innermost running function with `names_values` puts its result inside the `Let` of the variable.
    """
    if isinstance(value, (tirx.Var, tirx.FloatImm, tirx.IntImm)):  # nothing to compute
        return value
    if not _named.of_functions:
        raise RuntimeError("named() puts values around the result of a function with names_values, and none is running")
    variable = tirx.Var("t", dtype_of(value))
    _named.of_functions[-1].append((variable, value))
    return variable


def names_values(function: Callable[..., ir.Expr]) -> Callable[..., ir.Expr]:
    """Lets a function of expressions use `named`: its result is put inside the `Let`s of the values that it names."""

    @wraps(function)
    def with_lets(*arguments: Any, **options: Any) -> ir.Expr:
        """Calls the function, and binds the variables that it named around its result."""
        _named.of_functions.append([])
        try:
            result = function(*arguments, **options)
        finally:
            values = _named.of_functions.pop()
        for variable, value in reversed(values):
            result = tirx.Let(variable, value, result)
        return result

    return with_lets


@names_values
def let(value: ir.Expr, body: Function) -> ir.Expr:
    """Binds an expression to a new variable, and returns `body(variable)`. The expression is computed only once."""
    return body(named(value))


def binds_arguments(function: Callable[..., ir.Expr]) -> Callable[..., ir.Expr]:
    """Makes a function of expressions name each of them by `named` first, in order; it may name more values itself.

    Arguments that aren't expressions, and those passed by keyword, are passed on as they are.
    """

    @names_values
    @wraps(function)
    def with_named_arguments(*arguments: Any, **options: Any) -> ir.Expr:
        return function(*(named(x) if isinstance(x, ir.Expr) else x for x in arguments), **options)

    return with_named_arguments


def polynomial(x: ir.Expr, coefficients: Sequence[float]) -> ir.Expr:
    """Evaluates a polynomial of x by Horner's rule; the coefficient of the highest power comes first."""
    highest, *others = coefficients
    return reduce(lambda total, coefficient: total * x + like(coefficient, x), others, like(highest, x))


def at_most(x: ir.Expr, limit: float) -> ir.Expr:
    """Returns the smaller of x and `limit`; a NaN in x stays NaN."""
    return tirx.Select(like(limit, x) < x, like(limit, x), x)


def at_least(x: ir.Expr, limit: float) -> ir.Expr:
    """Returns the larger of x and `limit`; a NaN in x stays NaN."""
    return tirx.Select(x < like(limit, x), like(limit, x), x)


@binds_arguments
def clamped(x: ir.Expr, low: float, high: float) -> ir.Expr:
    """Limits x to [low, high]; a NaN in x stays NaN."""
    return at_least(at_most(x, high), low)


@binds_arguments
def odd_series(x: ir.Expr, coefficients: Sequence[float]) -> ir.Expr:
    """Evaluates x + x^3 p(x^2), the series of an odd function, for a polynomial p."""
    square = named(x * x)
    return polynomial(square, coefficients) * square * x + x


@binds_arguments
def odd_quotient(x: ir.Expr, numerator: Sequence[float], denominator: Sequence[float]) -> ir.Expr:
    """Evaluates x p(x^2) / q(x^2), an odd rational function, for polynomials p and q."""
    square = named(x * x)
    return x * polynomial(square, numerator) / polynomial(square, denominator)


@binds_arguments
def reflected_if(value: ir.Expr, *, condition: ir.Expr, total: float) -> ir.Expr:
    """Returns `total - value` if a condition holds, else the value itself."""
    return tirx.Select(condition, like(total, value) - value, value)


def with_sign(magnitude: ir.Expr, sign: ir.Expr) -> ir.Expr:
    """Returns a non-negative number with the sign bit of the number `sign`, which may be -0.0."""
    form = format_of(magnitude)
    sign_mask = tirx.const(-(2**form.sign_bit), form.integer)
    return tirx.reinterpret(form.dtype, bits(magnitude) | (bits(sign) & sign_mask))


@names_values
def odd(x: ir.Expr, positive: Function) -> ir.Expr:
    """Extends a function of non-negative numbers, which may use `named`, to an odd function, f(-x) = -f(x)."""
    size = named(tirx.abs(x))
    return with_sign(names_values(positive)(size), x)


def bits(x: ir.Expr) -> ir.Expr:
    """Reinterprets a float as an integer of the same size."""
    return tirx.reinterpret(format_of(x).integer, x)


def integer(value: int, form: Format) -> Any:
    """Returns an integer constant of the size of a format's floats."""
    return tirx.const(value, form.integer)


def shifted(x: ir.Expr, offset: int) -> ir.Expr:
    """Rounds x to the nearest integer n by adding a large constant (the format's shifter), and returns the sum's bits.

    The sum is n + offset + shifter. Its low bits hold n + offset. A float would not do, because TVM's simplifier folds
    (x + c) - c to x.
    """
    return bits(x + like(format_of(x).shifter + offset, x))


def whole(shifted_bits: ir.Expr, form: Format, offset: int) -> ir.Expr:
    """Converts the bits that `shifted` returns back to the rounded integer n, as a float."""
    return tirx.reinterpret(form.dtype, shifted_bits) - tirx.const(form.shifter + offset, form.dtype)


def power_of_two(shifted_bits: ir.Expr, form: Format) -> ir.Expr:
    """Computes 2**n from the bits that `shifted` returns, if `offset` was the format's exponent bias.

    The low bits are n + bias, which is the exponent field of 2**n. The result must be a normal number.
    """
    return tirx.reinterpret(form.dtype, shifted_bits << integer(form.mantissa_bits, form))


def rounded(x: ir.Expr) -> ir.Expr:
    """Returns x unchanged, but hidden from TVM's simplifier.

    The simplifier would merge the sum x with further sums, and so undo its rounding.
    """
    return tirx.reinterpret(dtype_of(x), bits(x))


def identity_if_tiny(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    """Returns `value`, but x itself if x is denormal or a zero of either sign."""
    return tirx.Select(tirx.abs(x) < like(format_of(x).smallest_normal, x), x, value)


def with_slow_path(x: ir.Expr, *, is_slow: Function, fast: Function, slow: Function) -> ir.Expr:
    """Returns `slow(x)` if `is_slow(x)` holds, as it does for few numbers, else `fast(x)`.

    Schedules compute a vector by `fast` if `is_slow` holds for none of its elements. Otherwise they compute its
    elements one by one.
    """
    # The test repeats x, for it stands alone before the vector; TVM's code generation gives both one name.
    return tirx.if_then_else(tirx.likely(tirx.Not(is_slow(x))), let(x, fast), slow(x))


def below_infinity(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    """Returns `value`, but x itself if x is positive infinity or NaN."""
    # `x == x` would be folded to true by TVM's simplifier.
    return tirx.Select(x < like(float("inf"), x), value, x)
