"""Functions that change the size of images: resizing, cropping, padding, extraction of patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import float32, int64
from tvtf.images.resampling import as_constant, nearest, taps, weights
from tvtf.ops.cast import cast
from tvtf.ops.computed_arguments import computed
from tvtf.ops.concat_split import concat
from tvtf.ops.dims import at_least_zero, dim_min
from tvtf.ops.image import checked_image, crop_to_bounding_box, pad_to_bounding_box, resized_specs
from tvtf.ops.indexing import gather
from tvtf.ops.linalg import matmul
from tvtf.ops.operands import scalar_int
from tvtf.ops.pad import pad
from tvtf.ops.rules import attribute_bool, attribute_int, attribute_text, bind, static_dims, static_value


@export("image.ResizeMethod")
class ResizeMethod:
    """The methods of ``tf.image.resize``.

    >>> import tvtf as tf
    >>> tf.image.ResizeMethod.NEAREST_NEIGHBOR
    'nearest'

    Source: https://www.tensorflow.org/api_docs/python/tf/image/ResizeMethod
    """

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


LINEAR_AND_CUBIC = (ResizeMethod.BILINEAR, ResizeMethod.BICUBIC)
METHODS = tuple(value for name, value in vars(ResizeMethod).items() if name.isupper())


def in_batch(
    image: Any, function: Callable[[Tensor], Tensor], expected: str = "'image' (shape {}) must have"
) -> Tensor:
    """Applies ``function`` to a batch of images, or to one image as a batch of one.

    Raises:
      ValueError: the rank is neither 3 nor 4.
    """
    x = convert_to_tensor(image)
    if x.ndim == 4:
        return function(x)
    if x.ndim != 3:
        raise ValueError(f"{expected.format(x.shape)} either 3 or 4 dimensions.")
    return function(x[None])[0]


@export("image.resize")
def resize(
    images: Any,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resizes images.

    Args:
      images: shape (height, width, channels), or a batch of such.
      size: the new height and width.
      method: one of ``tf.image.ResizeMethod``.
      preserve_aspect_ratio: scales both sides by one factor, to the largest image that fits into ``size``.
      antialias: whether an image is smoothed before it is scaled down ("area" and "nearest" ignore it).

    Returns:
      float32; the dtype of ``images`` for "nearest".

    >>> import tvtf as tf
    >>> tf.image.resize(tf.constant([[[0.], [4.]]]), [1, 4]).numpy().ravel()
    array([0., 1., 3., 4.], dtype=float32)

    Raises:
      ValueError: the rank is neither 3 nor 4, ``size`` is not two positive ints, or ``method`` is unknown.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/resize
    """
    x = convert_to_tensor(images)
    if x.ndim not in (3, 4):
        raise ValueError("'images' must have either 3 or 4 dimensions.")
    target_size = _target_size(size)
    if method not in METHODS:
        raise ValueError(f"Resize method is not implemented: {method}")
    if preserve_aspect_ratio:
        target_size = fit_aspect_ratio(x._type.shape[-3:-1], target_size)
    return in_batch(x, lambda batch: _resize_batch(batch, target_size, method, antialias))


def _uses_antialiasing(method: str, antialias: Any) -> bool:
    """Returns whether a resize method uses antialiasing, given the user's choice ``antialias``, which may be None.

    The method "area" never does. Bilinear and bicubic do only on request, and all others by default.
    """
    if method == ResizeMethod.AREA or (method in LINEAR_AND_CUBIC and not antialias):
        return False
    return antialias is None or attribute_bool(antialias, "antialias")


def _target_size(size: Any) -> tuple[Dim, Dim]:
    """Converts the argument ``size`` to height and width, which must be positive."""
    try:
        dims = static_dims(size, "size")
    except (TypeError, ValueError):
        if not isinstance(size, (list, tuple, Tensor)):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        raise
    if len(dims) != 2:
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    height, width = dims
    if any(isinstance(dim, int) and dim <= 0 for dim in dims):
        raise ArgumentError("output dimensions must be positive")
    return height, width


