"""Eager tensors and values that a traced function converts are tensors of the function, the same each time."""

import numpy as np


def programs(tf):
    return _identity(tf) | _derivatives(tf) | _results(tf)


def _kind(value):
    return "eager" if hasattr(value, "numpy") else "symbolic"


def _identity(tf):
    """What is converted twice, and what a table keyed by identity finds."""
    outside = tf.constant([1.0, 2.0])

    def twice():
        found = []

        @tf.function
        def run(x):
            first, second = tf.convert_to_tensor(outside), tf.convert_to_tensor(outside)
            found.extend([first is second, first is outside, _kind(first), tf.convert_to_tensor(x) is x])
            return first + second

        return run(outside).numpy().tolist(), found

    def table_of_results():
        """A table keyed by identity, as TensorFlow Probability's bijectors have, outlives the function."""
        table = {}

        def squared(x):
            x = tf.convert_to_tensor(x)
            if id(x) not in table:
                table[id(x)] = x, x * x
            _, result = table[id(x)]
            return result

        return [tf.function(lambda: squared(outside))().numpy().tolist() for _ in range(2)]

    def in_branches(n):
        def run(n):
            if n > 2:
                y = tf.convert_to_tensor(outside) * 2.0
            else:
                y = tf.convert_to_tensor(outside) + 1.0
            return y

        return tf.function(run)(n).numpy().tolist()

    return {
        "converted twice": twice,
        "table keyed by identity": table_of_results,
        "a branch": lambda: in_branches(tf.constant(3)),
        "other branch": lambda: in_branches(tf.constant(1)),
    }


def _derivatives(tf):
    """Gradients where the tensor, or what it is converted to, is watched and differentiated by."""
    x = tf.constant([1.0, 3.0])

    def gradient(watched_is_x, source_is_x):
        def run():
            c = tf.convert_to_tensor(x)
            with tf.GradientTape() as tape:
                tape.watch(x if watched_is_x else c)
                y = x * tf.convert_to_tensor(x) * c
            return tape.gradient(y, x if source_is_x else c)

        result = tf.function(run)()
        return None if result is None else result.numpy().tolist()

    def around():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.function(lambda: tf.convert_to_tensor(x) * x)()
        return tape.gradient(y, x).numpy().tolist()

    def second():
        def run():
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = tf.convert_to_tensor(x) ** 3
                dy = inner.gradient(y, x)
            return outer.gradient(dy, x)

        return tf.function(run)().numpy().tolist()

    def forward():
        def run():
            with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 10.0])) as tangents:
                y = tf.convert_to_tensor(x) * x
            return tangents.jvp(y)

        return [tf.function(run)().numpy().tolist() for _ in range(2)]

    def in_a_loop():
        def run():
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.ones_like(x)
                for _ in tf.range(3):
                    y *= tf.convert_to_tensor(x)
            return tape.gradient(y, x)

        return tf.function(run)().numpy().tolist()

    def of_a_list():
        def run():
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.stack([tf.convert_to_tensor([x[0], x[1]]), tf.math.real(x)])
            return tape.gradient(y, x)

        return tf.function(run)().numpy().tolist()

    return {
        "watched": lambda: gradient(True, True),
        "watched, by the converted": lambda: gradient(True, False),
        "converted, watched": lambda: gradient(False, False),
        "converted, by the other": lambda: gradient(False, True),
        "a tape around": around,
        "second derivative": second,
        "forward mode, twice": forward,
        "loop": in_a_loop,
        "list": of_a_list,
    }


def _results(tf):
    """Functions that return an argument unchanged, or a constant."""
    x, n = tf.constant([1.0, 2.0]), tf.constant([3, 4])
    calls = {
        "constant": lambda: tf.constant(x),
        "convert list": lambda: tf.convert_to_tensor([1, 2]),
        "convert array": lambda: tf.convert_to_tensor(np.ones(3)),
        "convert text": lambda: tf.convert_to_tensor("a"),
        "large": lambda: tf.convert_to_tensor(np.ones(3000, np.float32)),
        "saturate_cast": lambda: tf.saturate_cast(x, tf.float32),
        "stack": lambda: tf.stack([1, 2]),
        "real": lambda: tf.math.real(x),
        "round": lambda: tf.round(n),
        "fftshift": lambda: tf.signal.fftshift(x),
        "accumulate_n": lambda: tf.math.accumulate_n([x]),
        "dropout": lambda: tf.nn.dropout(x, 0.0),
    }

    def kind_of(call):
        def run():
            found = []
            tf.function(lambda: found.append(_kind(call())), autograph=False)()
            return found

        return run

    return {f"{name} returns": kind_of(call) for name, call in calls.items()}
