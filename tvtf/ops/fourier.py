"""Fourier transforms as host primitives computed by SciPy; their gradients are one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample
from tvtf.core.shape import Dim, TensorType, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import COMPLEX, complex64, complex128, float32, float64
from tvtf.ops.host import host_primitive
from tvtf.ops.rules import bind, number, random_array, require_dtype

REAL = (float32, float64)
NO_ONNX = {"onnx": "ONNX's DFT has no complex tensors, and computes in the dtype of onnxruntime's choice"}
_DUAL = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _scipy(name: str) -> Callable[..., np.ndarray]:
    """Returns a kernel that calls ``scipy.fft``'s function ``name``; SciPy is imported at the first call."""

    def run(x: np.ndarray, *args: Any, **options: Any) -> np.ndarray:
        import scipy.fft

        return getattr(scipy.fft, name)(x, *args, **options)

    return run


def require_rank(x: TensorType, axes: Sequence[int]) -> None:
    """Checks that a tensor has the axes of a Fourier transform.

    The axes are negative, counted from the end. For example, -2 needs a rank of at least 2.
    """
    least = -min(axes)
    if len(x.shape) < least:
        raise ArgumentError(
            f"Input must have rank of at least {least} but got: {len(x.shape)}",
            graph=ValueError,
            traced=f"Shape must be at least rank {least} but is rank {len(x.shape)}",
        )


def require_least_rank(x: Tensor, axes: Sequence[int]) -> None:
    """Checks the rank as TensorFlow's Python functions do before they call the op: with a ValueError even eagerly."""
    if x.ndim < -min(axes):
        raise ValueError(f"Shape {x.shape} must have rank at least {-min(axes)}")


# -- between complex numbers


def _fourier_type(x: TensorType, axes: tuple[int, ...], inverse: bool, norm: str) -> TensorType:
    require_dtype(x, COMPLEX, "input")
    require_rank(x, axes)
    return x


def _fourier_array(x: np.ndarray, axes: tuple[int, ...], inverse: bool, norm: str) -> np.ndarray:
    return x.copy() if 0 in x.shape else _scipy("ifftn" if inverse else "fftn")(x, axes=axes, norm=norm)


def _samples(dtypes: Any, *cases: tuple[tuple[int, ...], dict[str, Any]]) -> list[Sample]:
    return [
        Sample((lambda dtype, i=i, s=s: random_array(i, s, dtype),), attrs, dtypes)
        for i, (s, attrs) in enumerate(cases)
    ]


@host_primitive(
    tf_name="FFT",
    type=_fourier_type,
    numpy=_fourier_array,
    vjp=lambda cotangent, y, x, axes, inverse, norm: bind.fourier(
        cotangent, axes=axes, inverse=not inverse, norm=_DUAL[norm]
    ),
    batch=lambda size, inputs, batched, **attrs: bind.fourier(*inputs, **attrs),
    why_not=NO_ONNX,
    samples=lambda: _samples(
        COMPLEX,
        ((5,), {"axes": (-1,), "inverse": False, "norm": "backward"}),
        ((2, 4), {"axes": (-1,), "inverse": True, "norm": "backward"}),
        ((2, 3, 4), {"axes": (-2, -1), "inverse": True, "norm": "ortho"}),
        ((0, 4), {"axes": (-1,), "inverse": False, "norm": "forward"}),
    ),
)
def fourier(x: Tensor, axes: tuple[int, ...], inverse: bool, norm: str) -> Any:
    """Computes the discrete Fourier transform over ``axes``, which are negative.

    ``norm`` has the same meaning as in NumPy: it selects the direction that is scaled.
    """
    return (x,), {"axes": axes, "inverse": inverse, "norm": norm}


# -- from real numbers to half of their spectrum, and back


