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


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotated(value: int, shift: int) -> int:
    """Rotates a 64-bit word to the right."""
    return (value >> shift | value << (64 - shift)) & MASK


def _mixed(value: int) -> int:
    return value ^ value >> 47


def _hash16(u: int, v: int, mul: int) -> int:
    a = _mixed((u ^ v) * mul & MASK)
    b = _mixed((v ^ a) * mul & MASK)
    return b * mul & MASK


def fingerprint64(data: bytes) -> int:
    """Returns FarmHash's fingerprint of a string.

    >>> fingerprint64(b"hello")
    13009744463427800296
    """
    return _to_word(data) if len(data) <= LONGEST_WORD else _beyond_64(data)


@functools.lru_cache(maxsize=1 << 15)
def _to_word(data: bytes) -> int:
    """Fingerprints a short string; cached, for words of a language repeat."""
    size = len(data)
    if size <= 16:
        return _to_16(data)
    return _to_32(data) if size <= 32 else _to_64(data)


def _to_16(s: bytes) -> int:
    """Fingerprints a string of at most 16 bytes."""
    size = len(s)
    mul = (K2 + size * 2) & MASK
    if size >= 8:
        a, b = (_u64(s, 0) + K2) & MASK, _u64(s, size - 8)
        c = (_rotated(b, 37) * mul + a) & MASK
        d = (_rotated(a, 25) + b) * mul & MASK
        return _hash16(c, d, mul)
    if size >= 4:
        return _hash16((size + (_u32(s, 0) << 3)) & MASK, _u32(s, size - 4), mul)
    if not size:
        return K2
    y = s[0] + (s[size >> 1] << 8)
    z = size + (s[-1] << 2)
    return _mixed((y * K2 ^ z * K0) & MASK) * K2 & MASK


def _to_32(s: bytes) -> int:
    """Fingerprints a string of 17 to 32 bytes."""
    return _ends(s, K1, (K2 + len(s) * 2) & MASK)[2]


def _ends(s: bytes, factor: int, mul: int) -> tuple[int, int, int]:
    """Returns the first 8 bytes times ``factor``, and a mixture and the hash of the first and the last 16 bytes."""
    size = len(s)
    a, b = _u64(s, 0) * factor & MASK, _u64(s, 8)
    c, d = _u64(s, size - 8) * mul & MASK, _u64(s, size - 16) * K2 & MASK
    mixed = (_rotated((a + b) & MASK, 43) + _rotated(c, 30) + d) & MASK
    return a, mixed, _hash16(mixed, (a + _rotated((b + K2) & MASK, 18) + c) & MASK, mul)


def _to_64(s: bytes) -> int:
    """Fingerprints a string of 33 to 64 bytes."""
    size = len(s)
    mul = (K2 + size * 2) & MASK
    a, y, z = _ends(s, K2, mul)
    e, f = _u64(s, 16) * mul & MASK, _u64(s, 24)
    g, h = (y + _u64(s, size - 32)) * mul & MASK, (z + _u64(s, size - 24)) * mul & MASK
    first = (_rotated((e + f) & MASK, 43) + _rotated(g, 30) + h) & MASK
    return _hash16(first, (e + _rotated((f + a) & MASK, 18) + g) & MASK, mul)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Mixes 32 bytes into two seeds; FarmHash's ``WeakHashLen32WithSeeds``."""
    w, x, y, z = (_u64(s, at + i) for i in (0, 8, 16, 24))
    a = (a + w) & MASK
    b = _rotated((b + a + z) & MASK, 21)
    c = a
    a = (a + x + y) & MASK
    b = (b + _rotated(a, 44)) & MASK
    return (a + z) & MASK, (b + c) & MASK


def _beyond_64(s: bytes) -> int:
    """Fingerprints a string of more than 64 bytes, in blocks of 64."""
    size, seed = len(s), 81
    x, y = seed, (seed * K1 + 113) & MASK
    z = _mixed((y * K2 + 113) & MASK) * K2 & MASK
    v, w = (0, 0), (0, 0)
    x = (x * K2 + _u64(s, 0)) & MASK
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x = _rotated((x + y + v[0] + _u64(s, at + 8)) & MASK, 37) * K1 & MASK
        y = _rotated((y + v[1] + _u64(s, at + 48)) & MASK, 42) * K1 & MASK
        x ^= w[1]
        y = (y + v[0] + _u64(s, at + 40)) & MASK
        z = _rotated((z + w[0]) & MASK, 33) * K1 & MASK
        v = _weak(s, at, v[1] * K1 & MASK, (x + w[0]) & MASK)
        w = _weak(s, at + 32, (z + w[1]) & MASK, (y + _u64(s, at + 16)) & MASK)
        z, x = x, z
    mul = (K1 + ((z & 0xFF) << 1)) & MASK
    at = size - 64
    w = ((w[0] + ((size - 1) & 63)) & MASK, w[1])
    v = ((v[0] + w[0]) & MASK, v[1])
    w = ((w[0] + v[0]) & MASK, w[1])
    x = _rotated((x + y + v[0] + _u64(s, at + 8)) & MASK, 37) * mul & MASK
    y = _rotated((y + v[1] + _u64(s, at + 48)) & MASK, 42) * mul & MASK
    x ^= w[1] * 9 & MASK
    y = (y + v[0] * 9 + _u64(s, at + 40)) & MASK
    z = _rotated((z + w[0]) & MASK, 33) * mul & MASK
    v = _weak(s, at, v[1] * mul & MASK, (x + w[0]) & MASK)
    w = _weak(s, at + 32, (z + w[1]) & MASK, (y + _u64(s, at + 16)) & MASK)
    z, x = x, z
    first = (_hash16(v[0], w[0], mul) + _mixed(y) * K0 + z) & MASK
    return _hash16(first, (_hash16(v[1], w[1], mul) + x) & MASK, mul)


MURMUR = 0xC6A4A7935BD1E995
SEED = 0xDECAFCAFFE


def hash64(data: bytes) -> int:
    """Returns the 64-bit MurmurHash2 with TensorFlow's seed."""
    h = SEED ^ (len(data) * MURMUR & MASK)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        k = _u64(data, at) * MURMUR & MASK
        k = (k ^ k >> 47) * MURMUR & MASK
        h = (h ^ k) * MURMUR & MASK
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * MURMUR & MASK
    h = _mixed(h) * MURMUR & MASK
    return _mixed(h)


def siphash(key: tuple[int, int], data: bytes) -> int:
    """Returns SipHash-2-4 with a key of 128 bits."""
    v = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], count: int) -> None:
    """Applies SipHash's rounds to its four words."""
    for _ in range(count):
        v[0] = (v[0] + v[1]) & MASK
        v[1] = _rotated(v[1], 51) ^ v[0]
        v[0] = _rotated(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = _rotated(v[3], 48) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = _rotated(v[3], 43) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = _rotated(v[1], 47) ^ v[2]
        v[2] = _rotated(v[2], 32)


def fingerprint_cat64(first: int, second: int) -> int:
    """Returns the fingerprint of two fingerprints, in this order.

    >>> fingerprint_cat64(1, 2)
    14454907135238785252

    Source: ``FingerprintCat64`` in ``tensorflow/core/platform/fingerprint.h``
    """
    factor, all_bits = 0xC6A4A7935BD1E995, (1 << 64) - 1
    mixed = second * factor & all_bits
    result = first ^ factor ^ ((mixed ^ mixed >> 47) * factor & all_bits)
    result = result * factor & all_bits
    result = (result ^ result >> 47) * factor & all_bits
    return result ^ result >> 47
