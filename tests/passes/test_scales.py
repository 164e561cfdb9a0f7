"""Factors of convolutions' results move into constant filters, and constants are computed apart from what reads them."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.passes.graph.fold_batch_norm import fold_scales

RNG = np.random.default_rng(5)


def values(*shape):
    return tf.constant(RNG.uniform(0.5, 1.5, shape).astype(np.float32))


def normed(groups):
    """A convolution to 72 results and its norm, of constants."""
    w, mean, variance, offset, scale = values(3, 3, 72 // groups, 72), *(values(72) for _ in range(4))

    def function(x):
        if groups > 1:
            y = tf.nn.depthwise_conv2d(x, tf.reshape(w, (3, 3, 72, 1)), (1, 1, 1, 1), "SAME")
        else:
            y = tf.nn.conv2d(x, w, 1, "SAME")
        return tf.nn.relu(tf.nn.batch_normalization(y, mean, variance, offset, scale, 1e-3))

    return function


def folded(function, *arguments):
    return fold_scales(tf.function(function).get_concrete_function(*arguments).code().module()).script()


@pytest.mark.parametrize("groups", [1, 72])
def test_a_norm_of_constants_becomes_a_filter_and_an_offset(groups):
    x, function = values(2, 5, 6, 72), normed(groups)
    compiled = tf.function(function)
    np.testing.assert_allclose(compiled(x), function(x), rtol=1e-4, atol=1e-4)
    kernels = [kernel.name for kernel in compiled.profile(x).kernels if "conv" in kernel.name]
    assert len(kernels) == 1 and "multiply" not in kernels[0] and "negative" not in kernels[0]


def test_sizes_that_the_program_computes_stay():
    x, compute = values(2, 5, 6, 72), normed(1)
    _, rows = tf.function(lambda x, n: (compute(x), tf.ones([n, 2])))(x, tf.constant(3))
    assert rows.shape == [3, 2]


def test_a_factor_of_a_result_that_others_read_stays():
    x, w, scale = values(1, 4, 4, 8), values(3, 3, 8, 72), values(72)

    def function(x):
        y = tf.nn.conv2d(x, w, 1, "SAME")
        return y * scale + y

    assert folded(function, x).count("tvtf.multiply") == 1
    np.testing.assert_allclose(tf.function(function)(x), function(x), rtol=1e-4)


@pytest.mark.parametrize("shape", [(6, 1), (1, 4, 6, 72), ()])
def test_a_factor_that_is_not_one_a_result_stays(shape):
    x, w, scale = values(1, 4, 6, 8), values(3, 3, 8, 72), tf.identity(values(*shape))

    def function(x):
        return tf.nn.conv2d(x, w, 1, "SAME") * tf.reshape(scale, shape)

    assert "tvtf.multiply" not in folded(function, x).split("tvtf.conv")[0]
    np.testing.assert_allclose(tf.function(function)(x), function(x), rtol=1e-4)


def test_a_variable_s_factor_stays():
    x, w, scale = values(1, 4, 4, 8), values(3, 3, 8, 72), tf.Variable(np.ones(72, np.float32))
    product = tf.function(lambda x: tf.nn.conv2d(x, w, 1, "SAME") * scale)
    before = product(x).numpy()
    scale.assign(scale + 1)
    np.testing.assert_allclose(product(x), 2 * before, rtol=1e-5)


def test_a_large_thing_made_of_constants_is_made_where_it_is_read():
    row, x = values(100), values(300, 100)
    summed = tf.function(lambda x: x + tf.broadcast_to(tf.exp(row), (300, 100)))
    np.testing.assert_allclose(summed(x), x + np.exp(row), rtol=1e-5)


def test_a_scaled_filter_is_still_packed_once():
    x, function = values(1, 9, 9, 72), normed(1)
    compiled = tf.function(function)
    compiled(x)
    prepared = compiled.get_concrete_function(x)._compiled.code().prepared
    assert max(np.prod(each.shape) for each in prepared) >= 9 * 72 * 72
