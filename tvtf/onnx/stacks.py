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
    """Emits a stack of zeros."""
    emitter = program.emitter
    _zeros(emitter, emitter.shape(types[0].shape), outputs, types[0].dtype)


def _emit_sized(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Emits a stack whose length the program computes; its symbolic dim is read from this buffer afterwards."""
    emitter = program.emitter
    shape = emitter.computed("Concat", [_reshaped(emitter, inputs[0], (1,)), emitter.shape(types[0].shape[1:])], axis=0)
    _zeros(emitter, shape, outputs, types[0].dtype)
    emitter.model.dims.learn(outputs[0], types[0].shape)


def _zeros(emitter: Emitter, shape: str, outputs: Sequence[str], dtype: DType) -> None:
    emitter.node("ConstantOfShape", [shape], outputs, value=helper.make_tensor("zero", ELEMENT[dtype], [1], [0]))


def _reshaped(emitter: Emitter, scalar: str, shape: tuple[int, ...]) -> str:
    """Returns an integer scalar as an int64 tensor of one element."""
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
    """Exports the addition of rows to a buffer at the given positions, several of which may be the same.

    A row with a negative position is dropped: zeros are added to the first row instead, as ScatterND can't leave rows out.
    """
    emitter, (buffer, positions, values) = program.emitter, inputs
    zero = emitter.const(np.array(0, np.int64))
    indices = emitter.cast(positions, as_dtype("int64"))
    is_dropped = emitter.computed("Less", [indices, zero])
    rank = len(types[0].shape)
    is_dropped_row = emitter.computed(
        "Reshape", [is_dropped, emitter.const(np.array([-1, *[1] * (rank - 1)], np.int64))]
    )
    added_rows = emitter.computed("Where", [is_dropped_row, emitter.const(np.zeros((), types[0].dtype.np)), values])
    scatter_indices = emitter.computed(
        "Unsqueeze", [emitter.computed("Max", [indices, zero]), emitter.const(np.array([-1], np.int64))]
    )
    emitter.node("ScatterND", [buffer, scatter_indices, added_rows], outputs, reduction="add")


def _scatter(emitter: Emitter, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
    """Writes one row of a stack."""
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
