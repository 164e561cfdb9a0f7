"""Importing TVM, which takes most of the time in which a program starts: without what nobody asked for."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvtf.core.variable_lock import Lock

AUTOLOAD = "TVM_DEVICE_BACKEND_AUTOLOAD"
"""TVM's switch for importing the code of every backend it knows; ``target.cuda_target`` loads the one it needs."""


def load_tvm() -> None:
    """Imports TVM, if that was not done: without its backends, and without looking for garbage where there is none yet."""
    if _Loaded.whole:
        return
    with _Loaded.lock, without_interrupts():
        asked = os.environ.get(AUTOLOAD)
        os.environ.setdefault(AUTOLOAD, "0")
        try:
            with without_collection():
                importlib.import_module("tvm")
        finally:
            if asked is None:
                del os.environ[AUTOLOAD]
        _Loaded.whole = True


class _Loaded:
    whole = False
    lock = Lock()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C within raises KeyboardInterrupt at the end: for what can't be done again once it was begun, as TVM's import.

    TVM's modules register types and functions with its library, once in a process.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is None or not callable(handler):
        yield
        return
    came: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda *details: came.append(details))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(*came[-1])


@contextmanager
def without_collection() -> Iterator[None]:
    """Python doesn't look for garbage within: where much is made and kept, it looks in vain, again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
