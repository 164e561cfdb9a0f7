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
    """A trace that is not part of the program. Its parameters stand for tensors of the program."""

    def __init__(self, name: str = "aside") -> None:
        super().__init__(name, state.trace)
        self.is_in_branch = True  # never runs
        self.inputs: list[Tensor] = []

    def param_of(self, value: Any, of: TensorType | None = None) -> Tensor:
        """Adds a parameter to the trace, and returns it. The parameter stands for ``value``, a tensor of the program.

        The parameter has the type of ``value``, or the more general type ``of``.
        """
        tensor = convert_to_tensor(value)
        self.inputs.append(tensor)
        return self.add_param(of or tensor._type)

    def sizes(self, dims: Iterable[Dim]) -> dict[Any, Dim]:
        """Maps symbolic dims that only this trace defines to dims of the enclosing trace that have the same values.

        The code that computes these dims is emitted into the enclosing trace once more, without side effects.
        """
        symbols: dict[Any, None] = {}  # the keys of a dict are unique and ordered
        for dim in dims:
            if not isinstance(dim, int):
                symbols.update(dict.fromkeys(tirx.analysis.undefined_vars(dim)))
        unknown = [symbol for symbol in symbols if not knows_dim(state.trace, symbol)]
        # With unknown ranks calls are deferred, and the sizes are found when the ranks are known.
        if not unknown or of_any_rank():
            return {}
        with tracing(self):
            results = [self.own(scalar_of(symbol)) for symbol in unknown]
        without_unused(self, results)
        captured = lift_traces([self])
        operands = [*map(state.trace.own, self.inputs), *captured]
        tapes = state.tapes
        state.tapes = []  # sizes have no gradient
        try:
            evaluation = evaluation_of(self.finish(results), operands, ResidualsWithoutEffects)
            values = evaluation.start({}).run()
        finally:
            state.tapes = tapes
        return {symbol: _as_dim(value) for symbol, value in zip(unknown, values)}

    def require_pure(self, why: str) -> None:
        """Checks that the traced function has no side effects.

        Raises:
          UnimplementedError: the function assigns Variables, prints, or calls Python. ``why`` is the error's text.
        """
        if self.assigned() or not self.pure:
            raise UnimplementedError(None, None, why)


def _as_dim(size: Tensor) -> Dim:
    """Returns a symbolic dim of the active trace whose value is the scalar ``size``."""
    (dim,) = dims_of(state.trace.own(bind.reshape(size, shape=(1,))))
    return dim


def types_at_first(function: Any, tensors: Sequence[Tensor]) -> list[TensorType]:
    """Returns the types of a function's results for one row of ``tensors``, over whose rows it will be mapped.

    If the function computes a size, the size for the first row is used. A copy of the function without its side effects
    computes this size, because effects must not happen once more for it.
    """
    abstract = AbstractTrace()
    with tracing(abstract):
        types = [result._type for result in function(tensors)]
    has_unknown_rank = any(isinstance(tensor_type.shape, AnyShape) for tensor_type in types)
    if has_unknown_rank or all(knows_dim(state.trace, dim) for dim in _dims(types)):
        return types
    with_zero_row = list(map(_with_zero_row, tensors))
    if of_any_rank():  # calls are deferred: the sizes are found when the ranks are known
        abstract.require_pure(MSG_EFFECTS)
        return [result._type for result in function(with_zero_row)]
    return _types_with_sizes_of_first_row(function, with_zero_row)


def _types_with_sizes_of_first_row(function: Any, tensors: Sequence[Tensor]) -> list[TensorType]:
    """Returns the types of a function's results, with the sizes that it computes replaced by those for the first row."""
    abstract = AbstractTrace()
    with tracing(abstract):
        params = [abstract.param_of(tensor, _with_unknown_row_count(tensor._type)) for tensor in tensors]
        types = [result._type for result in function(params)]
    sizes = abstract.sizes(_dims(types))
    shapes = [tuple(substitute_dim(dim, sizes) for dim in tensor_type.shape) for tensor_type in types]
    return [tensor_type._replace(shape=shape) for tensor_type, shape in zip(types, shapes)]


def _dims(types: Sequence[TensorType]) -> list[Dim]:
    return [dim for tensor_type in types for dim in tensor_type.shape]


def _with_zero_row(x: Tensor) -> Tensor:
    """Appends a row of zeros to a tensor that may have no row, so that it has a first one."""
    zeros = bind.broadcast_to(number(0, x), shape=(1, *x._type.shape[1:]))
    return bind.concat(x, zeros, axis=0)  # type: ignore[no-any-return]


def _with_unknown_row_count(tensor_type: TensorType) -> TensorType:
    return tensor_type._replace(shape=(fresh_dim("rows"), *tensor_type.shape[1:]))
