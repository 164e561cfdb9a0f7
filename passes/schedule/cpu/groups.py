"""Groups stages that share a nest: an elementwise box, a reduction with its epilogue, or a chain run row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.attention_blocks import Blocks, blocks_at, emit_blocks
from tvtf.passes.schedule.cpu.border_clips import with_clips
from tvtf.passes.schedule.cpu.chunks import Chunks, as_chunks, emit_chunks
from tvtf.passes.schedule.cpu.conv_bands import bands_of, emit_bands
from tvtf.passes.schedule.cpu.depthwise_filter_grad import Edges, as_edges
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.grouped_conv_lanes import with_groups_in_lanes
from tvtf.passes.schedule.cpu.interleaved_results import phases_of
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage, reads
from tvtf.passes.schedule.cpu.merged_axes import axis_merges, redirected_stores, with_epilogues
from tvtf.passes.schedule.cpu.merged_loops import on_same_axes
from tvtf.passes.schedule.cpu.opaque import emit_opaque
from tvtf.passes.schedule.cpu.padded_images import Images, as_images, emit_images
from tvtf.passes.schedule.cpu.reduction import emit_reduction, reads_elementwise
from tvtf.passes.schedule.cpu.rows import Chain, chain_at, emit_chain
from tvtf.passes.schedule.cpu.scalar import emit_scalar
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.windows import Windows, as_windows, emit_windows, windows_at
from tvtf.passes.schedule.cpu.winograd import Winograd, as_winograd, emit_winograd
from tvtf.passes.schedule.cpu.winograd_filter import WinogradFilter, as_winograd_filter, emit_winograd_filter


@dataclass(frozen=True)
class Group:
    """A reduction or elementwise stage, and the elementwise stages that run in its loop nest."""

    stages: tuple[Stage, ...]

    @property
    def first(self) -> Stage:
        return self.stages[0]


Member = Group | Chain | Chunks | Edges | Images | Windows | Winograd | WinogradFilter | Blocks | Opaque


def emit_groups(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget, in_block: bool = False) -> Stmt:
    """Emits the loop nests of all stages of a kernel, one after another.

    With `in_block` the stages are already one block of rows of a larger form, such as attention. Forms that split the
    rows themselves aren't used then.
    """
    # Forms that span many stages come first; they call this function for the stages of one block.
    if not in_block:
        bands = bands_of(stages, kernel, target)  # of chains of convolutions
        if bands is not None:
            return emit_bands(bands, target, partial(emit_groups, in_block=True))
        stages, kernel = with_groups_in_lanes(stages, kernel, target)
        merges = axis_merges(stages, kernel)  # of contractions of which an epilogue merges two axes
        if merges:
            nests = emit_groups(with_epilogues(stages, merges), kernel, target)
            return redirected_stores(nests, merges)
        phases = phases_of(stages, kernel)  # of the gradient of a strided convolution
        if phases is not None:
            nests = emit_groups(phases.with_epilogues(stages), kernel, target, in_block=True)
            return phases.with_redirected_stores(nests)
    groups = with_special_forms(group_stages(stages, target, in_block), kernel, target)
    stored_buffers = buffers_needed(groups, kernel)
    sources = [stage for group in groups if isinstance(group, Group) for stage in group.stages if not stage.reduce]
    nests_of_groups = [_emit_group(group, kernel, stored_buffers, target, sources) for group in groups]
    allocations = [emit.allocate(buffer) for buffer in local_buffers(stages, kernel, stored_buffers)]
    return emit.sequence([*allocations, *nests_of_groups])


def buffers_needed(groups: Sequence[Member], kernel: Kernel) -> set[Var]:
    """Returns the results that must be stored in memory; the others stay in registers or scratch memory."""
    return {
        stage.buffer for group in groups for stage in _members(group) if _must_be_stored(stage, group, groups, kernel)
    }


def local_buffers(stages: Sequence[Stage | Opaque], kernel: Kernel, stored_buffers: set[Var]) -> list[Var]:
    """Returns the buffers that a kernel allocates.

    These are intermediate results that must be stored, and buffers that opaque nests (which aren't parsed) write.

    Args:
        stages: the kernel's loop nests.
        kernel: the kernel.
        stored_buffers: the buffers that aren't kept in registers.
    """
    has_opaque_nests = any(isinstance(stage, Opaque) for stage in stages)

    def needs_memory(buffer: Var) -> bool:
        """Returns whether a buffer must be allocated."""
        return buffer in stored_buffers or (has_opaque_nests and _is_written_by_opaque(buffer, stages))

    return list(filter(needs_memory, kernel.local))


def group_stages(stages: Sequence[Stage | Opaque], target: CpuTarget, in_block: bool = False) -> list[Member]:
    """Groups the stages of a kernel by the loop nest that will compute them.

    A group is a block of attention, a chain such as softmax, or a stage with its epilogue. At each position, the
    longest block or chain is tried first. Each reduction over sliding windows becomes a group; `with_special_forms`
    merges them later.

    Args:
        stages: the stages.
        target: the CPU.
        in_block: whether the stages are part of a block or chain already, and must not form another one.
    """
    groups: list[Member] = []
    position = 0
    while position < len(stages):
        window_stages = windows_at(stages, position, target)
        chain = None if in_block or window_stages else _chain_or_blocks_at(stages, position, target)
        if chain is not None:
            groups.append(chain)
            position += len(chain.stages)
            continue
        for stage in stages[position : position + max(1, window_stages)]:
            add_to_groups(groups, stage)
            position += 1
    return groups


def _chain_or_blocks_at(stages: Sequence[Stage | Opaque], position: int, target: CpuTarget) -> Blocks | Chain | None:
    """Returns the attention blocks or the chain of stages, such as a softmax, that begin at a position, or None.

    In both, a block of rows passes through all stages while it is in a cache. Both end before the next reduction over
    sliding windows, which is computed in another way.
    """
    later_positions = range(position + 1, len(stages))
    first_windows = next((later for later in later_positions if windows_at(stages, later, target)), len(stages))
    before_windows = stages[:first_windows]
    return blocks_at(before_windows, position) or chain_at(before_windows, position, target)


def with_special_forms(groups: Sequence[Member], kernel: Kernel, target: CpuTarget) -> list[Member]:
    """Replaces groups of stages by faster special forms, such as a Winograd convolution.

    A special form may include the stage before the group: the padded copy that a convolution or gradient reads, or an
    expensive stage with a short last axis.

    Args:
        groups: the groups of the kernel's stages, in order.
        kernel: the kernel.
        target: the CPU.
    """
    merged: list[Member] = []
    for position, group in enumerate(groups):
        previous = merged[-1] if merged else None
        source = previous.first if isinstance(previous, Group) and len(previous.stages) == 1 else None
        special_form = _special_form(source, group, groups[position + 1 :], kernel, target)
        # A special form with a `source` includes the stage before.
        if special_form is not None and special_form.source is not None:
            merged.pop()
        merged.append(special_form or group)
    return merged


def _special_form(
    source: Stage | None, group: Member, later_stages: Sequence[Member], kernel: Kernel, target: CpuTarget
) -> Edges | Images | Windows | Winograd | WinogradFilter | Chunks | None:
    """Returns the faster form of a group with the stage `source` before it, or None.

    `source` is a padded copy or a stage with a short last axis. `later_stages` are the groups after this one.
    """
    if not isinstance(group, Group):
        return None
    later_members: list[Stage | Opaque] = []
    for later_group in later_stages:
        later_members += [later_group] if isinstance(later_group, Opaque) else later_group.stages
    if group.first.broadcast_axis is not None:
        return as_windows(source, group.stages, later_members, kernel, target)
    # Winograd's method comes first: its cost model has compared it with direct sums.
    winograd: Winograd | WinogradFilter | None = as_winograd(source, group.stages, later_members, kernel, target)
    winograd = winograd or as_winograd_filter(source, group.stages, later_members, kernel, target)
    if winograd is not None:
        return winograd
    if source is None:
        return as_windows(None, group.stages, later_members, kernel, target) if group.first.reduce else None
    # The first form that fits is taken.
    arguments = source, group.stages, later_members, kernel
    return (
        as_chunks(*arguments)
        or as_windows(*arguments, target)
        or as_edges(*arguments, target)
        or as_images(*arguments, target)
    )


def add_to_groups(groups: list[Member], stage: Stage | Opaque) -> None:
    """Adds a stage (loop nest) to the last group if both can run in the same nest; else starts a new group.

    Stages in one nest pass values in registers instead of in memory. An opaque nest, which isn't parsed, becomes a
    separate member.

    Args:
        groups: the groups so far. The last one is replaced, or one is appended.
        stage: the stage.
    """
    last = groups[-1] if groups else None
    if isinstance(stage, Opaque):
        groups.append(stage)
    elif isinstance(last, Group) and _can_join(stage, last):
        groups[-1] = Group((*last.stages, stage))
    else:
        groups.append(Group((stage,)))


def _can_join(stage: Stage, group: Group) -> bool:
    """Returns whether an elementwise stage can run in the same loop nest as a group of stages.

    It must have the same extents, and read the group's results only at the indices that it stores to. After a
    reduction, it must read the reduction's results.
    """
    if stage.reduce or not _has_same_domain(stage, group.first):
        return False
    read_stages = [other for other in group.stages if reads(stage, other.buffer)]
    if group.first.reduce and not read_stages:
        return False
    return all(reads_elementwise(stage, other) for other in read_stages)


def _has_same_domain(stage: Stage, other: Stage) -> bool:
    """Returns whether two stages have equal extents, axis by axis."""
    if len(stage.spatial) != len(other.spatial):
        return False
    pairs = zip(stage.spatial, other.spatial, strict=True)
    return all(emit.static(emit.simplified(left.extent - right.extent)) == 0 for left, right in pairs)


def _members(group: Member) -> tuple[Stage, ...]:
    """Returns the stages of a group; an opaque nest has none."""
    return () if isinstance(group, Opaque) else group.stages


def _must_be_stored(stage: Stage, group: Member, groups: Sequence[Member], kernel: Kernel) -> bool:
    """Returns whether a stage's result must be stored in memory.

    Outputs of the kernel and results that other groups (loop nests) read must be stored. Other results may stay in
    registers or scratch memory, depending on the form of their group.

    Args:
        stage: the stage.
        group: its group.
        groups: all groups of the kernel.
        kernel: the kernel.
    """
    if not kernel.is_local(stage.buffer):
        return True
    if any(_group_reads(other, stage.buffer) for other in groups if other is not group):
        return True
    # These forms keep the results of their first two stages in scratch memory or registers.
    if isinstance(group, (Edges, Images, Windows, Winograd, WinogradFilter)):
        return stage is not group.source and stage is not group.fused_stages[0]
    if isinstance(group, Chunks):
        return stage is not group.source
    return isinstance(group, Group) and not (stage is group.first and stage.reduce)


def _group_reads(group: Member, buffer: Var) -> bool:
    """Returns whether any stage of a group loads from a buffer."""
    return any(reads(member, buffer) for member in ([group] if isinstance(group, Opaque) else group.stages))


def _is_written_by_opaque(buffer: Var, stages: Sequence[Stage | Opaque]) -> bool:
    """Returns whether an opaque nest must write a buffer, because no stage does."""
    return not any(isinstance(stage, Stage) and stage.buffer.same_as(buffer) for stage in stages)


def _emit_group(
    group: Member, kernel: Kernel, stored_buffers: set[Var], target: CpuTarget, sources: Sequence[Stage]
) -> Stmt:
    """Emits the loop nest of one group, by the function for the group's class.

    `sources` are the kernel's elementwise stages. If they pad an operand of a convolution with zeros, it leaves out
    terms.
    """
    if isinstance(group, Opaque):
        return emit_opaque(group.body, target)
    if isinstance(group, Chain):
        return emit_chain(group, stored_buffers, target)
    if isinstance(group, Blocks):
        return emit_blocks(group, kernel, stored_buffers, target, partial(emit_groups, in_block=True))
    if isinstance(group, Images):
        return emit_images(group, stored_buffers, target)
    if isinstance(group, Windows):
        return emit_windows(group, stored_buffers, target)
    if isinstance(group, Winograd):
        return emit_winograd(group, stored_buffers, target)
    if isinstance(group, WinogradFilter):
        return emit_winograd_filter(group, stored_buffers, target)
    if isinstance(group, Chunks):
        return emit_chunks(group, target)
    if isinstance(group, Edges):
        return _emit_reduction_or_loops(on_same_axes(group.fused_stages), stored_buffers, target)
    if not group.first.reduce:
        return emit_elementwise(group.stages, target)
    reduction, *epilogue = on_same_axes(group.stages)
    return _emit_reduction_or_loops([with_clips(reduction, sources, target), *epilogue], stored_buffers, target)


def _emit_reduction_or_loops(stages: Sequence[Stage], stored_buffers: set[Var], target: CpuTarget) -> Stmt:
    """Emits a reduction with its epilogue: tiled by a plan, or as plain scalar loops if no plan fits."""
    stores = [stage for stage in stages if stage.buffer in stored_buffers]
    return emit_reduction(stages[0], stores, target) or emit_scalar(stages[0], stores)
