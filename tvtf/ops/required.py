"""What composed functions require of the values they are given: checked at once eagerly, by a guard in a traced program."""

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
    """``x``, which nobody gets unless its values are as they should be.

    A composed function goes on with the result, so that the check belongs to what needs it: it is dropped with that, runs
    in the branch or loop where that runs, and stands before it in gradients, too.

    Args:
      x: the tensor.
      check: raises for a wrong array, in TensorFlow's words, which tell the place; values that are known are handed to it.
      holds: whether the values of a traced or batched tensor are right, as a tensor of booleans.
      message: what the traced program says where they are not.
      others: tensors that ``check`` and ``holds`` look at, too.

    Raises:
      InvalidArgumentError: they are wrong; whatever ``check`` raises, eagerly.

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
    """Whether known values are right; in a trace, wrong ones fail only where the program comes to them."""
    outer, state.trace = state.trace, None
    try:
        check(*known)
    except (ArgumentError, OpError, TypeError, ValueError):
        if outer is None:
            raise
        return False
    finally:
        state.trace = outer
    return True


def all_hold(x: Tensor) -> Tensor:
    """Whether all elements hold."""
    return bind.reduce_all(x, axis=tuple(range(x.ndim)), keepdims=False)  # type: ignore[no-any-return]


def within(high: Dim) -> Callable[[Tensor], Tensor]:
    """Whether integers are in [0, high)."""
    return lambda x: in_range(x, high)


def ascending(x: Tensor) -> Tensor:
    """Which numbers of a vector are followed by none that is smaller."""
    return bind.greater_equal(x[1:], x[:-1])  # type: ignore[no-any-return]


def is_permutation(x: Tensor) -> Tensor:
    """Whether each place of the last axis is named once, in order of size."""
    numbers = bind.range(size=x._type.shape[-1], start=0, delta=1, dtype=x.dtype)
    return bind.equal(bind.sort(x, descending=False), numbers)  # type: ignore[no-any-return]
