"""PNG files as arrays, in memory that is bounded by what the image takes; and back.

The compressed rows are inflated a few at a time, and their filters undone by Pillow's decoder where it is installed, else
by NumPy. Pillow alone would not do: it has no images of 16 bits a channel, and is not always there.

Source: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.errors import DataLossError
from tvtf.fileio.decode_limits import require_decodable
from tvtf.fileio.inflate import Inflated, read_fully
from tvtf.images.unfilter import unfiltered

PNG: Final = b"\x89PNG\r\n\x1a\n"
CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""By PNG's colour type."""
DEPTHS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Bits of a sample, by the same."""
MOST_EXPANSION: Final = 1032
"""How many bytes one byte of DEFLATE can stand for. Source: https://zlib.net/zlib_tech.html"""
WIDEST: Final = 1_000_000
"""Pixels of a row, by libpng's own limit: a row is decoded at once."""
BLOCK: Final = 1 << 20
"""Bytes of rows that are decoded at once."""
WHOLE: Final = ((0, 0, 1, 1),)
ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""The pixels of each pass: the first column and row, and the steps to the next ones."""


class _Head(NamedTuple):
    width: int
    height: int
    depth: int
    colour: int
    compression: int
    filters: int
    interlaced: int

    @property
    def bits(self) -> int:
        return CHANNELS[self.colour] * self.depth

    def passes(self) -> Iterator[tuple[int, int, int, int, int, int, int]]:
        """Of each pass: column, row and steps, width, height, and bytes of a row."""
        for x, y, right, down in ADAM7 if self.interlaced else WHOLE:
            width, height = -(-(self.width - x) // right), -(-(self.height - y) // down)
            if width > 0 and height > 0:
                yield x, y, right, down, width, height, -(-width * self.bits // 8)


def decode_png(data: bytes) -> np.ndarray:
    """A PNG file as an array of shape (height, width, channels), uint8 or uint16.

    Raises:
      ArgumentError: no PNG file, or a damaged one.
      ResourceExhaustedError: the image is larger than what may be decoded.
    """
    chunks, body = _chunks(data)
    head = _head(chunks, len(data))
    pixels, channels = _pixels(head, chunks)
    _check_size(head, channels, len(body))
    image = np.empty((head.height, head.width, channels), np.uint16 if head.depth == 16 else np.uint8)
    try:
        _fill(image, head, Inflated(io.BytesIO(body), "ZLIB", ""), pixels)
    except DataLossError as error:
        raise ArgumentError(f"Invalid PNG data: {error}") from None
    return image


def _chunks(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The first chunk of each kind, and the image's, put together."""
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
    if len(chunks.get(b"IHDR", b"")) != 13:
        raise ArgumentError(f"Invalid PNG data, size {size}")
    head = _Head(*struct.unpack(">IIBBBBB", chunks[b"IHDR"]))
    if head.depth not in DEPTHS.get(head.colour, ()):
        raise ArgumentError(f"Invalid PNG data: colour type {head.colour} of {head.depth} bits")
    if not 0 < head.width <= WIDEST or not head.height or head.compression or head.filters or head.interlaced > 1:
        raise ArgumentError(f"Invalid PNG data: its header is {head}")
    return head


def _check_size(head: _Head, channels: int, compressed: int) -> None:
    told = f"{head.width} x {head.height} pixels"
    raw = sum(height * (1 + row) for *_, height, row in head.passes())
    if raw > MOST_EXPANSION * compressed + BLOCK // 1024:
        raise ArgumentError(f"Invalid PNG data: {compressed} compressed bytes can't hold {told}")
    size = head.width * head.height * channels * (2 if head.depth == 16 else 1)
    require_decodable(size, f"DecodePng: an image of {told}")


def _fill(image: np.ndarray, head: _Head, stream: Any, pixels: Callable[[np.ndarray, int], np.ndarray]) -> None:
    step = max(1, head.bits // 8)
    for x, y, right, down, width, height, row in head.passes():
        above, part, count = np.zeros(row, np.uint8), image[y::down, x::right], max(1, BLOCK // (row + 1))
        for top in range(0, height, count):
            lines = min(count, height - top)
            raw = read_fully(stream, lines * (row + 1))
            if len(raw) < lines * (row + 1):
                raise ArgumentError("Invalid PNG data: it ends within the image")
            rows = unfiltered(np.frombuffer(raw, np.uint8).reshape(lines, row + 1), above, step)
            part[top : top + lines] = pixels(rows, width)
            above = rows[-1]


def _pixels(head: _Head, chunks: dict[bytes, bytes]) -> tuple[Callable[[np.ndarray, int], np.ndarray], int]:
    """What makes pixels of rows of bytes, and how many channels they have."""
    channels, depth = CHANNELS[head.colour], head.depth
    if head.colour == 3:
        palette = _palette(chunks, depth)
        return lambda rows, width: palette[_samples(rows, width, depth)], palette.shape[1]
    scale = np.uint8(255 // ((1 << depth) - 1)) if depth < 8 else None

    def pixels(rows: np.ndarray, width: int) -> np.ndarray:
        samples = _samples(rows, width * channels, depth)
        return (samples if scale is None else samples * scale).reshape(len(rows), width, channels)

    return pixels, channels


def _samples(rows: np.ndarray, count: int, depth: int) -> np.ndarray:
    if depth == 16:
        return rows.view(">u2")[:, :count]
    if depth == 8:
        return rows[:, :count]
    shifts = np.arange(8 - depth, -1, -depth, dtype=np.uint8)
    samples = (rows[:, :, None] >> shifts) & np.uint8((1 << depth) - 1)
    return samples.reshape(len(rows), -1)[:, :count]


def _palette(chunks: dict[bytes, bytes], depth: int) -> np.ndarray:
    """The colours of all numbers of so many bits; those that the file has no colour for are black, as libpng has it."""
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
    """An array of shape (height, width, channels), uint8 or uint16, as a PNG file."""
    height, width, channels = image.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    wide = image.astype(">u2") if image.dtype == np.uint16 else image
    rows = wide.reshape(height, -1).view(np.uint8)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8 * image.dtype.itemsize, colour, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(raw, compression)), (b"IEND", b"")
    return PNG + b"".join(chunk(kind, body) for kind, body in parts)


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file, with its checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
