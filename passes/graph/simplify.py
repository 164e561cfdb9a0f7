"""Simplifies the dialect: constant folding, algebraic rules, common subexpressions, dead code.

Every rule preserves values exactly, NaN and signed zero included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import ir, relax

from tvtf.core.primitive import Primitive, as_tuple, table
from tvtf.core.shape import TensorType, broadcast_shapes, same_dim, same_shape, size_of
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.errors import OpError
from tvtf.ir.interpreter import Evaluation, reemit
from tvtf.ir.trace import EMBEDDED_ELEMENTS
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.graph.growing_arrays import lower_growing_loop


def simplify(mod: tvm.IRModule) -> tvm.IRModule:
    """Applies :data:`RULES`, then shares common subexpressions and drops dead bindings."""
    mod = reemit(mod, Simplified)
    mod = relax.transform.EliminateCommonSubexpr()(mod)
    return drop_dead(mod)


class Step(NamedTuple):
    """The primitive, operands and attributes that a value was computed with; rules match on these."""

    name: str
    inputs: list[Any]
    attrs: dict[str, Any]


class Simplified(Evaluation):
    """Re-emits a function with each primitive in its simplest form."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps: dict[int, Step] = {}
        self.alive: list[Any] = []

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Binds a primitive in its simplest form.

        The first cases remove primitives that exist only for gradients: all gradients have been taken before this pass.
        """
        if prim.name == "with_gradient":  # of its inputs, the first are the results
            return tuple(inputs[: attrs["count"]])
        if prim.name in ("recompute", "effect_recompute"):
            return attrs["forward"](*inputs)
        if prim.name == "reloaded":  # of (a Variable's value at the start, the value read again)
            return inputs[1]
        if prim.name == "recall_python":  # its last inputs are the results of the call that it stands for
            return tuple(inputs[-len(attrs["shapes"]) - 1 :])
        if attrs.get("arrays"):
            return lower_growing_loop(inputs, attrs)
        folded = self.folded(prim, inputs, attrs)
        if folded is not None:
            return folded
        step = self.narrowed(Step(prim.name, inputs, attrs))
        rule = RULES.get(prim.name)
        simpler = rule(self, step) if rule else None
        return simpler if simpler is not None else self.remember(step, prim.bind(*step.inputs, **attrs))

    def bind_again(self, name: str, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Binds the primitive that a rule rewrote to; it is simplified in turn."""
        return self.bind(table[name], inputs, attrs)

    def remember(self, step: Step, result: Any) -> Any:
        """Records the step under the identity of its results, and keeps these alive so that no ``id`` is used twice."""
        for output in as_tuple(result):
            self.steps[id(output)] = step
            self.alive.append(output)
        return result

    def step_of(self, x: Any) -> Step | None:
        return self.steps.get(id(x))

    def folded(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Folds an op on constants with NumPy, if the result is small; None where it can't, or where the op raises."""
        if not inputs or not prim.pure or prim.host or not all(map(is_constant, inputs)):
            return None
        result = prim.typed(*(x._type for x in inputs), **attrs)
        if type(result) is not TensorType or not _is_small(result):
            return None
        try:
            return self.constant(prim.run([EagerTensor(constant_value(x)) for x in inputs], attrs))
        except (ValueError, OpError):  # raised again when the program runs, as TensorFlow does
            return None

    def narrowed(self, step: Step) -> Step:
        """Drops a ``broadcast_to`` in front of an elementwise op, which broadcasts by itself."""
        if step.name not in BROADCASTING or len(step.inputs) < 2:
            return step
        inputs = list(step.inputs)
        shape = _broadcast(inputs)
        for i, x in enumerate(inputs):
            producer = self.step_of(x)
            if producer is not None and producer.name == "broadcast_to":
                # The result must keep its shape without the broadcast.
                candidate = [*inputs[:i], producer.inputs[0], *inputs[i + 1 :]]
                if shape is not None and same_shape(_broadcast(candidate) or (), shape):
                    inputs = candidate
        return Step(step.name, inputs, step.attrs)


BROADCASTING = frozenset(
    (
        *("add", "subtract", "multiply", "divide", "floordiv", "floormod", "maximum", "minimum", "pow", "atan2"),
        *("squared_difference", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "select"),
        *("logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor", "multiply_no_nan"),
    )
)


def _broadcast(inputs: list[Any]) -> tuple[Any, ...] | None:
    """Returns the shape that operands broadcast to, or None where it isn't known."""
    shape: tuple[Any, ...] | None = ()
    for x in inputs:
        shape = None if shape is None else broadcast_shapes(shape, x._type.shape, same_dim)
    return shape


def _is_small(result: TensorType) -> bool:
    return all(isinstance(d, int) for d in result.shape) and int(np.prod(result.shape)) <= EMBEDDED_ELEMENTS


def is_constant(x: Any) -> bool:
    return isinstance(x, EagerTensor) or (isinstance(x, SymbolicTensor) and isinstance(x._var, ir.Constant))


def constant_value(x: Any) -> np.ndarray:
    return x._array if isinstance(x, EagerTensor) else np.array(x._var.value.numpy())


def _is_filled_with(x: Any, number: float) -> bool:
    return is_constant(x) and x._type.shape == () and bool(constant_value(x) == number)


# -- rules: each returns a simpler value, or None


def _one_is_neutral(walk: Simplified, step: Step) -> Tensor | None:
    """Rewrites ``x * 1`` and ``x / 1`` to ``x``; only for a scalar constant, so that the shape stays ``x``'s."""
    x, y = step.inputs
    if _is_filled_with(y, 1):
        return x
    return y if _is_filled_with(x, 1) and step.name == "multiply" else None


def _subtract_zero(walk: Simplified, step: Step) -> Tensor | None:
    return step.inputs[0] if _is_filled_with(step.inputs[1], 0) else None


def _same_shape(walk: Simplified, step: Step) -> Tensor | None:
    """Drops a reshape or broadcast to the operand's own shape; merges two reshapes."""
    (x,) = step.inputs
    if same_shape(x._type.shape, step.attrs["shape"]):
        return x
    producer = walk.step_of(x)
    if step.name == "reshape" and producer is not None and producer.name == "reshape":
        return walk.bind_again("reshape", producer.inputs, step.attrs)
    return None


def _same_dtype(walk: Simplified, step: Step) -> Tensor | None:
    (x,) = step.inputs
    return x if x._type.dtype is step.attrs["dtype"] else None


def _involution(walk: Simplified, step: Step) -> Tensor | None:
    producer = walk.step_of(step.inputs[0])
    return producer.inputs[0] if producer is not None and producer.name == step.name else None


def _transposed(walk: Simplified, step: Step) -> Tensor | None:
    """Drops an identity transpose; merges two transposes."""
    perm, producer = step.attrs["perm"], walk.step_of(step.inputs[0])
    if perm == tuple(range(len(perm))):
        return step.inputs[0]
    if producer is not None and producer.name == "transpose":
        return walk.bind_again("transpose", producer.inputs, {"perm": tuple(producer.attrs["perm"][i] for i in perm)})
    return None


def _matmul_of_reshapes(walk: Simplified, step: Step) -> Tensor | None:
    """Rewrites ``matmul(reshape(a), reshape(b), transpose_a=True)`` to a ``contract`` over leading dims.

    The gradient of a dense layer's weights has this form; `contract` reads both operands where they are.
    """
    producers = [walk.step_of(x) for x in step.inputs]
    if step.attrs != {"transpose_a": True, "transpose_b": False, "output_type": None}:
        return None
    sources = [m.inputs[0] for m in producers if m is not None and m.name == "reshape"]
    shapes = [x._type.shape for x in sources]
    if len(shapes) < 2 or not 2 < len(shapes[0]) < 6 or not same_shape(shapes[0][:-1], shapes[1][:-1]):
        return None
    if not all(same_shape(shape[-1:], x._type.shape[-1:]) for shape, x in zip(shapes, step.inputs)):
        return None
    rows = "abcde"[: len(shapes[0]) - 1]
    return walk.bind_again("contract", sources, {"equation": f"{rows}m,{rows}n->mn"})


def _merge_padding(walk: Simplified, step: Step) -> Tensor | None:
    """Merges zero padding into the convolution, or the filter's gradient, that reads it.

    The convolution's kernel pads by itself, without a copy of the image.
    """
    producer = walk.step_of(step.inputs[0])
    zeros = None if producer is None or producer.name != "pad" else _spatial_zeros(producer)
    if producer is None or zeros is None:
        return None
    padding = tuple((a + low, b + high) for (a, b), (low, high) in zip(step.attrs["padding"], zeros))
    return walk.bind_again(step.name, [producer.inputs[0], step.inputs[1]], {**step.attrs, "padding": padding})


def _spatial_zeros(pad: Step) -> list[tuple[int, int]] | None:
    """Returns how many zeros a pad adds to an image's spatial dims; None if it pads others, or with another value.

    Negative zero counts as another value.
    """
    first, *spatial, last = pad.attrs["paddings"] if len(pad.attrs["paddings"]) > 2 else (None, None)
    known = [(low, high) for low, high in spatial if isinstance(low, int) and isinstance(high, int)]
    is_zero = _is_filled_with(pad.inputs[1], 0) and not np.signbit(constant_value(pad.inputs[1]))
    return known if first == last == (0, 0) and is_zero and len(known) == len(spatial) else None


def _merge_crop(walk: Simplified, step: Step) -> Tensor | None:
    """Merges a crop into the input gradient that it reads: the gradient of `_merge_padding`."""
    producer, size = walk.step_of(step.inputs[0]), step.attrs["size"]
    if producer is None or producer.name != "conv_input_grad" or any(stride != 1 for stride in step.attrs["strides"]):
        return None
    shape, begin, window = producer.attrs["shape"], step.attrs["begin"], producer.inputs[1]._type.shape[:-2]
    known = all(isinstance(d, int) for d in (*begin, *size[1:], *shape[1:]))
    if not known or begin[0] or begin[-1] or not same_shape((size[0], size[-1]), (shape[0], shape[-1])):
        return None
    cut = [(low, total - low - window_size) for low, total, window_size in zip(begin[1:-1], shape[1:-1], size[1:-1])]
    if any(max(pair) >= extent for pair, extent in zip(cut, window)):
        return None
    padding = tuple((a + low, b + high) for (a, b), (low, high) in zip(producer.attrs["padding"], cut))
    return walk.bind_again("conv_input_grad", producer.inputs, {**producer.attrs, "shape": size, "padding": padding})


def _shape_of_type(walk: Simplified, step: Step) -> Tensor:
    """Computes a shape from the dims of the type, so that the tensor itself needn't be computed."""
    return walk.bind_again("dims_vector", [], {"dims": step.inputs[0]._type.shape, "dtype": step.attrs["dtype"]})


def _fold_dims(walk: Simplified, step: Step) -> Tensor | None:
    """Folds a vector of static dims to a constant."""
    dims, dtype = step.attrs["dims"], step.attrs["dtype"]
    if not all(isinstance(d, int) and d <= dtype.max for d in dims):
        return None
    return walk.constant(EagerTensor(np.array(dims, dtype.np)))


def _reduced_product(walk: Simplified, step: Step) -> Tensor | None:
    """Folds the product of a vector of dims to one dim, which gets the overflow check that sizes get."""
    if step.attrs["axis"] == ():
        return step.inputs[0]
    producer = walk.step_of(step.inputs[0])
    if producer is None or producer.name != "dims_vector":
        return None
    dim = walk.bind_again("dims_vector", [], {**producer.attrs, "dims": (size_of(producer.attrs["dims"]),)})
    return dim if step.attrs["keepdims"] else walk.bind_again("reshape", [dim], {"shape": ()})


def _no_axes(walk: Simplified, step: Step) -> Tensor | None:
    return step.inputs[0] if step.attrs["axis"] == () else None


def _pass_through(walk: Simplified, step: Step) -> Tensor:
    return step.inputs[0]


RULES: dict[str, Callable[[Simplified, Step], Tensor | None]] = {
    "multiply": _one_is_neutral,
    "multiply_no_nan": _one_is_neutral,
    "divide": _one_is_neutral,
    "subtract": _subtract_zero,
    "reshape": _same_shape,
    "broadcast_to": _same_shape,
    "sum_to": _same_shape,
    "cast": _same_dtype,
    "matmul": _matmul_of_reshapes,
    "negative": _involution,
    "logical_not": _involution,
    "transpose": _transposed,
    "reduce_sum": _no_axes,
    "reduce_prod": _reduced_product,
    "shape": _shape_of_type,
    "dims_vector": _fold_dims,
    "conv": _merge_padding,
    "conv_filter_grad": _merge_padding,
    "strided_slice": _merge_crop,
    "identity": _pass_through,
    "stop_gradient": _pass_through,
}
