"""Converts other records: lines of CSV, compressed bytes, examples in JSON, serialized sparse tensors, file names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.composites.sparse.tensor import SparseTensor, as_sparse
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import as_tuple, export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, float32, float64, int32, int64, string, variant
from tvtf.errors import DataLossError, InvalidArgumentError
from tvtf.fileio import inflate
from tvtf.ops.host import unknown_dim
from tvtf.ops.operands import attributes, one_of, operand
from tvtf.ops.rules import bind
from tvtf.ops.strings.files import matching_files
from tvtf.ops.strings.numbers import number_of
from tvtf.ops.strings.raw import parse_tensor, serialize_tensor
from tvtf.ops.strings.rules import each_text, text, text_op
from tvtf.state.variable import Variable

# -- CSV


def fields_of(line: bytes, delimiter: bytes, quoted: bool) -> list[bytes]:
    """Splits a line of CSV at the delimiter, and returns the fields. ``quoted`` says whether fields may be quoted.

    >>> fields_of(b'1,"a ""b"", c",', b",", True)
    [b'1', b'a "b", c', b'']
    """
    if not quoted or b'"' not in line:
        return line.split(delimiter)
    fields, position = [], 0
    while True:
        field, position = (
            _quoted_field(line, position, delimiter)
            if line[position : position + 1] == b'"'
            else _unquoted_field(line, position, delimiter)
        )
        fields.append(field)
        if position >= len(line):
            return fields
        position += 1
        if position == len(line):
            # A delimiter at the end of the line precedes an empty field.
            return [*fields, b""]


def _quoted_field(line: bytes, position: int, delimiter: bytes) -> tuple[bytes, int]:
    """Parses a quoted CSV field that starts at ``position``, and returns the field and the position after it.

    Two quotes within the field stand for one quote.

    Raises:
      ArgumentError: the quote at the end is missing, or no delimiter follows it.
    """
    parts = []
    start = position + 1
    while True:
        end = line.find(b'"', start)
        if end < 0:
            raise ArgumentError("Quoted field has to end with quote followed by delim or end")
        parts.append(line[start:end])
        if line[end + 1 : end + 2] != b'"':
            break
        start = end + 2  # after a doubled quote the field goes on
    if end + 1 < len(line) and line[end + 1 : end + 2] != delimiter:
        raise ArgumentError("Quoted field has to end with quote followed by delim or end")
    return b'"'.join(parts), end + 1


def _unquoted_field(line: bytes, position: int, delimiter: bytes) -> tuple[bytes, int]:
    """Parses an unquoted CSV field that starts at ``position``, and returns the field and the position after it.

    Args:
      line: the line.
      position: the start of the field.
      delimiter: the byte between fields.

    Raises:
      ArgumentError: the field contains a quote.
    """
    end = line.find(delimiter, position)
    end = len(line) if end < 0 else end
    if b'"' in line[position:end]:
        raise ArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
    return line[position:end], end


def _parse_csv(
    records: np.ndarray, *defaults: np.ndarray, delimiter: str, quoted: bool, na: str, columns: Any
) -> tuple[np.ndarray, ...]:
    """Parses lines of CSV to one array for each column, in the dtype of the column's default.

    Args:
      records: the lines.
      quoted: whether fields may be quoted.
      na: a text, besides the empty one, for a missing field.
      columns: the indices of the fields to return, in ascending order; empty for all fields.

    Raises:
      ArgumentError: a line has a wrong number of fields, or a field is invalid.
    """
    count = len(defaults)
    column_arrays = [np.empty(records.size, d.dtype) for d in defaults]
    for row, line in enumerate(records.ravel().tolist()):
        fields = fields_of(line, delimiter.encode(), quoted)
        if columns:
            if columns[-1] >= len(fields):  # the largest index
                raise ArgumentError(f"Expect {count} fields but have {len(fields)} in record {row}")
            fields = [fields[selected] for selected in columns]
        if len(fields) != count:
            raise ArgumentError(f"Expect {count} fields but have {len(fields)} in record {row}")
        for column, (field, default) in enumerate(zip(fields, defaults)):
            column_arrays[column][row] = _field_value(field, default, na.encode(), column, row)
    return tuple(array.reshape(records.shape) for array in column_arrays)


def _field_value(field: bytes, default: np.ndarray, missing_value: bytes, column: int, row: int) -> Any:
    """Converts a CSV field to the dtype of the column's default.

    An empty field, or the text ``missing_value``, becomes the default. ``column`` and ``row`` are for errors.

    Raises:
      ArgumentError: a required field is missing, or the field is not a number of the dtype.
    """
    if not field or field == missing_value:
        if not default.size:  # an empty default: the field is required
            raise ArgumentError(f"Field {column} is required but missing in record {row}!")
        return default.ravel()[0]
    if default.dtype == object:  # a string
        return field
    try:
        return default.dtype.type(number_of(field, as_dtype(default.dtype)))
    except ValueError:
        # In this message, TensorFlow calls floats by their names in C, and integers by those of NumPy.
        c_names = {"float32": "float", "float64": "double"}
        c_type = c_names.get(default.dtype.name, default.dtype.name)
        raise ArgumentError(
            f"Field {column} in record {row} is not a valid {c_type}: {field.decode(errors='replace')}"
        ) from None


@text_op(
    tf_name="DecodeCSV",
    type=lambda records, *defaults, **_: tuple(TensorType(records.shape, default.dtype) for default in defaults),
    numpy=_parse_csv,
)
def csv_columns(records: Tensor, *defaults: Tensor, delimiter: str, quoted: bool, na: str, columns: Any) -> Any:
    """Parses lines of CSV into columns: one tensor for each default, with the dtype of the default."""
    return (records, *defaults), {"delimiter": delimiter, "quoted": quoted, "na": na, "columns": columns}


@export("io.decode_csv")
@attributes(use_quote_delim=bool, field_delim=str, na_value=str)
def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Parses lines of CSV into columns, one tensor each.

    Args:
      records: strings of any shape, one line each.
      record_defaults: for each column a default, or an empty list if a value is required; float32, float64, int32, int64
        or string.
      field_delim: the separator of fields.
      use_quote_delim: whether fields may be quoted by ``"``.
      na_value: another text, besides the empty one, for a missing field.
      select_cols: the indices of the columns to return, in order.

    >>> import tvtf as tf
    >>> [c.numpy().tolist() for c in tf.io.decode_csv(["1,a", "2,b"], [[0], ["?"]])]
    [[1, 2], [b'a', b'b']]

    Raises:
      ValueError: ``select_cols`` is not in ascending order, or has not as many columns as ``record_defaults``.
      InvalidArgumentError: a line has a wrong number of fields, or a field can't be converted to its column's dtype.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_csv
    """
    columns = list(select_cols) if select_cols is not None else None
    if columns is not None and any(first >= second for first, second in zip(columns, columns[1:])):
        raise ValueError("select_cols is not strictly increasing.")
    if columns and columns[0] < 0:
        raise ValueError("select_cols contains negative values.")
    if columns is not None and len(columns) != len(record_defaults):
        raise ValueError("Length of select_cols and record_defaults do not match.")
    defaults = [_csv_default(default_value) for default_value in record_defaults]
    attrs = {"delimiter": field_delim, "quoted": bool(use_quote_delim), "na": na_value, "columns": tuple(columns or ())}
    return list(as_tuple(bind.csv_columns(text(records), *defaults, **attrs)))


