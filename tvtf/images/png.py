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
MAX_EXPANSION: Final = 1032
"""The largest ratio of uncompressed to compressed bytes of DEFLATE. Source: https://zlib.net/zlib_tech.html"""
RATIO_TOLERANCE: Final = 1024
"""Images of up to this many bytes pass the check of the ratio: the last byte of DEFLATE is used only in part."""
MAX_WIDTH: Final = 1_000_000
"""The maximum number of pixels in a row, as in libpng: a row is decoded at a time."""
PILLOW_LAYOUTS: Final = {
    **{bits: ("P", [f"P;{bits}"]) for bits in (1, 2, 4)},
    **{8 * len(mode): (mode, [mode]) for mode in ("L", "LA", "RGB", "RGBA")},
    **{16 * len(mode): (mode, [f"{mode};16B", f"{mode};16L"]) for mode in ("RGB", "RGBA")},
}
"""Pillow's mode for the bits of a pixel, and the layouts to read them in; filters depend only on the bytes per pixel, so
one channel of 16 bits is read as two of 8. Of 6 and 8 bytes Pillow keeps the first of each pair, which are the upper bits;
read as if pairs were little-endian, it keeps the second."""


class _Header(NamedTuple):
    """The fields of a PNG file's header chunk (IHDR)."""

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
      ArgumentError: the data are not a valid PNG file, or Pillow is not installed.
      ResourceExhaustedError: the image is larger than what may be decoded.
    """
    chunks, compressed = _read_chunks(data)
    header = _parse_header(chunks, len(data))
    if header.colour == 3:  # each pixel is an index into the palette
        palette = _parse_palette(chunks, header.depth)
        _check_size(header, palette.shape[1], len(compressed))
        indices = _decode_samples(header, compressed)
        return palette[indices[..., 0]]
    _check_size(header, CHANNELS[header.colour], len(compressed))
    samples = _decode_samples(header, compressed)
    if header.depth >= 8:
        return samples
    largest_sample = (1 << header.depth) - 1
    return samples * np.uint8(255 // largest_sample)  # scaled to the range of 8 bits


def _read_chunks(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Splits a PNG file into chunks, and verifies their checksums.

    Returns the contents of the first chunk of each type, and the concatenated data of the IDAT chunks (compressed
    pixels).
    """
    first_chunks: dict[bytes, bytes] = {}
    image_data = []
    position = len(PNG)
    while position + 12 <= len(data) and b"IEND" not in first_chunks:
        # A chunk has its size, type, contents and a checksum of type and contents.
        size, chunk_type = struct.unpack_from(">I4s", data, position)
        end = position + 8 + size
        checksum = zlib.crc32(data[position + 4 : end])
        if data[end : end + 4] != struct.pack(">I", checksum):
            raise ArgumentError(f"Invalid PNG data, size {len(data)}: a chunk is damaged")
        contents = data[position + 8 : end]
        if chunk_type == b"IDAT":
            image_data.append(contents)
        elif chunk_type in (b"IHDR", b"PLTE", b"tRNS", b"IEND"):
            first_chunks.setdefault(chunk_type, contents)
        position = end + 4
    return first_chunks, b"".join(image_data)


def _parse_header(chunks: dict[bytes, bytes], size: int) -> _Header:
    """Parses the header of a PNG file, the chunk IHDR, and checks its fields.

    ``size`` is the file's size, which errors show.
    """
    if len(chunks.get(b"IHDR", b"")) != 13:
        raise ArgumentError(f"Invalid PNG data, size {size}")
    header = _Header(*struct.unpack(">IIBBBBB", chunks[b"IHDR"]))
    if header.depth not in DEPTHS.get(header.colour, ()):
        raise ArgumentError(f"Invalid PNG data: colour type {header.colour} of {header.depth} bits")
    has_valid_size = 0 < header.width <= MAX_WIDTH and header.height > 0
    # PNG defines one method of compression and of filters, number 0
    has_valid_methods = header.compression == 0 and header.filters == 0 and header.interlaced <= 1
    if not has_valid_size or not has_valid_methods:
        raise ArgumentError(f"Invalid PNG data: its header is {header}")
    return header


