"""Chains such as softmax and layer normalization: runs every stage of a row while the row is in the level-1 cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import IntImm, Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.kernel import Axis, Opaque, Stage, by_axis, replace_loads, substitute
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.reduction import emit_reduction
from tvtf.passes.schedule.cpu.scalar import emit_scalar
from tvtf.passes.schedule.cpu.short_row_lanes import emit_stacked, is_short
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand


@dataclass(frozen=True)
class Chain:
    """Stages such as those of a softmax, which need each other's values only within the same row.

    The first `depth` axes of each stage are the row axes.
    """

    stages: tuple[Stage, ...]
    depth: int


def chain_at(stages: Sequence[Stage | Opaque], start: int, target: CpuTarget) -> Chain | None:
    """Returns the longest chain of stages starting at `start` that should run row by row, or None.

    A softmax or layer normalization is such a chain. If all its stages run on one row before the next, the row stays in
    the level-1 cache.

    Args:
        stages: the stages (loop nests) of the kernel.
        start: the position of the first stage.
        target: the CPU.
    """
    has_reduction = any(isinstance(stage, Stage) and stage.reduce for stage in stages[start:])
    if not has_reduction:
        return None  # no stage needs a row more than once
    longest_first = reversed(_chains_at(stages, start))
    return next((chain for chain in longest_first if _is_worthwhile(chain, target)), None)


def _chains_at(stages: Sequence[Stage | Opaque], start: int) -> list[Chain]:
    """Returns the chains that begin at a stage (loop nest), shortest first.

    The search ends at the first sequence of stages that isn't a chain, since longer ones aren't chains either.
    """
    chains: list[Chain] = []
    for stop in range(start + 1, len(stages) + 1):
        chain = _as_chain(stages[start:stop])
        if chain is None:
            break
        chains.append(chain)
    return chains


def _as_chain(stages: Sequence[Stage | Opaque]) -> Chain | None:
    """Describes stages (loop nests) as a chain, which can run row by row, with as many leading row axes as possible.

    Every stage must compute a row from the same row of the others. Returns None if the stages have no such rows.
    """
    chain = [stage for stage in stages if isinstance(stage, Stage)]
    # Opaque nests have no axes to split. Contractions reuse operands in tiles of several rows.
    if len(chain) < len(stages) or any(has_reused_operand(stage) for stage in chain if stage.reduce):
        return None
    depth = min(len(stage.spatial) for stage in chain)
    while depth and not all(_stays_in_row(stage, chain, depth) for stage in chain):
        depth -= 1
    return Chain(tuple(chain), depth) if depth else None


def _stays_in_row(stage: Stage, stages: Sequence[Stage], depth: int) -> bool:
    """Returns whether a stage (loop nest) has the chain's rows, and reads the chain's results in its own row only.

    Rows are then independent.

    Args:
        stage: the stage.
        stages: the stages of the chain.
        depth: the number of axes that count the rows, which come first.
    """
    row_axes, row_axes_of_chain = stage.spatial[:depth], stages[0].spatial[:depth]
    for own_axis, axis_of_chain in zip(row_axes, row_axes_of_chain, strict=True):
        if not _are_equal_extents(own_axis.extent, axis_of_chain.extent):
            return False
    for load in stage.loads:
        if not any(load.source.same_as(other.buffer) for other in stages):
            continue
        row_indices = load.indices[:depth]
        if not all(_is_own_index(index, axis) for index, axis in zip(row_indices, row_axes, strict=True)):
            return False
    return True


def _is_own_index(index: ir.Expr, axis: Axis) -> bool:
    """Returns whether an index is an axis's variable. For an axis of extent 1, a constant is one, too."""
    return tvm_ffi.structural_equal(index, axis.var) or (axis.size == 1 and isinstance(index, IntImm))


def _are_equal_extents(left: ir.Expr, right: ir.Expr) -> bool:
    """Returns whether two extents, which may be symbolic, are provably equal."""
    return emit.static(emit.simplified(left - right)) == 0


def _is_worthwhile(chain: Chain, target: CpuTarget) -> bool:
    """Returns whether running a chain of stages row by row is faster than running one stage after another."""
    # Short rows fill vectors only if several rows are computed at once. This matters more than the other conditions.
    if _has_short_rows(chain, target):
        return True
    reductions = [stage for stage in chain.stages if stage.reduce]
    # A single stage, or stages without reductions, load each row only once in any case.
    if len(chain.stages) == 1 or not reductions:
        return False
    # With a single reduction, the row is loaded again only if another stage computes full rows: then the row is still
    # in the cache.
    computes_whole_rows = any(len(stage.spatial) > chain.depth for stage in chain.stages if not stage.reduce)
    if len(reductions) == 1 and not computes_whole_rows:
        return False
    # A row is computed by one core. With fewer rows than cores, some cores would be idle.
    row_count = access.iteration_count(chain.stages[0].spatial[: chain.depth])
    if row_count is not None and row_count < target.cores:
        return False
    # If elements are contiguous from row to row, only vectors across rows load full cache lines.
    return not any(_is_contiguous_across_rows(stage, chain, target) for stage in reductions)


