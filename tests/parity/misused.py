"""Misuse of tapes, scalars and pipelines raises at once, and consumes nothing."""


def programs(tf):
    return {**_tapes(tf), **_scalars(tf), **_pipelines(tf)}


def _message(run):
    try:
        return run()
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def _tapes(tf):
    def requested(target=lambda y: y, sources=lambda x: x, method="gradient"):
        def run():
            x = tf.Variable([2.0])
            with tf.GradientTape() as tape:
                y = x * x
            rejected = _message(lambda: getattr(tape, method)(target(y), sources(x)))
            return rejected, _message(lambda: tape.gradient(y, x))

        return run

    return {
        "by a text": requested(sources=lambda x: "x"),
        "by a number": requested(sources=lambda x: 3.5),
        "by nothing": requested(sources=lambda x: None),
        "by something in a list": requested(sources=lambda x: [x, "a"]),
        "by nothing in a dict": requested(sources=lambda x: {"x": x, "none": None}),
        "by no sources": requested(sources=lambda x: []),
        "of a text": requested(target=lambda y: "y"),
        "of nothing": requested(target=lambda y: None),
    }


def _scalars(tf):
    return {
        "a scalar's element": lambda: tf.constant(1.0)[0],
        "a scalar's slice": lambda: tf.constant(1.0)[:],
        "a scalar's last element": lambda: tf.constant(1.0)[..., 0],
        "a vector's second axis": lambda: tf.constant([1.0])[0, 0],
        "a Variable's element": lambda: tf.Variable(1.0)[0],
    }


def _pipelines(tf):
    data = tf.data

    def options():
        made = data.Options()
        made.experimental_deterministic = False
        made.experimental_threading.private_threadpool_size = 3
        message = made.deterministic, made.threading.private_threadpool_size
        made.deterministic = True
        return *message, made.experimental_deterministic

    def bucketed():
        rows = data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [1, 2]]))
        return rows.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [2], [2, 2])

    return {"older names of options": options, "ragged rows in buckets": bucketed}
