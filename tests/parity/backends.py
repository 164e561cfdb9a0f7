"""Functions that libraries with a TensorFlow backend use, found by running their tests."""

import numpy as np


def programs(tf):
    return {
        **_operators(tf),
        **_known(tf),
        **_seeded(tf),
        **_without_input(tf),
        **_in_graphs(tf),
        **_summed(tf),
        **_empty(tf),
        **_tested(tf),
        **_calling_itself(tf),
    }


def _operators(tf):
    """Classes that borrow a tensor's operators."""
    values = {"int": [7, -7], "float": [7.0, -7.0], "complex": [1 + 2j], "bool": [True]}

    def divided(value):
        x = tf.constant(value)
        return [x.__div__(2), x.__rdiv__(2), tf.Variable(x).__div__(2)]

    return {
        "operators": lambda: sorted(tf.Tensor.OVERLOADABLE_OPERATORS),
        "operators of each kind": lambda: [
            all(hasattr(kind, name) for name in tf.Tensor.OVERLOADABLE_OPERATORS)
            for kind in (tf.Tensor, type(tf.constant(1)), tf.Variable)
        ],
        "nonzero": lambda: [tf.constant(value).__nonzero__() for value in (0, 2.0)],
        **{f"divided, {kind}": lambda value=value: divided(value) for kind, value in values.items()},
    }


def _known(tf):
    """Static values of what is no tensor: itself."""
    values = (np.float32(2), np.ones(2), [1, 2], (tf.constant(1),), tf.TensorShape([1, 2]), None, "a", {"b": 1})
    composites = {
        "ragged": lambda: tf.RaggedTensor.from_row_lengths([1], [1]),
        "sparse": lambda: tf.SparseTensor([[0]], [1], [1]),
        "indexed": lambda: tf.IndexedSlices(tf.ones([1]), tf.constant([0])),
    }
    return {
        "static values of no tensors": lambda: [tf.get_static_value(value) for value in values],
        **{f"static value, {kind}": lambda made=made: tf.get_static_value(made()) for kind, made in composites.items()},
    }


def _seeded(tf):
    """Seeds of any size: those that libraries make of hashes."""
    sizes = (2**31 - 1, 2**40, 2**70, -1, 10**80, -(10**80))

    def drawn(seed):
        tf.random.set_seed(1)
        return tf.random.uniform([2], seed=seed), tf.function(lambda: tf.random.uniform([2], seed=seed))()

    def drawn_after(seed):
        tf.random.set_seed(seed)
        return tf.random.uniform([2], seed=1), tf.random.uniform([2])

    return {
        "seeds of ops": lambda: [drawn(seed) for seed in sizes],
        "seeds of all": lambda: [drawn_after(seed) for seed in sizes],
    }


def _without_input(tf):
    """Placeholders of TensorFlow 1 outside its graphs."""
    placeholder = tf.compat.v1.placeholder_with_default

    @tf.function
    def shaped(shape):
        x = placeholder([1.0, 2.0], shape)
        return x + 1.0, str(x.shape)

    return {
        "a placeholder": lambda: tf.compat.v1.placeholder(tf.float32, [2]),
        "defaults": lambda: [placeholder([1.0, 2.0], shape) for shape in ([2], [None], None, [3])],
        "defaults in functions": lambda: [shaped(shape) for shape in ([2], [None])],
    }


def _in_graphs(tf):
    """The graph of a function being traced, by TensorFlow 1's name for it."""
    v1 = tf.compat.v1

    def message(answers):
        @tf.function
        def traced(x):
            answers.append(answer(v1.get_default_graph(), x))
            return x

        def answer(graph, x):
            with tf.name_scope("s"):
                scoped = graph.unique_name("a"), graph.unique_name("a"), graph.get_name_scope()
            names = [
                graph.unique_name(name, mark_as_used=used) for name, used in (("a", True), ("a", False), ("a", True))
            ]
            return graph.name, names, scoped, graph.building_function, graph is x.graph, isinstance(graph, tf.Graph)

        traced(tf.constant(1.0))
        return answers

    def of_a_branch():
        found = []

        @tf.function
        def traced(x):
            outer = v1.get_default_graph()
            if x > 0.0:
                found.append((v1.get_default_graph() is outer, v1.get_default_graph().outer_graph is outer))
                x = x + 1.0
            return x

        return traced(tf.constant(1.0)), found

    def collected():
        @tf.function
        def traced(x):
            v1.add_to_collection("kept", x)
            return len(v1.get_collection("kept")), len(v1.get_default_graph().get_collection("other"))

        return traced(tf.constant(1.0))

    def seeded():
        tf.random.set_seed(7)
        return tf.function(lambda: [tf.constant(s) for s in v1.get_seed(3)])()

    return {
        "the graph of a function": lambda: message([]),
        "the graph of a branch": of_a_branch,
        "collections of a function": collected,
        "seeds of a function": seeded,
    }


