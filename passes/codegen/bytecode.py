"""The bytecode of one function of the virtual machine while it is written: calls, and jumps with open targets."""

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
    """A register of the virtual machine, which holds one value during a call of the function."""

    number: int


class Encoded(NamedTuple):
    """An operand that isn't a register, as `ExecBuilder` encodes it: a constant or a function."""

    word: int


Operand: TypeAlias = Register | Encoded
VOID = Register(int(SpecialReg.VOID_ARG))
MACHINE = Register(int(SpecialReg.VM_STATE))


@dataclass
class CallInstruction:
    """Calls a function and stores its result in a register."""

    name: str
    operands: Sequence[Operand]
    result: Register


@dataclass
class Jump:
    """Jumps by `offset` instructions; with a condition, only if that is false."""

    at: int
    condition: Register | None = None
    offset: int = 0


class Code:
    """The instructions of one function, in order; registers are numbered after its parameters."""

    def __init__(self, builder: ExecBuilder, parameter_count: int) -> None:
        self.builder = builder
        self.register_count = parameter_count
        self.late_count = 0
        self.prologue: list[CallInstruction] = []
        self.instructions: list[CallInstruction | Jump] = []
        self.parameter_count = 0

    def new_register(self) -> Register:
        """Returns an unused register."""
        self.register_count += 1
        return Register(self.register_count - 1)

    def late_parameter(self) -> Register:
        """Adds a parameter after the function's own parameters; its final number is known when the code is emitted."""
        self.late_count += 1
        return Register(-self.late_count)

    def constant(self, value: object) -> Encoded:
        """Returns an operand for a number, string, dtype, shape or tensor."""
        return Encoded(self.builder.convert_constant(value))

    def call(self, name: str, operands: Sequence[Operand], result: Register | None = None) -> Register:
        """Appends a call; without `result` its value goes to a new register, which is returned."""
        result = self.new_register() if result is None else result
        self.instructions.append(CallInstruction(name, operands, result))
        return result

    def call_at_entry(self, name: str, operands: Sequence[Operand]) -> Register:
        """Adds a call that runs once, at the start of the function before any loop; returns its value's register."""
        result = self.new_register()
        self.prologue.append(CallInstruction(name, operands, result))
        return result

    def copy(self, operand: Operand, result: Register | None = None) -> Register:
        """Copies the reference that `operand` holds into another register."""
        return self.call(COPY, [operand], result)

    def clear(self, register: Register) -> None:
        """Releases the value that a register holds."""
        self.call(NULL, [], register)

    def as_register(self, operand: Operand) -> Register:
        """Returns the operand if it is a register, else a register with a copy of it."""
        return operand if isinstance(operand, Register) else self.copy(operand)

    @property
    def here(self) -> int:
        """The position of the next instruction."""
        return len(self.instructions)

    def jump(self, condition: Operand | None = None) -> Jump:
        """Appends a forward jump, taken always or if a condition is false; `land` later sets the jump's target."""
        flag = None if condition is None else self.call(CONDITION, [condition])
        jump = Jump(self.here, flag)
        self.instructions.append(jump)
        return jump

    def land(self, jump: Jump) -> None:
        """Makes the next instruction the target of `jump`."""
        jump.offset = self.here - jump.at

    def jump_back(self, target: int) -> None:
        """Appends a jump to the earlier position `target`."""
        self.instructions.append(Jump(self.here, offset=target - self.here))

    def calls(self) -> list[CallInstruction]:
        """Returns all calls, in the order of the code."""
        return [*self.prologue, *(each for each in self.instructions if isinstance(each, CallInstruction))]

    def emit(self, symbol: str, parameter_names: list[str], result: Operand) -> None:
        """Emits the finished function with TVM's bytecode builder.

        Args:
          symbol: the function's name.
          parameter_names: the names of its parameters, without the late ones, which are tensors of the arena.
          result: the operand that the function returns.
        """
        returned = self.as_register(result)
        self.parameter_count = len(parameter_names)
        names = [*parameter_names, *(f"place_{i}" for i in range(self.late_count))]
        with self.builder.function(symbol, len(names), names):
            for instruction in [*self.prologue, *self.instructions]:
                self._emit(instruction)
            self.builder.emit_ret(self._word(returned))

    def _emit(self, instruction: CallInstruction | Jump) -> None:
        """Emits one instruction with TVM's builder."""
        if isinstance(instruction, CallInstruction):
            operands = [self._word(operand) for operand in instruction.operands]
            self.builder.emit_call(instruction.name, operands, dst=self._number(instruction.result))
        elif instruction.condition is None:
            self.builder.emit_goto(instruction.offset)
        else:
            self.builder.emit_if(self._word(instruction.condition), instruction.offset)

    def _word(self, operand: Operand) -> int:
        """Returns an operand as TVM's builder encodes it."""
        return self.builder.r(self._number(operand)) if isinstance(operand, Register) else operand.word

    def _number(self, register: Register) -> int:
        """Returns the number of a register in the finished function.

        The registers are numbered in this order: parameters, late parameters (tensors that the caller passes last), and
        computed values. Until their count is known, late parameters have the numbers -1, -2, and so on.
        """
        number = register.number
        is_late = number < 0
        if is_late:
            late_index = -1 - number
            return self.parameter_count + late_index
        # `VOID` and `MACHINE` are special registers of the virtual machine, with fixed numbers.
        is_before_late = number < self.parameter_count or register in (VOID, MACHINE)
        return number if is_before_late else number + self.late_count
