"""What is active in this thread (trace, tapes, device), and the debug dials of the process."""

from __future__ import annotations

import contextvars
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np


class ThreadState(threading.local):
    """Slots that the rooms above the core fill: the core never imports them."""

    def __init__(self) -> None:
        self.trace: Any = None
        self.tapes: list[Any] = []
        self.observers: list[Any] = []  # told of every op, eager or traced, as tapes are
        self.batches: int = 0
        self.one_by_one: tuple[bool, bool] = True, False  # whether a map may do an op by elements, and says so
        self.name_scopes: list[str] = []
        self.creators: list[Any] = []
        self.variable_class: Any = None  # what tf.Variable(...) makes, where a strategy says it
        self.device: str | None = None
        self.effects: Any = None  # what a call of compiled code has done so far, where it may have to be called again
        self.released_for_python: list[Any] = []  # the locks of calls of compiled code, which Python is called without
        self.unassignable: list[list[Any]] = []  # Variables that Python which compiled code calls may not assign
        self.depth = 0  # calls of Python by compiled code, one within the other
        self.compiling: bool = False  # whether passes run: what they bind stands in no line of the user's
        self.quiet = _quiet_numpy()


def _quiet_numpy() -> contextvars.Context:
    """A context in which NumPy does not warn of overflow or division: TensorFlow's kernels don't either.

    Entering it costs 0.1 us where ``with np.errstate()`` costs 0.6.
    """
    quiet = contextvars.copy_context()
    quiet.run(np.seterr, all="ignore")
    return quiet


state = ThreadState()


def executing_eagerly() -> bool:
    """True outside every trace.

    >>> executing_eagerly()
    True
    """
    return state.trace is None


class Dials:
    """The environment switches of the README's debug page, read once; tests set them as attributes."""

    def __init__(self) -> None:
        self.debug = int(os.environ.get("TVTF_DEBUG", "0") or 0)
        self.dump = os.environ.get("TVTF_DUMP", "")
        self.verify = os.environ.get("TVTF_VERIFY", "0") not in ("", "0")
        self.check = self.verify or os.environ.get("TVTF_CHECK", "0") not in ("", "0")


dials = Dials()


def cache_folder() -> Path:
    """Where compiled code is kept: TVTF_CACHE_DIR, else ``tvtf`` in the user's cache folder."""
    named = os.environ.get("TVTF_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(named) if named else Path(base) / "tvtf"


class Precision:
    """The 16-bit type that functions traced from now on compute products in, or None for their own."""

    def __init__(self) -> None:
        self.compute: str | None = None


precision = Precision()
