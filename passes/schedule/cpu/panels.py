"""Long sums of products whose results exceed every cache: each chunk of results is summed over all terms in steps.

The choice `panels` and the names in this file call these chunks panels. Packing for each tap of a filter's gradient
read its input again and again; on one core, gradients of 3x3 filters dilated by 12 take 10.0 ms this way instead of
24.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import ir
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.conv_bands import occupies
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads
from tvtf.passes.schedule.cpu.reduction_steps import Steps, reads_again, steps_of_panel
from tvtf.passes.schedule.cpu.tasks import Work, tiled_sizes, tiles_of
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

# Share of the level-2 cache for the sums; what a step reads takes the rest.
PART_FOR_RESULTS = 4


@dataclass(frozen=True)
class Panels:
    """How many chunks tiled axes are cut into, and the steps of each chunk."""

    blocks: dict[Var, int]
    steps: Steps


def panels_of(work: Work) -> Panels | None:
    """Returns the cut of a reduction whose tiles read the same operands repeatedly, if these exceed the cache."""
    stage, target, tiled = work.stage, work.target, tiled_sizes(work)
    results = access.points(stage.spatial)
    if work.plan.along_rows or results is None or not has_reused_operand(stage):
        return None
    if not reads_again(stage, [axis for axis in stage.spatial if axis.var not in tiled]):
        return None
    blocks = _blocks(work, results * stage.item_bytes)
    sizes = {axis.var: -(-(axis.size or 1) // blocks.get(axis.var, 1)) for axis in stage.spatial}
    steps = steps_of_panel(stage, target, sizes)
    panels_cut = None if steps is None or not occupies(prod(blocks.values()), target) else Panels(blocks, steps)
    return choice("panels", panels_cut, lambda: [None], lambda panels: "no" if panels is None else "yes")


def _blocks(work: Work, result_bytes: int) -> dict[Var, int]:
    """Cuts the axis that is longest in tiles until a chunk's sums fit the cache and all cores have some."""
    sizes = tiled_sizes(work)
    axes = [axis for axis in work.stage.spatial if axis.var in sizes]
    blocks = {axis.var: 1 for axis in axes}
    most = work.target.level2_bytes // PART_FOR_RESULTS

    def tiles(axis: Axis) -> int:
        return (axis.size or 1) // sizes[axis.var] // blocks[axis.var]

    while result_bytes > most * prod(blocks.values()) or not occupies(prod(blocks.values()), work.target):
        longest = max(axes, key=lambda axis: tiles(axis) * sizes[axis.var])
        if tiles(longest) < 2:
            break
        blocks[longest.var] += 1
    return blocks


def run_panels(work: Work, panels: Panels, parallel: bool) -> Stmt:
    """Sums all results in memory, chunk by chunk; then runs the epilogue tile by tile."""
    tiled = [axis for axis in work.stage.spatial if axis.var in panels.blocks]
    free = [axis for axis in work.stage.spatial if axis.var not in panels.blocks]
    bare = work.stores == (work.stage,)
    sums_stage = work.stage if bare else _sums_in_memory(work.stage)

    def task(numbers: list[ir.Expr]) -> Stmt:
        """Computes one task: the steps over panels of the reduction, then the stages that follow."""
        at = {axis.var: number for axis, number in zip(tiled, numbers, strict=True)}

        def pass_over(part: Work, ranges: Sequence[Range] | None) -> Stmt:
            return emit.nest(
                [axis.extent for axis in free],
                lambda rest: tiles_of(part, ranges, tiled, panels.blocks, at, dict(zip((a.var for a in free), rest))),
            )

        sums = replace(work, stage=sums_stage, stores=(sums_stage,))
        steps = emit.loop(
            panels.steps.count, lambda number: pass_over(replace(sums, start=sums_stage), panels.steps.ranges(number))
        )
        end = None if bare else pass_over(replace(work, start=sums_stage), None)
        return emit.sequence([pass_over(sums, None), steps, end])

    nest = emit.fused([index(panels.blocks[axis.var]) for axis in tiled], task, parallel)
    return nest if bare else emit.sequence([emit.allocate(sums_stage.buffer), nest])


def _sums_in_memory(stage: Stage) -> Stage:
    buffer = emit.scratch([axis.extent for axis in stage.spatial], stage.dtype, "sums")
    value = replace_loads(stage.value, stage.buffer, lambda indices: emit.load(buffer, indices))
    return replace(stage, buffer=buffer, value=value)
