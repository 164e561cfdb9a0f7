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
    bits,
    dtype_of,
    elementary,
    format_of,
    integer,
    let,
    like,
    odd,
    polynomial,
    shifted,
    unless,
    whole,
    with_sign,
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
Reduced = Callable[[ir.Expr, ir.Expr], ir.Expr]
TAN_PI_8 = 2**0.5 - 1
# pi / 2 in parts: products of the first two with numbers below 2**27 are exact in float64.
HALF_PI = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)
LARGE_ANGLE = 2.0**27
# Products of the first two float32 with numbers below 2**12 are exact.
SMALL_HALF_PI = {"float32": (1.5703125, 4.83751296997e-4, 7.549789954891882e-8), "float64": HALF_PI}
# The first 192 binary digits of 1 / (2 pi).
TURN_DIGITS = (0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410)


def _reduced_angle(x: ir.Expr, body: Reduced, is_small: bool = False) -> ir.Expr:
    """Returns `body(rest, quarter)` in float64 with x = rest + quarter * pi / 2, |rest| <= pi / 4, quarter an int64.

    A large float32 is reduced first. A float64, or an angle that `is_small`, is not: beyond 2**27 its rest loses accuracy.
    """
    if is_small or format_of(x) is DOUBLE:
        return let(x.astype("float64"), lambda angle: _of_quarters(angle, body))
    angle = tirx.Select(tirx.abs(x) < like(LARGE_ANGLE, x), x.astype("float64"), _from_large(x))
    return let(angle, lambda a: _of_quarters(a, body))


def _of_quarters(angle: ir.Expr, body: Reduced) -> ir.Expr:
    def reduced(at: ir.Expr) -> ir.Expr:
        first, second, third = (like(part, angle) for part in HALF_PI)
        rest = let(whole(at, DOUBLE, 0), lambda n: angle - n * first - n * second - n * third)
        return let(rest, lambda r: body(r, at))

    return shifted(angle * like(2 / pi, angle), 0, reduced)


def _from_large(x: ir.Expr) -> ir.Expr:
    """Reduces a float32 of at least 2**23 to within half a turn, with error 2**-38: Payne and Hanek's reduction (1983).

    Of m 2**e times 1 / (2 pi) only the digits from 2**-1 on matter: m times the 64 that begin at digit e.
    """
    turned = let(bits(x) & tirx.const(0x7FFFFFFF, "int32"), _angle_of_bits)
    return let(turned, lambda angle: tirx.Select(x < like(0, x), like(0, angle) - angle, angle))


def _angle_of_bits(size: ir.Expr) -> ir.Expr:
    """Returns the reduced angle in radians of the float32 with these bits, without the sign."""
    one = tirx.const(1, "uint64")
    place = tirx.max((size >> tirx.const(23, "int32")) - tirx.const(150, "int32"), tirx.const(0, "int32"))
    mantissa = ((size & tirx.const(0x7FFFFF, "int32")) | tirx.const(0x800000, "int32")).astype("uint64")
    first, second, third = (tirx.const(digits, "uint64") for digits in TURN_DIGITS)

    def turned(e: ir.Expr) -> ir.Expr:
        """Multiplies the mantissa by the 64 digits of 1 / (2 pi) that start at digit ``e``, modulo one turn."""
        is_late = e >= tirx.const(64, "int32")
        shift = (e & tirx.const(63, "int32")).astype("uint64")
        high, low = tirx.Select(is_late, second, first), tirx.Select(is_late, third, second)
        # A shift by 64 is undefined, so that the low part is shifted by one digit first.
        window = let(shift, lambda s: (high << s) | ((low >> one) >> (tirx.const(63, "uint64") - s)))
        return (mantissa * window).astype("int64").astype("float64") * tirx.const(2 * pi / 2.0**64, "float64")

    return let(place, turned)


def _sine(r: ir.Expr) -> ir.Expr:
    terms = SIN_DOUBLE if format_of(r) is DOUBLE else SIN_SINGLE
    return let(r * r, lambda z: polynomial(z, terms) * z * r + r)


def _cosine(r: ir.Expr) -> ir.Expr:
    terms = COS_DOUBLE if format_of(r) is DOUBLE else COS_SINGLE
    return let(r * r, lambda z: polynomial(z, terms) * z * z + (like(1, r) - z * like(0.5, r)))


