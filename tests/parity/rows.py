"""IndexedSlices as gradients: those of gathers, their sums, and what clipping and optimizers do with them."""


def programs(tf):
    made = {}
    for label, program in _gradients(tf).items():
        made[label] = program
        made[f"{label}, traced"] = tf.function(program)
    return made | _across(tf) | _clipped(tf) | _steps(tf)


def _table(tf):
    return tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def _gradients(tf):
    def of(function, **options):
        def program():
            x = _table(tf)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tf.nest.flatten(tape.gradient(y, x, **options), expand_composites=True)

        return program

    def of_variable(function):
        table = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

        def program():
            with tf.GradientTape() as tape:
                y = function(table)
            return tf.nest.flatten(tape.gradient(y, table), expand_composites=True)

        return program

    def second_order():
        x = _table(tf)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.gather(x, [1, 1]) ** 3
            rows = inner.gradient(y, x)
        return rows.values, tf.convert_to_tensor(outer.gradient(rows.values, x))

    def jacobian():
        x = _table(tf)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.gather(x, [1, 1])
        return tape.jacobian(y, x)

    def given():
        x = _table(tf)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        rows = tf.IndexedSlices(tf.constant([[1.0, 1.0]]), tf.constant([1]), tf.constant([3, 2]))
        return tape.gradient(y, x, output_gradients=rows)

    at = [2, 0, 2]
    return {
        "gather": of(lambda x: tf.gather(x, at)),
        "gather of a matrix of indices": of(lambda x: tf.gather(x, [[0], [1]])),
        "gather of one index": of(lambda x: tf.gather(x, 1)),
        "gather along another axis": of(lambda x: tf.gather(x, [0, 0], axis=1)),
        "gather along the first axis, counted from the last": of(lambda x: tf.gather(x, [0, 0], axis=-2)),
        "gather with batch_dims": of(lambda x: tf.gather(x, [[0], [1], [1]], batch_dims=1)),
        "gather by int64": of(lambda x: tf.gather(x, tf.constant([1], tf.int64)) + tf.gather(x, [2])),
        "two gathers": of(lambda x: tf.gather(x, at) + tf.gather(x, [1, 1, 1])),
        "gather and a sum": of(lambda x: tf.reduce_sum(tf.gather(x, at)) + tf.reduce_sum(x)),
        "gather of a product": of(lambda x: tf.gather(2.0 * x, at)),
        "gather of an identity": of(lambda x: tf.gather(tf.identity(x), at)),
        "gather of a cast": of(lambda x: tf.gather(tf.cast(x, tf.float64), at)),
        "gather, unconnected zero": of(lambda x: tf.gather(x, at), unconnected_gradients="zero"),
        "embedding_lookup": of(lambda x: tf.nn.embedding_lookup(x, at)),
        "gather_nd of rows": of(lambda x: tf.gather_nd(x, [[0], [1], [1]])),
        "gather_nd of elements": of(lambda x: tf.gather_nd(x, [[0, 1], [1, 1]])),
        "index": of(lambda x: x[1]),
        "boolean_mask": of(lambda x: tf.boolean_mask(x, [True, False, True])),
        "repeat": of(lambda x: tf.repeat(x, [1, 0, 2], axis=0)),
        "variable": of_variable(lambda v: tf.gather(v, at)),
        "variable, squared": of_variable(lambda v: tf.gather(v, at) ** 2),
        "variable, embedding_lookup": of_variable(lambda v: tf.nn.embedding_lookup(v, at)),
        "variable, two gathers": of_variable(lambda v: tf.gather(v, at) * tf.gather(v, [1, 1, 1])),
        "second order": second_order,
        "jacobian": jacobian,
        "rows as output_gradients": given,
    }


