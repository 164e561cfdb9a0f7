"""Lookup tables: read and written, eagerly and traced, from tensors and files."""

import tempfile
from pathlib import Path


def programs(tf):
    return _static(tf) | _mutable(tf) | _vocabulary(tf) | _traced(tf) | _composite(tf)


def _pairs(tf):
    return tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))


def _file(text):
    path = Path(tempfile.mkdtemp()) / "words.txt"
    path.write_text(text)
    return str(path)


def _static(tf):
    lookup = tf.lookup
    table = lookup.StaticHashTable(_pairs(tf), default_value=-1)

    def from_lines():
        whole, number = lookup.TextFileIndex.WHOLE_LINE, lookup.TextFileIndex.LINE_NUMBER
        lines = lookup.TextFileInitializer(_file("emerson\nlake\npalmer\n"), tf.string, whole, tf.int64, number)
        made = lookup.StaticHashTable(lines, -1)
        return made.lookup(tf.constant(["palmer", "x"])), made.size()

    def from_columns():
        columns = lookup.TextFileInitializer(_file("a 10\nb 20\n"), tf.string, 0, tf.int64, 1, delimiter=" ")
        return lookup.StaticHashTable(columns, -1).lookup(tf.constant(["b", "x"]))

    def exported():
        keys, values = table.export()
        return sorted(zip(keys.numpy().tolist(), values.numpy().tolist()))

    def made(keys, values, default=-1):
        return lookup.StaticHashTable(lookup.KeyValueTensorInitializer(keys, values), default)

    return {
        "lookup": lambda: table.lookup(tf.constant(["a", "z"])),
        "lookup of a scalar": lambda: table[tf.constant("b")],
        "lookup of a matrix": lambda: table.lookup(tf.constant([["a"], ["b"]])),
        "size and dtypes": lambda: (table.size(), table.key_dtype, table.value_dtype, table.default_value),
        "export": exported,
        "text values": lambda: made([1, 2], ["x", "y"], "?").lookup(tf.constant([2, 3])),
        "keys of another dtype": lambda: table.lookup(tf.constant([1])),
        "a default of another dtype": lambda: made(["a"], [1], "x"),
        "two values for a key": lambda: made(["a", "a"], [1, 2]),
        "one value for a key twice": lambda: made(["a", "a"], [1, 1]).size(),
        "fewer values than keys": lambda: made(["a", "b", "c"], [1, 2]),
        "lines of a file": from_lines,
        "columns of a file": from_columns,
        "no such file": lambda: lookup.StaticHashTable(
            lookup.TextFileInitializer("/nowhere/words.txt", tf.string, 0, tf.int64, 1), -1
        ),
        "line numbers as int32": lambda: lookup.TextFileInitializer("words.txt", tf.string, -2, tf.int32, -1),
        "whole lines as floats": lambda: lookup.TextFileInitializer("words.txt", tf.float32, -2, tf.int64, -1),
        "an index below -2": lambda: lookup.TextFileInitializer("words.txt", tf.string, -3, tf.int64, -1),
    }


def _mutable(tf):
    def table(value_dtype=tf.int64, default=-1):
        return tf.lookup.experimental.MutableHashTable(tf.string, value_dtype, default)

    def changed():
        made = table()
        made.insert(tf.constant(["q", "w"]), tf.constant([5, 6], tf.int64))
        made.insert(tf.constant(["w"]), tf.constant([7], tf.int64))
        found = made.lookup(tf.constant([["q", "w", "n"]]))
        made.remove(tf.constant(["q", "n"]))
        return found, made.size(), made[tf.constant(["q", "w"])], made.export()

    def vectors():
        made = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0, 0.5])
        made.insert(tf.constant([1, 2], tf.int64), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
        return made.lookup(tf.constant([2, 7], tf.int64))

    def dense():
        made = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-5)
        made.insert(tf.constant([1, 2], tf.int64), tf.constant([10, 20], tf.int64))
        found = made.lookup(tf.constant([2, 7], tf.int64))
        made.erase(tf.constant([1], tf.int64))
        return found, made.size(), made.lookup(tf.constant([1], tf.int64)), made.export()[0].shape

    def dense_empty():
        made = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-5)
        made.insert(tf.constant([0], tf.int64), tf.constant([1], tf.int64))

    defaults = tf.constant([9, 8], tf.int64)
    return {
        "changed": changed,
        "vectors": vectors,
        "dynamic defaults": lambda: table().lookup(tf.constant(["n", "m"]), dynamic_default_values=defaults),
        "insert keys of another dtype": lambda: table().insert(tf.constant([1]), tf.constant([1], tf.int64)),
        "insert fewer values": lambda: table().insert(tf.constant(["a", "b"]), tf.constant([1], tf.int64)),
        "dense": dense,
        "dense, the empty key": dense_empty,
    }


