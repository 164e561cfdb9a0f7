"""Strings in compiled code: integer handles into a table that lasts for one call.

Compiled code only copies the handles. Ops that read strings are NumPy kernels, which convert handles back to strings.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class _Calls(threading.local):
    """The string tables of this thread's calls, the innermost call last. In each table handle 0 is the empty string."""

    def __init__(self) -> None:
        self.tables: list[list[bytes]] = []


_calls = _Calls()


@contextmanager
def string_table() -> Iterator[None]:
    """Opens a table of strings for a call of compiled code. Handles are valid inside the ``with`` block."""
    _calls.tables.append([b""])
    try:
        yield
    finally:
        _calls.tables.pop()


def handles_of(array: np.ndarray) -> np.ndarray:
    """Adds an array of strings to the current call's string table and returns an int64 array of their handles.

    A handle is an index into the table. Compiled code passes handles in place of strings, which TVM doesn't have.

    >>> with string_table():
    ...     strings_of(handles_of(np.array([b"a", b"b"], object)))
    array([b'a', b'b'], dtype=object)
    """
    table = _calls.tables[-1]
    first_handle = len(table)
    table.extend(array.ravel().tolist())
    return np.arange(first_handle, len(table), dtype=np.int64).reshape(array.shape)


def strings_of(handles: np.ndarray) -> np.ndarray:
    """Converts handles from `handles_of` back to an object array of strings."""
    table = _calls.tables[-1]
    strings = np.empty(handles.shape, object)
    strings.reshape(-1)[:] = [table[handle] for handle in handles.ravel().tolist()]
    return strings
