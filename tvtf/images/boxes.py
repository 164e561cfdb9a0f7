"""Boxes in images: drawn, cut out and resized, drawn by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.dtypes import as_dtype, float32, float64, int8, int16, int32, int64, uint8
from tvtf.ops.cast import cast
from tvtf.ops.host import host_primitive
from tvtf.ops.indexing import gather_nd
from tvtf.ops.operands import attributes, converted, operand
from tvtf.ops.random import stateless_uniform
from tvtf.ops.rules import attribute_text, bind, number, require_dtype, static_dims, zeros_like
from tvtf.primitive import export
from tvtf.refusal import Refused, RefusedValue
from tvtf.shape import Dim, TensorType, agree_dim, show_shape
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor

COLOURS = np.array(
    [
        *([1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1]),
        *([0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]),
    ],
    np.float32,
)
"""Of boxes that were given none."""


def _drawn(images: np.ndarray, boxes: np.ndarray, colours: np.ndarray) -> np.ndarray:
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
    """The four sides of a box that lies in the image, as far as they do."""
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
    if len(images.shape) != 4:
        raise Refused(f"The rank of the images should be 4, but is {len(images.shape)}")
    if len(boxes.shape) != 3 or boxes.shape[2] != 4:
        raise Refused(f"The shape of boxes should be [batch, count, 4], but is {show_shape(boxes.shape)}")
    if not agree_dim(images.shape[0], boxes.shape[0]):
        raise RefusedValue("The batch sizes should be the same")
    if len(colours.shape) != 2:
        raise Refused(f"colors must be a 2-D matrix{show_shape(colours.shape)}")
    if isinstance(colours.shape[1], int) and isinstance(images.shape[3], int) and colours.shape[1] < images.shape[3]:
        raise RefusedValue(
            f"colors must have equal or more channels than the image provided: {show_shape(colours.shape)}"
        )
    return images


@host_primitive(tf_name="DrawBoundingBoxesV2", type=_drawn_type, numpy=_drawn)
def draw_boxes(images: Tensor, boxes: Tensor, colours: Tensor) -> Any:
    """Images with the sides of boxes drawn."""
    return (images, boxes, colours), {}


@export("image.draw_bounding_boxes")
def draw_bounding_boxes(images: Any, boxes: Any, colors: Any, name: str | None = None) -> Tensor:
    """A batch of images with boxes drawn on them.

    Args:
      images: float32 or float16, shape (batch, height, width, channels).
      boxes: float32, shape (batch, count, 4): top, left, bottom and right as parts of the sides.
      colors: shape (n, channels), taken in turn; None for TensorFlow's own.

    >>> import tvtf as tf
    >>> tf.image.draw_bounding_boxes(tf.zeros([1, 3, 3, 1]), [[[0., 0., 1., 1.]]], None).numpy()[0, ..., 0]
    array([[1., 1., 1.],
           [1., 0., 1.],
           [1., 1., 1.]], dtype=float32)

    Raises:
      InvalidArgumentError: other ranks.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/draw_bounding_boxes
    """
    x, corners = convert_to_tensor(images), operand(boxes, float32, 1)
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
    """Boxes of images, each resized to one size.

    Args:
      image: shape (batch, height, width, channels).
      boxes: shape (count, 4): top, left, bottom and right as parts of the sides; turned round where top exceeds bottom.
      box_indices: which image each box is of.
      crop_size: the height and width of the results.
      method: "bilinear" or "nearest".
      extrapolation_value: what lies beyond the images.

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
        raise Refused(
            f"image, boxes and box_indices must have 4, 2 and 1 dims, not {x.ndim}, {corners.ndim}, {which.ndim}"
        )
    size = static_dims(converted(crop_size, int32, 3), "crop_size")
    if len(size) != 2:
        raise Refused(f"crop_size must have two elements, but is {crop_size}")
    if any(isinstance(d, int) and d <= 0 for d in size):
        raise Refused("crop dimensions must be positive")
    if isinstance(corners, EagerTensor) and not np.isfinite(corners.eager_array()).all():
        raise Refused("Boxes contains at least one element that is not finite").told_by("CropAndResize")
    rows = _samples(corners[:, 0], corners[:, 2], x._type.shape[1], size[0])
    columns = _samples(corners[:, 1], corners[:, 3], x._type.shape[2], size[1])
    beyond = number(extrapolation_value, EagerTensor(np.zeros((), np.float32)))
    return _sampled(cast(x, float32), which, rows, columns, method, beyond)


