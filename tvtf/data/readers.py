"""Reads datasets from files: lines, TFRecords, fixed-length records, CSV, file names."""

from __future__ import annotations

import abc
import csv
import io
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import int_argument
from tvtf.data.base import UNKNOWN, Dataset
from tvtf.data.element_order import Shuffle
from tvtf.data.sources import Slices
from tvtf.data.structure import Element
from tvtf.dtypes import DType, as_dtype, string
from tvtf.errors import DataLossError, InvalidArgumentError
from tvtf.fileio import tfrecord
from tvtf.fileio.atomic_file import named_failures, paths_matching
from tvtf.fileio.decode_limits import max_decoded_bytes, require_decodable
from tvtf.fileio.inflate import WINDOW_BITS, Inflated, read_fully
from tvtf.fileio.tfrecord import CHUNK, unframed
from tvtf.ops.strings.numbers import number_of


def file_names(names: Any) -> list[str]:
    """Returns file names as a list.

    Args:
      names: a string, several strings or paths, a string tensor, or a dataset of strings.
    """
    if isinstance(names, Dataset):
        names_of_elements = map(file_names, names)
        return list(itertools.chain.from_iterable(names_of_elements))
    texts = list(map(_path_as_text, names)) if isinstance(names, (list, tuple)) else _path_as_text(names)
    values = convert_to_tensor(texts, string).numpy()
    encoded_names = np.atleast_1d(np.asarray(values, object)).tolist()
    return [name.decode() for name in encoded_names]


def _path_as_text(name: Any) -> Any:
    """Converts a path, such as a ``pathlib.Path``, to a string; other values are left unchanged."""
    return str(name) if hasattr(name, "__fspath__") else name


def opened(path: str, compression: Any) -> Any:
    """Opens a file for reading its decompressed bytes; see ``tfrecord.opened``.

    Raises:
      NotFoundError: the file does not exist.
      InvalidArgumentError: the compression is unknown.
    """
    compression_type = "" if compression is None else compression
    if compression_type not in ("", *WINDOW_BITS):
        raise InvalidArgumentError(None, None, f"Unsupported compression type: {compression_type}.")
    return tfrecord.opened(path, compression_type)


def lines_of(file: Any, name: str) -> Iterator[bytes]:
    """Yields the lines of a file, with their line ends.

    A line of a compressed file is limited to `max_decoded_bytes`, because a small file could expand to any size.
    """
    return _bounded_lines(io.BufferedReader(file, CHUNK), isinstance(file, Inflated), name)


def rows_of(file: Any, name: str, encoding: str, errors: str, **form: Any) -> Iterator[list[str]]:
    """Yields the rows of a CSV file, each a list of its fields; ``form`` has the options of ``csv.reader``.

    Raises:
      InvalidArgumentError: a line is not valid CSV, or not text in the encoding.
    """
    lines = io.TextIOWrapper(io.BufferedReader(file, CHUNK), encoding, errors, newline="")
    try:
        yield from csv.reader(_bounded_lines(lines, isinstance(file, Inflated), name), **form)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidArgumentError(None, None, f"{name}: {error}") from error


def _bounded_lines(file: Any, bounded: bool, name: str) -> Iterator[Any]:
    """Yields the lines of a file; if ``bounded``, a line that exceeds ``max_decoded_bytes`` raises an error.

    A decompressed file may have a line that is much longer than the file itself.
    """
    limit = max_decoded_bytes() if bounded else -1
    with file:
        while line := file.readline(limit):
            if len(line) == limit and line[-1:] not in ("\n", b"\n"):  # the line is longer than the limit
                require_decodable(limit + 1, f"{name}: a line")
            yield line


def text(value: bytes) -> EagerTensor:
    """Returns a scalar string tensor."""
    return EagerTensor(np.array(value, object))


