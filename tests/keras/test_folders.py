"""Models in folders, weights in checkpoints: written, overwritten, read in this process and in another."""

import io
import os
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

import tvtf as tf

X = np.sin(np.arange(16 * 3, dtype=np.float32)).reshape(16, 3)
Y = X.sum(1, keepdims=True)


class Plain(tf.keras.layers.Layer):
    def build(self, input_shape):
        self.w = tf.Variable(tf.ones([input_shape[-1], 2]), name="w")

    def call(self, x):
        return tf.matmul(x, self.w)


class Own(tf.keras.Model):
    """A class that Keras can't find by its name."""

    def __init__(self, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.first, self.drop, self.last = Plain(), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)

    def call(self, x):
        return self.last(self.drop(self.first(x)))


def functional():
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((3,)), layers.Dense(4, activation="relu"), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def own():
    model = Own()
    model(X)
    model.compile("adam", "mse")
    return model


def run(program):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize("make", [functional, own])
def test_a_folder_is_a_saved_model(make):
    model = make()
    model.save("folder")
    loaded = tf.saved_model.load("folder")
    expected = model.predict(X, verbose=0)
    np.testing.assert_allclose(loaded(tf.constant(X)), expected, rtol=1e-5, atol=1e-6)
    (found,) = loaded.signatures["serving_default"](tf.constant(X)).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert len(loaded.variables) == len(model.variables)
    assert len(loaded.trainable_variables) == len(model.trainable_variables)
    loaded.trainable_variables[0].assign(tf.zeros_like(loaded.trainable_variables[0]))
    assert np.any(loaded(tf.constant(X)).numpy() != expected)


def test_it_runs_in_training_and_in_inference():
    model = own()
    model.save("folder")
    loaded, x = tf.saved_model.load("folder"), tf.ones([64, 3])
    assert len(np.unique(loaded(x).numpy())) == 1 and len(np.unique(loaded(x, training=True).numpy())) > 1


def test_load_model_gives_the_model_with_its_optimizer():
    model = functional()
    model.fit(X, Y, verbose=0)
    model.save("folder")
    again = tf.keras.models.load_model("folder")
    assert type(again) is type(model) and int(again.optimizer.iterations) == 1
    losses = [m.fit(X, Y, verbose=0, shuffle=False).history for m in (model, again)]
    assert losses[0].keys() == losses[1].keys() == {"loss", "mae"}
    np.testing.assert_array_equal(again.predict(X, verbose=0), model.predict(X, verbose=0))


def test_without_the_classes_it_gives_a_model_of_functions(caplog):
    model = own()
    model.fit(X, Y, verbose=0)
    model.save("folder")
    with caplog.at_level("WARNING", "tvtf"):
        again = tf.keras.models.load_model("folder")
    assert "Could not locate class 'Own'" in caplog.text and type(again) is not Own
    np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5, atol=1e-6)
    assert [v.shape for v in again.trainable_variables] == [v.shape for v in model.trainable_variables]
    assert int(again.optimizer.iterations) == 1
    losses = again.fit(X, Y, epochs=3, verbose=0).history["loss"]
    assert len(losses) == 3 and int(again.optimizer.iterations) == 4
    again.save("folder")
    third = tf.keras.models.load_model("folder", compile=False)
    np.testing.assert_allclose(third(X), again(X), rtol=1e-6)
    assert not third.compiled
    with_class = tf.keras.models.load_model("folder", custom_objects={"Own": Own, "Plain": Plain})
    np.testing.assert_allclose(with_class(X), again(X), rtol=1e-5, atol=1e-6)


def test_frozen_variables_stay_frozen_in_a_model_of_functions():
    model = own()
    model.first.trainable = False
    model.save("folder")
    again = tf.keras.models.load_model("folder")
    assert len(again.trainable_variables) == len(model.trainable_variables) == 2
    assert len(again.variables) == len(model.variables)


def test_another_process_loads_it():
    model = own()
    expected = model.predict(X[:1], verbose=0)
    model.save("folder")
    model.save_weights("weights")
    printed = run("""
        import numpy as np
        import tvtf as tf
        x = np.sin(np.arange(3, dtype=np.float32)).reshape(1, 3)
        print(tf.keras.models.load_model("folder").predict(x, verbose=0).item())
        print(tf.saved_model.load("folder")(tf.constant(x)).numpy().item())
        print(tf.train.load_variable("weights", "first/w/.ATTRIBUTES/VARIABLE_VALUE").sum())
    """).split()
    np.testing.assert_allclose(
        [float(number) for number in printed], [expected.item(), expected.item(), 6.0], rtol=1e-5
    )


