"""PNG and BMP files as arrays and back, by the standard library; others by Pillow, where it is installed.

Sources: https://www.w3.org/TR/png-3/, https://learn.microsoft.com/windows/win32/gdi/bitmap-storage
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any, Final

import numpy as np

from tvtf.refusal import Refused

PNG: Final = b"\x89PNG\r\n\x1a\n"
CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""By PNG's colour type."""
NEEDS_PILLOW: Final = "{} files are read and written by Pillow, which is not installed: pip install tvtf[image]"


def kind_of(data: bytes) -> str:
    """Which kind of file the first bytes tell; empty where none that is known.

    >>> kind_of(PNG), kind_of(b"GIF89a"), kind_of(b"?")
    ('png', 'gif', '')
    """
    heads = {PNG: "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"BM": "bmp"}
    found = next((kind for head, kind in heads.items() if data.startswith(head)), "")
    return "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else found


def pillow(kind: str) -> Any:
    """Pillow's ``Image`` module.

    Raises:
      Refused: it is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise Refused(NEEDS_PILLOW.format(kind)) from None
    return Image


# -- PNG


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, place = [], len(PNG)
    while place + 12 <= len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        checksum = data[place + 8 + size : place + 12 + size]
        if len(body) < size or len(checksum) < 4 or struct.unpack(">I", checksum)[0] != zlib.crc32(kind + body):
            raise Refused("Invalid PNG data, size " + str(len(data)))
        found.append((kind, body))
        place += 12 + size
    return found


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    a, b, c = abs(guess - left), abs(guess - above), abs(guess - corner)
    return left if a <= b and a <= c else above if b <= c else corner


def _unfiltered(raw: bytes, height: int, row: int, step: int) -> np.ndarray:
    """The bytes of each row, what each row says about its neighbours undone."""
    if len(raw) < height * (row + 1):
        raise Refused("Invalid PNG data: it ends within the image")
    lines = np.frombuffer(raw, np.uint8, height * (row + 1)).reshape(height, row + 1)
    found = np.zeros((height + 1, row), np.uint8)
    for y in range(height):
        kind, line = int(lines[y, 0]), lines[y, 1:]
        found[y + 1] = _line(kind, line, found[y], step)
    return found[1:]


def _line(kind: int, line: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    if kind == 1:
        return _running(line, step)
    if kind not in (3, 4):
        raise Refused(f"Invalid PNG data: filter {kind}")
    found, up = bytearray(line.tobytes()), above.tobytes()
    for i in range(len(found)):
        left = found[i - step] if i >= step else 0
        corner = up[i - step] if i >= step else 0
        guess = (left + up[i]) // 2 if kind == 3 else _paeth(left, up[i], corner)
        found[i] = (found[i] + guess) & 255
    return np.frombuffer(bytes(found), np.uint8)


def _running(line: np.ndarray, step: int) -> np.ndarray:
    wide = np.zeros(-(-len(line) // step) * step, np.uint8)
    wide[: len(line)] = line
    return np.cumsum(wide.reshape(-1, step), axis=0, dtype=np.uint8).ravel()[: len(line)]


def _samples(rows: np.ndarray, width: int, channels: int, depth: int) -> np.ndarray:
    if depth == 16:
        return rows.reshape(len(rows), -1).view(">u2").astype(np.uint16)[:, : width * channels]
    if depth == 8:
        return rows[:, : width * channels]
    bits = np.unpackbits(rows, axis=1)[:, : width * channels * depth].reshape(len(rows), -1, depth)
    return (bits * (1 << np.arange(depth - 1, -1, -1))).sum(axis=2).astype(np.uint8)


def decode_png(data: bytes) -> np.ndarray:
    """A PNG file as an array of shape (height, width, channels), uint8 or uint16.

    Raises:
      Refused: no PNG file, a damaged or an interlaced one.
    """
    chunks = _chunks(data)
    if not data.startswith(PNG) or not chunks or chunks[0][0] != b"IHDR":
        raise Refused("Invalid PNG data, size " + str(len(data)))
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1][:13])
    if interlaced:
        return _by_pillow(data, "interlaced PNG")
    channels = CHANNELS.get(colour, 0)
    if not channels or depth not in (1, 2, 4, 8, 16):
        raise Refused(f"Invalid PNG data: colour type {colour} of {depth} bits")
    try:
        raw = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    except zlib.error as error:
        raise Refused(f"Invalid PNG data: {error}") from None
    row = -(-width * channels * depth // 8)
    samples = _samples(_unfiltered(raw, height, row, max(1, channels * depth // 8)), width, channels, depth)
    if colour == 3:
        return _coloured(samples, dict(chunks))
    if depth < 8:
        samples = samples * np.uint8(255 // ((1 << depth) - 1))
    return samples.reshape(height, width, channels)


def _coloured(numbers: np.ndarray, chunks: dict[bytes, bytes]) -> np.ndarray:
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    if b"tRNS" in chunks:
        opaque = np.full((len(palette), 1), 255, np.uint8)
        opaque[: len(chunks[b"tRNS"]), 0] = np.frombuffer(chunks[b"tRNS"], np.uint8)
        palette = np.concatenate([palette, opaque], axis=1)
    return palette[numbers]


def encode_png(image: np.ndarray, compression: int) -> bytes:
    """An array of shape (height, width, channels), uint8 or uint16, as a PNG file."""
    height, width, channels = image.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    wide = image.astype(">u2") if image.dtype == np.uint16 else image
    rows = wide.reshape(height, -1).view(np.uint8)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8 * image.dtype.itemsize, colour, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(raw, compression)), (b"IEND", b"")
    return PNG + b"".join(_chunk(kind, body) for kind, body in parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


# -- BMP


def decode_bmp(data: bytes) -> np.ndarray:
    """A BMP file of 8, 24 or 32 bits a pixel as an array of shape (height, width, channels).

    Raises:
      Refused: no such file.
    """
    if len(data) < 32 or data[:2] != b"BM":
        raise Refused(
            f"Incomplete bmp content, requires at least 32 bytes to find the header size, got {len(data)} bytes"
        )
    start, width, height, bits = struct.unpack("<10xI4xii2xH", data[:30])
    channels, rows = bits // 8, abs(height)
    if bits not in (8, 24, 32) or width < 0:
        raise Refused(f"Number of channels inherent in the image must be 1, 3 or 4, was {channels}")
    row = -(-width * channels // 4) * 4
    if len(data) < start + row * rows:
        raise Refused(f"Incomplete bmp content, requires at least {start + row * rows} bytes, got {len(data)} bytes")
    lines = np.frombuffer(data, np.uint8, row * rows, start).reshape(rows, row)[:, : width * channels]
    image = lines.reshape(rows, width, channels)[:: -1 if height > 0 else 1]
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[channels]
    return np.ascontiguousarray(image[..., order])


# -- by Pillow


def _by_pillow(data: bytes, kind: str) -> np.ndarray:
    image = pillow(kind).open(io.BytesIO(data))
    image = image if image.mode in ("L", "RGB", "RGBA", "LA") else image.convert("RGB")
    found = np.asarray(image)
    return found[..., None] if found.ndim == 2 else found


def decode_jpeg(data: bytes, channels: int, ratio: int) -> np.ndarray:
    """A JPEG file as an array, grey for one channel; ``ratio`` makes it smaller.

    Raises:
      Refused: no JPEG file, or no Pillow.
    """
    image = opened(data, "JPEG")
    if ratio > 1:
        image.draft(None, (-(-image.width // ratio), -(-image.height // ratio)))
    mode = {1: "L", 3: "RGB"}.get(channels) or ("L" if image.mode == "L" else "RGB")
    found = np.asarray(image.convert(mode) if image.mode != mode else image)
    return found[..., None] if found.ndim == 2 else found


def opened(data: bytes, kind: str) -> Any:
    """A file as Pillow's image.

    Raises:
      Refused: it can't be read, or there is no Pillow.
    """
    module = pillow(kind)
    try:
        image = module.open(io.BytesIO(data))
        image.load() if kind != "JPEG" else None
    except Exception as error:
        raise Refused(f"Invalid {kind} data or crop window, data size {len(data)}") from error
    return image


def encode_jpeg(image: np.ndarray, **options: Any) -> bytes:
    """An array of shape (height, width, 1 or 3) as a JPEG file."""
    module, file = pillow("JPEG"), io.BytesIO()
    module.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "JPEG", **options)
    return file.getvalue()


def decode_gif(data: bytes) -> np.ndarray:
    """All frames of a GIF file, shape (frames, height, width, 3)."""
    image, frames = opened(data, "GIF"), []
    for frame in range(getattr(image, "n_frames", 1)):
        image.seek(frame)
        frames.append(np.asarray(image.convert("RGB")))
    return np.stack(frames)


def decode_webp(data: bytes, channels: int) -> np.ndarray:
    """A WebP file as an array of 3 or 4 channels."""
    image = opened(data, "WebP")
    mode = {3: "RGB", 4: "RGBA"}.get(channels) or image.mode
    return np.asarray(image.convert(mode))
