"""``tf.io.decode_png`` and similar functions: decoding and encoding of image files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, float32, int32, int64, string, uint8, uint16
from tvtf.errors import InvalidArgumentError
from tvtf.fileio.decode_limits import require_decodable
from tvtf.images import codecs
from tvtf.ops.getitem import slice as slice_
from tvtf.ops.host import unknown_dim
from tvtf.ops.image import convert_image_dtype
from tvtf.ops.operands import attributes, one_of, operand, word_of
from tvtf.ops.rules import attribute_text, bind, require_dtype
from tvtf.ops.strings.rules import text_op

GREY = (0.299, 0.587, 0.114)
OPAQUE = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}


def _decoded_type(contents: TensorType, kind: str, dtype: DType, channels: Any, sizes: Any, **_: Any) -> TensorType:
    if contents.shape:
        raise ArgumentError(f"contents must be scalar, got shape [{','.join(map(str, contents.shape))}]")
    return TensorType((*sizes, channels), dtype)


def _decode_file(
    contents: np.ndarray, kind: str, dtype: DType, channels: Any, sizes: Any, wanted: int, ratio: int
) -> np.ndarray:
    """Decodes the contents of one image file to an array of shape (height, width, channels), or with frames first.

    Args:
      contents: an array with the file's bytes as its only element.
      kind: the format; empty for any.
      channels: unused; the type of the result has the dim.
      sizes: the result's dims without channels; three if the result has an axis of frames.
      wanted: the number of channels; 0 for the file's own number.
      ratio: the factor by which JPEG images are scaled down.
    """
    data = contents.item()
    image = _decode_format(data, kind or codecs.kind_of(data), wanted, ratio)
    # Other decoders than that of GIF files return the first frame.
    if len(sizes) == 2 and image.ndim == 4:
        if kind and len(image) > 1:
            raise ArgumentError(f"Got {len(image)} frames, but animated gifs can only be decoded by tf.io.decode_gif")
        image = image[0]
    if len(sizes) == 3 and image.ndim == 3:
        image = image[None]
    return np.ascontiguousarray(_convert_samples(image, wanted or image.shape[-1], dtype))


def _convert_samples(image: np.ndarray, channels: int, dtype: DType) -> np.ndarray:
    """Converts an image to a number of channels and a dtype.

    Only a few rows are converted at a time, because intermediate results are large.
    """
    *sizes, image_channels = image.shape
    if channels == image_channels and dtype.np == image.dtype:
        return image
    pixel_count = image.size // image_channels
    require_decodable(
        pixel_count * channels * dtype.np.itemsize, f"DecodeImage: an image of {channels} channels of {dtype.name}"
    )
    converted = np.empty((*sizes, channels), dtype.np)
    width = sizes[-1]
    rows = image.reshape(-1, width, image_channels)
    converted_rows = converted.reshape(-1, width, channels)
    rows_at_once = max(1, len(rows) * _BYTES_AT_ONCE // max(1, image.nbytes))
    for first in range(0, len(rows), rows_at_once):
        block = slice(first, first + rows_at_once)
        converted_rows[block] = as_samples(with_channels(rows[block], channels), dtype)
    return converted


_BYTES_AT_ONCE = 1 << 22
"""The number of bytes of an image that are converted at a time."""


ACCEPTED_FORMATS = {
    **dict.fromkeys(("png", "jpeg"), ("png", "jpeg", "gif", "bmp", "webp")),
    "gif": ("png", "jpeg", "webp"),
    "webp": ("png", "jpeg"),
}
"""The further arguments of the decoder of each format, as in TensorFlow."""


def _decode_format(data: bytes, image_format: str, channels: int, ratio: int) -> np.ndarray:
    """Decodes an image file. The first bytes indicate its format.

    Some decoders also accept other formats than theirs, see ``ACCEPTED_FORMATS``.

    Args:
      data: the contents of the file.
      image_format: the format of the decoder.
      channels: the number of channels of the result; 0 for that of the file.
      ratio: by which the size of a JPEG is divided.

    Raises:
      ArgumentError: the data are not an image of an accepted format.
    """
    format_of_content = codecs.kind_of(data)
    if format_of_content in ACCEPTED_FORMATS.get(image_format, ()):
        image_format = format_of_content
    if image_format == "png":
        return codecs.decode_png(data)
    if image_format == "bmp":
        return codecs.decode_bmp(data)
    if image_format == "jpeg":
        return codecs.decode_jpeg(data, channels, ratio)
    if image_format == "gif":
        return codecs.decode_gif(data)
    if image_format == "webp":
        return codecs.decode_webp(data, channels)
    raise ArgumentError("Unknown image file format. One of JPEG, PNG, GIF, BMP required.")


def with_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """Converts an image to 1 (grey), 2 (grey and opacity), 3 (RGB) or 4 (RGB and opacity) channels."""
    colours, opacity = image, None
    if image.shape[-1] in (2, 4):
        colours, opacity = image[..., :-1], image[..., -1:]
    if channels in (3, 4) and colours.shape[-1] == 1:
        colours = np.repeat(colours, 3, axis=-1)
    if channels in (1, 2) and colours.shape[-1] == 3:
        # The luma of RGB.
        colours = np.floor(colours @ np.array(GREY))[..., None].astype(image.dtype)
    if channels in (1, 3):
        return colours
    if opacity is None:
        opacity = np.full((*image.shape[:-1], 1), OPAQUE[image.dtype], image.dtype)
    return np.concatenate([colours, opacity], axis=-1)


def as_samples(image: np.ndarray, dtype: DType) -> np.ndarray:
    """Converts the samples of an image to another dtype: between 8 and 16 bits, or to floats in [0, 1]."""
    if dtype.is_floating:
        return (image / np.float32(OPAQUE[image.dtype])).astype(dtype.np)
    if dtype is uint16 and image.dtype == np.uint8:
        return image.astype(np.uint16) * np.uint16(257)  # 255 becomes 65535
    if dtype is uint8 and image.dtype == np.uint16:
        return (image >> 8).astype(np.uint8)
    return image


@text_op(tf_name="DecodeImage", type=_decoded_type, numpy=_decode_file)
def image_of_file(contents: Tensor, kind: str, dtype: DType, channels: Any, sizes: Any, wanted: int, ratio: int) -> Any:
    """Decodes the contents of image files."""
    attrs = {"kind": kind, "dtype": dtype, "channels": channels, "sizes": sizes, "wanted": wanted, "ratio": ratio}
    return (contents,), attrs


def _decode_contents(
    contents: Any, kind: str, channels: Any, dtype: Any = uint8, frames: bool = False, ratio: int = 1
) -> Tensor:
    """Decodes a tensor with the contents of an image file; sizes that only the file determines become unknown dims.

    Args:
      contents: string scalar.
      kind: the format that is accepted, or "any".
      channels: the number of channels of the result; 0 or None for that of the file.
      dtype: the dtype of the result.
      frames: whether the result has an axis of frames before those of the image, as for a GIF.
      ratio: by which the size of a JPEG is divided.
    """
    requested_channels = int(channels or 0)
    sizes = tuple(unknown_dim() for _ in range(3 if frames else 2))
    channel_dim = requested_channels or unknown_dim()
    return bind.image_of_file(  # type: ignore[no-any-return]
        operand(contents, string),
        kind=kind,
        dtype=as_dtype(dtype),
        channels=channel_dim,
        sizes=sizes,
        wanted=requested_channels,
        ratio=ratio,
    )


def _dct_method(value: Any, name: str) -> str:
    method = attribute_text(value, name)
    if method not in ("", "INTEGER_FAST", "INTEGER_ACCURATE"):
        raise ArgumentValueError(f"dct_method must be one of ['', 'INTEGER_FAST', 'INTEGER_ACCURATE'], got {method}")
    return method


def _require_channels(channels: Any, allowed: tuple[int, ...]) -> None:
    if int(channels or 0) not in allowed:
        numbers = ", ".join(map(str, allowed[:-1]))
        message = f"channels must be {numbers} or {allowed[-1]}, got {channels} [Op:DecodeImage]"
        raise InvalidArgumentError(None, "DecodeImage", message)


@export("io.decode_png", "image.decode_png")
@attributes(channels=int, dtype=one_of(uint8, uint16))
def decode_png(contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None) -> Tensor:
    """Decodes a PNG file's contents; needs Pillow (``pip install tvtf[image]``).

    Args:
      contents: a string.
      channels: 0 for those of the file, 1 for grey, 3 for RGB, 4 for RGB and alpha.
      dtype: uint8 or uint16.

    Returns:
      Shape (height, width, channels).

    >>> import tvtf as tf
    >>> tf.io.decode_png(tf.io.encode_png(tf.constant([[[1], [2]]], tf.uint8))).numpy().ravel()
    array([1, 2], dtype=uint8)

    Raises:
      InvalidArgumentError: ``contents`` is not a valid PNG file, or Pillow is not installed.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_png
    """
    _require_channels(channels, (0, 1, 3, 4))
    return _decode_contents(contents, "png", channels, dtype)


@export("io.decode_bmp", "image.decode_bmp")
@attributes(channels=int)
def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Decodes a BMP file's contents.

    >>> import struct
    >>> import tvtf as tf
    >>> head = b"BM" + struct.pack("<I4xIIiiHHIIiiII", 58, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0)
    >>> tf.io.decode_bmp(head + bytes([3, 2, 1, 0])).numpy().ravel()
    array([1, 2, 3], dtype=uint8)

    Raises:
      InvalidArgumentError: ``contents`` is not a valid BMP file.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_bmp
    """
    _require_channels(channels, (0, 1, 3, 4))
    return _decode_contents(contents, "bmp", channels)


