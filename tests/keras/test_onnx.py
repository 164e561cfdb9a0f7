"""Models of Keras as ONNX models, by `model.export` and by `tvtf.onnx.export`."""

import numpy as np
import onnxruntime
import pytest

import tvtf as tf

X = np.sin(np.arange(6 * 8, dtype=np.float32)).reshape(6, 8)


def model():
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    return tf.keras.Sequential(
        [layers.Input((8,)), layers.Dense(5, "relu"), layers.BatchNormalization(), layers.Dense(2)]
    )


def run(path_or_bytes, *inputs):
    session = onnxruntime.InferenceSession(path_or_bytes)
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def test_a_model_exports_itself(tmp_path):
    made, path = model(), tmp_path / "model.onnx"
    made(X)
    made.export(path, format="onnx", verbose=False)
    np.testing.assert_allclose(run(str(path), X)[0], made.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [None, 21])
def test_a_model_is_a_function_to_export(opset):
    made = model()
    exported = tf.onnx.export(made, opset=opset)
    assert opset is None or exported.opset_import[0].version == opset
    np.testing.assert_allclose(run(exported.SerializeToString(), X)[0], made(X), rtol=1e-5, atol=1e-6)


def test_several_inputs_by_their_names():
    layers = tf.keras.layers
    a, b = layers.Input((3,), name="a"), layers.Input((3,), name="b")
    made = tf.keras.Model({"a": a, "b": b}, layers.subtract([a, b]))
    exported = tf.onnx.export(made)
    assert len(exported.graph.input) == 2
    found = run(exported.SerializeToString(), X[:, :3], X[:, 3:6])[0]
    np.testing.assert_allclose(found, X[:, :3] - X[:, 3:6])


def test_inputs_have_the_names_of_their_specs(tmp_path):
    made, path = model(), tmp_path / "named.onnx"
    made(X)
    signature = [tf.TensorSpec([None, 8], name="given")]
    made.export(path, format="onnx", input_signature=signature, verbose=False)
    assert onnxruntime.InferenceSession(path).get_inputs()[0].name == "given"
    assert tf.onnx.export(made, input_signature=signature).graph.input[0].name == "given"


def test_a_model_that_was_never_called():
    with pytest.raises(ValueError, match="can't be exported: its input specs are not known"):
        tf.onnx.export(tf.keras.Sequential([tf.keras.layers.Dense(2)]))


def test_an_opset_that_cannot_say_it():
    with pytest.raises(ValueError, match="opset=3"):
        tf.onnx.export(model(), opset=3)
