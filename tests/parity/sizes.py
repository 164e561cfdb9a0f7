"""Functions that compute the sizes of tensors: from scalars, vectors and data."""


def programs(tf):
    return _made(tf) | _reshaped(tf) | _taken(tf) | _counted(tf) | _flow(tf) | _rejected(tf) | _solved(tf)


def _at(tf, function, *numbers):
    """The results of one traced function for several numbers."""
    traced = tf.function(function, autograph=False)
    return [traced(tf.constant(number)) for number in numbers]


def _rows(tf):
    return tf.reshape(tf.range(12.0), [4, 3])


def _made(tf):
    def ranges(bounds):
        return tf.range(bounds[0], bounds[1], bounds[2])

    return {
        "zeros": lambda: _at(tf, lambda n: (tf.zeros([n, 2]), tf.ones([2, n]), tf.fill([n], 7)), 0, 1, 3),
        "of a vector": lambda: _at(tf, lambda v: (tf.zeros(v), tf.fill(v, 1.5)), [2, 3], [0, 1]),
        "range": lambda: _at(tf, lambda n: (tf.range(n), tf.range(1, n + 1), tf.range(n, 0, -1)), 0, 1, 4),
        "range of three": lambda: _at(tf, ranges, [1, 7, 2], [7, 1, -2], [0, 0, 1], [0, 5, 3]),
        "range of floats": lambda: _at(tf, ranges, [1.0, 7.0, 2.0], [7.0, 1.0, -2.5], [0.0, 1.0, 0.3]),
        "grids": lambda: _at(tf, lambda n: (tf.eye(n), tf.linspace(0.0, 1.0, n), tf.one_hot([0, 1], n)), 1, 3),
        "meshgrid": lambda: _at(tf, lambda n: tf.meshgrid(tf.range(n), tf.range(n + 1)), 1, 2),
        "random": lambda: _at(tf, lambda n: tf.random.stateless_uniform([n, 2], [1, 2]), 0, 2),
        "scatter": lambda: _at(tf, lambda n: tf.scatter_nd([[0], [1]], [1.0, 2.0], [n]), 2, 4),
        "same twice": lambda: _at(tf, lambda n: tf.zeros([n]) + tf.ones([n]) + tf.cast(tf.range(n), tf.float32), 0, 3),
        "products": lambda: _at(tf, lambda n: tf.matmul(tf.ones([n, 4]), tf.ones([4, n])), 1, 3),
    }


def _reshaped(tf):
    return {
        "reshape": lambda: _at(tf, lambda n: tf.reshape(_rows(tf), [n, -1]), 1, 2, 6),
        "broadcast": lambda: _at(tf, lambda v: tf.broadcast_to(tf.constant([1.0, 2.0, 3.0]), v), [2, 3], [1, 3]),
        "tile": lambda: _at(tf, lambda v: tf.tile(_rows(tf), v), [1, 2], [2, 0]),
        "pad": lambda: _at(tf, lambda n: tf.pad(_rows(tf), [[n, 0], [0, n]]), 0, 2),
        "repeat": lambda: _at(tf, lambda n: tf.repeat(_rows(tf), n, axis=0), 0, 2),
        "repeat each": lambda: _at(tf, lambda v: tf.repeat([1, 2, 3], v), [0, 2, 1], [1, 1, 1]),
        "roll": lambda: _at(tf, lambda n: tf.roll(_rows(tf), [n, -n], [0, 1]), 0, 1, 5),
        "split": lambda: _at(tf, lambda n: tf.split(_rows(tf), [n, 4 - n]), 1, 4),
        "concat": lambda: _at(tf, lambda n: tf.concat([tf.zeros([n, 3]), _rows(tf)], 0), 0, 2),
        "stack": lambda: _at(tf, lambda n: tf.stack([tf.ones([n]), tf.zeros([n])], axis=1), 1, 3),
        "gradients": lambda: _at(tf, lambda n: _gradient(tf, n), 1, 2, 3),
    }


