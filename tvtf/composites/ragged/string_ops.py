"""``tf.strings`` functions that return several values per string: a vector for one string, else a ragged tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.ragged.build import from_tensor
from tvtf.composites.ragged.kernels import counted, dim
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int32, int64, string
from tvtf.ops.cast import cast
from tvtf.ops.host import unknown_dim
from tvtf.ops.operands import attributes, word_of
from tvtf.ops.rules import attribute_bool, attribute_text, bind, require_dtype, static_int
from tvtf.ops.strings.rules import text, text_op
from tvtf.ops.strings.unicode import OUTPUTS, REPLACING, options, output_codec, points_of, splits_of


def _parts_types(x: TensorType, count: Any, **_: Any) -> tuple[TensorType, TensorType]:
    require_dtype(x, (string,), "input")
    return TensorType((count,), string), TensorType((x.shape[0] + 1,), int64)


def _values_and_splits(rows: list[list[bytes]]) -> tuple[np.ndarray, np.ndarray]:
    values = [part for row in rows for part in row]
    result = np.empty(len(values), object)
    result[:] = values
    return result, splits_of(rows)


def _split_one(value: bytes, sep: str, maxsplit: int) -> list[bytes]:
    return value.split(sep.encode() or None, maxsplit)


@text_op(
    tf_name="StringSplitV2",
    type=_parts_types,
    numpy=lambda array, sep, maxsplit, count: _values_and_splits(
        [_split_one(v, sep, maxsplit) for v in array.tolist()]
    ),
)
def split_parts(x: Tensor, sep: str, maxsplit: int, count: Any) -> Any:
    """Returns the parts of a vector's strings, and their row splits."""
    return (x,), {"sep": sep, "maxsplit": maxsplit, "count": count}


@text_op(
    tf_name="StringBytesSplit",
    type=_parts_types,
    numpy=lambda array, count: _values_and_splits([[v[i : i + 1] for i in range(len(v))] for v in array.tolist()]),
)
def split_bytes(x: Tensor, count: Any) -> Any:
    """Returns the bytes of a vector's strings, and their row splits."""
    return (x,), {"count": count}


def _split_strings(input: Any, parts: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Any, ...]:
    """Splits the strings of a tensor of any rank, or of a ragged tensor, by ``parts``, which splits a vector of strings.

    ``parts`` returns one or more vectors of results, then their row splits. For each vector of results, a ragged tensor
    is returned, or the vector itself if ``input`` is a scalar.
    """
    if isinstance(input, RaggedTensor):
        inner = _split_strings(input.flat_values, parts)
        return tuple(input.with_flat_values(each) for each in inner)
    x = text(input)
    require_dtype(x._type, (string,), "input")
    if x.ndim == 0:
        *values, _ = parts(bind.reshape(x, shape=(1,)))
        return tuple(values)
    if x.ndim == 1:
        *values, splits = parts(x)
        return tuple(RaggedTensor(part_values, splits) for part_values in values)
    return _split_strings(from_tensor(x, None, None, x.ndim - 1, int64), parts)


