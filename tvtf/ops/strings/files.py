"""read_file, write_file and matching_files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor
from tvtf.dtypes import int32, string
from tvtf.fileio.atomic_file import file_path, named_failures, paths_matching, replace
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.rules import bind, require_dtype
from tvtf.ops.strings.rules import text


def _require_string_scalar(x: TensorType, name: str) -> None:
    """Checks that an input is a string scalar, with TensorFlow's error."""
    require_dtype(x, (string,), name)
    if x.shape:
        raise ArgumentError(f"Input {name} tensor must be scalar, but had shape: [{','.join(map(str, x.shape))}]")


def _read_type(filename: TensorType) -> TensorType:
    """Checks the file name, a string scalar; the contents are one, too."""
    _require_string_scalar(filename, "filename")
    return TensorType((), string)


def _read(filename: np.ndarray) -> np.ndarray:
    """Reads the bytes of a file."""
    path = os.fsdecode(filename.item())
    with named_failures(path, "read"), open(file_path(path), "rb") as file:
        return np.array(file.read(), object)


@host_primitive(type=_read_type, numpy=_read, pure=False, public=("io.read_file",))
def read_file(filename: Any, name: str | None = None) -> Any:
    """Returns the bytes of a file, a string scalar.

    >>> import tempfile
    >>> import tvtf as tf
    >>> path = tempfile.mkdtemp() + "/a.txt"
    >>> tf.io.write_file(path, "text")
    >>> tf.io.read_file(path).numpy()
    b'text'

    Raises:
      NotFoundError: the file doesn't exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/read_file
    """
    return (text(filename),), {}


def _write_type(filename: TensorType, contents: TensorType) -> TensorType:
    """Checks the file name and the contents, string scalars."""
    _require_string_scalar(filename, "filename")
    _require_string_scalar(contents, "contents")
    return TensorType((), int32)


def _write(filename: np.ndarray, contents: np.ndarray) -> np.ndarray:
    """Writes a file, whole or not at all, and returns zero, the op's result."""
    replace(os.fsdecode(filename.item()), contents.item())
    return np.zeros((), np.int32)


@host_primitive(tf_name="WriteFile", type=_write_type, numpy=_write, pure=False)
def file_written(filename: Any, contents: Any) -> Any:
    """Writes a file and returns zero, a result by which a trace holds the effect."""
    return (filename, contents), {}


@export("io.write_file")
def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Writes a string scalar to a file, as a whole or not at all. Missing folders are created.

    >>> import tempfile
    >>> import tvtf as tf
    >>> tf.io.write_file(tempfile.mkdtemp() + "/a.txt", "text")

    Source: https://www.tensorflow.org/api_docs/python/tf/io/write_file
    """
    bind.file_written(text(filename), text(contents))


def _matching(patterns: np.ndarray, count: Any) -> np.ndarray:
    """Returns the sorted names of the files that match at least one of the patterns."""
    matches = {os.fsencode(path) for pattern in patterns.ravel().tolist() for path in paths_matching(pattern)}
    result = np.empty(len(matches), object)
    result[:] = sorted(matches)
    return result


@host_primitive(
    tf_name="MatchingFiles", type=lambda x, count: TensorType((count,), string), numpy=_matching, pure=False
)
def file_names(patterns: Any, count: Any) -> Any:
    """Returns the names of the ``count`` files that match one of several patterns."""
    return (patterns,), {"count": count}


@export("io.matching_files")
def matching_files(pattern: Any, name: str | None = None) -> EagerTensor:
    """Returns the names of the files that match a shell's pattern, or one of several, in order.

    >>> import tvtf as tf
    >>> tf.io.matching_files("/nowhere/*").shape
    TensorShape([0])

    Source: https://www.tensorflow.org/api_docs/python/tf/io/matching_files
    """
    return bind.file_names(text(pattern), count=unknown_dim())  # type: ignore[no-any-return]
