"""``tf.sparse`` functions that select: slice, split, retain, reset_shape, mask, fill_empty_rows, map_values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tvtf.composites.sparse.kernels import all_of, gather_elements, known_vector, one_hot
from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, of_shape, rank_of, sizes
from tvtf.core import nest
from tvtf.core.argument_error import ArgumentError, incompatible_shapes
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.primitive import export
from tvtf.core.shape import agree_dim
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import bool as bool_dtype
from tvtf.dtypes import int64
from tvtf.ops.assert_values import assert_equal
from tvtf.ops.indexing import gather_densely, in_range, nonzero_indices
from tvtf.ops.operands import at_least, attributes
from tvtf.ops.rules import bind, number, static_int
from tvtf.ops.value_checks import required


@export("sparse.slice")
def slice_(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Slices a block out of a sparse tensor.

    Args:
      sp_input: SparseTensor.
      start: int64 vector, the start of the block on each axis.
      size: int64 vector, the size of the block on each axis; it is cut at the end of the tensor.

    Raises:
      TypeError: the argument is not a SparseTensor.
      InvalidArgumentError: the length of a vector is not the rank.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sparse.slice(tf.sparse.from_dense([[1, 2, 3], [4, 5, 6]]), [0, 1], [2, 9])).numpy()
    array([[2, 3],
           [5, 6]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/slice
    """
    sp = as_sparse(sp_input)
    first, extent = convert_to_tensor(start, int64), convert_to_tensor(size, int64)
    for vector_, argument in ((first, "start"), (extent, "size")):
        if vector_._type.shape != (rank_of(sp),):
            message = f"Expected {argument} to be a vector of length {rank_of(sp)} but got length {vector_.shape[0]}"
            raise ArgumentError(message).for_op("SparseSlice")
    return _slice_block(sp, first, extent)


def _slice_block(sp: SparseTensor, start: Tensor, size: Tensor) -> SparseTensor:
    """Slices a sparse tensor: returns the elements in the block of ``size`` at ``start``, shifted to the origin.

    ``size`` is clipped to the tensor's shape.
    """
    zero = EagerTensor(np.zeros((), np.int64))
    shape = bind.maximum(bind.minimum(size, bind.subtract(sp.dense_shape, start)), zero)
    shifted = bind.subtract(sp.indices, start)
    is_inside = bind.logical_and(bind.greater_equal(shifted, zero), bind.less(shifted, shape))
    positions = _true_positions(bind.reduce_all(is_inside, axis=(1,), keepdims=False))
    return gather_elements(SparseTensor(shifted, sp.values, shape), positions)


def _true_positions(condition: Tensor) -> Tensor:
    """Returns the indices at which a bool vector is true."""
    return nonzero_indices(condition)[:, 0]


@export("sparse.split")
@attributes(num_split=at_least(1))
def split(sp_input: Any = None, num_split: Any = None, axis: Any = None, name: str | None = None) -> list[SparseTensor]:
    """Splits a sparse tensor into ``num_split`` parts along an axis; the first parts are larger by one if sizes differ.

    Raises:
      ValueError: an argument is missing.
      TypeError: the argument is not a SparseTensor.
      InvalidArgumentError: the axis is out of range, or shorter than ``num_split``.

    >>> import tvtf as tf
    >>> [tf.sparse.to_dense(s).numpy().tolist() for s in tf.sparse.split(tf.sparse.from_dense([1, 0, 2]), 2, 0)]
    [[1, 0], [2]]

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/split
    """
    for value, argument in ((sp_input, "sp_input"), (num_split, "num_split"), (axis, "axis")):
        if value is None:
            raise ValueError(f"{argument} is required")
    sp = as_sparse(sp_input)
    rank = rank_of(sp)
    split_axis = static_int(axis, "axis")
    count = static_int(num_split, "num_split")
    if not -rank <= split_axis < rank:
        raise ArgumentError(f"Input axis should be in range [{-rank}, {rank}), got {split_axis}").for_op("SparseSplit")
    split_axis %= rank
    size = sp.shape[split_axis]
    if count < 1 or (size is not None and count > size):
        message = f"Input num_split should be between 1 and the splitting dimension size ({size}), got {count}"
        raise ArgumentError(message).for_op("SparseSplit")
    return [_part(sp, split_axis, i, count) for i in range(count)]


