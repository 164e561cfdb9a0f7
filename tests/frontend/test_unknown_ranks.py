"""Random programs of a tensor of unknown rank give the eager values, called with one rank after another."""

import random

import numpy as np
import pytest

import tvtf as tf


def last_axis_first(x):
    n = tf.rank(x)
    return tf.transpose(x, tf.concat([[n - 1], tf.range(n - 1)], 0))


def slope(function):
    """The gradient of a function's sum."""

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x))
        return tape.gradient(y, x)

    return run


def squared_in_a_loop(x):
    return tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * x), (0, x))[1]


STEPS = {
    "flip": tf.image.flip_left_right,  # takes ranks 3 and 4 only, as the next one
    "rot90": tf.image.rot90,
    "add an axis": lambda x: x[..., None],
    "stack": lambda x: tf.stack([x, x]),
    "sum": lambda x: tf.reduce_sum(x, -1),
    "mean of the first axis": lambda x: tf.reduce_mean(x, 0),
    "sum of all axes but the last": lambda x: tf.reduce_sum(x, tf.range(tf.rank(x) - 1)),
    "transpose": tf.transpose,
    "last axis first": last_axis_first,
    "two axes": lambda x: tf.transpose(x, [1, 0, 2]),
    "squeeze": tf.squeeze,
    "row": lambda x: x[0],
    "reverse": lambda x: x[..., ::-1],
    "softmax": tf.nn.softmax,
    "diag": tf.linalg.diag,
    "diag_part": tf.linalg.diag_part,
    "flat": lambda x: tf.reshape(x, [-1]),
    "concat": lambda x: tf.concat([x, x[:1]], 0),
    "product": lambda x: tf.matmul(x, x, transpose_b=True),
    "broadcast": lambda x: x + tf.reduce_max(x, -1, keepdims=True),
    "tile": lambda x: tf.tile(x, tf.fill([tf.rank(x)], 2)),
    "pad": lambda x: tf.pad(x, tf.ones([tf.rank(x), 2], tf.int32)),
    "one_hot": lambda x: tf.one_hot(tf.argmax(x, -1), 3),
    "zeros of a shape": lambda x: tf.zeros(tf.shape(x)[:-1]) + tf.reduce_sum(x),
    "shape": lambda x: tf.cast(tf.shape(x), tf.float32),
    "axes": lambda x: tf.range(tf.cast(tf.rank(x), tf.float32)),
    "einsum": lambda x: tf.einsum("...ij->...ji", x),
    "branch": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0),
    "branch by rank": lambda x: tf.cond(tf.rank(x) > 2, lambda: tf.reduce_sum(x), lambda: tf.reduce_max(x))[None],
    "loop": lambda x: tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + 1.0), (0, x))[1],
    "gradient": slope(lambda x: tf.linalg.diag(x) * tf.reduce_mean(x, -1)[..., None, None]),
    "gradient of a loop": slope(squared_in_a_loop),
    "gradient of a branch": slope(
        lambda x: tf.reduce_sum(tf.cond(tf.reduce_sum(x) > 0, lambda: tf.concat([x, x * x], 0), lambda: x), 0)
    ),
    "scan": lambda x: tf.scan(lambda total, row: total + row, x),
}
USES = {
    "value": lambda x: x,
    "rank": tf.rank,
    "shape": tf.shape,
    "axes": lambda x: tf.range(tf.rank(x)),
    "axes in a branch": lambda x: tf.cond(tf.size(x) > 0, lambda: tf.range(tf.rank(x)), lambda: tf.range(1)),
    "sum by rank": lambda x: tf.reduce_sum(x, tf.range(tf.rank(x) - 1)),
}


def program(chosen):
    """A few steps one after the other, and what is returned of their result."""
    steps = [chosen.choice(list(STEPS)) for _ in range(chosen.randint(1, 3))]
    uses = chosen.sample(list(USES), chosen.randint(1, 3))

    def run(x):
        for step in steps:
            x = STEPS[step](x)
        return [USES[use](x) for use in uses]

    return run, f"{steps} -> {uses}"


def calls_of(run, chosen):
    """Up to three calls of different ranks, of those that the program takes, with the eager results."""
    found = []
    for rank in chosen.sample([1, 2, 3, 4], 3):
        sizes = [chosen.choice([1, 2, 3]) for _ in range(rank)]
        x = tf.constant(np.random.default_rng(rank).standard_normal(sizes).astype("float32"))
        try:
            found.append((x, run(x)))
        except (tf.errors.OpError, ValueError, TypeError):  # the program doesn't take this rank
            continue
    return found


def difference(seed):
    """A line that says where the function of unknown rank differs from the eager program; None if it doesn't."""
    chosen, calls = random.Random(seed), []
    while not calls:
        run, text = program(chosen)
        calls = calls_of(run, chosen)
    fn = tf.function(run, input_signature=[tf.TensorSpec(None)], autograph=False)
    for x, expected in calls:
        for a, b in zip(expected, fn(x), strict=True):
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
                return f"{seed}: {text}, of shape {x.shape}: {a.numpy().tolist()}, compiled {b.numpy().tolist()}"
    return None


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    assert difference(seed) is None


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4, 400))
def test_more_random_programs(seed):
    assert difference(seed) is None


def test_a_function_that_takes_some_ranks_only():
    run = tf.function(lambda x: tf.range(tf.rank(tf.image.flip_left_right(x))), input_signature=[tf.TensorSpec(None)])
    found = [run(tf.ones(sizes)).numpy().tolist() for sizes in ([2, 3, 4], [5, 2, 3, 4], [2, 3, 4])]
    assert found == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2]]


def test_branches_whose_ranks_differ_in_some_calls_only():
    run = tf.function(
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reshape(x * x, [-1]), lambda: x),
        input_signature=[tf.TensorSpec(None)],
        autograph=False,
    )
    assert run(tf.constant([1.0, 2.0])).numpy().tolist() == [1.0, 4.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="compiled branches must return equal ranks"):
        run(tf.ones([2, 3]))
