"""Closure conversion: traces Python functions inside a trace and lifts them out; captured tensors become arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from tvm import ir, relax, tirx

from tvtf.core import nest
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.interpreter import CONTROL, evaluate
from tvtf.ir.trace import Graph, Trace, tracing
from tvtf.passes.analysis.dead_code import needed_bindings


class Inner:
    """A function traced within the active trace: parameters, the returned structure, and the tensors in it."""

    def __init__(self, name: str, function: Callable[..., Any], types: Sequence[TensorType] = ()) -> None:
        self.trace = Trace(name, state.trace)
        with tracing(self.trace):
            self.params = [self.trace.add_param(t) for t in types]
            self.structure = nest.map_structure(_leaf, function(*self.params), expand_composites=True)
        self.leaves = [leaf for leaf in nest.flatten(self.structure, expand_composites=True) if leaf is not None]

    def graph(self, extra: Iterable[Tensor] = ()) -> Graph:
        return self.trace.finish([*self.leaves, *extra])

    def with_types(self, types: Sequence[TensorType]) -> Inner:
        """Returns the same function for other parameter types.

        Its bindings are replayed: running the user's Python again would repeat its prints and appends.
        """
        define_dims(self.trace)
        old, variables = self.trace, list(self.trace.variables.values())
        graph = self.graph(value for _, value in variables)

        def bound_again(*params: Tensor) -> Any:
            """Binds the branch's graph again in the current trace, and takes over its updates of Variables."""
            captures = [state.trace.capture(outer, inner._type, "captured") for outer, inner in old.captures.values()]
            results = evaluate(graph.module(), "main", [*params, *captures])
            state.trace.take_variables(old, results[len(self.leaves) :])
            remaining = iter(results)
            return nest.map_structure(
                lambda leaf: None if leaf is None else next(remaining), self.structure, expand_composites=True
            )

        return Inner(old.name, bound_again, types)


def _leaf(value: Any) -> Tensor | None:
    """Returns a returned value as a tensor of the trace; None for None and for an op without results."""
    return None if value is None or isinstance(value, Operation) else state.trace.own(convert_to_tensor(value))


def assigned_variables(inners: Sequence[Inner]) -> list[Any]:
    """Returns the Variables that any of the functions assigns, each once, in order."""
    variables = {id(v): v for inner in inners for v, _ in inner.trace.assigned()}
    return list(variables.values())


def carried_variables(inners: Sequence[Inner]) -> list[Any]:
    """Returns the Variables that a loop of these functions carries: those assigned; if Python is called, all used."""
    if not any(inner.trace.is_after_python for inner in inners):
        return assigned_variables(inners)
    return list({id(v): v for inner in inners for v, _ in inner.trace.variables.values()}.values())


def variable_value(inner: Inner, variable: Any) -> SymbolicTensor:
    """Returns a Variable's value at the end of the function."""
    return inner.trace.read_variable(variable)


def lift(inners: Sequence[Inner]) -> list[Tensor]:
    """Gives the functions the same captures in the same order; returns the captures as tensors of the active trace."""
    return lift_traces([inner.trace for inner in inners])


def lift_traces(traces: Sequence[Trace]) -> list[Tensor]:
    """Gives traces the same captures in the same order; returns the captures as tensors of the active trace.

    Both branches, or a loop's condition and body, take the same arguments.
    """
    if any(trace.is_after_python for trace in traces):
        state.trace.settle()
        state.trace.root.python.barriers += 1
    for trace in traces:
        define_dims(trace)
    outers = {key: outer for trace in traces for key, (outer, _) in trace.captures.items()}
    for trace in traces:
        for outer in outers.values():
            trace.capture(outer, outer._type, "captured")
        trace.captures = {key: trace.captures[key] for key in outers}
    with state.trace.seeing_assignments_before(outers.values()) if state.trace is not None else nullcontext():
        return [as_read(outer) for outer in outers.values()]


