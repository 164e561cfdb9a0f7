"""CRC-32C (Castagnoli, RFC 3720 appendix B.4), and the masking LevelDB and TensorFlow store it with.

The package google-crc32c computes it where it is installed (``pip install tvtf[fast]``). Where it is not, a table alone
would take 6 s for 64 MB of a checkpoint, so NumPy shortens messages first (20 ms; the package 4 ms).

A checksum is linear over GF(2), and the polynomial divides ``x^5685 + x^1362 + x^426 + 1`` and hence, squaring in GF(2), the
same polynomial in ``x^8`` and in ``x^64``: a whole word, byte or bit may be XORed into three later places and forgotten,
which NumPy does at memory speed. The idea is that of Chorba (Russell, "Chorba: A novel CRC32 implementation",
arXiv:2412.16398); the tetranomial is tvtf's own search result.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tvtf.errors import DataLossError

try:
    from google_crc32c.cext import extend
except (ImportError, RuntimeWarning):  # not there, or without its C code, of which it warns and is slower than this
    extend = None

POLYNOMIAL: Final = 0x82F63B78
MASK_DELTA: Final = 0xA282EAD8
SHORT: Final = 1300
"""Bytes below which a table is faster than NumPy."""
TETRANOMIAL: Final = (5685, 1362, 426)
FOLDED: Final = TETRANOMIAL[0] - TETRANOMIAL[1]
SEGMENT_BYTES: Final = 1 << 20
"""What is shortened at once: more would not stay in the cache."""

Words = npt.NDArray[Any]


def crc32c(data: Any, crc: int = 0) -> int:
    """Returns the CRC-32C of ``data``, or of a longer message that ends in ``data``.

    Args:
      data: any contiguous buffer: bytes, memoryview, or an array of any shape and dtype.
      crc: the checksum of the message's bytes before ``data``.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> hex(crc32c(b"6789", crc32c(b"12345")))
    '0xe3069283'
    """
    octets = data if isinstance(data, bytes) else as_bytes(data)
    return extend(crc, octets) if extend else _crc32c_by_numpy(crc, as_bytes(data))


def mask(crc: int) -> int:
    """Masks a checksum that is stored next to its data, as LevelDB does (leveldb ``util/crc32c.h``).

    >>> mask(0)
    2726488792
    """
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def unmasked(stored: Words) -> Words:
    """Returns the checksums whose masked forms are ``stored``, an array of uint32: the inverse of `mask`.

    >>> unmasked(np.array([2726488792], np.uint32))
    array([0], dtype=uint32)
    """
    rotated = stored - np.uint32(MASK_DELTA)
    return (rotated >> 17) | (rotated << 15)


def masked(data: Any) -> int:
    """Returns ``mask(crc32c(data))``, the form found in files."""
    return mask(crc32c(data))


def is_divisible(octets: npt.NDArray[np.uint8]) -> bool:
    """Returns whether CRC-32C's polynomial divides a message, read as a polynomial over GF(2).

    It divides a message whose first 4 bytes are complemented and which is followed by its complemented checksum.

    >>> head, rest = np.frombuffer(b"1234", np.uint8), b"56789" + (0xE3069283 ^ 0xFFFFFFFF).to_bytes(4, "little")
    >>> is_divisible(np.concatenate([np.zeros(3, np.uint8), ~head, np.frombuffer(rest, np.uint8)]))
    True
    """
    # `crc32c` complements its state before and after: the remainder 0 from the initial state 0 gives 0xFFFFFFFF.
    return crc32c(octets, 0xFFFFFFFF) == 0xFFFFFFFF


def check(data: Any, stored: int, what: str) -> None:
    """Raises ``DataLossError`` unless ``stored`` is the masked checksum of ``data``."""
    check_value(crc32c(data), stored, what)


def check_value(crc: int, stored: int, what: str) -> None:
    """Checks a computed checksum ``crc`` against the masked one that a file stores; ``what`` names the data in errors.

    Raises:
      DataLossError: they differ.
    """
    computed = mask(crc)
    if computed != stored:
        raise DataLossError(
            None,
            None,
            f"{what}: checksum does not match: stored {stored:#010x}, computed {computed:#010x}. "
            "The file is damaged; restore an older checkpoint.",
        )


def as_bytes(data: Any) -> npt.NDArray[np.uint8]:
    """Views a contiguous buffer as flat uint8, without a copy."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


@functools.cache
def _byte_table() -> tuple[int, ...]:
    return tuple(
        functools.reduce(lambda v, _: (v >> 1) ^ (POLYNOMIAL if v & 1 else 0), range(8), n) for n in range(256)
    )


def _crc32c_by_numpy(crc: int, octets: npt.NDArray[np.uint8]) -> int:
    """Computes the CRC-32C of a message that continues one with checksum ``crc``, without a package of compiled code.

    Long parts are replaced by short messages with the same checksum, as the table of bytes is slow.
    """
    state = crc ^ 0xFFFFFFFF
    for start in range(0, octets.size, SEGMENT_BYTES):
        segment = octets[start : start + SEGMENT_BYTES]
        if segment.size > SHORT:
            segment, state = _shortened_message(segment, state), 0
        state = _bytewise(segment, state)
    return state ^ 0xFFFFFFFF


def _bytewise(octets: npt.NDArray[np.uint8], state: int) -> int:
    table = _byte_table()
    for octet in octets.tobytes():
        state = (state >> 8) ^ table[(state ^ octet) & 0xFF]
    return state


def _shortened_message(octets: npt.NDArray[np.uint8], state: int) -> npt.NDArray[np.uint8]:
    """Returns a message of at most 1,251 bytes whose checksum from state 0 is that of ``octets`` from ``state``.

    The state is XORed into the first 4 bytes. Zeros are put before the message, which don't change its checksum, so that it
    can be read as 64-bit words. These are XORed into later ones, then bytes, then bits.
    """
    padded = np.zeros(-(-octets.size // 8) * 8, np.uint8)
    start = padded.size - octets.size
    padded[start:] = octets
    padded[start : start + 4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
    words = _xor_forward(padded.view(np.uint64))
    remaining_octets = _xor_forward(words.view(np.uint8))
    bits = _xor_forward(np.unpackbits(remaining_octets, bitorder="little"))
    return np.packbits(np.concatenate([np.zeros(-bits.size % 8, np.uint8), bits]), bitorder="little")


def _xor_forward(items: Words) -> Words:
    """XORs leading items of a message (words, bytes or bits) into later ones, until fewer than 10,008 items are left.

    Modulo the tetranomial, which CRC's polynomial divides, an item equals its copies at three later places. ``items`` is
    overwritten.
    """
    degree, *lower = TETRANOMIAL
    start = 0
    while items.size - start >= degree + FOLDED:
        block = items[start : start + FOLDED]
        for power in (*lower, 0):
            target = items[start + degree - power : start + degree - power + FOLDED]
            np.bitwise_xor(target, block, out=target)
        start += FOLDED
    return items[start:]
