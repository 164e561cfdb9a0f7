import checkpoint_programs as programs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvtf.errors import DataLossError, ResourceExhaustedError, UnimplementedError
from tvtf.fileio import crc32c
from tvtf.train import table


def message_of(damaged: bytes) -> str:
    with pytest.raises(DataLossError) as caught:
        table.read(damaged, "x.index")
    return caught.value.message


def block(contents: bytes, kind: bytes = b"\0") -> bytes:
    return contents + kind + crc32c.masked(contents + kind).to_bytes(4, "little")


def whole_table(data: bytes, kind: bytes = b"\0", handle: bytes | None = None) -> bytes:
    """A table of one data block whose contents are ``data``, checksums right."""
    first = block(data, kind)
    key = b"\0\1\2z" + (handle or table.varint(0) + table.varint(len(data)))
    entry = b"\0\1" + table.varint(len(key) - 4) + key[3:]
    index, meta = block(entry + bytes(4) + b"\1\0\0\0"), block(NO_RESTARTS)
    handles = table.varint(len(first + index)) + b"\x08" + table.varint(len(first)) + table.varint(len(index) - 5)
    return first + index + meta + handles.ljust(40, b"\0") + table.MAGIC


NO_RESTARTS = bytes(4) + b"\1\0\0\0"


@given(st.dictionaries(st.binary(max_size=20), st.binary(max_size=200), max_size=80))
def test_what_is_written_is_read(entries):
    ordered = dict(sorted(entries.items()))
    assert table.read(table.write(ordered.items()), "x") == ordered


def test_many_blocks(monkeypatch):
    monkeypatch.setattr(table, "BLOCK_BYTES", 100)
    entries = {f"key{i:04d}".encode(): b"v" * (i % 30) for i in range(500)}
    assert table.read(table.write(entries.items()), "x") == entries


@pytest.mark.parametrize("name", ["net", "dtypes"])
def test_tensorflows_tables_are_written_byte_for_byte(name):
    theirs = programs.golden(name, ".index")
    assert table.write(table.read(theirs, name).items()) == theirs


def test_keys_that_do_not_ascend_are_rejected_in_writing():
    with pytest.raises(ValueError, match=r"^table\.write: keys must ascend, got b'a' after b'b'\.$"):
        table.write([(b"b", b""), (b"a", b"")])


def test_every_truncation_is_rejected():
    theirs = programs.golden("net", ".index")
    for size in range(0, len(theirs), 7):
        assert message_of(theirs[:size]) == (
            f"x.index: not an sstable (bad magic number) in its {size} bytes: the file is truncated or isn't a "
            "checkpoint index. Restore an older checkpoint."
        )


def test_every_flipped_bit_is_rejected():
    theirs = programs.golden("net", ".index")
    for at in range(len(theirs)):
        damaged = bytearray(theirs)
        damaged[at] ^= 1 << at % 8
        with pytest.raises((DataLossError, UnimplementedError)):
            table.read(bytes(damaged), "x.index")


def test_a_flipped_bit_is_reported_with_its_block():
    damaged = bytearray(programs.golden("net", ".index"))
    damaged[20] ^= 1
    assert message_of(bytes(damaged)) == (
        "x.index, block 0: checksum does not match: stored 0x9942e013, computed 0x68baa5d8. "
        "The file is damaged; restore an older checkpoint."
    )


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (b"\5\1\1ab" + NO_RESTARTS, "a key shares 5 bytes with one of 0"),
        (b"\0\xff\xff\xff\xff\x0f\1ab" + NO_RESTARTS, "4294967295 bytes at 7 reach over the end at 9"),
        (b"\xff" * 11 + NO_RESTARTS, "a number at byte 10 has no end"),
        (b"\0\1\1ab\0\1\1ab" + NO_RESTARTS, "keys must ascend, b'a' follows b'a'"),
        (b"\xff\xff\xff\xff", "4294967295 restart points don't fit into 4 bytes"),
        (b"", "0 restart points don't fit into 0 bytes"),
    ],
)
def test_hostile_blocks_with_right_checksums_are_rejected(contents, text):
    source = "x.index" if text.startswith("keys") else "x.index, block 0"
    expected = f"{source}: {text}. The file is damaged; restore an older checkpoint."
    assert message_of(whole_table(contents)) == expected


def test_a_block_outside_the_file_is_rejected():
    handle = table.varint(1 << 60) + table.varint(8)
    assert message_of(whole_table(NO_RESTARTS, handle=handle)) == (
        "x.index, block 0: bytes 1152921504606846976 to 1152921504606846989 reach over the end at 101. "
        "The file is damaged; restore an older checkpoint."
    )


def test_unknown_compression_is_rejected_by_name():
    with pytest.raises(UnimplementedError) as caught:
        table.read(whole_table(NO_RESTARTS, kind=b"\2"), "x.index")
    assert caught.value.message == (
        "x.index, block 0: compression type 2 is not supported, expected 0 (none), which is what TensorFlow writes, "
        "or 1 (Snappy). Save the checkpoint again with TensorFlow."
    )


LONG = b"0123456789" * 9
ENTRIES = b"\0\1\x5ak" + LONG + b"\0\0\0\0"
"""A key ``k`` with a value of 90 bytes, and no restart points."""


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(bytes([98, 60 << 2, 97]) + ENTRIES, id="a literal whose length has a byte of its own"),
        pytest.param(
            bytes([98, 13 << 2]) + ENTRIES[:14] + bytes([63 << 2 | 2, 10, 0, 15 << 2 | 2, 10, 0, 3 << 2]) + b"\0" * 4,
            id="copies with two bytes that overlap what they make",
        ),
        pytest.param(
            bytes([98, 13 << 2])
            + ENTRIES[:14]
            + bytes([7 << 2 | 1, 10]) * 7
            + bytes([2 << 2 | 3, 10, 0, 0, 0, 3 << 2])
            + b"\0" * 4,
            id="copies with one byte, and one with four",
        ),
    ],
)
def test_blocks_compressed_by_snappy_are_read(packed):
    assert table.read(whole_table(packed, kind=b"\1"), "x.index") == {b"k": LONG}


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (bytes([4, 0, 65, 1, 9]), "a copy from 9 bytes back, but only 1 precede it"),
        (bytes([9, 0, 65]), "1 bytes were decompressed, but 9 are declared"),
        (bytes([4, 12, 65]), "4 bytes at 2 reach over the end at 3"),
    ],
)
def test_blocks_that_snappy_did_not_make_are_rejected(packed, text):
    expected = f"x.index, block 0: {text}. The file is damaged; restore an older checkpoint."
    assert message_of(whole_table(packed, kind=b"\1")) == expected


def test_keys_that_repeat_a_long_one_again_and_again_are_bounded():
    """Three bytes for each key: all of the one before it, and one more."""
    long = b"k" * 100_000
    contents = table.varint(0) + table.varint(len(long)) + b"\0" + long
    for n in range(10_000):
        contents += table.varint(len(long) + n) + b"\1\0k"
    made = bytearray()
    block, index = table._Block(1), table._Block(1)
    block.buffer = bytearray(contents)
    index.add(b"z", table._append_block(made, block))
    handles = table._append_block(made, table._Block(1)) + table._append_block(made, index)
    whole = bytes(made) + handles.ljust(table.FOOTER_BYTES - 8, b"\0") + table.MAGIC
    with pytest.raises(ResourceExhaustedError, match="the keys would take"):
        table.read(whole, "index")
