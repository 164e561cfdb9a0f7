"""Convolutions: layouts, padding, transposes, second derivatives, errors."""

import numpy as np
import pytest
from error_texts import eager_error_text, error_text, traced_error_text

import tvtf as tf


def arrays(*shapes, seed=0):
    random = np.random.default_rng(seed)
    return [tf.constant(random.normal(size=shape)) for shape in shapes]


def direct(x, w, stride):
    """A valid 2-D convolution by its definition."""
    (_, height, width, _), (kh, kw, _, results) = x.shape, w.shape
    rows, columns = (height - kh) // stride + 1, (width - kw) // stride + 1
    y = np.zeros((len(x), rows, columns, results))
    for i in range(rows):
        for j in range(columns):
            patch = x[:, i * stride : i * stride + kh, j * stride : j * stride + kw]
            y[:, i, j] = np.tensordot(patch, w, 3)
    return y


@pytest.mark.parametrize("stride", [1, 2])
def test_conv2d_by_definition(stride):
    x, w = arrays((2, 5, 6, 3), (2, 3, 3, 4))
    expected = direct(x.numpy(), w.numpy(), stride)
    np.testing.assert_allclose(tf.nn.conv2d(x, w, stride, "VALID").numpy(), expected, atol=1e-12)
    compiled = tf.function(lambda x, w: tf.nn.conv2d(x, w, stride, "VALID"))
    np.testing.assert_allclose(compiled(x, w).numpy(), expected, atol=1e-12)


def test_same_padding_puts_the_odd_zero_behind():
    x = tf.constant([[[1.0], [2.0], [3.0], [4.0]]])
    w = tf.constant([[[1.0]], [[10.0]]])
    np.testing.assert_array_equal(tf.nn.conv1d(x, w, 1, "SAME").numpy().ravel(), [21, 32, 43, 4])
    np.testing.assert_array_equal(tf.nn.conv1d(x, w, 2, "SAME").numpy().ravel(), [21, 43])


def test_channels_first_is_the_same_convolution():
    x, w = arrays((1, 4, 5, 2), (3, 3, 2, 3))
    first = tf.nn.conv2d(tf.transpose(x, [0, 3, 1, 2]), w, 1, "SAME", data_format="NCHW")
    last = tf.nn.conv2d(x, w, 1, "SAME")
    np.testing.assert_allclose(tf.transpose(first, [0, 2, 3, 1]).numpy(), last.numpy(), atol=1e-12)


def test_groups_follow_from_the_channels():
    x, w = arrays((1, 4, 4, 4), (3, 3, 2, 6))
    halves = [tf.nn.conv2d(x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], 1, "SAME").numpy() for g in (0, 1)]
    np.testing.assert_allclose(tf.nn.conv2d(x, w, 1, "SAME").numpy(), np.concatenate(halves, -1), atol=1e-12)


def test_depthwise_keeps_channels_separate():
    x, w = arrays((1, 4, 4, 2), (2, 2, 2, 3))
    alone = [tf.nn.conv2d(x[..., c : c + 1], w[:, :, c : c + 1], 1, "VALID").numpy() for c in (0, 1)]
    y = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID")
    np.testing.assert_allclose(y.numpy(), np.concatenate(alone, -1), atol=1e-12)


def test_more_batch_axes_may_lead():
    x, w = arrays((2, 3, 4, 4, 1), (2, 2, 1, 1))
    y = tf.nn.conv2d(x, w, 1, "VALID")
    assert y.shape == (2, 3, 3, 3, 1)
    np.testing.assert_allclose(y[1].numpy(), tf.nn.conv2d(x[1], w, 1, "VALID").numpy(), atol=1e-12)


def test_unknown_batch_and_unknown_size_with_stride_one():
    x, w = arrays((2, 5, 4, 1), (3, 3, 1, 2))
    signature = [tf.TensorSpec([None, None, 4, 1], tf.float64)]
    compiled = tf.function(lambda x: tf.nn.conv2d(x, w, 1, "SAME"), input_signature=signature)
    np.testing.assert_allclose(compiled(x).numpy(), tf.nn.conv2d(x, w, 1, "SAME").numpy(), atol=1e-12)


