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
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, loads, reads, replace_loads, substitute


@dataclass(frozen=True)
class Joined:
    """`result` as an `ending` on the axes of its sums; their axes `first` and `first + 1` are one of the result."""

    result: Stage
    ending: Stage
    first: int
    size: int

    def places(self, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        *before, outer, inner = indices[: self.first + 2]
        return [*before, outer * self.size + inner, *indices[self.first + 2 :]]


def joined_of(stages: Sequence[Stage | Opaque], kernel: Kernel) -> list[Joined]:
    """Returns the results whose sums nothing else reads."""
    results = [joined for sums in stages if isinstance(sums, Stage) for joined in _readers(sums, stages, kernel)]
    return results if len({joined.result.buffer for joined in results}) == len(results) else []


def with_endings(stages: Sequence[Stage | Opaque], joined_results: Sequence[Joined]) -> list[Stage | Opaque]:
    """Returns the stages with results replaced by their endings."""
    endings = {joined.result.buffer: joined.ending for joined in joined_results}
    return [endings.get(stage.buffer, stage) if isinstance(stage, Stage) else stage for stage in stages]


def stored(body: Stmt, joined_results: Sequence[Joined]) -> Stmt:
    """Redirects the endings' stores to the results.

    So the sums' own axes are tiled, and what is stored has the result's shape.
    """
    known = {joined.ending.buffer: joined for joined in joined_results}

    def store(node: BufferStore) -> BufferStore:
        joined = known.get(node.buffer)
        return node if joined is None else BufferStore(joined.result.buffer, node.value, joined.places(node.indices))

    return tvm_ffi.structural_map(body, (BufferStore, store))


def _readers(sums: Stage, stages: Sequence[Stage | Opaque], kernel: Kernel) -> list[Joined]:
    if not sums.reduce or not kernel.is_local(sums.buffer):
        return []
    readers = [stage for stage in stages if stage is not sums and reads(stage, sums.buffer)]
    results = [_joined(sums, reader, kernel) for reader in readers if isinstance(reader, Stage)]
    known = [joined for joined in results if joined is not None]
    return known if len(known) == len(readers) else []


def _joined(sums: Stage, result: Stage, kernel: Kernel) -> Joined | None:
    """Returns the reader of sums on their axes, if it visits each sum once.

    Each sum is then finished where it is computed, and needs no memory of its own.
    """
    if result.reduce or kernel.is_local(result.buffer) or len(sums.spatial) != len(result.spatial) + 1:
        return None
    sum_loads = [load for load in loads(result.value) if load.source.same_as(sums.buffer)]
    for first in range(len(result.spatial)):
        inner = sums.spatial[first + 1].size
        if inner is not None and inner > 1 and _matches(sums, result, first) and all(
            _reads_parts(load, result, first, inner) for load in sum_loads
        ):  # fmt: skip
            return Joined(result, _on_axes_of_sums(sums, result, first, inner), first, inner)
    return None


def _matches(sums: Stage, result: Stage, first: int) -> bool:
    """Returns whether both stages visit the same points."""
    *before, outer, inner = (axis.extent for axis in sums.spatial[: first + 2])
    extents = [*before, outer * inner, *(axis.extent for axis in sums.spatial[first + 2 :])]
    pairs = zip(extents, (axis.extent for axis in result.spatial), strict=True)
    return all(emit.static(emit.simplified(extent - other)) == 0 for extent, other in pairs)


def _reads_parts(load: TensorLoad, result: Stage, first: int, size: int) -> bool:
    *before, joined = (axis.var for axis in result.spatial[: first + 1])
    parts = [tirx.floordiv(joined, emit.index(size)), tirx.floormod(joined, emit.index(size))]
    expected = [*before, *parts, *(axis.var for axis in result.spatial[first + 1 :])]
    return all(map(tvm_ffi.structural_equal, load.indices, expected))


def _on_axes_of_sums(sums: Stage, result: Stage, first: int, size: int) -> Stage:
    """Returns the reader rewritten on the axes of its sums."""
    axes = tuple(Axis(Var(axis.var.name, "int64"), axis.extent) for axis in sums.spatial)
    here: list[ir.Expr] = [axis.var for axis in axes]
    value = replace_loads(result.value, sums.buffer, lambda _indices: emit.load(sums.buffer, here))
    places = [*here[:first], here[first] * size + here[first + 1], *here[first + 2 :]]
    value = substitute(value, {axis.var: at for axis, at in zip(result.spatial, places, strict=True)})
    buffer = emit.scratch([axis.extent for axis in axes], result.dtype, "joined")
    return Stage(buffer, axes, (), None, value, result.constants)
