"""Register tiles of matrix products as subroutines, which all kernels with the same tile and strides share.

LLVM takes 20 ms for a tile. A convolution has several of them (full ones, and those at the ends of rows and columns),
and a network a few dozen convolutions with the same numbers of channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, reduce
from math import prod
from operator import mul
from typing import TypeVar

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Opaque, Stage, substitute
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.subroutine import Array
from tvtf.passes.schedule.cpu.tile import Epilogue, Range, Tile

MIN_TERMS = 64
"""Minimum number of terms of a sum in a call, which then costs nothing measurable. With 16 terms, whose tile takes 50 ns, a
call costs 8 % of a convolution's time, with 32 terms 5 %."""
CYCLES_OF_A_SHORT_CALL, MAX_CYCLES_OF_SHORT_CALLS = 30, 3000
"""Cycles that the call of a tile of fewer terms, or of short loops, takes longer than its code would in the kernel, and the
maximum for all such calls of a result: less than a microsecond, for which LLVM needn't compile the code."""
MAX_SHARE_OF_SHORT_CALLS = 0.02
"""Maximum share of these cycles in those of a kernel with more work, such as the four sums of a strided convolution's
gradient, of which one has few terms. A kernel of calls alone needs no optimization: LLVM takes 6 ms for it instead of 48."""
MULTIPLY_ADDS_PER_CYCLE = 32
MAX_RANGES = 3
COMPILED_IN_STRIDES = (0, 1)
"""Strides that a subroutine is made for; others are passed to it."""
T = TypeVar("T")


@dataclass(frozen=True)
class TileOfSums:
    """The layout of the sums that a product tile's subroutine stores: rows of `width` neighbouring sums."""

    sizes: tuple[int, ...]
    """The numbers of rows along each axis."""
    strides: tuple[int, ...] | None
    """The strides along these axes of a local array for the sums, or None if strides are compiled in."""
    width: int
    first_number: int
    """The position of the first of these strides among the numbers that a call passes."""


_SUMS: dict[str, TileOfSums] = {}


def product_tile_of(call: ir.Call) -> TileOfSums | None:
    """Returns what a call of a subroutine stores, if the subroutine computes a tile of a product."""
    return _SUMS.get(str(call.args[0].value))


@dataclass(frozen=True)
class _TileKey:
    """The properties that distinguish subroutines of product tiles: the tile's sizes, and strides of the arrays."""

    dtype: str
    lanes: int
    width: int
    padded: int
    sizes: tuple[int, ...]
    is_continued: bool
    is_streamed: bool
    terms: int
    """The number of axes of terms."""
    strides: tuple[tuple[int | None, ...], ...]
    """Of the result and all factors along rows, terms (only the factors') and vectors; None for those that are passed."""


def call_product_tile(
    column: ColumnTile, ranges: Sequence[Range], start: Stage | None, epilogue: Epilogue, is_streamed: bool
) -> Stmt | None:
    """Returns a call of the shared subroutine for a tile of a matrix product, with the epilogue on its sums.

    LLVM takes 20 ms for a tile, so kernels with the same tile and strides share one. Returns None unless the reduction
    is a sum of products of a suitable form and size.

    Args:
        column: the register tile.
        ranges: the terms to sum.
        start: the stage that holds partial results to continue from.
        epilogue: the stages to run on each result.
        is_streamed: whether to prefetch the factor of which vectors are loaded.
    """
    stage = column.stage
    factors = _factors_of_sum(stage)
    if factors is None or not _has_common_form(stage, factors, ranges) or _calls_take_long(column, ranges, epilogue):
        return None
    result_load = _result_load(stage)
    stores_in_call = epilogue.stores == (stage,) and not epilogue.shifts and start in (None, stage)
    if stores_in_call:
        sums = result_load
        has_vectors = access.load_stride(result_load, column.vector.var) == 1
        result_strides = _strides(result_load, column.order) if has_vectors else None
    elif start is None:
        sums = column.accumulators.load(index(0), 0, 0)
        result_strides = column.accumulators.row_strides(column.sizes)
    else:
        return None
    strides = _array_strides(column, ranges, result_strides, factors)
    if strides is None:
        return None
    key = _tile_key(column, ranges, strides, is_continued=start is not None, is_streamed=is_streamed)
    name = _product(key)

    first_terms = {range_.axis.var: range_.start for range_ in ranges}
    first_indices = {**column.tile.base, **first_terms}
    addresses = [substitute(load, first_indices) for load in (sums, *factors)]
    term_counts = [*[1] * _missing_axes(ranges), *(range_.extent for range_ in ranges)]
    call = subroutine.call(name, addresses, [*term_counts, *_strides_to_pass(strides, key)])

    row_strides = column.accumulators.row_strides(column.sizes)
    are_passed = all(stride is None for stride in key.strides[0][:-1])
    _SUMS[name] = TileOfSums(key.sizes, row_strides if are_passed else None, key.width, len(term_counts))
    return call if stores_in_call else column.with_epilogue(call, epilogue)


