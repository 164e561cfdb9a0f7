"""What the test suites of libraries use: second derivatives, order of references, test cases in graphs."""

import inspect
import unittest
from collections import OrderedDict, defaultdict, namedtuple
from contextlib import contextmanager

import numpy as np
from parity_calls import second_derivative

Pair = namedtuple("Pair", "first second")


def programs(tf):
    return {
        **_second_derivatives(tf),
        **_ranges(tf),
        **_sizes_of_constants(tf),
        **_sizes_of_variables(tf),
        **_computed_broadcasts(tf),
        **_references(tf),
        **_test_cases(tf),
        **_fetched(tf),
        **_replicated(tf),
        **_of_any_rank(tf),
        **_used_by_libraries(tf),
        **_branches_of_other_ranks(tf),
        **_split_by_computed_sizes(tf),
        **_equal_in_graphs(tf),
        **_of_variables_of_any_size(tf),
    }


def in_sweep(label):
    """Scans of any rank run in graphs of TensorFlow 1 by default, of which two are functions, too; diagonals on one side."""
    return label in (
        "of any rank, a scan backwards, traced",
        "of any rank, a scan from a value, traced",
        "of any size, diag_part, tall",
        "of any size, set_diag below",
    )


def _second_derivatives(tf):
    def second(f):
        return second_derivative(tf, lambda x, n: f(x))(tf.constant([1.0, -2.0, 7.0]), None)[2]

    def by_the_weights():
        w, x = tf.Variable([[1.0, -1.0]]), tf.constant([[2.0]])
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.nn.relu(tf.matmul(x, w))
            slope = inner.gradient(y, x)
            loss = tf.reduce_sum(slope * slope)
        return outer.gradient(loss, w)

    functions = {
        "relu": tf.nn.relu,
        "relu6": tf.nn.relu6,
        "leaky_relu": tf.nn.leaky_relu,
        "crelu": tf.nn.crelu,
        "max_pool": lambda x: tf.nn.max_pool1d(x[None, :, None], 2, 1, "VALID"),
        "abs": tf.abs,
        "maximum": lambda x: tf.maximum(x, 0.5),
        "where": lambda x: tf.where(x > 0, x, 0.0),
        "clip_by_value": lambda x: tf.clip_by_value(x, 0.0, 1.0),
    }
    made = {}
    for name, f in functions.items():
        made[f"second derivative, {name}"] = lambda f=f: second(f)
        made[f"second derivative, {name}, traced"] = lambda f=f: tf.function(second)(f)
    return made | {"a penalty on slopes": by_the_weights, "a penalty on slopes, traced": tf.function(by_the_weights)}


def _ranges(tf):
    def by_a_range(x):
        n = tf.reduce_sum(tf.cast(x > 0.5, tf.int32))
        steps = tf.range(n, dtype=tf.float32)
        return tf.gradients(tf.reduce_sum(steps * steps * x), [steps, x])

    def by_a_number(n):
        return [r - tf.cast(tf.range(7), r.dtype) * tf.cast(0.1, r.dtype) for r in (
            tf.range(0.0, n, 0.1, dtype=tf.float64), tf.range(0.0, n, 0.1), tf.range(0, tf.cast(n, tf.float32), 0.1)
        )]  # fmt: skip

    def sizes(n):
        total = 0.0
        for i in tf.range(n, dtype=tf.float32):
            total += i
        return total, tf.range(n, dtype=tf.float64), tf.range(0.0, n, 0.5)

    return {
        "gradients by a range": lambda: tf.function(by_a_range)(tf.ones(3)),
        "a range in another dtype": lambda: tf.range(tf.constant(3), dtype=tf.float32),
        "a range in another dtype, of all bounds": lambda: tf.range(
            tf.constant(1.5), tf.constant(4.5), tf.constant(1), tf.int32
        ),
        "ranges by a Python number, traced": lambda: tf.function(by_a_number)(tf.constant(0.7, tf.float64)),
        "ranges in other dtypes, traced": lambda: tf.function(sizes)(tf.constant(3)),
    }


