"""The implicit matrix product: a contraction's axes as rows, columns and terms, and the tiles it is computed in.

The axes that only the left operand has are flattened into the rows, those of the right operand into the columns, those
of both into the batch, and all summed axes into the terms. An operand isn't materialized (no im2col): its elements are
the program's expressions, with padding and casts, at the indices that a row, column and term are unflattened to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.core.variable_lock import cached_property
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, loads, substitute, variables
from tvtf.passes.schedule.cpu.vector_axis import last_non_unit_axis, non_unit_axes
from tvtf.passes.schedule.gpu.target import SWIZZLED_BYTES, VECTOR_BYTES

MIN_ROWS_AND_COLUMNS = 16
MIN_TERMS = 8
UNKNOWN_SIZE = 512
"""The size that is assumed for an axis whose size is known only at run time."""


@dataclass(frozen=True)
class Operand:
    """An operand of the product: the expression of its elements, by row (or column) and term.

    The free axes are those of the rows (of the left operand) or columns (of the right one), which the other operand
    doesn't have.
    """

    value: ir.Expr
    free_axes: tuple[Axis, ...]
    reduction_axes: tuple[Axis, ...]

    @cached_property
    def load(self) -> TensorLoad | None:
        """The load of the operand's elements, or None if they are computed."""
        element = self.value.args[1] if self.is_guarded else self.value
        return element if isinstance(element, TensorLoad) else None

    @cached_property
    def is_guarded(self) -> bool:
        """Whether the elements have the form ``if_then_else(condition, load, 0)``, as those of a padded tensor.

        The condition is checked when a tile is copied to shared memory.
        """
        value = self.value
        if not isinstance(value, ir.Call) or str(getattr(value.op, "name", "")) not in access.FREE_CALLS:
            return False
        return len(value.args) == 3 and _is_zero(value.args[2])

    @cached_property
    def runs_along_terms(self) -> bool:
        """Whether neighbouring terms are contiguous in memory, rather than neighbouring rows or columns."""
        return self._contiguous_loads(self.reduction_axes) > self._contiguous_loads(self.free_axes)

    def _contiguous_loads(self, axes: tuple[Axis, ...]) -> int:
        """Counts the loads of the operand that are contiguous in memory along the last of ``axes``."""
        last = last_non_unit_axis(axes)
        return 0 if last is None else sum(access.load_stride(load, last.var) == 1 for load in loads(self.value))

    @property
    def dtype(self) -> str:
        return str(self.value.ty.dtype)

    def has_vectors_of(self, width: int) -> bool:
        """Returns whether the operand can be copied in vectors of ``width`` elements along its contiguous axis.

        The vectors must be full and aligned, and a bounds check must have the same result for all elements of a vector.
        """
        contiguous_axis = last_non_unit_axis(self.reduction_axes if self.runs_along_terms else self.free_axes)
        if self.load is None or contiguous_axis is None:
            return False
        if contiguous_axis.size is None or contiguous_axis.size % width:
            return False
        # If the bounds check depends on the contiguous axis, only some elements of a vector might be inside.
        if self.is_guarded and contiguous_axis.var in variables(self.value.args[0]):
            return False
        is_contiguous = access.load_stride(self.load, contiguous_axis.var) == 1
        return is_contiguous and _is_aligned(self.load, contiguous_axis, width)


def _is_aligned(load: TensorLoad, contiguous: Axis, width: int) -> bool:
    """Returns whether the vectors of a load are aligned: a GPU loads a vector only from a multiple of its size.

    The offset at index 0 of the contiguous axis must be a multiple of ``width`` for all values of the other indices.
    For example, rows of 6 elements aren't aligned for vectors of 4: the second row begins at offset 6.

    Args:
      load: the load of the operand.
      contiguous: the axis along which the operand is contiguous.
      width: the number of elements of a vector.
    """

    def is_multiple(offset: ir.Expr | None) -> bool:
        """Returns whether an offset is a known multiple of ``width``."""
        static_offset = None if offset is None else emit.static(offset)
        return static_offset is not None and static_offset % width == 0

    offset = access.flat_offset(load.source, list(load.indices))
    start_of_row = emit.simplified(substitute(offset, {contiguous.var: emit.index(0)}))
    other_vars = variables(start_of_row)
    zeros = {var: emit.index(0) for var in other_vars}
    first_start = emit.simplified(substitute(start_of_row, zeros))
    return is_multiple(first_start) and all(is_multiple(access.stride(start_of_row, var)) for var in other_vars)


