"""Names of ops in TensorFlow 1's graphs, and differences of its functions; shapes and loops that traces reject."""

import numpy as np


def programs(tf):
    return {
        **_names(tf),
        **_wrapped(tf),
        **_constants(tf),
        **_glimpses(tf),
        **_traced(tf),
        **_arrays(tf),
    }


def _in_graph(tf, build):
    def run():
        with tf.Graph().as_default() as graph:
            return build(graph)

    return run


def _names(tf):
    v1 = tf.compat.v1

    def scopes(g):
        seen = [tf.constant(5.0, name="c").op.name, tf.constant(6.0, name="c").op.name]
        with g.name_scope("nested") as scope:
            seen.append(tf.constant(1.0, name="c").op.name)
            for _ in range(2):
                with g.name_scope("inner"):
                    seen.append(tf.add(1, 2, name="d").name)
            with g.name_scope("other"), g.name_scope(scope):
                seen.append(tf.constant(1.0, name="d").op.name)
                for leave in (g.name_scope(""), g.name_scope(None), v1.name_scope(None), tf.name_scope("")):
                    with leave as whole:
                        seen += [whole, tf.constant(1.0, name="e").op.name]
                with v1.name_scope(None, "given", []) as whole:
                    seen += [whole, tf.constant(1.0).op.name]
            seen += [g.unique_name("c"), g.unique_name("c", mark_as_used=False), g.unique_name("C"), g.get_name_scope()]
        return seen

    def tf_scopes(g):
        seen = []
        for scope in (tf.name_scope, tf.name_scope, v1.name_scope):
            with scope("x") as whole:
                seen += [whole, tf.multiply(2.0, 3.0, name="m").name]
        with tf.name_scope("x/") as whole:
            return [*seen, whole, tf.multiply(2.0, 3.0, name="m").name]

    def ops(g):
        x = tf.constant([1.0, 2.0], name="c")
        made = (
            *(tf.matmul([[1.0]], [[2.0]], name="m"), tf.reduce_sum([1.0], name="s"), tf.zeros([2], name="z")),
            *(tf.cast(1, tf.float32, name="k"), tf.nn.relu([1.0], name="r"), tf.concat([[1], [2]], 0, name="cc")),
            *(tf.identity(3, name="i"), tf.stack([1, 2], name="st"), tf.reshape([1], [1, 1], name="re")),
            *(tf.reduce_mean(x, name="mean"), *tf.split(x, 2, name="sp"), tf.multiply(x, x, name="sp")),
            *(tf.nn.softmax(x, name="so"), tf.gather(x, [0], name="g"), tf.range(3, name="rg"), tf.shape(x, name="sh")),
            *(tf.where(x > 1, x, x, name="wh"), tf.clip_by_value(x, 0, 1, name="cl"), tf.add(x, x, name="m")),
        )
        return [t.name for t in made], g.get_tensor_by_name("c:0") is x

    def inside(g):
        seen = [tf.inside_function()]
        tf.function(lambda: seen.append(tf.inside_function()))()
        v1.cond(tf.constant(True), lambda: seen.append(tf.inside_function()) or 1, lambda: 2)
        with tf.init_scope():
            seen.append(tf.inside_function())
        return seen

    return {
        "scopes of a graph": _in_graph(tf, scopes),
        "tf's scopes in a graph": _in_graph(tf, tf_scopes),
        "names of ops": _in_graph(tf, ops),
        "a scope with a space": _in_graph(tf, lambda g: g.name_scope("a b").__enter__()),
        "a scope that begins with an underscore": _in_graph(tf, lambda g: g.name_scope("_a").__enter__()),
        "tf's scope with a space": _in_graph(tf, lambda g: tf.name_scope("a b").__enter__()),
        "eager outside functions": lambda: (
            v1.executing_eagerly_outside_functions(),
            bool(tf.function(v1.executing_eagerly_outside_functions)()),
            _in_graph(tf, lambda g: v1.executing_eagerly_outside_functions())(),
        ),
        "inside a function": _in_graph(tf, inside),
    }


def _wrapped(tf):
    v1 = tf.compat.v1

    def change(x, do_add):
        v = tf.Variable(5.0)
        op = v.assign_add(x) if do_add else v.assign_sub(x)
        with tf.control_dependencies([op]):
            return v.read_value()

    def two():
        add, sub = (v1.wrap_function(change, [tf.TensorSpec((), tf.float32), which]) for which in (True, False))
        return [float(f(1.0)) for f in (add, add, sub, sub, add)], [v.numpy() for v in add.variables]

    def gotten(x):
        with v1.variable_scope("layer", reuse=v1.AUTO_REUSE):
            w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        return x * w

    def with_get_variable():
        f = v1.wrap_function(gotten, [tf.TensorSpec([2], tf.float32)])
        before = f(tf.constant([1.0, 2.0]))
        f.variables[0].assign([3.0, 4.0])
        return before, f(tf.constant([1.0, 2.0])), [v.name for v in f.variables]

    return {"wrap_function": two, "wrap_function of get_variable": with_get_variable}


