"""The TFRecord framing."""

import io

import pytest

import tvtf as tf
from tvtf.records import framed, unframed


def test_records_come_back():
    parts = [b"", b"abc", b"x" * 100_000]
    assert list(unframed(io.BytesIO(b"".join(map(framed, parts))))) == parts


@pytest.mark.parametrize("damage", ["length", "data", "end"])
def test_damage_is_told(damage):
    record = bytearray(framed(b"abc"))
    if damage == "end":
        del record[-1]
    else:
        record[{"length": 0, "data": 13}[damage]] ^= 1
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 0" if damage == "end" else "checksum"):
        list(unframed(io.BytesIO(record)))
