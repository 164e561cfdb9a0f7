"""``tf.gradients`` and ``tf.hessians``: higher derivatives, and unknown shapes."""

import numpy as np
import pytest

import tvtf as tf

VALUES = [1.0, 2.0]
WEIGHTS = tf.Variable([3.0, 5.0])


def cubes(x):
    return tf.gradients(x * x * x, x)[0]


def second(x):
    return tf.reduce_sum(tf.hessians(tf.reduce_sum(x**4), x)[0], 1)


def through_a_variable(x):
    return tf.gradients(WEIGHTS * x * x * x, x)[0] / WEIGHTS


def through_a_loop(x):
    return tf.gradients(tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * x), [0, x])[1], x)[0]


def after_a_loop(x):
    y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * x), [0, x])[1]
    tf.gradients(y, x)
    return tf.gradients(y * y, x)[0]


def after_a_branch(x):
    y = tf.cond(x[0] > 0.5, lambda: x * x * x, lambda: x)
    return tf.gradients(y * y, x)[0]


PROGRAMS = [
    (after_a_loop, lambda x: 30 * x**4),
    (after_a_branch, lambda x: 30 * x**4),
    (cubes, lambda x: 6 * x),
    (through_a_variable, lambda x: 6 * x),
    (through_a_loop, lambda x: 6 * x),
    (second, lambda x: 24 * x),
]


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])
@pytest.mark.parametrize("kind", ["tape", "two tapes", "forward", "gradients"])
def test_a_gradient_in_a_function_can_be_differentiated(program, expected, kind):
    @tf.function
    def slope(x):
        if kind == "gradients":
            return tf.gradients(program(x), x)[0]
        if kind == "forward":
            with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
                y = program(x)
            return accumulator.jvp(y)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = program(x)
            if kind == "tape":
                return tape.gradient(y, x)
        return outer.gradient(y, x)

    x = np.array(VALUES, np.float32)
    assert np.allclose(slope(tf.constant(x)), expected(x), rtol=1e-5)


def test_a_tape_that_watches_a_variable_sees_its_gradients():
    v = tf.Variable(VALUES)

    @tf.function
    def slope():
        with tf.GradientTape() as tape:
            first = tf.gradients(v * v * v, v)[0]
        return tape.gradient(first, v)

    assert slope().numpy().tolist() == [6.0, 12.0]


@pytest.mark.parametrize("spec", [tf.TensorSpec([None]), tf.TensorSpec(None)], ids=["sizes", "rank"])
def test_gradients_and_hessians_of_unknown_shapes(spec):
    @tf.function(input_signature=[spec])
    def both(x):
        y = tf.reduce_sum(x**3)
        return tf.gradients(y, x)[0], tf.hessians(y, x)[0]

    for values in ([1.0, 2.0], [1.0, 2.0, 3.0]):
        first, seconds = both(tf.constant(values))
        assert np.allclose(first, 3 * np.square(values))
        assert np.allclose(seconds, np.diag(6 * np.array(values)))


@pytest.mark.parametrize("spec", [tf.TensorSpec([None]), tf.TensorSpec(None)], ids=["sizes", "rank"])
def test_gradients_of_gradients_of_unknown_shapes(spec):
    @tf.function(input_signature=[spec])
    def second(x):
        return tf.gradients(tf.gradients(x * x * x, x)[0], x)[0]

    for values in ([1.0, 2.0], [1.0, 2.0, 3.0]):
        assert np.allclose(second(tf.constant(values)), 6 * np.array(values))


def test_gradients_by_what_python_gives():
    @tf.function
    def slope(x):
        return tf.gradients(tf.py_function(lambda a: a * a, [x], tf.float32), x)[0]

    assert slope(tf.constant(VALUES)).numpy().tolist() == [2.0, 4.0]


def test_a_hessian_by_what_nothing_depends_on_is_none():
    found = []

    @tf.function
    def f(x, y):
        found.extend(tf.hessians(tf.reduce_sum(x * x), [x, y]))
        return x

    f(tf.constant(VALUES), tf.constant(VALUES))
    assert found[0].shape == (2, 2)
    assert found[1] is None
