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
from tvtf.passes.schedule.cpu.diagonal_axes import joined_of, stored, with_endings
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.grouped_conv_lanes import with_spread_groups
from tvtf.passes.schedule.cpu.interleaved_results import phases_of
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage, reads
from tvtf.passes.schedule.cpu.loop_box import on_same_axes
from tvtf.passes.schedule.cpu.opaque import emit_opaque
from tvtf.passes.schedule.cpu.padded_images import Images, as_images, emit_images
from tvtf.passes.schedule.cpu.reduction import emit_reduction, reads_only_at_own_point
from tvtf.passes.schedule.cpu.rows import Chain, chain_at, emit_chain
from tvtf.passes.schedule.cpu.scalar import emit_scalar
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.windows import Windows, as_windows, emit_windows, windows_at
from tvtf.passes.schedule.cpu.winograd import Winograd, as_winograd, emit_winograd
from tvtf.passes.schedule.cpu.winograd_filter import WinogradFilter, as_winograd_filter, emit_winograd_filter


@dataclass(frozen=True)
class Group:
    """A first stage and the elementwise stages that run in its nest."""

    stages: tuple[Stage, ...]

    @property
    def first(self) -> Stage:
        return self.stages[0]


Member = Group | Chain | Chunks | Edges | Images | Windows | Winograd | WinogradFilter | Blocks | Opaque


def emit_groups(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget, in_block: bool = False) -> Stmt:
    """Writes all stages, nest after nest; `in_block` says that they are the stages of one block already."""
    # Forms that span many stages come first; they call this function for their own stages, `in_block`.
    bands = None if in_block else bands_of(stages, kernel, target)
    if bands is not None:
        return emit_bands(bands, kernel, target, partial(emit_groups, in_block=True))
    if not in_block:
        stages, kernel = with_spread_groups(stages, kernel, target)
    joined_results = [] if in_block else joined_of(stages, kernel)
    if joined_results:
        return stored(emit_groups(with_endings(stages, joined_results), kernel, target), joined_results)
    phases = None if in_block else phases_of(stages, kernel)
    if phases is not None:
        return phases.stored(emit_groups(phases.put_into(stages), kernel, target, in_block=True))
    groups = joined(grouped(stages, target, in_block), kernel, target)
    needed = buffers_needed(groups, kernel)
    sources = [stage for group in groups if isinstance(group, Group) for stage in group.stages if not stage.reduce]
    nests = [_emit_group(group, kernel, needed, target, sources) for group in groups]
    return emit.sequence([*(emit.allocate(buffer) for buffer in local_buffers(stages, kernel, needed)), *nests])


def buffers_needed(groups: Sequence[Member], kernel: Kernel) -> set[Var]:
    """Returns the results that must be stored in memory."""
    return {stage.buffer for group in groups for stage in _members(group) if _is_needed(stage, group, groups, kernel)}


def local_buffers(stages: Sequence[Stage | Opaque], kernel: Kernel, needed: set[Var]) -> list[Var]:
    """Returns the buffers that a kernel allocates: those needed, and those that opaque nests write."""
    written_by_opaque = any(isinstance(stage, Opaque) for stage in stages)
    return [buffer for buffer in kernel.local if buffer in needed or (written_by_opaque and _is_bare(buffer, stages))]


def grouped(stages: Sequence[Stage | Opaque], target: CpuTarget, in_block: bool = False) -> list[Member]:
    """Cuts the stages into blocks, chains, and reductions or boxes with the stages that can run in their nest.

    Stages of windows stay single, so that `joined` finds them; elsewhere the longest chain or run of blocks comes first.
    """
    groups: list[Member] = []
    position = 0
    while position < len(stages):
        count = windows_at(stages, position, target)
        run = None if in_block or count else _run_at(stages, position, target)
        if run is not None:
            groups.append(run)
            position += len(run.stages)
            continue
        for stage in stages[position : position + max(1, count)]:
            add_to_groups(groups, stage)
            position += 1
    return groups


def _run_at(stages: Sequence[Stage | Opaque], position: int, target: CpuTarget) -> Blocks | Chain | None:
    """Returns a block or chain of stages that begins at a position and ends before windows do, or None."""
    later = range(position + 1, len(stages))
    stop = next((at for at in later if windows_at(stages, at, target)), len(stages))
    return blocks_at(stages[:stop], position) or chain_at(stages[:stop], position, target)


def joined(groups: Sequence[Member], kernel: Kernel, target: CpuTarget) -> list[Member]:
    """Merges pairs of groups, and takes convolutions by Winograd's method where that is faster.

    Pairs are a padded copy with its convolution or gradient, and a short axis with the pass over its results.
    """
    merged: list[Member] = []
    for position, group in enumerate(groups):
        last = merged[-1] if merged else None
        source = last.first if isinstance(last, Group) and len(last.stages) == 1 else None
        merged_group = _joined(source, group, groups[position + 1 :], kernel, target)
        if merged_group is not None and merged_group.source is not None:
            merged.pop()
        merged.append(merged_group or group)
    return merged


