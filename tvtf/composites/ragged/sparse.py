"""Conversions between ragged and sparse tensors; ``tf.sparse.cross``, the combinations of features' values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.ragged.build import bounding_shape, from_tensor
from tvtf.composites.ragged.crossing import HASH_KEY
from tvtf.composites.ragged.kernels import positions
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.composites.sparse.tensor import SparseTensor, as_sparse, is_sparse, rank_of
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, int64, string
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.host import unknown_dim
from tvtf.ops.indexing import gather, nonzero_indices
from tvtf.ops.rules import bind, number
from tvtf.ops.value_checks import all_hold, required


def from_sparse(st_input: Any, splits_dtype: Any) -> RaggedTensor:
    """Converts a sparse matrix to a ragged matrix.

    Args:
      st_input: the matrix. The values of a row must fill its first columns without gaps.
      splits_dtype: the dtype of the row splits.
    """
    if not is_sparse(st_input):
        raise TypeError(f"Argument `st_input` must be of type SparseTensor, but is of type {type(st_input).__name__}.")
    sp = as_sparse(st_input)
    if rank_of(sp) != 2:
        raise ValueError("rank(st_input) must be 2.")
    indices = required(sp.indices, _check_right_ragged, _are_right_ragged, _RAGGED_MESSAGE)
    row_dtype = as_dtype(splits_dtype)
    row_ids = cast(indices[:, 0], row_dtype)
    row_count = cast(sp.dense_shape[0], row_dtype)
    return RaggedTensor.from_value_rowids(sp.values, row_ids, row_count, validate=False)


_RAGGED_MESSAGE = "SparseTensor is not right-ragged"


def _are_right_ragged(indices: Tensor) -> Tensor:
    """Returns whether a sparse matrix is right-ragged: the values of each row are in its first columns, without gaps."""
    rows, columns = indices[:, 0], indices[:, 1]
    continues_row = bind.logical_and(bind.equal(rows[1:], rows[:-1]), bind.equal(columns[1:], columns[:-1] + 1))
    starts_row = bind.logical_and(bind.not_equal(rows[1:], rows[:-1]), bind.equal(columns[1:], number(0, columns)))
    starts_at_zero = bind.equal(columns[:1], number(0, columns))
    return bind.logical_and(all_hold(bind.logical_or(continues_row, starts_row)), all_hold(starts_at_zero))  # type: ignore[no-any-return]


def _check_right_ragged(array: np.ndarray) -> None:
    """Raises TensorFlow's error unless a sparse matrix has each row's values in the first columns, without gaps.

    ``array`` has the (row, column) of each value in row-major order.
    """
    if not array.size:
        return
    # The first value of a row must be in column 0, and each other value in the column after the value before.
    is_first = np.concatenate([[True], np.diff(array[:, 0]) != 0])
    expected = np.where(is_first, 0, np.concatenate([[0], array[:-1, 1] + 1]))
    if (array[:, 1] != expected).any():
        message = "SparseTensor is not right-ragged SparseTensor.indices ="
        raise InvalidArgumentError(
            None, None, f"Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true. {message}"
        )


def to_sparse(ragged: RaggedTensor) -> SparseTensor:
    """Converts a ragged tensor to a sparse one, with the values of each row in its first columns."""
    flat = ragged.flat_values
    values = bind.reshape(flat, shape=(int(np.prod(flat._type.shape)),)) if flat.ndim > 1 else flat
    return SparseTensor(_indices(ragged), values, bounding_shape(ragged))


def _indices(values: Any) -> Tensor:
    """Converts a ragged tensor's structure to sparse indices: the multi-index of each of its values, in row-major order."""
    if not isinstance(values, RaggedTensor):
        if values.ndim <= 1:
            return bind.reshape(positions(values), shape=(*values._type.shape, 1))  # type: ignore[no-any-return]
        return nonzero_indices(bind.broadcast_to(EagerTensor(np.array(True)), shape=values._type.shape))
    # The first index of a value counts from the start of all rows: it becomes a row, and an index in that row.
    inner = _indices(values.values)
    position = inner[:, 0]
    row = gather(cast(values.value_rowids(), int64), position)
    row_start = gather(cast(values.row_starts(), int64), row)
    index_in_row = bind.subtract(position, row_start)
    return bind.concat(bind.stack(row, index_in_row, axis=1), inner[:, 1:], axis=1)  # type: ignore[no-any-return]


