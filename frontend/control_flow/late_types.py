"""Values whose type the program tells later, as ``tf.experimental.Optional.empty(None)``: branches and loops find it.

Such a value becomes what it is where it meets one that has a type: in the other branch of a ``tf.cond``, or in the result of
a loop's first iteration. Rows (IndexedSlices) with int32 indices become such with int64 indices, where they meet these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.dtypes import int32, int64
from tvtf.ops.rules import bind


def is_untyped(value: Any) -> bool:
    """Whether it is, or holds, a value without a type."""
    return any(isinstance(leaf, CompositeTensor) and leaf._is_untyped for leaf in nest.flatten(value))


def takes_type(value: Any, like: Any) -> bool:
    """Whether something in ``value`` has another type in :func:`typed_as`."""
    mine, theirs = nest.flatten(value), nest.flatten(like)
    return len(mine) == len(theirs) and any(map(_takes_type, mine, theirs))


def _takes_type(mine: Any, other: Any) -> bool:
    if isinstance(mine, IndexedSlices) and isinstance(other, IndexedSlices):
        return mine.indices.dtype is int32 and other.indices.dtype is int64
    return is_untyped(mine) and not is_untyped(other)


def typed_as(value: Any, like: Any) -> Any:
    """``value`` with the types of ``like``, where it has none of its own and these stand in the same place."""
    if not takes_type(value, like):
        return value
    pairs = zip(nest.flatten(value), nest.flatten(like))
    return nest.pack_sequence_as(value, [_typed(m, t) if _takes_type(m, t) else m for m, t in pairs])


def _typed(mine: Any, other: Any) -> Any:
    if isinstance(mine, IndexedSlices):
        return IndexedSlices(mine.values, bind.cast(mine.indices, dtype=int64), mine.dense_shape)
    return mine._typed_as(other)


def typed_as_returned(loop_vars: Sequence[Any], body: Callable[..., Any]) -> Sequence[Any]:
    """Loop variables with the types that an iteration gives them, which is traced once more for that."""
    from tvtf.frontend.control_flow.abstract_trace import Aside
    from tvtf.ir.trace import tracing

    if not is_untyped(loop_vars):
        return loop_vars
    aside = Aside("while_types")
    with tracing(aside):
        found = body(*(_param_of(aside, v) for v in loop_vars))
    return typed_as(list(loop_vars), list(found) if isinstance(found, (list, tuple)) else [found])  # type: ignore[no-any-return]


def _param_of(aside: Any, value: Any) -> Any:
    if is_untyped(value):
        return value
    return nest.map_structure(lambda v: None if v is None else aside.param_of(v), value, expand_composites=True)
