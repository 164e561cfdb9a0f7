"""``tf.cond`` and ``tf.while_loop``: Python control flow eagerly, primitives while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvtf.core import nest
from tvtf.core.argument_error import is_of_shapes
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import export, hooks
from tvtf.core.shape import (
    TensorShape,
    TensorType,
    agree_rank,
    fresh_dim,
    same_dim,
)
from tvtf.core.specialization import UnknownSize, of_any_rank, unknown_size
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, read_if_variable
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.late_types import takes_type, typed_as, typed_as_returned
from tvtf.frontend.control_flow.loop_shapes import (
    changed_sizes,
    check_carried,
    final_shapes,
    generalized_shapes,
    invariant_shape,
    invariants_of,
    own_types,
    show_shapes,
    types_in_loop,
)
from tvtf.frontend.control_flow.tensor_array import Growth, params_of, with_array_buffers
from tvtf.frontend.control_flow.variable_effects import traced_assign
from tvtf.ops import stack as _stack  # noqa: F401 - declares the primitives of loops
from tvtf.ops.control import cond as cond_primitive
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.create import zeros
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable

if TYPE_CHECKING:
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction
    from tvtf.ir.graph import Graph

MSG_BRANCHES = (
    "{first} and {second} arguments to tf.{op} must have the same number, type, and overall structure of return "
    "values.\n\n"
    "{first} output: {a}\n{second} output: {b}\n\nError details:\n{detail}"
)
MSG_LENGTHS = (
    "Lengths of branch outputs of {op} must match.\nlen(graphs[0].outputs): {a}\nlen(graphs[{i}].outputs): {b}\n"
)


@export("cond")
def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Runs ``true_fn()`` if ``pred`` holds, else ``false_fn()``.

    Args:
      pred: a scalar boolean tensor; a Python bool decides while tracing.
      true_fn, false_fn: functions of no arguments that return the same structure of tensors, with equal dtypes and
      ranks.

    Returns:
      What the chosen function returned.

    Raises:
      TypeError: a branch is missing or not callable; or, while tracing, the branches' results differ in structure or
        dtype.
      ValueError: while tracing, the ranks of the branches' results differ, and ``pred`` depends on more than constants.

    >>> import tvtf as tf
    >>> x = tf.constant(2)
    >>> tf.cond(tf.constant(True), lambda: x, lambda: tf.negative(x)).numpy()
    np.int32(2)

    Source: https://www.tensorflow.org/api_docs/python/tf/cond
    """
    for branch, argument_name in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if branch is None:
            raise TypeError(f"cond(): '{argument_name}' argument required")
        if not callable(branch):
            raise TypeError(f"'{argument_name}' must be callable.")
    if state.trace is None or not hasattr(pred, "dtype"):
        return true_fn() if pred else false_fn()  # type: ignore[misc]
    pred = convert_to_tensor(pred)
    return traced_cond(pred, with_operations_as(pred, true_fn), with_operations_as(pred, false_fn))  # type: ignore[arg-type]


def with_operations_as(value: Tensor, branch: Callable[[], Any]) -> Callable[[], Any]:
    """Wraps a branch of a cond: the wrapper returns ``value`` in place of each graph operation that ``branch`` returns.

    A cond returns tensors only. Its result can still be passed to ``tf.control_dependencies``. As in TensorFlow, an
    operation of the graph around the cond runs before it, whichever branch is taken.
    """

    def replace_operation(leaf: Any) -> Any:
        if not isinstance(leaf, Operation):
            return leaf
        state.trace.root.waits_for([leaf])
        return value

    return lambda: nest.map_structure(replace_operation, branch(), expand_composites=True)


