"""Tables beyond what TensorFlow's answers show: checkpoints, and functions that hold them."""

import pytest

import tvtf as tf
from tvtf import errors


def table(*pairs):
    made = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    made.insert(tf.constant([k for k, _ in pairs]), tf.constant([v for _, v in pairs], tf.int64))
    return made


def test_a_checkpoint_brings_back_contents(tmp_path):
    saved = table(("a", 1), ("b", 2))
    path = tf.train.Checkpoint(table=saved).save(tmp_path / "ckpt")
    restored = table(("z", 9))
    tf.train.Checkpoint(table=restored).restore(path).assert_consumed()
    assert restored.lookup(tf.constant(["a", "b", "z"])).numpy().tolist() == [1, 2, -1]


def test_a_table_of_other_values_is_rejected_and_stays(tmp_path):
    path = tf.train.Checkpoint(table=table(("a", 1))).save(tmp_path / "ckpt")
    other = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.5)
    with pytest.raises(errors.InvalidArgumentError, match="expected dtype float"):
        tf.train.Checkpoint(table=other).restore(path)
    assert other.size().numpy() == 0


def test_dense_buckets_come_back_from_a_checkpoint(tmp_path):
    def made():
        return tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, 0, -5, initial_num_buckets=4)

    saved, restored = made(), made()
    saved.insert(tf.constant([1, 5, 9, 13], tf.int64), tf.constant([10, 50, 90, 130], tf.int64))
    path = tf.train.Checkpoint(table=saved).save(tmp_path / "ckpt")
    tf.train.Checkpoint(table=restored).restore(path)
    assert restored.lookup(tf.constant([13, 1, 2], tf.int64)).numpy().tolist() == [130, 10, -1]
    assert saved.export()[0].shape == [8, 1]


def test_a_traced_function_sees_what_was_written_later():
    counts = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
    count = tf.function(lambda x: counts.lookup(x))
    x = tf.constant([1, 2], tf.int64)
    assert count(x).numpy().tolist() == [0, 0]
    counts.insert(x, x * 10)
    assert count(x).numpy().tolist() == [10, 20]


def test_an_initializer_may_leave_its_table_empty():
    """As Keras's does for a layer whose table a saved model fills."""

    class Nothing(tf.lookup.KeyValueTensorInitializer):
        key_dtype, value_dtype = tf.string, tf.int64

        def __init__(self):
            """Without keys and values."""

        def initialize(self, table):
            """Nor does it fill it."""

    table = tf.lookup.StaticHashTable(Nothing(), -1)
    assert table.size() == 0 and table.lookup(tf.constant(["a"])).numpy().tolist() == [-1]
