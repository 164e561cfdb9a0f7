"""Columns put together: sparse tensors with indices of their own, ragged tensors cut into rows by other features."""

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

Found = dict[str, Any]


def put_together(features: Mapping[str, Any], columns: Found) -> Found:
    """What features are, of the columns that were parsed for them."""
    made: Found = {}
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            made[key] = _sparse(feature, columns)
        elif isinstance(feature, RaggedFeature):
            made[key] = _ragged(key, feature, columns)
    return {k: v for k, v in (columns | made).items() if k in features}


# -- sparse


def _sparse(feature: SparseFeature, columns: Found) -> SparseTensor:
    single = isinstance(feature.index_key, str)
    keys = [feature.index_key] if single else feature.index_key
    sizes = [feature.size] if single else list(feature.size)
    values, places = columns[feature.value_key], [columns[k] for k in keys]
    own = [bind.reshape(p.values, shape=(p.values._type.shape[0], 1)) for p in places]
    indices = bind.concat(values.indices[:, :-1], *own, axis=1)
    given = convert_to_tensor(sizes, int64)
    shape = bind.concat(values.dense_shape[:-1], given, axis=0)
    if feature.already_sorted:
        return SparseTensor(indices, values.values, shape)
    order = _order(indices, shape)
    return SparseTensor(gather(indices, order), gather(values.values, order), shape)


def _order(indices: Tensor, shape: Tensor) -> Tensor:
    """By rows, then by columns."""
    number = indices[:, 0]
    for axis in range(1, indices._type.shape[1]):
        number = number * shape[axis] + indices[:, axis]
    return argsort(number, stable=True)


# -- ragged


def _ragged(key: str, feature: RaggedFeature, columns: Found) -> Any:
    rows = columns[feature.value_key or key]
    if not isinstance(rows, RaggedTensor):
        for partition in reversed(feature.partitions):
            rows = _cut(rows, partition, columns, feature)
        return rows
    outer = rows.row_splits if rows.ragged_rank > 1 else None
    rows = rows if outer is None else rows.values
    for partition in reversed(feature.partitions):
        rows = _cut_each(rows, partition, columns, feature, outer is not None)
    return rows if outer is None else RaggedTensor.from_row_splits(rows, outer, validate=feature.validate)


def _cut(values: Any, partition: Any, columns: Found, feature: RaggedFeature) -> Any:
    """The values of one example in rows."""
    check = feature.validate
    if isinstance(partition, UniformRowLength):
        if isinstance(values, RaggedTensor):
            return RaggedTensor.from_uniform_row_length(values, partition.length, validate=check)
        return _in_rows(values, partition.length)
    told = cast(columns[partition.key], feature.row_splits_dtype)
    makers = {
        RowSplits: RaggedTensor.from_row_splits,
        RowLengths: RaggedTensor.from_row_lengths,
        RowStarts: RaggedTensor.from_row_starts,
        RowLimits: RaggedTensor.from_row_limits,
    }
    make = makers.get(type(partition), RaggedTensor.from_value_rowids)
    return make(values, told, validate=check)


def _in_rows(values: Tensor, length: int) -> Tensor:
    shape = values._type.shape
    return bind.reshape(values, shape=(simplify_dim(shape[0] // length), length, *shape[1:]))  # type: ignore[no-any-return]


def _cut_each(rows: RaggedTensor, partition: Any, columns: Found, feature: RaggedFeature, deep: bool) -> RaggedTensor:
    """The values of each example of a batch in rows."""
    check = feature.validate
    if isinstance(partition, UniformRowLength):
        length = partition.length
        if rows.ragged_rank > 1:
            values: Any = RaggedTensor.from_uniform_row_length(rows.values, length, validate=check)
        else:
            values = _in_rows(rows.values, length)
        return RaggedTensor.from_row_splits(values, rows.row_splits // length, validate=check)
    told = columns[partition.key]
    told = told.values if deep else told
    told = told.with_values(cast(told.values, rows.row_splits.dtype))
    if isinstance(partition, RowLengths):
        return told.with_values(RaggedTensor.from_row_lengths(rows.values, told.values, validate=check))
    if isinstance(partition, RowSplits):
        told = told[:, 1:]
    if isinstance(partition, (RowSplits, RowLimits)):
        limits = told.values + gather(rows.row_starts(), told.value_rowids())
        return told.with_values(RaggedTensor.from_row_limits(rows.values, limits, validate=check))
    if isinstance(partition, RowStarts):
        starts = told.values + gather(rows.row_starts(), told.value_rowids())
        return told.with_values(RaggedTensor.from_row_starts(rows.values, starts, validate=check))
    counts = reduce_max(told.to_tensor(-1), 1) + 1
    counts = bind.maximum(counts, zeros_like(counts))
    ids = told.values + gather(cumsum(counts, exclusive=True), told.value_rowids())
    inner = RaggedTensor.from_value_rowids(rows.values, ids, validate=check)
    return RaggedTensor.from_row_lengths(inner, counts, validate=check)
