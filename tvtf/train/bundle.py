"""Reads and writes TensorFlow's tensor bundles: named arrays in ``PREFIX.data-?????-of-?????`` with an index in ``PREFIX.index``.

Format: ``tensor_bundle.proto`` and ``tensor_bundle.cc`` in
https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/util/tensor_bundle. A reader checks every entry
against the files before it gives out any array, and an array against its checksum.
"""

from __future__ import annotations

import collections
import io
import math
import os
import weakref
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tvtf import dtypes
from tvtf.core.variable_lock import Lock
from tvtf.errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError
from tvtf.fileio import atomic_file, crc32c
from tvtf.train import strings, table
from tvtf.train.checkpoint_protos import BundleEntryProto, BundleHeaderProto

HEADER_KEY: Final = b""
PRODUCER: Final = 1
MAX_SHARDS: Final = 99999
MAX_DIMS: Final = 32
MAX_BYTES: Final = 1 << 62

Array = np.ndarray[Any, Any]


def index_name(prefix: str) -> str:
    """Returns the name of the index file, which holds the position of each array."""
    return f"{prefix}.index"


def data_name(prefix: str, shard: int, shards: int) -> str:
    """Returns the name of one of the data files."""
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


@dataclass(frozen=True)
class Entry:
    """The position, dtype and shape of one array."""

    dtype: dtypes.DType
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


def write(prefix: str, tensors: Mapping[str, Any]) -> None:
    """Writes a bundle, replacing an existing one atomically.

    Args:
      prefix: folder and common start of the file names; the folder is created if missing.
      tensors: arrays (or values convertible to arrays) by key, stored in this order; bytes and str objects become strings.

    Raises:
      InvalidArgumentError: an array's dtype has no TensorFlow counterpart.
      ResourceExhaustedError: the disk is full; an existing bundle is unchanged, and no partial file remains.
      PermissionDeniedError: the folder can't be written.

    >>> import tempfile
    >>> prefix = tempfile.mkdtemp() + "/values"
    >>> write(prefix, {"x": np.float32([1, 2])})
    >>> Reader(prefix).read("x")
    array([1., 2.], dtype=float32)
    """
    with atomic_file.Replacement() as replacement:
        obsolete_data_file = add(replacement, prefix, tensors)
        replacement.commit()
    atomic_file.remove(obsolete_data_file)


def add(
    replacement: atomic_file.Replacement, prefix: str, tensors: Mapping[str, Any], shards: int | None = None
) -> str:
    """Adds the data file and the index file of a new checkpoint bundle to ``replacement``.

    Returns the name of the old data file, which the caller removes last. Thus the old bundle stays readable until its
    index is replaced.

    Args:
      replacement: the files that replace others together.
      prefix: the path of the bundle.
      tensors: the tensors, by key.
      shards: the `spare_shard_count` of another prefix, if the bundle is moved there later; None for that of
        ``prefix``.

    Raises:
      OpError: see `write`.
    """
    shards = shards or spare_shard_count(prefix)
    data = []
    entries = {HEADER_KEY: _header(shards)}
    offset = 0
    for key, value in tensors.items():
        dtype, shape, chunks, checksum = _encode(key, value)
        size = sum(chunk.nbytes for chunk in chunks)
        entries[key.encode()] = _entry(dtype, shape, offset, size, checksum)
        data += chunks
        offset += size
    replacement.add(data_name(prefix, 0, shards), data)
    replacement.add(index_name(prefix), [table.write(sorted(entries.items()))])
    other_shards = 3 - shards  # the counts 1 and 2 alternate
    return data_name(prefix, 0, other_shards)


def spare_shard_count(prefix: str) -> int:
    """Returns a number of shards, 1 or 2, for which ``prefix`` has no complete bundle yet.

    The number is part of a data file's name. So a new data file never has the old one's name, and renaming the index
    switches between them atomically. TensorFlow accepts any number: it opens the shards that entries refer to.
    """
    return 2 if os.path.exists(index_name(prefix)) and os.path.exists(data_name(prefix, 0, 1)) else 1