def _gradient(tf, n):
    x = _rows(tf)
    with tf.GradientTape() as tape:
        tape.watch(x)
        tiled = tf.tile(x, [n, 1]) * tf.cast(tf.range(4 * n)[:, None], tf.float32)
        sums = tiled, tf.pad(x, [[n, 0], [0, n]]) ** 2, tf.reshape(x, [n, -1])[0] ** 3, x[1:n] ** 2, x[:, ::n]
        y = sum(map(tf.reduce_sum, sums)) + tf.reduce_sum(tf.repeat(x, [n, 1, 2, 0], axis=0) ** 2)
    return y, tape.gradient(y, x)


def _taken(tf):
    return {
        "slices": lambda: _at(tf, lambda n: (_rows(tf)[1:n], _rows(tf)[-n:, : n - 1], _rows(tf)[::n]), 1, 2, 9),
        "backwards": lambda: _at(tf, lambda n: (_rows(tf)[n::-1], _rows(tf)[:n:-1], _rows(tf)[::-n]), 1, 2, 9),
        "tf.slice": lambda: _at(tf, lambda n: tf.slice(_rows(tf), [1, 0], [n, 2]), 0, 2, 3, -1),
        "tf.slice from": lambda: _at(tf, lambda n: tf.slice(_rows(tf), [n, 0], [-1, 2]), 0, 2, 4),
        "strided": lambda: _at(tf, lambda v: tf.strided_slice(_rows(tf), [0, 0], v), [2, 3], [4, 1]),
        "top_k": lambda: _at(tf, lambda n: tf.math.top_k(_rows(tf), n).values, 1, 3),
    }


