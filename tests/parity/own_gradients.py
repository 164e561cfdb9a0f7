"""``tf.custom_gradient``: side effects of the function in program order, those of the gradient when it is computed."""


def programs(tf):
    return _effects(tf) | _forms(tf) | _orders(tf) | _mapped(tf) | _seldom(tf)


def _ways(f, tf, *xs, sources=(), of=lambda y: y):
    """The gradient of ``f`` by tapes: eager, in a function, around one."""

    def gradient(g):
        given = [tf.constant(x) for x in xs]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(given)
            y = g(*given)
            target = of(y)
        return y, tape.gradient(target, [*given, *sources])

    return {
        "eager": lambda: gradient(f),
        "inside": lambda: tf.function(lambda: gradient(f))(),
        "outside": lambda: gradient(tf.function(f)),
    }


def _named(name, ways):
    return {f"{name}, {way}": program for way, program in ways.items()}


def _effects(tf):
    """What is printed, and called, and how often the Python is."""
    made = {}
    for name, body in _bodies(tf).items():
        for form, taken in {"gradient": _gradient, "second": _second, "twice": _persistent}.items():
            for way in ("eager", "inside", "outside"):
                if (name, form, way) not in _ARTEFACTS:
                    made[f"effects in {name}: {form}, {way}"] = _logged(tf, body, taken, way)
    return made


_ARTEFACTS = {("a loop", form, "outside") for form in ("gradient", "second", "twice")} | {
    *(("a cond", "second", way) for way in ("inside", "outside")),
    *((body, "twice", "inside") for body in ("line", "a cond", "a loop")),
}
"""Where TensorFlow calls the Python of gradients that nobody asked for, more often than once, or in the order of its threads."""


def _bodies(tf):
    def chosen(f, x):
        return f(x) * 2.0 if x > 0.0 else x

    def repeated(f, x):
        for _ in tf.range(3):
            x = f(x) * 0.5
        return x

    return {"line": lambda f, x: f(x) + x, "a cond": chosen, "a loop": repeated}


def _logged(tf, body, form, way):
    spec = tf.TensorSpec([]) if tf.__name__ == "tvtf" else tf.float32

    def run():
        log, calls = [], []

        def noted(x, kind):
            def note(value):
                log.append((kind, float(value)))
                return value

            return tf.ensure_shape(tf.numpy_function(note, [x], spec), [])

        @tf.custom_gradient
        def own(x):
            calls.append("function")
            tf.debugging.assert_positive(x)
            e = noted(x, "there") * x

            def back(ct):
                return noted(ct * 10.0, "back") * e if way != "outside" else ct * e

            return e, back

        def function(x):
            return body(own, x)

        traced = tf.function(function) if way == "outside" else function
        taken = lambda x: form(tf, traced, x)  # noqa: E731
        found = (tf.function(taken) if way == "inside" else taken)(tf.constant(1.5))
        return found, log, calls

    return run


