"""Shapes that programs set on values of run-time size; dims of TensorFlow 1; equality by identity."""


def programs(tf):
    return _claimed(tf) | _dims(tf) | _equality(tf)


def _claimed(tf):
    def padded():
        x, seen = tf.zeros([4, 2]), []
        for i in tf.range(4):
            x = tf.concat([x[:i], tf.ones([1, 2])], axis=0)
            seen.append(x.shape)
            x.set_shape([4, 2])
            seen.append(x.shape)
        return x, [s.as_list() == [4, 2] for s in seen]

    def false_in_between(n):
        x = tf.zeros([3])
        sizes = tf.constant([], tf.int32)
        for i in tf.range(n):
            x = tf.range(tf.cast(i, tf.float32) + 1.0)
            x.set_shape([3])
            sizes = tf.concat([sizes, [tf.size(x)]], 0)
            sizes.set_shape([0])
        return x

    def by_while_loop():
        seen = []

        def body(i, x):
            x = tf.concat([x[:i], tf.ones([i + 2])], 0)
            x.set_shape([3])
            seen.append(x.shape)
            return i + 1, x

        _, x = tf.while_loop(lambda i, x: i < 3, body, [0, tf.zeros([3])])
        return x, x.shape, len(seen) > 0

    def with_effects(x, v):
        seen = []
        for i in tf.range(3):
            seen.append(x.shape)
            v.assign_add(tf.reduce_sum(x))
            x = tf.concat([x[:i], tf.ones([3 - i])], 0) * v
            x.set_shape([3])
        return x, v.read_value(), len(seen)

    def nested(x):
        seen = []
        for i in tf.range(2):
            for j in tf.range(2):
                x = tf.concat([x[: i + j], tf.ones([3 - i - j])], 0) + 1.0
                x.set_shape([3])
                seen.append(x.shape)
        return x, len(seen)

    def array_beside(x):
        rows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for i in tf.range(3):
            x = tf.concat([x[:i], tf.ones([3 - i])], 0) * 2.0
            x.set_shape([3])
            rows = rows.write(i, x)
        return rows.stack(), x

    def masked(x):
        y = tf.boolean_mask(x, x > 1.0)
        before = y.shape.as_list()
        y.set_shape([2])
        return y + 1.0, tf.shape(y), y.shape, before == [None]

    def differentiated(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.boolean_mask(x, x > 1.0)
            y.set_shape([2])
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x)

    def in_a_branch(x):
        y = tf.boolean_mask(x, x > 1.0)
        y.set_shape([2])
        return tf.cond(x[0] > 0.0, lambda: tf.zeros(y.shape) + y, lambda: y)

    def rejected(x):
        y = tf.boolean_mask(x, x > 1.0)
        y.set_shape([2])
        y.set_shape([3])

    def reshaped_before(size):
        def run(x):
            y = tf.boolean_mask(x, x > 1.0)
            count = tf.shape(y)[0]
            rows = tf.reshape(tf.repeat(x, count), [count, -1])
            y.set_shape([size])
            return rows, tf.zeros([6 // count]), tf.reshape(tf.range(6), [count, -1]), tf.range(count) + tf.size(y)

        return run

    def argument_of_none(x):
        count = tf.size(x)
        x.set_shape([0])
        return tf.zeros([6 // count]), tf.reshape(tf.range(6), [count, -1]), x.shape

    x = tf.constant([1.0, 2.0, 3.0])
    unknown = [tf.TensorSpec([None], tf.float32)]
    return {
        "reshaped before 0 is claimed": lambda: tf.function(reshaped_before(0))(x),
        "reshaped before 1 is claimed": lambda: tf.function(reshaped_before(1))(x),
        "of an argument of no elements": lambda: tf.function(argument_of_none, input_signature=unknown)(x),
        "padded in a loop": lambda: tf.function(padded)(),
        "by while_loop": lambda: tf.function(by_while_loop)(),
        "with effects": lambda: tf.function(with_effects)(x, tf.Variable(1.0)),
        "gradient of a loop": lambda: _gradient(tf, tf.function(nested), x),
        "nested": lambda: tf.function(nested)(x),
        "an array beside": lambda: tf.function(array_beside)(x),
        "masked": lambda: tf.function(masked)(x),
        "differentiated": lambda: tf.function(differentiated)(x),
        "in a branch": lambda: tf.function(in_a_branch)(x),
        "two claims": lambda: tf.function(rejected)(x),
        "false in between": lambda: tf.function(false_in_between)(tf.constant(3)),
        "a shape returned": lambda: tf.function(lambda x: x.shape)(x),
    }


def _gradient(tf, function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = function(x)
    return tape.gradient(y, x)


def _dims(tf):
    v1 = tf.compat.v1
    dim, two, unknown = v1.Dimension, v1.Dimension(2), v1.Dimension(None)
    return {
        "a dim": lambda: (two, unknown, str(two), str(unknown), two.value, dim(two), int(two), "abc"[two]),
        "sums": lambda: (two + 1, 1 + two, two - 1, 5 - two, two * 3, 7 // two, two % 2, unknown + two),
        "compared": lambda: (two == 2, two != 3, two < 3, two >= unknown, unknown == unknown, two == "a"),
        "divided": lambda: two / 2,
        "merged": lambda: (two.merge_with(None), unknown.merge_with(2), two.is_compatible_with(3)),
        "merged with another": lambda: two.merge_with(3),
        "below": lambda: dim(-1),
        "of text": lambda: dim("x"),
        "hashed": lambda: hash(two),
        "listed": lambda: (tf.TensorShape([1, None]).dims, tf.TensorShape(None).dims),
        "in a shape": lambda: (tf.TensorShape([two, unknown]), tf.zeros([two, 1]).shape),
        "values": lambda: [v1.dimension_value(d) for d in (two, 3, None, unknown)],
        "at an index": lambda: [v1.dimension_at_index(tf.TensorShape(s), 0) for s in ([1], [None], None)],
        "at an index, in TensorFlow 2": lambda: tf.compat.dimension_at_index(tf.TensorShape([1, 2]), 1).value,
        "what is on": lambda: (v1.resource_variables_enabled(), v1.control_flow_v2_enabled()),
        "outside functions": lambda: v1.executing_eagerly_outside_functions(),
    }


def _equality(tf):
    def by_identity(compare):
        def run():
            tf.compat.v1.disable_tensor_equality()
            try:
                return compare(tf.constant([1, 2]), tf.constant([1, 2]), tf.Variable([1, 2]))
            finally:
                tf.compat.v1.enable_tensor_equality()

        return run

    return {
        "equal by identity": by_identity(lambda a, b, v: (a == b, a == a, a != b, a != a)),
        "Variables by identity": by_identity(lambda a, b, v: (v == v, v == a, v != a, {v: 1}[v])),
        "looked for by identity": by_identity(lambda a, b, v: (a in [b], a in [b, a])),
        "equal again": lambda: (tf.constant([1, 2]) == tf.constant([1, 3])).numpy(),
    }
