"""Parsing serialized examples into columns.

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
"""Dims that only parsing tells, of a feature."""
ROW_COUNTS = {"sparse": 1, "dense": 1, "ragged": 2}
"""And of a list of features."""

Where = Callable[[int], str]
"""How messages of a row of the batch begin."""
Spec = tuple[str, str, str, DType, tuple[int, ...], bool, DType, tuple[Any, ...]]
"""Where it is ("context" or "rows"), key, kind, dtype, shape, whether it may be missing, dtype of splits, unknown dims."""


def _types(
    serialized: TensorType, *defaults: TensorType, specs: Sequence[Spec], single: bool, **_: Any
) -> tuple[TensorType, ...]:
    if single:
        return tuple(t for spec in specs for t in _types_of_one(spec[2], _column_types(1, *spec)))
    return tuple(t for spec in specs for t in _column_types(serialized.shape[0], *spec))


def _types_of_one(kind: str, types: list[TensorType]) -> list[TensorType]:
    """The types of what :func:`_of_one` gives."""
    if kind == "ragged":
        return types[:-1]
    if kind == "sparse":
        (count, rank), dtype = types[0].shape, types[1].dtype
        return [TensorType((count, rank - 1), int64), TensorType((count,), dtype), TensorType((rank - 1,), int64)]
    return [TensorType(t.shape[1:], t.dtype) for t in types]


def _of_one(kind: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """A column of a batch of one example as the one example's."""
    if kind == "ragged":
        return arrays[:-1]
    if kind == "sparse":
        indices, values, shape = arrays
        return [indices[:, 1:], values, shape[1:]]
    return [a.reshape(a.shape[1:]) for a in arrays]


def _column_types(
    batch: Any, where: str, key: str, kind: str, dtype: DType, shape: Any, missing: bool, splits: DType, dims: Any
) -> list[TensorType]:
    deep = where == "rows"
    if kind == "sparse":
        rank = 3 if deep else 2
        return [TensorType((dims[0], rank), int64), TensorType((dims[0],), dtype), TensorType((rank,), int64)]
    if kind == "ragged":
        outer = [TensorType((dims[1] + 1 if dims[1] is not None else None,), splits)] if deep else []
        return [TensorType((dims[0],), dtype), *outer, TensorType((batch + 1,), splits)]
    if deep:
        return [TensorType((batch, dims[0], *shape), dtype), TensorType((batch,), int64)]
    return [TensorType((batch, *dims, *shape), dtype)]


def _parsed(
    serialized: np.ndarray, *defaults: np.ndarray, specs: Sequence[Spec], message: str, single: bool
) -> tuple[np.ndarray, ...]:
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
    given = iter(defaults)
    found: list[np.ndarray] = []
    for where, key, kind, dtype, shape, missing, splits, _ in specs:
        if where == "rows":
            lists = [e.feature_lists.feature_list for e in examples]
            rows = [_rows(one, key, dtype) for one in lists]
            column = _ROWS[kind](rows, key, dtype.np, tuple(shape), missing, splits)
            found += _of_one(kind, column) if single else column
            continue
        place = partial(_where, key, single)
        values = [_values(one, key, kind, dtype, place, row) for row, one in enumerate(maps)]
        default = next(given) if kind in ("dense", "stacked") else None
        if single and (one := _single(kind, values[0], dtype.np, shape)):
            found += one
            continue
        column = _CONTEXT[kind](values, place, key, dtype.np, tuple(shape), missing, splits, default)
        found += _of_one(kind, column) if single else column
    return tuple(found)


def _undecodable(message: str, text: bytes) -> str:
    if message == "Example":
        return f"Could not parse example input, value: '{text.decode(errors='replace')}'"
    return f"Could not parse {message} input, value: '{text.decode(errors='replace')}'"


def _where(key: str, single: bool, row: int) -> str:
    """How messages begin."""
    return f"Key: {key}.  " if single else f"Name: <unknown>, Key: {key}, Index: {row}.  "


def _values(features: Any, key: str, kind: str, dtype: DType, where: Where, row: int) -> Any:
    """The values of a feature; None where there are none."""
    feature = features.get(key)
    found, wanted = feature and feature.WhichOneof("kind"), FIELDS[dtype.name]
    if found is None:
        return None
    if found != wanted:
        types = f"Data type: {NAMES[found]} but expected type: {NAMES[wanted]}"
        if kind in ("sparse", "ragged"):
            types = f"Expected type: {NAMES[wanted]}, Actual type: {NAMES[found]}"
        raise ArgumentError(f"{where(row)}Data types don't match. {types}")
    return _floats(feature.float_list) if wanted == "float_list" else list(getattr(feature, wanted).value)


