"""Attention and similar chains: contractions that feed each other within a block of rows that stays in the cache.

Stages that need each other's values only within one block of rows run block by block; within a block they are scheduled
like a kernel of their own on one core. Values that only the block needs (scores, probabilities) are never stored as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import tvm_ffi
from tvm import ir
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import static
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.row_strips import emit_strips, rounds, strips_of
from tvtf.passes.schedule.cpu.substage import part_buffer, part_of, redirected
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.triangle import has_triangle, shortened
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand, terms_of

MIN_ROWS, MAX_ROWS = 32, 128
TASKS_PER_CORE = 2
Emit = Callable[[Sequence[Stage], Kernel, CpuTarget], Stmt]


@dataclass(frozen=True)
class Blocks:
    """A run of stages whose first `depth` axes number their rows; `order` holds each result's axes in memory order."""

    stages: tuple[Stage, ...]
    order: tuple[tuple[Axis, ...], ...]
    depth: int

    @property
    def rows(self) -> tuple[Axis, ...]:
        return self.stages[0].spatial[: self.depth]

    @property
    def is_cut(self) -> bool:
        """Whether the last row axis is cut into blocks: the rows of one block share some operand."""
        return any(_shares_an_operand(stage, self.depth) for stage in self.stages)


def blocks_at(stages: Sequence[Stage | Opaque], start: int) -> Blocks | None:
    """Returns the longest run of stages from `start` that reuses a contraction's results, or None."""
    first = stages[start]
    if not isinstance(first, Stage) or not has_reused_operand(first):
        return None
    # The longest run first; two contractions with a stage between them are the shortest.
    for stop in range(len(stages), start + 2, -1):
        blocks = _as_blocks(stages[start:stop])
        if blocks is not None:
            return blocks
    return None


def _as_blocks(stages: Sequence[Stage | Opaque]) -> Blocks | None:
    """Returns a run of stages as blocks, with as many row axes as all of them share, or None.

    Along these axes no stage depends on another row, so that blocks of rows can be computed one by one.
    """
    plain = [stage for stage in stages if isinstance(stage, Stage)]
    if len(plain) < len(stages) or sum(bool(stage.reduce) for stage in plain) < 2:
        return None
    buffers = [stage.buffer for stage in plain]
    ordered = [_rows_first(stage, buffers) for stage in plain]
    depth = min(len(stage.spatial) for stage in plain)
    while depth and not all(_stays_in_row(stage, ordered[0], buffers, depth) for stage in ordered):
        depth -= 1
    blocks = Blocks(tuple(ordered), tuple(stage.spatial for stage in plain), depth)
    return blocks if depth and _is_static(blocks) else None


def _rows_first(stage: Stage, buffers: Sequence[Var]) -> Stage:
    """Returns the stage with its axes in the order of the result that it reads, so that rows come first."""
    for load in stage.loads:
        if not stage.reduce and len(load.indices) == len(stage.spatial) and _is_any(load.source, buffers):
            axes = [next((a for a in stage.spatial if _is_place(place, a)), None) for place in load.indices]
            if None not in axes and len(set(axes)) == len(axes):
                return replace(stage, spatial=tuple(axis for axis in axes if axis is not None))
    return stage


def _stays_in_row(stage: Stage, first: Stage, buffers: Sequence[Var], depth: int) -> bool:
    """Returns whether a stage has the same rows as the first one, and reads the run's results in its own row only.

    Then blocks of rows don't depend on each other.
    """
    pairs = zip(stage.spatial[:depth], first.spatial, strict=False)
    if not all(static(emit.simplified(left.extent - right.extent)) == 0 for left, right in pairs):
        return False
    return all(
        all(_is_place(place, axis) for place, axis in zip(load.indices[:depth], stage.spatial[:depth], strict=True))
        for load in stage.loads
        if _is_any(load.source, buffers)
    )


def _is_any(buffer: Var, buffers: Sequence[Var]) -> bool:
    return any(buffer.same_as(other) for other in buffers)


def _is_place(place: ir.Expr, axis: Axis) -> bool:
    return tvm_ffi.structural_equal(place, axis.var)


def _is_static(blocks: Blocks) -> bool:
    """Returns whether a block's sizes are static, and each row has something to store."""
    inner = [axis for stage in blocks.stages for axis in (*stage.spatial[blocks.depth :], *stage.reduce)]
    last = blocks.rows[-1].size
    if any(axis.size is None for axis in inner):
        return False
    return last is not None if blocks.is_cut else all(len(stage.spatial) > blocks.depth for stage in blocks.stages)


