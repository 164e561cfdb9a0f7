"""Gradients of loops whose variables change their shapes."""

from functools import partial

from parity_calls import first_derivative, second_derivative


def programs(tf):
    return _gradients(tf)


def in_sweep(label):
    """Second derivatives and gradients outside of the function are those of other bodies, by default."""
    return label in ("rows, second", "beside an array, outside")


def _gradients(tf):
    first, second = partial(first_derivative, tf), partial(second_derivative, tf)

    def appended(x, n):
        y = tf.reshape(x, [1])
        for _ in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(y, tf.TensorShape([None]))])
            y = tf.concat([y, y[-1:] * x], 0)
        return tf.reduce_sum(y**2)

    def doubled(x, n):
        y, i = tf.stack([x, x * 2.0]), 0
        while i < n:
            tf.autograph.experimental.set_loop_options(shape_invariants=[(y, tf.TensorShape([None]))])
            y = tf.concat([y * x, tf.sin(y)], 0)
            i += 1
        return tf.reduce_sum(y)

    def rows(x, n):
        y = tf.ones([1, 2]) * x
        _, y = tf.while_loop(
            lambda i, y: i < n,
            lambda i, y: (i + 1, tf.concat([y, tf.reduce_sum(y, 0, keepdims=True) * x], 0)),
            (0, y),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 2])),
        )
        return tf.reduce_sum(y**2)

    def beside_an_array(x, n):
        found = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[])
        _, found, y = tf.while_loop(
            lambda i, found, y: i < n,
            lambda i, found, y: (i + 1, found.write(i, tf.reduce_sum(y)), tf.concat([y, y[:1] * x], 0)),
            (0, found, tf.reshape(x, [1])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape(None), tf.TensorShape([None])),
        )
        return tf.reduce_sum(found.stack() ** 2) + tf.reduce_sum(y)

    def shorter(x, n):
        y = tf.range(5.0) * x
        for i in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(y, tf.TensorShape([None]))])
            y = y[1:] * x + tf.cast(i, tf.float32)
        return tf.reduce_sum(y**2)

    bodies = {
        "appended": appended,
        "doubled": doubled,
        "rows": rows,
        "beside an array": beside_an_array,
        "shorter": shorter,
    }

    def inside(body, form):
        return lambda: [tf.function(form(body))(tf.constant(2.0), tf.constant(n)) for n in (3, 0)]

    def outside(body):
        derivative = first_derivative(tf, tf.function(body))
        return lambda: derivative(tf.constant(2.0), tf.constant(3))

    made = {name: inside(body, first) for name, body in bodies.items()}
    made |= {f"{name}, second": inside(bodies[name], second) for name in ("appended", "rows")}
    return made | {f"{name}, outside": outside(bodies[name]) for name in ("appended", "beside an array")}
