"""How libraries written on TensorFlow use it, besides calling its functions."""

import pickle
import threading


def programs(tf):
    return {
        **_named(tf),
        **_caught(tf),
        **_pickled(tf),
        **_one(tf),
        **_raw(tf),
        **_xla(tf),
        **_images_of_any_size(tf),
        **_together(tf),
        **_distinguished(tf),
    }


def in_sweep(label):
    """Images of any size are convolved with borders, and without in steps of two, by default."""
    return label in ("any size, valid", "any size, padded")


def _named(tf):
    """Names that programs mention without calling what they name."""
    types = tf.types.experimental
    double = tf.function(lambda x: x * 2.0)

    def kinds():
        one = double.get_concrete_function(tf.TensorSpec([]))
        requested = (types.GenericFunction, types.PolymorphicFunction, types.ConcreteFunction, types.Callable)
        return [(isinstance(double, kind), isinstance(one, kind)) for kind in requested]

    def decorated():
        @tf.function
        def f(x):
            return x + 1.0

        f._decorate(lambda inner: lambda x: inner(x) * 10.0)
        return f(tf.constant(2.0))

    def decorated_late():
        f = tf.function(lambda x: x)
        f(1.0)
        f._decorate(lambda inner: inner)

    class Ours(tf.distribute.TPUStrategy):
        pass

    unheld = (tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32, tf.resource, tf.variant)
    return {
        "kinds of functions": kinds,
        "decorated in place": decorated,
        "decorated too late": decorated_late,
        "a strategy for other devices": lambda: isinstance(
            tf.distribute.get_strategy(), (tf.distribute.TPUStrategy, Ours)
        ),
        "no op of this name": lambda: hasattr(tf.raw_ops, "NoSuchOp"),
        "dtypes": lambda: [(repr(t), str(t), t.as_datatype_enum, t.is_quantized) for t in unheld],
        "dtypes' kinds": lambda: [(t.is_integer, t.is_floating, t.is_complex, t.is_bool) for t in unheld],
        "the version": lambda: isinstance(tf.version.GIT_VERSION, str),
        "dtypes among others": lambda: tf.constant(1.0).dtype in unheld,
        "a dtype by its name": lambda: (tf.as_dtype("variant"), tf.as_dtype("qint8") == tf.qint8),
        "quantized dtypes": lambda: [t in tf.dtypes.QUANTIZED_DTYPES for t in unheld],
    }


def _caught(tf):
    """``except`` with a name, converted."""

    @tf.function
    def recovered(x):
        try:
            y = x + 1.0 if x > 0.0 else x - 1.0
            {}["a"]
        except KeyError as error:
            y = y * 2.0
            missing = str(error)
        except (TypeError, ValueError) as error:
            missing = error
        if missing == "'a'" and y > 0.0:
            y = y + 10.0
        return y

    @tf.function
    def chained(x):
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise TypeError(f"outer of {inner}") from inner

    @tf.function
    def repeated(x):
        for i in tf.range(3):
            try:
                x += tf.cast(i, tf.float32)
                raise ValueError
            except ValueError as error:
                del error
                if x > 1.0:
                    x *= 2.0
        return x

    return {
        "caught": lambda: (recovered(tf.constant(2.0)), recovered(tf.constant(-2.0))),
        "caught and raised again": lambda: chained(1.0),
        "caught in a loop": lambda: repeated(tf.constant(0.0)),
    }


def _pickled(tf):
    functions = (tf.nn.relu, tf.tanh, tf.reduce_sum, tf.math.lgamma, tf.concat, tf.sparse.to_dense)
    return {"pickled functions": lambda: [pickle.loads(pickle.dumps(f)) is f for f in functions]}


