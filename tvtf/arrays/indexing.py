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
    full_slice = builtins.slice(None)  # in place of an array: basic indexing leaves the axis as it is
    basic_key = tuple(full_slice if _is_array(index) else index for index in entries)
    sliced = basic_getitem(x, basic_key)
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
    if not isinstance(key, list):
        return (key,)
    is_list_of_indices = any(index is None or index is ... or _is_sequence_or_slice(index) for index in key)
    return tuple(key) if is_list_of_indices else (key,)


def _is_sequence_or_slice(index: Any) -> bool:
    is_array = isinstance(index, Tensor | np.ndarray) and index.ndim != 0
    return isinstance(index, list | tuple | builtins.slice) or is_array


def _converted_index(entry: Any) -> Any:
    """Converts an array among the indices to an integer tensor; a mask becomes the positions of its true elements.

    Integers, slices, None and the ellipsis are left unchanged.
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
    axis_entries = [entry for entry in entries if not _is_scalar(entry)]
    for position, entry in enumerate(axis_entries):
        if entry is ...:
            follows_ellipsis = True
        elif _is_array(entry):
            position_from_end = len(axis_entries) - position
            axis = rank - position_from_end if follows_ellipsis else position
            arrays.append(ArrayIndex(axis, entry, follows_ellipsis))
    return arrays


def _gather_by_arrays(x: Tensor, array_indices: list[ArrayIndex]) -> Tensor:
    """Gathers elements by arrays of indices, which broadcast with each other, as in NumPy's advanced indexing.

    If the arrays index adjacent axes, the new axes replace them. Otherwise the new axes come first.
    """
    axes = [array_index.axis for array_index in array_indices]
    first_axis = axes[0]
    axis_count = len(axes)
    on_one_side = len({array_index.follows_ellipsis for array_index in array_indices}) == 1  # of an ellipsis
    are_adjacent = on_one_side and axes == list(range(first_axis, first_axis + axis_count))
    x = moveaxis(x, axes, list(range(axis_count)))
    arrays = to_common_dtype(*(array_index.indices for array_index in array_indices))
    index_vectors = tf.stack(broadcast(*arrays), axis=-1)
    sizes = tf.shape(x, index_vectors.dtype)[:axis_count]
    # Negative indices count from the end.
    nonnegative = tf.where(index_vectors < 0, index_vectors + sizes, index_vectors)
    gathered = tf.gather_nd(x, nonnegative)
    if not are_adjacent:
        return gathered
    new_axes = list(range(index_vectors.ndim - 1))
    destination = nonnegative_axis(first_axis, x.ndim)
    return moveaxis(gathered, new_axes, [destination + axis for axis in new_axes])
