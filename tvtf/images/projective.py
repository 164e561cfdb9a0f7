"""Projective transforms of images: rotation, shear, perspective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import agree_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, int32
from tvtf.errors import InvalidArgumentError


@export("raw_ops.ImageProjectiveTransformV3")
def ImageProjectiveTransformV3(  # noqa: N802 - TensorFlow's name
    *,
    images: Any,
    transforms: Any,
    output_shape: Any,
    fill_value: Any,
    interpolation: str,
    fill_mode: str = "CONSTANT",
    name: str | None = None,
) -> Tensor:
    """Transforms each image by a projective map from the output's points to the input's.

    Args:
      images: tensor of shape (batch, height, width, channels), of numbers.
      transforms: float32 of shape (batch or 1, 8): ``[a0, a1, a2, b0, b1, b2, c0, c1]`` maps the output point (x, y) to the
        input point ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with k = c0 x + c1 y + 1.
      output_shape: int32 vector: height and width of the result.
      fill_value: the value of points outside of the image, where ``fill_mode`` is "CONSTANT".
      interpolation: "NEAREST" or "BILINEAR".
      fill_mode: "CONSTANT", "NEAREST", "REFLECT" or "WRAP": what lies outside of the image.

    Returns:
      Tensor of shape (batch, *output_shape, channels), of the images' dtype. Its gradient by the images is that of the
      interpolation, where TensorFlow's goes by way of the inverse transform.

    Raises:
      InvalidArgumentError: ``interpolation`` or ``fill_mode`` is not supported.

    >>> import tvtf as tf
    >>> image = tf.constant([[[[1.], [2.]], [[3.], [4.]]]])
    >>> moved = tf.raw_ops.ImageProjectiveTransformV3(
    ...     images=image, transforms=[[1., 0., 1., 0., 1., 0., 0., 0.]], output_shape=[2, 2], fill_value=0.,
    ...     interpolation="NEAREST")
    >>> moved[0, :, :, 0].numpy()
    array([[2., 0.],
           [4., 0.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/raw_ops/ImageProjectiveTransformV3
    """
    _check_choice("interpolation", interpolation, _INTERPOLATIONS)
    _check_choice("fill_mode", fill_mode, _FILL_MODES)
    images, transforms = convert_to_tensor(images), convert_to_tensor(transforms, float32)
    size = convert_to_tensor(output_shape, int32)
    _check_ranks(images, transforms, size)
    fill = tf("cast")(convert_to_tensor(fill_value), images.dtype)
    shape = tf("shape")(images)
    height, width = shape[1], shape[2]
    rows, columns, is_finite = _input_points(transforms, size)
    map_outside = _FILL_MODES[fill_mode]
    read = _make_pixel_reader(images, fill, height, width)
    interpolated = _INTERPOLATIONS[interpolation](
        read, map_outside(rows, height), map_outside(columns, width), images.dtype
    )
    result = tf("where")(is_finite[..., None], interpolated, fill)
    result.set_shape([images.shape[0], *result.shape[1:3], images.shape[3]])
    return result


def _check_ranks(images: Tensor, transforms: Tensor, size: Tensor) -> None:
    """Checks the ranks and fixed dims of the images, transforms and output size. Raises InvalidArgumentError."""
    message = None
    if images.ndim != 4:
        message = "Input images must have rank 4"
    elif transforms.ndim != 2 or not agree_dim(transforms._type.shape[1], 8):
        message = "Input transform should be num_images x 8 or 1 x 8"
    elif size.ndim != 1 or not agree_dim(size._type.shape[0], 2):
        message = "output_shape must have two elements"
    if message is not None:
        raise ArgumentError(message, ValueError).for_op("ImageProjectiveTransformV3")


def _check_choice(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise InvalidArgumentError(
            None, "ImageProjectiveTransformV3", f"Invalid {name} {value!r}: expected one of {', '.join(choices)}."
        )


def tf(name: str) -> Callable[..., Any]:
    return public_names()[name]  # type: ignore[no-any-return]


def _input_points(transforms: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the point of the input image from which each output pixel is read, by projective transforms.

    Output pixel (x, y) is read from the column ``(a0 x + a1 y + a2) / k`` and the row ``(b0 x + b1 y + b2) / k``, where
    k is ``c0 x + c1 y + 1``.

    Args:
      transforms: the coefficients (a0, a1, a2, b0, b1, b2, c0, c1) of each image, or of all: shape (batch or 1, 8).
      size: the height and width of the output.

    Returns:
      The rows, the columns, and whether the points are finite, all of shape (batch or 1, height, width).
    """
    height, width = size[0], size[1]
    y = tf("cast")(tf("range")(height), float32)[None, :, None]
    x = tf("cast")(tf("range")(width), float32)[None, None, :]
    coefficients = tf("unstack")(transforms, 8, axis=1)
    a0, a1, a2, b0, b1, b2, c0, c1 = (coefficient[:, None, None] for coefficient in coefficients)
    denominator = c0 * x + c1 * y + 1.0
    is_finite = tf("not_equal")(denominator, 0.0)
    denominator = tf("where")(is_finite, denominator, 1.0)
    rows = (b0 * x + b1 * y + b2) / denominator
    columns = (a0 * x + a1 * y + a2) / denominator
    return rows, columns, is_finite


def _make_pixel_reader(
    images: Tensor, fill: Tensor, height: Tensor, width: Tensor
) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns a function that reads the pixels of all images at given rows and columns: integers, passed as floats.

    Positions outside the images have the fill value.
    """
    flat = tf("reshape")(
        images,
        tf("stack")([tf("shape")(images)[0], height * width, tf("shape")(images)[3]]),
    )
    batch = tf("shape")(images)[0]

    def read(rows: Tensor, columns: Tensor) -> Tensor:
        """Gathers the pixels at rows and columns of shape (batch or 1, height, width)."""
        is_inside = tf("logical_and")(_is_in_range(rows, height), _is_in_range(columns, width))
        # Pixel 0 takes the place of points outside, which are filled afterwards.
        row = tf("cast")(tf("where")(is_inside, rows, 0.0), int32)
        column = tf("cast")(tf("where")(is_inside, columns, 0.0), int32)
        pixel_index = row * width + column
        index_shape = tf("shape")(pixel_index)
        index_batch, output_height, output_width = index_shape[0], index_shape[1], index_shape[2]
        flat_indices = tf("reshape")(pixel_index, tf("stack")([index_batch, output_height * output_width]))
        flat_indices = tf("broadcast_to")(flat_indices, tf("stack")([batch, output_height * output_width]))
        pixels = tf("gather")(flat, flat_indices, axis=1, batch_dims=1)
        depth = tf("shape")(images)[3]
        pixels = tf("reshape")(pixels, tf("stack")([batch, output_height, output_width, depth]))
        return tf("where")(is_inside[..., None], pixels, fill)

    return read


def _is_in_range(positions: Tensor, size: Tensor) -> Tensor:
    return tf("logical_and")(positions >= 0.0, positions < _float(size))  # type: ignore[no-any-return]


def _float(size: Tensor) -> Tensor:
    return tf("cast")(size, float32)  # type: ignore[no-any-return]


def _nearest(read: Callable[..., Tensor], rows: Tensor, columns: Tensor, dtype: Any) -> Tensor:
    return read(_round_half_away(rows), _round_half_away(columns))


def _round_half_away(x: Tensor) -> Tensor:
    """Rounds halves away from zero, as C's ``round``."""
    whole = tf("floor")(tf("abs")(x))
    up = tf("cast")(tf("abs")(x) - whole >= 0.5, float32)
    return tf("sign")(x) * (whole + up)  # type: ignore[no-any-return]


def _bilinear(read: Callable[..., Tensor], rows: Tensor, columns: Tensor, dtype: Any) -> Tensor:
    """Interpolates linearly between the four pixels around each point.

    Args:
      read: returns the pixels at integral rows and columns.
      rows, columns: the points, of shape (batch or 1, height, width).
      dtype: the dtype of the result.
    """
    top = tf("floor")(rows)
    left = tf("floor")(columns)
    row_fraction = (rows - top)[..., None]  # broadcasts over the channels
    column_fraction = (columns - left)[..., None]

    def interpolate_row(row: Tensor) -> Tensor:
        left_pixel = tf("cast")(read(row, left), float32)
        right_pixel = tf("cast")(read(row, left + 1.0), float32)
        return (1.0 - column_fraction) * left_pixel + column_fraction * right_pixel  # type: ignore[no-any-return]

    top_pixel = interpolate_row(top)
    bottom_pixel = interpolate_row(top + 1.0)
    interpolated = (1.0 - row_fraction) * top_pixel + row_fraction * bottom_pixel
    return tf("cast")(interpolated, dtype)  # type: ignore[no-any-return]


def _clamp(x: Tensor, size: Tensor) -> Tensor:
    return tf("clip_by_value")(x, 0.0, _float(size) - 1.0)  # type: ignore[no-any-return]


def _reflect(x: Tensor, size: Tensor) -> Tensor:
    """Maps positions outside an image to inside by reflection, as in ``dcba|abcd|dcba``, by TensorFlow's formula.

    ``size`` is the number of pixels along the axis.
    """
    length = _float(size)
    period = 2.0 * length
    below = tf("where")(x < period, period * _truncate(-x / period) + x, x)
    below = tf("where")(below < -length, below + period, -below - 1.0)
    above = x - period * _truncate(x / period)
    above = tf("where")(above >= length, period - above - 1.0, above)
    return _clamp(_map_outside(x, length, below, above), size)


def _wrap(x: Tensor, size: Tensor) -> Tensor:
    """Maps positions outside an image to inside periodically, as in ``abcd|abcd|abcd``, by TensorFlow's formula.

    ``size`` is the number of pixels along the axis. As in TensorFlow, the period is the size minus 1.
    """
    length = _float(size)
    period = tf("maximum")(length - 1.0, 1.0)
    below = x + length * (_truncate(-x / period) + 1.0)
    above = x - length * _truncate(x / period)
    return _clamp(_map_outside(x, length, below, above), size)


def _map_outside(x: Tensor, length: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """Replaces positions before the start of an axis by ``below``, and positions after its end by ``above``.

    If the axis has a single pixel, all positions become 0.
    """
    is_after_end = x > length - 1.0
    mapped = tf("where")(x < 0.0, below, tf("where")(is_after_end, above, x))
    is_single_pixel = tf("broadcast_to")(length <= 1.0, tf("shape")(x))
    return tf("where")(is_single_pixel, tf("zeros_like")(x), mapped)


def _truncate(x: Tensor) -> Tensor:
    return tf("sign")(x) * tf("floor")(tf("abs")(x))  # type: ignore[no-any-return]


_INTERPOLATIONS: dict[str, Callable[..., Tensor]] = {"NEAREST": _nearest, "BILINEAR": _bilinear}
_FILL_MODES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "CONSTANT": lambda x, size: x,
    "NEAREST": _clamp,
    "REFLECT": _reflect,
    "WRAP": _wrap,
}
