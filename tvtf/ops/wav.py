"""``tf.audio``: decoding and encoding of WAV files of 16-bit samples."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor
from tvtf.dtypes import float32, int32, string
from tvtf.ops.host import unknown_dim
from tvtf.ops.operands import attributes, operand
from tvtf.ops.rules import bind, require_dtype
from tvtf.ops.strings.rules import text, text_op

_SCALE = 1 << 15
_HEADER = "<4sI4s4sIHHIIHH4sI"
_PCM, _EXTENSIBLE = 1, 0xFFFE


class DecodeWav(NamedTuple):
    """The result of :func:`decode_wav`."""

    audio: Tensor
    sample_rate: Tensor


class _Format(NamedTuple):
    """The contents of a WAV file's chunk "fmt "."""

    kind: int
    channels: int
    rate: int
    bytes_per_second: int
    bytes_per_sample: int
    bits: int


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the chunks of a RIFF file, name and contents. A truncated file cuts the last chunk short."""
    position = 12
    while position + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, position)
        yield name, data[position + 8 : position + 8 + size]
        position += 8 + size + size % 2


def _expect(data: bytes, position: int, expected: bytes) -> None:
    """Checks that a file has an expected four-letter tag at a position, with TensorFlow's errors."""
    tag = data[position : position + 4]
    if len(tag) < 4:
        raise ArgumentError("Data too short when trying to read string")
    if tag != expected:
        raise ArgumentError(f"Header mismatch: Expected {expected.decode()} but found {tag.decode(errors='replace')}")


def _samples(data: bytes) -> tuple[np.ndarray, int]:
    """Decodes a WAV file of 16-bit samples.

    Returns the samples, scaled to [-1, 1) and of shape (points in time, channels), and the sample rate.
    """
    _expect(data, 0, b"RIFF")
    _expect(data, 8, b"WAVE")
    # If chunks have the same name, the first one counts: reversed, it comes last and replaces the others.
    chunks = dict(reversed(list(_chunks(data))))
    if b"fmt " not in chunks or len(chunks[b"fmt "]) < 16:
        raise ArgumentError("Data too short when trying to read string")
    header = _Format(*struct.unpack_from("<HHIIHH", chunks[b"fmt "]))
    if header.kind not in (_PCM, _EXTENSIBLE):
        raise ArgumentError(f"Bad audio format for WAV: Expected 1 (PCM), but got{header.kind}")
    if header.bits != 16:
        raise ArgumentError(f"Can only read 16-bit WAV files, but received {header.bits}")
    if b"data" not in chunks:
        raise ArgumentError("Data too short when trying to read string")
    contents = chunks[b"data"]
    frame_size = 2 * header.channels  # the bytes of one point in time
    complete_size = len(contents) // frame_size * frame_size  # the last frame may be cut off
    values = np.frombuffer(contents[:complete_size], "<i2").reshape(-1, header.channels)
    return values.astype(np.float32) / np.float32(_SCALE), header.rate