def _samples(first: Tensor, last: Tensor, size: Dim, count: Dim) -> tuple[Tensor, Tensor]:
    """Where samples lie along one side, shape (boxes, count); and whether inside."""
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
    from tvtf.ops.dims import scalar_of

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


# -- by chance


def _distorted(
    size: np.ndarray, boxes: np.ndarray, least: np.ndarray, draws: np.ndarray, ratios: Any, areas: Any, whole: bool
) -> tuple[np.ndarray, ...]:
    if len(size) != 3:
        raise Refused(f"image_size must contain 3 elements[{len(size)}]")
    height, width = (int(d) for d in size[:2])
    if not (0 <= height <= int32.max and 0 <= width <= int32.max):
        raise Refused(f"image height and width must be between 0 and int32 max, but are {height} and {width}")
    corners = boxes.reshape(-1, 4)
    outside = corners[~((corners >= 0) & (corners <= 1))]
    if outside.size:
        raise Refused(f"All bounding box coordinates must be in [0.0, 1.0]: {outside[0]:g}")
    if not len(corners):
        if not whole:
            raise Refused("No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes.")
        corners = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
    top, left, tall, wide = 0, 0, height, width
    for picks in draws:
        found = _rectangle(picks, height, width, ratios, areas)
        if found is not None and _covers(found, corners * [height, width, height, width], float(least)):
            top, left, tall, wide = found
            break
    begin = np.array([top, left, 0], size.dtype)
    box = np.array([top / height, left / width, (top + tall) / height, (left + wide) / width], np.float32)
    return begin, np.array([tall, wide, -1], size.dtype), box.reshape(1, 1, 4)


def _rectangle(picks: np.ndarray, height: int, width: int, ratios: Any, areas: Any) -> tuple[int, ...] | None:
    """A rectangle of a drawn aspect ratio and area at a drawn place; None where there is none."""
    ratio = ratios[0] + picks[0] * (ratios[1] - ratios[0])
    least, most = areas[0] * height * width, areas[1] * height * width
    shortest, tallest = round(np.sqrt(least / ratio)), min(round(np.sqrt(most / ratio)), height)
    if round(tallest * ratio) > width:
        tallest = int((width + 0.5 - 1e-7) / ratio)
    tall = min(shortest, tallest)
    tall += int(picks[1] * (tallest - tall + 1)) if tallest > tall else 0
    wide = round(tall * ratio)
    if not least <= tall * wide <= most or not 0 < wide <= width or not 0 < tall <= height:
        return None
    return int(picks[2] * (height - tall + 1)), int(picks[3] * (width - wide + 1)), tall, wide


def _covers(found: tuple[int, ...], corners: np.ndarray, least: float) -> bool:
    """Whether a rectangle covers enough of one box at least."""
    top, left, tall, wide = found
    height = np.minimum(corners[:, 2], top + tall) - np.maximum(corners[:, 0], top)
    width = np.minimum(corners[:, 3], left + wide) - np.maximum(corners[:, 1], left)
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    shared = np.clip(height, 0, None) * np.clip(width, 0, None)
    return bool((shared >= least * np.maximum(area, 1e-12)).any())


