"""Imports TVM faster: it takes most of a program's start-up time."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tvtf.core.variable_lock import Lock

AUTOLOAD = "TVM_DEVICE_BACKEND_AUTOLOAD"
"""TVM's switch for importing every backend; ``target.cuda_target`` loads the one it needs."""


def load_tvm() -> None:
    """Imports TVM once, without its backends and with garbage collection off.

    The import takes most of a program's start-up time; `target.cuda_target` loads the backend that it needs.
    """
    if _Loaded.is_complete:
        return
    with _Loaded.lock, without_interrupts():
        environment_value = os.environ.get(AUTOLOAD)
        os.environ.setdefault(AUTOLOAD, "0")
        try:
            with without_collection(), _without_module("tvm.runtime.disco"):
                importlib.import_module("tvm")
        finally:
            if environment_value is None:
                del os.environ[AUTOLOAD]
        _Loaded.is_complete = True


@contextmanager
def _without_module(name: str) -> Iterator[None]:
    """Makes imports of a module fail at once in a block, unless it is imported already.

    TVM tries to import its runtime for several machines, and goes on without, as its library isn't loaded yet. That attempt
    takes 0.14 s: TVM's error records a stack trace, for which the debug information of its libraries is read.
    """
    is_missing = name not in sys.modules
    if is_missing:
        sys.modules[name] = None  # type: ignore[assignment] # with None as its entry Python doesn't import a module
    try:
        yield
    finally:
        if is_missing:
            del sys.modules[name]


class _Loaded:
    is_complete = False
    lock = Lock()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Delays Ctrl-C to the end of a block that can't be interrupted and repeated, such as TVM's import.

    TVM's modules register types and functions with its library, which is possible only once in a process.
    """
    # Only the main thread may set handlers of signals, and gets them.
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is None or not callable(handler):
        yield
        return
    interrupts: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda *arguments: interrupts.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if interrupts:
        handler(*interrupts[-1])


def import_whole(name: str) -> ModuleType:
    """Imports a module with Ctrl-C delayed to the end of the import.

    An exception out of a signal handler inside Python's import system may leave its lock taken, which a signal during a
    garbage collection of 0.1 s makes likely: then imports in other threads, such as those that compile, never return.
    """
    with without_interrupts():
        return importlib.import_module(name)


@contextmanager
def without_collection() -> Iterator[None]:
    """Turns Python's garbage collection off in a block that allocates many objects.

    It is for objects that all stay alive, such as those of an import: collections would take time and free nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
