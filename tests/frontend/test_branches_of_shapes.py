"""Branches that can't be traced for a call's shapes but don't run in that call; and sizes that depend on conditions."""

import numpy as np
import pytest

import tvtf as tf


def interleave(even, odd):
    """Rows by turns; there may be one more of the even ones."""
    axis = tf.where(True, 0, tf.rank(even))
    count = tf.shape(odd)[axis]

    def together(first):
        pairs = tf.concat([first[:, None], odd[:, None]], axis=axis + 1)
        return tf.reshape(pairs, tf.concat([[2 * count], tf.shape(first)[1:]], 0))

    return tf.cond(
        tf.equal(tf.shape(even)[axis], count + 1),
        lambda: tf.concat([together(even[:-1]), even[-1:]], axis),
        lambda: together(even),
    )


def sized(x, size):
    """``x``, of a size that a trace knows where it knows all sizes of the arguments."""
    return x if x.shape[0] is not None else tf.cond(size > 0, lambda: x, lambda: x[:0])


@tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
def interleaved(x):
    count = tf.shape(x)[0]
    return interleave(sized(x[::2], count), sized(x[1::2], count))


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_branch_of_other_shapes_is_not_taken(count):
    x = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
    np.testing.assert_array_equal(interleaved(x), x)


def test_a_branch_of_other_shapes_fails_where_it_is_taken():
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([], tf.bool)])
    def function(x, is_longer):
        even, odd = sized(x[::2], len(x)), sized(x[1::2], len(x))
        return tf.cond(is_longer, lambda: tf.concat([even[:-1], odd], 1)[:1], lambda: tf.concat([even, odd], 1)[:1])

    assert function(tf.zeros([3, 2]), True).shape == [1, 4]
    assert function(tf.zeros([4, 2]), False).shape == [1, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be equal"):
        function(tf.zeros([4, 2]), True)


def test_static_shapes_that_do_not_fit_are_rejected_while_tracing():
    @tf.function
    def function(x, joined):
        return tf.cond(joined, lambda: tf.concat([x, tf.zeros([3, 3])], 0), lambda: x)

    with pytest.raises(ValueError, match="must be equal"):
        function(tf.zeros([2, 4]), tf.constant(False))


def test_chosen_sizes_are_known():
    found = []

    @tf.function(autograph=False)
    def function(x):
        axis = tf.where(True, 1, tf.rank(x))
        sizes = tf.where([True, False], tf.shape(x), 7)
        found.append((tf.get_static_value(axis), int(axis), tf.get_static_value(sizes)))
        return tf.zeros(sizes)

    assert function(tf.zeros([2, 3])).shape == [2, 7]
    assert found[0][:2] == (1, 1) and found[0][2].tolist() == [2, 7]


def test_the_int_of_a_run_time_value_is_rejected():
    @tf.function(autograph=False)
    def function(x):
        return int(tf.reduce_sum(x))

    with pytest.raises(TypeError, match="int.. argument"):
        function(tf.constant([1, 2]))
