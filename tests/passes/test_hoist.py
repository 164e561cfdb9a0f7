"""What depends on constants alone is computed once: packed operands and whole kernels."""

import numpy as np

import tvtf as tf

RNG = np.random.default_rng(3)


def values(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def compiled_of(function, *arguments):
    function(*arguments)
    return function.get_concrete_function(*arguments)._compiled


def test_a_constant_operand_is_packed_once():
    x, w, b = values(20, 40), values(40, 300), values(300)
    constants = tf.constant(w), tf.constant(b)
    dense = tf.function(lambda x: tf.nn.relu(tf.matmul(x, constants[0]) + constants[1]))
    expected = np.maximum(x @ w + b, 0)
    for _ in range(2):
        np.testing.assert_allclose(dense(tf.constant(x)), expected, rtol=1e-4, atol=1e-4)
    (packed,) = compiled_of(dense, tf.constant(x)).code().prepared
    assert np.prod(packed.shape) >= w.size


def test_a_kernel_on_constants_runs_once():
    x, w = values(20, 40), values(100, 40)
    constant = tf.constant(w)
    product = tf.function(lambda x: tf.matmul(x, tf.nn.relu(constant), transpose_b=True))
    np.testing.assert_allclose(product(tf.constant(x)), x @ np.maximum(w, 0).T, rtol=1e-4, atol=1e-4)
    assert compiled_of(product, tf.constant(x)).code().prepared
    assert "relu" not in {kernel.name for kernel in product.profile(tf.constant(x)).kernels}


def test_calls_that_share_a_kernel_have_their_own_constants():
    x, first, second = values(20, 100), values(100, 100), values(100, 100)
    a, b = tf.constant(first), tf.constant(second)
    product = tf.function(lambda x: tf.matmul(tf.matmul(x, a), b))
    np.testing.assert_allclose(product(tf.constant(x)), x @ first @ second, rtol=1e-4, atol=1e-4)


def test_what_is_returned_is_computed_in_each_call():
    constant = tf.constant(values(20, 100))
    function = tf.function(lambda x: (tf.exp(constant), x + 1))
    first, _ = function(tf.constant(1.0))
    second, _ = function(tf.constant(1.0))
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first.numpy(), second.numpy())


def test_a_variable_is_no_constant():
    x, w = values(20, 40), values(40, 100)
    variable, constant = tf.Variable(w), tf.constant(values(100))
    dense = tf.function(lambda x: tf.matmul(x, variable) + constant)
    before = dense(tf.constant(x)).numpy()
    variable.assign_add(tf.ones_like(variable))
    np.testing.assert_allclose(
        dense(tf.constant(x)) - before, np.tile(x.sum(1, keepdims=True), 100), rtol=1e-4, atol=1e-4
    )


def test_an_update_beside_a_packed_constant_is_written_in_place():
    w, start = values(100, 100), values(20, 100)
    variable, constant = tf.Variable(start), tf.constant(w)

    @tf.function
    def step(x):
        variable.assign_sub(tf.matmul(x, constant))

    x = values(20, 100)
    step(tf.constant(x))
    step(tf.constant(x))
    np.testing.assert_allclose(variable.numpy(), start - 2 * (x @ w), rtol=1e-4, atol=1e-4)
