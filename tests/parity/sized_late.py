"""Shapes known only at a call: what TensorFlow checks at run time."""

from parity_calls import kind

MATRIX = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def programs(tf):
    return (
        _reshapes(tf)
        | _masks(tf)
        | _flattened(tf)
        | {"rows of three unknown counts": _rows(tf)}
        | _computed_counts(tf)
        | _in_branches(tf)
        | _of_gradients_alone(tf)
        | _of_no_rows(tf)
    )


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


def _flattened(tf):
    """Functions of two flattened matrices, whose numbers of elements are products of unknown sizes, equal in the calls."""
    matrix, counts = tf.TensorSpec([None, None]), tf.TensorSpec([], tf.int32)

    def kind(function, *arguments):
        try:
            return function(*arguments)
        except (tf.errors.OpError, ValueError) as error:
            return type(error).__name__

    def of_arguments(name, body):
        sizes = (6,) if name in ("coordinates", "diagonal", "cotangent") else (6, 8)
        function = tf.function(
            lambda a, b: body(tf.reshape(a, [-1]), tf.reshape(b, [-1])), input_signature=[matrix] * 2
        )
        left = tf.reshape(tf.range(6.0), [2, 3])
        return [kind(function, left, tf.reshape(tf.range(float(n)), [-1, 2])) for n in sizes]

    def of_numbers(body):
        def traced(p, q, r):
            return body(tf.reshape(tf.ones([p, q]), [-1]), tf.reshape(tf.ones([r, q]), [-1]))

        function = tf.function(traced, input_signature=[counts] * 3)
        return [kind(function, *map(tf.constant, numbers)) for numbers in ((2, 3, 2), (4, 1, 4))]

    def differentiated(a, b):
        with tf.GradientTape() as tape:
            tape.watch(a)
            doubled = a * 2.0
        return tape.gradient(doubled, a, output_gradients=b)

    bodies = {
        "mask": lambda a, b: tf.boolean_mask(a, b > 2.0),
        "class numbers": lambda a, b: tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.cast(a, tf.int32) // 6, tf.stack([b, b, b], 1) * 0.0
        ),
        "probabilities": lambda a, b: tf.nn.sigmoid_cross_entropy_with_logits(a * 0.0 + 1.0, b * 0.0),
        "counts": lambda a, b: tf.nn.log_poisson_loss(a * 0.0 + 1.0, b * 0.0),
        "repeats": lambda a, b: tf.repeat(a, tf.cast(b, tf.int32)),
        "coordinates": lambda a, b: tf.sparse.to_dense(tf.SparseTensor(tf.cast(a, tf.int64)[:, None], b, [6])),
        "diagonal": lambda a, b: tf.linalg.LinearOperatorDiag(a).matvec(b),
        "cotangent": differentiated,
    }
    computed = {name: bodies[name] for name in ("mask", "class numbers", "probabilities", "counts", "repeats")}
    return {
        **{
            f"flattened: {name}": lambda name=name, body=body: of_arguments(name, body) for name, body in bodies.items()
        },
        **{
            f"flattened, of computed sizes: {name}": lambda body=body: of_numbers(body)
            for name, body in computed.items()
        },
    }


def _computed_counts(tf):
    """Ops on tensors of as many rows as two vectors have positive elements: three and three, and three and five."""
    uses = {
        "joined": lambda m, n: tf.concat([tf.ones([m, 2]), tf.zeros([n, 1])], 1),
        "multiplied": lambda m, n: tf.matmul(tf.ones([2, m]), tf.ones([n, 2])),
        "cross entropy": lambda m, n: tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.zeros([n], tf.int32), tf.ones([m, 2])
        ),
        "sums of segments": lambda m, n: tf.math.segment_sum(tf.ones([m]), tf.zeros([n], tf.int32)),
        "solved": lambda m, n: tf.linalg.solve(tf.eye(m), tf.ones([n, 1])),
        "gathered": lambda m, n: tf.gather(tf.ones([m, 4]), tf.zeros([n, 1], tf.int32), batch_dims=1),
        "gathered by vectors": lambda m, n: tf.gather_nd(tf.ones([m, 4]), tf.zeros([n, 1], tf.int32), batch_dims=1),
        "mapped": lambda m, n: tf.map_fn(lambda x: x[0] + x[1], (tf.ones([n]), tf.ones([m])), tf.float32),
        "a seed of a gradient": lambda m, n: _seeded_gradient(tf, tf.ones([m]), tf.ones([n])),
        "in a map": lambda m, n: tf.map_fn(
            lambda i: tf.cond(i > 0, lambda: tf.ones([m]), lambda: tf.ones([n])), tf.range(2), tf.float32
        ),
    }

    def of_counts(use):
        @tf.function
        def run(a, b):
            return use(tf.shape(tf.where(a > 0.0))[0], tf.shape(tf.where(b > 0.0))[0])

        three, five = tf.constant([1.0, 1.0, 1.0, -1.0, -1.0]), tf.ones([5])
        return lambda: (run(three, three), kind(lambda: run(three, five)))

    return {f"{name}, of computed counts": of_counts(use) for name, use in uses.items()}