def _part(sp: SparseTensor, axis: int, index: int, count: int) -> SparseTensor:
    """Returns one of the parts of a sparse tensor that is split along an axis.

    If ``count`` doesn't divide the size, the first ``size % count`` parts are longer by one.

    Args:
      sp: the sparse tensor.
      axis: the axis to split.
      index, count: the index of the part, and the number of parts.
    """
    size = sp.dense_shape[axis]
    part_count = EagerTensor(np.array(count))
    base_length = bind.floordiv(size, part_count)
    remainder = bind.floormod(size, part_count)
    part = EagerTensor(np.array(index))
    start = bind.add(bind.multiply(base_length, part), bind.minimum(remainder, part))
    length = bind.add(base_length, bind.cast(bind.less(part, remainder), dtype=int64))
    # A constant length makes the part's static shape known.
    static_size = sp.shape[axis]
    if isinstance(static_size, int):
        is_longer = index < static_size % count
        length = EagerTensor(np.array(static_size // count + is_longer))
    change_of_size = one_hot(axis, bind.subtract(length, size), rank_of(sp))
    extent = bind.add(sp.dense_shape, change_of_size)
    return _slice_block(sp, one_hot(axis, start, rank_of(sp)), extent)


@export("sparse.retain")
def retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Selects the elements for which ``to_retain`` is true.

    Args:
      sp_input: SparseTensor of n elements.
      to_retain: bool vector of length n.

    Raises:
      TypeError: the argument is not a SparseTensor.
      ValueError: the length of ``to_retain`` is not the number of stored elements.

    >>> import tvtf as tf
    >>> tf.sparse.retain(tf.sparse.from_dense([1, 0, 2]), [False, True]).values.numpy()
    array([2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/retain
    """
    sp = as_sparse(sp_input)
    retained = convert_to_tensor(to_retain, bool_dtype)
    retained.shape.assert_has_rank(1)
    if not agree_dim(sp.values._type.shape[0], retained._type.shape[0]):
        counts = f"{sp.values.shape[0]} and {retained.shape[0]}"
        raise incompatible_shapes(ValueError(f"Dimensions {counts} are not compatible"))
    return of_shape(gather_elements(sp, _true_positions(retained)), sp.shape)


@export("sparse.reset_shape")
def reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Sets the dense shape to a larger one, or to the smallest one that holds all elements.

    Args:
      sp_input: SparseTensor.
      new_shape: integer vector of sizes, each at least the input's; default: the smallest that hold all elements.

    Raises:
      TypeError: the argument is not a SparseTensor.
      ValueError: a size is less than the input's, or the rank differs.

    >>> import tvtf as tf
    >>> tf.sparse.reset_shape(tf.SparseTensor([[0, 1]], [5], [4, 4])).dense_shape.numpy()
    array([1, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/reset_shape
    """
    sp = as_sparse(sp_input)
    if new_shape is None:
        before_first = EagerTensor(np.full((1, rank_of(sp)), -1))
        largest_index = bind.reduce_max(bind.concat(before_first, sp.indices, axis=0), axis=(0,), keepdims=False)
        return SparseTensor(sp.indices, sp.values, bind.add(largest_index, number(1, largest_index)))
    shape = bind.cast(convert_to_tensor(new_shape), dtype=int64)
    shape.shape.assert_has_rank(1)
    if shape.shape[0] is not None and shape.shape[0] != rank_of(sp):
        raise ValueError(f"Dimensions {shape.shape[0]} and {rank_of(sp)} are not compatible")
    new, old = known_vector(shape), known_vector(sp.dense_shape)
    if new is None or old is None:
        fits = all_of(bind.less_equal(sp.dense_shape, shape))
        shape = bind.checked(shape, fits, message="Requested new_shape should have dimension sizes >= sp_input.shape.")
    elif any(new_dim < old_dim for new_dim, old_dim in zip(new, old)):
        result = f"Found new_shape ({np.array(old)}), sp_input.shape ({np.array(new)})."
        raise ValueError(f"Requested new_shape should have dimension sizes >= sp_input.shape.  {result}")
    return SparseTensor(sp.indices, sp.values, shape)


@export("sparse.mask")
def mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Removes the rows of IndexedSlices that have the given indices.

    >>> import tvtf as tf
    >>> rows = tf.IndexedSlices(tf.constant([[1.], [2.]]), tf.constant([4, 7]))
    >>> tf.sparse.mask(rows, [4]).indices.numpy()
    array([7], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/mask
    """
    values, row_indices = convert_to_tensor(a.values), convert_to_tensor(a.indices)
    masked = convert_to_tensor(mask_indices, dtype_hint=row_indices.dtype)
    is_match = bind.equal(bind.reshape(row_indices, shape=(*row_indices._type.shape, 1)), masked)
    remaining_rows = _true_positions(bind.logical_not(bind.reduce_any(is_match, axis=(1,), keepdims=False)))
    return IndexedSlices(
        gather_densely(values, remaining_rows),
        bind.gather(row_indices, remaining_rows, axis=0, batch_dims=0),
        a.dense_shape,
    )


# -- rows


@export("sparse.fill_empty_rows")
def fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Adds ``default_value`` in the first column of each empty row; the result is in the order of rows.

    Args:
      sp_input: SparseTensor of shape (rows, ...).
      default_value: scalar.

    Returns:
      The SparseTensor, and a bool tensor of shape (rows,), true for the rows that were empty.

    Raises:
      TypeError: the argument is not a SparseTensor.
      InvalidArgumentError: an index is out of range, or ``default_value`` is not a scalar.

    >>> import tvtf as tf
    >>> filled, empty = tf.sparse.fill_empty_rows(tf.sparse.from_dense([[0, 0], [0, 5]]), -1)
    >>> tf.sparse.to_dense(filled).numpy(), empty.numpy()
    (array([[-1,  0],
           [ 0,  5]], dtype=int32), array([ True, False]))

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/fill_empty_rows
    """
    sp = as_sparse(sp_input)
    default = convert_to_tensor(default_value, sp.dtype)
    if default.ndim:
        message = f"default_value must be a scalar, saw: [{','.join(map(str, default.shape))}]"
        raise ArgumentError(message).for_op("SparseFillEmptyRows")
    count = sizes(sp)[0]
    check = partial(_check_rows, count=count)
    indices = required(sp.indices, check, lambda x: in_range(x[:, 0], count), _ROWS_MESSAGE)
    sp = of_shape(SparseTensor(indices, sp.values, sp.dense_shape), sp.shape)
    rows = sp.indices[:, 0]
    # The number of elements in each row.
    ones = bind.broadcast_to(number(1, rows), shape=rows._type.shape)
    row_lengths = bind.unsorted_segment_sum(ones, rows, num_segments=count)
    is_empty = bind.equal(row_lengths, number(0, row_lengths))
    empty_rows = nonzero_indices(is_empty)
    zeros = bind.broadcast_to(number(0, empty_rows), shape=(empty_rows._type.shape[0], rank_of(sp) - 1))
    # The default values are appended at (row, 0, ...), and then sorted into the other elements by their rows.
    indices = bind.concat(sp.indices, bind.concat(empty_rows, zeros, axis=1) if rank_of(sp) > 1 else empty_rows, axis=0)
    values = bind.concat(sp.values, bind.broadcast_to(default, shape=empty_rows._type.shape[:1]), axis=0)
    order = bind.argsort(indices[:, 0], descending=False)
    filled = gather_elements(SparseTensor(indices, values, sp.dense_shape), order)
    return of_shape(filled, sp.shape), is_empty


_ROWS_MESSAGE = "indices are not in the rows of the dense shape"


def _check_rows(indices: np.ndarray, count: Any) -> None:
    rows = indices[:, 0]
    for position in np.flatnonzero((rows < 0) | (rows >= count)):
        message = f"{rows[position]} >= {count}" if rows[position] > 0 else f"{rows[position]} < 0"
        raise ArgumentError(f"indices({position}, 0) is invalid: {message}").for_op("SparseFillEmptyRows")


@export("sparse.map_values")
def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> SparseTensor:
    """Applies ``op`` to the values of sparse arguments that have the same indices.

    Args:
      op: a function of values that preserves their shape.
      *args, **kwargs: its arguments; at least one must be a SparseTensor.

    Raises:
      ValueError: no argument is a SparseTensor.
      InvalidArgumentError: the sparse arguments have different indices or shapes.

    >>> import tvtf as tf
    >>> tf.sparse.map_values(tf.add, tf.sparse.from_dense([1, 0, 2]), 5).values.numpy()
    array([6, 7], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/map_values
    """
    sparse_args = [leaf for leaf in nest.flatten((args, kwargs)) if isinstance(leaf, SparseTensor)]
    if not sparse_args:
        raise ValueError("No SparseTensor in argument list of map_values")
    for other in sparse_args[1:]:
        require_same_indices(sparse_args[0], other)
    plain_args, plain_kwargs = nest.map_structure(
        lambda v: v.values if isinstance(v, SparseTensor) else v, (args, kwargs)
    )
    return sparse_args[0].with_values(op(*plain_args, **plain_kwargs))


def require_same_indices(a: SparseTensor, b: SparseTensor) -> None:
    assert_equal(a.dense_shape, b.dense_shape, message="Mismatched shapes!")
    assert_equal(a.indices, b.indices, message="Mismatched indices!")
