"""Reads and writes the sorted string table of a checkpoint's ``.index`` file: LevelDB's format with TensorFlow's settings.

Format: https://github.com/google/leveldb/blob/main/doc/table_format.md. TensorFlow writes blocks of 256 kB without
compression and without filters (``tensorflow/core/lib/io/table_options.h``, ``tensor_bundle.cc``), and so does `write`:
the same entries give the same bytes. Older versions compressed blocks by Snappy, which `read` also supports. It raises an
error for any table that is incomplete or out of order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from tvtf.errors import DataLossError, UnimplementedError
from tvtf.fileio import crc32c
from tvtf.fileio.decode_limits import require_decodable

MAGIC: Final = bytes.fromhex("57fb808b247547db")
FOOTER_BYTES: Final = 48
TRAILER_BYTES: Final = 5
BLOCK_BYTES: Final = 262144
RESTART_INTERVAL: Final = 16
MAX_VARINT_BYTES: Final = 10
UNCOMPRESSED: Final = b"\0"
SNAPPY: Final = b"\1"
MAX_EXPANSION: Final = 32
"""The most that Snappy expands: its densest element encodes a copy of 64 bytes in 3."""

Entry = tuple[bytes, bytes]


def write(entries: Iterable[Entry]) -> bytes:
    """Returns a LevelDB table (an sstable) with ``entries``, pairs of a key and a value; the keys must ascend.

    The entries are written in blocks, then an empty metaindex, the index of the blocks, and the footer with their
    positions.

    Raises:
      ValueError: a key is not greater than the previous one.

    >>> read(write([(b"", b"header"), (b"key", b"value")]), "doctest")
    {b'': b'header', b'key': b'value'}
    """
    table = bytearray()
    index = _Block(1)
    block = _Block(RESTART_INTERVAL)
    previous_key = None
    for key, value in entries:
        if previous_key is not None and key <= previous_key:
            raise ValueError(f"table.write: keys must ascend, got {key!r} after {previous_key!r}.")
        if block.size() >= BLOCK_BYTES:
            index.add(_shortest_between(previous_key or b"", key), _append_block(table, block))
            block = _Block(RESTART_INTERVAL)
        block.add(key, value)
        previous_key = key
    if previous_key is not None:
        index.add(_shortest_after(previous_key), _append_block(table, block))
    handles = _append_block(table, _Block(RESTART_INTERVAL)) + _append_block(table, index)
    return bytes(table) + handles.ljust(FOOTER_BYTES - len(MAGIC), b"\0") + MAGIC


def read(table: bytes, source: str) -> dict[bytes, bytes]:
    """Returns all entries of ``table`` in order.

    Args:
      table: the whole file.
      source: its name in errors.

    Raises:
      DataLossError: the table is truncated, damaged or not a table at all.
      UnimplementedError: a block is compressed by something other than Snappy.
    """
    if len(table) < FOOTER_BYTES or not table.endswith(MAGIC):
        raise DataLossError(
            None,
            None,
            f"{source}: not an sstable (bad magic number) in its {len(table)} bytes: the file is truncated or isn't a "
            "checkpoint index. Restore an older checkpoint.",
        )
    footer = Cursor(table[-FOOTER_BYTES : -len(MAGIC)], f"{source}, footer")
    _read_block(table, footer.handle(), f"{source}, metaindex block")
    index = _read_block(table, footer.handle(), f"{source}, index block")
    if any(footer.data[footer.position :]):
        raise _damaged(source, f"the footer's padding {footer.data[footer.position :].hex()} isn't zero")
    blocks = (Cursor(value, f"{source}, index block").handle() for _, value in index)
    entries = (
        entry
        for number, handle in enumerate(blocks)
        for entry in _read_block(table, handle, f"{source}, block {number}")
    )
    return dict(_checked_order(entries, source))


def _checked_order(entries: Iterable[Entry], source: str) -> Iterator[Entry]:
    """Yields the entries of a LevelDB table. Raises DataLossError unless each key is greater than the key before.

    ``source`` names the file in errors.
    """
    previous_key = None
    for key, value in entries:
        if previous_key is not None and key <= previous_key:
            raise _damaged(source, f"keys must ascend, {key!r:.200} follows {previous_key!r:.200}")
        previous_key = key
        yield key, value


def _damaged(source: str, what: str) -> DataLossError:
    return DataLossError(None, None, f"{source}: {what}. The file is damaged; restore an older checkpoint.")


class _Block:
    """A run of entries in which each key is stored as its difference from the previous one."""

    def __init__(self, interval: int) -> None:
        self.interval, self.count, self.previous_key = interval, 0, b""
        self.buffer = bytearray()
        self.restarts = [0]

    def add(self, key: bytes, value: bytes) -> None:
        """Appends an entry to a block of a LevelDB table.

        Keys are prefix-compressed: an entry stores how many bytes its key shares with the previous key, and the
        remaining bytes. Every ``interval`` entries, at a restart point, the key is stored whole. Readers search the
        block by these keys.
        """
        if self.count and self.count % self.interval == 0:
            self.restarts.append(len(self.buffer))
            self.previous_key = b""
        shared = _shared_prefix(self.previous_key, key)
        self.buffer += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        self.previous_key, self.count = key, self.count + 1

    def size(self) -> int:
        return len(self.buffer) + 4 * len(self.restarts) + 4

    def finish(self) -> bytes:
        return bytes(self.buffer) + struct.pack(f"<{len(self.restarts) + 1}I", *self.restarts, len(self.restarts))


def _append_block(table: bytearray, block: _Block) -> bytes:
    """Appends a block with its trailer and returns its handle."""
    contents = block.finish()
    handle = varint(len(table)) + varint(len(contents))
    table += contents + UNCOMPRESSED + struct.pack("<I", crc32c.masked(contents + UNCOMPRESSED))
    return handle


def _shared_prefix(left: bytes, right: bytes) -> int:
    longest = min(len(left), len(right))
    return next((i for i in range(longest) if left[i] != right[i]), longest)


def _shortest_between(low: bytes, high: bytes) -> bytes:
    """Returns the shortest key in ``[low, high)`` that LevelDB's comparator finds."""
    shared = _shared_prefix(low, high)
    if shared < min(len(low), len(high)) and low[shared] < 0xFF and low[shared] + 1 < high[shared]:
        return low[:shared] + bytes([low[shared] + 1])
    return low


