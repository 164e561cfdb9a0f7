"""Sizes known only at a call or at run time that broadcast in elementwise functions."""

PAIRS = ((2, 2), (1, 3), (3, 1), (1, 1), (0, 1), (1, 0))


def programs(tf):
    return _arguments(tf) | _computed(tf) | _differentiated(tf) | _flow(tf) | _rejected(tf)


def in_sweep(label):
    """Loops, gradients in functions and other expressions of arguments' sizes run by default."""
    return label in ("gradients outside", "loop of arguments", "of slices", "nested")


def _ranged(tf, *shape):
    size = 1
    for n in shape:
        size *= n
    return tf.reshape(tf.range(1.0, size + 1.0), shape)


def _of_arguments(tf, function, *shapes, specs=None):
    """The results of one traced function of vectors of these sizes (or tensors of these shapes)."""
    lists = [[each if isinstance(each, tuple) else (each,) for each in pair] for pair in shapes]
    specs = specs or [[None] * len(shape) for shape in lists[0]]
    traced = tf.function(function, input_signature=[tf.TensorSpec(s) for s in specs])
    found = [traced(*(_ranged(tf, *shape) for shape in pair)) for pair in lists]
    return found, traced.experimental_get_tracing_count()


def _of_sizes(tf, function, *sizes):
    """The results of one traced function of two numbers."""
    traced = tf.function(function, input_signature=[tf.TensorSpec([], tf.int32)] * 2)
    return [traced(*map(tf.constant, pair)) for pair in sizes or PAIRS]


def _arguments(tf):
    def several(x, y):
        total = x * y + x - y
        return (
            total,
            tf.shape(total),
            tf.maximum(total, x),
            x < y,
            tf.zeros_like(total) + tf.cast(tf.size(total), tf.float32),
        )

    def three(x, y, z):
        return x * y * z, tf.where(x > 2.0, y, z), tf.where(tf.equal(x, y), x + z, y)

    def rows(x, y):
        return x + y, tf.reduce_sum(x - y, 1), tf.reduce_mean(tf.math.squared_difference(x, y))

    def shown(x, y):
        return x, (x + y).shape, (x + tf.constant([1.0, 2.0])).shape, tf.concat([x + y, x * y], 0).shape

    def traced_shapes(x, y):
        found.append(str(list(shown(x, y)[1:])))
        return x

    found = []
    return {
        "arguments": lambda: _of_arguments(tf, several, *PAIRS),
        "three": lambda: _of_arguments(tf, three, (3, 1, 3), (1, 3, 1), (3, 3, 3), (1, 1, 3), (1, 1, 1)),
        "rows": lambda: _of_arguments(tf, rows, ((2, 3), (1, 3)), ((2, 1), (2, 3)), ((1, 3), (2, 1)), ((2, 3), (2, 3))),
        "other ranks": lambda: _of_arguments(tf, rows, ((2, 3), (3,)), ((2, 1), (3,)), ((2, 3), (1,))),
        "known": lambda: _of_arguments(tf, lambda x: (x + [1.0, 2.0, 3.0], [[1.0]] * 2 - x), (3,), (1,)),
        "in part": lambda: _of_arguments(
            tf, lambda x, y: x / y, ((2, 3), (1, 3)), ((2, 3), (2, 3)), specs=[[None, 3], [None, 3]]
        ),
        "of slices": lambda: _of_arguments(tf, lambda x, y: x[1:] * y + x[:-1], (4, 3), (4, 1), (2, 3)),
        "shapes": lambda: (_of_arguments(tf, traced_shapes, (2, 2)), found),
        "entropy": lambda: _of_arguments(
            tf,
            lambda x, y: tf.nn.softmax_cross_entropy_with_logits(x / 10, y),
            *(((2, 3), (1, 3)), ((1, 3), (2, 3)), ((2, 3), (2, 3))),
        ),
        "nested": lambda: _of_arguments(tf, _nested(tf), (2, 2), (1, 3), (3, 1)),
        "a Variable": lambda: _assigned(tf),
    }


def _nested(tf):
    inner = tf.function(lambda x, y: x * y)

    def outer(x, y):
        product = inner(x, y)
        return inner(product, x) + y, inner(y, product)

    return outer


def _assigned(tf):
    total, count = tf.Variable([1.0], shape=[None]), tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def add(x):
        count.assign_add(1)
        total.assign(total + x)
        return total * 2.0

    return [(add(_ranged(tf, n)), total.read_value(), count.read_value()) for n in (1, 3, 1, 3)]


def _computed(tf):
    def made(n, m):
        return tf.zeros([n]) + tf.ones([m]), tf.range(n) * tf.range(m), tf.fill([n, 2], 1.5) - tf.ones([m, 1])

    def mixed(n, m):
        x = tf.range(12.0)
        return x[:n] + tf.cast(tf.range(m), tf.float32), tf.reshape(x, [-1, 1])[:n] * tf.ones([m, 2])

    def known(n, m):
        return tf.range(n) + [1, 2, 3], tf.constant([[1], [2]]) + tf.range(m)

    def chosen(n, m):
        flags = tf.range(n) % 2 == 0
        return tf.where(flags, tf.range(m), -1), tf.where(flags[:, None], tf.ones([m, 2]), tf.zeros([n, 1]))

    def later(n, m):
        total = tf.ones([n]) + tf.ones([m])
        return tf.shape(total), total + tf.ones([n]), tf.reshape(total, [-1, 1]), tf.concat([total, total], 0)

    def broadcast(n, m):
        return tf.broadcast_to(tf.range(n), [m]), tf.broadcast_to(tf.range(n), [2, m])

    def complexes(n, m):
        return tf.complex(tf.ones([n]), tf.ones([n])) * tf.complex(tf.ones([m]), tf.zeros([m]))

    return {
        "made": lambda: _of_sizes(tf, made),
        "mixed": lambda: _of_sizes(tf, mixed),
        "computed and known": lambda: _of_sizes(tf, known, (3, 1), (1, 4), (3, 3)),
        "chosen": lambda: _of_sizes(tf, chosen),
        "used later": lambda: _of_sizes(tf, later),
        "broadcast_to": lambda: _of_sizes(tf, broadcast, (1, 3), (3, 3), (1, 0), (1, 1)),
        "complex numbers": lambda: _of_sizes(tf, complexes, (1, 2), (2, 2)),
        "mapped": lambda: _of_sizes(tf, lambda n, m: _mapped(tf, n, m)),
    }


