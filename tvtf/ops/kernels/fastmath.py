"""Exponentials, logarithms and hyperbolic functions as vector code, within a few ulp for float32 and float64.

Polynomials were fitted for tvtf: interpolation at Chebyshev nodes in 150 digits. Reductions are Cody and Waite's, "Software Manual
for the Elementary Functions" (1980); the logarithm's are those of fdlibm's e_log.c and s_log1p.c.
"""

from __future__ import annotations

from math import log as real_log

from tvm import ir, tirx

from tvtf.ops.kernels.approx import (
    DOUBLE,
    Format,
    Function,
    at_most,
    below_infinity,
    binds_arguments,
    bits,
    clamped,
    elementary,
    format_of,
    identity_if_tiny,
    integer,
    let,
    like,
    named,
    names_values,
    odd,
    odd_quotient,
    polynomial,
    power_of_two,
    rounded,
    shifted,
    whole,
)

LN2, LOG2_E = real_log(2), 1 / real_log(2)
# ln 2 in two parts, of which the first has enough zeros at its end for exact products with exponents.
LN2_PARTS = {
    "float32": (0.693359375, -2.12194440e-4),
    "float64": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
SQRT_HALF = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}

# exp(r) = 1 + r + r^2 q(r), for |r| <= ln 2
EXP = {
    "float32": (
        2.0041250057086535e-4, 1.4069068274028438e-3, 8.332971803770673e-3, 4.166340832727949e-2, 1.6666667633821017e-1,
        5.000000871709219e-1,
    ),
    "float64": (
        1.616985477526355e-10, 2.1043047011165e-9, 2.5051507599056558e-8, 2.755641751648755e-7, 2.7557320724436276e-6,
        2.4801589553731987e-5, 1.9841269839576415e-4, 1.3888888886347003e-3, 8.333333333334032e-3, 4.1666666666677156e-2,
        1.6666666666666666e-1, 5e-1,
    ),
}  # fmt: skip
# the same for |r| <= ln 2 / 2
EXPM1 = {
    "float32": (
        1.3926250831497611e-3, 8.363232883682618e-3, 4.166655421298415e-2, 1.6666576666119928e-1, 5e-1,
    ),
    "float64": (
        2.5100472505694996e-8, 2.7620201591031547e-7, 2.7557268276905696e-6, 2.4801521057868204e-5, 1.9841269863171557e-4,
        1.3888888917367081e-3, 8.333333333330039e-3, 4.1666666666623824e-2, 1.6666666666666669e-1, 5e-1,
    ),
}  # fmt: skip
# log(1 + f) = f - f^2 / 2 + f^3 q(f), for 1 + f between sqrt(1 / 2) and sqrt(2)
LOG_SINGLE = (
    6.971611471451178e-2, -1.1479733846637635e-1, 1.168541992348674e-1, -1.2425687331451106e-1, 1.424905764569748e-1,
    -1.6667802319501254e-1, 2.00007157488921e-1, -2.4999996957950882e-1, 3.3333331180030046e-1,
)  # fmt: skip
# log(1 + f) = 2 s + s z p(z) with s = f / (2 + f), z = s^2
LOG_DOUBLE = (
    1.461793403127802e-1, 1.5331601446484086e-1, 1.818289274199408e-1, 2.2222211085127702e-1, 2.857142862627991e-1,
    3.9999999999898833e-1, 6.66666666666667e-1,
)  # fmt: skip
# tanh(x) = x p(x^2) / q(x^2) for |x| <= 9.6; last digits searched for the least error in float32
TANH_ABOVE = (
    1.830627738286239e-8,
    2.8243130145710893e-5,
    4.78953355923295e-3,
    1.8332511186599731e-1,
    1.3699995279312134,
)
TANH_BELOW = (
    1.065848891812493e-6, 4.5022304402664304e-4, 3.545371815562248e-2, 6.399915218353271e-1, 1.3699995279312134,
)  # fmt: skip
# tanh(x) rounds to 1 from 9.02 in float32; the quotient of polynomials is above 1 only from 9.2, and is clamped to 1
TANH_IS_ONE = {"float32": 9.6, "float64": 20.0}


