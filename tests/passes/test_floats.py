"""Compiled arithmetic and comparisons are those of IEEE 754: TVM's simplifier knows neither NaN nor rounding."""

import random

import numpy as np
import pytest
from covering import covering

import tvtf as tf

NAN, INF = np.nan, np.inf
X = np.array([NAN, 0.5, 1.0, 2.0, -INF, INF, -0.0, 0.0, NAN, 1e-8, 3.0], np.float32)
Y = np.array([1.0, NAN, 1.0, INF, 2.0, INF, 0.0, -0.0, NAN, 1.0, -INF], np.float32)
COMPARISONS = [tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal]

IDIOMS = {
    "no number": lambda x, y: tf.logical_not(x == x),
    "a number": lambda x, y: tf.where(x == x, x, tf.zeros_like(x)),
    "not less": lambda x, y: tf.logical_not(x < y),
    "not more": lambda x, y: tf.where(tf.logical_not(x > y), x, y),
    "one of two": lambda x, y: tf.logical_or(x < y, y <= x),
    "neither": lambda x, y: tf.where(x < y, 0.0, tf.where(x >= y, 1.0, 2.0)),
    "nothing left": lambda x, y: tf.identity(x + 0.0 * y) - (x + 0.0 * y),
    "rounded": lambda x, y: (x + y) - y,
    "rounded, the other way": lambda x, y: (x + y) - x,
    "lost": lambda x, y: (x + y) - x - y,
    "no slope": lambda x, y: tf.nn.leaky_relu(x, 0.0),
    "exponentials": lambda x, y: tf.exp(x) - tf.exp(x),
}


def same(run, x, y):
    expected, found = run(x, y).numpy(), tf.function(run, autograph=False)(x, y).numpy()
    return np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("name", [name for name in IDIOMS if name != "exponentials"])
def test_idioms(name, dtype):
    x, y = (tf.cast(tf.constant(v), dtype) for v in (X, Y))
    run = IDIOMS[name]
    with tf.device("CPU"):
        found = [tf.cast(r, tf.float32).numpy() for r in (run(x, y), tf.function(run, autograph=False)(x, y))]
    if dtype in (tf.float32, tf.float64) or name not in ("rounded", "rounded, the other way", "lost"):
        np.testing.assert_array_equal(*found)


def test_an_exponential_without_itself_is_none_where_it_is_infinite():
    assert same(IDIOMS["exponentials"], tf.constant(X), tf.constant(Y))


MOVED = {
    "joined": lambda x: tf.concat([x, 2.0 * x], 0),
    "joined in columns": lambda x: tf.concat([x, x + 1.0, x], 1),
    "parts": lambda x: tf.concat(tf.split(x, x.shape[1], axis=1)[::-1], axis=1),
    "padded": lambda x: tf.pad(x, [[1, 2], [3, 1]]),
    "mirrored": lambda x: tf.pad(x, [[1, 1], [2, 2]], "REFLECT"),
    "stacked": lambda x: tf.stack([x, -x], 1),
    "turned": lambda x: tf.transpose(x),
    "tiled": lambda x: tf.tile(x, [2, 3]),
    "rolled": lambda x: tf.roll(x, 2, 1),
    "reversed": lambda x: tf.reverse(x, [1]),
    "a triangle": lambda x: tf.linalg.band_part(x, -1, 1),
    "a diagonal": lambda x: tf.linalg.set_diag(x, x[: min(x.shape), 0]),
    "every other": lambda x: x[:, ::2],
    "gathered": lambda x: tf.gather(x, [0, 1, 0], axis=0),
    "images": lambda x: tf.image.resize(x[None, ..., None], [5, 7], "nearest"),
    "patches": lambda x: tf.space_to_batch(x[None, ..., None], [2, 2], [[0, x.shape[0] % 2], [0, x.shape[1] % 2]]),
}
"""Values that kernels take from places which they choose: schedules cut such kernels where the choices change."""


USED = [
    lambda y, again: y - again,
    lambda y, again: y * 0.0,
    lambda y, again: tf.where(y == again, 1.0, 2.0),
    lambda y, again: (y + 1.0) - again,
    lambda y, again: tf.where(tf.logical_not(y < again), 1.0, 0.0),
]


@covering(name=list(MOVED), shape=[(3, 5), (9, 130)])
def test_what_choices_of_places_give_is_computed_with(name, shape):
    """Each use has an input to itself, so that it is a kernel with the choices in it."""
    inputs = [np.roll(np.resize(np.concatenate([X, Y[:-2]]), shape), step) for step in range(len(USED))]

    def run(*inputs):
        return [use(MOVED[name](x), MOVED[name](x)) for use, x in zip(USED, inputs)]

    for found, expected in zip(tf.function(run, autograph=False)(*inputs), run(*map(tf.constant, inputs))):
        np.testing.assert_array_equal(found, expected)


def _flag(r, values, depth):
    kind = r.random()
    if depth <= 0 or kind < 0.4:
        return r.choice(COMPARISONS)(_number(r, values, depth - 1), _number(r, values, depth - 1))
    if kind < 0.6:
        return tf.logical_not(_flag(r, values, depth - 1))
    if kind < 0.9:
        either = r.choice([tf.logical_and, tf.logical_or])
        return either(_flag(r, values, depth - 1), _flag(r, values, depth - 1))
    return tf.math.is_nan(_number(r, values, depth - 1))


def _number(r, values, depth):
    kind = r.random()
    if depth <= 0 or kind < 0.35:
        return r.choice([*values, *values, tf.constant(1.0), tf.constant(0.0)])
    if kind < 0.75:
        return tf.where(_flag(r, values, depth - 1), _number(r, values, depth - 1), _number(r, values, depth - 1))
    op = r.choice([tf.maximum, tf.minimum, tf.add, tf.multiply, tf.subtract])
    return op(_number(r, values, depth - 1), _number(r, values, depth - 1))


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_of_comparisons(seed):
    """Of 144 such values 21 were wrong before."""

    def run(x, y):
        r = random.Random(seed)
        numbers = [_number(r, [x, y], 4) + tf.zeros_like(x) for _ in range(4)]
        return numbers + [tf.logical_or(_flag(r, [x, y], 4), tf.zeros_like(x, tf.bool)) for _ in range(4)]

    x, y = tf.constant(X), tf.constant(Y)
    for found, expected in zip(tf.function(run, autograph=False)(x, y), run(x, y), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
