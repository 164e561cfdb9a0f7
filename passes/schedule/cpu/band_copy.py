"""Copies of bands of an image's rows, with zeros around the image: a subroutine that all convolutions share.

Written out, the copy would be most of a convolution's code, since LLVM unrolls its loops with their bounds checks.
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
"""The element type of bands copied by a call. `codegen/bfloat16.py` changes kernels on others after they are scheduled."""
COPIED_DTYPE = "int32"
"""The type that elements are copied as: their bits are combined with a 0 that LLVM doesn't know."""
TASKS_PER_CORE = 4
MIN_VECTORS, MIN_ELEMENTS = 4, 1024
"""Minimum numbers of vectors of a run and of elements of a band that are copied by a call. For 20,000 images of 3x3x8 calls take
532 us, and loops 252; for 32 images of 28x28x64 both take the same time."""
BAND_AXES = 3
Element = Callable[[list[ir.Expr]], Any]
"""An element by its row, column and channel in the band."""


class _RangeInside(NamedTuple):
    """The range [``first``, ``stop``) of an axis of the band that lies in the image."""

    first: ir.Expr
    stop: ir.Expr


def emit_band_copy(result: Element, value: Element, extents: Sequence[int], lanes: int) -> Stmt:
    """Emits the copy of a band (some rows of an image, with zeros around the image), by a subroutine if possible.

    Args:
        result: returns the element of the band at a row, column and channel.
        value: returns the value to store there.
        extents: the rows, columns and channels of the band.
        lanes: the elements of a vector.
    """

    def copy_channels(row_and_column: list[ir.Expr]) -> Stmt:
        """Emits the copy of all channels of one row and column, in vectors."""

        def copy_lane(first_lane: int, lane: ir.Expr) -> Stmt:
            """Emits the copy of one channel."""
            location = [*row_and_column, lane + first_lane]
            result_load = result(location)
            return emit.store(result_load.source, value(location), list(result_load.indices))

        spans = emit.vector_spans(extents[2], lanes)  # the first channel and the number of channels of each vector
        return emit.sequence([emit.vectorized(count, partial(copy_lane, first_lane)) for first_lane, count in spans])

    return call_band_copy(result, value, extents, lanes) or emit.nest(extents[:2], copy_channels)


def call_band_copy(
    result: Element, value: Element, extents: Sequence[int], lanes: int, also_small: bool = False
) -> Stmt | None:
    """Returns a call of the subroutine that copies a band of an image; the arguments are those of `emit_band_copy`.

    Returns None unless the value is an element of an image, or zero outside of the image; or if the band is small,
    unless ``also_small``. Inline code would be most of a convolution's code, since LLVM unrolls the loops with their
    bounds checks.
    """
    axes: list[Any] = [Var(name, "int64") for name in ("row", "column", "channel")]
    band_load, (checks, image_load) = result(axes), _bounds_checks_and_value(value(axes))
    if not isinstance(image_load, TensorLoad):
        return None
    loads_of_both = (band_load, image_load)
    if any(str(load.ty.dtype) != DTYPE for load in loads_of_both):
        return None
    strides = [access.load_stride(load, axis) for load in loads_of_both for axis in axes]
    static_strides = [stride for stride in strides if stride is not None]
    ranges_inside = _ranges_inside(checks, axes, extents)
    if ranges_inside is None or len(static_strides) < len(strides):
        return None
    band_row, band_column, band_channel, image_row, image_column, image_channel = static_strides
    # Vectors run along the channels.
    if (band_channel, image_channel) != (1, 1):
        return None
    is_dense = band_column == image_column == extents[2]
    if not (also_small or _is_worth_a_call(extents, is_dense, lanes)):
        return None
    base_element, offset = _base_element_and_offset(image_load, axes)
    first_element = substitute(band_load, {axis: index(0) for axis in axes})
    bounds = [bound for range_ in ranges_inside for bound in range_]
    name = _copy_subroutine(lanes, is_dense)
    numbers = [*extents, *bounds, offset, band_row, band_column, image_row, image_column, 0]
    return subroutine.call(name, [first_element, base_element], numbers)


def emit_image_copies(stage: Stage, target: CpuTarget, parallel: bool) -> Stmt | None:
    """Emits a stage that copies images with a zero border, as one subroutine call for each image.

    Returns None if the stage is no such copy, or if there are too few images for all cores.
    """
    sizes = [axis.size for axis in stage.spatial]
    extents = [size for size in sizes if size is not None]
    images = extents[:-BAND_AXES]
    has_too_few_images = parallel and prod(images) < TASKS_PER_CORE * target.cores
    if not is_choice(stage.value) or len(extents) < max(len(sizes), BAND_AXES) or has_too_few_images:
        return None
    calls: list[Stmt | None] = []

    def copy_image(image_indices: list[ir.Expr]) -> Stmt:
        """Emits the subroutine call that copies one image, and appends the call to `calls`.

        The call is None if the subroutine can't copy such an image.
        """
        call = call_band_copy(
            lambda indices: emit.load(stage.buffer, [*image_indices, *indices]),
            lambda indices: stage.at([*image_indices, *indices]),
            extents[-BAND_AXES:],
            target.lanes(stage.item_bytes),
        )
        calls.append(call)
        return call or emit.sequence([])

    copied = emit.fused_loops(images, copy_image, parallel)
    return copied if all(calls) else None


