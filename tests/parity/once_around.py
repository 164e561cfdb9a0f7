"""Side effects happen once with tapes outside of the function, or deep in its control flow."""

from parity_calls import first_derivative, second_derivative


def programs(tf):
    return _around(tf) | _deep(tf) | _of_other_sizes(tf) | _queues(tf)


def in_sweep(label):
    """The room ``once`` has second derivatives of these bodies, and of loops in loops, made inside a function."""
    return label in (
        "factor, second",
        "noted, second",
        "cond_in_while, second",
        "while_in_while, second",
        "three_deep, second",
        "other sizes, deep, outside",
    )


def logged(tf, run):
    """What ``run(noted)`` gives, and what ``noted`` was called with."""
    # Where the rank is known, gradients know what Python gives.
    dtype = tf.TensorSpec([]) if tf.__name__ == "tvtf" else tf.float32

    def program():
        log = []

        def note(x):
            log.append(float(x))
            return x * 1.0

        def noted(x):
            return tf.ensure_shape(tf.numpy_function(note, [x], dtype), [])

        return run(noted), list(log)

    return program


def _runs(tf, form, body, x=2.0, n=30.0):
    """What a form of gradient of a traced body gives, and what this noted."""

    def run(noted):
        return form(tf, lambda x, n: body(noted, x, n), tf.constant(x), tf.constant(n))

    return logged(tf, run)


def _outside(tf, body, x, n):
    return first_derivative(tf, tf.function(body))(x, n)


def _in_function(tf, body, x, n):
    function = tf.function(body)
    return tf.function(lambda x, n: _outside(tf, function, x, n))(x, n)


def _inside(tf, body, x, n):
    return tf.function(lambda x, n: _outside(tf, body, x, n))(x, n)


def _second(tf, body, x, n):
    return second_derivative(tf, tf.function(body))(x, n)


def _in_branch(tf, body, x, n):
    function = tf.function(body)

    @tf.function
    def run(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, n)
        found = x
        if n > 1.0:
            found = tape.gradient(y, x)
        return y, found

    return run(x, n)


def _persistent(tf, body, x, n):
    function = tf.function(body)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = function(x, n)
        z = y * 2.0
    return y, tape.gradient(y, x), tape.gradient(z, x)


def _jacobian(tf, body, x, n):
    function = tf.function(lambda x, n: tf.stack([body(x, n), x]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, n)
    return y, tape.jacobian(y, x)


def _forward(tf, body, x, n):
    function = tf.function(body)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        y = function(x, n)
    return y, accumulator.jvp(y)


def _around(tf):
    forms = {
        "outside": _outside,
        "in a function": _in_function,
        "second": _second,
        "in a branch": _in_branch,
        "two gradients": _persistent,
        "jacobian": _jacobian,
        "forward": _forward,
    }
    bodies = {"factor": factor, "chosen": chosen, "noted": printed, "straight": _straight, "condition": condition}
    return {
        f"{name}, {form}": _runs(tf, run, body)
        for name, body in bodies.items()
        for form, run in forms.items()
        if body is factor or form in ("outside", "second")
    }


def factor(noted, x, n):
    y = x
    while y < n:
        y = y * x * noted(x)
    return y


def chosen(noted, x, n):
    if n > 0.0:
        y = x * x * noted(x)
    else:
        y = x + noted(x * 3.0)
    return y


def printed(noted, x, n):
    y = x
    while y < n:
        noted(y)
        y = y * x
    return y


def _straight(noted, x, n):
    return x * noted(x) * noted(n)


def condition(noted, x, n):
    y = x
    while noted(y) < n:
        y = y * x
    return y


def _deep(tf):
    def cond_in_while(noted, x, n):
        y = x
        for i in tf.range(4):
            if i % 2 == 0:
                y = y * noted(x)
            else:
                noted(y)
        return y * x

    def while_in_cond(noted, x, n):
        y = x
        if n > 0.0:
            while y < n:
                y = y * noted(x)
        return y * x

    def while_in_while(noted, x, n):
        y = x
        for i in tf.range(3):
            for _ in tf.range(i):
                y = y * noted(x) + x
            noted(y)
        return y

    def cond_in_cond(noted, x, n):
        y = x
        if n > 0.0:
            if n > 10.0:
                y = y * noted(x)
            else:
                y = noted(y) + noted(x)
        return y * x

    def three_deep(noted, x, n):
        y = x
        for i in tf.range(2):
            j = 0
            while j < i + 1:
                if (i + j) % 2 == 0:
                    y = y * x * noted(x)
                j += 1
        return y

    def branches_in_while(noted, x, n):
        y, i = x, 0
        while i < 3:
            if i == 1:
                y = y * noted(x) * noted(y)
            elif i == 2:
                for _ in tf.range(2):
                    y = y + x * noted(x)
            i += 1
        return y

    bodies = [cond_in_while, while_in_cond, while_in_while, cond_in_cond, three_deep, branches_in_while]
    forms = {"inside": _inside, "second": _second}
    return {f"{b.__name__}, {form}": _runs(tf, run, b) for b in bodies for form, run in forms.items()}


def _of_other_sizes(tf):
    """What is given has another size each time."""
    dtype = tf.TensorSpec([None]) if tf.__name__ == "tvtf" else tf.float32

    def program(form, nested):
        def run():
            log = []

            def several(i):
                log.append(int(i))
                return tf.range(1.0, float(i) + 1.0)

            def grown(i):
                return tf.ensure_shape(tf.py_function(several, [i], dtype), [None])

            def body(x, n):
                y = x
                for i in tf.range(4):
                    if nested:
                        for j in tf.range(i):
                            y = y + x * tf.reduce_sum(grown(i + j))
                    else:
                        y = y + x * tf.reduce_sum(grown(i) ** 2)
                return y

            return form(tf, body, tf.constant(2.0), tf.constant(30.0)), log

        return run

    forms = {"inside": _inside, "outside": _outside}
    return {
        f"other sizes{', deep' if nested else ''}, {form}": program(run, nested)
        for form, run in forms.items()
        for nested in (False, True)
    }


def _queues(tf):
    def program(form):
        def run():
            numbers = tf.queue.FIFOQueue(20, [tf.float32], [[]])
            for k in range(12):
                numbers.enqueue(float(k + 1))
            total = tf.Variable(0.0)

            def body(x, n):
                y = x
                for i in tf.range(3):
                    if i != 1:
                        found = tf.stop_gradient(numbers.dequeue())
                        total.assign_add(found)
                        y = y * found * x + total
                return y

            return form(tf, body, tf.constant(2.0), tf.constant(5.0)), numbers.size(), total.read_value()

        return run

    return {f"a queue, {form.__name__}": program(form) for form in (_inside, _outside)}
