"""Functions: when they are traced, arguments, results and errors."""

import collections

import numpy as np
from parity_calls import of_all_ranks

Pair = collections.namedtuple("Pair", "first second")


def programs(tf):
    return (
        _counts(tf)
        | _signatures(tf)
        | _ranks(tf)
        | _variables(tf)
        | _of_init_scope(tf)
        | _results(tf)
        | _misuse(tf)
        | _inspection(tf)
        | _concrete(tf)
    )


def _counts(tf):
    def count(function, calls):
        counts = []
        for args, kwargs in calls:
            function(*args, **kwargs)
            counts.append(function.experimental_get_tracing_count())
        return counts

    def of(*values):
        return [((v,), {}) for v in values]

    class Thing:
        pass

    def tensors():
        one, two = tf.constant(1), tf.constant(2)
        return count(
            tf.function(lambda x: x),
            of(one, two, tf.constant([1]), tf.constant([1, 2]), tf.constant(1.0), tf.constant(True), tf.constant([3])),
        )

    def python_values():
        return count(tf.function(lambda x: x), of(1, 1, 2, 1.0, True, None, "a", "a", b"a", 1j, 1j))

    def structures():
        values = (1, 2), [1, 2], [1, 2], {"a": 1}, {"a": 1}, {"b": 1}, {"a": 2}, [], (), [[]], Pair(1, 2), Pair(1, 2)
        return count(tf.function(lambda x: 0), of(*values))

    def tensors_in_structures():
        a, b = tf.constant(1.0), tf.constant([1.0])
        values = (a, a), (a, b), [a, a], {"x": a, "y": b}, {"y": b, "x": a}, {"x": b, "y": a}
        return count(tf.function(lambda x: 0), of(*values))

    def arrays():
        values = (
            np.float32(1),
            np.float32(2),
            np.float64(2),
            np.array([1, 2]),
            np.array([3, 4]),
            np.array([1.0]),
            np.int64(3),
        )
        return count(tf.function(lambda x: x), of(*values))

    def objects():
        a, b = Thing(), Thing()
        return count(tf.function(lambda t: 0), of(a, a, b, a, Thing(), Thing()))

    def functions():
        def first():
            return 1

        return count(tf.function(lambda f: 0), of(first, first, len, first, len))

    def defaults():
        calls = [((1,), {}), ((1, 1), {}), ((1,), {"y": 1}), ((1,), {"y": 2}), ((), {"x": 1, "y": 2})]
        calls += [
            ((tf.constant(1),), {}),
            ((tf.constant(1), tf.constant(1)), {}),
            ((tf.constant(2),), {"y": tf.constant(3)}),
        ]
        return count(tf.function(lambda x, y=1: x + y), calls)

    def varargs():
        one = tf.constant(1)
        calls = [((one,), {}), ((one, one), {}), ((one,), {"k": one}), ((one,), {"j": one}), ((one, one), {})]
        return count(tf.function(lambda *args, **kwargs: 0), calls)

    def keyword_order():
        one = tf.constant(1)
        return count(tf.function(lambda **kw: 0), [((), {"a": one, "b": one}), ((), {"b": one, "a": one})])

    def relaxed():
        f = tf.function(lambda x: x + 1, reduce_retracing=True)
        return count(f, of(*(tf.zeros(s) for s in ([1], [2], [3], [4], [2, 2], [3, 2], [3, 5], [7, 9]))))

    def relaxed_pairs():
        f = tf.function(lambda x, y: 0, reduce_retracing=True)
        return count(
            f, [((tf.zeros([n]), tf.zeros([m])), {}) for n, m in ((1, 1), (2, 1), (3, 1), (3, 2), (4, 5), (6, 7))]
        )

    def relaxed_numbers():
        return count(tf.function(lambda x: 0, reduce_retracing=True), of(1, 2, 3, 1.0, 2.0))

    def methods():
        class Owner:
            @tf.function
            def double(self, x):
                traces.append(self)
                return x * 2

        traces = []
        a, b = Owner(), Owner()
        for owner in (a, a, b, a, b):
            owner.double(tf.constant(1.0))
        return len(traces)

    return {f"count {f.__name__}": f for f in (
        tensors, python_values, structures, tensors_in_structures, arrays, objects, functions, defaults, varargs,
        keyword_order, relaxed, relaxed_pairs, relaxed_numbers, methods,
    )}  # fmt: skip