def _shortest_after(key: bytes) -> bytes:
    """Returns the shortest key that is not less than ``key``, as LevelDB's comparator does."""
    first = next((i for i, byte in enumerate(key) if byte != 0xFF), None)
    return key if first is None else key[:first] + bytes([key[first] + 1])


def varint(number: int) -> bytes:
    """Encodes a number as a varint: seven bits a byte, the lowest first; the top bit is set in all bytes but the last.

    >>> varint(300).hex()
    'ac02'
    """
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded) + bytes([number])


class Cursor:
    """Reads numbers and byte runs from front to back; a read beyond the end raises an error."""

    def __init__(self, data: bytes, source: str) -> None:
        self.data, self.source, self.position = data, source, 0

    def varint(self) -> int:
        """Reads a varint: an integer of 7 bits per byte, the lowest first. Raises DataLossError if it does not end."""
        number = 0
        for index in range(MAX_VARINT_BYTES):
            byte = self.bytes(1)[0]
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return number
        raise _damaged(self.source, f"a number at byte {self.position} has no end")

    def bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise _damaged(self.source, f"{size} bytes at {self.position} reach over the end at {len(self.data)}")
        self.position += size
        return self.data[self.position - size : self.position]

    def handle(self) -> tuple[int, int]:
        return self.varint(), self.varint()


