"""The folder of compiled code: made for this user alone, and used only where nobody else can put code into it.

A library is code: whoever may write a file there, or put another folder in its place, runs what they like in this process.
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
_told: set[str] = set()


def trusted_folder() -> Path | None:
    """The cache folder, made if it isn't there; None, with one warning, where it can't be written or trusted."""
    named = cache_folder()
    try:
        home = Path(os.path.realpath(named))
        make_private(home)
        reason = refusal(home)
    except OSError as error:
        reason = f"can't be written ({error})"
    if reason is None:
        return home
    warn_once(named, reason)
    return None


def make_private(folder: Path) -> None:
    """Makes a folder, and those above it that aren't there, for this user alone, whatever the umask."""
    for each in [*reversed(folder.parents), folder]:
        try:
            each.mkdir(_PRIVATE)
        except FileExistsError:
            continue
        each.chmod(_PRIVATE)
    if not folder.is_dir():
        raise FileExistsError(f"[Errno 17] File exists: '{folder}'")


def refusal(folder: Path) -> str | None:
    """Why code in a folder isn't trusted; None where it is. Windows has other rules, and no other users by default."""
    if not hasattr(os, "geteuid"):
        return None
    return next(_refusals(folder), None)


def _refusals(folder: Path) -> Iterator[str]:
    for each in [folder, *folder.parents]:
        status = each.stat()
        if status.st_uid not in (os.geteuid(), _ROOT):
            yield f"is not trusted: {each} belongs to another user (uid {status.st_uid})"
        is_shared = status.st_mode & _OTHERS and (each == folder or not status.st_mode & stat.S_ISVTX)
        if is_shared:
            yield f"is not trusted: other users may write to {each} (mode {stat.S_IMODE(status.st_mode):o}); chmod go-w it"


def warn_once(folder: Path, reason: str) -> None:
    """Says that compiled code is not kept, once for each folder and reason."""
    text = f"compiled code is not kept: the cache folder {folder} {reason}. Set TVTF_CACHE_DIR to a folder of your own"
    if text not in _told:
        _told.add(text)
        warnings.warn(text, stacklevel=2)