def _mapped(tf, n, m):
    rows = tf.reshape(tf.range(6.0), [2, 3])
    added = tf.vectorized_map(lambda row: tf.ones([n]) * tf.ones([m]) * row[0], rows)
    return added, tf.map_fn(lambda row: tf.ones([n]) * tf.ones([m]) + row[1], rows)


def _differentiated(tf):
    def of_arguments(x, y):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([x, y])
            with tf.GradientTape() as inner:
                inner.watch([x, y])
                z = tf.reduce_sum(x * x * y + y * y * x)
            first = inner.gradient(z, [x, y])
            both = tf.reduce_sum(first[0] ** 2) + tf.reduce_sum(first[1] ** 2)
        return z, first, outer.gradient(both, [x, y])

    def of_sizes(n, m):
        x, y = tf.range(1.0, tf.cast(n, tf.float32) + 1.0), tf.ones([m, 2])
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = tf.where(x[:, None] > 1.5, x[:, None] * y, y / x[:, None])
            product = z * y
        return product, tape.gradient(product, [x, y])

    def outside():
        function = tf.function(lambda x, y: x * y + tf.exp(x), input_signature=[tf.TensorSpec([None])] * 2)
        found = []
        for n, m in PAIRS:
            x, y = _ranged(tf, n), _ranged(tf, m)
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                z = function(x, y)
            found.append(tape.gradient(z, [x, y]))
        return found

    return {
        "gradients": lambda: _of_arguments(tf, of_arguments, *PAIRS),
        "gradients of computed sizes": lambda: _of_sizes(tf, of_sizes, (2, 2), (1, 3), (3, 1)),
        "gradients outside": outside,
    }


def _flow(tf):
    @tf.function(input_signature=[tf.TensorSpec([None])] * 2 + [tf.TensorSpec([], tf.bool)])
    def chosen(x, y, flag):
        if flag:  # noqa: SIM108 - AutoGraph's branches
            z = x * y
        else:
            z = x
        return z, z + y

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)] * 2)
    def summed(n, m):
        total = tf.constant(0.0)
        for i in tf.range(3):
            parts = tf.ones([n]) * tf.cast(i, tf.float32) + tf.cast(tf.range(m), tf.float32)
            total += tf.reduce_sum(parts)
        return total

    @tf.function(input_signature=[tf.TensorSpec([None])] * 2)
    def repeated(x, y):
        for _ in tf.range(2):
            x = x + tf.reduce_sum(x * y)
        return x

    @tf.function(input_signature=[tf.TensorSpec([None])] * 2)
    def carried(x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            total = tf.constant(0.0)
            for _ in tf.range(2):
                total += tf.reduce_sum(x * y) + total
        return total, tape.gradient(total, [x, y])

    def flags(x, y):
        return [chosen(x, y, tf.constant(flag)) for flag in (True, False)]

    return {
        "branches": lambda: [flags(_ranged(tf, n), _ranged(tf, m)) for n, m in PAIRS],
        "loop": lambda: [summed(tf.constant(n), tf.constant(m)) for n, m in PAIRS],
        "loop of arguments": lambda: [repeated(_ranged(tf, n), _ranged(tf, m)) for n, m in PAIRS],
        "gradient of a loop": lambda: [carried(_ranged(tf, n), _ranged(tf, m)) for n, m in PAIRS],
    }


def _rejected(tf):
    v = tf.Variable(0.0)

    def failing(x, y):
        v.assign_add(1.0)
        return x - y

    def outcome(n, m):
        traced = tf.function(failing, input_signature=[tf.TensorSpec([None])] * 2)
        try:
            return traced(_ranged(tf, n), _ranged(tf, m)), v.read_value()
        except tf.errors.InvalidArgumentError as error:
            return f"{type(error).__name__}", v.read_value()

    return {
        "other sizes": lambda: _of_arguments(tf, lambda x, y: x - y, (2, 3)),
        "other computed sizes": lambda: _of_sizes(tf, lambda n, m: tf.zeros([n]) - tf.ones([m]), (2, 3)),
        "other rows": lambda: _of_arguments(tf, lambda x, y: x - y, ((2, 3), (4, 3))),
        "what was done": lambda: [outcome(2, 2), outcome(1, 2), outcome(3, 2), outcome(2, 1)],
        "not used": lambda: _of_arguments(tf, lambda x, y: (x - y, x)[1], (2, 3)),
        "not wide enough": lambda: _kind(tf, lambda n, m: tf.broadcast_to(tf.zeros([n]), [m]), (3, 1)),
    }


def _kind(tf, function, *sizes):
    try:
        return _of_sizes(tf, function, *sizes)
    except tf.errors.OpError as error:
        return type(error).__name__
