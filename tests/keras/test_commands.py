"""Files of Keras's as MODEL of the ``tvtf`` command."""

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

import tvtf as tf
from tvtf.cli import main

X = np.sin(np.arange(6 * 8, dtype=np.float32)).reshape(6, 8)


def tvtf(*args):
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(params=["model.keras", "model.h5"])
def saved(request, tmp_path, monkeypatch):
    """A file of a model, and what that predicts."""
    monkeypatch.chdir(tmp_path)
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    made = tf.keras.Sequential([layers.Input((8,)), layers.Dense(5, "relu"), layers.Dropout(0.5), layers.Dense(2)])
    made.compile("adam", "mse")
    made.fit(X, X[:, :2], verbose=0)
    made.save(request.param)
    np.save("x.npy", X)
    return request.param, made.predict(X, verbose=0)


def test_a_library_an_onnx_model_and_runs(saved):
    model, expected = saved
    compiled = tvtf("compile", model, "-o", "lib.so")
    assert compiled.exit_code == 0, compiled.output
    for source in (model, "lib.so"):
        done = tvtf("run", source, "--input", "x.npy", "--output", "out.npy")
        assert done.exit_code == 0, done.output
        np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-5, atol=1e-6)
    assert tvtf("export", model, "-o", "model.onnx").exit_code == 0
    session = onnxruntime.InferenceSession("model.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_tuning(saved):
    done = tvtf("tune", saved[0], "--trials", 1, "--seconds", 5)
    assert done.exit_code == 0 and "a whole call" in done.output, done.output


def test_a_file_that_is_none(tmp_path):
    for name in ("missing.keras", "damaged.keras"):
        if name.startswith("damaged"):
            (tmp_path / name).write_bytes(b"PK no model")
        done = tvtf("compile", tmp_path / name)
        assert done.exit_code == 1 and done.stderr.count("\n") == 1 and name in done.stderr, done.output