def _header(shards: int) -> bytes:
    return bytes(BundleHeaderProto(num_shards=shards, version={"producer": PRODUCER}).SerializeToString())


def _entry(dtype: dtypes.DType, shape: tuple[int, ...], offset: int, size: int, checksum: int) -> bytes:
    dims = {"dim": [{"size": dim} for dim in shape]}
    proto = BundleEntryProto(dtype=dtype.as_datatype_enum, shape=dims, offset=offset, size=size, crc32c=checksum)
    return bytes(proto.SerializeToString())


def _encode(key: str, value: Any) -> tuple[dtypes.DType, tuple[int, ...], list[Array], int]:
    """Encodes an array for a checkpoint bundle: returns its dtype, shape, bytes (a list of arrays) and masked checksum."""
    array = np.asarray(value)
    if array.dtype.kind in "OSU":  # objects, bytes and str
        texts = np.asarray(value, object)
        return dtypes.string, texts.shape, *strings.encode(texts, key)
    # The header declares little-endian numbers.
    little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    octets = crc32c.as_bytes(little_endian)
    return _dtype_of(little_endian, key), array.shape, [octets], crc32c.masked(octets)


def _dtype_of(array: Array, key: str) -> dtypes.DType:
    """Returns the dtype of TensorFlow that corresponds to an array's NumPy dtype.

    Raises InvalidArgumentError, which names the array's key, if there is none.
    """
    try:
        return dtypes.as_dtype(array.dtype)
    except TypeError as cause:
        raise InvalidArgumentError(
            None, None, f"Saving {key}: NumPy's dtype {array.dtype} has no TensorFlow counterpart; cast it first."
        ) from cause


def _proto_name(dtype: dtypes.DType) -> str:
    return {"float16": "HALF", "float32": "FLOAT", "float64": "DOUBLE"}.get(dtype.name, dtype.name.upper())


class Reader:
    """The arrays of one checkpoint, by key.

    Opening it reads the index, checks every entry's dtype, shape, position and size against the data files, and keeps
    those open, so that values stay readable if the files are deleted later.

    Args:
      prefix: as in `write`.

    Raises:
      NotFoundError: the index or a data file is missing.
      DataLossError: the index is damaged, or an entry is impossible.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        """Reads the index of the bundle, opens its data files, and checks that these can contain all arrays."""
        self.prefix = os.fspath(prefix)
        self.entries, shard_count = _read_index(self.prefix)
        used_shards = {entry.shard for entry in self.entries.values()}
        self._shards = {shard: _Shard(data_name(self.prefix, shard, shard_count)) for shard in sorted(used_shards)}
        for key, entry in self.entries.items():
            self._check_range(key, entry)
        self._check_sizes()

    def has_tensor(self, key: str) -> bool:
        """Returns whether the checkpoint has an array called ``key``."""
        return key in self.entries

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Returns the shape of every array, by key."""
        return {key: list(entry.shape) for key, entry in self.entries.items()}

    def get_variable_to_dtype_map(self) -> dict[str, dtypes.DType]:
        """Returns the dtype of every array, by key."""
        return {key: entry.dtype for key, entry in self.entries.items()}

    def debug_string(self) -> bytes:
        """Returns a line for each array with its key, dtype and shape."""
        lines = (f"{k} (DT_{_proto_name(e.dtype)}) [{','.join(map(str, e.shape))}]\n" for k, e in self.entries.items())
        return "".join(sorted(lines)).encode()

    def get_tensor(self, key: str) -> Any:
        """Returns the array called ``key``; a string scalar is returned as bytes.

        Raises:
          NotFoundError: the checkpoint has no such key.
          DataLossError: the entry's bytes don't match their checksum.
        """
        array = self.read(key)
        return array if array.shape or array.dtype != object else array.item()

    def read(self, key: str) -> Array:
        """Returns the array called ``key``, also for a string scalar. Raises the errors of `get_tensor`."""
        entry = self.entries.get(key)
        if entry is None:
            raise NotFoundError(None, None, f"Key {key} not found in checkpoint {self.prefix}")
        if entry.sliced:
            raise UnimplementedError(
                None,
                None,
                f"{self._error_source(key)}: it is stored in slices (a TF1 partitioned variable); save it whole.",
            )
        octets = self._shards[entry.shard].read(entry.offset, entry.size)
        if entry.dtype == dtypes.string:
            return strings.decode(octets, entry.shape, entry.checksum, self._error_source(key))
        crc32c.check(octets, entry.checksum, self._error_source(key))
        array: Array = octets.view(entry.dtype.np).reshape(entry.shape)
        return array

    def verify(self, known: Collection[str] = ()) -> None:
        """Verifies the checksums of all arrays by reading them.

        Arrays in ``known`` are skipped, because they were read before.

        Raises:
          DataLossError: an array is damaged.
        """
        for key, entry in self.entries.items():
            if not entry.sliced and key not in known:
                self.read(key)

    def _error_source(self, key: str) -> str:
        return f"{self.prefix}, tensor {key}"

    def _check_range(self, key: str, entry: Entry) -> None:
        """Raises DataLossError if the bytes of an array lie outside its data file.

        Args:
          key: the name of the array.
          entry: where it lies.
        """
        available = self._shards[entry.shard].size
        end = entry.offset + entry.size
        if end > available:
            raise _data_loss(
                self._error_source(key),
                f"bytes {entry.offset} to {end} lie outside its data file of {available} bytes: the file is truncated",
            )

    def _check_sizes(self) -> None:
        """Raises DataLossError if arrays in a data file overlap: the sum of their sizes exceeds the file's size.

        Otherwise a small file could declare many large arrays, which would take long to read.
        """
        sizes = collections.Counter[int]()
        for entry in self.entries.values():
            sizes[entry.shard] += entry.size
        for shard, total_size in sizes.items():
            if total_size > self._shards[shard].size:
                raise _data_loss(
                    self.prefix,
                    f"its arrays need {total_size} bytes in total, but its data file has {self._shards[shard].size}: they overlap",
                )


