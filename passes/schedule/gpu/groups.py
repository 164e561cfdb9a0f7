"""Groups stages that share a kernel: a box of points, a reduction with its epilogue, a chain run row by row."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.elementwise import on_same_axes
from tvtf.passes.schedule.cpu.groups import Group, Member, add_to_groups, buffers_needed, local_buffers
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage
from tvtf.passes.schedule.cpu.rows import Chain
from tvtf.passes.schedule.gpu.elementwise import emit_elementwise
from tvtf.passes.schedule.gpu.opaque import emit_opaque
from tvtf.passes.schedule.gpu.product import as_contraction
from tvtf.passes.schedule.gpu.reduction import emit_reduction
from tvtf.passes.schedule.gpu.rows import chain_of, emit_chain
from tvtf.passes.schedule.gpu.split_k import emit_product
from tvtf.passes.schedule.gpu.target import GpuTarget


def emit_groups(stages: Sequence[Stage | Opaque], kernel: Kernel, target: GpuTarget) -> Stmt:
    """Groups the stages of a function, and writes each group as a kernel."""
    groups = grouped(stages)
    needed = buffers_needed(groups, kernel)
    buffers = local_buffers(stages, kernel, needed)
    kernels = [_emit_group(group, needed, kernel, target) for group in groups]
    return emit.sequence([*(emit.allocate(buffer) for buffer in buffers), *kernels])


def grouped(stages: Sequence[Stage | Opaque]) -> list[Member]:
    """Groups the stages of a function: chains, and reductions or boxes with the stages that can run in their kernel."""
    groups: list[Member] = []
    position = 0
    while position < len(stages):
        chain = chain_of(stages, position)
        if chain is None:
            add_to_groups(groups, stages[position])
        else:
            groups.append(chain)
        position += 1 if chain is None else len(chain.stages)
    return groups


def _emit_group(group: Member, needed: set[Var], kernel: Kernel, target: GpuTarget) -> Stmt:
    """Writes one group of stages by the rule for its kind: a nest, chain, box of points, product, or reduction."""
    if isinstance(group, Opaque):
        return emit_opaque(group.body, target)
    if isinstance(group, Chain):
        return emit_chain(group, needed, target) or _stage_by_stage(group, needed, kernel, target)
    if not isinstance(group, Group):
        raise NotImplementedError(f"GPU schedule: no rule for a {type(group).__name__}")
    if not group.first.reduce:
        return emit_elementwise(group.stages, needed, target)
    aligned = on_same_axes(group.stages)
    reduction = aligned[0]
    product = as_contraction(reduction)
    if product is not None:
        return emit_product(product, aligned, needed, kernel.local, target)
    return emit_reduction(reduction, aligned, needed, target)


def _stage_by_stage(chain: Chain, needed: set[Var], kernel: Kernel, target: GpuTarget) -> Stmt:
    """Writes a chain whose rows are too long for one block stage by stage, with intermediate results in memory."""
    intermediates = [stage.buffer for stage in chain.stages if stage.buffer not in needed]
    stored = {*needed, *intermediates}
    parts = [_emit_group(Group((stage,)), stored, kernel, target) for stage in chain.stages]
    return emit.sequence([*map(emit.allocate, intermediates), *parts])
