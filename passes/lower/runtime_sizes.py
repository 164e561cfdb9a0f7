"""Passes kernels their sizes at run time, so that kernels which differ only in sizes have the same code.

A network has the same few kernels around its products (an optimizer's update, the sum of two branches, the parts of
batch normalization) for tensors of a dozen sizes. LLVM takes 10 to 40 ms for each of them. With sizes as parameters
they are equal, and the code of one serves all of them: in this program, and through the cache in others.

Only kernels are rewritten that take as long as before, to 5 % or a microsecond. They are elementwise over a matrix:
every tensor is a matrix, a row that is the same for all rows of the matrices, or a scalar, and vectors fill a row
exactly. Whether such a kernel runs in parallel depends on its sizes; it is decided here, and passed to the schedule as
an attribute of the kernel.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.target import Target
from tvm.tirx import PrimFunc, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.entry_points import PREPARE
from tvtf.passes.lower.runtime_sizes_of_sums import sum_with_sizes
from tvtf.passes.lower.size_parameters import (
    Matrices,
    SizedKernel,
    buffers_of,
    cycles_of,
    element_counts_of,
    keeps_cores_busy,
    loop_nest,
    matrices_of,
    new_buffers,
    sized_kernel,
)
from tvtf.passes.memory.hoist_constants import called_elsewhere
from tvtf.passes.memory.memory_plan import ARENA_TENSOR
from tvtf.passes.schedule.cpu import SCHEDULED, emit
from tvtf.passes.schedule.cpu.kernel import Kernel, Stage, read_kernel
from tvtf.passes.schedule.cpu.parallel_threshold import MIN_PARALLEL_CYCLES
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.tuned_choices import describe, record_for
from tvtf.passes.schedule.tuning_records import records

MIN_VECTORS = 4
"""Minimum number of vectors in a row: fewer take longer in a loop whose extent is a parameter than with a constant extent."""
ENTRIES = ("main", PREPARE)
ALLOCATIONS = ("relax.vm.alloc_tensor", ARENA_TENSOR)


def with_runtime_sizes(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Gives unscheduled kernels of entries their sizes as parameters, where that costs next to nothing, and their calls the sizes.

    Kernels with a tensor from outside of the library, such as one that NumPy computed, stay as they are: they check the
    tensor's shape, and a rewritten kernel takes tensors for matrices. So do kernels that were tuned for their sizes.
    """
    facts = CpuTarget.of(target)
    known = records(describe(target))
    entries = {name: func for name, func in mod.functions_items() if name.name_hint in ENTRIES}
    outside = called_elsewhere(mod, ENTRIES)
    rewritten: dict[ir.GlobalVar, SizedKernel] = {}
    for name, func in mod.functions_items():
        if isinstance(func, PrimFunc) and SCHEDULED not in (func.attrs or {}) and name not in outside:
            sized = _with_sizes(func, facts)
            if sized is not None and record_for(func, known) is None:
                rewritten[name] = sized
    for name in set().union(*(_with_foreign_tensors(entry, set(rewritten)) for entry in entries.values())):
        del rewritten[name]
    if not rewritten:
        return mod
    new_names = {name: Bindings.typed(ir.GlobalVar(name.name_hint), new.func.ty) for name, new in rewritten.items()}

    def with_size_arguments(call: relax.Call) -> relax.Call:
        if not isinstance(call.op, ir.GlobalVar) or call.op not in new_names:
            return call
        sizes = [emit.index(size) for size in rewritten[call.op].sizes]
        return relax.Call(new_names[call.op], [*call.args, *sizes], call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    functions = {name: func for name, func in mod.functions_items() if name not in rewritten}
    result = tvm.IRModule(functions, attrs=mod.attrs)
    for name, sized in rewritten.items():
        result[new_names[name]] = sized.func
    for name, entry in entries.items():
        result.update_func(name, structural_map(entry, (relax.Call, with_size_arguments)))
    return result


def _with_foreign_tensors(entry: relax.Function, kernels: set[ir.GlobalVar]) -> set[ir.GlobalVar]:
    """Returns the kernels that an entry calls with a tensor that it gets from elsewhere.

    Such a tensor isn't a parameter of the entry, a constant or an allocation in the entry.
    """
    values = {binding.var: binding.value for binding in bindings_of(entry.body)}
    own_tensors = {*entry.params, *(var for var, value in values.items() if _is_allocation(value))}

    def is_foreign(argument: ir.Expr) -> bool:
        """Returns whether an argument is a tensor that the entry gets from elsewhere."""
        is_tensor = isinstance(argument, relax.Var) and isinstance(argument.ty, relax.TensorType)
        return is_tensor and argument not in own_tensors

    calls = [value for value in values.values() if isinstance(value, relax.Call) and value.op in kernels]
    return {call.op for call in calls if any(map(is_foreign, call.args))}


def _is_allocation(value: Any) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name in ALLOCATIONS


def _with_sizes(func: PrimFunc, target: CpuTarget) -> SizedKernel | None:
    """Returns a kernel with its sizes as parameters, or None if its form or its sizes don't fit."""
    reductions = _count_reductions(func)
    kernel = read_kernel(func) if reductions <= 1 else None
    if kernel is None or not kernel.stages or not all(isinstance(stage, Stage) for stage in kernel.stages):
        return None
    return sum_with_sizes(func, kernel, target) if reductions else _elementwise_with_sizes(func, kernel, target)


def _count_reductions(func: PrimFunc) -> int:
    """Counts the blocks of a kernel that are reductions; stops counting at 2.

    This is quicker than reading the kernel's stages.
    """
    count = 0

    def count_reduction(block: SBlock) -> Any:
        """Counts a block if it is a reduction, and ends the walk at the second one."""
        nonlocal count
        is_reduction = block.init is not None
        count += is_reduction
        return tvm_ffi.VisitInterrupt(None) if count > 1 else None

    structural_walk(func.body, (SBlock, count_reduction))
    return count


def _elementwise_with_sizes(func: PrimFunc, kernel: Kernel, target: CpuTarget) -> SizedKernel | None:
    """Returns an elementwise kernel with the numbers of its rows, and of vectors in a row, as parameters, or None."""
    stages = [stage for stage in kernel.stages if isinstance(stage, Stage)]
    buffers = buffers_of(func, kernel)
    lanes = target.lanes(min(stage.item_bytes for stage in stages))
    matrices = _elementwise_matrices(stages, buffers, lanes)
    if matrices is None:
        return None
    has_rows = any(map(matrices.is_row, buffers))
    on_matrices = [stage for stage in stages if matrices.is_matrix(stage.buffer)]
    is_parallel = target.cores > 1 and cycles_of(kernel, on_matrices, lanes) > MIN_PARALLEL_CYCLES
    if is_parallel and has_rows and not keeps_cores_busy(matrices.rows, target):
        return None
    row, column = Var("row", "int64"), Var("column", "int64")
    rows, vectors = Var("rows", "int64"), Var("vectors", "int64")
    extents = {row: rows, column: vectors * emit.index(lanes)}
    sizes = {rows: matrices.rows} if has_rows else {}
    sizes[vectors] = matrices.columns // lanes

    def axes_of(buffer: Var) -> list[Var]:
        if matrices.element_counts[buffer] == 1:
            return []
        return [row, column] if has_rows and matrices.is_matrix(buffer) else [column]

    new = new_buffers(buffers, axes_of, extents)

    def new_load(load: TensorLoad) -> ir.Expr:
        rank = len(new[load.source].ty.shape)
        return tirx.BufferLoad(new[load.source], axes_of(load.source) or [emit.index(0)] * rank)

    def new_nest(stage: Stage) -> Stmt:
        value = structural_map(stage.value, (TensorLoad, new_load))
        return loop_nest(new[stage.buffer], axes_of(stage.buffer), [], extents, value)

    nests = [new_nest(stage) for stage in stages]
    local_buffers = [new[buffer] for buffer in kernel.local]
    return sized_kernel(func, new, nests, local_buffers, sizes, is_parallel)


def _elementwise_matrices(stages: list[Stage], buffers: list[Var], lanes: int) -> Matrices | None:
    """Returns the sizes of an elementwise kernel's tensors, if all are matrices, rows and scalars of common sizes.

    Returns None if they aren't, if a stage doesn't read matrices, rows and scalars at the row and column that it
    stores, or if the rows aren't a sufficient number of full vectors.

    Args:
      stages: the kernel's loop nests.
      buffers: the kernel's parameters.
      lanes: the number of elements of a vector.
    """
    element_counts = element_counts_of(stages)
    matrices = None if element_counts is None else matrices_of(element_counts)
    if matrices is None or matrices.columns % lanes or matrices.columns < MIN_VECTORS * lanes:
        return None
    if set(buffers) != set(matrices.element_counts):
        return None
    return matrices if all(map(matrices.is_aligned_elementwise, stages)) else None
