"""Special functions over TIR scalars, computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from tvm import tirx

from tvtf.ops.kernels import circular, errors, fastmath
from tvtf.ops.kernels.approx import binds_arguments, dtype_of, let, named, names_values, polynomial, through_double

Function = Callable[..., Any]


def real(value: float) -> Any:
    return tirx.const(float(value), "float64")


def libm(name: str, value: Any) -> Any:
    return tirx.call_pure_extern("float64", name, value)


# -- the inverse of erfc: a start from Giles, "Approximating the erfinv function" (2012), or for small arguments from
# -- the first term of the asymptotic expansion; then Halley's method

_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
_HALLEY_STEPS = 3


@names_values
def _start(q: Any) -> Any:
    """Computes a first approximation of the inverse of erfc at q, for 0 < q <= 1.

    The approximation is Giles's. For small q it is the first term of the asymptotic expansion.
    """
    w = named(-fastmath.log(q * (real(2) - q)))
    # Polynomials in the center and in the tail, logarithms far out.
    in_center = polynomial(w - real(2.5), _CENTRAL)
    in_tail = polynomial(tirx.sqrt(w) - real(3), _TAIL)
    by_polynomial = tirx.Select(w < real(5), in_center, in_tail) * (real(1) - q)
    logarithm = tirx.max(-fastmath.log(q), real(1))
    asymptotic = tirx.sqrt(logarithm - real(0.5) * fastmath.log(real(np.pi) * logarithm))
    return tirx.Select(w < real(16), by_polynomial, asymptotic)


@names_values
def _halley_step(q: Any, z: Any) -> Any:
    """Improves an approximation ``z`` of the inverse of erfc at ``q`` by a step of Halley's method."""
    # exp(z * z) is infinite where q is denormal, and its square root is not.
    root_of_exp = named(fastmath.exp(real(0.5) * z * z))
    error = named((q - errors.erfc(z)) * root_of_exp * real(np.sqrt(np.pi) / 2) * root_of_exp)
    return z - error / (real(1) + z * error)


@binds_arguments
def _after_halley_steps(q: Any, z: Any, steps: int) -> Any:
    """Improves an approximation ``z`` of the inverse of erfc at ``q`` by a number of steps of Halley's method."""
    if steps == 0:
        return z
    return _after_halley_steps(q, _halley_step(q, z), steps - 1)


def inverse_erfc(q: Any) -> Any:
    """Computes the inverse of erfc for 0 < q <= 1; infinite at 0."""
    positive = tirx.Select(q > real(0), q, real(1))
    root = let(positive, lambda q: _after_halley_steps(q, _start(q), _HALLEY_STEPS))
    return tirx.Select(q > real(0), root, real(np.inf))


@through_double
def erfinv(x: Any) -> Any:
    """Computes the inverse error function from the inverse of erfc at ``1 - |x|``. Numbers outside [-1, 1] give NaN.

    The function is odd. Near 0 a series is used.
    """
    magnitude = tirx.abs(x)
    result_magnitude = inverse_erfc(real(1) - magnitude)
    signed = tirx.Select(x < real(0), -result_magnitude, result_magnitude)
    # Near 0 the difference 1 - |x| keeps too few digits of x.
    by_series = x * polynomial(x * x, (0.12755617530559795, 0.2320136665346543, 0.8862269254527579))
    inside = tirx.Select(magnitude < real(1e-3), by_series, signed)
    return tirx.Select(magnitude <= real(1), inside, real(np.nan))


@through_double
def ndtri(p: Any) -> Any:
    """Computes the quantile of the standard normal distribution (the inverse CDF). Numbers outside [0, 1] give NaN.

    By symmetry the quantile follows from the probability of the smaller tail.
    """
    is_lower_tail = p < real(0.5)
    smaller_tail = tirx.min(p, real(1) - p)
    # The CDF of -x is erfc(x / sqrt(2)) / 2.
    magnitude = real(np.sqrt(2)) * inverse_erfc(real(2) * smaller_tail)
    quantile = tirx.Select(is_lower_tail, -magnitude, magnitude)
    is_probability = tirx.And(p >= real(0), p <= real(1))
    return tirx.Select(is_probability, quantile, real(np.nan))


# -- digamma and trigamma: the recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 6.3.18, 6.4.12);
# -- the reflection formula below 0

_SHIFTS = 10
_DIGAMMA_SERIES = (691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)
_TRIGAMMA_SERIES = (-691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)


def _shifted(x: Any, term: Function) -> tuple[Any, Any]:
    """Applies a recurrence ten times: returns (term(x) + term(x + 1) + ... + term(x + 9), x + 10), for x > 0.

    For digamma and trigamma, the sum is the difference between their values at x and at x + 10.
    """
    terms = [term(x + real(i)) for i in range(_SHIFTS)]
    return reduce(lambda left, right: left + right, terms), x + real(_SHIFTS)


