"""What leaves a loop: its values stay the same, its body loses the work, and what may fail stays inside."""

import numpy as np
import pytest

import tvtf as tf
from tvtf import dialect
from tvtf.passes.dead import drop_dead
from tvtf.passes.invariants import hoist_invariants
from tvtf.passes.simplify import simplify

X, W = (np.random.default_rng(0).normal(size=shape).astype("float32") for shape in ((9, 6), (6, 6)))


def names(module, where: str) -> list[str]:
    """The ops of ``main``, or of all other functions."""
    found = []
    for name, function in module.functions_items():
        if (name.name_hint == "main") == (where == "main"):
            bindings = [b for block in function.body.blocks for b in block.bindings]
            found += [dialect.read(b.value).primitive.name for b in bindings if dialect.is_dialect(b.value)]
    return found


def moved(function, *arguments):
    traced = tf.function(function)
    for found, wanted in zip(tf.nest.flatten(traced(*arguments)), tf.nest.flatten(function(*arguments))):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    before = drop_dead(simplify(traced.get_concrete_function(*arguments).module()))
    after = hoist_invariants(before)
    return before, after


def product_of_invariants(x, w):
    for _ in tf.range(3):
        x = tf.tanh(x @ (w @ w))
    return x


def sums(x, w):
    for _ in tf.range(3):
        x = x * tf.reduce_sum(tf.exp(w), 0)
    return x


def part_of_a_matrix(x, w):
    y = x[:, :3]
    for _ in tf.range(3):
        y = tf.tanh(y @ w[:3, :3])
    return y


def in_two_loops(x, w):
    for _ in tf.range(3):
        for _ in tf.range(2):
            x = tf.tanh(x @ (w @ w))
    return x


@pytest.mark.parametrize(
    "function, name, left",
    [
        (product_of_invariants, "matmul", 1),
        (sums, "reduce_sum", 0),
        (part_of_a_matrix, "strided_slice", 0),
        (in_two_loops, "matmul", 1),
    ],
)
def test_it_is_computed_before_the_loop(function, name, left):
    before, after = moved(function, tf.constant(X), tf.constant(W))
    assert names(before, "loops").count(name) == left + 1
    assert names(after, "loops").count(name) == left
    assert names(after, "main").count(name) == names(before, "main").count(name) + 1


def test_a_matrix_is_turned_before_the_loop():
    def turned(x, w):
        for _ in tf.range(3):
            x = tf.tanh(tf.matmul(x, w, transpose_b=True))
        return x

    before, after = moved(turned, tf.constant(X), tf.constant(W))
    assert names(after, "main").count("transpose") == names(before, "main").count("transpose") + 1
    bodies = [f for name, f in after.functions_items() if name.name_hint != "main"]
    calls = [dialect.read(b.value) for f in bodies for block in f.body.blocks for b in block.bindings if is_product(b)]
    assert [call.attrs["transpose_b"] for call in calls] == [False]


def is_product(binding) -> bool:
    return dialect.is_dialect(binding.value) and binding.value.op.name == "tvtf.matmul"


def of_few_rows(x, w):
    y = x[:2]
    for _ in tf.range(3):
        y = tf.tanh(tf.matmul(y, w, transpose_b=True))
    return y


def elementwise(x, w):
    for _ in tf.range(3):
        x = x @ (w * 2.0 + 1.0)
    return x


def refused_perhaps(x, w):
    i = tf.size(w) // 7
    for _ in tf.range(3):
        x = tf.tanh(x @ tf.gather(w, [[i] * 6])[0])
    return x


def changing(x, w):
    for _ in tf.range(3):
        x = tf.tanh(x @ (w @ w))
        w = w + 1.0
    return x


@pytest.mark.parametrize("function", [of_few_rows, elementwise, refused_perhaps, changing])
def test_it_stays(function):
    before, after = moved(function, tf.constant(X), tf.constant(W))
    assert names(after, "loops") == names(before, "loops")


def test_a_loop_that_does_not_run_refuses_nothing():
    @tf.function
    def never(x, w, turns):
        for _ in tf.range(turns):
            x = x @ tf.linalg.inv(w)
        return x

    singular = tf.zeros([6, 6])
    np.testing.assert_array_equal(never(tf.constant(X), singular, tf.constant(0)), X)


def test_variables_that_a_loop_assigns_are_read_where_they_change():
    v = tf.Variable(W)

    @tf.function
    def assigned(x):
        for _ in tf.range(3):
            x = tf.tanh(x @ tf.matmul(v, v, transpose_b=True))
            v.assign_add(tf.ones_like(v))
        return x

    wanted, w = X, W
    for _ in range(3):
        wanted, w = np.tanh(wanted @ (w @ w.T)), w + 1
    np.testing.assert_allclose(assigned(tf.constant(X)), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(v, w, rtol=1e-6)
