"""``tf.Assert``, and the messages and run-time guards that all assertions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.graph_operation import Operation, done
from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.text_format import HOLE, summarized
from tvtf.core.thread_state import state
from tvtf.errors import InvalidArgumentError
from tvtf.ops.rules import bind

FEW = 3
"""Number of elements of a tensor that a message shows by default."""


@export("Assert", "debugging.Assert")
def Assert(condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None) -> Any:  # noqa: N802
    """Raises an error that shows the values of ``data`` unless ``condition`` holds.

    In a traced function, the check happens whenever that function runs.

    Args:
      condition: a boolean scalar.
      data: list of tensors and values to show.
      summarize: how many elements of each to show, 3 by default; -1 for all.

    Returns:
      None; while tracing, an ``Operation``.

    Raises:
      InvalidArgumentError: the condition does not hold.

    >>> import tvtf as tf
    >>> tf.Assert(tf.constant(1) > 0, ["never shown"])
    >>> tf.Assert(tf.constant(False), [tf.range(5), "and so on"])
    Traceback (most recent call last):
      ...
    tvtf.errors.InvalidArgumentError: Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true. Summarized data: 0, 1, 2, ...
    b'and so on'

    Source: https://www.tensorflow.org/api_docs/python/tf/debugging/Assert
    """
    if state.trace is None:
        if not condition:
            shown = "\n".join(_summarized_eagerly(convert_to_tensor(x), summarize) for x in data)
            raise InvalidArgumentError(None, None, f"Expected '{condition!s}' to be true. Summarized data: {shown}")
        return None
    if not isinstance(data, Sequence):
        raise TypeError("values must be a sequence.")
    return guarded(convert_to_tensor(condition), data, summarize, name)


def _summarized_eagerly(tensor: Tensor, summarize: int | None) -> str:
    """Formats the first ``summarize`` elements of an eager tensor, all of them where it is negative."""
    limit = FEW if summarize is None else tensor.eager_array().size if summarize < 0 else summarize
    array = tensor.eager_array()
    if not array.ndim:
        return str(array[()]) if limit else ""
    return ", ".join([*map(str, array.ravel()[:limit]), *(["..."] if limit < array.size else [])])


def guarded(condition: Tensor, data: Sequence[Any], summarize: int | None, name: str | None = None) -> Operation | None:
    """Adds a run-time check of ``condition`` to the traced program. The error shows the first elements of ``data``.

    ``summarize`` is the number of elements to show for each tensor.
    """
    known_condition = static_value(condition)
    if known_condition is not None and known_condition:  # known to hold: nothing to check
        return done("NoOp")
    if summarize is None:
        summarize = FEW
    elif summarize < 0:  # all elements
        summarize = np.iinfo(np.int64).max
    texts, computed_tensors = [], []
    for tensor in map(convert_to_tensor, data):
        known = static_value(tensor)
        if known is None:
            texts.append(HOLE)  # filled with the value at run time
            computed_tensors.append(tensor)
        else:
            texts.append(summarized(known, summarize))
    message = "assertion failed: " + " ".join(f"[{text}]" for text in texts)
    hole_count = len(computed_tensors)
    checked = bind.guard(condition, *computed_tensors, message=message, shown=hole_count, summarize=int(summarize))
    return done("Assert", name, checked)


# -- parts of messages


def prefix(message: Any) -> str:
    """Returns a user's message as the beginning of an error text."""
    return f"{message}.  " if message else ""


def called(tensor: Any, eagerly: str) -> str:
    """Returns what a message calls a tensor: its name in a trace; ``eagerly`` for an eager tensor, which has none."""
    return eagerly if isinstance(tensor, EagerTensor) and state.trace is None else getattr(tensor, "name", "Const:0")


def shape_and_dtype(tensor: Tensor) -> str:
    return f"shape={tensor.shape} dtype={tensor.dtype.name}"