@dataclass(frozen=True)
class Contraction:
    """``result[batch, row, column] += left[batch, row, term] * right[batch, term, column]``."""

    stage: Stage
    left: Operand
    right: Operand
    batch: tuple[Axis, ...]

    @property
    def rows(self) -> ir.Expr:
        return volume_of(self.left.free_axes)

    @property
    def columns(self) -> ir.Expr:
        return volume_of(self.right.free_axes)

    @property
    def terms(self) -> ir.Expr:
        return volume_of(self.stage.reduce)


def as_contraction(stage: Stage) -> Contraction | None:
    """Reads a stage of a kernel as a matrix product, or returns None if it isn't one, or is too small for tiles."""
    factors = _factors(stage)
    if factors is None or not stage.reduce:
        return None
    left_factor, right_factor = factors
    used_by_left = _axes_in(left_factor, stage.axes)
    used_by_right = _axes_in(right_factor, stage.axes)
    used_by_both = used_by_left & used_by_right
    used_by_any = used_by_left | used_by_right
    # Each result must depend on all of its axes, and each factor on all summed axes.
    if any(axis.var not in used_by_any for axis in non_unit_axes(stage.spatial)):
        return None
    if any(axis.var not in used_by_both for axis in non_unit_axes(stage.reduce)):
        return None
    batch = tuple(axis for axis in stage.spatial if axis.var in used_by_both)
    left_axes = tuple(axis for axis in stage.spatial if axis.var in used_by_left - used_by_right)
    right_axes = tuple(axis for axis in stage.spatial if axis.var in used_by_right - used_by_left)
    if min(size_of(left_axes), size_of(right_axes)) < MIN_ROWS_AND_COLUMNS or size_of(stage.reduce) < MIN_TERMS:
        return None
    used_axes = (*batch, *left_axes, *right_axes)
    unit_axes = tuple(axis for axis in stage.spatial if axis.size == 1 and axis not in used_axes)
    left = Operand(left_factor, left_axes, stage.reduce)
    right = Operand(right_factor, right_axes, stage.reduce)
    # Columns are the axis along which results are contiguous, so that neighbouring threads store neighbours.
    if last_non_unit_axis(stage.spatial) in left_axes:
        left, right = right, left
    return Contraction(stage, left, right, (*unit_axes, *batch))


def _factors(stage: Stage) -> tuple[ir.Expr, ir.Expr] | None:
    """Returns the factors ``a, b`` of a stage that computes ``sum += a * b`` from 0, or None for any other stage."""
    value = stage.value
    if not isinstance(value, tirx.Add) or stage.init is None or not _is_zero(stage.init):
        return None
    # Addition is commutative: either operand may be the accumulator.
    for accumulator, product in ((value.a, value.b), (value.b, value.a)):
        is_accumulator = isinstance(accumulator, TensorLoad) and accumulator.source.same_as(stage.buffer)
        if is_accumulator and isinstance(product, tirx.Mul):
            return product.a, product.b
    return None


def _is_zero(value: ir.Expr) -> bool:
    return isinstance(value, (tirx.FloatImm, tirx.IntImm)) and float(value.value) == 0


def _axes_in(value: ir.Expr, axes: Sequence[Axis]) -> set[Var]:
    """Returns the variables of the axes that an expression uses."""
    used = variables(value)
    return {axis.var for axis in axes if axis.var in used}


def size_of(axes: Sequence[Axis]) -> int:
    """Returns the product of the axes' sizes, with an assumed size for those that aren't static."""
    return prod(axis.size or UNKNOWN_SIZE for axis in axes)


def volume_of(axes: Sequence[Axis]) -> ir.Expr:
    return emit.volume([axis.extent for axis in axes])


