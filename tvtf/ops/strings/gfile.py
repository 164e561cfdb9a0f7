"""``tf.io.gfile``: the local file system, with TensorFlow's function names and errors."""

from __future__ import annotations

import glob as patterns
import io
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tvtf.core.primitive import export
from tvtf.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from tvtf.fileio.atomic_file import named_failures

Path = str | bytes | os.PathLike[str]


def _text(path: Any) -> str:
    """Returns a path as text, also one given as a ``file://`` URI."""
    return os.fsdecode(path).removeprefix("file://")


def _missing(path: str) -> NotFoundError:
    return NotFoundError(None, None, f"{path}; No such file or directory")


@export("io.gfile.exists")
def exists(path: Path) -> bool:
    """Returns whether there is such a file or folder.

    >>> import tvtf as tf
    >>> tf.io.gfile.exists("/nowhere")
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/exists
    """
    return os.path.exists(_text(path))


@export("io.gfile.isdir")
def isdir(path: Path) -> bool:
    """Returns whether a path is a folder.

    >>> import tvtf as tf
    >>> tf.io.gfile.isdir("/")
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/isdir
    """
    return os.path.isdir(_text(path))


@export("io.gfile.listdir")
def listdir(path: Path) -> list[str]:
    """Returns the names in a folder, in arbitrary order.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.listdir(tempfile.mkdtemp())
    []

    Raises:
      NotFoundError: it is none.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/listdir
    """
    folder = _text(path)
    if not os.path.isdir(folder):
        raise NotFoundError(None, None, "Could not find directory " + folder)
    return os.listdir(folder)


@export("io.gfile.glob")
def glob(pattern: Any) -> list[str]:
    """Returns the paths that match a shell's pattern, or one of several.

    >>> import tvtf as tf
    >>> tf.io.gfile.glob("/nowhere/*")
    []

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/glob
    """
    listed = [pattern] if isinstance(pattern, (str, bytes, os.PathLike)) else list(pattern)
    return [path for each in listed for path in sorted(patterns.glob(_text(each)))]


@export("io.gfile.makedirs")
def makedirs(path: Path) -> None:
    """Makes a folder and those above it; one that is there is fine.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.makedirs(tempfile.mkdtemp() + "/a/b")

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/makedirs
    """
    with named_failures(_text(path), "make"):
        os.makedirs(_text(path), exist_ok=True)


@export("io.gfile.mkdir")
def mkdir(path: Path) -> None:
    """Makes a folder.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.mkdir(tempfile.mkdtemp() + "/a")

    Raises:
      AlreadyExistsError: it is there.
      NotFoundError: the one above is not.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/mkdir
    """
    folder = _text(path)
    with named_failures(folder, "make"):
        os.mkdir(folder)


@export("io.gfile.remove")
def remove(path: Path) -> None:
    """Deletes a file.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.remove(tempfile.mkstemp()[1])

    Raises:
      NotFoundError: there is none.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/remove
    """
    with named_failures(_text(path), "delete"):
        os.remove(_text(path))


@export("io.gfile.rmtree")
def rmtree(path: Path) -> None:
    """Deletes a folder with all that is in it.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.rmtree(tempfile.mkdtemp())

    Raises:
      NotFoundError: there is none.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/rmtree
    """
    with named_failures(_text(path), "delete"):
        shutil.rmtree(_text(path))


@export("io.gfile.rename")
def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Gives a file another path.

    >>> import tempfile
    >>> import tvtf as tf
    >>> folder = tempfile.mkdtemp()
    >>> tf.io.gfile.mkdir(folder + "/a")
    >>> tf.io.gfile.rename(folder + "/a", folder + "/b")

    Raises:
      AlreadyExistsError: there is one of that path, and ``overwrite`` is False.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/rename
    """
    _check_free(_text(dst), overwrite)
    with named_failures(_text(src), "rename"):
        os.replace(_text(src), _text(dst))


@export("io.gfile.copy")
def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copies a file.

    >>> import tempfile
    >>> import tvtf as tf
    >>> path = tempfile.mkstemp()[1]
    >>> tf.io.gfile.copy(path, path + ".copy")

    Raises:
      AlreadyExistsError: there is one of that path, and ``overwrite`` is False.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/copy
    """
    _check_free(_text(dst), overwrite)
    with named_failures(_text(src), "copy"):
        shutil.copyfile(_text(src), _text(dst))


