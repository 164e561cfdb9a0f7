"""Checks a memory plan: runs a function's kernels on a model of its memory, and finds reads of overwritten values.

The model records which variable was written last to each range of bytes. It is independent of how plans are made
(`tvtf.passes.memory.memory_plan`, TVM's StaticPlanBlockMemory), so it doesn't repeat their mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx

from tvtf.core.aligned_array import ALIGNMENT
from tvtf.core.tvm_visitor import structural_walk
from tvtf.core.variable_lock import cached_property
from tvtf.ir.dialect import bindings_of
from tvtf.ops.host import CALL_SYMBOL, GRADIENT_SYMBOL, KERNEL_SYMBOL, RECORD_SYMBOL
from tvtf.passes.memory.memory_plan import ARENA_PARTS, ARENA_SIZE, ARENA_TENSOR, bytes_of, is_kernel_call, variables
from tvtf.passes.schedule.cpu.subroutine import written_buffers

ARENA = "the arena"
ON_HOST = frozenset({CALL_SYMBOL, RECORD_SYMBOL, GRADIENT_SYMBOL, KERNEL_SYMBOL})
TENSOR_IN_STORAGE, STORAGE = "relax.memory.alloc_tensor", "relax.memory.alloc_storage"


class Range(NamedTuple):
    """Bytes of the arena, or of a storage that a variable names."""

    where: Any
    begin: int
    end: int

    def overlaps(self, other: Range) -> bool:
        return self.where == other.where and self.begin < other.end and other.begin < self.end


def violations(mod: tvm.IRModule, func: relax.Function) -> Iterator[tuple[Any, str]]:
    """Finds errors in a function's memory plan: misplaced tensors, and reads of overwritten values.

    Yields each faulty binding with a description of the problem. A value that is overwritten before its last use would
    give wrong numbers without an error.
    """
    yield from _Memory(mod, func).violations()


class _Memory:
    """The model of one function's memory: the range of each tensor, and the variable last written to each range."""

    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        self.mod, self.func = mod, func
        self.ranges: dict[Any, Range] = {}
        self.written: dict[Range, Any] = {}
        self.roots: dict[Any, list[Any]] = {}
        self.clobbered: dict[Any, str] = {}

    @cached_property
    def parts(self) -> dict[str, Range]:
        """Returns the range of the arena that each called function uses for its values, by the function's name.

        The arena is the block of memory for the values of all functions. A callee's range lies in that of its caller. A
        call may overwrite anything in the callee's range.
        """
        attrs = self.func.attrs or {}
        ranges = {}
        for name, begin in attrs[ARENA_PARTS].items() if ARENA_PARTS in attrs else ():
            callee_attrs = self.mod[str(name)].attrs or {}
            callee_size = int(callee_attrs.get(ARENA_SIZE, 0))
            ranges[str(name)] = Range(ARENA, int(begin), int(begin) + callee_size)
        return ranges

    def violations(self) -> Iterator[tuple[Any, str]]:
        """Interprets all bindings of the function; yields each binding that violates the memory plan, with the problem.

        Problems of the function's results come last, with None for the binding.
        """
        for binding in bindings_of(self.func.body):
            problem = self.run_binding(binding)
            if problem:
                yield binding, problem
        for var in self.allocations_of(self.func.body.body):
            if var in self.clobbered:
                yield None, f"it returns {var.name!r}, which was overwritten by {self.clobbered[var]}"

    def run_binding(self, binding: Any) -> str | None:
        """Simulates one binding on the memory model: records allocations and writes, and checks reads.

        Returns a description of the problem, or None. It is no problem to overwrite a value that nothing reads later.
        """
        var, value = binding.var, binding.value
        memory_range = self.allocated_range(value, var)
        if memory_range is not None:
            self.ranges[var] = memory_range
            self.roots[var] = [var]
            return self.placement_problem(memory_range)
        used = self.allocations_of(value)
        for source in used:
            if source in self.clobbered and not self.is_only_written(value, source):
                return f"it reads {source.name!r}, which was overwritten by {self.clobbered[source]}"
        for result in self.outputs(value):
            self.write(result, result.name)
        # A called function may write anywhere in its part of the arena.
        for name in self.callees(value):
            self.clobber(self.parts[name], f"a value of {name!r}", ())
        # Results of kernels and of calls to the host don't share memory with their operands; other results may.
        if not is_kernel_call(self.mod, value) and not _is_host_call(value):
            self.roots[var] = used
        return None

    def allocated_range(self, value: Any, var: Any) -> Range | None:
        """Returns the range of memory that a binding allocates for its variable, or None if it isn't an allocation."""
        if not isinstance(value, relax.Call) or not isinstance(value.op, ir.Op):
            return None
        size = bytes_of(var.ty) if isinstance(var.ty, relax.TensorType) else None
        if value.op.name == ARENA_TENSOR and size is not None:
            begin = int(value.attrs["offset"])
            return Range(ARENA, begin, begin + size)
        if value.op.name == TENSOR_IN_STORAGE and isinstance(value.args[1], tirx.IntImm):
            storage = value.args[0]
            begin = int(value.args[1])
            # At least one byte, so that tensors at the same offset overlap.
            occupied_size = 1 if size is None else max(size, 1)
            return Range(storage, begin, begin + occupied_size)
        return None

    def placement_problem(self, memory_range: Range) -> str | None:
        """Checks the alignment, end and offset of a tensor's range; returns a description of the problem, or None.

        Tensors in the arena are aligned to cache lines, and kernels assume that tensors begin where their storage does.
        """
        if memory_range.where != ARENA:
            if memory_range.begin:
                return f"it begins at {memory_range.begin} of its storage, and kernels take it to begin at 0"
            return None
        if memory_range.begin % ALIGNMENT:
            return f"it begins at {memory_range.begin}, which is not a multiple of {ALIGNMENT}"
        arena_size = int((self.func.attrs or {}).get(ARENA_SIZE, 0))
        if memory_range.end > arena_size:
            return f"it ends at {memory_range.end}, beyond the function's part of the arena"
        return None

    def allocations_of(self, value: Any) -> list[Any]:
        """Returns the variables with allocated memory that a value may alias or read."""
        return list(dict.fromkeys(root for var in variables(value) for root in self.roots.get(var, ())))

    # -- what is written

    def outputs(self, value: Any) -> list[Any]:
        """Returns the variables with allocated memory that a kernel call writes."""
        if not is_kernel_call(self.mod, value):
            return []
        stored = _stored_params(self.mod[value.op])
        return [root for i, arg in enumerate(value.args) if i in stored for root in self.allocations_of(arg)]

    def is_only_written(self, value: Any, var: Any) -> bool:
        """Returns whether a kernel call writes a variable and doesn't read it: it is passed for no other operand."""
        if not is_kernel_call(self.mod, value):
            return False
        stored = _stored_params(self.mod[value.op])
        return all(i in stored for i, arg in enumerate(value.args) if var in self.allocations_of(arg))

    def write(self, var: Any, name: str) -> None:
        """Records that a variable was written to its range, where other values are lost."""
        self.clobbered.pop(var, None)
        memory_range = self.ranges[var]
        self.clobber(memory_range, repr(name), (var,))
        self.written[memory_range] = var

    def clobber(self, memory_range: Range, writer: str, spared: tuple[Any, ...]) -> None:
        """Records that a write overwrites all values in a range of memory.

        Args:
          memory_range: the range.
          writer: a description of what is written, for the error text.
          spared: the variables that keep their values, such as the written variable itself.
        """
        for occupied_range, var in list(self.written.items()):
            if var in spared or not occupied_range.overlaps(memory_range):
                continue
            del self.written[occupied_range]
            # Several variables may be in the same range, such as a tensor and its reshape.
            for view, view_range in self.ranges.items():
                if view not in spared and view_range == occupied_range:
                    self.clobbered[view] = writer

    def callees(self, value: Any) -> list[str]:
        """Returns the names of the functions that a value calls and that use a part of the arena."""
        names: list[ir.GlobalVar] = []
        if self.parts:
            structural_walk(value, (ir.GlobalVar, names.append))
        return [var.name_hint for var in names if var.name_hint in self.parts]


