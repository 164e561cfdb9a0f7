"""Flags that kernels read from memory: a byte there, one bit in LLVM's vectors."""

import numpy as np
import pytest
from covering import some

import tvtf as tf

RNG = np.random.default_rng(3)
SHAPES = [(16, 8), (4, 64), (3, 37), (5, 129)]


def flags(shape):
    return RNG.random(shape) < 0.5


def same(function, *arrays):
    arguments = [tf.constant(array) for array in arrays]
    for found, expected in zip(
        tf.nest.flatten(tf.function(function)(*arguments)), tf.nest.flatten(function(*arguments))
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_not_of_stored_flags(shape, axis):
    def program(p, x):
        kept = tf.logical_not(p)
        return kept, tf.reduce_sum(tf.cast(tf.logical_not(kept), tf.float32) * x, axis), tf.where(kept, x, -x)

    same(program, flags(shape), np.ones(shape, np.float32))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_flags_that_a_reduction_stores(shape, axis):
    def program(p, q):
        some = tf.reduce_any(p, axis, keepdims=True)
        every = tf.reduce_all(tf.logical_or(p, q), axis, keepdims=True)
        return tf.logical_not(some) | q, tf.math.logical_xor(tf.logical_not(every), p), tf.equal(some, every)

    same(program, flags(shape), flags(shape))


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float32, tf.int8, tf.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_flags_of_other_dtypes_numbers(shape, dtype):
    def program(p, x):
        small = tf.cast(x, dtype) < tf.cast(3, dtype)
        kept = tf.reverse(tf.logical_not(small), [1])
        count = tf.reduce_sum(tf.cast(tf.logical_not(kept), tf.int32), 1)
        return small, kept, count, tf.where(tf.logical_not(kept), p, tf.logical_not(p))

    same(program, flags(shape), RNG.integers(0, 6, shape))


def steps(p, q, x, y, axis):
    """Ways to make flags of flags."""
    return [
        lambda: tf.logical_not(p),
        lambda: tf.logical_or(p, tf.logical_not(q)),
        lambda: tf.math.logical_xor(p, q),
        lambda: tf.where(p, q, tf.logical_not(q)),
        lambda: tf.not_equal(p, tf.logical_not(tf.reduce_any(q, axis, keepdims=True))),
        lambda: tf.logical_or(tf.logical_not(tf.reduce_all(p, axis, keepdims=True)), q),
        lambda: tf.greater(tf.cumsum(tf.where(p, x, y), axis), tf.reduce_mean(y, 0)),
        lambda: tf.roll(p, 3, axis),
        lambda: tf.gather(p, tf.range(p.shape[axis])[::-1], axis=axis),
        lambda: tf.reshape(tf.transpose(p), p.shape),
        lambda: tf.concat([p[:, :2], tf.logical_not(q[:, 2:])], 1),
        lambda: tf.tensor_scatter_nd_update(p, [[0]], q[:1]),
        lambda: tf.pad(tf.logical_not(p)[:, 1:], [[0, 0], [1, 0]], constant_values=True),
    ]


def drawn(seed):
    """A program that makes flags of flags, each kept for all later ones."""
    rng = np.random.default_rng(seed)
    plan = [tuple(map(int, rng.integers(0, 100, 4))) for _ in range(rng.integers(3, 9))]

    def program(a, b, x, y):
        pool = [a, b]
        for kind, i, j, axis in plan:
            ways = steps(pool[i % len(pool)], pool[j % len(pool)], x, y, axis % 2)
            pool.append(ways[kind % len(ways)]())
        last = pool[-1]
        sums = tf.reduce_sum(tf.cast(tf.logical_not(last), tf.float32) * x, 1)
        return [*pool[2:], tf.where(last, x, -x), sums, tf.cast(last, tf.int32)]

    return program


@pytest.mark.parametrize("seed", some(range(12), range(6)))
def test_random_programs(seed):
    shape = SHAPES[seed % 2]
    same(drawn(seed), flags(shape), flags(shape), *(RNG.random(shape).astype(np.float32) for _ in range(2)))
