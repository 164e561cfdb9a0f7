"""max_pool_with_argmax, dilation2d and erosion2d: the first largest of each window's elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import is_static_shape
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, int32, int64
from tvtf.errors import UnimplementedError
from tvtf.ops.cast import cast
from tvtf.ops.operands import attributes, named, one_of, operands, word_of
from tvtf.ops.pad import reverse
from tvtf.ops.rules import attribute_ints, attribute_text, bind, number, static_value


class _Windows(NamedTuple):
    """The elements of all windows, tap by tap, and the row and column where each window begins."""

    elements: list[Tensor]
    offsets: list[tuple[int, int]]
    rows: np.ndarray
    columns: np.ndarray


def _pair(value: Any, what: str) -> tuple[int, int]:
    """Returns a row and a column value of an argument of 1, 2 or 4 ints."""
    values = [int(v) for v in np.atleast_1d(np.array(static_value(value, what)))]
    if len(values) not in (1, 2, 4):
        raise ValueError(f"{what} should be of length 1, 2 or 4 but was {len(values)}")
    return (values[1], values[2]) if len(values) == 4 else (values[0], values[-1])


def _windows(x: Tensor, size: Sequence[int], steps: Sequence[int], rates: Sequence[int], padding: str) -> _Windows:
    """Cuts images (n, rows, columns, channels) of known size into windows, padded with the dtype's lowest number."""
    if x.ndim != 4:
        raise ArgumentError(f"the images must be 4-dimensional, but have shape {x.shape}")
    if not is_static_shape(x._type.shape[1:]):
        raise unknown_size(ValueError(f"the images must be of known size, but have shape {x.shape}"))
    padding = attribute_text(padding, "padding", ("SAME", "VALID"))
    extents = [(k - 1) * r + 1 for k, r in zip(size, rates)]
    dims = [int(d) for d in x._type.shape[1:3]]
    same = padding == "SAME"
    counts = [-(-d // s) if same else (d - e) // s + 1 for d, e, s in zip(dims, extents, steps)]
    missing = [max((n - 1) * s + e - d, 0) if same else 0 for n, s, e, d in zip(counts, steps, extents, dims)]
    before = [m // 2 for m in missing]
    edges = tuple((b, m - b) for b, m in zip(before, missing))
    low = np.finfo(x.dtype.np).min if x.dtype.is_floating else np.iinfo(x.dtype.np).min  # type: ignore[type-var]
    padded: Any = bind.pad(x, number(low, x), paddings=((0, 0), *edges, (0, 0))) if any(missing) else x
    places = [(a, b) for a in range(0, extents[0], rates[0]) for b in range(0, extents[1], rates[1])]
    rows, columns = (np.arange(n) * s - b for n, s, b in zip(counts, steps, before))
    elements = []
    for at in places:
        cut = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(at, counts, steps)]
        elements.append(padded[:, cut[0], cut[1]])
    return _Windows(elements, places, rows, columns)


def _first_largest(values: Sequence[Tensor], payloads: Sequence[Tensor] = ()) -> Tensor:
    """Returns the largest of the values, or the entry of ``payloads`` at the first largest value."""
    best, result = values[0], (payloads or values)[0]
    for value, payload in zip(values[1:], (payloads or values)[1:]):
        above = bind.greater(value, best)
        result = bind.select(above, payload, result)
        best = bind.select(above, value, best)
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
    """Returns the largest element of each window, and its place in the flat image.

    Args:
      input: real tensor of shape (n, rows, columns, channels), of known size but for n.
      ksize, strides: 1, 2 or 4 ints.
      padding: "SAME" or "VALID".
      data_format: "NHWC".
      output_dtype: of the places, int32 or int64.
      include_batch_in_index: count places from the first image on.

    Returns:
      Two tensors of shape (n, out_rows, out_columns, channels); a place is ``(row * columns + column) * channels + channel``.

    Raises:
      ValueError: for another data format or padding, or images of unknown size.

    >>> import tvtf as tf
    >>> values, places = tf.nn.max_pool_with_argmax([[[[1.], [2.]], [[4.], [3.]]]], 2, 2, "VALID")
    >>> values.numpy().item(), places.numpy().item()
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
    places = [
        EagerTensor(
            (
                ((windows.rows[:, None, None] + a) * columns + windows.columns[:, None] + b) * channels
                + channel_numbers
            ).astype(np.int64)
        )
        for a, b in windows.offsets
    ]
    values = _first_largest(windows.elements)
    shape = values._type.shape
    at = _first_largest(windows.elements, [bind.broadcast_to(p, shape=shape) for p in places])
    if include_batch_in_index:
        image_size = int(x._type.shape[1]) * columns * channels  # type: ignore[arg-type]
        images = bind.range(size=shape[0], start=0, delta=1, dtype=int64)
        start = bind.multiply(bind.reshape(images, shape=(shape[0], 1, 1, 1)), number(image_size, images))
        at = bind.add(at, start)
    return MaxPoolWithArgmax(values, cast(at, as_dtype(output_dtype)))


def _four(value: Any, what: str) -> list[int]:
    """Returns strides or rates as four ints, of which the first and last must be 1."""
    values = attribute_ints([] if value is None else value, what, "dilation2d")
    if len(values) < 4:
        raise ArgumentError(f"Length for attr '{what}' of {len(values)} must be at least minimum 4")
    if values[0] != 1 or values[3] != 1:
        name = "Stride" if what == "strides" else "Rate"
        raise UnimplementedError(
            None, "Dilation2D", f"{name} is only supported across spatial dimensions. [Op:Dilation2D]"
        )
    if min(values) < 1:
        raise ArgumentError(f"{what} must be positive, but are {values}")
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
      ValueError: for another data format or padding, or images of unknown size.

    >>> import tvtf as tf
    >>> tf.nn.dilation2d([[[[1.], [2.]]]], [[[0.], [5.]]], [1] * 4, "VALID", "NHWC", [1] * 4).numpy()
    array([[[[7.]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/dilation2d
    """
    if data_format != "NHWC":
        raise ValueError(
            f"`data_format` values other than 'NHWC' are not supported. Received: data_format={data_format}"
        )
    strides, dilations = _four(strides, "strides"), _four(dilations, "rates")
    x = convert_to_tensor(input)
    weights: Any = operands(x, filters)[1]
    height, width = (int(d) for d in weights.shape[:2])
    windows = _windows(x, (height, width), _pair(strides, "strides"), _pair(dilations, "dilations"), padding)
    taps = itertools.product(range(height), range(width))
    return _first_largest([bind.add(e, weights[i, j]) for e, (i, j) in zip(windows.elements, taps)])


@export("nn.erosion2d")
def erosion2d(
    value: Any, filters: Any, strides: Any, padding: str, data_format: str, dilations: Any, name: str | None = None
) -> Tensor:
    """Returns the smallest difference of an image's element and a filter's in each window; arguments as `tf.nn.dilation2d`.

    >>> import tvtf as tf
    >>> tf.nn.erosion2d([[[[1.], [2.]]]], [[[0.], [5.]]], [1] * 4, "VALID", "NHWC", [1] * 4).numpy()
    array([[[[-4.]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/erosion2d
    """
    flipped = reverse(convert_to_tensor(filters), [0, 1])
    opposite = bind.negative(convert_to_tensor(value))
    return bind.negative(dilation2d(opposite, flipped, strides, padding, data_format, dilations))
