"""What the rewrites of `runtime_sizes` share: kernels with sizes as parameters, and tensors read as matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferStore, For, IterVar, PrimFunc, Stmt, Var
from tvm.tirx.buffer import is_buffer_var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import MIN_TASKS_PER_CORE
from tvtf.passes.schedule.cpu.kernel import Kernel, Stage, substitute
from tvtf.passes.schedule.cpu.parallel_threshold import CYCLES_PER_LOADED_VECTOR, PARALLEL_SIZES
from tvtf.passes.schedule.cpu.target import CpuTarget


@dataclass(frozen=True)
class SizedKernel:
    """A kernel with sizes as its last parameters, and the arguments for them that make it the original kernel."""

    func: PrimFunc
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Matrices:
    """A reading of a kernel's tensors as matrices of ``rows`` times ``columns`` elements, rows of them, or scalars.

    ``element_counts`` has the number of elements of each tensor.
    """

    rows: int
    columns: int
    element_counts: Mapping[Var, int]

    def is_matrix(self, buffer: Var) -> bool:
        return self.element_counts[buffer] == self.rows * self.columns

    def is_row(self, buffer: Var) -> bool:
        return self.element_counts[buffer] == self.columns < self.rows * self.columns

    def is_aligned_elementwise(self, stage: Stage) -> bool:
        """Returns whether a stage is elementwise over rows and columns: all its loads are aligned with its store.

        It reads matrices at its own row and column, rows at its own column, and scalars.
        """
        if not self.is_matrix(stage.buffer) and not self.is_row(stage.buffer):
            return False
        stores_complete_tensor = access.iteration_count(stage.spatial) == self.element_counts[stage.buffer]
        depends_on_indices = access.free_variables(stage.value) & {axis.var for axis in stage.spatial}
        if not stores_complete_tensor or depends_on_indices:
            return False
        return all(self.is_aligned_load(load, stage) for load in stage.loads)

    def is_aligned_load(self, load: TensorLoad, stage: Stage) -> bool:
        """Returns whether a stage loads an element in the row and column of the element that it stores.

        A scalar may be loaded by every stage, and a row at its column. A stage that stores a row can't load from a
        matrix, since it has no row number.
        """
        if self.element_counts[load.source] == 1:
            return True
        if self.is_matrix(load.source) and not self.is_matrix(stage.buffer):
            return False
        # Most loads have the stage's own axes as indices, which needs no proof.
        if _has_axes_as_indices(load, stage):
            return True
        stored_offset = access.flat_offset(stage.buffer, [axis.var for axis in stage.spatial])
        expected = (
            stored_offset if self.is_matrix(load.source) else tirx.floormod(stored_offset, emit.index(self.columns))
        )
        loaded_offset = access.flat_offset(load.source, list(load.indices))
        return bool(analyzer_of(stage).can_prove_equal(loaded_offset, expected))


def _has_axes_as_indices(load: TensorLoad, stage: Stage) -> bool:
    """Returns whether the indices of a load are the last axes of its stage, in order; extents of 1 don't count.

    Comparing variables is much quicker than a proof by TVM's analyzer.
    """
    extents = [emit.static(extent) for extent in load.source.ty.shape]
    indices = [(index, extent) for index, extent in zip(load.indices, extents, strict=True) if extent != 1]
    last_axes = [axis for axis in stage.spatial if axis.size != 1][-len(indices) :]
    if len(last_axes) != len(indices):
        return False
    pairs = zip(indices, last_axes, strict=True)
    return all(extent == axis.size and index.same_as(axis.var) for (index, extent), axis in pairs)


def matrices_of(element_counts: Mapping[Var, int]) -> Matrices | None:
    """Returns the numbers of rows and columns of tensors, given their element counts.

    The largest tensors are matrices, and all others must be rows or scalars; returns None if they aren't. For example,
    the counts 12, 4 and 1 are those of a matrix of 3 rows and 4 columns, of a row, and of a scalar.
    """
    distinct_counts = set(element_counts.values())
    largest = max(distinct_counts, default=0)
    counts_of_rows = distinct_counts - {1, largest}
    # If there are no rows, each matrix counts as a single row.
    columns = min(counts_of_rows, default=largest)
    if len(counts_of_rows) > 1 or 0 in distinct_counts or largest % columns:
        return None
    return Matrices(largest // columns, columns, element_counts)


def element_counts_of(stages: Sequence[Stage]) -> dict[Var, int] | None:
    """Returns the number of elements of each tensor that stages read or write, or None if one isn't static."""
    buffers = {buffer for stage in stages for buffer in (stage.buffer, *(load.source for load in stage.loads))}
    shapes = {buffer: [emit.static(extent) for extent in buffer.ty.shape] for buffer in buffers}
    if any(None in shape for shape in shapes.values()):
        return None
    return {buffer: prod(size or 0 for size in shape) for buffer, shape in shapes.items()}


def buffers_of(func: PrimFunc, kernel: Kernel) -> list[Var]:
    """Returns the tensors that are a kernel's parameters, then those that exist only inside of it."""
    return [*filter(is_buffer_var, func.params), *kernel.local]


