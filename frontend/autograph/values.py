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
    """Returns whether a symbol has no value: None, undefined, or a return value that is not set."""
    return value is None or isinstance(value, (Undefined, UndefinedReturnValue))


def becomes_tensor(leaf: Any) -> bool:
    """Returns whether a leaf becomes a tensor of the graph."""
    return isinstance(leaf, _VALUES) or (not is_undefined(leaf) and is_tensor(leaf))


def as_tensors(structure: Any) -> Any:
    """Returns the structure with its leaves converted to tensors of the active trace.

    Objects that no tensor can hold become None; ``with_objects`` puts them back.
    """
    return nest.map_structure(
        lambda leaf: state.trace.own(convert_to_tensor(leaf)) if becomes_tensor(leaf) else None,
        structure,
        expand_composites=True,
    )


def with_objects(tensors: Any, originals: Any) -> Any:
    """Puts the Python objects of ``originals`` back where ``as_tensors`` replaced them by None."""
    pairs = zip(nest.flatten(tensors, expand_composites=True), nest.flatten(originals, expand_composites=True))
    merged = [obj if tensor is None else tensor for tensor, obj in pairs]
    return nest.pack_sequence_as(originals, merged, expand_composites=True)


def require_condition(cond: Any, statement: str) -> Tensor:
    """Returns a statement's condition as a boolean scalar.

    Raises:
      ValueError: any other tensor; the text is TensorFlow's.
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
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
    except (ValueError, TypeError) as error:
        raise TypeError(text.format(name=name, error=error)) from error


@dataclass(frozen=True)
class Places:
    """Two points of a program at which a symbol must agree, and the reason, as error messages put it."""

    first: str
    second: str
    objects: str
    shapes: str
    shapes_may_differ: bool = False


def require_same_form(name: str, first: Any, second: Any, places: Places) -> None:
    """Checks that a symbol has the same form at two points of a program, as before and after an iteration.

    Tensors must have one dtype and shape; other objects must be equal.

    Raises:
      TypeError: objects or dtypes differ.
      ValueError: shapes differ.
    """
    if becomes_tensor(first) and becomes_tensor(second):
        _require_same_type(name, convert_to_tensor(first), convert_to_tensor(second), places)
    elif first is not second and (becomes_tensor(first) or becomes_tensor(second) or first != second):
        raise TypeError(f"'{name}' is {first!r} {places.first}, but {second!r} {places.second}; {places.objects}")


def _require_same_type(name: str, first: Tensor, second: Tensor, places: Places) -> None:
    """Raises an error if a symbol's tensors at two points of the program differ in dtype or shape."""
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
    """Calls ``check(name, value, ...)`` for each symbol."""
    for name, *values in zip(names, *states):
        check(name, *values)


def only_if(value: Any, holds: Tensor, message: str) -> Any:
    """Returns a tensor whose use fails at run time with ``message`` unless ``holds`` is true.

    Values that are no tensors are returned unchanged.
    """
    return bind.initialized(value, holds, message=message) if isinstance(value, Tensor) else value


def placeholder(like: Any) -> Any:
    """Returns zeros of the types in ``like``; sizes that only an inner trace knows become 0, other objects None."""
    return nest.map_structure(_zero, like, expand_composites=True)


def _zero(like: Any) -> Any:
    if isinstance(like, (bool, int, float, str, bytes)):
        return type(like)()
    if not becomes_tensor(like):
        return None
    shape, dtype = convert_to_tensor(like)._type
    return zeros(shape if isinstance(shape, AnyShape) else [d if _is_known(d) else 0 for d in shape], dtype)


def _is_known(dim: Dim) -> bool:
    """Returns whether the active trace knows a dim; it may be one of a function that was traced temporarily."""
    from tvtf.frontend.control_flow.closure_conversion import knows_dim

    return isinstance(dim, int) or knows_dim(state.trace, dim)