def _floats(message: Any) -> Any:
    """The numbers of a ``FloatList``, which are all of its packed form but a tag and their size."""
    packed, count = message.SerializeToString(), len(message.value)
    start = 1 + _varint_size(4 * count)
    if count and len(packed) == start + 4 * count:
        return np.frombuffer(packed, "<f4", offset=start)
    return list(message.value)  # fields that are unknown here follow


def _varint_size(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _rows(lists: Any, key: str, dtype: DType) -> Any:
    """The values of each feature of a list; None where there is no list."""
    if key not in lists:
        return None
    where = partial(_where, key, False)
    found = [_values({key: each}, key, "", dtype, where, row) for row, each in enumerate(lists[key].feature)]
    return [[] if values is None else values for values in found]


def _array(values: Sequence[Any], dtype: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    found = np.empty(len(values), dtype)
    found[:] = values
    return found if shape is None else found.reshape(shape)


def _present(values: Any) -> tuple[list[Any], list[int]]:
    """Rows, empty ones for what is missing, and their lengths."""
    rows = [() if v is None else v for v in values]
    return rows, [*map(len, rows)]


def _flat(rows: Sequence[Any], dtype: Any) -> np.ndarray:
    """All values of all rows."""
    given = [row for row in rows if len(row)]
    return (
        np.concatenate(given) if any(isinstance(row, np.ndarray) for row in given) else _array([*chain(*given)], dtype)
    )


def _splits(lengths: Sequence[int], dtype: DType) -> np.ndarray:
    return np.cumsum([0, *lengths]).astype(dtype.np)


def _sparse(values: Any, where: Where, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    rows, lengths = _present(values)
    places = np.empty((sum(lengths), 2), np.int64)
    places[:, 0] = np.repeat(np.arange(len(rows)), lengths)
    places[:, 1] = [*chain(*map(range, lengths))]
    shape = np.array([len(rows), max(lengths, default=0)], np.int64)
    return [places, _flat(rows, dtype), shape]


def _ragged(
    values: Any, where: Where, key: str, dtype: Any, shape: Any, missing: Any, splits: DType, _: Any
) -> list[np.ndarray]:
    rows, lengths = _present(values)
    return [_flat(rows, dtype), _splits(lengths, splits)]


def _dense(
    values: Any, where: Where, key: str, dtype: Any, shape: tuple[int, ...], missing: bool, _: Any, default: Any
) -> list[np.ndarray]:
    size = math.prod(shape)
    found = np.empty((len(values), size), dtype)
    for row, each in enumerate(values):
        if each is None:
            if not missing:
                name = "Name: <unknown>, " if where(row).startswith("Name") else ""
                raise ArgumentError(
                    f"{name}Feature: {key} (data type: {_shown(dtype)}) is required but could not be found."
                )
            found[row] = default.ravel() if default.ndim else default.item()
            continue
        if len(each) != size:
            told = f"Number of {_shown(dtype)} values != expected.  Values size: {len(each)} but output shape: {_listed(shape)}"
            raise ArgumentError(where(row) + told)
        found[row] = each
    return [found.reshape((len(values), *shape))]


def _stacked(
    values: Any, where: Where, key: str, dtype: Any, shape: tuple[int, ...], missing: bool, _: Any, default: Any
) -> list[np.ndarray]:
    size = math.prod(shape)
    rows, lengths = _present(values)
    for row, length in enumerate(lengths):
        if size and length % size:
            told = f"Number of {_shown(dtype)} values is not a multiple of stride length. "
            told += f"Saw {length} values but output shape is: {_listed(('?', *shape))}"
            raise ArgumentError(where(row) + told)
    counts = [length // max(size, 1) for length in lengths]
    found = np.empty((len(rows), max(counts, default=0), *shape), dtype)
    found[...] = default if default.ndim else default.item()
    for row, each in enumerate(rows):
        found[row, : counts[row]] = _array(each, dtype, (-1, *shape))
    return [found]


def _single(kind: str, row: Any, dtype: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """A feature of a single example, at once; nothing where there is more to it."""
    if kind == "dense":
        fits = row is not None and len(row) == math.prod(shape)
        return [_array(row, dtype, shape)] if fits else []
    given = () if row is None else row
    if kind == "sparse":
        return [np.arange(len(given)).reshape(-1, 1), _array(given, dtype), np.array([len(given)])]
    return [_array(given, dtype)] if kind == "ragged" else []


def _sparse_rows(values: Any, key: str, dtype: Any, *_: Any) -> list[np.ndarray]:
    batch = [v or [] for v in values]
    places = [(b, r, i) for b, rows in enumerate(batch) for r, each in enumerate(rows) for i in range(len(each))]
    widest = max((len(each) for rows in batch for each in rows), default=0)
    shape = np.array([len(batch), max(map(len, batch), default=0), widest], np.int64)
    flat = [v for rows in batch for each in rows for v in each]
    return [np.array(places, np.int64).reshape(-1, 3), _array(flat, dtype), shape]


def _ragged_rows(values: Any, key: str, dtype: Any, shape: Any, missing: Any, splits: DType) -> list[np.ndarray]:
    batch = [v or [] for v in values]
    rows = [each for one in batch for each in one]
    flat = _array([v for each in rows for v in each], dtype)
    return [flat, _splits([*map(len, rows)], splits), _splits([*map(len, batch)], splits)]


def _dense_rows(values: Any, key: str, dtype: Any, shape: tuple[int, ...], missing: bool, _: Any) -> list[np.ndarray]:
    for each in values:
        if each is None and not missing:
            told = f"Feature list '{key}' is required but could not be found.  "
            told += (
                "Did you mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
            )
            raise ArgumentError(f"Name: <unknown>, {told}")
        if any(len(items) != int(np.prod(shape)) for items in each or []):
            told = f"Total values size: {sum(map(len, each))} is not consistent with output shape: {_listed(('?', *shape))}"
            raise ArgumentError(f"Feature list '{key}' has an unexpected number of values.  {told}")
    lengths = [len(each or []) for each in values]
    found = np.empty((len(values), max(lengths, default=0), *shape), dtype)
    found[...] = b"" if np.dtype(dtype) == object else 0
    for row, each in enumerate(values):
        for place, items in enumerate(each or []):
            found[row, place] = _array(items, dtype, shape)[()]
    return [found, np.array(lengths, np.int64)]


_CONTEXT: dict[str, Any] = {"sparse": _sparse, "ragged": _ragged, "dense": _dense, "stacked": _stacked}
_ROWS: dict[str, Any] = {"sparse": _sparse_rows, "ragged": _ragged_rows, "dense": _dense_rows}


def _shown(dtype: Any) -> str:
    return "string" if np.dtype(dtype) == object else NAMES[FIELDS[as_dtype(dtype).name]]


def _listed(shape: Sequence[Any]) -> str:
    return f"[{','.join(map(str, shape))}]"


@text_op(tf_name="ParseExampleV2", type=_types, numpy=_parsed)
def parse_examples(serialized: Tensor, *defaults: Tensor, specs: Any, message: str, single: bool) -> Any:
    """The columns of serialized examples, or of a single one."""
    return (serialized, *defaults), {"specs": specs, "message": message, "single": single}


@text_op(tf_name="ParseSequenceExampleV2", type=_types, numpy=_parsed)
def parse_sequence_examples(serialized: Tensor, *defaults: Tensor, specs: Any, message: str, single: bool) -> Any:
    """The columns of serialized sequences of examples, or of a single one."""
    return (serialized, *defaults), {"specs": specs, "message": message, "single": single}


def parse(
    serialized: Tensor, message: str, context: Sequence[Column], rows: Sequence[Column], single: bool
) -> list[list[Tensor]]:
    """The tensors of each column, of a vector of serialized examples or a ``single`` one."""
    specs = [_spec("context", c, COUNTS[c.kind]) for c in context] + [
        _spec("rows", c, ROW_COUNTS[c.kind]) for c in rows
    ]
    defaults = [_default(c) for c in context if c.kind in ("dense", "stacked")]
    op = bind.parse_examples if message == "Example" else bind.parse_sequence_examples
    outputs = op(serialized, *defaults, specs=tuple(specs), message=message, single=single)
    found = iter(as_tuple(outputs))
    types = [_column_types(0, *spec[:7], (0, 0)) for spec in specs]
    counts = [len(_types_of_one(spec[2], each) if single else each) for spec, each in zip(specs, types)]
    return [[next(found) for _ in range(n)] for n in counts]


def _spec(where: str, c: Column, count: int) -> Spec:
    return where, c.key, c.kind, c.dtype, c.shape, c.missing, c.splits, tuple(unknown_dim() for _ in range(count))


def _default(column: Column) -> Tensor:
    return EagerTensor(np.zeros((), np.int64)) if column.default is None else column.default
