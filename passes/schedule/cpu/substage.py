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
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads, substitute


def block_buffer(stage: Stage, depth: int, rows: int | None) -> Var:
    """Returns a scratch buffer for a block of a stage's result.

    A block is one row of the first `depth` axes, or `rows` rows along the last of them.
    """
    inner_extents = [axis.extent for axis in stage.spatial[depth:]]
    return emit.scratch([*([] if rows is None else [rows]), *inner_extents], stage.dtype, "block")


def restricted_stage(
    stage: Stage, block_buffers: dict[Var, Var], depth: int, first_indices: list[ir.Expr], rows: int | None
) -> Stage:
    """Returns a stage (loop nest) that computes only one block of its result, from and to buffers of blocks.

    Args:
        stage: the stage.
        block_buffers: the buffer of the block for each complete result.
        depth: the number of row axes, which are the first ones.
        first_indices: the block's first index along each of these axes.
        rows: the number of rows along the last of these axes; None for a single row without an axis.
    """
    outer_axes = stage.spatial[:depth]
    value, spatial = stage.value, stage.spatial[depth:]
    values = dict(zip((axis.var for axis in outer_axes), first_indices, strict=True))
    row_indices: list[ir.Expr] = []
    if rows is not None:
        axis = Axis(Var("row", "int64"), index(rows))
        values[outer_axes[-1].var] = first_indices[-1] + axis.var
        row_indices, spatial = [axis.var], (axis, *spatial)
    for old, new in block_buffers.items():
        value = replace_loads(value, old, partial(load_from_block, new, row_indices, depth))
    buffer = block_buffers[stage.buffer]
    return Stage(buffer, spatial, stage.reduce, stage.init, substitute(value, values))


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
        """Converts indices in the block to indices in the result."""
        inner_indices = list(indices)
        outer_indices = (
            first_indices if rows is None else [*first_indices[:-1], first_indices[-1] + inner_indices.pop(0)]
        )
        values = dict(zip((axis.var for axis in stage.spatial), [*outer_indices, *inner_indices], strict=True))
        return [values[axis.var] for axis in result_axes]

    def store(node: BufferStore) -> BufferStore:
        """Redirects a store."""
        return (
            BufferStore(stage.buffer, node.value, indices_in_whole(node.indices))
            if node.buffer.same_as(buffer_of_block)
            else node
        )

    def load(node: TensorLoad) -> ir.Expr:
        """Redirects a load."""
        return (
            tirx.BufferLoad(stage.buffer, indices_in_whole(node.indices))
            if node.source.same_as(buffer_of_block)
            else node
        )

    return structural_map(structural_map(body, (BufferStore, store)), (TensorLoad, load))
