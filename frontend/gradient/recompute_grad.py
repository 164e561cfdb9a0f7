"""``tf.recompute_grad``: rematerialization, intermediates are recomputed for the gradient instead of stored.

While tracing it is a primitive with the function as its graph. A tape in the trace, the gradient of a loop, and the
forward and backward code of a whole function store only its inputs. Source: Chen, Xu, Zhang & Guestrin, Training Deep
Nets with Sublinear Memory Cost, 2016.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.primitive import as_tuple, defer_unknown_rank, export
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.cond_while import repack
from tvtf.frontend.control_flow.variable_effects import traced_assign
from tvtf.frontend.control_flow.vectorized_map import is_mapped
from tvtf.frontend.gradient.tape import GradientTape
from tvtf.ops.control import call
from tvtf.ops.custom import recompute
from tvtf.ops.rules import bind
from tvtf.passes.autodiff.reverse_mode import Recorder
from tvtf.state.variable import Variable


@export("recompute_grad")
def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates ``f`` so that tapes store only its inputs; it runs again for its gradient.

    Args:
      f: takes and returns nests of tensors. It has gradients by its arguments, by outside tensors that it uses, and by
        Variables. Eagerly its Python runs twice: it should assign no Variables, and draw random numbers by a given seed only.
        In a ``tf.function`` its Python runs once.

    Returns:
      A function with the results of ``f``, which uses less memory between the forward pass and the gradient.

    >>> import tvtf as tf
    >>> block = tf.recompute_grad(lambda x: tf.sin(tf.sin(x)))
    >>> x = tf.constant(0.)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = block(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(1.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/recompute_grad
    """
    name = getattr(f, "__name__", "recompute_grad")

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        """Calls ``f`` so that a gradient recomputes it: as a primitive in a trace, as one record on eager tapes."""
        tensors = [x for x in nest.flatten((args, kwargs), expand_composites=True) if is_tensor(x)]
        if is_mapped(tensors):  # inside a vectorized map nothing is recomputed
            return f(*args, **kwargs)
        if state.trace is not None:
            return _bind_recompute(name, functools.partial(f, *args, **kwargs), tensors)
        return _recorded_call(name, f, (args, kwargs)) if state.tapes else f(*args, **kwargs)

    return defer_unknown_rank(decorated)


# -- traced


