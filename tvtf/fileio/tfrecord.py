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
from tvtf.fileio.atomic_file import file_path, named_failures
from tvtf.fileio.decode_limits import require_decodable
from tvtf.fileio.inflate import WINDOW_BITS, Inflated, read_fully

_HEADER: Final = struct.Struct("<QI")
_FOOTER: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<Q").unpack_from
CHUNK: Final = 1 << 20
"""The number of bytes that are read, and checked together."""


def framed(data: bytes) -> bytes:
    """Encodes a byte string as a record of a TFRecord file, with its length and checksums.

    >>> len(framed(b"abc"))
    19
    """
    length = struct.pack("<Q", len(data))
    return length + _FOOTER.pack(crc32c.masked(length)) + data + _FOOTER.pack(crc32c.masked(data))


def opened(path: str, compression: str = "") -> Any:
    """Opens a TFRecord file for reading.

    Args:
      path: the file.
      compression: ``"ZLIB"`` or ``"GZIP"`` for a file that is to be decompressed while it is read.

    Raises:
      NotFoundError: the file does not exist.
    """
    with named_failures(path, "read"):
        file = open(file_path(path), "rb", buffering=0)  # noqa: SIM115 - the caller reads and closes it
    return Inflated(file, compression, path) if compression else file


def records_of(path: str, compression: str = "") -> Iterator[bytes]:
    """Yields the records of a TFRecord file as byte strings.

    Raises:
      NotFoundError: the file does not exist.
      DataLossError, ResourceExhaustedError: see `unframed`.
    """
    with opened(path, compression) as file, named_failures(path, "read"):
        yield from unframed(file, path)


def unframed(file: Any, source: str = "") -> Iterator[bytes]:
    """Yields the records of an open TFRecord file, after verifying their checksums.

    Many records are checked at once, which is faster. If this check fails, the records are checked one by one to find the
    damaged one.

    Args:
      file: an object with ``read``. In a compressed file the length of a record is limited (``decode_limits``).
      source: the name of the file in errors.

    >>> import io
    >>> list(unframed(io.BytesIO(framed(b"abc") + framed(b""))))
    [b'abc', b'']

    Raises:
      DataLossError: a checksum does not match, or the file ends within a record.
      ResourceExhaustedError: a record of a compressed file exceeds the limit.
    """
    offset = 0
    data = b""
    prefix = f"{source}: " if source else ""
    while more := read_fully(file, _bytes_to_read(data, offset, prefix, isinstance(file, Inflated))):
        data += more
        starts, end = _complete_records(data)
        if starts and not _have_valid_checksums(data[:end], starts):
            break
        ends = [*starts[1:], end]
        yield from (data[start + _HEADER.size : end - _FOOTER.size] for start, end in zip(starts, ends))
        offset, data = offset + end, data[end:]
    # What remains is empty, truncated or damaged. This call yields the intact records, and raises the error.
    yield from _read_one_by_one(io.BytesIO(data), offset, prefix)


def _bytes_to_read(data: bytes, offset: int, prefix: str, is_limited: bool) -> int:
    """Returns how many bytes of a TFRecord file to read next: at least the rest of the current record.

    The length in the record's header is checked first, because a damaged length could exhaust the memory.

    Args:
      data: the bytes of the record that were read already.
      offset: the position of the record in the file, for errors.
      prefix: the start of error messages: the name of the file.
      is_limited: whether the file is compressed, so that the length of a record is limited.
    """
    if len(data) < _HEADER.size:  # the length is not known yet
        return CHUNK
    length, stored = _HEADER.unpack_from(data)
    crc32c.check(data[:8], stored, f"{prefix}length of the record at byte {offset}")  # the length has 8 bytes
    if is_limited:
        require_decodable(length, f"{prefix}the record at byte {offset}")
    return max(CHUNK, length + _HEADER.size + _FOOTER.size - len(data))


def _complete_records(data: bytes) -> tuple[list[int], int]:
    """Finds the complete records in ``data``, a part of a TFRecord file that begins with a record.

    Returns the offsets at which the records start, and the offset at which the last record ends.
    """
    starts: list[int] = []
    position = 0
    while position + _HEADER.size < len(data):
        (content_size,) = _LENGTH(data, position)
        end = position + _HEADER.size + content_size + _FOOTER.size
        if end > len(data):  # an incomplete record
            break
        starts.append(position)
        position = end
    return starts, position


