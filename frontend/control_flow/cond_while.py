"""``tf.cond`` and ``tf.while_loop``: Python control flow eagerly, primitives while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvtf.core import nest
from tvtf.core.argument_error import is_of_shapes
from tvtf.core.composite import TypeSpec
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import export, hooks
from tvtf.core.shape import TensorShape, TensorType, agree_dim, agree_rank, as_shape, fresh_dim, keeps_shape, same_dim
from tvtf.core.specialization import UnknownSize, of_any_rank
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.control_flow.late_types import takes_type, typed_as, typed_as_returned
from tvtf.frontend.control_flow.tensor_array import Growth, params_of, settled
from tvtf.frontend.control_flow.variable_effects import traced_assign
from tvtf.ops import stack as _stack  # noqa: F401 - declares the primitives of loops
from tvtf.ops.control import cond as cond_primitive
from tvtf.ops.control import while_ as while_primitive
from tvtf.ops.create import zeros
from tvtf.ops.rules import bind

if TYPE_CHECKING:
    from tvtf.frontend.control_flow.closure_conversion import Inner
    from tvtf.ir.trace import Graph

MSG_BRANCHES = (
    "{first} and {second} arguments to tf.{op} must have the same number, type, and overall structure of return "
    "values.\n\n"
    "{first} output: {a}\n{second} output: {b}\n\nError details:\n{detail}"
)
MSG_LENGTHS = (
    "Lengths of branch outputs of {op} must match.\nlen(graphs[0].outputs): {a}\nlen(graphs[{i}].outputs): {b}\n"
)
MSG_LOOP_SHAPE = (
    "Input tensor `{name}` enters the loop with shape {entry}, but has shape {left} after one iteration. To allow "
    "the shape "
    "to vary across iterations, use the `shape_invariants` argument of tf.while_loop to specify a less-specific shape."
)
MSG_RANK = (
    "`{name}` enters the loop with shape {entry}, but has shape {left} after one iteration: the rank of a tensor is known "
    "when a loop is compiled. Keep it, or run the loop eagerly."
)
MSG_INVARIANT = (
    "The shape invariant specified for {name} is not compatible with the initial shape of the loop variable. It enters the "
    "loop with shape {entry}, but the specified shape invariant is {invariant}."
)
MSG_LESS_SPECIFIC = (
    "Input tensor `{name}` enters the loop with shape {entry}, but has shape {left} after one iteration, which is not within "
    "the shape invariant {invariant}. Provide shape invariants using either the `shape_invariants` argument of tf.while_loop "
    "or set_shape() on the loop variables."
)
MSG_LOOP_TYPE = (
    "Loop var {name} enters the loop with type {entry!r} but has type {left!r} after 1 iteration. {name} type should "
    "remain "
    "constant."
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
      TypeError: a branch is missing or not callable; or, while tracing, the branches differ in structure or dtype.
      ValueError: while tracing, when their ranks differ and the program computes ``pred`` from more than constants.

    >>> import tvtf as tf
    >>> x = tf.constant(2)
    >>> tf.cond(tf.constant(True), lambda: x, lambda: tf.negative(x)).numpy()
    np.int32(2)

    Source: https://www.tensorflow.org/api_docs/python/tf/cond
    """
    for branch, what in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if branch is None:
            raise TypeError(f"cond(): '{what}' argument required")
        if not callable(branch):
            raise TypeError(f"'{what}' must be callable.")
    if state.trace is None or not hasattr(pred, "dtype"):
        return true_fn() if pred else false_fn()  # type: ignore[misc]
    pred = convert_to_tensor(pred)
    return traced_cond(pred, with_operations_as(pred, true_fn), with_operations_as(pred, false_fn))  # type: ignore[arg-type]


def with_operations_as(value: Tensor, branch: Callable[[], Any]) -> Callable[[], Any]:
    """Returns the branch with its operations replaced by ``value``, so that it returns tensors only."""
    return lambda: nest.map_structure(
        lambda leaf: value if isinstance(leaf, Operation) else leaf, branch(), expand_composites=True
    )


