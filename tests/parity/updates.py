"""Assignments to parts of Variables, and the arguments of their constructor."""


def programs(tf):
    made = {}
    for label, (values, update) in _updates(tf).items():
        made[label] = _eager(tf, values, update)
        made[f"{label}, traced"] = _traced(tf, values, update)
    return made | _errors(tf) | _reads(tf) | _making(tf)


MATRIX = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def _eager(tf, values, update):
    def program():
        v = tf.Variable(values, name="v")
        return update(v), v

    return program


def _traced(tf, values, update):
    v = tf.Variable(values, name="v")

    @tf.function
    def run():
        update(v)
        return v.read_value()

    return lambda: (run(), v)


def _updates(tf):
    def rows(values, indices):
        return tf.IndexedSlices(tf.constant(values), tf.constant(indices))

    def scatter(how, values, indices):
        return MATRIX, lambda v: getattr(v, f"scatter_{how}")(rows(values, indices))

    def scatter_nd(how, indices, values):
        return MATRIX, lambda v: getattr(v, f"scatter_nd_{how}")(indices, values)

    made = {
        "a row": (MATRIX, lambda v: v[1, :].assign([9.0, 9.0])),
        "a row by one number": (MATRIX, lambda v: v[1].assign(7.0)),
        "a column": (MATRIX, lambda v: v[:, 0].assign([1.0, 1.0, 1.0])),
        "an element": (MATRIX, lambda v: v[2, 1].assign(0.0)),
        "everything": (MATRIX, lambda v: v[...].assign(tf.zeros([3, 2]))),
        "the last row": (MATRIX, lambda v: v[-1].assign([1.0, 2.0])),
        "every other row": (MATRIX, lambda v: v[::2].assign(tf.ones([2, 2]))),
        "rows backwards": (MATRIX, lambda v: v[::-1].assign([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])),
        "with a new axis": (MATRIX, lambda v: v[tf.newaxis, 1].assign([[4.0, 4.0]])),
        "a row broadcast": (MATRIX, lambda v: v[:2].assign([[3.0, 3.0]])),
        "a row by a tensor": (MATRIX, lambda v: v[tf.constant(1)].assign([8.0, 8.0])),
        "nothing": (MATRIX, lambda v: v[1:1].assign(tf.zeros([0, 2]))),
        "integers": ([1, 2, 3], lambda v: v[1:].assign([7, 8])),
        "a cube's plane": ([[[1.0, 2.0], [3.0, 4.0]]], lambda v: v[..., 1].assign([[5.0, 6.0]])),
        "scatter_update": scatter("update", [[2.0, 2.0], [0.5, 8.0]], [0, 2]),
        "scatter_mul": scatter("mul", [[2.0, 2.0], [0.5, 8.0]], [0, 2]),
        "scatter_div": scatter("div", [[2.0, 2.0], [0.5, 8.0]], [0, 2]),
        "scatter by one number": (MATRIX, lambda v: v.scatter_add(rows(1.0, [0, 1]))),
        "scatter at a matrix of indices": scatter("add", [[[1.0, 2.0]], [[3.0, 4.0]]], [[0], [0]]),
        "scatter_nd_update of rows": scatter_nd("update", [[1], [0]], [[7.0, 0.0], [1.0, 1.0]]),
        "batch_scatter_update": (
            [[1.0, 2.0], [3.0, 4.0]],
            lambda v: v.batch_scatter_update(rows([[10.0], [20.0]], [[1], [0]])),
        ),
        "count_up_to": (0, lambda v: v.count_up_to(3)),
    }
    for how in ("add", "sub", "max", "min", "mul", "div"):
        made[f"scatter_{how} of one row twice"] = scatter(how, [[2.0, 2.0], [4.0, 0.5]], [1, 1])
    for how in ("add", "sub", "update", "max", "min"):
        made[f"scatter_nd_{how} of elements"] = scatter_nd(how, [[0, 1], [2, 0]], [10.0, 20.0])
    return made


