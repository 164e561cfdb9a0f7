"""Windows of convolutions and pooling: data formats, strides, padding, result sizes, and a window's taps in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import table
from tvtf.core.shape import Dim, same_dim, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor
from tvtf.errors import InvalidArgumentError, UnimplementedError
from tvtf.ops.rules import attribute_int, static_value

Padding = tuple[tuple[int, int], ...]
FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def is_channels_first(data_format: str | None, rank: int, op: str) -> bool:
    """Returns whether channels come before the ``rank`` spatial axes.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the op doesn't support the format.
    """
    last, first = FORMATS[rank]
    if data_format not in (None, last, first):
        allowed = f'"{last}", "{first}"'
        error = ArgumentError(
            f"Value for attr 'data_format' of \"{data_format}\" is not in the list of allowed values: {allowed}",
            ValueError,
            f"Attr 'data_format' of '{{op}}' Op passed string '{data_format}' not in: {allowed}.",
        )
        raise error.for_op(op)
    return data_format == first


def channels_last(x: Tensor) -> Tensor:
    """Moves the channels from the second axis to the last."""
    return table["transpose"](x, [0, *range(2, x.ndim), 1])


def channels_first(x: Tensor) -> Tensor:
    """Moves the channels from the last axis to the second."""
    return table["transpose"](x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def steps(value: Any, rank: int, channel_axis: int, name: str, op: str) -> tuple[int, ...]:
    """Returns strides, dilations or window sizes per spatial axis, from an int or a list of 1, rank or rank + 2 ints.

    Raises:
      ValueError: the length of the list doesn't fit the rank.
      UnimplementedError: the entry of the batch or channel axis is not 1.
    """
    if name != "dilations" and isinstance(value, Tensor) and not value.shape.rank:
        raise TypeError(f"{name} must be ints, but got {value!r}: Cannot iterate over a scalar tensor.")
    known = static_value(1 if value is None else value, name)
    items = list(known) if isinstance(known, (list, tuple)) else [known]
    if len(items) not in (1, rank, rank + 2):
        raise ValueError(
            f"{name} should be of length 1, {rank} or {rank + 2}. Received: {name}={value} of length {len(items)}"
        )
    values = [attribute_int(item, name, -(2**31)) for item in items]
    if len(values) == 1:
        return tuple(values * rank)
    if len(values) == rank:
        return tuple(values)
    if values[0] != 1 or values[channel_axis] != 1:  # the item of the batch axis or of the channel axis
        raise _unsupported_axis(name, op)
    return tuple(values[axis] for axis in range(1, rank + 2) if axis != channel_axis)


def _unsupported_axis(name: str, op: str) -> Exception:
    """Returns TensorFlow's error for strides or dilations in the batch or channel axis."""
    return UnimplementedError(
        None, op, f"Current implementation does not yet support {name} in the batch and depth dimensions. [Op:{op}]"
    )


def spatial_steps(value: Any, rank: int, has_channels_first: bool, name: str, op: str) -> tuple[int, ...]:
    """Returns strides, dilations or window sizes per spatial axis, as :func:`steps`. All must be positive."""
    sizes = steps(value, rank, 1 if has_channels_first else rank + 1, name, op)
    if any(size < 1 for size in sizes):
        label = {"strides": "Stride", "dilations": "Dilation rate"}.get(name, f"Sliding window {name}")
        raise ArgumentError(f"{label} must be > 0, but got {min(sizes)}", ValueError).for_op(op)
    return sizes


def extent_of(window: int, dilation: int) -> int:
    """Returns how many elements a window of ``window`` taps spans that are ``dilation`` apart."""
    return (window - 1) * dilation + 1


def paddings(
    padding: Any, sizes: Sequence[Dim], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    first: bool, op: str,
) -> Padding:  # fmt: skip
    """Converts the argument ``padding`` ("SAME", "VALID" or a list of pairs) to a pair of sizes per spatial axis.

    Args:
      padding: "SAME", "VALID" or a list of pairs.
      sizes: the size of each spatial axis.
      window, strides, dilations: an item for each spatial axis.
      first: whether the channels come before the spatial axes.
      op: the name of TensorFlow's op in errors.

    Raises:
      ValueError: SAME padding depends on a size that isn't known while tracing, or the list is malformed.
    """
    if isinstance(padding, bytes):
        padding = padding.decode("utf-8", "replace")
    if isinstance(padding, str):
        return _named_padding(padding, sizes, window, strides, dilations, op)
    return _explicit_padding(padding, len(sizes), first)


def _named_padding(padding: str, sizes: Any, window: Any, strides: Any, dilations: Any, op: str) -> Padding:
    """Converts the padding "VALID" or "SAME" to numbers: a pair ``(before, after)`` for each spatial axis.

    "VALID" means no padding. "SAME" pads so that the result has as many windows as the input has strides, rounded up.

    Args:
      padding: "VALID" or "SAME".
      sizes: the size of each spatial axis.
      window, strides, dilations: an item for each spatial axis.
      op: the name of TensorFlow's op in errors.
    """
    if padding.upper() == "VALID":
        return ((0, 0),) * len(window)
    if padding.upper() != "SAME":
        allowed = '"SAME", "VALID", "EXPLICIT"'
        raise ArgumentError(
            f"Value for attr 'padding' of \"{padding}\" is not in the list of allowed values: {allowed}",
            ValueError,
            f"Attr 'padding' of '{{op}}' Op passed string '{padding}' not in: {allowed}.",
        ).for_op(op)
    pairs = []
    for size, window_size, stride, dilation in zip(sizes, window, strides, dilations):
        pairs.append(_same_padding(size, extent_of(window_size, dilation), stride, op))
    return tuple(pairs)


