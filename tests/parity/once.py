"""Side effects in branches and loops happen once, whatever gradients are computed."""

from parity.once_around import chosen, condition, factor, logged, printed
from parity_calls import first_derivative, second_derivative


def programs(tf):
    return _printed(tf) | _called(tf) | _queues(tf) | _python(tf)


def in_sweep(label):
    """The same loops are differentiated once, or these gradients are those of other loops, by default."""
    return label in ("for: second", "a factor n times: second", "while: two gradients", "loops in loops: two gradients")


def _runs(tf, body, *arguments):
    """What a traced function of a log gives, and what it logged."""

    def run(noted):
        return tf.function(lambda *args: body(noted, *args))(*arguments)

    return logged(tf, run)


def _gradient(tf, body):
    def run(noted, x, n):
        return first_derivative(tf, lambda x, n: body(noted, x, n))(x, n)

    return run


def _second(tf, body):
    def run(noted, x, n):
        return second_derivative(tf, lambda x, n: body(noted, x, n))(x, n)

    return run


def _twice(tf, body):
    def run(noted, x, n):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = body(noted, x, n)
            z = y * 2.0
        return tape.gradient(y, x), tape.gradient(z, x)

    return run


def _in_all_forms(tf, bodies, n):
    forms = {"gradient": _gradient, "second": _second, "two gradients": _twice}
    return {
        f"{name}: {form}": _runs(tf, make(tf, body), tf.constant(2.0), tf.constant(n))
        for name, body in bodies.items()
        for form, make in forms.items()
    }


def _printed(tf):
    """What is noted is used by nobody."""

    def steps(noted, x, n):
        y = x
        for i in tf.range(tf.cast(n, tf.int32)):
            noted(tf.cast(i, tf.float32))
            y = y * x
        return y

    def branch(noted, x, n):
        if n > 0.0:
            noted(x)
            y = x * x
        else:
            y = x
        return y

    def nested(noted, x, n):
        y = x
        for i in tf.range(2):
            for j in tf.range(2):
                noted(tf.cast(10 * i + j, tf.float32))
                y = y * x
        return y

    bodies = {"while": printed, "for": steps, "if": branch, "loops in loops": nested}
    return _in_all_forms(tf, bodies, 5.0)


def _called(tf):
    def counted(noted, x, n):
        y = x
        for _ in tf.range(3):
            y = y * noted(x)
        return y

    bodies = {"a factor": factor, "a factor n times": counted, "a factor in a branch": chosen, "a condition": condition}
    return _in_all_forms(tf, bodies, 30.0)


def _python(tf):
    """Python with a gradient: what it recorded when it was called gives that."""

    def product(call, x):
        return call(x) * x

    def three(call, x):
        return call(call(x)) + call(x)

    def chosen(call, x):
        if x > 1.0:
            y = call(x) * x
        else:
            y = call(x * 3.0)
        return y

    made = {}
    for body in (product, three, chosen):
        made[f"Python, {body.__name__}"] = _with_python(tf, body, lambda run, body: (tf.function(run), body))
        made[f"Python, {body.__name__}, eager"] = _with_python(tf, body, lambda run, body: (run, body))
    for body in (product, three):
        made[f"Python, {body.__name__}, outside"] = _with_python(tf, body, lambda run, body: (run, tf.function(body)))
    return made


def _with_python(tf, body, traced):
    dtype = tf.TensorSpec([]) if tf.__name__ == "tvtf" else tf.float32

    def program():
        log = []

        def square(x):
            log.append(float(x))
            return x * x

        def call(x):
            return tf.ensure_shape(tf.py_function(square, [x], dtype), [])

        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return y, tape.gradient(y, x)

        run, function = traced(gradient, lambda x: body(call, x))
        return [run(tf.constant(x)) for x in (3.0, 2.0)], log

    return program


def _queues(tf):
    def queue():
        numbers = tf.queue.FIFOQueue(10, [tf.float32], [[]])
        for k in range(6):
            numbers.enqueue(float(k + 1))

        @tf.function
        def run(x, n):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y, total = x, 0.0
                while total < n:
                    found = numbers.dequeue()
                    total += found
                    y = y * found * x
            return y, tape.gradient(y, x), numbers.size()

        return run(tf.constant(2.0), tf.constant(5.0))

    return {"a queue": queue}
