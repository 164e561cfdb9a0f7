"""Primitives for Variables and run-time checks in a trace: assign, reloaded, guard, write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf import dtypes, errors
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType
from tvtf.core.tensor import Tensor
from tvtf.core.text_format import filled
from tvtf.ops.rules import bind, draw, scalar, stretch

_KIND = "InvalidArgumentError"


def _assign_type(old: TensorType, value: TensorType, *memory: TensorType) -> TensorType:
    """Returns the type of the assigned value, which is the type of the Variable's value from this point."""
    return value


def _assign_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
    """Assigns the first item's value to all: a Variable has one value, and TensorFlow takes the first."""
    _, value, *_ = inputs
    return stretch(size, value[0] if batched[1] else value, False)


@primitive(
    tf_name="AssignVariableOp",
    type=_assign_type,
    numpy=lambda old, value, *memory: value.copy(),
    lower=lambda old, value, *memory: scalar(lambda t, x: x)(value),
    vjp=lambda cotangent, y, old, *others: (cotangent, *[None] * len(others)),
    batch=_assign_batch,
    onnx=lambda emitter, inputs, outputs, types: emitter.node("Identity", inputs[1:2], outputs),
    samples=lambda: [Sample((draw(0, (2, 3)), draw(1, (2, 3))), {}, dtypes.COMPILED, gradient=False)],
)
def assign(old: Any, value: Any, *memory: Any) -> Any:
    """Assigns to a Variable in a traced program, and returns the new value: a copy, which shares no memory.

    A read of the copy is a read of the Variable, which gets the gradient. ``value`` gets none, as in TensorFlow.

    Args:
      old: the Variable's value before the assignment.
      value: the value to assign.
      memory: in a branch or loop body, the Variable's parameter. The value is stored there if something fails later.
    """
    return (old, value, *memory), {}


@primitive(
    tf_name="ReadVariableOp",
    type=lambda old, value: value,
    numpy=lambda old, value: value.copy(),
    lower=lambda old, value: scalar(lambda t, x: x)(value),
    vjp=lambda cotangent, y, old, value: (cotangent, None),
    batch=lambda size, inputs, batched: bind.reloaded(
        *(stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched))
    ),
    onnx=lambda emitter, inputs, outputs, types: emitter.node("Identity", inputs[1:2], outputs),
    samples=lambda: [Sample((draw(0, (2, 3)), draw(1, (2, 3))), {}, dtypes.COMPILED, gradient=False)],
)
def reloaded(old: Any, value: Any) -> Any:
    """Returns a Variable's value after an assignment that isn't done here: by Python, or in an earlier run of the function.

    Args:
      old: the Variable's value before the assignment. It gets the gradient.
      value: the Variable's value after the assignment.
    """
    return (old, value), {}


def _guard_numpy(
    ok: np.ndarray, *operands: np.ndarray, message: str, shown: int = 0, summarize: int = 3, kind: str = _KIND
) -> np.ndarray:
    """Raises the error class ``kind`` of ``tf.errors`` with ``message`` if ``ok`` is false, in eager execution."""
    if not ok:
        raise getattr(errors, kind)(None, None, filled(message, summarize, operands[:shown]))
    return ok


def _guard_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Tensor:
    """Checks the conditions of all batch items together: the program fails if one is false."""
    ok, *operands = inputs
    all_ok = bind.reduce_all(ok, axis=(0,), keepdims=False) if batched[0] else ok
    return stretch(size, bind.guard(all_ok, *operands, **attrs), False)


@primitive(
    tf_name="Assert",
    batch=_guard_batch,
    type=lambda ok, *operands, **_: TensorType((), dtypes.bool),
    numpy=_guard_numpy,
    lower=None,
    vjp=None,
    onnx=lambda emitter, inputs, outputs, types, **_: emitter.node("Identity", inputs[:1], outputs),
    pure=False,
    why_not={
        "lower": "lowered to a branch and a failing kernel by passes/lower/legalize.py",
        "samples": "its effect is tested by tests/passes/test_guard.py",
    },
)
def guard(ok: Any, *operands: Any, message: str, shown: int = 0, summarize: int = 3, kind: str = _KIND) -> Any:
    """Adds a run-time check to the traced program, which fails with ``message`` if ``ok`` is false.

    Args:
      ok: bool scalar.
      message: the error's text, with placeholders.
      operands: first the tensors that fill the placeholders. Then come pairs (new value, Variable's parameter) of
        earlier assignments, which are done before the program fails.
      shown: the number of tensors that fill placeholders.
      summarize: the number of elements shown of each tensor.
      kind: the name of the error's class in ``tf.errors``.
    """
    return (ok, *operands), {"message": message, "shown": shown, "summarize": summarize, "kind": kind}


@primitive(
    tf_name="AssignVariableOp",
    type=lambda new, variable: new,
    numpy=lambda new, variable: new,
    lower=None,
    vjp=None,
    onnx=lambda emitter, inputs, outputs, types: emitter.node("Identity", inputs[:1], outputs),
    pure=False,
    why_not={
        "lower": "lowered to a kernel that writes into its operand by passes/lower/legalize.py",
        "vjp": "it is made after gradients are",
        "samples": "its effect is tested by tests/passes/test_guard.py",
    },
)
def write(new: Any, variable: Any) -> Any:
    """Writes ``new`` into the memory of a Variable's parameter, at this point of the program."""
    return (new, variable), {}
