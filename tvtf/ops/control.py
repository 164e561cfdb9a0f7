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
from tvtf.core.shape import Dim, TensorType, fresh_dim, may_be_same, same_dim, same_shape, show_shape, substitute_dim
from tvtf.core.specialization import traces_example
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.ops.rules import bind, draw, scalar, stretch

LOWERING = "passes/lower/legalize.py makes it Relax's own If or tvtf's loop, not a kernel"
PROGRAMS = "its functions are parts of a program: tests/frontend/test_control.py"
EXPORT = "a subgraph is not a list of nodes; the exporter writes If and Loop by itself"


def signature(function: Any) -> tuple[list[TensorType], list[TensorType]]:
    """Returns the types of the parameters, and the types of the results, of a branch or loop body.

    The function may be a traced ``Graph``, the ``Subfunction`` of a module that is evaluated, or a Relax ``GlobalVar``.
    """
    if hasattr(function, "all_params"):  # a Graph
        return [param._type for param in function.all_params], list(function.output_types)
    from tvtf.ir.dialect import from_relax_type

    if not hasattr(function, "mod"):  # a GlobalVar
        function_type = function.ty
        return list(map(from_relax_type, function_type.params)), list(map(_result_type, function_type.ret.fields))
    # The function's declared type leaves out dims that it computes; the type of its body has them.
    relax_function = function.mod[function.name]
    result_fields = relax_function.body.body.ty.fields
    return [from_relax_type(param.ty) for param in relax_function.params], list(map(from_relax_type, result_fields))


def arity(function: Any) -> int:
    """Returns the number of parameters of a function attribute."""
    if hasattr(function, "all_params"):
        return len(function.all_params)
    return len(function.mod[function.name].params if hasattr(function, "mod") else function.ty.params)


def _result_type(ty: Any) -> TensorType:
    """Returns a result's type; dims that the function computes become fresh symbols, for no caller knows them."""
    from tvtf.ir.dialect import from_relax_type, of_unknown_dims

    return of_unknown_dims(ty) if ty.shape is None else from_relax_type(ty)


def result_types(function: Any, arguments: Sequence[TensorType]) -> tuple[TensorType, ...]:
    """Returns the result types of a branch or loop body for arguments of the given types.

    Symbolic dims of the parameters are replaced by the arguments' dims. A function that was traced for unknown ranks is
    traced again for the arguments' ranks.
    """
    if hasattr(function, "mod") and any(param.ty.shape is None for param in function.mod[function.name].params):
        from tvtf.ir.trace import trace_graph

        graph = trace_graph(function.name, function, arguments)
        return tuple(graph.output_types)
    param_types, traced_types = signature(function)
    argument_dims: dict[Any, Any] = {}  # by symbolic dim of the parameters
    for param_type, argument_type in zip(param_types, arguments):
        for param_dim, argument_dim in zip(param_type.shape, argument_type.shape):
            if not isinstance(param_dim, int):
                argument_dims[param_dim] = argument_dim
    types = []
    for traced_type in traced_types:
        shape = tuple(substitute_dim(dim, argument_dims) for dim in traced_type.shape)
        types.append(TensorType(shape, traced_type.dtype))
    return tuple(types)


