"""Files that lie in memory: what LLVM and the linker write, out of reach of full disks and of other users.

LLVM ends the process (`report_fatal_error`) where it can't write an object file, so it is never given one on a disk
if the system has files in memory (Linux).
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvtf.errors import ResourceExhaustedError
from tvtf.passes.codegen.temp_cleanup import locked_folder

_FOLDER = "/proc/self/fd"
_EXECUTABLE = 0x10
"""MFD_EXEC, which Linux asks for since 6.3 where `vm.memfd_noexec` is set. Source: memfd_create(2)"""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
_BYTES_PER_CHARACTER, _HEADERS = 3, 8192
"""Of an object file by its text in assembly: a line of six characters is an instruction of 15 bytes at most, or a call of 5
with an entry of 24 bytes in the table of relocations."""


@contextmanager
def memory_file(name: str = "tvtf") -> Iterator[Path]:
    """The path of an empty file in memory, until the block is left; on disk where the system has none."""
    try:
        descriptor = _created(name)
    except OSError as error:
        raise exhausted(error, "memory") from error
    if descriptor is None:
        with scratch_folder() as folder:
            yield folder / f"{name}.so"
        return
    try:
        yield Path(f"{_FOLDER}/{descriptor}")
    finally:
        os.close(descriptor)


def _created(name: str) -> int | None:
    if not hasattr(os, "memfd_create") or not os.path.isdir(_FOLDER):
        return None
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC | _EXECUTABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # which kernels before 6.3 say
            raise
        return os.memfd_create(name, os.MFD_CLOEXEC)


def in_memory(path: Path) -> bool:
    """Whether `memory_file` made it, and nobody else sees it half written."""
    return str(path.parent) == _FOLDER


def object_code(module: Any) -> bytes:
    """The object file that LLVM makes of a runtime module.

    Raises:
        ResourceExhaustedError: there is no room for it.
    """
    with memory_file("object.o") as path:
        _check_room(module, path)
        with _named(path.parent):
            module.write_to_file(str(path), "o")
            return path.read_bytes()


def _check_room(module: Any, path: Path) -> None:
    """Refuses, as LLVM would end the process: checked where a limit is known, for that takes the text of the code."""
    known = _limits(path)
    if not known:
        return
    needed = _BYTES_PER_CHARACTER * len(module.inspect_source("asm")) + _HEADERS
    if needed > min(known):
        raise ResourceExhaustedError(
            None,
            None,
            f"compiling: an object file may take {needed} bytes, but {path.parent} has room for {min(known)} (ulimit -f, "
            "and the free space); raise the limit, or set TMPDIR to a folder with more space",
        )


def _limits(path: Path) -> list[int]:
    """Bytes that a file may take, by the process's limit on the size of files and the free space of a disk."""
    free = [] if in_memory(path) else [shutil.disk_usage(path.parent).free]
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return free
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return free if most == resource.RLIM_INFINITY else [most, *free]


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new temporary folder that is removed afterwards; the next process removes what a kill leaves of it.

    Raises:
        ResourceExhaustedError: it is full.
    """
    home = tempfile.gettempdir()
    with _named(home), locked_folder(home) as folder:
        yield folder


@contextmanager
def _named(folder: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise exhausted(error, str(folder)) from error


def exhausted(error: OSError, where: str) -> ResourceExhaustedError:
    """The system's error as TensorFlow's, with the place and what helps."""
    text = f"compiling: no room in {where} ({error.strerror or error}); free some, or set TMPDIR to a folder with space"
    return ResourceExhaustedError(None, None, text)
