"""Provides the initial keys and values of tables: given ones, or the lines of a file."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor, is_tensor
from tvtf.dtypes import DType, as_dtype, int64, string
from tvtf.errors import InvalidArgumentError, OpError
from tvtf.fileio import atomic_file
from tvtf.ops.strings.numbers import number_of


class Initializer(abc.ABC):
    """Pairs of keys and values, which fill a table when it is created.

    A new table calls :meth:`initialize`, which users' subclasses of public initializers may override.
    """

    key_dtype: DType
    value_dtype: DType

    @abc.abstractmethod
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the vectors of keys and values."""

    def initialize(self, table: Any) -> None:
        """Fills a table with the pairs."""
        table.fill(self)


@export("lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer(Initializer):
    """Keys and values from two tensors.

    Args:
      keys, values: tensors of one shape.
      key_dtype, value_dtype: the dtypes to convert them to.

    >>> import tvtf as tf
    >>> tf.lookup.KeyValueTensorInitializer(["a"], [1]).value_dtype
    tf.int32

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/KeyValueTensorInitializer
    """

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self._keys = convert_to_tensor(keys, dtype=key_dtype)
        self._values = convert_to_tensor(values, dtype=value_dtype)
        self.key_dtype, self.value_dtype = self._keys.dtype, self._values.dtype

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the arrays of keys and values.

        Raises:
          InvalidArgumentError: the shapes of keys and values differ.
        """
        keys = self._keys.eager_array()
        values = self._values.eager_array()
        if keys.shape != values.shape:
            key_shape, value_shape = [f"[{','.join(map(str, array.shape))}]" for array in (keys, values)]
            raise InvalidArgumentError(
                None,
                "LookupTableImportV2",
                f"Expected shape {key_shape} for value, got {value_shape} [Op:LookupTableImportV2] name: ",
            )
        return keys, values


@export("lookup.TextFileIndex")
class TextFileIndex:
    """The parts of a line, besides a column, that can be a key or value.

    >>> import tvtf as tf
    >>> tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    (-2, -1)

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/TextFileIndex
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


@export("lookup.TextFileInitializer")
class TextFileInitializer(Initializer):
    """A key and a value from each line of a text file.

    Args:
      filename: the file.
      key_dtype, key_index: the keys' dtype, and the part of a line: a column's index or a :class:`TextFileIndex`.
      value_dtype, value_index: the same for the values.
      vocab_size: the number of lines.
      delimiter: the separator of columns.
      value_index_offset: added to line numbers.

    >>> import tvtf as tf
    >>> whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    >>> tf.lookup.TextFileInitializer("words.txt", tf.string, whole, tf.int64, number).key_dtype
    tf.string

    Raises:
      ValueError: an index does not match its dtype.
      NotFoundError: when the table is created, the file does not exist.

    Source: https://www.tensorflow.org/api_docs/python/tf/lookup/TextFileInitializer
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        """Checks that the requested parts of a line fit the dtypes; the file is read when a table is created."""
        if not is_tensor(filename) and (filename is None or filename in ("", b"")):
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        convert_to_tensor(filename, string)  # raises an error if the name is not a string
        self.filename = filename
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._columns = key_index, value_index
        self._vocab_size, self._delimiter, self._offset = vocab_size, delimiter, value_index_offset
        for dtype, index, part in ((self.key_dtype, key_index, "key"), (self.value_dtype, value_index, "value")):
            _check_index(dtype, index, part)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Reads the file, and returns the keys and values of its first ``vocab_size`` lines; by default of all lines.

        Raises:
          InvalidArgumentError: the file has fewer lines, or a line lacks a column or has an invalid number.
        """
        lines = self._lines()
        if self._vocab_size is not None and len(lines) < self._vocab_size:
            raise InvalidArgumentError(
                None,
                "InitializeTableFromTextFileV2",
                f"Invalid vocab_size in {self.filename}: expected {self._vocab_size} but got {len(lines)}",
            )
        lines = lines[: self._vocab_size]
        key_index, value_index = self._columns
        return self._column(lines, key_index, self.key_dtype), self._column(lines, value_index, self.value_dtype)

    def _lines(self) -> list[bytes]:
        """Reads the lines of the file; an error has the text of TensorFlow's op."""
        op = "InitializeTableFromTextFileV2"
        try:
            return atomic_file.read(self.filename).splitlines()
        except OpError as error:
            raise type(error)(None, op, f"{error.message} [Op:{op}] name: ") from error.__cause__

    def _column(self, lines: list[bytes], index: int, dtype: DType) -> np.ndarray:
        """Returns a column of the text file as an array of a dtype.

        ``index`` is the column's index, or a :class:`TextFileIndex` for whole lines or line numbers.
        """
        if index == TextFileIndex.LINE_NUMBER:
            return np.arange(len(lines), dtype=dtype.np) + self._offset
        is_whole_line = index == TextFileIndex.WHOLE_LINE
        fields = [line if is_whole_line else self._field(i, line, index) for i, line in enumerate(lines)]
        if dtype is string:
            return convert_to_tensor(fields, string).eager_array() if fields else np.empty(0, object)
        return np.array([_parse_number(field, i, dtype, self.filename) for i, field in enumerate(fields)], dtype.np)

    def _field(self, line_number: int, line: bytes, index: int) -> bytes:
        """Splits a line at the delimiter, and returns the field ``index``.

        Raises:
          InvalidArgumentError: the line has too few fields.
        """
        fields = line.split(self._delimiter.encode())
        if index >= len(fields):
            raise InvalidArgumentError(
                None,
                "InitializeTableFromTextFileV2",
                f"Invalid number of columns in {self.filename} line {line_number} ({line.decode(errors='replace')}) : "
                f"expected at least {index + 1} got {len(fields)}",
            )
        return fields[index]


def _parse_number(field: bytes, line: int, dtype: DType, path: Any) -> float:
    """Parses a field of a text file as a number of a dtype.

    Raises:
      InvalidArgumentError: the field is not a number; the text has the line number and the path.
    """
    try:
        return number_of(field, dtype)
    except ValueError as error:
        raise InvalidArgumentError(
            None,
            "InitializeTableFromTextFileV2",
            f"Field {field.decode(errors='replace')} in line {line} is not a valid {dtype.name}. "
            f"[Op:InitializeTableFromTextFileV2] file: {path}",
        ) from error


def _check_index(dtype: DType, index: int, part: str) -> None:
    """Checks that a part of a line in a text file can be a key or value of a dtype. Raises ValueError if it can't.

    ``index`` is a column's index, or stands for the whole line or the line number. ``part`` is "key" or "value", for
    the error text.
    """
    if index == TextFileIndex.LINE_NUMBER and dtype is not int64:
        raise ValueError(f"`{part}_dtype` must be int64 for `{part}_index` {index}, received: {dtype!s}")
    if index < TextFileIndex.WHOLE_LINE:
        raise ValueError(f"`{part}_index` should be >= -2, received: {index}.")
    if index == TextFileIndex.WHOLE_LINE and not (dtype is string or dtype.is_integer):
        raise ValueError(
            f"`{part}_dtype` should be either integer or string for `{part}_index` {index}, received: {dtype!s}"
        )