def _csv_default(value: Any) -> Tensor:
    """Converts the default of a CSV column to a tensor. Raises InvalidArgumentError for a dtype that CSV can't have."""
    default = convert_to_tensor(value)
    if default.dtype not in (float32, float64, int32, int64, string):
        message = f"Value for attr 'OUT_TYPE' of {default.dtype.name} is not in the list of allowed values"
        raise InvalidArgumentError(None, "DecodeCSV", f"{message}: float, double, int32, int64, string")
    return default


# -- compressed


def _decompress(value: bytes, kind: str) -> bytes:
    """Decompresses one string; ``kind`` is "ZLIB" or "GZIP". Raises ArgumentError if the string is damaged."""
    try:
        return inflate.inflated(value, kind, "DecodeCompressed: a string")
    except DataLossError as error:
        raise ArgumentError(f"the bytes are not {kind} data: {error}") from None


@text_op(
    tf_name="DecodeCompressed",
    type=lambda x, kind: TensorType(x.shape, string),
    numpy=each_text(_decompress, object),
)
def inflated(x: Tensor, kind: str) -> Any:
    """Decompresses each string; ``kind`` is "ZLIB" or "GZIP"."""
    return (x,), {"kind": kind}


@export("io.decode_compressed")
@attributes(compression_type=str)
def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Decompresses each string.

    Args:
      bytes: strings.
      compression_type: "ZLIB", "GZIP", or "" for uncompressed strings.

    >>> import zlib
    >>> import tvtf as tf
    >>> tf.io.decode_compressed([zlib.compress(b"abc")], "ZLIB").numpy()
    array([b'abc'], dtype=object)

    Raises:
      InvalidArgumentError: the type is unknown, or the bytes are damaged.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_compressed
    """
    x = operand(bytes, string)
    if compression_type not in ("", "ZLIB", "GZIP"):
        message = f"Only ZLIB, GZIP or NONE are supported compressions [Op:DecodeCompressed]; got {compression_type!r}"
        raise InvalidArgumentError(None, "DecodeCompressed", message)
    return bind.inflated(x, kind=compression_type) if compression_type else x  # type: ignore[no-any-return]


# -- JSON


def _serialize_json(value: bytes) -> bytes:
    """Converts the JSON of an ``Example`` message to the serialized message. Protobuf is imported at the first use."""
    from tvtf.examples.messages import from_json

    return from_json(value)


@text_op(
    tf_name="DecodeJSONExample",
    type=lambda x: TensorType(x.shape, string),
    numpy=each_text(_serialize_json, object),
)
def examples_of_json(x: Tensor) -> Any:
    """Converts each string, the JSON of an ``Example`` message, to the serialized message."""
    return (x,), {}


@export("io.decode_json_example")
def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Converts ``tf.train.Example`` messages in JSON to serialized ones.

    >>> import tvtf as tf
    >>> text = '{"features": {"feature": {"a": {"int64List": {"value": ["3"]}}}}}'
    >>> tf.io.parse_single_example(tf.io.decode_json_example(text), {"a": tf.io.FixedLenFeature([], tf.int64)})["a"].numpy()
    np.int64(3)

    Raises:
      InvalidArgumentError: a text is not the JSON form of an ``Example`` message.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_json_example
    """
    return bind.examples_of_json(operand(json_examples, string))  # type: ignore[no-any-return]


