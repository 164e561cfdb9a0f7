"""Elementary functions of float32 that become vector instructions, with bounds on their errors.

LLVM calls the C library once per lane for `exp` and its like. These are branchless polynomials: each takes and gives a
scalar TIR expression, for use inside `te.compute`. Other float types go through float32 (half types) or to the
C library (float64).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tvm import ir, runtime, tirx

Function = Callable[[ir.Expr], ir.Expr]

LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
SMALLEST_NORMAL = 1.17549435e-38
EXPONENT_BIAS, MANTISSA_BITS = 127, 23
EXP_LOWEST, EXP_HIGHEST = -104.0, 89.0

EXP_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
LOG_POLYNOMIAL = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
TANH_POLYNOMIAL = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
TANH_SMALL = 0.625
ERF_POLYNOMIAL = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2, 1.128358514861418e-1,
    -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
# erfc(x) = exp(-x^2) / x * p(1 / x^2) on [1, 4.2]: least squares, absolute error of erfc below 1e-8.
ERFC_POLYNOMIAL = (
    0.024706771597266197, -0.14672312140464783, 0.3880021274089813, -0.6084378957748413, 0.6424295902252197,
    -0.5055029988288879, 0.3439536690711975, -0.2747146189212799, 0.5638700723648071,
)  # fmt: skip
ERF_IS_ONE = 4.0


def in_float32(library: Callable[[ir.Expr], ir.Expr]) -> Callable[[Function], Function]:
    """Wrap a float32 function: half types are computed in float32, other types by the C library's function."""

    def wrap(function: Function) -> Function:
        @wraps(function)
        def typed(x: ir.Expr) -> ir.Expr:
            x = runtime.convert(x)
            dtype = str(x.ty.dtype)
            if dtype == "float32":
                return function(x)
            if dtype in ("float16", "bfloat16"):
                return function(x.astype("float32")).astype(dtype)
            return library(x)

        return typed

    return wrap


@in_float32(tirx.exp)
def exp(x: ir.Expr) -> ir.Expr:
    """e to the power x within 2 ulp, denormal results included.

    Source: Cephes expf (Moshier); reduction by Cody and Waite, Software Manual for the Elementary Functions, 1980.
    """
    return _let(x, lambda value: _keeping_nan(value, _exp_of_number(value)))


def _exp_of_number(x: ir.Expr) -> ir.Expr:
    bounded = tirx.max(tirx.min(x, _f32(EXP_HIGHEST)), _f32(EXP_LOWEST))
    return _let(bounded, lambda value: _let(tirx.floor(value * _f32(LOG2_E) + _f32(0.5)), lambda power: _let(
        value - power * _f32(LN2_HIGH) - power * _f32(LN2_LOW), lambda rest: _scaled(_exp_of_rest(rest), power)
    )))  # fmt: skip


def _exp_of_rest(rest: ir.Expr) -> ir.Expr:
    return _polynomial(EXP_POLYNOMIAL, rest) * rest * rest + rest + _f32(1)


def _scaled(value: ir.Expr, power: ir.Expr) -> ir.Expr:
    """`value * 2**power` in two steps, so that each factor is a normal number."""

    def scale(whole: ir.Expr) -> ir.Expr:
        return _let(whole >> _i32(1), lambda half: value * _power_of_two(half) * _power_of_two(whole - half))

    return _let(power.astype("int32"), scale)


def _power_of_two(power: ir.Expr) -> ir.Expr:
    return tirx.reinterpret("float32", (power + _i32(EXPONENT_BIAS)) << _i32(MANTISSA_BITS))


@in_float32(tirx.log)
def log(x: ir.Expr) -> ir.Expr:
    """The natural logarithm within 2 ulp: -inf at zero, NaN below, denormals included.

    Source: Cephes logf (Moshier).
    """
    return _let(x, lambda value: _log_at_edges(value, _log_of_positive(value)))


def _log_at_edges(x: ir.Expr, regular: ir.Expr) -> ir.Expr:
    infinite = tirx.Select(x == _f32(float("inf")), x, regular)
    above_zero = tirx.Select(x > _f32(0), infinite, _f32(float("nan")))
    return tirx.Select(x == _f32(0), _f32(float("-inf")), above_zero)


def _log_of_positive(x: ir.Expr) -> ir.Expr:
    is_small = x < _f32(SMALLEST_NORMAL)
    scaled = tirx.Select(is_small, x * _f32(2.0**MANTISSA_BITS), x)
    shift = tirx.Select(is_small, _i32(MANTISSA_BITS), _i32(0))
    return _let(tirx.reinterpret("int32", scaled), lambda bits: _log_of_bits(bits, shift))


