"""TFRecord files, which are also TensorBoard's event files: byte strings framed with checksums.

A record is its length (uint64), the length's masked CRC-32C, the bytes, and their masked CRC-32C.
Source: ``tensorflow/core/lib/io/record_writer.cc``
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, ClassVar, Final

import numpy as np

from tvtf.core.primitive import export
from tvtf.errors import DataLossError
from tvtf.fileio import crc32c
from tvtf.fileio.atomic_file import named_failures
from tvtf.fileio.decode_limits import require_decodable
from tvtf.fileio.inflate import WINDOW_BITS, Inflated, read_fully

_HEADER: Final = struct.Struct("<QI")
_FOOTER: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<Q").unpack_from
CHUNK: Final = 1 << 20
"""The number of bytes that are read, and checked together."""


def framed(data: bytes) -> bytes:
    """Returns a byte string as a record of a TFRecord file, with its length and checksums.

    >>> len(framed(b"abc"))
    19
    """
    length = struct.pack("<Q", len(data))
    return length + _FOOTER.pack(crc32c.masked(length)) + data + _FOOTER.pack(crc32c.masked(data))


def opened(path: str, compression: str = "") -> Any:
    """Opens a TFRecord file for reading; with ``compression`` ``"ZLIB"`` or ``"GZIP"`` it is decompressed while it is read.

    Raises:
      NotFoundError: there is no such file.
    """
    with named_failures(path, "read"):
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - the caller reads and closes it
    return Inflated(file, compression, path) if compression else file


def records_of(path: str, compression: str = "") -> Iterator[bytes]:
    """Yields the records of a TFRecord file as byte strings.

    Raises:
      NotFoundError: there is no such file.
      DataLossError, ResourceExhaustedError: see `unframed`.
    """
    with opened(path, compression) as file, named_failures(path, "read"):
        yield from unframed(file, path)


def unframed(file: Any, source: str = "") -> Iterator[bytes]:
    """Yields the records of an open file, with checksums verified.

    Many records are checked at once, which is faster; if that fails, one by one, to find the damaged one.

    Args:
      file: an object with ``read``. For a compressed file the length of records is limited (``decode_limits``).
      source: the file's name in errors.

    >>> import io
    >>> list(unframed(io.BytesIO(framed(b"abc") + framed(b""))))
    [b'abc', b'']

    Raises:
      DataLossError: a checksum does not match, or the file ends within a record.
      ResourceExhaustedError: a record of a compressed file exceeds the limit.
    """
    offset, data, place = 0, b"", f"{source}: " if source else ""
    while more := read_fully(file, _bytes_to_read(data, offset, place, isinstance(file, Inflated))):
        data += more
        starts, end = _complete_records(data)
        if starts and not _have_valid_checksums(data[:end], starts):
            break
        ends = [*starts[1:], end]
        yield from (data[start + _HEADER.size : end - _FOOTER.size] for start, end in zip(starts, ends))
        offset, data = offset + end, data[end:]
    yield from _read_one_by_one(io.BytesIO(data), offset, place)


def _bytes_to_read(data: bytes, offset: int, place: str, is_limited: bool) -> int:
    """Returns how many bytes of a TFRecord file to read next, after ``data``, the beginning of the record at ``offset``.

    The record's length is checked before so much is read: a damaged one could exhaust memory. ``place`` is the file's name
    in errors.
    """
    if len(data) < _HEADER.size:
        return CHUNK
    length, stored = _HEADER.unpack_from(data)
    crc32c.check(data[:8], stored, f"{place}length of the record at byte {offset}")
    if is_limited:
        require_decodable(length, f"{place}the record at byte {offset}")
    return max(CHUNK, length + _HEADER.size + _FOOTER.size - len(data))


def _complete_records(data: bytes) -> tuple[list[int], int]:
    """Returns the offsets of the complete records in ``data``, part of a TFRecord file, and the end of the last one."""
    starts, start, size = [], 0, len(data)
    while start + _HEADER.size < size:
        end = start + _HEADER.size + _LENGTH(data, start)[0] + _FOOTER.size
        if end > size:
            break
        starts.append(start)
        start = end
    return starts, start


def _have_valid_checksums(data: bytes, starts: Sequence[int]) -> bool:
    """Returns whether all checksums in ``data`` match; it consists of TFRecord records at the offsets ``starts``.

    A message followed by its correct CRC, with its first 4 bytes and the CRC complemented, is divisible by CRC's polynomial.
    So is a concatenation of such messages: the lengths and contents of all records are checked by one division.
    """
    octets = np.frombuffer(data, np.uint8).copy()
    headers = np.array(starts)
    footers = np.append(headers[1:], octets.size) - _FOOTER.size
    four_bytes = np.arange(4)
    stored_positions = np.concatenate([headers + 8, footers])[:, None] + four_bytes
    checksums = octets[stored_positions].view("<u4")
    octets[stored_positions] = (~crc32c.unmasked(checksums)).view(np.uint8)
    for part_starts in (headers, headers + _HEADER.size):
        octets[part_starts[:, None] + four_bytes] ^= 0xFF
    return crc32c.is_divisible(octets)


def _read_one_by_one(file: IO[bytes], offset: int, place: str) -> Iterator[bytes]:
    """Yields the records of a TFRecord file from ``offset`` on, and checks each alone.

    Raises:
      DataLossError: a record is damaged or truncated; the error has its offset, and ``place``, the file's name.
    """
    while head := file.read(_HEADER.size):
        length, stored = _HEADER.unpack(_require_complete(head, _HEADER.size, offset, place))
        crc32c.check(head[:8], stored, f"{place}length of the record at byte {offset}")
        body = _require_complete(read_fully(file, length + _FOOTER.size), length + _FOOTER.size, offset, place)
        (stored,) = _FOOTER.unpack(body[length:])
        crc32c.check(body[:length], stored, f"{place}record at byte {offset}")
        yield body[:length]
        offset += _HEADER.size + len(body)


def _require_complete(data: bytes, size: int, offset: int, place: str) -> bytes:
    if len(data) < size:
        text = f"{place}truncated record at {offset}: expected {size} more bytes, got {len(data)}"
        raise DataLossError(None, None, text)
    return data


@export("io.TFRecordOptions")
class TFRecordOptions:
    """The compression of a TFRecord file: ``""``, ``"GZIP"`` or ``"ZLIB"``.

    >>> import tvtf as tf
    >>> tf.io.TFRecordOptions("GZIP").compression_type
    'GZIP'

    Source: https://www.tensorflow.org/api_docs/python/tf/io/TFRecordOptions
    """

    def __init__(self, compression_type: Any = None, **_: Any) -> None:
        self.compression_type = compression_type or ""
        if self.compression_type not in ("", "GZIP", "ZLIB"):
            raise ValueError(f"Not a valid compression_type: {compression_type!r}")

    compression_type_map: ClassVar[dict[Any, str]] = {0: "", 1: "ZLIB", 2: "GZIP"}
    """TensorFlow 1's number of a compression -> its name."""

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Returns a compression as ``""``, ``"GZIP"`` or ``"ZLIB"``.

        Args:
          options: TFRecordOptions, one of these names, or TensorFlow 1's number of a compression.

        Raises:
          ValueError: there is no such compression.
        """
        compression = options.compression_type if isinstance(options, TFRecordOptions) else options
        names = cls.compression_type_map
        if compression and compression not in names and compression not in names.values():
            raise ValueError(f'Not a valid compression_type: "{compression}"')
        return names.get(compression, compression) if compression else ""


@export("io.TFRecordWriter")
class TFRecordWriter:
    """Writes a TFRecord file, which ``tf.data.TFRecordDataset`` reads.

    Args:
      path: the file; an existing one is overwritten.
      options: ``TFRecordOptions`` or the name of a compression.

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
        kind = TFRecordOptions(kind).compression_type
        self._squeeze = zlib.compressobj(wbits=WINDOW_BITS[kind]) if kind else None
        self._path = os.fsdecode(path)
        with named_failures(self._path, "write"):
            self._file = open(path, "wb")  # noqa: SIM115 - closed by `close`

    def write(self, record: bytes) -> None:
        """Appends a record."""
        data = framed(record)
        self._write(self._squeeze.compress(data) if self._squeeze else data)

    def _write(self, data: bytes) -> None:
        with named_failures(self._path, "write"):
            self._file.write(data)

    def flush(self) -> None:
        """Writes all records so far to the file."""
        if self._squeeze:
            self._write(self._squeeze.flush(zlib.Z_SYNC_FLUSH))
        with named_failures(self._path, "write"):
            self._file.flush()

    def close(self) -> None:
        """Writes the rest and closes the file."""
        if self._file.closed:
            return
        with named_failures(self._path, "write"), self._file:
            if self._squeeze:
                self._file.write(self._squeeze.flush())

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