@export("strings.split")
@attributes(maxsplit=int)
def split(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Returns the parts of each string between separators.

    Args:
      input: string tensor, or a ragged one.
      sep: the separator; None or empty for white space of any length.
      maxsplit: the maximum number of splits; -1 for no limit.

    Returns:
      A vector for a scalar, a ragged tensor otherwise.

    >>> import tvtf as tf
    >>> tf.strings.split("hello world").numpy(), tf.strings.split(["a b", "c"])
    (array([b'hello', b'world'], dtype=object), <tf.RaggedTensor [[b'a', b'b'], [b'c']]>)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/split
    """
    separator = "" if sep is None else sep
    if not isinstance(separator, str):
        separator = bytes(convert_to_tensor(separator).numpy()).decode()

    def parts_of(strings: Tensor) -> tuple[Tensor, ...]:
        """Splits a vector of strings, and returns the parts and their row splits."""
        return bind.split_parts(strings, sep=separator, maxsplit=int(maxsplit), count=unknown_dim())  # type: ignore[no-any-return]

    (parts,) = _split_strings(input, parts_of)
    return parts


@export("strings.bytes_split")
def bytes_split(input: Any, name: str | None = None) -> Any:
    """Returns the bytes of each string.

    >>> import tvtf as tf
    >>> tf.strings.bytes_split("hi").numpy(), tf.strings.bytes_split(["ab", "c"])
    (array([b'h', b'i'], dtype=object), <tf.RaggedTensor [[b'a', b'b'], [b'c']]>)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/bytes_split
    """
    (characters,) = _split_strings(input, lambda strings: bind.split_bytes(strings, count=unknown_dim()))
    return characters


# -- characters


def _code_points(input: Any, encoding: str, errors: str, replacement: int, controls: bool, op: str) -> tuple[Any, ...]:
    error_options = options(errors, replacement, controls, op)
    return _split_strings(input, lambda x: points_of(x, encoding, error_options, op))


@export("strings.unicode_decode")
@REPLACING
@attributes(replace_control_characters=bool)
def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Returns the code points of each string, int32.

    Args:
      input: string tensor.
      input_encoding: the encoding of its bytes, such as "UTF-8".
      errors, replacement_char, replace_control_characters: see ``tf.strings.unicode_transcode``.

    >>> import tvtf as tf
    >>> tf.strings.unicode_decode(["Hé", "a"], "UTF-8")
    <tf.RaggedTensor [[72, 233], [97]]>

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_decode
    """
    return _code_points(input, input_encoding, errors, replacement_char, replace_control_characters, "UnicodeDecode")[0]


@export("strings.unicode_decode_with_offsets")
@REPLACING
@attributes(replace_control_characters=bool)
def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Returns the code points of each string, and the offsets of their first bytes.

    >>> import tvtf as tf
    >>> tf.strings.unicode_decode_with_offsets("éa", "UTF-8")[1].numpy()
    array([0, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_decode_with_offsets
    """
    op = "UnicodeDecodeWithOffsets"
    points, offsets = _code_points(input, input_encoding, errors, replacement_char, replace_control_characters, op)
    return points, offsets


@export("strings.unicode_split")
@REPLACING
def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Returns the characters of each string, as strings in its encoding.

    >>> import tvtf as tf
    >>> tf.strings.unicode_split("Hé", "UTF-8").numpy()
    array([b'H', b'\\xc3\\xa9'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_split
    """
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char)[0]


@export("strings.unicode_split_with_offsets")
@REPLACING
def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> tuple[Any, Any]:
    """Returns the characters of each string, and the offsets of their first bytes.

    >>> import tvtf as tf
    >>> tf.strings.unicode_split_with_offsets("éa", "UTF-8")[1].numpy()
    array([0, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_split_with_offsets
    """
    op = "UnicodeDecodeWithOffsets"
    points, offsets = _code_points(input, input_encoding, errors, replacement_char, False, op)
    if not isinstance(points, RaggedTensor):  # of a scalar
        return _single_characters(points, input_encoding), offsets
    characters = _single_characters(points.flat_values, input_encoding)
    return points.with_flat_values(characters), offsets


def _single_characters(points: Tensor, encoding: str) -> Tensor:
    splits = counted(dim(points, 0), int64)
    return bind.unicode_texts(
        points, splits, codec=output_codec(encoding, "UnicodeEncode"), errors="replace", replacement=65533
    )


@export("strings.unicode_encode")
@REPLACING
@attributes(output_encoding=word_of(*OUTPUTS))
def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Encodes each row of code points as a string.

    Args:
      input: int32 tensor or ragged tensor; the last axis is a string's characters.
      output_encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE".

    >>> import tvtf as tf
    >>> tf.strings.unicode_encode([[72, 105], [97, 98]], "UTF-8").numpy()
    array([b'Hi', b'ab'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unicode_encode
    """
    error_options = options(errors, replacement_char, False, "UnicodeEncode")
    attrs = {
        "codec": output_codec(output_encoding, "UnicodeEncode"),
        "errors": errors,
        "replacement": error_options["replacement"],
    }
    if isinstance(input, RaggedTensor):
        return _encode_rows(input, attrs)
    x = convert_to_tensor(input, dtype_hint=int32)
    if x.ndim == 0:
        raise ValueError("input_tensor's rank must be at least 1.")
    if x.ndim == 1:
        row = RaggedTensor.from_row_lengths(x, [x._type.shape[0]]) if isinstance(x, EagerTensor) else _one_row(x)
        return _encode_rows(row, attrs)[0]
    result = _encode_rows(from_tensor(x, None, None, x.ndim - 1, int64), attrs)
    return result.to_tensor() if isinstance(result, RaggedTensor) else result


def _one_row(x: Tensor) -> RaggedTensor:
    return RaggedTensor(x, bind.stack(EagerTensor(np.array(0)), dim(x, 0), axis=0))


def _encode_rows(ragged: RaggedTensor, attrs: dict[str, Any]) -> Any:
    if isinstance(ragged.values, RaggedTensor):
        return ragged.with_values(_encode_rows(ragged.values, attrs))
    return bind.unicode_texts(ragged.values, cast(ragged.row_splits, int64), **attrs)


# -- n-grams


def _ngrams(
    values: np.ndarray, splits: np.ndarray, widths: tuple[int, ...], separator: str, left: str, right: str, pad: int, short: bool,
    count: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Joins every ``width`` consecutive words of each row, for all ``widths``. Returns the n-grams and their row splits.

    Args:
      values, splits: the words, and the row splits of their rows.
      widths: the numbers of words in an n-gram.
      separator: the text between the words of an n-gram.
      left, right: the words with which rows are padded at their ends.
      pad: the maximum number of padding words at each end; negative for ``width - 1``.
      short: whether a row too short for any n-gram gives one n-gram of all its words.
      count: the symbolic number of n-grams, for the result type; not used here.
    """
    joiner = separator.encode()
    rows = []
    for start, end in zip(splits[:-1].tolist(), splits[1:].tolist()):
        words = values[start:end].tolist()
        result = []
        for width in widths:
            pad_count = min(width - 1, pad) if pad >= 0 else width - 1
            padded = words
            if left or right or pad:
                padded = [left.encode()] * pad_count + words + [right.encode()] * pad_count
            result += [joiner.join(padded[i : i + width]) for i in range(len(padded) - width + 1)]
        if short and not result and words:
            result = [joiner.join(words)]
        rows.append(result)
    return _values_and_splits(rows)


@text_op(
    tf_name="StringNGrams",
    type=lambda x, splits, count, **_: (TensorType((count,), string), TensorType(splits.shape, int64)),
    numpy=_ngrams,
)
def string_ngrams(
    values: Tensor, splits: Tensor, widths: tuple[int, ...], separator: str, left: str, right: str, pad: int, short: bool,
    count: Any,
) -> Any:  # fmt: skip
    """Computes the n-grams of each row of words.

    Args:
      values: the words of all rows.
      splits: the row splits.
      widths: the numbers of words of an n-gram.
      separator: the text between words.
      left, right: the text of padding before and after a row.
      pad: the largest number of paddings.
      short: whether a row that is too short for an n-gram gives one of all its words.
      count: the number of n-grams, which may be a symbolic dim.

    Returns:
      the flat values and the row splits.
    """
    attrs = {
        "widths": widths,
        "separator": separator,
        "left": left,
        "right": right,
        "pad": pad,
        "short": short,
        "count": count,
    }
    return (values, splits), attrs


@export("strings.ngrams")
def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Returns the n-grams of each row of strings, joined.

    Args:
      data: string tensor or ragged tensor; n-grams are made along its last axis.
      ngram_width: the length of the n-grams, or a tuple of lengths.
      separator: the separator between strings.
      pad_values: a string, or a pair of strings, with which sequences are padded at both ends.
      padding_width: the maximum number of padding strings at each end; default: ``ngram_width - 1``.
      preserve_short_sequences: returns a sequence that is shorter than the n-grams as one n-gram.

    >>> import tvtf as tf
    >>> tf.strings.ngrams(["A", "B", "C", "D"], 2).numpy()
    array([b'A B', b'B C', b'C D'], dtype=object)

    Raises:
      ValueError: a width is not positive, or there is a ``padding_width`` without ``pad_values``.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/ngrams
    """
    widths = tuple(ngram_width) if isinstance(ngram_width, (list, tuple)) else (ngram_width,)
    widths = tuple(static_int(width, "ngram_width") for width in widths)
    if any(width < 1 for width in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Received: ngram_width={ngram_width}")
    if pad_values is None and padding_width is not None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    if padding_width is not None and padding_width < 1:
        raise ValueError(f"padding_width must be greater than 0. Received: padding_width={padding_width}")
    left, right = pad_values if isinstance(pad_values, (list, tuple)) else (pad_values or "",) * 2
    # -1 stands for the default, which depends on the width.
    pad = (-1 if padding_width is None else int(padding_width)) if pad_values is not None else 0
    attrs = {
        "widths": widths,
        "separator": attribute_text(separator, "separator"),
        "left": left,
        "right": right,
        "pad": pad,
    }
    attrs |= {"short": attribute_bool(preserve_short_sequences, "preserve_short_sequences")}
    if isinstance(data, RaggedTensor):
        return _ngrams_of(data, attrs)
    x = convert_to_tensor(data, string)
    if x.ndim == 1:
        return bind.string_ngrams(x, _one_row(x).row_splits, count=unknown_dim(), **attrs)[0]
    result = _ngrams_of(from_tensor(x, None, None, x.ndim - 1, int64), attrs)
    return result.to_tensor()


def _ngrams_of(ragged: RaggedTensor, attrs: dict[str, Any]) -> RaggedTensor:
    if isinstance(ragged.values, RaggedTensor):
        return ragged.with_values(_ngrams_of(ragged.values, attrs))
    values, splits = bind.string_ngrams(ragged.values, cast(ragged.row_splits, int64), count=unknown_dim(), **attrs)
    return RaggedTensor(values, cast(splits, ragged.row_splits.dtype))
