"""Bessel functions and special integrals, elementwise, by SciPy: compiled code calls it, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.tensor import Tensor
from tvtf.ops.elementwise import scaled, shifted, tensor_of, widened
from tvtf.ops.rules import bind, number
from tvtf.ops.special import scipy_op


def _fresnel(*arrays: np.ndarray, part: int) -> np.ndarray:
    import scipy.special

    return scipy.special.fresnel(*arrays)[part]


def _special(
    kernel: str | Callable[..., Any],
    samples: tuple[float, float],
    derivative: Callable[[Tensor, Tensor], Tensor],
    *public: str,
    shows: tuple[str, str],
) -> Any:
    """Returns a decorator that declares a function as an elementwise op, which scipy.special computes.

    The decorated function has the op's signature and docstring, and no body.

    Args:
      kernel: the function of scipy.special, or its name there.
      samples: the range from which tests draw arguments.
      derivative: computes the derivative from the result ``y`` and the argument ``x``.
      public: the op's public names in addition to that in ``tf.math.special``.
      shows: the docstring's example: a call and its result.
    """

    def declare(function: Callable[..., Any]) -> Any:
        names = (*public, f"math.special.{function.__name__}")
        return scipy_op(kernel, derivative, samples, public=names, shows=shows)(function)

    return declare


def _divided_by_argument(y: Tensor, x: Tensor) -> Tensor:
    """Returns ``y / x``, or the limit 1/2 at 0.

    ``y`` is the value at ``x`` of an odd function with the slope 1/2 at 0.
    """
    half = number(0.5, x)
    is_zero = bind.equal(x, number(0, x))
    nonzero_x = bind.select(is_zero, number(1, x), x)
    return bind.select(is_zero, half, bind.divide(y, nonzero_x))


def _spence_derivative(x: Tensor) -> Tensor:
    """Returns the derivative of spence, ``log(x) / (1 - x)``, and its limit -1 at 1."""
    denominator = shifted(bind.negative(x), 1.0)
    is_one = bind.equal(x, number(1, x))
    nonzero_denominator = bind.select(is_one, number(1, x), denominator)
    return bind.select(is_one, number(-1, x), bind.divide(bind.log(x), nonzero_denominator))


def _minus(a: Tensor, b: Tensor) -> Tensor:
    return bind.subtract(a, b)


def _times(a: Tensor, b: Tensor) -> Tensor:
    return bind.multiply(a, b)


@_special(
    "i0",
    (-3.0, 3.0),
    lambda y, x: bind.bessel_i1(x),
    "math.bessel_i0",
    shows=("tf.math.bessel_i0([0., 1.]).numpy().round(3)", "array([1.   , 1.266], dtype=float32)"),
)
def bessel_i0(x: Any, name: str | None = None) -> Any:
    """Returns the modified Bessel function of the first kind and order 0, elementwise."""
    return tensor_of(x)


@_special(
    "i0e",
    (0.3, 3.0),
    lambda y, x: _minus(bind.bessel_i1e(x), _times(bind.sign(x), y)),
    "math.bessel_i0e",
    shows=("tf.math.bessel_i0e([0.]).numpy().round(3)", "array([1.], dtype=float32)"),
)
def bessel_i0e(x: Any, name: str | None = None) -> Any:
    """Computes ``exp(-|x|)`` times :func:`bessel_i0`, elementwise."""
    return tensor_of(x)


@_special(
    "i1",
    (-3.0, 3.0),
    lambda y, x: _minus(bind.bessel_i0(x), _divided_by_argument(y, x)),
    "math.bessel_i1",
    shows=("tf.math.bessel_i1([0., 1.]).numpy().round(3)", "array([0.   , 0.565], dtype=float32)"),
)
def bessel_i1(x: Any, name: str | None = None) -> Any:
    """Returns the modified Bessel function of the first kind and order 1, elementwise."""
    return tensor_of(x)


@_special(
    "i1e",
    (0.3, 3.0),
    lambda y, x: _minus(_minus(bind.bessel_i0e(x), _divided_by_argument(y, x)), _times(bind.sign(x), y)),
    "math.bessel_i1e",
    shows=("tf.math.bessel_i1e([0.]).numpy().round(3)", "array([0.], dtype=float32)"),
)
def bessel_i1e(x: Any, name: str | None = None) -> Any:
    """Computes ``exp(-|x|)`` times :func:`bessel_i1`, elementwise."""
    return tensor_of(x)


@_special(
    "j0",
    (-3.0, 3.0),
    lambda y, x: bind.negative(bind.bessel_j1(x)),
    shows=("tf.math.special.bessel_j0([0.]).numpy().round(3)", "array([1.], dtype=float32)"),
)
def bessel_j0(x: Any, name: str | None = None) -> Any:
    """Returns the Bessel function of the first kind and order 0, elementwise."""
    return tensor_of(x)


@_special(
    "j1",
    (-3.0, 3.0),
    lambda y, x: _minus(bind.bessel_j0(x), _divided_by_argument(y, x)),
    shows=("tf.math.special.bessel_j1([0.]).numpy().round(3)", "array([0.], dtype=float32)"),
)
def bessel_j1(x: Any, name: str | None = None) -> Any:
    """Returns the Bessel function of the first kind and order 1, elementwise."""
    return tensor_of(x)


@_special(
    "y0",
    (0.5, 3.0),
    lambda y, x: bind.negative(bind.bessel_y1(x)),
    shows=("tf.math.special.bessel_y0([1.]).numpy().round(3)", "array([0.088], dtype=float32)"),
)
def bessel_y0(x: Any, name: str | None = None) -> Any:
    """Returns the Bessel function of the second kind and order 0, elementwise."""
    return tensor_of(x)


@_special(
    "y1",
    (0.5, 3.0),
    lambda y, x: _minus(bind.bessel_y0(x), bind.divide(y, x)),
    shows=("tf.math.special.bessel_y1([1.]).numpy().round(3)", "array([-0.781], dtype=float32)"),
)
def bessel_y1(x: Any, name: str | None = None) -> Any:
    """Returns the Bessel function of the second kind and order 1, elementwise."""
    return tensor_of(x)


@_special(
    "k0",
    (0.5, 3.0),
    lambda y, x: bind.negative(bind.bessel_k1(x)),
    shows=("tf.math.special.bessel_k0([1.]).numpy().round(3)", "array([0.421], dtype=float32)"),
)
def bessel_k0(x: Any, name: str | None = None) -> Any:
    """Returns the modified Bessel function of the second kind and order 0, elementwise."""
    return tensor_of(x)


@_special(
    "k0e",
    (0.5, 3.0),
    lambda y, x: _minus(y, bind.bessel_k1e(x)),
    shows=("tf.math.special.bessel_k0e([1.]).numpy().round(3)", "array([1.144], dtype=float32)"),
)
def bessel_k0e(x: Any, name: str | None = None) -> Any:
    """Computes ``exp(x)`` times :func:`bessel_k0`, elementwise."""
    return tensor_of(x)


@_special(
    "k1",
    (0.5, 3.0),
    lambda y, x: bind.negative(bind.add(bind.bessel_k0(x), bind.divide(y, x))),
    shows=("tf.math.special.bessel_k1([1.]).numpy().round(3)", "array([0.602], dtype=float32)"),
)
def bessel_k1(x: Any, name: str | None = None) -> Any:
    """Returns the modified Bessel function of the second kind and order 1, elementwise."""
    return tensor_of(x)


@_special(
    "k1e",
    (0.5, 3.0),
    lambda y, x: _minus(_minus(y, bind.divide(y, x)), bind.bessel_k0e(x)),
    shows=("tf.math.special.bessel_k1e([1.]).numpy().round(3)", "array([1.636], dtype=float32)"),
)
def bessel_k1e(x: Any, name: str | None = None) -> Any:
    """Computes ``exp(x)`` times :func:`bessel_k1`, elementwise."""
    return tensor_of(x)


@_special(
    "dawsn",
    (-2.0, 2.0),
    lambda y, x: shifted(scaled(_times(x, y), -2.0), 1.0),
    shows=("tf.math.special.dawsn([1.]).numpy().round(3)", "array([0.538], dtype=float32)"),
)
def dawsn(x: Any, name: str | None = None) -> Any:
    """Returns Dawson's integral, ``exp(-x**2)`` times the integral of ``exp(t**2)`` from 0 to x, elementwise."""
    return tensor_of(x)