def traced_cond(
    pred: Tensor,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    names: tuple[str, str] = ("true_fn", "false_fn"),
    op: str = "cond",
) -> Any:
    """Traces both branches, binds the ``cond`` primitive over the traces, and returns the results of the branch taken.

    The primitive also returns the new values of the Variables that a branch assigns. These are assigned afterwards.

    Args:
      pred: the scalar boolean condition.
      true_fn, false_fn: functions of no arguments.
      names: the branches' names in error messages.
      op: the op's name in error messages.
    """
    from tvtf.frontend.control_flow.closure_conversion import assigned_variables, lift, variable_value

    branches = _traced_branches(op, true_fn, false_fn)
    # Branches of different ranks can't be compiled, but only one of them is needed if the condition is constant.
    constant_pred = _constant_condition(pred) if _ranks_differ(*branches) else None
    if constant_pred is not None:
        return true_fn() if constant_pred else false_fn()
    check_branches(branches[0].structure, branches[1].structure, names, op)
    variables = assigned_variables(branches)
    updates = [
        [variable_value(branch, variable) for variable in variables] or _dummy_result(branch) for branch in branches
    ]
    with state.trace.seeing_assignments_before([pred]):
        captured = lift(branches)
    graphs = [branch.graph(values) for branch, values in zip(branches, updates)]
    count = len(branches[0].leaves)
    with state.trace.together():
        outputs = bound_cond(pred, captured, graphs)
        for variable, value in zip(variables, outputs[count:]):
            traced_assign(variable, value, read_value=False)
    return repack(branches[0].structure, outputs[:count])


def _ranks_differ(first: TracedFunction, other: TracedFunction) -> bool:
    """Returns whether two branches return the same number of tensors, but tensors of different ranks."""
    first_leaves, other_leaves = [[leaf for leaf in branch.leaves if leaf is not None] for branch in (first, other)]
    return len(first_leaves) == len(other_leaves) and not all(
        agree_rank(first_leaf._type.shape, other_leaf._type.shape)
        for first_leaf, other_leaf in zip(first_leaves, other_leaves)
    )


def _constant_condition(pred: Tensor) -> Any:
    """Returns the value of a condition that depends on constants only, and None for other conditions."""
    symbol = state.trace.own(pred)
    return symbol._trace.computed_constants.value(symbol._var)


def _traced_branches(
    op: str, true_fn: Callable[[], Any], false_fn: Callable[[], Any]
) -> tuple[TracedFunction, TracedFunction]:
    """Traces both branches of a cond, and returns the two traces.

    Untyped values that one branch returns get the types of the other branch's results. If the trace is for one call's
    shapes, a branch that is invalid for these shapes is replaced by a branch that raises an error when it runs. The
    program may never take that branch.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction

    true_name = f"{op}_true"
    false_name = f"{op}_false"
    true_branch = _traced_or_error(true_name, true_fn)
    if isinstance(true_branch, ValueError):
        false_branch = TracedFunction(false_name, false_fn, is_branch=True)
        return _raising_branch(true_name, true_branch, false_branch), false_branch
    true_structure = true_branch.structure
    false_or_error = _traced_or_error(false_name, lambda: typed_as(false_fn(), true_structure))
    if isinstance(false_or_error, ValueError):
        return true_branch, _raising_branch(false_name, false_or_error, true_branch)
    false_structure = false_or_error.structure
    # The true branch was traced before the types of the false branch were known.
    if takes_type(true_structure, false_structure):
        true_branch = TracedFunction(true_name, lambda: typed_as(true_fn(), false_structure), is_branch=True)
    return true_branch, false_or_error


def _traced_or_error(name: str, branch: Callable[[], Any]) -> TracedFunction | ValueError:
    """Traces a branch of a cond, and returns the trace, or an error about shapes.

    The error is returned, not raised, if the enclosing trace is for the shapes of one call. The call may never take the
    branch, so the branch should fail only if it runs.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction

    try:
        return TracedFunction(name, branch, is_branch=True)
    except (ValueError, UnknownSize) as error:
        shape_error = error.error if isinstance(error, UnknownSize) else error
        if not state.trace.specialization.has_call_shapes:
            raise
        if not isinstance(shape_error, ValueError) or not is_of_shapes(shape_error):
            raise
        return shape_error


def _raising_branch(name: str, error: ValueError, other: TracedFunction) -> TracedFunction:
    """Returns a branch of a cond that raises ``error`` when it runs, and has results of the ``other`` branch's types."""
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction

    # The branch must return a tensor of each type, and there are no zeros of unknown rank.
    if any(isinstance(leaf._type.shape, AnyShape) for leaf in other.leaves):
        raise error

    def raise_at_run_time() -> Any:
        """Emits a check that always fails, and returns zeros, which no program reads."""
        bind.guard(convert_to_tensor(False), message=str(error))
        return nest.map_structure(_zeros_like_leaf, other.structure, expand_composites=True)

    return TracedFunction(name, raise_at_run_time)


