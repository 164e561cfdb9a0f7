"""``tf.keras`` is the package Keras on tvtf, beside any other Keras, and found by every way of importing it."""

import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from operator import attrgetter

import numpy as np
import pytest
from small_model import X, Y, model

import tvtf as tf


def run(program, **variables):
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, env={**os.environ, **variables}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_model_learns_evaluates_and_predicts():
    made = model()
    losses = made.fit(X, Y, epochs=3, verbose=0).history["loss"]
    assert losses == sorted(losses, reverse=True)
    predicted = made.predict(X, verbose=0)
    np.testing.assert_allclose(made.evaluate(X, Y, verbose=0), np.mean((predicted - Y) ** 2), rtol=1e-5)
    np.testing.assert_allclose(made(X), predicted, rtol=1e-5, atol=1e-6)


def test_training_in_a_loop_of_ones_own():
    made, optimizer, loss = model(), tf.keras.optimizers.SGD(0.1), tf.keras.losses.MeanSquaredError()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            value = loss(Y, made(X, training=True))
        optimizer.apply_gradients(zip(tape.gradient(value, made.trainable_weights), made.trainable_weights))
        return value

    losses = [float(step()) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize(
    ("loss", "activation"), [("BinaryCrossentropy", "sigmoid"), ("CategoricalCrossentropy", "softmax")]
)
def test_a_loss_in_a_function_finds_the_logits_of_an_op(loss, activation):
    """In a function, Keras takes the loss of the op's input. A called function's op is the call, which hides it."""
    labels, logits = tf.constant([[0.0, 1.0], [1.0, 0.0]]), tf.constant([[30.0, -40.0], [2.0, 60.0]])
    activate, compute = getattr(tf.nn, activation), getattr(tf.keras.losses, loss)()
    called = tf.function(activate)
    of_logits = getattr(tf.keras.losses, loss)(from_logits=True)(labels, logits)
    assert float(tf.function(lambda: compute(labels, activate(logits)))()) == float(of_logits)
    of_probabilities = compute(labels, activate(logits))
    assert float(tf.function(lambda: compute(labels, called(logits)))()) == float(of_probabilities) < float(of_logits)


def test_a_variable_of_keras_is_printed_as_its_value(capsys):
    weights = tf.keras.Variable([[1.0, 2.0]], name="weights")
    tf.print("w =", weights, {"n": weights}, output_stream=sys.stdout)

    @tf.function
    def traced():
        tf.print("w =", weights, output_stream=sys.stdout)

    traced()
    assert capsys.readouterr().out == "w = [[1 2]] {'n': [[1 2]]}\nw = [[1 2]]\n"


def test_recurrent_layers_with_masks():
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    made = tf.keras.Sequential([layers.Embedding(9, 4, mask_zero=True), layers.LSTM(5), layers.Dense(1)])
    made.compile("adam", "mse")
    ids = (np.arange(32).reshape(8, 4) % 9).astype(np.int32)
    assert made.fit(ids, np.ones((8, 1), np.float32), epochs=2, verbose=0).history["loss"][1] < 1.0
    np.testing.assert_allclose(made(ids), made.predict(ids, verbose=0), rtol=1e-5)


def test_every_way_to_name_it():
    keras = importlib.import_module("tvtf.keras")
    layers = importlib.import_module("tvtf.keras.layers")
    assert tf.keras is keras and keras.layers is layers and "layers" in dir(keras) and "keras" in dir(tf)
    assert layers.Dense is tf.keras.layers.Dense and keras.__version__.startswith("3.")
    assert importlib.reload(layers) is layers  # as notebooks do


def test_files_hold_a_model_and_its_optimizer(tmp_path):
    made = model()
    made.fit(X, Y, verbose=0)
    made.save(tmp_path / "whole.keras")
    again = tf.keras.models.load_model(tmp_path / "whole.keras")
    np.testing.assert_array_equal(again.predict(X, verbose=0), made.predict(X, verbose=0))
    assert int(again.optimizer.iterations) == 2
    made.save_weights(tmp_path / "some.weights.h5")
    other = model(seed=2)
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "some.weights.h5")
    np.testing.assert_array_equal(other.predict(X, verbose=0), made.predict(X, verbose=0))


@pytest.mark.parametrize("op", ["nn.relu", "nn.softmax", "nn.gelu", "nn.silu", "tanh", "math.sigmoid"])
def test_activations_that_are_ops_are_saved_as_functions(tmp_path, op):
    """Keras's serialization knows functions by their Python class, and an op is an object of a class of tvtf."""
    function = attrgetter(op)(tf)
    layers = tf.keras.layers
    made = tf.keras.Sequential([layers.Input((8,)), layers.Activation(function), layers.Dense(2, activation=function)])
    assert made.layers[0].get_config()["activation"] == function.__name__
    assert tf.keras.utils.serialize_keras_object(function)["class_name"] == "function"
    made.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(X), made(X), rtol=1e-5, atol=1e-6)


def test_a_pickled_model_is_the_model():
    made = model()
    made.fit(X, Y, verbose=0)
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict(X, verbose=0), made.predict(X, verbose=0))


