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

    return {
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
