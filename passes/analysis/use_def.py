"""Use-def chains: the call that defines each variable of a dialect function, and the calls that read it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvm import relax

from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of


class Use(NamedTuple):
    """A dialect call: its result, its primitive, operands and attributes."""

    var: relax.Var
    name: str
    inputs: list[Any]
    attrs: dict[str, Any]


class Graph:
    """The use-def chains of a function; a use of None is anything but a dialect call."""

    def __init__(self, function: relax.Function) -> None:
        self.producers: dict[relax.Var, Use] = {}
        self.uses: dict[relax.Var, list[Use | None]] = {}
        for binding in bindings_of(function.body):
            self._add(binding)
        self._read(function.body.body, None)

    def _add(self, binding: Any) -> None:
        """Records which variable a binding defines, and which variables the binding reads.

        The call of a dialect op is added to ``producers``. Any other value is only a reader, without a call (None).
        """
        if not dialect.is_dialect(binding.value):
            self._read(binding.value, None)
            return
        bound = dialect.read(binding.value)
        use = Use(binding.var, bound.primitive.name, bound.inputs, bound.attrs)
        self.producers[binding.var] = use
        for operand in bound.inputs:
            self._read(operand, use)

    def _read(self, value: Any, use: Use | None) -> None:
        """Records ``use`` as a reader of the variables in a value; None stands for a reader that isn't a dialect call."""
        for x in [value] if isinstance(value, relax.Var) else relax.analysis.free_vars(value)[:]:
            self.uses.setdefault(x, []).append(use)

    def only_use(self, x: relax.Var) -> Use | None:
        """Returns the only call that reads a variable, or None if there are several, or another kind of use."""
        uses = self.uses.get(x, [])
        return uses[0] if len(uses) == 1 else None
