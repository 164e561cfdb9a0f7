"""Framing of signals, short-time Fourier transforms, overlap-add, and cosine transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import size_of
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, int32
from tvtf.ops.indexing import gather_densely
from tvtf.ops.linalg import product
from tvtf.ops.operands import scalar_int
from tvtf.ops.pad import reverse
from tvtf.ops.rules import bind, canonical_axis, number, static_int
from tvtf.ops.spectrum import irfft, rfft
from tvtf.ops.window_functions import hann_window, vorbis_window


@export("signal.frame")
def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: Any = -1,
    name: str | None = None,
) -> Tensor:
    """Divides an axis into windows of ``frame_length`` elements, each ``frame_step`` after the one before.

    Args:
      signal: tensor of known size along the axis.
      frame_length, frame_step: ints.
      pad_end: also give windows that reach beyond the end, filled up with ``pad_value``.
      axis: which axis; it becomes two, (frames, frame_length).

    >>> import tvtf as tf
    >>> tf.signal.frame([1, 2, 3, 4, 5], 3, 2).numpy()
    array([[1, 2, 3],
           [3, 4, 5]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/frame
    """
    x = _signal(signal, 1)
    framed_axis = canonical_axis(axis, x.ndim)
    length = _sample_count(frame_length, "frame_length")
    step = _sample_count(frame_step, "frame_step")
    if length < 0 or step <= 0:
        raise ArgumentError(f"frame_length must be >= 0 and frame_step > 0, but got {length} and {step}")
    extent = x._type.shape[framed_axis]
    if not isinstance(extent, int):
        return _frame_symbolic(x, framed_axis, length, step, convert_to_tensor(pad_value, x.dtype) if pad_end else None)
    if pad_end:
        count = ceil_div(extent, step)
        padding = max(0, length + step * (count - 1) - extent)
        padding_value = convert_to_tensor(pad_value, x.dtype)
        x = bind.pad(
            x, padding_value, paddings=tuple((0, padding) if i == framed_axis else (0, 0) for i in range(x.ndim))
        )
    else:
        count = max(0, 1 + (extent - length) // step)
    # Row i: the indices of the elements of frame i.
    indices = step * np.arange(count, dtype=np.int32)[:, None] + np.arange(length, dtype=np.int32)
    return gather_densely(x, EagerTensor(indices), framed_axis)


def _frame_symbolic(x: Tensor, axis: int, length: int, step: int, pad_value: Tensor | None) -> Tensor:
    """Splits a signal of symbolic size into frames, as :func:`frame` does.

    The number of frames is computed at run time.

    Args:
      x: the signal.
      axis: the axis of the samples.
      length: the number of samples of a frame.
      step: the distance between the starts of two frames.
      pad_value: the value with which to complete the last frames, or None for complete frames only.
    """
    tf = public_names()
    extent = tf["shape"](x)[axis]
    if pad_value is None:
        count = tf["maximum"](0, 1 + (extent - length) // step)
    else:
        count = -(-extent // step)  # a frame for each step, rounded up
        padding = tf["maximum"](0, length + step * (count - 1) - extent)
        paddings: list[Any] = [EagerTensor(np.zeros(2, np.int32))] * x.ndim
        paddings[axis] = tf["stack"]([0, padding])
        x = tf["pad"](x, tf["stack"](paddings), constant_values=pad_value)
    starts = (step * tf["range"](count))[:, None]
    indices = starts + EagerTensor(np.arange(length, dtype=np.int32))  # of shape (count, length)
    return gather_densely(x, indices, axis)


def _signal(value: Any, least_rank: int) -> Tensor:
    """Converts an argument to a tensor of at least ``least_rank`` axes."""
    x = convert_to_tensor(value)
    if x.ndim < least_rank:
        raise ValueError(f"Shape {x.shape} must have rank at least {least_rank}")
    return x


def _sample_count(value: Any, name: str) -> int:
    """Converts the argument ``name``, a number of samples that is known while tracing, to an int.

    Raises:
      ValueError: the argument is not a scalar.
      ArgumentError: the argument's dtype is not int32.
    """
    count = convert_to_tensor(value)
    if count.ndim:
        raise ValueError(f"Shape {count.shape} must have rank 0")
    if count.dtype is not int32:
        raise ArgumentError(f"{name} must be int32, but is {count.dtype.name}", TypeError)
    return static_int(count, name)


@export("signal.overlap_and_add")
def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """Adds up frames, each ``frame_step`` after the one before: shape (..., frames, length) to (..., samples).

    Raises:
      ValueError: the rank is below 2, or the number or the length of the frames is unknown.

    >>> import tvtf as tf
    >>> tf.signal.overlap_and_add([[1., 1.], [1., 1.]], 1).numpy()
    array([1., 2., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/overlap_and_add
    """
    x = _signal(signal, 2)
    step_tensor = convert_to_tensor(frame_step)
    if step_tensor.ndim:
        raise ValueError(f"Shape {step_tensor.shape} must have rank 0")
    if not step_tensor.dtype.is_integer:
        raise ValueError(f"frame_step must be an integer. Got {step_tensor.dtype!r}")
    step = static_int(step_tensor, "frame_step")
    *batch, count, length = x._type.shape
    if not isinstance(count, int) or not isinstance(length, int):
        raise unknown_size(
            ValueError(f"overlap_and_add needs frames of known number and length, but got shape {x.shape}")
        )
    rows = bind.reshape(x, shape=(size_of(batch), count * length))
    # Elements of frames at the same position are summed as one segment.
    positions = (step * np.arange(count, dtype=np.int32)[:, None] + np.arange(length, dtype=np.int32)).reshape(-1)
    sample_count = step * (count - 1) + length
    summed = bind.unsorted_segment_sum(
        bind.transpose(rows, perm=(1, 0)), EagerTensor(positions), num_segments=sample_count
    )
    return bind.reshape(bind.transpose(summed, perm=(1, 0)), shape=(*batch, sample_count))


@export("signal.stft")
def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Tensor] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Returns the short-time Fourier transform of real signals.

    Args:
      signals: float32 or float64 tensor of shape (..., samples).
      frame_length, frame_step: ints, how many samples a window has and how far apart windows are.
      fft_length: int, the size of the transform; by default the smallest power of two that is at least ``frame_length``.
      window_fn: ``(length, dtype) -> weights`` of a window; None for none.
      pad_end: also give windows that reach beyond the end.

    Returns:
      A complex tensor of shape (..., frames, fft_length // 2 + 1).

    >>> import tvtf as tf
    >>> tf.signal.stft(tf.ones([100]), frame_length=16, frame_step=8).shape
    TensorShape([11, 9])

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/stft
    """
    length = _sample_count(frame_length, "frame_length")
    framed = frame(signals, length, frame_step, pad_end=pad_end)
    if window_fn is not None:
        framed = bind.multiply(framed, window_fn(length, dtype=framed.dtype))
    return rfft(framed, [_fft_length(length, fft_length)])


def _fft_length(length: int, fft_length: Any) -> int:
    """Returns ``fft_length``, by default the smallest power of two that is at least ``length``, as TensorFlow does."""
    return 1 << (length - 1).bit_length() if fft_length is None else static_int(fft_length, "fft_length")


@export("signal.inverse_stft")
def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Tensor] | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Computes real signals from their short-time Fourier transform.

    See `tf.signal.inverse_stft_window_fn` for the window to use.

    Args:
      stfts: complex64 or complex128 tensor of shape (..., frames, fft_length // 2 + 1).
      frame_length, frame_step, fft_length, window_fn: as for `tf.signal.stft`.

    Returns:
      A real tensor of shape (..., samples).

    >>> import tvtf as tf
    >>> tf.signal.inverse_stft(tf.signal.stft(tf.ones([100]), 16, 8), 16, 8).shape
    TensorShape([96])

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/inverse_stft
    """
    x = _signal(stfts, 2)
    length = scalar_int(convert_to_tensor(frame_length), "window_length")
    size = _fft_length(length, fft_length)
    frames: Any = irfft(x, [size])[..., :length]  # type: ignore[index]
    if length > size:
        frames = bind.pad(frames, number(0, frames), paddings=(*((0, 0),) * (frames.ndim - 1), (0, length - size)))
    if window_fn is not None:
        frames = bind.multiply(frames, window_fn(length, dtype=frames.dtype))
    return overlap_and_add(frames, frame_step)


# -- cosine transforms


def _cosine_transform(x: Tensor, transform_type: int, norm: Any) -> Tensor:
    """Computes a discrete cosine transform along the last axis by a product with the transform's matrix.

    ``transform_type`` is 1 to 4, and ``norm`` is None or "ortho".
    """
    import scipy.fft

    size = x._type.shape[-1]
    if not isinstance(size, int):
        raise unknown_size(ValueError(f"dct needs a last axis of known size, but got shape {x.shape}"))
    # The transforms of the unit vectors are the rows of the matrix.
    matrix = scipy.fft.dct(np.eye(size), transform_type, norm=norm, axis=1).astype(x.dtype.np)
    rows = bind.reshape(x, shape=(size_of(x._type.shape[:-1]), size))
    transformed = product(rows, EagerTensor(np.ascontiguousarray(matrix)))
    return bind.reshape(transformed, shape=x._type.shape)


@export("signal.dct")
def dct(input: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, name: str | None = None) -> Tensor:
    """Returns the discrete cosine transform of the last axis, of type 1 to 4.

    Args:
      input: floating tensor of shape (..., samples).
      type: 1, 2, 3 or 4.
      n: the size to which the axis is cut or padded with zeros.
      axis: -1.
      norm: None or "ortho".

    Raises:
      ValueError: the type is not 1 to 4, or type 1 is requested for a single sample or with "ortho".
      NotImplementedError: the axis is not -1.

    >>> import tvtf as tf
    >>> tf.signal.dct([1., 1., 1.]).numpy().round(3)
    array([6., 0., 0.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/dct
    """
    x: Any = convert_to_tensor(input)
    _check_cosine_arguments(x, type, axis, norm)
    if n is not None:
        size = static_int(n, "n")
        extent = int(x.shape[-1])
        x = x[..., :size]
        if extent < size:
            x = bind.pad(x, number(0, x), paddings=(*((0, 0),) * (x.ndim - 1), (0, size - extent)))
    if type == 1 and x.shape[-1] < 2:
        raise ValueError(f"Type-I DCT requires the dimension to be greater than one. Received: {x.shape[-1]}")
    return _cosine_transform(x, type, norm)


def _check_cosine_arguments(x: Tensor, transform_type: Any, axis: Any, norm: Any) -> None:
    """Checks the arguments of a discrete cosine transform. Raises TensorFlow's error for a wrong one.

    Args:
      x: the tensor to transform.
      transform_type: 1 to 4.
      axis: the axis, which must be -1.
      norm: None or "ortho".
    """
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if transform_type not in (1, 2, 3, 4):
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    if transform_type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
    if x.dtype not in FLOATING:
        raise ArgumentError(f"input must be floating, but is {x.dtype.name}", TypeError).for_op("DCT")


@export("signal.idct")
def idct(input: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, name: str | None = None) -> Tensor:
    """Returns the inverse of `tf.signal.dct`, which isn't scaled unless ``norm`` is "ortho".

    The arguments are those of `tf.signal.dct`. ``n`` is not supported.

    >>> import tvtf as tf
    >>> tf.signal.idct([6., 0., 0.]).numpy().round(3)
    array([6., 6., 6.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/idct
    """
    # Types 2 and 3 are inverses of each other, 1 and 4 of themselves.
    inverse_type = 5 - type if type in (2, 3) else type
    return dct(input, type=inverse_type, n=n, axis=axis, norm=norm)


def _folded(x: Any, quarter_length: int) -> Tensor:
    """Folds the windows of a modified cosine transform to half their length, as input of a type-4 transform.

    A window with the quarters a, b, c, d becomes (-reversed(c) - d, a - reversed(b)).
    """
    a = x[..., :quarter_length]
    b = x[..., quarter_length : 2 * quarter_length]
    c = x[..., 2 * quarter_length : 3 * quarter_length]
    d = x[..., 3 * quarter_length : 4 * quarter_length]
    first_half = bind.subtract(bind.negative(reverse(c, [-1])), d)
    second_half = bind.subtract(a, reverse(b, [-1]))
    return bind.concat(first_half, second_half, axis=x.ndim - 1)


def _windowed(frames: Tensor, window_fn: Any, length: int) -> Tensor:
    """Multiplies frames by a window function of their ``length``; without one, by 1 / sqrt(2)."""
    if window_fn is None:
        return bind.multiply(frames, number(1 / np.sqrt(2), frames))
    return bind.multiply(frames, window_fn(length, dtype=frames.dtype))


@export("signal.mdct")
def mdct(
    signals: Any,
    frame_length: Any,
    window_fn: Callable[..., Tensor] | None = vorbis_window,
    pad_end: bool = False,
    norm: Any = None,
    name: str | None = None,
) -> Tensor:
    """Returns the modified discrete cosine transform, shape (..., samples) to (..., frames, frame_length // 2).

    Args:
      signals: floating tensor.
      frame_length: a multiple of 4.
      window_fn: ``(length, dtype) -> weights``; None for none.
      pad_end: also give windows that reach beyond the end.
      norm: None or "ortho".

    Raises:
      ValueError: the length is not a multiple of 4.

    >>> import tvtf as tf
    >>> tf.signal.mdct(tf.ones([16]), 8).shape
    TensorShape([3, 4])

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/mdct
    """
    length = scalar_int(convert_to_tensor(frame_length), "frame_length")
    if length % 4:
        raise ValueError("The frame length must be a multiple of 4.")
    frames = _windowed(frame(signals, length, length // 2, pad_end=pad_end), window_fn, length)
    return dct(_folded(frames, length // 4), type=4, norm=norm)


@export("signal.inverse_mdct")
def inverse_mdct(
    mdcts: Any, window_fn: Callable[..., Tensor] | None = vorbis_window, norm: Any = None, name: str | None = None
) -> Tensor:
    """Returns the signals whose `tf.signal.mdct` is given, shape (..., frames, half) to (..., samples).

    >>> import tvtf as tf
    >>> tf.signal.inverse_mdct(tf.signal.mdct(tf.ones([16]), 8)).numpy()[4:12].round(3)
    array([1., 1., 1., 1., 1., 1., 1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/inverse_mdct
    """
    x = _signal(mdcts, 2)
    half = int(x.shape[-1])  # type: ignore[arg-type]
    if half % 2:
        detail = f"got split_dim {x.ndim - 1} (size = {half}) and num_split 2"
        raise ArgumentError(f"Number of ways to split should evenly divide the split dimension, but {detail}")
    folded: Any = dct(x, type=4, norm=norm)
    if norm is None:
        folded = bind.multiply(folded, number(0.5 / half, folded))
    first_half, second_half = folded[..., : half // 2], folded[..., half // 2 :]
    # Unfolds each half of the folded window to two quarters; see `_folded`.
    quarters = (
        second_half,
        bind.negative(reverse(second_half, [-1])),
        bind.negative(reverse(first_half, [-1])),
        bind.negative(first_half),
    )
    frames = _windowed(bind.concat(*quarters, axis=x.ndim - 1), window_fn, 2 * half)
    return overlap_and_add(frames, half)


@export("signal.mfccs_from_log_mel_spectrograms")
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Computes the mel-frequency cepstral coefficients of logarithmic mel spectrograms, shape (..., bins) to (..., bins).

    >>> import tvtf as tf
    >>> tf.signal.mfccs_from_log_mel_spectrograms([[1., 1.]]).numpy()
    array([[2., 0.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/mfccs_from_log_mel_spectrograms
    """
    x = convert_to_tensor(log_mel_spectrograms)
    bins = int(x.shape[-1])  # type: ignore[arg-type]
    if not bins:
        raise ValueError(f"num_mel_bins must be positive. Got: {x}")
    coefficients = dct(x, type=2)
    return bind.multiply(coefficients, number(1 / np.sqrt(2 * bins), coefficients))