def _signatures(tf):
    spec = tf.TensorSpec

    def specified(*specs, body=lambda x: x + 1):
        return tf.function(body, input_signature=specs)

    def serves_all():
        f = specified(spec([None], tf.float32))
        made = f(tf.zeros([1])), f(tf.zeros([2])), f([1.0, 2.0]), f(np.ones(3, np.float32))
        return made, f.experimental_get_tracing_count()

    def nested():
        f = specified({"a": spec([None]), "b": (spec([]),)}, body=lambda d: d["a"] * d["b"][0])
        return f({"a": tf.ones([2]), "b": (tf.constant(3.0),)}), f.experimental_get_tracing_count()

    def with_default():
        return specified(spec([None]), body=lambda x, y=2.0: x * y)(tf.ones([2]))

    return {
        "signature serves all": serves_all,
        "signature nested": nested,
        "signature with a default": with_default,
        "signature keyword": lambda: specified(spec([None]))(x=tf.ones([2])),
    }


def _ranks(tf):
    """One trace for all ranks: its Python runs once."""
    shapes = [3], [2, 3], [2, 3, 2]
    scale = tf.Variable(1.0)

    @tf.function
    def inner(x):
        return x * 3.0 + tf.cast(tf.size(x), tf.float32)

    def branch(x):
        if tf.reduce_sum(x) > 10.0:  # noqa: SIM108 - what is converted
            y = x * 2.0
        else:
            y = -x
        return y

    def doubled(x):
        i = 0
        while i < tf.rank(x):
            x = x * 2.0
            i += 1
        return x

    def differentiated(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(x) + 2.0 * x)
        return tape.gradient(y, x)

    def updated(x):
        scale.assign_add(tf.reduce_sum(x))
        return scale * x

    bodies = {
        "elementwise": lambda x: tf.nn.relu(x - 1.0) + x,
        "reductions": lambda x: (tf.reduce_sum(x), tf.reduce_max(x, axis=-1), tf.reduce_mean(x, 0, keepdims=True)),
        "shapes": lambda x: (tf.shape(x), tf.size(x), tf.rank(x), tf.reshape(x, [-1])),
        "reshaped": lambda x: tf.reshape(tf.reshape(x, [-1]) * 2.0, tf.shape(x)),
        "filled": lambda x: tf.zeros_like(x) + tf.ones(tf.shape(x)) + tf.broadcast_to(tf.reduce_max(x), tf.shape(x)),
        "indexed": lambda x: (x[..., 0], x[tf.newaxis], x[-1]),
        "joined": lambda x: (tf.concat([x, x], -1), tf.stack([x, x])),
        "transposed": lambda x: tf.transpose(x),
        "compared": lambda x: tf.where(x == 2.0, x, 0.0),
        "cond": lambda x: tf.cond(tf.size(x) > 4, lambda: x + 1.0, lambda: x - 1.0),
        "rank in Python": lambda x: x if x.shape.rank == 1 else x + 100.0,
        "function within": lambda x: inner(x) + 1.0,
        "branch": branch, "loop": doubled, "gradient within": differentiated, "variable": updated,
    }  # fmt: skip

    def gradient_around(body):
        def program():
            f = tf.function(body, input_signature=[tf.TensorSpec(None)])
            found = []
            for shape in shapes:
                x = tf.reshape(tf.range(float(np.prod(shape))), shape)
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = f(x)
                found.append(tape.gradient(y, x))
            return found, f.experimental_get_tracing_count()

        return program

    def third_rank():
        calls = []

        def counted(x):
            calls.append(x)
            return tf.reduce_sum(x) * 2.0

        f = tf.function(counted, reduce_retracing=True)
        shapes = [1], [2], [3], [2, 2], [3, 2], [2, 2, 2], [1, 2, 3, 4], [], [5]
        results = [f(tf.ones(shape)).numpy() for shape in shapes]
        return results, len(calls), f.experimental_get_tracing_count()

    def seen():
        tensors = []

        @tf.function(input_signature=[tf.TensorSpec(None)], autograph=False)
        def f(x):
            tensors.extend([x, x + 1.0, tf.reduce_sum(x), tf.shape(x), tf.reshape(x, [-1])])
            return x

        f(tf.ones([2, 3]))
        return [t.shape for t in tensors], tensors[0].shape.rank, f.get_concrete_function().structured_input_signature

    def not_for_its_rank():
        f = tf.function(lambda x: tf.transpose(x, [1, 0]), input_signature=[tf.TensorSpec(None)])
        f(tf.ones([2, 3]))
        try:
            f(tf.ones([2, 3, 4]))
        except tf.errors.InvalidArgumentError as error:
            return type(error).__name__, f.experimental_get_tracing_count()

    def failing_trace():
        f = tf.function(lambda x: tf.matmul(x, x))
        for shape in ([2, 3], [3, 2], [2, 2]):
            try:
                f(tf.ones(shape))
            except ValueError:
                continue
        return f.experimental_get_tracing_count()

    return (
        {f"any rank: {name}": of_all_ranks(tf, body, shapes) for name, body in bodies.items()}
        | {
            f"any rank: gradient of {n}": gradient_around(bodies[n])
            for n in ("elementwise", "branch", "function within")
        }
        | {
            "seen of any rank": seen,
            "third rank": third_rank,
            "not for its rank": not_for_its_rank,
            "failing trace": failing_trace,
        }
    )


