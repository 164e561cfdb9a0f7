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
    """Returns the CRC-32C of ``data``, or extends ``crc`` (the checksum of what came before) by it.

    Args:
      data: any contiguous buffer: bytes, memoryview, or an array of any shape and dtype.
      crc: checksum of the preceding bytes.

    Returns:
      The checksum, an int below 2**32.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> hex(crc32c(b"6789", crc32c(b"12345")))
    '0xe3069283'
    """
    octets = data if isinstance(data, bytes) else as_bytes(data)
    return extend(crc, octets) if extend else _extended(crc, as_bytes(data))


def mask(crc: int) -> int:
    """Masks a checksum that is stored next to its data, as LevelDB does (leveldb ``util/crc32c.h``).

    >>> mask(0)
    2726488792
    """
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def unmasked(stored: Words) -> Words:
    """Returns the checksums that were masked as ``stored``, uint32.

    >>> unmasked(np.array([2726488792], np.uint32))
    array([0], dtype=uint32)
    """
    turned = stored - np.uint32(MASK_DELTA)
    return (turned >> 17) | (turned << 15)


def masked(data: Any) -> int:
    """Returns ``mask(crc32c(data))``, the form found in files."""
    return mask(crc32c(data))


def is_divisible(octets: npt.NDArray[np.uint8]) -> bool:
    """Returns whether the polynomial divides a message, as it does one after whose complemented first word comes its
    complemented checksum.

    >>> head, rest = np.frombuffer(b"1234", np.uint8), b"56789" + (0xE3069283 ^ 0xFFFFFFFF).to_bytes(4, "little")
    >>> is_divisible(np.concatenate([np.zeros(3, np.uint8), ~head, np.frombuffer(rest, np.uint8)]))
    True
    """
    return crc32c(octets, 0xFFFFFFFF) == 0xFFFFFFFF


def check(data: Any, stored: int, what: str) -> None:
    """Raises ``DataLossError`` unless ``stored`` is the masked checksum of ``data``."""
    check_value(crc32c(data), stored, what)


def check_value(crc: int, stored: int, what: str) -> None:
    """Raises ``DataLossError`` unless ``stored`` is ``crc``, masked."""
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


def _extended(crc: int, octets: npt.NDArray[np.uint8]) -> int:
    """Computes what `crc32c` returns where no package for it is installed."""
    state = crc ^ 0xFFFFFFFF
    for start in range(0, octets.size, SEGMENT_BYTES):
        part = octets[start : start + SEGMENT_BYTES]
        if part.size > SHORT:
            part, state = _shortened(part, state), 0
        state = _bytewise(part, state)
    return state ^ 0xFFFFFFFF


def _bytewise(octets: npt.NDArray[np.uint8], state: int) -> int:
    table = _byte_table()
    for octet in octets.tobytes():
        state = (state >> 8) ^ table[(state ^ octet) & 0xFF]
    return state


def _shortened(octets: npt.NDArray[np.uint8], state: int) -> npt.NDArray[np.uint8]:
    """Returns at most 1,251 bytes of the same remainder, with ``state``; zeros that lead a message change nothing."""
    padded = np.zeros(-(-octets.size // 8) * 8, np.uint8)
    begin = padded.size - octets.size
    padded[begin:] = octets
    padded[begin : begin + 4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
    bits = _fold(np.unpackbits(_fold(_fold(padded.view(np.uint64)).view(np.uint8)), bitorder="little"))
    return np.packbits(np.concatenate([np.zeros(-bits.size % 8, np.uint8), bits]), bitorder="little")


def _fold(items: Words) -> Words:
    """XORs leading items into later ones, three places each, until fewer than 10,008 are left. Overwrites ``items``."""
    whole, *lower = TETRANOMIAL
    start = 0
    while items.size - start >= whole + FOLDED:
        block = items[start : start + FOLDED]
        for power in (*lower, 0):
            target = items[start + whole - power : start + whole - power + FOLDED]
            np.bitwise_xor(target, block, out=target)
        start += FOLDED
    return items[start:]