def traced_cond(
    pred: Tensor,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    names: tuple[str, str] = ("true_fn", "false_fn"),
    op: str = "cond",
) -> Any:
    """Binds the ``cond`` primitive over both branches, and assigns the Variables' new values outside of it."""
    from tvtf.frontend.control_flow.closure_conversion import assigned_variables, lift, variable_value

    branches = _traced_branches(op, true_fn, false_fn)
    constant_pred = _constant_condition(pred) if _ranks_differ(*branches) else None
    if constant_pred is not None:
        return true_fn() if constant_pred else false_fn()
    check_branches(branches[0].structure, branches[1].structure, names, op)
    variables = assigned_variables(branches)
    updates = [[variable_value(b, v) for v in variables] or _something(b) for b in branches]
    with state.trace.seeing_assignments_before([pred]):
        captured = lift(branches)
    graphs = [b.graph(values) for b, values in zip(branches, updates)]
    count = len(branches[0].leaves)
    with state.trace.together():
        outputs = _bound_cond(pred, captured, graphs)
        for variable, value in zip(variables, outputs[count:]):
            traced_assign(variable, value, read_value=False)
    return repack(branches[0].structure, outputs[:count])


def _ranks_differ(first: Inner, other: Inner) -> bool:
    """Returns whether two branches return equally many tensors, some of different ranks."""
    pairs = [[leaf for leaf in branch.leaves if leaf is not None] for branch in (first, other)]
    return len(pairs[0]) == len(pairs[1]) and not all(agree_rank(a._type.shape, b._type.shape) for a, b in zip(*pairs))


def _constant_condition(pred: Tensor) -> Any:
    """Returns the value of a condition that is computed from constants alone; None for others."""
    symbol = state.trace.own(pred)
    return symbol._trace.computed_constants.value(symbol._var)


