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
MAX_UINT32: Final = (1 << 32) - 1

Array = np.ndarray[Any, Any]


def encode(array: Array, key: str) -> tuple[list[Array], int]:
    """Encodes an array of strings for a checkpoint bundle: returns the bytes (a list of arrays) and masked checksum.

    The bytes consist of the strings' lengths as varints, the checksum of the lengths, and the strings. As in
    TensorFlow, the checksum covers the lengths as integers of fixed size, not as varints.
    """
    values = [_as_bytes(value, key) for value in array.reshape(-1)]
    lengths = [len(value) for value in values]
    lengths_crc = crc32c.crc32c(_checked_lengths(lengths))
    stored_checksum = struct.pack("<I", crc32c.mask(lengths_crc))
    content = b"".join(values)
    header = b"".join(map(table.varint, lengths)) + stored_checksum
    checksum = crc32c.crc32c(stored_checksum + content, lengths_crc)
    return [np.frombuffer(header + content, np.uint8)], crc32c.mask(checksum)


def _as_bytes(value: Any, key: str) -> bytes:
    """Converts an element of an array of strings to bytes. Raises InvalidArgumentError if it is no str or bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return bytes(value)  # NumPy's bytes_ becomes bytes
    raise InvalidArgumentError(
        None, None, f"Saving {key}: expected bytes or str in an object array, got {type(value).__name__}."
    )


def _checked_lengths(lengths: list[int]) -> bytes:
    """Returns the lengths as the fixed-size integers that TensorFlow's checksum covers."""
    return b"".join(struct.pack("<I" if size <= MAX_UINT32 else "<Q", size) for size in lengths)


def decode(octets: Array, shape: tuple[int, ...], checksum: int, source: str) -> Array:
    """Decodes the strings of a bundle's entry to an array of bytes objects; ``source`` names the entry in errors.

    Raises:
      DataLossError: the lengths or checksums don't match.
    """
    cursor = table.Cursor(octets.tobytes(), source)
    lengths = [cursor.varint() for _ in range(math.prod(shape))]
    are_64_bit = all(length < 1 << 64 for length in lengths)
    lengths_crc = crc32c.crc32c(_checked_lengths(lengths)) if are_64_bit else 0
    stored_checksum = cursor.bytes(CHECKSUM_BYTES)
    (expected_checksum,) = struct.unpack("<I", stored_checksum)
    content = cursor.data[cursor.position :]
    matches = are_64_bit and expected_checksum == crc32c.mask(lengths_crc)
    if not matches or sum(lengths) != len(content):
        raise DataLossError(
            None, None, f"{source}: the string lengths don't match their checksum. Restore an older checkpoint."
        )
    crc32c.check_value(crc32c.crc32c(stored_checksum + content, lengths_crc), checksum, source)
    array = np.empty(len(lengths), object)
    array[:] = [cursor.bytes(size) for size in lengths]
    return array.reshape(shape)
