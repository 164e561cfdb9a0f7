"""Builds composite tensors from parsed columns: sparse tensors with indices, ragged tensors with row partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.shape import simplify_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.examples.features import (
    RaggedFeature,
    RowLengths,
    RowLimits,
    RowSplits,
    RowStarts,
    SparseFeature,
    UniformRowLength,
)
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.reduce import reduce_max
from tvtf.ops.rules import bind, zeros_like
from tvtf.ops.scan import cumsum
from tvtf.ops.sort import argsort

Tensors = dict[str, Any]


def build_composites(features: Mapping[str, Any], columns: Tensors) -> Tensors:
    """Returns the tensor of each feature by key, from the parsed columns.

    A column holds the values of one key of an Example. A SparseFeature or RaggedFeature combines several columns. A
    column that is only a part of such a feature is left out.
    """
    composite: Tensors = {}
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            composite[key] = _build_sparse(feature, columns)
        elif isinstance(feature, RaggedFeature):
            composite[key] = _build_ragged(key, feature, columns)
    return {name: tensor for name, tensor in (columns | composite).items() if name in features}


# -- sparse


def _build_sparse(feature: SparseFeature, columns: Tensors) -> SparseTensor:
    """Builds the sparse tensor of a SparseFeature from parsed columns: one of values, and one of indices for each axis.

    Each column is a sparse tensor. Its indices without the last component identify the example.
    """
    has_one_index = isinstance(feature.index_key, str)
    keys = [feature.index_key] if has_one_index else feature.index_key
    sizes = [feature.size] if has_one_index else list(feature.size)
    values = columns[feature.value_key]
    index_columns = [columns[index_key] for index_key in keys]
    column_indices = [bind.reshape(column.values, shape=(column.values._type.shape[0], 1)) for column in index_columns]
    indices = bind.concat(values.indices[:, :-1], *column_indices, axis=1)
    dense_sizes = convert_to_tensor(sizes, int64)
    shape = bind.concat(values.dense_shape[:-1], dense_sizes, axis=0)
    if feature.already_sorted:
        return SparseTensor(indices, values.values, shape)
    order = _row_major_order(indices, shape)
    return SparseTensor(gather(indices, order), gather(values.values, order), shape)


def _row_major_order(indices: Tensor, shape: Tensor) -> Tensor:
    """Returns the permutation that sorts the indices of a sparse tensor in row-major order."""
    linear_index = indices[:, 0]
    for axis in range(1, indices._type.shape[1]):
        linear_index = linear_index * shape[axis] + indices[:, axis]
    return argsort(linear_index, stable=True)


# -- ragged


def _build_ragged(key: str, feature: RaggedFeature, columns: Tensors) -> Any:
    """Builds the ragged tensor of a RaggedFeature: splits the parsed values by each row partition, the innermost first.

    ``key`` is the feature's key, under which the values are stored if the feature names no other key.
    """
    rows = columns[feature.value_key or key]
    # The values of a single example are dense, those of a batch are ragged.
    if not isinstance(rows, RaggedTensor):
        for partition in reversed(feature.partitions):
            rows = _split_rows(rows, partition, columns, feature)
        return rows
    # Feature lists of a batch have rows of features inside the rows of examples.
    has_feature_lists = rows.ragged_rank > 1
    batch_splits = None
    if has_feature_lists:
        batch_splits, rows = rows.row_splits, rows.values
    for partition in reversed(feature.partitions):
        rows = _split_batch(rows, partition, columns, feature, has_feature_lists)
    if not has_feature_lists:
        return rows
    return RaggedTensor.from_row_splits(rows, batch_splits, validate=feature.validate)


def _split_rows(values: Any, partition: Any, columns: Tensors, feature: RaggedFeature) -> Any:
    """Splits the values of a single example into rows by a row partition of a RaggedFeature.

    Args:
      values: the values: a tensor, or a ragged tensor with the inner rows.
      partition: a uniform row length, or the name of the column of row splits, lengths, starts, limits or row ids.
      columns: the parsed columns, by name.
      feature: the feature with the partition.
    """
    validate = feature.validate
    if isinstance(partition, UniformRowLength):
        if isinstance(values, RaggedTensor):
            return RaggedTensor.from_uniform_row_length(values, partition.length, validate=validate)
        return _uniform_rows(values, partition.length)
    partition_values = cast(columns[partition.key], feature.row_splits_dtype)
    constructors = {
        RowSplits: RaggedTensor.from_row_splits,
        RowLengths: RaggedTensor.from_row_lengths,
        RowStarts: RaggedTensor.from_row_starts,
        RowLimits: RaggedTensor.from_row_limits,
    }
    construct = constructors.get(type(partition), RaggedTensor.from_value_rowids)  # the remaining class is ValueRowIds
    return construct(values, partition_values, validate=validate)


def _uniform_rows(values: Tensor, length: int) -> Tensor:
    """Reshapes values into rows of equal length. For example, shape ``(6, 5)`` and length 2 give ``(3, 2, 5)``."""
    shape = values._type.shape
    return bind.reshape(values, shape=(simplify_dim(shape[0] // length), length, *shape[1:]))  # type: ignore[no-any-return]


def _split_batch(
    rows: RaggedTensor, partition: Any, columns: Tensors, feature: RaggedFeature, in_feature_lists: bool
) -> RaggedTensor:
    """Splits the values of each example of a batch into rows by a row partition of a RaggedFeature.

    The positions in a partition count from the start of an example. The row starts of the examples are added to get
    positions in all values.

    Args:
      rows: the values: a ragged tensor with a row for each example.
      partition: a uniform row length, or names the column of row splits, lengths, starts, limits or row ids.
      columns: the parsed columns by key; a column has a row for each example.
      feature: the feature.
      in_feature_lists: whether the values come from feature lists, which have a row for each feature instead.

    Returns:
      A ragged tensor with the rows of the partition inside the rows of the examples.
    """
    validate = feature.validate
    if isinstance(partition, UniformRowLength):
        length = partition.length
        if rows.ragged_rank > 1:
            values: Any = RaggedTensor.from_uniform_row_length(rows.values, length, validate=validate)
        else:
            values = _uniform_rows(rows.values, length)
        return RaggedTensor.from_row_splits(values, rows.row_splits // length, validate=validate)
    partition_values = columns[partition.key]
    partition_values = partition_values.values if in_feature_lists else partition_values
    partition_values = partition_values.with_values(cast(partition_values.values, rows.row_splits.dtype))
    if isinstance(partition, RowLengths):
        return partition_values.with_values(
            RaggedTensor.from_row_lengths(rows.values, partition_values.values, validate=validate)
        )
    if isinstance(partition, RowSplits):
        partition_values = partition_values[:, 1:]  # without the first split, 0, splits are the ends of the rows
    if isinstance(partition, (RowSplits, RowLimits)):
        limits = partition_values.values + gather(rows.row_starts(), partition_values.value_rowids())
        return partition_values.with_values(RaggedTensor.from_row_limits(rows.values, limits, validate=validate))
    if isinstance(partition, RowStarts):
        starts = partition_values.values + gather(rows.row_starts(), partition_values.value_rowids())
        return partition_values.with_values(RaggedTensor.from_row_starts(rows.values, starts, validate=validate))
    # ValueRowIds: an example has rows up to its largest row id, or none without values.
    counts = reduce_max(partition_values.to_tensor(-1), 1) + 1
    counts = bind.maximum(counts, zeros_like(counts))
    row_ids = partition_values.values + gather(cumsum(counts, exclusive=True), partition_values.value_rowids())
    inner = RaggedTensor.from_value_rowids(rows.values, row_ids, validate=validate)
    return RaggedTensor.from_row_lengths(inner, counts, validate=validate)
