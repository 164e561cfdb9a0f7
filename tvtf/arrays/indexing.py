"""``tensor[...]`` as NumPy has it: arrays among the indices, one by one or together."""

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


class Many(NamedTuple):
    """An array among the indices: which axis of what the others leave it picks from."""

    axis: int
    picked: Tensor
    follows_ellipsis: bool


def getitem(x: Tensor, key: Any) -> Tensor:
    if _is_mask(key):
        return tf.boolean_mask(x, key)
    entries = [_entry(each) for each in _as_tuple(key)]
    basic = tuple(builtins.slice(None) if _is_array(each) else each for each in entries)
    rest = basic_getitem(x, basic)
    picks = _picks(entries, rest.ndim)
    return _picked(rest, picks) if picks else rest


def _is_mask(key: Any) -> bool:
    return isinstance(key, bool) or (isinstance(key, np.ndarray | Tensor) and key.dtype == bool)


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """A list of slices and arrays is as good as a tuple; one of numbers is an array."""
    if isinstance(key, tuple):
        return key
    parts = isinstance(key, list) and any(each is None or each is ... or _has_parts(each) for each in key)
    return tuple(key) if parts else (key,)


def _has_parts(each: Any) -> bool:
    is_array = isinstance(each, Tensor | np.ndarray) and each.ndim != 0
    return isinstance(each, list | tuple | builtins.slice) or is_array


def _entry(each: Any) -> Any:
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


def _picks(entries: list[Any], rank: int) -> list[Many]:
    """The arrays among the indices with the axes of what the others leave; after an ellipsis these count from the end."""
    found = []
    for place, entry in enumerate(entries):
        if not _is_array(entry):
            continue
        follows = any(each is ... for each in entries[:place])
        behind = [each for each in entries[place:] if not _is_scalar(each)]
        before = [each for each in entries[:place] if not _is_scalar(each)]
        found.append(Many(rank - len(behind) if follows else len(before), entry, follows))
    return found


def _picked(x: Tensor, picks: list[Many]) -> Tensor:
    axes = [pick.axis for pick in picks]
    one_side = len({pick.follows_ellipsis for pick in picks}) == 1
    adjacent = one_side and axes == list(range(axes[0], axes[0] + len(axes)))
    x = moveaxis(x, axes, list(range(len(axes))))
    index = tf.stack(broadcast(*together(*(pick.picked for pick in picks))), axis=-1)
    sizes = tf.shape(x, index.dtype)[: len(axes)]
    found = tf.gather_nd(x, tf.where(index < 0, index + sizes, index))
    batch = index.ndim - 1
    if not adjacent:
        return found
    return moveaxis(found, list(range(batch)), [axis_of(axes[0], x.ndim) + i for i in range(batch)])