def _read_block(table: bytes, handle: tuple[int, int], source: str) -> Iterator[Entry]:
    """Verifies the checksum of a LevelDB table's block, decompresses the block if needed, and yields its entries.

    ``handle`` holds the offset and the size of the block. ``source`` names the file in errors.
    """
    offset, size = handle
    if offset + size + TRAILER_BYTES > len(table):
        raise _damaged(source, f"bytes {offset} to {offset + size + TRAILER_BYTES} reach over the end at {len(table)}")
    contents = table[offset : offset + size]
    compression, checksum = struct.unpack_from("<cI", table, offset + size)
    crc32c.check(contents + compression, checksum, source)
    if compression not in (UNCOMPRESSED, SNAPPY):
        raise UnimplementedError(
            None,
            None,
            f"{source}: compression type {compression[0]} is not supported, expected 0 (none), which is what TensorFlow "
            "writes, or 1 (Snappy). Save the checkpoint again with TensorFlow.",
        )
    return _entries(_decompress_snappy(Cursor(contents, source)) if compression == SNAPPY else contents, source)


def _decompress_snappy(cursor: Cursor) -> bytes:
    """Decompresses data in Snappy's format: literals, and copies of bytes that were decompressed before.

    Source: https://github.com/google/snappy/blob/main/format_description.txt
    """
    size = cursor.varint()
    output = bytearray()
    if size > MAX_EXPANSION * len(cursor.data):
        raise _damaged(cursor.source, f"{len(cursor.data)} compressed bytes can't hold {size}")
    while cursor.position < len(cursor.data):
        tag = cursor.bytes(1)[0]
        tag_type = tag & 3
        count = tag >> 2
        if tag_type == 0:  # a literal; the other types are copies
            length_bytes = max(count - 59, 0)  # counts from 60 on are followed by 1 to 4 bytes with the length
            output += cursor.bytes(
                (int.from_bytes(cursor.bytes(length_bytes), "little") if length_bytes else count) + 1
            )
            continue
        if tag_type == 1:
            count, distance = (count & 7) + 4, (tag >> 5) << 8 | cursor.bytes(1)[0]
        else:
            count, distance = count + 1, int.from_bytes(cursor.bytes(2 if tag_type == 2 else 4), "little")
        if not 0 < distance <= len(output):
            raise _damaged(cursor.source, f"a copy from {distance} bytes back, but only {len(output)} precede it")
        start = len(output) - distance
        copied = output[start : start + count]
        output += (copied * (count // len(copied) + 1))[:count]  # a copy that is longer than its distance repeats
    if len(output) != size:
        raise _damaged(cursor.source, f"{len(output)} bytes were decompressed, but {size} are declared")
    return bytes(output)


def _entries(contents: bytes, source: str) -> Iterator[Entry]:
    """Decodes the entries (key, value) of a LevelDB table's block, which is decompressed already.

    Keys are prefix-compressed: an entry stores how many bytes its key shares with the previous key, and the remaining
    bytes.

    Args:
      contents: the block.
      source: what the block belongs to, for error messages.
    """
    cursor = Cursor(_without_restarts(contents, source), source)
    key = b""
    total_key_size = 0
    while cursor.position < len(cursor.data):
        shared_size = cursor.varint()
        remaining_size = cursor.varint()
        value_size = cursor.varint()
        if shared_size > len(key):
            raise _damaged(source, f"a key shares {shared_size} bytes with one of {len(key)}")
        key = key[:shared_size] + cursor.bytes(remaining_size)
        total_key_size += len(key)
        require_decodable(total_key_size, f"{source}: the keys")  # each may share a long prefix with the previous one
        yield key, cursor.bytes(value_size)


def _without_restarts(contents: bytes, source: str) -> bytes:
    """Returns a block without the list of restart points at its end."""
    restarts = int.from_bytes(contents[-4:], "little")
    if 4 * restarts + 4 > len(contents):
        raise _damaged(source, f"{restarts} restart points don't fit into {len(contents)} bytes")
    return contents[: len(contents) - 4 * restarts - 4]