def _sizes_of_constants(tf):
    def rows(mask):
        return tf.where(mask)[..., -1]

    def to_the_last(x, last):
        return x[..., : tf.reduce_max(rows(tf.not_equal(x, last))) + 2]

    def traced(build):
        shapes = []
        result = tf.function(lambda: shapes.append(build().shape) or build())()
        with tf.Graph().as_default():
            shapes.append(build().shape)
        return shapes, result

    def fed():
        with tf.compat.v1.Graph().as_default():
            mask = tf.compat.v1.placeholder_with_default([True, False, True], [3])
            return tf.range(9)[: tf.reduce_max(rows(mask)) + 1].shape

    def shapes_of_parts():
        kept = tf.boolean_mask([1.0, 0.0, 3.0], tf.constant([True, False, True]))
        count, unique = tf.shape(kept)[0], tf.unique([3, 1, 3, 1, 7])[0]
        ones = tf.ones([count, 3])
        places = tf.concat([tf.where(tf.constant([True, False, True])), [[5]]], 0)
        return [
            x.shape
            for x in (kept, tf.zeros([count * 2]), ones[:, 0] + kept, tf.broadcast_to(kept, [3, count]), ones[0, :count],
                      tf.tensor_scatter_nd_add(tf.zeros([9]), places, tf.ones(tf.shape(places)[:1])),
                      tf.range(tf.shape(unique)[0] + unique[0]), tf.get_static_value(tf.shape(unique)) or unique)
        ]  # fmt: skip

    def sizes_in_a_loop(x):
        count, size = tf.shape(tf.where(tf.constant([True, False, True])))[0], tf.shape(x)[0]
        shapes = []

        def body(i, total):
            pair, row = tf.reshape(tf.constant([1.0, 2.0]), [count, 1]), tf.reshape(tf.ones([6])[:size], [size, 1])
            shapes.extend([pair.shape, row.shape])
            return i + 1, total + tf.reduce_sum(pair) + tf.reduce_sum(row)

        return *tf.while_loop(lambda i, total: i < count, body, (0, 0.0)), tf.constant(str(shapes))

    def sizes_in_a_graph():
        with tf.Graph().as_default():
            return shapes_of_parts()

    def sizes_in_a_function():
        shapes = []
        tf.function(lambda: shapes.extend(shapes_of_parts()))()
        return shapes

    return {
        "sizes of parts of constants": sizes_in_a_graph,
        "sizes of parts of constants, traced": sizes_in_a_function,
        "sizes of parts of constants, in a loop": lambda: tf.function(
            sizes_in_a_loop, input_signature=[tf.TensorSpec([None], tf.float32)]
        )(tf.ones(3)),
        "a slice to the last true place": lambda: traced(lambda: to_the_last(tf.constant([[1, 2, 3, 3, 3]]), 3)),
        "a range of as many as are true": lambda: traced(
            lambda: tf.range(tf.reduce_sum(tf.ones_like(rows(tf.constant([True, False, True])))))
        ),
        "a size that may be fed": fed,
    }


def _sizes_of_variables(tf):
    def traced(build):
        def program():
            size = tf.Variable([2, 3])
            return tf.function(lambda: build(size))()

        return program

    return {
        f"a variable as a size, {name}": traced(build)
        for name, build in {
            "zeros": tf.zeros,
            "fill": lambda v: tf.fill(v, 1.0),
            "reshape": lambda v: tf.reshape(tf.range(6), v),
            "broadcast_to": lambda v: tf.broadcast_to(tf.constant([1]), v),
            "tile": lambda v: tf.tile([[1.0]], v),
            "slice": lambda v: tf.slice(tf.ones([4, 4]), [0, 0], v),
            "repeat": lambda v: tf.repeat([1, 2], v),
            "broadcast_dynamic_shape": lambda v: tf.broadcast_dynamic_shape(v, [1, 3]),
        }.items()
    }


def _computed_broadcasts(tf):
    def program(first, second, **options):
        f = tf.function(tf.broadcast_dynamic_shape, **options)
        try:
            return f(tf.constant(first), second)
        except tf.errors.InvalidArgumentError as error:
            return "Incompatible shapes" in str(error)

    any_length = {"input_signature": [tf.TensorSpec([None], tf.int32)] * 2}
    return {
        "shapes that broadcast": lambda: program([2, 1], tf.constant([1, 3])),
        "shapes that don't broadcast": lambda: program([2, 3], tf.constant([4, 1])),
        "shapes that don't broadcast, of any length": lambda: program([2, 3], tf.constant([4, 1]), **any_length),
        "a shape that doesn't broadcast to a list": lambda: program([2, 4], [3]),
        "a shape that broadcasts to a list": lambda: program([2, 1], [3]),
    }


