"""Sizes that a program declares by `set_shape`, or that its ops need, are checked in each call."""

import pytest

import tvtf as tf


def test_set_shape_makes_an_unknown_dim_known_and_is_checked_at_each_call():
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def run(x):
        x.set_shape([3, None])
        seen.append(tuple(x.shape))
        return tf.reshape(x, [6]) + tf.ones([6])

    assert run(tf.ones([3, 2])).numpy().tolist() == [2.0] * 6
    assert seen == [(3, 2)]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"'x' has size \d+ in dim 0, but the program needs the shape \[3, 2\]$"
    ):
        run(tf.ones([4, 2]))


@pytest.mark.parametrize("size", [0, 2])
def test_set_shape_is_checked_where_it_stands(size):
    @tf.function
    def run(x):
        y = tf.boolean_mask(x, x > 1.0)
        y.set_shape([size])
        return tf.reduce_sum(y)

    expected = rf"^Shape of tensor \[3\] is not compatible with expected shape \[{size}\]. \(.*test_declared_sizes.py, line \d+\)$"
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        run(tf.constant([1.0, 2.0, 3.0, 4.0]))


def test_a_reshape_to_a_set_shape_names_the_sizes():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def run(x):
        y = tf.boolean_mask(x, x > 1.0)
        y.set_shape([0])
        return tf.reshape(x, [tf.shape(y)[0], -1])

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="^Input to reshape is a tensor with 6 values, but the requested shape has 0 ",
    ):
        run(tf.ones([2, 3]))


def test_a_size_that_must_be_0_can_divide_before():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def run(x):
        return tf.zeros([6 // tf.size(x)]), tf.matmul(tf.zeros([2, 0]), x[:, tf.newaxis])

    with pytest.raises(tf.errors.InvalidArgumentError, match="equal, but are 0 and 3"):
        run(tf.ones([3]))


@pytest.mark.parametrize("watched", [False, True])
def test_a_size_inferred_by_an_op_is_checked_at_each_call(watched):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def dot(x):
        return tf.tensordot(x, tf.ones([3]), 1)

    def called(x):
        with tf.GradientTape() as tape:
            if watched:
                tape.watch(x)
            return dot(x)

    assert called(tf.ones([3])).numpy() == 3.0
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"'x' has size \d+ in dim 0, but the program needs the shape \[3\]$"
    ):
        called(tf.ones([5]))


def test_set_shape_rejects_another_known_dim():
    @tf.function(autograph=False)
    def run(x):
        x.set_shape([4])
        return x

    with pytest.raises(
        ValueError, match=r"^Dimension 0 in both shapes must be equal, but are 3 and 4. Shapes are \[3\] and \[4\].$"
    ):
        run(tf.ones([3]))


def test_a_gradient_of_a_loop_has_the_sizes_that_the_function_inferred():
    """The assignment says that x has as many elements as the Variable, on which the loop's types rely."""
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def f(x):
        v[::-1].assign(x)
        y = x
        for element in x:
            y = v * element
        return x * y

    x = tf.constant([4.0, 5.0, 6.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.numpy().tolist() == [4.0 * 36, 5.0 * 30, 6.0 * 24]
    assert tape.gradient(y, x).numpy().tolist() == [36.0, 30.0, 24.0 + (4 * 6 + 5 * 5 + 6 * 4)]
