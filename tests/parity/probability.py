"""Functions that TensorFlow Probability and tf-quant-finance use besides those of the guides."""


def programs(tf):
    return (
        _branches(tf) | _sizes(tf) | _nothing(tf) | _composites(tf) | _scopes(tf) | _gradients(tf) | _unknown_ranks(tf)
    )


def _everywhere(tf, name, run, *args):
    """The program by itself, in a function and in a graph."""

    def in_graph():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(run(*map(tf.constant, args)))

    return {
        name: lambda: run(*map(tf.constant, args)),
        f"{name}, in a function": lambda: tf.function(run)(*map(tf.constant, args)),
        f"{name}, in a graph": in_graph,
    }


def _branches(tf):
    def after(choose):
        def run(x):
            chosen = choose(x)
            with tf.control_dependencies([chosen]):
                return x + 1, str(chosen.shape), chosen.dtype.name

        return lambda: tf.function(run)(tf.constant(1))

    kinds = {
        "cond": lambda x: tf.cond(x > 0, lambda: tf.print("above"), tf.no_op),
        "cond of an assertion": lambda x: tf.cond(x > 0, lambda: tf.debugging.assert_less(x, 3), tf.no_op),
        "switch_case": lambda x: tf.switch_case(x, [tf.no_op, lambda: tf.print("one"), lambda: tf.group(x)]),
        "case": lambda x: tf.case([(x > 3, tf.no_op), (x > 0, lambda: tf.print("some"))], tf.no_op),
    }
    found = {}
    for name, choose in kinds.items():
        found[f"an operation of a {name}"] = after(choose)
        found[f"an operation of an eager {name}"] = lambda choose=choose: choose(tf.constant(1))

    def pairs(x):
        (op, y) = tf.cond(x > 0, lambda: (tf.print("yes"), x), lambda: (tf.no_op(), -x))
        return op, y

    def differ(x):
        return tf.cond(x > 0, lambda: tf.no_op(), lambda: None)

    def in_graph(x):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder_with_default(x, [])
            return session.run([kinds["cond"](x), kinds["cond of an assertion"](x), kinds["switch_case"](x)])

    return {
        **found,
        "an operation and a tensor": lambda: tf.function(pairs)(tf.constant(2)),
        "an operation or nothing": lambda: tf.function(differ)(tf.constant(2)),
        "operations of branches in a graph": lambda: in_graph(2),
        "an assertion of a branch in a graph": lambda: in_graph(5),
    }