@names_values
def _digamma_above(x: Any) -> Any:
    """Computes digamma of x > 0 by the asymptotic series at x + 10, where the series is accurate.

    The recurrence from x + 10 down to x subtracts the ten terms 1 / (x + i).
    """
    recurrence_sum, far = _shifted(x, lambda y: real(1) / y)
    square = named(real(1) / (far * far))
    return fastmath.log(far) - real(0.5) / far + square * polynomial(square, _DIGAMMA_SERIES) - recurrence_sum


@names_values
def _trigamma_above(x: Any) -> Any:
    """Computes trigamma of x > 0 by the asymptotic series at x + 10, where the series is accurate.

    The recurrence from x + 10 down to x adds the ten terms 1 / (x + i)^2.
    """
    recurrence_sum, far = _shifted(x, lambda y: real(1) / (y * y))
    square = named(real(1) / (far * far))
    return real(1) / far + real(0.5) * square + square / far * polynomial(square, _TRIGAMMA_SERIES) + recurrence_sum


def _reflected(x: Any, of_positive: Function, reflect: Function, pole: float) -> Any:
    """Computes a special function such as digamma for all real x, by a reflection formula for x <= 0.

    Args:
        x: the argument.
        of_positive: computes the function for positive arguments.
        reflect: computes the value at x from the value at 1 - x and from pi * x.
        pole: the value at 0, -1, -2, ...
    """
    is_reflected = x <= real(0)
    value = let(tirx.Select(is_reflected, real(1) - x, x), of_positive)
    is_pole = tirx.And(is_reflected, tirx.EQ(x, tirx.floor(x)))
    # The distance to the nearest integer, as the reflection's functions have period pi; any angle serves at poles.
    angle = real(np.pi) * tirx.Select(is_pole, real(0.5), x - tirx.nearbyint(x))
    result = let(value, lambda v: tirx.Select(is_reflected, reflect(v, angle), v))
    return tirx.Select(is_pole, real(pole), result)


@through_double
def digamma(x: Any) -> Any:
    """Computes digamma; NaN at 0, -1, -2..."""
    return _reflected(x, _digamma_above, lambda v, angle: v - real(np.pi) / circular.tan(angle), np.nan)


@names_values
def _trigamma_reflection(value: Any, angle: Any) -> Any:
    """Returns trigamma(x) = (pi / sin(pi x))^2 - trigamma(1 - x), from ``value`` at 1 - x."""
    ratio = named(real(np.pi) / circular.sin(angle))
    return ratio * ratio - value


@through_double
def trigamma(x: Any) -> Any:
    """Computes trigamma; infinite at 0, -1, -2..."""
    return _reflected(x, _trigamma_above, _trigamma_reflection, np.inf)


# -- lgamma: the recurrence up to 8, then Stirling's series (Abramowitz and Stegun 6.1.41); reflection below 0

_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_LGAMMA_SHIFTS = 8


@names_values
def _lgamma_above(x: Any) -> Any:
    """Computes log gamma(x) for x > 0 within 1e-13 by Stirling's series.

    The series is accurate only for large x. Below 8, it is evaluated at x + 8.
    """
    is_low = x < real(_LGAMMA_SHIFTS)
    product = reduce(lambda a, b: a * b, [x + real(i) for i in range(_LGAMMA_SHIFTS)])
    # gamma(x + 8) = x (x + 1) ... (x + 7) gamma(x)
    log_of_product = named(fastmath.log(tirx.Select(is_low, product, real(1))))
    far = tirx.Select(is_low, x + real(_LGAMMA_SHIFTS), x)
    return _stirling_series(far) - log_of_product


@binds_arguments
def _stirling_series(x: Any) -> Any:
    """Computes log gamma(x) for a large x."""
    tail = _stirling_tail(real(1) / x)
    return (x - real(0.5)) * (fastmath.log(x) - real(1)) + (real(0.5 * np.log(2 * np.pi) - 0.5) + tail)


@binds_arguments
def _stirling_tail(inverse: Any) -> Any:
    return inverse * let(inverse * inverse, lambda square: polynomial(square, _STIRLING))


def _lgamma_reflection(value: Any, angle: Any) -> Any:
    """Returns log |gamma(x)| = log(pi) - log |sin(pi x)| - log gamma(1 - x), from ``value`` at 1 - x."""
    return real(np.log(np.pi)) - fastmath.log(tirx.abs(circular.sin(angle))) - value


@through_double
def _lgamma_single(x: Any) -> Any:
    """Computes log |gamma(x)| in float64 for narrower dtypes; exactly 0 at the roots 1 and 2, infinite at infinities."""
    result = _reflected(x, _lgamma_above, _lgamma_reflection, np.inf)
    is_root = tirx.Or(tirx.EQ(x, real(1)), tirx.EQ(x, real(2)))
    return tirx.Select(is_root, real(0), tirx.Select(tirx.abs(x) < real(np.inf), result, x * x))


def lgamma(x: Any) -> Any:
    """Computes log |gamma(x)|; for float64 by the C library, which is accurate near the roots 1 and 2."""
    return libm("lgamma", x) if dtype_of(x) == "float64" else _lgamma_single(x)
