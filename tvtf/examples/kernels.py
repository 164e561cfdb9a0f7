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


def _types(
    serialized: TensorType, *defaults: TensorType, specs: Sequence[Spec], single: bool, **_: Any
) -> tuple[TensorType, ...]:
    """Returns the types of all columns' tensors."""
    if single:
        return tuple(t for spec in specs for t in _types_without_batch(spec[2], _column_types(1, *spec)))
    return tuple(t for spec in specs for t in _column_types(serialized.shape[0], *spec))


def _types_without_batch(kind: str, types: list[TensorType]) -> list[TensorType]:
    """Returns the types of the tensors that :func:`_without_batch` returns."""
    if kind == "ragged":
        return types[:-1]
    if kind == "sparse":
        (count, rank), dtype = types[0].shape, types[1].dtype
        return [TensorType((count, rank - 1), int64), TensorType((count,), dtype), TensorType((rank - 1,), int64)]
    return [TensorType(t.shape[1:], t.dtype) for t in types]


def _without_batch(kind: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Removes the batch dim from a column of a batch of one example.

    A ragged column's last array has the row splits, which one example doesn't need.
    """
    if kind == "ragged":
        return arrays[:-1]
    if kind == "sparse":
        indices, values, shape = arrays
        return [indices[:, 1:], values, shape[1:]]
    return [a.reshape(a.shape[1:]) for a in arrays]


def _column_types(
    batch: Any, where: str, key: str, kind: str, dtype: DType, shape: Any, missing: bool, splits: DType, dims: Any
) -> list[TensorType]:
    """Returns the types of a column's tensors for a batch."""
    in_feature_lists = where == "rows"
    if kind == "sparse":
        rank = 3 if in_feature_lists else 2
        return [TensorType((dims[0], rank), int64), TensorType((dims[0],), dtype), TensorType((rank,), int64)]
    if kind == "ragged":
        outer = [TensorType((dims[1] + 1 if dims[1] is not None else None,), splits)] if in_feature_lists else []
        return [TensorType((dims[0],), dtype), *outer, TensorType((batch + 1,), splits)]
    if in_feature_lists:
        return [TensorType((batch, dims[0], *shape), dtype), TensorType((batch,), int64)]
    return [TensorType((batch, *dims, *shape), dtype)]


def _parsed(
    serialized: np.ndarray, *defaults: np.ndarray, specs: Sequence[Spec], message: str, single: bool
) -> tuple[np.ndarray, ...]:
    """Parses a batch of serialized messages into the columns' arrays."""
    from google.protobuf.message import DecodeError

    from tvtf.examples.messages import CLASSES

    decode, examples = CLASSES[message].FromString, []
    for text in serialized.reshape(-1).tolist():
        try:
            examples.append(decode(text))
        except DecodeError:
            raise ArgumentError(_undecodable(message, text)) from None
    if message == "Example":
        maps = [e.features.feature for e in examples]
    else:
        maps = [e.context.feature for e in examples]
    remaining_defaults = iter(defaults)
    results: list[np.ndarray] = []
    for where, key, kind, dtype, shape, missing, splits, _ in specs:
        if where == "rows":
            lists = [e.feature_lists.feature_list for e in examples]
            rows = [_rows(one, key, dtype) for one in lists]
            column = _ROWS[kind](rows, key, dtype.np, tuple(shape), missing, splits)
            results += _without_batch(kind, column) if single else column
            continue
        place = partial(_error_prefix, key, single)
        values = [_feature_values(one, key, kind, dtype, place, row) for row, one in enumerate(maps)]
        default = next(remaining_defaults) if kind in ("dense", "stacked") else None
        if single and (one := _column_of_one(kind, values[0], dtype.np, shape)):
            results += one
            continue
        column = _CONTEXT[kind](values, place, key, dtype.np, tuple(shape), missing, splits, default)
        results += _without_batch(kind, column) if single else column
    return tuple(results)


def _undecodable(message: str, text: bytes) -> str:
    if message == "Example":
        return f"Could not parse example input, value: '{text.decode(errors='replace')}'"
    return f"Could not parse {message} input, value: '{text.decode(errors='replace')}'"


def _error_prefix(key: str, single: bool, row: int) -> str:
    """Returns the start of an error text."""
    return f"Key: {key}.  " if single else f"Name: <unknown>, Key: {key}, Index: {row}.  "


def _feature_values(features: Any, key: str, kind: str, dtype: DType, where: ErrorPrefix, row: int) -> Any:
    """Returns the values of a feature, or None if it has none."""
    feature = features.get(key)
    actual, expected = feature and feature.WhichOneof("kind"), FIELDS[dtype.name]
    if actual is None:
        return None
    if actual != expected:
        types = f"Data type: {NAMES[actual]} but expected type: {NAMES[expected]}"
        if kind in ("sparse", "ragged"):
            types = f"Expected type: {NAMES[expected]}, Actual type: {NAMES[actual]}"
        raise ArgumentError(f"{where(row)}Data types don't match. {types}")
    return _floats(feature.float_list) if expected == "float_list" else list(getattr(feature, expected).value)


def _floats(message: Any) -> Any:
    """Returns the numbers of a ``FloatList``, read from its packed form, which is faster than iterating over the message."""
    packed, count = message.SerializeToString(), len(message.value)
    start = 1 + _varint_size(4 * count)
    if count and len(packed) == start + 4 * count:
        return np.frombuffer(packed, "<f4", offset=start)
    return list(message.value)  # the message has unknown fields, too


def _varint_size(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _rows(lists: Any, key: str, dtype: DType) -> Any:
    """Returns the values of each feature of a list, or None if there is no list."""
    if key not in lists:
        return None
    where = partial(_error_prefix, key, False)
    by_feature = [
        _feature_values({key: each}, key, "", dtype, where, row) for row, each in enumerate(lists[key].feature)
    ]
    return [[] if values is None else values for values in by_feature]


def _array(values: Sequence[Any], dtype: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Returns values as a new array; assignment keeps bytes objects apart, which ``np.array`` could interpret."""
    array = np.empty(len(values), dtype)
    array[:] = values
    return array if shape is None else array.reshape(shape)


def _present(values: Any) -> tuple[list[Any], list[int]]:
    """Returns rows, with empty ones for missing values, and their lengths."""
    rows = [() if v is None else v for v in values]
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


def _sparse_column(values: Any, where: ErrorPrefix, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    """Returns a column's indices, values and shape."""
    rows, lengths = _present(values)
    indices = np.empty((sum(lengths), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), lengths)
    indices[:, 1] = [*chain(*map(range, lengths))]
    shape = np.array([len(rows), max(lengths, default=0)], np.int64)
    return [indices, _concatenated(rows, dtype), shape]


def _ragged_column(
    values: Any, where: ErrorPrefix, key: str, dtype: Any, shape: Any, missing: Any, splits: DType, _: Any
) -> list[np.ndarray]:
    """Returns a column's values and row splits."""
    rows, lengths = _present(values)
    return [_concatenated(rows, dtype), _splits(lengths, splits)]


def _dense_column(
    values: Any, where: ErrorPrefix, key: str, dtype: Any, shape: tuple[int, ...], missing: bool, _: Any, default: Any
) -> list[np.ndarray]:
    """Returns a column as a dense array; missing rows get the default."""
    size = math.prod(shape)
    batch = np.empty((len(values), size), dtype)
    for row, each in enumerate(values):
        if each is None:
            if not missing:
                name = "Name: <unknown>, " if where(row).startswith("Name") else ""
                raise ArgumentError(
                    f"{name}Feature: {key} (data type: {_dtype_name(dtype)}) is required but could not be found."
                )
            batch[row] = default.ravel() if default.ndim else default.item()
            continue
        if len(each) != size:
            mismatch = f"Number of {_dtype_name(dtype)} values != expected.  Values size: {len(each)} but output shape: {_shape_text(shape)}"
            raise ArgumentError(where(row) + mismatch)
        batch[row] = each
    return [batch.reshape((len(values), *shape))]


def _stacked_column(
    values: Any, where: ErrorPrefix, key: str, dtype: Any, shape: tuple[int, ...], missing: bool, _: Any, default: Any
) -> list[np.ndarray]:
    """Returns a column as a dense array, padded with the default."""
    size = math.prod(shape)
    rows, lengths = _present(values)
    for row, length in enumerate(lengths):
        if size and length % size:
            mismatch = f"Number of {_dtype_name(dtype)} values is not a multiple of stride length. "
            mismatch += f"Saw {length} values but output shape is: {_shape_text(('?', *shape))}"
            raise ArgumentError(where(row) + mismatch)
    counts = [length // max(size, 1) for length in lengths]
    padded = np.empty((len(rows), max(counts, default=0), *shape), dtype)
    padded[...] = default if default.ndim else default.item()
    for row, each in enumerate(rows):
        padded[row, : counts[row]] = _array(each, dtype, (-1, *shape))
    return [padded]


def _column_of_one(kind: str, row: Any, dtype: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Returns the column of a single example directly; an empty list if the general function must handle it."""
    if kind == "dense":
        fits = row is not None and len(row) == math.prod(shape)
        return [_array(row, dtype, shape)] if fits else []
    values = () if row is None else row
    if kind == "sparse":
        return [np.arange(len(values)).reshape(-1, 1), _array(values, dtype), np.array([len(values)])]
    return [_array(values, dtype)] if kind == "ragged" else []


def _sparse_rows(values: Any, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    """Returns the indices, values and shape of a column of feature lists."""
    batch = [v or [] for v in values]
    indices = [(b, r, i) for b, rows in enumerate(batch) for r, each in enumerate(rows) for i in range(len(each))]
    widest = max((len(each) for rows in batch for each in rows), default=0)
    shape = np.array([len(batch), max(map(len, batch), default=0), widest], np.int64)
    flat = [v for rows in batch for each in rows for v in each]
    return [np.array(indices, np.int64).reshape(-1, 3), _array(flat, dtype), shape]


def _ragged_rows(values: Any, key: str, dtype: Any, shape: Any, missing: Any, splits: DType) -> list[np.ndarray]:
    """Returns the values, inner and outer row splits of a column of feature lists."""
    batch = [v or [] for v in values]
    rows = [each for one in batch for each in one]
    flat = _array([v for each in rows for v in each], dtype)
    return [flat, _splits([*map(len, rows)], splits), _splits([*map(len, batch)], splits)]


def _dense_rows(values: Any, key: str, dtype: Any, shape: tuple[int, ...], missing: bool, _: Any) -> list[np.ndarray]:
    """Returns a column of feature lists as a padded dense array, and the lengths."""
    for each in values:
        if each is None and not missing:
            message = f"Feature list '{key}' is required but could not be found.  "
            message += (
                "Did you mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
            )
            raise ArgumentError(f"Name: <unknown>, {message}")
        if any(len(items) != int(np.prod(shape)) for items in each or []):
            message = f"Total values size: {sum(map(len, each))} is not consistent with output shape: {_shape_text(('?', *shape))}"
            raise ArgumentError(f"Feature list '{key}' has an unexpected number of values.  {message}")
    lengths = [len(each or []) for each in values]
    padded = np.empty((len(values), max(lengths, default=0), *shape), dtype)
    padded[...] = b"" if np.dtype(dtype) == object else 0
    for row, each in enumerate(values):
        for place, items in enumerate(each or []):
            padded[row, place] = _array(items, dtype, shape)[()]
    return [padded, np.array(lengths, np.int64)]


_CONTEXT: dict[str, Any] = {
    "sparse": _sparse_column,
    "ragged": _ragged_column,
    "dense": _dense_column,
    "stacked": _stacked_column,
}
_ROWS: dict[str, Any] = {"sparse": _sparse_rows, "ragged": _ragged_rows, "dense": _dense_rows}


def _dtype_name(dtype: Any) -> str:
    return "string" if np.dtype(dtype) == object else NAMES[FIELDS[as_dtype(dtype).name]]


def _shape_text(shape: Sequence[Any]) -> str:
    return f"[{','.join(map(str, shape))}]"


@text_op(tf_name="ParseExampleV2", type=_types, numpy=_parsed)
def parse_examples(serialized: Tensor, *defaults: Tensor, specs: Any, message: str, single: bool) -> Any:
    """Parses serialized examples, or a single one, into columns."""
    return (serialized, *defaults), {"specs": specs, "message": message, "single": single}


@text_op(tf_name="ParseSequenceExampleV2", type=_types, numpy=_parsed)
def parse_sequence_examples(serialized: Tensor, *defaults: Tensor, specs: Any, message: str, single: bool) -> Any:
    """Parses serialized sequence examples, or a single one, into columns."""
    return (serialized, *defaults), {"specs": specs, "message": message, "single": single}


def parse(
    serialized: Tensor, message: str, context: Sequence[Column], rows: Sequence[Column], single: bool
) -> list[list[Tensor]]:
    """Returns the tensors of each column of a vector of serialized examples, or of a ``single`` one."""
    specs = [_spec("context", c, COUNTS[c.kind]) for c in context] + [
        _spec("rows", c, ROW_COUNTS[c.kind]) for c in rows
    ]
    defaults = [_default(c) for c in context if c.kind in ("dense", "stacked")]
    op = bind.parse_examples if message == "Example" else bind.parse_sequence_examples
    outputs = op(serialized, *defaults, specs=tuple(specs), message=message, single=single)
    tensors = iter(as_tuple(outputs))
    types = [_column_types(0, *spec[:7], (0, 0)) for spec in specs]
    counts = [len(_types_without_batch(spec[2], each) if single else each) for spec, each in zip(specs, types)]
    return [[next(tensors) for _ in range(n)] for n in counts]


def _spec(where: str, c: Column, count: int) -> Spec:
    """Returns a column's description with new symbolic dims."""
    return where, c.key, c.kind, c.dtype, c.shape, c.missing, c.splits, tuple(unknown_dim() for _ in range(count))


def _default(column: Column) -> Tensor:
    return EagerTensor(np.zeros((), np.int64)) if column.default is None else column.default