def fit_aspect_ratio(shape: Sequence[Dim], size: tuple[Dim, Dim]) -> tuple[int, int]:
    """Returns the largest size that fits into ``size`` and has the aspect ratio of ``shape``.

    The computation is in float32, as in TensorFlow.
    """
    if not all(isinstance(dim, int) for dim in (*shape, *size)):
        message = "preserve_aspect_ratio needs an image of known height and width: give it one with set_shape"
        raise unknown_size(ValueError(message))
    height, width = (np.float32(dim) for dim in shape)
    largest_height, largest_width = (np.float32(dim) for dim in size)
    scale = min(largest_height / height, largest_width / width)
    return int(np.rint(scale * height)), int(np.rint(scale * width))


def _resize_batch(x: Tensor, size: tuple[Dim, Dim], method: str, antialias: Any) -> Tensor:
    """Resizes a batch of images: first the height, then the width, each by a product with a matrix of weights.

    For nearest neighbours, it gathers pixels instead.

    Args:
      x: images of shape (batch, height, width, channels).
      size: the new height and width.
      method: the resize method.
      antialias: the user's choice whether images are smoothed, or None.
    """
    if method == ResizeMethod.NEAREST_NEIGHBOR:
        for axis, to in zip((1, 2), size):
            x = gather(x, _nearest_indices(x, axis, to), axis=axis)
        return x
    antialias = _uses_antialiasing(method, antialias)
    batch, height, width, depth = x._type.shape
    new_height, new_width = size
    # The resized axis is the middle one of three.
    images = bind.reshape(cast(x, float32), shape=(batch, height, simplify_dim(width * depth)))
    images = _resize_middle_axis(images, new_height, method, antialias)
    rows = bind.reshape(images, shape=(simplify_dim(batch * new_height), width, depth))
    rows = _resize_middle_axis(rows, new_width, method, antialias)
    return bind.reshape(rows, shape=(batch, new_height, new_width, depth))  # type: ignore[no-any-return]


def _resize_middle_axis(x: Tensor, to: Dim, method: str, antialias: bool) -> Tensor:
    """Resizes the middle one of three axes: each new row is a weighted sum of old rows.

    If both sizes are known, the weights are constants, stored sparsely if there are few of them.

    Args:
      x: tensor of three axes.
      to: the new number of rows.
      method: the resize method.
      antialias: whether the image is smoothed before it is made smaller.
    """
    size = x._type.shape[1]
    if not (isinstance(size, int) and isinstance(to, int)):
        matrix = bind.resize_weights(_pixel_numbers(x, 1), to=to, method=method, antialias=antialias)
        return _weighted_rows(matrix, x)
    sparse_weights = taps(method, antialias, size, to)
    if sparse_weights is not None:
        return bind.blend(x, *sparse_weights)  # type: ignore[no-any-return]
    return _weighted_rows(as_constant(weights(method, antialias, size, to)), x)


def _weighted_rows(matrix: Tensor, x: Tensor) -> Tensor:
    batched_matrix = bind.broadcast_to(matrix, shape=(x._type.shape[0], *matrix._type.shape))
    return matmul(batched_matrix, x)


def _pixel_numbers(x: Tensor, axis: int) -> Tensor:
    return bind.range(size=x._type.shape[axis], start=0, delta=1, dtype=int64)  # type: ignore[no-any-return]


def _nearest_indices(x: Tensor, axis: int, to: Dim) -> Tensor:
    size = x._type.shape[axis]
    if isinstance(size, int) and isinstance(to, int):
        return as_constant(nearest(size, to))
    return bind.nearest_pixels(_pixel_numbers(x, axis), to=to)  # type: ignore[no-any-return]


def _float_specs(given: Mapping[str, Any]) -> list[TensorSpec]:
    (spec,) = resized_specs(given)
    return [spec if given["method"] == ResizeMethod.NEAREST_NEIGHBOR else TensorSpec(spec.shape, float32)]


