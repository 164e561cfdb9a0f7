"""``tf.CriticalSection`` and ``tf.timestamp``: mutual exclusion between threads, and the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import float64
from tvtf.frontend.host.python_call import numpy_function


@export("CriticalSection")
class CriticalSection:
    """Runs functions so that one thread at a time is in any of them.

    A compiled function needs nothing more: a call holds the locks of the Variables that it uses until it is done.

    >>> import tvtf as tf
    >>> v = tf.Variable(1.)
    >>> tf.CriticalSection(name="cs").execute(lambda: v.assign_add(2.)).numpy()
    np.float32(3.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/CriticalSection
    """

    def __init__(
        self, name: str | None = None, shared_name: str | None = None, critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:  # fmt: skip
        """Creates a critical section with a lock of its own. ``shared_name`` and ``import_scope`` are ignored."""
        if critical_section_def is not None:
            raise ValueError("Argument `critical_section_def` is not supported.")
        self._name = name or "critical_section"
        self._lock = Lock()

    @property
    def name(self) -> str:
        return self._name

    def execute(self, fn: Callable[[], Any], exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """Runs ``fn`` while no other thread runs a function of this section, and returns the result of ``fn``.

        Raises:
          ValueError: ``fn`` is not callable.
        """
        if not callable(fn):
            raise ValueError(f"fn must be callable, but got {fn!r}")
        if state.trace is not None:  # the locks of Variables order the calls of compiled functions
            return fn()
        with self._lock:
            return fn()


@export("timestamp")
def timestamp(name: str | None = None) -> Tensor:
    """Returns the time in seconds since 1970 as float64. In a ``tf.function``, the time is read whenever it runs.

    >>> import tvtf as tf
    >>> float(tf.timestamp()) > 1.7e9
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/timestamp
    """
    if state.trace is None:
        return convert_to_tensor(time.time(), float64)
    return numpy_function(lambda: time.time(), [], TensorSpec([], float64))
