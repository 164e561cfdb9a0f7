"""``tensor[...]`` as in NumPy: arrays as indices, one or several."""

from __future__ import annotations

import builtins
import numbers
from typing import Any, NamedTuple

import numpy as np

from tvtf.arrays.convert import axis_of, broadcast, tf, to_tensor, together
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
    """Indexes a tensor: by a mask, or by basic indices first and arrays afterwards."""
    if _is_mask(key):
        return tf.boolean_mask(x, key)
    entries = [_converted_index(each) for each in _as_tuple(key)]
    basic = tuple(builtins.slice(None) if _is_array(each) else each for each in entries)
    rest = basic_getitem(x, basic)
    picks = _array_indices(entries, rest.ndim)
    return _gather_by(rest, picks) if picks else rest


def _is_mask(key: Any) -> bool:
    return isinstance(key, bool) or (isinstance(key, np.ndarray | Tensor) and key.dtype == bool)


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """Returns the indices as a tuple: a list that contains slices or arrays counts as a tuple, a list of numbers as an array."""
    if isinstance(key, tuple):
        return key
    parts = isinstance(key, list) and any(each is None or each is ... or _has_parts(each) for each in key)
    return tuple(key) if parts else (key,)


def _has_parts(each: Any) -> bool:
    is_array = isinstance(each, Tensor | np.ndarray) and each.ndim != 0
    return isinstance(each, list | tuple | builtins.slice) or is_array


def _converted_index(each: Any) -> Any:
    """Converts one index; a mask becomes the positions of its true elements."""
    if each is None or each is ... or isinstance(each, builtins.slice | numbers.Integral):
        return each
    index = to_tensor(each)
    if index.dtype.is_bool:
        if index.ndim != 1:
            raise NotImplementedError(f"Need rank 1 for bool index {each}")
        return tf.where(index)[:, 0]
    if not index.dtype.is_integer:
        raise IndexError(MSG_INDEX.format(each))
    return index if index.dtype in (tf.int32, tf.int64) else tf.cast(index, tf.int64)


def _is_array(entry: Any) -> bool:
    return isinstance(entry, Tensor) and entry.ndim != 0


def _is_scalar(entry: Any) -> bool:
    return isinstance(entry, numbers.Integral) or (isinstance(entry, Tensor) and entry.ndim == 0)


def _array_indices(entries: list[Any], rank: int) -> list[ArrayIndex]:
    """Returns the arrays among the indices with their axes after basic indexing; after an ellipsis, axes count from the end.

    Scalars remove their axis, so that they don't count.
    """
    arrays = []
    for place, entry in enumerate(entries):
        if not _is_array(entry):
            continue
        follows_ellipsis = any(each is ... for each in entries[:place])
        rest = [each for each in entries[place:] if not _is_scalar(each)]
        before = [each for each in entries[:place] if not _is_scalar(each)]
        arrays.append(ArrayIndex(rank - len(rest) if follows_ellipsis else len(before), entry, follows_ellipsis))
    return arrays


def _gather_by(x: Tensor, picks: list[ArrayIndex]) -> Tensor:
    """Gathers by the arrays together; as in NumPy, the new axes are in front unless the arrays are adjacent."""
    axes = [pick.axis for pick in picks]
    one_side = len({pick.follows_ellipsis for pick in picks}) == 1
    adjacent = one_side and axes == list(range(axes[0], axes[0] + len(axes)))
    x = moveaxis(x, axes, list(range(len(axes))))
    index = tf.stack(broadcast(*together(*(pick.indices for pick in picks))), axis=-1)
    sizes = tf.shape(x, index.dtype)[: len(axes)]
    gathered = tf.gather_nd(x, tf.where(index < 0, index + sizes, index))
    batch = index.ndim - 1
    if not adjacent:
        return gathered
    return moveaxis(gathered, list(range(batch)), [axis_of(axes[0], x.ndim) + i for i in range(batch)])
