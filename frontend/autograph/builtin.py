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
    """Returns a tensor's first dim: an int if it is static, else a scalar tensor."""
    if not is_symbolic(s):
        return len(s)
    x = convert_to_tensor(s)
    if isinstance(x._type.shape, AnyShape):
        return Leading(x).length()
    if not x.ndim:
        raise ValueError("len requires a non-scalar tensor, got one of rank 0")
    size = x._type.shape[0]
    return size if isinstance(size, int) else Leading(x).length()


def int_(x: Any = 0, *base: Any) -> Any:
    return _cast(x, dtypes.int32) if is_symbolic(x) else int(x, *base)


def float_(x: Any = 0) -> Any:
    return _cast(x, dtypes.float32) if is_symbolic(x) else float(x)


def _cast(x: Any, dtype: Any) -> Tensor:
    return cast(x, dtype)


def range_(*bounds: Any) -> Any:
    return Range.of(*bounds) if any(map(is_symbolic, bounds)) else range(*bounds)


def arange_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """Returns ``tf.range`` and remembers its bounds for a loop."""
    return known_range(start, limit, delta, dtype)


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    if state.trace is not None and has_steps(iterable):
        return iterable.enumerate(start)
    return Enumerated(iterable, start) if is_iterated(iterable) else enumerate(iterable, start)


def zip_(*iterables: Any, strict: bool = False) -> Any:
    if state.trace is not None and iterables and all(map(has_steps, iterables)):
        return iterables[0].zip(*iterables)
    return Zipped(iterables) if any(map(is_iterated, iterables)) else zip(*iterables, strict=strict)


def sorted_(iterable: Any, *, key: Any = None, reverse: Any = False) -> Any:
    """Returns a tensor's elements sorted, as a tensor; ``key`` maps elements to sort keys.

    Raises:
      ValueError: elements, or results of ``key``, that are no scalars.
    """
    if not is_symbolic(iterable):
        return sorted(iterable, key=key, reverse=reverse)
    public, direction = public_names(), "DESCENDING" if reverse else "ASCENDING"
    keys = iterable if key is None else public["vectorized_map"](key, iterable)
    if keys.shape.rank is not None and keys.shape.rank != 1:
        raise ValueError("sort only supports only 1D tensors")
    if key is None:
        return public["sort"](keys, direction=direction)
    return public["gather"](iterable, public["argsort"](keys, direction=direction))


def _extreme(python: Callable[..., Any], pairwise: str, reduction: str) -> Callable[..., Any]:
    """Returns the overload of ``max`` or ``min``: of several tensors elementwise, of one over its elements.

    As in Python, one argument is a collection.
    """

    def overload(*args: Any, **kwargs: Any) -> Any:
        if not any(map(is_symbolic, args)) or kwargs:
            return python(*args, **kwargs)
        if len(args) == 1:
            return getattr(bind, reduction)(convert_to_tensor(args[0]), axis=(0,), keepdims=False)
        return functools.reduce(lambda x, y: getattr(bind, pairwise)(*promote(x, y)), args)

    return overload


OVERLOADS: dict[Any, Callable[..., Any]] = {
    builtins.len: len_,
    builtins.int: int_,
    builtins.float: float_,
    builtins.range: range_,
    builtins.enumerate: enumerate_,
    builtins.zip: zip_,
    builtins.sorted: sorted_,
    builtins.max: _extreme(max, "maximum", "reduce_max"),
    builtins.min: _extreme(min, "minimum", "reduce_min"),
    create.arange: arange_,
}
