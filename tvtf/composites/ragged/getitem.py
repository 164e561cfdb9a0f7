"""Indexing of ragged tensors: rows, slices of rows, and slices inside rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.ragged.build import gather_rows
from tvtf.composites.ragged.kernels import counted, ranges
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor, static_value
from tvtf.dtypes import int64
from tvtf.ops.cast import cast
from tvtf.ops.create import arange
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind, ones_like, zeros_like


def getitem(ragged: RaggedTensor, key: Any) -> Any:
    """Implements indexing of ragged tensors: ``ragged[key]``.

    Raises:
      ValueError: an integer indexes a ragged dim, or there are too many indices.
      TypeError: an index has an unsupported type.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [each for each in keys if not is_tensor(each)]:
        keys = _expand_ellipsis(keys, ragged.shape.rank or 0)
    return _index_axes(ragged, keys)


def _expand_ellipsis(keys: list[Any], rank: int) -> list[Any]:
    """Replaces the ellipsis among indices by as many full slices as the rank requires."""
    position = next(i for i, key in enumerate(keys) if key is Ellipsis)
    used = sum(key is not None and key is not Ellipsis for key in keys)
    return [*keys[:position], *[slice(None)] * (rank - used), *keys[position + 1 :]]


def _index_axes(value: Any, keys: list[Any]) -> Any:
    """Indexes a ragged or dense tensor by a list of keys: the first key indexes the outermost axis, the others the rows."""
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return value[tuple(keys)]
    first, *inner_keys = keys
    if first is None:
        return with_axis(_index_axes(value, inner_keys))
    if isinstance(first, slice):
        return _index_inside_rows(_slice_rows(value, first), inner_keys)
    if isinstance(first, (int, np.integer)) or (is_tensor(first) and convert_to_tensor(first).ndim == 0):
        return _index_axes(_select_row(value, first), inner_keys)
    raise TypeError(f"Unsupported index of a RaggedTensor: {first!r}; use integers, slices, None and Ellipsis")


def with_axis(value: Any) -> Any:
    """Adds an axis of size 1 in front."""
    if not isinstance(value, RaggedTensor):
        return value[None]
    count = cast(value.nrows(), value.row_splits.dtype)
    return RaggedTensor(value, bind.stack(zeros_like(count), count, axis=0), value.shape[0])


def _select_row(ragged: RaggedTensor, index: Any) -> Any:
    """Returns one row of a ragged tensor. While tracing, the row's start and limit are gathered at run time."""
    row = convert_to_tensor(index, dtype_hint=int64)
    row = cast(row, int64)
    if isinstance(row, EagerTensor) and isinstance(ragged.row_splits, EagerTensor):
        return _eager_row(ragged, int(row.numpy()))
    count = cast(ragged.nrows(), int64)
    # Negative indices count from the end.
    row = bind.select(bind.less(row, zeros_like(row)), row + count, row)
    start = cast(gather(ragged.row_starts(), row), int64)
    limit = cast(gather(ragged.row_limits(), row), int64)
    _, value_indices = ranges(bind.reshape(start, shape=(1,)), bind.reshape(limit, shape=(1,)))
    inner = ragged.values
    return gather_rows(inner, value_indices) if isinstance(inner, RaggedTensor) else gather(inner, value_indices)


def _eager_row(ragged: RaggedTensor, index: int) -> Any:
    """Returns a row of an eager ragged tensor. Raises IndexError if it is out of bounds."""
    splits = ragged.row_splits.eager_array()
    count = len(splits) - 1
    if not -count <= index < count:
        raise IndexError(f"slice index {index} of dimension 0 out of bounds: there are {count} rows")
    row = index % count
    return ragged.values[int(splits[row]) : int(splits[row + 1])]


def _slice_rows(ragged: RaggedTensor, key: slice) -> RaggedTensor:
    """Slices the outermost axis of a ragged tensor: selects rows."""
    if key == slice(None):
        return ragged
    static_key = _static_slice(key)
    # Consecutive eager rows have consecutive values, which needn't be gathered.
    if static_key is not None and static_key.step in (None, 1) and isinstance(ragged.row_splits, EagerTensor):
        all_splits = ragged.row_splits.eager_array()
        first, last, _ = static_key.indices(len(all_splits) - 1)
        splits = all_splits[first : max(first, last) + 1]
        start = int(splits[0])
        limit = int(splits[-1])
        return RaggedTensor(ragged.values[start:limit], EagerTensor(splits - start), ragged._uniform_row_length)
    row_count = cast(ragged.nrows(), int64)
    if static_key is not None and isinstance(row_count, EagerTensor):
        all_row_numbers = np.arange(int(row_count.numpy()), dtype=np.int64)
        return gather_rows(ragged, EagerTensor(all_row_numbers[static_key]))
    return gather_rows(ragged, arange(row_count)[key])


