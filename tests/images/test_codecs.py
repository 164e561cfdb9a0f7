"""Image files: decoding equals Pillow's, 16 bits are preserved, damaged files are rejected."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

import tvtf as tf
from tvtf.images import codecs, png

DRAW = np.random.default_rng(0)
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""The pixels of each pass of an interlaced file: the first column and row, and the steps to the next ones."""


def file_of(image, kind="PNG", **options):
    image.save(file := io.BytesIO(), kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [tf.uint8, tf.uint16])
def test_png_keeps_every_bit(dtype, channels):
    pixels = DRAW.integers(0, dtype.max + 1, (9, 7, channels), dtype.as_numpy_dtype)
    pixels.ravel()[:2] = 0, dtype.max
    for function in (tf.io.encode_png, tf.function(tf.io.encode_png)):
        found = codecs.decode_png(function(pixels).numpy())
        assert found.dtype == pixels.dtype and np.array_equal(found, pixels)
    if channels != 2:
        file = tf.io.encode_png(pixels)
        for decode in (tf.io.decode_png, tf.io.decode_image):
            found = decode(file, channels=channels, dtype=dtype).numpy()
            assert found.dtype == pixels.dtype and np.array_equal(found, pixels)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_reads_what_pillow_writes(mode):
    pixels = DRAW.integers(0, 256, (9, 7, len(mode)), np.uint8)
    found = codecs.decode_png(file_of(Image.fromarray(pixels.squeeze(), mode)))
    assert np.array_equal(found, pixels)


def test_reads_16_bits_that_pillow_writes():
    pixels = DRAW.integers(0, 1 << 16, (9, 7), np.uint16)
    assert np.array_equal(codecs.decode_png(file_of(Image.fromarray(pixels)))[..., 0], pixels)


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
    file = codecs.PNG + b"".join(png.chunk(*part) for part in parts)
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


def test_a_flipped_bit_is_rejected():
    file = bytearray(tf.io.encode_png(np.zeros((4, 4, 3), np.uint8)).numpy())
    file[45] ^= 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid PNG data"):
        tf.io.decode_png(bytes(file))


def test_without_pillow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    png = tf.io.encode_png(np.zeros((1, 1, 3), np.uint8))
    for file in (png, b"\xff\xd8\xff"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"pip install tvtf\[image\]"):
            tf.io.decode_image(file)


