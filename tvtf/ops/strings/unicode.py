"""Unicode text: characters as code points and as strings, encodings, scripts.

Ops with a list of characters for each string return values and row splits; the functions of ``tf.strings`` that make ragged
tensors of them are in ``tvtf/composites/ragged/string_ops.py``.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorType, simplify_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int32, int64, string
from tvtf.errors import InvalidArgumentError
from tvtf.ops.host import unknown_dim
from tvtf.ops.operands import attributes, word_of
from tvtf.ops.rules import attribute_text, require_dtype
from tvtf.ops.strings.rules import like_text, mapped, text, text_op
from tvtf.ops.strings.scripts import LAST, scripts_of

OUTPUTS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
ERRORS = ("strict", "replace", "ignore")
REPLACING = attributes(errors=word_of(*ERRORS), replacement_char=int)
"""Converters of the attributes that say how invalid characters are treated."""
SURROGATES = range(0xD800, 0xE000)


class _Invalid:
    """A marker in place of bytes that are no character."""


def codec_of(encoding: str, op: str) -> str:
    """Returns Python's name of an encoding that ICU knows.

    Raises:
      InvalidArgumentError: the encoding is unknown.
    """
    encoding = attribute_text(encoding, "input_encoding")
    try:
        return codecs.lookup(OUTPUTS.get(encoding.upper(), encoding)).name
    except LookupError:
        raise InvalidArgumentError(None, op, f"Could not create converter for input encoding: {encoding}") from None


def _characters(value: bytes, codec: str) -> Iterator[tuple[Any, int]]:
    """Decodes a string, and yields a pair for each character: the character and its byte offset.

    Bytes that are invalid in the encoding ``codec`` yield ``_Invalid`` and their offset.
    """
    offset = 0
    while offset < len(value):
        try:
            # Decode the rest of the string, if it has no invalid bytes.
            characters = value[offset:].decode(codec)
            invalid_offset = next_offset = len(value)
        except UnicodeDecodeError as error:
            invalid_offset = offset + error.start
            characters = value[offset:invalid_offset].decode(codec)
            next_offset = offset + max(error.end, error.start + 1)  # skip at least one byte
        for character in characters:
            yield character, offset
            offset += len(character.encode(codec))
        if invalid_offset < next_offset:
            yield _Invalid, invalid_offset
        offset = next_offset


def decoded(value: bytes, codec: str, errors: str, replacement: int, controls: bool) -> list[tuple[int, int]]:
    """Decodes a string in the encoding ``codec`` to a list of (code point, byte offset).

    Invalid bytes are replaced if ``errors`` is "replace", and left out if it is "ignore". With ``controls``,
    control characters are replaced, too.

    Raises:
      ArgumentError: the string has invalid bytes, with ``errors="strict"``.
    """
    points = []
    for character, offset in _characters(value, codec):
        if character is _Invalid:
            if errors == "strict":
                raise ArgumentError("Invalid formatting on input string")
            if errors == "replace":
                points.append((replacement, offset))
        # Code points below 0x20 are control characters.
        elif controls and ord(character) < 0x20:
            points.append((replacement, offset))
        else:
            points.append((ord(character), offset))
    return points


def options(errors: str, replacement_char: int, replace_control_characters: bool, op: str) -> dict[str, Any]:
    """Checks and returns the attributes that all decoding ops share."""
    if not 0 <= replacement_char <= LAST or replacement_char in SURROGATES:
        raise ArgumentError("replacement_char out of unicode codepoint range").for_op(op)
    return {"errors": errors, "replacement": replacement_char, "controls": replace_control_characters}


# -- decoding strings to characters


def _decode_types(x: TensorType, count: Any, **_: Any) -> tuple[TensorType, ...]:
    """Checks a vector of strings, and returns the types of code points, byte offsets and row splits."""
    require_dtype(x, (string,), "input")
    if len(x.shape) != 1:
        raise ArgumentError(f"expects a vector of strings, but got shape [{','.join(map(str, x.shape))}]")
    splits = x.shape[0] + 1
    return TensorType((count,), int32), TensorType((count,), int64), TensorType((splits,), int64)


def _decode(array: np.ndarray, codec: str, errors: str, replacement: int, controls: bool, count: Any) -> Any:
    """Decodes a vector of strings to code points, their byte offsets, and the row splits of both."""
    rows = [decoded(value, codec, errors, replacement, controls) for value in array.tolist()]
    points = np.array([point for row in rows for point, _ in row], np.int32)
    offsets = np.array([offset for row in rows for _, offset in row], np.int64)
    return points, offsets, splits_of(rows)


def splits_of(rows: list[Any]) -> np.ndarray:
    """Returns the row splits of a list of rows: where each begins in their concatenation, and where the last ends."""
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)


@text_op(tf_name="UnicodeDecodeWithOffsets", type=_decode_types, numpy=_decode)
def unicode_points(x: Tensor, codec: str, errors: str, replacement: int, controls: bool, count: Any) -> Any:
    """Decodes a vector of strings to code points, their byte offsets, and the row splits of both."""
    return (x,), {"codec": codec, "errors": errors, "replacement": replacement, "controls": controls, "count": count}


def points_of(vector: Tensor, encoding: str, attrs: dict[str, Any], op: str) -> tuple[Tensor, Tensor, Tensor]:
    """Decodes a vector of strings in a given encoding by `unicode_points`."""
    codec = codec_of(encoding, op)
    return unicode_points.bind(vector, codec=codec, count=unknown_dim(), **attrs)  # type: ignore[no-any-return]


# -- strings of code points


def _encode_type(values: TensorType, splits: TensorType, codec: str, errors: str, replacement: int) -> TensorType:
    """Checks int32 code points; the result is a string for each row."""
    require_dtype(values, (int32,), "input_values")
    return TensorType((simplify_dim(splits.shape[0] - 1),), string)


def _encode(values: np.ndarray, splits: np.ndarray, codec: str, errors: str, replacement: int) -> np.ndarray:
    """Encodes the code points of each ragged row as one string in the encoding ``codec``.

    Row i has the ``values`` from ``splits[i]`` to ``splits[i + 1]``. ``errors`` selects what to do with an invalid code
    point, for example to write ``replacement`` instead.
    """
    points = values.tolist()
    result = np.empty(len(splits) - 1, object)
    result[:] = [
        _encoded_row(points[start:end], codec, errors, replacement) for start, end in zip(splits[:-1], splits[1:])
    ]
    return result


def _encoded_row(points: list[int], codec: str, errors: str, replacement: int) -> bytes:
    """Encodes code points as one string in the encoding ``codec``.

    Invalid code points raise an error if ``errors`` is "strict". They become ``replacement`` if it is "replace", and
    are dropped otherwise.
    """

    def is_valid(point: int) -> bool:
        return 0 <= point <= LAST and point not in SURROGATES

    valid = [point for point in points if is_valid(point)]
    if len(valid) != len(points):
        if errors == "strict":
            raise ArgumentError("Code point is out of range for Unicode, or a noncharacter.")
        if errors == "replace":
            valid = [point if is_valid(point) else replacement for point in points]
    return "".join(map(chr, valid)).encode(codec)


@text_op(tf_name="UnicodeEncode", type=_encode_type, numpy=_encode)
def unicode_texts(values: Tensor, splits: Tensor, codec: str, errors: str, replacement: int) -> Any:
    """Encodes each row of code points as a string."""
    return (values, splits), {"codec": codec, "errors": errors, "replacement": replacement}


def output_codec(encoding: str, op: str) -> str:
    """Returns Python's name of an output encoding.

    Raises:
      InvalidArgumentError: TensorFlow doesn't support the encoding for output.
    """
    if encoding not in OUTPUTS:
        allowed = ", ".join(f'"{each}"' for each in OUTPUTS)
        raise ArgumentError(
            f"Value for attr 'output_encoding' of \"{encoding}\" is not in the list of allowed values: {allowed}"
        ).for_op(op)
    return OUTPUTS[encoding]


# -- string by string


def _transcode(array: np.ndarray, codec: str, output: str, errors: str, replacement: int, controls: bool) -> np.ndarray:
    """Converts each string from the encoding ``codec`` to the encoding ``output``.

    ``errors`` selects what to do with invalid bytes, for example to put the code point ``replacement`` there. With
    ``controls``, control characters are replaced, too.
    """

    def transcode_one(value: bytes) -> bytes:
        points = [point for point, _ in decoded(value, codec, errors, replacement, controls)]
        return "".join(map(chr, points)).encode(output)

    return mapped(transcode_one, array)


@text_op(type=like_text, numpy=_transcode, public=("strings.unicode_transcode",))
@REPLACING
@attributes(replace_control_characters=bool, output_encoding=word_of(*OUTPUTS))
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Converts each string to another encoding.

    Args:
      input: string tensor.
      input_encoding: how its bytes are to be read.
      output_encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE".
      errors: "strict", "replace" or "ignore" what is no character.
      replacement_char: the code point that takes its place.
      replace_control_characters: whether it takes that of control characters, too.

    >>> import tvtf as tf
    >>> tf.strings.unicode_transcode(["Hé"], "UTF-8", "UTF-16-BE").numpy()
    array([b'\\x00H\\x00\\xe9'], dtype=object)

    Raises:
      InvalidArgumentError: the encoding is unknown, or the text is invalid with ``errors="strict"``.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_transcode
    """
    op = "UnicodeTranscode"
    attrs = options(errors, replacement_char, replace_control_characters, op)
    return (text(input),), attrs | {"codec": codec_of(input_encoding, op), "output": output_codec(output_encoding, op)}


def _script_type(x: TensorType) -> TensorType:
    """Checks int32 code points; the scripts' numbers are int32, too."""
    require_dtype(x, (int32,), "input")
    return TensorType(x.shape, int32)


@text_op(type=_script_type, numpy=scripts_of, public=("strings.unicode_script",))
def unicode_script(input: Any, name: str | None = None) -> Any:
    """Returns the ICU number of the script of each code point, or -1 for an invalid code point.

    >>> import tvtf as tf
    >>> tf.strings.unicode_script([1, 31, 38, ord("a"), ord("я")]).numpy()
    array([ 0,  0,  0, 25,  8], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_script
    """
    return (convert_to_tensor(input, dtype_hint=int32),), {}
