"""Chains along short rows, many rows at once: rows are transposed so that the lanes of a vector are rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute, variables
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.reduction import emit_reduction
from tvtf.passes.schedule.cpu.scalar import emit_scalar
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.transposed_reads import has_branch

SHORTER_THAN_VECTORS = 2
VECTORS_OF_ROWS = 4
# In units of the time per row of a block: the overhead of a block, and the time of a row outside of blocks.
ROWS_TO_BEGIN_A_BLOCK, ROWS_FOR_A_LEFT_ONE = 4, 4


def is_short(stages: Sequence[Stage], depth: int, target: CpuTarget) -> bool:
    """Returns whether rows are too short for vectors along them, and many can be read at once."""
    lanes = target.lanes(min(stage.item_bytes for stage in stages))
    inner = [axis for stage in stages for axis in (*stage.spatial[depth:], *stage.reduce)]
    rows = stages[0].spatial[depth - 1].size
    if any(axis.size is None for axis in inner) or (rows is not None and rows < lanes):
        return False
    lengths = [prod(axis.size or 1 for axis in (*stage.spatial[depth:], *stage.reduce)) for stage in stages]
    return 1 < max(lengths) < SHORTER_THAN_VECTORS * lanes and all(_is_stackable(s, stages, depth) for s in stages)


def _is_stackable(stage: Stage, stages: Sequence[Stage], depth: int) -> bool:
    return not has_branch(stage.value) and all(
        access.load_stride(load, stage.spatial[depth - 1].var) in (0, 1) or _is_row(load, stage, depth)
        for load in _outer_loads(stage, stages)
    )


def _is_row(load: TensorLoad, stage: Stage, depth: int) -> bool:
    """Returns whether a load is contiguous along the row."""
    step = access.load_stride(load, stage.spatial[depth - 1].var)
    along = _axes_of(load, stage, depth)
    return (
        step is not None and bool(along) and access.load_stride(load, along[-1].var) == 1 and _dtype_of(load) != "bool"
    )


def _outer_loads(stage: Stage, stages: Sequence[Stage]) -> list[TensorLoad]:
    """Returns a stage's loads from outside the chain."""
    return [load for load in stage.loads if not any(load.source.same_as(other.buffer) for other in stages)]


def _axes_of(load: TensorLoad, stage: Stage, depth: int) -> list[Axis]:
    used = variables(load)
    return [axis for axis in (*stage.spatial[depth:], *stage.reduce) if axis.var in used and axis.size != 1]


def _dtype_of(load: TensorLoad) -> str:
    return str(load.source.ty.dtype.dtype)


def emit_stacked(
    stages: Sequence[Stage],
    depth: int,
    needed: set[Var],
    target: CpuTarget,
    one_row: Callable[[list[ir.Expr]], Stmt],
) -> Stmt:
    """Writes a parallel loop over blocks of rows, then the remaining rows one by one."""
    *outer, last = [axis.extent for axis in stages[0].spatial[:depth]]
    height = _height(emit.static(last), target.lanes(min(stage.item_bytes for stage in stages)))
    blocks = emit.simplified(tirx.floordiv(last, index(height)))
    left = emit.simplified(last - blocks * height)

    def block(places: list[ir.Expr]) -> Stmt:
        *before, number = places
        return _Block(tuple(stages), depth, needed, target, tuple(before), number * height, height).emit()

    def rest(places: list[ir.Expr]) -> Stmt:
        return emit.loop(left, lambda row: one_row([*places, blocks * height + row]))

    def write(parallel: bool) -> Stmt:
        main = emit.fused([*outer, blocks], block, parallel)
        parts = [None if emit.static(blocks) == 0 else main]
        return emit.sequence([*parts, None if emit.static(left) == 0 else emit.fused(outer, rest, False)])

    return is_parallel(stages, target, write)


def _height(rows: int | None, lanes: int) -> int:
    """Returns the rows of a block: many, but so that few rows remain.

    A block's stages have a fixed cost; rows that don't fill one run one by one, which takes longer.
    """
    heights = [lanes * vectors for vectors in range(VECTORS_OF_ROWS, 0, -1)]

    def cost(height: int) -> int:
        blocks, left = divmod(rows or 0, height)
        return blocks * (height + ROWS_TO_BEGIN_A_BLOCK) + left * ROWS_FOR_A_LEFT_ONE

    return heights[0] if rows is None else min(heights, key=cost)


