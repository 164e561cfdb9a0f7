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


def part_buffer(stage: Stage, depth: int, rows: int | None) -> Var:
    """Returns memory for one place along the first `depth` axes, or for `rows` along the last of them."""
    inner = [axis.extent for axis in stage.spatial[depth:]]
    return emit.scratch([*([] if rows is None else [rows]), *inner], stage.dtype, "block")


def part_of(stage: Stage, known: dict[Var, Var], depth: int, places: list[ir.Expr], rows: int | None) -> Stage:
    """Returns the stage at `places` of its first `depth` axes, or for `rows` from there, on `known` parts of others."""
    outer_axes = stage.spatial[:depth]
    value, spatial = stage.value, stage.spatial[depth:]
    at = dict(zip((axis.var for axis in outer_axes), places, strict=True))
    row: list[ir.Expr] = []
    if rows is not None:
        axis = Axis(Var("row", "int64"), index(rows))
        at[outer_axes[-1].var] = places[-1] + axis.var
        row, spatial = [axis.var], (axis, *spatial)
    for old, new in known.items():
        value = replace_loads(value, old, partial(load_part, new, row, depth))
    buffer = known[stage.buffer]
    return Stage(buffer, spatial, stage.reduce, stage.init, substitute(value, at))


def load_part(part: Var, row: list[ir.Expr], depth: int, indices: list[ir.Expr]) -> ir.Expr:
    return emit.load(part, [*row, *indices[depth:]])


def redirected(
    body: Stmt, part: Var, stage: Stage, order: tuple[Axis, ...], depth: int, places: list[ir.Expr], rows: int | None
) -> Stmt:
    """Redirects a block's loads and stores of its own result to its part of the whole one.

    So a block's result needs no copy.
    """

    def indices_in_whole(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        inner = list(indices)
        first = places if rows is None else [*places[:-1], places[-1] + inner.pop(0)]
        at = dict(zip((axis.var for axis in stage.spatial), [*first, *inner], strict=True))
        return [at[axis.var] for axis in order]

    def store(node: BufferStore) -> BufferStore:
        return (
            BufferStore(stage.buffer, node.value, indices_in_whole(node.indices)) if node.buffer.same_as(part) else node
        )

    def load(node: TensorLoad) -> ir.Expr:
        return tirx.BufferLoad(stage.buffer, indices_in_whole(node.indices)) if node.source.same_as(part) else node

    return structural_map(structural_map(body, (BufferStore, store)), (TensorLoad, load))
