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
from tvtf.core.specialization import traces_example
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, read_if_variable, static_value
from tvtf.core.thread_state import state
from tvtf.ir import dialect
from tvtf.ir.graph import Graph
from tvtf.ir.interpreter import CONTROL, evaluate
from tvtf.ir.trace import Trace, tracing
from tvtf.passes.analysis.dead_code import needed_bindings
from tvtf.state.variable import Variable


class TracedFunction:
    """A Python function that is traced inside the active trace, such as a branch of a cond or the body of a loop.

    ``params`` are the parameters, ``structure`` is the returned structure, ``leaves`` are the tensors in ``structure``.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], types: Sequence[TensorType] = (), is_branch: bool = False
    ) -> None:
        """Traces ``function`` on new parameters, in a trace inside of the active one.

        Args:
          name: the name of the trace.
          function: takes a tensor for each parameter, and returns a structure of tensors.
          types: the types of the parameters.
          is_branch: whether the function is a branch of a cond, which may not run.
        """
        self.trace = Trace(name, state.trace)
        self.trace.is_in_branch |= is_branch
        with tracing(self.trace):
            self.params = [self.trace.add_param(tensor_type) for tensor_type in types]
            result = function(*self.params)
            self.structure = nest.map_structure(_traced_result, result, expand_composites=True)
        self.leaves = [leaf for leaf in nest.flatten(self.structure, expand_composites=True) if leaf is not None]

    def graph(self, extra: Iterable[Tensor] = ()) -> Graph:
        """Finishes the trace, and returns its graph.

        The graph returns the function's results and the ``extra`` tensors.
        """
        return self.trace.finish([*self.leaves, *extra])

    def with_types(self, types: Sequence[TensorType]) -> TracedFunction:
        """Returns the function traced again for other parameter types.

        The operations of the trace are emitted again into a new trace. The user's Python isn't run again, because this
        would repeat its prints and appends.
        """
        define_dims(self.trace)
        old_trace = self.trace
        variables = list(self.trace.variables.values())
        graph = self.graph(value for _, value in variables)

        def bound_again(*params: Tensor) -> Any:
            """Emits the function's operations into the active trace, and returns the function's results.

            Assignments of Variables are repeated, too: the new trace gets the new values.
            """
            captures = [
                state.trace.capture(outer, inner._type, "captured") for outer, inner in old_trace.captures.values()
            ]
            results = evaluate(graph.module(), "main", [*params, *captures])
            # The graph's additional results are the values of the Variables.
            state.trace.take_variables(old_trace, results[len(self.leaves) :])
            remaining = iter(results)

            def next_result(leaf: Any) -> Any:
                return None if leaf is None else next(remaining)

            return nest.map_structure(next_result, self.structure, expand_composites=True)

        return TracedFunction(old_trace.name, bound_again, types, old_trace.is_in_branch)


def _traced_result(value: Any) -> Tensor | None:
    """Converts a result of a traced function to a tensor of the trace, and None or a graph operation to None."""
    return None if value is None or isinstance(value, Operation) else state.trace.own(convert_to_tensor(value))


def assigned_variables(functions: Sequence[TracedFunction]) -> list[Any]:
    """Returns the Variables that the traced functions assign, each once, in order."""
    variables = {id(variable): variable for function in functions for variable, _ in function.trace.assigned()}
    return list(variables.values())


def carried_variables(functions: Sequence[TracedFunction]) -> list[Any]:
    """Returns the Variables that a while loop carries as loop variables.

    These are the Variables that the loop assigns. If the loop calls the user's Python, they are all Variables that the
    loop uses, because Python may assign any of them. ``functions`` are the traces of the condition and the body.
    """
    if not any(function.trace.is_after_python for function in functions):
        return assigned_variables(functions)
    variables_by_id: dict[int, Any] = {}  # the condition and the body may use the same Variable
    for function in functions:
        for variable, _ in function.trace.variables.values():
            variables_by_id[id(variable)] = variable
    return list(variables_by_id.values())


def variable_value(function: TracedFunction, variable: Any) -> SymbolicTensor:
    """Returns a Variable's value at the end of a traced function."""
    return function.trace.read_variable(variable)


