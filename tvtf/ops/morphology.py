"""max_pool_with_argmax, dilation2d and erosion2d: the first largest of each window's elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import export
from tvtf.core.shape import agree_dim, brackets, is_static_shape
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, int32, int64
from tvtf.errors import UnimplementedError
from tvtf.ops.cast import cast
from tvtf.ops.operands import attributes, named, one_of, operands, word_of
from tvtf.ops.pad import reverse
from tvtf.ops.rules import attribute_ints, attribute_text, bind, number, static_value


class _Windows(NamedTuple):
    """Holds the elements of all windows of an image.

    ``elements`` has a tensor for each position within a window (tap), ``offsets`` that tap's row and column in the
    window, ``rows`` and ``columns`` where in the image each window begins.
    """

    elements: list[Tensor]
    offsets: list[tuple[int, int]]
    rows: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True)
class _WindowAxis:
    """The windows along one axis of an image: their number, their distance, and what their elements are apart."""

    count: int
    stride: int
    padding: tuple[int, int]
    offsets: range
    """The positions of a window's elements in the window."""

    @classmethod
    def of(cls, size: int, taps: int, stride: int, rate: int, is_same: bool) -> _WindowAxis:
        """Returns the windows of ``taps`` elements on an axis of ``size`` elements.

        Args:
          size: the size of the axis.
          taps: the number of elements of a window.
          stride: the distance between windows.
          rate: the distance between the elements of a window.
          is_same: whether the padding is SAME; otherwise it is VALID.
        """
        extent = (taps - 1) * rate + 1
        offsets = range(0, extent, rate)
        if not is_same:
            count = (size - extent) // stride + 1
            return cls(count, stride, (0, 0), offsets)
        count = ceil_div(size, stride)
        padding = max((count - 1) * stride + extent - size, 0)
        before = padding // 2
        return cls(count, stride, (before, padding - before), offsets)

    @property
    def starts(self) -> np.ndarray:
        """Where in the image each window begins."""
        return np.arange(self.count) * self.stride - self.padding[0]

    def slice_at(self, offset: int) -> slice:
        """Returns the slice of the padded axis with the element at ``offset`` of each window."""
        return slice(offset, offset + (self.count - 1) * self.stride + 1, self.stride)


def _pair(value: Any, name: str) -> tuple[int, int]:
    """Returns the values for rows and columns of an argument of 1, 2 or 4 ints, such as strides."""
    values = [int(each) for each in np.atleast_1d(np.array(static_value(value, name)))]
    if len(values) not in (1, 2, 4):
        raise ValueError(f"{name} should be of length 1, 2 or 4 but was {len(values)}")
    # Of four ints the first is for the batch, the last for the channels.
    return (values[1], values[2]) if len(values) == 4 else (values[0], values[-1])


def _windows(x: Tensor, size: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str) -> _Windows:
    """Divides images of known size into windows. SAME padding has the dtype's lowest number.

    Args:
      x: tensor of shape (n, rows, columns, channels).
      size: the rows and columns of a window.
      strides: the distances of windows, along rows and columns.
      rates: the dilations: the distances of a window's elements in the image.
      padding: "SAME" or "VALID".
    """
    if x.ndim != 4:
        raise ArgumentError(f"the images must be 4-dimensional, but have shape {x.shape}")
    if not is_static_shape(x._type.shape[1:]):
        raise unknown_size(ValueError(f"the images must be of known size, but have shape {x.shape}"))
    padding = attribute_text(padding, "padding", ("SAME", "VALID"))
    dims = [int(dim) for dim in x._type.shape[1:3]]
    vertical, horizontal = (
        _WindowAxis.of(*arguments, padding == "SAME") for arguments in zip(dims, size, strides, rates)
    )
    padded: Any = x
    if any((*vertical.padding, *horizontal.padding)):
        lowest = np.finfo(x.dtype.np).min if x.dtype.is_floating else np.iinfo(x.dtype.np).min  # type: ignore[type-var]
        edges = ((0, 0), vertical.padding, horizontal.padding, (0, 0))
        padded = bind.pad(x, number(lowest, x), paddings=edges)
    offsets = [(row, column) for row in vertical.offsets for column in horizontal.offsets]
    elements = [padded[:, vertical.slice_at(row), horizontal.slice_at(column)] for row, column in offsets]
    return _Windows(elements, offsets, vertical.starts, horizontal.starts)


