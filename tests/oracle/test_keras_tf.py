"""Files of Keras go from TensorFlow to tvtf and back: the same predictions, and the same further training."""

import os
import sys
import warnings

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tensorflow = pytest.importorskip("tensorflow", reason="the oracle group needs tensorflow-cpu")
if sys.version_info < (3, 11):
    pytest.skip("Keras 3.15 needs Python 3.11", allow_module_level=True)

import tvtf  # noqa: E402 - after the group's condition

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
SIDES = {"tvtf": tvtf, "tensorflow": tensorflow}
ENDINGS = (".keras", ".h5", ".weights.h5")
NUMBERS = np.sin(np.arange(32 * 64, dtype=np.float32))


def dense(tf):
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
    model.compile(tf.keras.optimizers.Adam(0.01), tf.keras.losses.MeanSquaredError(), metrics=["accuracy"])
    return model


def convolutions(tf):
    layers = tf.keras.layers
    inputs = layers.Input((8, 8, 1))
    x = layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    x = layers.Add()([x, layers.DepthwiseConv2D(3, padding="same")(x)])
    model = tf.keras.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling2D()(x)))
    model.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True), tf.keras.losses.Huber())
    return model


def recurrent(tf):
    layers = tf.keras.layers
    recurrent = layers.Bidirectional(layers.GRU(4, kernel_regularizer="l2"))
    model = tf.keras.Sequential(
        [layers.Input((64, 1)), recurrent, layers.LayerNormalization(), layers.Dense(2, trainable=True)]
    )
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.9)
    model.compile(
        tf.keras.optimizers.RMSprop(schedule, centered=True, momentum=0.5), tf.keras.losses.MeanAbsoluteError()
    )
    return model


MODELS = {"dense": (dense, (64,)), "convolutions": (convolutions, (8, 8, 1)), "recurrent": (recurrent, (64, 1))}


def trained(model, shape, steps):
    x = NUMBERS.reshape(32, *shape)
    y = np.stack([NUMBERS[:32], NUMBERS[-32:]], axis=1)
    return [model.train_on_batch(x, y, return_dict=True)["loss"] for _ in range(steps)]


def predicted(model, shape):
    return model.predict(NUMBERS.reshape(32, *shape), verbose=0)


def assert_same(left, right):
    """Without the states of seeds, which files don't hold."""
    for ours, theirs in zip(left, right, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def given_again(tf, make, path):
    if not path.endswith(".weights.h5"):
        return tf.keras.models.load_model(path)
    model = make(tf)
    model.optimizer.build(model.trainable_variables)
    model.load_weights(path)
    return model


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("writer", SIDES)
def test_what_one_writes_the_other_reads(writer, name, ending, tmp_path):
    make, shape = MODELS[name]
    (reader,) = SIDES.keys() - {writer}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(SIDES[writer])
        trained(model, shape, 3)
        path = str(tmp_path / f"model{ending}")
        (model.save_weights if ending == ".weights.h5" else model.save)(path)
        other = given_again(SIDES[reader], make, path)
    assert type(other).__module__.startswith("keras." if reader == "tensorflow" else "tvtf.keras")
    assert_same(model.weights, other.weights)
    np.testing.assert_allclose(predicted(other, shape), predicted(model, shape), rtol=1e-4, atol=1e-5)
    if ending == ".h5":
        return  # Keras 3 itself forgets an optimizer's state in these files
    assert_same(model.optimizer.variables, other.optimizer.variables)
    np.testing.assert_allclose(trained(other, shape, 3), trained(model, shape, 3), rtol=1e-4)
    np.testing.assert_allclose(predicted(other, shape), predicted(model, shape), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("writer", SIDES)
def test_checkpoints_hold_models_and_optimizers(writer, name, tmp_path):
    make, shape = MODELS[name]
    (reader,) = SIDES.keys() - {writer}
    model, other = make(SIDES[writer]), make(SIDES[reader])
    trained(model, shape, 3), trained(other, shape, 1)
    path = str(tmp_path / "ckpt")
    SIDES[writer].train.Checkpoint(root=model).write(path)
    SIDES[reader].train.Checkpoint(root=other).read(path).expect_partial()
    assert_same(model.weights, other.weights)
    np.testing.assert_allclose(trained(other, shape, 3), trained(model, shape, 3), rtol=1e-4)
