"""The Fourier transforms of `tf.signal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import complex64, complex128, float32
from tvtf.ops.cast import defaulted
from tvtf.ops.fourier import require_least_rank
from tvtf.ops.pad import roll
from tvtf.ops.rules import bind, canonical_axes, number, static_value


def _complex_fft(input: Any, rank: int, inverse: bool) -> Tensor:
    """Computes the discrete Fourier transform, or its inverse, over the last ``rank`` axes."""
    x = defaulted(input, (complex64,), complex64, (complex128,))
    return bind.fourier(x, axes=_last_axes(rank), inverse=inverse, norm="backward")


def _last_axes(rank: int) -> tuple[int, ...]:
    """Returns the last ``rank`` axes as negative numbers."""
    return tuple(range(-rank, 0))


def _with_size(x: Tensor, axis: int, size: Any) -> Tensor:
    """Gives an axis of ``x`` the size ``size``: crops the axis, or pads it with zeros at the end."""
    extent = x._type.shape[axis]
    if extent is size or extent == size:
        return x
    if not isinstance(extent, int):
        raise unknown_size(ValueError(f"fft_length needs axes of known size, but got shape {x.shape}"))
    if extent > size:
        index: Any = (*(slice(None),) * axis, slice(size))
        return x[index]  # type: ignore[index]
    paddings = [(0, 0)] * x.ndim
    paddings[axis] = (0, size - extent)
    return bind.pad(x, number(0, x), paddings=tuple(paddings))


def _fft_lengths(fft_length: Any, count: int) -> list[int] | None:
    """Converts the argument ``fft_length`` of a Fourier transform to a list of ``count`` ints, one for each axis.

    None stays None: the axes keep their sizes.
    """
    if fft_length is None:
        return None
    known = np.array(static_value(fft_length, "fft_length"))
    lengths = [int(length) for length in np.atleast_1d(known)]
    if len(lengths) != count:
        raise ArgumentError(f"fft_length must have shape [{count}]").for_op("RFFT")
    return lengths


def _real_fft(x: Tensor, axes: tuple[int, ...], fft_length: Any, norm: str) -> Tensor:
    """Computes the FFT of a real signal along ``axes``. The result has the non-negative frequencies only.

    The axes are first cropped or padded to ``fft_length``.
    """
    require_least_rank(x, axes)
    lengths = _fft_lengths(fft_length, len(axes))
    for axis, size in zip(axes, lengths or ()):
        x = _with_size(x, x.ndim + axis, size)
    if x._type.shape[-1] == 0:  # an empty signal has an empty spectrum
        spectrum_dtype = complex64 if x.dtype is float32 else complex128
        return bind.cast(x, dtype=spectrum_dtype)
    return bind.half_spectrum(x, axes=axes, norm=norm)


def _complex_spectrum(value: Any) -> Tensor:
    """Converts the argument of an inverse real transform to a tensor, which must be complex."""
    x = convert_to_tensor(value, dtype_hint=complex64)
    if not x.dtype.is_complex:
        raise ValueError(f"IRFFT requires tf.complex64 or tf.complex128 inputs, got: {x}")
    return x


def _signal_size(half: Dim) -> Dim:
    """Returns the size of the signal whose non-negative frequencies are ``half``, if no ``fft_length`` is given."""
    return max(0, 2 * (half - 1)) if isinstance(half, int) else simplify_dim(2 * (half - 1))


def _inverse_real_fft(x: Tensor, axes: tuple[int, ...], fft_length: Any, norm: str) -> Tensor:
    """Computes the real signal of a half spectrum, which has the non-negative frequencies only, by an inverse FFT.

    The axes are first cropped or padded to the size that ``fft_length`` needs.
    """
    require_least_rank(x, axes)
    lengths = _fft_lengths(fft_length, len(axes))
    if lengths is None:
        size = _signal_size(x._type.shape[axes[-1]])
        return bind.whole_signal(x, axes=axes, size=size, norm=norm)
    *other_lengths, last_length = lengths
    frequency_count = last_length // 2 + 1  # the non-negative frequencies of a signal of the last length
    for axis, size in zip(axes, (*other_lengths, frequency_count)):
        x = _with_size(x, x.ndim + axis, size)
    return bind.whole_signal(x, axes=axes, size=last_length, norm=norm)


@export("signal.fft")
def fft(input: Any, name: str | None = None) -> Tensor:
    """Returns the discrete Fourier transform over the last axis: a complex64 or complex128 tensor of shape (..., n).

    >>> import tvtf as tf
    >>> tf.signal.fft(tf.constant([1., 1.], tf.complex64)).numpy()
    array([2.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fft
    """
    return _complex_fft(input, 1, inverse=False)


@export("signal.ifft")
def ifft(input: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fft`, divided by the number of elements.

    The input is a complex64 or complex128 tensor of shape (..., n).

    >>> import tvtf as tf
    >>> tf.signal.ifft(tf.constant([2., 0.], tf.complex64)).numpy()
    array([1.+0.j, 1.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifft
    """
    return _complex_fft(input, 1, inverse=True)


@export("signal.rfft")
def rfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the Fourier transform over the last axis of a float32 or float64 tensor.

    The result has the non-negative frequencies only.

    Args:
      input_tensor: tensor of shape (..., n).
      fft_length: 1 int, the size to which the axis is cropped, or padded with zeros, before.

    Returns:
      A complex tensor whose last dim is ``fft_length[-1] // 2 + 1``.

    >>> import tvtf as tf
    >>> tf.signal.rfft([1., 1., 1., 1.]).numpy()
    array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfft
    """
    return _real_fft(convert_to_tensor(input_tensor, dtype_hint=float32), _last_axes(1), fft_length, "backward")


@export("signal.irfft")
def irfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`rfft`: the real tensor of a spectrum with non-negative frequencies only.

    Args:
      input_tensor: complex64 or complex128 tensor of shape (..., n).
      fft_length: 1 int, the size of the result's last axis. By default it is twice the last dim minus two.

    >>> import tvtf as tf
    >>> tf.signal.irfft(tf.constant([4., 0., 0.], tf.complex64)).numpy()
    array([1., 1., 1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfft
    """
    return _inverse_real_fft(_complex_spectrum(input_tensor), _last_axes(1), fft_length, "backward")


@export("signal.fft2d")
def fft2d(input: Any, name: str | None = None) -> Tensor:
    """Returns the discrete Fourier transform over the last two axes: a complex64 or complex128 tensor of shape (..., m, n).

    >>> import tvtf as tf
    >>> tf.signal.fft2d(tf.constant([[1., 1.]], tf.complex64)).numpy()
    array([[2.+0.j, 0.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fft2d
    """
    return _complex_fft(input, 2, inverse=False)


@export("signal.ifft2d")
def ifft2d(input: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fft2d`, divided by the number of elements.

    The input is a complex64 or complex128 tensor of shape (..., m, n).

    >>> import tvtf as tf
    >>> tf.signal.ifft2d(tf.constant([[2., 0.]], tf.complex64)).numpy()
    array([[1.+0.j, 1.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifft2d
    """
    return _complex_fft(input, 2, inverse=True)


@export("signal.rfft2d")
def rfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the Fourier transform over the last two axes of a float32 or float64 tensor.

    Along the last axis it has the non-negative frequencies only.

    Args:
      input_tensor: tensor of shape (..., m, n).
      fft_length: 2 ints, the sizes to which the axes are cropped, or padded with zeros, before.

    Returns:
      A complex tensor whose last dim is ``fft_length[-1] // 2 + 1``.

    >>> import tvtf as tf
    >>> tf.signal.rfft2d([[1., 1., 1., 1.]]).numpy()
    array([[4.+0.j, 0.+0.j, 0.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfft2d
    """
    return _real_fft(convert_to_tensor(input_tensor, dtype_hint=float32), _last_axes(2), fft_length, "backward")


@export("signal.irfft2d")
def irfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`rfft2d`: the real tensor of half a spectrum.

    Args:
      input_tensor: complex64 or complex128 tensor of shape (..., m, n).
      fft_length: 2 ints, the sizes of the result's axes. By default the last size is twice the last dim minus two.

    >>> import tvtf as tf
    >>> tf.signal.irfft2d(tf.constant([[4., 0., 0.]], tf.complex64)).numpy()
    array([[1., 1., 1., 1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfft2d
    """
    return _inverse_real_fft(_complex_spectrum(input_tensor), _last_axes(2), fft_length, "backward")


@export("signal.fft3d")
def fft3d(input: Any, name: str | None = None) -> Tensor:
    """Returns the discrete Fourier transform over the last three axes.

    The input is a complex64 or complex128 tensor of shape (..., l, m, n).

    >>> import tvtf as tf
    >>> tf.signal.fft3d(tf.constant([[[1., 1.]]], tf.complex64)).numpy()
    array([[[2.+0.j, 0.+0.j]]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fft3d
    """
    return _complex_fft(input, 3, inverse=False)


@export("signal.ifft3d")
def ifft3d(input: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fft3d`, divided by the number of elements.

    The input is a complex64 or complex128 tensor of shape (..., l, m, n).

    >>> import tvtf as tf
    >>> tf.signal.ifft3d(tf.constant([[[2., 0.]]], tf.complex64)).numpy()
    array([[[1.+0.j, 1.+0.j]]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifft3d
    """
    return _complex_fft(input, 3, inverse=True)


@export("signal.rfft3d")
def rfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the Fourier transform over the last three axes of a float32 or float64 tensor.

    Along the last axis it has the non-negative frequencies only.

    Args:
      input_tensor: tensor of shape (..., l, m, n).
      fft_length: 3 ints, the sizes to which the axes are cropped, or padded with zeros, before.

    Returns:
      A complex tensor whose last dim is ``fft_length[-1] // 2 + 1``.

    >>> import tvtf as tf
    >>> tf.signal.rfft3d([[[1., 1., 1., 1.]]]).numpy()
    array([[[4.+0.j, 0.+0.j, 0.+0.j]]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfft3d
    """
    return _real_fft(convert_to_tensor(input_tensor, dtype_hint=float32), _last_axes(3), fft_length, "backward")


@export("signal.irfft3d")
def irfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`rfft3d`: the real tensor of half a spectrum.

    Args:
      input_tensor: complex64 or complex128 tensor of shape (..., l, m, n).
      fft_length: 3 ints, the sizes of the result's axes. By default the last size is twice the last dim minus two.

    >>> import tvtf as tf
    >>> tf.signal.irfft3d(tf.constant([[[4., 0., 0.]]], tf.complex64)).numpy()
    array([[[1., 1., 1., 1.]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfft3d
    """
    return _inverse_real_fft(_complex_spectrum(input_tensor), _last_axes(3), fft_length, "backward")


# -- over any axes


def _fft_over_axes(
    x: Tensor, axes: Any, norm: Any, transform: Callable[[Tensor, tuple[int, ...], str], Tensor]
) -> Tensor:
    """Applies a Fourier transform along any axes. A transpose moves the axes to the end, and another one back.

    ``transform(x, axes, norm)`` transforms the last axes only.
    """
    if norm not in (None, "backward", "forward", "ortho"):
        raise ValueError(f"norm must be None, 'backward', 'forward' or 'ortho', but got {norm!r}")
    transformed_axes = canonical_axes(None if axes is None else static_value(axes, "axes"), x.ndim)
    other_axes = [axis for axis in range(x.ndim) if axis not in transformed_axes]
    perm = (*other_axes, *transformed_axes)
    inverse_perm = tuple(int(i) for i in np.argsort(perm))
    last_axes = tuple(range(-len(transformed_axes), 0))
    transformed = transform(bind.transpose(x, perm=perm), last_axes, norm or "backward")
    return bind.transpose(transformed, perm=inverse_perm)


def _with_fft_length(x: Tensor, axes: tuple[int, ...], fft_length: Any) -> Tensor:
    """Crops or pads axes to the sizes of the argument ``fft_length``, if it is given."""
    for axis, size in zip(axes, _fft_lengths(fft_length, len(axes)) or ()):
        x = _with_size(x, x.ndim + axis, size)
    return x


@export("signal.fftnd", "fftnd")
def fftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: Any = None, name: str | None = None
) -> Tensor:
    """Returns the discrete Fourier transform over any axes of a complex tensor.

    Args:
      input_tensor: complex64 or complex128 tensor.
      fft_length: the sizes to which the axes are cropped, or padded with zeros.
      axes: ints; by default all axes.
      norm: "backward" (also None), "forward" or "ortho": which transform is divided by the number of elements.

    >>> import tvtf as tf
    >>> tf.signal.fftnd(tf.constant([1., 1.], tf.complex64)).numpy()
    array([2.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fftnd
    """
    return _fft_over_axes(
        convert_to_tensor(input_tensor), axes, norm,
        lambda x, last_axes, scaling: bind.fourier(
            _with_fft_length(x, last_axes, fft_length), axes=last_axes, inverse=False, norm=scaling
        ),
    )  # fmt: skip


@export("signal.ifftnd", "ifftnd")
def ifftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: Any = None, name: str | None = None
) -> Tensor:
    """Returns the inverse of `tf.signal.fftnd`.

    >>> import tvtf as tf
    >>> tf.signal.ifftnd(tf.constant([2., 0.], tf.complex64)).numpy()
    array([1.+0.j, 1.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifftnd
    """
    return _fft_over_axes(
        convert_to_tensor(input_tensor), axes, norm,
        lambda x, last_axes, scaling: bind.fourier(
            _with_fft_length(x, last_axes, fft_length), axes=last_axes, inverse=True, norm=scaling
        ),
    )  # fmt: skip


@export("signal.rfftnd", "rfftnd")
def rfftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: Any = None, name: str | None = None
) -> Tensor:
    """Computes half of the Fourier transform over any axes of a real tensor; see `tf.signal.fftnd`.

    >>> import tvtf as tf
    >>> tf.signal.rfftnd([1., 1., 1., 1.]).numpy()
    array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfftnd
    """
    return _fft_over_axes(
        convert_to_tensor(input_tensor),
        axes,
        norm,
        lambda x, last_axes, scaling: _real_fft(x, last_axes, fft_length, scaling),
    )


@export("signal.irfftnd", "irfftnd")
def irfftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: Any = None, name: str | None = None
) -> Tensor:
    """Returns the inverse of `tf.signal.rfftnd`.

    >>> import tvtf as tf
    >>> tf.signal.irfftnd(tf.constant([4., 0., 0.], tf.complex64)).numpy()
    array([1., 1., 1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfftnd
    """
    return _fft_over_axes(
        convert_to_tensor(input_tensor),
        axes,
        norm,
        lambda x, last_axes, scaling: _inverse_real_fft(x, last_axes, fft_length, scaling),
    )


# -- order of frequencies


def _axes_and_sizes(x: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """Returns the axes that a shift of frequencies moves, by default all, and their sizes."""
    chosen = list(range(x.ndim)) if axes is None else [int(each) for each in np.atleast_1d(static_value(axes, "axes"))]
    return chosen, [int(x.shape[each]) for each in chosen]  # type: ignore[arg-type]


@export("signal.fftshift")
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Moves frequency zero to the middle of each of the axes (default: all).

    >>> import tvtf as tf
    >>> tf.signal.fftshift([0, 1, 2, -2, -1]).numpy()
    array([-2, -1,  0,  1,  2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fftshift
    """
    x = convert_to_tensor(x)
    chosen, sizes = _axes_and_sizes(x, axes)
    return roll(x, [size // 2 for size in sizes], chosen)


@export("signal.ifftshift")
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fftshift`.

    >>> import tvtf as tf
    >>> tf.signal.ifftshift([-2, -1, 0, 1, 2]).numpy()
    array([ 0,  1,  2, -2, -1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifftshift
    """
    x = convert_to_tensor(x)
    chosen, sizes = _axes_and_sizes(x, axes)
    return roll(x, [-(size // 2) for size in sizes], chosen)
