"""Defines ``tf.xla.experimental``, which requests compilation; every traced function is compiled anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvtf.api.namespaces import install as _install
from tvtf.core import nest
from tvtf.core.primitive import export
from tvtf.core.thread_state import executing_eagerly
from tvtf.frontend.function.polymorphic_function import function


@export("xla.experimental.compile")
def compile(computation: Callable[..., Any], inputs: Any = None) -> Any:  # noqa: A001 - TensorFlow's name
    """Compiles a function, and calls it on ``inputs``.

    Args:
      computation: a function of ``len(inputs)`` tensors.
      inputs: a list or tuple of values, or None.

    Returns:
      A list of tensors; nested results keep their structure.

    Raises:
      TypeError: ``inputs`` is not a list.

    >>> import tvtf as tf
    >>> [y.numpy().tolist() for y in tf.xla.experimental.compile(lambda x: x + 1., [tf.constant([1., 2.])])]
    [[2.0, 3.0]]

    Source: https://www.tensorflow.org/api_docs/python/tf/xla/experimental/compile
    """
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a list")
    arguments = list(inputs or ())
    results = function(computation)(*arguments) if executing_eagerly() else computation(*arguments)
    # A single result or a flat sequence becomes a list.
    is_flat = not nest.is_nested(results) or not (isinstance(results, dict) or any(map(nest.is_nested, results)))
    return nest.flatten(results) if is_flat and results is not None else results


@export("xla.experimental.jit_scope")
@contextmanager
def jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """Has no effect: ops in the ``with`` block are compiled like all others.

    Raises:
      RuntimeError: called outside of ``tf.function``.

    >>> import tvtf as tf
    >>> @tf.function
    ... def f(x):
    ...     with tf.xla.experimental.jit_scope():
    ...         return x + 1.
    >>> f(tf.constant(1.)).numpy()
    np.float32(2.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/xla/experimental/jit_scope
    """
    if executing_eagerly():
        raise RuntimeError(
            "xla.experimental.jit_scope is not supported when eager execution is enabled. Try use it inside tf.function."
        )
    yield


_install()