def _zeros_like_leaf(leaf: Tensor | None) -> Tensor | None:
    """Returns zeros of a leaf's rank and dtype. Symbolic dims become 0: the branch fails before the zeros are read."""
    if leaf is None:
        return None
    return zeros([size if isinstance(size, int) else 0 for size in leaf._type.shape], leaf.dtype)


def bound_cond(pred: Tensor, captured: Sequence[Tensor], graphs: Sequence[Graph]) -> tuple[Tensor, ...]:
    """Emits the ``cond`` primitive over the graphs of its two branches, and returns the results.

    If a branch returns tensors of unknown rank, the cond is deferred until the ranks are known.

    Args:
      pred: the scalar boolean condition.
      captured: the arguments of both graphs.
      graphs: the graph to run if the condition holds, and the graph to run otherwise.
    """
    then_branch, else_branch = graphs
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    then_types, else_types = then_branch.output_types, else_branch.output_types
    # The primitive's type rule needs ranks.
    if any(isinstance(result_type.shape, AnyShape) for result_type in (*then_types, *else_types)):
        return hooks.defer_call(deferred_cond, (pred, *captured), branches)  # type: ignore[no-any-return]
    shapes = _merged_shapes(then_types, else_types)
    return cond_primitive.bind(pred, *captured, **branches, shapes=shapes)  # type: ignore[no-any-return]


def deferred_cond(pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any) -> tuple[Tensor, ...]:
    """Emits a ``cond`` that was deferred until the ranks of its operands are known.

    The branches, which were traced for unknown ranks, are traced again for the known ranks. In eager execution, as in the
    gradient of a call that a session runs op by op, the chosen branch is called.

    Args:
      pred: the condition, a boolean scalar.
      captured: the operands of the branches.
      then_branch, else_branch: functions of the operands.
    """
    from tvtf.frontend.control_flow.closure_conversion import TracedFunction, lift

    if state.trace is None:
        chosen = then_branch if pred else else_branch
        return tuple(chosen(*captured))
    types = [x._type for x in captured]
    branches = [TracedFunction("branch", branch, types, is_branch=True) for branch in (then_branch, else_branch)]
    then_trace, else_trace = branches
    try:
        check_branches(then_trace.structure, else_trace.structure, ("true_fn", "false_fn"), "cond")
    except ValueError as error:  # known sizes may decide which branch is taken
        raise unknown_size(error, is_required=False) from None
    sized = lift(branches)  # tensors with dims that the operands have only in products and sums
    return bound_cond(pred, [*captured, *sized], [branch.graph() for branch in branches])


def _merged_shapes(first: Sequence[TensorType], other: Sequence[TensorType]) -> tuple[Any, ...]:
    """Merges the shapes of two branches' results: a dim in which the branches differ becomes a new symbolic dim.

    For example, ``(2, n)`` and ``(3, n)`` give ``(size, n)``. Returns () if no dim differs.
    """
    merged = tuple(tuple(map(_merged_dim, a.shape, b.shape)) for a, b in zip(first, other))
    return () if all(shape == tuple(a.shape) for shape, a in zip(merged, first)) else merged


def _merged_dim(a: Any, b: Any) -> Any:
    """Returns the common dim of two branches' results, or a new symbolic dim if their dims differ."""
    return a if same_dim(a, b) else fresh_dim(state.trace.root.unique("size"))


def _dummy_result(branch: Any) -> list[Tensor]:
    """Returns a list with a constant 0 for a branch without results, and an empty list for other branches.

    TVM's passes lose track of branches that return nothing.
    """
    return [] if branch.leaves else [branch.trace.own(convert_to_tensor(0))]


def repack(structure: Any, tensors: Sequence[Tensor]) -> Any:
    """Replaces the leaves of ``structure`` by ``tensors``, in the order of ``tf.nest.flatten``. None stays None."""
    remaining = iter(tensors)
    return nest.map_structure(lambda leaf: None if leaf is None else next(remaining), structure, expand_composites=True)


