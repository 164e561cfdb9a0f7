"""Checks of argument values for composed functions: done at once eagerly, by a guard in a traced program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, static_value
from tvtf.core.thread_state import state
from tvtf.errors import OpError
from tvtf.ops.indexing import in_range
from tvtf.ops.rules import bind

Check = Callable[..., None]


def required(x: Tensor, check: Check, holds: Callable[..., Tensor], message: str, *others: Tensor) -> Tensor:
    """Returns ``x`` with a check of its values attached.

    A composed function must continue with the result. The check then belongs to the ops that use it: it is dropped with
    them as dead code, runs in the branch or loop where they run, and precedes them in gradients, too.

    Args:
      x: the tensor.
      check: raises for a wrong array, in TensorFlow's words; called with values that are known.
      holds: returns a bool tensor, whether the values of a traced or batched tensor are right.
      message: the traced program's error text.
      others: further arguments of ``check`` and ``holds``.

    Raises:
      InvalidArgumentError: the check fails (in compiled code; eagerly, the exception of ``check`` itself is raised).

    >>> import tvtf as tf
    >>> def check(array):
    ...     if (array < 0).any():
    ...         raise tf.errors.InvalidArgumentError(None, None, "negative")
    >>> required(tf.constant([1, 2]), check, lambda x: x >= 0, "negative").numpy()
    array([1, 2], dtype=int32)
    """
    known = [static_value(each) for each in (x, *others)]
    if all(array is not None for array in known) and _passes(check, known):
        return x
    return bind.initialized(x, all_hold(holds(x, *others)), message=message)  # type: ignore[no-any-return]


def _passes(check: Check, known: list[np.ndarray | None]) -> bool:
    """Returns whether values that are known while tracing pass ``check``.

    In eager execution, the error of the check is raised. A traced program must fail only when it reaches the check.
    """
    active_trace = state.trace
    state.trace = None  # the check computes with NumPy arrays, eagerly
    try:
        check(*known)
    except (ArgumentError, OpError, TypeError, ValueError):
        if active_trace is None:
            raise
        return False
    finally:
        state.trace = active_trace
    return True


def all_hold(x: Tensor) -> Tensor:
    """Returns whether all elements are True."""
    return bind.reduce_all(x, axis=tuple(range(x.ndim)), keepdims=False)  # type: ignore[no-any-return]


def within(high: Dim) -> Callable[[Tensor], Tensor]:
    """Returns a condition on an integer tensor: a function that returns whether all its elements are in [0, high)."""
    return lambda x: in_range(x, high)


def ascending(x: Tensor) -> Tensor:
    """Returns for each element of a vector but the last whether the next one is at least as large."""
    return bind.greater_equal(x[1:], x[:-1])  # type: ignore[no-any-return]


def is_permutation(x: Tensor) -> Tensor:
    """Returns for each element of the sorted last axis whether it equals its index; all do in a permutation."""
    numbers = bind.range(size=x._type.shape[-1], start=0, delta=1, dtype=x.dtype)
    return bind.equal(bind.sort(x, descending=False), numbers)  # type: ignore[no-any-return]