def _references(tf):
    def refs():
        return tf.Variable(1.0), tf.Variable(2.0)

    def sorted_pairs():
        held = refs()
        first, second = sorted((id(v), v.ref()) for v in held)
        ordered = sorted(v.ref() for v in held) == [first[1], second[1]]
        return ordered, first[1] < second[1], first[1] > second[1], first[1] < first[1]

    def against(operation, other):
        return getattr(refs()[0].ref(), operation)(other)

    return {"references in order": sorted_pairs} | {
        f"a reference, {operation} {other!r}": lambda operation=operation, other=other: against(operation, other)
        for operation in ("__lt__", "__gt__", "__eq__", "__ne__")
        for other in (None, 3)
    }


def _test_cases(tf):
    class Case(tf.test.TestCase):
        def runTest(self):
            pass

    def eagerly(check):
        case = Case()
        case.setUp()
        return check(case)

    def in_a_graph(check):
        case = Case()
        case.setUp()
        with tf.Graph().as_default(), case.cached_session():
            return check(case)

    def x():
        return tf.constant([1.0, 2.0])

    def ragged():
        return tf.ragged.constant([[1.0], [2.0, 3.0]])

    checks = {
        "close": lambda c: c.assertAllClose(x(), [1.0, 2.0]),
        "close, a list": lambda c: c.assertAllClose([x(), x()], [[1.0, 2.0], [1.0, 2.0]]),
        "close, shapes": lambda c: c.assertAllClose([x(), tf.constant(1.0)], [[1.0, 2.0], 1.0]),
        "close, nests": lambda c: c.assertAllClose({"a": [x(), x()]}, {"a": [[1.0, 2.0], x()]}),
        "close, tuples": lambda c: c.assertAllClose((x(), 1.0), (x(), 1.0)),
        "close, named tuples": lambda c: c.assertAllClose(Pair(x(), 1.0), Pair(x(), 1.0)),
        "close, ragged": lambda c: c.assertAllClose(ragged(), [[1.0], [2.0, 3.0]]),
        "equal": lambda c: c.assertAllEqual(x(), [1.0, 2.0]),
        "equal, ragged": lambda c: c.assertAllEqual(ragged(), [[1.0], [2.0, 3.0]]),
        "equal, bytes": lambda c: c.assertAllEqual(tf.constant(["a"]), [b"a"]),
        "equal, texts": lambda c: c.assertAllEqual(tf.constant(["a"]), ["a"]),
        "not equal": lambda c: c.assertNotAllEqual(x(), [1.0, 2.5]),
        "not close": lambda c: c.assertNotAllClose(x(), [1.0, 2.5]),
        "by type": lambda c: c.assertAllCloseAccordingToType(x(), [1.0, 2.0]),
        "greater": lambda c: c.assertAllGreater(x(), 0),
        "in range": lambda c: c.assertAllInRange(x(), 0, 9),
        "in a set": lambda c: c.assertAllInSet(x(), [1.0, 2.0]),
        "greater than a tensor": lambda c: c.assertAllGreater(x() + 1.0, x()[:1]),
        "less than a tensor": lambda c: c.assertAllLess(x(), x()[1] + 1.0),
        "no less than a tensor": lambda c: c.assertAllGreaterEqual(x(), x()[0]),
        "no greater than a tensor": lambda c: c.assertAllLessEqual(x(), x()[1]),
        "an array": lambda c: c._GetNdArray(x()),
        "values": lambda c: c.evaluate(x()),
        "values of nests": lambda c: c.evaluate({"a": [x(), (x(),)]}),
        "values, sparse": lambda c: c.evaluate(tf.sparse.from_dense([1.0, 0.0])),
        "values, ragged": lambda c: c.evaluate(ragged()),
        "values, slices": lambda c: c.evaluate(tf.IndexedSlices(x(), tf.constant([0, 1]))),
    }

    def in_a_session(case):
        with case.cached_session() as session:
            return session.run({"a": x()})

    def skipped():
        """What runners of tests report of the method whose name is a test's."""
        result = unittest.TestResult()
        Case("test_session").run(result)
        return result.testsRun, [reason for _, reason in result.skipped]

    def made_inside():
        """The Variables that creators see while random numbers are drawn."""
        found = []

        def creator(make, **options):
            found.append(options["name"])
            return make(**options)

        with tf.Graph().as_default(), tf.variable_creator_scope(creator):
            tf.Variable(1.0, name="own")
            tf.random.normal([2])
            return found

    def by_a_tape():
        """Gradients of what is done where the graph is entered again."""
        with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
            v = tf.Variable(3.0)
            with tf.GradientTape() as tape:
                with graph.as_default():
                    y = v * v
                y += v
            slope = tape.gradient(y, v)
            session.run(tf.compat.v1.global_variables_initializer())
            return session.run(slope), [each is v for each in tape.watched_variables()]

    checks["in a session"] = in_a_session
    alone = {
        "values of nothing": lambda c: c.evaluate(None),
        "values of an array": lambda c: c.evaluate(np.ones(2)),
        "values of numbers": lambda c: c.evaluate([1.0, x()]),
        "values of a function": lambda c: c.evaluate(lambda: [x(), x()]),
    }
    return (
        {"creators are not asked for random numbers": made_inside, "a tape in a graph that is entered again": by_a_tape}
        | {"test case, the method that is named like a test": skipped}
        | {f"test case, {name}": lambda check=check: eagerly(check) for name, check in (checks | alone).items()}
        | {f"test case in a graph, {name}": lambda check=check: in_a_graph(check) for name, check in checks.items()}
    )  # fmt: skip


