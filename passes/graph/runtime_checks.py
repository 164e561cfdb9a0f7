"""Inserts guards: run-time checks in front of kernels that must not see invalid data.

They are inserted after dead code elimination, so that a guard is removed together with its op; values that a guard's
rule computed and didn't use are dropped afterwards. A failing guard first writes the Variables that were assigned
before it in program order, so that earlier assignments stand and later ones don't happen, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import ir, relax

from tvtf.core.primitive import Primitive, Rule, table
from tvtf.core.shape import same_shape, substitute_dim
from tvtf.core.tensor import SymbolicTensor
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.interpreter import CONTROL, Evaluation, Subfunction, reemit
from tvtf.ops.rules import bind
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.lower.computed_sizes import sized_after, too_large

PYTHON = "call_python"
"""The op that runs Python: it may fail and may read Variables, so earlier assignments are written before it."""


def insert_guards(mod: tvm.IRModule) -> tvm.IRModule:
    """Adds a ``guard`` before each op that has a guard rule."""
    return drop_dead(reemit(mod, _Guarded)) if any(map(_needs_guard, _calls(mod))) else mod


def _calls(mod: tvm.IRModule) -> Iterator[Any]:
    for func in mod.functions.values():
        yield from _calls_of(func)


def _calls_of(func: Any) -> Iterator[Any]:
    if isinstance(func, relax.Function):
        yield from (b.value for block in func.body.blocks for b in block.bindings)


def _needs_guard(value: Any) -> bool:
    if not dialect.is_dialect(value):
        return False
    prim = table[value.op.name.removeprefix("tvtf.")]
    return prim.guard is not None or prim.name in ("guard", PYTHON)


def _may_fail(mod: tvm.IRModule, name: str) -> bool:
    """Returns whether a function contains a guard, or calls one that does."""
    return any(_needs_guard(v) or any(_may_fail(mod, f) for f in _callees(v)) for v in _calls_of(mod[name]))


def calls_python(function: relax.Function) -> bool:
    """Returns whether a function calls Python directly; the functions that it calls aren't looked at."""
    return any(dialect.is_dialect(v) and v.op.name == f"tvtf.{PYTHON}" for v in _calls_of(function))


def _callees(value: Any) -> list[str]:
    return [a.name_hint for a in value.args if isinstance(a, ir.GlobalVar)] if dialect.is_dialect(value) else []


def _writes_early(mod: tvm.IRModule, name: str) -> bool:
    """Returns whether a branch or body writes a Variable even if nothing fails.

    It does so before it calls Python, and before a branch or loop that may fail.
    """
    nested = [f for value in _calls_of(mod[name]) for f in _callees(value)]
    if memories_of(mod, mod[name]) and (calls_python(mod[name]) or any(_may_fail(mod, f) for f in nested)):
        return True
    return any(_writes_early(mod, f) for f in nested)


def memories_of(mod: tvm.IRModule, function: relax.Function) -> set[int]:
    """Returns which parameters of a branch or body are Variables' memory; counted from the end, where they stand."""
    params = list(function.params)
    memories = {m for _, _, *memory in _assignments(function) for m in memory}
    for value in _calls_of(function):
        memories |= {dialect.read(value).inputs[i] for f in _callees(value) for i in memories_of(mod, mod[f])}
    return {params.index(m) - len(params) for m in memories}