def _have_valid_checksums(data: bytes, starts: Sequence[int]) -> bool:
    """Returns whether all checksums in ``data`` are correct, the TFRecord records at the offsets ``starts``.

    Complement the first 4 bytes of a message, and append its complemented CRC. If the CRC is correct, the result is divisible
    by CRC's polynomial. A concatenation of such results is divisible, too. So one division checks the lengths and contents of
    all records.
    """
    octets = np.frombuffer(data, np.uint8).copy()
    headers = np.array(starts)
    footers = np.append(headers[1:], octets.size) - _FOOTER.size
    four_bytes = np.arange(4)
    # In a header, the checksum of the length follows the length, which has 8 bytes.
    stored_positions = np.concatenate([headers + 8, footers])[:, None] + four_bytes
    checksums = octets[stored_positions].view("<u4")
    octets[stored_positions] = (~crc32c.unmasked(checksums)).view(np.uint8)
    for part_starts in (headers, headers + _HEADER.size):
        octets[part_starts[:, None] + four_bytes] ^= 0xFF
    return crc32c.is_divisible(octets)


def _read_one_by_one(file: IO[bytes], offset: int, prefix: str) -> Iterator[bytes]:
    """Yields the records of a TFRecord file, and verifies the checksums of each record separately.

    Args:
      file: the file's content starting at ``offset``.
      offset: the position of the first record, for errors.
      prefix: the start of error messages: the name of the file.

    Raises:
      DataLossError: a record is damaged or truncated.
    """
    while head := file.read(_HEADER.size):
        length, stored = _HEADER.unpack(_require_complete(head, _HEADER.size, offset, prefix))
        crc32c.check(head[:8], stored, f"{prefix}length of the record at byte {offset}")  # the length has 8 bytes
        body = _require_complete(read_fully(file, length + _FOOTER.size), length + _FOOTER.size, offset, prefix)
        (stored,) = _FOOTER.unpack(body[length:])
        crc32c.check(body[:length], stored, f"{prefix}record at byte {offset}")
        yield body[:length]
        offset += _HEADER.size + len(body)


def _require_complete(data: bytes, size: int, offset: int, prefix: str) -> bytes:
    """Checks that ``size`` bytes were read for the record at ``offset``, and returns the bytes.

    Raises:
      DataLossError: fewer bytes are left, because the file ends within the record.
    """
    if len(data) < size:
        text = f"{prefix}truncated record at {offset}: expected {size} more bytes, got {len(data)}"
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
    """TensorFlow 1's enum value of a compression format -> the name of the format."""

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """Returns the name of a compression format: ``""``, ``"GZIP"`` or ``"ZLIB"``.

        Args:
          options: TFRecordOptions, one of these names, or TensorFlow 1's enum value of the format.

        Raises:
          ValueError: the compression type is unknown.
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
        compression = options.compression_type if isinstance(options, TFRecordOptions) else options
        compression = TFRecordOptions(compression).compression_type  # checks the name
        self._compressor = zlib.compressobj(wbits=WINDOW_BITS[compression]) if compression else None
        self._path = os.fsdecode(path)
        with named_failures(self._path, "write"):
            self._file = open(file_path(path), "wb")  # noqa: SIM115 - closed by `close`

    def write(self, record: bytes) -> None:
        """Appends a record, a byte string, to the file."""
        data = framed(record)
        self._write(self._compressor.compress(data) if self._compressor else data)

    def _write(self, data: bytes) -> None:
        """Writes bytes to the file; errors of the operating system become TensorFlow's types."""
        with named_failures(self._path, "write"):
            self._file.write(data)

    def flush(self) -> None:
        """Writes all records so far to the file, also those that the compressor has buffered."""
        if self._compressor:
            self._write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        with named_failures(self._path, "write"):
            self._file.flush()

    def close(self) -> None:
        """Writes buffered records, and closes the file. Closing it again has no effect."""
        if self._file.closed:
            return
        with named_failures(self._path, "write"), self._file:
            if self._compressor:
                self._file.write(self._compressor.flush())

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
