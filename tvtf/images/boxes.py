"""Functions on boxes in images: drawing them, and cropping and resizing what they contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType, agree_dim, show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import float16, float32, int32, int64
from tvtf.ops.cast import cast, defaulted
from tvtf.ops.dims import scalar_of
from tvtf.ops.host import host_primitive
from tvtf.ops.indexing import gather_nd
from tvtf.ops.operands import attributes, converted, operand
from tvtf.ops.rules import attribute_text, bind, number, require_dtype, static_dims, zeros_like
from tvtf.ops.value_checks import required

COLOURS = np.array(
    [
        *([1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1]),
        *([0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]),
    ],
    np.float32,
)
"""The colours of boxes if the caller passes none."""


def _drawn(images: np.ndarray, boxes: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Draws boxes on a copy of the images; images of one channel get ones, as in TensorFlow."""
    found = images.copy()
    height, width, depth = images.shape[1:]
    for image, corners in zip(found, boxes):
        for place, box in enumerate(corners.tolist()):
            colour = (
                colours[place % len(colours), :depth].astype(images.dtype) if depth > 1 else np.ones(1, images.dtype)
            )
            _frame(image, box, colour, height, width)
    return found


def _frame(image: np.ndarray, box: Sequence[float], colour: np.ndarray, height: int, width: int) -> None:
    """Returns the index expressions of the four sides of a box, clipped to the image."""
    top, bottom = int(box[0] * (height - 1)), int(box[2] * (height - 1))
    left, right = int(box[1] * (width - 1)), int(box[3] * (width - 1))
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for y in (top, bottom):
        if 0 <= y < height:
            image[y, columns] = colour
    for x in (left, right):
        if 0 <= x < width:
            image[rows, x] = colour


def _drawn_type(images: TensorType, boxes: TensorType, colours: TensorType) -> TensorType:
    """Checks the ranks, batch sizes and channels of images, boxes and colours."""
    if len(images.shape) != 4:
        raise ArgumentError(f"The rank of the images should be 4, but is {len(images.shape)}")
    if len(boxes.shape) != 3 or boxes.shape[2] != 4:
        raise ArgumentError(f"The shape of boxes should be [batch, count, 4], but is {show_shape(boxes.shape)}")
    if not agree_dim(images.shape[0], boxes.shape[0]):
        raise ArgumentValueError("The batch sizes should be the same")
    if len(colours.shape) != 2:
        raise ArgumentError(f"colors must be a 2-D matrix{show_shape(colours.shape)}")
    if isinstance(colours.shape[1], int) and isinstance(images.shape[3], int) and colours.shape[1] < images.shape[3]:
        raise ArgumentValueError(
            f"colors must have equal or more channels than the image provided: {show_shape(colours.shape)}"
        )
    return images


@host_primitive(tf_name="DrawBoundingBoxesV2", type=_drawn_type, numpy=_drawn)
def draw_boxes(images: Tensor, boxes: Tensor, colours: Tensor) -> Any:
    """Draws the sides of boxes on images."""
    return (images, boxes, colours), {}


@export("image.draw_bounding_boxes")
def draw_bounding_boxes(images: Any, boxes: Any, colors: Any, name: str | None = None) -> Tensor:
    """Draws boxes on a batch of images.

    Args:
      images: float32 or float16, shape (batch, height, width, channels).
      boxes: float32, shape (batch, count, 4): top, left, bottom and right as fractions of the image's sides.
      colors: shape (n, channels), used in turn; None for TensorFlow's default colours.

    >>> import tvtf as tf
    >>> tf.image.draw_bounding_boxes(tf.zeros([1, 3, 3, 1]), [[[0., 0., 1., 1.]]], None).numpy()[0, ..., 0]
    array([[1., 1., 1.],
           [1., 0., 1.],
           [1., 1., 1.]], dtype=float32)

    Raises:
      InvalidArgumentError: other ranks.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/draw_bounding_boxes
    """
    x, corners = defaulted(images, (float16, float32), float32), operand(boxes, float32, 1)
    require_dtype(x._type, (float32, float16), "images")
    wanted = EagerTensor(COLOURS) if colors is None else operand(colors, float32, 2)
    if wanted.ndim == 2 and wanted.shape[0] == 0:
        wanted = EagerTensor(COLOURS)
    return bind.draw_boxes(x, corners, wanted)  # type: ignore[no-any-return]


# -- cut out


