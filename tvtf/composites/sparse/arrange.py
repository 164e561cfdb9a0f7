"""``tf.sparse`` functions that rearrange: reorder, transpose, reshape, expand_dims, concat."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.sparse.kernels import (
    all_of,
    gather_elements,
    known_vector,
    one_hot,
    place_numbers,
    row_major,
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
    return of_shape(gather_elements(sp, row_major(sp.indices, sp.dense_shape)), sp.shape)


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
    axes = list(reversed(range(rank_of(sp)))) if perm is None else [int(p) for p in static_value(perm, "perm")]
    indices = bind.gather(sp.indices, vector(axes), axis=1, batch_dims=0)
    dense_shape = bind.gather(sp.dense_shape, vector(axes), axis=0, batch_dims=0)
    turned = of_shape(SparseTensor(indices, sp.values, dense_shape), [sp.shape[a] for a in axes])
    return reorder(turned)


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
    target = _target(sp, bind.cast(convert_to_tensor(shape, dtype_hint=int64), dtype=int64))
    numbers = bind.reshape(place_numbers(sp.indices, sp.dense_shape), shape=(*sp.values._type.shape, 1))
    indices = bind.floormod(bind.floordiv(numbers, _at_least_one(strides(target))), _at_least_one(target))
    return SparseTensor(indices, sp.values, target)


def _at_least_one(x: Tensor) -> Tensor:
    return bind.maximum(x, number(1, x))  # type: ignore[no-any-return]


def _target(sp: SparseTensor, shape: Tensor) -> Tensor:
    """Returns the new shape with its -1 computed."""
    requested = known_vector(shape)
    total = bind.reduce_prod(sp.dense_shape, axis=(0,), keepdims=False)
    if requested is not None:
        return _static_target(sp, requested, total)
    is_open = bind.equal(shape, number(-1, shape))
    rest = bind.reduce_prod(bind.select(is_open, number(1, shape), shape), axis=(0,), keepdims=False)
    result = bind.select(is_open, bind.floordiv(total, _at_least_one(rest)), shape)
    return _same_size(result, total, "Input to reshape has another number of dense values than the requested shape")


def _static_target(sp: SparseTensor, requested: list[int], total: Tensor) -> Tensor:
    """Returns the new shape for a requested shape of known ints, and checks that the sizes agree."""
    unknown = [i for i, d in enumerate(requested) if d == -1]
    if len(unknown) > 1:
        message = f"only one output dimension may be -1, not both {unknown[0]} and {unknown[1]}"
        raise ArgumentError(
            message, ValueError, f"At most one dimension can be inferred (-1). Found: {requested}"
        ).for_op("SparseReshape")
    known = known_vector(sp.dense_shape)
    if known is None and unknown:
        rest = int(np.prod([d for d in requested if d != -1], dtype=np.int64))
        one = bind.reshape(bind.floordiv(total, number(max(rest, 1), total)), shape=(1,))
        parts = [one if d == -1 else vector([d]) for d in requested]
        return _same_size(bind.concat(*parts, axis=0) if len(parts) > 1 else one, total, _MSG_MULTIPLE.format(rest))
    if known is None:
        return _same_size(
            vector(requested), total, f"the requested shape {requested} has another number of dense values"
        )
    return vector(_filled(known, requested))


_MSG_MULTIPLE = (
    "Input to reshape is a SparseTensor whose dense values are not a multiple of {}, as the requested shape requires"
)


def _same_size(target: Tensor, total: Tensor, message: str) -> Tensor:
    size = bind.reduce_prod(target, axis=(0,), keepdims=False)
    return bind.checked(target, bind.equal(size, total), message=message)  # type: ignore[no-any-return]


def _filled(known: list[int], requested: list[int]) -> list[int]:
    """Computes the dim that is -1. Raises an error if the sizes differ."""
    size, rest = int(np.prod(known)), int(np.prod([d for d in requested if d != -1]))
    result = [size // max(rest, 1) if d == -1 else d for d in requested]
    if int(np.prod(result)) != size:
        known_requested = [1 if d == -1 else d for d in requested]
        shapes = f"input_shape=[{','.join(map(str, known))}] output_shape=[{','.join(map(str, known_requested))}]"
        inferred = f"a SparseTensor with {size} dense values, but the requested shape requires a multiple of {rest}"
        plain = f"a tensor with {size} dense values, but the requested shape has {rest}"
        message = f"Cannot reshape a tensor with {size} elements to shape {requested} ({rest} elements)."
        raise ArgumentError(
            f"Input to reshape is {inferred if -1 in requested else plain}. {shapes}", ValueError, message
        ).for_op("SparseReshape")
    return result


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
    place = canonical_axis(-1 if axis is None else axis, rank + 1)
    zeros = bind.broadcast_to(EagerTensor(np.zeros((), np.int64)), shape=(*sp.values._type.shape, 1))
    indices = bind.concat(sp.indices[:, :place], zeros, sp.indices[:, place:], axis=1)
    shape = bind.concat(sp.dense_shape[:place], vector([1]), sp.dense_shape[place:], axis=0)
    dims = [*sp.shape]
    return of_shape(SparseTensor(indices, sp.values, shape), [*dims[:place], 1, *dims[place:]])


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
    rank, along = rank_of(inputs[0]), static_int(axis, "axis")
    for i, sp in enumerate(inputs):
        if rank_of(sp) != rank:
            message = f"Ranks of all input tensors must match: expected {rank} but got {rank_of(sp)} at position {i}"
            raise ArgumentError(message).for_op("SparseConcat")
    if not -rank <= along < rank:
        raise ArgumentError(f"Concat dimension must be in range [{-rank}, {rank}), got {along}").for_op("SparseConcat")
    along %= rank
    offsets, total = _offsets(inputs, along)
    others = _largest(inputs) if expand_nonconcat_dims else _equal_shapes(inputs, along)
    parts = [bind.add(sp.indices, one_hot(along, offset, rank)) for sp, offset in zip(inputs, offsets)]
    shape = bind.add(others, one_hot(along, bind.subtract(total, others[along]), rank))
    values = bind.concat(*(sp.values for sp in inputs), axis=0)
    joined = SparseTensor(bind.concat(*parts, axis=0), values, shape)
    return reorder(of_shape(joined, _joined_shape(inputs, along, expand_nonconcat_dims)))


def _offsets(inputs: list[SparseTensor], axis: int) -> tuple[list[Tensor], Tensor]:
    """Returns the offset of each input along the axis, and the total size."""
    result: list[Any] = [EagerTensor(np.zeros((), np.int64))]
    for sp in inputs:
        result.append(bind.add(result[-1], sp.dense_shape[axis]))
    return result[:-1], result[-1]


def _largest(inputs: list[SparseTensor]) -> Tensor:
    result = inputs[0].dense_shape
    for sp in inputs[1:]:
        result = bind.maximum(result, sp.dense_shape)
    return result


def _equal_shapes(inputs: list[SparseTensor], axis: int) -> Tensor:
    """Checks that the inputs' shapes agree except at ``axis``: static dims now, others at run time."""
    first = inputs[0].dense_shape
    for i, sp in enumerate(inputs[1:], 1):
        for dim, (a, b) in enumerate(zip(inputs[0].shape, sp.shape)):
            if dim != axis and None not in (a, b) and a != b:
                message = f"Input shapes must match: expected {a} for dimension {dim} but got {b} at position {i}"
                raise ArgumentError(message).for_op("SparseConcat")
        if known_vector(first) is None or known_vector(sp.dense_shape) is None:
            fits = bind.equal(first, sp.dense_shape)
            others = all_of(bind.logical_or(fits, EagerTensor(np.arange(len(sp.shape)) == axis)))
            first = bind.checked(first, others, message=f"Input shapes must match: at position {i} they don't")
    return first


def _joined_shape(inputs: list[SparseTensor], axis: int, is_expanded: bool) -> TensorShape:
    columns = list(zip(*(sp.shape for sp in inputs)))
    known = [None if None in c else max(c) if is_expanded else c[0] for c in columns]
    known[axis] = None if None in columns[axis] else sum(columns[axis])
    return TensorShape(known)
