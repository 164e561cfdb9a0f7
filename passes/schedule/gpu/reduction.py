"""Reductions: the threads of a block share a result's terms, and combine their partial results in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine, combiner
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, replace_loads, substitute
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.vector_axis import last_non_unit_axis, operands_of
from tvtf.passes.schedule.gpu.block import Block, ceil_div, launch
from tvtf.passes.schedule.gpu.epilogue import Point, stores_at
from tvtf.passes.schedule.gpu.target import GpuTarget

UNKNOWN_SIZE = 512
TERMS_PER_THREAD = 4
LONG_REDUCTION = 1 << 14
MAX_CHUNKS = 512
StoreResult = Callable[[Point, ir.Expr], Stmt]


@dataclass(frozen=True)
class Split:
    """How the threads of a block share the work of a reduction: ``slices`` threads compute each of ``results`` results.

    If ``along_terms``, neighbouring threads compute the same result; otherwise they compute neighbouring results.
    """

    slices: int
    results: int
    along_terms: bool

    def slice_of(self, thread: ir.Expr) -> ir.Expr:
        """Returns the index of the slice of the terms that a thread reduces."""
        return thread % self.slices if self.along_terms else tirx.floordiv(thread, emit.index(self.results))

    def result_of(self, thread: ir.Expr) -> ir.Expr:
        """Returns the index, in the block, of the result that a thread works on."""
        return tirx.floordiv(thread, emit.index(self.slices)) if self.along_terms else thread % self.results

    def thread_of(self, slice_index: ir.Expr, result: ir.Expr) -> ir.Expr:
        """Returns the index of the thread that reduces a slice of a result."""
        return result * self.slices + slice_index if self.along_terms else slice_index * self.results + result


def emit_reduction(stage: Stage, stores: Sequence[Stage], needed: set[Var], target: GpuTarget) -> Stmt:
    """Emits a reduction, and the elementwise stages (loop nests) that follow it, as one GPU kernel.

    A reduction of many terms to few results becomes two kernels, to occupy all multiprocessors.

    Args:
      stage: the reduction.
      stores: the reduction and the elementwise stages, in order.
      needed: the buffers to store.
    """
    merged = merged_reduction(stage)
    stores = [merged if other is stage else other for other in stores]
    combine = combiner(merged)
    chunk_count = _chunk_count(merged, target)
    if combine is None or chunk_count == 1:
        return _emit_one_kernel(merged, combine, stores, needed, target)
    return _emit_two_kernels(merged, combine, stores, needed, chunk_count, target)


def emit_kernel(stage: Stage, stores: Sequence[Stage], needed: set[Var], target: GpuTarget) -> Stmt:
    """Emits a reduction, and the elementwise stages that follow it, as one GPU kernel."""
    return _emit_one_kernel(stage, combiner(stage), stores, needed, target)


def _emit_one_kernel(
    stage: Stage, combine: Combine | None, stores: Sequence[Stage], needed: set[Var], target: GpuTarget
) -> Stmt:
    """Emits a reduction as one GPU kernel. Each block computes some of the results, each by several threads.

    Args:
      stage: the reduction.
      combine: combines two partial results; None if a result must be reduced by one thread.
      stores: the reduction and the elementwise stages that follow it.
      needed: the buffers to store.
      target: the GPU.
    """
    split = split_of(stage, combine, target.threads, access.iteration_count(stage.spatial), target)
    extents = [axis.extent for axis in stage.spatial]
    result_count = emit.volume(extents)

    def store_result(point: Point, value: ir.Expr) -> Stmt:
        return stores_at(stores, needed, point, {stage.buffer: value})

    def body(block: Block) -> Stmt:
        """Emits the work of one block: it computes ``split.results`` results, each by several threads."""

        def point_of_thread(thread: ir.Expr) -> tuple[Point, ir.Expr]:
            """Returns the indices of a thread's result, and whether it exists: the last block may have fewer."""
            result = block.index * split.results + split.result_of(thread)
            indices = emit.unflatten(result, extents)
            point = {axis.var: index for axis, index in zip(stage.spatial, indices, strict=True)}
            return point, _is_inside(result, result_count, split.results)

        return reduce_in_block(block, stage, combine, split, point_of_thread, store_result)

    return launch(target, ceil_div(result_count, split.results), split.slices * split.results, body)


def _is_inside(index: ir.Expr, total: ir.Expr, results: int) -> ir.Expr:
    """Returns the condition ``index < total``, or true if ``total`` is known to be a multiple of ``results``."""
    static_total = emit.static(total)
    return tirx.const(True, "bool") if static_total is not None and static_total % results == 0 else index < total


