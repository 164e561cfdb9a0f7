"""Random rectangles of images for training; the same as TensorFlow's for a seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, int8, int16, int32, int64, uint8
from tvtf.ops import philox
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import attributes, operand
from tvtf.ops.random import check_seed
from tvtf.ops.rules import bind, require_dtype
from tvtf.rng.rng_streams import reserve_blocks

BLOCKS_AT_ONCE = 8
WORD = 1 << 32


class _RandomWords:
    """An iterator over the random words of a seed or of a generator's state."""

    def __init__(self, seed: np.ndarray) -> None:
        state = philox.state_of(seed)
        starts = itertools.count(0, BLOCKS_AT_ONCE)
        blocks = (
            philox.blocks_at(state, np.arange(start, start + BLOCKS_AT_ONCE, dtype=np.uint64)) for start in starts
        )
        self._words: Iterator[int] = (word for block_batch in blocks for word in block_batch.ravel().tolist())

    def uniform_float(self) -> np.float32:
        """Returns a float in [0, 1) from 23 random bits."""
        return np.float32((next(self._words) & 0x7FFFFF) / 0x800000)

    def below(self, count: int) -> int:
        """Returns a uniformly distributed int in [0, count)."""
        if count & (count - 1) == 0:
            return next(self._words) & (count - 1)
        # Words below the remainder are rejected, as they would bias the number modulo ``count``.
        rejected_below = (WORD - 1) % count + 1
        return next(word for word in self._words if word >= rejected_below) % count


def _round_to_int(value: Any) -> int:
    return int(np.rint(value))


def _try_rectangle(words: _RandomWords, height: int, width: int, ratios: Any, areas: Any) -> tuple[int, ...] | None:
    """Draws a rectangle of random aspect ratio, area and position in an image, with TensorFlow's random numbers.

    Returns top, left, height and width in pixels, or None if no such rectangle exists for the drawn aspect ratio.

    Args:
      ratios: the range of width / height.
      areas: the range of the area, as a fraction of the image's area.
    """
    ratio = words.uniform_float() * (ratios[1] - ratios[0]) + ratios[0]
    min_area, max_area = (area * np.float32(width) * np.float32(height) for area in areas)
    if min_area > max_area or not width or not height:
        return None
    max_height = min(_largest_height(max_area, ratio, width), height)
    box_height = min(_round_to_int(np.sqrt(min_area / ratio)), max_height)
    if box_height < max_height:
        box_height += words.below(max_height - box_height + 1)
    if box_height * _round_to_int(box_height * ratio) < min_area:
        box_height += 1
    if box_height * _round_to_int(box_height * ratio) > max_area:
        box_height -= 1
    box_width = _round_to_int(box_height * ratio)
    if not min_area <= box_height * box_width <= max_area or not 0 < box_width <= width or not 0 < box_height <= height:
        return None
    top = words.below(height - box_height) if box_height < height else 0
    return top, words.below(width - box_width) if box_width < width else 0, box_height, box_width


def _largest_height(max_area: np.float32, ratio: np.float32, width: int) -> int:
    """Returns the height of the largest rectangle of an aspect ratio that has at most ``max_area`` and fits the width."""
    height = _round_to_int(np.sqrt(max_area / ratio))
    if _round_to_int(height * ratio) <= width:
        return height
    height = int((width + 0.5 - 1e-7) / float(ratio))
    return height - 1 if _round_to_int(height * ratio) > width else height


def _covers(rectangle: tuple[int, ...], corners: np.ndarray, min_covered: np.float32) -> bool:
    """Returns whether a rectangle covers at least a fraction ``min_covered`` of the area of any box.

    Empty boxes don't count.
    """
    top, left, rectangle_height, rectangle_width = rectangle
    box_top, box_left, box_bottom, box_right = corners.T
    shared_height = np.minimum(box_bottom, top + rectangle_height) - np.maximum(box_top, top)
    shared_width = np.minimum(box_right, left + rectangle_width) - np.maximum(box_left, left)
    overlaps = (shared_height >= 0) & (shared_width >= 0)
    intersection = np.where(overlaps, shared_height * shared_width, 0)
    area = (box_bottom - box_top) * (box_right - box_left)
    covered = intersection.astype(np.float32) / np.maximum(area, 1).astype(np.float32)
    return bool(((area >= 1) & (covered >= min_covered)).any())


