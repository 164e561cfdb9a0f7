"""Chains such as softmax and layer normalization: one block per row, which stays in shared memory between stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import ir, tirx
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.kernel import Opaque, Stage, replace_loads, substitute
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.rows import Chain, chain_at
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.gpu.block import Block, ceil_div, launch
from tvtf.passes.schedule.gpu.epilogue import Point
from tvtf.passes.schedule.gpu.reduction import Split, reduce_in_block
from tvtf.passes.schedule.gpu.target import GpuTarget

ANY_CPU = CpuTarget(vector_bits=128, vector_registers=16, cores=1)
"""A stand-in for `chain_at`: only the number of rows that are worth a chain depends on it."""
SHORTEST_ROW = 32


def chain_of(stages: Sequence[Stage | Opaque], start: int) -> Chain | None:
    """Returns the chain that begins at a stage, if its rows are long enough for a block and it can run all stages."""
    chain = chain_at(stages, start, ANY_CPU)
    return (
        chain
        if chain is not None and all(_fits(stage, chain.depth) for stage in chain.stages) and _is_long(chain)
        else None
    )


def _fits(stage: Stage, depth: int) -> bool:
    results = access.points(stage.spatial[depth:])
    if results is None or any(axis.size is None for axis in stage.reduce):
        return False
    return not stage.reduce or (results == 1 and combiner(merged_reduction(stage)) is not None)


def _is_long(chain: Chain) -> bool:
    return max(prod(a.size or 1 for a in (*s.spatial[chain.depth :], *s.reduce)) for s in chain.stages) >= SHORTEST_ROW


def emit_chain(chain: Chain, needed: set[Var], target: GpuTarget) -> Stmt | None:
    """Returns one kernel for a chain, or None if a row doesn't fit into shared memory.

    A block computes a row; what only its stages read stays in shared memory.
    """
    intermediates = [stage for stage in chain.stages if stage.buffer not in needed]
    inner = {
        stage.buffer: [emit.index(axis.size or 1) for axis in stage.spatial[chain.depth :]] for stage in intermediates
    }
    # Four bytes are reserved for narrower types, too.
    size = sum(prod(map(int, inner[stage.buffer])) * max(4, stage.item_bytes) for stage in intermediates)
    partials = sum(target.threads * stage.item_bytes for stage in chain.stages if stage.reduce)
    if size + partials > target.shared_bytes:
        return None
    rows = [axis.extent for axis in chain.stages[0].spatial[: chain.depth]]

    def body(block: Block) -> Stmt:
        shared_buffers = {
            stage.buffer: block.shared([*map(int, inner[stage.buffer])] or [1], stage.dtype, "row")
            for stage in intermediates
        }
        row = _Row(block, chain.depth, emit.unflatten(block.number, rows), shared_buffers)
        return block.then(*map(row.stage, chain.stages))

    return launch(target, emit.volume(rows), target.threads, body)


@dataclass(frozen=True)
class _Row:
    """A block working on the row at ``places``, with buffers that nothing else needs in shared memory."""

    block: Block
    depth: int
    places: list[ir.Expr]
    shared_buffers: dict[Var, Var]

    def stage(self, stage: Stage) -> Stmt:
        point = {axis.var: at for axis, at in zip(stage.spatial, self.places, strict=False)}
        if stage.reduce:
            return self._reduced(merged_reduction(stage), point)
        return self._each(replace(stage, value=self._reading(stage)), point)

    def _reading(self, stage: Stage) -> ir.Expr:
        """Returns a stage's value with buffers in shared memory read from there."""
        value = stage.value
        for buffer, shared in self.shared_buffers.items():
            if not buffer.same_as(stage.buffer):
                value = replace_loads(value, buffer, self._load_of(shared))
        return value

    def _load_of(self, shared: Var) -> Callable[[list[ir.Expr]], ir.Expr]:
        return lambda indices: emit.load(shared, self._inner(indices))

    def _inner(self, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        return list(indices[self.depth :]) or [emit.index(0)]

    def _store(self, stage: Stage, value: ir.Expr, point: Point) -> Stmt:
        at = [point[axis.var] for axis in stage.spatial]
        shared = self.shared_buffers.get(stage.buffer)
        return emit.store(stage.buffer, value, at) if shared is None else emit.store(shared, value, self._inner(at))

    def _each(self, stage: Stage, row: Point) -> Stmt:
        """Returns an elementwise stage of the row; each thread takes every n-th element.

        Neighbouring threads thus access neighbours in memory.
        """
        axes = stage.spatial[self.depth :]
        extents = [axis.extent for axis in axes]
        total, threads = int(emit.volume(extents)), self.block.threads

        def work(thread: ir.Expr) -> Stmt:
            """Computes a thread's elements of a row, one in every round of all threads."""

            def one(round_number: ir.Expr) -> Stmt | None:
                place = round_number * threads + thread
                point = {**row, **{a.var: at for a, at in zip(axes, emit.unflatten(place, extents), strict=True)}}
                stmt = self._store(stage, substitute(stage.value, point), point)
                return stmt if total % threads == 0 else emit.when(place < total, stmt)

            return emit.loop(ceil_div(total, threads), one, name="turn")

        return self.block.each(work)

    def _reduced(self, stage: Stage, row: Point) -> Stmt:
        """Returns a reduction of the row; all threads share its terms."""
        combine = combiner(stage)
        point = {**row, **{axis.var: emit.index(0) for axis in stage.spatial[self.depth :]}}
        always = tirx.const(True, "bool")
        reading = replace(stage, value=self._reading(stage))
        split = Split(self.block.threads, 1, True)
        return reduce_in_block(
            self.block,
            reading,
            combine,
            split,
            lambda _: (point, always),
            lambda at, value: self._store(stage, value, at),
        )