def _equal_in_graphs(tf):
    """There, and in functions, branches and loops of a graph, whether two are one object: they are keys of dictionaries."""

    def compared(a, b):
        found = {"a == a": a == a, "a == b": a == b, "a != b": a != b, "a == 0": a == 0.0, "a in [b]": a in [b]}
        return found | {"a != 0": a != 0.0, "a is None": a == None, "an array": np.ones(2, np.float32) == a}  # noqa: E711

    def within(build):
        with tf.Graph().as_default():
            found = []
            build(tf.constant([1.0, 2.0]), lambda *pair: found.append(compared(*pair)) or pair[0])
            return found[0], found[-1]  # how often a body is traced is nobody's business

    def variables(x, compare):
        v, w = tf.Variable(x), tf.compat.v1.get_variable("w", [2])
        compare(v, w), compare(w, x)

    def losses():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x, weights = tf.constant([1.0, 2.0, 4.0]), tf.constant([0.0, 1.0, 1.0])
            losses = tf.compat.v1.losses
            made = [losses.mean_squared_error(x, x[::-1], weights), losses.mean_pairwise_squared_error(x, x[::-1], 1.0)]
            return session.run([*made, tf.compat.v1.setdiff1d([1, 2, 3], [2])[0]])

    builds = {
        "tensors": lambda x, compare: compare(x, tf.identity(x)),
        "variables": variables,
        "in a branch": lambda x, compare: tf.cond(x[0] > 0.0, lambda: compare(x, x + 1.0), lambda: x),
        "in a loop": lambda x, compare: tf.while_loop(lambda y: y[0] < 3.0, lambda y: compare(y, x) + 1.0, [x]),
        "in a function": lambda x, compare: tf.function(lambda y: compare(y, x), autograph=False)(x),
        "in rows": lambda x, compare: tf.map_fn(lambda y: compare(y, x), x),
    }
    return {f"equal in a graph, {name}": lambda build=build: within(build) for name, build in builds.items()} | {
        "equality of the library in a graph": losses
    }