def check_branches(first: Any, other: Any, names: tuple[str, str], op: str, index: int = 1) -> None:
    """Checks that two branches return the same structure, dtypes and ranks, and raises TensorFlow's errors otherwise.

    TensorFlow allows branches of different ranks, but compiled code does not.

    Args:
      first, other: the results of the two branches.
      names: the branches' names in error messages.
      op: the op's name in error messages.
      index: the index of the other branch in error messages.
    """
    first_leaves = nest.flatten(first, expand_composites=True)
    other_leaves = nest.flatten(other, expand_composites=True)
    first_count = sum(leaf is not None for leaf in first_leaves)
    other_count = sum(leaf is not None for leaf in other_leaves)
    if first_count != other_count:
        op_name = "cond" if op == "cond" else "case"
        raise ValueError(MSG_LENGTHS.format(op=op_name, a=first_count, i=index, b=other_count))
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
        for first_leaf, other_leaf in zip(first_leaves, other_leaves):
            _check_leaves(first_leaf, other_leaf)
    except (TypeError, ValueError) as error:
        text = MSG_BRANCHES.format(first=names[0], second=names[1], op=op, a=first, b=other, detail=error)
        error_type = ValueError if isinstance(error, _RanksDiffer) else TypeError
        raise error_type(text) from None


class _RanksDiffer(ValueError):
    """Two branches return tensors of different ranks."""


def _check_leaves(first: Any, other: Any) -> None:
    """Checks that two results of the branches of a cond have the same dtype and rank, and raises an error otherwise.

    A result may be None only if the other branch's result is None, too.
    """
    if first is None or other is None:
        if first is not other:
            raise TypeError(f"{first} and {other} have different types")
        return
    if first.dtype is not other.dtype:
        raise TypeError(f"{first!r} and {other!r} have different types")
    if not agree_rank(first._type.shape, other._type.shape):
        raise _RanksDiffer(f"{first!r} and {other!r} have different ranks; compiled branches must return equal ranks")


