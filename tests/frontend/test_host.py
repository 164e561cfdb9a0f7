"""Python called from compiled code: values, gradients, order, errors, lifetime."""

import gc

import numpy as np
import pytest

import tvtf as tf
from tvtf.ops import host

X = tf.constant([1.0, 2.0, 3.0])
VECTOR = tf.TensorSpec([None], tf.float32)


def both(function):
    return [function, tf.function(function)]


def test_values_and_gradients_go_through_a_python_function():
    def f(x):
        return tf.reduce_sum(tf.py_function(lambda t: tf.sin(t) * t, [x], VECTOR) * 2.0)

    for run in both(f):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = run(X)
        np.testing.assert_allclose(y, 2 * np.sum(np.sin(X) * X), rtol=1e-6)
        np.testing.assert_allclose(tape.gradient(y, X), 2 * (np.sin(X) + X * np.cos(X)), rtol=1e-6)


def test_sizes_that_only_the_function_knows():
    @tf.function
    def distinct(x):
        values, places = tf.numpy_function(
            lambda a: np.unique(a, return_index=True),
            [x],
            [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)],
        )
        return values * 2, tf.size(values), places

    for given, values, places in (([3, 1, 3, 7], [2, 6, 14], [1, 0, 3]), ([5, 5], [10], [0])):
        found = distinct(tf.constant(given))
        assert (found[0].numpy().tolist(), found[1].numpy(), found[2].numpy().tolist()) == (values, len(values), places)


def test_found_sizes_beside_an_update_in_place():
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.function
    def step(x):
        y = tf.numpy_function(lambda a: a[a > 1], [x], VECTOR)
        v.assign_sub(x * tf.reduce_sum(y))
        return y * 2.0

    assert step(X).numpy().tolist() == [4.0, 6.0]
    assert v.numpy().tolist() == [-4.0, -8.0, -12.0]


def test_no_gradient_goes_through_a_numpy_function():
    for run in both(lambda x: tf.numpy_function(np.sin, [x], VECTOR)):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = run(X)
        assert tape.gradient(y, X) is None


def test_calls_happen_in_program_order_wherever_they_stand():
    seen = []
    v = tf.Variable(1.0)

    def note(x):
        tf.py_function(lambda t: seen.append(float(t)), [x], [])

    @tf.function
    def step(x):
        note(v)
        v.assign(x)
        note(v)
        if x > 2.0:
            note(x * 10.0)
        for i in tf.range(2):
            note(tf.cast(i, tf.float32) + 0.5)

    step(tf.constant(3.0))
    step(tf.constant(2.0))
    assert seen == [1.0, 3.0, 30.0, 0.5, 1.5, 3.0, 2.0, 0.5, 1.5]


def raises(error):
    def function(*_):
        raise error

    return function


@pytest.mark.parametrize(
    "function, kind, text",
    [
        (raises(ValueError("no")), tf.errors.InvalidArgumentError, "ValueError: no"),
        (raises(ZeroDivisionError("by\nzero")), tf.errors.UnknownError, "ZeroDivisionError: by\nzero"),
        (raises(NotImplementedError("yet")), tf.errors.UnimplementedError, "NotImplementedError: yet"),
        (lambda a: (a, a), tf.errors.InvalidArgumentError, "PyFunc returned 2 values, but expects to see 1 values."),
        (
            lambda a: a.astype(np.int32),
            tf.errors.InvalidArgumentError,
            "0-th value returned by PyFunc is int32, but expects float32",
        ),
        (
            lambda a: a[:1, None],
            tf.errors.InvalidArgumentError,
            "0-th value returned by PyFunc has shape (1, 1), but expects (None,)",
        ),
    ],
)
def test_errors_are_the_functions(function, kind, text):
    compiled = tf.function(lambda x: tf.numpy_function(function, [x], VECTOR))
    with pytest.raises(kind) as failure:
        compiled(X)
    assert str(failure.value) == text


def test_outside_traces_the_functions_own_errors_come_through():
    with pytest.raises(ZeroDivisionError, match="by zero"):
        tf.numpy_function(raises(ZeroDivisionError("by zero")), [X], VECTOR)


def test_an_unknown_rank_is_compiled_when_a_call_has_it():
    f = tf.function(lambda x: tf.py_function(lambda t: t, [x], tf.float32))
    with pytest.raises(ValueError, match="it is compiled when a call has shown it"):
        f.cost(X)
    assert f(X).shape == (3,)
    assert f(tf.constant(1.0)).shape == ()


def test_the_error_for_an_unknown_rank_names_the_users_line():
    @tf.function
    def f(x):
        y = tf.py_function(lambda t: t, [x], tf.float32)
        return [y] * y.ndim

    with pytest.raises(
        ValueError, match=r"test_host.py\", line \d+(.|\n)*\[y\] \* y.ndim(.|\n)*must be known while tracing"
    ):
        f(X)