def _has_common_form(stage: Stage, factors: Sequence[TensorLoad], ranges: Sequence[Range]) -> bool:
    """Returns whether a sum of products, over some ranges of terms, has a form that shared subroutines can compute.

    Args:
        stage: the reduction.
        factors: the loads of the factors.
        ranges: the ranges of terms.
    """
    if stage.broadcast_axis is not None or stage.edges:
        return False
    if len(ranges) > MAX_RANGES or any(range_.is_unrolled for range_ in ranges):
        return False
    # In the body of another subroutine, arrays have explicit strides, which can't be computed from their shapes.
    return not any(len(load.source.ty.strides) for load in (_result_load(stage), *factors))


def _tile_key(
    column: ColumnTile,
    ranges: Sequence[Range],
    strides: list[tuple[int, ...]],
    *,
    is_continued: bool,
    is_streamed: bool,
) -> _TileKey:
    """Returns the properties that distinguish a tile's subroutine from those of other tiles.

    Args:
        column: the register tile.
        ranges: the terms to sum.
        strides: the strides of the result and of all factors, see `_array_strides`.
        is_continued: whether the sums continue partial results.
        is_streamed: whether to prefetch the factor of which vectors are loaded.
    """
    width = column.tile.sizes[column.vector.var]
    rows = tuple(column.sizes)
    return _TileKey(
        dtype=column.stage.dtype,
        lanes=column.lanes,
        width=width,
        padded=column.padded if width % column.lanes else 0,
        sizes=rows,
        is_continued=is_continued,
        is_streamed=is_streamed,
        terms=len(ranges) + _missing_axes(ranges),
        strides=tuple(_strides_to_compile_in(array_strides, len(rows)) for array_strides in strides),
    )


def _strides_to_pass(strides: list[tuple[int, ...]], key: _TileKey) -> list[int]:
    """Returns the strides that are arguments of a product tile's subroutine.

    Args:
        strides: all strides of each array.
        key: describes the subroutine. Its strides are None where they are arguments; others are compiled in.
    """
    passed: list[int] = []
    for array_strides, compiled_in_strides in zip(strides, key.strides, strict=True):
        for stride, compiled_in in zip(array_strides, compiled_in_strides):
            if compiled_in is None:
                passed.append(stride)
    return passed


def _calls_take_long(column: ColumnTile, ranges: Sequence[Range], epilogue: Epilogue) -> bool:
    """Returns whether calling a subroutine for each tile takes noticeably longer than loops would.

    The number of tiles follows from the sizes of the arrays that they store to. The stage itself may be only a part of
    the kernel, such as one image.

    Args:
        column: the register tile.
        ranges: the ranges of terms that a call adds.
        epilogue: the stages that run on the tile's results.
    """
    term_count = _term_count(ranges)
    if not term_count or term_count >= MIN_TERMS:
        return False
    result_counts = [static(emit.volume(store.buffer.ty.shape)) for store in epilogue.stores]
    known_counts = [count for count in result_counts if count is not None]
    if len(known_counts) < len(result_counts):
        return True
    results_per_tile = prod(column.tile.sizes.values())
    calls = max(known_counts) / results_per_tile
    max_cycles = max(MAX_CYCLES_OF_SHORT_CALLS, MAX_SHARE_OF_SHORT_CALLS * _cycles_of_kernel.get())
    return calls * CYCLES_OF_A_SHORT_CALL > max_cycles


_cycles_of_kernel: ContextVar[float] = ContextVar("cycles_of_kernel", default=0)


