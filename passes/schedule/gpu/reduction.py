"""Reductions: the threads of a block share a result's terms, and combine their partial results in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import Combine, combiner
from tvtf.passes.schedule.cpu.kernel import Axis, AxisIndices, Stage, indices_of_axes, replace_loads, substitute
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.vector_axis import last_non_unit_axis, operands_of
from tvtf.passes.schedule.gpu.block import Block, Registers, ceil_div, launch
from tvtf.passes.schedule.gpu.epilogue import emit_stages_at
from tvtf.passes.schedule.gpu.target import GpuTarget

UNKNOWN_SIZE = 512
"""The size that is assumed for an axis whose size is known only at run time."""
TERMS_PER_THREAD = 4
"""Terms that a thread reduces, at least."""
MIN_TERMS_FOR_TWO_KERNELS = 1 << 14
MAX_CHUNKS = 512
"""Chunks into which the terms of a result are split for two kernels, at most."""
StoreResult = Callable[[AxisIndices, ir.Expr], Stmt]


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
    result_count = emit.volume([axis.extent for axis in stage.spatial])

    def store_result(axis_indices: AxisIndices, value: ir.Expr) -> Stmt:
        return emit_stages_at(stores, needed, axis_indices, {stage.buffer: value})

    def emit_block(block: Block) -> Stmt:
        """Emits the work of one block: it computes ``split.results`` results, each by several threads."""

        def indices_of_thread(thread: ir.Expr) -> tuple[AxisIndices, ir.Expr]:
            """Returns the indices of a thread's result, and whether it exists: the last block may have fewer."""
            result = block.index * split.results + split.result_of(thread)
            return indices_of_axes(stage.spatial, result), _is_inside(result, result_count, split.results)

        return reduce_in_block(block, stage, combine, split, indices_of_thread, store_result)

    return launch(target, ceil_div(result_count, split.results), split.slices * split.results, emit_block)


def _is_inside(index: ir.Expr, total: ir.Expr, results: int) -> ir.Expr:
    """Returns the condition ``index < total``, or true if ``total`` is known to be a multiple of ``results``."""
    static_total = emit.static(total)
    if static_total is not None and static_total % results == 0:
        return tirx.const(True, "bool")
    return index < total


def reduce_in_block(
    block: Block,
    stage: Stage,
    combine: Combine | None,
    split: Split,
    indices_of_thread: Callable[[ir.Expr], tuple[AxisIndices, ir.Expr]],
    store_result: StoreResult,
) -> Stmt:
    """Emits a block's work for a reduction: each thread reduces a slice of a result's terms, then slices are combined.

    Partial results are combined in shared memory, pair by pair, until one is left.

    Args:
      split: which thread reduces which slice of which result.
      indices_of_thread: returns the indices of a thread's result, and whether the result exists.
      store_result: emits the code that stores a result.
    """
    zero = emit.index(0)
    accumulator = block.registers([1], stage.dtype, "accumulator")

    def emit_slice(thread: ir.Expr) -> Stmt:
        """Emits a thread's reduction of its own slice (every n-th of the terms), in a register."""
        result_indices, exists = indices_of_thread(thread)
        initialize = accumulator.store(thread, substitute(stage.init, result_indices), zero)
        slice_index = split.slice_of(thread)
        reduce_terms = _reduce_slice(stage, split.slices, slice_index, result_indices, accumulator, thread)
        return emit.sequence([initialize, emit.when(exists, reduce_terms)])

    def emit_result(thread: ir.Expr, value: ir.Expr) -> Stmt:
        result_indices, exists = indices_of_thread(thread)
        return emit.when(exists, store_result(result_indices, value))

    def emit_thread_alone(thread: ir.Expr) -> Stmt:
        return emit.sequence([emit_slice(thread), emit_result(thread, accumulator.load(thread, zero))])

    if combine is None or split.slices == 1:
        return block.for_each_thread(emit_thread_alone)
    partials = block.shared([block.threads], stage.dtype, "partial")

    def emit_partial(thread: ir.Expr) -> Stmt:
        return emit.sequence([emit_slice(thread), emit.store(partials, accumulator.load(thread, zero), [thread])])

    def halve(distance: int) -> Stmt:
        """Emits one step of a tree reduction in shared memory, which halves the number of partial results.

        Each of the first ``distance`` partial results is combined with the one ``distance`` slices further. So n
        partial results are combined in log2(n) steps, instead of n - 1 serial ones.
        """

        def emit_thread(thread: ir.Expr) -> Stmt:
            """Emits the combination of a thread's partial result with that of the thread ``distance`` slices away."""
            slice_index = split.slice_of(thread)
            result = split.result_of(thread)
            own_partial = emit.load(partials, [thread])
            other_partial = emit.load(partials, [split.thread_of(slice_index + distance, result)])
            store = emit.store(partials, combine(own_partial, other_partial), [thread])
            return emit.when(slice_index < distance, store)

        return block.for_each_thread(emit_thread)

    def store_combined(thread: ir.Expr) -> Stmt | None:
        """Emits the store of the combined result, which the thread of slice 0 has."""
        return emit.when(split.slice_of(thread) < 1, emit_result(thread, emit.load(partials, [thread])))

    # With 8 slices: 4, 2, 1.
    distances = [split.slices >> k for k in range(1, split.slices.bit_length())]
    return block.with_barriers(
        block.for_each_thread(emit_partial), *map(halve, distances), block.for_each_thread(store_combined)
    )


