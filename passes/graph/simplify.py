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
from tvtf.ir.traced_inputs import EMBEDDED_ELEMENTS
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.graph.growing_arrays import lower_growing_loop


def simplify(mod: tvm.IRModule) -> tvm.IRModule:
    """Applies :data:`RULES`, then shares common subexpressions and drops dead bindings."""
    mod = reemit(mod, Simplified)
    mod = relax.transform.EliminateCommonSubexpr()(mod)
    return drop_dead(mod)


class Operation(NamedTuple):
    """The primitive's name, operands and attributes that a value was computed with; rules match on these."""

    name: str
    inputs: list[Any]
    attrs: dict[str, Any]


class Simplified(Evaluation):
    """Re-emits a function with each primitive in its simplest form."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.operations: dict[int, Operation] = {}
        self.alive: list[Any] = []

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Emits a primitive in its simplest form, and returns its results.

        Operations on constants are folded, and a rule in :data:`RULES` may rewrite the operation.
        """
        # Some primitives exist only for gradients, which all have been computed before this pass.
        if prim.name == "with_gradient":  # its first inputs are the results
            return tuple(inputs[: attrs["count"]])
        if prim.name in ("recompute", "effect_recompute"):
            return attrs["forward"](*inputs)
        if prim.name == "reloaded":
            _value_at_start, current_value = inputs
            return current_value
        if prim.name == "recall_python":  # its last inputs are the results of the call that it replaces
            return tuple(inputs[-len(attrs["shapes"]) - 1 :])
        if attrs.get("arrays"):
            return lower_growing_loop(inputs, attrs)
        folded = self.folded(prim, inputs, attrs)
        if folded is not None:
            return folded
        op = self.without_broadcasts(Operation(prim.name, inputs, attrs))
        rule = RULES.get(prim.name)
        simpler = rule(self, op) if rule else None
        if simpler is not None:
            return simpler
        return self.remember(op, prim.bind(*op.inputs, **attrs))

    def bind_again(self, name: str, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Emits the primitive ``name`` that a rewrite rule returns; this primitive is simplified in turn."""
        return self.bind(table[name], inputs, attrs)

    def remember(self, op: Operation, result: Any) -> Any:
        """Records which operation computed a result, by the result's ``id``, and returns the result."""
        for output in as_tuple(result):
            self.operations[id(output)] = op
            self.alive.append(output)  # a freed object's id may be used again
        return result

    def operation_of(self, x: Any) -> Operation | None:
        """Returns the operation that computed a value, or None if it isn't known."""
        return self.operations.get(id(x))

    def folded(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Folds an operation on constants: computes its result with NumPy, and returns it as a constant.

        Returns None if an operand isn't constant, the result is large, or the operation has effects or raises.

        Args:
          prim: the primitive.
          inputs: its operands.
          attrs: its attributes.
        """
        if not inputs or not prim.pure or prim.host or not all(map(is_constant, inputs)):
            return None
        result_type = prim.typed(*(operand._type for operand in inputs), **attrs)
        if type(result_type) is not TensorType or not _is_small(result_type):
            return None
        constants = [EagerTensor(constant_value(operand)) for operand in inputs]
        try:
            return self.constant(prim.run(constants, attrs))
        except (ValueError, OpError):  # the program raises it when it runs, as in TensorFlow
            return None

    def without_broadcasts(self, op: Operation) -> Operation:
        """Replaces operands of an elementwise op that are results of ``broadcast_to`` by the tensors before it.

        This saves memory: the op itself broadcasts its operands.
        """
        if op.name not in BROADCASTING or len(op.inputs) < 2:
            return op
        inputs = list(op.inputs)
        shape = _broadcast_shape(inputs)
        for i, x in enumerate(inputs):
            producer = self.operation_of(x)
            if producer is not None and producer.name == "broadcast_to":
                operand = producer.inputs[0]
                candidate = [*inputs[:i], operand, *inputs[i + 1 :]]
                # The result must keep its shape.
                if shape is not None and same_shape(_broadcast_shape(candidate) or (), shape):
                    inputs = candidate
        return Operation(op.name, inputs, op.attrs)


ROW_AXES = "abcdefgh"
"""Letters for the leading dims of the operands of a `contract`, whose last dims are `m` and `n`."""
BROADCASTING = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "multiply_no_nan",
        "divide",
        "floordiv",
        "floormod",
        "maximum",
        "minimum",
        "pow",
        "atan2",
        "squared_difference",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "select",
        "logical_and",
        "logical_or",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
)
"""Primitives that broadcast their operands."""


def _broadcast_shape(inputs: list[Any]) -> tuple[Any, ...] | None:
    """Returns the shape that operands broadcast to, or None where it isn't known."""
    shape: tuple[Any, ...] | None = ()
    for x in inputs:
        shape = None if shape is None else broadcast_shapes(shape, x._type.shape, same_dim)
    return shape


def _is_small(result: TensorType) -> bool:
    """Returns whether a result is of static shape, and small enough to be stored in the program as a constant."""
    return all(isinstance(dim, int) for dim in result.shape) and int(np.prod(result.shape)) <= EMBEDDED_ELEMENTS


def is_constant(x: Any) -> bool:
    return isinstance(x, EagerTensor) or (isinstance(x, SymbolicTensor) and isinstance(x._var, ir.Constant))


def constant_value(x: Any) -> np.ndarray:
    return x._array if isinstance(x, EagerTensor) else np.array(x._var.value.numpy())


def _is_scalar_constant(x: Any, number: float) -> bool:
    """Returns whether an operand is a scalar constant of this value."""
    return is_constant(x) and x._type.shape == () and bool(constant_value(x) == number)


# -- rules: each returns a simpler value, or None


def _drop_factor_one(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Rewrites ``x * 1`` and ``x / 1`` to ``x``; only for a scalar 1, so that the shape stays ``x``'s."""
    x, y = op.inputs
    if _is_scalar_constant(y, 1):
        return x
    # Division and `multiply_no_nan` aren't commutative.
    return y if _is_scalar_constant(x, 1) and op.name == "multiply" else None


def _subtract_zero(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Rewrites ``x - 0`` to ``x``; the 0 must be a scalar constant, and positive: -0 - -0 is 0."""
    x, y = op.inputs
    if not _is_scalar_constant(y, 0):
        return None
    zero = constant_value(y)
    return None if np.signbit(zero.real if zero.dtype.kind == "c" else zero) else x


def _drop_reshape_to_same_shape(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Drops a reshape or broadcast that keeps the operand's shape, and merges ``reshape(reshape(x))`` to one.

    Args:
      rewriter: emits new operations, and knows which operation computes a tensor.
      op: the reshape or broadcast.
    """
    (x,) = op.inputs
    if same_shape(x._type.shape, op.attrs["shape"]):
        return x
    producer = rewriter.operation_of(x)
    if op.name == "reshape" and producer is not None and producer.name == "reshape":
        return rewriter.bind_again("reshape", producer.inputs, op.attrs)
    return None


def _drop_cast_to_same_dtype(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Drops a cast to the dtype that the operand has."""
    (x,) = op.inputs
    return x if x._type.dtype is op.attrs["dtype"] else None


def _cancel_involution(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Rewrites ``f(f(x))`` to ``x`` for an op that is its own inverse, such as ``negative``."""
    producer = rewriter.operation_of(op.inputs[0])
    return producer.inputs[0] if producer is not None and producer.name == op.name else None


def _merge_transposes(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Drops a transpose that permutes no axes, and merges ``transpose(transpose(x))`` to one.

    Each transpose would pass over memory.

    Args:
      rewriter: emits new operations, and knows which operation computes a tensor.
      op: the transpose.
    """
    (x,) = op.inputs
    perm = op.attrs["perm"]
    if perm == tuple(range(len(perm))):
        return x
    producer = rewriter.operation_of(x)
    if producer is not None and producer.name == "transpose":
        merged_perm = tuple(producer.attrs["perm"][axis] for axis in perm)
        return rewriter.bind_again("transpose", producer.inputs, {"perm": merged_perm})
    return None


def _contract_without_reshapes(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Rewrites ``matmul(reshape(a), reshape(b), transpose_a=True)`` to a ``contract`` (einsum) over leading dims.

    The gradient of a dense layer's weights has this form. ``contract`` needs no reshaped copies of the operands. For
    operands of shapes (batch, time, m) and (batch, time, n), the equation is ``abm,abn->mn``.

    Args:
      rewriter: emits new operations, and knows which operation computes a tensor.
      op: the matrix product.
    """
    # Only the product over the rows of both operands has this form.
    if op.attrs != {"transpose_a": True, "transpose_b": False, "output_type": None}:
        return None
    producers = [rewriter.operation_of(x) for x in op.inputs]
    sources = [producer.inputs[0] for producer in producers if producer is not None and producer.name == "reshape"]
    if len(sources) < 2:
        return None
    left_shape, right_shape = (x._type.shape for x in sources)
    row_axis_count = len(left_shape) - 1
    # With one row axis, the operands are matrices already.
    if not 1 < row_axis_count <= len(ROW_AXES) or not same_shape(left_shape[:-1], right_shape[:-1]):
        return None
    for source, reshaped in zip(sources, op.inputs):
        keeps_columns = same_shape(source._type.shape[-1:], reshaped._type.shape[-1:])
        if not keeps_columns:
            return None
    row_axes = ROW_AXES[:row_axis_count]  # the products are summed over all of them
    return rewriter.bind_again("contract", sources, {"equation": f"{row_axes}m,{row_axes}n->mn"})


def _merge_padding(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Merges the zero padding of an image into the ``padding`` of the convolution that reads the image.

    This saves a padded copy of the image. It also applies to the gradient of a convolution's filter.

    Args:
      rewriter: emits new operations, and knows which operation computes a tensor.
      op: the convolution.
    """
    image, filter_or_cotangent = op.inputs
    pad = rewriter.operation_of(image)
    if pad is None or pad.name != "pad":
        return None
    added_zeros = _spatial_zeros(pad)
    if added_zeros is None:
        return None
    merged_padding = tuple(
        (before + added_before, after + added_after)
        for (before, after), (added_before, added_after) in zip(op.attrs["padding"], added_zeros)
    )
    unpadded_image = pad.inputs[0]
    return rewriter.bind_again(op.name, [unpadded_image, filter_or_cotangent], {**op.attrs, "padding": merged_padding})


def _spatial_zeros(pad: Operation) -> list[tuple[int, int]] | None:
    """Returns how many zeros a ``pad`` adds before and after each spatial dim of an image.

    Returns None if the op pads the batch or the channels, or pads with another value. Negative zero counts as another
    value: a convolution pads with positive zeros.
    """
    paddings, fill = pad.attrs["paddings"], pad.inputs[1]
    if len(paddings) < 3:  # there is no spatial dim
        return None
    batch, *spatial, channels = paddings
    if batch != (0, 0) or channels != (0, 0):
        return None
    if not _is_scalar_constant(fill, 0) or np.signbit(constant_value(fill)):
        return None
    static = [(low, high) for low, high in spatial if isinstance(low, int) and isinstance(high, int)]
    return static if len(static) == len(spatial) else None


def _merge_crop(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Merges the crop (a slice) of a convolution's input gradient into the convolution's padding.

    Such a crop is the gradient of zero padding, which `_merge_padding` merges in the forward convolution. The crop must
    keep the complete batch (the first dim) and all channels (the last dim).

    Args:
      rewriter: emits new operations, and knows which operation computes a tensor.
      op: the slice.
    """
    grad = rewriter.operation_of(op.inputs[0])
    if grad is None or grad.name != "conv_input_grad" or any(stride != 1 for stride in op.attrs["strides"]):
        return None
    shape, begin, size = grad.attrs["shape"], op.attrs["begin"], op.attrs["size"]
    if not all(isinstance(dim, int) for dim in (*begin, *size[1:], *shape[1:])):
        return None
    keeps_batch_and_channels = same_shape((size[0], size[-1]), (shape[0], shape[-1]))
    if begin[0] or begin[-1] or not keeps_batch_and_channels:
        return None
    # The numbers of elements that are cropped before and after each spatial dim.
    crops = [(first, extent - first - count) for first, extent, count in zip(begin[1:-1], shape[1:-1], size[1:-1])]
    window = grad.inputs[1]._type.shape[:-2]
    if any(max(crop) >= window_size for crop, window_size in zip(crops, window)):
        return None
    old_padding = grad.attrs["padding"]
    padding = tuple((before + low, after + high) for (before, after), (low, high) in zip(old_padding, crops))
    return rewriter.bind_again("conv_input_grad", grad.inputs, {**grad.attrs, "shape": size, "padding": padding})


def _drop_gather_of_all(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Drops a gather of all slices in their order, whose indices are ``range(size of the axis)``.

    Such a gather comes from random numbers in a map over a tensor.
    """
    x, indices = op.inputs
    producer = rewriter.operation_of(indices)
    if producer is None or producer.name != "range" or op.attrs["batch_dims"]:
        return None
    start, step = producer.attrs["start"], producer.attrs["delta"]
    axis_size = x._type.shape[op.attrs["axis"]]
    gathers_all = (start, step) == (0, 1) and same_dim(producer.attrs["size"], axis_size)
    return x if gathers_all else None


def _shape_of_type(rewriter: Simplified, op: Operation) -> Tensor:
    """Takes a tensor's shape from the dims of its type, so that the tensor itself needn't be computed."""
    return rewriter.bind_again("dims_vector", [], {"dims": op.inputs[0]._type.shape, "dtype": op.attrs["dtype"]})


def _fold_dims(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Folds a vector of static dims to a constant."""
    dims, dtype = op.attrs["dims"], op.attrs["dtype"]
    if not all(isinstance(dim, int) and dim <= dtype.max for dim in dims):
        return None
    return rewriter.constant(EagerTensor(np.array(dims, dtype.np)))


def _fold_product_of_dims(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Rewrites the product of all dims of a shape, ``reduce_prod(shape(x))``, to a single dim: the size of ``x``.

    Unlike a product of integers, a dim is checked for overflow.

    Args:
      rewriter: emits new operations, and knows which operation computes a tensor.
      op: the product.
    """
    (x,) = op.inputs
    if op.attrs["axis"] == ():
        return x
    producer = rewriter.operation_of(x)
    if producer is None or producer.name != "dims_vector":
        return None
    size = size_of(producer.attrs["dims"])
    dim = rewriter.bind_again("dims_vector", [], {**producer.attrs, "dims": (size,)})
    return dim if op.attrs["keepdims"] else rewriter.bind_again("reshape", [dim], {"shape": ()})


def _drop_reduction_of_no_axes(rewriter: Simplified, op: Operation) -> Tensor | None:
    """Drops a reduction over no axes."""
    return op.inputs[0] if op.attrs["axis"] == () else None


def _drop_identity(rewriter: Simplified, op: Operation) -> Tensor:
    """Replaces an op that returns its operand, such as ``stop_gradient``, by the operand."""
    return op.inputs[0]


RULES: dict[str, Callable[[Simplified, Operation], Tensor | None]] = {
    "multiply": _drop_factor_one,
    "multiply_no_nan": _drop_factor_one,
    "divide": _drop_factor_one,
    "subtract": _subtract_zero,
    "reshape": _drop_reshape_to_same_shape,
    "broadcast_to": _drop_reshape_to_same_shape,
    "sum_to": _drop_reshape_to_same_shape,
    "cast": _drop_cast_to_same_dtype,
    "matmul": _contract_without_reshapes,
    "negative": _cancel_involution,
    "logical_not": _cancel_involution,
    "transpose": _merge_transposes,
    "reduce_sum": _drop_reduction_of_no_axes,
    "reduce_prod": _fold_product_of_dims,
    "gather": _drop_gather_of_all,
    "shape": _shape_of_type,
    "dims_vector": _fold_dims,
    "conv": _merge_padding,
    "conv_filter_grad": _merge_padding,
    "strided_slice": _merge_crop,
    "identity": _drop_identity,
    "stop_gradient": _drop_identity,
}