def _decoded(
    contents: np.ndarray, wanted_channels: int, wanted_samples: int, **_: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Decodes a WAV file, and returns its samples and the sample rate.

    Channels and samples are dropped or added to get the wanted numbers. Additional channels repeat the last channel.
    Additional samples are zeros.

    Args:
      contents: the file, a scalar.
      wanted_channels, wanted_samples: the numbers of channels and samples; a negative number keeps the file's.
    """
    samples, rate = _samples(contents.item())
    if wanted_channels >= 0:
        last_channel = samples.shape[1] - 1
        samples = samples[:, np.minimum(np.arange(wanted_channels), last_channel)]
    if wanted_samples >= 0:
        missing_count = max(0, wanted_samples - len(samples))
        samples = np.pad(samples[:wanted_samples], [(0, missing_count), (0, 0)])
    return np.ascontiguousarray(samples), np.array(rate, np.uint32).view(np.int32)  # TensorFlow's sample rate is int32


def _decoded_type(contents: TensorType, sizes: Any, **_: Any) -> tuple[TensorType, TensorType]:
    """Returns the types of decode_wav's results, samples and sample rate. The input must be one string."""
    require_dtype(contents, (string,), "contents")
    if contents.shape:
        raise ArgumentError(f"contents must be scalar, got shape [{','.join(map(str, contents.shape))}]")
    return TensorType(sizes, float32), TensorType((), int32)


@text_op(tf_name="DecodeWav", type=_decoded_type, numpy=_decoded)
def wav_samples(contents: Tensor, wanted_channels: int, wanted_samples: int, sizes: Any) -> Any:
    """Decodes a WAV file to samples and their rate."""
    attrs = {"wanted_channels": wanted_channels, "wanted_samples": wanted_samples, "sizes": sizes}
    return (contents,), attrs


@export("audio.decode_wav")
@attributes(desired_channels=int, desired_samples=int)
def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodeWav:
    """Decodes a WAV file of 16-bit samples.

    Args:
      contents: a string, what the file holds.
      desired_channels: how many channels the result has: those that the file has too many are left out, its last one
        stands for those that it lacks; -1 for its own.
      desired_samples: how many samples the result has: zeros follow a shorter sound; -1 for all.

    Returns:
      The samples, float32 from -1 to 1 of shape (samples, channels), and how many there are in a second, an int32 scalar.

    >>> import tvtf as tf
    >>> wav = tf.audio.encode_wav([[0.0], [0.5]], 16000)
    >>> sound, rate = tf.audio.decode_wav(wav, desired_samples=3)
    >>> sound.numpy().ravel(), int(rate)
    (array([0. , 0.5, 0. ], dtype=float32), 16000)

    Raises:
      InvalidArgumentError: ``contents`` is not a WAV file, or its sample format is not supported.

    Source: https://www.tensorflow.org/api_docs/python/tf/audio/decode_wav
    """
    sizes = tuple(count if count >= 0 else unknown_dim() for count in (desired_samples, desired_channels))
    attrs = {"wanted_channels": desired_channels, "wanted_samples": desired_samples, "sizes": sizes}
    return DecodeWav(*bind.wav_samples(text(contents), **attrs))


def _encoded(audio: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Encodes float samples as a WAV file of 16-bit samples.

    ``audio`` has the shape (points in time, channels). Samples are rounded half away from zero and clipped.
    """
    if rate <= 0:
        raise ArgumentValueError(f"sample_rate must be in (0, 2^32), got: {int(rate) % 2**64}")
    scaled_samples = audio * np.float32(_SCALE)
    rounded_samples = np.sign(scaled_samples) * np.floor(np.abs(scaled_samples) + np.float32(0.5))
    data = np.clip(rounded_samples, -_SCALE, _SCALE - 1).astype("<i2").tobytes()
    channels = audio.shape[1]
    sample_rate = int(rate)
    frame_size = 2 * channels  # the bytes of one point in time
    byte_rate = sample_rate * frame_size
    header_size, sample_bits = 16, 16
    header_fields = (header_size, _PCM, channels, sample_rate, byte_rate, frame_size, sample_bits)
    # The RIFF chunk's size counts the 36 bytes of the header after it.
    header = struct.pack(_HEADER, b"RIFF", 36 + len(data), b"WAVE", b"fmt ", *header_fields, b"data", len(data))
    return np.array(header + data, object)


def _encoded_type(audio: TensorType, rate: TensorType) -> TensorType:
    """Checks the types of encode_wav's samples and sample rate, and returns the type of the result, a scalar string."""
    require_dtype(audio, (float32,), "audio")
    require_dtype(rate, (int32,), "sample_rate")
    if len(audio.shape) != 2:
        raise ArgumentError(f"audio must be 2-dimensional[{','.join(map(str, audio.shape))}]")
    if rate.shape:
        raise ArgumentError(f"sample_rate should be a scalar, got shape [{','.join(map(str, rate.shape))}]")
    return TensorType((), string)


@text_op(tf_name="EncodeWav", type=_encoded_type, numpy=_encoded)
def wav_of_samples(audio: Tensor, rate: Tensor) -> Any:
    """Encodes samples as the contents of a WAV file."""
    return audio, rate


@export("audio.encode_wav")
def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """Encodes sound as a WAV file of 16-bit samples.

    Args:
      audio: float32 of shape (samples, channels); values beyond -1 and 1 are clipped.
      sample_rate: the number of samples per second, an int32 scalar.

    >>> import tvtf as tf
    >>> tf.strings.length(tf.audio.encode_wav([[0.0], [0.5]], 16000)).numpy()
    np.int32(48)

    Raises:
      InvalidArgumentError: the rank of ``audio`` is not 2.

    Source: https://www.tensorflow.org/api_docs/python/tf/audio/encode_wav
    """
    return bind.wav_of_samples(operand(audio, float32), operand(sample_rate, int32, 1))  # type: ignore[no-any-return]