def _constants(tf):
    v1, made = tf.compat.v1, {}
    cases = {
        "more": ([1, 2, 3], None, [5]),
        "less": ([1, 2, 3], None, [2]),
        "as many": ([1, 2, 3], tf.float64, [3, 1]),
        "one": (7, None, [2, 2]),
        "none": ([], None, [2]),
        "texts": (["a", "b"], None, [3]),
        "nested": ([[1, 2], [3, 4]], None, [3, 2]),
        "another shape, verified": ([1, 2, 3], None, [3, 1], "n", True),
        "the same shape, verified": ([[1, 2, 3]], None, [1, 3], "n", True),
    }

    def shown(t):
        return t.shape, t.dtype, (t.numpy() if tf.executing_eagerly() else v1.Session().run(t)).tolist()

    for name, args in cases.items():
        made[f"constant of {name}"] = lambda args=args: shown(v1.constant(*args))
        made[f"constant of {name} in a graph"] = _in_graph(tf, lambda g, args=args: shown(v1.constant(*args)))
    init = v1.constant_initializer
    for name, shape in {"more": [2, 4], "as many": [3], "less": [2], "none": [0], "one": []}.items():
        made[f"initializer of {name}"] = lambda shape=shape: init([1, 2, 3])(shape)
        made[f"initializer of {name} in a graph"] = _in_graph(tf, lambda g, shape=shape: shown(init([1, 2, 3])(shape)))
    made["initializer, verified"] = lambda: init([1, 2, 3], verify_shape=True)([2, 2])
    made["initializer, verified, that fits"] = lambda: init([1, 2, 3, 4], verify_shape=True)([4])
    made["initializer in a dtype"] = lambda: init([[1, 2], [3, 4]])([4], dtype=tf.float64)
    return made


def _glimpses(tf):
    x = np.arange(25.0, dtype=np.float32).reshape(1, 5, 5, 1)

    def glimpse(*args):
        return lambda: tf.reshape(tf.compat.v1.image.extract_glimpse(x, (2, 3), *args), [-1])

    return {
        f"glimpse at {at}, centered {centered}, normalized {normalized}": glimpse([at], centered, normalized)
        for centered, normalized, at in (
            *(
                (True, True, [0.0, 0.0]),
                (True, True, [0.2, -0.1]),
                (True, False, [1.0, 0.0]),
                (True, False, [-1.0, 1.5]),
            ),
            *(
                (False, True, [0.5, 0.5]),
                (False, True, [0.6, 0.4]),
                (False, False, [2.0, 3.0]),
                (False, False, [1.5, 2.0]),
            ),
        )
    }


def _traced(tf):
    def kind(run):
        """TensorFlow names the op whose result it was."""
        try:
            return run()
        except tf.errors.InvalidArgumentError as error:
            return type(error).__name__, str(error).partition("[")[2].partition(".")[0]

    image = tf.io.encode_png(np.zeros([4, 2, 3], np.uint8))

    def pictures(data):
        found = tf.image.decode_png(data, channels=3)
        before = found.shape
        found = tf.ensure_shape(found, [2, 2, 3])
        return tf.constant(before[2]), found

    def numbers(text):
        return tf.ensure_shape(tf.strings.to_number(tf.strings.split(text)), [2])

    def unpacked(t):
        a, b = t
        return a

    made = {
        "ensure_shape of a picture": lambda: kind(lambda: tf.function(pictures)(image)),
        "ensure_shape of numbers": lambda: (tf.function(numbers)("1 2"), kind(lambda: tf.function(numbers)("1 2 3"))),
    }
    loops = {
        "unpacked": unpacked,
        "in a list": lambda t: [*t],
        "by a comprehension": lambda t: [x + 1 for x in t],
        "in pairs": lambda t: dict(zip("ab", t)),
        "a scalar": lambda t: list(t[0]),
        "numbered": lambda t: list(enumerate(t)),
        "summed": lambda t: sum(t),
        "mapped": lambda t: list(map(tf.negative, t)),
    }
    for name, loop in loops.items():
        made[f"iterated, {name}"] = _message(tf, lambda loop=loop: tf.function(loop)(tf.constant([1, 2])))
    made |= {
        "sorted": lambda: tf.function(lambda t: sorted(t))(tf.constant([3, 1, 2])),
        "sorted, backwards": lambda: tf.function(lambda t: sorted(t, reverse=True))(tf.constant([3, 1, 2])),
        "sorted by a key": lambda: tf.function(lambda t: sorted(t, key=lambda x: -x))(tf.constant([3, 1, 2])),
        "sorted rows": lambda: tf.function(lambda t: sorted(t))(tf.constant([[3, 1, 2]])),
        "sorted, Python's": lambda: tf.function(lambda: sorted([3, 1, 2], key=lambda x: -x))(),
    }
    made["iterated in a graph"] = _message(tf, _in_graph(tf, lambda g: list(tf.constant([1, 2]))))
    made["a range of a tensor in a comprehension"] = _message(
        tf, lambda: tf.function(lambda n: [2 * i for i in range(n)])(tf.constant(3))
    )
    return made


def _message(tf, run):
    """TensorFlow ends with where its documentation lies."""

    def rejected():
        try:
            return run()
        except tf.errors.OperatorNotAllowedInGraphError as error:
            return str(error).partition(" See https")[0]

    return rejected


def _arrays(tf):
    value = tf.compat.v1.ragged.constant_value
    cases = {
        "ints": [[1, 2], [3]],
        "floats": [[1.0, 2], [3]],
        "texts": [["a", "bc"], [], ["d"]],
        "bools": [[True], []],
        "nothing": [[]],
        "deep": [[[1, 2]], [[3], []]],
    }
    made = {f"ragged value of {name}": lambda x=x: (str(value(x)), value(x).values) for name, x in cases.items()}
    made["ragged value in a dtype"] = lambda: value([[1, 2], [3]], dtype=np.float32)
    return made
