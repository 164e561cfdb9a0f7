"""Image files: what Pillow writes is read the same, with Pillow and without; damage is refused."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

import tvtf as tf
from tvtf.images import codecs

DRAW = np.random.default_rng(0)


def file_of(image, kind="PNG", **options):
    image.save(file := io.BytesIO(), kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_reads_what_pillow_writes(mode):
    pixels = DRAW.integers(0, 256, (9, 7, len(mode)), np.uint8)
    found = codecs.decode_png(file_of(Image.fromarray(pixels.squeeze(), mode)))
    assert np.array_equal(found, pixels)


def test_reads_palettes_and_single_bits():
    colours = Image.fromarray(DRAW.integers(0, 256, (6, 5, 3), np.uint8)).quantize(7)
    assert np.array_equal(codecs.decode_png(file_of(colours)), np.asarray(colours.convert("RGB")))
    bits = Image.fromarray(DRAW.integers(0, 2, (6, 11), np.uint8) * 255).convert("1")
    assert np.array_equal(codecs.decode_png(file_of(bits))[..., 0], np.asarray(bits) * 255)


@pytest.mark.parametrize("kind", range(5))
def test_undoes_each_filter(kind):
    """A row's filter says what is subtracted from its bytes; the sums are those of PNG's specification."""
    rows, row, step = 3, 12, 3
    lines = DRAW.integers(0, 256, (rows, row), np.uint8)
    raw = b"".join(bytes([kind]) + line.tobytes() for line in lines)
    found = np.zeros((rows + 1, row), int)
    for y, line in enumerate(lines.tolist(), 1):
        for x, value in enumerate(line):
            left = found[y, x - step] if x >= step else 0
            corner = found[y - 1, x - step] if x >= step else 0
            above = found[y - 1, x]
            nearest = min((left, above, corner), key=lambda v: abs(left + above - corner - v))
            found[y, x] = (value + (0, left, above, (left + above) // 2, nearest)[kind]) % 256
    head = struct.pack(">IIBBBBB", 4, rows, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    file = codecs.PNG + b"".join(codecs._chunk(*part) for part in parts)
    assert np.array_equal(codecs.decode_png(file), found[1:].reshape(rows, 4, 3))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(file))), found[1:].reshape(rows, 4, 3))


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pillow_reads_what_is_written(mode):
    pixels = DRAW.integers(0, 256, (5, 4, len(mode)), np.uint8)
    file = tf.io.encode_png(pixels).numpy()
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(file))), pixels.squeeze())


def test_reads_bmp_of_pillow():
    pixels = DRAW.integers(0, 256, (5, 3, 3), np.uint8)
    assert np.array_equal(tf.io.decode_image(file_of(Image.fromarray(pixels), "BMP")).numpy(), pixels)


def test_reads_the_frames_of_gif():
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("red", "blue")]
    file = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])
    found = tf.io.decode_image(file).numpy()
    assert found.shape == (2, 3, 4, 3) and found[1, 0, 0].tolist() == [0, 0, 255]
    assert tf.io.decode_image(file, expand_animations=False).shape == (3, 4, 3)


def test_a_flipped_bit_is_refused():
    file = bytearray(tf.io.encode_png(np.zeros((4, 4, 3), np.uint8)).numpy())
    file[45] ^= 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid PNG data"):
        tf.io.decode_png(bytes(file))


def test_without_pillow_the_error_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"pip install tvtf\[image\]"):
        tf.io.decode_jpeg(b"\xff\xd8\xff")
    assert tf.io.decode_png(tf.io.encode_png(np.zeros((1, 1, 3), np.uint8))).shape == (1, 1, 3)
