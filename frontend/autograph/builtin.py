"""Builtins in converted code: ``len``, ``int``, ``range``, ``zip`` and others, which also take tensors."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

from tvtf import dtypes
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import public_names
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.frontend.autograph.iteration import (
    Enumerated,
    Leading,
    Range,
    Zipped,
    has_steps,
    is_iterated,
    known_range,
)
from tvtf.ops import create
from tvtf.ops.cast import cast
from tvtf.ops.rules import bind, promote
from tvtf.state.variable import Variable


def is_symbolic(value: Any) -> bool:
    """Returns whether ``value`` is a tensor without a value while tracing."""
    if isinstance(value, Variable):
        return state.trace is not None
    return isinstance(value, Tensor) and not isinstance(value, EagerTensor)


def len_(s: Any) -> Any:
    """Implements ``len`` in converted code.

    A tensor's length is its first dim, as an int if static, else as a scalar.
    """
    if not is_symbolic(s):
        return len(s)
    tensor = convert_to_tensor(s)
    if isinstance(tensor._type.shape, AnyShape):
        return Leading(tensor).length()
    if not tensor.ndim:
        raise ValueError("len requires a non-scalar tensor, got one of rank 0")
    size = tensor._type.shape[0]
    return size if isinstance(size, int) else Leading(tensor).length()


def int_(x: Any = 0, *base: Any) -> Any:
    return _cast(x, dtypes.int32) if is_symbolic(x) else int(x, *base)


def float_(x: Any = 0) -> Any:
    return _cast(x, dtypes.float32) if is_symbolic(x) else float(x)


def _cast(x: Any, dtype: Any) -> Tensor:
    return cast(x, dtype)


def range_(*bounds: Any) -> Any:
    """Implements ``range`` in converted code.

    Bounds that are tensors give a range that a loop of the graph iterates.
    """
    return Range.of(*bounds) if any(map(is_symbolic, bounds)) else range(*bounds)


def arange_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """Implements ``tf.range`` in converted code: returns the tensor, and records the bounds for a loop over it."""
    return known_range(start, limit, delta, dtype)


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    """Implements ``enumerate`` in converted code, also for tensors and datasets."""
    if state.trace is not None and has_steps(iterable):
        return iterable.enumerate(start)
    return Enumerated(iterable, start) if is_iterated(iterable) else enumerate(iterable, start)


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """Implements ``zip`` in converted code, also for tensors and datasets."""
    if state.trace is not None and iterables and all(map(has_steps, iterables)):
        return iterables[0].zip(*iterables)
    return Zipped(iterables) if any(map(is_iterated, iterables)) else zip(*iterables, strict=strict)


def sorted_(iterable: Any, *, key: Any = None, reverse: Any = False) -> Any:
    """Implements ``sorted`` in converted code. A vector's elements are returned in order, as a tensor.

    Args:
      iterable: the elements.
      key: maps an element to the value to sort by, or None.
      reverse: whether the largest element comes first.

    Raises:
      ValueError: the elements of a tensor, or the results of ``key``, are not scalars.
    """
    if not is_symbolic(iterable):
        return sorted(iterable, key=key, reverse=reverse)
    functions = public_names()
    direction = "DESCENDING" if reverse else "ASCENDING"
    sort_keys = iterable if key is None else functions["vectorized_map"](key, iterable)
    if sort_keys.shape.rank not in (None, 1):
        raise ValueError("sort only supports only 1D tensors")
    if key is None:
        return functions["sort"](sort_keys, direction=direction)
    order = functions["argsort"](sort_keys, direction=direction)
    return functions["gather"](iterable, order)


def _max_or_min(builtin: Callable[..., Any], pairwise: str, reduction: str) -> Callable[..., Any]:
    """Returns the replacement of ``max`` or ``min`` in converted code.

    Args:
      builtin: Python's function, which is called if no argument is a tensor.
      pairwise: the name of the primitive for two tensors, elementwise.
      reduction: the name of the primitive for a single tensor, over its first axis. Python's ``max`` of one argument
        takes it as a collection.
    """

    def of_two(x: Any, y: Any) -> Any:
        """Computes the elementwise maximum or minimum, in the common dtype of both arguments."""
        return getattr(bind, pairwise)(*promote(x, y))

    def overload(*args: Any, **kwargs: Any) -> Any:
        """Computes the maximum or minimum of the arguments, or of the slices of a single argument."""
        if not any(map(is_symbolic, args)) or kwargs:
            return builtin(*args, **kwargs)
        if len(args) == 1:
            return getattr(bind, reduction)(convert_to_tensor(args[0]), axis=(0,), keepdims=False)
        return functools.reduce(of_two, args)

    return overload


OVERLOADS: dict[Any, Callable[..., Any]] = {
    builtins.len: len_,
    builtins.int: int_,
    builtins.float: float_,
    builtins.range: range_,
    builtins.enumerate: enumerate_,
    builtins.zip: zip_,
    builtins.sorted: sorted_,
    builtins.max: _max_or_min(max, "maximum", "reduce_max"),
    builtins.min: _max_or_min(min, "minimum", "reduce_min"),
    create.arange: arange_,
}
