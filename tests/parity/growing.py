"""Arrays of dynamic size, and Variables of unknown size, that ``while`` loops make larger; and their gradients."""

from functools import partial

from parity_calls import first_derivative, second_derivative


def programs(tf):
    return {name: _run(tf, make) for name, make in {**_forward(tf), **_gradients(tf)}.items()} | _variables(tf)


def in_sweep(label):
    """Other second derivatives are of arrays made, written and read in the same ways, in loops and in branches of loops."""
    return label in (
        "in a branch: second",
        "made in a branch: second",
        "a function: second",
        "while_loop: second",
        "a function: gradient",
    )


def _run(tf, make):
    def run():
        body, *arguments = make()
        return tf.function(body)(*arguments)

    return run


def _array(tf, dtype=None, size=0, **options):
    return tf.TensorArray(dtype or tf.float32, size=size, dynamic_size=True, **options)


def _forward(tf):
    def plain(n):
        rows, i, y = _array(tf), 0, 1.0
        while y < n:
            rows = rows.write(i, y)
            y, i = y * 2.0, i + 1
        return rows.stack(), rows.size()

    def next_index(n):
        rows, i = _array(tf, tf.int32), 0
        while i < n:
            rows = rows.write(i + 1, i)
            i += 1
        return rows.stack()

    def gaps(n):
        rows, i = _array(tf, tf.int32), 0
        while i < n:
            i += 1
            if i % 5 == 0:
                rows = rows.write(i, i)
        return rows.stack()

    def several(n):
        rows, others, i = _array(tf, tf.int32), _array(tf), 0
        while i < n:
            rows = rows.write(2 * i, i)
            rows = rows.write(2 * i + 1, -i)
            others = others.write(others.size(), tf.fill([2], tf.cast(i, tf.float32)))
            i += 1
        return rows.stack(), others.stack(), others.concat()

    def for_in_while(n):
        rows, i, k = _array(tf, tf.int32), 0, 0
        while i < n:
            for j in tf.range(i):
                rows = rows.write(k, j * i)
                k += 1
            i += 1
        return rows.stack()

    def while_in_while(n):
        rows, i, k = _array(tf, tf.int32), 0, 0
        while i < n:
            j = 0
            while j < i:
                rows = rows.write(k, j * i)
                k, j = k + 1, j + 1
            i += 1
        return rows.stack()

    def dataset():
        rows, i = _array(tf, tf.int64), 0
        for value in tf.data.Dataset.range(20):
            rows = rows.write(i, value * value)
            i = i + 1
        return rows.stack()

    return {
        "plain": lambda: (plain, tf.constant(3e5)),
        "no iteration": lambda: (plain, tf.constant(0.0)),
        "the next index": lambda: (next_index, tf.constant(20)),
        "gaps": lambda: (gaps, tf.constant(22)),
        "several": lambda: (several, tf.constant(21)),
        "for in while": lambda: (for_in_while, tf.constant(7)),
        "while in while": lambda: (while_in_while, tf.constant(7)),
        "a dataset": lambda: (dataset,),
    }