@export("image.resize_with_pad")
@computed("target_height", "target_width", gives=_float_specs)
def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: str = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Tensor:
    """Resizes images with their aspect ratio, and pads them with zeros.

    >>> import tvtf as tf
    >>> tf.image.resize_with_pad(tf.ones([1, 2, 1]), 2, 2).numpy()[..., 0]
    array([[1., 1.],
           [0., 0.]], dtype=float32)

    Raises:
      ValueError: the rank is neither 3 nor 4, or a target size is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/resize_with_pad
    """

    def resize_and_pad(x: Tensor) -> Tensor:
        """Resizes a batch of images to fit into the target size, keeping the aspect ratio, and pads the result."""
        _check_positive(target_height, target_width)
        # The computation is in float32, as in TensorFlow.
        height, width = (np.float32(_static_dim(dim)) for dim in x._type.shape[1:3])
        ratio = max(width / np.float32(target_width), height / np.float32(target_height))
        exact_height = height / ratio
        exact_width = width / ratio
        padding_above = (np.float32(target_height) - exact_height) / 2
        padding_left = (np.float32(target_width) - exact_width) / 2
        top = max(0, int(np.floor(padding_above)))
        left = max(0, int(np.floor(padding_left)))
        resized_size = int(np.floor(exact_height)), int(np.floor(exact_width))
        resized = _resize_batch(x, resized_size, method, antialias)
        return pad_to_bounding_box(resized, top, left, target_height, target_width)

    return in_batch(image, resize_and_pad)


def _static_dim(dim: Dim) -> int:
    """Returns an image's height or width, which must be static."""
    if not isinstance(dim, int):
        raise unknown_size(
            ValueError("the image's height and width must be known: give it a shape with set_shape or tf.ensure_shape")
        )
    return dim


def _check_positive(target_height: int, target_width: int) -> None:
    if target_width <= 0:
        raise ValueError("target_width must be > 0.")
    if target_height <= 0:
        raise ValueError("target_height must be > 0.")


