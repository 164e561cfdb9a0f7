"""Assertions: when they fail, and their messages."""

from parity_calls import result_or_kind, value_or_kind

NAN, INF = float("nan"), float("inf")


def programs(tf):
    return _values(tf) | _types(tf) | _shapes(tf) | _numerics(tf) | _asserts(tf)


def _both(tf, programs):
    """Each program eagerly and inside a function that gives 0 where it gives nothing."""

    def traced(check, args, signature=None):
        def run(*x):
            result = check(*x)
            return 0 if result is None or not hasattr(result, "dtype") else result

        return lambda: tf.function(run, input_signature=signature)(*args)

    found = {}
    for label, (check, *args) in programs.items():
        found[f"{label}, eager"] = lambda check=check, args=args: check(*args)
        found[f"{label}, traced"] = traced(check, args)
    return found


def _values(tf):
    d, c = tf.debugging, tf.constant
    a, b = c([1, 2, 3, 4]), c([1, 3, 3, 5])
    pairs = ("equal", "none_equal", "less", "less_equal", "greater", "greater_equal")
    signs = ("positive", "negative", "non_negative", "non_positive")
    one = {f"{name} of one": (getattr(d, f"assert_{name}"), c([0, 2, -3, 4])) for name in signs}
    mine = {
        f"{name} with a message": (
            lambda x, n=name: getattr(d, f"assert_{n}")(x, message="mine", summarize=1),
            c([0, 1, -1]),
        )
        for name in signs
    }
    two = {name: (getattr(d, f"assert_{name}"), a, b) for name in pairs}
    floats = {f"{name} of NaN": (getattr(d, f"assert_{name}"), c([1.0, NAN]), c([1.0, NAN])) for name in pairs}
    more = {
        "equal with a message": (lambda x, y: d.assert_equal(x, y, message="hm", summarize=2), a, b),
        "equal, all shown": (lambda x, y: d.assert_equal(x, y, summarize=-1), a, b),
        "equal, none shown": (lambda x, y: d.assert_equal(x, y, summarize=0), a, b),
        "equal itself": (lambda x: d.assert_equal(x, x), c([NAN])),
        "equal with a scalar": (lambda x: d.assert_equal(x, 2), a),
        "equal in two dims": (d.assert_equal, tf.ones([2, 3]), tf.reshape(tf.range(6.0), [2, 3])),
        "equal at the top": (tf.assert_equal, a, b),
        "less at the top": (tf.assert_less, a, b),
        "greater at the top": (tf.assert_greater, a, b),
        "holds": (lambda x: d.assert_equal(x, c([1, 2, 3, 4])), a),
        "holds of nothing": (d.assert_positive, c([], tf.float32)),
        "near": (lambda x: d.assert_near(x, x), c([1.0, 2.0])),
    }
    eager = {
        "not near": lambda: d.assert_near(c([1.0, 2.0, 3.0, 4.0]), c([1.0, 2.5, 3.0, 4.0]), message="far"),
        "not near, by tolerance": lambda: d.assert_near(c(1.0), c(2.0), rtol=0.1, atol=0.2),
        "near by tolerance": lambda: d.assert_near(c(1.0), c(1.1), rtol=0.1),
        "equal of constants": lambda: d.assert_equal(2, 3),
    }
    return _both(tf, one | mine | two | floats | more) | eager


