"""Lookup tables go from tvtf to TensorFlow and back through checkpoints, and both write the same bytes."""

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tensorflow = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")

import tvtf  # noqa: E402 - after the group's condition

pytestmark = pytest.mark.oracle


def tables(tf):
    kinds = tf.lookup.experimental
    return {
        "words": kinds.MutableHashTable(tf.string, tf.int64, -1),
        "rows": kinds.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0]),
        "dense": kinds.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-5, initial_num_buckets=16),
    }


def filled(tf):
    made = tables(tf)
    made["words"].insert(tf.constant(["hello"]), tf.constant([5], tf.int64))
    made["rows"].insert(tf.constant([7], tf.int64), tf.constant([[1.0, 2.0]]))
    made["dense"].insert(tf.constant([3, 19, 35], tf.int64), tf.constant([30, 190, 350], tf.int64))
    return made


def assert_filled(tf, made):
    assert made["words"].lookup(tf.constant(["hello", "other"])).numpy().tolist() == [5, -1]
    np.testing.assert_array_equal(made["rows"].lookup(tf.constant([7, 8], tf.int64)).numpy(), [[1, 2], [0, 0]])
    assert made["dense"].lookup(tf.constant([35, 3, 19, 4], tf.int64)).numpy().tolist() == [350, 30, 190, -1]


def test_both_write_the_same_bytes(tmp_path):
    left = tensorflow.train.Checkpoint(**filled(tensorflow)).save(str(tmp_path / "tf" / "ckpt"))
    right = tvtf.train.Checkpoint(**filled(tvtf)).save(tmp_path / "tvtf" / "ckpt")
    for suffix in (".index", ".data-00000-of-00001"):
        assert Path(left + suffix).read_bytes() == Path(right + suffix).read_bytes()


@pytest.mark.parametrize("source, target", [(tensorflow, tvtf), (tvtf, tensorflow)], ids=["from TF", "to TF"])
def test_contents_go_both_ways(tmp_path, source, target):
    path = source.train.Checkpoint(**filled(source)).save(str(tmp_path / "ckpt"))
    made = tables(target)
    target.train.Checkpoint(**made).restore(path).assert_consumed()
    assert_filled(target, made)
