"""Sizes for the examples of a call that can't do with unknown ones: what it gives for several tells what it gives for any.

All unknown sizes are made equal first, which is what most ops want of those that belong together, then each is changed by
itself: a dim of a result that stays then is one for every size, others are unknown; ranks that differ are unknown, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import TensorType, fresh_dim, is_static_shape, same_dim, substitute_dim

SIZES = (2, 3, 1, 4, 5, 8, 16)
"""What all unknown sizes are tried to be: as many as there are examples of ranks."""
FAR = 17
"""How far a size is changed by itself: windows move by less."""
MOST_INTEGERS = 64
"""Elements of an integer tensor: each may become a dim."""
Sizes = Mapping[Any, int]


def symbols_of(given: Sequence[tuple[TensorType, Any]]) -> list[Any]:
    """The unknown sizes that types and known values of tensors mention."""
    from tvm import tirx

    found: list[Any] = []
    for dim in _dims(given):
        for symbol in [] if isinstance(dim, int) else tirx.analysis.undefined_vars(dim):
            if not any(symbol.same_as(known) for known in found):
                found.append(symbol)
    return found


def _dims(given: Sequence[tuple[TensorType, Any]]) -> Iterator[Any]:
    for (shape, _), known in given:
        yield from shape
        if known is not None:
            yield from known.flat


def with_sizes(given: tuple[TensorType, Any], sizes: Sizes) -> tuple[TensorType, Any]:
    """The type and the known value under these sizes."""
    (shape, dtype), known = given
    told = tuple(substitute_dim(d, sizes) for d in shape)
    value = None if known is None else np.array([substitute_dim(d, sizes) for d in known.flat], object)
    return TensorType(told, dtype), None if value is None else value.reshape(known.shape)


def is_small(given: Sequence[tuple[TensorType, Any]]) -> bool:
    """Whether there are few integers."""
    return all(math.prod(shape) <= MOST_INTEGERS for (shape, dtype), _ in given if dtype.is_integer)


def found_for(given: Sequence[tuple[TensorType, Any]], attempt: Callable[[Sizes], Any]) -> list[tuple[Sizes, Any]]:
    """The sizes with which a call does its work, with what it gave; ``attempt`` gives None where it refuses."""
    symbols = symbols_of(given)
    static = sorted({d for (shape, _), _ in given for d in shape if isinstance(d, int) and d > 0} - set(SIZES))
    found = [(sizes, made) for k in (*SIZES, *static) if (made := attempt(sizes := dict.fromkeys(symbols, k)))]
    return found + list(_changed(found[0][0], attempt)) if found else []


def _changed(base: Sizes, attempt: Callable[[Sizes], Any]) -> Iterator[tuple[Sizes, Any]]:
    for symbol, size in base.items():
        others = ({**base, symbol: other} for other in (size + FAR, size + 1, 2 * size + 1, size + 2, size - 1))
        yield from itertools.islice(((sizes, made) for sizes in others if (made := attempt(sizes))), 2)


def common_type(found: Sequence[tuple[Sizes, TensorType]]) -> TensorType:
    """The type for any sizes, of those for some."""
    types = [t for _, t in found]
    if len(types) < 2 or any(isinstance(t.shape, AnyShape) or len(t.shape) != len(types[0].shape) for t in types):
        return types[0]._replace(shape=_any_shape(found))
    base = found[0][0]
    is_varied = all(any(_changes_only(sizes, base, symbol) for sizes, _ in found) for symbol in base)
    columns = zip(*(t.shape for t in types))
    return types[0]._replace(shape=tuple(_common_dim(column, is_varied) for column in columns))


def _changes_only(sizes: Sizes, base: Sizes, symbol: Any) -> bool:
    return all((sizes[s] != base[s]) == s.same_as(symbol) for s in base)


def _common_dim(column: Sequence[Any], is_varied: bool) -> Any:
    stays = is_varied and isinstance(column[0], int) and all(same_dim(column[0], d) for d in column)
    return column[0] if stays else fresh_dim("any")


def _any_shape(found: Sequence[tuple[Sizes, TensorType]]) -> AnyShape:
    """The shape of which the examples have the sizes of their index, where the call takes these."""
    equal = {next(iter(sizes.values()), 0): t.shape for sizes, t in found if len(set(sizes.values())) < 2}
    shapes = [equal.get(size) for size in SIZES]
    if shapes[0] is None or shapes[1] is None:
        others = [t.shape for _, t in found]
        shapes = [*others, *[None] * len(SIZES)][: len(SIZES)]
    shapes = _apart(shapes)
    return AnyShape(lambda index: _open(shapes[index], index))


def _apart(shapes: list[Any]) -> list[Any]:
    """With one of another rank than the first in the second place, where there is one."""
    if any(isinstance(s, AnyShape) for s in shapes):
        return shapes
    other = next((i for i, s in enumerate(shapes) if s is not None and len(s) != len(shapes[0])), 1)
    shapes[1], shapes[other] = shapes[other], shapes[1]
    return shapes


def _open(shape: Any, index: int) -> Any:
    """A shape of this rank, of any sizes."""
    if isinstance(shape, AnyShape):
        return shape.example(index)
    return shape and tuple(fresh_dim("any") for _ in shape)


def common_value(values: Sequence[Any]) -> Any:
    """The known value for any sizes; None where it depends on them."""
    first = values[0]
    if first is None or not is_static_shape(first.flat):
        return None
    same = all(v is not None and v.shape == first.shape and all(map(same_dim, first.flat, v.flat)) for v in values)
    return first if same else None
