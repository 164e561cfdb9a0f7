"""Encodes string tensors in a bundle: varint lengths, a checksum of the lengths, then the bytes.

Source: ``WriteStringTensor`` in ``tensorflow/core/util/tensor_bundle/tensor_bundle.cc``: the entry's checksum covers
the lengths as uint32 (uint64 beyond 4 GB) instead of as varints, the stored checksum, and the bytes.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import numpy as np

from tvtf.errors import DataLossError, InvalidArgumentError
from tvtf.fileio import crc32c
from tvtf.train import table

CHECKSUM_BYTES: Final = 4
LONGEST_UINT32: Final = (1 << 32) - 1

Array = np.ndarray[Any, Any]


def encode(array: Array, key: str) -> tuple[list[Array], int]:
    """Returns the chunks to store and the entry's masked checksum.

    TensorFlow's checksum covers the lengths as integers of fixed size, and not as they are stored.
    """
    values = [_as_bytes(value, key) for value in array.reshape(-1)]
    lengths = [len(value) for value in values]
    crc = crc32c.crc32c(_checked_lengths(lengths))
    stored, content = struct.pack("<I", crc32c.mask(crc)), b"".join(values)
    head = b"".join(map(table.varint, lengths)) + stored
    return [np.frombuffer(head + content, np.uint8)], crc32c.mask(crc32c.crc32c(stored + content, crc))


def _as_bytes(value: Any, key: str) -> bytes:
    """Converts a text to bytes. Raises InvalidArgumentError for other objects."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return bytes(value)
    raise InvalidArgumentError(
        None, None, f"Saving {key}: expected bytes or str in an object array, got {type(value).__name__}."
    )


def _checked_lengths(lengths: list[int]) -> bytes:
    """Returns the lengths as the fixed-size integers that TensorFlow's checksum covers."""
    return b"".join(struct.pack("<I" if size <= LONGEST_UINT32 else "<Q", size) for size in lengths)


def decode(octets: Array, shape: tuple[int, ...], checksum: int, place: str) -> Array:
    """Returns an object array of bytes.

    Raises:
      DataLossError: the lengths or checksums don't match.
    """
    cursor = table.Cursor(octets.tobytes(), place)
    lengths = [cursor.varint() for _ in range(math.prod(shape))]
    crc = crc32c.crc32c(_checked_lengths(lengths)) if all(n < 1 << 64 for n in lengths) else -1
    stored = cursor.bytes(CHECKSUM_BYTES)
    content = cursor.data[cursor.at :]
    if crc < 0 or struct.unpack("<I", stored)[0] != crc32c.mask(crc) or sum(lengths) != len(content):
        raise DataLossError(
            None, None, f"{place}: the string lengths don't match their checksum. Restore an older checkpoint."
        )
    crc32c.check_value(crc32c.crc32c(stored + content, crc), checksum, place)
    array = np.empty(len(lengths), object)
    array[:] = [cursor.bytes(size) for size in lengths]
    return array.reshape(shape)