def _of_variables_of_any_size(tf):
    def variable(value, shape):
        return tf.Variable(np.array(value, np.float32), shape=tf.TensorShape(shape))

    def by_a_parameter(function):
        """The gradient through matrices of as many rows as a Variable has."""
        points, scale = variable(np.zeros([0, 1]), [None, 1]), tf.Variable(0.5)

        @tf.function
        def gradient():
            with tf.GradientTape() as tape:
                x = tf.convert_to_tensor(points)
                y = function(scale * tf.square(x - tf.transpose(x) - 0.25), scale)
            return y, tape.gradient(y, scale)

        found = []
        for rows in ([[1.0], [2.0], [4.0]], [[0.5], [0.25]]):
            points.assign(rows)
            found.append(gradient())
        return found

    functions = {
        "set_diag": lambda k, s: tf.linalg.set_diag(k, tf.linalg.diag_part(k) + s),
        "set_diag above": lambda k, s: tf.linalg.set_diag(k, tf.linalg.diag_part(k, k=1) + s, k=1),
        "set_diag below": lambda k, s: tf.linalg.set_diag(k, tf.linalg.diag_part(k, k=-1) + s, k=-1),
        "diag_part, wide": lambda k, s: tf.linalg.diag_part(k[1:]),
        "diag_part, tall": lambda k, s: tf.linalg.diag_part(k[:, 1:], k=-1),
    }
    linalg = tf.linalg
    operators = {
        "full": lambda v: linalg.LinearOperatorFullMatrix(v),
        "lower": lambda v: linalg.LinearOperatorLowerTriangular(v),
        "diagonal": lambda v: linalg.LinearOperatorDiag(v),
        "composed": lambda v: linalg.LinearOperatorComposition([linalg.LinearOperatorFullMatrix(v)] * 2),
        "blocks": lambda v: linalg.LinearOperatorBlockDiag([linalg.LinearOperatorFullMatrix(v)] * 2),
        "adjoint": lambda v: linalg.LinearOperatorFullMatrix(v).adjoint(),
    }

    def shapes(make):
        found = []
        for shape in (None, [None, None], [2, None], [2, 2]):
            operator = make(variable([[1.0, 0.5], [0.0, 2.0]], shape))
            found.append((operator.shape, operator.batch_shape, operator.tensor_rank, operator.shape_tensor()))
        return found

    lengths = tf.TensorSpec([None], tf.int32)
    broadcast = tf.function(tf.broadcast_dynamic_shape, input_signature=[lengths, lengths])
    pairs = [([2, 1], [3]), ([3], [2, 1]), (tf.constant([], tf.int32), [4]), ([1, 1, 5], [1])]
    return (
        {f"of any size, {name}": lambda f=f: by_a_parameter(f) for name, f in functions.items()}
        | {f"the shape that is declared, {name}": lambda make=make: shapes(make) for name, make in operators.items()}
        | {"shapes of any length": lambda: [broadcast(*pair) for pair in pairs]}
    )  # fmt: skip


def _fetched(tf):
    v1 = tf.compat.v1

    def run(fetches, feeds=None):
        with tf.Graph().as_default(), v1.Session() as session:
            x = tf.constant([1.0, 2.0])
            p, q = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.float32, [])
            return session.run(fetches(x, p * q), feeds and feeds(p, q))

    return {
        "fetched, ordered": lambda: [*run(lambda x, y: OrderedDict(b=x, a=2.0 * x)).items()],
        "fetched, default": lambda: run(lambda x, y: defaultdict(list, b=x)),
        "fetched, named": lambda: run(lambda x, y: [Pair(x, (x,))]),
        "fed a pair": lambda: run(lambda x, y: y, lambda p, q: {(p, q): ([1.0, 2.0], 3.0)}),
        "fed a named pair": lambda: run(lambda x, y: y, lambda p, q: {Pair(p, q): Pair(np.array([1.0, 2.0]), 3.0)}),
        "fed too much": lambda: run(lambda x, y: y, lambda p, q: {(p, q): ([1.0, 2.0], 3.0, 4.0)}),
    }


