"""``tf.recompute_grad``, eager and traced."""

from parity_calls import second_derivative


def programs(tf):
    made = {}
    for label, program in _programs(tf).items():
        made[label] = program
        made[f"{label}, traced"] = tf.function(program)
    return made | _eager(tf)


def _programs(tf):
    weight = tf.Variable(2.0)
    fixed = tf.Variable(5.0, trainable=False)

    def gradient(f, *values, of=lambda y: y, variables=()):
        xs = [tf.constant(v) for v in values]
        with tf.GradientTape() as tape:
            tape.watch([x for x in xs if x.dtype.is_floating])
            y = tf.recompute_grad(f)(*xs)
            target = of(y)
        return y, tape.gradient(target, [*xs, *variables])

    def persistent():
        block = tf.recompute_grad(lambda a: tf.square(a) * weight)
        x = tf.constant(3.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = block(x)
            z = block(y)
        return tape.gradient(z, x), tape.gradient(z, weight), tape.gradient(y, [x, weight])

    def nested():
        inner = tf.recompute_grad(lambda a: tf.square(a) * weight)
        outer = tf.recompute_grad(lambda a: inner(inner(a)) + a)
        return gradient(outer, 0.5, variables=[weight])

    def passed():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.recompute_grad(lambda a, v: a * v * v)(x, weight)
        return tape.gradient(y, [x, weight])

    def jacobian():
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.recompute_grad(lambda a: a * a * weight)(x)
        return tape.jacobian(y, x)

    return {
        "one": lambda: gradient(lambda a: a * a, [1.0, 2.0]),
        "an argument twice": lambda: gradient(lambda a, b: a * a * b, 3.0, 2.0),
        "an argument without effect": lambda: gradient(lambda a, b: a * 2.0, 1.0, 2.0),
        "Variables": lambda: gradient(lambda a: a * weight * weight * fixed, 3.0, variables=[weight, fixed]),
        "a Variable as argument": passed,
        "several results": lambda: gradient(
            lambda a, b: (a * b, {"c": [a + b, tf.cast(a, tf.int32)]}), 3.0, 2.0, of=lambda y: y[0] * 2.0 + y[1]["c"][0]
        ),
        "an integer": lambda: gradient(lambda a, k: a * tf.cast(k, tf.float32), [1.0, 2.0], 2),
        "persistent": persistent,
        "nested": nested,
        "jacobian": jacobian,
    }


def _eager(tf):
    weight = tf.Variable(2.0)

    def options():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.recompute_grad(lambda a, scale=1.0: a * a * scale)(x, scale=4.0)
        return y, tape.gradient(y, x)

    def loop():
        x = y = tf.constant(2.0)
        block = tf.recompute_grad(lambda a: a * weight - 1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            for _ in range(3):
                y = block(y)
        return y, tape.gradient(y, [x, weight])

    def second():
        cubed = tf.recompute_grad(lambda a: a * a * a)
        return second_derivative(tf, lambda x, n: cubed(x))(tf.constant(3.0), None)[1:]

    def named():
        @tf.recompute_grad
        def block(x):
            """What it does."""
            return x

        return block.__name__, block.__doc__, block(tf.constant(1.0))

    return {"options": options, "a loop": loop, "second order": second, "its name": named}