def _check_free(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise AlreadyExistsError(None, None, f"file already exists: {path}")


class FileStatistics(NamedTuple):
    """The result of :func:`stat`."""

    length: int
    mtime_nsec: int
    is_directory: bool


@export("io.gfile.stat")
def stat(path: Path) -> FileStatistics:
    """Returns a file's length, its modification time, and whether it is a folder.

    >>> import tvtf as tf
    >>> tf.io.gfile.stat("/").is_directory
    True

    Raises:
      NotFoundError: there is none.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/stat
    """
    with named_failures(_text(path), "read"):
        status = os.stat(_text(path))
    return FileStatistics(status.st_size, status.st_mtime_ns, os.path.isdir(_text(path)))


@export("io.gfile.walk")
def walk(top: Path, topdown: bool = True, onerror: Any = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields ``(folder, names of folders in it, names of files in it)`` for a folder and all below it.

    >>> import tvtf as tf
    >>> list(tf.io.gfile.walk("/nowhere"))
    []

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/walk
    """
    return os.walk(_text(top), topdown, onerror)


@export("io.gfile.join")
def join(path: Path, *paths: Path) -> str:
    """Joins the parts of a path.

    >>> import tvtf as tf
    >>> tf.io.gfile.join("a", "b.txt")
    'a/b.txt'

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/join
    """
    return os.path.join(_text(path), *map(_text, paths))


@export("io.gfile.get_registered_schemes")
def get_registered_schemes() -> list[str]:
    """Returns the kinds of file systems: the local one.

    >>> import tvtf as tf
    >>> tf.io.gfile.get_registered_schemes()
    ['', 'file']

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/get_registered_schemes
    """
    return ["", "file"]


_MODES = ("r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab", "rb+", "wb+", "ab+", "r+b", "w+b", "a+b")


@export("io.gfile.GFile")
class GFile:
    """A file that is opened when it is first read or written; ``with`` closes it.

    Args:
      name: its path.
      mode: as for Python's ``open``; with "b" for bytes.

    >>> import tempfile
    >>> import tvtf as tf
    >>> path = tempfile.mkdtemp() + "/a.txt"
    >>> with tf.io.gfile.GFile(path, "w") as file:
    ...     file.write("one\\ntwo\\n")
    >>> list(tf.io.gfile.GFile(path)), tf.io.gfile.GFile(path, "rb").read(3)
    (['one\\n', 'two\\n'], b'one')

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/GFile
    """

    def __init__(self, name: Path, mode: str = "r") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, but got {mode!r}")
        self._name, self._mode = _text(name), mode
        self._file: Any = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def mode(self) -> str:
        return self._mode

    def _opened(self, doing: str) -> Any:
        """Returns the open file, opened on first use; raises FailedPreconditionError if the mode forbids ``doing``."""
        reads = doing == "read"
        if reads and not ("r" in self._mode or "+" in self._mode) or not reads and self._mode in ("r", "rb"):
            raise FailedPreconditionError(None, None, f"File isn't open for {'reading' if reads else 'writing'}")
        if self._file is None:
            encoding = None if "b" in self._mode else "utf-8"
            with named_failures(self._name, doing):
                self._file = open(self._name, self._mode, encoding=encoding)  # noqa: SIM115 - closed by `close`
        return self._file

    def _call(self, doing: str, method: str, *args: Any) -> Any:
        """Calls a method of the open file.

        Raises:
          OpError: the system call fails; the type depends on the reason, as in TensorFlow.
        """
        file = self._opened(doing)
        with named_failures(self._name, doing):
            return getattr(file, method)(*args)

    def read(self, n: int = -1) -> Any:
        """Reads ``n`` characters, or all that are left."""
        return self._call("read", "read", n)

    def readline(self) -> Any:
        """Reads the next line, with its line end."""
        return self._call("read", "readline")

    def readlines(self) -> list[Any]:
        """Reads all remaining lines."""
        return list(self._call("read", "readlines"))

    def write(self, file_content: Any) -> None:
        """Writes to the file."""
        self._call("write", "write", file_content)

    def writelines(self, lines: Iterable[Any]) -> None:
        """Writes several texts."""
        self._call("write", "writelines", lines)

    def seek(self, offset: int | None = None, whence: int = io.SEEK_SET, position: int | None = None) -> None:
        """Goes to a place; ``position`` is an older name of ``offset``.

        Raises:
          TypeError: no offset.
        """
        file, place = self._opened("read"), position if offset is None else offset
        if place is None:
            raise TypeError("seek(): offset argument required")
        file.seek(place, whence)

    def tell(self) -> int:
        """Returns the current position."""
        return 0 if self._file is None else int(self._file.tell())

    def size(self) -> int:
        """Returns the file's length in bytes."""
        return stat(self._name).length

    def flush(self) -> None:
        """Flushes buffered writes."""
        if self._file is not None:
            self._call("write" if self._mode not in ("r", "rb") else "read", "flush")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            file, self._file = self._file, None
            with named_failures(self._name, "write"):
                file.close()

    def seekable(self) -> bool:
        """Always True."""
        return True

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> GFile:
        return self

    def __next__(self) -> Any:
        with named_failures(self._name, "read"):
            return next(self._opened("read"))

    def __del__(self) -> None:
        self.close()
