"""The remainder of a division of float32, exact for any quotient, as vector code."""

from __future__ import annotations

from tvm import ir, tirx

from tvtf.ops.kernels.approx import binds_arguments, let, like, named, names_values, with_sign

DIGITS = 28
"""Binary digits of the quotient per step: the product with the divisor's 24 digits fits a float64."""
STEPS = 10
"""Steps for any quotient: that of the largest float32 and the smallest has 277 digits."""


def remainder_single(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes the floating-point remainder of x / y with the sign of x, exactly as C's fmodf.

    Quotients up to 2**(DIGITS - 1) take one step of long division, larger quotients take STEPS.
    """
    # The test repeats x and y, for it stands alone before a vector, as in `approx.with_slow_path`.
    has_long_quotient = tirx.abs(x) > tirx.abs(y) * like(2.0 ** (DIGITS - 1), y)
    return tirx.if_then_else(tirx.likely(tirx.Not(has_long_quotient)), _remainder(x, y, 1), _remainder(x, y, STEPS))


@names_values
def _remainder(x: ir.Expr, y: ir.Expr, steps: int) -> ir.Expr:
    """Computes the float32 remainder of x / y in float64, for a quotient of at most ``steps * DIGITS`` bits."""
    x = named(x)
    size, divisor = tirx.abs(x.astype("float64")), tirx.abs(y.astype("float64"))
    return _with_sign_of_dividend(x, size, divisor, steps)


@binds_arguments
def _with_sign_of_dividend(x: ir.Expr, size: ir.Expr, divisor: ir.Expr, steps: int) -> ir.Expr:
    """Computes the remainder of ``size / divisor``, where ``size`` is |x|, and gives it the sign of ``x``.

    The remainder is NaN for an infinite ``x``, and ``x`` for an infinite divisor. ``steps`` is the number of steps of
    the long division.
    """
    infinity = like(float("inf"), size)
    remainder = let(like(1, divisor) / divisor, lambda inverse: _subtract_multiples(size, divisor, inverse, steps))
    of_infinity = tirx.Select(size < infinity, size, like(float("nan"), size))
    value = tirx.Select(tirx.EQ(divisor, infinity), of_infinity, remainder)
    result = named(value.astype("float32"))
    # NaN, for which the comparison is false, keeps its own sign
    return tirx.Select(result < infinity.astype("float32"), with_sign(result, x), result)


@names_values
def _subtract_multiples(remainder: ir.Expr, divisor: ir.Expr, inverse: ir.Expr, steps: int) -> ir.Expr:
    """Computes a remainder by long division. Each step finds DIGITS bits of the quotient, the highest bits first.

    A step subtracts divisor * quotient bits from ``remainder``. A recursive call does the steps that are left.
    ``inverse`` is 1 / divisor, rounded. So the bits of a step may be one too large, which makes the remainder negative,
    or one too small. The next step corrects this by its own bits, or by negative ones.
    """
    if not steps:
        # An error of one in the last bits leaves a remainder in [-divisor, 2 * divisor).
        positive = named(tirx.Select(remainder < like(0, remainder), remainder + divisor, remainder))
        return tirx.Select(positive >= divisor, positive - divisor, positive)
    scale = 2.0 ** (DIGITS * (steps - 1))
    multiple = tirx.floor(remainder * (inverse * like(1 / scale, remainder)))
    remainder = named(remainder - multiple * (divisor * like(scale, remainder)))
    return _subtract_multiples(remainder, divisor, inverse, steps - 1)
