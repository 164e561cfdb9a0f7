"""Packing: a contiguous copy of an operand, panel by panel, in the order in which a tiled reduction reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute, variables, with_value
from tvtf.passes.schedule.cpu.parallel_threshold import WORTHWHILE_CYCLES, is_small_box
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import Packing, Plan
from tvtf.passes.schedule.cpu.transpose import transposed_copy
from tvtf.passes.schedule.cpu.vector_axis import PAGE_BYTES

CYCLES_AN_ITEM = 1
STEPS_PER_CHUNK = 8
# A tile to transpose is held in registers twice.
LANES_OF_A_TILE = 16


@dataclass(frozen=True)
class Panel:
    """A packed operand: `buffer[panel, *axes, lane]`, with `pitch` lanes, the first `width` of them used."""

    buffer: Var
    load: TensorLoad
    vector: Axis
    axes: tuple[Axis, ...]
    width: int
    pitch: int
    lanes: int

    def at(self) -> ir.Expr:
        """Returns the packed element that replaces the load."""
        panel = tirx.floordiv(self.vector.var, index(self.width))
        lane = tirx.floormod(self.vector.var, index(self.width))
        return emit.load(self.buffer, [panel, *(axis.var for axis in self.axes), lane])

    @property
    def size(self) -> int:
        return int(self.vector.extent)

    @property
    def count(self) -> int:
        """Pieces along the packed axis that are copied at a time: panels, or vectors of panels to transpose."""
        return -(-self.size // (self.lanes if self.is_transposed else self.width))

    @property
    def step(self) -> int:
        """How many places of the last axis are copied together."""
        last = self.axes[-1].size if self.axes else None
        return 1 if last is None else min(last, self.lanes if self.is_transposed else STEPS_PER_CHUNK)

    @property
    def is_contiguous(self) -> bool:
        return access.load_stride(self.load, self.vector.var) == 1

    @property
    def is_transposed(self) -> bool:
        """Whether the operand is contiguous along the last axis, not along the panel, and is transposed by packing."""
        last = self.axes[-1] if self.axes else None
        # The transpose in registers is of squares whose side is a power of two.
        if last is None or last.size is None or last.size < self.lanes or self.lanes & (self.lanes - 1):
            return False
        if is_small_box((self.vector, *self.axes)):
            return False
        return not self.is_contiguous and self.width == self.pitch and access.load_stride(self.load, last.var) == 1


def packed(stage: Stage, plan: Plan, target: CpuTarget, parallel: bool) -> tuple[Stage, list[Stmt]]:
    """Returns the stage reading packed operands, and the statements that pack them.

    A tile then reads its panel front to back, in whole vectors.
    """
    statements: list[Stmt] = []
    for packing in plan.packed:
        panel = _panel(stage, packing, target)
        stage = with_value(stage, _with_panel(stage.value, panel))
        statements += [emit.allocate(panel.buffer), _pack(panel, parallel)]
    return stage, statements


def transposed(stage: Stage, plan: Plan, target: CpuTarget) -> tuple[Stage, list[Stmt]]:
    """Returns the stage reading a copy of the plan's `transposed` operand, and the statements that make it.

    Vectors of terms then run along its memory.
    """
    load = plan.transposed
    if load is None:
        return stage, []
    used = variables(access.flat_offset(load.source, list(load.indices)))
    axes = [axis for axis in stage.axes if axis.var in used and not axis.var.same_as(plan.vector.var)]
    new_axes = [replace(axis, var=Var(axis.var.name, "int64")) for axis in (*axes, plan.vector)]
    places = [axis.var for axis in (*axes, plan.vector)]
    buffer = emit.scratch([axis.extent for axis in new_axes], str(load.source.ty.dtype.dtype), "turned")
    value = substitute(load, dict(zip(places, (axis.var for axis in new_axes), strict=True)))
    copy = emit_elementwise([Stage(buffer, tuple(new_axes), (), None, value)], target)

    def swap(other: TensorLoad) -> TensorLoad:
        return emit.load(buffer, places) if tvm_ffi.structural_equal(other, load) else other

    value = structural_map(stage.value, (TensorLoad, swap))
    return with_value(stage, value), [emit.allocate(buffer), copy]


def _panel(stage: Stage, packing: Packing, target: CpuTarget) -> Panel:
    """Returns the panel for an operand, its pitch rounded up to whole vectors.

    Whole vectors are read from it without tests; a pitch of a page would put its rows into one cache set.
    """
    load, along, width = packing.load, packing.axis, packing.width
    used = variables(access.flat_offset(load.source, list(load.indices)))
    axes = tuple(axis for axis in stage.axes if axis.var in used and not axis.var.same_as(along.var))
    item = load.ty.dtype.bits // 8
    lanes = min(target.lanes(item), LANES_OF_A_TILE)
    pitch = -(-width // lanes) * lanes
    shape = _without_page_stride([axis.extent for axis in axes], pitch * item)
    buffer = emit.scratch([-(-int(along.extent) // width), *shape, pitch], str(load.source.ty.dtype.dtype), "packed")
    return Panel(buffer, load, along, axes, width, pitch, lanes)


def _without_page_stride(extents: list[ir.Expr], row_bytes: int) -> list[ir.Expr]:
    """Adds one place to the last axis where panels would be whole pages apart, and conflict in the cache."""
    rows = emit.static(emit.volume(extents))
    if not extents or rows is None or rows * row_bytes % PAGE_BYTES:
        return extents
    return [*extents[:-1], emit.simplified(extents[-1] + 1)]


def _with_panel(value: ir.Expr, panel: Panel) -> ir.Expr:
    def swap(load: TensorLoad) -> ir.Expr:
        return panel.at() if tvm_ffi.structural_equal(load, panel.load) else load

    return structural_map(value, (TensorLoad, swap))


def _pack(panel: Panel, parallel: bool) -> Stmt:
    """Writes a parallel loop over chunks of all panels; an axis's last chunk overlaps the one before, to be whole."""
    points = access.points((panel.vector, *panel.axes))
    parallel = parallel and (points is None or points * CYCLES_AN_ITEM > WORTHWHILE_CYCLES)
    last = panel.axes[-1].extent if panel.axes else index(1)
    outer = [axis.extent for axis in panel.axes[:-1]]
    chunks = emit.simplified(tirx.floordiv(last + (panel.step - 1), index(panel.step)))

    def task(places: list[ir.Expr]) -> Stmt:
        *around, chunk = places if panel.is_transposed else [*places[:-2], places[-1], places[-2]]
        number = around.pop()
        start = emit.simplified(tirx.min(chunk * panel.step, last - panel.step))
        point = {axis.var: place for axis, place in zip(panel.axes, around, strict=False)}
        return _chunk(panel, number, point, start)

    order = [panel.count, chunks] if panel.is_transposed else [chunks, panel.count]
    return emit.fused([*outer, *order], task, parallel)


