"""Copy elimination: the call of a product tile stores its sums directly where the kernel would only copy them.

A tile with an epilogue leaves its sums in a local array, from which the epilogue stores results. Whether an epilogue is
a copy (to each second row and column in the gradient of a strided convolution, or to other axes after attention) is
only known when all stores have been redirected to the memory of results. The subroutine of the tile takes strides, so
it can store there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import AllocBuffer, BufferStore, Evaluate, For, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit, subroutine
from tvtf.passes.schedule.cpu.access import linear_access
from tvtf.passes.schedule.cpu.kernel import substitute
from tvtf.passes.schedule.cpu.product_tile import TileOfSums, product_tile_of


def with_direct_stores(body: Stmt) -> Stmt:
    """Returns a kernel's body in which tiles whose sums are only copied store them where the copy does."""
    return structural_map(body, (SeqStmt, _without_copies)) if subroutine.has_calls(body) else body


def _without_copies(stmts: SeqStmt) -> Stmt:
    """Eliminates copies of product tiles from a sequence of statements.

    The pattern is three statements: the allocation of a local array, the call of a subroutine that stores a tile's sums
    there, and loops that copy the sums to another array. One call replaces them, which stores the sums in the other
    array directly. This saves a pass over the sums, and the code of the loops.
    """
    remaining = list(stmts.seq)
    result: list[Stmt | None] = []
    while remaining:
        direct_call = _direct_call(*remaining[:3]) if len(remaining) >= 3 else None
        if direct_call is not None:
            result.append(direct_call)
            remaining = remaining[3:]
        else:
            result.append(remaining[0])
            remaining = remaining[1:]
    return emit.sequence(result) if len(result) < len(stmts.seq) else stmts


def _direct_call(allocation: Stmt, sums: Stmt, copy: Stmt) -> Stmt | None:
    """Returns the call of a product tile's subroutine that stores the sums directly in the destination of their copy.

    Returns None if the statements don't have this form.

    Args:
        allocation: the allocation of a local array.
        sums: the call of the subroutine, which stores the sums in the local array.
        copy: the loops that copy the local array to another one, and do nothing else.
    """
    if not isinstance(allocation, AllocBuffer) or not isinstance(sums, Evaluate) or not subroutine.is_call(sums.value):
        return None
    tile = product_tile_of(sums.value)
    local_array = allocation.buffer
    name, (stored_element, *factors), numbers = subroutine.arguments(sums.value)
    if tile is None or not stored_element.source.same_as(local_array):
        return None
    copies = _copies(copy, local_array, ())
    destination = None if copies is None else _destination(tile, copies)
    if destination is None:
        return None
    first_element, row_strides = destination
    # The row strides of the local array, among the numbers, become those of the destination.
    before, after = numbers[: tile.first_number], numbers[tile.first_number + len(row_strides) :]
    return subroutine.call(name, [first_element, *factors], [*before, *row_strides, *after])


class _Copy(NamedTuple):
    """A store of an element of a local array to another array, and the loops around it."""

    store: BufferStore
    loops: tuple[For, ...]


def _copies(stmt: Stmt, source: Var, loops: tuple[For, ...]) -> list[_Copy] | None:
    """Returns the stores of loops that only copy elements of an array; None if the loops do anything else.

    Args:
        stmt: the statement.
        source: the array.
        loops: the loops around the statement, outermost first.
    """
    if isinstance(stmt, For):
        has_static_range = emit.static(stmt.min) == 0 and emit.static(stmt.extent) is not None
        return _copies(stmt.body, source, (*loops, stmt)) if has_static_range else None
    if isinstance(stmt, SeqStmt):
        copies: list[_Copy] = []
        for part in stmt.seq:
            part_copies = _copies(part, source, loops)
            if part_copies is None:
                return None
            copies += part_copies
        return copies
    if not isinstance(stmt, BufferStore):
        return None
    is_copy = isinstance(stmt.value, TensorLoad) and stmt.value.source.same_as(source)
    return [_Copy(stmt, loops)] if is_copy else None


def _destination(tile: TileOfSums, copies: Sequence[_Copy]) -> tuple[TensorLoad, list[int]] | None:
    """Returns the element to which a tile's first sum is copied, and the strides between the tile's rows there.

    The subroutine can store the sums there only if the rows have constant strides, and each row is contiguous. Returns
    None if the copies have another pattern, or don't copy each sum once.
    """
    if tile.strides is None:
        return None
    row_counts = {stride: size for size, stride in zip(tile.sizes, tile.strides, strict=True) if size > 1}
    patterns = [_rows_and_columns(copy, row_counts) for copy in copies]
    known_patterns = [pattern for pattern in patterns if pattern is not None]
    copied_columns = sorted(column for pattern in known_patterns for column in pattern.columns)
    if len(known_patterns) < len(patterns) or copied_columns != list(range(tile.width)):
        return None
    first = min(known_patterns, key=lambda pattern: pattern.columns[0])
    has_equal_strides = all(pattern.row_strides == first.row_strides for pattern in known_patterns)
    # Each column `c` must be stored `c` elements after column 0.
    is_contiguous = all(first.distance(pattern) == pattern.columns[0] for pattern in known_patterns)
    if first.columns[0] != 0 or not has_equal_strides or not is_contiguous:
        return None
    return first.element, [first.row_strides.get(stride, 0) for stride in tile.strides]


class _RowsAndColumns(NamedTuple):
    """Where a copy stores a tile's sums.

    This is its first element with the offset `start`, the columns that it stores of each row, and for each row stride
    in the local array the stride in the array that is copied to.
    """

    element: TensorLoad
    start: ir.Expr
    row_strides: dict[int, int]
    columns: list[int]

    def distance(self, other: _RowsAndColumns) -> int | None:
        """Returns the distance in elements to another copy's first element, or None if that isn't known."""
        if not self.element.source.same_as(other.element.source):
            return None
        return emit.static(emit.simplified(other.start - self.start))


def _rows_and_columns(copy: _Copy, row_counts: Mapping[int, int]) -> _RowsAndColumns | None:
    """Describes where a copy stores a tile's sums: the strides of rows, and the columns that each row stores.

    A loop that steps from row to row of the local array counts rows, and must run over all of them. Any other loop must
    have the same stride in both arrays, and counts columns. Returns None for other loops.

    Args:
        copy: the store, and the loops around it.
        row_counts: the number of a tile's rows along each axis, by the axis's stride in the local array.
    """
    store, loops = copy
    loop_vars = [loop.loop_var for loop in loops]
    read = linear_access(store.value.source, store.value.indices, loop_vars)
    written = linear_access(store.buffer, store.indices, loop_vars)
    first_column = None if read is None else emit.static(read.start)
    if read is None or written is None or first_column is None:
        return None
    row_strides: dict[int, int] = {}
    columns = [first_column]
    for loop, read_stride, written_stride in zip(loops, read.strides, written.strides, strict=True):
        extent = int(loop.extent)
        if row_counts.get(read_stride) == extent and read_stride not in row_strides:
            row_strides[read_stride] = written_stride
        elif read_stride == written_stride:
            columns = [column + read_stride * iteration for column in columns for iteration in range(extent)]
        else:
            return None
    starts = {var: emit.index(0) for var in loop_vars}
    element = emit.load(store.buffer, [emit.simplified(substitute(index, starts)) for index in store.indices])
    if len(row_strides) < len(row_counts):
        return None
    return _RowsAndColumns(element, written.start, row_strides, columns)