def _gradient(tf, f, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return y, tape.gradient(y, x)


def _second(tf, f, x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        y, found = _gradient(tf, f, x)
    return y, found, outer.gradient(found, x)


def _persistent(tf, f, x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        z = y * 2.0
    return tape.gradient(y, x), tape.gradient(z, x)


def _forms(tf):
    weight = tf.Variable(3.0)

    @tf.custom_gradient
    def printing(x):
        text = tf.strings.as_string(x)
        kept = tf.strings.to_number(text)
        y = tf.py_function(lambda a: a * 2.0, [x * weight], tf.float32)
        y = tf.ensure_shape(y, [])

        def back(ct, variables=None):
            return ct * y, [ct * kept for _ in variables]

        return tf.identity(y), back

    @tf.custom_gradient
    def pair(xs):
        a, b = xs
        return [a * b, {"c": a + b}], lambda d, e: [d * 10.0, e * 20.0]

    @tf.custom_gradient
    def of_python(a, b):
        return a * b, lambda ct: (ct * 10.0, ct * 20.0)

    @tf.custom_gradient
    def without(x):
        return x * weight, lambda ct, variables: (ct * 7.0, [None] * len(variables))

    @tf.custom_gradient
    def by_options(x):
        return x * weight, lambda ct, **options: (ct * 7.0, [ct * x for _ in options["variables"]])

    @tf.custom_gradient
    def with_int(x):
        return (x * 2.0, tf.cast(x, tf.int32)), lambda a, b: a * 10.0

    @tf.custom_gradient
    def given(a):
        return a * 2.0, lambda ct: ct * 7.0

    @tf.custom_gradient
    def rows(table):
        places, shape = tf.constant([1]), tf.constant([2])
        return table * 2.0, lambda ct: tf.IndexedSlices(tf.gather(ct, places) * 10.0, places, shape)

    @tf.custom_gradient
    def taped(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.square(x) * x
        return z, lambda ct: tape.gradient(z, x, ct) * 10.0

    def in_cond(f):
        return lambda x: tf.cond(x > 0.0, lambda: f(x) * 2.0, lambda: x * weight)

    def in_loop(f):
        def run(x):
            for _ in tf.range(2):
                x = f(x) * 0.5
            return x

        return run

    taped_ways = _ways(taped, tf, 2.0)
    del taped_ways["outside"]  # TensorFlow asks the inner tape twice
    of_rows = _ways(rows, tf, [1.0, 2.0])
    return (
        _named("Variables and Python", _ways(printing, tf, 2.0, sources=[weight]))
        | _named("in a cond", _ways(in_cond(given), tf, 2.0))
        | _named("in a loop", {"outside": _ways(in_loop(given), tf, 2.0)["outside"]})
        | _named(
            "a nest of arguments and results",
            _ways(lambda a, b: pair([a, b]), tf, 2.0, 3.0, of=lambda y: y[0] + y[1]["c"]),
        )
        | _named("Python's number", _ways(lambda x: of_python(x, 3.0), tf, 2.0))
        | _named("no gradient by a Variable", _ways(without, tf, 2.0, sources=[weight]))
        | _named("options", _ways(by_options, tf, 2.0, sources=[weight]))
        | _named("an integer besides", _ways(with_int, tf, 2.5, of=lambda y: y[0]))
        | _named("a Variable given", _ways(lambda x: given(weight) * x, tf, 2.0, sources=[weight]))
        | {f"rows, {way}": lambda way=way: _shown(tf, of_rows[way]()[1][0]) for way in ("eager", "inside")}
        | _named("a tape within", taped_ways)
    )


def _shown(tf, rows):
    return type(rows).__name__, tf.convert_to_tensor(rows)


def _orders(tf):
    @tf.custom_gradient
    def nested(x):
        @tf.custom_gradient
        def back(ct):
            return ct * x * 10.0, lambda other: other * 1000.0

        return x * x, back

    @tf.custom_gradient
    def cubed(x):
        square = x * x
        return square * x, lambda ct: ct * square * 10.0

    def moved(f):
        x = tf.constant(2.0)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    made = {}
    for name, f in {"nested": nested, "cubed": cubed}.items():
        x = tf.constant(2.0)
        made[f"second order of {name}, eager"] = lambda f=f, x=x: _second(tf, f, x)
        made[f"second order of {name}, inside"] = lambda f=f, x=x: tf.function(lambda z: _second(tf, f, z))(x)
        made[f"second order of {name}, outside"] = lambda f=f, x=x: _second(tf, tf.function(f), x)
    return made | {
        "forward mode": lambda: moved(cubed),
        "forward mode, inside": lambda: tf.function(lambda: moved(cubed))(),
        "forward mode, outside": lambda: moved(tf.function(cubed)),
    }


def _mapped(tf):
    @tf.custom_gradient
    def scaled(x):
        total = tf.reduce_sum(x)
        return x * total, lambda ct: ct * x * 10.0

    def jacobian(f):
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.jacobian(y, x)

    def of_rows():
        def one(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = scaled(x)
            return tape.gradient(y, x)

        return tf.vectorized_map(one, tf.constant([[1.0], [2.0]]))

    return {
        "jacobian": lambda: jacobian(scaled),
        "jacobian, inside": lambda: tf.function(lambda: jacobian(scaled))(),
        "jacobian, outside": lambda: jacobian(tf.function(scaled)),
        "jacobian through a cond": lambda: tf.function(
            lambda: jacobian(lambda x: tf.cond(x[0] > 0.0, lambda: scaled(x), lambda: x))
        )(),
        "gradient of rows": of_rows,
    }


def _seldom(tf):
    weight = tf.Variable(1.0)

    @tf.custom_gradient
    def raising(x):
        def back(ct):
            raise NotImplementedError("no gradient here")

        return x * 2.0, back

    @tf.custom_gradient
    def counted(x):
        weight.assign_add(x + 0.0 * weight)

        def back(ct, variables=None):
            weight.assign_add(100.0)
            return ct * 10.0, [ct * weight] * len(variables)

        return x * 2.0, back

    def counting():
        weight.assign(1.0)
        found = _gradient(tf, counted, tf.constant(2.0))
        return (*found, weight.read_value())

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def of_any_rank(x):
        f = tf.custom_gradient(lambda x: (tf.reduce_sum(x * x), lambda ct: ct * x * 10.0))
        return _gradient(tf, f, x)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def of_any_size(x):
        f = tf.custom_gradient(
            lambda x: (tf.boolean_mask(x, x[:, 0] > 0), lambda ct: tf.ones_like(x) * tf.reduce_sum(ct))
        )
        return _gradient(tf, f, x)

    @tf.custom_gradient
    def of_ragged(rows):
        return rows * 2.0, lambda ct: ct * 10.0

    def ragged():
        rows = tf.ragged.constant([[1.0, 2.0], [3.0]])
        with tf.GradientTape() as tape:
            tape.watch(rows.flat_values)
            y = of_ragged(rows)
        return tape.gradient(y.flat_values, rows.flat_values)

    x = tf.constant(1.0)
    return {
        "an error that nobody meets": lambda: raising(x),
        "an error that nobody meets, traced": lambda: tf.function(raising)(x),
        "an error that nobody meets, in a cond": lambda: tf.function(
            lambda: tf.cond(x > 0.0, lambda: raising(x), lambda: x)
        )(),
        "an error": lambda: _gradient(tf, raising, x),
        "Variables assigned": counting,
        "Variables assigned, traced": lambda: tf.function(counting)(),
        "any rank": lambda: (of_any_rank(tf.constant(2.0)), of_any_rank(tf.constant([[1.0, 2.0]]))),
        "any size": lambda: of_any_size(tf.constant([[1.0, 2.0], [-1.0, 2.0], [2.0, 3.0]])),
        "ragged rows": ragged,
        "ragged rows, traced": lambda: tf.function(ragged)(),
    }
