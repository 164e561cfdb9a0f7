"""Grouped convolutions with few channels per group: vectors span several groups, with inputs spread over their results.

A group of four results fills a quarter of a vector of sixteen. Four groups fill it if each input is given to the four
results of its own group. The groups' inputs are contiguous, too, so that takes one shuffle of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.diagonal_axes import Joined, joined_of
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, reads, replace_loads, substitute, variables
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.windows import as_windows

Stages = list[Stage | Opaque]
# With larger groups, vectors of a single group are as fast, and a shuffle would move items further.
MIN_GROUPS_PER_VECTOR = 4
MAX_BYTES_OF_A_GROUP = 16
# The shuffled operands of a tile stay in registers for all taps of a row; more don't fit.
MAX_TAPS = 9


def with_spread_groups(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget) -> tuple[Stages, Kernel]:
    """Returns stages and kernel with the sums of groups on one axis of all results, where that fills vectors."""
    spread_stages = list(stages)
    for joined in joined_of(stages, kernel):
        spread_stages, kernel = _with_one(joined, spread_stages, kernel, target)
    return spread_stages, kernel


def _with_one(joined: Joined, stages: Stages, kernel: Kernel, target: CpuTarget) -> tuple[Stages, Kernel]:
    """Spreads one convolution's groups; returns the stages unchanged unless it reads windows of an image."""
    at = next(
        n
        for n, new_stage in enumerate(stages)
        if isinstance(new_stage, Stage) and new_stage.reduce and reads(joined.result, new_stage.buffer)
    )
    sums, source = stages[at], stages[at - 1] if at else None
    if not isinstance(sums, Stage) or not isinstance(source, Stage) or not _fits(sums, joined, target):
        return stages, kernel
    first, filters = _spread(sums, joined.size)
    if first is None:
        return stages, kernel
    reader = _reading(joined.result, sums, first)
    other_stages = [
        stage for stage in stages if stage is not sums and stage is not source and stage is not joined.result
    ]
    local = [buffer for buffer in kernel.local if not buffer.same_as(sums.buffer)]
    spread = Kernel(kernel.stages, (*local, first.buffer, *(stage.buffer for stage in filters)))
    if as_windows(source, [first], other_stages, spread, target) is None:
        return stages, kernel
    replacements: dict[Var, Stages] = {
        source.buffer: [*filters, source],
        sums.buffer: [first],
        joined.result.buffer: [reader],
    }
    new = [
        new_stage
        for stage in stages
        for new_stage in (replacements.get(stage.buffer, [stage]) if isinstance(stage, Stage) else [stage])
    ]
    return new, spread


def _fits(sums: Stage, joined: Joined, target: CpuTarget) -> bool:
    """Returns whether groups have as many inputs as results, at most a quarter vector, and several fill one exactly.

    Larger groups fill vectors by themselves.
    """
    size, lanes = joined.size, target.lanes(sums.item_bytes)
    is_last = joined.first == len(sums.spatial) - 2 and bool(sums.reduce) and sums.reduce[-1].size == size
    is_sum = isinstance(sums.value, tirx.Add) and isinstance(sums.value.b, tirx.Mul) and is_zero(sums.init)
    factors = [sums.value.b.a, sums.value.b.b] if is_sum else []
    is_product = len(factors) == 2 and all(isinstance(factor, TensorLoad) for factor in factors)
    is_small = MIN_GROUPS_PER_VECTOR * size <= lanes and lanes % size == 0
    is_near = size * sums.item_bytes <= MAX_BYTES_OF_A_GROUP and all((a.size or 0) <= MAX_TAPS for a in sums.reduce)
    return is_small and is_near and is_last and is_product


def _spread(sums: Stage, size: int) -> tuple[Stage | None, list[Stage]]:
    """Returns the sums on one axis of results, and a copy of the filter in the order that they read, where needed.

    With one axis for group and result, a vector spans several groups.
    """
    *outer, group, own = sums.spatial
    term, channel = sums.reduce[-1], Axis(Var("channel", "int64"), emit.simplified(group.extent * size))
    image_loads = [load for load in (sums.value.b.a, sums.value.b.b) if _is_group_of(load, group, own, term, size)]
    if len(image_loads) != 1 or channel.size is None:
        return None, []
    image = image_loads[0]
    other = sums.value.b.b if image.same_as(sums.value.b.a) else sums.value.b.a
    filters, copies = _filters(other, sums, channel, size)
    buffer = emit.scratch([axis.extent for axis in (*outer, channel)], sums.dtype, "spread")
    spatial = (*outer, channel)
    product = emit.load(image.source, [*image.indices[:-1], channel.var]) * filters
    value = emit.load(buffer, [axis.var for axis in spatial]) + product
    return replace(sums, buffer=buffer, spatial=spatial, value=value, spread=term), copies


def _is_group_of(load: TensorLoad, group: Axis, own: Axis, term: Axis, size: int) -> bool:
    """Returns whether a load reads a group's inputs contiguously, by its last index only."""
    *outer, last = load.indices
    used = set().union(*map(variables, outer)) if outer else set()
    is_own = static(emit.simplified(last - (group.var * size + term.var))) == 0
    return is_own and not used & {group.var, own.var, term.var}


def _filters(load: TensorLoad, sums: Stage, channel: Axis, size: int) -> tuple[ir.Expr, list[Stage]]:
    """Returns the filter's items along the results, from a copy of the filter where it is stored in another order.

    Vectors are loaded along the results.
    """
    *_outer, group, own = sums.spatial
    parts = {group.var: tirx.floordiv(channel.var, index(size)), own.var: tirx.floormod(channel.var, index(size))}
    analyzer = sym.Analyzer()
    analyzer.bind(channel.var, ir.Range(index(0), channel.extent))
    places = [analyzer.simplify(substitute(place, parts)) for place in load.indices]
    read = emit.load(load.source, places)
    if access.load_stride(read, channel.var) == 1:
        return read, []
    axes = (*sums.reduce, channel)
    new = [Axis(Var(axis.var.name, "int64"), axis.extent) for axis in axes]
    buffer = emit.scratch([axis.extent for axis in axes], sums.dtype, "filters")
    value = substitute(read, {old.var: axis.var for old, axis in zip(axes, new, strict=True)})
    return emit.load(buffer, [axis.var for axis in axes]), [Stage(buffer, tuple(new), (), None, value)]


def _reading(reader: Stage, sums: Stage, first: Stage) -> Stage:
    """Returns the epilogue reading the spread sums at its own place."""
    here: list[ir.Expr] = [axis.var for axis in reader.spatial]
    return replace(reader, value=replace_loads(reader.value, sums.buffer, lambda _at: emit.load(first.buffer, here)))
