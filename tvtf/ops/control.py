"""Control flow as primitives: ``cond`` and ``while``. Their branches and bodies are functions of the module.

A function attribute is a :class:`tvtf.emit.Graph` where a program is traced, a
:class:`tvtf.interpret.Subfunction` where a module is evaluated, and a Relax ``GlobalVar`` in the IR; whatever it uses
comes in as arguments. Functions with effects are bound to ``effect_cond`` and ``effect_while``, which no pass drops
or moves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.context import state
from tvtf.ops.rules import bind, draw, scalar, stretch
from tvtf.primitive import Sample, primitive
from tvtf.refusal import Refused
from tvtf.shape import Dim, TensorType, same_shape, show_shape, substitute_dim
from tvtf.tensor import EagerTensor, Tensor

LOWERING = "passes/legalize.py makes it Relax's own If or tvtf's loop, not a kernel"
PROGRAMS = "its functions are parts of a program: tests/frontend/test_control.py"
EXPORT = "a subgraph is no list of nodes; the exporter writes If and Loop by itself"


def signature(function: Any) -> tuple[list[TensorType], list[TensorType]]:
    """Types of a function attribute's parameters and results."""
    if hasattr(function, "all_params"):
        return [p._type for p in function.all_params], list(function.output_types)
    from tvtf.dialect import from_relax_type

    if hasattr(function, "mod"):
        function = function.mod[function.name]
    return list(map(from_relax_type, function.ty.params)), list(map(from_relax_type, function.ty.ret.fields))


def result_types(function: Any, arguments: Sequence[TensorType]) -> tuple[TensorType, ...]:
    """Types of a function's results for arguments of the given types."""
    params, results = signature(function)
    dims: dict[Any, Any] = {}
    for param, argument in zip(params, arguments):
        dims |= {s: d for s, d in zip(param.shape, argument.shape) if not isinstance(s, int)}
    return tuple(TensorType(tuple(substitute_dim(d, dims) for d in r.shape), r.dtype) for r in results)


