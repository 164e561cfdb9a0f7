"""Copies of bands of an image's rows, with zeros around the image: a subroutine that all convolutions share.

Written out, the copy would be most of a convolution's code, since LLVM unrolls its loops with their tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import copysign, prod
from typing import Any, NamedTuple

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Stage, conjuncts, is_choice, loads, substitute, variables
from tvtf.passes.schedule.cpu.subroutine import Array
from tvtf.passes.schedule.cpu.target import CpuTarget

DTYPE = "float32"
"""The element type that is copied so. `codegen/bfloat16.py` changes kernels on others after they are scheduled."""
BITS = "int32"
"""Items are copied as integers, since a 0 that LLVM doesn't know is combined with their bits."""
TASKS_PER_CORE = 4
FEWEST_VECTORS, FEWEST_ITEMS = 4, 1024
"""Of a run and of a band. Of 20,000 images of 3x3x8 calls take 532 us, loops 252; of 32 of 28x28x64 both take the same."""
BAND_AXES = 3
Element = Callable[[list[ir.Expr]], Any]
"""An element by its row, column and channel in the band."""


class _Inside(NamedTuple):
    """The part of an axis of the band that lies in the image: from ``first`` on, before ``stop``."""

    first: ir.Expr
    stop: ir.Expr


def copied_band(result: Element, value: Element, extents: Sequence[int], lanes: int) -> Stmt:
    """Writes ``value`` to all rows, columns and channels of a band, in vectors of ``lanes`` items: by a call if it can be."""

    def vectors(at: list[ir.Expr]) -> Stmt:
        def item(first: int, lane: ir.Expr) -> Stmt:
            place = [*at, lane + first]
            written = result(place)
            return emit.store(written.source, value(place), list(written.indices))

        spans = emit.vector_spans(extents[2], lanes)
        return emit.sequence([emit.vectorized(count, partial(item, first)) for first, count in spans])

    return called_copy(result, value, extents, lanes) or emit.nest(extents[:2], vectors)


def called_copy(result: Element, value: Element, extents: Sequence[int], lanes: int) -> Stmt | None:
    """Returns a call of the subroutine that writes ``value`` to all rows, columns and channels of a band.

    None if the value is something else than an element of an image, or zero where there is none.
    """
    axes: list[Any] = [Var(name, "int64") for name in ("row", "column", "channel")]
    written, (tests, load) = result(axes), _tested(value(axes))
    if not isinstance(load, TensorLoad) or {str(each.ty.dtype) for each in (written, load)} != {DTYPE}:
        return None
    steps = [access.load_stride(each, axis) for each in (written, load) for axis in axes]
    inside = _inside(tests, axes, extents)
    known = [step for step in steps if step is not None]
    if inside is None or len(known) < len(steps) or (known[2], known[5]) != (1, 1):
        return None
    is_dense = known[1] == known[4] == extents[2]
    if not _is_worth_a_call(extents, is_dense, lanes) or not subroutine.can_pass([*known, _image_items(load, axes)]):
        return None
    near, ahead = _start(load, axes)
    first = substitute(written, {axis: index(0) for axis in axes})
    bounds = [bound for part in inside for bound in part]
    name = _copy(lanes, is_dense)
    return subroutine.call(name, [first, near], [*extents, *bounds, ahead, *known[:2], *known[3:5], 0])


def copied_images(stage: Stage, target: CpuTarget, parallel: bool) -> Stmt | None:
    """Writes a stage that copies images with zeros around them by a call for each image.

    None if the stage is something else, or its images are too few for the cores.
    """
    sizes = [axis.size for axis in stage.spatial]
    extents = [size for size in sizes if size is not None]
    images = extents[:-BAND_AXES]
    is_few = parallel and prod(images) < TASKS_PER_CORE * target.cores
    if not is_choice(stage.value) or len(extents) < max(len(sizes), BAND_AXES) or is_few:
        return None
    calls: list[Stmt | None] = []

    def image(places: list[ir.Expr]) -> Stmt:
        call = called_copy(
            lambda at: emit.load(stage.buffer, [*places, *at]),
            lambda at: stage.at([*places, *at]),
            extents[-BAND_AXES:],
            target.lanes(stage.item_bytes),
        )
        calls.append(call)
        return call or emit.sequence([])

    copied = emit.fused(images, image, parallel)
    return copied if all(calls) else None


def _is_worth_a_call(extents: Sequence[int], is_dense: bool, lanes: int) -> bool:
    """Returns whether a band is large, and its runs of neighbouring items are long, enough to hide a call's costs."""
    run = extents[1] * extents[2] if is_dense else extents[2]
    return run >= FEWEST_VECTORS * lanes and prod(extents) >= FEWEST_ITEMS


def _tested(value: ir.Expr) -> tuple[list[ir.Expr], ir.Expr]:
    """Returns the tests that all hold where an expression isn't zero, and what it is then."""
    tests: list[ir.Expr] = []
    while is_choice(value) and _is_positive_zero(value.args[2]):
        tests += conjuncts(value.args[0])
        value = value.args[1]
    return tests, value


def _is_positive_zero(value: ir.Expr) -> bool:
    return isinstance(value, tirx.FloatImm) and float(value) == 0 and copysign(1, float(value)) > 0


