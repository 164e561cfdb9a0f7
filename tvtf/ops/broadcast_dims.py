"""Broadcasting of symbolic dims, of which any may be 1 at run time.

Within a trace, an elementwise op gets operands whose symbolic dims are equal, and a matrix product equal batches:
operands that may differ are broadcast to common dims first, which costs nothing where they turn out to be equal (see
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
from tvtf.ops.dims import stretching_guard
from tvtf.ops.onnx_nodes import Names, NodeEmitter
from tvtf.ops.rules import bind, draw, kernel


def broadcast_operands(inputs: Sequence[Tensor], matrices: bool = False) -> Sequence[Tensor]:
    """Broadcasts the operands of an elementwise op, or with ``matrices`` of a matrix product, to common symbolic dims.

    Of matrices only the batch dims broadcast. Operands of unknown rank, and matrices of too few dims, are left unchanged.
    """
    matrix_rank = 2 if matrices else 0  # the last axes, which don't broadcast
    if any(isinstance(x._type.shape, AnyShape) or x.ndim < matrix_rank for x in inputs):
        return inputs
    batch_dims = [x._type.shape[: x.ndim - matrix_rank] for x in inputs]
    target_batches = common(batch_dims, () if matrices else inputs)
    if target_batches is None:
        return inputs
    results = []
    for x, target_dims in zip(inputs, target_batches):
        matrix_dims = x._type.shape[x.ndim - matrix_rank :]
        results.append(stretched(x, (*target_dims, *matrix_dims)))
    return results


def common(shapes: Sequence[Sequence[Dim]], tensors: Sequence[Tensor] = ()) -> list[tuple[Dim, ...]] | None:
    """Returns for each of ``shapes`` the shape to which a tensor must be broadcast before an elementwise op.

    Whether a symbolic dim is 1, and is broadcast, is known only at run time. So a dim that tracing can't infer becomes
    a new symbolic dim, which is bound at run time.

    Args:
      shapes: the shapes of the op's operands.
      tensors: the operands, if there are tensors of these shapes.

    Returns:
      the shapes, or None if no symbolic dim has to change.
    """
    dims_by_axis = dims_to_broadcast(shapes)
    if all(len(dims) < 2 for dims in dims_by_axis):
        return None
    for dims in dims_by_axis:
        static_dims = [dim for dim in dims if isinstance(dim, int)]
        if len(static_dims) > 1:  # they don't broadcast, and the op itself raises the error
            return None
    symbols = []  # a new dim for each axis along which dims differ
    for dims in dims_by_axis:
        symbols.append(fresh_dim(state.trace.root.unique("common")) if len(dims) > 1 else None)
    result = _result_dims(dims_by_axis, symbols)
    if any(_known(dims) is None for dims in dims_by_axis):
        tensors = tensors or [bind.stack_new(shape=tuple(shape), dtype=bool_dtype) for shape in shapes]
        result = bind.common_dims(*tensors, dims=result)._type.shape[:-1]
    return [_broadcast_target(shape, result[len(result) - len(shape) :]) for shape in shapes]


def broadcast_dims(*shapes: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """Returns the shape that shapes broadcast to, or None if they don't broadcast.

    The symbols in the shape are bound at run time.
    """
    result: tuple[Dim, ...] = ()
    for shape in common(shapes) or shapes:
        combined = broadcast_shapes(result, shape)
        if combined is None:
            return None
        result = combined
    return result


def dims_to_broadcast(shapes: Sequence[Any]) -> list[list[Dim]]:
    """Returns for each axis of the broadcast result the operands' distinct dims other than 1."""
    return [_distinct(dims) for dims in _dims_by_axis(shapes)]


def _dims_by_axis(shapes: Sequence[Any]) -> list[list[Dim]]:
    """Returns for each axis of the broadcast result the operands' dims there; shapes are aligned from the right."""
    rank = max(map(len, shapes))
    return [[shape[axis - rank + len(shape)] for shape in shapes if axis >= rank - len(shape)] for axis in range(rank)]


def _distinct(dims: Sequence[Dim]) -> list[Dim]:
    """Returns the dims that aren't the number 1, without repetitions."""
    distinct: list[Dim] = []
    for dim in dims:
        if not (isinstance(dim, int) and dim == 1) and not any(same_dim(dim, other) for other in distinct):
            distinct.append(dim)
    return distinct


def _known(distinct: Sequence[Dim]) -> Dim | None:
    """Returns the dim to which the distinct dims of an axis broadcast, or None if it is known only at run time.

    ``distinct`` has no ones.
    """
    if not distinct:
        return 1
    if len(distinct) == 1:
        return distinct[0]
    static_dims = [dim for dim in distinct if isinstance(dim, int)]
    if static_dims:  # symbolic dims together with a number must be that number, or 1
        return static_dims[0] if len(static_dims) == 1 else None
    return None if state.trace is None else state.trace.common_dim(distinct)


def _result_dims(axes: Sequence[Sequence[Dim]], symbols: Sequence[Dim | None]) -> tuple[Dim, ...]:
    """Returns the dim that each axis broadcasts to, and its symbol for one that is known only at run time."""
    known_dims = map(_known, axes)
    return tuple(symbol if known is None else known for known, symbol in zip(known_dims, symbols))