@elementary
def exp(x: ir.Expr) -> ir.Expr:
    """Computes e to the power x within 2 ulp, denormal results included.

    The argument is split into x = 2 n ln 2 + r, and exp(r) is multiplied by 2**n twice. A single factor 2**(2 n) would
    overflow at the ends of the range.
    """
    form = format_of(x)
    return _exp_of_bounded(clamped(x, form.least, form.most), form)


@binds_arguments
def _exp_of_bounded(x: ir.Expr, form: Format) -> ir.Expr:
    """Computes exp(x) for an x whose exponential is neither infinite nor 0."""
    n_bits = named(shifted(x * like(LOG2_E / 2, x), form.bias))
    return _exp(x, n_bits, form)


@names_values
def _exp(x: ir.Expr, n_bits: ir.Expr, form: Format) -> ir.Expr:
    """Computes exp(x) for x = 2 n ln 2 + r: exp(r) by a polynomial, times 2**n twice.

    A single factor 2**(2 n) would overflow at the ends of the range. ``n_bits`` are the bits of n plus the exponent bias.
    """
    one = like(1, x)
    terms = EXP[form.dtype]
    remainder = less_multiples(x, whole(n_bits, form, form.bias), 2)
    value = let(remainder, lambda r: (polynomial(r, terms) * r + one) * r + one)
    scale = named(power_of_two(n_bits, form))
    return value * scale * scale


@names_values
def less_multiples(x: ir.Expr, count: ir.Expr, step: int) -> ir.Expr:
    """Computes `x - count * step * ln 2` almost exactly: ln 2 is split into a high and a low part."""
    high, low = LN2_PARTS[format_of(x).dtype]
    n = named(count)
    return x - n * like(step * high, x) - n * like(step * low, x)


@elementary
def expm1(x: ir.Expr) -> ir.Expr:
    """Computes exp(x) - 1 within 3 ulp, also near zero."""
    form = format_of(x)
    return identity_if_tiny(x, _expm1_of_bounded(clamped(x, -50.0, form.most), form))


@binds_arguments
def _expm1_of_bounded(x: ir.Expr, form: Format) -> ir.Expr:
    """Computes exp(x) - 1 for an x whose exponential isn't infinite."""
    n_bits = named(shifted(x * like(LOG2_E, x), form.bias - 1))
    return _expm1(x, n_bits, form)


def _expm1(x: ir.Expr, n_bits: ir.Expr, form: Format) -> ir.Expr:
    """Computes exp(x) - 1 as 2**n (exp(r) - 1) + (2**n - 1), where x = n ln 2 + r.

    All terms are halved, and the sum is doubled, because 2**n may overflow. ``n_bits`` are the bits of n - 1 plus the
    exponent bias.
    """
    remainder = less_multiples(x, whole(n_bits, form, form.bias - 1), 1)
    small = let(remainder, lambda r: polynomial(r, EXPM1[form.dtype]) * r * r + r)

    def half_result(scale: ir.Expr) -> ir.Expr:
        return small * scale + (scale - like(0.5, scale))

    return let(power_of_two(n_bits, form), half_result) * like(2, x)


@elementary
def log(x: ir.Expr) -> ir.Expr:
    """Computes the natural logarithm within 2 ulp, also of denormal numbers. It is -inf at zero, and NaN below."""
    form = format_of(x)
    is_denormal = x < like(form.smallest_normal, x)
    # A denormal number is scaled to a normal one, and the scale's exponent subtracted.
    normal = tirx.Select(is_denormal, x * like(2.0**form.mantissa_bits, x), x)
    exponent_of_scale = tirx.Select(is_denormal, integer(form.mantissa_bits, form), integer(0, form))

    def without_scale(exponent: ir.Expr) -> ir.Expr:
        return exponent - exponent_of_scale

    return _at_edges(x, 0.0, _log_of_bits(bits(normal), form, without_scale, like(0, x)))


def log_of_normal(x: ir.Expr) -> ir.Expr:
    """Computes the natural logarithm of a positive number that is neither denormal nor infinite."""
    return _log_of_bits(bits(x), format_of(x), lambda exponent: exponent, like(0, x))


def _at_edges(x: ir.Expr, pole: float, regular: ir.Expr) -> ir.Expr:
    """Returns a logarithm for any x: -inf if x is the pole, NaN below, x if x is infinite or NaN, else ``regular``."""
    at_pole_or_below = tirx.Select(tirx.EQ(x, like(pole, x)), like(float("-inf"), x), like(float("nan"), x))
    return tirx.Select(x <= like(pole, x), at_pole_or_below, below_infinity(x, regular))


