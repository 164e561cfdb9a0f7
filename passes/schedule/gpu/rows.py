"""Chains such as softmax and layer normalization: one block per row, which stays in shared memory between stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.kernel import AxisIndices, Opaque, Stage, indices_of_axes, replace_loads, substitute
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.rows import Chain, chain_at
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.gpu.block import Block, ceil_div, launch
from tvtf.passes.schedule.gpu.reduction import Split, reduce_in_block
from tvtf.passes.schedule.gpu.target import GpuTarget

ANY_CPU = CpuTarget(vector_bits=128, vector_registers=16, cores=1)
"""A stand-in for `chain_at`, which uses it only for the minimum number of rows of a chain."""
MIN_ROW_ELEMENTS = 32
"""Elements of a row that are worth a block of threads, at least."""


def chain_of(stages: Sequence[Stage | Opaque], start: int) -> Chain | None:
    """Returns the chain that begins at the stage ``start``, or None if there is none that a GPU can run row by row.

    A chain is a sequence of stages such as softmax, which are computed for each row. A row must be long enough to
    occupy a block of threads.
    """
    chain = chain_at(stages, start, ANY_CPU)
    if chain is None or not all(_fits_block(stage, chain.depth) for stage in chain.stages):
        return None
    return chain if _is_long(chain) else None


def _fits_block(stage: Stage, depth: int) -> bool:
    """Returns whether a block of threads can run a chain's stage (loop nest) on a row.

    The stage must have static sizes in the row; a reduction must have one result there. The first ``depth`` axes of the
    stage count the rows.
    """
    results_per_row = access.iteration_count(stage.spatial[depth:])
    if results_per_row is None or any(axis.size is None for axis in stage.reduce):
        return False
    if not stage.reduce:
        return True
    return results_per_row == 1 and combiner(merged_reduction(stage)) is not None


def _is_long(chain: Chain) -> bool:
    """Returns whether the longest stage of a chain's rows is long enough for a block."""
    for stage in chain.stages:
        axes_in_row = (*stage.spatial[chain.depth :], *stage.reduce)
        if prod(axis.size or 1 for axis in axes_in_row) >= MIN_ROW_ELEMENTS:
            return True
    return False


def emit_chain(chain: Chain, needed: set[Var], target: GpuTarget) -> Stmt | None:
    """Emits a GPU kernel for a chain, in which each block computes one row.

    Results that only the chain's stages read stay in shared memory. Returns None if a row doesn't fit there.
    """
    intermediates = [stage for stage in chain.stages if stage.buffer not in needed]
    row_shapes = {
        stage.buffer: [emit.index(axis.size or 1) for axis in stage.spatial[chain.depth :]] for stage in intermediates
    }
    # Elements of narrower types count as four bytes.
    row_bytes = sum(prod(map(int, row_shapes[stage.buffer])) * max(4, stage.item_bytes) for stage in intermediates)
    partial_bytes = sum(target.threads * stage.item_bytes for stage in chain.stages if stage.reduce)
    if row_bytes + partial_bytes > target.shared_bytes:
        return None
    rows = [axis.extent for axis in chain.stages[0].spatial[: chain.depth]]

    def emit_block(block: Block) -> Stmt:
        """Emits the work of one block: it computes all stages of one row."""
        shared_buffers = {
            stage.buffer: block.shared([*map(int, row_shapes[stage.buffer])] or [1], stage.dtype, "row")
            for stage in intermediates
        }
        row = _RowKernel(block, chain.depth, emit.unflatten(block.index, rows), shared_buffers)
        return block.with_barriers(*map(row.emit_stage, chain.stages))

    return launch(target, emit.volume(rows), target.threads, emit_block)


@dataclass(frozen=True)
class _RowKernel:
    """Emits a block's work on the row at ``row_indices``; intermediate results are in shared memory."""

    block: Block
    depth: int
    row_indices: list[ir.Expr]
    shared_buffers: dict[Var, Var]

    def emit_stage(self, stage: Stage) -> Stmt:
        """Emits one stage of the row."""
        row = {axis.var: index for axis, index in zip(stage.spatial, self.row_indices, strict=False)}
        if stage.reduce:
            return self._emit_reduction(merged_reduction(stage), row)
        return self._emit_elementwise(replace(stage, value=self._value_from_shared(stage)), row)

    def _value_from_shared(self, stage: Stage) -> ir.Expr:
        """Returns a stage's value in which intermediate results are loaded from shared memory."""
        value = stage.value
        for buffer, shared in self.shared_buffers.items():
            if not buffer.same_as(stage.buffer):
                value = replace_loads(value, buffer, self._load_of(shared))
        return value

    def _load_of(self, shared: Var) -> Callable[[list[ir.Expr]], ir.Expr]:
        """Returns the function that loads an element of a buffer from its row in shared memory."""
        return lambda indices: emit.load(shared, self._indices_in_row(indices))

    def _indices_in_row(self, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Returns the indices of an element within its row."""
        return list(indices[self.depth :]) or [emit.index(0)]

    def _store(self, stage: Stage, value: ir.Expr, axis_indices: AxisIndices) -> Stmt:
        """Stores an element in its buffer, or in shared memory if only the chain's stages read it."""
        indices = [axis_indices[axis.var] for axis in stage.spatial]
        shared = self.shared_buffers.get(stage.buffer)
        if shared is None:
            return emit.store(stage.buffer, value, indices)
        return emit.store(shared, value, self._indices_in_row(indices))

    def _emit_elementwise(self, stage: Stage, row: AxisIndices) -> Stmt:
        """Emits an elementwise stage (loop nest) of the row.

        With n threads, each thread computes every n-th element: neighbouring threads access neighbours in memory.
        """
        axes = stage.spatial[self.depth :]
        total = int(emit.volume([axis.extent for axis in axes]))
        threads = self.block.threads

        def emit_thread(thread: ir.Expr) -> Stmt:
            """Emits the loop over a thread's elements of the row; in each round, all threads compute one element."""

            def emit_element(loop_round: ir.Expr) -> Stmt | None:
                """Emits one element of a thread; in the last round some threads have none."""
                element = loop_round * threads + thread  # the row-major (flat) index in the row
                axis_indices = {**row, **indices_of_axes(axes, element)}
                store = self._store(stage, substitute(stage.value, axis_indices), axis_indices)
                return store if total % threads == 0 else emit.when(element < total, store)

            return emit.loop(ceil_div(total, threads), emit_element, name="turn")

        return self.block.for_each_thread(emit_thread)

    def _emit_reduction(self, stage: Stage, row: AxisIndices) -> Stmt:
        """Emits a reduction of one row to one result. All threads of the block share the terms."""
        result_indices = {**row, **{axis.var: emit.index(0) for axis in stage.spatial[self.depth :]}}
        split = Split(slices=self.block.threads, results=1, along_terms=True)

        def indices_of_thread(_thread: ir.Expr) -> tuple[AxisIndices, ir.Expr]:
            """Returns the indices of the only result, which exists: each block has a row."""
            return result_indices, tirx.const(True, "bool")

        def store_result(axis_indices: AxisIndices, value: ir.Expr) -> Stmt:
            """Emits the store of the result."""
            return self._store(stage, value, axis_indices)

        on_shared = replace(stage, value=self._value_from_shared(stage))
        return reduce_in_block(self.block, on_shared, combiner(stage), split, indices_of_thread, store_result)
