"""The implicit matrix product: a contraction's axes as rows, columns and terms, and the tiles it is computed in.

Axes that only the left operand has number the rows, those of the right operand the columns, those of both the batch;
all summed axes together are one. An element of an operand is the program's expression for it, with padding and casts,
at the axes' values that a row, column and term stand for.
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
from tvtf.passes.schedule.gpu.target import VECTOR_BYTES

SMALLEST_SIDE = 16
SMALLEST_SUM = 8
UNKNOWN_SIZE = 512


@dataclass(frozen=True)
class Operand:
    """One side of the product: its elements by row (or column) and term."""

    value: ir.Expr
    side: tuple[Axis, ...]
    terms: tuple[Axis, ...]

    @cached_property
    def load(self) -> TensorLoad | None:
        """The load that the operand consists of; None if something is computed."""
        inner = self.value.args[1] if self.is_guarded else self.value
        return inner if isinstance(inner, TensorLoad) else None

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a bounds test selects between a load and zero."""
        value = self.value
        if not isinstance(value, ir.Call) or str(getattr(value.op, "name", "")) not in access.FREE_CALLS:
            return False
        return (
            len(value.args) == 3 and isinstance(value.args[2], (tirx.FloatImm, tirx.IntImm)) and _is_zero(value.args[2])
        )

    @cached_property
    def runs_along_terms(self) -> bool:
        """Whether neighbouring terms are contiguous in memory."""
        by_term, by_side = (self._contiguous(axes) for axes in (self.terms, self.side))
        return by_term > by_side

    def _contiguous(self, axes: tuple[Axis, ...]) -> int:
        last = _last_wide(axes)
        return 0 if last is None else sum(access.load_stride(load, last.var) == 1 for load in loads(self.value))

    @property
    def dtype(self) -> str:
        return str(self.value.ty.dtype)

    def chunk(self, width: int) -> bool:
        """Returns whether ``width`` neighbours along the faster axis can be moved as one vector."""
        fast = _last_wide(self.terms if self.runs_along_terms else self.side)
        if self.load is None or fast is None or fast.size is None or fast.size % width:
            return False
        # Some of the neighbours may be outside of the bounds.
        if self.is_guarded and fast.var in variables(self.value.args[0]):
            return False
        return access.load_stride(self.load, fast.var) == 1 and _is_aligned(self.load, fast, width)


def _is_aligned(load: TensorLoad, fast: Axis, width: int) -> bool:
    """Returns whether a load starts at a multiple of ``width`` elements where its fast axis is 0."""
    offset = access.flat_offset(load.source, list(load.indices))
    start = emit.simplified(substitute(offset, {fast.var: emit.index(0)}))
    strides = [access.stride(start, var) for var in variables(start)]
    steps = [None if step is None else emit.static(step) for step in strides]
    bare = emit.static(emit.simplified(substitute(start, {var: emit.index(0) for var in variables(start)})))
    return bare is not None and bare % width == 0 and all(step is not None and step % width == 0 for step in steps)


@dataclass(frozen=True)
class Contraction:
    """``result[batch, row, column] += left[batch, row, term] * right[batch, term, column]``."""

    stage: Stage
    left: Operand
    right: Operand
    batch: tuple[Axis, ...]

    @property
    def rows(self) -> ir.Expr:
        return volume_of(self.left.side)

    @property
    def columns(self) -> ir.Expr:
        return volume_of(self.right.side)

    @property
    def terms(self) -> ir.Expr:
        return volume_of(self.stage.reduce)


