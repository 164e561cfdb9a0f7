"""Primitives of the state of a trace."""

from __future__ import annotations

from typing import Any

from tvtf.dtypes import COMPILED
from tvtf.ops.rules import scalar
from tvtf.primitive import primitive
from tvtf.shape import TensorType


def _assign_type(old: TensorType, value: TensorType) -> TensorType:
    return value


@primitive(
    tf_name="AssignVariableOp",
    type=_assign_type,
    numpy=lambda old, value: value.copy(),
    lower=lambda old, value: scalar(lambda t, x: x)(value),
    vjp=lambda ct, y, old, value: (None, None),
    batch=lambda size, inputs, batched: inputs[1],
    onnx=lambda e, inputs, outputs, types: e.node("Identity", inputs[1:], outputs),
)
def assign(old: Any, value: Any) -> Any:
    """A Variable's new value at its place in the program: a copy, so that it never shares memory with another."""
    return (old, value), {}