def lift(functions: Sequence[TracedFunction]) -> list[Tensor]:
    """Gives traced functions the same captured tensors in the same order, and returns these tensors.

    The tensors are the arguments of the control flow that calls the functions in the active trace.
    """
    return lift_traces([function.trace for function in functions])


def lift_traces(traces: Sequence[Trace]) -> list[Tensor]:
    """Gives traces the same captured tensors in the same order, and returns these tensors for the active trace.

    This is closure conversion (lambda lifting): what a branch or body captures from the traces around it becomes
    further parameters. The two branches of a cond must have the same parameters, and so must the condition and the body
    of a loop, so each trace gets a parameter also for what only the others capture.

    Args:
      traces: the traces of the functions that one primitive of control flow calls.

    Returns:
      The arguments for these parameters, in order, which the caller adds to the primitive's operands.
    """
    if any(trace.is_after_python for trace in traces):
        # A function calls the user's Python, which reads the Variables' memory: write assigned values there first.
        state.trace.flush_assignments()
        # Python may assign Variables: their values from before the control flow must not be used after it.
        state.trace.root.python.barriers += 1
    for trace in traces:
        define_dims(trace)
    # `captures` maps an id to a pair: the tensor or Variable outside, and the parameter for it.
    captured_by_any = {key: outer for trace in traces for key, (outer, _) in trace.captures.items()}
    for trace in traces:
        for outer in captured_by_any.values():
            trace.capture(outer, outer._type, "captured")
        trace.captures = {key: trace.captures[key] for key in captured_by_any}  # in the same order
    with state.trace.seeing_assignments_before(captured_by_any.values()) if state.trace is not None else nullcontext():
        return [read_in_active_trace(outer) for outer in captured_by_any.values()]


def read_in_active_trace(outer: Tensor) -> Tensor:
    """Returns a captured tensor as an input of control flow in the active trace.

    If the tensor is a Variable's value, active gradient tapes record a read of the Variable.
    """
    if state.trace is None:
        return read_if_variable(outer)
    for variable, value in state.trace.variables.values():
        if value is outer:
            return _recorded_read(variable, state.trace.read_before(variable, value))
    # What was read before a call of Python isn't the known value any more, as Python may have assigned the Variable.
    variable_at_entry = next(
        (captured for captured, param in state.trace.root.captures.values() if param is outer), None
    )
    earlier, _ = state.trace.reads.get(id(outer), (variable_at_entry, None))
    return _recorded_read(earlier, outer.alias()) if isinstance(earlier, Variable) else outer


def _recorded_read(variable: Any, tensor: Tensor) -> Tensor:
    """Records on all active tapes that a Variable was read, and returns the tensor read."""
    for tape in state.tapes:
        tape.read(variable, tensor)
    return tensor


def without_unused(trace: Trace, results: Sequence[SymbolicTensor]) -> None:
    """Removes from a trace the code on which ``results`` don't depend, and the captures that only this code used.

    A capture becomes an argument of the control flow. An unused argument would keep a tensor alive for nothing.
    """
    params = [param._var for param in trace.all_params]
    result_vars = [result._var for result in results]
    trace.bindings = needed_bindings(params, trace.bindings, result_vars)
    used = set(result_vars)
    for binding in trace.bindings:
        used.update(relax.analysis.free_vars(binding.value))
    trace.captures = {key: (outer, inner) for key, (outer, inner) in trace.captures.items() if inner._var in used}


def define_dims(trace: Trace) -> None:
    """Captures a tensor of an enclosing trace for each symbolic dim that no parameter of a traced function has.

    The captured tensor has the dim in its shape, from which the compiled function reads the size.

    Raises:
      ValueError: no tensor has the dim, and the function doesn't compute it.
    """
    missing = capture_dims(trace)
    if missing and not traces_example():  # nothing runs what is traced for an example
        raise ValueError(f"no tensor has the symbolic dim {missing[0]}; return it from the function that computes it")