def _is_odd(quarter: ir.Expr) -> ir.Expr:
    return tirx.EQ(quarter & tirx.const(1, "int64"), tirx.const(1, "int64"))


def _wave(x: ir.Expr, ahead: int, is_small: bool = False) -> ir.Expr:
    """Computes the sine of x + ahead * pi / 2; NaN where x is infinite."""
    dtype = dtype_of(x)

    def of_quarter(rest: ir.Expr, quarter: ir.Expr) -> ir.Expr:
        turn = quarter + tirx.const(ahead, "int64")
        value = let(rest.astype(dtype), lambda r: tirx.Select(_is_odd(turn), _cosine(r), _sine(r)))
        is_negative = tirx.EQ(turn & tirx.const(2, "int64"), tirx.const(2, "int64"))
        return let(value, lambda v: tirx.Select(is_negative, like(0, x) - v, v))

    return _finite_only(x, _reduced_angle(x, of_quarter, is_small))


def of_small_angle(name: Function, x: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Returns the sine and cosine of an angle of a few turns; ``name`` binds their shared subexpressions."""
    form = format_of(x)
    at = name(bits(x * like(2 / pi, x) + like(form.shifter, x)))
    first, second, third = (like(part, x) for part in SMALL_HALF_PI[form.dtype])
    n = name(whole(at, form, 0))
    rest = name(x - n * first - n * second - n * third)
    sine, cosine = name(bits(_sine(rest))), name(bits(_cosine(rest)))
    one = integer(1, form)

    def wave(turn: ir.Expr) -> ir.Expr:
        """Selects and negates by bits: with conditions, TVM would widen their integers to 64 bits."""
        is_odd = integer(0, form) - (turn & one)
        sign = (turn & integer(2, form)) << integer(form.sign_bit - 1, form)
        return tirx.reinterpret(form.dtype, (sine ^ ((sine ^ cosine) & is_odd)) ^ sign)

    return wave(at), wave(name(at + one))


def _finite_only(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    """Returns ``value``, or NaN where ``x`` is infinite or NaN."""
    return tirx.Select(tirx.abs(x) < like(float("inf"), x), value, like(float("nan"), x))


def _sine_of(x: ir.Expr, is_small: bool = False) -> ir.Expr:
    return tirx.Select(tirx.EQ(x, like(0, x)), x, _wave(x, 0, is_small))


def _cosine_of(x: ir.Expr, is_small: bool = False) -> ir.Expr:
    return _wave(x, 1, is_small)


def _tangent_of(x: ir.Expr, is_small: bool = False) -> ir.Expr:
    """Divides sine by cosine of the reduced angle, or minus cosine by sine in odd quarters of a turn."""

    def of_quarter(rest: ir.Expr, quarter: ir.Expr) -> ir.Expr:
        def ratio(s: ir.Expr, c: ir.Expr) -> ir.Expr:
            return tirx.Select(_is_odd(quarter), like(0, s) - c, s) / tirx.Select(_is_odd(quarter), s, c)

        return let(_sine(rest), lambda s: let(_cosine(rest), lambda c: ratio(s, c))).astype(dtype_of(x))

    return tirx.Select(tirx.EQ(x, like(0, x)), x, _finite_only(x, _reduced_angle(x, of_quarter, is_small)))


# Within 2 ulp (the tangent of a float64: 4) of angles up to 2**27, in float32 of any.
sin, cos, tan = map(elementary, (_sine_of, _cosine_of, _tangent_of))


def of_any_angle(function: Callable[..., ir.Expr], name: str) -> Function:
    """Returns a function that is vectorized for small angles.

    Large angles are computed one by one, those of float64 by the C library.
    """

    def of_angle(x: ir.Expr) -> ir.Expr:
        is_double = format_of(x) is DOUBLE
        exactly = partial(tirx.call_pure_extern, "float64", name) if is_double else partial(let, body=function)
        return unless(lambda x: tirx.abs(x) > like(LARGE_ANGLE, x), x, partial(function, is_small=True), exactly)

    return of_angle


sin_of_any, cos_of_any, tan_of_any = (
    of_any_angle(function, name) for function, name in ((_sine_of, "sin"), (_cosine_of, "cos"), (_tangent_of, "tan"))
)


def _arc(ratio: ir.Expr) -> ir.Expr:
    """Computes the arc tangent of a number up to tan(pi / 8)."""
    return let(ratio, lambda t: let(t * t, lambda z: polynomial(z, ATAN[dtype_of(t)]) * z * t + t))


def _arc_of_fraction(above: ir.Expr, below: ir.Expr) -> ir.Expr:
    """Computes the arc tangent of above / below, where 0 <= above <= below."""
    is_steep = above > below * like(TAN_PI_8, below)
    top, bottom = tirx.Select(is_steep, above - below, above), tirx.Select(is_steep, above + below, below)
    return _arc(top / bottom) + tirx.Select(is_steep, like(pi / 4, above), like(0, above))


@elementary
def atan(x: ir.Expr) -> ir.Expr:
    """Computes the arc tangent within 2 ulp."""

    def of_size(size: ir.Expr) -> ir.Expr:
        one = like(1, x)
        is_far = size > one
        fraction = let(tirx.Select(is_far, one / size, size), lambda t: _arc_of_fraction(t, one))
        return let(fraction, lambda arc: tirx.Select(is_far, like(pi / 2, x) - arc, arc))

    return odd(x, of_size)


def atan2(y: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Computes the angle of the point (x, y) within 3 ulp, as C's atan2: signs of zeros select the quadrant."""
    return let(y, lambda y: let(x, lambda x: _atan2(y, x)))


def _atan2(y: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Computes the arctangent of the smaller size over the larger one, then moves it to the point's octant."""
    wide, tall = tirx.abs(x), tirx.abs(y)
    both_infinite = tirx.min(wide, tall) >= like(float("inf"), x)
    long, short = tirx.max(wide, tall), tirx.Select(both_infinite, like(float("inf"), x), tirx.min(wide, tall))
    zero, half_turn = like(0, x), like(pi, x)
    ratio = tirx.Select(both_infinite, like(1, x), tirx.Select(tirx.EQ(long, zero), zero, short / long))
    first = let(ratio, lambda t: _arc_of_fraction(t, like(1, x)))
    steep = let(first, lambda arc: tirx.Select(tall > wide, like(pi / 2, x) - arc, arc))
    is_left = bits(x) < integer(0, format_of(x))
    angle = let(steep, lambda arc: with_sign(tirx.Select(is_left, half_turn - arc, arc), y))
    is_ordered = tirx.And(wide <= like(float("inf"), x), tall <= like(float("inf"), x))
    return tirx.Select(is_ordered, angle, x + y)


def _arc_sine(t: ir.Expr) -> ir.Expr:
    """Computes the arc sine of a number up to 1 / 2."""
    return let(t, lambda t: let(t * t, lambda z: polynomial(z, ASIN[dtype_of(t)]) * z * t + t))


def _complement(size: ir.Expr) -> ir.Expr:
    """Returns the sine of half the complementary angle."""
    return tirx.sqrt((like(1, size) - size) * like(0.5, size))


@elementary
def asin(x: ir.Expr) -> ir.Expr:
    """Computes the arc sine within 3 ulp; NaN beyond -1 and 1."""

    def of_size(size: ir.Expr) -> ir.Expr:
        is_far = size > like(0.5, x)
        arc = _arc_sine(tirx.Select(is_far, _complement(size), size))
        return let(arc, lambda a: tirx.Select(is_far, like(pi / 2, x) - (a + a), a))

    return odd(x, of_size)


@elementary
def acos(x: ir.Expr) -> ir.Expr:
    """Computes the arc cosine within 3 ulp; NaN beyond -1 and 1."""

    def of_size(size: ir.Expr) -> ir.Expr:
        """Computes the arc cosine from the arc sine; near 1 from that of the complement, which is more exact."""
        is_far, is_left = size > like(0.5, x), x < like(0, x)
        arc = _arc_sine(tirx.Select(is_far, _complement(size), size))

        def from_arc(a: ir.Expr) -> ir.Expr:
            far = tirx.Select(is_left, like(pi, x) - (a + a), a + a)
            return tirx.Select(is_far, far, like(pi / 2, x) - with_sign(a, x))

        return let(arc, from_arc)

    return let(tirx.abs(x), of_size)
