"""Circular and hyperbolic functions, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING
from tvtf.ops.elementwise import binary_op, chain, nodes, operands, shifted, tensor_of, unary_op
from tvtf.ops.rules import bind, number, unbroadcast


def _has_sign(x: int) -> Any:
    """Describes ONNX nodes for the sign bit of the operand number ``x``: true below zero and for -0.0.

    The reciprocal of -0.0 is -inf.
    """
    return "Or", ("Less", x, 0.0), ("Less", ("Reciprocal", x), 0.0)


def _among_infinities(x: int) -> Any:
    """Describes ONNX nodes for the operand number ``x``, or for its sign where both operands are infinite.

    The quotient of infinities would be NaN.
    """
    return "Where", ("And", ("IsInf", 0), ("IsInf", 1)), ("Sign", x), x


_IS_ORIGIN = ("And", ("Equal", 0, 0.0), ("Equal", 1, 0.0))
_SLOPE = ("Where", _IS_ORIGIN, 0, ("Div", _among_infinities(0), _among_infinities(1)))
_HALF_TURN = ("Where", _has_sign(0), float(-np.pi), float(np.pi))
_ATAN2 = ("Where", _has_sign(1), ("Add", ("Atan", _SLOPE), _HALF_TURN), ("Atan", _SLOPE))


def _circular(numpy: np.ufunc, derivative: Callable[[Tensor, Tensor], Tensor], **columns: Any) -> Any:
    """Returns a decorator that declares an elementwise function such as ``sin``.

    The function has the same name in the scalar library, ONNX and ``tf.math``. ``derivative(y, x)`` is its derivative,
    computed from the result ``y`` and the argument ``x``.
    """

    def declare(front: Callable[..., Any]) -> Any:
        """Declares the function ``front`` as an elementwise op."""
        name = front.__name__
        columns.setdefault("public", (name, f"math.{name}"))
        columns["lower"] = lambda t, x: getattr(t, name)(x)
        columns["onnx"] = name.capitalize()
        return unary_op(numpy=numpy, vjp=chain(derivative), **columns)(front)

    return declare


@_circular(np.sin, lambda y, x: bind.cos(x), shows=("tf.sin(0.).numpy()", "np.float32(0.0)"))
def sin(x: Any, name: str | None = None) -> Any:
    """Computes the sine of ``x`` in radians, elementwise."""
    return tensor_of(x)


@_circular(np.cos, lambda y, x: bind.negative(bind.sin(x)), shows=("tf.cos(0.).numpy()", "np.float32(1.0)"))
def cos(x: Any, name: str | None = None) -> Any:
    """Computes the cosine of ``x`` in radians, elementwise."""
    return tensor_of(x)


@_circular(
    np.tanh,
    lambda y, x: bind.subtract(number(1, y), bind.square(y)),
    public=("tanh", "math.tanh", "nn.tanh"),
    shows=("tf.tanh([0., 1e-10]).numpy()", "array([0.e+00, 1.e-10], dtype=float32)"),
)
def tanh(x: Any, name: str | None = None) -> Any:
    """Computes the hyperbolic tangent of ``x``, elementwise; exact near 0."""
    return tensor_of(x)


@_circular(
    np.tan,
    lambda y, x: shifted(bind.square(y), 1),
    samples=(-1.2, 1.2),
    shows=("tf.math.tan(0.).numpy()", "np.float32(0.0)"),
)
def tan(x: Any, name: str | None = None) -> Any:
    """Computes the tangent of ``x`` in radians, elementwise."""
    return tensor_of(x)


@_circular(
    np.arcsin,
    lambda y, x: bind.rsqrt(_one_minus_square(x)),
    samples=(-0.9, 0.9),
    shows=("tf.math.asin(1.).numpy()", "np.float32(1.5707964)"),
)
def asin(x: Any, name: str | None = None) -> Any:
    """Computes the arc sine in radians, elementwise; NaN outside [-1, 1]."""
    return tensor_of(x)


@_circular(
    np.arccos,
    lambda y, x: bind.negative(bind.rsqrt(_one_minus_square(x))),
    samples=(-0.9, 0.9),
    shows=("tf.math.acos(1.).numpy()", "np.float32(0.0)"),
)
def acos(x: Any, name: str | None = None) -> Any:
    """Computes the arc cosine in radians, elementwise; NaN outside [-1, 1]."""
    return tensor_of(x)


@_circular(
    np.arctan,
    lambda y, x: bind.reciprocal(shifted(bind.square(x), 1)),
    shows=("tf.math.atan(0.).numpy()", "np.float32(0.0)"),
)
def atan(x: Any, name: str | None = None) -> Any:
    """Computes the arc tangent in radians, elementwise."""
    return tensor_of(x)


@_circular(np.sinh, lambda y, x: bind.cosh(x), shows=("tf.math.sinh(0.).numpy()", "np.float32(0.0)"))
def sinh(x: Any, name: str | None = None) -> Any:
    """Computes the hyperbolic sine, elementwise."""
    return tensor_of(x)


@_circular(np.cosh, lambda y, x: bind.sinh(x), shows=("tf.math.cosh(0.).numpy()", "np.float32(1.0)"))
def cosh(x: Any, name: str | None = None) -> Any:
    """Computes the hyperbolic cosine, elementwise."""
    return tensor_of(x)


@_circular(
    np.arcsinh, lambda y, x: bind.reciprocal(bind.cosh(y)), shows=("tf.math.asinh(0.).numpy()", "np.float32(0.0)")
)
def asinh(x: Any, name: str | None = None) -> Any:
    """Computes the inverse hyperbolic sine, elementwise."""
    return tensor_of(x)


@_circular(
    np.arccosh,
    lambda y, x: bind.reciprocal(bind.sinh(y)),
    samples=(1.2, 4.0),
    shows=("tf.math.acosh(1.).numpy()", "np.float32(0.0)"),
)
def acosh(x: Any, name: str | None = None) -> Any:
    """Computes the inverse hyperbolic cosine, elementwise; NaN below 1."""
    return tensor_of(x)


@_circular(
    np.arctanh,
    lambda y, x: bind.reciprocal(_one_minus_square(x)),
    samples=(-0.9, 0.9),
    shows=("tf.math.atanh(0.).numpy()", "np.float32(0.0)"),
)
def atanh(x: Any, name: str | None = None) -> Any:
    """Computes the inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond."""
    return tensor_of(x)


def _one_minus_square(x: Tensor) -> Tensor:
    """Returns ``1 - x**2``."""
    return bind.subtract(number(1, x), bind.square(x))


def _atan2_vjp(cotangent: Tensor, z: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``y`` and ``x``: the angle's derivatives are x / (x² + y²) and -y / (x² + y²)."""
    scaled_cotangent = bind.divide(cotangent, bind.add(bind.square(x), bind.square(y)))
    return unbroadcast(bind.multiply(x, scaled_cotangent), y), unbroadcast(
        bind.negative(bind.multiply(y, scaled_cotangent)), x
    )


@binary_op(
    domain=FLOATING,
    numpy=np.arctan2,
    lower=lambda t, y, x: t.atan2(y, x),
    vjp=_atan2_vjp,
    onnx=nodes(_ATAN2),
    samples=(0.5, 2.0),
    public=("atan2", "math.atan2"),
    shows=("tf.atan2([1., 0.], [0., -1.]).numpy()", "array([1.5707964, 3.1415927], dtype=float32)"),
)
def atan2(y: Any, x: Any, name: str | None = None) -> Any:
    """Returns the angle of the point (x, y) in radians, in [-pi, pi], elementwise, with broadcasting."""
    return operands(y, x), {}