def _inside(tests: Sequence[ir.Expr], axes: Sequence[Var], extents: Sequence[int]) -> list[_Inside] | None:
    """Returns where the tests hold along rows and columns.

    None if a test isn't a bound of exactly one of them: a test of neither, or of both, isn't handled.
    """
    inside = {axis: _Inside(index(0), index(extent)) for axis, extent in zip(axes[:2], extents, strict=False)}
    for test in tests:
        used = variables(test).intersection(axes)
        (axis,) = used if len(used) == 1 else (None,)
        bound = _bound(test, axis) if axis in inside else None
        if bound is None:
            return None
        (low, high), (first, stop) = bound, inside[axis]
        inside[axis] = _Inside(
            first if low is None else tirx.max(first, low), stop if high is None else tirx.min(stop, high)
        )
    return [_Inside(*map(emit.simplified, part)) for part in inside.values()]


def _bound(test: ir.Expr, axis: Var) -> tuple[ir.Expr | None, ir.Expr | None] | None:
    """Returns (first, None) or (None, stop): the first index at which a comparison holds, or the one after the last.

    None if it isn't linear in the axis with a constant step, or reads data: bounds are passed as small integers.
    """
    if not isinstance(test, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)) or loads(test):
        return None
    is_less = isinstance(test, (tirx.LT, tirx.LE))
    # The test holds where this isn't negative.
    surplus = (test.b - test.a if is_less else test.a - test.b) - int(isinstance(test, (tirx.LT, tirx.GT)))
    terms = sym.detect_linear_equation(surplus, [axis])
    step = static(emit.simplified(terms[0])) if len(terms) == 2 else None
    if not step:
        return None
    whole = tirx.floordiv(terms[1], index(abs(step)))
    return (-whole, None) if step > 0 else (None, whole + 1)


def _image_items(load: TensorLoad, axes: Sequence[Var]) -> int:
    """Returns how many items there are in the part of an image over which rows and columns move."""
    moved = (at for at, place in enumerate(load.indices) if variables(place).intersection(axes[:2]))
    sizes = [emit.static(extent) for extent in list(load.source.ty.shape)[next(moved, 0) :]]
    return prod(subroutine.MOST + 1 if size is None else size for size in sizes)


def _start(load: TensorLoad, axes: Sequence[Var]) -> tuple[TensorLoad, ir.Expr]:
    """Returns an element that the image surely has, and how many items after it the band's first one lies.

    That may be outside of the image: only the subroutine adds it to the address, for items that lie inside.
    """
    first = [substitute(at, {axis: index(0) for axis in axes}) for at in load.indices]
    moves = [bool(variables(at).intersection(axes[:2])) for at in load.indices]
    inner = [index(0) if moved else at for moved, at in zip(moves, first, strict=True)]
    ahead = access.flat_offset(load.source, first) - access.flat_offset(load.source, inner)
    return emit.load(load.source, inner), emit.simplified(ahead)


@cache
def _copy(lanes: int, is_dense: bool) -> str:
    """Makes the subroutine; in a dense band columns follow each other without a gap, in the image as well.

    Its numbers are the band's extents, the rows and columns that lie in the image, the place of the band's first item,
    the distances of rows and columns in the band and in the image, and 0. With that 0, which LLVM doesn't know, the bits
    of all items are combined: LLVM would make calls of memcpy and memset of plain loops, which take longer for short runs
    (3 % of a convolution of 64 channels).
    """

    def body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Copies row after row: zeros before the image, its part, and zeros after it."""
        result, source = arrays
        rows, columns, channels, first_row, stop_row, first_column, stop_column, ahead, *steps, zero = numbers
        first, stop = Var("first", "int64"), Var("stop", "int64")
        zero_bits = tirx.Cast(BITS, zero)

        def row(at: ir.Expr) -> Stmt:
            here, there = at * steps[0], at * steps[2] + ahead

            def part(start: ir.Expr, end: ir.Expr, is_inside: bool) -> Stmt:
                def run(column: ir.Expr, length: ir.Expr) -> Stmt:
                    """Writes some items that follow each other, from a column on."""

                    def item(place: ir.Expr) -> Stmt:
                        image = emit.load(source, [there + column * steps[3] + place])
                        bits = tirx.bitwise_or(image, zero_bits) if is_inside else zero_bits
                        return emit.store(result, bits, [here + column * steps[1] + place])

                    return _vectors(length, lanes, item)

                if is_dense:
                    return run(start, (end - start) * channels)
                return emit.loop(end - start, lambda number: run(start + number, channels))

            inside = tirx.all(at >= first_row, at < stop_row)
            return emit.sequence([
                tirx.Bind(first, tirx.Select(inside, tirx.max(tirx.min(first_column, columns), index(0)), columns)),
                tirx.Bind(stop, tirx.Select(inside, tirx.max(tirx.min(stop_column, columns), first), columns)),
                part(index(0), first, is_inside=False),
                part(first, stop, is_inside=True),
                part(stop, columns, is_inside=False),
            ])  # fmt: skip

        return emit.loop(rows, row)

    return subroutine.subroutine([Array(BITS)] * 2, 13, body)


def _vectors(count: ir.Expr, lanes: int, item: Callable[[ir.Expr], Stmt]) -> Stmt:
    """Writes whole vectors of items, then single ones."""
    whole = tirx.floordiv(count, index(lanes))
    return emit.sequence([
        emit.loop(whole, lambda at: emit.vectorized(lanes, lambda lane: item(at * lanes + lane))),
        emit.loop(count - whole * lanes, lambda at: item(whole * lanes + at)),
    ])  # fmt: skip
