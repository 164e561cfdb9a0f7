"""CRC-32C (Castagnoli, RFC 3720 appendix B.4) in NumPy, and the masking LevelDB and TensorFlow store it with.

A checksum is linear over GF(2), so a message can be shortened before it is divided. The polynomial divides
``x^5685 + x^1362 + x^426 + 1`` and hence, squaring in GF(2), the same polynomial in ``x^8`` and in ``x^64``: whole
bytes or words may be XORed into three later places and forgotten, which NumPy does at memory speed. The idea is that of
Chorba (Russell, "Chorba: A novel CRC32 implementation", arXiv:2412.16398); the tetranomial is tvtf's own search result.
What is left, a few kB, is folded in halves with table look-ups.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tvtf.errors import DataLossError

POLYNOMIAL: Final = 0x82F63B78
MASK_DELTA: Final = 0xA282EAD8
TETRANOMIAL: Final = (5685, 1362, 426)
FOLDED: Final = TETRANOMIAL[0] - TETRANOMIAL[1]
SEGMENT_BYTES: Final = 1 << 20
BYTEWISE_LIMIT: Final = 256
WORD_ORDER: Final = np.dtype("<u4")

Words = npt.NDArray[Any]


def crc32c(data: Any, crc: int = 0) -> int:
    """Return the CRC-32C of ``data``, or extend ``crc`` (the checksum of what came before) by it.

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
    octets = as_bytes(data)
    if octets.size < BYTEWISE_LIMIT:
        return _bytewise(octets.tobytes(), crc)
    return _divide(_fold_segments(octets, crc ^ 0xFFFFFFFF)) ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """Mask a checksum that is stored next to its data, as LevelDB does (leveldb ``util/crc32c.h``).

    >>> mask(0)
    2726488792
    """
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def unmasked(stored: Words) -> Words:
    """The checksums that were masked as ``stored``, uint32.

    >>> unmasked(np.array([2726488792], np.uint32))
    array([0], dtype=uint32)
    """
    turned = stored - np.uint32(MASK_DELTA)
    return (turned >> 17) | (turned << 15)


def masked(data: Any) -> int:
    """Return ``mask(crc32c(data))``, the form found in files."""
    return mask(crc32c(data))


def is_divisible(octets: npt.NDArray[np.uint8]) -> bool:
    """Whether the polynomial divides 16 bytes or more, as it does a message after whose complemented first word comes
    its complemented checksum.

    >>> head, rest = np.frombuffer(b"1234", np.uint8), b"56789" + (0xE3069283 ^ 0xFFFFFFFF).to_bytes(4, "little")
    >>> is_divisible(np.concatenate([np.zeros(3, np.uint8), ~head, np.frombuffer(rest, np.uint8)]))
    True
    """
    return not _divide(_fold_segments(octets, 0))


def check(data: Any, stored: int, what: str) -> None:
    """Raise ``DataLossError`` unless ``stored`` is the masked checksum of ``data``."""
    check_value(crc32c(data), stored, what)


def check_value(crc: int, stored: int, what: str) -> None:
    """Raise ``DataLossError`` unless ``stored`` is ``crc``, masked."""
    computed = mask(crc)
    if computed != stored:
        raise DataLossError(
            None,
            None,
            f"{what}: checksum does not match: stored {stored:#010x}, computed {computed:#010x}. "
            "The file is damaged; restore an older checkpoint.",
        )


def as_bytes(data: Any) -> npt.NDArray[np.uint8]:
    """View a contiguous buffer as flat uint8, without a copy."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


@functools.cache
def _byte_table() -> tuple[int, ...]:
    return tuple(
        functools.reduce(lambda v, _: (v >> 1) ^ (POLYNOMIAL if v & 1 else 0), range(8), n) for n in range(256)
    )


def _bytewise(octets: bytes, crc: int) -> int:
    table, state = _byte_table(), crc ^ 0xFFFFFFFF
    for octet in octets:
        state = (state >> 8) ^ table[(state ^ octet) & 0xFF]
    return state ^ 0xFFFFFFFF


def _fold_segments(octets: npt.NDArray[np.uint8], state: int) -> npt.NDArray[np.uint8]:
    """Shorten a message to under 10,008 bytes with the same remainder; leading zero bytes change nothing."""
    rest, start = _with_state(octets[: 8 + octets.size % 8], state), 8 + octets.size % 8
    while start < octets.size:
        segment = octets[start : start + SEGMENT_BYTES]
        rest = _fold(np.concatenate([rest, segment]).view(np.uint64)).view(np.uint8)
        start += segment.size
    return _fold(rest)


def _with_state(head: npt.NDArray[np.uint8], state: int) -> npt.NDArray[np.uint8]:
    padded = np.zeros(16, np.uint8)
    begin = 16 - head.size
    padded[begin:] = head
    padded[begin : begin + 4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
    return padded


def _fold(items: Words) -> Words:
    """XOR leading items into later ones, three places each, until fewer than 10,008 are left. Overwrites ``items``."""
    whole, *lower = TETRANOMIAL
    start = 0
    while items.size - start >= whole + FOLDED:
        block = items[start : start + FOLDED]
        for power in (*lower, 0):
            target = items[start + whole - power : start + whole - power + FOLDED]
            np.bitwise_xor(target, block, out=target)
        start += FOLDED
    return items[start:]


def _divide(octets: npt.NDArray[np.uint8]) -> int:
    """Remainder of a short message, by folding its first half onto its second until one word is left."""
    levels = max(octets.size - 1, 4).bit_length() - 2
    words = np.zeros(1 << levels, WORD_ORDER)
    words.view(np.uint8)[words.nbytes - octets.size :] = octets
    for level in reversed(range(levels)):
        half = 1 << level
        words = _shift(words[:half], level) ^ words[half:]
    return int(_shift(words, 0)[0])


def _shift(words: Words, level: int) -> Words:
    """Multiply each word by ``x^(32 * 2^level)`` modulo the polynomial."""
    table, parts = _shift_table(level), words.view(np.uint8).reshape(-1, 4)
    product: Words = table[0][parts[:, 0]] ^ table[1][parts[:, 1]] ^ table[2][parts[:, 2]] ^ table[3][parts[:, 3]]
    return product


@functools.cache
def _shift_table(level: int) -> Words:
    """Four tables of 256 words: the product of each byte value at each byte position."""
    if level:
        below = _shift_table(level - 1)
        return _shift(below.reshape(-1), level - 1).reshape(4, 256)
    return np.array(
        [_four_zero_bytes(value << 8 * place) for place in range(4) for value in range(256)], WORD_ORDER
    ).reshape(4, 256)


def _four_zero_bytes(state: int) -> int:
    return functools.reduce(lambda v, _: (v >> 8) ^ _byte_table()[v & 0xFF], range(4), state)
