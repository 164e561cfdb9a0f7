"""Programs of TensorFlow 1 with Variables and gradients in loops and branches, and with Variables of the same value."""

import numpy as np
from parity_calls import result_or_kind
from tf1_support import rounded, scripts


def programs(tf):
    v2, tf = tf, tf.compat.v1

    def looped(f):
        return tf.while_loop(lambda j, _: j < 2, lambda j, total: (j + 1, total + f(j)), (0, tf.zeros([2])))[1]

    def gradients_in_loops(print):
        v, w = tf.Variable([1.0, 2.0]), tf.Variable([5.0, 6.0])
        p = tf.placeholder(tf.float32, [2])
        table = tf.Variable(np.arange(6.0, dtype=np.float32).reshape(3, 2))
        y, product, rows = v * v * p, v * p, tf.gather(table, [0, 2])
        square = product * product
        slope = tf.gradients(v * v * v, v)[0]
        with tf.control_dependencies([w.assign([7.0, 8.0])]):
            after = w * w
            of_assigned = looped(lambda j: tf.gradients(after[j], w)[0])
        of_loop = looped(lambda j: tf.gradients((v * v * v)[j], v)[0])
        fetches = {
            "a Variable": looped(lambda j: tf.gradients((v * v * p)[j], v)[0]),
            "a placeholder": looped(lambda j: tf.gradients((v * v * p)[j], p)[0]),
            "both": looped(lambda j: tf.add_n(tf.gradients(y[j], [v, p]))),
            "a tensor": looped(lambda j: tf.gradients(square[j], product)[0]),
            "an assigned Variable": of_assigned,
            "a branch": tf.cond(p[0] > 0, lambda: tf.gradients(v * p, v)[0], lambda: p),
            "nothing": looped(lambda j: tf.zeros([2]) if tf.gradients(w[j], v)[0] is None else tf.ones([2])),
            "zeros": looped(lambda j: tf.gradients(w[j], [v], unconnected_gradients="zero")[0] + 1.0),
            "stopped": looped(lambda j: tf.gradients((v * p)[j], [v], stop_gradients=[p])[0]),
            "weighted": looped(lambda j: tf.gradients(v * p, [v], grad_ys=[tf.constant([2.0, 3.0])])[0]),
            "of a gradient": looped(lambda j: tf.gradients(slope[j], v)[0]),
            "twice": looped(lambda j: tf.gradients(tf.gradients(v * v * v * p, v)[0][j], v)[0]),
            "of a loop of gradients": tf.gradients(of_loop, v)[0],
            "rows": looped(lambda j: tf.convert_to_tensor(tf.gradients(rows[j], table)[0])[2]),
            "a map": tf.map_fn(lambda i: tf.gradients((v * v)[i], v)[0], tf.range(2), dtype=tf.float32),
            "a function": v2.function(lambda: tf.gradients(v * v * p, v)[0], autograph=False)(),
            "a function's argument": v2.function(lambda x: tf.gradients(x * x * v, x)[0], autograph=False)(p),
        }
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for name, tensor in fetches.items():
                print(name, rounded(sess.run(tensor, {p: [3.0, 4.0]})))

    def equal_values(print):
        def ones():  # by a loop with an effect: it writes an array
            array = tf.TensorArray(tf.float32, 2, element_shape=[])
            return tf.while_loop(lambda j, _: j < 2, lambda j, a: (j + 1, a.write(j, 1.0)), (0, array))[1].stack()

        v, w = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
        constant = tf.constant(np.zeros(5000, np.float32))
        large, other = tf.Variable(constant), tf.Variable(constant)
        drawn = tf.random.normal([2], 3.0, 0.0)
        added = tf.group(v.assign_add(ones()), w.assign_add(ones()))
        increased = tf.group(*(x.assign_add(constant + tf.reduce_sum(ones())) for x in (large, other)))
        init = tf.global_variables_initializer()
        with tf.Session() as sess:
            for op in (init, added, tf.group(v.assign(drawn), w.assign(drawn)), added, w.assign(v), added, init, added):
                sess.run(op)
                print(rounded(sess.run([v, w])))
            sess.run(increased)
            print([float(x[0]) for x in sess.run([large, other, constant])])

    def without_values(print):
        """Variables without a value, which only branches and loops' bodies read or assign."""
        p, k, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [None])

        def assigned_first(v):
            with tf.control_dependencies([v.assign(x * 2.0)]):
                return v.read_value()

        def some_iterations(v, assigns, otherwise):
            """A loop that assigns ``v`` in some iterations, and in others adds what ``otherwise`` returns."""

            def body(i, total):
                added = tf.cond(assigns(i), lambda: assigned_first(v), otherwise)
                with tf.control_dependencies([added]):
                    return i + 1, total + added

            return tf.while_loop(lambda i, _: i < k, body, (0, x))[1]

        def each(v, w):
            square = tf.cond(p, lambda: tf.reduce_sum(v * v * x), lambda: tf.reduce_sum(x))
            return {
                "read": tf.cond(p, v.read_value, lambda: x),
                "unless initialized": tf.cond(tf.is_variable_initialized(v), v.read_value, lambda: v.assign(x)),
                "assigned": tf.cond(p, lambda: v.assign(x), lambda: x),
                "assigned and read": tf.cond(p, lambda: assigned_first(v), lambda: x),
                "nested": tf.cond(p, lambda: tf.cond(k > 0, lambda: v + w, lambda: x + w), lambda: x),
                "a loop": tf.while_loop(lambda i, _: i < k, lambda i, s: (i + 1, s + v), (0, x))[1],
                "a condition": tf.while_loop(lambda i: tf.cast(i, tf.float32) < w, lambda i: i + 1, (0,)),
                "assigned in a loop": tf.while_loop(
                    lambda i, _: i < k, lambda i, s: (i + 1, s + tf.reduce_sum(v.assign(x))), (0, 0.0)
                )[1],
                "assigned in some iterations": some_iterations(v, lambda i: i > 0, lambda: x),
                "read in later iterations": some_iterations(v, lambda i: tf.equal(i, 0), v.read_value),
                "assigned in an inner loop": tf.while_loop(
                    lambda i, _: i < k, lambda i, s: (i + 1, some_iterations(v, lambda j: j > i, lambda: x)), (0, x)
                )[1],
                "a map": tf.map_fn(lambda i: v + tf.cast(i, tf.float32), tf.range(k), tf.float32),
                "a gradient": tf.gradients(square, [v])[0],
                "the predicate": tf.cond(w > 0.0, lambda: x, lambda: v + x),
            }

        v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
        initialized = [tf.is_variable_initialized(v), tf.is_variable_initialized(w)]
        for name, op in each(v, w).items():
            with tf.Session() as sess:
                for initializer in (None, w.initializer, v.initializer):
                    if initializer is not None:
                        sess.run(initializer)
                    for taken, count in ((False, 0), (True, 2)):
                        feeds = {p: taken, k: count, x: [3.0, 5.0]}
                        answer = result_or_kind(lambda op=op, feeds=feeds: rounded(sess.run(op, feeds)))
                        print(name, answer, sess.run(initialized))

    def after_python(print):
        """Variables read in branches and loops that call Python, and after them."""
        v, p, x = tf.Variable([1.0, 2.0]), tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [None])

        def doubled(call):
            return tf.reshape(call(lambda a: a * 2.0, [v * 1.0], tf.float32), [2])

        ops = [
            tf.cond(p, lambda: doubled(tf.py_function), lambda: x),
            tf.cond(p, lambda: doubled(tf.numpy_function) + v, lambda: x),
            tf.while_loop(lambda i, _: i < 2, lambda i, s: (i + 1, s + v + doubled(tf.numpy_function)), (0, x))[1],
            v * 2.0,
        ]
        with tf.Session() as sess:
            sess.run(v.initializer)
            for op in ops:
                print([rounded(sess.run(op, {p: taken, x: [1.0, 1.0]})) for taken in (True, False)])

    def python_of_any_rank(print):
        """Branches that call Python, whose result's rank the call tells, and what is computed of them."""
        p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [2])

        def squares(call):
            return call(lambda a: a * a, [x], tf.float32)

        ops = [
            tf.cond(p, lambda: squares(tf.py_func), lambda: x),
            tf.reduce_sum(tf.cond(p, lambda: squares(tf.py_function), lambda: x * 3.0)),
            tf.cond(p, lambda: squares(tf.py_function), lambda: squares(tf.py_function) + 1.0) * x,
            tf.cond(p, lambda: tf.cond(x[0] > 0.0, lambda: squares(tf.py_func), lambda: x), lambda: x * 3.0),
        ]
        with tf.Session() as sess:
            for op in ops:
                print([rounded(sess.run(op, {p: taken, x: [1.0, 2.0]})) for taken in (True, False)])

    def read_after_ops(print):
        """Variables read after several ops, which a fetch of the read runs, also those of other variables."""

        def increase(*variables):
            return tf.group(*(x.assign_add(1.0) for x in variables))

        for way in ("group", "operation returned by a branch", "read outside", "of another variable"):
            with tf.Graph().as_default(), tf.Session() as sess:
                v, w, p = tf.Variable(2.0), tf.Variable(0.0), tf.placeholder(tf.bool, [])
                op = increase(w) if way == "of another variable" else increase(v, w)
                if way == "operation returned by a branch":
                    op = tf.cond(p, lambda op=op: op, tf.no_op)
                with tf.control_dependencies([op]):
                    read = v.read_value()
                fetch = read * 2.0 if way == "read outside" else read
                gradient = tf.gradients(read * read, [v])[0]
                sess.run(tf.global_variables_initializer())
                for taken in (True, False):
                    print(way, rounded(sess.run(fetch, {p: taken})), rounded(sess.run([v, w])))
                print(rounded(sess.run([gradient, read], {p: True})))

    return scripts(tf, locals())