def _vocabulary(tf):
    lookup = tf.lookup
    words = lookup.KeyValueTensorInitializer(["x", "y"], tf.constant([0, 1], tf.int64))
    numbers = lookup.KeyValueTensorInitializer(tf.constant([10, 20], tf.int64), tf.constant([0, 1], tf.int64))
    return {
        "vocabulary": lambda: lookup.StaticVocabularyTable(words, 3).lookup(
            tf.constant(["x", "y", "q", "zz", "hello"])
        ),
        "vocabulary's size": lambda: lookup.StaticVocabularyTable(words, 3).size(),
        "vocabulary of numbers": lambda: lookup.StaticVocabularyTable(numbers, 5).lookup(
            tf.constant([10, 77, 123456], tf.int64)
        ),
        "vocabulary of small numbers": lambda: lookup.StaticVocabularyTable(numbers, 5, tf.int32).lookup(
            tf.constant([10, 77, 20], tf.int32)
        ),
        "vocabulary of small numbers, others": lambda: lookup.StaticVocabularyTable(numbers, 5, tf.int32).lookup(
            tf.constant([10], tf.int64)
        ),
        "vocabulary of numbers, texts": lambda: lookup.StaticVocabularyTable(numbers, 5, tf.string),
        "vocabulary of words, floats": lambda: lookup.StaticVocabularyTable(words, 5, tf.float32),
        "vocabulary of int32": lambda: lookup.StaticVocabularyTable(
            lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([0], tf.int64)), 5
        ),
        "vocabulary of words, numbers": lambda: lookup.StaticVocabularyTable(words, 5, tf.int64),
        "vocabulary of hashes, numbers": lambda: lookup.StaticVocabularyTable(None, 4, tf.int64).key_dtype.name,
        "vocabulary of hashes": lambda: lookup.StaticVocabularyTable(None, 4).lookup(tf.constant(["a", "b"])),
        "vocabulary of texts": lambda: lookup.StaticVocabularyTable(lookup.KeyValueTensorInitializer(["x"], ["y"]), 1),
        "vocabulary without buckets": lambda: lookup.StaticVocabularyTable(words, 0),
    }


def _traced(tf):
    numbers = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([1.5, 2.5]))
    table = tf.lookup.StaticHashTable(numbers, 0.0)
    written = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)

    @tf.function
    def doubled(x):
        return table.lookup(x) * 2.0, table.size()

    @tf.function
    def write(keys, values):
        written.insert(keys, values)
        found = written.lookup(keys + 1)
        written.remove(keys[:1])
        return found, written.size()

    def writes():
        found = write(tf.constant([1, 2], tf.int64), tf.constant([5, 6], tf.int64))
        return found, written.lookup(tf.constant([1, 2], tf.int64))

    return {"lookup, traced": lambda: doubled(tf.constant([2, 5])), "insert, traced": writes}


def _composite(tf):
    table = tf.lookup.StaticHashTable(_pairs(tf), -1)
    vocabulary = tf.lookup.StaticVocabularyTable(_pairs(tf), 2)
    texts = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], ["a", "b"]), "?")
    ragged, sparse = tf.ragged.constant([["a"], [], ["b", "x"]]), tf.sparse.from_dense([["a", ""], ["", "y"]])
    words = tf.constant(["a b", "x"])

    def split(strings):
        return table.lookup(tf.strings.split(strings))

    def named(ids):
        return texts.lookup(ids)

    def joined(ids):
        return tf.strings.reduce_join(texts.lookup(ids), separator=" ")

    ids = tf.constant([1, 7, 2])
    return {
        "ragged keys": lambda: [table.lookup(ragged), table[ragged], vocabulary.lookup(ragged)],
        "ragged keys, traced": lambda: tf.function(split)(words),
        "sparse keys": lambda: [table.lookup(sparse), vocabulary.lookup(sparse)],
        "sparse keys, traced": lambda: tf.function(table.lookup)(sparse),
        "ragged keys of another dtype": lambda: table.lookup(tf.ragged.constant([[1]])),
        "keys in a dataset": lambda: list(tf.data.Dataset.from_tensors(words).map(split)),
        "texts": lambda: [texts.lookup(ids), texts.lookup(tf.ragged.constant([[1], [2, 5]]))],
        "texts, traced": lambda: [tf.function(named)(ids), tf.function(joined)(ids)],
        "texts in a dataset": lambda: list(tf.data.Dataset.from_tensors(ids).map(named)),
    }