@export("while_loop")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Runs ``body`` repeatedly while ``cond`` holds.

    Args:
      cond: function of the loop variables; returns a scalar boolean tensor.
      body: function of the loop variables; returns new ones of the same structure, dtypes and shapes.
      loop_vars: list or tuple of tensors and structures of tensors.
      maximum_iterations: the loop stops after this many iterations at the latest.
      shape_invariants: a shape (or spec) for each loop variable, with None for the sizes that change; the rank stays.
      parallel_iterations, back_prop, swap_memory, name: accepted.

    Returns:
      The last loop variables, in the structure of ``loop_vars``.

    Raises:
      TypeError: ``cond`` or ``body`` is not callable, or a loop variable's dtype changes.
      ValueError: there are no loop variables, or the structure or the shape of one changes.
      NotImplementedError: the rank of a loop variable changes.

    >>> import tvtf as tf
    >>> (i,) = tf.while_loop(lambda i: tf.constant(i.numpy() < 3), lambda i: (tf.add(i, 1),), (tf.constant(0),))
    >>> i.numpy()
    np.int32(3)

    Source: https://www.tensorflow.org/api_docs/python/tf/while_loop
    """
    if not callable(cond):
        raise TypeError("'cond' must be callable.")
    if not callable(body):
        raise TypeError("'body' must be callable.")
    if parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    if not len(loop_vars):
        raise ValueError("'loop_vars' must be provided.")
    loop_vars = nest.map_structure(read_if_variable, loop_vars)
    if state.trace is None:
        return _eager_while(cond, body, loop_vars, maximum_iterations)
    if maximum_iterations is not None:
        return _limited_while(cond, body, loop_vars, shape_invariants, maximum_iterations)
    return traced_while(cond, body, loop_vars, shape_invariants)


def _eager_while(cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any) -> Any:
    """Runs a ``tf.while_loop`` in Python, and returns the final loop variables converted to tensors.

    Args:
      cond, body: functions of the loop variables.
      loop_vars: the loop variables before the loop.
      maximum_iterations: the greatest number of iterations, or None.
    """
    values = loop_vars
    count = 0
    while (maximum_iterations is None or count < maximum_iterations) and cond(*values):
        result = body(*values)
        values = _as_loop_vars(result, loop_vars, expand_composites=False)
        if type(result) in (list, tuple):  # TensorFlow keeps the body's type
            values = type(result)(values)
        count += 1

    def as_tensor(value: Any) -> Any:
        return None if value is None else convert_to_tensor(value)

    return nest.map_structure(as_tensor, values, expand_composites=True)


def _as_loop_vars(values: Any, like: Any, expand_composites: bool = True) -> Any:
    """Packs the results of a loop body into the structure of the loop variables ``like``, and returns them.

    A single result may be returned without a list. ``like`` and ``values`` may both be of a class made by ``attrs`` that
    can be unpacked.

    Raises:
      ValueError, TypeError: the structures differ. In a trace, a tuple may take the place of a list.
    """
    is_structure = isinstance(values, (list, tuple)) or type(values) is type(like)
    results = values if is_structure else [values]
    check_types = state.trace is None
    nest.assert_same_structure(list(results), list(like), check_types, expand_composites)
    return nest.pack_sequence_as(like, nest.flatten(results, expand_composites), expand_composites)


def _limited_while(cond: Any, body: Any, loop_vars: Any, shape_invariants: Any, limit: Any) -> Any:
    """Traces a ``while`` with ``maximum_iterations``: a counter of iterations becomes the first loop variable.

    Args:
      cond, body, loop_vars, shape_invariants: as for ``tf.while_loop``.
      limit: the maximum number of iterations, an integer or a scalar tensor.

    Returns:
      The final loop variables, without the counter.

    Raises:
      ValueError: the limit is not a scalar.
    """
    max_iterations = convert_to_tensor(limit)
    if max_iterations.ndim:
        raise ValueError(f"'maximum_iterations' must be a scalar. Received shape: {max_iterations.shape}")
    one = convert_to_tensor(1, max_iterations.dtype)
    zero = convert_to_tensor(0, max_iterations.dtype)

    def limited_condition(counter: Any, values: Any) -> Any:
        is_below_limit = bind.less(counter, max_iterations)
        return bind.logical_and(is_below_limit, convert_to_tensor(cond(*values)))

    def counting_body(counter: Any, values: Any) -> Any:
        # TensorArrays in `values` may still have no buffer when the body is traced to infer their shapes.
        return bind.add(counter, one), _as_loop_vars(body(*values), values, expand_composites=False)

    invariants = None if shape_invariants is None else (TensorShape([]), shape_invariants)
    bound = _constant_int(limit)
    _, results = traced_while(limited_condition, counting_body, (zero, loop_vars), invariants, bound=bound)
    return results


def _constant_int(value: Any) -> int | None:
    """Returns a limit on iterations as an int, with negative limits as 0, or None if it is unknown while tracing."""
    try:
        return max(0, int(value))
    except TypeError:
        return None


def traced_while(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    bound: Any = None,
    names: Sequence[str] | None = None,
    growth: Any = None,
    claimed: Sequence[int] = (),
) -> Any:
    """Traces a while loop, emits the ``while`` primitive, and returns the final loop variables.

    Variables that the body assigns become loop variables, and are assigned after the loop.

    Args:
      bound: the greatest number of iterations (an int or dim), if known.
      names: names of the flat loop variables, for errors.
      growth: of the arrays among the loop variables, if these are passed as tensors.
      claimed: positions of values with known sizes on which the body may call ``set_shape``. The loop is traced with
        these sizes unknown; those that an iteration keeps are made static afterwards on the IR, so that the body's
        Python (prints, appends) runs once, as in TensorFlow.
    """
    from tvtf.frontend.control_flow.trip_count import trip_count

    loop_vars = typed_as_returned(loop_vars, body)
    loop_vars = with_array_buffers(loop_vars, lambda abstract: body(*params_of(abstract, loop_vars)))
    growth = growth or Growth(loop_vars)
    entry = [state.trace.own(convert_to_tensor(leaf)) for leaf in nest.flatten(loop_vars, expand_composites=True)]
    names = names or [getattr(tensor, "name", "Const:0") for tensor in entry]
    bound = _usable_bound(bound)
    shapes = invariants_of(entry, loop_vars, shape_invariants, names)
    for position, shape in growth.shapes.items():
        shapes[position] = shape

    loop = _WhileTracer(cond, body, loop_vars, entry, shapes, growth)
    loop.trace_with_sizes_unknown(claimed)
    loop.generalize_shapes()
    loop.carry_resized_variables()
    if growth.is_partial():
        loop.trace_without_preallocation()
    check_carried(entry, loop.traced_body, names, loop.shapes)
    if bound is None:
        bound = _usable_bound(trip_count(loop.entry, loop.traced_condition, loop.traced_body))
    outputs = _bind_while(loop, bound)
    show_shapes(outputs, entry, loop.declared)
    return nest.pack_sequence_as(loop_vars, outputs[: len(entry)], expand_composites=True)


class _WhileTracer:
    """Traces a while loop's condition and body, until an iteration ends with the types with which it starts."""

    traced_condition: TracedFunction
    traced_body: TracedFunction
    types: list[TensorType]
    """Of the condition's parameters."""

    def __init__(
        self,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        loop_vars: Any,
        entry: Sequence[Tensor],
        shapes: list[Any],
        growth: Growth,
    ) -> None:
        """Stores the parts of a while loop. Nothing is traced yet.

        Args:
          cond, body: the functions of the loop variables, as for ``tf.while_loop``.
          loop_vars: the loop variables before the loop, in their structure.
          entry: their tensors.
          shapes: the shape invariant of each tensor; None means that the shape is kept.
          growth: of the arrays among the loop variables.
        """
        self.cond, self.body = cond, body
        self.loop_vars, self.entry = loop_vars, list(entry)
        self.resized: list[Variable] = []
        """The `tf.Variable` objects whose sizes an iteration changes; their values follow the loop variables in ``entry``."""
        self.shapes = shapes
        self.declared = list(shapes)
        self.growth = growth

    def trace(self) -> None:
        """Traces the condition and the body for the present shape invariants."""
        from tvtf.frontend.control_flow.closure_conversion import TracedFunction

        def run_condition(*tensors: SymbolicTensor) -> Any:
            return self.cond(*self._packed(tensors))

        def run_body(*tensors: SymbolicTensor) -> Any:
            results = _as_loop_vars(self.body(*self._packed(tensors)), self.loop_vars)
            if not self.resized:
                return results
            values = [state.trace.read_variable(variable) for variable in self.resized]
            state.trace.stored.update(map(id, self.resized))  # they are results, and not assignments of the loop
            return results, values

        self.types = types_in_loop(self.entry, self.shapes)
        self.traced_condition = TracedFunction("while_cond", run_condition, self.types)
        body_types = own_types(self.types, self.shapes)
        self.traced_body = TracedFunction("while_body", run_body, body_types, is_branch=True)

    def _packed(self, tensors: Sequence[SymbolicTensor]) -> Any:
        """Returns the loop variables in their structure, for tensors in the loop."""
        show_shapes(tensors, self.entry, self.declared)
        count = len(tensors) - len(self.resized)
        for variable, value in zip(self.resized, tensors[count:]):
            state.trace.memories[id(variable)] = value.alias()
            state.trace.assign_variable(variable, value, is_stored=True)
        return nest.pack_sequence_as(self.loop_vars, tensors[:count], expand_composites=True)

    def trace_with_sizes_unknown(self, positions: Sequence[int]) -> None:
        """Finds out which sizes an iteration changes: traces as if all were unknown, then fixes those that stay the same.

        Args:
          positions: the positions of the loop variables whose sizes may change.
        """
        for position in positions:
            self.shapes[position] = TensorShape([None] * self.entry[position].ndim)
        self.trace()
        if not positions:
            return
        # The traced functions stay; only the types of their parameters become more exact.
        params, results = self.traced_body.params, self.traced_body.leaves
        for position in positions:
            self.shapes[position] = invariant_shape(self.entry[position], params[position], results[position])
        self.types = types_in_loop(self.entry, self.shapes)
        self.traced_condition = self.traced_condition.with_types(self.types)
        self.traced_body = self.traced_body.with_types(own_types(self.types, self.shapes))
        self.growth.rename(params, self.traced_body.params)

    def generalize_shapes(self) -> None:
        """Traces again with unknown sizes in place of those that an iteration changes, until no more are found."""
        while (generalized := generalized_shapes(self.entry, self.traced_body, self.shapes)) is not None:
            self.growth.forget()
            self.shapes = generalized
            self.trace()

    def carry_resized_variables(self) -> None:
        """Makes loop variables of `tf.Variable` objects whose sizes an iteration changes, as their declared shapes allow."""
        from tvtf.frontend.control_flow.closure_conversion import (
            carried_variables,
            read_in_active_trace,
            variable_value,
        )

        while True:
            functions = [self.traced_condition, self.traced_body]
            if any(function.trace.is_after_python for function in functions):
                return  # each iteration reads Variables from their memory
            found = []
            for variable in carried_variables(functions):
                before = state.trace.value_before(variable)
                shape = changed_sizes(variable, before, variable_value(self.traced_body, variable))
                if shape is not None:
                    found.append((variable, read_in_active_trace(before), shape))
            if not found:
                return
            for variable, value, shape in found:
                self.resized.append(variable)
                self.entry.append(value)
                self.shapes.append(shape)
                self.declared.append(shape)
            self.growth.forget()
            self.trace()
            self.generalize_shapes()

    def trace_without_preallocation(self) -> None:
        """Traces again with TensorArrays that grow on write instead of being allocated before the loop."""
        self.body = _without_preallocation(self.body)
        self.trace()


