"""Conversions between RGB and HSV colours, and changes of hue and saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, float16, float32
from tvtf.errors import FailedPreconditionError
from tvtf.ops.cast import cast, defaulted
from tvtf.ops.image import convert_image_dtype
from tvtf.ops.operands import operand
from tvtf.ops.rules import bind, full_like, number, require_dtype, zeros_like


def _channels(images: Any, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """Splits images into three channels. Raises FailedPreconditionError for another number of channels."""
    x = defaulted(images, (float32,), float32)
    require_dtype(x._type, FLOATING, "images")
    if not x.ndim:
        raise ArgumentError("input must be at least 1D[]").for_op(what)
    if x.shape[-1] not in (3, None):
        raise FailedPreconditionError(
            None, what, f"input must have 3 channels but input has {x.shape} dims [Op:{what}]"
        )
    return x[..., 0], x[..., 1], x[..., 2]


@export("image.rgb_to_hsv")
def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Converts red, green and blue to hue, saturation and value, all in [0, 1].

    >>> import tvtf as tf
    >>> tf.image.rgb_to_hsv([[[0.0, 1.0, 0.0]]]).numpy().round(3).tolist()
    [[[0.3330000042915344, 1.0, 1.0]]]

    Raises:
      FailedPreconditionError: other than 3 channels.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/rgb_to_hsv
    """
    red, green, blue = _channels(images, "RGBToHSV")
    value = bind.maximum(bind.maximum(red, green), blue)
    span = value - bind.minimum(bind.minimum(red, green), blue)
    zero, one = zeros_like(value), full_like(value, 1)
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
      FailedPreconditionError: other than 3 channels.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/hsv_to_rgb
    """
    hue, saturation, value = _channels(images, "HSVToRGB")
    zero, one = zeros_like(hue), full_like(hue, 1)

    def clipped(x: Tensor) -> Tensor:
        return bind.minimum(bind.maximum(x, zero), one)  # type: ignore[no-any-return]

    angle, two = hue * number(6, hue), number(2, hue)
    pure = (
        abs(angle - number(3, hue)) - one,
        two - abs(angle - two),
        two - abs(angle - number(4, hue)),
    )
    rest = (one - saturation) * value
    return bind.stack(*(clipped(p) * saturation * value + rest for p in pure), axis=hue.ndim)  # type: ignore[no-any-return]


def _in_floats(image: Any, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies ``change`` to the image in float32, and returns the result in the image's dtype."""
    x = convert_to_tensor(image)
    if x.ndim < 3:
        raise ArgumentError(f"input must be at least 3-D, got shape{show_shape(x._type.shape)}")
    if x.shape[-1] not in (3, None):
        raise ArgumentError(f"input must have 3 channels but instead has {x.shape[-1]} channels.")
    floats = x if x.dtype in (float16, float32) else convert_image_dtype(x, float32)
    return convert_image_dtype(cast(change(cast(floats, float32)), floats.dtype), x.dtype)


def _of_sector(sector: Tensor, most: Tensor, middle: Tensor, least: Tensor) -> Tensor:
    """Returns the colour in one of the six sectors of the hue circle whose channels have these values."""

    def channel(*by_sector: Tensor) -> Tensor:
        found = by_sector[-1]
        for number_, value in reversed(list(enumerate(by_sector[:-1]))):
            found = bind.select(bind.equal(sector, number(number_, sector)), value, found)
        return found

    red = channel(most, middle, least, least, middle, most)
    green = channel(middle, most, most, middle, least, least)
    blue = channel(least, least, middle, most, most, middle)
    return bind.stack(red, green, blue, axis=red.ndim)  # type: ignore[no-any-return]


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """Source: ``tensorflow/core/kernels/image/adjust_hue_op.cc``, whose largest and smallest channels stay as they are."""
    red, green, blue = x[..., 0], x[..., 1], x[..., 2]
    most = bind.maximum(bind.maximum(red, green), blue)
    least = bind.minimum(bind.minimum(red, green), blue)
    middle = bind.maximum(bind.minimum(red, green), bind.minimum(bind.maximum(red, green), blue))

    def sectors(numbers: tuple[int, int, int], low: Tensor, high: Tensor) -> Tensor:
        below, above, between = (number(n, x) for n in numbers)
        return bind.select(bind.less(blue, low), below, bind.select(bind.greater(blue, high), above, between))  # type: ignore[no-any-return]

    sector = bind.select(bind.less(red, green), sectors((1, 3, 2), red, green), sectors((0, 4, 5), green, red))
    span, zero, six = most - least, zeros_like(most), number(6, x)
    flat = bind.equal(span, zero)
    place = _mirrored(sector, (middle - least) / bind.select(flat, full_like(span, 1), span))
    hue = bind.select(flat, zero, sector + place) + turn * six
    hue = bind.select(bind.less(hue, zero), hue + six, hue)
    hue = bind.select(bind.greater_equal(hue, six), hue - six, hue)
    sector = bind.floor(hue)
    return _of_sector(sector, most, least + _mirrored(sector, hue - sector) * span, least)


def _mirrored(sector: Tensor, place: Tensor) -> Tensor:
    """Returns the position in a sector; in odd sectors the middle channel falls instead of rising."""
    odd = bind.equal(sector - number(2, sector) * bind.floor(sector / number(2, sector)), number(1, sector))
    return bind.select(odd, number(1, place) - place, place)  # type: ignore[no-any-return]


def _saturated(x: Tensor, factor: Tensor) -> Tensor:
    """Source: ``tensorflow/core/kernels/image/adjust_saturation_op.cc``."""
    parts = rgb_to_hsv(x)
    hue, scaled, value = parts[..., 0], parts[..., 1] * factor, parts[..., 2]
    span = bind.minimum(bind.maximum(scaled, zeros_like(scaled)), full_like(scaled, 1)) * value
    angle, one, two = hue * number(6, hue), number(1, hue), number(2, hue)
    place = span * (one - abs(angle - two * bind.floor(angle / two) - one))
    least = value - span
    return _of_sector(bind.floor(angle), span + least, place + least, least)


def _scalar(value: Any, what: str) -> Tensor:
    found = operand(value, float32, 1)
    if found.ndim:
        raise ArgumentValueError(f"{what} must be scalar: {show_shape(found._type.shape)}")
    return found


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
    turn = _scalar(delta, "delta")
    if isinstance(turn, EagerTensor) and not -1 <= float(turn) <= 1:
        raise ValueError("delta must be in the interval [-1, 1]")

    return _in_floats(image, lambda x: _turned(x, cast(turn, x.dtype)))


@export("image.adjust_saturation")
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiplies saturations by ``saturation_factor``, clipped to [0, 1].

    >>> import tvtf as tf
    >>> tf.image.adjust_saturation([[[1., 0.5, 0.5]]], 2.0).numpy().tolist()
    [[[1.0, 0.0, 0.0]]]

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_saturation
    """
    factor = _scalar(saturation_factor, "scale")

    return _in_floats(image, lambda x: _saturated(x, cast(factor, x.dtype)))
