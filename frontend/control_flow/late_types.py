"""Values without a type, such as ``tf.experimental.Optional.empty(None)``: branches and loops infer it.

Such a value gets the type of the value that it meets: in the other branch of a ``tf.cond``, or in the result of a
loop's first iteration. IndexedSlices with int32 indices become int64 where they meet int64 ones.
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
    """Returns whether a value is, or contains, one without a type."""
    return any(isinstance(leaf, CompositeTensor) and leaf._is_untyped for leaf in nest.flatten(value))


def takes_type(value: Any, like: Any) -> bool:
    """Returns whether :func:`typed_as` would change the type of something in ``value``."""
    leaves, other_leaves = nest.flatten(value), nest.flatten(like)
    return len(leaves) == len(other_leaves) and any(map(_leaf_takes_type, leaves, other_leaves))


def _leaf_takes_type(value: Any, other: Any) -> bool:
    if isinstance(value, IndexedSlices) and isinstance(other, IndexedSlices):
        return value.indices.dtype is int32 and other.indices.dtype is int64
    return is_untyped(value) and not is_untyped(other)


def typed_as(value: Any, like: Any) -> Any:
    """Returns ``value``, with untyped parts given the types at the same places of ``like``."""
    if not takes_type(value, like):
        return value
    pairs = zip(nest.flatten(value), nest.flatten(like))
    return nest.pack_sequence_as(
        value,
        [
            _leaf_typed_as(value_leaf, other_leaf) if _leaf_takes_type(value_leaf, other_leaf) else value_leaf
            for value_leaf, other_leaf in pairs
        ],
    )


def _leaf_typed_as(value: Any, other: Any) -> Any:
    if isinstance(value, IndexedSlices):
        return IndexedSlices(value.values, bind.cast(value.indices, dtype=int64), value.dense_shape)
    return value._typed_as(other)


def typed_as_returned(loop_vars: Sequence[Any], body: Callable[..., Any]) -> Sequence[Any]:
    """Returns the loop variables with the types that an iteration gives them; the body is traced once more for that."""
    from tvtf.frontend.control_flow.abstract_trace import AbstractTrace
    from tvtf.ir.trace import tracing

    if not is_untyped(loop_vars):
        return loop_vars
    abstract = AbstractTrace("while_types")
    with tracing(abstract):
        results = body(*(_param_of(abstract, value) for value in loop_vars))
    return typed_as(list(loop_vars), list(results) if isinstance(results, (list, tuple)) else [results])  # type: ignore[no-any-return]


def _param_of(abstract: Any, value: Any) -> Any:
    if is_untyped(value):
        return value
    return nest.map_structure(lambda v: None if v is None else abstract.param_of(v), value, expand_composites=True)