def test_transposed_convolution_is_the_gradient_for_the_input():
    x, w, ct = arrays((1, 6, 5, 2), (3, 3, 2, 3), (1, 3, 3, 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.conv2d(x, w, 2, "SAME")
    back = tape.gradient(y, x, output_gradients=ct)
    np.testing.assert_allclose(tf.nn.conv2d_transpose(ct, w, [1, 6, 5, 2], 2).numpy(), back.numpy(), atol=1e-12)


def test_second_derivative_of_a_bilinear_map_is_itself():
    """``sum(conv(x, w))`` is linear in x and in w: its mixed second derivative along (u, v) is ``sum(conv(u, v))``."""
    x, w, u, v = arrays((1, 5, 4, 2), (2, 3, 2, 2), (1, 5, 4, 2), (2, 3, 2, 2))
    with tf.GradientTape() as outer:
        outer.watch(w)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(tf.nn.conv2d(x, w, 2, "SAME"))
        along = tf.reduce_sum(inner.gradient(y, x) * u)
    mixed = tf.reduce_sum(outer.gradient(along, w) * v)
    expected = tf.reduce_sum(tf.nn.conv2d(u, v, 2, "SAME"))
    np.testing.assert_allclose(mixed.numpy(), expected.numpy(), rtol=1e-12)


def test_half_sums_in_float32():
    x, w = np.ones((1, 1, 1, 5000), np.float16), np.ones((1, 1, 5000, 1), np.float16)
    assert tf.nn.conv2d(x, w, 1, "VALID").numpy() == 5000


X, W = np.zeros((1, 4, 4, 3), np.float32), np.zeros((2, 2, 2, 5), np.float32)


def test_depths_that_do_not_fit():
    expected = "input depth must be evenly divisible by filter depth: 3 vs 2 [Op:Conv2D]"
    assert eager_error_text(lambda: tf.nn.conv2d(X, W, 1, "SAME")) == expected
    expected = "Depth of input (3) is not a multiple of input depth of filter (2) for Conv2D"
    assert traced_error_text(lambda: tf.nn.conv2d(X, W, 1, "SAME")) == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"strides": [1, 2, 3]}, "strides should be of length 1, 2 or 4. Received: strides=[1, 2, 3] of length 3"),
        (
            {"padding": [[1, 0], [0, 0], [0, 0], [0, 0]]},
            "Nonzero explicit padding in the batch or depth dimensions is not supported",
        ),
    ],
)
def test_malformed_arguments(arguments, message):
    call = {"strides": 1, "padding": "SAME"} | arguments
    assert error_text(ValueError, lambda: tf.nn.conv2d(X, np.zeros((2, 2, 3, 1), np.float32), **call)) == message


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"strides": 0}, "Stride must be > 0, but got 0 [Op:Conv2D]"),
        (
            {"padding": "FOO"},
            'Value for attr \'padding\' of "FOO" is not in the list of allowed values: "SAME", "VALID", "EXPLICIT" '
            "[Op:Conv2D]",
        ),
        (
            {"data_format": "NHCW"},
            'Value for attr \'data_format\' of "NHCW" is not in the list of allowed values: "NHWC", "NCHW" [Op:Conv2D]',
        ),
    ],
)
def test_arguments_out_of_range(arguments, message):
    call = {"strides": 1, "padding": "SAME"} | arguments
    assert eager_error_text(lambda: tf.nn.conv2d(X, np.zeros((2, 2, 3, 1), np.float32), **call)) == message


def test_strides_along_the_batch():
    w = np.zeros((2, 2, 3, 1), np.float32)
    message = error_text(tf.errors.UnimplementedError, lambda: tf.nn.conv2d(X, w, [2, 1, 1, 1], "SAME"))
    assert message == (
        "Current implementation does not yet support strides in the batch and depth dimensions. [Op:Conv2D]"
    )


def test_same_padding_with_a_stride_waits_for_a_size():
    w = tf.ones([2, 2, 3, 1])
    signature = [tf.TensorSpec([1, None, 4, 3])]
    run = tf.function(lambda x: tf.nn.conv2d(x, w, 2, "SAME"), input_signature=signature)
    for rows in (4, 5):
        x = tf.reshape(tf.range(12.0 * rows), [1, rows, 4, 3])
        np.testing.assert_allclose(run(x), tf.nn.conv2d(x, w, 2, "SAME"))
    assert run.experimental_get_tracing_count() == 1
    assert run.get_concrete_function().output_shapes.as_list() == [1, None, 2, 1]


def test_strides_and_dilations_together():
    message = error_text(ValueError, lambda: tf.nn.convolution(X, W[:, :, :1], strides=[2, 2], dilations=[2, 2]))
    assert message == (
        "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
        "Received: strides=[2, 2] and dilation_rate=[2, 2]"
    )


def test_an_output_shape_that_the_convolution_does_not_give():
    x, w = np.zeros((1, 4, 4, 3), np.float32), np.zeros((2, 2, 2, 3), np.float32)
    message = eager_error_text(lambda: tf.nn.conv2d_transpose(x, w, [1, 9, 8, 2], 2))
    assert message == "out_backprop must have shape (1, 5, 4, 3), but got (1, 4, 4, 3) [Op:ConvBackpropInput]"