class _Shard:
    """One open data file; several threads may read it."""

    def __init__(self, path: str) -> None:
        """Opens a data file; it is closed when this object is garbage collected."""
        with atomic_file.named_failures(path, "open"):
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, descriptor)
        self._file = io.FileIO(descriptor, closefd=False)
        self.path = path
        self.size = os.fstat(self._file.fileno()).st_size
        self._lock = Lock()

    def read(self, offset: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Reads bytes at an offset. Raises DataLossError if the file is too short."""
        octets = np.empty(size, np.uint8)
        with self._lock, atomic_file.named_failures(self.path, "read"):
            self._file.seek(offset)
            filled = self._fill(octets.data)
        if filled != size:
            raise _data_loss(self.path, f"{filled} bytes at {offset}, expected {size}: the file is truncated")
        return octets

    def _fill(self, buffer: memoryview) -> int:
        """Reads until the buffer is full or the file ends, and returns the number of bytes read."""
        filled = 0
        while filled < len(buffer) and (count := self._file.readinto(buffer[filled:])):
            filled += count
        return filled


def _data_loss(source: str, reason: str) -> DataLossError:
    return DataLossError(None, None, f"{source}: {reason}. Restore an older checkpoint.")


def _read_index(prefix: str) -> tuple[dict[str, Entry], int]:
    """Returns the checked entries of a bundle's index file, by key, and the number of shards."""
    path = index_name(prefix)
    if not os.path.exists(path):
        raise NotFoundError(
            None, None, f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}"
        )
    with atomic_file.named_failures(path, "read"), open(path, "rb") as file:
        raw = table.read(file.read(), path)
    shards = _check_header(path, raw.pop(HEADER_KEY, None))
    return dict(_checked_entries(path, raw, shards)), shards


