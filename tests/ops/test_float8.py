"""float8: tensors for storage, and casts from and to other dtypes."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import tvtf as tf

X = np.array([1.1, -2.3, 500.0, 0.013, np.nan, np.inf, -np.inf, 1e6, -1e-9], np.float32)


def kinds():
    return [
        tf.dtypes.experimental.float8_e5m2,
        tf.dtypes.experimental.float8_e4m3fn,
        tf.dtypes.experimental.float8_e4m3fnuz,
        tf.dtypes.experimental.float8_e4m3b11fnuz,
        tf.dtypes.experimental.float8_e5m2fnuz,
    ]


def names_of_old():
    return [
        tf.experimental.float8_e5m2,
        tf.experimental.float8_e4m3fn,
        tf.experimental.float8_e4m3fnuz,
        tf.experimental.float8_e4m3b11fnuz,
        tf.experimental.float8_e5m2fnuz,
    ]


@pytest.mark.parametrize("kind", kinds(), ids=str)
def test_a_dtype(kind):
    assert (
        kind
        is tf.as_dtype(kind.name)
        is tf.as_dtype(getattr(ml_dtypes, kind.name))
        is getattr(tf.experimental, kind.name)
    )
    assert kind.is_floating and kind.size == 1 and kind.max == ml_dtypes.finfo(kind.as_numpy_dtype).max


@pytest.mark.parametrize("kind", kinds(), ids=str)
@pytest.mark.parametrize(
    "program",
    [
        lambda x, kind: tf.cast(tf.cast(x, kind), tf.float32),
        lambda x, kind: tf.bitcast(tf.cast(x, kind), tf.uint8),
        lambda x, kind: tf.cast(tf.transpose(tf.stack([tf.cast(x, kind)] * 2)), tf.float16),
        lambda x, kind: tf.cast(tf.saturate_cast(x, kind), tf.bfloat16),
        lambda x, kind: tf.cast(tf.cast(x, kind), tf.int32),
    ],
    ids=["there and back", "bits", "moved", "saturated", "to integers"],
)
def test_cast_eagerly_and_compiled(kind, program):
    eager = program(tf.constant(X), kind)
    compiled = tf.function(program)(tf.constant(X), kind)
    np.testing.assert_array_equal(np.asarray(compiled).astype(np.float64), np.asarray(eager).astype(np.float64))


@pytest.mark.parametrize("kind", kinds(), ids=str)
def test_there_and_back_is_numpys(kind):
    expected = X.astype(kind.as_numpy_dtype)
    np.testing.assert_array_equal(tf.cast(X, kind).numpy().view(np.uint8), expected.view(np.uint8))
    found = tf.function(lambda x: tf.cast(x, kind))(tf.constant(X))
    assert found.dtype is kind
    np.testing.assert_array_equal(found.numpy().view(np.uint8), expected.view(np.uint8))


def test_results_arguments_and_variables_of_functions():
    kind = tf.dtypes.experimental.float8_e4m3fn
    kept = tf.Variable(tf.zeros([9], kind))

    @tf.function
    def keep(x):
        kept.assign(x)
        return tf.cast(kept, tf.float32)

    small = tf.cast(tf.constant(X), kind)
    np.testing.assert_array_equal(keep(small), tf.cast(small, tf.float32))
    np.testing.assert_array_equal(kept.numpy().view(np.uint8), small.numpy().view(np.uint8))


def test_no_gradient_flows_through_it():
    kind, x = tf.dtypes.experimental.float8_e5m2, tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(tf.cast(x, kind), tf.float32)
    assert tape.gradient(y, x) is None


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_onnx(name):
    finite = np.array([1.1, -2.3, 3.7, 0.013, -1e-9], np.float32)
    program = tf.function(lambda x: tf.cast(tf.cast(x, name), tf.float32))
    model = tf.onnx.export(program, tf.TensorSpec([5], name="x"))
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": finite})
    np.testing.assert_array_equal(found, program(tf.constant(finite)))


def test_onnx_lacks_one():
    program = tf.function(lambda x: tf.cast(tf.cast(x, "float8_e4m3b11fnuz"), tf.float32))
    with pytest.raises(tf.errors.UnimplementedError, match="float8_e4m3b11fnuz"):
        tf.onnx.export(program, tf.TensorSpec([5], name="x"))


def test_saved(tmp_path):
    kept = tf.Module()
    kept.small = tf.Variable(tf.cast(tf.constant(X), "float8_e4m3fn"))
    kept.wide = tf.function(lambda: tf.cast(kept.small, tf.float32), input_signature=[])
    tf.saved_model.save(kept, str(tmp_path / "model"))
    np.testing.assert_array_equal(tf.saved_model.load(str(tmp_path / "model")).wide(), kept.wide())
    path = tf.train.Checkpoint(root=kept).write(str(tmp_path / "checkpoint"))
    kept.small.assign(tf.zeros([9], "float8_e4m3fn"))
    tf.train.Checkpoint(root=kept).read(path)
    np.testing.assert_array_equal(kept.small.numpy().view(np.uint8), X.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