JPEG = attributes(
    fancy_upscaling=bool,
    try_recover_truncated=bool,
    channels=int,
    ratio=int,
    acceptable_fraction=float,
    dct_method=_dct_method,
)
"""Converts the decoders' arguments that are attributes in TensorFlow."""


@export("io.decode_jpeg", "image.decode_jpeg")
@JPEG
def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decodes a JPEG file's contents; needs Pillow (``pip install tvtf[image]``).

    Args:
      contents: a string.
      channels: 0 for those of the file, 1 for grey, 3 for colours.
      ratio: 1, 2, 4 or 8: the factor by which the image is scaled down.
      fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method: accepted; Pillow's decoder decides. Its values
        are those of TensorFlow with ``dct_method="INTEGER_ACCURATE"``, a few of 255 from those of its default, the fast one.

    >>> import tvtf as tf
    >>> tf.io.decode_jpeg(tf.io.encode_jpeg(tf.zeros([2, 3, 3], tf.uint8))).shape
    TensorShape([2, 3, 3])

    Raises:
      InvalidArgumentError: ``contents`` is not a valid JPEG file, or Pillow is not installed.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_jpeg
    """
    _require_channels(channels, (0, 1, 3))
    return _decode_contents(contents, "jpeg", channels, ratio=ratio)


@export("io.decode_and_crop_jpeg", "image.decode_and_crop_jpeg")
@JPEG
def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decodes a part of a JPEG file's image; needs Pillow (``pip install tvtf[image]``).

    Args:
      crop_window: top, left, height and width.
      contents, channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method: as for
        ``tf.io.decode_jpeg``.

    >>> import tvtf as tf
    >>> tf.io.decode_and_crop_jpeg(tf.io.encode_jpeg(tf.zeros([4, 4, 3], tf.uint8)), [1, 1, 2, 3]).shape
    TensorShape([2, 3, 3])

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_and_crop_jpeg
    """
    whole = decode_jpeg(contents, channels, ratio)
    window = convert_to_tensor(crop_window, dtype_hint=int32)
    zero = EagerTensor(np.zeros(1, np.int32))
    channel_count = bind.shape(whole, dtype=int32)[2:]
    return slice_(whole, bind.concat(window[:2], zero, axis=0), bind.concat(window[2:], channel_count, axis=0))


