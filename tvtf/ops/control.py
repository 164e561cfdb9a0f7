"""Control flow as primitives: ``cond`` and ``while``. Their branches and bodies are functions of the module.

A function attribute is a :class:`tvtf.ir.trace.Graph` where a program is traced, a
:class:`tvtf.ir.interpreter.Subfunction` where a module is evaluated, and a Relax ``GlobalVar`` in the IR; whatever it uses
comes in as arguments. Functions with effects are bound to ``effect_cond`` and ``effect_while``, which no pass drops
or moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tvtf import dtypes
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Primitive, Sample, primitive
from tvtf.core.shape import Dim, TensorType, fresh_dim, same_dim, same_shape, show_shape, substitute_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.ops.rules import bind, draw, scalar, stretch

LOWERING = "passes/lower/legalize.py makes it Relax's own If or tvtf's loop, not a kernel"
PROGRAMS = "its functions are parts of a program: tests/frontend/test_control.py"
EXPORT = "a subgraph is no list of nodes; the exporter writes If and Loop by itself"


def signature(function: Any) -> tuple[list[TensorType], list[TensorType]]:
    """Types of a function attribute's parameters and results."""
    if hasattr(function, "all_params"):
        return [p._type for p in function.all_params], list(function.output_types)
    from tvtf.ir.dialect import from_relax_type

    if not hasattr(function, "mod"):
        return list(map(from_relax_type, function.ty.params)), list(map(_result_type, function.ty.ret.fields))
    function = function.mod[function.name]  # its type leaves out dims that it computes; that of its body has them
    results = function.body.body.ty.fields
    return [from_relax_type(p.ty) for p in function.params], list(map(from_relax_type, results))


def arity(function: Any) -> int:
    """How many parameters a function attribute has."""
    if hasattr(function, "all_params"):
        return len(function.all_params)
    return len(function.mod[function.name].params if hasattr(function, "mod") else function.ty.params)


def _result_type(ty: Any) -> TensorType:
    """Of a result whose dims the function computes, these are nobody's else."""
    from tvtf.ir.dialect import from_relax_type, of_unknown_dims

    return of_unknown_dims(ty) if ty.shape is None else from_relax_type(ty)


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
    from tvtf.ir.interpreter import evaluate

    return evaluate(function.module(), "main", inputs)