def as_read(outer: Tensor) -> Tensor:
    """Reads a Variable's present value again, so that enclosing tapes see the read."""
    if state.trace is None:
        return outer._as_tensor() if hasattr(outer, "_as_tensor") else outer
    for variable, value in state.trace.variables.values():
        if value is outer:
            return _recorded_read(variable, state.trace.read_before(variable, value))
    return outer


def _recorded_read(variable: Any, tensor: Tensor) -> Tensor:
    """Has the tapes see that a Variable was read."""
    for tape in state.tapes:
        tape.read(variable, tensor)
    return tensor


def without_unused(trace: Trace, results: Sequence[SymbolicTensor]) -> None:
    """Removes dead code from a function, and captures that only dead code used.

    A capture is an argument of the control flow, so that one without a use would keep a tensor alive for nothing.
    """
    params = [p._var for p in [*trace.params, *(inner for _, inner in trace.captures.values())]]
    trace.bindings = needed_bindings(params, trace.bindings, [r._var for r in results])
    used = {r._var for r in results}
    for binding in trace.bindings:
        used.update(relax.analysis.free_vars(binding.value))
    trace.captures = {key: (outer, inner) for key, (outer, inner) in trace.captures.items() if inner._var in used}


def define_dims(trace: Trace) -> None:
    """Captures a tensor for each symbolic dim that the function uses and no parameter has.

    Raises:
      ValueError: no tensor has a dim that the function doesn't compute.
    """
    missing = capture_dims(trace)
    if missing:
        raise ValueError(f"no tensor has the symbolic dim {missing[0]}; return it from the function that computes it")


def capture_dims(trace: Trace) -> list[Any]:
    """Captures a tensor for each symbolic dim that only enclosing traces know; returns the dims that no tensor has.

    A function of its own can read a size only from its arguments.
    """
    params = [p._var for p in [*trace.params, *(inner for _, inner in trace.captures.values())]]
    block = relax.BindingBlock(trace.bindings)
    body = relax.Function(params, relax.SeqExpr([block], relax.Tuple([])), ret_ty=relax.TupleType([]))
    computed = {dim for bound in _calls(trace) for dim in _computed_by(bound)} | set(_deferred_dims(trace))
    missing = []
    for symbol in relax.analysis.free_symbolic_vars(body):
        outer = carrier(trace.parent or trace.caller, symbol)
        if outer is not None:
            trace.capture(outer, outer._type, "sized")
        elif symbol not in computed:
            missing.append(symbol)
    return missing


COMPUTING = ("stack_sized", "told_dims", "common_dims", "call_python", *CONTROL)
"""Primitives whose attributes name dims that running them computes; so do those of host primitives."""


def _computed_by(bound: dialect.Bound) -> set[Any]:
    """Returns the symbolic dims that a call defines: those in its attributes that no operand has."""
    if bound.primitive.name not in COMPUTING and not bound.primitive.host:
        return set()
    operand_dims = {d for x in bound.inputs if x.ty.shape is not None for d in x.ty.shape.values}
    return {d for d in _flat(tuple(bound.attrs.values())) if isinstance(d, tirx.Var) and d not in operand_dims}


def _deferred_dims(trace: Trace) -> Iterator[Any]:
    """Yields the dims of deferred calls, which instances define."""
    for binding in trace.bindings:
        if dialect.is_dialect(binding.value) and dialect.read(binding.value).primitive.name == "waiting":
            types = binding.var.ty.fields if isinstance(binding.var.ty, relax.TupleType) else [binding.var.ty]
            yield from (d for ty in types if ty.shape is not None for d in ty.shape.values if isinstance(d, tirx.Var))


def _flat(value: Any) -> Iterable[Any]:
    if not isinstance(value, tuple):
        return [value]
    return [each for part in value for each in _flat(part)]


def _calls(trace: Trace) -> Iterable[dialect.Bound]:
    return (dialect.read(b.value) for b in trace.bindings if dialect.is_dialect(b.value))