def _distorted_type(size: TensorType, boxes: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, ...]:
    require_dtype(size, (uint8, int8, int16, int32, int64), "image_size")
    if len(boxes.shape) != 3 or boxes.shape[2] != 4:
        raise Refused(f"input boxes must be 3-dimensional [batch, num_boxes, coords]: {show_shape(boxes.shape)}")
    return TensorType((3,), size.dtype), TensorType((3,), size.dtype), TensorType((1, 1, 4), float32)


@host_primitive(
    tf_name="SampleDistortedBoundingBoxV2",
    type=_distorted_type,
    numpy=_distorted,
)
def distorted_box(
    size: Tensor, boxes: Tensor, least: Tensor, draws: Tensor, ratios: Any, areas: Any, whole: bool
) -> Any:
    """A rectangle of an image that covers enough of one of the boxes: begin, size and box."""
    return (size, boxes, least, draws), {"ratios": ratios, "areas": areas, "whole": whole}


def _sample(
    image_size: Any, bounding_boxes: Any, seed: Any, least: Any, ratios: Any, areas: Any, attempts: Any, whole: Any
) -> tuple[Tensor, Tensor, Tensor]:
    size, boxes = convert_to_tensor(image_size), convert_to_tensor(bounding_boxes, float32)
    draws = stateless_uniform([int(attempts or 100), 4], seed, dtype=float64)
    attrs = {"ratios": tuple(map(float, ratios or (0.75, 1.33))), "areas": tuple(map(float, areas or (0.05, 1.0)))}
    covered = convert_to_tensor(least, float32)
    return bind.distorted_box(size, boxes, covered, draws, whole=bool(whole), **attrs)  # type: ignore[no-any-return]


@export("image.stateless_sample_distorted_bounding_box")
@attributes(max_attempts=int, use_image_if_no_bounding_boxes=bool)
def stateless_sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A rectangle of an image, drawn by a pair of seeds, that covers enough of one of the boxes.

    Args:
      image_size: height, width and channels.
      bounding_boxes: shape (batch, count, 4), as parts of the sides.
      seed: a pair of ints. The numbers drawn are not TensorFlow's.
      min_object_covered: how much of a box at least.
      aspect_ratio_range: of width by height, by default (0.75, 1.33).
      area_range: as parts of the image, by default (0.05, 1).
      max_attempts: after how many the whole image is given, by default 100.
      use_image_if_no_bounding_boxes: take the whole image for a box where there is none.

    Returns:
      begin and size for ``tf.slice``, and the box for ``tf.image.draw_bounding_boxes``.

    >>> import tvtf as tf
    >>> begin, size, box = tf.image.stateless_sample_distorted_bounding_box([8, 8, 3], [[[0., 0., 1., 1.]]], (1, 2))
    >>> box.shape, bool(tf.reduce_all(begin + size <= 8))
    (TensorShape([1, 1, 4]), True)

    Raises:
      InvalidArgumentError: no boxes.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_sample_distorted_bounding_box
    """
    least, whole = min_object_covered, use_image_if_no_bounding_boxes
    return _sample(image_size, bounding_boxes, seed, least, aspect_ratio_range, area_range, max_attempts, whole)


@export("image.sample_distorted_bounding_box")
@attributes(max_attempts=int, use_image_if_no_bounding_boxes=bool)
def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int = 0,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """As ``tf.image.stateless_sample_distorted_bounding_box``, of other numbers at each call.

    >>> import tvtf as tf
    >>> tf.image.sample_distorted_bounding_box([8, 8, 3], [[[0., 0., 1., 1.]]])[2].shape
    TensorShape([1, 1, 4])

    Source: https://www.tensorflow.org/api_docs/python/tf/image/sample_distorted_bounding_box
    """
    from tvtf.stateful_random import uniform

    pair = uniform([2], minval=0, maxval=int32.max, dtype=as_dtype("int32"), seed=seed or None)
    least, whole = min_object_covered, use_image_if_no_bounding_boxes
    return _sample(image_size, bounding_boxes, pair, least, aspect_ratio_range, area_range, max_attempts, whole)
