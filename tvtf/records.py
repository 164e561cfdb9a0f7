"""TFRecord files: byte strings framed with checksums, as TensorBoard's event files are too; ``tf.io.TFRecordWriter``.

Source: ``tensorflow/core/lib/io/record_writer.cc``: length (uint64), its masked CRC-32C, the bytes, their masked CRC-32C.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final

from tvtf import crc32c
from tvtf.errors import DataLossError
from tvtf.files import named_failures
from tvtf.primitive import export

_HEAD: Final = struct.Struct("<QI")
_FOOT: Final = struct.Struct("<I")


def framed(data: bytes) -> bytes:
    """One record.

    >>> len(framed(b"abc"))
    19
    """
    length = struct.pack("<Q", len(data))
    return length + _FOOT.pack(crc32c.masked(length)) + data + _FOOT.pack(crc32c.masked(data))


def unframed(file: IO[bytes]) -> Iterator[bytes]:
    """The records of a file, each checked.

    >>> import io
    >>> list(unframed(io.BytesIO(framed(b"abc") + framed(b""))))
    [b'abc', b'']

    Raises:
      DataLossError: a checksum does not match, or the file ends within a record.
    """
    offset = 0
    while head := file.read(_HEAD.size):
        length, stored = _HEAD.unpack(_whole(head, _HEAD.size, offset))
        crc32c.check(head[:8], stored, f"length of the record at byte {offset}")
        body = _whole(file.read(length + _FOOT.size), length + _FOOT.size, offset)
        (stored,) = _FOOT.unpack(body[length:])
        crc32c.check(body[:length], stored, f"record at byte {offset}")
        yield body[:length]
        offset += _HEAD.size + len(body)


def _whole(data: bytes, size: int, offset: int) -> bytes:
    if len(data) < size:
        raise DataLossError(None, None, f"truncated record at {offset}: expected {size} more bytes, got {len(data)}")
    return data


@export("io.TFRecordOptions")
class TFRecordOptions:
    """How a TFRecord file is compressed: ``""``, ``"GZIP"`` or ``"ZLIB"``.

    >>> import tvtf as tf
    >>> tf.io.TFRecordOptions("GZIP").compression_type
    'GZIP'

    Source: https://www.tensorflow.org/api_docs/python/tf/io/TFRecordOptions
    """

    def __init__(self, compression_type: Any = None, **_: Any) -> None:
        self.compression_type = compression_type or ""
        if self.compression_type not in ("", "GZIP", "ZLIB"):
            raise ValueError(f"Not a valid compression_type: {compression_type!r}")


@export("io.TFRecordWriter")
class TFRecordWriter:
    """Writes a TFRecord file, which ``tf.data.TFRecordDataset`` reads.

    Args:
      path: the file, written anew.
      options: ``TFRecordOptions`` or a compression.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "records")
    ...     with tf.io.TFRecordWriter(path) as writer:
    ...         writer.write(b"one")
    ...     print(list(tf.data.TFRecordDataset(path).as_numpy_iterator()))
    [b'one']

    Source: https://www.tensorflow.org/api_docs/python/tf/io/TFRecordWriter
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        kind = options.compression_type if isinstance(options, TFRecordOptions) else options
        self._compression = TFRecordOptions(kind).compression_type
        self._squeeze = zlib.compressobj() if self._compression == "ZLIB" else None
        make: Any = gzip.open if self._compression == "GZIP" else open
        with named_failures(str(path), "write"):
            self._file = make(os.fspath(path), "wb")

    def write(self, record: bytes) -> None:
        """Adds a record."""
        data = framed(record)
        self._file.write(self._squeeze.compress(data) if self._squeeze else data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._squeeze and not self._file.closed:
            self._file.write(self._squeeze.flush())
        self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
