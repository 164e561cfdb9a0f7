"""The matrix products between Winograd's transforms: for each place in a tile, tiles by channels times channels by results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage
from tvtf.passes.schedule.cpu.product_tile import FEWEST_TERMS
from tvtf.passes.schedule.cpu.subroutine import Array
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import Work, run_tasks
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import Plan, plan_reduction

DTYPE = "float32"


@dataclass(frozen=True)
class Products:
    """The products of one panel of results: sums at `[tile, place, result]`, inputs at `[tile, place, channel]`.

    The filter is at `[panel, place, channel, result]`. With ``is_added`` the sums go on from what they are.
    """

    sums: Var
    inputs: Var
    filter: Var
    channels: int
    width: int
    is_added: bool

    def write(self, panel: ir.Expr, first: ir.Expr, target: CpuTarget) -> Stmt:
        """Writes the products for all places, of the channels from ``first`` on."""
        tiles, places = (int(extent) for extent in self.sums.ty.shape[:2])
        sizes = {"place": places, "tile": tiles, "result": self.width, "c": self.channels}
        at, *axes = (Axis(Var(name, "int64"), index(size)) for name, size in sizes.items())
        tile, result, channel = axes
        left = emit.load(self.inputs, [tile.var, at.var, first + channel.var])
        right = emit.load(self.filter, [panel, at.var, channel.var, result.var])
        stage = _stage(self.sums, (tile, at, result), channel, left, right)
        plan = plan_reduction(stage, target)
        if plan is None:
            raise ValueError("emit_winograd: expected a plan for the matrix product of a panel")
        plan = replace(plan, packed=(), padded=0)
        if self.channels >= FEWEST_TERMS:
            return self._places(stage, plan, at, target)
        zero = index(0)

        def body(arrays: Sequence[Var], _numbers: Sequence[ir.Expr]) -> Stmt:
            """Writes all products on the subroutine's arguments."""
            sums, inputs, filters = arrays
            left = emit.load(inputs, [tile.var, at.var, channel.var])
            right = emit.load(filters, [at.var, channel.var, result.var])
            return self._places(_stage(sums, (tile, at, result), channel, left, right), plan, at, target)

        # Of few channels, a call for each tile of registers would cost more than a tenth of what it does.
        strides = [_strides(self.sums), _strides(self.inputs), _strides(self.filter)[1:]]
        name = subroutine.subroutine([Array(DTYPE, each) for each in strides], 0, body)
        addresses = [
            emit.load(self.sums, [zero] * 3),
            emit.load(self.inputs, [zero, zero, first]),
            emit.load(self.filter, [panel, zero, zero, zero]),
        ]
        return subroutine.call(name, addresses, [])

    def _places(self, stage: Stage, plan: Plan, at: Axis, target: CpuTarget) -> Stmt:
        work = Work(stage, (stage,), plan, combiner(stage), target, stage if self.is_added else None)
        channel = Range.whole(stage.reduce[0])
        return emit.loop(at.extent, lambda place: run_tasks(work, [channel], False, {at.var: place}))


def _stage(sums: Var, spatial: tuple[Axis, ...], channel: Axis, left: ir.Expr, right: ir.Expr) -> Stage:
    old_sum = emit.load(sums, [axis.var for axis in spatial])
    return Stage(sums, spatial, (channel,), tirx.const(0, DTYPE), old_sum + left * right)


def _strides(buffer: Var) -> tuple[int, ...]:
    """Returns the distances of neighbours along each axis of a dense buffer."""
    strides = [1]
    for extent in reversed(list(buffer.ty.shape)[1:]):
        strides.insert(0, strides[0] * int(extent))
    return tuple(strides)