def _expint(x: np.ndarray) -> np.ndarray:
    from scipy.special import expi

    return np.where(x < 0, np.nan, expi(x))  # type: ignore[no-any-return]


@_special(
    widened(_expint),
    (0.5, 3.0),
    lambda y, x: bind.divide(bind.exp(x), x),
    shows=("tf.math.special.expint([1.]).numpy().round(3)", "array([1.895], dtype=float32)"),
)
def expint(x: Any, name: str | None = None) -> Any:
    """Returns the exponential integral of ``exp(t) / t`` from minus infinity to x, elementwise; NaN below 0, as TensorFlow's."""
    return tensor_of(x)


@_special(
    widened(partial(_fresnel, part=1)),
    (-2.0, 2.0),
    lambda y, x: bind.cos(scaled(bind.square(x), np.pi / 2)),
    shows=("tf.math.special.fresnel_cos([1.]).numpy().round(3)", "array([0.78], dtype=float32)"),
)
def fresnel_cos(x: Any, name: str | None = None) -> Any:
    """Returns the integral of ``cos(pi t**2 / 2)`` from 0 to x, elementwise."""
    return tensor_of(x)


@_special(
    widened(partial(_fresnel, part=0)),
    (-2.0, 2.0),
    lambda y, x: bind.sin(scaled(bind.square(x), np.pi / 2)),
    shows=("tf.math.special.fresnel_sin([1.]).numpy().round(3)", "array([0.438], dtype=float32)"),
)
def fresnel_sin(x: Any, name: str | None = None) -> Any:
    """Returns the integral of ``sin(pi t**2 / 2)`` from 0 to x, elementwise."""
    return tensor_of(x)


@_special(
    "spence",
    (1.2, 3.0),
    lambda y, x: _spence_derivative(x),
    shows=("tf.math.special.spence([1.]).numpy().round(3)", "array([0.], dtype=float32)"),
)
def spence(x: Any, name: str | None = None) -> Any:
    """Returns Spence's integral of ``log(t) / (1 - t)`` from 1 to x, elementwise."""
    return tensor_of(x)
