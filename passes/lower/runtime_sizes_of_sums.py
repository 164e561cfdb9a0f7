"""Passes sizes at run time to kernels that sum matrices along their columns, as `runtime_sizes` does to elementwise ones.

Batch normalization has three such sums for each convolution: of the mean, the variance and the gradients. They are
written as two sums here: blocks of rows are summed, in parallel, then the sums of the blocks. A block has a constant
number of rows, and a step along a row a constant number of columns, so that the register tiles are the same for all
sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import PrimFunc, Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.lower.size_parameters import (
    Matrices,
    SizedKernel,
    analyzer_of,
    buffers_of,
    cycles_of,
    element_counts_of,
    keeps_cores_busy,
    loop_nest,
    new_buffer,
    new_buffers,
    sized_kernel,
)
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine, combiner
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Stage, substitute
from tvtf.passes.schedule.cpu.parallel_threshold import MIN_PARALLEL_CYCLES, MIN_PARALLEL_CYCLES_OF_TILES
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import has_reused_operand

VECTORS_PER_STEP = (4, 3, 5, 2)
"""Numbers of vectors summed per step, the best first: each vector has an accumulator, and four hide the latency of additions."""
ROWS_PER_BLOCK = (256, 64, 16)
MAX_BLOCK_BYTES = 256 << 10
"""The reach of the first-level TLB (64 pages of 4 KiB): the steps along a block's rows read all of its pages repeatedly."""
REORDERABLE = (tirx.Max, tirx.Min, tirx.And, tirx.Or)
MAX_SUMS = 4
"""Maximum number of reductions of the same rows, such as of a gradient and of its product with another tensor."""


@dataclass(frozen=True)
class _ColumnSums:
    """A kernel of column reductions, with an elementwise prologue and epilogue.

    The prologue computes what is reduced over all rows (``sums``); the epilogue computes rows from the results.
    ``sum_axis`` is the axis over the reductions, if the kernel computes several of the same rows.
    """

    prologue: Sequence[Stage]
    sums: Stage
    combine: Combine
    epilogue: Sequence[Stage]
    sum_axis: Axis | None
    matrices: Matrices

    @property
    def count(self) -> int:
        """The number of reductions."""
        return 1 if self.sum_axis is None else self.sum_axis.size or 1


def sum_with_sizes(func: PrimFunc, kernel: Kernel, target: CpuTarget) -> SizedKernel | None:
    """Rewrites a kernel of column sums to take its sizes as parameters, so that it is compiled once for all sizes.

    Returns None if the kernel has another form, or if no constant block of rows and step of columns divide its sizes.
    """
    column_sums = _as_column_sums(kernel)
    if column_sums is None:
        return None
    known_buffers = {*column_sums.matrices.element_counts, column_sums.sums.buffer}
    if set(buffers_of(func, kernel)) != known_buffers:
        return None
    rows, columns = column_sums.matrices.rows, column_sums.matrices.columns
    row_bytes = columns * column_sums.sums.item_bytes
    lanes = target.lanes(column_sums.sums.item_bytes)
    # The best that divide the sizes come first.
    step_sizes = [vectors * lanes for vectors in VECTORS_PER_STEP if columns % (vectors * lanes) == 0]
    block_sizes = [size for size in ROWS_PER_BLOCK if rows % size == 0 and size * row_bytes <= MAX_BLOCK_BYTES]
    if not step_sizes or not block_sizes:
        return None
    step_size, block_size = step_sizes[0], block_sizes[0]
    is_parallel = _runs_in_parallel(kernel, column_sums, target)
    task_count = rows // block_size * (columns // step_size)
    if is_parallel and not keeps_cores_busy(task_count, target):
        return None
    writer = _Writer(func, kernel, column_sums, block_size, step_size)
    sums_of_blocks = [writer.partial] if writer.block_axes else []
    local = [*sums_of_blocks, *(writer.new[buffer] for buffer in kernel.local)]
    return sized_kernel(func, writer.new, writer.nests(), local, writer.sizes, is_parallel)