def filtered(row, above, kind, step):
    """A row as its differences, by the words of PNG's specification."""
    found = [kind]
    for x, value in enumerate(row):
        left, corner = (row[x - step], above[x - step]) if x >= step else (0, 0)
        nearest = min((left, above[x], corner), key=lambda v: abs(left + above[x] - corner - v))
        found.append((value - (0, left, above[x], (left + above[x]) // 2, nearest)[kind]) % 256)
    return bytes(found)


def png_of(samples, colour, depth, interlaced, extra=()):
    """A file with a filter drawn for each row."""
    height, width, channels = samples.shape
    raw, step = b"", max(1, channels * depth // 8)
    for x, y, right, down in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = samples[y::down, x::right].astype(">u2")
        if not part.size:
            continue
        bits = np.unpackbits(part.view(np.uint8).reshape(*part.shape, 2), axis=-1)[..., 16 - depth :]
        rows = np.packbits(bits.reshape(len(part), -1), axis=1).tolist()
        for row, above in zip(rows, [[0] * len(rows[0]), *rows]):
            raw += filtered(row, above, int(DRAW.integers(5)), step)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    parts = [(b"IHDR", head), *extra, (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return png.PNG + b"".join(png.chunk(*part) for part in parts)


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(("colour", "depth"), [(c, d) for c, depths in png.DEPTHS.items() for d in depths])
def test_reads_every_kind_of_png(colour, depth, interlaced):
    for height, width in ((1, 1), (13, 11), (9, 70)):
        samples = DRAW.integers(0, 1 << depth, (height, width, png.CHANNELS[colour]), np.uint16)
        palette = DRAW.integers(0, 256, (1 << min(depth, 8), 3), np.uint8)
        extra = [(b"PLTE", palette.tobytes())] if colour == 3 else []
        found = codecs.decode_png(png_of(samples, colour, depth, interlaced, extra))
        wanted = palette[samples[..., 0]] if colour == 3 else samples * (255 // ((1 << depth) - 1) if depth < 8 else 1)
        assert found.dtype == (np.uint16 if depth == 16 else np.uint8) and np.array_equal(found, wanted)


def test_a_png_that_claims_more_than_it_can_hold_is_rejected_before_anything_is_allocated(monkeypatch):
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 16, 6, 0, 0, 0)
    monkeypatch.setattr(np, "empty", None)
    for body, message in ((bytes(1000), "can't hold 60000 x 60000"), (bytes(28_000_000), "TVTF_MAX_DECODED_BYTES")):
        file = png.PNG + png.chunk(b"IHDR", head) + png.chunk(b"IDAT", body)
        with pytest.raises((codecs.ArgumentError, tf.errors.ResourceExhaustedError), match=message):
            codecs.decode_png(file)


def test_limits_of_other_images(monkeypatch):
    image = Image.fromarray(DRAW.integers(0, 256, (40, 50, 3), np.uint8))
    files = {kind: file_of(image, kind) for kind in ("PNG", "JPEG", "GIF", "WEBP")}
    files["lossless"] = file_of(image, "WEBP", lossless=True)
    files["animated"] = file_of(image, "WEBP", save_all=True, append_images=[image.rotate(90)])
    decoders = {"GIF": tf.io.decode_gif, "JPEG": tf.io.decode_jpeg, "PNG": tf.io.decode_png}
    for kind, file in files.items():
        monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "8000")
        assert decoders.get(kind, tf.io.decode_webp)(file).shape[-3:] == (40, 50, 3)
        monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "5999")
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"50 x 40 pixels.* TVTF_MAX_DECODED_BYTES"):
            decoders.get(kind, tf.io.decode_webp)(file)
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "23999")
    with pytest.raises(tf.errors.ResourceExhaustedError, match="DecodeImage"):
        tf.io.decode_image(files["PNG"], dtype=tf.float32)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_png_whose_rows_end_early_is_rejected(dtype, channels):
    file = tf.io.encode_png(DRAW.integers(0, 256, (20, 30, channels)).astype(dtype)).numpy()
    raw = zlib.decompress(file[41:-16])
    for body in (zlib.compress(raw[:-1]), zlib.compress(raw)[:-200], b"", bytes(50), zlib.compress(b"\5" * len(raw))):
        whole = file[:33] + png.chunk(b"IDAT", body) + png.chunk(b"IEND", b"")
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid PNG data"):
            tf.io.decode_png(whole)


def test_truncated_images_of_pillow_are_rejected():
    image = Image.fromarray(DRAW.integers(0, 256, (40, 50, 3), np.uint8))
    for kind, decode in (("JPEG", tf.io.decode_jpeg), ("GIF", tf.io.decode_gif), ("WEBP", tf.io.decode_webp)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="data size"):
            decode(file_of(image, kind)[:300])


def test_conversion_in_parts_is_that_of_the_whole(monkeypatch):
    from tvtf.images import files

    image = DRAW.integers(0, 256, (9, 7, 3), np.uint8)
    for channels, dtype in ((1, tf.uint8), (4, tf.uint16), (3, tf.float32)):
        whole = files._convert_samples(image, channels, dtype)
        with monkeypatch.context() as patch:
            patch.setattr(files, "_BYTES_AT_ONCE", 50)
            np.testing.assert_array_equal(files._convert_samples(image, channels, dtype), whole)


def test_decoders_take_what_tensorflows_take():
    pixels = tf.cast(tf.reshape(tf.range(12), [2, 2, 3]), tf.uint8)
    png, jpeg = tf.io.encode_png(pixels), tf.io.encode_jpeg(pixels)
    np.testing.assert_array_equal(tf.io.decode_webp(png), pixels)
    np.testing.assert_array_equal(tf.io.decode_gif(png)[0], pixels)
    np.testing.assert_array_equal(tf.function(tf.io.decode_gif)(jpeg)[0], tf.io.decode_jpeg(jpeg))
    bmp = b"BM" + bytes(60)
    for decode in (tf.io.decode_webp, tf.io.decode_gif):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(bmp)


@pytest.mark.parametrize("ratio", [1, 2, 4, 8])
@pytest.mark.parametrize("height", [1, 5, 7, 8, 15, 33])
def test_jpeg_images_of_any_size_are_scaled_down_by_the_ratio(height, ratio):
    contents = tf.io.encode_jpeg(np.full((height, 21, 3), 100, np.uint8))
    decoded = tf.io.decode_jpeg(contents, ratio=ratio)
    assert decoded.shape == (-(-height // ratio), -(-21 // ratio), 3)
    assert abs(int(decoded.numpy().max()) - 100) <= 2 >= abs(int(decoded.numpy().min()) - 100)
