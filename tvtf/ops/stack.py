"""Stacks: buffers that hold one value for each iteration of a loop, written in place.

``stack_write`` and ``stack_add`` return the buffer as a new value; compiled code updates the old one's memory where the
loop owns it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, fresh_dim, same_shape, show_shape
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import DType
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, draw, kernel, number, stretch, zeros_like
from tvtf.ops.scatter import gathered

INSIDE = (
    "loops count within their stacks, and arrays check their indices (frontend/control_flow/tensor_array_traced.py)"
)
EXPORT = "loops are exported as a whole"


def _require_index(index: TensorType) -> None:
    """Checks that an index is an integer scalar."""
    if index.shape or not index.dtype.is_integer:
        raise ArgumentError(
            f"index must be an integer scalar, but has shape {show_shape(index.shape)}, dtype {index.dtype.name}"
        )


def _read_type(buffer: TensorType, index: TensorType) -> TensorType:
    """Returns the type of stack_read's result, one row of ``buffer``, after checking buffer and index."""
    _require_index(index)
    if not buffer.shape:
        raise ArgumentError("Cannot iterate over a scalar tensor.", TypeError)
    return TensorType(buffer.shape[1:], buffer.dtype)


def _write_type(buffer: TensorType, index: TensorType, value: TensorType) -> TensorType:
    """Checks the operands of stack_write, and returns the type of the result: the type of ``buffer``.

    The index must be an integer. The value must have the type of one row of ``buffer``.
    """
    _require_index(index)
    row_shape = buffer.shape[1:]
    if buffer.dtype is not value.dtype or not same_shape(row_shape, value.shape):
        raise ArgumentError(
            f"a stack of {show_shape(row_shape)} {buffer.dtype.name} can't take a value of shape "
            f"{show_shape(value.shape)} and dtype {value.dtype.name}"
        )
    return buffer


