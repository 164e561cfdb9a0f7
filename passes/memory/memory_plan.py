"""Static memory planning: internal results of kernels are assigned offsets in one block, the arena, which every call reuses.

Each function's values of static size have offsets in its part of the block; the part of a branch or loop body lies among
the values of the function that runs it. Results of functions and tensors with symbolic dims are allocated as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.dead_code import without_unused
from tvtf.passes.analysis.loop_op import LOOPS
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.memory.best_fit import Interval, align_up, assign_offsets, extent, peak_live_bytes

ARENA_TENSOR = "tvtf.arena_tensor"
ONLY_RESHAPES = "tvtf.reshape"
"""Attribute of a kernel that writes only its results: whether all it does is reshape its argument."""
ARENA_SIZE, ARENA_PARTS, PEAK_LIVE_BYTES = "tvtf.arena", "tvtf.arena_parts", "tvtf.live"
"""Attributes of a function: the bytes of its part, the offsets of its callees' parts, and the peak of live bytes."""


def plan_arena(mod: tvm.IRModule) -> tvm.IRModule:
    """Assigns each function's values offsets in one block of memory, the arena, instead of allocating them in every call.

    Kernels that aren't called any more are dropped.
    """
    return _Planner(mod).run()


class _Planner:
    """One run over a module; a function is planned after those that it calls, whose sizes it needs."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.planned: dict[str, relax.Function] = {}
        self.conditions = {call.args[0].name_hint for func in _functions(mod).values() for call in _loops(func)}

    def run(self) -> tvm.IRModule:
        result = self.mod.clone()
        for var in _functions(self.mod):
            result.update_func(var, self.planned_function(var.name_hint))
        return without_unused(result)

    def planned_function(self, name: str) -> relax.Function:
        """Returns the function ``name`` with its memory planned. Later calls return the same function again."""
        if name not in self.planned:
            func = self.mod[name]
            # If the function calls itself, the inner call finds it unplanned.
            self.planned[name] = func
            self.planned[name] = self._plan(func, returns_flag=name in self.conditions)
        return self.planned[name]

    def _plan(self, func: relax.Function, returns_flag: bool) -> relax.Function:
        """Returns a function whose values of static size have fixed offsets in the arena.

        Values with disjoint lifetimes share memory. Each called function has a part of the arena among the values.

        Args:
          func: the function.
          returns_flag: whether the function is a loop's condition, whose result may be in the arena, too.
        """
        lifetimes = Lifetimes(self.mod, func, returns_flag)
        allocations = list(lifetimes.intervals)
        parts = [(position, callee, self._size(callee)) for position, callee in lifetimes.callees]
        intervals = [lifetimes.intervals[allocation] for allocation in allocations]
        # A called function needs its part only while it runs.
        intervals += [Interval(position, position, size) for position, _, size in parts]
        offsets = assign_offsets(intervals)
        arena_size = extent(intervals, offsets)
        if not arena_size:
            return func
        allocation_offsets, callee_offsets = offsets[: len(allocations)], offsets[len(allocations) :]
        part_offsets = {callee: offset for (_, callee, _), offset in zip(parts, callee_offsets)}
        value_offsets = {}
        for allocation, offset in zip(allocations, allocation_offsets):
            for var in (allocation, *lifetimes.views.get(allocation, ())):
                value_offsets[var] = offset
        attrs = {ARENA_SIZE: arena_size, ARENA_PARTS: part_offsets, PEAK_LIVE_BYTES: peak_live_bytes(intervals)}
        return _rewritten(func, value_offsets, lifetimes).with_attrs(attrs)

    def _size(self, name: str) -> int:
        """Returns the bytes that a function's values need in the arena."""
        attrs = self.planned_function(name).attrs
        return int(attrs[ARENA_SIZE]) if attrs and ARENA_SIZE in attrs else 0


