"""Gradients by Variables that the differentiated function itself assigns: what is read of them is theirs, old or new."""


def programs(tf):
    made = {}
    for body in _bodies(tf):
        label = body.__name__.replace("_", " ")
        made[label] = _outside(tf, body, lambda f: f)
        made[f"{label}, traced"] = _outside(tf, body, tf.function)
    for body in _bodies(tf)[:3]:
        made[f"{body.__name__.replace('_', ' ')}, the tape inside"] = _inside(tf, body)
    return made


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
