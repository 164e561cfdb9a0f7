"""Distributes register tiles over tasks: each thread's chunk of results, in an order that keeps operands in caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.product_tile import called_product
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile import Finish, Point, Range, Tile, clipped, row_tile
from tvtf.passes.schedule.cpu.tile_plan import Plan
from tvtf.passes.schedule.cpu.vector_axis import terms_of, vector_operand_bytes

TASKS_PER_CORE = 4
UNKNOWN_SIZE = 512


@dataclass(frozen=True)
class Work:
    """A planned reduction with its epilogue; `moved` shifts its results along some axes."""

    stage: Stage
    stores: tuple[Stage, ...]
    plan: Plan
    combine: Combine | None
    target: CpuTarget
    start: Stage | None = None
    moved: Point = field(default_factory=dict)

    @property
    def finish(self) -> Finish:
        return Finish(self.stage, self.stores, self.moved)


def tiled_sizes(work: Work) -> dict[Var, int]:
    """Returns the tile's extent per tiled result axis, the vector axis last."""
    if work.plan.along_rows:
        return work.plan.sizes
    return {**work.plan.sizes, work.plan.vector.var: work.plan.width}


def run_tasks(work: Work, ranges: Sequence[Range], parallel: bool, fixed: Point | None = None) -> Stmt:
    """Writes all results of a planned reduction over the given ranges; `fixed` holds the values of some result axes."""
    sizes, fixed = tiled_sizes(work), fixed or {}
    free = [axis for axis in work.stage.spatial if axis.var not in sizes and axis.var not in fixed]
    tiled = [axis for axis in work.stage.spatial if axis.var in sizes]
    tiled.sort(key=lambda axis: not axis.var.same_as(work.plan.vector.var))
    outer, inner = _split_free(free, work.target) if parallel else (free, [])
    # With a large filter, cores process all images with one panel before the next, not the whole filter for each image.
    stays = not fixed and vector_operand_bytes(work.stage, work.plan.vector) > work.target.level2_bytes
    blocks = _blocks(work, tiled, outer) if parallel or stays else {axis.var: 1 for axis in tiled}
    order = sorted(tiled, key=lambda axis: axis.var.same_as(work.plan.vector.var))

    if parallel and outer and prod(blocks.values()) > 1:
        stays = choice("panels outside", stays, lambda: (False, True))

    def task(places: list[ir.Expr]) -> Stmt:
        """Computes one task: the tiles at the given numbers, for all inner indices."""
        if stays:
            places = [*places[len(order) :], *places[: len(order)]]
        point = {**fixed, **{axis.var: place for axis, place in zip(outer, places, strict=False)}}
        numbers = {axis.var: place for axis, place in zip(order, places[len(outer) :], strict=True)}
        return emit.nest(
            [axis.extent for axis in inner],
            lambda rest: tiles_of(
                work,
                ranges,
                tiled,
                blocks,
                numbers,
                {**point, **{axis.var: place for axis, place in zip(inner, rest, strict=True)}},
            ),
        )

    extents = [axis.extent for axis in outer], [index(blocks[axis.var]) for axis in order]
    first, then = reversed(extents) if stays else extents
    return emit.fused([*first, *then], task, parallel)


def _split_free(free: list[Axis], target: CpuTarget) -> tuple[list[Axis], list[Axis]]:
    """Splits free axes into those for parallel tasks, and those to loop over in a task once there are enough tasks.

    Loops inside a task cost less than tasks do.
    """
    tasks = 1
    for position, axis in enumerate(free):
        if tasks >= 4 * TASKS_PER_CORE * target.cores:
            return free[:position], free[position:]
        tasks *= axis.size or 1
    return free, []


