"""Forward mode, and gradients of traced programs by name."""


def programs(tf):
    made = {}
    for label, program in _forward(tf).items():
        made[label] = program
        made[f"{label}, traced"] = tf.function(program)
    return made | _errors(tf) | _by_name(tf)


def _forward(tf):
    def jvp(function, *primals, **options):
        def program():
            xs = [tf.constant(p) for p in primals]
            tangents = [tf.ones_like(x) for x in xs]
            with tf.autodiff.ForwardAccumulator(xs, tangents) as acc:
                y = function(*xs)
            return acc.jvp(y, **options)

        return program

    def nested():
        x = tf.constant(2.0)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as outer:
            with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as inner:
                y = x**3
            first = inner.jvp(y)
        return first, outer.jvp(y), outer.jvp(first)

    def over_tape():
        x = tf.constant([2.0, 3.0])
        with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(x**3) * x[0]
            gradient = tape.gradient(y, x)
        return gradient, acc.jvp(gradient)

    def under_tape():
        x = tf.constant([2.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 2.0])) as acc:
                y = x**3
            tangent = acc.jvp(y)
        return tangent, tape.gradient(tangent, x)

    def variables():
        with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 0.0])) as acc:
            y = tf.reduce_sum(v * v)
        return acc.jvp(y), acc.jvp(v)

    def inside_function():
        @tf.function
        def cube(x):
            return x * x * x

        x = tf.constant(2.0)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            y = cube(x)
        return acc.jvp(y)

    def stopped():
        x = tf.constant(2.0)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            y = tf.stop_gradient(x) * x
        return acc.jvp(y)

    def branch():
        x = tf.constant(3.0)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            y = tf.cond(x > 2.0, lambda: x * x, lambda: x)
        return acc.jvp(y)

    def loop():
        x = tf.constant(1.5)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
            _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))
        return y, acc.jvp(y)

    v = tf.Variable([1.0, 2.0])
    matrix = [[1.0, 2.0], [3.0, 4.0]]
    return {
        "square": jvp(lambda x: x * x, [1.0, 2.0]),
        "product": jvp(lambda a, b: a * b, [1.0, 2.0], [3.0, 4.0]),
        "matmul": jvp(lambda a, b: tf.matmul(a, b), matrix, matrix),
        "sums and maxima": jvp(lambda x: tf.reduce_max(tf.reduce_sum(x, 0) * x, 1), matrix),
        "gather": jvp(lambda x: tf.gather(x * x, [1, 1]), matrix),
        "concat and split": jvp(lambda x: tf.split(tf.concat([x, x * x], 1), 2, 1), matrix),
        "division and roots": jvp(lambda x: 1.0 / x + tf.sqrt(x), [1.0, 4.0]),
        "integers in between": jvp(lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), [1.0, 2.0]),
        "unconnected": jvp(lambda x: tf.constant(1.0), [1.0, 2.0]),
        "unconnected zero": jvp(lambda x: tf.constant(1.0), [1.0, 2.0], unconnected_gradients="zero"),
        "nested": nested,
        "over a tape": over_tape,
        "under a tape": under_tape,
        "variables": variables,
        "a function inside": inside_function,
        "stop_gradient": stopped,
        "branch": branch,
        "loop": loop,
    }


def _errors(tf):
    x = tf.constant(1.0)

    def entered_twice():
        with tf.autodiff.ForwardAccumulator(x, x + 0.0) as acc, acc:
            pass

    return {
        "a primal twice": lambda: tf.autodiff.ForwardAccumulator([x, x], [x + 0.0, x + 1.0]),
        "entered twice": entered_twice,
        "a tangent of another dtype": lambda: tf.autodiff.ForwardAccumulator(x, tf.constant(1)),
        "gradients, eagerly": lambda: tf.gradients(x, x),
    }


def _by_name(tf):
    @tf.function
    def gradients(x, w):
        y = x * x * w
        z = tf.reduce_sum(y) + tf.reduce_sum(w)
        return (
            tf.gradients(z, [x, w]),
            tf.gradients(z, y),
            tf.gradients([y, z], x, grad_ys=[tf.ones_like(y) * 2.0, None]),
            tf.gradients(z, [x, w], stop_gradients=[x]),
            tf.gradients(y, tf.constant(1.0), unconnected_gradients="zero"),
            tf.gradients(tf.gradients(z, x)[0], x),
        )

    @tf.function
    def hessian(x):
        return tf.hessians(tf.reduce_sum(x**3) * x[0], x)

    def passed_through():
        v = tf.Variable([1.7, -0.2])
        with tf.GradientTape() as tape:
            y = tf.grad_pass_through(tf.round)(v) * 3.0
        return y, tape.gradient(y, v)

    def registered_twice():
        tf.RegisterGradient("ParityOfTheTests")(lambda op, grad: grad)
        tf.RegisterGradient("ParityOfTheTests")(lambda op, grad: grad)

    a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    return {
        "gradients": lambda: gradients(a, b),
        "hessians": lambda: hessian(a),
        "grad_pass_through": passed_through,
        "RegisterGradient of a number": lambda: tf.RegisterGradient(3),
        "RegisterGradient twice": lambda: type(_raised(registered_twice)).__name__,
        "no_gradient of a number": lambda: tf.no_gradient(3),
        "AggregationMethod": lambda: (tf.AggregationMethod.ADD_N, tf.AggregationMethod.EXPERIMENTAL_TREE),
    }


def _raised(function):
    try:
        function()
    except Exception as error:
        return error