def as_contraction(stage: Stage) -> Contraction | None:
    """Returns the stage as a matrix product that is large enough for tiles, or None."""
    factors = _factors(stage)
    if factors is None or not stage.reduce:
        return None
    used = [_axes_in(factor, stage.axes) for factor in factors]
    batch = tuple(a for a in stage.spatial if a.var in used[0] and a.var in used[1])
    sides = [
        tuple(a for a in stage.spatial if a.var in own and a.var not in other) for own, other in (used, used[::-1])
    ]
    if any(a.var not in used[0] and a.var not in used[1] and a.size != 1 for a in stage.spatial):
        return None
    if not all(all(a.var in own or a.size == 1 for a in stage.reduce) for own in used):
        return None
    if min(size_of(side) for side in sides) < SMALLEST_SIDE or size_of(stage.reduce) < SMALLEST_SUM:
        return None
    operands = [Operand(f, side, stage.reduce) for f, side in zip(factors, sides, strict=True)]
    units = tuple(
        a for a in stage.spatial if a.size == 1 and a not in batch and a not in sides[0] and a not in sides[1]
    )
    last = _last_wide(stage.spatial)
    # Columns are the axis along which results are contiguous, so that neighbouring threads store neighbours.
    if last in sides[0]:
        operands.reverse()
    return Contraction(stage, operands[0], operands[1], (*units, *batch))


def _factors(stage: Stage) -> tuple[ir.Expr, ir.Expr] | None:
    """Returns the two factors of a sum of products, or None."""
    value = stage.value
    if not isinstance(value, tirx.Add) or stage.init is None or not _is_zero(stage.init):
        return None
    for old, product in ((value.a, value.b), (value.b, value.a)):
        if isinstance(old, TensorLoad) and old.source.same_as(stage.buffer) and isinstance(product, tirx.Mul):
            return product.a, product.b
    return None


def _is_zero(value: ir.Expr) -> bool:
    return isinstance(value, (tirx.FloatImm, tirx.IntImm)) and float(value.value) == 0


def _axes_in(value: ir.Expr, axes: Sequence[Axis]) -> set[Var]:
    used = variables(value)
    return {axis.var for axis in axes if axis.var in used}


def _last_wide(axes: Sequence[Axis]) -> Axis | None:
    return next((axis for axis in reversed(axes) if axis.size != 1), None)


def size_of(axes: Sequence[Axis]) -> int:
    return prod(axis.size or UNKNOWN_SIZE for axis in axes)


def volume_of(axes: Sequence[Axis]) -> ir.Expr:
    return emit.volume([axis.extent for axis in axes])


@dataclass(frozen=True)
class Tile:
    """The rows, columns and terms that a block computes at once, and the rows and columns of each warp or thread."""

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


class Side:
    """An operand's tiles in shared memory from ``start`` on: ``stages`` of ``slow`` lines of ``fast`` elements."""

    def __init__(
        self, operand: Operand, first: ir.Expr, width: int, tile: Tile, start: int, pad: int, local: Sequence[Var]
    ) -> None:
        self.operand, self.first, self.width, self.tile = operand, first, width, tile
        self.along = operand.runs_along_terms
        self.fast, self.slow = (tile.terms, width) if self.along else (width, tile.terms)
        self.line, self.start = self.fast + pad, start
        self.stop = start + tile.stages * self.slow * self.line
        item = tvm_ffi.dtype(operand.dtype).bits // 8
        self.chunk = VECTOR_BYTES // item
        is_own = operand.load is not None and any(operand.load.source.same_as(b) for b in local)
        self.moves = (
            tile.warps
            and not (is_own and operand.dtype == "bfloat16")
            and self.fast % self.chunk == 0
            and operand.chunk(self.chunk)
        )

    def place(self, stage: ir.Expr, side: ir.Expr, term: ir.Expr) -> list[ir.Expr]:
        slow, fast = (side, term) if self.along else (term, side)
        return [self.start + (stage * self.slow + slow) * self.line + fast]

    def split(self, number: ir.Expr, width: int) -> tuple[ir.Expr, ir.Expr]:
        """Returns the side and term of an element (or vector) by its number in the tile."""
        lines = self.fast // width
        slow, fast = tirx.floordiv(number, emit.index(lines)), (number % lines) * width
        return (slow, fast) if self.along else (fast, slow)
