"""Register tiles of matrix products as subroutines, which all kernels with the same tile and strides share.

LLVM takes 20 ms for a tile. A convolution has several of them (whole ones, and those at the ends of rows and columns),
and a network a few dozen convolutions with the same numbers of channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TypeVar

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, substitute
from tvtf.passes.schedule.cpu.lane_tile import ColumnTile
from tvtf.passes.schedule.cpu.subroutine import Array
from tvtf.passes.schedule.cpu.tile import Finish, Range, Tile

FEWEST_TERMS = 64
"""Terms of a sum from which on a call costs nothing that can be measured. Of 16 terms, whose tile takes 50 ns, it costs 8 %
of a convolution's time, of 32 terms 5 %."""
MOST_RANGES = 3
FIXED = (0, 1)
"""Strides that a subroutine is made for; others are passed to it."""
T = TypeVar("T")


@dataclass(frozen=True)
class _Shape:
    """What distinguishes subroutines: sizes of the tile, and strides of items along its rows and along the terms."""

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
    """Of the result and both factors along rows, terms (only the factors') and vectors; None for those that are passed."""


def called_product(
    column: ColumnTile, ranges: Sequence[Range], start: Stage | None, finish: Finish, is_streamed: bool
) -> Stmt | None:
    """Returns a call that writes a tile of sums of products, and the epilogue on them; None if it is something else.

    The factor of which vectors are loaded is prefetched if it ``is_streamed``.
    """
    stage = column.stage
    factors = _factors(stage)
    if factors is None or stage.spread is not None or stage.edges or len(ranges) > MOST_RANGES:
        return None
    if any(part.is_written_out for part in ranges) or (_terms(ranges) or FEWEST_TERMS) < FEWEST_TERMS:
        return None
    first = {**column.tile.base, **{part.axis.var: part.start for part in ranges}}
    ends_there = finish.stores == (stage,) and not finish.moved and start in (None, stage)
    if not ends_there and start is not None:
        return None
    result = _strides(_result(stage), column.order) if ends_there else column.accumulators.row_strides(column.sizes)
    strides = _strides_of(column, ranges, result, factors)
    if strides is None or not all(map(subroutine.can_pass, strides)):
        return None
    width, rows = column.tile.sizes[column.vector.var], tuple(column.sizes)
    shape = _Shape(
        stage.dtype,
        column.lanes,
        width,
        column.padded if width % column.lanes else 0,
        rows,
        start is not None,
        is_streamed,
        len(ranges) + _more_axes(ranges),
        tuple(_fixed_strides(each, len(rows)) for each in strides),
    )
    sums = _result(stage) if ends_there else column.accumulators.load(index(0), 0, 0)
    places = [substitute(load, first) for load in (sums, *factors)]
    counts = [*[1] * _more_axes(ranges), *(part.extent for part in ranges)]
    passed = [
        step for each, own in zip(strides, shape.strides, strict=True) for step, at in zip(each, own) if at is None
    ]
    call = subroutine.call(_product(shape), places, [*counts, *passed])
    return call if ends_there else column.ended(call, finish)


def _more_axes(ranges: Sequence[Range]) -> int:
    """Returns how many axes with a single term to add in front, so that sums along two and along three share a tile."""
    return MOST_RANGES - len(ranges) if len(ranges) > 1 else 0


def _fixed_strides(strides: tuple[int, ...], rows: int) -> tuple[int | None, ...]:
    """Returns the strides of an array for which a subroutine is made; the others, None, are passed.

    Strides along all axes of terms but the last are passed: they are 0 where `_more_axes` added the axis, and that mustn't
    make another subroutine.
    """
    outer = range(rows, len(strides) - 2)
    return tuple(step if step in FIXED and at not in outer else None for at, step in enumerate(strides))


def _factors(stage: Stage) -> tuple[TensorLoad, TensorLoad] | None:
    """Returns the two loads whose products a float32 sum adds up; None for another reduction."""
    value = stage.value
    if stage.dtype != "float32" or not isinstance(value, tirx.Add) or not isinstance(value.b, tirx.Mul):
        return None
    is_sum = isinstance(value.a, TensorLoad) and value.a.source.same_as(stage.buffer) and is_zero(stage.init)
    left, right = value.b.a, value.b.b
    is_plain = isinstance(left, TensorLoad) and isinstance(right, TensorLoad)
    if not is_sum or not is_plain or {str(load.ty.dtype) for load in (left, right)} != {stage.dtype}:
        return None
    return left, right


