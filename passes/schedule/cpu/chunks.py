"""Fuses an expensive stage with the pass over its results, chunk by chunk: the results stay in the level-1 cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import vectors
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, reads, replace_loads, substitute, with_value
from tvtf.passes.schedule.cpu.loop_box import Loop, merged_loops, on_same_axes, stores_at
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.short_axis import emit_short, shares_work
from tvtf.passes.schedule.cpu.target import CpuTarget

# Share of the level-1 cache that the results of one chunk take.
PARTS_OF_LEVEL1 = 4


@dataclass(frozen=True)
class Chunks:
    """Stages over one box that read a source's results only at their own place in memory."""

    source: Stage
    rest: tuple[Stage, ...]
    loop: Loop

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.source, *self.rest


def as_chunks(source: Stage, rest: Sequence[Stage], later: Sequence[Stage | Opaque], kernel: Kernel) -> Chunks | None:
    """Returns the source and its readers as chunks, if nothing else needs the source's results.

    Then the results are never written to memory: the pass over a chunk reads them from the cache.
    """
    if not shares_work(source) or not kernel.is_local(source.buffer) or rest[0].reduce:
        return None
    aligned = on_same_axes(rest)
    loops = merged_loops(aligned, {})
    if len(loops) != 1 or any(reads(other, source.buffer) for other in later):
        return None
    source_loads = [(stage, load) for stage in aligned for load in access.reads_of(stage, source.buffer)]
    if not source_loads or not all(
        _is_own_place(stage, list(load.indices), source.buffer) for stage, load in source_loads
    ):
        return None
    return Chunks(source, tuple(aligned), loops[0])


def _is_own_place(stage: Stage, indices: list[ir.Expr], buffer: Var) -> bool:
    own_offset = access.flat_offset(stage.buffer, [axis.var for axis in stage.spatial])
    return emit.static(emit.simplified(access.flat_offset(buffer, indices) - own_offset)) == 0


def emit_chunks(chunks: Chunks, target: CpuTarget) -> Stmt:
    """Writes a parallel loop over chunks; the last one may be shorter."""
    source, points = chunks.source, chunks.loop.extent
    length = int(source.spatial[-1].extent)
    size = max(1, target.level1_bytes // PARTS_OF_LEVEL1 // (length * source.item_bytes))
    whole_chunks = emit.simplified(tirx.floordiv(points, index(size * length)))
    remaining = emit.simplified(points - whole_chunks * (size * length))

    def write(parallel: bool) -> Stmt:
        """Loops over whole chunks, and ends with the remaining part of one."""
        kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
        main = emit.loop(
            whole_chunks, lambda number: _chunk(chunks, number * size, size, index(size * length), target), kind
        )
        blocks = emit.simplified(tirx.floordiv(remaining + (length - 1), index(length)))
        tail = None if emit.static(remaining) == 0 else _chunk(chunks, whole_chunks * size, blocks, remaining, target)
        return emit.sequence([None if emit.static(whole_chunks) == 0 else main, tail])

    return is_parallel(chunks.stages, target, write)


def _chunk(chunks: Chunks, start: ir.Expr, blocks: int | ir.Expr, count: ir.Expr, target: CpuTarget) -> Stmt:
    """Writes one chunk: the source's values into a buffer, then the pass over them."""
    source = chunks.source
    first, last = source.spatial
    chunk_buffer = emit.scratch([blocks, last.extent], source.dtype, "chunk")
    here = Axis(Var("block", "int64"), emit.as_expr(blocks))
    filled = Stage(chunk_buffer, (here, last), (), None, substitute(source.value, {first.var: start + here.var}))

    def each(place: ir.Expr) -> Stmt:
        source_value = emit.load(chunk_buffer, [tirx.floordiv(place, last.extent), tirx.floormod(place, last.extent)])
        stages = [
            with_value(s, replace_loads(s.value, source.buffer, lambda _indices: source_value)) for s in chunks.rest
        ]
        return stores_at(stages, chunks.loop.point(start * last.extent + place))

    lanes = target.lanes(min(stage.item_bytes for stage in chunks.rest))
    return emit.sequence(
        [emit.allocate(chunk_buffer), emit_short([filled], target, False), vectors(each, count, lanes)]
    )
