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
from tvtf.passes.schedule.cpu.tasks import TASKS_PER_CORE, along_axis
from tvtf.passes.schedule.cpu.transpose import transposed_copy, transposed_tile

# A tile to transpose is held in registers twice.
LANES_OF_A_TILE = 16
# If an operand's rows are pages apart, a cache line that two strips share is evicted before the second strip reads it.
TILES_OF_A_STRIP = 4
BRANCHES = {"prim.if_then_else", "tirx.if_then_else"}


@dataclass(frozen=True)
class Transposed:
    """Loads that are contiguous along `across`, while the results are contiguous along `along`."""

    loads: tuple[TensorLoad, ...]
    along: Loop
    across: Loop
    outer: tuple[Loop, ...]


def transposed_operands(stages: Sequence[Stage], loops: Sequence[Loop]) -> Transposed | None:
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
    return Transposed(tuple(far), along, loop, tuple(other for other in loops[:-1] if other is not loop))


def _is_far(load: TensorLoad, along: Loop) -> bool:
    step = access.load_stride(load, along.axes[-1].var)
    return step is not None and step > 1


def has_branch(value: ir.Expr) -> bool:
    names: set[str] = set()
    structural_walk(value, (ir.Call, lambda call: names.add(str(getattr(call.op, "name", "")))))
    return bool(names & BRANCHES)


def emit_transposed(
    stages: Sequence[Stage], transposed: Transposed, target: CpuTarget, parallel: bool, fixed: Point
) -> Stmt:
    """Writes tile after tile along the results' rows, which are written front to end."""
    lanes = min(LANES_OF_A_TILE, *(target.lanes(load.source.ty.dtype.dtype.bits // 8) for load in transposed.loads))
    parts = _parts(transposed, lanes, target) if parallel else [1, 1]
    rows, columns = (Axis(Var("part", "int64"), loop.extent) for loop in (transposed.along, transposed.across))

    def task(places: list[ir.Expr]) -> Stmt:
        """Computes one task: a strip of square tiles, each of which is transposed in registers."""
        base = dict(fixed)
        for loop, place in zip(transposed.outer, places, strict=False):
            base.update(loop.point(place))
        *_, number, part = places

        def row_of_tiles(start: ir.Expr, height: int) -> Stmt:
            def tile(first: ir.Expr, width: int) -> Stmt:
                return _tile(stages, _Tile(transposed, base, start, first, height, width), lanes, not parallel)

            return along_axis(columns, _sizes(columns, lanes), parts[0], number, tile)

        return along_axis(rows, _sizes(rows, lanes), parts[1], part, row_of_tiles)

    return emit.fused([*(loop.extent for loop in transposed.outer), *map(index, parts)], task, parallel)


def _parts(transposed: Transposed, lanes: int, target: CpuTarget) -> list[int]:
    """Returns how many chunks to cut the two loops into: each strip is a task, shorter ones where there are too few."""
    enough_tasks = TASKS_PER_CORE * target.cores
    strips, tiles = (
        max(1, (static(loop.extent) or enough_tasks * lanes) // lanes) for loop in (transposed.across, transposed.along)
    )
    tasks = strips * (static(emit.volume([loop.extent for loop in transposed.outer])) or 1)
    return [strips, min(tiles, -(-enough_tasks // tasks))]


def _sizes(axis: Axis, lanes: int) -> list[int]:
    if axis.size is None:
        return [lanes, 1]
    return [lanes, axis.size % lanes] if axis.size >= lanes else [axis.size]


@dataclass(frozen=True)
class _Tile:
    """A tile's position (`base`, `row` along the results, `column` across) and its extents."""

    transposed: Transposed
    base: Point
    row: ir.Expr
    column: ir.Expr
    height: int
    width: int

    def point(self, row: ir.Expr | int, column: ir.Expr | int) -> Point:
        along, across = self.transposed.along, self.transposed.across
        return {**self.base, **along.point(self.row + row), **across.point(self.column + column)}


def _tile(stages: Sequence[Stage], tile: _Tile, lanes: int, by_call: bool) -> Stmt:
    """Writes one tile: transposed operands in registers, then the stores along the results' rows.

    With `by_call`, a stage that only copies its operand calls a subroutine: 20 ns more a tile, and no code of its own.
    """
    # A single row or column needs no transpose.
    if tile.height == 1 or tile.width == 1:
        return emit.nest([tile.width, tile.height], lambda at: stores_at(stages, tile.point(at[1], at[0])))
    if by_call and len(stages) == 1 and tvm_ffi.structural_equal(stages[0].value, tile.transposed.loads[0]):
        return _copied(stages[0], tile, lanes)
    tiles = [emit.scratch([lanes * lanes], dtype_of(load), "turned", "local") for load in tile.transposed.loads]
    filled = [_transpose(load, buffer, tile, lanes) for load, buffer in zip(tile.transposed.loads, tiles, strict=True)]

    def stored(column: int) -> Stmt:
        def at(lane: ir.Expr) -> Stmt:
            read = [_reading(stage, tile.transposed, tiles, lane + column * lanes) for stage in stages]
            return stores_at(read, tile.point(lane, column))

        return emit.vectorized(tile.height, at)

    return emit.sequence([*map(emit.allocate, tiles), *filled, *map(stored, range(tile.width))])


def _copied(stage: Stage, tile: _Tile, lanes: int) -> Stmt:
    """Writes one tile of a stage that only copies its operand."""
    (load,) = tile.transposed.loads
    result = emit.load(stage.buffer, [axis.var for axis in stage.spatial])
    return transposed_copy(
        lambda row, lane: substitute(load, tile.point(row, lane)),
        lambda column, lane: substitute(result, tile.point(lane, column)),
        (tile.height, tile.width),
        lanes,
        dtype_of(load),
        is_padded=False,
    )


def _transpose(load: TensorLoad, buffer: Var, tile: _Tile, lanes: int) -> Stmt:
    """Transposes one operand's tile into a buffer."""
    return transposed_tile(
        lambda row, lane: substitute(load, tile.point(row, lane)),
        lambda column, lane, item: emit.store(buffer, item, [lane + column * lanes]),
        (tile.height, tile.width),
        lanes,
        dtype_of(load),
    )


def _reading(stage: Stage, transposed: Transposed, tiles: Sequence[Var], place: ir.Expr) -> Stage:
    """Returns a stage that reads its transposed operands from tiles."""

    def replacement(load: TensorLoad) -> ir.Expr:
        pairs = zip(transposed.loads, tiles, strict=True)
        return next(
            (emit.load(buffer, [place]) for other, buffer in pairs if tvm_ffi.structural_equal(load, other)), load
        )

    return with_value(stage, structural_map(stage.value, (TensorLoad, replacement)))


def dtype_of(load: TensorLoad) -> str:
    return str(load.source.ty.dtype.dtype)
