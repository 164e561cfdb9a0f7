"""The cache folder of compiled code: private to the user, and used only if no other user can write to it.

Libraries are code: a user who can write a file there, or replace the folder, could run any code in this process.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

from tvtf.core.thread_state import cache_folder

_PRIVATE = 0o700
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0
_warned: set[str] = set()


def trusted_folder() -> Path | None:
    """Returns the folder of the disk cache, created if it is missing.

    Warns once and returns None if the folder can't be written, or if other users could put code into the folder.
    """
    configured = cache_folder()
    try:
        cache_dir = Path(os.path.realpath(configured))
        make_private(cache_dir)
        reason = unsafe_reason(cache_dir)
    except OSError as error:
        reason = f"can't be written ({error})"
    if reason is None:
        return cache_dir
    warn_once(configured, reason)
    return None


def make_private(folder: Path) -> None:
    """Creates a folder and its missing parents with access for this user only, whatever the umask."""
    if folder.is_dir():
        return
    for ancestor in [*reversed(folder.parents), folder]:
        try:
            ancestor.mkdir(_PRIVATE)
        except FileExistsError:
            continue
        ancestor.chmod(_PRIVATE)  # `mkdir` subtracts the umask
    if not folder.is_dir():
        raise FileExistsError(f"[Errno 17] File exists: '{folder}'")


def unsafe_reason(folder: Path) -> str | None:
    """Returns why code in a folder must not be loaded, or None. Not checked on Windows, which has other access rules."""
    if not hasattr(os, "geteuid"):
        return None
    return next(_unsafe_reasons(folder), None)


def _unsafe_reasons(folder: Path) -> Iterator[str]:
    """Yields the reasons why other users could write to a folder, or replace one above it."""
    for ancestor in [folder, *folder.parents]:
        status = ancestor.stat()
        if status.st_uid not in (os.geteuid(), _ROOT):
            yield f"is not trusted: {ancestor} belongs to another user (uid {status.st_uid})"
        # Where the sticky bit is set, as in /tmp, users can't replace each other's folders.
        is_shared = status.st_mode & _OTHERS and (ancestor == folder or not status.st_mode & stat.S_ISVTX)
        if is_shared:
            yield f"is not trusted: other users may write to {ancestor} (mode {stat.S_IMODE(status.st_mode):o}); chmod go-w it"


def warn_once(folder: Path, reason: str) -> None:
    """Warns that compiled code is not cached, once for each folder and reason."""
    text = f"compiled code is not kept: the cache folder {folder} {reason}. Set TVTF_CACHE_DIR to a folder of your own"
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=2)
