"""``tf.ragged_fill_empty_rows``: adds a default value to each empty row."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import agree_dim, brackets
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.grids import invert_permutation
from tvtf.ops.indexing import in_range, nonzero_indices
from tvtf.ops.operands import operand
from tvtf.ops.rules import bind, number, size_argument
from tvtf.ops.value_checks import required

OP = "RaggedFillEmptyRows"


class RaggedFillEmptyRows(NamedTuple):
    """The result of `tf.ragged_fill_empty_rows`."""

    output_value_rowids: Tensor
    output_values: Tensor
    empty_row_indicator: Tensor
    reverse_index_map: Tensor


class RaggedFillEmptyRowsGrad(NamedTuple):
    """The result of `tf.ragged_fill_empty_rows_grad`."""

    d_values: Tensor
    d_default_value: Tensor


@export("ragged_fill_empty_rows")
def ragged_fill_empty_rows(
    value_rowids: Any, values: Any, nrows: Any, default_value: Any, name: str | None = None
) -> RaggedFillEmptyRows:
    """Adds ``default_value`` to each row that has no values.

    Args:
      value_rowids: int64 vector: the row of each value.
      values: vector.
      nrows: int64 scalar.
      default_value: scalar.

    Returns:
      Row ids and values in the order of rows; whether each row was empty; the new index of each value.

    Raises:
      InvalidArgumentError: an argument has a wrong rank or length, or a row id is not less than ``nrows``.

    >>> import tvtf as tf
    >>> tf.ragged_fill_empty_rows([0, 2], [1., 2.], 3, 9.).output_values.numpy()
    array([1., 9., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged_fill_empty_rows
    """
    rows = operand(value_rowids, int64)
    x = convert_to_tensor(values)
    default = convert_to_tensor(default_value, x.dtype)
    count = size_argument(nrows, "nrows")
    _check_ranks(rows, x, default)
    message = "indices are not in the rows that there are"
    rows = required(rows, partial(_check_rows, count=count), lambda x: in_range(x, count), message)
    ones = bind.broadcast_to(number(1, rows), shape=rows._type.shape)
    row_lengths = bind.unsorted_segment_sum(ones, rows, num_segments=count)
    is_empty = bind.equal(row_lengths, number(0, row_lengths))
    empty_rows = bind.reshape(nonzero_indices(is_empty), shape=(-1,))
    all_rows = bind.concat(rows, empty_rows, axis=0)
    order = bind.argsort(all_rows, descending=False)
    all_values = bind.concat(x, bind.broadcast_to(default, shape=empty_rows._type.shape), axis=0)
    sorted_position = bind.cast(invert_permutation(order), dtype=int64)
    return RaggedFillEmptyRows(
        _gather(all_rows, order), _gather(all_values, order), is_empty, sorted_position[: rows._type.shape[0]]
    )


def _gather(x: Tensor, order: Tensor) -> Tensor:
    return bind.gather(x, order, axis=0, batch_dims=0)  # type: ignore[no-any-return]


def _check_ranks(rows: Tensor, x: Tensor, default: Tensor) -> None:
    """Checks that values and row ids are vectors of the same length, and that the default is a scalar, or raises."""
    message = None
    if x.ndim != 1:
        message = f"values must be a vector, saw: {brackets(x._type.shape)}"
    elif rows.ndim != 1:
        message = f"value_rowids must be a vector, saw: {brackets(rows._type.shape)}"
    elif default.ndim != 0:
        message = f"default_value must be a scalar, saw: {brackets(default._type.shape)}"
    elif not agree_dim(x._type.shape[0], rows._type.shape[0]):
        message = (
            f"The length of `values` ({x._type.shape[0]}) must match the first dimension of `value_rowids` "
            f"({rows._type.shape[0]})."
        )
    if message:
        raise ArgumentError(message).for_op(OP)


def _check_rows(rows: np.ndarray, count: Any) -> None:
    for position in np.flatnonzero((rows < 0) | (rows >= count)):
        raise ArgumentError(f"indices({position}, 0) is invalid: {rows[position]} >= {count}").for_op(OP)


@export("ragged_fill_empty_rows_grad")
def ragged_fill_empty_rows_grad(
    reverse_index_map: Any, grad_values: Any, name: str | None = None
) -> RaggedFillEmptyRowsGrad:
    """Returns the gradients of `ragged_fill_empty_rows` with respect to its values and its default value.

    Args:
      reverse_index_map: int64 vector, the new index of each value.
      grad_values: vector, the gradient of each output value.

    >>> import tvtf as tf
    >>> tf.ragged_fill_empty_rows_grad([0, 2], [1., 10., 100.]).d_default_value.numpy()
    np.float32(10.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged_fill_empty_rows_grad
    """
    gradients = convert_to_tensor(grad_values)
    value_positions = operand(reverse_index_map, int64)
    if value_positions.ndim != 1:
        raise ArgumentError(f"reverse_index_map must be a vector, saw: {brackets(value_positions._type.shape)}")
    ones = bind.broadcast_to(number(1, value_positions), shape=value_positions._type.shape)
    # An output that no value was copied to is the default, in a row that was empty.
    value_counts = bind.unsorted_segment_sum(ones, value_positions, num_segments=gradients._type.shape[0])
    default_gradients = bind.select(bind.equal(value_counts, number(0, value_counts)), gradients, number(0, gradients))
    return RaggedFillEmptyRowsGrad(
        _gather(gradients, value_positions), bind.reduce_sum(default_gradients, axis=(0,), keepdims=False)
    )
