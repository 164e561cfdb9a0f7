"""Elementwise nests: each thread computes a few neighbouring elements, which it loads and stores as one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import merged_loops, on_same_axes
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, by_axis, loads, substitute, with_value
from tvtf.passes.schedule.gpu.block import threads_over
from tvtf.passes.schedule.gpu.epilogue import InRegisters, emit_stages_at
from tvtf.passes.schedule.gpu.target import GpuTarget

ENOUGH_THREADS = 1 << 15
"""Number of threads that occupy a GPU; a thread computes fewer elements rather than leave fewer threads."""
LANES = {"float32": 4, "int32": 4, "uint32": 4, "float16": 4, "bfloat16": 4, "float64": 2, "int64": 2, "uint64": 2}
"""Number of elements of a dtype in the widest CUDA vector type for it."""


def emit_elementwise(stages: Sequence[Stage], needed: set[Var], target: GpuTarget) -> Stmt:
    """Emits elementwise stages (loop nests) over the same axes as one GPU kernel.

    Each thread computes one element, or a few neighbouring elements that are loaded and stored as one vector. A vector
    takes one instruction and fewer memory transactions.

    Args:
      stages: the stages.
      needed: the buffers to store.
      target: the GPU.
    """
    aligned = on_same_axes(stages)
    axis = next((axis for axis in reversed(aligned[0].spatial) if axis.size != 1), None)
    lanes = 1 if axis is None else _lane_count(aligned, needed, axis)
    if axis is None or lanes == 1:
        return _emit_by_element(aligned, needed, target)
    return _emit_by_vector(aligned, needed, axis, lanes, target)


def _emit_by_element(stages: list[Stage], needed: set[Var], target: GpuTarget) -> Stmt:
    """Emits elementwise stages (loop nests) as one GPU kernel, with a thread for each element of the results.

    It is used where elements aren't neighbours in memory, or are too few for vectors.

    Args:
      stages: the stages.
      needed: the buffers to store.
      target: the GPU.
    """
    loops = merged_loops(stages, {})
    extents = [loop.extent for loop in loops]

    def emit_element(flat_index: ir.Expr) -> Stmt:
        """Emits the computation of the result at a row-major (flat) index."""
        axis_indices: AxisIndices = {}
        for loop, index in zip(loops, emit.unflatten(flat_index, extents), strict=True):
            axis_indices.update(loop.axis_indices(index))
        return emit_stages_at(stages, needed, axis_indices, {})

    return threads_over(target, emit.volume(extents), emit_element)


def _lane_count(stages: list[Stage], needed: set[Var], axis: Axis) -> int:
    """Returns how many neighbouring elements along an axis a GPU thread computes.

    The number is as large as the vector types allow, but small enough to leave work for ``ENOUGH_THREADS`` threads. A
    vector is loaded or stored by one instruction.

    Args:
      stages: the kernel's loop nests.
      needed: the buffers that are stored.
      axis: the axis of the elements.
    """
    total = access.iteration_count(stages[0].spatial)
    if total is None or axis.size is None:
        return 1
    lanes = most_lanes(stages, needed, axis)
    while lanes > 1 and (axis.size % lanes or total // lanes < ENOUGH_THREADS):
        lanes //= 2
    return lanes


def most_lanes(stages: Sequence[Stage], needed: set[Var], axis: Axis) -> int:
    """Returns how many neighbouring elements along an axis the widest of CUDA's vector types holds, of all types moved."""
    moved_dtypes = {stage.dtype for stage in stages if stage.buffer in needed}
    moved_dtypes |= {str(load.ty.dtype) for stage in stages for load in _contiguous(stage, axis)}
    return min((LANES.get(dtype, 1) for dtype in moved_dtypes), default=1)


def _contiguous(stage: Stage, axis: Axis) -> list[TensorLoad]:
    """Returns the unconditional loads of a stage that are contiguous along an axis."""
    return [
        load
        for load in loads(stage.value)
        if access.load_stride(load, axis.var) == 1 and _is_unconditional(stage, load)
    ]


def _is_unconditional(stage: Stage, load: TensorLoad) -> bool:
    """Returns whether a stage (loop nest) does a load in every iteration, and not only if a condition holds.

    A conditional load can't be moved before the condition, since it may be out of bounds in some iterations.
    """
    calls: list[ir.Expr] = []
    structural_walk(stage.value, (ir.Call, calls.append))
    # Loads in the branches of an `if_then_else` depend on its condition. Other calls in `FREE_CALLS` mark bounds
    # checks, which have no loads.
    choices = [call for call in calls if str(getattr(call.op, "name", "")) in access.FREE_CALLS]
    return not any(conditional_load.same_as(load) for call in choices for conditional_load in loads(call))


