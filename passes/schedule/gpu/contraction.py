"""Contractions (matrix products, convolutions): each block computes one tile of results by way of shared memory.

All have one form, the implicit matrix product (``product.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, indices_of_axes, substitute
from tvtf.passes.schedule.cpu.vector_axis import last_non_unit_axis
from tvtf.passes.schedule.gpu import tensorcore
from tvtf.passes.schedule.gpu.block import Block, ceil_div, launch
from tvtf.passes.schedule.gpu.elementwise import emit_vector, most_lanes
from tvtf.passes.schedule.gpu.epilogue import InRegisters, emit_stages_at
from tvtf.passes.schedule.gpu.product import Contraction, Operand, Tile, TileLayout, volume_of
from tvtf.passes.schedule.gpu.target import GpuTarget
from tvtf.passes.schedule.gpu.tensorcore import Instruction, WarpOperands
from tvtf.passes.schedule.gpu.tiles import instruction_for, tile_of

NEIGHBOURS = 2
"""Accumulators of a thread that are neighbours in a row, in every layout of a warp's accumulators."""


def emit_contraction(
    product: Contraction, stores: Sequence[Stage], needed: set[Var], local: Sequence[Var], target: GpuTarget
) -> Stmt:
    """Emits a matrix product, and the elementwise stages that follow it, as one GPU kernel.

    Args:
      stores: the product's stage and the elementwise stages, in order.
      needed: the buffers to store.
      local: buffers that only this function uses.
    """
    instruction = instruction_for(product, target)
    if instruction is not None:
        # The instruction takes 16-bit operands: their casts to float32 are left out.
        product = instruction.narrowed(product)
    tile = tile_of(product, instruction)
    across, down = ceil_div(product.columns, tile.columns), ceil_div(product.rows, tile.rows)
    extents = [volume_of(product.batch), down, across]

    def emit_block(block: Block) -> Stmt:
        """Emits the work of one block: it computes one tile of the product."""
        batch, row, column = emit.unflatten(block.index, extents)
        batch_indices = indices_of_axes(product.batch, batch)
        first_row = row * tile.rows
        first_column = column * tile.columns
        kernel = _TileKernel(block, product, tile, instruction, batch_indices, first_row, first_column, local)
        return kernel.emit(stores, needed)

    return launch(target, emit.volume(extents), tile.threads, emit_block)


