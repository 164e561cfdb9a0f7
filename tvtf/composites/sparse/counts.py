"""``tf.sparse.bincount``: counts of numbers as a sparse tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.sparse.cutting import require_same_places, retain
from tvtf.composites.sparse.kernels import distinct_places, vector
from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int32, int64
from tvtf.ops.array import shape as shape_of
from tvtf.ops.rules import attribute_bool, bind, number, require_dtype
from tvtf.ops.value_checks import required

_NATURAL = "Input values must all be non-negative"


def _check_natural(numbers: np.ndarray) -> None:
    if (numbers < 0).any():
        raise ArgumentError(_NATURAL).for_op("DenseCountSparseOutput")


@export("sparse.bincount")
def bincount(
    values: Any,
    weights: Any = None,
    axis: int | None = 0,
    minlength: int | None = None,
    maxlength: int | None = None,
    binary_output: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """Counts the occurrences of each number, or sums their weights.

    Args:
      values: integer tensor or SparseTensor of non-negative numbers; a matrix if ``axis`` is -1.
      weights: the weight of each number, in the form of ``values``.
      axis: 0 counts all numbers together, -1 counts in each row of a matrix.
      minlength: the minimum size of the last dim.
      maxlength: the size of the last dim; larger numbers are ignored.
      binary_output: counts 1 for each number that occurs.

    Returns:
      A SparseTensor of shape (n,) or (rows, n), of the dtype of ``weights``, or of ``values`` without.

    Raises:
      ValueError: another axis, weights of another kind, or weights beside ``binary_output``.
      InvalidArgumentError: a negative number.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sparse.bincount([[1, 2, 1], [0, 0, 3]], axis=-1)).numpy()
    array([[0, 2, 1, 0],
           [2, 0, 0, 1]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/bincount
    """
    if weights is not None and binary_output:
        raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
    if axis not in (None, 0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
    rows, numbers, shares, lead = _elements(values, weights, axis == -1)
    require_dtype(numbers._type, (int32, int64), "values")
    numbers = required(numbers, _check_natural, lambda x: bind.greater_equal(x, number(0, x)), _NATURAL)
    wide = bind.cast(numbers, dtype=int64)
    places = bind.stack(rows, wide, axis=1) if lead is not None else bind.reshape(wide, shape=(*wide._type.shape, 1))
    terms = bind.broadcast_to(number(1, numbers), shape=numbers._type.shape) if shares is None else shares
    listed = SparseTensor(places, terms, vector([0] * places._type.shape[1]))
    if maxlength is not None:
        listed = retain(listed, bind.less(wide, number(maxlength, wide)))
    result, back = distinct_places(listed.indices)
    counts = bind.unsorted_segment_sum(listed.values, back, num_segments=result._type.shape[0])
    counts = bind.minimum(counts, number(1, counts)) if attribute_bool(binary_output, "binary_output") else counts
    last = _length(wide, minlength, maxlength)
    return SparseTensor(result, counts, last if lead is None else bind.concat(lead, last, axis=0))


def _elements(values: Any, weights: Any, by_row: bool) -> tuple[Any, Tensor, Any, Any]:
    """Returns row ids, numbers and weights, and the number of rows; without rows for a vector."""
    if isinstance(values, SparseTensor):
        shares = None if weights is None else sparse_weights(values, weights)
        by_row = by_row and values.indices._type.shape[1] != 1
        return values.indices[:, 0], values.values, shares, values.dense_shape[:1] if by_row else None
    x = convert_to_tensor(values)
    shares = None if weights is None else convert_to_tensor(weights)
    if shares is not None and shares.shape != x.shape:
        raise ArgumentError(f"Weights and values must have the same shape: {shares.shape} vs. {x.shape}").for_op(
            "DenseCountSparseOutput"
        )
    shape = x._type.shape
    flat = [None if t is None else bind.reshape(t, shape=(size_of(shape),)) for t in (x, shares)]
    if not by_row or len(shape) == 1:
        return None, flat[0], flat[1], None  # type: ignore[return-value]
    count = shape[0]
    steps = bind.reshape(bind.range(size=count, start=0, delta=1, dtype=int64), shape=(count, 1))
    rows = bind.reshape(bind.broadcast_to(steps, shape=(count, shape[-1])), shape=(size_of(shape),))
    return rows, flat[0], flat[1], shape_of(x, int64)[:1]  # type: ignore[return-value]


def sparse_weights(values: SparseTensor, weights: Any) -> Tensor:
    """Returns the values of sparse weights, which must have the indices of the values."""
    if not isinstance(weights, SparseTensor):
        raise ValueError(
            f"Argument `weights` must be a SparseTensor if `values` is a SparseTensor. Received weights={weights} of type: "
            f"{type(weights).__name__}"
        )
    require_same_places(values, weights)
    return weights.values


def _length(numbers: Tensor, minlength: int | None, maxlength: int | None) -> Tensor:
    """Returns the size of the last dim as a vector of length 1."""
    if maxlength is not None:
        return vector([maxlength])
    least = EagerTensor(np.zeros(1, np.int64))
    most = bind.reduce_max(bind.concat(least, numbers, axis=0), axis=(0,), keepdims=True)
    return bind.maximum(bind.add(most, number(1, most)), vector([minlength or 0]))  # type: ignore[no-any-return]
