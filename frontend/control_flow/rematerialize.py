"""Rematerialization: runs functions of control flow again for their gradients, recorded and without effects.

A run keeps the results of costly primitives, so that another run can take them instead of computing them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from tvm import ir, relax, tirx

from tvtf.core.primitive import as_tuple, table
from tvtf.core.shape import TensorType, same_shape
from tvtf.core.tensor import Tensor
from tvtf.core.thread_state import state
from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir import dialect
from tvtf.ir.interpreter import CONTROL, Evaluation, Subfunction
from tvtf.ir.trace import Trace
from tvtf.ops.indexed_slices import as_dense
from tvtf.ops.rules import bind
from tvtf.passes.autodiff.reverse_mode import Record, Recorder, sweep
from tvtf.passes.graph.loop_dce import TrimmedLoop, is_loop


def differentiable(x: Tensor) -> bool:
    """Returns whether a tensor's dtype has gradients, such as a float's."""
    return x._type.dtype.is_differentiable


Residuals = dict[tuple[int, int], Any]
"""Results of primitives, or their types, by the primitive's position in the function and the result's index."""


class Replay:
    """A function of control flow that runs again under a gradient tape, without its side effects."""

    def __init__(
        self, function: Any, inputs: Sequence[Tensor], saved: Residuals | None = None, carried: int | None = None
    ) -> None:
        """Runs a function again under a gradient tape, without its side effects.

        Args:
          function: a branch, or the body of a loop.
          inputs: the tensors to run the function on.
          saved: results of primitives, which are used instead of running the primitives.
          carried: for a loop's body, the number of loop variables. Loop invariants follow them in ``inputs``.
        """
        trace = state.trace
        # Tapes distinguish tensors by identity: the aliases are inputs of this run only.
        self.inputs = list(inputs) if trace is None else [trace.own(x).alias() for x in inputs]
        recorder = Recorder()
        for x in self.inputs:
            if differentiable(x):
                recorder.watch(x)
        tapes = state.tapes
        state.tapes = [*state.tapes, recorder]
        try:
            loop_invariant = [] if carried is None else self.inputs[carried:]
            self.evaluation = evaluation_of(function, self.inputs, ResidualsWithoutEffects).start(
                saved or {}, loop_invariant
            )
            self.outputs = self.evaluation.run()
        finally:
            state.tapes = tapes
        self.records: list[Record] = recorder.records

    def sweep(self, output_cotangents: Sequence[Any], sources: Sequence[Any], zeros: bool = True) -> list[Any]:
        """Sweeps the recorded run backward, and returns the cotangents of ``sources``.

        Args:
          output_cotangents: the cotangents of the outputs, None for outputs without one.
          sources: the tensors to differentiate with respect to.
          zeros: an option of ``reverse_mode.sweep``.
        """
        seeds = [
            (output, cotangent) for output, cotangent in zip(self.outputs, output_cotangents) if cotangent is not None
        ]
        cotangents = sweep(self.records, seeds, sources, zeros=zeros)
        return [as_dense(cotangent) for cotangent in cotangents]


class WithoutAssignments:
    """An evaluation (interpreter run) of a function that ran before: the memory of Variables isn't written again.

    A gradient runs functions on recorded tensors, which take the place of the Variables' memory. Code writes that memory
    before something that may fail, and the gradient needs the values that lie there.
    """

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Evaluates a primitive, and returns the results. An assignment gives the new value, a read of the Variable."""
        if prim.name == "assign":
            old, new, *_memory = inputs
            return bind.reloaded(old, new)
        return super().bind(prim, inputs, attrs)  # type: ignore[misc]


