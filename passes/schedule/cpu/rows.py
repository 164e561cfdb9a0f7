"""Chains such as softmax and layer normalization: runs every stage of a row while the row is in the level-1 cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir
from tvm.tirx import IntImm, Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, replace_loads, substitute
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.reduction import emit_reduction
from tvtf.passes.schedule.cpu.scalar import emit_scalar
from tvtf.passes.schedule.cpu.short_row_lanes import emit_stacked, is_short
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand


@dataclass(frozen=True)
class Chain:
    """Stages that need each other's values only within the same row; `depth` leading axes number the rows."""

    stages: tuple[Stage, ...]
    depth: int


def chain_at(stages: Sequence[Stage | Opaque], start: int, target: CpuTarget) -> Chain | None:
    """Returns the longest chain that begins at a stage, or None if running stage by stage is as good."""
    if not any(isinstance(stage, Stage) and stage.reduce for stage in stages[start:]):
        return None  # without a reduction a chain doesn't pay
    for chain in reversed(_chains_at(stages, start)):
        if _pays(chain, target) if len(chain.stages) > 1 else _is_stacked(chain, target):
            return chain
    return None


def _chains_at(stages: Sequence[Stage | Opaque], start: int) -> list[Chain]:
    """Returns the chains that begin at a stage, by length; if some stages are no chain, more aren't one either."""
    chains: list[Chain] = []
    for stop in range(start + 1, len(stages) + 1):
        chain = _as_chain(stages[start:stop])
        if chain is None:
            break
        chains.append(chain)
    return chains


def _as_chain(stages: Sequence[Stage | Opaque]) -> Chain | None:
    """Returns stages as a chain, with as many row axes as all of them share, or None."""
    plain = [stage for stage in stages if isinstance(stage, Stage)]
    # Contractions reuse operands in tiles of several rows.
    if len(plain) < len(stages) or any(has_reused_operand(stage) for stage in plain if stage.reduce):
        return None
    depth = min(len(stage.spatial) for stage in plain)
    while depth and not all(_stays_in_row(stage, plain, depth) for stage in plain):
        depth -= 1
    return Chain(tuple(plain), depth) if depth else None


def _stays_in_row(stage: Stage, stages: Sequence[Stage], depth: int) -> bool:
    """Returns whether a stage has the same rows as the chain, and reads the chain's results in its own row only.

    Then rows don't depend on each other.
    """
    first = stages[0]
    same = all(
        _equal(left.extent, right.extent) for left, right in zip(stage.spatial[:depth], first.spatial, strict=False)
    )
    row_axes = stage.spatial[:depth]
    return same and all(
        all(_is_place(place, axis) for place, axis in zip(load.indices[:depth], row_axes, strict=True))
        for load in stage.loads
        if any(load.source.same_as(other.buffer) for other in stages)
    )


def _is_place(place: ir.Expr, axis: Axis) -> bool:
    return tvm_ffi.structural_equal(place, axis.var) or (axis.size == 1 and isinstance(place, IntImm))


def _equal(left: ir.Expr, right: ir.Expr) -> bool:
    return emit.static(emit.simplified(left - right)) == 0


def _pays(chain: Chain, target: CpuTarget) -> bool:
    """Returns whether running row by row is faster than stage by stage."""
    # A single reduction that nothing wider reads passes over memory once either way; few rows leave cores idle.
    reductions = sum(bool(stage.reduce) for stage in chain.stages)
    is_wider = any(len(stage.spatial) > chain.depth for stage in chain.stages if not stage.reduce)
    rows = access.points(chain.stages[0].spatial[: chain.depth])
    enough = rows is None or rows >= target.cores
    across = any(_runs_across(stage, chain, target) for stage in chain.stages if stage.reduce)
    if _is_stacked(chain, target):
        return True
    return bool(reductions) and (reductions > 1 or is_wider) and enough and not across


def _is_stacked(chain: Chain, target: CpuTarget) -> bool:
    """Returns whether rows are so short that many are reduced at once."""
    return any(stage.reduce for stage in chain.stages) and is_short(chain.stages, chain.depth, target)


def _runs_across(stage: Stage, chain: Chain, target: CpuTarget) -> bool:
    """Returns whether memory is contiguous across rows: then one pass per stage, with vectors over rows, reads whole lines."""
    last = stage.spatial[chain.depth - 1]
    if last.size is not None and last.size < target.lanes(stage.item_bytes):
        return False
    buffers = [other.buffer for other in chain.stages]
    read = [load for load in stage.loads if not any(load.source.same_as(buffer) for buffer in buffers)]
    inner = [axis.var for axis in (*stage.spatial[chain.depth :], *stage.reduce)]
    return any(
        access.load_stride(load, last.var) == 1 and all(access.load_stride(load, var) not in (0, 1) for var in inner)
        for load in read
    )


def emit_chain(chain: Chain, kernel: Kernel, needed: set[Var], target: CpuTarget) -> Stmt:
    """Writes one parallel loop over the rows with a vectorized nest per stage; needed results are stored in memory."""
    if _is_stacked(chain, target):
        row = lambda places: _row(chain, needed, places, target)  # noqa: E731
        return emit_stacked(chain.stages, chain.depth, needed, target, row)
    rows = [axis.extent for axis in chain.stages[0].spatial[: chain.depth]]

    def run(parallel: bool) -> Stmt:
        return emit.fused(rows, lambda places: _row(chain, needed, places, target), parallel)

    return is_parallel(chain.stages, target, run)


def _row(chain: Chain, needed: set[Var], places: list[ir.Expr], target: CpuTarget) -> Stmt:
    """Writes all stages of one row, with results that aren't needed in memory in row buffers.

    A row buffer stays in the cache from one stage to the next.
    """
    row_buffers = {
        stage.buffer: emit.scratch([axis.extent for axis in stage.spatial[chain.depth :]], stage.dtype, "row")
        for stage in chain.stages
        if stage.buffer not in needed
    }
    nests = [_stage_of_row(stage, chain.depth, row_buffers, places, target) for stage in chain.stages]
    return emit.sequence([*(emit.allocate(buffer) for buffer in row_buffers.values()), *nests])


def _stage_of_row(
    stage: Stage, depth: int, row_buffers: dict[Var, Var], places: list[ir.Expr], target: CpuTarget
) -> Stmt:
    """Writes one stage of a row, reading and writing row buffers."""
    rows = stage.spatial[:depth]
    fixed = {axis.var: place for axis, place in zip(rows, places, strict=True)}
    value = stage.value
    for old, new in row_buffers.items():
        value = _reading_row(value, old, new, depth)
    value = substitute(value, fixed)
    if stage.buffer in row_buffers:
        inner = replace(stage, buffer=row_buffers[stage.buffer], spatial=stage.spatial[depth:], value=value)
        return _nest(inner, target, {})
    # The row's own axes have one point, whose place is in `fixed`.
    single = tuple(Axis(axis.var, emit.index(1)) for axis in rows)
    return _nest(replace(stage, spatial=(*single, *stage.spatial[depth:]), value=value), target, fixed)


def _reading_row(value: ir.Expr, old: Var, new: Var, depth: int) -> ir.Expr:
    return replace_loads(value, old, lambda indices: emit.load(new, indices[depth:]))


def _nest(stage: Stage, target: CpuTarget, fixed: dict[Var, ir.Expr]) -> Stmt:
    if not stage.reduce:
        return emit_elementwise([stage], target, False, fixed)
    return emit_reduction(stage, [stage], target, False, fixed) or emit_scalar(stage, [stage], fixed)
