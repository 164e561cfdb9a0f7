"""The TFRecord framing of byte strings in a file, which TensorBoard's event files have too.

Source: ``tensorflow/core/lib/io/record_writer.cc``: length (uint64), its masked CRC-32C, the bytes, their masked CRC-32C.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Final

from tvtf import crc32c
from tvtf.errors import DataLossError

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
