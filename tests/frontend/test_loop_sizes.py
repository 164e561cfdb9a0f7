"""Loops over values with sizes known only at run time: numbers and gradients of eager code, effects once."""

import numpy as np
import pytest
from covering import some

import tvtf as tf

COUNT, FACTOR = tf.constant(4), tf.constant(2.0)


def rows_of_an_array(n, w):
    array = tf.TensorArray(tf.float32, 3)
    for i in tf.range(3):
        array = array.write(i, tf.ones([n]) * w * tf.cast(i, tf.float32))
    return array.stack()


def rows_by_a_mask(n, w):
    array = tf.TensorArray(tf.float32, 3, element_shape=[None])
    for i in tf.range(3):
        row = tf.range(4.0) * w + tf.cast(i, tf.float32)
        array = array.write(i, tf.boolean_mask(row, [True, False, True, True]))
    return array.stack()


def rows_in_branches(n, w):
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    for i in tf.range(n):
        if i % 2 == 0:
            array = array.write(i, tf.ones([n + 1]) * w)
        else:
            array = array.write(i, tf.zeros([n + 1]))
    return array.stack()


def arrays_of_arrays(n, w):
    outer = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    for i in tf.range(n):
        inner = tf.TensorArray(tf.float32, 2)
        for j in tf.range(2):
            inner = inner.write(j, tf.ones([n + 1]) * w * tf.cast(i * j, tf.float32))
        outer = outer.write(i, inner.stack())
    return outer.stack()


def only_the_loop_defines(n, w):
    for i in tf.range(3):
        y = tf.ones([n + i]) * w
    return y


def grown(n, w):
    y = tf.ones([n])
    for i in tf.range(3):
        y = tf.concat([y * w, tf.ones([n + i])], 0)
    return y


def shrunk_by_a_mask(n, w):
    y = tf.range(tf.cast(n, tf.float32)) * w
    while tf.size(y) > 1:
        y = tf.boolean_mask(y, y > tf.reduce_min(y)) * w
    return y


def two_that_meet(n, w):
    x, y = tf.ones([n]), tf.ones([n]) * w
    for _ in tf.range(2):
        y = tf.concat([y, y], 0)[: tf.size(y) + 1]
        x = tf.ones(tf.shape(y)) + x[0]
        y = x * y
    return x + y


def two_loops(n, w):
    y = tf.ones([n]) * w
    for i in tf.range(2):
        for j in tf.range(2):
            y = tf.concat([y, tf.ones([i + j]) * w], 0)
    return y


def with_a_break(n, w):
    y = tf.ones([n]) * w
    for i in tf.range(5):
        if tf.size(y) > 7:
            break
        y = tf.concat([y, tf.ones([i]) * w], 0)
    return y


def with_a_return(n, w):
    for i in tf.range(5):
        y = tf.ones([n + i]) * w
        if tf.size(y) > 6:
            return y * 3.0
    return tf.zeros([n])


def by_while_loop(n, w):
    def body(i, y):
        return i + 1, tf.concat([y, tf.ones([i]) * w], 0)

    return tf.while_loop(lambda i, y: i < n, body, [0, tf.ones([n])])[1]


def by_while_loop_with_a_limit(n, w):
    def body(y):
        return (tf.concat([y, tf.ones([n]) * w], 0),)

    return tf.while_loop(lambda y: True, body, [tf.ones([n])], maximum_iterations=3)[0]


def mapped(n, w):
    return tf.map_fn(lambda i: tf.ones([n]) * w * tf.cast(i, tf.float32), tf.range(3), fn_output_signature=tf.float32)


def folded(n, w):
    return tf.foldl(lambda y, i: tf.concat([y, tf.ones([i]) * w], 0), tf.range(4), tf.ones([n]))


def a_loop_in_a_branch(n, w):
    """It doesn't use the sizes that its value's size before it is made of."""
    y = tf.concat([tf.ones([n]) * w, tf.range(tf.cast(n, tf.float32))], 0)[:6]
    if tf.size(y) < 2:
        for _ in tf.range(3):
            if tf.size(y) < 8:
                continue
            y = tf.boolean_mask(y, y > 2.0)
            if w > -1.0:
                break
    return y


def of_no_turn(n, w):
    array = tf.TensorArray(tf.float32, 2)
    y = tf.ones([n]) * w
    for i in tf.range(n - 4):
        array = array.write(i, tf.ones([n]))
        y = tf.concat([y, tf.ones([i])], 0)
    return y


PROGRAMS = [
    rows_of_an_array,
    rows_by_a_mask,
    rows_in_branches,
    arrays_of_arrays,
    only_the_loop_defines,
    grown,
    shrunk_by_a_mask,
    two_that_meet,
    two_loops,
    with_a_break,
    with_a_return,
    by_while_loop,
    by_while_loop_with_a_limit,
    mapped,
    folded,
    a_loop_in_a_branch,
    of_no_turn,
]


