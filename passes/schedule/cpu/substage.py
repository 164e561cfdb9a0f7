"""Restricts a stage to some rows: on parts of other stages' results, in memory of that size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, by_axis, replace_loads, substitute


def block_buffer(stage: Stage, depth: int, rows: int | None) -> Var:
    """Returns a scratch buffer for a block of a stage's result.

    A block is one row of the first `depth` axes, or `rows` rows along the last of them.
    """
    inner_extents = [axis.extent for axis in stage.spatial[depth:]]
    return emit.scratch([*([] if rows is None else [rows]), *inner_extents], stage.dtype, "block")


def restricted_stage(
    stage: Stage, block_buffers: dict[Var, Var], depth: int, first_indices: list[ir.Expr], rows: int | None
) -> Stage:
    """Restricts a stage (loop nest) to one block of rows; it then reads and writes buffers that hold only this block.

    Args:
        stage: the stage.
        block_buffers: the buffer of the block for each complete result.
        depth: the number of row axes, which are the first ones.
        first_indices: the block's first index along each of these axes.
        rows: the number of rows along the last of these axes; None for a single row without an axis.
    """
    row_axes, axes_in_row = stage.spatial[:depth], stage.spatial[depth:]
    axis_indices = by_axis(row_axes, first_indices)
    axes_of_block, row_in_block = axes_in_row, []
    if rows is not None:
        block_row = Axis(Var("row", "int64"), index(rows))
        axis_indices[row_axes[-1].var] = first_indices[-1] + block_row.var
        axes_of_block = (block_row, *axes_in_row)
        row_in_block = [block_row.var]
    value = stage.value
    for result, block_buffer in block_buffers.items():
        value = replace_loads(value, result, partial(load_from_block, block_buffer, row_in_block, depth))
    return Stage(block_buffers[stage.buffer], axes_of_block, stage.reduce, stage.init, substitute(value, axis_indices))


def load_from_block(block: Var, row: list[ir.Expr], depth: int, indices: list[ir.Expr]) -> ir.Expr:
    """Returns the load of a block's buffer that replaces a load of the complete result.

    `row` holds the index of the row in the block, if a block has several rows.
    """
    return emit.load(block, [*row, *indices[depth:]])


def redirected_to_whole(
    body: Stmt,
    buffer_of_block: Var,
    stage: Stage,
    result_axes: tuple[Axis, ...],
    first_indices: list[ir.Expr],
    rows: int | None,
) -> Stmt:
    """Redirects the loads and stores of a block's buffer to the block's part of the result, which saves a copy.

    `first_indices` and `rows` locate the block, as in `restricted_stage`. `result_axes` are the stage's axes in the
    order of the result's dims.
    """

    def indices_in_whole(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Converts indices in the block to indices in the result, whose dims may be in another order."""
        if rows is None:  # a block of a single row has no index of the row
            stage_indices = [*first_indices, *indices]
        else:
            row_in_block, *indices_in_row = indices
            stage_indices = [*first_indices[:-1], first_indices[-1] + row_in_block, *indices_in_row]
        index_of = by_axis(stage.spatial, stage_indices)
        return [index_of[axis.var] for axis in result_axes]

    def redirect_store(store: BufferStore) -> BufferStore:
        if not store.buffer.same_as(buffer_of_block):
            return store
        return BufferStore(stage.buffer, store.value, indices_in_whole(store.indices))

    def redirect_load(load: TensorLoad) -> ir.Expr:
        if not load.source.same_as(buffer_of_block):
            return load
        return tirx.BufferLoad(stage.buffer, indices_in_whole(load.indices))

    with_stores = structural_map(body, (BufferStore, redirect_store))
    return structural_map(with_stores, (TensorLoad, redirect_load))