def capture_dims(trace: Trace) -> list[Any]:
    """Captures a tensor of an enclosing trace for each symbolic dim that only enclosing traces have.

    A compiled function reads sizes from the shapes of its arguments, so an argument must have the dim.

    Returns:
      the dims that no tensor has and no primitive computes.
    """
    computed = set(_deferred_dims(trace))
    for primitive_call in _calls(trace):
        computed |= _computed_by(primitive_call)
    missing = []
    for symbol in _free_dims(trace):
        # The loop of a gradient may stand before the binding of an enclosing trace that computes the same dim.
        if symbol in computed:
            continue
        outer = tensor_with_dim(trace.parent or trace.caller, symbol)
        if outer is not None:
            trace.capture(outer, outer._type, "sized")
        else:
            missing.append(symbol)
    return missing


def _free_dims(trace: Trace) -> Any:
    """Returns the symbolic dims that a trace uses and that none of its parameters has."""
    # TVM finds the free dims of a function, so the bindings are wrapped in one. Its result doesn't matter.
    params = [param._var for param in trace.all_params]
    body = relax.SeqExpr([relax.BindingBlock(trace.bindings)], relax.Tuple([]))
    return relax.analysis.free_symbolic_vars(relax.Function(params, body, ret_ty=relax.TupleType([])))


COMPUTING = ("stack_sized", "told_dims", "common_dims", "call_python", *CONTROL)
"""Primitives whose attributes name dims that running them computes; so do those of host primitives."""


def _computed_by(primitive_call: dialect.Bound) -> set[Any]:
    """Returns the symbolic dims that a primitive call computes: the dims in its attributes that no operand has.

    For example, ``tf.unique`` and host functions compute the size of their result from the values of their operands.
    """
    if primitive_call.primitive.name not in COMPUTING and not primitive_call.primitive.host:
        return set()
    operand_dims: set[Any] = set()
    for operand in primitive_call.inputs:
        if operand.ty.shape is not None:
            operand_dims.update(operand.ty.shape.values)
    attribute_dims = {dim for dim in _flattened(tuple(primitive_call.attrs.values())) if isinstance(dim, tirx.Var)}
    return attribute_dims - operand_dims


def _deferred_dims(trace: Trace) -> Iterator[Any]:
    """Yields the symbolic dims in the results of deferred calls of a trace.

    A call with arguments of unknown rank is deferred until the function is traced for known ranks. The dims are known
    then.
    """
    for binding in trace.bindings:
        if not dialect.is_dialect(binding.value) or dialect.read(binding.value).primitive.name != "waiting":
            continue
        result_type = binding.var.ty
        types = result_type.fields if isinstance(result_type, relax.TupleType) else [result_type]
        for tensor_type in types:
            if tensor_type.shape is not None:
                yield from (dim for dim in tensor_type.shape.values if isinstance(dim, tirx.Var))


def _flattened(value: Any) -> Iterable[Any]:
    """Returns the leaves of nested tuples."""
    if not isinstance(value, tuple):
        return [value]
    return [each for part in value for each in _flattened(part)]


def _calls(trace: Trace) -> Iterable[dialect.Bound]:
    """Returns the calls of primitives in a trace."""
    return (dialect.read(binding.value) for binding in trace.bindings if dialect.is_dialect(binding.value))


def tensor_with_dim(trace: Trace | None, symbol: Any) -> SymbolicTensor | None:
    """Returns a tensor whose shape contains the symbolic dim ``symbol``, or None if there is no such tensor.

    The tensors of the trace and of all enclosing traces are searched. A compiled function can read the dim from the shape
    of the tensor.
    """
    if trace is None:
        return None
    for enclosing_trace in trace.enclosing():
        captures = [inner for _, inner in enclosing_trace.captures.values()]
        for tensor in [*enclosing_trace.params, *captures, *_bound_tensors(enclosing_trace)]:
            dims = tensor._type.shape
            if isinstance(dims, AnyShape):  # its rank is unknown, so the axis of the dim is too
                continue
            # `same_as` compares TVM's objects, as one object can have several Python wrappers.
            if any(dim is symbol or symbol.same_as(dim) for dim in dims if not isinstance(dim, int)):
                return tensor
    return None