class Lifetimes:
    """Lifetimes of the allocations in straight-line code that can be planned, and the calls of other functions."""

    def __init__(self, mod: tvm.IRModule, func: relax.Function, returns_flag: bool = False) -> None:
        """Finds the lifetime of each allocation in a function: the positions of the first and last binding that use it.

        Allocations that may be returned are left out, except in the condition of a loop.

        Args:
          mod: the module.
          func: the function.
          returns_flag: whether the function is a loop's condition. Its result is read before anything else is written.
        """
        self.mod = mod
        self.bindings = bindings_of(func.body)
        self.intervals: dict[Any, Interval] = {}
        self.views: dict[Any, list[Any]] = {}
        self.reshapes: set[int] = set()
        self.callees: list[tuple[int, str]] = []
        self._sizes: dict[Any, int] = {}
        self._aliased_allocations: dict[Any, list[Any]] = {}
        self._escaping = self._escaping_variables(func)
        for position, binding in enumerate(self.bindings):
            self._extend_lifetimes(position, binding)
        if not returns_flag:
            for allocation in self._allocations_of(func.body.body):
                self.intervals.pop(allocation, None)

    def _escaping_variables(self, func: relax.Function) -> set[Any]:
        """Returns the variables that escape: tuples, branches, loops, other calls or the function's result use them.

        Such code might write into a variable's memory. A reshape of an escaping variable is therefore not a view, but has
        its own memory.
        """
        escaping = set(variables(func.body.body))
        # In reverse order: an alias (a binding to another variable) comes after the variable, and escapes with it.
        for binding in reversed(self.bindings):
            value = binding.value
            if isinstance(value, relax.Var):
                if binding.var in escaping:
                    escaping.add(value)
            elif not self._only_writes_results(value):
                escaping.update(variables(value))
        return escaping

    def _only_writes_results(self, value: Any) -> bool:
        """Returns whether a value is a call of a kernel that is known to write only its results."""
        return is_kernel_call(self.mod, value) and ONLY_RESHAPES in (self.mod[value.op].attrs or ())

    def _extend_lifetimes(self, position: int, binding: relax.VarBinding) -> None:
        """Extends the lifetimes of the allocations that a binding uses up to the binding's position.

        The lifetime of an allocated tensor begins with its first use, and not with the allocation.
        """
        value = binding.value
        if is_allocation(value):
            size = bytes_of(binding.var.ty)
            if size is not None:
                self._sizes[binding.var] = size
                self._aliased_allocations[binding.var] = [binding.var]
            return
        # The memory of a view's operand must live as long as the view is used.
        if self._is_view(value):
            self._add_view(position, *value.args)
            return
        self.callees += [(position, name) for name in _callees(self.mod, value)]
        used = self._allocations_of(value)
        for allocation in used:
            first = self.intervals[allocation].first if allocation in self.intervals else position
            self.intervals[allocation] = Interval(first, position, self._sizes[allocation])
        if not is_kernel_call(self.mod, value):
            self._aliased_allocations[binding.var] = used

    def _is_view(self, value: Any) -> bool:
        """Returns whether a kernel call only reshapes a tensor, and its result can be a view of the tensor's memory.

        Neither the tensor nor the result may escape to code that might write into it.
        """
        if not self._only_writes_results(value) or not self.mod[value.op].attrs[ONLY_RESHAPES]:
            return False
        for tensor in value.args:
            allocations = self._allocations_of(tensor)
            if len(allocations) != 1 or not self._escaping.isdisjoint((tensor, *allocations)):
                return False
        return True

    def _add_view(self, position: int, source: Any, result: Any) -> None:
        """Records that the result of a reshape is a view of ``source``; extends the lifetime of the source's memory.

        While the view is used, no other value may take this memory.

        Args:
          position: the position of the reshape among the bindings.
          source: the reshaped tensor.
          result: the variable of the result.
        """
        (allocation,) = self._aliased_allocations[source]
        self.intervals[allocation] = self.intervals[allocation]._replace(last=position)
        self.views.setdefault(allocation, []).append(result)
        self._aliased_allocations[result] = [allocation]
        self.reshapes.add(position)

    def _allocations_of(self, value: Any) -> list[Any]:
        """Returns the allocations that a value may alias, in a deterministic order."""
        return list(dict.fromkeys(root for var in variables(value) for root in self._aliased_allocations.get(var, ())))