def _replicated(tf):
    synchronization, aggregation = tf.VariableSynchronization, tf.VariableAggregation

    def mirrored():
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        with strategy.scope():
            v = tf.Variable(1.0, name="v")
        strategy.run(lambda: v.assign_add(2.0))
        plain = tf.Variable(1.0)
        return (
            v.synchronization,
            v.aggregation.name,
            [each.numpy() for each in v.values],
            [each.read_value() for each in v._values],
            type(v).__name__,
            hasattr(plain, "values"),
        )

    class Local(tf.distribute.MirroredStrategy):
        """Makes Variables in its own way, wherever it is asked."""

        @contextmanager
        def scope(self):
            def locally(make, **arguments):
                return make(**(arguments | {"synchronization": synchronization.ON_READ, "trainable": False}))

            with super().scope(), tf.variable_creator_scope(locally):
                yield self

    def made_in_a_replica():
        strategy, made = Local(["CPU:0"]), []
        strategy.run(lambda: made.append(tf.Variable(1.0)))
        return made[0].synchronization, made[0].trainable, tf.distribute.has_strategy()

    def recreated():
        def locally(make, **arguments):
            if arguments["synchronization"] == synchronization.AUTO and arguments["aggregation"].name == "NONE":
                arguments |= {"synchronization": synchronization.ON_READ, "aggregation": aggregation.ONLY_FIRST_REPLICA}
            return make(**arguments)

        with tf.variable_creator_scope(locally):
            v = tf.Variable(1.0)
        return v.synchronization, v.aggregation

    def without_a_seed():
        tf.random.set_seed(None)
        first = tf.random.uniform([8]).numpy()
        tf.random.set_seed(None)
        return (first == tf.random.uniform([8]).numpy()).all()

    return {
        "a mirrored Variable": mirrored,
        "a creator asks the defaults": recreated,
        "a Variable made in a replica": made_in_a_replica,
        "no global seed": without_a_seed,
    }


def _of_any_rank(tf):
    v1 = tf.compat.v1

    def run(build, *fed):
        """A graph of two tensors of unknown rank, run with each pair of values."""
        with tf.Graph().as_default(), v1.Session() as session:
            x, y = v1.placeholder(tf.float32, name="x"), v1.placeholder(tf.float32, name="y")
            made = build(x, y)
            return [session.run(made, {x: a, y: b}) for a, b in fed]

    def gradients(x, y):
        total = tf.scan(lambda a, e: a * e, x, initializer=y)
        return tf.gradients(tf.reduce_sum(total * total), [x, y])

    def beside_another(x, y):
        rows = v1.placeholder_with_default([[1.0, 2.0], [3.0, 4.0]], [None, None])
        return tf.scan(lambda a, e: a + e, rows, initializer=tf.zeros_like(rows[0])), x + 0.0

    def traced(build):
        f = tf.function(build, input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)])
        return f(tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)), f(tf.ones([2, 2]), tf.ones([2]))

    fed = (([1.0, 2.0, 3.0], 2.0), ([[1.0, 2.0], [3.0, 4.0]], [1.0, -1.0]))
    builds = {
        "a scan": lambda x, y: tf.scan(lambda a, e: a + e, x),
        "a scan backwards": lambda x, y: tf.scan(lambda a, e: a * e, x, reverse=True),
        "a scan from a value": lambda x, y: tf.scan(lambda a, e: a * y + e, x, initializer=y),
        "a scan of two": lambda x, y: tf.scan(lambda a, e: (a[0] + e, a[1] * e), x, initializer=(y, y)),
        "a scan's gradients": gradients,
        "zeros by the last size": lambda x, y: tf.zeros([tf.shape(x)[-1]]),
        "a range by the last size": lambda x, y: tf.range(tf.shape(x)[-1]),
        "one_hot by the last size": lambda x, y: tf.one_hot([0, 1], tf.shape(x)[-1]),
        "a square by the last size": lambda x, y: tf.eye(tf.shape(x)[-1]),
        "rows as long as there are": lambda x, y: tf.reshape(x, [tf.shape(x)[-1], -1]),
    }
    return (
        {f"of any rank, {name}": lambda build=build: run(build, *fed) for name, build in builds.items()}
        | {
            f"of any rank, {name}, traced": lambda build=build: traced(build)
            for name, build in builds.items()
            if "gradients" not in name
        }
        | {"a scan beside a tensor of any rank": lambda: run(beside_another, (1.0, 2.0))}
    )


