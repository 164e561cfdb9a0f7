"""A failure in a branch or loop leaves the assignments before it, and none after it."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.primitive import table

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


def test_references_to_a_variables_memory_keep_its_value():
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
    with pytest.raises(tf.errors.InvalidArgumentError, match="^no$"):
        guard.batch(3, [tf.constant([True, False, True])], [True], message="no")


def in_a_branch(v, w, x, i):
    y = tf.zeros([])
    if tf.reduce_sum(x) > 0.0:
        v.assign_add(x * 2.0)
        y = tf.gather(x, i)
        w.assign(x + y)
    return y


def after_a_branch(v, w, x, i):
    y = x
    if i < 5:
        v.assign(x * tf.cast(i, tf.float32))
        y = v.read_value()
    w.assign(y + v)
    z = tf.gather(x, i)
    v.assign(x)
    return z + tf.reduce_sum(y)


def in_a_loop(v, w, x, i):
    k, total = 0, 0.0
    while k < i:
        total += tf.gather(x, k)
        v.assign_add(x)
        k += 1
    w.assign(v * total)
    return total


def in_a_branch_of_a_loop(v, w, x, i):
    old = v.read_value()
    k, total = 0, 0.0
    while k < i:
        w.assign_add(v)
        if k > 0:
            v.assign(w * 0.5)
            total += tf.gather(x, k)
        else:
            v.assign_sub(x)
        w.assign(v + old)
        k += 1
    return total + tf.reduce_sum(old)


def runs(program, compiled):
    """What some calls return, and the Variables after each; two of them fail."""
    v, w = variables()
    run = tf.function(program) if compiled else program
    for i in (0, 1, 7, 2, 9):
        try:
            yield values(run(v, w, tf.constant([1.0, 2.0, 3.0]), tf.constant(i)), v, w)
        except tf.errors.InvalidArgumentError:
            yield "failed", values(v, w)


@pytest.mark.parametrize("program", [in_a_branch, after_a_branch, in_a_loop, in_a_branch_of_a_loop])
def test_assignments_among_what_fails_are_done_as_eagerly(program):
    assert list(runs(program, compiled=True)) == list(runs(program, compiled=False))


def test_an_assertion_shows_its_tensors_and_leaves_what_was_assigned_before_it():
    v, _ = variables()

    @tf.function
    def run(x):
        v.assign(x)
        tf.debugging.assert_positive(x, message="rates")
        v.assign(x + 1.0)

    run(tf.constant([1.0, 2.0, 3.0]))
    assert values(v) == [[2.0, 3.0, 4.0]]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\[rates.  \] .* \[1 -2 3\] \(.*test_guard\.py, line \d+\)$"
    ):
        run(tf.constant([1.0, -2.0, 3.0]))
    assert values(v) == [[1.0, -2.0, 3.0]]


def test_numbers_are_checked_op_by_op_and_reported_with_the_users_line():
    tf.debugging.enable_check_numerics()
    try:

        @tf.function
        def run(x):
            y = x * 2.0
            return tf.exp(y) - 1.0

        assert values(run(tf.constant([0.0]))) == [[0.0]]
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r'(?s)graph op "Exp".*test_guard\.py.*tf\.exp\(y\) - 1'
        ):
            run(tf.constant([100.0]))
    finally:
        tf.debugging.disable_check_numerics()
    assert values(tf.exp(tf.constant(100.0))) == [float("inf")]


def test_a_variable_that_grew_is_not_written_where_a_later_guard_fails():
    """Its new value does not fit the memory that it had; the others' is written."""
    v, w = tf.Variable(tf.zeros([1]), shape=[None]), tf.Variable(0.0)

    @tf.function
    def grow(n):
        v.assign(tf.concat([v, tf.cast(tf.range(n), tf.float32)], 0))
        w.assign(5.0)
        return tf.gather(v, n + 1)

    with pytest.raises(tf.errors.InvalidArgumentError):
        grow(tf.constant(3))
    assert v.numpy().tolist() == [0.0] and float(w) == 5.0


def test_a_guard_leaves_nothing_that_it_does_not_need(capfd):
    """A window's guard asks for the whole size only where a start may be negative; TVM warns of what is left over."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32)])
    def run(x, start, size):
        return tf.slice(x, [start, 0], [size, 3])

    x = tf.reshape(tf.range(12.0), [4, 3])
    np.testing.assert_array_equal(run(x, 1, 2), x[1:3])
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(x, 3, 2)
    assert "dead code" not in capfd.readouterr().err


def guards(fn, *args):
    return str(fn.ir(*args, after="guard")).count(" guard(")


def test_a_check_is_made_once_for_an_op_and_its_gradient():
    labels, logits = tf.constant([0, 2, 1]), tf.constant(np.eye(3, dtype=np.float32))

    @tf.function
    def step(labels, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tape.gradient(losses, logits)

    assert guards(step, labels, logits) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
        step.python_function(labels + 3, logits)
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
        step(labels + 3, logits)


def test_checks_of_other_values_or_sizes_are_made():
    x, y, i = tf.constant([1.0, 2.0, 3.0]), tf.constant([1.0, 2.0]), tf.constant([2])
    run = tf.function(lambda x, y, i: (tf.gather(x, i), tf.gather(x, i) * 2.0, tf.gather(y, i), tf.gather(x, i + 1)))
    assert guards(run, x, y, i) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 2\)"):
        run(x, y, i)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 3\)"):
        run(x, x, i)


def test_a_check_in_a_branch_is_made_there():
    @tf.function
    def run(x, i):
        return tf.cond(x[0] > 0.0, lambda: tf.gather(x, i), lambda: x[:1]) + tf.gather(x * 0.0 + 1.0, i)

    x = tf.constant([1.0, 2.0, 3.0])
    for each in (x, -x):
        with pytest.raises(tf.errors.InvalidArgumentError, match=MESSAGE):
            run(each, tf.constant([7]))


def test_checks_against_dims_of_one_name_are_made():
    """Both vectors have a dim that the compiler may call the same; only the second index is out of range."""

    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None]), tf.TensorSpec([1], tf.int32)])
    def run(x, y, i):
        return tf.gather(x, i), tf.gather(y, i), tf.gather(y, i) * 2.0

    with pytest.raises(tf.errors.InvalidArgumentError, match="indices are not in"):
        run([1.0, 2.0, 3.0], [1.0, 2.0], [2])
    assert values(*run([1.0, 2.0], [3.0, 4.0, 5.0], [1])) == [[2.0], [4.0], [8.0]]