def call(function: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """A function attribute applied to tensors: evaluated, or inlined into the active trace."""
    if not hasattr(function, "all_params"):
        return function(*inputs)
    from tvtf.interpret import evaluate

    return evaluate(function.module(), "main", inputs)


def call_numpy(function: Any, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """A function attribute applied to arrays, unseen by tapes."""
    tapes, state.tapes = state.tapes, []
    try:
        return tuple(t.eager_array() for t in call(function, [EagerTensor(a) for a in arrays]))
    finally:
        state.tapes = tapes


def _late(name: str) -> Callable[..., Any]:
    """A rule of ``tvtf.frontend.loops``, imported when first used: it traces functions, which the core does not."""
    return lambda *args, **attrs: getattr(importlib.import_module("tvtf.frontend.loops"), name)(*args, **attrs)


def require_condition(pred: TensorType, what: str) -> None:
    """Refuses anything but a scalar boolean."""
    if not pred.dtype.is_bool or pred.shape:
        raise Refused(
            f"{what} must be a scalar of dtype bool, but has shape {show_shape(pred.shape)} and dtype "
            f"{pred.dtype.name}; "
            "reduce it with tf.reduce_all or tf.reduce_any",
            TypeError,
        )


def _cond_type(pred: TensorType, *captured: TensorType, then_branch: Any, else_branch: Any) -> tuple[TensorType, ...]:
    require_condition(pred, "pred")
    types = result_types(then_branch, captured)
    for i, (mine, other) in enumerate(zip(types, result_types(else_branch, captured), strict=True)):
        if mine.dtype is not other.dtype or not same_shape(mine.shape, other.shape):
            raise Refused(
                f"output {i} has shape {show_shape(mine.shape)} and dtype {mine.dtype.name} in the true branch, but "
                "shape "
                f"{show_shape(other.shape)} and dtype {other.dtype.name} in the false branch; both must give the same"
            )
    return types


def _cond_numpy(pred: np.ndarray, *captured: np.ndarray, then_branch: Any, else_branch: Any) -> tuple[np.ndarray, ...]:
    return call_numpy(then_branch if pred else else_branch, captured)


def _while_type(*inputs: TensorType, condition: Any, body: Any, carried: int, bound: Any) -> tuple[TensorType, ...]:
    (tested,) = result_types(condition, inputs)
    require_condition(tested, "the loop's condition")
    types = inputs[:carried]
    for i, (entry, left) in enumerate(zip(types, result_types(body, inputs), strict=True)):
        if entry.dtype is not left.dtype or not same_shape(entry.shape, left.shape):
            raise Refused(
                f"loop variable {i} enters with shape {show_shape(entry.shape)} and dtype {entry.dtype.name}, but "
                "has shape "
                f"{show_shape(left.shape)} and dtype {left.dtype.name} after one iteration; both must be the same"
            )
    return types


def _while_numpy(*inputs: np.ndarray, condition: Any, body: Any, carried: int, bound: Any) -> tuple[np.ndarray, ...]:
    values, invariants = inputs[:carried], inputs[carried:]
    while call_numpy(condition, [*values, *invariants])[0]:
        values = call_numpy(body, [*values, *invariants])
    return tuple(values)


_COND: dict[str, Any] = {
    "tf_name": "If",
    "type": _cond_type,
    "numpy": _cond_numpy,
    "vjp": _late("cond_vjp"),
    "why_not": {"lower": LOWERING, "onnx": EXPORT, "samples": PROGRAMS},
}

_WHILE: dict[str, Any] = {
    "tf_name": "While",
    "type": _while_type,
    "numpy": _while_numpy,
    "vjp": _late("while_vjp"),
    "why_not": {"lower": LOWERING, "onnx": EXPORT, "samples": PROGRAMS},
}


@primitive(**_COND)
def cond(pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any) -> Any:
    """The results of one of two functions of ``captured``, as a tuple; only that one runs."""
    return (pred, *captured), {"then_branch": then_branch, "else_branch": else_branch}


@primitive(name="effect_cond", pure=False, **_COND)
def effect_cond(pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any) -> Any:
    """As ``cond``, where a branch has effects."""
    return (pred, *captured), {"then_branch": then_branch, "else_branch": else_branch}


@primitive(name="while", **_WHILE)
def while_(*inputs: Tensor, condition: Any, body: Any, carried: int, bound: Any = None) -> Any:
    """``body`` applied to the first ``carried`` inputs while ``condition`` holds; both also get the other inputs.

    ``bound`` is the greatest number of iterations, where that is known.
    """
    return inputs, {"condition": condition, "body": body, "carried": carried, "bound": bound}


@primitive(name="effect_while", pure=False, **_WHILE)
def effect_while(*inputs: Tensor, condition: Any, body: Any, carried: int, bound: Any = None) -> Any:
    """As ``while``, where the condition or body has effects."""
    return inputs, {"condition": condition, "body": body, "carried": carried, "bound": bound}


def _initialized_numpy(x: np.ndarray, ran: np.ndarray, *, message: str) -> np.ndarray:
    if not ran:
        raise Refused(message)
    return x


def _initialized_batch(size: Dim, inputs: Any, batched: Any, *, message: str) -> Tensor:
    """All rows ask at once."""
    ran = bind.reduce_all(inputs[1], axis=(0,), keepdims=False) if batched[1] else inputs[1]
    return bind.initialized(stretch(size, inputs[0], batched[0]), ran, message=message)


@primitive(
    type=lambda x, ran, *, message: x,
    numpy=_initialized_numpy,
    lower=lambda x, ran, *, message: scalar(lambda t, value: value)(x),
    vjp=lambda ct, y, x, ran, *, message: (ct, None),
    batch=_initialized_batch,
    guard=lambda x, ran, *, message: [(ran, message)],
    onnx=lambda e, inputs, outputs, types, *, message: e.node("Identity", inputs[:1], outputs),
    samples=lambda: [
        Sample((draw(0, (2, 3)), np.bool_(True)), {"message": "the loop must run"}, dtypes.COMPILED),
        Sample((draw(0, (3,)), np.bool_(True)), {"message": ""}, dtypes.COMPILED, symbolic=(("n",), ())),
    ],
)
def initialized(x: Tensor, ran: Tensor, message: str) -> Any:
    """``x``, which means something only where the loop that gives it ``ran``."""
    return (x, ran), {"message": message}