@contextmanager
def in_kernel(stages: Iterable[Stage | Opaque]) -> Iterator[None]:
    """Sets the estimated work of a kernel, from all its stages, for the tiles that are emitted in the ``with`` block."""
    reductions = [stage for stage in stages if isinstance(stage, Stage) and stage.reduce]
    multiply_adds = sum(access.iteration_count(stage.axes) or 0 for stage in reductions)
    token = _cycles_of_kernel.set(multiply_adds / MULTIPLY_ADDS_PER_CYCLE)
    try:
        yield
    finally:
        _cycles_of_kernel.reset(token)


def _missing_axes(ranges: Sequence[Range]) -> int:
    """Returns the number of reduction axes of extent 1 to add before the others.

    Sums along two and three axes then share a subroutine.
    """
    return MAX_RANGES - len(ranges) if len(ranges) > 1 else 0


def _strides_to_compile_in(strides: tuple[int, ...], row_count: int) -> tuple[int | None, ...]:
    """Returns an array's strides, with None for each stride that is an argument of the product tile's subroutine.

    Strides of 0 and 1 are compiled in: LLVM then broadcasts an element, or loads a vector. Along outer reduction axes,
    all strides are arguments. There, the stride is also 0 if `_missing_axes` added the axis. Such a product calls the
    same subroutine as a product that has the axis.

    Args:
        strides: the strides along the rows of the tile, the reduction axes and the vectors, in this order.
        row_count: the number of row axes.
    """
    outer_term_axes = range(row_count, len(strides) - 2)
    return tuple(
        stride if stride in COMPILED_IN_STRIDES and position not in outer_term_axes else None
        for position, stride in enumerate(strides)
    )


def _factors_of_sum(stage: Stage) -> tuple[TensorLoad, ...] | None:
    """Returns the factors ``a, b`` of a matrix product, the float32 reduction ``sum = sum + a * b`` from 0.

    For a sum of elements, ``sum = sum + a``, the only factor is ``a``. Shared subroutines compute only these forms, so
    other reductions give None, and so do factors that aren't loads of float32.
    """
    update = stage.value
    if stage.dtype != "float32" or not isinstance(update, tirx.Add):
        return None
    old_sum, term = update.a, update.b
    adds_to_result = isinstance(old_sum, TensorLoad) and old_sum.source.same_as(stage.buffer)
    if not adds_to_result or not is_zero(stage.init):
        return None
    factors = (term.a, term.b) if isinstance(term, tirx.Mul) else (term,)
    for factor in factors:
        if not isinstance(factor, TensorLoad) or str(factor.ty.dtype) != stage.dtype:
            return None
    return factors


def _term_count(ranges: Sequence[Range]) -> int | None:
    """Returns the number of terms in some ranges, or None if it isn't static."""
    sizes = [static(range_.extent) for range_ in ranges]
    return None if None in sizes else prod(size for size in sizes if size is not None)


def _result_load(stage: Stage) -> TensorLoad:
    """Returns the load of a reduction's result at the result's own indices."""
    return emit.load(stage.buffer, [axis.var for axis in stage.spatial])


def _array_strides(
    column: ColumnTile,
    ranges: Sequence[Range],
    result_strides: tuple[int, ...] | None,
    factors: tuple[TensorLoad, ...],
) -> list[tuple[int, ...]] | None:
    """Returns the strides of the result and of all factors: along rows, reduction axes (factors only), and vectors.

    Returns None if a stride isn't constant, or unless vectors are loaded from one factor and any other is broadcast.

    Args:
        column: the register tile.
        ranges: the terms to sum.
        result_strides: the strides of the result along rows.
        factors: the loads of all factors.
    """
    vector = column.vector.var
    if result_strides is None:
        return None
    array_strides = [(*result_strides, 1)]
    for load in factors:
        strides_in_tile = _strides_in_tile(load, column, [*column.order, vector])
        strides_along_terms = _strides(load, [range_.axis.var for range_ in ranges])
        if strides_in_tile is None or strides_along_terms is None:
            return None
        *row_strides, vector_stride = strides_in_tile
        strides_of_missing_axes = [0] * _missing_axes(ranges)
        array_strides.append((*row_strides, *strides_of_missing_axes, *strides_along_terms, vector_stride))
    vector_strides = [strides[-1] for strides in array_strides[1:]]
    return array_strides if sorted(vector_strides) in ([0, 1], [1]) else None


