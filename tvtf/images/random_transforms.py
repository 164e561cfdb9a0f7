"""Random changes of images: stateful functions use an op's seed, stateless ones a pair of seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import same_shape, show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int32
from tvtf.errors import InvalidArgumentError
from tvtf.images.colours import adjust_hue, adjust_saturation
from tvtf.images.files import adjust_jpeg_quality
from tvtf.ops.cast import cast
from tvtf.ops.getitem import slice as slice_
from tvtf.ops.image import adjust_brightness, adjust_contrast, checked_image
from tvtf.ops.pad import reverse
from tvtf.ops.random import stateless_uniform
from tvtf.ops.rounding import round as round_
from tvtf.ops.rules import bind, number
from tvtf.ops.value_checks import required
from tvtf.rng.stateful import uniform

Draw = Callable[..., Tensor]


def _stateful(seed: Any) -> Draw:
    return partial(uniform, seed=seed)


def _stateless(seed: Any) -> Draw:
    return partial(stateless_uniform, seed=seed)


# -- flips


def _flip_randomly(image: Any, axis: int, draw: Draw) -> Tensor:
    """Mirrors an image, or each image of a batch, along an axis with probability 1/2.

    ``draw`` returns random numbers.
    """
    x = checked_image(image)
    if x.ndim == 3:
        random_number = draw([], minval=0, maxval=1.0)
        is_flipped = bind.less(random_number, EagerTensor(np.array(0.5, np.float32)))
        return bind.select(is_flipped, reverse(x, [axis]), x)  # type: ignore[no-any-return]
    count = x._type.shape[0]
    # Rounded to 0 or 1, as in TensorFlow.
    rounded = round_(draw([count], minval=0, maxval=1.0))
    zeros = rounded * 0.0
    is_flipped = bind.reshape(bind.greater(rounded, zeros), shape=(count, 1, 1, 1))
    return bind.select(is_flipped, reverse(x, [axis + 1]), x)  # type: ignore[no-any-return]


@export("image.random_flip_left_right")
def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirrors an image, or each of a batch, along its width with probability 1/2.

    >>> import tvtf as tf
    >>> tf.image.random_flip_left_right(tf.ones([2, 2, 1]), 1).shape
    TensorShape([2, 2, 1])

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_flip_left_right
    """
    return _flip_randomly(image, 1, _stateful(seed))


@export("image.random_flip_up_down")
def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Mirrors an image, or each of a batch, along its height with probability 1/2.

    >>> import tvtf as tf
    >>> tf.image.random_flip_up_down(tf.ones([2, 2, 1]), 1).shape
    TensorShape([2, 2, 1])

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_flip_up_down
    """
    return _flip_randomly(image, 0, _stateful(seed))


@export("image.stateless_random_flip_left_right")
def stateless_random_flip_left_right(image: Any, seed: Any) -> Tensor:
    """Mirrors an image, or each of a batch, along its width with probability 1/2, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_flip_left_right(tf.constant([[[1], [2]]]), (2, 3)).numpy().ravel()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_flip_left_right
    """
    return _flip_randomly(image, 1, _stateless(seed))


@export("image.stateless_random_flip_up_down")
def stateless_random_flip_up_down(image: Any, seed: Any) -> Tensor:
    """Mirrors an image, or each of a batch, along its height with probability 1/2, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_flip_up_down(tf.constant([[[1]], [[2]]]), (2, 3)).numpy().ravel()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_flip_up_down
    """
    return _flip_randomly(image, 0, _stateless(seed))


# -- crops


_CROP_MESSAGE = "Need value.shape >= size"


def _check_crop_size(size: np.ndarray, shape: np.ndarray) -> None:
    if (shape < size).any():
        raise InvalidArgumentError(None, None, f"{_CROP_MESSAGE}, got {shape} and {size}")


def _crop_randomly(value: Any, size: Any, draw: Draw) -> Tensor:
    """Crops a part of ``size`` from a random position of a tensor; ``draw`` returns random numbers.

    When the program runs, it checks that the tensor is large enough.
    """
    x = convert_to_tensor(value)
    crop_size = convert_to_tensor(size, int32)
    shape = bind.shape(x, dtype=int32)
    if crop_size.ndim != 1 or not same_shape(crop_size._type.shape, shape._type.shape):
        message = f"Incompatible shapes: {show_shape(shape._type.shape)} vs. {show_shape(crop_size._type.shape)}"
        raise ArgumentError(message, ValueError)
    crop_size = required(crop_size, _check_crop_size, bind.less_equal, _CROP_MESSAGE, shape)
    position_count = shape - crop_size + number(1, crop_size)
    random_numbers = draw([x.ndim], minval=0, maxval=crop_size.dtype.max, dtype=crop_size.dtype)
    begin = random_numbers % position_count
    return slice_(x, begin, crop_size)


@export("image.random_crop")
def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Returns a part of ``size`` from a random position in ``value``.

    >>> import tvtf as tf
    >>> tf.image.random_crop(tf.ones([4, 4, 3]), [2, 2, 3], seed=1).shape
    TensorShape([2, 2, 3])

    Raises:
      InvalidArgumentError: ``size`` is larger than ``value``.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_crop
    """
    return _crop_randomly(value, size, _stateful(seed))