def _is_worth_a_call(extents: Sequence[int], is_dense: bool, lanes: int) -> bool:
    """Returns whether a band is large, and its contiguous runs are long enough to hide the cost of a call."""
    run_length = extents[1] * extents[2] if is_dense else extents[2]
    return run_length >= MIN_VECTORS * lanes and prod(extents) >= MIN_ELEMENTS


def _bounds_checks_and_value(value: ir.Expr) -> tuple[list[ir.Expr], ir.Expr]:
    """Splits nested choices ``if_then_else(condition, value, 0)`` into a list of conditions and the innermost value."""
    checks: list[ir.Expr] = []
    while is_choice(value) and _is_positive_zero(value.args[2]):
        checks += conjuncts(value.args[0])
        value = value.args[1]
    return checks, value


def _is_positive_zero(value: ir.Expr) -> bool:
    """Returns whether an expression is the constant +0.0, whose bits are all 0."""
    return isinstance(value, tirx.FloatImm) and float(value) == 0 and copysign(1, float(value)) > 0


def _ranges_inside(checks: Sequence[ir.Expr], axes: Sequence[Var], extents: Sequence[int]) -> list[_RangeInside] | None:
    """Returns the range of a band's rows and the range of its columns in which all bounds checks hold.

    Outside of these ranges, the band's elements are zeros. With ranges instead of checks, the inner loops of the copy
    have no branches. Returns None if a check isn't a bound of either the row or the column.

    Args:
        checks: the bounds checks.
        axes: the variables of the band's rows, columns and channels.
        extents: the extents of these axes.
    """
    row_and_column = axes[:2]
    ranges = {axis: _RangeInside(index(0), index(extent)) for axis, extent in zip(row_and_column, extents)}
    for check in checks:
        used_axes = variables(check).intersection(axes)
        if len(used_axes) != 1:
            return None
        (axis,) = used_axes
        bound = _bound_of(check, axis) if axis in ranges else None
        if bound is None:
            return None
        low, high = bound
        first, stop = ranges[axis]
        ranges[axis] = _RangeInside(
            first if low is None else tirx.max(first, low), stop if high is None else tirx.min(stop, high)
        )
    return [_RangeInside(emit.simplified(first), emit.simplified(stop)) for first, stop in ranges.values()]


def _bound_of(comparison: ir.Expr, axis: Var) -> tuple[ir.Expr | None, ir.Expr | None] | None:
    """Returns the bound that a comparison sets to an axis: (first, None), or (None, stop) with stop excluded.

    For example, ``2 * row - 1 >= 0`` holds starting at row 1, and gives ``(1, None)``. Returns None unless the
    comparison is linear in the axis with a constant slope, and reads no data.
    """
    if not isinstance(comparison, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)) or loads(comparison):
        return None
    is_less = isinstance(comparison, (tirx.LT, tirx.LE))
    smaller, larger = (comparison.a, comparison.b) if is_less else (comparison.b, comparison.a)
    # The comparison holds if the surplus isn't negative: for integers, `a < b` is equivalent to `b - a - 1 >= 0`.
    is_strict = isinstance(comparison, (tirx.LT, tirx.GT))
    surplus = larger - smaller - int(is_strict)
    slope_and_constant = sym.detect_linear_equation(surplus, [axis])
    if len(slope_and_constant) != 2:  # TVM returns an empty list if the surplus isn't linear
        return None
    slope = static(emit.simplified(slope_and_constant[0]))
    constant = slope_and_constant[1]
    if not slope:
        return None
    # For a positive slope, `slope * axis + constant >= 0` holds from `-constant / slope` on, rounded up. For a negative
    # slope, it holds up to `constant / -slope`, rounded down.
    quotient = tirx.floordiv(constant, index(abs(slope)))
    return (-quotient, None) if slope > 0 else (None, quotient + 1)