def _log_of_bits(bits: ir.Expr, shift: ir.Expr) -> ir.Expr:
    exponent = (bits >> _i32(MANTISSA_BITS)) - _i32(EXPONENT_BIAS - 1) - shift
    half_to_one = tirx.reinterpret("float32", (bits & _i32(0x7FFFFF)) | _i32(0x3F000000))

    def centred(mantissa: ir.Expr) -> ir.Expr:
        low = mantissa < _f32(0.70710678118654752)
        rest = tirx.Select(low, mantissa + mantissa, mantissa) - _f32(1)
        power = tirx.Select(low, exponent - _i32(1), exponent).astype("float32")
        return _let(rest, lambda r: _let(power, lambda p: _log_sum(r, p)))

    return _let(half_to_one, centred)


def _log_sum(rest: ir.Expr, power: ir.Expr) -> ir.Expr:
    square = rest * rest
    tail = _polynomial(LOG_POLYNOMIAL, rest) * rest * square + power * _f32(LN2_LOW) - _f32(0.5) * square
    return rest + tail + power * _f32(LN2_HIGH)


@in_float32(tirx.tanh)
def tanh(x: ir.Expr) -> ir.Expr:
    """The hyperbolic tangent within 2 ulp, also near zero.

    Source: Cephes tanhf (Moshier).
    """
    return _let(x, lambda value: tirx.Select(
        tirx.abs(value) < _f32(TANH_SMALL), _tanh_near_zero(value), _odd(value, _tanh_far_out)
    ))  # fmt: skip


def _tanh_near_zero(x: ir.Expr) -> ir.Expr:
    return _let(x * x, lambda square: (_polynomial(TANH_POLYNOMIAL, square) * square + _f32(1)) * x)


def _tanh_far_out(x: ir.Expr) -> ir.Expr:
    return _f32(1) - _f32(2) / (exp(x + x) + _f32(1))


@in_float32(tirx.sigmoid)
def sigmoid(x: ir.Expr) -> ir.Expr:
    """1 / (1 + exp(-x)) within 3 ulp, with no overflow on either side."""
    return _let(x, lambda value: _let(exp(_f32(0) - tirx.abs(value)), lambda power: (
        tirx.Select(value < _f32(0), power, _f32(1)) / (_f32(1) + power)
    )))  # fmt: skip


@in_float32(tirx.erf)
def erf(x: ir.Expr) -> ir.Expr:
    """The error function within 2 ulp.

    Source: Cephes erff (Moshier) below 1, an own fit of erfc above.
    """
    return _let(
        x, lambda value: tirx.Select(tirx.abs(value) < _f32(1), _erf_near_zero(value), _odd(value, _erf_far_out))
    )


def _erf_near_zero(x: ir.Expr) -> ir.Expr:
    return _let(x * x, lambda square: _polynomial(ERF_POLYNOMIAL, square) * x)


def _erf_far_out(x: ir.Expr) -> ir.Expr:
    return _let(_keeping_nan(x, tirx.min(x, _f32(ERF_IS_ONE))), lambda bounded: _let(
        _f32(1) / bounded, lambda inverse: _f32(1) - exp(_f32(0) - bounded * bounded) * inverse * _erfc_factor(inverse)
    ))  # fmt: skip


def _erfc_factor(inverse: ir.Expr) -> ir.Expr:
    return _let(inverse * inverse, lambda square: _polynomial(ERFC_POLYNOMIAL, square))


def _odd(x: ir.Expr, positive: Function) -> ir.Expr:
    """An odd function from its values for positive arguments."""
    return _let(positive(tirx.abs(x)), lambda value: tirx.Select(x < _f32(0), _f32(0) - value, value))


def _keeping_nan(x: ir.Expr, value: ir.Expr) -> ir.Expr:
    # `x == x` would be folded to true by TVM's simplifier.
    return tirx.Select(x <= _f32(float("inf")), value, x)


def _polynomial(coefficients: Sequence[float], x: ir.Expr) -> ir.Expr:
    """Horner's rule, highest power first."""
    value = _f32(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + _f32(coefficient)
    return value


def _let(value: ir.Expr, body: Function) -> ir.Expr:
    """Name a value that is used more than once."""
    if isinstance(value, (tirx.Var, tirx.FloatImm)):
        return body(value)
    var = tirx.Var("t", str(value.ty.dtype))
    return tirx.Let(var, value, body(var))


def _f32(value: float) -> Any:
    return tirx.const(value, "float32")


def _i32(value: int) -> Any:
    return tirx.const(value, "int32")
