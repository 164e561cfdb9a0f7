"""Decodes PNG files of every depth by Pillow's zip decoder, and encodes images as PNG files.

Opening a whole file with Pillow would not do, for it keeps 8 of 16 bits a channel. Its decoder of compressed rows, which
also undoes filters and interlacing, decodes the pixels' bytes instead, and this module reads the chunks around them.

Source: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.fileio.decode_limits import require_decodable
from tvtf.images.pillow import pillow

PNG: Final = b"\x89PNG\r\n\x1a\n"
CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""The number of channels of each colour type of PNG."""
DEPTHS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The bits per sample that each colour type allows."""
MOST_EXPANSION: Final = 1032
"""The largest ratio of uncompressed to compressed bytes of DEFLATE. Source: https://zlib.net/zlib_tech.html"""
SLACK: Final = 1024
"""Images of up to so many bytes pass the check of the ratio, because the last byte of DEFLATE is used only in part."""
WIDEST: Final = 1_000_000
"""The maximum number of pixels in a row, as in libpng: a row is decoded at a time."""
LAYOUTS: Final = {
    **{bits: ("P", [f"P;{bits}"]) for bits in (1, 2, 4)},
    **{8 * len(mode): (mode, [mode]) for mode in ("L", "LA", "RGB", "RGBA")},
    **{16 * len(mode): (mode, [f"{mode};16B", f"{mode};16L"]) for mode in ("RGB", "RGBA")},
}
"""Pillow's mode for the bits of a pixel, and the layouts to read them in; filters depend only on the bytes per pixel, so
one channel of 16 bits is read as two of 8. Of 6 and 8 bytes Pillow keeps the first of each pair, which are the upper bits;
read as if pairs were little-endian, it keeps the second."""


class _Head(NamedTuple):
    width: int
    height: int
    depth: int
    colour: int
    compression: int
    filters: int
    interlaced: int

    @property
    def pixel_bits(self) -> int:
        return CHANNELS[self.colour] * self.depth


def decode_png(data: bytes) -> np.ndarray:
    """Decodes a PNG file to an array of shape (height, width, channels), uint8 or uint16.

    Raises:
      ArgumentError: no PNG file, a damaged one, or no Pillow.
      ResourceExhaustedError: the image is larger than what may be decoded.
    """
    chunks, body = _chunks(data)
    head = _head(chunks, len(data))
    palette = _palette(chunks, head.depth) if head.colour == 3 else None
    _check_size(head, CHANNELS[head.colour] if palette is None else palette.shape[1], len(body))
    samples = _samples(head, body)
    if palette is not None:
        return palette[samples[..., 0]]
    return samples if head.depth >= 8 else samples * np.uint8(255 // ((1 << head.depth) - 1))


def _chunks(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Returns the first chunk of each kind, and the concatenated image data."""
    found: dict[bytes, bytes] = {}
    parts, place = [], len(PNG)
    while place + 12 <= len(data) and b"IEND" not in found:
        size, kind = struct.unpack_from(">I4s", data, place)
        end = place + 8 + size
        if end + 4 > len(data) or struct.unpack_from(">I", data, end)[0] != zlib.crc32(data[place + 4 : end]):
            raise ArgumentError(f"Invalid PNG data, size {len(data)}: a chunk is damaged")
        if kind == b"IDAT":
            parts.append(data[place + 8 : end])
        elif kind in (b"IHDR", b"PLTE", b"tRNS", b"IEND"):
            found.setdefault(kind, data[place + 8 : end])
        place = end + 4
    return found, b"".join(parts)


def _head(chunks: dict[bytes, bytes], size: int) -> _Head:
    """Returns the file's header, with its fields checked."""
    if len(chunks.get(b"IHDR", b"")) != 13:
        raise ArgumentError(f"Invalid PNG data, size {size}")
    head = _Head(*struct.unpack(">IIBBBBB", chunks[b"IHDR"]))
    if head.depth not in DEPTHS.get(head.colour, ()):
        raise ArgumentError(f"Invalid PNG data: colour type {head.colour} of {head.depth} bits")
    if not 0 < head.width <= WIDEST or not head.height or head.compression or head.filters or head.interlaced > 1:
        raise ArgumentError(f"Invalid PNG data: its header is {head}")
    return head


def _check_size(head: _Head, channels: int, compressed: int) -> None:
    """Compares what the header claims with what the data can hold and with the limit, before memory is taken for it."""
    size_text = f"{head.width} x {head.height} pixels"
    if head.width * head.height * head.pixel_bits // 8 > MOST_EXPANSION * compressed + SLACK:
        raise ArgumentError(f"Invalid PNG data: {compressed} compressed bytes can't hold {size_text}")
    size = head.width * head.height * channels * (2 if head.depth == 16 else 1)
    require_decodable(size, f"DecodePng: an image of {size_text}")


def _samples(head: _Head, body: bytes) -> np.ndarray:
    """Returns the samples in the file's own depth: shape (height, width, channels), uint8 or uint16.

    Pillow's image and its bytes lie beside the result: three to four times its memory, as for JPEG.
    """
    module, (mode, layouts) = pillow("PNG"), LAYOUTS[head.pixel_bits]
    octets = np.empty((head.height, head.width, len(mode), len(layouts)), np.uint8)
    for place, layout in enumerate(layouts):
        try:
            plane = module.frombytes(mode, (head.width, head.height), body, "zip", layout, head.interlaced)
        except ValueError as error:
            raise ArgumentError(f"Invalid PNG data: {error}") from None
        octets[..., place] = np.asarray(plane).reshape(octets.shape[:-1])
    found = octets.reshape(head.height, head.width, -1)
    return found.view(">u2").astype(np.uint16) if head.depth == 16 else found


def _palette(chunks: dict[bytes, bytes], depth: int) -> np.ndarray:
    """Returns the colour of every index of so many bits; indices outside the palette are black, as in libpng."""
    given, opacity = chunks.get(b"PLTE", b""), chunks.get(b"tRNS")
    if not given or len(given) % 3 or len(given) > 3 << depth or len(opacity or b"") > len(given) // 3:
        raise ArgumentError(f"Invalid PNG data: a palette of {len(given)} bytes")
    palette = np.zeros((1 << depth, 3), np.uint8)
    palette.ravel()[: len(given)] = np.frombuffer(given, np.uint8)
    if opacity is None:
        return palette
    opaque = np.full((len(palette), 1), 255, np.uint8)
    opaque[: len(opacity), 0] = np.frombuffer(opacity, np.uint8)
    return np.concatenate([palette, opaque], axis=1)


def encode_png(image: np.ndarray, compression: int) -> bytes:
    """Encodes an array of shape (height, width, channels), uint8 or uint16, as a PNG file."""
    height, width, channels = image.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    wide = image.astype(">u2") if image.dtype == np.uint16 else image
    rows = wide.reshape(height, -1).view(np.uint8)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8 * image.dtype.itemsize, colour, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(raw, compression)), (b"IEND", b"")
    return PNG + b"".join(chunk(kind, body) for kind, body in parts)


def chunk(kind: bytes, body: bytes) -> bytes:
    """Returns a chunk of a PNG file, with its checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