def _height_and_width(size: np.ndarray) -> tuple[int, int]:
    """Returns the height and width from an image's size (height, width, channels), after checks."""
    if len(size) != 3:
        raise ArgumentError(f"image_size must contain 3 elements[{len(size)}]")
    height, width = (int(dim) for dim in size[:2])
    for side, extent in (("height", height), ("width", width)):
        if not 0 <= extent < int32.max:
            raise ArgumentError(f"image {side} cannot be >= int32 max")
    return height, width


def _boxes_in_pixels(boxes: np.ndarray, height: int, width: int, allow_none: bool) -> np.ndarray:
    """Converts boxes from fractions of the image's sides to pixels.

    Args:
      boxes: (top, left, bottom, right) of each box, as fractions of the image's sides.
      height, width: the image's sides in pixels.
      allow_none: whether the whole image is the only box if there are none; otherwise that is an error.
    """
    corners = boxes.reshape(-1, 4)
    invalid = corners[~((corners >= 0) & (corners <= 1))]
    if invalid.size:
        raise ArgumentError(f"All bounding box coordinates must be in [0.0, 1.0]: {invalid[0]:g}")
    if not len(corners) and not allow_none:
        raise ArgumentError(
            "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not "
            "provide any bounding boxes."
        )
    whole_image = np.array([[0, 0, 1, 1]], np.float32)
    used_boxes = corners if len(corners) else whole_image
    sides = np.array([height, width, height, width], np.float32)
    return (used_boxes * sides).astype(np.int64)


