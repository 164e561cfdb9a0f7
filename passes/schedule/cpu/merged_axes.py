"""Contractions with two axes that are one axis of the result, as for groups of a convolution: stores sums in place.

A stage that reads the sums at `[..., p // size, p % size]` becomes their epilogue, so that no sum is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import (
    Axis,
    Kernel,
    Opaque,
    Stage,
    by_axis,
    loads,
    reads,
    replace_loads,
    substitute,
)


@dataclass(frozen=True)
class AxisMerge:
    """A stage (`result`) that reads a contraction's sums and merges two of their axes, as for groups.

    `epilogue` is an equivalent stage on the sums' axes. Their axes `first` and `first + 1` are merged; the latter has
    extent `size`.
    """

    result: Stage
    epilogue: Stage
    first: int
    size: int

    def indices_in_result(self, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Converts indices along the sums' axes to indices in the result, where two of these axes are one."""
        *before, outer, inner = indices[: self.first + 2]
        return [*before, outer * self.size + inner, *indices[self.first + 2 :]]


def axis_merges(stages: Sequence[Stage | Opaque], kernel: Kernel) -> list[AxisMerge]:
    """Finds the stages that merge two axes of a contraction's sums into one, as for the groups of a convolution.

    Such a stage can become the epilogue of the contraction, without a copy of the sums. No other stage may read the
    sums.
    """
    merges: list[AxisMerge] = []
    for stage in stages:
        if isinstance(stage, Stage):
            merges += _merges_by_readers(stage, stages, kernel)
    # A stage that reads the sums of two contractions can't be the epilogue of both.
    results = {merge.result.buffer for merge in merges}
    return merges if len(results) == len(merges) else []


def with_epilogues(stages: Sequence[Stage | Opaque], merges: Sequence[AxisMerge]) -> list[Stage | Opaque]:
    """Replaces each stage that merges two axes by an equivalent epilogue on the sums' own axes."""
    epilogues = {merge.result.buffer: merge.epilogue for merge in merges}
    return [epilogues.get(stage.buffer, stage) if isinstance(stage, Stage) else stage for stage in stages]


def redirected_stores(body: Stmt, merges: Sequence[AxisMerge]) -> Stmt:
    """Returns loop nests that store to the kernel's results instead of the scratch buffers of `with_epilogues`.

    `with_epilogues` gave each epilogue (the stage that finishes each sum of a contraction) the sums' own axes, so that it
    can be tiled like the sums. It stores to a scratch buffer of these axes, such as `joined[n, group, channel]`. The
    result has two of the axes merged, so the store becomes `result[n, group * size + channel]`, and the scratch buffer
    isn't needed.

    Args:
        body: the loop nests of the epilogues, as they were emitted.
        merges: for each epilogue, the result that it computes and the axes that are merged.
    """
    merge_of_scratch = {merge.epilogue.buffer: merge for merge in merges}

    def redirect(store: BufferStore) -> BufferStore:
        """Redirects a store to a scratch buffer; returns other stores unchanged."""
        merge = merge_of_scratch.get(store.buffer)
        if merge is None:
            return store
        return BufferStore(merge.result.buffer, store.value, merge.indices_in_result(store.indices))

    return tvm_ffi.structural_map(body, (BufferStore, redirect))


def _merges_by_readers(sums: Stage, stages: Sequence[Stage | Opaque], kernel: Kernel) -> list[AxisMerge]:
    """Converts the readers of a contraction's sums to epilogues on the sums' axes, if all merge two of these axes.

    Returns an empty list if a reader merges no axes. Epilogues finish the sums in registers, so that these are never
    stored.

    Args:
        sums: the contraction.
        stages: all loop nests of the kernel.
        kernel: the kernel.
    """
    if not sums.reduce or not kernel.is_local(sums.buffer):
        return []
    merges: list[AxisMerge] = []
    for stage in stages:
        if stage is sums or not reads(stage, sums.buffer):
            continue
        merge = _as_axis_merge(sums, stage, kernel) if isinstance(stage, Stage) else None
        if merge is None:
            return []
        merges.append(merge)
    return merges


