"""Pooling: ties, padding, NaN, dilated windows, second derivatives, errors."""

import numpy as np
import pytest
from covering import covering
from error_texts import eager_error_text, error_text

import tvtf as tf


def both(function, *inputs):
    """The result of a function, the same eagerly and compiled."""
    eager = function(*inputs).numpy()
    np.testing.assert_array_equal(tf.function(function)(*inputs).numpy(), eager)
    return eager


def row(*values):
    return tf.constant(np.array(values, np.float32).reshape(1, -1, 1))


def test_padding_counts_neither_as_maximum_nor_in_a_mean():
    x = row(-1, -2, -3)
    assert both(lambda x: tf.nn.max_pool1d(x, 2, 2, "SAME"), x).ravel().tolist() == [-1, -3]
    assert both(lambda x: tf.nn.avg_pool1d(x, 2, 2, "SAME"), x).ravel().tolist() == [-1.5, -3]


def test_nan_is_the_largest():
    x = row(np.nan, 1, 3, np.nan, -np.inf, -np.inf)
    result = both(lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), x).ravel()
    np.testing.assert_array_equal(result, np.array([np.nan, np.nan, -np.inf], np.float32))


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_nan_in_sixteen_bits(dtype):
    x = tf.cast(row(np.nan, 1, 3, 2), dtype)
    result = tf.function(lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"))(x)
    np.testing.assert_array_equal(result.numpy().astype(np.float32).ravel(), np.array([np.nan, 3], np.float32))


def gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.max_pool1d(x, 2, 2, "VALID")
    return tape.gradient(y, x)


def test_of_equal_values_the_first_gets_the_gradient():
    assert both(gradient, row(1, 1, 0, 2)).ravel().tolist() == [1, 0, 0, 1]


@covering(
    sizes=[((2, 2), (2, 2)), ((3, 2), (2, 1)), ((2, 3), (3, 4)), ((1, 1), (2, 3))],
    kind=["AVG", "MAX"],
)
def test_gradients_for_images_of_unknown_size(sizes, kind):
    window, strides = sizes

    def gradients(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.nn.pool(x, window, kind, strides, "VALID") ** 2
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    compiled = tf.function(gradients, input_signature=[tf.TensorSpec([None, None, None, 3])])
    for seed, (height, width) in enumerate([(3, 3), (4, 7), (9, 6), (16, 33)]):
        x = tf.constant(np.random.default_rng(seed).normal(size=(2, height, width, 3)).astype(np.float32))
        for found, wanted in zip(compiled(x), gradients(x)):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_integers():
    x = np.array([-3, -1, 5, 4], np.int32).reshape(1, 4, 1)
    assert both(lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), x).ravel().tolist() == [-1, 5]


def test_second_derivative_of_a_squared_maximum():
    x = tf.constant(np.array([1.0, 3.0, 2.0, 5.0]).reshape(1, 4, 1))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.nn.max_pool1d(x, 2, 2, "VALID") ** 3
        first = inner.gradient(y, x)
    np.testing.assert_allclose(first.numpy().ravel(), [0, 27, 0, 75])
    np.testing.assert_allclose(outer.gradient(first, x).numpy().ravel(), [0, 18, 0, 30])


@pytest.mark.parametrize("least", [-np.inf, np.finfo(np.float32).min])
def test_windows_of_nothing_but_least_values_give_their_padding_no_gradient(least):
    def gradient_of_all(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.max_pool2d(x, 3, 1, "SAME")
        return tape.gradient(y, x)

    found = both(gradient_of_all, tf.constant(np.full((1, 3, 3, 1), least, np.float32)))
    assert found.ravel().tolist() == [4, 2, 0, 2, 1, 0, 0, 0, 0]


def test_overlapping_windows_add_their_gradients():
    x = row(1, 5, 2)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.max_pool1d(x, 2, 1, "VALID")
    assert tape.gradient(y, x).numpy().ravel().tolist() == [0, 2, 0]


def test_channels_first_and_unknown_batch():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)
    signature = [tf.TensorSpec([None, 3, 4, 4])]
    run = tf.function(lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID", data_format="NCHW"), input_signature=signature)
    expected = x.reshape(2, 3, 2, 2, 2, 2).mean((3, 5))
    np.testing.assert_allclose(run(x).numpy(), expected, rtol=1e-6)


def test_dilated_windows():
    x = row(1, 7, 3, 2, 9)
    assert both(lambda x: tf.nn.pool(x, [2], "MAX", dilations=[2]), x).ravel().tolist() == [3, 7, 9]
    assert both(lambda x: tf.nn.pool(x, [2], "AVG", dilations=[3]), x).ravel().tolist() == [1.5, 8]


def test_every_rank():
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    assert tf.nn.max_pool(x, 2, 2, "VALID").numpy().ravel().tolist() == [5, 7, 13, 15]
    cube = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2, 1)
    assert tf.nn.max_pool3d(cube, 2, 2, "VALID").numpy().ravel().tolist() == [7]
    assert tf.nn.avg_pool(cube, 2, 2, "VALID").numpy().ravel().tolist() == [3.5]


X = np.zeros((1, 4, 4, 2), np.float32)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: tf.nn.max_pool2d(X, 5, 2, "VALID"),
            "Computed output size would be negative: -1 [input_size: 4, effective_filter_size: 5, stride: 2] "
            "[Op:MaxPool]",
        ),
        (lambda: tf.nn.max_pool2d(X, 0, 2, "VALID"), "Sliding window ksize must be > 0, but got 0 [Op:MaxPool]"),
        (
            lambda: tf.nn.max_pool2d(X, 2, 2, [[0, 0], [1, 1], [2, 2], [0, 0]]),
            "Left padding 2 needs to be smaller than the window size 2 [Op:MaxPool]",
        ),
        (
            lambda: tf.nn.max_pool2d(X[0], 2, 2, "VALID"),
            "Input must be 4-dimensional, but got shape (4, 4, 2) [Op:MaxPool]",
        ),
    ],
)
def test_errors(call, message):
    assert eager_error_text(call) == message


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tf.nn.pool(X, [2, 2], "MIN"), "2-D MIN pooling is not supported."),
        (
            lambda: tf.nn.max_pool(X[0, 0], 2, 2, "SAME"),
            "`input.shape.rank` must be 3, 4 or 5. Received: input.shape=(4, 2) of rank 2.",
        ),
        (
            lambda: tf.nn.pool(X, [2, 2], "MAX", padding="SAME", dilations=[2, 2]),
            "pooling with 'SAME' padding is not implemented for `dilation_rate` > 1. "
            "Received: padding=SAME and dilation_rate=[2, 2]",
        ),
    ],
)
def test_rejected_with_a_value_error(call, message):
    assert error_text(ValueError, call) == message