def call(function: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Calls a branch or loop body with tensors: evaluates it eagerly, or inlines it into the active trace."""
    if not hasattr(function, "all_params"):
        return function(*inputs)
    from tvtf.ir.interpreter import evaluate

    return evaluate(function.module(), "main", inputs)


def call_numpy(function: Any, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Calls a branch or loop body with NumPy arrays, without recording by gradient tapes."""
    tapes = state.tapes
    state.tapes = []
    try:
        results = call(function, [EagerTensor(array) for array in arrays])
        return tuple(result.eager_array() for result in results)
    finally:
        state.tapes = tapes


def require_condition(pred: TensorType, what: str) -> None:
    """Checks that the condition of a branch or while loop is a scalar boolean. ``what`` is its name in the error."""
    if not pred.dtype.is_bool or pred.shape:
        type_text = f"shape {show_shape(pred.shape)} and dtype {pred.dtype.name}"
        raise ArgumentError(
            f"{what} must be a scalar of dtype bool, but has {type_text}; reduce it with tf.reduce_all or tf.reduce_any",
            TypeError,
        )


def _cond_type(
    pred: TensorType, *captured: TensorType, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> tuple[TensorType, ...]:
    """Returns the result types of ``cond`` after checking that both branches have the same result types.

    ``shapes`` allows dims that differ between the branches. It has a symbol for each such dim, which becomes the dim of
    the result.
    """
    require_condition(pred, "pred")
    if shapes and _is_emitted(then_branch):
        result_dtypes = [dtypes.as_dtype(str(ty.dtype)) for ty in then_branch.ty.ret.fields]
        return tuple(TensorType(tuple(shape), dtype) for shape, dtype in zip(shapes, result_dtypes, strict=True))
    then_types = result_types(then_branch, captured)
    else_types = result_types(else_branch, captured)
    for i, (then_type, else_type) in enumerate(zip(then_types, else_types, strict=True)):
        if then_type.dtype is not else_type.dtype or not (shapes or same_shape(then_type.shape, else_type.shape)):
            raise ArgumentError(
                f"output {i} has shape {show_shape(then_type.shape)} and dtype {then_type.dtype.name} in the true "
                f"branch, but shape {show_shape(else_type.shape)} and dtype {else_type.dtype.name} in the false branch; "
                "both must give the same"
            )
    if not shapes:
        return then_types
    return tuple(
        then_type._replace(shape=_merged_shape(then_type.shape, else_type.shape, symbols))
        for then_type, else_type, symbols in zip(then_types, else_types, shapes)
    )


def _merged_shape(a: Sequence[Dim], b: Sequence[Dim], symbols: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns the dims that two shapes of one rank share, and the symbol for each that differs."""
    return tuple(x if same_dim(x, y) else symbol for x, y, symbol in zip(a, b, symbols, strict=True))


def _is_emitted(function: Any) -> bool:
    """Returns whether a function attribute is a name in the IR.

    The call of such a function was checked when it was emitted. It isn't checked again, because the function's declared
    type lacks the dims that the function computes.
    """
    return not hasattr(function, "all_params") and not hasattr(function, "mod")


def _cond_numpy(
    pred: np.ndarray, *captured: np.ndarray, then_branch: Any, else_branch: Any, shapes: Any = ()
) -> tuple[np.ndarray, ...]:
    return call_numpy(then_branch if pred else else_branch, captured)


def _while_type(
    *inputs: TensorType, condition: Any, body: Any, carried: int, bound: Any, shapes: Any = (), arrays: Any = ()
) -> tuple[TensorType, ...]:
    """Checks the condition and body of a while loop, and returns the types of the results, the loop's carried values.

    The condition must return a boolean. The body must return each carried value with the same type as at the start,
    except for dims that may vary according to ``shapes``.
    """
    # ``bound`` and ``arrays`` aren't needed here, but all rules of the op get them
    loop_types = _loop_types(inputs, shapes)
    carried_types = loop_types[:carried]
    if _is_emitted(body):
        return carried_types
    (condition_type,) = result_types(condition, loop_types)
    require_condition(condition_type, "the loop's condition")
    exit_types = result_types(body, loop_types)
    in_example = traces_example()  # where sizes are only refused that no call can have: traces for calls are checked
    for i, (entry_type, exit_type) in enumerate(zip(carried_types, exit_types, strict=True)):
        if entry_type.dtype is not exit_type.dtype or not _same_but(
            varying_dims(inputs[i], shapes, i),
            entry_type.shape,
            exit_type.shape,
            is_same=may_be_same if in_example else same_dim,
        ):
            raise ArgumentError(
                f"loop variable {i} enters with shape {show_shape(entry_type.shape)} and dtype {entry_type.dtype.name}, "
                f"but has shape {show_shape(exit_type.shape)} and dtype {exit_type.dtype.name} after one iteration; "
                "both must be the same"
            )
    return tuple(map(_with_unknown_sizes, carried_types, exit_types)) if in_example and not shapes else carried_types


def _with_unknown_sizes(entry: TensorType, end: TensorType) -> TensorType:
    """Returns a carried value's type with a new symbol for each symbolic size that an iteration may change.

    Args:
      entry, end: the value's types before and after an iteration.
    """
    changing_axes = set()
    for axis, (entry_dim, end_dim) in enumerate(zip(entry.shape, end.shape)):
        if not isinstance(entry_dim, int) and not same_dim(entry_dim, end_dim):
            changing_axes.add(axis)
    return entry._replace(shape=own_dims(entry, changing_axes))


def varying_dims(entry: TensorType, shapes: Any, index: int) -> set[int]:
    """Returns the axes of a carried value whose size may change from one iteration to the next.

    Args:
      entry: the type of the carried value before the loop.
      shapes: the declared shape of each carried value; empty if no size changes.
      index: the position of the carried value.
    """
    if not shapes:
        return set()
    return {
        axis
        for axis, (dim, declared) in enumerate(zip(entry.shape, shapes[index], strict=True))
        if not same_dim(dim, declared)
    }


def _loop_types(inputs: Sequence[TensorType], shapes: Any) -> tuple[TensorType, ...]:
    """Returns the types of a loop's inputs in any iteration; a dim that varies is the symbol of its final size."""
    if not shapes:
        return tuple(inputs)
    return (*(input_._replace(shape=tuple(shape)) for input_, shape in zip(inputs, shapes)), *inputs[len(shapes) :])


def _same_but(varying: set[int], a: Sequence[Dim], b: Sequence[Dim], is_same: Callable[[Dim, Dim], bool]) -> bool:
    """Returns whether two shapes are equal, by ``is_same``, in all axes that don't vary."""
    return len(a) == len(b) and all(i in varying or is_same(x, y) for i, (x, y) in enumerate(zip(a, b)))


def _while_operands(name: str, inputs: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """Returns the operand types of condition and body, with fresh symbols for the dims that vary."""
    shapes = attrs.get("shapes", ())
    return [
        input_._replace(shape=own_dims(input_, varying_dims(input_, shapes, i)))
        for i, input_ in enumerate(inputs[: len(shapes)])
    ] + list(inputs[len(shapes) :])


def own_dims(entry: TensorType, varying: set[int]) -> tuple[Dim, ...]:
    """Returns a shape with fresh symbols for the axes that vary."""
    return tuple(
        fresh_dim(state.trace.root.unique("size")) if i in varying else dim for i, dim in enumerate(entry.shape)
    )


def _while_numpy(
    *inputs: np.ndarray, condition: Any, body: Any, carried: int, bound: Any, shapes: Any = (), arrays: Any = ()
) -> tuple[np.ndarray, ...]:
    """Runs a while loop on arrays. The arguments are those of ``while``."""
    values, invariants = inputs[:carried], inputs[carried:]
    while call_numpy(condition, [*values, *invariants])[0]:
        values = call_numpy(body, [*_with_free_rows(values, arrays), *invariants])
    return tuple(values)


def _with_free_rows(
    values: Sequence[np.ndarray], arrays: Sequence[tuple[int, int, tuple[int, ...]]]
) -> list[np.ndarray]:
    """Appends rows to those arrays among a while loop's carried values that are too short for an iteration's writes.

    The number of rows at least doubles. ``arrays`` has a tuple for each array: the index in ``values``, the number of
    rows that an iteration may write, and the indices of the integers that count the rows in use.
    """
    grown = list(values)
    for index, rows_written, counters in arrays:
        array = grown[index]
        rows_in_use = max(int(values[counter]) for counter in counters)
        missing = rows_in_use + rows_written - len(array)
        if rows_written and missing > 0:  # an array of which 0 are written is grown by the body itself
            free_rows = np.zeros((missing + len(array), *array.shape[1:]), array.dtype)
            grown[index] = np.concatenate([array, free_rows])
    return grown


class Flow(Primitive[Any]):
    """A primitive of control flow, whose effects happen once even if several tapes record it.

    Its gradients and batch rules trace functions, so the frontend registers them when it is imported.
    """

    bind_once: ClassVar[Callable[..., Any]] = staticmethod(lambda *_: NotImplemented)
    """Binds a call whose effects must not be repeated, or returns NotImplemented. The frontend sets it."""

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
    """Calls one of two functions on ``captured`` and returns its results as a tuple.

    ``shapes`` are the results' shapes where the branches' differ: a dim that differs is a symbol of its own.
    """
    return (pred, *captured), {"then_branch": then_branch, "else_branch": else_branch, "shapes": shapes}


@primitive(pure=False, **_COND)
def effect_cond(
    pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any, shapes: tuple[Any, ...] = ()
) -> Any:
    """Works as ``cond``, for branches with effects."""
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
    """Applies ``body`` to the first ``carried`` inputs while ``condition`` holds. Both also get the other inputs.

    Args:
      inputs: the initial values of the carried values, then the values that stay the same.
      condition, body: branch functions of all inputs.
      carried: the number of carried values.
      bound: the largest number of iterations, if known.
      shapes: the carried values' shapes after the last iteration, if some change. A dim that changes is a symbol.
      arrays: describes carried values that grow when they are full (passes/graph/growing_arrays.py): the value's
        index, the number of rows that an iteration may write (0 where the body itself grows it), and the indices of
        the carried integers that count the rows in use.
    """
    attrs = {
        "condition": condition,
        "body": body,
        "carried": carried,
        "bound": bound,
        "shapes": shapes,
        "arrays": arrays,
    }
    return inputs, attrs


@primitive(pure=False, **_WHILE)
def effect_while(
    *inputs: Tensor,
    condition: Any,
    body: Any,
    carried: int,
    bound: Any = None,
    shapes: tuple[Any, ...] = (),
    arrays: Any = (),
) -> Any:
    """Declares a while loop, as ``while`` does, whose condition or body has side effects.

    As a primitive of its own, the loop is neither dropped nor moved by a pass. The arguments are those of ``while``.
    """
    attrs = {
        "condition": condition,
        "body": body,
        "carried": carried,
        "bound": bound,
        "shapes": shapes,
        "arrays": arrays,
    }
    return inputs, attrs


def _initialized_numpy(x: np.ndarray, ran: np.ndarray, *, message: str) -> np.ndarray:
    if not ran:
        raise ArgumentError(message)
    return x


def _initialized_batch(size: Dim, inputs: Any, batched: Any, *, message: str) -> Tensor:
    """Checks the loops of all batch items at once: one that didn't run fails them all."""
    ran = bind.reduce_all(inputs[1], axis=(0,), keepdims=False) if batched[1] else inputs[1]
    return bind.initialized(stretch(size, inputs[0], batched[0]), ran, message=message)


@primitive(
    type=lambda x, ran, *, message: x,
    numpy=_initialized_numpy,
    lower=lambda x, ran, *, message: scalar(lambda t, value: value)(x),
    vjp=lambda cotangent, y, x, ran, *, message: (cotangent, None),
    batch=_initialized_batch,
    guard=lambda x, ran, *, message: [(ran, message)],
    onnx=lambda emitter, inputs, outputs, types, *, message: emitter.node("Identity", inputs[:1], outputs),
    samples=lambda: [
        Sample((draw(0, (2, 3)), np.bool_(True)), {"message": "the loop must run"}, dtypes.COMPILED),
        Sample((draw(0, (3,)), np.bool_(True)), {"message": ""}, dtypes.COMPILED, symbolic=(("n",), ())),
    ],
)
def initialized(x: Tensor, ran: Tensor, message: str) -> Any:
    """Returns ``x`` after checking ``ran``: the result of a loop is undefined if the loop never ran."""
    return (x, ran), {"message": message}
