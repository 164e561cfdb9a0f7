"""Window functions for framed signals and the weights of the mel scale, computed as constants while tracing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import export, name_errors
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype, float32, int32
from tvtf.ops.computed_arguments import computed
from tvtf.ops.operands import convert_input, scalar_int
from tvtf.ops.rules import static_int, static_value


def _checked_arguments(window_length: Any, dtype: Any) -> tuple[int, DType]:
    """Checks the arguments of a window function, such as ``hann_window``. Returns the length and the floating dtype.

    The errors are TensorFlow's.
    """
    float_dtype = as_dtype(dtype)
    if not float_dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {float_dtype}")
    length_tensor = convert_to_tensor(window_length, int32 if state.trace is None else None)
    if length_tensor.ndim:
        raise ValueError(f"window_length: Shape {length_tensor.shape} must have rank 0")
    length = static_int(length_tensor, "window_length")
    if length < 0:
        raise ArgumentError(f"Requires start <= limit when delta > 0: 0/{length}")
    return length, float_dtype


def _window_specs(arguments: Mapping[str, Any]) -> list[TensorSpec]:
    """Returns the spec of a window whose length is known only when the program runs."""
    return [TensorSpec([None], arguments["dtype"])]


def _constant(values: np.ndarray, dtype: DType) -> Tensor:
    """Returns a constant tensor of a dtype."""
    return EagerTensor(np.asarray(values).astype(dtype.np))


def _raised_cosine(window_length: Any, periodic: Any, dtype: Any, mean: float) -> Tensor:
    """Computes the Hann or Hamming window ``mean - (1 - mean) * cos(2 * pi * i / period)``.

    A window of odd length is symmetric even if ``periodic``, as in TensorFlow.
    """
    length, float_dtype = _checked_arguments(window_length, dtype)
    periodic = static_value(convert_input(periodic, as_dtype("bool")), "periodic")
    if length == 1:
        return _constant(np.ones(1), float_dtype)
    period = length if periodic and length % 2 == 0 else length - 1
    cosines = np.cos(2 * np.pi * np.arange(length) / period)
    return _constant(mean - (1 - mean) * cosines, float_dtype)


@export("signal.hann_window")
@computed("window_length", gives=_window_specs)
def hann_window(window_length: Any, periodic: Any = True, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Returns the Hann window, shape (window_length,).

    >>> import tvtf as tf
    >>> tf.signal.hann_window(4).numpy()
    array([0. , 0.5, 1. , 0.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/hann_window
    """
    return _raised_cosine(window_length, periodic, dtype, 0.5)


