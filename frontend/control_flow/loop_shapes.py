"""The shapes of loop variables: what a loop declares of them, what an iteration changes, and what may leave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core import nest
from tvtf.core.composite import TypeSpec
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import (
    Dim,
    TensorShape,
    TensorType,
    agree_dim,
    as_shape,
    fresh_dim,
    keeps_shape,
    same_dim,
)
from tvtf.core.specialization import of_any_rank
from tvtf.core.tensor import SymbolicTensor, Tensor
from tvtf.core.thread_state import state
from tvtf.state.variable import Variable

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


def changed_sizes(variable: Variable, before: Tensor, after: Tensor) -> TensorShape | None:
    """Returns the shape of a Variable without the sizes that an iteration changes and that its declaration leaves open.

    Returns None if there are none, or if the rank isn't known.
    """
    old_dims, new_dims, declared = before._type.shape, after._type.shape, variable.shape
    if isinstance(old_dims, AnyShape) or isinstance(new_dims, AnyShape) or len(old_dims) != len(new_dims):
        return None
    sizes = [None] * len(old_dims) if declared.rank is None else declared
    changes = [size is None and not same_dim(old, new) for size, old, new in zip(sizes, old_dims, new_dims)]
    if not any(changes):
        return None
    return TensorShape([None if has_changed else old for has_changed, old in zip(changes, old_dims)])


def types_in_loop(entry: Sequence[Tensor], shapes: Sequence[Any]) -> list[TensorType]:
    """Returns the types of the loop variables, with a new symbolic dim for each size that may change.

    Args:
      entry: the values before the loop.
      shapes: the shape invariants. None means that the shape is kept.
    """
    types = []
    for x, invariant in zip(entry, shapes):
        shape = _with_own_dims(x._type.shape, invariant)
        types.append(x._type._replace(shape=shape))
    return types


def own_types(types: Sequence[TensorType], shapes: Sequence[Any]) -> list[TensorType]:
    """Returns parameter types for a loop's body, with a new symbolic dim for each size that may change.

    Args:
      types: the parameter types of the loop's condition.
      shapes: the shape invariants, which leave changing sizes unknown. None means that the shape is kept.
    """
    return [
        tensor_type._replace(shape=_with_own_dims(tensor_type.shape, shape))
        for tensor_type, shape in zip(types, shapes)
    ]


def generalized_shapes(entry: Sequence[Tensor], traced_body: Any, shapes: Sequence[Any]) -> list[Any] | None:
    """Generalizes shape invariants: a size that one iteration changes becomes unknown.

    Args:
      entry: the loop variables before the loop.
      traced_body: the trace of an iteration. Its leaves are the loop variables after the iteration.
      shapes: the shape invariants so far. None means that the shape is kept.

    Returns:
      the new shape invariants, or None if none of them changes.
    """
    invariants = [
        shape or varying_shape(before, after) for before, after, shape in zip(entry, traced_body.leaves, shapes)
    ]
    are_unchanged = all(new is old for new, old in zip(invariants, shapes))
    return None if are_unchanged else invariants


def invariant_shape(before: Tensor, start: Tensor, end: Tensor) -> TensorShape | None:
    """Returns the shape invariant of a loop variable, inferred from an iteration that was traced with unknown sizes.

    Sizes that the iteration keeps are static in the invariant. Returns None if the iteration keeps all sizes.

    Args:
      before: the loop variable before the loop.
      start, end: the loop variable at the start and at the end of the iteration.
    """
    known_dim = state.trace.root.known_dim
    invariant: list[Any] = []
    for size_before, start_size, end_size in zip(before._type.shape, start._type.shape, end._type.shape):
        end_size = known_dim(end_size)
        # The iteration keeps the size: it is the same symbol at both ends, or the static size from before the loop.
        is_unchanged = same_dim(known_dim(start_size), end_size) or size_before == end_size
        invariant.append(size_before if is_unchanged else None)
    return TensorShape(invariant) if None in invariant else None


def show_shapes(tensors: Sequence[SymbolicTensor], entry: Sequence[Tensor], declared: Sequence[Any]) -> None:
    """Sets the static shapes of loop variables for the user's Python code to the shapes before the loop.

    Variables with a declared shape invariant keep the shape of the invariant.

    Args:
      tensors: the loop variables in the loop, or after it.
      entry: the loop variables before the loop.
      declared: the declared shape invariants, None where there is none.
    """
    for tensor, before, shape in zip(tensors, entry, declared):
        are_known = shape is None and None not in (tensor.shape.rank, before.shape.rank)
        if are_known and tensor.shape.as_list() != before.shape.as_list():
            tensor.claimed = before.shape


def varying_shape(before: Tensor, after: SymbolicTensor) -> TensorShape | None:
    """Returns a shape invariant in which the sizes that an iteration changes are unknown, or None if none is needed.

    TensorFlow allows changes of sizes that were unknown before the loop. It trusts the sizes that ``set_shape`` claims.

    Args:
      before: the loop variable before the loop.
      after: the loop variable after an iteration.
    """
    old_dims, new_dims = before._type.shape, after._type.shape
    if isinstance(old_dims, AnyShape) or isinstance(new_dims, AnyShape):
        return None
    if len(old_dims) != len(new_dims):
        return None
    are_equal = [same_dim(old, new) for old, new in zip(old_dims, new_dims)]
    if after.claimed is not None:  # the sizes that `set_shape` claims
        if all(are_equal) or before.shape != after.shape:
            return None
        return TensorShape([old if is_equal else None for old, is_equal in zip(old_dims, are_equal)])
    if of_any_rank():
        return None  # deferred calls have other dims each time that the function is traced for known ranks
    if all(isinstance(old, int) or is_equal for old, is_equal in zip(old_dims, are_equal)):
        return None
    return TensorShape([old if isinstance(old, int) else None for old in old_dims])


def invariants_of(entry: Sequence[Tensor], loop_vars: Any, declared: Any, names: Sequence[str]) -> list[Any]:
    """Checks the declared shape invariants, and returns the invariant of each loop tensor.

    None means that the tensor keeps its shape. TensorFlow allows invariants of unknown rank, but they can't be compiled.

    Args:
      entry: the loop tensors before the loop.
      loop_vars: the loop variables in their structure.
      declared: the user's shape invariants in that structure, or None.
      names: the tensors' names in error messages.
    """
    if declared is None:
        return [None] * len(entry)
    invariants = [_shape_of(spec) for leaf in _leaves_like(declared, loop_vars) for spec in leaf]
    for before, invariant, name in zip(entry, invariants, names):
        if invariant is None:
            continue
        if invariant.rank is None:
            raise NotImplementedError(MSG_RANK.format(name=name, entry=before.shape, left=invariant))
        has_equal_rank = invariant.rank == before.ndim
        if not has_equal_rank or not all(size in (None, dim) for size, dim in zip(invariant, before.shape)):
            raise ValueError(MSG_INVARIANT.format(name=name, entry=before.shape, invariant=invariant))
    return invariants


def _leaves_like(declared: Any, loop_vars: Any) -> list[list[Any]]:
    """Flattens declared shape invariants: returns a list of invariants for each leaf of the loop variables.

    The structure of ``loop_vars`` says what is a leaf, because ``[None, 3]`` may be one shape. A tensor has one
    invariant. A composite tensor has an invariant for each of its component tensors.
    """
    if nest.is_nested(loop_vars):
        if isinstance(loop_vars, dict):
            keys = nest.sorted_keys(loop_vars)
            declared_parts = [declared[key] for key in keys]
            loop_var_parts = [loop_vars[key] for key in keys]
        else:
            declared_parts = list(declared)
            loop_var_parts = list(loop_vars)
        if len(declared_parts) != len(loop_var_parts):
            nest.assert_same_structure(list(loop_vars), list(declared))  # raises TensorFlow's error
        leaves = []
        for declared_part, loop_var_part in zip(declared_parts, loop_var_parts):
            leaves += _leaves_like(declared_part, loop_var_part)
        return leaves
    if nest.is_composite(loop_vars):
        specs = nest.flatten(declared, expand_composites=True) if isinstance(declared, TypeSpec) else [None]
        count = len(nest.flatten(loop_vars, expand_composites=True))
        return [specs if len(specs) == count else [None] * count]
    return [[declared]]


def _shape_of(invariant: Any) -> TensorShape | None:
    """Returns the shape of a declared invariant, which may be a shape, a spec or None."""
    return None if invariant is None else as_shape(getattr(invariant, "shape", invariant))


def _with_own_dims(dims: Any, invariant: TensorShape | None) -> Any:
    """Returns a shape in which each size that the shape invariant leaves unknown is a new symbolic dim.

    For example, dims ``(n, 3)`` and the invariant ``(None, 3)`` give ``(size, 3)``.
    """
    if invariant is None:
        return dims

    def new_dim() -> Dim:
        return fresh_dim(state.trace.root.unique("size"))

    return tuple(new_dim() if size is None else dim for dim, size in zip(dims, invariant))


def final_shapes(types: Sequence[TensorType], shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the shapes of the loop variables after the loop, or () if no shape changes.

    Args:
      types: the types of the condition's parameters, with symbols for sizes that change.
      shapes: the shape invariants.
    """
    if all(shape is None or shape.is_fully_defined() for shape in shapes):
        return ()
    return tuple(tensor_type.shape for tensor_type in types)


