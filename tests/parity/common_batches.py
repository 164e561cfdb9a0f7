"""Batch dims of unknown size that broadcast in matrix products and linear systems."""

PAIRS = ((2, 2), (1, 3), (3, 1), (1, 1))


def programs(tf):
    return _products(tf) | _systems(tf) | _differentiated(tf)


def _ranged(tf, *shape):
    return tf.reshape(tf.range(1.0, float(_count(shape)) + 1.0), shape)


def _count(shape):
    size = 1
    for n in shape:
        size *= n
    return size


def _square(tf, n):
    return tf.eye(2) * 4.0 + tf.reshape(tf.range(float(n)), [n, 1, 1])


def _run(tf, function, first, second):
    """The results of one traced function for batches of these sizes."""
    shapes = [[None, *first], [None, *second]]
    traced = tf.function(function, input_signature=[tf.TensorSpec(s) for s in shapes])
    return lambda: [traced(_ranged(tf, n, *first), _ranged(tf, m, *second)) for n, m in PAIRS]


def _solved(tf, function, pairs=PAIRS):
    traced = tf.function(function, input_signature=[tf.TensorSpec([None, 2, 2]), tf.TensorSpec([None, 2, 1])])
    return lambda: [traced(_square(tf, n), _ranged(tf, m, 2, 1) * 4.0) for n, m in pairs]


def _products(tf):
    def computed(n, m):
        product = tf.ones([n, 2, 3]) @ tf.ones([m, 3, 2])
        return product, tf.shape(product), product + tf.ones([n, 1, 1])

    def of_sizes():
        traced = tf.function(computed, input_signature=[tf.TensorSpec([], tf.int32)] * 2)
        return [traced(tf.constant(n), tf.constant(m)) for n, m in PAIRS]

    def unknown(a, b):
        return tf.matmul(a, b, transpose_b=True)

    def of_any():
        traced = tf.function(unknown, input_signature=[tf.TensorSpec([None] * 4)] * 2)
        pairs = (((2, 1, 2, 3), (2, 3, 2, 3)), ((1, 2, 2, 3), (3, 1, 4, 3)), ((2, 2, 1, 1), (2, 2, 1, 1)))
        return [traced(_ranged(tf, *a), _ranged(tf, *b)) for a, b in pairs]

    def rejected():
        traced = tf.function(lambda a, b: a @ b, input_signature=[tf.TensorSpec([None, 2, 2])] * 2)
        try:
            return traced(_ranged(tf, 2, 2, 2), _ranged(tf, 3, 2, 2))
        except tf.errors.InvalidArgumentError as error:
            return type(error).__name__

    return {
        "matmul": _run(tf, lambda a, b: a @ b, (2, 3), (3, 2)),
        "matvec": _run(tf, lambda a, b: tf.linalg.matvec(a, b), (2, 3), (3,)),
        "einsum": _run(tf, lambda a, b: tf.einsum("...ij,...jk->...ik", a, b), (2, 3), (3, 2)),
        "einsum of three": _run(tf, lambda a, b: tf.einsum("...ij,...jk,...k->...i", a, b, b[:, 0]), (2, 3), (3, 2)),
        "what follows": _run(tf, lambda a, b: tf.nn.relu(a @ b - 20.0) + a[:, :, :1] * b[:, :1], (2, 3), (3, 2)),
        "computed": of_sizes,
        "all unknown": of_any,
        "other sizes": rejected,
    }


def _systems(tf):
    def by_cholesky(a, b):
        return tf.linalg.cholesky_solve(tf.linalg.cholesky(a @ tf.transpose(a, [0, 2, 1])), b)

    return {
        "cholesky_solve": _solved(tf, lambda a, b: tf.round(by_cholesky(a, b) * 1000.0)),
        "inverse": _solved(tf, lambda a, b: tf.round(tf.linalg.inv(a) @ b * 1000.0)),
        "solve": _solved(tf, lambda a, b: tf.round(tf.linalg.solve(a, b) * 1000.0), ((2, 2), (1, 1))),
    }


def _differentiated(tf):
    def first(function):
        def run(a, b):
            with tf.GradientTape() as tape:
                tape.watch([a, b])
                y = tf.reduce_sum(function(a, b) ** 2)
            return [tf.round(g * 100.0) for g in tape.gradient(y, [a, b])]

        return run

    def outside():
        traced = tf.function(lambda a, b: a @ b, input_signature=[tf.TensorSpec([None, 2, 2])] * 2)
        found = []
        for n, m in PAIRS:
            a, b = _ranged(tf, n, 2, 2), _ranged(tf, m, 2, 2)
            with tf.GradientTape() as tape:
                tape.watch([a, b])
                y = traced(a, b)
            found.append(tape.gradient(y, [a, b]))
        return found

    return {
        "gradient of matmul": _run(tf, first(lambda a, b: a @ b / 16.0), (2, 3), (3, 2)),
        "gradient of einsum": _run(tf, first(lambda a, b: tf.einsum("...ij,...j->...i", a, b)), (2, 3), (3,)),
        "gradient of triangular_solve": _solved(tf, first(lambda a, b: tf.linalg.triangular_solve(a, b))),
        "gradient outside": outside,
    }
