"""The fast path for calls like earlier ones has the same results as the complete one."""

import pytest

import tvtf as tf


def traced(function):
    return tf.function(function, autograph=False)


def test_nests_of_tensors_keep_their_form():
    @traced
    def total(parts):
        x, (y, mask) = parts
        return x - 2.0 * y if mask is None else x - y * mask

    a, b, c = tf.constant(7.0), tf.constant(2.0), tf.constant(3.0)
    for _ in range(3):
        assert float(total((a, (b, None)))) == 3.0
        assert float(total([a, (b, c)])) == 1.0
        assert float(total((b, [a, None]))) == -12.0
    assert total.experimental_get_tracing_count() == 3


def test_other_shapes_and_dtypes_are_other_calls():
    total = traced(lambda parts: tf.reduce_sum(parts[0]) + tf.cast(tf.reduce_sum(parts[1]), tf.float32))
    for size in (2, 3, 2, 3):
        assert float(total((tf.ones([size]), tf.ones([2], tf.int32)))) == size + 2
        assert float(total((tf.ones([size]), tf.ones([2])))) == size + 2


def test_iterators_go_on_where_they_are():
    step = traced(lambda iterator: next(iterator) * 2)
    first, second = iter(tf.data.Dataset.range(4)), iter(tf.data.Dataset.range(10, 14))
    assert [int(step(i)) for i in (first, second, first, second, first)] == [0, 20, 2, 22, 4]
    other = iter(tf.data.Dataset.from_tensor_slices(tf.constant([1.5, 2.5])))
    assert [float(step(other)), int(step(second)), float(step(other))] == [3.0, 24, 5.0]
    with pytest.raises(tf.errors.OutOfRangeError):
        step(other)


def test_what_a_tape_sees():
    v = tf.Variable(3.0)
    times = traced(lambda parts: parts[0] * v)
    x = tf.constant(2.0)
    assert [float(times([x])) for _ in range(2)] == [6.0, 6.0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = times([x])
    assert [float(g) for g in tape.gradient(y, [x, v])] == [3.0, 2.0]


@pytest.mark.parametrize("nested", [False, True])
def test_python_that_is_called_sees_variables_as_they_are(nested):
    v = tf.Variable(0.0)

    @traced
    def step(x):
        v.assign_add(x[0] if nested else x)
        tf.py_function(lambda: v.assign(v * 100.0), [], [])
        return v.assign_add(1.0)

    one = (tf.constant(1.0),) if nested else tf.constant(1.0)
    assert [float(step(one)) for _ in range(3)] == [101.0, 10201.0, 1020201.0]


def test_a_dataset_that_is_known_by_itself():
    """A function that does more with datasets than loop over them has a trace for each."""
    total = traced(
        lambda data: data.batch(2).reduce(tf.constant(0, tf.int64), lambda old, new: old + tf.reduce_sum(new))
    )
    three, five = tf.data.Dataset.range(4), tf.data.Dataset.range(6)
    assert [int(total(d)) for d in (three, five, three, five)] == [6, 15, 6, 15]


def test_variables_in_nests_are_the_ones_passed():
    add = traced(lambda parts: parts[0] + parts[1])
    a, b, x = tf.Variable(1.0), tf.Variable(10.0), tf.constant(2.0)
    assert [float(add((v, x))) for v in (a, b, a, b)] == [3.0, 12.0, 3.0, 12.0]
