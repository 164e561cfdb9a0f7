"""Which stages share a nest: an elementwise box, a reduction with its epilogue, or a chain run row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.tirx import Stmt, Var

from . import emit
from .elementwise import emit_elementwise, on_same_axes
from .kernel import Kernel, Opaque, Stage, loads
from .reduction import emit_reduction, reads_only_at_own_point
from .scalar import emit_scalar
from .target import CpuTarget


@dataclass(frozen=True)
class Group:
    """A first stage and the elementwise stages that run in its nest."""

    first: Stage
    rest: tuple[Stage, ...] = ()


def emit_groups(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget) -> Stmt:
    """Write all stages, nest after nest."""
    groups = grouped(stages)
    in_memory = {stage.buffer for stage in stages if isinstance(stage, Stage) and _is_stored(stage, groups, kernel)}
    used = [buffer for buffer in kernel.local if any(buffer.same_as(other) for other in in_memory)]
    used += _buffers_of_opaque(stages, kernel, used)
    nests = [_emit_group(group, in_memory, target) for group in groups]
    return emit.sequence([*(emit.allocate(buffer) for buffer in used), *nests])


def grouped(stages: Sequence[Stage | Opaque]) -> list[Group | Opaque]:
    """Put each elementwise stage with the stage before it where both visit the same points."""
    groups: list[Group | Opaque] = []
    for stage in stages:
        last = groups[-1] if groups else None
        if isinstance(stage, Opaque):
            groups.append(stage)
        elif isinstance(last, Group) and _joins(stage, last):
            groups[-1] = Group(last.first, (*last.rest, stage))
        else:
            groups.append(Group(stage))
    return groups


def _joins(stage: Stage, group: Group) -> bool:
    if stage.reduce or not _same_box(stage, group.first):
        return False
    members = [group.first, *group.rest]
    read = [other for other in members if any(load.source.same_as(other.buffer) for load in loads(stage.value))]
    return all(reads_only_at_own_point(stage, other) for other in read) and (bool(read) or not group.first.reduce)


def _same_box(stage: Stage, other: Stage) -> bool:
    if len(stage.spatial) != len(other.spatial):
        return False
    pairs = zip(stage.spatial, other.spatial, strict=True)
    return all(emit.static(emit.simplified(left.extent - right.extent)) == 0 for left, right in pairs)


def _is_stored(stage: Stage, groups: list[Group | Opaque], kernel: Kernel) -> bool:
    """True where a result must be in memory: an output, or read by another group."""
    if not kernel.is_local(stage.buffer):
        return True
    return any(_reads(group, stage.buffer) for group in groups if not _holds(group, stage)) or not _is_first_reduction(
        stage, groups
    )


def _is_first_reduction(stage: Stage, groups: list[Group | Opaque]) -> bool:
    return any(isinstance(group, Group) and group.first is stage and bool(stage.reduce) for group in groups)


def _holds(group: Group | Opaque, stage: Stage) -> bool:
    return isinstance(group, Group) and any(member is stage for member in (group.first, *group.rest))


def _reads(group: Group | Opaque, buffer: Var) -> bool:
    nodes = [group.body] if isinstance(group, Opaque) else [stage.value for stage in (group.first, *group.rest)]
    return any(load.source.same_as(buffer) for node in nodes for load in loads(node))


def _buffers_of_opaque(stages: Sequence[Stage | Opaque], kernel: Kernel, used: list[Var]) -> list[Var]:
    opaque = [stage.body for stage in stages if isinstance(stage, Opaque)]
    if not opaque:
        return []
    return [buffer for buffer in kernel.local if not any(buffer.same_as(other) for other in used)]


def _emit_group(group: Group | Opaque, in_memory: set[Var], target: CpuTarget) -> Stmt:
    if isinstance(group, Opaque):
        return group.body
    if not group.first.reduce:
        return emit_elementwise([group.first, *group.rest], target)
    aligned = on_same_axes([group.first, *group.rest])
    stores = [stage for stage in aligned if stage.buffer in in_memory]
    return emit_reduction(aligned[0], stores, target) or emit_scalar(aligned[0], stores)
