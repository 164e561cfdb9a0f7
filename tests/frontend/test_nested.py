"""A ``tf.function`` called in another's trace captures the tensors of that trace that it closes over."""

import numpy as np
import pytest

import tvtf as tf


def both(function, *arguments):
    """What a function gives as Python and compiled, the same."""
    expected, found = function(*arguments), tf.function(function)(*arguments)
    tf.nest.map_structure(lambda e, f: np.testing.assert_allclose(f, e, rtol=1e-5), expected, found)
    return found


def test_an_outer_tensor_is_captured_through_several_levels():
    v = tf.Variable(2.0)

    def outer(x):
        w = x * v

        @tf.function
        def middle(y):
            u = w + y
            inner = tf.function(lambda z: u * z * w * v)
            return inner(y) + inner(u)

        with tf.GradientTape() as tape:
            tape.watch(w)
            r = middle(x)
        return r, tape.gradient(r, [w, v])

    both(outer, tf.constant(2.0))


def test_a_trace_is_made_once_in_each_function_around():
    traced = []

    @tf.function
    def outer(x):
        @tf.function
        def inner(y):
            traced.append(y)
            return y * x

        return inner(x) + inner(x + 1.0)

    assert outer(tf.constant(3.0)).numpy() == 21.0
    assert outer(tf.constant(4.0)).numpy() == 36.0
    assert len(traced) == 1


def test_a_trace_that_captures_is_for_the_function_around_alone():
    held = {}
    inner = tf.function(lambda y: y * held["x"])

    @tf.function
    def first(x):
        held["x"] = x + 1.0
        return inner(x)

    @tf.function
    def second(x):
        held["x"] = x * 10.0
        return inner(x)

    assert [first(tf.constant(3.0)).numpy(), second(tf.constant(3.0)).numpy()] == [12.0, 90.0]
    with pytest.raises(TypeError, match="out of scope"):
        inner(tf.constant(3.0))
    held["x"] = tf.constant(7.0)
    assert inner(tf.constant(3.0)).numpy() == 21.0


def test_a_trace_that_captures_nothing_serves_all():
    traced = []

    @tf.function
    def inner(y):
        traced.append(y)
        return y * 2.0

    calls = [tf.function(lambda x: inner(x)), tf.function(lambda x: inner(x) + inner(x + 1.0)), inner]
    assert [call(tf.constant(1.0)).numpy() for call in calls] == [2.0, 6.0, 2.0]
    assert len(traced) == 1


def test_a_concrete_function_that_captures_is_rejected_outside():
    kept = []

    @tf.function
    def outer(x):
        inner = tf.function(lambda y: y * x)
        kept.append(inner.get_concrete_function(x))
        assert len(kept[0].captured_inputs) == 1
        return kept[0](x) + kept[0](x + 1.0)

    assert outer(tf.constant(2.0)).numpy() == 10.0
    for use in (lambda: kept[0](tf.constant(2.0)), lambda: tf.function(kept[0])(tf.constant(2.0))):
        with pytest.raises(tf.errors.InaccessibleTensorError, match="out of scope"):
            use()