def _same_padding(size: Dim, extent: int, stride: int, op: str) -> tuple[int, int]:
    """Returns the "SAME" padding ``(before, after)`` of an axis, which gives ``ceil(size / stride)`` results.

    ``extent`` is the size of the dilated window. If the total padding is odd, the end gets the additional zero.
    """
    if stride == 1:
        total = extent - 1
    elif isinstance(size, int):
        last_start = (ceil_div(size, stride) - 1) * stride
        total = max(0, last_start + extent - size)
    else:
        message = (
            f"{op}: padding='SAME' with a stride of {stride} needs a spatial size known while tracing, but it is "
            f"{size}: give the dim in the input signature, or pad explicitly"
        )
        raise unknown_size(ValueError(message))
    before = total // 2
    return before, total - before


def _explicit_padding(padding: Any, rank: int, has_channels_first: bool) -> Padding:
    """Returns explicit padding, a pair for each spatial axis, after checking the given list of a pair for each axis."""
    value = static_value(padding, "padding")
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"Expected string for argument 'padding' not {padding!r}. `padding` must be 'SAME', 'VALID' or a list with a "
            "pair for each axis."
        )
    if not all(isinstance(pair, (list, tuple)) for pair in value):
        raise ValueError(f"Each element of `padding` must be a list of size 2. Received: padding={padding}")
    pairs = [tuple(attribute_int(amount, "padding", -(2**31)) for amount in pair) for pair in value]
    if len(pairs) != rank + 2:
        raise ValueError(
            f"Argument `padding` must be a list of length {rank + 2}, one pair for each axis, or 'SAME' or 'VALID'. "
            f"Received: padding={padding} of length {len(pairs)}"
        )
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"Each element of `padding` must be a list of size 2. Received: padding={padding}")
    if any(amount < 0 for pair in pairs for amount in pair):
        raise InvalidArgumentError(
            None, None, f"All elements of explicit_paddings must be nonnegative. Received: padding={padding}"
        )
    channel_axis = 1 if has_channels_first else rank + 1  # axis 0 is the batch
    if any(pairs[0]) or any(pairs[channel_axis]):
        raise ValueError("Nonzero explicit padding in the batch or depth dimensions is not supported")
    return tuple((before, after) for i, (before, after) in enumerate(pairs) if i not in (0, channel_axis))


def result_sizes(
    sizes: Sequence[Dim], window: Sequence[int], strides: Sequence[int], padding: Padding, dilations: Sequence[int]
) -> tuple[Dim, ...]:
    """Returns the number of window positions along each spatial axis.

    Args:
      sizes: the size of each spatial axis.
      window, strides, dilations: the windows' size, distance, and distance of their elements, for each axis.
      padding: a pair of sizes for each axis.

    Raises:
      ArgumentError: the window is larger than the padded input.
    """
    return tuple(map(_result_size, sizes, window, strides, padding, dilations))


def _result_size(size: Dim, window: int, stride: int, padding: tuple[int, int], dilation: int) -> Dim:
    """Returns the number of pooling or convolution windows along an axis.

    Windows begin ``stride`` apart and lie within the axis, which is ``size`` long and padded by ``padding``.
    """
    extent = extent_of(window, dilation)
    padded_size = size + sum(padding)
    last_start = padded_size - extent
    if isinstance(last_start, int) and last_start < 0:
        if same_dim(size, 0) and last_start + stride >= 0:  # an empty image has no windows
            return 0
        raise ArgumentError(
            f"Computed output size would be negative: {last_start // stride} [input_size: {size}, "
            f"effective_filter_size: {extent}, stride: {stride}]",
            ValueError,
            f"Negative dimension size caused by subtracting {extent} from {padded_size} for {{op}}",
        )
    return simplify_dim(last_start // stride + 1)


# -- NumPy: one strided view of the padded input for each tap of the window


def window_counts(
    sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Returns the number of window positions along each spatial axis of an input that is padded and checked."""
    extents = map(extent_of, window, dilations)
    return tuple(max(0, (size - extent) // stride + 1) for size, extent, stride in zip(sizes, extents, strides))


def padded(x: np.ndarray, padding: Padding, value: Any = 0) -> np.ndarray:
    """Pads the spatial axes of an array (n, *spatial, channels) with a value."""
    return np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value) if any(map(any, padding)) else x


def cropped(x: np.ndarray, padding: Padding) -> np.ndarray:
    """Removes the padding from the spatial axes of an array: undoes :func:`padded`."""
    inside = (slice(None), *(slice(before, size - after) for (before, after), size in zip(padding, x.shape[1:-1])))
    return x[inside]


def taps(
    window: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yields each tap (a position in the window), and the slices of the padded input that the tap reads.

    The slices are strided. They select the tap's element of all windows.

    Args:
      window: the windows' size along each spatial axis.
      sizes: the number of windows along each spatial axis.
      strides, dilations: the distance of windows, and of the elements of a window.
    """
    for tap in itertools.product(*map(range, window)):
        slices = [slice(None)]  # of the batch axis
        for tap_index, dilation, count, stride in zip(tap, dilations, sizes, strides):
            start = tap_index * dilation
            stop = start + (count - 1) * stride + 1 if count else start  # empty without windows
            slices.append(slice(start, stop, stride))
        yield tap, tuple(slices)
