"""Datasets that fill tables, of examples in files."""

import os
import tempfile

from parity_calls import result_or_kind


def programs(tf):
    data, experimental = tf.data.Dataset, tf.data.experimental
    pairs = data.range(5).map(lambda x: (x, tf.strings.as_string(x * 2)))
    words = data.from_tensor_slices(["a", "b", "c"])
    three = tf.constant([0, 2, 9], tf.int64)
    features = {"n": tf.io.FixedLenFeature([], tf.int64), "many": tf.io.VarLenFeature(tf.float32)}

    def example(n):
        values = {
            "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[n])),
            "many": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * n)),
        }
        return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()

    def written():
        path = os.path.join(tempfile.mkdtemp(), "examples")
        with tf.io.TFRecordWriter(path) as writer:
            for n in range(5):
                writer.write(example(n))
        return path

    def batched(**options):
        found = experimental.make_batched_features_dataset(written(), 2, features, shuffle=False, **options)
        return found.element_spec, [tf.nest.flatten(x, expand_composites=True) for x in found.take(3)]

    def record_writer():
        path = os.path.join(tempfile.mkdtemp(), "records")
        experimental.TFRecordWriter(path).write(words)
        return list(tf.data.TFRecordDataset(path).as_numpy_iterator())

    def table(*args, **kwargs):
        return experimental.table_from_dataset(pairs, *args, key_dtype=tf.int64, **kwargs)

    index = experimental.index_table_from_dataset
    return {
        "initializer": lambda: tf.lookup.StaticHashTable(experimental.DatasetInitializer(pairs), "?").lookup(three),
        "initializer dtypes": lambda: (
            experimental.DatasetInitializer(pairs).key_dtype,
            experimental.DatasetInitializer(pairs).value_dtype,
        ),
        "initializer of three": lambda: experimental.DatasetInitializer(pairs.map(lambda x, y: (x, y, x))),
        "initializer of vectors": lambda: experimental.DatasetInitializer(pairs.batch(2)),
        "initializer of vector values": lambda: experimental.DatasetInitializer(pairs.map(lambda x, y: (x, [y]))),
        "initializer of ragged": lambda: result_or_kind(
            lambda: experimental.DatasetInitializer(data.from_tensors((tf.ragged.constant([[1]]), 1)))
        ),
        "table": lambda: table(default_value="n/a").lookup(three),
        "table of numbers": lambda: experimental.table_from_dataset(
            data.range(3).map(lambda x: (x, x * 2)), key_dtype=tf.int64
        ).lookup(three),
        "table without a default": table,
        "table of a size": lambda: table(vocab_size=5, default_value="").lookup(three),
        "table of no size": lambda: table(vocab_size=0, default_value=""),
        "table of negative buckets": lambda: table(-1, default_value=""),
        "table of floats": lambda: experimental.table_from_dataset(pairs, default_value="", key_dtype=tf.float32),
        "index": lambda: index(words).lookup(tf.constant(["c", "z", "a"])),
        "index, buckets": lambda: index(words, num_oov_buckets=3).lookup(tf.constant(["c", "z", "a", "hello"])),
        "index, default": lambda: index(words, default_value=7).lookup(tf.constant(["c", "z"])),
        "index, size": lambda: index(words, 1).size(),
        "index in a function": lambda: tf.function(index(words).lookup)(tf.constant(["b"])),
        "parse_example_dataset": lambda: [
            tf.nest.flatten(x, expand_composites=True)
            for x in data.from_tensor_slices([example(1), example(2)])
            .batch(2)
            .apply(experimental.parse_example_dataset(features))
        ],
        "parse_example_dataset, parallel": lambda: (
            data.from_tensor_slices([example(1)])
            .batch(2)
            .apply(experimental.parse_example_dataset(features, 2))
            .element_spec
        ),
        "parse_example_dataset of nothing": lambda: experimental.parse_example_dataset(None),
        "parse_example_dataset of numbers": lambda: data.range(3).apply(experimental.parse_example_dataset(features)),
        "make_batched_features_dataset": lambda: batched(num_epochs=1),
        "make_batched_features_dataset, label": lambda: batched(num_epochs=1, label_key="n"),
        "make_batched_features_dataset, no label": lambda: batched(num_epochs=1, label_key="m"),
        "make_batched_features_dataset, dropped": lambda: batched(num_epochs=1, drop_final_batch=True),
        "make_batched_features_dataset, repeated": lambda: batched(),
        "make_batched_features_dataset, threads": lambda: batched(
            num_epochs=1, reader_num_threads=2, parser_num_threads=2, prefetch_buffer_size=1
        ),
        "TFRecordWriter": record_writer,
        "TFRecordWriter of numbers": lambda: result_or_kind(
            lambda: experimental.TFRecordWriter("/x").write(data.range(3))
        ),
        "TFRecordWriter of a list": lambda: experimental.TFRecordWriter("/x").write([b"a"]),
    }
