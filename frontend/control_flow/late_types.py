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
    """Returns whether a structure contains an untyped value, such as ``tf.experimental.Optional.empty(None)``."""
    return any(isinstance(leaf, CompositeTensor) and leaf._is_untyped for leaf in nest.flatten(value))


def takes_type(value: Any, like: Any) -> bool:
    """Returns whether a leaf of ``value`` would get another type from the same leaf of ``like`` (:func:`typed_as`)."""
    leaves, other_leaves = nest.flatten(value), nest.flatten(like)
    return len(leaves) == len(other_leaves) and any(map(_leaf_takes_type, leaves, other_leaves))


def _leaf_takes_type(value: Any, other: Any) -> bool:
    """Returns whether a value takes the type of the value in the other branch or of the next iteration.

    Untyped values do, and IndexedSlices with int32 indices that meet int64 indices.
    """
    if isinstance(value, IndexedSlices) and isinstance(other, IndexedSlices):
        return value.indices.dtype is int32 and other.indices.dtype is int64
    return is_untyped(value) and not is_untyped(other)


def typed_as(value: Any, like: Any) -> Any:
    """Returns the structure ``value``, with untyped leaves given the types of the corresponding leaves of ``like``."""
    if not takes_type(value, like):
        return value
    leaves = nest.flatten(value)
    for i, (leaf, typed_leaf) in enumerate(zip(leaves, nest.flatten(like))):
        if _leaf_takes_type(leaf, typed_leaf):
            leaves[i] = _leaf_typed_as(leaf, typed_leaf)
    return nest.pack_sequence_as(value, leaves)


def _leaf_typed_as(value: Any, other: Any) -> Any:
    """Returns a value with the type of ``other``. For IndexedSlices, the indices are converted to int64."""
    if isinstance(value, IndexedSlices):
        return IndexedSlices(value.values, bind.cast(value.indices, dtype=int64), value.dense_shape)
    return value._typed_as(other)


def typed_as_returned(loop_vars: Sequence[Any], body: Callable[..., Any]) -> Sequence[Any]:
    """Returns a loop's variables; untyped variables get the types that the loop's body returns.

    The body is traced once to find these types. This trace isn't part of the program.
    """
    from tvtf.frontend.control_flow.abstract_trace import AbstractTrace
    from tvtf.ir.trace import tracing

    if not is_untyped(loop_vars):
        return loop_vars
    abstract = AbstractTrace("while_types")
    with tracing(abstract):
        results = body(*(_param_of(abstract, value) for value in loop_vars))
    return typed_as(list(loop_vars), list(results) if isinstance(results, (list, tuple)) else [results])  # type: ignore[no-any-return]


def _param_of(abstract: Any, value: Any) -> Any:
    """Returns a loop variable as parameters of an abstract trace.

    An untyped value has no tensors and is left unchanged.
    """
    if is_untyped(value):
        return value
    return nest.map_structure(
        lambda leaf: None if leaf is None else abstract.param_of(leaf), value, expand_composites=True
    )
