"""Makes datasets of tables: CSV files with named columns, and the rows of a database query."""

from __future__ import annotations

import csv
import itertools
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, Tensor, constant
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.base import UNKNOWN, Dataset
from tvtf.data.batching import Batch
from tvtf.data.element_order import Prefetch, Repeat, Shuffle
from tvtf.data.mapped import IgnoreErrors, Interleave, Map
from tvtf.data.readers import Csv, file_names, matching, opened, rows_of
from tvtf.data.sources import Slices
from tvtf.data.structure import Element
from tvtf.dtypes import DType, as_dtype, float32, float64, int32, int64, string
from tvtf.dtypes import bool as bool_
from tvtf.errors import InvalidArgumentError, UnknownError
from tvtf.fileio.atomic_file import named_failures

KINDS = (int32, int64, float32, float64, string)
"""The dtypes that a column may be inferred to have, from the narrowest to the widest."""


@export("data.experimental.make_csv_dataset")
def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Reads batches of the rows of CSV files: dicts of columns by name, or pairs of a dict and labels.

    Args:
      file_pattern: file names or glob patterns.
      column_names: by default those in the first line of the files.
      column_defaults: for each column a dtype if a value is required, or a tensor with the default; by default inferred
        from the first ``num_rows_for_inference`` rows.
      label_name: the column that is returned as labels.
      select_columns: names or indices of the columns to return.
      num_epochs: how many times the rows are read; infinitely often by default.
      shuffle, shuffle_buffer_size, shuffle_seed: whether rows are shuffled, and how; see ``Dataset.shuffle``.
      num_parallel_reads: how many files are open at the same time, from which rows are taken in turn.
      sloppy: accepted without effect; the order is always the same.
      ignore_errors: whether to skip rows that can't be parsed.
      others: see ``tf.data.experimental.CsvDataset``.

    Raises:
      ValueError: an argument does not match the files.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("size,name\\n1,one\\n2,two\\n")
    ...     rows = tf.data.experimental.make_csv_dataset(path, 2, label_name="name", num_epochs=1, shuffle=False)
    ...     [(features, names)] = rows.as_numpy_iterator()
    >>> features["size"], names
    (array([1, 2], dtype=int32), array([b'one', b'two'], dtype=object))

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/make_csv_dataset
    """
    paths = matching(file_names(file_pattern))
    names_of: Dataset = Slices(EagerTensor(np.array([each.encode() for each in paths], object)))
    if shuffle:
        names_of = Shuffle(names_of, len(paths), shuffle_seed, True)
    probe = _ColumnProbe(paths, field_delim, use_quote_delim, header, compression_type, encoding)
    names = probe.names() if column_names is None else list(column_names)
    selected = None if select_columns is None else _column_indices(select_columns, names)
    if column_defaults is None:
        defaults = probe.defaults(selected or range(len(names)), len(names), na_value, num_rows_for_inference)
    else:
        defaults = list(column_defaults)
    if selected is not None:
        if len(defaults) != len(selected):
            raise ValueError(
                "If specified, `column_defaults` and `select_columns` must have the same length: `column_defaults` has length "
                f"{len(defaults)}, `select_columns` has length {len(selected)}."
            )
        names = [names[i] for i in selected]
    if label_name is not None and label_name not in names:
        raise ValueError(f"`label_name` provided must be one of the columns: {names}. Received: {label_name}.")

    def rows_of(path: Any) -> Dataset:
        rows = Csv(
            path, defaults, compression_type, None, header, field_delim, use_quote_delim, na_value, selected
        )  # fmt: skip
        return IgnoreErrors(rows, False) if ignore_errors else rows

    def named(*columns: Tensor) -> Any:
        features = OrderedDict(zip(names, columns))
        return features if label_name is None else (features, features.pop(label_name))

    rows: Dataset = Interleave(names_of, rows_of, max(1, num_parallel_reads or 1), 1)
    if shuffle:
        rows = Shuffle(rows, shuffle_buffer_size, shuffle_seed, True)
    if num_epochs != 1:
        rows = Repeat(rows, -1 if num_epochs is None else num_epochs)
    columns = Map(Batch(rows, batch_size, num_epochs is None), named)
    return Prefetch(columns, -1 if prefetch_buffer_size is None else prefetch_buffer_size)


class _ColumnProbe:
    """Infers the names and dtypes of columns from the first lines of CSV files."""

    def __init__(
        self, paths: Sequence[str], delimiter: str, quoted: bool, header: bool, compression: Any, encoding: str
    ) -> None:
        """Stores the files' format; ``header`` says whether their first lines are the columns' names."""
        if compression not in (None, "", "GZIP"):
            problem = "is not supported for probing columns." if compression == "ZLIB" else "is unknown."
            raise ValueError(f"`compression_type` {compression} {problem}")
        self.paths, self.header, self.encoding = paths, header, encoding
        self.format = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE}
        self.compression = compression

    def rows(self, path: str) -> Iterator[list[str]]:
        """Yields the rows of a file."""
        with opened(path, self.compression) as file, named_failures(path, "read"):
            yield from rows_of(file, path, self.encoding, "strict", **self.format)

    def names(self) -> list[str]:
        """Returns the column names in the first line, which must be the same in all files."""
        if not self.header:
            raise ValueError("Expected `column_names` or `header` arguments. Neither is provided.")
        headers = [(path, next(self.rows(path), None)) for path in self.paths]
        _, first_names = headers[0]
        for path, names in headers:
            if names is None:
                raise ValueError(f"Failed when reading the header line of {path}. Is it an empty file?")
            if names != first_names:
                raise ValueError(
                    "All input CSV files should have the same column names in the header row. File "
                    f"{path} has different column names."
                )
        names = first_names or []
        _require_unique(names, "Either `column_names` argument or CSV header row contains duplicate column names")
        return names

    def defaults(self, columns: Sequence[int], width: int, na_value: str, limit: int | None) -> list[Tensor]:
        """Returns a default for each column: zero or an empty string, in the narrowest dtype that fits the values.

        A column without values is one of strings.

        Args:
          columns: the indices of the columns.
          width: the number of fields that each row must have.
          na_value: the text of a missing value.
          limit: the number of rows to read; None for all.
        """
        dtypes: list[DType | None] = [None] * len(columns)
        for row in itertools.islice(self._values(width), limit):
            for i, column in enumerate(columns):
                is_missing = row[column] in ("", na_value)
                if not is_missing:
                    dtypes[i] = _wider(dtypes[i], row[column])
        known_dtypes = [dtype or string for dtype in dtypes]
        return [constant(["" if dtype is string else 0], dtype=dtype) for dtype in known_dtypes]

    def _values(self, width: int) -> Iterator[list[str]]:
        """Yields the rows of all files without their headers.

        Raises ValueError if one does not have ``width`` fields.
        """
        for path in self.paths:
            numbered_rows = enumerate(self.rows(path), 1)
            if self.header:
                next(numbered_rows, None)
            for number, row in numbered_rows:
                if len(row) != width:
                    raise ValueError(
                        f"Problem inferring types: CSV row {number} has {len(row)} number of fields. Expected: {width}. "
                        f"File: {path}"
                    )
                yield row


def _wider(narrowest: DType | None, text: str) -> DType:
    """Returns the narrowest dtype, at least as wide as ``narrowest``, that holds the value of a field."""
    first = 0 if narrowest is None else KINDS.index(narrowest)
    return next(dtype for dtype in KINDS[first:] if _fits(dtype, text))


def _fits(dtype: DType, text: str) -> bool:
    """Returns whether the text of a CSV field is a number that a dtype can hold; strings hold any text."""
    if dtype is string:
        return True
    try:
        if dtype.is_integer:
            return bool(dtype.np.type(text) == int(text))
        with np.errstate(over="ignore"):  # a number that is too large becomes inf
            return bool(dtype.np.type(text) < np.inf)
    except (ValueError, OverflowError):
        return False


def _column_indices(columns: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Converts the argument ``select_columns`` of ``make_csv_dataset`` to column indices, in ascending order.

    Args:
      columns: the selected columns, each by its name or its index.
      names: the names of all columns of the file, in order.

    Raises:
      ValueError: a column doesn't exist, or is selected twice.
    """
    indices = [_column_index(column, names) for column in columns]
    _require_unique(indices, "The `select_columns` argument contains duplicate columns")
    return sorted(indices)


