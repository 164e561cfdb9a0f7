"""Shared and exclusive locks on folders, between threads and processes; the system releases those of a process that dies.

A forked child does not hold its parent's locks. On a system or network disk without locks nothing is locked.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, where an open file can't be removed anyway
    fcntl = None  # type: ignore[assignment]

Folder = str | os.PathLike[str]
_PAUSE = 0.001


@contextlib.contextmanager
def locked(folder: Folder, seconds: float = math.inf) -> Iterator[bool | None]:
    """Holds an exclusive lock on a folder in a ``with`` block, after all other locks on the folder are released.

    Args:
      folder: an existing folder or file.
      seconds: the timeout; 0 tries once.

    Yields:
      True if the folder is locked, False after a timeout, None if the system or the disk has no locks.

    Raises:
      OSError: the folder can't be opened.
    """
    descriptor = _open(folder)
    try:
        yield None if descriptor is None else _acquire_exclusive(descriptor, seconds)
    finally:
        _close(descriptor)


@contextlib.contextmanager
def shared(folder: Folder) -> Iterator[None]:
    """Holds a shared lock on a folder in a ``with`` block; several threads and processes may hold one at the same time.

    It waits for an exclusive lock to be released. Meanwhile no thread or process acquires an exclusive one.

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


def _acquire_exclusive(descriptor: int, seconds: float) -> bool | None:
    """Acquires an exclusive lock on an open file, with a timeout in seconds.

    Returns True if the file is locked, False after the timeout, and None if the disk has no locks.
    """
    if seconds == math.inf:
        return _flock(descriptor, fcntl.LOCK_EX)
    # `flock` has no timeout, so it is tried in a loop.
    deadline = time.monotonic() + seconds
    while True:
        try:
            return _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(_PAUSE)


def _flock(descriptor: int, operation: int) -> bool | None:
    """Locks an open file by the system call ``flock``. Returns True, or None on a disk without locks.

    Raises:
      BlockingIOError: another process has the lock, and ``operation`` contains ``LOCK_NB``, which means not to wait.
    """
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:  # an OSError, too, but the disk has locks
        raise
    except OSError:  # a network disk, for example, may not implement locks
        return None
    return True


def _open(folder: Folder) -> int | None:
    """Opens a folder or file to lock it, and returns the descriptor, or None on a system without locks."""
    return None if fcntl is None else os.open(folder, os.O_RDONLY)


def _close(descriptor: int | None) -> None:
    """Unlocks and closes a file.

    Closing alone would not unlock the file, because forked children have copies of the descriptor.
    """
    if descriptor is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
