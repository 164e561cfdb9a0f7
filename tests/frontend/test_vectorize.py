"""vectorized_map equals the map of one element at a time, by rule or by loop."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.primitive import table

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
    with pytest.raises(ValueError, match="Exp has no batching rule and maps over an axis of unknown size x_0"):
        f(ROWS)


@pytest.mark.parametrize(
    "elements, shapes",
    [
        ((np.zeros(2), np.zeros(3)), "[(2,), (3,)]"),
        (np.float64(1.0), "[()]"),
        ((np.zeros(2), np.float64(1.0)), "[(2,), ()]"),
    ],
)
def test_elements_that_do_not_fit(elements, shapes):
    with pytest.raises(ValueError) as caught:
        tf.vectorized_map(lambda x: x, elements)
    assert str(caught.value) == f"vectorized_map needs elements of one leading size, but got shapes {shapes}"


def test_an_error_in_the_body_closes_the_level():
    with pytest.raises(ValueError, match="mine"):
        tf.vectorized_map(lambda x: (_ for _ in ()).throw(ValueError("mine")), tf.ones([2]))
    assert tf.vectorized_map(lambda x: x + 1.0, tf.ones([2])).numpy().tolist() == [2.0, 2.0]