def _summed(tf):
    """Gradients of own making, summed over the axes that were broadcast."""

    def axes(x, y):
        return tuple(tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(y)))

    def summed(x, y):
        return [tf.reshape(tf.reduce_sum(x * y, of), tf.shape(t)) for of, t in zip(axes(x, y), (x, y))]

    shapes = [((), (3,)), ((3,), ()), ((2, 1), (3,)), ((2, 1, 3), (4, 1, 5, 3)), ((2, 3), (2, 3)), ((1,), (1,))]
    shapes += [((1, 1), (1,)), ((), ()), ((0,), (1,)), ((0, 3), (3,))]
    unknown = [([None], [], (3,), ()), ([None, 3], [3], (2, 3), (3,)), ([None, 1], [3], (2, 1), (3,))]
    unknown += [([None], [1], (4,), (1,)), ([None], [None], (3,), (3,)), ([None], [3], (1,), (3,))]

    def traced(first, second, *given):
        run = tf.function(summed, input_signature=[tf.TensorSpec(first), tf.TensorSpec(second)])
        return run(*map(tf.ones, given))

    return {
        "axes that were broadcast": lambda: [axes(*map(tf.ones, pair)) for pair in shapes],
        "axes that were broadcast, traced": lambda: [tf.function(axes)(*map(tf.ones, pair)) for pair in shapes],
        "axes that don't fit": lambda: tf.raw_ops.BroadcastGradientArgs(s0=[2, 3], s1=[4]),
        "summed": lambda: [tf.function(summed)(*map(tf.ones, pair)) for pair in shapes],
        **{f"summed, {case}": lambda case=case: traced(*case) for case in unknown},
    }


def _empty(tf):
    """Matrices without elements."""
    shapes = ((0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2))

    def diagonals(run):
        return [run(tf.zeros(shape)) for shape in shapes]

    return {
        "empty diagonals": lambda: diagonals(tf.linalg.diag_part),
        "empty diagonals, traced": lambda: diagonals(tf.function(tf.linalg.diag_part)),
        "empty diagonals set": lambda: diagonals(lambda x: tf.linalg.set_diag(x, tf.linalg.diag_part(x))),
    }


def _tested(tf):
    """Tests of TensorFlow 1's graphs."""
    v1 = tf.compat.v1

    class Tests(tf.test.TestCase):
        def test_sessions(self):
            with self.session() as session:
                self.assertNotIsInstance(session, v1.Session)
            with tf.Graph().as_default():
                self.of_graph()
            self.assertAllEqual(self.evaluate(tf.constant([1.0])), [1.0])

        def of_graph(self):
            x, kept = v1.placeholder(tf.float32, [2]), v1.get_variable("kept", initializer=1.0)
            with self.session() as session:
                self.assertAllEqual(session.run(x * 2.0, {x: [1.0, 2.0]}), [2.0, 4.0])
                session.run(kept.initializer)
                session.run(kept.assign_add(1.0))
                self.assertEqual(self.evaluate(kept), 2.0)
            with self.cached_session() as first:
                first.run(kept.initializer)
            with self.test_session() as second:
                self.assertIs(first, second)
                self.assertEqual(self.evaluate({"a": kept}), {"a": 1.0})
            self.assertEqual(self.evaluate(kept + 2.0), 3.0)

    def failures():
        result = Tests("test_sessions").run()
        return result.testsRun, [text for _, text in (*result.failures, *result.errors)]

    return {"sessions of tests": failures}


def _calling_itself(tf):
    """A gradient of own making that calls its function."""

    def doubled(x):
        @tf.custom_gradient
        def of_own_making(x):
            return x * 2.0, lambda dy: dy * doubled(x)

        return of_own_making(x)

    def first(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = doubled(x)
        return y, tape.gradient(y, x)

    def second(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            _, found = first(x)
        return tape.gradient(found, x)

    def repeated(x):
        for _ in tf.range(2):
            x = doubled(x)
        return x

    def of_a_loop():
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.function(repeated)(x)
        return y, tape.gradient(y, x)

    runs = {"alone": doubled, "once": first, "twice": second}
    return {
        **{
            f"a gradient that calls itself, {message}": lambda run=run: run(tf.constant(3.0))
            for message, run in runs.items()
        },
        **{
            f"a gradient that calls itself, {message}, traced": lambda run=run: tf.function(run)(tf.constant(3.0))
            for message, run in runs.items()
        },
        "a gradient that calls itself, of a loop": of_a_loop,
    }
