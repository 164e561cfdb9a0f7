"""CRC-32C (Castagnoli, RFC 3720 appendix B.4), and the masking LevelDB and TensorFlow store it with.

The package google-crc32c computes it where it is installed (``pip install tvtf[fast]``). Where it is not, a table alone
would take 6 s for 64 MB of a checkpoint, so NumPy shortens messages first (20 ms; the package 4 ms).

A checksum is linear over GF(2), and the polynomial divides ``x^5685 + x^1362 + x^426 + 1`` and hence, squaring in GF(2), the
same polynomial in ``x^8`` and in ``x^64``: a word, byte or bit may be XORed into three later positions and then dropped,
which NumPy does at memory speed. The idea is that of Chorba (Russell, "Chorba: A novel CRC32 implementation",
arXiv:2412.16398); the tetranomial is tvtf's own search result.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tvtf.core.integers import round_up
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
    """Computes the CRC-32C of ``data``, or of a longer message that ends in ``data``.

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
    """Computes the masked CRC-32C of ``data``, the form of checksum that files store."""
    return mask(crc32c(data))


def is_divisible(octets: npt.NDArray[np.uint8]) -> bool:
    """Returns whether a message, read as a polynomial over GF(2), is divisible by CRC-32C's polynomial.

    This verifies checksums: complement the first 4 bytes of a message, and append its complemented checksum. The result is
    divisible if the checksum is correct.

    >>> head, rest = np.frombuffer(b"1234", np.uint8), b"56789" + (0xE3069283 ^ 0xFFFFFFFF).to_bytes(4, "little")
    >>> is_divisible(np.concatenate([np.zeros(3, np.uint8), ~head, np.frombuffer(rest, np.uint8)]))
    True
    """
    # `crc32c` complements its state before and after. So this call starts from state 0, and remainder 0 gives 0xFFFFFFFF.
    return crc32c(octets, 0xFFFFFFFF) == 0xFFFFFFFF


def check(data: Any, stored: int, what: str) -> None:
    """Checks that ``stored`` is the masked CRC-32C of ``data``; ``what`` names the data in errors.

    Raises:
      DataLossError: ``stored`` is not the checksum of ``data``.
    """
    check_value(crc32c(data), stored, what)


def check_value(crc: int, stored: int, what: str) -> None:
    """Checks a computed checksum against the masked checksum that a file stores.

    Args:
      crc: the computed CRC-32C, not masked.
      stored: the masked CRC-32C in the file.
      what: the name of the data in errors.

    Raises:
      DataLossError: the checksums differ.
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
    """Returns a one-dimensional uint8 view of a contiguous buffer or array, without a copy."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


@functools.cache
def _byte_table() -> tuple[int, ...]:
    """Returns the table for computing a CRC-32C byte by byte: the change of the state for each value of a byte."""
    return tuple(
        functools.reduce(lambda state, _: (state >> 1) ^ (POLYNOMIAL if state & 1 else 0), range(8), octet)
        for octet in range(256)
    )


def _crc32c_by_numpy(crc: int, octets: npt.NDArray[np.uint8]) -> int:
    """Computes a CRC-32C with NumPy, for systems without the compiled package google-crc32c.

    A loop over bytes would be slow. So each long segment is replaced by a short message with the same checksum.

    Args:
      crc: the checksum of the message's part before ``octets``, 0 if there is none.
      octets: the bytes of the message.
    """
    state = crc ^ 0xFFFFFFFF  # a checksum is the complement of the state
    for start in range(0, octets.size, SEGMENT_BYTES):
        segment = octets[start : start + SEGMENT_BYTES]
        if segment.size > SHORT:
            segment, state = _shortened_message(segment, state), 0
        state = _bytewise(segment, state)
    return state ^ 0xFFFFFFFF


def _bytewise(octets: npt.NDArray[np.uint8], state: int) -> int:
    """Computes the state of a CRC-32C after more bytes, byte by byte; the checksum is the complement of the state."""
    table = _byte_table()
    for octet in octets.tobytes():
        state = (state >> 8) ^ table[(state ^ octet) & 0xFF]
    return state


def _shortened_message(octets: npt.NDArray[np.uint8], state: int) -> npt.NDArray[np.uint8]:
    """Returns a short message with the same CRC-32C as a long one.

    The CRC of the result, from state 0, equals the CRC of ``octets`` from ``state``. The result has at most 1,251 bytes.
    Leading words of 64 bits are XORed into later words, then leading bytes into later bytes, then leading bits into later bits.
    """
    # From state 0, leading zeros don't change a CRC. They fill the first word.
    padded = np.zeros(round_up(octets.size, 8), np.uint8)
    start = padded.size - octets.size
    padded[start:] = octets
    # A state has the same effect as XORing it into the first 4 bytes.
    padded[start : start + 4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
    words = _xor_forward(padded.view(np.uint64))
    remaining_octets = _xor_forward(words.view(np.uint8))
    bits = _xor_forward(np.unpackbits(remaining_octets, bitorder="little"))
    return np.packbits(np.concatenate([np.zeros(-bits.size % 8, np.uint8), bits]), bitorder="little")


def _xor_forward(items: Words) -> Words:
    """XORs leading items of a message (words, bytes or bits) into later items, and returns the later items.

    The message's CRC stays the same: CRC-32C's polynomial divides a polynomial of four terms, ``TETRANOMIAL``. Modulo this
    polynomial, an item equals copies of it at three later positions. Fewer than 10,008 items are left. ``items`` is overwritten.
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
