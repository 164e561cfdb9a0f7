"""Daemon threads at the end of a process: none is inside compiled code, a trace or the compiler when the interpreter goes.

Until Python 3.14 a daemon thread that wants the interpreter back after that is ended by ``pthread_exit``, whose unwinding C++
frames of TVM refuse: "terminate called without an active exception", SIGABRT. So at exit a thread that is about to enter
waits for the end instead, and those inside are waited for. Calls cost nothing for it: what they enter by is replaced then.

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

MOST_SECONDS = 30.0
"""A thread that is longer inside, in an endless loop, is not waited for: the process may end by a signal then."""
_INSIDE = (
    *("tvtf.runtime.", "tvtf.passes.", "tvtf.frontend.", "tvtf.ir.", "tvtf.saved.", "tvtf.onnx."),
    *("tvm.", "tvm_ffi."),
)
"""Modules whose functions call into C++, or make a trace, each of whose ops does."""
_entries: list[tuple[type, str]] = []


def entered_by(owner: type, name: str) -> None:
    """Declares a method by which every thread enters compiled code or a trace."""
    _entries.append((owner, name))


@atexit.register
def settle() -> None:
    """Keeps other threads from entering, and waits for those inside."""
    for owner, name in _entries:
        setattr(owner, name, _closed(getattr(owner, name)))
    end = time.monotonic() + MOST_SECONDS
    while any(map(_is_inside, _others())) and time.monotonic() < end:
        time.sleep(0.001)


def _closed(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method for the thread that ends the process, and for who is inside already; others wait for the end."""
    last = threading.get_ident()

    @wraps(method)
    def enter(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != last and not state.depth:
            _wait_for_the_end()
        return method(*args, **kwargs)

    return enter


def _wait_for_the_end() -> None:
    while True:
        time.sleep(3600.0)


def _others() -> list[FrameType]:
    return [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]


def _is_inside(frame: FrameType | None) -> bool:
    """Whether a thread runs in C++, or will come back to it; one that waits for the end in `_wait_for_the_end` does not."""
    if frame is not None and frame.f_code is _wait_for_the_end.__code__:
        return False
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(_INSIDE):
            return True
        frame = frame.f_back
    return False
