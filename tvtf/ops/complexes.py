"""Ops on complex numbers. Compiled code calls NumPy for them, for TVM has no complex type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import COMPLEX, DType, as_dtype
from tvtf.ops.elementwise import binary_op, tensor_of, unary_op
from tvtf.ops.rules import bind, broadcast_types, require_dtype, require_same_dtype, unbroadcast, zeros_like

WHY_NOT = {"onnx": "ONNX's operators take no complex tensors"}
_PARTS = (as_dtype("float32"), as_dtype("float64"))


def _complex_of(part: DType) -> DType:
    return as_dtype("complex64" if part is _PARTS[0] else "complex128")


def _part_type(x: TensorType) -> TensorType:
    require_dtype(x, COMPLEX, "input")
    return TensorType(x.shape, x.dtype.real_dtype)


def _complex_type(real: TensorType, imag: TensorType) -> TensorType:
    require_same_dtype((real, imag), ("real", "imag"))
    require_dtype(real, _PARTS, "real")
    return TensorType(broadcast_types(real, imag), _complex_of(real.dtype))


@binary_op(
    name="complex",
    type=_complex_type,
    domain=_PARTS,
    numpy=lambda real, imag: _complex_array(real, imag),
    lower=None,
    host=True,
    vjp=lambda cotangent, z, real, imag: (
        unbroadcast(bind.real(cotangent), real),
        unbroadcast(bind.imag(cotangent), imag),
    ),
    onnx=None,
    why_not=WHY_NOT,
    public=("complex", "dtypes.complex"),
)
def complex_(real: Any, imag: Any, name: str | None = None) -> Any:
    """Returns the complex tensor with the given real and imaginary parts, which broadcast.

    Args:
      real: float32 or float64 tensor of shape (...).
      imag: tensor of the same dtype, of a shape that broadcasts with that of ``real``.

    Returns:
      A complex64 or complex128 tensor of the broadcast shape.

    >>> import tvtf as tf
    >>> tf.complex(1., 2.).numpy()
    np.complex64(1+2j)

    Source: https://www.tensorflow.org/api_docs/python/tf/dtypes/complex
    """
    real, imag = convert_to_tensor(real), convert_to_tensor(imag)
    if real.dtype is not imag.dtype or real.dtype not in _PARTS:
        raise TypeError(
            f"The `real` and `imag` components have incorrect types: {real.dtype.name} {imag.dtype.name}. "
            "They must be consistent, and one of [tf.float32, tf.float64]"
        )
    return (real, imag), {}


def _complex_array(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def _complex_op(name: str, numpy: np.ufunc | Callable[..., Any], vjp: Callable[..., Any], **columns: Any) -> Any:
    """Declares an op of a complex tensor, which NumPy computes in compiled code, too."""
    return unary_op(
        name=name, domain=COMPLEX, numpy=numpy, lower=None, host=True, vjp=vjp, onnx=None, why_not=WHY_NOT, **columns
    )


@_complex_op("real", np.real, lambda cotangent, y, x: bind.complex(cotangent, zeros_like(cotangent)), type=_part_type)
def real_part(x: Any) -> Any:
    """Returns the real part of a complex tensor."""
    return tensor_of(x)


@_complex_op("imag", np.imag, lambda cotangent, y, x: bind.complex(zeros_like(cotangent), cotangent), type=_part_type)
def imaginary_part(x: Any) -> Any:
    """Returns the imaginary part of a complex tensor."""
    return tensor_of(x)


@_complex_op("conj", np.conj, lambda cotangent, y, x: bind.conj(cotangent))
def conjugate(x: Any) -> Any:
    """Returns the conjugate of a complex tensor."""
    return tensor_of(x)


def _magnitude_vjp(cotangent: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Differentiates the magnitude: the direction of ``x``, and 0 where ``x`` is 0."""
    return bind.divide_no_nan(
        bind.multiply(bind.complex(cotangent, zeros_like(cotangent)), x), bind.complex(y, zeros_like(y))
    )


@unary_op(
    type=_part_type, domain=COMPLEX, numpy=np.abs, lower=None, host=True, vjp=_magnitude_vjp, onnx=None, why_not=WHY_NOT
)
def complex_abs(x: Any) -> Any:
    """Returns the magnitude of a complex tensor."""
    return tensor_of(x)


@export("math.real")
def real(input: Any, name: str | None = None) -> Any:
    """Returns the real part of a complex tensor. A real tensor is returned as it is.

    Args:
      input: numeric tensor of shape (...).

    Returns:
      A floating tensor of the same shape for a complex one, else ``input``.

    >>> import tvtf as tf
    >>> tf.math.real([1+2j]).numpy()
    array([1.])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/real
    """
    x = _numeric_tensor(input)
    return real_part.bind(x) if x.dtype.is_complex else x


def _numeric_tensor(value: Any) -> Any:
    """Converts a value to a tensor and checks that it is complex, floating or integer."""
    x = convert_to_tensor(value)
    if not (x.dtype.is_complex or x.dtype.is_floating or x.dtype.is_integer):
        raise TypeError(f"input must be a numeric tensor, but got tensor with dtype {x.dtype!r}")
    return x


@export("math.imag")
def imag(input: Any, name: str | None = None) -> Any:
    """Returns the imaginary part of a complex tensor, and zeros for a real tensor.

    Args:
      input: numeric tensor of shape (...).

    Returns:
      A real tensor of the same shape.

    >>> import tvtf as tf
    >>> tf.math.imag([1+2j]).numpy()
    array([2.])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/imag
    """
    x = convert_to_tensor(input)
    return imaginary_part.bind(x) if x.dtype.is_complex else zeros_like(x)


@export("math.conj")
def conj(x: Any, name: str | None = None) -> Any:
    """Returns the complex conjugate of a tensor. A real tensor is returned as it is.

    Args:
      x: numeric tensor of shape (...).

    Returns:
      A tensor of the same shape and dtype.

    Raises:
      TypeError: the tensor is not numeric.

    >>> import tvtf as tf
    >>> tf.math.conj([1+2j]).numpy()
    array([1.-2.j])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/conj
    """
    x = convert_to_tensor(x)
    if not x.dtype.is_numeric:
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}")
    return conjugate.bind(x) if x.dtype.is_complex else x


@export("math.angle")
def angle(input: Any, name: str | None = None) -> Any:
    """Returns the angle (the argument) of complex numbers in radians: 0 or pi for a real tensor.

    Args:
      input: floating or complex tensor of shape (...).

    Returns:
      A floating tensor of the same shape.

    >>> import tvtf as tf
    >>> tf.math.angle([1j]).numpy()
    array([1.57079633])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/angle
    """
    x = convert_to_tensor(input)
    return bind.atan2(imag(x), real(x))