class _Files(Dataset):
    """A dataset of byte strings read from files; a handle is one byte string."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        """Stores the names and compression of the files.

        Files are read one after the other, whatever ``num_parallel_reads``.
        """
        self.names, self.compression = filenames, compression_type
        super().__init__(TensorSpec([], string), UNKNOWN)

    def handles(self) -> Iterator[bytes]:
        for name in file_names(self.names):
            with opened(name, self.compression) as file, named_failures(name, "read"):
                yield from self.parts(file, name)

    @abc.abstractmethod
    def parts(self, file: Any, name: str) -> Iterator[bytes]:
        """Yields the byte strings of one file."""

    def value(self, handle: bytes) -> Element:
        return text(handle)

    def batch_value(self, handles: Sequence[bytes]) -> Element:
        return EagerTensor(np.array([*handles, b""], object)[:-1])


@export("data.TextLineDataset")
class TextLine(_Files):
    """The lines of text files, without their line ends.

    Args:
      filenames: a name, several names, or a dataset of names.
      compression_type: ``""``, ``"ZLIB"`` or ``"GZIP"``.
      buffer_size, num_parallel_reads: accepted without effect.

    Raises:
      NotFoundError: during iteration, a file does not exist.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "lines.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("one\\ntwo")
    ...     print(list(tf.data.TextLineDataset(path).as_numpy_iterator()))
    [b'one', b'two']

    Source: https://www.tensorflow.org/api_docs/python/tf/data/TextLineDataset
    """

    repr_name = "TextLineDatasetV2"

    def parts(self, file: Any, name: str) -> Iterator[bytes]:
        return (line.rstrip(b"\n").removesuffix(b"\r") for line in lines_of(file, name))


@export("data.TFRecordDataset")
class TFRecord(_Files):
    """The records of TFRecord files, as byte strings; their checksums are verified.

    Args:
      see :class:`TextLine`.

    Raises:
      DataLossError: during iteration, a record is damaged.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "records")
    ...     with tf.io.TFRecordWriter(path) as writer:
    ...         writer.write(b"one")
    ...     print(list(tf.data.TFRecordDataset(path).as_numpy_iterator()))
    [b'one']

    Source: https://www.tensorflow.org/api_docs/python/tf/data/TFRecordDataset
    """

    repr_name = "TFRecordDatasetV2"

    def parts(self, file: Any, name: str) -> Iterator[bytes]:
        return unframed(file, name)


@export("data.FixedLengthRecordDataset")
class FixedLengthRecord(_Files):
    """Records of ``record_bytes`` bytes each, between a header and a footer.

    Raises:
      DataLossError: during iteration, a file's size is not a whole number of records.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "records")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"aabbcc")
    ...     print(list(tf.data.FixedLengthRecordDataset(path, 2).as_numpy_iterator()))
    [b'aa', b'bb', b'cc']

    Source: https://www.tensorflow.org/api_docs/python/tf/data/FixedLengthRecordDataset
    """

    repr_name = "FixedLengthRecordDatasetV2"

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        """Stores the sizes in bytes of a record and of a file's header and footer."""
        self.record = int_argument(record_bytes or 0)
        self.header = int_argument(header_bytes or 0)
        self.footer = int_argument(footer_bytes or 0)
        super().__init__(filenames, compression_type)

    def parts(self, file: Any, name: str) -> Iterator[bytes]:
        """Yields the records of a file without its header and footer.

        The file is read in chunks. The last bytes read are held back, because only the end of the file shows which
        bytes are the footer.
        """
        if not isinstance(file, Inflated):
            self._require_whole(os.fstat(file.fileno()).st_size, name)
        file_size = len(read_fully(file, self.header))
        pending = b""  # read, but not yet yielded
        while chunk := read_fully(file, max(CHUNK, self.record + self.footer)):
            file_size += len(chunk)
            pending += chunk
            record_count = max(0, len(pending) - self.footer) // self.record
            records_end = record_count * self.record
            for start in range(0, records_end, self.record):
                yield pending[start : start + self.record]
            pending = pending[records_end:]
        self._require_whole(file_size, name)

    def _require_whole(self, size: int, name: str) -> None:
        """Checks that a file of ``size`` bytes has a whole number of records between its header and footer.

        Raises:
          DataLossError: the size is not that of a header, whole records and a footer.
        """
        body_size = size - self.header - self.footer
        if body_size < 0 or body_size % self.record:
            raise DataLossError(
                None,
                None,
                f"Excluding the header ({self.header} bytes) and footer ({self.footer} bytes), input file {name!r} has body "
                f"length {max(body_size, 0)} bytes, which is not an exact multiple of the record length ({self.record} bytes).",
            )