def test_threads_that_name_it_first_get_the_same():
    printed = run("""
        import threading
        import tvtf as tf
        found = []
        threads = [threading.Thread(target=lambda: found.append(tf.keras.layers.Dense)) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), len(set(found)))
    """)
    assert printed == "4 1"


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="import keras means TensorFlow's here")
def test_import_keras_is_the_same_where_it_can_mean_nothing_else():
    printed = run("""
        import tvtf as tf
        tf.keras
        import keras
        print(keras.layers.Dense is tf.keras.layers.Dense, keras.backend.backend())
    """)
    assert printed == "True tensorflow"


def test_a_keras_that_is_there_already_stays_what_it_is():
    printed = run("""
        import sys, types
        other = sys.modules["keras"] = types.ModuleType("keras")
        import tvtf as tf
        dense = tf.keras.layers.Dense(2)
        print(type(dense(tf.ones([1, 3]))).__module__, sys.modules["keras"] is other, type(dense).__module__)
    """)
    assert printed == "tvtf.core.tensor True tvtf.keras._copy.src.layers.core.dense"


def test_import_keras_is_left_to_a_backend_that_was_chosen():
    printed = run(
        """
        import sys
        import tvtf as tf
        print(tf.keras.backend.backend(), "keras" in sys.modules, "tensorflow" in sys.modules)
        """,
        KERAS_BACKEND="jax",
    )
    assert printed == "tensorflow False False"


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="Keras's NumPy backend needs JAX")
@pytest.mark.parametrize("first", ["keras", "tvtf.keras"])
def test_a_keras_on_another_backend_stays_what_it_is(first):
    printed = run(
        f"""
        import {first}
        import keras
        import tvtf as tf
        dense = tf.keras.layers.Dense(2)
        print(keras.backend.backend(), tf.keras.backend.backend(), keras.layers.Dense is type(dense))
        print(type(dense(tf.ones([1, 3]))).__module__, isinstance(keras.ops.ones([1]), tf.Tensor))
        """,
        KERAS_BACKEND="numpy",
    )
    assert printed == "numpy tensorflow False\ntvtf.core.tensor False"


def test_without_keras_it_says_what_to_install():
    printed = run(
        """
        import tvtf as tf
        import importlib.machinery
        path = importlib.machinery.PathFinder.find_spec
        importlib.machinery.PathFinder.find_spec = classmethod(lambda cls, name, *a: None if name == "keras" else path(name, *a))
        try:
            tf.keras
        except ImportError as error:
            print(error)
        print(float(tf.optimizers.SGD(0.5).learning_rate))
        """
    )
    assert printed == "tvtf.keras is the package keras, which isn't installed: pip install 'tvtf[keras]'\n0.5"


def test_names_that_a_newer_keras_imports_are_found(tmp_path):
    from tvtf.keras.missing_names import missing

    (tmp_path / "new.py").write_text(
        "import tensorflow as tf\nfrom tensorflow.python import secret\ntf.math.abs(tf.nowhere.f(1))\n"
    )
    assert missing(tmp_path) == {"nowhere.f": ["new.py"], "python.secret": ["new.py"]}


def test_a_tape_is_not_confused_by_threads():
    made, found = model(), []
    workers = [threading.Thread(target=lambda: found.append(made.predict(X, verbose=0))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(np.array_equal(each, found[0]) for each in found)


def test_builtins_that_are_replaced_are_replaced_in_keras(monkeypatch, capsys):
    io_utils = importlib.import_module(f"{tf.keras.Model.__module__.partition('.src')[0]}.src.utils.io_utils")
    requested = []
    monkeypatch.setattr("builtins.input", lambda text="": requested.append(text) or "y")
    assert io_utils.ask_to_proceed_with_overwrite("model.keras")
    assert "model.keras already exists" in requested[0]


def test_modules_that_import_plotting_and_scikit_learn_run_at_their_first_use():
    lazy = "['keras.src.wrappers.sklearn_wrapper', 'keras.src.visualization.plot_image_gallery']"
    assert run(f"""
        import importlib, inspect, sys, threading
        import tvtf as tf
        names = {lazy}
        tf.keras.layers.Dense(1)(tf.ones([1, 2]))
        inspect.getmodule(tf.keras.layers.Dense)
        print([name in sys.modules for name in names])
        found = []
        threads = [threading.Thread(target=lambda: found.append(tf.keras.wrappers.SKLearnClassifier)) for _ in range(4)]
        [each.start() for each in threads], [each.join() for each in threads]
        print(len(found), len(set(found)), [name in sys.modules for name in names])
        import keras.visualization
        from keras.wrappers import SKLearnRegressor
        print(callable(keras.visualization.plot_image_gallery), 'SKLearnRegressor' in dir(tf.keras.wrappers))
        print(importlib.reload(keras.visualization) is tf.keras.visualization, hasattr(keras.visualization, 'nothing'))
    """).splitlines() == ["[False, False]", "4 1 [True, False]", "True True", "True False"]


def test_a_star_imports_all_names_of_keras():
    names = {}
    exec("from tvtf.keras import *", names)
    assert names["Sequential"] is tf.keras.Sequential and names["layers"] is tf.keras.layers
    assert not {"Any", "loader", "find_spec"} & set(names)