def _as_column_sums(kernel: Kernel) -> _ColumnSums | None:
    """Interprets a kernel with a single reduction stage as column sums, or returns None for another form.

    Either all axes of the result are columns, or the first axis counts several reductions of the same rows.
    """
    stages = [stage for stage in kernel.stages if isinstance(stage, Stage)]
    position = next(position for position, stage in enumerate(stages) if stage.reduce)
    prologue, sums, epilogue = stages[:position], stages[position], stages[position + 1 :]
    combine = combiner(sums)
    if combine is None or sums.clips or sums.edges or not _is_reorderable(sums, combine):
        return None
    result_axes = [axis for axis in sums.spatial if axis.size != 1]
    if not result_axes:
        return None
    first_axis, *other_axes = result_axes
    # Pairs of the axis that counts reductions, if any, and the axes of the columns.
    interpretations: list[tuple[Axis | None, list[Axis]]] = [(None, result_axes), (first_axis, other_axes)]
    for sum_axis, column_axes in interpretations:
        matrices = _matrices_in(stages, sums, column_axes)
        if matrices is None or (sum_axis is not None and not 2 <= (sum_axis.size or 0) <= MAX_SUMS):
            continue
        column_sums = _ColumnSums(prologue, sums, combine, epilogue, sum_axis, matrices)
        if _is_over_all_rows(column_sums, column_axes) and _is_columnwise(column_sums):
            return column_sums
    return None


def _is_reorderable(sums: Stage, combine: Combine) -> bool:
    """Returns whether the terms of a reduction may be grouped in blocks of rows: for a sum, max, min, any or all.

    The terms of a product may not: if one block's product is zero and another's overflows, the result would be NaN.

    Args:
      sums: the reduction.
      combine: the function that combines two partial results.
    """
    left, right = (tirx.Var(name, sums.dtype) for name in ("left", "right"))
    combined = combine(left, right)
    if isinstance(combined, tirx.Add):
        return isinstance(sums.init, (tirx.FloatImm, tirx.IntImm)) and sums.init.value == 0
    return isinstance(combined, REORDERABLE)


def _matrices_in(stages: Sequence[Stage], sums: Stage, column_axes: Sequence[Axis]) -> Matrices | None:
    """Returns the row and column counts of the stages' tensors except the reduction results, or None if one doesn't fit.

    Each tensor must have ``rows * columns`` elements (a matrix), ``columns`` elements (a row) or one (a scalar).

    Args:
      stages: the stages of the kernel.
      sums: the reduction among them, along the rows.
      column_axes: the axes that are merged to the columns.
    """
    element_counts = element_counts_of(stages)
    rows = access.iteration_count(sums.reduce)
    columns = access.iteration_count(tuple(column_axes))
    if element_counts is None or rows is None or columns is None:
        return None
    if rows < 2 or columns < 2:
        return None
    del element_counts[sums.buffer]
    if not set(element_counts.values()) <= {1, columns, rows * columns}:
        return None
    return Matrices(rows, columns, element_counts)


def _is_over_all_rows(column_sums: _ColumnSums, column_axes: Sequence[Axis]) -> bool:
    """Returns whether the terms of each reduction are the elements of its column, from the first row to the last.

    Args:
      column_sums: the reduction of columns.
      column_axes: the axes over which columns are counted.
    """
    sums, matrices = column_sums.sums, column_sums.matrices
    row_and_column_vars = {axis.var for axis in sums.axes if axis is not column_sums.sum_axis}
    # The value may depend on the index of the reduction, but on rows and columns only by what is loaded.
    if access.free_variables(sums.value) & row_and_column_vars:
        return False
    analyzer = analyzer_of(sums)
    column = _flat_index(column_axes)
    row = _flat_index(sums.reduce)

    def is_in_own_column(load: TensorLoad) -> bool:
        """Returns whether a load reads the element of the row and column of the current term."""
        if load.source.same_as(sums.buffer):  # the value that is accumulated
            return all(index.same_as(axis.var) or axis.size == 1 for index, axis in zip(load.indices, sums.spatial))
        if matrices.element_counts[load.source] == 1:
            return True
        expected = row * matrices.columns + column if matrices.is_matrix(load.source) else column
        position = access.flat_offset(load.source, list(load.indices))
        return bool(analyzer.can_prove_equal(position, expected))

    return all(map(is_in_own_column, sums.loads))