def _broadcast_target(shape: Sequence[Dim], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns ``dims``, except where ``shape`` has the number 1, which elementwise ops broadcast, or an equal dim."""
    return tuple(
        dim if isinstance(dim, int) and dim == 1 or same_dim(dim, target) else target
        for dim, target in zip(shape, dims)
    )


def stretched(x: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    """Broadcasts ``x`` to ``shape`` unless it has that shape."""
    own = x._type.shape
    return x if all(other is target for other, target in zip(own, shape)) else bind.broadcast_to(x, shape=shape)


class CommonDims(Primitive[Any]):
    """The primitive ``common_dims``, which is bound only for dims that the trace doesn't know yet."""

    def bind(self, *inputs: Any, dims: tuple[Dim, ...]) -> Any:
        """Binds the primitive in the active trace, or returns a constant if all sizes are known while tracing.

        The result is an empty tensor. Only its type matters, which has the dims.
        """
        if state.batches and any(x.is_batched for x in inputs):
            return super().bind(*inputs, dims=dims)
        axes = dims_to_broadcast([x._type.shape for x in inputs])
        result_dims = _result_dims(axes, dims)
        if all(_known(axis) is not None for axis in axes):
            return bind.broadcast_to(EagerTensor(np.array(False)), shape=(*result_dims, 0))
        result = super().bind(*inputs, dims=result_dims)
        for axis, dim in zip(axes, result._type.shape):
            if _known(axis) is None:
                state.trace.note_broadcast(axis, dim)  # so that the same dims get the same symbol later
        return result


def _batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, dims: tuple[Dim, ...]) -> Tensor:
    """Maps ``common_dims`` over a leading batch axis of ``size`` items (the batch rule for ``vectorized_map``).

    Every operand gets the batch axis, and axes of size 1 after it until all operands have the same rank.
    """
    operands = []
    for x, is_batched in zip(inputs, batched):
        if not is_batched:
            x = bind.reshape(x, shape=(1, *x._type.shape))
        batch_size, *item_shape = x._type.shape
        new_axes = (1,) * (len(dims) - len(item_shape))
        operands.append(bind.reshape(x, shape=(batch_size, *new_axes, *item_shape)))
    return bind.common_dims(*operands, dims=(size, *dims))


@primitive(
    kind=CommonDims,
    tf_name="BroadcastArgs",
    type=lambda *types, dims: TensorType((*dims, 0), bool_dtype),
    numpy=lambda *arrays, dims: np.empty((*np.broadcast_shapes(*(array.shape for array in arrays)), 0), bool),
    batch=_batch,
    why_not={
        "lower": "its dims are bound by passes/lower/legalize.py",
        "vjp": "no floating results",
        "onnx": "tvtf/onnx/broadcasts.py emits it",
    },
    samples=lambda: [Sample((draw(0, (3, 1)), draw(1, (2,))), {"dims": (3, 2)}, FLOATING, gradient=False)],
)
def common_dims(*inputs: Tensor, dims: tuple[Dim, ...]) -> Any:
    """Returns an empty tensor whose shape is that of the inputs broadcast, then 0: its type carries the dims."""
    return inputs, {"dims": dims}


def _summed(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    axes = tuple(i for i, (dim, target) in enumerate(zip(x.shape, shape)) if dim != target)
    return np.sum(x, axes, dtype=x.dtype, keepdims=True)


def _sum_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, shape: tuple[Dim, ...]) -> None:
    """Emits a sum over the axes along which the shape of the input differs from ``shape``."""
    has_equal_size = emitter.computed("Equal", [emitter.computed("Shape", inputs), emitter.shape(shape)])
    summed_axes = emitter.computed("NonZero", [emitter.computed("Not", [has_equal_size])])
    axes = emitter.computed("Reshape", [summed_axes, emitter.const(np.array([-1], np.int64))])
    emitter.node("ReduceSum", [*inputs, axes], outputs, keepdims=1, noop_with_empty_axes=1)


@primitive(
    tf_name="Sum",
    type=lambda x, *, shape: TensorType(shape, x.dtype),
    numpy=_summed,
    lower=kernel("reduce.sum_to"),
    guard=lambda x, *, shape: stretching_guard(shape, x._type.shape),
    vjp=lambda cotangent, y, x, *, shape: bind.broadcast_to(cotangent, shape=x._type.shape),
    batch=lambda size, inputs, batched, *, shape: bind.sum_to(inputs[0], shape=(size, *shape)),
    onnx=lambda emitter, inputs, outputs, types, *, shape: _sum_nodes(emitter, inputs, outputs, shape),
    samples=lambda: [
        Sample((draw(0, (2, 3)),), {"shape": shape}, FLOATING) for shape in ((2, 1), (1, 3), (2, 3), (1, 1))
    ],
)
def sum_to(x: Tensor, shape: tuple[Dim, ...]) -> Any:
    """Sums over the axes in which ``shape`` is 1 and ``x`` may not be: the gradient of broadcasting."""
    return (x,), {"shape": shape}


hooks.broadcast_operands = broadcast_operands