def _counted(tf):
    def segments(ids):
        x = _rows(tf)
        return tf.math.segment_sum(x, ids), tf.math.segment_max(x, ids), tf.math.segment_mean(x, ids)

    def counts(ids):
        bounded = tf.math.bincount(ids, minlength=3, maxlength=6)
        size = tf.reduce_max(ids) + 3
        exact = tf.math.bincount(ids, minlength=size, maxlength=size)
        return (
            tf.math.bincount(ids),
            bounded,
            exact,
            tf.math.unsorted_segment_sum(_rows(tf), ids, tf.reduce_max(ids) + 1),
        )

    def masked(lengths):
        mask = tf.sequence_mask(lengths, dtype=tf.float32)
        return mask, tf.reduce_sum(mask), tf.shape(mask)

    def found(n):
        t = tf.range(n)
        return (
            tf.where(t % 2 == 0),
            tf.boolean_mask(t, t % 2 == 0),
            tf.unique(t // 2)[0],
            tf.zeros([tf.size(tf.where(t > 1))]),
        )

    return {
        "segments": lambda: _at(tf, segments, [0, 0, 2, 3], [0, 1, 1, 1]),
        "counts": lambda: _at(tf, counts, [0, 0, 2, 3], [8, 1, 1, 1]),
        "sequence_mask": lambda: _at(tf, masked, [1, 3, 2], [0, 0, 0]),
        "found": lambda: _at(tf, found, 1, 5),
        "confusion": lambda: _at(tf, lambda n: tf.math.confusion_matrix([0, 1], [1, 1], n), 2, 3),
    }


def _flow(tf):
    @tf.function
    def summed(n):
        s = tf.zeros([n])
        for i in tf.range(n):
            s = s + tf.cast(tf.range(n) * i, tf.float32) + tf.ones([n])
        return s

    @tf.function
    def growing(n):
        s = 0.0
        for i in tf.range(n):
            s += tf.reduce_sum(tf.ones([i, 2])) + tf.cast(tf.shape(tf.zeros([i, i + 1]))[1], tf.float32)
        return s

    @tf.function
    def chosen(n):
        if n > 2:  # noqa: SIM108 - AutoGraph's branches
            r = tf.ones([n])
        else:
            r = tf.zeros([n])
        return r * 2, tf.reduce_sum(r)

    @tf.function
    def unless_negative(n):
        return tf.zeros([n]) if n >= 0 else tf.ones([1])

    def mapped(n):
        squares = tf.map_fn(lambda i: tf.cast(i, tf.float32) ** 2, tf.range(n), fn_output_signature=tf.float32)
        return (
            squares,
            tf.scan(lambda a, b: a + b, tf.range(n)),
            tf.TensorArray(tf.int32, n).unstack(tf.range(n)).stack(),
        )

    return {
        "loop": lambda: [summed(tf.constant(n)) for n in (0, 1, 3)],
        "loop of sizes": lambda: [growing(tf.constant(n)) for n in (0, 1, 3)],
        "branches": lambda: [chosen(tf.constant(n)) for n in (0, 1, 3)],
        "a branch not taken": lambda: [unless_negative(tf.constant(n)) for n in (-1, 2)],
        "mapped": lambda: _at(tf, mapped, 1, 4),
        "variable of unknown size": lambda: _grown(tf),
    }


def _grown(tf):
    v = tf.Variable(tf.zeros([0]), shape=[None])

    @tf.function
    def grow(n):
        v.assign(tf.concat([v, tf.cast(tf.range(n), tf.float32)], 0))
        return v + 1.0, tf.shape(v)

    return [grow(tf.constant(n)) for n in (1, 3, 0)]


def _rejected(tf):
    def kind(function, *numbers):
        try:
            return _at(tf, function, *numbers)
        except tf.errors.OpError as error:
            return type(error).__name__

    x = _rows(tf)
    return {
        "negative size": lambda: kind(lambda n: tf.zeros([n]), -1),
        "other sizes": lambda: kind(lambda v: tf.zeros([v[0]]) + tf.ones([v[1]]), [2, 3]),
        "not that size": lambda: kind(lambda n: tf.range(n) + [1, 2, 3], 2),
        "outside": lambda: kind(lambda n: tf.slice(x, [1, 0], [n, 2]), 4),
        "not ascending": lambda: kind(lambda ids: tf.math.segment_sum(x, ids), [0, 2, 1, 3]),
        "no step": lambda: kind(lambda n: tf.range(0, 5, n), 0),
        "unused": lambda: _at(tf, lambda n: (tf.zeros([n]), n)[1], -1),
    }


def _solved(tf):
    """Sizes that must be equal where unknown ones stand in sums."""
    vector, matrix = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None])

    @tf.function(input_signature=[vector] * 2)
    def filled(a, b):
        counts = tf.concat([b, tf.zeros([10 - tf.shape(a)[0]], tf.int32)], 0)
        return tf.repeat(tf.range(10), counts), tf.range(10) + counts

    @tf.function(input_signature=[vector] * 2)
    def filled_twice(a, b):
        return tf.repeat(tf.range(10), tf.concat([b, tf.zeros([10 - 2 * tf.shape(a)[0]], tf.int32)], 0))

    @tf.function(input_signature=[vector] * 2)
    def joined(a, b):
        return tf.tensordot(tf.concat([a, b], 0), tf.range(5), 1)

    @tf.function(input_signature=[matrix])
    def twice(a):
        return tf.linalg.matvec(tf.concat([a, a], 1), tf.ones([6]))

    def kind(function, *arguments):
        try:
            return function(*map(tf.constant, arguments))
        except tf.errors.OpError as error:
            return type(error).__name__

    return {
        "filled up": lambda: kind(filled, [1, 2, 3], [1, 2, 3]),
        "filled up too far": lambda: kind(filled, [1, 2], [1, 2, 3]),
        "filled up twice": lambda: kind(filled_twice, [1, 2], [3, 4, 0, 1]),
        "filled up twice too far": lambda: kind(filled_twice, [1, 2], [3, 4]),
        "joined": lambda: [kind(joined, [1] * n, [3, 4, 5]) for n in (2, 1)],
        "beside itself": lambda: [kind(twice, [[1.0] * n] * 2) for n in (3, 4)],
    }
