"""TensorFlow's hashes of strings: FarmHash's Fingerprint64, MurmurHash64 and SipHash. Their values are part of its API.

Sources: ``Fingerprint64`` of https://github.com/google/farmhash (``farmhashna::Hash64``), ``tensorflow/core/lib/hash/hash.cc``
(``Hash64``), and SipHash-2-4, https://www.aumasson.jp/siphash/siphash.pdf.
"""

from __future__ import annotations

import functools
import struct

MASK = (1 << 64) - 1
LONGEST_WORD = 64
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _u64(data: bytes, offset: int) -> int:
    """Reads a little-endian 64-bit word at a byte offset."""
    return int.from_bytes(data[offset : offset + 8], "little")


def _u32(data: bytes, offset: int) -> int:
    """Reads a little-endian 32-bit word at a byte offset."""
    return int.from_bytes(data[offset : offset + 4], "little")


def _rotate_right(value: int, shift: int) -> int:
    """Rotates a 64-bit word to the right."""
    return (value >> shift | value << (64 - shift)) & MASK


def _shift_mix(value: int) -> int:
    """Mixes the upper bits of a word into its lower ones: FarmHash's ``ShiftMix``."""
    return value ^ value >> 47


def _hash16(u: int, v: int, mul: int) -> int:
    """Hashes two words to one by multiplication: FarmHash's ``HashLen16``."""
    a = _shift_mix((u ^ v) * mul & MASK)
    b = _shift_mix((v ^ a) * mul & MASK)
    return b * mul & MASK


def fingerprint64(data: bytes) -> int:
    """Returns FarmHash's fingerprint of a string.

    >>> fingerprint64(b"hello")
    13009744463427800296
    """
    return _fingerprint_to_64_bytes(data) if len(data) <= LONGEST_WORD else _fingerprint_beyond_64_bytes(data)


@functools.lru_cache(maxsize=1 << 15)
def _fingerprint_to_64_bytes(data: bytes) -> int:
    """Fingerprints a string of at most 64 bytes. The result is cached, because words of a language repeat."""
    size = len(data)
    if size <= 16:
        return _fingerprint_to_16(data)
    return _fingerprint_to_32(data) if size <= 32 else _fingerprint_to_64(data)


def _fingerprint_to_16(data: bytes) -> int:
    """Computes FarmHash's 64-bit fingerprint of a string of at most 16 bytes.

    The steps and constants are those of ``HashLen0to16`` in FarmHash's farmhashna.
    """
    size = len(data)
    mul = (K2 + size * 2) & MASK
    if size >= 8:
        a = (_u64(data, 0) + K2) & MASK
        b = _u64(data, size - 8)
        c = (_rotate_right(b, 37) * mul + a) & MASK
        d = (_rotate_right(a, 25) + b) * mul & MASK
        return _hash16(c, d, mul)
    if size >= 4:
        return _hash16((size + (_u32(data, 0) << 3)) & MASK, _u32(data, size - 4), mul)
    if not size:
        return K2
    y = data[0] + (data[size >> 1] << 8)
    z = size + (data[-1] << 2)
    return _shift_mix((y * K2 ^ z * K0) & MASK) * K2 & MASK


def _fingerprint_to_32(data: bytes) -> int:
    """Fingerprints a string of 17 to 32 bytes."""
    return _mix_ends(data, K1, (K2 + len(data) * 2) & MASK)[2]


def _mix_ends(data: bytes, factor: int, mul: int) -> tuple[int, int, int]:
    """Mixes the first and the last 16 bytes of a string, a step of FarmHash's fingerprint.

    Returns the first 8 bytes times ``factor``, an intermediate mixture, and the hash of both ends. ``mul`` is the
    multiplier that depends on the string's length.
    """
    size = len(data)
    a = _u64(data, 0) * factor & MASK
    b = _u64(data, 8)
    c = _u64(data, size - 8) * mul & MASK
    d = _u64(data, size - 16) * K2 & MASK
    mixed = (_rotate_right((a + b) & MASK, 43) + _rotate_right(c, 30) + d) & MASK
    other_mixed = (a + _rotate_right((b + K2) & MASK, 18) + c) & MASK
    return a, mixed, _hash16(mixed, other_mixed, mul)


def _fingerprint_to_64(data: bytes) -> int:
    """Computes FarmHash's 64-bit fingerprint of a string of 33 to 64 bytes.

    The steps and constants are those of ``HashLen33to64`` in FarmHash's farmhashna.
    """
    size = len(data)
    mul = (K2 + size * 2) & MASK
    a, y, z = _mix_ends(data, K2, mul)
    e = _u64(data, 16) * mul & MASK
    f = _u64(data, 24)
    g = (y + _u64(data, size - 32)) * mul & MASK
    h = (z + _u64(data, size - 24)) * mul & MASK
    first = (_rotate_right((e + f) & MASK, 43) + _rotate_right(g, 30) + h) & MASK
    second = (e + _rotate_right((f + a) & MASK, 18) + g) & MASK
    return _hash16(first, second, mul)


