"""Parses serialized examples into columns.

Sources: ``tensorflow/core/util/example_proto_fast_parsing.cc``, ``tensorflow/core/kernels/example_parsing_ops.cc``
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import as_tuple
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.dtypes import DType, as_dtype, int64
from tvtf.examples.features import Column
from tvtf.ops.host import unknown_dim
from tvtf.ops.rules import bind
from tvtf.ops.strings.rules import text_op

FIELDS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}
NAMES = {"bytes_list": "string", "float_list": "float", "int64_list": "int64"}
COUNTS = {"sparse": 1, "dense": 0, "stacked": 1, "ragged": 1}
"""The number of dims of a feature's column that are known only after parsing."""
ROW_COUNTS = {"sparse": 1, "dense": 1, "ragged": 2}
"""The number of such dims of a feature list's column."""

ErrorPrefix = Callable[[int], str]
"""Returns the start of an error text for a row of the batch."""
Spec = tuple[str, str, str, DType, tuple[int, ...], bool, DType, tuple[Any, ...]]
"""A column: "context" or "rows", key, kind, dtype, shape, whether it may be missing, dtype of row splits, symbolic dims."""


def _output_types(
    serialized: TensorType, *defaults: TensorType, specs: Sequence[Spec], single: bool, **_: Any
) -> tuple[TensorType, ...]:
    """Returns the types of the tensors of all columns, for a batch of messages or a single one."""
    if single:
        return tuple(
            tensor_type for spec in specs for tensor_type in _types_without_batch(spec[2], _column_types(1, *spec))
        )
    return tuple(tensor_type for spec in specs for tensor_type in _column_types(serialized.shape[0], *spec))


def _types_without_batch(kind: str, types: list[TensorType]) -> list[TensorType]:
    """Returns the types of a column's tensors without the batch dim, as :func:`_without_batch` returns the arrays."""
    if kind == "ragged":
        return types[:-1]
    if kind == "sparse":
        (count, rank), dtype = types[0].shape, types[1].dtype
        return [TensorType((count, rank - 1), int64), TensorType((count,), dtype), TensorType((rank - 1,), int64)]
    return [TensorType(tensor_type.shape[1:], tensor_type.dtype) for tensor_type in types]