def _types(tf):
    d, c = tf.debugging, tf.constant
    x = c([1.0, 2.0, 3.0])
    return _both(
        tf,
        {
            "rank": (lambda x: d.assert_rank(x, 1), x),
            "another rank": (lambda x: d.assert_rank(x, 2, message="mine"), x),
            "no scalar as a rank": (lambda x: d.assert_rank(x, [2]), x),
            "a lower rank": (lambda x: d.assert_rank_at_least(x, 2), x),
            "a rank of several": (lambda x: d.assert_rank_in(x, [0, 1]), x),
            "no rank of several": (lambda x: d.assert_rank_in(x, [0, 2], message="mine"), x),
            "no scalar": (lambda x: d.assert_scalar(x, message="mine"), x),
            "a scalar": (lambda x: d.assert_scalar(x), c(1.0)),
            "type": (lambda x: d.assert_type(x, tf.float32), x),
            "another type": (lambda x: d.assert_type(x, "int32", message="mine"), x),
            "no integer": (d.assert_integer, x),
            "an integer": (d.assert_integer, c(1)),
            "no proper iterable": (lambda x: d.assert_proper_iterable("text"), x),
            "no iterable": (lambda x: d.assert_proper_iterable(3), x),
            "numeric": (lambda x: d.is_numeric_tensor(x) and not d.is_numeric_tensor(3) and None, x),
        },
    ) | {
        "a float as a rank": lambda: tf.assert_rank(x, 2.0),
        "floating dtype": lambda: d.assert_same_float_dtype([x, None, x]),
        "default floating dtype": lambda: d.assert_same_float_dtype(),
        "integer dtype": lambda: d.assert_same_float_dtype([c(1)]),
        "two dtypes": lambda: d.assert_same_float_dtype([x, c(1)]),
        "another dtype than said": lambda: d.assert_same_float_dtype([x], tf.float64),
        "numeric tensors": lambda: [d.is_numeric_tensor(v) for v in (x, c(True), c("a"), 1.0, c(1j))],
    }


def _shapes(tf):
    d, c = tf.debugging, tf.constant
    x = tf.ones([2, 3])

    def open_(label, shapes, *values):
        def run(*tensors):
            d.assert_shapes([(t, s) for t, s in zip(tensors, shapes)], message=label)
            return 0

        signature = [tf.TensorSpec([None] * v.shape.rank) for v in values]
        return lambda: tf.function(run, input_signature=signature)(*values)

    return _both(
        tf,
        {
            "shapes": (lambda x: d.assert_shapes([(x, ("N", "M")), (x, ("N", 3)), (1.0, ())]), x),
            "a size": (lambda x: d.assert_shapes([(x, (2, 4))]), x),
            "a size by name": (lambda x: d.assert_shapes([(x, ("N", "N"))], message="mine"), x),
            "a size of another": (lambda x: d.assert_shapes([(x, ("N", "M")), (x, ("M", "N"))]), x),
            "a rank": (lambda x: d.assert_shapes([(x, ("N",))]), x),
            "innermost": (lambda x: d.assert_shapes([(x, (..., 3)), (x, ("*", "D")), (x, (None, "."))]), x),
            "innermost without a size": (lambda x: d.assert_shapes([(x, (...,)), (1.0, ("*",))]), x),
            "innermost of another size": (lambda x: d.assert_shapes([(x, (..., 4))]), x),
            "too many innermost": (lambda x: d.assert_shapes([(x, (..., 2, 3, 4))]), x),
            "dots in the middle": (lambda x: d.assert_shapes([(x, (2, ...))]), x),
            "no shape": (lambda x: d.assert_shapes([(x, 3)]), x),
            "no constraint": (lambda x: d.assert_shapes([(x, None)]), x),
            "a scalar as a vector": (lambda x: d.assert_shapes([(x, (1,))]), c(1.0)),
        },
    ) | {
        "open, held": open_("m", [("N", 3), ("N",)], x, tf.ones([2])),
        "open, size": open_("m", [("N", 4)], x),
        "open, by name": open_("m", [("N", "M"), ("M",)], x, tf.ones([2])),
    }


def _numerics(tf):
    d, c = tf.debugging, tf.constant

    def log(x):
        d.enable_check_numerics()
        try:
            return tf.math.log(x) * 2.0
        finally:
            d.disable_check_numerics()

    values = {"fine": [1.0, 2.0], "NaN": [1.0, NAN], "infinite": [INF, 1.0], "both": [-INF, NAN]}
    found = {f"check {k}": (lambda x: d.check_numerics(x, "here"), c(v)) for k, v in values.items()}
    once = {
        "finite": lambda: d.assert_all_finite(c([1.0]), "here"),
        "every op": lambda: log(c([1.0, -1.0, 0.0])),
        "every op of two": lambda: (d.enable_check_numerics(), _ended(d, lambda: c([2.0, INF]) - c([0.0, INF])))[1],
    }
    return _both(tf, found) | once | _unused_checks(tf)


