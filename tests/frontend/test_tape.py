"""GradientTape against finite differences, and its messages; TensorFlow's answers are in test_parity."""

import collections
import logging

import numpy as np
import pytest

import tvtf as tf


def rejected(error, program, *args, **kwargs):
    with pytest.raises(error) as caught:
        program(*args, **kwargs)
    return str(caught.value)


BODIES = {
    "elementwise": lambda x: tf.sin(x) * x,
    "reduction": lambda x: tf.reduce_sum(x * x, axis=0),
    "matmul": lambda x: tf.matmul(x, x, transpose_b=True),
    "softmax": lambda x: tf.nn.softmax(x),
    "scalar": lambda x: tf.reduce_prod(x),
    "gathered": lambda x: tf.gather(x, [1, 0, 1]) * x[0, 1],
    "cumulated": lambda x: tf.cumsum(x * x, axis=1),
}
POINT = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])


def differences(body, x, step=1e-6):
    columns = []
    for i in range(x.size):
        shift = np.zeros(x.size)
        shift[i] = step
        shift = shift.reshape(x.shape)
        columns.append((body(tf.constant(x + shift)).numpy() - body(tf.constant(x - shift)).numpy()) / (2 * step))
    found = np.stack(columns, axis=-1)
    return found.reshape(*found.shape[:-1], *x.shape)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("label", BODIES)
