"""Axes and permutations that the program computes, of tensors of known and unknown rank: as eagerly."""

import numpy as np
import pytest
from covering import covering

import tvtf as tf

CALLS = {
    **{
        name: lambda x, axis, name=name: getattr(tf, name)(x, axis=axis)
        for name in (
            "argmax",
            "argmin",
            "cumsum",
            "expand_dims",
            "reduce_logsumexp",
            "reduce_max",
            "reduce_mean",
            "reduce_sum",
        )
    },
    "cumprod": lambda x, axis: tf.math.cumprod(x, axis=axis),
    "concat": lambda x, axis: tf.concat([x, x], axis=axis),
    "gather": lambda x, axis: tf.gather(x, [1, 0], axis=axis),
    "reduce_any": lambda x, axis: tf.reduce_any(x > 3, axis=axis),
    "reduce_any of a list": lambda x, axis: tf.reduce_any(x > 20, axis=[axis]),
    "reduce_std of a list": lambda x, axis: tf.math.reduce_std(x, axis=[axis, 2]),
    "reduce_sum of a list": lambda x, axis: tf.reduce_sum(x, axis=[axis, 0], keepdims=True),
    "reverse": lambda x, axis: tf.reverse(x, axis=[axis]),
    "reverse of a list": lambda x, axis: tf.reverse(x, axis=[axis, 0]),
    "roll": lambda x, axis: tf.roll(x, 1, axis=axis),
    "roll of a list": lambda x, axis: tf.roll(x, [1, 2], axis=[axis, 0]),
    "split": lambda x, axis: tf.split(x, [1, 1], axis=axis - 1),
    "transpose": lambda x, axis: tf.transpose(x, tf.concat([tf.range(axis, tf.rank(x)), tf.range(0, axis)], 0)),
    "transpose of a list": lambda x, axis: tf.transpose(x, [axis, 1 - axis, 2]),
}
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@covering(name=list(CALLS), shape={"known rank": [None, None, None], "unknown rank": None})
def test_a_computed_axis(name, shape):
    call = CALLS[name]
    signature = [tf.TensorSpec(shape, tf.float32), tf.TensorSpec([], tf.int32)]
    found = tf.nest.flatten(tf.function(call, input_signature=signature)(X, 1))
    for each, expected in zip(found, tf.nest.flatten(call(tf.constant(X), tf.constant(1))), strict=True):
        np.testing.assert_allclose(each, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [[None, None, None], None], ids=["known rank", "unknown rank"])
def test_transpose_by_a_permutation_that_is_an_argument(shape):
    signature = [tf.TensorSpec(shape, tf.float32), tf.TensorSpec([None], tf.int32)]
    transpose = tf.function(lambda x, perm: tf.transpose(x, perm), input_signature=signature)
    np.testing.assert_array_equal(transpose(X, [1, -1, 0]), X.transpose(1, 2, 0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="in the range"):
        transpose(X, [0, 1, 3])
