"""Fusion of two sums into one pass: where gradients of norms have them, with the same values, and where it must not happen."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.passes.graph.fuse_two_sums import pair_sums
from tvtf.passes.graph.simplify import simplify

X, G = np.random.default_rng(0).normal(size=(2, 60, 5, 33)).astype("float32")
SCALE = np.linspace(0.5, 1.5, 33, dtype="float32")


def paired(function, *arguments) -> int:
    module = tf.function(function, autograph=False).get_concrete_function(*arguments).module()
    return pair_sums(simplify(module)).script().count("tvtf.paired_sums")


def norm_gradients(x, g, scale):
    with tf.GradientTape() as tape:
        tape.watch([x, scale])
        mean, variance = tf.nn.moments(x, [0, 1])
        y = tf.nn.batch_normalization(x, mean, variance, scale, scale, 1e-3)
    return tape.gradient(y, [x, scale], output_gradients=g)


def test_the_gradient_of_a_batch_norm_sums_once():
    arguments = [tf.constant(value) for value in (X, G, SCALE)]
    assert paired(norm_gradients, *arguments) == 1
    found = tf.function(norm_gradients, autograph=False)(*arguments)
    for a, b in zip(found, norm_gradients(*arguments)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def both(x, g):
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(x * g, [0, 1])


def products_first(x, g):
    return tf.reduce_sum(x * g, [0, 1]), tf.reduce_sum(g, [0, 1])


@pytest.mark.parametrize("sums", [both, products_first])
def test_two_sums(sums):
    x, g = tf.constant(X), tf.constant(G)
    assert paired(sums, x, g) == 1
    for a, b in zip(tf.function(sums, autograph=False)(x, g), sums(x, g)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_sizes_that_the_program_computes_stay():
    def sums(x, g, n):
        return *both(x, g), tf.ones([n, 2])

    arguments = tf.constant(X), tf.constant(G), tf.constant(3)
    assert paired(sums, *arguments) == 1
    assert tf.function(sums, autograph=False)(*arguments)[2].shape == [3, 2]


def of_other_axes(x, g):
    return tf.reduce_sum(g, [0]), tf.reduce_sum(x * g, [0, 1])


def of_rows(x, g):
    return tf.reduce_sum(g, [2]), tf.reduce_sum(x * g, [2])


def of_products_read_again(x, g):
    product = x * g
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(product, [0, 1]), product


def of_what_is_made_for_the_sum(x, g):
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(tf.sin(x) * g, [0, 1])


def before_the_other_operand(x, g):
    total = tf.reduce_sum(g, [0, 1])
    other = x + total
    return total, tf.reduce_sum(other * g, [0, 1]), other


@pytest.mark.parametrize(
    "sums",
    [of_other_axes, of_rows, of_products_read_again, of_what_is_made_for_the_sum, before_the_other_operand],
    ids=lambda f: f.__name__,
)
def test_other_sums_stay(sums):
    assert paired(sums, tf.constant(X), tf.constant(G)) == 0
