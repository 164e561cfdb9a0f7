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


def numbers_of(array: np.ndarray) -> np.ndarray:
    """Adds an array of strings to the current call's string table and returns an int64 array of their handles.

    A handle is an index into the table. Compiled code passes handles in place of strings, which TVM doesn't have.

    >>> with string_table():
    ...     texts_of(numbers_of(np.array([b"a", b"b"], object)))
    array([b'a', b'b'], dtype=object)
    """
    table = _calls.tables[-1]
    first_handle = len(table)
    table.extend(array.ravel().tolist())
    return np.arange(first_handle, len(table), dtype=np.int64).reshape(array.shape)


def texts_of(numbers: np.ndarray) -> np.ndarray:
    """Converts handles from `numbers_of` back to an object array of strings."""
    table = _calls.tables[-1]
    strings = np.empty(numbers.shape, object)
    strings.reshape(-1)[:] = [table[number] for number in numbers.ravel().tolist()]
    return strings
