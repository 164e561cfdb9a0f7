"""The bound on compiled code that is kept on disk: what was not used for longest goes first."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "TVTF_CACHE_SIZE"
"""The environment variable that sets the bound."""
DEFAULT: Final = 2 * 10**9
MOST_FILES: Final = 20_000
"""However small they are: a folder of more is slow to look through."""
_LEFT: Final = 0.9
"""The part of the bound that is kept when it is passed, so that not every new file looks through the folder."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def max_cache_bytes() -> int:
    """The most bytes of compiled code that are kept on disk; 0 keeps none.

    >>> max_cache_bytes()
    2000000000

    Raises:
      ValueError: the environment variable holds no size such as 500MB or 2GB.
    """
    told = os.environ.get(VARIABLE, "").strip()
    if not told:
        return DEFAULT
    found = _SIZE.fullmatch(told)
    if found is None:
        raise ValueError(f"{VARIABLE} must be a number of bytes, or a size such as 500MB or 2GB, got {told!r}")
    return int(float(found[1]) * _UNITS[found[2].upper()])


class File(NamedTuple):
    """A kept file: when it was last used, what it takes on the disk, and where it lies."""

    used: float
    size: int
    path: Path


def files_of(*folders: Path) -> list[File]:
    """The libraries in folders, oldest use first."""
    found = []
    for folder in folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process removed it
                    if entry.name.endswith(".so") and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found.append(File(status.st_mtime, status.st_size, Path(entry.path)))
    return sorted(found)


def evict(files: list[File], most_bytes: int, most_files: int = MOST_FILES) -> int:
    """Removes files, oldest use first, if they take more than the bound; gives the bytes that are left."""
    left, count = sum(f.size for f in files), len(files)
    if left <= most_bytes and count <= most_files:
        return left
    for file in files:
        if left <= most_bytes * _LEFT and count <= most_files * _LEFT:
            break
        file.path.unlink(missing_ok=True)
        left, count = left - file.size, count - 1
    return left
