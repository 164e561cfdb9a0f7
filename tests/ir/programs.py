"""Programs with known printed IR; each is traced again, so that no test sees another's traces."""

import numpy as np

import tvtf as tf


def mlp_step():
    """A training step with Variables that have no names of their own, and one that has."""
    w1 = tf.Variable(np.ones([2, 32], np.float32))
    w2 = tf.Variable(np.ones([32, 1], np.float32), name="head")

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ w1) @ w2
            loss = tf.reduce_mean(tf.abs(logits - y))
        g1, g2 = tape.gradient(loss, [w1, w2])
        w1.assign_sub(0.1 * g1)
        w2.assign_sub(0.1 * g2)
        return loss

    return step, (tf.TensorSpec([256, 2]), tf.TensorSpec([256, 1]))


def branches():
    @tf.function
    def choose(x):
        if tf.reduce_sum(x) > 0:
            x = x * 2.0
        else:
            x = tf.nn.softmax(x, axis=0)
        return x

    return choose, (tf.TensorSpec([4, 3]),)


def loop():
    @tf.function
    def powers(x, n):
        while n > 0:
            x = x @ x
            n -= 1
        return x

    return powers, (tf.TensorSpec([3, 3]), tf.TensorSpec([], tf.int32))


def dynamic():
    @tf.function
    def center(x):
        rows = tf.concat([x, x], axis=0)
        return rows - tf.reduce_mean(rows, axis=0)

    return center, (tf.TensorSpec([None, 3]),)


def dict_outputs():
    @tf.function
    def stats(x):
        return {"mean": tf.reduce_mean(x), "parts": (tf.abs(x), 2.0, None)}

    return stats, (tf.TensorSpec([8]),)


def composite():
    @tf.function
    def shift(ragged, sparse):
        return ragged + 1.0, sparse.values

    return shift, (tf.ragged.constant([[1.0, 2.0], [3.0]]), tf.sparse.from_dense([[0.0, 5.0]]))


def module_state():
    class Scale(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = [tf.Variable(2.0), tf.Variable(3.0)]
            self.calls = tf.Variable(0, name="calls")

        @tf.function
        def run(self, x):
            self.calls.assign_add(1)
            return x * self.weights[0] + self.weights[1]

    return Scale().run, (tf.TensorSpec([2]),)


def double():
    return tf.function(lambda x: x + x), (tf.TensorSpec([5]),)


PROGRAMS = [mlp_step, branches, loop, dynamic, dict_outputs, composite, module_state, double]
