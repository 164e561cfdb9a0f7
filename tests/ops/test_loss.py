"""Losses at the edges: infinities, NaN, labels out of range, shapes; dropout, bias and embeddings."""

import math

import numpy as np
import pytest
from error_texts import eager_error_text, error_text, traced_error_text

import tvtf as tf


def test_softmax_of_extremes():
    rows = np.array([[1e38, -1e38], [-np.inf, 0], [np.inf, 0], [-np.inf, -np.inf], [np.nan, 0]], np.float32)
    expected = [[1, 0], [0, 1], [np.nan] * 2, [np.nan] * 2, [np.nan] * 2]
    compiled = tf.function(tf.nn.softmax)(rows).numpy()
    np.testing.assert_array_equal(compiled, expected)
    eager = tf.nn.softmax(rows).numpy()
    np.testing.assert_array_equal(eager[[0, 1, 3, 4]], np.array(expected)[[0, 1, 3, 4]])


def test_softmax_errors():
    message = eager_error_text(lambda: tf.nn.softmax(np.zeros((2, 3), "f"), axis=2))
    assert message == (
        "`dim` must be in the range [-2, 2) where 2 is the number of dimensions in the input. Received: dim=2 "
        "[Op:Softmax]"
    )
    message = eager_error_text(lambda: tf.nn.softmax(tf.constant([1, 2])))
    assert message.startswith("Value for attr 'T' of int32 is not in the list of allowed values: ")


def test_cross_entropy_of_huge_logits_is_exact():
    logits = tf.constant([[1e4, -1e4]])
    assert tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], logits).numpy().tolist() == [2e4]
    assert tf.nn.sparse_softmax_cross_entropy_with_logits([1], logits).numpy().tolist() == [2e4]


