"""vectorized_map equals the map of one element at a time, by rule or by loop."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.primitive import table

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) / 10


def each(body, rows):
    return np.stack([body(tf.constant(row)).numpy() for row in rows])


BODIES = {
    "elementwise": lambda x: tf.exp(x) + 1.0,
    "reduction": lambda x: tf.reduce_max(x),
    "outer product": lambda x: x[:, None] * x,
    "matmul": lambda x: tf.matmul(x[None, :], tf.ones([3, 2])),
    "matmul of two": lambda x: tf.matmul(x[:, None], x[None, :]),
    "sort": lambda x: tf.sort(-x),
    "gather": lambda x: tf.gather(x, [2, 0]),
    "gather by element": lambda x: tf.gather(tf.constant([1.0, 2.0, 3.0]), tf.cast(x * 2.0, tf.int32)),
    "constant": lambda x: tf.constant([7.0, 8.0]),
    "concat": lambda x: tf.concat([x, [1.0]], axis=0),
    "where": lambda x: tf.where(x > 0.5, x, 0.0),
    "cast": lambda x: tf.cast(x * 10.0, tf.int32),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("label", BODIES)
def test_a_map_is_each_element(label, traced):
    body = BODIES[label]

    def mapped(rows):
        return tf.vectorized_map(body, rows)

    found = (tf.function(mapped) if traced else mapped)(tf.constant(ROWS))
    np.testing.assert_allclose(found.numpy(), each(body, ROWS), rtol=1e-6)


def test_maps_nest():
    def pairs(row):
        return tf.vectorized_map(lambda x: x * row, row)

    expected = ROWS[:, :, None] * ROWS[:, None, :]
    assert np.allclose(tf.vectorized_map(pairs, tf.constant(ROWS)).numpy(), expected)
    assert np.allclose(tf.function(lambda r: tf.vectorized_map(pairs, r))(tf.constant(ROWS)).numpy(), expected)


def test_structures_go_in_and_out():
    found = tf.vectorized_map(
        lambda d: {"sum": d["a"] + d["b"][0], "same": (d["a"],)},
        {"a": tf.constant([1, 2]), "b": [tf.constant([10, 20])]},
    )
    assert found["sum"].numpy().tolist() == [11, 22]
    assert found["same"][0].numpy().tolist() == [1, 2]


def test_an_unknown_number_of_elements():
    f = tf.function(
        lambda x: tf.vectorized_map(lambda r: tf.reduce_sum(r * r), x), input_signature=[tf.TensorSpec([None, 3])]
    )
    for n in 1, 4:
        assert np.allclose(f(ROWS[:n]).numpy(), (ROWS[:n] ** 2).sum(axis=1))


def test_gradients_inside_a_map():
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * x * x)
        return tape.gradient(y, x)

    assert np.allclose(tf.vectorized_map(slope, tf.constant(ROWS)).numpy(), 3 * ROWS**2, rtol=1e-6)


def test_gradients_of_a_map():
    x = tf.constant(ROWS)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.vectorized_map(lambda r: tf.reduce_sum(r * r), x)
    assert np.allclose(tape.gradient(y, x).numpy(), 2 * ROWS)


def test_a_primitive_without_a_rule_runs_for_each(monkeypatch):
    monkeypatch.setattr(table["exp"], "batch", None)
    assert np.allclose(tf.vectorized_map(tf.exp, tf.constant(ROWS)).numpy(), np.exp(ROWS))
    f = tf.function(lambda x: tf.vectorized_map(tf.exp, x), input_signature=[tf.TensorSpec([None, 3])])
    assert np.allclose(f(ROWS).numpy(), np.exp(ROWS), rtol=1e-6)


def test_going_one_by_one_is_logged_or_rejected(caplog):
    rows = tf.constant([[1, 1], [2, 2]])
    assert tf.vectorized_map(lambda r: tf.unique(r)[0], rows).numpy().tolist() == [[1], [2]]
    (record,) = caplog.records
    assert record.getMessage() == (
        "Using a while_loop for converting UniqueWithCounts cause there is no registered converter for this op."
    )
    with pytest.raises(ValueError, match="No pfor vectorization defined for UniqueWithCounts"):
        tf.vectorized_map(lambda r: tf.unique(r)[0], rows, fallback_to_while_loop=False)
    mapped = tf.function(lambda x: tf.vectorized_map(lambda r: tf.unique(r)[0], x, warn=False))
    assert mapped(rows).numpy().tolist() == [[1], [2]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        mapped(tf.constant([[1, 1], [1, 2]]))
    assert len(caplog.records) == 1


def test_each_element_draws_its_own_numbers():
    def drawn(row):
        total = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a + tf.random.uniform([])), (0, 0.0))[1]
        return tf.stack([tf.random.normal([]), total])

    for run in (drawn, lambda row: tf.vectorized_map(lambda _: drawn(row), tf.zeros([2]))):
        for whole in (tf.vectorized_map, tf.function(tf.vectorized_map)):
            found = whole(run, tf.zeros([3])).numpy()
            assert len(np.unique(found)) == found.size


def test_gradients_go_through_control_flow_to_what_elements_share():
    x, w = tf.constant([1.0, 2.0]), tf.Variable(3.0)
    doubled = tf.custom_gradient(lambda r: (r * 2.0, lambda ct: ct * 7.0))

    def slopes(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.vectorized_map(lambda r: tf.cond(r > 1.0, lambda: w * r * r, lambda: doubled(w)), x)
        return tape.gradient(y, [x, w])

    for run in (slopes, tf.function(slopes)):
        by_x, by_w = run(x)
        assert by_x.numpy().tolist() == [0.0, 12.0]
        assert by_w.numpy() == 4.0 + 7.0


def test_a_python_condition_needs_autograph():
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.vectorized_map(lambda r: r if r > 0 else -r, tf.ones([2]))


@pytest.mark.parametrize(
    "elements, error, message",
    [
        (
            (np.zeros(2), np.zeros(3)),
            tf.errors.InvalidArgumentError,
            "of one leading size, but got shapes [(2,), (3,)]",
        ),
        (np.float64(1.0), ValueError, "with a leading size, but got shapes [()]"),
        ((np.zeros(2), np.float64(1.0)), ValueError, "with a leading size, but got shapes [(2,), ()]"),
    ],
)
def test_elements_that_do_not_fit(elements, error, message):
    with pytest.raises(error) as caught:
        tf.vectorized_map(lambda x: x, elements)
    assert str(caught.value) == f"vectorized_map needs elements {message}"


def test_an_error_in_the_body_closes_the_level():
    with pytest.raises(ValueError, match="mine"):
        tf.vectorized_map(lambda x: (_ for _ in ()).throw(ValueError("mine")), tf.ones([2]))
    assert tf.vectorized_map(lambda x: x + 1.0, tf.ones([2])).numpy().tolist() == [2.0, 2.0]