def _check_size(header: _Header, channels: int, compressed: int) -> None:
    """Raises an error if the header of a PNG file declares an image that is too large.

    The image must fit into the limit of decoded bytes, and the compressed data must be able to hold it. The check comes
    before memory is allocated for the pixels.
    """
    pixel_count = header.width * header.height
    size_text = f"{header.width} x {header.height} pixels"
    uncompressed = pixel_count * header.pixel_bits // 8
    if uncompressed > MAX_EXPANSION * compressed + RATIO_TOLERANCE:
        raise ArgumentError(f"Invalid PNG data: {compressed} compressed bytes can't hold {size_text}")
    sample_bytes = 2 if header.depth == 16 else 1
    require_decodable(pixel_count * channels * sample_bytes, f"DecodePng: an image of {size_text}")


def _decode_samples(header: _Header, compressed: bytes) -> np.ndarray:
    """Decompresses the pixels of a PNG file, by Pillow, and returns an array of shape (height, width, channels).

    Samples keep the file's depth, as uint8 or uint16. In total, that takes three to four times the result's memory.

    Args:
      header: the file's header.
      compressed: the compressed pixels.
    """
    module = pillow("PNG")
    mode, layouts = PILLOW_LAYOUTS[header.pixel_bits]  # a layout selects one byte of each sample
    width, height = header.width, header.height
    channels = len(mode)
    sample_bytes = np.empty((height, width, channels, len(layouts)), np.uint8)
    for byte_index, layout in enumerate(layouts):
        try:
            image = module.frombytes(mode, (width, height), compressed, "zip", layout, header.interlaced)
        except ValueError as error:
            raise ArgumentError(f"Invalid PNG data: {error}") from None
        sample_bytes[..., byte_index] = np.asarray(image).reshape(height, width, channels)
    samples = sample_bytes.reshape(height, width, -1)
    return samples.view(">u2").astype(np.uint16) if header.depth == 16 else samples


def _parse_palette(chunks: dict[bytes, bytes], depth: int) -> np.ndarray:
    """Parses the palette of a PNG file: returns its colours, RGB or RGBA, with a row for each index of ``depth`` bits.

    Indices outside the palette are black, as in libpng.
    """
    colours, opacity = chunks.get(b"PLTE", b""), chunks.get(b"tRNS")  # three bytes per colour, one per opacity
    colour_count, remainder = divmod(len(colours), 3)
    index_count = 1 << depth
    is_valid = remainder == 0 and 0 < colour_count <= index_count
    if not is_valid or len(opacity or b"") > colour_count:
        raise ArgumentError(f"Invalid PNG data: a palette of {len(colours)} bytes")
    palette = np.zeros((index_count, 3), np.uint8)
    palette.ravel()[: len(colours)] = np.frombuffer(colours, np.uint8)
    if opacity is None:
        return palette
    alpha = np.full((index_count, 1), 255, np.uint8)
    alpha[: len(opacity), 0] = np.frombuffer(opacity, np.uint8)
    return np.concatenate([palette, alpha], axis=1)


def encode_png(image: np.ndarray, compression: int) -> bytes:
    """Encodes an array of shape (height, width, channels), uint8 or uint16, as a PNG file."""
    height, width, channels = image.shape
    colour_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]  # PNG's numbers for grey, grey and opacity, RGB, RGB and opacity
    bit_depth = 8 * image.dtype.itemsize
    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    big_endian = image.astype(">u2") if image.dtype == np.uint16 else image
    rows = big_endian.reshape(height, -1).view(np.uint8)
    # Each row begins with the type of its filter: 0, none.
    filtered_rows = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    compressed = zlib.compress(filtered_rows.tobytes(), compression)
    return PNG + chunk(b"IHDR", header) + chunk(b"IDAT", compressed) + chunk(b"IEND", b"")


def chunk(kind: bytes, body: bytes) -> bytes:
    """Returns a chunk of a PNG file, with its checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