def _flat_index(axes: Sequence[Axis]) -> ir.Expr:
    """Returns the row-major (flat) index of an iteration of nested loops over some axes."""
    flat_index: ir.Expr = emit.index(0)
    for axis in axes:
        flat_index = flat_index * axis.extent + axis.var
    return flat_index


def _is_columnwise(column_sums: _ColumnSums) -> bool:
    """Returns whether the prologue is elementwise and every epilogue stage reads results of its own column only."""
    return all(map(column_sums.matrices.is_aligned_elementwise, column_sums.prologue)) and all(
        _is_epilogue_stage(stage, column_sums) for stage in column_sums.epilogue
    )


def _is_epilogue_stage(stage: Stage, column_sums: _ColumnSums) -> bool:
    """Returns whether an epilogue stage computes a row elementwise, from results of the same column and other rows.

    Only such a stage can be computed for another number of columns, when this becomes a parameter of the kernel.
    """
    matrices = column_sums.matrices
    depends_on_indices = access.free_variables(stage.value) & {axis.var for axis in stage.spatial}
    if not matrices.is_row(stage.buffer) or depends_on_indices:
        return False

    def is_in_own_column(load: TensorLoad) -> bool:
        """Returns whether a load reads an element in the column that the stage stores."""
        if load.source.same_as(column_sums.sums.buffer):
            return _reduction_index(load, stage, column_sums) is not None
        return matrices.is_aligned_load(load, stage)

    return all(map(is_in_own_column, stage.loads))


def _reduction_index(load: TensorLoad, stage: Stage, column_sums: _ColumnSums) -> int | None:
    """Returns the index of the reduction whose result a stage loads at its own column, or None for another load.

    The results of the reductions are the rows of a matrix: that of reduction ``i`` is at ``i * columns + column``.

    Args:
      load: the load.
      stage: the stage that contains it.
      column_sums: the reductions.
    """
    analyzer = analyzer_of(stage)
    offset = access.flat_offset(load.source, list(load.indices))
    column = access.flat_offset(stage.buffer, [axis.var for axis in stage.spatial])
    for reduction_index in range(column_sums.count):
        row_start = reduction_index * column_sums.matrices.columns
        if analyzer.can_prove_equal(offset, column + row_start):
            return reduction_index
    return None