def _static_slice(key: slice) -> slice | None:
    """Returns a slice with ints in place of tensors, or None if a tensor's value is known only when the program runs."""
    bounds: list[int | None] = []
    for bound in (key.start, key.stop, key.step):
        if bound is None or isinstance(bound, int):
            bounds.append(bound)
            continue
        known_value = static_value(convert_to_tensor(bound))
        if known_value is None:
            return None
        bounds.append(int(known_value))
    return slice(*bounds)


def _static_int(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else int(convert_to_tensor(value).numpy())


def _index_inside_rows(ragged: RaggedTensor, keys: list[Any]) -> Any:
    """Indexes each row of a ragged tensor by the keys after the first one.

    Raises:
      ValueError: an integer indexes rows that are not known to have the same length.
    """
    if not keys:
        return ragged
    first, *inner_keys = keys
    if first is None:
        row_splits = counted(ragged.nrows(), ragged.row_splits.dtype)  # each row becomes the only one of a row
        return RaggedTensor(_index_inside_rows(ragged, inner_keys), row_splits, 1)
    if isinstance(first, slice):
        sliced = _slice_each_row(ragged, first)
        return sliced.with_values(_index_each(sliced.values, inner_keys)) if inner_keys else sliced
    return _index_each(_select_in_each_row(ragged, first), inner_keys)


def _index_each(values: Any, keys: list[Any]) -> Any:
    """Indexes each item of ``values``, along their first axis, by a list of keys."""
    return _index_axes(values, [slice(None), *keys]) if keys else values


def _select_in_each_row(ragged: RaggedTensor, index: Any) -> Any:
    """Returns the item at ``index`` in each row. All rows must be known to have the same length."""
    if ragged.uniform_row_length is None:
        raise ValueError("Cannot index into an inner ragged dimension.")
    row_length = ragged._uniform_row_length
    position = _static_int(index)
    if not -row_length <= position < row_length:
        raise ValueError(f"index {position} is out of range for rows of {row_length}")
    return gather_values(ragged.values, ragged.row_starts() + position % row_length)


def gather_values(values: Any, places: Tensor) -> Any:
    """Gathers slices along the first axis."""
    return gather_rows(values, cast(places, int64)) if isinstance(values, RaggedTensor) else gather(values, places)


def _slice_each_row(ragged: RaggedTensor, key: slice) -> RaggedTensor:
    """Applies the same slice to each row of a ragged tensor; for example, ``1:`` drops the first element of each row."""
    if key == slice(None):
        return ragged
    step = 1 if key.step is None else _static_int(key.step)
    starts, limits = cast(ragged.row_starts(), int64), cast(ragged.row_limits(), int64)
    lengths = limits - starts
    offsets = _clipped_bound(key.start, lengths, step, is_start=True)
    end_offsets = _clipped_bound(key.stop, lengths, step, is_start=False)
    splits, value_indices = ranges(starts + offsets, starts + end_offsets, ones_like(starts) * step)
    return RaggedTensor(gather_values(ragged.values, value_indices), cast(splits, ragged.row_splits.dtype))


def _clipped_bound(bound: Any, lengths: Tensor, step: int, is_start: bool) -> Tensor:
    """Converts a bound of a slice to an offset for each row, clipped to the row's length as Python does.

    Args:
      bound: the bound, or None.
      lengths: the length of each row.
      step: the step of the slice.
      is_start: whether the bound is the slice's start, not its stop.
    """
    zero = zeros_like(lengths)
    one = ones_like(lengths)
    low, high = (zero, lengths) if step > 0 else (zero - one, lengths - one)
    if bound is None:
        return low if is_start == (step > 0) else high
    offset = zero + _static_int(bound)
    offset = bind.select(bind.less(offset, zero), offset + lengths, offset)
    return bind.maximum(low, bind.minimum(high, offset))  # type: ignore[no-any-return]