class WithoutEffects(WithoutAssignments):
    """An evaluation of a function without its side effects: nothing is printed, checked or assigned again."""

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Evaluates a primitive without its side effects, and returns the results.

        Control flow runs as its pure variant. A run-time check returns its operand unchecked. A primitive that only has
        effects doesn't run: its results are zeros, which nothing reads.
        """
        if prim.name in CONTROL:
            prim = table[prim.name.removeprefix("effect_")]
            attrs = _without_growth(inputs, attrs)
        elif prim.name == "effect_recompute":
            prim = table["recompute"]
        elif prim.name == "guard":
            return inputs[0]
        elif prim.name == "with_gradient":
            attrs = attrs | {"backward": with_effects(attrs["backward"])}
        elif not prim.pure and not has_effect_results(prim, attrs):
            return zeros_for(prim, inputs, attrs)
        return super().bind(prim, inputs, attrs)


def with_effects(function: Any) -> Any:
    """Returns a custom gradient function that keeps its side effects, even in an evaluation without effects.

    Other functions run a second time in such an evaluation, but a gradient function runs for the first time.
    """
    return Subfunction(function.mod, function.name) if isinstance(function, Subfunction) else function


class KeepResiduals:
    """An evaluation that keeps the results of costly primitives, or uses results that an earlier evaluation kept."""

    saved: dict[int, dict[int, Tensor]] | None = None  # by position and index; None in nested functions
    position = 0  # the position of the last primitive, counted from 1

    def start(self, saved: Residuals, loop_invariant: Sequence[Tensor] = ()) -> Any:
        """Prepares the evaluation to run, and returns it.

        Args:
          saved: results of primitives, which are used instead of running the primitives.
          loop_invariant: the inputs that all iterations of a loop share.
        """
        self.saved = defaultdict[int, dict[int, Tensor]](dict)
        for (position, i), x in saved.items():
            self.saved[position][i] = x
        self.loop_invariant = loop_invariant
        self.residuals: Residuals = {}
        return self

    def bind(self, prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Evaluates a primitive, or uses its saved results, and returns the results.

        Results of costly primitives, and rows read from arrays, are kept in ``residuals`` for the gradient. The keys
        are pairs of the primitive's position in the function and the result's index.
        """
        if self.saved is None:  # in a nested function, which keeps nothing
            return super().bind(prim, inputs, attrs)  # type: ignore[misc]
        self.position += 1
        if self.position in self.saved:
            result = _saved_result(prim, inputs, attrs, self.saved[self.position])
        else:
            result = super().bind(prim, inputs, attrs)  # type: ignore[misc]
        if prim.heavy or prim.name in COSTLY or self._reads_varying_array(prim, inputs):
            self.residuals |= {(self.position, i): x for i, x in enumerate(as_tuple(result))}
        return result

    def _reads_varying_array(self, prim: Any, inputs: list[Any]) -> bool:
        """Returns whether a primitive reads a row of an array, and the array differs between iterations.

        The row is then kept for the gradient instead of the whole array.
        """
        return prim.name == "stack_read" and not any(inputs[0] is x for x in self.loop_invariant)


class ResidualsWithoutEffects(KeepResiduals, WithoutEffects):
    """An evaluation without effects that keeps the results of costly primitives, or uses results that were kept."""


def _saved_result(prim: Any, inputs: list[Any], attrs: dict[str, Any], saved: dict[int, Tensor]) -> Any:
    """Returns the saved results of a primitive, and records the primitive on the gradient tapes as if it had run.

    Results that nothing reads weren't saved, and become zeros.

    Args:
      prim: the primitive.
      inputs, attrs: its inputs and attributes.
      saved: the saved results, by their indices among all results.
    """
    zeros = zeros_for(prim, inputs, attrs)
    if isinstance(zeros, Tensor):
        results: Any = saved.get(0, zeros)
    else:
        results = tuple(saved.get(i, x) for i, x in enumerate(zeros))
    record_on_tapes(prim, inputs, results, attrs)
    return results


def record_on_tapes(prim: Any, inputs: Sequence[Any], outputs: Any, attrs: dict[str, Any]) -> None:
    """Records a primitive with its inputs, outputs and attributes on all active gradient tapes."""
    for tape in state.tapes:
        tape.record(prim, inputs, outputs, attrs)


