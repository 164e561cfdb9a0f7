"""A kernel as a grid of blocks, and a block as phases that all its threads run, with a barrier between phases.

On the GPU a thread is ``threadIdx.x``. In an emulation each phase is a loop over the threads: registers that live
across phases have an element per thread, and barriers are the ends of these loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.ir import Range
from tvm.tirx import For, ForKind, IterVar, Stmt, Var

from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.gpu.target import SWIZZLED_BYTES, SWIZZLED_LINES, GpuTarget

ThreadBody = Callable[[ir.Expr], Stmt | None]


@dataclass(frozen=True)
class Registers:
    """A buffer private to each thread; in an emulation with an element per thread."""

    buffer: Var
    by_thread: bool

    def at(self, thread: ir.Expr, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Returns the indices of an element of a thread's registers."""
        return [thread, *indices] if self.by_thread else list(indices)

    def load(self, thread: ir.Expr, *indices: ir.Expr) -> ir.Expr:
        return emit.load(self.buffer, self.at(thread, indices))

    def address(self) -> ir.Expr:
        """Returns the address of the first element of this thread's registers, on a GPU."""
        return tirx.address_of(emit.load(self.buffer, [emit.index(0)] * len(self.buffer.ty.shape)))

    def store(self, thread: ir.Expr, value: ir.Expr, *indices: ir.Expr) -> Stmt:
        return emit.store(self.buffer, value, self.at(thread, indices))


class Block:
    """The thread block that a kernel's body is emitted for; ``index`` is its index in the grid."""

    def __init__(self, target: GpuTarget, threads: int, index: ir.Expr, thread: ir.Expr) -> None:
        self.target, self.threads, self.index = target, threads, index
        self.thread = thread
        self.allocations: list[Stmt] = []

    def registers(self, shape: Sequence[int], dtype: str, name: str) -> Registers:
        """Allocates registers for each thread of the block, to be indexed like an array of the given shape.

        Args:
          shape: the shape of the array.
          dtype: the type of its elements.
          name: the name of the buffer.
        """
        emulated = self.target.emulated
        # An emulation runs one phase for all threads before the next, so each thread needs an element of its own.
        extents = [self.threads, *shape] if emulated else list(shape)
        buffer = emit.scratch(extents, dtype, name, "global" if emulated else "local")
        self.allocations.append(emit.allocate(buffer))
        return Registers(buffer, emulated)

    def shared(self, shape: Sequence[int], dtype: str, name: str, large: bool = False) -> Var:
        """Allocates a buffer in the block's shared memory.

        Args:
          shape: the shape of the buffer.
          dtype: the type of its elements.
          name: its name.
          large: whether to use dynamic shared memory, which may exceed the 48 kB that every kernel has. It is aligned
            for swizzled tiles.
        """
        gpu_scope = "shared.dyn" if large else "shared"
        scope = "global" if self.target.emulated else gpu_scope
        alignment = SWIZZLED_LINES * SWIZZLED_BYTES if large else None
        buffer = emit.scratch(shape, dtype, name, scope, alignment)
        self.allocations.append(emit.allocate(buffer))
        return buffer

    def for_each_thread(self, emit_thread: ThreadBody) -> Stmt:
        """Emits a phase, in which every thread of the block runs ``emit_thread(thread)``."""
        if not self.target.emulated:
            return emit.sequence([emit_thread(self.thread)])
        return _all_threads(self.threads, emit_thread)

    def with_barriers(self, *phases: Stmt) -> Stmt:
        """Emits phases in sequence, separated by barriers, so that a phase may read what earlier ones wrote."""
        statements: list[Stmt | None] = []
        for phase in phases:
            if statements:
                statements.append(self.barrier())
            statements.append(phase)
        return emit.sequence(statements)

    def loop(self, extent: int | ir.Expr, phases: Callable[[ir.Expr], Stmt]) -> Stmt:
        """Emits a loop around phases, with a barrier at the end of each iteration."""
        return emit.loop(extent, lambda step: emit.sequence([phases(step), self.barrier()]), name="step")

    def barrier(self) -> Stmt | None:
        """Returns a barrier of the block's threads (``__syncthreads``), or None in an emulation."""
        return None if self.target.emulated else tirx.Evaluate(tirx.op.tvm_storage_sync("shared"))


