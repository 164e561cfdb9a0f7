"""Products summed over shared axes (matrix products, convolutions): one tile of results a block, by way of shared memory.

All are one form, the implicit matrix product: axes that only the left operand has number the rows, those of the right one
the columns, those of both the batch; what is summed over is one axis. An element of an operand is the expression that the
program has for it, padding and casts included, at the axes' values that a row, column and term stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.variable_lock import cached_property
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, loads, substitute, variables
from tvtf.passes.schedule.gpu import tensorcore
from tvtf.passes.schedule.gpu.block import Block, ceil_div, launch
from tvtf.passes.schedule.gpu.finish import Point, stores_at
from tvtf.passes.schedule.gpu.target import VECTOR_BYTES, GpuTarget
from tvtf.passes.schedule.gpu.tensorcore import Instruction, instruction_for

SMALLEST_SIDE = 16
SMALLEST_SUM = 8
UNKNOWN_SIZE = 512
BLOCKS_THAT_FILL = 128


@dataclass(frozen=True)
class Operand:
    """One side of the product: its elements by row (or column) and term."""

    value: ir.Expr
    side: tuple[Axis, ...]
    terms: tuple[Axis, ...]

    @cached_property
    def load(self) -> TensorLoad | None:
        """The load that the operand is, as it lies in memory; None where something is computed."""
        inner = self.value.args[1] if self.is_guarded else self.value
        return inner if isinstance(inner, TensorLoad) else None

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a bounds test chooses between a load and zero."""
        value = self.value
        if not isinstance(value, ir.Call) or str(getattr(value.op, "name", "")) not in access.FREE_CALLS:
            return False
        return (
            len(value.args) == 3 and isinstance(value.args[2], (tirx.FloatImm, tirx.IntImm)) and _is_zero(value.args[2])
        )

    @cached_property
    def runs_along_terms(self) -> bool:
        """Whether neighbouring terms lie side by side in memory."""
        by_term, by_side = (self._contiguous(axes) for axes in (self.terms, self.side))
        return by_term > by_side

    def _contiguous(self, axes: tuple[Axis, ...]) -> int:
        last = _last_wide(axes)
        return 0 if last is None else sum(access.load_stride(load, last.var) == 1 for load in loads(self.value))

    @property
    def dtype(self) -> str:
        return str(self.value.ty.dtype)

    def chunk(self, width: int) -> bool:
        """Whether ``width`` neighbours of the faster axis can be moved as one."""
        fast = _last_wide(self.terms if self.runs_along_terms else self.side)
        if self.load is None or fast is None or fast.size is None or fast.size % width:
            return False
        if self.is_guarded and fast.var in variables(self.value.args[0]):
            return False
        return access.load_stride(self.load, fast.var) == 1 and _is_aligned(self.load, fast, width)


def _is_aligned(load: TensorLoad, fast: Axis, width: int) -> bool:
    """Whether a load begins at a multiple of ``width`` elements where its fast axis does."""
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
        return _volume(self.left.side)

    @property
    def columns(self) -> ir.Expr:
        return _volume(self.right.side)

    @property
    def terms(self) -> ir.Expr:
        return _volume(self.stage.reduce)


def as_contraction(stage: Stage) -> Contraction | None:
    """The stage as a matrix product that is worth tiles, or None."""
    factors = _factors(stage)
    if factors is None or not stage.reduce:
        return None
    used = [_axes_in(factor, stage.axes) for factor in factors]
    batch = tuple(a for a in stage.spatial if a.var in used[0] and a.var in used[1])
    sides = [
        tuple(a for a in stage.spatial if a.var in mine and a.var not in other) for mine, other in (used, used[::-1])
    ]
    if any(a.var not in used[0] and a.var not in used[1] and a.size != 1 for a in stage.spatial):
        return None
    if not all(all(a.var in mine or a.size == 1 for a in stage.reduce) for mine in used):
        return None
    if min(_size(side) for side in sides) < SMALLEST_SIDE or _size(stage.reduce) < SMALLEST_SUM:
        return None
    operands = [Operand(f, side, stage.reduce) for f, side in zip(factors, sides, strict=True)]
    units = tuple(
        a for a in stage.spatial if a.size == 1 and a not in batch and a not in sides[0] and a not in sides[1]
    )
    last = _last_wide(stage.spatial)
    if last in sides[0]:
        operands.reverse()
    return Contraction(stage, operands[0], operands[1], (*units, *batch))