@export("io.decode_gif", "image.decode_gif")
def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decodes all frames of a GIF file, shape (frames, height, width, 3); needs Pillow (``pip install tvtf[image]``).

    >>> import io
    >>> import tvtf as tf
    >>> from PIL import Image
    >>> Image.new("RGB", (3, 2)).save(file := io.BytesIO(), "GIF")
    >>> tf.io.decode_gif(file.getvalue()).shape
    TensorShape([1, 2, 3, 3])

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_gif
    """
    return _decode_contents(contents, "gif", 3, frames=True)


@export("io.decode_webp", "image.decode_webp")
@attributes(channels=int, dtype=one_of(uint8))
def decode_webp(contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None) -> Tensor:
    """Decodes a WebP file's contents; needs Pillow (``pip install tvtf[image]``).

    >>> import io
    >>> import tvtf as tf
    >>> from PIL import Image
    >>> Image.new("RGB", (3, 2)).save(file := io.BytesIO(), "WebP")
    >>> tf.io.decode_webp(file.getvalue()).shape[:2]
    TensorShape([2, 3])

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_webp
    """
    _require_channels(channels, (0, 3, 4))
    return _decode_contents(contents, "webp", channels, dtype)


@export("io.decode_image", "image.decode_image")
@attributes(expand_animations=bool, channels=int)
def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decodes a BMP, GIF, JPEG or PNG file; all but BMP need Pillow (``pip install tvtf[image]``).

    Args:
      contents: a string.
      channels: 0 or None for those of the file, or 1, 3, 4.
      dtype: uint8, uint16 or a floating one, whose values are in [0, 1].
      expand_animations: give all frames of a GIF file, with one dim more. In a traced function only False is possible,
        because the rank is unknown otherwise.

    >>> import tvtf as tf
    >>> tf.io.decode_image(tf.io.encode_png(tf.zeros([2, 3, 1], tf.uint8))).shape
    TensorShape([2, 3, 1])

    Raises:
      InvalidArgumentError: ``contents`` is not a valid file of these formats, or Pillow is needed and not installed.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_image
    """
    file = operand(contents, string)
    frames = expand_animations and isinstance(file, EagerTensor) and codecs.kind_of(file.numpy()) == "gif"
    result_dtype = as_dtype(dtype)
    decoded_dtype = result_dtype if result_dtype in (uint8, uint16, float32) else uint16
    image = _decode_contents(file, "gif" if frames else "", 3 if frames else channels, decoded_dtype, frames=frames)
    return image if decoded_dtype is result_dtype else convert_image_dtype(image, result_dtype)