def _blocks(work: Work, tiled: list[Axis], outer: list[Axis]) -> dict[Var, int]:
    """Returns how many blocks to cut each tiled axis into: for the cache, and so that every core has work."""
    sizes = tiled_sizes(work)
    least = choice("tasks a core", TASKS_PER_CORE, lambda: (1, 2, 8, 16))
    blocks = {axis.var: _cache_blocks(work, axis, sizes[axis.var]) for axis in tiled}
    tasks = prod(axis.size or 1 for axis in outer) * prod(blocks.values())
    for axis in tiled:
        factor = -(-least * work.target.cores // tasks)
        if factor <= 1:
            break
        # A block has at least one tile.
        most_blocks = max(1, (axis.size or UNKNOWN_SIZE) // sizes[axis.var])
        more = max(blocks[axis.var], min(factor * blocks[axis.var], most_blocks))
        tasks = tasks * more // blocks[axis.var]
        blocks[axis.var] = more
    return blocks


def _cache_blocks(work: Work, axis: Axis, size: int) -> int:
    """Returns the blocks of an axis: each panel of the vector axis is one; blocks of rows fit the level-2 cache.

    Rows of a block are read again for each panel.
    """
    tile_count = max(1, (axis.size or UNKNOWN_SIZE) // size)
    if axis.var.same_as(work.plan.vector.var):
        return tile_count if axis.size is not None and reduce_points(work) * size > 4096 else 1
    bytes_of_block = size * reduce_points(work) * work.stage.item_bytes
    share = choice("share of level 2", 0.5, lambda: (0.125, 0.25, 1.0, 4.0))
    tiles = max(1, int(work.target.level2_bytes * share) // max(1, bytes_of_block))
    return -(-tile_count // tiles)


def reduce_points(work: Work) -> int:
    """Returns the terms of one result; symbolic extents count as 512."""
    return prod(axis.size or UNKNOWN_SIZE for axis in work.stage.reduce)


def tiles_of(
    work: Work,
    ranges: Sequence[Range] | None,
    tiled: list[Axis],
    blocks: dict[Var, int],
    numbers: dict[Var, ir.Expr],
    base: Point,
    sizes: dict[Var, int] | None = None,
) -> Stmt:
    """Writes the tiles of one block, one axis after the other.

    `numbers` selects the block among the `blocks` of each axis; without ranges the tiles are stored but not summed.
    """
    sizes = sizes or {}
    if not tiled:
        return _tile(work, ranges, Tile(base, sizes))
    axis, rest = tiled[0], tiled[1:]

    def body(start: ir.Expr, size: int) -> Stmt:
        return tiles_of(work, ranges, rest, blocks, numbers, {**base, axis.var: start}, {**sizes, axis.var: size})

    return along_axis(axis, _cascade(work, axis), blocks[axis.var], numbers[axis.var], body)


def _cascade(work: Work, axis: Axis) -> list[int]:
    """Returns the tile extents to use one after another along an axis until nothing is left."""
    size = tiled_sizes(work)[axis.var]
    if axis.size is not None:
        return [size, axis.size % size] if axis.size >= size else [axis.size]
    steps = [size, work.plan.lanes, 1] if axis.var.same_as(work.plan.vector.var) else [size, 1]
    return sorted(set(steps), reverse=True)


def along_axis(
    axis: Axis, cascade: list[int], blocks: int, number: ir.Expr, body: Callable[[ir.Expr, int], Stmt]
) -> Stmt:
    """Writes the whole tiles of one block, then (in the last block) smaller tiles for the remainder.

    Blocks of equal numbers of tiles keep cores equally busy; the remainder is less than a tile.
    """
    size = cascade[0]
    tile_count = emit.simplified(tirx.floordiv(axis.extent, index(size)))
    first, count = emit.share(tile_count, number, blocks)
    main = _tiles_of(count, lambda tile: body((first + tile) * size, size))
    rest = _rest(axis, cascade[1:], emit.simplified(tile_count * size), body)
    return emit.sequence(
        [
            None if static(tile_count) == 0 else main,
            None if rest is None else emit.when(True if blocks == 1 else number == blocks - 1, rest),
        ]
    )


def _tiles_of(count: ir.Expr, body: Callable[[ir.Expr], Stmt]) -> Stmt:
    """Writes two tiles out: LLVM would unroll a loop of two, and then keep the accumulators of both in memory."""
    return emit.sequence([body(index(0)), body(index(1))]) if static(count) == 2 else emit.loop(count, body)


def _tiles_from(start: ir.Expr, size: int, count: ir.Expr, body: Callable[[ir.Expr, int], Stmt]) -> Stmt:
    return emit.loop(count, lambda tile: body(start + tile * size, size))


def _rest(axis: Axis, cascade: list[int], start: ir.Expr, body: Callable[[ir.Expr, int], Stmt]) -> Stmt | None:
    """Writes the remainder of an axis by ever smaller tiles; None if there is none.

    No tile may reach beyond the end of the axis.
    """
    parts: list[Stmt | None] = []
    for size in cascade:
        count = emit.simplified(tirx.floordiv(axis.extent - start, index(size))) if size else index(0)
        if static(count) != 0:
            parts.append(_tiles_from(start, size, count, body))
        start = emit.simplified(start + count * max(1, size))
    return emit.sequence(parts) if any(parts) else None


def _tile(work: Work, ranges: Sequence[Range] | None, tile: Tile) -> Stmt:
    """Writes one tile, with vectors along terms or along results as planned."""
    plan = work.plan
    if ranges is not None and work.combine is not None and plan.along_rows:
        # The axis of the vectors comes last, as the innermost loop.
        ordered = sorted(ranges, key=lambda part: part.axis.var.same_as(plan.vector.var))
        return row_tile(work.stage, tile, plan.lanes, plan.vectors, ordered, work.combine, work.finish)
    column = ColumnTile(work.stage, tile, plan.vector, plan.lanes, plan.padded)
    if ranges is None:
        return column.write(None, work.start, work.finish)
    base = {**tile.base, **{var: tile.base[var] + by for var, by in work.moved.items()}}
    parts = [clipped(part, work.stage.clips, base, tile.sizes) for part in ranges]
    streamed = _streamed(work, ranges)
    call = called_product(column, parts, work.start, work.finish, streamed is not None)
    return call or column.write(parts, work.start, work.finish, streamed)


def _streamed(work: Work, ranges: Sequence[Range]) -> TensorLoad | None:
    """Returns the operand that vectors are loaded from, if it is read in memory order and exceeds the cache."""
    along = [term for term in terms_of(work.stage) if access.load_stride(term, work.plan.vector.var) != 0]
    if len(along) != 1 or vector_operand_bytes(work.stage, work.plan.vector) <= work.target.level2_bytes:
        return None
    follows = access.load_stride(along[0], ranges[-1].axis.var) == work.plan.width
    return along[0] if follows and work.stage.dtype in ("float32", "float64") else None