def check_carried(entry: Sequence[Tensor], traced_body: Any, names: Sequence[str], shapes: Sequence[Any]) -> None:
    """Checks that an iteration of a while loop keeps the dtype and the shape invariant of each loop variable.

    Raises TensorFlow's errors otherwise.

    Args:
      entry: the loop variables before the loop.
      traced_body: the trace of the body, with the loop variables at the start and at the end of an iteration.
      names: the variables' names in error messages.
      shapes: the shape invariants. None means that the shape is kept.
    """
    for before, start, after, name, invariant in zip(entry, traced_body.params, traced_body.leaves, names, shapes):
        if before.dtype is not after.dtype:
            raise TypeError(MSG_LOOP_TYPE.format(name=name, entry=before.dtype, left=after.dtype))
        if invariant is None and not keeps_shape(before._type.shape, after._type.shape):
            raise ValueError(MSG_LOOP_SHAPE.format(name=name, entry=before.shape, left=after.shape))
        if invariant is not None:
            _check_within(before, start, after, name, invariant)


def _check_within(before: Tensor, start: Tensor, after: Tensor, name: str, invariant: TensorShape) -> None:
    """Checks that an iteration keeps a loop variable's rank, and the sizes that its shape invariant fixes.

    Args:
      before: the loop variable before the loop.
      start, after: the loop variable at the start and the end of the iteration.
      name: the variable's name in error messages.
      invariant: its shape invariant.

    Raises:
      NotImplementedError: the rank changes.
      ValueError: a fixed size changes.
    """
    if before.ndim != after.ndim:
        raise NotImplementedError(MSG_RANK.format(name=name, entry=before.shape, left=after.shape))
    for start_dim, end_dim, size in zip(start._type.shape, after._type.shape, invariant):
        is_fixed = size is not None
        if is_fixed and not agree_dim(start_dim, end_dim):
            raise ValueError(
                MSG_LESS_SPECIFIC.format(name=name, entry=before.shape, left=after.shape, invariant=invariant)
            )
