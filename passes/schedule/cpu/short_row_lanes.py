"""Chains along short rows, many rows at once: rows are transposed so that the lanes of a vector are rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import emit_elementwise
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, by_axis, substitute, variables
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.reduction import emit_reduction
from tvtf.passes.schedule.cpu.scalar import emit_scalar
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.transposed_reads import has_branch

MAX_VECTORS_OF_SHORT_ROW = 2
MAX_VECTORS_OF_ROWS = 4
# In units of the time per row of a block: the overhead of a block, and the time of a row outside of blocks.
BLOCK_OVERHEAD_IN_ROWS, COST_OF_A_REMAINING_ROW = 4, 4


def is_short(stages: Sequence[Stage], depth: int, target: CpuTarget) -> bool:
    """Returns whether a chain's rows are too short for vectors along a row, but can be computed in vectors across rows.

    In such a vector, each lane is a row.

    Args:
        stages: the stages of the chain.
        depth: the number of axes that count the rows, which come first.
        target: the CPU.
    """
    lanes = target.lanes(min(stage.item_bytes for stage in stages))
    row_count = stages[0].spatial[depth - 1].size
    # Fewer rows than lanes fill no vector.
    if row_count is not None and row_count < lanes:
        return False
    longest_row = 0
    for stage in stages:
        row_length = access.iteration_count((*stage.spatial[depth:], *stage.reduce))
        if row_length is None:
            return False
        longest_row = max(longest_row, row_length)
    is_short_row = 1 < longest_row < MAX_VECTORS_OF_SHORT_ROW * lanes
    return is_short_row and all(_can_be_stacked(stage, stages, depth) for stage in stages)


def _can_be_stacked(stage: Stage, stages: Sequence[Stage], depth: int) -> bool:
    """Returns whether a stage (loop nest) can be computed for many rows at once, in vectors whose lanes are rows.

    Each operand must be contiguous along or across rows, so that it can be loaded in vectors. The value must have no
    branches, which the lanes might take differently.

    Args:
        stage: the stage.
        stages: all stages that are computed together.
        depth: the number of axes up to the axis of rows.
    """
    if has_branch(stage.value):
        return False
    row_var = stage.spatial[depth - 1].var
    for load in _loads_from_outside(stage, stages):
        is_contiguous_across_rows = access.load_stride(load, row_var) in (0, 1)
        if not is_contiguous_across_rows and not _is_contiguous_along_row(load, stage, depth):
            return False
    return True


def _is_contiguous_along_row(load: TensorLoad, stage: Stage, depth: int) -> bool:
    """Returns whether a load is contiguous along the row. Its rows can then be transposed in registers."""
    stride = access.load_stride(load, stage.spatial[depth - 1].var)
    axes = _row_axes_read(load, stage, depth)
    return (
        stride is not None and bool(axes) and access.load_stride(load, axes[-1].var) == 1 and _dtype_of(load) != "bool"
    )


def _loads_from_outside(stage: Stage, stages: Sequence[Stage]) -> list[TensorLoad]:
    """Returns a stage's loads of buffers that no stage of the chain writes."""
    return [load for load in stage.loads if not any(load.source.same_as(other.buffer) for other in stages)]


def _row_axes_read(load: TensorLoad, stage: Stage, depth: int) -> list[Axis]:
    """Returns the axes within a row that a load depends on."""
    used = variables(load)
    return [axis for axis in (*stage.spatial[depth:], *stage.reduce) if axis.var in used and axis.size != 1]


def _dtype_of(load: TensorLoad) -> str:
    """Returns the type of the elements that a load reads."""
    return str(load.source.ty.dtype.dtype)


def emit_stacked(
    stages: Sequence[Stage],
    depth: int,
    stored_buffers: set[Var],
    target: CpuTarget,
    emit_row: Callable[[list[ir.Expr]], Stmt],
) -> Stmt:
    """Emits a chain on short rows: a parallel loop over blocks of transposed rows, then the remaining rows one by one.

    Args:
        stages: the stages of the chain.
        depth: how many of the first axes count the rows.
        stored_buffers: the results to store in memory.
        target: the CPU.
        emit_row: emits the chain for one row, given its indices.
    """
    *outer, row_extent = [axis.extent for axis in stages[0].spatial[:depth]]
    rows_per_block = _rows_per_block(emit.static(row_extent), target.lanes(min(stage.item_bytes for stage in stages)))
    blocks = emit.simplified(tirx.floordiv(row_extent, index(rows_per_block)))
    remaining = emit.simplified(row_extent - blocks * rows_per_block)

    def emit_block(indices: list[ir.Expr]) -> Stmt:
        """Emits one block of rows; `indices` are those of the outer axes, then of the block."""
        *outer_indices, block_index = indices
        first_row = block_index * rows_per_block
        block = _RowBlock(tuple(stages), depth, stored_buffers, target, tuple(outer_indices), first_row, rows_per_block)
        return block.emit()

    def emit_remaining_rows(outer_indices: list[ir.Expr]) -> Stmt:
        return emit.loop(remaining, lambda row: emit_row([*outer_indices, blocks * rows_per_block + row]))

    def emit_loops(parallel: bool) -> Stmt:
        """Emits the loop over full blocks, then the loop over the remaining rows."""
        loop_over_blocks = emit.fused_loops([*outer, blocks], emit_block, parallel)
        statements: list[Stmt | None] = []
        if emit.static(blocks) != 0:
            statements.append(loop_over_blocks)
        if emit.static(remaining) != 0:
            statements.append(emit.fused_loops(outer, emit_remaining_rows, False))
        return emit.sequence(statements)

    return emit_parallel_or_serial(stages, target, emit_loops)


