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
    """Replaces an allocation, a call that writes to the array, and a copy of the array by one call, wherever they follow."""
    parts = list(stmts.seq)
    result: list[Stmt | None] = []
    while parts:
        call = _direct_call(*parts[:3]) if len(parts) >= 3 else None
        result.append(parts[0] if call is None else call)
        parts = parts[1 if call is None else 3 :]
    return emit.sequence(result) if len(result) < len(stmts.seq) else stmts


def _direct_call(allocation: Stmt, sums: Stmt, copy: Stmt) -> Stmt | None:
    """Returns the call that stores sums where a copy does, or None for other statements than a tile's sums and their copy."""
    if not isinstance(allocation, AllocBuffer) or not isinstance(sums, Evaluate) or not subroutine.is_call(sums.value):
        return None
    name, addresses, numbers = subroutine.arguments(sums.value)
    tile, local = product_tile_of(sums.value), allocation.buffer
    if tile is None or not addresses[0].source.same_as(local):
        return None
    copies = _copies(copy, local, ())
    target = None if copies is None else _target(tile, copies)
    if target is None:
        return None
    first_element, strides = target
    begin = tile.first_number
    passed = [*numbers[:begin], *strides, *numbers[begin + len(strides) :]]
    return subroutine.call(name, [first_element, *addresses[1:]], passed)


class _Copy(NamedTuple):
    """A store of an element of a local array to another array, and the loops around it."""

    store: BufferStore
    loops: tuple[For, ...]


def _copies(stmt: Stmt, source: Var, loops: tuple[For, ...]) -> list[_Copy] | None:
    """Returns the stores of a nest of loops that only copies elements of an array, or None if it does anything else."""
    if isinstance(stmt, For):
        is_simple = emit.static(stmt.min) == 0 and emit.static(stmt.extent) is not None
        return _copies(stmt.body, source, (*loops, stmt)) if is_simple else None
    if isinstance(stmt, SeqStmt):
        parts = [_copies(part, source, loops) for part in stmt.seq]
        return None if None in parts else [copy for part in parts for copy in part or ()]
    is_copy = isinstance(stmt, BufferStore) and isinstance(stmt.value, TensorLoad) and stmt.value.source.same_as(source)
    return [_Copy(stmt, loops)] if is_copy else None


def _target(tile: TileOfSums, copies: Sequence[_Copy]) -> tuple[TensorLoad, list[int]] | None:
    """Returns the element that a tile's first sum is copied to, and the strides of its rows there.

    Returns None if not all sums are copied, each once, or if rows and the sums of a row don't lie in regular distances.
    """
    if tile.strides is None:
        return None
    row_sizes = {stride: size for size, stride in zip(tile.sizes, tile.strides, strict=True) if size > 1}
    found = [_rows_and_columns(copy, row_sizes) for copy in copies]
    known = [each for each in found if each is not None]
    columns = sorted(column for each in known for column in each.columns)
    if len(known) < len(found) or columns != list(range(tile.width)):
        return None
    first = min(known, key=lambda each: each.columns[0])
    is_regular = all(each.steps == first.steps and first.distance(each) == each.columns[0] for each in known)
    if first.columns[0] != 0 or not is_regular:
        return None
    return first.element, [first.steps.get(stride, 0) for stride in tile.strides]


class _RowsAndColumns(NamedTuple):
    """Where a copy stores: its first element, with its offset, the distances of rows, and the columns of each row."""

    element: TensorLoad
    start: ir.Expr
    steps: dict[int, int]
    columns: list[int]

    def distance(self, other: _RowsAndColumns) -> int | None:
        """Returns the distance in elements to another copy's first element, or None if that isn't known."""
        if not self.element.source.same_as(other.element.source):
            return None
        return emit.static(emit.simplified(other.start - self.start))


def _rows_and_columns(copy: _Copy, row_sizes: Mapping[int, int]) -> _RowsAndColumns | None:
    """Reads where a copy stores rows of sums; ``row_sizes`` has the number of rows by their stride in the local array."""
    store, loops = copy
    loop_vars = [loop.loop_var for loop in loops]
    read = linear_access(store.value.source, store.value.indices, loop_vars)
    written = linear_access(store.buffer, store.indices, loop_vars)
    first_column = None if read is None else emit.static(read.start)
    if read is None or written is None or first_column is None:
        return None
    steps: dict[int, int] = {}
    columns = [first_column]
    for loop, stride, step in zip(loops, read.strides, written.strides, strict=True):
        extent = int(loop.extent)
        if stride in row_sizes and stride not in steps and extent == row_sizes[stride]:
            steps[stride] = step
        elif stride == step:
            columns = [column + stride * number for column in columns for number in range(extent)]
        else:
            return None
    starts = {var: emit.index(0) for var in loop_vars}
    element = emit.load(store.buffer, [emit.simplified(substitute(index, starts)) for index in store.indices])
    return _RowsAndColumns(element, written.start, steps, columns) if len(steps) == len(row_sizes) else None
