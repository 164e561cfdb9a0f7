"""``tf.gather`` and ``tf.gather_nd`` with ragged params or indices."""

from __future__ import annotations

from typing import Any

from tvtf.composites.ragged.build import from_tensor, gather_rows, joined_axes
from tvtf.composites.ragged.kernels import positions
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather as dense_gather
from tvtf.ops.indexing import gather_nd as dense_gather_nd
from tvtf.ops.pad import repeat
from tvtf.ops.rules import bind, static_int


def as_tensor(value: Any) -> Any:
    """Converts a value to a tensor; ragged tensors are returned unchanged."""
    return value if isinstance(value, (RaggedTensor, Tensor)) else convert_to_tensor(value)


def gather(params: Any, indices: Any, axis: Any = None, batch_dims: int = 0) -> Any:
    """Does ``tf.gather`` with ragged params or indices."""
    rows, places = as_tensor(params), as_tensor(indices)
    places = places.with_flat_values(cast(places.flat_values, int64)) if _is_ragged(places) else cast(places, int64)
    batch = static_int(batch_dims, "batch_dims")
    batch += (places.shape.rank or 0) if batch < 0 else 0
    place = batch if axis is None else static_int(axis, "axis")
    return _gather(rows, places, place + (rows.shape.rank if place < 0 else 0), batch)


def _is_ragged(value: Any) -> bool:
    return isinstance(value, RaggedTensor)


def _gather(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """Gathers slices of dense or ragged tensors; an inner axis or ragged indices are reduced to a gather of rows."""
    if not _is_ragged(params) and not _is_ragged(indices):
        return dense_gather(params, indices, axis=axis, batch_dims=batch_dims)
    if batch_dims:
        return _in_batches(params, indices, axis, batch_dims)
    if axis > 1:
        rows = _ragged(params)
        return rows.with_values(_gather(rows.values, indices, axis - 1, 0))
    if axis == 1:
        return _gather(_merged(params), _moved(params, indices, indices.shape.rank + 1), 0, 0)
    if _is_ragged(indices):
        return indices.with_values(_gather(params, indices.values, 0, 0))
    return _rows(params, indices)


def _rows(params: RaggedTensor, places: Tensor) -> Any:
    if places.ndim == 0:
        return params[places]
    if places.ndim == 1:
        return gather_rows(params, places)
    return _gather(params, from_tensor(places, None, None, places.ndim - 1, params.row_splits.dtype), 0, 0)


def _in_batches(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """Gathers with batch dims, by converting indices in each batch item to indices of the merged rows."""
    outer, own = params.shape[:batch_dims], indices.shape[:batch_dims]
    if not outer.is_compatible_with(own):
        raise ValueError(f"batch shape from indices {own} does not match params shape {params.shape}")
    if batch_dims > 1:
        rows, places = _ragged(params), _ragged(indices)
        return rows.with_values(_gather(rows.values, places.values, axis - 1, batch_dims - 1))
    if axis > 1:
        rows = _ragged(params)
        numbers = rows.with_values(rows.value_rowids())
        return _in_batches(rows, _gather(indices, cast_values(numbers), 0, 0), axis, 2)
    return _gather(_merged(params), _moved(params, indices, indices.shape.rank), axis - 1, 0)


def cast_values(ragged: RaggedTensor) -> RaggedTensor:
    """Casts the values to int64."""
    return ragged.with_flat_values(cast(ragged.flat_values, int64))


def _ragged(value: Any) -> RaggedTensor:
    return value if _is_ragged(value) else from_tensor(value, None, None, 1, int64)


def _merged(params: Any) -> Any:
    """Merges the outermost two axes."""
    return params.values if _is_ragged(params) else joined_axes(params)


def _moved(params: Any, indices: Any, rank: int) -> Any:
    """Converts indices into single rows to indices into the values of all rows."""
    if _is_ragged(params):
        starts = cast(params.row_starts(), int64)
    else:
        starts = positions(params) * params._type.shape[1]
    return indices + bind.reshape(starts, shape=(starts._type.shape[0], *(1,) * (rank - 1)))


def gather_nd(
    function: Any, params: Any, indices: Any, batch_dims: int = 0, name: Any = None, bad_indices_policy: str = ""
) -> Any:
    """Does ``tf.gather_nd`` with ragged params or indices."""
    if batch_dims:
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    rows, places = as_tensor(params), as_tensor(indices)
    if places.shape.rank is None or places.shape[-1] is None:
        raise ValueError("indices.shape[-1] must be statically known.")
    return _gather_nd(rows, places)


def _gather_nd(params: Any, indices: Any) -> Any:
    """Gathers slices at index vectors; a ragged axis adds the offset at which the row starts to the next index."""
    if _is_ragged(indices):
        return indices.with_values(_gather_nd(params, indices.values))
    places, size = cast(indices, int64), indices.shape[-1]
    if not _is_ragged(params):
        return dense_gather_nd(params, places)
    if places.ndim > 2:
        rows = from_tensor(places, None, None, 1, int64)
        result = rows.with_values(_gather_nd(params, rows.values))
        return result
    if places.ndim == 1:
        return params[tuple(places[i] for i in range(size))] if size else params
    if size == 0:
        return _gather(params, repeat([0], [places._type.shape[0]]), 0, 0)
    number, values = places[:, 0], params
    for column in range(1, size):
        if not _is_ragged(values):
            rest = bind.concat(bind.reshape(number, shape=(*number._type.shape, 1)), places[:, column:], axis=1)
            return dense_gather_nd(values, rest)
        number = cast(dense_gather(values.row_starts(), number), int64) + places[:, column]
        values = values.values
    return _gather(values, number, 0, 0)
