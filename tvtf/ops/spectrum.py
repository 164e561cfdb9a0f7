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


def _transformed(input: Any, rank: int, inverse: bool) -> Tensor:
    x = defaulted(input, (complex64,), complex64)
    return bind.fourier(x, axes=_last(rank), inverse=inverse, norm="backward")


def _last(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _fitted(x: Tensor, axis: int, size: Any) -> Tensor:
    """Crops an axis, or pads it with zeros, to a size."""
    extent = x._type.shape[axis]
    if extent is size or extent == size:
        return x
    if not isinstance(extent, int):
        raise unknown_size(ValueError(f"fft_length needs axes of known size, but got shape {x.shape}"))
    if extent > size:
        at: Any = tuple(slice(size) if i == axis else slice(None) for i in range(x.ndim))
        return x[at]  # type: ignore[index]
    return bind.pad(x, number(0, x), paddings=tuple((0, size - extent) if i == axis else (0, 0) for i in range(x.ndim)))


def _lengths(fft_length: Any, count: int) -> list[int] | None:
    """Returns ``fft_length`` as ints after checking that there is one for each axis."""
    if fft_length is None:
        return None
    lengths = [int(n) for n in np.atleast_1d(np.array(static_value(fft_length, "fft_length")))]
    if len(lengths) != count:
        raise ArgumentError(f"fft_length must have shape [{count}]").for_op("RFFT")
    return lengths


def _to_half(x: Tensor, axes: tuple[int, ...], fft_length: Any, norm: str) -> Tensor:
    """Fits the axes to ``fft_length`` and computes the non-negative frequencies of a real signal."""
    require_least_rank(x, axes)
    lengths = _lengths(fft_length, len(axes))
    for axis, size in zip(axes, lengths or ()):
        x = _fitted(x, x.ndim + axis, size)
    if x._type.shape[-1] == 0:  # half of nothing is nothing
        return bind.cast(x, dtype=complex64 if x.dtype is float32 else complex128)
    return bind.half_spectrum(x, axes=axes, norm=norm)


def _spectrum(value: Any) -> Tensor:
    x = convert_to_tensor(value, dtype_hint=complex64)
    if not x.dtype.is_complex:
        raise ValueError(f"IRFFT requires tf.complex64 or tf.complex128 inputs, got: {x}")
    return x


def _doubled(half: Dim) -> Dim:
    """Returns the signal's size for half a spectrum of this size, if no ``fft_length`` is given."""
    return max(0, 2 * (half - 1)) if isinstance(half, int) else simplify_dim(2 * (half - 1))


def _to_whole(x: Tensor, axes: tuple[int, ...], fft_length: Any, norm: str) -> Tensor:
    """Fits half a spectrum to ``fft_length`` and computes the real signal."""
    require_least_rank(x, axes)
    lengths = _lengths(fft_length, len(axes))
    if lengths is None:
        return bind.whole_signal(x, axes=axes, size=_doubled(x._type.shape[axes[-1]]), norm=norm)
    for axis, size in zip(axes, [*lengths[:-1], lengths[-1] // 2 + 1]):
        x = _fitted(x, x.ndim + axis, size)
    return bind.whole_signal(x, axes=axes, size=lengths[-1], norm=norm)


@export("signal.fft")
def fft(input: Any, name: str | None = None) -> Tensor:
    """Returns the discrete Fourier transform over the last axis: a complex64 or complex128 tensor of shape (..., n).

    >>> import tvtf as tf
    >>> tf.signal.fft(tf.constant([1., 1.], tf.complex64)).numpy()
    array([2.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fft
    """
    return _transformed(input, 1, inverse=False)


@export("signal.ifft")
def ifft(input: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fft`, divided by the number of elements.

    A complex64 or complex128 tensor of shape (..., n).

    >>> import tvtf as tf
    >>> tf.signal.ifft(tf.constant([2., 0.], tf.complex64)).numpy()
    array([1.+0.j, 1.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifft
    """
    return _transformed(input, 1, inverse=True)


@export("signal.rfft")
def rfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the Fourier transform over the last axis of a float32 or float64 tensor, without what mirrors the rest.

    Args:
      input_tensor: tensor of shape (..., n).
      fft_length: 1 int: the sizes to which these axes are cut or padded with zeros before.

    Returns:
      A complex tensor whose last dim is ``fft_length[-1] // 2 + 1``.

    >>> import tvtf as tf
    >>> tf.signal.rfft([1., 1., 1., 1.]).numpy()
    array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfft
    """
    return _to_half(convert_to_tensor(input_tensor, dtype_hint=float32), _last(1), fft_length, "backward")


@export("signal.irfft")
def irfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`rfft`: a real tensor from half of its spectrum.

    Args:
      input_tensor: complex64 or complex128 tensor of shape (..., n).
      fft_length: 1 int, the sizes of these axes of the result; the last is twice the last dim less two where not given.

    >>> import tvtf as tf
    >>> tf.signal.irfft(tf.constant([4., 0., 0.], tf.complex64)).numpy()
    array([1., 1., 1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfft
    """
    return _to_whole(_spectrum(input_tensor), _last(1), fft_length, "backward")


@export("signal.fft2d")
def fft2d(input: Any, name: str | None = None) -> Tensor:
    """Returns the discrete Fourier transform over the last two axes: a complex64 or complex128 tensor of shape (..., m, n).

    >>> import tvtf as tf
    >>> tf.signal.fft2d(tf.constant([[1., 1.]], tf.complex64)).numpy()
    array([[2.+0.j, 0.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fft2d
    """
    return _transformed(input, 2, inverse=False)


@export("signal.ifft2d")
def ifft2d(input: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fft2d`, divided by the number of elements.

    A complex64 or complex128 tensor of shape (..., m, n).

    >>> import tvtf as tf
    >>> tf.signal.ifft2d(tf.constant([[2., 0.]], tf.complex64)).numpy()
    array([[1.+0.j, 1.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifft2d
    """
    return _transformed(input, 2, inverse=True)


@export("signal.rfft2d")
def rfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the Fourier transform over the last two axes of a float32 or float64 tensor, without what mirrors the rest.

    Args:
      input_tensor: tensor of shape (..., m, n).
      fft_length: 2 ints: the sizes to which these axes are cut or padded with zeros before.

    Returns:
      A complex tensor whose last dim is ``fft_length[-1] // 2 + 1``.

    >>> import tvtf as tf
    >>> tf.signal.rfft2d([[1., 1., 1., 1.]]).numpy()
    array([[4.+0.j, 0.+0.j, 0.+0.j]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfft2d
    """
    return _to_half(convert_to_tensor(input_tensor, dtype_hint=float32), _last(2), fft_length, "backward")


@export("signal.irfft2d")
def irfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`rfft2d`: a real tensor from half of its spectrum.

    Args:
      input_tensor: complex64 or complex128 tensor of shape (..., m, n).
      fft_length: 2 ints, the sizes of these axes of the result; the last is twice the last dim less two where not given.

    >>> import tvtf as tf
    >>> tf.signal.irfft2d(tf.constant([[4., 0., 0.]], tf.complex64)).numpy()
    array([[1., 1., 1., 1.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfft2d
    """
    return _to_whole(_spectrum(input_tensor), _last(2), fft_length, "backward")


@export("signal.fft3d")
def fft3d(input: Any, name: str | None = None) -> Tensor:
    """Returns the discrete Fourier transform over the last three axes.

    A complex64 or complex128 tensor of shape (..., l, m, n).

    >>> import tvtf as tf
    >>> tf.signal.fft3d(tf.constant([[[1., 1.]]], tf.complex64)).numpy()
    array([[[2.+0.j, 0.+0.j]]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fft3d
    """
    return _transformed(input, 3, inverse=False)


@export("signal.ifft3d")
def ifft3d(input: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fft3d`, divided by the number of elements.

    A complex64 or complex128 tensor of shape (..., l, m, n).

    >>> import tvtf as tf
    >>> tf.signal.ifft3d(tf.constant([[[2., 0.]]], tf.complex64)).numpy()
    array([[[1.+0.j, 1.+0.j]]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifft3d
    """
    return _transformed(input, 3, inverse=True)


@export("signal.rfft3d")
def rfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the Fourier transform over the last three axes of a float32 or float64 tensor, without what mirrors the rest.

    Args:
      input_tensor: tensor of shape (..., l, m, n).
      fft_length: 3 ints: the sizes to which these axes are cut or padded with zeros before.

    Returns:
      A complex tensor whose last dim is ``fft_length[-1] // 2 + 1``.

    >>> import tvtf as tf
    >>> tf.signal.rfft3d([[[1., 1., 1., 1.]]]).numpy()
    array([[[4.+0.j, 0.+0.j, 0.+0.j]]], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/rfft3d
    """
    return _to_half(convert_to_tensor(input_tensor, dtype_hint=float32), _last(3), fft_length, "backward")


@export("signal.irfft3d")
def irfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`rfft3d`: a real tensor from half of its spectrum.

    Args:
      input_tensor: complex64 or complex128 tensor of shape (..., l, m, n).
      fft_length: 3 ints, the sizes of these axes of the result; the last is twice the last dim less two where not given.

    >>> import tvtf as tf
    >>> tf.signal.irfft3d(tf.constant([[[4., 0., 0.]]], tf.complex64)).numpy()
    array([[[1., 1., 1., 1.]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/irfft3d
    """
    return _to_whole(_spectrum(input_tensor), _last(3), fft_length, "backward")


# -- over any axes


def _over_axes(x: Tensor, axes: Any, norm: Any, run: Callable[[Tensor, tuple[int, ...], str], Tensor]) -> Tensor:
    """Applies a transform of the last axes to any axes: moves them last, and back afterwards."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise ValueError(f"norm must be None, 'backward', 'forward' or 'ortho', but got {norm!r}")
    chosen = canonical_axes(None if axes is None else static_value(axes, "axes"), x.ndim)
    order = (*(i for i in range(x.ndim) if i not in chosen), *chosen)
    back = tuple(int(i) for i in np.argsort(order))
    transformed = run(bind.transpose(x, perm=order), tuple(range(-len(chosen), 0)), norm or "backward")
    return bind.transpose(transformed, perm=back)


def _whole_lengths(x: Tensor, axes: tuple[int, ...], fft_length: Any) -> Tensor:
    for axis, size in zip(axes, _lengths(fft_length, len(axes)) or ()):
        x = _fitted(x, x.ndim + axis, size)
    return x


@export("signal.fftnd", "fftnd")
def fftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: Any = None, name: str | None = None
) -> Tensor:
    """Returns the discrete Fourier transform over any axes of a complex tensor.

    Args:
      input_tensor: complex64 or complex128 tensor.
      fft_length: the sizes to which these axes are cut or padded with zeros.
      axes: ints; all where not given.
      norm: "backward" (also None), "forward" or "ortho": which transform is divided by the number of elements.

    >>> import tvtf as tf
    >>> tf.signal.fftnd(tf.constant([1., 1.], tf.complex64)).numpy()
    array([2.+0.j, 0.+0.j], dtype=complex64)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fftnd
    """
    return _over_axes(
        convert_to_tensor(input_tensor), axes, norm,
        lambda x, at, how: bind.fourier(_whole_lengths(x, at, fft_length), axes=at, inverse=False, norm=how),
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
    return _over_axes(
        convert_to_tensor(input_tensor), axes, norm,
        lambda x, at, how: bind.fourier(_whole_lengths(x, at, fft_length), axes=at, inverse=True, norm=how),
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
    return _over_axes(convert_to_tensor(input_tensor), axes, norm, lambda x, at, how: _to_half(x, at, fft_length, how))


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
    return _over_axes(convert_to_tensor(input_tensor), axes, norm, lambda x, at, how: _to_whole(x, at, fft_length, how))


# -- order of frequencies


def _shifts(x: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    chosen = list(range(x.ndim)) if axes is None else [int(a) for a in np.atleast_1d(static_value(axes, "axes"))]
    return chosen, [int(x.shape[a]) for a in chosen]  # type: ignore[arg-type]


@export("signal.fftshift")
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Moves frequency zero to the middle of each of the axes (default: all).

    >>> import tvtf as tf
    >>> tf.signal.fftshift([0, 1, 2, -2, -1]).numpy()
    array([-2, -1,  0,  1,  2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/fftshift
    """
    x = convert_to_tensor(x)
    chosen, sizes = _shifts(x, axes)
    return roll(x, [n // 2 for n in sizes], chosen)


@export("signal.ifftshift")
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of :func:`fftshift`.

    >>> import tvtf as tf
    >>> tf.signal.ifftshift([-2, -1, 0, 1, 2]).numpy()
    array([ 0,  1,  2, -2, -1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/ifftshift
    """
    x = convert_to_tensor(x)
    chosen, sizes = _shifts(x, axes)
    return roll(x, [-(n // 2) for n in sizes], chosen)
