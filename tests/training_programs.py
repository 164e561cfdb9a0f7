"""Training steps whose memory is measured: ``python -m tests.training_programs NAME BATCH`` prints growth and plan in bytes."""

import gc
import sys

import numpy as np

import tvtf as tf


def _variables(*shapes):
    rng = np.random.default_rng(0)
    return [tf.Variable((rng.normal(size=s) * 0.1).astype(np.float32)) for s in shapes]


def _step(variables, loss_of):
    optimizer = tf.optimizers.Adam(1e-3)
    optimizer.build(variables)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return step


def cnn(batch, side=28):
    """Two convolutions with pools, two dense layers."""
    width = (side - 2) // 2
    width = (width - 2) // 2
    variables = k1, b1, k2, b2, w3, w4 = _variables(
        (3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (width * width * 64, 32), (32, 10)
    )

    def loss_of(x):
        y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, k1, 1, "VALID") + b1), 2, 2, "VALID")
        y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(y, k2, 1, "VALID") + b2), 2, 2, "VALID")
        y = tf.nn.relu(tf.matmul(tf.reshape(y, [batch, -1]), w3))
        return tf.reduce_mean(tf.nn.log_softmax(tf.matmul(y, w4))[:, 0])

    rng = np.random.default_rng(1)
    return _step(variables, loss_of), tf.constant(rng.normal(size=(batch, side, side, 1)).astype(np.float32))


def transformer(batch, time=64, width=64, heads=4):
    """Two blocks of attention and a wide layer."""
    each = width // heads
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    variables = _variables(*2 * shapes)

    def normalised(x):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        return centred * tf.math.rsqrt(tf.reduce_mean(centred * centred, -1, keepdims=True) + 1e-5)

    def attention(mixed):
        parts = tf.transpose(tf.reshape(mixed, (batch, time, 3, heads, each)), (2, 0, 3, 1, 4))
        scores = tf.matmul(parts[0], parts[1], transpose_b=True) / each**0.5
        joined = tf.matmul(tf.nn.softmax(scores), parts[2])
        return tf.reshape(tf.transpose(joined, (0, 2, 1, 3)), (batch, time, width))

    def loss_of(x):
        for mixed, out, wide, narrow in (variables[:4], variables[4:]):
            x = x + tf.matmul(attention(tf.matmul(normalised(x), mixed)), out)
            x = x + tf.matmul(tf.nn.relu(tf.matmul(normalised(x), wide)), narrow)
        return tf.reduce_mean(x * x)

    rng = np.random.default_rng(1)
    return _step(variables, loss_of), tf.constant(rng.normal(size=(batch, time, width)).astype(np.float32))


def _resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def _grown(program, batch):
    small, few = program(2)
    small(few)
    step, many = program(batch)
    live = step.memory(many).live
    before = _resident()
    for _ in range(3):
        step(many)
    return _resident() - before, live


if __name__ == "__main__":
    print(*_grown({"cnn": cnn, "transformer": transformer}[sys.argv[1]], int(sys.argv[2])))