# -- sparse tensors


@export("io.serialize_sparse")
@attributes(out_type=one_of(string, variant))
def serialize_sparse(sp_input: Any, out_type: Any = string, name: str | None = None) -> Tensor:
    """Serializes a sparse tensor as three strings: indices, values and shape, each a ``TensorProto``.

    >>> import tvtf as tf
    >>> tf.io.serialize_sparse(tf.sparse.SparseTensor([[0]], [1], [2])).shape
    TensorShape([3])

    Raises:
      TypeError: the input is not a sparse tensor.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/serialize_sparse
    """
    sp = as_sparse(sp_input)
    _require_strings(out_type)
    return bind.stack(*map(serialize_tensor, (sp.indices, sp.values, sp.dense_shape)), axis=0)  # type: ignore[no-any-return]


def _require_strings(out_type: Any) -> None:
    """Raises TypeError if serialized sparse tensors are requested as variants, which tvtf doesn't have."""
    if as_dtype(out_type) is not string:
        raise TypeError(f"out_type must be tf.string: tvtf has no tensors of {out_type!r}")


def _serialized_rows(indices: np.ndarray, values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Serializes each row of a sparse tensor as three strings of shape (rows, 3): the row's indices, values and shape.

    Each string is a ``TensorProto`` message. The indices of a row don't include the row's own index.
    """
    from tvtf.ops.strings.tensor_proto import written

    row_count = int(shape[0])
    serialized = np.empty((row_count, 3), object)
    for row in range(row_count):
        is_in_row = indices[:, 0] == row
        parts = (indices[is_in_row, 1:], values[is_in_row], shape[1:])
        serialized[row] = [written(np.ascontiguousarray(part)) for part in parts]
    return serialized


@text_op(
    tf_name="SerializeManySparse",
    type=lambda indices, values, shape, rows: TensorType((rows, 3), string),
    numpy=lambda indices, values, shape, rows: _serialized_rows(indices, values, shape),
)
def rows_of_sparse(indices: Tensor, values: Tensor, shape: Tensor, rows: Any) -> Any:
    """Serializes each row of a sparse tensor as three strings: indices, values and shape. ``rows`` is their number."""
    return (indices, values, shape), {"rows": rows}


@export("io.serialize_many_sparse")
@attributes(out_type=one_of(string, variant))
def serialize_many_sparse(sp_input: Any, out_type: Any = string, name: str | None = None) -> Tensor:
    """Serializes each row of a sparse tensor as three strings, in shape (rows, 3).

    >>> import tvtf as tf
    >>> tf.io.serialize_many_sparse(tf.sparse.SparseTensor([[0, 1]], [1], [2, 3])).shape
    TensorShape([2, 3])

    Raises:
      TypeError: the input is not a sparse tensor.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/serialize_many_sparse
    """
    sp = as_sparse(sp_input)
    _require_strings(out_type)
    rows = sp.shape[0] if sp.shape.rank else None
    count = unknown_dim() if rows is None else rows
    return bind.rows_of_sparse(sp.indices, sp.values, sp.dense_shape, rows=count)  # type: ignore[no-any-return]


@export("io.deserialize_many_sparse")
def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Combines the rows that ``tf.io.serialize_many_sparse`` wrote into one sparse tensor; not in ``tf.function``.

    >>> import tvtf as tf
    >>> rows = tf.sparse.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 3])
    >>> tf.io.deserialize_many_sparse(tf.io.serialize_many_sparse(rows), tf.int32).indices.numpy().tolist()
    [[0, 1], [1, 0]]

    Raises:
      InvalidArgumentError: the shape is wrong, or the rows differ in dtype or rank.
      UnimplementedError: called while tracing.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/deserialize_many_sparse
    """
    x = operand(serialized_sparse, string)
    if x.ndim != 2 or x.shape[1] != 3:
        message = f"Serialized sparse should have non-zero elements and shape [N, 3], but received shape {x.shape}"
        raise InvalidArgumentError(None, "DeserializeManySparse", message)
    value_dtype = as_dtype(dtype)
    indices = []
    values = []
    shapes = []
    for row in range(len(x)):
        row_indices, row_values, shape = _parse_row(x, row, value_dtype)
        indices.append(np.concatenate([np.full((len(row_indices), 1), row), row_indices], axis=1))
        values.append(row_values)
        shapes.append(shape)
    if len({len(row_shape) for row_shape in shapes}) != 1 or (rank is not None and len(shapes[0]) != rank - 1):
        message = f"Inconsistent rank across SparseTensors: {[len(row_shape) for row_shape in shapes]}"
        raise InvalidArgumentError(None, "DeserializeManySparse", message)
    shape = np.array([len(x), *np.max(shapes, axis=0)], np.int64)
    return SparseTensor(np.concatenate(indices).astype(np.int64), EagerTensor(np.concatenate(values)), shape)


def _parse_row(x: Tensor, row: int, value_dtype: DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parses one row of a matrix of serialized sparse tensors, and returns its indices, values and shape.

    Args:
      x: the serialized tensors, a matrix of strings with three columns.
      row: the index of the row.
      value_dtype: the dtype of the values.

    Raises:
      InvalidArgumentError: the parts don't form a sparse tensor.
    """
    indices = parse_tensor(x[row, 0], int64).eager_array()
    values = parse_tensor(x[row, 1], value_dtype).eager_array()
    shape = parse_tensor(x[row, 2], int64).eager_array()
    if indices.ndim != 2 or values.shape != indices.shape[:1] or shape.shape != indices.shape[1:]:
        message = (
            f"Expected serialized_sparse[{row}] to hold an index matrix, values and a shape that fit; their shapes are "
        )
        message += f"{indices.shape}, {values.shape} and {shape.shape}"
        raise InvalidArgumentError(None, "DeserializeManySparse", message)
    return indices, values, shape


# -- names of files


@export("io.match_filenames_once")
def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """Returns a Variable with the names of the files that match one or more patterns now.

    >>> import tvtf as tf
    >>> tf.io.match_filenames_once("/nowhere/*").shape
    TensorShape([0])

    Source: https://www.tensorflow.org/api_docs/python/tf/io/match_filenames_once
    """
    return Variable(matching_files(pattern), trainable=False, name=name)
