"""The remainder of a division of float32, exact for any quotient, as vector code."""

from __future__ import annotations

from tvm import ir, tirx

from tvtf.ops.kernels.approx import let, like, with_sign

DIGITS = 28
"""Binary digits of the quotient per step: the product with the divisor's 24 digits fits a float64."""
STEPS = 10
"""Steps for any quotient: that of the largest float32 and the smallest has 277 digits."""


def remainder_single(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes the remainder of x / y with the sign of x: C's fmodf, bit for bit."""
    # Repeated for the test stands alone before a vector, as in `approx.unless`.
    has_long_quotient = tirx.abs(x) > tirx.abs(y) * like(2.0 ** (DIGITS - 1), y)
    return tirx.if_then_else(tirx.likely(tirx.Not(has_long_quotient)), _remainder(x, y, 1), _remainder(x, y, STEPS))


def _remainder(x: ir.Expr, y: ir.Expr, steps: int) -> ir.Expr:
    """Computes the remainder of x / y in float64, for a quotient of at most ``steps`` times DIGITS binary digits."""

    def with_divisor(x: ir.Expr, size: ir.Expr) -> ir.Expr:
        return let(tirx.abs(y.astype("float64")), lambda divisor: _with_sign_of_dividend(x, size, divisor, steps))

    return let(x, lambda x: let(tirx.abs(x.astype("float64")), lambda size: with_divisor(x, size)))


def _with_sign_of_dividend(x: ir.Expr, size: ir.Expr, divisor: ir.Expr, steps: int) -> ir.Expr:
    """Returns the remainder of ``size`` = |x| by the divisor with the sign of ``x``.

    It is NaN for an infinite ``x``, and ``x`` itself for an infinite divisor.
    """
    infinity = like(float("inf"), size)
    remainder = let(like(1, divisor) / divisor, lambda inverse: _subtract_multiples(size, divisor, inverse, steps))
    of_infinity = tirx.Select(size < infinity, size, like(float("nan"), size))
    value = tirx.Select(tirx.EQ(divisor, infinity), of_infinity, remainder)
    return let(
        value.astype("float32"),
        lambda r: tirx.Select(r < infinity.astype("float32"), with_sign(r, x), r),
    )


def _subtract_multiples(remainder: ir.Expr, divisor: ir.Expr, inverse: ir.Expr, steps: int) -> ir.Expr:
    """Subtracts multiples of the divisor from a number, for DIGITS binary digits of the quotient at each step.

    A digit may be one too large; the next step, or the last one, corrects that.
    """
    if not steps:
        made_positive = lambda r: tirx.Select(r < like(0, r), r + divisor, r)  # noqa: E731
        return let(made_positive(remainder), lambda r: tirx.Select(r >= divisor, r - divisor, r))
    scale = 2.0 ** (DIGITS * (steps - 1))
    multiple = tirx.floor(remainder * (inverse * like(1 / scale, remainder)))
    return let(
        remainder - multiple * (divisor * like(scale, remainder)),
        lambda left: _subtract_multiples(left, divisor, inverse, steps - 1),
    )
