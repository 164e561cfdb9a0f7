"""``tf.io.gfile``: the local file system, with TensorFlow's function names and errors."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tvtf.core.primitive import export
from tvtf.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from tvtf.fileio.atomic_file import file_path, named_failures, paths_matching

Path = str | bytes | os.PathLike[str]


def _path_text(path: Any) -> str:
    """Returns a path as text, without the prefix of a ``file://`` URI."""
    return os.fsdecode(path).removeprefix("file://")


@export("io.gfile.exists")
def exists(path: Path) -> bool:
    """Returns whether there is such a file or folder.

    >>> import tvtf as tf
    >>> tf.io.gfile.exists("/nowhere")
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/exists
    """
    return os.path.exists(file_path(_path_text(path)))


@export("io.gfile.isdir")
def isdir(path: Path) -> bool:
    """Returns whether a path is a folder.

    >>> import tvtf as tf
    >>> tf.io.gfile.isdir("/")
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/isdir
    """
    return os.path.isdir(_path_text(path))


@export("io.gfile.listdir")
def listdir(path: Path) -> list[str]:
    """Returns the names in a folder, in arbitrary order.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.listdir(tempfile.mkdtemp())
    []

    Raises:
      NotFoundError: the folder doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/listdir
    """
    folder = _path_text(path)
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
    all_patterns = [pattern] if isinstance(pattern, (str, bytes, os.PathLike)) else list(pattern)
    return [path for one_pattern in all_patterns for path in paths_matching(_path_text(one_pattern))]


@export("io.gfile.makedirs")
def makedirs(path: Path) -> None:
    """Creates a folder and all missing parent folders; an existing folder is no error.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.makedirs(tempfile.mkdtemp() + "/a/b")

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/makedirs
    """
    with named_failures(_path_text(path), "make"):
        os.makedirs(_path_text(path), exist_ok=True)


@export("io.gfile.mkdir")
def mkdir(path: Path) -> None:
    """Creates a folder.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.mkdir(tempfile.mkdtemp() + "/a")

    Raises:
      AlreadyExistsError: the path exists.
      NotFoundError: the parent folder doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/mkdir
    """
    folder = _path_text(path)
    with named_failures(folder, "make"):
        os.mkdir(folder)


@export("io.gfile.remove")
def remove(path: Path) -> None:
    """Deletes a file.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.remove(tempfile.mkstemp()[1])

    Raises:
      NotFoundError: the file doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/remove
    """
    with named_failures(_path_text(path), "delete"):
        os.remove(file_path(_path_text(path)))


@export("io.gfile.rmtree")
def rmtree(path: Path) -> None:
    """Deletes a folder and everything in it.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.gfile.rmtree(tempfile.mkdtemp())

    Raises:
      NotFoundError: the folder doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/rmtree
    """
    with named_failures(_path_text(path), "delete"):
        shutil.rmtree(_path_text(path))


@export("io.gfile.rename")
def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Renames a file, or moves it to another path.

    >>> import tempfile
    >>> import tvtf as tf
    >>> folder = tempfile.mkdtemp()
    >>> tf.io.gfile.mkdir(folder + "/a")
    >>> tf.io.gfile.rename(folder + "/a", folder + "/b")

    Raises:
      AlreadyExistsError: the new path exists, and ``overwrite`` is False.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/rename
    """
    _check_free(_path_text(dst), overwrite)
    with named_failures(_path_text(src), "rename"):
        os.replace(file_path(_path_text(src)), file_path(_path_text(dst)))


@export("io.gfile.copy")
def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copies a file.

    >>> import tempfile
    >>> import tvtf as tf
    >>> path = tempfile.mkstemp()[1]
    >>> tf.io.gfile.copy(path, path + ".copy")

    Raises:
      AlreadyExistsError: the new path exists, and ``overwrite`` is False.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/copy
    """
    _check_free(_path_text(dst), overwrite)
    with named_failures(_path_text(src), "copy"):
        shutil.copyfile(file_path(_path_text(src)), file_path(_path_text(dst)))


def _check_free(path: str, overwrite: bool) -> None:
    """Raises an error if there is a file at ``path``, unless it may be overwritten."""
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
      NotFoundError: the file or folder doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/stat
    """
    with named_failures(_path_text(path), "read"):
        status = os.stat(file_path(_path_text(path)))
    return FileStatistics(status.st_size, status.st_mtime_ns, os.path.isdir(_path_text(path)))


@export("io.gfile.walk")
def walk(top: Path, topdown: bool = True, onerror: Any = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields ``(folder, names of folders in it, names of files in it)`` for a folder and all below it.

    >>> import tvtf as tf
    >>> list(tf.io.gfile.walk("/nowhere"))
    []

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/walk
    """
    return os.walk(_path_text(top), topdown, onerror)


@export("io.gfile.join")
def join(path: Path, *paths: Path) -> str:
    """Joins the parts of a path.

    >>> import tvtf as tf
    >>> tf.io.gfile.join("a", "b.txt")
    'a/b.txt'

    Source: https://www.tensorflow.org/api_docs/python/tf/io/gfile/join
    """
    return os.path.join(_path_text(path), *map(_path_text, paths))


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
        self._name = _path_text(name)
        self._mode = mode
        self._file: Any = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def mode(self) -> str:
        return self._mode

    def _opened(self, purpose: str) -> Any:
        """Opens the file if it isn't open yet, and returns it. ``purpose`` is "read" or "write".

        Raises:
          FailedPreconditionError: the file's mode forbids the purpose.
        """
        is_reading = purpose == "read"
        if is_reading and not ("r" in self._mode or "+" in self._mode) or not is_reading and self._mode in ("r", "rb"):
            raise FailedPreconditionError(None, None, f"File isn't open for {'reading' if is_reading else 'writing'}")
        if self._file is None:
            encoding = None if "b" in self._mode else "utf-8"
            with named_failures(self._name, purpose):
                self._file = open(file_path(self._name), self._mode, encoding=encoding)  # noqa: SIM115 - closed by `close`
        return self._file

    def _call(self, purpose: str, method: str, *args: Any) -> Any:
        """Calls ``method`` of the file, which is opened if necessary. ``purpose`` is "read" or "write".

        Raises:
          OpError: the system call fails. The type depends on the reason, as in TensorFlow.
        """
        file = self._opened(purpose)
        with named_failures(self._name, purpose):
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
        """Moves to a position in the file. ``position`` is an older name of ``offset``.

        Raises:
          TypeError: neither ``offset`` nor ``position`` is given.
        """
        file = self._opened("read")
        target = position if offset is None else offset
        if target is None:
            raise TypeError("seek(): offset argument required")
        file.seek(target, whence)

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
        """Returns True: files of the local file system can be read from any position."""
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
