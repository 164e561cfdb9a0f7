"""Loops compiled to kernels: which ones, with the results of the eager loop."""

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tvtf as tf
from tvtf import dtypes
from tvtf.passes.analysis.loop_op import all_calls, is_loop
from tvtf.passes.pipeline import lower
from tvtf.runtime.target import host_target


def traced(function):
    return tf.function(function, autograph=False)


def loops_of(function, *args):
    """How many loops stay in bytecode, and how many became kernels."""
    mod = lower(traced(function).get_concrete_function(*args).module(), host_target())
    kernels = [v.name_hint for v, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    return sum(map(is_loop, all_calls(mod))), sum(name.split("_")[0] == "loop" for name in kernels)


def agree(function, *args, native=1):
    """Compiled code gives what the eager loop gives, and is made of kernels."""
    assert loops_of(function, *args) == (0, native)
    expected, found = function(*args), traced(function)(*args)
    for e, f in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
        assert e.dtype == f.dtype
        np.testing.assert_allclose(f.numpy().astype("float64"), e.numpy().astype("float64"), rtol=1e-5, atol=1e-7)


def repeated(count, turn, *start):
    return tf.while_loop(lambda i, *_: i < count, lambda i, *s: (i + 1, *turn(i, *s)), (0, *start))[1:]


def fibonacci(x, y):
    return repeated(7, lambda i, a, b: (b, a + b), x, y)


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.COMPILED if d.name != "bool"])
def test_every_type_is_carried(dtype):
    agree(fibonacci, tf.constant([1, 2, 0], dtype), tf.constant([1, 0, 3], dtype))


def test_booleans_are_carried():
    agree(lambda x: repeated(3, lambda i, a: (tf.logical_not(a),), x), tf.constant([True, False]))


def test_a_kernel_with_named_values_runs_twice_in_a_turn():
    """The remainder's kernel names its parts; both calls in a turn are of one kernel."""

    def turn(i, x):
        once = x % 1.7
        return ((once + 1.5) % 1.7 - once + 1.0,)

    agree(lambda x: repeated(3, turn, x), tf.constant([0.5, 1.0, 2.0]))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_values_swap_are_kept_and_are_read_in_many_ways(count):
    def turn(i, a, b, c, d):
        return b, a, c, a * tf.cast(i, "float32") + d

    agree(lambda n, *x: repeated(n, turn, *x), tf.constant(count), *[tf.constant([k, k + 0.5]) for k in range(4)])


def test_loops_and_branches_within_a_loop():
    def inner(i, x):
        x = tf.cond(tf.reduce_sum(x) > 4.0, lambda: x * 0.25, lambda: tf.sin(x) + x)
        return repeated(i, lambda j, y: (y * 1.5 + tf.cast(j, "float32"),), x)

    agree(lambda x: repeated(4, inner, x), tf.constant([0.5, 1.0, 2.0]))


def test_a_branch_that_hands_a_value_through():
    def turn(i, x, y):
        return tf.cond(i < 2, lambda: (y, x), lambda: (x, y))

    agree(lambda x: repeated(5, turn, x, x + 1.0), tf.constant([1.0, 2.0]))


def test_large_state_lies_in_memory_from_outside():
    rng = np.random.default_rng(0)
    x, w = (tf.constant(rng.normal(0, 0.1, (64, 64)).astype("float32")) for _ in range(2))

    def turn(i, x, y):
        z = tf.nn.softmax(tf.matmul(x, w) + y)
        return y, z - tf.transpose(x)

    agree(lambda x: repeated(5, turn, x, x + 1.0), x)


def test_large_state_is_overwritten_only_where_nothing_reads_it_any_more():
    def turn(i, a, b, c, d):
        return a * 0.5 + b, tf.transpose(b) - 0.1, tf.matmul(c, a) + c, tf.sin(tf.matmul(a, b)) + d

    x = tf.constant(np.random.default_rng(0).normal(0, 0.1, (32, 32)))
    agree(lambda x: repeated(4, turn, x, x + 0.1, x * 2.0, x - 0.3), x)


