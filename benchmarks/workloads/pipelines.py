"""Input pipelines from files to batches: records, lines and tables, of which strings are made numbers; windows of numbers."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload

BATCH = 32
WORDS = 500
WORDS_A_LINE = 12
Build = Callable[[Any, Path, int], Any]
"""A function from ``(tf, folder, size)`` to a dataset."""


def drained(build: Build, tf: Any, function: Any, size: int) -> Call:
    """Iterates over all of a dataset; returns the number of batches, which must be the same in all frameworks."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    dataset = build(tf, folder, size)
    return lambda: sum(1 for _ in dataset)


# -- records


def example(tf: Any, number: int) -> bytes:
    """Returns a serialized ``tf.train.Example``, determined by ``number``."""
    kinds, feature = tf.train, tf.train.Feature
    numbers = np.random.default_rng(number).normal(size=32).tolist()
    features = {
        "id": feature(int64_list=kinds.Int64List(value=[number])),
        "x": feature(float_list=kinds.FloatList(value=numbers)),
        "name": feature(bytes_list=kinds.BytesList(value=[b"abc%d" % number])),
        "some": feature(int64_list=kinds.Int64List(value=range(number % 5))),
    }
    return bytes(kinds.Example(features=kinds.Features(feature=features)).SerializeToString())


def records(tf: Any, folder: Path, size: int) -> Any:
    """Writes a TFRecord file of ``size`` examples; returns the dataset that reads it."""
    path = str(folder / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(size):
            writer.write(example(tf, number))
    return tf.data.TFRecordDataset(path)


def features(tf: Any) -> dict[str, Any]:
    """Returns the features by which examples are parsed."""
    return {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature([32], tf.float32),
        "name": tf.io.FixedLenFeature([], tf.string),
        "some": tf.io.VarLenFeature(tf.int64),
    }


def raw_records(tf: Any, folder: Path, size: int) -> Any:
    return records(tf, folder, size).batch(BATCH)


def single_examples(tf: Any, folder: Path, size: int) -> Any:
    wanted = features(tf)
    parsed = records(tf, folder, size).map(lambda r: tf.io.parse_single_example(r, wanted), tf.data.AUTOTUNE)
    return parsed.batch(BATCH)


def batched_examples(tf: Any, folder: Path, size: int) -> Any:
    wanted = features(tf)
    return records(tf, folder, size).batch(BATCH).map(lambda r: tf.io.parse_example(r, wanted))


# -- lines


def lines(tf: Any, folder: Path, size: int) -> Any:
    path, random = folder / "lines.txt", np.random.default_rng(0)
    chosen = random.integers(WORDS, size=(size, WORDS_A_LINE))
    path.write_text("".join(" ".join(f"Word{word}" for word in line) + ".\n" for line in chosen))
    return tf.data.TextLineDataset(str(path))


def clean_lines(tf: Any, folder: Path, size: int) -> Any:
    def clean(line: Any) -> Any:
        return tf.strings.regex_replace(tf.strings.lower(line), "[^a-z0-9 ]", "")

    return lines(tf, folder, size).map(clean).batch(BATCH)


def word_numbers(tf: Any, folder: Path, size: int) -> Any:
    """Returns a dataset of lines of text, whose words are looked up in a vocabulary."""
    words = tf.constant([f"Word{i}" for i in range(WORDS)])
    pairs = tf.lookup.KeyValueTensorInitializer(words, tf.range(WORDS, dtype=tf.int64))
    table = tf.lookup.StaticVocabularyTable(pairs, 1)

    def numbers(line: Any) -> Any:
        return table.lookup(tf.strings.split(tf.strings.regex_replace(line, r"\.", "")))

    return lines(tf, folder, size).map(numbers).padded_batch(BATCH)


# -- tables


def rows(folder: Path, size: int) -> str:
    path = folder / "rows.csv"
    path.write_text("a,b,c,d,y\n" + "".join(f"{i},{i * 0.5},x{i % 7},{i % 3},{i % 2}\n" for i in range(size)))
    return str(path)


def csv_rows(tf: Any, folder: Path, size: int) -> Any:
    kinds = [tf.int32, tf.float32, tf.string, tf.int32, tf.int32]
    return tf.data.experimental.CsvDataset(rows(folder, size), kinds, header=True).batch(BATCH)


def csv_lines(tf: Any, folder: Path, size: int) -> Any:
    text = tf.data.TextLineDataset(rows(folder, size)).skip(1)
    return text.map(lambda line: tf.io.decode_csv(line, [0, 0.0, "", 0, 0])).batch(BATCH)


# -- numbers


def windows(tf: Any, folder: Path, size: int) -> Any:
    cut = tf.data.Dataset.range(size).window(10, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(10))
    return cut.map(lambda w: (w[:-1], w[-1])).batch(BATCH)


PIPELINES: dict[str, tuple[str, Build]] = {
    "records-raw": ("TFRecord files in batches", raw_records),
    "records-single": ("TFRecord files, parse_single_example, batches", single_examples),
    "records-batch": ("TFRecord files, batches, parse_example", batched_examples),
    "lines-clean": ("lines, lower and regex_replace, batches", clean_lines),
    "lines-lookup": ("lines, split, numbers of the words, padded batches", word_numbers),
    "csv-rows": ("CsvDataset in batches", csv_rows),
    "csv-lines": ("lines, decode_csv, batches", csv_lines),
    "windows": ("windows by flat_map, batches", windows),
}

WORKLOADS = [
    Workload(name, title, 3000, 50, partial(drained, build), is_eager=True, goal="<= 1 of TF")
    for name, (title, build) in PIPELINES.items()
]
