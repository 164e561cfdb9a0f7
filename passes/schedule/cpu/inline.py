"""Inlines elementwise stages into their readers where recomputing a value is cheaper than storing it."""

from __future__ import annotations

from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage, reads, replace_loads, with_value
from tvtf.passes.schedule.cpu.short_axis import shares_work
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

CHEAP_OPERATIONS = 8


def inline_stages(kernel: Kernel) -> tuple[Stage | Opaque, ...]:
    """Inlines elementwise stages (loop nests) of a kernel into the stages that read them, if that is profitable.

    Returns the remaining stages. The stages are visited in order, so that a stage that is inlined already contains the
    stages that were inlined into it.
    """
    stages = list(kernel.stages)
    position = 0
    while position < len(stages):
        stage = stages[position]
        if isinstance(stage, Stage) and _should_be_inlined(stage, stages, kernel):
            del stages[position]
            stages[position:] = [_with_inlined(stage, reader) for reader in stages[position:]]
        else:
            position += 1
    return tuple(stages)


def _should_be_inlined(stage: Stage, stages: list[Stage | Opaque], kernel: Kernel) -> bool:
    """Returns whether a stage (loop nest) can profitably be inlined into all of its readers.

    Args:
        stage: the stage.
        stages: all loop nests of the kernel.
        kernel: the kernel.
    """
    if stage.reduce or not kernel.is_local(stage.buffer) or _reads_itself(stage):
        return False
    readers = [other for other in stages if other is not stage and reads(other, stage.buffer)]
    reading_stages = [reader for reader in readers if isinstance(reader, Stage)]
    # Nothing can be inlined into an opaque nest, which isn't parsed.
    if not readers or len(reading_stages) < len(readers):
        return False
    # The epilogue of a contraction costs nothing, but would be computed in each reader if it were inlined.
    if shares_work(stage) or (len(readers) > 1 and _is_epilogue_of_contraction(stage, stages)):
        return False
    return is_reindexing(stage) or _is_worthwhile(stage, reading_stages)


def _is_epilogue_of_contraction(stage: Stage, stages: list[Stage | Opaque]) -> bool:
    """Returns whether a stage reads a contraction's results, and so can run on them in registers."""
    reductions = [other for other in stages if isinstance(other, Stage) and other.reduce and reads(stage, other.buffer)]
    return any(has_reused_operand(other) for other in reductions)


def _is_worthwhile(stage: Stage, readers: list[Stage]) -> bool:
    """Returns whether recomputing a stage's value in each reader is cheaper than storing and loading the results."""
    # A reduction would compute the same value for several of its terms.
    if any(_would_recompute_elements(reader, stage) for reader in readers if reader.reduce):
        return False
    load_count = sum(len(access.reads_of(reader, stage.buffer)) for reader in readers)
    operations = _operations(stage)
    # A cheap value may be computed twice, and a value of one or two operations any number of times.
    if operations <= CHEAP_OPERATIONS:
        return load_count <= 2 or operations <= 2
    return load_count == 1 and not _would_recompute_elements(readers[0], stage)


def is_reindexing(stage: Stage) -> bool:
    """Returns whether a stage is a reshape, transpose, broadcast, cast or constant, which computes nothing."""
    if _operations(stage) > 1 or len(stage.loads) > 1 or _has_call(stage):
        return False
    depends_on_indices = access.free_variables(stage.value) & {axis.var for axis in stage.spatial}
    return not depends_on_indices


def _has_call(stage: Stage) -> bool:
    """Returns whether a stage calls a math function, judged by the number of its operations."""
    return _operations(stage) >= access.CALL_OPERATIONS


def _operations(stage: Stage) -> int:
    """Counts a stage's operations, up to the limit that inlining compares with.

    A stage may have had hundreds of others inlined into it.
    """
    return access.operations(stage.value, access.CALL_OPERATIONS)


def _would_recompute_elements(reader: Stage, stage: Stage) -> bool:
    """Returns whether a reader's loop nest has more iterations than a stage has elements.

    If the stage is inlined into such a reader, the reader may compute an element repeatedly. If sizes aren't static,
    the numbers of axes are compared.
    """
    reader_iterations = access.iteration_count(reader.axes)
    stage_iterations = access.iteration_count(stage.spatial)
    if reader_iterations is None or stage_iterations is None:
        return _has_more_axes(reader, stage)
    return reader_iterations > stage_iterations


def _has_more_axes(reader: Stage, stage: Stage) -> bool:
    """Returns whether a reader has more axes than a stage, taken as a sign of more iterations if sizes are symbolic."""
    return len(reader.axes) > len(stage.spatial)


def _reads_itself(stage: Stage) -> bool:
    """Returns whether a stage reads the buffer that it writes."""
    return bool(access.reads_of(stage, stage.buffer))


def _with_inlined(stage: Stage, reader: Stage | Opaque) -> Stage | Opaque:
    """Replaces a reader's loads of a stage's result by the stage's value; returns other stages unchanged."""
    if isinstance(reader, Opaque) or not reads(reader, stage.buffer):
        return reader
    return with_value(reader, replace_loads(reader.value, stage.buffer, stage.at))
