"""Powers of float64 as vector code, within one ulp.

2 to the power of the exponent times a logarithm of double precision.

Splittings and polynomials are those of fdlibm's e_pow.c (Sun Microsystems, 1993-2004): numbers are split into a high part of
few bits, whose products are exact, and the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from tvtf.ops.kernels.approx import at_least, at_most, bits, let, like, polynomial, rounded

HIGH_WORD = -(1 << 32)
MANTISSA_BITS, BIAS, MANTISSA = 52, 1023, (1 << 52) - 1
# Of mantissas above sqrt(3 / 2) and sqrt(3): those between are taken relative to 1.5.
ABOVE_ONE, BELOW_TWO = 0x3988E << 32, 0xBB67A << 32
SMALLEST_NORMAL = 2.0**-1022
# log2(1.5) in two parts
LOG_OF_BASE = (5.84962487220764160156e-01, 1.35003920212974897128e-08)
# log(1 + f) = 2 / 3 s (3 + z + z^2 p(z)) with s = f / (2 + f), z = s^2
LOG = (
    2.06975017800338417784e-01, 2.30660745775561754067e-01, 2.72728123808534006489e-01, 3.33333329818377432918e-01,
    4.28571428578550184252e-01, 5.99999999999994648725e-01,
)  # fmt: skip
# exp(z) = 1 + z - z t / (t - 2) with t = z - z^2 p(z^2)
EXP = (
    4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05, -2.77777777770155933842e-03,
    1.66666666666666019037e-01,
)  # fmt: skip
LN2, LN2_HIGH, LN2_LOW = 6.93147180559945286227e-01, 6.93147182464599609375e-01, -1.90465429995776804525e-09
# 2 / (3 ln 2)
SCALE, SCALE_HIGH, SCALE_LOW = 9.61796693925975554329e-01, 9.61796700954437255859e-01, -7.02846165095275826516e-09
# An exponent beyond gives 0 or infinity for every base but 1.
MOST_EXPONENT = 2.0**64
MOST, LEAST = 1030.0, -1100.0


def power(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes x to the power y; C's pow does where one of them is zero, denormal, huge or NaN."""
    # The test repeats its operands and stands alone before a vector, as in `approx.unless`. What is usual has its name
    # before the choice: TVM takes time exponential in the depth of names bound inside one.
    size, large = tirx.abs(x), like(MOST_EXPONENT, y)
    is_usual = tirx.And(tirx.And(size >= like(SMALLEST_NORMAL, x), size < like(float("inf"), x)), tirx.abs(y) <= large)
    usual = _with((x, y), _usual)
    return let(usual, lambda value: tirx.if_then_else(tirx.likely(is_usual), value, tirx.pow(x, y)))


