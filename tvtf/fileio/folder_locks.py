"""Locks on folders, between threads and processes: a process that dies lets go of them.

A forked child has none of them: its parent's end when the parent lets go. Where the system or a network disk has no locks,
nobody waits.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows doesn't let go of a file that is open
    fcntl = None  # type: ignore[assignment]

Folder = str | os.PathLike[str]
_PAUSE = 0.001


@contextlib.contextmanager
def locked(folder: Folder, seconds: float = math.inf) -> Iterator[bool | None]:
    """Waits for a folder until nobody else has it, shared or not.

    Args:
      folder: one that is there, or a file.
      seconds: how long to wait; 0 asks once.

    Yields:
      Whether it is locked now; None where there are no locks.

    Raises:
      OSError: the folder can't be opened.
    """
    descriptor = _open(folder)
    try:
        yield None if descriptor is None else _is_taken(descriptor, seconds)
    finally:
        _close(descriptor)


@contextlib.contextmanager
def shared(folder: Folder) -> Iterator[None]:
    """Has those wait who want a folder for themselves, and waits for them; any number may share it.

    Raises:
      OSError: the folder can't be opened.
    """
    descriptor = _open(folder)
    try:
        if descriptor is not None:
            _flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        _close(descriptor)


def _is_taken(descriptor: int, seconds: float) -> bool | None:
    if seconds == math.inf:
        return _flock(descriptor, fcntl.LOCK_EX)
    end = time.monotonic() + seconds
    while True:
        try:
            return _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(_PAUSE)


def _flock(descriptor: int, operation: int) -> bool | None:
    """True, or None on a disk that has no locks.

    Raises:
      BlockingIOError: another has it.
    """
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        raise
    except OSError:
        return None
    return True


def _open(folder: Folder) -> int | None:
    return None if fcntl is None else os.open(folder, os.O_RDONLY)


def _close(descriptor: int | None) -> None:
    """Lets go for forked children, too, which have a copy of the descriptor."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
