"""Handlers of public functions for ragged tensors: rearranging, broadcasting, reductions along rows, partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.composites.ragged.broadcasting import broadcast_shapes, broadcast_to
from tvtf.composites.ragged.build import check_same_rows, from_tensor
from tvtf.composites.ragged.dynamic_shape import DynamicRaggedShape
from tvtf.composites.ragged.gathering import as_tensor, gather_nd
from tvtf.composites.ragged.gathering import gather as ragged_gather
from tvtf.composites.ragged.joining import concat_all, stack_all
from tvtf.composites.ragged.kernels import dim, ranges
from tvtf.composites.ragged.tensor import RaggedTensor, with_splits_of
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import by_name, export, public_names
from tvtf.core.shape import Dim, same_dim, simplify_dim
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, int32, int64
from tvtf.ops.assert_values import assert_equal, assert_less, assert_non_negative
from tvtf.ops.assertion import Assert
from tvtf.ops.bincount import counts
from tvtf.ops.cast import cast, cast_tensor
from tvtf.ops.dims import scalar_of
from tvtf.ops.indexing import gather
from tvtf.ops.operands import integer_tensor
from tvtf.ops.pad import repeat
from tvtf.ops.rules import bind, is_computed, static_dims, static_int, static_value
from tvtf.ops.sort import argsort

Handler = Callable[..., Any]


def _concat(function: Any, values: Any, axis: Any, name: str = "concat") -> Any:
    return concat_all(list(values), static_int(axis, "axis"))


def _stack(function: Any, values: Any, axis: int = 0, name: str = "stack") -> Any:
    return stack_all(list(values), axis)


def _boolean_mask(function: Any, tensor: Any, mask: Any, axis: Any = None, name: Any = None) -> Any:
    return public_names()["ragged.boolean_mask"](tensor, mask)


def _size(function: Any, input: Any, out_type: Any = int32, name: Any = None) -> Any:
    flat = input.flat_values
    return cast(dim(flat, 0), as_dtype(out_type)) if flat.ndim == 1 else function(flat, out_type)


def _rank(function: Any, input: Any, name: Any = None) -> Any:
    return EagerTensor(np.array(input.shape.rank, np.int32))


def _nonnegative_axis(axis: Any, rank: int) -> int:
    static_axis = static_int(axis, "axis")
    if not -rank <= static_axis < rank:
        raise ValueError(f"axis={static_axis} out of bounds: expected {-rank}<=axis<{rank}")
    return static_axis % rank


def _expand_dims(function: Any, input: Any, axis: Any, name: Any = None) -> Any:
    position = _nonnegative_axis(axis, (input.shape.rank or 0) + 1)
    return input[(slice(None),) * position + (None,)] if position else input[None]


def _reverse(function: Any, tensor: Any, axis: Any, name: Any = None) -> Any:
    reversed_axes = {static_int(each, "axis") % (tensor.shape.rank or 1) for each in axis}
    keys = [slice(None, None, -1) if i in reversed_axes else slice(None) for i in range(max(reversed_axes) + 1)]
    return tensor[tuple(keys)]


def _add_n(function: Any, inputs: Any, name: Any = None) -> Any:
    check_same_rows(inputs)
    return inputs[0].with_flat_values(function([ragged.flat_values for ragged in inputs]))


def _join(function: Any, inputs: Any, separator: str = "", name: Any = None) -> Any:
    ragged = [i for i in inputs if isinstance(i, RaggedTensor)]
    check_same_rows(ragged)
    flat = [i.flat_values if isinstance(i, RaggedTensor) else i for i in inputs]
    return ragged[0].with_flat_values(function(flat, separator))


# -- where


def _where(function: Any, condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Implements ``tf.where`` for ragged arguments, which are broadcast to their common ragged shape.

    Without ``x`` and ``y`` it returns the indices of the true elements.
    """
    if (x is None) != (y is None):
        raise ValueError("x and y must be either both None or both non-None")
    if x is None:
        return _true_indices(condition)
    shapes = [DynamicRaggedShape.from_tensor(as_tensor(value), int64) for value in (condition, x, y)]
    common_shape = broadcast_shapes(shapes[0], broadcast_shapes(shapes[1], shapes[2]))
    broadcast = [_broadcast_values(value, common_shape) for value in (condition, x, y)]
    return with_splits_of(common_shape.of_values(function(*broadcast)), (condition, x, y))


