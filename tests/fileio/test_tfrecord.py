"""The TFRecord framing."""

import contextlib
import gzip
import io
import struct
import zlib

import numpy as np
import pytest

import tvtf as tf
from tvtf.fileio import crc32c
from tvtf.fileio.tfrecord import framed, unframed


def test_records_come_back():
    parts = [b"", b"abc", b"x" * 100_000]
    assert list(unframed(io.BytesIO(b"".join(map(framed, parts))))) == parts


@pytest.mark.parametrize("damage", ["length", "data", "end"])
def test_damage_is_reported(damage):
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
def test_records_are_the_same_for_every_read_size(chunk, monkeypatch):
    monkeypatch.setattr("tvtf.fileio.tfrecord.CHUNK", chunk)
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


PACKED = {"GZIP": gzip.compress, "ZLIB": zlib.compress}


def read(path, kind):
    return list(tf.data.TFRecordDataset(str(path), compression_type=kind).as_numpy_iterator())


@pytest.mark.parametrize("kind", PACKED)
def test_damage_of_compressed_files_is_data_loss_that_names_the_file(kind, tmp_path):
    parts = [b"ab" * n for n in range(40)]
    whole, path = PACKED[kind](b"".join(map(framed, parts))), tmp_path / "records"
    path.write_bytes(whole)
    assert read(path, kind) == parts
    for damaged in (b"", whole[:1], whole[:-1], whole[: len(whole) // 2], b"no" + whole, whole + b"?"):
        path.write_bytes(damaged)
        with pytest.raises(tf.errors.DataLossError, match=str(path)):
            read(path, kind)


def test_records_before_the_damage_of_a_compressed_file_are_given(tmp_path):
    parts = [np.random.default_rng(n).bytes(1000) for n in range(300)]
    path = tmp_path / "records"
    path.write_bytes(gzip.compress(b"".join(map(framed, parts)))[:-50_000])
    found = []
    records = tf.data.TFRecordDataset(str(path), compression_type="GZIP").as_numpy_iterator()
    with pytest.raises(tf.errors.DataLossError):
        for record in records:
            found.append(record)
    assert len(found) > 200 and found == parts[: len(found)]


def test_members_of_gzip_follow_each_other(tmp_path):
    (tmp_path / "records").write_bytes(gzip.compress(framed(b"a")) + b"\0" * 9 + gzip.compress(framed(b"b")) + b"\0")
    assert read(tmp_path / "records", "GZIP") == [b"a", b"b"]


def test_a_compressed_record_that_is_longer_than_the_limit_is_rejected(tmp_path, monkeypatch):
    (tmp_path / "records").write_bytes(zlib.compress(framed(bytes(2_000_000))))
    assert len(read(tmp_path / "records", "ZLIB")[0]) == 2_000_000
    monkeypatch.setenv("TVTF_MAX_DECODED_BYTES", "1999999")
    with pytest.raises(
        tf.errors.ResourceExhaustedError, match=r"records: the record at byte 0 .*TVTF_MAX_DECODED_BYTES"
    ):
        read(tmp_path / "records", "ZLIB")
    with pytest.raises(tf.errors.ResourceExhaustedError, match="TVTF_MAX_DECODED_BYTES"):
        tf.io.decode_compressed(zlib.compress(bytes(2_000_000)), "ZLIB")
    (tmp_path / "lines").write_bytes(zlib.compress(bytes(2_000_000)))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="lines: a line"):
        list(tf.data.TextLineDataset(str(tmp_path / "lines"), "ZLIB"))


def test_a_length_beyond_the_file_takes_no_memory(monkeypatch):
    length = struct.pack("<Q", 1 << 60)
    head = length + struct.pack("<I", crc32c.masked(length))
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 0"):
        list(unframed(io.BytesIO(head + b"abc")))


@pytest.mark.parametrize("kind", ["", *PACKED])
@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_records_of_fixed_length_between_a_header_and_a_footer(kind, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr("tvtf.data.readers.CHUNK", chunk)
    path = tmp_path / "records"
    pack = PACKED.get(kind, bytes)
    for body, good in ((b"aabbcc", True), (b"", True), (b"aabbc", False)):
        path.write_bytes(pack(b"HHH" + body + b"FF"))
        records = tf.data.FixedLengthRecordDataset(str(path), 2, 3, 2, compression_type=kind)
        if good:
            assert list(records.as_numpy_iterator()) == [body[i : i + 2] for i in range(0, len(body), 2)]
        else:
            with pytest.raises(tf.errors.DataLossError, match="exact multiple"):
                list(records)


@pytest.mark.parametrize("kind", [None, "GZIP", "ZLIB"])
def test_a_full_disk_is_reported_in_tensorflows_words(kind):
    writer = tf.io.TFRecordWriter("/dev/full", kind)
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"Could not write /dev/full: No space left on device"):
        for _ in range(100):
            writer.write(np.random.default_rng(0).bytes(100_000))
            writer.flush()
    with contextlib.suppress(tf.errors.ResourceExhaustedError):
        writer.close()
    writer.close()


def test_files_that_cannot_be_written(tmp_path):
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.io.TFRecordWriter(tmp_path)
    with pytest.raises(tf.errors.NotFoundError):
        tf.io.TFRecordWriter(tmp_path / "none" / "records")
    with pytest.raises(tf.errors.InvalidArgumentError, match="File name too long"):
        tf.io.TFRecordWriter(tmp_path / ("n" * 300))
    with pytest.raises(tf.errors.ResourceExhaustedError), tf.io.gfile.GFile("/dev/full", "w") as file:
        file.write("text")


def test_what_was_flushed_can_be_read(tmp_path):
    for kind in PACKED:
        path = tmp_path / kind
        with tf.io.TFRecordWriter(path, kind) as writer:
            writer.write(b"one")
            writer.flush()
            records = tf.data.TFRecordDataset(str(path), kind).as_numpy_iterator()
            assert next(records) == b"one"
        assert read(path, kind) == [b"one"]
