"""Inlines a traced function into the trace that calls it.

Assignments in it go to the memory of the calling trace's Variables: otherwise they would be lost if an assertion
failed later in the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.primitive import Primitive
from tvtf.core.tensor import Tensor
from tvtf.core.thread_state import state
from tvtf.frontend.function.sized_instance import SizedInstance
from tvtf.ir.interpreter import CONTROL, Subfunction
from tvtf.passes.graph.runtime_checks import variable_memory_params
from tvtf.state.variable import Variable


class Inlined(SizedInstance):
    """An evaluation that knows by identity which tensors are values of Variables: captured ones, and assigned ones."""

    owners: dict[int, tuple[Variable, Tensor]] | None = None
    """None in nested functions: they take Variables' memory as operands."""
    argument_ids: frozenset[int] = frozenset()
    """The arguments, by identity: assigning to one does not assign a Variable."""

    @property
    def may_not_run(self) -> bool:
        """TensorFlow infers the shapes in a called function, not in its branches: these alone need not fit."""
        return self.owners is None and super().may_not_run

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Binds a primitive; assignments go to Variables of the calling trace, whose memory control flow takes as operands."""
        if self.owners is not None and prim.name == "assign" and id(inputs[0]) not in self.argument_ids:
            return self._bind_assignment(prim, inputs)
        if self.owners is not None and prim.name in CONTROL:
            inputs = self._with_memory(inputs, [attr for attr in attrs.values() if isinstance(attr, Subfunction)])
        return super().bind(prim, inputs, attrs)

    def _bind_assignment(self, prim: Primitive[Any], inputs: list[Any]) -> Any:
        """Binds an assignment to a Variable with the memory that the Variable has in the calling trace."""
        old, value, *_ = inputs
        variable, _ = self.owners[id(old)]  # type: ignore[index]
        memory = () if state.trace.parent is None else (state.trace.root.memory_of(variable),)
        result = prim.bind(old, value, *memory)
        self.owners[id(result)] = variable, result  # type: ignore[index]
        return result

    def _with_memory(self, inputs: list[Any], functions: Sequence[Subfunction]) -> list[Any]:
        """Replaces operands of control flow that its functions assign by the Variables' memory in the calling trace.

        Args:
          inputs: the operands of the control flow.
          functions: its branches, or its condition and body.
        """
        assigned_indices: set[int] = set()
        for function in functions:
            # Counted from the last parameter, as negative indices: the functions have the last operands in common.
            indices_from_end = variable_memory_params(function.mod, function.mod[function.name])
            assigned_indices.update(len(inputs) + i for i in indices_from_end)
        return [self._memory_of(x) if i in assigned_indices else x for i, x in enumerate(inputs)]

    def _memory_of(self, value: Tensor) -> Tensor:
        variable, _ = self.owners[id(value)]  # type: ignore[index]
        return state.trace.root.memory_of(variable)  # type: ignore[no-any-return]


def inlined(
    mod: Any, tensors: Sequence[Tensor], outer: Sequence[Any], captured: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Binds the function ``main`` of a module in the active trace, and returns its results.

    Its parameters get ``tensors``, then the values (``captured``) that its captures ``outer`` have in this trace.
    """
    run = Inlined(mod, mod["main"], [*tensors, *captured])
    run.owners = {id(value): (each, value) for each, value in zip(outer, captured) if isinstance(each, Variable)}
    run.argument_ids = frozenset(map(id, tensors)) - run.owners.keys()
    return run.run()