def new_buffers(
    buffers: Sequence[Var], axes_of: Callable[[Var], Sequence[Var]], extents: Mapping[Var, ir.Expr]
) -> dict[Var, Var]:
    """Returns a new tensor for each of ``buffers``, with the extents of the given axes, or the same shape if it has no axes.

    Their names are the same for all kernels, since names are parts of the keys in the cache.

    Args:
      buffers: the tensors to replace.
      axes_of: returns the axes of the tensor that replaces another one.
      extents: the extent of each axis.
    """
    replacements: dict[Var, Var] = {}
    for position, buffer in enumerate(buffers):
        shape = [extents[axis] for axis in axes_of(buffer)] or list(buffer.ty.shape)
        replacements[buffer] = new_buffer(shape, str(buffer.ty.dtype.dtype), f"b{position}")
    return replacements


def new_buffer(shape: Sequence[ir.Expr], dtype: str, name: str) -> Var:
    """Declares a tensor without TVM's layout object, the construction of which takes as long as that of the tensor."""
    return tirx.decl_buffer(list(shape), dtype, name, layout=None)


def analyzer_of(stage: Stage) -> sym.Analyzer:
    """Returns an analyzer that knows the range of each axis of a stage."""
    analyzer = sym.Analyzer()
    for axis in stage.axes:
        analyzer.bind(axis.var, ir.Range(emit.index(0), axis.extent))
    return analyzer


def cycles_of(kernel: Kernel, stages: Sequence[Stage], lanes: int) -> int:
    """Estimates the cycles that one core needs for several stages that are computed in one loop.

    Values that one stage passes to another are assumed to be in registers. The estimate is 0 if the number of
    iterations is unknown. The cost model is that of `parallel_threshold.stage_cycles`.

    Args:
      kernel: the kernel of the stages.
      stages: the loop nests.
      lanes: the number of elements of a vector.
    """
    iterations = max((access.iteration_count(stage.axes) or 0 for stage in stages), default=0)
    operations = sum(access.operations(stage.value) for stage in stages)
    loads_from_memory = 0
    for stage in stages:
        for load in stage.loads:
            is_accumulated = load.source.same_as(stage.buffer)
            if is_accumulated or not kernel.is_local(load.source):
                loads_from_memory += 1
    cycles_per_vector = operations + CYCLES_PER_LOADED_VECTOR * loads_from_memory
    return iterations * cycles_per_vector // lanes


def loop_nest(buffer: Var, spatial: Sequence[Var], reduce: Sequence[Var], extents: Mapping[Var, ir.Expr], value: ir.Expr,
              init: ir.Expr | None = None) -> Stmt:  # fmt: skip
    """Returns the loop nest that computes a value in each iteration of some axes, and reduces it along others.

    Args:
      buffer: the tensor in which the value is stored at the indices ``spatial``.
      spatial: the axes of the result.
      reduce: the axes along which the value, which contains a load of the result, is reduced.
      extents: the extent of each axis.
      value: the value, in terms of the axes.
      init: the value before the reduction.
    """
    axes = [*spatial, *reduce]
    # Each block has its own variables.
    own = {axis: Var(axis.name, "int64") for axis in axes}
    indices = [own[axis] for axis in spatial]
    iter_vars = [
        IterVar(
            ir.Range(emit.index(0), extents[axis]), own[axis], IterVar.CommReduce if axis in reduce else IterVar.DataPar
        )
        for axis in axes
    ]
    loop_vars = [Var(f"{axis.name}_loop", "int64") for axis in axes]
    start = None if init is None else BufferStore(buffer, init, indices)
    block = SBlock(iter_vars, [], [], "stage", BufferStore(buffer, substitute(value, own), indices), start)
    nest: Stmt = SBlockRealize(loop_vars, True, block)
    for loop_var, axis in reversed(list(zip(loop_vars, axes, strict=True))):
        nest = For(loop_var, emit.index(0), extents[axis], tirx.ForKind.SERIAL, nest)
    return nest


def keeps_cores_busy(tasks: int, target: CpuTarget) -> bool:
    """Returns whether ``tasks`` parallel tasks occupy all cores; otherwise a schedule would split the tasks."""
    return tasks >= MIN_TASKS_PER_CORE * target.cores


def sized_kernel(func: PrimFunc, new: Mapping[Var, Var], nests: Sequence[Stmt], local: Sequence[Var],
                 sizes: Mapping[Var, int], is_parallel: bool) -> SizedKernel:  # fmt: skip
    """Returns the kernel with other loop nests, and with sizes as parameters.

    Args:
      func: the original kernel.
      new: what replaces each of its parameters that is a tensor.
      nests: the loop nests.
      local: the tensors that exist only inside of the kernel.
      sizes: the parameters, and their arguments. The first is the size of an outermost axis of all large nests.
      is_parallel: whether these nests run in parallel.
    """
    root = SBlock([], [], [], "root", emit.sequence(list(nests)), alloc_buffers=list(local))
    params = [*(new.get(param, param) for param in func.params), *sizes]
    sized = PrimFunc(params, SBlockRealize([], True, root), func.ret_type, func.attrs)
    parallel_sizes = [len(func.params)] if is_parallel else []  # the position of the first size
    return SizedKernel(sized.with_attr(PARALLEL_SIZES, parallel_sizes), tuple(sizes.values()))
