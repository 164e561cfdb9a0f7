"""Sizes that only running a program tells, where they meet: one may be 1, and then that axis is repeated.

An elementwise op in a trace gets operands whose unknown sizes are equal, a product of matrices equal batches: those that may
differ are broadcast to the common ones before it, which is nothing where they turn out to be the same (see
``Graph.hopeful``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import Primitive, Sample, hooks, primitive
from tvtf.core.shape import Dim, TensorType, broadcast_shapes, fresh_dim, same_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import FLOATING
from tvtf.dtypes import bool as bool_dtype
from tvtf.ops.rules import bind, draw, kernel


def met(inputs: Sequence[Tensor], matrices: bool = False) -> Sequence[Tensor]:
    """The operands of a broadcasting op, with equal dims where they may be repeated; of ``matrices`` batches broadcast."""
    if any(isinstance(x._type.shape, AnyShape) or (matrices and x.ndim < 2) for x in inputs):
        return inputs
    own = [x._type.shape[x.ndim - 2 :] if matrices else () for x in inputs]
    wide = common([x._type.shape[: x.ndim - len(last)] for x, last in zip(inputs, own)], () if matrices else inputs)
    return inputs if wide is None else [stretched(x, (*dims, *last)) for x, dims, last in zip(inputs, wide, own)]


def common(shapes: Sequence[Sequence[Dim]], of: Sequence[Tensor] = ()) -> list[tuple[Dim, ...]] | None:
    """For each of the shapes that meet, ``of`` some tensors, the one that it is to have; None where nothing is repeated."""
    axes = [_distinct(column) for column in _columns(shapes)]
    if all(len(axis) < 2 for axis in axes) or any(sum(isinstance(d, int) for d in axis) > 1 for axis in axes):
        return None
    dims = _dims(axes, [fresh_dim(state.trace.root.unique("common")) if len(axis) > 1 else None for axis in axes])
    if any(_known(axis) is None for axis in axes):
        of = of or [bind.stack_new(shape=tuple(shape), dtype=bool_dtype) for shape in shapes]
        dims = bind.common_dims(*of, dims=dims)._type.shape[:-1]
    return [_wide(shape, dims[len(dims) - len(shape) :]) for shape in shapes]


def broadcast_dims(*shapes: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The shape that shapes broadcast to, told by the running program where sizes are unknown; None where they don't fit."""
    wide: tuple[Dim, ...] | None = ()
    for shape in common(shapes) or shapes:
        wide = wide if wide is None else broadcast_shapes(wide, shape)
    return wide


def _columns(shapes: Sequence[Any]) -> list[list[Dim]]:
    """The dims that meet, by axis of the result."""
    rank = max(map(len, shapes))
    return [[s[axis - rank + len(s)] for s in shapes if axis >= rank - len(s)] for axis in range(rank)]


def _distinct(dims: Sequence[Dim]) -> list[Dim]:
    """The dims but those of size 1, each once."""
    found: list[Dim] = []
    for dim in dims:
        if not (isinstance(dim, int) and dim == 1) and not any(same_dim(dim, d) for d in found):
            found.append(dim)
    return found


def _known(distinct: Sequence[Dim]) -> Dim | None:
    """The dim of the result; None where only running the program tells."""
    if len(distinct) < 2:
        return distinct[0] if distinct else 1
    static = [d for d in distinct if isinstance(d, int)]
    if static:
        return static[0] if len(static) == 1 else None
    return None if state.trace is None else state.trace.common_dim(distinct)


def _dims(axes: Sequence[Sequence[Dim]], otherwise: Sequence[Dim | None]) -> tuple[Dim, ...]:
    known = map(_known, axes)
    return tuple(d if k is None else k for k, d in zip(known, otherwise))


def _wide(own: Sequence[Dim], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(d if isinstance(d, int) and d == 1 or same_dim(d, w) else w for d, w in zip(own, dims))


def stretched(x: Tensor, wide: tuple[Dim, ...]) -> Tensor:
    own = x._type.shape
    return x if all(d is w for d, w in zip(own, wide)) else bind.broadcast_to(x, shape=wide)


class CommonDims(Primitive[Any]):
    """Bound only for dims that nobody knows by now."""

    def bind(self, *inputs: Any, dims: tuple[Dim, ...]) -> Any:
        if state.batches and any(x.is_batched for x in inputs):
            return super().bind(*inputs, dims=dims)
        axes = [_distinct(column) for column in _columns([x._type.shape for x in inputs])]
        told = _dims(axes, dims)
        if all(_known(axis) is not None for axis in axes):
            return bind.broadcast_to(EagerTensor(np.array(False)), shape=(*told, 0))
        found = super().bind(*inputs, dims=told)
        for axis, dim in zip(axes, found._type.shape):
            if _known(axis) is None:
                state.trace.note_broadcast(axis, dim)
        return found


def _batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, dims: tuple[Dim, ...]) -> Tensor:
    lifted = [x if b else bind.reshape(x, shape=(1, *x._type.shape)) for x, b in zip(inputs, batched)]
    aligned = [
        bind.reshape(x, shape=(x._type.shape[0], *(1,) * (len(dims) + 1 - x.ndim), *x._type.shape[1:])) for x in lifted
    ]
    return bind.common_dims(*aligned, dims=(size, *dims))


@primitive(
    kind=CommonDims,
    tf_name="BroadcastArgs",
    type=lambda *types, dims: TensorType((*dims, 0), bool_dtype),
    numpy=lambda *arrays, dims: np.empty((*np.broadcast_shapes(*(a.shape for a in arrays)), 0), bool),
    batch=_batch,
    why_not={
        "lower": "its dims are bound by passes/lower/legalize.py",
        "vjp": "no floating results",
        "onnx": "a dim that a value tells is no dim of ONNX's",
    },
    samples=lambda: [Sample((draw(0, (3, 1)), draw(1, (2,))), {"dims": (3, 2)}, FLOATING, gradient=False)],
)
def common_dims(*inputs: Tensor, dims: tuple[Dim, ...]) -> Any:
    """A tensor without elements whose dims, but for the last, are what the inputs' broadcast to."""
    return inputs, {"dims": dims}


def _summed(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    axes = tuple(i for i, (a, b) in enumerate(zip(x.shape, shape)) if a != b)
    return np.sum(x, axes, dtype=x.dtype, keepdims=True)


@primitive(
    tf_name="Sum",
    type=lambda x, *, shape: TensorType(shape, x.dtype),
    numpy=_summed,
    lower=kernel("reduce.sum_to"),
    vjp=lambda ct, y, x, *, shape: bind.broadcast_to(ct, shape=x._type.shape),
    batch=lambda size, inputs, batched, *, shape: bind.sum_to(inputs[0], shape=(size, *shape)),
    why_not={"onnx": "which axes it sums is known when the program runs, and ONNX's sizes are equal"},
    samples=lambda: [
        Sample((draw(0, (2, 3)),), {"shape": shape}, FLOATING) for shape in ((2, 1), (1, 3), (2, 3), (1, 1))
    ],
)
def sum_to(x: Tensor, shape: tuple[Dim, ...]) -> Any:
    """The sum over the axes of which ``shape`` has one element where ``x`` may have more: what broadcasting is undone by."""
    return (x,), {"shape": shape}


hooks.broadcast_operands = met
