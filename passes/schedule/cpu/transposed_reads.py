"""Elementwise stages whose operands are contiguous along another axis: transposes tiles of them in registers.

Transposes are up to 19 times as fast this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute, with_value
from tvtf.passes.schedule.cpu.loop_box import Loop, Point, stores_at
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import TASKS_A_CORE, along_axis
from tvtf.passes.schedule.cpu.transpose import turned_block

# A tile to transpose is held in registers twice.
LANES_OF_A_BLOCK = 16
# If an operand's rows are pages apart, a cache line that two strips share is evicted before the second strip reads it.
BLOCKS_OF_A_STRIP = 4
BRANCHES = {"prim.if_then_else", "tirx.if_then_else"}


@dataclass(frozen=True)
class Turned:
    """Loads that are contiguous along `across`, while the results are contiguous along `along`."""

    loads: tuple[TensorLoad, ...]
    along: Loop
    across: Loop
    others: tuple[Loop, ...]


def turned_operands(stages: Sequence[Stage], loops: Sequence[Loop]) -> Turned | None:
    """Returns the operands to transpose, if all are contiguous along one other loop and read unconditionally."""
    if len(loops) < 2 or any(has_branch(stage.value) for stage in stages):
        return None
    along = loops[-1]
    far = [load for stage in stages for load in stage.loads if _is_far(load, along)]
    loop = next((loop for loop in loops[:-1] if far and access.load_stride(far[0], loop.axes[-1].var) == 1), None)
    if loop is None or not all(access.load_stride(load, loop.axes[-1].var) == 1 for load in far):
        return None
    if any(dtype_of(load) == "bool" for load in far):
        return None
    return Turned(tuple(far), along, loop, tuple(other for other in loops[:-1] if other is not loop))


def _is_far(load: TensorLoad, along: Loop) -> bool:
    step = access.load_stride(load, along.axes[-1].var)
    return step is not None and step > 1


def has_branch(value: ir.Expr) -> bool:
    names: set[str] = set()
    structural_walk(value, (ir.Call, lambda call: names.add(str(getattr(call.op, "name", "")))))
    return bool(names & BRANCHES)


def emit_turned(stages: Sequence[Stage], turned: Turned, target: CpuTarget, parallel: bool, fixed: Point) -> Stmt:
    """Writes tile after tile along the results' rows, which are written front to end."""
    lanes = min(LANES_OF_A_BLOCK, *(target.lanes(load.source.ty.dtype.dtype.bits // 8) for load in turned.loads))
    parts = _parts(turned, lanes, target) if parallel else [1, 1]
    rows, columns = (Axis(Var("part", "int64"), loop.extent) for loop in (turned.along, turned.across))

    def task(places: list[ir.Expr]) -> Stmt:
        base = dict(fixed)
        for loop, place in zip(turned.others, places, strict=False):
            base.update(loop.point(place))
        *_, number, part = places

        def row_of_blocks(start: ir.Expr, height: int) -> Stmt:
            def block(first: ir.Expr, width: int) -> Stmt:
                return _block(stages, _Block(turned, base, start, first, height, width), lanes)

            return along_axis(columns, _sizes(columns, lanes), parts[0], number, block)

        return along_axis(rows, _sizes(rows, lanes), parts[1], part, row_of_blocks)

    return emit.fused([*(loop.extent for loop in turned.others), *map(index, parts)], task, parallel)


def _parts(turned: Turned, lanes: int, target: CpuTarget) -> list[int]:
    """Returns how many chunks to cut the two loops into: each strip is a task, shorter ones where there are too few."""
    wanted = TASKS_A_CORE * target.cores
    strips, blocks = (
        max(1, (static(loop.extent) or wanted * lanes) // lanes) for loop in (turned.across, turned.along)
    )
    tasks = strips * (static(emit.volume([loop.extent for loop in turned.others])) or 1)
    return [strips, min(blocks, -(-wanted // tasks))]


def _sizes(axis: Axis, lanes: int) -> list[int]:
    if axis.size is None:
        return [lanes, 1]
    return [lanes, axis.size % lanes] if axis.size >= lanes else [axis.size]


@dataclass(frozen=True)
class _Block:
    """A tile's position (`base`, `row` along the results, `column` across) and its extents."""

    turned: Turned
    base: Point
    row: ir.Expr
    column: ir.Expr
    height: int
    width: int

    def point(self, row: ir.Expr | int, column: ir.Expr | int) -> Point:
        along, across = self.turned.along, self.turned.across
        return {**self.base, **along.point(self.row + row), **across.point(self.column + column)}


def _block(stages: Sequence[Stage], block: _Block, lanes: int) -> Stmt:
    if block.height == 1 or block.width == 1:
        return emit.nest([block.width, block.height], lambda at: stores_at(stages, block.point(at[1], at[0])))
    held = [emit.scratch([lanes * lanes], dtype_of(load), "turned", "local") for load in block.turned.loads]
    filled = [_turn(load, buffer, block, lanes) for load, buffer in zip(block.turned.loads, held, strict=True)]

    def stored(column: int) -> Stmt:
        def at(lane: ir.Expr) -> Stmt:
            read = [_reading(stage, block.turned, held, lane + column * lanes) for stage in stages]
            return stores_at(read, block.point(lane, column))

        return emit.vectorized(block.height, at)

    return emit.sequence([*map(emit.allocate, held), *filled, *map(stored, range(block.width))])


def _turn(load: TensorLoad, buffer: Var, block: _Block, lanes: int) -> Stmt:
    return turned_block(
        lambda row, lane: substitute(load, block.point(row, lane)),
        lambda column, lane, item: emit.store(buffer, item, [lane + column * lanes]),
        (block.height, block.width),
        lanes,
        dtype_of(load),
    )


def _reading(stage: Stage, turned: Turned, held: Sequence[Var], place: ir.Expr) -> Stage:
    def given(load: TensorLoad) -> ir.Expr:
        pairs = zip(turned.loads, held, strict=True)
        return next((emit.load(own, [place]) for other, own in pairs if tvm_ffi.structural_equal(load, other)), load)

    return with_value(stage, structural_map(stage.value, (TensorLoad, given)))


def dtype_of(load: TensorLoad) -> str:
    return str(load.source.ty.dtype.dtype)