def _all_threads(threads: int, emit_thread: ThreadBody) -> Stmt:
    """Emits the emulation of a phase: a serial loop over the block's threads."""
    thread = Var("thread", "int64")
    return For(thread, emit.index(0), emit.index(threads), ForKind.SERIAL, emit.sequence([emit_thread(thread)]))


def launch(target: GpuTarget, blocks: int | ir.Expr, threads: int, emit_block: Callable[[Block], Stmt]) -> Stmt:
    """Emits the launch of a GPU kernel with a grid of ``blocks`` blocks of ``threads`` threads.

    Args:
      target: the GPU, or its emulation.
      blocks: the number of blocks, which may be known only at run time, and may be zero.
      threads: the number of threads of a block.
      emit_block: emits the work of a block.
    """
    # An emulation runs the blocks one after another.
    if target.emulated:

        def emulated_block(block_index: ir.Expr) -> Stmt:
            """Emits one block of the emulation."""
            return _with_allocations(Block(target, threads, block_index, block_index), emit_block)

        return emit.loop(blocks, emulated_block)
    block_index = Var("block", "int64")
    thread = Var("thread", "int64")
    block = Block(target, threads, block_index, thread)
    body = _with_allocations(block, emit_block, _empty_grid_guard(block_index, blocks))
    threads_loop = _thread_loop(thread, emit.index(threads), "threadIdx.x", body)
    return _thread_loop(block_index, _at_least_one(blocks), "blockIdx.x", threads_loop)


def _with_allocations(
    block: Block, emit_block: Callable[[Block], Stmt], guard: Callable[[Stmt], Stmt] = lambda stmt: stmt
) -> Stmt:
    """Emits the work of a block, after the allocations of the registers and shared memory that it uses."""
    statement = emit_block(block)
    return emit.sequence([*block.allocations, guard(statement)])


def _empty_grid_guard(index: ir.Expr, blocks: int | ir.Expr) -> Callable[[Stmt], Stmt]:
    """Returns a function that guards a block's work by ``index < blocks``, unless ``blocks`` is known to be positive.

    CUDA rejects a grid without blocks. One block is launched even if there is nothing to do.
    """
    return lambda stmt: stmt if emit.static(blocks) else emit.when(index < blocks, stmt)


def _at_least_one(blocks: int | ir.Expr) -> ir.Expr:
    return emit.as_expr(blocks) if emit.static(blocks) else tirx.max(emit.as_expr(blocks), emit.index(1))


def _thread_loop(var: Var, extent: ir.Expr, tag: str, body: Stmt) -> Stmt:
    """Returns a loop that is bound to a thread axis: its iterations are blocks ("blockIdx.x") or threads ("threadIdx.x")."""
    zero = emit.index(0)
    thread_axis = IterVar(Range.from_min_extent(zero, extent), Var(tag, "int64"), IterVar.ThreadIndex, tag)
    return For(var, zero, extent, ForKind.THREAD_BINDING, body, thread_axis)


def threads_over(target: GpuTarget, iterations: int | ir.Expr, emit_iteration: ThreadBody) -> Stmt:
    """Emits a GPU kernel with one thread for each iteration of a parallel loop.

    Args:
      target: the GPU, or its emulation.
      iterations: the number of iterations, which may be known only at run time.
      emit_iteration: returns the statement of the iteration with a given index, or None.
    """
    static_count = emit.static(iterations)
    # With fewer iterations than a block has threads, the block is smaller.
    threads = target.threads
    if static_count is not None and static_count < target.threads:
        threads = emit.power_of_two_ceil(static_count)
    has_full_blocks = static_count is not None and static_count % threads == 0

    def emit_block(block: Block) -> Stmt:
        """Emits the work of one block: each thread runs one iteration, and threads beyond the last iteration do nothing."""

        def emit_thread(thread: ir.Expr) -> Stmt | None:
            """Emits the iteration of one thread."""
            iteration = block.index * threads + thread
            stmt = emit_iteration(iteration)
            return stmt if has_full_blocks or stmt is None else emit.when(iteration < iterations, stmt)

        return block.for_each_thread(emit_thread)

    return launch(target, ceil_div(iterations, threads), threads, emit_block)


def ceil_div(value: int | ir.Expr, size: int) -> int | ir.Expr:
    """Returns the quotient of ``value`` and ``size``, rounded up and simplified."""
    known_value = emit.static(value)
    if known_value is not None:
        return emit.ceil_div(known_value, size)
    return emit.simplified(emit.ceil_div(emit.as_expr(value), size))
