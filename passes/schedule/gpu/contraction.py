"""Contractions (matrix products, convolutions): each block computes one tile of results by way of shared memory.

All have one form, the implicit matrix product (``product.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Stage, substitute
from tvtf.passes.schedule.gpu import tensorcore
from tvtf.passes.schedule.gpu.block import Block, ceil_div, launch
from tvtf.passes.schedule.gpu.epilogue import Point, stores_at
from tvtf.passes.schedule.gpu.product import Contraction, Side, Tile, size_of, volume_of
from tvtf.passes.schedule.gpu.target import GpuTarget
from tvtf.passes.schedule.gpu.tensorcore import Instruction, instruction_for

BLOCKS_THAT_FILL = 128
"""Blocks that occupy the GPU; smaller tiles are used to get that many."""


LARGE, MIDDLE, SMALL = (128, 128, 64, 32), (64, 64, 32, 32), (32, 32, 16, 16)
"""Rows and columns of a block's tile, then of a warp's part of it."""


def tile_of(product: Contraction, instruction: Instruction | None) -> Tile:
    """Returns the largest tile of which there are enough to fill the GPU."""
    if instruction is None:
        return Tile(64, 64, 16, 4, 4, False, 1)
    # A sum shorter than the widest tile gets a tile of one instruction's terms; wider ones would be mostly zeros.
    terms = min(
        instruction.widest,
        max(instruction.terms, size_of(product.stage.reduce) // instruction.terms * instruction.terms),
    )
    terms = instruction.widest if terms not in (instruction.terms, instruction.widest) else terms
    chosen = next((sizes for sizes in (LARGE, MIDDLE) if _fills(product, sizes)), SMALL)
    rows, columns, own_rows, own_columns = chosen
    return Tile(rows, columns, terms, own_rows, own_columns, True, 3)


def tile_for(product: Contraction, target: GpuTarget) -> Tile:
    """Returns the tile of a product's kernel."""
    return tile_of(product, instruction_for(product, target))


