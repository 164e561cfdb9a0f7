"""The matrix products between Winograd's transforms: one for each position in a tile, summed over the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage
from tvtf.passes.schedule.cpu.product_tile import MIN_TERMS
from tvtf.passes.schedule.cpu.subroutine import Array
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import PlannedReduction, emit_tasks
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.tile_plan import Plan, plan_reduction

DTYPE = "float32"


@dataclass(frozen=True)
class Products:
    """The matrix products of Winograd's method, one for each position in a transformed tile, for one panel of results.

    A panel is a block of `width` output channels. Sums are at `[tile, position, result]`, inputs at `[tile, position,
    channel]`, the filter at `[panel, position, channel, result]`. With `is_added` the products are added to the sums.
    """

    sums: Var
    inputs: Var
    filter: Var
    channels: int
    width: int
    is_added: bool

    def sums_of_panel(self, panel: ir.Expr, first_channel: ir.Expr, target: CpuTarget) -> Stmt:
        """Emits the matrix products of a panel at all positions of a tile.

        They are summed over the `channels` input channels starting at `first_channel`.
        """
        tiles, positions = (int(extent) for extent in self.sums.ty.shape[:2])
        sizes = {"place": positions, "tile": tiles, "result": self.width, "c": self.channels}
        position, *axes = (Axis(Var(name, "int64"), index(size)) for name, size in sizes.items())
        tile, result, channel = axes
        input_item = emit.load(self.inputs, [tile.var, position.var, first_channel + channel.var])
        filter_item = emit.load(self.filter, [panel, position.var, channel.var, result.var])
        stage = _product_stage(self.sums, (tile, position, result), channel, input_item, filter_item)
        plan = plan_reduction(stage, target)
        if plan is None:
            raise ValueError("emit_winograd: expected a plan for the matrix product of a panel")
        # The filter was transformed into panels already: it needs no packing.
        plan = replace(plan, packed=(), padded=0)
        if self.channels >= MIN_TERMS:
            return self._at_all_positions(stage, plan, position, target)
        zero = index(0)

        def emit_body(arrays: Sequence[Var], _numbers: Sequence[ir.Expr]) -> Stmt:
            """Emits the products at all positions, on the subroutine's array arguments."""
            sums, inputs, filters = arrays
            input_item = emit.load(inputs, [tile.var, position.var, channel.var])
            filter_item = emit.load(filters, [position.var, channel.var, result.var])
            stage = _product_stage(sums, (tile, position, result), channel, input_item, filter_item)
            return self._at_all_positions(stage, plan, position, target)

        # Of few channels, a call for each tile of registers would cost more than a tenth of what it does.
        strides = [_dense_strides(self.sums), _dense_strides(self.inputs), _dense_strides(self.filter)[1:]]
        name = subroutine.subroutine([Array(DTYPE, each) for each in strides], 0, emit_body)
        addresses = [
            emit.load(self.sums, [zero] * 3),
            emit.load(self.inputs, [zero, zero, first_channel]),
            emit.load(self.filter, [panel, zero, zero, zero]),
        ]
        return subroutine.call(name, addresses, [])

    def _at_all_positions(self, stage: Stage, plan: Plan, position: Axis, target: CpuTarget) -> Stmt:
        """Emits a serial loop over the positions of a transformed tile, with one tiled matrix product at each."""
        product = PlannedReduction(stage, (stage,), plan, combiner(stage), target, stage if self.is_added else None)
        channel = Range.whole(stage.reduce[0])
        return emit.loop(position.extent, lambda number: emit_tasks(product, [channel], False, {position.var: number}))


def _product_stage(
    sums: Var, spatial: tuple[Axis, ...], channel: Axis, input_item: ir.Expr, filter_item: ir.Expr
) -> Stage:
    """Returns the matrix product `sums += input_item * filter_item`, reduced over the channels, as a stage."""
    old_sum = emit.load(sums, [axis.var for axis in spatial])
    return Stage(sums, spatial, (channel,), tirx.const(0, DTYPE), old_sum + input_item * filter_item)


def _dense_strides(buffer: Var) -> tuple[int, ...]:
    """Returns the strides, in elements, of a row-major buffer of static shape.

    For example, shape ``(2, 3, 4)`` gives ``(12, 4, 1)``.
    """
    strides = [1]
    # The stride of an axis is the product of the extents after it.
    for extent in reversed(list(buffer.ty.shape)[1:]):
        strides.insert(0, strides[0] * int(extent))
    return tuple(strides)