@export("image.stateless_random_crop")
def stateless_random_crop(value: Any, size: Any, seed: Any, name: str | None = None) -> Tensor:
    """Returns a part of ``size`` from a random position in ``value``, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_crop(tf.reshape(tf.range(9), [3, 3, 1]), [1, 2, 1], (1, 2)).shape
    TensorShape([1, 2, 1])

    Raises:
      InvalidArgumentError: ``size`` is larger than ``value``.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_crop
    """
    return _crop_randomly(value, size, _stateless(seed))


# -- colours


def _change_brightness(image: Any, max_delta: float, draw: Draw) -> Tensor:
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, draw([], minval=-max_delta, maxval=max_delta))


@export("image.random_brightness")
def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Adds a random number in ``[-max_delta, max_delta)`` to an image.

    >>> import tvtf as tf
    >>> tf.image.random_brightness(tf.zeros([1, 1, 1]), 0.0).numpy().ravel()
    array([0.], dtype=float32)

    Raises:
      ValueError: ``max_delta`` is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_brightness
    """
    return _change_brightness(image, max_delta, _stateful(seed))


@export("image.stateless_random_brightness")
def stateless_random_brightness(image: Any, max_delta: float, seed: Any) -> Tensor:
    """Adds a random number in ``[-max_delta, max_delta)`` to an image, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_brightness(tf.zeros([1, 1, 1]), 0.2, (1, 2)).numpy().ravel()
    array([0.13762416], dtype=float32)

    Raises:
      ValueError: ``max_delta`` is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_brightness
    """
    return _change_brightness(image, max_delta, _stateless(seed))


def _draw_factor(lower: float, upper: float, draw: Draw) -> Tensor:
    """Draws a factor between two bounds, after checks of them."""
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return draw([], minval=lower, maxval=upper)


@export("image.random_contrast")
def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Multiplies an image's contrast by a random number in ``[lower, upper)``.

    >>> import tvtf as tf
    >>> tf.image.random_contrast(tf.ones([2, 2, 1]), 0.5, 2.0).numpy().ravel()
    array([1., 1., 1., 1.], dtype=float32)

    Raises:
      ValueError: ``lower`` is negative, or not less than ``upper``.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_contrast
    """
    return adjust_contrast(image, _draw_factor(lower, upper, _stateful(seed)))


@export("image.stateless_random_contrast")
def stateless_random_contrast(image: Any, lower: float, upper: float, seed: Any) -> Tensor:
    """Multiplies an image's contrast by a random number in ``[lower, upper)``, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_contrast(tf.ones([2, 2, 1]), 0.5, 2.0, (1, 2)).numpy().ravel()
    array([1., 1., 1., 1.], dtype=float32)

    Raises:
      ValueError: ``lower`` is negative, or not less than ``upper``.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_contrast
    """
    return adjust_contrast(image, _draw_factor(lower, upper, _stateless(seed)))