def reduce_in_block(
    block: Block,
    stage: Stage,
    combine: Combine | None,
    split: Split,
    point: Callable[[ir.Expr], tuple[Point, ir.Expr]],
    store_result: StoreResult,
) -> Stmt:
    """Emits a block's work for a reduction: each thread reduces a slice of a result's terms, then slices are combined.

    Partial results are combined in shared memory, pair by pair, until one is left.

    Args:
      split: which thread reduces which slice of which result.
      point: returns the indices of a thread's result, and whether the result exists.
      store_result: emits the code that stores a result.
    """
    zero = emit.index(0)
    accumulator = block.registers([1], stage.dtype, "accumulator")

    def emit_slice(thread: ir.Expr) -> Stmt:
        """Emits a thread's reduction of its own slice (every n-th of the terms), in a register."""
        result_point, exists = point(thread)
        initialize = accumulator.store(thread, substitute(stage.init, result_point), zero)
        slice_index = split.slice_of(thread)
        reduce_terms = _reduce_slice(stage, split.slices, slice_index, result_point, accumulator, thread)
        return emit.sequence([initialize, emit.when(exists, reduce_terms)])

    def emit_result(thread: ir.Expr, value: ir.Expr) -> Stmt:
        result_point, exists = point(thread)
        return emit.when(exists, store_result(result_point, value))

    if combine is None or split.slices == 1:
        return block.for_each_thread(
            lambda t: emit.sequence([emit_slice(t), emit_result(t, accumulator.load(t, zero))])
        )
    partials = block.shared([block.threads], stage.dtype, "partial")

    def emit_partial(thread: ir.Expr) -> Stmt:
        return emit.sequence([emit_slice(thread), emit.store(partials, accumulator.load(thread, zero), [thread])])

    def halve(distance: int) -> Stmt:
        """Emits one step of a tree reduction in shared memory, which halves the number of partial results.

        Each of the first ``distance`` partial results is combined with the one ``distance`` slices further. With n
        slices, log2(n) steps are left of n - 1 serial combinations.
        """

        def emit_thread(thread: ir.Expr) -> Stmt:
            slice_index, result = split.slice_of(thread), split.result_of(thread)
            own_partial = emit.load(partials, [thread])
            other_partial = emit.load(partials, [split.thread_of(slice_index + distance, result)])
            store = emit.store(partials, combine(own_partial, other_partial), [thread])
            return emit.when(slice_index < distance, store)

        return block.for_each_thread(emit_thread)

    # With 8 slices: 4, 2, 1.
    distances = [split.slices >> k for k in range(1, split.slices.bit_length())]
    # The thread of slice 0 has the combined result.
    last = block.for_each_thread(lambda t: emit.when(split.slice_of(t) < 1, emit_result(t, emit.load(partials, [t]))))
    return block.with_barriers(block.for_each_thread(emit_partial), *map(halve, distances), last)


def _reduce_slice(
    stage: Stage, slices: int, slice_index: ir.Expr, point: Point, accumulator: object, thread: ir.Expr
) -> Stmt:
    """Emits the loop in which a thread reduces its slice of a result's terms: every ``slices``-th term.

    If terms are contiguous, neighbouring threads read neighbouring elements, which the GPU coalesces into one access.
    """
    extents = [axis.extent for axis in stage.reduce]
    total = emit.volume(extents)
    static_total = emit.static(total)
    zero = emit.index(0)

    def update(step: ir.Expr) -> Stmt:
        """Emits the combination of one term with the accumulator, unless the step is beyond the last term.

        The terms are distributed cyclically over the threads of a result: in step 2, the thread of slice 1 of 8 takes term
        17.
        """
        term = step * slices + slice_index if slices > 1 else step
        term_point = {axis.var: i for axis, i in zip(stage.reduce, emit.unflatten(term, extents), strict=True)}
        accumulated = accumulator.load(thread, zero)  # type: ignore[attr-defined]
        value = substitute(stage.value, {**point, **term_point})
        combined = replace_loads(value, stage.buffer, lambda _: accumulated)
        store = accumulator.store(thread, combined, zero)  # type: ignore[attr-defined]
        has_term_in_each_step = slices == 1 or (static_total is not None and static_total % slices == 0)
        return store if has_term_in_each_step else emit.when(term < total, store)

    return emit.loop(ceil_div(total, slices), update, name="term")


