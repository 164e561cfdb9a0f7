"""Inlines elementwise stages into their readers where recomputing a value is cheaper than storing it."""

from __future__ import annotations

from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage, reads, replace_loads, with_value
from tvtf.passes.schedule.cpu.short_axis import shares_work
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

CHEAP_OPERATIONS = 8


def inlined(kernel: Kernel) -> tuple[Stage | Opaque, ...]:
    """Returns the stages that remain when every worthwhile elementwise stage is inlined.

    Stages are in order, so that a stage already contains what was inlined into it.
    """
    stages = list(kernel.stages)
    position = 0
    while position < len(stages):
        stage = stages[position]
        if isinstance(stage, Stage) and _may_vanish(stage, stages, kernel):
            del stages[position]
            stages[position:] = [_with_inlined(stage, reader) for reader in stages[position:]]
        else:
            position += 1
    return tuple(stages)


def _may_vanish(stage: Stage, stages: list[Stage | Opaque], kernel: Kernel) -> bool:
    """Returns whether a stage can and should be inlined into all of its readers."""
    if stage.reduce or not kernel.is_local(stage.buffer) or _reads_itself(stage):
        return False
    readers = [other for other in stages if other is not stage and reads(other, stage.buffer)]
    # Opaque nests are written as they are. Without readers, there is nothing to inline into.
    if any(isinstance(reader, Opaque) for reader in readers) or not readers:
        return False
    # As a contraction's epilogue it costs nothing; inlined, it would run in each reader.
    if shares_work(stage) or (len(readers) > 1 and _ends_contraction(stage, stages)):
        return False
    return is_reindexing(stage) or _is_worthwhile(stage, [reader for reader in readers if isinstance(reader, Stage)])


def _ends_contraction(stage: Stage, stages: list[Stage | Opaque]) -> bool:
    """Returns whether a stage can be computed from a contraction's results while they are in registers."""
    reductions = [other for other in stages if isinstance(other, Stage) and other.reduce and reads(stage, other.buffer)]
    return any(has_reused_operand(other) for other in reductions)


def _is_worthwhile(stage: Stage, readers: list[Stage]) -> bool:
    """Returns whether recomputing a stage in its readers is cheaper than a pass that stores it."""
    uses = sum(len(access.reads_of(reader, stage.buffer)) for reader in readers)
    if any(_revisits(reader, stage) for reader in readers if reader.reduce):
        return False
    if _operations(stage) <= CHEAP_OPERATIONS:
        return uses <= 2 or _operations(stage) <= 2
    return uses == 1 and not _revisits(readers[0], stage)


def is_reindexing(stage: Stage) -> bool:
    """Returns whether a stage is a reshape, transpose, broadcast, cast or constant, which computes nothing."""
    return (
        _operations(stage) <= 1
        and not access.free_variables(stage.value) & {axis.var for axis in stage.spatial}
        and len(stage.loads) <= 1
        and not _has_call(stage)
    )


def _has_call(stage: Stage) -> bool:
    return _operations(stage) >= access.CALL_OPERATIONS


def _operations(stage: Stage) -> int:
    """Counts operations up to the limit that inlining needs: a stage may have had hundreds inlined into it."""
    return access.operations(stage.value, access.CALL_OPERATIONS)


def _revisits(reader: Stage, stage: Stage) -> bool:
    visits, stored = access.points(reader.axes), access.points(stage.spatial)
    if visits is None or stored is None:
        return _symbolic_revisits(reader, stage)
    return visits > stored


def _symbolic_revisits(reader: Stage, stage: Stage) -> bool:
    return len(reader.axes) > len(stage.spatial)


def _reads_itself(stage: Stage) -> bool:
    return bool(access.reads_of(stage, stage.buffer))


def _with_inlined(stage: Stage, reader: Stage | Opaque) -> Stage | Opaque:
    if isinstance(reader, Opaque) or not reads(reader, stage.buffer):
        return reader
    return with_value(reader, replace_loads(reader.value, stage.buffer, stage.at))
