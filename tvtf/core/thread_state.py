"""The state of the current thread (active trace, tapes, device), and the debug settings of the process."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


class ThreadState(threading.local):
    """Per-thread state of upper layers, which set it: the core never imports them."""

    def __init__(self) -> None:
        """Creates the initial state of a thread, at the thread's first use of it."""
        self.trace: Any = None  # the active trace; None while ops run eagerly
        self.tapes: list[Any] = []
        self.observers: list[Any] = []  # called for every op, eager or traced, as tapes are
        self.batches: int = 0  # the nesting depth of vectorized maps
        # Whether a map may loop over elements for an op, and warns of it.
        self.one_by_one: tuple[bool, bool] = (True, False)
        self.name_scopes: list[str] = []
        self.variables_allowed: Any = None  # says whether the function that is traced may create Variables
        self.creators: list[Any] = []  # of tf.variable_creator_scope, the innermost last
        # The class that tf.Variable(...) creates, where a distribution strategy sets it.
        self.variable_class: Any = None
        self.device: str | None = None
        self.effects: Any = None  # what a compiled call has done so far, where it may have to run again
        self.released_for_python: list[Any] = []  # locks of compiled calls that are released while they call Python
        # Variables that Python called by compiled code must not assign, by running function, and those that barriers mustn't
        self.unassignable: list[Sequence[Any]] = []
        self.unassignable_in_barriers: list[Sequence[Any]] = []
        self.depth = 0  # nesting depth of Python called by compiled code
        self.compiling: bool = False  # whether passes run: ops that they bind have no line of the user's
        self.infers_type: bool = False  # whether TVM infers the type of a call that is in the program already
        self.line_numbers: Any = None  # what stands for the user's lines in the code that is being compiled
        self.quiet = _quiet_numpy()


def _quiet_numpy() -> contextvars.Context:
    """Returns a ``contextvars`` context in which NumPy does not warn of overflow or division by zero.

    TensorFlow's ops don't warn either. To run a kernel by ``context.run`` takes 0.1 us, ``with np.errstate()`` 0.6 us.
    """
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context


state = ThreadState()


def executing_eagerly() -> bool:
    """Returns whether ops run at once, in Python: True outside of every trace.

    >>> executing_eagerly()
    True
    """
    return state.trace is None


class DebugSettings:
    """The debug settings from environment variables, read once at import; tests set the attributes."""

    def __init__(self) -> None:
        self.debug = int(os.environ.get("TVTF_DEBUG", "0") or 0)
        self.dump = os.environ.get("TVTF_DUMP", "")
        self.verify = os.environ.get("TVTF_VERIFY", "0") not in ("", "0")
        self.check = self.verify or os.environ.get("TVTF_CHECK", "0") not in ("", "0")


debug_settings = DebugSettings()


def cache_folder() -> Path:
    """Returns the folder in which compiled code is cached.

    This is TVTF_CACHE_DIR if it is set, else the folder ``tvtf`` in the user's folder for caches.
    """
    configured = os.environ.get("TVTF_CACHE_DIR")
    if configured:
        return Path(configured)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(caches) / "tvtf"


class Precision:
    """The mixed-precision setting: the 16-bit dtype in which functions traced from now on compute products, or None."""

    def __init__(self) -> None:
        self.compute: str | None = None


precision = Precision()


@contextmanager
def outside_of_functions() -> Iterator[None]:
    """A context in which a Variable of tvtf's own is created, eagerly and not as one of the function that is traced."""
    before = state.trace, state.variables_allowed
    state.trace, state.variables_allowed = None, None
    try:
        yield
    finally:
        state.trace, state.variables_allowed = before