@names_values
def _log_of_bits(representation: ir.Expr, form: Format, adjust: Function, addend: ir.Expr) -> ir.Expr:
    """Computes the logarithm of (number + addend) for a normal number that is given by its bits.

    Args:
        representation: the bits of the number.
        form: the number's floating-point format.
        adjust: corrects the number's binary exponent, if the caller has scaled the number.
        addend: a small number, such as a rounding error.
    """
    # Subtracting the bits of sqrt(1 / 2) puts the mantissa between sqrt(1 / 2) and sqrt(2).
    offset = integer(SQRT_HALF[form.dtype], form)
    mantissa_bits = integer(form.mantissa_bits, form)
    number_bits = named(representation)
    exponent = named((number_bits - offset) >> mantissa_bits)
    return _log_of_parts(number_bits, exponent, form, adjust, addend)


def _log_of_parts(b: ir.Expr, exponent: ir.Expr, form: Format, adjust: Function, addend: ir.Expr) -> ir.Expr:
    """Computes the logarithm of (number + addend) from the number's bits and its binary exponent.

    The number is scaled to a mantissa near 1, and ``addend`` is scaled by the same factor.

    Args:
        b: the bits of the number, as an integer.
        exponent: the power of two by which the number is divided, as an integer.
        form: the format of the number's dtype.
        adjust: corrects the exponent, if the caller has scaled the number.
        addend: what is added to the number.
    """
    mantissa_bits = integer(form.mantissa_bits, form)
    mantissa = tirx.reinterpret(form.dtype, b - (exponent << mantissa_bits))
    # For a larger exponent the scale would be zero.
    bounded_exponent = tirx.min(exponent, integer(form.bias - 1, form))
    scale = tirx.reinterpret(form.dtype, (integer(form.bias, form) - bounded_exponent) << mantissa_bits)
    fraction = mantissa - like(1, mantissa)
    if not _is_zero(addend):
        fraction = fraction + addend * scale
    return _log_sum(fraction, adjust(exponent).astype(form.dtype))


def _is_zero(value: ir.Expr) -> bool:
    """Returns whether an expression is the constant 0."""
    return isinstance(value, tirx.FloatImm) and float(value) == 0


@binds_arguments
def _log_sum(f: ir.Expr, exponent: ir.Expr) -> ir.Expr:
    """Computes log(1 + f) + exponent * ln 2 for a small f.

    log(1 + f) is f - f^2 / 2 plus a tail of higher powers. ln 2 has a high and a low part. Small terms are added first,
    for accuracy.
    """
    high, low = (like(part, f) for part in LN2_PARTS[format_of(f).dtype])
    if format_of(f) is DOUBLE:
        half_square = named(f * f * like(0.5, f))
        small_terms = _log_tail(f, half_square) + exponent * low - half_square
    else:
        square = f * f
        small_terms = polynomial(f, LOG_SINGLE) * f * square + exponent * low - square * like(0.5, f)
    return f + small_terms + exponent * high


@names_values
def _log_tail(f: ir.Expr, half_square: ir.Expr) -> ir.Expr:
    """Computes the tail of the float64 log(1 + f): a series in ``s = f / (2 + f)``, plus ``s * half_square``.

    ``half_square`` is f^2 / 2.
    """
    s = named(f / (f + like(2, f)))
    return s * (half_square + let(s * s, lambda square: square * polynomial(square, LOG_DOUBLE)))


@elementary
def log1p(x: ir.Expr) -> ir.Expr:
    """Computes log(1 + x) within 2 ulp, also near zero.

    Near zero 1 + x loses digits of x. So the rounding error of the sum is added to the argument again.
    """
    one = like(1, x)

    def of_sum(total: ir.Expr) -> ir.Expr:
        """Computes log(1 + x) from the rounded sum of 1 and x, corrected by the sum's rounding error."""

        def rounding_error(recovered: ir.Expr) -> ir.Expr:
            """Returns what the sum lacks, given the part of x that it contains."""
            return (one - rounded(total - recovered)) + (x - recovered)

        error = let(rounded(total - one), rounding_error)
        return _log_of_bits(bits(total), format_of(x), lambda exponent: exponent, error)

    return identity_if_tiny(x, _at_edges(x, -1.0, let(rounded(one + x), of_sum)))