def _rows_per_block(rows: int | None, lanes: int) -> int:
    """Returns the number of rows per block with the least estimated cost.

    Each block has a fixed cost. The remaining rows are computed one by one, which takes longer. If the number of rows
    is unknown, the largest block is used.

    Args:
        rows: the number of rows, or None if it is unknown.
        lanes: the number of elements of a vector.
    """
    heights = [lanes * vectors for vectors in range(MAX_VECTORS_OF_ROWS, 0, -1)]
    if rows is None:
        return heights[0]

    def cost(height: int) -> int:
        """Estimates the cost of all rows with blocks of this height, in units of a row in a block."""
        blocks, remaining_rows = divmod(rows, height)
        return blocks * (height + BLOCK_OVERHEAD_IN_ROWS) + remaining_rows * COST_OF_A_REMAINING_ROW

    return min(heights, key=cost)


@dataclass(frozen=True)
class _RowBlock:
    """A block of short rows that a chain computes at once, with one row per lane of a vector.

    It has `rows` rows starting at `start`, at `outer_indices` of the outer axes. A stacked result has the rows as its
    last axis.
    """

    stages: tuple[Stage, ...]
    depth: int
    stored_buffers: set[Var]
    target: CpuTarget
    outer_indices: tuple[ir.Expr, ...]
    start: ir.Expr
    rows: int

    def emit(self) -> Stmt:
        """Emits the computation of a block of short rows, in vectors whose lanes are rows.

        First the operands are transposed. Then the stages are computed, and the results to be stored are transposed
        back.
        """
        row_axis = Axis(Var("row", "int64"), index(self.rows))
        stacked_buffers = {
            stage.buffer: self._scratch(stage.spatial[self.depth :], stage.dtype, "stacked") for stage in self.stages
        }
        copies: list[tuple[Stage, TensorLoad]] = []
        nests: list[Stmt] = []
        for stage in self.stages:
            # This appends the transposes that the stage needs to `copies`.
            stacked_stage = self._stacked(stage, row_axis, stacked_buffers, copies)
            nests.append(_emit_stage(stacked_stage, self.target))
        copy_stages = [copy for copy, _load in copies]
        buffers = [*stacked_buffers.values(), *(copy.buffer for copy in copy_stages)]
        transposes = [emit_elementwise([copy], self.target, False) for copy in copy_stages]
        stored_stages = [stage for stage in self.stages if stage.buffer in self.stored_buffers]
        results = [self._result(stage, stacked_buffers[stage.buffer]) for stage in stored_stages]
        return emit.sequence([*map(emit.allocate, buffers), *transposes, *nests, *results])

    def _scratch(self, axes: Sequence[Axis], dtype: str, name: str) -> Var:
        """Returns a scratch buffer with the given axes, and the block's rows as the last axis."""
        return emit.scratch([*(axis.extent for axis in axes), index(self.rows)], dtype, name)

    def _at_row(self, node: ir.Expr, stage: Stage, row_axis: Axis) -> ir.Expr:
        """Returns an expression of a stage with the row axes set to the block's rows."""
        row_indices = [*self.outer_indices, self.start + row_axis.var]
        return substitute(
            node, {axis.var: index_value for axis, index_value in zip(stage.spatial, row_indices, strict=False)}
        )

    def _stacked(
        self, stage: Stage, row_axis: Axis, stacked: dict[Var, Var], copies: list[tuple[Stage, TensorLoad]]
    ) -> Stage:
        """Returns a stage on transposed rows: the last axis of the stage counts the block's rows.

        Appends a stage to `copies` for each operand to transpose.
        """

        def replacement(load: TensorLoad) -> ir.Expr:
            """Returns the load that replaces a load of one row, for vectors whose lanes are rows.

            It reads the transposed result of another stage, the operand itself, or a transposed copy of the operand.
            """
            if load.source in stacked:
                indices_in_row = load.indices[self.depth :]
                return emit.load(stacked[load.source], [*indices_in_row, row_axis.var])
            # The elements of neighbouring rows are contiguous in memory, or all rows load the same element.
            if access.load_stride(load, stage.spatial[self.depth - 1].var) in (0, 1):
                return load
            axes = _row_axes_read(load, stage, self.depth)
            transposed = self._transposed_rows(load, stage, copies)
            return emit.load(transposed, [*(axis.var for axis in axes), row_axis.var])

        value = self._at_row(structural_map(stage.value, (TensorLoad, replacement)), stage, row_axis)
        return replace(
            stage,
            buffer=stacked[stage.buffer],
            spatial=(*stage.spatial[self.depth :], row_axis),
            value=value,
            constants=frozenset(),
        )

    def _transposed_rows(self, load: TensorLoad, stage: Stage, copies: list[tuple[Stage, TensorLoad]]) -> Var:
        """Returns the buffer for an operand's transposed rows, and appends the stage that fills it to `copies`.

        Loads of the same rows share a buffer. Each operand is then transposed once.

        Args:
            load: the load of the operand.
            stage: the stage that contains the load.
            copies: the stages that transpose operands, each with the load that it serves.
        """
        row_axis = Axis(Var("row", "int64"), index(self.rows))
        axes_along_row = _row_axes_read(load, stage, self.depth)
        copy_axes = (*axes_along_row, row_axis)
        extents = [axis.size for axis in copy_axes]
        unit_axes = {axis.var: index(0) for axis in (*stage.spatial[self.depth :], *stage.reduce) if axis.size == 1}
        value = self._at_row(substitute(load, unit_axes), stage, row_axis)
        for known_copy, _load in copies:
            if [axis.size for axis in known_copy.spatial] != extents:
                continue
            known_vars = {axis.var: known.var for axis, known in zip(copy_axes, known_copy.spatial, strict=True)}
            if tvm_ffi.structural_equal(substitute(value, known_vars), known_copy.value):
                return known_copy.buffer
        buffer = self._scratch(axes_along_row, _dtype_of(load), "turned")
        copies.append((Stage(buffer, copy_axes, (), None, value), load))
        return buffer

    def _result(self, stage: Stage, stacked: Var) -> Stmt:
        """Emits the transpose of a stage's results, whose lanes are rows, back into the rows of the stage's buffer."""
        *outer_axes, last_row_axis = stage.spatial[: self.depth]
        axes_in_row = stage.spatial[self.depth :]
        # A block has one index along the outer axes, and all of its rows along the last one.
        single_axes = [Axis(axis.var, index(1)) for axis in outer_axes]
        block_rows = Axis(last_row_axis.var, index(self.rows))
        value = emit.load(stacked, [*(axis.var for axis in axes_in_row), block_rows.var])
        copy_stage = Stage(stage.buffer, (*single_axes, block_rows, *axes_in_row), (), None, value)
        fixed = by_axis(single_axes, self.outer_indices)
        return self._shift_rows(emit_elementwise([copy_stage], self.target, False, fixed), stage.buffer)

    def _shift_rows(self, nest: Stmt, buffer: Var) -> Stmt:
        """Shifts the rows of a nest's stores, and of the addresses that are passed to subroutines, by the block's first row.

        Axes begin at 0, so the nest was emitted for a block that begins with row 0. It doesn't read the buffer.
        """

        def shifted(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
            """Adds the block's first row to the index of the row."""
            *outer_indices, row_index = indices[: self.depth]
            return [*outer_indices, row_index + self.start, *indices[self.depth :]]

        def shift_store(store: BufferStore) -> BufferStore:
            """Shifts the row of a store to the buffer; returns other stores unchanged."""
            return BufferStore(buffer, store.value, shifted(store.indices)) if store.buffer.same_as(buffer) else store

        def shift_address(load: TensorLoad) -> ir.Expr:
            """Shifts the row of an address in the buffer; returns other loads unchanged."""
            return emit.load(buffer, shifted(load.indices)) if load.source.same_as(buffer) else load

        return structural_map(nest, [(BufferStore, shift_store), (TensorLoad, shift_address)])


def _emit_stage(stage: Stage, target: CpuTarget) -> Stmt:
    """Emits one stage of a block without threads: as an elementwise loop, or as a reduction."""
    if not stage.reduce:
        return emit_elementwise([stage], target, False)
    return emit_reduction(stage, [stage], target, False) or emit_scalar(stage, [stage])
