"""What fails inside a branch or a loop leaves what was assigned before it, and nothing that comes after."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.primitive import table

MESSAGE = r"^indices are not in \[0, 3\) \(.*test_guard\.py, line \d+\)$"


def variables():
    return tf.Variable([1.0, 1.0, 1.0]), tf.Variable([1.0, 1.0, 1.0])


def values(*tensors):
    return [np.asarray(t).tolist() for t in tensors]


def test_a_branch_that_fails():
    v, w = variables()

    @tf.function
    def run(x, i):
        old = v.read_value()
        v.assign(x * 2.0)
        y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.gather(x, i), lambda: x[:1])
        w.assign(x)
        return y, old, v.read_value()

    x = tf.constant([1.0, 2.0, 3.0])
    assert values(*run(x, tf.constant([1]))) == [[2.0], [1.0, 1.0, 1.0], [2.0, 4.0, 6.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=MESSAGE):
        run(x + 3.0, tf.constant([7]))
    assert values(v, w) == [[8.0, 10.0, 12.0], [1.0, 2.0, 3.0]]
    assert values(*run(x, tf.constant([0]))) == [[1.0], [8.0, 10.0, 12.0], [2.0, 4.0, 6.0]]


def test_a_loop_that_fails():
    v, w = variables()

    @tf.function
    def run(x, n):
        v.assign(x)
        total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + tf.gather(x, i)), [0, 0.0])[1]
        w.assign(x + total)
        return total

    assert run(tf.constant([1.0, 2.0, 3.0]), tf.constant(3)).numpy() == 6.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=MESSAGE):
        run(tf.constant([5.0, 5.0, 5.0]), tf.constant(9))
    assert values(v, w) == [[5.0, 5.0, 5.0], [7.0, 8.0, 9.0]]


def test_what_somebody_holds_of_the_variable_stays():
    v, _ = variables()
    held = v.read_value()

    @tf.function
    def run(x, i):
        v.assign(x)
        return tf.cond(i[0] >= 0, lambda: tf.gather(x, i), lambda: x[:1])

    with pytest.raises(tf.errors.InvalidArgumentError, match=MESSAGE):
        run(tf.constant([4.0, 4.0, 4.0]), tf.constant([3]))
    assert values(v, held) == [[4.0, 4.0, 4.0], [1.0, 1.0, 1.0]]


def test_all_elements_of_a_batch_have_to_hold():
    guard = table["guard"]
    held = guard.batch(3, [tf.constant([True, True, True])], [True], message="no")
    assert values(held) == [[True, True, True]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^no \[Op:Assert\] name: $"):
        guard.batch(3, [tf.constant([True, False, True])], [True], message="no")