def _as_axis_merge(sums: Stage, result: Stage, kernel: Kernel) -> AxisMerge | None:
    """Converts a stage (loop nest) that merges two axes of a contraction's sums to an epilogue on the sums' axes.

    Each sum is then finished where it is computed, and needs no memory. Returns None unless the stage merges two axes
    and reads each sum once.

    Args:
        sums: the contraction.
        result: the stage that reads the sums.
        kernel: the kernel.
    """
    if result.reduce or kernel.is_local(result.buffer) or len(sums.spatial) != len(result.spatial) + 1:
        return None
    sum_loads = [load for load in loads(result.value) if load.source.same_as(sums.buffer)]
    for first in range(len(result.spatial)):
        # The candidates to merge are the axes `first` and `first + 1`.
        inner_size = sums.spatial[first + 1].size
        if inner_size is None or inner_size <= 1 or not _has_equal_extents(sums, result, first):
            continue
        if all(_reads_split_index(load, result, first, inner_size) for load in sum_loads):
            return AxisMerge(result, _on_axes_of_sums(sums, result, first, inner_size), first, inner_size)
    return None


def _has_equal_extents(sums: Stage, result: Stage, first: int) -> bool:
    """Returns whether the sums have the result's extents once the axes `first` and `first + 1` are merged."""
    *before, outer, inner = (axis.extent for axis in sums.spatial[: first + 2])
    extents = [*before, outer * inner, *(axis.extent for axis in sums.spatial[first + 2 :])]
    extent_pairs = zip(extents, (axis.extent for axis in result.spatial), strict=True)
    return all(emit.static(emit.simplified(extent - other)) == 0 for extent, other in extent_pairs)


def _reads_split_index(load: TensorLoad, result: Stage, first: int, size: int) -> bool:
    """Returns whether a load reads the sum at the result's own indices, with one index split in quotient and remainder.

    For example, the result at ``(n, p)`` reads the sum at ``(n, p // size, p % size)``. Each sum is then read for one
    result only, which can be computed while the sum is in a register.

    Args:
        load: the load.
        result: the stage that computes the result.
        first: the position of the index to split.
        size: the divisor.
    """
    *before, merged_var = (axis.var for axis in result.spatial[: first + 1])
    split_index = [tirx.floordiv(merged_var, emit.index(size)), tirx.floormod(merged_var, emit.index(size))]
    expected = [*before, *split_index, *(axis.var for axis in result.spatial[first + 1 :])]
    return all(map(tvm_ffi.structural_equal, load.indices, expected))


def _on_axes_of_sums(sums: Stage, result: Stage, first: int, size: int) -> Stage:
    """Rewrites a stage (loop nest) that merges two axes of the sums it reads, to compute on the sums' own axes.

    One axis of the result becomes two neighbouring axes. The new stage stores to a scratch buffer of the sums' shape.
    It can be tiled like the sums, as an epilogue on sums in registers.

    Args:
        sums: the stage of the sums.
        result: the stage that reads them.
        first: the position of the result's axis, and of the first of the two axes of the sums.
        size: the extent of the second of the two axes.
    """
    axes = tuple(Axis(Var(axis.var.name, "int64"), axis.extent) for axis in sums.spatial)
    sum_indices: list[ir.Expr] = [axis.var for axis in axes]
    own_sum = emit.load(sums.buffer, sum_indices)
    value_of_own_sum = replace_loads(result.value, sums.buffer, lambda _indices: own_sum)
    merged_index = sum_indices[first] * size + sum_indices[first + 1]
    result_indices = [*sum_indices[:first], merged_index, *sum_indices[first + 2 :]]
    value = substitute(value_of_own_sum, by_axis(result.spatial, result_indices))
    buffer = emit.scratch([axis.extent for axis in axes], result.dtype, "joined")
    return Stage(buffer, axes, (), None, value, result.constants)