@export("image.crop_and_resize")
@attributes(method=str, extrapolation_value=float)
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Crops boxes out of images and resizes them to one size.

    Args:
      image: shape (batch, height, width, channels).
      boxes: shape (count, 4): top, left, bottom and right as fractions of the sides; flipped if top exceeds bottom.
      box_indices: the index of the image of each box.
      crop_size: the height and width of the results.
      method: "bilinear" or "nearest".
      extrapolation_value: the value of pixels outside the images.

    Returns:
      float32, shape (count, *crop_size, channels).

    >>> import tvtf as tf
    >>> image = tf.reshape(tf.range(16.), [1, 4, 4, 1])
    >>> tf.image.crop_and_resize(image, [[0., 0., 1., 1.]], [0], [2, 2]).numpy()[0, ..., 0]
    array([[ 0.,  3.],
           [12., 15.]], dtype=float32)

    Raises:
      InvalidArgumentError: another method or shape.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/crop_and_resize
    """
    method = attribute_text(method, "method", ("bilinear", "nearest"))
    x, corners, which = (
        convert_to_tensor(image),
        converted(boxes, float32, 1),
        cast(converted(box_indices, int32, 2), int64),
    )
    if x.ndim != 4 or corners.ndim != 2 or which.ndim != 1:
        raise ArgumentError(
            f"image, boxes and box_indices must have 4, 2 and 1 dims, not {x.ndim}, {corners.ndim}, {which.ndim}"
        )
    size = static_dims(converted(crop_size, int32, 3), "crop_size")
    if len(size) != 2:
        raise ArgumentError(f"crop_size must have two elements, but is {crop_size}")
    if any(isinstance(d, int) and d <= 0 for d in size):
        raise ArgumentError("crop dimensions must be positive")
    corners = required(corners, _check_finite, bind.is_finite, _NOT_FINITE)
    rows = _samples(corners[:, 0], corners[:, 2], x._type.shape[1], size[0])
    columns = _samples(corners[:, 1], corners[:, 3], x._type.shape[2], size[1])
    beyond = number(extrapolation_value, EagerTensor(np.zeros((), np.float32)))
    return _sampled(cast(x, float32), which, rows, columns, method, beyond)


_NOT_FINITE = "Boxes contains at least one element that is not finite"


def _check_finite(corners: np.ndarray) -> None:
    if not np.isfinite(corners).all():
        raise ArgumentError(_NOT_FINITE).for_op("CropAndResize")


def _samples(first: Tensor, last: Tensor, size: Dim, count: Dim) -> tuple[Tensor, Tensor]:
    """Returns the positions of samples along one side, shape (boxes, count), and whether they are inside the image."""
    most = cast(_scalar(size), float32) - number(1, first)
    steps = cast(bind.range(size=count, start=0, delta=1, dtype=int64), float32)
    if count == 1:
        places = (first + last)[:, None] * number(0.5, first) * most + bind.reshape(steps, shape=(1, 1))
    else:
        step = (last - first) * most / (cast(_scalar(count), float32) - number(1, first))
        places = (first * most)[:, None] + bind.reshape(steps, shape=(1, count)) * step[:, None]
    inside = bind.logical_and(bind.greater_equal(places, zeros_like(places)), bind.less_equal(places, most))
    return bind.select(inside, places, zeros_like(places)), inside


def _scalar(dim: Dim) -> Tensor:
    return scalar_of(dim)


def _sampled(x: Tensor, which: Tensor, rows: Any, columns: Any, method: str, beyond: Tensor) -> Tensor:
    (y, y_in), (z, z_in) = rows, columns
    (count, height), width = y._type.shape, z._type.shape[1]

    def wide(t: Tensor, axis: int) -> Tensor:
        shape = (count, height, 1) if axis == 1 else (count, 1, width)
        return bind.broadcast_to(bind.reshape(t, shape=shape), shape=(count, height, width))  # type: ignore[no-any-return]

    image = bind.broadcast_to(bind.reshape(which, shape=(count, 1, 1)), shape=(count, height, width))

    def pixels(a: Tensor, b: Tensor) -> Tensor:
        return gather_nd(x, bind.stack(image, cast(wide(a, 1), int64), cast(wide(b, 2), int64), axis=3))

    if method == "nearest":
        half = number(0.5, y)
        found = pixels(bind.floor(y + half), bind.floor(z + half))
    else:
        above, left = bind.floor(y), bind.floor(z)
        below, right = bind.ceil(y), bind.ceil(z)
        down, across = wide(y - above, 1)[..., None], wide(z - left, 2)[..., None]
        top = pixels(above, left) + (pixels(above, right) - pixels(above, left)) * across
        bottom = pixels(below, left) + (pixels(below, right) - pixels(below, left)) * across
        found = top + (bottom - top) * down
    inside = bind.logical_and(wide(y_in, 1), wide(z_in, 2))[..., None]
    shape = found._type.shape
    return bind.select(bind.broadcast_to(inside, shape=shape), found, bind.broadcast_to(beyond, shape=shape))  # type: ignore[no-any-return]
