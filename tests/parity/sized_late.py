"""Shapes known only at a call: what TensorFlow checks at run time."""

MATRIX = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def programs(tf):
    return _reshapes(tf) | _masks(tf) | {"rows of three unknown counts": _rows(tf)}


def _reshapes(tf):
    def reshaped(dims, shape):
        @tf.function(input_signature=[tf.TensorSpec(dims)])
        def run(x):
            return tf.reshape(x, shape) + 1.0

        return lambda: run(MATRIX)

    def gradient():
        @tf.function(input_signature=[tf.TensorSpec([None, 2])])
        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reshape(x, [6]) * tf.range(6.0)
            return tape.gradient(y, x)

        return run(MATRIX)

    def rejected():
        try:
            reshaped([None, None], [4, 2])()
        except tf.errors.InvalidArgumentError as error:
            return "the requested shape has 8" in str(error)

    return {
        "to a static shape": reshaped([None, None], [3, 2]),
        "with a dim left open": reshaped([None, 2], [-1, 3]),
        "of any rank": reshaped(None, [2, 3]),
        "its gradient": gradient,
        "of another size": rejected,
    }


def _masks(tf):
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.bool)])
    def of_a_variable(mask):
        v = tf.constant(MATRIX)
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = tf.reduce_sum(tf.boolean_mask(v, mask) ** 2)
        return tape.gradient(y, v)

    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([None], tf.bool)])
    def of_rows(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.boolean_mask(x, mask)
            z = tf.matmul(y, y, transpose_a=True)
        return tape.gradient(z, x)

    return {
        "a mask of unknown dims": lambda: of_a_variable(tf.constant(MATRIX) > 2.0),
        "a mask of unknown rows": lambda: of_rows(MATRIX, [True, False, True]),
        "rows as a matrix": lambda: tf.function(lambda x, m: tf.reshape(tf.boolean_mask(x, m), [2, 2]))(
            tf.constant(MATRIX), [True, False, True]
        ),
    }


def _rows(tf):
    v = tf.Variable(MATRIX)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 3)
    def run(a, b, c):
        with tf.GradientTape() as tape:
            y = sum(tf.reduce_sum(tf.gather(v, i) * k) for i, k in ((a, 1.0), (b, 2.0), (c, 3.0)))
        return tf.convert_to_tensor(tape.gradient(y, v))

    return lambda: run([0], [0, 1], [2, 2, 2])
