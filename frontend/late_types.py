"""Values whose type the program tells later, as ``tf.experimental.Optional.empty(None)``: branches and loops find it.

Such a value becomes what it is where it meets one that has a type: in the other branch of a ``tf.cond``, or in the result of
a loop's first iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf import nest
from tvtf.composite import CompositeTensor
from tvtf.emit import tracing


def is_untyped(value: Any) -> bool:
    """Whether it is, or holds, a value without a type."""
    return any(isinstance(leaf, CompositeTensor) and leaf._is_untyped for leaf in nest.flatten(value))


def typed_as(value: Any, like: Any) -> Any:
    """``value`` with the types of ``like``, where it has none and these stand in the same place."""
    mine, theirs = nest.flatten(value), nest.flatten(like)
    if len(mine) != len(theirs) or not is_untyped(value):
        return value
    pairs = zip(mine, theirs)
    return nest.pack_sequence_as(
        value, [m._typed_as(t) if is_untyped(m) and not is_untyped(t) else m for m, t in pairs]
    )


def typed_as_returned(loop_vars: Sequence[Any], body: Callable[..., Any]) -> Sequence[Any]:
    """Loop variables with the types that an iteration gives them, which is traced once more for that."""
    from tvtf.frontend.aside import Aside

    if not is_untyped(loop_vars):
        return loop_vars
    aside = Aside("while_types")
    with tracing(aside):
        params = [_param_of(aside, v) for v in loop_vars]
        found = body(*params)
    return typed_as(list(loop_vars), list(found) if isinstance(found, (list, tuple)) else [found])  # type: ignore[no-any-return]


def _param_of(aside: Any, value: Any) -> Any:
    if is_untyped(value):
        return value
    return nest.map_structure(lambda v: None if v is None else aside.param_of(v), value, expand_composites=True)
