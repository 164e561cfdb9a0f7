"""Convolutions of images smaller than the tiles that their kernels compute."""

import numpy as np
import pytest

import tvtf as tf

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("channels", [32, 128])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 3), (5, 2), (2, 16), (3, 9)])
def test_results_stay_inside_their_array(size, channels):
    """TVTF_CHECK refuses stores outside: Winograd's tiles wrote their rest behind images of 3 by 3 pixels."""
    images = RNG.normal(size=(32, *size, channels)).astype(np.float32)
    kernel = RNG.normal(size=(3, 3, channels, 64)).astype(np.float32)

    def convolved(x):
        return tf.nn.relu(tf.nn.conv2d(x, tf.constant(kernel), 1, "SAME"))

    found = tf.function(convolved)(tf.constant(images))
    np.testing.assert_allclose(found, convolved(tf.constant(images)), rtol=1e-3, atol=2e-3)
