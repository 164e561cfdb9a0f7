"""Broadcasts of sizes that only the running model knows: their dims, and operands that ONNX's operators broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from tvtf.core.shape import TensorType, same_dim
from tvtf.ir import dialect
from tvtf.ops.broadcast_dims import dims_to_broadcast

if TYPE_CHECKING:
    from tvtf.onnx.program import Program


class Broadcasts:
    """The calls in one function that broadcast operands to a common shape, for operators that do so themselves."""

    def __init__(self) -> None:
        """Creates the records of a function.

        ``sources`` has each result of ``broadcast_to`` with its operand. ``common`` has the dims of operands along an
        axis, and the symbol of the size to which they broadcast.
        """
        self.sources: dict[relax.Var, Any] = {}
        self.common: list[tuple[Sequence[Any], Any]] = []

    def note(self, bound: dialect.Bound, var: relax.Var) -> None:
        """Records the call that ``var`` is bound to, if it broadcasts an operand or computes common dims."""
        if bound.primitive.name == "broadcast_to":
            (self.sources[var],) = bound.inputs
        elif bound.primitive.name == "common_dims":
            shapes = [_shape(x) for x in bound.inputs]
            self.common += zip(dims_to_broadcast(shapes), bound.attrs["dims"])

    def operands(self, bound: dialect.Bound) -> list[Any]:
        """Returns a call's operands, without their broadcasts where the operator of ONNX makes the same ones.

        Tracing broadcasts operands of unknown sizes, of which any may be 1. A copy of each operand would be slow.
        """
        sources = [self.sources.get(x, x) if isinstance(x, relax.Var) else x for x in bound.inputs]
        matrix_rank = 2 if bound.primitive.broadcasts == "batches" else 0
        if not bound.primitive.broadcasts or any(len(_shape(x)) < matrix_rank for x in sources):
            return bound.inputs
        own, broadcast = (
            self._common([_shape(x)[: len(_shape(x)) - matrix_rank] for x in operands])
            for operands in (sources, bound.inputs)
        )
        is_same = len(own) == len(broadcast) and all(
            dim is not None and same_dim(dim, other) for dim, other in zip(own, broadcast)
        )
        return sources if is_same else bound.inputs

    def _common(self, shapes: Sequence[Sequence[Any]]) -> list[Any]:
        """Returns the shape that shapes broadcast to, with None for a dim that isn't known."""
        return [self._common_dim(dims) for dims in dims_to_broadcast(shapes)]

    def _common_dim(self, dims: Sequence[Any]) -> Any:
        """Returns the dim that distinct dims other than 1 broadcast to, or None if it isn't known."""
        numbers = [dim for dim in dims if isinstance(dim, int)]
        if len(dims) <= 1 or numbers:
            return [*numbers, *dims, 1][0]
        for operand_dims, result in self.common:
            others = [dim for dim in dims if not same_dim(dim, result)]
            if _are_among(others, operand_dims) and (len(others) in (len(dims) - 1, len(operand_dims))):
                return result
        return None


def _shape(x: Any) -> Sequence[Any]:
    """Returns the dims of a Relax expression."""
    return dialect.from_relax_type(x.ty).shape


def _are_among(dims: Sequence[Any], others: Sequence[Any]) -> bool:
    """Returns whether all of ``dims`` are in ``others``."""
    return all(any(same_dim(dim, other) for other in others) for dim in dims)


def emit_common_dims(
    program: Program, bound: dialect.Bound, inputs: list[str], outputs: list[str], types: list[TensorType]
) -> None:
    """Emits a tensor without elements whose shape the model broadcasts from those of the inputs, and then 0.

    Later nodes read the symbolic dims from its shape.
    """
    emitter = program.emitter
    no_elements = emitter.const(np.zeros(1, np.int64))
    false = emitter.const(np.array(False))
    result = false
    for x in inputs:
        shape = emitter.computed("Concat", [emitter.computed("Shape", [x]), no_elements], axis=0)
        expanded = emitter.computed("Expand", [false, shape])
        result = expanded if result is false else emitter.computed("Or", [result, expanded])
    emitter.node("Identity", [result], outputs)
    emitter.model.dims.record(outputs[0], types[0].shape)
