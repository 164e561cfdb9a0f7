import gc
import os

import checkpoint_programs as programs
import ml_dtypes
import numpy as np
import pytest

from tvtf import dtypes, errors
from tvtf.train import bundle, table
from tvtf.train.checkpoint_protos import BundleEntryProto, BundleHeaderProto

KEY = "w"
ADVICE = "Restore an older checkpoint."


@pytest.fixture
def prefix(tmp_path):
    return str(tmp_path / "ckpt")


def place(prefix, data=bytes(8), header=None, **entry):
    """A bundle of one entry that says whatever the test wants."""
    fields = {"dtype": 1, "shape": {"dim": [{"size": 2}]}, "size": 8} | entry
    header = {"num_shards": 1, "version": {"producer": 1}} | (header or {})
    entries = [
        (b"", BundleHeaderProto(**header).SerializeToString()),
        (KEY.encode(), BundleEntryProto(**fields).SerializeToString()),
    ]
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(table.write(entries))
    with open(bundle.data_name(prefix, 0, 1), "wb") as file:
        file.write(data)


def error_message(kind, call, *args):
    with pytest.raises(kind) as caught:
        call(*args)
    return caught.value.message


def test_every_dtype_tensorflow_wrote_is_read(tmp_path):
    reader = bundle.Reader(programs.place_golden("dtypes", tmp_path))
    for name, expected in programs.all_dtypes().items():
        found = reader.get_tensor(name)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


def test_what_is_written_is_tensorflows_bytes(prefix):
    bundle.write(prefix, programs.all_dtypes())
    for suffix in programs.SUFFIXES:
        with open(prefix + suffix, "rb") as file:
            assert file.read() == programs.golden("dtypes", suffix)


def test_the_maps_have_shapes_and_dtypes(prefix):
    bundle.write(prefix, {"a": np.zeros((2, 3), ml_dtypes.bfloat16), "b": "text"})
    reader = bundle.Reader(prefix)
    assert reader.get_variable_to_shape_map() == {"a": [2, 3], "b": []}
    assert reader.get_variable_to_dtype_map() == {"a": dtypes.bfloat16, "b": dtypes.string}
    assert reader.has_tensor("a")
    assert not reader.has_tensor("c")
    assert reader.get_tensor("b") == b"text"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(6, dtype=">f4"),
        np.arange(10)[::3],
        np.float32(2.5),
        np.array([["a", "bc"], ["", "ü"]]),
    ],
    ids=["fortran order", "big-endian", "strided", "scalar", "unicode"],
)
def test_any_memory_layout_is_written(prefix, array):
    bundle.write(prefix, {KEY: array})
    found = bundle.Reader(prefix).read(KEY)
    expected = np.char.encode(array, "utf-8").astype(object) if array.dtype.kind == "U" else array
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape


def test_bytes_that_end_in_zero_stay_whole(prefix):
    bundle.write(prefix, {"scalar": b"a\0\0", "list": [b"\0", b"b\0"]})
    reader = bundle.Reader(prefix)
    assert reader.get_tensor("scalar") == b"a\0\0"
    assert list(reader.get_tensor("list")) == [b"\0", b"b\0"]


def test_a_dtype_tensorflow_lacks_is_rejected(prefix):
    message = error_message(errors.InvalidArgumentError, bundle.write, prefix, {KEY: np.zeros(2, "datetime64[s]")})
    assert message == "Saving w: NumPy's dtype datetime64[s] has no TensorFlow counterpart; cast it first."
    assert os.listdir(os.path.dirname(prefix)) == []


def test_objects_that_are_no_text_are_rejected(prefix):
    message = error_message(errors.InvalidArgumentError, bundle.write, prefix, {KEY: np.array([b"a", 3], object)})
    assert message == "Saving w: expected bytes or str in an object array, got int."