def _feature(value: Any) -> tuple[Tensor, Tensor]:
    """Converts a sparse or dense feature matrix to (flat values, row splits); integers become int64."""
    if isinstance(value, SparseTensor):
        values, rows = value.values, value.indices[:, 0]
        ragged = RaggedTensor.from_value_rowids(values, rows, value.dense_shape[0], validate=False)
    else:
        ragged = from_tensor(value, lengths=None, padding=None, ragged_rank=1, splits_dtype=int64)
    result = ragged.values
    return result if result.dtype is string else cast(result, int64), ragged.row_splits


def _cross_features(inputs: Any, hashed: bool, error_text: str, **attrs: Any) -> SparseTensor:
    """Computes feature crosses as a sparse tensor: for each row, all combinations of one value of each feature.

    In a cross, values of sparse features come before those of dense features, as in TensorFlow. ``error_text`` is the
    message for an input that is neither.
    """
    if not isinstance(inputs, (tuple, list)):
        raise TypeError("Inputs must be a list")
    if not all(isinstance(x, (SparseTensor, Tensor)) for x in inputs):
        raise TypeError(error_text)
    sparse_features = [x for x in inputs if isinstance(x, SparseTensor)]
    dense_features = [x for x in inputs if not isinstance(x, SparseTensor)]
    operands: list[Any] = []  # the values and the row splits of each feature in turn
    for feature in (*sparse_features, *dense_features):
        operands += _feature(feature)
    values, splits = bind.cross_rows(*operands, hashed=hashed, count=unknown_dim(), **attrs)
    return to_sparse(RaggedTensor(values, splits))


@export("sparse.cross")
def cross(inputs: Any, name: str | None = None, separator: Any = None) -> SparseTensor:
    """Returns, for each row, all combinations of one value of each input, as strings.

    Args:
      inputs: list of SparseTensors and tensors, matrices of strings or integers with the same number of rows.
      separator: the separator between the values of a combination; default: ``_X_``.

    Returns:
      A SparseTensor of strings; the values of sparse inputs come before those of dense ones.

    Raises:
      TypeError: ``inputs`` is not a list, or has an element of an unsupported type.

    >>> import tvtf as tf
    >>> tf.sparse.cross([tf.constant([["a"], ["b"]]), tf.constant([["c"], ["d"]])], separator="_Y_").values.numpy()
    array([b'a_Y_c', b'b_Y_d'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/cross
    """
    joined_by = "_X_" if separator is None else convert_to_tensor(separator).eager_array().item().decode()
    message = "All inputs must be Tensor or SparseTensor."
    return _cross_features(inputs, False, message, num_buckets=0, key=0, separator=joined_by)


@export("sparse.cross_hashed")
def cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """Returns, for each row, all combinations of one value of each input, hashed to bucket indices.

    Args:
      inputs: list of SparseTensors and tensors, matrices of strings or integers with the same number of rows.
      num_buckets: the number of buckets; 0 for the whole range of int64.
      hash_key: the initial hash value.

    Returns:
      A SparseTensor of int64.

    Raises:
      TypeError: ``inputs`` is not a list, or has an element of an unsupported type.

    >>> import tvtf as tf
    >>> tf.sparse.cross_hashed([tf.constant([["a"], ["b"]]), tf.constant([["d"], ["e"]])], 100).values.numpy()
    array([82, 61])

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/cross_hashed
    """
    message = "All inputs must be SparseTensors"
    return _cross_features(inputs, True, message, num_buckets=num_buckets, key=hash_key or HASH_KEY, separator="_X_")