def split_of(stage: Stage, combine: Combine | None, threads: int, results: int | None, target: GpuTarget) -> Split:
    """Chooses how the threads of a block share the results and terms of a reduction.

    Neighbouring threads read neighbouring elements, along terms or along results, since the GPU coalesces such
    accesses.

    Args:
      combine: combines two partial results; None if a result must be reduced by one thread.
      threads: the threads of a block.
      results: the number of results, or None if it isn't static.
    """
    term_count = access.iteration_count(stage.reduce) or UNKNOWN_SIZE
    result_count = UNKNOWN_SIZE if results is None else results
    if combine is None:
        return Split(1, min(threads, emit.power_of_two_ceil(result_count)), along_terms=False)
    # A thread reduces about `TERMS_PER_THREAD` terms, or more.
    max_slices = emit.power_of_two_ceil(emit.ceil_div(term_count, TERMS_PER_THREAD))
    along_terms = runs_along_terms(stage)
    if along_terms:
        slices = min(threads, max_slices)
    else:
        # A warp's threads have neighbouring results. More slices than occupy the GPU only add combinations.
        threads_per_result = max(1, target.resident_threads // max(1, result_count))
        slices = min(threads // target.warp, emit.power_of_two_ceil(threads_per_result), max_slices)
    results_per_block = max(1, min(threads // slices, emit.power_of_two_ceil(result_count)))
    return Split(slices, results_per_block, along_terms)


def runs_along_terms(stage: Stage) -> bool:
    """Returns whether more operands of a reduction are contiguous in memory along its terms than along its results.

    Neighbouring threads should access neighbouring elements.
    """
    last_term_axis, last_result_axis = last_non_unit_axis(stage.reduce), last_non_unit_axis(stage.spatial)
    if last_term_axis is None:
        return False
    if last_result_axis is None:
        return True
    terms = operands_of(stage)
    along_terms = sum(access.load_stride(term, last_term_axis.var) == 1 for term in terms)
    along_results = sum(access.load_stride(term, last_result_axis.var) == 1 for term in terms)
    return along_terms > along_results


def _chunk_count(stage: Stage, target: GpuTarget) -> int:
    """Returns the number of chunks that the terms of a reduction are split into, to occupy the GPU.

    It is 1 if there are many results or few terms, or if their counts aren't static. A block reduces one chunk of a
    result's terms, and a second kernel combines the chunks.
    """
    terms, results = access.iteration_count(stage.reduce), access.iteration_count(stage.spatial)
    if terms is None or results is None or terms < LONG_REDUCTION or results == 0:
        return 1
    chunks_that_fill = target.resident_threads * TERMS_PER_THREAD // (results * target.threads)
    return max(1, min(MAX_CHUNKS, chunks_that_fill, terms // (TERMS_PER_THREAD * target.threads)))


def _emit_two_kernels(
    stage: Stage, combine: Combine, stores: Sequence[Stage], needed: set[Var], chunks: int, target: GpuTarget
) -> Stmt:
    """Emits a reduction of many terms to few results as two GPU kernels.

    The first kernel reduces each of ``chunks`` parts of the terms in blocks of its own, which occupies the GPU. The
    second kernel combines the partial results.
    """
    extents = [axis.extent for axis in stage.reduce]
    total = emit.volume(extents)
    length = ceil_div(total, chunks)
    chunk, term = Axis(Var("chunk", "int64"), emit.index(chunks)), Axis(Var("term", "int64"), emit.as_expr(length))
    shape = [chunk.extent, *(axis.extent for axis in stage.spatial)]
    partial = emit.scratch(shape, stage.dtype, "partials")
    index = chunk.var * length + term.var
    partial_indices = [chunk.var, *(axis.var for axis in stage.spatial)]
    points = dict(zip((axis.var for axis in stage.reduce), emit.unflatten(index, extents), strict=True))
    old = emit.load(partial, partial_indices)
    value = replace_loads(substitute(stage.value, points), stage.buffer, lambda _: old)
    # The last chunk may be shorter.
    if int(total) % chunks:
        value = tirx.if_then_else(index < total, value, old)
    first = Stage(partial, (chunk, *stage.spatial), (term,), stage.init, value)
    last_axis = Axis(Var("chunk", "int64"), emit.index(chunks))
    spatial = [axis.var for axis in stage.spatial]
    combined = combine(emit.load(stage.buffer, spatial), emit.load(partial, [last_axis.var, *spatial]))
    last = replace(stage, reduce=(last_axis,), value=combined)
    stores = [last if other is stage else other for other in stores]
    return emit.sequence(
        [
            emit.allocate(partial),
            _emit_one_kernel(first, combine, [first], {partial}, target),
            _emit_one_kernel(last, combine, stores, needed, target),
        ]
    )