def test_tensors_of_loop_bodies_and_branches_are_captured():
    def outer(x):
        total = tf.zeros([])
        for i in tf.range(3):
            row = x[0] * tf.cast(i, tf.float32)
            add = tf.function(lambda y, row=row: y + row * x[1])
            total = add(total)
        if total > 0.0:
            more = x * 3.0
            total = tf.function(lambda y: y + tf.reduce_sum(more))(total)
        return total

    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = outer(x)
        return y, tape.gradient(y, x)

    compiled = tf.function(outer)
    x = tf.constant([2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = compiled(x)
    assert y.numpy() == 33.0
    np.testing.assert_allclose(tape.gradient(y, x), [12.0, 9.0])
    np.testing.assert_allclose(tf.function(slope)(x)[1], [12.0, 9.0])


def test_sizes_of_the_function_around_are_known():
    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def outer(x):
        n, twice = tf.shape(x)[0], tf.concat([x, x], 0)

        @tf.function
        def inner(z):
            return tf.zeros([n, 2]) + z, tf.reshape(x, [n * 2]), tf.matmul(twice, x, transpose_b=True)

        return inner(tf.constant([1.0, 2.0]))

    zeros, flat, product = outer(tf.ones([3, 2]))
    np.testing.assert_array_equal(zeros, np.tile([1.0, 2.0], (3, 1)))
    assert flat.shape == (6,)
    np.testing.assert_array_equal(product, np.full((6, 3), 2.0))


def test_run_time_sizes_are_captured():
    def outer(x):
        n, picked = tf.cast(x[0], tf.int32), tf.where(x > 1.0)[:, 0]

        @tf.function
        def inner(y):
            return tf.zeros([n, 2]) + tf.reduce_sum(y * x), tf.gather(x, picked) * y[0]

        return inner(x)

    both(outer, tf.constant([3.0, 2.0, 0.5]))


def test_input_signatures_maps_and_functional_loops():
    def outer(x):
        inner = tf.function(lambda y: y * x + tf.reduce_sum(x), input_signature=[tf.TensorSpec([None])])
        mapped = tf.map_fn(tf.function(lambda e: e * tf.reduce_sum(x)), x)
        scanned = tf.scan(tf.function(lambda a, e: a + e * x[0]), x)
        vectorized = tf.vectorized_map(lambda e: tf.function(lambda y: y * e + x)(e), x)
        return inner(x) + inner(x[:1]), mapped, scanned, vectorized

    both(outer, tf.constant([1.0, 2.0]))


def test_an_element_of_a_vectorized_map_is_captured_again():
    held = {}
    inner = tf.function(lambda y: held["x"] * y)

    def one(x):
        held["x"] = x
        return inner(tf.constant(2.0))

    for size in (3, 5):
        np.testing.assert_array_equal(tf.vectorized_map(one, tf.range(float(size))), 2.0 * np.arange(size))


def test_gradients_inside_and_outside():
    def outer(x):
        @tf.function
        def inner(z):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x * z
            return tape.gradient(y, x)

        with tf.GradientTape() as tape:
            tape.watch(x)
            g = inner(x)
        return g, tape.jacobian(g, x)

    both(outer, tf.constant([3.0, 2.0]))


def test_graphs_of_tensorflow_1():
    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        p = v1.placeholder(tf.float32, [2])
        q = p * 2.0
        inner = tf.function(lambda y: y * q)
        r = inner(p) + inner(q)
    with v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(r, {p: [1.0, 2.0]}), [6.0, 24.0])


def test_convolutions_of_inner_functions():
    """Dilated convolution as libraries write it: the operation built with functions of their own."""

    def layer(x, kernel):
        @tf.function
        def grouped(parts):
            filters = tf.split(kernel, 2, axis=-1)
            return tf.concat([tf.nn.conv2d(p, f, 1, "SAME") for p, f in zip(parts, filters)], -1)

        @tf.function
        def dilated(y):
            return tf.nn.conv2d(y, kernel, 1, "SAME", dilations=2)

        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            y = tf.reduce_sum(grouped([x, x]) * dilated(x))
        return y, tape.gradient(y, [x, kernel])

    rng = np.random.default_rng(0)
    shapes = (1, 6, 6, 2), (3, 3, 2, 4)
    both(layer, *(tf.constant(rng.standard_normal(shape).astype(np.float32)) for shape in shapes))


# What a function assigned before an assertion failed stands, wherever it is called.


def counting(v, x):
    for i in tf.range(3):
        v.assign_add(1.0)
        tf.debugging.assert_less(tf.cast(i, tf.float32), x)


def adding(v, x, i):
    v.assign_add(1.0)
    tf.debugging.assert_less(tf.cast(i, tf.float32), x)
    v.assign_add(1.0)


def after_an_assignment(v, x):
    v.assign_add(10.0)
    tf.function(counting)(v, x)
    v.assign_add(10.0)


def in_a_loop(v, x):
    v.assign_add(10.0)
    inner = tf.function(lambda i: adding(v, x, i))
    for i in tf.range(3):
        inner(i)


def in_a_branch(v, x):
    v.assign_add(10.0)
    inner = tf.function(lambda: adding(v, x, 3))
    if x > 0.0:
        inner()


def a_loop_in_a_loop(v, x):
    inner = tf.function(lambda: counting(v, x))
    for _ in tf.range(2):
        v.assign_add(10.0)
        inner()


FAILING = [after_an_assignment, in_a_loop, in_a_branch, a_loop_in_a_loop]


@pytest.mark.parametrize("program", FAILING, ids=lambda p: p.__name__)
@pytest.mark.parametrize("limit", [0.5, 1.5, 9.0])
def test_assignments_of_called_functions_stand_when_an_assertion_fails(program, limit):
    found = []
    for traced in (True, False):
        v = tf.Variable(0.0)
        tf.config.run_functions_eagerly(not traced)
        try:
            tf.function(lambda: program(v, tf.constant(limit)))()  # noqa: B023
        except tf.errors.InvalidArgumentError:
            found.append("refused")
        finally:
            tf.config.run_functions_eagerly(False)
        found.append(float(v))
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def test_a_function_inside_captures_a_variable_argument_of_the_function_around_it():
    """Its own Variable arguments have other Variables in their places."""

    @tf.function
    def around(v, w, x):
        @tf.function
        def inside(x, u):
            u.assign_add(x)
            v.assign_add(u * 10.0)
            return x * v * u

        return inside(x, w), tf.map_fn(lambda e: inside(e, w), tf.stack([x, x]))

    v, w = tf.Variable(1.0), tf.Variable(2.0)
    found, mapped = around(v, w, 3.0)
    assert (found.numpy(), mapped.numpy().tolist()) == (3 * 51 * 5, [3 * 131 * 8, 3 * 241 * 11])
    assert (v.numpy(), w.numpy()) == (241.0, 11.0)
    around(w, v, 0.0)
    assert (v.numpy(), w.numpy()) == (241.0, 11.0 + 3 * 2410.0)


def test_gradient_of_a_captured_variable_argument():
    @tf.function
    def around(v, x):
        @tf.function
        def inside(x):
            return x * v * v

        return inside(x)

    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = around(v, 2.0)
    assert tape.gradient(y, v).numpy() == 12.0
