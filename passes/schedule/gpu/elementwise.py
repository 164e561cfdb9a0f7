"""Elementwise nests: each thread computes a few neighbouring points, which it loads and stores as one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.elementwise import merged_loops, on_same_axes
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, loads, substitute, with_value
from tvtf.passes.schedule.gpu.block import threads_over
from tvtf.passes.schedule.gpu.epilogue import Point, stores_at
from tvtf.passes.schedule.gpu.target import GpuTarget

ENOUGH_THREADS = 1 << 15
"""Threads below which a thread takes fewer points."""
LANES = {"float32": 4, "int32": 4, "uint32": 4, "float16": 4, "float64": 2, "int64": 2, "uint64": 2}
"""Items of a type in the widest of CUDA's vector types for it."""


def emit_elementwise(stages: Sequence[Stage], needed: set[Var], target: GpuTarget) -> Stmt:
    """Writes stages that share one box of points as one kernel."""
    aligned = on_same_axes(stages)
    axis = next((axis for axis in reversed(aligned[0].spatial) if axis.size != 1), None)
    lanes = 1 if axis is None else _lanes(aligned, needed, axis)
    if axis is None or lanes == 1:
        return _by_point(aligned, needed, target)
    return _by_vector(aligned, needed, axis, lanes, target)


def _by_point(stages: list[Stage], needed: set[Var], target: GpuTarget) -> Stmt:
    """Writes a kernel with one thread for each point."""
    loops = merged_loops(stages, {})
    extents = [loop.extent for loop in loops]

    def work(place: ir.Expr) -> Stmt:
        point: Point = {}
        for loop, at in zip(loops, emit.unflatten(place, extents), strict=True):
            point.update(loop.point(at))
        return stores_at(stages, needed, point, {})

    return threads_over(target, emit.volume(extents), work)


def _lanes(stages: list[Stage], needed: set[Var], axis: Axis) -> int:
    """Returns the points of a thread: as many as one vector move takes, if enough threads remain."""
    total = access.points(stages[0].spatial)
    if total is None or axis.size is None:
        return 1
    moved = {stage.dtype for stage in stages if stage.buffer in needed}
    moved |= {str(load.ty.dtype) for stage in stages for load in _contiguous(stage, axis)}
    lanes = min((LANES.get(dtype, 1) for dtype in moved), default=1)
    while lanes > 1 and (axis.size % lanes or total // lanes < ENOUGH_THREADS):
        lanes //= 2
    return lanes


def _contiguous(stage: Stage, axis: Axis) -> list[TensorLoad]:
    """Returns the unconditional loads of a stage that are contiguous along an axis."""
    return [
        load
        for load in loads(stage.value)
        if access.load_stride(load, axis.var) == 1 and _is_unconditional(stage, load)
    ]


def _is_unconditional(stage: Stage, load: TensorLoad) -> bool:
    """Returns whether a load is done at every point, and not under a test.

    Only such a load can be moved to the front: a conditional one may be out of bounds at some points.
    """
    tests: list[ir.Expr] = []
    structural_walk(stage.value, (ir.Call, lambda call: tests.append(call)))
    guards = [call for call in tests if str(getattr(call.op, "name", "")) in access.FREE_CALLS]
    return not any(conditional.same_as(load) for call in guards for conditional in loads(call))


def _by_vector(stages: list[Stage], needed: set[Var], axis: Axis, lanes: int, target: GpuTarget) -> Stmt:
    """Writes a kernel with one thread for each vector of points along an axis.

    A vector move takes one instruction, and one transaction for the lanes of several threads.
    """
    axes = stages[0].spatial
    extents = [emit.index(int(axis.extent) // lanes) if other is axis else other.extent for other in axes]

    def work(place: ir.Expr) -> Stmt:
        places = emit.unflatten(place, extents)

        def point(lane: ir.Expr) -> Point:
            return {a.var: at * lanes + lane if a is axis else at for a, at in zip(axes, places, strict=True)}

        return _vector(stages, needed, axis, point, lanes)

    return threads_over(target, emit.volume(extents), work)


def _vector(stages: list[Stage], needed: set[Var], axis: Axis, point: Callable[[ir.Expr], Point], lanes: int) -> Stmt:
    """Writes vector loads into registers, the work lane by lane, then vector stores.

    Lanes are computed one by one, because CUDA's vector types have no arithmetic.
    """
    lane = Var("lane", "int64")
    loaded = [load for stage in stages for load in _outside(stage, stages, axis)]
    fetched = [(load, emit.scratch([lanes], str(load.ty.dtype), "in", "local")) for load in loaded]
    stored = [stage for stage in stages if stage.buffer in needed]
    results = {stage.buffer: emit.scratch([lanes], stage.dtype, "out", "local") for stage in stored}

    def load_vector(load: TensorLoad, register: Var) -> Stmt:
        return emit.vectorized(lanes, lambda at: emit.store(register, substitute(load, point(at)), [at]))

    def store_lane(stage: Stage, value: ir.Expr) -> Stmt:
        return emit.store(results[stage.buffer], value, [lane])

    def store_vector(stage: Stage) -> Stmt:
        return emit.vectorized(lanes, lambda at: _stored_lane(stage, results[stage.buffer], point(at), at))

    inside = [with_value(stage, _from_registers(stage.value, fetched, lane)) for stage in stages]
    work = stores_at(inside, needed, point(lane), {}, store_lane)
    buffers = [*(register for _, register in fetched), *results.values()]
    unrolled = emit.unrolled(lanes, lambda at: substitute(work, {lane: at}))
    moves = [load_vector(load, register) for load, register in fetched]
    return emit.sequence([*map(emit.allocate, buffers), *moves, unrolled, *map(store_vector, stored)])


def _outside(stage: Stage, stages: list[Stage], axis: Axis) -> list[TensorLoad]:
    buffers = [other.buffer for other in stages]
    return [load for load in _contiguous(stage, axis) if not any(load.source.same_as(buffer) for buffer in buffers)]


def _from_registers(value: ir.Expr, fetched: list[tuple[TensorLoad, Var]], lane: Var) -> ir.Expr:
    def swap(load: TensorLoad) -> ir.Expr:
        register = next((register for other, register in fetched if load.same_as(other)), None)
        return load if register is None else emit.load(register, [lane])

    return structural_map(value, (TensorLoad, swap))


def _stored_lane(stage: Stage, register: Var, point: Point, lane: ir.Expr) -> Stmt:
    return emit.store(stage.buffer, emit.load(register, [lane]), [point[axis.var] for axis in stage.spatial])
