"""Python called by traced functions, with results of unknown rank; and loops over tensors of unknown rank."""

import numpy as np
from parity_calls import of_all_ranks

MATRIX = [[1.0, 2.0], [3.0, 4.0]]


def programs(tf):
    kinds = (_uses, _message, _effects, _gradients, _gradients_of_branches, _datasets, _rows)
    return {name: program for kind in kinds for name, program in kind(tf).items()}


def _python(tf, x, run=lambda t: t.numpy() * 2.0, dtype=None):
    return tf.py_function(run, [x], dtype or tf.float32)


def _uses(tf):
    x = tf.constant(MATRIX)

    def branch(x):
        if _python(tf, x, lambda t: t.numpy().sum()) > 3.0:
            y = x * 2.0
        else:
            y = -x
        return y

    def picked(x):
        y = _python(tf, x, lambda t: t[0])
        total = 0.0
        for i in tf.range(tf.shape(y)[0]):
            total += y[i]
        return total

    def rows(x):
        total = 0.0
        for row in _python(tf, x):
            total += tf.reduce_sum(row) * 2.0
        return total

    def repeated(x):
        total = 0.0
        for i in tf.range(3):
            total += tf.reduce_sum(_python(tf, i, lambda i: np.ones([2, 3], np.float32) * i.numpy()))
        return total

    def of_other_ranks(x):
        total = 0.0
        for i in tf.range(3):
            total += tf.reduce_sum(_python(tf, i, lambda i: np.ones([1] * int(i), np.float32)))
        return total

    def two(x):
        y, n = tf.py_function(lambda t: (t, 3), [x], [tf.float32, tf.int64])
        return tf.one_hot(n, 5), tf.image.flip_left_right(y[..., None])

    bodies = {
        "elementwise": lambda x: _python(tf, x) + 1.0,
        "meeting the argument": lambda x: _python(tf, x) * x - x,
        "numpy_function": lambda x: tf.numpy_function(lambda a: a[::-1], [x], tf.float32) + 1.0,
        "of a Python number": lambda x: _python(tf, x, lambda t: 3) + x,
        "of another dtype": lambda x: _python(tf, x, lambda t: np.float64([1.5])),
        "integers": lambda x: _python(tf, x, lambda t: t.numpy().shape, tf.int32) + 1,
        "reduced": lambda x: (tf.reduce_sum(_python(tf, x)), tf.reduce_mean(_python(tf, x), -1)),
        "shape, rank and size": lambda x: [f(_python(tf, x)) for f in (tf.shape, tf.rank, tf.size)],
        "product": lambda x: tf.matmul(_python(tf, x), x),
        "joined": lambda x: tf.concat([_python(tf, x), x], 0),
        "stacked": lambda x: tf.stack([_python(tf, x), x]),
        "indexed": lambda x: (_python(tf, x)[0], _python(tf, x)[..., tf.newaxis]),
        "called on the result": lambda x: _python(tf, _python(tf, x)),
        "cast": lambda x: tf.cast(_python(tf, x), tf.int32),
        "compared": lambda x: tf.where(_python(tf, x) > 3.0, x, 0.0),
        "cond": lambda x: tf.cond(_python(tf, x, lambda t: True, tf.bool), lambda: x, lambda: -x),
        "length": lambda x: len(_python(tf, x)),
        "one of two": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: _python(tf, x), lambda: x),
        "branch": branch, "picked": picked, "rows": rows, "repeated": repeated, "of other ranks": of_other_ranks, "two": two,
    }  # fmt: skip

    def other_ranks_later():
        f = tf.function(lambda x: _python(tf, x) * 1.0, input_signature=[tf.TensorSpec([])])
        g = tf.function(lambda x: _python(tf, x, lambda t: np.ones([2] * int(t), np.float32)) * x)
        return f(1.0), [g(tf.constant(float(n))) for n in (1, 2, 0, 1)], g.experimental_get_tracing_count()

    def seen():
        shapes = []

        @tf.function
        def f(x):
            y = _python(tf, x)
            z = tf.reshape(_python(tf, x), [2, -1])
            shapes.extend([y.shape, (y + 1.0).shape, tf.shape(y).shape, z.shape, tf.reduce_sum(y).shape])
            return y

        return f.get_concrete_function(x).structured_outputs.shape, shapes

    def within():
        inner = tf.function(lambda x: _python(tf, x))
        return tf.function(lambda x: inner(x) + inner(x[0]))(x)

    def needed():
        try:
            tf.function(lambda x: [0] * _python(tf, x).shape.rank)(x)
        except TypeError:
            return "refused"

    def printed():
        f = tf.function(lambda x: _python(tf, x))
        return f.get_concrete_function(x)

    return {name: lambda body=body: tf.function(body)(x) for name, body in bodies.items()} | {
        "other ranks later": other_ranks_later,
        "seen": seen,
        "within another": within,
        "rank needed in Python": needed,
        "printed": printed,
    }


