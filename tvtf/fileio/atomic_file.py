"""Atomic file writes (temporary file, fsync, rename, fsync of the folder), and I/O errors as TensorFlow's types."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tvtf.errors import (
    AbortedError,
    AlreadyExistsError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)

if TYPE_CHECKING:
    from typing_extensions import Self

WRITTEN_AT_ONCE: Final = 1 << 26
MAX_LINKS: Final = 40  # symbolic links that are followed, as by Linux: links may lead to each other
_ERROR_NUMBERS: Final[dict[type[OpError], tuple[int, ...]]] = {
    InvalidArgumentError: (errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ, errno.ESPIPE, errno.EFAULT, errno.EDOM),
    DeadlineExceededError: (errno.ETIMEDOUT,),
    NotFoundError: (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESRCH),
    AlreadyExistsError: (errno.EEXIST,),
    PermissionDeniedError: (errno.EPERM, errno.EACCES, errno.EROFS),
    FailedPreconditionError: (
        *(errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EBADF, errno.EBUSY, errno.EPIPE, errno.ETXTBSY),
    ),
    ResourceExhaustedError: (
        *(errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EMLINK, errno.ENOBUFS, errno.ENOMEM),
    ),
    OutOfRangeError: (errno.EFBIG, errno.EOVERFLOW, errno.ERANGE),
    UnimplementedError: (errno.ENOSYS, errno.ENOTSUP, errno.EXDEV),
    UnavailableError: (errno.EAGAIN, errno.EINTR, errno.ENOLCK),
    AbortedError: (errno.EDEADLK, errno.ESTALE),
}
"""TensorFlow's error type -> the system's error numbers. Source: ``tsl/platform/error.cc``"""
_FULL: Final = " Free some space and try again."
_NOT_PERMITTED: Final = " Choose a folder you may write to."
_ADVICE: Final = {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EPERM: _NOT_PERMITTED, errno.EACCES: _NOT_PERMITTED}
_ADVICE[errno.EROFS] = _NOT_PERMITTED

Chunks = Iterable[Any]


class Replacement:
    """An atomic replacement of several files: all are written under temporary names before the first is renamed.

    `commit` renames the files in the order of the calls of `add`. Leaving the ``with`` block without `commit` removes the
    temporary files.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for temporary, _ in self._pending:
            remove(temporary)

    def add(self, path: str, chunks: Chunks) -> None:
        """Writes a file's content to a temporary file that `commit` renames to ``path``.

        The temporary file is in the same folder, and so on the same file system, where renaming is atomic.

        Args:
          path: the file to replace or create; missing folders are created.
          chunks: the content as a sequence of buffers.
        """
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.tmp")
        # Added before it is written, so that it is removed if writing fails.
        self._pending.append((temporary, path))
        with named_failures(path, "write"):
            os.makedirs(folder or ".", exist_ok=True)
            _write_through(temporary, chunks)

    def digest(self, path: str) -> str:
        """Returns the SHA-256 of the temporary file that `commit` renames to ``path``, as hexadecimal digits."""
        return digest_of(next(temporary for temporary, target in self._pending if target == path))

    def commit(self) -> None:
        """Renames the temporary files to their paths, in the order of the calls of `add`.

        Folders are flushed to disk. So the new files survive a power failure afterwards.
        """
        while self._pending:
            temporary, path = self._pending[0]
            with named_failures(path, "rename to"):
                os.replace(temporary, path)
                sync_folder(os.path.dirname(path))
            del self._pending[0]  # if renaming fails, the files that are still pending are removed


def file_path(path: Any) -> str:
    """Returns a file's path as text without final slashes, which TensorFlow ignores and operating systems refuse."""
    text = os.fsdecode(path)
    return text.rstrip("/") or text


def paths_matching(pattern: Any) -> list[str]:
    """Returns the sorted paths that match a shell's pattern, as TensorFlow finds them: final slashes make no difference.

    A pattern without wildcards is returned as it is if there is such a file or folder.
    """
    text = os.fsdecode(pattern)
    if glob.has_magic(text):
        return sorted(glob.glob(file_path(text)))
    return [text] if os.path.exists(file_path(text)) else []