def _first_largest(values: Sequence[Tensor], payloads: Sequence[Tensor] = ()) -> Tensor:
    """Computes the elementwise maximum of the tensors ``values``.

    With ``payloads``, one tensor for each value, the result has the payload of the first largest value instead.
    """
    largest, *other_values = values
    result, *other_payloads = payloads or values
    for value, payload in zip(other_values, other_payloads):
        is_larger = bind.greater(value, largest)
        result = bind.select(is_larger, payload, result)
        largest = bind.select(is_larger, value, largest)
    return result


class MaxPoolWithArgmax(NamedTuple):
    """The result of `tf.nn.max_pool_with_argmax`."""

    output: Tensor
    argmax: Tensor


@export("nn.max_pool_with_argmax")
@attributes(
    include_batch_in_index=bool, padding=word_of("SAME", "VALID"), output_dtype=named("Targmax", one_of(int32, int64))
)
def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    output_dtype: Any = int64,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> MaxPoolWithArgmax:
    """Returns the largest element of each window, and its index in the flat image.

    Args:
      input: real tensor of shape (n, rows, columns, channels), of known size but for n.
      ksize, strides: 1, 2 or 4 ints.
      padding: "SAME" or "VALID".
      data_format: "NHWC".
      output_dtype: of the indices, int32 or int64.
      include_batch_in_index: whether indices count from the first image of the batch.

    Returns:
      Two tensors of shape (n, out_rows, out_columns, channels); an index is ``(row * columns + column) * channels + channel``.

    Raises:
      ValueError: the data format or the padding is not supported, or the images' size is unknown.

    >>> import tvtf as tf
    >>> values, indices = tf.nn.max_pool_with_argmax([[[[1.], [2.]], [[4.], [3.]]]], 2, 2, "VALID")
    >>> values.numpy().item(), indices.numpy().item()
    (4.0, 2)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/max_pool_with_argmax
    """
    if data_format != "NHWC":
        raise ValueError(
            f"`data_format` values other  than 'NHWC' are not supported. Received: data_format={data_format}"
        )
    x = convert_to_tensor(input)
    windows = _windows(x, _pair(ksize, "ksize"), _pair(strides, "strides"), (1, 1), padding)
    columns, channels = int(x._type.shape[2]), int(x._type.shape[3])  # type: ignore[arg-type]
    channel_numbers = np.arange(channels)
    # For each tap, the index in the flattened image of that element of every window.
    candidates = [
        EagerTensor(
            (
                ((windows.rows[:, None, None] + row) * columns + windows.columns[:, None] + column) * channels
                + channel_numbers
            ).astype(np.int64)
        )
        for row, column in windows.offsets
    ]
    values = _first_largest(windows.elements)
    shape = values._type.shape
    argmax = _first_largest(windows.elements, [bind.broadcast_to(candidate, shape=shape) for candidate in candidates])
    if include_batch_in_index:
        image_size = int(x._type.shape[1]) * columns * channels  # type: ignore[arg-type]
        images = bind.range(size=shape[0], start=0, delta=1, dtype=int64)
        start = bind.multiply(bind.reshape(images, shape=(shape[0], 1, 1, 1)), number(image_size, images))
        argmax = bind.add(argmax, start)
    return MaxPoolWithArgmax(values, cast(argmax, as_dtype(output_dtype)))