def _broadcast_values(value: Any, shape: DynamicRaggedShape) -> Tensor:
    result = broadcast_to(as_tensor(value), shape)
    return result.flat_values if isinstance(result, RaggedTensor) else result


def _true_indices(condition: Any) -> Tensor:
    """Returns the multi-indices of the true elements of a ragged condition, in row-major order."""
    if not isinstance(condition, RaggedTensor):
        return public_names()["where"](condition)  # type: ignore[no-any-return]
    inner = _true_indices(condition.values)
    value_positions = inner[:, 0]
    rows = cast(gather(condition.value_rowids(), value_positions), int64)
    columns = value_positions - cast(gather(condition.row_splits, rows), int64)
    return bind.concat(bind.stack(rows, columns, axis=1), inner[:, 1:], axis=1)  # type: ignore[no-any-return]


# -- tile, split, squeeze


def _slice_of_axis(axis: int, part: slice) -> tuple[slice, ...]:
    """Returns the indexing key that applies a slice to one axis."""
    return (*(slice(None),) * axis, part)


def _tile(function: Any, input: Any, multiples: Any, name: Any = None) -> Any:
    """Implements ``tf.tile`` for ragged tensors: repeats the input ``multiples[i]`` times along each axis i."""
    numbers = integer_tensor(multiples, "multiples")
    numbers.shape.assert_has_rank(1)
    counts = static_dims(cast_tensor(numbers, int64) if is_computed(numbers) else numbers, "multiples")
    if len(counts) != input.shape.rank:
        raise ArgumentError(
            f"Expected multiples argument to be a vector of length {input.shape.rank} but got length {len(counts)}"
        ).for_op("Tile")
    for axis, count in enumerate(counts):
        if isinstance(count, int) and count < 0:
            raise ArgumentError(f"Expected multiples[{axis}] >= 0, but got {count}").for_op("Tile")
    tiled = _tiled_rows(input, counts[1:])
    if same_dim(counts[0], 1):
        return tiled
    rows = bind.range(size=tiled.row_partitions[0].nrows_dim, start=0, delta=1, dtype=int64)
    return ragged_gather(tiled, bind.tile(rows, multiples=counts[:1]))


def _tiled_rows(x: Any, counts: Sequence[Dim]) -> Any:
    """Repeats a ragged or dense tensor ``counts[i]`` times along each axis i + 1. Axis 0 stays."""
    if not isinstance(x, RaggedTensor):
        return bind.tile(x, multiples=(1, *counts))
    count = counts[0]
    values = _tiled_rows(x.values, counts[1:])
    if same_dim(count, 1):
        return RaggedTensor(values, x.row_splits)
    copy_count = scalar_of(count)
    starts = repeat(x.row_starts(), repeats=copy_count, axis=0)
    limits = repeat(x.row_limits(), repeats=copy_count, axis=0)
    _, value_indices = ranges(starts, limits)
    splits = x.row_splits * cast(copy_count, x.row_splits.dtype)
    return RaggedTensor(ragged_gather(values, value_indices), splits)


