"""Branches that return, and loops that carry, tensors of several sizes."""

from collections import namedtuple

from parity_calls import result_or_kind


def programs(tf):
    return _branches(tf) | _loops(tf) | _slices(tf) | _computed(tf) | _structures(tf) | _rejected(tf)


def in_sweep(label):
    """The same ops of computed sizes stand in loops by default."""
    return label in (
        "computed sizes gathered in a branch",
        "computed sizes multiplied in a branch",
        "computed sizes scattered in a branch",
    )


def _each(function, *calls):
    return lambda: [function(*args) for args in calls]


def _branches(tf):
    c = tf.constant
    x = c([1.0, 2.0, 3.0])

    @tf.function
    def cond(p, x):
        y = tf.cond(p, lambda: x[:1], lambda: tf.concat([x, x], 0))
        return y, tf.shape(y), tf.reduce_sum(y * y), tf.constant(str(y.shape))

    @tf.function
    def statement(p, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            if p:
                y = x[:1]
            else:
                y = tf.concat([x, 2.0 * x], 0)
            z = tf.reduce_sum(y * y)
        return y, tape.gradient(z, x)

    @tf.function
    def switch(i, x):
        return tf.switch_case(i, [lambda: x[:1], lambda: x[:2], lambda: x])

    @tf.function
    def case(n, x):
        return tf.case([(n < 0, lambda: x[:1]), (n < 5, lambda: x)], default=lambda: x[1:])

    @tf.function(input_signature=[tf.TensorSpec([], tf.bool), tf.TensorSpec([None])])
    def unknown(p, x):
        return tf.cond(p, lambda: x[:2], lambda: x)

    return {
        "cond": _each(cond, (c(True), x), (c(False), x)),
        "if": _each(statement, (c(True), x), (c(False), x)),
        "switch_case": _each(switch, *((c(i), x) for i in range(4))),
        "case": _each(case, *((c(i), x) for i in (-1, 0, 7))),
        "cond of unknown size": _each(unknown, *((c(p), tf.range(float(n))) for p in (True, False) for n in (2, 4))),
    }


def _loops(tf):
    c = tf.constant
    grown = [tf.TensorShape([]), tf.TensorShape([None, 2])]

    @tf.function
    def loop(n, x):
        def step(i, x):
            return i + 1, tf.concat([x, x[-1:] + 1.0], 0)

        return tf.while_loop(lambda i, x: i < n, step, [c(0), x], shape_invariants=grown)

    @tf.function
    def statement(n, x):
        for i in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
            x = tf.concat([x, [i]], 0)
        return x, tf.shape(x), tf.reduce_sum(x)

    @tf.function(input_signature=[tf.TensorSpec([]), tf.TensorSpec([None])])
    def with_branches(n, x):
        total = 0.0
        while n > 0.0:
            tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
            x = x[1:] if tf.reduce_sum(x) > 3.0 else tf.concat([x, x], 0)
            total += tf.reduce_sum(x)
            n -= 1.0
        return x * 2.0, total

    @tf.function
    def nested(n, x):
        for i in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None, None]))])
            for _ in tf.range(i):
                tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None, None]))])
                x = tf.concat([x, x], 1)
            x = tf.concat([x, x[:1] + 1], 0)
        return x

    @tf.function
    def masked(x):
        total = 0.0
        for i in tf.range(3):
            total += tf.reduce_sum(tf.boolean_mask(x, x > tf.cast(i, tf.float32)))
        return total

    return {
        "while_loop": _each(loop, (c(4), tf.zeros([1, 2])), (c(0), tf.zeros([1, 2]))),
        "for": _each(statement, (c(5), c([7])), (c(0), c([7]))),
        "while with branches": _each(with_branches, (c(3.0), c([7.0])), (c(3.0), c([1.0, 1.0]))),
        "nested": _each(nested, (c(3), c([[7]]))),
        "masked": _each(masked, (c([1.0, 2.0, 3.0]),)),
    }


def _slices(tf):
    c = tf.constant
    x = tf.reshape(tf.range(24.0), [4, 6])
    keys = {
        "up to": lambda x, i: x[:i],
        "from": lambda x, i: x[i:],
        "between": lambda x, i: x[:, i : i + 2],
        "with a step": lambda x, i: x[..., i::2],
        "both axes": lambda x, i: x[:i, None, 1:i],
        "and an index": lambda x, i: x[0, :i],
    }

    def sliced(key):
        @tf.function
        def run(x, i):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = key(x, i)
            return y, tape.gradient(y, x)

        return lambda: [run(x, c(i)) for i in (2, 0, -1, 9)]

    return {f"sliced {name}": sliced(key) for name, key in keys.items()}


