"""Inlines a traced function into the trace that calls it.

Assignments in it go to the memory of the calling trace's Variables: otherwise they would be lost if an assertion
failed later in the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvtf.core.argument_error import is_of_shapes
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import Primitive
from tvtf.core.shape import is_static_shape, substitute_dim
from tvtf.core.specialization import UnknownSize
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.dim_equations import symbols_of
from tvtf.ir.interpreter import CONTROL, Instance, Subfunction
from tvtf.ops.create import zeros
from tvtf.ops.rules import bind
from tvtf.passes.graph.runtime_checks import variable_memory_params
from tvtf.state.variable import Variable


class Inlined(Instance):
    """An evaluation that knows by identity which tensors are values of Variables: captured ones, and assigned ones."""

    owners: dict[int, tuple[Variable, Tensor]] | None = None
    """None in nested functions: they take Variables' memory as operands."""
    argument_ids: frozenset[int] = frozenset()
    """The arguments, by identity: assigning to one does not assign a Variable."""

    def bound(self, binding: Any) -> Any:
        """Evaluates a binding. In a branch, what the sizes of this call don't fit fails only if the branch runs."""
        try:
            return super().bound(binding)
        except (ValueError, UnknownSize) as error:
            shape_error = error.error if isinstance(error, UnknownSize) else error
            if not is_of_shapes(shape_error) or not self._is_in_branch or not dialect.is_dialect(binding.value):
                raise
            # Sizes that are static in a trace for one call may fit.
            if isinstance(error, UnknownSize) and not self._has_static_operands(binding.value):
                raise
            return self._failing(binding.var.ty, shape_error)

    @property
    def _is_in_branch(self) -> bool:
        """Whether the evaluated function is a branch in the inlined function, or called by one."""
        return self.owners is None and state.trace is not None and state.trace.is_in_branch

    def _has_static_operands(self, call: relax.Call) -> bool:
        return all(is_static_shape(self.value(x)._type.shape) for x in dialect.read(call).inputs)

    def _failing(self, declared: Any, error: Exception) -> Any:
        """Emits a check that always fails, and returns zeros of the declared types, which no program reads."""
        fields = declared.fields if isinstance(declared, relax.TupleType) else [declared]
        types = [dialect.from_relax_type(ty) for ty in fields]
        if any(isinstance(tensor_type.shape, AnyShape) for tensor_type in types):
            raise error  # there are no zeros of unknown rank
        bind.guard(convert_to_tensor(False), message=str(error))
        results = [bind.broadcast_to(zeros([], t.dtype), shape=tuple(map(self._dim_or_0, t.shape))) for t in types]
        return tuple(results) if isinstance(declared, relax.TupleType) else results[0]

    def _dim_or_0(self, dim: Any) -> Any:
        """Returns the value of a dim in this evaluation, or 0 if only calls that aren't evaluated compute it."""
        return substitute_dim(dim, self.dims) if all(symbol in self.dims for symbol in symbols_of(dim)) else 0

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Binds a primitive; assignments go to Variables of the calling trace, whose memory control flow takes as operands."""
        if self.owners is not None and prim.name == "assign" and id(inputs[0]) not in self.argument_ids:
            return self._bind_assignment(prim, inputs)
        if self.owners is not None and prim.name in CONTROL:
            inputs = self._with_memory(inputs, [f for f in attrs.values() if isinstance(f, Subfunction)])
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
        """Replaces operands of control flow that its functions assign by the Variables' memory in the calling trace."""
        assigned_indices = {
            len(inputs) + i
            for function in functions
            for i in variable_memory_params(function.mod, function.mod[function.name])
        }
        return [self._memory_of(x) if i in assigned_indices else x for i, x in enumerate(inputs)]

    def _memory_of(self, value: Tensor) -> Tensor:
        variable, _ = self.owners[id(value)]  # type: ignore[index]
        return state.trace.root.memory_of(variable)  # type: ignore[no-any-return]


def inlined(
    mod: Any, tensors: Sequence[Tensor], outer: Sequence[Any], captured: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Binds the function ``main`` of a module in the active trace; returns its results.

    Its parameters get ``tensors``, then the values (``captured``) that its captures ``outer`` have in this trace.
    """
    run = Inlined(mod, mod["main"], [*tensors, *captured])
    run.owners = {id(value): (v, value) for v, value in zip(outer, captured) if isinstance(v, Variable)}
    run.argument_ids = frozenset(map(id, tensors)) - run.owners.keys()
    return run.run()
