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


def _new(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Emits a stack of zeros."""
    e = program.emitter
    _zeros(e, e.shape(types[0].shape), outputs, types[0].dtype)


def _sized(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Emits a stack whose length the program computes; its symbolic dim is read from this buffer afterwards."""
    e = program.emitter
    shape = e.computed("Concat", [_reshaped(e, inputs[0], (1,)), e.shape(types[0].shape[1:])], axis=0)
    _zeros(e, shape, outputs, types[0].dtype)
    e.model.dims.learn(outputs[0], types[0].shape)


def _zeros(emitter: Emitter, shape: str, outputs: Sequence[str], dtype: DType) -> None:
    emitter.node("ConstantOfShape", [shape], outputs, value=helper.make_tensor("zero", ELEMENT[dtype], [1], [0]))


def _reshaped(emitter: Emitter, scalar: str, shape: tuple[int, ...]) -> str:
    """Returns an integer scalar as an int64 tensor of one element."""
    return emitter.computed(
        "Reshape", [emitter.cast(scalar, as_dtype("int64")), emitter.const(np.array(shape, np.int64))]
    )


def _read(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    program.emitter.node("Gather", inputs, outputs, axis=0)


def _write(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    _scatter(program.emitter, inputs, outputs)


def _add(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    _scatter(program.emitter, inputs, outputs, reduction="add")


def _add_rows(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Adds rows at places; rows with a negative place add zeros to the first row."""
    e, (buffer, places, values) = program.emitter, inputs
    zero = e.const(np.array(0, np.int64))
    indices = e.cast(places, as_dtype("int64"))
    # ScatterND can't leave rows out.
    dropped = e.computed("Less", [indices, zero])
    rank = len(types[0].shape)
    column = e.computed("Reshape", [dropped, e.const(np.array([-1, *[1] * (rank - 1)], np.int64))])
    masked = e.computed("Where", [column, e.const(np.zeros((), types[0].dtype.np)), values])
    at = e.computed("Unsqueeze", [e.computed("Max", [indices, zero]), e.const(np.array([-1], np.int64))])
    e.node("ScatterND", [buffer, at, masked], outputs, reduction="add")


def _scatter(emitter: Emitter, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
    """Writes one row of a stack."""
    buffer, index, value = inputs
    row = emitter.computed("Unsqueeze", [value, emitter.const(np.array([0], np.int64))])
    emitter.node("ScatterND", [buffer, _reshaped(emitter, index, (1, 1)), row], outputs, **attrs)


CONTROL.update(
    {
        "stack_new": _new,
        "stack_sized": _sized,
        "stack_read": _read,
        "stack_write": _write,
        "stack_add": _add,
        "stack_add_rows": _add_rows,
    }
)
