"""Every kind of file, and of encoded string, that tvtf reads, with samples: what ``mutants`` damages."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import sqlite3
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mutants import Format
from PIL import Image

import tvtf as tf
from tvtf.fileio import crc32c
from tvtf.fileio.tfrecord import framed
from tvtf.images import png

ERRORS = (tf.errors.OpError, ValueError)
RECORDS = [b"", b"abc", b"x" * 300, bytes(range(256)) * 4, b"\n" * 7]
FRAMED = b"".join(map(framed, RECORDS))


def folder_of(make: Callable[[str], Any]) -> dict[str, bytes]:
    """The files that a function writes to a folder."""
    with tempfile.TemporaryDirectory() as folder:
        make(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def file_of(make: Callable[[str], Any]) -> bytes:
    """The one file that a function writes to a folder."""
    (content,) = folder_of(make).values()
    return content


def equal(found: Any, wanted: Any) -> bool:
    return repr(found) == repr(wanted)


def among(found: Any, wanted: Any) -> bool:
    """Whether all that was found was written."""
    return not Counter(found).keys() - Counter(wanted).keys()


# -- records


def sealed_records(data: bytes) -> bytes:
    """The records' checksums mended, as far as lengths allow."""
    found, at = bytearray(data), 0
    while at + 12 <= len(found):
        found[at + 8 : at + 12] = struct.pack("<I", crc32c.masked(bytes(found[at : at + 8])))
        end = at + 12 + int.from_bytes(found[at : at + 8], "little")
        if end + 4 <= len(found):
            found[end : end + 4] = struct.pack("<I", crc32c.masked(bytes(found[at + 12 : end])))
        at = end + 4
    return bytes(found)


def records(kind: str) -> Callable[[str], Any]:
    return lambda path: list(tf.data.TFRecordDataset(path, kind).as_numpy_iterator())


def events(path: str) -> Any:
    return [event.SerializeToString() for event in tf.compat.v1.train.summary_iterator(path)]


def written_events(folder: str) -> None:
    with tf.summary.create_file_writer(folder).as_default():
        tf.summary.scalar("loss", 1.0, 0)
        tf.summary.text("words", "some", 1)


# -- datasets, checkpoints, tables


def dataset() -> Any:
    return tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": (["x", "y"], [[1.0], [2.0]])})


def loaded(path: str) -> Any:
    return [str(element) for element in tf.data.Dataset.load(path)]


def checkpoint(folder: str) -> None:
    tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]), words=tf.Variable(["a", "bc"])).write(folder + "/ckpt")


def restored(path: str) -> Any:
    reader = tf.train.load_checkpoint(path + "/ckpt")
    return {key: reader.get_tensor(key) for key in sorted(reader.get_variable_to_shape_map())}


def database(folder: str) -> None:
    with contextlib.closing(sqlite3.connect(folder + "/base")) as base, base:
        base.execute("create table people (name text, age integer)")
        base.executemany("insert into people values (?, ?)", [("Ann", 7), ("Bob", 8)] * 20)


def rows(path: str) -> Any:
    query = "select * from people"
    return list(tf.data.experimental.SqlDataset("sqlite", path, query, (tf.string, tf.int32)).as_numpy_iterator())


def table(path: str) -> Any:
    pairs = tf.lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 1)
    return tf.lookup.StaticHashTable(pairs, -1).export()


CSV = b'name,age\nAnn,7\n"Bob ""B"", x",8\nC\xc3\xa9,9\n'


def csv_rows(path: str) -> Any:
    return list(tf.data.experimental.CsvDataset(path, ["", 0], header=True).as_numpy_iterator())


def csv_columns(path: str) -> Any:
    made: Any = ()
    try:
        made = tf.data.experimental.make_csv_dataset(path, 2, num_epochs=1, shuffle=False)
    except ValueError as error:
        if "duplicate column names" not in str(error):  # TensorFlow's text, which names no file
            raise
    return [{k: v.numpy() for k, v in batch.items()} for batch in made]