def _traced_branches(op: str, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> tuple[Inner, Inner]:
    """Traces both branches.

    In a trace for one call's shapes, a branch that is invalid for these shapes is replaced by one that fails when it
    runs: the program may never take it.
    """
    from tvtf.frontend.control_flow.closure_conversion import Inner

    names = f"{op}_true", f"{op}_false"
    branch = _traced_or_error(names[0], true_fn)
    if isinstance(branch, ValueError):
        other = Inner(names[1], false_fn)
        return _raising_branch(names[0], branch, other), other
    first = branch
    branch = _traced_or_error(names[1], lambda: typed_as(false_fn(), first.structure))
    if isinstance(branch, ValueError):
        return first, _raising_branch(names[1], branch, first)
    second = branch
    if takes_type(first.structure, second.structure):
        first = Inner(names[0], lambda: typed_as(true_fn(), second.structure))
    return first, second


def _traced_or_error(name: str, branch: Callable[[], Any]) -> Inner | ValueError:
    """Traces a branch; returns the error if the branch is invalid for the shapes that the trace is for.

    Calls with these shapes may never take the branch, so that it should fail only if it runs.
    """
    from tvtf.frontend.control_flow.closure_conversion import Inner

    try:
        return Inner(name, branch)
    except (ValueError, UnknownSize) as error:
        shape_error = error.error if isinstance(error, UnknownSize) else error
        if not (
            state.trace.specialization.has_call_shapes
            and isinstance(shape_error, ValueError)
            and is_of_shapes(shape_error)
        ):
            raise
        return shape_error


def _raising_branch(name: str, error: ValueError, other: Inner) -> Inner:
    """Returns a branch that raises ``error`` when it runs; its results have the other branch's types."""
    from tvtf.frontend.control_flow.closure_conversion import Inner

    # A result of unknown rank has no placeholder.
    if any(isinstance(leaf._type.shape, AnyShape) for leaf in other.leaves):
        raise error

    def fail() -> Any:
        bind.guard(convert_to_tensor(False), message=str(error))
        return nest.map_structure(_blank, other.structure, expand_composites=True)

    return Inner(name, fail)


def _blank(leaf: Tensor | None) -> Tensor | None:
    if leaf is None:
        return None
    return zeros([size if isinstance(size, int) else 0 for size in leaf._type.shape], leaf.dtype)


def _bound_cond(pred: Tensor, captured: Sequence[Tensor], graphs: Sequence[Graph]) -> tuple[Tensor, ...]:
    """Binds the primitive; defers it if ranks of results are unknown."""
    # The primitive's type rule needs ranks.
    types = [graph.output_types for graph in graphs]
    if any(isinstance(t.shape, AnyShape) for t in (*types[0], *types[1])):
        return hooks.defer_call(one_of, (pred, *captured), {"then_branch": graphs[0], "else_branch": graphs[1]})  # type: ignore[no-any-return]
    return cond_primitive.bind(  # type: ignore[no-any-return]
        pred, *captured, then_branch=graphs[0], else_branch=graphs[1], shapes=_merged_shapes(*types)
    )


def one_of(pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any) -> tuple[Tensor, ...]:
    """Binds the primitive over two functions whose tensors now have known ranks."""
    from tvtf.ir.trace import trace_graph

    types = [x._type for x in captured]
    graphs = [trace_graph("branch", f, types, state.trace) for f in (then_branch, else_branch)]
    return _bound_cond(pred, captured, graphs)


def _merged_shapes(first: Sequence[TensorType], other: Sequence[TensorType]) -> tuple[Any, ...]:
    """Returns the shapes of the results, with a new symbol for each dim in which the branches differ.

    The result is () if there is none.
    """
    merged = tuple(tuple(map(_merged_dim, a.shape, b.shape)) for a, b in zip(first, other))
    return () if all(m == tuple(a.shape) for m, a in zip(merged, first)) else merged


def _merged_dim(a: Any, b: Any) -> Any:
    return a if same_dim(a, b) else fresh_dim(state.trace.root.unique("size"))


def _something(branch: Any) -> list[Tensor]:
    """Returns a dummy result for a branch without results: TVM's passes lose track of branches without a value."""
    return [] if branch.leaves else [branch.trace.own(convert_to_tensor(0))]


def repack(structure: Any, tensors: Sequence[Tensor]) -> Any:
    """Returns ``structure`` with its tensors replaced in order; None stays."""
    remaining = iter(tensors)
    return nest.map_structure(lambda leaf: None if leaf is None else next(remaining), structure, expand_composites=True)


def check_branches(first: Any, other: Any, names: tuple[str, str], op: str, index: int = 1) -> None:
    """Raises TensorFlow's errors if two branches return different structures, dtypes or ranks.

    Different ranks are an error only here: TensorFlow's branches may return them.
    """
    counts = [sum(leaf is not None for leaf in nest.flatten(s, expand_composites=True)) for s in (first, other)]
    if counts[0] != counts[1]:
        raise ValueError(MSG_LENGTHS.format(op="cond" if op == "cond" else "case", a=counts[0], i=index, b=counts[1]))
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
        for a, b in zip(*(nest.flatten(s, expand_composites=True) for s in (first, other))):
            _check_leaves(a, b)
    except (TypeError, ValueError) as error:
        text = MSG_BRANCHES.format(first=names[0], second=names[1], op=op, a=first, b=other, detail=error)
        raise (ValueError if isinstance(error, _RanksDiffer) else TypeError)(text) from None


class _RanksDiffer(ValueError):
    """Two branches return tensors of different ranks."""


def _check_leaves(first: Any, other: Any) -> None:
    """Checks that two results of branches have the same dtype and rank."""
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
      maximum_iterations: stops after so many at the latest.
      shape_invariants: a shape (or spec) for each loop variable, with None for the sizes that change; the rank stays.
      parallel_iterations, back_prop, swap_memory, name: accepted.

    Returns:
      The last loop variables, in the structure of ``loop_vars``.

    Raises:
      TypeError: ``cond`` or ``body`` is not callable, or a loop variable's dtype changes.
      ValueError: no loop variables, or a structure or shape that changes.
      NotImplementedError: a rank that changes.

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
    loop_vars = nest.map_structure(lambda v: v._as_tensor() if hasattr(v, "_as_tensor") else v, loop_vars)
    if state.trace is None:
        return _eager_while(cond, body, loop_vars, maximum_iterations)
    if maximum_iterations is not None:
        return _limited_while(cond, body, loop_vars, shape_invariants, maximum_iterations)
    return traced_while(cond, body, loop_vars, shape_invariants)


def _eager_while(cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any) -> Any:
    """Runs a loop in Python; the results are tensors, as those of a traced loop."""
    values, count = loop_vars, 0
    while (maximum_iterations is None or count < maximum_iterations) and cond(*values):
        result = body(*values)
        nested = _as_loop_vars(result, loop_vars, expand_composites=False)
        values = type(result)(nested) if type(result) in (list, tuple) else nested  # as TensorFlow does
        count += 1
    return nest.map_structure(lambda v: None if v is None else convert_to_tensor(v), values, expand_composites=True)


def _as_loop_vars(values: Any, like: Any, expand_composites: bool = True) -> Any:
    """Returns the body's results in the structure of the loop variables."""
    values = values if isinstance(values, (list, tuple)) else [values]
    nest.assert_same_structure(list(values), list(like), expand_composites=expand_composites)
    return nest.pack_sequence_as(like, nest.flatten(values, expand_composites), expand_composites)


def _limited_while(cond: Any, body: Any, loop_vars: Any, shape_invariants: Any, limit: Any) -> Any:
    """Runs a loop with a counter among its variables, which stops it after ``limit`` iterations."""

    most = convert_to_tensor(limit)
    if most.ndim:
        raise ValueError(f"'maximum_iterations' must be a scalar. Received shape: {most.shape}")
    one = convert_to_tensor(1, most.dtype)
    zero = convert_to_tensor(0, most.dtype)
    invariants = None if shape_invariants is None else (TensorShape([]), shape_invariants)
    _, values = traced_while(
        lambda i, v: bind.logical_and(bind.less(i, most), convert_to_tensor(cond(*v))),
        # TensorArrays in `v` may still have no buffer when the body is traced to infer their shapes.
        lambda i, v: (bind.add(i, one), _as_loop_vars(body(*v), v, expand_composites=False)),
        (zero, loop_vars),
        invariants,
        bound=_constant_int(limit),
    )
    return values


def _constant_int(value: Any) -> int | None:
    """Returns the value if it is known while tracing; else None."""
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
    """Binds the ``while`` primitive; Variables that the body assigns are carried through it and assigned outside.

    Args:
      bound: the greatest number of iterations (an int or dim), if known.
      names: names of the flat loop variables, for errors.
      growth: of the arrays among the loop variables, if these are passed as tensors.
      claimed: positions of values with known sizes on which the body may call ``set_shape``. The loop is traced with
        these sizes unknown; those that an iteration keeps are made static afterwards on the IR, so that the body's
        Python (prints, appends) runs once, as in TensorFlow.
    """
    from tvtf.frontend.control_flow.closure_conversion import Inner, carried_variables, lift, variable_value
    from tvtf.frontend.control_flow.trip_count import trip_count

    loop_vars = typed_as_returned(loop_vars, body)
    loop_vars = settled(loop_vars, lambda abstract: body(*params_of(abstract, loop_vars)))
    growth = growth or Growth(loop_vars)
    entry = [state.trace.own(convert_to_tensor(v)) for v in nest.flatten(loop_vars, expand_composites=True)]
    names = names or [getattr(t, "name", "Const:0") for t in entry]
    bound = _usable_bound(bound)
    shapes = _invariants(entry, loop_vars, shape_invariants, names)
    for place, shape in growth.shapes.items():
        shapes[place] = shape

    def unpacked(*tensors: SymbolicTensor) -> Any:
        _show_shapes(tensors, entry, declared)
        return nest.pack_sequence_as(loop_vars, tensors, expand_composites=True)

    def traced() -> tuple[Inner, Inner, list[TensorType]]:
        types = _types(entry, shapes)
        test = Inner("while_cond", lambda *tensors: cond(*unpacked(*tensors)), types)
        body_types = _own_types(types, shapes)
        step = Inner("while_body", lambda *tensors: _as_loop_vars(body(*unpacked(*tensors)), loop_vars), body_types)
        return test, step, types

    declared = list(shapes)
    for place in claimed:
        shapes[place] = TensorShape([None] * entry[place].ndim)
    test, step, types = traced()
    if claimed:
        for place in claimed:
            shapes[place] = _invariant_shape(entry[place], step.params[place], step.leaves[place])
        types, params = _types(entry, shapes), step.params
        test, step = test.with_types(types), step.with_types(_own_types(types, shapes))
        growth.rename(params, step.params)
    while (generalized := _generalized_shapes(entry, step, shapes)) is not None:
        growth.forget()
        shapes = generalized
        test, step, types = traced()
    if growth.is_partial():
        body = _without_reserved_rows(body)
        test, step, types = traced()
    _check_carried(entry, step, names, shapes)
    if bound is None:
        bound = _usable_bound(trip_count(entry, test, step))
    variables = carried_variables([test, step])
    with state.trace.seeing_assignments_before(entry):
        carried_values = _carry_variables((test, step), variables)
        updates = [variable_value(step, v) for v in variables]
        captured = lift([test, step])
    with state.trace.together():
        outputs = while_primitive.bind(
            *entry, *carried_values, *captured,
            condition=test.graph(), body=step.graph(updates), carried=len(entry) + len(variables), bound=bound,
            shapes=_final_shapes([*types, *(v._type for v in carried_values)], shapes),
            arrays=growth.arrays(step.params, step.leaves),
        )  # fmt: skip
        for variable, value in zip(variables, outputs[len(entry) :]):
            traced_assign(variable, value, read_value=False)
    _show_shapes(outputs, entry, declared)
    return nest.pack_sequence_as(loop_vars, outputs[: len(entry)], expand_composites=True)


def _usable_bound(bound: Any) -> Any:
    """Returns the bound, unless it is a dim in a trace of unknown rank: instances determine such dims."""
    return bound if isinstance(bound, int) or not of_any_rank() else None


def _types(entry: Sequence[Tensor], shapes: Sequence[Any]) -> list[TensorType]:
    """Returns the types of the loop variables, with a new symbol for each size that may change."""
    return [t._type._replace(shape=_with_own_dims(t._type.shape, s)) for t, s in zip(entry, shapes)]


def _own_types(types: Sequence[TensorType], shapes: Sequence[Any]) -> list[TensorType]:
    """Returns the same types with other symbols: the body's, where ``types`` are the condition's."""
    return [t._replace(shape=_with_own_dims(t.shape, s)) for t, s in zip(types, shapes)]


def _without_reserved_rows(body: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the loop body for arrays that grow inside of it: the loop reserves no rows for them.

    A loop that foresees only some of their writes can't tell how many rows to reserve.
    """

    def run(*values: Any) -> Any:
        state.trace.room_for = frozenset()
        return body(*values)

    return run


def _generalized_shapes(entry: Sequence[Tensor], step: Any, shapes: Sequence[Any]) -> list[Any] | None:
    """Returns shape invariants in which the sizes that an iteration changes are unknown; None if there are none."""
    invariants = [s or varying_shape(a, b) for a, b, s in zip(entry, step.leaves, shapes)]
    return None if all(a is b for a, b in zip(invariants, shapes)) else invariants


def _invariant_shape(before: Tensor, start: Tensor, end: Tensor) -> TensorShape | None:
    """Returns which sizes a value traced with unknown ones keeps in an iteration; None if all of ``before``'s."""
    known = state.trace.root.known_dim
    triples = zip(before._type.shape, start._type.shape, map(known, end._type.shape))
    sizes = [size if same_dim(known(symbol), after) or size == after else None for size, symbol, after in triples]
    return None if None not in sizes else TensorShape(sizes)


def _show_shapes(tensors: Sequence[SymbolicTensor], entry: Sequence[Tensor], declared: Sequence[Any]) -> None:
    """Lets Python see the static shapes with which values enter a loop, unless others were declared."""
    for tensor, before, shape in zip(tensors, entry, declared):
        are_known = shape is None and None not in (tensor.shape.rank, before.shape.rank)
        if are_known and tensor.shape.as_list() != before.shape.as_list():
            tensor.claimed = before.shape


def varying_shape(before: Tensor, after: SymbolicTensor) -> TensorShape | None:
    """Returns the shape that a loop variable has in every iteration; None if it keeps its entry shape.

    TensorFlow lets a size change that was unknown before the loop, and trusts the sizes that ``set_shape`` claims.
    """
    shapes = before._type.shape, after._type.shape
    if any(isinstance(shape, AnyShape) for shape in shapes) or len(shapes[0]) != len(shapes[1]):
        return None
    if after.claimed is not None:
        sizes = [d if same_dim(d, e) else None for d, e in zip(*shapes)]
        return TensorShape(sizes) if None in sizes and before.shape == after.shape else None
    if of_any_rank():
        return None  # deferred calls have other dims in each instance
    if all(isinstance(a, int) or same_dim(a, b) for a, b in zip(*shapes)):
        return None
    return TensorShape([a if isinstance(a, int) else None for a in shapes[0]])


def _invariants(entry: Sequence[Tensor], loop_vars: Any, declared: Any, names: Sequence[str]) -> list[Any]:
    """Returns the declared shape invariant of each loop tensor; None where the entry shape is invariant.

    A rank that changes can't be compiled, though TensorFlow allows it.
    """
    if declared is None:
        return [None] * len(entry)
    invariants = [_shape_of(s) for leaf in _leaves_like(declared, loop_vars) for s in leaf]
    for t, shape, name in zip(entry, invariants, names):
        if shape is not None and shape.rank not in (None, t.ndim):
            raise ValueError(MSG_INVARIANT.format(name=name, entry=t.shape, invariant=shape))
        if shape is not None and shape.rank is None:
            raise NotImplementedError(MSG_RANK.format(name=name, entry=t.shape, left=shape))
        if shape is not None and not all(s is None or s == d for s, d in zip(shape, t.shape)):
            raise ValueError(MSG_INVARIANT.format(name=name, entry=t.shape, invariant=shape))
    return invariants


def _leaves_like(declared: Any, loop_vars: Any) -> list[list[Any]]:
    """Returns the shape invariants per leaf of the loop variables; a shape given as a list is a leaf.

    The list ``[None, 3]`` is one shape, where the loop variables have a tensor.
    """
    if nest.is_nested(loop_vars):
        parts = [declared[k] for k in nest.sorted_keys(loop_vars)] if isinstance(loop_vars, dict) else list(declared)
        children = (
            [loop_vars[k] for k in nest.sorted_keys(loop_vars)] if isinstance(loop_vars, dict) else list(loop_vars)
        )
        if len(parts) != len(children):
            nest.assert_same_structure(list(loop_vars), list(declared))
        return [leaf for part, child in zip(parts, children) for leaf in _leaves_like(part, child)]
    if nest.is_composite(loop_vars):
        specs = nest.flatten(declared, expand_composites=True) if isinstance(declared, TypeSpec) else [None]
        count = len(nest.flatten(loop_vars, expand_composites=True))
        return [specs if len(specs) == count else [None] * count]
    return [[declared]]


def _shape_of(invariant: Any) -> TensorShape | None:
    return None if invariant is None else as_shape(getattr(invariant, "shape", invariant))


def _with_own_dims(dims: Any, invariant: TensorShape | None) -> Any:
    """Returns the dims, with a new symbol for each that may change."""
    if invariant is None:
        return dims
    fresh = state.trace.root.unique
    return tuple(fresh_dim(fresh("size")) if known is None else d for d, known in zip(dims, invariant))


def _final_shapes(types: Sequence[TensorType], shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the shapes after the last iteration; () if none changes. The condition's symbols stand for new sizes."""
    if all(s is None or s.is_fully_defined() for s in shapes):
        return ()
    return tuple(t.shape for t in types)


def _carry_variables(inners: Sequence[Any], variables: Sequence[Any]) -> list[Tensor]:
    """Turns the Variables' incoming values from captures into loop parameters; returns their values before the loop.

    An iteration may assign them, so that the next one must read what the one before assigned.
    """
    from tvtf.frontend.control_flow.closure_conversion import as_read

    values = []
    for variable in variables:
        outer = state.trace.value_before(variable)
        for inner in inners:
            inner.trace.params.append(inner.trace.capture(outer, outer._type, "variable"))
            del inner.trace.captures[id(outer)]
        values.append(as_read(outer))
    return values


def _check_carried(entry: Sequence[Tensor], step: Any, names: Sequence[str], shapes: Sequence[Any]) -> None:
    """Raises TensorFlow's errors if a loop variable changes its dtype or shape."""
    for before, start, after, name, invariant in zip(entry, step.params, step.leaves, names, shapes):
        if before.dtype is not after.dtype:
            raise TypeError(MSG_LOOP_TYPE.format(name=name, entry=before.dtype, left=after.dtype))
        if invariant is None and not keeps_shape(before._type.shape, after._type.shape):
            raise ValueError(MSG_LOOP_SHAPE.format(name=name, entry=before.shape, left=after.shape))
        if invariant is not None:
            _check_within(before, start, after, name, invariant)


def _check_within(before: Tensor, start: Tensor, after: Tensor, name: str, invariant: TensorShape) -> None:
    if before.ndim != after.ndim:
        raise NotImplementedError(MSG_RANK.format(name=name, entry=before.shape, left=after.shape))
    dims = [(a, b) for a, b, known in zip(start._type.shape, after._type.shape, invariant) if known is not None]
    if not all(agree_dim(a, b) for a, b in dims):
        raise ValueError(MSG_LESS_SPECIFIC.format(name=name, entry=before.shape, left=after.shape, invariant=invariant))