def _computed(tf):
    x = tf.constant([1.0, -2.0, 3.0, -4.0, 5.0, 6.0])

    def counted(x, i):
        """How many numbers are above ``i``: a size that only the program knows."""
        return tf.size(tf.where(x > tf.cast(i, tf.float32)))

    met = {
        "scattered": lambda x, n: tf.tensor_scatter_nd_update(x, tf.range(n)[:, None], x[:n] * 2.0),
        "stitched": lambda x, n: tf.dynamic_stitch([tf.range(n)], [x[:n]]),
        "summed": lambda x, n: tf.math.unsorted_segment_sum(x[:n], tf.range(n) % 2, 2),
        "multiplied": lambda x, n: tf.matmul(x[None, :n], tf.ones([n, 2])),
        "contracted": lambda x, n: tf.einsum("i,i->", x[:n], tf.ones([n])),
        "concatenated": lambda x, n: tf.concat([x[:n, None], tf.ones([n, 2])], 1),
        "gathered": lambda x, n: tf.gather(x[:n, None], tf.zeros([n, 1], tf.int32), batch_dims=1),
        "rolled": lambda x, n: tf.roll(x, n, 0),
        "factored": lambda x, n: tf.linalg.lu(x[0] * tf.eye(n))[0],
    }

    def total(of, x, i):
        return tf.reduce_sum(of(x, counted(x, i)) ** 2)

    def looped(of, x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + total(of, x, i)), [0, 0.0])[1]

    def branched(of, x):
        return tf.cond(x[0] > 0.0, lambda: total(of, x, 1), lambda: 0.0)

    def derived(run, of):
        @tf.function
        def program(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = run(of, x)
            return y, tape.gradient(y, x)

        return lambda: program(x)

    @tf.function
    def unequal(x):
        n = counted(x, 1)
        return tf.tensor_scatter_nd_update(x, tf.range(n)[:, None], x[: n + 1])

    programs = {
        f"computed sizes {name} in a {place}": derived(run, of)
        for name, of in met.items()
        for place, run in (("loop", looped), ("branch", branched))
        if name != "factored"
    }
    factored = tf.function(lambda x: (looped(met["factored"], x), branched(met["factored"], x)))
    return programs | {
        "computed sizes factored": lambda: factored(x),
        "computed sizes that differ": lambda: result_or_kind(lambda: unequal(x)),
        "the top of a computed count": lambda: tf.function(
            lambda x: tf.math.in_top_k([1, 0], [[0.1, 0.9], [0.2, 0.8]], tf.size(tf.where(x < -3.0)))
        )(x),
    }


def _structures(tf):
    """Loop bodies that return other containers than the loop variables are in, which only eager loops reject."""
    pair = namedtuple("pair", "a b")
    changes = {
        "a tuple and a list": ((1, 2.0), list),
        "a list and a tuple": ([1, 2.0], tuple),
        "a named tuple and a tuple": (pair(1, 2.0), tuple),
        "a dict and a list": ({"a": 1, "b": 2.0}, lambda values: [values["a"], values["b"]]),
        "two numbers and one": ((1, 2.0), lambda values: (values[0],)),
    }

    def changed(start, change, run):
        def loop():
            values = tf.nest.map_structure(tf.constant, start)
            return tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, change(v)), (0, values))[1]

        return lambda: result_or_kind(lambda: run(loop)())

    return {
        f"{name}{way}": changed(*change, run)
        for name, change in changes.items()
        for way, run in ((", eagerly", lambda f: f), ("", lambda f: tf.function(f, autograph=False)))
    }


def _rejected(tf):
    c = tf.constant

    def loop(invariants, step):
        def run(x):
            return tf.while_loop(lambda x: tf.size(x) < 9, step, [x], shape_invariants=invariants)

        return lambda: result_or_kind(lambda: tf.function(run)(c([1, 2])))

    return {
        "no invariant": loop(None, lambda x: (tf.concat([x, x], 0),)),
        "an invariant that does not hold": loop([tf.TensorShape([2])], lambda x: (tf.concat([x, x], 0),)),
        "too many invariants": loop([tf.TensorShape([2]), tf.TensorShape([])], lambda x: (tf.concat([x, x], 0),)),
    }