def call_numpy(function: Any, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """A function attribute applied to arrays, unseen by tapes."""
    tapes, state.tapes = state.tapes, []
    try:
        return tuple(t.eager_array() for t in call(function, [EagerTensor(a) for a in arrays]))
    finally:
        state.tapes = tapes


def require_condition(pred: TensorType, what: str) -> None:
    """Refuses anything but a scalar boolean."""
    if not pred.dtype.is_bool or pred.shape:
        raise ArgumentError(
            f"{what} must be a scalar of dtype bool, but has shape {show_shape(pred.shape)} and dtype "
            f"{pred.dtype.name}; "
            "reduce it with tf.reduce_all or tf.reduce_any",
            TypeError,
        )


def _cond_type(
    pred: TensorType, *captured: TensorType, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> tuple[TensorType, ...]:
    require_condition(pred, "pred")
    if shapes and _is_emitted(then_branch):
        dtypes_of = [dtypes.as_dtype(str(ty.dtype)) for ty in then_branch.ty.ret.fields]
        return tuple(TensorType(tuple(s), d) for s, d in zip(shapes, dtypes_of, strict=True))
    types, others = result_types(then_branch, captured), result_types(else_branch, captured)
    for i, (mine, other) in enumerate(zip(types, others, strict=True)):
        if mine.dtype is not other.dtype or not (shapes or same_shape(mine.shape, other.shape)):
            raise ArgumentError(
                f"output {i} has shape {show_shape(mine.shape)} and dtype {mine.dtype.name} in the true branch, but "
                "shape "
                f"{show_shape(other.shape)} and dtype {other.dtype.name} in the false branch; both must give the same"
            )
    if not shapes:
        return types
    return tuple(
        t._replace(shape=tuple(a if same_dim(a, b) else s for a, b, s in zip(t.shape, o.shape, dims, strict=True)))
        for t, o, dims in zip(types, others, shapes)
    )


def _is_emitted(function: Any) -> bool:
    """Whether a call is typed again that was checked when it was emitted: a function's name tells no dims that it computes."""
    return not hasattr(function, "all_params") and not hasattr(function, "mod")


def _cond_numpy(
    pred: np.ndarray, *captured: np.ndarray, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> tuple[np.ndarray, ...]:
    return call_numpy(then_branch if pred else else_branch, captured)


def _while_type(
    *inputs: TensorType, condition: Any, body: Any, carried: int, bound: Any, shapes: Any = (), arrays: Any = ()
) -> tuple[TensorType, ...]:
    given = _loop_types(inputs, shapes)
    if _is_emitted(body):
        return given[:carried]
    (tested,) = result_types(condition, given)
    require_condition(tested, "the loop's condition")
    types = given[:carried]
    for i, (entry, left) in enumerate(zip(types, result_types(body, given), strict=True)):
        if entry.dtype is not left.dtype or not _same_but(varying_dims(inputs[i], shapes, i), entry.shape, left.shape):
            raise ArgumentError(
                f"loop variable {i} enters with shape {show_shape(entry.shape)} and dtype {entry.dtype.name}, but "
                "has shape "
                f"{show_shape(left.shape)} and dtype {left.dtype.name} after one iteration; both must be the same"
            )
    return types


def varying_dims(entry: TensorType, shapes: Any, index: int) -> set[int]:
    """The axes of a carried value whose size may change from one iteration to the next."""
    if not shapes:
        return set()
    return {axis for axis, (a, b) in enumerate(zip(entry.shape, shapes[index], strict=True)) if not same_dim(a, b)}


def _loop_types(inputs: Sequence[TensorType], shapes: Any) -> tuple[TensorType, ...]:
    """The inputs' types in any iteration, with the dims that vary as they are after the last."""
    if not shapes:
        return tuple(inputs)
    return (*(t._replace(shape=tuple(s)) for t, s in zip(inputs, shapes)), *inputs[len(shapes) :])


def _same_but(varying: set[int], a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(i in varying or same_dim(x, y) for i, (x, y) in enumerate(zip(a, b)))


def _while_operands(name: str, given: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """What condition and body are applied to: each with symbols of its own for the dims that vary."""
    shapes = attrs.get("shapes", ())
    return [
        t._replace(shape=own_dims(t, varying_dims(t, shapes, i))) for i, t in enumerate(given[: len(shapes)])
    ] + list(given[len(shapes) :])


def own_dims(entry: TensorType, varying: set[int]) -> tuple[Dim, ...]:
    """A shape with symbols of its own for the axes that vary."""
    return tuple(fresh_dim(state.trace.root.unique("size")) if i in varying else d for i, d in enumerate(entry.shape))


def _while_numpy(
    *inputs: np.ndarray, condition: Any, body: Any, carried: int, bound: Any, shapes: Any = (), arrays: Any = ()
) -> tuple[np.ndarray, ...]:
    values, invariants = inputs[:carried], inputs[carried:]
    while call_numpy(condition, [*values, *invariants])[0]:
        values = call_numpy(body, [*_with_room(values, arrays), *invariants])
    return tuple(values)


def _with_room(values: Sequence[np.ndarray], arrays: Sequence[tuple[int, int, tuple[int, ...]]]) -> list[np.ndarray]:
    """Carried values whose arrays have rows for what one iteration may write."""
    grown = list(values)
    for index, step, counters in arrays:
        missing = max(int(values[c]) for c in counters) + step - len(grown[index])
        if step and missing > 0:
            rows = np.zeros((missing + len(grown[index]), *grown[index].shape[1:]), grown[index].dtype)
            grown[index] = np.concatenate([grown[index], rows])
    return grown


class Flow(Primitive[Any]):
    """Control flow: effects in it that give something are done once, whatever tapes are asked.

    Its gradients and its rules for batches trace functions: the frontend enters them when it is imported.
    """

    bind_once: ClassVar[Callable[..., Any]] = staticmethod(lambda *_: NotImplemented)
    """Binds a call whose effects must not be done twice; NotImplemented where there are none. The frontend enters it."""

    def bind(self, *inputs: Any, **attrs: Any) -> Any:
        if state.trace is None or not state.tapes or (state.batches and any(x.is_batched for x in inputs)):
            return super().bind(*inputs, **attrs)
        bound = Flow.bind_once(self, inputs, attrs)
        return super().bind(*inputs, **attrs) if bound is NotImplemented else bound


_COND: dict[str, Any] = {
    "kind": Flow,
    "tf_name": "If",
    "type": _cond_type,
    "numpy": _cond_numpy,
    "why_not": {"lower": LOWERING, "onnx": EXPORT, "samples": PROGRAMS},
}

_WHILE: dict[str, Any] = {
    "kind": Flow,
    "tf_name": "While",
    "type": _while_type,
    "operands": _while_operands,
    "numpy": _while_numpy,
    "why_not": {"lower": LOWERING, "onnx": EXPORT, "samples": PROGRAMS},
}


@primitive(**_COND)
def cond(pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: tuple[Any, ...] = ()) -> Any:
    """The results of one of two functions of ``captured``, as a tuple; only that one runs.

    ``shapes`` are those of the results, where the branches give different ones: a dim that differs is a symbol of its own.
    """
    return (pred, *captured), {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}


@primitive(name="effect_cond", pure=False, **_COND)
def effect_cond(
    pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: tuple[Any, ...] = ()
) -> Any:
    """As ``cond``, where a branch has effects."""
    return (pred, *captured), {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}


@primitive(name="while", **_WHILE)
def while_(
    *inputs: Tensor,
    condition: Any,
    body: Any,
    carried: int,
    bound: Any = None,
    shapes: tuple[Any, ...] = (),
    arrays: Any = (),
) -> Any:
    """``body`` applied to the first ``carried`` inputs while ``condition`` holds; both also get the other inputs.

    ``bound`` is the greatest number of iterations, where that is known. ``shapes`` are those of the carried values after
    the last one, where some change: a dim that does is a symbol of its own. ``arrays`` are carried values that get more
    rows when they are full (passes/graph/growing_arrays.py): each with how many an iteration may write (none where the body itself makes
    it larger), and the carried integers that tell from where on.
    """
    return inputs, {
        "condition": condition,
        "body": body,
        "carried": carried,
        "bound": bound,
        "shapes": shapes,
        "arrays": arrays,
    }


@primitive(name="effect_while", pure=False, **_WHILE)
def effect_while(
    *inputs: Tensor,
    condition: Any,
    body: Any,
    carried: int,
    bound: Any = None,
    shapes: tuple[Any, ...] = (),
    arrays: Any = (),
) -> Any:
    """As ``while``, where the condition or body has effects."""
    return inputs, {
        "condition": condition,
        "body": body,
        "carried": carried,
        "bound": bound,
        "shapes": shapes,
        "arrays": arrays,
    }


def _initialized_numpy(x: np.ndarray, ran: np.ndarray, *, message: str) -> np.ndarray:
    if not ran:
        raise ArgumentError(message)
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
