"""Broadcasting of ragged tensors: a uniform dim of size 1 is repeated to the row lengths of the other operand.

Source: https://www.tensorflow.org/guide/ragged_tensor#broadcasting
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.ragged.dynamic_shape import DynamicRaggedShape
from tvtf.composites.ragged.kernels import ranges
from tvtf.composites.ragged.partition import RowPartition, splits_of_lengths
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.shape import Dim, broadcast_dim, same_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.ops.assert_values import assert_equal
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind

Sources = Tensor | None
"""The index of the operand's element for each element of the result; None for the identity."""


def broadcast_rows(x: Any, y: Any) -> tuple[Tensor, Tensor, Callable[[Tensor], Any]]:
    """Broadcasts two tensors, at least one of them ragged, to the same row lengths.

    Returns:
      The innermost values of both tensors, with inner dims that still have to be broadcast by NumPy's rules, and a function
      that partitions the values of a result into rows.
    """
    shape_x = _ragged_shape(x, y)
    shape_y = _ragged_shape(y, x)
    if shape_x.rank > shape_y.rank:
        partitions, from_y, from_x = _broadcast(shape_y, shape_x)
    else:
        partitions, from_x, from_y = _broadcast(shape_x, shape_y)
    rank = max(shape_x.rank, shape_y.rank)
    flat_x = _flat_operand(x, shape_x, len(partitions), rank, from_x)
    flat_y = _flat_operand(y, shape_y, len(partitions), rank, from_y)
    return flat_x, flat_y, lambda values: partition_values(values, partitions)


def partition_values(values: Any, parts: tuple[RowPartition, ...]) -> Any:
    """Returns the ragged tensor of innermost values and row partitions, the outermost of which comes first."""
    for part in reversed(parts):
        values = RaggedTensor.of_partition(values, part)
    return values


def _ragged_shape(x: Any, other: Any) -> DynamicRaggedShape:
    """Returns the shape of an operand; a dense one has the row splits dtype of the other."""
    dtype = x.row_splits.dtype if isinstance(x, RaggedTensor) else other.row_splits.dtype
    return DynamicRaggedShape.from_tensor(x, dtype)


def broadcast_to(x: Any, shape: DynamicRaggedShape) -> Any:
    """Broadcasts a ragged or dense tensor to a ragged shape.

    Raises:
      ValueError: the rank of ``shape`` is smaller than the tensor's.
      InvalidArgumentError: the dims don't fit.
    """
    source = DynamicRaggedShape.from_tensor(x, shape.dtype)
    if source.rank > shape.rank:
        raise ValueError("Cannot broadcast to a shape with smaller rank")
    partitions, sources, _ = _broadcast(source, shape)
    if not partitions:
        return bind.broadcast_to(_flat_values(x), shape=shape.inner_dims)
    count = len(partitions)
    values = _flat_operand(x, source, count, shape.rank, sources)
    # The shape with as many row partitions as the result has: its inner dims are those of the result's values.
    target = DynamicRaggedShape(shape.partitions(count), _inner_shape(shape, count))
    values_shape = (values._type.shape[0], *target.inner_dims[1:])
    return partition_values(bind.broadcast_to(values, shape=values_shape), partitions)


def broadcast_shapes(a: DynamicRaggedShape, b: DynamicRaggedShape) -> DynamicRaggedShape:
    """Returns the ragged shape to which two ragged shapes broadcast.

    Raises:
      InvalidArgumentError: the shapes don't broadcast.
    """
    lower, higher = (b, a) if a.rank > b.rank else (a, b)
    partitions, _, _ = _broadcast(lower, higher)
    missing_dims = (1,) * (higher.rank - lower.rank)
    dim_pairs = list(zip((*missing_dims, *_all_dims(lower)), _all_dims(higher)))
    first_inner = len(partitions) + 1
    inner_dims = [_broadcast_dim(*pair) for pair in dim_pairs[first_inner:]]
    if partitions:
        values_dim = partitions[-1].nvals_dim
    else:
        values_dim = _broadcast_dim(*dim_pairs[0])
    dtype = higher.dtype if higher.row_partitions else lower.dtype
    return DynamicRaggedShape(partitions, (values_dim, *inner_dims), dtype)


def _all_dims(shape: DynamicRaggedShape) -> tuple[Dim, ...]:
    """Returns a dim for each axis, or None for ragged axes, whose dims callers don't use."""
    parts = shape.row_partitions
    if not parts:
        return shape.inner_dims
    return (parts[0].nrows_dim, *(part.uniform_dim for part in parts), *shape.inner_dims[1:])


def _inner_shape(shape: DynamicRaggedShape, count: int) -> tuple[Dim, ...]:
    """Returns the shape of the innermost values if ``count`` dims, uniform ones as well, are represented by partitions."""
    uniform_partitions = count - shape.num_row_partitions
    return (size_of(shape.inner_dims[: uniform_partitions + 1]), *shape.inner_dims[uniform_partitions + 1 :])


