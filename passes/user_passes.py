"""Passes that users add to the compiler, apart from it: a call whose code is in the cache names them, but compiles nothing."""

from __future__ import annotations

from collections.abc import Callable

import tvm

Pass = Callable[[tvm.IRModule], tvm.IRModule]

user_passes: list[tuple[str, Pass]] = []
"""Passes that users added to the dialect part of the pipeline, with their names."""


def add_pass(name: str, run: Pass) -> Pass:
    """Adds a pass to the compiler, and returns the pass.

    The pass runs on the module of each function that is compiled from now on. It is the first phase of the compiler, so
    the module has ops of the tvtf dialect only.

    Args:
      name: the name of the pass, by which `remove_pass` removes it.
      run: a function from the module to the new module.

    >>> from tvtf import passes
    >>> _ = passes.add_pass("nothing", lambda mod: mod)
    >>> passes.remove_pass("nothing")
    """
    user_passes.append((name, run))
    return run


def remove_pass(name: str) -> None:
    """Removes a pass that :func:`add_pass` added."""
    user_passes[:] = [(other, run) for other, run in user_passes if other != name]
