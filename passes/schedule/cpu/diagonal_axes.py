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
    """`whole` as an `ending` on the axes of its sums; their axes `first` and `first + 1` are one axis of the whole."""

    whole: Stage
    ending: Stage
    first: int
    size: int

    def places(self, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        *before, outer, inner = indices[: self.first + 2]
        return [*before, outer * self.size + inner, *indices[self.first + 2 :]]


def joined_of(stages: Sequence[Stage | Opaque], kernel: Kernel) -> list[Joined]:
    """Returns the results whose sums nothing else reads."""
    found = [joined for sums in stages if isinstance(sums, Stage) for joined in _readers(sums, stages, kernel)]
    return found if len({joined.whole.buffer for joined in found}) == len(found) else []


def with_endings(stages: Sequence[Stage | Opaque], found: Sequence[Joined]) -> list[Stage | Opaque]:
    """Returns the stages with wholes replaced by their endings."""
    endings = {joined.whole.buffer: joined.ending for joined in found}
    return [endings.get(stage.buffer, stage) if isinstance(stage, Stage) else stage for stage in stages]


def stored(body: Stmt, found: Sequence[Joined]) -> Stmt:
    """Redirects the endings' stores to the wholes."""
    known = {joined.ending.buffer: joined for joined in found}

    def store(node: BufferStore) -> BufferStore:
        joined = known.get(node.buffer)
        return node if joined is None else BufferStore(joined.whole.buffer, node.value, joined.places(node.indices))

    return tvm_ffi.structural_map(body, (BufferStore, store))


def _readers(sums: Stage, stages: Sequence[Stage | Opaque], kernel: Kernel) -> list[Joined]:
    if not sums.reduce or not kernel.is_local(sums.buffer):
        return []
    readers = [stage for stage in stages if stage is not sums and reads(stage, sums.buffer)]
    found = [_joined(sums, reader, kernel) for reader in readers if isinstance(reader, Stage)]
    known = [joined for joined in found if joined is not None]
    return known if len(known) == len(readers) else []


def _joined(sums: Stage, whole: Stage, kernel: Kernel) -> Joined | None:
    """Returns the reader of sums on their axes, if it visits each sum once."""
    if whole.reduce or kernel.is_local(whole.buffer) or len(sums.spatial) != len(whole.spatial) + 1:
        return None
    own = [load for load in loads(whole.value) if load.source.same_as(sums.buffer)]
    for first in range(len(whole.spatial)):
        inner = sums.spatial[first + 1].size
        if inner is not None and inner > 1 and _matches(sums, whole, first) and all(
            _reads_parts(load, whole, first, inner) for load in own
        ):  # fmt: skip
            return Joined(whole, _ending(sums, whole, first, inner), first, inner)
    return None


def _matches(sums: Stage, whole: Stage, first: int) -> bool:
    """Whether both stages visit the same points."""
    *before, outer, inner = (axis.extent for axis in sums.spatial[: first + 2])
    extents = [*before, outer * inner, *(axis.extent for axis in sums.spatial[first + 2 :])]
    pairs = zip(extents, (axis.extent for axis in whole.spatial), strict=True)
    return all(emit.static(emit.simplified(own - other)) == 0 for own, other in pairs)


def _reads_parts(load: TensorLoad, whole: Stage, first: int, size: int) -> bool:
    *before, joined = (axis.var for axis in whole.spatial[: first + 1])
    parts = [tirx.floordiv(joined, emit.index(size)), tirx.floormod(joined, emit.index(size))]
    wanted = [*before, *parts, *(axis.var for axis in whole.spatial[first + 1 :])]
    return all(map(tvm_ffi.structural_equal, load.indices, wanted))


def _ending(sums: Stage, whole: Stage, first: int, size: int) -> Stage:
    axes = tuple(Axis(Var(axis.var.name, "int64"), axis.extent) for axis in sums.spatial)
    here: list[ir.Expr] = [axis.var for axis in axes]
    value = replace_loads(whole.value, sums.buffer, lambda _indices: emit.load(sums.buffer, here))
    places = [*here[:first], here[first] * size + here[first + 1], *here[first + 2 :]]
    value = substitute(value, {axis.var: at for axis, at in zip(whole.spatial, places, strict=True)})
    buffer = emit.scratch([axis.extent for axis in axes], whole.dtype, "joined")
    return Stage(buffer, axes, (), None, value, whole.constants)
