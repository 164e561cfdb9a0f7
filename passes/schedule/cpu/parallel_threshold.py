"""Decides when several threads are profitable: a parallel region costs 5 to 10 microseconds, so small kernels stay serial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tvm import ir, tirx
from tvm.tirx import PrimFunc, Stmt, Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, variables
from tvtf.passes.schedule.cpu.target import CpuTarget

MIN_PARALLEL_CYCLES = 40_000
# Register tiles load each operand once for many results, which the count of cycles below ignores.
MIN_PARALLEL_CYCLES_OF_TILES = 4 * MIN_PARALLEL_CYCLES
CYCLES_PER_LOADED_VECTOR = 2
# Beyond this factor above or below the threshold it is no choice for tuning: a busy machine could decide it wrongly.
CLEAR_FACTOR = 16
PARALLEL_SIZES = "tvtf.parallel_sizes"
"""Attribute of a function with sizes as parameters: the parameter positions of the sizes of parallel loops.

The list is empty if all of its loops are serial.
"""
MAX_ITERATIONS_OF_SMALL_LOOP = 2048
"""Number of iterations that take less than a microsecond one by one; faster code takes some 100 ms longer to compile."""


def emit_parallel_or_serial(
    stages: Sequence[Stage], target: CpuTarget, emit_nest: Callable[[bool], Stmt], threshold: int = MIN_PARALLEL_CYCLES
) -> Stmt:
    """Returns the parallel or the serial version of a nest, whichever is estimated to be faster.

    Starting threads costs 5 to 10 microseconds, so small kernels stay serial. With symbolic sizes, a run-time test
    selects one of both versions.

    Args:
        stages: the stages of the nest.
        target: the CPU.
        emit_nest: emits the nest, parallel or not.
        threshold: the estimated cycles above which the nest is parallel.
    """
    if target.cores == 1:
        return emit_nest(False)
    cycles = total_cycles(stages, target)
    static_cycles = emit.static(cycles)
    if static_cycles is not None:
        is_unclear = threshold < static_cycles * CLEAR_FACTOR and static_cycles < threshold * CLEAR_FACTOR
        return emit_nest(choice("parallel", static_cycles > threshold, lambda: (False, True) if is_unclear else ()))
    parallel_sizes = _parallel_sizes.get()
    if parallel_sizes is not None:
        extents = set().union(*(variables(axis.extent) for stage in stages for axis in stage.spatial))
        return emit_nest(not parallel_sizes.isdisjoint(extents))
    # In floats: from an integer test TVM concludes that a dim is 0 in the serial nest, and fails where that is a
    # divisor.
    is_large = cycles.astype("float64") > tirx.const(float(threshold), "float64")
    return tirx.IfThenElse(is_large, emit_nest(True), emit_nest(False))


_parallel_sizes: ContextVar[frozenset[Var] | None] = ContextVar("parallel_sizes", default=None)
"""The parameters that `PARALLEL_SIZES` of the function being scheduled lists; None if it has no such attribute."""


@contextmanager
def parallel_over_sizes(func: PrimFunc) -> Iterator[None]:
    """Makes a function's loop nests parallel or serial in a ``with`` block, as its attribute `PARALLEL_SIZES` says.

    The attribute lists parameters that are sizes. `emit_parallel_or_serial` makes a nest parallel if one of them is the
    extent of an axis of its results. Otherwise nests of symbolic sizes would test at run time whether to run in
    parallel. A function without the attribute is scheduled as usual.
    """
    positions = func.attrs.get(PARALLEL_SIZES) if func.attrs else None
    sizes = None
    if positions is not None:
        sizes = frozenset(func.params[int(position)] for position in positions)
    token = _parallel_sizes.set(sizes)
    try:
        yield
    finally:
        _parallel_sizes.reset(token)


def is_size_parameter(axis: Axis) -> bool:
    """Returns whether the extent of an axis is a parameter of a function with the attribute `PARALLEL_SIZES`.

    The sizes of such functions are chosen so that these axes need no register tiles, and no code for what remains of
    them.
    """
    return axis.size is None and _parallel_sizes.get() is not None


def total_cycles(stages: Sequence[Stage], target: CpuTarget) -> ir.Expr:
    """Estimates the cycles that some stages take on one core. The result is an expression if sizes are symbolic."""
    total: ir.Expr = emit.index(0)
    for stage in stages:
        total = total + stage_cycles(stage, target)
    return emit.simplified(total)


def stage_cycles(stage: Stage, target: CpuTarget) -> ir.Expr:
    """Estimates the cycles of a stage on one core: iterations times the cost of operations and loads, in vectors."""
    lanes = target.lanes(stage.item_bytes)
    cycles_per_iteration = access.operations(stage.value) + CYCLES_PER_LOADED_VECTOR * len(stage.loads)
    iterations = emit.volume([axis.extent for axis in stage.axes])
    return tirx.floordiv(iterations * cycles_per_iteration, emit.index(lanes)) + 1


def is_small_box(axes: tuple[Axis, ...]) -> bool:
    """Returns whether loops over some axes have so few iterations that faster code isn't worth its compile time."""
    iterations = access.iteration_count(axes)
    return iterations is not None and iterations <= MAX_ITERATIONS_OF_SMALL_LOOP