def _message(tf):
    x = tf.constant(MATRIX)

    def shaped(x):
        y = _python(tf, x)
        y.set_shape([None, 2])
        return tf.matmul(y, x)

    def wrong(x):
        return tf.ensure_shape(_python(tf, x), [None, 3])

    def rejected():
        try:
            tf.function(wrong)(x)
        except tf.errors.InvalidArgumentError as error:
            return "is not compatible with expected shape" in str(error)

    def shapes():
        found = []

        def f(x):
            y, z, u = (_python(tf, x) for _ in range(3))
            z.set_shape([2, None])
            found.extend([tf.ensure_shape(y, [None, 2]).shape, z.shape, (z + 1.0).shape, tf.reshape(u, [4]).shape])
            return z

        return tf.function(f)(x), found

    return {
        "set_shape": lambda: tf.function(shaped)(x),
        "ensure_shape": lambda: tf.function(lambda x: tf.ensure_shape(_python(tf, x), [None, 2]) @ x)(x),
        "ensure_shape that fails": rejected,
        "reshape": lambda: tf.function(lambda x: tf.reshape(_python(tf, x), [4]) + 1.0)(x),
        "shapes told": shapes,
    }


def _effects(tf):
    x = tf.constant(MATRIX)

    def called_once():
        calls = []

        def run(t):
            calls.append(t.shape.rank)
            return t * 2.0

        @tf.function
        def f(x):
            return _python(tf, x, run) + _python(tf, x, run)

        return f(x), f(x), f(x[0]), f(x), calls

    def assigned():
        v = tf.Variable(1.0)

        @tf.function
        def f(x):
            with tf.control_dependencies([v.assign_add(1.0)]):  # TensorFlow may call Python before it otherwise
                y = _python(tf, x, lambda t: t * v.numpy())
            v.assign_add(tf.reduce_sum(y))
            return y

        return [(f(x), v.numpy()), (f(x[0]), v.numpy()), (f(x), v.numpy())]

    def of_varying_rank():
        v, ranks = tf.Variable(1.0), iter([1, 2, 0, 0, 2, 1])

        @tf.function
        def f(x):
            v.assign_add(1.0)
            y = _python(tf, x, lambda t: np.ones([2] * next(ranks), np.float32))
            v.assign(v * 2.0)
            return y * v

        return [f(x) for _ in range(6)], v.numpy()

    def failing():
        v = tf.Variable(1.0)

        def run(t):
            raise ValueError("no")

        @tf.function
        def f(x):
            v.assign_add(1.0)
            return _python(tf, x, run)

        try:
            f(x)
        except tf.errors.InvalidArgumentError:
            return v.numpy()

    return {
        "called once": called_once,
        "Variables around it": assigned,
        "ranks that vary": of_varying_rank,
        "failing": failing,
    }


