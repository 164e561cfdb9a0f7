"""Fractional pooling: random windows of two sizes, which shrink images by any ratio.

Source: Graham, "Fractional Max-Pooling", 2014; tensorflow/core/kernels/fractional_pool_common.cc
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.integers import ceil_div
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import TensorType
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops import philox
from tvtf.ops.cast import cast
from tvtf.ops.host import host_primitive
from tvtf.ops.indexing import gather
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind
from tvtf.rng.rng_streams import reserve_blocks
from tvtf.state.random_streams import first_state


class FractionalMaxPool(NamedTuple):
    """The result of `tf.nn.fractional_max_pool`."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


class FractionalAvgPool(NamedTuple):
    """The result of `tf.nn.fractional_avg_pool`."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


def _random_blocks(count: int, pseudo: bool) -> int:
    """Returns the number of blocks of random words (Philox blocks) that are drawn for ``count`` pooling windows.

    Pseudorandom windows need two words, random ones a word each. A block has four words.
    """
    return 1 if pseudo else ceil_div(count, philox.LANES)


def _random_window_sizes(size: int, count: int, state: np.ndarray) -> np.ndarray:
    """Returns the sizes of ``count`` random pooling windows that together cover ``size`` elements.

    A window has ``size // count`` elements or one more. A Fisher-Yates shuffle determines the order. ``state`` is the
    random generator's state.
    """
    sizes = np.full(count, size // count)
    sizes[: size % count] += 1
    random_words = philox.words(state, count)
    for i in range(count - 1):
        j = i + int(random_words[i]) % (count - i)  # an element that is not yet shuffled
        sizes[[i, j]] = sizes[[j, i]]
    return sizes


def _pseudorandom_window_sizes(size: int, count: int, state: np.ndarray) -> np.ndarray:
    """Returns the sizes of ``count`` pseudorandom pooling windows that together cover ``size`` elements.

    The borders between the windows are evenly spaced, moved by a random start, and rounded up. ``state`` is the random
    generator's state.
    """
    ratio = size / count
    smallest = size // count
    first, second = (int(word) for word in philox.words(state, 2))
    # 52 random bits as the mantissa of a float64 in [1, 2), as in TensorFlow's UniformDistribution<double>.
    exponent_of_one = 1023 << 52
    float_bits = exponent_of_one | (first & 0xFFFFF) << 32 | second
    start = float(np.array(float_bits, np.uint64).view(np.float64)) - 1.0
    # The largest start for which the first and the last window have at most ``smallest + 1`` elements.
    start *= min((smallest + 2) / ratio - 1, (size + 1 - smallest) / ratio - (count - 1))
    inner_borders = [math.ceil(ratio * (i + start)) for i in range(1, count)]
    return np.diff([1, *inner_borders, size + 1])  # positions count from 1


def _window_borders(
    state: np.ndarray, sizes: tuple[int, int], counts: tuple[int, int], pseudo: bool
) -> tuple[np.ndarray, ...]:
    """Computes the borders of pooling windows along the rows and columns of images.

    The result for an axis begins with 0 and ends with the axis's size. The windows have equal sizes if the number of
    windows divides the size. Otherwise the sizes are random.

    Args:
      state: the random generator's state.
      sizes, counts: the number of elements and of windows along rows and along columns.
      pseudo: whether larger and smaller windows are spread evenly.
    """
    draw_window_sizes = _pseudorandom_window_sizes if pseudo else _random_window_sizes
    state_words = state.view(np.uint64)
    result = []
    for size, count in zip(sizes, counts):
        if size % count == 0:
            window_sizes = np.full(count, size // count)
        else:
            window_sizes = draw_window_sizes(size, count, state_words)
            state_words = philox.skipped(state_words, _random_blocks(count, pseudo))
        borders = np.concatenate([[0], np.cumsum(window_sizes)])
        result.append(borders.astype(np.int64))
    return tuple(result)


@host_primitive(
    tf_name="FractionalPool",
    type=lambda state, counts, **_: tuple(TensorType((count + 1,), int64) for count in counts),
    numpy=_window_borders,
    why_not={"vjp": "what is drawn has no gradient"},
)
def window_borders(state: Tensor, sizes: tuple[int, int], counts: tuple[int, int], pseudo: bool) -> Any:
    """Returns the start of each window, and the end of the last, along two axes."""
    return (state,), {"sizes": sizes, "counts": counts, "pseudo": pseudo}


def _parse_ratios(ratio_argument: Any) -> list[float]:
    """Converts the argument ``pooling_ratio`` to four factors: for batch, rows, columns and channels.

    Raises:
      ValueError: the argument is no number or list, a ratio is below 1, or the ratio of the batch or channels is not 1.
    """
    message = "`pooling_ratio` %s. Received: pooling_ratio=" + str(ratio_argument)
    is_number = isinstance(ratio_argument, (int, float))
    if is_number:
        ratio_argument = [1.0, ratio_argument, ratio_argument, 1.0]
    elif not isinstance(ratio_argument, (list, tuple)):
        raise ValueError(message % "should be an int or a list of ints")
    elif len(ratio_argument) in (1, 2):  # for rows and columns
        ratio_argument = [1.0, ratio_argument[0], ratio_argument[-1], 1.0]
    elif ratio_argument[0] != 1.0 or ratio_argument[-1] != 1.0:
        raise ValueError(message % "should have first and last elements with value 1.0")
    if any(ratio < 1.0 for ratio in ratio_argument):
        raise ValueError(message % ("should be >= 1.0" if is_number else "elements should be >= 1.0"))
    return [float(ratio) for ratio in ratio_argument]


def _fractional_pool(value: Any, ratio: Any, pseudo: bool, overlapping: bool, seed: int, op: str) -> tuple[Tensor, ...]:
    """Pools images over windows of two sizes (fractional pooling), first along rows, then along columns.

    Args:
      value: the images, of shape (batch, rows, columns, channels).
      ratio: the factor by which the images shrink.
      pseudo: whether larger and smaller windows are spread evenly.
      overlapping: whether a window includes the first element of the next window.
      op: the name of TensorFlow's op, "FractionalMaxPool" or "FractionalAvgPool".

    Returns:
      The pooled images, and the borders of the windows along rows and along columns.
    """
    x = convert_to_tensor(value)
    ratios = _parse_ratios(ratio)
    sizes = x.shape[1:3].as_list()
    if x.ndim != 4:
        raise ValueError(f"{op}: the images must be 4-dimensional, but have shape {x.shape}")
    if None in sizes:
        raise unknown_size(ValueError(f"{op}: the images must be of known size, but have shape {x.shape}"))
    counts = tuple(int(size / axis_ratio) for size, axis_ratio in zip(sizes, ratios[1:3]))
    state = _generator_state(op, seed, sum(_random_blocks(count, pseudo) for count in counts))
    borders = bind.window_borders(state, sizes=tuple(sizes), counts=counts, pseudo=pseudo)
    for axis, (axis_borders, size, count) in enumerate(zip(borders, sizes, counts), 1):
        largest_window = -(-size // count) + overlapping
        x = _pool_axis(x, axis, axis_borders, largest_window, overlapping, op == "FractionalMaxPool")
    return (x, *borders)


def _generator_state(op: str, seed: int, blocks: int) -> Tensor:
    """Returns the random generator's state for one call of fractional pooling, which draws ``blocks`` blocks.

    A seed gives the same state in each call. Without a seed (0), each call continues the op's random stream.
    """
    return EagerTensor(first_state(seed)) if seed else reserve_blocks(op, None, blocks)


def _pool_axis(x: Tensor, axis: int, borders: Tensor, width: int, overlapping: bool, is_max: bool) -> Tensor:
    """Reduces each pooling window along an axis to its maximum or mean.

    Smaller windows are padded to the size of the largest window, ``width``, by repeating their last element. The
    padding doesn't change the maximum, and has weight 0 in the mean.

    Args:
      x: the tensor.
      axis: the axis.
      borders: vector of the starts of the windows, then the end of the last one.
      width: the size of the largest window.
      overlapping: whether a window contains the first element of the next one.
      is_max: whether to compute the maximum; otherwise the mean.
    """
    size = x._type.shape[axis]
    last_elements = bind.minimum(borders[1:] - (0 if overlapping else 1), convert_to_tensor(size - 1, int64))  # type: ignore[index]
    element_indices = borders[:-1][:, None] + public_names()["range"](width, dtype=int64)  # type: ignore[index]
    is_inside = element_indices <= last_elements[:, None]
    elements = gather(x, bind.minimum(element_indices, last_elements[:, None]), axis=axis)
    if is_max:
        return bind.reduce_max(elements, axis=(axis + 1,), keepdims=False)  # type: ignore[no-any-return]
    inner_rank = x.ndim - axis - 1
    weights = cast(is_inside, x.dtype)
    share = weights / bind.reduce_sum(weights, axis=(1,), keepdims=True)
    broadcastable_share = bind.reshape(share, shape=(*share._type.shape, *(1,) * inner_rank))
    return bind.reduce_sum(elements * broadcastable_share, axis=(axis + 1,), keepdims=False)  # type: ignore[no-any-return]


@export("nn.fractional_max_pool")
@attributes(pseudo_random=bool, overlapping=bool)
def fractional_max_pool(
    value: Any,
    pooling_ratio: float | Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> FractionalMaxPool:
    """Returns the maximum of windows with random borders.

    Args:
      value: tensor of shape (n, rows, columns, channels), of known size.
      pooling_ratio: the factor by which images shrink: one number, two, or four of which the first and the last are 1.
      pseudo_random: whether the windows of two sizes are spread evenly; otherwise they are in random order.
      overlapping: whether a window includes the first element of the next.
      seed: a seed draws the same windows with each call; 0 others each time.

    Returns:
      The pooled images, and where windows begin along rows and columns.

    Raises:
      ValueError: a ratio is below 1, or the size of the images is unknown.

    >>> import tvtf as tf
    >>> found, rows, _ = tf.nn.fractional_max_pool(tf.reshape(tf.range(16.), [1, 4, 4, 1]), 2.)
    >>> found.numpy().ravel(), rows.numpy()
    (array([ 5.,  7., 13., 15.], dtype=float32), array([0, 2, 4]))

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/fractional_max_pool
    """
    return FractionalMaxPool(
        *_fractional_pool(value, pooling_ratio, pseudo_random, overlapping, seed, "FractionalMaxPool")
    )


@export("nn.fractional_avg_pool")
@attributes(pseudo_random=bool, overlapping=bool)
def fractional_avg_pool(
    value: Any,
    pooling_ratio: float | Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> FractionalAvgPool:
    """Returns the means of windows with random borders; see `tf.nn.fractional_max_pool`.

    >>> import tvtf as tf
    >>> tf.nn.fractional_avg_pool(tf.reshape(tf.range(16.), [1, 4, 4, 1]), 2.).output.numpy().ravel()
    array([ 2.5,  4.5, 10.5, 12.5], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/fractional_avg_pool
    """
    return FractionalAvgPool(
        *_fractional_pool(value, pooling_ratio, pseudo_random, overlapping, seed, "FractionalAvgPool")
    )
