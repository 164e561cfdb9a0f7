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
from tvtf.core.integers import ceil_div
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
    """Returns the types of the tensors to which a batch of messages, or a ``single`` message, is parsed.

    ``specs`` are the columns, as tuples of the fields of a ``Spec``.
    """
    types: list[TensorType] = []
    for spec in specs:
        if single:
            column_kind = spec[2]
            types += _types_without_batch(column_kind, _column_types(1, *spec))
        else:
            types += _column_types(serialized.shape[0], *spec)
    return tuple(types)


def _types_without_batch(kind: str, types: list[TensorType]) -> list[TensorType]:
    """Returns the types of a column's tensors for a single example, from those for a batch of one example.

    :func:`_without_batch` does the same with the arrays. ``kind`` is that of the column, such as "sparse".
    """
    if kind == "ragged":
        return types[:-1]  # without the outer row splits
    if kind == "sparse":
        (count, rank), dtype = types[0].shape, types[1].dtype
        return [TensorType((count, rank - 1), int64), TensorType((count,), dtype), TensorType((rank - 1,), int64)]
    return [TensorType(tensor_type.shape[1:], tensor_type.dtype) for tensor_type in types]


def _without_batch(kind: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Removes the batch dim from the arrays of a column of a ``kind`` that was parsed as a batch of one example."""
    if kind == "ragged":
        return arrays[:-1]  # without the outer row splits, which partition the rows by example
    if kind == "sparse":
        indices, values, shape = arrays
        return [indices[:, 1:], values, shape[1:]]
    return [array.reshape(array.shape[1:]) for array in arrays]


def _column_types(
    batch: Any, where: str, key: str, kind: str, dtype: DType, shape: Any, optional: bool, splits: DType, dims: Any
) -> list[TensorType]:
    """Returns the types of the tensors to which one column of a batch of examples is parsed.

    The arguments after ``batch`` are the fields of a ``Spec``.

    Args:
      batch: the number of examples.
      where: "rows" for a column of feature lists.
      key: the name of the feature.
      kind: "dense", "stacked", "sparse" or "ragged".
      dtype: the dtype of the values.
      shape: the shape of an item.
      optional: whether an example may lack the feature.
      splits: the dtype of row splits.
      dims: the dims that are known only after parsing.
    """
    in_feature_lists = where == "rows"
    if kind == "sparse":
        rank = 3 if in_feature_lists else 2
        indices = TensorType((dims[0], rank), int64)
        values = TensorType((dims[0],), dtype)
        dense_shape = TensorType((rank,), int64)
        return [indices, values, dense_shape]
    if kind == "ragged":
        values = TensorType((dims[0],), dtype)
        outer_splits = TensorType((batch + 1,), splits)
        if not in_feature_lists:
            return [values, outer_splits]
        inner_split_count = None if dims[1] is None else dims[1] + 1
        return [values, TensorType((inner_split_count,), splits), outer_splits]
    if in_feature_lists:
        lengths = TensorType((batch,), int64)
        return [TensorType((batch, dims[0], *shape), dtype), lengths]
    return [TensorType((batch, *dims, *shape), dtype)]  # ``dims`` is empty, or the number of stacked items


def _parse_messages(
    serialized: np.ndarray, *defaults: np.ndarray, specs: Sequence[Spec], message: str, single: bool
) -> tuple[np.ndarray, ...]:
    """Parses a vector of serialized messages, or a ``single`` one, into the arrays of each column of ``specs``.

    ``defaults`` are the defaults of dense columns. ``message`` is the type, "Example" or "SequenceExample".
    """
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
        if where == "rows":  # a column of feature lists
            lists = [example.feature_lists.feature_list for example in examples]
            list_values = [_list_values(feature_lists, key, dtype) for feature_lists in lists]
            column = _LIST_PARSERS[kind](list_values, key, dtype.np, tuple(shape), optional, splits)
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
    """Returns TensorFlow's error text for bytes that can't be parsed as a message of the type ``message``."""
    if message == "Example":
        return f"Could not parse example input, value: '{text.decode(errors='replace')}'"
    return f"Could not parse {message} input, value: '{text.decode(errors='replace')}'"


def _error_prefix(key: str, single: bool, row: int) -> str:
    """Returns the start of an error text about a feature: the key, and for a batch also the row of the example."""
    return f"Key: {key}.  " if single else f"Name: <unknown>, Key: {key}, Index: {row}.  "


def _feature_values(features: Any, key: str, kind: str, dtype: DType, error_prefix: ErrorPrefix, row: int) -> Any:
    """Returns the values of a feature of an Example, or None if the feature is missing or empty.

    Args:
      features: the features of the Example by key.
      kind: the kind of the column, such as "sparse".
      error_prefix: returns the start of an error text for the example's ``row`` in the batch.

    Raises:
      ArgumentError: the type of the values is not ``dtype``.
    """
    feature = features.get(key)
    # The names of the message's fields, such as "int64_list".
    actual = feature and feature.WhichOneof("kind")
    expected = FIELDS[dtype.name]
    if actual is None:
        return None
    if actual != expected:
        types = f"Data type: {NAMES[actual]} but expected type: {NAMES[expected]}"
        if kind in ("sparse", "ragged"):  # TensorFlow's text differs for them
            types = f"Expected type: {NAMES[expected]}, Actual type: {NAMES[actual]}"
        raise ArgumentError(f"{error_prefix(row)}Data types don't match. {types}")
    return _floats(feature.float_list) if expected == "float_list" else list(getattr(feature, expected).value)


def _floats(message: Any) -> Any:
    """Returns the numbers of a ``FloatList`` message, as an array if possible.

    The serialized message consists of a tag, a length and packed floats of 4 bytes. Reading the floats there is faster
    than iterating over the message.
    """
    packed = message.SerializeToString()
    count = len(message.value)
    start = 1 + _varint_size(4 * count)
    if count and len(packed) == start + 4 * count:
        return np.frombuffer(packed, "<f4", offset=start)
    return list(message.value)  # the message is empty, or has unknown fields, too


def _varint_size(number: int) -> int:
    """Returns the number of bytes of an integer in Protobuf's encoding, which holds 7 bits in a byte."""
    return max(1, ceil_div(number.bit_length(), 7))


def _list_values(lists: Any, key: str, dtype: DType) -> Any:
    """Returns a list of the values of each feature in the feature list ``key`` of a SequenceExample.

    Returns None if the SequenceExample has no list of this key.
    """
    if key not in lists:
        return None
    error_prefix = partial(_error_prefix, key, False)
    values_by_feature = []
    for row, feature in enumerate(lists[key].feature):
        values = _feature_values({key: feature}, key, "", dtype, error_prefix, row)
        values_by_feature.append([] if values is None else values)
    return values_by_feature


def _array(values: Sequence[Any], dtype: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Returns values as a new array of a dtype, reshaped to ``shape`` if one is given."""
    array = np.empty(len(values), dtype)
    array[:] = values  # not by ``np.array``, which may interpret bytes objects
    return array if shape is None else array.reshape(shape)


def _rows_and_lengths(values: Any) -> tuple[list[Any], list[int]]:
    """Returns the rows of a column and their lengths. A missing feature (None) becomes an empty row."""
    rows = [() if row_values is None else row_values for row_values in values]
    return rows, [*map(len, rows)]


def _concatenated(rows: Sequence[Any], dtype: Any) -> np.ndarray:
    """Returns the values of all rows, lists or arrays, as one array."""
    nonempty = [row for row in rows if len(row)]
    if any(isinstance(row, np.ndarray) for row in nonempty):  # floats, whose rows are arrays
        return np.concatenate(nonempty)
    return _array([*chain(*nonempty)], dtype)


def _splits(lengths: Sequence[int], dtype: DType) -> np.ndarray:
    """Returns the row splits for the lengths of rows. For example, lengths 2 and 1 give ``[0, 2, 3]``."""
    return np.cumsum([0, *lengths]).astype(dtype.np)


def _sparse_column(values: Any, prefix: ErrorPrefix, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    """Returns the indices, values and shape of a sparse matrix, from each example's values of a feature.

    The matrix has a row for each example. All column parsers have these parameters.

    Args:
      values: the values of the feature, for each example.
      prefix: the beginning of error messages; not used.
      key: the name of the feature; not used.
      dtype: the dtype of the values.
    """
    rows, lengths = _rows_and_lengths(values)
    indices = np.empty((sum(lengths), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), lengths)  # the example
    indices[:, 1] = [*chain(*map(range, lengths))]  # the position in the example
    shape = np.array([len(rows), max(lengths, default=0)], np.int64)
    return [indices, _concatenated(rows, dtype), shape]


def _ragged_column(
    values: Any, prefix: ErrorPrefix, key: str, dtype: Any, shape: Any, optional: Any, splits: DType, _: Any
) -> list[np.ndarray]:
    """Returns the concatenated values and the row splits of a ragged matrix, from each example's values of a feature.

    The matrix has a row for each example.

    Args:
      values: the values of the feature in each example.
      prefix, key, shape, optional: not used: all column parsers have these parameters.
      dtype: the dtype of the values.
      splits: the dtype of row splits.
    """
    rows, lengths = _rows_and_lengths(values)
    return [_concatenated(rows, dtype), _splits(lengths, splits)]


def _dense_column(
    values: Any, prefix: ErrorPrefix, key: str, dtype: Any, shape: tuple[int, ...], optional: bool, _: Any, default: Any
) -> list[np.ndarray]:
    """Returns the dense array of a FixedLenFeature, with a row for each example.

    Args:
      values: the values of each example, None for an example without the feature.
      prefix: returns the start of an error about an example, given its number.
      key: the feature's key.
      dtype: the dtype of the values.
      shape: the shape of an example's values.
      optional: whether the feature may be missing.
      default: the array that an example without the feature gets: a scalar, or of ``shape``.

    Raises:
      ArgumentError: an example has a wrong number of values, or lacks a feature that is not optional.
    """
    size = math.prod(shape)
    batch = np.empty((len(values), size), dtype)
    for row, row_values in enumerate(values):
        if row_values is None:
            if not optional:
                # A batch of examples has the name in its errors.
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
    """Returns the dense array of a FixedLenSequenceFeature, with a row for each example.

    A row has the example's items. It is padded to the length of the longest row.

    Args:
      values: the values of the feature in each example.
      prefix: returns the first words of an error, for the number of an example.
      key, optional: not used: all column parsers have these parameters.
      dtype: the dtype of the values.
      shape: the shape of an item.
      default: the value that rows are padded with.

    Raises:
      ArgumentError: an example's number of values is not a multiple of the size of an item.
    """
    size = math.prod(shape)
    rows, lengths = _rows_and_lengths(values)
    for row, length in enumerate(lengths):
        if size and length % size:
            mismatch = f"Number of {_dtype_name(dtype)} values is not a multiple of stride length. "
            mismatch += f"Saw {length} values but output shape is: {_shape_text(('?', *shape))}"
            raise ArgumentError(prefix(row) + mismatch)
    counts = [length // max(size, 1) for length in lengths]  # an item may have no elements
    padded = np.empty((len(rows), max(counts, default=0), *shape), dtype)
    padded[...] = default if default.ndim else default.item()
    for row, row_values in enumerate(rows):
        padded[row, : counts[row]] = _array(row_values, dtype, (-1, *shape))
    return [padded]


def _single_example_column(kind: str, feature_values: Any, dtype: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Returns the arrays of a column of a single example, without a batch of one example.

    Returns an empty list if the column needs a default or an error, which only the function for batches handles.
    ``feature_values`` is None if the example lacks the feature.
    """
    if kind == "dense":
        fits = feature_values is not None and len(feature_values) == math.prod(shape)
        return [_array(feature_values, dtype, shape)] if fits else []
    values = () if feature_values is None else feature_values
    if kind == "sparse":
        indices = np.arange(len(values)).reshape(-1, 1)
        dense_shape = np.array([len(values)])
        return [indices, _array(values, dtype), dense_shape]
    return [_array(values, dtype)] if kind == "ragged" else []


def _sparse_list_column(values: Any, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    """Returns the indices, values and shape of a sparse tensor of feature lists.

    The tensor's axes are examples, features and values. ``values`` has a feature list for each example, or None.
    """
    batch = [features or [] for features in values]
    indices: list[tuple[int, int, int]] = []
    flat_values: list[Any] = []
    max_features = max(map(len, batch), default=0)
    max_values = 0
    for example, features in enumerate(batch):
        for row, feature in enumerate(features):
            indices += [(example, row, i) for i in range(len(feature))]
            flat_values.extend(feature)  # a list of values, or a NumPy array, to which `+=` would add the list
            max_values = max(max_values, len(feature))
    shape = np.array([len(batch), max_features, max_values], np.int64)
    return [np.array(indices, np.int64).reshape(-1, 3), _array(flat_values, dtype), shape]


def _ragged_list_column(
    values: Any, key: str, dtype: Any, shape: Any, optional: Any, splits: DType
) -> list[np.ndarray]:
    """Returns the arrays of a ragged tensor of feature lists: flat values, inner row splits and outer row splits.

    An inner row holds the values of a feature, an outer row the features of an example.

    Args:
      values: a feature list for each example, or None for a missing one.
      key, shape, optional: not used: all parsers of columns of feature lists have these parameters.
      dtype: the dtype of the values.
      splits: the dtype of row splits.
    """
    batch = [features or [] for features in values]
    inner_rows = list(chain(*batch))
    flat_values = _array(list(chain(*inner_rows)), dtype)
    inner_splits = _splits([len(row) for row in inner_rows], splits)
    outer_splits = _splits([len(features) for features in batch], splits)
    return [flat_values, inner_splits, outer_splits]


def _dense_list_column(
    values: Any, key: str, dtype: Any, shape: tuple[int, ...], optional: bool, _: Any
) -> list[np.ndarray]:
    """Returns the dense array of feature lists, padded to the length of the longest list, and the lists' lengths.

    ``values`` has a feature list for each example, or None for a missing one. Each feature has the shape ``shape``.

    Raises:
      ArgumentError: a list is missing that is not optional, or a feature has a wrong number of values.
    """
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
    padded[...] = b"" if np.dtype(dtype) == object else 0  # arrays of objects hold strings
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
    """Returns TensorFlow's name of a dtype for error texts, such as "float"; arrays of objects hold strings."""
    return "string" if np.dtype(dtype) == object else NAMES[FIELDS[as_dtype(dtype).name]]


def _shape_text(shape: Sequence[Any]) -> str:
    """Returns a shape as TensorFlow's error texts have it, such as "[2,3]"."""
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
    """Parses serialized messages, and returns a list of tensors for each column.

    Args:
      serialized: a vector of messages, or one message if ``single``.
      message: the type of the messages, "Example" or "SequenceExample".
      context, rows: the columns of features, and those of feature lists.
    """
    specs = [_spec_of("context", column, COUNTS[column.kind]) for column in context]
    specs += [_spec_of("rows", column, ROW_COUNTS[column.kind]) for column in rows]
    defaults = [_default_of(column) for column in context if column.kind in ("dense", "stacked")]
    op = bind.parse_examples if message == "Example" else bind.parse_sequence_examples
    outputs = op(serialized, *defaults, specs=tuple(specs), message=message, single=single)
    tensors = iter(as_tuple(outputs))
    columns = []
    for spec in specs:
        column_kind = spec[2]
        # Only the number of types is needed, so any batch size and symbolic dims (0) will do.
        types = _column_types(0, *spec[:7], (0, 0))
        if single:
            types = _types_without_batch(column_kind, types)
        columns.append([next(tensors) for _ in types])
    return columns


def _spec_of(where: str, column: Column, unknown_dims: int) -> Spec:
    """Returns a column as the tuple ``Spec``, with new symbols for the ``unknown_dims`` dims that parsing computes."""
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
    """Returns the default of a column, or a placeholder, which the kernel does not read."""
    return EagerTensor(np.zeros((), np.int64)) if column.default is None else column.default