def _emit_by_vector(stages: list[Stage], needed: set[Var], axis: Axis, lanes: int, target: GpuTarget) -> Stmt:
    """Emits elementwise stages as a GPU kernel with one thread for each vector of ``lanes`` elements along an axis.

    A vector is loaded or stored by one instruction, and the accesses of several threads take one transaction.

    Args:
      stages: the stages, on the same axes.
      needed: the buffers of results that are read outside of the kernel.
      axis: the axis along which vectors run.
      lanes: the number of elements of a vector.
      target: the GPU.
    """
    axes = stages[0].spatial
    vectors_along_axis = emit.index(int(axis.extent) // lanes)
    vector_extents = [vectors_along_axis if other is axis else other.extent for other in axes]

    def emit_thread(vector_index: ir.Expr) -> Stmt:
        """Emits the computation of the vector of results at a row-major (flat) index."""
        indices = by_axis(axes, emit.unflatten(vector_index, vector_extents))

        def indices_of_lane(lane: ir.Expr) -> AxisIndices:
            """Returns the index along each axis for one lane of the vector."""
            return {**indices, axis.var: indices[axis.var] * lanes + lane}

        return emit_vector(stages, needed, axis, indices_of_lane, lanes)

    return threads_over(target, emit.volume(vector_extents), emit_thread)


def emit_vector(
    stages: Sequence[Stage],
    needed: set[Var],
    axis: Axis,
    indices_of_lane: Callable[[ir.Expr], AxisIndices],
    lanes: int,
    in_registers: Callable[[ir.Expr], InRegisters] = lambda lane: {},
) -> Stmt:
    """Emits the work of one thread: vector loads into registers, the stages lane by lane, then vector stores.

    Lanes are computed one by one, because CUDA's vector types have no arithmetic.

    Args:
      stages: the elementwise stages, in order.
      needed: the buffers to store.
      axis: the axis along which a vector's elements are neighbours.
      indices_of_lane: returns the index along each axis for a lane.
      lanes: the elements of a vector.
      in_registers: returns the values of buffers that needn't be loaded, for a lane.
    """
    lane = Var("lane", "int64")
    values = in_registers(lane)
    computed = [stage for stage in stages if stage.buffer not in values]
    vector_loads = [load for stage in computed for load in _loads_of_other_buffers(stage, stages, axis)]
    load_registers = [(load, emit.scratch([lanes], str(load.ty.dtype), "in", "local")) for load in vector_loads]
    stored_stages = [stage for stage in stages if stage.buffer in needed]
    results = {stage.buffer: emit.scratch([lanes], stage.dtype, "out", "local") for stage in stored_stages}

    def load_vector(load: TensorLoad, register: Var) -> Stmt:
        return emit.vectorized(lanes, lambda i: emit.store(register, substitute(load, indices_of_lane(i)), [i]))

    def store_vector(stage: Stage) -> Stmt:
        return emit.vectorized(lanes, lambda i: _store_of_lane(stage, results[stage.buffer], indices_of_lane(i), i))

    def store_result(stage: Stage, value: ir.Expr) -> Stmt:
        return emit.store(results[stage.buffer], value, [lane])

    stages_on_registers = [
        with_value(stage, _from_registers(stage.value, load_registers, lane)) if stage in computed else stage
        for stage in stages
    ]
    # The stages at the variable `lane`, which is replaced by the number of each lane.
    lane_body = emit_stages_at(stages_on_registers, needed, indices_of_lane(lane), values, store_result)
    all_lanes = emit.unrolled(lanes, lambda i: substitute(lane_body, {lane: i}))
    buffers = [*(register for _load, register in load_registers), *results.values()]
    vectors_in = [load_vector(load, register) for load, register in load_registers]
    vectors_out = [store_vector(stage) for stage in stored_stages]
    return emit.sequence([*map(emit.allocate, buffers), *vectors_in, all_lanes, *vectors_out])


def _loads_of_other_buffers(stage: Stage, stages: Sequence[Stage], axis: Axis) -> list[TensorLoad]:
    """Returns the contiguous loads of a stage, without loads of the results of ``stages``."""
    buffers = [other.buffer for other in stages]
    return [load for load in _contiguous(stage, axis) if not any(load.source.same_as(buffer) for buffer in buffers)]


def _from_registers(value: ir.Expr, load_registers: list[tuple[TensorLoad, Var]], lane: Var) -> ir.Expr:
    """Replaces loads in an expression by lanes of the registers that hold the vectors loaded before.

    One load instruction then loads the elements of all lanes.

    Args:
      value: the expression.
      load_registers: pairs of a load and the register with the loaded vector.
      lane: the index in the vector.
    """

    def lane_of_register(load: TensorLoad) -> ir.Expr:
        """Returns the lane of a load's register, or the load itself if it has no register."""
        for vector_load, register in load_registers:
            if load.same_as(vector_load):
                return emit.load(register, [lane])
        return load

    return structural_map(value, (TensorLoad, lane_of_register))


def _store_of_lane(stage: Stage, register: Var, axis_indices: AxisIndices, lane: ir.Expr) -> Stmt:
    """Returns the store of one lane of a stage's results, from registers to the stage's buffer."""
    return emit.store(stage.buffer, emit.load(register, [lane]), [axis_indices[axis.var] for axis in stage.spatial])
