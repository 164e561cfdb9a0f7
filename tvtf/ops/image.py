"""``tf.image``: conversion, colour, contrast, flips and crops, composed of other ops but for ``adjust_contrast``.

That one is a primitive because TensorFlow's has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, size_of
from tvtf.core.tensor import Tensor, constant, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import FLOATING, as_dtype, float16, float32
from tvtf.ops.aggregate import reduce_std
from tvtf.ops.array import transpose
from tvtf.ops.cast import cast, saturate_cast
from tvtf.ops.computed_arguments import computed
from tvtf.ops.dims import scalar_of
from tvtf.ops.linalg import tensordot
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import operand
from tvtf.ops.pad import pad, reverse, tile
from tvtf.ops.reduce import reduce_mean
from tvtf.ops.rules import bind, draw, kernel, number, require_dtype, static_int, stretch

RGB_TO_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
YIQ_TO_RGB = [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
RGB_TO_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
YUV_TO_RGB = [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]


@export("image.convert_image_dtype")
def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Converts an image to another dtype: integers span their range, floats [0, 1].

    Args:
      image: numeric tensor.
      dtype: floating or integer.
      saturate: whether what is out of range is clipped.

    >>> import tvtf as tf
    >>> tf.image.convert_image_dtype(tf.constant([0, 255], tf.uint8), tf.float32).numpy()
    array([0., 1.], dtype=float32)

    Raises:
      AttributeError: a dtype is neither floating nor integer.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/convert_image_dtype
    """
    x = convert_to_tensor(image)
    target = as_dtype(dtype)
    for kind, what in ((target, "dtype"), (x.dtype, "image dtype")):
        if not (kind.is_floating or kind.is_integer):
            raise AttributeError(f"{what} must be either floating point or integer")
    convert: Callable[..., Tensor] = saturate_cast if saturate else cast
    if x.dtype is target or (x.dtype.is_floating and target.is_floating):
        return cast(x, target)
    if x.dtype.is_floating:
        return convert(x * number(target.max + 0.5, x), target)
    if target.is_floating:
        wide = cast(x, target)
        return wide * number(1.0 / x.dtype.max, wide)
    if x.dtype.max > target.max:
        return convert(x // number((x.dtype.max + 1) // (target.max + 1), x), target)
    wide = convert(x, target)
    return wide * number((target.max + 1) // (x.dtype.max + 1), wide)


def _as_floats(image: Any, adjust: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies ``adjust`` to an image converted to floats and converts the result back to the image's dtype."""
    x = convert_to_tensor(image)
    floats = x if x.dtype in (float16, float32) else convert_image_dtype(x, float32)
    return convert_image_dtype(adjust(floats), x.dtype, saturate=True)


@export("image.adjust_brightness")
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Adds ``delta`` to every pixel; images of integers are converted to floats in [0, 1] and back.

    >>> import tvtf as tf
    >>> tf.image.adjust_brightness(tf.constant([[[0.25, 0.5]]]), 0.25).numpy()
    array([[[0.5 , 0.75]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_brightness
    """
    return _as_floats(image, lambda x: x + cast(convert_to_tensor(delta), x.dtype))


@export("image.adjust_gamma")
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Computes ``gain * image ** gamma``; images of integers are converted to floats in [0, 1] and back.

    >>> import tvtf as tf
    >>> tf.image.adjust_gamma(tf.constant([0.5, 1.]), 2.0).numpy()
    array([0.25, 1.  ], dtype=float32)

    Raises:
      ValueError: ``gamma`` is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_gamma
    """
    if isinstance(gamma, (int, float)) and not gamma >= 0:
        raise ValueError("Gamma should be a non-negative real number.")
    return _as_floats(image, lambda x: number(gain, x) * x ** number(gamma, x))


def _contrast_type(images: TensorType, factor: TensorType) -> TensorType:
    """Returns the type of the adjusted images, after checking the ranks and dtypes of images and contrast factor."""
    require_dtype(images, FLOATING, "images")
    if len(images.shape) < 3:
        raise ArgumentError(f"input must be at least 3-D, got shape[{','.join(map(str, images.shape))}]")
    if factor.shape:
        raise ArgumentError(f"contrast_factor must be scalar: [{','.join(map(str, factor.shape))}]")
    return images


def _contrast_numpy(images: np.ndarray, factor: np.ndarray) -> np.ndarray:
    widened = images.astype(np.float32) if images.dtype.itemsize < 4 else images
    mean = widened.mean(axis=(-3, -2), keepdims=True, dtype=widened.dtype)
    return ((widened - mean) * factor + mean).astype(images.dtype)


def _contrast_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
    """Maps ``adjust_contrast`` over a leading batch axis; a factor for each item scales the distances from the mean."""
    images = stretch(size, inputs[0], batched[0])
    factor = inputs[1]
    if not batched[1]:
        return bind.adjust_contrast(images, factor)
    mean = reduce_mean(images, [-3, -2], keepdims=True)  # over height and width
    distance = images - mean
    item_dims = (1,) * (images.ndim - 1)  # the factor broadcasts to the dims of its item
    return distance * bind.reshape(factor, shape=(size, *item_dims)) + mean


@primitive(
    name="adjust_contrast",
    tf_name="AdjustContrastv2",
    type=_contrast_type,
    numpy=_contrast_numpy,
    lower=kernel("image.adjust_contrast"),
    batch=_contrast_batch,
    onnx=lambda emitter, inputs, outputs, types: _contrast_nodes(emitter, inputs, outputs, types),
    samples=lambda: [
        Sample((draw(0, (2, 3, 2)), np.array(1.5, "float32")), {}, (float32,), gradient=False),
        Sample((draw(1, (2, 2, 3, 1)), np.array(-0.5, "float32")), {}, (float32,), gradient=False),
    ],
    why_not={"vjp": "TensorFlow has none either: tapes raise its LookupError"},
)
def contrast_of(images: Tensor, factor: Tensor) -> Any:
    """Scales each channel's distance from its mean by ``factor``."""
    return (images, factor), {}


def _contrast_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes that scale each channel's distances from its mean by the contrast factor."""
    mean = emitter.computed("ReduceMean", [inputs[0], emitter.const(np.array([-3, -2]))], keepdims=1)
    moved = emitter.computed("Sub", [inputs[0], mean])
    scaled = emitter.computed("Mul", [moved, inputs[1]])
    emitter.node("Add", [scaled, mean], outputs)


@export("image.adjust_contrast")
def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Multiplies each channel's distance from its mean over the image by a factor; the result has no gradient.

    Images of integers are converted to floats in [0, 1] and back.

    Args:
      images: numeric tensor of shape (..., height, width, channels).
      contrast_factor: scalar.

    >>> import tvtf as tf
    >>> tf.image.adjust_contrast(tf.constant([[[1.], [3.]]]), 2.).numpy().ravel()
    array([0., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_contrast
    """
    factor = operand(contrast_factor, float32, 1)

    def adjust(x: Tensor) -> Tensor:
        """Adjusts images of any floating dtype in float32."""
        adjusted = bind.adjust_contrast(cast(x, float32), cast(factor, float32))
        return cast(adjusted, x.dtype)  # type: ignore[no-any-return]

    return _as_floats(images, adjust)


# -- colours


def _by_matrix(images: Any, matrix: list[list[float]]) -> Tensor:
    x = convert_to_tensor(images)
    return tensordot(x, constant(matrix, x.dtype), [[x.ndim - 1], [0]])


@export("image.rgb_to_yiq")
def rgb_to_yiq(images: Any) -> Tensor:
    """Converts red, green and blue to luma and two chroma channels.

    >>> import tvtf as tf
    >>> tf.image.rgb_to_yiq(tf.constant([[[1., 0., 0.]]])).numpy().round(3).ravel().tolist()
    [0.29899999499320984, 0.5960000157356262, 0.21199999749660492]

    Source: https://www.tensorflow.org/api_docs/python/tf/image/rgb_to_yiq
    """
    return _by_matrix(images, RGB_TO_YIQ)


@export("image.yiq_to_rgb")
def yiq_to_rgb(images: Any) -> Tensor:
    """Converts luma and the two chroma channels of :func:`rgb_to_yiq` back to red, green and blue.

    >>> import tvtf as tf
    >>> tf.image.yiq_to_rgb(tf.constant([[[0.5, 0., 0.]]])).numpy().ravel()
    array([0.5, 0.5, 0.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/yiq_to_rgb
    """
    return _by_matrix(images, YIQ_TO_RGB)


@export("image.rgb_to_yuv")
def rgb_to_yuv(images: Any) -> Tensor:
    """Converts red, green and blue to luma and two colour differences.

    >>> import tvtf as tf
    >>> tf.image.rgb_to_yuv(tf.constant([[[0., 0., 0.]]])).numpy().ravel()
    array([0., 0., 0.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/rgb_to_yuv
    """
    return _by_matrix(images, RGB_TO_YUV)


@export("image.yuv_to_rgb")
def yuv_to_rgb(images: Any) -> Tensor:
    """Converts luma and the two colour differences of :func:`rgb_to_yuv` back to red, green and blue.

    >>> import tvtf as tf
    >>> tf.image.yuv_to_rgb(tf.constant([[[0.5, 0., 0.]]])).numpy().ravel()
    array([0.5, 0.5, 0.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/yuv_to_rgb
    """
    return _by_matrix(images, YUV_TO_RGB)


@export("image.rgb_to_grayscale")
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Converts red, green and blue to one channel, the luma of each pixel.

    >>> import tvtf as tf
    >>> tf.image.rgb_to_grayscale(tf.constant([[[255, 255, 255]]], tf.uint8)).shape
    TensorShape([1, 1, 1])

    Source: https://www.tensorflow.org/api_docs/python/tf/image/rgb_to_grayscale
    """
    return _as_floats(images, lambda x: _by_matrix(x, [[0.2989], [0.587], [0.114]]))


@export("image.grayscale_to_rgb")
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Converts a greyscale image to red, green and blue, by repeating its only channel three times.

    >>> import tvtf as tf
    >>> tf.image.grayscale_to_rgb(tf.constant([[[1.], [2.]]])).numpy()
    array([[[1., 1., 1.],
            [2., 2., 2.]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/grayscale_to_rgb
    """
    x = convert_to_tensor(images)
    if x.ndim < 2:
        raise ValueError(f"A grayscale image (shape {x.shape}) must be at least two-dimensional.")
    if x.shape[-1] not in (1, None):
        raise ValueError("Last dimension of a grayscale image should be size 1.")
    return tile(x, [*(1,) * (x.ndim - 1), 3])


@export("image.per_image_standardization")
def per_image_standardization(image: Any) -> Tensor:
    """Subtracts each image's mean and divides by its standard deviation, in float32.

    >>> import tvtf as tf
    >>> tf.image.per_image_standardization(tf.constant([[[1.], [3.]]])).numpy().ravel()
    array([-1.,  1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/per_image_standardization
    """
    x = cast(convert_to_tensor(image), float32)
    _require_image(x)
    axes = [-1, -2, -3]
    count = scalar_of(size_of(x._type.shape[-3:]))
    smallest = bind.rsqrt(bind.cast(count, dtype=float32))  # so that a uniform image isn't divided by 0
    deviation = bind.maximum(reduce_std(x, axes, keepdims=True), smallest)
    return (x - reduce_mean(x, axes, keepdims=True)) / deviation


def _require_image(x: Tensor) -> None:
    if x.ndim < 3:
        raise ValueError(f"'image' (shape {x.shape}) must be at least three-dimensional.")
    if 0 in x.shape[-3:].as_list():
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {x.shape}")


# -- flips and crops


def checked_image(image: Any) -> Tensor:
    """Converts an image, or a batch of images, to a tensor.

    Raises ValueError if the rank is not 3 or 4, or if height, width or channels are 0.
    """
    x = convert_to_tensor(image)
    if x.ndim not in (3, 4):
        raise ValueError(f"'image' (shape {x.shape}) must have either 3 or 4 dimensions.")
    if 0 in x.shape[-3:].as_list():  # height, width, channels
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {x.shape}")
    return x


@export("image.flip_left_right")
def flip_left_right(image: Any) -> Tensor:
    """Mirrors an image, or each of a batch, along its width.

    >>> import tvtf as tf
    >>> tf.image.flip_left_right(tf.constant([[[1], [2]]])).numpy().ravel()
    array([2, 1], dtype=int32)

    Raises:
      ValueError: the image has neither 3 nor 4 dimensions.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/flip_left_right
    """
    x = checked_image(image)
    return reverse(x, [x.ndim - 2])


@export("image.flip_up_down")
def flip_up_down(image: Any) -> Tensor:
    """Mirrors an image, or each of a batch, along its height.

    >>> import tvtf as tf
    >>> tf.image.flip_up_down(tf.constant([[[1]], [[2]]])).numpy().ravel()
    array([2, 1], dtype=int32)

    Raises:
      ValueError: the image has neither 3 nor 4 dimensions.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/flip_up_down
    """
    x = checked_image(image)
    return reverse(x, [x.ndim - 3])


@export("image.transpose")
def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Exchanges height and width of an image, or of each of a batch.

    >>> import tvtf as tf
    >>> tf.image.transpose(tf.zeros([2, 3, 1])).shape
    TensorShape([3, 2, 1])

    Source: https://www.tensorflow.org/api_docs/python/tf/image/transpose
    """
    x = checked_image(image)
    return transpose(x, [*range(x.ndim - 3), x.ndim - 2, x.ndim - 3, x.ndim - 1])


@export("image.rot90")
def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Rotates an image, or each of a batch, ``k`` quarter turns counter-clockwise.

    >>> import tvtf as tf
    >>> tf.image.rot90(tf.constant([[[1], [2]]])).numpy().ravel()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/rot90
    """
    rotations = (
        convert_to_tensor,  # none
        lambda x: flip_up_down(transpose_image(x)),
        lambda x: flip_left_right(flip_up_down(x)),
        lambda x: transpose_image(flip_up_down(x)),
    )
    rotate = rotations[static_int(k, "k") % 4]
    return rotate(checked_image(image))


SIZES = ("offset_height", "offset_width", "target_height", "target_width")


def resized_specs(arguments: Mapping[str, Any]) -> list[TensorSpec]:
    """Returns the spec of an image, or a batch of them, of unknown height and width."""
    x = convert_to_tensor(arguments["image"])
    return [TensorSpec([*x.shape[:-3], None, None, x.shape[-1]], x.dtype)]


@export("image.crop_to_bounding_box")
@computed(*SIZES, gives=resized_specs)
def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Crops an image, or each of a batch, to a rectangle of the target size that begins at the offset.

    Args:
      image: tensor of shape (height, width, channels) or (batch, height, width, channels).
      offset_height, offset_width: the row and the column at which the rectangle begins.
      target_height, target_width: the size of the rectangle.

    >>> import tvtf as tf
    >>> tf.image.crop_to_bounding_box(tf.reshape(tf.range(9), [3, 3, 1]), 1, 0, 2, 2).numpy().ravel()
    array([3, 4, 6, 7], dtype=int32)

    Raises:
      ValueError: the rectangle is not inside the image.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/crop_to_bounding_box
    """
    x = checked_image(image)
    height, width = x.shape[-3], x.shape[-2]
    _check("offset_height must be >= 0.", offset_height >= 0)
    _check("offset_width must be >= 0.", offset_width >= 0)
    _check("target_height must be > 0.", target_height > 0)
    _check("target_width must be > 0.", target_width > 0)
    _check("height must be >= target + offset.", height is None or height >= target_height + offset_height)
    _check("width must be >= target + offset.", width is None or width >= target_width + offset_width)
    rows = slice(offset_height, offset_height + target_height)
    return x[..., rows, offset_width : offset_width + target_width, :]


def _check(message: str, holds: bool) -> None:
    if not holds:
        raise ValueError(message)


@export("image.pad_to_bounding_box")
@computed(*SIZES, gives=resized_specs)
def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Pads an image, or each of a batch, with zeros to the target size. The image begins at the offset.

    >>> import tvtf as tf
    >>> tf.image.pad_to_bounding_box(tf.ones([1, 1, 1]), 0, 1, 1, 3).numpy().ravel()
    array([0., 1., 0.], dtype=float32)

    Raises:
      ValueError: the image does not fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/pad_to_bounding_box
    """
    x = checked_image(image)
    below = target_height - offset_height - x.shape[-3]
    right = target_width - offset_width - x.shape[-2]
    _check("offset_height must be >= 0", offset_height >= 0)
    _check("offset_width must be >= 0", offset_width >= 0)
    _check("width must be <= target - offset", right >= 0)
    _check("height must be <= target - offset", below >= 0)
    paddings = [[offset_height, below], [offset_width, right], [0, 0]]
    return pad(x, [[0, 0]] * (x.ndim - 3) + paddings)
