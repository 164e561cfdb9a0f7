"""Two sums in one pass over memory: of a tensor, and of its products with another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, same_shape, show_shape
from tvtf.core.tensor import Tensor
from tvtf.dtypes import float32, float64
from tvtf.ops.fused_attention import MADE_LATE
from tvtf.ops.rules import bind, draw, kernel, reduction, require_same_dtype, stretch


def _type(x: TensorType, y: TensorType, *, axis: tuple[int, ...]) -> tuple[TensorType, TensorType]:
    require_same_dtype((x, y))
    if not same_shape(x.shape, y.shape):
        raise ArgumentError(f"x and y must have one shape, but got {show_shape(x.shape)} and {show_shape(y.shape)}")
    total = reduction((float32, float64))(x, axis=axis, keepdims=False)
    return total, total


def _batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, axis: tuple[int, ...]) -> Any:
    both = (stretch(size, x, b) for x, b in zip(inputs, batched))
    return bind.paired_sums(*both, axis=tuple(a + 1 for a in axis))


def _samples() -> list[Sample]:
    cases = (((5, 3), (0,)), ((2, 3, 4), (0, 1)), ((2, 3, 4), (1,)), ((40, 33), (0,)))
    return [Sample((draw(i, s), draw(i + 9, s)), {"axis": a}, (float32, float64)) for i, (s, a) in enumerate(cases)]


@primitive(
    type=_type,
    numpy=lambda x, y, *, axis: (x.sum(axis), (x * y).sum(axis)),
    lower=kernel("reduce.paired_sums"),
    batch=_batch,
    samples=_samples,
    why_not={"vjp": MADE_LATE, "onnx": MADE_LATE},
)
def paired_sums(x: Tensor, y: Tensor, axis: tuple[int, ...]) -> Any:
    """The sums over axes of ``x`` and of ``x * y``, what a norm's gradient asks for."""
    return (x, y), {"axis": axis}
