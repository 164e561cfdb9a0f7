"""The symbols that a converted statement reads and writes: tensors join the graph, other objects stay in Python.

Source: the checks and their texts follow tensorflow/python/autograph/operators/control_flow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import Dim, agree_rank, keeps_shape
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.autograph.whole_malt import Undefined, UndefinedReturnValue
from tvtf.ops.create import zeros
from tvtf.ops.rules import bind

_VALUES = (bool, int, float, complex, str, bytes, np.ndarray, np.generic)


def is_undefined(value: Any) -> bool:
    """Returns whether a user's variable has no value: it is None or not assigned yet, or a return value not set yet."""
    return value is None or isinstance(value, (Undefined, UndefinedReturnValue))


def becomes_tensor(leaf: Any) -> bool:
    """Returns whether a leaf of a user's variable becomes a tensor of the graph: a number, text, array or tensor."""
    return isinstance(leaf, _VALUES) or (not is_undefined(leaf) and is_tensor(leaf))


def as_tensors(structure: Any) -> Any:
    """Converts the leaves of a structure to tensors of the active trace, and returns the structure of tensors.

    Leaves that can't be tensors become None. ``with_objects`` replaces the Nones by these objects again.
    """

    def as_tensor(leaf: Any) -> Any:
        return state.trace.own(convert_to_tensor(leaf)) if becomes_tensor(leaf) else None

    return nest.map_structure(as_tensor, structure, expand_composites=True)


def with_objects(tensors: Any, originals: Any) -> Any:
    """Returns ``tensors`` with each None replaced by the corresponding Python object of ``originals``.

    This reverses the replacement of such objects by ``as_tensors``.
    """
    flat_tensors = nest.flatten(tensors, expand_composites=True)
    flat_originals = nest.flatten(originals, expand_composites=True)
    merged = [obj if tensor is None else tensor for tensor, obj in zip(flat_tensors, flat_originals)]
    return nest.pack_sequence_as(originals, merged, expand_composites=True)


def require_condition(cond: Any, statement: str) -> Tensor:
    """Checks the condition of a statement, such as "while loop", and returns it as a boolean scalar tensor.

    A tensor with one element becomes a scalar.

    Raises:
      ValueError: the condition is not a bool scalar. The text is TensorFlow's.
    """
    hint = "to check for None, use `is not None`"
    cond = convert_to_tensor(cond)
    if not cond.dtype.is_bool:
        raise ValueError(
            f"condition of {statement} expected to be `tf.bool` scalar, got {cond}; to use as boolean Tensor, use "
            f"`tf.cast`; {hint}"
        )
    if isinstance(cond._type.shape, AnyShape):  # the rank is known at run time: the reshape then checks the size
        return bind.reshape(cond, shape=())
    if not cond.ndim:
        return cond
    if np.prod([size for size in cond.shape if size is not None]) > 1:
        raise ValueError(f"condition of {statement} expected to be `tf.bool` scalar, got {cond}; {hint}")
    return bind.reshape(cond, shape=())


def require_same_structure(name: str, first: Any, other: Any, text: str) -> None:
    """Checks that a user's variable has the same nested structure at two points of a program.

    Args:
      name: the name of the variable.
      first, other: the variable's values at the two points.
      text: the error's text, with placeholders for the name and the difference.

    Raises:
      TypeError: the structures differ.
    """
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
    except (ValueError, TypeError) as error:
        raise TypeError(text.format(name=name, error=error)) from error


@dataclass(frozen=True)
class Places:
    """Two points of a program at which a variable must have the same form, described for error messages.

    ``first`` and ``second`` name the points. ``objects`` and ``shapes`` explain why other objects, or shapes, must not
    differ. With ``shapes_may_differ`` only the ranks of tensors must be equal.
    """

    first: str
    second: str
    objects: str
    shapes: str
    shapes_may_differ: bool = False


def require_same_form(name: str, first: Any, second: Any, places: Places) -> None:
    """Checks that a variable has the same form at two points of a program, such as before and after an iteration.

    Tensors must have the same dtype and shape. Other objects must be equal.

    Args:
      name: the variable's name.
      first, second: the variable's values at the two points.
      places: describes the points for error messages.

    Raises:
      TypeError: the objects or the dtypes differ.
      ValueError: the shapes differ.
    """
    if becomes_tensor(first) and becomes_tensor(second):
        _require_same_type(name, convert_to_tensor(first), convert_to_tensor(second), places)
    elif first is not second and (becomes_tensor(first) or becomes_tensor(second) or first != second):
        raise TypeError(f"'{name}' is {first!r} {places.first}, but {second!r} {places.second}; {places.objects}")


def _require_same_type(name: str, first: Tensor, second: Tensor, places: Places) -> None:
    """Raises an error if a variable's tensors at two points of a program differ in dtype or shape.

    Args:
      name: the name of the variable.
      first, second: the variable's tensors at the two points.
      places: how errors call the points, and whether shapes may differ.
    """
    if first.dtype is not second.dtype:
        raise TypeError(
            f"'{name}' has dtype {first.dtype.name} {places.first}, but dtype {second.dtype.name} {places.second}"
        )
    shapes_agree = agree_rank if places.shapes_may_differ else keeps_shape
    if not shapes_agree(first._type.shape, second._type.shape):
        raise ValueError(
            f"'{name}' has shape {first.shape} {places.first}, but shape {second.shape} {places.second}{places.shapes}"
        )


def for_each(names: Sequence[str], check: Callable[..., None], *states: Sequence[Any]) -> None:
    """Calls ``check(name, value, ...)`` for each variable, with a value from each of the ``states``.

    A state is a sequence of the variables' values, in the order of ``names``.
    """
    for name, *values in zip(names, *states):
        check(name, *values)


def with_run_time_check(value: Any, holds: Tensor, message: str) -> Any:
    """Adds a run-time check to a tensor: using the result fails with ``message`` unless ``holds`` is true.

    Other values are returned unchanged.
    """
    return bind.initialized(value, holds, message=message) if isinstance(value, Tensor) else value


def placeholder(like: Any) -> Any:
    """Returns a structure of zeros with the types of the leaves in ``like``.

    A size that the active trace can't compute becomes 0. Objects that are no tensors become None.
    """
    return nest.map_structure(_zero, like, expand_composites=True)


def _zero(like: Any) -> Any:
    """Returns a zero of the type of a leaf: a Python number or text, a tensor of zeros, or None for other objects."""
    if isinstance(like, (bool, int, float, str, bytes)):
        return type(like)()
    if not becomes_tensor(like):
        return None
    shape, dtype = convert_to_tensor(like)._type
    if not isinstance(shape, AnyShape):
        shape = [dim if _is_known(dim) else 0 for dim in shape]
    return zeros(shape, dtype)


def _is_known(dim: Dim) -> bool:
    """Returns whether the active trace can compute a dim.

    It can't compute a symbolic dim of a function that was traced temporarily.
    """
    from tvtf.frontend.control_flow.closure_conversion import knows_dim

    return isinstance(dim, int) or knows_dim(state.trace, dim)