def _seeded_gradient(tf, x, seed):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x, output_gradients=seed)


def _in_branches(tf):
    """What only a branch needs to be equal differs, in calls that take the other branch."""

    def computed():
        @tf.function
        def run(a, b, both):
            m, n = tf.where(a > 0.0), tf.where(b > 0.0)
            return tf.cond(both, lambda: tf.concat([m, n], 1), lambda: tf.concat([m, m], 1))

        return _of_each_branch(tf, run, tf.constant([1.0, 1.0, -1.0]), tf.ones([3]))

    def of_arguments():
        vector = tf.TensorSpec([None])

        @tf.function(input_signature=[vector, vector, tf.TensorSpec([], tf.bool)])
        def run(x, y, both):
            if both:
                return tf.stack([x, y], 1)
            return tf.stack([x, x], 1)

        return _of_each_branch(tf, run, tf.ones([2]), tf.ones([3]))

    return {
        "computed sizes in a branch": computed,
        "sizes of arguments in a branch": of_arguments,
        **_derived_in_branches(tf),
        **_in_called_functions(tf),
        **_in_loops(tf),
        "sizes in a graph of TensorFlow 1": lambda: _in_graph(tf),
    }


def _in_loops(tf):
    """What only a loop's body or a custom gradient needs to be equal differs, in calls that don't run it."""
    variable = tf.Variable([1.0, 2.0])

    def summed(x, y, count):
        total = 0.0
        for _ in tf.range(count):
            total += tf.reduce_sum(tf.stack([x, y]))
        return total

    def gradient(x, y, count):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = summed(x * x, y, count)
        return tape.gradient(total, x)

    def custom(x, y, count):
        @tf.custom_gradient
        def doubled(a):
            return a * 2.0, lambda ct: tf.reduce_sum(tf.stack([x, y])) * ct

        with tf.GradientTape() as tape:
            tape.watch(x)
            result = doubled(x) if count > 0 else x * 3.0
        return tape.gradient(result, x), doubled(x)

    def assigned(x, y, count):
        for i in tf.range(count):
            if i > 0:
                variable.assign(y)
        return variable + x

    bodies = {
        "a loop": summed,
        "the gradient of a loop": gradient,
        "a map": lambda x, y, count: tf.map_fn(lambda _: tf.tensordot(x, y, 1), tf.range(count), tf.float32),
        "a scan": lambda x, y, count: tf.scan(lambda a, _: a + tf.reduce_sum(tf.stack([x, y])), tf.range(count), 0.0),
        "a custom gradient": custom,
        "an assignment": assigned,
    }

    def calls(body, rank):
        spec = tf.TensorSpec([None] if rank else None)
        function = tf.function(body, input_signature=[spec, spec, tf.TensorSpec([], tf.int32)])
        called = tf.function(lambda x, y, count: function(x, y, count))
        two, three = tf.ones([2]), tf.ones([3])
        arguments = ((two, three, tf.constant(0)), (two, two, tf.constant(2)), (two, three, tf.constant(2)))

        def results(run):
            variable.assign([1.0, 2.0])
            return [kind(lambda each=each: run(*each)) or run(*each) for each in arguments]

        return lambda: (results(function), results(called))

    return {
        f"sizes of {name}, of {'known' if rank else 'unknown'} rank": calls(body, rank)
        for name, body in bodies.items()
        for rank in (True, False)
        if rank or name not in ("a map", "a custom gradient")
    }


def _of_gradients_alone(tf):
    """Gradients of products of sizes that don't fit, where nothing needs the products themselves."""
    vector = tf.TensorSpec([None])
    variable = tf.Variable([1.0, 2.0])

    def product(x, y):
        return x * y

    def looped(x, y):
        total = 0.0
        for _ in tf.range(2):
            total += tf.reduce_sum(x * y)
        return total

    bodies = {
        "a product": product,
        "a product with a Variable": lambda x, _: x * variable,
        "products in a loop": looped,
    }

    def gradients(body):
        @tf.function(input_signature=[vector, vector])
        def run(x, y):
            with tf.GradientTape() as tape:
                tape.watch(x)
                total = tf.reduce_sum(body(x, y))
            return tape.gradient(total, x)

        two = tf.constant([3.0, 4.0])
        return lambda: [kind(lambda n=n: run(tf.ones([n]), two)) or run(tf.ones([n]), two) for n in (1, 2, 3)]

    return {f"only the gradient of {name}": gradients(body) for name, body in bodies.items()}