def test_a_key_that_is_not_there(prefix):
    bundle.write(prefix, {KEY: 1.0})
    assert (
        error_message(errors.NotFoundError, bundle.Reader(prefix).read, "v")
        == f"Key v not found in checkpoint {prefix}"
    )


def test_no_checkpoint_at_all(prefix):
    assert error_message(errors.NotFoundError, bundle.Reader, prefix) == (
        f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}"
    )


def test_the_data_file_is_missing(prefix):
    bundle.write(prefix, {KEY: 1.0})
    os.remove(bundle.data_name(prefix, 0, 1))
    assert error_message(errors.NotFoundError, bundle.Reader, prefix) == (
        f"{prefix}.data-00000-of-00001; No such file or directory"
    )


def test_values_stay_readable_when_the_files_are_gone(prefix):
    bundle.write(prefix, {KEY: np.arange(3)})
    reader = bundle.Reader(prefix)
    os.remove(bundle.data_name(prefix, 0, 1))
    np.testing.assert_array_equal(reader.read(KEY), [0, 1, 2])


def test_a_reader_closes_its_files(prefix):
    bundle.write(prefix, {KEY: 1.0})
    reader = bundle.Reader(prefix)
    descriptor = reader._shards[0]._file.fileno()
    del reader
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"shape": {"dim": [{"size": -2}]}}, "(-2,) is not a valid shape"),
        ({"shape": {"unknown_rank": True}}, "() is not a valid shape"),
        ({"shape": {"dim": [{"size": 0}, {"size": 1 << 62}]}}, "(0, 4611686018427387904) is not a valid shape"),
        (
            {"shape": {"dim": [{"size": 1}] * 33}},
            "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ... 33 dims) is not a valid shape",
        ),
        ({"shape": {"dim": [{"size": 1 << 40}]}}, "shape (1099511627776,) of float32 takes 4398046511104 bytes, not 8"),
        ({"shape": {"dim": [{"size": 3}]}}, "shape (3,) of float32 takes 12 bytes, not 8"),
        ({"dtype": 7, "shape": {"dim": [{"size": 9}]}}, "9 strings don't fit into 8 bytes"),
        ({"dtype": 99}, "dtype number 99 is unknown"),
        ({"dtype": -1}, "dtype number -1 is unknown"),
        ({"shard_id": 1}, "shard 1 of 1 doesn't exist"),
        ({"shard_id": -1}, "shard -1 of 1 doesn't exist"),
        ({"offset": -1}, "offset -1 and size 8 can't be negative"),
        ({"size": -8}, "offset 0 and size -8 can't be negative"),
    ],
)
def test_hostile_entries_are_rejected(prefix, entry, text):
    place(prefix, **entry)
    assert error_message(errors.DataLossError, bundle.Reader, prefix) == f"{prefix}.index, entry b'w': {text}. {ADVICE}"


@pytest.mark.parametrize(("offset", "end"), [(1, 9), (1 << 62, (1 << 62) + 8)])
def test_an_offset_outside_the_data_is_rejected(prefix, offset, end):
    place(prefix, offset=offset)
    assert error_message(errors.DataLossError, bundle.Reader, prefix) == (
        f"{prefix}, tensor w: bytes {offset} to {end} lie outside its data file of 8 bytes: the file is truncated. "
        f"{ADVICE}"
    )


@pytest.mark.parametrize("shards", [0, -3, 100_000])
def test_an_impossible_number_of_shards_is_rejected(prefix, shards):
    place(prefix, header={"num_shards": shards})
    assert error_message(errors.DataLossError, bundle.Reader, prefix) == (
        f"{prefix}.index: its header declares {shards} shards, expected 1 to 99999. {ADVICE}"
    )


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"endianness": 1}, "written big-endian; save it again on a little-endian machine."),
        ({"version": {"min_consumer": 2}}, "needs a reader of version 2, this one is 1."),
    ],
)
def test_valid_but_unsupported_contents_are_reported(prefix, header, text):
    place(prefix, header=header)
    assert error_message(errors.UnimplementedError, bundle.Reader, prefix) == f"{prefix}.index: {text}"