def carrier(trace: Trace | None, symbol: Any) -> SymbolicTensor | None:
    """Returns a tensor of an enclosing trace that has ``symbol`` as a dim."""
    for each in trace.enclosing() if trace is not None else ():
        for tensor in [*each.params, *(inner for _, inner in each.captures.values()), *_bound(each)]:
            dims = tensor._type.shape
            if isinstance(dims, AnyShape):  # its rank is unknown, so the axis of the dim is too
                continue
            if any(d is symbol or symbol.same_as(d) for d in dims if not isinstance(d, int)):
                return tensor
    return None


def knows_dim(trace: Trace | None, dim: Any) -> bool:
    """Returns whether enclosing traces have tensors with all symbols of a dim."""
    return isinstance(dim, int) or all(carrier(trace, v) is not None for v in tirx.analysis.undefined_vars(dim))


def _bound(trace: Trace) -> Iterable[SymbolicTensor]:
    for binding in trace.bindings:
        if isinstance(binding.var.ty, relax.TensorType) and binding.var.ty.shape is not None:
            yield SymbolicTensor(binding.var, dialect.from_relax_type(binding.var.ty), trace)


def value_in_this_call(trace: Trace, tensor: SymbolicTensor) -> Tensor:
    """Evaluates a traced tensor for the arguments of the call being traced: the initial value of a Variable.

    Variables that it depends on, such as the state of random numbers, take their new values.
    """
    if tensor._trace is not trace or trace.parent is not None:
        return tensor
    known = static_value(tensor)
    if known is not None:
        return EagerTensor(known)
    inputs = {p._var: x for p, x in zip(trace.params, trace.call_args) if isinstance(x, EagerTensor)}
    inputs |= {inner._var: outer for outer, inner in trace.captures.values()}
    changed = [(v, value) for v, value in trace.assigned() if _depend(trace, [tensor], v)]
    values = _evaluate_if_known(trace, [tensor, *(value for _, value in changed)], inputs)
    for (variable, _), value in zip(changed, values[1:]):
        variable.assign(value)
    return values[0]


def _depend(trace: Trace, tensors: Sequence[SymbolicTensor], variable: Any) -> bool:
    """Returns whether tensors depend on a Variable."""
    return trace.captures[id(variable)][1]._var in _needed_bindings_and_vars(trace, tensors)[1]


def _needed_bindings_and_vars(trace: Trace, tensors: Sequence[SymbolicTensor]) -> tuple[list[Any], set[Any]]:
    """Returns the bindings that tensors depend on, in order, and the variables in them.

    Bindings are visited last to first, so that whatever reads a variable comes before its binding.
    """
    used = {t._var for t in tensors}
    bindings = []
    for binding in reversed(trace.bindings):
        if binding.var in used:
            used.update(relax.analysis.free_vars(binding.value))
            bindings.append(binding)
    return bindings[::-1], used


def _evaluate_if_known(
    trace: Trace, tensors: Sequence[SymbolicTensor], inputs: Mapping[Any, Any]
) -> tuple[Tensor, ...]:
    """Evaluates traced tensors on known inputs; returns them unchanged if an input is unknown."""
    bindings, used = _needed_bindings_and_vars(trace, tensors)
    params = [p._var for p in [*trace.params, *(inner for _, inner in trace.captures.values())] if p._var in used]
    if not all(p in inputs for p in params):
        return tuple(tensors)
    result = relax.Tuple([t._var for t in tensors])
    function = relax.Function(params, relax.SeqExpr([relax.BindingBlock(bindings)], result), ret_ty=result.ty)
    functions = {var: graph.function for var, graph in trace.subgraphs.items()}
    for graph in trace.subgraphs.values():
        functions |= graph.reachable()
    arguments = [convert_to_tensor(inputs[p]) for p in params]
    # The values are needed for tracing only, and must not appear in gradients.
    tapes, state.tapes = state.tapes, []
    try:
        return evaluate(ir.IRModule({relax.GlobalVar("main"): function} | functions), "main", arguments)
    finally:
        state.tapes = tapes
