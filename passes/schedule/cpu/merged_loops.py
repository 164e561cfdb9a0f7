"""The loops that elementwise stages of equal extents share, with axes merged where all accesses allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, indices_of_axes, substitute


@dataclass(frozen=True)
class Loop:
    """Neighbouring axes merged to one loop, which is possible if all accesses move through memory as along one axis."""

    axes: tuple[Axis, ...]

    @property
    def extent(self) -> ir.Expr:
        """The product of the merged axes' extents."""
        return emit.volume([axis.extent for axis in self.axes])

    def axis_indices(self, position: ir.Expr) -> AxisIndices:
        """Converts an index of the merged loop to the index along each axis."""
        return indices_of_axes(self.axes, position)


def on_same_axes(stages: Sequence[Stage]) -> list[Stage]:
    """Returns stages of equal extents with their axis variables replaced by those of the first stage."""
    axes = stages[0].spatial
    return [stages[0], *(_on_axes(stage, axes) for stage in stages[1:])]


def _on_axes(stage: Stage, axes: tuple[Axis, ...]) -> Stage:
    """Returns a stage with its result axes replaced by other axes of the same extents."""
    new_vars = {old.var: new.var for old, new in zip(stage.spatial, axes, strict=True)}
    return Stage(stage.buffer, axes, stage.reduce, stage.init, substitute(stage.value, new_vars))


def merged_loops(stages: Sequence[Stage], fixed: AxisIndices) -> list[Loop]:
    """Returns the loops of elementwise stages; neighbouring axes are merged into one loop if all accesses allow this.

    Each load and store must access memory as along a single axis. A long innermost loop has more full vectors and fewer
    remaining elements.

    Args:
        stages: the stages, which have the same axes.
        fixed: the values of axes that need no loop.
    """
    loops: list[Loop] = []
    offsets = _memory_offsets(stages)
    vars_in_values = set().union(*(access.free_variables(stage.value) for stage in stages))
    for axis in stages[0].spatial:
        if axis.var in fixed:
            continue
        if loops and _can_merge(_last_moving_axis(loops[-1]), axis, offsets, vars_in_values):
            loops[-1] = Loop((*loops[-1].axes, axis))
        else:
            loops.append(Loop((axis,)))
    return loops


def _memory_offsets(stages: Sequence[Stage]) -> list[ir.Expr]:
    """Returns the offsets in memory of all loads and stores of some stages."""
    offsets = [access.flat_offset(load.source, list(load.indices)) for stage in stages for load in stage.loads]
    offsets += [access.flat_offset(stage.buffer, [axis.var for axis in stage.spatial]) for stage in stages]
    return offsets


def _last_moving_axis(loop: Loop) -> Axis:
    """Returns the innermost axis of a loop that isn't of size 1: the stride of one that is says nothing of the loop."""
    return next((axis for axis in reversed(loop.axes) if axis.size != 1), loop.axes[-1])


def _can_merge(outer: Axis, inner: Axis, offsets: list[ir.Expr], vars_in_values: set[Var]) -> bool:
    """Returns whether two neighbouring axes can be one loop: all memory offsets move as along one axis.

    Args:
        outer, inner: the axes, with none between them but of size 1.
        offsets: the positions in memory that the loops access.
        vars_in_values: the variables of axes that a value uses other than in indices. Such axes can't be merged.
    """
    if inner.size == 1 and inner.var not in vars_in_values:
        return True
    if outer.var in vars_in_values or inner.var in vars_in_values:
        return False
    return all(access.moves_as_one_axis(offset, outer, inner) for offset in offsets)


def stores_at(stages: Sequence[Stage], axis_indices: AxisIndices) -> Stmt:
    """Returns the stores of all stages in one iteration."""
    return emit.sequence([_store_at(stage, axis_indices) for stage in stages])


def _store_at(stage: Stage, axis_indices: AxisIndices) -> Stmt:
    """Returns the store of one stage in an iteration."""
    return emit.store(
        stage.buffer, substitute(stage.value, axis_indices), [axis_indices[axis.var] for axis in stage.spatial]
    )
