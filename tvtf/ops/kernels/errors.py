"""The error function, its complement and inverse, and powers as vector code.

Polynomials were fitted for tvtf: interpolation at Chebyshev nodes in 150 digits.
"""

from __future__ import annotations

from tvm import ir, tirx

from tvtf.ops.kernels.approx import (
    DOUBLE,
    at_most,
    binds_arguments,
    bits,
    clamped,
    elementary,
    format_of,
    let,
    like,
    named,
    names_values,
    odd,
    odd_quotient,
    polynomial,
    reflected_if,
    through_double,
)
from tvtf.ops.kernels.fastmath import exp, log

# erf(x) = x p(x^2) for |x| <= 1
ERF_DOUBLE = (
    -7.795898827002142e-10, 1.3720064546777686e-8, -1.6208483801871705e-7, 1.6447424703317362e-6,
    -1.492473690741966e-5, 1.2055294904839707e-4, -8.548325975389692e-4, 5.2239776071164225e-3,
    -2.686617064323777e-2, 1.1283791670945006e-1, -3.7612638903183543e-1, 1.1283791670955126,
)  # fmt: skip
# erf(x) = x p(x^2) / q(x^2) for |x| <= 3.925: relative error below 2e-8
ERF_ABOVE = (
    2.046556650536074e-6, 2.8480666521957804e-4, 3.7704551259185894e-3, 5.2762907637770579e-2, 1.905437174143365e-1,
    1.1283791459411814,
)  # fmt: skip
ERF_BELOW = (
    3.805130493399567e-5, 1.16336791550453e-3, 1.4979007830988315e-2, 1.1416224428858809e-1, 5.0219771090992021e-1, 1.0,
)  # fmt: skip
ERF_IS_ONE = 3.925
# (1 + 2 x) exp(x^2) erfc(x) = p((x - 3.75) / (x + 3.75)) on [0.45, 28]; the form is Shepherd and Laframboise's (1981)
ERFC = (
    8.292895436816113e-9, -1.669446597457908e-7, -3.118062574491146e-8, 1.6445838433008863e-6, -9.97893910251393e-7,
    -1.13719905724463e-5, 2.2397705483120354e-5, 5.1619171393679924e-5, -2.90158662587693e-4, 2.937214232374466e-4,
    1.755626810305617e-3, -9.746580789720648e-3, 2.836227730063126e-2, -5.86933984768269e-2, 9.230432116831101e-2,
    -1.0880393014701371e-1, 8.227673848990395e-2, 3.5854154855600204e-3, -1.4024059858554483e-1, 1.2375126308378273,
)  # fmt: skip
ERFC_CENTRE, ERFC_IS_ZERO = 3.75, 28.0
# the same with 3 for 3.75 on [0, 10.1], and erf(x) = x p(x^2) for |x| <= 0.5: relative errors below 3e-9
ERFC_SINGLE = (
    -2.773269222233205e-4, -7.983391415426612e-4, 1.9944745913543795e-3, 2.579434684940475e-3, -2.379023418287967e-2,
    6.829350976215444e-2, -1.1927265270268238e-1, 1.2964657564436363e-1, -4.756228053505264e-2, -1.3562114337320352e-1,
    1.2530080578307996,
)  # fmt: skip
ERF_NEAR_SINGLE = (
    4.7188918862749235e-3, -2.6757649190498018e-2, 1.1282830307463262e-1, -3.761260896064194e-1, 1.1283791655988538,
)  # fmt: skip
ERFC_SINGLE_CENTRE, ERFC_SINGLE_IS_ZERO, LEADING_BITS = 3.0, 10.1, -4096
# exp(d) for |d| < 0.1
EXP_OF_LITTLE = (1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
# erfinv(x) = x p(w) with w = -log(1 - x^2) <= 5, and x q(sqrt(w)) up to the w of the last float32: within 2e-9
ERFINV_NEAR = (
    1.2346577114502573e-10, -2.9612460261028082e-9, 2.072803054987327e-8, 6.466321027721052e-8, -1.5175960280333922e-6,
    3.331105346921971e-6, 4.456915706736076e-5, -1.261178285939345e-4, -2.336144427612425e-3, 1.1549628771727806e-2,
    2.320136360489977e-1, 8.862269259834256e-1,
)  # fmt: skip
ERFINV_FAR = (
    -9.53840916645205e-7, 1.168844626785534e-6, 6.020752635488202e-4, -1.2757087993055737e-2, 1.326816320670694e-1,
    -8.483576930240545e-1, 3.5836585354227593, -10.197237557020564, 19.2462824077859, -22.781254536670787,
    15.826237246889786, -3.8902643639707173,
)  # fmt: skip


@elementary
def erf(x: ir.Expr) -> ir.Expr:
    """Computes the error function within 6 ulp in float32, 4 in float64."""
    return _erf_double(x) if format_of(x) is DOUBLE else _erf_single(x)


def _erf_single(x: ir.Expr) -> ir.Expr:
    """Computes erf of a float32 as a quotient of polynomials; it is 1 if ``x`` is at least ERF_IS_ONE."""
    bounded = clamped(x, -ERF_IS_ONE, ERF_IS_ONE)
    return clamped(odd_quotient(bounded, ERF_ABOVE, ERF_BELOW), -1.0, 1.0)


def _erf_double(x: ir.Expr) -> ir.Expr:
    """Computes erf of a float64: up to 1 by a polynomial, else from its complement."""
    near = let(x * x, lambda z: polynomial(z, ERF_DOUBLE) * x)
    return tirx.Select(tirx.abs(x) < like(1, x), near, odd(x, _erf_of_large))


def _erf_of_large(magnitude: ir.Expr) -> ir.Expr:
    """Computes erf of a float64 of at least 1 from its complement."""
    return like(1, magnitude) - _erfc_of_large(magnitude)


@names_values
def _erfc_of_large(magnitude: ir.Expr) -> ir.Expr:
    """Computes erfc of a float64 of at least 0.45 as exp(-x^2) / (1 + 2 x) times a polynomial.

    Arguments are clamped to ERFC_IS_ZERO, where erfc is 0.
    """
    x = named(at_most(magnitude, ERFC_IS_ZERO))
    centre, one = like(ERFC_CENTRE, x), like(1, x)
    factor = let((x - centre) / (x + centre), lambda t: polynomial(t, ERFC))
    return _gauss(x) * (factor / (one + x + x))


@names_values
def _gauss(x: ir.Expr) -> ir.Expr:
    """Computes exp(-x^2) of a float64.

    The square of x rounded to float32 (the leading digits) is exact in float64. A factor near 1 corrects the result for
    the remaining digits of x.
    """
    leading = named(x.astype("float32").astype("float64"))
    difference = (leading - x) * (leading + x)  # leading^2 - x^2, without the rounding errors of the squares
    # exp(leading^2 - x^2), by a polynomial of degree 2
    correction = let(difference, lambda d: d * (d * like(0.5, d) + like(1, d)) + like(1, d))
    return exp(like(0, x) - leading * leading) * correction


@elementary
def erfc(x: ir.Expr) -> ir.Expr:
    """Computes erfc(x) = 1 - erf(x) within 5 ulp in float32 and 8 in float64, also for large x, where erfc is small.

    Up to |x| = 0.5 it is 1 minus a polynomial, and beyond an approximation of erfc itself.
    """
    one = like(1, x)
    is_double = format_of(x) is DOUBLE
    complement, terms = (_erfc_of_large, ERF_DOUBLE) if is_double else (_erfc_single, ERF_NEAR_SINGLE)

    def of_small(square: ir.Expr) -> ir.Expr:
        return one - polynomial(square, terms) * x

    large = reflected_if(complement(tirx.abs(x)), condition=x < like(0, x), total=2)
    small = let(x * x, of_small)
    return tirx.Select(tirx.abs(x) < like(0.5, x), small, large)


@names_values
def _erfc_single(magnitude: ir.Expr) -> ir.Expr:
    """Computes the complementary error function of a non-negative float32: exp(-x^2) / (1 + 2 x) times a polynomial."""
    x = named(at_most(magnitude, ERFC_SINGLE_IS_ZERO))
    centre, one = like(ERFC_SINGLE_CENTRE, x), like(1, x)
    factor = let((x - centre) / (x + centre), lambda t: polynomial(t, ERFC_SINGLE))
    return _gauss_single(x) * (factor / (one + x + x))


@names_values
def _gauss_single(x: ir.Expr) -> ir.Expr:
    """Computes exp(-x^2) of a float32 as exp(-leading^2) times exp(leading^2 - x^2), a short polynomial."""
    # Without its last 12 bits, x has an exact square in float32.
    leading = named(tirx.reinterpret("float32", bits(x) & tirx.const(LEADING_BITS, "int32")))
    # (leading - x)(leading + x) is the difference of the squares, without their rounding errors
    correction = let((leading - x) * (leading + x), lambda d: polynomial(d, EXP_OF_LITTLE))
    return exp(like(0, x) - leading * leading) * correction


@through_double
def erfinv_single(x: ir.Expr) -> ir.Expr:
    """Computes the inverse error function of a float32 within 1 ulp. It is infinite at -1 and 1, and NaN beyond.

    With w = -log(1 - x^2), one polynomial in w serves up to 5, and one in sqrt(w) beyond.
    """
    one, infinity = like(1, x), like(float("inf"), x)

    def of_square_root(square_root: ir.Expr) -> ir.Expr:
        return polynomial(square_root, ERFINV_FAR)

    def of_logarithm(w: ir.Expr) -> ir.Expr:
        far = let(tirx.sqrt(w), of_square_root)
        return x * tirx.Select(w < like(5, w), polynomial(w, ERFINV_NEAR), far)

    regular = let(like(0, x) - log((one - x) * (one + x)), of_logarithm)
    return tirx.Select(tirx.EQ(tirx.abs(x), one), x * infinity, regular)


def power_single(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes x to the power y in float32 within 1 ulp, as C's powf: exp(y log |x|) in float64."""
    return _power(x.astype("float64"), y.astype("float64")).astype("float32")


@binds_arguments
def _power(x: ir.Expr, y: ir.Expr) -> ir.Expr:
    """Computes x to the power y as exp(y log |x|) in float64.

    Signs, zeros, infinities and NaN follow the rules of C's ``pow``.
    """
    zero = like(0, x)
    one = like(1, x)
    magnitude = exp(y * log(tirx.abs(x)))
    half_exponent = y * like(0.5, y)
    # A whole y is odd if its half has a fraction.
    is_whole = tirx.EQ(tirx.floor(y), y)
    is_odd = tirx.And(is_whole, tirx.floor(half_exponent) < half_exponent)
    has_minus_sign = tirx.reinterpret("int64", x) < tirx.const(0, "int64")
    is_negative = tirx.And(has_minus_sign, is_odd)
    signed = let(magnitude, lambda size: tirx.Select(is_negative, size * like(-1, size), size))
    # A finite negative number has no real power with a fractional exponent.
    is_finite_negative = tirx.And(x < zero, x > like(float("-inf"), x))
    has_no_power = tirx.And(is_finite_negative, tirx.Not(is_whole))
    value = tirx.Select(has_no_power, like(float("nan"), x), signed)
    # 1 to any power, any number to the power 0, and -1 to an infinite power are 1
    is_infinite_power = tirx.EQ(tirx.abs(y), like(float("inf"), y))
    is_unit = tirx.And(tirx.EQ(tirx.abs(x), one), is_infinite_power)
    is_one = tirx.Or(tirx.EQ(x, one), tirx.Or(tirx.EQ(y, zero), is_unit))
    return tirx.Select(is_one, one, value)
