"""Special functions, elementwise: by SciPy eagerly, by series and Newton's method in compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING, DType
from tvtf.ops.elementwise import binary_op, chain, nodes, operands, scaled, tensor_of, unary_op, widened
from tvtf.ops.rules import bind, number, unbroadcast

NO_ONNX = {"onnx": "ONNX has no operator for this function nor one that computes it to full precision"}


def scipy(name: str) -> Callable[..., Any]:
    """Returns a NumPy kernel that applies a function of scipy.special.

    SciPy is imported at the first call, because the import takes 0.1 s.
    """

    def apply(*arrays: np.ndarray) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*arrays)

    return widened(apply)


def scipy_op(
    kernel: str | Callable[..., Any],
    derivative: Callable[[Tensor, Tensor], Tensor],
    samples: tuple[float, float],
    *,
    lower: Callable[..., Any] | None = None,
    domain: Sequence[DType] = FLOATING,
    public: tuple[str, ...] | None = None,
    **columns: Any,
) -> Any:
    """Declares an elementwise function that ONNX lacks.

    ``kernel`` names a function of scipy.special, or is a NumPy kernel; the derivative is ``derivative(y, x)``. Compiled
    code calls the kernel, too, where there is no ``lower``. The function is public in ``tf.math``, unless ``public``
    says more.
    """

    def declare(front: Callable[..., Any]) -> Any:
        """Declares the special function ``front``. Without ``lower``, compiled code calls SciPy."""
        return unary_op(
            domain=domain,
            numpy=scipy(kernel) if isinstance(kernel, str) else kernel,
            lower=lower,
            host=lower is None,
            vjp=chain(derivative),
            onnx=None,
            why_not=NO_ONNX,
            samples=samples,
            public=(f"math.{front.__name__}",) if public is None else public,
            **columns,
        )(front)

    return declare


def _gauss(x: Tensor, factor: float) -> Tensor:
    """Returns ``factor * exp(-x**2)``: the derivative of the error function, for a suitable factor."""
    return scaled(bind.exp(bind.negative(bind.square(x))), factor)


_TWO_BY_ROOT_PI = 2 / np.sqrt(np.pi)


@unary_op(
    domain=FLOATING,
    numpy=scipy("erf"),
    lower=lambda t, x: t.erf(x),
    vjp=chain(lambda y, x: _gauss(x, _TWO_BY_ROOT_PI)),
    onnx="Erf",
    public=("math.erf",),
    shows=("tf.math.erf([0., 1.]).numpy()", "array([0.       , 0.8427008], dtype=float32)"),
)
def erf(x: Any, name: str | None = None) -> Any:
    """Returns the error function, elementwise."""
    return tensor_of(x)


@unary_op(
    domain=FLOATING,
    numpy=scipy("erfc"),
    lower=lambda t, x: t.erfc(x),
    vjp=chain(lambda y, x: _gauss(x, -_TWO_BY_ROOT_PI)),
    onnx=nodes(("Sub", 1.0, ("Erf", 0))),
    public=("math.erfc",),
    shows=("tf.math.erfc([0.]).numpy()", "array([1.], dtype=float32)"),
)
def erfc(x: Any, name: str | None = None) -> Any:
    """Computes ``1 - erf(x)``, elementwise; exact where it is small."""
    return tensor_of(x)


@scipy_op(
    "erfinv",
    lambda y, x: scaled(bind.exp(bind.square(y)), 1 / _TWO_BY_ROOT_PI),
    (-0.9, 0.9),
    lower=lambda t, x: t.erfinv(x),
    shows=("tf.math.erfinv([0., 1.]).numpy()", "array([ 0., inf], dtype=float32)"),
)
def erfinv(x: Any, name: str | None = None) -> Any:
    """Returns the inverse of the error function, elementwise; infinite at -1 and 1, NaN beyond."""
    return tensor_of(x)


@scipy_op(
    "ndtri",
    lambda y, x: scaled(bind.exp(scaled(bind.square(y), 0.5)), np.sqrt(2 * np.pi)),
    (0.05, 0.95),
    lower=lambda t, x: t.ndtri(x),
    shows=("tf.math.ndtri([0.5, 1.]).numpy()", "array([ 0., inf], dtype=float32)"),
)
def ndtri(x: Any, name: str | None = None) -> Any:
    """Returns the quantile of the normal distribution at ``x``, elementwise; infinite at 0 and 1, NaN beyond."""
    return tensor_of(x)


@scipy_op(
    # C's lgamma(-inf) is inf, SciPy's is -inf
    lambda x: scipy("gammaln")(np.where(np.isneginf(x), np.inf, x)),
    lambda y, x: bind.digamma(x),
    (0.3, 5.0),
    lower=lambda t, x: t.lgamma(x),
    shows=("tf.math.lgamma([1., 3.]).numpy()", "array([0.       , 0.6931472], dtype=float32)"),
)
def lgamma(x: Any, name: str | None = None) -> Any:
    """Returns the logarithm of the magnitude of the gamma function, elementwise; infinite at 0, -1, -2..."""
    return tensor_of(x)


def _digamma(x: np.ndarray) -> np.ndarray:
    """Computes digamma by SciPy, but NaN at every pole as in TensorFlow; SciPy has an infinity at 0."""
    return np.where((x <= 0) & (x == np.floor(x)), x.dtype.type(np.nan), scipy("psi")(x))


@scipy_op(
    widened(_digamma),
    lambda y, x: bind.trigamma(x),
    (0.3, 5.0),
    lower=lambda t, x: t.digamma(x),
    shows=("tf.math.digamma([1.]).numpy()", "array([-0.5772157], dtype=float32)"),
)
def digamma(x: Any, name: str | None = None) -> Any:
    """Returns the derivative of :func:`lgamma`, elementwise; NaN at 0, -1, -2..."""
    return tensor_of(x)


def _trigamma(x: np.ndarray) -> np.ndarray:
    """Computes the trigamma function by the zeta function.

    Numbers up to 0 use the reflection formula. The result at a pole is infinity.
    """
    import scipy.special

    is_positive = x > 0
    is_pole = ~is_positive & (x == np.floor(x))
    # trigamma(x) is zeta(2, x)
    positive = np.where(is_positive, x, 1 - x).astype(np.float64)
    zeta = scipy.special.zeta(2.0, positive)
    # trigamma(x) = (pi / sin(pi x))^2 - trigamma(1 - x)
    reflected = np.square(np.pi / np.sin(np.pi * x.astype(np.float64))) - zeta
    finite = np.where(is_positive, zeta, reflected)
    return np.where(is_pole, np.inf, finite).astype(x.dtype)


@scipy_op(
    widened(_trigamma),
    lambda y, x: bind.polygamma(number(2, x), x),
    (0.3, 5.0),
    public=(),
    lower=lambda t, x: t.trigamma(x),
)
def trigamma(x: Any) -> Any:
    """Computes the derivative of :func:`digamma`, elementwise."""
    return tensor_of(x)


def _polygamma(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Computes the polygamma function of order ``n``: digamma for 0, else by the zeta function.

    Negative or fractional orders give NaN.
    """
    import scipy.special

    is_valid_order = (n >= 0) & (n == np.floor(n))
    orders, arguments = np.broadcast_arrays(np.where(is_valid_order, n, 0), x)
    # (-1)^(n + 1) n! zeta(n + 1, x), where gamma(n + 1) is n!
    sign = np.where(orders % 2 == 0, -1.0, 1.0)
    of_positive_order = sign * scipy.special.gamma(orders + 1.0) * scipy.special.zeta(orders + 1.0, arguments)
    result = np.where(orders == 0, _digamma(arguments), of_positive_order)
    return np.where(is_valid_order, result, np.nan)


@binary_op(
    domain=FLOATING,
    numpy=widened(_polygamma),
    lower=None,
    host=True,
    vjp=lambda cotangent, z, n, x: (
        None,
        unbroadcast(bind.multiply(cotangent, bind.polygamma(bind.add(n, number(1, n)), x)), x),
    ),
    onnx=None,
    why_not=NO_ONNX,
    samples=(1.0, 1.0),
    gradient=False,
    public=("math.polygamma",),
    shows=("tf.math.polygamma(1., 1.).numpy()", "np.float32(1.644934)"),
)
def polygamma(a: Any, x: Any, name: str | None = None) -> Any:
    """Returns the derivative of order ``a`` of :func:`digamma`, elementwise, with broadcasting."""
    return operands(a, x), {}