def _written(buffer: np.ndarray, index: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns a copy of ``buffer`` with the row at ``index`` replaced."""
    copy = buffer.copy()
    copy[int(index)] = value
    return copy


def _added(buffer: np.ndarray, index: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns a copy of ``buffer`` with ``value`` added to the row at ``index``."""
    copy = buffer.copy()
    copy[int(index)] += value
    return copy


def _write_samples(domain: tuple[DType, ...], gradient: Any) -> list[Sample]:
    """Returns test samples of a write, for a matrix and a vector; an overwritten row depends on ``value`` only."""
    matrix = Sample((draw(0, (4, 2)), np.int32(1), draw(1, (2,))), {}, domain, gradient, (("n", "k"), (), ("k",)))
    return [matrix, Sample((draw(0, (3,)), np.int64(2), draw(1, ())), {}, domain, gradient)]


def new_stack(length: Dim, of: TensorType) -> Tensor:
    """Returns a buffer of zeros for ``length`` values of the type ``of``.

    A loop that writes it starts with its own copy.
    """
    return bind.stack_new(shape=(length, *of.shape), dtype=of.dtype)


@primitive(
    type=lambda *, shape, dtype: TensorType(tuple(shape), dtype),
    numpy=lambda *, shape, dtype: np.zeros(shape, dtype.np),
    lower=kernel("stack.new"),
    batch=lambda size, inputs, batched, **attrs: bind.stack_new(**attrs),
    why_not={"vjp": "no inputs", "onnx": EXPORT},
    samples=lambda: [Sample((), {"shape": (3, 2), "dtype": d}) for d in (dtypes.float32, dtypes.int64, dtypes.bool)],
)
def stack_new(shape: tuple[Dim, ...], dtype: DType) -> Any:
    """Returns zeros."""
    return (), {"shape": shape, "dtype": dtype}


def stack_of(count: Tensor, of: TensorType) -> Tensor:
    """Returns a buffer of zeros for as many values of a type as the integer scalar ``count`` is at run time."""
    if isinstance(count, EagerTensor):
        return new_stack(int(count), of)
    return bind.stack_sized(count, shape=of.shape, dtype=of.dtype, size=fresh_dim(state.trace.root.unique("count")))


@primitive(
    type=lambda count, *, shape, dtype, size: TensorType((size, *shape), dtype),
    numpy=lambda count, *, shape, dtype, size: np.zeros((int(count), *shape), dtype.np),
    batch=lambda rows, inputs, batched, **attrs: stretch(
        rows, bind.stack_sized(bind.reduce_max(inputs[0], axis=(0,), keepdims=False), **attrs), False
    ),
    why_not={"lower": "its length is bound by passes/lower/legalize.py", "vjp": "no floating inputs", "onnx": EXPORT},
    samples=lambda: [Sample((np.int32(3),), {"shape": (2,), "dtype": dtypes.float32, "size": 3})],
)
def stack_sized(count: Tensor, shape: tuple[Dim, ...], dtype: DType, size: Dim) -> Any:
    """Returns zeros of shape ``(size, *shape)``, where the dim ``size`` is bound to ``count``."""
    return (count,), {"shape": shape, "dtype": dtype, "size": size}


def _write_vjp(cotangent: Tensor, y: Tensor, buffer: Tensor, index: Tensor, value: Tensor) -> tuple[Any, None, Any]:
    """Returns the cotangents of a write: the value gets that of its row, the buffer zeros there."""
    row_cotangent = bind.stack_read(cotangent, index)
    return bind.stack_write(cotangent, index, zeros_like(row_cotangent)), None, row_cotangent


def _read_vjp(cotangent: Tensor, y: Tensor, buffer: Tensor, index: Tensor) -> tuple[Any, None]:
    """Returns the cotangent of the buffer: zeros with ``cotangent`` in the row that was read; the index has none."""
    row_type = TensorType(buffer._type.shape[1:], cotangent.dtype)
    return bind.stack_add(new_stack(buffer._type.shape[0], row_type), index, cotangent), None


def _read_batch(size: Dim, inputs: Any, batched: Any) -> Tensor:
    """Maps ``stack_read``, which reads one row of a buffer, over a leading batch axis.

    If each item has its own index, the rows are gathered. A shared index reads one row of the transposed buffer, whose
    first axis is the rows.
    """
    # ``size`` isn't needed here, but all batch rules receive it
    buffer, index = inputs
    buffer_batched, index_batched = batched
    if index_batched:
        batch_rank = 1 if buffer_batched else 0
        return bind.gather(buffer, index, axis=batch_rank, batch_dims=batch_rank)
    rows_before_items = bind.transpose(buffer, perm=(1, 0, *range(2, buffer.ndim)))
    return bind.stack_read(rows_before_items, index)


@primitive(
    type=_read_type,
    numpy=lambda buffer, index: buffer[int(index)],
    lower=kernel("stack.read"),
    vjp=_read_vjp,
    batch=_read_batch,
    why_not={"onnx": EXPORT, "guard": INSIDE},
    samples=lambda: [
        Sample((draw(0, (4, 2)), np.int32(1)), {}, dtypes.COMPILED, symbolic=(("n", "k"), ())),
        Sample((draw(0, (3,)), np.int64(2)), {}, dtypes.COMPILED),
    ],
)
def stack_read(buffer: Tensor, index: Tensor) -> Any:
    """Returns ``buffer[index]``; the index is not checked."""
    return (buffer, index), {}


def _masked_batch_rule(update: Any) -> Any:
    """Returns the batch rule of an op that writes one row of a buffer.

    The items of a batch write different rows. ``update(mask, buffer, value)`` writes all of them: the mask of each item
    is true at the item's index.
    """

    def rule(size: Dim, inputs: Any, batched: Any) -> Tensor:
        """Updates one row of each item's buffer. The buffers of all items are one tensor, with the items first."""
        buffer, index, value = (stretch(size, each, is_batched) for each, is_batched in zip(inputs, batched))
        _, count, *row_dims = buffer._type.shape
        row_numbers = bind.range(size=count, start=0, delta=1, dtype=index.dtype)
        mask = bind.equal(bind.reshape(index, shape=(size, 1)), row_numbers)
        # The mask is broadcast over a row, and the value over all rows.
        mask = bind.reshape(mask, shape=(size, count, *(1,) * len(row_dims)))
        row_value = bind.reshape(value, shape=(size, 1, *value._type.shape[1:]))
        return update(mask, buffer, row_value)

    return rule


@primitive(
    type=_write_type,
    numpy=_written,
    lower=kernel("stack.write"),
    vjp=_write_vjp,
    batch=_masked_batch_rule(lambda here, buffer, new: bind.select(here, new, buffer)),
    why_not={"onnx": EXPORT, "guard": INSIDE},
    samples=lambda: _write_samples(dtypes.COMPILED, gradient=(0, 2)),
)
def stack_write(buffer: Tensor, index: Tensor, value: Tensor) -> Any:
    """Returns ``buffer`` with ``value`` at ``index``."""
    return (buffer, index, value), {}


@primitive(
    type=_write_type,
    numpy=_added,
    lower=kernel("stack.add"),
    vjp=lambda cotangent, y, buffer, index, value: (cotangent, None, bind.stack_read(cotangent, index)),
    batch=_masked_batch_rule(lambda here, buffer, new: bind.add(buffer, bind.select(here, new, zeros_like(new)))),
    why_not={"onnx": EXPORT, "guard": INSIDE},
    samples=lambda: _write_samples(dtypes.FLOATING, gradient=True),
)
def stack_add(buffer: Tensor, index: Tensor, value: Tensor) -> Any:
    """Returns ``buffer`` with ``value`` added at ``index``."""
    return (buffer, index, value), {}


def _rows_type(buffer: TensorType, places: TensorType, values: TensorType) -> TensorType:
    """Checks the operands of stack_add_rows, and returns the type of the result: the type of ``buffer``.

    ``places`` has for each row of ``values`` an integer, the index of the row in ``buffer`` to which it is added. Rows
    of both must have the same type.
    """
    count, row_shape, buffer_row_shape = values.shape[:1], values.shape[1:], buffer.shape[1:]
    if len(places.shape) != 1 or not places.dtype.is_integer or not same_shape(places.shape, count):
        raise ArgumentError(
            f"places must be an integer for each of {show_shape(count)} rows, but are {show_shape(places.shape)}"
        )
    if buffer.dtype is not values.dtype or not same_shape(buffer_row_shape, row_shape):
        raise ArgumentError(f"rows of shape {show_shape(buffer_row_shape)} can't take {show_shape(row_shape)}")
    return buffer


def _rows_added(buffer: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns a copy of ``buffer`` with each row of ``values`` added at its index; negative indices are skipped."""
    copy = buffer.copy()
    is_valid = places >= 0
    np.add.at(copy, places[is_valid], values[is_valid])
    return copy


def _rows_vjp(cotangent: Tensor, y: Tensor, buffer: Tensor, places: Tensor, values: Tensor) -> tuple[Any, None, Any]:
    """Returns the cotangents: the buffer's is ``cotangent``, each value's the row of ``cotangent`` at its index."""
    return cotangent, None, gathered(cotangent, places)


def _rows_batch(size: Dim, inputs: Any, batched: Any) -> Tensor:
    """Maps ``stack_add_rows`` over a leading batch axis of ``size`` items.

    The buffers of all items are merged to one buffer. The indices of each item are moved to its part of that buffer.
    """
    buffer, places, values = (stretch(size, each, is_batched) for each, is_batched in zip(inputs, batched))
    _, buffer_rows, *row_dims = buffer._type.shape
    _, added_rows = places._type.shape
    item_numbers = bind.range(size=size, start=0, delta=1, dtype=places.dtype)
    first_rows = bind.multiply(item_numbers, bind.cast(scalar_of(buffer_rows), dtype=places.dtype))
    moved_places = bind.add(places, bind.reshape(first_rows, shape=(size, 1)))
    # Negative indices, which are skipped, must stay negative.
    moved_places = bind.select(bind.less(places, number(0, places)), places, moved_places)
    merged_buffer = bind.reshape(buffer, shape=(size * buffer_rows, *row_dims))
    merged_places = bind.reshape(moved_places, shape=(size * added_rows,))
    merged_values = bind.reshape(values, shape=(size * added_rows, *values._type.shape[2:]))
    result = bind.stack_add_rows(merged_buffer, merged_places, merged_values)
    return bind.reshape(result, shape=buffer._type.shape)


@primitive(
    type=_rows_type,
    numpy=_rows_added,
    lower=kernel("stack.add_rows"),
    vjp=_rows_vjp,
    batch=_rows_batch,
    why_not={"onnx": EXPORT, "guard": INSIDE},
    samples=lambda: [
        Sample((draw(0, (4, 2)), np.array([2, -1, 2]), draw(1, (3, 2))), {}, dtypes.FLOATING),
        Sample(
            (draw(0, (3,)), np.array([1], np.int32), draw(1, (1,))),
            {},
            dtypes.FLOATING,
            True,
            (("n",), (None,), (None,)),
        ),
    ],
)
def stack_add_rows(buffer: Tensor, places: Tensor, values: Tensor) -> Any:
    """Returns ``buffer`` with each of ``values`` added to the row at its index; negative indices are skipped."""
    return (buffer, places, values), {}
