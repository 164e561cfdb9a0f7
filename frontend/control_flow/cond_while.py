"""``tf.cond`` and ``tf.while_loop``: plain Python eagerly, primitives while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvtf.core import nest
from tvtf.core.argument_error import is_of_shapes
from tvtf.core.composite import TypeSpec
from tvtf.core.deferred_shape import AnyShape, UnknownSizes, of_any_rank
from tvtf.core.graph_operation import Operation
from tvtf.core.primitive import export, hooks
from tvtf.core.shape import TensorShape, TensorType, agree_dim, agree_rank, as_shape, fresh_dim, keeps_shape, same_dim
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
    """``true_fn()`` where ``pred`` holds, else ``false_fn()``; only one of them runs.

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
    """The branch with ``value`` for each operation that it returns, so that ``control_dependencies`` can take the result."""
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
    """The primitive over both branches, whose Variables' new values are assigned outside."""
    from tvtf.frontend.control_flow.closure_conversion import assigned_variables, lift, variable_value

    branches = _traced_branches(op, true_fn, false_fn)
    taken = _always_taken(pred) if _ranks_differ(*branches) else None
    if taken is not None:
        return true_fn() if taken else false_fn()
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
    """Whether two branches return as many tensors, some of other ranks."""
    pairs = [[leaf for leaf in branch.leaves if leaf is not None] for branch in (first, other)]
    return len(pairs[0]) == len(pairs[1]) and not all(agree_rank(a._type.shape, b._type.shape) for a, b in zip(*pairs))


def _always_taken(pred: Tensor) -> Any:
    """Whether a condition that is computed from constants alone holds: of the rank of a tensor; None for others."""
    symbol = state.trace.own(pred)
    return symbol._trace.computed_constants.value(symbol._var)


