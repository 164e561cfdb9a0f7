"""Conversions between RGB and HSV colours, and changes of hue and saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core.argument_error import ArgumentError, ArgumentValueError, incompatible_shapes
from tvtf.core.primitive import export
from tvtf.core.shape import agree_dim, show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, float16, float32
from tvtf.errors import FailedPreconditionError
from tvtf.ops.cast import cast, defaulted
from tvtf.ops.image import convert_image_dtype
from tvtf.ops.operands import operand
from tvtf.ops.rules import bind, full_like, number, require_dtype, zeros_like


def _split_channels(images: Any, op: str) -> tuple[Tensor, Tensor, Tensor]:
    """Converts RGB or HSV images to a tensor, and splits the tensor into its three channels.

    Raises FailedPreconditionError for another number of channels. ``op`` names the op in errors.
    """
    x = defaulted(images, (float32,), float32, FLOATING)
    require_dtype(x._type, FLOATING, "images")
    if not x.ndim:
        raise ArgumentError("input must be at least 1D[]").for_op(op)
    if x.shape[-1] not in (3, None):
        raise FailedPreconditionError(None, op, f"input must have 3 channels but input has {x.shape} dims [Op:{op}]")
    if not agree_dim(x._type.shape[-1], 3):  # a size that only a call shows
        raise incompatible_shapes(ValueError(f"{op}: input must have 3 channels but input has {x.shape} dims"))
    return x[..., 0], x[..., 1], x[..., 2]


@export("image.rgb_to_hsv")
def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Converts red, green and blue to hue, saturation and value, all in [0, 1].

    >>> import tvtf as tf
    >>> tf.image.rgb_to_hsv([[[0.0, 1.0, 0.0]]]).numpy().round(3).tolist()
    [[[0.3330000042915344, 1.0, 1.0]]]

    Raises:
      FailedPreconditionError: the last axis has not 3 channels.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/rgb_to_hsv
    """
    red, green, blue = _split_channels(images, "RGBToHSV")
    value = bind.maximum(bind.maximum(red, green), blue)
    span = value - bind.minimum(bind.minimum(red, green), blue)
    zero = zeros_like(value)
    one = full_like(value, 1)
    saturation = bind.select(bind.greater(value, zero), span / bind.select(bind.greater(value, zero), value, one), zero)
    sixth = one / (bind.select(bind.greater(span, zero), span, one) * number(6, span))
    turned = bind.select(
        bind.equal(red, value),
        sixth * (green - blue),
        bind.select(
            bind.equal(green, value),
            sixth * (blue - red) + number(2 / 6, red),
            sixth * (red - green) + number(4 / 6, red),
        ),
    )
    hue = bind.select(bind.greater(span, zero), turned, zero)
    hue = bind.select(bind.less(hue, zero), hue + one, hue)
    return bind.stack(hue, saturation, value, axis=value.ndim)  # type: ignore[no-any-return]


@export("image.hsv_to_rgb")
def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Converts hue, saturation and value to red, green and blue.

    >>> import tvtf as tf
    >>> tf.image.hsv_to_rgb([[[0.5, 1.0, 1.0]]]).numpy().tolist()
    [[[0.0, 1.0, 1.0]]]

    Raises:
      FailedPreconditionError: the last axis has not 3 channels.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/hsv_to_rgb
    """
    hue, saturation, value = _split_channels(images, "HSVToRGB")
    zero = zeros_like(hue)
    one = full_like(hue, 1)

    def clipped(x: Tensor) -> Tensor:
        return bind.minimum(bind.maximum(x, zero), one)  # type: ignore[no-any-return]

    angle = hue * number(6, hue)
    two = number(2, hue)
    pure = (
        abs(angle - number(3, hue)) - one,
        two - abs(angle - two),
        two - abs(angle - number(4, hue)),
    )
    rest = (one - saturation) * value
    return bind.stack(*(clipped(channel) * saturation * value + rest for channel in pure), axis=hue.ndim)  # type: ignore[no-any-return]


def _apply_in_float32(image: Any, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies ``change`` to an RGB image converted to float32, and converts the result back to the image's dtype."""
    x = convert_to_tensor(image)
    if x.ndim < 3:
        raise ArgumentError(f"input must be at least 3-D, got shape{show_shape(x._type.shape)}")
    channels = x.shape[-1]
    if channels not in (3, None):
        raise ArgumentError(f"input must have 3 channels but instead has {channels} channels.")
    floats = x if x.dtype in (float16, float32) else convert_image_dtype(x, float32)
    changed = change(cast(floats, float32))
    return convert_image_dtype(cast(changed, floats.dtype), x.dtype)


