"""Bytecode for tensors at fixed offsets of the arena: parameters kept by the caller, or tensors made in each call."""

from __future__ import annotations

from typing import Any, NamedTuple

import tvm_ffi
from tvm.relax import ExecBuilder

from tvtf.core.aligned_array import ALIGNMENT
from tvtf.errors import InternalError
from tvtf.passes.codegen.bytecode import MACHINE, MAKE_TUPLE, STORAGE, TENSOR, ZERO_OFFSET, Code, Operand, Register

LAYOUT = "_arena"
"""Suffix of the function that returns an entry's arena layout: size, then offset, shape and dtype of each tensor."""


OUTPUTS = "_outputs"
"""Suffix of the function that returns which outputs an entry returns, if it leaves some in place."""


class ArenaTensor(NamedTuple):
    """A tensor at a fixed offset of the arena."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


class Scratch:
    """The arena tensors that one emitted function uses; each is fetched once at its start, before any loop.

    With `by_caller`, the caller passes them after the other arguments; without, the function allocates them.
    """

    def __init__(self, code: Code, size: int, by_caller: bool) -> None:
        self.code, self.size, self.by_caller = code, size, by_caller
        self.registers: dict[ArenaTensor, Register] = {}
        self._storage: Register | None = None

    def register(self, planned: ArenaTensor) -> Register:
        """Returns the register that holds a planned tensor during the entire call."""
        register = self.registers.get(planned)
        if register is None:
            register = self.registers[planned] = self._fetch(planned)
        return register

    def _fetch(self, planned: ArenaTensor) -> Register:
        """Returns a register that holds a tensor of the arena.

        The register is a parameter, if the caller passes the tensors. Otherwise the function makes the tensor at its
        start.
        """
        if self.by_caller:
            return self.code.late_parameter()
        offset, shape, dtype = map(self.code.constant, _layout_of(planned))
        tensor = self.code.call_at_entry(TENSOR, [self._arena_storage(), offset, shape, dtype])
        return self._with_own_data_pointer(tensor, planned) if planned.offset else tensor

    def _with_own_data_pointer(self, tensor: Register, planned: ArenaTensor) -> Register:
        """Emits the conversion of a tensor's `byte_offset`, which kernels ignore, to an offset of its data pointer.

        TVM's builtin returns a view of an aligned tensor, and a copy of any other. Writes to a copy would be lost.
        Source: EnsureZeroOffset in src/runtime/vm/builtin.cc.
        """
        if planned.offset % ALIGNMENT:
            raise InternalError(None, "codegen", f"the arena offset {planned.offset} is not a multiple of {ALIGNMENT}")
        return self.code.call_at_entry(ZERO_OFFSET, [tensor])

    def _arena_storage(self) -> Register:
        """Returns the register of the storage that the function allocates for its arena."""
        if self._storage is None:
            constants = tvm_ffi.Shape((self.size,)), 0, tvm_ffi.dtype("uint8"), "global"
            operands: list[Operand] = [MACHINE, *(self.code.constant(each) for each in constants)]
            self._storage = self.code.call_at_entry(STORAGE, operands)
        return self._storage

    def emit_layout(self, builder: ExecBuilder, symbol: str) -> None:
        """Emits a function that returns the size of the arena, and the tensors in it that the caller must pass."""
        parts = [part for planned in self.registers for part in _layout_of(planned)]
        emit_constants(builder, symbol + LAYOUT, [self.size, *parts])


def emit_constants(builder: ExecBuilder, symbol: str, values: list[Any]) -> None:
    """Emits a function that returns constants."""
    code = Code(builder, 0)
    code.emit(symbol, [], code.call(MAKE_TUPLE, [code.constant(each) for each in values]))


def _layout_of(planned: ArenaTensor) -> tuple[int, tvm_ffi.Shape, tvm_ffi.dtype]:
    """Returns a tensor's offset, shape and dtype as constants of the virtual machine."""
    return planned.offset, tvm_ffi.Shape(planned.shape), tvm_ffi.dtype(planned.dtype)
