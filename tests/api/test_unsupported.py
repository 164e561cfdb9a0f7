"""Unsupported names of TensorFlow raise errors with a reason; docs/symbols.md lists them."""

import importlib.util
import sys
from pathlib import Path

import pytest

import tvtf as tf
from tvtf.api.unsupported import REASONS, tensorflow_names

spec = importlib.util.spec_from_file_location("symbols", Path(__file__).parents[2] / "docs" / "symbols.py")
symbols = importlib.util.module_from_spec(spec)
spec.loader.exec_module(symbols)


WITH_KERAS = pytest.mark.skipif(sys.version_info < (3, 11), reason="the table names Keras's classes; Keras needs 3.11")


def test_the_error_for_an_unsupported_name_has_the_reason():
    with pytest.raises(NotImplementedError, match="tvtf has no tf.raw_ops.AddV2: use the function of tf"):
        tf.raw_ops.AddV2  # noqa: B018
    with pytest.raises(NotImplementedError, match="tf.io.decode_jxl: neither the standard library"):
        tf.io.decode_jxl  # noqa: B018
    assert not hasattr(tf.raw_ops, "AddV2")
    assert not hasattr(tf.io, "decode_jxl")


def test_an_unsupported_class_can_be_named_but_not_instantiated():
    class Ours(tf.distribute.TPUStrategy):
        pass

    assert not isinstance(tf.distribute.get_strategy(), (Ours, tf.lite.TFLiteConverter))
    for make in (tf.distribute.TPUStrategy, Ours, tf.distribute.experimental.TPUStrategy):
        with pytest.raises(NotImplementedError, match="TPUStrategy: tvtf runs in one process"):
            make()
    with pytest.raises(NotImplementedError, match="tf.lite.TFLiteConverter: use `tvtf compile`"):
        tf.lite.TFLiteConverter.from_saved_model("folder")


def test_a_dtype_without_tensors_can_be_named():
    for make in (
        tf.zeros,
        lambda dims, dtype: tf.cast(tf.ones(dims), dtype),
        lambda dims, dtype: tf.constant(1, dtype),
    ):
        with pytest.raises(NotImplementedError, match="tvtf has no tensors of tf.qint8"):
            make([2], tf.qint8)


def test_an_unknown_name_is_an_attribute_error():
    for module in (tf, tf.math, tf.train):
        with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'") as raised:
            module.no_such_thing  # noqa: B018
        assert not isinstance(raised.value, NotImplementedError)


def test_every_name_of_tensorflow_is_there_or_rejected():
    assert [name for name in tensorflow_names() if symbols.lookup(name) is symbols.MISSING] == []


def test_no_reason_is_kept_for_what_there_is():
    assert [path for path in REASONS if not isinstance(symbols.lookup(path), NotImplementedError)] == []


@WITH_KERAS
def test_the_table_is_what_the_code_says():
    assert symbols.TABLE.read_text() == symbols.table(), "python docs/symbols.py writes it anew"


@WITH_KERAS
def test_nothing_is_there_that_no_test_names():
    assert [line for line in symbols.table().splitlines() if line.endswith("| untested |")] == []


def test_classes_that_configure_embeddings_of_tpus_are_placeholders():
    """Libraries name them when they are imported: TensorFlow Recommenders in annotations, dicts and ``isinstance``."""
    embedding = tf.tpu.experimental.embedding
    for name in ("FTRL", "SGD", "TableConfig"):
        assert not isinstance(1, getattr(embedding, name))
        with pytest.raises(
            NotImplementedError, match=f"tvtf has no tf.tpu.experimental.embedding.{name}: tvtf compiles for"
        ):
            getattr(embedding, name)()
    assert not isinstance(1, tf.tpu.experimental.HardwareFeature.EmbeddingFeature.V2)
    assert not hasattr(embedding.TableConfig, "from_config")
