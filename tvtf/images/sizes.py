"""Functions that change the size of images: resizing, cropping, padding, extraction of patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
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


UNLESS_SMOOTHED = (ResizeMethod.BILINEAR, ResizeMethod.BICUBIC)
METHODS = tuple(value for name, value in vars(ResizeMethod).items() if name.isupper())


def in_batch(image: Any, work: Callable[[Tensor], Tensor], expected: str = "'image' (shape {}) must have") -> Tensor:
    """Applies ``work`` to a batch of images, or to one image as a batch of one.

    Raises:
      ValueError: neither 3 nor 4 dims.
    """
    x = convert_to_tensor(image)
    if x.ndim == 4:
        return work(x)
    if x.ndim != 3:
        raise ValueError(f"{expected.format(x.shape)} either 3 or 4 dimensions.")
    return work(x[None])[0]


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
      ValueError: neither 3 nor 4 dims, another size than two ints, or an unknown method.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/resize
    """
    x = convert_to_tensor(images)
    if x.ndim not in (3, 4):
        raise ValueError("'images' must have either 3 or 4 dimensions.")
    wanted = _size(size)
    if method not in METHODS:
        raise ValueError(f"Resize method is not implemented: {method}")
    if preserve_aspect_ratio:
        wanted = _in_proportion(x._type.shape[-3:-1], wanted)
    return in_batch(x, lambda batch: _resized(batch, wanted, method, antialias))


def _smoothed(method: str, antialias: Any) -> bool:
    """Returns whether an image is smoothed; without smoothing, TensorFlow uses other ops for two methods."""
    if method == ResizeMethod.AREA or (method in UNLESS_SMOOTHED and not antialias):
        return False
    return antialias is None or attribute_bool(antialias, "antialias")


def _size(size: Any) -> tuple[Dim, Dim]:
    """Returns height and width. Raises an error for another form, or a size that is not positive."""
    try:
        found = static_dims(size, "size")
    except (TypeError, ValueError):
        found = ()
        if not isinstance(size, (list, tuple, Tensor)):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        raise
    if len(found) != 2:
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    if any(isinstance(d, int) and d <= 0 for d in found):
        raise ArgumentError("output dimensions must be positive")
    return found[0], found[1]


def _in_proportion(shape: Sequence[Dim], size: tuple[Dim, Dim]) -> tuple[int, int]:
    """Returns the largest size with the image's aspect ratio that fits into ``size``, in TensorFlow's float32."""
    if not all(isinstance(d, int) for d in (*shape, *size)):
        raise unknown_size(
            ValueError("preserve_aspect_ratio needs an image of known height and width: give it one with set_shape")
        )
    height, width = (np.float32(d) for d in shape)
    scale = min(np.float32(size[0]) / height, np.float32(size[1]) / width)
    return int(np.rint(scale * height)), int(np.rint(scale * width))


def _resized(x: Tensor, size: tuple[Dim, Dim], method: str, antialias: Any) -> Tensor:
    """Resizes along both axes: by a gather for nearest neighbours, else by a matrix product for each axis."""
    if method == ResizeMethod.NEAREST_NEIGHBOR:
        for axis, to in zip((1, 2), size):
            x = gather(x, _nearest(x, axis, to), axis=axis)
        return x
    antialias = _smoothed(method, antialias)
    batch, height, width, depth = x._type.shape
    flat = bind.reshape(cast(x, float32), shape=(batch, height, simplify_dim(width * depth)))
    tall = _along(flat, size[0], method, antialias)
    rows = bind.reshape(tall, shape=(simplify_dim(batch * size[0]), width, depth))
    return bind.reshape(_along(rows, size[1], method, antialias), shape=(batch, *size, depth))  # type: ignore[no-any-return]


def _along(x: Tensor, to: Dim, method: str, antialias: bool) -> Tensor:
    """Resizes the middle one of three axes."""
    size = x._type.shape[1]
    if not (isinstance(size, int) and isinstance(to, int)):
        return _product(bind.resize_weights(_pixels(x, 1), to=to, method=method, antialias=antialias), x)
    few = taps(method, antialias, size, to)
    if few is None:
        return _product(as_constant(weights(method, antialias, size, to)), x)
    return bind.blend(x, *few)  # type: ignore[no-any-return]


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    wide = bind.broadcast_to(matrix, shape=(x._type.shape[0], *matrix._type.shape))
    return matmul(wide, x)


def _pixels(x: Tensor, axis: int) -> Tensor:
    return bind.range(size=x._type.shape[axis], start=0, delta=1, dtype=int64)  # type: ignore[no-any-return]


def _nearest(x: Tensor, axis: int, to: Dim) -> Tensor:
    size = x._type.shape[axis]
    if isinstance(size, int) and isinstance(to, int):
        return as_constant(nearest(size, to))
    return bind.nearest_pixels(_pixels(x, axis), to=to)  # type: ignore[no-any-return]