def _unused_checks(tf):
    """Checks whose results nothing uses: they run all the same in functions, and in graphs where control inputs are."""
    d, v1 = tf.debugging, tf.compat.v1

    def alone(x):
        d.check_numerics(x, "here")
        return tf.identity(5.0)

    def scaled(x):
        d.check_numerics(x, "here") * 2.0
        return tf.identity(5.0)

    def ordered(x):
        with tf.control_dependencies([d.assert_all_finite(x, "here")]):
            return tf.identity(5.0)

    def grouped(x):
        with tf.control_dependencies([tf.group(d.check_numerics(x, "here"))]):
            return tf.identity(5.0)

    def in_a_branch(x):
        return tf.cond(tf.size(x) > 1, lambda: alone(x), lambda: tf.identity(6.0))

    def in_a_branch_not_taken(x):
        return tf.cond(tf.size(x) > 2, lambda: alone(x), lambda: tf.identity(6.0))

    def in_a_loop(x):
        for _ in tf.range(2):
            d.check_numerics(x, "here")
        return tf.identity(5.0)

    def in_a_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            d.check_numerics(x, "here")
            y = tf.reduce_sum(tf.where(tf.math.is_nan(x), 0.0, x * x))
        return tape.gradient(y, x)

    bodies = (alone, scaled, ordered, grouped, in_a_branch, in_a_branch_not_taken, in_a_loop, in_a_gradient)

    def in_graph(body, value):
        def run():
            with v1.Graph().as_default(), v1.Session() as session:
                x = v1.placeholder(tf.float32, [2])
                return session.run(body(x), {x: value})

        return run

    found = {}
    for body in bodies:
        for label, value in (("fine", [1.0, 2.0]), ("NaN", [1.0, NAN])):
            name = body.__name__.replace("_", " ")
            found[f"unused check {name}, {label}"] = value_or_kind(
                lambda body=body, value=value: tf.function(body)(tf.constant(value))
            )
            if body in (alone, scaled, ordered, grouped):
                found[f"unused check {name}, {label}, graph"] = value_or_kind(in_graph(body, value))
    return found


def _ended(d, run):
    try:
        return run()
    finally:
        d.disable_check_numerics()


def _asserts(tf):
    c = tf.constant

    def shown(value, **kwargs):
        def run(x):
            tf.Assert(tf.equal(tf.size(x), -1), [x], **kwargs)
            return 0

        return run, value

    tensors = {
        "scalar": c(1.5), "third": c(1 / 3), "double": c(1 / 3, tf.float64), "bool": c([True, False]), "int": tf.range(5),
        "matrix": tf.reshape(tf.range(4), [2, 2]), "row": tf.ones([1, 4]), "column": tf.ones([4, 1]), "cube": tf.ones([2, 2, 2]),
        "nothing": tf.zeros([0]), "large": c([1e20, 12345.0]),
    }  # fmt: skip
    found = {f"Assert {k}": shown(v) for k, v in tensors.items()}
    found |= {f"Assert {n} of a cube": shown(tf.ones([2, 2, 2]), summarize=n) for n in (0, 1, 3, 5, -1)}
    return _both(
        tf,
        found
        | {
            "Assert texts and numbers": (lambda x: tf.Assert(x > 1, ["text", 2, 3.5, x]), c(0)),
            "Assert holds": (lambda x: tf.Assert(x < 1, ["text"]), c(0)),
        },
    ) | {"in a branch": _in_a_branch(tf), "in a loop": _in_a_loop(tf)}


def _in_a_branch(tf):
    @tf.function
    def run(x):
        if x > 0:
            tf.debugging.assert_less(x, 5)
        return x

    return lambda: [int(run(tf.constant(v))) for v in (-1, 3)] + [result_or_kind(lambda: run(tf.constant(7)))]


def _in_a_loop(tf):
    @tf.function
    def run(x):
        total = 0
        for v in x:
            tf.debugging.assert_less(v, 5)
            total += v
        return total

    return lambda: [int(run(tf.constant([1, 2]))), result_or_kind(lambda: run(tf.constant([1, 7])))]
