"""A primitive for several sums in one pass over memory: of formulas of the same tensors, as normalizations need."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, broadcast_shapes, same_dim, same_shape, show_shape
from tvtf.core.tensor import Tensor
from tvtf.dtypes import float32, float64
from tvtf.ops.fused_attention import MADE_LATE
from tvtf.ops.rules import bind, draw, kernel, reduction, require_same_dtype, stretch

OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "rounded_product": operator.mul,
    "negative": operator.neg,
}
"""Primitives that a formula may consist of."""


def computed(formula: Any, operands: Sequence[Any], operators: Mapping[str, Callable[..., Any]] = OPERATORS) -> Any:
    """Evaluates a formula of ``operands``, which may be arrays or expressions.

    A formula is the index of an operand, or a tuple of an operator's name and the formulas that it is applied to.

    >>> computed(("multiply", 0, ("subtract", 1, 0)), [2, 5])
    6
    """
    if isinstance(formula, int):
        return operands[formula]
    name, *parts = formula
    return operators[name](*(computed(part, operands, operators) for part in parts))


def _type(*operands: TensorType, formulas: tuple[Any, ...], axis: tuple[int, ...]) -> tuple[TensorType, ...]:
    """Checks the operands of ``column_sums``, and returns the types of the results, one for each formula.

    All operands must broadcast to the shape of the first. The sums have this shape without ``axis``.
    """
    require_same_dtype(operands)
    first, *others = operands
    for operand in others:
        combined = broadcast_shapes(first.shape, operand.shape, same_dim) or ()
        if not same_shape(combined, first.shape):
            shapes = f"{show_shape(operand.shape)} and {show_shape(first.shape)}"
            raise ArgumentError(f"operands must broadcast to the shape of the first, but got {shapes}")
    reduction_rule = reduction((float32, float64))
    sum_type = reduction_rule(first, axis=axis, keepdims=False)
    return (sum_type,) * len(formulas)


def _batch(
    size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, formulas: tuple[Any, ...], axis: tuple[int, ...]
) -> Any:
    """Maps ``column_sums`` over a leading batch axis of ``size`` items (the batch rule for ``vectorized_map``).

    Every operand gets the batch axis, and axes of size 1 after it until all operands have the same rank.
    """
    operands = [stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)]
    rank = operands[0].ndim
    for i, x in enumerate(operands):
        if x.ndim < rank:
            new_axes = (1,) * (rank - x.ndim)
            operands[i] = bind.reshape(x, shape=(size, *new_axes, *x._type.shape[1:]))
    shifted_axes = tuple(each + 1 for each in axis)
    return bind.column_sums(*operands, formulas=formulas, axis=shifted_axes)


def _samples() -> list[Sample]:
    """Returns test samples of ``column_sums``: sums of formulas of two or three operands, over one or two axes.

    A formula is the index of an operand, or a tuple of an op's name and formulas.
    """
    product = ("multiply", 0, 1)
    centered = ("multiply", 0, ("subtract", 1, 2))
    negated = ("negative", ("multiply", ("add", 0, 1), 2))
    # The operands' shapes, the axes and the formulas.
    cases: tuple[tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[Any, ...]], ...] = (
        (((5, 3), (5, 3)), (0,), (0, product)),
        (((2, 3, 4), (2, 3, 4), (4,)), (0, 1), (0, centered)),
        (((2, 3, 4), (2, 3, 4), (2, 1, 4)), (1,), (centered, 0, negated)),
        (((40, 33), (40, 33), (1, 33)), (0,), (0, ("rounded_product", 0, 1), centered, negated)),
    )
    samples = []
    for seed, (shapes, axis, formulas) in enumerate(cases):
        operands = tuple(draw(seed + 9 * i, shape) for i, shape in enumerate(shapes))
        samples.append(Sample(operands, {"formulas": formulas, "axis": axis}, (float32, float64)))
    return samples


@primitive(
    type=_type,
    numpy=lambda *operands, formulas, axis: tuple(computed(formula, operands).sum(axis) for formula in formulas),
    lower=kernel("reduce.column_sums"),
    batch=_batch,
    samples=_samples,
    why_not={"vjp": MADE_LATE, "onnx": MADE_LATE},
)
def column_sums(*operands: Tensor, formulas: tuple[Any, ...], axis: tuple[int, ...]) -> Any:
    """Sums several formulas of the same tensors over axes in one pass, as the gradient of a normalization needs.

    The first operand has the shape whose elements are summed. The others broadcast to this shape. See
    :func:`computed` for formulas.
    """
    return operands, {"formulas": formulas, "axis": axis}
