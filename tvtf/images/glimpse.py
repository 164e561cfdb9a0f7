"""Windows of images that may extend beyond the borders.

Source: ``tensorflow/core/kernels/eigen_attention.h``, version 2
"""

from __future__ import annotations

from typing import Any

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import brackets
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, int32
from tvtf.ops.cast import cast
from tvtf.ops.compare import where
from tvtf.ops.create import arange
from tvtf.ops.indexing import gather
from tvtf.ops.operands import attributes, operand
from tvtf.ops.rules import bind, static_dims
from tvtf.rng.stateful import normal, uniform

NOISES = ("uniform", "gaussian", "zero")


@export("image.extract_glimpse")
@attributes(centered=bool, normalized=bool, noise=str)
def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    noise: str = "uniform",
    name: str | None = None,
) -> Tensor:
    """Extracts a window of each image; parts outside the image are noise.

    Args:
      input: float32 images, shape (batch, height, width, channels).
      size: the window's height and width.
      offsets: float32 of shape (batch, 2), y and x: the window's position. With ``normalized`` and ``centered`` it is that
        of the window's middle, from -1 to 1. Otherwise it is that of the window's first pixel: with ``normalized`` as a
        fraction of the image, with ``centered`` relative to the image's middle.
      noise: ``"uniform"`` (between the image's least and greatest value), ``"gaussian"`` (like each channel) or ``"zero"``.

    Raises:
      InvalidArgumentError: a shape is invalid, ``noise`` is not supported, or there is not one offset per image.

    >>> import tvtf as tf
    >>> x = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> tf.image.extract_glimpse(x, (2, 2), [[1.0, 1.0]], centered=False, normalized=False)[0, ..., 0].numpy()
    array([[4., 5.],
           [7., 8.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/extract_glimpse
    """
    return glimpse(input, size, offsets, centered, normalized, noise)


def glimpse(
    input: Any, size: Any, offsets: Any, centered: bool, normalized: bool, noise: str, to_middle: bool = False
) -> Tensor:
    """Extracts a window from each image: implements ``extract_glimpse``.

    Pixels outside the image are filled with noise.

    Args:
      input: images of shape (batch, height, width, channels).
      size: the height and width of the window.
      offsets: the position of each window, of shape (batch, 2).
      centered: whether offset (0, 0) is the center of the image; otherwise it is the upper left corner.
      normalized: whether the sides of an image have length 1 (2 if ``centered``); otherwise offsets count pixels.
      noise: "uniform", "gaussian" or "zero".
      to_middle: whether the offsets always refer to the window's center.
    """
    x = operand(input, float32)
    window_offsets = operand(offsets, float32, 2)
    window = static_dims(size)
    _check_arguments(x, window_offsets, window, noise)
    batch, height, width, depth = x._type.shape
    window_height, window_width = window
    options = (centered, normalized, to_middle)
    rows, in_rows = _window_pixels(window_offsets[:, 0], height, window_height, *options)
    columns, in_columns = _window_pixels(window_offsets[:, 1], width, window_width, *options)
    pixel_rows = gather(x, rows, axis=1, batch_dims=1)
    pixels = gather(pixel_rows, columns, axis=2, batch_dims=1)
    is_inside = bind.logical_and(in_rows[:, :, None, None], in_columns[:, None, :, None])
    outside = _noise(x, (batch, window_height, window_width, depth), noise)
    return where(is_inside, pixels, outside)  # type: ignore[no-any-return]


def _check_arguments(x: Tensor, window_offsets: Tensor, window: tuple[Any, ...], noise: str) -> None:
    """Checks the kind of noise, and the shapes of images, size and offsets.

    Args:
      x: the images.
      window_offsets: the position of each window.
      window: the height and width of the window.
      noise: the kind of noise.
    """
    if noise not in NOISES:
        raise ArgumentValueError(f"The noise could only be uniform, gaussian, or zero, got {noise}")
    message = None
    shape, offsets_shape = x._type.shape, window_offsets._type.shape
    if x.ndim != 4:
        message = f"input must be 4-dimensional (batch_size, height, width, depth), got {brackets(shape)}"
    elif len(window) != 2:
        message = f"size must be a vector of size 2 (height, width), got {brackets(window)}"
    elif window_offsets.ndim != 2 or offsets_shape != (shape[0], 2):
        message = f"offsets must be a matrix of size [{shape[0]}, 2] (y, x), got {brackets(offsets_shape)}"
    if message:
        raise ArgumentError(message).for_op("ExtractGlimpseV2")


def _window_pixels(
    start: Tensor, size: Any, window: int, centered: bool, normalized: bool, to_middle: bool
) -> tuple[Tensor, Tensor]:
    """Computes the rows (or columns) of each image that a window covers, clipped to the image, by TensorFlow's formulas.

    Args:
      start: the window's offset in each image, of shape (batch,).
      size, window: the numbers of pixels of the image and of the window.
      centered: whether offsets are relative to the image's center.
      normalized: whether offsets are fractions of ``size``.
      to_middle: whether offsets refer to the window's center.

    Returns:
      The pixel indices, and whether each was inside the image, both of shape (batch, window).
    """
    if normalized:
        start = start * float(size)
    if to_middle:
        middle = start / 2.0 + size / 2.0 if centered else start
        start = middle - window / 2.0
    elif centered and normalized:
        start = start / 2.0 + (size / 2.0 - window / 2.0)
    elif centered:
        start = start + size / 2.0
    pixels = cast(start, int32)[:, None] + arange(window)
    first_pixel, last_pixel = convert_to_tensor(0), convert_to_tensor(size - 1)
    nearest_pixels = bind.minimum(bind.maximum(pixels, first_pixel), last_pixel)
    return nearest_pixels, bind.equal(pixels, nearest_pixels)


def _noise(x: Tensor, shape: tuple[Any, ...], noise: str) -> Tensor:
    """Returns values for the parts of a window outside the image: zeros, or noise in the range of the image's values."""
    if noise == "zero":
        return convert_to_tensor(0.0)
    axes = (1, 2, 3) if noise == "uniform" else (1, 2)
    minimum = bind.reduce_min(x, axis=axes, keepdims=True)
    maximum = bind.reduce_max(x, axis=axes, keepdims=True)
    if noise == "uniform":
        return minimum + uniform(shape) * (maximum - minimum)
    mean = bind.reduce_mean(x, axis=axes, keepdims=True)
    variance = bind.reduce_mean(bind.square(x - mean), axis=axes, keepdims=True)
    deviation = bind.sqrt(variance)
    noise_values = mean + normal(shape) * deviation
    return bind.maximum(bind.minimum(noise_values, maximum), minimum)
