"""Incomplete gamma and beta functions, zeta, erfcinv and lbeta, by SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.primitive import Sample, export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import float32, float64
from tvtf.ops.elementwise import binary_op, like, operands, scaled, shifted, tensor_of
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import operands_of_list
from tvtf.ops.rules import (
    batch_elementwise,
    bind,
    broadcast_types,
    draw,
    require_dtype,
    require_same_dtype,
    unbroadcast,
)
from tvtf.ops.special import NO_ONNX, scipy, scipy_op

WIDE = (float32, float64)
_STEP = 1e-3


def _igamma_derivative_by_a(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Computes the derivative of ``igamma(a, x)`` by ``a``, with central finite differences of order 8 in float64."""
    import scipy.special

    a, x = a.astype(np.float64), x.astype(np.float64)
    step = _STEP * np.maximum(np.abs(a), 1e-2)  # relative to a, but not to an a near 0
    weights = (4 / 5, -1 / 5, 4 / 105, -1 / 280)  # of the differences over 1, 2, 3 and 4 steps to each side
    total = np.zeros(())
    for step_count, weight in enumerate(weights, 1):
        offset = step_count * step
        difference = scipy.special.gammainc(a + offset, x) - scipy.special.gammainc(a - offset, x)
        total = total + weight * difference
    return np.asarray(total / step)


@binary_op(
    domain=WIDE,
    numpy=lambda a, x: _igamma_derivative_by_a(a, x).astype(a.dtype),
    lower=None,
    host=True,
    onnx=None,
    why_not=NO_ONNX | {"vjp": "TensorFlow has none"},
    samples=(0.5, 3.0),
    gradient=False,
)
def igamma_grad_a(a: Tensor, x: Tensor) -> Any:
    """Computes the derivative of ``igamma(a, x)`` by ``a``."""
    return (a, x), {}


def _density(a: Tensor, x: Tensor) -> Tensor:
    """Returns the derivative of ``igamma(a, x)`` by ``x``, the density of the gamma distribution."""
    power = bind.multiply(shifted(a, -1.0), bind.log(x))
    return bind.exp(bind.subtract(bind.subtract(power, x), bind.lgamma(a)))


