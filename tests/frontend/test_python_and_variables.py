"""Variables that Python assigns which a function calls: seen, or refused; never lost."""

import pytest

import tvtf as tf


def assigning(variable, value, read_after, way=tf.py_function):
    @tf.function
    def f():
        variable.assign_add(1.0)
        way(lambda: variable.assign(value) and None, [], [])
        return variable.assign_add(1.0) if read_after else tf.constant(0.0)

    return f


@pytest.mark.parametrize("way", [tf.py_function, tf.numpy_function])
def test_an_assignment_that_the_function_would_not_see_is_refused(way):
    v = tf.Variable(0.0, name="v")
    with pytest.raises(
        tf.errors.UnimplementedError, match="v:0 can't be assigned by a Python function that a tf.function"
    ):
        assigning(v, 100.0, read_after=True, way=way)()
    assert float(v) == 1.0


def test_an_assignment_by_a_compiled_function_is_refused_too():
    v = tf.Variable(0.0)
    inner = tf.function(lambda: v.assign(100.0))

    @tf.function
    def f():
        tf.py_function(lambda: inner() and None, [], [])
        return v + 1.0

    with pytest.raises(tf.errors.UnimplementedError):
        f()


def test_one_that_a_loop_would_not_see_is_refused():
    v = tf.Variable(0.0)

    @tf.function
    def f():
        total = tf.constant(0.0)
        for _ in tf.range(3):
            total += v
            tf.py_function(lambda: v.assign_add(1.0) and None, [], [])
        return total

    with pytest.raises(tf.errors.UnimplementedError):
        f()


def test_one_in_a_function_that_is_called_is_refused():
    v = tf.Variable(0.0)
    inner = tf.function(lambda: tf.py_function(lambda: v.assign(100.0) and None, [], []))

    @tf.function
    def f():
        inner()
        return v + 1.0

    with pytest.raises(tf.errors.UnimplementedError):
        f()


def test_under_a_tape_it_is_refused_too():
    v = tf.Variable(1.0)
    with tf.GradientTape(), pytest.raises(tf.errors.UnimplementedError):
        assigning(v, 100.0, read_after=True)()


def test_variables_that_the_function_does_not_use_later_are_python_s():
    v, count = tf.Variable(2.0), tf.Variable(0.0)

    def assign():
        v.assign(100.0)
        count.assign_add(1.0)

    @tf.function
    def f():
        before = v * 3.0
        tf.py_function(assign, [], [])
        return before

    assert [float(f()), float(v), float(count)] == [6.0, 100.0, 1.0]
    assert [float(f()), float(v), float(count)] == [300.0, 100.0, 2.0]


def test_python_sees_what_was_assigned_before():
    v, seen = tf.Variable(0.0), []

    @tf.function
    def f():
        v.assign_add(1.0)
        tf.py_function(lambda: seen.append(float(v)), [], [])
        return v.assign_add(1.0)

    f()
    f()
    assert seen == [1.0, 3.0] and float(v) == 4.0
