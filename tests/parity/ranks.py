"""Functions whose results depend on ranks known only at a call."""

import os
import tempfile


def programs(tf):
    return {
        "a graph of unknown rank is exported": lambda: _exported(tf),
        **_loops(tf),
        **_python_in_maps(tf),
        **_squeezed(tf),
        **_captured(tf),
        **_sparse_gradients(tf),
        "the unknown shape of an unknown shape": lambda: tf.TensorShape(tf.TensorShape(None)),
    }


def _sparse_gradients(tf):
    """Gradients of gather_nd, which are IndexedSlices where index vectors are known to have one element."""

    def gradient(x, indices):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(tf.gather_nd(x, indices))
        return tape.gradient(total, x)

    def called(x_shape, indices_shape, indices):
        x = tf.reshape(tf.range(24.0), [4, 3, 2])
        specs = [tf.TensorSpec(x_shape), tf.TensorSpec(indices_shape, tf.int32)]
        found = tf.function(gradient, input_signature=specs)(x, indices)
        return isinstance(found, tf.IndexedSlices), tf.convert_to_tensor(found)

    return {
        f"gradient of gather_nd of {x_shape} by {indices_shape} of {len(indices[0])}": lambda arguments=(x_shape, indices_shape, indices): (
            called(*arguments)
        )
        for x_shape in ([4, 3, 2], [None, None, None], None)
        for indices_shape in ([2, None], [None, None], None)
        for indices in ([[0], [1]], [[0, 1], [1, 2]], [[0, 1, 1], [1, 2, 0]])
    } | {"gradient of gather_nd of rows": lambda: called([4, 3, 2], [None, 1], [[0], [1]])}


def _exported(tf):
    f = tf.function(lambda x: tf.transpose(x) + x[0], input_signature=[tf.TensorSpec(None, tf.float32)])
    tf.summary.trace_on(graph=True)
    result = f(tf.ones([2]))
    with tempfile.TemporaryDirectory() as folder:
        with tf.summary.create_file_writer(folder).as_default():
            tf.summary.trace_export("f", step=0)
        placeholders = [n for n in f.get_concrete_function().graph.as_graph_def().node if n.op == "Placeholder"]
        return result, len(os.listdir(folder)), [n.name for n in placeholders]


def _loops(tf):
    def over(elements, body, start, dtype):
        def run():
            @tf.function
            def loop(dataset):
                value = start(tf)
                for x in dataset:
                    value = body(value, x)
                return value

            return loop(tf.data.Dataset.from_generator(lambda: elements, dtype))

        return run

    pairs = (tf.int32, tf.int32)
    return {
        "a loop over a dataset of unknown shapes": over(
            [(1, 3)] * 3, lambda v, x: v + tf.abs(x[1] - x[0]), lambda tf: tf.constant(0), pairs
        ),
        "a loop over rows of unknown shapes": over(
            [[1.0, 2.0], [3.0, 4.0]], lambda v, x: v + x, lambda tf: tf.zeros([2]), tf.float32
        ),
        "a loop over unknown shapes that carries a dict": over(
            [1.0, 2.0],
            lambda v, x: {"n": v["n"] + 1, "s": v["s"] * x},
            lambda tf: {"n": 0, "s": tf.constant(3.0)},
            tf.float32,
        ),
        "a loop over no elements of unknown shapes": over(
            [], lambda v, x: v + x, lambda tf: tf.constant(5.0), tf.float32
        ),
    }


def _python_in_maps(tf):
    def doubled(v):
        return tf.numpy_function(lambda a: a * 2, [v], tf.float32)

    def both(v):
        return tf.numpy_function(lambda a: a * 2, [v], tf.float32), v + 1

    kinds = {"map_fn": lambda f, x: tf.map_fn(f, x), "vectorized_map": lambda f, x: tf.vectorized_map(f, x)}

    def mapped(kind, f, x):
        return lambda: tf.function(lambda x: kinds[kind](f, x))(tf.constant(x))

    return {
        f"{kind} of Python whose rank it tells, on {x}": mapped(kind, doubled, x)
        for kind in kinds
        for x in ([1.0, 2.0], [[1.0, 2.0, 3.0]])
    } | {
        "vectorized_map of Python and a sum": mapped("vectorized_map", both, [1.0, 2.0]),
    }


def _squeezed(tf):
    def run(rows):
        @tf.function(input_signature=[tf.TensorSpec([None, 1, 3], tf.float32)])
        def f(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.squeeze(x)
                z = y * y
            return y, tf.shape(y), tape.gradient(z, x)

        return f(tf.ones([rows, 1, 3]))

    return {f"all axes of size 1 of {n} rows": lambda n=n: run(n) for n in (2, 0)}


def _captured(tf):
    """Functions inside a function of unknown rank that use its argument without taking it."""

    def ones_of_rows(x):
        return tf.ones(tf.shape(x)[:-1])

    bodies = {
        "its shape": lambda x: tf.shape(x),
        "its rank": lambda x: tf.rank(x),
        "its sum": lambda x: tf.reduce_sum(x, -1),
        "its elements": lambda x: tf.reshape(x, [-1]) * 2,
        "its shape among others": lambda x: tf.concat([[7], tf.shape(x)], 0),
        "its rows in a loop": lambda x: tf.while_loop(
            lambda i, y: i < 2, lambda i, y: (i + 1, y + ones_of_rows(x)), [0, ones_of_rows(x)]
        ),
        "its places in a loop": lambda x: tf.while_loop(
            lambda i, y: i < 2,
            lambda i, y: (i + 1, tf.tensor_scatter_nd_add(y, tf.where(y > 1.0), tf.gather_nd(x, tf.where(y > 1.0)))),
            [0, x],
        ),
        "its rows in a branch": lambda x: tf.cond(tf.size(x) > 2, lambda: ones_of_rows(x), lambda: x[..., 0]),
    }

    def inside(body, is_concrete):
        @tf.function(input_signature=[tf.TensorSpec(None)], autograph=False)
        def outer(x):
            inner = tf.function(lambda: body(x), autograph=False)
            return inner.get_concrete_function()() if is_concrete else inner()

        return [outer(tf.ones([2, 3])), outer(tf.ones([4]))]

    def at_distinct_indices(x):
        return tf.gather_nd(tf.stack([x, x]), tf.unique(tf.cast(0.0 * tf.reshape(x, [-1]), tf.int32))[0])

    def in_graph(body, in_function=True):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, None)
            y = tf.function(lambda: body(x), autograph=False)() if in_function else body(x)
            return [session.run(y, {x: [1.0, 2.0]}), session.run(y, {x: [[1.0, 2.0, 3.0]]})]

    return {
        **{f"a captured tensor, {label}": lambda b=body: inside(b, False) for label, body in bodies.items()},
        **{f"a captured tensor, {label}, concrete": lambda b=body: inside(b, True) for label, body in bodies.items()},
        **{f"a captured placeholder, {label}": lambda b=body: in_graph(b) for label, body in bodies.items()},
        "a computed index of any length": lambda: in_graph(at_distinct_indices, False),
        **{f"a placeholder, {label}": lambda b=body: in_graph(b, False) for label, body in bodies.items()},
    }
