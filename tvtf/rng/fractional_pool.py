"""Fractional pooling: random windows of two sizes, which shrink images by any ratio.

Source: Graham, "Fractional Max-Pooling", 2014; tensorflow/core/kernels/fractional_pool_common.cc
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

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
from tvtf.rng.rng_streams import advanced, first_state


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


def _blocks(count: int, pseudo: bool) -> int:
    """Returns the number of Philox blocks that the borders of ``count`` windows take."""
    return 1 if pseudo else -(-count // philox.LANES)


def _shuffled(size: int, count: int, state: np.ndarray) -> np.ndarray:
    """Returns window sizes in random order: ``size // count`` and one more, adding up to ``size``."""
    sizes = np.full(count, size // count)
    sizes[: size % count] += 1
    words = philox.words(state, count)
    for i in range(count - 1):
        j = i + int(words[i]) % (count - i)
        sizes[[i, j]] = sizes[[j, i]]
    return sizes


def _even(size: int, count: int, state: np.ndarray) -> np.ndarray:
    """Returns the sizes of pseudo-random pooling: borders are multiples of the mean size, moved by a random start."""
    ratio, least = size / count, size // count
    first, second = (int(w) for w in philox.words(state, 2))
    # 52 random bits as the mantissa of a float64 in [1, 2), as in TensorFlow's UniformDistribution<double>.
    start = float(np.array((first & 0xFFFFF) << 32 | second | 1023 << 52, np.uint64).view(np.float64)) - 1.0
    # The largest start for which the first and the last window have at most ``least + 1`` elements.
    start *= min((least + 2) / ratio - 1, (size + 1 - least) / ratio - (count - 1))
    inner = [math.ceil(ratio * (i + start)) for i in range(1, count)]
    return np.diff([1, *inner, size + 1])


def _borders(
    state: np.ndarray, sizes: tuple[int, int], counts: tuple[int, int], pseudo: bool
) -> tuple[np.ndarray, ...]:
    """Returns the borders of windows along each axis; random only if the size is not a multiple of the count."""
    words, result = state.view(np.uint64), []
    for size, count in zip(sizes, counts):
        if size % count == 0:
            steps = np.full(count, size // count)
        else:
            steps = (_even if pseudo else _shuffled)(size, count, words)
            words = philox.skipped(words, _blocks(count, pseudo))
        result.append(np.concatenate([[0], np.cumsum(steps)]).astype(np.int64))
    return tuple(result)


@host_primitive(
    tf_name="FractionalPool",
    type=lambda state, counts, **_: tuple(TensorType((count + 1,), int64) for count in counts),
    numpy=_borders,
    why_not={"vjp": "what is drawn has no gradient"},
)
def window_borders(state: Tensor, sizes: tuple[int, int], counts: tuple[int, int], pseudo: bool) -> Any:
    """Returns the start of each window, and the end of the last, along two axes."""
    return (state,), {"sizes": sizes, "counts": counts, "pseudo": pseudo}


def _ratios(ratio_argument: Any) -> list[float]:
    """Converts ``pooling_ratio`` to four factors. Raises ValueError for a factor below 1."""
    message = "`pooling_ratio` %s. Received: pooling_ratio=" + str(ratio_argument)
    is_number = isinstance(ratio_argument, (int, float))
    if is_number:
        ratio_argument = [1.0, ratio_argument, ratio_argument, 1.0]
    elif not isinstance(ratio_argument, (list, tuple)):
        raise ValueError(message % "should be an int or a list of ints")
    elif len(ratio_argument) in (1, 2):
        ratio_argument = [1.0, ratio_argument[0], ratio_argument[-1], 1.0]
    elif ratio_argument[0] != 1.0 or ratio_argument[-1] != 1.0:
        raise ValueError(message % "should have first and last elements with value 1.0")
    if any(ratio < 1.0 for ratio in ratio_argument):
        raise ValueError(message % ("should be >= 1.0" if is_number else "elements should be >= 1.0"))
    return [float(ratio) for ratio in ratio_argument]


def _pooled(value: Any, ratio: Any, pseudo: bool, overlapping: bool, seed: int, op: str) -> tuple[Tensor, ...]:
    """Pools images along rows, then along columns, over random windows."""
    x, ratios = convert_to_tensor(value), _ratios(ratio)
    sizes = x.shape[1:3].as_list()
    if x.ndim != 4:
        raise ValueError(f"{op}: the images must be 4-dimensional, but have shape {x.shape}")
    if None in sizes:
        raise unknown_size(ValueError(f"{op}: the images must be of known size, but have shape {x.shape}"))
    counts = tuple(int(size / r) for size, r in zip(sizes, ratios[1:3]))
    state = _state(op, seed, sum(_blocks(count, pseudo) for count in counts))
    borders = bind.window_borders(state, sizes=tuple(sizes), counts=counts, pseudo=pseudo)
    for axis, (edges, size, count) in enumerate(zip(borders, sizes, counts), 1):
        x = _along(x, axis, edges, -(-size // count) + overlapping, overlapping, op == "FractionalMaxPool")
    return (x, *borders)


def _state(op: str, seed: int, blocks: int) -> Tensor:
    """Returns the generator state for the windows; a seed gives the same state in each call."""
    return EagerTensor(first_state(seed)) if seed else advanced(op, None, blocks)


def _along(x: Tensor, axis: int, edges: Tensor, width: int, overlapping: bool, takes_largest: bool) -> Tensor:
    """Reduces the windows along an axis to their maximum or mean; ``width`` is that of the widest window."""
    size = x._type.shape[axis]
    last = bind.minimum(edges[1:] - (0 if overlapping else 1), convert_to_tensor(size - 1, int64))  # type: ignore[index]
    places = edges[:-1][:, None] + public_names()["range"](width, dtype=int64)  # type: ignore[index]
    within = places <= last[:, None]
    elements = gather(x, bind.minimum(places, last[:, None]), axis=axis)
    if takes_largest:
        return bind.reduce_max(elements, axis=(axis + 1,), keepdims=False)  # type: ignore[no-any-return]
    rank = x.ndim - axis - 1
    weights = cast(within, x.dtype)
    share = weights / bind.reduce_sum(weights, axis=(1,), keepdims=True)
    wide = bind.reshape(share, shape=(*share._type.shape, *(1,) * rank))
    return bind.reduce_sum(elements * wide, axis=(axis + 1,), keepdims=False)  # type: ignore[no-any-return]


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
      pseudo_random: whether the windows of two sizes are spread evenly; else they are in random order.
      overlapping: whether a window includes the first element of the next.
      seed: a seed draws the same windows with each call; 0 others each time.

    Returns:
      The pooled images, and where windows begin along rows and columns.

    Raises:
      ValueError: a ratio below 1, or images of unknown size.

    >>> import tvtf as tf
    >>> found, rows, _ = tf.nn.fractional_max_pool(tf.reshape(tf.range(16.), [1, 4, 4, 1]), 2.)
    >>> found.numpy().ravel(), rows.numpy()
    (array([ 5.,  7., 13., 15.], dtype=float32), array([0, 2, 4]))

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/fractional_max_pool
    """
    return FractionalMaxPool(*_pooled(value, pooling_ratio, pseudo_random, overlapping, seed, "FractionalMaxPool"))


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
    return FractionalAvgPool(*_pooled(value, pooling_ratio, pseudo_random, overlapping, seed, "FractionalAvgPool"))