def test_what_is_compiled_for_a_rank_is_called_once():
    """Interpreted the first time, compiled after."""
    ranks, called = iter([1, 1, 2, 1]), []

    def run(t):
        called.append(1)
        return np.ones([1] * next(ranks), np.float32)

    f = tf.function(lambda x: tf.py_function(run, [x], tf.float32) + x)
    assert [f(tf.constant(1.0)).ndim for _ in range(4)] == [1, 1, 2, 1]
    assert len(called) == 4
    (concrete,) = f.concrete_functions
    assert len(concrete._instances) == 2


def test_functions_live_as_long_as_the_trace():
    gc.collect()
    before = len(host._alive)
    f = tf.function(lambda x: tf.numpy_function(np.negative, [x], VECTOR))
    f(X)
    gc.collect()
    assert f(X).numpy().tolist() == [-1.0, -2.0, -3.0]
    assert len(host._alive) == before + 1
    del f
    gc.collect()
    assert len(host._alive) == before


def _raise(x):
    if x > 3:
        raise ValueError("no more")


def test_what_was_assigned_before_python_fails_is_done():
    v, w = tf.Variable(1.0), tf.Variable(1.0)

    @tf.function
    def run():
        for i in tf.range(5):
            v.assign_add(w)
            if v > 2.0:
                w.assign(v + 1.0)
                tf.py_function(_raise, [i + 2], [])
            w.assign_sub(0.5)

    with pytest.raises(tf.errors.InvalidArgumentError, match="no more"):
        run()
    assert (float(v), float(w)) == (5.5, 6.5)


def test_python_sees_what_was_assigned_before_it():
    v, seen = tf.Variable(1.0), []

    @tf.function
    def run():
        for value in (5.0, 6.0):
            v.assign(value)
            tf.py_function(lambda: seen.append(float(v)), [], [])
        v.assign_add(1.0)

    run()
    assert seen == [5.0, 6.0] and float(v) == 7.0


def test_a_gradient_takes_what_the_call_recorded():
    """TensorFlow refuses these: it keeps one record for each place in the program."""
    seen = []

    def squared(x):
        seen.append(float(x))
        return x * x

    @tf.function
    def looped(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x
            while y < 100.0:
                y = tf.py_function(squared, [y], tf.TensorSpec([]))
            z = y * 2.0
        return tape.gradient(y, x), tape.gradient(z, x)

    found = looped(tf.constant(3.0))
    assert [float(g) for g in found] == [8 * 3.0**7, 16 * 3.0**7]
    assert seen == [3.0, 9.0, 81.0]


def test_python_runs_again_where_its_record_is_gone(monkeypatch):
    monkeypatch.setattr(host, "_records", host._Records())
    monkeypatch.setattr(host._Records, "MAX_UNUSED", 2)
    seen = []

    def squared(x):
        seen.append(float(x))
        return x * x

    @tf.function
    def f(x):
        for _ in range(4):
            x = tf.py_function(squared, [x], tf.TensorSpec([]))
        return x

    x = tf.constant(1.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert float(tape.gradient(y, x)) == 16 * 1.5**15
    assert len(seen) == 6


def test_nothing_is_recorded_without_a_gradient(monkeypatch):
    monkeypatch.setattr(host, "_records", host._Records())
    tf.function(lambda x: tf.py_function(tf.square, [x], VECTOR))(X)
    assert not host._records.unused


def test_python_of_unknown_rank_has_gradients_in_branches_and_says_so_in_loops():
    def square(x):
        return tf.ensure_shape(tf.py_function(lambda t: t * t, [x], tf.float32), [])

    def chosen(x):
        if x > 1.0:
            y = square(x) * x
        else:
            y = x
        return y

    def repeated(x):
        y = x
        for _ in tf.range(3):
            y = y + square(x)
        return y

    def slope(f):
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tape.gradient(y, x)

        return tf.function(run)

    assert slope(chosen)(tf.constant(3.0)).numpy() == 27.0
    with pytest.raises(
        NotImplementedError, match=r"needs the ranks of the results of Python calls in it.*tf.TensorSpec as Tout"
    ):
        slope(repeated)(tf.constant(3.0))


def test_gradients_take_what_calls_deep_in_control_flow_recorded():
    calls = []

    def square(x):
        calls.append(float(x))
        return x * x

    @tf.function
    def f(x):
        y = x
        for i in tf.range(3):
            if i != 1:
                y = y + tf.py_function(square, [x * y], tf.TensorSpec([]))
        return y

    x = tf.constant(0.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, x).numpy() == np.float32(2.23828125)
    assert calls == [0.25, 0.28125]