def _gradients(tf):
    first, second = partial(first_derivative, tf), partial(second_derivative, tf)

    def powers(x, n):
        rows, y = _array(tf), x
        while y < n:
            rows = rows.write(rows.size(), y * x)
            y = y * x
        return tf.reduce_sum(rows.stack() ** 2)

    def sometimes(x, n):
        rows, i, y = _array(tf), 0, x
        while y < n:
            if i % 2 == 0:
                rows = rows.write(rows.size(), tf.stack([y * x, y]))
            y, i = y * x, i + 1
        return tf.reduce_sum(rows.stack() ** 2)

    def within(x, n):
        rows, i, k = _array(tf), 0, 0
        while i < 6:
            j = 0
            while j < i:
                rows = rows.write(k, x ** tf.cast(j, tf.float32))
                k, j = k + 1, j + 1
            i += 1
        return tf.reduce_sum(rows.stack())

    def read(x, n):
        rows, i = _array(tf, size=1).write(0, x), 1
        while i < 12:
            rows = rows.write(i, rows.read(i - 1) * x + rows.read(0))
            i += 1
        return tf.reduce_sum(rows.stack())

    def by_function(x, n):
        rows = _array(tf, element_shape=[])
        _, rows, _ = tf.while_loop(
            lambda i, rows, y: y < n, lambda i, rows, y: (i + 1, rows.write(i, y), y * x), (0, rows, x)
        )
        return tf.reduce_sum(rows.stack())

    def made_in_a_branch(x, n):
        return tf.cond(x > 0.0, lambda: powers(x, n), lambda: x)

    def made_in_a_loop(x, n):
        i = 0
        while i < 3:
            rows, j = _array(tf, element_shape=[]), 0
            while j < i + 2:
                rows = rows.write(j, x * x * 0.125 * tf.cast(j, tf.float32))
                j += 1
            x, i = tf.reduce_sum(rows.stack()), i + 1
        return x

    def made_in_a_branch_in_a_loop(x, n):
        i = 0
        while i < 2:
            if i < 1:
                x = within(x, n) * 0.125
            i += 1
        return x

    inner = tf.function(powers)
    bodies = {
        "powers": powers,
        "in a branch": sometimes,
        "loops in loops": within,
        "what is read": read,
        "while_loop": by_function,
        "made in a branch": made_in_a_branch,
        "made in a loop": made_in_a_loop,
        "made in a branch in a loop": made_in_a_branch_in_a_loop,
        "a function": lambda x, n: inner(x, n),
    }
    forms = {"gradient": first, "second": second}
    return {
        f"{name}: {form}": lambda b=body, m=make: (m(b), tf.constant(2.0), tf.constant(300.0))
        for name, body in bodies.items()
        for form, make in forms.items()
    }


def _variables(tf):
    """Variables of declared unknown sizes, which iterations change."""

    def variable(rows=((1.0,), (2.0,)), shape=(None, 1)):
        return tf.Variable(tf.constant(rows), shape=shape)

    def row(i):
        return [[tf.cast(i, tf.float32)]]

    def grows(v, n):
        for i in tf.range(n):
            v.assign(tf.concat([v, row(i)], 0))
        return v + 1.0

    def shrinks(v, n):
        for _ in tf.range(n):
            v.assign(v[1:])
        return v.read_value(), tf.reduce_sum(v)

    def until(v, n):
        while tf.size(v) < n:
            v.assign(tf.concat([v, v], 0))
        return tf.shape(v)

    def in_branches(v, n):
        for i in tf.range(n):
            if i % 2 == 0:
                v.assign(tf.concat([v, row(i)], 0))
        return v.read_value()

    def in_inner_loop(v, n):
        for i in tf.range(n):
            for j in tf.range(i):
                v.assign(tf.concat([v, row(j)], 0))
        return v.read_value()

    def until_break(v, n):
        total = 0.0
        for i in tf.range(n):
            if tf.size(v) > 3:
                break
            v.assign(tf.concat([v, row(i)], 0))
            total += tf.reduce_sum(v)
        return v.read_value(), total

    def beside_a_tensor(v, n):
        x = tf.zeros([0, 1])
        for _ in tf.range(n):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None, 1]))])
            x = tf.concat([x, v], 0)
            v.assign(tf.concat([v, x], 0))
        return x, v.read_value()

    def over_a_dataset(v, n):
        for i in tf.data.Dataset.range(3):
            v.assign(tf.concat([v, row(i)], 0))
        return tf.reduce_sum(v)

    def gradient_after(v, n):
        grows(v, n)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(v * v)
        return y, tape.gradient(y, v)

    def two(v, n):
        w = tf.concat([v, v], 0)
        kept = weights
        for _ in tf.range(n):
            v.assign(tf.concat([v, kept], 0))
            kept.assign(v[1:] + 1.0)
        return v.read_value(), kept.read_value(), w

    def by_function(v, n):
        for _ in tf.range(n):
            appended(v)
        return v.read_value()

    weights = variable()
    appended = tf.function(lambda v: v.assign(tf.concat([v, [[3.0]]], 0)))

    def on_several(body, limits=(0, 1, 3)):
        def run():
            weights.assign(tf.constant([[1.0], [2.0]]))
            function, v = tf.function(body), variable()
            return [function(v, tf.constant(limit)) for limit in limits], v

        return run

    bodies = [grows, shrinks, in_branches, in_inner_loop, until_break, beside_a_tensor, over_a_dataset, gradient_after]
    return {f"a Variable, {body.__name__}": on_several(body) for body in [*bodies, two, by_function]} | {
        "a Variable, until": on_several(until, (1, 5, 9))
    }
