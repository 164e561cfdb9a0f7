"""Measures of the difference between images, and between neighbouring pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.primitive import export
from tvtf.core.shape import agree_shape, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import float32
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.concat_split import concat
from tvtf.ops.conv_api import depthwise_conv2d
from tvtf.ops.image import convert_image_dtype
from tvtf.ops.math import squared_difference
from tvtf.ops.pad import pad
from tvtf.ops.pool_api import avg_pool2d
from tvtf.ops.reduce import reduce_mean, reduce_sum
from tvtf.ops.rules import bind, number, zeros_like

SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""The weights of the scales in Wang et al."""


@export("image.total_variation")
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Returns the sum of the differences of neighbouring pixels, for an image or each image of a batch.

    >>> import tvtf as tf
    >>> tf.image.total_variation(tf.constant([[[0.], [3.]], [[1.], [1.]]])).numpy()
    np.float32(6.0)

    Raises:
      ValueError: the rank of ``images`` is neither 3 nor 4.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/total_variation
    """
    x = convert_to_tensor(images)
    if x.ndim not in (3, 4):
        raise ValueError("'images' must be either 3 or 4-dimensional.")
    axes = None if x.ndim == 3 else [1, 2, 3]
    down = x[..., 1:, :, :] - x[..., :-1, :, :]
    right = x[..., :, 1:, :] - x[..., :, :-1, :]
    return reduce_sum(abs(down), axes) + reduce_sum(abs(right), axes)


@export("image.image_gradients")
def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Returns the differences to the next pixel below, and to the right; zeros at the ends.

    >>> import tvtf as tf
    >>> dy, dx = tf.image.image_gradients(tf.reshape(tf.range(4.), [1, 2, 2, 1]))
    >>> dy.numpy().ravel(), dx.numpy().ravel()
    (array([2., 2., 0., 0.], dtype=float32), array([1., 0., 1., 0.], dtype=float32))

    Raises:
      ValueError: the rank of ``image`` is not 4.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/image_gradients
    """
    x = convert_to_tensor(image)
    if x.ndim != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {x.shape}.")
    down = concat([x[:, 1:] - x[:, :-1], zeros_like(x[:, :1])], 1)
    return down, concat([x[:, :, 1:] - x[:, :, :-1], zeros_like(x[:, :, :1])], 2)


@export("image.sobel_edges")
def sobel_edges(image: Any) -> Tensor:
    """Applies Sobel's filters to each channel.

    Returns shape (batch, height, width, channels, 2), vertical and horizontal.

    >>> import tvtf as tf
    >>> tf.image.sobel_edges(tf.reshape(tf.range(9.), [1, 3, 3, 1]))[0, 1, 1, 0].numpy()
    array([24.,  8.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/sobel_edges
    """
    x = convert_to_tensor(image)
    vertical = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], x.dtype.np)
    filters = EagerTensor(np.stack([vertical, vertical.T], axis=-1)[:, :, None])
    shape = x._type.shape
    channel_filters = bind.broadcast_to(filters, shape=(3, 3, shape[-1], 2))
    edges = depthwise_conv2d(
        pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"), channel_filters, [1, 1, 1, 1], "VALID"
    )
    return bind.reshape(edges, shape=(*shape, 2))  # type: ignore[no-any-return]


