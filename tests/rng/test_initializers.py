"""tvtf's own initializers, which ``tf.initializers`` has without Keras: constants, scaling, names.

The numbers of random ones are compared in test_optimizers.py's goldens.
"""

import numpy as np
import pytest

import tvtf as tf
from tvtf.rng import keras_initializers as initializers


def test_constant_ones():
    assert initializers.Zeros()((2,)).numpy().tolist() == [0, 0]
    assert initializers.Ones()((2,), "int32").numpy().tolist() == [1, 1]
    assert initializers.Constant([1.0, 2.0])((2, 2)).numpy().tolist() == [[1, 2], [1, 2]]
    assert initializers.Identity(3.0)((2, 3)).numpy().tolist() == [[3, 0, 0], [0, 3, 0]]


def test_legacy_names():
    assert tf.zeros_initializer()((1,)).numpy() == tf.ones_initializer()((1,)).numpy() - 1
    assert tf.constant_initializer(7)((), "int64").numpy() == 7
    uniform = tf.random_uniform_initializer(-1.0, 1.0, seed=2)((50,)).numpy()
    assert uniform.min() < -0.5 and uniform.max() > 0.5
    assert tf.random_normal_initializer(seed=2)((50,)).numpy().std() < 0.1


@pytest.mark.parametrize("name", ["glorot_uniform", "HeNormal", "lecun_uniform", "orthogonal", "uniform", "zero"])
def test_by_name_and_configuration(name):
    made = initializers.get(name)
    again = initializers.deserialize(initializers.serialize(made))
    assert type(again) is type(made) and again.get_config() == made.get_config()
    assert initializers.get(name)((3, 4)).shape == (3, 4)


def test_get_takes_what_keras_takes():
    assert initializers.get(None) is None
    assert isinstance(initializers.get(initializers.Ones), initializers.Ones)
    value = np.array([1.0, 2.0], np.float32)
    assert initializers.get(value)((2,), "float64").numpy().tolist() == [1, 2]
    with pytest.raises(ValueError) as caught:
        initializers.get(value)((3,))
    assert str(caught.value) == "Expected `shape` to be (2,) for direct tensor as initializer. Received shape=(3,)"


def test_seeds_repeat_and_instances_differ():
    one = initializers.HeUniform(seed=1)
    np.testing.assert_array_equal(one((3, 3)), one((3, 3)))
    np.testing.assert_array_equal(one((3, 3)), one.clone()((3, 3)))
    assert (initializers.HeUniform()((3, 3)).numpy() != initializers.HeUniform()((3, 3)).numpy()).any()


def test_global_seed_repeats_what_has_no_seed():
    tf.random.set_seed(3)
    first = [initializers.GlorotNormal()((4,)).numpy() for _ in range(2)]
    tf.random.set_seed(3)
    np.testing.assert_array_equal(initializers.GlorotNormal()((4,)), first[0])
    assert (first[0] != first[1]).all()


RANDOM = ["GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform", "Orthogonal"]
RANDOM += ["RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling"]


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("classes", [initializers, tf.initializers], ids=["own", "Keras's"])
def test_compiled_weights_are_the_same_bits(classes, name):
    def weights():
        return getattr(classes, name)(seed=3)((40, 30))

    np.testing.assert_array_equal(tf.function(weights)(), weights())


def test_orthogonal_columns_or_rows():
    tall, wide = (initializers.Orthogonal(seed=1)(shape).numpy() for shape in ((6, 2), (2, 6)))
    np.testing.assert_allclose(tall.T @ tall, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(wide @ wide.T, np.eye(2), atol=1e-6)


def test_inside_a_function_they_initialize_variables():
    made = []

    @tf.function
    def double(x):
        if not made:
            made.append(tf.Variable(lambda: initializers.GlorotUniform(seed=1)((2, 2))))
        return x * made[0]

    np.testing.assert_array_equal(double(tf.constant(2.0)), 2 * initializers.GlorotUniform(seed=1)((2, 2)).numpy())


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: initializers.VarianceScaling(0.0), "Argument `scale` must be positive float. Received: scale=0.0"),
        (
            lambda: initializers.VarianceScaling(mode="fan"),
            "Invalid `mode` argument: fan. Please use one of ('fan_avg', 'fan_in', 'fan_out')",
        ),
        (
            lambda: initializers.VarianceScaling(distribution="x"),
            "Invalid `distribution` argument: x. Please use one of ('truncated_normal', 'uniform', 'untruncated_normal')",
        ),
        (
            lambda: initializers.Identity()((2,)),
            "Identity matrix initializer can only be used for 2D matrices. Received: shape=(2,) of rank 1.",
        ),
        (
            lambda: initializers.Orthogonal()((2,)),
            "The tensor to initialize must be at least two-dimensional. Received: shape=(2,) of rank 1.",
        ),
        (lambda: initializers.RandomNormal(seed="a"), "`seed` argument should be an integer. Received: seed=a"),
        (lambda: initializers.get(3), "Could not interpret initializer identifier: 3"),
    ],
)
def test_bad_arguments_are_rejected(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_unknown_names_are_rejected():
    with pytest.raises(ValueError, match="Unknown initializer 'nobody': expected one of"):
        initializers.get("nobody")
    with pytest.raises(NotImplementedError, match="must implement the `__call__\\(\\)` method."):
        initializers.Initializer()((2,))
