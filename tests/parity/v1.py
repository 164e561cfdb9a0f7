"""Graphs of TensorFlow 1, built first and run later."""

import numpy as np


def programs(tf):
    tf1 = tf.compat.v1

    def built(build):
        """What ``build`` gives as (fetches, feeds, ...) is run in one session, one run after the other."""

        def program():
            graph = tf1.Graph()
            with graph.as_default():
                runs = build()
            with tf1.Session(graph=graph) as session:
                return [_plain(session.run(fetches, feeds)) for fetches, feeds in runs]

        return program

    def joined():
        x = tf1.placeholder(name="x", shape=[], dtype=tf1.string)
        y = tf1.placeholder(name="y", shape=[], dtype=tf1.string)
        return [(tf.strings.join([x, y], separator=" "), {x: "hello", y: "world"})]

    def nested():
        x = tf1.placeholder(tf.float32, [None, 2])
        return [({"a": x * 2.0, "b": [tf.reduce_sum(x), (x,)]}, {x: np.ones((n, 2))}) for n in (1, 3)]

    def intermediate():
        x = tf1.placeholder(tf.float32, [])
        y = x + 1.0
        return [(y * 2.0, {x: 1.0}), (y * 2.0, {y: 10.0})]

    def assigned():
        v = tf1.Variable(1.0, name="v")
        more = tf1.assign_add(v, 2.0)
        return [(tf1.global_variables_initializer(), None), (v, None), (more, None), (v, None), ([v * 2.0], None)]

    def controlled():
        v = tf1.Variable(1.0)
        more = tf1.assign(v, v + 1.0)
        with tf1.control_dependencies([more]):
            after = tf1.identity(v) * 10.0
        return [(tf1.global_variables_initializer(), None), (after, None), (after, None), (v, None)]

    def grouped():
        a, b = tf1.Variable(1.0), tf1.Variable(2.0)
        both = tf1.group(a.assign(3.0), b.assign(4.0))
        return [(tf1.global_variables_initializer(), None), (both, None), ([a, b], None)]

    def differentiated():
        x = tf1.placeholder(tf.float32, [2])
        w = tf1.Variable([3.0, 4.0])
        y = tf.reduce_sum(w * x * x)
        return [(tf1.global_variables_initializer(), None), (tf1.gradients(y, [x, w]), {x: [1.0, 2.0]})]

    def trained(optimizer):
        def build():
            x, t = tf1.placeholder(tf.float64, [None]), tf1.placeholder(tf.float64, [None])
            w, b = (tf1.Variable(np.float64(0), name=n) for n in "wb")
            loss = tf.reduce_mean((w * x + b - t) ** 2)
            step = optimizer().minimize(loss)
            feeds = {x: np.linspace(-1, 1, 9), t: np.linspace(-1, 3, 9)}
            shown = [tf.round(v * 1e4) for v in (w, b, loss)]
            return [(tf1.global_variables_initializer(), None), *[(step, feeds)] * 5, (shown, feeds)]

        return build

    def looped():
        n = tf1.placeholder(tf.int32, [])
        return [(tf1.while_loop(lambda i: i < n, lambda i: i + 3, [0]), {n: 10})]

    def unpruned():
        x = tf1.placeholder(tf.float32, [])
        tf1.Variable(1.0).assign(2.0)
        return [(x + 1.0, {x: 1.0})]

    def unfed():
        return [(tf1.placeholder(tf.float32, [None, 2], name="x") + 1.0, None)]

    def misfed():
        x = tf1.placeholder(tf.float32, [None, 2], name="x")
        return [(x + 1.0, {x: [1.0, 2.0]})]

    def uninitialized():
        return [(tf1.Variable(1.0, name="v") + 1.0, None)]

    def chained():
        v = tf1.Variable([1.0, 2.0])
        first = v.assign([3.0, 4.0])
        with tf1.control_dependencies([first]):
            second = v.assign_add([1.0, 1.0])
        with tf1.control_dependencies([second]):
            third = v.assign(v * 2.0)
        return [(tf1.global_variables_initializer(), None), (third, None), (v, None), (second, None), (v, None)]

    def reversed_fetches():
        v = tf1.Variable(1.0)
        first = v.assign(5.0)
        with tf1.control_dependencies([first]):
            second = v.assign(v + 1.0)
        both = tf1.group(second, first)
        return [(tf1.global_variables_initializer(), None), (both, None), (v, None)]

    def updated_twice():
        v = tf1.Variable(1.0)
        both = [v.assign_add(2.0), v.assign_sub(0.5), v.assign_add(10.0)]
        step = tf1.group(*both)
        return [(tf1.global_variables_initializer(), None), (step, None), (v, None), (step, None), (v, None)]

    def unseen():
        v = tf1.Variable(1.0)
        with tf1.control_dependencies([tf.constant(0)]):
            v.assign(5.0)
            shown = v * 10.0
        return [(tf1.global_variables_initializer(), None), (shown, None), (v, None)]

    def unread():
        v = tf1.Variable(1.0)
        quiet = v.assign(5.0, read_value=False)
        return [(tf1.global_variables_initializer(), None), (v, None), (quiet, None), (v, None)]

    def controlled_by_new_names():
        v = tf1.Variable(1.0)
        both = tf.group(v.assign_add(1.0), tf.no_op())
        with tf.control_dependencies([both]):
            after = tf.identity(v) * 10.0
        return [(tf1.global_variables_initializer(), None), (after, None), (v, None)]

    def asserted():
        x = tf1.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.debugging.assert_positive(x)]):
            y = tf.identity(x) + 1.0
        return [(y, {x: 1.0}), (x * 2.0, {x: -1.0})]

    def assertion_fails():
        x = tf1.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.debugging.assert_positive(x)]):
            y = tf.identity(x) + 1.0
        return [(y, {x: -1.0})]

    def assigned_in_a_loop():
        v = tf1.Variable(1.0)
        last = tf.while_loop(lambda i: i < 3, lambda i: (i + tf.cast(v.assign_add(1.0) > 0.0, tf.int32),), [0])[0]
        return [(tf1.global_variables_initializer(), None), (last, None), (v, None)]

    def assigned_in_a_branch():
        v = tf1.Variable(1.0)
        x = tf1.placeholder(tf.float32, [])
        found = tf.cond(x > 0.0, lambda: v.assign_add(x), lambda: x)
        run = [(found, {x: 2.0}), (v, None), (found, {x: -2.0}), (v, None)]
        return [(tf1.global_variables_initializer(), None), *run]

    def called_function():
        v = tf1.Variable(1.0)

        @tf.function
        def step(x):
            v.assign_add(x)
            return x * 2.0

        found = step(tf.constant(3.0))
        return [(tf1.global_variables_initializer(), None), (v, None), (found, None), (v, None)]

    def drawn():
        a = tf.random.uniform([2], seed=1)
        return [(tf.reduce_all(a < 1.0), None), (a, None), (a, None), ([a, a], None)]

    def of_unknown_rank():
        x = tf1.placeholder(tf.float32, name="x")
        y = tf.reduce_sum(x * 2.0 + 1.0, axis=-1)
        fed = [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]
        return [*(((y, tf.shape(x), tf.rank(x)), {x: value}) for value in fed)]

    def differentiated_of_unknown_rank():
        x = tf1.placeholder(tf.float32)
        y = tf1.gradients(tf.reduce_sum(tf.reduce_max(x, axis=-1)), x)
        return [(y, {x: [[1.0, 2.0], [4.0, 3.0]]}), (y, {x: [1.0, 2.0]})]

    def fed_itself():
        x = tf1.placeholder(tf.float32, [2])
        return [([x, x + 1.0], {x: [1.0, 2.0]})]

    def sessions():
        graph = tf1.Graph()
        with graph.as_default():
            v = tf1.Variable(1.0)
            start, more = tf1.global_variables_initializer(), v.assign_add(1.0)
        session = tf1.Session(graph=graph)
        found = [tf1.get_default_session() is None]
        with session.as_default():
            start.run()
            session.run(more)
            found.append(tf1.get_default_session() is session)
            with session.as_default():
                found.append(tf1.get_default_session() is session)
            found.append(tf1.get_default_session() is session)
        found.append(tf1.get_default_session() is None)
        found.append(session.run(v).tolist())
        session.close()
        return found

    def session_graph():
        graph = tf1.Graph()
        with tf1.Session(graph=graph) as session:
            x = tf.constant(2.0) * 3.0
            inside = tf1.get_default_graph() is graph, tf.executing_eagerly(), session.run(x).tolist()
        return inside, tf.executing_eagerly(), _raised(lambda: session.run(x))

    def interactive():
        graph = tf1.Graph()
        session = tf1.InteractiveSession(graph=graph)
        v = tf1.Variable(1.0)
        tf1.global_variables_initializer().run()
        found = session.run(v).tolist(), tf1.get_default_graph() is graph, tf1.get_default_session() is session
        session.close()
        return *found, tf1.get_default_session() is None, tf.executing_eagerly()

    return {
        "a chain of assignments": built(chained),
        "fetched in another order": built(reversed_fetches),
        "updates of one variable": built(updated_twice),
        "an assignment that nothing depends on": built(unseen),
        "an assignment without a value": built(unread),
        "control dependencies by their new names": built(controlled_by_new_names),
        "an assertion": built(asserted),
        "an assertion that fails": lambda: type(_raised(built(assertion_fails))).__name__,
        "assigned in a loop": built(assigned_in_a_loop),
        "assigned in a branch": built(assigned_in_a_branch),
        "assigned by a function": built(called_function),
        "drawn": lambda: [_differ(run) for run in [built(drawn)()]],
        "a placeholder of unknown rank": built(of_unknown_rank),
        "gradients by a placeholder of unknown rank": built(differentiated_of_unknown_rank),
        "a fed tensor is fetched": built(fed_itself),
        "a default session stays open": sessions,
        "a session's graph": session_graph,
        "an interactive session": interactive,
        "running without a session": lambda: _raised(lambda: _no_session(tf1)),
        "joined": built(joined),
        "nested fetches": built(nested),
        "a fed tensor": built(intermediate),
        "assigned": built(assigned),
        "after an assignment": built(controlled),
        "grouped": built(grouped),
        "gradients": built(differentiated),
        "gradient descent": built(trained(lambda: tf1.train.GradientDescentOptimizer(0.1))),
        "momentum": built(trained(lambda: tf1.train.MomentumOptimizer(0.1, 0.5))),
        "adam": built(trained(lambda: tf1.train.AdamOptimizer(0.1, epsilon=1e-7))),
        "a loop": built(looped),
        "what is not fetched is not run": built(unpruned),
        "a placeholder eagerly": lambda: type(_raised(lambda: tf1.placeholder(tf.float32, []))).__name__,
        "a placeholder that is not fed": lambda: type(_raised(built(unfed))).__name__,
        "a value of another shape": lambda: str(_raised(built(misfed))),
        "a variable without a value": lambda: type(_raised(built(uninitialized))).__name__,
        "a closed session": lambda: _raised(lambda: _closed(tf1)),
    }


def _differ(runs):
    below, first, second, (third, same) = runs
    return below, first != second, third == same, second != third


def _no_session(tf1):
    with tf1.Graph().as_default():
        tf1.no_op().run()


def _closed(tf1):
    session = tf1.Session(graph=tf1.Graph())
    session.close()
    session.run([])


def _raised(run):
    try:
        return run()
    except Exception as error:
        return error


def _plain(x):
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(v) for v in x)
    return x.tolist() if hasattr(x, "tolist") else x
