"""Circular and hyperbolic functions, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING
from tvtf.ops.elementwise import binary_op, chain, nodes, operands, shifted, tensor_of, unary_op
from tvtf.ops.rules import bind, number, unbroadcast


def _has_sign(x: int) -> Any:
    """Returns ONNX nodes for the sign bit of an operand: true below zero and for -0.0."""
    return "Or", ("Less", x, 0.0), ("Less", ("Reciprocal", x), 0.0)


def _among_infinities(x: int) -> Any:
    """Returns ONNX nodes for an operand, or for its sign where both are infinite, as their quotient would be NaN."""
    return "Where", ("And", ("IsInf", 0), ("IsInf", 1)), ("Sign", x), x


_IS_ORIGIN = ("And", ("Equal", 0, 0.0), ("Equal", 1, 0.0))
_SLOPE = ("Where", _IS_ORIGIN, 0, ("Div", _among_infinities(0), _among_infinities(1)))
_HALF_TURN = ("Where", _has_sign(0), float(-np.pi), float(np.pi))
_ATAN2 = ("Where", _has_sign(1), ("Add", ("Atan", _SLOPE), _HALF_TURN), ("Atan", _SLOPE))


@unary_op(
    numpy=np.sin,
    lower=lambda t, x: t.sin(x),
    vjp=chain(lambda y, x: bind.cos(x)),
    onnx="Sin",
    public=("sin", "math.sin"),
)
def sin(x: Any, name: str | None = None) -> Any:
    """Sine of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.sin(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/sin
    """
    return tensor_of(x)


@unary_op(
    numpy=np.cos,
    lower=lambda t, x: t.cos(x),
    vjp=chain(lambda y, x: bind.negative(bind.sin(x))),
    onnx="Cos",
    public=("cos", "math.cos"),
)
def cos(x: Any, name: str | None = None) -> Any:
    """Cosine of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.cos(0.).numpy()
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cos
    """
    return tensor_of(x)


@unary_op(
    numpy=np.tanh,
    lower=lambda t, x: t.tanh(x),
    vjp=chain(lambda y, x: bind.subtract(number(1, y), bind.square(y))),
    onnx="Tanh",
    public=("tanh", "math.tanh", "nn.tanh"),
)
def tanh(x: Any, name: str | None = None) -> Any:
    """Hyperbolic tangent of ``x``, elementwise; exact near 0.

    >>> import tvtf as tf
    >>> tf.tanh([0., 1e-10]).numpy()
    array([0.e+00, 1.e-10], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/tanh
    """
    return tensor_of(x)


@unary_op(
    numpy=np.tan,
    lower=lambda t, x: t.tan(x),
    vjp=chain(lambda y, x: shifted(bind.square(y), 1)),
    onnx="Tan",
    samples=(-1.2, 1.2),
    public=(
        "tan",
        "math.tan",
    ),
)
def tan(x: Any, name: str | None = None) -> Any:
    """Tangent of ``x`` in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.math.tan(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/tan
    """
    return tensor_of(x)


@unary_op(
    numpy=np.arcsin,
    lower=lambda t, x: t.asin(x),
    vjp=chain(lambda y, x: bind.rsqrt(_one_minus_square(x))),
    onnx="Asin",
    samples=(-0.9, 0.9),
    public=(
        "asin",
        "math.asin",
    ),
)
def asin(x: Any, name: str | None = None) -> Any:
    """Arc sine in radians, elementwise; NaN outside [-1, 1].

    >>> import tvtf as tf
    >>> tf.math.asin(1.).numpy()
    np.float32(1.5707964)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/asin
    """
    return tensor_of(x)


@unary_op(
    numpy=np.arccos,
    lower=lambda t, x: t.acos(x),
    vjp=chain(lambda y, x: bind.negative(bind.rsqrt(_one_minus_square(x)))),
    onnx="Acos",
    samples=(-0.9, 0.9),
    public=(
        "acos",
        "math.acos",
    ),
)
def acos(x: Any, name: str | None = None) -> Any:
    """Arc cosine in radians, elementwise; NaN outside [-1, 1].

    >>> import tvtf as tf
    >>> tf.math.acos(1.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/acos
    """
    return tensor_of(x)


@unary_op(
    numpy=np.arctan,
    lower=lambda t, x: t.atan(x),
    vjp=chain(lambda y, x: bind.reciprocal(shifted(bind.square(x), 1))),
    onnx="Atan",
    public=(
        "atan",
        "math.atan",
    ),
)
def atan(x: Any, name: str | None = None) -> Any:
    """Arc tangent in radians, elementwise.

    >>> import tvtf as tf
    >>> tf.math.atan(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/atan
    """
    return tensor_of(x)


@unary_op(
    numpy=np.sinh,
    lower=lambda t, x: t.sinh(x),
    vjp=chain(lambda y, x: bind.cosh(x)),
    onnx="Sinh",
    public=(
        "sinh",
        "math.sinh",
    ),
)
def sinh(x: Any, name: str | None = None) -> Any:
    """Hyperbolic sine, elementwise.

    >>> import tvtf as tf
    >>> tf.math.sinh(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/sinh
    """
    return tensor_of(x)


@unary_op(
    numpy=np.cosh,
    lower=lambda t, x: t.cosh(x),
    vjp=chain(lambda y, x: bind.sinh(x)),
    onnx="Cosh",
    public=(
        "cosh",
        "math.cosh",
    ),
)
def cosh(x: Any, name: str | None = None) -> Any:
    """Hyperbolic cosine, elementwise.

    >>> import tvtf as tf
    >>> tf.math.cosh(0.).numpy()
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cosh
    """
    return tensor_of(x)


@unary_op(
    numpy=np.arcsinh,
    lower=lambda t, x: t.asinh(x),
    vjp=chain(lambda y, x: bind.reciprocal(bind.cosh(y))),
    onnx="Asinh",
    public=(
        "asinh",
        "math.asinh",
    ),
)
def asinh(x: Any, name: str | None = None) -> Any:
    """Inverse hyperbolic sine, elementwise.

    >>> import tvtf as tf
    >>> tf.math.asinh(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/asinh
    """
    return tensor_of(x)


@unary_op(
    numpy=np.arccosh,
    lower=lambda t, x: t.acosh(x),
    vjp=chain(lambda y, x: bind.reciprocal(bind.sinh(y))),
    onnx="Acosh",
    samples=(1.2, 4.0),
    public=(
        "acosh",
        "math.acosh",
    ),
)
def acosh(x: Any, name: str | None = None) -> Any:
    """Inverse hyperbolic cosine, elementwise; NaN below 1.

    >>> import tvtf as tf
    >>> tf.math.acosh(1.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/acosh
    """
    return tensor_of(x)


@unary_op(
    numpy=np.arctanh,
    lower=lambda t, x: t.atanh(x),
    vjp=chain(lambda y, x: bind.reciprocal(_one_minus_square(x))),
    onnx="Atanh",
    samples=(-0.9, 0.9),
    public=(
        "atanh",
        "math.atanh",
    ),
)
def atanh(x: Any, name: str | None = None) -> Any:
    """Inverse hyperbolic tangent, elementwise; infinite at -1 and 1, NaN beyond.

    >>> import tvtf as tf
    >>> tf.math.atanh(0.).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/atanh
    """
    return tensor_of(x)


def _one_minus_square(x: Tensor) -> Tensor:
    return bind.subtract(number(1, x), bind.square(x))


def _atan2_vjp(ct: Tensor, z: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    part = bind.divide(ct, bind.add(bind.square(x), bind.square(y)))
    return unbroadcast(bind.multiply(x, part), y), unbroadcast(bind.negative(bind.multiply(y, part)), x)


@binary_op(
    domain=FLOATING,
    numpy=np.arctan2,
    lower=lambda t, y, x: t.atan2(y, x),
    vjp=_atan2_vjp,
    onnx=nodes(_ATAN2),
    samples=(0.5, 2.0),
    public=("atan2", "math.atan2"),
)
def atan2(y: Any, x: Any, name: str | None = None) -> Any:
    """The angle of the point (x, y) in radians, in [-pi, pi], elementwise, with broadcasting.

    >>> import tvtf as tf
    >>> tf.atan2([1., 0.], [0., -1.]).numpy()
    array([1.5707964, 3.1415927], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/atan2
    """
    return operands(y, x), {}
