"""Isotonic regression: the nearest sequence that does not rise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import bfloat16, float16, float32, float64, int8, int16, int32
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.host import host_primitive
from tvtf.ops.rules import bind

_RESULTS = {float32: float32, float16: float16, bfloat16: bfloat16, int8: float32, int16: float32}


class IsotonicRegression(NamedTuple):
    """The result of `tf.nn.isotonic_regression`."""

    output: Tensor
    segments: Tensor


def _pool_violators(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the isotonic regression of a row, the nearest sequence that never rises, by pooling adjacent violators.

    Neighbouring segments whose means rise are merged. Returns the mean of each element's segment, and the segment's
    number.
    """
    totals: list[float] = []  # the sum of each segment's elements
    counts: list[int] = []  # and their number
    for value in row.tolist():
        totals.append(value)
        counts.append(1)
        while len(totals) > 1 and totals[-2] / counts[-2] < totals[-1] / counts[-1]:  # the mean rises
            last_total = totals.pop()
            last_count = counts.pop()
            totals[-1] += last_total
            counts[-1] += last_count
    means = [total / count for total, count in zip(totals, counts)]
    segment_numbers = np.arange(len(counts))
    return np.repeat(np.array(means, np.float64), counts), np.repeat(segment_numbers, counts)


def _regression(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the isotonic regression of each row, and each element's segment of equal results."""
    result = np.empty_like(x)
    segments = np.empty(x.shape, np.int32)
    for index in np.ndindex(x.shape[:-1]):
        result[index], segments[index] = _pool_violators(x[index].astype(np.float64))
    return result, segments


def _averages(x: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Replaces each element along the last axis by the mean of its segment."""
    result = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        counts = np.maximum(np.bincount(segments[index]), 1)
        result[index] = (np.bincount(segments[index], x[index]) / counts)[segments[index]]
    return result


@host_primitive(
    tf_name="IsotonicRegression",
    type=lambda x: (x, TensorType(x.shape, int32)),
    numpy=_regression,
    vjp=lambda cotangent, y, x: None if cotangent[0] is None else bind.segment_averages(cotangent[0], y[1]),
)
def nonincreasing(x: Tensor) -> Any:
    """Returns the nearest vectors that do not rise, and their level segments."""
    return (x,), {}


@host_primitive(
    tf_name="IsotonicRegressionGrad",
    type=lambda x, segments: x,
    numpy=_averages,
    vjp=lambda cotangent, y, x, segments: (bind.segment_averages(cotangent, segments), None),
)
def segment_averages(x: Tensor, segments: Tensor) -> Any:
    """Replaces each element by the mean of its segment."""
    return (x, segments), {}


@export("nn.isotonic_regression")
def isotonic_regression(inputs: Any, decreasing: bool = True, axis: int = -1) -> Any:
    """Returns the sequences nearest to the given ones that do not rise, by the sum of squares.

    Args:
      inputs: numeric tensor; integers of 32 bits and more give float64.
      decreasing: whether the results must not rise, else not fall.
      axis: the axis of the sequences.

    Returns:
      The sequences, and int32 indices of the level segments that elements are in.

    Raises:
      InvalidArgumentError: the axis is out of range.

    >>> import tvtf as tf
    >>> found, segments = tf.nn.isotonic_regression([[3., 1., 2.]])
    >>> found.numpy().tolist(), segments.numpy().tolist()
    ([[3.0, 1.5, 1.5]], [[0, 1, 1]])

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/isotonic_regression
    """
    x = convert_to_tensor(inputs)
    x = cast(x, _RESULTS.get(x.dtype, float64))
    rank = x.ndim
    if not rank and axis == -1:  # TensorFlow's kernel takes a scalar as a vector of one
        return IsotonicRegression(x, EagerTensor(np.int32(0)))
    if not -rank <= axis < rank:
        message = f"`dim` must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions in the input. Received: dim={axis}"
        raise InvalidArgumentError(None, None, message)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    is_last = axis % rank == rank - 1
    x = x if is_last else bind.transpose(x, perm=tuple(order))
    output, segments = bind.nonincreasing(x if decreasing else -x)
    results = [output if decreasing else -output, segments]
    if not is_last:
        results = [bind.transpose(each, perm=tuple(order)) for each in results]
    return IsotonicRegression(*results) if is_last and decreasing else tuple(results)