def test_cross_entropy_gradient_is_probability_less_label():
    logits = tf.constant([[0.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.softmax_cross_entropy_with_logits([[1.0, 0.0]], logits)
    np.testing.assert_allclose(tape.gradient(loss, logits).numpy(), [[-0.5, 0.5]])


def test_cross_entropy_gradient_for_labels():
    labels = tf.constant([[1.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(labels)
        loss = tf.nn.softmax_cross_entropy_with_logits(labels, [[0.0, 0.0]])
    np.testing.assert_allclose(tape.gradient(loss, labels).numpy(), [[math.log(2)] * 2], rtol=1e-6)


def test_cross_entropy_broadcasts_and_casts_labels():
    result = tf.nn.softmax_cross_entropy_with_logits(np.array([[1, 0]]), tf.constant([[0.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_allclose(result.numpy(), [math.log(2)] * 2, rtol=1e-6)


def test_cross_entropy_along_another_axis():
    labels, logits = np.eye(3, 2).astype("f"), np.random.default_rng(0).normal(size=(3, 2)).astype("f")
    along = tf.nn.softmax_cross_entropy_with_logits(labels, logits, axis=0)
    turned = tf.nn.softmax_cross_entropy_with_logits(labels.T, logits.T)
    np.testing.assert_array_equal(along.numpy(), turned.numpy())


def test_cross_entropy_rejects_shapes():
    message = eager_error_text(lambda: tf.nn.softmax_cross_entropy_with_logits(np.eye(2, 3), np.eye(2, 4)))
    expected = "logits and labels must be broadcastable: logits_size=[2,4] labels_size=[2,3]"
    assert message == f"{expected} [Op:SoftmaxCrossEntropyWithLogits]"


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range(label):
    logits = tf.constant([[1.0, 2.0, 3.0]])
    expected = f"Received a label value of {label} which is outside the valid range of [0, 3).  Label values: {label}"
    message = eager_error_text(lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([label], logits))
    assert message == f"{expected} [Op:SparseSoftmaxCrossEntropyWithLogits]"
    expected = "Received a label value which is outside the valid range of [0, 3)."
    compiled = tf.function(tf.nn.sparse_softmax_cross_entropy_with_logits)
    assert eager_error_text(lambda: compiled(tf.constant([label]), logits)).startswith(expected)


def test_sparse_labels_that_do_not_fit():
    logits = np.zeros((2, 3), "f")
    message = error_text(ValueError, lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([0], logits))
    assert message == (
        "`labels.shape` must equal `logits.shape` except for the last dimension. "
        "Received: labels.shape=(1,) and logits.shape=(2, 3)"
    )
    message = error_text(ValueError, lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([[0]], logits))
    assert message == (
        "`labels.shape.rank` must equal `logits.shape.rank - 1`. "
        "Received: labels.shape=(1, 1) of rank 2 and logits.shape=(2, 3) of rank 2"
    )


def test_sigmoid_cross_entropy_does_not_overflow():
    loss = tf.nn.sigmoid_cross_entropy_with_logits([1.0, 0.0, 0.5], [-1000.0, 1000.0, 0.0])
    np.testing.assert_allclose(loss.numpy(), [1000, 1000, math.log(2)], rtol=1e-6)
    message = error_text(ValueError, lambda: tf.nn.sigmoid_cross_entropy_with_logits([1.0], [1.0, 2.0]))
    assert message == "`logits` and `labels` must have the same shape, received ((2,) vs (1,))."


@pytest.mark.parametrize("weight, slope", [(None, -0.5), (3.0, -1.5)])
def test_gradient_at_logit_zero(weight, slope):
    logits = tf.constant([0.0])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        if weight is None:
            loss = tf.nn.sigmoid_cross_entropy_with_logits([1.0], logits)
        else:
            loss = tf.nn.weighted_cross_entropy_with_logits([1.0], logits, weight)
    assert tape.gradient(loss, logits).numpy().tolist() == [slope]


def test_dropout_scales_what_it_keeps():
    numbers = lambda shape, dtype: tf.constant([0.1, 0.25, 0.9])  # noqa: E731
    y = tf.nn.experimental.general_dropout(tf.constant([1.0, 2.0, 3.0]), 0.25, numbers)
    np.testing.assert_allclose(y.numpy(), [0, 8 / 3, 4], rtol=1e-6)


def test_dropout_with_a_noise_shape_drops_whole_rows():
    y = tf.nn.experimental.stateless_dropout(np.ones((8, 3), "f"), 0.5, [1, 2], noise_shape=[None, 1]).numpy()
    assert set(y.sum(1).tolist()) == {0.0, 6.0}


def test_dropout_errors():
    message = error_text(ValueError, lambda: tf.nn.dropout([1.0], 1.0))
    assert message == "`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate=1.0"
    message = error_text(ValueError, lambda: tf.nn.dropout([1], 0.5))
    assert message == (
        "`x.dtype` must be a floating point tensor as `x` will be scaled. Received: x_dtype=<dtype: 'int32'>"
    )


def test_bias_goes_to_the_channels():
    x = np.zeros((1, 2, 2, 3), np.int32)
    assert tf.nn.bias_add(x, [1, 2, 3]).numpy()[0, 0, 0].tolist() == [1, 2, 3]
    assert tf.nn.bias_add(x, [1, 2], data_format="NCHW").numpy()[0, :, 0, 0].tolist() == [1, 2]


def test_bias_errors():
    x = np.zeros((2, 3), "f")
    message = eager_error_text(lambda: tf.nn.bias_add(x, [0.0, 0.0]))
    assert (
        message == "Must provide as many biases as the last dimension of the input tensor: [2] vs. [2,3] [Op:BiasAdd]"
    )
    message = traced_error_text(lambda: tf.nn.bias_add(x, [0.0, 0.0]))
    assert message == "Dimensions must be equal, but are 3 and 2 for BiasAdd with input shapes: [2,3], [2]."
    message = error_text(ValueError, lambda: tf.nn.bias_add(x, [0.0], data_format="X"))
    assert message == "`data_format` must be of the form `N...C` or `NC...`. Received: data_format=X"


def test_embeddings_are_clipped_to_a_norm():
    y = tf.nn.embedding_lookup(tf.constant([[3.0, 4.0], [0.3, 0.4]]), [0, 1], max_norm=1.0)
    np.testing.assert_allclose(y.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_causal_attention_sees_no_later_key():
    random = np.random.default_rng(0)
    q, k, v = (tf.constant(random.normal(size=(2, 4, 3)).astype("f")) for _ in range(3))
    whole = tf.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
    part = tf.nn.scaled_dot_product_attention(q[:, :2], k[:, :2], v[:, :2], is_causal=True)
    np.testing.assert_allclose(whole[:, :2].numpy(), part.numpy(), rtol=1e-6)