def _strides_in_tile(load: TensorLoad, column: ColumnTile, axes: Sequence[Var]) -> tuple[int, ...] | None:
    """Returns the strides of a load along axes of a register tile, or None if a stride isn't constant.

    The index of a packed operand has divisions, such as ``column // width`` for the panel, and is linear only within one
    tile. So an index that isn't linear is simplified first, given the range of indices in the tile.

    Args:
        load: the load.
        column: the tile.
        axes: the variables of the axes.
    """
    strides = _strides(load, axes)
    if strides is not None:
        return strides
    tile = column.tile
    analyzer = sym.Analyzer()
    axis_indices = dict(tile.base)
    offsets_in_tile = {axis: Var("step", "int64") for axis in tile.sizes}
    for axis, offset_in_tile in offsets_in_tile.items():
        # Along the vectors, sums are also computed for the padding of the last vector.
        size = sum(column.summed_spans[-1]) if axis.same_as(column.vector.var) else tile.sizes[axis]
        analyzer.bind(offset_in_tile, ir.Range(0, size))
        axis_indices[axis] = axis_indices[axis] + offset_in_tile
    load_in_tile = substitute(load, axis_indices)
    position = access.flat_offset(load.source, list(load_in_tile.indices))
    flat_offset = analyzer.simplify(position)
    strides_in_tile = [access.stride(flat_offset, offsets_in_tile[axis]) for axis in axes]
    return _all_known(None if stride is None else static(stride) for stride in strides_in_tile)


def _strides(load: TensorLoad, variables: Sequence[Var]) -> tuple[int, ...] | None:
    """Returns the strides of a load along some variables, or None if a stride isn't constant."""
    return _all_known(access.load_stride(load, var) for var in variables)


def _all_known(values: Iterable[T | None]) -> tuple[T, ...] | None:
    """Returns the values as a tuple, or None if any value is None."""
    found = list(values)
    known = tuple(value for value in found if value is not None)
    return known if len(known) == len(found) else None


@cache
def _product(key: _TileKey) -> str:
    """Makes the subroutine that computes a tile of a matrix product or a sum, and returns its name.

    Its arguments are the result, all factors, the extents of the reduction axes, and the strides that aren't compiled
    in.

    Args:
        key: describes the tile. Kernels with equal keys call the same subroutine.
    """
    arrays = [Array(key.dtype, strides) for strides in key.strides]
    return subroutine.subroutine(arrays, key.terms, partial(_emit_product, key))


def _emit_product(key: _TileKey, arrays: Sequence[Var], term_counts: Sequence[ir.Expr]) -> Stmt:
    """Emits a register tile of a matrix product or a sum, as the body of a subroutine.

    Args:
        key: the sizes and strides of the tile.
        arrays: the result and all factors.
        term_counts: the extents of the reduction axes.
    """
    result, *factor_arrays = arrays
    rows = [Axis(Var("row", "int64"), index(size)) for size in key.sizes]
    terms = [Axis(Var("term", "int64"), term_count) for term_count in term_counts]
    vector = Axis(Var("column", "int64"), index(key.width))
    result_axes = (*rows, vector)
    # An index that a factor doesn't depend on has stride 0.
    factor_indices = [axis.var for axis in (*rows, *terms, vector)]
    factors = [emit.load(array, factor_indices) for array in factor_arrays]
    old_sum = emit.load(result, [axis.var for axis in result_axes])
    zero = tirx.const(0, key.dtype)
    stage = Stage(result, result_axes, tuple(terms), zero, old_sum + reduce(mul, factors))
    tile = Tile({axis.var: index(0) for axis in result_axes}, {axis.var: axis.size or 1 for axis in result_axes})
    column = ColumnTile(stage, tile, vector, key.lanes, key.padded)
    start = stage if key.is_continued else None
    streamed_factor = _vector_factor(key, factors) if key.is_streamed else None
    return column.emit_tile([Range.whole(axis) for axis in terms], start, Epilogue(stage, (stage,)), streamed_factor)


def _vector_factor(key: _TileKey, factors: Sequence[TensorLoad]) -> TensorLoad:
    """Returns the factor of a product tile that vectors are loaded from: its stride along the vectors isn't 0."""
    vector_strides = [strides[-1] for strides in key.strides[1:]]
    return next(factor for factor, stride in zip(factors, vector_strides, strict=True) if stride != 0)
