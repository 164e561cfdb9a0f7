"""Evaluates a traced function for the ranks and sizes of a call, which branches that don't run need not fit."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvtf.core.argument_error import is_of_shapes
from tvtf.core.shape import is_static_shape, substitute_dim
from tvtf.core.specialization import UnknownSize
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.dim_equations import symbols_of
from tvtf.ir.interpreter import Instance
from tvtf.ops.create import zeros
from tvtf.ops.rules import bind


class SizedInstance(Instance):
    """An evaluation in which a branch or a loop's body that these sizes don't fit fails when it runs, not before."""

    @property
    def may_not_run(self) -> bool:
        """Whether a call may leave the function out: it is a branch or a loop's body, or called by one."""
        return state.trace is not None and state.trace.is_in_branch

    def run(self) -> tuple[Tensor, ...]:
        """Evaluates the function. If sizes of the arguments don't fit, emits a run-time check that always fails.

        The function may be a branch that is never taken, so its error must not end the trace.
        """
        try:
            return super().run()
        except ValueError as error:
            if not is_of_shapes(error) or not self.may_not_run:
                raise
            return self._failing(error)

    def bound(self, binding: Any) -> Any:
        """Evaluates a binding.

        Tracing again for static sizes can't avoid an error of operands whose sizes are static already. Such an error is
        raised itself, if the function may not run.
        """
        try:
            return super().bound(binding)
        except UnknownSize as needed:
            is_call = dialect.is_dialect(binding.value)
            if not is_call or not is_of_shapes(needed.error) or not self._has_static_operands(binding.value):
                raise
            raise (needed.error if self.may_not_run else needed) from None

    def _has_static_operands(self, call: relax.Call) -> bool:
        return all(is_static_shape(self.value(x)._type.shape) for x in dialect.read(call).inputs)

    def _failing(self, error: ValueError) -> tuple[Tensor, ...]:
        """Emits a check that always fails, and returns zeros of the function's result types, which no program reads."""
        if any(ty.ndim < 0 for ty in self._declared):
            raise error  # there are no zeros of unknown rank
        types = [
            dialect.of_unknown_dims(ty) if ty.shape is None else dialect.from_relax_type(ty) for ty in self._declared
        ]
        bind.guard(convert_to_tensor(False), message=str(error))
        results = []
        for tensor_type in types:
            shape = tuple(map(self._dim_or_0, tensor_type.shape))
            results.append(bind.broadcast_to(zeros([], tensor_type.dtype), shape=shape))
        return tuple(results)

    @property
    def _declared(self) -> list[Any]:
        """The types of the function's results in the IR."""
        ty = self.function.body.body.ty
        return list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]

    def _dim_or_0(self, dim: Any) -> Any:
        """Returns the value of a dim in this evaluation, or 0 if only calls that aren't evaluated compute it."""
        return substitute_dim(dim, self.dims) if all(symbol in self.dims for symbol in symbols_of(dim)) else 0