def _split(
    function: Any, value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: Any = None
) -> list[Any]:
    """Implements ``tf.split`` for ragged tensors along a uniform axis.

    Args:
      function: the ``split`` of dense tensors, which isn't used.
      value: the ragged tensor.
      num_or_size_splits: the number of equal parts, or a list of sizes.
      axis: the axis to split.
      num: not used.

    Raises:
      ValueError: the axis is ragged.
    """
    if isinstance(num_or_size_splits, int) and num_or_size_splits == 1:
        return [value]
    shape = DynamicRaggedShape.from_tensor(value)
    split_axis = _nonnegative_axis(axis, shape.rank)
    if not shape.is_uniform(split_axis):
        raise ValueError(f"Cannot split a ragged dimension. Got `value` with shape {shape} and `axis` {split_axis}.")
    size = int(static_value(shape[split_axis], "the dim to split"))
    sizes = _sizes(num_or_size_splits)
    if isinstance(sizes, int):  # the number of parts
        sizes = [size // sizes] * sizes
    bounds = np.cumsum([0, *sizes]).tolist()
    if bounds[-1] != size:
        message = "Cannot exactly split the `axis` dimension of `value` with the given `num_or_size_split`."
        assert_equal(np.array(size), np.array(bounds[-1]), message=message)
    slices = [slice(start, stop) for start, stop in zip(bounds, bounds[1:])]
    return [value[_slice_of_axis(split_axis, part)] for part in slices]


def _sizes(num_or_size_splits: Any) -> Any:
    """Returns the static value of the argument ``num_or_size_splits``, an int or a list, after checking its sign."""
    sizes = static_value(num_or_size_splits, "num_or_size_splits")
    if isinstance(sizes, int) and sizes < 1:
        raise ValueError(f"`num_or_size_splits` must be >=1 if it is an `int`.Received {sizes}.")
    if isinstance(sizes, list):
        assert_non_negative(np.array(sizes), message="`num_or_size_splits` must be non-negative.")
    return sizes


def _squeeze(function: Any, input: Any, axis: Any = None, name: Any = None) -> Any:
    """Implements ``tf.squeeze`` for ragged tensors: removes the given axes, which must have size 1."""
    if axis is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    axes = [axis] if isinstance(axis, int) else axis
    if not isinstance(axes, (list, tuple)) or not all(isinstance(i, int) for i in axes):
        raise TypeError("Axis must be a list or tuple of integers.")
    nonnegative_axes = [_nonnegative_axis(i, input.shape.rank) for i in axes]
    return _squeeze_axes(function, input, nonnegative_axes)


def _squeeze_axes(function: Any, ragged: RaggedTensor, axes: list[int]) -> Any:
    """Removes axes of size 1 from a ragged tensor.

    Dense inner axes are removed from the innermost values by ``function``, the ``squeeze`` of dense tensors. A ragged axis
    is removed by dropping its row splits.
    """
    _require_size_one(ragged, axes)
    rank = ragged.ragged_rank
    values = ragged.flat_values
    dense_axes = [axis - rank for axis in axes if axis > rank]
    if dense_axes:
        values = function(values, dense_axes)
    splits = [row_splits for axis, row_splits in enumerate(ragged.nested_row_splits, 1) if axis not in axes]
    # Without axis 0, the first ragged axis that stays becomes axis 0, which has no row splits.
    if splits and 0 in axes:
        splits = splits[1:]
    result = RaggedTensor.from_nested_row_splits(values, splits)
    # If no ragged axis stays, the result is the innermost values, whose axis 0 is left to be removed.
    removes_all_outer_axes = set(range(rank + 1)) <= set(axes)
    return function(result, [0]) if removes_all_outer_axes else result


def _require_size_one(ragged: RaggedTensor, axes: list[int]) -> None:
    """Asserts that a ragged tensor has size 1 along those of the axes that are ragged, and along axis 0 if it is one."""
    for axis, lengths in enumerate(ragged.nested_row_lengths(), 1):
        if axis in axes:
            ones = lengths * 0 + 1
            are_ones = bind.equal(lengths, ones)
            _assert_squeezable(bind.reduce_all(are_ones, axis=(0,), keepdims=False), axis)
    if 0 in axes:
        has_one_row = bind.equal(ragged.nrows(int64), EagerTensor(np.array(1)))
        _assert_squeezable(has_one_row, 0)


def _assert_squeezable(has_size_one: Tensor, axis: int) -> None:
    Assert(has_size_one, [f"the given axis (axis = {axis}) is not squeezable!"])


# -- shape, reshape, fill


def _shape(function: Any, input: Any, out_type: Any = int32, name: Any = None) -> DynamicRaggedShape:
    return DynamicRaggedShape.from_tensor(input, out_type)


def _reshape(function: Any, tensor: Any, shape: Any, name: Any = None) -> Any:
    values = tensor.values if isinstance(tensor, RaggedTensor) else tensor
    if not isinstance(shape, DynamicRaggedShape):
        return function(values, shape)
    return shape.of_values(function(values, shape.inner_dims))


def _broadcast_to(function: Any, input: Any, shape: Any, name: Any = None) -> Any:
    if not isinstance(shape, DynamicRaggedShape):
        shape = DynamicRaggedShape([], shape)
    return broadcast_to(as_tensor(input), shape)


def _broadcast_dynamic_shape(function: Any, shape_x: Any, shape_y: Any) -> DynamicRaggedShape:
    """Broadcasts two shapes, of which at least one is ragged."""
    pair = [
        shape if isinstance(shape, DynamicRaggedShape) else DynamicRaggedShape([], shape)
        for shape in (shape_x, shape_y)
    ]
    return broadcast_shapes(*pair)


def _fill(function: Any, shape: DynamicRaggedShape, *args: Any, **kwargs: Any) -> Any:
    return shape.of_values(function(shape.inner_dims, *args, **kwargs))


def _one_hot(
    function: Any, indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: Any = None,
    dtype: Any = None, name: Any = None,
) -> Any:  # fmt: skip
    """Implements ``tf.one_hot`` for ragged indices. The new axis must come after all ragged axes.

    Args:
      function: the ``one_hot`` of dense tensors.
      indices: the ragged tensor.
      depth: the size of the new axis.
      on_value, off_value: the values at the index and elsewhere.
      axis: the new axis; None for the last.
      dtype: the dtype of the result.
    """
    new_axis = None if axis is None else static_int(axis, "axis")
    if new_axis is not None and new_axis >= 0:
        if new_axis <= indices.ragged_rank:
            raise ValueError(f"axis ({new_axis}) must be greater than indices.ragged_rank ({indices.ragged_rank}).")
        new_axis -= indices.ragged_rank
    return indices.with_flat_values(function(indices.flat_values, depth, on_value, off_value, new_axis, dtype))


# -- computed along rows


def _cumsum(
    function: Any, x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: Any = None
) -> Any:
    """Implements ``tf.cumsum`` for ragged tensors.

    Along a ragged axis, the padded dense tensor is summed.

    Args:
      function: the ``cumsum`` of dense tensors.
      x: the ragged tensor.
      axis: the axis of the sums.
      exclusive: whether a sum leaves out the element at its own position.
      reverse: whether the sums begin at the end of a row.
    """
    sum_axis = _nonnegative_axis(axis, x.shape.rank)
    is_dense_axis = sum_axis > x.ragged_rank
    if is_dense_axis:
        axis_of_values = sum_axis - x.ragged_rank
        return x.with_flat_values(function(x.flat_values, axis_of_values, exclusive, reverse))
    sums = function(x.to_tensor(), sum_axis, exclusive, reverse)
    return RaggedTensor.from_tensor(sums, lengths=x.nested_row_lengths())


def _softmax(function: Any, logits: Any, axis: Any = None, name: Any = None) -> Any:
    softmax_axis = -1 if axis is None else axis
    names = public_names()
    exponentials = names["exp"](logits - names["reduce_max"](logits, axis=softmax_axis, keepdims=True))
    return exponentials / names["reduce_sum"](exponentials, axis=softmax_axis, keepdims=True)


def _logsumexp(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    """Implements ``tf.reduce_logsumexp`` for ragged tensors."""
    names = public_names()
    # The maximum is subtracted first, so that exp doesn't overflow.
    maximum = names["reduce_max"](input_tensor, axis, True)
    total = names["reduce_sum"](names["exp"](input_tensor - maximum), axis, True)
    return names["reduce_sum"](names["math.log"](total) + maximum, axis, keepdims)


def _variance(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    """Implements ``tf.math.reduce_variance`` for ragged tensors: the mean square minus the squared mean.

    Args:
      function: the ``reduce_variance`` of dense tensors; not used.
      input_tensor: the ragged tensor.
      axis: the axes to reduce; None for all.
      keepdims: whether the reduced axes keep size 1.
    """
    if input_tensor.dtype.is_complex:
        raise ValueError("reduce_variance is not supported for RaggedTensors with complex dtypes.")
    reduce_mean = public_names()["reduce_mean"]
    maximum = public_names()["maximum"]
    mean_square = reduce_mean(input_tensor * input_tensor, axis, keepdims)
    mean = reduce_mean(input_tensor, axis, keepdims)
    return maximum(mean_square - mean * mean, 0)  # rounding may make the difference negative


def _std(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    return public_names()["sqrt"](_variance(function, input_tensor, axis, keepdims))


def _embedding_lookup(function: Any, params: Any, ids: Any, max_norm: Any = None, name: Any = None) -> Any:
    return ids.with_flat_values(function(params, ids.flat_values, max_norm))


def _matmul(function: Any, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, **kwargs: Any) -> Any:
    """Implements ``tf.matmul`` for ragged tensors.

    Two cases are supported: two matrices whose rows have the same length, and a ragged batch of matrices, which may
    differ in their number of rows, times a dense batch.
    """
    first = as_tensor(a)
    second = as_tensor(b)
    if first.dtype is not second.dtype:
        raise ValueError("`a` and `b` must have the same dtype.")
    rank = first.shape.rank
    if rank != second.shape.rank:
        raise ValueError("`a` and `b` must have the same rank.")
    if rank == 2:
        return function(_dense_matrix(first), _dense_matrix(second), transpose_a, transpose_b, **kwargs)
    is_ragged_batch = rank == 3 and not isinstance(second, RaggedTensor) and first.ragged_rank == 1
    if is_ragged_batch and not transpose_a:
        # Each row of the batch is multiplied by the dense matrix of its batch item.
        matrix_of_row = gather(second, first.value_rowids())
        rows = public_names()["expand_dims"](first.values, 1)
        products = function(rows, matrix_of_row, transpose_b=transpose_b, **kwargs)
        return first.with_values(products[:, 0])
    raise NotImplementedError(
        "tf.matmul of ragged tensors takes matrices, or a batch [B, (I), J] of which only I is ragged, by a dense one: "
        "convert the others with to_tensor()"
    )


def _dense_matrix(matrix: Any) -> Tensor:
    """Converts a ragged matrix to a dense matrix; asserts that all rows have the same length."""
    if not isinstance(matrix, RaggedTensor):
        return matrix  # type: ignore[no-any-return]
    dense = matrix.to_tensor()
    message = "The matrices in `a` and `b` may not be ragged in their innermost dimension."
    size = public_names()["size"]
    assert_equal(size(matrix.flat_values), size(dense), message=message)
    return dense


# -- partitions


@export("ragged.stack_dynamic_partitions")
def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> RaggedTensor:
    """Groups the slices of ``data`` by partition; row ``i`` has the slices of partition ``i``.

    Args:
      data: a ragged or dense tensor.
      partitions: integers of shape ``data.shape[:n]``.
      num_partitions: the number of rows of the result.

    >>> import tvtf as tf
    >>> tf.ragged.stack_dynamic_partitions(["a", "b", "c", "d", "e"], [3, 0, 2, 2, 3], 5)
    <tf.RaggedTensor [[b'b'], [], [b'c', b'd'], [b'a', b'e'], []]>

    Raises:
      InvalidArgumentError: a partition is negative or not less than ``num_partitions``.

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/stack_dynamic_partitions
    """
    rows, ids = as_tensor(data), as_tensor(partitions)
    rank = ids.shape.rank
    ids.shape.assert_is_compatible_with(rows.shape[:rank])
    if rank == 0:
        stacked = stack_all([rows], 0).values if isinstance(rows, RaggedTensor) else bind.stack(rows, axis=0)
        return RaggedTensor.from_value_rowids(stacked, bind.reshape(ids, shape=(1,)), num_partitions, validate=False)
    if rank == 1:
        return _group_by_partition(rows, ids, convert_to_tensor(num_partitions, dtype_hint=ids.dtype))
    rows = rows if isinstance(rows, RaggedTensor) else from_tensor(rows, None, None, 1, int64)
    ids = ids if isinstance(ids, RaggedTensor) else from_tensor(ids, None, None, 1, int64)
    message = "data and partitions have incompatible ragged shapes"
    assert_equal(rows.row_splits, cast(ids.row_splits, rows.row_splits.dtype), message=message)
    return stack_dynamic_partitions(rows.values, ids.values, num_partitions)


def _group_by_partition(rows: Any, ids: Tensor, count: Tensor) -> RaggedTensor:
    """Groups rows by their partition ids into a ragged tensor with ``count`` partitions; rows keep their order."""
    order = argsort(ids, stable=True)
    sorted_ids = gather(ids, order)
    limit = cast(count, ids.dtype)
    assert_less(sorted_ids[-1:], limit, message="partitions must be less than num_partitions")
    assert_non_negative(ids, message="partitions must be non-negative.")
    values = ragged_gather(rows, order) if isinstance(rows, RaggedTensor) else gather(rows, order)
    return RaggedTensor.from_value_rowids(values, sorted_ids, limit, validate=False)


def _dynamic_partition(function: Any, data: Any, partitions: Any, num_partitions: Any, name: Any = None) -> list[Any]:
    if not isinstance(num_partitions, int) or num_partitions < 0:
        raise TypeError("num_partitions must be a non-negative integer")
    result = stack_dynamic_partitions(data, partitions, num_partitions)
    return [result[i] for i in range(num_partitions)]


@by_name
def _bincount(arr: Any, weights: Any, axis: int | None, name: Any, **options: Any) -> Any:
    """Counts the values of a ragged tensor, in total or for each row."""
    element_weights = None if weights is None else convert_to_tensor(weights.flat_values)
    row_ids = cast(arr.value_rowids(), int64) if axis == -1 else None
    row_count = None if row_ids is None else simplify_dim(arr.row_splits._type.shape[0] - 1)
    return counts(arr.flat_values, element_weights, row_ids, row_count, axis, **options)


def _sparse_bincount(function: Any, values: Any, weights: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Implements ``tf.sparse.bincount`` for ragged tensors, after converting them to sparse ones."""
    if weights is not None and not isinstance(weights, RaggedTensor):
        raise ValueError(
            "`weights` must be a RaggedTensor if `values` is a RaggedTensor. Received argument "
            f"weights={weights} of type: {type(weights).__name__}."
        )
    return function(values.to_sparse(), None if weights is None else weights.to_sparse(), *args, **kwargs)


HANDLERS: dict[str, Handler] = {
    "math.bincount": _bincount,
    "sparse.bincount": _sparse_bincount,
    "concat": _concat,
    "stack": _stack,
    "gather": by_name(lambda params, indices, axis, batch_dims, **_: ragged_gather(params, indices, axis, batch_dims)),
    "gather_nd": gather_nd,
    "boolean_mask": _boolean_mask,
    "size": _size,
    "rank": _rank,
    "expand_dims": _expand_dims,
    "reverse": _reverse,
    "add_n": _add_n,
    "strings.join": _join,
    "where": _where,
    "tile": _tile,
    "split": _split,
    "squeeze": _squeeze,
    "shape": _shape,
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "broadcast_dynamic_shape": _broadcast_dynamic_shape,
    "zeros": _fill,
    "ones": _fill,
    "fill": _fill,
    "one_hot": _one_hot,
    "cumsum": _cumsum,
    "nn.softmax": _softmax,
    "reduce_logsumexp": _logsumexp,
    "math.reduce_variance": _variance,
    "math.reduce_std": _std,
    "nn.embedding_lookup": _embedding_lookup,
    "linalg.matmul": _matmul,
    "dynamic_partition": _dynamic_partition,
}
"""Public path -> its handler for ragged arguments."""
