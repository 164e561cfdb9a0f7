"""Emits the stages of a fused group at one point; later stages read a stage's value from a register."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Stage, loads, substitute

Point = dict[Var, ir.Expr]
InRegisters = dict[Var, ir.Expr]
Store = Callable[[Stage, ir.Expr], Stmt]


def stores_at(
    stages: Sequence[Stage], needed: set[Var], point: Point, in_registers: InRegisters, store: Store | None = None
) -> Stmt:
    """Emits the computation and the stores of elementwise stages at one point.

    Args:
      stages: the stages, in order.
      needed: the buffers to store; other values are only read by later stages.
      point: the indices of the point, by axis variable.
      in_registers: the values of buffers that needn't be loaded.
      store: emits the store of a stage's value; by default, the value goes to the stage's buffer.
    """
    in_registers, statements = dict(in_registers), []
    store = store or (lambda stage, value: emit.store(stage.buffer, value, [point[a.var] for a in stage.spatial]))
    for position, stage in enumerate(stages):
        value = in_registers.get(stage.buffer)
        if value is None:
            value = with_register_loads(substitute(stage.value, point), in_registers)
            # A value that later stages read is computed once, into a register.
            if any(_reads(later, stage.buffer) for later in stages[position + 1 :]):
                register = emit.scratch([1], stage.dtype, "held", "local")
                statements += [emit.allocate(register), emit.store(register, value, [emit.index(0)])]
                value = in_registers[stage.buffer] = emit.load(register, [emit.index(0)])
        if stage.buffer in needed:
            statements.append(store(stage, value))
    return emit.sequence(statements)


def with_register_loads(value: ir.Expr, in_registers: InRegisters) -> ir.Expr:
    """Returns an expression with loads of buffers replaced by their values in registers."""
    if not in_registers:
        return value
    return structural_map(value, (TensorLoad, lambda load: in_registers.get(load.source, load)))


def _reads(stage: Stage, buffer: Var) -> bool:
    """Returns whether a stage reads a buffer."""
    return any(load.source.same_as(buffer) for load in loads(stage.value))