class _TileKernel:
    """Writes the body of one block, which computes one tile of a product by way of shared memory."""

    def __init__(
        self,
        block: Block,
        product: Contraction,
        tile: Tile,
        instruction: Instruction | None,
        batch_indices: AxisIndices,
        row: ir.Expr,
        column: ir.Expr,
        local: Sequence[Var],
    ) -> None:
        """Lays out both operands' tiles in shared memory, and allocates registers for the accumulators of each thread.

        Args:
          batch_indices: the indices of the batch axes.
          row, column: the first row and column of the block's tile.
          local: buffers that only this function uses.
        """
        self.block, self.product, self.tile, self.instruction = block, product, tile, instruction
        self.batch_indices = batch_indices
        left_pad, right_pad = self._padding(product.left), self._padding(product.right)
        is_swizzled = instruction is not None and instruction.is_swizzled
        self.left = TileLayout(product.left, row, tile.rows, tile, 0, left_pad, is_swizzled, local)
        self.right = TileLayout(
            product.right, column, tile.columns, tile, self.left.stop, right_pad, is_swizzled, local
        )
        dtype = instruction.shared_type(block.target) if instruction else product.left.dtype
        self.shared = block.shared([self.right.stop], dtype, f"tiles_{dtype}", large=True)
        self.accumulators = block.registers([tile.accumulators], product.stage.dtype, "sums")

    def _padding(self, operand: Operand) -> int:
        """Returns the elements to add to a tile's lines, which puts neighbouring lines into different banks."""
        if self.instruction is not None:
            return self.instruction.pad(operand.runs_along_terms)
        return 1 if operand.runs_along_terms else 4

    def emit(self, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        """Emits the work of a block.

        The accumulators are initialized, a loop over tiles of terms adds the products, and the results are stored. Each
        element in shared memory is read by many threads, but loaded from global memory once.
        """
        block = self.block
        only_stage = emit.index(0)

        def clear_accumulators(thread: ir.Expr) -> Stmt:
            init = self.product.stage.init
            return emit.loop(self.tile.accumulators, lambda i: self.accumulators.store(thread, init, i))

        def add_products(step: ir.Expr) -> Stmt:
            """Emits one iteration without a software pipeline: copies two tiles to shared memory, then multiplies them."""
            copy = block.for_each_thread(lambda thread: self.copy_tiles(thread, step, only_stage))
            multiply = block.for_each_thread(lambda thread: self.multiply_tiles(thread, only_stage))
            return block.with_barriers(copy, multiply)

        steps = ceil_div(self.product.terms, self.tile.terms)
        clear = block.for_each_thread(clear_accumulators)
        store = block.for_each_thread(lambda thread: self.store_results(thread, stores, needed))
        if self.instruction is None:
            main = block.loop(steps, add_products)
        else:
            main = self.emit_pipelined_loop(steps, self.instruction)
        return emit.sequence([clear, main, store])

    def emit_pipelined_loop(self, steps: int | ir.Expr, instruction: Instruction) -> Stmt:
        """Emits the software-pipelined loop over tiles of terms: later tiles are prefetched while one is multiplied.

        Shared memory holds ``tile.stages`` tiles of each operand (pipeline stages), which are filled in turn. The prologue
        fills all stages but one. While an iteration multiplies the tiles of one stage, it fills another stage.

        Args:
          steps: the number of tiles of terms.
          instruction: the instruction of the tensor cores that multiplies tiles.
        """
        prefetch_distance = self.tile.stages - 1

        def fill_stage(stage: int) -> Stmt:
            """Emits the copy of the first tiles to one stage."""
            return self.block.for_each_thread(
                lambda thread: self.copy_tiles_if_needed(thread, emit.index(stage), steps)
            )

        def iteration(step: ir.Expr) -> Stmt:
            """Emits one iteration of the loop."""
            return self._pipelined_iteration(step, steps, prefetch_distance, instruction)

        prologue = [fill_stage(stage) for stage in range(prefetch_distance)]
        main_loop = emit.loop(steps, iteration, name="step")
        return emit.sequence([*prologue, main_loop])

    def _pipelined_iteration(
        self, step: ir.Expr, steps: int | ir.Expr, prefetch_distance: int, instruction: Instruction
    ) -> Stmt:
        """Emits one iteration of the software pipeline, which prefetches tiles of a later one while it multiplies its own.

        Args:
          step: the iteration.
          steps: the number of iterations.
          prefetch_distance: how many iterations later the prefetched tiles are multiplied.
          instruction: the instruction of the tensor cores.
        """
        block = self.block

        def wait_for_tiles(_thread: ir.Expr) -> Stmt | None:
            # All groups of copies but the oldest may still be in flight.
            return instruction.wait_for_copies(block.target, prefetch_distance - 1)

        def prefetch_and_multiply(thread: ir.Expr) -> Stmt:
            """Emits a thread's part of an iteration: the copy of a later tile, and the product of the current one."""
            prefetch = self.copy_tiles_if_needed(thread, step + prefetch_distance, steps)
            multiply = self.multiply_tiles(thread, step % self.tile.stages)
            if not instruction.is_asynchronous:
                return emit.sequence([prefetch, multiply])
            # Wait for the asynchronous product: the next iteration overwrites the shared-memory tiles that it reads.
            wait_for_product = instruction.wait_for_product(block.target, self.accumulators)
            return emit.sequence([multiply, prefetch, wait_for_product])

        return block.with_barriers(block.for_each_thread(wait_for_tiles), block.for_each_thread(prefetch_and_multiply))

    def copy_tiles_if_needed(self, thread: ir.Expr, step: ir.Expr, steps: int | ir.Expr) -> Stmt:
        """Emits a prefetch of both operands' tiles of a step to shared memory, unless the step is beyond the last."""
        copies = emit.when(step < steps, self.copy_tiles(thread, step, emit.simplified(step % self.tile.stages)))
        # A step beyond the last commits an empty group, because `wait_for_copies` counts groups.
        return emit.sequence([copies, tensorcore.commit(self.block.target)])

    def copy_tiles(self, thread: ir.Expr, step: ir.Expr, stage: ir.Expr) -> Stmt:
        """Emits a copy of both operands' tiles of a step to shared memory."""
        return emit.sequence([self._copy_tile(layout, thread, step, stage) for layout in (self.left, self.right)])

    def _copy_tile(self, layout: TileLayout, thread: ir.Expr, step: ir.Expr, stage: ir.Expr) -> Stmt:
        """Emits a copy of one operand's tile to shared memory, in which all threads of the block take part.

        A thread copies one element or vector per round. Neighbouring threads copy neighbours in memory.

        Args:
          layout: the operand, and the layout of its tiles in shared memory.
          thread: the thread's index in the block.
          step: the iteration of the loop over tiles of terms.
          stage: the pipeline stage to fill.
        """
        width = layout.vector_width if layout.copies_vectors else 1
        count = layout.line_count * layout.line_length // width
        rounds = emit.ceil_div(count, self.tile.threads)

        def copy_one(copy_round: ir.Expr) -> Stmt:
            """Emits a thread's copy of one vector (or element) in one round; the last round may have fewer vectors."""
            index = copy_round * self.tile.threads + thread
            row_or_column, term = layout.position_of(index, width)
            # The asynchronous copy of a vector itself permutes the vectors (swizzling).
            is_permuted_by_copy = width > 1 and not self.block.target.emulated
            indices_of = layout.indices_before_swizzling if is_permuted_by_copy else layout.indices_of
            indices = indices_of(stage, row_or_column, term)
            term_of_operand = step * self.tile.terms + term
            stmt = self._copy_element(layout, row_or_column, term_of_operand, indices, width)
            return stmt if count % self.tile.threads == 0 else emit.when(index < count, stmt)

        return emit.loop(rounds, copy_one, name="turn")

    def _copy_element(
        self, layout: TileLayout, row_or_column: ir.Expr, term: ir.Expr, indices: list[ir.Expr], width: int
    ) -> Stmt:
        """Emits a copy of one element or vector of an operand to shared memory.

        Zeros replace elements outside the operand. A vector is copied by an asynchronous instruction, which itself
        fills with zeros.

        Args:
          row_or_column, term: the position in the operand's tile of the row or column, and the term.
          indices: the position in shared memory.
          width: the number of elements.
        """
        axis_indices, inside = self._indices_of_element(layout, layout.first + row_or_column, term)
        if width == 1 or self.instruction is None:
            value = substitute(layout.operand.value, axis_indices)
            if self.instruction is not None:
                value = self.instruction.shared_value(value, self.block.target)
            if not _is_true(inside):
                value = tirx.if_then_else(inside, value, tirx.const(0, str(self.shared.ty.dtype.dtype)))
            return emit.store(self.shared, value, indices)
        load = substitute(layout.operand.load, axis_indices)
        if layout.operand.is_guarded:
            # The operand's value is `if_then_else(condition, load, 0)`.
            inside = tirx.all(inside, substitute(layout.operand.value.args[0], axis_indices))
        return self.instruction.copy_vector(self.block.target, self.shared, indices, load, inside, width)

    def _indices_of_element(
        self, layout: TileLayout, row_or_column: ir.Expr, term: ir.Expr
    ) -> tuple[AxisIndices, ir.Expr]:
        """Returns the indices of an operand's element, by axis variable, and the condition that the element is inside.

        Args:
          layout: the operand, and the layout of its tiles.
          row_or_column: the flat position along the operand's own axes.
          term: the flat position along the summed axes.
        """
        operand = layout.operand
        own_indices = indices_of_axes(operand.free_axes, row_or_column)
        term_indices = indices_of_axes(operand.reduction_axes, term)
        checks = [
            *_bounds_check(operand.free_axes, row_or_column, layout.width),
            *_bounds_check(operand.reduction_axes, term, self.tile.terms),
        ]
        is_inside = tirx.all(*checks) if checks else tirx.const(True, "bool")
        return {**self.batch_indices, **own_indices, **term_indices}, is_inside

    def multiply_tiles(self, thread: ir.Expr, stage: ir.Expr) -> Stmt:
        """Emits the product of two tiles in shared memory, by a tensor-core instruction or element by element.

        Args:
          thread: the thread's index in the block.
          stage: the pipeline stage whose tiles are multiplied.
        """
        if self.instruction is None:
            return self._multiply_by_element(thread, stage)
        row, column = self._origin_of_warp(thread)
        operands = WarpOperands(self.shared, self.left, self.right, stage, row, column, thread)
        return self.instruction.multiply(self.block.target, self.tile, self.accumulators, operands)

    def _multiply_by_element(self, thread: ir.Expr, stage: ir.Expr) -> Stmt:
        """Emits a thread's part of the product of two tiles, without tensor cores: a sum of outer products over the terms.

        A column of m and a row of n elements give m * n products for m + n loads.
        """
        row, column = self._origin_of_thread(thread)
        tile = self.tile

        def add_outer_product(term: ir.Expr) -> Stmt:
            """Emits the addition of one term to all accumulators of a thread."""

            def add_product(indices: list[ir.Expr]) -> Stmt:
                """Emits the addition of one product to one accumulator."""
                row_of_thread, column_of_thread = indices
                index = row_of_thread * tile.own_columns + column_of_thread
                left = emit.load(self.shared, self.left.indices_of(stage, row + row_of_thread, term))
                right = emit.load(self.shared, self.right.indices_of(stage, column + column_of_thread, term))
                accumulated = self.accumulators.load(thread, index) + left * right
                return self.accumulators.store(thread, accumulated, index)

            return emit.unrolled_nest([tile.own_rows, tile.own_columns], add_product)

        return emit.loop(tile.terms, add_outer_product, name="term")

    def _origin_of_thread(self, thread: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the first row and column that a thread computes in the tile."""
        threads_across = emit.index(self.tile.columns // self.tile.own_columns)
        row = tirx.floordiv(thread, threads_across)
        column = thread % threads_across
        return row * self.tile.own_rows, column * self.tile.own_columns

    def _origin_of_warp(self, thread: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the first row and column that a thread's warp computes in the tile."""
        warp = tirx.floordiv(thread, emit.index(32))
        warps_across = emit.index(self.tile.columns // self.tile.own_columns)
        return tirx.floordiv(warp, warps_across) * self.tile.own_rows, (warp % warps_across) * self.tile.own_columns

    def store_results(self, thread: ir.Expr, stores: Sequence[Stage], needed: set[Var]) -> Stmt:
        """Emits the elementwise stages that follow the product (its epilogue) on a thread's accumulators, and their stores.

        The loop over the accumulators is unrolled: only registers with constant indices stay in registers.

        Args:
          thread: the thread's index in the block.
          stores: the product's stage and the elementwise stages, in order.
          needed: the buffers to store.
        """
        lanes = self._lane_count(stores, needed)

        def store_vector(indices: list[ir.Expr]) -> Stmt:
            """Emits the epilogue of the accumulators that are stored as one vector."""
            (vector,) = indices
            first = emit.simplified(vector * lanes)
            row_in_tile, column_in_tile = self._position_of_accumulator(thread, first)
            row = self.left.first + row_in_tile
            column = self.right.first + column_in_tile
            return self._store_results(row, column, thread, first, lanes, stores, needed)

        return emit.unrolled_nest([self.tile.accumulators // lanes], store_vector)

    def _lane_count(self, stores: Sequence[Stage], needed: set[Var]) -> int:
        """Returns how many results a thread stores at once: 2 if they are neighbours in memory, else 1.

        They must be neighbours in all buffers that the epilogue loads or stores, and the number of columns must be
        even.
        """
        axis = self._last_column_axis
        if axis is None or axis.size is None or axis.size % NEIGHBOURS:
            return 1
        # All stages have the same axes. The last one is contiguous.
        if last_non_unit_axis(stores[0].spatial) is not axis:
            return 1
        epilogue_stages = [stage for stage in stores if stage is not self.product.stage]
        # The product's own stage stores results, but its operands were loaded before.
        product_without_loads = replace(self.product.stage, value=self.product.stage.init)
        lanes = most_lanes([product_without_loads, *epilogue_stages], needed, axis)
        return NEIGHBOURS if lanes >= NEIGHBOURS else 1

    @property
    def _last_column_axis(self) -> Axis | None:
        return last_non_unit_axis(self.product.right.free_axes)

    def _position_of_accumulator(self, thread: ir.Expr, index: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the row and column in the block's tile of one of a thread's accumulators.

        With tensor cores, the instruction defines which results a thread accumulates.

        Args:
          thread: the thread's index in the block.
          index: the accumulator's index in the thread.
        """
        if self.instruction is None:
            row, column = self._origin_of_thread(thread)
            columns = emit.index(self.tile.own_columns)
            return row + tirx.floordiv(index, columns), column + index % columns
        row, column = self._origin_of_warp(thread)
        # A warp has 32 threads.
        row_in_warp, column_in_warp = self.instruction.position_in_warp(thread % 32, index, self.tile)
        return row + row_in_warp, column + column_in_warp

    def _store_results(
        self,
        row: ir.Expr,
        column: ir.Expr,
        thread: ir.Expr,
        first: ir.Expr,
        lanes: int,
        stores: Sequence[Stage],
        needed: set[Var],
    ) -> Stmt:
        """Emits the elementwise stages that follow the product, for one result of the product or for neighbouring ones.

        Their results are stored if they are in ``needed``. Nothing is stored for a result outside the product's bounds.

        Args:
          row, column: the position of the first result in the product.
          first: the index of the first accumulator in the thread.
          lanes: how many results there are.
          stores: the stages.
          needed: the buffers to store.
        """
        axis_indices = dict(self.batch_indices)
        checks = []
        for layout, position in ((self.left, row), (self.right, column)):
            axis_indices |= indices_of_axes(layout.operand.free_axes, position)
            checks += _bounds_check(layout.operand.free_axes, position, layout.width)

        def accumulators_at(lane: ir.Expr) -> InRegisters:
            return {self.product.stage.buffer: self.accumulators.load(thread, first + lane)}

        axis = self._last_column_axis
        if lanes == 1 or axis is None:
            stmt = emit_stages_at(stores, needed, axis_indices, accumulators_at(emit.index(0)))
        else:

            def indices_of_lane(lane: ir.Expr) -> AxisIndices:
                return {**axis_indices, axis.var: axis_indices[axis.var] + lane}

            stmt = emit_vector(stores, needed, axis, indices_of_lane, lanes, accumulators_at)
        return emit.when(tirx.all(*checks), stmt) if checks else stmt


def _bounds_check(axes: Sequence[Axis], flat_index: ir.Expr, tile_size: int) -> list[ir.Expr]:
    """Returns the condition that a flat index over axes is within them, as a list; empty if tiles end where the axes do."""
    total = emit.volume([axis.extent for axis in axes])
    static_total = emit.static(total)
    if static_total is not None and static_total % tile_size == 0:
        return []
    return [flat_index < total]


def _is_true(value: ir.Expr) -> bool:
    return isinstance(value, tirx.IntImm) and bool(int(value))
