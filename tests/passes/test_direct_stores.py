"""Tiles of products whose sums are only copied: where they are stored by the call, and when a copy stays."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from schedule_programs import run_body
from tvm import tirx
from tvm.tirx import AllocBuffer

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.direct_stores import with_direct_stores
from tvtf.passes.schedule.cpu.kernel import Axis, Stage
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.product_tile import call_product_tile
from tvtf.passes.schedule.cpu.tile import Epilogue, Range, Tile

ROWS, TERMS, LANES = 6, 64, 16
RANDOM = np.random.default_rng(0)


def tile_and_epilogue(width: int, store, sizes=(ROWS,)) -> tuple[tirx.Stmt, list[tirx.Var]]:
    """The call for a tile of a product, with ``store(out, value, row, column)`` on each sum; and operands and ``out``."""
    left, right = (
        tirx.decl_buffer([emit.index(n) for n in shape], "float32", name)
        for name, shape in (("left", (*sizes, TERMS)), ("right", (TERMS, 256)))
    )
    sums, out = (
        tirx.decl_buffer([emit.index(n) for n in shape], "float32", name)
        for name, shape in (("sums", (*sizes, 256)), ("out", (*sizes, 256)))
    )
    whole = tirx.decl_buffer([emit.index(8192)], "float32", "whole")
    rows = [Axis(tirx.Var("row", "int64"), emit.index(size)) for size in sizes]
    column, term = Axis(tirx.Var("column", "int64"), emit.index(width)), Axis(tirx.Var("k", "int64"), emit.index(TERMS))
    row_vars = [axis.var for axis in rows]
    product = emit.load(left, [*row_vars, term.var]) * emit.load(right, [term.var, column.var])
    own = emit.load(sums, [*row_vars, column.var])
    stage = Stage(sums, (*rows, column), (term,), tirx.const(0.0), own + product)
    tile = Tile(
        {axis.var: emit.index(0) for axis in (*rows, column)}, {axis.var: axis.size for axis in (*rows, column)}
    )
    copy = Stage(out, (*rows, column), (), None, own)
    call = call_product_tile(
        ColumnTile(stage, tile, column, LANES), [Range.whole(term)], None, Epilogue(stage, (copy,)), False
    )

    def moved(node):
        return store(whole, node.value, *node.indices) if node.buffer.same_as(out) else node

    return structural_map(call, (tirx.BufferStore, moved)), [left, right, whole]


def is_direct(stmt) -> bool:
    found = []
    tvm_ffi.structural_walk(with_direct_stores(stmt), [(AllocBuffer, found.append), (tirx.BufferStore, found.append)])
    return not found


def copied(place):
    """A copy to an index that ``place(row, column)`` returns."""
    return lambda out, value, row, column: emit.store(out, value, [place(row, column)])


COPIES = {
    "every other pixel": lambda row, column: row * 512 + column,
    "from an offset on": lambda row, column: row * 40 + column + 7,
}
STAY = {
    "transposed": lambda out, value, row, column: emit.store(out, value, [column * ROWS + row]),
    "every other item of a row": lambda out, value, row, column: emit.store(out, value, [row * 512 + column * 2]),
    "changed": lambda out, value, row, column: emit.store(out, value * 2.0, [row * 512 + column]),
    "through a division": lambda out, value, row, column: emit.store(
        out, value, [tirx.floordiv(row, emit.index(2)) + column]
    ),
}


@pytest.mark.parametrize("width", [LANES, 2 * LANES, LANES + 4, 4])
@pytest.mark.parametrize("case", COPIES)
def test_copies_are_stored_by_the_call(case, width):
    stmt, params = tile_and_epilogue(width, copied(COPIES[case]))
    assert is_direct(stmt)
    a, b = RANDOM.integers(-4, 5, (ROWS, TERMS)), RANDOM.integers(-4, 5, (TERMS, 256))
    arrays = [a.astype("float32"), b.astype("float32"), np.full(8192, -1, "float32")]
    expected = np.full(8192, -1, "float32")
    for row, column in np.ndindex(ROWS, width):
        expected[COPIES[case](row, column)] = (a @ b)[row, column]
    np.testing.assert_array_equal(run_body(with_direct_stores(stmt), params, arrays)[2], expected)


@pytest.mark.parametrize("case", STAY)
def test_other_epilogues_stay(case):
    stmt, _ = tile_and_epilogue(2 * LANES, STAY[case])
    assert not is_direct(stmt)
    assert subroutine.has_calls(stmt)


def test_a_column_of_single_sums_stays():
    """Its rows' stride, 1, is a constant of the subroutine."""
    stmt, _ = tile_and_epilogue(1, copied(COPIES["from an offset on"]))
    assert not is_direct(stmt)