def _traced_branches(op: str, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> tuple[Inner, Inner]:
    """Both branches; one that is refused for the shapes of this call fails where the program takes it."""
    from tvtf.frontend.control_flow.closure_conversion import Inner

    names = f"{op}_true", f"{op}_false"
    found = _traced_or_refused(names[0], true_fn)
    if isinstance(found, ValueError):
        other = Inner(names[1], false_fn)
        return _failing(names[0], found, other), other
    first = found
    found = _traced_or_refused(names[1], lambda: typed_as(false_fn(), first.structure))
    if isinstance(found, ValueError):
        return first, _failing(names[1], found, first)
    second = found
    if takes_type(first.structure, second.structure):
        first = Inner(names[0], lambda: typed_as(true_fn(), second.structure))
    return first, second


def _traced_or_refused(name: str, branch: Callable[[], Any]) -> Inner | ValueError:
    """A branch; or, in a trace for the shapes of one call, what these are refused for."""
    from tvtf.frontend.control_flow.closure_conversion import Inner

    try:
        return Inner(name, branch)
    except (ValueError, UnknownSizes) as error:
        refused = error.error if isinstance(error, UnknownSizes) else error
        if not (state.trace.root.is_for_shapes and isinstance(refused, ValueError) and is_of_shapes(refused)):
            raise
        return refused


def _failing(name: str, refused: ValueError, other: Inner) -> Inner:
    """A branch that fails, with blank results of the other's types."""
    from tvtf.frontend.control_flow.closure_conversion import Inner

    if any(isinstance(leaf._type.shape, AnyShape) for leaf in other.leaves):
        raise refused

    def fail() -> Any:
        bind.guard(convert_to_tensor(False), message=str(refused))
        return nest.map_structure(_blank, other.structure, expand_composites=True)

    return Inner(name, fail)


def _blank(leaf: Tensor | None) -> Tensor | None:
    if leaf is None:
        return None
    return zeros([size if isinstance(size, int) else 0 for size in leaf._type.shape], leaf.dtype)


def _bound_cond(pred: Tensor, captured: Sequence[Tensor], graphs: Sequence[Graph]) -> tuple[Tensor, ...]:
    """The primitive; it waits where ranks of results are unknown."""
    types = [graph.output_types for graph in graphs]
    if any(isinstance(t.shape, AnyShape) for t in (*types[0], *types[1])):
        return hooks.defer_call(one_of, (pred, *captured), {"then_branch": graphs[0], "else_branch": graphs[1]})  # type: ignore[no-any-return]
    return cond_primitive.bind(  # type: ignore[no-any-return]
        pred, *captured, then_branch=graphs[0], else_branch=graphs[1], shapes=_merged_shapes(*types)
    )


def one_of(pred: Tensor, *captured: Tensor, then_branch: Any, else_branch: Any) -> tuple[Tensor, ...]:
    """The primitive over two functions of tensors of now known ranks."""
    from tvtf.ir.trace import trace_graph

    types = [x._type for x in captured]
    graphs = [trace_graph("branch", f, types, state.trace) for f in (then_branch, else_branch)]
    return _bound_cond(pred, captured, graphs)


def _merged_shapes(first: Sequence[TensorType], other: Sequence[TensorType]) -> tuple[Any, ...]:
    """The results' shapes, where those of the branches differ: a dim that does is a symbol of its own."""
    merged = tuple(tuple(map(_merged_dim, a.shape, b.shape)) for a, b in zip(first, other))
    return () if all(m == tuple(a.shape) for m, a in zip(merged, first)) else merged


def _merged_dim(a: Any, b: Any) -> Any:
    return a if same_dim(a, b) else fresh_dim(state.trace.root.unique("size"))


def _something(branch: Any) -> list[Tensor]:
    """A result for a branch that has none: TVM's passes lose track of branches without a value."""
    return [] if branch.leaves else [branch.trace.own(convert_to_tensor(0))]


def repack(structure: Any, tensors: Sequence[Tensor]) -> Any:
    """``structure`` with its tensors replaced, in order; None stays."""
    left = iter(tensors)
    return nest.map_structure(lambda leaf: None if leaf is None else next(left), structure, expand_composites=True)


def check_branches(first: Any, other: Any, names: tuple[str, str], op: str, index: int = 1) -> None:
    """Raises TensorFlow's errors where two branches return different things."""
    counts = [sum(leaf is not None for leaf in nest.flatten(s, expand_composites=True)) for s in (first, other)]
    if counts[0] != counts[1]:
        raise ValueError(MSG_LENGTHS.format(op="cond" if op == "cond" else "case", a=counts[0], i=index, b=counts[1]))
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
        for mine, theirs in zip(*(nest.flatten(s, expand_composites=True) for s in (first, other))):
            _check_leaves(mine, theirs)
    except (TypeError, ValueError) as error:
        shown = MSG_BRANCHES.format(first=names[0], second=names[1], op=op, a=first, b=other, detail=error)
        raise (ValueError if isinstance(error, _RanksDiffer) else TypeError)(shown) from None


class _RanksDiffer(ValueError):
    """Two branches return tensors of different ranks."""


def _check_leaves(mine: Any, other: Any) -> None:
    if mine is None or other is None:
        if mine is not other:
            raise TypeError(f"{mine} and {other} have different types")
        return
    if mine.dtype is not other.dtype:
        raise TypeError(f"{mine!r} and {other!r} have different types")
    if not agree_rank(mine._type.shape, other._type.shape):
        raise _RanksDiffer(f"{mine!r} and {other!r} have different ranks; compiled branches must return equal ranks")


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
    """Repeats ``body`` while ``cond`` holds.

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
    values, count = loop_vars, 0
    while (maximum_iterations is None or count < maximum_iterations) and cond(*values):
        found = body(*values)
        nested = _as_loop_vars(found, loop_vars, expand_composites=False)
        values = type(found)(nested) if type(found) in (list, tuple) else nested  # as TensorFlow does
        count += 1
    return nest.map_structure(lambda v: None if v is None else convert_to_tensor(v), values, expand_composites=True)


def _as_loop_vars(values: Any, like: Any, expand_composites: bool = True) -> Any:
    """What a body returned, in the form of the loop variables."""
    values = values if isinstance(values, (list, tuple)) else [values]
    nest.assert_same_structure(list(values), list(like), expand_composites=expand_composites)
    return nest.pack_sequence_as(like, nest.flatten(values, expand_composites), expand_composites)


def _limited_while(cond: Any, body: Any, loop_vars: Any, shape_invariants: Any, limit: Any) -> Any:
    """With a counter among the loop variables that stops the loop."""

    most = convert_to_tensor(limit)
    if most.ndim:
        raise ValueError(f"'maximum_iterations' must be a scalar. Received shape: {most.shape}")
    one = convert_to_tensor(1, most.dtype)
    zero = convert_to_tensor(0, most.dtype)
    invariants = None if shape_invariants is None else (TensorShape([]), shape_invariants)
    _, values = traced_while(
        lambda i, v: bind.logical_and(bind.less(i, most), convert_to_tensor(cond(*v))),
        # Arrays may be empty yet in `v` when the body is traced for their shapes.
        lambda i, v: (bind.add(i, one), _as_loop_vars(body(*v), v, expand_composites=False)),
        (zero, loop_vars),
        invariants,
        bound=_constant_int(limit),
    )
    return values


def _constant_int(value: Any) -> int | None:
    """The value where it is known while tracing."""
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
    """The primitive; Variables that the body assigns are carried along and assigned outside.

    ``bound``: the greatest number of iterations (an int or dim), where it is known. ``names``: of the flat loop
    variables. ``growth``: of the arrays among them, where they are given as tensors. ``claimed``: the places of values of known
    sizes that the body may call ``set_shape`` on: it is traced with open sizes, and those that it keeps are closed afterwards.
    """
    from tvtf.frontend.control_flow.closure_conversion import Inner, carried_variables, lift, variable_value
    from tvtf.frontend.control_flow.trip_count import trip_count

    loop_vars = typed_as_returned(loop_vars, body)
    loop_vars = settled(loop_vars, lambda aside: body(*params_of(aside, loop_vars)))
    growth = growth or Growth(loop_vars)
    entry = [state.trace.own(convert_to_tensor(v)) for v in nest.flatten(loop_vars, expand_composites=True)]
    names = names or [getattr(t, "name", "Const:0") for t in entry]
    bound = _without_waiting(bound)
    shapes = _invariants(entry, loop_vars, shape_invariants, names)
    for place, shape in growth.shapes.items():
        shapes[place] = shape

    def unpacked(*tensors: SymbolicTensor) -> Any:
        _show_shapes(tensors, entry, declared)
        return nest.pack_sequence_as(loop_vars, tensors, expand_composites=True)

    def traced() -> tuple[Inner, Inner, list[TensorType]]:
        types = _types(entry, shapes)
        test = Inner("while_cond", lambda *tensors: cond(*unpacked(*tensors)), types)
        own = _own_types(types, shapes)
        step = Inner("while_body", lambda *tensors: _as_loop_vars(body(*unpacked(*tensors)), loop_vars), own)
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
    while (loosened := _loosened(entry, step, shapes)) is not None:
        growth.forget()
        shapes = loosened
        test, step, types = traced()
    if growth.is_partial():
        body = _for_none(body)
        test, step, types = traced()
    _check_carried(entry, step, names, shapes)
    if bound is None:
        bound = _without_waiting(trip_count(entry, test, step))
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


def _without_waiting(bound: Any) -> Any:
    """Only a number, where the ranks that dims belong to are still to come."""
    return bound if isinstance(bound, int) or not of_any_rank() else None


def _types(entry: Sequence[Tensor], shapes: Sequence[Any]) -> list[TensorType]:
    """The types of what a loop carries, with a symbol for each size that may change."""
    return [t._type._replace(shape=_with_own_dims(t._type.shape, s)) for t, s in zip(entry, shapes)]


def _own_types(types: Sequence[TensorType], shapes: Sequence[Any]) -> list[TensorType]:
    """The same with other symbols: the body's, where ``types`` are the condition's."""
    return [t._replace(shape=_with_own_dims(t.shape, s)) for t, s in zip(types, shapes)]


def _for_none(body: Callable[..., Any]) -> Callable[..., Any]:
    """A loop's body that makes arrays larger itself."""

    def run(*values: Any) -> Any:
        state.trace.room_for = frozenset()
        return body(*values)

    return run


def _loosened(entry: Sequence[Tensor], step: Any, shapes: Sequence[Any]) -> list[Any] | None:
    """The invariants with those sizes unknown that an iteration changes and TensorFlow takes for the same; else None."""
    found = [s or varying_shape(a, b) for a, b, s in zip(entry, step.leaves, shapes)]
    return None if all(a is b for a, b in zip(found, shapes)) else found


def _invariant_shape(before: Tensor, start: Tensor, end: Tensor) -> TensorShape | None:
    """What a value traced with open sizes keeps from the start to the end of an iteration; None for the shape of ``before``."""
    known = state.trace.root.known_dim
    triples = zip(before._type.shape, start._type.shape, map(known, end._type.shape))
    kept = [size if same_dim(known(symbol), after) or size == after else None for size, symbol, after in triples]
    return None if None not in kept else TensorShape(kept)


def _show_shapes(tensors: Sequence[SymbolicTensor], entry: Sequence[Tensor], declared: Sequence[Any]) -> None:
    """Has Python see the shapes with which values entered a loop, where no others are declared."""
    for tensor, before, shape in zip(tensors, entry, declared):
        are_known = shape is None and None not in (tensor.shape.rank, before.shape.rank)
        if are_known and tensor.shape.as_list() != before.shape.as_list():
            tensor.claimed = before.shape


def varying_shape(before: Tensor, after: SymbolicTensor) -> TensorShape | None:
    """The shape that a loop's value has in each iteration, where that is less than what it enters with; else None.

    TensorFlow lets a size differ that was unknown before the loop, and believes what ``set_shape`` claims of one.
    """
    shapes = before._type.shape, after._type.shape
    if any(isinstance(shape, AnyShape) for shape in shapes) or len(shapes[0]) != len(shapes[1]):
        return None
    if after.claimed is not None:
        kept = [d if same_dim(d, e) else None for d, e in zip(*shapes)]
        return TensorShape(kept) if None in kept and before.shape == after.shape else None
    if of_any_rank():
        return None  # what waits for sizes has other dims in each instance
    if all(isinstance(a, int) or same_dim(a, b) for a, b in zip(*shapes)):
        return None
    return TensorShape([a if isinstance(a, int) else None for a in shapes[0]])


def _invariants(entry: Sequence[Tensor], loop_vars: Any, given: Any, names: Sequence[str]) -> list[Any]:
    """For each carried tensor the shape that all its values have; None where that is the one it enters with."""
    if given is None:
        return [None] * len(entry)
    found = [_shape_of(s) for leaf in _leaves_like(given, loop_vars) for s in leaf]
    for t, shape, name in zip(entry, found, names):
        if shape is not None and shape.rank not in (None, t.ndim):
            raise ValueError(MSG_INVARIANT.format(name=name, entry=t.shape, invariant=shape))
        if shape is not None and shape.rank is None:
            raise NotImplementedError(MSG_RANK.format(name=name, entry=t.shape, left=shape))
        if shape is not None and not all(s is None or s == d for s, d in zip(shape, t.shape)):
            raise ValueError(MSG_INVARIANT.format(name=name, entry=t.shape, invariant=shape))
    return found


def _leaves_like(given: Any, loop_vars: Any) -> list[list[Any]]:
    """The invariants by leaf of the loop variables: shapes are leaves, whatever they are made of."""
    if nest.is_nested(loop_vars):
        parts = [given[k] for k in nest.sorted_keys(loop_vars)] if isinstance(loop_vars, dict) else list(given)
        children = (
            [loop_vars[k] for k in nest.sorted_keys(loop_vars)] if isinstance(loop_vars, dict) else list(loop_vars)
        )
        if len(parts) != len(children):
            nest.assert_same_structure(list(loop_vars), list(given))
        return [leaf for part, child in zip(parts, children) for leaf in _leaves_like(part, child)]
    if nest.is_composite(loop_vars):
        specs = nest.flatten(given, expand_composites=True) if isinstance(given, TypeSpec) else [None]
        count = len(nest.flatten(loop_vars, expand_composites=True))
        return [specs if len(specs) == count else [None] * count]
    return [[given]]


def _shape_of(invariant: Any) -> TensorShape | None:
    return None if invariant is None else as_shape(getattr(invariant, "shape", invariant))


def _with_own_dims(dims: Any, invariant: TensorShape | None) -> Any:
    """The dims, with a symbol of its own for each that may change."""
    if invariant is None:
        return dims
    fresh = state.trace.root.unique
    return tuple(fresh_dim(fresh("size")) if known is None else d for d, known in zip(dims, invariant))


def _final_shapes(types: Sequence[TensorType], shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shapes after the last iteration, where some may change; the symbols of the condition's parameters serve."""
    if all(s is None or s.is_fully_defined() for s in shapes):
        return ()
    return tuple(t.shape for t in types)


def _carry_variables(inners: Sequence[Any], variables: Sequence[Any]) -> list[Tensor]:
    """Makes the Variables' incoming values parameters instead of captures; returns their values before the loop."""
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
    for before, given, after, name, invariant in zip(entry, step.params, step.leaves, names, shapes):
        if before.dtype is not after.dtype:
            raise TypeError(MSG_LOOP_TYPE.format(name=name, entry=before.dtype, left=after.dtype))
        if invariant is None and not keeps_shape(before._type.shape, after._type.shape):
            raise ValueError(MSG_LOOP_SHAPE.format(name=name, entry=before.shape, left=after.shape))
        if invariant is not None:
            _check_within(before, given, after, name, invariant)


def _check_within(before: Tensor, given: Tensor, after: Tensor, name: str, invariant: TensorShape) -> None:
    if before.ndim != after.ndim:
        raise NotImplementedError(MSG_RANK.format(name=name, entry=before.shape, left=after.shape))
    kept = [(a, b) for a, b, known in zip(given._type.shape, after._type.shape, invariant) if known is not None]
    if not all(agree_dim(a, b) for a, b in kept):
        raise ValueError(MSG_LESS_SPECIFIC.format(name=name, entry=before.shape, left=after.shape, invariant=invariant))
