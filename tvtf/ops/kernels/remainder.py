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
    is_long = tirx.abs(x) > tirx.abs(y) * like(2.0 ** (DIGITS - 1), y)
    return tirx.if_then_else(tirx.likely(tirx.Not(is_long)), _remainder(x, y, 1), _remainder(x, y, STEPS))


def _remainder(x: ir.Expr, y: ir.Expr, steps: int) -> ir.Expr:
    """Computes the remainder for a quotient of at most ``steps`` steps."""

    def of_sizes(x: ir.Expr, size: ir.Expr) -> ir.Expr:
        return let(tirx.abs(y.astype("float64")), lambda divisor: _signed(x, size, divisor, steps))

    return let(x, lambda x: let(tirx.abs(x.astype("float64")), lambda size: of_sizes(x, size)))


def _signed(x: ir.Expr, size: ir.Expr, divisor: ir.Expr, steps: int) -> ir.Expr:
    """Returns the remainder of the sizes with the sign of ``x``: NaN for an infinite ``x``, ``x`` itself by infinity."""
    infinity = like(float("inf"), size)
    rest = let(like(1, divisor) / divisor, lambda inverse: _rest(size, divisor, inverse, steps))
    of_infinity = tirx.Select(size < infinity, size, like(float("nan"), size))
    value = tirx.Select(tirx.EQ(divisor, infinity), of_infinity, rest)
    return let(
        value.astype("float32"), lambda rest: tirx.Select(rest < infinity.astype("float32"), with_sign(rest, x), rest)
    )


def _rest(rest: ir.Expr, divisor: ir.Expr, inverse: ir.Expr, steps: int) -> ir.Expr:
    """Subtracts multiples of the divisor, highest digits first.

    A digit may be one too large; the next step, or the last one, corrects that.
    """
    if not steps:
        lifted = lambda r: tirx.Select(r < like(0, r), r + divisor, r)  # noqa: E731
        return let(lifted(rest), lambda r: tirx.Select(r >= divisor, r - divisor, r))
    scale = 2.0 ** (DIGITS * (steps - 1))
    count = tirx.floor(rest * (inverse * like(1 / scale, rest)))
    return let(rest - count * (divisor * like(scale, rest)), lambda left: _rest(left, divisor, inverse, steps - 1))
