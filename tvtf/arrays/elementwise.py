"""NumPy's elementwise functions of one or two arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tvtf.arrays.convert import (
    array,
    broadcast,
    float_dtype,
    is_inexact,
    nonnegative_axis,
    numpy_like,
    tf,
    to_common_dtype,
    to_inexact,
    to_tensor,
)
from tvtf.core.tensor import Tensor

Function = Callable[..., Any]
A_PAIR = "[3., 0.5], [2., 4.]"
INTEGERS = "[12, 7], [8, 7]"

FLOAT_FUNCTIONS = {
    **{name: name for name in ("log", "exp", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "expm1", "log1p")},
    **{name: name for name in ("ceil", "floor")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "tanh")},
    "isfinite": "is_finite",
    "isnan": "is_nan",
}
"""NumPy's names of functions that compute in floats, with their names in ``tf.math``."""


def _unary(function: Function, convert: Callable[[Any], Tensor] = to_inexact) -> Function:
    """Wraps an elementwise function to convert its argument to a tensor, by default of a floating or complex dtype."""
    return lambda x: function(convert(x))


def _declare_unary() -> None:
    """Exports NumPy's elementwise functions of one argument, composed of TensorFlow's."""
    for name, math_name in FLOAT_FUNCTIONS.items():
        numpy_like(name, shows="[0.25, 0.5]")(_unary(getattr(tf.math, math_name)))
    numpy_like("arccosh", shows="[1.25, 1.5]")(_unary(tf.math.acosh))
    for names, function in (
        (("abs", "absolute", "fabs"), tf.abs),
        (("conj", "conjugate"), tf.math.conj),
        (("negative",), tf.negative),
        (("square",), tf.square),
        (("positive",), tf.identity),
        (("reciprocal",), tf.math.reciprocal),
    ):
        numpy_like(*names, shows="[-1.5, 2.]")(_unary(function, to_tensor))


def _binary(function: Function, convert: Function = to_common_dtype) -> Function:
    """Wraps an elementwise function to convert its two arguments, by default to a common dtype."""
    return lambda x1, x2: function(*convert(x1, x2))


def _to_bools(*xs: Any) -> Iterator[Tensor]:
    """Converts arguments to bool tensors."""
    return (to_tensor(x, tf.bool) for x in xs)


def _separate_for_bools(of_numbers: Function, of_bools: Function) -> Function:
    """Combines a function of numbers with another one for bools."""
    return lambda x, *more: (of_bools if x.dtype.is_bool else of_numbers)(x, *more)


def _casting_bools(dtype: Any, function: Function) -> Function:
    """Wraps a function to cast bools to a dtype first."""
    return lambda *xs: function(*(tf.cast(x, dtype) if x.dtype.is_bool else x for x in xs))


def _true_divide(x1: Tensor, x2: Tensor) -> Tensor:
    return _casting_bools(float_dtype(), tf.truediv)(x1, x2)


def _bitwise(function: Function) -> Function:
    """Wraps a bitwise function, computed in int8 for bools."""
    return lambda x1, x2: tf.cast(_casting_bools(tf.int8, function)(x1, x2), x1.dtype)


def _heaviside(x1: Tensor, x2: Tensor) -> Tensor:
    """Heaviside's step function."""
    y = tf.where(x1 < 0, tf.zeros([], x2.dtype), tf.where(x1 > 0, tf.ones([], x2.dtype), x2))
    return y if is_inexact(y) else tf.cast(y, float_dtype())


def _declare_binary() -> None:
    """Exports NumPy's elementwise functions of two arguments, composed of TensorFlow's."""
    for names, function in (
        (("add",), _separate_for_bools(tf.add, tf.logical_or)),
        (("subtract",), tf.subtract),
        (("multiply",), _separate_for_bools(tf.multiply, tf.logical_and)),
        (("true_divide", "divide"), _true_divide),
        (("floor_divide",), _casting_bools(tf.int8, tf.math.floordiv)),
        (("mod", "remainder"), _casting_bools(tf.int8, tf.math.floormod)),
        (("maximum",), _separate_for_bools(tf.maximum, tf.logical_or)),
        (("minimum",), _separate_for_bools(tf.minimum, tf.logical_and)),
        (("power", "float_power"), tf.pow),
        (("arctan2",), tf.atan2),
        (("nextafter",), tf.math.nextafter),
        (("heaviside",), _heaviside),
        (("equal",), tf.equal),
        (("not_equal",), tf.not_equal),
        (("greater",), _casting_bools(tf.int32, tf.greater)),
        (("greater_equal",), _casting_bools(tf.int32, tf.greater_equal)),
        (("less",), _casting_bools(tf.int32, tf.less)),
        (("less_equal",), _casting_bools(tf.int32, tf.less_equal)),
    ):
        numpy_like(*names, shows=A_PAIR)(_binary(function))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        numpy_like(name, shows=INTEGERS)(_binary(_bitwise(getattr(tf.bitwise, name))))
    for name in ("logical_and", "logical_or", "logical_xor"):
        numpy_like(name, shows="[True, False], [1, 1]")(_binary(getattr(tf.math, name), _to_bools))
    numpy_like("logical_not", shows="[True, False]")(_unary(tf.logical_not, lambda x: to_tensor(x, tf.bool)))