def _check_header(path: str, raw: bytes | None) -> int:
    """Checks the header of a checkpoint bundle's index, and returns the number of shards (data files).

    ``raw`` is the serialized header; it is None if the index has none.
    """
    if raw is None:
        raise _data_loss(path, "it has no header entry")
    header = _parse(BundleHeaderProto, raw, f"{path}, header")
    if not 0 < header.num_shards <= MAX_SHARDS:
        raise _data_loss(path, f"its header declares {header.num_shards} shards, expected 1 to {MAX_SHARDS}")
    if header.endianness != 0:
        raise UnimplementedError(None, None, f"{path}: written big-endian; save it again on a little-endian machine.")
    if header.version.min_consumer > PRODUCER:
        raise UnimplementedError(
            None, None, f"{path}: needs a reader of version {header.version.min_consumer}, this one is {PRODUCER}."
        )
    return int(header.num_shards)


def _parse(message: Any, raw: bytes, source: str) -> Any:
    try:
        return message.FromString(raw)
    except DecodeError as cause:
        raise _data_loss(source, "it is not a valid protocol buffer") from cause


def _checked_entries(path: str, raw: dict[bytes, bytes], shards: int) -> Iterator[tuple[str, Entry]]:
    for key, value in raw.items():
        source = f"{path}, entry {key!r}"
        yield _text(key, source), _checked_entry(_parse(BundleEntryProto, value, source), shards, source)


def _text(key: bytes, source: str) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as cause:
        raise _data_loss(source, "its key is not UTF-8 text") from cause


def _checked_entry(proto: Any, shards: int, source: str) -> Entry:
    """Checks the numbers in an entry of a checkpoint bundle's index, and returns them as an ``Entry``.

    ``proto`` is the entry's protocol buffer. The file may be damaged or hostile, so all sizes are checked before memory
    is allocated. ``source`` names the entry in errors.
    """
    shape = tuple(dim.size for dim in proto.shape.dim)
    if proto.shape.unknown_rank or not _is_possible(shape):
        raise _data_loss(source, f"{_shape_text(shape)} is not a valid shape")
    if not 0 <= proto.shard_id < shards:
        raise _data_loss(source, f"shard {proto.shard_id} of {shards} doesn't exist")
    if proto.offset < 0 or proto.size < 0:
        raise _data_loss(source, f"offset {proto.offset} and size {proto.size} can't be negative")
    dtype = _known_dtype(proto.dtype, source)
    sliced = bool(proto.slices)
    _check_size(dtype, shape, proto.size, sliced, source)
    return Entry(dtype, shape, proto.shard_id, proto.offset, proto.size, proto.crc32c, sliced)


def _is_possible(shape: tuple[int, ...]) -> bool:
    """Returns whether NumPy can have an array of this shape: it limits the rank, and the product of the nonzero dims."""
    return len(shape) <= MAX_DIMS and min(shape, default=0) >= 0 and math.prod(filter(None, shape)) < MAX_BYTES // 16


def _shape_text(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) < 16 else f"({', '.join(map(str, shape[:16]))}, ... {len(shape)} dims)"


def _known_dtype(number: int, source: str) -> dtypes.DType:
    try:
        return dtypes.as_dtype(number)
    except TypeError as cause:
        raise _data_loss(source, f"dtype number {number} is unknown") from cause


def _check_size(dtype: dtypes.DType, shape: tuple[int, ...], size: int, sliced: bool, source: str) -> None:
    """Raises DataLossError if the size of an array in a checkpoint doesn't match its shape and dtype.

    Args:
      size: the number of bytes that the checkpoint stores for the array.
      sliced: whether the array is a partitioned variable of TensorFlow 1. Other entries then hold the array's bytes.
      source: names the array in errors.
    """
    count = math.prod(shape)
    if dtype == dtypes.string:
        # The length of each string takes at least a byte.
        if count > size:
            raise _data_loss(source, f"{count} strings don't fit into {size} bytes")
    elif not sliced and count * dtype.np.itemsize != size:
        raise _data_loss(
            source, f"shape {_shape_text(shape)} of {dtype.name} takes {count * dtype.np.itemsize} bytes, not {size}"
        )
