"""``tf.concat`` and ``tf.stack`` of ragged tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.composites.ragged.build import from_tensor, gather_rows, joined_axes
from tvtf.composites.ragged.kernels import counted, dim, positive_axis
from tvtf.composites.ragged.partition import splits_of_lengths
from tvtf.composites.ragged.tensor import RaggedTensor, with_splits_of
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int32, int64
from tvtf.ops.cast import cast
from tvtf.ops.concat_split import concat as dense_concat
from tvtf.ops.create import arange
from tvtf.ops.rules import bind, static_int


def _rank(value: Any) -> int:
    return value.shape.rank or 0 if isinstance(value, RaggedTensor) else convert_to_tensor(value).ndim


def as_ragged(value: Any, ragged_rank: int) -> Any:
    """Converts a tensor to a ragged tensor with at least ``ragged_rank`` ragged dims, or with fewer if its rank is too low."""
    if isinstance(value, RaggedTensor):
        missing = ragged_rank - value.ragged_rank
        if missing <= 0:
            return value
        flat_values = value.flat_values
        return value.with_flat_values(from_tensor(flat_values, None, None, min(missing, flat_values.ndim - 1), int64))
    tensor = convert_to_tensor(value)
    rank = min(ragged_rank, tensor.ndim - 1)
    return from_tensor(tensor, None, None, rank, int64) if rank > 0 else tensor


def concat_all(values: list[Any], axis: int) -> Any:
    """Concatenates tensors along an axis; dense tensors among them are first converted to ragged tensors.

    Raises:
      ValueError: the axis is out of bounds.
    """
    rank = max(map(_rank, values))
    axis = positive_axis(axis, rank)
    # The axis itself must be ragged, because the concatenated rows may differ in length.
    ragged_ranks = [value.ragged_rank for value in values if isinstance(value, RaggedTensor)]
    ragged_rank = max([*ragged_ranks, min(axis, rank - 1)])
    return with_splits_of(_concat([as_ragged(value, ragged_rank) for value in values], axis), values)


def _concat(values: list[Any], axis: int) -> Any:
    """Concatenates tensors of the same ragged rank along an axis.

    Axis 0 appends rows, axis 1 joins corresponding rows, and an inner axis concatenates the values.
    """
    if not isinstance(values[0], RaggedTensor):
        return dense_concat(values, axis)
    if axis == 0:
        return _append_rows(values)
    if axis == 1:
        return _join_rows(values)
    return values[0].with_values(_concat([value.values for value in values], axis - 1))


def _append_rows(values: list[RaggedTensor]) -> RaggedTensor:
    """Concatenates ragged tensors along axis 0: the rows of one tensor after those of the one before."""
    lengths = bind.concat(*[cast(value.row_lengths(), int64) for value in values], axis=0)
    inner = _concat([value.values for value in values], 0)
    return RaggedTensor(inner, splits_of_lengths(lengths))


def _join_rows(values: list[RaggedTensor]) -> RaggedTensor:
    """Concatenates ragged tensors along axis 1: row ``i`` of the result has the elements of row ``i`` of each tensor.

    The rows of all tensors are appended, reordered to put rows with the same index next to each other, and merged.
    """
    all_rows = _append_rows(values)
    counts = [dim(value.row_splits, 0) - 1 for value in values]
    ordered = gather_rows(all_rows, _interleaved(counts))
    lengths = cast(values[0].row_lengths(), int64)
    for other in values[1:]:
        lengths = lengths + cast(other.row_lengths(), int64)
    return RaggedTensor(ordered.values, splits_of_lengths(lengths))


def _interleaved(counts: list[Tensor]) -> Tensor:
    """Returns indices into the appended rows of several tensors that select all first rows, then all second ones, ..."""
    row_numbers = arange(counts[0])
    columns = [row_numbers + counts[0] * i for i in range(len(counts))]
    return joined_axes(bind.stack(*columns, axis=1))


def stack_all(values: list[Any], axis: int) -> Any:
    """Stacks tensors, ragged or dense, along a new axis.

    As in TensorFlow, the result is dense if all tensors are dense and the new axis is one of the last two.

    Raises:
      ValueError: the axis is out of bounds.
    """
    rank = max(map(_rank, values))
    new_axis = positive_axis(static_int(axis, "axis"), rank + 1)
    return with_splits_of(_stack(values, new_axis, rank), values)


def _stack(values: list[Any], axis: int, rank: int) -> Any:
    """Stacks tensors along a new axis; ``rank`` is the highest of their ranks."""
    ragged_ranks = [value.ragged_rank for value in values if isinstance(value, RaggedTensor)]
    is_one_of_last_two = axis >= max(rank - 1, 1)
    if not ragged_ranks and (rank == 0 or is_one_of_last_two):
        return bind.stack(*map(convert_to_tensor, values), axis=axis)
    # A new last axis is stacked in the innermost values, where it is dense.
    ragged_rank = max([1, min(axis, rank - 1), *ragged_ranks])
    parts = [as_ragged(value, ragged_rank) for value in values]
    if axis == 0:
        row_counts = [part.nrows(int64) if isinstance(part, RaggedTensor) else dim(part, 0) for part in parts]
        splits = splits_of_lengths(bind.stack(*row_counts, axis=0))
        if rank == 1:  # TensorFlow returns int32 row splits for stacked vectors
            splits = cast(splits, int32)
        return RaggedTensor(_concat(parts, 0), splits)
    if axis == 1:
        return _concat(list(map(single_rows, parts)), 1)
    return parts[0].with_values(stack_all([part.values for part in parts], axis - 1))


@export("ragged.stack")
def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> RaggedTensor:
    """Stacks tensors, ragged or dense, along a new axis.

    >>> import tvtf as tf
    >>> tf.ragged.stack([tf.constant([1, 2]), tf.constant([3])])
    <tf.RaggedTensor [[1, 2], [3]]>

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/stack
    """
    if not isinstance(axis, int):
        raise TypeError(f"axis must be an int; got {type(axis).__name__}")
    return stack_all(list(values) if isinstance(values, (list, tuple)) else [values], axis)


def single_rows(value: Any) -> RaggedTensor:
    """Returns a ragged tensor with each slice along the first axis in a row of its own."""
    count = value.nrows(int64) if isinstance(value, RaggedTensor) else dim(value, 0)
    return RaggedTensor(value, counted(count, int64))