def _joined(
    source: Stage | None, group: Member, later: Sequence[Member], kernel: Kernel, target: CpuTarget
) -> Edges | Images | Windows | Winograd | WinogradFilter | Chunks | None:
    """Returns the special form of a group with the padded copy or short axis before it, or None."""
    if not isinstance(group, Group):
        return None
    later_members = [member for each in later for member in ([each] if isinstance(each, Opaque) else each.stages)]
    if group.first.spread is not None:
        return as_windows(source, group.stages, later_members, kernel, target)
    # Winograd's method comes first: its cost model has compared it with direct sums.
    winograd: Winograd | WinogradFilter | None = as_winograd(source, group.stages, later_members, kernel, target)
    winograd = winograd or as_winograd_filter(source, group.stages, later_members, kernel, target)
    if winograd is not None:
        return winograd
    if source is None:
        return as_windows(None, group.stages, later_members, kernel, target) if group.first.reduce else None
    pair = source, group.stages, later_members, kernel
    return as_chunks(*pair) or as_windows(*pair, target) or as_edges(*pair, target) or as_images(*pair, target)


def add_to_groups(groups: list[Member], stage: Stage | Opaque) -> None:
    """Adds an elementwise stage to the last group if both visit the same points, else starts a new group."""
    last = groups[-1] if groups else None
    if isinstance(stage, Opaque):
        groups.append(stage)
    elif isinstance(last, Group) and _joins(stage, last):
        groups[-1] = Group((*last.stages, stage))
    else:
        groups.append(Group((stage,)))


def _joins(stage: Stage, group: Group) -> bool:
    if stage.reduce or not _same_box(stage, group.first):
        return False
    read = [other for other in group.stages if reads(stage, other.buffer)]
    return all(reads_only_at_own_point(stage, other) for other in read) and (bool(read) or not group.first.reduce)


def _same_box(stage: Stage, other: Stage) -> bool:
    if len(stage.spatial) != len(other.spatial):
        return False
    pairs = zip(stage.spatial, other.spatial, strict=True)
    return all(emit.static(emit.simplified(left.extent - right.extent)) == 0 for left, right in pairs)


def _members(group: Member) -> tuple[Stage, ...]:
    return () if isinstance(group, Opaque) else group.stages


def _is_needed(stage: Stage, group: Member, groups: Sequence[Member], kernel: Kernel) -> bool:
    """Returns whether a result must be stored: it is an output, or read by another group, or shared inside its own nest."""
    if not kernel.is_local(stage.buffer):
        return True
    if any(_group_reads(other, stage.buffer) for other in groups if other is not group):
        return True
    # Results of a form's first two stages stay in the form's own scratch memory or registers.
    if isinstance(group, (Edges, Images, Windows, Winograd, WinogradFilter)):
        return stage is not group.source and stage is not group.rest[0]
    if isinstance(group, Chunks):
        return stage is not group.source
    return isinstance(group, Group) and not (stage is group.first and stage.reduce)


def _group_reads(group: Member, buffer: Var) -> bool:
    return any(reads(member, buffer) for member in ([group] if isinstance(group, Opaque) else group.stages))


def _is_bare(buffer: Var, stages: Sequence[Stage | Opaque]) -> bool:
    """Returns whether no stage writes a buffer, so that an opaque nest must."""
    return not any(isinstance(stage, Stage) and stage.buffer.same_as(buffer) for stage in stages)


def _emit_group(group: Member, kernel: Kernel, needed: set[Var], target: CpuTarget, sources: Sequence[Stage]) -> Stmt:
    """Writes one group by the rule for its kind."""
    if isinstance(group, Opaque):
        return emit_opaque(group.body, target)
    if isinstance(group, Chain):
        return emit_chain(group, kernel, needed, target)
    if isinstance(group, Blocks):
        return emit_blocks(group, kernel, needed, target, partial(emit_groups, in_block=True))
    if isinstance(group, Images):
        return emit_images(group, needed, target)
    if isinstance(group, Windows):
        return emit_windows(group, needed, target)
    if isinstance(group, Winograd):
        return emit_winograd(group, needed, target)
    if isinstance(group, WinogradFilter):
        return emit_winograd_filter(group, needed, target)
    if isinstance(group, Chunks):
        return emit_chunks(group, target)
    if isinstance(group, Edges):
        return _emit_sums(on_same_axes(group.rest), needed, target)
    if not group.first.reduce:
        return emit_elementwise(group.stages, target)
    first, *rest = on_same_axes(group.stages)
    return _emit_sums([with_clips(first, sources, target), *rest], needed, target)


def _emit_sums(aligned: Sequence[Stage], needed: set[Var], target: CpuTarget) -> Stmt:
    stores = [stage for stage in aligned if stage.buffer in needed]
    return emit_reduction(aligned[0], stores, target) or emit_scalar(aligned[0], stores)
