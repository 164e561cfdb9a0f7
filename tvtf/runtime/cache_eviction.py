"""The size limit of the disk cache of compiled code, and eviction of the least recently used libraries."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "TVTF_CACHE_SIZE"
"""The environment variable that sets the size limit."""
DEFAULT: Final = 2 * 10**9
MAX_FILES: Final = 20_000
"""The maximum number of files, whatever their size: larger folders are slow to list."""
LIBRARY: Final = ".so"
OBJECT: Final = ".o"
"""Suffixes of libraries, and of the object code of single kernels."""
_REMAINING_FRACTION: Final = 0.9
"""The fraction of the limit that eviction leaves, so that not every new file causes another listing of the folder."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def max_cache_bytes() -> int:
    """Returns the size limit of the disk cache in bytes, which an environment variable may set; 0 turns the cache off.

    >>> max_cache_bytes()
    2000000000

    Raises:
      ValueError: the environment variable is not a size such as 500MB or 2GB.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{VARIABLE} must be a number of bytes, or a size such as 500MB or 2GB, got {text!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


class File(NamedTuple):
    """A cached library or kernel: the time of its last use, its size in bytes, and its path."""

    used: float
    size: int
    path: Path


def files_of(*folders: Path) -> list[File]:
    """Lists the cached libraries and kernels in folders with their sizes, least recently used first."""
    files = []
    for folder in folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process removed it
                    if entry.name.endswith((LIBRARY, OBJECT)) and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        files.append(File(status.st_mtime, status.st_size, Path(entry.path)))
    return sorted(files)


def evict(files: list[File], max_bytes: int, max_files: int = MAX_FILES) -> int:
    """Evicts cached files if their total size or number exceeds a limit.

    Somewhat more than needed is removed: otherwise every later build would evict files again.

    Args:
      files: the cached files; the first ones are removed first.
      max_bytes, max_files: the limits.

    Returns:
      the number of bytes that remain.
    """
    remaining = sum(file.size for file in files)
    count = len(files)
    if remaining <= max_bytes and count <= max_files:
        return remaining
    for file in files:
        if remaining <= max_bytes * _REMAINING_FRACTION and count <= max_files * _REMAINING_FRACTION:
            break
        file.path.unlink(missing_ok=True)
        remaining -= file.size
        count -= 1
    return remaining
