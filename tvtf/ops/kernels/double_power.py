"""Powers of float64 as vector code, within one ulp.

2 to the power of the exponent times a logarithm of double precision.

Splittings and polynomials are those of fdlibm's e_pow.c (Sun Microsystems, 1993-2004): numbers are split into a high part of
few bits, whose products are exact, and the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from tvtf.ops.kernels.approx import at_least, at_most, binds_arguments, bits, let, like, polynomial, rounded

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
    """Computes x to the power y in float64 by vector code within one ulp.

    C's pow computes the result if x or y is zero, denormal, huge or NaN.
    """
    # The test repeats its operands and stands alone before a vector, as in `approx.with_slow_path`. The usual value is bound to a
    # variable before the choice: TVM takes time exponential in the depth of variables bound inside a choice.
    magnitude, large = tirx.abs(x), like(MOST_EXPONENT, y)
    is_usual = tirx.And(
        tirx.And(magnitude >= like(SMALLEST_NORMAL, x), magnitude < like(float("inf"), x)), tirx.abs(y) <= large
    )
    usual = _power_of_normal(x, y)
    return let(usual, lambda value: tirx.if_then_else(tirx.likely(is_usual), value, tirx.pow(x, y)))


@binds_arguments
def _power_of_normal(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes x to the power y in float64. |x| must be a normal number and y must not be huge.

    The magnitude of the result is the power of |x|. Its sign depends on whether y is odd.
    """
    is_negative = x < like(0.0, x)
    is_whole = tirx.EQ(tirx.floor(y), y)
    # a whole y is odd if its half has a fraction
    is_odd = let(y * like(0.5, y), lambda half_exponent: tirx.And(is_whole, tirx.floor(half_exponent) < half_exponent))

    def with_sign(magnitude: ir.Expr) -> ir.Expr:
        """Returns the magnitude, negated if the base is negative and the exponent odd."""
        return tirx.Select(tirx.And(is_negative, is_odd), magnitude * like(-1.0, magnitude), magnitude)

    # a negative base has a negative power if the exponent is odd, and none if it isn't whole
    value = let(_power_from_bits(bits(tirx.abs(x)), y), with_sign)
    return tirx.Select(tirx.And(is_negative, tirx.Not(is_whole)), like(float("nan"), x), value)