def _bind_while(loop: _WhileTracer, bound: Any) -> tuple[SymbolicTensor, ...]:
    """Emits the ``while`` primitive for a traced loop, and assigns the Variables that its body assigns.

    Returns the final loop variables, followed by other results of the primitive.

    Args:
      loop: the traced loop.
      bound: the greatest number of iterations, or None if it is unknown.
    """
    from tvtf.frontend.control_flow.closure_conversion import carried_variables, lift, variable_value

    entry = loop.entry
    functions = [loop.traced_condition, loop.traced_body]
    variables = carried_variables(functions)
    with state.trace.seeing_assignments_before(entry):
        carried_values = _carry_variables(functions, variables)
        updates = [variable_value(loop.traced_body, v) for v in variables]
        captured = lift(functions)
    with state.trace.together():
        outputs = while_primitive.bind(
            *entry, *carried_values, *captured,
            condition=loop.traced_condition.graph(), body=loop.traced_body.graph(updates),
            carried=len(entry) + len(variables), bound=bound,
            shapes=final_shapes([*loop.types, *(v._type for v in carried_values)], loop.shapes),
            arrays=loop.growth.arrays(loop.traced_body.params, loop.traced_body.leaves),
        )  # fmt: skip
        count = len(entry) - len(loop.resized)
        for variable, value in zip([*loop.resized, *variables], outputs[count:]):
            traced_assign(variable, value, read_value=False)
    return outputs