def knows_dim(trace: Trace | None, dim: Any) -> bool:
    """Returns whether a dim can be computed from the shapes of the tensors in a trace and its enclosing traces.

    This is so if each symbol in the dim is a dim of one of these tensors.
    """
    return isinstance(dim, int) or all(
        tensor_with_dim(trace, var) is not None for var in tirx.analysis.undefined_vars(dim)
    )


def _bound_tensors(trace: Trace) -> Iterable[SymbolicTensor]:
    """Yields the tensors that a trace's bindings define."""
    for binding in trace.bindings:
        if isinstance(binding.var.ty, relax.TensorType) and binding.var.ty.shape is not None:
            yield SymbolicTensor(binding.var, dialect.from_relax_type(binding.var.ty), trace)


def value_in_this_call(trace: Trace, tensor: SymbolicTensor) -> Tensor:
    """Evaluates a traced tensor for the arguments of the call that is being traced.

    This gives the initial value of a Variable that a function creates. A tensor that can't be evaluated is returned
    unchanged.
    """
    if tensor._trace is not trace or trace.parent is not None:  # inside control flow, arguments have no values yet
        return tensor
    constant = static_value(tensor)
    if constant is not None:
        return EagerTensor(constant)
    known = {param._var: arg for param, arg in zip(trace.params, trace.call_args) if isinstance(arg, EagerTensor)}
    for outer, inner in trace.captures.values():
        known[inner._var] = outer
    # Side effects happen with the evaluation: a random initial value, for example, advances the generator's state.
    updates = [(variable, new) for variable, new in trace.assigned() if _depend(trace, [tensor], variable)]
    new_values = [new for _, new in updates]
    result, *evaluated_updates = _evaluate_if_known(trace, [tensor, *new_values], known)
    for (variable, _), value in zip(updates, evaluated_updates):
        variable.assign(value)
    return result


def _depend(trace: Trace, tensors: Sequence[SymbolicTensor], variable: Any) -> bool:
    """Returns whether tensors of a trace depend on the value that a captured Variable had before the call."""
    _, captured = trace.captures[id(variable)]
    _, used_vars = _needed_bindings_and_vars(trace, tensors)
    return captured._var in used_vars


def _needed_bindings_and_vars(trace: Trace, tensors: Sequence[SymbolicTensor]) -> tuple[list[Any], set[Any]]:
    """Returns the bindings on which tensors depend, in program order, and the Relax variables of these bindings.

    The variables include those of the tensors themselves.
    """
    used = {tensor._var for tensor in tensors}
    bindings = []
    # From last to first: a variable is used only after its binding.
    for binding in reversed(trace.bindings):
        if binding.var in used:
            used.update(relax.analysis.free_vars(binding.value))
            bindings.append(binding)
    return bindings[::-1], used


def _evaluate_if_known(
    trace: Trace, tensors: Sequence[SymbolicTensor], inputs: Mapping[Any, Any]
) -> tuple[Tensor, ...]:
    """Evaluates traced tensors, or returns them unchanged if a value that they need is unknown.

    Args:
      trace: the trace of the tensors.
      tensors: the tensors to evaluate.
      inputs: the known values of parameters and captures, by their Relax variables.
    """
    bindings, used_vars = _needed_bindings_and_vars(trace, tensors)
    params = [param._var for param in trace.all_params if param._var in used_vars]
    if not all(param in inputs for param in params):
        return tuple(tensors)
    result = relax.Tuple([tensor._var for tensor in tensors])
    function = relax.Function(params, relax.SeqExpr([relax.BindingBlock(bindings)], result), ret_ty=result.ty)
    functions = {var: graph.function for var, graph in trace.subgraphs.items()}
    for graph in trace.subgraphs.values():
        functions |= graph.reachable()
    arguments = [convert_to_tensor(inputs[param]) for param in params]
    # The values are needed for tracing only, and must not appear in gradients.
    tapes = state.tapes
    state.tapes = []
    try:
        return evaluate(ir.IRModule({relax.GlobalVar("main"): function} | functions), "main", arguments)
    finally:
        state.tapes = tapes
