"""Keeps daemon threads out of compiled code, traces and the compiler while the interpreter shuts down.

Until Python 3.14 a daemon thread that wants the interpreter back after shutdown is ended by ``pthread_exit``. TVM's C++ frames
can't be unwound by it: "terminate called without an active exception", SIGABRT. So at exit threads inside are waited for,
and a thread that is about to enter sleeps until the process ends. The entry methods are replaced only then, so that calls
cost nothing before.

Source: https://docs.python.org/3/c-api/init.html (thread states, "Cautions regarding runtime finalization")
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

from tvtf.core.thread_state import state

MAX_SECONDS = 30.0
"""How long to wait for threads inside. After that, such as for an endless loop, the process may end by SIGABRT."""
_INSIDE = (
    *("tvtf.runtime.", "tvtf.passes.", "tvtf.frontend.", "tvtf.ir.", "tvtf.saved.", "tvtf.onnx."),
    *("tvm.", "tvm_ffi."),
)
"""Prefixes of modules whose functions call into C++."""
_entries: list[tuple[type, str]] = []


def entered_by(owner: type, name: str) -> None:
    """Registers a method through which threads enter compiled code or a trace."""
    _entries.append((owner, name))


@atexit.register
def block_threads_at_exit() -> None:
    """Stops other threads from entering compiled code at exit, and waits for those that are inside."""
    for owner, name in _entries:
        setattr(owner, name, _closed_to_other_threads(getattr(owner, name)))
    deadline = time.monotonic() + MAX_SECONDS
    while any(map(_is_inside, _frames_of_other_threads())) and time.monotonic() < deadline:
        time.sleep(0.001)


def _closed_to_other_threads(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method so that only the current thread, and threads inside of compiled code, can call it.

    Another thread that calls it sleeps until the process ends. A daemon thread that compiles or runs code while the
    interpreter shuts down would crash the process.
    """
    exiting_thread = threading.get_ident()

    @wraps(method)
    def enter(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != exiting_thread and not state.depth:
            _wait_for_the_end()
        return method(*args, **kwargs)

    return enter


def _wait_for_the_end() -> None:
    while True:
        time.sleep(3600.0)


def _frames_of_other_threads() -> list[FrameType]:
    return [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]


def _is_inside(frame: FrameType | None) -> bool:
    """Returns whether a thread is inside compiled code or the compiler, given the innermost frame of its stack.

    A thread is inside if the stack has a frame of a module in ``_INSIDE``. A thread in `_wait_for_the_end` is not.
    """
    if frame is not None and frame.f_code is _wait_for_the_end.__code__:
        return False
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(_INSIDE):
            return True
        frame = frame.f_back
    return False