def _broadcast(a: DynamicRaggedShape, b: DynamicRaggedShape) -> tuple[tuple[RowPartition, ...], Sources, Sources]:
    """Broadcasts the row partitions of two ragged shapes; the rank of ``a`` must not exceed the rank of ``b``.

    Returns:
      the partitions of the result, the index in ``a`` of each value of the result, and the index in ``b`` (see
      ``Sources``).
    """
    missing_dims = b.rank - a.rank
    count_a = a.num_row_partitions + missing_dims if a.num_row_partitions else 0
    count = max(count_a, b.num_row_partitions)
    rows_a, *partitions_a = _expanded_partitions(a, missing_dims, count)
    rows_b, *partitions_b = _expanded_partitions(b, 0, count)
    rows = _broadcast_dim(rows_a, rows_b)
    from_a, from_b = _outermost_sources(rows_a, rows), _outermost_sources(rows_b, rows)
    partitions = []
    for partition_a, partition_b in zip(partitions_a, partitions_b):
        partition, from_a, from_b = _broadcast_axis(partition_a, partition_b, from_a, from_b)
        partitions.append(partition)
    return tuple(partitions), from_a, from_b


def _expanded_partitions(shape: DynamicRaggedShape, missing_dims: int, count: int) -> list[Any]:
    """Prepends ``missing_dims`` dims of size 1 to a ragged shape. Returns the number of rows, then ``count`` partitions.

    A dim of size 1 becomes a row partition with one row.
    """
    dims = _all_dims(shape)
    row_count = dims[0] if dims else 1
    if not missing_dims:
        return [row_count, *shape.partitions(count)]
    # The innermost of the new partitions has all rows of the shape in its row.
    ones = [RowPartition.of_dims(1, 1, shape.dtype)] * (missing_dims - 1)
    all_rows = RowPartition.of_dims(1, row_count, shape.dtype)
    partitions = [*ones, all_rows, *shape.partitions(max(count - missing_dims, 0))]
    return [1, *partitions[:count]]


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    """Broadcasts two dims to one, or raises InvalidArgumentError."""
    result = broadcast_dim(a, b)
    if result is None:
        # Raises InvalidArgumentError.
        assert_equal(EagerTensor(np.array(False)), EagerTensor(np.array(True)))
    return result


def _outermost_sources(operand_rows: Dim, rows: Dim) -> Sources:
    """Returns for each outermost row of the result the operand's row it is taken from: itself, or a single row 0."""
    return None if same_dim(operand_rows, rows) else bind.broadcast_to(EagerTensor(np.array(0)), shape=(rows,))


def _broadcast_axis(
    a: RowPartition, b: RowPartition, from_a: Sources, from_b: Sources
) -> tuple[RowPartition, Sources, Sources]:
    """Broadcasts one axis of two ragged shapes, given by the axis's row partitions ``a`` and ``b``.

    ``from_a`` and ``from_b`` are the row of ``a`` and of ``b`` for each row of the result. Returns the row partition of
    the result, and the index of each of its values in the values of ``a`` and of ``b``.
    """
    has_size_1_a = a.is_uniform() and same_dim(a.uniform_dim, 1)
    has_size_1_b = b.is_uniform() and same_dim(b.uniform_dim, 1)
    if has_size_1_a and not has_size_1_b:
        rows, from_b = _select_rows(b, from_b)
        return rows, _sources_of_values(rows, from_a), from_b
    if has_size_1_b and not has_size_1_a:
        rows, from_a = _select_rows(a, from_a)
        return rows, from_a, _sources_of_values(rows, from_b)
    rows_a, value_sources_a = _select_rows(a, from_a)
    rows_b, value_sources_b = _select_rows(b, from_b)
    if a.is_uniform() and b.is_uniform():
        _broadcast_dim(a.uniform_dim, b.uniform_dim)  # raises an error if the sizes differ
    elif rows_a.row_splits() is not rows_b.row_splits():
        first, second = (rows_b, rows_a) if b.is_uniform() else (rows_a, rows_b)
        assert_equal(first.row_splits(), cast(second.row_splits(), first.dtype))
    return rows_a, value_sources_a, value_sources_b


def _select_rows(part: RowPartition, rows: Sources) -> tuple[RowPartition, Sources]:
    """Selects rows of a row partition; ``rows`` may repeat row indices.

    Returns the partition of the selected rows, and the indices of the selected rows' values.
    """
    # None stands for all rows.
    if rows is None:
        return part, None
    starts = gather(part.row_starts(), rows)
    lengths = gather(part.row_lengths(), rows)
    _, value_indices = ranges(starts, starts + lengths)
    return RowPartition(splits_of_lengths(lengths), part.uniform_dim, value_indices._type.shape[0]), value_indices


def _sources_of_values(part: RowPartition, row_sources: Sources) -> Tensor:
    """Returns for each value the source of its row, as an axis of size 1 has a single value in each row."""
    return part.value_rowids() if row_sources is None else gather(row_sources, part.value_rowids())


def _flat_values(x: Any) -> Tensor:
    return x.flat_values if isinstance(x, RaggedTensor) else convert_to_tensor(x)


def _flat_operand(x: Any, shape: DynamicRaggedShape, count: int, rank: int, sources: Sources) -> Tensor:
    """Broadcasts an operand along the ragged axes: gathers the values below ``count`` row partitions at ``sources``.

    ``shape`` is the operand's ragged shape. An operand that lacks more dims than there are partitions first gets
    leading dims of size 1, up to the result's ``rank``.
    """
    values = _flat_values(x)
    dims = tuple(values._type.shape)
    # The operand's dims along the result's ragged axes are merged into the first dim, from which rows are gathered.
    merged_count = count - shape.num_row_partitions + 1
    missing_dims = rank - shape.rank
    if missing_dims > count:
        dims = (1,) * missing_dims + dims
    else:
        merged_count -= missing_dims
    merged_dims = (size_of(dims[:merged_count]), *dims[merged_count:])
    if len(merged_dims) != values.ndim:
        values = bind.reshape(values, shape=merged_dims)
    return values if sources is None else gather(values, sources)