def _variables(tf):
    def created_once():
        class Lazy:
            v = None

            @tf.function
            def __call__(self, x):
                traces.append(x)
                if self.v is None:
                    self.v = tf.Variable(2.0)
                return self.v * x

        traces = []
        lazy = Lazy()
        results, counts = [], []
        for x in 1.0, 2.0, [1.0]:
            results.append(lazy(tf.constant(x)).numpy())
            counts.append(len(traces))
        return results, counts

    def created_twice():
        try:
            tf.function(lambda x: tf.Variable(1.0) * x)(tf.constant(1.0))
        except ValueError as error:
            return str(error).splitlines()[-1].strip().removeprefix("ValueError: ")

    def as_arguments():
        a, b, wide = tf.Variable(1.0), tf.Variable(2.0), tf.Variable([1.0, 2.0])
        f = tf.function(lambda v: v + 1)
        made = [(f(v).numpy(), f.experimental_get_tracing_count()) for v in (a, b, a, wide)]
        return made

    def same_and_other():
        a, b = tf.Variable(1.0), tf.Variable(2.0)

        @tf.function
        def f(x, y):
            x.assign_add(10.0)
            return x + y

        return [(f(*vs).numpy(), f.experimental_get_tracing_count()) for vs in ((a, b), (b, a), (a, a), (b, b))]

    def op_assign_in_order():
        v = tf.Variable(1.0)

        @tf.function
        def f():
            before = v * 1.0
            v.assign_add(1.0)
            between = v * 1.0
            v.assign(v * 10.0)
            return before, between, v

        return f(), f(), v.numpy()

    def failing_op_between():
        v, table = tf.Variable(1.0), tf.constant([1.0, 2.0])

        @tf.function
        def f(i):
            v.assign(2.0)
            v.assign(tf.gather(table, i))
            v.assign(4.0)

        try:
            f(tf.constant(5))
        except tf.errors.InvalidArgumentError:
            return v.numpy()
        return "not refused"

    def unused_failing_op():
        @tf.function
        def f(i):
            tf.gather(tf.constant([1.0, 2.0]), i)
            return i + 1

        return f(tf.constant(5))

    return {f"variable {f.__name__}": f for f in (
        created_once, created_twice, as_arguments, same_and_other, op_assign_in_order, failing_op_between, unused_failing_op,
    )}  # fmt: skip


