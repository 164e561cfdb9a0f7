"""Ragged tensors as sparse ones, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import as_dtype, int64
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather, places
from tvtf.ops.rules import bind
from tvtf.ragged.build import bounding_shape
from tvtf.ragged.kernels import positions
from tvtf.ragged.tensor import RaggedTensor
from tvtf.sparse.tensor import SparseTensor, as_sparse, is_sparse, rank_of
from tvtf.tensor import EagerTensor, Tensor


def from_sparse(st_input: Any, splits_dtype: Any) -> RaggedTensor:
    """See `RaggedTensor.from_sparse`."""
    if not is_sparse(st_input):
        raise TypeError(f"Argument `st_input` must be of type SparseTensor, but is of type {type(st_input).__name__}.")
    sp = as_sparse(st_input)
    if rank_of(sp) != 2:
        raise ValueError("rank(st_input) must be 2.")
    _require_right_ragged(sp.indices)
    kind = as_dtype(splits_dtype)
    rows, count = cast(sp.indices[:, 0], kind), cast(sp.dense_shape[0], kind)
    return RaggedTensor.from_value_rowids(sp.values, rows, count, validate=False)


def _require_right_ragged(indices: Tensor) -> None:
    """Refuses rows that have a gap; in a trace nobody knows yet."""
    if not isinstance(indices, EagerTensor) or not indices.eager_array().size:
        return
    array = indices.eager_array()
    is_first = np.concatenate([[True], np.diff(array[:, 0]) != 0])
    expected = np.where(is_first, 0, np.concatenate([[0], array[:-1, 1] + 1]))
    if (array[:, 1] != expected).any():
        told = "SparseTensor is not right-ragged SparseTensor.indices ="
        raise InvalidArgumentError(
            None, "Assert", f"Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true. {told}"
        )


def to_sparse(ragged: RaggedTensor) -> SparseTensor:
    """See `RaggedTensor.to_sparse`."""
    flat = ragged.flat_values
    values = bind.reshape(flat, shape=(int(np.prod(flat._type.shape)),)) if flat.ndim > 1 else flat
    return SparseTensor(_indices(ragged), values, bounding_shape(ragged))


def _indices(values: Any) -> Tensor:
    """The place of each value, its rows filled up from the left."""
    if not isinstance(values, RaggedTensor):
        truth = bind.broadcast_to(EagerTensor(np.array(True)), shape=values._type.shape)
        return places(truth) if values.ndim > 1 else bind.reshape(positions(values), shape=(*values._type.shape, 1))
    inner = _indices(values.values)
    rows, item = cast(values.value_rowids(), int64), inner[:, 0]
    row = gather(rows, item)
    start = gather(cast(values.row_starts(), int64), row)
    return bind.concat(bind.stack(row, bind.subtract(item, start), axis=1), inner[:, 1:], axis=1)  # type: ignore[no-any-return]
