"""Buffer donation: which updates are written in place, and which must not be."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.passes.pipeline import lower
from tvtf.runtime.target import host_target

SIXTEEN = np.arange(16, dtype=np.float32).reshape(4, 4)


def run(body, count=1, values=SIXTEEN):
    """The variables after two calls, whether each kept its memory in the second, and what NumPy would have."""
    variables = [tf.Variable(values + 100 * i) for i in range(count)]
    step = tf.function(lambda: body(*variables), autograph=False)
    step()
    places = [v._array.ctypes.data for v in variables]
    step()
    return [v.numpy() for v in variables], [v._array.ctypes.data == p for v, p in zip(variables, places)]


def eager(body, count=1, values=SIXTEEN):
    variables = [tf.Variable(values + 100 * i) for i in range(count)]
    body(*variables)
    body(*variables)
    return [v.numpy() for v in variables]


def put(v, value):
    v.assign(value, read_value=False)


def added(v):
    put(v, v + 1.0)


def chained(v):
    put(v, v * 0.5)
    put(v, v - 3.0)


def of_itself(v):
    put(v, v * v + v)


def momentum(v, m):
    put(m, m * 0.9 + tf.sin(v))
    put(v, v - 0.1 * m)


def adam(v, m, s):
    slope = tf.cos(v)
    put(m, m * 0.9 + slope * 0.1)
    put(s, s * 0.99 + slope * slope * 0.01)
    put(v, v - 0.1 * m / (tf.sqrt(s) + 1e-3))


def row_added(v):
    put(v, v + tf.constant([1.0, 2.0, 3.0, 4.0]))


@pytest.mark.parametrize(
    "body, count", [(added, 1), (chained, 1), (of_itself, 1), (momentum, 2), (adam, 3), (row_added, 1)]
)
def test_elementwise_updates_lie_where_they_lay(body, count):
    found, kept = run(body, count)
    np.testing.assert_allclose(found, eager(body, count), rtol=1e-5)
    assert kept == [True] * count


PLACES, ROWS = tf.constant([[2], [0], [2]]), tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))


def scattered(v):
    put(v, tf.tensor_scatter_nd_add(v, PLACES, ROWS))


def replaced(v):
    put(v, tf.tensor_scatter_nd_update(v, PLACES, ROWS))


@pytest.mark.parametrize("body", [scattered, replaced])
def test_rows_are_scattered_where_they_lie(body):
    found, kept = run(body)
    np.testing.assert_array_equal(found, eager(body))
    assert kept == [True]


@pytest.mark.parametrize("body", [scattered, replaced])
def test_a_scatter_leaves_other_rows_alone(body):
    v = tf.Variable(SIXTEEN)
    module = tf.function(lambda: body(v), autograph=False).get_concrete_function().code().module()
    lowered = lower(module, host_target())
    (kernel,) = [f for name, f in lowered.functions_items() if "_in_place_" in name.name_hint]
    assert kernel.attrs["tirx.noalias"] and "cls.assign(" not in lowered.script()


def scattered_and_read(v, m):
    new = tf.tensor_scatter_nd_add(v, PLACES, ROWS)
    put(m, v - new)
    put(v, new)


def scattered_elsewhere(v, m):
    put(v, tf.tensor_scatter_nd_add(m, PLACES, ROWS))
    put(m, m + 1.0)


def scattered_twice(v):
    put(v, tf.tensor_scatter_nd_add(tf.tensor_scatter_nd_add(v, PLACES, ROWS), PLACES, ROWS))


def scattered_from_itself(v):
    put(v, tf.tensor_scatter_nd_update(v, tf.constant([[1], [2], [3], [0]]), v))


@pytest.mark.parametrize(
    "body, count", [(scattered_and_read, 2), (scattered_elsewhere, 2), (scattered_twice, 1), (scattered_from_itself, 1)]
)
def test_scatters_of_what_others_read_are_copies(body, count):
    np.testing.assert_array_equal(run(body, count)[0], eager(body, count))


def transposed(v):
    put(v, tf.transpose(v) + 1.0)


def transposed_later(v):
    put(v, tf.transpose(v * 2.0) + 1.0)


def reversed_rows(v):
    put(v, tf.reverse(v, [0]))


def shifted(v):
    put(v, tf.roll(v, 1, 0))


def normalised(v):
    put(v, v / (tf.reduce_sum(v) + 1.0))


def row_normalised(v):
    put(v, v - tf.reduce_max(v, axis=1, keepdims=True))


def multiplied(v):
    put(v, tf.matmul(v, v) / 100.0)


def own_row(v):
    put(v, v + v[0])


def own_column_broadcast(v):
    put(v, v + v[:, :1])


def softmaxed(v):
    put(v, tf.nn.softmax(v) + v)


def cumulated(v):
    put(v, tf.cumsum(v))


def gathered(v):
    put(v, tf.gather(v, [3, 2, 1, 0]))


UNSAFE = [
    *(transposed, transposed_later, reversed_rows, shifted, normalised, row_normalised, multiplied, own_row),
    *(own_column_broadcast, softmaxed, cumulated, gathered),
]


@pytest.mark.parametrize("body", UNSAFE)
def test_updates_that_read_elsewhere_are_right(body):
    found, _ = run(body)
    np.testing.assert_allclose(found, eager(body), rtol=1e-5)


def swapped(v, w):
    old = tf.identity(v)
    put(v, w + 0.0)
    put(w, old + 0.0)


def swapped_bare(v, w):
    old = v.read_value()
    put(v, w)
    put(w, old)


def read_later(v, w):
    old = v + 0.0
    put(v, v + 1.0)
    put(w, tf.matmul(old, tf.transpose(v)))


def old_read_after(v, w):
    before = v.read_value()
    put(v, v * 2.0)
    put(w, w + tf.reduce_sum(before) + tf.reduce_sum(v))


def same_value(v, w):
    made = tf.sin(v) + w
    put(v, made)
    put(w, made)


def one_into_other(v, w):
    put(v, w)
    put(w, w + 1.0)


@pytest.mark.parametrize("body", [swapped, swapped_bare, read_later, old_read_after, same_value, one_into_other])
def test_variables_that_read_each_other(body):
    found, _ = run(body, 2)
    np.testing.assert_allclose(found, eager(body, 2), rtol=1e-5)


def in_a_branch(v):
    put(v, tf.cond(tf.reduce_sum(v) > 0.0, lambda: v + 1.0, lambda: v))


def branch_gives_it_back(v):
    put(v, tf.cond(tf.reduce_sum(v) > 1e9, lambda: v + 1.0, lambda: v))


def assigned_in_a_branch(v):
    tf.cond(tf.reduce_sum(v) > 0.0, lambda: v.assign(v * 2.0), lambda: v.assign(v))


def in_a_loop(v):
    put(v, tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0 + v), (tf.constant(0), v.read_value()))[1])


def loop_without_rounds(v):
    put(v, tf.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x + 1.0), (tf.constant(0), v.read_value()))[1])


def assigned_in_a_loop(v):
    def body(i):
        v.assign(tf.transpose(v) + 1.0)
        return (i + 1,)

    tf.while_loop(lambda i: i < 3, body, (tf.constant(0),))


@pytest.mark.parametrize(
    "body",
    [in_a_branch, branch_gives_it_back, assigned_in_a_branch, in_a_loop, loop_without_rounds, assigned_in_a_loop],
)
def test_updates_through_control_flow(body):
    found, _ = run(body)
    np.testing.assert_allclose(found, eager(body), rtol=1e-5)


@pytest.mark.parametrize(
    "body", [added, chained, transposed, swapped_bare, same_value, in_a_branch, loop_without_rounds]
)
def test_what_was_read_before_stays(body):
    count = body.__code__.co_argcount
    variables = [tf.Variable(SIXTEEN + 100 * i) for i in range(count)]

    @tf.function(autograph=False)
    def step():
        before = [v.read_value() for v in variables]
        body(*variables)
        return before

    first = step()
    kept = [t.numpy() for t in first]
    second = step()
    step()
    np.testing.assert_array_equal([t.numpy() for t in first], [SIXTEEN + 100 * i for i in range(count)])
    np.testing.assert_array_equal(kept, [t.numpy() for t in first])
    step()
    np.testing.assert_array_equal([t.numpy() for t in second], [eager_after_one(body, count)[i] for i in range(count)])


def eager_after_one(body, count):
    variables = [tf.Variable(SIXTEEN + 100 * i) for i in range(count)]
    body(*variables)
    return [v.numpy() for v in variables]


def test_a_failure_between_leaves_what_came_before():
    v, w = tf.Variable(SIXTEEN), tf.Variable(SIXTEEN)

    @tf.function(autograph=False)
    def step(i):
        put(v, v + 1.0)
        put(w, w + tf.gather(tf.constant([1.0, 2.0]), i))
        put(v, v + 10.0)

    step(tf.constant(1))
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(7))
    np.testing.assert_array_equal(v.numpy(), SIXTEEN + 12)
    np.testing.assert_array_equal(w.numpy(), SIXTEEN + 2)


def test_a_loop_that_may_fail_comes_before_what_is_donated():
    v, w = tf.Variable(SIXTEEN), tf.Variable(SIXTEEN)

    @tf.function(autograph=False)
    def step(n):
        put(v, v + 1.0)
        x = tf.constant([1.0, 2.0])
        put(w, w + tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + tf.gather(x, i)), [0, 0.0])[1])

    step(tf.constant(2))
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(3))
    np.testing.assert_array_equal(v.numpy(), SIXTEEN + 2)
    np.testing.assert_array_equal(w.numpy(), SIXTEEN + 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "uint8", "bool"])
def test_every_type_is_donated(dtype):
    v = tf.Variable(tf.cast(tf.ones([64]), dtype))
    change = tf.function(
        (lambda: put(v, tf.logical_not(v))) if dtype == "bool" else (lambda: put(v, v + v)), autograph=False
    )
    change()
    place = v._array.ctypes.data
    change()
    assert v._array.ctypes.data == place
    assert v.numpy()[0] == (True if dtype == "bool" else 4)


def test_an_unknown_size_is_right():
    v = tf.Variable(SIXTEEN[0])
    step = tf.function(lambda x: put(v, v + tf.reduce_sum(x)), input_signature=[tf.TensorSpec([None])], autograph=False)
    step(tf.ones([3]))
    step(tf.ones([5]))
    np.testing.assert_array_equal(v.numpy(), SIXTEEN[0] + 8)


def test_what_is_left_in_a_variable_is_no_result():
    weight, seen = tf.Variable(tf.zeros([64])), tf.Variable(tf.zeros([64]))

    @tf.function
    def step(x):
        weight.assign_add(x)
        seen.assign(tf.reverse(seen + x, [0]))
        return tf.reduce_sum(x)

    x = tf.range(64.0)
    call = step.get_concrete_function(x).code()
    assert len(call.code().outputs) == 2
    for _ in range(3):
        assert step(x).numpy() == 2016.0
    assert weight.numpy()[2] == 6.0
    assert seen.numpy()[0] == 63.0 + 0.0 + 63.0


def test_a_value_that_two_variables_get():
    first, second = tf.Variable(tf.zeros([64])), tf.Variable(tf.zeros([64]))

    @tf.function
    def step(x):
        y = first + x
        first.assign(y)
        second.assign(y)
        return y

    x = tf.range(64.0)
    kept = [step(x) for _ in range(3)]
    second.assign_add(x)
    assert [k.numpy()[1] for k in kept] == [1.0, 2.0, 3.0]
    assert (first.numpy()[1], second.numpy()[1]) == (3.0, 4.0)


def test_a_value_read_between_calls_stays():
    weight = tf.Variable(tf.zeros([64]))

    @tf.function
    def step():
        weight.assign_add(tf.ones([64]))

    read = []
    for _ in range(4):
        step()
        step()
        read.append(weight.read_value())
    assert [r.numpy()[0] for r in read] == [2.0, 4.0, 6.0, 8.0]
