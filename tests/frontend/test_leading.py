"""Python calls at the start of a program run before its compiled code, once per call."""

import numpy as np
import pytest

import tvtf as tf


def code_of(function, *args):
    return function.get_concrete_function(*args).code()


def counted(elements, counts, **spec):
    def generate():
        for element in elements:
            counts.append(element)
            yield element

    return iter(tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec(**spec)))


def test_next_runs_before_the_compiled_step():
    total = tf.Variable(0.0)

    @tf.function
    def step(iterator):
        x, y = next(iterator)
        total.assign_add(tf.reduce_sum(x))
        return {"x": x, "y": y + 1, "total": total}

    rows = tf.data.Dataset.from_tensor_slices((np.arange(10.0, dtype=np.float32), np.arange(10))).batch(4)
    iterator = iter(rows)
    found = [step(iterator) for _ in range(3)]
    assert code_of(step, iterator).leading is not None
    assert [f["x"].numpy().tolist() for f in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [f["y"].numpy().tolist() for f in found] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert [float(f["total"]) for f in found] == [6.0, 28.0, 45.0]
    with pytest.raises(tf.errors.OutOfRangeError):
        step(iterator)
    assert float(total) == 45.0


def test_next_returns_the_element_unchanged():
    iterator = iter(tf.data.Dataset.from_tensors(tf.constant([1.0, 2.0])).repeat())
    same = tf.function(lambda it: it.get_next())
    first, second = same(iterator), same(iterator)
    np.testing.assert_array_equal(first, [1.0, 2.0])
    np.testing.assert_array_equal(second, [1.0, 2.0])
    changed = tf.Variable(first)
    changed.assign_add([1.0, 1.0])
    np.testing.assert_array_equal(next(iterator), [1.0, 2.0])


def test_two_calls_of_next_run_in_program_order():
    taken = []
    iterator = counted(range(6), taken, shape=[], dtype=tf.int32)

    @tf.function
    def step(iterator):
        first = next(iterator)
        return first, next(iterator)

    assert [int(x) for _ in range(3) for x in step(iterator)] == list(range(6))
    code = code_of(step, iterator)
    assert code.leading is not None and code.calls_python


def test_a_failed_assertion_before_next_leaves_the_iterator_alone():
    taken = []
    iterator = counted(range(6), taken, shape=[], dtype=tf.int32)

    @tf.function
    def step(iterator, x):
        tf.debugging.assert_positive(x)
        return next(iterator) + x

    assert int(step(iterator, 1)) == 1
    assert code_of(step, iterator, 1).leading is None
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(lambda it, x: step(it, x))(iterator, tf.constant(-1))
    assert taken == [0]


def test_next_runs_once_when_argument_sizes_force_general_code():
    taken = []
    iterator = counted(range(6), taken, shape=[], dtype=tf.int32)

    @tf.function(reduce_retracing=True)
    def step(iterator, x, y):
        return next(iterator), x + y

    wide = [(3, 3), (4, 4), (5, 5), (1, 5), (5, 1), (6, 6)]
    for place, (m, n) in enumerate(wide):
        element, total = step(iterator, tf.ones([m]), tf.ones([n]))
        assert int(element) == place
        np.testing.assert_array_equal(total, np.full(max(m, n), 2.0))
    assert taken == list(range(6))


def test_gradients_of_a_function_that_calls_next():
    iterator = iter(tf.data.Dataset.from_tensor_slices([2.0, 3.0]))
    weight = tf.Variable(5.0)
    step = tf.function(lambda it: weight * next(it))
    for element in (2.0, 3.0):
        with tf.GradientTape() as tape:
            y = step(iterator)
        assert float(y) == 5.0 * element
        assert float(tape.gradient(y, weight)) == element


def test_profile_advances_the_iterator_once():
    taken = []
    iterator = counted(range(6), taken, shape=[], dtype=tf.int32)
    x = tf.ones([64, 64])
    step = tf.function(lambda it: (x * 2.0) @ (x + tf.cast(next(it), tf.float32)))
    assert code_of(step, iterator).leading is not None  # what comes before it can't fail
    step.profile(iterator)
    assert taken == [0]


def test_a_generator_error_is_raised_by_the_function():
    def fail():
        yield 1.0
        raise ValueError("no more of these")

    iterator = iter(tf.data.Dataset.from_generator(fail, output_signature=tf.TensorSpec([], tf.float32)))
    step = tf.function(lambda it: next(it) + 1.0)
    assert float(step(iterator)) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="no more of these"):
        step(iterator)
