"""Abstract traces: functions traced only for the types of their results, and for the sizes that these compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tvm import tirx

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import Dim, TensorType, fresh_dim, substitute_dim
from tvtf.core.specialization import of_any_rank
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.errors import UnimplementedError
from tvtf.frontend.control_flow.closure_conversion import knows_dim, lift_traces, without_unused
from tvtf.frontend.control_flow.rematerialize import ResidualsWithoutEffects, evaluation_of
from tvtf.ir.trace import Trace, tracing
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, dims_of, number

MSG_EFFECTS = (
    "a map of rows whose sizes are known only at run time, by an op that needs them while tracing, can't have effects (assign Variables, "
    "print, call Python); leave them out of the mapped function, or give it tensors of known shape"
)


class AbstractTrace(Trace):
    """A trace that is not part of the program; ``param_of`` makes a parameter for a tensor of the program."""

    def __init__(self, name: str = "aside") -> None:
        super().__init__(name, state.trace)
        self.inputs: list[Tensor] = []

    def param_of(self, value: Any, of: TensorType | None = None) -> Tensor:
        """Adds a parameter that stands for ``value``, of its type or of the more general type ``of``."""
        tensor = convert_to_tensor(value)
        self.inputs.append(tensor)
        return self.add_param(of or tensor._type)

    def sizes(self, dims: Iterable[Dim]) -> dict[Any, Dim]:
        """Returns, for each symbolic dim that only this trace knows, the same dim in the enclosing trace.

        The code that computes these dims is inlined into the enclosing trace once more, without effects.
        """
        symbolic_dims = [dim for dim in dims if not isinstance(dim, int)]
        symbols = {v: None for dim in symbolic_dims for v in tirx.analysis.undefined_vars(dim)}  # each once, in order
        unknown = [v for v in symbols if not knows_dim(state.trace, v)]
        if not unknown or of_any_rank():  # if calls are deferred, their instances know the sizes
            return {}
        with tracing(self):
            results = [self.own(scalar_of(v)) for v in unknown]
        without_unused(self, results)
        captured = lift_traces([self])
        tapes, state.tapes = state.tapes, []  # sizes have no gradient
        try:
            values = (
                evaluation_of(
                    self.finish(results), [*map(state.trace.own, self.inputs), *captured], ResidualsWithoutEffects
                )
                .start({})
                .run()
            )
        finally:
            state.tapes = tapes
        return {v: dims_of(state.trace.own(bind.reshape(x, shape=(1,))))[0] for v, x in zip(unknown, values)}

    def require_pure(self, why: str) -> None:
        """Raises an error with the text ``why`` if the traced function has effects.

        Raises:
          UnimplementedError: it assigns Variables, prints, or calls Python.
        """
        if self.assigned() or not self.pure:
            raise UnimplementedError(None, None, why)


def types_at_first(function: Any, tensors: Sequence[Tensor]) -> list[TensorType]:
    """Returns the result types of a function that is mapped over rows; sizes that it computes are the first row's.

    They are computed by a copy of the function without its effects, which must not happen once too often. As there may
    be no row, one of zeros is appended to the copy's input.
    """
    abstract = AbstractTrace()
    with tracing(abstract):
        types = [t._type for t in function(tensors)]
    if any(isinstance(t.shape, AnyShape) for t in types):
        return types
    if all(knows_dim(state.trace, d) for t in types for d in t.shape):
        return types
    with_zero_row = [
        bind.concat(x, bind.broadcast_to(number(0, x), shape=(1, *x._type.shape[1:])), axis=0) for x in tensors
    ]
    if of_any_rank():  # instances know the sizes of deferred calls
        abstract.require_pure(MSG_EFFECTS)
        return [t._type for t in function(with_zero_row)]
    abstract = AbstractTrace()
    with tracing(abstract):
        rows = [
            abstract.param_of(x, x._type._replace(shape=(fresh_dim("rows"), *x._type.shape[1:]))) for x in with_zero_row
        ]
        types = [t._type for t in function(rows)]
    sizes = abstract.sizes(d for t in types for d in t.shape)
    return [t._replace(shape=tuple(substitute_dim(d, sizes) for d in t.shape)) for t in types]