def _column_index(column: Any, names: Sequence[str]) -> int:
    """Returns the index of a column that is given by its name or its index. Raises ValueError if there is none."""
    if not isinstance(column, int):
        if column not in names:
            raise ValueError(
                f"Column {column} specified in `select_columns` must be of one of the columns: {dict.fromkeys(names).keys()}."
            )
        return names.index(column)
    if not 0 <= column < len(names):  # in TensorFlow's text, "> 0  and <=" means "at least 0 and less than"
        raise ValueError(
            f"Column index {column} specified in `select_columns` should be > 0  and <= {len(names)}, which is the number "
            "of columns."
        )
    return column


def _require_unique(values: Sequence[Any], message: str) -> None:
    """Raises an error if a value occurs more than once."""
    duplicates = {value for value, count in Counter(values).items() if count > 1}
    if duplicates:
        raise ValueError(f"{message}: {duplicates}.")


@export("data.experimental.SqlDataset")
class Sql(Dataset):
    """The rows of a query of an SQLite database, one scalar for each column.

    Args:
      driver_name: ``"sqlite"``.
      data_source_name: the database's file.
      query: an SQL query.
      output_types: a dtype for each column.

    Raises:
      InvalidArgumentError: the driver is not SQLite; or, during iteration, the number of columns is not that of
        ``output_types``.
      UnknownError: during iteration, the query fails.

    >>> import contextlib, os, sqlite3, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "people.db")
    ...     with contextlib.closing(sqlite3.connect(path)) as base, base:
    ...         _ = base.execute("create table people (name text, age integer)")
    ...         _ = base.execute("insert into people values ('Ann', 7)")
    ...     rows = tf.data.experimental.SqlDataset("sqlite", path, "select * from people", (tf.string, tf.int32))
    ...     print(list(rows.as_numpy_iterator()))
    [(b'Ann', np.int32(7))]

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/SqlDataset
    """

    repr_name = "SqlDatasetV2"

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        """Stores a query of a SQLite database; each row of its result has one element per output type."""
        if _text(driver_name) != "sqlite":
            raise InvalidArgumentError(
                None,
                "SqlDataset",
                f"The database type, {_text(driver_name)}, is not supported by SqlDataset. The set of supported databases "
                "is: {'sqlite'}.",
            )
        self.path, self.query = _text(data_source_name), _text(query)
        self.dtypes = [as_dtype(output_type) for output_type in output_types]
        super().__init__(tuple(TensorSpec([], dtype) for dtype in self.dtypes), UNKNOWN)

    def handles(self) -> Iterator[Any]:
        """Yields the rows of a query's result; SQLite's errors become TensorFlow's."""
        connection = None
        try:
            connection = sqlite3.connect(self.path)
            for row in connection.execute(self.query):
                if len(row) != len(self.dtypes):
                    raise InvalidArgumentError(
                        None,
                        "SqlDataset",
                        f"The number of columns in query result ({len(row)}) must match the number of elements in "
                        f"output_types ({len(self.dtypes)}).",
                    )
                yield row
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 1)  # from Python 3.11 on
            raise UnknownError(
                None, "SqlDataset", f"Prepare() failed: [{code}] {error}: {self.query} ({self.path})"
            ) from error
        finally:
            if connection is not None:
                connection.close()

    def value(self, handle: Any) -> Element:
        try:
            return tuple(_cell(kind, cell) for kind, cell in zip(self.dtypes, handle))
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidArgumentError(None, "SqlDataset", f"{self.path}: {error}") from error


def _cell(kind: DType, cell: Any) -> EagerTensor:
    """Converts a value of a database to a scalar tensor; NULL becomes zero or an empty string."""
    if kind is string:
        value = b"" if cell is None else cell if isinstance(cell, bytes) else str(cell).encode()
        return EagerTensor(np.array(value, object))
    return EagerTensor(np.array(bool(cell) if kind is bool_ else cell or 0, kind.np))


def _text(value: Any) -> str:
    """Returns a string argument, given as a str, bytes or tensor."""
    text = value.numpy() if hasattr(value, "numpy") else value
    return text.decode() if isinstance(text, bytes) else str(text)
