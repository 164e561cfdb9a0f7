"""Tools around models: TensorBoard, pictures of models, backups, precision policies, quantization, profiles."""

import importlib.util
import re
import shutil

import numpy as np
import pytest
from small_model import X, Y, model

import tvtf as tf


def test_tensorboard_has_scalars_histograms_and_the_graph(tmp_path):
    made = model()
    callback = tf.keras.callbacks.TensorBoard(str(tmp_path), histogram_freq=1, write_graph=True, update_freq="epoch")
    made.fit(X, Y, validation_data=(X, Y), epochs=2, verbose=0, callbacks=[callback])
    files = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*tfevents*"))
    assert files == ["train", "validation"]
    found = {
        (value.tag, event.step)
        for path in (tmp_path / "train").glob("*tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert {("epoch_loss", 0), ("epoch_loss", 1)} <= found
    assert any("kernel" in tag or "dense" in tag for tag, _ in found), found
    assert any(tag == "keras" for tag, _ in found), found


def test_a_backup_goes_on_where_training_stopped(tmp_path):
    class Stop(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise RuntimeError("the power failed")

    def backup():
        return tf.keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))

    with pytest.raises(RuntimeError, match="the power failed"):
        model().fit(X, Y, epochs=4, verbose=0, shuffle=False, callbacks=[backup(), Stop()])
    again = model(seed=2)
    history = again.fit(X, Y, epochs=4, verbose=0, shuffle=False, callbacks=[backup()])
    assert history.epoch == [2, 3]
    whole = model()
    whole.fit(X, Y, epochs=4, verbose=0, shuffle=False)
    np.testing.assert_allclose(again.predict(X, verbose=0), whole.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_computes_narrow_and_keeps_wide(policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        made = model()
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    history = made.fit(X, Y, epochs=5, verbose=0).history["loss"]
    assert history[-1] < history[0]
    assert made.layers[0].compute_dtype == policy.removeprefix("mixed_") and made.layers[0].kernel.dtype == "float32"
    assert made(X).dtype == policy.removeprefix("mixed_")


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method:UserWarning")
def test_int8_weights_give_nearly_the_same():
    made = model()
    made.fit(X, Y, epochs=5, verbose=0)
    expected = made.predict(X, verbose=0)
    made.quantize("int8")
    assert made.layers[0]._kernel.dtype == "int8"
    found = made.predict(X, verbose=0)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    assert not np.array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method:UserWarning")
def test_float8_training_goes_on():
    made = model()
    made.quantize("float8")
    made.compile("adam", "mse")
    history = made.fit(X, Y, epochs=5, verbose=0).history["loss"]
    assert history[-1] < history[0]


HAS_PYDOT = importlib.util.find_spec("pydot") is not None


@pytest.mark.skipif(HAS_PYDOT, reason="pydot is installed")
def test_a_picture_of_a_model_needs_pydot(tmp_path):
    with pytest.raises(ImportError, match="pip install pydot"):
        tf.keras.utils.plot_model(model(), str(tmp_path / "model.png"))


@pytest.mark.skipif(not HAS_PYDOT or shutil.which("dot") is None, reason="needs pydot and Graphviz's dot")
def test_a_picture_of_a_model_by_pydot(tmp_path):
    """The text equals the one under TensorFlow: an op that is an activation has its name there, too."""
    layers = tf.keras.layers
    first, second = layers.Input((8,), name="first"), layers.Input((4,), name="second")
    joined = layers.Concatenate()([layers.Dense(4, "relu")(first), layers.Activation(tf.nn.relu, name="op")(second)])
    made = tf.keras.Model([first, second], tf.keras.Sequential([layers.Dense(3, name="nested")])(joined))
    options = {"show_shapes": True, "show_dtype": True, "show_layer_activations": True, "expand_nested": True}
    text = tf.keras.utils.model_to_dot(made, show_layer_names=True, show_trainable=True, **options).to_string()
    shown = re.findall(r"<b>(.+?)</b>", text)
    assert [shown.count(each) for each in ("first", "second", "op", "nested", "relu", "(None, 3)", "float32")] == [
        *(1, 1, 1, 1, 2, 1, 6),
    ]
    assert text.count("->") == 5
    tf.keras.utils.plot_model(made, tmp_path / "model.png", **options)
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")


def test_training_steps_are_functions_to_look_into():
    made = model()
    made.fit(X, Y, verbose=0)
    before = made.get_weights()
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(32).repeat()
    assert "matmul" in made.train_function.relax(iter(data))
    assert made.train_function.profile(iter(data), repeat=2).kernels
    assert made.train_function.memory(iter(data)).arena > 0
    for old, new in zip(before, made.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_datasets_are_split():
    dataset = tf.data.Dataset.from_tensor_slices((X, Y))
    left, right = tf.keras.utils.split_dataset(dataset, left_size=0.75)
    assert (len(left), len(right)) == (48, 16) and left.element_spec == dataset.element_spec
    np.testing.assert_array_equal([x for x, _ in [*left, *right]], X)
