"""AutoGraph: converts Python control flow on tensors to ``cond`` and ``while``, with the transpiler ``malt``.

This module is light; modules that need ``malt`` are imported when the first function is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tvm_import import import_whole
from tvtf.frontend.autograph.status import ARTIFACT, artifact


def convert(function: Callable[..., Any], is_explicit: bool = True) -> Callable[..., Any]:
    """Returns ``function`` converted by AutoGraph: Python control flow on tensors becomes ops of the graph.

    The functions that it calls are converted, too. The conversion happens at the first call. Errors name the user's
    lines. If ``is_explicit`` is False, the functions of libraries such as NumPy and Keras are left unchanged.
    """
    if hasattr(function, ARTIFACT):  # it is converted already, or must not be
        return function

    @functools.wraps(function)
    def converted(*args: Any, **kwargs: Any) -> Any:
        # Imported here, because the transpiler is needed only when a function is traced.
        calls = import_whole("tvtf.frontend.autograph.calls")
        return calls.call_converted(function, args, kwargs, is_explicit)

    return artifact(converted)


@export("autograph.to_code")
def to_code(entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None) -> str:
    """Returns the source code of a function as AutoGraph converts it.

    >>> import tvtf as tf
    >>> def f(x):
    ...     if x > 0:
    ...         x = x * x
    ...     return x
    >>> "ag__.if_stmt" in tf.autograph.to_code(f)
    True

    Raises:
      ConversionError: (a ValueError) the function can't be converted; the text says why.

    Source: https://www.tensorflow.org/api_docs/python/tf/autograph/to_code
    """
    from tvtf.frontend.autograph.transpiler import source_of

    return source_of(entity)


@export("autograph.to_graph")
def to_graph(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> Callable[..., Any]:
    """Converts a function: its Python control flow on tensors becomes ops of the graph.

    The converted function can be called in a trace, or eagerly.

    >>> import tvtf as tf
    >>> def f(x):
    ...     return x * x if x > 0 else -x
    >>> tf.autograph.to_graph(f)(tf.constant(2)).numpy()
    np.int32(4)

    Raises:
      ConversionError: (a ValueError) the function can't be converted; the text says why.

    Source: https://www.tensorflow.org/api_docs/python/tf/autograph/to_graph
    """
    from tvtf.frontend.autograph.calls import transpiled

    return artifact(transpiled(entity))


@export("autograph.set_verbosity")
def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Sets how much the transpiler logs: 0 (nothing) to 10.

    >>> import tvtf as tf
    >>> tf.autograph.set_verbosity(0)

    Source: https://www.tensorflow.org/api_docs/python/tf/autograph/set_verbosity
    """
    from tvtf.frontend.autograph.whole_malt import ag_logging

    ag_logging.set_verbosity(level, alsologtostdout)


@export("autograph.trace")
def trace(*args: Any) -> None:
    """Prints its arguments while a function is traced, and not when the compiled function runs.

    >>> import tvtf as tf
    >>> tf.autograph.trace("tracing")
    tracing

    Source: https://www.tensorflow.org/api_docs/python/tf/autograph/trace
    """
    print(*args)
