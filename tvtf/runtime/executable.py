"""Compiled functions: a library on disk, one virtual machine per thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm_ffi

_CPU, _POOLED = 1, 2


class Executable:
    """A loaded library; ``function(name)`` gives this thread's callable for it.

    TVM's virtual machine is not safe under several threads, but a machine over the same code costs only 0.2 ms.
    """

    def __init__(self, path: Path) -> None:
        import tvm  # noqa: F401 - loads the runtime that the library links to

        self.path = path
        self._module = tvm_ffi.load_module(str(path))
        self._local = threading.local()

    def function(self, name: str = "main") -> Callable[..., Any]:
        functions = self._local.__dict__
        found = functions.get(name)
        if found is None:
            found = functions[name] = self._machine()[name]
        return found

    def instrumented(self, instrument: Callable[..., int], name: str = "main") -> Callable[..., Any]:
        """The callable on a machine of its own that tells ``instrument`` of each kernel and builtin, before and after.

        It is called as ``instrument(function, name, before, result, *args)`` and gives 0 to let the call happen.
        """
        machine = self._new_machine()
        machine["set_instrument"](instrument)
        return machine[name]

    def _machine(self) -> Any:
        machine = self._local.__dict__.get(" machine")
        if machine is None:
            machine = self._local.__dict__[" machine"] = self._new_machine()
        return machine

    def _new_machine(self) -> Any:
        machine = self._module["vm_load_executable"]()
        machine["vm_initialization"](_CPU, 0, _POOLED)
        return machine


_forking_thread: list[threading.Thread] = []
"""In a forked child: the thread that went through the fork."""
_function_of_any_thread = Executable.function


def _function_after_fork(self: Executable, name: str = "main") -> Callable[..., Any]:
    """In a forked child, calls of the forking thread go through a thread of the child's own.

    TVM's pool of kernel threads belongs to the thread that calls; the forking thread's died with the fork, and a parallel
    kernel called from there would wait for them for ever.
    """
    if threading.current_thread() is not _forking_thread[0]:
        return _function_of_any_thread(self, name)
    return lambda *args: _caller().submit(lambda: _function_of_any_thread(self, name)(*args)).result()


@lru_cache(maxsize=1)
def _caller() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="tvtf-after-fork")


def _after_fork() -> None:
    _forking_thread[:] = [threading.current_thread()]
    _caller.cache_clear()
    Executable.function = _function_after_fork  # type: ignore[method-assign]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