def _chunk(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], start: ir.Expr) -> Stmt:
    """Writes one chunk: a few places of the last axis of one piece, which may be the shorter last piece."""
    size = panel.lanes if panel.is_transposed else panel.width
    whole_pieces, rest = divmod(panel.size, size)
    write = _transposed if panel.is_transposed else _wide
    full = write(panel, number, point, start, size)
    if not rest:
        return full
    write_last = _transposed if panel.is_transposed else _copy
    last = write_last(panel, number, point, start, rest)
    return last if not whole_pieces else emit.when(number < whole_pieces, full, last)


def _wide(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], start: ir.Expr, width: int) -> Stmt:
    """Copies a whole panel, with the items after it in memory where that makes whole vectors."""
    exact = _copy(panel, number, point, start, width)
    if width == panel.pitch or not panel.is_contiguous or panel.size < panel.pitch:
        return exact
    wider = _copy(panel, number, point, start, panel.pitch)
    return emit.when(number * width + panel.pitch <= panel.size, wider, exact)


def _copy(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], start: ir.Expr, width: int) -> Stmt:
    """Copies some places of a panel, in vectors along its width."""
    spans = emit.vector_spans(width, panel.lanes)
    last = panel.axes[-1:]

    def row(place: ir.Expr) -> Stmt:
        here = {**point, **{axis.var: place for axis in last}}
        return emit.sequence([_copy_vector(panel, number, here, *span) for span in spans])

    return emit.loop(panel.step, lambda step: row(start + step))


def _transposed(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], start: ir.Expr, rows: int) -> Stmt:
    """Copies a square of a panel by a transpose in registers: its source is contiguous along the other axis."""
    last, vectors = panel.axes[-1].var, panel.width // panel.lanes
    panel_number, first = tirx.floordiv(number, index(vectors)), tirx.floormod(number, index(vectors)) * panel.lanes
    if panel.size <= panel.width:
        panel_number, first = index(0), number * panel.lanes

    def read(row: int, lane: ir.Expr) -> TensorLoad:
        return _item(panel, panel_number, {**point, last: start + lane}, first + row)

    def write(column: int, lane: ir.Expr) -> TensorLoad:
        return _place(panel, panel_number, {**point, last: start + column}, first + lane)

    return transposed_copy(read, write, (rows, panel.lanes), panel.lanes, str(panel.load.source.ty.dtype.dtype))


def _copy_vector(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], start: int, lanes: int) -> Stmt:
    """Copies some lanes and fills their vector with zeros: those lanes are multiplied, though never stored."""
    filled = emit.vectorized(lanes, lambda lane: _copy_item(panel, number, point, lane + start))
    if lanes == panel.lanes:
        return filled
    zero, first = tirx.const(0, str(panel.load.source.ty.dtype.dtype)), start + lanes
    empty = emit.vectorized(panel.lanes - lanes, lambda lane: _store(panel, number, point, lane + first, zero))
    return emit.sequence([filled, empty])


def _copy_item(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], lane: ir.Expr) -> Stmt:
    return _store(panel, number, point, lane, _item(panel, number, point, lane))


def _item(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], lane: ir.Expr) -> TensorLoad:
    return substitute(panel.load, {**point, panel.vector.var: number * panel.width + lane})


def _store(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], lane: ir.Expr, item: ir.Expr) -> Stmt:
    place = _place(panel, number, point, lane)
    return emit.store(panel.buffer, item, place.indices)


def _place(panel: Panel, number: ir.Expr, point: dict[Var, ir.Expr], lane: ir.Expr) -> TensorLoad:
    """Returns the item of the packed copy at a place."""
    return emit.load(panel.buffer, [number, *(point[axis.var] for axis in panel.axes), lane])