def _usable_bound(bound: Any) -> Any:
    """Returns a bound on a loop's iterations, or None for a symbolic dim in a trace of unknown rank.

    Such a dim is known only when the function is traced again for a known rank.
    """
    return bound if isinstance(bound, int) or not of_any_rank() else None


def _without_preallocation(body: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a loop body so that its TensorArrays grow on write instead of being allocated before the loop.

    Preallocation needs the index of every write; here only some are known before the loop.
    """

    def body_without_rows(*values: Any) -> Any:
        """Runs the body in the active trace, which is the body's own, marked as a loop that reserves no rows."""
        # The empty set means that no write has a reserved row.
        state.trace.reserved_indices = frozenset()
        return body(*values)

    return body_without_rows


def _carry_variables(functions: Sequence[Any], variables: Sequence[Any]) -> list[Tensor]:
    """Turns Variables that a loop assigns into loop variables, and returns the Variables' values before the loop.

    A captured Variable is a loop invariant otherwise, but an iteration must read the value that the previous iteration
    assigned. ``functions`` are the traces of the condition and the body.
    """
    from tvtf.frontend.control_flow.closure_conversion import read_in_active_trace

    values = []
    for variable in variables:
        outer = state.trace.value_before(variable)
        for function in functions:
            function.trace.params.append(function.trace.capture(outer, outer._type, "variable"))
            del function.trace.captures[id(outer)]
        values.append(read_in_active_trace(outer))
    return values
