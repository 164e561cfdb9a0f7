"""Trip counts of loops known while tracing: their gradients allocate residuals once instead of growing."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.ir import dialect

LIMIT = tf.constant([3, 7])


def doubled(x, test, start=0, step=1, **options):
    return tf.while_loop(test, lambda i, y: (i + step, y * x), [start, x], **options)[1]


def until_large(x):
    i = 0
    while tf.logical_and(i < 5, tf.reduce_sum(x) < 1e4):
        x, i = x * x, i + 1
    return x


def by_steps_of_two(x):
    i = tf.constant(1)
    while i <= 6:
        x, i = x * 2.0, i + 2
    return x


def over_rows(x):
    i, y = tf.constant(0), x[0]
    while i < tf.shape(x)[0]:
        y, i = y * x[i], i + 1
    return y


COUNTED = {
    "less": (lambda x: doubled(x, lambda i, y: i < 4), 4),
    "greater": (lambda x: doubled(x, lambda i, y: tf.constant(4) > i), 4),
    "less or equal": (lambda x: doubled(x, lambda i, y: i <= 4), 5),
    "from a start": (lambda x: doubled(x, lambda i, y: i < 4, 2), 2),
    "none at all": (lambda x: doubled(x, lambda i, y: i < 4, 9), 0),
    "by steps": (lambda x: doubled(x, lambda i, y: i < 7, 0, 3), 3),
    "a computed limit": (lambda x: doubled(x, lambda i, y: i < tf.reduce_max(LIMIT) - 1), 6),
    "a computed maximum": (lambda x: doubled(x, lambda i, y: True, maximum_iterations=tf.reduce_max([3])), 3),
    "another condition, too": (until_large, 5),
    "a while statement": (by_steps_of_two, 3),
    "the size of an argument": (over_rows, "x_0"),
}
NOT_COUNTED = {
    "an argument": lambda x: doubled(x, lambda i, y: i < tf.cast(x[0, 0], tf.int32)),
    "down": lambda x: doubled(x, lambda i, y: i > -4, 0, -1),
    "a float": lambda x: doubled(x, lambda i, y: i < 4.0, 0.0, 1.0),
    "no condition on it": lambda x: doubled(x, lambda i, y: tf.reduce_sum(y) < 100.0),
    "too many to wait for": lambda x: tf.while_loop(
        lambda i, y: (i < 10**9) & (tf.reduce_sum(y) < 100.0), lambda i, y: (i + 1, y * x), [0, x]
    )[1],
    "too many to wait for a flag": lambda x: tf.while_loop(
        lambda i, y, goes_on: (i < 10**9) & goes_on, lambda i, y, _: (i + 1, y * x, i < 2), [0, x, True]
    )[1],
    "not each time": lambda x: tf.while_loop(
        lambda i, y: i < 4, lambda i, y: (tf.where(y[0, 0] > 1.0, i + 1, i + 2), y * x), [0, x]
    )[1],
}
X = np.array([[1.5, 2.0], [1.0, 3.0]], np.float32)


def bounds(function):
    """The attribute of each loop of a function."""
    module = function.get_concrete_function(tf.TensorSpec([None, 2], tf.float32, name="x")).module()
    calls = [b.value for b in module["main"].body.blocks[0].bindings if dialect.is_dialect(b.value)]
    return [bound.attrs["bound"] for bound in map(dialect.read, calls) if "while" in bound.primitive.name]


@pytest.mark.parametrize("program, bound", COUNTED.values(), ids=COUNTED)
def test_a_loop_that_counts_has_a_bound(program, bound):
    assert list(map(str, bounds(tf.function(program)))) == [str(bound)]


@pytest.mark.parametrize("program", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_a_loop_that_may_turn_on_has_none(program):
    assert bounds(tf.function(program)) == [None]


@pytest.mark.parametrize(
    "program", [*(p for p, _ in COUNTED.values()), *NOT_COUNTED.values()], ids=[*COUNTED, *NOT_COUNTED]
)
def test_values_and_gradients_are_those_of_eager_code(program):
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = program(x)
        return y, tape.gradient(y, x)

    x = tf.constant(X)
    compiled = tf.function(run, input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    for found, wanted in zip(compiled(x), run(x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