def _functions(mod: tvm.IRModule) -> dict[ir.GlobalVar, relax.Function]:
    return {var: func for var, func in mod.functions.items() if isinstance(func, relax.Function)}


def _loops(func: relax.Function) -> Iterator[relax.Call]:
    calls: list[relax.Call] = []
    structural_walk(func.body, (relax.Call, calls.append))
    return (call for call in calls if isinstance(call.op, ir.Op) and call.op.name in LOOPS)


def _callees(mod: tvm.IRModule, value: Any) -> list[str]:
    """Returns the names of the Relax functions that a value mentions."""
    mentioned: list[ir.GlobalVar] = []
    structural_walk(value, (ir.GlobalVar, mentioned.append))
    return [var.name_hint for var in mentioned if isinstance(mod[var], relax.Function)]


def variables(value: Any) -> list[Any]:
    """Returns every variable in a value, with repetitions."""
    names: list[Any] = []
    structural_walk(value, (ir.Var, names.append))
    return names


def is_allocation(value: Any) -> bool:
    return (
        isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == "relax.builtin.alloc_tensor"
    )


def is_kernel_call(mod: tvm.IRModule, value: Any) -> bool:
    """Returns whether a value is a direct call of a kernel on the tensors that it reads and writes."""
    return (
        isinstance(value, relax.Call)
        and isinstance(value.op, ir.GlobalVar)
        and isinstance(mod[value.op], tirx.PrimFunc)
    )


def bytes_of(ty: relax.TensorType) -> int | None:
    """Returns the bytes that a tensor of a type takes in the arena, rounded up, or None if its size isn't static."""
    dims = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else [None]
    sizes = [int(dim) for dim in dims if isinstance(dim, tirx.IntImm)]
    item_bytes = ty.dtype.dtype.itemsize  # of a pair, which a complex number is, both parts
    return align_up(prod(sizes) * item_bytes) if len(sizes) == len(dims) else None


def _rewritten(func: relax.Function, offsets: dict[Any, int], lifetimes: Lifetimes) -> relax.Function:
    """Replaces the planned allocations of a function by tensors at offsets in the arena (one block of memory).

    A call of the function then needs one block of memory, instead of an allocation for each tensor. Reshapes are dropped
    if their results are views of their operands' memory.

    Args:
      func: the function.
      offsets: the offset of each planned value, by the value's variable.
      lifetimes: the lifetimes of the function's values.
    """
    out = Bindings()
    for position, binding in enumerate(lifetimes.bindings):
        if position in lifetimes.reshapes:
            continue
        offset = offsets.get(binding.var)
        out.bindings.append(binding if offset is None else _arena_tensor(binding, offset))
    return out.function(func)


def _arena_tensor(binding: relax.VarBinding, offset: int) -> relax.VarBinding:
    """Binds the variable of an allocation to a tensor at an offset in the arena."""
    attrs = ir.make_node("ir.DictAttrs", offset=offset)
    ty = binding.var.ty
    tensor = relax.Call(
        ir.Op.get(ARENA_TENSOR), [ty.shape], attrs=attrs, ty_args=[ty], span=binding.value.span, ret_ty=ty
    )
    return relax.VarBinding(binding.var, tensor)


def _register() -> None:
    """Registers the operator of a tensor in the arena with Relax."""
    tvm_ffi.get_global_func("ir.RegisterOp")(ARENA_TENSOR, "A tensor at an offset in the arena.")
    ir.register_op_attr(ARENA_TENSOR, "FInferType", lambda call, _: call.ty_args[0])
    ir.register_op_attr(ARENA_TENSOR, "FPurity", True)
    ir.register_op_attr(ARENA_TENSOR, "TScriptPrinterName", ARENA_TENSOR)


if ARENA_TENSOR not in ir.Op.list_op_names():
    _register()
