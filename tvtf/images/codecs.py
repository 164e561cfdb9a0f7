"""Decodes image files to arrays and encodes them, with Pillow if it is installed; BMP uses NumPy, PNG is in ``png.py``.

Pillow would not do for BMP: TensorFlow gives 32 bits with their opacity, which Pillow drops, and 8 bits as they are stored,
for which Pillow has the colours of a palette.

Source: https://learn.microsoft.com/windows/win32/gdi/bitmap-storage
"""

from __future__ import annotations

import io
import math
import struct
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.fileio.decode_limits import require_decodable
from tvtf.images.pillow import pillow, read_with_pillow
from tvtf.images.png import PNG, decode_png, encode_png

__all__ = [
    "PNG",
    "read_with_pillow",
    "decode_bmp",
    "decode_gif",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "encode_jpeg",
    "encode_png",
    "kind_of",
    "pillow",
]


def kind_of(data: bytes) -> str:
    """Returns the image format that the first bytes indicate; empty if it is unknown.

    >>> kind_of(PNG), kind_of(b"GIF89a"), kind_of(b"?")
    ('png', 'gif', '')
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    signatures = {PNG: "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"BM": "bmp"}
    for signature, format_name in signatures.items():
        if data.startswith(signature):
            return format_name
    return ""


# -- BMP


def decode_bmp(data: bytes) -> np.ndarray:
    """Decodes a BMP file of 8, 24 or 32 bits per pixel to an array of shape (height, width, channels).

    Raises:
      ArgumentError: the data are not a BMP file of these kinds.
    """
    if len(data) < 32 or data[:2] != b"BM":
        raise ArgumentError(
            f"Incomplete bmp content, requires at least 32 bytes to find the header size, got {len(data)} bytes"
        )
    start, width, height, bits = struct.unpack("<10xI4xii2xH", data[:30])
    channels = bits // 8
    rows = abs(height)
    if bits not in (8, 24, 32) or width < 0:
        raise ArgumentError(f"Number of channels inherent in the image must be 1, 3 or 4, was {channels}")
    row_bytes = math.ceil(width * channels / 4) * 4  # rows are padded to a multiple of 4 bytes
    end = start + row_bytes * rows
    if len(data) < end:
        raise ArgumentError(f"Incomplete bmp content, requires at least {end} bytes, got {len(data)} bytes")
    padded_rows = np.frombuffer(data, np.uint8, row_bytes * rows, start).reshape(rows, row_bytes)
    image = padded_rows[:, : width * channels].reshape(rows, width, channels)
    if height > 0:  # Rows are stored from the bottom up.
        image = image[::-1]
    channel_order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[channels]  # stored as blue, green, red, alpha
    return np.ascontiguousarray(image[..., channel_order])


# -- by Pillow


def decode_jpeg(data: bytes, channels: int, ratio: int) -> np.ndarray:
    """Decodes a JPEG file to an array of shape (height, width, channels), scaled down by ``ratio``.

    ``channels`` is 1 for grey, 3 for RGB, and 0 for the file's own number.

    Raises:
      ArgumentError: the data are not a JPEG file, or Pillow is not installed.
    """

    def read(image: Any) -> np.ndarray:
        """Decodes the JPEG file that Pillow has opened, after a check of the decoded size."""
        # Pillow lets the JPEG library decode at a smaller scale, the largest of 8, 4, 2 that is at most ``side // size``
        # for both sides. Half a step more makes that the ratio itself, for sides that aren't multiples of it, too.
        if ratio > 1:
            image.draft(None, (image.width / (ratio + 0.5), image.height / (ratio + 0.5)))
        # Pillow's modes: "L" has one grey channel, "RGB" three channels of a byte.
        mode_of_file = "L" if image.mode == "L" else "RGB"
        mode = {1: "L", 3: "RGB"}.get(channels, mode_of_file)
        # Pillow has read only the file's header so far. `convert` and `asarray` allocate the pixels.
        require_decodable(image.width * image.height * len(mode), _image_text("DecodeJpeg", image))
        if image.mode != mode:
            image = image.convert(mode)
        pixels = np.asarray(image)
        return pixels[..., None] if pixels.ndim == 2 else pixels

    return read_with_pillow(data, "JPEG", read)  # type: ignore[no-any-return]


def _image_text(op: str, image: Any) -> str:
    return f"{op}: an image of {image.width} x {image.height} pixels"


def encode_jpeg(image: np.ndarray, **options: Any) -> bytes:
    """Encodes an array of shape (height, width, 1 or 3) as a JPEG file."""
    module = pillow("JPEG")
    file = io.BytesIO()
    module.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "JPEG", **options)
    return file.getvalue()


def decode_gif(data: bytes) -> np.ndarray:
    """Decodes all frames of a GIF file to one RGB array of shape (frames, height, width, 3)."""

    def read(image: Any) -> np.ndarray:
        """Decodes all frames to RGB, after a check of their total size."""
        shape = image.n_frames, image.height, image.width, 3
        require_decodable(math.prod(shape), f"{_image_text('DecodeGif', image)} and {image.n_frames} frames")
        frames = np.empty(shape, np.uint8)
        for index in range(image.n_frames):
            image.seek(index)
            frames[index] = np.asarray(image.convert("RGB"))
        return frames

    return read_with_pillow(data, "GIF", read)  # type: ignore[no-any-return]


def decode_webp(data: bytes, channels: int) -> np.ndarray:
    """Decodes a WebP file to an array; ``channels`` is 3 (RGB), 4 (RGB and opacity) or 0 (the file's own number)."""
    pillow("WebP")
    width, height = _webp_size(data)
    require_decodable(width * height * (channels or 4), f"DecodeWebP: an image of {width} x {height} pixels")

    def read(image: Any) -> np.ndarray:
        mode = {3: "RGB", 4: "RGBA"}.get(channels) or image.mode
        return np.asarray(image.convert(mode))

    return read_with_pillow(data, "WebP", read)  # type: ignore[no-any-return]


_LOW_14_BITS = 0x3FFF
"""Of a field in a WebP header: its other bits aren't of the size."""


def _webp_size(data: bytes) -> tuple[int, int]:
    """Reads the width and height of a WebP image from the file's header.

    The size is checked before Pillow opens the file, because opening already allocates memory for the image.

    Source: https://developers.google.com/speed/webp/docs/riff_container
    """
    chunk_type, header = data[12:16], data[20:30]
    if kind_of(data) == "webp" and len(header) == 10:
        if chunk_type == b"VP8X":  # the file has both numbers minus 1
            width = int.from_bytes(header[4:7], "little")
            height = int.from_bytes(header[7:10], "little")
            return 1 + width, 1 + height
        if chunk_type == b"VP8 ":
            width, height = struct.unpack("<HH", header[6:])
            return width & _LOW_14_BITS, height & _LOW_14_BITS
        if chunk_type == b"VP8L":
            bits = int.from_bytes(header[1:5], "little")
            return 1 + (bits & _LOW_14_BITS), 1 + (bits >> 14 & _LOW_14_BITS)
    raise ArgumentError(f"Invalid WebP data or crop window, data size {len(data)}")
