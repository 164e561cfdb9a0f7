"""Mapping over a leading axis: ``vectorized_map``, and what jacobians are made of.

A :class:`Batched` tensor stands for one element while it holds them all; binding a primitive to one uses the primitive's
``batch`` column, or, where that is empty, a loop over the elements. Levels nest: a batched tensor may hold batched ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.anyrank import AnyShape
from tvtf.batches import OfEncoded, is_encoded
from tvtf.context import state
from tvtf.ops.control import call
from tvtf.ops.rules import stretch
from tvtf.primitive import Primitive, as_tuple, export, hooks
from tvtf.shape import TensorType
from tvtf.tensor import Tensor, convert_to_tensor


class Batched(Tensor):
    """One element of ``inner``'s leading axis, for all of them at once."""

    __slots__ = ("inner", "level", "_type")
    is_batched = True

    def __init__(self, inner: Tensor, level: int) -> None:
        self.inner = inner
        self.level = level
        self._type = TensorType(inner._type.shape[1:], inner._type.dtype)

    @property
    def size(self) -> Any:
        return self.inner._type.shape[0]

    def __repr__(self) -> str:
        return f"<tf.Tensor of a vectorized map: shape={self.shape} dtype={self.dtype.name}>"


def is_mapped(tensors: Sequence[Tensor]) -> bool:
    """Whether one of them stands for many elements, which compiled code can't take."""
    return bool(state.batches) and any(x.is_batched for x in tensors)


def bind_batched(prim: Primitive[Any], inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Binds a primitive over the innermost level among its inputs; tapes opened inside that level see elements."""
    level = max(x.level for x in inputs if x.is_batched)  # type: ignore[attr-defined]
    flags = [x.is_batched and x.level == level for x in inputs]  # type: ignore[attr-defined]
    raw = [x.inner if f else x for x, f in zip(inputs, flags)]  # type: ignore[attr-defined]
    size = next(x._type.shape[0] for x, f in zip(raw, flags) if f)
    tapes = state.tapes
    state.tapes = [t for t in tapes if t.level < level]
    try:
        found = _apply(prim, size, raw, flags, attrs)
    finally:
        state.tapes = tapes
    outputs = _wrapped(found, level)
    for tape in tapes:
        if tape.level >= level:
            tape.record(prim, inputs, outputs, attrs)
    return outputs


def _apply(prim: Primitive[Any], size: Any, raw: list[Any], flags: list[bool], attrs: dict[str, Any]) -> Any:
    rule = prim.batch or (lambda *args, **kwargs: each_by_itself(prim, *args, **kwargs))
    return rule(size, raw, flags, **attrs)


def _wrapped(found: Any, level: int) -> Any:
    if isinstance(found, (tuple, list)):
        return tuple(Batched(t, level) for t in found)
    return Batched(found, level)


def each_by_itself(
    prim: Primitive[Any], size: Any, inputs: Sequence[Any], batched: Sequence[bool], **attrs: Any
) -> Any:
    """The batching rule of primitives without one: an application for each element, stacked.

    Raises:
      ValueError: when the number of elements is not known while tracing.
    """
    if not isinstance(size, int):
        raise ValueError(f"{prim.tf_name} has no batching rule and maps over an axis of unknown size {size}")
    runs = [
        as_tuple(prim.bind(*(_element(x, i) if b else x for x, b in zip(inputs, batched)), **attrs))
        for i in range(size)
    ]
    stacked = tuple(_stack(column) for column in zip(*runs))
    return stacked if len(stacked) > 1 else stacked[0]


def _element(x: Any, index: int) -> Any:
    return x[index]


def _stack(column: Sequence[Any]) -> Any:
    return hooks.pack(list(column), None)


hooks.batch = bind_batched


@export("vectorized_map")
def vectorized_map(fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """``fn`` applied to each element along the leading axis of ``elems``, all at once.

    Args:
      fn: takes one element (a nest of them, where ``elems`` is one) and gives tensors.
      elems: tensor or nest of tensors of equal leading size.

    Returns:
      The results, stacked along a new leading axis.

    >>> import tvtf as tf
    >>> tf.vectorized_map(lambda row: tf.reduce_sum(row * row), tf.constant([[1., 2.], [3., 4.]])).numpy()
    array([ 5., 25.], dtype=float32)

    Raises:
      ValueError: when the leading sizes differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/vectorized_map
    """
    if is_encoded(elems):
        inner = OfEncoded(fn, elems)
        return inner.whole(vectorized_map(inner, inner.leaves))
    tensors = [convert_to_tensor(e) for e in nest.flatten(elems)]
    if any(isinstance(t._type.shape, AnyShape) for t in tensors):
        from tvtf.frontend.functional import over_rows  # it maps by this

        return over_rows(fn, tensors, elems, mapped_rows)
    sizes = {str(t._type.shape[0]) if t._type.shape else "scalar" for t in tensors}
    if len(sizes) != 1 or "scalar" in sizes:
        raise ValueError(
            f"vectorized_map needs elements of one leading size, but got shapes {[tuple(t.shape) for t in tensors]}"
        )
    with level() as own:
        mapped = fn(nest.pack_sequence_as(elems, [Batched(t, own) for t in tensors]))
        return nest.map_structure(lambda t: unwrapped(t, own, tensors[0]._type.shape[0]), mapped)


def mapped_rows(flat: list[Tensor], captured: list[Tensor], function: Any) -> Any:
    """``function`` of rows and of what it captured, over all rows."""
    return vectorized_map(lambda rows: list(call(function, [*rows, *captured])), flat)


class level:
    """Opens a level of mapping; gives its number."""

    def __enter__(self) -> int:
        state.batches += 1
        return state.batches

    def __exit__(self, *_: Any) -> None:
        state.batches -= 1


def unwrapped(result: Any, own: int, size: Any) -> Tensor:
    """All elements of a mapped result; one that does not depend on the element is repeated."""
    result = convert_to_tensor(result)
    mine = result.is_batched and result.level == own  # type: ignore[attr-defined]
    return result.inner if mine else stretch(size, result, False)  # type: ignore[attr-defined]


def basis(target: Tensor) -> Tensor:
    """Every one-hot cotangent of ``target``, shape (elements, *target.shape)."""
    shape = target._type.shape
    if not all(isinstance(d, int) for d in shape):
        raise ValueError(f"a jacobian needs a target of known shape, but got {target!r}")
    count = int(np.prod(shape))
    return convert_to_tensor(np.eye(count, dtype=target.dtype.np).reshape(count, *shape))
