"""``tf.sparse.bincount``: counts of numbers as a sparse tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.sparse.cutting import require_same_indices, retain
from tvtf.composites.sparse.kernels import distinct_indices, vector
from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int32, int64
from tvtf.ops.array import shape as shape_of
from tvtf.ops.rules import attribute_bool, bind, number, require_dtype
from tvtf.ops.value_checks import required

_NEGATIVE_MESSAGE = "Input values must all be non-negative"


def _check_nonnegative(numbers: np.ndarray) -> None:
    if (numbers < 0).any():
        raise ArgumentError(_NEGATIVE_MESSAGE).for_op("DenseCountSparseOutput")


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
      ValueError: ``axis`` is not supported, ``values`` is sparse but ``weights`` is not, or both ``weights`` and
        ``binary_output`` are set.
      InvalidArgumentError: a counted number is negative.

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
    rows, numbers, element_weights, leading_shape = _elements(values, weights, axis == -1)
    require_dtype(numbers._type, (int32, int64), "values")
    numbers = required(numbers, _check_nonnegative, lambda x: bind.greater_equal(x, number(0, x)), _NEGATIVE_MESSAGE)
    wide_numbers = bind.cast(numbers, dtype=int64)
    indices = (
        bind.stack(rows, wide_numbers, axis=1)
        if leading_shape is not None
        else bind.reshape(wide_numbers, shape=(*wide_numbers._type.shape, 1))
    )
    counted = (
        bind.broadcast_to(number(1, numbers), shape=numbers._type.shape) if element_weights is None else element_weights
    )
    elements = SparseTensor(indices, counted, vector([0] * indices._type.shape[1]))
    if maxlength is not None:
        elements = retain(elements, bind.less(wide_numbers, number(maxlength, wide_numbers)))
    result, bin_of_element = distinct_indices(elements.indices)
    counts = bind.unsorted_segment_sum(elements.values, bin_of_element, num_segments=result._type.shape[0])
    counts = bind.minimum(counts, number(1, counts)) if attribute_bool(binary_output, "binary_output") else counts
    last = _number_of_bins(wide_numbers, minlength, maxlength)
    return SparseTensor(result, counts, last if leading_shape is None else bind.concat(leading_shape, last, axis=0))


def _elements(values: Any, weights: Any, by_row: bool) -> tuple[Any, Tensor, Any, Any]:
    """Flattens the arguments of ``tf.sparse.bincount``.

    Returns the row id of each element, the elements (numbers to count), their weights or None, and the number of rows
    as a vector. The number of rows is None if all elements are counted together.
    """
    if isinstance(values, SparseTensor):
        flat_weights = None if weights is None else sparse_weights(values, weights)
        by_row = by_row and values.indices._type.shape[1] != 1
        return values.indices[:, 0], values.values, flat_weights, values.dense_shape[:1] if by_row else None
    x = convert_to_tensor(values)
    flat_weights = None if weights is None else convert_to_tensor(weights)
    if flat_weights is not None and flat_weights.shape != x.shape:
        raise ArgumentError(f"Weights and values must have the same shape: {flat_weights.shape} vs. {x.shape}").for_op(
            "DenseCountSparseOutput"
        )
    shape = x._type.shape
    flat_shape = (size_of(shape),)
    flat_x = bind.reshape(x, shape=flat_shape)
    if flat_weights is not None:
        flat_weights = bind.reshape(flat_weights, shape=flat_shape)
    if not by_row or len(shape) == 1:
        return None, flat_x, flat_weights, None
    row_count = shape[0]
    row_ids = bind.reshape(bind.range(size=row_count, start=0, delta=1, dtype=int64), shape=(row_count, 1))
    rows = bind.reshape(bind.broadcast_to(row_ids, shape=(row_count, shape[-1])), shape=flat_shape)
    return rows, flat_x, flat_weights, shape_of(x, int64)[:1]


def sparse_weights(values: SparseTensor, weights: Any) -> Tensor:
    """Returns the values of sparse ``weights``, after checking that they have the same indices as ``values``."""
    if not isinstance(weights, SparseTensor):
        raise ValueError(
            f"Argument `weights` must be a SparseTensor if `values` is a SparseTensor. Received weights={weights} of type: "
            f"{type(weights).__name__}"
        )
    require_same_indices(values, weights)
    return weights.values


def _number_of_bins(numbers: Tensor, minlength: int | None, maxlength: int | None) -> Tensor:
    """Returns the number of bins, the last dim of ``bincount``'s result, as a vector of length 1."""
    if maxlength is not None:
        return vector([maxlength])
    zero = EagerTensor(np.zeros(1, np.int64))
    largest = bind.reduce_max(bind.concat(zero, numbers, axis=0), axis=(0,), keepdims=True)
    return bind.maximum(bind.add(largest, number(1, largest)), vector([minlength or 0]))  # type: ignore[no-any-return]
