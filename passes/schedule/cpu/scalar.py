"""The fallback: emits a reduction that no plan fits as plain loops."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir
from tvm.tirx import Stmt

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import AxisIndices, Stage, by_axis
from tvtf.passes.schedule.cpu.tile import Epilogue, Range, loop_over_ranges, update_value


def emit_scalar(stage: Stage, stores: Sequence[Stage], fixed: AxisIndices | None = None) -> Stmt:
    """Emits a reduction as plain scalar loops, for reductions that no plan fits.

    Args:
        stage: the reduction.
        stores: the stages of its epilogue, which store results.
        fixed: the values of axes that aren't loops here.
    """
    epilogue, fixed = Epilogue(stage, tuple(stores)), fixed or {}
    free_axes = [axis for axis in stage.spatial if axis.var not in fixed]

    def reduce_element(indices: list[ir.Expr]) -> Stmt:
        """Emits the reduction of one result in a scalar accumulator, and the stages that finish and store the result."""
        axis_indices = {**fixed, **by_axis(free_axes, indices)}
        accumulator = emit.scratch([1], stage.dtype, "accumulator", "local")
        only_item = [emit.index(0)]
        accumulated = emit.load(accumulator, only_item)

        def add_term(term_indices: AxisIndices) -> Stmt:
            """Emits the addition of one term to the accumulator."""
            updated = update_value(stage, accumulated, {**axis_indices, **term_indices})
            return emit.store(accumulator, updated, only_item)

        initialize = emit.store(accumulator, stage.init, only_item)
        add_all_terms = loop_over_ranges([Range.whole(axis) for axis in stage.reduce], add_term)
        finish = epilogue.emit_stores(accumulated, axis_indices)
        return emit.sequence([emit.allocate(accumulator), initialize, add_all_terms, finish])

    return emit.nest([axis.extent for axis in free_axes], reduce_element)
