"""Primitives of the state of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.ops.rules import draw, scalar, stretch
from tvtf.primitive import Sample, primitive
from tvtf.refusal import Refused
from tvtf.shape import TensorType


def _assign_type(old: TensorType, value: TensorType) -> TensorType:
    return value


@primitive(
    tf_name="AssignVariableOp",
    type=_assign_type,
    numpy=lambda old, value: value.copy(),
    lower=lambda old, value: scalar(lambda t, x: x)(value),
    vjp=lambda ct, y, old, value: (None, None),
    batch=lambda size, inputs, batched: stretch(size, inputs[1], batched[1]),
    onnx=lambda e, inputs, outputs, types: e.node("Identity", inputs[1:], outputs),
    samples=lambda: [Sample((draw(0, (2, 3)), draw(1, (2, 3))), {}, dtypes.COMPILED, gradient=False)],
)
def assign(old: Any, value: Any) -> Any:
    """A Variable's new value at its place in the program: a copy, so that it never shares memory with another."""
    return (old, value), {}


def _guard_numpy(ok: np.ndarray, *pending: np.ndarray, message: str) -> np.ndarray:
    if not ok:
        raise Refused(message)
    return ok


@primitive(
    tf_name="Assert",
    type=lambda ok, *pending, message: TensorType((), dtypes.bool),
    numpy=_guard_numpy,
    lower=None,
    vjp=None,
    onnx=lambda e, inputs, outputs, types, *, message: e.node("Identity", inputs[:1], outputs),
    pure=False,
    why_not={
        "lower": "lowered to a branch and a failing kernel by passes/legalize.py",
        "samples": "its effect is tested by tests/passes/test_guard.py",
    },
)
def guard(ok: Any, *pending: Any, message: str) -> Any:
    """Fails with ``message`` where ``ok`` is false.

    Args:
      ok: bool scalar.
      pending: pairs (new value, Variable's parameter) of assignments before this point: they are done before it fails.
    """
    return (ok, *pending), {"message": message}