def _without_batch(kind: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Removes the batch dim from the arrays of a column that was parsed as a batch of one example.

    The last array of a ragged column holds the outer row splits, which a single example doesn't need.
    """
    if kind == "ragged":
        return arrays[:-1]
    if kind == "sparse":
        indices, values, shape = arrays
        return [indices[:, 1:], values, shape[1:]]
    return [array.reshape(array.shape[1:]) for array in arrays]


def _column_types(
    batch: Any, where: str, key: str, kind: str, dtype: DType, shape: Any, optional: bool, splits: DType, dims: Any
) -> list[TensorType]:
    """Returns the types of the tensors that one column of a batch is parsed to.

    The arguments after ``batch`` are the fields of a ``Spec``.
    """
    in_feature_lists = where == "rows"
    if kind == "sparse":
        rank = 3 if in_feature_lists else 2
        return [TensorType((dims[0], rank), int64), TensorType((dims[0],), dtype), TensorType((rank,), int64)]
    if kind == "ragged":
        inner_splits = [TensorType((dims[1] + 1 if dims[1] is not None else None,), splits)] if in_feature_lists else []
        return [TensorType((dims[0],), dtype), *inner_splits, TensorType((batch + 1,), splits)]
    if in_feature_lists:
        return [TensorType((batch, dims[0], *shape), dtype), TensorType((batch,), int64)]
    return [TensorType((batch, *dims, *shape), dtype)]


def _parse_messages(
    serialized: np.ndarray, *defaults: np.ndarray, specs: Sequence[Spec], message: str, single: bool
) -> tuple[np.ndarray, ...]:
    """Parses a vector of serialized messages, or a single one, into the arrays of each column of ``specs``."""
    from google.protobuf.message import DecodeError

    from tvtf.examples.messages import CLASSES

    decode, examples = CLASSES[message].FromString, []
    for text in serialized.reshape(-1).tolist():
        try:
            examples.append(decode(text))
        except DecodeError:
            raise ArgumentError(_decode_error(message, text)) from None
    if message == "Example":
        feature_maps = [example.features.feature for example in examples]
    else:
        feature_maps = [example.context.feature for example in examples]
    remaining_defaults = iter(defaults)
    results: list[np.ndarray] = []
    for where, key, kind, dtype, shape, optional, splits, _ in specs:
        if where == "rows":
            lists = [example.feature_lists.feature_list for example in examples]
            rows = [_list_values(features, key, dtype) for features in lists]
            column = _LIST_PARSERS[kind](rows, key, dtype.np, tuple(shape), optional, splits)
            results += _without_batch(kind, column) if single else column
            continue
        error_prefix = partial(_error_prefix, key, single)
        values = [
            _feature_values(features, key, kind, dtype, error_prefix, row) for row, features in enumerate(feature_maps)
        ]
        default = next(remaining_defaults) if kind in ("dense", "stacked") else None
        if single and (column := _single_example_column(kind, values[0], dtype.np, shape)):
            results += column
            continue
        column = _CONTEXT_PARSERS[kind](values, error_prefix, key, dtype.np, tuple(shape), optional, splits, default)
        results += _without_batch(kind, column) if single else column
    return tuple(results)


def _decode_error(message: str, text: bytes) -> str:
    """Returns TensorFlow's error text for bytes that are no serialized message of the type ``message``."""
    if message == "Example":
        return f"Could not parse example input, value: '{text.decode(errors='replace')}'"
    return f"Could not parse {message} input, value: '{text.decode(errors='replace')}'"


def _error_prefix(key: str, single: bool, row: int) -> str:
    """Returns the start of an error text about a feature, which names the key, and for a batch also the row."""
    return f"Key: {key}.  " if single else f"Name: <unknown>, Key: {key}, Index: {row}.  "


def _feature_values(features: Any, key: str, kind: str, dtype: DType, error_prefix: ErrorPrefix, row: int) -> Any:
    """Returns the values of a feature of an Example; None if the feature is missing or empty.

    Raises:
      ArgumentError: the values have another type than ``dtype``.
    """
    feature = features.get(key)
    actual, expected = feature and feature.WhichOneof("kind"), FIELDS[dtype.name]
    if actual is None:
        return None
    if actual != expected:
        types = f"Data type: {NAMES[actual]} but expected type: {NAMES[expected]}"
        if kind in ("sparse", "ragged"):
            types = f"Expected type: {NAMES[expected]}, Actual type: {NAMES[actual]}"
        raise ArgumentError(f"{error_prefix(row)}Data types don't match. {types}")
    return _floats(feature.float_list) if expected == "float_list" else list(getattr(feature, expected).value)


def _floats(message: Any) -> Any:
    """Returns the numbers of a ``FloatList`` as an array.

    The serialized message consists of a tag, a length and packed floats. Reading these is faster than iterating over
    the message.
    """
    packed, count = message.SerializeToString(), len(message.value)
    start = 1 + _varint_size(4 * count)
    if count and len(packed) == start + 4 * count:
        return np.frombuffer(packed, "<f4", offset=start)
    return list(message.value)  # the message has unknown fields, too


def _varint_size(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _list_values(lists: Any, key: str, dtype: DType) -> Any:
    """Returns the values of each feature in a SequenceExample's feature list.

    None if there is no list with this key.
    """
    if key not in lists:
        return None
    error_prefix = partial(_error_prefix, key, False)
    by_feature = [
        _feature_values({key: feature}, key, "", dtype, error_prefix, row)
        for row, feature in enumerate(lists[key].feature)
    ]
    return [[] if values is None else values for values in by_feature]


def _array(values: Sequence[Any], dtype: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Returns values as a new array; assignment keeps bytes objects apart, which ``np.array`` could interpret."""
    array = np.empty(len(values), dtype)
    array[:] = values
    return array if shape is None else array.reshape(shape)


def _rows_and_lengths(values: Any) -> tuple[list[Any], list[int]]:
    """Returns the rows of a column, with empty ones for missing features, and their lengths."""
    rows = [() if row_values is None else row_values for row_values in values]
    return rows, [*map(len, rows)]


def _concatenated(rows: Sequence[Any], dtype: Any) -> np.ndarray:
    """Returns all values of all rows as one array."""
    nonempty = [row for row in rows if len(row)]
    return (
        np.concatenate(nonempty)
        if any(isinstance(row, np.ndarray) for row in nonempty)
        else _array([*chain(*nonempty)], dtype)
    )


def _splits(lengths: Sequence[int], dtype: DType) -> np.ndarray:
    """Returns row splits for lengths."""
    return np.cumsum([0, *lengths]).astype(dtype.np)


def _sparse_column(values: Any, prefix: ErrorPrefix, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    """Returns the indices, values and shape of the sparse tensor of a VarLenFeature or SparseFeature."""
    rows, lengths = _rows_and_lengths(values)
    indices = np.empty((sum(lengths), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), lengths)
    indices[:, 1] = [*chain(*map(range, lengths))]
    shape = np.array([len(rows), max(lengths, default=0)], np.int64)
    return [indices, _concatenated(rows, dtype), shape]


def _ragged_column(
    values: Any, prefix: ErrorPrefix, key: str, dtype: Any, shape: Any, optional: Any, splits: DType, _: Any
) -> list[np.ndarray]:
    """Returns the concatenated values and the row splits of a RaggedFeature, with a row for each example."""
    rows, lengths = _rows_and_lengths(values)
    return [_concatenated(rows, dtype), _splits(lengths, splits)]


def _dense_column(
    values: Any, prefix: ErrorPrefix, key: str, dtype: Any, shape: tuple[int, ...], optional: bool, _: Any, default: Any
) -> list[np.ndarray]:
    """Returns the dense array of a FixedLenFeature, one row for each example.

    An example without the feature gets the default.

    Raises:
      ArgumentError: an example has another number of values, or lacks a required feature.
    """
    size = math.prod(shape)
    batch = np.empty((len(values), size), dtype)
    for row, row_values in enumerate(values):
        if row_values is None:
            if not optional:
                name = "Name: <unknown>, " if prefix(row).startswith("Name") else ""
                raise ArgumentError(
                    f"{name}Feature: {key} (data type: {_dtype_name(dtype)}) is required but could not be found."
                )
            batch[row] = default.ravel() if default.ndim else default.item()
            continue
        if len(row_values) != size:
            mismatch = f"Number of {_dtype_name(dtype)} values != expected.  Values size: {len(row_values)} but output shape: {_shape_text(shape)}"
            raise ArgumentError(prefix(row) + mismatch)
        batch[row] = row_values
    return [batch.reshape((len(values), *shape))]


def _stacked_column(
    values: Any, prefix: ErrorPrefix, key: str, dtype: Any, shape: tuple[int, ...], optional: bool, _: Any, default: Any
) -> list[np.ndarray]:
    """Returns the dense array of a FixedLenSequenceFeature: each example's items, padded with the default."""
    size = math.prod(shape)
    rows, lengths = _rows_and_lengths(values)
    for row, length in enumerate(lengths):
        if size and length % size:
            mismatch = f"Number of {_dtype_name(dtype)} values is not a multiple of stride length. "
            mismatch += f"Saw {length} values but output shape is: {_shape_text(('?', *shape))}"
            raise ArgumentError(prefix(row) + mismatch)
    counts = [length // max(size, 1) for length in lengths]
    padded = np.empty((len(rows), max(counts, default=0), *shape), dtype)
    padded[...] = default if default.ndim else default.item()
    for row, row_values in enumerate(rows):
        padded[row, : counts[row]] = _array(row_values, dtype, (-1, *shape))
    return [padded]


def _single_example_column(kind: str, row: Any, dtype: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Returns the arrays of a column of a single example, without building a batch of one first.

    Returns an empty list if the function for batches must handle a special case: a default or an error.
    """
    if kind == "dense":
        fits = row is not None and len(row) == math.prod(shape)
        return [_array(row, dtype, shape)] if fits else []
    values = () if row is None else row
    if kind == "sparse":
        return [np.arange(len(values)).reshape(-1, 1), _array(values, dtype), np.array([len(values)])]
    return [_array(values, dtype)] if kind == "ragged" else []


def _sparse_list_column(values: Any, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    """Returns the indices, values and shape of a sparse tensor of feature lists, with axes example, feature and value."""
    batch = [features or [] for features in values]
    indices = [
        (example, row, i)
        for example, features in enumerate(batch)
        for row, feature in enumerate(features)
        for i in range(len(feature))
    ]
    widest = max((len(feature) for features in batch for feature in features), default=0)
    shape = np.array([len(batch), max(map(len, batch), default=0), widest], np.int64)
    flat = [value for features in batch for feature in features for value in feature]
    return [np.array(indices, np.int64).reshape(-1, 3), _array(flat, dtype), shape]


def _ragged_list_column(
    values: Any, key: str, dtype: Any, shape: Any, optional: Any, splits: DType
) -> list[np.ndarray]:
    """Returns the ragged tensor of feature lists: flat values, inner row splits (features) and outer row splits (examples)."""
    batch = [features or [] for features in values]
    rows = [feature for features in batch for feature in features]
    flat = _array([value for feature in rows for value in feature], dtype)
    return [flat, _splits([*map(len, rows)], splits), _splits([*map(len, batch)], splits)]


def _dense_list_column(
    values: Any, key: str, dtype: Any, shape: tuple[int, ...], optional: bool, _: Any
) -> list[np.ndarray]:
    """Returns the dense array of feature lists, padded to the longest list, and the lengths of the lists."""
    for features in values:
        if features is None and not optional:
            message = f"Feature list '{key}' is required but could not be found.  "
            message += (
                "Did you mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
            )
            raise ArgumentError(f"Name: <unknown>, {message}")
        if any(len(feature) != int(np.prod(shape)) for feature in features or []):
            message = f"Total values size: {sum(map(len, features))} is not consistent with output shape: {_shape_text(('?', *shape))}"
            raise ArgumentError(f"Feature list '{key}' has an unexpected number of values.  {message}")
    lengths = [len(features or []) for features in values]
    padded = np.empty((len(values), max(lengths, default=0), *shape), dtype)
    padded[...] = b"" if np.dtype(dtype) == object else 0
    for row, features in enumerate(values):
        for position, feature in enumerate(features or []):
            padded[row, position] = _array(feature, dtype, shape)[()]
    return [padded, np.array(lengths, np.int64)]


_CONTEXT_PARSERS: dict[str, Any] = {
    "sparse": _sparse_column,
    "ragged": _ragged_column,
    "dense": _dense_column,
    "stacked": _stacked_column,
}
_LIST_PARSERS: dict[str, Any] = {
    "sparse": _sparse_list_column,
    "ragged": _ragged_list_column,
    "dense": _dense_list_column,
}


def _dtype_name(dtype: Any) -> str:
    return "string" if np.dtype(dtype) == object else NAMES[FIELDS[as_dtype(dtype).name]]


def _shape_text(shape: Sequence[Any]) -> str:
    return f"[{','.join(map(str, shape))}]"


@text_op(tf_name="ParseExampleV2", type=_output_types, numpy=_parse_messages)
def parse_examples(serialized: Tensor, *defaults: Tensor, specs: Any, message: str, single: bool) -> Any:
    """Parses serialized examples, or a single one, into columns."""
    return (serialized, *defaults), {"specs": specs, "message": message, "single": single}


@text_op(tf_name="ParseSequenceExampleV2", type=_output_types, numpy=_parse_messages)
def parse_sequence_examples(serialized: Tensor, *defaults: Tensor, specs: Any, message: str, single: bool) -> Any:
    """Parses serialized sequence examples, or a single one, into columns."""
    return (serialized, *defaults), {"specs": specs, "message": message, "single": single}


def parse(
    serialized: Tensor, message: str, context: Sequence[Column], rows: Sequence[Column], single: bool
) -> list[list[Tensor]]:
    """Parses serialized messages (a ``single`` one, or a vector); returns a list of tensors for each column.

    ``message`` is the type, "Example" or "SequenceExample". ``context`` and ``rows`` are the columns of features and of
    feature lists.
    """
    specs = [_spec_of("context", column, COUNTS[column.kind]) for column in context] + [
        _spec_of("rows", column, ROW_COUNTS[column.kind]) for column in rows
    ]
    defaults = [_default_of(column) for column in context if column.kind in ("dense", "stacked")]
    op = bind.parse_examples if message == "Example" else bind.parse_sequence_examples
    outputs = op(serialized, *defaults, specs=tuple(specs), message=message, single=single)
    tensors = iter(as_tuple(outputs))
    types = [_column_types(0, *spec[:7], (0, 0)) for spec in specs]
    counts = [
        len(_types_without_batch(spec[2], column_types) if single else column_types)
        for spec, column_types in zip(specs, types)
    ]
    return [[next(tensors) for _ in range(tensor_count)] for tensor_count in counts]


def _spec_of(where: str, column: Column, unknown_dims: int) -> Spec:
    """Returns the ``Spec`` of a column; dims that are known only after parsing become new symbolic dims."""
    return (
        where,
        column.key,
        column.kind,
        column.dtype,
        column.shape,
        column.missing,
        column.splits,
        tuple(unknown_dim() for _ in range(unknown_dims)),
    )


def _default_of(column: Column) -> Tensor:
    return EagerTensor(np.zeros((), np.int64)) if column.default is None else column.default