def _is_host_call(value: Any) -> bool:
    """Returns whether a value is a call of the host, whose results share no memory with its operands (`tvtf.ops.host`)."""
    is_call = isinstance(value, relax.Call) and isinstance(value.op, relax.ExternFunc)
    return is_call and value.op.global_symbol in ON_HOST


def _stored_params(kernel: tirx.PrimFunc) -> set[int]:
    """Returns the positions of the parameters that a kernel stores into."""
    buffers = written_buffers(kernel.body)
    return {i for i, param in enumerate(kernel.params) if param in buffers}


def stores_outside(func: tirx.PrimFunc) -> list[tirx.BufferStore]:
    """Returns the stores in a kernel that write outside of their buffer, at a constant index.

    Such a store overwrites other memory, without an error at run time.
    """
    stores: list[tirx.BufferStore] = []

    def collect(store: tirx.BufferStore) -> None:
        """Adds a store to the list if any of its indices is outside of the buffer's shape."""
        if any(map(_is_outside, store.indices, store.buffer.ty.shape)):
            stores.append(store)

    structural_walk(func.body, (tirx.BufferStore, collect))
    return stores


def _is_outside(index: Any, extent: Any) -> bool:
    return isinstance(index, tirx.IntImm) and isinstance(extent, tirx.IntImm) and not 0 <= int(index) < int(extent)