def _bind_recompute(name: str, run: Callable[[], Any], tensors: Sequence[Any]) -> Any:
    """Traces a function, emits the ``recompute`` primitive over the trace, and returns the function's results.

    Variables that the function assigns are results of the primitive, and are assigned after it.

    Args:
      name: the name of the trace.
      run: calls the function on its arguments.
      tensors: the tensors among the arguments.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction, assigned_variables, lift, variable_value

    def run_with_captured_arguments() -> Any:
        """Calls the function. All tensor arguments are captured first, in their order, used or not."""
        state.trace.is_part_of_parent = True
        for x in tensors:
            if isinstance(x, SymbolicTensor):
                state.trace.own(x)
        return run()

    traced = TracedFunction(name, run_with_captured_arguments)
    variables = assigned_variables([traced])
    values = [variable_value(traced, variable) for variable in variables]
    captured = lift([traced])
    count = len(traced.leaves)
    outputs = as_tuple(recompute.bind(*captured, forward=traced.graph(values), count=count))
    for variable, value in zip(variables, outputs[count:]):
        traced_assign(variable, value, read_value=False)
    return repack(traced.structure, outputs[:count])


def recompute_vjp(cotangents: Any, outputs: Any, *inputs: Tensor, forward: Any, count: int) -> list[Any]:
    """Computes the cotangents of a recomputed function's inputs by running the function again under a tape.

    The second run reads its inputs through the op ``apart``, an optimization barrier. Without it, common subexpression
    elimination would merge the second run with the first, and keep the intermediate results in memory.

    Args:
      cotangents: the cotangents of the function's results.
      outputs: the results of the first run.
      inputs: the function's inputs.
      forward: the function, traced or as a graph.
      count: the number of the function's results.
    """
    copies = [bind.apart(x) for x in inputs]

    def run_again() -> Sequence[Any]:
        return call(forward, copies)[:count]

    return _cotangents_of_rerun(run_again, copies, cotangents)


# -- eager


def _recorded_call(name: str, f: Callable[..., Any], structure: Any) -> Any:
    """Calls ``f`` eagerly, and records the call on the gradient tapes as one op. Returns the results of ``f``.

    If the ops of ``f`` were recorded one by one, the tapes would keep the intermediate results that are to be
    recomputed. ``structure`` is the pair of positional and keyword arguments.
    """
    flat = nest.flatten(structure, expand_composites=True)
    tensor_positions = [i for i, x in enumerate(flat) if is_tensor(x) and not isinstance(x, Variable)]
    tensor_args = [flat[i] for i in tensor_positions]

    def run(tensors: Sequence[Tensor]) -> Any:
        """Calls ``f`` with other tensors in place of the tensor arguments."""
        leaves = list(flat)
        for position, tensor in zip(tensor_positions, tensors):
            leaves[position] = tensor
        args, kwargs = nest.pack_sequence_as(structure, leaves, expand_composites=True)
        return f(*args, **kwargs)

    tapes = state.tapes
    used = _UsedTensors(state.tapes, tensor_args)
    state.tapes = [*state.observers, used]
    try:
        result = run(tensor_args)
        # New tensors: tapes distinguish tensors by identity, and a result may be one of the inputs.
        outputs = [bind.identity(convert_to_tensor(x)) for x in nest.flatten(result, expand_composites=True)]
    finally:
        state.tapes = tapes
    captured, variables = list(used.tensors.values()), list(used.variables.values())
    inputs = [*tensor_args, *captured, *(variable._as_tensor() for variable in variables)]
    for tape in tapes:
        call_to_record = _RecomputedCall(name, run, len(tensor_args), [*captured, *variables])
        tape.record(call_to_record, inputs, tuple(outputs), {})
    return nest.pack_sequence_as(result, outputs, expand_composites=True)


class _UsedTensors(Recorder):
    """A tape that collects the captured tensors and the Variables for which other tapes may need gradients."""

    def __init__(self, tapes: Sequence[Any], arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self.tapes = tapes
        self.known = set(map(id, arguments))
        self.tensors: dict[int, Tensor] = {}
        self.variables: dict[int, Variable] = {}

    def read(self, variable: Variable, tensor: Tensor) -> None:
        if variable.trainable or self.is_watched(variable):
            self.variables[id(variable)] = variable

    def record(self, prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
        self.tensors |= {id(x): x for x in inputs if id(x) not in self.known and self.is_watched(x)}

    def is_watched(self, x: Any) -> bool:
        return any(tape.watches(x) for tape in self.tapes)


class _RecomputedCall:
    """The op that tapes record for an eager call of a recomputed function. Its gradient runs the function again."""

    def __init__(self, name: str, run: Callable[[Sequence[Tensor]], Any], count: int, outer: Sequence[Any]) -> None:
        self.tf_name = name
        self.run = run
        self.count = count
        self.outer = outer

    def vjp(self, cotangents: Sequence[Any], outputs: Any, *inputs: Tensor) -> list[Any]:
        """Computes the cotangents of the inputs: the tensor arguments, then captured tensors and Variables."""
        copies = [bind.apart(x) for x in inputs[: self.count]]
        return _cotangents_of_rerun(
            lambda: nest.flatten(self.run(copies), expand_composites=True), [*copies, *self.outer], cotangents
        )


def _cotangents_of_rerun(
    run: Callable[[], Sequence[Any]], sources: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Runs a function under a gradient tape, and returns the cotangents of ``sources``.

    ``cotangents`` are those of the function's results. The cotangent of a source that the results don't depend on is
    zero, as in TensorFlow. It is None for a source whose dtype has no gradients, such as an integer dtype.
    """
    watched = [x for x in sources if x.dtype.is_differentiable]
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(watched)
        results = list(map(convert_to_tensor, run()))
    targets, target_cotangents = [], []
    for result, cotangent in zip(results, cotangents):
        if result.dtype.is_differentiable:
            targets.append(result)
            target_cotangents.append(cotangent)
    remaining = iter(tape.gradient(targets, watched, target_cotangents, unconnected_gradients="zero"))
    return [next(remaining) if x.dtype.is_differentiable else None for x in sources]
