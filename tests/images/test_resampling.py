"""Resizing by weights of a few rows equals the product with the matrix of weights, gradients included."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.images.resampling import DENSE, Taps, taps, weights

METHODS = ["bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("size", "to"), [(7, 50), (50, 7), (50, 50), (1, 9), (9, 1), (64, 63)])
def test_taps_are_the_matrix(method, antialias, size, to):
    matrix = weights(method, antialias, size, to)
    for each in (matrix, matrix.T):
        places, shares = Taps.of(each)
        found = np.zeros_like(each)
        np.add.at(found, (np.arange(len(each))[:, None], places), shares)
        np.testing.assert_array_equal(found, each)


@pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["eager", "compiled"])
@pytest.mark.parametrize(("method", "size", "to"), [("bilinear", (20, 30), (41, 24)), ("area", (40, 32), (5, 3))])
def test_resized_and_back(run, method, size, to):
    x = np.random.default_rng(0).normal(size=(2, *size, 3)).astype(np.float32)
    ct = np.random.default_rng(1).normal(size=(2, *to, 3)).astype(np.float32)
    rows, columns = (weights(method, False, a, b).astype(np.float64) for a, b in zip(size, to))

    @run
    def resized(x, ct):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.image.resize(x, to, method)
        return y, tape.gradient(y, x, ct)

    y, gradient = resized(tf.constant(x), tf.constant(ct))
    np.testing.assert_allclose(y.numpy(), np.einsum("ih,jw,nhwc->nijc", rows, columns, x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient.numpy(), np.einsum("ih,jw,nijc->nhwc", rows, columns, ct), rtol=1e-5, atol=1e-5)


def test_many_taps_are_left_to_a_product():
    assert taps("bilinear", True, 64, 2) is None
    few = taps("bilinear", False, 64, 128)
    assert few is not None and few[0].shape[1] * DENSE <= 64


def test_resizing_is_mapped_over_an_axis():
    x = np.random.default_rng(2).normal(size=(3, 1, 16, 16, 2)).astype(np.float32)
    found = tf.vectorized_map(lambda image: tf.image.resize(image, [24, 20]), tf.constant(x))
    np.testing.assert_allclose(found[1].numpy(), tf.image.resize(x[1], [24, 20]).numpy(), rtol=1e-6, atol=1e-6)
