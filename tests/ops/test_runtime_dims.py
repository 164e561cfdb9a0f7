"""Dims given by a vector at run time."""

import pytest

import tvtf as tf
from tvtf.ops.rules import bind, dims_of


def test_dims_of_an_eager_vector_are_ints():
    assert dims_of(tf.constant([2, 3], tf.int64)) == (2, 3)


def test_dims_known_from_shapes_are_those():
    @tf.function
    def f(x):
        assert dims_of(tf.shape(x)) == (2, 3)
        return x

    f(tf.zeros([2, 3]))


@tf.function(input_signature=[tf.TensorSpec([2], tf.int64)])
def filled(dims):
    return bind.broadcast_to(tf.constant(1.0), shape=dims_of(dims))


def test_dims_are_bound_when_the_program_runs():
    assert filled(tf.constant([2, 3], tf.int64)).shape == [2, 3]
    assert filled(tf.constant([0, 1], tf.int64)).shape == [0, 1]


def test_a_negative_dim_is_rejected():
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative dim"):
        filled(tf.constant([2, -3], tf.int64))


def test_dims_are_bound_within_branches_and_loops():
    @tf.function(input_signature=[tf.TensorSpec([2], tf.int64), tf.TensorSpec([], tf.bool)])
    def f(dims, flag):
        if flag:
            total = tf.reduce_sum(filled(dims))
        else:
            total = tf.constant(0.0)
        for _ in tf.range(2):
            total += tf.reduce_sum(filled(dims))
        return total

    dims = tf.constant([2, 3], tf.int64)
    assert (f(dims, tf.constant(True)).numpy(), f(dims, tf.constant(False)).numpy()) == (18.0, 12.0)