@export("data.experimental.CsvDataset")
class Csv(Dataset):
    """The rows of CSV files, one scalar for each column.

    Args:
      record_defaults: for each column a dtype if a value is required, or a tensor with the default.
      header: whether to skip the first line.
      select_cols: the indices of the columns to return.

    Raises:
      InvalidArgumentError: during iteration, a required value is missing, a value is not of its column's type, or a row
        has the wrong number of fields.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("1,one")
    ...     [(number, name)] = tf.data.experimental.CsvDataset(path, [tf.int32, tf.string])
    >>> int(number), name.numpy()
    (1, b'one')

    Source: https://www.tensorflow.org/api_docs/python/tf/data/experimental/CsvDataset
    """

    repr_name = "CsvDatasetV2"

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: Any = None,
        buffer_size: Any = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
    ) -> None:
        """Stores the names and the format of the files.

        Args:
          filenames: the names, a tensor or a dataset of them.
          record_defaults: a dtype or a default for each column that is returned.
          compression_type: "GZIP", "ZLIB", or none.
          buffer_size: accepted without effect.
          header: whether to skip the first line.
          field_delim: the character between fields.
          use_quote_delim: whether double quotes may enclose a field.
          na_value: the text that also stands for a missing value.
          select_cols: the indices of the columns to return; all by default.
          exclude_cols: the indices of the columns not to return.
        """
        self.names, self.compression, self.header = filenames, compression_type, header
        dtypes_and_defaults = [_column(default) for default in record_defaults]
        self.dtypes = [dtype for dtype, _ in dtypes_and_defaults]
        self.parsers = [
            _field_parser(index, dtype, default, na_value) for index, (dtype, default) in enumerate(dtypes_and_defaults)
        ]
        self.format = {"delimiter": field_delim, "quoting": csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE}
        self.selected = select_cols
        self.excluded = set(exclude_cols or ())
        super().__init__(tuple(TensorSpec([], dtype) for dtype in self.dtypes), UNKNOWN)

    def handles(self) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of the CSV files, without their headers, as tuples of parsed fields."""
        for name in file_names(self.names):
            with opened(name, self.compression) as file, named_failures(name, "read"):
                rows = rows_of(file, name, "utf-8", "surrogateescape", **self.format)
                if self.header:
                    next(rows, None)
                for row in rows:
                    yield self._row(row, name)

    def value(self, handle: tuple[Any, ...]) -> Element:
        return tuple([EagerTensor(np.array(value, dtype.np)) for value, dtype in zip(handle, self.dtypes)])

    def batch_value(self, handles: Sequence[tuple[Any, ...]]) -> Element:
        return tuple([EagerTensor(np.array(c, dtype.np)) for c, dtype in zip(zip(*handles), self.dtypes)])

    def _row(self, row: list[str], name: str) -> tuple[Any, ...]:
        try:
            return self._parsed(row)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(None, None, f"{error.message} of {name}") from None

    def _parsed(self, row: list[str]) -> tuple[Any, ...]:
        """Converts the fields of a row to the columns' dtypes.

        Raises an error if the row has another number of fields.
        """
        fields = row if self.selected is None and not self.excluded else self._selected_fields(row)
        if len(fields) != len(self.parsers):
            raise InvalidArgumentError(
                None, None, f"Expect {len(self.parsers)} fields but have {len(fields)} in record"
            )
        return tuple([parse(field) for parse, field in zip(self.parsers, fields)])

    def _selected_fields(self, row: list[str]) -> list[str]:
        if self.selected is not None:
            return [row[i] for i in self.selected if i < len(row)]
        return [field for i, field in enumerate(row) if i not in self.excluded]


def _column(default: Any) -> tuple[Any, Any]:
    """Returns the dtype and the default of a CSV column, from an entry of ``record_defaults``.

    A dtype or an empty tensor means that each row must have a value; the default is then None. Any other entry is the
    default.
    """
    if isinstance(default, (DType, type, str, np.dtype)):
        with suppress(TypeError):  # a string that names no dtype is a default
            return as_dtype(default), None
    tensor = convert_to_tensor(default)
    array = tensor.eager_array()
    return tensor.dtype, array.reshape(-1)[0] if array.size else None


def _field_parser(index: int, dtype: Any, default: Any, na_value: str) -> Callable[[str], Any]:
    """Returns a function that converts the text of a CSV field to the dtype of its column.

    That function raises InvalidArgumentError if the text doesn't fit the dtype, or if a required field is empty.

    Args:
      index: the index of the column, for errors.
      dtype: the dtype of the column.
      default: the value of an empty field; None if the field is required.
      na_value: the text of a missing value.
    """

    def parse(field: str) -> Any:
        """Converts a field to the column's dtype; an empty one, or ``na_value``, to the default."""
        if field in ("", na_value):
            if default is None:
                raise InvalidArgumentError(None, None, f"Field {index} is required but missing in record!")
            return default
        text = field.encode(errors="surrogateescape")
        try:
            return text if dtype is string else number_of(text, dtype)
        except ValueError:
            message = f"Field {index} in record is not a valid {dtype.name}: {field}"
            raise InvalidArgumentError(None, None, message) from None

    return parse


def matching(patterns: Sequence[str]) -> list[str]:
    """Returns the sorted names of the files that match glob patterns.

    Raises:
      InvalidArgumentError: no file matches.
    """
    paths = sorted({path for pattern in patterns for path in paths_matching(pattern)})
    if not paths:
        raise InvalidArgumentError(None, None, f"No files matched pattern: {', '.join(patterns)}")
    return paths


def list_files(
    file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
) -> Dataset:
    """Makes a dataset of the names of files that match glob patterns.

    Args:
      file_pattern: a pattern or a list of patterns.
      shuffle: whether the order is random; None means True.
      seed: the seed of the order.
      name: not used.

    Raises:
      InvalidArgumentError: no file matches.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#list_files
    """
    paths = matching(file_names(file_pattern))
    encoded_paths = np.array([path.encode() for path in paths], object)
    names = Slices(EagerTensor(encoded_paths))
    return names if shuffle is False else Shuffle(names, len(paths), seed, True)