def _terms(ranges: Sequence[Range]) -> int | None:
    sizes = [static(part.extent) for part in ranges]
    return None if None in sizes else prod(size for size in sizes if size is not None)


def _result(stage: Stage) -> TensorLoad:
    return emit.load(stage.buffer, [axis.var for axis in stage.spatial])


def _strides_of(
    column: ColumnTile,
    ranges: Sequence[Range],
    result: tuple[int, ...] | None,
    factors: tuple[TensorLoad, TensorLoad],
) -> list[tuple[int, ...]] | None:
    """Returns the strides of the result and the factors along rows, terms (the factors') and vectors.

    None if one of them isn't constant, or vectors aren't loaded from exactly one factor.
    """
    stage, vector = column.stage, column.vector.var
    if result is None or access.load_stride(_result(stage), vector) != 1:
        return None
    in_tile = _known(_tile_strides(load, column, [*column.order, vector]) for load in factors)
    terms = _known(_strides(load, [part.axis.var for part in ranges]) for load in factors)
    if in_tile is None or terms is None or sorted(each[-1] for each in in_tile) != [0, 1]:
        return None
    outer = (0,) * _more_axes(ranges)
    return [(*result, 1), *((*rows, *outer, *along, by) for (*rows, by), along in zip(in_tile, terms, strict=True))]


def _tile_strides(load: TensorLoad, column: ColumnTile, along: Sequence[Var]) -> tuple[int, ...] | None:
    """Returns the strides of a load along axes of a tile, within which alone the index of a packed operand is linear.

    None if one isn't constant.
    """
    strides = _strides(load, along)
    if strides is not None:
        return strides
    tile, within, point = column.tile, sym.Analyzer(), dict(column.tile.base)
    steps = {axis: Var("step", "int64") for axis in tile.sizes}
    for axis, step in steps.items():
        size = sum(column.summed[-1]) if axis.same_as(column.vector.var) else tile.sizes[axis]
        within.bind(step, ir.Range(0, size))
        point[axis] = point[axis] + step
    offset = within.simplify(access.flat_offset(load.source, list(substitute(load, point).indices)))
    found = [access.stride(offset, steps[axis]) for axis in along]
    return _known(None if step is None else static(step) for step in found)


def _strides(load: TensorLoad, along: Sequence[Var]) -> tuple[int, ...] | None:
    """Returns the strides of a load along some variables, None if one isn't constant."""
    return _known(access.load_stride(load, var) for var in along)


def _known(values: Iterable[T | None]) -> tuple[T, ...] | None:
    """Returns the values, None if one of them is."""
    found = list(values)
    known = tuple(value for value in found if value is not None)
    return known if len(known) == len(found) else None


@cache
def _product(shape: _Shape) -> str:
    """Makes the subroutine; it takes the result, both factors, and the number of terms along each axis.

    Strides but 0 and 1 are passed, so that products of any size share a tile.
    """

    def body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Writes the tile on the subroutine's arguments."""
        result, *factors = arrays
        rows = [Axis(Var("row", "int64"), index(size)) for size in shape.sizes]
        terms = [Axis(Var("term", "int64"), number) for number in numbers]
        vector = Axis(Var("column", "int64"), index(shape.width))
        spatial = (*rows, vector)
        left, right = (emit.load(factor, [axis.var for axis in (*rows, *terms, vector)]) for factor in factors)
        old_sum, zero = emit.load(result, [axis.var for axis in spatial]), tirx.const(0, shape.dtype)
        stage = Stage(result, spatial, tuple(terms), zero, old_sum + left * right)
        tile = Tile({axis.var: index(0) for axis in spatial}, {axis.var: axis.size or 1 for axis in spatial})
        column = ColumnTile(stage, tile, vector, shape.lanes, shape.padded)
        start = stage if shape.is_continued else None
        streamed = (left, right)[shape.strides[1][-1] == 0] if shape.is_streamed else None
        return column.write([Range.whole(axis) for axis in terms], start, Finish(stage, (stage,)), streamed)

    return subroutine.subroutine([Array(shape.dtype, each) for each in shape.strides], shape.terms, body)
