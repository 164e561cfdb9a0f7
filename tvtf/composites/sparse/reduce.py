"""Reductions of sparse tensors along axes, and segment reductions of rows selected by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.sparse.kernels import distinct_indices, linear_indices, vector
from tvtf.composites.sparse.tensor import SparseTensor, of_shape, rank_of, sizes
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, agree_shape, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, REAL, as_dtype, int32, int64
from tvtf.ops.array import matrix_transpose
from tvtf.ops.indexing import gather, gather_densely, gather_nd
from tvtf.ops.operands import attributes, flag, operand
from tvtf.ops.rules import bind, dims_of, number, require_dtype, size_argument, static_value
from tvtf.ops.segment import ascending_at_run_time, require_ids, unsorted_segment_mean, unsorted_segment_sqrt_n


@export("sparse.reduce_sum")
@attributes(keepdims=flag("keep_dims"))
def reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False, name: str | None = None
) -> Any:
    """Returns the sum of the elements along axes.

    Args:
      sp_input: SparseTensor.
      axis: int or list of ints; default: all axes.
      keepdims: keeps the reduced axes with size 1.
      output_is_sparse: returns a SparseTensor.

    Returns:
      A tensor, or a SparseTensor of the results that have elements.

    Raises:
      InvalidArgumentError: an axis is out of range.

    >>> import tvtf as tf
    >>> tf.sparse.reduce_sum(tf.sparse.from_dense([[1, 0, 1], [0, 1, 0]]), 1).numpy()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/reduce_sum
    """
    return _reduced(sp_input, axis, keepdims, output_is_sparse, _sums, "SparseReduceSum")


@export("sparse.reduce_max")
@attributes(keepdims=flag("keep_dims"))
def reduce_max(
    sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False, name: str | None = None
) -> Any:
    """Returns the maximum of the stored elements along axes; zero where there are none.

    The arguments, the result and the errors are those of `tf.sparse.reduce_sum`.

    >>> import tvtf as tf
    >>> tf.sparse.reduce_max(tf.sparse.from_dense([[-1, 0, -2], [0, 0, 0]]), 1).numpy()
    array([-1,  0], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/reduce_max
    """
    return _reduced(sp_input, axis, keepdims, output_is_sparse, _maxima, "SparseReduceMax")


Combine = Callable[[Tensor, Tensor, Dim], Tensor]


def _sums(values: Tensor, ids: Tensor, count: Dim) -> Tensor:
    return bind.unsorted_segment_sum(values, ids, num_segments=count)  # type: ignore[no-any-return]


def _maxima(values: Tensor, ids: Tensor, count: Dim) -> Tensor:
    """Returns the maximum of each segment; 0 for segments without elements."""
    ones = bind.broadcast_to(number(1, ids), shape=ids._type.shape)
    maxima = bind.unsorted_segment_max(values, ids, num_segments=count)
    counts = bind.unsorted_segment_sum(ones, ids, num_segments=count)
    return bind.select(bind.greater(counts, number(0, counts)), maxima, number(0, maxima))  # type: ignore[no-any-return]


def _reduced(sp: SparseTensor, axis: Any, keepdims: Any, is_sparse: bool, combine: Combine, op: str) -> Any:
    """Reduces a sparse tensor along axes to a dense tensor, or to a sparse tensor if ``is_sparse``.

    Args:
      sp: the sparse tensor.
      axis: the axes to reduce, None for all.
      keepdims: whether reduced axes are kept with size 1.
      is_sparse: whether the result is sparse.
      combine: a function of values, segment ids and the number of segments: computes the sum or maximum of the elements
        that have the same index in the remaining axes.
      op: the op's name in errors.
    """
    rank = rank_of(sp)
    reduced_axes = _reduced_axes(axis, rank, op + ("Sparse" if is_sparse else ""))
    remaining_axes = [i for i in range(rank) if i not in reduced_axes]
    indices = bind.gather(sp.indices, vector(remaining_axes), axis=1, batch_dims=0)
    if is_sparse:
        return _reduced_sparse(sp, indices, remaining_axes, bool(keepdims), combine)
    dims = sizes(sp) if remaining_axes else ()  # for a scalar result the sizes aren't needed
    shape = tuple(dims[i] for i in remaining_axes)
    segment_ids = linear_indices(indices, _gathered_shape(sp, remaining_axes))
    result = combine(sp.values, segment_ids, size_of(shape))
    if keepdims:
        shape = tuple(1 if i in reduced_axes else dims[i] for i in range(rank))
    return bind.reshape(result, shape=shape)


def _gathered_shape(sp: SparseTensor, axes: list[int]) -> Tensor:
    return bind.gather(sp.dense_shape, vector(axes), axis=0, batch_dims=0)  # type: ignore[no-any-return]


def _reduced_axes(axis: Any, rank: int, op: str) -> set[int]:
    """Converts the argument ``axis`` of a reduction, None for all axes, to a set of non-negative axes.

    Args:
      axis: the argument.
      rank: the rank of the tensor.
      op: the name of the op in error messages.
    """
    axes = range(rank) if axis is None else static_value(operand(axis, int32, 3), "axis")
    requested = np.ravel(axes).tolist()
    for each in requested:
        if not -rank <= each < rank:
            raise ArgumentError(f"Invalid reduction dimension {each}, for input with {rank} dimensions.").for_op(op)
    return {each % rank for each in requested}


def _reduced_sparse(
    sp: SparseTensor, indices: Tensor, remaining: list[int], keepdims: bool, combine: Combine
) -> SparseTensor:
    """Reduces a sparse tensor to a sparse tensor with an element for each distinct index in the ``remaining`` axes.

    ``indices`` are the elements' indices in these axes. With ``keepdims``, the reduced axes have size 1.
    """
    distinct, segment_ids = distinct_indices(indices)
    count = distinct._type.shape[0]
    values = combine(sp.values, segment_ids, count)
    if not keepdims:
        reduced = SparseTensor(distinct, values, _gathered_shape(sp, remaining))
        return of_shape(reduced, [sp.shape[i] for i in remaining])
    zeros = bind.broadcast_to(number(0, distinct), shape=(count, 1))
    index_columns, dims, static_dims = [], [], []
    for axis in range(rank_of(sp)):
        if axis in remaining:
            column = remaining.index(axis)
            index_columns.append(distinct[:, column : column + 1])
            dims.append(sp.dense_shape[axis : axis + 1])
            static_dims.append(sp.shape[axis])
        else:  # index 0 along an axis of size 1
            index_columns.append(zeros)
            dims.append(vector([1]))
            static_dims.append(1)
    reduced = SparseTensor(bind.concat(*index_columns, axis=1), values, bind.concat(*dims, axis=0))
    return of_shape(reduced, static_dims)


# -- rows that a vector names, by segments


@export("sparse.segment_sum")
@attributes(sparse_gradient=bool)
def segment_sum(
    data: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Sums the rows of ``data`` at ``indices`` by segment.

    Args:
      data: tensor of shape (rows, ...).
      indices: integer vector of row indices.
      segment_ids: integer vector of the same length, ascending.
      num_segments: the number of sums; default: the last id plus 1.
      sparse_gradient: makes the gradient with respect to ``data`` IndexedSlices.

    Returns:
      A tensor of shape (num_segments, ...), zero for ids that do not occur.

    Raises:
      InvalidArgumentError: an index or a segment id is out of range, or the segment ids are not ascending.

    >>> import tvtf as tf
    >>> tf.sparse.segment_sum(tf.constant([[1, 2], [3, 4], [5, 6]]), [0, 2], [0, 0]).numpy()
    array([[6, 8]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/segment_sum
    """
    return _reduce_segments(data, indices, segment_ids, num_segments, sparse_gradient, _sums, "SparseSegmentSum")


@export("sparse.segment_mean")
@attributes(sparse_gradient=bool)
def segment_mean(
    data: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Returns the means of the rows that :func:`segment_sum` sums.

    >>> import tvtf as tf
    >>> tf.sparse.segment_mean(tf.constant([[1., 2.], [3., 4.], [5., 6.]]), [0, 2], [0, 0]).numpy()
    array([[3., 4.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/segment_mean
    """
    mean = unsorted_segment_mean
    return _reduce_segments(data, indices, segment_ids, num_segments, sparse_gradient, mean, "SparseSegmentMean")


@export("sparse.segment_sqrt_n")
@attributes(sparse_gradient=bool)
def segment_sqrt_n(
    data: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Returns the sums of :func:`segment_sum`, divided by the square roots of the numbers of rows.

    >>> import tvtf as tf
    >>> tf.sparse.segment_sqrt_n(tf.constant([[1., 2.]] * 4), [0, 1, 2, 3], [0, 0, 0, 0]).numpy()
    array([[2., 4.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/segment_sqrt_n
    """
    root = unsorted_segment_sqrt_n
    return _reduce_segments(data, indices, segment_ids, num_segments, sparse_gradient, root, "SparseSegmentSqrtN")


def _reduce_segments(
    data: Any, indices: Any, segment_ids: Any, num_segments: Any, is_sparse: bool, combine: Combine, op: str
) -> Tensor:
    """Gathers rows of a tensor, and reduces gathered rows that have the same segment id.

    Args:
      data: the tensor.
      indices: vector of the rows to gather.
      segment_ids: vector of the segment of each gathered row, in ascending order.
      num_segments: the number of segments; None for the last segment id plus one.
      is_sparse: whether the gradient of ``data`` is sparse.
      combine: the reduction.
      op: the op's name in errors.

    Returns:
      one row for each segment.
    """
    x = convert_to_tensor(data)
    row_indices = convert_to_tensor(indices)
    segments = convert_to_tensor(segment_ids)
    require_dtype(x._type, REAL if combine is _sums else FLOATING, "data")
    require_ids(row_indices, "Tidx", "indices")
    require_ids(segments, "Tsegmentids")
    count = None if num_segments is None else size_argument(num_segments, "num_segments")
    if row_indices.ndim != 1 or not agree_shape(row_indices._type.shape, segments._type.shape):
        suffix = "" if count is None else "WithNumSegments"
        raise ArgumentError("segment_ids and indices should have same size.", ValueError).for_op(op + suffix)
    if isinstance(segments, EagerTensor) and isinstance(row_indices, EagerTensor):
        _require_segments(x, row_indices.eager_array(), segments.eager_array(), count, op)
        checked: Tensor = segments
    else:
        checked = ascending_at_run_time(segments)
    if count is None:  # constant ids give a static size
        count = segment_count(segments if isinstance(segments, EagerTensor) else checked)
    rows = gather(x, row_indices) if is_sparse else gather_densely(x, row_indices)
    return combine(rows, checked, count)


def segment_count(ids: Tensor) -> Dim:
    """Returns the number of segments of ascending ids: the last id plus 1, or 0 without ids."""
    last_id = bind.concat(vector([-1]), bind.cast(ids, dtype=int64), axis=0)[-1:]
    return dims_of(bind.add(last_id, number(1, last_id)))[0]


def _require_segments(x: Tensor, indices: np.ndarray, ids: np.ndarray, count: Any, op: str) -> None:
    """Checks the indices and segment ids of a sparse segment reduction, or raises TensorFlow's error.

    Ids must ascend and be less than ``count``, the number of segments, if it is given. Indices must be rows of ``x``.
    """
    op += "" if count is None else "WithNumSegments"
    if not len(ids):
        return
    if isinstance(count, int) and ids[-1] >= count:
        raise ArgumentError("segment ids must be < num_segments").for_op(op)
    if (np.diff(ids) < 0).any():
        raise ArgumentError("segment ids are not increasing").for_op(op)
    if ids[0] < 0:
        limit = int(ids[-1]) + 1 if count is None else count
        message = f"Segment id {ids[0]} out of range [0, {limit}), possibly because 'segment_ids' input is not sorted."
        raise ArgumentError(message).for_op(op)
    row_count = x._type.shape[0]
    if not isinstance(row_count, int):
        return
    out_of_range = np.flatnonzero((indices < 0) | (indices >= row_count))
    if len(out_of_range):
        position = out_of_range[0]
        message = f"Bad: indices[{position}] == {indices[position]} out of range [0, {row_count})"
        raise ArgumentError(message).for_op(op)


# -- products at some indices


@export("sparse.sampled_addmm")
def sampled_addmm(
    indices: Any,
    values: Any,
    dense_shape: Any,
    mat1: Any,
    mat2: Any,
    beta: Any = 1.0,
    alpha: Any = 1.0,
    output_type: Any = "float32",
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes ``alpha * mat1 @ mat2 + beta * values`` at some indices of the product only.

    Args:
      indices: integer tensor of shape (..., n, 2).
      values: tensor of shape (..., n).
      dense_shape: the shape of the product.
      mat1, mat2: tensors of shapes (..., rows, k) and (..., k, columns).
      beta, alpha: scalars.
      output_type: the dtype of values and matrices.

    Returns:
      ``indices``, the new values, and ``dense_shape``.

    Raises:
      ValueError: ``dense_shape`` is not the shape of the product.

    >>> import tvtf as tf
    >>> tf.sparse.sampled_addmm([[0, 1]], [10.], [2, 2], tf.eye(2), [[1., 2.], [3., 4.]])[1].numpy()
    array([12.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/sampled_addmm
    """
    dtype = as_dtype(output_type)
    positions, old_values = convert_to_tensor(indices), convert_to_tensor(values, dtype)
    shape = convert_to_tensor(dense_shape, int32)
    a = convert_to_tensor(mat1, dtype)
    b = convert_to_tensor(mat2, dtype)
    product_shape = a.shape[-2], b.shape[-1]
    if (
        isinstance(shape, EagerTensor)
        and None not in product_shape
        and tuple(shape.eager_array().tolist()) != product_shape
    ):
        raise ValueError(
            f"Dense shape: {shape} does not match output shape: {EagerTensor(np.array(product_shape, np.int32))}"
        )
    # Each index of the result is (batch..., row, column): its element is the product of this row of `a` and this column
    # of `b`. The rest of the dense product isn't computed.
    batch = a.ndim - 2
    columns = bind.concat(positions[..., :-2], positions[..., -1:], axis=positions.ndim - 1)
    selected_rows = gather_nd(a, positions[..., :-1], batch_dims=batch)
    selected_columns = gather_nd(matrix_transpose(b), columns, batch_dims=batch)
    products = bind.reduce_sum(
        bind.multiply(selected_rows, selected_columns), axis=(selected_rows.ndim - 1,), keepdims=False
    )
    scaled = [bind.multiply(x, convert_to_tensor(scale, dtype)) for x, scale in ((products, alpha), (old_values, beta))]
    return positions, bind.add(*scaled), shape