def test_a_partitioned_variable_is_reported(prefix):
    place(prefix, slices=[{"extent": [{"start": 0, "length": 1}]}])
    assert error_message(errors.UnimplementedError, bundle.Reader(prefix).read, KEY) == (
        f"{prefix}, tensor w: it is stored in slices (a TF1 partitioned variable); save it whole."
    )


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([(b"w", b"")], "{prefix}.index: it has no header entry"),
        ([(b"", b"\xff\xff")], "{prefix}.index, header: it is not a valid protocol buffer"),
        ([(b"", b"\x08\x01"), (b"w", b"\xff")], "{prefix}.index, entry b'w': it is not a valid protocol buffer"),
        ([(b"", b"\x08\x01"), (b"\xff", b"")], "{prefix}.index, entry b'\\xff': its key is not UTF-8 text"),
    ],
)
def test_an_index_that_is_no_bundle_is_rejected(prefix, entries, text):
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(table.write(entries))
    expected = f"{text.format(prefix=prefix)}. {ADVICE}"
    assert error_message(errors.DataLossError, bundle.Reader, prefix) == expected


def test_every_flipped_bit_in_the_data_is_rejected(prefix, tmp_path):
    reader = bundle.Reader(programs.place_golden("dtypes", tmp_path))
    path = tmp_path / "dtypes.data-00000-of-00001"
    whole = path.read_bytes()
    for at in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(errors.DataLossError):
            reader.verify()
    path.write_bytes(whole)
    reader.verify()


def test_a_flipped_bit_is_reported_with_its_tensor(prefix):
    bundle.write(prefix, {KEY: np.float32([1, 2])})
    with open(bundle.data_name(prefix, 0, 1), "r+b") as file:
        file.write(b"\1")
    assert error_message(errors.DataLossError, bundle.Reader(prefix).read, KEY) == (
        f"{prefix}, tensor w: checksum does not match: stored 0x35e53c59, computed 0x0bafaed1. "
        "The file is damaged; restore an older checkpoint."
    )


@pytest.mark.parametrize("at", [0, 1, 5, 7])
def test_damaged_strings_are_rejected(prefix, at):
    bundle.write(prefix, {KEY: [b"ab", b"c"]})
    with open(bundle.data_name(prefix, 0, 1), "r+b") as file:
        octet = file.read()[at]
        file.seek(at)
        file.write(bytes([octet ^ 0x80]))
    assert error_message(errors.DataLossError, bundle.Reader(prefix).read, KEY).startswith(f"{prefix}, tensor w")


def test_a_file_that_shrinks_after_opening_is_rejected(prefix):
    bundle.write(prefix, {KEY: np.float32([1, 2])})
    reader = bundle.Reader(prefix)
    os.truncate(bundle.data_name(prefix, 0, 1), 3)
    assert error_message(errors.DataLossError, reader.read, KEY) == (
        f"{prefix}.data-00000-of-00001: 3 bytes at 0, expected 8: the file is truncated. {ADVICE}"
    )


def test_arrays_that_share_their_bytes_are_rejected(tmp_path):
    """A few bytes would stand for thousands of arrays, each read and checked by itself."""
    prefix = str(tmp_path / "c")
    bundle.write(prefix, {"a": np.zeros(100)})
    with open(bundle.index_name(prefix), "rb") as file:
        entries = table.read(file.read(), "index")
    entries |= {b"b%d" % n: entries[b"a"] for n in range(3)}
    with open(bundle.index_name(prefix), "wb") as file:
        file.write(table.write(sorted(entries.items())))
    with pytest.raises(errors.DataLossError, match="need 3200 bytes in total, but its data file has 800: they overlap"):
        bundle.Reader(prefix)