@export("signal.hamming_window")
@computed("window_length", gives=_window_specs)
def hamming_window(window_length: Any, periodic: Any = True, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Returns the Hamming window, shape (window_length,).

    >>> import tvtf as tf
    >>> tf.signal.hamming_window(4).numpy()
    array([0.08, 0.54, 1.  , 0.54], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/hamming_window
    """
    return _raised_cosine(window_length, periodic, dtype, 0.54)


@export("signal.vorbis_window")
@computed("window_length", gives=_window_specs)
def vorbis_window(window_length: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Returns the Vorbis power complementary window, shape (window_length,).

    >>> import tvtf as tf
    >>> tf.signal.vorbis_window(4).numpy().round(3)
    array([0.228, 0.974, 0.974, 0.228], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/vorbis_window
    """
    length, float_dtype = _checked_arguments(window_length, dtype)
    # The window is sin(pi / 2 * sin(angle)^2), for angles between 0 and pi.
    angles = np.pi / max(length, 1) * (np.arange(length) + 0.5)
    return _constant(np.sin(np.pi / 2 * np.sin(angles) ** 2), float_dtype)


@export("signal.kaiser_window")
@computed("window_length", "beta", gives=_window_specs)
def kaiser_window(window_length: Any, beta: float = 12.0, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Returns the Kaiser window, shape (window_length,).

    >>> import tvtf as tf
    >>> tf.signal.kaiser_window(3).numpy().round(3)
    array([0., 1., 0.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/kaiser_window
    """
    length, float_dtype = _checked_arguments(window_length, dtype)
    if not length:
        raise ArgumentError("Requires start <= limit when delta > 0: 0.5/-0.4").for_op("Range")
    return _constant(np.kaiser(length, float(static_value(beta, "beta"))), float_dtype)


@export("signal.kaiser_bessel_derived_window")
@computed("window_length", "beta", gives=_window_specs)
def kaiser_bessel_derived_window(
    window_length: Any, beta: float = 12.0, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Returns the Kaiser Bessel derived window, shape (window_length,), for an even length.

    Its first half are the square roots of the running sums of a Kaiser window, divided by the total. The second half
    mirrors the first.

    Args:
      window_length: int scalar.
      beta: the Kaiser window's parameter: the larger, the narrower the window.
      dtype: a floating dtype.

    >>> import tvtf as tf
    >>> tf.signal.kaiser_bessel_derived_window(4).numpy().round(3)
    array([0.007, 1.   , 1.   , 0.007], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/kaiser_bessel_derived_window
    """
    length, float_dtype = _checked_arguments(window_length, dtype)
    sums = np.cumsum(np.kaiser(length // 2 + 1, float(static_value(beta, "beta"))))
    first_half = np.sqrt(sums[:-1] / sums[-1])
    return _constant(np.concatenate([first_half, first_half[::-1]]), float_dtype)


@export("signal.inverse_stft_window_fn")
def inverse_stft_window_fn(
    frame_step: Any, forward_window_fn: Callable[..., Tensor] = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """Returns the ``window_fn`` of `tf.signal.inverse_stft` that undoes the window of `tf.signal.stft`.

    >>> import tvtf as tf
    >>> tf.signal.inverse_stft_window_fn(2)(4, tf.float32).numpy()
    array([0., 1., 1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/inverse_stft_window_fn
    """
    step = static_int(frame_step, "frame_step")

    @name_errors
    def inverse_window(frame_length: Any, dtype: Any) -> Tensor:
        """Computes the window that undoes the forward window when overlapping frames are added.

        The frames begin ``frame_step`` samples apart.
        """
        length = scalar_int(convert_to_tensor(frame_length), "frame_length")
        float_dtype = as_dtype(dtype)
        forward_tensor = forward_window_fn(length, dtype=float_dtype)
        forward_window = np.array(static_value(forward_tensor, "window"), np.float64)
        overlap_count = ceil_div(length, step)  # the number of frames that overlap at a sample
        # The window is divided by the sum of the squared windows at each sample. Then the products of forward and
        # inverse window add up to one.
        padding = overlap_count * step - length
        squares = np.pad(forward_window**2, (0, padding)).reshape(overlap_count, step)
        squares_sum = np.tile(squares.sum(axis=0), overlap_count)[:length]
        return _constant(forward_window / squares_sum, float_dtype)

    return inverse_window


def _mel(hertz: Any) -> Any:
    """Converts frequencies to the mel scale of HTK."""
    return 1127.0 * np.log(1.0 + np.asarray(hertz) / 700.0)


@export("signal.linear_to_mel_weight_matrix")
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Returns the matrix that takes a spectrogram to the mel scale, shape (num_spectrogram_bins, num_mel_bins).

    Raises:
      ValueError: the number of bins, the rate or the edges are out of range.

    >>> import tvtf as tf
    >>> tf.signal.linear_to_mel_weight_matrix(4, 8).shape
    TensorShape([8, 4])

    Source: https://www.tensorflow.org/api_docs/python/tf/signal/linear_to_mel_weight_matrix
    """
    rate, low, high = (
        float(static_value(value, "edge")) for value in (sample_rate, lower_edge_hertz, upper_edge_hertz)
    )
    for is_valid, message in (
        (num_mel_bins > 0, f"num_mel_bins must be positive. Got: {num_mel_bins}"),
        (low >= 0, f"lower_edge_hertz must be non-negative. Got: {low}"),
        (low < high, f"lower_edge_hertz {low:.1f} >= upper_edge_hertz {high:.1f}"),
        (rate > 0, f"sample_rate must be positive. Got: {sample_rate}"),
        (
            high <= rate / 2,
            f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got {high} for sample_rate: {sample_rate}",
        ),
        (as_dtype(dtype).is_floating, f"dtype must be a floating point type. Got: {dtype}"),
    ):
        if not is_valid:
            raise ValueError(message)
    bin_mels = _mel(np.linspace(0.0, rate / 2, num_spectrogram_bins)[1:])[:, None]
    edge_mels = np.linspace(_mel(low), _mel(high), num_mel_bins + 2)
    below, center, above = edge_mels[:-2], edge_mels[1:-1], edge_mels[2:]
    weights = np.maximum(0, np.minimum((bin_mels - below) / (center - below), (above - bin_mels) / (above - center)))
    return _constant(np.pad(weights, [(1, 0), (0, 0)]), as_dtype(dtype))
