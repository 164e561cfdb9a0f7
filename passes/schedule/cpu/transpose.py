"""Transposes a square tile in registers, by shuffles of two vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.emit import index

LoadItem = Callable[[int, ir.Expr], ir.Expr]
StoreItem = Callable[[int, ir.Expr, ir.Expr], Stmt]
SUBROUTINE_DTYPES = ("float32", "float64", "int32", "int64")
"""Element types whose transpose is a subroutine."""
Location = Callable[[int, ir.Expr], TensorLoad]


def transposed_copy(
    source: Location, destination: Location, shape: tuple[int, int], lanes: int, dtype: str, is_padded: bool = True
) -> Stmt:
    """Emits a transpose of a tile in registers, as a subroutine call if rows and columns have constant strides.

    Args:
        source: the element to read at a row and lane.
        destination: the element to write at a column and lane.
        shape: the numbers of rows and columns, each at most `lanes`.
        lanes: a power of two.
        dtype: the elements' type.
        is_padded: whether columns are written with `lanes` elements, of which those of missing rows are zeros.
    """
    zero = index(0)
    strides = [access.constant_offset(location(0, zero), location(1, zero)) for location in (destination, source)]
    if dtype not in SUBROUTINE_DTYPES or None in strides:
        return transposed_tile(
            source,
            lambda column, lane, item: emit.store(
                destination(column, lane).source, item, destination(column, lane).indices
            ),
            shape,
            lanes,
            dtype,
            is_padded,
        )
    name = _transpose(shape, lanes, dtype, is_padded)
    return subroutine.call(
        name, [destination(0, zero), source(0, zero)], [stride for stride in strides if stride is not None]
    )


@cache
def _transpose(shape: tuple[int, int], lanes: int, dtype: str, is_padded: bool) -> str:
    """Makes the subroutine that transposes a tile, and returns its name.

    Its integer arguments are the strides between written columns and between read rows. With the strides as arguments,
    all transposes of a tile's shape share one subroutine.

    Args:
        shape: the numbers of rows and columns of the tile.
        lanes: the number of elements of a vector.
        dtype: the dtype of the elements.
        is_padded: whether the vectors of a narrow tile are padded, as in `transposed_copy`.
    """

    def emit_body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Emits the transpose of a tile from the second array to the first, with the strides as numbers."""
        result, source = arrays
        column_stride, row_stride = numbers

        def load_item(row: int, lane: ir.Expr) -> ir.Expr:
            """Loads the source's element at a row and lane."""
            return emit.load(source, [row_stride * row + lane])

        def store_item(column: int, lane: ir.Expr, item: ir.Expr) -> Stmt:
            """Stores the result's element at a column and lane."""
            return emit.store(result, item, [column_stride * column + lane])

        return transposed_tile(load_item, store_item, shape, lanes, dtype, is_padded)

    return subroutine.subroutine([subroutine.Array(dtype)] * 2, 2, emit_body)


def transposed_tile(
    load_item: LoadItem, store_item: StoreItem, shape: tuple[int, int], lanes: int, dtype: str, is_padded: bool = True
) -> Stmt:
    """Emits a transpose of a tile in registers: reads it along its rows and writes it along its columns.

    Args:
        load_item: `load_item(row, lane)`, contiguous in memory along `lane`.
        store_item: `store_item(column, lane, item)`, contiguous along `lane`, which counts rows.
        shape: how many rows are read and columns written, each at most `lanes`.
        lanes: a power of two.
        dtype: the elements' type.
        is_padded: whether columns are written with `lanes` elements, those of rows that weren't read as zeros.

    Source: Eklundh, "A Fast Computer Method for Matrix Transposing", 1972 (halves of ever smaller squares are
    exchanged).
    """
    # TVM keeps bools as int8, but doesn't rewrite shuffles of them so.
    stored_dtype = "int8" if dtype == "bool" else dtype
    block, other_block = (emit.scratch([lanes * lanes], stored_dtype, "block", "local") for _ in range(2))
    statements = [emit.allocate(block), emit.allocate(other_block)]
    rows, columns = shape
    zero = tirx.const(0, stored_dtype)
    for row in range(lanes):
        if row < rows:
            statements.append(
                _load_row(block, row, lanes, columns, lambda row, lane: load_item(row, lane).astype(stored_dtype))
            )
        else:
            statements.append(_load_row(block, row, lanes, lanes, lambda _row, _lane: zero))
    distance = lanes // 2
    while distance:
        statements += _exchange_step(block, other_block, lanes, distance)
        block, other_block = other_block, block
        distance //= 2
    height = lanes if is_padded else rows
    return emit.sequence(
        [*statements, *(_store_column(block, column, lanes, height, store_item, dtype) for column in range(columns))]
    )


def _load_row(block: Var, row: int, lanes: int, count: int, load_item: LoadItem) -> Stmt:
    """Emits loads of `count` elements of a row into a block of vector registers."""
    return emit.vectorized(count, lambda lane: emit.store(block, load_item(row, lane), [lane + row * lanes]))


def _store_column(block: Var, column: int, lanes: int, height: int, store_item: StoreItem, dtype: str) -> Stmt:
    """Emits the stores of one column of the original tile, which is a row of the transposed block."""

    def store_lane(lane: ir.Expr) -> Stmt:
        return store_item(column, lane, emit.load(block, [lane + column * lanes]).astype(dtype))

    return emit.vectorized(height, store_lane)


def _exchange_step(source: Var, result: Var, lanes: int, distance: int) -> list[Stmt]:
    """Returns the statements of one step of a transpose in registers.

    Blocks of ``distance`` columns are exchanged: the right block of a row with the left block of the row ``distance``
    below. After steps with distances ``lanes / 2``, ``lanes / 4``, ..., 1, rows have become columns.

    Args:
        source, result: the arrays before and after the step, of ``lanes`` vectors of ``lanes`` elements.
        lanes: the number of rows and of columns.
        distance: the distance between rows that exchange their parts.
    """
    # A shuffle selects among the lanes of two rows, first those of the upper row, then those of the lower row.
    upper_lanes = [lane + lanes - distance if lane & distance else lane for lane in range(lanes)]
    lower_lanes = [lane + lanes if lane & distance else lane + distance for lane in range(lanes)]
    statements: list[Stmt] = []
    for upper_row in range(lanes):
        is_lower_row_of_pair = upper_row & distance
        if is_lower_row_of_pair:
            continue
        lower_row = upper_row + distance
        rows = [_row_vector(source, upper_row, lanes), _row_vector(source, lower_row, lanes)]
        statements.append(_store_shuffled(result, upper_row, rows, upper_lanes, lanes))
        statements.append(_store_shuffled(result, lower_row, rows, lower_lanes, lanes))
    return statements


def _row_vector(block: Var, row: int, lanes: int) -> ir.Expr:
    """Returns a row of a block as one vector."""
    return emit.load(block, [tirx.Ramp(index(row * lanes), index(1), lanes)])


def _store_shuffled(block: Var, row: int, rows: list[ir.Expr], lane_order: list[int], lanes: int) -> Stmt:
    """Returns the store of a block's row, made of lanes of two rows in a given order.

    The lanes are counted over both rows.
    """
    value = tirx.Shuffle(rows, [tirx.IntImm("int32", lane) for lane in lane_order])
    return emit.store(block, value, [tirx.Ramp(index(row * lanes), index(1), lanes)])