def _comparable_images(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Converts two batches of images to tensors, and checks that their shapes match or broadcast.

    Raises ValueError if they don't.
    """
    x = convert_to_tensor(a)
    y = convert_to_tensor(b)
    x.shape.with_rank_at_least(3)
    y.shape.with_rank_at_least(3)
    x.shape[-3:].assert_is_compatible_with(y.shape[-3:])
    if not agree_shape(x._type.shape[-3:], y._type.shape[-3:]):  # sizes that only a call shows
        raise incompatible_shapes(ValueError(f"Shapes {x.shape[-3:]} and {y.shape[-3:]} are incompatible"))
    x_batch, y_batch = x._type.shape[:-3], y._type.shape[:-3]
    for x_dim, y_dim in zip(reversed(x_batch), reversed(y_batch)):  # broadcasting aligns the last axes
        both_static = isinstance(x_dim, int) and isinstance(y_dim, int)
        if both_static and x_dim != y_dim and 1 not in (x_dim, y_dim):
            raise ValueError(f"Two images are not compatible: {x.shape} and {y.shape}")
    return x, y


def _as_float_images(x: Tensor, y: Tensor, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    largest = convert_image_dtype(cast(convert_to_tensor(max_val), x.dtype), float32)
    return convert_image_dtype(x, float32), convert_image_dtype(y, float32), largest


@export("image.psnr")
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Returns the peak signal-to-noise ratio of two images, or of each pair of two batches, in decibels.

    Args:
      a, b: shapes (..., height, width, channels).
      max_val: the difference between the largest and the least value that there can be.

    >>> import tvtf as tf
    >>> tf.image.psnr(tf.zeros([2, 2, 1]), tf.fill([2, 2, 1], 0.1), 1.0).numpy().round(3)
    np.float32(20.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/psnr
    """
    x, y, largest = _as_float_images(convert_to_tensor(a), convert_to_tensor(b), max_val)
    error = reduce_mean(squared_difference(x, y), [-3, -2, -1])
    _comparable_images(x, y)
    # 10 * log10(largest**2 / error), by natural logarithms
    signal_in_decibels = number(20 / np.log(10), largest) * bind.log(largest)
    noise_in_decibels = number(10 / np.log(10), error) * bind.log(error)
    return signal_in_decibels - noise_in_decibels


def _gaussian(size: int, sigma: float) -> np.ndarray:
    """Returns a normalized Gaussian window of (size, size) weights."""
    offsets = np.arange(size, dtype=np.float32) - np.float32((size - 1) / 2)
    weights = np.exp(-0.5 / np.float32(sigma) ** 2 * offsets**2)
    window = np.outer(weights, weights)
    return (window / window.sum()).astype(np.float32)


def _luminance_and_structure(
    x: Tensor, y: Tensor, max_val: Tensor, size: int, sigma: float, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """Returns the two factors of structural similarity for each pixel and channel: luminance, and contrast-structure.

    Both compare weighted means over windows; ``c1`` and ``c2`` stabilize the quotients (Wang et al., 2004).

    Args:
      x, y: the images to compare.
      max_val: the difference between the largest and the smallest possible value.
      size, sigma: the size and standard deviation of the Gaussian window.
      k1, k2: ``c1`` and ``c2`` are ``(k1 * max_val) ** 2`` and ``(k2 * max_val) ** 2``.
    """
    for image in (x, y):
        if any(isinstance(dim, int) and dim < size for dim in image._type.shape[-3:-1]):
            message = f"the images of shape {image.shape} are smaller than the filter, {size}"
            raise InvalidArgumentError(None, None, message)
    depth = x._type.shape[-1]
    window = bind.broadcast_to(EagerTensor(_gaussian(size, sigma)[:, :, None, None]), shape=(size, size, depth, 1))

    def local_mean(image: Tensor) -> Tensor:
        shape = image._type.shape
        flat = bind.reshape(image, shape=(size_of(shape[:-3]), *shape[-3:]))
        means = depthwise_conv2d(flat, window, [1, 1, 1, 1], "VALID")
        return bind.reshape(means, shape=(*shape[:-3], *means._type.shape[1:]))  # type: ignore[no-any-return]

    c1 = bind.square(number(k1, max_val) * max_val)
    c2 = bind.square(number(k2, max_val) * max_val)
    mean_x, mean_y = local_mean(x), local_mean(y)
    product = mean_x * mean_y * 2.0
    squares = bind.square(mean_x) + bind.square(mean_y)
    luminance = (product + c1) / (squares + c1)
    product_sum = local_mean(x * y) * 2.0
    squares_sum = local_mean(bind.square(x) + bind.square(y))
    return luminance, (product_sum - product + c2) / (squares_sum - squares + c2)


@export("image.ssim")
def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Returns the structural similarity of two images, or of each pair of two batches.

    Args:
      img1, img2: shapes (..., height, width, channels).
      max_val: the difference between the largest and the least value that there can be.
      filter_size, filter_sigma: of the Gaussian window.
      k1, k2: as in the paper.
      return_index_map: returns the similarity around each pixel, not its mean.

    >>> import tvtf as tf
    >>> tf.image.ssim(tf.ones([11, 11, 1]), tf.ones([11, 11, 1]), 1.0).numpy().round(3)
    np.float32(1.0)

    Raises:
      InvalidArgumentError: the images are smaller than the window.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/ssim
    """
    x, y, largest = _as_float_images(*_comparable_images(img1, img2), max_val)
    luminance, structure = _luminance_and_structure(x, y, largest, filter_size, filter_sigma, k1, k2)
    similarity = luminance * structure
    return reduce_mean(similarity if return_index_map else reduce_mean(similarity, [-3, -2]), [-1])


@export("image.ssim_multiscale")
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = SCALES,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Returns the structural similarity of images at several scales, each half of the one before.

    Args:
      img1, img2: shapes (..., height, width, channels).
      max_val: the difference between the largest and the least value that there can be.
      power_factors: the exponent of each scale.
      filter_size, filter_sigma, k1, k2: as for ``tf.image.ssim``.

    >>> import tvtf as tf
    >>> tf.image.ssim_multiscale(tf.ones([22, 22, 1]), tf.ones([22, 22, 1]), 1.0, (0.5, 0.5)).numpy().round(3)
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/ssim_multiscale
    """
    x, y, largest = _as_float_images(*_comparable_images(img1, img2), max_val)
    scores = []
    for scale in range(len(power_factors)):
        if scale:
            x, y = _downsample(x), _downsample(y)
        luminance, structure = _luminance_and_structure(x, y, largest, filter_size, filter_sigma, k1, k2)
        last = scale == len(power_factors) - 1
        scores.append(bind.relu(reduce_mean(luminance * structure if last else structure, [-3, -2])))
    powers = [score ** number(factor, score) for score, factor in zip(scores, power_factors)]
    product = powers[0]
    for power in powers[1:]:
        product = product * power
    return reduce_mean(product, [-1])


def _downsample(image: Tensor) -> Tensor:
    """Halves the sides of images by means of 2x2 pixels.

    Odd sides are first extended by mirroring, as in TensorFlow.
    """
    *batch_shape, height, width, channels = image._type.shape
    images = bind.reshape(image, shape=(size_of(batch_shape), height, width, channels))
    extra_rows = height % 2 if isinstance(height, int) else 0
    extra_columns = width % 2 if isinstance(width, int) else 0
    if extra_rows or extra_columns:
        images = pad(images, [[0, 0], [0, extra_rows], [0, extra_columns], [0, 0]], "SYMMETRIC")
    means = avg_pool2d(images, 2, 2, "VALID")
    return bind.reshape(means, shape=(*batch_shape, *means._type.shape[1:]))  # type: ignore[no-any-return]
