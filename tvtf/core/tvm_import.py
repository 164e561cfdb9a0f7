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
    """Imports TVM once, without its backends and with garbage collection off, as the import slows a program's start.

    `target.cuda_target` loads the backend that it needs.
    """
    if _Loaded.is_complete:
        return
    with _Loaded.lock, without_interrupts():
        # TVM reads the variable when it is imported; afterwards the variable is as the user set it.
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
    """Makes imports of a module fail at once in a ``with`` block, unless the module is imported already.

    TVM tries to import ``tvm.runtime.disco``, its runtime for several machines. This fails, because TVM's library isn't
    loaded yet, and TVM goes on without. The attempt would take 0.14 s: the error records a stack trace, which reads the
    debug information of TVM's libraries.
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
    """Whether TVM is imported, and the lock that a thread holds while it imports TVM."""

    is_complete = False
    lock = Lock()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Delays Ctrl-C to the end of a ``with`` block. The block can't be interrupted and repeated, as TVM's import can't.

    TVM's modules register types and functions with TVM's library, which is possible only once in a process.
    """
    # Python runs signal handlers in the main thread, and only this thread may set them.
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is None or not callable(handler):  # another thread, or Ctrl-C has no handler in Python
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

    Ctrl-C may raise an exception inside Python's import system, most likely during a garbage collection, which takes 0.1 s.
    The import lock may stay locked then, and imports in other threads never return, such as those in threads that compile.
    """
    module = _whole.get(name)
    if module is None:
        with without_interrupts():
            module = _whole[name] = importlib.import_module(name)
    return module


_whole: dict[str, ModuleType] = {}
"""The modules that `import_whole` has imported. To delay Ctrl-C takes 10 us, and code of each call path imports by it."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Turns Python's garbage collection off in a ``with`` block that allocates many long-lived objects, such as an import.

    Collections would take time there and free nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