@dataclass(frozen=True)
class Tile:
    """The rows, columns and terms that a block computes at once, and the own rows and columns of each warp or thread.

    ``warps`` says that warps compute them, by tensor cores. ``stages`` is the number of stages of the software pipeline.
    """

    rows: int
    columns: int
    terms: int
    own_rows: int
    own_columns: int
    warps: bool
    stages: int

    @property
    def threads(self) -> int:
        count = (self.rows // self.own_rows) * (self.columns // self.own_columns)
        return count * 32 if self.warps else count

    @property
    def accumulators(self) -> int:
        """The number of accumulators of each thread: the 32 threads of a warp share the results of the warp's tile."""
        return self.own_rows * self.own_columns // (32 if self.warps else 1)


class TileLayout:
    """The layout of an operand's tiles in shared memory: one tile per pipeline stage, each of ``line_count`` lines.

    A line has ``line_length`` elements that are contiguous, and padding up to ``line_stride``; it holds terms if
    ``along_terms``, else rows (of the left operand) or columns. ``first`` is the first of a tile's ``width`` rows or
    columns. The tiles begin at the offset ``start``.

    A swizzled tile has its lines in segments of `SWIZZLED_BYTES`, the first segments of all lines before the second ones.
    In each segment the vectors are permuted, so that neighbouring lines have a vector in different banks, without
    padding.
    """

    def __init__(
        self,
        operand: Operand,
        first: ir.Expr,
        width: int,
        tile: Tile,
        start: int,
        pad: int,
        is_swizzled: bool,
        local: Sequence[Var],
    ) -> None:
        """Lays out an operand's tiles in shared memory.

        Args:
          operand: the left or the right operand.
          first: the first row (of the left operand) or column (of the right one) of the tile.
          width: the number of rows or columns.
          tile: the sizes of the block's tile.
          start: the offset of the first tile in shared memory.
          pad: the elements of padding after each line.
          is_swizzled: whether vectors are permuted.
          local: buffers that only this function uses.
        """
        self.operand, self.first, self.width, self.tile = operand, first, width, tile
        self.along_terms = operand.runs_along_terms
        self.line_length, self.line_count = (tile.terms, width) if self.along_terms else (width, tile.terms)
        self.line_stride = self.line_length + pad
        self.start = start
        self.stop = start + tile.stages * self.line_count * self.line_stride
        item_bytes = tvm_ffi.dtype(operand.dtype).bits // 8
        self.vector_width = VECTOR_BYTES // item_bytes
        self.is_swizzled = is_swizzled
        self.segment_length = SWIZZLED_BYTES // item_bytes
        is_local = operand.load is not None and any(operand.load.source.same_as(buffer) for buffer in local)
        self.copies_vectors = (
            tile.warps
            and not (is_local and operand.dtype == "bfloat16")
            and self.line_length % self.vector_width == 0
            and operand.has_vectors_of(self.vector_width)
        )

    def indices_of(self, stage: ir.Expr, row_or_column: ir.Expr, term: ir.Expr) -> list[ir.Expr]:
        """Returns the position of an element of a tile in shared memory, as a list of one index into a flat buffer.

        Args:
          stage: the number of the tile's buffer in the software pipeline: one is multiplied while others are filled.
          row_or_column: the row of an element of the left operand, or the column of one of the right operand, counted
            from the tile's first.
          term: the element's position along the summed axis, counted from the tile's first.
        """
        (index,) = self.indices_before_swizzling(stage, row_or_column, term)
        if not self.is_swizzled:
            return [index]
        # Swizzling avoids bank conflicts. A segment of a line is as long as all 32 banks of shared memory. The vectors
        # at one offset in neighbouring lines would be in the same banks, and a warp that reads them would wait for one
        # after another. So the index of a vector is XORed with the index of its line, which permutes the vectors of a
        # segment differently in each line.
        vectors_per_segment = emit.index(self.segment_length // self.vector_width)
        line = tirx.floordiv(index, emit.index(self.segment_length)) % vectors_per_segment
        vector = tirx.floordiv(index, emit.index(self.vector_width))
        return [tirx.bitwise_xor(vector, line) * self.vector_width + index % self.vector_width]

    def indices_before_swizzling(self, stage: ir.Expr, row_or_column: ir.Expr, term: ir.Expr) -> list[ir.Expr]:
        """Returns the position of a tile's element in shared memory before the vectors of each segment are permuted.

        The result is a list of one index into the block's flat buffer.

        Args:
          stage: the index of the tile's buffer, of which there are several in a pipeline.
          row_or_column: the row of the left operand, or the column of the right one.
          term: the index of the term.
        """
        line, offset = (row_or_column, term) if self.along_terms else (term, row_or_column)
        if not self.is_swizzled:
            return [self.start + (stage * self.line_count + line) * self.line_stride + offset]
        segments = self.line_length // self.segment_length
        segment = tirx.floordiv(offset, emit.index(self.segment_length))
        line_of_segment = (stage * segments + segment) * self.line_count + line
        return [self.start + line_of_segment * self.segment_length + offset % self.segment_length]

    def position_of(self, index: ir.Expr, width: int) -> tuple[ir.Expr, ir.Expr]:
        """Returns the row or column, and the term, of the first element of a vector in a tile.

        Args:
          index: the index of the vector in the tile, in the order of memory.
          width: the number of elements of a vector.
        """
        vectors_per_line = self.line_length // width
        line = tirx.floordiv(index, emit.index(vectors_per_line))
        offset = (index % vectors_per_line) * width
        return (line, offset) if self.along_terms else (offset, line)
