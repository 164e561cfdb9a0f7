"""The lines of the user's program that bindings of the IR come from: found on the stack, past tvtf's own code."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tvm import ir

from tvtf.core.thread_state import state

PROGRAMS = "tvtf.models"
"""A part of this package that is written like user code: its loops over tensors are converted, its lines are shown."""


def _folders(*packages: str) -> tuple[str, ...]:
    """Returns the folders of packages."""
    specs = [importlib.util.find_spec(package) for package in packages]
    return tuple(os.path.dirname(spec.origin) + os.sep for spec in specs if spec and spec.origin)


_OWN_FOLDERS = _folders("tvtf", "tvtf.passes", "tvtf.frontend", "malt")  # "malt" is AutoGraph's transpiler
_FOLDERS_OF_PROGRAMS = _folders(PROGRAMS)


@functools.cache
def is_own_code(path: str) -> bool:
    """Returns whether a file belongs to tvtf or to the AutoGraph library that runs user code."""
    return path.startswith(_OWN_FOLDERS) and not path.startswith(_FOLDERS_OF_PROGRAMS)


@contextmanager
def compiling() -> Iterator[None]:
    """Marks a ``with`` block as compilation: ops that passes add there have no line of the user's program.

    The user's stack frame then only shows where compiled code was first needed.
    """
    outer = state.compiling
    state.compiling = True
    try:
        yield
    finally:
        state.compiling = outer


def user_span() -> ir.Span:
    """Returns the file and line of the user's program that runs now: those of the innermost stack frame outside tvtf."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own_code(frame.f_code.co_filename):
        frame = frame.f_back
    line = frame.f_lineno
    return ir.Span(_source_name(frame.f_code.co_filename), line, line, 0, 0)


_sources: dict[str, ir.SourceName] = {}


def _source_name(path: str) -> ir.SourceName:
    """Returns TVM's object for a file's name, one object for each name."""
    known = _sources.get(path)
    if known is None:
        known = _sources[path] = ir.SourceName(path)
    return known