def _usual(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    is_left = x < like(0.0, x)
    is_whole = tirx.EQ(tirx.floor(y), y)
    is_odd = let(y * like(0.5, y), lambda half: tirx.And(is_whole, tirx.floor(half) < half))
    signed = lambda size: tirx.Select(tirx.And(is_left, is_odd), size * like(-1.0, size), size)  # noqa: E731
    value = let(_with((bits(tirx.abs(x)), y), _of_bits), signed)
    return tirx.Select(tirx.And(is_left, tirx.Not(is_whole)), like(float("nan"), x), value)


def _of_bits(b: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Splits the base into 2**n m, with m near 1 or near 1.5."""
    mantissa = b & _long(MANTISSA)
    near_two, far = mantissa >= _long(BELOW_TWO), mantissa > _long(ABOVE_ONE)
    above = tirx.And(far, tirx.Not(near_two))
    up = tirx.Select(near_two, _long(1), _long(0))
    n = (b >> _long(MANTISSA_BITS)) - _long(BIAS) + up
    m = tirx.reinterpret("float64", mantissa | ((_long(BIAS) - up) << _long(MANTISSA_BITS)))
    one = like(1.0, exponent)
    parts = [tirx.Select(above, like(part, exponent), like(0.0, exponent)) for part in LOG_OF_BASE]
    near = tirx.Select(above, like(1.5, exponent), one)
    return _with(
        (m, near, n.astype("float64"), *parts),
        lambda m, near, n, high, low: _logarithm(m, near, n, high, low, lambda a, b: _product(a, b, exponent)),
    )


def _logarithm(
    m: ir.Expr, near: ir.Expr, n: ir.Expr, of_near: ir.Expr, of_near_low: ir.Expr, body: Callable[..., ir.Expr]
) -> ir.Expr:
    """Computes the base-2 logarithm in two parts and returns ``body`` of them."""

    def quotient(u: ir.Expr, v: ir.Expr, total: ir.Expr) -> ir.Expr:
        rest = m - rounded(total - near)
        return _with((u * v, rest), lambda s, rest: let(_high(s), lambda h: low_part(u, v, s, h, total, rest)))

    def low_part(u: ir.Expr, v: ir.Expr, s: ir.Expr, h: ir.Expr, total: ir.Expr, rest: ir.Expr) -> ir.Expr:
        low = v * (rounded(u - h * total) - h * rest)
        return _with((low, h * h, s * s), lambda low, square, z: series(s, h, low, square, z))

    def series(s: ir.Expr, h: ir.Expr, low: ir.Expr, square: ir.Expr, z: ir.Expr) -> ir.Expr:
        """Computes the logarithm's series as the product of a high and a low part."""
        more = z * z * polynomial(z, LOG) + low * (h + s)
        three = like(3.0, s)

        def factor(more: ir.Expr, t: ir.Expr) -> ir.Expr:
            t_low = more - rounded(rounded(t - three) - square)
            return _with((h * t, low * t + t_low * s), products)

        return let(more, lambda more: let(_high(rounded(three + square) + more), lambda t: factor(more, t)))

    def products(u: ir.Expr, v: ir.Expr) -> ir.Expr:
        """Scales the products' sum to a logarithm of base 2, as a high and a low part."""

        def scaled(high: ir.Expr) -> ir.Expr:
            low = v - rounded(high - u)
            a = like(SCALE_HIGH, high) * high
            b = like(SCALE_LOW, high) * high + low * like(SCALE, high) + of_near_low
            return _with((a, b), total)

        return let(_high(u + v), scaled)

    def total(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        high = _high(rounded(rounded(a + b) + of_near) + n)
        return let(high, lambda high: body(high, b - rounded(rounded(rounded(high - n) - of_near) - a)))

    one = like(1.0, m)
    return _with((rounded(m - near), one / (m + near), _high(m + near)), quotient)


def _product(high: ir.Expr, low: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Computes two to the power of the exponent times a number in two parts."""

    def of_parts(cut: ir.Expr, low: ir.Expr) -> ir.Expr:
        small = (exponent - cut) * high + exponent * low
        return _with((small, cut * high), lambda small, large: let(small + large, lambda z: _exp2(z, small, large)))

    return _with((_high(exponent), low), of_parts)


def _exp2(z: ir.Expr, small: ir.Expr, large: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``small + large``, whose rounded sum is ``z``: infinity above MOST, 0 below LEAST."""
    bounded = at_least(at_most(z, MOST), LEAST)

    def value(n: ir.Expr) -> ir.Expr:
        return let(rounded(large - n), lambda large: let(_high(small + large), lambda t: fraction(t, large, n)))

    def fraction(t: ir.Expr, large: ir.Expr, n: ir.Expr) -> ir.Expr:
        u = t * like(LN2_HIGH, t)
        v = (small - rounded(t - large)) * like(LN2, t) + t * like(LN2_LOW, t)
        return _with((u, v), lambda u, v: let(u + v, lambda z: series(z, v - rounded(z - u), n)))

    def series(z: ir.Expr, w: ir.Expr, n: ir.Expr) -> ir.Expr:
        two = like(2.0, z)
        t = z - let(z * z, lambda square: square * polynomial(square, EXP))
        rest = lambda t, w: z * t / (t - two) - (z * w + w)  # noqa: E731
        return let(_with((t, w), rest), lambda r: let(rounded(z - r), lambda more: ended(z, r, more, n)))

    def ended(z: ir.Expr, r: ir.Expr, more: ir.Expr, n: ir.Expr) -> ir.Expr:
        """Adds one and ``more``, and the errors of two roundings."""
        one = like(1.0, z)
        lost = rounded(rounded(z - more) - r)
        whole = lambda total: total + (rounded(more - rounded(total - one)) + lost)  # noqa: E731
        return _scaled(let(rounded(one + more), whole), n)

    regular = let(tirx.floor(bounded + like(0.5, z)), value)
    least = tirx.Select(z < like(LEAST, z), like(0.0, z), regular)
    return tirx.Select(z > like(MOST, z), like(float("inf"), z), least)


def _scaled(value: ir.Expr, n: ir.Expr) -> ir.Expr:
    """Multiplies by 2**n in two steps, as 2**n itself may overflow or underflow."""

    def steps(n: ir.Expr) -> ir.Expr:
        half = n >> _long(1)
        return value * _power_of_two(half) * _power_of_two(n - half)

    return let(n.astype("int64"), steps)


def _power_of_two(n: ir.Expr) -> ir.Expr:
    return tirx.reinterpret("float64", (n + _long(BIAS)) << _long(MANTISSA_BITS))


def _high(x: ir.Expr) -> ir.Expr:
    """Returns the number without its last 32 bits."""
    return tirx.reinterpret("float64", bits(x) & _long(HIGH_WORD))


def _long(value: int) -> ir.Expr:
    return tirx.const(value, "int64")


def _with(values: Sequence[ir.Expr], body: Callable[..., ir.Expr]) -> ir.Expr:
    """Returns ``body`` of several let-bound values."""
    if not values:
        return body()
    first, *rest = values
    return let(first, lambda x: _with(rest, lambda *others: body(x, *others)))
