"""Gradients with respect to Variables that the differentiated function assigns, for reads before and after."""

from parity_calls import value_or_kind


def programs(tf):
    made = {}
    for body in _bodies(tf):
        label = body.__name__.replace("_", " ")
        made[label] = _outside(tf, body, lambda f: f)
        made[f"{label}, traced"] = _outside(tf, body, tf.function)
    for body in _bodies(tf)[:3]:
        made[f"{body.__name__.replace('_', ' ')}, the tape inside"] = _inside(tf, body)
    return made | _unused(tf) | _operations(tf)


def _operations(tf):
    """What an assignment that isn't read returns, and programs that use it as an operation."""
    changes = {
        "assign": lambda v: v.assign(5.0, read_value=False),
        "assign_add": lambda v: v.assign_add(1.0, read_value=False),
        "assign_sub": lambda v: v.assign_sub(1.0, read_value=False),
    }

    def ordered(v, change):
        with tf.control_dependencies([change(v)]):
            return tf.identity(v) + 1.0

    uses = {
        "kind": lambda v, change: type(change(v)).__name__,
        "returned": lambda v, change: change(v),
        "control input": ordered,
        "group": lambda v, change: tf.group(change(v), change(v)),
        "branches": lambda v, change: tf.cond(v > 0.0, lambda: change(v), lambda: tf.no_op()) is None,
        "loop": lambda v, change: [change(v) is None for _ in range(2)],
    }

    def program(use, change, wrap):
        def run():
            v, kinds = tf.Variable(2.0), []

            def body():
                result = use(v, change)
                if isinstance(result, (str, bool, list)):
                    kinds.append(result)
                    return None
                return result

            result = wrap(body)()
            return None if result is None else type(result).__name__, kinds, float(v)

        return run

    return {
        f"operation of {name}, {label}, {way}": value_or_kind(program(use, change, wrap))
        for name, change in changes.items()
        for label, use in uses.items()
        for way, wrap in (("eager", lambda f: f), ("traced", tf.function))
        if (label, way) != ("branches", "eager")
    }


def _outside(tf, body, wrap):
    def program():
        v, w = tf.Variable(2.0), tf.Variable(3.0)
        run = wrap(lambda: body(v, w))
        with tf.GradientTape() as tape:
            y = run()
        return *_numbers(tape.gradient(y, [v, w])), *_numbers([v, w])

    return program


def _inside(tf, body):
    def program():
        v, w = tf.Variable(2.0), tf.Variable(3.0)

        @tf.function
        def run():
            with tf.GradientTape() as tape:
                y = body(v, w)
            return tape.gradient(y, [v, w])

        return *_numbers(run()), *_numbers([v, w])

    return program


def _unused(tf):
    """Loops that read what their results don't depend on: its gradient is of zeros, not None."""

    def added(v, w, n):
        a = v * 1.0
        for _ in tf.range(3):
            a = a * 2.0
            w.assign_add(n)
        return a

    def condition(v, w, n):
        a, limit = v * 1.0, n * 2.0
        while a < limit:
            a = a * 2.0
        return a

    def nested(v, w, n):
        a = v * 1.0
        for _ in tf.range(2):
            j = 0.0
            while j < n:
                a = a * 2.0
                j += 4.0
        return a

    def branch(v, w, n):
        a = v * 1.0
        if a > 1.0:
            for _ in tf.range(2):
                a = a * 2.0
                w.assign_add(n)
        return a

    def too(v, w, n):
        a = v * n
        for _ in tf.range(2):
            a = a * 2.0
            w.assign_add(n)
        return a

    def sized(v, w, n):
        a, rows = v * 1.0, tf.fill([tf.cast(n, tf.int32)], n)
        for _ in tf.range(2):
            a = a * tf.cast(tf.size(rows), tf.float32)
        return a

    bodies = {"added": added, "a condition": condition, "nested": nested, "in a branch": branch, "added too": too,
              "sized": sized}  # fmt: skip
    made = {f"aside, {label}: {inside}": _by_number(tf, body, inside)
            for label, body in bodies.items() for inside in (True, False)}  # fmt: skip
    return made | {"aside, jacobian": _unused_jacobian(tf)}


def _by_number(tf, body, inside):
    def program():
        v, w = tf.Variable(2.0), tf.Variable(3.0)

        def run(n):
            with tf.GradientTape() as tape:
                tape.watch(n)
                y = function(v, w, n)
            return tape.gradient(y, [v, w, n])

        function, run = (body, tf.function(run)) if inside else (tf.function(body), run)
        return *_numbers(run(tf.constant(5.0))), *_numbers([v, w])

    return program


def _unused_jacobian(tf):
    def program():
        v, n = tf.Variable([2.0, 3.0]), tf.Variable(5.0)

        @tf.function
        def run():
            with tf.GradientTape() as tape:
                y = v * 1.0
                while y[0] < n:
                    y = y * 2.0
            return tape.jacobian(y, [v, n])

        return run()

    return program


def _numbers(tensors):
    return [None if x is None else float(x) for x in tensors]


def _bodies(tf):
    def assigned_from_itself(v, w):
        v.assign(v * v)
        return v * v

    def added_to(v, w):
        return v.assign_add(w) * w

    def in_a_loop(v, w):
        i = tf.constant(0)
        while i < 3:
            if i > 1:
                v.assign(v + w)
            w.assign(w * v)
            i += 1
        return w * v

    def read_before(v, w):
        old = v.read_value()
        v.assign_sub(1.0)
        return old * v

    def one_from_the_other(v, w):
        w.assign(v * 3.0)
        v.assign(w * 2.0)
        return v * w

    def in_a_branch(v, w):
        return tf.cond(w > 0.0, lambda: v.assign(v * v) * 1.0, lambda: v * 1.0)

    def not_in_the_result(v, w):
        v.assign(v * v)
        return w * w

    def the_assignment_itself(v, w):
        w.assign(1.0)
        return v.assign(w)

    return [assigned_from_itself, added_to, in_a_loop, read_before, one_from_the_other, in_a_branch, not_in_the_result,
            the_assignment_itself]  # fmt: skip