def _errors(tf):
    def rows(values, indices):
        return tf.IndexedSlices(tf.constant(values), tf.constant(indices))

    def on(update, values=MATRIX):
        """What is refused, and the value that stays."""

        def program():
            v = tf.Variable(values, name="v")
            try:
                return update(v)
            except Exception as error:
                text = str(error).partition(" [Op:")[0].partition("}} ")
                return type(error).__name__, text[2] or text[0], v.numpy().tolist()

        return program

    return {
        "slice of another shape": on(lambda v: v[1].assign([1.0, 2.0, 3.0])),
        "slice of another dtype": on(lambda v: v[1].assign(tf.constant([1, 2]))),
        "slice out of range": on(lambda v: v[5].assign([1.0, 2.0])),
        "scatter of a tensor": on(lambda v: v.scatter_add(tf.constant(1.0))),
        "scatter out of range": on(lambda v: v.scatter_add(rows([[2.0, 2.0]], [3]))),
        "scatter at a negative index": on(lambda v: v.scatter_update(rows([[2.0, 2.0]], [-1]))),
        "scatter of another dtype": on(lambda v: v.scatter_add(rows([[2, 2]], [1]))),
        "scatter_nd out of range": on(lambda v: v.scatter_nd_update([[3]], [[7.0, 0.0]])),
        "scatter_nd of another shape": on(lambda v: v.scatter_nd_add([[1]], [[7.0, 0.0, 1.0]])),
        "sparse_read out of range": on(lambda v: v.sparse_read([7])),
        "counted up": on(lambda v: v.count_up_to(2), 2),
    }


def _reads(tf):
    def reads(v):
        return v.sparse_read([2, 0]), v.gather_nd([[0, 1], [2, 0]])

    v = tf.Variable(MATRIX)
    traced = tf.function(lambda: reads(v))

    def gradient():
        with tf.GradientTape() as tape:
            y = v.sparse_read([2, 2])
        return tf.nest.flatten(tape.gradient(y, v), expand_composites=True)

    return {"reads": lambda: reads(v), "reads, traced": traced, "gradient of sparse_read": gradient}


def _making(tf):
    def unknown_shape():
        v = tf.Variable([1.0], shape=tf.TensorShape(None), name="v")
        v.assign([[1.0, 2.0]])
        return v, v.shape, v.read_value().shape

    def reported_shape():
        v = tf.Variable([[1.0, 2.0]], shape=tf.TensorShape([None, 2]))
        v.set_shape([1, 2])
        return v.shape

    def created():
        keys = []

        def outer(make, **options):
            keys.append(("outer", sorted(options)))
            return make(**(options | {"trainable": False}))

        def inner(make, **options):
            keys.append("inner")
            return make(**(options | {"name": f"made_{options['name']}"}))

        with tf.variable_creator_scope(outer), tf.variable_creator_scope(inner):
            v = tf.Variable(1.0, name="v")
        return v, v.trainable, keys

    def options():
        v = tf.Variable(
            1.0,
            aggregation=tf.VariableAggregation.MEAN,
            synchronization=tf.VariableSynchronization.ON_READ,
            constraint=tf.nn.relu,
        )
        return v.aggregation, v.synchronization, v.constraint is tf.nn.relu, v.is_initialized()

    return {
        "unknown shape": unknown_shape,
        "partly known shape": lambda: tf.Variable([1.0], shape=[None]).assign([1.0, 2.0]),
        "partly known shape, refused": lambda: tf.Variable([1.0], shape=[None], name="v").assign([[1.0]]),
        "another shape than told": lambda: tf.Variable([1.0, 2.0], shape=[3]),
        "set_shape": reported_shape,
        "set_shape, refused": lambda: tf.Variable([1.0]).set_shape([2]),
        "initial value as a function": lambda: tf.Variable(lambda: [1.0, 2.0]),
        "options": options,
        "unknown aggregation": lambda: tf.Variable(1.0, aggregation="some"),
        "unknown synchronization": lambda: tf.Variable(1.0, synchronization="some"),
        "a constraint that is no function": lambda: tf.Variable(1.0, constraint=3),
        "creators": created,
        "load": lambda: tf.Variable(1.0).load(3.0),
        "enumerations": lambda: (tf.VariableAggregation.SUM, [m.value for m in tf.VariableSynchronization]),
    }