def _without_growth(inputs: Sequence[Tensor], attrs: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a while loop that runs again, without growth of TensorArrays that are complete.

    Complete arrays start with the number of rows that they had after the first run. The trace lists the symbolic dims
    of these numbers in ``final_rows``.

    Args:
      inputs: the loop's inputs.
      attrs: the loop's attributes.
    """
    if not attrs.get("arrays") or state.trace is None:
        return attrs
    final_rows = state.trace.root.final_rows
    entry_shapes = [x._type.shape for x in inputs]
    # The first member of an array's attribute is the position of its buffer among the loop variables.
    complete = {position for position, *_ in attrs["arrays"] if entry_shapes[position][0] in final_rows}
    arrays = tuple(growing for growing in attrs["arrays"] if growing[0] not in complete)
    shapes = tuple(entry_shapes[i] if i in complete else shape for i, shape in enumerate(attrs["shapes"]))
    if all(map(same_shape, shapes, entry_shapes)):
        shapes = ()  # no loop variable changes its shape
    return attrs | {"arrays": arrays, "shapes": shapes}


def has_effect_results(prim: Any, attrs: dict[str, Any]) -> bool:
    """Returns whether a primitive has a side effect and also returns results of this effect, as a call of Python does.

    Control flow isn't counted: whether it has effects depends on its functions.
    """
    if prim.pure or prim.name in CONTROL or prim.name in ("guard", "print_text", "effect_recompute"):
        return False
    return prim.name != "call_python" or bool(attrs["shapes"])


def zeros_for(prim: Any, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    """Returns zeros of a primitive's result types: a tensor, or a tuple if the primitive returns a tuple."""
    result_types = prim.typed(*(x._type for x in inputs), **attrs)
    input_dims = dims_in(x._type for x in inputs)
    if isinstance(result_types, TensorType):
        return zeros_of(result_types, input_dims)
    return tuple(zeros_of(result_type, input_dims) for result_type in result_types)


def dims_in(types: Iterable[TensorType]) -> set[Any]:
    """Returns the symbolic dims in the shapes of tensor types."""
    return {dim for tensor_type in types for dim in tensor_type.shape if isinstance(dim, tirx.Var)}


def zeros_of(of: TensorType, given: Collection[Any] = ()) -> Tensor:
    """Returns zeros of the type ``of``. A dim that can't be computed from the symbolic dims in ``given`` becomes 0."""
    return bind.stack_new(shape=tuple(dim if is_computable_from(dim, given) else 0 for dim in of.shape), dtype=of.dtype)  # type: ignore[no-any-return]


def is_computable_from(dim: Any, symbols: Collection[Any]) -> bool:
    """Returns whether a dim is an int, or an expression of no other symbolic dims than ``symbols``."""
    return isinstance(dim, int) or all(var in symbols for var in tirx.analysis.undefined_vars(dim))


COSTLY = ("matmul", "contract", "recompute")
"""Primitives whose results are kept rather than recomputed, in addition to the heavy ones."""


@cache
def _evaluation_class(base: Any, mixin: Any) -> Any:
    """Returns a subclass of the evaluation class ``base`` with the methods of ``mixin``, or ``base`` if it has them."""
    return base if issubclass(base, mixin) else type(mixin.__name__, (mixin, base), {})


def evaluation_of(function: Any, inputs: Sequence[Tensor], mixin: Any = KeepResiduals) -> Any:
    """Creates an interpreter of a branch or a loop's condition or body, with its arguments, but doesn't run it yet.

    The method ``run`` evaluates the function in the active trace. For the default ``mixin``, call ``start`` first: it says
    where to keep the residuals.

    Args:
      function: an attribute of a control flow primitive: the graph of a traced function, or a ``Subfunction`` (a
        function of a module that is itself being evaluated).
      inputs: the arguments of the function, which include its captures.
      mixin: a class whose ``bind`` overrides what the interpreter does with each primitive.

    Returns:
      An :class:`Evaluation` with the methods of ``mixin``. For a ``Subfunction`` it also has the class of the
      evaluation that the function belongs to.
    """
    if hasattr(function, "all_params"):  # the graph of a traced function
        mod = function.module()
        name = "main"
        base_class = Evaluation
    else:
        mod, name, base_class = function.mod, function.name, function.kind
    return _evaluation_class(base_class, mixin)(mod, mod[name], inputs)


def read_by(function: Any) -> set[int]:
    """Returns the indices of the parameters that a function reads. Other parameters only have symbolic dims for it."""
    main = function.function if hasattr(function, "all_params") else function.mod[function.name]
    used = set(relax.analysis.free_vars(main.body))
    return {i for i, param in enumerate(main.params) if param in used}


# -- in the active trace


def has_effects(*functions: Any) -> bool:
    """Returns whether any of the functions is a graph with side effects.

    Functions of modules count as pure, because primitives with ``effect_`` names call those that have effects.
    """
    return state.trace is not None and not all(getattr(function, "pure", True) for function in functions)


def loop_position(bindings: Sequence[Any], outputs: Sequence[Any], has_effects: bool) -> int | None:
    """Returns the index of a loop's binding in the active trace, or None if the loop is not there.

    A loop in an outer trace, or a rewritten loop, is not found. Stacks can't be added to such a loop.

    Args:
      bindings: the bindings of the active trace.
      outputs: the results of the loop.
      has_effects: whether the loop has side effects.
    """
    positions = {binding.var: i for i, binding in enumerate(bindings)}
    output_position = positions.get(getattr(outputs[0], "_var", None))
    if output_position is None:
        return None
    # The loop returns a tuple, of which each output is an element.
    tuple_item = bindings[output_position].value
    if not isinstance(tuple_item, relax.TupleGetItem) or tuple_item.index != 0:
        return None
    position = positions.get(tuple_item.tuple_value)
    if position is None or not dialect.is_dialect(bindings[position].value):
        return None
    # A copy with a counter and stacks took the place of a loop that was differentiated before.
    if len(bindings[position].var.ty.fields) != len(outputs):
        return None
    # A loop with side effects is bound as `effect_while`.
    has_effect_op = bindings[position].value.op.name.startswith("tvtf.effect_")
    return position if has_effect_op == has_effects else None


def replace_binding(position: int, first: int, results: Sequence[Tensor]) -> None:
    """Replaces a binding of the active trace by later bindings that compute the same results.

    Args:
      position: the index of the binding to replace.
      first: the index of the first new binding. This binding and all after it are moved to ``position``.
      results: the tensors that the new bindings compute.
    """
    bindings = state.trace.bindings
    new_results = relax.Tuple([state.trace.own(result)._var for result in results])
    replacement = relax.VarBinding(bindings[position].var, new_results)
    bindings[position:] = [*bindings[first:], replacement, *bindings[position + 1 : first]]


def variables_used_by(trace: Trace, results: Sequence[Any]) -> set[Any]:
    """Returns the Relax variables of a trace on which the results depend.

    Of a loop's inputs, only those are counted that the used results need. A value that has a symbolic dim depends on the
    first variable that has the dim.
    """
    result_vars = [trace.own(result)._var for result in results]
    used = {var for var in result_vars if isinstance(var, relax.Var)}
    functions = {var: graph.function for var, graph in trace.subgraphs.items()}
    used_loop_results: dict[Any, set[int]] = defaultdict(set)  # indices of results, by the loop's variable
    dim_sources = _dim_sources(trace)
    for binding in reversed(trace.bindings):
        var, value = binding.var, binding.value
        is_used = var in used
        if is_used:
            used.update(dim_sources[dim] for dim in (*_dims(var.ty), *_dims(value)) if dim in dim_sources)
        if is_used and isinstance(value, relax.TupleGetItem):  # an element of a tuple, as loops return it
            used_loop_results[value.tuple_value].add(int(value.index))
        elif var in used_loop_results and is_loop(value):
            used.update(TrimmedLoop(functions, value, used_loop_results[var]).operands())
        elif is_used or var in used_loop_results:
            used.update(relax.analysis.free_vars(value))
    return used


def _dim_sources(trace: Trace) -> dict[Any, relax.Var]:
    """Maps each symbolic dim that no parameter has to the first variable that has the dim in its type."""
    param_dims = {dim for param in trace.params for dim in _dims(param._var.ty)}
    sources: dict[Any, relax.Var] = {}
    for binding in trace.bindings:
        for dim in _dims(binding.var.ty):
            if dim not in param_dims:
                sources.setdefault(dim, binding.var)
    return sources


def _dims(part: Any) -> list[Any]:
    """Returns the symbolic dims in a type or an expression."""
    variables: list[Any] = []
    structural_walk(part, (tirx.Var, variables.append))
    # Dims have primitive types.
    return [var for var in variables if isinstance(var.ty, ir.PrimType)]
