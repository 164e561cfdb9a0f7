"""Constant folding: packed operands and kernels that depend on constants only are computed once."""

import numpy as np
import pytest
from drawn_sizes import program

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


def test_what_only_a_call_sizes_is_computed_in_each_call():
    image, constant = tf.zeros([2, 2, 1]), tf.constant(values(100, 3))
    resized = tf.function(lambda n: tf.image.resize(image + 1.0, [n, 64]))
    tiled = tf.function(lambda n: tf.tile(tf.exp(constant[:1]), [n, 1]))
    for n in (5, 2):
        np.testing.assert_allclose(resized(tf.constant(n)), np.ones((n, 64, 1)), rtol=1e-6)
        np.testing.assert_allclose(tiled(tf.constant(n)), np.tile(np.exp(constant[:1]), (n, 1)), rtol=1e-6)


def test_gradient_of_an_array_of_dynamic_size_times_a_constant():
    constant = tf.constant(values(100, 2))

    @tf.function
    def slope(x, n):
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(n):
            array = array.write(i, x * tf.cast(i, tf.float32))
        return tf.gradients(tf.reduce_sum(array.stack()) * tf.reduce_sum(constant), x)[0]

    expected = np.full(2, 6 * np.sum(constant))
    np.testing.assert_allclose(slope(tf.constant([1.0, 2.0]), tf.constant(4)), expected, rtol=1e-4)


def test_an_operand_made_of_constants_may_be_a_result_too():
    x, w = values(20, 100), tf.constant(values(100, 300))

    @tf.function
    def product(x):
        operand = tf.exp(w)
        return tf.matmul(x, operand), operand

    found, operand = product(tf.constant(x))
    np.testing.assert_allclose(operand, np.exp(w), rtol=1e-5)
    np.testing.assert_allclose(found, x @ np.exp(w), rtol=1e-4, atol=1e-3)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_of_computed_sizes(seed):
    run, x = program(seed), tf.constant([0.3, -0.7, 1.1])
    compiled = tf.function(run, input_signature=[tf.TensorSpec([3]), tf.TensorSpec([], tf.int32)])
    for n in map(tf.constant, (4, 1, 7)):
        for expected, found in zip(run(x, n), compiled(x, n), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)