def digest_of(path: str) -> str:
    """Computes the SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with named_failures(path, "read"), open(path, "rb") as file:
        while chunk := file.read(WRITTEN_AT_ONCE):
            digest.update(chunk)
    return digest.hexdigest()


def read(path: str) -> bytes:
    """Reads a whole file, and returns its content as bytes.

    Raises:
      NotFoundError: the file does not exist.
    """
    with named_failures(path, "read"), open(path, "rb") as file:
        return file.read()


def replace(path: str, content: bytes) -> None:
    """Writes one file atomically: readers see either the old or the new content, also after a power failure.

    A symbolic link stays, and the file that it leads to is replaced. A device or a pipe is written to: a file that is
    renamed to its name would take its place. So is an open file, as ``/dev/stdout`` may be: its earlier content stays.
    """
    descriptor = _descriptor_at(path)
    if descriptor is not None or is_device_or_pipe(path):
        opened: Any = path if descriptor is None else os.dup(descriptor)
        with named_failures(path, "write"), open(opened, "wb", buffering=0) as file:
            _write_all(file.write, memoryview(content))
        return
    with Replacement() as files:
        files.add(os.path.realpath(path) if os.path.islink(path) else path, [content])
        files.commit()


def _descriptor_at(path: str) -> int | None:
    """Returns the descriptor of this process that a path leads to, as ``/dev/stdout`` leads to 1, or None."""
    own_descriptors = os.path.realpath("/proc/self/fd")
    for _ in range(MAX_LINKS):
        folder, name = os.path.split(path)
        if os.path.realpath(folder) == own_descriptors:
            return int(name) if name.isdecimal() and os.path.lexists(path) else None
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


def is_device_or_pipe(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path leads to something that exists and is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def remove(path: str) -> None:
    """Removes a file if it exists."""
    with named_failures(path, "delete"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.remove(path)


def _write_through(path: str, chunks: Chunks) -> None:
    """Writes buffers to a file, and flushes the file to disk."""
    with open(path, "wb", buffering=0) as file:
        for chunk in chunks:
            _write_all(file.write, memoryview(chunk).cast("B"))
        os.fsync(file.fileno())


def _write_all(write: Callable[[memoryview], int | None], remaining: memoryview) -> None:
    """Writes a whole buffer by repeated calls of ``write``, which returns the number of bytes that it wrote.

    One unbuffered write may be partial: Linux stops at 2 GB.
    """
    while remaining:
        remaining = remaining[write(remaining[:WRITTEN_AT_ONCE]) or 0 :]


def sync_folder(folder: str) -> None:
    """Flushes a folder's entries to disk, so that renamed files survive a power failure."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows can't open folders
        return
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def named_failures(path: str, doing: str) -> Iterator[None]:
    """Converts an OSError in the ``with`` block to TensorFlow's error type for it, such as NotFoundError.

    The message contains the path, and advice for the user.

    Args:
      path: the file that the block accesses.
      doing: the verb for the message, such as ``"read"`` in "Could not read <path>".
    """
    try:
        yield
    except OSError as cause:
        raise _as_op_error(cause, path, doing) from cause


def _as_op_error(cause: OSError, path: str, doing: str) -> OpError:
    """Returns TensorFlow's error for an error of the operating system; ``doing`` is the verb for the message."""
    reason = cause.strerror or str(cause)
    error_type = next((each for each, codes in _ERROR_NUMBERS.items() if cause.errno in codes), UnknownError)
    if error_type in (NotFoundError, AlreadyExistsError, FailedPreconditionError):  # with TensorFlow's message
        return error_type(None, None, f"{path}; {reason}")
    advice = _ADVICE.get(cause.errno or 0, "")
    return error_type(None, None, f"Could not {doing} {path}: {reason}.{advice}")
