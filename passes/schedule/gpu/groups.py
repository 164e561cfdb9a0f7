"""Groups stages that share a kernel: elementwise stages, a reduction with its epilogue, or a chain run row by row."""

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
    """Groups the stages of a function, and emits the GPU kernels of each group after the buffers that they share."""
    groups = group_stages(stages)
    needed = buffers_needed(groups, kernel)
    buffers = local_buffers(stages, kernel, needed)
    kernels = [_emit_group(group, needed, kernel, target) for group in groups]
    return emit.sequence([*(emit.allocate(buffer) for buffer in buffers), *kernels])


def group_stages(stages: Sequence[Stage | Opaque]) -> list[Member]:
    """Groups the stages (loop nests) of a function that run in one GPU kernel.

    A group is a chain such as softmax, or a reduction or elementwise stage with the elementwise stages that follow.
    Values that one stage of a group passes to another needn't be written to global memory.
    """
    groups: list[Member] = []
    position = 0
    while position < len(stages):
        chain = chain_of(stages, position)
        if chain is not None:
            groups.append(chain)
            position += len(chain.stages)
        else:
            add_to_groups(groups, stages[position])
            position += 1
    return groups


def _emit_group(group: Member, needed: set[Var], kernel: Kernel, target: GpuTarget) -> Stmt:
    """Emits the GPU kernels of one group of stages.

    The group is an opaque loop nest, a chain, elementwise stages, a matrix product or a reduction.

    Args:
      group: the group.
      needed: the buffers to store.
      kernel: the kernel of the group.
      target: the GPU.
    """
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
    """Emits a GPU kernel for each stage of a chain whose rows don't fit in shared memory."""
    intermediates = [stage.buffer for stage in chain.stages if stage.buffer not in needed]
    stored = {*needed, *intermediates}
    kernels = [_emit_group(Group((stage,)), stored, kernel, target) for stage in chain.stages]
    return emit.sequence([*map(emit.allocate, intermediates), *kernels])
