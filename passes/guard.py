"""Guards: what compiled code checks before a kernel that must not see bad data.

They are inserted after dead code is gone, so that a guard belongs to its op and dies with it. A failing guard first writes
the Variables assigned before it in program order: what came before stands, what comes after isn't done.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tvtf import dialect
from tvtf.context import state
from tvtf.interpret import Evaluation, reemit
from tvtf.ops.rules import bind
from tvtf.primitive import Primitive, table


def insert_guards(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with a ``guard`` before each op that has one."""
    return reemit(mod, _Guarded) if any(map(_needs_guard, _calls(mod))) else mod


def _calls(mod: tvm.IRModule) -> Any:
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            yield from (b.value for block in func.body.blocks for b in block.bindings)


def _needs_guard(value: Any) -> bool:
    return dialect.is_dialect(value) and table[value.op.name[5:]].guard is not None


class _Guarded(Evaluation):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.roots: dict[int, Any] = {}
        self.pending: dict[int, tuple[Any, Any]] = {}

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        for ok, message in prim.guard(*inputs, **attrs) if prim.guard else ():
            pairs = [x for pair in self.pending.values() for x in pair]
            bind.guard(ok, *pairs, message=message + _where())
        result = prim.bind(*inputs, **attrs)
        if prim.name == "assign":
            self._assigned(inputs[0], result)
        return result

    def _assigned(self, old: Any, new: Any) -> None:
        """Remembers an assignment of the outermost function, whose parameters are the Variables."""
        if state.trace.parent is None:
            root = self.roots.get(id(old), old)
            self.roots[id(new)] = root
            self.pending[id(root)] = (new, root)


def _where() -> str:
    """The user's line, which the message carries through the compiled code."""
    span = state.trace.span
    return "" if span is None else f" ({span.source_name.name}, line {span.line})"