def _weak_hash(data: bytes, offset: int, a: int, b: int) -> tuple[int, int]:
    """Mixes 32 bytes from an offset into the seeds ``a`` and ``b``, and returns the two new seeds.

    The steps are those of FarmHash's ``WeakHashLen32WithSeeds``.
    """
    w, x, y, z = (_u64(data, offset + i) for i in (0, 8, 16, 24))
    a = (a + w) & MASK
    b = _rotate_right((b + a + z) & MASK, 21)
    c = a  # the sum before x and y are added
    a = (a + x + y) & MASK
    b = (b + _rotate_right(a, 44)) & MASK
    return (a + z) & MASK, (b + c) & MASK


def _fingerprint_beyond_64_bytes(data: bytes) -> int:
    """Fingerprints a string of more than 64 bytes, in blocks of 64, the last of which may overlap the one before."""
    size = len(data)
    seed = 81
    x = seed
    y = (seed * K1 + 113) & MASK
    z = _shift_mix((y * K2 + 113) & MASK) * K2 & MASK
    v = (0, 0)
    w = (0, 0)
    x = (x * K2 + _u64(data, 0)) & MASK
    end = (size - 1) // 64 * 64
    for offset in range(0, end, 64):
        x = _rotate_right((x + y + v[0] + _u64(data, offset + 8)) & MASK, 37) * K1 & MASK
        y = _rotate_right((y + v[1] + _u64(data, offset + 48)) & MASK, 42) * K1 & MASK
        x ^= w[1]
        y = (y + v[0] + _u64(data, offset + 40)) & MASK
        z = _rotate_right((z + w[0]) & MASK, 33) * K1 & MASK
        v = _weak_hash(data, offset, v[1] * K1 & MASK, (x + w[0]) & MASK)
        w = _weak_hash(data, offset + 32, (z + w[1]) & MASK, (y + _u64(data, offset + 16)) & MASK)
        z, x = x, z
    mul = (K1 + ((z & 0xFF) << 1)) & MASK
    offset = size - 64
    w = ((w[0] + ((size - 1) & 63)) & MASK, w[1])
    v = ((v[0] + w[0]) & MASK, v[1])
    w = ((w[0] + v[0]) & MASK, w[1])
    x = _rotate_right((x + y + v[0] + _u64(data, offset + 8)) & MASK, 37) * mul & MASK
    y = _rotate_right((y + v[1] + _u64(data, offset + 48)) & MASK, 42) * mul & MASK
    x ^= w[1] * 9 & MASK
    y = (y + v[0] * 9 + _u64(data, offset + 40)) & MASK
    z = _rotate_right((z + w[0]) & MASK, 33) * mul & MASK
    v = _weak_hash(data, offset, v[1] * mul & MASK, (x + w[0]) & MASK)
    w = _weak_hash(data, offset + 32, (z + w[1]) & MASK, (y + _u64(data, offset + 16)) & MASK)
    z, x = x, z
    hash_of_low = (_hash16(v[0], w[0], mul) + _shift_mix(y) * K0 + z) & MASK
    return _hash16(hash_of_low, (_hash16(v[1], w[1], mul) + x) & MASK, mul)


MURMUR = 0xC6A4A7935BD1E995
SEED = 0xDECAFCAFFE


def hash64(data: bytes) -> int:
    """Computes the 64-bit MurmurHash2 of a string with TensorFlow's seed.

    ``& MASK`` keeps the lower 64 bits, as arithmetic in C does.
    """
    result = SEED ^ (len(data) * MURMUR & MASK)
    whole_words_size = len(data) & ~7  # words have 8 bytes
    for offset in range(0, whole_words_size, 8):
        word = _u64(data, offset) * MURMUR & MASK
        word = (word ^ word >> 47) * MURMUR & MASK
        result = (result ^ word) * MURMUR & MASK
    if tail := data[whole_words_size:]:
        result = (result ^ int.from_bytes(tail, "little")) * MURMUR & MASK
    result = _shift_mix(result) * MURMUR & MASK
    return _shift_mix(result)


def siphash(key: tuple[int, int], data: bytes) -> int:
    """Computes the 64-bit keyed hash SipHash-2-4 of a string. The key has two words of 64 bits.

    The constants and the numbers of rounds, 2 for each word and 4 at the end, are those of the algorithm.
    """
    state = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]
    # Padded with zeros to a multiple of 8 bytes; the last byte is the length modulo 256.
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(v: list[int], count: int) -> None:
    """Applies ``count`` rounds of the hash SipHash to the state ``v``, a list of four 64-bit words, in place."""
    for _ in range(count):
        v[0] = (v[0] + v[1]) & MASK
        v[1] = _rotate_right(v[1], 51) ^ v[0]  # SipHash's rotation left by 13 is one right by 51
        v[0] = _rotate_right(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = _rotate_right(v[3], 48) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = _rotate_right(v[3], 43) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = _rotate_right(v[1], 47) ^ v[2]
        v[2] = _rotate_right(v[2], 32)


def fingerprint_cat64(first: int, second: int) -> int:
    """Returns the fingerprint of two fingerprints, in this order.

    >>> fingerprint_cat64(1, 2)
    14454907135238785252

    Source: ``FingerprintCat64`` in ``tensorflow/core/platform/fingerprint.h``
    """
    factor = 0xC6A4A7935BD1E995
    all_bits = (1 << 64) - 1
    mixed_second = second * factor & all_bits
    result = first ^ factor ^ ((mixed_second ^ mixed_second >> 47) * factor & all_bits)
    result = result * factor & all_bits
    result = (result ^ result >> 47) * factor & all_bits
    return result ^ result >> 47
