"""Files in memory for LLVM's and the linker's output, safe from full disks and other users.

LLVM ends the process (`report_fatal_error`) if it can't write an object file. So it never writes to a disk where the
system has files in memory (Linux).
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

try:
    import resource
except ImportError:  # Windows, which has no such limits
    resource = None  # type: ignore[assignment] # as the module is missing

from tvtf.errors import ResourceExhaustedError
from tvtf.passes.codegen.temp_cleanup import locked_folder

_FOLDER = "/proc/self/fd"
_EXECUTABLE = 0x10
"""MFD_EXEC, which Linux requires since 6.3 if `vm.memfd_noexec` is set. Source: memfd_create(2)"""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
_BYTES_PER_CHARACTER, _HEADERS = 3, 8192
"""Bound on an object file's size by the length of its assembly text: a line of at least six characters is an
instruction of at most 15 bytes, or a call of 5 with a relocation entry of 24 bytes."""


@contextmanager
def memory_file(name: str = "tvtf") -> Iterator[Path]:
    """Creates an empty file in memory, and yields its path; the file is removed at the end of the context.

    On systems without files in memory, the file is on disk.
    """
    try:
        descriptor = _create_memory_file(name)
    except OSError as error:
        raise resource_exhausted_error(error, "memory") from error
    if descriptor is None:
        with scratch_folder() as folder:
            yield folder / f"{name}.so"
        return
    try:
        yield Path(f"{_FOLDER}/{descriptor}")
    finally:
        os.close(descriptor)


def _create_memory_file(name: str) -> int | None:
    """Creates a file in memory; returns its descriptor, or None where the system has none."""
    if not hasattr(os, "memfd_create") or not os.path.isdir(_FOLDER):
        return None
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC | _EXECUTABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:  # kernels before 6.3 don't know the flag
            raise
        return os.memfd_create(name, os.MFD_CLOEXEC)


def in_memory(path: Path) -> bool:
    """Returns whether `memory_file` made the path in memory, where no other process can see it half written."""
    return str(path.parent) == _FOLDER


def object_code(module: Any) -> bytes:
    """Compiles a runtime module with LLVM, and returns the content of the object file.

    LLVM ends the process if it can't write a file, so it writes to memory if the system has files in memory.

    Raises:
        ResourceExhaustedError: there is not enough space for it.
    """
    with memory_file("object.o") as path:
        _check_room(module, path)
        with _reporting_full_disk(path.parent):
            module.write_to_file(str(path), "o")
            return path.read_bytes()


def _check_room(module: Any, path: Path) -> None:
    """Raises ResourceExhaustedError if the object code of a module may be larger than the file ``path`` can be.

    LLVM would end the process. The size of the object code is estimated from the assembly text.
    """
    limits = _size_limits(path)
    if not limits:  # saves generating the assembly text
        return
    needed = _BYTES_PER_CHARACTER * len(module.inspect_source("asm")) + _HEADERS
    if needed > min(limits):
        raise ResourceExhaustedError(
            None,
            None,
            f"compiling: an object file may take {needed} bytes, but {path.parent} has room for {min(limits)} (ulimit -f, "
            "and the free space); raise the limit, or set TMPDIR to a folder with more space",
        )


def _size_limits(path: Path) -> list[int]:
    """Returns upper bounds on the size of a file: the process's limit on file sizes, and the disk's free space."""
    free = [] if in_memory(path) else [shutil.disk_usage(path.parent).free]
    if resource is None:
        return free
    process_limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return free if process_limit == resource.RLIM_INFINITY else [process_limit, *free]


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields a new temporary folder that is removed afterwards; if the process is killed, a later one removes it.

    Raises:
        ResourceExhaustedError: the disk is full.
    """
    home = tempfile.gettempdir()
    with _reporting_full_disk(home), locked_folder(home) as folder:
        yield folder


@contextmanager
def _reporting_full_disk(folder: str | Path) -> Iterator[None]:
    """Converts the system's error that a disk or memory is full to a ResourceExhaustedError that names the folder.

    The system's text doesn't say which disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise resource_exhausted_error(error, str(folder)) from error


def resource_exhausted_error(error: OSError, where: str) -> ResourceExhaustedError:
    """Converts the system's error to TensorFlow's, with the folder and the remedy."""
    text = f"compiling: no room in {where} ({error.strerror or error}); free some, or set TMPDIR to a folder with space"
    return ResourceExhaustedError(None, None, text)