def _spatial_attribute(value: Any, argument: str) -> list[int]:
    """Checks the strides or rates of a morphological dilation, and converts them to four ints.

    The first and the last int, for batch and channels, must be 1.
    """
    values = attribute_ints([] if value is None else value, argument, "dilation2d")
    if len(values) < 4:
        raise ArgumentError(f"Length for attr '{argument}' of {len(values)} must be at least minimum 4")
    batch_value, _, _, channel_value, *_ = values
    if batch_value != 1 or channel_value != 1:
        name = "Stride" if argument == "strides" else "Rate"
        message = f"{name} is only supported across spatial dimensions. [Op:Dilation2D]"
        raise UnimplementedError(None, "Dilation2D", message)
    if min(values) < 1:
        raise ArgumentError(f"{argument} must be positive, but are {values}")
    return values


@export("nn.dilation2d")
def dilation2d(
    input: Any, filters: Any, strides: Any, padding: str, data_format: str, dilations: Any, name: str | None = None
) -> Tensor:
    """Returns the largest sum of an image's element and a filter's in each window.

    Args:
      input: real tensor of shape (n, rows, columns, channels), of known size but for n.
      filters: tensor of the same dtype, shape (filter_rows, filter_columns, channels).
      strides, dilations: four ints, of which the middle two count.
      padding: "SAME" or "VALID".
      data_format: "NHWC".

    Returns:
      A tensor of shape (n, out_rows, out_columns, channels).

    Raises:
      ValueError: the data format or the padding is not supported, or the images' size is unknown.

    >>> import tvtf as tf
    >>> tf.nn.dilation2d([[[[1.], [2.]]]], [[[0.], [5.]]], [1] * 4, "VALID", "NHWC", [1] * 4).numpy()
    array([[[[7.]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/dilation2d
    """
    if data_format != "NHWC":
        raise ValueError(
            f"`data_format` values other than 'NHWC' are not supported. Received: data_format={data_format}"
        )
    strides, dilations = _spatial_attribute(strides, "strides"), _spatial_attribute(dilations, "rates")
    x, weights = operands(input, filters)
    if x.ndim != 4:
        raise ArgumentError(f"input must be 4-dimensional: {brackets(x.shape)}", ValueError).for_op("Dilation2D")
    if weights.ndim != 3:
        raise ArgumentError(f"filter must be 3-dimensional: {brackets(weights.shape)}", ValueError).for_op("Dilation2D")
    if not agree_dim(x._type.shape[3], weights._type.shape[2]):
        depths = f"{x.shape[3]} vs {weights.shape[2]}"
        raise ArgumentError(f"input and filter must have the same depth: {depths}", ValueError).for_op("Dilation2D")
    height, width = (int(dim) for dim in weights.shape[:2])
    windows = _windows(x, (height, width), _pair(strides, "strides"), _pair(dilations, "dilations"), padding)
    taps = itertools.product(range(height), range(width))
    sums = [bind.add(element, weights[i, j]) for element, (i, j) in zip(windows.elements, taps)]
    return _first_largest(sums)


@export("nn.erosion2d")
def erosion2d(
    value: Any, filters: Any, strides: Any, padding: str, data_format: str, dilations: Any, name: str | None = None
) -> Tensor:
    """Returns for each window the smallest difference of an element of the image and one of the filter.

    The arguments are those of `tf.nn.dilation2d`.

    >>> import tvtf as tf
    >>> tf.nn.erosion2d([[[[1.], [2.]]]], [[[0.], [5.]]], [1] * 4, "VALID", "NHWC", [1] * 4).numpy()
    array([[[[-4.]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/erosion2d
    """
    # The erosion by a filter is minus the dilation of the negative image by the reversed filter.
    reversed_filters = reverse(convert_to_tensor(filters), [0, 1])
    negative_image = bind.negative(convert_to_tensor(value))
    return bind.negative(dilation2d(negative_image, reversed_filters, strides, padding, data_format, dilations))
