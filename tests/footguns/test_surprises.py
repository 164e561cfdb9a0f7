"""Surprising behaviour, as it is today: some of it is TensorFlow's; for the rest, a sentence says the plan."""

import gc
import weakref

import numpy as np
import pytest

import tvtf as tf

# -- TensorFlow's own: these stay


def test_python_side_effects_run_once_per_trace():
    seen = []

    @tf.function
    def f(x):
        seen.append(1)
        return x + 1

    for n in range(3):
        f(tf.constant(n))
    assert len(seen) == 1


def test_python_values_are_read_while_tracing():
    scale = [2.0]
    f = tf.function(lambda x: x * scale[0])
    assert f(tf.constant(1.0)).numpy() == 2.0
    scale[0] = 5.0
    assert f(tf.constant(1.0)).numpy() == 2.0


def test_numpy_random_numbers_are_drawn_while_tracing():
    f = tf.function(lambda: tf.constant(np.random.uniform()))
    assert f().numpy() == f().numpy()


def test_each_python_number_is_a_trace_of_its_own():
    f = tf.function(lambda n: tf.constant(1.0) * n)
    for n in range(4):
        f(float(n))
    assert f.experimental_get_tracing_count() == 4


def test_a_list_that_changed_in_place_is_another_argument():
    values = [1, 2]
    f = tf.function(lambda v: len(v))
    assert f(values).numpy() == 2
    values.append(3)
    assert f(values).numpy() == 3
    assert f.experimental_get_tracing_count() == 2


def test_an_attribute_changed_between_calls_is_not_seen():
    class Model:
        gain = 1.0

        @tf.function
        def __call__(self, x):
            return x * self.gain

    model = Model()
    assert model(tf.constant(3.0)).numpy() == 3.0
    model.gain = 2.0
    assert model(tf.constant(3.0)).numpy() == 3.0


def test_integer_arithmetic_wraps():
    assert (tf.constant(2**31 - 1) + 1).numpy() == -(2**31)
    assert tf.function(lambda x: x + 1)(tf.constant(2**31 - 1)).numpy() == -(2**31)


def test_gradients_do_not_flow_through_assignments():
    v = tf.Variable(1.0)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        v.assign(x * 2.0)
        y = v * 1.0
    assert tape.gradient(y, x) is None


# -- tvtf's own, with the plan


def test_arguments_are_kept_alive_by_their_traces():
    """TensorFlow keeps weak references to objects. Plan: forget a trace when an object in its key dies."""

    class Thing:
        pass

    f = tf.function(lambda t: 0)
    thing = Thing()
    f(thing)
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is not None


def test_imaginary_parts_are_dropped_with_numpys_warning():
    """TensorFlow drops them silently. Plan: refuse, as for Python's complex numbers."""
    with pytest.warns(np.exceptions.ComplexWarning):
        assert tf.constant(np.array([1 + 2j]), tf.float32).numpy().tolist() == [1.0]


def test_the_smallest_floats_of_python_lists_become_infinite():
    """TensorFlow too; no warning comes. Plan: none, range is the caller's to choose."""
    assert tf.constant([70000.0], tf.float16).numpy().tolist() == [np.inf]


def test_python_int_is_a_dtype():
    """TensorFlow refuses ``int`` and ``complex`` as dtypes. Plan: keep, nothing else could be meant."""
    assert (tf.as_dtype(int), tf.as_dtype(complex)) == (tf.int32, tf.complex128)


def test_variables_have_a_length():
    """TensorFlow's Variables have none. Plan: keep."""
    assert len(tf.Variable([1.0, 2.0])) == 2


def test_a_view_of_a_tensor_can_be_made_writable_by_force():
    """NumPy lets the owner of the base undo its flag. Plan: hand out views of a base that is read-only itself."""
    tensor = tf.constant([1.0, 2.0])
    view = np.asarray(tensor)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5.0
    view.flags.writeable = True
    view[0] = 5.0
    assert tensor.numpy().tolist() == [5.0, 2.0]