def _shares_an_operand(stage: Stage, depth: int) -> bool:
    last = stage.spatial[depth - 1]
    return has_reused_operand(stage) and any(access.load_stride(term, last.var) == 0 for term in terms_of(stage))


def emit_blocks(blocks: Blocks, kernel: Kernel, needed: set[Var], target: CpuTarget, emit_all: Emit) -> Stmt:
    """Writes a parallel loop over blocks; `emit_all` writes one block."""

    def block(blocks: Blocks, places: list[ir.Expr], rows: int | None) -> Stmt:
        # Blocks are the parallel tasks; nothing inside of one is parallel.
        return _block(blocks, kernel, needed, replace(target, cores=1), emit_all, places, rows)

    def write(parallel: bool) -> Stmt:
        extents = [axis.extent for axis in blocks.rows]
        if not blocks.is_cut:
            return emit.fused(extents, lambda places: block(blocks, places, None), parallel)
        size, count = _block_rows(blocks, target)
        pieces = list(_pieces(blocks, size, needed))
        return emit.fused([*extents[:-1], count], lambda places: _piece(pieces, places, size, block), parallel)

    return is_parallel(blocks.stages, target, write)


class Piece(NamedTuple):
    """Blocks up to number `stop`, of `size` rows each, with the axis extents that they need."""

    blocks: Blocks
    stop: int
    size: int


def _pieces(blocks: Blocks, size: int, needed: set[Var]) -> Iterator[Piece]:
    """Yields whole blocks, then a shorter remainder; later blocks see more of a causal mask's triangle."""
    rows = [stage.spatial[blocks.depth - 1].var for stage in blocks.stages]
    local = [stage.buffer for stage in blocks.stages if stage.buffer not in needed]
    for _first, stop, count in rounds(int(blocks.rows[-1].extent), size, has_triangle(blocks.stages, rows)):
        last = (stop - 1) * size + count - 1
        yield Piece(replace(blocks, stages=tuple(shortened(blocks.stages, rows, last, local))), stop, count)


def _piece(pieces: Sequence[Piece], places: list[ir.Expr], size: int, block: Callable[..., Stmt]) -> Stmt:
    """Writes the block with a given number, by a chain of tests on the number."""
    *lead, number = places
    first, *rest = pieces
    first_block = block(first.blocks, [*lead, number * size], first.size)
    return (rest and emit.when(number < first.stop, first_block, _piece(rest, places, size, block))) or first_block


def _block_rows(blocks: Blocks, target: CpuTarget) -> tuple[int, int]:
    """Returns rows per block and the number of blocks: rows fit the level-2 cache, and every core gets work."""
    extent = int(blocks.rows[-1].extent)
    row_bytes = max(_row_bytes(stage, blocks.depth) for stage in blocks.stages)
    most = min(MAX_ROWS, max(MIN_ROWS, target.level2_bytes // 8 // row_bytes), extent)
    outer_rows = static(emit.volume([axis.extent for axis in blocks.rows[:-1]])) or 1
    if outer_rows * -(-extent // most) < TASKS_PER_CORE * target.cores:
        most = min(most, MIN_ROWS)
    # Equal blocks, so that the last one isn't much shorter.
    size = -(-extent // -(-extent // most))
    return size, -(-extent // size)


def _row_bytes(stage: Stage, depth: int) -> int:
    return prod(axis.size or 1 for axis in stage.spatial[depth:]) * stage.item_bytes


def _block(
    blocks: Blocks,
    kernel: Kernel,
    needed: set[Var],
    target: CpuTarget,
    emit_all: Emit,
    places: list[ir.Expr],
    rows: int | None,
) -> Stmt:
    """Writes one block: all stages on parts of the results, by strips if the rows are too many."""
    parts = [part_buffer(stage, blocks.depth, rows) for stage in blocks.stages]
    known = {stage.buffer: buffer for stage, buffer in zip(blocks.stages, parts, strict=True)}
    stages = [part_of(stage, known, blocks.depth, places, rows) for stage in blocks.stages]
    inner = Kernel(tuple(stages), tuple(new for old, new in known.items() if old not in needed))
    # Blocks of a cut run fit the cache already.
    strips = strips_of(stages, target) if rows is None else None

    def write(stages: Sequence[Stage], kernel: Kernel) -> Stmt:
        return emit_all(stages, kernel, target)

    body = write(stages, inner) if strips is None else emit_strips(strips, inner, write)
    for stage, order in zip(blocks.stages, blocks.order, strict=True):
        if stage.buffer in needed:
            body = redirected(body, known[stage.buffer], stage, order, blocks.depth, places, rows)
    return body
