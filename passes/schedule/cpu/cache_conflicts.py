"""Pads the rows of a kernel's own copies whose distance would make them evict each other from the level-1 cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tvm import ir
from tvm.tirx import Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage, reads, replace_loads, with_value
from tvtf.passes.schedule.cpu.vector_axis import PAGE_BYTES, has_reused_operand

LINE_BYTES = 64
# Rows whose distance is a multiple of 1/4 page map to few cache sets.
PAGE_DIVISOR = 4


def padded_extents(extents: Sequence[ir.Expr], item_bytes: int) -> list[ir.Expr]:
    """Returns the extents of a copy; its last axis is padded by a cache line if rows would conflict in the cache.

    Rows whose size is a multiple of a quarter page map to few sets of the level-1 cache, and evict one another.

    >>> padded_extents([emit.index(9), emit.index(512)], 4)
    [T.int64(9), T.int64(528)]
    """
    row_items = emit.static(extents[-1])
    has_conflicts = row_items is not None and row_items * item_bytes % (PAGE_BYTES // PAGE_DIVISOR) == 0
    if row_items is None or not has_conflicts:
        return list(extents)
    items_per_line = LINE_BYTES // item_bytes
    return [*extents[:-1], emit.index(row_items + items_per_line)]


def with_padded_rows(stages: Sequence[Stage | Opaque], kernel: Kernel) -> tuple[list[Stage | Opaque], Kernel]:
    """Pads the rows of a kernel's own copies by a cache line, where the rows would conflict in the level-1 cache.

    Only copies that contractions read are padded. Returns the changed stages (loop nests) and the changed kernel.
    """
    padded_buffers: dict[Var, Var] = {}
    for stage in stages:
        if isinstance(stage, Stage) and stage.spatial and _is_copy_for_contractions(stage, stages, kernel):
            extents = padded_extents([axis.extent for axis in stage.spatial], stage.item_bytes)
            # Only rows that `padded_extents` made longer need another buffer.
            if len(extents) > 1 and emit.static(extents[-1]) != stage.spatial[-1].size:
                padded_buffers[stage.buffer] = emit.scratch(extents, stage.dtype, stage.buffer.name)
    local = tuple(padded_buffers.get(buffer, buffer) for buffer in kernel.local)
    return [_with_padded_buffers(stage, padded_buffers) for stage in stages], Kernel(kernel.stages, local)


def _is_copy_for_contractions(stage: Stage, stages: Sequence[Stage | Opaque], kernel: Kernel) -> bool:
    """Returns whether a stage writes a buffer local to the kernel, elementwise, which only contractions read."""
    readers = [other for other in stages if other is not stage and reads(other, stage.buffer)]
    if stage.reduce or not kernel.is_local(stage.buffer) or not readers:
        return False
    return all(isinstance(reader, Stage) and has_reused_operand(reader) for reader in readers)


def _with_padded_buffers(stage: Stage | Opaque, padded_buffers: dict[Var, Var]) -> Stage | Opaque:
    """Returns a stage (loop nest) that reads and writes padded buffers instead of the original ones.

    Indices stay the same, since only rows are longer.

    Args:
        stage: the stage.
        padded_buffers: the padded buffer that replaces each original one.
    """
    if isinstance(stage, Opaque):
        return stage
    value = stage.value
    for old_buffer, padded_buffer in padded_buffers.items():
        value = replace_loads(value, old_buffer, partial(emit.load, padded_buffer))
    stage_with_loads = with_value(stage, value)
    return replace(stage_with_loads, buffer=padded_buffers.get(stage.buffer, stage.buffer))
