"""TensorArrays of dynamic size written at indices known only at run time."""

from parity_calls import first_derivative


def programs(tf):
    return _written(tf) | _differentiated(tf)


def _array(tf, size=0):
    return tf.TensorArray(tf.float32, size=size, dynamic_size=True, element_shape=[])


def _written(tf):
    def once(i):
        rows = _array(tf).write(i, 1.0)
        return rows.stack(), rows.size()

    def several(i):
        rows = _array(tf, 1).write(0, 5.0)
        rows = rows.write(i, 1.0).write(i + 3, 2.0).write(1, 3.0)
        rows = rows.write(rows.size(), 4.0)
        return rows.stack(), rows.read(i), rows.size()

    def branch(i):
        rows = _array(tf, 2).unstack([1.0, 2.0])
        if i > 2:
            rows = rows.write(i, 3.0)
        return rows.stack()

    def loop(i):
        rows = _array(tf).write(i, 1.0)
        for j in tf.range(i):
            rows = rows.write(rows.size(), tf.cast(j, tf.float32))
        return rows.stack()

    def run(body, *indices):
        function = tf.function(body, input_signature=[tf.TensorSpec([], tf.int32)])
        return lambda: [function(tf.constant(i)) for i in indices]

    return {
        "once": run(once, 3, 0),
        "several": run(several, 0, 2, 6),
        "in a branch": run(branch, 0, 3, 5),
        "before a loop": run(loop, 0, 3),
    }


def _differentiated(tf):
    @tf.function
    def gradient(x, i):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = _array(tf).write(i, x * x).write(1, x)
            y = tf.reduce_sum(rows.stack() ** 2)
        return y, tape.gradient(y, x)

    @tf.function
    def squares(x, i):
        return _array(tf).write(i, x * x).write(i + 2, x).stack()

    return {
        "gradient": lambda: [gradient(tf.constant(3.0), tf.constant(i)) for i in (0, 1, 4)],
        "gradient outside": lambda: first_derivative(tf, squares)(tf.constant(3.0), tf.constant(2)),
    }