def _reduce_slice(
    stage: Stage,
    slices: int,
    slice_index: ir.Expr,
    result_indices: AxisIndices,
    accumulator: Registers,
    thread: ir.Expr,
) -> Stmt:
    """Emits the loop in which a thread reduces its slice of a result's terms: every ``slices``-th term.

    If terms are contiguous, neighbouring threads read neighbouring elements, which the GPU coalesces into one access.
    """
    total = emit.volume([axis.extent for axis in stage.reduce])
    static_total = emit.static(total)
    zero = emit.index(0)

    def update(step: ir.Expr) -> Stmt:
        """Emits the combination of one term with the accumulator, unless the step is beyond the last term.

        The terms are distributed cyclically over the threads of a result: in step 2, the thread of slice 1 of 8 adds
        term 2 * 8 + 1.
        """
        term = step * slices + slice_index if slices > 1 else step
        accumulated = accumulator.load(thread, zero)
        value = substitute(stage.value, {**result_indices, **indices_of_axes(stage.reduce, term)})
        combined = replace_loads(value, stage.buffer, lambda _: accumulated)
        store = accumulator.store(thread, combined, zero)
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
    last_term_axis = last_non_unit_axis(stage.reduce)
    last_result_axis = last_non_unit_axis(stage.spatial)
    if last_term_axis is None:
        return False
    if last_result_axis is None:
        return True
    operands = operands_of(stage)
    along_terms = sum(access.load_stride(operand, last_term_axis.var) == 1 for operand in operands)
    along_results = sum(access.load_stride(operand, last_result_axis.var) == 1 for operand in operands)
    return along_terms > along_results


def _chunk_count(stage: Stage, target: GpuTarget) -> int:
    """Returns the number of chunks that the terms of a reduction are split into, to occupy the GPU.

    It is 1 if there are many results or few terms, or if their counts aren't static. A block reduces one chunk of a
    result's terms, and a second kernel combines the chunks.
    """
    terms = access.iteration_count(stage.reduce)
    results = access.iteration_count(stage.spatial)
    if terms is None or results is None:
        return 1
    if terms < MIN_TERMS_FOR_TWO_KERNELS or results == 0:
        return 1
    # A chunk has enough terms for all threads of a block.
    max_chunks = terms // (TERMS_PER_THREAD * target.threads)
    chunks_that_fill_gpu = target.resident_threads * TERMS_PER_THREAD // (results * target.threads)
    return max(1, min(MAX_CHUNKS, chunks_that_fill_gpu, max_chunks))


def _emit_two_kernels(
    stage: Stage, combine: Combine, stores: Sequence[Stage], needed: set[Var], chunks: int, target: GpuTarget
) -> Stmt:
    """Emits a reduction of many terms to few results as two GPU kernels.

    The first kernel reduces each of ``chunks`` chunks of the terms in blocks of its own, which occupies the GPU. The
    second kernel combines the partial results.

    Args:
      stage: the reduction.
      combine: combines two partial results.
      stores: the stages to run on each result.
      needed: the buffers of results that are read outside of the kernel.
      chunks: the number of chunks of the terms.
      target: the GPU.
    """
    chunk_stage = _chunk_stage(stage, chunks)
    partials = chunk_stage.buffer
    final_stage = _final_stage(stage, partials, chunks, combine)
    final_stores = [final_stage if other is stage else other for other in stores]
    reduce_chunks = _emit_one_kernel(chunk_stage, combine, [chunk_stage], {partials}, target)
    combine_chunks = _emit_one_kernel(final_stage, combine, final_stores, needed, target)
    return emit.sequence([emit.allocate(partials), reduce_chunks, combine_chunks])


def _chunk_stage(stage: Stage, chunks: int) -> Stage:
    """Returns the stage that reduces each chunk of a reduction's terms, with the chunk as an additional first axis."""
    total = emit.volume([axis.extent for axis in stage.reduce])
    length = ceil_div(total, chunks)
    chunk = Axis(Var("chunk", "int64"), emit.index(chunks))
    term = Axis(Var("term", "int64"), emit.as_expr(length))
    axes = (chunk, *stage.spatial)
    partials = emit.scratch([axis.extent for axis in axes], stage.dtype, "partials")
    accumulated = emit.load(partials, [axis.var for axis in axes])
    term_index = chunk.var * length + term.var
    value = substitute(stage.value, indices_of_axes(stage.reduce, term_index))
    value = replace_loads(value, stage.buffer, lambda _: accumulated)
    # The last chunk may be shorter.
    if int(total) % chunks:
        value = tirx.if_then_else(term_index < total, value, accumulated)
    return Stage(partials, axes, (term,), stage.init, value)


def _final_stage(stage: Stage, partials: Var, chunks: int, combine: Combine) -> Stage:
    """Returns the stage that combines the partial results of all chunks of a reduction's terms."""
    chunk = Axis(Var("chunk", "int64"), emit.index(chunks))
    spatial = [axis.var for axis in stage.spatial]
    combined = combine(emit.load(stage.buffer, spatial), emit.load(partials, [chunk.var, *spatial]))
    return replace(stage, reduce=(chunk,), value=combined)