def _one(tf):
    """TensorFlow 1's names in programs of TensorFlow 2."""
    one = tf.compat.v1
    x = tf.constant([[4.0, 1.0], [1.0, 3.0]])

    def verbosity():
        before = one.logging.get_verbosity()
        one.logging.set_verbosity(one.logging.ERROR)
        after = one.logging.get_verbosity()
        one.logging.set_verbosity(before)
        return after, one.logging.DEBUG, one.logging.INFO, one.logging.WARN, one.logging.FATAL

    def seeded():
        one.set_random_seed(3)
        return one.random_uniform([2]).shape, one.random_normal([3], 1.0, 0.0)

    rows, others = (
        tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        tf.constant([[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]]),
    )

    def chosen(condition, x=rows, y=others):
        return lambda: one.where(condition, x, y)

    @tf.function
    def slope(condition, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = one.where(condition, x, 2.0 * x)
        return tape.gradient(y, x)

    def colocated():
        with one.colocate_with(x):
            return tf.round(one.matrix_inverse(x) * 1e3)

    return {
        "verbosity": verbosity,
        "linear algebra": lambda: (tf.round(one.matrix_determinant(x)), one.cholesky(x), one.diag([1.0, 2.0])),
        "elementwise": lambda: (
            one.log(x),
            one.lgamma(x),
            one.is_nan(x),
            one.squared_difference(x, 1.0),
            one.mod(7, 3),
        ),
        "segments": lambda: (one.segment_sum(x, [0, 0]), one.unsorted_segment_max(x, [1, 0], 2)),
        "drawn": seeded,
        "beside another": colocated,
        "chosen by rows": chosen([True, False, True]),
        "chosen by elements": chosen(rows > 2.0),
        "chosen by one": chosen(True),
        "chosen places": lambda: one.where([True, False, True]),
        "chosen of vectors": chosen([True, False], [1, 2], [3, 4]),
        "chosen, refused rows": chosen([True, False]),
        "chosen, refused shape": chosen([[True], [False], [True]]),
        "chosen, refused others": chosen([True, False, True], rows, [1.0, 2.0]),
        "chosen, a scalar": chosen([True, False], 1.0, others),
        "chosen, the gradient": lambda: slope(tf.constant([True, False, True]), rows),
        "sizes below -1": lambda: tf.reshape(rows, [1, -2]),
        "sizes below -1, computed": lambda: tf.reshape(rows, tf.concat([tf.shape(rows)[:1], [-3]], 0)),
    }


def _raw(tf):
    raw = tf.raw_ops
    x = tf.reshape(tf.range(8.0), [1, 2, 2, 2])
    scale, offset, mean, variance = (tf.constant(v) for v in ([1.0, 2.0], [0.0, 1.0], [0.5, 0.25], [2.0, 3.0]))
    square = tf.reshape(tf.range(9), [3, 3])

    def normalized(training, factor=1.0, x=x, data_format="NHWC"):
        def program():
            made = raw.FusedBatchNormV3(
                x=x, scale=scale, offset=offset, mean=mean, variance=variance, is_training=training,
                exponential_avg_factor=factor, data_format=data_format,
            )  # fmt: skip
            return [(round(float(tf.reduce_sum(t)), 3), t.shape) for t in made]

        return program

    def slope():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = raw.FusedBatchNormV2(x=x, scale=scale, offset=offset, mean=[], variance=[]).y
            loss = tf.reduce_sum(y**3)
        return tf.round(tape.gradient(loss, x) * 100.0)

    @tf.function
    def reduced(a, b):
        found = raw.BroadcastGradientArgs(s0=tf.shape(a), s1=tf.shape(b))
        return found.r0, found.r1

    sizes = (([2, 1, 3], [4, 1, 5, 3]), ([2, 3], [2, 3]), ([], [2, 3]), ([1, 3], [1, 3]), ([1, 3], [2, 1, 3]))
    return {
        "batch norm, training": normalized(True),
        "batch norm, running": normalized(True, 0.5),
        "batch norm, inference": normalized(False),
        "batch norm's gradient": slope,
        "axes to reduce": lambda: [
            tuple(axes.numpy().tolist() for axes in raw.BroadcastGradientArgs(s0=a, s1=b)) for a, b in sizes
        ],
        "axes to reduce, traced": lambda: reduced(tf.ones([1, 3]), tf.ones([2, 1])),
        "axes to reduce, refused": lambda: raw.BroadcastGradientArgs(s0=[2], s1=[3]),
        "gamma": lambda: tf.round(1e3 * raw.RandomGammaGrad(alpha=[0.5, 4.0, 50.0], sample=[1e-3, 9.0, 45.0])),
        "incomplete gamma": lambda: tf.round(1e4 * raw.IgammaGradA(a=[0.5, 4.0], x=[1e-3, 9.0])),
        "diagonals": lambda: raw.MatrixDiagPartV2(input=square, k=[-1, 1], padding_value=9),
        "diagonals, aligned": lambda: raw.MatrixDiagPartV3(input=square, k=[0, 1], padding_value=9, align="LEFT_RIGHT"),
    }


def _xla(tf):
    compile, scope = tf.xla.experimental.compile, tf.xla.experimental.jit_scope
    x = tf.constant([1.0, 2.0])

    @tf.function
    def inside(x):
        with scope():
            return compile(lambda a: a * 2.0, [x])

    def eager_scope():
        with scope():
            return x + 1.0

    return {
        "compiled": lambda: compile(lambda: x + 1.0),
        "compiled, several": lambda: compile(lambda a: (a, a + 1.0), [x]),
        "compiled, nested": lambda: compile(lambda a: {"a": a + 1.0, "b": (a, 2)}, [x]),
        "compiled inside": lambda: inside(x),
        "compiled, an eager scope": eager_scope,
    }


def _images_of_any_size(tf):
    x = tf.reshape(tf.range(60.0), [1, 6, 5, 2]) / 10.0
    first = tf.reshape(tf.cos(tf.range(54.0)), [3, 3, 2, 3])
    second = tf.reshape(tf.sin(tf.range(108.0)), [3, 3, 3, 4])
    signature = [tf.TensorSpec([None, None, None, 2])]

    def trained(padding, strides=1):
        @tf.function(input_signature=signature)
        def slopes(x):
            with tf.GradientTape() as tape:
                tape.watch((x, first, second))
                y = tf.nn.relu(tf.nn.conv2d(x, first, strides, padding))
                loss = tf.reduce_sum(tf.nn.conv2d(y, second, 1, "SAME"))
            return [tf.reduce_sum(tf.abs(slope)) for slope in tape.gradient(loss, (x, first, second))]

        return lambda: [f"{float(slope):.4g}" for given in (x, x[:, :4, :4]) for slope in slopes(given)]

    def transposed(padding, more):
        def grown(x):
            filters = tf.reshape(second[..., :2], [3, 3, 3, 2])
            return tf.nn.conv2d_transpose(x, filters, tf.shape(x) + [0, more, more, 1], 1, padding)

        grown = tf.function(grown).get_concrete_function(*signature)
        return lambda: [(y.shape, f"{float(tf.reduce_sum(y)):.4g}") for y in map(grown, (x, x[:, :3, :3]))]

    return {
        "any size, the same": trained("SAME"),
        "any size, valid": trained("VALID"),
        "any size, strided": trained("VALID", 2),
        "any size, padded": trained([[0, 0], [1, 2], [2, 0], [0, 0]]),
        "any size, transposed": transposed("SAME", 0),
        "any size, transposed and larger": transposed("VALID", 2),
    }


def _together(tf):
    """Threads that a coordinator stops."""
    coordinator = tf.train.Coordinator

    def run(*bodies, **kwargs):
        ours = coordinator(**kwargs)
        threads = [threading.Thread(target=body, args=(ours,)) for body in bodies]
        for thread in threads:
            thread.start()
        ours.join(threads)
        return ours.joined, ours.should_stop()

    def waits(ours):
        ours.wait_for_stop()

    def fails(kind):
        def body(ours):
            with ours.stop_on_exception():
                raise kind("no more")

        return body

    def late():
        ours = coordinator()
        ours.join([])
        with ours.stop_on_exception():
            raise ValueError("too late")

    def again():
        ours = coordinator()
        ours.request_stop()
        message = [ours.should_stop(), ours.joined]
        ours.clear_stop()
        return [*message, ours.should_stop(), ours.wait_for_stop(0.001)]

    def left():
        ours, end = coordinator(), threading.Event()
        thread = threading.Thread(target=end.wait, name="left", daemon=True)
        thread.start()
        ours.register_thread(thread)
        ours.request_stop()
        try:
            ours.join(stop_grace_period_secs=0.01)
        finally:
            end.set()

    return {
        "threads asked to stop": lambda: run(waits, lambda ours: ours.request_stop()),
        "a thread that fails": lambda: run(waits, fails(ValueError)),
        "a thread at its end": lambda: run(waits, fails(StopIteration), clean_stop_exception_types=(StopIteration,)),
        "stopped after joining": late,
        "stopped and cleared": again,
        "a thread that stays": left,
    }


def _distinguished(tf):
    """Fingerprints of saved models."""
    kind, policy = tf.saved_model.experimental.Fingerprint, tf.saved_model.experimental.VariablePolicy
    one = kind(1, 2, 3, 4, 5)
    policies = (None, "SAVE_VARIABLE_DEVICES", policy.EXPAND_DISTRIBUTED_VARIABLES)

    def rejected_by(call):
        try:
            call()
        except Exception as error:
            return type(error).__name__

    return {
        "a fingerprint": lambda: (repr(one), str(one), one.singleprint(), one == kind(1, 2, 3, 4, 5, 6)),
        "other fingerprints": lambda: (one == kind(1, 2, 3, 4, 6), one == 3, kind().version),
        "half a fingerprint": lambda: rejected_by(lambda: kind(1).singleprint()),
        "no model": lambda: rejected_by(lambda: tf.saved_model.experimental.read_fingerprint("/nowhere")),
        "policies": lambda: [
            tf.saved_model.SaveOptions(experimental_variable_policy=p).experimental_variable_policy.name
            for p in policies
        ],
        "no policy": lambda: tf.saved_model.SaveOptions(experimental_variable_policy="none of them"),
    }