def _change_hue(image: Any, max_delta: float, draw: Draw) -> Tensor:
    """Rotates an image's hues by a random number that ``draw`` returns."""
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, draw([], minval=-max_delta, maxval=max_delta))


@export("image.random_hue")
def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Rotates an image's hues by a random number in ``[-max_delta, max_delta)``.

    >>> import tvtf as tf
    >>> tf.image.random_hue(tf.ones([1, 1, 3]), 0.2).numpy().ravel()
    array([1., 1., 1.], dtype=float32)

    Raises:
      ValueError: ``max_delta`` is outside of [0, 0.5].

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_hue
    """
    return _change_hue(image, max_delta, _stateful(seed))


@export("image.stateless_random_hue")
def stateless_random_hue(image: Any, max_delta: float, seed: Any) -> Tensor:
    """Rotates an image's hues by a random number in ``[-max_delta, max_delta)``, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_hue(tf.ones([1, 1, 3]), 0.2, (1, 2)).numpy().ravel()
    array([1., 1., 1.], dtype=float32)

    Raises:
      ValueError: ``max_delta`` is outside of [0, 0.5].

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_hue
    """
    return _change_hue(image, max_delta, _stateless(seed))


@export("image.random_saturation")
def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Multiplies an image's saturations by a random number in ``[lower, upper)``.

    >>> import tvtf as tf
    >>> tf.image.random_saturation(tf.ones([1, 1, 3]), 0.5, 2.0).numpy().ravel()
    array([1., 1., 1.], dtype=float32)

    Raises:
      ValueError: ``lower`` is negative, or not less than ``upper``.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_saturation
    """
    return adjust_saturation(image, _draw_factor(lower, upper, _stateful(seed)))


@export("image.stateless_random_saturation")
def stateless_random_saturation(image: Any, lower: float, upper: float, seed: Any = None) -> Tensor:
    """Multiplies an image's saturations by a random number in ``[lower, upper)``, by a pair of seeds.

    >>> import tvtf as tf
    >>> tf.image.stateless_random_saturation(tf.ones([1, 1, 3]), 0.5, 2.0, (1, 2)).numpy().ravel()
    array([1., 1., 1.], dtype=float32)

    Raises:
      ValueError: ``lower`` is negative, or not less than ``upper``.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_saturation
    """
    return adjust_saturation(image, _draw_factor(lower, upper, _stateless(seed)))


def _change_quality(image: Any, min_quality: int, max_quality: int, draw: Draw) -> Tensor:
    """Compresses an image as JPEG of a random quality that ``draw`` returns."""
    if min(min_quality, max_quality) < 0 or max(min_quality, max_quality) > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_quality >= max_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    return adjust_jpeg_quality(image, cast(draw([], minval=min_quality, maxval=max_quality, dtype=int32), int32))


@export("image.random_jpeg_quality")
def random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None) -> Tensor:
    """Applies JPEG compression of a random quality in an interval; needs Pillow (``pip install tvtf[image]``).

    >>> import tvtf as tf
    >>> tf.image.random_jpeg_quality(tf.zeros([8, 8, 3], tf.uint8), 75, 95).numpy().max()
    np.uint8(0)

    Raises:
      ValueError: the two qualities are outside of [0, 100], or the first is not less than the second.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/random_jpeg_quality
    """
    return _change_quality(image, min_jpeg_quality, max_jpeg_quality, _stateful(seed))


@export("image.stateless_random_jpeg_quality")
def stateless_random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any) -> Tensor:
    """Applies JPEG compression of a quality drawn by a pair of seeds; needs Pillow (``pip install tvtf[image]``).

    >>> import tvtf as tf
    >>> tf.image.stateless_random_jpeg_quality(tf.zeros([8, 8, 3], tf.uint8), 75, 95, (1, 2)).numpy().max()
    np.uint8(0)

    Raises:
      ValueError: the two qualities are outside of [0, 100], or the first is not less than the second.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_random_jpeg_quality
    """
    return _change_quality(image, min_jpeg_quality, max_jpeg_quality, _stateless(seed))
