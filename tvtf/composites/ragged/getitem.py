"""Indexing of ragged tensors: rows, slices of rows, and slices inside rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.ragged.build import gather_rows
from tvtf.composites.ragged.kernels import counted, ranges
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import int64
from tvtf.ops.cast import cast
from tvtf.ops.create import arange
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind, ones_like, zeros_like


def getitem(ragged: RaggedTensor, key: Any) -> Any:
    """Returns ``ragged[key]``.

    Raises:
      ValueError: an integer indexes a ragged dim, or there are too many indices.
      TypeError: an index has an unsupported type.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [k for k in keys if not is_tensor(k)]:
        keys = _expanded(keys, ragged.shape.rank or 0)
    return _indexed(ragged, keys)


def _expanded(keys: list[Any], rank: int) -> list[Any]:
    place = next(i for i, k in enumerate(keys) if k is Ellipsis)
    used = sum(k is not None and k is not Ellipsis for k in keys)
    return [*keys[:place], *[slice(None)] * (rank - used), *keys[place + 1 :]]


def _indexed(value: Any, keys: list[Any]) -> Any:
    """Indexes the outermost axis by the first key, and the rows by the others."""
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return value[tuple(keys)]
    first, *rest = keys
    if first is None:
        return with_axis(_indexed(value, rest))
    if isinstance(first, slice):
        return _in_rows(_sliced_rows(value, first), rest)
    if isinstance(first, (int, np.integer)) or (is_tensor(first) and convert_to_tensor(first).ndim == 0):
        return _indexed(_row(value, first), rest)
    raise TypeError(f"Unsupported index of a RaggedTensor: {first!r}; use integers, slices, None and Ellipsis")


def with_axis(value: Any) -> Any:
    """Adds an axis of size 1 in front."""
    if not isinstance(value, RaggedTensor):
        return value[None]
    count = cast(value.nrows(), value.row_splits.dtype)
    return RaggedTensor(value, bind.stack(zeros_like(count), count, axis=0), value.shape[0])


def _row(ragged: RaggedTensor, index: Any) -> Any:
    """Returns one row; an index that is unknown while tracing selects it at run time."""
    place = convert_to_tensor(index, dtype_hint=int64)
    place = cast(place, int64)
    if isinstance(place, EagerTensor) and isinstance(ragged.row_splits, EagerTensor):
        return _eager_row(ragged, int(place.numpy()))
    count = cast(ragged.nrows(), int64)
    place = bind.select(bind.less(place, zeros_like(place)), place + count, place)
    start, limit = (cast(gather(edge, place), int64) for edge in (ragged.row_starts(), ragged.row_limits()))
    _, places = ranges(bind.reshape(start, shape=(1,)), bind.reshape(limit, shape=(1,)))
    inner = ragged.values
    return gather_rows(inner, places) if isinstance(inner, RaggedTensor) else gather(inner, places)


def _eager_row(ragged: RaggedTensor, index: int) -> Any:
    splits = ragged.row_splits.eager_array()
    count = len(splits) - 1
    if not -count <= index < count:
        raise IndexError(f"slice index {index} of dimension 0 out of bounds: there are {count} rows")
    place = index % count
    return ragged.values[int(splits[place]) : int(splits[place + 1])]


def _sliced_rows(ragged: RaggedTensor, key: slice) -> RaggedTensor:
    """Slices the rows of a ragged tensor; eager slices with step 1 share the values."""
    if key == slice(None):
        return ragged
    if key.step in (None, 1) and isinstance(ragged.row_splits, EagerTensor):
        first, last, _ = slice(*map(_plain, (key.start, key.stop))).indices(len(ragged.row_splits.eager_array()) - 1)
        splits = ragged.row_splits[first : max(first, last) + 1]
        start, limit = (int(splits.eager_array()[i]) for i in (0, -1))
        return RaggedTensor(ragged.values[start:limit], splits - splits[0], ragged._uniform_row_length)
    rows = cast(ragged.nrows(), int64)
    if isinstance(rows, EagerTensor):
        numbers = np.arange(int(rows.numpy()))[slice(*map(_plain, (key.start, key.stop, key.step)))]
        return gather_rows(ragged, EagerTensor(numbers.astype(np.int64)))
    return gather_rows(ragged, arange(rows)[key])


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else int(convert_to_tensor(value).numpy())


def _in_rows(ragged: RaggedTensor, keys: list[Any]) -> Any:
    """Applies the remaining indices inside every row."""
    if not keys:
        return ragged
    first, *rest = keys
    if first is None:
        return RaggedTensor(_in_rows(ragged, rest), counted(ragged.nrows(), ragged.row_splits.dtype), 1)
    if not isinstance(first, slice):
        if ragged.uniform_row_length is None:
            raise ValueError("Cannot index into an inner ragged dimension.")
        uniform = ragged._uniform_row_length
        place = _plain(first)
        if not -uniform <= place < uniform:
            raise ValueError(f"index {place} is out of range for rows of {uniform}")
        picked = gather_values(ragged.values, ragged.row_starts() + place % uniform)
        return _indexed(picked, [slice(None), *rest]) if rest else picked
    cut = _cut_rows(ragged, first)
    return cut.with_values(_indexed(cut.values, [slice(None), *rest])) if rest else cut


def gather_values(values: Any, places: Tensor) -> Any:
    """Gathers items of the first axis."""
    return gather_rows(values, cast(places, int64)) if isinstance(values, RaggedTensor) else gather(values, places)


def _cut_rows(ragged: RaggedTensor, key: slice) -> RaggedTensor:
    """Slices each row of a ragged tensor."""
    if key == slice(None):
        return ragged
    step = 1 if key.step is None else _plain(key.step)
    starts, limits = cast(ragged.row_starts(), int64), cast(ragged.row_limits(), int64)
    lengths = limits - starts
    first = _edge(key.start, lengths, step, before=True)
    last = _edge(key.stop, lengths, step, before=False)
    splits, places = ranges(starts + first, starts + last, ones_like(starts) * step)
    return RaggedTensor(gather_values(ragged.values, places), cast(splits, ragged.row_splits.dtype))


def _edge(value: Any, lengths: Tensor, step: int, before: bool) -> Tensor:
    """Returns the start or stop of a slice in each row, clipped to the row's length as Python does."""
    zero, one = zeros_like(lengths), ones_like(lengths)
    low, high = (zero, lengths) if step > 0 else (zero - one, lengths - one)
    if value is None:
        return low if before == (step > 0) else high
    place = zero + _plain(value)
    place = bind.select(bind.less(place, zero), place + lengths, place)
    return bind.maximum(low, bind.minimum(high, place))  # type: ignore[no-any-return]
