"""What a thread is converting, which functions are not converted, and the options of loops: all that needs no ``malt``."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from tvtf.core.primitive import export

ARTIFACT = "autograph_info__"
"""The attribute (malt's own) that marks functions to call unconverted."""


class _Status(threading.local):
    """The state of AutoGraph in a thread.

    ``disabled`` counts the enclosing calls that must not be converted. ``scopes`` are the scopes of the converted
    functions that are running, innermost last.
    """

    def __init__(self) -> None:
        self.disabled = 0
        self.scopes: list[Any] = []


status = _Status()


def artifact(function: Any, extras: Any = None) -> Any:
    """Marks a function with the attribute that keeps AutoGraph from converting it, and returns the function.

    For a method, the underlying function is marked. ``extras`` is the value of the attribute.
    """
    setattr(getattr(function, "__func__", function), ARTIFACT, extras)
    return function


@export("autograph.experimental.do_not_convert")
def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Decorates a function that AutoGraph must not convert: the function, and all that it calls, runs as plain Python.

    >>> import tvtf as tf
    >>> @tf.autograph.experimental.do_not_convert
    ... def twice(x):
    ...     return x + x
    >>> tf.function(lambda x: twice(x))(tf.constant(2)).numpy()
    np.int32(4)

    Source: https://www.tensorflow.org/api_docs/python/tf/autograph/experimental/do_not_convert
    """
    if func is None:
        return do_not_convert

    @functools.wraps(func)
    def unconverted(*args: Any, **kwargs: Any) -> Any:
        """Calls the function while conversion is off in this thread."""
        status.disabled += 1
        try:
            return func(*args, **kwargs)
        finally:
            status.disabled -= 1

    return artifact(unconverted)


@export("autograph.experimental.set_loop_options")
def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Sets options of the loop whose first statement this is; elsewhere it does nothing.

    Args:
      maximum_iterations: the most iterations; the loop stops after them.
      shape_invariants: pairs of a loop variable and the ``TensorShape`` that all its values have.
      parallel_iterations, swap_memory: accepted.

    >>> import tvtf as tf
    >>> @tf.function
    ... def f(n):
    ...     i = 0
    ...     while i < n:
    ...         tf.autograph.experimental.set_loop_options(maximum_iterations=3)
    ...         i += 1
    ...     return i
    >>> f(tf.constant(10)).numpy()
    np.int32(3)

    Source: https://www.tensorflow.org/api_docs/python/tf/autograph/experimental/set_loop_options
    """