def _igamma_vjp(sign: float) -> Any:
    """Returns the rule for the vector-Jacobian product of ``igamma`` (``sign`` 1) or ``igammac`` (``sign`` -1).

    igammac is ``1 - igamma``, so its derivatives are negated.
    """

    def vjp(cotangent: Tensor, y: Tensor, a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        igamma_cotangent = scaled(cotangent, sign)
        a_cotangent = bind.multiply(igamma_cotangent, bind.igamma_grad_a(a, x))
        x_cotangent = bind.multiply(igamma_cotangent, _density(a, x))
        return unbroadcast(a_cotangent, a), unbroadcast(x_cotangent, x)

    return vjp


def _scipy_binary_op(name: str, vjp: Callable[..., Any], samples: tuple[float, float], shows: tuple[str, str]) -> Any:
    """Returns a decorator that declares an elementwise op of two tensors, computed by the function ``name`` of SciPy.

    The op is public in ``tf.math``. Tests draw its operands from the range ``samples``. ``shows`` is the docstring's
    example: a call and its result.
    """

    def declare(front: Callable[..., Any]) -> Any:
        """Declares the op with the public function ``front`` as a host op: compiled code calls SciPy, too."""
        return binary_op(
            domain=WIDE,
            numpy=scipy(name),
            lower=None,
            host=True,
            vjp=vjp,
            onnx=None,
            why_not=NO_ONNX,
            samples=samples,
            gradient=False,
            public=(f"math.{front.__name__}",),
            shows=shows,
        )(front)

    return declare


@_scipy_binary_op(
    "gammainc", _igamma_vjp(1.0), (0.5, 3.0), shows=("tf.math.igamma(1., 1.).numpy()", "np.float32(0.63212055)")
)
def igamma(a: Any, x: Any, name: str | None = None) -> Any:
    """Returns the lower regularized incomplete gamma function, with broadcasting."""
    return operands(a, x), {}


@_scipy_binary_op(
    "gammaincc", _igamma_vjp(-1.0), (0.5, 3.0), shows=("tf.math.igammac(1., 1.).numpy()", "np.float32(0.36787945)")
)
def igammac(a: Any, x: Any, name: str | None = None) -> Any:
    """Returns the upper regularized incomplete gamma function ``1 - igamma(a, x)``, with broadcasting."""
    return operands(a, x), {}


@_scipy_binary_op(
    "zeta",
    lambda cotangent, y, x, q: (
        None,
        unbroadcast(bind.negative(bind.multiply(cotangent, bind.multiply(x, bind.zeta(shifted(x, 1.0), q)))), q),
    ),
    (1.5, 3.0),
    shows=("tf.math.zeta(2., 1.).numpy()", "np.float32(1.644934)"),
)
def zeta(x: Any, q: Any, name: str | None = None) -> Any:
    """Returns the Hurwitz zeta function, the sum of ``(q + n)**-x`` over n from 0, with broadcasting; no gradient by ``x``."""
    return operands(x, q), {}


@scipy_op(
    "erfcinv",
    lambda y, x: scaled(bind.exp(bind.square(y)), -np.sqrt(np.pi) / 2),
    (0.1, 1.9),
    domain=WIDE,
    shows=("tf.math.erfcinv([0.5]).numpy().round(3)", "array([0.477], dtype=float32)"),
)
def erfcinv(x: Any, name: str | None = None) -> Any:
    """Returns the inverse of the complementary error function, elementwise."""
    return tensor_of(x)


def _betainc_type(a: TensorType, b: TensorType, x: TensorType) -> TensorType:
    require_same_dtype((a, b, x), "abx")
    require_dtype(a, WIDE, "a")
    return TensorType(broadcast_types(a, b, x), a.dtype)


def _betainc_vjp(cotangent: Tensor, y: Tensor, a: Tensor, b: Tensor, x: Tensor) -> tuple[None, None, Tensor]:
    """Returns the cotangent of ``x`` alone, as TensorFlow does."""
    log_beta = bind.subtract(bind.add(bind.lgamma(a), bind.lgamma(b)), bind.lgamma(bind.add(a, b)))
    left = bind.xlogy(shifted(a, -1.0), x)
    right = bind.xlog1py(shifted(b, -1.0), bind.negative(x))
    slope = bind.exp(bind.subtract(bind.add(left, right), log_beta))
    return None, None, unbroadcast(bind.multiply(cotangent, slope), x)


def _betainc_sample(seed: int, *shapes: tuple[int, ...]) -> Sample:
    """Returns a test sample of ``betainc``, whose three arguments have the given shapes and lie in its domain."""
    a_shape, b_shape, x_shape = shapes
    a = draw(seed, a_shape, 0.5, 3.0)
    b = draw(seed + 1, b_shape, 0.5, 3.0)
    x = draw(seed + 2, x_shape, 0.1, 0.9)
    symbolic_dims = []  # a name for each axis of each input
    for i, shape in enumerate(shapes):
        symbolic_dims.append(tuple(f"n{i}_{axis}" for axis in range(len(shape))))
    # The gradient is tested for input 2, x.
    return Sample((a, b, x), {}, WIDE, gradient=(2,), symbolic=tuple(symbolic_dims))


@host_primitive(
    type=_betainc_type,
    broadcasts=True,
    numpy=scipy("betainc"),
    vjp=_betainc_vjp,
    batch=batch_elementwise("betainc"),
    why_not=NO_ONNX,
    samples=lambda: [_betainc_sample(0, (3,), (3,), (3,)), _betainc_sample(5, (2, 1), (), (4,))],
    public=("math.betainc",),
)
def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Any:
    """Computes the regularized incomplete beta function, with broadcasting; only ``x`` gets a gradient.

    >>> import tvtf as tf
    >>> tf.math.betainc(1., 1., 0.25).numpy()
    np.float32(0.25)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/betainc
    """
    if state.trace is None:
        return tuple(operands_of_list((a, b, x))), {}
    first = convert_to_tensor(a)  # in a trace, TensorFlow takes the dtype of the first operand
    return (first, like(b, first.dtype), like(x, first.dtype)), {}


@export("math.lbeta")
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Computes ``log|Beta(x)|``, the beta function of the n numbers in the last axis, shape (..., n) to (...).

    >>> import tvtf as tf
    >>> tf.math.lbeta([1., 1.]).numpy()
    np.float32(0.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/lbeta
    """
    x = convert_to_tensor(x)
    last_axis = {"axis": (x.ndim - 1,), "keepdims": False}
    # log Beta(x) = sum(log Gamma(x_i)) - log Gamma(sum(x_i))
    return bind.subtract(bind.reduce_sum(bind.lgamma(x), **last_axis), bind.lgamma(bind.reduce_sum(x, **last_axis)))