# -- back


def _encoded_type(image: TensorType, *rest: TensorType, **_: Any) -> TensorType:
    if len(image.shape) < 3:
        raise ArgumentError(f"image must be at least rank 3, but has shape [{','.join(map(str, image.shape))}]")
    return TensorType(image.shape[:-3], string)


def _encode_each(image: np.ndarray, encode: Any) -> np.ndarray:
    files = np.empty(image.shape[:-3], object)
    for index in np.ndindex(files.shape):
        files[index] = encode(np.ascontiguousarray(image[index]))
    return files


@text_op(
    tf_name="EncodePng",
    type=_encoded_type,
    numpy=lambda image, compression: _encode_each(image, lambda one: codecs.encode_png(one, compression)),
)
def png_of_image(image: Tensor, compression: int) -> Any:
    """Encodes images as PNG files."""
    return (image,), {"compression": compression}


@export("io.encode_png", "image.encode_png")
@attributes(compression=int)
def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Encodes an image, or each image of a batch, as a PNG file.

    Args:
      image: uint8 or uint16, shape (..., height, width, channels), 1 to 4 channels.
      compression: -1 (zlib's own choice) to 9.

    >>> import tvtf as tf
    >>> tf.io.encode_png(tf.zeros([1, 1, 1], tf.uint8)).numpy()[:4]
    b'\\x89PNG'

    Raises:
      InvalidArgumentError: the image does not have 1 to 4 channels.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/encode_png
    """
    x = convert_to_tensor(image)
    require_dtype(x._type, (uint8, uint16), "image")
    if x.ndim >= 3 and x.shape[-1] not in (1, 2, 3, 4, None):
        message = f"image must have 1, 2, 3, or 4 channels, got {x.shape[-1]} [Op:EncodePng]"
        raise InvalidArgumentError(None, "EncodePng", message)
    return bind.png_of_image(x, compression=int(compression))  # type: ignore[no-any-return]


def _encode_jpeg_array(image: np.ndarray, quality: np.ndarray, options: str) -> np.ndarray:
    if not 0 <= int(quality) <= 100:
        raise ArgumentError(f"quality must be in [0,100], got {int(quality)}")
    return _encode_each(image, lambda one: codecs.encode_jpeg(one, quality=int(quality), **json.loads(options)))


@text_op(tf_name="EncodeJpeg", type=_encoded_type, numpy=_encode_jpeg_array)
def jpeg_of_image(image: Tensor, quality: Tensor, options: str) -> Any:
    """Encodes an image as a JPEG file."""
    return (image, quality), {"options": options}


@export("io.encode_jpeg", "image.encode_jpeg")
@attributes(
    progressive=bool,
    optimize_size=bool,
    chroma_downsampling=bool,
    format=word_of("", "grayscale", "rgb"),
    quality=int,
    density_unit=word_of("in", "cm"),
    x_density=int,
    y_density=int,
    xmp_metadata=str,
)
def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Encodes an image as a JPEG file; needs Pillow (``pip install tvtf[image]``).

    Args:
      image: uint8, shape (height, width, 1 or 3).
      format: "", "grayscale" or "rgb", which must match the channels.
      quality: 0 to 100.
      progressive, optimize_size, chroma_downsampling: settings of the encoder.
      density_unit, x_density, y_density: "in" or "cm", and the number of pixels per unit.
      xmp_metadata: text that the file contains.

    >>> import tvtf as tf
    >>> tf.io.is_jpeg(tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8))).numpy()
    np.True_

    Raises:
      InvalidArgumentError: the image does not have 1 or 3 channels, the quality is invalid, or Pillow is not installed.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/encode_jpeg
    """
    x = operand(image, uint8)
    factor = {"in": 1.0, "cm": 2.54}[density_unit]
    options: dict[str, Any] = {
        "progressive": progressive,
        "optimize": optimize_size,
        "subsampling": 2 if chroma_downsampling else 0,
    }
    options |= {"dpi": [round(x_density * factor), round(y_density * factor)]}
    options |= {"xmp": xmp_metadata} if xmp_metadata else {}
    return _encode_jpeg_tensor(x, convert_to_tensor(quality, int32), json.dumps(options))


def _encode_jpeg_tensor(x: Tensor, quality: Tensor, options: str) -> Tensor:
    """Checks the shape of an image and the quality, and encodes the image as a JPEG file; ``options`` are JSON."""
    op = "EncodeJpeg"
    if x.ndim != 3:
        raise ArgumentError(f"image must be 3-dimensional{show_shape(x._type.shape)}").for_op(op)
    if quality.ndim:
        raise ArgumentValueError(f"quality must be scalar: {show_shape(quality._type.shape)}").for_op(op)
    channels = x.shape[-1]
    if channels not in (1, 3, None):
        shape_text = ",".join(map(str, x.shape))
        message = f"image must be 3-dimensional[{shape_text}] with 1 or 3 channels [Op:{op}]"
        raise InvalidArgumentError(None, op, message)
    return bind.jpeg_of_image(x, quality, options=options)  # type: ignore[no-any-return]


@export("image.adjust_jpeg_quality")
@attributes(dct_method=_dct_method)
def adjust_jpeg_quality(image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """Encodes an image as JPEG of a quality and decodes it again; needs Pillow (``pip install tvtf[image]``).

    Args:
      image: shape (height, width, 1 or 3).
      jpeg_quality: 0 to 100.
      dct_method: accepted; Pillow's decoder decides.

    >>> import tvtf as tf
    >>> tf.image.adjust_jpeg_quality(tf.zeros([8, 8, 3], tf.uint8), 75).shape
    TensorShape([8, 8, 3])

    Raises:
      InvalidArgumentError: the image does not have 1 or 3 channels, the quality is invalid, or Pillow is not installed.

    Source: https://www.tensorflow.org/api_docs/python/tf/image/adjust_jpeg_quality
    """
    x = convert_to_tensor(image)
    pixels = convert_image_dtype(x, uint8, saturate=True)
    file = _encode_jpeg_tensor(pixels, operand(jpeg_quality, int32, 1), "{}")
    decoded = decode_jpeg(file, channels=x.shape[-1] or 0)
    return convert_image_dtype(bind.reshape(decoded, shape=x._type.shape), x.dtype, saturate=True)


# -- what a file is


@text_op(
    tf_name="Substr",
    type=lambda x: TensorType(x.shape, as_dtype("bool")),
    numpy=lambda array: np.array([codecs.kind_of(text) == "jpeg" for text in array.ravel()], bool).reshape(array.shape),
)
def starts_as_jpeg(x: Tensor) -> Any:
    """Returns whether contents begin like those of a JPEG file."""
    return (x,), {}


@export("io.is_jpeg", "image.is_jpeg")
def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Returns whether a file's contents are JPEG.

    >>> import tvtf as tf
    >>> tf.io.is_jpeg(b"GIF89a").numpy()
    np.False_

    Source: https://www.tensorflow.org/api_docs/python/tf/io/is_jpeg
    """
    return bind.starts_as_jpeg(operand(contents, string))  # type: ignore[no-any-return]


def _jpeg_sizes(contents: np.ndarray, output_type: DType) -> np.ndarray:
    def read(image: Any) -> np.ndarray:
        return np.array([image.height, image.width, len(image.getbands())], output_type.np)

    return codecs.read_with_pillow(contents.item(), "JPEG", read)  # type: ignore[no-any-return]


@text_op(
    tf_name="ExtractJpegShape",
    type=lambda contents, output_type: TensorType((3,), output_type),
    numpy=_jpeg_sizes,
)
def jpeg_sizes(contents: Tensor, output_type: DType) -> Any:
    """Returns height, width and channels of a JPEG file."""
    return (contents,), {"output_type": output_type}


@export("io.extract_jpeg_shape", "image.extract_jpeg_shape")
@attributes(output_type=one_of(int32, int64))
def extract_jpeg_shape(contents: Any, output_type: Any = int32, name: str | None = None) -> Tensor:
    """Returns height, width and channels of a JPEG file; needs Pillow (``pip install tvtf[image]``).

    >>> import tvtf as tf
    >>> tf.io.extract_jpeg_shape(tf.io.encode_jpeg(tf.zeros([2, 3, 1], tf.uint8))).numpy()
    array([2, 3, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/io/extract_jpeg_shape
    """
    return bind.jpeg_sizes(operand(contents, string), output_type=as_dtype(output_type))  # type: ignore[no-any-return]