def _half_type(x: TensorType, axes: tuple[int, ...], norm: str) -> TensorType:
    require_dtype(x, REAL, "input")
    require_rank(x, axes)
    half = simplify_dim(x.shape[axes[-1]] // 2 + 1)
    return _with_dim(x, axes[-1], half, complex64 if x.dtype is float32 else complex128)


def _with_dim(x: TensorType, axis: int, dim: Dim, dtype: Any) -> TensorType:
    shape = list(x.shape)
    shape[axis] = dim
    return TensorType(tuple(shape), dtype)


def _half_array(x: np.ndarray, axes: tuple[int, ...], norm: str) -> np.ndarray:
    if x.size:
        return _scipy("rfftn")(x, axes=axes, norm=norm)
    return _empty_result(x, axes[-1], x.shape[axes[-1]] // 2 + 1)


def _empty_result(x: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Returns zeros in the shape of a transform that has no input elements, for which SciPy raises."""
    shape = list(x.shape)
    shape[axis] = size
    return np.zeros(shape, complex)


def _half_vjp(cotangent: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...], norm: str) -> Tensor:
    """Returns the cotangent of a real transform's input: pads that of the spectrum, and transforms it back.

    Args:
      cotangent: the cotangent of the spectrum ``y``.
      y: the spectrum; not used.
      x: the real input.
      axes: the axes of the transform, of which the last is halved.
      norm: how the transform is scaled.
    """
    last = x.ndim + axes[-1]
    size = x._type.shape[axes[-1]]
    missing = simplify_dim(size - cotangent._type.shape[last])
    paddings = tuple((0, missing) if i == last else (0, 0) for i in range(x.ndim))
    spectrum = bind.pad(cotangent, number(0, cotangent), paddings=paddings)
    return bind.real(bind.fourier(spectrum, axes=axes, inverse=True, norm=_DUAL[norm]))


@host_primitive(
    tf_name="RFFT",
    type=_half_type,
    numpy=_half_array,
    vjp=_half_vjp,
    batch=lambda size, inputs, batched, **attrs: bind.half_spectrum(*inputs, **attrs),
    why_not=NO_ONNX,
    samples=lambda: _samples(
        REAL,
        ((5,), {"axes": (-1,), "norm": "backward"}),
        ((2, 4), {"axes": (-1,), "norm": "forward"}),
        ((2, 3, 4), {"axes": (-2, -1), "norm": "backward"}),
        ((0, 3), {"axes": (-2, -1), "norm": "backward"}),
    ),
)
def half_spectrum(x: Tensor, axes: tuple[int, ...], norm: str) -> Any:
    """Computes the Fourier transform of real numbers, without the frequencies that mirror others."""
    return (x,), {"axes": axes, "norm": norm}


def _whole_type(x: TensorType, axes: tuple[int, ...], size: Dim, norm: str) -> TensorType:
    require_dtype(x, COMPLEX, "input")
    require_rank(x, axes)
    return _with_dim(x, axes[-1], size, float32 if x.dtype is complex64 else float64)


def _whole_array(x: np.ndarray, axes: tuple[int, ...], size: int, norm: str) -> np.ndarray:
    if not x.size or not size:
        return _empty_result(x, axes[-1], size).real
    lengths = [*(x.shape[axis] for axis in axes[:-1]), size]
    return _scipy("irfftn")(x, lengths, axes=axes, norm=norm)


def _whole_vjp(cotangent: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...], size: Any, norm: str) -> Tensor:
    """Returns the cotangent of an inverse real FFT's input: the weighted real FFT of the result's cotangent.

    The input is a half spectrum, in which a frequency stands for its mirror image, too. So the weight is 2. It is 1 for
    frequency 0 and, if ``size`` is even, the middle frequency, which have no mirror image.

    Args:
      cotangent: the cotangent of the result.
      y: the result.
      x: the half spectrum.
      axes: the transformed axes.
      size: the result's size along the last of these axes.
      norm: the normalization of the transform.
    """
    if not isinstance(size, int):
        raise unknown_size(NotImplementedError("the gradient of irfft needs a known fft_length"))
    weights = np.full(size // 2 + 1, 2.0, y.dtype.np)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    weights_shape = [1] * x.ndim
    weights_shape[axes[-1]] = len(weights)  # to broadcast along the last transformed axis
    aligned_weights = weights.reshape(weights_shape).astype(x.dtype.np)
    spectrum = bind.half_spectrum(cotangent, axes=axes, norm=_DUAL[norm])
    return bind.multiply(spectrum, convert_to_tensor(aligned_weights))


@host_primitive(
    tf_name="IRFFT",
    type=_whole_type,
    numpy=_whole_array,
    vjp=_whole_vjp,
    batch=lambda size_, inputs, batched, **attrs: bind.whole_signal(*inputs, **attrs),
    why_not=NO_ONNX,
    samples=lambda: _samples(
        COMPLEX,
        ((3,), {"axes": (-1,), "size": 5, "norm": "backward"}),
        ((2, 3), {"axes": (-1,), "size": 4, "norm": "forward"}),
        ((2, 3, 3), {"axes": (-2, -1), "size": 4, "norm": "backward"}),
        ((0, 3), {"axes": (-2, -1), "size": 4, "norm": "backward"}),
    ),
)
def whole_signal(x: Tensor, axes: tuple[int, ...], size: Any, norm: str) -> Any:
    """Computes real numbers from half of their spectrum, ``size`` of them in the last axis."""
    return (x,), {"axes": axes, "size": size, "norm": norm}