def _colour_in_sector(sector: Tensor, maximum: Tensor, middle: Tensor, minimum: Tensor) -> Tensor:
    """Composes RGB colours from the maximum, middle and minimum of their channels, for the conversion of HSV to RGB.

    ``sector`` is the index, 0 to 5, of a 60-degree sector of the hue circle. The sector determines which channel has
    which value. For example, in sector 0 red has the maximum and blue the minimum.
    """

    def channel(*value_by_sector: Tensor) -> Tensor:
        """Selects one channel's value by the sector."""
        *others, selected = value_by_sector  # the last value, unless the sector is one of the others
        for sector_number in reversed(range(len(others))):
            is_sector = bind.equal(sector, number(sector_number, sector))
            selected = bind.select(is_sector, others[sector_number], selected)
        return selected

    red = channel(maximum, middle, minimum, minimum, middle, maximum)
    green = channel(middle, maximum, maximum, middle, minimum, minimum)
    blue = channel(minimum, minimum, middle, maximum, maximum, middle)
    return bind.stack(red, green, blue, axis=red.ndim)  # type: ignore[no-any-return]


def _rotate_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Rotates the hue of RGB images by ``turn``, a fraction of the full circle.

    Saturation and brightness stay the same.

    Source: ``tensorflow/core/kernels/image/adjust_hue_op.cc``
    """
    red, green, blue = x[..., 0], x[..., 1], x[..., 2]
    maximum = bind.maximum(bind.maximum(red, green), blue)
    minimum = bind.minimum(bind.minimum(red, green), blue)
    middle = bind.maximum(bind.minimum(red, green), bind.minimum(bind.maximum(red, green), blue))

    def sectors(numbers: tuple[int, int, int], low_value: Tensor, high_value: Tensor) -> Tensor:
        below, above, between = (number(sector_number, x) for sector_number in numbers)
        return bind.select(
            bind.less(blue, low_value), below, bind.select(bind.greater(blue, high_value), above, between)
        )  # type: ignore[no-any-return]

    sector = bind.select(bind.less(red, green), sectors((1, 3, 2), red, green), sectors((0, 4, 5), green, red))
    span = maximum - minimum
    zero = zeros_like(maximum)
    six = number(6, x)
    is_grey = bind.equal(span, zero)
    position = _mirror_in_odd_sectors(sector, (middle - minimum) / bind.select(is_grey, full_like(span, 1), span))
    hue = bind.select(is_grey, zero, sector + position) + turn * six
    hue = bind.select(bind.less(hue, zero), hue + six, hue)
    hue = bind.select(bind.greater_equal(hue, six), hue - six, hue)
    sector = bind.floor(hue)
    return _colour_in_sector(sector, maximum, minimum + _mirror_in_odd_sectors(sector, hue - sector) * span, minimum)


def _mirror_in_odd_sectors(sector: Tensor, position: Tensor) -> Tensor:
    """Converts between the position of a hue in its sector and the middle channel's share of the span of values.

    Both are equal in even sectors; in odd sectors the middle channel falls instead of rising, so that they add up to 1.
    """
    is_odd = bind.equal(sector - number(2, sector) * bind.floor(sector / number(2, sector)), number(1, sector))
    return bind.select(is_odd, number(1, position) - position, position)  # type: ignore[no-any-return]


def _scale_saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Multiplies the saturation of RGB images by a factor, clipped to [0, 1], and keeps hue and value.

    Source: ``tensorflow/core/kernels/image/adjust_saturation_op.cc``
    """
    hsv = rgb_to_hsv(x)
    hue, saturation, value = hsv[..., 0], hsv[..., 1], hsv[..., 2]
    scaled = saturation * factor
    clipped = bind.minimum(bind.maximum(scaled, zeros_like(scaled)), full_like(scaled, 1))
    span = clipped * value  # the difference of the largest and the smallest channel
    sector = hue * number(6, hue)
    one, two = number(1, hue), number(2, hue)
    distance = abs(sector - two * bind.floor(sector / two) - one)
    middle_share = span * (one - distance)
    minimum = value - span
    return _colour_in_sector(bind.floor(sector), span + minimum, middle_share + minimum, minimum)


def _scalar_argument(value: Any, name: str) -> Tensor:
    scalar = operand(value, float32, 1)
    if scalar.ndim:
        raise ArgumentValueError(f"{name} must be scalar: {show_shape(scalar._type.shape)}")
    return scalar


@export("image.adjust_hue")
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Rotates hues by ``delta``, a fraction of the circle in [-1, 1].

    >>> import tvtf as tf
    >>> tf.image.adjust_hue([[[1., 0., 0.]]], 0.5).numpy().tolist()
    [[[0.0, 1.0, 1.0]]]

    Raises:
      ValueError: ``delta`` is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_hue
    """
    turn = _scalar_argument(delta, "delta")
    if isinstance(turn, EagerTensor) and not -1 <= float(turn) <= 1:
        raise ValueError("delta must be in the interval [-1, 1]")

    return _apply_in_float32(image, lambda x: _rotate_hue(x, cast(turn, x.dtype)))


@export("image.adjust_saturation")
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiplies saturations by ``saturation_factor``, clipped to [0, 1].

    >>> import tvtf as tf
    >>> tf.image.adjust_saturation([[[1., 0.5, 0.5]]], 2.0).numpy().tolist()
    [[[1.0, 0.0, 0.0]]]

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_saturation
    """
    factor = _scalar_argument(saturation_factor, "scale")

    return _apply_in_float32(image, lambda x: _scale_saturation(x, cast(factor, x.dtype)))