def test_jacobians_are_the_differences(label, traced):
    body = BODIES[label]

    def jacobian(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = body(x)
        return tape.jacobian(y, x)

    found = (tf.function(jacobian) if traced else jacobian)(tf.constant(POINT))
    np.testing.assert_allclose(found.numpy(), differences(body, POINT), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("traced", [False, True])
def test_batch_jacobians_are_the_rows_of_jacobians(traced):
    def both(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.nn.softmax(x) * x
        return tape.batch_jacobian(y, x), tape.jacobian(y, x)

    rows, full = (tf.function(both) if traced else both)(tf.constant(POINT))
    np.testing.assert_allclose(rows.numpy(), np.einsum("bibj->bij", full.numpy()), rtol=1e-12)


@pytest.mark.parametrize("traced", [False, True])
def test_hessians_by_jacobians_of_gradients(traced):
    def hessian(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.sin(x) * x)
            first = inner.gradient(y, x)
        return outer.jacobian(first, x)

    point = np.array([0.5, 1.5])
    found = (tf.function(hessian) if traced else hessian)(tf.constant(point))
    np.testing.assert_allclose(found.numpy(), np.diag(2 * np.cos(point) - point * np.sin(point)), atol=1e-12)


def test_unconnected_batch_jacobians():
    x, z = tf.ones([2, 3]), tf.ones([2, 4])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, z])
        y = x * x
    assert tape.batch_jacobian(y, z) is None
    assert tape.batch_jacobian(y, z, unconnected_gradients=tf.UnconnectedGradients.ZERO).shape == (2, 3, 4)


def test_batch_jacobian_of_an_unknown_batch():
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float64)])
    def rows(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.batch_jacobian(y, x)

    assert rows(POINT[:, :2]).numpy().tolist() == [np.diag(2 * row).tolist() for row in POINT[:, :2]]


def test_error_messages():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    assert rejected(RuntimeError, tape.gradient, y, x) == (
        "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
    )
    assert rejected(ValueError, tape.watch, 3.0) == (
        "Passed in object 3.0 of type 'float', not tf.Tensor or tf.Variable or ExtensionType."
    )
    assert rejected(ValueError, tf.GradientTape(persistent=True).gradient, y, x, unconnected_gradients="some") == (
        "Unknown value for unconnected_gradients: 'some'"
    )


def test_batch_jacobian_of_other_rows():
    x = tf.ones([2, 1])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x[:1]
    assert rejected(ValueError, tape.batch_jacobian, y, x) == (
        "Need first dimension of target shape ((1, 1)) and source shape ((2, 1)) to match."
    )


def test_integers_are_warned_of(caplog):
    n = tf.constant(3)
    with caplog.at_level(logging.WARNING, "tensorflow"), tf.GradientTape() as tape:
        tape.watch(n)
        y = n * n
    with caplog.at_level(logging.WARNING, "tensorflow"):
        assert tape.gradient(y, n) is None
    assert [r.getMessage() for r in caplog.records] == [
        "The dtype of the watched tensor must be floating (e.g. tf.float32), got tf.int32",
    ]


def test_watched_variables_come_in_order():
    a, b, frozen = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b"), tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        b * a * frozen * b
    assert [v.name for v in tape.watched_variables()] == ["b:0", "a:0"]


def test_a_tape_forgets_what_it_used():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.records
    tape.gradient(y, x)
    assert not tape.records


def test_output_gradients_of_another_form():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = {"a": x * 2.0, "b": x * 3.0}
    assert tape.gradient(y, x, output_gradients={"a": [1.0, 0.0], "b": [0.0, 1.0]}).numpy().tolist() == [2.0, 3.0]


def test_output_gradients_that_do_not_fit():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert rejected(ValueError, tape.gradient, y, x, output_gradients=1.0) == (
        "output_gradients of shape () do not fit a target of shape (2,)"
    )
    assert rejected(ValueError, tape.gradient, [y, y], x, output_gradients=y) == (
        "output_gradients must have the structure of the target"
    )


def test_a_tape_made_outside_watches_inside_a_function():
    v = tf.Variable(3.0)
    f = tf.function(lambda x: v * v * x)
    with tf.GradientTape(persistent=True) as tape:
        y = f(tf.constant(2.0)) + f(tf.constant(1.0))
    assert tape.gradient(y, v).numpy() == 18.0
    assert f.experimental_get_tracing_count() == 1


def test_a_tape_over_a_loop_inside_a_function():
    @tf.function
    def slope(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, p: i < n, lambda i, p: (i + 1, p * x), (tf.constant(0), tf.constant(1.0)))[1]
        return tape.gradient(y, x)

    assert slope(tf.constant(2.0), tf.constant(3)).numpy() == 12.0
    assert slope(tf.constant(2.0), tf.constant(0)).numpy() == 0.0


@pytest.mark.parametrize("of_rows", [False, True])
def test_jacobians_of_unknown_sizes_are_those_of_known_ones(of_rows):
    def jacobian(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * tf.reduce_sum(x, 1, keepdims=True)
        return tape.batch_jacobian(y, x) if of_rows else tape.jacobian(y, x)

    anywhere = tf.function(jacobian, input_signature=[tf.TensorSpec([None, None])])
    for shape in ((3, 2), (2, 4), (1, 1)):
        x = tf.constant(np.random.RandomState(0).randn(*shape).astype("f"))
        found, expected = anywhere(x), jacobian(x)
        assert found.shape == expected.shape
        assert np.allclose(found, expected, atol=1e-5)


def test_a_hessian_of_unknown_size():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def hessian(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(x**3)
            slope = tape.gradient(y, x)
        return outer.jacobian(slope, x)

    assert hessian(tf.constant([1.0, 2.0])).numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]


@pytest.mark.parametrize("kind", [list, tuple])
def test_gradients_come_in_the_kind_of_list_that_the_sources_are(kind):
    x, w, unused = tf.constant([1.0, 2.0]), tf.Variable([3.0, 4.0]), tf.Variable([5.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * w)
    by_x, by_w, by_unused = grads = tape.gradient(y, kind([x, w, unused]))
    assert type(grads) is kind and by_unused is None
    np.testing.assert_array_equal(by_x, w)
    np.testing.assert_array_equal(by_w, x)
    zeros = tape.gradient(y, kind([unused]), unconnected_gradients="zero")
    assert type(zeros) is kind and zeros[0].numpy().tolist() == [0.0]
    assert tape.gradient(y, kind([])) == kind([])


def test_a_subclass_of_tuple_is_packed_as_itself():
    pair = collections.namedtuple("Pair", "x w")
    sources = pair(tf.constant(2.0), tf.Variable(3.0))
    with tf.GradientTape() as tape:
        tape.watch(sources.x)
        y = sources.x * sources.w
    grads = tape.gradient(y, sources)
    assert type(grads) is pair and (float(grads.x), float(grads.w)) == (3.0, 2.0)


def test_values_that_are_no_tensors_are_rejected_in_lists():
    w = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = w * w
    with pytest.raises(TypeError, match="type_value"):
        tape.gradient(y, [w, 1.0])
    assert tape.gradient(y, [w])[0].numpy() == 6.0
