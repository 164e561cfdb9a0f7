"""``tensor[...]`` as in NumPy: arrays as indices, one or several."""

from __future__ import annotations

import builtins
import numbers
from typing import Any, NamedTuple

import numpy as np

from tvtf.arrays.convert import broadcast, nonnegative_axis, tf, to_common_dtype, to_tensor
from tvtf.arrays.shaping import moveaxis
from tvtf.core.tensor import Tensor
from tvtf.ops.getitem import getitem as basic_getitem

MSG_INDEX = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid "
    "indices, got {!r}"
)


class ArrayIndex(NamedTuple):
    """An array among the indices, and the axis from which it picks after basic indexing."""

    axis: int
    indices: Tensor
    follows_ellipsis: bool


def getitem(x: Tensor, key: Any) -> Tensor:
    """Indexes a tensor as NumPy does: by a mask, or by a mix of integers, slices and arrays of indices.

    Integers and slices are applied first, arrays of indices afterwards.
    """
    if _is_mask(key):
        return tf.boolean_mask(x, key)
    entries = [_converted_index(index) for index in _as_tuple(key)]
    # Basic indexing leaves the axes whole that arrays index.
    basic = tuple(builtins.slice(None) if _is_array(index) else index for index in entries)
    sliced = basic_getitem(x, basic)
    array_indices = _array_indices(entries, sliced.ndim)
    return _gather_by_arrays(sliced, array_indices) if array_indices else sliced


def _is_mask(key: Any) -> bool:
    return isinstance(key, bool) or (isinstance(key, np.ndarray | Tensor) and key.dtype == bool)


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """Returns the index of a tensor as a tuple, one entry for each indexed axis.

    A list with slices or arrays is converted to a tuple. A list of numbers is a single entry, an array of indices.
    """
    if isinstance(key, tuple):
        return key
    is_list_of_indices = isinstance(key, list) and any(
        index is None or index is ... or _is_sequence_or_slice(index) for index in key
    )
    return tuple(key) if is_list_of_indices else (key,)


def _is_sequence_or_slice(index: Any) -> bool:
    is_array = isinstance(index, Tensor | np.ndarray) and index.ndim != 0
    return isinstance(index, list | tuple | builtins.slice) or is_array


def _converted_index(entry: Any) -> Any:
    """Converts an array among the indices to an integer tensor; a mask becomes the positions of its true elements.

    Integers, slices, None and the ellipsis stay as they are.
    """
    if entry is None or entry is ... or isinstance(entry, builtins.slice | numbers.Integral):
        return entry
    index = to_tensor(entry)
    if index.dtype.is_bool:
        if index.ndim != 1:
            raise NotImplementedError(f"Need rank 1 for bool index {entry}")
        return tf.where(index)[:, 0]
    if not index.dtype.is_integer:
        raise IndexError(MSG_INDEX.format(entry))
    return index if index.dtype in (tf.int32, tf.int64) else tf.cast(index, tf.int64)


def _is_array(entry: Any) -> bool:
    return isinstance(entry, Tensor) and entry.ndim != 0


def _is_scalar(entry: Any) -> bool:
    return isinstance(entry, numbers.Integral) or (isinstance(entry, Tensor) and entry.ndim == 0)


def _array_indices(entries: list[Any], rank: int) -> list[ArrayIndex]:
    """Returns the arrays among the indices, each with the axis that it indexes after basic indexing.

    ``rank`` is the rank after basic indexing. Axes after an ellipsis count from the end. Scalar indices don't count,
    because basic indexing has removed their axes.
    """
    arrays = []
    follows_ellipsis = False
    kept_entries = [entry for entry in entries if not _is_scalar(entry)]
    for position, entry in enumerate(kept_entries):
        if entry is ...:
            follows_ellipsis = True
        elif _is_array(entry):
            axis = rank - (len(kept_entries) - position) if follows_ellipsis else position
            arrays.append(ArrayIndex(axis, entry, follows_ellipsis))
    return arrays


def _gather_by_arrays(x: Tensor, array_indices: list[ArrayIndex]) -> Tensor:
    """Gathers elements by arrays of indices, which broadcast with each other, as in NumPy's advanced indexing.

    If the arrays index adjacent axes, the new axes replace them. Otherwise the new axes come first.
    """
    axes = [array_index.axis for array_index in array_indices]
    on_one_side = len({array_index.follows_ellipsis for array_index in array_indices}) == 1
    adjacent = on_one_side and axes == list(range(axes[0], axes[0] + len(axes)))
    x = moveaxis(x, axes, list(range(len(axes))))
    index = tf.stack(broadcast(*to_common_dtype(*(array_index.indices for array_index in array_indices))), axis=-1)
    sizes = tf.shape(x, index.dtype)[: len(axes)]
    # Negative indices count from the end.
    gathered = tf.gather_nd(x, tf.where(index < 0, index + sizes, index))
    index_rank = index.ndim - 1
    if not adjacent:
        return gathered
    return moveaxis(
        gathered, list(range(index_rank)), [nonnegative_axis(axes[0], x.ndim) + i for i in range(index_rank)]
    )
