"""Transposes a square tile in registers, by shuffles of two vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.emit import index

Read = Callable[[int, ir.Expr], ir.Expr]
Write = Callable[[int, ir.Expr, ir.Expr], Stmt]
CALLED = ("float32", "float64", "int32", "int64")
"""Types of items whose transpose is a subroutine."""
Place = Callable[[int, ir.Expr], TensorLoad]


def transposed_copy(
    read: Place, write: Place, shape: tuple[int, int], lanes: int, dtype: str, is_padded: bool = True
) -> Stmt:
    """Copies a tile and transposes it, as `transposed_tile` does; `write(column, lane)` is a place in memory.

    It is a call of a subroutine if rows and columns are at constant distances.
    """
    zero = index(0)
    steps = [access.constant_offset(place(0, zero), place(1, zero)) for place in (write, read)]
    if dtype not in CALLED or None in steps:
        return transposed_tile(
            read,
            lambda column, lane, item: emit.store(write(column, lane).source, item, write(column, lane).indices),
            shape,
            lanes,
            dtype,
            is_padded,
        )
    name = _transpose(shape, lanes, dtype, is_padded)
    return subroutine.call(name, [write(0, zero), read(0, zero)], [step for step in steps if step is not None])


@cache
def _transpose(shape: tuple[int, int], lanes: int, dtype: str, is_padded: bool) -> str:
    """Makes the subroutine; its numbers are the distances of columns that it writes and of rows that it reads."""

    def body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Reads and writes the tile by the distances of its rows and columns."""
        (result, source), (columns, rows) = arrays, numbers
        return transposed_tile(
            lambda row, lane: emit.load(source, [rows * row + lane]),
            lambda column, lane, item: emit.store(result, item, [columns * column + lane]),
            shape,
            lanes,
            dtype,
            is_padded,
        )

    return subroutine.subroutine([subroutine.Array(dtype)] * 2, 2, body)


def transposed_tile(
    read: Read, write: Write, shape: tuple[int, int], lanes: int, dtype: str, is_padded: bool = True
) -> Stmt:
    """Reads a tile of `lanes` by `lanes` items along its rows and writes it along its columns.

    Args:
        read: `read(row, lane)`, contiguous in memory along `lane`.
        write: `write(column, lane, item)`, contiguous along `lane`, which counts rows.
        shape: how many rows are read and columns written, each at most `lanes`.
        lanes: a power of two.
        dtype: the items' type.
        is_padded: whether columns are written with `lanes` items, those of rows that weren't read as zeros.

    Source: Eklundh, "A Fast Computer Method for Matrix Transposing", 1972 (halves of ever smaller squares are
    exchanged).
    """
    stored = "int8" if dtype == "bool" else dtype  # TVM keeps bools as int8, but doesn't rewrite shuffles of them so
    here, there = (emit.scratch([lanes * lanes], stored, "block", "local") for _ in range(2))
    parts = [emit.allocate(here), emit.allocate(there)]
    rows, columns = shape
    zero = tirx.const(0, stored)
    for row in range(lanes):
        if row < rows:
            parts.append(_filled(here, row, lanes, columns, lambda row, lane: read(row, lane).astype(stored)))
        else:
            parts.append(_filled(here, row, lanes, lanes, lambda _row, _lane: zero))
    distance = lanes // 2
    while distance:
        parts += _exchanged(here, there, lanes, distance)
        here, there = there, here
        distance //= 2
    height = lanes if is_padded else rows
    return emit.sequence([*parts, *(_written(here, column, lanes, height, write, dtype) for column in range(columns))])


def _filled(block: Var, row: int, lanes: int, count: int, read: Read) -> Stmt:
    return emit.vectorized(count, lambda lane: emit.store(block, read(row, lane), [lane + row * lanes]))


def _written(block: Var, column: int, lanes: int, height: int, write: Write, dtype: str) -> Stmt:
    def written(lane: ir.Expr) -> Stmt:
        return write(column, lane, emit.load(block, [lane + column * lanes]).astype(dtype))

    return emit.vectorized(height, written)


def _exchanged(here: Var, there: Var, lanes: int, distance: int) -> list[Stmt]:
    """Exchanges the right parts of rows with the left parts of the rows `distance` below.

    Exchanges at all distances, each half of the one before, turn rows into columns.
    """
    upper = [lane + lanes - distance if lane & distance else lane for lane in range(lanes)]
    lower = [lane + lanes if lane & distance else lane + distance for lane in range(lanes)]
    parts: list[Stmt] = []
    for row in range(lanes):
        if not row & distance:
            pair = [_vector(here, row, lanes), _vector(here, row + distance, lanes)]
            parts += [
                _shuffled(there, row, pair, upper, lanes),
                _shuffled(there, row + distance, pair, lower, lanes),
            ]
    return parts


def _vector(block: Var, row: int, lanes: int) -> ir.Expr:
    return emit.load(block, [tirx.Ramp(index(row * lanes), index(1), lanes)])


def _shuffled(block: Var, row: int, pair: list[ir.Expr], order: list[int], lanes: int) -> Stmt:
    value = tirx.Shuffle(pair, [tirx.IntImm("int32", lane) for lane in order])
    return emit.store(block, value, [tirx.Ramp(index(row * lanes), index(1), lanes)])
