"""Circular functions and their inverses as vector code, within a few ulp, in float32 also for large angles.

Polynomials were fitted for tvtf: interpolation at Chebyshev nodes in 150 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi

from tvm import ir, tirx

from tvtf.ops.kernels.approx import (
    DOUBLE,
    Function,
    binds_arguments,
    bits,
    dtype_of,
    elementary,
    format_of,
    integer,
    let,
    like,
    named,
    names_values,
    odd,
    odd_series,
    polynomial,
    reflected_if,
    shifted,
    whole,
    with_sign,
    with_slow_path,
)

# sin(r) = r + r z p(z) and cos(r) = 1 - z / 2 + z^2 q(z) with z = r^2, for |r| <= pi / 4
SIN_SINGLE = (-1.958537320669302e-4, 8.33273655917713e-3, -1.6666664601754114e-1)
COS_SINGLE = (2.4545419078353295e-5, -1.3888291300556933e-3, 4.166666459882798e-2)
SIN_DOUBLE = (
    -7.586094789672621e-13, 1.6058521349954986e-10, -2.5052106167335705e-8, 2.7557319219150783e-6,
    -1.9841269841264821e-4, 8.333333333333331e-3, -1.6666666666666666e-1,
)  # fmt: skip
COS_DOUBLE = (
    4.745537017319258e-14, -1.1470455178216906e-11, 2.0876755754879594e-9, -2.755731922129809e-7,
    2.480158730158451e-5, -1.3888888888888887e-3, 4.1666666666666664e-2,
)  # fmt: skip
# atan(t) = t + t z p(z) with z = t^2, for |t| <= tan(pi / 8)
ATAN = {
    "float32": (
        -6.44950408657861e-2, 1.0742999646672247e-1, -1.4263887848655615e-1, 1.9999538527101737e-1,
        -3.3333331752651135e-1,
    ),
    "float64": (
        -1.3903341449209955e-2, 3.0620984426996806e-2, -4.103800661872023e-2, 4.719237666374533e-2,
        -5.25801689898033e-2, 5.881922707619694e-2, -6.666641845178171e-2, 7.692306728114211e-2, -9.09090906678527e-2,
        1.1111111110750965e-1, -1.4285714285711487e-1, 1.9999999999999993e-1, -3.333333333333333e-1,
    ),
}  # fmt: skip
# asin(t) = t + t z p(z) with z = t^2, for |t| <= 1 / 2
ASIN = {
    "float32": (
        3.371555206761416e-2, 1.7135426450175198e-2, 3.110332781645122e-2, 4.459919537178034e-2, 7.500095088488415e-2,
        1.6666666335200928e-1,
    ),
    "float64": (
        2.966958634580227e-2, -1.9331442635312467e-2, 1.9616311323511427e-2, 3.0201597709223348e-3,
        9.325924319169168e-3, 9.620740046007272e-3, 1.1566590456413265e-2, 1.3963769422268372e-2,
        1.7352817112618216e-2, 2.2372157423732685e-2, 3.0381944475937225e-2, 4.464285714254761e-2,
        7.500000000000119e-2, 1.6666666666666666e-1,
    ),
}  # fmt: skip
TAN_PI_8 = 2**0.5 - 1
# pi / 2 in parts: products of the first two with numbers below 2**27 are exact in float64.
HALF_PI = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)
LARGE_ANGLE = 2.0**27
# Products of the first two float32 with numbers below 2**12 are exact.
SMALL_HALF_PI = {"float32": (1.5703125, 4.83751296997e-4, 7.549789954891882e-8), "float64": HALF_PI}
# The first 192 binary digits of 1 / (2 pi).
TURN_DIGITS = (0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410)


def _reduced_angle(x: ir.Expr, is_small: bool = False) -> tuple[ir.Expr, ir.Expr]:
    """Reduces an angle to x = remainder + quadrant * pi / 2 with |remainder| <= pi / 4, and returns both.

    The remainder is a float64, the quadrant an int64, named in the caller. A large float32 is first reduced by Payne and
    Hanek's method. The multiple of pi / 2 is subtracted in three parts (Cody and Waite's reduction) to keep the
    remainder accurate.

    Args:
        x: the angle in radians, float32 or float64.
        is_small: whether the caller only passes angles below 2**27; beyond, the direct remainder loses accuracy.
    """
    angle = x.astype("float64")
    if not is_small and format_of(x) is not DOUBLE:
        is_in_range = tirx.abs(x) < like(LARGE_ANGLE, x)
        angle = tirx.Select(is_in_range, angle, _reduce_large_angle(x))
    angle = named(angle)
    # The low bits are those of the quadrant.
    quadrant_bits = named(shifted(angle * like(2 / pi, angle), 0))
    first, second, third = (like(constant, angle) for constant in HALF_PI)

    def less_quadrants(count: ir.Expr) -> ir.Expr:
        return angle - count * first - count * second - count * third

    remainder = let(whole(quadrant_bits, DOUBLE, 0), less_quadrants)
    return named(remainder), quadrant_bits


def _reduce_large_angle(x: ir.Expr) -> ir.Expr:
    """Reduces a float32 angle of at least 2**23 to [-pi, pi] by Payne and Hanek's method (1983). The error is 2**-38.

    The angle is m * 2**e. Only the fraction of m * 2**e / (2 pi) matters, because whole turns change nothing. The
    fraction is m times the 64 bits of 1 / (2 pi) starting at bit e.
    """
    reduced_magnitude = let(bits(x) & tirx.const(0x7FFFFFFF, "int32"), _angle_from_bits)
    return reflected_if(reduced_magnitude, condition=x < like(0, x), total=0)


@names_values
def _angle_from_bits(magnitude_bits: ir.Expr) -> ir.Expr:
    """Reduces a positive float32 angle, given by its bits, to the equivalent float64 angle in [-pi, pi].

    The angle is multiplied by 1 / (2 pi) in 64-bit integers. Their overflow drops whole turns.
    """
    # The exponent of the last mantissa bit: 150 is the bias 127 plus the 23 bits of the mantissa.
    biased_exponent = magnitude_bits >> tirx.const(23, "int32")
    exponent = named(tirx.max(biased_exponent - tirx.const(150, "int32"), tirx.const(0, "int32")))
    # A float's leading bit of 1 isn't stored.
    stored_mantissa = magnitude_bits & tirx.const(0x7FFFFF, "int32")
    mantissa = (stored_mantissa | tirx.const(0x800000, "int32")).astype("uint64")
    first, second, third = (tirx.const(digits, "uint64") for digits in TURN_DIGITS)
    # The mantissa is multiplied by 64 bits of 1 / (2 pi), starting at the exponent, modulo one turn (2**64).
    is_in_later_word = exponent >= tirx.const(64, "int32")
    shift = (exponent & tirx.const(63, "int32")).astype("uint64")
    high = tirx.Select(is_in_later_word, second, first)
    low = tirx.Select(is_in_later_word, third, second)

    def window_at(shift: ir.Expr) -> ir.Expr:
        """Returns 64 bits of the 128 bits of ``high`` and ``low``, starting at bit ``shift``."""
        # A shift by 64 bits is undefined. So the low word is shifted by one bit first, then by at most 63.
        half_low = low >> tirx.const(1, "uint64")
        return (high << shift) | (half_low >> (tirx.const(63, "uint64") - shift))

    turns = (mantissa * let(shift, window_at)).astype("int64").astype("float64")  # in units of 2**-64
    return turns * tirx.const(2 * pi / 2.0**64, "float64")


def _sine(r: ir.Expr) -> ir.Expr:
    """Computes the sine of |r| <= pi / 4 by a polynomial."""
    return odd_series(r, SIN_DOUBLE if format_of(r) is DOUBLE else SIN_SINGLE)


@names_values
def _cosine(r: ir.Expr) -> ir.Expr:
    """Computes the cosine of |r| <= pi / 4 by a polynomial."""
    terms = COS_DOUBLE if format_of(r) is DOUBLE else COS_SINGLE
    square = named(r * r)
    return polynomial(square, terms) * square * square + (like(1, r) - square * like(0.5, r))


def _is_odd_quadrant(quadrant: ir.Expr) -> ir.Expr:
    """Returns whether a quadrant's index is odd; in odd quadrants sine and cosine are exchanged."""
    return tirx.EQ(quadrant & tirx.const(1, "int64"), tirx.const(1, "int64"))


