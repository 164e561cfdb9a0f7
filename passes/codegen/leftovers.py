"""Temporary folders and files of compilations, and the removal of those whose process was killed.

Who writes one holds a lock of the file system on it, which ends with its process: what nobody holds is a leftover.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows doesn't let go of a file that is open
    fcntl = None  # type: ignore[assignment]

PREFIX = "tvtf-scratch-"
_UNLOCKED_ONCE = ("tvtf-build-", "tvtf-pool-", "tvtf-cuda-", "tvtf-tune-")
"""Folders of earlier versions, which held no locks: they are left for a day."""
_DAY = 86400.0


@contextmanager
def locked_folder(home: str | Path) -> Iterator[Path]:
    """A new folder in `home`, held until it is removed at the end."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home))
        descriptor = os.open(folder, os.O_RDONLY)
        hold(descriptor)
        if folder.is_dir():  # nobody took it for a leftover before it was held
            break
        os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def hold(descriptor: int, wait: bool = True) -> None:
    """Locks an open file or folder until it is closed; without `wait`, raises BlockingIOError if another process holds it."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def remove_leftovers(home: str | Path, prefix: str = PREFIX) -> None:
    """Removes this user's temporary files and folders in `home` that no living process holds."""
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            if entry.name.startswith((prefix, *_UNLOCKED_ONCE)):
                _remove_if_left(Path(entry.path), entry.name.startswith(prefix))


def _remove_if_left(path: Path, locks: bool) -> None:
    with contextlib.suppress(OSError):
        stat = path.lstat()
        is_ours = stat.st_uid == os.geteuid() and not path.is_symlink()
        if not is_ours or (not locks and time.time() - stat.st_mtime < _DAY):
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            hold(descriptor, wait=False)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(descriptor)
