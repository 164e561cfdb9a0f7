"""Stores the stages of a group at one point; each stage's value is read by the next from a register."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Stage, loads, substitute

Point = dict[Var, ir.Expr]
Known = dict[Var, ir.Expr]
Store = Callable[[Stage, ir.Expr], Stmt]


def stores_at(
    stages: Sequence[Stage], needed: set[Var], point: Point, known: Known, store: Store | None = None
) -> Stmt:
    """Returns the stores of all stages at a point; ``known`` maps buffers to their values in registers."""
    known, parts = dict(known), []
    store = store or (lambda stage, value: emit.store(stage.buffer, value, [point[a.var] for a in stage.spatial]))
    for position, stage in enumerate(stages):
        value = known.get(stage.buffer)
        if value is None:
            value = reading(substitute(stage.value, point), known)
            # A value that later stages read is computed once, into a register.
            if any(_reads(later, stage.buffer) for later in stages[position + 1 :]):
                register = emit.scratch([1], stage.dtype, "held", "local")
                parts += [emit.allocate(register), emit.store(register, value, [emit.index(0)])]
                value = known[stage.buffer] = emit.load(register, [emit.index(0)])
        if stage.buffer in needed:
            parts.append(store(stage, value))
    return emit.sequence(parts)


def reading(value: ir.Expr, known: Known) -> ir.Expr:
    """Returns a value with loads of known buffers replaced."""
    if not known:
        return value
    return structural_map(value, (TensorLoad, lambda load: known.get(load.source, load)))


def _reads(stage: Stage, buffer: Var) -> bool:
    return any(load.source.same_as(buffer) for load in loads(stage.value))
