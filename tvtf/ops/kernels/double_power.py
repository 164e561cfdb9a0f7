"""Powers of float64 as vector code, within one ulp.

2 to the power of the exponent times a logarithm of double precision.

Splittings and polynomials are those of fdlibm's e_pow.c (Sun Microsystems, 1993-2004): numbers are split into a high part of
few bits, whose products are exact, and the rest.
"""

from __future__ import annotations

from tvm import ir, tirx

from tvtf.ops.kernels.approx import (
    at_least,
    at_most,
    binds_arguments,
    bits,
    let,
    like,
    named,
    names_values,
    polynomial,
    rounded,
)

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


@names_values
def power(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes x to the power y in float64 by vector code within one ulp.

    C's pow computes the result if x or y is zero, denormal, huge or NaN.
    """
    # The test repeats its operands and stands alone before a vector, as in `approx.with_slow_path`. The usual value is bound to a
    # variable before the choice: TVM takes time exponential in the depth of variables bound inside a choice.
    magnitude = tirx.abs(x)
    is_normal = tirx.And(magnitude >= like(SMALLEST_NORMAL, x), magnitude < like(float("inf"), x))
    is_usual = tirx.And(is_normal, tirx.abs(y) <= like(MOST_EXPONENT, y))
    usual = named(_power_of_normal(x, y))
    return tirx.if_then_else(tirx.likely(is_usual), usual, tirx.pow(x, y))


@binds_arguments
def _power_of_normal(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes x to the power y in float64. |x| must be a normal number and y must not be huge.

    The magnitude of the result is the power of |x|. Its sign depends on whether y is odd.
    """
    is_negative = x < like(0.0, x)
    is_whole = tirx.EQ(tirx.floor(y), y)

    def is_odd_if_doubled(half_exponent: ir.Expr) -> ir.Expr:
        """Returns whether the exponent is odd: it is whole, and its half has a fraction."""
        return tirx.And(is_whole, tirx.floor(half_exponent) < half_exponent)

    is_odd = let(y * like(0.5, y), is_odd_if_doubled)

    def with_sign(magnitude: ir.Expr) -> ir.Expr:
        """Returns the magnitude, negated if the base is negative and the exponent odd."""
        return tirx.Select(tirx.And(is_negative, is_odd), magnitude * like(-1.0, magnitude), magnitude)

    value = let(_power_from_bits(bits(tirx.abs(x)), y), with_sign)
    # A negative base has no real power if the exponent isn't whole.
    has_no_power = tirx.And(is_negative, tirx.Not(is_whole))
    return tirx.Select(has_no_power, like(float("nan"), x), value)


@binds_arguments
def _power_from_bits(base_bits: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Computes a float64 power from the bits of the base's magnitude, which is split into 2**n * m.

    The mantissa m is near 1 or near 1.5 (the reference). For the logarithm only the distance to the reference matters.

    Args:
      base_bits: the bits of the base's magnitude.
      exponent: the exponent.
    """
    mantissa = base_bits & _int64(MANTISSA)
    is_near_two = mantissa >= _int64(BELOW_TWO)
    is_above_one = mantissa > _int64(ABOVE_ONE)
    is_near_1_5 = tirx.And(is_above_one, tirx.Not(is_near_two))
    carry = tirx.Select(is_near_two, _int64(1), _int64(0))
    n = (base_bits >> _int64(MANTISSA_BITS)) - _int64(BIAS) + carry
    m = tirx.reinterpret("float64", mantissa | ((_int64(BIAS) - carry) << _int64(MANTISSA_BITS)))
    one = like(1.0, exponent)
    log_of_reference = [tirx.Select(is_near_1_5, like(part, exponent), like(0.0, exponent)) for part in LOG_OF_BASE]
    reference = tirx.Select(is_near_1_5, like(1.5, exponent), one)
    log_high, log_low = _logarithm(m, reference, n.astype("float64"), *log_of_reference)
    return _power_of_two_parts(log_high, log_low, exponent)


def _logarithm(
    m: ir.Expr, reference: ir.Expr, n: ir.Expr, reference_log: ir.Expr, reference_log_low: ir.Expr
) -> tuple[ir.Expr, ir.Expr]:
    """Computes the base-2 logarithm of 2**n * m as a high and a low part; values are named in the caller.

    ``reference`` is the number 1 or 1.5 near m. Its logarithm is given in two parts.
    """
    m, reference, n, reference_log, reference_log_low = map(named, (m, reference, n, reference_log, reference_log_low))
    difference, inverse = named(rounded(m - reference)), named(like(1.0, m) / (m + reference))
    total = named(_high(m + reference))
    # s = (m - reference) / (m + reference); each quantity has a high part, and a low part that the high part lacks
    s = named(difference * inverse)
    total_low = named(m - rounded(total - reference))
    s_high = named(_high(s))
    s_low = named(inverse * (rounded(difference - s_high * total) - s_high * total_low))
    # The logarithm is s times the series 3 + z + z^2 p(z) with z = s^2.
    high_square, z = named(s_high * s_high), named(s * s)
    # s_low * (s_high + s) is s^2 - high_square
    series_low = named(z * z * polynomial(z, LOG) + s_low * (s_high + s))
    three = like(3.0, s)
    series_high = named(_high(rounded(three + high_square) + series_low))
    rest_of_series = series_low - rounded(rounded(series_high - three) - high_square)
    product = named(s_high * series_high)
    product_low = named(s_low * series_high + rest_of_series * s)
    product_high = named(_high(product + product_low))
    rest_of_product = product_low - rounded(product_high - product)
    # The product is scaled to a base-2 logarithm.
    scaled = named(like(SCALE_HIGH, product_high) * product_high)
    scaled_low = named(
        like(SCALE_LOW, product_high) * product_high + rest_of_product * like(SCALE, product_high) + reference_log_low
    )
    # `n` and the reference's logarithm are added to it
    log_high = named(_high(rounded(rounded(scaled + scaled_low) + reference_log) + n))
    return log_high, scaled_low - rounded(rounded(rounded(log_high - n) - reference_log) - scaled)


@names_values
def _power_of_two_parts(high: ir.Expr, low: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``exponent * (high + low)``, where ``high + low`` is a logarithm in two parts.

    The exponent is split into two parts, too. Then the product of both high parts is exact.
    """
    high_exponent, low = named(_high(exponent)), named(low)
    return _exp2_of_sum((exponent - high_exponent) * high + exponent * low, high_exponent * high)


@binds_arguments
def _exp2_of_sum(small: ir.Expr, large: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``small + large``: infinity above MOST, 0 below LEAST."""
    z = named(small + large)
    bounded = at_least(at_most(z, MOST), LEAST)
    regular = _exp2_of_bounded(tirx.floor(bounded + like(0.5, z)), small, large)
    least = tirx.Select(z < like(LEAST, z), like(0.0, z), regular)
    return tirx.Select(z > like(MOST, z), like(float("inf"), z), least)


@binds_arguments
def _exp2_of_bounded(n: ir.Expr, small: ir.Expr, large: ir.Expr) -> ir.Expr:
    """Computes 2 to the power of ``small + large``, which is the whole number ``n`` plus a fraction.

    The names u, v, z, w and r are those of fdlibm's ``e_pow.c``: z + w is the fraction times ln 2 in two parts, of which w
    has the digits that z lost by rounding.
    """
    large_fraction = named(rounded(large - n))
    fraction_high = named(_high(small + large_fraction))
    fraction_low = small - rounded(fraction_high - large_fraction)
    # The fraction times ln 2, which has a high and a low part, too.
    u = named(fraction_high * like(LN2_HIGH, fraction_high))
    v = named(fraction_low * like(LN2, fraction_high) + fraction_high * like(LN2_LOW, fraction_high))
    z = named(u + v)
    w = v - rounded(z - u)
    # exp(z + w) - 1 is z - r
    correction = let(z * z, lambda square: square * polynomial(square, EXP))
    r = named(_rest_of_exponential(z - correction, w, z=z))
    more = named(rounded(z - r))
    one = like(1.0, z)
    lost_by_more = rounded(rounded(z - more) - r)

    def with_lost_digits(total: ir.Expr) -> ir.Expr:
        lost_by_total = rounded(more - rounded(total - one))
        return total + (lost_by_total + lost_by_more)

    return _scaled(let(rounded(one + more), with_lost_digits), n)


@binds_arguments
def _rest_of_exponential(t: ir.Expr, w: ir.Expr, *, z: ir.Expr) -> ir.Expr:
    """Computes r in exp(z + w) - 1 = z - r, for a small ``w`` and ``t`` = z - z^2 p(z^2)."""
    return z * t / (t - like(2.0, z)) - (z * w + w)


@names_values
def _scaled(value: ir.Expr, n: ir.Expr) -> ir.Expr:
    """Multiplies a float64 by 2**n in two steps, by 2**(n / 2) each. 2**n itself may overflow or underflow."""
    n = named(n.astype("int64"))
    half = n >> _int64(1)
    return value * _power_of_two(half) * _power_of_two(n - half)


def _power_of_two(n: ir.Expr) -> ir.Expr:
    """Returns 2**n for an int64 n, by its bits."""
    return tirx.reinterpret("float64", (n + _int64(BIAS)) << _int64(MANTISSA_BITS))


def _high(x: ir.Expr) -> ir.Expr:
    """Clears the last 32 bits of a float64; the product of two such numbers is exact."""
    return tirx.reinterpret("float64", bits(x) & _int64(HIGH_WORD))


def _int64(value: int) -> ir.Expr:
    """Returns an int64 constant."""
    return tirx.const(value, "int64")