def _of_init_scope(tf):
    """Variables that are created in `tf.init_scope` are the function's: it is traced again, and has name scopes of its own."""

    def traced(create, calls=(2.0, [2.0])):
        """The results, how often the function had been traced after each, and the names of the Variables."""
        made, traces, results = [], [], []

        @tf.function
        def f(x):
            traces.append(x)
            with tf.name_scope("inside"), tf.init_scope():
                create(made, x)
            return x * made[-1]

        with tf.name_scope("outside"):
            for value in calls:
                try:
                    results.append((f(tf.constant(value)).numpy().tolist(), len(traces)))
                except ValueError as error:
                    results.append((str(error).rpartition("tf.function only")[1], len(traces)))
        return results, [variable.name for variable in made]

    def once(made, x):
        if not made:
            made.append(tf.Variable(3.0, name="one"))

    def always(made, x):
        made.append(tf.Variable(3.0, name="each"))

    def later(made, x):
        if not made or len(made) == 1 and x.shape.rank == 1:
            made.append(tf.Variable(3.0))

    def in_a_called_function():
        made, traces = [], []

        @tf.function
        def inner(x):
            traces.append("inner")
            with tf.init_scope():
                once(made, x)
            return x * made[0]

        @tf.function
        def outer(x):
            traces.append("outer")
            with tf.name_scope("outer"):
                return inner(x)

        return outer(tf.constant(2.0)).numpy(), traces, made[0].name

    def counted_in_branches():
        """As an optimizer of Keras 2 does, which counts in Python how often branches were traced."""
        made, counts = [], [1]
        product = tf.Variable(1.0)

        def computed():
            product.assign(product * 0.5)
            counts.append(len(counts) + 1)
            return product.read_value()

        @tf.function
        def step(i):
            with tf.init_scope():
                once(made, i)
            return [tf.cond(len(counts) == i, product.read_value, computed) for _ in range(2)]

        return [[float(value) for value in step(tf.constant(i))] for i in range(2, 6)], counts

    return {
        "in init_scope, once": lambda: traced(once),
        "in init_scope, always": lambda: traced(always),
        "in init_scope, later": lambda: traced(later),
        "in init_scope, in a called function": in_a_called_function,
        "in init_scope, counted in branches": counted_in_branches,
    }


def _results(tf):
    def result(make):
        return lambda: tf.function(make)(tf.constant(2))

    def unknown_shape():
        try:
            return tf.function(lambda x: x.shape, input_signature=[tf.TensorSpec([None])])(tf.ones([2]))
        except TypeError as error:
            return str(error).partition("; in comp")[0]

    v = tf.Variable(5)
    return {
        "return none": result(lambda x: None),
        "return number": result(lambda x: 3),
        "return numbers": result(lambda x: (1, 2.5, True, "a", np.float64(2), [4])),
        "return mixed": result(lambda x: (x, None, 3, {"a": 2.5, "b": [x + 1]})),
        "return namedtuple": result(lambda x: Pair(x, x + 1)),
        "return argument": result(lambda x: x),
        "return same twice": result(lambda x: (x + 1,) * 2),
        "return empty": result(lambda x: ((), [], {})),
        "return ordered": result(lambda x: collections.OrderedDict(b=x, a=x + 1)),
        "return captured": result(lambda x, c=tf.constant(7): c),
        "return large captured": result(lambda x, c=tf.range(100): c[-1] + c[x]),
        "return variable": result(lambda x: v),
        "return assigned": result(lambda x: v.assign_add(x)),
        "return shape": lambda: tf.function(lambda x: (x.shape, [x[0].shape]))(tf.ones([2, 3])),
        "return unknown shape": unknown_shape,
        "return constants": result(lambda x: tf.zeros([2]) + 1),
    }


def _misuse(tf):
    def ints_and_floats():
        tf.function(lambda x: x + tf.constant(1.5))(tf.constant(1))

    def last_line(program):
        def run():
            try:
                program()
            except Exception as error:
                raise type(error)(str(error).strip().splitlines()[-1].strip().split(": ")[-1]) from None

        return run

    return {
        "int + float": last_line(ints_and_floats),
        "too few arguments": last_line(lambda: tf.function(lambda x, y: x)(1)),
        "too many arguments": last_line(lambda: tf.function(lambda x: x)(1, 2)),
        "unknown keyword": last_line(lambda: tf.function(lambda x: x)(1, z=2)),
    }


