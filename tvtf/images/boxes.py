"""Functions on boxes in images: drawing them, and cropping and resizing what they contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import float16, float32, int32, int64
from tvtf.ops.cast import cast, defaulted
from tvtf.ops.dims import scalar_of
from tvtf.ops.host import host_primitive
from tvtf.ops.indexing import gather_nd
from tvtf.ops.operands import attributes, convert_input, operand
from tvtf.ops.rules import attribute_text, bind, number, ones_like, require_dtype, static_dims, zeros_like
from tvtf.ops.value_checks import required

COLOURS = np.array(
    [
        *([1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1]),
        *([0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]),
    ],
    np.float32,
)
"""The colours of boxes if the caller passes none."""


def _draw_boxes(images: np.ndarray, boxes: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Draws the outlines of bounding boxes on a copy of a batch of images; box ``i`` has colour ``i % len(colours)``.

    Of colours with more channels than the images, the first channels are used.
    """
    drawn = images.copy()
    height, width, depth = images.shape[1:]
    if depth not in (1, 3, 4):  # of symbolic size while tracing
        raise ArgumentError("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
    if colours.shape[1] < depth:
        raise ArgumentValueError(
            f"colors must have equal or more channels than the image provided: {brackets(colours.shape)}"
        )
    for image, image_boxes in zip(drawn, boxes):
        for i, box in enumerate(image_boxes.tolist()):
            colour = colours[i % len(colours), :depth].astype(images.dtype)
            _draw_outline(image, box, colour, height, width)
    return drawn


def _draw_outline(image: np.ndarray, box: Sequence[float], colour: np.ndarray, height: int, width: int) -> None:
    """Draws the outline of a bounding box on an image, in place; parts outside the image are left out.

    Args:
      image: array of shape (height, width, channels).
      box: (top, left, bottom, right), as fractions of the image's sides.
      colour: array of shape (channels,).
      height, width: the image's sides in pixels.
    """
    top_fraction, left_fraction, bottom_fraction, right_fraction = box
    top = int(top_fraction * (height - 1))
    bottom = int(bottom_fraction * (height - 1))
    left = int(left_fraction * (width - 1))
    right = int(right_fraction * (width - 1))
    is_empty = top > bottom or left > right
    is_outside = top >= height or bottom < 0 or left >= width or right < 0
    if is_empty or is_outside:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            image[row, columns] = colour
    for column in (left, right):
        if 0 <= column < width:
            image[rows, column] = colour


def _draw_boxes_type(images: TensorType, boxes: TensorType, colours: TensorType) -> TensorType:
    """Checks the ranks, batch sizes and channels of images, boxes and colours, and returns the type of the result.

    The result has the type of the images.
    """
    if len(images.shape) != 4:
        raise ArgumentError(f"The rank of the images should be 4, but is {len(images.shape)}")
    if len(boxes.shape) != 3 or boxes.shape[2] != 4:
        raise ArgumentError(f"The shape of boxes should be [batch, count, 4], but is {show_shape(boxes.shape)}")
    if not agree_dim(images.shape[0], boxes.shape[0]):
        raise ArgumentValueError("The batch sizes should be the same")
    if len(colours.shape) != 2:
        raise ArgumentError(f"colors must be a 2-D matrix{show_shape(colours.shape)}")
    depth, colour_depth = images.shape[3], colours.shape[1]
    if isinstance(depth, int) and depth not in (1, 3, 4):
        raise ArgumentError("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
    if isinstance(depth, int) and isinstance(colour_depth, int) and colour_depth < depth:
        raise ArgumentValueError(
            f"colors must have equal or more channels than the image provided: {brackets(colours.shape)}"
        )
    return images


@host_primitive(tf_name="DrawBoundingBoxesV2", type=_draw_boxes_type, numpy=_draw_boxes)
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
      InvalidArgumentError: the rank of ``images``, ``boxes`` or ``colors`` is wrong.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/draw_bounding_boxes
    """
    x = defaulted(images, (float16, float32), float32)
    corners = operand(boxes, float32, 1)
    require_dtype(x._type, (float32, float16), "images")
    colour_table = _default_colours(x) if colors is None else operand(colors, float32, 2)
    if colour_table.ndim == 2 and colour_table.shape[0] == 0:
        _draw_boxes_type(x._type, corners._type, colour_table._type)
        colour_table = _default_colours(x)
    return bind.draw_boxes(x, corners, colour_table)  # type: ignore[no-any-return]


def _default_colours(images: Tensor) -> Tensor:
    """Returns TensorFlow's colours of boxes for a batch of images: white on images of one channel."""
    table = EagerTensor(COLOURS)
    if images.ndim != 4:  # refused later
        return table
    is_grey = bind.equal(scalar_of(images._type.shape[3]), EagerTensor(np.array(1)))
    return bind.select(is_grey, ones_like(table), table)  # type: ignore[no-any-return]


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
      InvalidArgumentError: ``method`` is not supported, or a shape is invalid.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/crop_and_resize
    """
    method = attribute_text(method, "method", ("bilinear", "nearest"))
    x, corners, which = (
        convert_to_tensor(image),
        convert_input(boxes, float32, 1),
        cast(convert_input(box_indices, int32, 2), int64),
    )
    if x.ndim != 4 or corners.ndim != 2 or which.ndim != 1:
        raise ArgumentError(
            f"image, boxes and box_indices must have 4, 2 and 1 dims, not {x.ndim}, {corners.ndim}, {which.ndim}"
        )
    if not agree_dim(corners._type.shape[1], 4):
        raise ArgumentError("boxes must have 4 columns")
    size = static_dims(convert_input(crop_size, int32, 3), "crop_size")
    if len(size) != 2:
        raise ArgumentError(f"crop_size must have two elements, but is {crop_size}")
    if any(isinstance(dim, int) and dim <= 0 for dim in size):
        raise ArgumentError("crop dimensions must be positive")
    corners = required(corners, _check_finite, bind.is_finite, _NOT_FINITE)
    rows = _sample_positions(corners[:, 0], corners[:, 2], x._type.shape[1], size[0])
    columns = _sample_positions(corners[:, 1], corners[:, 3], x._type.shape[2], size[1])
    beyond = number(extrapolation_value, EagerTensor(np.zeros((), np.float32)))
    return _interpolate_crops(cast(x, float32), which, rows, columns, method, beyond)


_NOT_FINITE = "Boxes contains at least one element that is not finite"


def _check_finite(corners: np.ndarray) -> None:
    if not np.isfinite(corners).all():
        raise ArgumentError(_NOT_FINITE).for_op("CropAndResize")


def _sample_positions(starts: Tensor, ends: Tensor, size: Dim, count: Dim) -> tuple[Tensor, Tensor]:
    """Computes where each box is sampled along one axis, for crop-and-resize.

    ``starts`` and ``ends`` are the boxes' ends, as fractions of the image's ``size``. Returns the positions in pixels,
    and whether they are inside the image, both of shape (boxes, count). Positions outside the image are 0.
    """
    last_pixel = cast(_scalar(size), float32) - number(1, starts)
    sample_numbers = cast(bind.range(size=count, start=0, delta=1, dtype=int64), float32)
    sample_row = bind.reshape(sample_numbers, shape=(1, count))
    if count == 1:  # A single sample is in the middle of the box.
        positions = (starts + ends)[:, None] * number(0.5, starts) * last_pixel + sample_row
    else:
        interval_count = cast(_scalar(count), float32) - number(1, starts)
        spacing = (ends - starts) * last_pixel / interval_count
        positions = (starts * last_pixel)[:, None] + sample_row * spacing[:, None]
    zeros = zeros_like(positions)
    is_inside = bind.logical_and(bind.greater_equal(positions, zeros), bind.less_equal(positions, last_pixel))
    return bind.select(is_inside, positions, zeros), is_inside


def _scalar(dim: Dim) -> Tensor:
    return scalar_of(dim)


def _interpolate_crops(
    x: Tensor, box_indices: Tensor, rows: Any, columns: Any, method: str, extrapolation_value: Tensor
) -> Tensor:
    """Computes crops by reading images ``x`` at the sample positions of each box, with the interpolation ``method``.

    ``rows`` and ``columns`` are results of :func:`_sample_positions`; samples outside the image get the extrapolation
    value.
    """
    (row, row_is_inside), (column, column_is_inside) = rows, columns
    (count, height), width = row._type.shape, column._type.shape[1]

    def broadcast(values: Tensor, axis: int) -> Tensor:
        shape = (count, height, 1) if axis == 1 else (count, 1, width)
        return bind.broadcast_to(bind.reshape(values, shape=shape), shape=(count, height, width))  # type: ignore[no-any-return]

    image_indices = bind.broadcast_to(bind.reshape(box_indices, shape=(count, 1, 1)), shape=(count, height, width))

    def pixels(at_rows: Tensor, at_columns: Tensor) -> Tensor:
        """Gathers the pixels of each crop at these rows and columns."""
        row_indices = cast(broadcast(at_rows, 1), int64)
        column_indices = cast(broadcast(at_columns, 2), int64)
        index_vectors = bind.stack(image_indices, row_indices, column_indices, axis=3)
        return gather_nd(x, index_vectors)

    if method == "nearest":
        half = number(0.5, row)
        crops = pixels(bind.floor(row + half), bind.floor(column + half))
    else:
        above, left = bind.floor(row), bind.floor(column)
        below, right = bind.ceil(row), bind.ceil(column)
        row_fraction, column_fraction = broadcast(row - above, 1)[..., None], broadcast(column - left, 2)[..., None]
        top = pixels(above, left) + (pixels(above, right) - pixels(above, left)) * column_fraction
        bottom = pixels(below, left) + (pixels(below, right) - pixels(below, left)) * column_fraction
        crops = top + (bottom - top) * row_fraction
    is_inside = bind.logical_and(broadcast(row_is_inside, 1), broadcast(column_is_inside, 2))[..., None]
    shape = crops._type.shape
    return bind.select(
        bind.broadcast_to(is_inside, shape=shape), crops, bind.broadcast_to(extrapolation_value, shape=shape)
    )  # type: ignore[no-any-return]
