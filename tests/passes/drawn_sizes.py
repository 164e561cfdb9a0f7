"""Random programs of unknown sizes, with constants, loops and gradients."""

import numpy as np

import tvtf as tf


def program(seed):
    """A function of a tensor [3], and of a count: a few drawn steps on rows of 3, as many as the count or a loop says."""
    rng = np.random.default_rng(seed)
    steps = [STEPS[i] for i in rng.integers(len(STEPS), size=rng.integers(2, 5))]
    constants = [tf.constant(rng.uniform(0.5, 1.5, size=(30, 3)).astype(np.float32)) for _ in steps]
    start = STARTS[rng.integers(len(STARTS))]
    returns_constant = bool(rng.integers(4) == 0)

    def value(x, n):
        rows = start(x, n)
        for step, constant in zip(steps, constants):
            rows = step(rows, n, constant)
        return rows

    def run(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = value(x, n)
            total = tf.reduce_sum(rows * rows)
        results = rows, tape.gradient(total, x)
        return (*results, tf.exp(constants[0])) if returns_constant else results

    return run


def _tiled(x, n):
    return tf.tile(x[None], [n, 1])


def _written(x, n):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[3])
    _, array = tf.while_loop(
        lambda i, array: i < n,
        lambda i, array: (i + 1, array.write(i, x * tf.cast(i + 1, tf.float32))),
        (tf.constant(0), array),
    )
    return array.stack()


def _ranged(x, n):
    return tf.cast(tf.range(n), tf.float32)[:, None] * x


def _mapped(x, n):
    return tf.map_fn(lambda i: tf.sin(x) + tf.cast(i, tf.float32), tf.range(n), fn_output_signature=tf.float32)


STARTS = (_tiled, _written, _ranged, _mapped)


def _times_sum(rows, n, constant):
    return rows * tf.reduce_sum(constant) / 90.0


def _times_filled(rows, n, constant):
    return rows * tf.fill([n, 3], tf.reduce_mean(constant))


def _times_sized(rows, n, constant):
    return rows + tf.tile(tf.exp(constant[:1]), [n, 1])


def _resized(rows, n, constant):
    image = tf.image.resize(tf.sqrt(constant)[None, :, :, None], [n, 3])
    return rows + image[0, :, :, 0]


def _product(rows, n, constant):
    return tf.matmul(rows, tf.exp(constant[:3]) / 9.0)


def _cut(rows, n, constant):
    return rows + tf.cos(constant)[:n]


def _gathered(rows, n, constant):
    return rows * tf.gather(tf.tanh(constant), tf.range(n))


def _padded(rows, n, constant):
    return tf.pad(rows, [[0, n], [0, 0]])[:n] + tf.pad(tf.exp(constant[0]) * 0.1, [[n, 0]])[n:]


def _looped(rows, n, constant):
    for _ in range(2):
        _, rows = tf.while_loop(
            lambda i, _: i < n,
            lambda i, rows: (i + 1, 0.5 * rows + tf.reduce_sum(tf.tanh(constant)) / 90.0),
            (tf.constant(0), rows),
        )
    return rows


def _branched(rows, n, constant):
    return tf.cond(n > 2, lambda: rows * tf.reduce_max(constant), lambda: rows + tf.zeros([n, 3]) + constant[0])


def _slopes(rows, n, constant):
    with tf.GradientTape() as tape:
        tape.watch(constant)
        y = tf.reduce_sum(tf.tile(constant[:1], [n, 1]) * tf.sin(constant[1]))
    return rows + tape.gradient(y, constant)[:1]


STEPS = (
    _times_sum,
    _times_filled,
    _times_sized,
    _resized,
    _product,
    _cut,
    _gathered,
    _padded,
    _looped,
    _branched,
    _slopes,
)
