"""Plans memory: kernels' results that the caller doesn't see get offsets in one block, the arena, reused by every call.

Each function's values of static size get offsets in its part of the block; the part of a branch or loop body lies among
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
from tvtf.passes.analysis.dead_code import without_unused
from tvtf.passes.analysis.loop_op import LOOPS
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.memory.best_fit import Interval, extent, most_live, placed, rounded

PLACE = "tvtf.arena_tensor"
RESHAPE = "tvtf.reshape"
"""Attribute of a kernel that writes only its results: whether all it does is reshape its argument."""
SIZE, PARTS, LIVE = "tvtf.arena", "tvtf.arena_parts", "tvtf.live"
"""Attributes of a function: the bytes of its part, the offsets of its callees' parts, and the peak of live bytes."""


def plan_arena(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces the allocations that can be planned by places in the arena, and drops the kernels that aren't called then."""
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
            result.update_func(var, self.function(var.name_hint))
        return without_unused(result)

    def function(self, name: str) -> relax.Function:
        if name not in self.planned:
            func = self.mod[name]
            self.planned[name] = func  # a recursive function is left as it is
            self.planned[name] = self._plan(func, returns_flag=name in self.conditions)
        return self.planned[name]

    def _plan(self, func: relax.Function, returns_flag: bool) -> relax.Function:
        """Plans one function: offsets of its values and of the parts of functions that it runs."""
        lives = Lives(self.mod, func, returns_flag)
        roots = list(lives.places)
        parts = [(position, callee, self._size(callee)) for position, callee in lives.callees]
        intervals = [lives.places[root] for root in roots]
        # A callee's part is in use only while it runs.
        intervals += [Interval(position, position, size) for position, _, size in parts]
        offsets = placed(intervals)
        size = extent(intervals, offsets)
        if not size:
            return func
        begin = {callee: offset for (_, callee, _), offset in zip(parts, offsets[len(roots) :])}
        at = {member: offsets[i] for i, root in enumerate(roots) for member in (root, *lives.views.get(root, ()))}
        attrs = {SIZE: size, PARTS: begin, LIVE: most_live(intervals)}
        return _rewritten(func, at, lives).with_attrs(attrs)

    def _size(self, name: str) -> int:
        attrs = self.function(name).attrs
        return int(attrs[SIZE]) if attrs and SIZE in attrs else 0


class Lives:
    """Lifetimes of the allocations in straight-line code that can be planned, and the calls of other functions."""

    def __init__(self, mod: tvm.IRModule, func: relax.Function, returns_flag: bool = False) -> None:
        self.mod = mod
        self.bindings = [b for block in func.body.blocks for b in block.bindings]
        self.places: dict[Any, Interval] = {}
        self.views: dict[Any, list[Any]] = {}
        self.reshapes: set[int] = set()
        self.callees: list[tuple[int, str]] = []
        self._sizes: dict[Any, int] = {}
        self._roots: dict[Any, list[Any]] = {}
        self._escaping = self._escaping_variables(func)
        for position, binding in enumerate(self.bindings):
            self._scan(position, binding)
        if not returns_flag:
            for root in self._rooted(func.body.body):
                self.places.pop(root, None)

    def _escaping_variables(self, func: relax.Function) -> set[Any]:
        """Returns variables whose memory escapes: into tuples, branches, loops, calls that may write, or the result.

        Such memory can't be in the arena, which the next call overwrites.
        """
        escaping = set(variables(func.body.body))
        for binding in reversed(self.bindings):
            value = binding.value
            if isinstance(value, relax.Var):
                escaping.update([value] if binding.var in escaping else ())
            elif not self._only_writes_results(value):
                escaping.update(variables(value))
        return escaping

    def _only_writes_results(self, value: Any) -> bool:
        return is_kernel_call(self.mod, value) and RESHAPE in (self.mod[value.op].attrs or ())

    def _scan(self, position: int, binding: relax.VarBinding) -> None:
        """Extends lifetimes by one binding's uses."""
        value = binding.value
        if is_allocation(value):
            size = bytes_of(binding.var.ty)
            if size is not None:
                self._sizes[binding.var] = size
                self._roots[binding.var] = [binding.var]
            return
        # A view lives as long as its operand's memory is used through it.
        if self._is_view(value):
            self._view(position, *value.args)
            return
        self.callees += [(position, name) for name in _callees(self.mod, value)]
        used = self._rooted(value)
        for root in used:
            first = self.places[root].first if root in self.places else position
            self.places[root] = Interval(first, position, self._sizes[root])
        if not is_kernel_call(self.mod, value):
            self._roots[binding.var] = used

    def _is_view(self, value: Any) -> bool:
        """Returns whether a kernel call only reshapes a planned tensor, and neither escapes to code that may write into it."""
        if not self._only_writes_results(value) or not self.mod[value.op].attrs[RESHAPE]:
            return False
        roots = [self._rooted(x) for x in value.args]
        return all(len(r) == 1 and self._escaping.isdisjoint((x, *r)) for x, r in zip(value.args, roots))

    def _view(self, position: int, source: Any, result: Any) -> None:
        (root,) = self._roots[source]
        self.places[root] = self.places[root]._replace(last=position)
        self.views.setdefault(root, []).append(result)
        self._roots[result] = [root]
        self.reshapes.add(position)

    def _rooted(self, value: Any) -> list[Any]:
        """Returns the allocations that a value may alias, in a deterministic order."""
        return list(dict.fromkeys(root for var in variables(value) for root in self._roots.get(var, ())))


def _functions(mod: tvm.IRModule) -> dict[ir.GlobalVar, relax.Function]:
    return {var: func for var, func in mod.functions.items() if isinstance(func, relax.Function)}


def _loops(func: relax.Function) -> Iterator[relax.Call]:
    calls: list[relax.Call] = []
    structural_walk(func.body, (relax.Call, calls.append))
    return (call for call in calls if isinstance(call.op, ir.Op) and call.op.name in LOOPS)


def _callees(mod: tvm.IRModule, value: Any) -> list[str]:
    names: list[ir.GlobalVar] = []
    structural_walk(value, (ir.GlobalVar, names.append))
    return [var.name_hint for var in names if isinstance(mod[var], relax.Function)]


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
    """Returns the bytes that a tensor takes in the arena, or None if its size isn't static."""
    dims = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else [None]
    sizes = [int(d) for d in dims if isinstance(d, tirx.IntImm)]
    item = -(-tvm.DataType(str(ty.dtype)).bits // 8)
    return rounded(prod(sizes) * item) if len(sizes) == len(dims) else None


def _rewritten(func: relax.Function, at: dict[Any, int], lives: Lives) -> relax.Function:
    """Replaces planned allocations by places, and drops reshapes, whose results are views."""
    out = Bindings()
    out.bindings = [
        _place(binding, at[binding.var]) if binding.var in at else binding
        for position, binding in enumerate(lives.bindings)
        if position not in lives.reshapes
    ]
    return out.function(func)


def _place(binding: relax.VarBinding, offset: int) -> relax.VarBinding:
    attrs, ty = ir.make_node("ir.DictAttrs", offset=offset), binding.var.ty
    place = relax.Call(ir.Op.get(PLACE), [ty.shape], attrs=attrs, ty_args=[ty], span=binding.value.span, ret_ty=ty)
    return relax.VarBinding(binding.var, place)


def _register() -> None:
    tvm_ffi.get_global_func("ir.RegisterOp")(PLACE, "A tensor at an offset in the arena.")
    ir.register_op_attr(PLACE, "FInferType", lambda call, _: call.ty_args[0])
    ir.register_op_attr(PLACE, "FPurity", True)
    ir.register_op_attr(PLACE, "TScriptPrinterName", PLACE)


if PLACE not in ir.Op.list_op_names():
    _register()
