"""Packing: a contiguous copy of an operand, panel by panel, in the order a tiled reduction reads it."""

from __future__ import annotations

from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from . import access, emit
from .emit import index
from .kernel import Axis, Stage, substitute, variables, with_value
from .plan import Packing, Plan
from .target import CpuTarget
from .work import WORTHWHILE_CYCLES

CYCLES_AN_ITEM = 1


@dataclass(frozen=True)
class Panel:
    """A packed operand: `buffer[panel, *axes, lane]`."""

    buffer: Var
    load: TensorLoad
    vector: Axis
    axes: tuple[Axis, ...]
    width: int

    def at(self) -> ir.Expr:
        """The packed element that stands for the load."""
        panel, lane = (
            tirx.floordiv(self.vector.var, index(self.width)),
            tirx.floormod(self.vector.var, index(self.width)),
        )
        return emit.load(self.buffer, [panel, *(axis.var for axis in self.axes), lane])


def packed(stage: Stage, plan: Plan, target: CpuTarget, parallel: bool) -> tuple[Stage, list[Stmt]]:
    """The stage reading packed operands, and the statements that pack them."""
    statements: list[Stmt] = []
    for packing in plan.packed:
        panel = _panel(stage, packing)
        stage = with_value(stage, _with_panel(stage.value, panel))
        statements += [emit.allocate(panel.buffer), _pack(panel, target, parallel)]
    return stage, statements


def _panel(stage: Stage, packing: Packing) -> Panel:
    load, along, width = packing.load, packing.axis, packing.width
    used = variables(access.flat_offset(load.source, list(load.indices)))
    axes = [axis for axis in stage.axes if axis.var in used and not axis.var.same_as(along.var)]
    shape = [-(-int(along.extent) // width), *(axis.extent for axis in axes), width]
    buffer = emit.scratch(shape, str(load.source.ty.dtype.dtype), "packed")
    return Panel(buffer, load, along, tuple(axes), width)


def _with_panel(value: ir.Expr, panel: Panel) -> ir.Expr:
    def swap(load: TensorLoad) -> ir.Expr:
        return panel.at() if tvm_ffi.structural_equal(load, panel.load) else load

    return tvm_ffi.structural_map(value, (TensorLoad, swap))


def _pack(panel: Panel, target: CpuTarget, parallel: bool) -> Stmt:
    whole, rest = divmod(int(panel.vector.extent), panel.width)
    points = access.points((panel.vector, *panel.axes))
    parallel = parallel and (points is None or points * CYCLES_AN_ITEM > WORTHWHILE_CYCLES)
    main = _copy(panel, index(0), whole, panel.width, target, parallel)
    tail = _copy(panel, index(whole), 1, rest, target, False) if rest else None
    return emit.sequence([main, tail])


def _copy(panel: Panel, first: ir.Expr, count: int, width: int, target: CpuTarget, parallel: bool) -> Stmt:
    lanes = target.lanes(panel.load.ty.dtype.bits // 8)
    axes = panel.axes

    rows = [axis.extent for axis in axes]
    by_panel = access.load_stride(panel.load, panel.vector.var) != 1

    def task(places: list[ir.Expr]) -> Stmt:
        number, inner = (places[0], places[1:]) if by_panel else (places[-1], places[:-1])
        point = {axis.var: place for axis, place in zip(axes, inner, strict=True)}
        vectors = emit.lane_chunks(width, lanes)
        return emit.sequence([_copy_vector(panel, first + number, point, *vector) for vector in vectors])

    return emit.fused([count, *rows] if by_panel else [*rows, count], task, parallel)


def _copy_vector(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], start: int, lanes: int) -> Stmt:
    return emit.vectorized(lanes, lambda lane: _copy_item(panel, number, point, lane + start))


def _copy_item(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], lane: ir.Expr) -> Stmt:
    item = substitute(panel.load, {**point, panel.vector.var: number * panel.width + lane})
    return emit.store(panel.buffer, item, [number, *(point[axis.var] for axis in panel.axes), lane])