def blocks_of(product: Contraction, target: GpuTarget) -> int | None:
    """Returns the number of blocks of a product's kernel, or None if it isn't static."""
    tile = tile_for(product, target)
    known = [emit.static(size) for size in (volume_of(product.batch), product.rows, product.columns)]
    batch, rows, columns = known
    if batch is None or rows is None or columns is None:
        return None
    return batch * -(-rows // tile.rows) * -(-columns // tile.columns)


def _fills(product: Contraction, sizes: tuple[int, int, int, int]) -> bool:
    """Returns whether a tile of these sizes is no larger than the product; the largest must also fill the GPU."""
    rows, columns = size_of(product.left.side), size_of(product.right.side)
    if rows < sizes[0] or columns < sizes[1]:
        return False
    blocks = -(-rows // sizes[0]) * -(-columns // sizes[1]) * size_of(product.batch)
    return blocks >= BLOCKS_THAT_FILL or sizes is not LARGE


def emit_contraction(
    product: Contraction, stores: Sequence[Stage], needed: set[Var], local: Sequence[Var], target: GpuTarget
) -> Stmt:
    """Writes a product and the stages that finish its results as one kernel."""
    instruction = instruction_for(product, target)
    if instruction is not None:
        # The instruction takes halves, so that their cast to float32 is left out.
        product = instruction.narrowed(product)
    tile = tile_of(product, instruction)
    across, down = ceil_div(product.columns, tile.columns), ceil_div(product.rows, tile.rows)
    extents = [volume_of(product.batch), down, across]

    def body(block: Block) -> Stmt:
        """Computes one tile of the product in a block of threads."""
        batch, row, column = emit.unflatten(block.number, extents)
        at = dict(
            zip((a.var for a in product.batch), emit.unflatten(batch, [a.extent for a in product.batch]), strict=True)
        )
        return _Tiled(block, product, tile, instruction, at, row * tile.rows, column * tile.columns, local).write(
            stores, needed
        )

    return launch(target, emit.volume(extents), tile.threads, body)


class _Tiled:
    """Writes the body of one block."""

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
        # Padding puts neighbouring lines of a tile into different banks of shared memory.
        pads = [
            instruction.pad(o.runs_along_terms) if instruction else (1 if o.runs_along_terms else 4)
            for o in (product.left, product.right)
        ]
        self.left = Side(product.left, row, tile.rows, tile, 0, pads[0], local)
        self.right = Side(product.right, column, tile.columns, tile, self.left.stop, pads[1], local)
        dtype = instruction.shared_type(block.target) if instruction else product.left.dtype
        self.shared = block.shared([self.right.stop], dtype, f"tiles_{dtype}", large=True)
        count = tile.own_rows * tile.own_columns // (32 if tile.warps else 1)
        self.sums = block.registers([count], product.stage.dtype, "sums")
        self.count = count

    def write(self, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        """Writes the block: clear the sums, loop over tiles of terms, finish the results."""
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
        """Returns the pipelined loop: later steps' tiles are being copied while one is multiplied."""
        # One buffer is being multiplied, so all others can be filled.
        ahead = self.tile.stages - 1

        def prologue(stage: int) -> Stmt:
            return self.block.each(lambda t: self.fetch_if(t, emit.index(stage), steps))

        def step(number: ir.Expr) -> Stmt:
            """Writes one step of the software pipeline: fetches a later slice while the present one is multiplied."""
            # All copies but the oldest may still be under way.
            wait = self.block.each(lambda _: tensorcore.wait(self.block.target, ahead - 1))

            def work(thread: ir.Expr) -> Stmt:
                later = self.fetch_if(thread, number + ahead, steps)
                return emit.sequence([later, self.multiply(thread, number % self.tile.stages)])

            return self.block.then(wait, self.block.each(work))

        return emit.sequence([*map(prologue, range(ahead)), emit.loop(steps, step, name="step")])

    def fetch_if(self, thread: ir.Expr, step: ir.Expr, steps: int | ir.Expr) -> Stmt:
        """Copies both operands' tiles of a step, if there is such a step."""
        fetched = emit.when(step < steps, self.fetch(thread, step, emit.simplified(step % self.tile.stages)))
        # A step beyond the last commits an empty group, because `wait` counts groups.
        return emit.sequence([fetched, tensorcore.commit(self.block.target)])

    def fetch(self, thread: ir.Expr, step: ir.Expr, stage: ir.Expr) -> Stmt:
        """Copies both operands' tiles of a step to shared memory."""
        return emit.sequence([self._fetch_side(side, thread, step, stage) for side in (self.left, self.right)])

    def _fetch_side(self, side: Side, thread: ir.Expr, step: ir.Expr, stage: ir.Expr) -> Stmt:
        """Copies one operand's tile to shared memory, elements or vectors spread over the threads.

        Neighbouring threads copy neighbours in memory.
        """
        width = side.chunk if side.moves else 1
        numbers = side.slow * side.fast // width
        rounds = -(-numbers // self.tile.threads)

        def one(round_number: ir.Expr) -> Stmt:
            number = round_number * self.tile.threads + thread
            where, term = side.split(number, width)
            to = side.place(stage, where, term)
            stmt = self._move(side, where, step * self.tile.terms + term, to, width)
            return stmt if numbers % self.tile.threads == 0 else emit.when(number < numbers, stmt)

        return emit.loop(rounds, one, name="turn")

    def _move(self, side: Side, where: ir.Expr, term: ir.Expr, to: list[ir.Expr], width: int) -> Stmt:
        """Copies one element or vector of an operand, zeros where it is outside.

        Vectors are copied asynchronously, past the registers, by an instruction that fills with zeros itself.
        """
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

    def _element(self, side: Side, where: ir.Expr, term: ir.Expr) -> tuple[Point, ir.Expr]:
        """Returns the axes' values of an element, and whether it is inside."""
        at = dict(self.batch)
        tests = []
        for axes, flat, piece in ((side.operand.side, where, side.width), (side.operand.terms, term, self.tile.terms)):
            extents = [axis.extent for axis in axes]
            at.update(zip((axis.var for axis in axes), emit.unflatten(flat, extents), strict=True))
            total = emit.volume(extents)
            known = emit.static(total)
            # Whole tiles need no bounds test.
            if known is None or known % piece:
                tests.append(flat < total)
        return at, tirx.all(*tests) if tests else tirx.const(True, "bool")

    def multiply(self, thread: ir.Expr, stage: ir.Expr) -> Stmt:
        """Multiplies the tiles in shared memory: by the warp's instruction, else element by element."""
        if self.instruction is not None:
            row, column = self._warp_at(thread)
            return self.instruction.multiply(
                self.block.target, self.tile, self.sums, self.shared, self.left, self.right, stage, row, column, thread
            )
        row, column = self._thread_at(thread)
        tile = self.tile

        def term(k: ir.Expr) -> Stmt:
            """Adds the product of a column and a row to the thread's part of the tile, which is in registers."""

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
        """Stores a thread's results, with the epilogue.

        The loop is unrolled, so that the sums, which are indexed by its variable, stay in registers.
        """

        def one(places: list[ir.Expr]) -> Stmt:
            (number,) = places
            row, column = self._place_of(thread, number)
            return self._store(
                self.left.first + row, self.right.first + column, self.sums.load(thread, number), stores, needed
            )

        return emit.unrolled_nest([self.count], one)

    def _place_of(self, thread: ir.Expr, number: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the row and column in the block's tile of a thread's sum."""
        if self.instruction is None:
            row, column = self._thread_at(thread)
            across = emit.index(self.tile.own_columns)
            return row + tirx.floordiv(number, across), column + number % across
        row, column = self._warp_at(thread)
        down, right = self.instruction.place_of(thread % 32, number, self.tile)
        return row + down, column + right

    def _store(self, row: ir.Expr, column: ir.Expr, value: ir.Expr, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        """Stores one result with the epilogue, if it is inside."""
        at, tests = dict(self.batch), []
        for side, flat in ((self.left, row), (self.right, column)):
            extents = [axis.extent for axis in side.operand.side]
            at.update(zip((axis.var for axis in side.operand.side), emit.unflatten(flat, extents), strict=True))
            total = emit.volume(extents)
            known = emit.static(total)
            # Whole tiles need no bounds test.
            if known is None or known % side.width:
                tests.append(flat < total)
        stmt = stores_at(stores, needed, at, {self.product.stage.buffer: value})
        return emit.when(tirx.all(*tests), stmt) if tests else stmt


def _is_true(value: ir.Expr) -> bool:
    return isinstance(value, tirx.IntImm) and bool(int(value))