def _shifted_sine(x: ir.Expr, quadrants_ahead: int, is_small: bool = False) -> ir.Expr:
    """Computes the sine of x + quadrants_ahead * pi / 2. The result is NaN where x is infinite.

    With ``quadrants_ahead`` 0 it is the sine of x, with 1 the cosine.
    """
    return _finite_only(x, _sine_of_finite(x, quadrants_ahead, is_small))


@names_values
def _sine_of_finite(x: ir.Expr, quadrants_ahead: int, is_small: bool) -> ir.Expr:
    """Computes the sine of x + quadrants_ahead * pi / 2 for a finite x."""
    remainder, quadrant = _reduced_angle(x, is_small)
    turned = quadrant + tirx.const(quadrants_ahead, "int64")

    def cosine_or_sine(angle: ir.Expr) -> ir.Expr:
        return tirx.Select(_is_odd_quadrant(turned), _cosine(angle), _sine(angle))

    value = let(remainder.astype(dtype_of(x)), cosine_or_sine)
    # The sine is negative in the third and fourth quadrant (2 and 3 modulo 4), which have bit 1 set.
    is_negative = tirx.EQ(turned & tirx.const(2, "int64"), tirx.const(2, "int64"))
    return reflected_if(value, condition=is_negative, total=0)


def of_small_angle(bind: Function, x: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Computes the sine and the cosine of an angle of at most a few turns, as a pair.

    ``bind`` binds a subexpression to a variable, and returns the variable. Both results share these subexpressions.
    """
    form = format_of(x)
    # Adding the shifter rounds the quotient to an integer in the lowest bits.
    quadrant_bits = bind(bits(x * like(2 / pi, x) + like(form.shifter, x)))
    # The sum of the three constants is pi / 2, with more bits than one constant has.
    first, second, third = (like(constant, x) for constant in SMALL_HALF_PI[form.dtype])
    quadrant_number = bind(whole(quadrant_bits, form, 0))
    remainder = bind(x - quadrant_number * first - quadrant_number * second - quadrant_number * third)
    sine, cosine = bind(bits(_sine(remainder))), bind(bits(_cosine(remainder)))
    one = integer(1, form)

    def sine_of_quadrant(quadrant: ir.Expr) -> ir.Expr:
        """Selects sine or cosine and its sign by bit operations: with conditions, TVM would use 64-bit integers."""
        odd_mask = integer(0, form) - (quadrant & one)
        sign = (quadrant & integer(2, form)) << integer(form.sign_bit - 1, form)
        return tirx.reinterpret(form.dtype, (sine ^ ((sine ^ cosine) & odd_mask)) ^ sign)

    return sine_of_quadrant(quadrant_bits), sine_of_quadrant(bind(quadrant_bits + one))


def _finite_only(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    """Returns ``value``, or NaN where ``x`` is infinite or NaN."""
    return tirx.Select(tirx.abs(x) < like(float("inf"), x), value, like(float("nan"), x))


def _sine_of(x: ir.Expr, is_small: bool = False) -> ir.Expr:
    """Computes the sine of any angle; zeros keep their sign."""
    return tirx.Select(tirx.EQ(x, like(0, x)), x, _shifted_sine(x, 0, is_small))


def _cosine_of(x: ir.Expr, is_small: bool = False) -> ir.Expr:
    """Computes the cosine of any angle, the sine of a quarter turn more."""
    return _shifted_sine(x, 1, is_small)


def _tangent_of(x: ir.Expr, is_small: bool = False) -> ir.Expr:
    """Computes the tangent of any angle from the sine and the cosine of the remainder after whole quadrants.

    It is sine / cosine in even quadrants, and -cosine / sine in odd ones. Zeros keep their sign.
    """
    return tirx.Select(tirx.EQ(x, like(0, x)), x, _finite_only(x, _tangent_of_finite(x, is_small)))


@names_values
def _tangent_of_finite(x: ir.Expr, is_small: bool) -> ir.Expr:
    """Computes the tangent of a finite angle."""
    remainder, quadrant = _reduced_angle(x, is_small)
    ratio = _tangent_in_quadrant(_sine(remainder), _cosine(remainder), _is_odd_quadrant(quadrant))
    return ratio.astype(dtype_of(x))


def _tangent_in_quadrant(sine: ir.Expr, cosine: ir.Expr, is_odd: ir.Expr) -> ir.Expr:
    """Returns sine / cosine, or -cosine / sine in odd quadrants."""

    @binds_arguments
    def ratio(sine: ir.Expr, cosine: ir.Expr) -> ir.Expr:
        return tirx.Select(is_odd, like(0, sine) - cosine, sine) / tirx.Select(is_odd, sine, cosine)

    return ratio(sine, cosine)


# Within 2 ulp (the tangent of a float64: 4) of angles up to 2**27, in float32 of any.
sin, cos, tan = map(elementary, (_sine_of, _cosine_of, _tangent_of))


def _is_large_angle(x: ir.Expr) -> ir.Expr:
    return tirx.abs(x) > like(LARGE_ANGLE, x)


def of_any_angle(function: Callable[..., ir.Expr], name: str) -> Function:
    """Returns a sine, cosine or tangent of any angle that computes small angles by vector code.

    Large angles are computed one element at a time.

    Args:
        function: computes the function of an expression. Its parameter ``is_small`` is true for small angles.
        name: the function of the C library that computes large angles in float64.
    """
    of_small_angle = partial(function, is_small=True)

    def compute(x: ir.Expr) -> ir.Expr:
        """Computes the function: by vector code for small angles, else exactly (for float64 by the C library)."""
        if format_of(x) is DOUBLE:
            of_large_angle = partial(tirx.call_pure_extern, "float64", name)
        else:
            of_large_angle = partial(let, body=function)
        return with_slow_path(x, is_slow=_is_large_angle, fast=of_small_angle, slow=of_large_angle)

    return compute


sin_of_any, cos_of_any, tan_of_any = (
    of_any_angle(function, name) for function, name in ((_sine_of, "sin"), (_cosine_of, "cos"), (_tangent_of, "tan"))
)


def _arc_tangent(x: ir.Expr) -> ir.Expr:
    """Computes the arc tangent of a number up to tan(pi / 8) by a polynomial."""
    return odd_series(x, ATAN[dtype_of(x)])


@binds_arguments
def _arc_tangent_of_fraction(numerator: ir.Expr, denominator: ir.Expr) -> ir.Expr:
    """Computes the arc tangent of a fraction n / d in [0, 1].

    A fraction above tan(pi / 8) is too large for the polynomial. For it, the identity
    atan(n / d) = pi / 4 + atan((n - d) / (n + d)) is used.
    """
    is_steep = numerator > denominator * like(TAN_PI_8, denominator)
    top = tirx.Select(is_steep, numerator - denominator, numerator)
    bottom = tirx.Select(is_steep, numerator + denominator, denominator)
    return _arc_tangent(top / bottom) + tirx.Select(is_steep, like(pi / 4, numerator), like(0, numerator))


@elementary
def atan(x: ir.Expr) -> ir.Expr:
    """Computes the arc tangent within 2 ulp."""

    def of_magnitude(magnitude: ir.Expr) -> ir.Expr:
        """Computes the arc tangent of a non-negative number."""
        one = like(1, x)
        is_above_one = magnitude > one
        # The approximation holds up to 1. Beyond, atan(m) = pi / 2 - atan(1 / m).
        fraction = tirx.Select(is_above_one, one / magnitude, magnitude)
        return reflected_if(_arc_tangent_of_fraction(fraction, one), condition=is_above_one, total=pi / 2)

    return odd(x, of_magnitude)


def atan2(y: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Computes the angle of the point (x, y) within 3 ulp, as C's atan2: signs of zeros select the quadrant."""
    return _atan2(y, x)


@binds_arguments
def _atan2(y: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Computes the angle of the point (x, y) by octants, with C's rules for zeros, infinities and NaN.

    First comes the arc tangent of min(|x|, |y|) / max(|x|, |y|). Then the angle is reflected into the point's octant.
    """
    zero = like(0, x)
    one = like(1, x)
    infinity = like(float("inf"), x)
    x_size = tirx.abs(x)
    y_size = tirx.abs(y)
    larger = tirx.max(x_size, y_size)
    # Two infinities count as equal: C's atan2 gives the angle of a diagonal.
    both_infinite = tirx.min(x_size, y_size) >= infinity
    smaller = tirx.Select(both_infinite, infinity, tirx.min(x_size, y_size))
    quotient = tirx.Select(tirx.EQ(larger, zero), zero, smaller / larger)
    ratio = tirx.Select(both_infinite, one, quotient)
    in_first_octant = _arc_tangent_of_fraction(ratio, one)
    in_first_quadrant = reflected_if(in_first_octant, condition=y_size > x_size, total=pi / 2)
    # By the sign bit, as -0.0 counts as negative.
    is_left = bits(x) < integer(0, format_of(x))

    def in_own_quadrant(angle: ir.Expr) -> ir.Expr:
        return with_sign(reflected_if(angle, condition=is_left, total=pi), y)

    angle = let(in_first_quadrant, in_own_quadrant)
    # Comparisons with NaN are false; the sum x + y then is NaN.
    is_ordered = tirx.And(x_size <= infinity, y_size <= infinity)
    return tirx.Select(is_ordered, angle, x + y)


def _arc_sine(t: ir.Expr) -> ir.Expr:
    """Computes the arc sine of a number up to 1 / 2 by a polynomial."""
    return odd_series(t, ASIN[dtype_of(t)])


def _half_complement_sine(sine: ir.Expr) -> ir.Expr:
    """Computes sin((pi / 2 - angle) / 2), half the complementary angle's sine, from ``sine`` = sin(angle)."""
    return tirx.sqrt((like(1, sine) - sine) * like(0.5, sine))


@elementary
def asin(x: ir.Expr) -> ir.Expr:
    """Computes the arc sine within 3 ulp. Numbers beyond -1 and 1 give NaN."""

    def of_magnitude(magnitude: ir.Expr) -> ir.Expr:
        """Computes the arc sine of a non-negative number."""
        # The polynomial holds up to 1 / 2. Beyond, asin(m) = pi / 2 - 2 asin(sqrt((1 - m) / 2)).
        is_far = magnitude > like(0.5, x)
        arc = _arc_sine(tirx.Select(is_far, _half_complement_sine(magnitude), magnitude))
        arc = named(arc)
        return tirx.Select(is_far, like(pi / 2, x) - (arc + arc), arc)

    return odd(x, of_magnitude)


@elementary
def acos(x: ir.Expr) -> ir.Expr:
    """Computes the arc cosine within 3 ulp. Numbers beyond -1 and 1 give NaN.

    Up to 1 / 2 it is pi / 2 minus the arc sine. Beyond, where this difference would lose accuracy, acos(m) is twice
    asin(sqrt((1 - m) / 2)), and acos(-m) = pi - acos(m).
    """
    magnitude = named(tirx.abs(x))
    is_far = magnitude > like(0.5, x)
    is_negative = x < like(0, x)
    arc_sine = named(_arc_sine(tirx.Select(is_far, _half_complement_sine(magnitude), magnitude)))
    twice_arc_sine = arc_sine + arc_sine
    of_far = tirx.Select(is_negative, like(pi, x) - twice_arc_sine, twice_arc_sine)
    of_near = like(pi / 2, x) - with_sign(arc_sine, x)
    return tirx.Select(is_far, of_far, of_near)