def test_a_transposed_product_in_a_loop():
    """Of small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(0)
    x, w = (tf.constant(rng.integers(-2, 3, shape).astype("float32")) for shape in ((64, 512), (256, 512)))
    turn = lambda i, a: (tf.concat([tf.matmul(a, w, transpose_b=True)] * 2, 1),)  # noqa: E731
    agree(lambda x: repeated(2, turn, x), x)


def test_unknown_dims():
    grow = traced(lambda x, y: repeated(3, lambda i, a: (tf.matmul(a, y) + tf.cast(tf.shape(a)[0], "float32"),), x))
    specs = tf.TensorSpec([None, None]), tf.TensorSpec([None, None])
    grow = grow.get_concrete_function(*specs)
    for n, k in ((2, 3), (40, 70), (0, 2)):
        x, y = np.full((n, k), 0.5, "float32"), np.full((k, k), 0.25, "float32")
        expected = x
        for _ in range(3):
            expected = expected @ y + n
        np.testing.assert_allclose(grow(tf.constant(x), tf.constant(y))[0].numpy(), expected, rtol=1e-5)


def test_only_what_is_used_is_written():
    agree(lambda x: repeated(3, lambda i, a, b: (a + b, b * 2.0), x, x)[0], tf.constant([1.0, 2.0]))


def test_a_loop_that_makes_stacks_stays_in_bytecode_and_those_in_it_do_not():
    def slope(i, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            (y,) = repeated(i, lambda j, y: (y * x,), x)
        return (tape.gradient(y, x),)

    assert loops_of(lambda x: repeated(3, slope, x), tf.constant(2.0)) == (1, 3)
    expected = repeated(3, slope, tf.constant(0.5))
    assert traced(lambda x: repeated(3, slope, x))(tf.constant(0.5))[0].numpy() == expected[0].numpy()


def test_a_loop_too_long_stays_in_bytecode(monkeypatch):
    monkeypatch.setattr("tvtf.passes.lower.loop_kernel.MAX_STATEMENTS", 10)
    assert loops_of(fibonacci, tf.constant(1), tf.constant(1)) == (1, 0)


def test_integer_division_by_zero_fails_in_the_turn_that_divides():
    divide = traced(lambda n: repeated(4, lambda i, x: (x + 12 // (n - i),), tf.constant(0))[0])
    assert divide(tf.constant(9)).numpy() == 1 + 1 + 1 + 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero|Divide by 0|zero"):
        divide(tf.constant(2))
    assert divide(tf.constant(9)).numpy() == 5


UNARY = [tf.sin, tf.tanh, tf.abs, tf.negative, tf.square]
BINARY = [tf.add, tf.multiply, tf.maximum, tf.subtract]


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_loops(data):
    count, turns = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 4))
    shape = data.draw(st.sampled_from([(), (3,), (2, 5), (20, 17)]))
    plan = [
        [data.draw(st.integers(0, k)) for k in (len(UNARY) - 1, len(BINARY) - 1, count - 1, count - 1, 3)]
        for _ in range(count)
    ]

    def updated(i, state, unary, binary, first, second, how):
        new = BINARY[binary](UNARY[unary](state[first]), state[second])
        if how == 1:
            return tf.cond(tf.reduce_sum(state[first]) > 0.5, lambda: new, lambda: state[second])
        if how == 2:
            return repeated(i, lambda j, x: (tf.sin(x + state[second]),), new)[0]
        return state[first] if how == 3 else new

    def program(n, *start):
        return repeated(n, lambda i, *state: tuple(updated(i, state, *p) for p in plan), *start)

    rng = np.random.default_rng(0)
    start = [tf.constant(rng.normal(size=shape)) for _ in range(count)]
    expected = program(tf.constant(turns), *start)
    found = traced(program)(tf.constant(turns), *start)
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-7, atol=1e-7)