def _sizes(tf):
    c = tf.constant

    def shapes(x):
        vector = c([3, 4])
        size = tf.reduce_max(vector) * 2 + tf.cast(tf.where(vector[0] > 1, 1.0, 2.0), tf.int32)
        made = [
            tf.range(size - 1, size + 4),
            tf.zeros(size),
            tf.zeros([size, x]),
            tf.ones(vector * 2)[:size],
            tf.fill(tf.concat([vector, [size]], 0), 1),
            tf.reshape(tf.range(12), tf.reverse(vector, [0])),
        ]
        return [*map(tf.shape, made), c([str(each.shape) for each in made])]

    def in_branch(x):
        return tf.cond(x > 0, lambda: tf.range(c(2) * c([1, 3])[1]) * x, lambda: tf.zeros(c(3) + 3, tf.int32))

    def axes(x):
        return tf.reduce_sum(x, axis=tf.range(-c(2), 0)), tf.reduce_max(x, c([0, 2]) + 1 - c(1))

    def scattered(x):
        flags = tf.gather(c([0, 1]), tf.range(c(10) // 2, c(2) ** 3) % 2)
        return tf.scatter_nd(x[:, None], tf.ones_like(x), flags.shape)

    def from_argument(x):
        y = tf.zeros(x * 2)
        return tf.shape(y), tf.constant(str(y.shape))

    def evaluated(x):
        def moved(axis, to):
            place, aim = (tf.where(place < 0, place + 3, place) for place in (c(axis), c(to)))
            return tf.__internal__.smart_cond.smart_cond(
                place < aim,
                lambda: tf.concat([tf.range(place), tf.range(place + 1, aim + 1), [place], tf.range(aim + 1, 3)], 0),
                lambda: tf.concat([tf.range(aim), [place], tf.range(aim, place), tf.range(place + 1, 3)], 0),
            )

        made = [tf.transpose(x, moved(*axes)) for axes in ((0, -1), (-1, 0), (0, 1))]
        return [*made, c([str(each.shape) for each in made])]

    def evaluated_in_function():
        return tf.function(evaluated)(tf.reshape(tf.range(24.0), [2, 3, 4]))

    return {
        "constants evaluated for a permutation": evaluated_in_function,
        **_everywhere(tf, "sizes of computed constants", shapes, 2),
        **_everywhere(tf, "a size of computed constants in a branch", in_branch, 2),
        **_everywhere(tf, "axes of computed constants", axes, [[[1.0, 2.0], [3.0, 4.0]]]),
        **_everywhere(tf, "a scatter to a shape of computed constants", scattered, [0, 2]),
        "a size computed from an argument": lambda: tf.function(from_argument)(c(2)),
    }


def _nothing(tf):
    """Sizes that may be 0."""

    def antithetic(x):
        steps = tf.cast(tf.unique(x)[0][1:], tf.float32)
        drawn = tf.ones([5000, 2])[..., None] * steps
        both = tf.transpose(tf.concat([drawn, -drawn], 0)[..., None], [2, 1, 0, 3])
        return tf.shape(both), tf.reduce_sum(both, [1, 2, 3])

    def among_none(x):
        nothing = tf.zeros([2, 0])
        return tf.searchsorted(nothing, x), tf.searchsorted(x, nothing), tf.searchsorted(nothing, x, side="right")

    return {
        **_everywhere(tf, "a kernel over a size less one", antithetic, [1, 1, 1]),
        **_everywhere(tf, "a kernel over another size less one", antithetic, [1, 2, 3]),
        **_everywhere(tf, "positions among nothing", among_none, [[1.0, 2.0], [3.0, 4.0]]),
    }


def _composites(tf):
    def own():
        class Pair(tf.__internal__.CompositeTensor):
            def __init__(self, a, b):
                self.a, self.b = a, b

            @property
            def _type_spec(self):
                return PairSpec(tf.type_spec_from_value(self.a), tf.type_spec_from_value(self.b))

        class PairSpec(tf.TypeSpec):
            value_type = property(lambda self: Pair)

            def __init__(self, a, b):
                self.specs = a, b

            _component_specs = property(lambda self: self.specs)

            def _to_components(self, value):
                return value.a, value.b

            def _from_components(self, components):
                return Pair(*components)

            def _serialize(self):
                return self.specs

        return Pair(tf.constant([1.0]), tf.ragged.constant([[1], [2, 3]]))

    def copied(value):
        copy = tf.identity(value)
        return type(copy).__name__, tf.is_tensor(value), copy.a * 2.0, copy.b

    def tensors():
        array = tf.TensorArray(tf.float32, 1)
        operator = tf.linalg.LinearOperatorIdentity(2)
        slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
        others = [array, operator, slices, tf.experimental.Optional.from_value(1), tf.sparse.eye(2)]
        return [
            tf.is_tensor(x) for x in (*others, own().b, own().b.row_splits, tf.Variable(1), tf.data.Dataset.range(2))
        ]

    return {
        "what is a tensor": tensors,
        "identity of a composite tensor": lambda: copied(own()),
        "identity of a composite tensor, traced": lambda: tf.function(lambda v: copied(v)[2:])(own()),
    }


def _scopes(tf):
    v1 = tf.compat.v1

    def devices(x):
        with v1.variable_scope(v1.get_variable_scope()) as scope:
            found = [scope.caching_device is None, scope.partitioner, scope.constraint, scope.custom_getter]
            try:
                scope.set_caching_device(lambda op: op.device)
            except NotImplementedError as error:
                found.append(str(error))
            with v1.variable_scope("inner") as inner:
                found.append(inner.caching_device is None)
        found.append(v1.get_variable_scope().caching_device)
        return tf.constant(str(found))

    return _everywhere(tf, "the caching device of a variable scope", devices, 1)


def _gradients(tf):
    def in_loop(x):
        y = tf.sin(x) * x * x
        rows = tf.TensorArray(tf.float32, 3)
        _, rows = tf.while_loop(
            lambda i, rows: i < 3,
            lambda i, rows: (i + 1, rows.write(i, tf.gradients(y[i] * x[0], x)[0])),
            (0, rows),
        )
        return rows.stack()

    def in_branch(x):
        y = tf.sin(x) * x * x
        of_results = tf.cond(x[0] > 0, lambda: tf.gradients(y * y, x)[0], lambda: tf.gradients(y, x)[0])
        of_the_way = tf.cond(x[0] > 0, lambda: tf.gradients(tf.reduce_sum(y) * x, y)[0], lambda: x)
        twice = tf.cond(x[0] > 0, lambda: tf.hessians(tf.reduce_sum(y), x)[0], lambda: tf.zeros([3, 3]))
        return of_results, of_the_way, twice

    def by_many():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.ones([30, 2])
            y = tf.square(x) * 3.0
            return session.run(tf.cond(x[0, 0] > 0, lambda: tf.gradients(y * y, x)[0], lambda: x)[0])

    def in_branch_of_branch(x):
        y = tf.sin(x)
        v = x * 2.0
        inner = lambda: tf.cond(x[1] > 0, lambda: tf.gradients(y * v, [x, v]), lambda: [x, x])  # noqa: E731
        return tf.cond(x[0] > 0, inner, lambda: [y, y])

    def in_function(x):
        y = tf.sin(x)

        @tf.function
        def slope(z):
            return tf.gradients(y * z, x)[0]

        return slope(x), slope(tf.ones(3))

    def rounded(run):
        return lambda x: tf.nest.map_structure(lambda y: tf.round(y * 1e3), run(x))

    found = {}
    runs = {"loop": in_loop, "branch": in_branch, "branch of a branch": in_branch_of_branch, "function": in_function}
    for name, run in runs.items():
        found |= _everywhere(tf, f"gradients in a {name} of what lies around it", rounded(run), [0.5, 1.0, 2.0])
    return found | {"gradients in a branch by a tensor of many elements": by_many}


def _unknown_ranks(tf):
    def cut(x):
        n = tf.shape(x)[-1] // 2
        return x[..., n:], x[..., :-n], x[..., n, None], x[..., ::-1][..., 1:n]

    def in_graph():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder_with_default(tf.reshape(tf.range(12.0), [2, 6]), shape=None)
            return session.run([*cut(x), *tf.gradients(x[..., : tf.shape(x)[-1] // 2] * 2.0, x)])

    def of_type():
        import numpy as np

        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder_with_default([[0, 2]], shape=None)
            return session.run([tf.one_hot(x, 3, dtype=np.float64), tf.cast(x, np.dtype("int8"))])

    def by_ranks(sizes):
        def run(x):
            y = tf.image.flip_left_right(x)  # takes ranks 3 and 4 only
            n = tf.rank(y)
            inside = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.range(n), lambda: tf.range(1))
            return n, tf.range(n), tf.shape(y), tf.reduce_sum(y, tf.range(n - 1)), inside

        fn = tf.function(run, input_signature=[tf.TensorSpec(None)])
        return [fn(tf.ones(size)) for size in sizes]

    return {
        "what depends on the ranks of calls": lambda: by_ranks([[2, 3, 4], [5, 2, 3, 4]]),
        "what depends on the ranks of calls, in the other order": lambda: by_ranks([[5, 2, 3, 4], [2, 3, 4]]),
        "dtypes of NumPy for tensors of unknown rank": of_type,
        "slices at computed places of a tensor of unknown rank": in_graph,
        "slices at computed places, in a function": lambda: tf.function(cut, input_signature=[tf.TensorSpec(None)])(
            tf.reshape(tf.range(12.0), [2, 6])
        ),
    }
