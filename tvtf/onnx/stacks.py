"""Exports the stacks of residuals that loops store for their gradients, as tensors that ScatterND writes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from tvtf.core.shape import TensorType
from tvtf.dtypes import DType, as_dtype
from tvtf.ir.dialect import Bound
from tvtf.onnx.emitter import Emitter
from tvtf.onnx.program import CONTROL, Program
from tvtf.onnx.standard import ELEMENT


def _emit_zeros(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Exports ``stack_new``: emits a buffer of zeros, in which a loop stores a value of each iteration."""
    emitter, (stack_type,) = program.emitter, types
    _zeros(emitter, emitter.shape(stack_type.shape), outputs, stack_type.dtype)


def _emit_sized(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Exports ``stack_sized``: emits a buffer of zeros for as many rows as the input, an integer scalar, says.

    The number of rows is a symbolic dim. Later nodes read this dim from the buffer's shape.
    """
    emitter = program.emitter
    (row_count,) = inputs
    (stack_type,) = types
    row_count_vector = _reshaped(emitter, row_count, (1,))
    row_shape = emitter.shape(stack_type.shape[1:])
    shape = emitter.computed("Concat", [row_count_vector, row_shape], axis=0)
    _zeros(emitter, shape, outputs, stack_type.dtype)
    emitter.model.dims.record(outputs[0], stack_type.shape)


def _zeros(emitter: Emitter, shape: str, outputs: Sequence[str], dtype: DType) -> None:
    """Emits a tensor of zeros. ``shape`` is the name of a vector with the tensor's shape."""
    emitter.node("ConstantOfShape", [shape], outputs, value=helper.make_tensor("zero", ELEMENT[dtype], [1], [0]))


def _reshaped(emitter: Emitter, scalar: str, shape: tuple[int, ...]) -> str:
    """Emits the conversion of an integer scalar to an int64 tensor of one element and the given shape."""
    return emitter.computed(
        "Reshape", [emitter.cast(scalar, as_dtype("int64")), emitter.const(np.array(shape, np.int64))]
    )


def _emit_read(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    program.emitter.node("Gather", inputs, outputs, axis=0)


def _emit_write(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    _scatter(program.emitter, inputs, outputs)


def _emit_add(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    _scatter(program.emitter, inputs, outputs, reduction="add")


def _emit_add_rows(
    program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]
) -> None:
    """Exports ``stack_add_rows``, which adds rows to a buffer at given positions. Positions may repeat.

    A row with a negative position is dropped. ScatterND can't leave rows out, so zeros are added to the first row
    instead.
    """
    emitter = program.emitter
    buffer, positions, values = inputs
    (buffer_type,) = types
    zero = emitter.const(np.array(0, np.int64))
    indices = emitter.cast(positions, as_dtype("int64"))
    is_dropped = emitter.computed("Less", [indices, zero])
    rank = len(buffer_type.shape)
    # The mask of shape (rows, 1, ...) broadcasts to the rows.
    mask_shape = emitter.const(np.array([-1, *[1] * (rank - 1)], np.int64))
    is_dropped_row = emitter.computed("Reshape", [is_dropped, mask_shape])
    zero_element = emitter.const(np.zeros((), buffer_type.dtype.np))
    added_rows = emitter.computed("Where", [is_dropped_row, zero_element, values])
    nonnegative_indices = emitter.computed("Max", [indices, zero])
    last_axis = emitter.const(np.array([-1], np.int64))
    scatter_indices = emitter.computed("Unsqueeze", [nonnegative_indices, last_axis])
    emitter.node("ScatterND", [buffer, scatter_indices, added_rows], outputs, reduction="add")


def _scatter(emitter: Emitter, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
    """Emits the write of one row of a buffer; ``inputs`` are the names of the buffer, the row's index and its value.

    ``attrs`` may contain ScatterND's attribute ``reduction``: "add" adds the value to the row.
    """
    buffer, index, value = inputs
    row = emitter.computed("Unsqueeze", [value, emitter.const(np.array([0], np.int64))])
    emitter.node("ScatterND", [buffer, _reshaped(emitter, index, (1, 1)), row], outputs, **attrs)


CONTROL.update(
    {
        "stack_new": _emit_zeros,
        "stack_sized": _emit_sized,
        "stack_read": _emit_read,
        "stack_write": _emit_write,
        "stack_add": _emit_add,
        "stack_add_rows": _emit_add_rows,
    }
)