class _Guarded(Evaluation):
    """Re-emits a function with guards, tracking pending assignments: each Variable's parameter and newest value."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.roots: dict[int, Any] = {}
        self.pending: dict[int, tuple[Any, Any]] = {}
        self.operands: list[Any] = []
        self.memories: set[int] = set()
        self.originals: dict[int, Any] = {}
        self.checked: set[Any] = set()
        self.sized = sized_after(self.function)
        if state.trace.parent is not None:
            self._enter()

    def _enter(self) -> None:
        """Enters a branch or body: its operands may be a Variable's memory, and may be the Variable's current value."""
        self.operands = list(self.values.values())
        params = list(self.function.params)
        self.memories = {id(self.values[params[i]]) for i in memories_of(self.mod, self.function)}
        for old, _, *memory in _assignments(self.function):
            if old in self.values:
                self._assigned(self.values[old], self.values[old], *(self.values[m] for m in memory))

    def learn(self, var: relax.Var) -> None:
        """Checks that results of computed sizes can be allocated, as soon as the last of their dims is bound."""
        super().learn(var)
        results = self.sized.get(var)
        if results:
            sizes = tuple(substitute_dim(r.bytes, self.dims) for r in results)
            fits = bind.memory_fits(sizes=sizes)
            bind.guard(fits, *self._pairs(), message=too_large(results) + _where(), kind="ResourceExhaustedError")

    def may_copy(self, prim: Primitive[Any]) -> bool:
        return prim.guard is None and prim.name not in ("guard", PYTHON, "assign", *CONTROL)

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Binds a primitive after its guards, and after pending writes where it may fail or call Python."""
        if prim.guard:
            self._guard(prim.guard, inputs, attrs)
        if prim.name == "guard":
            inputs = [*inputs[: 1 + attrs.get("shown", 0)], *self._pairs()]
            attrs = attrs | {"message": attrs["message"] + _where()}
        if prim.name == PYTHON:
            inputs = self._write_pending(inputs)
        if prim.name in CONTROL:
            inputs = self._prepared_operands(inputs, [f for f in attrs.values() if isinstance(f, Subfunction)])
        result = prim.bind(*inputs, **attrs)
        if prim.name in CONTROL:
            self.operands += result
        if prim.name == "assign":
            self._assigned(inputs[0], result, *inputs[2:])
        return result

    def _guard(self, rule: Rule, inputs: list[Any], attrs: dict[str, Any]) -> None:
        """Binds a primitive's guards, but for those that checked the same before: of an op and of its gradient."""
        first = len(state.trace.bindings)
        for ok, message, *printed in rule(*inputs, **attrs):
            values = _described(state.trace.bindings[first:])
            check = values.get(ok._var) if isinstance(ok, SymbolicTensor) else None
            if check is None or check not in self.checked:
                self.checked.add(check)
                bind.guard(ok, *printed, *self._pairs(), message=message + _where(), shown=len(printed))

    def _prepared_operands(self, inputs: list[Any], functions: list[Subfunction]) -> list[Any]:
        """Returns a branch's or loop's operands, after the writes of assignments that precede a failure in it."""
        memories = {len(inputs) + i for f in functions for i in memories_of(f.mod, f.mod[f.name])}
        roots = {i: self.originals.get(id(inputs[i]), inputs[i]) for i in memories}
        if any(_writes_early(f.mod, f.name) for f in functions):
            inputs = self._copy_shared(list(roots.values()), inputs)
        if any(_may_fail(f.mod, f.name) for f in functions):
            inputs = self._write_pending(inputs)
        return [roots.get(i, x) for i, x in enumerate(inputs)]

    def _pairs(self) -> list[Any]:
        """Returns the values that a failing guard writes, each followed by the memory that it is written to.

        A value whose shape differs from the Variable's at the start of the call doesn't fit that memory, and isn't
        written.
        """
        return [x for new, root in self.pending.values() if _fits(new, root) for x in (new, root)]

    def _assigned(self, old: Any, new: Any, memory: Any = None) -> None:
        """Records an assignment; in the outermost function a Variable's parameter is its first value."""
        root = self.roots.get(id(old), old) if memory is None else memory
        self.roots[id(new)] = root
        self.pending[id(root)] = (new, root)

    def _write_pending(self, inputs: list[Any]) -> list[Any]:
        """Writes the pending assignments whose shape fits the Variable's memory."""
        fitting = [(new, root) for new, root in self.pending.values() if _fits(new, root)]
        inputs = self._copy_shared([root for _, root in fitting], inputs)
        for new, root in fitting:
            bind.write(new, root)
        self.pending.clear()
        return inputs

    def _copy_shared(self, roots: list[Any], inputs: list[Any]) -> list[Any]:
        """Copies the values that may share memory with Variables about to be written, for later readers."""
        copies = {id(x): bind.identity(x) for root in roots for x in self._sharing(root)}
        self.originals |= {id(copies[id(root)]): root for root in roots if id(root) in copies}
        self.values = {var: copies.get(id(value), value) for var, value in self.values.items()}
        return [copies.get(id(x), x) for x in inputs]

    def _sharing(self, root: Any) -> list[Any]:
        """Returns the values that may share a Variable's memory: operands of a branch or body; ``main``'s parameter."""
        if state.trace.parent is None:
            return [root, *(x for x in self.operands if x._type == root._type)]
        return [x for x in self.operands if x._type == root._type and id(x) not in self.memories]


def _described(bindings: Sequence[Any]) -> dict[Any, Any]:
    """Returns what a binding computes, by its variable: equal descriptions have equal values.

    Calls with symbolic dims aren't described: different ones may have the same name.
    """
    described: dict[Any, Any] = {}
    for binding in bindings:
        call = binding.value
        if dialect.is_dialect(call) and dialect.static_types(call.ty) is not None:
            attrs = dialect.read(call).attrs
            if not any(map(_is_symbolic, attrs.values())):
                operands = [_constant(x) if isinstance(x, ir.Constant) else described.get(x, x) for x in call.args[:]]
                described[binding.var] = (call.op.name, *operands, repr(sorted(attrs.items())), str(call.ty))
    return described


def _is_symbolic(value: Any) -> bool:
    return any(map(_is_symbolic, value)) if isinstance(value, (tuple, list)) else isinstance(value, ir.Expr)


def _constant(value: ir.Constant) -> tuple[str, tuple[int, ...], bytes]:
    array = value.value.numpy()
    return str(array.dtype), array.shape, array.tobytes()


def _fits(new: Any, root: Any) -> bool:
    return same_shape(new._type.shape, root._type.shape)


def _assignments(function: relax.Function) -> Iterator[list[Any]]:
    """Yields the operands of each assignment in a function: old value, new value, and the Variable's memory."""
    for call in _calls_of(function):
        if dialect.is_dialect(call) and call.op.name == "tvtf.assign":
            yield list(dialect.read(call).inputs)


def _where() -> str:
    """Returns the user's file and line, which the message carries into the compiled code."""
    span = state.trace.span
    return "" if span is None else f" ({span.source_name.name}, line {span.line})"