_declare_unary()
_declare_binary()


@numpy_like("real", shows="[1., 1j]")
def real(val: Any) -> Tensor:
    return tf.math.real(to_tensor(val))


@numpy_like("imag", shows="[1., 1j]")
def imag(val: Any) -> Tensor:
    return tf.math.imag(to_tensor(val))


@numpy_like("sign", shows="[-1.5, 2.]")
def sign(x: Any, out: Any = None, where: Any = None, **kwargs: Any) -> Tensor:
    for name, value in {"out": out, "where": where, **kwargs}.items():
        if value:
            raise ValueError(f"tf.numpy doesn't support setting {name}.")
    return tf.sign(to_tensor(x))


@numpy_like("bitwise_not", shows="[0, 5]")
def bitwise_not(x: Any) -> Tensor:
    return _separate_for_bools(tf.bitwise.invert, tf.logical_not)(to_tensor(x))


@numpy_like("divmod", shows="[7., -7.], 2.")
def divmod_(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    x1, x2 = to_common_dtype(x1, x2)
    floor = _casting_bools(tf.int8, tf.math.floordiv)
    remainder = _casting_bools(tf.int8, tf.math.floormod)
    return floor(x1, x2), remainder(x1, x2)


@numpy_like("clip", shows="[1., 2., 3.], 1.5, 2.5")
def clip(a: Any, a_min: Any, a_max: Any) -> Tensor:
    if a_min is None and a_max is None:
        raise ValueError("Not more than one of `a_min` and `a_max` may be `None`.")
    if a_min is None or a_max is None:
        bound = tf.experimental.numpy.minimum if a_min is None else tf.experimental.numpy.maximum
        return bound(a, a_max if a_min is None else a_min)
    return tf.clip_by_value(*broadcast(*to_common_dtype(a, a_min, a_max)))


@numpy_like("hypot", shows="[3., 5.], [4., 12.]")
def hypot(x1: Any, x2: Any) -> Tensor:
    x1, x2 = to_common_dtype(x1, x2)
    return tf.sqrt(to_inexact(tf.square(x1) + tf.square(x2)))


def _log_of_sum(x1: Any, x2: Any, exponential: Function, log_of_base: float) -> Tensor:
    """Returns ``log(exponential(x1) + exponential(x2))``, as for ``np.logaddexp``, without overflow.

    ``log_of_base`` is the natural logarithm of the base of ``exponential`` and of the result.
    """
    x1, x2 = to_common_dtype(x1, x2)
    difference = x1 - x2
    smaller_share = to_inexact(exponential(-tf.abs(difference)))  # of the larger exponential, at most 1
    log_of_sum = tf.maximum(x1, x2) + tf.math.log1p(smaller_share) / log_of_base
    # The difference of equal infinities is NaN.
    return tf.where(tf.math.is_nan(difference), x1 + x2, log_of_sum)


@numpy_like("logaddexp", shows=A_PAIR)
def logaddexp(x1: Any, x2: Any) -> Tensor:
    return _log_of_sum(x1, x2, tf.exp, 1.0)


@numpy_like("logaddexp2", shows=A_PAIR)
def logaddexp2(x1: Any, x2: Any) -> Tensor:
    return _log_of_sum(x1, x2, exp2, np.log(2))


@numpy_like("exp2", shows="[0.25, 3.]")
def exp2(x: Any) -> Tensor:
    x = to_inexact(x)
    return tf.pow(tf.constant(2, x.dtype), x)


@numpy_like("log2", shows="[0.25, 3.]")
def log2(x: Any) -> Tensor:
    return tf.math.log(to_inexact(x)) / np.log(2)


@numpy_like("log10", shows="[0.25, 100.]")
def log10(x: Any) -> Tensor:
    return tf.math.log(to_inexact(x)) / np.log(10)


@numpy_like("cbrt", shows="[-8., 27.]")
def cbrt(x: Any) -> Tensor:
    x = to_inexact(x)
    root = tf.abs(x) ** (1.0 / 3)
    return tf.where(x < 0, -root, root)


@numpy_like("fix")
def fix(x: Any) -> Tensor:
    """Rounds towards zero, to floats, as NumPy's ``fix``, which NumPy 2.5 deprecates in favor of ``trunc``.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.fix([-1.5, 1.5]).numpy()
    array([-1.,  1.])

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/fix
    """
    x = to_inexact(x)
    return tf.where(x < 0, tf.math.ceil(x), tf.floor(x))


@numpy_like("sinc", shows="[0., 0.5]")
def sinc(x: Any) -> Tensor:
    x = to_inexact(x)
    scaled = x * np.pi
    return tf.where(tf.equal(x, 0), tf.ones_like(x), tf.sin(scaled) / scaled)


@numpy_like("deg2rad", shows="[0., 90.]")
def deg2rad(x: Any) -> Tensor:
    return to_inexact(x) * (np.pi / 180.0)


@numpy_like("rad2deg", shows="np.array([0., 1.])")
def rad2deg(x: Any) -> Any:
    return x * (180.0 / np.pi)


@numpy_like("angle", shows="[1., 1j]")
def angle(z: Any, deg: bool = False) -> Tensor:
    z = to_inexact(z)
    angles = tf.math.angle(z) if z.dtype.is_complex else tf.where(z < 0, np.pi, 0)
    return rad2deg(angles) if deg else angles


@numpy_like("around", "round", shows="[1.25, -0.375], 1")
def around(a: Any, decimals: int = 0) -> Tensor:
    a = to_tensor(a)
    working = a if is_inexact(a) else tf.cast(a, float_dtype())
    factor = tf.cast(10.0**decimals, working.dtype)
    return tf.cast(tf.round(working * factor) / factor, a.dtype)


@numpy_like("signbit", shows="[-1.5, 2.]")
def signbit(x: Any) -> Tensor:
    x = to_tensor(x)
    return tf.zeros_like(x) if x.dtype.is_bool else x < 0


@numpy_like("iscomplex", shows="[1., 1j]")
def iscomplex(x: Any) -> Tensor:
    return tf.not_equal(tf.math.imag(to_tensor(x)), 0)


@numpy_like("isreal", shows="[1., 1j]")
def isreal(x: Any) -> Tensor:
    return tf.equal(tf.math.imag(to_tensor(x)), 0)


@numpy_like("iscomplexobj", shows="[1., 1j]")
def iscomplexobj(x: Any) -> bool:
    return to_tensor(x).dtype.is_complex


@numpy_like("isrealobj", shows="[1., 1j]")
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


def _floats_only(test: Function) -> Function:
    """Restricts a test to floats; other dtypes have no infinities."""
    return lambda x: test(x) if x.dtype.is_floating else False


numpy_like("isinf", shows="tf.constant([np.inf, -np.inf, 0.])")(_floats_only(tf.math.is_inf))
numpy_like("isposinf", shows="tf.constant([np.inf, -np.inf, 0.])")(
    _floats_only(lambda x: tf.equal(x, tf.constant(np.inf, x.dtype)))
)
numpy_like("isneginf", shows="tf.constant([np.inf, -np.inf, 0.])")(
    _floats_only(lambda x: tf.equal(x, tf.constant(-np.inf, x.dtype)))
)


@numpy_like("isclose", shows="[1., 2.], [1.000001, 2.1]")
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    a, b = to_common_dtype(a, b)
    if not is_inexact(a):
        return tf.equal(a, b)
    real_dtype = a.dtype.real_dtype
    is_near = tf.abs(a - b) <= tf.constant(atol, real_dtype) + tf.constant(rtol, real_dtype) * tf.abs(b)
    return is_near | (tf.math.is_nan(a) & tf.math.is_nan(b)) if equal_nan else is_near


@numpy_like("allclose", shows="[1., 2.], [1.000001, 2.1]")
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    return tf.reduce_all(isclose(a, b, rtol, atol, equal_nan))


@numpy_like("array_equal", shows="[1, 2], [1, 2]")
def array_equal(a1: Any, a2: Any) -> Tensor:
    a1, a2 = to_common_dtype(a1, a2)
    if a1.ndim != a2.ndim:
        return tf.constant(False)
    same = tf.reduce_all(tf.equal(tf.shape(a1), tf.shape(a2)))
    return tf.cond(same, lambda: tf.reduce_all(tf.equal(a1, a2)), lambda: tf.constant(False))


def _common_divisor(x1: Tensor, x2: Tensor) -> Tensor:
    """Computes elementwise greatest common divisors of two integer tensors by Euclid's algorithm.

    The loop ends when all elements are done.

    Args:
      x1, x2: the integer tensors.
    """
    if not x1.dtype.is_integer:
        raise ValueError("Arguments to gcd must be integers.")
    zero = tf.zeros([], x1.dtype)
    one = tf.ones([], x1.dtype)

    def any_pending(a: Tensor, b: Tensor) -> Tensor:
        return tf.reduce_any(tf.not_equal(b, 0))

    def euclid_step(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        # Elements that are done go on with the loop, but must not divide by zero.
        is_pending = tf.not_equal(b, 0)
        divisor = tf.where(is_pending, b, one)
        remainder = tf.where(is_pending, tf.math.floormod(a, divisor), zero)
        return tf.where(is_pending, b, a), remainder

    absolute_values = tuple(map(tf.abs, broadcast(x1, x2)))
    divisors, _ = tf.while_loop(any_pending, euclid_step, absolute_values)
    return divisors


@numpy_like("gcd", shows=INTEGERS)
def gcd(x1: Any, x2: Any) -> Tensor:
    return _common_divisor(*to_common_dtype(x1, x2))


@numpy_like("lcm", shows=INTEGERS)
def lcm(x1: Any, x2: Any) -> Tensor:
    x1, x2 = to_common_dtype(x1, x2)
    divisor = _common_divisor(x1, x2)
    nonzero_divisor = tf.where(tf.equal(divisor, 0), tf.ones_like(divisor), divisor)
    return tf.where(tf.equal(divisor, 0), tf.zeros_like(divisor), tf.abs(x1) * (tf.abs(x2) // nonzero_divisor))


@numpy_like("polyval", shows="[1., 2., 3.], [2., 0.5]")
def polyval(p: Any, x: Any) -> Tensor:
    p, x = to_common_dtype(p, x)
    terms = tf.unstack(tf.reshape(p, [1]) if p.ndim == 0 else p)
    return functools.reduce(lambda y, term: y * x + term, terms[1:], tf.zeros_like(x) + terms[0])


@numpy_like("diff", shows="[1, 4, 9, 16], 2")
def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """Returns the differences of neighbouring elements along an axis, taken ``n`` times."""
    a = to_tensor(a)
    axis_index = nonnegative_axis(axis, a.ndim)
    if axis_index >= a.ndim:
        raise ValueError(f"Argument `axis` (received axis={axis}) is out of bounds for input {a} of rank {a.ndim}.")
    if n < 0:
        raise ValueError(f"Argument `order` must be a non-negative integer. Received: axis={n}")
    axes_before = (slice(None),) * axis_index
    all_but_first = (*axes_before, slice(1, None))
    all_but_last = (*axes_before, slice(None, -1))
    # NumPy's difference of bools is whether they differ.
    difference_of = tf.not_equal if a.dtype.is_bool else tf.subtract
    for _ in range(n):
        a = difference_of(a[all_but_first], a[all_but_last])
    return a


@numpy_like("where", shows="[True, False], 1, 2.5")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    condition = to_tensor(condition, tf.bool)
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("Both x and y must be ndarrays, or both must be None.")
    return tf.where(condition, *to_common_dtype(x, y))


@numpy_like("nonzero", shows="[[0, 3], [4, 0]]")
def nonzero(a: Any) -> list[Tensor]:
    a = array(a, ndmin=1)
    return tf.unstack(tf.where(tf.cast(a, tf.bool)), a.ndim, axis=1)


@numpy_like("select", shows="[[True, False], [True, True]], [[1, 2], [3, 4]]")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """Returns, for each element, the choice of the first condition that holds there.

    Args:
      condlist: bool arrays.
      choicelist: for each of them, the array to choose from where it is True.
      default: the value of elements for which no condition is True.
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})")
    if not condlist:
        raise ValueError("condlist must be non-empty")
    output, *choices = to_common_dtype(default, *choicelist)
    # The first condition is applied last, so that it overrides the others.
    for condition, choice in zip(condlist[::-1], choices[::-1]):
        output = where(condition, choice, output)
    return output
