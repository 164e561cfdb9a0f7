"""Gradients of loops that read a tensor: elements, rows, windows, under conditions, in loops within loops."""

import numpy as np


def programs(tf):
    x = tf.constant(np.cos(np.arange(24)).reshape(6, 4).astype(np.float32))
    w = tf.Variable(x * 2)
    table = tf.constant(np.sin(np.arange(24)).reshape(2, 3, 4).astype(np.float32))

    def summed(term, count=6, start=0.0):
        def total(t):
            found = start
            for i in tf.range(count):
                found = found + term(t, i)
            return found

        return total

    def where_even(term):
        def chosen(t, i):
            if i % 2 == 0:
                found = term(t, i)
            else:
                found = 0.5 * t[0, 0]
            return found

        return chosen

    def either(t, i):
        if i > 3:
            found = t[i, 1] * t[0, i - 3]
        elif i > 1:
            found = tf.reduce_sum(t[i] * t[i - 1])
        else:
            found = 1.0
        return found

    def pairs(t):
        found = 0.0
        for i in tf.range(6):
            for j in tf.range(4):
                found = found * 0.9 + t[i, j] ** 2
        return found

    def chain(t):
        state = tf.zeros([4])
        for i in tf.range(6):
            state = tf.tanh(state * t[i] + t[5 - i])
        return tf.reduce_sum(state * t[0])

    def until(t):
        i, found = 0, 0.0
        while found < 1.0 and i < 6:
            found += tf.abs(t[i, i % 4])
            i += 1
        return found * t[2, 2]

    functions = {
        "an element": summed(lambda t, i: t[i, 1] ** 2),
        "an element from the end": summed(lambda t, i: t[-1 - i, -1] ** 2),
        "an element of both": summed(lambda t, i: t[i, i % 4] ** 2),
        "a row": summed(lambda t, i: tf.reduce_sum(t[i] ** 2)),
        "a row and the one before": summed(lambda t, i: tf.reduce_sum(t[i] * t[(i + 1) % 6])),
        "a row and an element": summed(lambda t, i: tf.reduce_sum(t[i]) * t[i, 2]),
        "a column": summed(lambda t, i: tf.reduce_sum(t[:, i] ** 2), 4),
        "part of a row": summed(lambda t, i: tf.reduce_sum(t[i, 1:3] ** 2)),
        "every other element of a row": summed(lambda t, i: tf.reduce_sum(t[i, ::2] ** 2)),
        "a window": summed(lambda t, i: tf.reduce_sum(t[i : i + 2] ** 2), 5),
        "a window of tf.slice": summed(lambda t, i: tf.reduce_sum(tf.slice(t, [i, 1], [2, 2]) ** 2), 4),
        "gathered rows": summed(lambda t, i: tf.reduce_sum(tf.gather(t, [i, 0, i]) ** 2)),
        "gathered columns": summed(lambda t, i: tf.reduce_sum(tf.gather(t, [i, 0], axis=1) ** 2), 4),
        "gathered places": summed(lambda t, i: tf.reduce_sum(tf.gather_nd(t, [[i, 1], [0, 2]]) ** 2)),
        "a fixed row": summed(lambda t, i: tf.reduce_sum(t[2] ** 2) * tf.cast(i, tf.float32)),
        "fixed rows": summed(lambda t, i: tf.reduce_sum(t[1:4:2, 1:] ** 2) * tf.cast(i, tf.float32)),
        "a row and the whole": summed(lambda t, i: tf.reduce_sum(t[i] ** 2) * tf.reduce_sum(t)),
        "an element if": summed(where_even(lambda t, i: t[i, 1] ** 2)),
        "a row if": summed(where_even(lambda t, i: tf.reduce_sum(t[i] ** 2))),
        "rows if": summed(where_even(lambda t, i: tf.reduce_sum(tf.gather(t, [i, 0]) ** 2))),
        "one or other": summed(either),
        "pairs": pairs,
        "a chain": chain,
        "until": until,
    }  # fmt: skip

    def slope(f, source):
        with tf.GradientTape() as tape:
            tape.watch(source)
            y = f(source)
        return tape.gradient(y, source)

    def curve(f, source):
        with tf.GradientTape() as outer:
            outer.watch(source)
            y = tf.reduce_sum(tf.convert_to_tensor(slope(f, source)) ** 2)
        return outer.gradient(y, source)

    found = {}
    for label, f in functions.items():
        run = tf.function(f)
        found[label] = lambda run=run: _shown(tf, tf.function(lambda t: slope(run, t))(x))
        found[f"{label}, of any size"] = lambda run=run: _shown(
            tf, tf.function(lambda t: slope(run, t), input_signature=[tf.TensorSpec([None, None])])(x)
        )
    for label in ("an element", "a row if", "one or other", "a chain"):
        run = tf.function(functions[label])
        found[f"{label}, second"] = lambda run=run: _shown(tf, tf.function(lambda t: curve(run, t))(x))
        found[f"{label}, of a Variable"] = lambda run=run: _shown(tf, tf.function(lambda: _by(tf, run, w))())
    deep = tf.function(summed(lambda t, i: t[1, i, 2] ** 2 + tf.reduce_sum(t[0, i] ** 2) + t[i % 2, 0, 1] ** 3, 3))
    found["three axes"] = lambda: _shown(tf, tf.function(lambda t: slope(deep, t))(table))
    return found


ANY_SIZE = (
    "an element", "a row", "a column", "a window", "gathered columns", "gathered places", "a fixed row", "rows if",
    "one or other", "pairs", "a chain", "until",
)  # fmt: skip


def in_sweep(label):
    """By default each kind of index is read in a tensor of unknown size once, in a loop or under a condition."""
    name, _, form = label.rpartition(", ")
    return form == "of any size" and name not in ANY_SIZE


def _by(tf, f, variable):
    with tf.GradientTape() as tape:
        y = f(variable)
    return tape.gradient(y, variable)


def _shown(tf, result):
    return (np.round(tf.convert_to_tensor(result).numpy(), 3) + 0.0).tolist()
