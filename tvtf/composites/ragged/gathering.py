"""``tf.gather`` and ``tf.gather_nd`` with ragged params or indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.ragged.build import from_tensor, gather_rows, joined_axes, split_axis
from tvtf.composites.ragged.kernels import positions
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.shape import size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather as dense_gather
from tvtf.ops.indexing import gather_nd as dense_gather_nd
from tvtf.ops.rules import bind, static_int


def as_tensor(value: Any) -> Any:
    """Converts a value to a tensor; ragged tensors are returned unchanged."""
    return value if isinstance(value, (RaggedTensor, Tensor)) else convert_to_tensor(value)


def gather(params: Any, indices: Any, axis: Any = None, batch_dims: int = 0) -> Any:
    """Implements ``tf.gather`` for ragged params or indices. Negative axes and batch dims count from the end."""
    values = as_tensor(params)
    positions = as_tensor(indices)
    if _is_ragged(positions):
        positions = positions.with_flat_values(cast(positions.flat_values, int64))
    else:
        positions = cast(positions, int64)
    batch_count = static_int(batch_dims, "batch_dims")
    if batch_count < 0:
        batch_count += positions.shape.rank or 0
    gather_axis = batch_count if axis is None else static_int(axis, "axis")
    if gather_axis < 0:
        gather_axis += values.shape.rank
    return _gather(values, positions, gather_axis, batch_count)


def _is_ragged(value: Any) -> bool:
    return isinstance(value, RaggedTensor)


def _gather(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """Gathers slices of dense or ragged tensors along an axis, as ``tf.gather`` with non-negative arguments.

    Each ragged case is reduced to a gather of whole rows.

    Args:
      params: the tensor to read from.
      indices: positions along the axis.
      axis: the axis.
      batch_dims: the number of leading axes that both tensors share.
    """
    if not _is_ragged(params) and not _is_ragged(indices):
        return dense_gather(params, indices, axis=axis, batch_dims=batch_dims)
    if batch_dims:
        return _gather_in_batches(params, indices, axis, batch_dims)
    if axis > 1:
        rows = _as_ragged(params)
        return rows.with_values(_gather(rows.values, indices, axis - 1, 0))
    if axis == 1:  # item j of row i is item row_starts[i] + j of the flat values
        value_indices = _offset_indices(params, indices, indices.shape.rank + 1)
        return _gather(_merge_outer_axes(params), value_indices, 0, 0)
    if _is_ragged(indices):
        return indices.with_values(_gather(params, indices.values, 0, 0))
    return _gather_rows_of(params, indices)


def _gather_rows_of(params: RaggedTensor, indices: Tensor) -> Any:
    """Gathers rows of a ragged tensor by dense indices of any rank."""
    if indices.ndim == 0:
        return params[indices]
    if indices.ndim == 1:
        return gather_rows(params, indices)
    rows = from_tensor(indices, None, None, indices.ndim - 1, params.row_splits.dtype)
    # Its partitions are uniform, but TensorFlow's result does not say so.
    rows = RaggedTensor.from_nested_row_splits(rows.flat_values, rows.nested_row_splits, validate=False)
    return _gather(params, rows, 0, 0)


def _gather_in_batches(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """Gathers slices of ragged tensors with batch dims, as ``tf.gather``.

    Indices that count within one batch item are converted to indices that count through the whole batch.

    Raises:
      ValueError: the batch dims of ``params`` and ``indices`` are incompatible.
    """
    params_batch = params.shape[:batch_dims]
    indices_batch = indices.shape[:batch_dims]
    if not params_batch.is_compatible_with(indices_batch):
        raise ValueError(f"batch shape from indices {indices_batch} does not match params shape {params.shape}")
    if batch_dims > 1:  # below the outermost axis, the same with one batch dim less
        rows = _as_ragged(params)
        row_indices = _as_ragged(indices)
        gathered_values = _gather(rows.values, row_indices.values, axis - 1, batch_dims - 1)
        return rows.with_values(gathered_values)
    if axis > 1:  # the indices of each batch item are repeated for each of its rows: one batch dim more
        rows = _as_ragged(params)
        item_of_each_row = rows.with_values(rows.value_rowids())
        repeated_indices = _gather(indices, cast_values(item_of_each_row), 0, 0)
        return _gather_in_batches(rows, repeated_indices, axis, 2)
    all_rows = _merge_outer_axes(params)
    row_indices = _offset_indices(params, indices, indices.shape.rank)
    return _gather(all_rows, row_indices, axis - 1, 0)


def cast_values(ragged: RaggedTensor) -> RaggedTensor:
    """Casts the values to int64."""
    return ragged.with_flat_values(cast(ragged.flat_values, int64))


def _as_ragged(value: Any) -> RaggedTensor:
    return value if _is_ragged(value) else from_tensor(value, None, None, 1, int64)


def _merge_outer_axes(params: Any) -> Any:
    """Merges the outermost two axes."""
    return params.values if _is_ragged(params) else joined_axes(params)


def _offset_indices(params: Any, indices: Any, rank: int) -> Any:
    """Adds the start of each row to the row's indices; the sums are indices into the values of all rows of ``params``.

    The vector of starts is reshaped to ``rank`` dims to broadcast with the indices.
    """
    if _is_ragged(params):
        starts = cast(params.row_starts(), int64)
    else:
        starts = positions(params) * params._type.shape[1]
    (row_count,) = starts._type.shape
    trailing_ones = (1,) * (rank - 1)
    return indices + bind.reshape(starts, shape=(row_count, *trailing_ones))


def gather_nd(
    function: Any, params: Any, indices: Any, batch_dims: int = 0, name: Any = None, bad_indices_policy: str = ""
) -> Any:
    """Implements ``tf.gather_nd`` for ragged params or indices.

    Args:
      function: the ``gather_nd`` of dense tensors; not used.
      params: the tensor to gather from.
      indices: the index vectors, along the last axis.
      batch_dims: the number of batch dims, which must be 0.
      bad_indices_policy: TensorFlow's argument; not used.
    """
    if batch_dims:
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    values = as_tensor(params)
    index_vectors = as_tensor(indices)
    shape = index_vectors.shape
    if shape.rank == 0:
        raise ValueError("indices.rank must be at least 1.")
    if _is_ragged(index_vectors) and shape.rank == index_vectors.ragged_rank + 1:
        raise ValueError("The innermost dimension of indices may not be ragged")
    if shape.rank is None or shape[-1] is None:
        raise ValueError("indices.shape[-1] must be statically known.")
    return _gather_nd(values, index_vectors)


def _gather_nd(params: Any, indices: Any) -> Any:
    """Gathers slices of a ragged tensor at index vectors, as ``tf.gather_nd``."""
    if _is_ragged(indices):
        return indices.with_flat_values(_gather_nd(params, indices.flat_values))
    index_vectors = cast(indices, int64)
    size = indices.shape[-1]
    if not _is_ragged(params):
        return dense_gather_nd(params, index_vectors)
    if index_vectors.ndim == 1 and size == 0:
        return params
    if index_vectors.ndim == 1 and size > 1:
        key = tuple(index_vectors[i] for i in range(size))
        return params[key]
    *outer_sizes, _ = index_vectors._type.shape
    count = size_of(outer_sizes)
    vectors = bind.reshape(index_vectors, shape=(count, size))
    if size == 0:
        zeros = bind.broadcast_to(EagerTensor(np.array(0)), shape=(count,))
        result = _gather(params[None], zeros, 0, 0)
    else:
        result = _gather_at_vectors(params, vectors)
    if not outer_sizes:  # TensorFlow keeps an axis of size 1 for a single vector of one index
        return result
    if _is_ragged(result):
        return split_axis(result, outer_sizes, params.row_splits.dtype)
    return bind.reshape(result, shape=(*outer_sizes, *result._type.shape[1:]))


def _gather_at_vectors(params: RaggedTensor, index_vectors: Tensor) -> Any:
    """Gathers slices of a ragged tensor at the rows of a matrix.

    For each ragged axis, an index is replaced by its position in the values: the start of the row plus the next index.

    Args:
      params: the ragged tensor.
      index_vectors: a matrix, whose rows are index vectors.
    """
    value_positions = index_vectors[:, 0]
    values = params
    for column in range(1, index_vectors._type.shape[1]):
        if not _is_ragged(values):
            first_column = bind.reshape(value_positions, shape=(*value_positions._type.shape, 1))
            inner_indices = bind.concat(first_column, index_vectors[:, column:], axis=1)
            return dense_gather_nd(values, inner_indices)
        row_starts = dense_gather(values.row_starts(), value_positions)
        value_positions = cast(row_starts, int64) + index_vectors[:, column]
        values = values.values
    return _gather(values, value_positions, 0, 0)
