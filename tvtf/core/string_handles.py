"""Strings in compiled code: numbers, under which this process keeps them while a call lasts.

Compiled code moves the numbers about; what looks at strings is computed by NumPy kernels, which get them back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class _Calls(threading.local):
    """The strings of the calls that this thread is in, the innermost last; number 0 is the empty string."""

    def __init__(self) -> None:
        self.kept: list[list[bytes]] = []


_calls = _Calls()


@contextmanager
def kept() -> Iterator[None]:
    """Keeps what `numbers_of` is given until the end of a call."""
    _calls.kept.append([b""])
    try:
        yield
    finally:
        _calls.kept.pop()


def numbers_of(array: np.ndarray) -> np.ndarray:
    """An int64 array of the same shape.

    >>> with kept():
    ...     texts_of(numbers_of(np.array([b"a", b"b"], object)))
    array([b'a', b'b'], dtype=object)
    """
    texts = _calls.kept[-1]
    first = len(texts)
    texts.extend(array.ravel().tolist())
    return np.arange(first, len(texts), dtype=np.int64).reshape(array.shape)


def texts_of(numbers: np.ndarray) -> np.ndarray:
    """The object array of bytes that `numbers_of` was given."""
    texts = _calls.kept[-1]
    found = np.empty(numbers.shape, object)
    found.reshape(-1)[:] = [texts[number] for number in numbers.ravel().tolist()]
    return found