def _factors(stage: Stage) -> tuple[ir.Expr, ir.Expr] | None:
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
    found = variables(value)
    return {axis.var for axis in axes if axis.var in found}


def _last_wide(axes: Sequence[Axis]) -> Axis | None:
    return next((axis for axis in reversed(axes) if axis.size != 1), None)


def _size(axes: Sequence[Axis]) -> int:
    return prod(axis.size or UNKNOWN_SIZE for axis in axes)


def _volume(axes: Sequence[Axis]) -> ir.Expr:
    return emit.volume([axis.extent for axis in axes])


@dataclass(frozen=True)
class Tile:
    """Rows, columns and terms that a block does at once; of these, rows and columns of a warp or thread."""

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


LARGE, MIDDLE, SMALL = (128, 128, 64, 32), (64, 64, 32, 32), (32, 32, 16, 16)


def tile_of(product: Contraction, instruction: Instruction | None) -> Tile:
    """The largest tile of which there are enough for the GPU."""
    if instruction is None:
        return Tile(64, 64, 16, 4, 4, False, 1)
    terms = min(
        instruction.widest, max(instruction.terms, _size(product.stage.reduce) // instruction.terms * instruction.terms)
    )
    terms = instruction.widest if terms not in (instruction.terms, instruction.widest) else terms
    chosen = next((sizes for sizes in (LARGE, MIDDLE) if _fills(product, sizes)), SMALL)
    rows, columns, own_rows, own_columns = chosen
    return Tile(rows, columns, terms, own_rows, own_columns, True, 3)


def tile_for(product: Contraction, target: GpuTarget) -> Tile:
    """The tile of a product's kernel."""
    return tile_of(product, instruction_for(product, target))


def blocks_of(product: Contraction, target: GpuTarget) -> int | None:
    """How many blocks a product's kernel has, where that is known."""
    tile = tile_for(product, target)
    known = [emit.static(size) for size in (_volume(product.batch), product.rows, product.columns)]
    batch, rows, columns = known
    if batch is None or rows is None or columns is None:
        return None
    return batch * -(-rows // tile.rows) * -(-columns // tile.columns)


def _fills(product: Contraction, sizes: tuple[int, int, int, int]) -> bool:
    rows, columns = _size(product.left.side), _size(product.right.side)
    if rows < sizes[0] or columns < sizes[1]:
        return False
    blocks = -(-rows // sizes[0]) * -(-columns // sizes[1]) * _size(product.batch)
    return blocks >= BLOCKS_THAT_FILL or sizes is not LARGE


def emit_contraction(
    product: Contraction, stores: Sequence[Stage], needed: set[Var], local: Sequence[Var], target: GpuTarget
) -> Stmt:
    """Write a product and the stages that finish its results as one kernel."""
    instruction = instruction_for(product, target)
    if instruction is not None:
        product = instruction.narrowed(product)
    tile = tile_of(product, instruction)
    across, down = ceil_div(product.columns, tile.columns), ceil_div(product.rows, tile.rows)
    extents = [_volume(product.batch), down, across]

    def body(block: Block) -> Stmt:
        batch, row, column = emit.unflatten(block.number, extents)
        at = dict(
            zip((a.var for a in product.batch), emit.unflatten(batch, [a.extent for a in product.batch]), strict=True)
        )
        return _Tiled(block, product, tile, instruction, at, row * tile.rows, column * tile.columns, local).write(
            stores, needed
        )

    return launch(target, emit.volume(extents), tile.threads, body)


class _Side:
    """An operand's tiles in shared memory from ``start`` on: ``stages`` of them, each ``slow`` lines of ``fast`` elements."""

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
        """The side and term of an element (or chunk of them) by its number in the tile."""
        lines = self.fast // width
        slow, fast = tirx.floordiv(number, emit.index(lines)), (number % lines) * width
        return (slow, fast) if self.along else (fast, slow)


class _Tiled:
    """The body of a block."""

    def __init__(
        self,
        block: Block,
        product: Contraction,
        tile: Tile,
        instruction: Instruction | None,
        batch: Point,
        row: ir.Expr,
        column: ir.Expr,
        local: Sequence[Var],
    ) -> None:
        self.block, self.product, self.tile, self.instruction, self.batch = block, product, tile, instruction, batch
        pads = [
            instruction.pad(o.runs_along_terms) if instruction else (1 if o.runs_along_terms else 4)
            for o in (product.left, product.right)
        ]
        self.left = _Side(product.left, row, tile.rows, tile, 0, pads[0], local)
        self.right = _Side(product.right, column, tile.columns, tile, self.left.stop, pads[1], local)
        dtype = instruction.shared_type(block.target) if instruction else product.left.dtype
        self.shared = block.shared([self.right.stop], dtype, f"tiles_{dtype}", large=True)
        count = tile.own_rows * tile.own_columns // (32 if tile.warps else 1)
        self.sums = block.registers([count], product.stage.dtype, "sums")
        self.count = count

    def write(self, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        steps = ceil_div(self.product.terms, self.tile.terms)
        clear = self.block.each(
            lambda t: emit.loop(self.count, lambda i: self.sums.store(t, self.product.stage.init, i))
        )
        last = self.block.each(lambda t: self.finish(t, stores, needed))
        if self.tile.stages == 1:
            main = self.block.loop(
                steps,
                lambda s: self.block.then(
                    self.block.each(lambda t: self.fetch(t, s, emit.index(0))),
                    self.block.each(lambda t: self.multiply(t, emit.index(0))),
                ),
            )
            return emit.sequence([clear, main, last])
        return emit.sequence([clear, self.pipelined(steps), last])

    def pipelined(self, steps: int | ir.Expr) -> Stmt:
        """The tiles of later steps are on their way while one is multiplied."""
        ahead = self.tile.stages - 1

        def early(stage: int) -> Stmt:
            return self.block.each(lambda t: self.fetch_if(t, emit.index(stage), steps))

        def step(number: ir.Expr) -> Stmt:
            wait = self.block.each(lambda _: tensorcore.wait(self.block.target, ahead - 1))

            def work(thread: ir.Expr) -> Stmt:
                later = self.fetch_if(thread, number + ahead, steps)
                return emit.sequence([later, self.multiply(thread, number % self.tile.stages)])

            return self.block.then(wait, self.block.each(work))

        return emit.sequence([*map(early, range(ahead)), emit.loop(steps, step, name="step")])

    def fetch_if(self, thread: ir.Expr, step: ir.Expr, steps: int | ir.Expr) -> Stmt:
        fetched = emit.when(step < steps, self.fetch(thread, step, emit.simplified(step % self.tile.stages)))
        return emit.sequence([fetched, tensorcore.commit(self.block.target)])

    def fetch(self, thread: ir.Expr, step: ir.Expr, stage: ir.Expr) -> Stmt:
        return emit.sequence([self._fetch_side(side, thread, step, stage) for side in (self.left, self.right)])

    def _fetch_side(self, side: _Side, thread: ir.Expr, step: ir.Expr, stage: ir.Expr) -> Stmt:
        width = side.chunk if side.moves else 1
        numbers = side.slow * side.fast // width
        rounds = -(-numbers // self.tile.threads)

        def one(turn: ir.Expr) -> Stmt:
            number = turn * self.tile.threads + thread
            where, term = side.split(number, width)
            to = side.place(stage, where, term)
            done = self._move(side, where, step * self.tile.terms + term, to, width)
            return done if numbers % self.tile.threads == 0 else emit.when(number < numbers, done)

        return emit.loop(rounds, one, name="turn")

    def _move(self, side: _Side, where: ir.Expr, term: ir.Expr, to: list[ir.Expr], width: int) -> Stmt:
        at, inside = self._element(side, side.first + where, term)
        if width == 1 or self.instruction is None:
            value = substitute(side.operand.value, at)
            value = self.instruction.shared_value(value, self.block.target) if self.instruction else value
            zero = tirx.const(0, str(self.shared.ty.dtype.dtype))
            return emit.store(self.shared, value if _is_true(inside) else tirx.if_then_else(inside, value, zero), to)
        load = substitute(side.operand.load, at)
        if side.operand.is_guarded:
            inside = tirx.all(inside, substitute(side.operand.value.args[0], at))
        return self.instruction.move(self.block.target, self.shared, to, load, inside, width)

    def _element(self, side: _Side, where: ir.Expr, term: ir.Expr) -> tuple[Point, ir.Expr]:
        at = dict(self.batch)
        tests = []
        for axes, flat, piece in ((side.operand.side, where, side.width), (side.operand.terms, term, self.tile.terms)):
            extents = [axis.extent for axis in axes]
            at.update(zip((axis.var for axis in axes), emit.unflatten(flat, extents), strict=True))
            total = emit.volume(extents)
            known = emit.static(total)
            if known is None or known % piece:
                tests.append(flat < total)
        return at, tirx.all(*tests) if tests else tirx.const(True, "bool")

    def multiply(self, thread: ir.Expr, stage: ir.Expr) -> Stmt:
        if self.instruction is not None:
            row, column = self._warp_at(thread)
            return self.instruction.multiply(
                self.block.target, self.tile, self.sums, self.shared, self.left, self.right, stage, row, column, thread
            )
        row, column = self._thread_at(thread)
        tile = self.tile

        def term(k: ir.Expr) -> Stmt:
            def one(places: list[ir.Expr]) -> Stmt:
                i, j = places
                at = i * tile.own_columns + j
                a = emit.load(self.shared, self.left.place(stage, row + i, k))
                b = emit.load(self.shared, self.right.place(stage, column + j, k))
                return self.sums.store(thread, self.sums.load(thread, at) + a * b, at)

            return emit.unrolled_nest([tile.own_rows, tile.own_columns], one)

        return emit.loop(tile.terms, term, name="term")

    def _thread_at(self, thread: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        across = emit.index(self.tile.columns // self.tile.own_columns)
        return tirx.floordiv(thread, across) * self.tile.own_rows, (thread % across) * self.tile.own_columns

    def _warp_at(self, thread: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        warp = tirx.floordiv(thread, emit.index(32))
        across = emit.index(self.tile.columns // self.tile.own_columns)
        return tirx.floordiv(warp, across) * self.tile.own_rows, (warp % across) * self.tile.own_columns

    def finish(self, thread: ir.Expr, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        def one(places: list[ir.Expr]) -> Stmt:
            (number,) = places
            row, column = self._place_of(thread, number)
            return self._store(
                self.left.first + row, self.right.first + column, self.sums.load(thread, number), stores, needed
            )

        return emit.unrolled_nest([self.count], one)

    def _place_of(self, thread: ir.Expr, number: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        if self.instruction is None:
            row, column = self._thread_at(thread)
            across = emit.index(self.tile.own_columns)
            return row + tirx.floordiv(number, across), column + number % across
        row, column = self._warp_at(thread)
        down, right = self.instruction.place_of(thread % 32, number, self.tile)
        return row + down, column + right

    def _store(self, row: ir.Expr, column: ir.Expr, value: ir.Expr, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        at, tests = dict(self.batch), []
        for side, flat in ((self.left, row), (self.right, column)):
            extents = [axis.extent for axis in side.operand.side]
            at.update(zip((axis.var for axis in side.operand.side), emit.unflatten(flat, extents), strict=True))
            total = emit.volume(extents)
            known = emit.static(total)
            if known is None or known % side.width:
                tests.append(flat < total)
        done = stores_at(stores, needed, at, {self.product.stage.buffer: value})
        return emit.when(tirx.all(*tests), done) if tests else done


def _is_true(value: ir.Expr) -> bool:
    return isinstance(value, tirx.IntImm) and bool(int(value))
