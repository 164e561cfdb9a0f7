"""Projective transforms of images: rotation, shear, perspective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core.primitive import export, public_names
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
      InvalidArgumentError: another interpolation or fill mode.

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
    _check("interpolation", interpolation, _INTERPOLATIONS)
    _check("fill_mode", fill_mode, _OUTSIDE)
    images, transforms = convert_to_tensor(images), convert_to_tensor(transforms, float32)
    fill = tf("cast")(convert_to_tensor(fill_value), images.dtype)
    shape = tf("shape")(images)
    height, width = shape[1], shape[2]
    rows, columns, is_finite = _input_points(transforms, convert_to_tensor(output_shape, int32))
    at = _OUTSIDE[fill_mode]
    read = _reader(images, fill, height, width)
    found = _INTERPOLATIONS[interpolation](read, at(rows, height), at(columns, width), images.dtype)
    result = tf("where")(is_finite[..., None], found, fill)
    result.set_shape([images.shape[0], *result.shape[1:3], images.shape[3]])
    return result


def _check(what: str, given: str, known: Any) -> None:
    if given not in known:
        raise InvalidArgumentError(
            None, "ImageProjectiveTransformV3", f"Invalid {what} {given!r}: expected one of {', '.join(known)}."
        )


def tf(name: str) -> Callable[..., Any]:
    return public_names()[name]  # type: ignore[no-any-return]


def _input_points(transforms: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the input row and column of each output point, and whether they exist; shape (batch or 1, height, width)."""
    y, x = (tf("cast")(tf("range")(size[axis]), float32) for axis in (0, 1))
    x, y = x[None, None, :], y[None, :, None]
    a0, a1, a2, b0, b1, b2, c0, c1 = (part[:, None, None] for part in tf("unstack")(transforms, 8, axis=1))
    k = c0 * x + c1 * y + 1.0
    is_finite = tf("not_equal")(k, 0.0)
    k = tf("where")(is_finite, k, 1.0)
    return (b0 * x + b1 * y + b2) / k, (a0 * x + a1 * y + a2) / k, is_finite


def _reader(images: Tensor, fill: Tensor, height: Tensor, width: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns a function that reads values at integral rows and columns, passed as floats; outside it returns the fill value."""
    flat = tf("reshape")(images, tf("stack")([tf("shape")(images)[0], height * width, tf("shape")(images)[3]]))
    batch = tf("shape")(images)[0]

    def read(rows: Tensor, columns: Tensor) -> Tensor:
        """Gathers the pixels at these positions; positions outside the image get the fill value."""
        inside = tf("logical_and")(_is_below(rows, height), _is_below(columns, width))
        row, column = (tf("cast")(tf("where")(inside, p, 0.0), int32) for p in (rows, columns))
        place = row * width + column
        size = tf("shape")(place)
        places = tf("reshape")(place, tf("stack")([size[0], size[1] * size[2]]))
        places = tf("broadcast_to")(places, tf("stack")([batch, size[1] * size[2]]))
        found = tf("gather")(flat, places, axis=1, batch_dims=1)
        found = tf("reshape")(found, tf("stack")([batch, size[1], size[2], tf("shape")(images)[3]]))
        return tf("where")(inside[..., None], found, fill)

    return read


def _is_below(places: Tensor, size: Tensor) -> Tensor:
    return tf("logical_and")(places >= 0.0, places < _float(size))  # type: ignore[no-any-return]


def _float(size: Tensor) -> Tensor:
    return tf("cast")(size, float32)  # type: ignore[no-any-return]


def _nearest(read: Callable[..., Tensor], rows: Tensor, columns: Tensor, dtype: Any) -> Tensor:
    return read(_rounded(rows), _rounded(columns))


def _rounded(x: Tensor) -> Tensor:
    """Rounds halves away from zero, as C's ``round``."""
    whole = tf("floor")(tf("abs")(x))
    up = tf("cast")(tf("abs")(x) - whole >= 0.5, float32)
    return tf("sign")(x) * (whole + up)  # type: ignore[no-any-return]


def _bilinear(read: Callable[..., Tensor], rows: Tensor, columns: Tensor, dtype: Any) -> Tensor:
    """Interpolates linearly between the four nearest pixels."""
    top, left = tf("floor")(rows), tf("floor")(columns)
    down, right = (part[..., None] for part in (rows - top, columns - left))

    def across(row: Tensor) -> Tensor:
        first, second = (tf("cast")(read(row, column), float32) for column in (left, left + 1.0))
        return (1.0 - right) * first + right * second  # type: ignore[no-any-return]

    return tf("cast")((1.0 - down) * across(top) + down * across(top + 1.0), dtype)  # type: ignore[no-any-return]


def _clamped(x: Tensor, size: Tensor) -> Tensor:
    return tf("clip_by_value")(x, 0.0, _float(size) - 1.0)  # type: ignore[no-any-return]


def _reflected(x: Tensor, size: Tensor) -> Tensor:
    """Maps positions outside the image as in ``dcba|abcd|dcba``, by TensorFlow's formula."""
    length = _float(size)
    period = 2.0 * length
    below = tf("where")(x < period, period * _towards_zero(-x / period) + x, x)
    below = tf("where")(below < -length, below + period, -below - 1.0)
    above = x - period * _towards_zero(x / period)
    above = tf("where")(above >= length, period - above - 1.0, above)
    return _clamped(_outside(x, length, below, above), size)


def _wrapped(x: Tensor, size: Tensor) -> Tensor:
    """Maps positions outside the image as in ``abcd|abcd|abcd``; as in TensorFlow, the period is the size minus 1."""
    length = _float(size)
    period = tf("maximum")(length - 1.0, 1.0)
    below = x + length * (_towards_zero(-x / period) + 1.0)
    above = x - length * _towards_zero(x / period)
    return _clamped(_outside(x, length, below, above), size)


def _outside(x: Tensor, length: Tensor, below: Tensor, above: Tensor) -> Tensor:
    found = tf("where")(x < 0.0, below, tf("where")(x > length - 1.0, above, x))
    return tf("where")(tf("broadcast_to")(length <= 1.0, tf("shape")(x)), tf("zeros_like")(x), found)


def _towards_zero(x: Tensor) -> Tensor:
    return tf("sign")(x) * tf("floor")(tf("abs")(x))  # type: ignore[no-any-return]


_INTERPOLATIONS: dict[str, Callable[..., Tensor]] = {"NEAREST": _nearest, "BILINEAR": _bilinear}
_OUTSIDE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "CONSTANT": lambda x, size: x,
    "NEAREST": _clamped,
    "REFLECT": _reflected,
    "WRAP": _wrapped,
}
