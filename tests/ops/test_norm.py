"""Normalisation: statistics, both modes of batch normalisation, errors."""

import numpy as np
import pytest
from error_texts import eager_error_text, error_text

import tvtf as tf
from tvtf.ops.batch_norm import group_norm


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_moments_keep_dims_or_not():
    x = array(2, 3, 4)
    mean, variance = tf.nn.moments(x, [0, 2])
    np.testing.assert_allclose(mean.numpy(), x.mean((0, 2)))
    np.testing.assert_allclose(variance.numpy(), x.var((0, 2)))
    assert tf.nn.moments(x, [0, 2], keepdims=True)[1].shape == (1, 3, 1)


def test_moments_of_half_compute_in_float32():
    x = np.full(3000, 40, np.float16)
    mean, variance = tf.nn.moments(x, [0])
    assert mean.dtype is tf.float16 and mean.numpy() == 40 and variance.numpy() == 0


def test_layer_norm_over_several_axes_eagerly_and_compiled():
    x, scale, offset = array(2, 3, 4), array(3, 4, seed=1), array(3, 4, seed=2)
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-3) * scale + offset
    np.testing.assert_allclose(tf.nn.layer_norm(x, scale, offset, axis=[1, 2]).numpy(), expected, rtol=1e-12)
    compiled = tf.function(lambda x: tf.nn.layer_norm(x, scale, offset, axis=1))
    np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-12)


def test_layer_norm_gradient_leaves_mean_and_scale_of_rows_alone():
    """Adding to a row, or scaling it where epsilon is 0, changes nothing: the gradient is orthogonal to both."""
    x, weights = tf.constant(array(2, 5)), array(2, 5, seed=3)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.layer_norm(x, np.ones(5), np.zeros(5), epsilon=0.0)
    found = tape.gradient(y, x, output_gradients=tf.constant(weights)).numpy()
    np.testing.assert_allclose(found.sum(1), 0, atol=1e-12)
    np.testing.assert_allclose((found * x.numpy()).sum(1), 0, atol=1e-12)


def test_layer_norm_rejects_inner_axes_and_wrong_scales():
    x = array(2, 3, 4)
    message = error_text(ValueError, lambda: tf.nn.layer_norm(x, [1.0], [0.0], axis=[1]))
    assert message == "layer_norm: axis must be the last axes of rank 3, but got [1]: transpose first"
    message = eager_error_text(lambda: tf.nn.layer_norm(x, np.ones(3), np.zeros(4)))
    assert message == "scale must have shape (4,), but got (3,) [Op:LayerNorm]"


def test_fused_batch_norm_trains_with_biased_and_keeps_unbiased_variance():
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2, 1)
    options = {"mean": [10.0], "variance": [20.0], "exponential_avg_factor": 0.5}
    y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, [1.0], [0.0], **options)
    np.testing.assert_allclose(y.numpy().var(), 1, rtol=1e-3)
    assert mean.numpy().tolist() == [6.75] and variance.numpy().tolist() == [13]


def test_fused_batch_norm_infers_with_given_statistics_in_both_layouts():
    x = array(1, 2, 2, 3).astype(np.float32)
    options = {"mean": [0.0, 1, 2], "variance": [1.0, 2, 3], "is_training": False, "epsilon": 1e-4}
    last, *_ = tf.compat.v1.nn.fused_batch_norm(x, np.ones(3, "f"), np.zeros(3, "f"), **options)
    expected = (x - [0, 1, 2]) / np.sqrt(np.array([1, 2, 3]) + 1e-4)
    np.testing.assert_allclose(last.numpy(), expected, rtol=1e-4, atol=1e-6)
    turned = x.transpose(0, 3, 1, 2)
    first, *_ = tf.compat.v1.nn.fused_batch_norm(
        turned, np.ones(3, "f"), np.zeros(3, "f"), data_format="NCHW", **options
    )
    np.testing.assert_allclose(first.numpy().transpose(0, 2, 3, 1), last.numpy(), rtol=1e-6)


def test_fused_batch_norm_errors():
    x = np.zeros((1, 2, 2, 3), np.float32)
    fused = tf.compat.v1.nn.fused_batch_norm
    message = error_text(ValueError, lambda: fused(x, np.ones(3, "f"), np.zeros(3, "f"), is_training=False))
    assert message == (
        "Both `mean` and `variance` must be a 1D tensor when `is_training` is False. Received: mean=None, variance=None"
    )
    message = eager_error_text(lambda: fused(x, np.ones(2, "f"), np.zeros(3, "f")))
    assert message == "scale must have shape (3,): one value per channel, but got (2,) [Op:FusedBatchNormV3]"


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm_standardises_each_group(groups):
    y = group_norm(array(2, 5, 4), None, None, groups, epsilon=0.0).numpy().reshape(2, 5, groups, 4 // groups)
    np.testing.assert_allclose(y.mean((1, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(y.var((1, 3)), 1)


def test_local_response_normalization_by_definition():
    x = array(1, 2, 2, 5)
    squares = np.stack([np.square(x[..., max(0, c - 1) : c + 2]).sum(-1) for c in range(5)], -1)
    y = tf.nn.local_response_normalization(x, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75)
    np.testing.assert_allclose(y.numpy(), x / (2 + 0.5 * squares) ** 0.75, rtol=1e-6)
    message = eager_error_text(lambda: tf.nn.local_response_normalization(x[0]))
    assert message == "in must be 4-dimensional [Op:LRN]"


def test_l2_normalize_of_zeros_is_zero():
    assert tf.math.l2_normalize([0.0, 0.0]).numpy().tolist() == [0, 0]


def test_l2_normalize_of_complex():
    result = tf.math.l2_normalize(np.array([3j, 4], np.complex128)).numpy()
    np.testing.assert_allclose(result, [0.6j, 0.8])
