"""Unused loop-carried values are removed."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.ir import dialect
from tvtf.passes.graph.loop_dce import trim_loops
from tvtf.passes.graph.simplify import simplify


def traced(function):
    return tf.function(function, autograph=False)


def sizes(function, *specs):
    """Of each loop, outer before inner: how many values it carries, and how many it is given."""
    mod = trim_loops(simplify(traced(function).get_concrete_function(*specs).module()))
    found = []

    def visit(func):
        for binding in (b for block in func.body.blocks for b in block.bindings):
            if dialect.is_dialect(binding.value) and binding.value.op.name == "tvtf.while":
                bound = dialect.read(binding.value)
                found.append((bound.attrs["carried"], len(bound.inputs)))
                visit(mod[bound.attrs["body"]])

    visit(mod["main"])
    return found


def repeated(turn, *start):
    return tf.while_loop(lambda i, *_: i < 4, lambda i, *s: (i + 1, *turn(*s)), (0, *start))


def first(x, y):
    return repeated(lambda a, b: (a * 2.0, b + tf.sin(a) * y), x, x)[1]


def second(x, y):
    return repeated(lambda a, b: (a * 2.0, b + tf.sin(a) * y), x, x)[2]


def count(x, y):
    return repeated(lambda a, b: (a * 2.0, b + y), x, x)[0]


def inner(x, y):
    return repeated(lambda a: (repeated(lambda b, c: (b + 1.0, c + b * y), a, a)[1],), x)[1]


def by_condition(x, y):
    return tf.while_loop(lambda a, b: tf.reduce_sum(b) < 9.0, lambda a, b: (a + 1.0, b + y * y), (x, x))[0]


CASES = [
    (first, [(2, 2)]),
    (second, [(3, 4)]),
    (count, [(1, 1)]),
    (inner, [(2, 2), (2, 2)]),
    (by_condition, [(2, 3)]),
]


@pytest.mark.parametrize(("function", "expected"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_only_what_is_needed_is_carried(function, expected):
    spec = tf.TensorSpec([3])
    assert sizes(function, spec, spec) == expected
    x, y = tf.constant([0.5, 1.0, 2.0]), tf.constant([1.0, 2.0, 0.5])
    np.testing.assert_allclose(traced(function)(x, y).numpy(), function(x, y).numpy(), rtol=1e-6)


def test_the_tensor_that_a_dim_comes_from_stays():
    def rows(x, y):
        return repeated(lambda a, b: (a * 2.0, b + tf.cast(tf.shape(a)[0], "float32")), x, y)[2]

    assert sizes(rows, tf.TensorSpec([None, 3]), tf.TensorSpec([])) == [(3, 3)]
    spec = traced(rows).get_concrete_function(tf.TensorSpec([None, 3]), tf.TensorSpec([]))
    assert float(spec(tf.ones([5, 3]), tf.constant(1.0))) == 21.0
