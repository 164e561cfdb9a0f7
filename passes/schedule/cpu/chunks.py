"""Fuses an expensive stage with the pass over its results, chunk by chunk: the results stay in the level-1 cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import emit_vectors
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, reads, replace_loads, substitute, with_value
from tvtf.passes.schedule.cpu.merged_loops import Loop, merged_loops, on_same_axes, stores_at
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.short_axis import emit_short, shares_work
from tvtf.passes.schedule.cpu.target import CpuTarget

# The results of one chunk take this part (1/4) of the level-1 cache.
LEVEL1_DIVISOR = 4


@dataclass(frozen=True)
class Chunks:
    """An expensive stage (`source`) and the stages over its results (`fused_stages`), computed chunk by chunk.

    The latter share one loop nest, `loop`, and read the results only at the offset in memory that they store to.
    """

    source: Stage
    fused_stages: tuple[Stage, ...]
    loop: Loop

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.source, *self.fused_stages


def as_chunks(
    source: Stage, fused_stages: Sequence[Stage], later_stages: Sequence[Stage | Opaque], kernel: Kernel
) -> Chunks | None:
    """Plans to compute an expensive stage in chunks, each followed by the stages that read the results.

    The expensive results then stay in the cache, and are never written to memory. Returns None for stages that
    this form doesn't fit.

    Args:
        source: the expensive stage.
        fused_stages: the elementwise stages that read its results.
        later_stages: the stages after these, none of which may read the results.
        kernel: the kernel that the stages belong to.
    """
    if not shares_work(source) or not kernel.is_local(source.buffer) or fused_stages[0].reduce:
        return None
    readers = on_same_axes(fused_stages)
    loops = merged_loops(readers, {})
    if len(loops) != 1 or any(reads(other, source.buffer) for other in later_stages):
        return None
    source_loads = [(stage, load) for stage in readers for load in access.reads_of(stage, source.buffer)]
    if not source_loads or not all(
        _is_aligned_read(stage, list(load.indices), source.buffer) for stage, load in source_loads
    ):
        return None
    return Chunks(source, tuple(readers), loops[0])


def _is_aligned_read(stage: Stage, indices: list[ir.Expr], buffer: Var) -> bool:
    """Returns whether a stage reads `buffer` at the same offset in memory as the offset at which the stage stores."""
    own_offset = access.flat_offset(stage.buffer, [axis.var for axis in stage.spatial])
    return emit.static(emit.simplified(access.flat_offset(buffer, indices) - own_offset)) == 0


def emit_chunks(chunks: Chunks, target: CpuTarget) -> Stmt:
    """Emits a parallel loop over chunks: computes some blocks of the source, then runs all fused stages over them.

    A block is the source's short last axis, such as the four words of a random number.
    """
    source, iterations = chunks.source, chunks.loop.extent
    block_size = int(source.spatial[-1].extent)
    blocks_per_chunk = max(1, target.level1_bytes // LEVEL1_DIVISOR // (block_size * source.item_bytes))
    full_chunks = emit.simplified(tirx.floordiv(iterations, index(blocks_per_chunk * block_size)))
    remaining_iterations = emit.simplified(iterations - full_chunks * (blocks_per_chunk * block_size))

    def emit_loops(parallel: bool) -> Stmt:
        """Emits a loop over full chunks, then a shorter last chunk if values remain."""
        kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL

        def emit_full_chunk(chunk: ir.Expr) -> Stmt:
            """Emits the chunk with a given index."""
            first_block = chunk * blocks_per_chunk
            iterations_per_chunk = index(blocks_per_chunk * block_size)
            return _emit_chunk(chunks, first_block, blocks_per_chunk, iterations_per_chunk, target)

        statements: list[Stmt | None] = []
        if emit.static(full_chunks) != 0:
            statements.append(emit.loop(full_chunks, emit_full_chunk, kind))
        if emit.static(remaining_iterations) != 0:
            first_block = full_chunks * blocks_per_chunk
            last_blocks = emit.simplified(tirx.floordiv(remaining_iterations + (block_size - 1), index(block_size)))
            statements.append(_emit_chunk(chunks, first_block, last_blocks, remaining_iterations, target))
        return emit.sequence(statements)

    return emit_parallel_or_serial(chunks.stages, target, emit_loops)


def _emit_chunk(chunks: Chunks, start: ir.Expr, blocks: int | ir.Expr, count: ir.Expr, target: CpuTarget) -> Stmt:
    """Emits one chunk: computes the source's values into a small buffer, then runs the fused stages over them.

    Args:
        chunks: the source (the expensive stage) and the stages fused with it.
        start: the first block (row of the source) of the chunk.
        blocks: the number of blocks.
        count: the number of values in these blocks.
        target: the CPU.
    """
    source = chunks.source
    first, last = source.spatial
    chunk_buffer = emit.scratch([blocks, last.extent], source.dtype, "chunk")
    block = Axis(Var("block", "int64"), emit.as_expr(blocks))
    fill_stage = Stage(chunk_buffer, (block, last), (), None, substitute(source.value, {first.var: start + block.var}))

    def emit_element(index_in_chunk: ir.Expr) -> Stmt:
        """Emits the fused stages at one index of the chunk, with the source's value from the small buffer.

        The buffer is small enough to stay in the level-1 cache until then.
        """
        row, column = tirx.floordiv(index_in_chunk, last.extent), tirx.floormod(index_in_chunk, last.extent)
        source_value = emit.load(chunk_buffer, [row, column])
        stages = [
            with_value(stage, replace_loads(stage.value, source.buffer, lambda _indices: source_value))
            for stage in chunks.fused_stages
        ]
        return stores_at(stages, chunks.loop.axis_indices(start * last.extent + index_in_chunk))

    lanes = target.lanes(min(stage.item_bytes for stage in chunks.fused_stages))
    return emit.sequence(
        [emit.allocate(chunk_buffer), emit_short([fill_stage], target, False), emit_vectors(emit_element, count, lanes)]
    )