def _inspection(tf):
    spec = tf.TensorSpec

    def concrete(body, *args, **kwargs):
        return tf.function(body).get_concrete_function(*args, **kwargs)

    return {
        "structured_input_signature": lambda: concrete(lambda x, y=2: x, spec([None, 2])).structured_input_signature,
        "structured_input_signature named": lambda: (
            concrete(lambda x: x, spec([1], name="n")).structured_input_signature
        ),
        "structured_input_signature nested": lambda: (
            concrete(lambda x, **k: x, {"a": spec([1])}, b=spec([2])).structured_input_signature
        ),
        "structured_outputs": lambda: tf.nest.map_structure(
            lambda t: (t.shape, t.dtype), concrete(lambda x: (x, {"a": x + 1}), spec([3])).structured_outputs
        ),
        "pretty_printed_signature": lambda: concrete(
            lambda x, y=2, *, k=None: x, spec([None, 2]), k=spec([1])
        ).pretty_printed_signature(),
        "pretty_printed_signature nested": lambda: concrete(
            lambda x, *r, k=None, **kw: 0, [1, (2.0, None)], {"b": spec([]), "a": "x"}, Pair(1, []), k=[True], z={}
        ).pretty_printed_signature(),
        "ops of traced tensors": lambda: _operations(tf),
        "concrete call": lambda: concrete(lambda x: x + 1, spec([None]))(tf.constant([1.0, 2.0])),
        "concrete of values": lambda: concrete(lambda x, y: x + y, spec([]), 2.0)(tf.constant(1.0)),
    }


def _operations(tf):
    """The types of the ops that compute traced tensors, and their inputs, which losses of Keras look at."""
    scale = tf.Variable(2.0)
    called = tf.function(tf.sigmoid)
    of_variable = tf.function(lambda x: tf.sigmoid(x * scale))
    pair = tf.function(lambda x: (tf.nn.softmax(x), x + 1.0))
    found = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def look(x):
        y = tf.sigmoid(x)
        tensors = [y, tf.nn.softmax(y), x, called(x), of_variable(x), *pair(x), called(y) + 1.0]
        for tensor in tensors:
            found.append((tensor.op.type, len(tensor.op.inputs)))
        found.append((y.op.inputs[0] is x, called(y).op.inputs[0] is y))
        product = tf.matmul(x, [[1.0], [2.0]])
        found.append((product.op.type, [each.shape.as_list() for each in product.op.inputs]))
        return y + product

    look(tf.ones([3, 2]))
    return found


def _concrete(tf):
    class Model:
        w, b = tf.Variable(2.0), tf.Variable(1.0)

    def scaled(model, x):
        return model.w * x + model.b

    def power(a, b):
        return a**b

    def concrete(function, *args, **kwargs):
        return tf.function(function, autograph=False).get_concrete_function(*args, **kwargs)

    def leaked():
        found = []
        tf.function(lambda x: found.append(x) or x, autograph=False)(tf.constant(1))
        return hasattr(found[0], "numpy"), hasattr(tf.constant(1), "numpy")

    @tf.py_function(Tout=tf.TensorSpec([], tf.float32))
    def python_plus(x, y):
        return x + y

    @tf.numpy_function(Tout=tf.TensorSpec([], tf.float32))
    def numpy_plus(x, y):
        return x + y

    one, three = tf.constant(1.0), tf.constant(3.0)
    text = tf.TensorSpec([], tf.string)
    return {
        "concrete printed": lambda: str(concrete(lambda a: a + a, text)),
        "concrete without rank printed": lambda: str(concrete(power, tf.TensorSpec(None), b=2)),
        "function type": lambda: str(concrete(power, tf.TensorSpec(None), b=2).function_type),
        "function type shown": lambda: repr(concrete(lambda a: a + a, text).function_type),
        "inference function": lambda: concrete(lambda a: a + a, text).inference_fn(tf.constant("x")),
        "the object left out": lambda: concrete(scaled, Model(), one)(three),
        "the object named": lambda: concrete(scaled, Model(), one)(x=three),
        "the number left out": lambda: concrete(power, 2.0, tf.TensorSpec([]))(three),
        "the number given": lambda: concrete(power, 2.0, tf.TensorSpec([]))(2.0, three),
        "a tensor's numpy": leaked,
        "decorated": lambda: [python_plus(one, three), numpy_plus(one, three)],
        "decorated, traced": lambda: tf.function(python_plus)(one, three),
        "decorated name": lambda: python_plus.__name__,
    }