def _draw_rectangle(
    size: np.ndarray, boxes: np.ndarray, min_covered: np.ndarray, seed: np.ndarray, *,
    ratios: Any, areas: Any, attempts: int, whole: bool,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Draws random rectangles until one covers enough of a box; after ``attempts`` failures, uses the whole image.

    Args:
      size: the image's height, width and channels.
      boxes: the corners of the boxes, as fractions of the image's sides.
      min_covered: the minimum fraction of a box's area that the rectangle covers.
      seed: the seed or generator state of the random numbers.
      ratios: the range of width / height.
      areas: the range of the area, as a fraction of the image's area.
      attempts: the number of rectangles to try.
      whole: whether the whole image is the box if there are none; otherwise that is an error.

    Returns:
      The begin and size of the rectangle as ``tf.slice`` takes them, and its corners as fractions of the image's sides.
    """
    height, width = _height_and_width(size)
    corners = _boxes_in_pixels(boxes, height, width, whole)
    if min_covered < 0:
        raise ArgumentError(f"Min object covered must be non-negative: {float(min_covered):g}")
    words, (ratios, areas) = _RandomWords(seed), (tuple(map(np.float32, pair)) for pair in (ratios, areas))
    candidates = (_try_rectangle(words, height, width, ratios, areas) for _ in range(attempts))
    rectangle = next(
        (candidate for candidate in candidates if candidate and _covers(candidate, corners, np.float32(min_covered))),
        (0, 0, height, width),
    )
    top, left, box_height, box_width = rectangle
    begin = np.array([top, left, 0], size.dtype)
    sizes = np.array([box_height, box_width, -1]).astype(size.dtype)
    sides = np.array([height, width, height, width], np.float32)
    return (
        begin,
        sizes,
        (np.array([top, left, top + box_height, left + box_width], np.float32) / sides).reshape(1, 1, 4),
    )


def _distorted_box_types(
    size: TensorType, boxes: TensorType, min_covered: TensorType, *_: TensorType, **__: Any
) -> tuple[TensorType, ...]:
    """Checks the image size, boxes and coverage, and returns the types of the rectangle's begin, size and corners."""
    require_dtype(size, (uint8, int8, int16, int32, int64), "image_size")
    if len(boxes.shape) != 3 or boxes.shape[2] != 4:
        raise ArgumentError(f"input boxes must be 3-dimensional [batch, num_boxes, coords]: {show_shape(boxes.shape)}")
    if min_covered.shape:
        raise ArgumentError(f"min_object_covered must be 0-D, got shape {show_shape(min_covered.shape)}")
    return TensorType((3,), size.dtype), TensorType((3,), size.dtype), TensorType((1, 1, 4), float32)


@host_primitive(tf_name="SampleDistortedBoundingBoxV2", type=_distorted_box_types, numpy=_draw_rectangle)
def distorted_box(
    size: Tensor, boxes: Tensor, least: Tensor, seed: Tensor, ratios: Any, areas: Any, attempts: int, whole: bool
) -> Any:
    """Samples a rectangle that covers enough of one of the boxes, and returns its begin, size and box."""
    return (size, boxes, least, seed), {"ratios": ratios, "areas": areas, "attempts": attempts, "whole": whole}


def _sample(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any,
    min_covered: Any,
    ratios: Any,
    areas: Any,
    attempts: Any,
    allow_none: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Samples a rectangle that covers enough of a box, after checks of the arguments.

    Returns its begin, size and box.
    """
    size, boxes, covered = (
        convert_to_tensor(image_size),
        operand(bounding_boxes, float32, 1),
        operand(min_covered, float32, 2),
    )
    ratios = _checked_range(ratios, (0.75, 1.33), "Aspect ratio range")
    areas = _checked_range(areas, (0.05, 1.0), "Area range")
    if max(areas) > 1:
        raise ArgumentError(f"Area range must be less then or equal to 1.0: [{areas[0]:g}, {areas[1]:g}]")
    if attempts < 1:
        raise ArgumentError(f"Max attempts must be non-negative: {attempts}")
    attrs = {"ratios": ratios, "areas": areas, "attempts": attempts, "whole": bool(allow_none)}
    return bind.distorted_box(size, boxes, covered, seed, **attrs)  # type: ignore[no-any-return]


def _checked_range(values: Any, default: tuple[float, float], name: str) -> tuple[float, ...]:
    """Converts a pair of bounds, or the default pair for None, to floats, and checks them."""
    bounds = tuple(map(float, default if values is None else values))
    if len(bounds) != 2:
        raise ArgumentError(f"{name} field must specify 2 dimensions")
    lower, upper = bounds
    if min(bounds) <= 0:
        raise ArgumentError(f"{name} must be non-negative: [{lower:g}, {upper:g}]")
    return bounds


class StatelessSampleDistortedBoundingBox(NamedTuple):
    begin: Tensor
    size: Tensor
    bboxes: Tensor


class SampleDistortedBoundingBoxV2(NamedTuple):
    begin: Tensor
    size: Tensor
    bboxes: Tensor


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
) -> StatelessSampleDistortedBoundingBox:
    """Samples a rectangle of an image that covers enough of one of the boxes, from a pair of seeds.

    Args:
      image_size: height, width and channels.
      bounding_boxes: shape (batch, count, 4), as fractions of the sides.
      seed: a pair of ints.
      min_object_covered: the minimum fraction of a box that the rectangle covers.
      aspect_ratio_range: of width by height, by default (0.75, 1.33).
      area_range: as fractions of the image, by default (0.05, 1).
      max_attempts: the number of attempts after which the whole image is returned, by default 100.
      use_image_if_no_bounding_boxes: uses the whole image as the box if there is none.

    Returns:
      begin and size for ``tf.slice``, and the box for ``tf.image.draw_bounding_boxes``.

    >>> import tvtf as tf
    >>> begin, size, box = tf.image.stateless_sample_distorted_bounding_box([8, 8, 3], [[[0., 0., 1., 1.]]], (1, 2))
    >>> box.shape, bool(tf.reduce_all(begin + size <= 8))
    (TensorShape([1, 1, 4]), True)

    Raises:
      InvalidArgumentError: there are no boxes, or a range is invalid.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/stateless_sample_distorted_bounding_box
    """
    least, whole, attempts = (
        min_object_covered,
        use_image_if_no_bounding_boxes,
        100 if max_attempts is None else max_attempts,
    )
    pair = convert_to_tensor(seed)
    check_seed(pair._type)
    return StatelessSampleDistortedBoundingBox(
        *_sample(image_size, bounding_boxes, pair, least, aspect_ratio_range, area_range, attempts, whole)
    )


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
) -> SampleDistortedBoundingBoxV2:
    """Same as ``tf.image.stateless_sample_distorted_bounding_box``, with other random numbers in each call.

    >>> import tvtf as tf
    >>> tf.image.sample_distorted_bounding_box([8, 8, 3], [[[0., 0., 1., 1.]]])[2].shape
    TensorShape([1, 1, 4])

    Source: https://www.tensorflow.org/api_docs/python/tf/image/sample_distorted_bounding_box
    """
    least, whole, attempts = (
        min_object_covered,
        use_image_if_no_bounding_boxes,
        100 if max_attempts is None else max_attempts,
    )
    state = reserve_blocks("SampleDistortedBoundingBoxV2", seed or None, attempts)
    return SampleDistortedBoundingBoxV2(
        *_sample(image_size, bounding_boxes, state, least, aspect_ratio_range, area_range, attempts, whole)
    )