def test_saving_again_replaces_all():
    model = functional()
    model.fit(X, Y, verbose=0)
    model.save("folder")
    before = sorted(os.listdir("folder"))
    model.layers[0].kernel.assign(tf.zeros([3, 4]))
    model.save("folder")
    assert sorted(os.listdir("folder")) == before
    np.testing.assert_array_equal(tf.keras.models.load_model("folder")(X), model(X))
    tf.saved_model.save(model, "folder")
    assert "model.keras" not in sum((files for _, _, files in os.walk("folder")), [])
    np.testing.assert_array_equal(tf.keras.models.load_model("folder")(X), model(X))


def test_files_are_overwritten_only_on_request(monkeypatch):
    model = functional()
    model.save("folder"), model.save_weights("prefix")
    before = os.stat("folder/saved_model.json").st_mtime_ns, os.stat("prefix.index").st_mtime_ns
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nn\n"))
    model.save("folder", overwrite=False), model.save_weights("prefix", overwrite=False)
    assert before == (os.stat("folder/saved_model.json").st_mtime_ns, os.stat("prefix.index").st_mtime_ns)


@pytest.mark.parametrize("name", ["prefix", "folder/cp-0001.ckpt"])
def test_weights_in_a_checkpoint(name):
    model, other = functional(), functional()
    model.fit(X, Y, epochs=2, verbose=0)
    model.save_weights(name)
    assert tf.train.latest_checkpoint(os.path.dirname(name) or ".").endswith(os.path.basename(name))
    status = other.load_weights(name)
    assert status.expect_partial() is status
    np.testing.assert_array_equal(other(X), model(X))


def test_weights_that_wait_for_the_first_call():
    model, other = own(), Own()
    model.first.w.assign(tf.ones([3, 2]) * 5.0)
    model.save_weights("prefix")
    other.load_weights("prefix").expect_partial()
    np.testing.assert_array_equal(other(X), model(X))


def test_layers_and_models_of_several_inputs():
    layers = tf.keras.layers
    a, b = layers.Input((3,), name="a"), layers.Input((2,), name="b")
    model = tf.keras.Model({"a": a, "b": b}, layers.Dense(2)(layers.Concatenate()([a, b])))
    given = {"a": tf.constant(X), "b": tf.ones([16, 2])}
    expected = model(given)
    model.save("folder")
    np.testing.assert_allclose(tf.keras.models.load_model("folder")(given), expected, rtol=1e-6)
    loaded = tf.saved_model.load("folder")
    np.testing.assert_allclose(loaded(given), expected, rtol=1e-6)
    assert set(loaded.signatures["serving_default"].structured_input_signature[1]) == {"inputs", "inputs_1"}
    dense = layers.Dense(2)
    dense(X)
    tf.saved_model.save(dense, "layer")
    np.testing.assert_allclose(tf.saved_model.load("layer")(tf.constant(X)), dense(X), rtol=1e-6)


def test_what_else_a_folder_may_hold(tmp_path):
    module = tf.Module()
    module.v = tf.Variable(1.0)
    tf.saved_model.save(module, "module")
    with pytest.raises(ValueError, match="holds a saved model that is not a layer or model"):
        tf.keras.models.load_model("module")
    with pytest.raises(ValueError, match="File format not supported"):
        tf.keras.models.load_model(tmp_path)
    with pytest.raises(ValueError, match="File format not supported: filepath=nowhere"):
        tf.keras.models.load_model("nowhere")


def test_a_damaged_folder_is_reported():
    functional().save("folder")
    with zipfile.ZipFile("folder/assets.extra/model.keras", "a") as archive:
        archive.writestr("more", "x")
    with pytest.raises(tf.saved_model.SavedModuleError, match="is not the file that was saved"):
        tf.keras.models.load_model("folder")


def test_bad_input_is_reported():
    model = functional()
    with pytest.raises(ValueError, match="it was not called yet"):
        Own().save("folder")
    with pytest.raises(ValueError, match="have not yet been created"):
        Own().save_weights("prefix")
    with pytest.raises(ValueError, match="`save_format` argument is deprecated"):
        model.save("folder", save_format="h5")
    with pytest.raises(ValueError, match="not supported: \\['depth'\\]"):
        model.save("folder", depth=1)
    with pytest.raises(ValueError, match="Invalid filepath extension"):
        model.save("model.png")
    with pytest.raises(ValueError, match="File format not supported: filepath=nowhere"):
        model.load_weights("nowhere")
    model.save_weights("prefix")
    with pytest.raises(ValueError, match="for Keras's own files"):
        model.load_weights("prefix", by_name=True)
    with pytest.raises(ValueError, match="Invalid keyword arguments"):
        model.load_weights("prefix", depth=1)
    with pytest.raises(tf.errors.OpError, match="checkpoint"):
        model.save("checkpoint")
    assert not os.path.exists("folder")