@elementary
def tanh(x: ir.Expr) -> ir.Expr:
    """Computes the hyperbolic tangent within 5 ulp, also near zero. The magnitude is never above 1.

    float64 uses expm1, other dtypes a quotient of two polynomials.
    """
    form = format_of(x)
    limit = TANH_IS_ONE[form.dtype]

    def of_magnitude(size: ir.Expr) -> ir.Expr:
        """Computes tanh(size) = t / (t + 2) with t = exp(2 size) - 1."""
        t = named(expm1(at_most(size + size, 2 * limit)))
        return t / (t + like(2, t))

    if form is DOUBLE:
        return odd(x, of_magnitude)
    return clamped(odd_quotient(clamped(x, -limit, limit), TANH_ABOVE, TANH_BELOW), -1.0, 1.0)


@elementary
def sigmoid(x: ir.Expr) -> ir.Expr:
    """Computes 1 / (1 + exp(-x)) within 3 ulp, without overflow on either side."""
    one = like(1, x)
    # exp(-|x|) never overflows: it is the numerator for negative x
    power = named(exp(like(0, x) - tirx.abs(x)))
    return tirx.Select(x < like(0, x), power, one) / (one + power)


def _half_exponentials(x: ir.Expr) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
    """Computes w = exp(|x| / 2) = 1 + t for hyperbolic functions, and returns t, w and 1 / w, named in the caller.

    Half the argument is used because exp(|x|) overflows earlier. It is clamped to an exponent at which w is still finite:
    1 / w then isn't 0, and a product with w overflows to infinity, not to NaN.
    """
    one = like(1, x)
    half_argument = tirx.abs(x) * like(0.5, x)
    bounded = at_most(half_argument, format_of(x).most - 1)
    t = named(expm1(bounded))
    w = named(t + one)
    return t, w, named(one / w)


@elementary
def sinh(x: ir.Expr) -> ir.Expr:
    """Computes the hyperbolic sine within 4 ulp, also near zero."""

    def of_magnitude(size: ir.Expr) -> ir.Expr:
        t, w, inverse = _half_exponentials(size)
        return (t + t * inverse) * like(0.5, t) * (w + inverse)

    return odd(x, of_magnitude)


@elementary
def cosh(x: ir.Expr) -> ir.Expr:
    """Computes the hyperbolic cosine within 4 ulp."""
    _, w, inverse = _half_exponentials(x)
    return (w * like(0.5, w)) * w + (inverse * like(0.5, w)) * inverse


@elementary
def asinh(x: ir.Expr) -> ir.Expr:
    """Computes the inverse hyperbolic sine within 4 ulp."""
    one = like(1, x)

    def log1p_argument(size: ir.Expr) -> ir.Expr:
        """Computes t with asinh(size) = log(1 + t) for size >= 0. No digits cancel near zero."""
        return let(size * size, lambda square: size + square / (one + tirx.sqrt(one + square)))

    return odd(x, lambda bound: _log1p_of_doubled(bound, log1p_argument(bound)))


def _log1p_of_doubled(x: ir.Expr, regular: ir.Expr) -> ir.Expr:
    """Computes log1p(``regular``) for an inverse hyperbolic function. ``regular`` approaches 2 x for large x.

    ``regular`` would overflow for large x. The result then is log1p(x) + ln 2, which is nearly log(2 x).
    """
    is_large = x > like(format_of(x).large, x)
    logarithm_of_two = tirx.Select(is_large, like(LN2, x), like(0, x))
    return log1p(tirx.Select(is_large, x, regular)) + logarithm_of_two


@elementary
def acosh(x: ir.Expr) -> ir.Expr:
    """Computes the inverse hyperbolic cosine within 4 ulp; NaN below 1."""
    value = let(x - like(1, x), lambda t: _log1p_of_doubled(x, t + tirx.sqrt(t * (t + like(2, t)))))
    return tirx.Select(x < like(1, x), like(float("nan"), x), value)


@elementary
def atanh(x: ir.Expr) -> ir.Expr:
    """Computes the inverse hyperbolic tangent within 4 ulp; NaN beyond -1 and 1."""
    return odd(x, lambda size: log1p((size + size) / (like(1, x) - size)) * like(0.5, x))
