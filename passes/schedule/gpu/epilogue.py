"""Emits one iteration of the stages of a fused group; later stages read a stage's value from a register."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import AxisIndices, Stage, loads, substitute

InRegisters = dict[Var, ir.Expr]
"""Elements that are in registers, by the buffer that they belong to."""
Store = Callable[[Stage, ir.Expr], Stmt]


def emit_stages_at(
    stages: Sequence[Stage],
    needed: set[Var],
    axis_indices: AxisIndices,
    in_registers: InRegisters,
    store: Store | None = None,
) -> Stmt:
    """Emits the computation and the stores of elementwise stages in one iteration of their axes.

    Args:
      stages: the stages, in order.
      needed: the buffers to store; other values are only read by later stages.
      axis_indices: the iteration.
      in_registers: the values of buffers that needn't be loaded.
      store: emits the store of a stage's value; by default, the value goes to the stage's buffer.
    """
    in_registers, statements = dict(in_registers), []

    def store_to_buffer(stage: Stage, value: ir.Expr) -> Stmt:
        return emit.store(stage.buffer, value, [axis_indices[axis.var] for axis in stage.spatial])

    store = store or store_to_buffer
    for position, stage in enumerate(stages):
        value = in_registers.get(stage.buffer)
        if value is None:
            value = with_register_loads(substitute(stage.value, axis_indices), in_registers)
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
