"""Elementwise string ops: case, length, substrings; and joining, formatting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, agree_shape, brackets, is_static_shape
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import int32, int64, string
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import attributes, flag
from tvtf.ops.rules import bind, broadcast_types, canonical_axes, require_dtype, static_int, variadic_inputs
from tvtf.ops.strings.rules import each_text, from_text, like_text, mapped, text, text_op
from tvtf.ops.tensor_text import filled, tensor_text

UNITS = ("BYTE", "UTF8_CHAR")
UTF8_TAIL = 0x80


def _encoding(encoding: str) -> str:
    """Returns the argument ``encoding`` of `tf.strings.lower` and `upper`, or raises TensorFlow's error if it is invalid."""
    if encoding not in ("", "utf-8"):
        raise ArgumentValueError(f"only utf8 or '' (no encoding) is supported, received {encoding}")
    return encoding


def _unit(unit: str, op: str) -> str:
    """Checks the argument ``unit`` of a string op, and returns it.

    A unit is "BYTE" or "UTF8_CHAR". Another one raises TensorFlow's error for the op ``op``.
    """
    if unit not in UNITS:
        allowed = ", ".join(f'"{each}"' for each in UNITS)
        raise ArgumentError(
            f"Value for attr 'unit' of \"{unit}\" is not in the list of allowed values: {allowed}\n\t; NodeDef: {{{{node {op}}}}}"
        ).for_op(op)
    return unit


def _case_op(case: str) -> Any:
    """Declares the op that converts strings to another case by Python's method ``case``: "lower" or "upper"."""

    def convert(value: bytes, encoding: str) -> Any:  # without an encoding, Python's bytes change ASCII letters only
        return getattr(value.decode(errors="replace"), case)().encode() if encoding else getattr(value, case)()

    return text_op(type=like_text, numpy=each_text(convert), public=(f"strings.{case}",))


@_case_op("lower")
@attributes(encoding=str)
def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Converts each string to lower case.

    Args:
      input: string tensor.
      encoding: "" for ASCII letters only, "utf-8" for all of Unicode.

    >>> import tvtf as tf
    >>> tf.strings.lower(["CamelCase", "ÄB"], encoding="utf-8").numpy()
    array([b'camelcase', b'\\xc3\\xa4b'], dtype=object)

    Raises:
      ValueError: ``encoding`` is neither "" nor "utf-8".

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/lower
    """
    return (text(input),), {"encoding": _encoding(encoding)}


@_case_op("upper")
@attributes(encoding=str)
def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Converts each string to upper case; see ``tf.strings.lower``.

    >>> import tvtf as tf
    >>> tf.strings.upper("CamelCase").numpy()
    b'CAMELCASE'

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/upper
    """
    return (text(input),), {"encoding": _encoding(encoding)}


@text_op(type=like_text, numpy=each_text(bytes.strip), public=("strings.strip",))
def string_strip(input: Any, name: str | None = None) -> Any:
    """Removes the white space at both ends of each string.

    >>> import tvtf as tf
    >>> tf.strings.strip(["\\nTensorFlow", "  tf "]).numpy()
    array([b'TensorFlow', b'tf'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/strip
    """
    return (text(input),), {}


def _character_offsets(value: bytes) -> list[int]:
    """Returns the byte offsets at which the UTF-8 characters of a string begin."""
    return [i for i, byte in enumerate(value) if byte & 0xC0 != UTF8_TAIL]


