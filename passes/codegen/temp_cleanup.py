"""Temporary folders and files of compilations, and the removal of those whose process was killed.

The process that writes one holds a file lock on it, which ends with the process: what isn't locked is a leftover.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tvtf.fileio.folder_locks import locked

PREFIX = "tvtf-scratch-"
_UNLOCKED_ONCE = ("tvtf-build-", "tvtf-pool-", "tvtf-cuda-", "tvtf-tune-")
"""Prefixes of folders made by earlier versions, which held no locks: they are left alone for a day."""
_DAY = 86400.0


@contextmanager
def locked_folder(home: str | Path) -> Iterator[Path]:
    """Creates a locked folder in `home`, and yields its path; the folder is removed at the end of the context.

    The lock ends with the process. An unlocked folder therefore belongs to a process that was killed.
    """
    with contextlib.ExitStack() as cleanup:
        folder = _new_locked(lambda: tempfile.mkdtemp(prefix=PREFIX, dir=home), cleanup)
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def write_whole(path: Path, content: bytes, home: Path) -> None:
    """Writes a file so that other processes see either all of it or nothing.

    It is written under a temporary name, with a lock that ends with the process, and then renamed.

    Args:
      path: the file.
      content: its bytes.
      home: the folder of the temporary file, on the disk of ``path``, whose leftovers `remove_leftovers` removes.
    """

    def create() -> str:
        """Creates an empty temporary file, and returns its path."""
        descriptor, name = tempfile.mkstemp(prefix=PREFIX, dir=home)
        os.close(descriptor)
        return name

    with contextlib.ExitStack() as cleanup:
        temporary = _new_locked(create, cleanup)
        cleanup.callback(temporary.unlink, missing_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)


def _new_locked(create: Callable[[], str], cleanup: contextlib.ExitStack) -> Path:
    """Creates a temporary file or folder, and locks it until ``cleanup`` ends; returns its path.

    Before it is locked, another process may remove it as a leftover. Then another one is created.
    """
    while True:
        path = Path(create())
        with contextlib.suppress(FileNotFoundError):
            cleanup.enter_context(locked(path))
            if path.exists():
                return path


def remove_leftovers(home: str | Path, prefix: str = PREFIX) -> None:
    """Removes this user's temporary files and folders in `home` that no running process has locked."""
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            if entry.name.startswith((prefix, *_UNLOCKED_ONCE)):
                _remove_if_left(Path(entry.path), entry.name.startswith(prefix))


def _remove_if_left(path: Path, uses_locks: bool) -> None:
    """Removes a temporary file or folder of this user that a killed process has left.

    Args:
      path: the file or folder.
      uses_locks: whether processes lock files of this name while they run. Other files are removed after a day.
    """
    with contextlib.suppress(OSError):
        stat = path.lstat()
        is_own = stat.st_uid == os.geteuid() and not path.is_symlink()
        is_recent = time.time() - stat.st_mtime < _DAY
        if not is_own or (not uses_locks and is_recent):
            return
        with locked(path, seconds=0) as is_unused:
            if is_unused is not False:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