# -- strings


def decoding(function: Callable[[Any], Any]) -> Callable[[str], Any]:
    """Reads a file for its contents to be decoded."""

    def read(path: str) -> Any:
        return function(Path(path).read_bytes())

    return read


def image_files(kind: str, **options: Any) -> list[bytes]:
    draw, found = np.random.default_rng(0), []
    for height, width in ((5, 7), (40, 30)):
        file = io.BytesIO()
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), np.uint8))
        image.save(file, kind, **(options | ({"append_images": [image.rotate(90)]} if "save_all" in options else {})))
        found.append(file.getvalue())
    return found


def png_files() -> list[bytes]:
    draw = np.random.default_rng(0)
    deep = png.encode_png(draw.integers(0, 65536, (9, 5, 4), np.uint16), 9)
    file = io.BytesIO()
    Image.fromarray(draw.integers(0, 256, (6, 5, 3), np.uint8)).quantize(7).save(file, "PNG")
    return [*image_files("PNG"), deep, file.getvalue()]


def sealed_png(data: bytes) -> bytes:
    found, at = bytearray(data), 8
    while at + 12 <= len(found):
        end = at + 8 + int.from_bytes(found[at : at + 4], "big")
        if end + 4 <= len(found):
            found[end : end + 4] = zlib.crc32(found[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(found)


def example() -> bytes:
    from tvtf.examples.messages import CLASSES

    feature = {
        "i": {"int64_list": {"value": [1, -2, 3]}},
        "f": {"float_list": {"value": [1.5, 2.5]}},
        "s": {"bytes_list": {"value": [b"ab", b""]}},
    }
    return bytes(CLASSES["Example"](features={"feature": feature}).SerializeToString(deterministic=True))


def sequence() -> bytes:
    from tvtf.examples.messages import CLASSES

    rows = [{"int64_list": {"value": [1, 2]}}, {"int64_list": {"value": [3]}}]
    message = CLASSES["SequenceExample"](
        context={"feature": {"c": {"bytes_list": {"value": [b"x"]}}}},
        feature_lists={"feature_list": {"r": {"feature": rows}}},
    )
    return bytes(message.SerializeToString(deterministic=True))


def parsed_example(data: bytes) -> Any:
    features = {
        "i": tf.io.VarLenFeature(tf.int64),
        "f": tf.io.FixedLenFeature([2], tf.float32),
        "s": tf.io.RaggedFeature(tf.string),
        "q": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }
    return tf.io.parse_single_example(data, features), tf.io.parse_example([data, data], features)


def parsed_sequence(data: bytes) -> Any:
    context, lists = {"c": tf.io.FixedLenFeature([], tf.string)}, {"r": tf.io.RaggedFeature(tf.int64)}
    return tf.io.parse_single_sequence_example(data, context, lists)


def tensors() -> list[bytes]:
    values = (np.float32([[1, 2], [3, 4]]), np.array(["ab", ""], object), np.int8(3), np.zeros((0, 3), np.complex64))
    return [tf.io.serialize_tensor(value).numpy() for value in values]


def parsed_tensor(data: bytes) -> Any:
    for dtype in (tf.float32, tf.string, tf.int8):
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            return tf.io.parse_tensor(data, dtype)
    return tf.io.parse_tensor(data, tf.complex64)


def sparse_rows(data: bytes) -> Any:
    """Three messages, each after its length."""
    parts, at = [], 0
    for _ in range(3):
        (size,) = struct.unpack_from("<H", data.ljust(at + 2, b"\0"), at)
        parts.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    return tf.io.deserialize_many_sparse([parts], tf.int32)


def sparse_parts() -> bytes:
    parts = tf.io.serialize_sparse(tf.SparseTensor([[0], [4]], [5, 6], [7])).numpy()
    return b"".join(struct.pack("<H", len(part)) + part for part in parts)


JSON = b'{"features": {"feature": {"a": {"int64List": {"value": ["3"]}}, "b": {"bytesList": {"value": ["YQ=="]}}}}}'
PIXELS = decoding(lambda data: tf.io.decode_image(data).numpy())
string = functools.partial(Format, names_file=False)

FORMATS = {
    "tfrecord": Format(lambda: [FRAMED], records(""), among),
    "tfrecord sealed": Format(lambda: [FRAMED], records(""), seal=sealed_records),
    "tfrecord gzip": Format(lambda: [gzip.compress(FRAMED)], records("GZIP"), among),
    "tfrecord zlib": Format(lambda: [zlib.compress(FRAMED), zlib.compress(FRAMED, 0)], records("ZLIB"), equal),
    "lines": Format(lambda: [CSV], lambda path: list(tf.data.TextLineDataset(path).as_numpy_iterator())),
    "lines gzip": Format(
        lambda: [gzip.compress(CSV)],
        lambda path: list(tf.data.TextLineDataset(path, "GZIP").as_numpy_iterator()),
        among,
    ),
    "fixed length": Format(
        lambda: [b"HH" + bytes(range(30)) + b"F"],
        lambda path: list(tf.data.FixedLengthRecordDataset(path, 3, 2, 1).as_numpy_iterator()),
    ),
    "events": Format(lambda: [file_of(written_events)], events, among),
    "events sealed": Format(lambda: [file_of(written_events)], events, seal=sealed_records),
    "dataset": Format(lambda: [folder_of(lambda folder: dataset().save(folder))], loaded, equal),
    "dataset sealed": Format(lambda: [folder_of(lambda folder: dataset().save(folder))], loaded, equal, sealed_records),
    "checkpoint": Format(lambda: [folder_of(checkpoint)], restored, equal),
    "database": Format(lambda: [file_of(database)], rows),
    "vocabulary": Format(lambda: [b"a\t1\nb\t2\nc\t3\n"], table),
    "csv rows": Format(lambda: [CSV], csv_rows),
    "csv columns": Format(lambda: [CSV], csv_columns),
    "png": string(png_files, PIXELS, equal),
    "png sealed": string(png_files, PIXELS, seal=sealed_png),
    "jpeg": string(lambda: [*image_files("JPEG"), *image_files("JPEG", progressive=True)], PIXELS),
    "gif": string(lambda: [*image_files("GIF"), *image_files("GIF", save_all=True)], PIXELS),
    "bmp": string(lambda: image_files("BMP"), PIXELS),
    "webp": string(
        lambda: [*image_files("WEBP"), *image_files("WEBP", lossless=True), *image_files("WEBP", save_all=True)],
        decoding(tf.io.decode_webp),
    ),
    "wav": string(lambda: [tf.audio.encode_wav([[0.0, 0.5]] * 9, 8000).numpy()], decoding(tf.audio.decode_wav)),
    "tensor": string(tensors, decoding(parsed_tensor)),
    "example": string(lambda: [example()], decoding(parsed_example)),
    "sequence": string(lambda: [sequence()], decoding(parsed_sequence)),
    "sparse": string(lambda: [sparse_parts()], decoding(sparse_rows)),
    "json example": string(lambda: [JSON], decoding(tf.io.decode_json_example)),
    "csv": string(lambda: [b'1,2.5,"a ""b"""'], decoding(lambda data: tf.io.decode_csv(data, [0, 0.0, ""]))),
    "compressed": string(
        lambda: [zlib.compress(FRAMED)], decoding(lambda data: tf.io.decode_compressed(data, "ZLIB")), equal
    ),
    "base64": string(lambda: [b"YWJjZGVm"], decoding(tf.io.decode_base64)),
    "raw": string(lambda: [bytes(range(8))], decoding(lambda data: tf.io.decode_raw(data, tf.float32))),
}
