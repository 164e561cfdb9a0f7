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


def read_until_damage(file):
    """What comes before the exception, and its text."""
    found, records = [], unframed(file)
    try:
        found.extend(records)
    except tf.errors.DataLossError as error:
        return found, str(error)
    return found, None


@pytest.mark.parametrize("chunk", [16, 50, 1 << 20])
def test_records_are_read_alike_whatever_is_read_at_once(chunk, monkeypatch):
    monkeypatch.setattr("tvtf.records.CHUNK", chunk)
    parts = [b"ab" * n for n in (0, 1, 2, 0, 40, 3, 150, 2, 1)]
    data = b"".join(map(framed, parts))
    assert read_until_damage(io.BytesIO(data)) == (parts, None)
    start = sum(len(framed(p)) for p in parts[:6])
    damaged = bytearray(data)
    damaged[start + 100] ^= 4
    found, text = read_until_damage(io.BytesIO(damaged))
    assert found == parts[:6] and f"record at byte {start}: checksum does not match" in text
    found, text = read_until_damage(io.BytesIO(data[: start + 100]))
    assert found == parts[:6] and f"truncated record at {start}" in text
