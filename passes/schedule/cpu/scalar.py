"""The fallback: writes a reduction that no plan fits as plain loops."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir
from tvm.tirx import Stmt

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Stage
from tvtf.passes.schedule.cpu.tile import Finish, Point, Range, over_ranges, update_value


def emit_scalar(stage: Stage, stores: Sequence[Stage], fixed: Point | None = None) -> Stmt:
    """Writes one result after another, one term after another."""
    finish = Finish(stage, tuple(stores))
    free = [axis for axis in stage.spatial if axis.var not in (fixed or {})]

    def result(places: list[ir.Expr]) -> Stmt:
        """Reduces one element in a scalar accumulator."""
        point = {**(fixed or {}), **{axis.var: place for axis, place in zip(free, places, strict=True)}}
        accumulator = emit.scratch([1], stage.dtype, "accumulator", "local")
        old = emit.load(accumulator, [emit.index(0)])
        ranges = [Range.whole(axis) for axis in stage.reduce]
        return emit.sequence(
            [
                emit.allocate(accumulator),
                emit.store(accumulator, stage.init, [emit.index(0)]),
                over_ranges(
                    ranges,
                    lambda at: emit.store(accumulator, update_value(stage, old, {**point, **at}), [emit.index(0)]),
                ),
                finish.at(old, point),
            ]
        )

    return emit.nest([axis.extent for axis in free], result)
