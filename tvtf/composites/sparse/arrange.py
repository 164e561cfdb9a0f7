"""``tf.sparse`` functions that rearrange: reorder, transpose, reshape, expand_dims, concat."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.sparse.kernels import (
    all_of,
    gather_elements,
    known_vector,
    linear_indices,
    one_hot,
    row_major_order,
    strides,
    vector,
)
from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, as_sparse_list, of_shape, rank_of
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.operands import at_least, attributes, named
from tvtf.ops.rules import bind, canonical_axis, number, static_int, static_value


@export("sparse.reorder")
def reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Sorts the elements in row-major order.

    Args:
      sp_input: SparseTensor.

    Raises:
      TypeError: the argument is not a SparseTensor.

    >>> import tvtf as tf
    >>> tf.sparse.reorder(tf.SparseTensor([[1, 0], [0, 3]], [5, 6], [2, 4])).values.numpy()
    array([6, 5], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/reorder
    """
    sp = as_sparse(sp_input)
    return of_shape(gather_elements(sp, row_major_order(sp.indices, sp.dense_shape)), sp.shape)


@export("sparse.transpose")
def transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Permutes the axes: axis ``i`` of the result is axis ``perm[i]`` of the input. The result is in row-major order.

    Args:
      sp_input: SparseTensor.
      perm: a permutation of the axes; default: reversed.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sparse.transpose(tf.sparse.from_dense([[1, 0, 2]]))).numpy()
    array([[1],
           [0],
           [2]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/transpose
    """
    sp = as_sparse(sp_input)
    rank = rank_of(sp)
    if perm is None:
        axes = list(reversed(range(rank)))
    else:
        axes = [int(axis) for axis in static_value(perm, "perm")]
    if len(axes) != rank:
        raise ValueError(f"Dimensions {len(axes)} and {rank} are not compatible")
    indices = bind.gather(sp.indices, vector(axes), axis=1, batch_dims=0)
    dense_shape = bind.gather(sp.dense_shape, vector(axes), axis=0, batch_dims=0)
    permuted = of_shape(SparseTensor(indices, sp.values, dense_shape), [sp.shape[axis] for axis in axes])
    return reorder(permuted)


@export("sparse.reshape")
def reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Reshapes a sparse tensor; the elements keep their order, and one dim may be -1.

    Args:
      sp_input: SparseTensor.
      shape: integers or an integer vector.

    Raises:
      TypeError: the argument is not a SparseTensor.
      InvalidArgumentError: the shapes have different sizes, or more than one dim is -1.

    >>> import tvtf as tf
    >>> tf.sparse.reshape(tf.sparse.from_dense([[1, 0], [0, 2]]), [-1]).indices.numpy()
    array([[0],
           [3]])

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/reshape
    """
    sp = as_sparse(sp_input)
    new_shape = _resolved_shape(sp, bind.cast(convert_to_tensor(shape, dtype_hint=int64), dtype=int64))
    linear = bind.reshape(linear_indices(sp.indices, sp.dense_shape), shape=(*sp.values._type.shape, 1))
    indices = bind.floormod(bind.floordiv(linear, _at_least_one(strides(new_shape))), _at_least_one(new_shape))
    return SparseTensor(indices, sp.values, new_shape)


def _at_least_one(x: Tensor) -> Tensor:
    return bind.maximum(x, number(1, x))  # type: ignore[no-any-return]


def _resolved_shape(sp: SparseTensor, shape: Tensor) -> Tensor:
    """Computes the new shape of a reshaped sparse tensor as a vector: replaces a dim of -1 by the missing size."""
    requested = known_vector(shape)
    total = bind.reduce_prod(sp.dense_shape, axis=(0,), keepdims=False)
    if requested is not None:
        return _resolved_static_shape(sp, requested, total)
    is_inferred = bind.equal(shape, number(-1, shape))
    known_size = bind.reduce_prod(bind.select(is_inferred, number(1, shape), shape), axis=(0,), keepdims=False)
    result = bind.select(is_inferred, bind.floordiv(total, _at_least_one(known_size)), shape)
    return _require_size(result, total, "Input to reshape has another number of dense values than the requested shape")


def _resolved_static_shape(sp: SparseTensor, requested: list[int], total: Tensor) -> Tensor:
    """Computes the new shape of a reshaped sparse tensor as a vector, for a requested shape of known ints.

    A dim of -1 is replaced by the missing size. Both shapes must have the same number of elements: ``total``. That is
    checked now, or at run time if the input's shape is unknown.
    """
    unknown = [i for i, dim in enumerate(requested) if dim == -1]
    if len(unknown) > 1:
        message = f"only one output dimension may be -1, not both {unknown[0]} and {unknown[1]}"
        raise ArgumentError(
            message, ValueError, f"At most one dimension can be inferred (-1). Found: {requested}"
        ).for_op("SparseReshape")
    known = known_vector(sp.dense_shape)
    if known is None and unknown:
        known_size = int(np.prod([dim for dim in requested if dim != -1], dtype=np.int64))
        quotient = bind.floordiv(total, number(max(known_size, 1), total))
        inferred = bind.reshape(quotient, shape=(1,))
        dims = [inferred if dim == -1 else vector([dim]) for dim in requested]
        new_shape = bind.concat(*dims, axis=0) if len(dims) > 1 else inferred
        return _require_size(new_shape, total, _MSG_MULTIPLE.format(known_size))
    if known is None:
        message = f"the requested shape {requested} has another number of dense values"
        return _require_size(vector(requested), total, message)
    return vector(_infer_dim(known, requested))


_MSG_MULTIPLE = (
    "Input to reshape is a SparseTensor whose dense values are not a multiple of {}, as the requested shape requires"
)


def _require_size(target: Tensor, total: Tensor, message: str) -> Tensor:
    """Returns the shape ``target``; at run time, an error is raised unless it has ``total`` elements."""
    size = bind.reduce_prod(target, axis=(0,), keepdims=False)
    return bind.checked(target, bind.equal(size, total), message=message)  # type: ignore[no-any-return]


def _infer_dim(input_shape: list[int], requested: list[int]) -> list[int]:
    """Returns the requested shape with -1 replaced by the size that is missing; for example, [6] and [2, -1] give [2, 3].

    Raises:
      ArgumentError: the two shapes have different numbers of elements.
    """
    size = int(np.prod(input_shape))
    known_size = int(np.prod([dim for dim in requested if dim != -1]))
    inferred_dim = size // max(known_size, 1)
    result = [inferred_dim if dim == -1 else dim for dim in requested]
    if int(np.prod(result)) != size:
        raise _reshape_error(input_shape, requested, size, known_size)
    return result


def _reshape_error(input_shape: list[int], requested: list[int], size: int, known_size: int) -> BaseException:
    """Returns the error for a reshape of a sparse tensor to a shape with another number of elements.

    Args:
      input_shape: the shape before.
      requested: the new shape, in which one dim may be -1.
      size: the number of elements, also those that are not stored.
      known_size: the product of the new dims other than -1.
    """
    if -1 in requested:
        problem = (
            f"a SparseTensor with {size} dense values, but the requested shape requires a multiple of {known_size}"
        )
    else:
        problem = f"a tensor with {size} dense values, but the requested shape has {known_size}"
    input_text = ",".join(map(str, input_shape))
    output_text = ",".join(str(1 if dim == -1 else dim) for dim in requested)  # as in TensorFlow's message
    eager_message = f"Input to reshape is {problem}. input_shape=[{input_text}] output_shape=[{output_text}]"
    traced_message = f"Cannot reshape a tensor with {size} elements to shape {requested} ({known_size} elements)."
    return ArgumentError(eager_message, ValueError, traced_message).for_op("SparseReshape")


@export("sparse.expand_dims")
def expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """Inserts an axis of size 1 at position ``axis`` of the result; default: the last one.

    Raises:
      TypeError: ``axis`` is not an integer.

    >>> import tvtf as tf
    >>> tf.sparse.expand_dims(tf.sparse.from_dense([1, 0]), 0).shape
    TensorShape([1, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/expand_dims
    """
    sp = as_sparse(sp_input)
    rank = rank_of(sp)
    if not isinstance(axis, (int, np.integer, Tensor, type(None))):
        raise TypeError("axis must be an integer value in range [-rank(sp_input) - 1, rank(sp_input)]")
    position = canonical_axis(-1 if axis is None else axis, rank + 1)
    zeros = bind.broadcast_to(EagerTensor(np.zeros((), np.int64)), shape=(*sp.values._type.shape, 1))
    indices = bind.concat(sp.indices[:, :position], zeros, sp.indices[:, position:], axis=1)
    shape = bind.concat(sp.dense_shape[:position], vector([1]), sp.dense_shape[position:], axis=0)
    dims = [*sp.shape]
    return of_shape(SparseTensor(indices, sp.values, shape), [*dims[:position], 1, *dims[position:]])


# -- joined


@export("sparse.concat")
@attributes(axis=named("concat_dim", at_least(-(2**31))))
def concat(axis: Any, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: str | None = None) -> SparseTensor:
    """Concatenates sparse tensors along an axis; the result is in row-major order.

    Args:
      axis: int in [-rank, rank).
      sp_inputs: list of SparseTensors of the same rank and dtype, with equal dims on the other axes.
      expand_nonconcat_dims: allows other dims to differ; the result has the largest.

    Raises:
      TypeError: ``sp_inputs`` is not a list of SparseTensors.
      InvalidArgumentError: ranks or shapes don't fit.

    >>> import tvtf as tf
    >>> a, b = tf.sparse.from_dense([[1, 0]]), tf.sparse.from_dense([[0, 2]])
    >>> tf.sparse.to_dense(tf.sparse.concat(0, [a, b])).numpy()
    array([[1, 0],
           [0, 2]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/concat
    """
    inputs = as_sparse_list(sp_inputs)
    if len(inputs) == 1:
        return inputs[0]
    rank = rank_of(inputs[0])
    concat_axis = static_int(axis, "axis")
    for i, sp in enumerate(inputs):
        if rank_of(sp) != rank:
            message = f"Ranks of all input tensors must match: expected {rank} but got {rank_of(sp)} at position {i}"
            raise ArgumentError(message).for_op("SparseConcat")
    if not -rank <= concat_axis < rank:
        raise ArgumentError(f"Concat dimension must be in range [{-rank}, {rank}), got {concat_axis}").for_op(
            "SparseConcat"
        )
    concat_axis %= rank
    offsets, total = _offsets(inputs, concat_axis)
    common_shape = _elementwise_max_shape(inputs) if expand_nonconcat_dims else _equal_shapes(inputs, concat_axis)
    parts = [bind.add(input_.indices, one_hot(concat_axis, offset, rank)) for input_, offset in zip(inputs, offsets)]
    shape = bind.add(common_shape, one_hot(concat_axis, bind.subtract(total, common_shape[concat_axis]), rank))
    values = bind.concat(*(input_.values for input_ in inputs), axis=0)
    joined = SparseTensor(bind.concat(*parts, axis=0), values, shape)
    return reorder(of_shape(joined, _static_concat_shape(inputs, concat_axis, expand_nonconcat_dims)))


def _offsets(inputs: list[SparseTensor], axis: int) -> tuple[list[Tensor], Tensor]:
    """Returns where each input of a concatenation starts along the axis, and the total size."""
    ends: list[Any] = [EagerTensor(np.zeros((), np.int64))]
    for input_ in inputs:
        ends.append(bind.add(ends[-1], input_.dense_shape[axis]))
    return ends[:-1], ends[-1]


def _elementwise_max_shape(inputs: list[SparseTensor]) -> Tensor:
    """Returns the smallest shape that holds every input."""
    result = inputs[0].dense_shape
    for input_ in inputs[1:]:
        result = bind.maximum(result, input_.dense_shape)
    return result


def _equal_shapes(inputs: list[SparseTensor], axis: int) -> Tensor:
    """Checks that sparse tensors have the same shape except along ``axis``, and returns the first shape as a vector.

    Static dims are compared now, others at run time: then the result has the check as a dependency.
    """
    first, *others = inputs
    expected = first.dense_shape
    for position, found in enumerate(others, 1):
        _check_static_shapes(first, found, axis, position)
        if known_vector(expected) is None or known_vector(found.dense_shape) is None:
            is_equal = bind.equal(expected, found.dense_shape)
            is_concat_axis = EagerTensor(np.arange(len(found.shape)) == axis)
            is_fitting = bind.logical_or(is_equal, is_concat_axis)
            message = f"Input shapes must match: at position {position} they don't"
            expected = bind.checked(expected, all_of(is_fitting), message=message)
    return expected


def _check_static_shapes(first: SparseTensor, found: SparseTensor, axis: int, position: int) -> None:
    """Raises an error if the known dims of two sparse tensors differ, except along ``axis``.

    ``position`` is that of ``found`` among the inputs of a concatenation.
    """
    for dim, (expected_size, found_size) in enumerate(zip(first.shape, found.shape)):
        are_known = expected_size is not None and found_size is not None
        if dim != axis and are_known and expected_size != found_size:
            raise ArgumentError(
                f"Input shapes must match: expected {expected_size} for dimension {dim} but got {found_size} "
                f"at position {position}"
            ).for_op("SparseConcat")


def _static_concat_shape(inputs: list[SparseTensor], axis: int, is_expanded: bool) -> TensorShape:
    """Returns the static shape of a concatenation of sparse tensors along ``axis``.

    With ``is_expanded``, the inputs may differ in the other axes, and the largest size counts.
    """
    result: list[Any] = []
    for i, sizes in enumerate(zip(*(input_.shape for input_ in inputs))):  # the sizes of all inputs along axis i
        if None in sizes:
            result.append(None)
        elif i == axis:
            result.append(sum(sizes))
        else:
            result.append(max(sizes) if is_expanded else sizes[0])
    return TensorShape(result)
