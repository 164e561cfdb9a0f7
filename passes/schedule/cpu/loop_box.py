"""The loops over a box of points that stages share, with axes merged where all accesses allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute

Point = dict[Var, ir.Expr]


@dataclass(frozen=True)
class Loop:
    """Neighbouring axes merged to one loop, since every access walks them as one."""

    axes: tuple[Axis, ...]

    @property
    def extent(self) -> ir.Expr:
        return emit.volume([axis.extent for axis in self.axes])

    def point(self, place: ir.Expr) -> Point:
        """Returns the value of each axis at a place of the merged loop."""
        places = emit.unflatten(place, [axis.extent for axis in self.axes])
        return {axis.var: value for axis, value in zip(self.axes, places, strict=True)}


def on_same_axes(stages: Sequence[Stage]) -> list[Stage]:
    """Renames the axes of all stages to those of the first."""
    axes = stages[0].spatial
    return [stages[0], *(_renamed(stage, axes) for stage in stages[1:])]


def _renamed(stage: Stage, axes: tuple[Axis, ...]) -> Stage:
    values = {old.var: new.var for old, new in zip(stage.spatial, axes, strict=True)}
    return Stage(stage.buffer, axes, stage.reduce, stage.init, substitute(stage.value, values))


def merged_loops(stages: Sequence[Stage], fixed: Point) -> list[Loop]:
    """Merges neighbouring axes where every load and store walks them as one axis.

    A long innermost loop has more whole vectors and a smaller remainder than a short one that is repeated.
    """
    loops: list[Loop] = []
    offsets = _offsets(stages)
    bare = set().union(*(access.free_variables(stage.value) for stage in stages))
    for axis in stages[0].spatial:
        if axis.var in fixed:
            continue
        if loops and _merges(loops[-1].axes[-1], axis, offsets, bare):
            loops[-1] = Loop((*loops[-1].axes, axis))
        else:
            loops.append(Loop((axis,)))
    return loops


def _offsets(stages: Sequence[Stage]) -> list[ir.Expr]:
    offsets = [access.flat_offset(load.source, list(load.indices)) for stage in stages for load in stage.loads]
    offsets += [access.flat_offset(stage.buffer, [axis.var for axis in stage.spatial]) for stage in stages]
    return offsets


def _merges(outer: Axis, inner: Axis, offsets: list[ir.Expr], bare: set[Var]) -> bool:
    if inner.size == 1 and inner.var not in bare:
        return True
    if outer.var in bare or inner.var in bare:
        return False
    return all(access.walks_as_one(offset, outer, inner) for offset in offsets)


def stores_at(stages: Sequence[Stage], point: Point) -> Stmt:
    """Returns the stores of stages that share a box, at one of its points."""
    return emit.sequence([_store(stage, point) for stage in stages])


def _store(stage: Stage, point: Point) -> Stmt:
    return emit.store(stage.buffer, substitute(stage.value, point), [point[axis.var] for axis in stage.spatial])