@text_op(
    type=from_text(int32),
    numpy=each_text(lambda value, unit: len(value) if unit == "BYTE" else len(_character_offsets(value)), np.int32),
    public=("strings.length",),
)
@attributes(unit=str)
def string_length(input: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Returns the length of each string, an int32 tensor.

    Args:
      input: string tensor.
      unit: "BYTE", or "UTF8_CHAR" for characters.

    >>> import tvtf as tf
    >>> tf.strings.length(["Hello", "🙂"]).numpy(), tf.strings.length("🙂", unit="UTF8_CHAR").numpy()
    (array([5, 4], dtype=int32), np.int32(1))

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/length
    """
    return (text(input),), {"unit": _unit(unit, "StringLength")}


def _substr_type(x: TensorType, pos: TensorType, length: TensorType, unit: str) -> TensorType:
    """Returns the result type of `tf.strings.substr`: strings of the shape to which all three inputs broadcast.

    Raises an error for an input of another dtype.

    Args:
      x: the type of the strings.
      pos, length: the types of the positions and lengths of the substrings.
      unit: "BYTE" or "UTF8_CHAR".
    """
    # ``unit`` isn't needed here, but all rules of the op receive it
    require_dtype(x, (string,), "input")
    require_dtype(pos, (int32, int64), "pos")
    return TensorType(broadcast_types(x, pos, length), string)


def _substr(x: np.ndarray, pos: np.ndarray, length: np.ndarray, unit: str) -> np.ndarray:
    """Computes `tf.strings.substr`: substrings of ``length`` units, starting at the unit ``pos``.

    A unit is a byte or a UTF-8 character. The three arrays are broadcast.
    """
    texts, positions, lengths = np.broadcast_arrays(x, pos, length)
    result = np.empty(texts.shape, object)
    arguments = zip(texts.ravel().tolist(), positions.ravel().tolist(), lengths.ravel().tolist())
    result.reshape(-1)[:] = [
        _substring(value, start, count, index, unit) for index, (value, start, count) in enumerate(arguments)
    ]
    return result


def _substring(value: bytes, pos: int, length: int, index: int, unit: str) -> bytes:
    """Returns the substring of one string that starts at ``pos``, of at most ``length`` bytes or characters (``unit``).

    A position outside of the string is an error, as in TensorFlow. ``index``, the string's position, is for the message.
    """
    # The offset in bytes of each character or byte, and of the end.
    offsets = [*_character_offsets(value), len(value)] if unit == "UTF8_CHAR" else range(len(value) + 1)
    size = len(offsets) - 1
    start = pos + size if pos < 0 else pos
    if not 0 <= start <= size:
        raise ArgumentError(f"pos {pos} out of range for string {value!r} at index {index}")
    if length <= 0:
        return b""
    end = min(size, start + length)
    return value[offsets[start] : offsets[end]]


@text_op(type=_substr_type, numpy=_substr, broadcasts=True, public=("strings.substr",))
@attributes(unit=str)
def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Returns the part of each string that starts at ``pos``, of ``len`` bytes or characters at most.

    Args:
      input: string tensor.
      pos: int32 or int64 tensor that broadcasts with it; negative ones count from the end.
      len: tensor of the same dtype and shape.
      unit: "BYTE" or "UTF8_CHAR".

    >>> import tvtf as tf
    >>> tf.strings.substr(["Hello", "World"], 1, 3).numpy()
    array([b'ell', b'orl'], dtype=object)

    Raises:
      InvalidArgumentError: a position lies outside its string.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/substr
    """
    positions = convert_to_tensor(pos)
    lengths = convert_to_tensor(len, dtype_hint=positions.dtype)
    shapes = positions._type.shape, lengths._type.shape
    if not agree_shape(*shapes):
        raise ArgumentError(
            f"pos and len should have the same shape, got: {brackets(shapes[0])} vs. {brackets(shapes[1])}"
        )
    return (text(input), positions, lengths), {"unit": _unit(unit, "Substr")}


# -- joining


def _join_type(*types: TensorType, separator: str) -> TensorType:
    """Returns the result type of `tf.strings.join`: strings of the shape that all inputs but scalars have.

    Raises an error for an input of another dtype, or for shapes that differ.
    """
    # ``separator`` isn't needed here, but all rules of the op receive it
    shape: Any = ()  # of the first input that isn't a scalar
    for input_type in types:
        require_dtype(input_type, (string,), "inputs")
        input_shape = input_type.shape
        if not shape:
            shape = input_shape
        elif input_shape and len(input_shape) != len(shape):
            raise ArgumentError(f"Input shapes do not match: rank {len(shape)} vs. rank {len(input_shape)}")
        elif input_shape and is_static_shape((*input_shape, *shape)) and input_shape != shape:
            shape_text, input_text = [f"[{','.join(map(str, dims))}]" for dims in (shape, input_shape)]
            raise ArgumentError(f"Input shapes do not match: {shape_text} vs. {input_text}")
    return TensorType(shape, string)


def _join(*arrays: np.ndarray, separator: str) -> np.ndarray:
    """Computes `tf.strings.join`: joins corresponding strings of several arrays, with a separator between them."""
    separator_bytes = separator.encode()
    texts = np.broadcast_arrays(*arrays)
    result = np.empty(texts[0].shape, object)
    result.reshape(-1)[:] = [separator_bytes.join(parts) for parts in zip(*(each.ravel().tolist() for each in texts))]
    return result


@text_op(type=_join_type, numpy=_join, public=("strings.join",))
@attributes(separator=str)
def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Any:
    """Joins the strings of several tensors, element by element.

    Args:
      inputs: string tensors of one shape, and scalars.
      separator: the string between two joined strings.

    >>> import tvtf as tf
    >>> tf.strings.join([["abc", "def"], "x"], separator="-").numpy()
    array([b'abc-x', b'def-x'], dtype=object)

    Raises:
      InvalidArgumentError: the shapes differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/join
    """
    tensors = tuple(text(each) for each in variadic_inputs(inputs, "inputs", "string_join"))
    if not tensors:
        raise ArgumentError("Need to have at least one input: inputs of StringJoin is empty").for_op("StringJoin")
    return tensors, {"separator": separator}


def _reduced_shape(shape: Any, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, ...]:
    """Returns the shape after a reduction over ``axes``, which are removed, or get size 1 if ``keepdims``."""
    dims = [(1 if i in axes else dim) for i, dim in enumerate(shape) if keepdims or i not in axes]
    return tuple(dims)


def _reduce_join_type(x: TensorType, axes: tuple[int, ...], keepdims: bool, separator: str) -> TensorType:
    """Returns the result type of `tf.strings.reduce_join`. Raises an error for another dtype, or axes out of range."""
    require_dtype(x, (string,), "inputs")
    for axis in axes:
        if not 0 <= axis < len(x.shape):
            raise ArgumentError(f"Invalid reduction dimension {axis} for input with {len(x.shape)} dimensions")
    return TensorType(_reduced_shape(x.shape, axes, keepdims), string)


def _reduce_join(array: np.ndarray, axes: tuple[int, ...], keepdims: bool, separator: str) -> np.ndarray:
    """Computes `tf.strings.reduce_join`: joins the strings along some axes.

    Strings along the first of these axes are joined first.

    Args:
      array: the strings.
      axes: the axes to join along.
      keepdims: whether the joined axes are kept with size 1.
      separator: the text between joined strings.
    """
    kept_axes = [i for i in range(array.ndim) if i not in axes]
    row_count = math.prod(array.shape[i] for i in kept_axes)
    strings_per_row = math.prod(array.shape[i] for i in axes)
    # Each row has the strings of one result. Strings along the first axis follow each other.
    rows_last = np.transpose(array, [*kept_axes, *reversed(axes)])
    rows = rows_last.reshape(row_count, strings_per_row)
    result = np.empty(len(rows), object)
    result[:] = [separator.encode().join(row) for row in rows.tolist()]
    return result.reshape(_reduced_shape(array.shape, axes, keepdims))


@text_op(type=_reduce_join_type, numpy=_reduce_join, public=("strings.reduce_join",))
@attributes(keepdims=flag("keep_dims"), separator=str)
def reduce_join(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: str | None = None
) -> Any:
    """Joins the strings along ``axis``, or along all axes if ``axis`` is None.

    >>> import tvtf as tf
    >>> tf.strings.reduce_join([["abc", "123"], ["def", "456"]], axis=-1, separator=" ").numpy()
    array([b'abc 123', b'def 456'], dtype=object)

    Raises:
      InvalidArgumentError: an axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/reduce_join
    """
    x = text(inputs)
    if axis is None:
        axes = tuple(reversed(range(x.ndim)))
    else:
        axes = tuple(dict.fromkeys(_ordered_axes(axis, x.ndim)))  # without duplicates, in their order
    return (x,), {"axes": axes, "keepdims": bool(keepdims), "separator": separator}


def _ordered_axes(axis: Any, rank: int) -> list[int]:
    """Converts the argument ``axis`` to a list of axes in the given order, which is the order of joining.

    Negative axes are counted from the end.
    """
    if isinstance(axis, (list, tuple)):
        axes = [static_int(element, "axis") for element in axis]
    else:
        axes = list(canonical_axes(axis, rank))
    # Axes out of range are left unchanged: the type rule rejects them.
    return [i % rank if rank and -rank <= i < rank else i for i in axes]


def _segment_join_type(x: TensorType, ids: TensorType, num_segments: int, separator: str) -> TensorType:
    """Returns the result type of `tf.strings.unsorted_segment_join`: the axes of the ids become one axis of segments.

    Raises an error for inputs of other dtypes.

    Args:
      x: the type of the strings.
      ids: the type of the segment ids, whose shape begins that of the strings.
      num_segments: the number of segments.
      separator: the text between joined strings.
    """
    # ``separator`` isn't needed here, but all rules of the op receive it
    require_dtype(x, (string,), "inputs")
    require_dtype(ids, (int32, int64), "segment_ids")
    if not ids.shape or not agree_shape(x.shape[: len(ids.shape)], ids.shape):
        shapes = f"{brackets(ids.shape)} and {brackets(x.shape)}"
        raise ArgumentError(f"Segment_ids' shape must be a prefix of the inputs' shape, but they are {shapes}")
    return TensorType((num_segments, *x.shape[len(ids.shape) :]), string)


def _segment_join(x: np.ndarray, ids: np.ndarray, num_segments: int, separator: str) -> np.ndarray:
    """Computes `tf.strings.unsorted_segment_join`: joins the rows of ``x`` that have the same segment id.

    Rows are joined column by column, in their order.

    Args:
      x: the strings.
      ids: a segment id for each row of ``x``.
      num_segments: the number of segments.
      separator: the text between joined strings.
    """
    rows = x.reshape(ids.size, -1)
    texts: list[list[list[bytes]]] = [[[] for _ in range(rows.shape[1])] for _ in range(num_segments)]
    for segment, row in zip(ids.ravel().tolist(), rows.tolist()):
        if not 0 <= segment < num_segments:
            raise ArgumentError("segment_ids are not allowed to exceed num_segments or to have negative values.")
        for column, value in enumerate(row):
            texts[segment][column].append(value)
    joined_texts = [separator.encode().join(cell) for columns in texts for cell in columns]
    result = np.empty((num_segments, rows.shape[1]), object)
    result.reshape(-1)[:] = joined_texts
    return result.reshape(num_segments, *x.shape[ids.ndim :])


@text_op(
    type=_segment_join_type,
    numpy=_segment_join,
    public=("strings.unsorted_segment_join",),
)
@attributes(separator=str)
def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Any:
    """Joins the strings of each segment in their order.

    Args:
      inputs: string tensor.
      segment_ids: int32 or int64 tensor whose shape is a prefix of that of ``inputs``.
      num_segments: the number of segments.

    >>> import tvtf as tf
    >>> tf.strings.unsorted_segment_join(["this", "a", "is"], [0, 1, 0], num_segments=2, separator=":").numpy()
    array([b'this:is', b'a'], dtype=object)

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/unsorted_segment_join
    """
    attrs = {"num_segments": static_int(num_segments, "num_segments"), "separator": separator}
    return (text(inputs), convert_to_tensor(segment_ids)), attrs


# -- templates


@host_primitive(
    type=lambda *_, pieces, summarize: TensorType((), string),
    numpy=lambda *arrays, pieces, summarize: np.array(
        filled(pieces, [tensor_text(array, summarize) for array in arrays]).encode(), object
    ),
)
def string_format(*tensors: Tensor, pieces: tuple[str, ...], summarize: int) -> Any:
    """Formats the pieces of a template with the tensors between them."""
    return tensors, {"pieces": pieces, "summarize": summarize}


@export("strings.format")
@attributes(summarize=int)
def format_(template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None) -> Tensor:
    """Formats a template with tensors in place of its placeholders.

    Args:
      template: the text.
      inputs: a tensor, or a list of them.
      placeholder: what stands for a tensor.
      summarize: elements shown at both ends of each dim; -1 for all.

    >>> import tvtf as tf
    >>> tf.strings.format("x: {}, n: {}", (tf.range(5), 2)).numpy()
    b'x: [0 1 2 3 4], n: 2'

    Raises:
      ValueError: the numbers of placeholders and of tensors differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/format
    """
    tensors = [convert_to_tensor(x) for x in ([inputs] if is_tensor(inputs) else list(inputs))]
    pieces = tuple(template.split(placeholder))
    if len(pieces) - 1 != len(tensors):
        raise ValueError(
            f"The template expects {len(pieces) - 1} tensors, but the inputs only has {len(tensors)}. Please ensure the number of "
            "placeholders in template matches inputs length."
        )
    return bind.string_format(*tensors, pieces=pieces, summarize=summarize)


__all__ = ["format_", "mapped", "reduce_join", "string_join", "substr", "unsorted_segment_join"]