def _float_specs(given: Mapping[str, Any]) -> list[TensorSpec]:
    (found,) = resized_specs(given)
    return [found if given["method"] == ResizeMethod.NEAREST_NEIGHBOR else TensorSpec(found.shape, float32)]


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
      ValueError: neither 3 nor 4 dims, or a size that is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/resize_with_pad
    """

    def work(x: Tensor) -> Tensor:
        _positive(target_height, target_width)
        height, width = (np.float32(_known(d)) for d in x._type.shape[1:3])
        ratio = max(width / np.float32(target_width), height / np.float32(target_height))
        tall, wide = height / ratio, width / ratio
        top = max(0, int(np.floor((np.float32(target_height) - tall) / 2)))
        left = max(0, int(np.floor((np.float32(target_width) - wide) / 2)))
        resized = _resized(x, (int(np.floor(tall)), int(np.floor(wide))), method, antialias)
        return pad_to_bounding_box(resized, top, left, target_height, target_width)

    return in_batch(image, work)


def _known(dim: Dim) -> int:
    if not isinstance(dim, int):
        raise unknown_size(
            ValueError("the image's height and width must be known: give it a shape with set_shape or tf.ensure_shape")
        )
    return dim


def _positive(target_height: int, target_width: int) -> None:
    if target_width <= 0:
        raise ValueError("target_width must be > 0.")
    if target_height <= 0:
        raise ValueError("target_height must be > 0.")


@export("image.resize_with_crop_or_pad")
@computed("target_height", "target_width", gives=resized_specs)
def resize_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Crops an image around its center, or pads it with zeros if it is too small.

    >>> import tvtf as tf
    >>> tf.image.resize_with_crop_or_pad(tf.reshape(tf.range(9), [3, 3, 1]), 1, 5).numpy()[..., 0]
    array([[0, 3, 4, 5, 0]], dtype=int32)

    Raises:
      ValueError: neither 3 nor 4 dims, or a size that is not positive.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/resize_with_crop_or_pad
    """
    height, width = scalar_int(target_height, "target_height"), scalar_int(target_width, "target_width")

    def work(x: Tensor) -> Tensor:
        checked_image(x)
        _positive(height, width)
        for axis, target in ((1, height), (2, width)):
            x = _fitted(x, axis, target)
        return x

    return in_batch(image, work)


def _fitted(x: Tensor, axis: int, target: int) -> Tensor:
    """Crops one axis around its center, or pads it with zeros."""
    size = x._type.shape[axis]
    first, length = at_least_zero(simplify_dim((size - target) // 2)), dim_min(size, target)
    before = at_least_zero(simplify_dim((target - size) // 2))
    middle = (slice(None),) * axis + (slice(first, simplify_dim(first + length)),)
    around: list[Any] = [[0, 0]] * 4
    around[axis] = [before, simplify_dim(target - before - length)]
    found = pad(x[middle], around)
    shape = found._type.shape
    return bind.reshape(found, shape=(*shape[:axis], target, *shape[axis + 1 :]))  # type: ignore[no-any-return]


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
      ValueError: a fraction that is out of range, or neither 3 nor 4 dims.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/central_crop
    """
    x, fraction = convert_to_tensor(image), float(central_fraction)
    if not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    if fraction == 1.0:
        return x
    if x.ndim < 3:
        raise ValueError(f"'image' (shape {x.shape}) must be at least three-dimensional.")
    if x.ndim > 4:
        raise ValueError(f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {x.ndim}.")
    height, width = (_known(d) for d in x._type.shape[-3:-1])
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
      ValueError: another padding, or ints that don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/extract_patches
    """
    x = convert_to_tensor(images)
    if x.ndim != 4:
        raise ArgumentError(f"Shape must be rank 4 but is rank {x.ndim}")
    sizes, strides, rates = map(_four, (sizes, strides, rates), ("ksizes", "strides", "rates"))
    padding = attribute_text(padding, "padding", ("SAME", "VALID"))
    spans = [(k - 1) * r + 1 for k, r in zip(sizes[1:3], rates[1:3])]
    if padding == "SAME":
        x = _padded_for(x, spans, strides[1:3])
    counts = [(d - span) // s + 1 for d, span, s in zip(x._type.shape[1:3], spans, strides[1:3])]
    cuts = [
        [slice(k * r, k * r + (n - 1) * s + 1, s) for k in range(size)]
        for size, r, s, n in zip(sizes[1:3], rates[1:3], strides[1:3], counts)
    ]
    return concat([x[:, row, column] for row in cuts[0] for column in cuts[1]], 3)


def _four(given: Any, what: str) -> list[int]:
    found = [attribute_int(v, what) for v in static_value(given, what)]
    if len(found) != 4 or found[0] != 1 or found[3] != 1:
        raise ValueError(f"{what} must be four ints, of which the first and the last are 1, but are {found}")
    return found


def _padded_for(x: Tensor, spans: Sequence[int], strides: Sequence[int]) -> Tensor:
    around = [[0, 0]]
    for size, span, step in zip(x._type.shape[1:3], spans, strides):
        missing = max((-(-_known(size) // step) - 1) * step + span - size, 0)
        around.append([missing // 2, missing - missing // 2])
    return pad(x, [*around, [0, 0]])