@dataclass(frozen=True)
class _Block:
    """`rows` rows from `start` on, at `places` of the outer axes."""

    stages: tuple[Stage, ...]
    depth: int
    needed: set[Var]
    target: CpuTarget
    places: tuple[ir.Expr, ...]
    start: ir.Expr
    rows: int

    def emit(self) -> Stmt:
        """Writes the block: transposed operands, the stages, then the needed results."""
        lane = Axis(Var("row", "int64"), index(self.rows))
        stacked = {s.buffer: self._scratch(s.spatial[self.depth :], s.dtype, "stacked") for s in self.stages}
        copies: list[tuple[Stage, TensorLoad]] = []
        nests = [_nest(self._stacked(stage, lane, stacked, copies), self.target) for stage in self.stages]
        buffers = [*stacked.values(), *(copy.buffer for copy, _ in copies)]
        transposes = [emit_elementwise([copy], self.target, False) for copy, _ in copies]
        results = [self._result(stage, stacked[stage.buffer]) for stage in self.stages if stage.buffer in self.needed]
        return emit.sequence([*map(emit.allocate, buffers), *transposes, *nests, *results])

    def _scratch(self, axes: Sequence[Axis], dtype: str, name: str) -> Var:
        return emit.scratch([*(axis.extent for axis in axes), index(self.rows)], dtype, name)

    def _at_row(self, node: ir.Expr, stage: Stage, lane: Axis) -> ir.Expr:
        places = [*self.places, self.start + lane.var]
        return substitute(node, {axis.var: at for axis, at in zip(stage.spatial, places, strict=False)})

    def _stacked(
        self, stage: Stage, lane: Axis, stacked: dict[Var, Var], copies: list[tuple[Stage, TensorLoad]]
    ) -> Stage:
        """Returns a stage with its rows along its last axis, in scratch memory."""

        def replacement(load: TensorLoad) -> ir.Expr:
            """Returns the item from a stage's stacked rows, from where it is, or from a transposed copy."""
            if load.source in stacked:
                return emit.load(stacked[load.source], [*load.indices[self.depth :], lane.var])
            # Rows are neighbours in memory already, or share the item.
            if access.load_stride(load, stage.spatial[self.depth - 1].var) in (0, 1):
                return load
            along = _axes_of(load, stage, self.depth)
            return emit.load(self._transposed_rows(load, stage, copies), [*(axis.var for axis in along), lane.var])

        value = self._at_row(structural_map(stage.value, (TensorLoad, replacement)), stage, lane)
        return replace(
            stage,
            buffer=stacked[stage.buffer],
            spatial=(*stage.spatial[self.depth :], lane),
            value=value,
            constants=frozenset(),
        )

    def _transposed_rows(self, load: TensorLoad, stage: Stage, copies: list[tuple[Stage, TensorLoad]]) -> Var:
        """Returns the transposed rows of an operand; stages that read the same rows share a copy."""
        lane = Axis(Var("row", "int64"), index(self.rows))
        along = _axes_of(load, stage, self.depth)
        single = {axis.var: index(0) for axis in (*stage.spatial[self.depth :], *stage.reduce) if axis.size == 1}
        value = self._at_row(substitute(load, single), stage, lane)
        for copy, _ in copies:
            axes = dict(zip([axis.var for axis in (*along, lane)], [axis.var for axis in copy.spatial], strict=False))
            same = len(copy.spatial) == len(along) + 1 and tvm_ffi.structural_equal(substitute(value, axes), copy.value)
            if same and all(a.size == b.size for a, b in zip(along, copy.spatial, strict=False)):
                return copy.buffer
        buffer = self._scratch(along, _dtype_of(load), "turned")
        copies.append((Stage(buffer, (*along, lane), (), None, value), load))
        return buffer

    def _result(self, stage: Stage, stacked: Var) -> Stmt:
        """Transposes a stage's results back into the rows of its own buffer."""
        rows = (*(Axis(axis.var, index(1)) for axis in stage.spatial[: self.depth - 1]),
                Axis(stage.spatial[self.depth - 1].var, index(self.rows)))  # fmt: skip
        inner = stage.spatial[self.depth :]
        value = emit.load(stacked, [*(axis.var for axis in inner), rows[-1].var])
        copied = Stage(stage.buffer, (*rows, *inner), (), None, value)
        fixed = {axis.var: at for axis, at in zip(rows, self.places, strict=False)}
        return self._moved(emit_elementwise([copied], self.target, False, fixed), stage.buffer)

    def _moved(self, nest: Stmt, buffer: Var) -> Stmt:
        """Shifts the nest's stores, and the addresses where subroutines store, by the block's first row.

        The nest is written as if the block began with the first row. It doesn't read the buffer.
        """

        def shifted(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
            places = list(indices)
            places[self.depth - 1] = places[self.depth - 1] + self.start
            return places

        def store(node: BufferStore) -> BufferStore:
            return BufferStore(buffer, node.value, shifted(node.indices)) if node.buffer.same_as(buffer) else node

        def address(node: TensorLoad) -> ir.Expr:
            return emit.load(buffer, shifted(node.indices)) if node.source.same_as(buffer) else node

        return structural_map(nest, [(BufferStore, store), (TensorLoad, address)])


def _nest(stage: Stage, target: CpuTarget) -> Stmt:
    if not stage.reduce:
        return emit_elementwise([stage], target, False)
    return emit_reduction(stage, [stage], target, False) or emit_scalar(stage, [stage])