def _has_short_rows(chain: Chain, target: CpuTarget) -> bool:
    """Returns whether a chain's rows are so short that several are reduced at once, one per lane of a vector."""
    return any(stage.reduce for stage in chain.stages) and is_short(chain.stages, chain.depth, target)


def _is_contiguous_across_rows(stage: Stage, chain: Chain, target: CpuTarget) -> bool:
    """Returns whether an operand of a stage is contiguous from row to row, and not along a row.

    If the stages run one after another, with vectors across rows, then they load full cache lines.

    Args:
        stage: the stage.
        chain: the stages that are computed row by row.
        target: the CPU.
    """
    last_row_axis = stage.spatial[chain.depth - 1]
    if last_row_axis.size is not None and last_row_axis.size < target.lanes(stage.item_bytes):
        return False
    axes_in_row = (*stage.spatial[chain.depth :], *stage.reduce)

    def is_strided_in_row(load: TensorLoad) -> bool:
        """Returns whether a load isn't contiguous along any axis in the row."""
        return all(access.load_stride(load, axis.var) not in (0, 1) for axis in axes_in_row)

    for load in stage.loads:
        is_operand = not any(load.source.same_as(other.buffer) for other in chain.stages)
        if is_operand and access.load_stride(load, last_row_axis.var) == 1 and is_strided_in_row(load):
            return True
    return False


def emit_chain(chain: Chain, stored_buffers: set[Var], target: CpuTarget) -> Stmt:
    """Emits a parallel loop over the rows of a chain, such as a softmax, with one loop nest per stage in the loop.

    The row stays in the level-1 cache from stage to stage.

    Args:
        chain: the stages.
        stored_buffers: the results that are stored in memory. Other results are in a buffer for one row.
        target: the CPU.
    """

    def emit_row(row_indices: list[ir.Expr]) -> Stmt:
        """Emits all stages for one row."""
        return _emit_row(chain, stored_buffers, row_indices, target)

    if _has_short_rows(chain, target):
        return emit_stacked(chain.stages, chain.depth, stored_buffers, target, emit_row)
    row_extents = [axis.extent for axis in chain.stages[0].spatial[: chain.depth]]

    def emit_loops(parallel: bool) -> Stmt:
        """Emits the loops over all rows."""
        return emit.fused_loops(row_extents, emit_row, parallel)

    return emit_parallel_or_serial(chain.stages, target, emit_loops)


def _emit_row(chain: Chain, stored_buffers: set[Var], row_indices: list[ir.Expr], target: CpuTarget) -> Stmt:
    """Emits all stages (loop nests) for one row of a chain.

    Results that needn't be stored are in buffers of one row, which stay in the cache from stage to stage.

    Args:
        chain: the stages.
        stored_buffers: the buffers of results that are read outside of the chain.
        row_indices: the indices of the row along the outer axes.
        target: the processor.
    """
    row_buffers = {}
    for stage in chain.stages:
        if stage.buffer not in stored_buffers:
            row_extents = [axis.extent for axis in stage.spatial[chain.depth :]]
            row_buffers[stage.buffer] = emit.scratch(row_extents, stage.dtype, "row")
    allocations = [emit.allocate(buffer) for buffer in row_buffers.values()]
    nests = [_emit_stage_of_row(stage, chain.depth, row_buffers, row_indices, target) for stage in chain.stages]
    return emit.sequence([*allocations, *nests])


def _emit_stage_of_row(
    stage: Stage, depth: int, row_buffers: dict[Var, Var], row_indices: list[ir.Expr], target: CpuTarget
) -> Stmt:
    """Emits one stage (loop nest) for one row.

    Args:
        stage: the stage, on all rows.
        depth: the number of leading axes that count the rows.
        row_buffers: the buffers of one row that replace complete results.
        row_indices: the row's indices along these axes.
        target: the CPU.
    """
    row_axes, axes_in_row = stage.spatial[:depth], stage.spatial[depth:]
    fixed = by_axis(row_axes, row_indices)
    value = stage.value
    for result, row_buffer in row_buffers.items():
        value = _with_row_loads(value, result, row_buffer, depth)
    value = substitute(value, fixed)
    own_row_buffer = row_buffers.get(stage.buffer)
    if own_row_buffer is not None:
        stage_in_row = replace(stage, buffer=own_row_buffer, spatial=axes_in_row, value=value)
        return _emit_stage(stage_in_row, target, {})
    # The result is stored in the complete buffer. The axes of rows have a single iteration, whose index is in `fixed`.
    single_row = tuple(Axis(axis.var, emit.index(1)) for axis in row_axes)
    return _emit_stage(replace(stage, spatial=(*single_row, *axes_in_row), value=value), target, fixed)


def _with_row_loads(value: ir.Expr, old: Var, new: Var, depth: int) -> ir.Expr:
    """Replaces the loads of a complete result `old` by loads of the row buffer `new`, without the indices of the row."""
    return replace_loads(value, old, lambda indices: emit.load(new, indices[depth:]))


def _emit_stage(stage: Stage, target: CpuTarget, fixed: dict[Var, ir.Expr]) -> Stmt:
    """Emits one stage of a row without threads: as an elementwise loop, or as a reduction."""
    if not stage.reduce:
        return emit_elementwise([stage], target, False, fixed)
    return emit_reduction(stage, [stage], target, False, fixed) or emit_scalar(stage, [stage], fixed)
