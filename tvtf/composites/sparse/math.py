"""Arithmetic of sparse tensors: with dense tensors, with each other, and matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.sparse.cutting import retain
from tvtf.composites.sparse.kernels import all_of, distinct_indices, known_vector
from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, is_sparse, of_shape, rank_of, sizes
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, NUMERIC, DType, float32, float64, int64
from tvtf.ops.cast import cast
from tvtf.ops.dims import scalar_of
from tvtf.ops.indexing import gather_densely
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind, draw, kernel, number, require_dtype, require_same_dtype, require_shape

# -- with dense tensors, elementwise


def gather_broadcast(dense: Tensor, sp: SparseTensor, op: str) -> Tensor:
    """Broadcasts a dense tensor to a sparse tensor's shape, and gathers its elements at the sparse tensor's indices.

    ``op`` names the op in errors.

    Raises:
      InvalidArgumentError: the dense tensor can't be broadcast to the sparse tensor's shape.
    """
    missing_axes = rank_of(sp) - dense.ndim
    sparse_dims = list(sp.shape)
    dense_dims = dense._type.shape
    if missing_axes < 0 or any(map(_cannot_broadcast, dense_dims, sparse_dims[missing_axes:])):
        message = f"got incompatible shapes: {brackets(sparse_dims)} vs. {brackets(dense_dims)}"
        raise ArgumentError(f"SparseDenseBinaryOpShared broadcasts dense to sparse only; {message}").for_op(op)
    if not dense.ndim:
        return dense
    # Along a broadcast dim, of size 1, each index becomes 0.
    factors = [EagerTensor(np.array(0 if _is_one(dim) else 1)) for dim in dense_dims]
    index_factors = bind.stack(*factors, axis=0)
    dense_indices = bind.multiply(sp.indices[:, missing_axes:], index_factors)
    return bind.gather_nd(dense, dense_indices)  # type: ignore[no-any-return]


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


def _cannot_broadcast(dense_dim: Dim, sparse_dim: int | None) -> bool:
    return isinstance(dense_dim, int) and dense_dim != 1 and sparse_dim is not None and dense_dim != sparse_dim


def times(sp: SparseTensor, other: Any) -> SparseTensor:
    """Multiplies a sparse tensor by a dense one."""
    dense = convert_to_tensor(other, sp.dtype)
    return sp.with_values(bind.multiply(sp.values, gather_broadcast(dense, sp, "SparseDenseCwiseMul")))


def _converted(other: Any, dtype: DType) -> Tensor:
    try:
        return convert_to_tensor(other, dtype)
    except ValueError as error:
        raise ValueError(f"y: {error}") from None


def divided(sp: SparseTensor, other: Any) -> SparseTensor:
    """Divides a sparse tensor by a dense one; integers become floats."""
    dense = _converted(other, sp.dtype)
    if sp.dtype.is_integer:
        float_dtype = float32 if sp.dtype.np.itemsize <= 2 else float64
        sp, dense = sp.with_values(cast(sp.values, float_dtype)), cast(dense, float_dtype)
    return sp.with_values(bind.divide(sp.values, gather_broadcast(dense, sp, "SparseDenseCwiseDiv")))


# -- with each other


def _common_shape(a: SparseTensor, b: SparseTensor, op: str, rank_message: str) -> Tensor:
    """Checks that two sparse tensors have the same shape, and returns the shape as a vector.

    Static dims are compared now, others at run time.

    Args:
      a, b: the sparse tensors.
      op: the op's name in errors.
      rank_message: the error's text if the ranks differ.

    Raises:
      InvalidArgumentError: the shapes differ.
    """
    if rank_of(a) != rank_of(b):
        raise ArgumentError(rank_message).for_op(op)
    for i, (dim, other_dim) in enumerate(zip(a.shape, b.shape)):
        if None not in (dim, other_dim) and dim != other_dim:
            message = f"Operands' shapes do not match: got {dim} and {other_dim} for dimension {i}"
            raise ArgumentError(message).for_op(op)
    if known_vector(a.dense_shape) is not None and known_vector(b.dense_shape) is not None:
        return a.dense_shape
    equal = all_of(bind.equal(a.dense_shape, b.dense_shape))
    return bind.checked(a.dense_shape, equal, message="Operands' shapes do not match")  # type: ignore[no-any-return]


@export("sparse.add")
def add(a: Any, b: Any, threshold: Any = 0) -> Any:
    """Adds two tensors of the same shape, one or both of them sparse.

    Args:
      a, b: SparseTensor, or tensor.
      threshold: scalar; sums of two sparse elements that are smaller in magnitude are dropped.

    Returns:
      A SparseTensor if both are sparse, else a tensor.

    Raises:
      TypeError: neither ``a`` nor ``b`` is sparse.
      InvalidArgumentError: ranks or shapes differ.

    >>> import tvtf as tf
    >>> s = tf.sparse.add(tf.sparse.from_dense([1, 0, 2]), tf.sparse.from_dense([0, 3, 4]))
    >>> tf.sparse.to_dense(s).numpy()
    array([1, 3, 6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/add
    """
    if not (is_sparse(a) or is_sparse(b)):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if is_sparse(a) and is_sparse(b):
        return _added(as_sparse(a), as_sparse(b), threshold)
    return _added_densely(as_sparse(a), b) if is_sparse(a) else _added_densely(as_sparse(b), a)


def _added(a: SparseTensor, b: SparseTensor, threshold: Any) -> SparseTensor:
    """Adds two sparse tensors. Sums with a magnitude below the threshold are dropped.

    An element that only one of the tensors has is kept, however small.
    """
    require_dtypes(a, b, "SparseAdd")
    rank_message = f"Input indices must have the same dimension, got {rank_of(a)} and {rank_of(b)}"
    shape = _common_shape(a, b, "SparseAdd", rank_message)
    indices, positions = distinct_indices(bind.concat(a.indices, b.indices, axis=0))
    count = indices._type.shape[0]
    values = bind.concat(a.values, b.values, axis=0)
    sums = bind.unsorted_segment_sum(values, positions, num_segments=count)
    total = of_shape(of_shape(SparseTensor(indices, sums, shape), a.shape), b.shape)
    if not isinstance(threshold, Tensor) and not threshold:
        return total
    ones = bind.broadcast_to(number(1, positions), shape=positions._type.shape)
    tensor_counts = bind.unsorted_segment_sum(ones, positions, num_segments=count)
    is_in_one = bind.less(tensor_counts, number(2, positions))
    is_large = bind.greater_equal(bind.abs(sums), convert_to_tensor(threshold, a.dtype.real_dtype))
    return retain(total, bind.logical_or(is_in_one, is_large))


def require_dtypes(a: SparseTensor, b: SparseTensor, op: str) -> None:
    _require_one_dtype(a.values, b.values, op, "b_values")


def _require_one_dtype(a: Tensor, b: Tensor, op: str, name: str) -> None:
    try:
        require_same_dtype((a._type, b._type), ("a_values", name))
    except ArgumentError as dtype_error:
        raise dtype_error.for_op(op) from None


def _added_densely(sp: SparseTensor, other: Any) -> Tensor:
    """Adds a sparse and a dense tensor of the same shape: adds the sparse values at their indices of the dense tensor.

    Args:
      sp: the sparse tensor.
      other: the dense tensor.
    """
    dense = convert_to_tensor(other, dtype_hint=sp.dtype)
    _require_one_dtype(sp.values, dense, "SparseTensorDenseAdd", "b")
    if dense.ndim != rank_of(sp):
        message = f"Two operands have different ranks; received: {rank_of(sp)} and {dense.ndim}"
        raise ArgumentError(message).for_op("SparseTensorDenseAdd")
    for i, (sparse_dim, other_dim) in enumerate(zip(sp.shape, dense.shape)):
        if None not in (sparse_dim, other_dim) and sparse_dim != other_dim:
            sides = f"sparse side {sparse_dim} vs dense side {other_dim}"
            message = f"Dimension {i} does not equal (no broadcasting is supported): {sides}"
            raise ArgumentError(message).for_op("SparseTensorDenseAdd")
    return bind.tensor_scatter_add(dense, sp.indices, sp.values)  # type: ignore[no-any-return]


@export("sparse.maximum")
def maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Returns the elementwise maximum of two sparse tensors of the same shape; missing elements are zero.

    Raises:
      TypeError: an argument is not a SparseTensor.
      InvalidArgumentError: ranks or shapes differ.

    >>> import tvtf as tf
    >>> tf.sparse.maximum(tf.sparse.from_dense([1, 0, -2]), tf.sparse.from_dense([0, 3, 0])).values.numpy()
    array([1, 3, 0], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/maximum
    """
    return _combine_elementwise(as_sparse(sp_a), as_sparse(sp_b), bind.maximum, "SparseSparseMaximum")


@export("sparse.minimum")
def minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Returns the elementwise minimum of two sparse tensors of the same shape; missing elements are zero.

    Raises:
      TypeError: an argument is not a SparseTensor.
      InvalidArgumentError: ranks or shapes differ.

    >>> import tvtf as tf
    >>> tf.sparse.minimum(tf.sparse.from_dense([1, 0, -2]), tf.sparse.from_dense([0, 3, 0])).values.numpy()
    array([ 0,  0, -2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/minimum
    """
    return _combine_elementwise(as_sparse(sp_a), as_sparse(sp_b), bind.minimum, "SparseSparseMinimum")


def _combine_elementwise(a: SparseTensor, b: SparseTensor, function: Callable[..., Tensor], op: str) -> SparseTensor:
    """Applies a binary elementwise function to two sparse tensors, at all indices that either tensor has.

    An element that one tensor lacks counts as zero.
    """
    require_dtypes(a, b, op)
    shape_of_a, shape_of_b = (" ".join(map(str, operand.shape)) for operand in (a, b))
    rank_message = f"Operands do not have the same ranks; got shapes: {shape_of_a} and {shape_of_b}"
    shape = _common_shape(a, b, op, rank_message)
    indices, positions = distinct_indices(bind.concat(a.indices, b.indices, axis=0))
    count_of_a, count_of_b = a.values._type.shape[0], b.values._type.shape[0]
    positions_of_a, positions_of_b = bind.split(positions, sizes=(count_of_a, count_of_b), axis=0)
    count = indices._type.shape[0]
    values_of_a = bind.unsorted_segment_sum(a.values, positions_of_a, num_segments=count)
    values_of_b = bind.unsorted_segment_sum(b.values, positions_of_b, num_segments=count)
    return of_shape(SparseTensor(indices, function(values_of_a, values_of_b), shape), a.shape)


@export("sparse.softmax")
def softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Returns the softmax of each row of the last axis, over the elements that are stored.

    Args:
      sp_input: SparseTensor of floats with at least two dims, in row-major order.

    Raises:
      TypeError: ``sp_input`` is not a SparseTensor.
      InvalidArgumentError: the tensor is a vector, or its values are not floats.

    >>> import tvtf as tf
    >>> tf.sparse.softmax(tf.sparse.from_dense([[0., 2., 2.], [3., 0., 0.]])).values.numpy()
    array([0.5, 0.5, 1. ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/softmax
    """
    sp = as_sparse(sp_input)
    if rank_of(sp) < 2:
        message = f"Input should have rank >= 2, but received shape: {' '.join(map(str, sp.shape))}"
        raise ArgumentError(message).for_op("SparseSoftmax")
    try:
        require_dtype(sp.values._type, FLOATING, "sp_values")
    except ArgumentError as dtype_error:
        raise dtype_error.for_op("SparseSoftmax") from None
    rows = _row_indices(sp)
    count = sp.values._type.shape[0]
    row_maximum = bind.stop_gradient(bind.unsorted_segment_max(sp.values, rows, num_segments=count))
    exponentials = bind.exp(bind.subtract(sp.values, bind.gather(row_maximum, rows, axis=0, batch_dims=0)))
    sums = bind.unsorted_segment_sum(exponentials, rows, num_segments=count)
    return sp.with_values(bind.divide(exponentials, gather_densely(sums, rows)))


def _row_indices(sp: SparseTensor) -> Tensor:
    """Enumerates the rows of a sparse tensor (along the last axis), and returns the row index of each element.

    Elements are in row-major order. Rows without elements have no index.
    """
    rows = sp.indices[:, :-1]
    positions = bind.range(size=rows._type.shape[0], start=0, delta=1, dtype=int64)
    zero, one = number(0, positions), number(1, positions)
    previous_positions = bind.maximum(bind.subtract(positions, one), zero)
    previous_rows = bind.gather(rows, previous_positions, axis=0, batch_dims=0)
    starts_row = bind.reduce_any(bind.not_equal(rows, previous_rows), axis=(1,), keepdims=False)
    return bind.cumsum(bind.cast(starts_row, dtype=int64), axis=0, exclusive=False, reverse=False)  # type: ignore[no-any-return]


# -- products


def _product_type(indices: TensorType, values: TensorType, b: TensorType, *, rows: Dim) -> TensorType:
    require_dtype(values, NUMERIC, "a_values")
    require_same_dtype((values, b), ("a_values", "b"))
    require_shape(indices, (values.shape[0], 2), "a_indices")
    return TensorType((rows, b.shape[1]), b.dtype)


def _product(indices: np.ndarray, values: np.ndarray, b: np.ndarray, *, rows: int) -> np.ndarray:
    """Multiplies a sparse matrix of ``rows`` rows by the dense matrix ``b`` with SciPy.

    Dtypes that SciPy lacks are multiplied by NumPy, and summed in float32. Raises an error for an index out of bounds.
    """
    for axis, (name, extent) in enumerate((("m", rows), ("k", len(b)))):
        out_of_bounds = np.flatnonzero((indices[:, axis] < 0) | (indices[:, axis] >= extent))
        if len(out_of_bounds):
            subject = f"{name} ({indices[out_of_bounds[0], axis]}) from index[{out_of_bounds[0]},{axis}]"
            raise ArgumentError(f"{subject} out of bounds (>={extent})")
    if values.dtype.kind not in "fiuc" or values.dtype.itemsize < 4:
        result = np.zeros((rows, b.shape[1]), np.float32)
        np.add.at(result, indices[:, 0], (values[:, None] * b[indices[:, 1]]).astype(np.float32))
        return result.astype(b.dtype)
    from scipy.sparse import coo_matrix

    coordinates = indices[:, 0], indices[:, 1]
    return coo_matrix((values, coordinates), shape=(rows, len(b))) @ b  # type: ignore[no-any-return]


def _product_vjp(
    cotangent: Tensor, y: Tensor, indices: Tensor, values: Tensor, b: Tensor, *, rows: Dim
) -> tuple[Any, ...]:
    """Returns the cotangents of a sparse-dense product's indices (None), values and ``b`` from that of the result."""
    # The gradient of an element at (i, k) is the inner product of the cotangent's row i and the conjugate of b's row k.
    conjugate_b = _conjugate(b)
    cotangent_rows = gather_densely(cotangent, indices[:, 0])
    b_rows = gather_densely(conjugate_b, indices[:, 1])
    values_gradient = bind.reduce_sum(bind.multiply(cotangent_rows, b_rows), axis=(1,), keepdims=False)
    b_gradient = bind.sparse_matmul(_swap_columns(indices), _conjugate(values), cotangent, rows=b._type.shape[0])
    return None, values_gradient, b_gradient


def _conjugate(x: Tensor) -> Tensor:
    return bind.conj(x) if x.dtype.is_complex else x


def _swap_columns(indices: Tensor) -> Tensor:
    """Returns the indices of the transposed sparse matrix."""
    return bind.gather(indices, EagerTensor(np.array([1, 0])), axis=1, batch_dims=0)  # type: ignore[no-any-return]


def _runtime_checks(indices: Tensor, values: Tensor, b: Tensor, *, rows: Dim) -> list[tuple[Tensor, str]]:
    limits = bind.stack(scalar_of(rows), scalar_of(b._type.shape[0]), axis=0)
    is_inside = bind.logical_and(bind.less(indices, limits), bind.greater_equal(indices, number(0, indices)))
    return [(all_of(is_inside), f"indices are out of bounds of a matrix of shape {brackets((rows, b._type.shape[0]))}")]


def _product_samples() -> list[Sample]:
    """Returns sample operands of sparse-dense products, with a repeated index and without elements."""
    indices = np.array([[0, 1], [2, 0], [2, 1], [0, 1]])
    return [
        Sample((indices, draw(0, (4,)), draw(1, (2, 5))), {"rows": 3}, FLOATING, gradient=(1, 2)),
        Sample((indices[:0], draw(0, (0,)), draw(1, (2, 1))), {"rows": 2}, FLOATING, gradient=False),
    ]


@primitive(
    tf_name="SparseTensorDenseMatMul",
    type=_product_type,
    numpy=_product,
    lower=kernel("sparse.matmul"),
    vjp=_product_vjp,
    guard=_runtime_checks,
    why_not={
        "batch": "the elements of a batch could have several numbers of values",
        "onnx": "ONNX has no sparse tensors among its operands; multiply tf.sparse.to_dense of it",
    },
    samples=_product_samples,
)
def sparse_matmul(indices: Tensor, values: Tensor, b: Tensor, rows: Dim) -> Any:
    """Multiplies a sparse matrix, given by indices, values and ``rows``, by the dense matrix ``b``."""
    return (indices, values, b), {"rows": rows}


@export("sparse.sparse_dense_matmul")
@attributes(adjoint_a=bool, adjoint_b=bool)
def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Returns the product of a sparse and a dense matrix, in either order.

    Args:
      sp_a, b: a SparseTensor and a tensor, both matrices of the same dtype; the elements may be in any order.
      adjoint_a, adjoint_b: use the conjugate transpose of an operand.

    Returns:
      A dense matrix.

    Raises:
      TypeError: neither operand is a SparseTensor.
      InvalidArgumentError: an operand is not a matrix, inner dims differ, or an index is out of range.

    >>> import tvtf as tf
    >>> tf.sparse.sparse_dense_matmul(tf.sparse.from_dense([[1., 0.], [0., 2.]]), [[1., 2.], [3., 4.]]).numpy()
    array([[1., 2.],
           [6., 8.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/sparse_dense_matmul
    """
    # Dense @ sparse is the transpose of sparse^T @ dense^T.
    if is_sparse(b):
        only_one_adjoint = adjoint_a != adjoint_b
        first, second = (adjoint_a, adjoint_b) if only_one_adjoint else (not adjoint_a, not adjoint_b)
        return bind.transpose(sparse_dense_matmul(b, sp_a, first, second), perm=(1, 0))  # type: ignore[no-any-return]
    sp = as_sparse(sp_a)
    dense = convert_to_tensor(b, dtype_hint=as_sparse(sp_a).dtype)
    rows, indices, values = _left_operand(sp, dense, adjoint_a, adjoint_b)
    right = _conjugate(bind.transpose(dense, perm=(1, 0))) if adjoint_b else dense
    return bind.sparse_matmul(indices, values, right, rows=rows)  # type: ignore[no-any-return]


def _left_operand(sp: SparseTensor, dense: Tensor, adjoint_a: bool, adjoint_b: bool) -> tuple[Dim, Tensor, Tensor]:
    """Checks the operands of a sparse-dense matrix product, and returns the sparse one.

    Args:
      sp: the sparse matrix.
      dense: the dense matrix.
      adjoint_a, adjoint_b: whether the conjugate transpose of the sparse or of the dense matrix is multiplied.

    Returns:
      the number of rows, the indices and the values of the sparse matrix, transposed if ``adjoint_a``.
    """
    op = "SparseTensorDenseMatMul"
    if dense.ndim != 2:
        raise ArgumentError("Tensor 'b' is not a matrix").for_op(op)
    if rank_of(sp) != 2:
        raise ArgumentError("Tensor 'a_shape' must have 2 elements").for_op(op)
    rows, columns = sizes(sp)[::-1] if adjoint_a else sizes(sp)
    dense_dims = dense._type.shape[::-1] if adjoint_b else dense._type.shape
    if not agree_dim(columns, dense_dims[0]):
        raise ArgumentError(
            f"Cannot multiply A and B because inner dimension does not match: {columns} vs. {dense_dims[0]}.  "
            f"Did you forget a transpose?  Dimensions of A: [{rows}, {columns}).  Dimensions of B: {brackets(dense_dims)}"
        ).for_op(op)
    if adjoint_a:
        return rows, _swap_columns(sp.indices), _conjugate(sp.values)
    return rows, sp.indices, sp.values
