"""The lines of the user's program that bindings of the IR come from: found on the stack, past tvtf's own code."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tvm import ir

from tvtf.core.thread_state import state


def _own_folders() -> tuple[str, ...]:
    """Returns the folders of tvtf's own code. :func:`user_span` skips the stack frames of functions in them."""
    # "malt" is AutoGraph's transpiler.
    packages = ("tvtf", "tvtf.passes", "tvtf.frontend", "malt")
    specs = [importlib.util.find_spec(package) for package in packages]
    return tuple(os.path.dirname(spec.origin) + os.sep for spec in specs if spec and spec.origin)


_OWN_FOLDERS = _own_folders()


lines_of_generated_code: dict[str, dict[int, tuple[str, int]]] = {}
"""By file of generated code: generated line -> the user's file and line. AutoGraph fills it."""


def is_own_code(path: str) -> bool:
    """Returns whether a file belongs to tvtf or to the AutoGraph library that runs user code."""
    return path.startswith(_OWN_FOLDERS)


@contextmanager
def compiling() -> Iterator[None]:
    """Marks a ``with`` block as compilation: ops that passes add there have no line of the user's program.

    The user's stack frame then only shows where compiled code was first needed.
    """
    outer, state.compiling = state.compiling, True
    try:
        yield
    finally:
        state.compiling = outer


def user_span() -> ir.Span:
    """Returns the file and line of the user's program that runs now: those of the innermost stack frame outside tvtf."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FOLDERS):
        frame = frame.f_back
    path, line = _user_line(frame.f_code.co_filename, frame.f_lineno)
    return ir.Span(_source_name(path), line, line, 0, 0)


def _user_line(path: str, line: int) -> tuple[str, int]:
    """Maps a line of generated code to the user's file and line, by the nearest mapped line at or before it."""
    lines = lines_of_generated_code.get(path)
    if lines is None:
        return path, line
    mapped_before = [n for n in lines if n <= line]
    return lines[max(mapped_before)] if mapped_before else (path, line)


_sources: dict[str, ir.SourceName] = {}


def _source_name(path: str) -> ir.SourceName:
    """Returns TVM's object for a file's name, one object for each name."""
    known = _sources.get(path)
    if known is None:
        known = _sources[path] = ir.SourceName(path)
    return known
