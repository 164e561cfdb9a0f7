"""Who makes and who reads each variable of a dialect function."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvm import relax

from tvtf.ir import dialect


class Use(NamedTuple):
    """A call that reads a variable: its result, its primitive and its arguments."""

    var: relax.Var
    name: str
    inputs: list[Any]
    attrs: dict[str, Any]


class Graph:
    """Who makes and who reads each variable of a function."""

    def __init__(self, function: relax.Function) -> None:
        self.made: dict[relax.Var, Use] = {}
        self.uses: dict[relax.Var, list[Use | None]] = {}
        for binding in (b for block in function.body.blocks for b in block.bindings):
            self._add(binding)
        self._read(function.body.body, None)

    def _add(self, binding: Any) -> None:
        if not dialect.is_dialect(binding.value):
            return self._read(binding.value, None)
        bound = dialect.read(binding.value)
        use = Use(binding.var, bound.primitive.name, bound.inputs, bound.attrs)
        self.made[binding.var] = use
        for x in bound.inputs:
            self._read(x, use)

    def _read(self, value: Any, use: Use | None) -> None:
        for x in relax.analysis.free_vars(value):
            self.uses.setdefault(x, []).append(use)

    def only_use(self, x: relax.Var) -> Use | None:
        found = self.uses.get(x, [])
        return found[0] if len(found) == 1 else None
