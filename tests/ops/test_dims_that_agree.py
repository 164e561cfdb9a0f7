"""Ops whose operands must have equal dims take dims that a trace doesn't know; a call with different ones is an error."""

import numpy as np
import pytest

import tvtf as tf

VECTOR, NUMBERS = tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.int32)
MATRIX, TRIPLES = tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, 3], tf.float32)
EYE = np.eye(3, dtype="float32")


def with_seed(x, seed):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x, seed)


def scattered(indices, updates):
    return tf.tensor_scatter_nd_update(tf.zeros([5]), indices[:, tf.newaxis], updates)


TABLE = tf.Variable(np.zeros((5, 2), np.float32))


def scattered_to_variable(indices, updates):
    return TABLE.scatter_nd_update(indices[:, tf.newaxis], updates)


PROGRAMS = {
    "dynamic_partition": (
        lambda x, p: tf.dynamic_partition(x, p, 2), (VECTOR, NUMBERS), ([1.0, 2.0], [0, 1]), ([1.0, 2.0], [0, 1, 1])
    ),
    "dynamic_stitch": (
        lambda i, x: tf.dynamic_stitch([i], [x]), (NUMBERS, VECTOR), ([0, 1], [3.0, 4.0]), ([0, 1], [3.0])
    ),
    "cross": (tf.linalg.cross, (TRIPLES, TRIPLES), (EYE[:2], EYE[1:]), (EYE[:2], EYE)),
    "tensor_diag_part": (tf.linalg.tensor_diag_part, (MATRIX,), (EYE,), (EYE[:2],)),
    "gradient": (with_seed, (VECTOR, VECTOR), ([1.0, 2.0], [3.0, 4.0]), ([1.0, 2.0], [3.0])),
    "gradient of a matrix": (with_seed, (MATRIX, MATRIX), (EYE, EYE), (EYE[:2], EYE[:, :2])),
    "fake_quant": (
        tf.quantization.fake_quant_with_min_max_args_gradient, (VECTOR, VECTOR), ([1.0, 2.0], [3.0, 4.0]), ([1.0, 2.0], [3.0])
    ),
    "ragged": (
        lambda x, rows: tf.RaggedTensor.from_value_rowids(x, rows, nrows=3).to_tensor(),
        (VECTOR, NUMBERS), ([1.0, 2.0], [0, 2]), ([1.0, 2.0], [0]),
    ),
    "scatter to a Variable": (
        scattered_to_variable, (NUMBERS, MATRIX), ([1, 3], np.ones((2, 2), np.float32)), ([1, 3], np.ones((2, 3), np.float32))
    ),
    "scatter": (scattered, (NUMBERS, VECTOR), ([1, 3], [5.0, 6.0]), ([1, 3], [5.0])),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_unknown_dims_are_assumed_to_be_equal_and_checked(name):
    run, specs, right, wrong = PROGRAMS[name]
    function = tf.function(lambda *inputs: run(*inputs), input_signature=specs)
    # Otherwise the op waits for the dims, and is traced again for those of each call.
    assert "tvtf.waiting" not in function.get_concrete_function().module().script()
    expected = tf.nest.flatten(run(*map(tf.constant, right)))
    for result, value in zip(tf.nest.flatten(function(*right)), expected, strict=True):
        np.testing.assert_array_equal(result.numpy(), value.numpy())
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        function(*wrong)
