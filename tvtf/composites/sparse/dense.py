"""Conversions between sparse and dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.sparse.kernels import all_of, copy_kernel
from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, sizes
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, brackets
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, float32, int64, string, type_name
from tvtf.ops.array import shape as shape_of
from tvtf.ops.dims import dim_min, scalar_of
from tvtf.ops.indexing import nonzero_indices
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind, number, size_argument


def zero(dtype: Any) -> Tensor:
    """Returns the scalar that sparse tensors of a dtype don't store: zero, or the empty string."""
    return EagerTensor(np.array(b"" if dtype is string else 0, dtype.np))


@export("sparse.from_dense")
def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Converts a dense tensor to a sparse one: its elements that are not zero, or not empty strings.

    Args:
      tensor: tensor of any shape and dtype.

    Returns:
      A SparseTensor of the same shape and dtype, in row-major order.

    >>> import tvtf as tf
    >>> tf.sparse.from_dense([0, 0, 3, 0, 1]).values.numpy()
    array([3, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/from_dense
    """
    x = convert_to_tensor(tensor)
    if not x.ndim:
        raise ArgumentError("WhereOp : Unhandled input dimensions: 0").for_op("Where")
    indices = nonzero_indices(bind.not_equal(x, zero(x.dtype)))
    return SparseTensor(indices, bind.gather_nd(x, indices), shape_of(x, int64))


@export("sparse.to_dense")
@attributes(validate_indices=bool)
def to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Converts a sparse tensor to a dense one.

    Args:
      sp_input: SparseTensor.
      default_value: scalar for the missing elements; default: zero, or the empty string.
      validate_indices: checks that indices are in row-major order without repetitions.

    Returns:
      A tensor of shape ``sp_input.dense_shape``.

    Raises:
      TypeError: the argument is not a SparseTensor.
      InvalidArgumentError: indices repeat, are out of order, or out of range.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.SparseTensor([[1], [3]], [5, 6], [4]), default_value=-1).numpy()
    array([-1,  5, -1,  6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/to_dense
    """
    sp = as_sparse(sp_input)
    default = zero(sp.dtype) if default_value is None else convert_to_tensor(default_value, dtype_hint=sp.dtype)
    if default.dtype is not sp.dtype:
        raise _wrong_default(sp.dtype, default.dtype)
    if default.ndim:
        raise ArgumentError("default_value should be a scalar.").for_op("SparseToDense")
    return scattered(sp.indices, sp.values, sizes(sp), default, bool(validate_indices))


def _wrong_default(expected: DType, found: DType) -> BaseException:
    """Returns TensorFlow's error for a default value of another dtype than the sparse tensor's."""
    names = [type_name(dtype) for dtype in (expected, found)]
    message = f"cannot compute SparseToDense as input #3(zero-based) was expected to be a {names[0]} tensor but is a {names[1]} tensor"
    return ArgumentError(message, TypeError).for_op("SparseToDense")


def scattered(indices: Tensor, values: Tensor, dims: tuple[Dim, ...], default: Tensor, ordered: bool) -> Tensor:
    """Returns a dense tensor of a default, with the values at the indices; these must be sorted if ``ordered``."""
    checked = bind.ordered_indices(indices, dims=dims, ordered=ordered)
    return bind.tensor_scatter_update(bind.broadcast_to(default, shape=dims), checked, values)


MSG_UNORDERED = "out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n"


def _check_indices(indices: np.ndarray, *, dims: tuple[int, ...], ordered: bool) -> np.ndarray:
    """Checks the indices of a sparse tensor of shape ``dims``, and returns them.

    Raises an error for an index that is out of bounds, or, with ``ordered``, out of row-major order or repeated.
    """
    is_outside: Any = ((indices < 0) | (indices >= np.array(dims, np.int64))).any(axis=1)
    differences = _first_differences(indices) if ordered else np.ones(len(indices))
    for row in np.flatnonzero(is_outside | (differences <= 0)):
        if is_outside[row] and not ordered:
            raise ArgumentError(f"Indices are not valid (out of bounds).  Shape: {brackets(dims)}")
        subject = f"indices[{row}] = {brackets(indices[row].tolist())} is "
        if is_outside[row]:
            raise ArgumentError(f"{subject}out of bounds: need 0 <= index < {brackets(dims)}")
        raise ArgumentError(f"{subject}{MSG_UNORDERED if differences[row] else 'repeated'}")
    return indices


def _first_differences(indices: np.ndarray) -> np.ndarray:
    """Compares each multi-index with the one before: returns their difference along the first axis where they differ.

    The difference is positive in row-major order, and 0 for a repeated index. The first index counts as 1. For example,
    [[0, 3], [0, 5], [2, 0]] gives [1, 2, 2].
    """
    count, rank = indices.shape
    result = np.ones(count, np.int64)
    if count < 2:
        return result
    if not rank:  # all indices of a scalar are equal
        result[1:] = 0
        return result
    differences = np.diff(indices, axis=0)
    first_axis = (differences != 0).argmax(axis=1)
    result[1:] = np.take_along_axis(differences, first_axis[:, None], axis=1)[:, 0]
    return result


def _runtime_checks(indices: Tensor, *, dims: tuple[Dim, ...], ordered: bool) -> list[tuple[Tensor, str]]:
    """Builds the checks of sparse indices in compiled code: pairs of a bool scalar and the error message.

    Indices must lie inside ``dims``, and with ``ordered`` be in row-major order without repeats.
    """
    limits = bind.stack(*map(scalar_of, dims), axis=0)
    is_inside = bind.logical_and(bind.less(indices, limits), bind.greater_equal(indices, number(0, indices)))
    checks = [(all_of(is_inside), f"indices are out of bounds: need 0 <= index < {brackets(dims)}")]
    if ordered:
        checks.append((all_of(_follows_previous(indices)), "indices are repeated or out of order"))
    return checks


def _follows_previous(indices: Tensor) -> Tensor:
    """Computes, for each multi-index but the first, whether it comes strictly after the one before in row-major order."""
    previous, following = indices[:-1], indices[1:]
    follows: Any = None  # by the axes so far, of which the last axis counts least
    for axis in reversed(range(indices.ndim and indices._type.shape[1])):
        previous_index, index = previous[:, axis], following[:, axis]
        is_greater = bind.less(previous_index, index)
        if follows is None:
            follows = is_greater
        else:
            is_equal = bind.equal(previous_index, index)
            follows = bind.logical_or(is_greater, bind.logical_and(is_equal, follows))
    return follows


@primitive(
    tf_name="SparseToDense",
    type=lambda indices, *, dims, ordered: indices,
    numpy=_check_indices,
    lower=lambda indices, **_: copy_kernel(indices),
    guard=_runtime_checks,
    onnx=lambda emitter, inputs, outputs, types, *, dims, ordered: emitter.node("Identity", inputs, outputs),
    why_not={"vjp": "no floating inputs", "batch": "the elements of a batch could have several numbers of values"},
    samples=lambda: [
        Sample((np.array([[0, 1], [2, 0]]),), {"dims": (3, 2), "ordered": True}),
        Sample((np.array([[2], [0]]),), {"dims": (3,), "ordered": False}),
    ],
)
def ordered_indices(indices: Tensor, dims: tuple[Dim, ...], ordered: bool) -> Any:
    """Returns the indices, checked to be inside ``dims``, and optionally in row-major order without repetitions."""
    return (indices,), {"dims": dims, "ordered": ordered}


@export("sparse.to_indicator")
def to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """Converts rows of numbers to indicator vectors: element ``i`` is true if the row has the value ``i``.

    Args:
      sp_input: SparseTensor of int32 or int64 values; their positions in the last dim don't matter.
      vocab_size: the size of the last dim of the result.

    Returns:
      A bool tensor of shape (..., vocab_size).

    Raises:
      TypeError: the argument is not a SparseTensor.

    >>> import tvtf as tf
    >>> tf.sparse.to_indicator(tf.SparseTensor([[0, 0], [1, 0]], [2, 0], [2, 1]), 3).numpy()
    array([[False, False,  True],
           [ True, False, False]])

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/to_indicator
    """
    sp = as_sparse(sp_input)
    size = size_argument(vocab_size, "vocab_size")
    numbers = bind.reshape(bind.cast(sp.values, dtype=int64), shape=(*sp.values._type.shape, 1))
    indices = bind.concat(sp.indices[:, :-1], numbers, axis=1)
    ones = bind.broadcast_to(EagerTensor(np.array(True)), shape=sp.values._type.shape)
    return scattered(indices, ones, (*sizes(sp)[:-1], size), EagerTensor(np.array(False)), False)


@export("sparse.eye")
def eye(num_rows: Any, num_columns: Any = None, dtype: Any = float32, name: str | None = None) -> SparseTensor:
    """Returns a sparse matrix with ones on its diagonal.

    Args:
      num_rows, num_columns: int or integer scalar; default: as many columns as rows.
      dtype: the dtype of the values.

    Raises:
      TypeError: a size is not an integer.

    >>> import tvtf as tf
    >>> tf.sparse.to_dense(tf.sparse.eye(2, 3)).numpy()
    array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/eye
    """
    rows = _eye_size(num_rows, "num_rows")
    columns = rows if num_columns is None else _eye_size(num_columns, "num_columns")
    positions = bind.range(size=dim_min(rows, columns), start=0, delta=1, dtype=int64)
    one = EagerTensor(np.ones((), as_dtype(dtype).np))
    values = bind.broadcast_to(one, shape=positions._type.shape)
    indices = bind.stack(positions, positions, axis=1)  # row and column
    dense_shape = bind.stack(scalar_of(rows), scalar_of(columns), axis=0)
    return SparseTensor(indices, values, dense_shape)


def _eye_size(value: Any, name: str) -> Dim:
    """Converts the number of rows or columns to a dim, or raises the error of TensorFlow, whose ``eye`` calls ``range``."""
    if isinstance(value, int) and value < 0:
        raise ArgumentError(f"Requires start <= limit when delta > 0: 0/{value}").for_op("Range")
    if not isinstance(value, (int, np.integer, Tensor)) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer value")
    return size_argument(value, name)