def _across(tf):
    """A tape around a traced function."""

    def of(function, source):
        traced = tf.function(function)

        def program():
            with tf.GradientTape() as tape:
                tape.watch(source)
                y = traced(source)
            return tf.nest.flatten(tape.gradient(y, source), expand_composites=True)

        return program

    def captured():
        table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        lookup = tf.function(lambda i: tf.gather(table, i) * 2.0)
        with tf.GradientTape() as tape:
            y = lookup(tf.constant([1, 1]))
        return tf.nest.flatten(tape.gradient(y, table), expand_composites=True)

    def looped(x):
        total = tf.constant(0.0)
        for i in tf.range(2):
            total += tf.reduce_sum(tf.gather(x, [i]))
        return total

    x = _table(tf)
    return {
        "across: gather": of(lambda x: tf.gather(x, [2, 0]), x),
        "across: gather and a sum": of(lambda x: tf.reduce_sum(tf.gather(x, [2, 0])) + tf.reduce_sum(x), x),
        "across: captured variable": captured,
        "across: loop": of(looped, x),
    }


def _slices(tf, values, indices, shape=(4, 2)):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant(shape))


def _clipped(tf):
    def rows():
        return _slices(tf, [[3.0, 4.0], [0.0, 0.0]], [1, 3])

    def parts(structure):
        return tf.nest.flatten(structure, expand_composites=True)

    dense = tf.constant([[5.0, 12.0]])
    return {
        "clip_by_norm": lambda: tf.clip_by_norm(dense, 2.0),
        "clip_by_norm by rows": lambda: tf.clip_by_norm(dense, 2.0, axes=[1]),
        "clip_by_norm of zeros": lambda: tf.clip_by_norm(tf.zeros([2]), 2.0),
        "clip_by_norm of slices": lambda: parts(tf.clip_by_norm(rows(), 2.0)),
        "clip_by_value of slices": lambda: parts(tf.clip_by_value(rows(), -1.0, 3.5)),
        "global_norm": lambda: tf.linalg.global_norm([dense, rows(), None]),
        "global_norm of nothing": lambda: tf.linalg.global_norm([]),
        "clip_by_global_norm": lambda: parts(tf.clip_by_global_norm([dense, rows(), None], 2.0)),
        "clip_by_global_norm, within": lambda: parts(tf.clip_by_global_norm([dense], 100.0)),
        "clip_by_global_norm, its norm given": lambda: parts(
            tf.clip_by_global_norm([dense], 2.0, use_norm=tf.constant(26.0))
        ),
        "clip_by_global_norm of infinity": lambda: parts(
            tf.clip_by_global_norm([tf.constant([1.0, float("inf")])], 2.0)
        ),
        "scalar_mul of slices": lambda: parts(tf.math.scalar_mul(2.0, rows())),
        "add_n of slices": lambda: tf.add_n([rows(), tf.ones([4, 2])]),
        "accumulate_n": lambda: tf.math.accumulate_n([dense, dense, dense]),
    }


def _steps(tf):
    optimizers = {
        "SGD": lambda: tf.keras.optimizers.SGD(0.5),
        "SGD with momentum": lambda: tf.keras.optimizers.SGD(0.5, momentum=0.5),
        "SGD with weight decay": lambda: tf.keras.optimizers.SGD(0.5, weight_decay=0.5),
        "SGD, clipped": lambda: tf.keras.optimizers.SGD(0.5, clipnorm=1.0),
        "Adam": lambda: tf.keras.optimizers.Adam(0.5),
        "AdamW": lambda: tf.keras.optimizers.AdamW(0.5, weight_decay=0.5),
        "RMSprop": lambda: tf.keras.optimizers.RMSprop(0.5),
    }

    def steps(make, traced):
        def program():
            table, bias = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.Variable([0.5, 0.5])
            optimizer = make()
            optimizer.build([table, bias])

            def step(at):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum((tf.gather(table, at) + bias) ** 2)
                grads = tape.gradient(loss, [table, bias])
                optimizer.apply_gradients(zip(grads, [table, bias]))
                return loss

            run = tf.function(step) if traced else step
            losses = [float(run(tf.constant(at))) for at in ([2, 0, 2], [1, 1, 2])]
            return [f"{x:.5g}" for x in [*losses, *table.numpy().ravel(), *bias.numpy()]]

        return program

    return {
        f"{label}{', traced' if traced else ''}": steps(make, traced)
        for label, make in optimizers.items()
        for traced in (False, True)
    }