def with_gradient(program):
    def run(n, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = program(n, w)
            total = tf.reduce_sum(y * y)
        return y, tape.gradient(total, w)

    return run


LIKE_OTHERS = [rows_of_an_array, two_loops, with_a_return, by_while_loop]
"""Other loops have these forms, too: rows by a mask, arrays of arrays, loops with a break, loops with a limit."""


@pytest.mark.parametrize(
    "program", some(PROGRAMS, [p for p in PROGRAMS if p not in LIKE_OTHERS]), ids=lambda program: program.__name__
)
def test_values_and_gradients_are_those_of_eager_code(program):
    run = with_gradient(program)
    wanted, found = run(COUNT, FACTOR), tf.function(run)(COUNT, FACTOR)
    for a, b in zip(wanted, found):
        np.testing.assert_allclose(a, b, rtol=1e-6)


OF_ANY_COUNT = [program for program in PROGRAMS if program is not of_no_turn]


@pytest.mark.parametrize("program", OF_ANY_COUNT, ids=lambda program: program.__name__)
def test_one_trace_serves_every_count(program):
    run = tf.function(program)
    for n in (2, 5):
        np.testing.assert_allclose(run(tf.constant(n), FACTOR), program(tf.constant(n), FACTOR), rtol=1e-6)


def test_the_first_turn_has_its_effects_once():
    runs, values = tf.Variable(0), []

    def row(i, n):
        runs.assign_add(1)
        tf.py_function(lambda: values.append(0), [], [])
        return tf.ones([n + i - i])

    @tf.function
    def mapped_rows(n):
        return tf.map_fn(lambda i: row(i, n), tf.range(3), fn_output_signature=tf.float32)

    @tf.function
    def looped_rows(n):
        array = tf.TensorArray(tf.float32, 3)
        for i in tf.range(3):
            array = array.write(i, row(i, n))
        return array.stack()

    for run in (mapped_rows, looped_rows):
        runs.assign(0)
        values.clear()
        np.testing.assert_array_equal(run(tf.constant(2)), np.ones((3, 2)))
        assert (runs.numpy(), len(values)) == (3, 3)


def test_rows_of_several_sizes_are_rejected():
    @tf.function
    def run(n):
        array = tf.TensorArray(tf.float32, 3, infer_shape=False)
        for i in tf.range(n):
            array = array.write(i, tf.ones([i]))
        return array.concat()

    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Dimensions must be equal, but are 0 and 1 .*test_loop_sizes"
    ):
        run(tf.constant(3))


def test_a_size_that_was_known_may_not_change():
    def run(x):
        while tf.size(x) > 1:
            x = x[1:]
        return x

    with pytest.raises(ValueError, match="'x' has shape .4,. before the loop, but shape .3,. after one iteration"):
        tf.function(run)(tf.ones([4]))
    unknown = tf.function(run, input_signature=[tf.TensorSpec([None])])
    assert unknown(tf.constant([1.0, 2.0, 3.0])).numpy() == [3.0]


def test_python_sees_the_sizes_that_it_saw_before():
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def run(x):
        for _ in tf.range(2):
            seen.append(x.shape.as_list())
            x = tf.concat([x, x[:1]], 0)
            seen.append(x.shape.as_list())
        return x

    assert run(tf.ones([3, 2])).shape == (5, 2)
    assert all(shape == [None, 2] for shape in seen)


def test_a_limited_loop_with_an_array_of_elements_of_unknown_size():
    def rows(x):
        count = tf.shape(x)[0]
        array = tf.TensorArray(tf.float32, size=count, element_shape=[None, 2])

        def body(i, arrays, total):
            return i + 1, (arrays[0].write(i, total),), total + x[i]

        start = (0, (array,), tf.zeros_like(x[0]))
        return tf.while_loop(lambda i, *_: i < count, body, start, maximum_iterations=count)[1][0].stack()

    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    found = tf.function(rows, input_signature=[tf.TensorSpec([None, None, 2])])(x)
    np.testing.assert_array_equal(found, rows(tf.constant(x)))


def test_a_loop_and_an_op_after_it_compute_one_common_size():
    v, w = tf.Variable(tf.ones([3, 4])), tf.constant([0.1, 0.2, -0.3, 0.4])

    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.cond(tf.reduce_sum(v) > 100.0, lambda: tf.tanh(x), lambda: x + v)
            for _ in tf.range(2):
                y = tf.map_fn(lambda row: row * 2.0 + w, x)
                v.assign(0.5 * v + tf.where(x > z, x, z))
            product = y * z
        return product, *tape.gradient(product, [x, v])

    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    found = tf.function(gradients, input_signature=[tf.TensorSpec([None, None])])(x)
    v.assign(tf.ones([3, 4]))
    for of_compiled, of_eager in zip(found, gradients(tf.constant(x)), strict=True):
        np.testing.assert_allclose(of_compiled, of_eager, rtol=1e-6)


def test_a_product_of_known_and_unknown_sizes_is_fused():
    known = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))

    def products(x):
        y = x
        for _ in tf.range(2):
            y = y + known
        elementwise = tf.maximum(x, tf.einsum("ij,ij->ij", known, y))
        return elementwise, tf.einsum("ij,ij->ij", y, known) * 2.0, tf.einsum("ij,kj->ik", y, known) + 1.0

    x = np.ones([3, 4], np.float32)
    found = tf.function(products, input_signature=[tf.TensorSpec([None, None])])(x)
    for of_compiled, of_eager in zip(found, products(tf.constant(x)), strict=True):
        np.testing.assert_allclose(of_compiled, of_eager, rtol=1e-6)
