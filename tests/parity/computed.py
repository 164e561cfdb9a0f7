"""Axes, permutations and widths that the program computes."""

import numpy as np


def programs(tf):
    return _axes(tf) | _others(tf) | _gradients(tf)


def in_sweep(label):
    """``tests/ops/test_computed_axes.py`` compares these ops at computed axes with eager code."""
    return label in ("argmax", "concat", "cumsum", "expand_dims", "gather", "reverse", "roll", "split")


def _axes(tf):
    x = tf.reshape(tf.range(24.0), [2, 3, 4])
    reductions = {
        "reduce_sum": tf.reduce_sum, "count_nonzero": tf.math.count_nonzero,
    }  # fmt: skip
    kept = {
        "argmax": tf.argmax, "cumsum": tf.cumsum, "expand_dims": tf.expand_dims,
    }  # fmt: skip

    def at(body, *axes):
        f = tf.function(body)
        return lambda: [np.round(f(x, tf.constant(axis)).numpy(), 3).tolist() for axis in axes]

    def split():
        f = tf.function(lambda x, a: tf.split(x, 2, axis=a))
        return f(x, tf.constant(2)), f(x, tf.constant(0))

    def of_a_variable():
        v = tf.Variable(1)
        return tf.function(lambda x: tf.reduce_sum(x, v))(x)

    def counted():
        f = tf.function(lambda x, a: tf.reduce_sum(x, a))
        return [f(x, tf.constant(a)).shape for a in (0, 1, 2, -1)], f.experimental_get_tracing_count()

    def unknown():
        f = tf.function(
            lambda x, a: tf.reduce_sum(x, a), input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([], tf.int32)]
        )
        return f(x[0], tf.constant(0)), f(x[1], tf.constant(-1))

    def rejected(body, axis):
        def program():
            try:
                tf.function(body)(x, tf.constant(axis))
            except tf.errors.InvalidArgumentError as error:
                return type(error).__name__

        return program

    return (
        {name: at(f, 0, 1, -1) for name, f in reductions.items()}
        | {name: at(f, 0, 1, -1) for name, f in kept.items()}
        | {
            "keepdims, several": at(lambda x, a: tf.reduce_max(x, a, True), [2, 1]),
            "concat": at(lambda x, a: tf.concat([x, x + 1.0], a), 0, 1, -1),
            "gather": at(lambda x, a: tf.gather(x, [1, 0, 1], axis=a), 0, 1, -1),
            "reverse": at(lambda x, a: tf.reverse(x, a), [0], [2, 1]),
            "roll": at(lambda x, a: tf.roll(x, 1, a), 0, 1, 2),
            "transpose": at(lambda x, p: tf.transpose(x, p), [0, 1, 2], [2, 0, 1], [1, 2, 0]),
            "several": at(tf.reduce_logsumexp, [0, 2], [-1, 0]),
            "split": split,
            "a Variable": of_a_variable,
            "all shapes, one trace": counted,
            "of unknown dims": unknown,
            "out of range": rejected(lambda x, a: tf.reduce_sum(x, a), 3),
            "twice": rejected(lambda x, a: tf.reduce_sum(x, a), [1, 1]),
        }
    )


def _others(tf):
    x = tf.reshape(tf.range(1.0, 13.0), [3, 4])
    band = tf.function(lambda x, lower, upper: tf.linalg.band_part(x, lower, upper))
    widths = (0, 0), (1, 2), (-1, 0), (0, -1), (-1, -1), (3, 4)
    confusion = tf.function(tf.math.confusion_matrix)

    def too_wide():
        try:
            band(x, tf.constant(9), tf.constant(0))
        except tf.errors.InvalidArgumentError as error:
            return "num_lower must be negative or less or equal to number of rows (3) got: 9" in str(error)

    return {
        "band_part": lambda: [band(x, tf.constant(a), tf.constant(b)) for a, b in widths],
        "band_part too wide": too_wide,
        "confusion_matrix": lambda: confusion(tf.constant([0, 1, 2]), tf.constant([0, 2, 2])),
        "confusion_matrix of more": lambda: [
            confusion(tf.constant(a), tf.constant(b)) for a, b in (([0, 3, 1], [1, 1, 1]), ([0, 0, 0], [0, 0, 0]))
        ],
    }


def _gradients(tf):
    x = tf.reshape(tf.range(6.0), [2, 3])

    def of(body, axis):
        @tf.function
        def run(x, axis):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(body(x, axis) ** 2)
            return tape.gradient(y, x)

        return lambda: tf.convert_to_tensor(run(x, tf.constant(axis)))

    return {
        "gradient of reduce_sum": of(tf.reduce_sum, 1),
        "gradient of transpose": of(lambda x, p: tf.transpose(x, p) * tf.range(2.0), [1, 0]),
        "gradient of band_part": of(lambda x, n: tf.linalg.band_part(x, n, 0), 0),
    }