def _in_graph(tf):
    """What only one op of a graph needs to be equal differs, in runs of this op and of others."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.float32, [None])
        positive = tf.boolean_mask(x, x > 0.0), tf.boolean_mask(y, y > 0.0)
        ops = {
            "stacked": tf.stack([x, y], 1),
            "unstacked": tf.unstack(y, 2),
            "mapped": tf.map_fn(lambda pair: pair[0] + pair[1], positive, dtype=tf.float32),
            "claimed": tf.ensure_shape(y, [2]),
            "total": tf.reduce_sum(x) + tf.reduce_sum(y),
        }
        longer, equal = {x: [1.0, 2.0, 4.0], y: [1.0, 2.0]}, {x: [1.0, 2.0], y: [1.0, 2.0]}
        return [
            (name, kind(lambda op=op, feeds=feeds: session.run(op, feeds)))
            for name, op in ops.items()
            for feeds in (longer, equal, {x: [1.0, 2.0, 4.0], y: [1.0, 2.0, 4.0]})
        ] + [session.run(ops["total"], longer)]


def _in_called_functions(tf):
    """Branches that don't fit the sizes of a call, in functions of any sizes that are called with known ones."""
    vector = tf.TensorSpec([None])

    @tf.function(input_signature=[vector, vector])
    def total(x, y):
        if tf.shape(x)[0] == tf.shape(y)[0]:
            return tf.reduce_sum(tf.stack([x, y], 1) * 2.0)
        return tf.reduce_sum(x)

    @tf.function(input_signature=[vector, vector, tf.TensorSpec([], tf.bool)])
    def columns(x, y, both):
        if both:
            return tf.concat([x[:, None], y[:, None]], 1)
        return x[:, None]

    @tf.function
    def called(x, y):
        return total(x, y)

    @tf.function
    def gradient(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = total(x, y)
        return tape.gradient(result, x)

    @tf.function
    def called_to_choose(x, y, both):
        return columns(x, y, both) + 1.0

    two, three = tf.ones([2]), tf.ones([3])
    return {
        "a branch of a called function": lambda: (called(two, three), called(two, two)),
        "gradient of a branch of a called function": lambda: (gradient(two, three), gradient(two, two)),
        "columns of a called function": lambda: _of_each_branch(tf, called_to_choose, two, three),
    }


def _derived_in_branches(tf):
    """Gradients, maps and pieces of what is computed in a branch, and sizes that it claims."""
    vector = tf.TensorSpec([None])
    signature = [vector, vector, tf.TensorSpec([], tf.bool)]

    def summed(x, y):
        return tf.reduce_sum(tf.stack([x * x, y], 1))

    @tf.function(input_signature=signature)
    def gradient(x, y, both):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = summed(x, y) if both else tf.reduce_sum(x * x * x)
        return tape.gradient(total, x)

    @tf.function(input_signature=signature)
    def mapped(x, y, both):
        return tf.vectorized_map(
            lambda row: tf.cond(both, lambda: tf.reduce_sum(tf.stack([row, y], 1)), lambda: row[0]), tf.stack([x, x])
        )

    @tf.function(input_signature=signature)
    def pieces(x, y, both):
        if both:
            return tf.split(x, [tf.shape(y)[0], 0])[0]
        return x

    @tf.function(input_signature=[vector, tf.TensorSpec([], tf.bool)])
    def claimed(x, has_two):
        if has_two:
            x.set_shape([2])
        return x + 1.0

    of_three_sizes = {"gradient": gradient, "vectorized map": mapped, "pieces": pieces}
    return {
        **{
            f"{name} of a branch": lambda run=run: _of_each_branch(tf, run, tf.ones([2]), tf.ones([3]))
            for name, run in of_three_sizes.items()
        },
        "shape set in a branch": lambda: (
            claimed(tf.ones([3]), tf.constant(False)),
            claimed(tf.ones([2]), tf.constant(True)),
        ),
    }


def _of_each_branch(tf, run, x, y):
    taken, other = tf.constant(True), tf.constant(False)
    return run(x, y, other), kind(lambda: run(x, y, taken)), run(x, x, taken)


def _of_no_rows(tf):
    def repeated(shape, axis):
        run = tf.function(lambda x, counts: tf.repeat(x, counts, axis=axis))
        return lambda: run(tf.zeros(shape), tf.zeros([0], tf.int32))

    @tf.function
    def summed(x):
        total = 0.0
        with tf.GradientTape() as tape:
            tape.watch(x)
            for i in tf.range(tf.shape(x)[0]):
                total += x[i] ** 2
        return total, tape.gradient(total, x)

    indexed = tf.function(lambda x, i: x[i])
    return {
        "no rows, repeated": repeated([0, 3], 0),
        "no rows, repeated by no counts": lambda: tf.repeat(tf.zeros([0]), []),
        "repeated negative times": lambda: tf.repeat([1, 2, 3], [2, -1, 1]),
        "repeated negative times that are computed": lambda: tf.function(lambda counts: tf.repeat([1, 2, 3], counts))(
            tf.constant([-2, 2, 1])
        ),
        "no columns, repeated": repeated([2, 0], 1),
        "no rows, read in a loop": lambda: (summed(tf.zeros([0])), summed(tf.ones([2]))),
        "no rows, indexed": lambda: kind(lambda: indexed(tf.zeros([0]), tf.constant(0))),
    }
