"""GradientTape, eager and traced."""


def programs(tf):
    made = {}
    for label, program in _gradients(tf).items():
        made[f"{label}"] = program
        made[f"{label}, traced"] = tf.function(program)
    return _around_functions(tf) | made | _protocol(tf) | _sources(tf) | _unconnected(tf)


def _gradients(tf):
    def gradient(function, *values, **options):
        xs = [tf.constant(v) for v in values]
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = function(*xs)
        return tape.gradient(y, xs, **options)

    def nested():
        x = tf.constant(3.0)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = x * x * x
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    def persistent():
        x = tf.constant(3.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = y * y
        return tape.gradient(z, x), tape.gradient(y, x), tape.gradient(z, y)

    def stopped():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            with tape.stop_recording():
                z = y * y
        return tape.gradient(z, x), y

    def reset():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            tape.reset()
            tape.watch(x)
            z = x * y
        return tape.gradient(z, x)

    def nests():
        x = {"b": tf.constant(2.0), "a": [tf.constant(3.0), (tf.constant(4.0),)]}
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x["b"] * x["a"][0] * x["a"][1][0]
        return tape.gradient(y, x)

    def intermediate():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            z = y * y + y
        return tape.gradient(z, [y, x, z])

    def same_twice():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, [x, x])

    def target_is_source():
        x = tf.constant([3.0, 4.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
        return tape.gradient(x, x)

    def targets():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            ys = {"a": x * x, "b": [x, 2.0 * x]}
        return tape.gradient(ys, x)

    def gradient_of_gradient_on_tape():
        x = tf.constant(2.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x * x
            dy = tape.gradient(y, x)
        return dy, tape.gradient(dy, x)

    def jacobians():
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x * tf.reduce_sum(x)
            rows = tf.matmul(x, [[1.0], [2.0]]) * x
        return tape.jacobian(y, x), tape.batch_jacobian(rows, x), tape.jacobian(y, [x, rows])

    def unconnected_jacobians():
        x = tf.constant([1.0, 2.0])
        z = tf.constant([1.0, 2.0, 3.0])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, z])
            y = x * x
        return tape.jacobian(y, z), tape.jacobian(y, z, unconnected_gradients="zero")

    def second_order_jacobian():
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(x * x * x)
            first = inner.gradient(y, x)
        return outer.jacobian(first, x)

    def variables():
        # made once, so that the traced form finds them
        with tf.GradientTape() as tape:
            y = v * v + frozen * v
        return tape.gradient(y, [v, frozen]), [w.name for w in tape.watched_variables()]

    def watched_frozen():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(frozen)
            y = v * frozen
        return tape.gradient(y, [v, frozen])

    def after_assign():
        w.assign(3.0)
        with tf.GradientTape() as tape:
            y = w * w
            w.assign(5.0)
            z = y * w
        return tape.gradient(z, w)

    v, frozen = tf.Variable(3.0, name="v"), tf.Variable(2.0, trainable=False, name="frozen")
    w = tf.Variable(1.0, name="w")
    return {
        "product": lambda: gradient(lambda a, b: a * b, 2.0, 3.0),
        "vector": lambda: gradient(lambda a: a * a, [1.0, 2.0]),
        "broadcast": lambda: gradient(lambda a, b: a * b, [[1.0, 2.0]], [[3.0], [4.0]]),
        "unconnected": lambda: gradient(lambda a, b: a * a, 2.0, 3.0),
        "unconnected zero": lambda: gradient(lambda a, b: a * a, 2.0, [3.0, 4.0], unconnected_gradients="zero"),
        "output_gradients": lambda: gradient(lambda a: a * a, [1.0, 2.0], output_gradients=tf.constant([10.0, 100.0])),
        "integer in between": lambda: gradient(lambda a: tf.cast(tf.cast(a, tf.int32), tf.float32) * a, 2.5),
        "stop_gradient": lambda: gradient(lambda a: tf.stop_gradient(a) * a, 3.0),
        "nested": nested,
        "persistent": persistent,
        "stop_recording": stopped,
        "reset": reset,
        "nests": nests,
        "intermediate": intermediate,
        "same source twice": same_twice,
        "target is source": target_is_source,
        "several targets": targets,
        "gradient inside its own tape": gradient_of_gradient_on_tape,
        "jacobians": jacobians,
        "unconnected jacobians": unconnected_jacobians,
        "second-order jacobian": second_order_jacobian,
        "variables": variables,
        "watched frozen variable": watched_frozen,
        "after assign": after_assign,
    }


def _protocol(tf):
    x = tf.constant(3.0)

    def used_twice():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
        tape.gradient(y, x)

    def entered_twice():
        with tf.GradientTape() as tape:
            tape.__enter__()

    def not_recording():
        tape = tf.GradientTape()
        with tape.stop_recording():
            pass

    def no_longer_recording():
        with tf.GradientTape() as tape:
            tape.watch(x)
        with tape.stop_recording():
            pass

    def inside_once():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            return tape.gradient(y, x)

    def jacobian_of(target, source):
        with tf.GradientTape() as tape:
            tape.watch(source)
            y = target(source)
        return tape.batch_jacobian(y, source)

    def of_integers():
        n = tf.constant(3)
        with tf.GradientTape() as tape:
            tape.watch(n)
            y = n * n
        return tape.gradient(y, n)

    def through_integers():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cast(x, tf.int32) * 2
        return tape.gradient(y, x)

    return {
        "used twice": used_twice,
        "entered twice": entered_twice,
        "stop_recording outside": not_recording,
        "stopped after its end": no_longer_recording,
        "gradient inside a tape that is not persistent": inside_once,
        "watch a number": lambda: tf.GradientTape().watch(3.0),
        "watch text": lambda: tf.GradientTape().watch("a"),
        "integers": of_integers,
        "through integers": through_integers,
        "batch_jacobian of other batches": lambda: jacobian_of(lambda s: s[:1], tf.constant([[1.0], [2.0]])),
        "unconnected_gradients unknown": lambda: _unknown(tf),
    }


def _unknown(tf):
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x, unconnected_gradients="some")