@export("image.resize_with_crop_or_pad")
@computed("target_height", "target_width", gives=resized_specs)
def resize_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Crops an image around its center, or pads it with zeros if it is too small.

    Args:
      image: tensor of shape (height, width, channels) or (batch, height, width, channels).
      target_height, target_width: positive integer scalars.

    >>> import tvtf as tf
    >>> tf.image.resize_with_crop_or_pad(tf.reshape(tf.range(9), [3, 3, 1]), 1, 5).numpy()[..., 0]
    array([[0, 3, 4, 5, 0]], dtype=int32)

    Raises:
      ValueError: the rank is neither 3 nor 4, or a target size is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/resize_with_crop_or_pad
    """
    height = scalar_int(target_height, "target_height")
    width = scalar_int(target_width, "target_width")

    def crop_or_pad(x: Tensor) -> Tensor:
        """Crops or pads a batch of images around their centre, to the target height and width."""
        checked_image(x)
        _check_positive(height, width)
        for axis, target in ((1, height), (2, width)):
            x = _crop_or_pad_axis(x, axis, target)
        return x

    return in_batch(image, crop_or_pad)


def _crop_or_pad_axis(x: Tensor, axis: int, target: int) -> Tensor:
    """Crops or pads one axis of a batch of images to ``target`` pixels, symmetrically about the center.

    Pads with zeros.
    """
    size = x._type.shape[axis]
    first = at_least_zero(simplify_dim((size - target) // 2))  # the first pixel that remains
    length = dim_min(size, target)
    before = at_least_zero(simplify_dim((target - size) // 2))
    after = simplify_dim(target - before - length)
    central_slice = (slice(None),) * axis + (slice(first, simplify_dim(first + length)),)
    paddings: list[Any] = [[0, 0]] * 4
    paddings[axis] = [before, after]
    padded = pad(x[central_slice], paddings)
    shape = padded._type.shape
    return bind.reshape(padded, shape=(*shape[:axis], target, *shape[axis + 1 :]))  # type: ignore[no-any-return]


@export("image.central_crop")
@computed("central_fraction", gives=resized_specs)
def central_crop(image: Any, central_fraction: float) -> Tensor:
    """Returns the central part of an image, or of each image of a batch.

    Args:
      image: shape (height, width, channels), or a batch of such.
      central_fraction: in (0, 1]: the fraction of each side that remains.

    >>> import tvtf as tf
    >>> tf.image.central_crop(tf.reshape(tf.range(16), [4, 4, 1]), 0.5).numpy()[..., 0]
    array([[ 5,  6],
           [ 9, 10]], dtype=int32)

    Raises:
      ValueError: ``central_fraction`` is not in (0, 1], or the rank is neither 3 nor 4.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/central_crop
    """
    x = convert_to_tensor(image)
    fraction = float(central_fraction)
    if not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    if fraction == 1.0:
        return x
    if x.ndim < 3:
        raise ValueError(f"'image' (shape {x.shape}) must be at least three-dimensional.")
    if x.ndim > 4:
        raise ValueError(f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {x.ndim}.")
    height, width = (_static_dim(dim) for dim in x._type.shape[-3:-1])
    top, left = int((height - height * fraction) / 2), int((width - width * fraction) / 2)
    return crop_to_bounding_box(x, top, left, height - 2 * top, width - 2 * left)


@export("image.extract_patches")
def extract_patches(
    images: Any,
    sizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Extracts patches of a batch of images, each as a vector in the last axis.

    Args:
      images: shape (batch, height, width, channels).
      sizes, strides, rates: four ints each, of which the first and the last are 1.
      padding: "VALID" or "SAME".

    >>> import tvtf as tf
    >>> tf.image.extract_patches(tf.reshape(tf.range(9), [1, 3, 3, 1]), [1, 2, 2, 1], [1, 1, 1, 1], [1] * 4, "VALID")[0, 0, 0]
    <tf.Tensor: shape=(4,), dtype=int32, numpy=array([0, 1, 3, 4], dtype=int32)>

    Raises:
      ValueError: ``padding`` is not supported; or ``sizes``, ``strides`` or ``rates`` is not of the form [1, a, b, 1].

    Source: https://www.tensorflow.org/api_docs/python/tf/image/extract_patches
    """
    x = convert_to_tensor(images)
    if x.ndim != 4:
        raise ArgumentError(f"Shape must be rank 4 but is rank {x.ndim}")
    _, *sizes, _ = _four_ints(sizes, "ksizes")
    _, *strides, _ = _four_ints(strides, "strides")
    _, *rates, _ = _four_ints(rates, "rates")
    padding = attribute_text(padding, "padding", ("SAME", "VALID"))
    spans = [(size - 1) * rate + 1 for size, rate in zip(sizes, rates)]
    if padding == "SAME":
        x = _pad_same(x, spans, strides)
    # For each axis, a slice for each position in a patch: the elements at this position of all patches.
    slices_by_axis = []
    for dim, span, size, stride, rate in zip(x._type.shape[1:3], spans, sizes, strides, rates):
        extent = (dim - span) // stride * stride + 1
        slices_by_axis.append([slice(i * rate, i * rate + extent, stride) for i in range(size)])
    rows, columns = slices_by_axis
    return concat([x[:, row, column] for row in rows for column in columns], 3)


def _four_ints(values: Any, name: str) -> list[int]:
    numbers = [attribute_int(value, name) for value in static_value(values, name)]
    if len(numbers) != 4 or numbers[0] != 1 or numbers[3] != 1:
        raise ValueError(f"{name} must be four ints, of which the first and the last are 1, but are {numbers}")
    return numbers


def _pad_same(x: Tensor, spans: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Pads images with zeros for patches with padding "SAME"; ``spans`` are the patches' sizes, with dilation."""
    padding = [[0, 0]]
    for size, span, stride in zip(x._type.shape[1:3], spans, strides):
        missing = max((ceil_div(_static_dim(size), stride) - 1) * stride + span - size, 0)
        padding.append([missing // 2, missing - missing // 2])
    return pad(x, [*padding, [0, 0]])