def _base_element_and_offset(load: TensorLoad, axes: Sequence[Var]) -> tuple[TensorLoad, ir.Expr]:
    """Splits the address of a band's first element into a valid element of the image and an offset in elements.

    A band is some rows of a zero-padded image, so its first element may be outside of the image, where an address isn't
    valid. The subroutine adds the offset to the address only for elements that are inside.

    Args:
        load: the load of an element of the image.
        axes: the variables of the band's axes: row, column, and channel.
    """
    row_and_column = axes[:2]
    zeros = {axis: index(0) for axis in axes}
    first_indices = [substitute(load_index, zeros) for load_index in load.indices]
    base_indices = [
        index(0) if variables(load_index).intersection(row_and_column) else first_index
        for load_index, first_index in zip(load.indices, first_indices, strict=True)
    ]
    first_position = access.flat_offset(load.source, first_indices)
    base_position = access.flat_offset(load.source, base_indices)
    return emit.load(load.source, base_indices), emit.simplified(first_position - base_position)


@cache
def _copy_subroutine(lanes: int, is_dense: bool) -> str:
    """Makes the subroutine that copies a band of an image, and returns its name.

    Its numbers are the band's extents, the ranges of rows and columns inside the image, and the offset of the band's
    first element. The strides of rows and columns follow, of the band and of the image, and then 0. The bits of all
    elements are combined with this 0, which LLVM doesn't know. Otherwise LLVM would turn the loops into calls of memcpy
    and memset, which take longer for short runs (3 % of a convolution of 64 channels). In a dense band, columns have no
    gaps between them, in the image as well.
    """

    def emit_body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Emits the copy of row after row: zeros before the image, its part, and zeros after it."""
        result, source = arrays
        rows, columns, channels, first_row, stop_row, first_column, stop_column, offset, *strides, zero = numbers
        first, stop = Var("first", "int64"), Var("stop", "int64")
        zero_bits = tirx.Cast(COPIED_DTYPE, zero)

        def copy_row(row_index: ir.Expr) -> Stmt:
            """Emits the copy of one row of the band: zeros, then columns [first, stop) of the image, then zeros."""
            band_offset = row_index * strides[0]
            image_offset = row_index * strides[2] + offset

            def copy_columns(start: ir.Expr, end: ir.Expr, is_inside: bool) -> Stmt:
                """Emits the copy of the columns from `start` to `end` (excluded) of one row of the band.

                Columns outside of the image are zeros. The row is split at the borders of the image, so that no element
                needs a bounds check.

                Args:
                    start: the first column.
                    end: the end of the columns.
                    is_inside: whether the columns are inside of the image.
                """

                def copy_run(column: ir.Expr, length: ir.Expr) -> Stmt:
                    """Emits the copy of `length` contiguous elements, starting at a column.

                    In a dense band, a run has the channels of many columns, and thus more full vectors.
                    """

                    def copy_item(position: ir.Expr) -> Stmt:
                        """Emits the copy of one element, or the store of a zero."""
                        image = emit.load(source, [image_offset + column * strides[3] + position])
                        bits = tirx.bitwise_or(image, zero_bits) if is_inside else zero_bits
                        return emit.store(result, bits, [band_offset + column * strides[1] + position])

                    return _in_vectors(length, lanes, copy_item)

                if is_dense:
                    return copy_run(start, (end - start) * channels)
                return emit.loop(end - start, lambda number: copy_run(start + number, channels))

            inside = tirx.all(row_index >= first_row, row_index < stop_row)
            return emit.sequence([
                tirx.Bind(first, tirx.Select(inside, tirx.max(tirx.min(first_column, columns), index(0)), columns)),
                tirx.Bind(stop, tirx.Select(inside, tirx.max(tirx.min(stop_column, columns), first), columns)),
                copy_columns(index(0), first, is_inside=False),
                copy_columns(first, stop, is_inside=True),
                copy_columns(stop, columns, is_inside=False),
            ])  # fmt: skip

        return emit.loop(rows, copy_row)

    return subroutine.subroutine([Array(COPIED_DTYPE)] * 2, 13, emit_body)


def _in_vectors(count: ir.Expr, lanes: int, copy_item: Callable[[ir.Expr], Stmt]) -> Stmt:
    """Emits `copy_item` for `count` elements: full vectors in a loop, then the remaining elements one by one.

    Args:
        count: the number of elements.
        lanes: the number of elements of a vector.
        copy_item: emits the copy of the element at an index.
    """
    full_vectors = tirx.floordiv(count, index(lanes))
    remaining = count - full_vectors * lanes

    def copy_vector(vector: ir.Expr) -> Stmt:
        """Emits the copy of one full vector."""
        return emit.vectorized(lanes, lambda lane: copy_item(vector * lanes + lane))

    def copy_remaining(item: ir.Expr) -> Stmt:
        """Emits the copy of one element after the last full vector."""
        return copy_item(full_vectors * lanes + item)

    return emit.sequence([emit.loop(full_vectors, copy_vector), emit.loop(remaining, copy_remaining)])