def _used_by_libraries(tf):
    rows = np.arange(6.0).reshape(2, 3)

    class Unprintable:
        dtype, name = tf.float32, "x"

        def __str__(self):
            raise ValueError("no text")

    def map_to(signature):
        return lambda: tf.map_fn(lambda row: (row, 2.0 * row), rows, fn_output_signature=signature)

    def shapes():
        found = []

        @tf.function(input_signature=[tf.TensorSpec([None, 1])])
        def f(mean):
            ones = tf.ones(tf.rank(mean) - 1, dtype=tf.int32)
            points = tf.reshape(tf.ones([25, 1]), tf.concat([[25], ones, [1]], axis=0))
            found.append((ones.shape, points.shape, (mean + points).shape))
            found.extend(x.shape for x in tf.unstack(mean + points, axis=-1))
            found.append(tf.reshape(mean, tf.fill([tf.rank(mean)], -1)[:1]).shape)
            return points

        return f(tf.ones([2, 1])).shape, found

    @tf.custom_gradient
    def doubled(x, *more):
        """Its own."""
        return 2.0 * x, lambda d: d

    def wrapped():
        return doubled.__original_wrapped__ is doubled.__wrapped__, doubled.__original_wrapped__.__doc__

    def arguments(function):
        spec = inspect.getfullargspec(function)
        return spec.args, spec.varargs, spec.varkw, spec.defaults

    class Held(tf.experimental.ExtensionType):
        value: tf.Tensor

        def __add__(self, other):
            return self.value + other

    @tf.function
    def checked(x):
        total = tf.zeros([], x.dtype)
        for i in tf.range(3):
            assert x.shape.rank == 0, f"rank {x.shape.rank} of {x.dtype.name}"
            total += tf.cast(i, x.dtype) * x
        return total

    return {
        "a dtype of what has no text": lambda: tf.debugging.assert_same_float_dtype([Unprintable(), tf.constant(1.0)]),
        "a transposed convolution's shape as floats": lambda: tf.nn.conv2d_transpose(
            tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 1, 1]), np.array([1.0, 4.0, 4.0, 1.0], np.float32), 2
        ),
        "rows to NumPy's classes": map_to((np.float64, np.float64)),
        "rows to NumPy's dtypes": map_to((np.dtype("float64"), "float64")),
        "no rows to NumPy's classes": lambda: tf.map_fn(lambda row: row, rows[:0], fn_output_signature=np.float64),
        "sizes of ones": shapes,
        "what a gradient's function wraps": wrapped,
        "arguments of a gradient's function": lambda: arguments(doubled),
        "arguments of a tf.function": lambda: arguments(tf.function(lambda x, y=1: x)),
        "arguments of an op": lambda: arguments(tf.add),
        "an object as a loop variable": lambda: tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a + 1.0), (tf.constant(0), Held(tf.constant([1.0])))
        ),
        "map_structure by name": lambda: [*inspect.signature(tf.nest.map_structure).parameters][0],
        "an assertion that tells more": lambda: checked(tf.constant(2.0)),
    }


def _branches_of_other_ranks(tf):
    def by_rank(spec, x):
        @tf.function(input_signature=[spec])
        def column(x):
            return tf.cond(tf.equal(tf.rank(x), 1), lambda: x[:, None], lambda: x)

        return column(x)

    def by_a_constant(is_whole):
        return tf.function(lambda x: tf.cond(tf.constant(is_whole), lambda: tf.reduce_sum(x), lambda: 2 * x))(
            tf.ones([3])
        )

    return {
        "a branch for vectors, of a vector": lambda: by_rank(tf.TensorSpec([None]), tf.range(3.0)),
        "a branch for vectors, of a matrix": lambda: by_rank(tf.TensorSpec([None, None]), tf.ones([2, 3])),
        "a branch for vectors, of any rank": lambda: by_rank(tf.TensorSpec(None), tf.range(3.0)),
        "branches of other ranks, the first one always": lambda: by_a_constant(True),
        "branches of other ranks, the second one always": lambda: by_a_constant(False),
    }


def _split_by_computed_sizes(tf):
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([3], tf.int32)])
    def pieces(x, sizes):
        with tf.GradientTape() as tape:
            tape.watch(x)
            first, second, third = tf.split(x, sizes)
            y = tf.reduce_sum(first * first) + 2 * tf.reduce_sum(second) + tf.reduce_prod(third)
        return first, second, third, tape.gradient(y, x)

    def split(*sizes):
        return lambda: pieces(tf.reshape(tf.range(1.0, 13.0), [6, 2]), tf.constant(sizes))

    return {
        "split by computed sizes": split(1, 3, 2),
        "split by computed sizes, an empty one": split(4, 0, 2),
        "split by computed sizes that are too few": split(1, 1, 1),
    }