@binds_arguments
def _power_from_bits(base_bits: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Computes a float64 power from the bits of the base's magnitude, which is split into 2**n * m.

    The mantissa m is near 1 or near 1.5 (the reference). For the logarithm only the distance to the reference matters.
    """
    mantissa = base_bits & _int64(MANTISSA)
    is_near_two, is_above_one = mantissa >= _int64(BELOW_TWO), mantissa > _int64(ABOVE_ONE)
    is_near_1_5 = tirx.And(is_above_one, tirx.Not(is_near_two))
    carry = tirx.Select(is_near_two, _int64(1), _int64(0))
    n = (base_bits >> _int64(MANTISSA_BITS)) - _int64(BIAS) + carry
    m = tirx.reinterpret("float64", mantissa | ((_int64(BIAS) - carry) << _int64(MANTISSA_BITS)))
    one = like(1.0, exponent)
    log_of_reference = [tirx.Select(is_near_1_5, like(part, exponent), like(0.0, exponent)) for part in LOG_OF_BASE]
    reference = tirx.Select(is_near_1_5, like(1.5, exponent), one)

    def from_logarithm(log_high: ir.Expr, log_low: ir.Expr) -> ir.Expr:
        return _power_of_two_parts(log_high, log_low, exponent)

    return _logarithm(m, reference, n.astype("float64"), *log_of_reference, body=from_logarithm)


@binds_arguments
def _logarithm(
    m: ir.Expr,
    reference: ir.Expr,
    n: ir.Expr,
    reference_log: ir.Expr,
    reference_log_low: ir.Expr,
    *,
    body: Callable[..., ir.Expr],
) -> ir.Expr:
    """Computes the base-2 logarithm of 2**n * m as a high and a low part, and returns ``body(high, low)``.

    ``reference`` is the number 1 or 1.5 near m. Its logarithm is given in two parts.
    """

    @binds_arguments
    def quotient(u: ir.Expr, v: ir.Expr, total: ir.Expr) -> ir.Expr:
        """Splits s = (m - reference) / (m + reference) into a high and a low part.

        The series of the logarithm has powers of s.
        """

        @binds_arguments
        def split(s: ir.Expr, total_low: ir.Expr) -> ir.Expr:
            return low_part(u, v, s, _high(s), total, total_low)

        return split(u * v, m - rounded(total - reference))

    @binds_arguments
    def low_part(u: ir.Expr, v: ir.Expr, s: ir.Expr, h: ir.Expr, total: ir.Expr, total_low: ir.Expr) -> ir.Expr:
        """Computes the low part of s, what its high part h lacks."""
        low = v * (rounded(u - h * total) - h * total_low)
        return series(s, h, low, h * h, s * s)

    @binds_arguments
    def series(s: ir.Expr, h: ir.Expr, low: ir.Expr, square: ir.Expr, z: ir.Expr) -> ir.Expr:
        """Multiplies s by the logarithm's series 3 + z + z^2 p(z) with z = s^2. ``h`` is the high part of s.

        The series and the product each have a high and a low part.
        """
        # low * (h + s) is s^2 - h^2, because ``square`` below is that of the high part only
        series_tail = z * z * polynomial(z, LOG) + low * (h + s)
        three = like(3.0, s)

        def multiply(series_tail: ir.Expr, t: ir.Expr) -> ir.Expr:
            t_low = series_tail - rounded(rounded(t - three) - square)  # what the high part t of the series lacks
            return products(h * t, low * t + t_low * s)

        def with_tail(tail: ir.Expr) -> ir.Expr:
            return let(_high(rounded(three + square) + tail), lambda t: multiply(tail, t))

        return let(series_tail, with_tail)

    @binds_arguments
    def products(u: ir.Expr, v: ir.Expr) -> ir.Expr:
        """Scales the sum ``u + v`` of a large and a small product to a base-2 logarithm.

        The scale and the logarithm each have a high and a low part, which keeps more bits than one float64 has.
        """

        def scaled(high: ir.Expr) -> ir.Expr:
            low = v - rounded(high - u)
            a = like(SCALE_HIGH, high) * high
            b = like(SCALE_LOW, high) * high + low * like(SCALE, high) + reference_log_low
            return total(a, b)

        return let(_high(u + v), scaled)

    @binds_arguments
    def total(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        """Adds ``n`` and the reference's logarithm to the logarithm ``a + b``, and splits the sum into two parts."""

        def split(high: ir.Expr) -> ir.Expr:
            return body(high, b - rounded(rounded(rounded(high - n) - reference_log) - a))

        return let(_high(rounded(rounded(a + b) + reference_log) + n), split)

    one = like(1.0, m)
    return quotient(rounded(m - reference), one / (m + reference), _high(m + reference))


def _power_of_two_parts(high: ir.Expr, low: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``exponent * (high + low)``, where ``high + low`` is a logarithm in two parts.

    The exponent is split into two parts, too. Then the product of both high parts is exact.
    """

    @binds_arguments
    def multiply(high_exponent: ir.Expr, low: ir.Expr) -> ir.Expr:
        return _exp2_of_sum((exponent - high_exponent) * high + exponent * low, high_exponent * high)

    return multiply(_high(exponent), low)


@binds_arguments
def _exp2_of_sum(small: ir.Expr, large: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``small + large``."""
    return let(small + large, lambda z: _exp2(z, small, large))


def _exp2(z: ir.Expr, small: ir.Expr, large: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``small + large``, whose rounded sum is ``z``: infinity above MOST, 0 below LEAST."""
    bounded = at_least(at_most(z, MOST), LEAST)

    def value(n: ir.Expr) -> ir.Expr:
        """Computes the power, whose exponent is split into the whole number ``n`` and a fraction."""

        def with_fraction(large_fraction: ir.Expr) -> ir.Expr:
            return let(_high(small + large_fraction), lambda t: fraction(t, large_fraction, n))

        return let(rounded(large - n), with_fraction)

    def fraction(t: ir.Expr, large: ir.Expr, n: ir.Expr) -> ir.Expr:
        """Multiplies the fraction, whose high part is ``t``, by ln 2."""

        @binds_arguments
        def add(u: ir.Expr, v: ir.Expr) -> ir.Expr:
            return let(u + v, lambda z: series(z, v - rounded(z - u), n))

        return add(t * like(LN2_HIGH, t), (small - rounded(t - large)) * like(LN2, t) + t * like(LN2_LOW, t))

    def series(z: ir.Expr, w: ir.Expr, n: ir.Expr) -> ir.Expr:
        """Computes exp(z + w) - 1 = z - r for a small ``w``, and the power from it."""

        @binds_arguments
        def rest(t: ir.Expr, w: ir.Expr) -> ir.Expr:
            return z * t / (t - like(2.0, z)) - (z * w + w)

        t = z - let(z * z, lambda square: square * polynomial(square, EXP))
        return let(rest(t, w), lambda r: let(rounded(z - r), lambda more: ended(z, r, more, n)))

    def ended(z: ir.Expr, r: ir.Expr, more: ir.Expr, n: ir.Expr) -> ir.Expr:
        """Computes 1 + ``more``, plus the errors of two roundings, and multiplies the sum by 2**n."""
        one = like(1.0, z)
        lost = rounded(rounded(z - more) - r)

        def with_lost_digits(total: ir.Expr) -> ir.Expr:
            return total + (rounded(more - rounded(total - one)) + lost)

        return _scaled(let(rounded(one + more), with_lost_digits), n)

    regular = let(tirx.floor(bounded + like(0.5, z)), value)
    least = tirx.Select(z < like(LEAST, z), like(0.0, z), regular)
    return tirx.Select(z > like(MOST, z), like(float("inf"), z), least)


def _scaled(value: ir.Expr, n: ir.Expr) -> ir.Expr:
    """Multiplies a float64 by 2**n in two steps, by 2**(n / 2) each. 2**n itself may overflow or underflow."""

    def in_two_steps(n: ir.Expr) -> ir.Expr:
        half = n >> _int64(1)
        return value * _power_of_two(half) * _power_of_two(n - half)

    return let(n.astype("int64"), in_two_steps)


def _power_of_two(n: ir.Expr) -> ir.Expr:
    """Returns 2**n for an int64 n, by its bits."""
    return tirx.reinterpret("float64", (n + _int64(BIAS)) << _int64(MANTISSA_BITS))


def _high(x: ir.Expr) -> ir.Expr:
    """Clears the last 32 bits of a float64; the product of two such numbers is exact."""
    return tirx.reinterpret("float64", bits(x) & _int64(HIGH_WORD))


def _int64(value: int) -> ir.Expr:
    """Returns an int64 constant."""
    return tirx.const(value, "int64")
