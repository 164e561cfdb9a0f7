"""The code of one virtual machine function while it is written: calls, and jumps whose targets come later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tvm.relax import ExecBuilder
from tvm.relax.exec_builder import SpecialReg

COPY, NULL, MAKE_TUPLE = "vm.builtin.copy", "vm.builtin.null_value", "vm.builtin.make_tuple"
TUPLE_ITEM, CONDITION = "vm.builtin.tuple_getitem", "vm.builtin.read_if_cond"
STORAGE, TENSOR = "vm.builtin.alloc_storage", "vm.builtin.alloc_tensor"
ZERO_OFFSET = "vm.builtin.ensure_zero_offset"
SHAPE_HEAP, DIM = "vm.builtin.alloc_shape_heap", "vm.builtin.make_prim_value"


class Register(NamedTuple):
    """A place that holds one value during a call of the function."""

    number: int


class Encoded(NamedTuple):
    """An operand that isn't a register, in the form that `ExecBuilder` gave it: a constant or a function."""

    word: int


Operand: TypeAlias = Register | Encoded
VOID = Register(int(SpecialReg.VOID_ARG))
MACHINE = Register(int(SpecialReg.VM_STATE))


@dataclass
class CallInstruction:
    """Run a function and keep its result."""

    name: str
    operands: Sequence[Operand]
    result: Register


@dataclass
class Jump:
    """Go `offset` instructions on (or back); with a condition, only when that is false."""

    at: int
    condition: Register | None = None
    offset: int = 0


class Code:
    """Instructions of one function, in order; registers are numbered from its parameters on."""

    def __init__(self, builder: ExecBuilder, parameter_count: int) -> None:
        self.builder = builder
        self.register_count = parameter_count
        self.late_count = 0
        self.prologue: list[CallInstruction] = []
        self.instructions: list[CallInstruction | Jump] = []
        self.parameter_count = 0

    def new_register(self) -> Register:
        """A register that nothing else uses."""
        self.register_count += 1
        return Register(self.register_count - 1)

    def late_parameter(self) -> Register:
        """A parameter behind those that the function is known to have; its number is settled when the code is emitted."""
        self.late_count += 1
        return Register(-self.late_count)

    def constant(self, value: object) -> Encoded:
        """An operand for a number, string, dtype, shape or tensor."""
        return Encoded(self.builder.convert_constant(value))

    def call(self, name: str, operands: Sequence[Operand], result: Register | None = None) -> Register:
        """Append a call; without `result` its value goes to a new register, which is returned."""
        result = self.new_register() if result is None else result
        self.instructions.append(CallInstruction(name, operands, result))
        return result

    def call_at_entry(self, name: str, operands: Sequence[Operand]) -> Register:
        """Like `call`, but done once at the start of the function, before any loop."""
        result = self.new_register()
        self.prologue.append(CallInstruction(name, operands, result))
        return result

    def copy(self, operand: Operand, result: Register | None = None) -> Register:
        """Put the reference that `operand` holds into another register."""
        return self.call(COPY, [operand], result)

    def clear(self, register: Register) -> None:
        """Let go of what a register holds."""
        self.call(NULL, [], register)

    def as_register(self, operand: Operand) -> Register:
        """The operand itself when it is a register, else a copy in one."""
        return operand if isinstance(operand, Register) else self.copy(operand)

    @property
    def here(self) -> int:
        """Position of the next instruction."""
        return len(self.instructions)

    def jump(self, condition: Operand | None = None) -> Jump:
        """Append a jump forward, to be ended by `land`; with a condition it is taken when that is false."""
        flag = None if condition is None else self.call(CONDITION, [condition])
        jump = Jump(self.here, flag)
        self.instructions.append(jump)
        return jump

    def land(self, jump: Jump) -> None:
        """Make `jump` arrive at the next instruction."""
        jump.offset = self.here - jump.at

    def jump_back(self, target: int) -> None:
        """Append a jump to the earlier position `target`."""
        self.instructions.append(Jump(self.here, offset=target - self.here))

    def calls(self) -> list[CallInstruction]:
        """All calls, in the order of the code."""
        return [*self.prologue, *(each for each in self.instructions if isinstance(each, CallInstruction))]

    def emit(self, symbol: str, parameter_names: list[str], result: Operand) -> None:
        """Hand the finished function over to the builder."""
        returned = self.as_register(result)
        self.parameter_count = len(parameter_names)
        names = [*parameter_names, *(f"place_{i}" for i in range(self.late_count))]
        with self.builder.function(symbol, len(names), names):
            for instruction in [*self.prologue, *self.instructions]:
                self._emit(instruction)
            self.builder.emit_ret(self._word(returned))

    def _emit(self, instruction: CallInstruction | Jump) -> None:
        if isinstance(instruction, CallInstruction):
            operands = [self._word(operand) for operand in instruction.operands]
            self.builder.emit_call(instruction.name, operands, dst=self._number(instruction.result))
        elif instruction.condition is None:
            self.builder.emit_goto(instruction.offset)
        else:
            self.builder.emit_if(self._word(instruction.condition), instruction.offset)

    def _word(self, operand: Operand) -> int:
        return self.builder.r(self._number(operand)) if isinstance(operand, Register) else operand.word

    def _number(self, register: Register) -> int:
        """Where a register lies: the late parameters behind the others, and before all that is computed."""
        number = register.number
        if number < 0:
            return self.parameter_count - 1 - number
        return number if number < self.parameter_count or register in (VOID, MACHINE) else number + self.late_count
