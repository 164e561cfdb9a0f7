"""Guards: what compiled code checks before a kernel that must not see bad data.

They are inserted after dead code is gone, so that a guard belongs to its op and dies with it. A failing guard first writes
the Variables assigned before it in program order: what came before stands, what comes after isn't done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import ir, relax

from tvtf import dialect
from tvtf.context import state
from tvtf.interpret import Evaluation, Subfunction, reemit
from tvtf.ops.rules import bind
from tvtf.primitive import Primitive, table


def insert_guards(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with a ``guard`` before each op that has one."""
    return reemit(mod, _Guarded) if any(map(_needs_guard, _calls(mod))) else mod


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
    return prim.guard is not None or prim.name == "guard"


def _may_fail(mod: tvm.IRModule, name: str) -> bool:
    """Whether a function holds a guard, or calls one that does."""
    for value in _calls_of(mod[name]):
        callees = value.args if dialect.is_dialect(value) else ()
        if _needs_guard(value) or any(isinstance(a, ir.GlobalVar) and _may_fail(mod, a.name_hint) for a in callees):
            return True
    return False


class _Guarded(Evaluation):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.roots: dict[int, Any] = {}
        self.pending: dict[int, tuple[Any, Any]] = {}

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for ok, message in prim.guard(*inputs, **attrs) if prim.guard else ():
            bind.guard(ok, *self._pairs(), message=message + _where())
        if prim.name == "guard":
            inputs = [inputs[0], *self._pairs()]
        if self.pending and any(isinstance(f, Subfunction) and _may_fail(f.mod, f.name) for f in attrs.values()):
            inputs = self._write_pending(inputs)
        result = prim.bind(*inputs, **attrs)
        if prim.name == "assign":
            self._assigned(inputs[0], result)
        return result

    def _pairs(self) -> list[Any]:
        return [x for pair in self.pending.values() for x in pair]

    def _assigned(self, old: Any, new: Any) -> None:
        """Remembers an assignment of the outermost function, whose parameters are the Variables."""
        if state.trace.parent is None:
            root = self.roots.get(id(old), old)
            self.roots[id(new)] = root
            self.pending[id(root)] = (new, root)

    def _write_pending(self, inputs: list[Any]) -> list[Any]:
        """Before a branch or loop that may fail: the assignments so far are done, and readers of old values keep a copy."""
        for new, root in self.pending.values():
            kept = bind.identity(root)
            self.values = {var: kept if value is root else value for var, value in self.values.items()}
            inputs = [kept if x is root else x for x in inputs]
            bind.write(new, root)
        self.pending.clear()
        return inputs


def _where() -> str:
    """The user's line, which the message carries through the compiled code."""
    span = state.trace.span
    return "" if span is None else f" ({span.source_name.name}, line {span.line})"