class _Writer:
    """Emits column reductions with sizes as parameters: the number of blocks of rows, and of steps along a row.

    Attributes:
      sizes: the parameters, and their arguments. Without a parameter for the blocks, there is one block.
      new: what replaces each tensor.
      partial: the tensor of the blocks' results; the result itself if there is one block.
    """

    def __init__(self, func: PrimFunc, kernel: Kernel, column_sums: _ColumnSums, block_rows: int, width: int) -> None:
        """Chooses the kernel's axes and parameters, and creates its tensors.

        A row of the matrices has the indices (block, row) with constant ``block_rows``, and a column (step, lane) with
        constant ``width``. The numbers of blocks and steps are the kernel's parameters.
        """
        self.column_sums, self.block_rows = column_sums, block_rows
        sums, matrices = column_sums.sums, column_sums.matrices
        self.blocks, steps = Var("blocks", "int64"), Var("steps", "int64")
        self.sizes = {self.blocks: matrices.rows // block_rows, steps: matrices.columns // width}
        has_one_block = self.sizes[self.blocks] == 1
        if has_one_block:
            del self.sizes[self.blocks]
        block, self.row, step, lane = (Var(name, "int64") for name in ("block", "row", "step", "lane"))
        self.reduction_index = Var("number", "int64")
        self.extents = {
            block: self.blocks,
            self.row: emit.index(block_rows),
            step: steps,
            lane: emit.index(width),
            self.reduction_index: emit.index(column_sums.count),
        }
        self.block_axes = [] if has_one_block else [block]
        self.row_axes = [step, lane]
        self.sum_axes = self.row_axes if column_sums.sum_axis is None else [self.reduction_index, *self.row_axes]
        self.partial_axes = [*self.block_axes, *self.sum_axes]
        self.new = new_buffers(buffers_of(func, kernel), self.axes_of, self.extents)
        self.partial = self.new[sums.buffer]
        if self.block_axes:
            self.partial = new_buffer([self.extents[axis] for axis in self.partial_axes], sums.dtype, "partial")

    def axes_of(self, buffer: Var) -> list[Var]:
        """Returns the axes of the tensor that replaces another one; none for a scalar."""
        if buffer.same_as(self.column_sums.sums.buffer):
            return self.sum_axes
        if self.column_sums.matrices.is_matrix(buffer):
            return [*self.block_axes, self.row, *self.row_axes]
        return self.row_axes if self.column_sums.matrices.is_row(buffer) else []

    def nests(self) -> list[Stmt]:
        """Returns the loop nests of the kernel, in order."""
        column_sums = self.column_sums
        return [
            *(self._elementwise(stage, self._load) for stage in column_sums.prologue),
            *self._sums(),
            *(self._emit_epilogue(stage) for stage in column_sums.epilogue),
        ]

    def _load(self, load: TensorLoad) -> ir.Expr:
        """Returns the load of the same element from the tensor that replaces another one."""
        buffer = self.new[load.source]
        return emit.load(buffer, self.axes_of(load.source) or [emit.index(0)] * len(buffer.ty.shape))

    def _elementwise(self, stage: Stage, new_load: Callable[[TensorLoad], ir.Expr]) -> Stmt:
        value = structural_map(stage.value, (TensorLoad, new_load))
        return loop_nest(self.new[stage.buffer], self.axes_of(stage.buffer), [], self.extents, value)

    def _sums(self) -> list[Stmt]:
        """Returns the nest that reduces each block, and the nest that combines the results if there are several blocks."""
        sums, sum_axis = self.column_sums.sums, self.column_sums.sum_axis
        partial_sum = emit.load(self.partial, self.partial_axes)

        def new_load(load: TensorLoad) -> ir.Expr:
            """Replaces a load of the reduction's result by a load of the block's partial result."""
            return partial_sum if load.source.same_as(sums.buffer) else self._load(load)

        value = structural_map(sums.value, (TensorLoad, new_load))
        if sum_axis is not None:
            value = substitute(value, {sum_axis.var: self.reduction_index})
        reduce_blocks = loop_nest(self.partial, self.partial_axes, [self.row], self.extents, value, sums.init)
        if not self.block_axes:
            return [reduce_blocks]
        result = self.new[sums.buffer]
        combined = self.column_sums.combine(emit.load(result, self.sum_axes), partial_sum)
        combine_blocks = loop_nest(result, self.sum_axes, self.block_axes, self.extents, combined, sums.init)
        return [reduce_blocks, combine_blocks]

    def _emit_epilogue(self, stage: Stage) -> Stmt:
        """Returns the nest of an epilogue stage; the number of rows replaces constants that are equal to it.

        An example of such a constant is the divisor of a mean. Kernels for other numbers of rows then are equal. The
        result is right for any such constant, since each call passes its own number of rows.
        """
        sums, rows = self.column_sums.sums.buffer, self.column_sums.matrices.rows

        def new_load(load: TensorLoad) -> ir.Expr:
            """Replaces a load by a load from the new kernel's buffers."""
            if not load.source.same_as(sums):
                return self._load(load)
            reduction_index = emit.index(_reduction_index(load, stage, self.column_sums) or 0)
            return emit.load(self.new[sums], [reduction_index, *self.row_axes][-len(self.sum_axes) :])

        def new_constant(value: tirx.FloatImm) -> ir.Expr:
            """Replaces a constant that is the number of rows by the parameters that give this number."""
            is_row_count = bool(self.block_axes) and value.value == rows
            return (self.blocks * self.block_rows).astype(str(value.ty.dtype)) if is_row_count else value

        with_count = replace(stage, value=structural_map(stage.value, (tirx.FloatImm, new_constant)))
        return self._elementwise(with_count, new_load)


def _runs_in_parallel(kernel: Kernel, column_sums: _ColumnSums, target: CpuTarget) -> bool:
    """Returns whether `emit_reduction` would run the reductions of the original kernel in parallel."""
    sums = column_sums.sums
    threshold = MIN_PARALLEL_CYCLES_OF_TILES if has_reused_operand(sums) else MIN_PARALLEL_CYCLES
    cycles = cycles_of(kernel, [*column_sums.prologue, sums], target.lanes(sums.item_bytes))
    # Sums that are a result of the kernel count twice, since they are also the stage that stores them.
    return target.cores > 1 and cycles * (1 if kernel.is_local(sums.buffer) else 2) > threshold