def _sources(tf):
    """What is a source, a target, watched, none of these, and several at once."""

    def constant_beside_variable():
        v, c = tf.Variable(2.0), tf.constant(3.0)
        with tf.GradientTape() as tape:
            y = tf.sin(v * c)
        return tape.gradient(y, [c, y])

    def matrix_beside_variable():
        v, c = tf.Variable([[1.0, 2.0]]), tf.constant([[3.0], [1.0]])
        with tf.GradientTape() as tape:
            y = tf.matmul(v, c)
        return tape.gradient(y, [v, c])

    def of_itself(make, **options):
        x = make()
        with tf.GradientTape(**options) as tape:
            pass
        return tape.gradient(x, [x])

    def beside_a_watched():
        v, c = tf.Variable(2.0), tf.constant(3.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(c)
        return tape.gradient(v, [v, c])

    def target_and_source():
        v, w = tf.Variable(2.0), tf.Variable(4.0)
        with tf.GradientTape() as tape:
            y = w * w
        return tape.gradient([y, v], [v, w])

    def watched_outside():
        x, c = tf.constant(2.0), tf.constant(4.0)
        with tf.GradientTape() as outer:
            outer.watch(c)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = x * c * c
            by_x, by_c = inner.gradient(y, [x, c])
        return by_x, by_c, outer.gradient(by_x, c)

    return {
        "a constant beside a variable": constant_beside_variable,
        "a matrix beside a variable": matrix_beside_variable,
        "a constant of itself": lambda: of_itself(lambda: tf.constant(3.0)),
        "a variable of itself": lambda: of_itself(lambda: tf.Variable(3.0)),
        "a variable of itself, none watched": lambda: of_itself(
            lambda: tf.Variable(3.0), watch_accessed_variables=False
        ),
        "a frozen variable of itself": lambda: of_itself(lambda: tf.Variable(3.0, trainable=False)),
        "a target beside a watched constant": beside_a_watched,
        "a target that is a source": target_and_source,
        "watched by the outer tape only": watched_outside,
    }


def _around_functions(tf):
    """Compiled functions called under tapes outside them."""
    w = tf.Variable([[1.0, -2.0], [0.5, 3.0]])
    x = tf.constant([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]])

    @tf.function
    def layer(x):
        h = tf.matmul(x, w) ** 2
        return tf.reduce_sum(h * h), h

    def first_order():
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss, h = layer(x)
            loss += tf.reduce_sum(h)
        return tape.gradient(loss, [w, x])

    def one_of_the_inputs():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            loss, _ = layer(x)
        return tape.gradient(loss, [w, x])

    def second_order():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss, _ = layer(x)
            found = tf.reduce_sum(inner.gradient(loss, w) ** 2)
        return outer.gradient(found, w)

    def second_order_of_a_persistent_tape():
        with tf.GradientTape(persistent=True) as tape:
            loss, _ = layer(x)
            found = tape.gradient(loss, w)
        return tape.gradient(found, w)

    def jacobian():
        with tf.GradientTape() as tape:
            _, h = layer(x)
        return tape.jacobian(h, w)

    def values_when_it_was_called():
        v = tf.Variable(3.0)
        cube = tf.function(lambda: v * v * v)
        with tf.GradientTape() as tape:
            y = cube()
            v.assign(10.0)
        return tape.gradient(y, v)

    def runs_once():
        calls = []

        @tf.function
        def f(x):
            tf.py_function(lambda: calls.append(1), [], [])
            return tf.reduce_sum(x * x * x)

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x), len(calls)

    def updates_once():
        v = tf.Variable(1.0)

        @tf.function
        def f(x):
            v.assign_add(1.0)
            return v * x * x

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x), v

    def branch_and_loop():
        @tf.function
        def f(x):
            y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * x, lambda: -x)
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, y))[1]

        found = []
        for point in (x, -x):
            with tf.GradientTape() as tape:
                tape.watch(point)
                y = f(point)
            found.append(tape.gradient(y, point))
        return found

    def of_unknown_shape():
        @tf.function(input_signature=[tf.TensorSpec([None, 2])])
        def f(x):
            return tf.reduce_sum(x * x * x, axis=0), tf.reduce_sum(x * x)

        found = []
        for rows in (1, 3):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x[:rows])
            found.append(tape.gradient(y, x))
        return found

    programs = (
        first_order, one_of_the_inputs, second_order, second_order_of_a_persistent_tape, jacobian,
        values_when_it_was_called, runs_once, updates_once, branch_and_loop, of_unknown_shape,
    )  # fmt: skip
    return {f"around a function: {p.__name__.replace('_', ' ')}": p for p in programs}


def _unconnected(tf):
    kinds, x = tf.UnconnectedGradients, tf.constant([1.0, 2.0])

    def by(kind):
        with tf.GradientTape() as tape:
            y = tf.constant(1.0)
        return tape.gradient(y, x, unconnected_gradients=kind)

    @tf.function
    def symbolic(x):
        return tf.gradients(tf.constant(1.0), x, unconnected_gradients=kinds.ZERO)

    return {
        "unconnected kinds": lambda: [*kinds, kinds("zero"), kinds.NONE.value],
        "unconnected, none": lambda: [by("none"), by(kinds.NONE)],
        "unconnected, zero": lambda: [by("zero"), by(kinds.ZERO)],
        "unconnected, another": lambda: by("other"),
        "unconnected, symbolic": lambda: symbolic(x),
    }
