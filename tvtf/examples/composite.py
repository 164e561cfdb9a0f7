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
    """Returns the tensors of features, built from the columns that were parsed for them."""
    composite: Tensors = {}
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            composite[key] = _build_sparse(feature, columns)
        elif isinstance(feature, RaggedFeature):
            composite[key] = _build_ragged(key, feature, columns)
    return {k: v for k, v in (columns | composite).items() if k in features}


# -- sparse


def _build_sparse(feature: SparseFeature, columns: Tensors) -> SparseTensor:
    """Builds a sparse tensor from columns of indices and a column of values."""
    single = isinstance(feature.index_key, str)
    keys = [feature.index_key] if single else feature.index_key
    sizes = [feature.size] if single else list(feature.size)
    values, index_columns = columns[feature.value_key], [columns[k] for k in keys]
    column_indices = [bind.reshape(p.values, shape=(p.values._type.shape[0], 1)) for p in index_columns]
    indices = bind.concat(values.indices[:, :-1], *column_indices, axis=1)
    dense_sizes = convert_to_tensor(sizes, int64)
    shape = bind.concat(values.dense_shape[:-1], dense_sizes, axis=0)
    if feature.already_sorted:
        return SparseTensor(indices, values.values, shape)
    order = _order(indices, shape)
    return SparseTensor(gather(indices, order), gather(values.values, order), shape)


def _order(indices: Tensor, shape: Tensor) -> Tensor:
    """Returns the order that sorts indices by rows, then by columns."""
    number = indices[:, 0]
    for axis in range(1, indices._type.shape[1]):
        number = number * shape[axis] + indices[:, axis]
    return argsort(number, stable=True)


# -- ragged


def _build_ragged(key: str, feature: RaggedFeature, columns: Tensors) -> Any:
    """Builds a ragged tensor by splitting the values by each partition, from the innermost to the outermost."""
    rows = columns[feature.value_key or key]
    if not isinstance(rows, RaggedTensor):
        for partition in reversed(feature.partitions):
            rows = _split_rows(rows, partition, columns, feature)
        return rows
    outer = rows.row_splits if rows.ragged_rank > 1 else None
    rows = rows if outer is None else rows.values
    for partition in reversed(feature.partitions):
        rows = _split_batch(rows, partition, columns, feature, outer is not None)
    return rows if outer is None else RaggedTensor.from_row_splits(rows, outer, validate=feature.validate)


def _split_rows(values: Any, partition: Any, columns: Tensors, feature: RaggedFeature) -> Any:
    """Splits the values of a single example into rows."""
    check = feature.validate
    if isinstance(partition, UniformRowLength):
        if isinstance(values, RaggedTensor):
            return RaggedTensor.from_uniform_row_length(values, partition.length, validate=check)
        return _uniform_rows(values, partition.length)
    partition_values = cast(columns[partition.key], feature.row_splits_dtype)
    makers = {
        RowSplits: RaggedTensor.from_row_splits,
        RowLengths: RaggedTensor.from_row_lengths,
        RowStarts: RaggedTensor.from_row_starts,
        RowLimits: RaggedTensor.from_row_limits,
    }
    make = makers.get(type(partition), RaggedTensor.from_value_rowids)
    return make(values, partition_values, validate=check)


def _uniform_rows(values: Tensor, length: int) -> Tensor:
    """Reshapes values into rows of one length."""
    shape = values._type.shape
    return bind.reshape(values, shape=(simplify_dim(shape[0] // length), length, *shape[1:]))  # type: ignore[no-any-return]


def _split_batch(
    rows: RaggedTensor, partition: Any, columns: Tensors, feature: RaggedFeature, deep: bool
) -> RaggedTensor:
    """Splits the values of each example of a batch into rows.

    Partitions count from each example's start; the examples' row starts convert them to positions in all values.
    """
    check = feature.validate
    if isinstance(partition, UniformRowLength):
        length = partition.length
        if rows.ragged_rank > 1:
            values: Any = RaggedTensor.from_uniform_row_length(rows.values, length, validate=check)
        else:
            values = _uniform_rows(rows.values, length)
        return RaggedTensor.from_row_splits(values, rows.row_splits // length, validate=check)
    partition_values = columns[partition.key]
    partition_values = partition_values.values if deep else partition_values
    partition_values = partition_values.with_values(cast(partition_values.values, rows.row_splits.dtype))
    if isinstance(partition, RowLengths):
        return partition_values.with_values(
            RaggedTensor.from_row_lengths(rows.values, partition_values.values, validate=check)
        )
    if isinstance(partition, RowSplits):
        partition_values = partition_values[:, 1:]
    if isinstance(partition, (RowSplits, RowLimits)):
        limits = partition_values.values + gather(rows.row_starts(), partition_values.value_rowids())
        return partition_values.with_values(RaggedTensor.from_row_limits(rows.values, limits, validate=check))
    if isinstance(partition, RowStarts):
        starts = partition_values.values + gather(rows.row_starts(), partition_values.value_rowids())
        return partition_values.with_values(RaggedTensor.from_row_starts(rows.values, starts, validate=check))
    counts = reduce_max(partition_values.to_tensor(-1), 1) + 1
    counts = bind.maximum(counts, zeros_like(counts))
    ids = partition_values.values + gather(cumsum(counts, exclusive=True), partition_values.value_rowids())
    inner = RaggedTensor.from_value_rowids(rows.values, ids, validate=check)
    return RaggedTensor.from_row_lengths(inner, counts, validate=check)