def _gradients(tf):
    x = tf.constant(MATRIX)

    def squared(x):
        return tf.py_function(lambda t: t * t, [x], tf.float32)

    def loss(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(squared(x) * 3.0 + x)
        return tape.gradient(y, x)

    def outside(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x) ** 2
        return tape.gradient(y, x)

    def trained():
        w = tf.Variable([1.0, 2.0])

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(squared(x * w))
            w.assign_sub(0.125 * tape.gradient(y, w))
            return y

        return step(x), step(x[0]), w.numpy()

    return {
        "gradient inside": lambda: tf.function(loss)(x),
        "gradient outside": lambda: outside(tf.function(squared)),
        "gradient outside, again": lambda: [outside(f) for f in [tf.function(squared)] for _ in range(2)],
        "a step": trained,
    }


def _gradients_of_branches(tf):
    """Gradients of branches that call Python; each program's first run finds the ranks of what Python returns."""
    x = tf.constant([1.0, 2.0])

    def power(of, k):
        return tf.py_function(lambda t: t**k, [of], tf.float32)

    def in_branch(a, c, _):
        return power(a, 2.0) if c else a * 3.0

    def in_both(a, c, _):
        return tf.reduce_sum(tf.cond(c, lambda: power(a, 2.0), lambda: power(a, 3.0) + 1.0))

    def before_and_in_branch(a, c, _):
        y = power(a, 2.0)
        return tf.reduce_sum(power(y, 2.0) * power(a, 3.0) if c else y * 3.0)

    def chained(a, c, d):
        y = tf.cond(c, lambda: power(a, 3.0) * 2.0, lambda: power(a, 2.0) + power(a, 4.0))
        z = tf.cond(d, lambda: power(y, 2.0) + a, lambda: y * power(a, 2.0))
        return tf.reduce_sum(z * power(a, 1.0))

    def nested(a, c, d):
        if c:
            y = power(a, 2.0) if d else a * 2.0
        else:
            y = a * 3.0
        return y * y

    def one_of_three(a, c, d):
        branches = [lambda: power(a, 2.0), lambda: a * 2.0, lambda: power(a, 2.0) + a]
        return tf.switch_case(tf.cast(c, tf.int32) + tf.cast(d, tf.int32), branches) * a

    def gradient_of(body):
        @tf.function
        def f(a, c, d):
            with tf.GradientTape() as tape:
                tape.watch(a)
                y = body(a, c, d)
            return y, tape.gradient(y, a)

        return f

    @tf.function
    def of_variable(v, c):
        with tf.GradientTape() as tape:
            y = power(v, 2.0) if c else v * 3.0
        return y, tape.gradient(y, v)

    @tf.function
    def in_loop(a, c):
        total, gradient = tf.constant(0.0), tf.zeros([2])
        for i in tf.range(3):
            with tf.GradientTape() as tape:
                tape.watch(a)
                y = tf.reduce_sum(in_both(a, c, c)) * tf.cast(i, tf.float32)
            total += y
            gradient += tape.gradient(y, a)
        return total, gradient

    both = (True, False)
    bodies = [in_branch, in_both, before_and_in_branch, chained, nested, one_of_three]
    return {
        f"the gradient of Python, {body.__name__}": lambda f=gradient_of(body): [
            f(x, tf.constant(c), tf.constant(d)) for c in both for d in both
        ]
        for body in bodies
    } | {
        "the gradient of a Variable by Python in a branch": lambda v=tf.Variable(x): [
            of_variable(v, tf.constant(c)) for c in both
        ],
        "the gradient in a loop by Python in a branch": lambda: [in_loop(x, tf.constant(c)) for c in both],
    }


def _datasets(tf):
    def made(shape):
        return lambda i: tf.py_function(lambda t: np.ones(shape, np.float32) * np.float32(t), [i], tf.float32)

    def message(x):
        x.set_shape([2])
        return x

    def labelled(i):
        image, label = tf.py_function(lambda i: (np.ones([2, 2]), i), [i], [tf.float32, tf.int64])
        image.set_shape([2, 2])
        label.set_shape([])
        return image, label

    def shown(dataset):
        return lambda: (dataset().element_spec, list(dataset().as_numpy_iterator()))

    numbers = tf.data.Dataset.range(3)
    return {
        "mapped": shown(lambda: numbers.map(made([2]))),
        "mapped and batched": shown(lambda: numbers.map(made([2])).batch(2)),
        "mapped and told": shown(lambda: numbers.map(made([2])).map(message).batch(2)),
        "mapped twice": shown(lambda: numbers.map(made([])).map(lambda x: x + 1.0)),
        "images and labels": shown(lambda: numbers.map(labelled).batch(3)),
        "filtered": shown(lambda: numbers.map(made([])).filter(lambda x: x > 0.0)),
    }


def _rows(tf):
    """Arguments of unknown rank: one trace for all."""
    shapes = [2], [2, 3], [2, 3, 2]

    def summed(x):
        total = 0.0
        for row in x:
            total += tf.reduce_sum(row)
        return total

    def shaped(x):
        x.set_shape([None, 3])
        return tf.matmul(x, x, transpose_b=True)

    bodies = {
        "rows": summed,
        "length": lambda x: len(x) + 1,
        "map_fn": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * 2.0, x),
        "map_fn of rows": lambda x: tf.map_fn(lambda row: row * 2.0, x),
        "foldl": lambda x: tf.foldl(lambda a, row: a + tf.reduce_sum(row), x, 0.0),
        "vectorized_map": lambda x: tf.vectorized_map(lambda row: tf.reduce_sum(row) * 2.0, x),
    }

    def set_shape():
        f = tf.function(shaped, input_signature=[tf.TensorSpec(None)])
        return f(tf.ones([2, 3])), f(tf.ones([1, 3])), f.experimental_get_tracing_count()

    return {f"any rank: {name}": of_all_ranks(tf, body, shapes) for name, body in bodies.items()} | {
        "any rank: set_shape": set_shape
    }
